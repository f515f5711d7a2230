/* sched_naive: the four policies once more, as plainly as can be: every decision is a walk over
 * all tenants, rounds are granted one by one, counters are plain numbers. No sets, no heap, no
 * wheel, no eras. A reference for a few tenants: it must be given the same calls as core/sched.h,
 * a choose after each (as rounds begin when somebody is chosen), and works that the weights
 * divide. */
#ifndef WEIR_TESTS_SCHED_NAIVE_H
#define WEIR_TESTS_SCHED_NAIVE_H

#include "core/sched.h"

#define NAIVE_TENANTS 3u
#define NAIVE_ITEMS 8u

enum naive_place { NAIVE_OUT, NAIVE_DUE, NAIVE_LATER, NAIVE_ASLEEP };

struct sched_naive {
    enum weir_sched_policy policy;
    uint32_t weight[NAIVE_TENANTS];
    bool is_suspended[NAIVE_TENANTS];
    uint32_t fifo[NAIVE_TENANTS][NAIVE_ITEMS];
    uint32_t waiting[NAIVE_TENANTS];
    uint64_t work[NAIVE_ITEMS];
    int64_t order[NAIVE_ITEMS];
    int64_t arrivals, returns;
    /* vtc, drr-cost: work per weight, and what refunds stop at */
    uint64_t counter[NAIVE_TENANTS], base[NAIVE_TENANTS];
    uint64_t floor;
    uint32_t last; /* WEIR_NONE: somebody waits */
    /* drr, drr-cost */
    enum naive_place place[NAIVE_TENANTS];
    uint32_t passed;
    uint32_t turns_left[NAIVE_TENANTS];
    uint64_t granted, granted_prev, granted_next, mean_x64;
};

void sched_naive_init(struct sched_naive *n, enum weir_sched_policy policy, const uint32_t *weight);
bool sched_naive_is_ready(const struct sched_naive *n, uint32_t tenant);
void sched_naive_enqueue(struct sched_naive *n, uint32_t tenant, uint32_t item, uint64_t work);
void sched_naive_remove(struct sched_naive *n, uint32_t tenant, uint32_t place);
void sched_naive_suspend(struct sched_naive *n, uint32_t tenant);
void sched_naive_resume(struct sched_naive *n, uint32_t tenant);
void sched_naive_correct(struct sched_naive *n, uint32_t tenant, int64_t delta);
void sched_naive_put_back(struct sched_naive *n, uint32_t tenant, uint32_t item);
/* The tenants that may be chosen now, a bit for each: one, but for ties of vtc; 0: nobody waits. */
uint32_t sched_naive_choose(struct sched_naive *n);
/* Takes the oldest item of a tenant that may be chosen. */
uint32_t sched_naive_take(struct sched_naive *n, uint32_t tenant);
/* As weir_sched_tenant_debt_uwork. */
uint64_t sched_naive_debt(const struct sched_naive *n, uint32_t tenant);

#endif
