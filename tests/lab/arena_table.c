/* lab_arena_table: the arena trace as ten schedulers were measured with it, and as weir's core serves
 * it in the lab: the two tables of docs/fairness.md, "A real trace". */
#include <stdio.h>

#include "lab/arena_world.h"

static void table_begin(const char *what)
{
    printf("| %s | served | refused | max diff | avg diff | variance | tok/s | run s | 4 heaviest: "
           "first token mean (p95) s | the other 23: mean (p95) s |\n"
           "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
           what);
}

static void table_row(const char *name, const struct arena_row *r)
{
    const struct weir_difference *d = &r->difference;
    printf("| %s | %llu | %llu | %.1f | %.1f | %.0f | %.0f | %.0f | %.1f (%.1f) | %.1f (%.1f) |\n",
           name, (unsigned long long)d->served, (unsigned long long)d->refused, d->max, d->mean,
           d->variance, d->throughput_tok_per_s, d->run_s, r->heavy.mean_s, r->heavy.p95_s,
           r->light.mean_s, r->light.p95_s);
}

static void table_measured(void)
{
    static const char *const schedulers[] = {"fcfs", "lcf",   "vtc",   "vtc_predict", "vtc_oracle",
                                             "rpm5", "rpm10", "rpm15", "rpm20",       "rpm30"};
    bool heavy[WEIR_LAB_TENANTS_MAX];
    table_begin("measured on an A10G");
    for (size_t i = 0; i < WEIR_COUNT(schedulers); i++) {
        struct weir_trace measured;
        struct arena_row row = {0};
        arena_load(&measured, "arena27_measured.csv.gz", schedulers[i]);
        arena_heavy(&measured, heavy);
        arena_measure(measured.entries, measured.count, heavy, &row);
        table_row(schedulers[i], &row);
        weir_trace_free(&measured);
    }
}

static void table_lab(const struct weir_trace *trace)
{
    static const struct {
        const char *name;
        struct arena_setup setup;
    } rows[] = {
        {"fifo", {WEIR_SCHED_FIFO, 0}},         {"drr", {WEIR_SCHED_DRR, 0}},
        {"drr-cost", {WEIR_SCHED_DRR_COST, 0}}, {"vtc", {WEIR_SCHED_VTC, 0}},
        {"fifo, 5/m", {WEIR_SCHED_FIFO, 5}},    {"fifo, 10/m", {WEIR_SCHED_FIFO, 10}},
        {"fifo, 15/m", {WEIR_SCHED_FIFO, 15}},  {"fifo, 20/m", {WEIR_SCHED_FIFO, 20}},
        {"fifo, 30/m", {WEIR_SCHED_FIFO, 30}},
    };
    table_begin("weir's core in the lab");
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct arena_row row;
        arena_run(trace, &rows[i].setup, &row, NULL);
        table_row(rows[i].name, &row);
        fprintf(stderr, "%s: at most %u calls waited behind the gateway\n", rows[i].name,
                row.backend_waiting_max);
    }
}

int main(void)
{
    struct weir_trace trace;
    arena_load(&trace, "arena27.csv", NULL);
    table_measured();
    printf("\n");
    table_lab(&trace);
    weir_trace_free(&trace);
    return 0;
}
