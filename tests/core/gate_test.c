/* The gate, in exact, simulated time: rates, fairness, bounds, deadlines and their hints. */
#include "flow_case.h"

/* --- rates --- */

static void
flow__fourteen_jobs_at_two_a_second_and_burst_five__five_at_once_then_every_500_ms(void **state)
{
    (void)state;
    struct weir_tenant_rules tenant[1];
    struct sim_config c = sim_config_plain(64, tenant, 1);
    c.upstreams[0].requests = rate(2, 5);
    struct script s = script_ok(10 * MS);
    c.plan = script_plan;
    c.user = &s;
    struct sim sim;
    sim_open(&sim, &c);
    for (uint32_t i = 0; i < 14; i++)
        arrive(&sim, 0, 60 * SECOND);
    CHECK(sim_run_dry(&sim, sim.now_ns + 100 * SECOND));
    for (uint32_t i = 0; i < 14; i++) {
        CHECK_INT(wait_of(&sim, i), i < 5 ? 0 : (i - 4) * 500 * MS);
        CHECK_INT(sim.requests[i].refusal, WEIR_REFUSAL_NONE);
        CHECK_INT(sim.requests[i].settled_tok, 200);
    }
    sim_close_settled(&sim);
}

static void flow__fourteen_jobs_of_a_limited_tenant__the_same_times_and_others_pass(void **state)
{
    (void)state;
    struct weir_tenant_rules tenant[2];
    struct sim_config c = sim_config_plain(64, tenant, 2);
    tenant[0].requests = rate(2, 5);
    struct script s = script_ok(10 * MS);
    c.plan = script_plan;
    c.user = &s;
    struct sim sim;
    sim_open(&sim, &c);
    arrive_many(&sim, 0, 14, 60 * SECOND);
    for (uint32_t i = 0; i < 20; i++) {
        uint32_t other = arrive(&sim, 1, 60 * SECOND);
        CHECK_INT(wait_of(&sim, other),
                  0); /* a tenant that waits for its own bucket holds nobody up */
        sim_run(&sim, sim.now_ns + 100 * MS);
    }
    CHECK(sim_run_dry(&sim, sim.now_ns + 100 * SECOND));
    for (uint32_t i = 0; i < 14; i++)
        CHECK_INT(wait_of(&sim, i), i < 5 ? 0 : (i - 4) * 500 * MS);
    sim_close_settled(&sim);
}

static void
flow__the_wait_for_a_rate_passes_the_deadline__is_refused_on_arrival_with_its_hint(void **state)
{
    (void)state;
    struct weir_tenant_rules tenant[2];
    struct sim_config c = sim_config_plain(64, tenant, 2);
    tenant[0].requests = rate(2, 1);
    tenant[1].requests = rate(2, 1);
    tenant[1].refuse_over = true;
    struct script s = script_ok(10 * MS);
    c.plan = script_plan;
    c.user = &s;
    struct sim sim;
    sim_open(&sim, &c);
    arrive_many(&sim, 0, 11, 5 * SECOND); /* the last waits 5 s, just in time */
    uint32_t late = arrive(&sim, 0, 5 * SECOND);
    CHECK_INT(sim.requests[late - 1].refusal, WEIR_REFUSAL_NONE);
    CHECK_INT(sim.requests[late].refusal, WEIR_REFUSAL_RATE_LIMIT);
    CHECK_INT(sim.requests[late].refused.hint_ns, 5500 * MS);

    CHECK_INT(try(&sim, 1, 60 * SECOND), WEIR_REFUSAL_NONE);
    uint32_t over = arrive(&sim, 1, 60 * SECOND); /* over: refuse */
    CHECK_INT(sim.requests[over].refusal, WEIR_REFUSAL_RATE_LIMIT);
    uint64_t hint_ns = sim.requests[over].refused.hint_ns;
    CHECK_INT(hint_ns, 500 * MS);
    uint64_t refused_ns = sim.now_ns;
    sim_run(&sim, refused_ns + hint_ns - 1);
    CHECK_INT(try(&sim, 1, 60 * SECOND), WEIR_REFUSAL_RATE_LIMIT);
    sim_run(&sim, refused_ns + hint_ns);
    over = arrive(&sim, 1, 60 * SECOND);
    CHECK_INT(sim.requests[over].refusal, WEIR_REFUSAL_NONE);
    CHECK_INT(wait_of(&sim, over), 0);
    finish_all(&sim);
}

