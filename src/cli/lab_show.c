#include "cli/lab_show.h"

#include "cli/commands.h"
#include "cli/text.h"
#include "core/refusal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char lab_note[] = "Calculated by a deterministic synthetic model, not measured; docs/lab.md "
                        "says what it leaves out.";

/* ---- cells ---- */

const char *lab_cell(enum lab_unit unit, double value, char out[LAB_CELL_BYTES])
{
    char amount[CLI_AMOUNT_BYTES];
    if (!isfinite(value)) {
        snprintf(out, LAB_CELL_BYTES, "-");
        return out;
    }
    switch (unit) {
    case LAB_UNIT_COUNT:
        if (fabs(value - round(value)) < 0.001 || fabs(value) >= 1000)
            snprintf(out, LAB_CELL_BYTES, "%s", cli_amount(llround(value), amount));
        else
            snprintf(out, LAB_CELL_BYTES, "%.1f", value);
        break;
    case LAB_UNIT_SECONDS:
        if (fabs(value) < 1)
            snprintf(out, LAB_CELL_BYTES, "%.0f ms", value * 1000 + 0.0);
        else
            snprintf(out, LAB_CELL_BYTES, fabs(value) < 100 ? "%.2f s" : "%.0f s", value);
        break;
    case LAB_UNIT_RATE:
        if (fabs(value) >= 100)
            snprintf(out, LAB_CELL_BYTES, "%s", cli_amount(llround(value), amount));
        else
            snprintf(out, LAB_CELL_BYTES, "%.2f", value);
        break;
    case LAB_UNIT_PERCENT:
        snprintf(out, LAB_CELL_BYTES, "%.1f %%", value * 100);
        break;
    case LAB_UNIT_INDEX:
        snprintf(out, LAB_CELL_BYTES, "%.3f", value);
        break;
    }
    if (strncmp(out, "-0", 2) == 0 && strspn(out, "-0.,") == strcspn(out, " "))
        memmove(out, out + 1, strlen(out)); /* nothing is below nothing */
    return out;
}

json_t *lab_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

void lab_put_csv_number(double value)
{
    if (isfinite(value))
        printf(",%.6g", value);
    else
        putchar(',');
}

const char *lab_tenant_name(const struct lab_setup *setup, uint32_t row)
{
    return row < setup->map->scenario.tenant_count ? setup->map->tenants[row].name : "all";
}

void lab_collect(const struct lab_batch *batch, uint32_t row, enum lab_figure figure,
                 double *values)
{
    for (uint32_t i = 0; i < batch->count; i++)
        values[i] = batch->runs[i].tenants[row][figure];
}

void lab_collect_whole(const struct lab_batch *batch, enum lab_whole figure, double *values)
{
    for (uint32_t i = 0; i < batch->count; i++)
        values[i] = batch->runs[i].whole[figure];
}

void lab_put_head(const struct lab_setup *setup)
{
    printf("%s%s%s\n", setup->name, *setup->about ? ": " : "", setup->about);
    if (*setup->changes)
        printf("with %s\n", setup->changes);
}

/* ---- the table of one run ---- */

static void put_tenants(const struct lab_setup *setup, const struct lab_figures *figures)
{
    static const enum lab_figure shown[] = {LAB_SENT,     LAB_FINISHED, LAB_REFUSED,  LAB_FAILED,
                                            LAB_WAIT_P50, LAB_WAIT_P95, LAB_WAIT_P99, LAB_FIRST_P50,
                                            LAB_TOKENS,   LAB_GOOD};
    _Static_assert(WEIR_COUNT(shown) + 1 <= CLI_COLUMNS_MAX, "a column of the table each");
    struct cli_table table = {.titles = {"tenant"}, .columns = WEIR_COUNT(shown) + 1};
    for (size_t i = 0; i < WEIR_COUNT(shown); i++) {
        table.titles[i + 1] = lab_figure_rows[shown[i]].title;
        table.right[i + 1] = true;
    }
    uint32_t count = setup->map->scenario.tenant_count;
    for (uint32_t row = 0; row <= count; row++) {
        cli_table_add(&table, lab_tenant_name(setup, row));
        for (size_t i = 0; i < WEIR_COUNT(shown); i++) {
            char cell[LAB_CELL_BYTES];
            cli_table_add(&table, lab_cell(lab_figure_rows[shown[i]].unit,
                                           figures->tenants[row][shown[i]], cell));
        }
    }
    cli_table_print(&table, true);
}

