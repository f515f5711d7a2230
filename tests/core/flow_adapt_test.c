/* What the flow and the gate tell the adaptive limit, and what they do with it. */
#include "flow_case.h"

/* One upstream with a limit of 20 in 4 .. 200, without a breaker. */
struct rig {
    struct weir_tenant_rules tenant[1];
    struct script s;
    struct sim_config c;
    struct sim sim;
};

/* A call takes 100 ms, until the script says otherwise. */
static void rig_open(struct rig *r)
{
    r->c = sim_config_plain(200, r->tenant, 1);
    r->s = script_ok(100 * MS);
    r->c.upstreams[0].adapt = (struct weir_adapt_rules){.min = 4, .start = 20};
    r->c.upstreams[0].breaker.failures_in_row = 0;
    r->c.upstreams[0].breaker.failure_percent = 0;
    r->c.plan = script_plan;
    r->c.user = &r->s;
    sim_open(&r->sim, &r->c);
}

static struct weir_upstream_view upstream_of(const struct sim *sim)
{
    struct weir_upstream_view view;
    weir_flow_upstream_view(sim->flow, 0, sim->now_ns, &view);
    return view;
}

static void flow__more_waits_than_the_limit__so_many_go(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r);
    arrive_many(&r.sim, 0, 50, 60 * SECOND);
    CHECK_INT(upstream_of(&r.sim).permits, 20);
    CHECK_INT(upstream_of(&r.sim).permits_now, 20);
    CHECK_INT(waiters_now(&r.sim), 30);
    finish_all(&r.sim);
}

/* The next in the queue goes with the very first byte that raised the limit. */
static void flow__streams_without_a_queue__raise_it_and_more_go_at_once(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r);
    struct weir_arrival a = sim_arrival(&r.sim, 0, 500, 100, 60 * SECOND);
    for (uint64_t i = 0; i < 400; i++) /* 25 would be in flight, then 50 */
        sim_arrive_at(&r.sim, r.sim.now_ns + (i < 200 ? i * 4 : 400 + i * 2) * MS, &a);
    uint32_t most = 0;
    for (uint64_t ms = 0; ms < 3000; ms++) {
        sim_run(&r.sim, r.sim.now_ns + MS);
        struct weir_upstream_view view = upstream_of(&r.sim);
        CHECK_MSG(view.permits_now >= view.permits || waiters_now(&r.sim) == 0,
                  "%d ms: %u of %u in flight, %u wait", (int)ms, view.permits_now, view.permits,
                  waiters_now(&r.sim));
        most = view.permits_now > most ? view.permits_now : most;
    }
    CHECK_MSG(most > 30, "most %u", most);
    finish_all(&r.sim);
}

static void flow__whole_answers__leave_it_though_the_pace_is_known(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r);
    arrive_many(&r.sim, 0, 5, 60 * SECOND); /* streams that tell the pace */
    CHECK(sim_run_dry(&r.sim, r.sim.now_ns + SECOND));
    r.s.of[0] = sim_plan_ok(3 * SECOND, 100, 100);
    struct weir_arrival a = sim_arrival(&r.sim, 0, 500, 100, 60 * SECOND);
    a.stream = false;
    for (int i = 0; i < 200; i++)
        sim_arrive_at(&r.sim, r.sim.now_ns, &a);
    CHECK(sim_run_dry(&r.sim, r.sim.now_ns + 3600 * SECOND));
    CHECK_INT(upstream_of(&r.sim).permits, 20);
    sim_close_settled(&r.sim);
}

/* Good answers tell the pace; then errors that stream have first bytes too, and they count for
 * nothing. */
static void flow__errors_first_bytes__leave_it(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r);
    arrive_many(&r.sim, 0, 5, 60 * SECOND);
    CHECK(sim_run_dry(&r.sim, r.sim.now_ns + SECOND));
    r.s.of[0] = plan_status(404, 100 * MS);
    arrive_many(&r.sim, 0, 200, 60 * SECOND);
    CHECK(sim_run_dry(&r.sim, r.sim.now_ns + 3600 * SECOND));
    CHECK_INT(upstream_of(&r.sim).permits, 20);
    sim_close_settled(&r.sim);
}

/* Two of twenty refused: an eighth less, and the twenty run on. Nobody goes until two have ended
 * beyond those that may be. */
