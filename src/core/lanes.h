/* lanes: priority classes in front of the tenants' order.
 *
 * Up to eight lanes, each with a scheduler of its own inside. Lane 0 goes first, then lane 1, and
 * so on: a lane is served when every lane above it is empty. So that the upper ones cannot starve
 * the rest, a lane may have a *floor*: a percentage of all work dispatched while it has waiters. A
 * lane that is behind its floor by one item as large as its largest is served next, the one
 * furthest behind first. A lane earns nothing while it is empty, and what it got beyond its floor
 * is not held against it later.
 *
 * Over any stretch in which lane k has waiters it therefore gets at least floor_k of the dispatched
 * work, less (2 + 1/2 + ... + 1/m) of the largest item of any lane, m being the number of lanes
 * with a floor (docs/bounds.md).
 *
 * A tenant may wait in several lanes; its weight and its suspension hold in all of them. Thread:
 * loop. */
#ifndef WEIR_CORE_LANES_H
#define WEIR_CORE_LANES_H

#include <stddef.h>
#include <stdint.h>

#include "core/base.h"
#include "core/gap.h"
#include "core/sched.h"

#define WEIR_LANES_MAX 8u

struct weir_lane_config {
    enum weir_sched_policy policy;
    uint32_t floor_percent; /* 0 = none */
};

struct weir_lanes_limits {
    uint32_t lanes; /* 1 .. WEIR_LANES_MAX */
    uint32_t tenants_max;
    uint32_t items_max;
};

struct weir_lanes_choice {
    uint32_t lane;
    uint32_t tenant;
    uint32_t item;
    uint64_t work_uwork;
};

struct weir_lanes;

/* Whether a configuration can be kept: 1 .. 8 lanes, floors that add up to at most 100. */
WEIR_MUST_USE bool weir_lanes_config_ok(const struct weir_lane_config *config, uint32_t lanes);

size_t weir_lanes_bytes(struct weir_lanes_limits limits);

/* As weir_sched_init: mem is zero and the host's, items has items_max elements. config has
 * limits.lanes elements, is copied, and is one that weir_lanes_config_ok accepts. */
struct weir_lanes *weir_lanes_init(void *mem, size_t bytes, struct weir_lanes_limits limits,
                                   const struct weir_lane_config *config,
                                   struct weir_sched_item *items);

/* These mirror core/sched.h, which describes them; a lane is 0 .. lanes - 1. An item that is put
 * back has been in no queue since it was taken. A correction concerns the tenants of its lane:
 * floors count work as it was dispatched, or refunds of a lane that had more than its floor would
 * lift it above the upper ones. */
void weir_lanes_set_weight(struct weir_lanes *l, uint32_t tenant, uint32_t weight);
void weir_lanes_enqueue(struct weir_lanes *l, uint32_t lane, uint32_t tenant, uint32_t item,
                        uint64_t work_uwork);
void weir_lanes_remove(struct weir_lanes *l, uint32_t item);
/* A lane that is held and has nobody else may be chosen for its floor: its item is WEIR_NONE then,
 * and there is nothing to take. */
WEIR_MUST_USE bool weir_lanes_peek(struct weir_lanes *l, struct weir_lanes_choice *choice);
struct weir_lanes_choice weir_lanes_take(struct weir_lanes *l);
void weir_lanes_put_back(struct weir_lanes *l, uint32_t lane, uint32_t tenant, uint32_t item,
                         uint64_t work_uwork);
void weir_lanes_correct(struct weir_lanes *l, uint32_t lane, uint32_t tenant, int64_t delta_uwork);
void weir_lanes_suspend(struct weir_lanes *l, uint32_t tenant);
void weir_lanes_resume(struct weir_lanes *l, uint32_t tenant);
bool weir_lanes_is_suspended(const struct weir_lanes *l, uint32_t tenant);
bool weir_lanes_tenant_matters(struct weir_lanes *l, uint32_t tenant);
void weir_lanes_tenant_forget(struct weir_lanes *l, uint32_t tenant);

/* A lane is held from before an item of it is taken that is not dispatched yet, until it is, or is
 * put back: it counts as having a waiter, so that its floor is kept for that item, too. */
void weir_lanes_hold(struct weir_lanes *l, uint32_t lane, bool is_held);

/* In all lanes: items waiting, suspended tenants' included; items of tenants in the order; one
 * tenant's. */
uint32_t weir_lanes_items(const struct weir_lanes *l);
uint32_t weir_lanes_items_ready(const struct weir_lanes *l);
uint32_t weir_lanes_tenant_items(const struct weir_lanes *l, uint32_t tenant);

/* The lane an item waits in. */
uint32_t weir_lanes_item_lane(const struct weir_lanes *l, uint32_t item);

/* One lane's scheduler, to read: counts, debts, heads of FIFOs. */
const struct weir_sched *weir_lanes_sched(const struct weir_lanes *l, uint32_t lane);

/* From now on gap, the host's, hears all that happens. Before anything has. */
void weir_lanes_set_gap(struct weir_lanes *l, struct weir_gap *gap);
/* Call it before what happens at now_ns: the slices of the gap that are over end. */
void weir_lanes_end_slices(struct weir_lanes *l, uint64_t now_ns);

/* By how much a lane is behind its floor now, in micro-work. */
uint64_t weir_lanes_behind_uwork(const struct weir_lanes *l, uint32_t lane);

#endif