static void put_refusals(const struct lab_setup *setup, const struct weir_lab_results *results)
{
    bool any = false;
    for (uint32_t t = 0; t < setup->map->scenario.tenant_count; t++) {
        const struct weir_lab_tenant_results *r = &results->tenants[t];
        bool is_first = true;
        for (int reason = 1; reason < WEIR_REFUSAL_COUNT; reason++) {
            char amount[CLI_AMOUNT_BYTES];
            if (!r->refusals[reason])
                continue;
            if (!any)
                puts("\ntries that were refused:");
            any = true;
            printf("%s%s %s", is_first ? "  " : ", ",
                   cli_amount((int64_t)r->refusals[reason], amount),
                   weir_refusal_row((enum weir_refusal)reason)->code);
            is_first = false;
        }
        if (!is_first)
            printf(" of %s\n", setup->map->tenants[t].name);
    }
}

static void put_upstreams(const struct lab_setup *setup, const struct weir_lab_results *results)
{
    for (uint32_t u = 0; u < setup->map->scenario.upstream_count; u++) {
        const struct weir_lab_upstream *upstream = &setup->map->upstreams[u];
        const struct weir_lab_upstream_results *r = &results->upstreams[u];
        double open_ns = 0;
        for (uint32_t i = 0; i < results->bin_count; i++)
            open_ns += (double)r->bins[i].open_ns;
        double whole_ns = (double)upstream->backend.replicas * (double)results->now_ns;
        char busy[LAB_CELL_BYTES], open[LAB_CELL_BYTES];
        printf("%s: %u replicas x %u, busy %s; at most %u in flight, of %u", upstream->name,
               upstream->backend.replicas, upstream->backend.sequences,
               lab_cell(LAB_UNIT_PERCENT, (double)r->backend.busy_ns / whole_ns, busy),
               r->in_flight_max, upstream->rules.permits);
        if (open_ns > 0)
            printf("; breaker not closed for %s", lab_cell(LAB_UNIT_SECONDS, open_ns / 1e9, open));
        putchar('\n');
    }
}

/* The worst window of ten seconds, in work or (drr) in requests. */
static void put_gap(const struct lab_setup *setup, const struct weir_lab_results *results,
                    bool in_requests)
{
    struct lab_gap gap;
    char amount[LAB_CELL_BYTES], bound[LAB_CELL_BYTES];
    if (!lab_worst_gap(setup->map, results, in_requests, &gap))
        return;
    const struct weir_gap_window *w = gap.window;
    const struct weir_pool_rules *pool = &setup->map->pools[gap.pool];
    printf(
        "%s: at worst, in ten seconds up to %.0f s, %s was ahead of %s by %s (%s for its weight) "
        "while both waited; ",
        weir_sched_policy_name(pool->policy), (double)gap.ended_ns / 1e9,
        setup->map->tenants[w->ahead].name, setup->map->tenants[w->behind].name,
        lab_cell(LAB_UNIT_COUNT, (double)w->gap_uwork / 1e6, amount),
        in_requests ? "requests" : "work");
    if (w->bound_uwork == WEIR_GAP_NO_BOUND)
        fputs("this order has no bound", stdout);
    else
        printf("the bound is %s", lab_cell(LAB_UNIT_COUNT, (double)w->bound_uwork / 1e6, bound));
    printf(". Jain's index of the %u that waited: %.3f\n", w->compared, w->jain_ppm / 1e6);
}

/* Windows of any length in which the lane's bound was broken. */
static uint64_t count_broken(const struct weir_lab_gap_results *lane)
{
    uint64_t broken = 0;
    for (uint32_t i = 0; i < WEIR_GAP_WINDOWS; i++)
        broken += lane->now.windows[i].broken;
    return broken;
}

static void put_broken(const struct lab_setup *setup, const struct weir_lab_results *results)
{
    uint64_t broken = 0;
    for (uint32_t pool = 0; pool < setup->map->scenario.pool_count; pool++)
        for (uint32_t lane = 0; lane < setup->map->scenario.lanes.lane_count; lane++)
            broken += count_broken(&results->gaps[pool][lane]);
    if (broken)
        printf("A BOUND WAS BROKEN in %llu windows: this is a fault of weir; please report it\n",
               (unsigned long long)broken);
}

