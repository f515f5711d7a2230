/* The whole model against queueing theory: Poisson tenants before the gate, whose c permits are the
 * servers. The queue is the gate's, in every policy's order; the backend has a free replica for
 * each permit, so nothing waits behind it. */
#include "core/num.h"
#include "lab/lab_world.h"
#include "lab/theory_stats.h"

#include <stdlib.h>

#define MS WEIR_NS_PER_MS
#define STEP_NS (100 * WEIR_NS_PER_US)
#define MEAN_TOK 1000u /* a service takes 100 ms on average, exponential, in steps of 0.1 ms */
#define SERVICE_S 0.1
#define RUNS 20u
#define JOBS 3500u /* in a run, about; those of its first eighth only fill the queue */

/* Tenants that send load x permits / SERVICE_S requests a second in all, split 1 : 2 : 3 ... */
static void queue_world(struct world *w, uint32_t tenants, uint32_t permits, double load)
{
    world_plain(w, tenants, permits);
    w->upstreams[0].backend =
        (struct weir_backend_rules){.replicas = permits, .sequences = 1, .step_ns = STEP_NS};
    double rate = load * permits / SERVICE_S;
    for (uint32_t i = 0; i < tenants; i++) {
        double share = (i + 1) / (tenants * (tenants + 1) / 2.0);
        w->tenants[i].rate_micro_per_s = (uint64_t)(rate * share * 1e6);
        w->tenants[i].output =
            (struct weir_length){.kind = WEIR_LENGTH_EXPONENTIAL, .mean = MEAN_TOK};
        w->tenants[i].output_limit_tok = 0;
    }
    w->s.traffic_ns = (uint64_t)(JOBS / rate * 1e9);
}

/* Of one tenant (WEIR_NONE: of all): how long they waited on average, and which share did. */
struct waits {
    double wait_s, waited_share;
};

static struct waits waits_of(const struct world *w, const struct world_run *run, uint32_t tenant)
{
    struct waits waits = {0};
    double count = 0;
    for (size_t i = 0; i < run->count; i++) {
        const struct weir_trace_entry *e = &run->entries[i];
        if (e->arrival_ns < w->s.traffic_ns / 8 || (tenant != WEIR_NONE && e->tenant != tenant))
            continue;
        CHECK_INT(e->outcome, WEIR_TRACE_FINISHED);
        waits.wait_s += (double)e->queue_wait_ns / 1e9;
        waits.waited_share += e->queue_wait_ns > 0;
        count++;
    }
    return (struct waits){waits.wait_s / count, waits.waited_share / count};
}

struct waits_samples {
    struct sample wait_s, waited_share;
};

static struct waits_samples waits_runs(const struct world *w, uint32_t tenant)
{
    double wait_s[RUNS], waited_share[RUNS];
    for (uint32_t i = 0; i < RUNS; i++) {
        struct world_run run;
        world_run(&run, &w->s, 500 + i);
        struct waits waits = waits_of(w, &run, tenant);
        wait_s[i] = waits.wait_s;
        waited_share[i] = waits.waited_share;
        world_free(&run);
    }
    return (struct waits_samples){sample_of(wait_s, RUNS), sample_of(waited_share, RUNS)};
}

static void mm1__one_permit__waits_in_the_gate_as_in_the_books(void **state)
{
    (void)state;
    struct world w;
    queue_world(&w, 1, 1, 0.6);
    w.pools[0].policy = WEIR_SCHED_FIFO;
    struct waits_samples seen = waits_runs(&w, WEIR_NONE);
    check_agrees("M/M/1", seen.waited_share, 0.6, 0.03);
    check_agrees("M/M/1", seen.wait_s, SERVICE_S * 0.6 / 0.4, 0.05);
}

/* No policy looks at how long a service will take, and none lets a permit lie idle while somebody
 * waits: whoever goes first, the mean over all is that of M/M/c. */
static void mmc__any_policy__the_mean_wait_is_the_same(void **state)
{
    (void)state;
    static const enum weir_sched_policy policies[] = {WEIR_SCHED_FIFO, WEIR_SCHED_DRR,
                                                      WEIR_SCHED_DRR_COST, WEIR_SCHED_VTC};
    for (size_t i = 0; i < WEIR_COUNT(policies); i++) {
        struct world w;
        queue_world(&w, 3, 4, 0.7);
        w.pools[0].policy = policies[i];
        w.tenants[0].rules.weight = 3;
        struct waits_samples seen = waits_runs(&w, WEIR_NONE);
        const char *name = weir_sched_policy_name(policies[i]);
        check_agrees(name, seen.waited_share, erlang_c(4, 0.7), 0.03);
        check_agrees(name, seen.wait_s, erlang_c(4, 0.7) * SERVICE_S / (4 * 0.3), 0.06);
    }
}