static void flow__the_upstreams_rate_passes_the_deadline__waiting_the_hint_suffices(void **state)
{
    (void)state;
    struct weir_tenant_rules tenant[1];
    struct sim_config c = sim_config_plain(64, tenant, 1);
    c.upstreams[0].requests = rate(2, 1);
    struct script s = script_ok(10 * MS);
    c.plan = script_plan;
    c.user = &s;
    struct sim sim;
    sim_open(&sim, &c);
    arrive_many(&sim, 0, 5, 2 * SECOND); /* waits 0, 0.5 .. 2 s */
    uint32_t late = arrive(&sim, 0, 2 * SECOND);
    CHECK_INT(sim.requests[late].refusal, WEIR_REFUSAL_QUEUE_TIMEOUT);
    uint64_t hint_ns = sim.requests[late].refused.hint_ns;
    CHECK_INT(hint_ns, 500 * MS);
    sim_run(&sim, sim.now_ns + hint_ns);
    late = arrive(&sim, 0, 2 * SECOND);
    CHECK_INT(sim.requests[late].refusal, WEIR_REFUSAL_NONE);
    CHECK(sim_run_dry(&sim, sim.now_ns + 100 * SECOND));
    CHECK_INT(wait_of(&sim, late), 2 * SECOND);
    sim_close_settled(&sim);
}

static void flow__a_cost_above_a_buckets_capacity__is_too_large_whatever_the_wait(void **state)
{
    (void)state;
    struct weir_tenant_rules tenant[2];
    struct sim_config c = sim_config_plain(64, tenant, 2);
    tenant[0].tokens = rate(1000, 400);
    c.upstreams[0].tokens = rate(1000, 800);
    struct script s = script_ok(10 * MS);
    c.plan = script_plan;
    c.user = &s;
    struct sim sim;
    sim_open(&sim, &c);
    struct weir_arrival a = sim_arrival(&sim, 0, 4, 100, 60 * SECOND);
    CHECK_INT(try_arrival(&sim, &a), WEIR_REFUSAL_NONE);
    a.output_limit_tok = 500;
    CHECK_INT(try_arrival(&sim, &a), WEIR_REFUSAL_TOO_LARGE);
    a.tenant = 1;
    CHECK_INT(try_arrival(&sim, &a), WEIR_REFUSAL_NONE);
    a.output_limit_tok = 900;
    CHECK_INT(try_arrival(&sim, &a), WEIR_REFUSAL_TOO_LARGE);
    finish_all(&sim);
}

