#include "core/gate_model.h"

#include <stdio.h>
#include <string.h>

#include "core/gate.h"
#include "core/num.h"
#include "core/sched_judge.h"

#define TENANTS 5
#define SLOTS 40
#define POOLS 2
#define UPSTREAMS 4
#define LANES 3
#define ARRIVALS_FROM (UINT32_C(1) << 30) /* those that come back go first: below */
#define TICK_NS (10 * WEIR_NS_PER_MS)

typedef __int128 i128;

/* A bucket with exact contents: billionths of a micro-token. */
struct fund {
    bool is_on;
    i128 level, capacity;
    uint64_t rate, at_ns;
};

struct waiter {
    enum weir_gate_place place;
    struct weir_gate_want want;
    uint32_t lane, upstream;
    uint64_t work_uwork;
    uint64_t main_tok; /* GRANTED: charged to the upstream's bucket */
    uint32_t tried;    /* upstreams that were called for it, a bit each: not again */
    uint32_t behind;   /* position in the order of arrival of its tenant: smaller goes first */
    bool is_stale;     /* GRANTED: its tenant has come anew in its lane since */
};

struct upstream {
    struct weir_upstream_rules rules;
    uint32_t pool, in_use;
    struct fund requests, tokens;
    uint64_t paused_until_ns;
};

struct tenant {
    struct weir_tenant_rules rules;
    struct fund requests, tokens;
    bool uses_little; /* unless the case is exact: its answers are far shorter than predicted */
};

struct model {
    struct tape *t;
    struct weir_gate *g;
    uint64_t now_ns;
    uint32_t pools, upstreams, lanes, arrivals, returns;
    uint32_t floor_percent[LANES];
    bool is_exact, has_trouble; /* trouble: calls that end with a 429, or unused */
    struct upstream upstream[UPSTREAMS];
    struct tenant tenant[TENANTS];
    struct waiter waiter[SLOTS];
    struct sched_judge judge[POOLS][LANES];
};

static void fund_open(struct fund *f, const struct weir_rate *rate, uint64_t now_ns)
{
    *f = (struct fund){.is_on = rate->rate_micro_per_s > 0,
                       .capacity = (i128)rate->capacity * 1000000 * WEIR_NS_PER_S,
                       .rate = rate->rate_micro_per_s,
                       .at_ns = now_ns};
    f->level = f->capacity;
}

static i128 fund_level(const struct fund *f, uint64_t now_ns)
{
    i128 level = f->level + (i128)(now_ns - f->at_ns) * f->rate;
    return level < f->capacity ? level : f->capacity;
}

static bool fund_has(const struct fund *f, uint64_t tok, uint64_t now_ns)
{
    return !f->is_on || fund_level(f, now_ns) >= (i128)tok * 1000000 * WEIR_NS_PER_S;
}

static void fund_add(struct fund *f, int64_t tok, uint64_t now_ns)
{
    i128 level = fund_level(f, now_ns) + (i128)tok * 1000000 * WEIR_NS_PER_S;
    f->level = level < f->capacity ? level : f->capacity;
    f->at_ns = now_ns;
}

static uint64_t tenant_tok(const struct waiter *w)
{
    return w->want.input_tok + w->want.output_tok;
}

static uint64_t upstream_tok(const struct upstream *u, const struct waiter *w)
{
    return u->rules.accounting == WEIR_ACCOUNTING_OPENAI
               ? weir_max_u64(w->want.input_tok, w->want.output_tok)
               : tenant_tok(w);
}

static bool waits_in_order(const struct waiter *w)
{
    return w->place == WEIR_GATE_QUEUED || w->place == WEIR_GATE_PARKED;
}

static bool waits(const struct waiter *w)
{
    return waits_in_order(w) || w->place == WEIR_GATE_ASIDE;
}

/* What is parked was first when it was chosen, and stays so. */
static bool goes_before(const struct waiter *w, const struct waiter *other)
{
    if (w->place != other->place)
        return w->place == WEIR_GATE_PARKED;
    return w->behind < other->behind;
}

/* The first of a tenant in a lane of a pool; NULL when none waits. */
static const struct waiter *head_of(const struct model *m, uint32_t pool, uint32_t lane,
                                    uint32_t tenant)
{
    const struct waiter *first = NULL;
    for (uint32_t i = 0; i < SLOTS; i++) {
        const struct waiter *w = &m->waiter[i];
        if (waits_in_order(w) && w->want.pool == pool && w->lane == lane &&
            w->want.tenant == tenant && (!first || goes_before(w, first)))
            first = w;
    }
    return first;
}

