/* gate_hint: refusals of the gate and the times told with them.
 *
 * A hint is the earliest time a repeat can succeed, rounded up: a client that waits exactly so long
 * and is alone is admitted. Where it follows from a bucket, a pause or a cool-down it is exact.
 * Where it depends on how long calls of others take it is measured: the longest gap of late between
 * two departures. */
#include "core/gate_private.h"

#define HINT_UNKNOWN_NS WEIR_NS_PER_S /* nothing has been measured yet */
#define HINT_SHORT_NS WEIR_NS_PER_S   /* somebody else's hold is to be settled */
#define HINT_MIN_NS WEIR_NS_PER_MS
#define HINT_QUEUE_MAX_NS (60 * WEIR_NS_PER_S) /* longer ones are not obeyed by clients */

void gate_drain_begin(struct gate_drain *d, uint64_t now_ns)
{
    d->since_ns = now_ns;
    d->last_ns = now_ns;
    d->count = 0;
}

/* Stretches end with a departure and last a second at least, so a steady drain is measured exactly.
 */
void gate_drain_depart(struct gate_drain *d, uint64_t now_ns)
{
    uint64_t gap_ns = weir_sub_sat_u64(now_ns, d->last_ns);
    d->last_ns = weir_max_u64(d->last_ns, now_ns);
    if (gap_ns > 0)
        d->gap_ns = weir_max_u64(gap_ns, d->gap_ns - d->gap_ns / 8);
    d->count++;
    uint64_t stretch_ns = weir_sub_sat_u64(now_ns, d->since_ns);
    if (stretch_ns < WEIR_NS_PER_S)
        return;
    uint64_t rate = weir_muldiv_floor(d->count, UINT64_C(1000000) * WEIR_NS_PER_S, stretch_ns);
    d->rate_micro = d->rate_micro ? (d->rate_micro * 3 + rate) / 4 : rate;
    d->since_ns = now_ns;
    d->count = 0;
}

uint64_t weir_gate_pool_closed_for_ns(const struct weir_gate *g, uint32_t pool, uint64_t now_ns)
{
    const struct gate_pool *p = &g->pools[pool];
    uint64_t least_ns = WEIR_NEVER_NS;
    for (uint32_t i = 0; i < p->rules.upstream_count; i++) {
        const struct weir_breaker *b = &g->upstreams[p->rules.upstreams[i]].breaker;
        uint64_t closed_ns = weir_max_u64(weir_breaker_open_for_ns(b, now_ns),
                                          weir_breaker_paused_for_ns(b, now_ns));
        least_ns = weir_min_u64(least_ns, closed_ns);
    }
    return least_ns;
}

static uint32_t hint_tenants_ready(const struct weir_gate *g, const struct gate_pool *p)
{
    uint32_t tenants = 0;
    for (uint32_t lane = 0; lane < g->limits.lanes.lane_count; lane++)
        tenants += weir_sched_tenants_ready(weir_lanes_sched(p->lanes, lane));
    return tenants;
}

/* Until the next departure from a pool's queue, as far as can be told. */
static uint64_t hint_departure_ns(const struct weir_gate *g, uint32_t pool, uint64_t now_ns)
{
    if (pool == WEIR_NONE || g->pools[pool].waiting == 0)
        return HINT_UNKNOWN_NS;
    const struct gate_drain *d = &g->pools[pool].drain;
    uint64_t gap_ns = d->gap_ns ? d->gap_ns : HINT_UNKNOWN_NS;
    if (weir_heap_has(&g->wakes, pool))
        gap_ns = weir_max_u64(gap_ns, weir_sub_sat_u64(weir_heap_key(&g->wakes, pool), now_ns));
    return weir_add_sat_u64(gap_ns, weir_gate_pool_closed_for_ns(g, pool, now_ns));
}

static uint64_t hint_clamp(uint64_t hint_ns)
{
    return weir_min_u64(weir_max_u64(hint_ns, HINT_MIN_NS), HINT_QUEUE_MAX_NS);
}

