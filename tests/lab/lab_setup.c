#include "lab/lab_setup.h"

#include "lab/lab_private.h"
#include "lab/lab_world.h"

#define TROUBLES_MAX 3

static struct weir_length draw_length(struct tape *t, uint32_t most)
{
    struct weir_length l = {.kind = (enum weir_length_kind)tape_below(t, 4)};
    l.low = (uint32_t)tape_between(t, 1, most);
    l.high = (uint32_t)tape_between(t, l.low, most);
    l.mean = (uint32_t)tape_between(t, l.low, l.high);
    l.sigma_permille = (uint32_t)tape_below(t, 1500);
    return l;
}

static struct weir_rate draw_rate(struct tape *t, uint64_t each)
{
    if (!tape_chance(t, 1, 4))
        return (struct weir_rate){0};
    return (struct weir_rate){.rate_micro_per_s = tape_between(t, 1, 8 * each) * 250000,
                              .capacity = tape_between(t, 1, 6 * each)};
}

static struct weir_lab_client draw_client(struct tape *t)
{
    struct weir_lab_client client = {0};
    if (tape_chance(t, 1, 2))
        client =
            (struct weir_lab_client){.retries_max = (uint32_t)tape_below(t, 4),
                                     .obeys_hint = tape_chance(t, 1, 2),
                                     .backoff_ns = tape_between(t, 1, 20) * 100 * WEIR_NS_PER_MS};
    if (tape_chance(t, 1, 3))
        client.gives_up_ns = tape_between(t, 1, 80) * 50 * WEIR_NS_PER_MS;
    client.tells_timeout = tape_chance(t, 1, 2);
    return client;
}

static void draw_arrivals(struct tape *t, struct weir_lab_tenant *tenant)
{
    tenant->arrivals = tape_chance(t, 1, 4)   ? WEIR_LAB_CLOSED
                       : tape_chance(t, 1, 4) ? WEIR_LAB_EVEN
                                              : WEIR_LAB_POISSON;
    tenant->users = (uint32_t)tape_between(t, 1, 4);
    tenant->think_ns = tape_below(t, 4) * 300 * WEIR_NS_PER_MS;
    tenant->rate_micro_per_s = tape_between(t, 1, 24) * 250000;
    if (tape_chance(t, 1, 5)) {
        tenant->on_ns = tape_between(t, 1, 20) * 100 * WEIR_NS_PER_MS;
        tenant->off_ns = tape_between(t, 1, 20) * 100 * WEIR_NS_PER_MS;
    }
    if (tape_chance(t, 1, 5)) {
        tenant->burst_from_ns = tape_below(t, 8) * 500 * WEIR_NS_PER_MS;
        tenant->burst_until_ns = tenant->burst_from_ns + tape_below(t, 8) * 500 * WEIR_NS_PER_MS;
        tenant->burst_permille = (uint32_t)tape_below(t, 6000);
    }
}

static void draw_tenant(struct tape *t, struct world *w, uint32_t index)
{
    struct weir_lab_tenant *tenant = &w->tenants[index];
    *tenant = (struct weir_lab_tenant){
        .name = {'t', (char)('0' + index)},
        .rules = {.weight = (uint32_t)tape_between(t, 1, 4),
                  .lane = (uint32_t)tape_below(t, w->s.lanes.lane_count),
                  .requests = draw_rate(t, 1),
                  .tokens = draw_rate(t, 200),
                  .refuse_over = tape_chance(t, 1, 2),
                  .waiters_max = (uint32_t)tape_between(t, 1, 12),
                  .paused = tape_chance(t, 1, 20),
                  .strict = tape_chance(t, 1, 8),
                  .overrun_cuts = tape_chance(t, 1, 2),
                  .scope = w->s.scope_count && tape_chance(t, 2, 3)
                               ? (uint32_t)tape_below(t, w->s.scope_count)
                               : WEIR_NONE},
        .pool = (uint32_t)tape_below(t, w->s.pool_count),
        .prompt = draw_length(t, 400),
        .output = draw_length(t, 120),
        .growth_turns = tape_chance(t, 1, 6) ? 5 : 0,
        .output_limit_tok = tape_chance(t, 1, 2) ? tape_between(t, 1, 200) : 0,
        .is_stream = tape_chance(t, 2, 3),
        .goal_wait_ns = tape_below(t, 3) * 100 * WEIR_NS_PER_MS,
        .client = draw_client(t)};
    draw_arrivals(t, tenant);
}

