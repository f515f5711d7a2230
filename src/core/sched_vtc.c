/* vtc: virtual token counters (Sheng et al., OSDI 2024, arXiv 2401.00588). The tenant with the
 * smallest counter goes next and its counter grows by the work it is given.
 *
 * The two cases of the lift, when a tenant arrives: if others wait, it is lifted to the smallest
 * counter among them; if nobody waits, to the counter of the tenant that left last. Lifted, never
 * lowered: time spent idle is no credit, and a debt is kept.
 *
 * Bound, with exact estimates. Let L be the largest work of an item over its tenant's weight, and F
 * the largest counter at which anybody was taken so far. Whoever waits has F at least: so had those
 * who waited then, and those who came later were lifted to one who had; and nobody has more than
 * F + L. The work per weight of two tenants over any interval in which both wait is the change of
 * the difference of their counters: it differs by at most 2 L. docs/bounds.md has what corrections
 * add, and what this says of work as it is delivered. */
#include "core/sched_internal.h"

static uint64_t vtc_level(struct weir_sched *s)
{
    if (s->heap.count > 0)
        return weir_heap_top_key(&s->heap);
    return s->last ? weir_max_u64(s->floor, sched_tenant(s, s->last - 1)->counter) : s->floor;
}

static void join(struct weir_sched *s, uint32_t tenant, uint64_t level)
{
    struct sched_tenant *t = sched_tenant(s, tenant);
    sched_counter_lift(t, level);
    weir_heap_push(&s->heap, tenant, t->counter);
}

static void vtc_arrive(struct weir_sched *s, uint32_t tenant)
{
    join(s, tenant, vtc_level(s));
}

/* A tenant that leaves without having been served was not served up to its counter: `last` and
 * `floor` stay, or cancelling would wipe out its debt for those who come next. */
static void vtc_leave(struct weir_sched *s, uint32_t tenant)
{
    weir_heap_remove(&s->heap, tenant);
}

static void vtc_head_changed(struct weir_sched *s, uint32_t tenant)
{
    (void)s, (void)tenant;
}

static uint32_t vtc_choose(struct weir_sched *s)
{
    return weir_heap_top(&s->heap);
}

/* Cost: O(tenants waiting), once in 2^61 micro-work per weight. */
static void vtc_end_era(struct weir_sched *s)
{
    weir_heap_rebase(&s->heap, SCHED_ERA);
    s->floor = weir_sub_sat_u64(s->floor, SCHED_ERA);
    s->eras++;
}

static void vtc_charge(struct weir_sched *s, uint32_t tenant, uint64_t work_uwork)
{
    if (weir_heap_top_key(&s->heap) >= 2 * SCHED_ERA)
        vtc_end_era(s);
    struct sched_tenant *t = sched_tenant(s, tenant);
    WEIR_CHECK_SLOW(t->counter == weir_heap_key(&s->heap, tenant));
    s->floor = weir_max_u64(s->floor, t->counter);
    s->last = 0;
    sched_counter_add(t, work_uwork, t->counter);
    if (t->items > 0) {
        weir_heap_rekey(&s->heap, tenant, t->counter);
        return;
    }
    weir_heap_remove(&s->heap, tenant);
    if (s->heap.count == 0)
        s->last = tenant + 1;
}

static void vtc_put_back(struct weir_sched *s, uint32_t tenant, uint64_t work_uwork, bool in_order)
{
    struct sched_tenant *t = sched_tenant(s, tenant);
    sched_counter_sub(t, work_uwork);
    if (in_order)
        weir_heap_rekey(&s->heap, tenant, t->counter);
    else if (!t->suspended) /* it had not left, so it is lifted only past what was served since */
        join(s, tenant, s->heap.count > 0 ? weir_min_u64(s->floor, vtc_level(s)) : s->floor);
}

static void vtc_correct(struct weir_sched *s, uint32_t tenant, int64_t delta_uwork)
{
    struct sched_tenant *t = sched_tenant(s, tenant);
    if (delta_uwork >= 0)
        sched_counter_add(t, (uint64_t)delta_uwork, vtc_level(s));
    else
        sched_counter_sub(t, weir_abs_i64(delta_uwork));
    if (weir_heap_has(&s->heap, tenant))
        weir_heap_rekey(&s->heap, tenant, t->counter);
}

static void vtc_forget(struct weir_sched *s, uint32_t tenant)
{
    if (s->last != tenant + 1)
        return;
    s->floor = weir_max_u64(s->floor, sched_tenant(s, tenant)->counter);
    s->last = 0;
}

const struct sched_order sched_order_vtc = {
    .arrive = vtc_arrive,
    .leave = vtc_leave,
    .head_changed = vtc_head_changed,
    .choose = vtc_choose,
    .charge = vtc_charge,
    .put_back = vtc_put_back,
    .correct = vtc_correct,
    .level = vtc_level,
    .forget = vtc_forget,
};