/* Tokens are charged by estimate and set right at the end, once, both ways. */
static void flow__tokens_charged_by_estimate__are_corrected_by_what_was_used(void **state)
{
    (void)state;
    static const struct {
        enum weir_accounting accounting;
        int64_t input_tok, cached_tok, output_tok;
        uint64_t left_tok; /* of the upstream's 10,000, and of its output bucket's */
        uint64_t output_left_tok;
    } rows[] = {{WEIR_ACCOUNTING_PLAIN, 300, 200, 50, 9650, 0},
                {WEIR_ACCOUNTING_PLAIN, 300, 0, 5000, 4700, 0},
                {WEIR_ACCOUNTING_OPENAI, 300, 0, 50, 8000, 0}, /* the limit is reserved and gone */
                {WEIR_ACCOUNTING_OPENAI, 300, 0, 5000, 4700, 0},
                {WEIR_ACCOUNTING_ANTHROPIC, 300, 200, 50, 9900, 9950}};
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct weir_tenant_rules tenant[1];
        struct sim_config c = sim_config_plain(4, tenant, 1);
        /* A millionth of a token a second: what is left can be read off to the token. */
        struct weir_rate slow = {.rate_micro_per_s = 1, .capacity = 10000};
        tenant[0].tokens = slow;
        c.upstreams[0].accounting = rows[i].accounting;
        c.upstreams[0].tokens = c.upstreams[0].input = c.upstreams[0].output = slow;
        struct script s = script_ok(100 * MS);
        s.of[0].usage =
            (struct weir_flow_usage){rows[i].input_tok, rows[i].cached_tok, 0, rows[i].output_tok};
        c.plan = script_plan;
        c.user = &s;
        struct sim sim;
        sim_open(&sim, &c);
        struct weir_arrival a = sim_arrival(&sim, 0, 500, 2000, 60 * SECOND);
        sim_arrive(&sim, &a);
        sim_run(&sim, sim.now_ns + SECOND);
        struct weir_upstream_view u;
        weir_flow_upstream_view(sim.flow, 0, sim.now_ns, &u);
        CHECK_MSG(u.tokens.remaining == rows[i].left_tok, "row %zu: %llu left", i,
                  (unsigned long long)u.tokens.remaining);
        struct weir_tenant_view t;
        weir_flow_tenant_view(sim.flow, 0, sim.now_ns, &t);
        CHECK_INT(t.tokens.remaining, 10000 - rows[i].input_tok - rows[i].output_tok);
        finish_all(&sim);
    }
}

/* What a call did not use is there for the tenant's next at once, not when the bucket would have
 * filled. */
static void flow__a_tenant_waits_for_its_bucket__tokens_given_back_wake_it(void **state)
{
    (void)state;
    struct weir_tenant_rules tenant[1];
    struct sim_config c = sim_config_plain(4, tenant, 1);
    tenant[0].tokens = rate(1, 1000);
    struct script s = script_ok(1000 * MS);
    s.of[0].usage = (struct weir_flow_usage){50, 0, 0, 50};
    c.plan = script_plan;
    c.user = &s;
    struct sim sim;
    sim_open(&sim, &c);
    struct weir_arrival a = sim_arrival(&sim, 0, 4, 800, 3600 * SECOND);
    sim_arrive(&sim, &a);
    uint32_t second = sim_arrive(&sim, &a); /* by time alone it would go in ten minutes */
    CHECK(sim_run_dry(&sim, sim.now_ns + 3600 * SECOND));
    CHECK_INT(wait_of(&sim, second), 1000 * MS);
    sim_close_settled(&sim);
}

static void flow__nothing_was_sent__every_bucket_is_as_before(void **state)
{
    (void)state;
    struct weir_tenant_rules tenant[1];
    struct sim_config c = sim_config_plain(4, tenant, 1);
    struct weir_rate slow = {.rate_micro_per_s = 1, .capacity = 10000};
    tenant[0].tokens = tenant[0].requests = slow;
    c.upstreams[0].tokens = c.upstreams[0].requests = slow;
    struct script s = script_ok(100 * MS);
    s.of[0] = plan_fails(WEIR_CALL_CONNECT_FAILED, false, 50 * MS);
    c.plan = script_plan;
    c.user = &s;
    struct sim sim;
    sim_open(&sim, &c);
    uint32_t r = arrive(&sim, 0, 60 * SECOND);
    sim_run(&sim, sim.now_ns + SECOND);
    CHECK_INT(sim.requests[r].refusal, WEIR_REFUSAL_UPSTREAM_UNAVAILABLE);
    CHECK(sim.requests[r].is_voided);
    struct weir_upstream_view u;
    weir_flow_upstream_view(sim.flow, 0, sim.now_ns, &u);
    CHECK_INT(u.tokens.remaining, 10000);
    CHECK_INT(u.requests.remaining, 10000);
    struct weir_tenant_view t;
    weir_flow_tenant_view(sim.flow, 0, sim.now_ns, &t);
    CHECK_INT(t.tokens.remaining, 10000);
    CHECK_INT(t.requests.remaining, 10000);
    finish_all(&sim);
}

