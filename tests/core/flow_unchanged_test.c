/* A request that is refused leaves everything as it was: bucket levels, permits, the scheduler's
 * counters, trials of breakers, waiters.
 *
 * A run over random rules is made twice, the second time with one more request, which is refused
 * somewhere along the chain: by the gate, by the ledger while it waits or has its permit, by a
 * fallback, by its own client. Then what can be looked at must be the same in both runs at once,
 * and everything that happens afterwards must be the same to the nanosecond: any level that was
 * not given back would let some other request go earlier or later.
 *
 * The one more either lives for no time at all in the middle of traffic, or for a while when there
 * is none (nobody may be kept waiting by it). Where it stood in the queue, the order of turns may
 * have moved on (a round's position, the level that a tenant starts from on its return, the largest
 * item a lane has seen), so what follows is compared where it was refused on arrival, or the order
 * is that of arrival.
 * WEIR_SEED=s runs one seed. */
#include <stdlib.h>

#include "flow_chance.h"

#define TENANTS 5
#define PAUSED 4 /* the tenant that only the one more is of */
#define ARRIVALS_MAX 40
#define LATER_NS (20 * WEIR_NS_PER_S) /* quiet before that */

/* How the one more is to fail. */
enum way {
    WAY_NO_PATIENCE,
    WAY_TOO_LARGE,
    WAY_PAUSED,
    WAY_LEDGER_SPENT,
    WAY_LEDGER_NEVER,
    WAY_LEDGER_AWAY,
    WAY_LEDGER_BUSY,
    WAY_FALLBACK_SPENT,
    WAY_FALLBACK_AWAY,
    WAY_CLIENT_GONE,
    WAY_DEADLINE /* while the ledger is asked, or its turn does not come */
};
#define WAY_COUNT 11

struct run {
    struct weir_tenant_rules tenants[TENANTS];
    struct sim_config config;
    struct weir_arrival arrivals[ARRIVALS_MAX];
    uint64_t at_ns[ARRIVALS_MAX];
    uint64_t gone_ns[ARRIVALS_MAX]; /* 0: stays */
    uint32_t arrivals_count;
    struct weir_arrival more;
    uint64_t more_ns, answer_ns; /* when it comes, and after how long the ledger answers it */
    enum way way;
    bool is_quiet;
    bool is_fifo;     /* every pool */
    bool was_granted; /* the one more may have had its permit */
    uint64_t seed;
};

static int64_t at_once(struct sim *sim)
{
    (void)sim;
    return 0;
}

/* Drawn from the request alone, so that one more does not change what becomes of the others. */
static void run_plan(struct sim *sim, const struct sim_request *r, uint32_t upstream,
                     struct sim_plan *p)
{
    static const uint32_t statuses[] = {200, 200, 200, 429, 500, 503};
    struct sim draw = {0};
    (void)upstream;
    weir_rng_seed(&draw.rng, sim->config.seed ^ r->arrived_ns, r->attempts);
    *p = sim_plan_ok(pick(&draw, 0, 3000) * WEIR_NS_PER_MS, 0, 0);
    p->usage.input_tok = (int64_t)pick(&draw, 0, 400);
    p->usage.output_tok = (int64_t)pick(&draw, 0, 400);
    p->status = statuses[pick(&draw, 0, WEIR_COUNT(statuses) - 1)];
    if (odds(&draw, 200)) {
        p->sent_ns = p->head_ns = WEIR_NEVER_NS;
        p->end = WEIR_CALL_CONNECT_FAILED;
    }
}

/* Arrivals come at odd times; whatever else happens falls on even ones. */
static bool is_more(const struct run *run, const struct sim_request *r)
{
    return r->arrived_ns == run->more_ns && run->more_ns != 0;
}