/* A wrong model is found out: who judges the same runs by one permit more is told. */
static void mmc__one_permit_more__does_not_agree(void **state)
{
    (void)state;
    struct world w;
    queue_world(&w, 3, 4, 0.7);
    struct waits_samples seen = waits_runs(&w, WEIR_NONE);
    CHECK(!sample_agrees(seen.wait_s, erlang_c(5, 0.56) * SERVICE_S / (5 * 0.44)));
    CHECK(!sample_agrees(seen.waited_share, erlang_c(5, 0.56)));
}

/* Strict lanes are the head-of-the-line priorities of Cobham (1954), c servers as Davis (1966) has
 * it: a class waits W0 / ((1 - those above) (1 - those above and itself)). */
static void lanes__without_floors__wait_as_cobham_says(void **state)
{
    (void)state;
    const double load = 0.75, upper = load / 3; /* the second tenant sends twice as much */
    struct world w;
    queue_world(&w, 2, 2, load);
    w.s.lanes.lane_count = 2;
    w.tenants[1].rules.lane = 1;
    double base_s = erlang_c(2, load) * SERVICE_S / 2;
    check_agrees("upper lane", waits_runs(&w, 0).wait_s, base_s / (1 - upper), 0.05);
    check_agrees("lower lane", waits_runs(&w, 1).wait_s, base_s / ((1 - upper) * (1 - load)), 0.07);
}

/* M/M/c//N: so many users that think, wait and are served, for ever. */
static double repairman_per_s(uint32_t users, uint32_t servers, double think_s)
{
    double weight = 1, sum = 0, thinking = 0;
    for (uint32_t n = 0; n <= users; n++) { /* n of them wait or are served */
        sum += weight;
        thinking += weight * (users - n);
        double serving = n + 1 < servers ? n + 1 : servers;
        weight *= (users - n) * (SERVICE_S / think_s) / serving;
    }
    return thinking / sum / think_s;
}

static void closed_loop__users_and_permits__throughput_of_the_repairman(void **state)
{
    (void)state;
    const double think_s = 0.3;
    struct world w;
    queue_world(&w, 1, 2, 0.5);
    w.tenants[0].arrivals = WEIR_LAB_CLOSED;
    w.tenants[0].users = 8;
    w.tenants[0].think_ns = 300 * MS;
    w.s.traffic_ns = 150 * WEIR_NS_PER_S;
    double per_s[RUNS], seconds = 130;
    for (uint32_t i = 0; i < RUNS; i++) {
        struct world_run run;
        world_run(&run, &w.s, 700 + i);
        per_s[i] = 0;
        for (size_t k = 0; k < run.count; k++) {
            uint64_t end_ns = run.entries[k].arrival_ns + run.entries[k].latency_ns;
            per_s[i] += (end_ns >= 20 * WEIR_NS_PER_S && end_ns < w.s.traffic_ns) / seconds;
        }
        world_free(&run);
    }
    check_agrees("repairman", sample_of(per_s, RUNS), repairman_per_s(8, 2, think_s), 0.01);
}

/* --- to the unit --- */

static uint64_t closed_tokens(struct weir_lab_store *store, uint32_t users, uint64_t until_ns)
{
    struct weir_lab_controls controls = weir_lab_controls_default();
    struct world_run run;
    weir_lab_default(store, &controls);
    struct weir_lab_tenant *t = &store->tenants[0];
    store->scenario.tenant_count = 1;
    t->arrivals = WEIR_LAB_CLOSED;
    t->users = users;
    t->prompt = world_fixed(1);
    t->output = world_uniform(50, 150);
    world_open(&run, &store->scenario, 1);
    CHECK(weir_lab_run(run.lab, until_ns));
    uint64_t tokens = weir_lab_results(run.lab)->tokens_made;
    world_free(&run);
    return tokens;
}

/* Answers of any length: a user whose answer ends is back in the very same instant, so no step is
 * ever short of one, and nothing on the way through the gateway costs a moment of the backend's. */
static void default_backend__kept_full_and_alone__10667_and_160_tokens_a_second(void **state)
{
    (void)state;
    static struct weir_lab_store store;
    CHECK_INT(closed_tokens(&store, 4 * 48, 18 * WEIR_NS_PER_S), 192000);
    CHECK_INT(closed_tokens(&store, 1, 10 * WEIR_NS_PER_S), 1600);
}

/* One tenant that sends evenly, 3,000 prompt and 500 output tokens: 799 steps each (the 300th, which
 * ends the prompt, makes the first token). Per second, in seconds 50 .. 100: how many were
 * finished, and how many waited and were in flight on average. */
struct steady {
    double finished_per_s, waiting[2], in_flight; /* waiting: in the first second, and the last */
};