static bool tenant_can_pay(const struct model *m, const struct waiter *w, uint64_t now_ns)
{
    const struct tenant *t = &m->tenant[w->want.tenant];
    return fund_has(&t->requests, 1, now_ns) && fund_has(&t->tokens, tenant_tok(w), now_ns);
}

/* Some first request of the tenant is more than its buckets hold: it may be out of the order. */
static bool is_short(const struct model *m, uint32_t tenant, uint64_t now_ns)
{
    for (uint32_t pool = 0; pool < m->pools; pool++)
        for (uint32_t lane = 0; lane < m->lanes; lane++) {
            const struct waiter *head = head_of(m, pool, lane, tenant);
            if (head && !tenant_can_pay(m, head, now_ns))
                return true;
        }
    return false;
}

static bool upstream_takes(const struct model *m, uint32_t upstream, const struct waiter *w,
                           uint64_t now_ns)
{
    const struct upstream *u = &m->upstream[upstream];
    return u->pool == w->want.pool && !(w->tried >> upstream & 1) && u->in_use < u->rules.permits &&
           u->paused_until_ns <= now_ns && fund_has(&u->requests, 1, now_ns) &&
           fund_has(&u->tokens, upstream_tok(u, w), now_ns);
}

static bool some_upstream_takes(const struct model *m, const struct waiter *w, uint64_t now_ns)
{
    for (uint32_t i = 0; i < m->upstreams; i++)
        if (upstream_takes(m, i, w, now_ns))
            return true;
    return false;
}

static const struct waiter *parked_in(const struct model *m, uint32_t pool, uint32_t lane)
{
    const struct waiter *parked = NULL;
    for (uint32_t i = 0; i < SLOTS; i++) {
        const struct waiter *w = &m->waiter[i];
        if (w->place != WEIR_GATE_PARKED || w->want.pool != pool || w->lane != lane)
            continue;
        TAPE_CHECK(m->t, !parked);
        parked = w;
    }
    return parked;
}

static void check_lane_rests(const struct model *m, uint32_t pool, uint32_t lane, uint64_t now_ns)
{
    const struct waiter *parked = parked_in(m, pool, lane);
    if (parked)
        TAPE_CHECK_MSG(
            m->t, !some_upstream_takes(m, parked, now_ns) || !tenant_can_pay(m, parked, now_ns),
            "%u, parked in lane %u, could go", (uint32_t)(parked - m->waiter), lane);
    for (uint32_t tenant = 0; tenant < TENANTS && !parked; tenant++) {
        const struct waiter *head = head_of(m, pool, lane, tenant);
        if (head && !is_short(m, tenant, now_ns))
            TAPE_CHECK_MSG(m->t, !some_upstream_takes(m, head, now_ns),
                           "%u of tenant %u could go in lane %u", (uint32_t)(head - m->waiter),
                           tenant, lane);
    }
}

/* Below this lane a request is parked, and its lane, or one further below that has waiters, may be
 * behind its floor: then that lane is due before the higher ones, and what is parked, which stands
 * for it, is waited for. */
static bool lower_lane_may_be_due(const struct model *m, uint32_t pool, uint32_t lane)
{
    bool is_parked[LANES] = {false}, is_queued[LANES] = {false}, is_below_parked = false;
    for (uint32_t i = 0; i < SLOTS; i++) {
        const struct waiter *w = &m->waiter[i];
        if (waits_in_order(w) && w->want.pool == pool)
            *(w->place == WEIR_GATE_PARKED ? &is_parked[w->lane] : &is_queued[w->lane]) = true;
    }
    for (uint32_t lower = lane + 1; lower < m->lanes; lower++) {
        is_below_parked |= is_parked[lower];
        if (is_below_parked && m->floor_percent[lower] > 0 &&
            (is_parked[lower] || is_queued[lower]))
            return true;
    }
    return false;
}

/* What is parked stands for the lanes below. */
static void check_work_conserved(const struct model *m, uint64_t now_ns)
{
    for (uint32_t pool = 0; pool < m->pools; pool++)
        for (uint32_t lane = 0; lane < m->lanes; lane++) {
            if (!lower_lane_may_be_due(m, pool, lane))
                check_lane_rests(m, pool, lane, now_ns);
            if (parked_in(m, pool, lane))
                break;
        }
}

