#include "cli/fair.h"

#include "cli/text.h"

#include <math.h>
#include <string.h>

#define PREFIX_ROWS 12u
#define PREFIX_TENANTS 6u

const char *fair_amount(uint64_t millionths, char out[static FAIR_AMOUNT_BYTES])
{
    char whole[CLI_AMOUNT_BYTES];
    uint64_t cents = millionths / 10000 + (millionths % 10000 >= 5000);
    cli_amount((int64_t)(cents / 100), whole);
    if (cents % 100 == 0)
        snprintf(out, FAIR_AMOUNT_BYTES, "%s", whole);
    else if (cents % 10 == 0)
        snprintf(out, FAIR_AMOUNT_BYTES, "%s.%u", whole, (unsigned)(cents % 100 / 10));
    else
        snprintf(out, FAIR_AMOUNT_BYTES, "%s.%02u", whole, (unsigned)(cents % 100));
    return out;
}

static const char *time_text(uint64_t ns, char out[static FAIR_AMOUNT_BYTES])
{
    char amount[FAIR_AMOUNT_BYTES];
    bool is_short = ns < 10 * WEIR_NS_PER_S;
    fair_amount(is_short ? ns : ns / 1000, amount);
    snprintf(out, FAIR_AMOUNT_BYTES, "%.40s %s", amount, is_short ? "ms" : "s");
    return out;
}

static const char *work_text(double work, char out[static FAIR_AMOUNT_BYTES])
{
    return fair_amount((uint64_t)llround(fmax(0, work) * WEIR_UWORK_PER_WORK), out);
}

static const char *plural(uint64_t count, const char *one, const char *many)
{
    return count == 1 ? one : many;
}

/* ---- what was run ---- */

static void print_costs(const struct fair_setup *s)
{
    if (s->cost_text)
        printf("cost %s", s->cost_text);
    else
        printf("input %s, output %s", s->input_text, s->output_text);
    printf("; arrivals %s; estimates %s\n", s->arrivals_text, s->estimates_text);
}

static void print_setup(const struct fair_report *r)
{
    const struct fair_setup *s = r->setup;
    char requests[CLI_AMOUNT_BYTES], permits[CLI_AMOUNT_BYTES];
    for (uint32_t i = 0; i < r->count; i++)
        printf("%s%s", i ? ", " : "", weir_fair_policy_name(r->outcomes[i].policy));
    printf(": %s %s of %u %s, %s %s, ", cli_amount((int64_t)fair_requests(s), requests),
           plural(fair_requests(s), "request", "requests"), s->tenants_count,
           plural(s->tenants_count, "tenant", "tenants"), cli_amount(s->permits, permits),
           plural(s->permits, "permit", "permits"));
    if (s->seeds == 1)
        printf("seed %llu\n", (unsigned long long)s->seed);
    else
        printf("seeds %llu to %llu\n", (unsigned long long)s->seed,
               (unsigned long long)(s->seed + r->runs - 1));
    print_costs(s);
}

/* ---- served against ideal ---- */

static size_t contended_steps(const struct fair_log *log)
{
    size_t count = 0;
    for (size_t i = 0; i < log->count; i++)
        count += log->steps[i].is_contended;
    return count;
}

static void prefix_cell(struct cli_table *table, const struct fair_log *log, size_t step,
                        uint32_t tenant)
{
    char text[3 * FAIR_AMOUNT_BYTES], served[FAIR_AMOUNT_BYTES], ideal[FAIR_AMOUNT_BYTES];
    size_t at = step * log->tenants_count + tenant;
    work_text(log->served[at], served);
    work_text(log->ideal[at], ideal);
    if (log->backlogged[at])
        snprintf(text, sizeof text, "%s / %s", served, ideal);
    else
        snprintf(text, sizeof text, "(%s / %s)", served, ideal);
    cli_table_add(table, text);
}

static void print_prefixes(const struct fair_setup *s, const struct fair_log *log)
{
    uint32_t tenants = (uint32_t)weir_min_u64(s->tenants_count, PREFIX_TENANTS);
    size_t contended = contended_steps(log), passed = 0, rows = 0;
    struct cli_table table = {
        .titles = {"after dispatch"}, .right = {true}, .columns = tenants + 1};
    char number[CLI_AMOUNT_BYTES];
    for (uint32_t i = 0; i < tenants; i++) {
        table.titles[i + 1] = s->tenants[i].name;
        table.right[i + 1] = true;
    }
    size_t wanted = weir_min_u64(contended, PREFIX_ROWS);
    for (size_t i = 0; i < log->count; i++) {
        if (!log->steps[i].is_contended)
            continue;
        if (++passed * wanted < (rows + 1) * contended)
            continue;
        rows++;
        cli_table_add(&table, cli_amount((int64_t)log->steps[i].dispatches, number));
        for (uint32_t k = 0; k < tenants; k++)
            prefix_cell(&table, log, i, k);
    }
    printf("\nServed / ideal, in work, on prefixes while two or more had requests "
           "waiting\n(%s--items lists all prefixes):\n",
           tenants < s->tenants_count ? "the first six tenants; " : "");
    cli_table_print(&table, true);
    puts("Ideal: the same work poured out by weight over all that had some left. In brackets: had\n"
         "nothing waiting.");
}

