/* fair: the offline proof. Runs a dispatcher over a plan of requests in simulated time, and
 * measures how far two tenants drift apart while both have requests waiting.
 *
 *   plan ──▶ arrivals ──▶ order (core/sched, or the classroom dispatcher) ──▶ permits ──▶ ends
 *                              ▲                                                           │
 *                              └────────────── correction: used - estimated ───────────────┘
 *
 * Time. A permit delivers one unit of work a millisecond, evenly from dispatch to end: a request of
 * work W is in flight for W ms. So a nanosecond of a permit is one micro-work (uwork), and every
 * amount below is exact.
 *
 * Work is 1 x input + 2 x output tokens. A tenant is *backlogged* while it has a request waiting,
 * the dispatch of its last one included. For every pair of tenants and every interval in which both
 * are backlogged from end to end, the gap is the difference of their service per weight; weights
 * are scaled so that the smallest is 1. The largest is found exactly: of a pair's lead the lowest
 * and the highest value since both are backlogged are kept, and compared with each new one.
 *
 * Service is counted in four ways, each with the bound that is known for it:
 *
 *   dispatched  a request's work as it was really used, whole, at its dispatch
 *   one-waits   the same, but only the tenant that is behind must be backlogged: the one ahead may
 *               come and go, which is how credit for idleness or a forgotten debt would show
 *   delivered   work as permits deliver it
 *   requests    a request is one, at its dispatch
 *
 * The bounds and their proofs are in docs/bounds.md. Totals after all has drained are given too,
 * and prove nothing: any order serves all of it.
 *
 * Thread: any; a run owns all it touches. Memory: malloc, freed before the run returns. */
#ifndef WEIR_MEASURE_FAIR_H
#define WEIR_MEASURE_FAIR_H

#include "core/base.h"

#define WEIR_FAIR_TENANTS_MAX 64u
#define WEIR_FAIR_ITEMS_MAX 1000000u
#define WEIR_FAIR_PERMITS_MAX 100000u
#define WEIR_FAIR_TOK_MAX UINT64_C(1000000000) /* input or output of one request */
/* Of all requests together: with weights up to 1,000 nothing overflows. */
#define WEIR_FAIR_TOTAL_MAX_UWORK (UINT64_C(1) << 62)
#define WEIR_FAIR_ARRIVAL_MAX_NS (UINT64_C(1) << 60)

#define WEIR_FAIR_WORK_INPUT 1u
#define WEIR_FAIR_WORK_OUTPUT 2u

enum weir_fair_policy {
    WEIR_FAIR_VTC,
    WEIR_FAIR_DRR_COST,
    WEIR_FAIR_DRR,
    WEIR_FAIR_FIFO,
    /* The naive teaching dispatcher: every call begins its round at the first tenant again, gives
     * each one it passes its weight as credit, and serves the first that has credit for a request.
     * It is no policy of the gateway. */
    WEIR_FAIR_DRR_RESTARTING,
};
#define WEIR_FAIR_POLICIES 5u

enum weir_fair_count {
    WEIR_FAIR_DISPATCHED,
    WEIR_FAIR_ONE_WAITS,
    WEIR_FAIR_DELIVERED,
    WEIR_FAIR_REQUESTS
};
#define WEIR_FAIR_COUNTS 4u

struct weir_fair_item {
    uint64_t arrival_ns;
    uint64_t input_tok, output_tok; /* as really used; not both 0 */
    uint64_t estimate_uwork;        /* charged at dispatch, at least 1; see weir_fair_work_uwork */
    uint32_t tenant;
};

struct weir_fair_plan {
    enum weir_fair_policy policy;
    uint32_t permits; /* requests in flight at most */
    uint32_t tenants_count;
    uint32_t items_count;
    const uint32_t *weights;            /* tenants_count, 1 .. WEIR_SCHED_WEIGHT_MAX */
    const struct weir_fair_item *items; /* by arrival; those of one time arrive in this order */
};

/* Where an interval begins and ends: how many dispatches had been made, and when. */
struct weir_fair_edge {
    uint64_t dispatches;
    uint64_t at_ns;
};

