/* The flow machine against chance: random rules, arrivals, calls that fail in every phase, a ledger
 * that is late, hangs or says no, budgets that are spent, fall back, wait for their windows and are
 * passed by running answers, clients that leave, drains. After every event the flow audits itself and
 * the host compares each effect with a naive second model; at the end nothing may be left of
 * anything.
 *
 * WEIR_SEEDS=n runs so many seeds, WEIR_LONG=1 300,000, WEIR_SEED=s only that one. */
#include <stdlib.h>

#include "flow_chance.h"

#define SIM_TENANTS 5

struct chance {
    struct weir_tenant_rules tenants[SIM_TENANTS];
    uint32_t fault_permille; /* of a call in each of its phases */
    bool is_ledger_slow;
    uint32_t ledger_out_permille;
};

static int64_t chance_ledger_delay(struct sim *sim)
{
    const struct chance *ch = sim->config.user;
    if (odds(sim, ch->ledger_out_permille))
        return -1;
    return ch->is_ledger_slow ? (int64_t)pick(sim, 0, 300 * WEIR_NS_PER_MS) : 0;
}

static void plan_usage(struct sim *sim, struct sim_plan *p)
{
    p->output_seen_bytes = odds(sim, 800) ? pick(sim, 0, 900) : 0;
    if (odds(sim, 200))
        p->output_seen_bytes *= 20;
    p->progress_count = odds(sim, 500) ? (uint32_t)pick(sim, 1, 6) : 0;
    p->answer_bytes = p->output_seen_bytes + pick(sim, 0, 200);
    p->usage = (struct weir_flow_usage){-1, -1, -1, -1};
    if (odds(sim, 700))
        p->usage.input_tok = (int64_t)pick(sim, 0, 400);
    if (odds(sim, 700))
        p->usage.output_tok = (int64_t)pick(sim, 0, 400);
    p->usage_is_final = odds(sim, 300);
    if (odds(sim, 300))
        p->usage.cached_tok = (int64_t)pick(sim, 0, 500);
}

static void plan_fault(struct sim *sim, struct sim_plan *p)
{
    static const enum weir_call_end before[] = {WEIR_CALL_CONNECT_FAILED, WEIR_CALL_CONNECT_TIMEOUT,
                                                WEIR_CALL_WRITE_FAILED};
    static const enum weir_call_end sent[] = {WEIR_CALL_WRITE_FAILED, WEIR_CALL_FIRST_BYTE_TIMEOUT,
                                              WEIR_CALL_BAD_ANSWER, WEIR_CALL_CUT,
                                              WEIR_CALL_TOTAL_TIMEOUT};
    static const enum weir_call_end midway[] = {WEIR_CALL_CUT, WEIR_CALL_IDLE_TIMEOUT,
                                                WEIR_CALL_TOTAL_TIMEOUT, WEIR_CALL_BAD_ANSWER};
    switch (pick(sim, 0, 2)) {
    case 0:
        p->sent_ns = WEIR_NEVER_NS;
        p->head_ns = WEIR_NEVER_NS;
        p->end = before[pick(sim, 0, 2)];
        break;
    case 1:
        p->head_ns = WEIR_NEVER_NS;
        p->end = sent[pick(sim, 0, 4)];
        break;
    default:
        p->end = midway[pick(sim, 0, 3)];
        break;
    }
}

static void chance_plan(struct sim *sim, const struct sim_request *r, uint32_t upstream,
                        struct sim_plan *p)
{
    static const uint32_t statuses[] = {200, 200, 200, 200, 400, 404, 429, 500, 503, 529};
    const struct chance *ch = sim->config.user;
    struct weir_upstream_view view;
    weir_flow_upstream_view(sim->flow, upstream, sim->now_ns, &view);
    if (r->first_dispatched_ns == sim->now_ns && !sim->config.ledger_delay) {
        CHECK(view.breaker != WEIR_BREAKER_OPEN);
        CHECK_INT(view.paused_for_ns, 0);
    }
    p->end_ns = pick(sim, 0, 3000) * WEIR_NS_PER_MS;
    p->sent_ns = pick(sim, 0, p->end_ns);
    p->head_ns = pick(sim, p->sent_ns, p->end_ns);
    p->status =
        odds(sim, ch->fault_permille) ? statuses[pick(sim, 0, WEIR_COUNT(statuses) - 1)] : 200;
    p->pause_ns = p->status == 429 && odds(sim, 700) ? pick(sim, 1, 5 * WEIR_NS_PER_S) : 0;
    p->end = WEIR_CALL_COMPLETE;
    p->cancel_ns = odds(sim, 500) ? pick(sim, 0, 500) * WEIR_NS_PER_MS : 0;
    plan_usage(sim, p);
    if (odds(sim, ch->fault_permille))
        plan_fault(sim, p);
}

