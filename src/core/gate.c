#include "core/gate_private.h"

#include <string.h>

/* Hands out the host's block in pieces that start cache lines. With mem NULL it only measures. */
struct gate_carve {
    unsigned char *mem;
    size_t used;
};

static void *carve(struct gate_carve *c, size_t bytes)
{
    size_t at = c->used;
    c->used += (bytes + 63) & ~(size_t)63;
    return c->mem ? c->mem + at : NULL;
}

static struct weir_lanes_limits gate_lanes_limits(const struct weir_gate_limits *limits)
{
    return (struct weir_lanes_limits){.lanes = limits->lanes.lane_count,
                                      .tenants_max = limits->tenants_max,
                                      .items_max = limits->slots_max};
}

static struct weir_gap_limits gate_gap_limits(const struct weir_gate_limits *limits)
{
    return (struct weir_gap_limits){.lanes = limits->lanes.lane_count,
                                    .tenants_max = limits->tenants_max};
}

static struct weir_heap_entry *carve_heap_entries(struct gate_carve *c, uint32_t ids)
{
    return carve(c, sizeof(struct weir_heap_entry) * ((size_t)ids + WEIR_HEAP_SPARE));
}

/* One order of pieces for both measuring and laying out. */
static size_t gate_lay_out(struct weir_gate *g, unsigned char *mem,
                           const struct weir_gate_limits *limits)
{
    struct gate_carve c = {.mem = mem};
    size_t tenants = limits->tenants_max, slots = limits->slots_max, pools = limits->pool_count;
    struct weir_gate at = {.limits = *limits};
    (void)carve(&c, sizeof *g);
    at.upstreams = carve(&c, sizeof(struct gate_upstream) * limits->upstream_count);
    at.pools = carve(&c, sizeof(struct gate_pool) * pools);
    at.tenants = carve(&c, sizeof(struct gate_tenant) * tenants);
    at.waiters = carve(&c, sizeof(struct gate_waiter) * slots);
    at.items = carve(&c, sizeof(struct weir_sched_item) * slots);
    at.waiting_tok = carve(&c, sizeof(uint64_t) * pools * limits->lanes.lane_count * tenants);
    at.lanes_bytes = (weir_lanes_bytes(gate_lanes_limits(limits)) + 63) & ~(size_t)63;
    at.lanes_mem = carve(&c, at.lanes_bytes * pools);
    at.gap_bytes = (weir_gap_bytes(gate_gap_limits(limits)) + 63) & ~(size_t)63;
    at.gap_mem = carve(&c, at.gap_bytes * pools);
    struct weir_heap_entry *deadlines = carve_heap_entries(&c, limits->slots_max);
    uint32_t *deadline_places = carve(&c, sizeof(uint32_t) * slots);
    struct weir_heap_entry *resumes = carve_heap_entries(&c, limits->tenants_max);
    uint32_t *resume_places = carve(&c, sizeof(uint32_t) * tenants);
    struct weir_heap_entry *wakes = carve_heap_entries(&c, limits->pool_count);
    uint32_t *wake_places = carve(&c, sizeof(uint32_t) * pools);
    if (!mem)
        return c.used;
    weir_heap_init(&at.deadlines, deadlines, deadline_places, limits->slots_max);
    weir_heap_init(&at.resumes, resumes, resume_places, limits->tenants_max);
    weir_heap_init(&at.wakes, wakes, wake_places, limits->pool_count);
    *g = at;
    return c.used;
}

size_t weir_gate_bytes(const struct weir_gate_limits *limits)
{
    return gate_lay_out(NULL, NULL, limits);
}

struct weir_gate *weir_gate_init(void *mem, size_t bytes, const struct weir_gate_limits *limits)
{
    WEIR_INVARIANT(bytes >= weir_gate_bytes(limits));
    WEIR_INVARIANT(((uintptr_t)mem & 63) == 0);
    WEIR_INVARIANT(limits->lanes.lane_count > 0);
    WEIR_INVARIANT(limits->lanes.lane_count <= WEIR_LANES_MAX);
    WEIR_INVARIANT(limits->waiters_max > 0);
    struct weir_gate *g = mem;
    gate_lay_out(g, mem, limits);
    return g;
}