static bool run_ledger_says(struct sim *sim, const struct sim_request *r,
                            enum weir_reserve_answer *answer, uint64_t *delay_ns)
{
    struct run *run = sim->config.user;
    if (!is_more(run, r))
        return false;
    struct weir_flow_view view;
    weir_flow_view(sim->flow, &view);
    uint32_t calls = 0;
    for (uint32_t i = 0; i < sim->config.upstream_count; i++)
        calls += sim->calls_now[i];
    run->was_granted |= view.in_flight_now > calls || r->falls > 0;
    *delay_ns = run->answer_ns;
    switch (run->way) {
    case WAY_NO_PATIENCE:
    case WAY_TOO_LARGE:
    case WAY_PAUSED:
    case WAY_CLIENT_GONE:
    case WAY_DEADLINE:
        *answer = WEIR_RESERVE_HELD;
        return true;
    case WAY_LEDGER_SPENT:
        *answer = WEIR_RESERVE_EXHAUSTED;
        return true;
    case WAY_LEDGER_NEVER:
        *answer = WEIR_RESERVE_NEVER;
        return true;
    case WAY_LEDGER_AWAY:
        *answer = WEIR_RESERVE_UNAVAILABLE;
        return true;
    case WAY_LEDGER_BUSY:
        *answer = WEIR_RESERVE_BUSY;
        return true;
    case WAY_FALLBACK_SPENT:
        *answer = WEIR_RESERVE_EXHAUSTED;
        return true;
    case WAY_FALLBACK_AWAY:
        *answer = r->falls ? WEIR_RESERVE_UNAVAILABLE : WEIR_RESERVE_EXHAUSTED;
        return true;
    }
    return false;
}

static struct weir_arrival draw_arrival(struct sim *draw, const struct run *run)
{
    uint32_t tenant = (uint32_t)pick(draw, 0, PAUSED - 1);
    uint32_t text_bytes = (uint32_t)pick(draw, 0, 1500);
    uint64_t limit_tok = pick(draw, 1, 400);
    struct weir_arrival a = sim_arrival(draw, tenant, text_bytes, limit_tok, 0);
    a.pool = (uint32_t)pick(draw, 0, run->config.pool_count - 1);
    a.lane = odds(draw, 700) ? WEIR_NONE : (uint32_t)pick(draw, 0, run->config.lanes.lane_count);
    a.repeatable = odds(draw, 400);
    return a;
}

static void draw_config(struct sim *draw, struct run *run)
{
    struct sim_config *c = &run->config;
    *c = sim_config_plain(1, run->tenants, TENANTS);
    c->is_audited = true;
    c->seed = run->seed;
    c->limits.requests_max = (uint32_t)pick(draw, 8, 48);
    c->limits.waiters_max = (uint32_t)pick(draw, 3, 30);
    c->lanes.lane_count = (uint32_t)pick(draw, 1, 3);
    c->lanes.floor_percent[c->lanes.lane_count - 1] = (uint32_t)pick(draw, 0, 40);
    c->ledger_delay = odds(draw, 700) ? at_once : NULL;
    c->ledger_says = run_ledger_says;
    c->plan = run_plan;
    c->user = run;
    memset(c->pools, 0, sizeof c->pools);
    chance_pools(draw, c);
    run->is_fifo = odds(draw, 400);
    for (uint32_t i = 0; i < c->pool_count && run->is_fifo; i++)
        c->pools[i].policy = WEIR_SCHED_FIFO;
    if (run->is_fifo)
        c->lanes = (struct weir_lane_rules){.lane_count = 1};
    for (uint32_t i = 0; i < TENANTS; i++) {
        run->tenants[i] = chance_tenant(draw, c->lanes.lane_count);
        run->tenants[i].paused = i == PAUSED;
        run->tenants[i].scope = 0;
    }
    c->scopes[0].fallback_pool = (uint32_t)pick(draw, 0, c->pool_count - 1);
    c->scopes[0].fallback_scope = 1;
    bool falls = run->way == WAY_FALLBACK_SPENT || run->way == WAY_FALLBACK_AWAY;
    if (falls)
        c->scopes[0].policy = WEIR_EXHAUSTED_FALLBACK;
}

static void draw_more(struct sim *draw, struct run *run, uint64_t at_ns)
{
    run->more = draw_arrival(draw, run);
    run->more_ns = at_ns;
    run->more.queue_deadline_ns = at_ns + 60 * WEIR_NS_PER_S;
    run->answer_ns = run->is_quiet ? pick(draw, 0, 9000) * WEIR_NS_PER_MS : 0;
    switch (run->way) {
    case WAY_NO_PATIENCE:
        run->more.queue_deadline_ns = at_ns;
        return;
    case WAY_LEDGER_BUSY:
        run->answer_ns = 0;
        run->more.queue_deadline_ns = at_ns + (run->is_quiet ? 5 * WEIR_NS_PER_S : 1);
        return;
    case WAY_TOO_LARGE:
        run->more.metered = false;
        run->more.fixed_cost_tok = UINT64_C(1) << 40;
        return;
    case WAY_PAUSED:
        run->more.tenant = PAUSED;
        return;
    case WAY_DEADLINE:
        run->answer_ns = run->is_quiet ? 10 * WEIR_NS_PER_S : 2;
        run->more.queue_deadline_ns =
            at_ns + (run->is_quiet ? pick(draw, 0, 9000) * WEIR_NS_PER_MS : 0);
        return;
    case WAY_CLIENT_GONE:
        run->answer_ns = run->is_quiet ? 10 * WEIR_NS_PER_S : 2;
        return;
    case WAY_LEDGER_SPENT:
    case WAY_LEDGER_NEVER:
    case WAY_LEDGER_AWAY:
    case WAY_FALLBACK_SPENT:
    case WAY_FALLBACK_AWAY:
        return;
    }
}