static void judge_lane(struct model *m, uint32_t pool, uint32_t lane)
{
    struct sched_judge *j = &m->judge[pool][lane];
    bool is_ready[TENANTS] = {false}, is_free[TENANTS] = {false};
    for (uint32_t i = 0; i < SLOTS; i++) {
        const struct waiter *w = &m->waiter[i];
        if (w->place == WEIR_GATE_QUEUED && w->want.pool == pool && w->lane == lane)
            is_ready[w->want.tenant] = true;
    }
    for (uint32_t tenant = 0; tenant < TENANTS; tenant++) {
        is_ready[tenant] = is_ready[tenant] && !is_short(m, tenant, m->now_ns);
        for (uint32_t i = 0; i < SLOTS && is_ready[tenant] && !j->is_ready[tenant]; i++)
            if (m->waiter[i].want.tenant == tenant)
                m->waiter[i].is_stale = true;
    }
    sched_judge_look(j, m->t, is_ready, is_free);
}

static void judge_all(struct model *m)
{
    for (uint32_t pool = 0; pool < m->pools; pool++)
        for (uint32_t lane = 0; lane < m->lanes; lane++)
            judge_lane(m, pool, lane);
}

static void check_grant_is_next(const struct model *m, const struct waiter *w)
{
    TAPE_CHECK(m->t, waits_in_order(w));
    TAPE_CHECK(m->t, w->want.deadline_ns > m->now_ns);
    TAPE_CHECK(m->t, head_of(m, w->want.pool, w->lane, w->want.tenant) == w);
    for (uint32_t i = 0; i < SLOTS; i++) {
        const struct waiter *other = &m->waiter[i];
        TAPE_CHECK_MSG(m->t,
                       other == w || other->place != WEIR_GATE_PARKED ||
                           other->want.pool != w->want.pool || other->lane > w->lane ||
                           !tenant_can_pay(m, other, m->now_ns),
                       "%u, parked in lane %u, was overtaken in lane %u", i, other->lane, w->lane);
    }
}

static void on_grant(struct model *m, uint32_t waiter, uint32_t upstream)
{
    struct waiter *w = &m->waiter[waiter];
    struct upstream *u = &m->upstream[upstream];
    struct tenant *t = &m->tenant[w->want.tenant];
    check_grant_is_next(m, w);
    TAPE_CHECK(m->t, tenant_can_pay(m, w, m->now_ns));
    TAPE_CHECK(m->t, upstream_takes(m, upstream, w, m->now_ns));
    for (uint32_t i = 0; i < m->upstreams; i++)
        TAPE_CHECK(m->t, !upstream_takes(m, i, w, m->now_ns) ||
                             u->in_use * m->upstream[i].rules.permits <=
                                 m->upstream[i].in_use * u->rules.permits);
    u->in_use++;
    w->place = WEIR_GATE_GRANTED;
    w->upstream = upstream;
    w->tried |= 1u << upstream;
    w->main_tok = upstream_tok(u, w);
    w->is_stale = false;
    fund_add(&t->requests, -1, m->now_ns);
    fund_add(&t->tokens, -(int64_t)tenant_tok(w), m->now_ns);
    fund_add(&u->requests, -1, m->now_ns);
    fund_add(&u->tokens, -(int64_t)w->main_tok, m->now_ns);
    sched_judge_taken(&m->judge[w->want.pool][w->lane], w->want.tenant, w->work_uwork);
    weir_gate_started(m->g, waiter);
}

/* Which waiters are parked is the gate's to say; that they stay first in their lane is checked. A
 * parked request was charged and may be put back: the bounds know it as one more that was. */
static void look_at_parked(struct model *m)
{
    for (uint32_t i = 0; i < SLOTS; i++) {
        struct waiter *w = &m->waiter[i];
        if (!waits_in_order(w))
            continue;
        struct sched_judge *j = &m->judge[w->want.pool][w->lane];
        bool was_parked = w->place == WEIR_GATE_PARKED;
        w->place = weir_gate_place(m->g, i);
        TAPE_CHECK(m->t, waits_in_order(w));
        if (was_parked && w->place == WEIR_GATE_QUEUED) /* at the head of its FIFO again */
            w->behind = ARRIVALS_FROM - ++m->returns;
        if (w->place != WEIR_GATE_PARKED)
            continue;
        j->error = weir_max_u64(j->error, w->work_uwork / j->weight[w->want.tenant] + 1);
        j->in_flight_most = j->in_flight_most > j->in_flight ? j->in_flight_most : j->in_flight + 1;
    }
}

