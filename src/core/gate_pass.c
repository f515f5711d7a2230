/* gate_pass: the step at dispatch, and its undoing. */
#include "core/gate_private.h"

/* What of a pool's upstreams could take a call now, whatever the call costs. */
struct pass_scan {
    uint32_t ready;   /* bit i: rules.upstreams[i] has a permit, a breaker that passes, no pause */
    bool is_all_open; /* every breaker is open */
    uint64_t wake_ns; /* when time alone may change that */
};

static struct pass_scan pass_look(struct weir_gate *g, const struct gate_pool *p, uint64_t now_ns)
{
    struct pass_scan scan = {.is_all_open = true, .wake_ns = WEIR_NEVER_NS};
    for (uint32_t i = 0; i < p->rules.upstream_count; i++) {
        struct gate_upstream *u = &g->upstreams[p->rules.upstreams[i]];
        if (weir_breaker_tick(&u->breaker, now_ns) == WEIR_BREAKER_OPEN) {
            scan.wake_ns = weir_min_u64(scan.wake_ns, u->breaker.open_until_ns);
            continue;
        }
        scan.is_all_open = false;
        if (u->breaker.paused_until_ns > now_ns)
            scan.wake_ns = weir_min_u64(scan.wake_ns, u->breaker.paused_until_ns);
        else if (u->permits_now < u->adapt.limit && weir_breaker_may_pass(&u->breaker, now_ns))
            scan.ready |= UINT32_C(1) << i;
    }
    return scan;
}

/* A half-open upstream first, so that its trials happen; then the lower share of permits in use. */
static bool pass_is_better(const struct gate_upstream *a, const struct gate_upstream *than)
{
    bool is_trial = a->breaker.state == WEIR_BREAKER_HALF_OPEN;
    if (is_trial != (than->breaker.state == WEIR_BREAKER_HALF_OPEN))
        return is_trial;
    return (uint64_t)a->permits_now * than->adapt.limit <
           (uint64_t)than->permits_now * a->adapt.limit;
}

struct pass_pick {
    uint32_t upstream; /* WEIR_NONE: none can take it now */
    bool has_hope;     /* one that is not open could take it later */
    bool ever_fits;    /* some untried one could, were it not open */
    uint64_t wake_ns;  /* when a bucket will be full enough */
};

static struct pass_pick pass_pick_upstream(const struct weir_gate *g, const struct gate_pool *p,
                                           const struct gate_waiter *w,
                                           const struct pass_scan *scan, uint64_t now_ns)
{
    struct pass_pick pick = {.upstream = WEIR_NONE, .wake_ns = WEIR_NEVER_NS};
    for (uint32_t i = 0; i < p->rules.upstream_count; i++) {
        uint32_t upstream = p->rules.upstreams[i];
        const struct gate_upstream *u = &g->upstreams[upstream];
        uint64_t wait_ns;
        if (gate_was_tried(w, upstream))
            continue;
        enum weir_bucket_result fits = gate_upstream_check(u, w, now_ns, &wait_ns);
        if (fits == WEIR_BUCKET_NEVER)
            continue;
        pick.ever_fits = true;
        pick.has_hope |= u->breaker.state != WEIR_BREAKER_OPEN;
        if (!(scan->ready & UINT32_C(1) << i))
            continue;
        if (fits == WEIR_BUCKET_WAIT)
            pick.wake_ns = weir_min_u64(pick.wake_ns, weir_add_sat_u64(now_ns, wait_ns));
        else if (pick.upstream == WEIR_NONE || pass_is_better(u, &g->upstreams[pick.upstream]))
            pick.upstream = upstream;
    }
    return pick;
}

/* The request to go next: what lanes and scheduler choose, but a lane's parked choice stands for
 * its lane. */
static bool pass_choose(struct weir_gate *g, struct gate_pool *p, uint32_t *waiter)
{
    struct weir_lanes_choice choice;
    bool is_chosen = weir_lanes_peek(p->lanes, &choice);
    for (uint32_t lane = 0; lane < g->limits.lanes.lane_count; lane++) {
        if (is_chosen && choice.lane < lane)
            break;
        if (p->parked_1[lane]) {
            *waiter = p->parked_1[lane] - 1;
            return true;
        }
    }
    if (!is_chosen)
        return false;
    WEIR_INVARIANT(choice.item != WEIR_NONE); /* a lane that is held has a parked one: see above */
    *waiter = choice.item;
    return true;
}