void weir_gate_upstream_set(struct weir_gate *g, uint32_t upstream,
                            const struct weir_upstream_rules *rules, uint64_t now_ns)
{
    WEIR_INVARIANT(upstream < g->limits.upstream_count);
    WEIR_INVARIANT(rules->permits > 0);
    struct gate_upstream *u = &g->upstreams[upstream];
    if (u->rules.permits == 0)
        weir_breaker_init(&u->breaker, &rules->breaker);
    else
        weir_breaker_rules_set(&u->breaker, &rules->breaker);
    u->rules = *rules;
    weir_adapt_set(&u->adapt, &rules->adapt, rules->permits, now_ns);
    bool is_split = rules->accounting == WEIR_ACCOUNTING_ANTHROPIC;
    gate_limit_set(&u->requests, &rules->requests, now_ns);
    gate_limit_set(&u->tokens, is_split ? &rules->input : &rules->tokens, now_ns);
    gate_limit_set(&u->output, is_split ? &rules->output : &(struct weir_rate){0}, now_ns);
    if (u->pool_1)
        gate_pool_dirty(g, u->pool_1 - 1);
}

static void gate_pool_begin(struct weir_gate *g, uint32_t pool, enum weir_sched_policy policy)
{
    struct gate_pool *p = &g->pools[pool];
    struct weir_lane_config lanes[WEIR_LANES_MAX];
    enum weir_sched_policy policies[WEIR_LANES_MAX];
    for (uint32_t i = 0; i < g->limits.lanes.lane_count; i++) {
        policies[i] = policy;
        lanes[i] = (struct weir_lane_config){.policy = policy,
                                             .floor_percent = g->limits.lanes.floor_percent[i]};
    }
    p->lanes = weir_lanes_init(g->lanes_mem + g->lanes_bytes * pool, g->lanes_bytes,
                               gate_lanes_limits(&g->limits), lanes, g->items);
    p->gap = weir_gap_init(g->gap_mem + g->gap_bytes * pool, g->gap_bytes,
                           gate_gap_limits(&g->limits), policies);
    weir_lanes_set_gap(p->lanes, p->gap);
}

void weir_gate_pool_set(struct weir_gate *g, uint32_t pool, const struct weir_pool_rules *rules)
{
    WEIR_INVARIANT(pool < g->limits.pool_count);
    WEIR_INVARIANT(rules->upstream_count > 0);
    WEIR_INVARIANT(rules->upstream_count <= WEIR_POOL_UPSTREAMS_MAX);
    struct gate_pool *p = &g->pools[pool];
    p->rules = *rules;
    for (uint32_t i = 0; i < rules->upstream_count; i++) {
        struct gate_upstream *u = &g->upstreams[rules->upstreams[i]];
        WEIR_INVARIANT(rules->upstreams[i] < g->limits.upstream_count);
        WEIR_INVARIANT(u->rules.permits > 0);
        WEIR_INVARIANT(u->pool_1 == 0 || u->pool_1 == pool + 1);
        u->pool_1 = pool + 1;
    }
    if (!p->lanes)
        gate_pool_begin(g, pool, rules->policy);
    gate_pool_dirty(g, pool);
}

void weir_gate_tenant_set(struct weir_gate *g, uint32_t tenant,
                          const struct weir_tenant_rules *rules, uint64_t now_ns)
{
    WEIR_INVARIANT(tenant < g->limits.tenants_max);
    WEIR_INVARIANT(rules->weight > 0);
    WEIR_INVARIANT(rules->lane < g->limits.lanes.lane_count);
    struct gate_tenant *t = &g->tenants[tenant];
    t->rules = *rules;
    gate_limit_set(&t->requests, &rules->requests, now_ns);
    gate_limit_set(&t->tokens, &rules->tokens, now_ns);
    for (uint32_t pool = 0; pool < g->limits.pool_count; pool++)
        if (g->pools[pool].lanes)
            weir_lanes_set_weight(g->pools[pool].lanes, tenant, rules->weight);
    gate_tenant_resume(g, tenant);
}

