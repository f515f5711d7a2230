/* gate: where requests wait for their turn, and what lets them pass.
 *
 * A pool is a set of upstreams that serve the same models, with one queue (lanes of schedulers) in
 * front. Each upstream has permits (calls in flight), rate buckets and a breaker; each tenant has
 * rate buckets. Passing takes all of it in one step at dispatch, or nothing:
 *
 *   1. an upstream of the pool with a permit, a breaker that lets pass and no pause; else nothing
 *      is chosen
 *   2. the request that lanes and scheduler choose
 *   3. its tenant's buckets; short: the tenant leaves the order until they are full enough
 *   4. that upstream's buckets; short at all of them: the request is parked, and nobody overtakes
 *      it in its lane or one below; a higher lane still may, unless one of those is behind its
 *      floor again: then all wait for it, or the higher lanes would take the rate that it needs
 *
 * The permits of an upstream are fixed, or follow what it can carry (core/adapt.h). A limit that
 * falls takes none away: calls in flight beyond it end in their time.
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

#include "core/adapt.h"
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
                                 reserves; never given back once sent, raised when more was used */
    WEIR_ACCOUNTING_ANTHROPIC /* uncached input and predicted output in two buckets, both
                                 corrected */
};

struct weir_upstream_rules {
    uint32_t permits;              /* in flight at once, >= 1 */
    struct weir_adapt_rules adapt; /* all zero: fixed; else permits is the ceiling */
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
    bool strict;       /* reserve the hard upper bound instead of the learned quantile */
    bool overrun_cuts; /* an answer whose hold cannot grow is cut; false: goes on, counted */
    uint32_t scope;    /* leaf scope of its budget; the ledger knows the parents */
};

/* Why something was refused, with what the client is told. */
struct weir_refused {
    enum weir_refusal reason;
    uint64_t hint_ns;  /* earliest time a repeat can succeed, from now; 0: none known */
    uint32_t scope;    /* BUDGET_*, TOO_LARGE by a grant: the scope that refused, else WEIR_NONE */
    uint32_t upstream; /* UPSTREAM_*: which, else WEIR_NONE */
};

struct weir_gate_limits {
    uint32_t tenants_max;
    uint32_t slots_max;   /* waiter indices: 0 .. slots_max - 1, waiting or granted */
    uint32_t waiters_max; /* waiting at once */
    uint64_t waiting_bytes_max;
    uint32_t pool_count;
    uint32_t upstream_count;
    struct weir_lane_rules lanes;
};

/* What a waiter asks for. */
struct weir_gate_want {
    uint32_t tenant;
    uint32_t pool;
    uint32_t lane; /* WEIR_NONE: the tenant's; a higher one than the tenant's is ignored */
    uint32_t bytes;
    uint64_t deadline_ns;
    uint64_t input_tok;     /* estimate */
    uint64_t output_tok;    /* the most it may produce */
    uint64_t predicted_tok; /* what it likely produces */
    uint64_t work_min;      /* work of it at least, whatever its tokens; >= 1 */
};

/* What a granted waiter came to. All zero and outcome UNUSED when nothing was sent. */
struct weir_gate_used {
    bool sent;
    enum weir_breaker_outcome outcome;
    uint64_t input_tok;  /* cached ones included */
    uint64_t cached_tok; /* of input, those the provider had */
    uint64_t output_tok;
    uint64_t answer_ns; /* of a stream that ended well: from its first byte; else 0 */
    bool is_late;       /* no first byte came in time */
};

enum weir_gate_place {
    WEIR_GATE_NONE,
    WEIR_GATE_QUEUED,
    WEIR_GATE_PARKED,
    WEIR_GATE_ASIDE,
    WEIR_GATE_GRANTED
};

struct weir_gate_event {
    uint32_t waiter;
    bool granted;                /* else refused: it has left the gate */
    uint32_t upstream;           /* granted */
    struct weir_refused refused; /* refused */
};

size_t weir_gate_bytes(const struct weir_gate_limits *limits);
struct weir_gate *weir_gate_init(void *mem, size_t bytes, const struct weir_gate_limits *limits);

