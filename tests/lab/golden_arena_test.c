/* The published arena trace through weir's core in the lab, on a backend like the one it was measured
 * on: what was found there holds here. docs/fairness.md, "A real trace". */
#include "lab/arena_world.h"
#include "support/check.h"

#include <stdlib.h>

static struct weir_trace trace;

static int load(void **state)
{
    (void)state;
    arena_load(&trace, "arena27.csv", NULL);
    return 0;
}

static int unload(void **state)
{
    (void)state;
    weir_trace_free(&trace);
    return 0;
}

static struct arena_row run(enum weir_sched_policy policy, uint32_t rpm)
{
    struct arena_row row;
    const struct arena_setup setup = {policy, rpm};
    arena_run(&trace, &setup, &row, NULL);
    return row;
}

static struct arena_row measured(const char *scheduler)
{
    struct weir_trace m;
    struct arena_row row = {0};
    bool heavy[WEIR_LAB_TENANTS_MAX];
    arena_load(&m, "arena27_measured.csv.gz", scheduler);
    arena_heavy(&m, heavy);
    arena_measure(m.entries, m.count, heavy, &row);
    weir_trace_free(&m);
    return row;
}

static void check_near(double got, double want, double off, int line)
{
    CHECK_MSG(got > want - off && got < want + off, "line %d: %f, want %f within %f", line, got,
              want, off);
}

#define NEAR(got, want, off) check_near((got), (want), (off), __LINE__)

/* The groups and their waits are those that the measured run is known for. */
static void arena__the_measured_groups__have_their_published_waits(void **state)
{
    (void)state;
    struct arena_row fcfs = measured("fcfs"), vtc = measured("vtc");
    CHECK_INT(fcfs.heavy.served, 877);
    CHECK_INT(fcfs.light.served, 623);
    NEAR(fcfs.heavy.mean_s, 41.1, 0.05);
    NEAR(fcfs.light.mean_s, 54.7, 0.05);
    NEAR(vtc.heavy.mean_s, 65.4, 0.05);
    NEAR(vtc.light.mean_s, 3.4, 0.05);
    NEAR(vtc.light.p95_s, 13.4, 0.05);
}

/* The backend is fitted to the measured one by its speed alone; the waits then agree by themselves. */
static void arena__in_order_of_arrival__takes_and_waits_as_long_as_measured(void **state)
{
    (void)state;
    struct arena_row fifo = run(WEIR_SCHED_FIFO, 0), fcfs = measured("fcfs");
    NEAR(fifo.difference.throughput_tok_per_s, fcfs.difference.throughput_tok_per_s, 10);
    NEAR(fifo.difference.mean, fcfs.difference.mean, 0.1 * fcfs.difference.mean);
    NEAR(fifo.heavy.mean_s, fcfs.heavy.mean_s, 0.15 * fcfs.heavy.mean_s);
    NEAR(fifo.light.mean_s, fcfs.light.mean_s, 0.15 * fcfs.light.mean_s);
    CHECK_INT(fifo.difference.served, 1500);
    CHECK(fifo.backend_waiting_max < 10); /* the queue is in the gateway: hundreds at the peak */
}

static void arena__fair_policies__halve_the_difference_at_the_same_throughput(void **state)
{
    (void)state;
    static const enum weir_sched_policy fair[] = {WEIR_SCHED_VTC, WEIR_SCHED_DRR_COST,
                                                  WEIR_SCHED_DRR};
    struct arena_row fifo = run(WEIR_SCHED_FIFO, 0);
    for (size_t i = 0; i < WEIR_COUNT(fair); i++) {
        struct arena_row row = run(fair[i], 0);
        const char *name = weir_sched_policy_name(fair[i]);
        CHECK_INT(row.difference.served, 1500);
        CHECK_MSG(row.difference.mean < 0.6 * fifo.difference.mean, "%s: %f", name,
                  row.difference.mean);
        CHECK_MSG(row.difference.max < 0.6 * fifo.difference.max, "%s: %f", name,
                  row.difference.max);
        NEAR(row.difference.throughput_tok_per_s, fifo.difference.throughput_tok_per_s,
             0.01 * fifo.difference.throughput_tok_per_s);
        /* The heavy tenants pay, and the 23 others wait a tenth. */
        CHECK_MSG(row.heavy.mean_s > 1.3 * fifo.heavy.mean_s, "%s: %f", name, row.heavy.mean_s);
        CHECK_MSG(row.light.mean_s < 0.15 * fifo.light.mean_s, "%s: %f", name, row.light.mean_s);
        CHECK_MSG(row.light.p95_s < 0.2 * fifo.light.p95_s, "%s: %f", name, row.light.p95_s);
    }
}

