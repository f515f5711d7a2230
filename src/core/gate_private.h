/* gate_private: what gate.c, gate_bucket.c, gate_hint.c and gate_view.c share. Nobody else includes
 * it.
 *
 * Lists are indices + 1 with 0 for none, so that zero memory is an empty gate. */
#ifndef WEIR_CORE_GATE_PRIVATE_H
#define WEIR_CORE_GATE_PRIVATE_H

#include "core/adapt.h"
#include "core/bucket.h"
#include "core/gate.h"
#include "core/heap.h"
#include "core/num.h"

/* How many fallbacks of fallbacks are followed to find a pool that is not closed. */
#define GATE_HOPS_MAX 8

struct gate_limit {
    struct weir_bucket bucket;
    bool is_on;
};

struct gate_upstream {
    struct weir_upstream_rules rules;
    struct weir_breaker breaker;
    struct gate_limit requests;
    struct gate_limit tokens; /* main bucket: tokens, or input */
    struct gate_limit output; /* ANTHROPIC only */
    uint32_t permits_now;
    uint32_t pool_1;
    struct weir_adapt adapt; /* its limit: the permits in force */
};

/* Departures from a pool's queue, for hints. Only time in which somebody waited is measured. */
struct gate_drain {
    uint64_t since_ns;   /* start of the stretch being counted */
    uint64_t last_ns;    /* last departure, or the queue's beginning */
    uint64_t gap_ns;     /* longest gap between departures of late, decaying */
    uint64_t rate_micro; /* departures a second */
    uint32_t count;      /* in the stretch */
};

struct gate_pool {
    struct weir_pool_rules rules;
    struct weir_lanes *lanes;
    struct weir_gap *gap;
    uint32_t
        parked_1[WEIR_LANES_MAX]; /* the lane's choice, taken out and waiting for an upstream */
    uint32_t waiting;             /* QUEUED and PARKED */
    struct gate_drain drain;
    bool is_dirty; /* in the list of those to look at */
    uint32_t next_dirty_1;
};

struct gate_tenant {
    struct weir_tenant_rules rules; /* weight 0: not set */
    struct gate_limit requests;
    struct gate_limit tokens;
    uint32_t waiting; /* QUEUED, PARKED, ASIDE */
    uint32_t granted;
    uint32_t suspended; /* pools in which it is out of the order for its buckets' sake */
    uint32_t generation;
};

struct gate_waiter {
    enum weir_gate_place place : 8;
    bool is_reported : 1; /* the breaker has its outcome */
    uint8_t tried_count;
    uint32_t tenant;
    uint32_t pool;
    uint32_t lane;
    uint32_t bytes;
    uint32_t upstream;     /* GRANTED */
    uint32_t adapt_ticket; /* GRANTED; 0: it tells nothing of the limit */
    uint32_t tried[WEIR_ATTEMPTS_MAX];
    struct weir_breaker_ticket ticket;
    uint64_t queued_ns;
    uint64_t input_tok, output_tok, predicted_tok;
    uint64_t work_min;
    uint64_t work_uwork;             /* what the scheduler charged or will charge */
    uint64_t main_utok, output_utok; /* GRANTED: charged to the upstream's token buckets */
};

struct weir_gate {
    struct weir_gate_limits limits;
    uint32_t waiters_now, granted_now;
    uint64_t waiting_bytes_now;
    uint32_t slots_used; /* highest slot ever used + 1 */
    uint32_t dirty_first_1, dirty_last_1;
    struct weir_heap deadlines; /* of waiters */
    struct weir_heap resumes;   /* of tenants: when their buckets have enough */
    struct weir_heap wakes;     /* of pools: when an upstream may pass again */
    struct gate_upstream *upstreams;
    struct gate_pool *pools;
    struct gate_tenant *tenants;
    struct gate_waiter *waiters;
    struct weir_sched_item *items;
    uint64_t *waiting_tok; /* [pool][lane][tenant]: QUEUED and PARKED */
    unsigned char *lanes_mem;
    size_t lanes_bytes; /* of one pool */
    unsigned char *gap_mem;
    size_t gap_bytes; /* of one pool */
};