static void pass_take(struct weir_gate *g, struct gate_pool *p, uint32_t waiter)
{
    struct weir_lanes_choice taken = weir_lanes_take(p->lanes);
    WEIR_INVARIANT(taken.item == waiter);
    g->waiters[waiter].work_uwork = taken.work_uwork;
}

static void pass_park(struct weir_gate *g, struct gate_pool *p, uint32_t waiter)
{
    struct gate_waiter *w = &g->waiters[waiter];
    WEIR_INVARIANT(p->parked_1[w->lane] == 0);
    weir_lanes_hold(p->lanes, w->lane, true);
    pass_take(g, p, waiter);
    p->parked_1[w->lane] = waiter + 1;
    w->place = WEIR_GATE_PARKED;
}

void gate_unpark(struct weir_gate *g, uint32_t waiter)
{
    struct gate_waiter *w = &g->waiters[waiter];
    struct gate_pool *p = &g->pools[w->pool];
    WEIR_INVARIANT(p->parked_1[w->lane] == waiter + 1);
    p->parked_1[w->lane] = 0;
    weir_lanes_put_back(p->lanes, w->lane, w->tenant, waiter, w->work_uwork);
    weir_lanes_hold(p->lanes, w->lane, false);
    w->place = WEIR_GATE_QUEUED;
}

/* The tenant's own buckets are short: it leaves this pool's order until they have enough. It may
 * have left already: one of its requests in another lane was parked then, and comes to it now. */
static void pass_suspend(struct weir_gate *g, struct gate_pool *p, uint32_t waiter,
                         uint64_t until_ns)
{
    struct gate_waiter *w = &g->waiters[waiter];
    struct gate_tenant *t = &g->tenants[w->tenant];
    if (w->place == WEIR_GATE_PARKED)
        gate_unpark(g, waiter);
    if (!weir_lanes_is_suspended(p->lanes, w->tenant)) {
        weir_lanes_suspend(p->lanes, w->tenant);
        t->suspended++;
    }
    if (!weir_heap_has(&g->resumes, w->tenant))
        weir_heap_push(&g->resumes, w->tenant, until_ns);
    else if (until_ns < weir_heap_key(&g->resumes, w->tenant))
        weir_heap_rekey(&g->resumes, w->tenant, until_ns);
}

static void pass_grant(struct weir_gate *g, struct gate_pool *p, uint32_t waiter, uint32_t upstream,
                       uint64_t now_ns)
{
    struct gate_waiter *w = &g->waiters[waiter];
    struct gate_upstream *u = &g->upstreams[upstream];
    struct gate_tenant *t = &g->tenants[w->tenant];
    if (w->place == WEIR_GATE_PARKED) {
        p->parked_1[w->lane] = 0;
        weir_lanes_hold(p->lanes, w->lane, false);
    } else {
        pass_take(g, p, waiter);
    }
    gate_count_out(g, w);
    gate_wait_end(g, w);
    gate_drain_depart(&p->drain, now_ns);
    gate_tenant_charge(t, w, now_ns);
    gate_upstream_charge(u, w, now_ns);
    w->ticket = weir_breaker_admit(&u->breaker, now_ns);
    w->is_reported = false;
    w->upstream = upstream;
    WEIR_INVARIANT(w->tried_count < WEIR_ATTEMPTS_MAX);
    w->tried[w->tried_count++] = upstream;
    w->place = WEIR_GATE_GRANTED;
    u->permits_now++;
    w->adapt_ticket = u->rules.adapt.min ? weir_adapt_started(&u->adapt, u->permits_now) : 0;
    t->granted++;
    g->granted_now++;
}

