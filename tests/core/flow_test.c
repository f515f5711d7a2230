/* The life of requests in exact, simulated time: budget, retries, clients that leave, drain. */
#include "flow_case.h"

/* --- budget --- */

static void flow__holds_take_the_budget__waits_for_a_settle_in_order(void **state)
{
    (void)state;
    struct weir_tenant_rules tenant[2];
    struct sim_config c = sim_config_plain(8, tenant, 2);
    struct script s = script_ok(1000 * MS);
    s.of[0].usage = (struct weir_flow_usage){1, 0, 0, 1};
    s.of[0].output_seen_bytes = 1;
    c.plan = script_plan;
    c.user = &s;
    struct sim sim;
    sim_open(&sim, &c);
    struct weir_arrival a = sim_arrival(&sim, 0, 4, 100, 60 * SECOND);
    uint32_t first = sim_arrive(&sim, &a);
    sim.granted_tok[0] = sim.requests[first].reserve_tok * 2 + 5; /* room for two at a time */
    uint32_t second = sim_arrive(&sim, &a), third = sim_arrive(&sim, &a);
    a.tenant = 1; /* of the same scope */
    uint32_t other = sim_arrive(&sim, &a);
    CHECK_INT(wait_of(&sim, second), 0);
    CHECK_INT(waiters_now(&sim), 2);
    sim_run(&sim, sim.now_ns + 999 * MS);
    CHECK_INT(waiters_now(&sim), 2);
    CHECK(sim_run_dry(&sim, sim.now_ns + 100 * SECOND));
    CHECK_INT(wait_of(&sim, third), 1000 * MS);
    CHECK_INT(wait_of(&sim, other), 1000 * MS);
    sim_close_settled(&sim);
}

/* One settle may make room for several: each that gets a hold lets the one behind it ask. */
static void flow__one_settle_frees_enough_for_three__all_three_go_at_once(void **state)
{
    (void)state;
    struct weir_tenant_rules tenant[1];
    struct sim_config c = sim_config_plain(8, tenant, 1);
    struct script s = script_ok(1000 * MS);
    s.of[0].usage = (struct weir_flow_usage){1, 0, 0, 1};
    c.plan = script_plan;
    c.user = &s;
    struct sim sim;
    sim_open(&sim, &c);
    struct weir_arrival large = sim_arrival(&sim, 0, 4, 800, 60 * SECOND);
    struct weir_arrival small = sim_arrival(&sim, 0, 4, 100, 60 * SECOND);
    uint32_t first = sim_arrive(&sim, &large);
    sim.granted_tok[0] = sim.requests[first].reserve_tok + 20;
    uint32_t waiting[3];
    for (size_t i = 0; i < 3; i++)
        waiting[i] = sim_arrive(&sim, &small);
    CHECK(sim_run_dry(&sim, sim.now_ns + 100 * SECOND));
    for (size_t i = 0; i < 3; i++)
        CHECK_INT(wait_of(&sim, waiting[i]), 1000 * MS);
    sim_close_settled(&sim);
}

static void
flow__a_smaller_one_of_the_same_tenant__does_not_pass_one_that_waits_for_budget(void **state)
{
    (void)state;
    struct weir_tenant_rules tenant[1];
    struct sim_config c = sim_config_plain(8, tenant, 1);
    struct script s = script_ok(1000 * MS);
    s.of[0].usage = (struct weir_flow_usage){1, 0, 0, 1};
    c.plan = script_plan;
    c.user = &s;
    struct sim sim;
    sim_open(&sim, &c);
    struct weir_arrival large = sim_arrival(&sim, 0, 4, 800, 60 * SECOND);
    struct weir_arrival small = sim_arrival(&sim, 0, 4, 10, 60 * SECOND);
    uint32_t first = sim_arrive(&sim, &large);
    sim.granted_tok[0] = sim.requests[first].reserve_tok + 100;
    uint32_t second = sim_arrive(&sim, &large);
    uint32_t third = sim_arrive(&sim, &small); /* there would be room for it now */
    CHECK_INT(waiters_now(&sim), 2);
    CHECK(sim_run_dry(&sim, sim.now_ns + 100 * SECOND));
    CHECK_INT(wait_of(&sim, second), 1000 * MS);
    CHECK_INT(wait_of(&sim, third), 1000 * MS);
    sim_close_settled(&sim);
}

static int64_t ledger_delay_now;

static int64_t ledger_as_told(struct sim *sim)
{
    (void)sim;
    return ledger_delay_now;
}

/* The ledger said "busy", then budget was freed, and the answer comes last: it must not be
 * believed. */