const struct weir_tenant_rules *weir_gate_tenant_rules(const struct weir_gate *g, uint32_t tenant)
{
    WEIR_INVARIANT(tenant < g->limits.tenants_max);
    return &g->tenants[tenant].rules;
}

bool weir_gate_tenant_forget(struct weir_gate *g, uint32_t tenant)
{
    WEIR_INVARIANT(tenant < g->limits.tenants_max);
    struct gate_tenant *t = &g->tenants[tenant];
    if (t->waiting > 0 || t->granted > 0)
        return false;
    gate_tenant_resume(g, tenant);
    for (uint32_t pool = 0; pool < g->limits.pool_count; pool++)
        if (g->pools[pool].lanes)
            weir_lanes_tenant_forget(g->pools[pool].lanes, tenant);
    *t = (struct gate_tenant){.generation = t->generation + 1};
    return true;
}

void gate_pool_dirty(struct weir_gate *g, uint32_t pool)
{
    struct gate_pool *p = &g->pools[pool];
    if (p->is_dirty || !p->lanes)
        return;
    p->is_dirty = true;
    p->next_dirty_1 = 0;
    if (g->dirty_last_1)
        g->pools[g->dirty_last_1 - 1].next_dirty_1 = pool + 1;
    else
        g->dirty_first_1 = pool + 1;
    g->dirty_last_1 = pool + 1;
}

/* The tenant's buckets may be full enough again: it is back in the order of every pool, and
 * dispatch looks. */
void gate_tenant_resume(struct weir_gate *g, uint32_t tenant)
{
    struct gate_tenant *t = &g->tenants[tenant];
    if (weir_heap_has(&g->resumes, tenant))
        weir_heap_remove(&g->resumes, tenant);
    for (uint32_t pool = 0; pool < g->limits.pool_count && t->suspended > 0; pool++) {
        struct gate_pool *p = &g->pools[pool];
        if (!p->lanes || !weir_lanes_is_suspended(p->lanes, tenant))
            continue;
        weir_lanes_resume(p->lanes, tenant);
        t->suspended--;
        gate_pool_dirty(g, pool);
    }
    WEIR_INVARIANT(t->suspended == 0);
}

/* Breakers are turned to half-open by time alone; who asks whether they are open asks after that.
 */
static void gate_tick_breakers(struct weir_gate *g, const struct gate_pool *p, uint64_t now_ns)
{
    for (uint32_t i = 0; i < p->rules.upstream_count; i++)
        (void)weir_breaker_tick(&g->upstreams[p->rules.upstreams[i]].breaker, now_ns);
}

bool gate_pool_is_open(struct weir_gate *g, uint32_t pool, const struct gate_waiter *w,
                       uint64_t now_ns)
{
    const struct gate_pool *p = &g->pools[pool];
    gate_tick_breakers(g, p, now_ns);
    for (uint32_t i = 0; i < p->rules.upstream_count; i++) {
        uint32_t upstream = p->rules.upstreams[i];
        if (g->upstreams[upstream].breaker.state != WEIR_BREAKER_OPEN &&
            !(w && gate_was_tried(w, upstream)))
            return false;
    }
    return true;
}

static uint32_t gate_fallback_pool(const struct weir_gate *g, uint32_t upstream)
{
    uint32_t fallback = g->upstreams[upstream].rules.fallback;
    if (fallback >= g->limits.upstream_count || g->upstreams[fallback].pool_1 == 0)
        return WEIR_NONE;
    return g->upstreams[fallback].pool_1 - 1;
}

/* The fallback of the first upstream that has one which leads out of its pool. */
static uint32_t gate_pool_fallback(const struct weir_gate *g, uint32_t pool)
{
    const struct gate_pool *p = &g->pools[pool];
    for (uint32_t i = 0; i < p->rules.upstream_count; i++) {
        uint32_t next = gate_fallback_pool(g, p->rules.upstreams[i]);
        if (next != WEIR_NONE && next != pool)
            return next;
    }
    return WEIR_NONE;
}