static void
flow__a_request_that_does_not_fit_the_upstreams_rate__is_not_overtaken_in_its_lane(void **state)
{
    (void)state;
    struct weir_tenant_rules tenant[3];
    struct sim_config c = sim_config_plain(64, tenant, 3);
    c.lanes.lane_count = 2;
    tenant[0].lane = tenant[1].lane = 1;
    tenant[2].lane = 0;
    c.upstreams[0].tokens = rate(100, 1000);
    c.upstreams[0].accounting = WEIR_ACCOUNTING_OPENAI; /* costs the output limit, for good */
    struct script s = script_ok(10 * MS);
    s.of[0].usage = (struct weir_flow_usage){50, 0, 0, 50};
    c.plan = script_plan;
    c.user = &s;
    struct sim sim;
    sim_open(&sim, &c);
    struct weir_arrival big = sim_arrival(&sim, 0, 4, 800, 600 * SECOND);
    struct weir_arrival small = sim_arrival(&sim, 1, 4, 100, 600 * SECOND);
    struct weir_arrival high = sim_arrival(&sim, 2, 4, 100, 600 * SECOND);
    sim_arrive(&sim, &big);                     /* 200 are left */
    uint32_t second = sim_arrive(&sim, &big);   /* waits 6 s for 600 more */
    uint32_t behind = sim_arrive(&sim, &small); /* would fit at once */
    uint32_t above = sim_arrive(&sim, &high);   /* fits, and its lane goes first: 100 are left */
    CHECK_INT(wait_of(&sim, above), 0);
    CHECK(sim_run_dry(&sim, sim.now_ns + 100 * SECOND));
    CHECK_INT(wait_of(&sim, second), 7 * SECOND);
    CHECK_INT(wait_of(&sim, behind), 8 * SECOND);
    sim_close_settled(&sim);
}

/* A lane's only request waits for more tokens than the lanes above ever leave. Its lane's floor gets
 * it there: due again by what the others had meanwhile, it is waited for. */
static void flow__the_only_request_of_a_lane_waits_for_a_rate__its_floor_is_kept(void **state)
{
    (void)state;
    for (uint32_t floor_percent = 0; floor_percent <= 20; floor_percent += 20) {
        struct weir_tenant_rules tenant[2];
        struct sim_config c = sim_config_plain(64, tenant, 2);
        c.lanes.lane_count = 2;
        c.lanes.floor_percent[1] = floor_percent;
        tenant[0].lane = 1;
        tenant[1].lane = 0;
        c.upstreams[0].tokens = rate(100, 1000);
        c.upstreams[0].accounting = WEIR_ACCOUNTING_OPENAI;
        struct script s = script_ok(10 * MS);
        s.of[0].usage = (struct weir_flow_usage){50, 0, 0, 50};
        c.plan = script_plan;
        c.user = &s;
        struct sim sim;
        sim_open(&sim, &c);
        struct weir_arrival high = sim_arrival(&sim, 1, 4, 100, 600 * SECOND);
        for (uint32_t i = 0; i < 10; i++)
            sim_arrive(&sim, &high); /* nothing is left, then one passes every second */
        struct weir_arrival big = sim_arrival(&sim, 0, 4, 800, 600 * SECOND);
        uint32_t low = sim_arrive(&sim, &big);
        for (uint32_t i = 0; i < 50; i++)
            sim_arrive(&sim, &high);
        CHECK(sim_run_dry(&sim, sim.now_ns + 200 * SECOND));
        uint64_t wait_ns = wait_of(&sim, low);
        CHECK_MSG(floor_percent ? wait_ns < 30 * SECOND : wait_ns > 50 * SECOND,
                  "floor %u: waited %llu ms", floor_percent, (unsigned long long)(wait_ns / MS));
        sim_close_settled(&sim);
    }
}

/* --- fairness --- */

