/* sched_internal: what the scheduler and its policies share. Only sched*.c include it.
 *
 * sched.c keeps the FIFOs and the counts; a policy keeps the *order* of the tenants that are in it,
 * that is of those that have items and are not suspended.
 *
 * drr-cost and vtc measure a tenant by a counter: the work charged to it so far, divided by its
 * weight, in micro-work. The division is exact: what it leaves is kept in `rest` and counts towards
 * the next charge. Counters only grow with the work served; so that they never reach the end of 64
 * bits, an *era* is subtracted from all of them when the smallest has passed two: at once for what
 * is in an order, and for each tenant when it is next looked at (sched_tenant). */
#ifndef WEIR_CORE_SCHED_INTERNAL_H
#define WEIR_CORE_SCHED_INTERNAL_H

#include "core/bits.h"
#include "core/heap.h"
#include "core/num.h"
#include "core/sched.h"

#define SCHED_ERA (UINT64_C(1) << 61)
#define SCHED_LEAD_MAX (UINT64_C(1) << 60) /* no debt per weight is larger */

/* One cache line each. */
struct sched_tenant {
    uint64_t counter;    /* work charged per weight */
    uint64_t base;       /* counter at the last arrival; refunds stop there */
    uint32_t rest;       /* 0 .. weight - 1: work charged beside counter */
    uint32_t eras;       /* eras subtracted from counter and base */
    uint32_t weight;     /* 0 means 1 */
    uint32_t suspended;  /* 0 or 1 */
    uint32_t head, tail; /* its FIFO: 1 + item; 0 = empty */
    uint32_t items;
    uint32_t turns_left; /* drr: of the turn that has begun; 0 = none has */
    uint32_t where;      /* drr, drr-cost: SCHED_OUT, _IN_SET + 0 or 1, _ASLEEP + the list */
    uint32_t next, prev; /* drr-cost: 1 + tenant, in the list of sleepers */
    uint32_t unused;
};
_Static_assert(sizeof(struct sched_tenant) == 64, "a tenant is one cache line");

/* The order of a policy. A tenant is in it from arrive until leave, or until a charge that takes
 * its last item. */
struct sched_order {
    /* It has an item and is not suspended, and had not or was. */
    void (*arrive)(struct weir_sched *s, uint32_t tenant);
    /* Its last item was removed, or it is suspended. */
    void (*leave)(struct weir_sched *s, uint32_t tenant);
    /* Its oldest item is another one, without a charge. */
    void (*head_changed)(struct weir_sched *s, uint32_t tenant);
    /* The tenant to serve. The order is not empty. */
    uint32_t (*choose)(struct weir_sched *s);
    /* The chosen tenant's oldest item was taken out for dispatch. */
    void (*charge)(struct weir_sched *s, uint32_t tenant, uint64_t work_uwork);
    /* An item is back at the head of its FIFO. in_order: it was in the order before. */
    void (*put_back)(struct weir_sched *s, uint32_t tenant, uint64_t work_uwork, bool in_order);
    void (*correct)(struct weir_sched *s, uint32_t tenant, int64_t delta_uwork);
    /* The counter that an arrival of now would get, were it new; 0 where there are no counters. */
    uint64_t (*level)(struct weir_sched *s);
    void (*forget)(struct weir_sched *s, uint32_t tenant);
};

extern const struct sched_order sched_order_fifo;
extern const struct sched_order sched_order_drr;
extern const struct sched_order sched_order_drr_cost;
extern const struct sched_order sched_order_vtc;

/* drr and drr-cost go by rounds: every tenant in `due` is visited once, in the order of the
 * indices; those of `later` have been, or came behind the place the round has reached. The order of
 * two tenants is thus the same in every round, on which the bounds rest. */
struct sched_round {
    struct weir_bits set[2];
    uint32_t due;    /* which of them is due; they change places from round to round */
    uint32_t place;  /* no tenant that is due is below */
    uint32_t passed; /* 1 + the highest index visited in this round; 0 = none */
};

/* sched_tenant.where: in no set, in set 0 or 1, or, from SCHED_ASLEEP on, in a list of sleepers. */
enum { SCHED_OUT, SCHED_IN_SET, SCHED_ASLEEP = SCHED_IN_SET + 2 };

/* The next tenant that is due, WEIR_NONE when the round is over. */
uint32_t sched_round_next(struct sched_round *r);

/* The later ones become due. Nobody is due. */
void sched_round_start(struct sched_round *r);

/* Whether somebody waits for the next round. */
static inline bool sched_round_has_later(const struct sched_round *r)
{
    return weir_bits_next(&r->set[!r->due], 0) != WEIR_NONE;
}