static void flow__budget_freed_between_a_busy_answer_and_its_arrival__asks_again(void **state)
{
    (void)state;
    struct weir_tenant_rules tenant[1];
    struct sim_config c = sim_config_plain(8, tenant, 1);
    c.ledger_delay = ledger_as_told;
    struct script s = script_ok(1000 * MS);
    s.of[0].usage = (struct weir_flow_usage){1, 0, 0, 1};
    c.plan = script_plan;
    c.user = &s;
    struct sim sim;
    sim_open(&sim, &c);
    uint64_t start_ns = sim.now_ns;
    struct weir_arrival a = sim_arrival(&sim, 0, 4, 800, 60 * SECOND);
    ledger_delay_now = 0;
    uint32_t first = sim_arrive(&sim, &a);
    sim_run(&sim, start_ns);
    sim.granted_tok[0] = sim.requests[first].reserve_tok + 20;
    sim_run(&sim, start_ns + 900 * MS);
    ledger_delay_now = (int64_t)(500 * MS); /* busy, said at 0.9 s, arrives at 1.4 s */
    uint32_t second = sim_arrive(&sim, &a);
    ledger_delay_now = 0; /* the settle at 1.0 s is known at once */
    CHECK(sim_run_dry(&sim, start_ns + 100 * SECOND));
    CHECK_INT(sim.requests[second].refusal, WEIR_REFUSAL_NONE);
    CHECK_INT(wait_of(&sim, second), 500 * MS);
    sim_close_settled(&sim);
}

static void flow__budget_busy_or_spent__says_which(void **state)
{
    (void)state;
    struct weir_tenant_rules tenant[2];
    struct sim_config c = sim_config_plain(8, tenant, 2);
    tenant[1].scope = 1;
    c.granted_tok[1] = 50;
    struct script s = script_ok(5000 * MS);
    c.plan = script_plan;
    c.user = &s;
    struct sim sim;
    sim_open(&sim, &c);
    struct weir_arrival a = sim_arrival(&sim, 0, 4, 100, 2 * SECOND);
    uint32_t first = sim_arrive(&sim, &a);
    sim.granted_tok[0] = sim.requests[first].reserve_tok + 5;
    uint32_t busy = sim_arrive(&sim, &a);
    sim_run(&sim, sim.now_ns + 2 * SECOND);
    CHECK_INT(sim.requests[busy].refusal, WEIR_REFUSAL_BUDGET_BUSY);
    CHECK_INT(sim.requests[busy].refused_ns - sim.requests[busy].arrived_ns, 2 * SECOND);
    CHECK_INT(sim.requests[busy].refused.scope, 0);
    CHECK(!sim.requests[busy].is_voided);
    sim_run(&sim, sim.now_ns + 10 * SECOND); /* 200 used of what 103 or so were held for: overrun */
    a = sim_arrival(&sim, 0, 4, 100, 2 * SECOND);
    uint32_t spent = sim_arrive(&sim, &a);
    CHECK_INT(sim.requests[spent].refusal, WEIR_REFUSAL_BUDGET_EXHAUSTED);
    a.tenant = 1;
    uint32_t never = sim_arrive(&sim, &a);
    CHECK_INT(sim.requests[never].refusal, WEIR_REFUSAL_TOO_LARGE);
    CHECK_INT(sim.requests[never].refused.scope, 1);
    finish_all(&sim);
}

static int64_t ledger_two_seconds(struct sim *sim)
{
    (void)sim;
    return (int64_t)(2 * SECOND);
}

static void
flow__the_ledger_is_slow__the_permit_waits_and_nothing_is_sent_before_its_answer(void **state)
{
    (void)state;
    struct weir_tenant_rules tenant[1];
    struct sim_config c = sim_config_plain(1, tenant, 1);
    c.ledger_delay = ledger_two_seconds;
    struct script s = script_ok(1000 * MS);
    c.plan = script_plan;
    c.user = &s;
    struct sim sim;
    sim_open(&sim, &c);
    uint32_t first = arrive(&sim, 0, 60 * SECOND), second = arrive(&sim, 0, 60 * SECOND);
    uint32_t hasty = arrive(&sim, 0, 1 * SECOND);
    uint32_t gone = arrive(&sim, 0, 60 * SECOND);
    sim_client_gone_at(&sim, sim.now_ns + SECOND / 2, gone);
    sim_run(&sim, sim.now_ns + SECOND);
    CHECK_INT(sim.requests[hasty].refusal, WEIR_REFUSAL_LEDGER_UNAVAILABLE);
    CHECK(sim.requests[hasty].is_alive); /* until its hold can be given back */
    CHECK(sim_run_dry(&sim, sim.now_ns + 100 * SECOND));
    CHECK_INT(wait_of(&sim, first), 2 * SECOND);
    CHECK_INT(wait_of(&sim, second), 3 * SECOND); /* the ledger's time went by while it waited */
    CHECK(sim.requests[hasty].is_voided);
    CHECK(sim.requests[gone].is_voided);
    CHECK_INT(sim.requests[gone].attempts, 0);
    sim_close_settled(&sim);
}