static void fairness_run(enum weir_sched_policy policy, uint32_t *place)
{
    struct weir_tenant_rules tenant[2];
    struct sim_config c = sim_config_plain(1, tenant, 2);
    c.pools[0].policy = policy;
    struct script s = script_ok(100 * MS);
    c.plan = script_plan;
    c.user = &s;
    struct sim sim;
    sim_open(&sim, &c);
    arrive_many(&sim, 0, 41, 60 * SECOND); /* one in flight, forty waiting */
    sim_run(&sim, sim.now_ns + 50 * MS);
    uint32_t b = arrive(&sim, 1, 60 * SECOND);
    CHECK(sim_run_dry(&sim, sim.now_ns + 100 * SECOND));
    *place = 0;
    for (uint32_t i = 0; i < b; i++)
        *place += sim.requests[i].first_dispatched_ns > sim.requests[b].arrived_ns &&
                  sim.requests[i].first_dispatched_ns < sim.requests[b].first_dispatched_ns;
    sim_close_settled(&sim);
}

static void flow__forty_of_one_tenant_wait__anothers_one_is_next_or_next_but_one(void **state)
{
    (void)state;
    static const enum weir_sched_policy fair[] = {WEIR_SCHED_DRR, WEIR_SCHED_DRR_COST,
                                                  WEIR_SCHED_VTC};
    uint32_t ahead;
    for (size_t i = 0; i < WEIR_COUNT(fair); i++) {
        fairness_run(fair[i], &ahead);
        CHECK_MSG(ahead <= 1, "%s: %u went before", weir_sched_policy_name(fair[i]), ahead);
    }
    fairness_run(WEIR_SCHED_FIFO, &ahead);
    CHECK_INT(ahead, 40); /* the contrast */
}

/* Work served to two tenants that always wait, one with requests ten times as dear. */
struct served {
    uint64_t work[2];
    uint64_t worst_gap;
};

static void served_plan(struct sim *sim, const struct sim_request *r, uint32_t upstream,
                        struct sim_plan *plan)
{
    (void)upstream;
    struct served *served = sim->config.user;
    int64_t scale = r->arrival.tenant == 0 ? 10 : 1;
    *plan = sim_plan_ok(100 * MS, 100 * scale, 20 * scale);
    served->work[r->arrival.tenant] += (uint64_t)(140 * scale);
    uint64_t gap = weir_max_u64(served->work[0], served->work[1]) -
                   weir_min_u64(served->work[0], served->work[1]);
    served->worst_gap = weir_max_u64(served->worst_gap, gap);
}

/* The work they got may differ by a constant, after every single dispatch and however long it goes
 * on; what was estimated wrongly at dispatch is set right when the call ends. */
static void flow__unequal_costs__work_stays_within_the_bound_on_every_prefix(void **state)
{
    (void)state;
    static const struct {
        enum weir_sched_policy policy;
        uint64_t bound; /* dearest: 1,400 */
    } rows[] = {{WEIR_SCHED_VTC, 2 * 1400}, {WEIR_SCHED_DRR_COST, 3 * 1400}};
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct weir_tenant_rules tenant[2];
        struct sim_config c = sim_config_plain(1, tenant, 2);
        c.pools[0].policy = rows[i].policy;
        struct served served = {0};
        c.plan = served_plan;
        c.user = &served;
        c.is_audited = false;
        struct sim sim;
        sim_open(&sim, &c);
        struct weir_arrival dear = sim_arrival(&sim, 0, 4000, 400, 3600 * SECOND);
        struct weir_arrival cheap = sim_arrival(&sim, 1, 400, 40, 3600 * SECOND);
        for (uint32_t k = 0; k < 100; k++)
            sim_arrive(&sim, &dear);
        for (uint32_t k = 0; k < 1000; k++)
            sim_arrive(&sim, &cheap);
        served = (struct served){0}; /* from here on both wait */
        sim_run(&sim, sim.now_ns + 1000 * 100 * MS);
        CHECK_MSG(served.work[0] > 40 * 1400, "%llu", (unsigned long long)served.work[0]);
        CHECK_MSG(served.worst_gap <= rows[i].bound, "%s: %llu",
                  weir_sched_policy_name(rows[i].policy), (unsigned long long)served.worst_gap);
        CHECK(sim_run_dry(&sim, sim.now_ns + 1000 * SECOND));
        sim_close_settled(&sim);
    }
}

