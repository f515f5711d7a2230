/* What a spent budget does with a request, and what an answer does that passes its hold. */
#include "flow_case.h"

/* Scope 0 has room for one request of tenant 0; pool 1 (upstream 1) is there to fall back to, and
 * charges scope 1. */
struct spent {
    struct weir_tenant_rules tenants[2];
    struct sim_config config;
    struct script script;
    struct sim sim;
    struct weir_arrival arrival;
    uint64_t cost_tok;
};

static void spent_config(struct spent *p)
{
    p->config = sim_config_plain(8, p->tenants, 2);
    p->script = script_ok(1000 * MS);
    p->config.plan = script_plan;
    p->config.user = &p->script;
    p->config.upstream_count = p->config.pool_count = 2;
    p->config.upstreams[1] = p->config.upstreams[0];
    p->config.pools[1] = p->config.pools[0];
    p->config.pools[1].upstreams[0] = 1;
    p->config.scopes[0].fallback_pool = 1;
    p->config.scopes[0].fallback_scope = 1;
}

/* Opens, and spends all of scope 0 but a little by one request that is over. */
static void spent_open(struct spent *p, uint64_t patience_ns)
{
    sim_open(&p->sim, &p->config);
    p->arrival = sim_arrival(&p->sim, 0, 4, 100, patience_ns);
    struct weir_arrival first = p->arrival;
    first.queue_deadline_ns = p->sim.now_ns + SECOND;
    uint32_t r = sim_arrive(&p->sim, &first);
    sim_run(&p->sim, p->sim.now_ns + 1000 * MS);
    p->cost_tok = p->sim.requests[r].reserve_tok;
    sim_grant(&p->sim, 0, sim_committed_tok(&p->sim, 0) + p->cost_tok - 1);
    p->arrival.queue_deadline_ns = p->sim.now_ns + patience_ns;
}

static void flow__spent_and_policy_refuse__the_hint_is_the_windows_next_start(void **state)
{
    (void)state;
    struct spent p;
    spent_config(&p);
    p.config.scopes[0].period_ns = 3600 * SECOND;
    spent_open(&p, 60 * SECOND);
    uint32_t r = sim_arrive(&p.sim, &p.arrival);
    CHECK_INT(p.sim.requests[r].refusal, WEIR_REFUSAL_BUDGET_EXHAUSTED);
    CHECK_INT(p.sim.requests[r].refused.scope, 0);
    CHECK_INT(p.sim.requests[r].refused.hint_ns, 3600 * SECOND - p.sim.now_ns);
    CHECK_INT(p.sim.requests[r].attempts, 0);
    finish_all(&p.sim);
}

static void flow__spent_and_no_window_to_come__no_time_is_promised(void **state)
{
    (void)state;
    static const enum weir_exhausted_policy policies[] = {WEIR_EXHAUSTED_REFUSE,
                                                          WEIR_EXHAUSTED_QUEUE};
    for (size_t i = 0; i < WEIR_COUNT(policies); i++) {
        struct spent p;
        spent_config(&p);
        p.config.scopes[0].policy = policies[i];
        spent_open(&p, 60 * SECOND);
        uint32_t r = sim_arrive(&p.sim, &p.arrival);
        CHECK_INT(p.sim.requests[r].refusal, WEIR_REFUSAL_BUDGET_EXHAUSTED);
        CHECK_INT(p.sim.requests[r].refused.hint_ns, 0);
        finish_all(&p.sim);
    }
}

static void flow__above_the_whole_grant__is_too_large_under_every_policy(void **state)
{
    (void)state;
    static const enum weir_exhausted_policy policies[] = {
        WEIR_EXHAUSTED_REFUSE, WEIR_EXHAUSTED_FALLBACK, WEIR_EXHAUSTED_QUEUE};
    for (size_t i = 0; i < WEIR_COUNT(policies); i++) {
        struct spent p;
        spent_config(&p);
        p.config.scopes[0].policy = policies[i];
        p.config.scopes[0].period_ns = 30 * SECOND;
        spent_open(&p, 60 * SECOND);
        sim_grant(&p.sim, 0, p.cost_tok - 1);
        uint32_t r = sim_arrive(&p.sim, &p.arrival);
        CHECK_INT(p.sim.requests[r].refusal, WEIR_REFUSAL_TOO_LARGE);
        CHECK_INT(p.sim.requests[r].refused.hint_ns, 0);
        finish_all(&p.sim);
    }
}

