/* gap: how far apart the tenants really are, measured beside the scheduler.
 *
 * For each lane of a pool it hears what weir_lanes is told and what it answers: who begins to wait
 * and who stops, what is charged at a dispatch, taken back, corrected, and the weights. It never
 * looks at a scheduler's counters, so it can convict a scheduler. Time is cut into *slices* of one
 * second; a *window* is the last 1, 10 or 60 whole slices. Tenants that were backlogged all through
 * a window are compared: the largest difference of their work per weight is its *gap*. A tenant is
 * backlogged while it has a request in the lane's queue and is not suspended for its own bucket's
 * sake; a change of its weight begins its stretch anew.
 *
 * Work counts when it is booked: the estimate at dispatch, and the correction at the moment it is
 * known, since only from then on can a scheduler make up for it. A refund that exceeds all that its
 * tenant was charged in this stretch belongs to the time before and is not counted, as no scheduler
 * counts it. Under drr requests are compared, not work: they are what it divides.
 *
 * The bound beside the gap is that of the policy (docs/bounds.md), made of what really happened
 * rather than of the largest that could. With a ahead of b in a window, S the work counted,
 *
 *   S_a/w_a - S_b/w_b <= X_a(end) + X_b(start) + Q,     X_i(t) = last_i(t)/w_i + refunds_i(t)
 *
 * last_i: what i was charged at its last dispatch and corrected by since: before it, i was nobody's
 * senior. refunds_i: how far any tenant of the lane has fallen, since then, below what it had been
 * counted, per weight. Q: the quantum of drr-cost, one turn under drr, nothing under vtc. Both ends
 * count because either tenant may have been ahead when the window began. With exact estimates this
 * is at most 2 largest items per weight + Q, once both were dispatched since they came. fifo has no
 * bound.
 *
 * A window in which any two are further apart than their bound is counted as *broken*. That is
 * never so while the scheduler is right: it is an alarm, not a warning.
 *
 * WEIR_GAP_TRACKED_MAX tenants of a lane are compared at most, those that came first; the view says
 * how many were not. Cost: O(1) a call; at the end of a slice O(tracked) for each lane, at most 65
 * slices' work after however long a pause. Thread: loop. Memory: the host's, zero at start, of a
 * tenant that never comes nothing is touched. */
#ifndef WEIR_CORE_GAP_H
#define WEIR_CORE_GAP_H

#include <stddef.h>
#include <stdint.h>

#include "core/base.h"
#include "core/sched.h"

#define WEIR_GAP_TRACKED_MAX 256u
#define WEIR_GAP_SLICE_NS WEIR_NS_PER_S
#define WEIR_GAP_WINDOWS 3u
#define WEIR_GAP_NO_BOUND UINT64_MAX
/* Under drr a request counts as one unit of work. */
#define WEIR_GAP_REQUEST_UWORK ((uint64_t)WEIR_UWORK_PER_WORK)

struct weir_gap_limits {
    uint32_t lanes;
    uint32_t tenants_max;
};

/* The last whole window. Work is normalised to the smallest weight compared: weights 2, 3, 4 count
 * as 1, 1.5, 2. */
struct weir_gap_window {
    uint32_t slices;
    uint32_t compared;      /* tenants; below 2 there is no gap, and all else is 0 or WEIR_NONE */
    uint32_t ahead, behind; /* the two; of a broken window, the two furthest beyond their bound */
    uint32_t jain_ppm;      /* Jain's index of work per weight, in millionths: 1,000,000 = alike */
    uint64_t gap_uwork;     /* under drr: millionths of a request */
    uint64_t bound_uwork;   /* of these two; WEIR_GAP_NO_BOUND under fifo */
    uint64_t broken;        /* windows since the start that were broken; it must stay 0 */
};

struct weir_gap_view {
    struct weir_gap_window windows[WEIR_GAP_WINDOWS];
    uint64_t ended_ns;            /* when they ended, a whole second */
    uint32_t backlogged, tracked; /* tenants now; the others of the backlogged are not compared */
    bool in_requests;             /* drr */
};

struct weir_gap;

size_t weir_gap_bytes(struct weir_gap_limits limits);

/* As weir_sched_init; policies has limits.lanes elements. */
struct weir_gap *weir_gap_init(void *mem, size_t bytes, struct weir_gap_limits limits,
                               const enum weir_sched_policy *policies);

/* What weir_lanes is told and does, in the same order. Amounts as core/sched.h has them. */
void weir_gap_set_weight(struct weir_gap *g, uint32_t lane, uint32_t tenant, uint32_t weight);
void weir_gap_enqueue(struct weir_gap *g, uint32_t lane, uint32_t tenant);
void weir_gap_remove(struct weir_gap *g, uint32_t lane, uint32_t tenant);
void weir_gap_take(struct weir_gap *g, uint32_t lane, uint32_t tenant, uint64_t work_uwork);
void weir_gap_put_back(struct weir_gap *g, uint32_t lane, uint32_t tenant, uint64_t work_uwork);
void weir_gap_correct(struct weir_gap *g, uint32_t lane, uint32_t tenant, int64_t delta_uwork);
void weir_gap_suspend(struct weir_gap *g, uint32_t lane, uint32_t tenant);
void weir_gap_resume(struct weir_gap *g, uint32_t lane, uint32_t tenant);
void weir_gap_tenant_forget(struct weir_gap *g, uint32_t lane, uint32_t tenant);

/* When the running slice is over; until then weir_gap_advance has nothing to do. */
uint64_t weir_gap_due_ns(const struct weir_gap *g);

/* Ends the slices that are over at now_ns. Call it before what happens at now_ns is told.
 *
 * quantum_uwork  of each lane's scheduler now; only drr-cost has one */
void weir_gap_advance(struct weir_gap *g, const uint64_t *quantum_uwork, uint64_t now_ns);

void weir_gap_view(const struct weir_gap *g, uint32_t lane, struct weir_gap_view *view);

#endif