/* Scopes 0 .. 2 are tenants', 3 and 4 what falls back is charged to; it may be spent too. */
static void chance_scopes(struct sim *draw, struct sim_config *c)
{
    for (uint32_t i = 0; i < SIM_SCOPES_MAX; i++) {
        struct sim_scope *s = &c->scopes[i];
        c->granted_tok[i] = odds(draw, 500) ? UINT64_C(1) << 40 : pick(draw, 300, 6000);
        s->policy = (enum weir_exhausted_policy)pick(draw, 0, 2);
        s->fallback_pool = (uint32_t)pick(draw, 0, c->pool_count - 1);
        s->fallback_scope = (uint32_t)pick(draw, 3, 4);
        if (odds(draw, 700))
            s->period_ns = pick(draw, 500, 9000) * WEIR_NS_PER_MS;
        if (odds(draw, 300))
            s->late_ns = pick(draw, 0, 3000) * WEIR_NS_PER_MS;
    }
    if (odds(draw, 150)) {
        c->stuck_from_ns = WEIR_NS_PER_S + pick(draw, 0, 5000) * WEIR_NS_PER_MS;
        c->stuck_until_ns = c->stuck_from_ns + pick(draw, 0, 5000) * WEIR_NS_PER_MS;
    }
}

/* Rules before the flow exists: drawn from a generator of their own. */
static void chance_config(struct sim *draw, struct chance *ch, struct sim_config *c)
{
    *c =
        (struct sim_config){.limits = {.tenants_max = SIM_TENANTS, .models_max = 1, .pairs_max = 4},
                            .tenant_count = SIM_TENANTS,
                            .tenants = ch->tenants,
                            .model = {.output_default_tok = 4096},
                            .is_audited = true,
                            .plan = chance_plan,
                            .user = ch};
    c->limits.requests_max = (uint32_t)pick(draw, 8, 32);
    c->limits.waiters_max = (uint32_t)pick(draw, 2, 24);
    c->limits.waiting_bytes_max = pick(draw, 2000, 20000);
    c->lanes.lane_count = (uint32_t)pick(draw, 1, 3);
    if (odds(draw, 700))
        c->ledger_delay = chance_ledger_delay;
    c->lanes.floor_percent[c->lanes.lane_count - 1] = (uint32_t)pick(draw, 0, 40);
    c->model.output_default_tok = odds(draw, 500) ? 4096 : 100;
    chance_pools(draw, c);
    chance_scopes(draw, c);
    for (uint32_t i = 0; i < SIM_TENANTS; i++)
        ch->tenants[i] = chance_tenant(draw, c->lanes.lane_count);
    ch->fault_permille = (uint32_t)pick(draw, 0, 700);
    ch->is_ledger_slow = odds(draw, 500);
    ch->ledger_out_permille = odds(draw, 300) ? 50 : 0;
    for (uint32_t i = 0; i < c->upstream_count; i++)
        if (odds(draw, 300))
            c->upstreams[i].adapt = (struct weir_adapt_rules){.min = (uint32_t)pick(draw, 1, 3),
                                                              .start = (uint32_t)pick(draw, 0, 4)};
}

static void chance_arrive(struct sim *sim)
{
    uint32_t tenant = (uint32_t)pick(sim, 0, SIM_TENANTS - 1);
    uint32_t text_bytes = (uint32_t)pick(sim, 0, 1500);
    uint64_t limit_tok = odds(sim, 400) ? 0 : pick(sim, 0, 400);
    uint64_t patience_ns = pick(sim, 0, 8000) * WEIR_NS_PER_MS;
    struct weir_arrival a = sim_arrival(sim, tenant, text_bytes, limit_tok, patience_ns);
    a.pool = (uint32_t)pick(sim, 0, sim->config.pool_count - 1);
    a.lane = odds(sim, 700) ? WEIR_NONE : (uint32_t)pick(sim, 0, sim->config.lanes.lane_count);
    a.choices = (uint32_t)pick(sim, 0, 2);
    a.repeatable = odds(sim, 400);
    a.no_output = odds(sim, 100);
    if (odds(sim, 100))
        a.fixed_cost_tok = pick(sim, 1, 500);
    else
        a.metered = odds(sim, 900);
    if (odds(sim, 100))
        a.total_deadline_ns = sim->now_ns + pick(sim, 0, 6000) * WEIR_NS_PER_MS;
    uint32_t index = sim_arrive(sim, &a);
    if (odds(sim, 300))
        sim_client_gone_at(sim, sim->now_ns + pick(sim, 0, 6000) * WEIR_NS_PER_MS, index);
}