enum weir_refusal gate_bounds(const struct weir_gate *g, uint32_t tenant, uint32_t pool,
                              uint32_t bytes, uint64_t now_ns, struct weir_refused *refused)
{
    const struct gate_tenant *t = &g->tenants[tenant];
    if (bytes > g->limits.waiting_bytes_max)
        return gate_refuse(refused, WEIR_REFUSAL_TOO_LARGE, 0, WEIR_NONE);
    uint64_t departure_ns = 0;
    bool is_full = g->waiters_now >= g->limits.waiters_max ||
                   g->waiting_bytes_now > g->limits.waiting_bytes_max - bytes;
    bool is_tenant_full = t->waiting >= t->rules.waiters_max;
    if (!is_full && !is_tenant_full)
        return WEIR_REFUSAL_NONE;
    departure_ns = hint_departure_ns(g, pool, now_ns);
    if (is_full)
        return gate_refuse(refused, WEIR_REFUSAL_QUEUE_FULL, hint_clamp(departure_ns), WEIR_NONE);
    /* One of the tenant's own has to go: when its bucket allows, or when its turn comes around. */
    if (weir_heap_has(&g->resumes, tenant))
        departure_ns = weir_max_u64(departure_ns,
                                    weir_sub_sat_u64(weir_heap_key(&g->resumes, tenant), now_ns));
    else if (pool != WEIR_NONE)
        departure_ns = weir_muldiv_ceil(departure_ns,
                                        weir_max_u64(1, hint_tenants_ready(g, &g->pools[pool])), 1);
    return gate_refuse(refused, WEIR_REFUSAL_TENANT_QUEUE_FULL, hint_clamp(departure_ns),
                       WEIR_NONE);
}

/* The tenant's own waiters in w's lane and pool: they go first. */
static uint64_t foresee_ahead(const struct weir_gate *g, const struct gate_waiter *w)
{
    const struct gate_pool *p = &g->pools[w->pool];
    uint32_t parked_1 = p->parked_1[w->lane];
    uint64_t ahead = weir_sched_tenant_items(weir_lanes_sched(p->lanes, w->lane), w->tenant);
    return ahead + (parked_1 && g->waiters[parked_1 - 1].tenant == w->tenant);
}

static uint64_t foresee_tenant_ns(const struct weir_gate *g, const struct gate_waiter *w,
                                  uint64_t ahead, uint64_t now_ns)
{
    const struct gate_tenant *t = &g->tenants[w->tenant];
    if (!t->requests.is_on && !t->tokens.is_on)
        return 0;
    uint64_t ahead_tok = *gate_waiting_tok(g, w->pool, w->lane, w->tenant);
    uint64_t tok = weir_add_sat_u64(ahead_tok, w->input_tok + w->output_tok);
    return weir_max_u64(gate_limit_wait_ns(&t->requests, gate_cost_utok(ahead + 1), now_ns),
                        gate_limit_wait_ns(&t->tokens, gate_cost_utok(tok), now_ns));
}

/* Until the upstreams' request rates together have let those ahead and this one pass. */
static uint64_t foresee_rate_ns(const struct weir_gate *g, const struct gate_pool *p,
                                uint64_t ahead, uint64_t now_ns)
{
    uint64_t levels_utok = 0, rates_utok = 0;
    if (p->rules.upstream_count == 1)
        return gate_limit_wait_ns(&g->upstreams[p->rules.upstreams[0]].requests,
                                  gate_cost_utok(ahead + 1), now_ns);
    for (uint32_t i = 0; i < p->rules.upstream_count; i++) {
        const struct gate_limit *limit = &g->upstreams[p->rules.upstreams[i]].requests;
        if (!limit->is_on)
            return 0;
        int64_t level_utok = weir_bucket_level_utok(&limit->bucket, now_ns);
        levels_utok = weir_add_sat_u64(levels_utok, (uint64_t)weir_max_i64(level_utok, 0));
        rates_utok = weir_add_sat_u64(rates_utok, limit->bucket.rate_utok_per_s);
    }
    uint64_t missing_utok = weir_sub_sat_u64(gate_cost_utok(ahead + 1), levels_utok);
    return weir_muldiv_ceil(missing_utok, WEIR_NS_PER_S, rates_utok);
}

/* Until the first upstream could take this request, were it alone. */
static uint64_t foresee_upstream_ns(const struct weir_gate *g, const struct gate_waiter *w,
                                    uint64_t now_ns)
{
    const struct gate_pool *p = &g->pools[w->pool];
    uint64_t least_ns = WEIR_NEVER_NS;
    for (uint32_t i = 0; i < p->rules.upstream_count && least_ns > 0; i++) {
        const struct gate_upstream *u = &g->upstreams[p->rules.upstreams[i]];
        uint64_t wait_ns;
        if (gate_upstream_check(u, w, now_ns, &wait_ns) != WEIR_BUCKET_NEVER)
            least_ns = weir_min_u64(least_ns, wait_ns);
    }
    return least_ns;
}