static void put_scopes(const struct lab_setup *setup, const struct weir_lab_results *results)
{
    for (uint32_t i = 0; i < setup->map->scenario.scope_count; i++) {
        const struct weir_lab_scope_results *r = &results->scopes[i];
        char used[CLI_AMOUNT_BYTES], granted[CLI_AMOUNT_BYTES], refused[CLI_AMOUNT_BYTES];
        printf("budget %s: %s of %s tokens used, %s holds refused\n", setup->map->scopes[i].name,
               cli_amount(r->committed_tok, used), cli_amount(r->granted_tok, granted),
               cli_amount((int64_t)r->refused, refused));
    }
}

void lab_show_table(const struct lab_setup *setup, const struct lab_run *run)
{
    static struct lab_figures figures;
    lab_figures_of(setup->map, run->results, run->entries, run->entries_count, &figures);
    lab_put_head(setup);
    printf("seed %llu; the last answer ended after %.1f s\n\n", (unsigned long long)run->seed,
           (double)run->results->now_ns / 1e9);
    put_tenants(setup, &figures);
    put_refusals(setup, run->results);
    putchar('\n');
    put_upstreams(setup, run->results);
    put_scopes(setup, run->results);
    put_gap(setup, run->results, false);
    put_gap(setup, run->results, true);
    put_broken(setup, run->results);
    char cell[LAB_CELL_BYTES];
    printf("service difference: %s of work a second, mean (docs/fairness.md, \"A real trace\")\n",
           lab_cell(LAB_UNIT_RATE, figures.whole[LAB_DIFFERENCE], cell));
    if (run->is_stopped)
        puts("\nStopped before its end: the figures are of what had happened by then.");
    printf("\n%s\n", lab_note);
}

/* ---- CSV ---- */

void lab_show_csv(const struct lab_setup *setup, const struct lab_run *run)
{
    static struct lab_figures figures;
    lab_figures_of(setup->map, run->results, run->entries, run->entries_count, &figures);
    fputs("tenant", stdout);
    for (int f = 0; f < LAB_FIGURES; f++)
        printf(",%s", lab_figure_rows[f].key);
    putchar('\n');
    for (uint32_t row = 0; row <= setup->map->scenario.tenant_count; row++) {
        cli_put_csv(stdout, lab_tenant_name(setup, row));
        for (int f = 0; f < LAB_FIGURES; f++)
            lab_put_csv_number(figures.tenants[row][f]);
        putchar('\n');
    }
}

void lab_show_series(const struct lab_setup *setup, const struct lab_run *run)
{
    const struct weir_lab_results *results = run->results;
    double bin_ns = (double)results->bin_ns;
    puts(
        "from_s,tenant,sent,tries,finished,good,refused,failed,prompt_tokens,output_tokens,waiting,"
        "in_flight,longest_wait_s");
    for (uint32_t i = 0; i < results->bin_count; i++)
        for (uint32_t t = 0; t < setup->map->scenario.tenant_count; t++) {
            const struct weir_lab_tenant_bin *bin = &results->tenants[t].bins[i];
            printf("%.6g,", bin_ns * i / 1e9);
            cli_put_csv(stdout, setup->map->tenants[t].name);
            printf(",%u,%u,%u,%u,%u,%u,%llu,%llu,%.6g,%.6g,%.6g\n", bin->offered, bin->tries,
                   bin->finished, bin->good, bin->refused, bin->failed,
                   (unsigned long long)bin->prompt_tok, (unsigned long long)bin->output_tok,
                   (double)bin->waiting_ns / bin_ns, (double)bin->in_flight_ns / bin_ns,
                   (double)bin->wait_max_ns / 1e9);
        }
}

/* ---- JSON ---- */

static json_t *figures_json(const double figures[LAB_FIGURES])
{
    json_t *object = json_object();
    for (int f = 0; f < LAB_FIGURES; f++)
        json_object_set_new(object, lab_figure_rows[f].key,
                            lab_figure_rows[f].unit == LAB_UNIT_COUNT
                                ? json_integer(llround(figures[f]))
                                : lab_number(figures[f]));
    return object;
}

static json_t *tenant_json(const struct lab_setup *setup, const struct weir_lab_results *results,
                           uint32_t t, const double figures[LAB_FIGURES])
{
    const struct weir_tenant_rules *rules = &setup->map->tenants[t].rules;
    json_t *object =
        json_pack("{s:s, s:I, s:s}", "name", setup->map->tenants[t].name, "weight",
                  (json_int_t)rules->weight, "lane", setup->config->lanes[rules->lane].name);
    json_t *figures_of = figures_json(figures), *refusals = json_object();
    for (int reason = 1; reason < WEIR_REFUSAL_COUNT; reason++)
        if (results->tenants[t].refusals[reason]) {
            const char *code = weir_refusal_row((enum weir_refusal)reason)->code;
            json_int_t before = json_integer_value(json_object_get(refusals, code));
            json_object_set_new(
                refusals, code, /* two reasons may share a code */
                json_integer(before + (json_int_t)results->tenants[t].refusals[reason]));
        }
    json_object_update(object, figures_of);
    json_decref(figures_of);
    json_object_set_new(object, "refusals_of_tries", refusals);
    return object;
}