/* --- retries and fallbacks --- */

/* Pool 0: upstreams 0 and 1; pool 1: upstream 2, the fallback of both. */
static struct sim_config config_fallback(struct weir_tenant_rules *tenant, struct script *s)
{
    struct sim_config c = sim_config_plain(4, tenant, 1);
    c.upstream_count = 3;
    c.pool_count = 2;
    c.upstreams[0].fallback = 2;
    c.upstreams[1] = c.upstreams[2] = c.upstreams[0];
    c.upstreams[2].fallback = WEIR_NONE;
    c.pools[0].upstream_count = 2;
    c.pools[0].upstreams[1] = 1;
    c.pools[1] = c.pools[0];
    c.pools[1].upstream_count = 1;
    c.pools[1].upstreams[0] = 2;
    c.plan = script_plan;
    c.user = s;
    return c;
}

static void flow__no_byte_was_sent__each_target_is_tried_once_then_502_or_504(void **state)
{
    (void)state;
    static const struct {
        enum weir_call_end end;
        enum weir_refusal refusal;
    } rows[] = {{WEIR_CALL_CONNECT_FAILED, WEIR_REFUSAL_UPSTREAM_UNAVAILABLE},
                {WEIR_CALL_CONNECT_TIMEOUT, WEIR_REFUSAL_UPSTREAM_TIMEOUT},
                {WEIR_CALL_WRITE_FAILED, WEIR_REFUSAL_UPSTREAM_UNAVAILABLE}};
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct weir_tenant_rules tenant[1];
        struct script s = script_ok(100 * MS);
        struct sim_config c = config_fallback(tenant, &s);
        struct sim sim;
        sim_open(&sim, &c);
        s.of[0] = s.of[1] = plan_fails(rows[i].end, false, 100 * MS);
        uint32_t saved = arrive(&sim, 0, 60 * SECOND);
        sim_run(&sim, sim.now_ns + SECOND);
        CHECK_INT(sim.requests[saved].attempts, 3);
        CHECK_INT(sim.requests[saved].summary.upstream, 2);
        CHECK_INT(sim.requests[saved].refusal, WEIR_REFUSAL_NONE);
        CHECK_INT(sim.requests[saved].settled_tok, 200);
        s.of[2] = s.of[0];
        uint32_t lost = arrive(&sim, 0, 60 * SECOND);
        sim_run(&sim, sim.now_ns + SECOND);
        CHECK_INT(sim.requests[lost].attempts, 3);
        CHECK_INT(sim.requests[lost].refusal, rows[i].refusal);
        CHECK_INT(sim.requests[lost].refused_ns - sim.requests[lost].arrived_ns, 300 * MS);
        CHECK(sim.requests[lost].is_voided);
        finish_all(&sim);
    }
}

static void flow__bytes_were_sent__is_tried_again_only_with_an_idempotency_key(void **state)
{
    (void)state;
    struct sim_plan plans[] = {plan_fails(WEIR_CALL_FIRST_BYTE_TIMEOUT, true, 100 * MS),
                               plan_fails(WEIR_CALL_CUT, true, 100 * MS),
                               plan_status(500, 100 * MS), plan_status(529, 100 * MS)};
    for (size_t i = 0; i < WEIR_COUNT(plans); i++) {
        for (uint32_t repeatable = 0; repeatable < 2; repeatable++) {
            struct weir_tenant_rules tenant[1];
            struct script s = script_ok(100 * MS);
            struct sim_config c = config_fallback(tenant, &s);
            struct sim sim;
            sim_open(&sim, &c);
            s.of[0] = plans[i];
            struct weir_arrival a = sim_arrival(&sim, 0, 500, 100, 60 * SECOND);
            a.repeatable = repeatable;
            uint32_t r = sim_arrive(&sim, &a);
            CHECK(sim_run_dry(&sim, sim.now_ns + 100 * SECOND));
            CHECK_INT(sim.requests[r].attempts, 1 + repeatable);
            bool is_answer = plans[i].head_ns != WEIR_NEVER_NS; /* a 5xx passes, byte for byte */
            CHECK_INT(sim.requests[r].is_head_passed, repeatable || is_answer);
            CHECK(sim.requests[r].is_settled);
            if (repeatable)
                CHECK_INT(sim.requests[r].summary.status, 200);
            sim_close_settled(&sim);
        }
    }
}