uint32_t gate_find_pool(struct weir_gate *g, uint32_t pool, const struct gate_waiter *w,
                        uint64_t now_ns)
{
    for (uint32_t hop = 0; hop < GATE_HOPS_MAX && pool != WEIR_NONE; hop++) {
        if (!gate_pool_is_open(g, pool, w, now_ns))
            return pool;
        pool = gate_pool_fallback(g, pool);
    }
    return WEIR_NONE;
}

uint32_t gate_next_pool(struct weir_gate *g, const struct gate_waiter *w, uint64_t now_ns)
{
    if (w->tried_count >= WEIR_ATTEMPTS_MAX)
        return WEIR_NONE;
    if (!gate_pool_is_open(g, w->pool, w, now_ns))
        return w->pool;
    uint32_t next = gate_fallback_pool(g, w->upstream);
    if (next == WEIR_NONE || next == w->pool)
        next = gate_pool_fallback(g, w->pool);
    return next == WEIR_NONE ? WEIR_NONE : gate_find_pool(g, next, w, now_ns);
}

/* Can any upstream of the pool ever carry it, as far as bucket capacities go? */
static bool gate_fits_pool(const struct weir_gate *g, const struct gate_waiter *w, uint64_t now_ns)
{
    const struct gate_pool *p = &g->pools[w->pool];
    uint64_t wait_ns;
    for (uint32_t i = 0; i < p->rules.upstream_count; i++)
        if (gate_upstream_check(&g->upstreams[p->rules.upstreams[i]], w, now_ns, &wait_ns) !=
            WEIR_BUCKET_NEVER)
            return true;
    return false;
}

static void waiter_fill(const struct weir_gate *g, struct gate_waiter *w,
                        const struct weir_gate_want *want)
{
    const struct gate_tenant *t = &g->tenants[want->tenant];
    *w = (struct gate_waiter){.tenant = want->tenant,
                              .pool = want->pool,
                              .lane = t->rules.lane,
                              .bytes = want->bytes,
                              .upstream = WEIR_NONE,
                              .input_tok = want->input_tok,
                              .output_tok = want->output_tok,
                              .predicted_tok = want->predicted_tok,
                              .work_min = want->work_min};
    if (want->lane != WEIR_NONE && want->lane > t->rules.lane &&
        want->lane < g->limits.lanes.lane_count)
        w->lane = want->lane;
}

/* Everything that can be said without the request's cost. */
static enum weir_refusal gate_admit_closed(struct weir_gate *g, uint32_t tenant, uint32_t *pool,
                                           uint64_t now_ns, struct weir_refused *refused)
{
    const struct gate_tenant *t = &g->tenants[tenant];
    WEIR_INVARIANT(t->rules.weight > 0);
    if (t->rules.paused)
        return gate_refuse(refused, WEIR_REFUSAL_TENANT_PAUSED, 0, WEIR_NONE);
    if (*pool == WEIR_NONE)
        return WEIR_REFUSAL_NONE;
    uint32_t served = gate_find_pool(g, *pool, NULL, now_ns);
    if (served == WEIR_NONE)
        return gate_refuse(refused, WEIR_REFUSAL_UPSTREAM_OPEN,
                           weir_gate_pool_closed_for_ns(g, *pool, now_ns),
                           g->pools[*pool].rules.upstreams[0]);
    *pool = served;
    return WEIR_REFUSAL_NONE;
}

enum weir_refusal weir_gate_precheck(struct weir_gate *g, uint32_t tenant, uint32_t pool,
                                     uint64_t deadline_ns, uint64_t now_ns,
                                     struct weir_refused *refused)
{
    WEIR_INVARIANT(tenant < g->limits.tenants_max);
    enum weir_refusal reason = gate_admit_closed(g, tenant, &pool, now_ns, refused);
    if (reason == WEIR_REFUSAL_NONE)
        reason = gate_bounds(g, tenant, pool, 0, now_ns, refused);
    if (reason != WEIR_REFUSAL_NONE || pool == WEIR_NONE)
        return reason;
    uint64_t closed_ns = weir_gate_pool_closed_for_ns(g, pool, now_ns);
    if (closed_ns > weir_sub_sat_u64(deadline_ns, now_ns))
        return gate_refuse(refused, WEIR_REFUSAL_UPSTREAM_OPEN, closed_ns,
                           g->pools[pool].rules.upstreams[0]);
    return WEIR_REFUSAL_NONE;
}