/* As weir_flow_*_set. */
void weir_gate_upstream_set(struct weir_gate *g, uint32_t upstream,
                            const struct weir_upstream_rules *rules, uint64_t now_ns);
void weir_gate_pool_set(struct weir_gate *g, uint32_t pool, const struct weir_pool_rules *rules);
void weir_gate_tenant_set(struct weir_gate *g, uint32_t tenant,
                          const struct weir_tenant_rules *rules, uint64_t now_ns);
const struct weir_tenant_rules *weir_gate_tenant_rules(const struct weir_gate *g, uint32_t tenant);
/* false: it has waiters or calls in flight; nothing changed. */
WEIR_MUST_USE bool weir_gate_tenant_forget(struct weir_gate *g, uint32_t tenant);

/* What admit would refuse without knowing the request. pool may be WEIR_NONE. Changes nothing. */
WEIR_MUST_USE enum weir_refusal weir_gate_precheck(struct weir_gate *g, uint32_t tenant,
                                                   uint32_t pool, uint64_t deadline_ns,
                                                   uint64_t now_ns, struct weir_refused *refused);
/* Queues a waiter that is in no place, or says why not; then nothing has changed. *refused is set
 * on both. */
WEIR_MUST_USE enum weir_refusal weir_gate_admit(struct weir_gate *g, uint32_t waiter,
                                                const struct weir_gate_want *want, uint64_t now_ns,
                                                struct weir_refused *refused);
/* QUEUED, PARKED or ASIDE -> NONE. */
void weir_gate_leave(struct weir_gate *g, uint32_t waiter);
/* QUEUED or PARKED -> ASIDE: it keeps its deadline and its share of the bounds, but not its turn.
 */
void weir_gate_set_aside(struct weir_gate *g, uint32_t waiter);
/* ASIDE -> QUEUED. */
void weir_gate_rejoin(struct weir_gate *g, uint32_t waiter, uint64_t now_ns);

/* The next decision that can be made now; false: none. Sets of what was granted are charged when it
 * returns. */
WEIR_MUST_USE bool weir_gate_next(struct weir_gate *g, uint64_t now_ns,
                                  struct weir_gate_event *event);
/* The next waiter whose deadline has come; false: none. Not granted: it has left, *refused says
 * why. Granted: it stays so, and has no deadline any more. */
WEIR_MUST_USE bool weir_gate_expired(struct weir_gate *g, uint64_t now_ns, uint32_t *waiter,
                                     struct weir_refused *refused);
/* GRANTED: the call begins, the queue's deadline is no longer its concern. */
void weir_gate_started(struct weir_gate *g, uint32_t waiter);
/* GRANTED: the answer's head came. 429 pauses the upstream; a trial is judged at once. */
void weir_gate_head(struct weir_gate *g, uint32_t waiter, uint32_t status, uint64_t pause_ns,
                    uint64_t now_ns);
/* GRANTED: the first byte of a stream's good answer came, so long after its call began.
 * Returns whether more calls may go now. */
bool weir_gate_first_byte(struct weir_gate *g, uint32_t waiter, uint64_t wait_ns, uint64_t now_ns);
/* GRANTED -> NONE: the permit is free, breaker, buckets and scheduler know what it came to. */
void weir_gate_release(struct weir_gate *g, uint32_t waiter, const struct weir_gate_used *used,
                       uint64_t now_ns);
/* Is there another upstream this granted waiter could try after its own? */
WEIR_MUST_USE bool weir_gate_has_target(struct weir_gate *g, uint32_t waiter, uint64_t now_ns);
/* GRANTED -> QUEUED, as release, then at the head of its tenant's FIFO in the same pool, or in a
 * fallback's pool. There must be another target. The upstreams it was granted so far are not chosen
 * again. */
void weir_gate_requeue(struct weir_gate *g, uint32_t waiter, const struct weir_gate_used *used,
                       uint64_t deadline_ns, uint64_t now_ns);