static void flow__4xx_and_429__are_never_tried_again(void **state)
{
    (void)state;
    static const uint32_t statuses[] = {400, 401, 404, 409, 413, 429};
    for (size_t i = 0; i < WEIR_COUNT(statuses); i++) {
        struct weir_tenant_rules tenant[1];
        struct script s = script_ok(100 * MS);
        struct sim_config c = config_fallback(tenant, &s);
        struct sim sim;
        sim_open(&sim, &c);
        s.of[0] = plan_status(statuses[i], 100 * MS);
        struct weir_arrival a = sim_arrival(&sim, 0, 500, 100, 60 * SECOND);
        a.repeatable = true;
        uint32_t r = sim_arrive(&sim, &a);
        CHECK(sim_run_dry(&sim, sim.now_ns + 100 * SECOND));
        CHECK_INT(sim.requests[r].attempts, 1);
        CHECK_INT(sim.requests[r].summary.status, statuses[i]);
        sim_close_settled(&sim);
    }
}

static void flow__the_total_deadline_is_over__is_not_tried_again(void **state)
{
    (void)state;
    struct weir_tenant_rules tenant[1];
    struct script s = script_ok(100 * MS);
    struct sim_config c = config_fallback(tenant, &s);
    struct sim sim;
    sim_open(&sim, &c);
    s.of[0] = plan_fails(WEIR_CALL_CONNECT_TIMEOUT, false, 100 * MS);
    struct weir_arrival a = sim_arrival(&sim, 0, 500, 100, 60 * SECOND);
    a.total_deadline_ns = sim.now_ns + 100 * MS;
    uint32_t r = sim_arrive(&sim, &a);
    a.total_deadline_ns += 1;
    uint32_t in_time = sim_arrive(&sim, &a);
    CHECK(sim_run_dry(&sim, sim.now_ns + 100 * SECOND));
    CHECK_INT(sim.requests[r].attempts, 1);
    CHECK_INT(sim.requests[r].refusal, WEIR_REFUSAL_UPSTREAM_TIMEOUT);
    CHECK(sim.requests[in_time].refusal == WEIR_REFUSAL_NONE);
    sim_close_settled(&sim);
}

static void
flow__all_upstreams_of_a_pool_open__waiting_and_new_ones_go_to_the_fallback(void **state)
{
    (void)state;
    struct weir_tenant_rules tenant[1];
    struct script s = script_ok(100 * MS);
    struct sim_config c = config_fallback(tenant, &s);
    for (uint32_t i = 0; i < 3; i++)
        c.upstreams[i].permits = 1;
    struct sim sim;
    sim_open(&sim, &c);
    s.of[0] = s.of[1] = plan_status(500, 100 * MS);
    uint32_t first = arrive_many(&sim, 0, 30, 600 * SECOND);
    sim_run(&sim, sim.now_ns + SECOND);
    CHECK_INT(sim.calls_total[0], 5);
    CHECK_INT(sim.calls_total[1], 5);
    uint32_t new = arrive(&sim, 0, 600 * SECOND);
    CHECK(sim_run_dry(&sim, sim.now_ns + 100 * SECOND));
    for (uint32_t i = first + 10; i <= new; i++) {
        CHECK_INT(sim.requests[i].refusal, WEIR_REFUSAL_NONE);
        CHECK_INT(sim.requests[i].summary.upstream, 2);
    }
    s.of[2] = plan_status(500, 100 * MS); /* now the fallback falls ill too */
    sim_run(&sim, sim.now_ns + 100 * SECOND);
    s.of[0] = s.of[1] = plan_status(500, 100 * MS);
    arrive_many(&sim, 0, 30, 600 * SECOND);
    CHECK(sim_run_dry(&sim, sim.now_ns + 10 * SECOND));
    new = arrive(&sim, 0, 600 * SECOND);
    CHECK_INT(sim.requests[new].refusal, WEIR_REFUSAL_UPSTREAM_OPEN);
    CHECK(sim.requests[new].refused.hint_ns > 0);
    finish_all(&sim);
}

/* What a failed call took is not taken off the time in the queue, but neither is that given anew.
 */
