/* gate: where requests wait for their turn, and what lets them pass.
 *
 * A pool is a set of upstreams that serve the same models, with one queue (lanes of schedulers) in
 * front. Each upstream has permits (calls in flight), rate buckets and a breaker; each tenant has
 * rate buckets. Passing takes all of it in one step at dispatch, or nothing:
 *
 *   an upstream of the pool with a permit, a breaker that lets pass and no pause   (else nothing is
 * chosen) the request that lanes and scheduler choose its tenant's buckets         short: the
 * tenant leaves the order until they are full enough that upstream's buckets      short at all of
 * them: the request is parked, and nobody overtakes it in its lane; a higher lane still may
 *
 * Of several upstreams a half-open one with a trial free goes first, then the one with the lowest
 * share of its permits in use.
 *
 * When every upstream of a pool is open, requests that wait move to the pool of a fallback, or
 * leave with the rest of the cool-down. Requests of tenants that wait for their own bucket do so
 * when their turn comes.
 *
 * A waiter is an index the caller gives. It is in exactly one place:
 *
 *   NONE --admit--> QUEUED --(next)--> GRANTED --release--> NONE
 *                   |  ^  ^  |             |
 *          set_aside|  |  |  | (next)      | requeue
 *                   v  |  |  v             v
 *                  ASIDE  PARKED        QUEUED
 *
 * and leaves any but GRANTED by weir_gate_leave. Nothing here is O(waiters) but shedding a pool
 * whose upstreams are all open, which takes one step a waiter, spread over calls.
 *
 * Thread: loop. Memory: the host's, zero at start, untouched where unused. Source:
 * docs/fairness.md. */
#ifndef WEIR_CORE_GATE_H
#define WEIR_CORE_GATE_H

#include "core/base.h"
#include "core/breaker.h"
#include "core/lanes.h"
#include "core/refusal.h"

struct weir_gate;

#define WEIR_POOL_UPSTREAMS_MAX 16
#define WEIR_ATTEMPTS_MAX 3 /* calls made for one request, over all upstreams */

/* A token bucket's setting; rate 0 is "no limit". The unit (requests or tokens) is the user's. */
struct weir_rate {
    uint64_t rate_micro_per_s; /* micro-units a second, so that 2/min can be said exactly enough */
    uint64_t capacity;         /* whole units */
};

enum weir_accounting {
    WEIR_ACCOUNTING_PLAIN,    /* input estimate + output limit, corrected to what was used */
    WEIR_ACCOUNTING_OPENAI,   /* the larger of output limit and input estimate, as that provider
                                 reserves;   never given back once sent, raised when more was used */
    WEIR_ACCOUNTING_ANTHROPIC /* uncached input and predicted output in two buckets, both corrected
                               */
};

struct weir_upstream_rules {
    uint32_t permits; /* in flight at once, >= 1 */
    struct weir_rate requests;
    struct weir_rate tokens; /* PLAIN, OPENAI */
    struct weir_rate input;  /* ANTHROPIC */
    struct weir_rate output; /* ANTHROPIC */
    enum weir_accounting accounting;
    struct weir_breaker_rules breaker;
    uint32_t fallback; /* upstream index, WEIR_NONE: none. Cycles are the config's to refuse */
};

struct weir_pool_rules {
    enum weir_sched_policy policy;
    uint32_t upstream_count; /* 1 .. WEIR_POOL_UPSTREAMS_MAX */
    uint32_t upstreams[WEIR_POOL_UPSTREAMS_MAX];
    uint32_t work_input;  /* weight of an uncached input token, default 1 */
    uint32_t work_output; /* weight of an output token, default 2 */
};

struct weir_lane_rules {
    uint32_t lane_count; /* lane 0 is the highest */
    uint32_t floor_percent[WEIR_LANES_MAX];
};

struct weir_tenant_rules {
    uint32_t weight; /* 1 .. 1000 */
    uint32_t lane;
    struct weir_rate requests;
    struct weir_rate tokens;
    bool refuse_over;     /* over: refuse; false = wait */
    uint32_t waiters_max; /* >= 1 */
    bool paused;
    bool strict;    /* reserve the hard upper bound instead of the learned quantile */
    uint32_t scope; /* leaf scope of its budget; the ledger knows the parents */
};

/* Why something was refused, with what the client is told. */
struct weir_refused {
    enum weir_refusal reason;
    uint64_t hint_ns;  /* earliest time a repeat can succeed, from now; 0: none known */
    uint32_t scope;    /* BUDGET_*, TOO_LARGE by a grant: the scope that refused, else WEIR_NONE */
    uint32_t upstream; /* UPSTREAM_*: which, else WEIR_NONE */
};

#endif
