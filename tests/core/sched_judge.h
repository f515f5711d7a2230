/* sched_judge: what the policies of core/sched.h promise, checked on every interval.
 *
 * The judge is told what a scheduler did and keeps nothing but sums: for each tenant the work that
 * was booked (charged when taken, corrected when known; under drr the requests). What a tenant has
 * had beyond another, per weight, is compared with the smallest value it had since the other began
 * to wait; that covers every interval that ends now, so that asking after every event covers every
 * interval there is. The bounds are those of docs/bounds.md, to the unit. Weights may change:
 * intervals begin anew then.
 *
 * Work is also counted as it is used (when it is taken) and as it is delivered (while the call
 * lasts), between tenants that both wait. Also judged: how long a tenant that comes without debt
 * waits for its first turn. */
#ifndef WEIR_TESTS_SCHED_JUDGE_H
#define WEIR_TESTS_SCHED_JUDGE_H

#include "core/sched.h"
#include "support/tape.h"

#define JUDGE_TENANTS_MAX 8u

typedef __int128 judge_int;

/* One way to count work, compared between tenants that both wait. */
struct sched_measure {
    judge_int had[JUDGE_TENANTS_MAX];
    judge_int lowest_lead[JUDGE_TENANTS_MAX][JUDGE_TENANTS_MAX]; /* since both wait */
};

struct sched_judge {
    enum weir_sched_policy policy;
    uint32_t tenants;
    uint32_t weight[JUDGE_TENANTS_MAX];
    judge_int booked[JUDGE_TENANTS_MAX]; /* micro-work; drr: requests */
    bool is_ready[JUDGE_TENANTS_MAX];    /* waits, and is in the order */
    judge_int lowest_lead[JUDGE_TENANTS_MAX]
                         [JUDGE_TENANTS_MAX]; /* since the second began to wait */
    /* What the bounds are made of. Per weight, rounded up: */
    uint64_t largest; /* L: of what was charged or used for one request */
    uint64_t error;   /* e: of what was corrected or put back for one request */
    uint64_t largest_of[JUDGE_TENANTS_MAX];   /* L of one tenant, as charged */
    uint64_t item_largest[JUDGE_TENANTS_MAX]; /* the same, not per weight */
    uint64_t mean_x64, quantum_largest;       /* Q of drr-cost */
    uint32_t in_flight, in_flight_most;       /* P */
    bool has_stale; /* a refund came for a stale call: it may be lost in part */
    struct sched_measure used, delivered;
    bool is_unmeasured; /* no more: a call was put back, or was out when a weight changed */
    bool is_reweighed;  /* a weight was changed with calls out, or put back */
    /* Waiting for the first turn: what others had since this tenant came, while it waits for it. */
    bool is_first[JUDGE_TENANTS_MAX];
    judge_int had_since[JUDGE_TENANTS_MAX][JUDGE_TENANTS_MAX];
};

/* All zero before; weights of 1. */
void sched_judge_init(struct sched_judge *j, enum weir_sched_policy policy, uint32_t tenants);

/* Each concerns one request of a tenant: taken; its call ended and used used_uwork or it was put
 * back. is_stale: since it was taken the tenant has come anew, or has another weight. */
void sched_judge_taken(struct sched_judge *j, uint32_t tenant, uint64_t work_uwork);
/* Said besides, if the measures of use and delivery are wanted: what the request just taken will
 * use; and what was delivered of one that is out, all of it by its end. */
void sched_judge_will_use(struct sched_judge *j, uint32_t tenant, uint64_t work_uwork,
                          uint64_t used_uwork);
void sched_judge_delivered(struct sched_judge *j, uint32_t tenant, uint64_t part_uwork);
void sched_judge_ended(struct sched_judge *j, uint32_t tenant, uint64_t work_uwork,
                       uint64_t used_uwork, bool is_stale);
void sched_judge_put_back(struct sched_judge *j, uint32_t tenant, uint64_t work_uwork,
                          bool is_stale);

/* The first request that ever comes to a scheduler sets the first quantum of drr-cost. */
void sched_judge_first_work(struct sched_judge *j, uint64_t work_uwork);

/* Intervals with this tenant begin anew: another weight, or another tenant in its place. */
void sched_judge_weight(struct sched_judge *j, uint32_t tenant, uint32_t weight);

/* After every event: who waits in the order now, and which of them owe nothing. Fails the tape when
 * a bound is broken. */
void sched_judge_look(struct sched_judge *j, struct tape *t, const bool *is_ready,
                      const bool *is_free_of_debt);

#endif
