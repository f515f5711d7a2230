/* gate_view: looking into the gate, and checking it. */
#include "core/gate_private.h"

enum weir_gate_place weir_gate_place(const struct weir_gate *g, uint32_t waiter)
{
    return g->waiters[waiter].place;
}

uint32_t weir_gate_pool_of(const struct weir_gate *g, uint32_t waiter)
{
    return g->waiters[waiter].pool;
}

uint32_t weir_gate_upstream_of(const struct weir_gate *g, uint32_t waiter)
{
    return g->waiters[waiter].upstream;
}

uint32_t weir_gate_tenant_generation(const struct weir_gate *g, uint32_t tenant)
{
    return g->tenants[tenant].generation;
}

static struct weir_flow_limit view_limit(const struct gate_limit *limit, uint64_t now_ns)
{
    if (!limit->is_on)
        return (struct weir_flow_limit){0};
    const struct weir_bucket *b = &limit->bucket;
    int64_t level_tok = weir_tok_from_utok_floor(weir_bucket_level_utok(b, now_ns));
    return (struct weir_flow_limit){
        .limit = (uint64_t)weir_tok_from_utok_floor(b->capacity_utok),
        .remaining = (uint64_t)weir_max_i64(level_tok, 0),
        .reset_ns = gate_limit_wait_ns(limit, (uint64_t)b->capacity_utok, now_ns)};
}

void weir_gate_upstream_view(const struct weir_gate *g, uint32_t upstream, uint64_t now_ns,
                             struct weir_upstream_view *view)
{
    WEIR_INVARIANT(upstream < g->limits.upstream_count);
    const struct gate_upstream *u = &g->upstreams[upstream];
    *view = (struct weir_upstream_view){
        .permits = u->adapt.limit,
        .permits_now = u->permits_now,
        .breaker = u->breaker.state,
        .open_for_ns = weir_breaker_open_for_ns(&u->breaker, now_ns),
        .paused_for_ns = weir_breaker_paused_for_ns(&u->breaker, now_ns),
        .calls = u->breaker.calls,
        .failures = u->breaker.failures,
        .opened = u->breaker.opened,
        .requests = view_limit(&u->requests, now_ns),
        .tokens = view_limit(&u->tokens, now_ns)};
    /* The cool-down ends by time alone; that it has is true before anyone dispatched. */
    if (view->breaker == WEIR_BREAKER_OPEN && view->open_for_ns == 0)
        view->breaker = WEIR_BREAKER_HALF_OPEN;
}

void weir_gate_pool_view(const struct weir_gate *g, uint32_t pool, uint64_t now_ns,
                         struct weir_pool_view *view)
{
    (void)now_ns;
    WEIR_INVARIANT(pool < g->limits.pool_count);
    const struct gate_pool *p = &g->pools[pool];
    *view =
        (struct weir_pool_view){.waiting = p->waiting, .drain_micro_per_s = p->drain.rate_micro};
    for (uint32_t lane = 0; p->lanes && lane < g->limits.lanes.lane_count; lane++)
        view->waiting_tenants += weir_sched_tenants_ready(weir_lanes_sched(p->lanes, lane));
}

void weir_gate_gap_view(struct weir_gate *g, uint32_t pool, uint32_t lane, uint64_t now_ns,
                        struct weir_gap_view *view)
{
    WEIR_INVARIANT(pool < g->limits.pool_count);
    const struct gate_pool *p = &g->pools[pool];
    WEIR_INVARIANT(p->lanes);
    weir_lanes_end_slices(p->lanes, now_ns);
    weir_gap_view(p->gap, lane, view);
}

void weir_gate_tenant_view(const struct weir_gate *g, uint32_t tenant, uint64_t now_ns,
                           struct weir_gate_tenant_view *view)
{
    WEIR_INVARIANT(tenant < g->limits.tenants_max);
    const struct gate_tenant *t = &g->tenants[tenant];
    *view = (struct weir_gate_tenant_view){.waiting = t->waiting,
                                           .in_flight = t->granted,
                                           .requests = view_limit(&t->requests, now_ns),
                                           .tokens = view_limit(&t->tokens, now_ns)};
    for (uint32_t pool = 0; t->waiting > 0 && pool < g->limits.pool_count; pool++) {
        const struct gate_pool *p = &g->pools[pool];
        for (uint32_t lane = 0; p->lanes && lane < g->limits.lanes.lane_count; lane++) {
            uint32_t head = weir_sched_tenant_head(weir_lanes_sched(p->lanes, lane), tenant);
            uint32_t parked_1 = p->parked_1[lane];
            if (parked_1 && g->waiters[parked_1 - 1].tenant == tenant)
                head = parked_1 - 1;
            if (head != WEIR_NONE)
                view->longest_wait_ns = weir_max_u64(
                    view->longest_wait_ns, weir_sub_sat_u64(now_ns, g->waiters[head].queued_ns));
        }
    }
}