static void flow__spent_and_policy_fallback__goes_there_and_is_charged_there(void **state)
{
    (void)state;
    struct spent p;
    spent_config(&p);
    p.config.scopes[0].policy = WEIR_EXHAUSTED_FALLBACK;
    spent_open(&p, 60 * SECOND);
    uint64_t before = sim_committed_tok(&p.sim, 0);
    uint32_t r = sim_arrive(&p.sim, &p.arrival);
    CHECK(sim_run_dry(&p.sim, p.sim.now_ns + 10 * SECOND));
    CHECK_INT(p.sim.requests[r].refusal, WEIR_REFUSAL_NONE);
    CHECK_INT(p.sim.requests[r].falls, 1);
    CHECK_INT(p.sim.requests[r].summary.upstream, 1);
    CHECK_INT(sim_committed_tok(&p.sim, 0), before);
    CHECK_INT(sim_committed_tok(&p.sim, 1), 200);
    CHECK_INT(p.sim.calls_total[0], 1);
    finish_all(&p.sim);
}

static void flow__the_fallbacks_budget_is_spent_too__is_final(void **state)
{
    (void)state;
    struct spent p;
    spent_config(&p);
    for (uint32_t i = 0; i < 2; i++) {
        p.config.scopes[i].policy = WEIR_EXHAUSTED_FALLBACK; /* in a circle, were it let */
        p.config.scopes[i].fallback_pool = 1 - i;
        p.config.scopes[i].fallback_scope = 1 - i;
    }
    p.config.scopes[1].period_ns = 100 * SECOND;
    spent_open(&p, 60 * SECOND);
    struct weir_arrival other = p.arrival;
    other.tenant = 1;
    other.pool = 1;
    p.tenants[1].scope = 1;
    weir_flow_tenant_set(p.sim.flow, 1, &p.tenants[1], p.sim.now_ns);
    sim_arrive(&p.sim, &other);
    sim_run(&p.sim, p.sim.now_ns + SECOND);
    sim_grant(&p.sim, 1, sim_committed_tok(&p.sim, 1) + p.cost_tok - 1);
    uint32_t r = sim_arrive(&p.sim, &p.arrival);
    CHECK_INT(p.sim.requests[r].refusal, WEIR_REFUSAL_BUDGET_EXHAUSTED);
    CHECK_INT(p.sim.requests[r].refused.scope, 1);
    CHECK_INT(p.sim.requests[r].refused.hint_ns, 100 * SECOND - p.sim.now_ns);
    CHECK_INT(p.sim.requests[r].falls, 1);
    finish_all(&p.sim);
}

static void flow__the_fallbacks_pool_refuses__tells_that_refusal(void **state)
{
    (void)state;
    struct spent p;
    spent_config(&p);
    p.config.scopes[0].policy = WEIR_EXHAUSTED_FALLBACK;
    p.config.upstreams[1].requests = rate(1, 1);
    spent_open(&p, 500 * MS);
    uint32_t first = sim_arrive(&p.sim, &p.arrival), second = sim_arrive(&p.sim, &p.arrival);
    CHECK_INT(p.sim.requests[first].refusal, WEIR_REFUSAL_NONE);
    CHECK_INT(p.sim.requests[second].refusal, WEIR_REFUSAL_QUEUE_TIMEOUT);
    CHECK_INT(p.sim.requests[second].refused.hint_ns, 500 * MS);
    finish_all(&p.sim);

    spent_config(&p); /* and its breaker */
    p.config.scopes[0].policy = WEIR_EXHAUSTED_FALLBACK;
    p.config.upstreams[1].breaker.failures_in_row = 1;
    p.script.of[1] = plan_fails(WEIR_CALL_CONNECT_FAILED, false, 0);
    spent_open(&p, 500 * MS);
    first = sim_arrive(&p.sim, &p.arrival);
    sim_run(&p.sim, p.sim.now_ns);
    second = sim_arrive(&p.sim, &p.arrival);
    CHECK_INT(p.sim.requests[first].refusal, WEIR_REFUSAL_UPSTREAM_UNAVAILABLE);
    CHECK_INT(p.sim.requests[second].refusal, WEIR_REFUSAL_UPSTREAM_OPEN);
    CHECK_INT(p.sim.requests[second].refused.upstream, 1);
    finish_all(&p.sim);
}