/* As a host does after every event. late_ns: how late it may be for a deadline. */
static void pump(struct model *m, uint64_t late_ns)
{
    uint32_t waiter;
    struct weir_refused refused;
    struct weir_gate_event event;
    weir_gate_tick(m->g, m->now_ns);
    while (weir_gate_expired(m->g, m->now_ns, &waiter, &refused)) {
        struct waiter *w = &m->waiter[waiter];
        TAPE_CHECK(m->t, waits(w));
        TAPE_CHECK(m->t, refused.reason != WEIR_REFUSAL_NONE);
        TAPE_CHECK(m->t, w->want.deadline_ns <= m->now_ns);
        TAPE_CHECK_MSG(m->t, m->now_ns - w->want.deadline_ns <= late_ns, "%llu ns late",
                       (unsigned long long)(m->now_ns - w->want.deadline_ns));
        w->place = WEIR_GATE_NONE;
    }
    judge_all(m);
    while (weir_gate_next(m->g, m->now_ns, &event)) {
        TAPE_CHECK(m->t, event.granted);
        on_grant(m, event.waiter, event.upstream);
        look_at_parked(m);
        judge_all(m);
    }
    look_at_parked(m);
    judge_all(m);
    for (uint32_t i = 0; i < SLOTS; i++) {
        TAPE_CHECK(m->t, weir_gate_place(m->g, i) == m->waiter[i].place);
        TAPE_CHECK(m->t, !waits(&m->waiter[i]) || m->waiter[i].want.deadline_ns > m->now_ns);
    }
    check_work_conserved(m, m->now_ns);
    weir_gate_audit(m->g);
}

static struct weir_gate_want draw_want(struct model *m, uint32_t tenant)
{
    struct weir_gate_want want = {
        .tenant = tenant,
        .pool = (uint32_t)tape_below(m->t, m->pools),
        .lane = tape_chance(m->t, 1, 4) ? (uint32_t)tape_below(m->t, m->lanes) : WEIR_NONE,
        .bytes = 1,
        .deadline_ns =
            m->now_ns + (tape_chance(m->t, 1, 4) ? 1 + tape_below(m->t, 2 * WEIR_NS_PER_S)
                                                 : 1000 * WEIR_NS_PER_S),
        .input_tok = 1 + tape_below(m->t, 100),
        .output_tok = 1 + tape_below(m->t, 100),
        .work_min = 1};
    want.predicted_tok = m->is_exact ? want.output_tok : 1 + want.output_tok / 2;
    return want;
}

static void do_arrive(struct model *m, const struct weir_gate_want *want)
{
    uint32_t slot = 0;
    while (slot < SLOTS && m->waiter[slot].place != WEIR_GATE_NONE)
        slot++;
    if (slot == SLOTS)
        return;
    struct waiter *w = &m->waiter[slot];
    w->want = *want;
    w->lane = m->tenant[want->tenant].rules.lane;
    if (want->lane != WEIR_NONE && want->lane > w->lane)
        w->lane = want->lane;
    w->work_uwork = (want->input_tok + 2 * want->predicted_tok) * (uint64_t)WEIR_UWORK_PER_WORK;
    w->behind = ARRIVALS_FROM + m->arrivals++;
    w->tried = 0;
    struct weir_refused refused;
    if (weir_gate_admit(m->g, slot, want, m->now_ns, &refused) != WEIR_REFUSAL_NONE)
        return;
    struct sched_judge *j = &m->judge[want->pool][w->lane];
    j->quantum_largest = weir_max_u64(j->quantum_largest, w->work_uwork);
    w->place = WEIR_GATE_QUEUED;
}

/* The first of the slots, from a drawn one on, that is in one of two places. */
static uint32_t draw_waiter(struct model *m, enum weir_gate_place a, enum weir_gate_place b)
{
    uint32_t from = (uint32_t)tape_below(m->t, SLOTS);
    for (uint32_t i = 0; i < SLOTS; i++) {
        uint32_t slot = (from + i) % SLOTS;
        if (m->waiter[slot].place == a || m->waiter[slot].place == b)
            return slot;
    }
    return WEIR_NONE;
}