static void flow__back_in_the_queue_after_a_failure__the_rest_of_its_patience_is_left(void **state)
{
    (void)state;
    struct weir_tenant_rules tenant[1];
    struct script s = script_ok(60 * SECOND);
    struct sim_config c = config_fallback(tenant, &s);
    for (uint32_t i = 0; i < 3; i++)
        c.upstreams[i].permits = 1;
    struct sim sim;
    sim_open(&sim, &c);
    uint64_t start_ns = sim.now_ns;
    s.of[0] = sim_plan_ok(1000 * MS, 100, 100);
    arrive(&sim, 0, 60 * SECOND); /* on 0 for a second */
    arrive(&sim, 0, 60 * SECOND); /* on 1 for a minute */
    s.of[0] = plan_fails(WEIR_CALL_CONNECT_TIMEOUT, false, 5 * SECOND);
    uint32_t r = arrive(&sim, 0, 3 * SECOND); /* on 0 after a second; then 1 has no permit free */
    CHECK(sim_run_dry(&sim, start_ns + 100 * SECOND));
    CHECK_INT(sim.requests[r].attempts, 1);
    CHECK_INT(sim.requests[r].refusal,
              WEIR_REFUSAL_UPSTREAM_TIMEOUT); /* how it failed, not how it waited */
    CHECK_INT(sim.requests[r].refused_ns - start_ns, (1 + 5 + 2) * SECOND);
    CHECK_INT(sim.requests[r].summary.queue_wait_ns, 3 * SECOND);
    CHECK(sim.requests[r].is_voided);
    sim_close_settled(&sim);
}

static void flow__of_two_upstreams__the_one_with_the_lower_share_in_flight_is_chosen(void **state)
{
    (void)state;
    struct weir_tenant_rules tenant[1];
    struct script s = script_ok(1000 * MS);
    struct sim_config c = config_fallback(tenant, &s);
    c.upstreams[0].permits = 2;
    c.upstreams[1].permits = 6;
    struct sim sim;
    sim_open(&sim, &c);
    arrive_many(&sim, 0, 4, 60 * SECOND);
    CHECK_INT(sim.calls_now[0], 1);
    CHECK_INT(sim.calls_now[1], 3);
    arrive_many(&sim, 0, 4, 60 * SECOND);
    CHECK_INT(sim.calls_now[0], 2);
    CHECK_INT(sim.calls_now[1], 6);
    finish_all(&sim);
}

/* --- clients that leave, and drain --- */

static void flow__the_client_leaves__is_charged_only_what_was_sent(void **state)
{
    (void)state;
    static const struct {
        uint64_t gone_ns;
        bool sent;
        uint64_t least_tok;
    } rows[] = {{0, false, 0},          /* queued */
                {1050 * MS, false, 0},  /* connecting */
                {1150 * MS, true, 100}, /* sent, no answer yet: input by estimate */
                {1250 * MS, true, 100}};
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct weir_tenant_rules tenant[1];
        struct sim_config c = sim_config_plain(1, tenant, 1);
        struct script s = script_ok(1000 * MS);
        c.plan = script_plan;
        c.user = &s;
        struct sim sim;
        sim_open(&sim, &c);
        arrive(&sim, 0, 60 * SECOND);
        s.of[0].sent_ns = 100 * MS;
        s.of[0].head_ns = 200 * MS;
        s.of[0].usage = (struct weir_flow_usage){-1, -1, -1, -1};
        s.of[0].output_seen_bytes = 30;
        s.of[0].cancel_ns = 10 * MS;
        uint32_t r = arrive(&sim, 0, 60 * SECOND);
        uint32_t next = arrive(&sim, 0, 60 * SECOND);
        sim_client_gone_at(&sim, sim.now_ns + rows[i].gone_ns, r);
        CHECK(sim_run_dry(&sim, sim.now_ns + 100 * SECOND));
        CHECK(sim.requests[r].is_voided != rows[i].sent);
        CHECK(sim.requests[r].is_settled == rows[i].sent);
        CHECK(sim.requests[r].settled_tok >= rows[i].least_tok);
        CHECK(sim.requests[r].summary.client_gone);
        /* the permit is free as soon as the call is over, 10 ms after the client left */
        uint64_t want_ns = rows[i].gone_ns ? rows[i].gone_ns + 10 * MS : 1000 * MS;
        CHECK_INT(wait_of(&sim, next), want_ns);
        sim_close_settled(&sim);
    }
}

