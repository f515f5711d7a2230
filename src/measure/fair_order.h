/* fair_order: whose request goes next, under any policy of fair.h: a scheduler of core/sched, or
 * the classroom dispatcher. */
#ifndef WEIR_MEASURE_FAIR_ORDER_H
#define WEIR_MEASURE_FAIR_ORDER_H

#include "core/sched.h"
#include "measure/fair.h"

struct fair_restarting {
    uint32_t first[WEIR_FAIR_TENANTS_MAX], last[WEIR_FAIR_TENANTS_MAX]; /* 1 + item; 0: none */
    uint32_t *next;                                                     /* of each item */
};

struct fair_order {
    const struct weir_fair_plan *plan;
    uint32_t waiting[WEIR_FAIR_TENANTS_MAX]; /* requests of each tenant */
    uint32_t waiting_all;
    struct weir_sched *sched; /* NULL: restarting is used */
    void *sched_memory;
    struct weir_sched_item *sched_items;
    struct fair_restarting restarting;
};

/* false: out of memory; free it all the same. The plan stays the caller's. */
WEIR_MUST_USE bool fair_order_init(struct fair_order *o, const struct weir_fair_plan *plan);
void fair_order_free(struct fair_order *o);

void fair_order_enqueue(struct fair_order *o, uint32_t item);

/* The item to dispatch, charged with its estimate. One is waiting. */
uint32_t fair_order_take(struct fair_order *o);

/* An item that was taken has ended: used less estimated. */
void fair_order_correct(struct fair_order *o, uint32_t item, int64_t delta_uwork);

#endif