static void do_leave(struct model *m)
{
    uint32_t slot = draw_waiter(m, WEIR_GATE_QUEUED, WEIR_GATE_PARKED);
    if (slot == WEIR_NONE)
        return;
    weir_gate_leave(m->g, slot);
    m->waiter[slot].place = WEIR_GATE_NONE;
}

static void do_aside(struct model *m)
{
    uint32_t slot = draw_waiter(m, WEIR_GATE_QUEUED, WEIR_GATE_ASIDE);
    if (slot == WEIR_NONE)
        return;
    struct waiter *w = &m->waiter[slot];
    if (w->place == WEIR_GATE_QUEUED) {
        weir_gate_set_aside(m->g, slot);
        w->place = WEIR_GATE_ASIDE;
    } else {
        weir_gate_rejoin(m->g, slot, m->now_ns);
        w->place = WEIR_GATE_QUEUED;
        w->behind = ARRIVALS_FROM + m->arrivals++;
    }
}

static void end_unused(struct model *m, struct waiter *w)
{
    fund_add(&m->tenant[w->want.tenant].requests, 1, m->now_ns);
    fund_add(&m->tenant[w->want.tenant].tokens, (int64_t)tenant_tok(w), m->now_ns);
    fund_add(&m->upstream[w->upstream].requests, 1, m->now_ns);
    fund_add(&m->upstream[w->upstream].tokens, (int64_t)w->main_tok, m->now_ns);
    sched_judge_put_back(&m->judge[w->want.pool][w->lane], w->want.tenant, w->work_uwork, true);
}

static void end_used(struct model *m, struct waiter *w, const struct weir_gate_used *used)
{
    struct upstream *u = &m->upstream[w->upstream];
    uint64_t tok = used->input_tok + used->output_tok;
    uint64_t main_tok =
        u->rules.accounting == WEIR_ACCOUNTING_OPENAI ? weir_max_u64(w->main_tok, tok) : tok;
    fund_add(&m->tenant[w->want.tenant].tokens, (int64_t)tenant_tok(w) - (int64_t)tok, m->now_ns);
    fund_add(&u->tokens, (int64_t)w->main_tok - (int64_t)main_tok, m->now_ns);
    uint64_t work = (used->input_tok + 2 * used->output_tok) * (uint64_t)WEIR_UWORK_PER_WORK;
    sched_judge_ended(&m->judge[w->want.pool][w->lane], w->want.tenant, w->work_uwork, work,
                      w->is_stale);
}

/* Its call failed before anything was sent: another upstream, at the head of its tenant's FIFO. */
static void do_try_another(struct model *m, uint32_t slot)
{
    struct waiter *w = &m->waiter[slot];
    const struct weir_gate_used used = {.outcome = WEIR_BREAKER_FAILURE};
    bool is_left = false;
    for (uint32_t i = 0; i < m->upstreams; i++)
        is_left |= m->upstream[i].pool == w->want.pool && !(w->tried >> i & 1);
    is_left &= (uint32_t)__builtin_popcount(w->tried) < WEIR_ATTEMPTS_MAX;
    TAPE_CHECK(m->t, weir_gate_has_target(m->g, slot, m->now_ns) == is_left);
    if (!is_left)
        return;
    w->want.deadline_ns = m->now_ns + 1000 * WEIR_NS_PER_S;
    weir_gate_requeue(m->g, slot, &used, w->want.deadline_ns, m->now_ns);
    m->upstream[w->upstream].in_use--;
    end_unused(m, w);
    w->place = WEIR_GATE_QUEUED;
    w->behind = ARRIVALS_FROM - ++m->returns;
}