/* gate_bucket.c: the limits of tenants and upstreams. */
void gate_limit_set(struct gate_limit *limit, const struct weir_rate *rate, uint64_t now_ns);
uint64_t gate_cost_utok(uint64_t tok);
/* Until so many units will have been earned, however many the capacity; 0: they are there. */
uint64_t gate_limit_wait_ns(const struct gate_limit *limit, uint64_t cost_utok, uint64_t now_ns);
/* WAIT: the longer of the two waits is in *wait_ns. */
enum weir_bucket_result gate_tenant_check(const struct gate_tenant *t, const struct gate_waiter *w,
                                          uint64_t now_ns, uint64_t *wait_ns);
void gate_tenant_charge(struct gate_tenant *t, const struct gate_waiter *w, uint64_t now_ns);
enum weir_bucket_result gate_upstream_check(const struct gate_upstream *u,
                                            const struct gate_waiter *w, uint64_t now_ns,
                                            uint64_t *wait_ns);
void gate_upstream_charge(struct gate_upstream *u, struct gate_waiter *w, uint64_t now_ns);
/* Sets both right by what was used. Returns whether the tenant got something back. */
bool gate_settle_buckets(struct gate_tenant *t, struct gate_upstream *u,
                         const struct gate_waiter *w, const struct weir_gate_used *used,
                         uint64_t now_ns);
uint64_t gate_work_uwork(const struct weir_pool_rules *rules, uint64_t input_tok,
                         uint64_t output_tok, uint64_t work_min);

/* gate.c */
void gate_pool_dirty(struct weir_gate *g, uint32_t pool);
void gate_tenant_resume(struct weir_gate *g, uint32_t tenant);
/* Has the pool no upstream left that is not open, and that w (may be NULL) has not tried? */
bool gate_pool_is_open(struct weir_gate *g, uint32_t pool, const struct gate_waiter *w,
                       uint64_t now_ns);
/* The pool, or the first along its fallbacks, that is not open to w; WEIR_NONE. */
uint32_t gate_find_pool(struct weir_gate *g, uint32_t pool, const struct gate_waiter *w,
                        uint64_t now_ns);
/* Where a granted waiter could go after its upstream failed it; WEIR_NONE: nowhere. */
uint32_t gate_next_pool(struct weir_gate *g, const struct gate_waiter *w, uint64_t now_ns);
void gate_enqueue(struct weir_gate *g, uint32_t waiter, uint64_t now_ns);
/* The counts of QUEUED and PARKED. */
void gate_count_in(struct weir_gate *g, uint32_t waiter, uint64_t now_ns);
void gate_count_out(struct weir_gate *g, struct gate_waiter *w);
/* The counts of all that wait, ASIDE too. */
void gate_wait_begin(struct weir_gate *g, uint32_t waiter, uint64_t deadline_ns, uint64_t now_ns);
void gate_wait_end(struct weir_gate *g, struct gate_waiter *w);

/* gate_pass.c */
/* PARKED -> QUEUED: back to the head of its tenant's FIFO, nothing charged. */
void gate_unpark(struct weir_gate *g, uint32_t waiter);

/* gate_hint.c */
void gate_drain_begin(struct gate_drain *d, uint64_t now_ns);
void gate_drain_depart(struct gate_drain *d, uint64_t now_ns);
enum weir_refusal gate_bounds(const struct weir_gate *g, uint32_t tenant, uint32_t pool,
                              uint32_t bytes, uint64_t now_ns, struct weir_refused *refused);
/* Does the wait that can be computed pass the deadline? w is filled, in no place. */
enum weir_refusal gate_foresee(const struct weir_gate *g, const struct gate_waiter *w,
                               uint64_t deadline_ns, uint64_t now_ns, struct weir_refused *refused);

/* Where a (pool, lane, tenant) keeps its waiting tokens. */
static inline uint64_t *gate_waiting_tok(const struct weir_gate *g, uint32_t pool, uint32_t lane,
                                         uint32_t tenant)
{
    size_t row = (size_t)pool * g->limits.lanes.lane_count + lane;
    return &g->waiting_tok[row * g->limits.tenants_max + tenant];
}

static inline bool gate_was_tried(const struct gate_waiter *w, uint32_t upstream)
{
    for (uint32_t i = 0; i < w->tried_count; i++)
        if (w->tried[i] == upstream)
            return true;
    return false;
}

static inline enum weir_refusal gate_refuse(struct weir_refused *refused, enum weir_refusal reason,
                                            uint64_t hint_ns, uint32_t upstream)
{
    *refused = (struct weir_refused){
        .reason = reason, .hint_ns = hint_ns, .scope = WEIR_NONE, .upstream = upstream};
    return reason;
}

#endif