static void cached_plan(struct sim *sim, const struct sim_request *r, uint32_t upstream,
                        struct sim_plan *plan)
{
    (void)upstream;
    uint32_t *calls = sim->config.user;
    calls[r->arrival.tenant]++;
    *plan = sim_plan_ok(100 * MS, r->arrival.tenant == 0 ? 1000 : 100, 10);
    plan->usage.cached_tok = r->arrival.tenant == 0 ? 900 : 0;
}

/* Input the provider had cached is no work: a tenant with long cached prompts gets as many calls.
 */
static void flow__cached_input__is_not_counted_as_work(void **state)
{
    (void)state;
    struct weir_tenant_rules tenant[2];
    struct sim_config c = sim_config_plain(1, tenant, 2);
    uint32_t calls[2] = {0, 0};
    c.plan = cached_plan;
    c.user = calls;
    struct sim sim;
    sim_open(&sim, &c);
    for (uint32_t i = 0; i < 100; i++) {
        arrive(&sim, 0, 3600 * SECOND);
        arrive(&sim, 1, 3600 * SECOND);
    }
    sim_run(&sim, sim.now_ns + 100 * 100 * MS);
    CHECK_MSG(calls[0] >= 48 && calls[1] >= 48, "%u and %u", calls[0], calls[1]);
    finish_all(&sim);
}

static void flow__a_lane_asked_for__can_only_be_lower(void **state)
{
    (void)state;
    struct weir_tenant_rules tenant[2];
    struct sim_config c = sim_config_plain(1, tenant, 2);
    c.lanes.lane_count = 3;
    tenant[0].lane = 1;
    tenant[1].lane = 1;
    struct script s = script_ok(100 * MS);
    c.plan = script_plan;
    c.user = &s;
    struct sim sim;
    sim_open(&sim, &c);
    arrive(&sim, 0, 60 * SECOND); /* takes the permit */
    struct weir_arrival a = sim_arrival(&sim, 0, 500, 100, 60 * SECOND);
    a.lane = 2;
    uint32_t lower = sim_arrive(&sim, &a);
    a.tenant = 1;
    a.lane = WEIR_NONE;
    uint32_t own = sim_arrive(&sim, &a);
    a.lane = 0; /* not theirs: ignored, so it stays behind the one before */
    uint32_t higher = sim_arrive(&sim, &a);
    CHECK(sim_run_dry(&sim, sim.now_ns + 100 * SECOND));
    CHECK_INT(wait_of(&sim, own), 100 * MS);
    CHECK_INT(wait_of(&sim, higher), 200 * MS);
    CHECK_INT(wait_of(&sim, lower), 300 * MS);
    sim_close_settled(&sim);
}

/* --- bounds and deadlines --- */

static void flow__the_queue_is_full__is_refused_and_waiting_the_hint_suffices(void **state)
{
    (void)state;
    for (uint32_t by_tenant = 0; by_tenant < 2; by_tenant++) {
        struct weir_tenant_rules tenant[2];
        struct sim_config c = sim_config_plain(1, tenant, 2);
        if (by_tenant)
            tenant[0].waiters_max = 10;
        else
            c.limits.waiters_max = 10;
        struct script s = script_ok(300 * MS);
        c.plan = script_plan;
        c.user = &s;
        struct sim sim;
        sim_open(&sim, &c);
        /* Kept full for a while, so that the drain is measured. */
        for (uint32_t i = 0; i < 40; i++) {
            while (try(&sim, 0, 600 * SECOND) == WEIR_REFUSAL_NONE)
                ;
            CHECK_INT(waiters_now(&sim), 10);
            sim_run(&sim, sim.now_ns + 100 * MS);
        }
        while (try(&sim, 0, 600 * SECOND) == WEIR_REFUSAL_NONE)
            ;
        const struct sim_request *last = &sim.requests[sim.requests_count - 1];
        CHECK_INT(last->refusal,
                  by_tenant ? WEIR_REFUSAL_TENANT_QUEUE_FULL : WEIR_REFUSAL_QUEUE_FULL);
        CHECK_INT(last->refused.hint_ns, 300 * MS);
        sim_run(&sim, sim.now_ns + last->refused.hint_ns);
        CHECK_INT(try(&sim, 0, 600 * SECOND), WEIR_REFUSAL_NONE);
        if (by_tenant) /* its bound is no one else's */
            CHECK_INT(try(&sim, 1, 600 * SECOND), WEIR_REFUSAL_NONE);
        finish_all(&sim);
    }
}

