/* sched_model: a naive model of the scheduler beside the real one, as a property of a choice tape.
 *
 * After every call it checks, for all policies: FIFO inside each tenant, counts, that something is
 * chosen exactly when a tenant that is not suspended has an item, and that peek and take agree. For
 * fifo: the oldest goes first. For the others the bounds of docs/bounds.md, by sched_judge.h,
 * one-sided and on every interval: while b stays backlogged, no other tenant, backlogged or not,
 * gets more per weight than b and the bound. That catches credit for idle time, forgiven debts and
 * lost corrections as well as plain unfairness.
 *
 * Two cases of three are exact: what was charged was used. In the others a tenant's calls use more
 * than was charged, or less, or either, for as long as the case lasts, up to CALLS_MAX of them are
 * out at once, end in any order, and some are put back. */
#ifndef WEIR_TESTS_SCHED_MODEL_H
#define WEIR_TESTS_SCHED_MODEL_H

#include "core/sched.h"
#include "support/tape.h"

void sched_model_fifo(struct tape *t);
void sched_model_drr(struct tape *t);
void sched_model_drr_cost(struct tape *t);
void sched_model_vtc(struct tape *t);

/* A scheduler in memory of the tape. */
struct weir_sched *sched_model_make(struct tape *t, uint32_t tenants, uint32_t items,
                                    enum weir_sched_policy policy);

#endif