static void do_end(struct model *m)
{
    uint32_t slot = draw_waiter(m, WEIR_GATE_GRANTED, WEIR_GATE_GRANTED);
    if (slot == WEIR_NONE)
        return;
    struct waiter *w = &m->waiter[slot];
    struct upstream *u = &m->upstream[w->upstream];
    struct weir_gate_used used = {.sent = true,
                                  .outcome = WEIR_BREAKER_SUCCESS,
                                  .input_tok = w->want.input_tok,
                                  .output_tok = w->want.output_tok};
    uint64_t how = tape_below(m->t, 16);
    if (how == 13 && m->has_trouble) {
        do_try_another(m, slot);
        return;
    }
    if (how == 15 && m->has_trouble) {
        uint64_t pause_ns = tape_below(m->t, 20) * WEIR_NS_PER_S;
        weir_gate_head(m->g, slot, 429, pause_ns, m->now_ns);
        pause_ns = weir_max_u64(pause_ns, WEIR_BREAKER_PAUSE_MIN_NS);
        u->paused_until_ns = weir_max_u64(u->paused_until_ns, m->now_ns + pause_ns);
    }
    u->in_use--;
    w->place = WEIR_GATE_NONE;
    if (how == 14 && m->has_trouble)
        used = (struct weir_gate_used){.outcome = WEIR_BREAKER_UNUSED};
    else if (how > 0 && !m->is_exact)
        used.output_tok = m->tenant[w->want.tenant].uses_little
                              ? tape_below(m->t, 2)
                              : tape_below(m->t, 2 * w->want.output_tok);
    weir_gate_release(m->g, slot, &used, m->now_ns);
    if (used.sent)
        end_used(m, w, &used);
    else
        end_unused(m, w);
}

static uint32_t waiters_of(const struct model *m, uint32_t tenant)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < SLOTS; i++)
        count += m->waiter[i].want.tenant == tenant && waits_in_order(&m->waiter[i]);
    return count;
}

/* A stretch in which three tenants have requests waiting, each of one kind. */
static void do_steady(struct model *m)
{
    struct weir_gate_want want[3];
    for (uint32_t tenant = 0; tenant < WEIR_COUNT(want); tenant++)
        want[tenant] = draw_want(m, tenant);
    for (uint64_t times = tape_below(m->t, 256); times > 0; times--) {
        for (uint32_t tenant = 0; tenant < WEIR_COUNT(want); tenant++)
            if (waiters_of(m, tenant) < 3)
                do_arrive(m, &want[tenant]);
        pump(m, 0);
        do_end(m);
        pump(m, 0);
    }
}

static void do_pass_time(struct model *m)
{
    bool has_tick = tape_chance(m->t, 1, 3);
    uint64_t until_ns = m->now_ns + (tape_below(m->t, UINT64_C(1) << 24) << tape_below(m->t, 10));
    while (m->now_ns < until_ns) {
        uint64_t due_ns = weir_gate_due_ns(m->g);
        TAPE_CHECK(m->t, due_ns > m->now_ns); /* nothing is left over */
        uint64_t next_ns = weir_min_u64(due_ns, until_ns);
        if (!has_tick)
            check_work_conserved(m, next_ns - 1);
        else
            next_ns = (next_ns + TICK_NS - 1) / TICK_NS * TICK_NS;
        m->now_ns = next_ns;
        pump(m, has_tick ? TICK_NS - 1 : 0);
    }
}

/* A tenant with nothing here is replaced by another in its place. */
static void do_replace(struct model *m, uint32_t tenant)
{
    struct tenant *t = &m->tenant[tenant];
    bool is_here = false;
    for (uint32_t i = 0; i < SLOTS; i++)
        is_here |= m->waiter[i].want.tenant == tenant && m->waiter[i].place != WEIR_GATE_NONE;
    TAPE_CHECK(m->t, weir_gate_tenant_forget(m->g, tenant) == !is_here);
    if (is_here)
        return;
    fund_open(&t->requests, &t->rules.requests, m->now_ns);
    fund_open(&t->tokens, &t->rules.tokens, m->now_ns);
    weir_gate_tenant_set(m->g, tenant, &t->rules, m->now_ns);
    for (uint32_t pool = 0; pool < m->pools; pool++)
        for (uint32_t lane = 0; lane < m->lanes; lane++)
            sched_judge_weight(&m->judge[pool][lane], tenant, t->rules.weight);
}

static struct weir_rate draw_rate(struct tape *t, uint64_t capacity_min)
{
    if (!tape_chance(t, 1, 3))
        return (struct weir_rate){0};
    return (struct weir_rate){.rate_micro_per_s = 1 + tape_below(t, UINT64_C(1) << 28),
                              .capacity = capacity_min + tape_below(t, 200)};
}