/* Into the queue of w->pool, behind its tenant's others. */
void gate_enqueue(struct weir_gate *g, uint32_t waiter, uint64_t now_ns)
{
    struct gate_waiter *w = &g->waiters[waiter];
    struct gate_pool *p = &g->pools[w->pool];
    weir_lanes_end_slices(p->lanes, now_ns);
    w->work_uwork = gate_work_uwork(&p->rules, w->input_tok, w->predicted_tok, w->work_min);
    weir_lanes_enqueue(p->lanes, w->lane, w->tenant, waiter, w->work_uwork);
    gate_count_in(g, waiter, now_ns);
}

void gate_count_in(struct weir_gate *g, uint32_t waiter, uint64_t now_ns)
{
    struct gate_waiter *w = &g->waiters[waiter];
    struct gate_pool *p = &g->pools[w->pool];
    if (p->waiting == 0)
        gate_drain_begin(&p->drain, now_ns);
    p->waiting++;
    *gate_waiting_tok(g, w->pool, w->lane, w->tenant) += w->input_tok + w->output_tok;
    w->place = WEIR_GATE_QUEUED;
    gate_pool_dirty(g, w->pool);
}

/* What QUEUED and PARKED have beyond ASIDE. */
void gate_count_out(struct weir_gate *g, struct gate_waiter *w)
{
    struct gate_pool *p = &g->pools[w->pool];
    WEIR_INVARIANT(p->waiting > 0);
    p->waiting--;
    *gate_waiting_tok(g, w->pool, w->lane, w->tenant) -= w->input_tok + w->output_tok;
}

void gate_wait_begin(struct weir_gate *g, uint32_t waiter, uint64_t deadline_ns, uint64_t now_ns)
{
    struct gate_waiter *w = &g->waiters[waiter];
    g->waiters_now++;
    g->waiting_bytes_now += w->bytes;
    g->tenants[w->tenant].waiting++;
    w->queued_ns = now_ns;
    weir_heap_push(&g->deadlines, waiter, deadline_ns);
}

void gate_wait_end(struct weir_gate *g, struct gate_waiter *w)
{
    WEIR_INVARIANT(g->waiters_now > 0);
    g->waiters_now--;
    g->waiting_bytes_now -= w->bytes;
    g->tenants[w->tenant].waiting--;
}

enum weir_refusal weir_gate_admit(struct weir_gate *g, uint32_t waiter,
                                  const struct weir_gate_want *want, uint64_t now_ns,
                                  struct weir_refused *refused)
{
    WEIR_INVARIANT(waiter < g->limits.slots_max);
    WEIR_INVARIANT(want->tenant < g->limits.tenants_max);
    WEIR_INVARIANT(want->pool < g->limits.pool_count);
    struct gate_waiter *w = &g->waiters[waiter];
    WEIR_INVARIANT(w->place == WEIR_GATE_NONE);
    uint64_t wait_ns;
    uint32_t pool = want->pool;
    enum weir_refusal reason = gate_admit_closed(g, want->tenant, &pool, now_ns, refused);
    if (reason != WEIR_REFUSAL_NONE)
        return reason;
    waiter_fill(g, w, want);
    w->pool = pool;
    if (gate_tenant_check(&g->tenants[w->tenant], w, now_ns, &wait_ns) == WEIR_BUCKET_NEVER ||
        !gate_fits_pool(g, w, now_ns))
        return gate_refuse(refused, WEIR_REFUSAL_TOO_LARGE, 0, WEIR_NONE);
    reason = gate_bounds(g, w->tenant, w->pool, w->bytes, now_ns, refused);
    if (reason == WEIR_REFUSAL_NONE)
        reason = gate_foresee(g, w, want->deadline_ns, now_ns, refused);
    if (reason != WEIR_REFUSAL_NONE)
        return reason;
    if (waiter >= g->slots_used)
        g->slots_used = waiter + 1;
    gate_wait_begin(g, waiter, want->deadline_ns, now_ns);
    gate_enqueue(g, waiter, now_ns);
    return gate_refuse(refused, WEIR_REFUSAL_NONE, 0, WEIR_NONE);
}