static struct steady steady_run(uint64_t rate_micro_per_s)
{
    static struct weir_lab_store store;
    struct weir_lab_controls controls = weir_lab_controls_default();
    struct world_run run;
    weir_lab_default(&store, &controls);
    struct weir_lab_tenant *t = &store.tenants[0];
    store.scenario.tenant_count = 1;
    t->arrivals = WEIR_LAB_EVEN;
    t->rate_micro_per_s = rate_micro_per_s;
    t->prompt = world_fixed(3000);
    t->output = world_fixed(500);
    world_run(&run, &store.scenario, 1);
    const struct weir_lab_tenant_bin *bins = run.r->tenants[0].bins;
    struct steady steady = {
        .waiting = {(double)bins[50].waiting_ns / 1e9, (double)bins[99].waiting_ns / 1e9}};
    for (uint32_t i = 50; i < 100; i++) {
        steady.finished_per_s += bins[i].finished / 50.0;
        steady.in_flight += (double)bins[i].in_flight_ns / 1e9 / 50;
    }
    world_free(&run);
    return steady;
}

static void overload__half_more_than_it_can__finishes_what_it_can_and_the_rest_waits(void **state)
{
    (void)state;
    const double can_per_s = 192 / (0.018 * 799); /* 13.35 */
    struct steady seen = steady_run(20000000);
    CHECK_MSG(fabs(seen.finished_per_s - can_per_s) < 0.01 * can_per_s, "%.3f, theory %.3f",
              seen.finished_per_s, can_per_s);
    double growth = seen.waiting[1] - seen.waiting[0], want = 49 * (20 - can_per_s);
    CHECK_MSG(fabs(growth - want) < 0.02 * want, "%.1f more wait, theory %.1f", growth, want);
    CHECK_MSG(fabs(seen.in_flight - 192) < 0.01, "%.3f in flight", seen.in_flight);
}

/* Below capacity the batch finds its own size: n on a replica make steps of 6 + n / 4 ms, and the
 * longer the steps the more are there: n = arrivals x 799 x (6 + n / 4) ms. */
static void below_capacity__steady__as_many_in_flight_as_their_own_steps_ask_for(void **state)
{
    (void)state;
    for (uint64_t rate = 4; rate <= 12; rate += 4) {
        double busy = (double)rate / 4 * 799 / 1000; /* of one replica, for each ms of a step */
        double in_flight = 4 * busy * 6 / (1 - busy / 4);
        struct steady seen = steady_run(rate * 1000000);
        CHECK_MSG(fabs(seen.finished_per_s - (double)rate) < 0.01 * (double)rate, "%.3f of %u",
                  seen.finished_per_s, (unsigned)rate);
        CHECK_MSG(fabs(seen.in_flight - in_flight) < 0.02 * in_flight,
                  "at %u: %.2f in flight, theory %.2f", (unsigned)rate, seen.in_flight, in_flight);
        CHECK(seen.waiting[1] < 1e-9);
    }
}

/* Little's law over the whole system, to the nanosecond: by requests, what each took; by the clock,
 * how many waited and were in flight. world_run checks that tokens are conserved. */
static void little__requests_and_the_clock__are_equal(void **state)
{
    (void)state;
    static const struct weir_backend_trouble trouble = {.replica = WEIR_NONE,
                                                        .kind = WEIR_TROUBLE_SLOW,
                                                        .from_ns = 5 * WEIR_NS_PER_S,
                                                        .until_ns = 9 * WEIR_NS_PER_S,
                                                        .slow_permille = 1777};
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct world w;
        struct world_run run;
        queue_world(&w, 3, 4, 0.95);
        w.upstreams[0].backend.prefill_permille = 333;
        w.upstreams[0].backend.latency_ns = 1234567;
        w.upstreams[0].backend.troubles = &trouble;
        w.upstreams[0].backend.trouble_count = 1;
        w.s.traffic_ns = 30 * WEIR_NS_PER_S;
        world_run(&run, &w.s, seed);
        uint64_t by_requests_ns[3] = {0}, by_clock_ns[3] = {0};
        for (size_t i = 0; i < run.count; i++)
            by_requests_ns[run.entries[i].tenant] += run.entries[i].latency_ns;
        for (uint32_t t = 0; t < 3; t++) {
            for (uint32_t i = 0; i < run.r->bin_count; i++)
                by_clock_ns[t] +=
                    run.r->tenants[t].bins[i].waiting_ns + run.r->tenants[t].bins[i].in_flight_ns;
            CHECK_INT(by_clock_ns[t], by_requests_ns[t]);
        }
        world_free(&run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mm1__one_permit__waits_in_the_gate_as_in_the_books),
        cmocka_unit_test(mmc__any_policy__the_mean_wait_is_the_same),
        cmocka_unit_test(mmc__one_permit_more__does_not_agree),
        cmocka_unit_test(lanes__without_floors__wait_as_cobham_says),
        cmocka_unit_test(closed_loop__users_and_permits__throughput_of_the_repairman),
        cmocka_unit_test(default_backend__kept_full_and_alone__10667_and_160_tokens_a_second),
        cmocka_unit_test(overload__half_more_than_it_can__finishes_what_it_can_and_the_rest_waits),
        cmocka_unit_test(below_capacity__steady__as_many_in_flight_as_their_own_steps_ask_for),
        cmocka_unit_test(little__requests_and_the_clock__are_equal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