static inline bool sched_round_is_due(const struct sched_round *r, const struct sched_tenant *t)
{
    return t->where == SCHED_IN_SET + r->due;
}

/* Whether the round has gone by this tenant: it waits for the next round. */
static inline bool sched_round_has_passed(const struct sched_round *r, uint32_t tenant)
{
    return tenant < r->passed;
}

/* Notes a visit of a tenant that is due. */
static inline void sched_round_visit(struct sched_round *r, uint32_t tenant)
{
    r->place = tenant;
    if (r->passed <= tenant)
        r->passed = tenant + 1;
}

/* Moves a tenant that is not asleep, wherever it is. Due again though passed, it goes next. */
void sched_round_out(struct sched_round *r, struct sched_tenant *t, uint32_t tenant);
void sched_round_due(struct sched_round *r, struct sched_tenant *t, uint32_t tenant);
void sched_round_later(struct sched_round *r, struct sched_tenant *t, uint32_t tenant);

#define SCHED_SLEEP_LEVELS 11u /* of 6 bits: 64 bits */

/* drr-cost: tenants that are out for more than a round, by their counter. */
struct sched_sleepers {
    uint64_t now; /* no sleeper's counter is below */
    uint64_t filled[SCHED_SLEEP_LEVELS];
    uint32_t first[SCHED_SLEEP_LEVELS * 64];
};

struct weir_sched {
    struct weir_sched_limits limits;
    enum weir_sched_policy policy;
    const struct sched_order *order;
    struct weir_sched_item *items;
    struct sched_tenant *tenants;
    uint32_t items_now;
    uint32_t items_ready;
    uint32_t tenants_ready;
    uint32_t eras;
    struct weir_heap heap; /* fifo: by arrival of the oldest item; vtc: by counter */
    uint64_t arrivals;     /* fifo */
    uint64_t returns;      /* fifo */
    uint64_t floor;        /* vtc: counter of the last tenant served, before it was charged */
    uint32_t last;         /* vtc: 1 + the tenant whose last item left an empty order; 0 = none */
    struct sched_round round;
    uint64_t granted;      /* drr-cost: work per weight granted up to this round */
    uint64_t granted_prev; /* and up to the one before */
    uint64_t granted_next; /* and with the next */
    uint64_t mean_x64;     /* 64 x the running mean cost */
    struct sched_sleepers sleepers;
};

/* A tenant with its counters brought into the present era. */
static inline struct sched_tenant *sched_tenant(struct weir_sched *s, uint32_t tenant)
{
    WEIR_INVARIANT(tenant < s->limits.tenants_max);
    struct sched_tenant *t = &s->tenants[tenant];
    if (t->eras != s->eras) {
        uint32_t missed = s->eras - t->eras;
        uint64_t by = missed < 8 ? missed * SCHED_ERA : UINT64_MAX;
        t->counter = weir_sub_sat_u64(t->counter, by);
        t->base = weir_sub_sat_u64(t->base, by);
        t->eras = s->eras;
    }
    return t;
}

static inline uint32_t sched_weight(const struct sched_tenant *t)
{
    return t->weight ? t->weight : 1;
}

static inline uint64_t sched_head_work(const struct weir_sched *s, const struct sched_tenant *t)
{
    return s->items[t->head - 1].work_uwork;
}

/* Adds work to a tenant's counter, at most to SCHED_LEAD_MAX above `level`. */
static inline void sched_counter_add(struct sched_tenant *t, uint64_t work_uwork, uint64_t level)
{
    uint32_t weight = sched_weight(t);
    uint64_t steps = work_uwork;
    if (weight != 1) {
        steps = (work_uwork + t->rest) / weight;
        t->rest = (uint32_t)((work_uwork + t->rest) % weight);
    }
    t->counter = weir_min_u64(t->counter + steps, level + SCHED_LEAD_MAX);
}

/* The exact reverse, but not below the counter with which the tenant came. */
static inline void sched_counter_sub(struct sched_tenant *t, uint64_t work_uwork)
{
    uint32_t weight = sched_weight(t);
    uint64_t steps = work_uwork / weight;
    uint32_t rest = (uint32_t)(work_uwork % weight);
    if (t->rest < rest) {
        t->rest += weight;
        steps++;
    }
    t->rest -= rest;
    if (steps > t->counter || t->counter - steps < t->base) {
        t->counter = t->base;
        t->rest = 0;
    } else {
        t->counter -= steps;
    }
}

/* An arrival: level with `level` or behind it by its own debt; no credit for the time away. */
static inline void sched_counter_lift(struct sched_tenant *t, uint64_t level)
{
    if (t->counter < level) {
        t->counter = level;
        t->rest = 0;
    }
    t->base = t->counter;
}

#endif