static int64_t delay_now;

static int64_t delay_as_told(struct sim *sim)
{
    (void)sim;
    return delay_now;
}

enum ending { BY_CLIENT, BY_DRAIN, BY_BREAKER, BY_BREAKER_WAITING, BY_DEADLINE, BY_LEDGER };

/* Whatever ends the request while its second RESERVE is out: what it had is given back. */
static void flow__the_request_ends_while_the_fallback_is_asked__nothing_is_kept(void **state)
{
    (void)state;
    static const struct {
        enum ending how;
        enum weir_refusal want;
    } rows[] = {{BY_CLIENT, WEIR_REFUSAL_NONE},
                {BY_DRAIN, WEIR_REFUSAL_DRAINING},
                {BY_BREAKER, WEIR_REFUSAL_UPSTREAM_UNAVAILABLE}, /* it had its permit: it is sent */
                {BY_BREAKER_WAITING, WEIR_REFUSAL_UPSTREAM_OPEN},
                {BY_DEADLINE, WEIR_REFUSAL_LEDGER_UNAVAILABLE},
                {BY_LEDGER, WEIR_REFUSAL_LEDGER_UNAVAILABLE}};
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct spent p;
        enum ending how = rows[i].how;
        spent_config(&p);
        p.config.ledger_delay = delay_as_told;
        p.config.scopes[0].policy = WEIR_EXHAUSTED_FALLBACK;
        p.config.upstreams[1].breaker.failures_in_row = 1;
        p.config.upstreams[1].permits = how == BY_BREAKER_WAITING ? 1 : 2;
        p.script.of[1] = plan_fails(WEIR_CALL_CONNECT_FAILED, false, 450 * MS);
        delay_now = 0;
        spent_open(&p, how == BY_DEADLINE ? 500 * MS : 10 * SECOND);
        struct weir_arrival other = p.arrival; /* its call ends at 0.45 s and trips the breaker */
        other.tenant = 1;
        other.pool = 1;
        other.metered = false;
        if (how == BY_BREAKER || how == BY_BREAKER_WAITING)
            sim_arrive(&p.sim, &other);
        delay_now = (int64_t)(300 * MS);
        uint32_t r = sim_arrive(&p.sim, &p.arrival); /* answered at 0.3 s, the second at 0.6 s */
        delay_now = how == BY_LEDGER ? -1 : delay_now;
        sim_run(&p.sim, p.sim.now_ns + 400 * MS);
        delay_now = 0;
        const struct sim_request *q = &p.sim.requests[r];
        CHECK_INT(q->falls, 1);
        if (how == BY_CLIENT)
            sim_client_gone_at(&p.sim, p.sim.now_ns, r);
        if (how == BY_DRAIN)
            sim_drain_at(&p.sim, p.sim.now_ns, p.sim.now_ns, p.sim.now_ns + SECOND);
        CHECK(sim_run_dry(&p.sim, p.sim.now_ns + 100 * SECOND));
        CHECK_INT(q->refusal, rows[i].want);
        CHECK_INT(q->attempts, how == BY_BREAKER);
        CHECK(q->is_voided == (how != BY_LEDGER));
        finish_all(&p.sim);
    }
}

static void flow__spent_and_policy_queue__waits_for_the_window_in_order(void **state)
{
    (void)state;
    struct spent p;
    spent_config(&p);
    p.config.scopes[0].policy = WEIR_EXHAUSTED_QUEUE;
    p.config.scopes[0].period_ns = 10 * SECOND;
    p.config.scopes[0].late_ns = 1 * MS;
    p.script.of[0] = sim_plan_ok(100 * MS, 100, 100);
    spent_open(&p, 60 * SECOND);
    uint32_t first = sim_arrive(&p.sim, &p.arrival), second = sim_arrive(&p.sim, &p.arrival);
    CHECK_INT(waiters_now(&p.sim), 2);
    sim_run(&p.sim, 10 * SECOND);
    CHECK_INT(waiters_now(&p.sim), 2);
    struct weir_tenant_view view;
    weir_flow_tenant_view(p.sim.flow, 0, p.sim.now_ns, &view);
    CHECK_INT(view.longest_wait_ns, p.sim.now_ns - p.sim.requests[first].arrived_ns);
    CHECK(sim_run_dry(&p.sim, 100 * SECOND));
    CHECK_INT(p.sim.requests[first].first_dispatched_ns, 10001 * MS);
    CHECK_INT(p.sim.requests[second].refusal, WEIR_REFUSAL_NONE);
    CHECK(p.sim.requests[second].first_dispatched_ns >= p.sim.requests[first].first_dispatched_ns);
    finish_all(&p.sim);
}