static void draw_run(struct run *run, uint64_t seed)
{
    struct sim draw = {.now_ns = WEIR_NS_PER_S};
    weir_rng_seed(&draw.rng, seed, 11);
    *run = (struct run){.seed = seed};
    run->way = (enum way)pick(&draw, 0, WAY_COUNT - 1);
    run->is_quiet = odds(&draw, 400);
    draw_config(&draw, run);
    run->arrivals_count = (uint32_t)pick(&draw, 2, ARRIVALS_MAX);
    uint64_t at_ns = WEIR_NS_PER_S;
    uint32_t more_before = (uint32_t)pick(&draw, 1, run->arrivals_count - 1);
    for (uint32_t i = 0; i < run->arrivals_count; i++) {
        if (i == more_before) {
            uint64_t gap_ns = pick(&draw, 0, 900) * WEIR_NS_PER_MS;
            if (run->is_quiet) {
                at_ns += 3600 * WEIR_NS_PER_S; /* all before it are over */
                gap_ns = LATER_NS;
            }
            draw_more(&draw, run, at_ns + 500001);
            at_ns += gap_ns;
        }
        at_ns += pick(&draw, 1, 900) * WEIR_NS_PER_MS;
        run->at_ns[i] = at_ns;
        run->arrivals[i] = draw_arrival(&draw, run);
        run->arrivals[i].queue_deadline_ns = at_ns + pick(&draw, 0, 8000) * WEIR_NS_PER_MS;
        run->arrivals[i].total_deadline_ns = at_ns + 1000 * WEIR_NS_PER_S;
        if (odds(&draw, 200))
            run->gone_ns[i] = at_ns + pick(&draw, 0, 5000) * WEIR_NS_PER_MS;
    }
    run->more.total_deadline_ns = run->more_ns + 1000 * WEIR_NS_PER_S;
}

/* Everything that can be looked at from outside. */
struct seen {
    struct weir_flow_view flow;
    struct weir_upstream_view upstreams[SIM_UPSTREAMS_MAX];
    struct weir_tenant_view tenants[TENANTS];
    uint32_t waiting[SIM_UPSTREAMS_MAX];
};

static struct seen look(const struct sim *sim)
{
    struct seen s;
    memset(&s, 0, sizeof s);
    weir_flow_view(sim->flow, &s.flow);
    memset(s.flow.refusals, 0, sizeof s.flow.refusals);
    for (uint32_t i = 0; i < sim->config.upstream_count; i++)
        weir_flow_upstream_view(sim->flow, i, sim->now_ns, &s.upstreams[i]);
    for (uint32_t i = 0; i < TENANTS; i++) {
        weir_flow_tenant_view(sim->flow, i, sim->now_ns, &s.tenants[i]);
        s.tenants[i].admitted = s.tenants[i].refused = s.tenants[i].finished = 0;
    }
    for (uint32_t i = 0; i < sim->config.pool_count; i++) {
        struct weir_pool_view pool;
        weir_flow_pool_view(sim->flow, i, sim->now_ns, &pool);
        s.waiting[i] = pool.waiting;
    }
    return s;
}

static void check_limit(const struct weir_flow_limit *with, const struct weir_flow_limit *without)
{
    CHECK_INT(with->limit, without->limit);
    CHECK_INT(with->remaining, without->remaining);
    CHECK_INT(with->reset_ns, without->reset_ns);
}