/* Out of the order, wherever it stands in it. */
static void gate_dequeue(struct weir_gate *g, uint32_t waiter)
{
    struct gate_waiter *w = &g->waiters[waiter];
    struct gate_pool *p = &g->pools[w->pool];
    if (w->place == WEIR_GATE_PARKED)
        gate_unpark(g, waiter);
    weir_lanes_remove(p->lanes, waiter);
    gate_count_out(g, w);
    /* It may have been the one that its tenant, or its whole lane, stood still for. */
    if (g->tenants[w->tenant].suspended > 0)
        gate_tenant_resume(g, w->tenant);
    gate_pool_dirty(g, w->pool);
}

void weir_gate_leave(struct weir_gate *g, uint32_t waiter)
{
    struct gate_waiter *w = &g->waiters[waiter];
    WEIR_INVARIANT(w->place != WEIR_GATE_NONE);
    WEIR_INVARIANT(w->place != WEIR_GATE_GRANTED);
    if (w->place != WEIR_GATE_ASIDE)
        gate_dequeue(g, waiter);
    if (weir_heap_has(&g->deadlines, waiter))
        weir_heap_remove(&g->deadlines, waiter);
    gate_wait_end(g, w);
    w->place = WEIR_GATE_NONE;
}

void weir_gate_set_aside(struct weir_gate *g, uint32_t waiter)
{
    struct gate_waiter *w = &g->waiters[waiter];
    WEIR_INVARIANT(w->place == WEIR_GATE_QUEUED || w->place == WEIR_GATE_PARKED);
    gate_dequeue(g, waiter);
    w->place = WEIR_GATE_ASIDE;
}

void weir_gate_rejoin(struct weir_gate *g, uint32_t waiter, uint64_t now_ns)
{
    WEIR_INVARIANT(g->waiters[waiter].place == WEIR_GATE_ASIDE);
    gate_enqueue(g, waiter, now_ns);
}

void weir_gate_tick(struct weir_gate *g, uint64_t now_ns)
{
    while (g->resumes.count > 0 && weir_heap_top_key(&g->resumes) <= now_ns)
        gate_tenant_resume(g, weir_heap_top(&g->resumes));
    while (g->wakes.count > 0 && weir_heap_top_key(&g->wakes) <= now_ns)
        gate_pool_dirty(g, weir_heap_pop(&g->wakes));
}

uint64_t weir_gate_due_ns(const struct weir_gate *g)
{
    if (g->dirty_first_1)
        return 0;
    uint64_t due_ns = WEIR_NEVER_NS;
    if (g->deadlines.count > 0)
        due_ns = weir_min_u64(due_ns, weir_heap_top_key(&g->deadlines));
    if (g->resumes.count > 0)
        due_ns = weir_min_u64(due_ns, weir_heap_top_key(&g->resumes));
    if (g->wakes.count > 0)
        due_ns = weir_min_u64(due_ns, weir_heap_top_key(&g->wakes));
    return due_ns;
}

bool weir_gate_expired(struct weir_gate *g, uint64_t now_ns, uint32_t *waiter,
                       struct weir_refused *refused)
{
    if (g->deadlines.count == 0 || weir_heap_top_key(&g->deadlines) > now_ns)
        return false;
    *waiter = weir_heap_pop(&g->deadlines);
    if (g->waiters[*waiter].place == WEIR_GATE_GRANTED) {
        gate_refuse(refused, WEIR_REFUSAL_NONE, 0, WEIR_NONE);
        return true;
    }
    weir_gate_why(g, *waiter, now_ns, refused);
    weir_gate_leave(g, *waiter);
    return true;
}