static void flow__policy_queue_and_the_window_is_beyond_the_deadline__refuses_at_once(void **state)
{
    (void)state;
    struct spent p;
    spent_config(&p);
    p.config.scopes[0].policy = WEIR_EXHAUSTED_QUEUE;
    p.config.scopes[0].period_ns = 10 * SECOND;
    spent_open(&p, 10 * SECOND - 2001 * MS); /* it is 2 s now */
    uint32_t r = sim_arrive(&p.sim, &p.arrival);
    CHECK_INT(p.sim.requests[r].refusal, WEIR_REFUSAL_BUDGET_EXHAUSTED);
    CHECK_INT(p.sim.requests[r].refused_ns, p.sim.requests[r].arrived_ns);
    CHECK_INT(p.sim.requests[r].refused.hint_ns, 8 * SECOND);
    p.arrival.queue_deadline_ns = 10 * SECOND; /* at its very start */
    r = sim_arrive(&p.sim, &p.arrival);
    CHECK_INT(p.sim.requests[r].refusal, WEIR_REFUSAL_NONE);
    CHECK_INT(waiters_now(&p.sim), 1);
    finish_all(&p.sim);
}

/* The clock is in doubt, or the ledger is away: the window begins too late for those who wait. */
static void flow__the_window_does_not_begin__the_deadline_says_spent_not_busy(void **state)
{
    (void)state;
    struct spent p;
    spent_config(&p);
    p.config.scopes[0].policy = WEIR_EXHAUSTED_QUEUE;
    p.config.scopes[0].period_ns = 10 * SECOND;
    p.config.scopes[0].late_ns = 30 * SECOND;
    spent_open(&p, 20 * SECOND);
    uint32_t r = sim_arrive(&p.sim, &p.arrival);
    CHECK(sim_run_dry(&p.sim, 100 * SECOND));
    CHECK_INT(p.sim.requests[r].refusal, WEIR_REFUSAL_BUDGET_EXHAUSTED);
    CHECK_INT(p.sim.requests[r].refused_ns, p.arrival.queue_deadline_ns);
    CHECK_INT(p.sim.requests[r].refused.hint_ns, SECOND);
    CHECK_INT(p.sim.requests[r].refused.scope, 0);
    finish_all(&p.sim);
}

/* One that waits for the window holds nobody up: what still fits goes first. */
static void flow__a_large_one_waits_for_the_window__a_small_one_of_the_tenant_passes(void **state)
{
    (void)state;
    struct spent p;
    spent_config(&p);
    p.config.scopes[0].policy = WEIR_EXHAUSTED_QUEUE;
    p.config.scopes[0].period_ns = 10 * SECOND;
    spent_open(&p, 60 * SECOND);
    uint32_t large = sim_arrive(&p.sim, &p.arrival);
    struct weir_arrival small = sim_arrival(&p.sim, 0, 4, 1, SECOND);
    uint32_t r = sim_arrive(&p.sim, &small);
    CHECK_INT(wait_of(&p.sim, r), 0);
    CHECK(sim_run_dry(&p.sim, 100 * SECOND));
    CHECK_INT(p.sim.requests[large].first_dispatched_ns, 10 * SECOND);
    finish_all(&p.sim);
}

