/* fifo: the tenants by the arrival of their oldest item, so that the oldest of all is on top. A
 * heap of tenants and not one list of items: a suspended tenant leaves, and comes back to its
 * items' old places, in one step. */
#include "core/sched_internal.h"

static uint64_t head_order(const struct weir_sched *s, uint32_t tenant)
{
    return s->items[s->tenants[tenant].head - 1].order;
}

static void fifo_arrive(struct weir_sched *s, uint32_t tenant)
{
    weir_heap_push(&s->heap, tenant, head_order(s, tenant));
}

static void fifo_leave(struct weir_sched *s, uint32_t tenant)
{
    weir_heap_remove(&s->heap, tenant);
}

static void fifo_head_changed(struct weir_sched *s, uint32_t tenant)
{
    weir_heap_rekey(&s->heap, tenant, head_order(s, tenant));
}

static uint32_t fifo_choose(struct weir_sched *s)
{
    return weir_heap_top(&s->heap);
}

static void fifo_charge(struct weir_sched *s, uint32_t tenant, uint64_t work_uwork)
{
    (void)work_uwork;
    if (s->tenants[tenant].items == 0)
        fifo_leave(s, tenant);
    else
        fifo_head_changed(s, tenant);
}

static void fifo_put_back(struct weir_sched *s, uint32_t tenant, uint64_t work_uwork, bool in_order)
{
    (void)work_uwork;
    if (in_order)
        fifo_head_changed(s, tenant);
    else if (!s->tenants[tenant].suspended)
        fifo_arrive(s, tenant);
}

static void fifo_correct(struct weir_sched *s, uint32_t tenant, int64_t delta_uwork)
{
    (void)s, (void)tenant, (void)delta_uwork;
}

static uint64_t fifo_level(struct weir_sched *s)
{
    (void)s;
    return 0;
}

static void fifo_forget(struct weir_sched *s, uint32_t tenant)
{
    (void)s, (void)tenant;
}

const struct sched_order sched_order_fifo = {
    .arrive = fifo_arrive,
    .leave = fifo_leave,
    .head_changed = fifo_head_changed,
    .choose = fifo_choose,
    .charge = fifo_charge,
    .put_back = fifo_put_back,
    .correct = fifo_correct,
    .level = fifo_level,
    .forget = fifo_forget,
};