/* It can not be served in its pool: on to a fallback's, or out with what is known. */
static void pass_turn_away(struct weir_gate *g, uint32_t waiter, enum weir_refusal reason,
                           uint64_t now_ns, struct weir_gate_event *event)
{
    struct gate_waiter *w = &g->waiters[waiter];
    uint32_t from = w->pool;
    uint32_t to =
        reason == WEIR_REFUSAL_UPSTREAM_OPEN ? gate_find_pool(g, from, w, now_ns) : WEIR_NONE;
    *event = (struct weir_gate_event){.waiter = waiter, .upstream = WEIR_NONE};
    gate_refuse(&event->refused, WEIR_REFUSAL_NONE, 0, WEIR_NONE);
    if (to != WEIR_NONE) {
        if (w->place == WEIR_GATE_PARKED)
            gate_unpark(g, waiter);
        weir_lanes_remove(g->pools[from].lanes, waiter);
        gate_count_out(g, w);
        w->pool = to;
        gate_enqueue(g, waiter, now_ns);
        return;
    }
    uint64_t hint_ns =
        reason == WEIR_REFUSAL_UPSTREAM_OPEN ? weir_gate_pool_closed_for_ns(g, from, now_ns) : 0;
    gate_refuse(&event->refused, reason, hint_ns, g->pools[from].rules.upstreams[0]);
    weir_gate_leave(g, waiter);
}

static void pass_wake_at(struct weir_gate *g, uint32_t pool, uint64_t at_ns)
{
    if (at_ns != WEIR_NEVER_NS)
        weir_heap_push(&g->wakes, pool, at_ns);
}

/* One decision in one pool; false: none can be made now, and its wake is set. */
static bool pass_step(struct weir_gate *g, uint32_t pool, uint64_t now_ns,
                      struct weir_gate_event *event)
{
    struct gate_pool *p = &g->pools[pool];
    uint32_t waiter;
    if (weir_heap_has(&g->wakes, pool))
        weir_heap_remove(&g->wakes, pool);
    if (p->waiting == 0)
        return false;
    weir_lanes_end_slices(p->lanes, now_ns);
    struct pass_scan scan = pass_look(g, p, now_ns);
    if (scan.is_all_open) {
        if (!pass_choose(g, p, &waiter))
            return false; /* those left wait for their own buckets; their turn brings us back */
        pass_turn_away(g, waiter, WEIR_REFUSAL_UPSTREAM_OPEN, now_ns, event);
        return true;
    }
    if (scan.ready == 0) {
        pass_wake_at(g, pool, scan.wake_ns);
        return false;
    }
    uint64_t wake_ns = scan.wake_ns;
    while (pass_choose(g, p, &waiter)) {
        struct gate_waiter *w = &g->waiters[waiter];
        uint64_t wait_ns;
        switch (gate_tenant_check(&g->tenants[w->tenant], w, now_ns, &wait_ns)) {
        case WEIR_BUCKET_OK:
            break;
        case WEIR_BUCKET_WAIT:
            pass_suspend(g, p, waiter, weir_add_sat_u64(now_ns, wait_ns));
            continue;
        case WEIR_BUCKET_NEVER:
            pass_turn_away(g, waiter, WEIR_REFUSAL_TOO_LARGE, now_ns, event);
            return true;
        }
        struct pass_pick pick = pass_pick_upstream(g, p, w, &scan, now_ns);
        if (pick.upstream != WEIR_NONE) {
            pass_grant(g, p, waiter, pick.upstream, now_ns);
            *event = (struct weir_gate_event){
                .waiter = waiter, .granted = true, .upstream = pick.upstream};
            gate_refuse(&event->refused, WEIR_REFUSAL_NONE, 0, WEIR_NONE);
            return true;
        }
        if (!pick.has_hope && (gate_pool_is_open(g, pool, w, now_ns) || !pick.ever_fits)) {
            bool is_open = gate_pool_is_open(g, pool, w, now_ns);
            pass_turn_away(g, waiter, is_open ? WEIR_REFUSAL_UPSTREAM_OPEN : WEIR_REFUSAL_TOO_LARGE,
                           now_ns, event);
            return true;
        }
        wake_ns = weir_min_u64(wake_ns, pick.wake_ns);
        if (w->place == WEIR_GATE_PARKED)
            break; /* it stands for its lane and all below */
        pass_park(g, p, waiter);
    }
    pass_wake_at(g, pool, wake_ns);
    return false;
}