static void flow__a_grant_is_raised__who_waits_for_the_window_goes_at_once(void **state)
{
    (void)state;
    struct spent p;
    spent_config(&p);
    p.config.scopes[0].policy = WEIR_EXHAUSTED_QUEUE;
    p.config.scopes[0].period_ns = 50 * SECOND;
    spent_open(&p, 60 * SECOND);
    uint32_t r = sim_arrive(&p.sim, &p.arrival);
    sim_run(&p.sim, 5 * SECOND);
    weir_flow_budget_raised(p.sim.flow, 3); /* another scope's: nothing is asked */
    sim_run(&p.sim, 5 * SECOND);
    CHECK_INT(waiters_now(&p.sim), 1);
    sim_grant(&p.sim, 0, p.sim.granted_tok[0] + 1);
    sim_run(&p.sim, 5 * SECOND);
    CHECK_INT(p.sim.requests[r].first_dispatched_ns, 5 * SECOND);
    finish_all(&p.sim);
}

/* The answer "spent" was given before the window began and comes after that: it is not believed. */
static void flow__the_window_begins_between_the_answer_and_its_arrival__asks_again(void **state)
{
    (void)state;
    struct spent p;
    spent_config(&p);
    p.config.scopes[0].policy = WEIR_EXHAUSTED_QUEUE;
    p.config.scopes[0].period_ns = 10 * SECOND;
    p.config.ledger_delay = delay_as_told;
    delay_now = 0;
    spent_open(&p, 60 * SECOND);
    sim_run(&p.sim, 9900 * MS);
    delay_now = (int64_t)(500 * MS);
    uint32_t r = sim_arrive(&p.sim, &p.arrival);
    delay_now = 0;
    CHECK(sim_run_dry(&p.sim, 100 * SECOND));
    CHECK_INT(p.sim.requests[r].refusal, WEIR_REFUSAL_NONE);
    CHECK_INT(p.sim.requests[r].first_dispatched_ns, 10400 * MS);
    finish_all(&p.sim);
}

/* Two wait for one hold to end; then the first finds the budget spent and leaves the line: the one
 * behind it is asked at once. */
static void flow__the_head_of_the_line_finds_it_spent__the_one_behind_is_asked(void **state)
{
    (void)state;
    static const enum weir_exhausted_policy policies[] = {
        WEIR_EXHAUSTED_REFUSE, WEIR_EXHAUSTED_FALLBACK, WEIR_EXHAUSTED_QUEUE};
    for (size_t i = 0; i < WEIR_COUNT(policies); i++) {
        struct spent p;
        spent_config(&p);
        p.config.scopes[0].policy = policies[i];
        p.config.scopes[0].period_ns = 30 * SECOND;
        sim_open(&p.sim, &p.config);
        struct weir_arrival a = sim_arrival(&p.sim, 0, 4, 100, 60 * SECOND);
        uint32_t first = sim_arrive(&p.sim, &a);
        a = sim_arrival(&p.sim, 0, 4, 300, 60 * SECOND);
        sim_grant(&p.sim, 0, p.sim.requests[first].reserve_tok + 308);
        uint32_t large = sim_arrive(&p.sim, &a);
        a = sim_arrival(&p.sim, 0, 4, 10, 60 * SECOND);
        uint32_t small = sim_arrive(&p.sim, &a);
        CHECK_INT(waiters_now(&p.sim), 2);
        CHECK(sim_run_dry(&p.sim, p.sim.now_ns + 100 * SECOND));
        CHECK_INT(wait_of(&p.sim, small), 1000 * MS);
        CHECK_INT(p.sim.requests[large].refusal, policies[i] == WEIR_EXHAUSTED_REFUSE
                                                     ? WEIR_REFUSAL_BUDGET_EXHAUSTED
                                                     : WEIR_REFUSAL_NONE);
        finish_all(&p.sim);
    }
}

/* --- an answer that passes its hold --- */

/* One stream of 3,000 tokens of output, seen ten times on its way, under a hold for 100 of them:
 * the model's default, since the request names no limit. */
static void stream_config(struct spent *p)
{
    spent_config(p);
    p->config.model.output_default_tok = 100;
    p->script.of[0].usage = (struct weir_flow_usage){10, 0, 0, 3000};
    p->script.of[0].output_seen_bytes = 9000;
    p->script.of[0].progress_count = 9;
    p->script.of[0].head_ns = 0;
}

static uint32_t stream_start(struct spent *p, uint64_t limit_tok)
{
    sim_open(&p->sim, &p->config);
    struct weir_arrival a = sim_arrival(&p->sim, 0, 4, limit_tok, 60 * SECOND);
    return sim_arrive(&p->sim, &a);
}