/* QUEUED, PARKED, ASIDE or GRANTED (the call not begun) -> QUEUED in another pool, by the rules of
 * admit: what it took is given back first. On a refusal it is in no place, *refused says why. */
WEIR_MUST_USE enum weir_refusal weir_gate_move(struct weir_gate *g, uint32_t waiter, uint32_t pool,
                                               uint64_t deadline_ns, uint64_t now_ns,
                                               struct weir_refused *refused);

/* GRANTED -> ASIDE, the call not begun: everything it took is given back, and the upstream counts
 * as not tried. */
void weir_gate_return_aside(struct weir_gate *g, uint32_t waiter, uint64_t deadline_ns,
                            uint64_t now_ns);

/* Time alone: buckets, pauses, cool-downs. Not deadlines: those are weir_gate_expired's. */
void weir_gate_tick(struct weir_gate *g, uint64_t now_ns);
/* When that, or a deadline, next changes something; 0: decisions are left over; WEIR_NEVER_NS. */
uint64_t weir_gate_due_ns(const struct weir_gate *g);

/* Why a waiter that is QUEUED, PARKED or ASIDE waits, as a refusal with its hint. */
void weir_gate_why(const struct weir_gate *g, uint32_t waiter, uint64_t now_ns,
                   struct weir_refused *refused);
/* Until an upstream of the pool may be called again as far as breakers and pauses go; 0: now. */
uint64_t weir_gate_pool_closed_for_ns(const struct weir_gate *g, uint32_t pool, uint64_t now_ns);

enum weir_gate_place weir_gate_place(const struct weir_gate *g, uint32_t waiter);
uint32_t weir_gate_pool_of(const struct weir_gate *g, uint32_t waiter);
uint32_t weir_gate_upstream_of(const struct weir_gate *g, uint32_t waiter);
uint32_t weir_gate_tenant_generation(const struct weir_gate *g, uint32_t tenant);

/* Looking in: copies, for the admin API, rate-limit headers and metrics. */
struct weir_flow_limit { /* the tightest limit of one dimension; limit 0: none */
    uint64_t limit, remaining;
    uint64_t reset_ns; /* until full again */
};
struct weir_upstream_view {
    uint32_t permits, permits_now; /* in force, in use: less may be in force than is in use */
    enum weir_breaker_state breaker;
    uint64_t open_for_ns;   /* rest of the cool-down */
    uint64_t paused_for_ns; /* rest of a 429 pause */
    uint64_t calls, failures;
    uint64_t opened; /* how often its breaker opened */
    struct weir_flow_limit requests, tokens;
};
struct weir_pool_view {
    uint32_t waiting, waiting_tenants;
    uint64_t drain_micro_per_s; /* measured dispatches a second, in millionths */
};
struct weir_gate_tenant_view {
    uint32_t waiting, in_flight;
    uint64_t longest_wait_ns; /* of those waiting now in the order: its oldest */
    struct weir_flow_limit requests, tokens;
};
struct weir_gate_view {
    uint32_t waiters_now, granted_now;
    uint64_t waiting_bytes_now;
};
void weir_gate_upstream_view(const struct weir_gate *g, uint32_t upstream, uint64_t now_ns,
                             struct weir_upstream_view *view);
void weir_gate_pool_view(const struct weir_gate *g, uint32_t pool, uint64_t now_ns,
                         struct weir_pool_view *view);
/* Ends the slices that are over first, so that a quiet pool's windows are those of now. */
void weir_gate_gap_view(struct weir_gate *g, uint32_t pool, uint32_t lane, uint64_t now_ns,
                        struct weir_gap_view *view);
void weir_gate_tenant_view(const struct weir_gate *g, uint32_t tenant, uint64_t now_ns,
                           struct weir_gate_tenant_view *view);
void weir_gate_view(const struct weir_gate *g, struct weir_gate_view *view);

/* O(slots used + tenants x pools): every count against what it counts; panics on a false one. */
void weir_gate_audit(const struct weir_gate *g);

#endif