static void flow__more_arrive_at_once_than_may_wait__but_permits_are_free__all_pass(void **state)
{
    (void)state;
    struct weir_tenant_rules tenant[1];
    struct sim_config c = sim_config_plain(64, tenant, 1);
    c.limits.waiters_max = 1;
    struct script s = script_ok(300 * MS);
    c.plan = script_plan;
    c.user = &s;
    struct sim sim;
    sim_open(&sim, &c);
    uint32_t first = arrive_many(&sim, 0, 64, 60 * SECOND);
    for (uint32_t i = first; i < sim.requests_count; i++)
        CHECK_INT(sim.requests[i].refusal, WEIR_REFUSAL_NONE);
    finish_all(&sim);
}

static void flow__a_deadline_in_the_queue__is_met_to_the_nanosecond(void **state)
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
    uint32_t late = arrive(&sim, 0, 1000 * MS - 1);
    uint32_t just = arrive(&sim, 0, 1000 * MS); /* its turn comes with its deadline */
    CHECK(sim_run_dry(&sim, sim.now_ns + 100 * SECOND));
    CHECK_INT(sim.requests[late].refusal, WEIR_REFUSAL_QUEUE_TIMEOUT);
    CHECK_INT(sim.requests[late].refused_ns - sim.requests[late].arrived_ns, 1000 * MS - 1);
    CHECK(sim.requests[late].refused.hint_ns > 0);
    CHECK(sim.requests[late].is_voided);
    CHECK_INT(sim.requests[just].refusal, WEIR_REFUSAL_NONE);
    CHECK_INT(sim.requests[just].summary.queue_wait_ns, 1000 * MS);
    sim_close_settled(&sim);
}

static void flow__paused_draining_and_closed__are_said_before_the_body_is_read(void **state)
{
    (void)state;
    struct weir_tenant_rules tenant[2];
    struct sim_config c = sim_config_plain(1, tenant, 2);
    tenant[1].paused = true;
    c.limits.waiters_max = 2;
    struct script s = script_ok(1000 * MS);
    c.plan = script_plan;
    c.user = &s;
    struct sim sim;
    sim_open(&sim, &c);
    struct weir_refused refused;
    uint64_t deadline_ns = sim.now_ns + 60 * SECOND;
    CHECK_INT(weir_flow_precheck(sim.flow, 0, 0, deadline_ns, sim.now_ns, &refused),
              WEIR_REFUSAL_NONE);
    CHECK_INT(weir_flow_precheck(sim.flow, 1, WEIR_NONE, deadline_ns, sim.now_ns, &refused),
              WEIR_REFUSAL_TENANT_PAUSED);
    arrive_many(&sim, 0, 3, 60 * SECOND);
    CHECK_INT(weir_flow_precheck(sim.flow, 0, WEIR_NONE, deadline_ns, sim.now_ns, &refused),
              WEIR_REFUSAL_QUEUE_FULL);
    CHECK(refused.hint_ns > 0);
    weir_flow_drain(sim.flow, sim.now_ns + 30 * SECOND, sim.now_ns + 60 * SECOND);
    CHECK_INT(weir_flow_precheck(sim.flow, 0, 0, deadline_ns, sim.now_ns, &refused),
              WEIR_REFUSAL_DRAINING);
    struct weir_flow_view view;
    weir_flow_view(sim.flow, &view);
    CHECK_INT(view.refusals[WEIR_REFUSAL_TENANT_PAUSED], 1);
    CHECK_INT(view.refusals[WEIR_REFUSAL_DRAINING], 1);
    finish_all(&sim);
}

/* One request of a tenant is parked for the upstream's bucket in the lower lane, others of it in the
 * higher lane use its own bucket up: both stand still then, and both go when there is enough. */