static void flow__an_answer_passes_its_hold__asks_for_a_quarter_more_at_a_time(void **state)
{
    (void)state;
    struct spent p;
    stream_config(&p);
    uint32_t r = stream_start(&p, 0);
    sim_run(&p.sim, p.sim.now_ns + 99 * MS);
    CHECK_INT(p.sim.requests[r].extends, 0);
    sim_run(&p.sim, p.sim.now_ns + 1 * MS); /* 1,000 bytes: 334 tokens, and 10 of input */
    CHECK_INT(p.sim.requests[r].extends, 1);
    CHECK_INT(p.sim.requests[r].held_tok, 344 + 1024);
    CHECK_INT(sim_reserved_tok(&p.sim, 0), 344 + 1024);
    CHECK(sim_run_dry(&p.sim, p.sim.now_ns + 10 * SECOND));
    CHECK_INT(p.sim.requests[r].extends, 3); /* at 344, 1,677 and 2,677 */
    CHECK_INT(p.sim.requests[r].settled_tok, 3010);
    CHECK(!p.sim.requests[r].is_cut);
    finish_all(&p.sim);
}

/* Three bytes a token is the upper side: by that count alone an answer would pass its own limit. */
static void flow__the_limit_is_the_requests_own__nothing_is_asked(void **state)
{
    (void)state;
    struct spent p;
    stream_config(&p);
    p.script.of[0].usage = (struct weir_flow_usage){1, 0, 0, 2500};
    uint32_t r = stream_start(&p, 2500);
    CHECK(sim_run_dry(&p.sim, p.sim.now_ns + 10 * SECOND));
    CHECK_INT(p.sim.requests[r].extends, 0);
    CHECK_INT(p.sim.requests[r].settled_tok, 2501);
    finish_all(&p.sim);

    stream_config(&p); /* but its input was under-estimated: more than the limit is never asked */
    p.script.of[0].usage = (struct weir_flow_usage){1000, 0, 0, 2500};
    r = stream_start(&p, 2500);
    CHECK(sim_run_dry(&p.sim, p.sim.now_ns + 10 * SECOND));
    CHECK_INT(p.sim.requests[r].extends, 1);
    CHECK_INT(p.sim.requests[r].held_tok, 3500);
    finish_all(&p.sim);
}

static void
flow__no_room_to_grow_and_the_policy_is_cut__is_cut_and_charged_what_was_seen(void **state)
{
    (void)state;
    struct spent p;
    struct weir_flow_view view;
    stream_config(&p);
    p.tenants[0].overrun_cuts = true;
    p.config.granted_tok[0] = 1000;
    p.script.of[0].cancel_ns = 10 * MS;
    uint32_t r = stream_start(&p, 0);
    sim_run(&p.sim, p.sim.now_ns + 100 * MS);
    weir_flow_view(p.sim.flow, &view);
    CHECK_INT(view.overruns_now, 1);
    CHECK(sim_run_dry(&p.sim, p.sim.now_ns + 10 * SECOND));
    CHECK_INT(p.sim.requests[r].refusal, WEIR_REFUSAL_BUDGET_EXHAUSTED); /* more than its grant */
    CHECK_INT(p.sim.requests[r].refused.scope, 0);
    CHECK(p.sim.requests[r].is_cut);
    CHECK(p.sim.requests[r].summary.estimated);
    weir_flow_view(p.sim.flow, &view);
    CHECK_INT(view.overruns_now, 0);
    CHECK_INT(view.overruns, 1);
    CHECK_INT(view.overruns_cut, 1);
    finish_all(&p.sim);
}

static void flow__no_room_to_grow_and_the_policy_is_log__goes_on_and_asks_no_more(void **state)
{
    (void)state;
    struct spent p;
    struct weir_flow_view view;
    stream_config(&p);
    p.config.granted_tok[0] = 1000;
    uint32_t r = stream_start(&p, 0);
    CHECK(sim_run_dry(&p.sim, p.sim.now_ns + 10 * SECOND));
    CHECK_INT(p.sim.requests[r].refusal, WEIR_REFUSAL_NONE);
    CHECK_INT(p.sim.requests[r].extends, 1);
    CHECK_INT(p.sim.requests[r].settled_tok, 3010);
    weir_flow_view(p.sim.flow, &view);
    CHECK_INT(view.overruns_now, 0);
    CHECK_INT(view.overruns, 1);
    CHECK_INT(view.overruns_cut, 0);
    finish_all(&p.sim);
}