/* What was sent and came to no proper end, or to an answer without usage. */
static void flow__what_an_exchange_came_to__is_charged_and_flagged_by_rule(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        enum weir_call_end end;
        uint32_t status;
        struct weir_flow_usage usage;
        bool is_final;
        uint64_t seen_bytes;
        uint64_t tok;
        bool is_estimated;
    } rows[] = {
        {"told at the end", WEIR_CALL_COMPLETE, 200, {70, 0, 0, 30}, true, 90, 100, false},
        {"told, then cut", WEIR_CALL_CUT, 200, {70, 0, 0, 30}, true, 90, 100, false},
        {"only message_start, then cut", WEIR_CALL_CUT, 200, {70, 0, 0, 1}, false, 0, 71, true},
        {"the same, and some text", WEIR_CALL_CUT, 200, {70, 0, 0, 1}, false, 91, 101, true},
        {"the same, client gone", WEIR_CALL_CANCELLED, 200, {70, 0, 0, 1}, false, 3, 71, true},
        {"zeros from the middle", WEIR_CALL_CUT, 200, {0, 0, 0, 0}, false, 9, 12, true},
        {"nothing told, text", WEIR_CALL_IDLE_TIMEOUT, 200, {-1, -1, -1, -1}, false, 30, 19, true},
        {"client gone, nothing came", WEIR_CALL_CANCELLED, 0, {-1, -1, -1, -1}, false, 0, 9, true},
        {"400 without usage", WEIR_CALL_COMPLETE, 400, {-1, -1, -1, -1}, false, 0, 0, true},
        {"529 without usage", WEIR_CALL_COMPLETE, 529, {-1, -1, -1, -1}, false, 0, 0, true},
        {"500 after text", WEIR_CALL_COMPLETE, 500, {-1, -1, -1, -1}, false, 30, 19, true},
        {"500 with usage", WEIR_CALL_COMPLETE, 500, {70, 0, 0, 30}, false, 0, 100, false},
    };
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct weir_tenant_rules tenant[1];
        struct sim_config c = sim_config_plain(1, tenant, 1);
        struct script s = script_ok(100 * MS);
        bool is_gone = rows[i].end == WEIR_CALL_CANCELLED;
        c.plan = script_plan;
        c.user = &s;
        s.of[0].end = rows[i].end;
        s.of[0].end_ns = (is_gone ? 9999 : 100) * MS;
        s.of[0].status = rows[i].status;
        s.of[0].head_ns = rows[i].status ? 10 * MS : WEIR_NEVER_NS;
        s.of[0].usage = rows[i].usage;
        s.of[0].usage_is_final = rows[i].is_final;
        s.of[0].output_seen_bytes = rows[i].seen_bytes;
        struct sim sim;
        sim_open(&sim, &c);
        struct weir_arrival a = sim_arrival(&sim, 0, 4, 100, 60 * SECOND);
        uint32_t r = sim_arrive(&sim, &a);
        CHECK_INT(sim.requests[r].reserve_tok, 109);
        if (is_gone)
            sim_client_gone_at(&sim, sim.now_ns + 50 * MS, r);
        CHECK(sim_run_dry(&sim, sim.now_ns + 100 * SECOND));
        if (sim.requests[r].settled_tok != rows[i].tok ||
            sim.requests[r].summary.estimated != rows[i].is_estimated)
            fail_msg("%s: %llu tokens, %s", rows[i].what,
                     (unsigned long long)sim.requests[r].settled_tok,
                     sim.requests[r].summary.estimated ? "flagged" : "not flagged");
        sim_close_settled(&sim);
    }
}

static void flow__drain__serves_the_queue_for_a_while_then_refuses_then_cuts(void **state)
{
    (void)state;
    struct weir_tenant_rules tenant[1];
    struct sim_config c = sim_config_plain(1, tenant, 1);
    struct script s = script_ok(1000 * MS);
    c.plan = script_plan;
    c.user = &s;
    struct sim sim;
    sim_open(&sim, &c);
    uint64_t start_ns = sim.now_ns;
    uint32_t first = arrive(&sim, 0, 60 * SECOND);
    uint32_t second = arrive(&sim, 0, 60 * SECOND);
    uint32_t third = arrive(&sim, 0, 60 * SECOND);
    sim_drain_at(&sim, start_ns + 100 * MS, start_ns + 1500 * MS, start_ns + 1700 * MS);
    sim_run(&sim, start_ns + 200 * MS);
    uint32_t new = arrive(&sim, 0, 60 * SECOND);
    CHECK_INT(sim.requests[new].refusal, WEIR_REFUSAL_DRAINING);
    CHECK(sim_run_dry(&sim, start_ns + 100 * SECOND));
    CHECK_INT(sim.requests[first].refusal, WEIR_REFUSAL_NONE);
    CHECK_INT(sim.requests[third].refusal, WEIR_REFUSAL_DRAINING);
    CHECK_INT(sim.requests[third].refused_ns, start_ns + 1500 * MS);
    CHECK(sim.requests[second].is_cut); /* its head had come at 1.5 s */
    CHECK_INT(sim.requests[second].refused_ns, start_ns + 1700 * MS);
    CHECK(sim.requests[second].is_settled);
    sim_close_settled(&sim);
}

