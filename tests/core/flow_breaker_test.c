/* The breaker at work in the flow, in exact, simulated time. */
#include "flow_case.h"

static void
flow__5xx_and_first_byte_timeouts__open_and_the_rest_of_the_cooldown_is_told(void **state)
{
    (void)state;
    struct sim_plan plans[] = {plan_status(500, 10 * MS), plan_status(529, 10 * MS),
                               plan_fails(WEIR_CALL_FIRST_BYTE_TIMEOUT, true, 10 * MS),
                               plan_fails(WEIR_CALL_CONNECT_FAILED, false, 10 * MS),
                               plan_fails(WEIR_CALL_CUT, true, 10 * MS)};
    for (size_t i = 0; i < WEIR_COUNT(plans); i++) {
        struct weir_tenant_rules tenant[1];
        struct sim_config c = sim_config_plain(1, tenant, 1);
        struct script s = script_ok(10 * MS);
        s.of[0] = plans[i];
        c.plan = script_plan;
        c.user = &s;
        struct sim sim;
        sim_open(&sim, &c);
        uint64_t start_ns = sim.now_ns;
        uint32_t first = arrive_many(&sim, 0, 8, 600 * SECOND);
        sim_run(&sim, start_ns + 60 * MS);
        for (uint32_t k = first + 5; k < first + 8;
             k++) { /* five failed; the others leave at once */
            CHECK_INT(sim.requests[k].refusal, WEIR_REFUSAL_UPSTREAM_OPEN);
            CHECK_INT(sim.requests[k].refused_ns, start_ns + 50 * MS);
            CHECK_INT(sim.requests[k].refused.hint_ns, 15 * SECOND);
            CHECK(sim.requests[k].is_voided);
        }
        sim_run(&sim, start_ns + 10 * SECOND);
        uint32_t new = arrive(&sim, 0, 600 * SECOND);
        CHECK_INT(sim.requests[new].refusal, WEIR_REFUSAL_UPSTREAM_OPEN);
        CHECK_INT(sim.requests[new].refused.hint_ns, 5 * SECOND + 50 * MS);
        sim_run(&sim, sim.now_ns + sim.requests[new].refused.hint_ns - 1);
        CHECK_INT(try(&sim, 0, 600 * SECOND), WEIR_REFUSAL_UPSTREAM_OPEN);
        s.of[0] = sim_plan_ok(10 * MS, 100, 100);
        sim_run(&sim, sim.now_ns + 1);
        new = arrive(&sim, 0, 600 * SECOND); /* who waits exactly so long is the trial */
        CHECK_INT(wait_of(&sim, new), 0);
        finish_all(&sim);
    }
}

static void flow__4xx_and_429__never_open_it(void **state)
{
    (void)state;
    static const uint32_t statuses[] = {400, 401, 403, 404, 413, 422, 429};
    for (size_t i = 0; i < WEIR_COUNT(statuses); i++) {
        struct weir_tenant_rules tenant[1];
        struct sim_config c = sim_config_plain(4, tenant, 1);
        struct script s = script_ok(10 * MS);
        s.of[0] = plan_status(statuses[i], 10 * MS);
        c.plan = script_plan;
        c.user = &s;
        struct sim sim;
        sim_open(&sim, &c);
        uint32_t first = arrive_many(&sim, 0, 60, 3600 * SECOND);
        CHECK(sim_run_dry(&sim, sim.now_ns + 3600 * SECOND));
        for (uint32_t k = first; k < first + 60; k++) {
            CHECK_INT(sim.requests[k].refusal, WEIR_REFUSAL_NONE);
            CHECK(sim.requests[k].is_head_passed); /* passed on, whatever it is */
            CHECK_INT(sim.requests[k].settled_tok, 0);
        }
        struct weir_upstream_view u;
        weir_flow_upstream_view(sim.flow, 0, sim.now_ns, &u);
        CHECK_INT(u.breaker, WEIR_BREAKER_CLOSED);
        sim_close_settled(&sim);
    }
}

/* Fifty clients at the end of the cool-down: exactly k calls go out before the first outcome is
 * known. */
static void flow__half_open_with_fifty_clients__exactly_k_trials(void **state)
{
    (void)state;
    for (uint32_t trials = 1; trials <= 3; trials++) {
        struct weir_tenant_rules tenant[1];
        struct sim_config c = sim_config_plain(64, tenant, 1);
        c.upstreams[0].breaker.trials = trials;
        struct script s = script_ok(10 * MS);
        s.of[0] = plan_status(500, 10 * MS);
        c.plan = script_plan;
        c.user = &s;
        struct sim sim;
        sim_open(&sim, &c);
        arrive_many(&sim, 0, 5, 60 * SECOND);
        sim_run(&sim, sim.now_ns + 15 * SECOND + 10 * MS);
        s.of[0] = sim_plan_ok(1000 * MS, 100, 100);
        uint64_t before = sim.calls_total[0];
        uint32_t first = arrive_many(&sim, 0, 50, 60 * SECOND);
        sim_run(&sim, sim.now_ns + 499 * MS);
        CHECK_INT(sim.calls_total[0] - before, trials);
        CHECK_INT(waiters_now(&sim), 50 - trials);
        sim_run(&sim, sim.now_ns + 1 * MS); /* the head of an answer is proof enough */
        CHECK_INT(sim.calls_total[0] - before, 50);
        CHECK(sim_run_dry(&sim, sim.now_ns + 100 * SECOND));
        for (uint32_t k = first; k < first + 50; k++)
            CHECK_INT(sim.requests[k].refusal, WEIR_REFUSAL_NONE);
        sim_close_settled(&sim);
    }
}