static void draw_upstreams(struct model *m)
{
    for (uint32_t pool = 0; pool < m->pools; pool++) {
        struct weir_pool_rules rules = {.policy = (enum weir_sched_policy)tape_below(m->t, 4),
                                        .upstream_count =
                                            pool == 0 ? 1 + (uint32_t)tape_below(m->t, 3) : 1,
                                        .work_input = 1,
                                        .work_output = 2};
        for (uint32_t i = 0; i < rules.upstream_count; i++) {
            struct upstream *u = &m->upstream[m->upstreams];
            u->pool = pool;
            u->rules = (struct weir_upstream_rules){.permits = 1 + (uint32_t)tape_below(m->t, 3),
                                                    .requests = draw_rate(m->t, 1),
                                                    .tokens = draw_rate(m->t, 200),
                                                    .accounting =
                                                        (enum weir_accounting)tape_below(m->t, 2),
                                                    .breaker = {.window_s = 1, .trials = 1},
                                                    .fallback = WEIR_NONE};
            fund_open(&u->requests, &u->rules.requests, m->now_ns);
            fund_open(&u->tokens, &u->rules.tokens, m->now_ns);
            weir_gate_upstream_set(m->g, m->upstreams, &u->rules, m->now_ns);
            rules.upstreams[i] = m->upstreams++;
        }
        weir_gate_pool_set(m->g, pool, &rules);
        for (uint32_t lane = 0; lane < m->lanes; lane++)
            sched_judge_init(&m->judge[pool][lane], rules.policy, TENANTS);
    }
}

static void draw_tenants(struct model *m)
{
    static const uint32_t weights[] = {1, 1, 2, 5};
    for (uint32_t i = 0; i < TENANTS; i++) {
        struct tenant *t = &m->tenant[i];
        t->rules =
            (struct weir_tenant_rules){.weight = weights[tape_below(m->t, WEIR_COUNT(weights))],
                                       .lane = (uint32_t)tape_below(m->t, m->lanes),
                                       .waiters_max = SLOTS};
        t->uses_little = tape_chance(m->t, 1, 2);
        t->rules.requests = draw_rate(m->t, 1);
        t->rules.tokens = draw_rate(m->t, 200);
        fund_open(&t->requests, &t->rules.requests, m->now_ns);
        fund_open(&t->tokens, &t->rules.tokens, m->now_ns);
        weir_gate_tenant_set(m->g, i, &t->rules, m->now_ns);
        for (uint32_t pool = 0; pool < m->pools; pool++)
            for (uint32_t lane = 0; lane < m->lanes; lane++)
                sched_judge_weight(&m->judge[pool][lane], i, t->rules.weight);
    }
}

static void draw_setting(struct model *m)
{
    static const uint32_t floors[][LANES] = {{0, 20, 5}, {0, 0, 0}, {10, 40, 50}};
    m->now_ns = TICK_NS;
    m->pools = 1 + (uint32_t)tape_chance(m->t, 1, 3);
    m->lanes = 1 + (uint32_t)tape_below(m->t, LANES);
    m->is_exact = tape_chance(m->t, 1, 3);
    m->has_trouble = tape_chance(m->t, 1, 2);
    struct weir_gate_limits limits = {.tenants_max = TENANTS,
                                      .slots_max = SLOTS,
                                      .waiters_max = SLOTS,
                                      .waiting_bytes_max = 1 << 20,
                                      .pool_count = m->pools,
                                      .upstream_count = UPSTREAMS,
                                      .lanes.lane_count = m->lanes};
    memcpy(m->floor_percent, floors[tape_below(m->t, WEIR_COUNT(floors))], sizeof floors[0]);
    memcpy(limits.lanes.floor_percent, m->floor_percent, sizeof m->floor_percent);
    size_t bytes = weir_gate_bytes(&limits);
    unsigned char *mem = tape_alloc(m->t, bytes + 64);
    mem += (64 - (uintptr_t)mem % 64) % 64;
    m->g = weir_gate_init(mem, bytes, &limits);
    draw_upstreams(m);
    draw_tenants(m);
}

void gate_model_holds(struct tape *t)
{
    struct model *m = tape_alloc(t, sizeof *m);
    m->t = t;
    draw_setting(m);
    pump(m, 0);
    while (tape_more(t)) {
        uint64_t deed = tape_below(t, 64);
        if (deed < 28) {
            struct weir_gate_want want = draw_want(m, (uint32_t)tape_below(t, TENANTS));
            do_arrive(m, &want);
        } else if (deed < 47) {
            do_end(m);
        } else if (deed < 49) {
            do_leave(m);
        } else if (deed < 51) {
            do_aside(m);
        } else if (deed < 54) {
            do_steady(m);
        } else if (deed < 55) {
            do_replace(m, (uint32_t)tape_below(t, TENANTS));
        } else {
            do_pass_time(m);
        }
        pump(m, 0);
    }
}
