#include "cli/fair.h"

#include "cli/commands.h"
#include "cli/text.h"

#include <stdlib.h>

bool fair_is_counterexample(const struct fair_setup *setup, enum weir_fair_policy policy)
{
    return setup->is_all && policy == WEIR_FAIR_DRR_RESTARTING;
}

bool fair_is_broken(const struct fair_report *report)
{
    for (uint32_t i = 0; i < report->count; i++)
        if (report->outcomes[i].result.is_broken &&
            !fair_is_counterexample(report->setup, report->outcomes[i].policy))
            return true;
    return false;
}

/* Nearer to its bound or, without one, larger. */
static bool is_worse(const struct weir_fair_gap *a, const struct weir_fair_gap *b)
{
    if (!a->is_bounded)
        return a->gap > b->gap;
    return (unsigned __int128)a->gap * b->bound > (unsigned __int128)b->gap * a->bound;
}

static void keep_worst(struct fair_outcome *o, const struct weir_fair_result *result, uint64_t seed,
                       bool is_first)
{
    struct weir_fair_result *kept = &o->result;
    o->broken_seeds += result->is_broken;
    if (is_first)
        *kept = *result;
    for (uint32_t c = 0; c < WEIR_FAIR_COUNTS; c++) {
        if (!is_first && !is_worse(&result->gaps[c], &kept->gaps[c]))
            continue;
        kept->gaps[c] = result->gaps[c];
        o->gap_seeds[c] = seed;
    }
    kept->is_broken = kept->is_broken || result->is_broken;
    kept->contended = weir_max_u64(kept->contended, result->contended);
}

static bool run_one(struct fair_report *report, struct fair_outcome *o, uint64_t seed)
{
    struct weir_fair_result result;
    bool is_logged = report->setup->seeds == 1;
    report->plan.policy = o->policy;
    o->plan = &report->plan;
    if (is_logged &&
        !fair_log_init(&o->log, report->setup->tenants_count, report->plan.items_count))
        return false;
    if (!weir_fair_run(&report->plan, is_logged ? fair_log_note : NULL, &o->log, &result))
        return false;
    keep_worst(o, &result, seed, seed == report->setup->seed);
    return true;
}

/* Of the bounds of all policies that count, how near the worst gap came. */
static unsigned worst_percent(const struct fair_report *report)
{
    unsigned worst = 0;
    for (uint32_t i = 0; i < report->count; i++)
        for (uint32_t c = 0; c < WEIR_FAIR_COUNTS; c++) {
            const struct weir_fair_gap *gap = &report->outcomes[i].result.gaps[c];
            if (!gap->is_bounded ||
                fair_is_counterexample(report->setup, report->outcomes[i].policy))
                continue;
            uint64_t percent = weir_muldiv_floor(gap->gap, 100, gap->bound);
            worst = percent > worst ? (unsigned)weir_min_u64(percent, 100000) : worst;
        }
    return worst;
}

static void show_progress(const struct fair_report *report)
{
    char text[160];
    snprintf(text, sizeof text, "run %llu of %llu; nearest to a bound so far: %u %%",
             (unsigned long long)report->runs, (unsigned long long)report->setup->seeds,
             worst_percent(report));
    cli_progress_line(text);
}

static int say_no_memory(void)
{
    fprintf(stderr, "%s: out of memory: take fewer requests\n", FAIR_COMMAND);
    return CLI_FAULT_STATUS;
}

int fair_run(struct fair_report *report)
{
    const struct fair_setup *setup = report->setup;
    struct fair_error error;
    report->items = calloc(fair_requests(setup), sizeof *report->items);
    if (!report->items)
        return say_no_memory();
    for (uint32_t p = 0; p < WEIR_FAIR_POLICIES; p++)
        if (setup->policies[p])
            report->outcomes[report->count++].policy = (enum weir_fair_policy)p;
    if (setup->seeds > 1) /* of a single run there is nothing to show before its end */
        cli_catch_interrupts();
    for (uint64_t seed = setup->seed;
         report->runs < setup->seeds && (report->runs == 0 || !cli_is_interrupted()); seed++) {
        if (!fair_draw(setup, seed, report->weights, report->items, &report->plan, &error)) {
            fprintf(stderr, "%s: %s\n", FAIR_COMMAND, error.text);
            return CLI_USAGE_STATUS;
        }
        for (uint32_t i = 0; i < report->count; i++)
            if (!run_one(report, &report->outcomes[i], seed))
                return say_no_memory();
        report->runs++;
        show_progress(report);
    }
    cli_progress_line("");
    if (report->runs < setup->seeds)
        fprintf(stderr, "%s: stopped after %llu of %llu runs\n", FAIR_COMMAND,
                (unsigned long long)report->runs, (unsigned long long)setup->seeds);
    return CLI_DONE_STATUS;
}

void fair_report_free(struct fair_report *report)
{
    for (uint32_t i = 0; i < report->count; i++)
        fair_log_free(&report->outcomes[i].log);
    free(report->items);
    report->items = NULL;
}