static void print_items(const struct fair_setup *s, const struct fair_outcome *o)
{
    uint32_t tenants = (uint32_t)weir_min_u64(s->tenants_count, PREFIX_TENANTS);
    struct cli_table table = {.titles = {"dispatch", "at", "tenant", "work"},
                              .right = {true, true, false, true},
                              .columns = tenants + 4};
    for (uint32_t i = 0; i < tenants; i++) {
        table.titles[i + 4] = s->tenants[i].name;
        table.right[i + 4] = true;
    }
    for (size_t i = 0; i < o->log.count; i++) {
        char text[FAIR_AMOUNT_BYTES], number[CLI_AMOUNT_BYTES];
        const struct fair_step *step = &o->log.steps[i];
        const struct weir_fair_item *item = &o->plan->items[step->item];
        cli_table_add(&table, cli_amount((int64_t)step->dispatches, number));
        cli_table_add(&table, time_text(step->at_ns, text));
        cli_table_add(&table, s->tenants[item->tenant].name);
        cli_table_add(&table,
                      fair_amount(weir_fair_work_uwork(item->input_tok, item->output_tok), text));
        for (uint32_t k = 0; k < tenants; k++)
            prefix_cell(&table, &o->log, i, k);
    }
    printf("\nEvery dispatch under %s, and served / ideal after it:\n",
           weir_fair_policy_name(o->policy));
    cli_table_print(&table, true);
}

static void off_cells(struct cli_table *table, const struct weir_fair_off *off, bool is_behind)
{
    char a[FAIR_AMOUNT_BYTES], b[FAIR_AMOUNT_BYTES], c[FAIR_AMOUNT_BYTES],
        text[4 * FAIR_AMOUNT_BYTES];
    double by =
        (is_behind ? off->ideal_uwork - off->served_uwork : off->served_uwork - off->ideal_uwork) /
        WEIR_UWORK_PER_WORK;
    if (off->dispatches == 0) {
        cli_table_add(table, "0");
        cli_table_add(table, "");
        return;
    }
    cli_table_add(table, work_text(by, a));
    snprintf(text, sizeof text, "%s of %s, after %llu",
             work_text(off->served_uwork / WEIR_UWORK_PER_WORK, b),
             work_text(off->ideal_uwork / WEIR_UWORK_PER_WORK, c),
             (unsigned long long)off->dispatches);
    cli_table_add(table, text);
}

static void print_tenants(const struct fair_setup *s, const struct weir_fair_result *result)
{
    struct cli_table table = {
        .titles = {"tenant", "weight", "requests", "farthest behind", "", "farthest ahead", ""},
        .right = {false, true, true, true, false, true, false},
        .columns = 7};
    char text[CLI_AMOUNT_BYTES];
    for (uint32_t i = 0; i < s->tenants_count; i++) {
        const struct weir_fair_tenant *t = &result->tenants[i];
        cli_table_add(&table, s->tenants[i].name);
        cli_table_add(&table, cli_amount(s->tenants[i].weight, text));
        cli_table_add(&table, cli_amount((int64_t)t->items, text));
        off_cells(&table, &t->behind, true);
        off_cells(&table, &t->ahead, false);
    }
    puts("\nThe farthest that each was from its ideal, on any prefix:");
    cli_table_print(&table, true);
}

/* ---- gaps and bounds ---- */

static bool is_shown(enum weir_fair_count count, const struct weir_fair_gap *gap)
{
    return gap->is_bounded || count == WEIR_FAIR_DISPATCHED;
}

static const char *verdict(const struct fair_report *r, const struct fair_outcome *o,
                           const struct weir_fair_gap *gap)
{
    if (o->result.contended == 0)
        return "nothing to compare";
    if (!gap->is_bounded)
        return "no bound";
    if (!gap->is_broken)
        return "holds";
    return fair_is_counterexample(r->setup, o->policy) ? "BROKEN, as it must be" : "BROKEN";
}

static const char *count_text(enum weir_fair_count count)
{
    switch (count) {
    case WEIR_FAIR_DISPATCHED:
        return "work dispatched";
    case WEIR_FAIR_ONE_WAITS:
        return "same, one waits";
    case WEIR_FAIR_DELIVERED:
        return "work delivered";
    case WEIR_FAIR_REQUESTS:
        return "requests";
    }
    return "";
}