static void flow__the_queue_is_over_in_a_drain__a_failed_call_is_not_tried_again(void **state)
{
    (void)state;
    for (uint32_t is_late = 0; is_late < 2; is_late++) {
        struct weir_tenant_rules tenant[1];
        struct script s = script_ok(100 * MS);
        struct sim_config c = config_fallback(tenant, &s);
        struct sim sim;
        sim_open(&sim, &c);
        s.of[0] = plan_fails(WEIR_CALL_CONNECT_FAILED, false, 1000 * MS);
        sim_drain_at(&sim, sim.now_ns + 100 * MS, sim.now_ns + (is_late ? 900 : 1100) * MS,
                     sim.now_ns + 60 * SECOND);
        uint32_t r = arrive(&sim, 0, 60 * SECOND);
        CHECK(sim_run_dry(&sim, sim.now_ns + 100 * SECOND));
        CHECK_INT(sim.requests[r].attempts, is_late ? 1 : 2);
        CHECK_INT(sim.requests[r].refusal,
                  is_late ? WEIR_REFUSAL_UPSTREAM_UNAVAILABLE : WEIR_REFUSAL_NONE);
        sim_close_settled(&sim);
    }
}

static void flow__an_answer_that_is_cut__ends_in_a_cut_never_in_a_second_answer(void **state)
{
    (void)state;
    static const struct {
        enum weir_call_end end;
        enum weir_refusal refusal;
    } rows[] = {{WEIR_CALL_CUT, WEIR_REFUSAL_UPSTREAM_UNAVAILABLE},
                {WEIR_CALL_IDLE_TIMEOUT, WEIR_REFUSAL_UPSTREAM_TIMEOUT},
                {WEIR_CALL_TOTAL_TIMEOUT, WEIR_REFUSAL_UPSTREAM_TIMEOUT}};
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct weir_tenant_rules tenant[1];
        struct script s = script_ok(1000 * MS);
        struct sim_config c = config_fallback(tenant, &s);
        struct sim sim;
        sim_open(&sim, &c);
        s.of[0].end = rows[i].end;
        s.of[0].usage = (struct weir_flow_usage){120, 0, 0, 1}; /* from the stream's first event */
        s.of[0].output_seen_bytes = 300;
        struct weir_arrival a = sim_arrival(&sim, 0, 500, 400, 60 * SECOND);
        a.repeatable = true; /* even so: the client has seen part of the first */
        uint32_t r = sim_arrive(&sim, &a);
        CHECK(sim_run_dry(&sim, sim.now_ns + 100 * SECOND));
        CHECK(sim.requests[r].is_cut);
        CHECK_INT(sim.requests[r].attempts, 1);
        CHECK_INT(sim.requests[r].refusal, rows[i].refusal);
        CHECK_INT(sim.requests[r].settled_tok, 120 + 100); /* what was observed, not the 1 */
        CHECK(sim.requests[r].is_naive_estimated);
        sim_close_settled(&sim);
    }
}

static void flow__events_for_a_request_that_is_gone__change_nothing(void **state)
{
    (void)state;
    struct weir_tenant_rules tenant[1];
    struct sim_config c = sim_config_plain(1, tenant, 1);
    c.limits.requests_max = 1; /* the slot is used again at once */
    struct script s = script_ok(100 * MS);
    c.plan = script_plan;
    c.user = &s;
    struct sim sim;
    sim_open(&sim, &c);
    uint32_t first = arrive(&sim, 0, 60 * SECOND);
    uint64_t old = sim.requests[first].id;
    sim_run(&sim, sim.now_ns + SECOND);
    uint32_t r = arrive(&sim, 0, 60 * SECOND);
    CHECK(sim.requests[r].id != old);
    struct weir_call_facts facts = {.end = WEIR_CALL_COMPLETE, .sent = true, .status = 200};
    struct weir_reserve_told told = {.answer = WEIR_RESERVE_EXHAUSTED};
    weir_flow_reserved(sim.flow, old, &told, sim.now_ns);
    weir_flow_extended(sim.flow, old, WEIR_RESERVE_EXHAUSTED, 0, sim.now_ns);
    CHECK(weir_flow_progress(sim.flow, old, 1, 1, 100000, sim.now_ns) == UINT64_MAX);
    weir_flow_ended(sim.flow, old, &facts, sim.now_ns);
    weir_flow_client_gone(sim.flow, old, sim.now_ns);
    CHECK(!weir_flow_head(sim.flow, old, 200, 0, sim.now_ns));
    weir_flow_first_byte(sim.flow, old, sim.now_ns);
    weir_flow_client_gone(sim.flow, WEIR_NONE, sim.now_ns);
    weir_flow_audit(sim.flow);
    CHECK_INT(try(&sim, 0, 60 * SECOND), WEIR_REFUSAL_INTERNAL);
    CHECK(sim_run_dry(&sim, sim.now_ns + 100 * SECOND));
    CHECK_INT(sim.requests[r].settled_tok, 200);
    sim_close_settled(&sim);
}

