/* The rounds of drr and drr-cost: two sets of tenants, changing places. */
#include "core/sched_internal.h"

uint32_t sched_round_next(struct sched_round *r)
{
    uint32_t tenant = weir_bits_next(&r->due, r->place);
    r->place = tenant == WEIR_NONE ? r->due.numbers_max : tenant;
    return tenant;
}

void sched_round_start(struct sched_round *r)
{
    struct weir_bits empty = r->due;
    r->due = r->later;
    r->later = empty;
    r->place = 0;
    r->passed = 0;
}

void sched_round_move(struct sched_round *r, struct sched_tenant *t, uint32_t tenant,
                      uint32_t where)
{
    WEIR_INVARIANT(t->where < SCHED_ASLEEP && where < SCHED_ASLEEP);
    if (t->where == where)
        return;
    if (t->where == SCHED_DUE)
        weir_bits_clear(&r->due, tenant);
    else if (t->where == SCHED_LATER)
        weir_bits_clear(&r->later, tenant);
    t->where = where;
    if (where == SCHED_LATER)
        weir_bits_set(&r->later, tenant);
    if (where != SCHED_DUE)
        return;
    weir_bits_set(&r->due, tenant);
    if (r->place > tenant)
        r->place = tenant;
}