/* In micro-work per weight; under WEIR_FAIR_REQUESTS in millionths of a request per weight. */
struct weir_fair_gap {
    uint64_t gap;           /* 0: no two tenants were ever backlogged together */
    uint32_t ahead, behind; /* WEIR_NONE when the gap is 0 */
    struct weir_fair_edge from, to;
    bool is_bounded;
    bool is_broken;     /* the gap is above one of the bounds */
    uint64_t bound;     /* the tightest that is proven */
    uint64_t published; /* the one in the literature, never tighter; 0: there is none */
};

/* The farthest that a tenant was from its ideal on any prefix while it was backlogged. Its ideal is
 * what it would have had by then if the same work had been poured out like a fluid, by weight over
 * all that had some left (generalised processor sharing). */
struct weir_fair_off {
    double served_uwork, ideal_uwork; /* dispatched to it, since the start of the run */
    uint64_t dispatches;              /* after which; 0: it was never on this side of its ideal */
};

struct weir_fair_tenant {
    uint64_t items;      /* all of its requests, served when all has drained */
    uint64_t work_uwork; /* and their work */
    struct weir_fair_off behind, ahead;
};

/* What the bounds are made of; see docs/bounds.md. Per weight, weights as scaled. */
struct weir_fair_facts {
    uint64_t work_max_uwork;      /* L: largest work / weight, as used or as charged */
    uint64_t item_max_uwork;      /* Max: the same, not per weight */
    uint64_t input_max_tok;       /* L_in */
    uint64_t request_max_tok;     /* largest input + output */
    uint64_t quantum_max_uwork;   /* Q: the largest running mean cost, for a weight of 1 */
    uint64_t error_max_uwork;     /* E: largest |used - charged| / weight */
    uint64_t turn_micro_requests; /* requests of a turn, of the scaled weight 1 */
    uint64_t returns;             /* times a tenant that had run empty came back */
};

struct weir_fair_result {
    uint64_t dispatches;
    uint64_t contended; /* of them, while another tenant was backlogged too */
    uint64_t end_ns;
    bool is_bounded; /* one of the gaps has a bound */
    bool is_broken;  /* and is above it */
    struct weir_fair_facts facts;
    struct weir_fair_gap gaps[WEIR_FAIR_COUNTS];
    struct weir_fair_tenant tenants[WEIR_FAIR_TENANTS_MAX];
};

enum weir_fair_event { WEIR_FAIR_ARRIVED, WEIR_FAIR_SENT, WEIR_FAIR_ENDED };

/* The state after an event: a request arrived, was dispatched or has ended. Good until the callback
 * returns. */
struct weir_fair_now {
    enum weir_fair_event event;
    uint32_t item; /* that it concerns */
    uint64_t at_ns;
    uint64_t dispatches;
    const uint64_t *dispatched_uwork; /* to each tenant, since the start of the run */
    const uint64_t *delivered_uwork;
    const double *ideal_uwork; /* see struct weir_fair_off */
    const bool *is_backlogged;
};

typedef void weir_fair_seen_fn(void *user, const struct weir_fair_now *now);

/* 1 x input + 2 x output, in micro-work. Each at most WEIR_FAIR_TOK_MAX. */
uint64_t weir_fair_work_uwork(uint64_t input_tok, uint64_t output_tok);

/* NULL when the plan can be run; else what is wrong with it, *index being the tenant or the item
 * that it concerns (WEIR_NONE: neither). */
const char *weir_fair_problem(const struct weir_fair_plan *plan, uint32_t *index);

/* Runs a plan that has no problem. seen may be NULL.
 *
 * Fails: false, out of memory; the result is unset. Cost: O(tenants) for an item. */
WEIR_MUST_USE bool weir_fair_run(const struct weir_fair_plan *plan, weir_fair_seen_fn *seen,
                                 void *user, struct weir_fair_result *result);

/* "drr-cost" and so on; "dispatched" and so on. */
const char *weir_fair_policy_name(enum weir_fair_policy policy);
const char *weir_fair_count_name(enum weir_fair_count count);

#endif
