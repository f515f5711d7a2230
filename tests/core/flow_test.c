/* The life of requests in exact, simulated time. */
#include "support/check.h"
#include "support/sim_host.h"

static void plan_fixed(struct sim *sim, const struct sim_request *r, uint32_t upstream,
                       struct sim_plan *plan)
{
    (void)r;
    (void)upstream;
    *plan = *(const struct sim_plan *)sim->config.user;
}

static void
flow__fourteen_jobs_at_two_a_second_and_burst_five__five_at_once_then_every_500_ms(void **state)
{
    (void)state;
    struct weir_tenant_rules tenant[1];
    struct sim_config c = sim_config_plain(64, tenant, 1);
    c.upstreams[0].requests = (struct weir_rate){.rate_micro_per_s = 2 * 1000000, .capacity = 5};
    struct sim_plan plan = sim_plan_ok(10 * WEIR_NS_PER_MS, 100, 100);
    c.plan = plan_fixed;
    c.user = &plan;
    struct sim sim;
    sim_open(&sim, &c);
    uint64_t start_ns = sim.now_ns;
    for (uint32_t i = 0; i < 14; i++) {
        struct weir_arrival a = sim_arrival(&sim, 0, 500, 100, 60 * WEIR_NS_PER_S);
        sim_arrive(&sim, &a);
    }
    CHECK(sim_run_dry(&sim, start_ns + 100 * WEIR_NS_PER_S));
    for (uint32_t i = 0; i < 14; i++) {
        uint64_t want_ns = i < 5 ? 0 : (i - 4) * 500 * WEIR_NS_PER_MS;
        CHECK_INT(sim.requests[i].dispatched_ns - start_ns, want_ns);
        CHECK_INT(sim.requests[i].refusal, WEIR_REFUSAL_NONE);
        CHECK_INT(sim.requests[i].settled_tok, 200);
    }
    sim_close_settled(&sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            flow__fourteen_jobs_at_two_a_second_and_burst_five__five_at_once_then_every_500_ms),
    };
    return cmocka_run_group_tests_name("flow", tests, NULL, NULL);
}