enum weir_refusal gate_foresee(const struct weir_gate *g, const struct gate_waiter *w,
                               uint64_t deadline_ns, uint64_t now_ns, struct weir_refused *refused)
{
    const struct gate_pool *p = &g->pools[w->pool];
    uint64_t patience_ns = weir_sub_sat_u64(deadline_ns, now_ns);
    if (deadline_ns < now_ns)
        return gate_refuse(refused, WEIR_REFUSAL_QUEUE_TIMEOUT, HINT_MIN_NS, WEIR_NONE);
    uint64_t ahead = foresee_ahead(g, w);
    uint64_t tenant_ns = foresee_tenant_ns(g, w, ahead, now_ns);
    if (tenant_ns > patience_ns || (tenant_ns > 0 && g->tenants[w->tenant].rules.refuse_over))
        return gate_refuse(refused, WEIR_REFUSAL_RATE_LIMIT, weir_max_u64(tenant_ns, HINT_MIN_NS),
                           WEIR_NONE);
    uint64_t closed_ns = weir_gate_pool_closed_for_ns(g, w->pool, now_ns);
    if (closed_ns > patience_ns)
        return gate_refuse(refused, WEIR_REFUSAL_UPSTREAM_OPEN, closed_ns, p->rules.upstreams[0]);
    uint64_t upstream_ns =
        weir_max_u64(foresee_rate_ns(g, p, ahead, now_ns), foresee_upstream_ns(g, w, now_ns));
    if (upstream_ns > patience_ns)
        return gate_refuse(refused, WEIR_REFUSAL_QUEUE_TIMEOUT,
                           weir_max_u64(upstream_ns - patience_ns, HINT_MIN_NS), WEIR_NONE);
    return WEIR_REFUSAL_NONE;
}

/* What a newcomer of this tenant would wait, less the patience that was shown. */
static uint64_t why_queue_ns(const struct weir_gate *g, const struct gate_waiter *w,
                             uint64_t now_ns)
{
    const struct gate_pool *p = &g->pools[w->pool];
    uint64_t turns =
        weir_max_u64(1, foresee_ahead(g, w)) * weir_max_u64(1, hint_tenants_ready(g, p));
    uint64_t departure_ns = hint_departure_ns(g, w->pool, now_ns);
    uint64_t expected_ns =
        p->drain.rate_micro
            ? weir_muldiv_ceil(turns, UINT64_C(1000000) * WEIR_NS_PER_S, p->drain.rate_micro)
            : weir_muldiv_ceil(turns, departure_ns, 1);
    uint64_t shown_ns = weir_sub_sat_u64(now_ns, w->queued_ns);
    return hint_clamp(weir_max_u64(weir_sub_sat_u64(expected_ns, shown_ns), departure_ns));
}

void weir_gate_why(const struct weir_gate *g, uint32_t waiter, uint64_t now_ns,
                   struct weir_refused *refused)
{
    const struct gate_waiter *w = &g->waiters[waiter];
    const struct gate_pool *p = &g->pools[w->pool];
    WEIR_INVARIANT(w->place != WEIR_GATE_NONE);
    if (w->place == WEIR_GATE_ASIDE) {
        gate_refuse(refused, WEIR_REFUSAL_BUDGET_BUSY, HINT_SHORT_NS, WEIR_NONE);
        return;
    }
    if (weir_lanes_is_suspended(p->lanes, w->tenant)) {
        /* w itself counts among those ahead, which is its own cost again: enough for a repeat. */
        const struct gate_tenant *t = &g->tenants[w->tenant];
        uint64_t tok = *gate_waiting_tok(g, w->pool, w->lane, w->tenant);
        uint64_t wait_ns = weir_max_u64(
            gate_limit_wait_ns(&t->requests, gate_cost_utok(foresee_ahead(g, w)), now_ns),
            gate_limit_wait_ns(&t->tokens, gate_cost_utok(tok), now_ns));
        gate_refuse(refused, WEIR_REFUSAL_RATE_LIMIT, weir_max_u64(wait_ns, HINT_MIN_NS),
                    WEIR_NONE);
        return;
    }
    uint64_t closed_ns = weir_gate_pool_closed_for_ns(g, w->pool, now_ns);
    if (closed_ns > 0)
        gate_refuse(refused, WEIR_REFUSAL_UPSTREAM_OPEN, closed_ns, p->rules.upstreams[0]);
    else
        gate_refuse(refused, WEIR_REFUSAL_QUEUE_TIMEOUT, why_queue_ns(g, w, now_ns), WEIR_NONE);
}