bool weir_gate_next(struct weir_gate *g, uint64_t now_ns, struct weir_gate_event *event)
{
    while (g->dirty_first_1) {
        uint32_t pool = g->dirty_first_1 - 1;
        if (pass_step(g, pool, now_ns, event))
            return true;
        struct gate_pool *p = &g->pools[pool];
        g->dirty_first_1 = p->next_dirty_1;
        if (!g->dirty_first_1)
            g->dirty_last_1 = 0;
        p->is_dirty = false;
        p->next_dirty_1 = 0;
    }
    return false;
}

void weir_gate_started(struct weir_gate *g, uint32_t waiter)
{
    WEIR_INVARIANT(g->waiters[waiter].place == WEIR_GATE_GRANTED);
    if (weir_heap_has(&g->deadlines, waiter))
        weir_heap_remove(&g->deadlines, waiter);
}

static void pass_report(struct weir_gate *g, struct gate_waiter *w,
                        enum weir_breaker_outcome outcome, uint64_t now_ns)
{
    if (w->is_reported)
        return;
    w->is_reported = true;
    if (weir_breaker_report(&g->upstreams[w->upstream].breaker, w->ticket, outcome, now_ns))
        gate_pool_dirty(g, w->pool);
}

void weir_gate_head(struct weir_gate *g, uint32_t waiter, uint32_t status, uint64_t pause_ns,
                    uint64_t now_ns)
{
    struct gate_waiter *w = &g->waiters[waiter];
    WEIR_INVARIANT(w->place == WEIR_GATE_GRANTED);
    if (status == 429) {
        weir_breaker_pause(&g->upstreams[w->upstream].breaker, pause_ns, now_ns);
        gate_pool_dirty(g, w->pool);
    }
    if (w->adapt_ticket && (status == 429 || status >= 500))
        weir_adapt_refused(&g->upstreams[w->upstream].adapt, w->adapt_ticket, now_ns);
    if (!w->ticket.is_trial)
        return;
    /* A trial asks whether the upstream answers: the rest of a long stream adds nothing to that. */
    pass_report(g, w, weir_breaker_outcome_of_status(status), now_ns);
}

bool weir_gate_first_byte(struct weir_gate *g, uint32_t waiter, uint64_t wait_ns, uint64_t now_ns)
{
    struct gate_waiter *w = &g->waiters[waiter];
    WEIR_INVARIANT(w->place == WEIR_GATE_GRANTED);
    struct weir_adapt *adapt = &g->upstreams[w->upstream].adapt;
    uint32_t before = adapt->limit;
    if (w->adapt_ticket && w->input_tok > 0) /* unmetered: its size is not known */
        weir_adapt_first_byte(adapt, w->adapt_ticket, w->input_tok, wait_ns, now_ns);
    if (adapt->limit <= before)
        return false;
    gate_pool_dirty(g, w->pool);
    return true;
}

static void pass_adapt(struct weir_adapt *adapt, const struct gate_waiter *w,
                       const struct weir_gate_used *used, uint64_t now_ns)
{
    if (used->is_late)
        weir_adapt_refused(adapt, w->adapt_ticket, now_ns);
    if (used->outcome != WEIR_BREAKER_UNUSED)
        weir_adapt_ended(adapt, used->answer_ns, used->output_tok);
}

/* What release and requeue have in common. Returns the work that was used. */
static uint64_t pass_give_back(struct weir_gate *g, uint32_t waiter,
                               const struct weir_gate_used *used, uint64_t now_ns)
{
    struct gate_waiter *w = &g->waiters[waiter];
    WEIR_INVARIANT(w->place == WEIR_GATE_GRANTED);
    struct gate_upstream *u = &g->upstreams[w->upstream];
    struct gate_tenant *t = &g->tenants[w->tenant];
    struct gate_pool *p = &g->pools[w->pool];
    weir_lanes_end_slices(p->lanes, now_ns);
    WEIR_INVARIANT(u->permits_now > 0);
    u->permits_now--;
    t->granted--;
    g->granted_now--;
    pass_report(g, w, used->outcome, now_ns);
    if (u->rules.adapt.min)
        pass_adapt(&u->adapt, w, used, now_ns);
    bool has_credit = gate_settle_buckets(t, u, w, used, now_ns);
    if (has_credit && t->suspended > 0)
        gate_tenant_resume(g, w->tenant);
    gate_pool_dirty(g, w->pool);
    if (weir_heap_has(&g->deadlines, waiter))
        weir_heap_remove(&g->deadlines, waiter);
    w->place = WEIR_GATE_NONE;
    if (!used->sent)
        return 0;
    return gate_work_uwork(&p->rules, weir_sub_sat_u64(used->input_tok, used->cached_tok),
                           used->output_tok, w->work_min);
}

