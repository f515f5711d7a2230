/* The rounds of drr and drr-cost: two sets of tenants, changing places. */
#include "core/sched_internal.h"

uint32_t sched_round_next(struct sched_round *r)
{
    const struct weir_bits *due = &r->set[r->due];
    uint32_t tenant = weir_bits_next(due, r->place);
    r->place = tenant == WEIR_NONE ? due->numbers_max : tenant;
    return tenant;
}

void sched_round_start(struct sched_round *r)
{
    r->due = !r->due;
    r->place = 0;
    r->passed = 0;
}

void sched_round_out(struct sched_round *r, struct sched_tenant *t, uint32_t tenant)
{
    WEIR_INVARIANT(t->where < SCHED_ASLEEP);
    if (t->where != SCHED_OUT)
        weir_bits_clear(&r->set[t->where - SCHED_IN_SET], tenant);
    t->where = SCHED_OUT;
}

static void move_to(struct sched_round *r, struct sched_tenant *t, uint32_t tenant, uint32_t set)
{
    if (t->where == SCHED_IN_SET + set)
        return;
    sched_round_out(r, t, tenant);
    weir_bits_set(&r->set[set], tenant);
    t->where = SCHED_IN_SET + set;
}

void sched_round_due(struct sched_round *r, struct sched_tenant *t, uint32_t tenant)
{
    move_to(r, t, tenant, r->due);
    if (r->place > tenant)
        r->place = tenant;
}

void sched_round_later(struct sched_round *r, struct sched_tenant *t, uint32_t tenant)
{
    move_to(r, t, tenant, !r->due);
}
