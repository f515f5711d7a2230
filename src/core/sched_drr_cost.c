/* drr-cost: turns by work, as surplus round robin. Every round grants each tenant a quantum of work
 * per weight, the running mean cost of an item. A tenant is served in its turn while its deficit
 * (granted less charged) is positive; the last item may overdraw it, and what it owes comes off
 * later turns.
 *
 * Instead of adding the quantum to every tenant, one number says what has been granted per weight
 * so far, and a tenant's counter what was charged: deficit = (granted - counter) x weight. So no
 * work is done for tenants that cannot be served yet: one whose debt is larger than the next
 * quantum *sleeps* in a wheel keyed by its counter and is woken by the round whose grant passes it.
 * When all sleep, as many rounds are granted at once as the first of them needs. Every tenant is
 * touched once a visit that serves it and at most once a level of the wheel on its way there: O(1),
 * whatever items cost.
 *
 * Bound, with exact estimates. Let M be the largest work of an item over its tenant's weight, Q the
 * largest quantum in use. A tenant that waits and has been visited in a round has a counter of
 * granted .. granted + M; one that has not, the same of what was granted up to the round before.
 * Tenants are visited in the same order in every round. The work per weight of two tenants that
 * wait all through an interval thus differs by at most 2 M + Q. docs/bounds.md has what corrections
 * add. */
#include "core/sched_internal.h"

#define DIGIT_BITS 6u

static uint64_t quantum(const struct weir_sched *s)
{
    return weir_max_u64(1, s->mean_x64 / 64);
}

/* The wheel: a sleeper's list is chosen by the highest digit (of 6 bits) in which its counter
 * differs from `now`, and by that digit. All lists of the lower levels therefore come before all of
 * the higher. */

static void sleepers_add(struct weir_sched *s, struct sched_tenant *t, uint32_t tenant)
{
    struct sched_sleepers *w = &s->sleepers;
    WEIR_INVARIANT(t->counter >= w->now);
    uint64_t differs = t->counter ^ w->now;
    uint32_t level = differs ? weir_log2_floor_u64(differs) / DIGIT_BITS : 0;
    uint32_t digit = (uint32_t)(t->counter >> (level * DIGIT_BITS)) % 64;
    uint32_t *first = &w->first[level * 64 + digit];
    w->filled[level] |= UINT64_C(1) << digit;
    t->where = SCHED_ASLEEP + level * 64 + digit;
    t->next = *first;
    t->prev = 0;
    if (*first)
        s->tenants[*first - 1].prev = tenant + 1;
    *first = tenant + 1;
}

static void sleepers_remove(struct weir_sched *s, struct sched_tenant *t)
{
    struct sched_sleepers *w = &s->sleepers;
    uint32_t list = t->where - SCHED_ASLEEP;
    *(t->prev ? &s->tenants[t->prev - 1].next : &w->first[list]) = t->next;
    if (t->next)
        s->tenants[t->next - 1].prev = t->prev;
    if (w->first[list] == 0)
        w->filled[list / 64] &= ~(UINT64_C(1) << (list % 64));
    t->where = SCHED_OUT;
}

/* No sleeper's counter is below this. There is a sleeper. */
static uint64_t sleepers_first(const struct sched_sleepers *w)
{
    uint32_t level = 0;
    while (w->filled[level] == 0)
        level++;
    uint32_t shift = level * DIGIT_BITS;
    uint64_t digit = (uint64_t)__builtin_ctzll(w->filled[level]);
    return ((w->now >> shift >> DIGIT_BITS) << DIGIT_BITS | digit) << shift;
}

/* Takes whole lists of one level apart: who can be served now is due, the others sleep nearer. */
static void sleepers_sort(struct weir_sched *s, uint32_t level, uint64_t digits)
{
    struct sched_sleepers *w = &s->sleepers;
    digits &= w->filled[level];
    w->filled[level] &= ~digits;
    for (; digits != 0; digits &= digits - 1) {
        uint32_t *first = &w->first[level * 64 + (uint32_t)__builtin_ctzll(digits)];
        uint32_t link = *first;
        *first = 0;
        while (link) {
            uint32_t tenant = link - 1;
            struct sched_tenant *t = sched_tenant(s, tenant);
            link = t->next;
            t->where = SCHED_OUT;
            if (t->counter < s->granted)
                sched_round_due(&s->round, t, tenant);
            else
                sleepers_add(s, t, tenant);
        }
    }
}

/* Moves the wheel up to what is granted now. */
static void sleepers_advance(struct weir_sched *s)
{
    struct sched_sleepers *w = &s->sleepers;
    uint64_t differs = w->now ^ s->granted;
    if (differs == 0)
        return;
    w->now = s->granted;
    uint32_t top = weir_log2_floor_u64(differs) / DIGIT_BITS;
    for (uint32_t level = 0; level < top; level++)
        sleepers_sort(s, level, UINT64_MAX);
    uint32_t digit = (uint32_t)(s->granted >> (top * DIGIT_BITS)) % 64;
    sleepers_sort(s, top, (UINT64_C(2) << digit) - 1);
}

/* An era is a multiple of the weight of the highest digit, so that only sleepers of the highest
 * level would change their lists. There are none: `now` has just moved into the highest digit that
 * the largest debt from below it can reach. */