static void gap_cells(struct cli_table *table, const struct fair_report *r,
                      const struct fair_outcome *o, enum weir_fair_count count)
{
    const struct weir_fair_gap *gap = &o->result.gaps[count];
    char text[2 * FAIR_AMOUNT_BYTES];
    cli_table_add(table, count_text(count));
    cli_table_add(table, fair_amount(gap->gap, text));
    cli_table_add(table, gap->is_bounded ? fair_amount(gap->bound, text) : "none");
    cli_table_add(table, gap->published ? fair_amount(gap->published, text) : "-");
    cli_table_add(table, verdict(r, o, gap));
    if (gap->ahead == WEIR_NONE) {
        cli_table_add(table, "");
        cli_table_add(table, "");
        cli_table_add(table, "");
        return;
    }
    snprintf(text, sizeof text, "%s over %s", r->setup->tenants[gap->ahead].name,
             r->setup->tenants[gap->behind].name);
    cli_table_add(table, text);
    snprintf(text, sizeof text, "%llu to %llu", (unsigned long long)gap->from.dispatches,
             (unsigned long long)gap->to.dispatches);
    cli_table_add(table, text);
    char from[FAIR_AMOUNT_BYTES], to[FAIR_AMOUNT_BYTES];
    time_text(gap->from.at_ns, from);
    time_text(gap->to.at_ns, to);
    if (gap->to.at_ns == 0)
        snprintf(text, sizeof text, "at the start");
    else if (gap->to.at_ns == gap->from.at_ns)
        snprintf(text, sizeof text, "at %s", to);
    else
        snprintf(text, sizeof text, "%.45s to %.45s", from, to);
    cli_table_add(table, text);
}

static void print_gaps(const struct fair_report *r)
{
    static const char *const titles[] = {"policy",    "counted as", "worst gap", "bound",
                                         "published", "verdict",    "which",     "after dispatch",
                                         "in time",   "seed"};
    static const bool right[] = {false, false, true, true, true, false, false, false, false, true};
    bool has_seeds = r->setup->seeds > 1;
    size_t skipped = r->count == 1; /* one policy: named above */
    struct cli_table table = {.columns = WEIR_COUNT(titles) - skipped - !has_seeds};
    for (size_t i = 0; i < table.columns; i++) {
        table.titles[i] = titles[i + skipped];
        table.right[i] = right[i + skipped];
    }
    for (uint32_t i = 0; i < r->count; i++) {
        const struct fair_outcome *o = &r->outcomes[i];
        for (uint32_t c = 0; c < WEIR_FAIR_COUNTS; c++) {
            char text[CLI_AMOUNT_BYTES];
            if (!is_shown((enum weir_fair_count)c, &o->result.gaps[c]))
                continue;
            if (!skipped)
                cli_table_add(&table, weir_fair_policy_name(o->policy));
            gap_cells(&table, r, o, (enum weir_fair_count)c);
            if (has_seeds)
                cli_table_add(&table, cli_amount((int64_t)o->gap_seeds[c], text));
        }
    }
    puts("\nThe worst gap: service per weight, the smallest weight taken as 1, between two tenants "
         "over\nany interval in which both had requests waiting (one waits: the one behind had):");
    cli_table_print(&table, true);
}

static void print_formula(const struct fair_outcome *o, bool has_estimates)
{
    const char *returned = o->result.facts.returns && has_estimates ? " + P E" : "";
    const char *twice = has_estimates ? " + 2 (2P-1) E" : "";
    switch (o->policy) {
    case WEIR_FAIR_VTC:
        printf("vtc: dispatched 2 L%s%s; delivered 2 P L%s;\n"
               "     published 2 max(w_p L_in, w_q M)%s%s, M = P x largest (input + output)\n",
               has_estimates ? " + 2 (P-1) E" : "", returned, returned,
               has_estimates ? " + 2 P E" : "", returned);
        break;
    case WEIR_FAIR_DRR_COST:
        printf("drr-cost: dispatched 2 L + Q%s%s; published 2 Max + Q%s%s;\n"
               "     delivered 4 P L + Q%s\n",
               twice, returned, twice, returned, returned);
        break;
    case WEIR_FAIR_DRR:
    case WEIR_FAIR_DRR_RESTARTING:
        printf("%s: one turn, in requests; published 2 Max + Q, a request being 1\n",
               weir_fair_policy_name(o->policy));
        break;
    case WEIR_FAIR_FIFO:
        puts("fifo: none; who sends more is served more");
        break;
    }
}

