/* drr: turns. In a round every tenant has one turn, in which it may send as many requests as its
 * weight.
 *
 * Bound, in requests: a round visits its tenants in the same order every time, so at any moment one
 * of two waiting tenants has had as many turns as the other or, whole or in part, one more. Over
 * any interval in which both wait, their requests per weight differ by at most one turn.
 *
 * A tenant that runs empty gives the rest of its turn up; one that arrives has its turn in this
 * round if the round has not passed it, else in the next. */
#include "core/sched_internal.h"

static void drr_arrive(struct weir_sched *s, uint32_t tenant)
{
    struct sched_tenant *t = sched_tenant(s, tenant);
    if (sched_round_has_passed(&s->round, tenant))
        sched_round_later(&s->round, t, tenant);
    else
        sched_round_due(&s->round, t, tenant);
}

static void drr_leave(struct weir_sched *s, uint32_t tenant)
{
    struct sched_tenant *t = sched_tenant(s, tenant);
    sched_round_out(&s->round, t, tenant);
    t->turns_left = 0;
}

static void drr_head_changed(struct weir_sched *s, uint32_t tenant)
{
    (void)s, (void)tenant;
}

static uint32_t drr_choose(struct weir_sched *s)
{
    uint32_t tenant = sched_round_next(&s->round);
    if (tenant != WEIR_NONE)
        return tenant;
    sched_round_start(&s->round);
    return sched_round_next(&s->round);
}

static void drr_charge(struct weir_sched *s, uint32_t tenant, uint64_t work_uwork)
{
    (void)work_uwork;
    struct sched_tenant *t = sched_tenant(s, tenant);
    sched_round_visit(&s->round, tenant);
    if (t->turns_left == 0)
        t->turns_left = sched_weight(t);
    t->turns_left--;
    if (t->items == 0)
        drr_leave(s, tenant);
    else if (t->turns_left == 0)
        sched_round_later(&s->round, t, tenant);
}

/* The request that was not sent after all is added to the turn: to the one that has begun, to the
 * one that is to come in this round, or, that turn being over, it is made up for now. */
static void drr_put_back(struct weir_sched *s, uint32_t tenant, uint64_t work_uwork, bool in_order)
{
    (void)work_uwork;
    struct sched_tenant *t = sched_tenant(s, tenant);
    if (t->suspended)
        return;
    bool turn_to_come =
        t->turns_left == 0 &&
        (in_order ? sched_round_is_due(&s->round, t) : !sched_round_has_passed(&s->round, tenant));
    t->turns_left += turn_to_come ? sched_weight(t) + 1 : 1;
    sched_round_due(&s->round, t, tenant);
}

static void drr_correct(struct weir_sched *s, uint32_t tenant, int64_t delta_uwork)
{
    (void)s, (void)tenant, (void)delta_uwork; /* requests count alike, whatever they used */
}

static uint64_t drr_level(struct weir_sched *s)
{
    (void)s;
    return 0;
}

static void drr_forget(struct weir_sched *s, uint32_t tenant)
{
    (void)s, (void)tenant;
}

const struct sched_order sched_order_drr = {
    .arrive = drr_arrive,
    .leave = drr_leave,
    .head_changed = drr_head_changed,
    .choose = drr_choose,
    .charge = drr_charge,
    .put_back = drr_put_back,
    .correct = drr_correct,
    .level = drr_level,
    .forget = drr_forget,
};