static json_t *scopes_json(const struct lab_setup *setup, const struct weir_lab_results *results)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < setup->map->scenario.scope_count; i++) {
        const struct weir_lab_scope_results *r = &results->scopes[i];
        json_array_append_new(
            list, json_pack("{s:s, s:I, s:I, s:I, s:I, s:I}", "name", setup->map->scopes[i].name,
                            "granted_tokens", (json_int_t)r->granted_tok, "committed_tokens",
                            (json_int_t)r->committed_tok, "reserved_tokens",
                            (json_int_t)r->reserved_tok, "overrun_tokens",
                            (json_int_t)r->overrun_tok, "refused", (json_int_t)r->refused));
    }
    return list;
}

/* The worst window of ten seconds of every lane in which two tenants waited all through one. */
static json_t *gaps_json(const struct lab_setup *setup, const struct weir_lab_results *results)
{
    json_t *list = json_array();
    for (uint32_t pool = 0; pool < setup->map->scenario.pool_count; pool++)
        for (uint32_t lane = 0; lane < setup->map->scenario.lanes.lane_count; lane++) {
            const struct weir_lab_gap_results *r = &results->gaps[pool][lane];
            const struct weir_gap_window *w = &r->worst[WEIR_LAB_GAP_WINDOW];
            if (r->worst_ns[WEIR_LAB_GAP_WINDOW] == 0)
                continue;
            bool has_bound = w->bound_uwork != WEIR_GAP_NO_BOUND;
            enum weir_sched_policy policy = setup->map->pools[pool].policy;
            json_array_append_new(
                list,
                json_pack("{s:s, s:s, s:s, s:s, s:f, s:s, s:s, s:f, s:o, s:I, s:f, s:I}", "pool",
                          setup->config->pools[pool].name, "lane", setup->config->lanes[lane].name,
                          "scheduler", weir_sched_policy_name(policy), "unit",
                          policy == WEIR_SCHED_DRR ? "requests" : "work", "until_s",
                          (double)r->worst_ns[WEIR_LAB_GAP_WINDOW] / 1e9, "ahead",
                          setup->map->tenants[w->ahead].name, "behind",
                          setup->map->tenants[w->behind].name, "gap", (double)w->gap_uwork / 1e6,
                          "bound",
                          has_bound ? json_real((double)w->bound_uwork / 1e6) : json_null(),
                          "compared", (json_int_t)w->compared, "jain", w->jain_ppm / 1e6,
                          "windows_broken", (json_int_t)count_broken(r)));
        }
    return list;
}

int lab_show_json(const struct lab_setup *setup, const struct lab_run *run)
{
    static struct lab_figures figures;
    const struct weir_lab_results *results = run->results;
    uint32_t count = setup->map->scenario.tenant_count;
    char hash[32];
    lab_figures_of(setup->map, results, run->entries, run->entries_count, &figures);
    json_t *tenants = json_array(), *whole = json_object();
    for (uint32_t t = 0; t < count; t++)
        json_array_append_new(tenants, tenant_json(setup, results, t, figures.tenants[t]));
    for (int w = 0; w < LAB_WHOLES; w++)
        json_object_set_new(whole, lab_whole_rows[w].key, lab_number(figures.whole[w]));
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)results->hash);
    return cli_print_json(json_pack(
               "{s:s, s:s, s:s, s:s, s:I, s:b, s:f, s:I, s:s, s:o, s:o, s:o, s:o, s:o}", "scenario",
               setup->name, "about", setup->about, "changes", setup->changes, "note", lab_note,
               "seed", (json_int_t)run->seed, "stopped", run->is_stopped, "end_s",
               (double)results->now_ns / 1e9, "events", (json_int_t)results->events, "hash", hash,
               "tenants", tenants, "all", figures_json(figures.tenants[count]), "run", whole,
               "budgets", scopes_json(setup, results), "gaps", gaps_json(setup, results)))
               ? CLI_DONE_STATUS
               : CLI_FAULT_STATUS;
}