static void flow__an_answer_is_cut__the_reason_is_what_the_ledger_said(void **state)
{
    (void)state;
    struct spent p;
    stream_config(&p);
    p.tenants[0].overrun_cuts = true;
    p.config.granted_tok[0] = 2000; /* the other's hold takes the rest */
    sim_open(&p.sim, &p.config);
    struct weir_arrival a = sim_arrival(&p.sim, 0, 4, 0, 60 * SECOND);
    uint32_t r = sim_arrive(&p.sim, &a);
    a = sim_arrival(&p.sim, 1, 4, 1500, 60 * SECOND);
    sim_arrive(&p.sim, &a);
    sim_run(&p.sim, p.sim.now_ns + 100 * MS);
    CHECK_INT(p.sim.requests[r].refusal, WEIR_REFUSAL_BUDGET_BUSY);
    finish_all(&p.sim);

    stream_config(&p);
    p.tenants[0].overrun_cuts = true;
    p.config.ledger_delay = delay_as_told;
    delay_now = 0;
    r = stream_start(&p, 0);
    sim_run(&p.sim, p.sim.now_ns + 50 * MS);
    delay_now = -1; /* the ledger is away */
    sim_run(&p.sim, p.sim.now_ns + 100 * MS);
    CHECK_INT(p.sim.requests[r].refusal, WEIR_REFUSAL_LEDGER_UNAVAILABLE);
    CHECK(p.sim.requests[r].is_cut);
    finish_all(&p.sim);
}

static void flow__the_answer_ends_while_more_is_asked_for__is_settled_once(void **state)
{
    (void)state;
    for (uint32_t is_refused = 0; is_refused < 2; is_refused++) {
        struct spent p;
        stream_config(&p);
        p.tenants[0].overrun_cuts = true;
        p.config.ledger_delay = delay_as_told;
        p.config.granted_tok[0] = is_refused ? 1000 : 10000;
        delay_now = 0;
        uint32_t r = stream_start(&p, 0);
        sim_run(&p.sim, p.sim.now_ns + 50 * MS);
        delay_now = (int64_t)(5000 * MS); /* long after the end */
        sim_run(&p.sim, p.sim.now_ns + 100 * MS);
        delay_now = 0;
        CHECK(sim_run_dry(&p.sim, p.sim.now_ns + 10 * SECOND));
        CHECK_INT(p.sim.requests[r].extends, 1);
        CHECK_INT(p.sim.requests[r].refusal, WEIR_REFUSAL_NONE);
        CHECK_INT(p.sim.requests[r].settled_tok, 3010);
        finish_all(&p.sim);
    }
}

/* ---- many wait for one budget ---- */

#define CROWD 400

static uint64_t crowd_asked;

static bool crowd_count(struct sim *sim, const struct sim_request *r,
                        enum weir_reserve_answer *answer, uint64_t *delay_ns)
{
    (void)sim, (void)r, (void)answer, (void)delay_ns;
    crowd_asked++;
    return false;
}

/* A grant that one of them fits in at a time, and nothing is used up: each end lets another in. What
 * is asked for then does not grow with those who wait, and nobody is forgotten. */
static void crowd(uint32_t sizes, uint64_t asked_max)
{
    struct weir_tenant_rules tenants[CROWD];
    struct sim_config c = sim_config_plain(8, tenants, CROWD);
    struct script s = script_ok(10 * MS);
    s.of[0] = plan_status(400, 10 * MS);
    c.plan = script_plan;
    c.user = &s;
    c.ledger_says = crowd_count;
    c.is_audited = false;
    struct sim sim;
    sim_open(&sim, &c);
    sim.granted_tok[0] = 1200;
    crowd_asked = 0;
    for (uint32_t i = 0; i < CROWD; i++) {
        struct weir_arrival a = sim_arrival(&sim, i, 4, 1000 + i % sizes, 3600 * SECOND);
        sim_arrive(&sim, &a);
    }
    CHECK(sim_run_dry(&sim, sim.now_ns + 3600 * SECOND));
    for (uint32_t i = 0; i < CROWD; i++)
        CHECK_INT(sim.requests[i].refusal, WEIR_REFUSAL_NONE);
    if (crowd_asked > asked_max)
        fail_msg("%llu reserves for %d requests", (unsigned long long)crowd_asked, CROWD);
    sim_close_settled(&sim);
}