/* Settings changed while running, and tenants forgotten: nothing of it may lose or leak anything.
 */
static void chance_change(struct sim *sim, struct chance *ch)
{
    uint32_t tenant = (uint32_t)pick(sim, 0, SIM_TENANTS - 1);
    uint32_t upstream = (uint32_t)pick(sim, 0, sim->config.upstream_count - 1);
    struct weir_tenant_rules t = chance_tenant(sim, sim->config.lanes.lane_count);
    t.scope = ch->tenants[tenant].scope;
    switch (pick(sim, 0, 3)) {
    case 0:
        if (weir_flow_tenant_forget(sim->flow, tenant))
            weir_flow_tenant_set(sim->flow, tenant, &t, sim->now_ns);
        break;
    case 1:
        weir_flow_tenant_set(sim->flow, tenant, &t, sim->now_ns);
        break;
    case 2: {
        struct weir_upstream_rules u = chance_upstream(sim, upstream, sim->config.upstream_count);
        u.permits = (uint32_t)weir_max_u64(u.permits, sim->config.upstreams[upstream].permits);
        sim->config.upstreams[upstream] = u;
        weir_flow_upstream_set(sim->flow, upstream, &u, sim->now_ns);
        break;
    }
    default:
        sim_grant(sim, tenant % 3, sim->granted_tok[tenant % 3] + pick(sim, 0, 500));
        break;
    }
    weir_flow_audit(sim->flow);
}

/* A waiter leaves the queue at its deadline, not after it: the host moves from one due time to the
 * next. */
static void chance_judge(const struct sim *sim)
{
    for (uint32_t i = 0; i < sim->requests_count; i++) {
        const struct sim_request *r = &sim->requests[i];
        uint64_t deadline_ns =
            weir_min_u64(r->arrival.queue_deadline_ns, r->arrival.total_deadline_ns);
        if (r->id != 0 && r->refusal != WEIR_REFUSAL_NONE && r->attempts == 0)
            CHECK(r->refused_ns <= deadline_ns);
        CHECK(!(r->is_voided && r->is_settled));
        const struct weir_tenant_rules *t = &sim->config.tenants[r->arrival.tenant];
        CHECK(r->falls <= 1);
        if (r->falls)
            CHECK_INT(r->hold_scope, sim->config.scopes[t->scope].fallback_scope);
        if (r->refusal == WEIR_REFUSAL_BUDGET_EXHAUSTED && r->attempts == 0)
            CHECK_INT(r->refused.scope, r->hold_scope);
    }
}

static uint64_t seed_now;

/* The gap's alarm never rings while the schedulers are right, whatever happens around them. */
static void chance_judge_gap(struct sim *sim)
{
    for (uint32_t pool = 0; pool < sim->config.pool_count; pool++)
        for (uint32_t lane = 0; lane < sim->config.lanes.lane_count; lane++) {
            struct weir_gap_view view;
            weir_flow_gap_view(sim->flow, pool, lane, sim->now_ns, &view);
            CHECK_INT(view.backlogged, 0); /* all is over */
            for (uint32_t i = 0; i < WEIR_GAP_WINDOWS; i++)
                CHECK_INT(view.windows[i].broken, 0);
        }
}

/* What the seeds reached, all together: a kind that never happened was not tested. */
static struct {
    uint64_t refusals[WEIR_REFUSAL_COUNT];
    uint64_t requests, voids, settles, cuts, gone, retries, repeats, waited;
    uint64_t falls, falls_served, queued, queued_served, extends, overruns, overruns_cut;
} reached;

static void chance_count(const struct sim *sim)
{
    for (uint32_t i = 0; i < sim->requests_count; i++) {
        const struct sim_request *r = &sim->requests[i];
        reached.requests++;
        reached.refusals[r->refusal]++;
        reached.voids += r->is_voided;
        reached.settles += r->is_settled;
        reached.cuts += r->is_cut;
        reached.gone += r->is_client_gone;
        reached.retries += r->attempts > 1;
        reached.repeats += r->attempts > 2;
        reached.waited += r->first_dispatched_ns > r->arrived_ns;
        reached.falls += r->falls;
        reached.falls_served += r->falls > 0 && r->attempts > 0;
        reached.queued += r->is_queued_once;
        reached.queued_served += r->is_queued_once && r->attempts > 0;
        reached.extends += r->extends;
        reached.overruns += r->is_overrun;
    }
}