static void draw_upstream(struct tape *t, struct world *w, uint32_t index)
{
    struct weir_backend_trouble *troubles = tape_alloc(t, sizeof *troubles * TROUBLES_MAX);
    struct weir_lab_upstream *u = &w->upstreams[index];
    uint32_t replicas = (uint32_t)tape_between(t, 1, 3);
    *u = (struct weir_lab_upstream){
        .name = {'u', (char)('0' + index)},
        .rules = {.permits = (uint32_t)tape_between(t, 1, 6),
                  .requests = draw_rate(t, 2),
                  .tokens = draw_rate(t, 600),
                  .accounting = (enum weir_accounting)tape_below(t, 2),
                  .breaker = weir_breaker_rules_default(),
                  .fallback = index + 1 < w->s.upstream_count && tape_chance(t, 1, 2) ? index + 1
                                                                                      : WEIR_NONE},
        .backend = {.replicas = replicas,
                    .sequences = (uint32_t)tape_between(t, 1, 4),
                    .step_ns = tape_between(t, 1, 20) * WEIR_NS_PER_MS,
                    .step_sequence_ns = tape_below(t, 3) * WEIR_NS_PER_MS,
                    .prefill_permille = (uint32_t)tape_below(t, 3) * 50,
                    .kv_tok = tape_chance(t, 1, 4) ? tape_between(t, 100, 2000) : 0,
                    .latency_ns = tape_below(t, 3) * 5 * WEIR_NS_PER_MS,
                    .troubles = troubles,
                    .trouble_count = (uint32_t)tape_below(t, TROUBLES_MAX + 1)}};
    u->rules.breaker.cooldown_ns = tape_between(t, 1, 20) * 100 * WEIR_NS_PER_MS;
    u->rules.breaker.failures_in_row = (uint32_t)tape_below(t, 4);
    u->rules.breaker.trials = (uint32_t)tape_between(t, 1, 3);
    if (tape_chance(t, 1, 4))
        u->rules.adapt.min = 1;
    for (uint32_t i = 0; i < u->backend.trouble_count; i++) {
        troubles[i] = (struct weir_backend_trouble){
            .replica = tape_chance(t, 1, 3) ? WEIR_NONE : (uint32_t)tape_below(t, replicas),
            .kind = tape_chance(t, 1, 3) ? WEIR_TROUBLE_SLOW : WEIR_TROUBLE_FAIL,
            .from_ns = tape_below(t, 40) * 100 * WEIR_NS_PER_MS,
            .slow_permille = (uint32_t)tape_between(t, 1000, 90000)};
        troubles[i].until_ns = troubles[i].from_ns + tape_between(t, 1, 20) * 100 * WEIR_NS_PER_MS;
    }
}

/* Each upstream in one pool, none without. */
static void draw_pools(struct tape *t, struct world *w)
{
    w->s.pool_count = (uint32_t)tape_between(t, 1, w->s.upstream_count);
    for (uint32_t i = 0; i < w->s.pool_count; i++)
        w->pools[i] = (struct weir_pool_rules){.policy = (enum weir_sched_policy)tape_below(t, 4),
                                               .work_input = 1,
                                               .work_output = (uint32_t)tape_below(t, 4)};
    for (uint32_t i = 0; i < w->s.upstream_count; i++) {
        uint32_t pool = i < w->s.pool_count ? i : (uint32_t)tape_below(t, w->s.pool_count);
        w->pools[pool].upstreams[w->pools[pool].upstream_count++] = i;
    }
}

static void draw_scopes(struct tape *t, struct world *w)
{
    w->s.scope_count = (uint32_t)tape_below(t, 4);
    for (uint32_t i = 0; i < w->s.scope_count; i++)
        w->scopes[i] = (struct weir_lab_scope){
            .name = {'s', (char)('0' + i)},
            .parent = i > 0 && tape_chance(t, 1, 2) ? (uint32_t)tape_below(t, i) : WEIR_NONE,
            .is_unlimited = tape_chance(t, 1, 5),
            .granted_tok = tape_below(t, 12000),
            .period_ns = tape_below(t, 4) * 900 * WEIR_NS_PER_MS,
            .on_exhausted = (enum weir_exhausted_policy)tape_below(t, 3),
            .fallback_pool = (uint32_t)tape_below(t, w->s.pool_count),
            .fallback_scope =
                tape_chance(t, 1, 2) ? (uint32_t)tape_below(t, w->s.scope_count) : WEIR_NONE};
}

