/* sched: whose request goes next.
 *
 * Each tenant has a FIFO of waiting items; a scheduler chooses the tenant. Four policies share this
 * one interface:
 *
 *   fifo      the oldest item, whoever sent it: the contrast, and for a single tenant.
 *   drr       turns: a tenant may send `weight` requests a turn; requests count alike.
 *   drr-cost  turns by work: a turn is worth weight x the running mean cost; a tenant is served
 *             while it has any of it left, what it overdraws it owes (surplus round robin).
 *   vtc       virtual counters: the tenant that has had the least work for its weight goes next.
 *
 * What holds under drr, drr-cost and vtc, on every prefix of every stretch in which tenants stay
 * backlogged: their work per weight differs by no more than a constant (docs/fairness.md). An idle
 * tenant earns no credit: on its return it stands level with the least served of those who wait.
 * Debt outlives idleness. Something is always chosen while any tenant that is not suspended has an
 * item.
 *
 * A *suspended* tenant (its own rate bucket is short) keeps its FIFO but is not backlogged: it is
 * never chosen and holds nobody up; its return counts as an arrival.
 *
 * An item is an index that the host gives (its waiter id). The array of items is the host's and may
 * be shared by several schedulers, an item being in at most one of them at a time. Costs are
 * micro-work (uwork), clamped to 1 .. WEIR_SCHED_WORK_MAX_UWORK. All-zero memory is a valid start
 * and is not touched before it is used, so room for a million tenants costs nothing until they
 * come.
 *
 * Cost of a call: O(1) under drr and drr-cost, whatever the costs of items; O(log tenants waiting)
 * under fifo and vtc. Thread: loop. No allocation. */
#ifndef WEIR_CORE_SCHED_H
#define WEIR_CORE_SCHED_H

#include <stddef.h>
#include <stdint.h>

#include "core/base.h"
#include "core/num.h"

#define WEIR_SCHED_WEIGHT_MAX 1000u
#define WEIR_SCHED_WORK_MAX_UWORK (INT64_C(1) << 52)

enum weir_sched_policy {
    WEIR_SCHED_FIFO,
    WEIR_SCHED_DRR,
    WEIR_SCHED_DRR_COST,
    WEIR_SCHED_VTC,
};

struct weir_sched_limits {
    uint32_t tenants_max; /* tenants are 0 .. tenants_max - 1 */
    uint32_t items_max;   /* items are 0 .. items_max - 1 */
};

/* One waiting item. The host gives an array of them, all zero at first, and does not look inside.
 */
struct weir_sched_item {
    uint64_t work_uwork;
    uint64_t order;  /* fifo: the arrival's number */
    uint32_t next;   /* 1 + index of the item behind it in its tenant's FIFO; 0 = none */
    uint32_t prev;   /* and before it */
    uint32_t tenant; /* 1 + index; 0 = in no queue */
    uint32_t lane;   /* of weir_lanes */
};

struct weir_sched_choice {
    uint32_t tenant;
    uint32_t item;
    uint64_t work_uwork; /* what take charges */
};

struct weir_sched;

/* Bytes that a scheduler needs, under any policy. */
size_t weir_sched_bytes(struct weir_sched_limits limits);

/* Starts a scheduler in memory that the host keeps: mem is zero, at least weir_sched_bytes(limits)
 * long, aligned as malloc aligns. items has items_max elements. */
struct weir_sched *weir_sched_init(void *mem, size_t bytes, struct weir_sched_limits limits,
                                   enum weir_sched_policy policy, struct weir_sched_item *items);

/* A tenant's share, 1 .. WEIR_SCHED_WEIGHT_MAX; 1 when never set. Holds for what is charged from
 * now on. */
void weir_sched_set_weight(struct weir_sched *s, uint32_t tenant, uint32_t weight);

/* Puts an item that is in no queue behind its tenant's others. */
void weir_sched_enqueue(struct weir_sched *s, uint32_t tenant, uint32_t item, uint64_t work_uwork);

/* Takes a waiting item out, wherever it stands in its FIFO; nothing is charged. The item is waiting
 * in s. */
void weir_sched_remove(struct weir_sched *s, uint32_t item);

/* The item to dispatch next. The answer stays the same until another function of this header is
 * called with s. False: no tenant that is not suspended has an item. */
WEIR_MUST_USE bool weir_sched_peek(struct weir_sched *s, struct weir_sched_choice *choice);

/* Takes out what weir_sched_peek chooses and charges its work to its tenant. There is one to
 * choose. */
struct weir_sched_choice weir_sched_take(struct weir_sched *s);

/* Undoes a take: the item stands at the head of its tenant's FIFO again and its charge is taken
 * back. Of several, put back the last taken first. work_uwork is what take said. */
void weir_sched_put_back(struct weir_sched *s, uint32_t tenant, uint32_t item, uint64_t work_uwork);

/* Corrects what take charged by what was really used: delta = used - charged, once, when it is
 * known. Also for an idle tenant: a debt stays; a refund never makes credit for time spent idle,
 * nor does it take a tenant below the place it had when it last came. Without effect under fifo and
 * drr. */
void weir_sched_correct(struct weir_sched *s, uint32_t tenant, int64_t delta_uwork);

/* A tenant leaves the order, its FIFO kept; and comes back. Both do nothing when it is so already.
 */
void weir_sched_suspend(struct weir_sched *s, uint32_t tenant);
void weir_sched_resume(struct weir_sched *s, uint32_t tenant);
bool weir_sched_is_suspended(const struct weir_sched *s, uint32_t tenant);

/* Items waiting, suspended tenants' included; items of tenants in the order; tenants in the order.
 */
uint32_t weir_sched_items(const struct weir_sched *s);
uint32_t weir_sched_items_ready(const struct weir_sched *s);
uint32_t weir_sched_tenants_ready(const struct weir_sched *s);

/* The quantum of the present round, per weight: drr-cost's; 0 under the others. */
uint64_t weir_sched_quantum_uwork(const struct weir_sched *s);

/* One tenant: its waiting items; its oldest item (WEIR_NONE when none); the work it owes, that is
 * by how much it is ahead of an arrival of now, 0 when not. */
uint32_t weir_sched_tenant_items(const struct weir_sched *s, uint32_t tenant);
uint32_t weir_sched_tenant_head(const struct weir_sched *s, uint32_t tenant);
uint64_t weir_sched_tenant_debt_uwork(struct weir_sched *s, uint32_t tenant);

/* The item behind this one in its tenant's FIFO, WEIR_NONE at the end: to walk a FIFO from its
 * head. */
uint32_t weir_sched_item_next(const struct weir_sched *s, uint32_t item);

/* Whether forgetting a tenant would lose something: items, a suspension, or a debt. */
bool weir_sched_tenant_matters(struct weir_sched *s, uint32_t tenant);

/* Makes a tenant's place as new (weight 1), for another tenant to use. It has no items. The host
 * sees to it that no correction for the old tenant comes afterwards. */
void weir_sched_tenant_forget(struct weir_sched *s, uint32_t tenant);

const char *weir_sched_policy_name(enum weir_sched_policy policy);

#endif