static void flow__hundreds_of_tenants_wait_for_one_scope__each_end_asks_for_a_few(void **state)
{
    (void)state;
    crowd(1, 12 * CROWD);
    crowd(3, 16 * CROWD);
    crowd(100, 80 * CROWD); /* 100 amounts: one is asked for unless it is between two known ones */
}

/* The same hold again is one that stands; whatever else the ledger may say sends nothing. */
static void flow__what_a_ledger_says__only_a_hold_that_stands_lets_it_go(void **state)
{
    (void)state;
    for (int result = 0; result < WEIR_LEDGER_RESULT_COUNT; result++) {
        enum weir_reserve_answer want = WEIR_RESERVE_UNAVAILABLE;
        if (result == WEIR_LEDGER_HELD || result == WEIR_LEDGER_SAME)
            want = WEIR_RESERVE_HELD;
        if (result == WEIR_LEDGER_BUSY)
            want = WEIR_RESERVE_BUSY;
        if (result == WEIR_LEDGER_EXHAUSTED)
            want = WEIR_RESERVE_EXHAUSTED;
        if (result == WEIR_LEDGER_NEVER)
            want = WEIR_RESERVE_NEVER;
        CHECK_INT(weir_flow_reserve_answer((enum weir_ledger_result)result), want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flow__what_a_ledger_says__only_a_hold_that_stands_lets_it_go),
        cmocka_unit_test(flow__spent_and_policy_refuse__the_hint_is_the_windows_next_start),
        cmocka_unit_test(flow__spent_and_no_window_to_come__no_time_is_promised),
        cmocka_unit_test(flow__above_the_whole_grant__is_too_large_under_every_policy),
        cmocka_unit_test(flow__spent_and_policy_fallback__goes_there_and_is_charged_there),
        cmocka_unit_test(flow__the_fallbacks_budget_is_spent_too__is_final),
        cmocka_unit_test(flow__the_fallbacks_pool_refuses__tells_that_refusal),
        cmocka_unit_test(flow__the_request_ends_while_the_fallback_is_asked__nothing_is_kept),
        cmocka_unit_test(flow__spent_and_policy_queue__waits_for_the_window_in_order),
        cmocka_unit_test(flow__policy_queue_and_the_window_is_beyond_the_deadline__refuses_at_once),
        cmocka_unit_test(flow__the_window_does_not_begin__the_deadline_says_spent_not_busy),
        cmocka_unit_test(flow__a_large_one_waits_for_the_window__a_small_one_of_the_tenant_passes),
        cmocka_unit_test(flow__a_grant_is_raised__who_waits_for_the_window_goes_at_once),
        cmocka_unit_test(flow__the_window_begins_between_the_answer_and_its_arrival__asks_again),
        cmocka_unit_test(flow__the_head_of_the_line_finds_it_spent__the_one_behind_is_asked),
        cmocka_unit_test(flow__an_answer_passes_its_hold__asks_for_a_quarter_more_at_a_time),
        cmocka_unit_test(flow__the_limit_is_the_requests_own__nothing_is_asked),
        cmocka_unit_test(
            flow__no_room_to_grow_and_the_policy_is_cut__is_cut_and_charged_what_was_seen),
        cmocka_unit_test(flow__no_room_to_grow_and_the_policy_is_log__goes_on_and_asks_no_more),
        cmocka_unit_test(flow__an_answer_is_cut__the_reason_is_what_the_ledger_said),
        cmocka_unit_test(flow__the_answer_ends_while_more_is_asked_for__is_settled_once),
        cmocka_unit_test(flow__hundreds_of_tenants_wait_for_one_scope__each_end_asks_for_a_few),
    };
    return cmocka_run_group_tests_name("flow_budget", tests, NULL, NULL);
}