static void end_era(struct weir_sched *s)
{
    _Static_assert(SCHED_LEAD_MAX == UINT64_C(1) << (SCHED_SLEEP_LEVELS - 1) * DIGIT_BITS,
                   "the largest debt is one step of the highest digit");
    _Static_assert(SCHED_ERA % SCHED_LEAD_MAX == 0, "an era moves no digit but the highest");
    WEIR_INVARIANT(s->sleepers.filled[SCHED_SLEEP_LEVELS - 1] == 0);
    s->eras++;
    s->granted -= SCHED_ERA;
    s->granted_prev -= SCHED_ERA;
    s->granted_next -= SCHED_ERA;
    s->sleepers.now -= SCHED_ERA;
}

/* A tenant in the order whose turn in this round is over, or not to come. */
static void wait_for_grant(struct weir_sched *s, struct sched_tenant *t, uint32_t tenant)
{
    if (t->counter < s->granted_next) {
        sched_round_later(&s->round, t, tenant);
        return;
    }
    sched_round_out(&s->round, t, tenant);
    sleepers_add(s, t, tenant);
}

static void take_out(struct weir_sched *s, struct sched_tenant *t, uint32_t tenant)
{
    if (t->where >= SCHED_ASLEEP)
        sleepers_remove(s, t);
    sched_round_out(&s->round, t, tenant);
}

static void start_round(struct weir_sched *s)
{
    uint64_t q = s->granted_next - s->granted;
    if (!sched_round_has_later(&s->round)) {
        /* All sleep: the rounds in which nobody could be served are granted in one step. */
        uint64_t first = sleepers_first(&s->sleepers);
        if (first >= s->granted_next) {
            q = quantum(s);
            s->granted_next += ((first - s->granted_next) / q + 1) * q;
        }
    }
    s->granted = s->granted_next;
    s->granted_prev = s->granted - q;
    s->granted_next = s->granted + quantum(s);
    sched_round_start(&s->round);
    sleepers_advance(s);
    if (s->granted >= 2 * SCHED_ERA)
        end_era(s);
}

static void cost_arrive(struct weir_sched *s, uint32_t tenant)
{
    struct sched_tenant *t = sched_tenant(s, tenant);
    if (s->mean_x64 == 0) {
        s->mean_x64 = sched_head_work(s, t) * 64;
        s->granted_next = s->granted + quantum(s);
    }
    /* Level with those that the round has passed, or with those that it has not. */
    bool passed = sched_round_has_passed(&s->round, tenant);
    sched_counter_lift(t, passed ? s->granted : s->granted_prev);
    if (t->counter < s->granted)
        sched_round_due(&s->round, t, tenant);
    else
        wait_for_grant(s, t, tenant);
}

static void cost_leave(struct weir_sched *s, uint32_t tenant)
{
    take_out(s, sched_tenant(s, tenant), tenant);
}

static void cost_head_changed(struct weir_sched *s, uint32_t tenant)
{
    (void)s, (void)tenant;
}

static uint32_t cost_choose(struct weir_sched *s)
{
    for (;;) {
        uint32_t tenant = sched_round_next(&s->round);
        if (tenant == WEIR_NONE) {
            start_round(s);
            continue;
        }
        struct sched_tenant *t = sched_tenant(s, tenant);
        if (t->counter < s->granted)
            return tenant;
        /* A correction has used its turn up. */
        sched_round_visit(&s->round, tenant);
        wait_for_grant(s, t, tenant);
    }
}

static void cost_charge(struct weir_sched *s, uint32_t tenant, uint64_t work_uwork)
{
    struct sched_tenant *t = sched_tenant(s, tenant);
    sched_round_visit(&s->round, tenant);
    s->mean_x64 = s->mean_x64 - s->mean_x64 / 64 + work_uwork;
    sched_counter_add(t, work_uwork, s->granted);
    if (t->items == 0)
        sched_round_out(&s->round, t, tenant);
    else if (t->counter >= s->granted)
        wait_for_grant(s, t, tenant);
}

static void cost_put_back(struct weir_sched *s, uint32_t tenant, uint64_t work_uwork, bool in_order)
{
    struct sched_tenant *t = sched_tenant(s, tenant);
    sched_counter_sub(t, work_uwork);
    if (t->suspended)
        return;
    take_out(s, t, tenant);
    /* Back from idleness it stands as one that comes; its turn being over, it may have this item
     * served in that, but nothing beyond. */
    bool passed = sched_round_has_passed(&s->round, tenant);
    if (!in_order)
        sched_counter_lift(t, passed ? weir_sub_sat_u64(s->granted, 1) : s->granted_prev);
    if (t->counter < s->granted)
        sched_round_due(&s->round, t, tenant);
    else
        wait_for_grant(s, t, tenant);
}

static void cost_correct(struct weir_sched *s, uint32_t tenant, int64_t delta_uwork)
{
    struct sched_tenant *t = sched_tenant(s, tenant);
    bool asleep = t->where >= SCHED_ASLEEP;
    if (asleep)
        sleepers_remove(s, t);
    if (delta_uwork >= 0)
        sched_counter_add(t, (uint64_t)delta_uwork, s->granted);
    else
        sched_counter_sub(t, weir_abs_i64(delta_uwork));
    if (asleep)
        wait_for_grant(s, t, tenant);
}

static uint64_t cost_level(struct weir_sched *s)
{
    return s->granted;
}

static void cost_forget(struct weir_sched *s, uint32_t tenant)
{
    (void)s, (void)tenant;
}

const struct sched_order sched_order_drr_cost = {
    .arrive = cost_arrive,
    .leave = cost_leave,
    .head_changed = cost_head_changed,
    .choose = cost_choose,
    .charge = cost_charge,
    .put_back = cost_put_back,
    .correct = cost_correct,
    .level = cost_level,
    .forget = cost_forget,
};