static void check_seen(const struct seen *with, const struct seen *without)
{
    CHECK_INT(with->flow.requests_now, without->flow.requests_now);
    CHECK_INT(with->flow.waiters_now, without->flow.waiters_now);
    CHECK_INT(with->flow.in_flight_now, without->flow.in_flight_now);
    CHECK_INT(with->flow.holds_now, without->flow.holds_now);
    CHECK_INT(with->flow.waiting_bytes_now, without->flow.waiting_bytes_now);
    for (uint32_t i = 0; i < SIM_UPSTREAMS_MAX; i++) {
        const struct weir_upstream_view *a = &with->upstreams[i], *b = &without->upstreams[i];
        CHECK_INT(a->permits_now, b->permits_now);
        CHECK_INT(a->breaker, b->breaker);
        CHECK_INT(a->open_for_ns, b->open_for_ns);
        CHECK_INT(a->failures, b->failures);
        check_limit(&a->requests, &b->requests);
        check_limit(&a->tokens, &b->tokens);
        CHECK_INT(with->waiting[i], without->waiting[i]);
    }
    for (uint32_t i = 0; i < TENANTS; i++) {
        const struct weir_tenant_view *a = &with->tenants[i], *b = &without->tenants[i];
        CHECK_INT(a->waiting, b->waiting);
        CHECK_INT(a->in_flight, b->in_flight);
        check_limit(&a->requests, &b->requests);
        check_limit(&a->tokens, &b->tokens);
    }
}

/* Plays the run to its end; *seen_then: when the one more is over, at the latest. */
static void play(struct sim *sim, const struct run *run, bool with_more, struct seen *seen_then)
{
    bool is_looked = false;
    uint64_t over_ns = run->more_ns + (run->is_quiet ? LATER_NS : 2);
    sim_open(sim, &run->config);
    for (uint32_t i = 0; i < run->arrivals_count; i++) {
        if (!is_looked && run->at_ns[i] > run->more_ns) {
            is_looked = true;
            sim_run(sim, run->more_ns);
            if (with_more) {
                uint32_t more = sim_arrive(sim, &run->more);
                if (run->way == WAY_CLIENT_GONE)
                    sim_client_gone_at(
                        sim, run->more_ns + (run->is_quiet ? run->seed % 9 * WEIR_NS_PER_S : 0),
                        more);
            }
            sim_run(sim, over_ns);
            *seen_then = look(sim);
        }
        sim_run(sim, run->at_ns[i]);
        uint32_t r = sim_arrive(sim, &run->arrivals[i]);
        if (run->gone_ns[i])
            sim_client_gone_at(sim, run->gone_ns[i], r);
    }
    CHECK(is_looked);
    CHECK(sim_run_dry(sim, sim->now_ns + 7200 * WEIR_NS_PER_S));
}

static void check_same(const struct sim_request *with, const struct sim_request *without)
{
    CHECK_INT(with->arrived_ns, without->arrived_ns);
    CHECK_INT(with->refusal, without->refusal);
    CHECK_INT(with->refused_ns, without->refused_ns);
    CHECK_INT(with->attempts, without->attempts);
    CHECK_INT(with->first_dispatched_ns, without->first_dispatched_ns);
    CHECK_INT(with->dispatched_ns, without->dispatched_ns);
    CHECK_INT(with->upstream, without->upstream);
    CHECK_INT(with->settled_tok, without->settled_tok);
    CHECK_INT(with->reserve_tok, without->reserve_tok);
}

static uint64_t seed_now;
static uint64_t reached[WEIR_REFUSAL_COUNT], reached_gone, reached_granted, reached_followed;

static void unchanged_run(uint64_t seed)
{
    struct run run;
    struct sim with, without;
    struct seen seen_with, seen_without;
    seed_now = seed;
    draw_run(&run, seed);
    play(&with, &run, true, &seen_with);
    play(&without, &run, false, &seen_without);
    CHECK_INT(with.requests_count, without.requests_count + 1);
    uint32_t more = 0;
    while (!is_more(&run, &with.requests[more]))
        more++;
    const struct sim_request *m = &with.requests[more];
    uint64_t over_ns = run.more_ns + (run.is_quiet ? LATER_NS : 1);
    bool is_over = m->is_client_gone || m->refused_ns <= over_ns;
    /* Begun: then it was no refusal along the chain. Not over: it may have kept others waiting. */
    if (m->attempts == 0 && is_over) {
        check_seen(&seen_with, &seen_without);
        bool is_followed = run.is_fifo || m->id == 0;
        for (uint32_t i = 0; i < without.requests_count && is_followed; i++)
            check_same(&with.requests[i + (i >= more)], &without.requests[i]);
        reached[m->refusal]++;
        reached_gone += m->is_client_gone;
        reached_granted += run.was_granted;
        reached_followed += run.was_granted && is_followed;
    }
    sim_close_settled(&with);
    sim_close_settled(&without);
}