void weir_gate_release(struct weir_gate *g, uint32_t waiter, const struct weir_gate_used *used,
                       uint64_t now_ns)
{
    struct gate_waiter *w = &g->waiters[waiter];
    struct weir_lanes *lanes = g->pools[w->pool].lanes;
    uint64_t used_uwork = pass_give_back(g, waiter, used, now_ns);
    if (used->outcome == WEIR_BREAKER_UNUSED) { /* as if it had never been chosen */
        weir_lanes_put_back(lanes, w->lane, w->tenant, waiter, w->work_uwork);
        weir_lanes_remove(lanes, waiter);
        return;
    }
    weir_lanes_correct(lanes, w->lane, w->tenant, (int64_t)used_uwork - (int64_t)w->work_uwork);
}

bool weir_gate_has_target(struct weir_gate *g, uint32_t waiter, uint64_t now_ns)
{
    WEIR_INVARIANT(g->waiters[waiter].place == WEIR_GATE_GRANTED);
    return gate_next_pool(g, &g->waiters[waiter], now_ns) != WEIR_NONE;
}

void weir_gate_requeue(struct weir_gate *g, uint32_t waiter, const struct weir_gate_used *used,
                       uint64_t deadline_ns, uint64_t now_ns)
{
    struct gate_waiter *w = &g->waiters[waiter];
    uint32_t from = w->pool;
    struct weir_lanes *lanes = g->pools[from].lanes;
    uint64_t used_uwork = pass_give_back(g, waiter, used, now_ns);
    uint32_t to = gate_next_pool(g, w, now_ns);
    if (to == WEIR_NONE)
        to = from; /* its breaker opened with this report: dispatch turns it away */
    gate_wait_begin(g, waiter, deadline_ns, now_ns);
    if (to == from) {
        weir_lanes_put_back(lanes, w->lane, w->tenant, waiter, w->work_uwork);
        if (used_uwork > 0)
            weir_lanes_correct(lanes, w->lane, w->tenant, (int64_t)used_uwork);
        gate_count_in(g, waiter, now_ns);
        return;
    }
    weir_lanes_correct(lanes, w->lane, w->tenant, (int64_t)used_uwork - (int64_t)w->work_uwork);
    w->pool = to;
    gate_enqueue(g, waiter, now_ns);
}

void weir_gate_return_aside(struct weir_gate *g, uint32_t waiter, uint64_t deadline_ns,
                            uint64_t now_ns)
{
    struct gate_waiter *w = &g->waiters[waiter];
    weir_gate_release(g, waiter, &(struct weir_gate_used){.outcome = WEIR_BREAKER_UNUSED}, now_ns);
    w->tried_count--;
    gate_wait_begin(g, waiter, deadline_ns, now_ns);
    w->place = WEIR_GATE_ASIDE;
}

enum weir_refusal weir_gate_move(struct weir_gate *g, uint32_t waiter, uint32_t pool,
                                 uint64_t deadline_ns, uint64_t now_ns,
                                 struct weir_refused *refused)
{
    const struct gate_waiter *w = &g->waiters[waiter];
    const struct weir_gate_want want = {.tenant = w->tenant,
                                        .pool = pool,
                                        .lane = w->lane,
                                        .bytes = w->bytes,
                                        .deadline_ns = deadline_ns,
                                        .input_tok = w->input_tok,
                                        .output_tok = w->output_tok,
                                        .predicted_tok = w->predicted_tok,
                                        .work_min = w->work_min};
    if (w->place == WEIR_GATE_GRANTED)
        weir_gate_release(g, waiter, &(struct weir_gate_used){.outcome = WEIR_BREAKER_UNUSED},
                          now_ns);
    else
        weir_gate_leave(g, waiter);
    return weir_gate_admit(g, waiter, &want, now_ns, refused);
}