/* A limit of requests a minute either refuses, or it is no fairer than nothing. */
static void arena__request_limits__are_fair_only_by_refusing(void **state)
{
    (void)state;
    static const uint32_t rpm[] = {5, 10, 15, 20, 30};
    struct arena_row vtc = run(WEIR_SCHED_VTC, 0), before = {0};
    for (size_t i = 0; i < WEIR_COUNT(rpm); i++) {
        struct arena_row row = run(WEIR_SCHED_FIFO, rpm[i]);
        CHECK_INT(row.difference.served + row.difference.refused, 1500);
        if (row.difference.mean < vtc.difference.mean)
            CHECK_MSG(row.difference.refused >= 1500 / 5, "%u/m refuses %llu only", rpm[i],
                      (unsigned long long)row.difference.refused);
        CHECK(row.difference.throughput_tok_per_s <= vtc.difference.throughput_tok_per_s + 1);
        CHECK(row.difference.served > before.difference.served);
        CHECK(row.difference.mean > before.difference.mean);
        before = row;
    }
    CHECK(before.difference.mean >
          1.5 * vtc.difference.mean); /* 30/m: refuses few, and is unfair */
    CHECK(before.light.mean_s > before.heavy.mean_s);
}

static void arena__the_same_run_twice__is_the_same(void **state)
{
    (void)state;
    struct arena_row one = run(WEIR_SCHED_VTC, 0), two = run(WEIR_SCHED_VTC, 0);
    CHECK(one.hash == two.hash);
    CHECK(one.hash != run(WEIR_SCHED_DRR, 0).hash);
}

struct again {
    struct weir_trace_entry entries[2000];
    size_t count;
};

static bool take(void *ctx, const struct weir_trace_entry *entry)
{
    struct again *again = ctx;
    again->entries[again->count++] = *entry;
    return again->count < WEIR_COUNT(again->entries);
}

/* A run that is written down and read again measures as it did. */
static void arena__a_run_as_a_recording__measures_the_same(void **state)
{
    (void)state;
    static char text[2000 * WEIR_TRACE_LINE_BYTES];
    static struct again again;
    static struct weir_trace_entry scratch[2000];
    const struct weir_trace_limits limits = {WEIR_LAB_TENANTS_MAX, WEIR_COUNT(scratch)};
    const struct arena_setup setup = {WEIR_SCHED_VTC, 15}; /* some are refused */
    struct weir_trace_entry *entries;
    struct arena_row row;
    struct weir_difference d;
    arena_run(&trace, &setup, &row, &entries);
    size_t used = weir_trace_header(0, text, sizeof text);
    for (size_t i = 0; i < trace.count; i++)
        used += weir_trace_line(&entries[i], trace.names[WEIR_TRACE_TENANT][entries[i].tenant],
                                "standard", "", text + used, sizeof text - used);
    free(entries);
    void *mem = calloc(1, weir_trace_bytes(&limits));
    CHECK(mem != NULL);
    struct weir_trace_reader *r =
        weir_trace_init(mem, weir_trace_bytes(&limits), &limits, NULL, take, &again);
    CHECK(weir_trace_push(r, text, used) && weir_trace_finish(r));
    CHECK_INT(again.count, trace.count);
    weir_trace_settle(again.entries, scratch, again.count);
    CHECK(!weir_difference_compute(again.entries, again.count,
                                   weir_trace_names_count(r, WEIR_TRACE_TENANT),
                                   &weir_difference_published, &d));
    NEAR(d.max, row.difference.max, 1e-6);
    NEAR(d.mean, row.difference.mean, 1e-6);
    NEAR(d.run_s, row.difference.run_s, 1e-9);
    CHECK_INT(d.served, row.difference.served);
    CHECK_INT(d.refused, row.difference.refused);
    free(mem);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arena__the_measured_groups__have_their_published_waits),
        cmocka_unit_test(arena__in_order_of_arrival__takes_and_waits_as_long_as_measured),
        cmocka_unit_test(arena__fair_policies__halve_the_difference_at_the_same_throughput),
        cmocka_unit_test(arena__request_limits__are_fair_only_by_refusing),
        cmocka_unit_test(arena__a_run_as_a_recording__measures_the_same),
        cmocka_unit_test(arena__the_same_run_twice__is_the_same),
    };
    return cmocka_run_group_tests_name("lab/golden_arena", tests, load, unload);
}