static void unchanged_panic(const char *expression, const char *file, int line)
{
    fprintf(stderr, "%s:%d: broken: %s (WEIR_SEED=%llu replays it)\n", file, line, expression,
            (unsigned long long)seed_now);
    abort();
}

static void flow__refused_anywhere_along_the_chain__every_limit_is_as_it_was(void **state)
{
    (void)state;
    const char *one = getenv("WEIR_SEED");
    weir_panic_hook = unchanged_panic;
    if (one) {
        unchanged_run(strtoull(one, NULL, 10));
        return;
    }
    for (uint64_t seed = 1; seed <= 6000; seed++)
        unchanged_run(seed);
    for (uint32_t i = 0; i < WEIR_REFUSAL_COUNT; i++)
        if (reached[i])
            printf("# %2u %s %llu\n", i, weir_refusal_row((enum weir_refusal)i)->code,
                   (unsigned long long)reached[i]);
    static const enum weir_refusal all[] = {
        WEIR_REFUSAL_QUEUE_FULL,        WEIR_REFUSAL_TENANT_QUEUE_FULL, WEIR_REFUSAL_QUEUE_TIMEOUT,
        WEIR_REFUSAL_RATE_LIMIT,        WEIR_REFUSAL_BUDGET_BUSY,       WEIR_REFUSAL_TOO_LARGE,
        WEIR_REFUSAL_BUDGET_EXHAUSTED,  WEIR_REFUSAL_TENANT_PAUSED,     WEIR_REFUSAL_UPSTREAM_OPEN,
        WEIR_REFUSAL_LEDGER_UNAVAILABLE};
    for (size_t i = 0; i < WEIR_COUNT(all); i++)
        CHECK(reached[all[i]] > 0);
    CHECK(reached_gone > 0);
    CHECK(reached_granted > 500);
    CHECK(reached_followed > 200);
    printf("# client gone %llu; had its permit %llu, of them followed %llu\n",
           (unsigned long long)reached_gone, (unsigned long long)reached_granted,
           (unsigned long long)reached_followed);
}

/* All but the second and the twelfth are refused, a millisecond after they asked. */
static bool most_are_away(struct sim *sim, const struct sim_request *r,
                          enum weir_reserve_answer *answer, uint64_t *delay_ns)
{
    (void)sim;
    uint64_t number = r->arrival.hold & UINT32_MAX;
    *delay_ns = number == 2 || number == 12 ? 0 : WEIR_NS_PER_MS;
    *answer = *delay_ns ? WEIR_RESERVE_UNAVAILABLE : WEIR_RESERVE_HELD;
    return true;
}

/* Work that was chosen, refused by the ledger and so never sent is not work of its lane: the lane
 * below is not behind its floor for that. */
static void flow__refused_with_a_permit__does_not_count_for_the_floors_of_lanes(void **state)
{
    (void)state;
    struct weir_tenant_rules tenants[2];
    struct sim_config c = sim_config_plain(1, tenants, 2);
    c.lanes = (struct weir_lane_rules){.lane_count = 2, .floor_percent = {0, 20}};
    c.ledger_delay = at_once;
    c.ledger_says = most_are_away;
    struct run run = {0};
    c.plan = run_plan;
    c.user = &run;
    tenants[1].lane = 1;
    struct sim sim;
    sim_open(&sim, &c);
    struct weir_arrival a = sim_arrival(&sim, 0, 400, 100, 60 * WEIR_NS_PER_S);
    sim_arrive(&sim, &a); /* has the permit until its answer, and so has each that follows */
    a.tenant = 1;
    uint32_t low = sim_arrive(&sim, &a), high = low;
    a.tenant = 0;
    for (uint32_t i = 0; i < 10; i++) {
        sim_run(&sim, sim.now_ns + WEIR_NS_PER_MS * 9 / 10);
        high = sim_arrive(&sim, &a);
    }
    CHECK(sim_run_dry(&sim, 100 * WEIR_NS_PER_S));
    CHECK(sim.requests[high].first_dispatched_ns < sim.requests[low].first_dispatched_ns);
    sim_close_settled(&sim);
}

static int unchanged_say_seed(void **state)
{
    (void)state;
    printf("# last seed %llu\n", (unsigned long long)seed_now);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flow__refused_with_a_permit__does_not_count_for_the_floors_of_lanes),
        cmocka_unit_test_teardown(flow__refused_anywhere_along_the_chain__every_limit_is_as_it_was,
                                  unchanged_say_seed)};
    return cmocka_run_group_tests_name("flow_unchanged", tests, NULL, NULL);
}