void weir_gate_view(const struct weir_gate *g, struct weir_gate_view *view)
{
    *view = (struct weir_gate_view){.waiters_now = g->waiters_now,
                                    .granted_now = g->granted_now,
                                    .waiting_bytes_now = g->waiting_bytes_now};
}

static void audit_pool(const struct weir_gate *g, uint32_t pool, uint32_t waiting)
{
    const struct gate_pool *p = &g->pools[pool];
    uint32_t parked = 0;
    if (!p->lanes)
        return;
    for (uint32_t lane = 0; lane < g->limits.lanes.lane_count; lane++) {
        struct weir_gap_view gap;
        weir_gap_view(p->gap, lane, &gap);
        WEIR_INVARIANT(gap.backlogged ==
                       weir_sched_tenants_ready(weir_lanes_sched(p->lanes, lane)));
        if (!p->parked_1[lane])
            continue;
        const struct gate_waiter *w = &g->waiters[p->parked_1[lane] - 1];
        WEIR_INVARIANT(w->place == WEIR_GATE_PARKED);
        WEIR_INVARIANT(w->pool == pool);
        WEIR_INVARIANT(w->lane == lane);
        parked++;
    }
    WEIR_INVARIANT(p->waiting == waiting);
    WEIR_INVARIANT(weir_lanes_items(p->lanes) + parked == waiting);
}

static void audit_tenant(const struct weir_gate *g, uint32_t tenant)
{
    const struct gate_tenant *t = &g->tenants[tenant];
    uint32_t suspended = 0;
    for (uint32_t pool = 0; pool < g->limits.pool_count; pool++) {
        if (!g->pools[pool].lanes)
            continue;
        suspended += weir_lanes_is_suspended(g->pools[pool].lanes, tenant);
        for (uint32_t lane = 0; lane < g->limits.lanes.lane_count; lane++)
            if (t->waiting == 0)
                WEIR_INVARIANT(*gate_waiting_tok(g, pool, lane, tenant) == 0);
    }
    WEIR_INVARIANT(t->suspended == suspended);
    WEIR_INVARIANT(weir_heap_has(&g->resumes, tenant) == (suspended > 0));
}

/* Counts one place of the tenant, pool or upstream of every waiter: O(n) for each of few. */
static uint32_t audit_count(const struct weir_gate *g, enum weir_gate_place place, uint32_t pool,
                            uint32_t upstream)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < g->slots_used; i++) {
        const struct gate_waiter *w = &g->waiters[i];
        count += w->place == place && (pool == WEIR_NONE || w->pool == pool) &&
                 (upstream == WEIR_NONE || w->upstream == upstream);
    }
    return count;
}

void weir_gate_audit(const struct weir_gate *g)
{
    uint64_t bytes = 0;
    uint32_t waiting = 0, granted = 0, tenants_waiting = 0, tenants_granted = 0;
    for (uint32_t i = 0; i < g->slots_used; i++) {
        const struct gate_waiter *w = &g->waiters[i];
        bool waits = w->place != WEIR_GATE_NONE && w->place != WEIR_GATE_GRANTED;
        waiting += waits;
        granted += w->place == WEIR_GATE_GRANTED;
        bytes += waits ? w->bytes : 0;
        WEIR_INVARIANT(!waits || weir_heap_has(&g->deadlines, i));
        WEIR_INVARIANT(w->place != WEIR_GATE_NONE || !weir_heap_has(&g->deadlines, i));
    }
    WEIR_INVARIANT(g->waiters_now == waiting);
    WEIR_INVARIANT(g->granted_now == granted);
    WEIR_INVARIANT(g->waiting_bytes_now == bytes);
    for (uint32_t pool = 0; pool < g->limits.pool_count; pool++)
        audit_pool(g, pool,
                   audit_count(g, WEIR_GATE_QUEUED, pool, WEIR_NONE) +
                       audit_count(g, WEIR_GATE_PARKED, pool, WEIR_NONE));
    for (uint32_t upstream = 0; upstream < g->limits.upstream_count; upstream++)
        WEIR_INVARIANT(g->upstreams[upstream].permits_now ==
                       audit_count(g, WEIR_GATE_GRANTED, WEIR_NONE, upstream));
    for (uint32_t tenant = 0; tenant < g->limits.tenants_max; tenant++) {
        tenants_waiting += g->tenants[tenant].waiting;
        tenants_granted += g->tenants[tenant].granted;
        audit_tenant(g, tenant);
    }
    WEIR_INVARIANT(tenants_waiting == waiting);
    WEIR_INVARIANT(tenants_granted == granted);
}