static void flow__the_limit_falls__none_in_flight_is_taken_and_the_surplus_drains(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r);
    r.s.of[0] = sim_plan_ok(10 * SECOND, 100, 100);
    arrive_many(&r.sim, 0, 10, 60 * SECOND);
    r.s.of[0] = sim_plan_ok(20 * SECOND, 100, 100);
    arrive_many(&r.sim, 0, 8, 60 * SECOND);
    r.s.of[0] = plan_status(500, 50 * MS); /* its head at 25 ms */
    arrive_many(&r.sim, 0, 2, 60 * SECOND);
    r.s.of[0] = sim_plan_ok(20 * SECOND, 100, 100);
    arrive_many(&r.sim, 0, 30, 60 * SECOND);
    CHECK_INT(upstream_of(&r.sim).permits_now, 20);
    sim_run(&r.sim, r.sim.now_ns + 30 * MS);
    CHECK_INT(upstream_of(&r.sim).permits, 18);
    CHECK_INT(upstream_of(&r.sim).permits_now, 20);
    sim_run(&r.sim, r.sim.now_ns + 30 * MS); /* the two have ended: 18 of 18 */
    CHECK_INT(upstream_of(&r.sim).permits_now, 18);
    CHECK_INT(waiters_now(&r.sim), 30);
    weir_flow_audit(r.sim.flow);
    sim_run(&r.sim, r.sim.now_ns + 11 * SECOND);
    CHECK_INT(upstream_of(&r.sim).permits_now, 18);
    CHECK_INT(waiters_now(&r.sim), 20);
    finish_all(&r.sim);
}

static void flow__each_kind_of_refusal__lowers_it(void **state)
{
    (void)state;
    const struct {
        struct sim_plan plan;
        uint32_t want;
    } rows[] = {{plan_status(429, 50 * MS), 18},
                {plan_status(500, 50 * MS), 18},
                {plan_status(529, 50 * MS), 18},
                {plan_fails(WEIR_CALL_FIRST_BYTE_TIMEOUT, true, 50 * MS), 18},
                {plan_status(400, 50 * MS), 20},
                {plan_status(404, 50 * MS), 20},
                {plan_fails(WEIR_CALL_CONNECT_FAILED, false, 50 * MS), 20},
                {plan_fails(WEIR_CALL_WRITE_FAILED, true, 50 * MS), 20},
                {plan_fails(WEIR_CALL_TOTAL_TIMEOUT, true, 50 * MS), 20}};
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct rig r;
        rig_open(&r);
        r.s.of[0] = rows[i].plan;
        arrive_many(&r.sim, 0, 20, 60 * SECOND);
        CHECK(sim_run_dry(&r.sim, r.sim.now_ns + 3600 * SECOND));
        struct weir_upstream_view view = upstream_of(&r.sim);
        CHECK_MSG(view.permits == rows[i].want, "row %zu: %u", i, view.permits);
        sim_close_settled(&r.sim);
    }
}

/* With less than half of it used nothing counts. */
static void flow__light_load__leaves_it_even_when_refused(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r);
    for (int i = 0; i < 50; i++) {
        r.s.of[0] = i % 2 ? plan_status(500, 50 * MS) : sim_plan_ok(5 * SECOND, 100, 100);
        arrive_many(&r.sim, 0, 9, 60 * SECOND);
        sim_run(&r.sim, r.sim.now_ns + 6 * SECOND);
    }
    CHECK_INT(upstream_of(&r.sim).permits, 20);
    finish_all(&r.sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flow__more_waits_than_the_limit__so_many_go),
        cmocka_unit_test(flow__streams_without_a_queue__raise_it_and_more_go_at_once),
        cmocka_unit_test(flow__whole_answers__leave_it_though_the_pace_is_known),
        cmocka_unit_test(flow__errors_first_bytes__leave_it),
        cmocka_unit_test(flow__the_limit_falls__none_in_flight_is_taken_and_the_surplus_drains),
        cmocka_unit_test(flow__each_kind_of_refusal__lowers_it),
        cmocka_unit_test(flow__light_load__leaves_it_even_when_refused),
    };
    return cmocka_run_group_tests_name("core/flow_adapt", tests, NULL, NULL);
}
