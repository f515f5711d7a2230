/* The adaptive limit in the whole model: tenants, estimates, scheduler and flow as in the gateway.
 * The rule alone, on many backends, is in adaptive_test.c. */
#include "lab/lab_world.h"

#define SECOND WEIR_NS_PER_S

static struct weir_lab_store store;

/* The default scenario with more batch work than the backend can do and nobody impatient; the
 * limit begins at 16. */
static struct weir_lab_scenario *overloaded(uint64_t traffic_s)
{
    struct weir_lab_controls controls = weir_lab_controls_default();
    controls.batch_micro_per_s = 14000000;
    controls.has_agent = true;
    weir_lab_default(&store, &controls);
    store.upstream.rules.permits = 1000;
    store.upstream.rules.adapt = (struct weir_adapt_rules){.min = 4, .start = 16};
    store.upstream.rules.breaker.failures_in_row = 0;
    store.upstream.rules.breaker.failure_percent = 0;
    struct weir_lab_scenario *s = &store.scenario;
    s->traffic_ns = s->run_ns = traffic_s * SECOND;
    s->queue_wait_max_ns = s->total_max_ns = 3600 * SECOND;
    s->waiters_max = 20000;
    for (uint32_t i = 0; i < s->tenant_count; i++)
        store.tenants[i].rules.waiters_max = 20000;
    return s;
}

/* The limit on average between two times, as a part of the knee; its least and most second. */
static void limits_of(const struct weir_lab_results *r, uint64_t from_s, uint64_t until_s,
                      double knee, double of[static 3])
{
    CHECK_INT(r->bin_ns, SECOND);
    of[0] = 0, of[1] = 1e9, of[2] = 0;
    for (uint64_t i = from_s; i < until_s; i++) {
        double at = (double)r->upstreams[0].bins[i].permits_ns / 1e9 / knee;
        of[0] += at / (double)(until_s - from_s);
        of[1] = at < of[1] ? at : of[1];
        of[2] = at > of[2] ? at : of[2];
    }
}

static void check_limits(const struct weir_lab_results *r, uint64_t from_s, uint64_t until_s,
                         double knee)
{
    double of[3];
    limits_of(r, from_s, until_s, knee, of);
    CHECK_MSG(of[0] > 0.9 && of[0] < 1.1, "%d s: mean %.3f of %.0f", (int)from_s, of[0], knee);
    CHECK_MSG(of[2] - of[1] < 0.2, "%d s: %.3f .. %.3f of %.0f", (int)from_s, of[1], of[2], knee);
}

static void lab_adapt__overload_of_the_default_backend__finds_its_192(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct world_run run;
        world_run(&run, overloaded(240), seed);
        check_limits(run.r, 100, 240, 192);
        CHECK(run.r->upstreams[0].in_flight_max <= 2 * 192);
        world_free(&run);
    }
}

static void lab_adapt__two_of_four_replicas_fail__follows_within_60_s(void **state)
{
    (void)state;
    struct world_run run;
    struct weir_backend_trouble troubles[2];
    for (uint32_t i = 0; i < 2; i++)
        troubles[i] = (struct weir_backend_trouble){.replica = i,
                                                    .kind = WEIR_TROUBLE_FAIL,
                                                    .from_ns = 120 * SECOND,
                                                    .until_ns = 260 * SECOND};
    struct weir_lab_scenario *s = overloaded(400);
    store.upstream.backend.troubles = troubles;
    store.upstream.backend.trouble_count = 2;
    world_run(&run, s, 1);
    check_limits(run.r, 80, 120, 192);
    check_limits(run.r, 180, 260, 96);
    check_limits(run.r, 320, 400, 192);
    world_free(&run);
}

/* Nobody waits longer for what the limit does at light load. */
static void lab_adapt__light_load__keeps_the_limit_and_every_wait(void **state)
{
    (void)state;
    struct weir_lab_controls controls = weir_lab_controls_default();
    struct world_run fixed, adaptive;
    weir_lab_default(&store, &controls);
    world_run(&fixed, &store.scenario, 1);
    store.upstream.rules.adapt = (struct weir_adapt_rules){.min = 4, .start = 192};
    world_run(&adaptive, &store.scenario, 1);
    double of[3];
    limits_of(adaptive.r, 0, 120, 192, of);
    CHECK(of[1] > 0.999 && of[2] < 1.001);
    CHECK_INT(adaptive.count, fixed.count);
    CHECK_INT(adaptive.r->hash, fixed.r->hash);
    world_free(&fixed);
    world_free(&adaptive);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lab_adapt__overload_of_the_default_backend__finds_its_192),
        cmocka_unit_test(lab_adapt__two_of_four_replicas_fail__follows_within_60_s),
        cmocka_unit_test(lab_adapt__light_load__keeps_the_limit_and_every_wait),
    };
    return cmocka_run_group_tests_name("lab/lab_adapt", tests, NULL, NULL);
}