static void flow__live_holds__can_be_listed(void **state)
{
    (void)state;
    struct weir_tenant_rules tenant[1];
    struct sim_config c = sim_config_plain(1, tenant, 1);
    struct script s = script_ok(1000 * MS);
    c.plan = script_plan;
    c.user = &s;
    struct sim sim;
    sim_open(&sim, &c);
    arrive(&sim, 0, 60 * SECOND);
    arrive(&sim, 0, 60 * SECOND);
    sim_run(&sim, sim.now_ns + 250 * MS);
    struct weir_hold_view hold;
    uint32_t cursor = 0, count = 0;
    while (weir_flow_hold_view(sim.flow, &cursor, sim.now_ns, &hold)) {
        CHECK_STR(hold.state, count == 0 ? "sent" : "waiting");
        CHECK_INT(hold.age_ns, 250 * MS);
        CHECK_INT(hold.estimate_tok, sim.requests[count].reserve_tok);
        count++;
    }
    CHECK_INT(count, 2);
    struct weir_tenant_view view;
    weir_flow_tenant_view(sim.flow, 0, sim.now_ns, &view);
    CHECK_INT(view.waiting, 1);
    CHECK_INT(view.in_flight, 1);
    CHECK_INT(view.longest_wait_ns, 250 * MS);
    finish_all(&sim);
}

static void flow__a_client_tells_its_timeout__waits_nine_tenths_of_it_at_most(void **state)
{
    (void)state;
    CHECK_INT(weir_flow_wait_max_ns(30 * SECOND, 0), 30 * SECOND); /* it does not */
    CHECK_INT(weir_flow_wait_max_ns(30 * SECOND, 10 * SECOND), 9 * SECOND);
    CHECK_INT(weir_flow_wait_max_ns(30 * SECOND, 600 * SECOND), 30 * SECOND);
    CHECK_INT(weir_flow_wait_max_ns(0, 10 * SECOND), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flow__holds_take_the_budget__waits_for_a_settle_in_order),
        cmocka_unit_test(flow__one_settle_frees_enough_for_three__all_three_go_at_once),
        cmocka_unit_test(
            flow__a_smaller_one_of_the_same_tenant__does_not_pass_one_that_waits_for_budget),
        cmocka_unit_test(flow__budget_freed_between_a_busy_answer_and_its_arrival__asks_again),
        cmocka_unit_test(flow__budget_busy_or_spent__says_which),
        cmocka_unit_test(
            flow__the_ledger_is_slow__the_permit_waits_and_nothing_is_sent_before_its_answer),
        cmocka_unit_test(flow__no_byte_was_sent__each_target_is_tried_once_then_502_or_504),
        cmocka_unit_test(flow__bytes_were_sent__is_tried_again_only_with_an_idempotency_key),
        cmocka_unit_test(flow__4xx_and_429__are_never_tried_again),
        cmocka_unit_test(flow__the_total_deadline_is_over__is_not_tried_again),
        cmocka_unit_test(
            flow__all_upstreams_of_a_pool_open__waiting_and_new_ones_go_to_the_fallback),
        cmocka_unit_test(flow__back_in_the_queue_after_a_failure__the_rest_of_its_patience_is_left),
        cmocka_unit_test(flow__of_two_upstreams__the_one_with_the_lower_share_in_flight_is_chosen),
        cmocka_unit_test(flow__the_client_leaves__is_charged_only_what_was_sent),
        cmocka_unit_test(flow__what_an_exchange_came_to__is_charged_and_flagged_by_rule),
        cmocka_unit_test(flow__drain__serves_the_queue_for_a_while_then_refuses_then_cuts),
        cmocka_unit_test(flow__the_queue_is_over_in_a_drain__a_failed_call_is_not_tried_again),
        cmocka_unit_test(flow__an_answer_that_is_cut__ends_in_a_cut_never_in_a_second_answer),
        cmocka_unit_test(flow__events_for_a_request_that_is_gone__change_nothing),
        cmocka_unit_test(flow__a_client_tells_its_timeout__waits_nine_tenths_of_it_at_most),
        cmocka_unit_test(flow__live_holds__can_be_listed),
    };
    return cmocka_run_group_tests_name("flow", tests, NULL, NULL);
}