static void
flow__parked_in_one_lane_when_its_tenant_runs_short_in_another__both_go_later(void **state)
{
    (void)state;
    struct weir_tenant_rules tenants[2];
    struct sim_config c = sim_config_plain(8, tenants, 2);
    struct script s = script_ok(10 * SECOND);
    s.of[0].usage = (struct weir_flow_usage){9, 0, 0, 50};
    c.plan = script_plan;
    c.user = &s;
    c.lanes = (struct weir_lane_rules){.lane_count = 2};
    c.upstreams[0].tokens = rate(1, 1000);
    tenants[0].tokens = rate(1, 150);
    struct sim sim;
    sim_open(&sim, &c);
    struct weir_arrival a = sim_arrival(&sim, 1, 4, 891, 600 * SECOND);
    sim_arrive(&sim, &a); /* leaves 100 of the upstream's */
    a = sim_arrival(&sim, 0, 4, 100, 600 * SECOND);
    a.lane = 1;
    uint32_t low = sim_arrive(&sim, &a); /* 109: waits for the upstream */
    a = sim_arrival(&sim, 0, 4, 50, 600 * SECOND);
    sim_arrive_at(&sim, sim.now_ns, &a); /* 59: passes, and leaves 91 of the tenant's */
    a = sim_arrival(&sim, 0, 4, 140, 600 * SECOND);
    sim_arrive_at(&sim, sim.now_ns, &a); /* 149: waits for the tenant's, and so must the other */
    sim_run(&sim, sim.now_ns);
    uint32_t high = low + 2;
    CHECK_INT(waiters_now(&sim), 2);
    CHECK(sim_run_dry(&sim, sim.now_ns + 3600 * SECOND));
    CHECK_INT(sim.requests[low].attempts, 1);
    CHECK_INT(sim.requests[high].attempts, 1);
    sim_close_settled(&sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            flow__parked_in_one_lane_when_its_tenant_runs_short_in_another__both_go_later),
        cmocka_unit_test(
            flow__fourteen_jobs_at_two_a_second_and_burst_five__five_at_once_then_every_500_ms),
        cmocka_unit_test(flow__fourteen_jobs_of_a_limited_tenant__the_same_times_and_others_pass),
        cmocka_unit_test(
            flow__the_wait_for_a_rate_passes_the_deadline__is_refused_on_arrival_with_its_hint),
        cmocka_unit_test(flow__the_upstreams_rate_passes_the_deadline__waiting_the_hint_suffices),
        cmocka_unit_test(flow__a_cost_above_a_buckets_capacity__is_too_large_whatever_the_wait),
        cmocka_unit_test(flow__tokens_charged_by_estimate__are_corrected_by_what_was_used),
        cmocka_unit_test(flow__a_tenant_waits_for_its_bucket__tokens_given_back_wake_it),
        cmocka_unit_test(flow__nothing_was_sent__every_bucket_is_as_before),
        cmocka_unit_test(
            flow__a_request_that_does_not_fit_the_upstreams_rate__is_not_overtaken_in_its_lane),
        cmocka_unit_test(flow__the_only_request_of_a_lane_waits_for_a_rate__its_floor_is_kept),
        cmocka_unit_test(flow__forty_of_one_tenant_wait__anothers_one_is_next_or_next_but_one),
        cmocka_unit_test(flow__unequal_costs__work_stays_within_the_bound_on_every_prefix),
        cmocka_unit_test(flow__cached_input__is_not_counted_as_work),
        cmocka_unit_test(flow__a_lane_asked_for__can_only_be_lower),
        cmocka_unit_test(flow__the_queue_is_full__is_refused_and_waiting_the_hint_suffices),
        cmocka_unit_test(flow__more_arrive_at_once_than_may_wait__but_permits_are_free__all_pass),
        cmocka_unit_test(flow__a_deadline_in_the_queue__is_met_to_the_nanosecond),
        cmocka_unit_test(flow__paused_draining_and_closed__are_said_before_the_body_is_read),
    };
    return cmocka_run_group_tests_name("gate", tests, NULL, NULL);
}