static void chance_count_flow(const struct sim *sim)
{
    struct weir_flow_view view;
    weir_flow_view(sim->flow, &view);
    uint64_t overruns = 0;
    for (uint32_t i = 0; i < sim->requests_count; i++)
        overruns += sim->requests[i].is_overrun;
    CHECK_INT(view.overruns, overruns);
    reached.overruns_cut += view.overruns_cut;
}

static void chance_run(uint64_t seed)
{
    struct chance ch = {0};
    struct sim_config c;
    struct sim draw = {0}, sim;
    weir_rng_seed(&draw.rng, seed, 7);
    chance_config(&draw, &ch, &c);
    c.seed = seed;
    seed_now = seed;
    sim_open(&sim, &c);
    uint64_t start_ns = sim.now_ns;
    uint32_t arrivals = (uint32_t)pick(&sim, 3, 22);
    if (odds(&sim, 150)) {
        uint64_t drain_ns = start_ns + pick(&sim, 0, 8000) * WEIR_NS_PER_MS;
        uint64_t queue_ns = drain_ns + pick(&sim, 0, 4000) * WEIR_NS_PER_MS;
        uint64_t cut_ns = queue_ns + pick(&sim, 0, 4000) * WEIR_NS_PER_MS;
        sim_drain_at(&sim, drain_ns, queue_ns, cut_ns);
    }
    for (uint32_t i = 0; i < arrivals; i++) {
        if (odds(&sim, 600))
            sim_run(&sim, sim.now_ns + pick(&sim, 0, 1000) * WEIR_NS_PER_MS);
        if (odds(&sim, 60))
            chance_change(&sim, &ch);
        chance_arrive(&sim);
    }
    CHECK(sim_run_dry(&sim, start_ns + 7200 * WEIR_NS_PER_S));
    chance_judge(&sim);
    chance_judge_gap(&sim);
    chance_count(&sim);
    chance_count_flow(&sim);
    sim_close_settled(&sim);
}

static void sim_panic(const char *expression, const char *file, int line)
{
    fprintf(stderr, "%s:%d: broken: %s (WEIR_SEED=%llu replays it)\n", file, line, expression,
            (unsigned long long)seed_now);
    abort();
}

static void flow__random_rules_calls_and_clients__nothing_leaks_and_charges_are_right(void **state)
{
    (void)state;
    const char *one = getenv("WEIR_SEED"), *seeds = getenv("WEIR_SEEDS");
    const char *is_long = getenv("WEIR_LONG");
    uint64_t count = is_long && *is_long == '1' ? 300000 : 20000;
    weir_panic_hook = sim_panic;
    if (seeds)
        count = strtoull(seeds, NULL, 10);
    if (one) {
        chance_run(strtoull(one, NULL, 10));
        return;
    }
    for (uint64_t seed = 1; seed <= count; seed++)
        chance_run(seed);
    printf("# requests %llu void %llu settled %llu cut %llu gone %llu two calls %llu three %llu "
           "waited %llu\n",
           (unsigned long long)reached.requests, (unsigned long long)reached.voids,
           (unsigned long long)reached.settles, (unsigned long long)reached.cuts,
           (unsigned long long)reached.gone, (unsigned long long)reached.retries,
           (unsigned long long)reached.repeats, (unsigned long long)reached.waited);
    printf("# fell back %llu, of them called %llu; queued for a window %llu, called %llu; extends "
           "%llu, refused %llu, cut %llu\n",
           (unsigned long long)reached.falls, (unsigned long long)reached.falls_served,
           (unsigned long long)reached.queued, (unsigned long long)reached.queued_served,
           (unsigned long long)reached.extends, (unsigned long long)reached.overruns,
           (unsigned long long)reached.overruns_cut);
    if (count >= 20000) {
        CHECK(reached.falls_served > 100);
        CHECK(reached.queued_served > 100);
        CHECK(reached.overruns > reached.overruns_cut);
        CHECK(reached.overruns_cut > 100);
    }
    for (uint32_t i = 0; i < WEIR_REFUSAL_COUNT; i++)
        if (reached.refusals[i])
            printf("# refused %2u %s %llu\n", i, weir_refusal_row((enum weir_refusal)i)->code,
                   (unsigned long long)reached.refusals[i]);
}

static int sim_say_seed(void **state)
{
    (void)state;
    printf("# last seed %llu\n", (unsigned long long)seed_now);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(
        flow__random_rules_calls_and_clients__nothing_leaks_and_charges_are_right, sim_say_seed)};
    return cmocka_run_group_tests_name("flow_sim", tests, NULL, NULL);
}