static void flow__whatever_becomes_of_a_trial__the_next_one_can_follow(void **state)
{
    (void)state;
    struct {
        struct sim_plan plan;
        uint64_t gone_ns; /* of the client; 0: stays */
        enum weir_breaker_state after;
    } rows[] = {
        {sim_plan_ok(100 * MS, 1, 1), 0, WEIR_BREAKER_CLOSED},
        {plan_status(404, 100 * MS), 0, WEIR_BREAKER_HALF_OPEN},
        {plan_status(429, 100 * MS), 0, WEIR_BREAKER_HALF_OPEN},
        {plan_status(503, 100 * MS), 0, WEIR_BREAKER_OPEN},
        {plan_fails(WEIR_CALL_CONNECT_TIMEOUT, false, 100 * MS), 0, WEIR_BREAKER_OPEN},
        {plan_fails(WEIR_CALL_FIRST_BYTE_TIMEOUT, true, 100 * MS), 0, WEIR_BREAKER_OPEN},
        {plan_fails(WEIR_CALL_CONNECT_FAILED, false, 9000 * MS), 50 * MS, WEIR_BREAKER_HALF_OPEN},
        {sim_plan_ok(9000 * MS, 1, 1), 50 * MS, WEIR_BREAKER_HALF_OPEN},
        {plan_fails(WEIR_CALL_CANCELLED, true, 100 * MS), 0, WEIR_BREAKER_HALF_OPEN},
    };
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct weir_tenant_rules tenant[1];
        struct sim_config c = sim_config_plain(4, tenant, 1);
        struct script s = script_ok(10 * MS);
        s.of[0] = plan_status(500, 10 * MS);
        c.plan = script_plan;
        c.user = &s;
        struct sim sim;
        sim_open(&sim, &c);
        arrive_many(&sim, 0, 5, 60 * SECOND); /* the fifth waits for a permit and fails at 20 ms */
        sim_run(&sim, sim.now_ns + 15 * SECOND + 20 * MS);
        s.of[0] = rows[i].plan;
        uint32_t trial = arrive(&sim, 0, 60 * SECOND);
        CHECK_INT(sim.requests[trial].attempts, 1);
        if (rows[i].gone_ns)
            sim_client_gone_at(&sim, sim.now_ns + rows[i].gone_ns, trial);
        s.of[0] = sim_plan_ok(10 * MS, 100, 100);
        sim_run(&sim, sim.now_ns + 200 * MS);
        struct weir_upstream_view u;
        weir_flow_upstream_view(sim.flow, 0, sim.now_ns, &u);
        CHECK_MSG(u.breaker == rows[i].after, "row %zu: state %d", i, (int)u.breaker);
        sim_run(&sim, sim.now_ns + 31 * SECOND); /* past any cool-down and pause */
        uint32_t next = arrive(&sim, 0, 60 * SECOND);
        CHECK_MSG(sim.requests[next].attempts == 1, "row %zu", i);
        sim_run(&sim, sim.now_ns + 10 * SECOND);
        weir_flow_upstream_view(sim.flow, 0, sim.now_ns, &u);
        CHECK_INT(u.breaker, WEIR_BREAKER_CLOSED);
        finish_all(&sim);
    }
}

static void flow__a_429__passes_and_pauses_and_those_waiting_wait(void **state)
{
    (void)state;
    static const struct {
        uint64_t hint_ns, pause_ns;
    } rows[] = {{0, SECOND}, {7 * SECOND, 7 * SECOND}, {600 * SECOND, 60 * SECOND}};
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct weir_tenant_rules tenant[1];
        struct sim_config c = sim_config_plain(1, tenant, 1);
        struct script s = script_ok(100 * MS);
        s.of[0] = plan_status(429, 100 * MS); /* its head comes after 50 ms */
        s.of[0].pause_ns = rows[i].hint_ns;
        c.plan = script_plan;
        c.user = &s;
        struct sim sim;
        sim_open(&sim, &c);
        uint64_t start_ns = sim.now_ns, over_ns = start_ns + 50 * MS + rows[i].pause_ns;
        uint32_t told = arrive(&sim, 0, 600 * SECOND);
        s.of[0] = sim_plan_ok(100 * MS, 100, 100);
        uint32_t waits = arrive(&sim, 0, 600 * SECOND);
        sim_run(&sim, start_ns + 150 * MS);
        CHECK(sim.requests[told].is_head_passed);
        CHECK_INT(sim.requests[told].summary.status, 429);
        uint32_t hasty = arrive(&sim, 0, over_ns - sim.now_ns - 1);
        CHECK_INT(sim.requests[hasty].refusal, WEIR_REFUSAL_UPSTREAM_OPEN);
        CHECK_INT(sim.requests[hasty].refused.hint_ns, over_ns - sim.now_ns);
        uint32_t patient = arrive(&sim, 0, over_ns + 200 * MS - sim.now_ns);
        CHECK(sim_run_dry(&sim, start_ns + 600 * SECOND));
        CHECK_INT(sim.requests[waits].first_dispatched_ns, over_ns);
        CHECK_INT(sim.requests[patient].first_dispatched_ns, over_ns + 100 * MS);
        sim_close_settled(&sim);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            flow__5xx_and_first_byte_timeouts__open_and_the_rest_of_the_cooldown_is_told),
        cmocka_unit_test(flow__4xx_and_429__never_open_it),
        cmocka_unit_test(flow__half_open_with_fifty_clients__exactly_k_trials),
        cmocka_unit_test(flow__whatever_becomes_of_a_trial__the_next_one_can_follow),
        cmocka_unit_test(flow__a_429__passes_and_pauses_and_those_waiting_wait),
    };
    return cmocka_run_group_tests_name("flow_breaker", tests, NULL, NULL);
}