static void draw_world(struct tape *t, struct world *w)
{
    w->s = (struct weir_lab_scenario){
        .traffic_ns = tape_between(t, 1, 16) * 500 * WEIR_NS_PER_MS,
        .run_ns = tape_chance(t, 1, 6) ? 2 * WEIR_NS_PER_S : 0,
        .queue_wait_max_ns = tape_between(t, 1, 60) * 100 * WEIR_NS_PER_MS,
        .first_byte_max_ns =
            tape_chance(t, 1, 4) ? tape_between(t, 1, 30) * 100 * WEIR_NS_PER_MS : 0,
        .first_byte_whole_max_ns = tape_below(t, 3) * 2 * WEIR_NS_PER_S,
        .total_max_ns = tape_between(t, 1, 100) * 200 * WEIR_NS_PER_MS,
        .ledger_delay_ns =
            tape_chance(t, 1, 2) ? tape_between(t, 1, 2000) * WEIR_NS_PER_MS / 10 : 0,
        .bin_ns = 100 * WEIR_NS_PER_MS,
        .waiters_max = (uint32_t)tape_between(t, 1, 30),
        .waiting_bytes_max = tape_chance(t, 1, 6) ? tape_between(t, 1, 20000) : 0,
        .requests_max = tape_chance(t, 1, 4) ? (uint32_t)tape_between(t, 1, 20) : 0,
        .lanes = {.lane_count = (uint32_t)tape_between(t, 1, 3),
                  .floor_percent = {(uint32_t)tape_below(t, 30), (uint32_t)tape_below(t, 30),
                                    (uint32_t)tape_below(t, 30)}},
        .model = {.output_default_tok = tape_between(t, 1, 100)},
        .upstreams = w->upstreams,
        .upstream_count = (uint32_t)tape_between(t, 1, 3),
        .pools = w->pools,
        .tenants = w->tenants,
        .tenant_count = (uint32_t)tape_between(t, 1, 4),
        .scopes = w->scopes,
        .is_audited = true};
    for (uint32_t i = 0; i < w->s.upstream_count; i++)
        draw_upstream(t, w, i);
    draw_pools(t, w);
    draw_scopes(t, w);
    for (uint32_t i = 0; i < w->s.tenant_count; i++)
        draw_tenant(t, w, i);
}

static struct weir_lab *lab_of(struct tape *t, const struct world *w, uint64_t seed)
{
    size_t bytes = weir_lab_bytes(&w->s);
    uintptr_t mem = (uintptr_t)tape_alloc(t, bytes + 63);
    return weir_lab_init((void *)((mem + 63) & ~(uintptr_t)63), bytes, &w->s, seed);
}

void lab_setup_any(struct tape *t)
{
    struct world *w = tape_alloc(t, sizeof *w);
    struct weir_lab_problem problem;
    uint64_t seed = tape_below(t, 256);
    draw_world(t, w);
    TAPE_CHECK_MSG(t, weir_lab_check(&w->s, &problem), "%s %s", problem.field, problem.text);
    struct weir_lab *lab = lab_of(t, w, seed);
    bool is_alive = weir_lab_run(lab, 3600 * WEIR_NS_PER_S);
    TAPE_CHECK(t, !is_alive);
    const struct weir_lab_results *r = weir_lab_results(lab);
    const char *wrong = world_wrong_sums(lab, r);
    TAPE_CHECK_MSG(t, !wrong, "%s", wrong);
    wrong = w->s.run_ns ? NULL : world_wrong_over(lab, r);
    TAPE_CHECK_MSG(t, !wrong, "%s", wrong);
    w->s.is_audited = false;
    struct weir_lab *again = lab_of(t, w, seed);
    for (uint64_t at_ns = 0; weir_lab_run(again, at_ns); at_ns += 333 * WEIR_NS_PER_MS)
        (void)weir_lab_results(again);
    TAPE_CHECK(t, weir_lab_results(again)->hash == r->hash);
    TAPE_CHECK(t, weir_lab_results(again)->events == r->events);
}
