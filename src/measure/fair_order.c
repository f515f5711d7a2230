#include "measure/fair_order.h"

#include <stdlib.h>

static enum weir_sched_policy core_policy(enum weir_fair_policy policy)
{
    switch (policy) {
    case WEIR_FAIR_VTC:
        return WEIR_SCHED_VTC;
    case WEIR_FAIR_DRR_COST:
        return WEIR_SCHED_DRR_COST;
    case WEIR_FAIR_DRR:
        return WEIR_SCHED_DRR;
    case WEIR_FAIR_FIFO:
    case WEIR_FAIR_DRR_RESTARTING:
        break;
    }
    return WEIR_SCHED_FIFO;
}

bool fair_order_init(struct fair_order *o, const struct weir_fair_plan *plan)
{
    struct weir_sched_limits limits = {plan->tenants_count, plan->items_count};
    size_t bytes = weir_sched_bytes(limits);
    *o = (struct fair_order){.plan = plan};
    if (plan->policy == WEIR_FAIR_DRR_RESTARTING) {
        o->restarting.next = calloc(plan->items_count, sizeof *o->restarting.next);
        return o->restarting.next != NULL;
    }
    o->sched_memory = calloc(1, bytes);
    o->sched_items = calloc(plan->items_count, sizeof *o->sched_items);
    if (!o->sched_memory || !o->sched_items)
        return false;
    o->sched =
        weir_sched_init(o->sched_memory, bytes, limits, core_policy(plan->policy), o->sched_items);
    for (uint32_t i = 0; i < plan->tenants_count; i++)
        weir_sched_set_weight(o->sched, i, plan->weights[i]);
    return true;
}

void fair_order_free(struct fair_order *o)
{
    free(o->sched_memory);
    free(o->sched_items);
    free(o->restarting.next);
}

void fair_order_enqueue(struct fair_order *o, uint32_t item)
{
    uint32_t tenant = o->plan->items[item].tenant;
    o->waiting[tenant]++;
    o->waiting_all++;
    if (o->sched) {
        weir_sched_enqueue(o->sched, tenant, item, o->plan->items[item].estimate_uwork);
        return;
    }
    struct fair_restarting *r = &o->restarting;
    r->next[item] = 0;
    *(r->last[tenant] ? &r->next[r->last[tenant] - 1] : &r->first[tenant]) = item + 1;
    r->last[tenant] = item + 1;
}

/* The mistake is that every call begins at 0: a tenant that is passed is given its weight as
 * credit, which is at least one request, so the first that has one waiting is served, as long as it
 * has. */
static uint32_t restarting_take(struct fair_order *o)
{
    struct fair_restarting *r = &o->restarting;
    uint32_t tenant = 0;
    while (o->waiting[tenant] == 0)
        tenant++;
    uint32_t item = r->first[tenant] - 1;
    r->first[tenant] = r->next[item];
    if (r->first[tenant] == 0)
        r->last[tenant] = 0;
    return item;
}

uint32_t fair_order_take(struct fair_order *o)
{
    WEIR_INVARIANT(o->waiting_all > 0);
    uint32_t item = o->sched ? weir_sched_take(o->sched).item : restarting_take(o);
    o->waiting[o->plan->items[item].tenant]--;
    o->waiting_all--;
    return item;
}

void fair_order_correct(struct fair_order *o, uint32_t item, int64_t delta_uwork)
{
    if (o->sched)
        weir_sched_correct(o->sched, o->plan->items[item].tenant, delta_uwork);
}