static void print_facts(const struct fair_report *r)
{
    const struct weir_fair_facts *f = &r->outcomes[0].result.facts;
    char input[CLI_AMOUNT_BYTES], request[CLI_AMOUNT_BYTES];
    char a[FAIR_AMOUNT_BYTES], b[FAIR_AMOUNT_BYTES];
    printf("P = %u %s, L = %s the largest work / weight, Max = %s the largest work,\n"
           "L_in = %s the largest input, M = P x %s tokens",
           r->setup->permits, plural(r->setup->permits, "permit", "permits"),
           fair_amount(f->work_max_uwork, a), fair_amount(f->item_max_uwork, b),
           cli_amount((int64_t)f->input_max_tok, input),
           cli_amount((int64_t)f->request_max_tok, request));
    for (uint32_t i = 0; i < r->count; i++)
        if (r->outcomes[i].policy == WEIR_FAIR_DRR_COST)
            printf(", Q = %s the largest quantum",
                   fair_amount(r->outcomes[i].result.facts.quantum_max_uwork, a));
    if (f->error_max_uwork > 0)
        printf(
            ",\nE = %s the largest |used - estimate| / weight; L and Max are of used and estimates",
            fair_amount(f->error_max_uwork, a));
    putchar('\n');
}

static void print_formulas(const struct fair_report *r)
{
    puts("\nBounds (docs/bounds.md):");
    for (uint32_t i = 0; i < r->count; i++)
        print_formula(&r->outcomes[i], r->outcomes[0].result.facts.error_max_uwork > 0);
    if (r->setup->seeds == 1)
        print_facts(r);
}

/* ---- the end ---- */

static void print_totals(const struct fair_report *r)
{
    char text[CLI_AMOUNT_BYTES];
    uint32_t count = r->setup->tenants_count;
    uint32_t shown = (uint32_t)weir_min_u64(count, PREFIX_TENANTS);
    printf("\nAfter all is drained: ");
    for (uint32_t i = 0; i < shown; i++)
        printf("%s%s %s", i ? ", " : "", r->setup->tenants[i].name,
               cli_amount((int64_t)r->setup->tenants[i].backlog, text));
    if (shown < count)
        printf(", and so on for the other %u,", count - shown);
    puts(" served. That is the backlog, and any order\n"
         "serves it: totals after draining prove nothing.");
}

static void print_broken(const struct fair_report *r, const struct fair_outcome *o)
{
    for (uint32_t c = 0; c < WEIR_FAIR_COUNTS; c++) {
        const struct weir_fair_gap *gap = &o->result.gaps[c];
        char by[FAIR_AMOUNT_BYTES], bound[FAIR_AMOUNT_BYTES];
        if (!gap->is_broken)
            continue;
        printf("%s: while %s waited, %s was served %s %s per weight more, from dispatch %llu to "
               "%llu;\n%s is the bound. Who only looks at the totals sees nothing of it.\n",
               weir_fair_policy_name(o->policy), r->setup->tenants[gap->behind].name,
               r->setup->tenants[gap->ahead].name, fair_amount(gap->gap, by),
               c == WEIR_FAIR_REQUESTS ? "requests" : "work",
               (unsigned long long)gap->from.dispatches + 1, (unsigned long long)gap->to.dispatches,
               fair_amount(gap->bound, bound));
    }
    if (r->setup->seeds > 1 && o->result.is_broken)
        printf("%s broke a bound under %llu of %llu seeds.\n", weir_fair_policy_name(o->policy),
               (unsigned long long)o->broken_seeds, (unsigned long long)r->runs);
}

static void print_verdict(const struct fair_report *r)
{
    bool is_bounded = false, is_contended = false;
    for (uint32_t i = 0; i < r->count; i++) {
        const struct fair_outcome *o = &r->outcomes[i];
        is_bounded = is_bounded || o->result.is_bounded;
        is_contended = is_contended || o->result.contended > 0;
        print_broken(r, o);
    }
    if (!is_contended)
        puts("Nothing is proven: no two tenants had requests waiting at the same time. Give more "
             "backlog,\nor arrivals that come faster than permits can serve them.");
    else if (fair_is_broken(r))
        puts("NOT FAIR: a bound is broken.");
    else if (is_bounded)
        puts("Every bound holds.");
    else
        puts("There is no bound that could hold or break.");
}

void fair_show(const struct fair_report *r)
{
    print_setup(r);
    if (r->setup->seeds == 1 && r->count == 1 && r->outcomes[0].result.contended > 0) {
        print_prefixes(r->setup, &r->outcomes[0].log);
        print_tenants(r->setup, &r->outcomes[0].result);
    }
    if (r->wants_items)
        for (uint32_t i = 0; i < r->count; i++)
            print_items(r->setup, &r->outcomes[i]);
    print_gaps(r);
    print_formulas(r);
    print_totals(r);
    print_verdict(r);
}
