/* ledger_inside: what ledger.c (the rules) and ledger_view.c (looking in) share, and nobody else.
 *
 * Three tables: scopes by id, balances (one a scope and window), holds (found by a chained hash of
 * their id). A scope names its present balance; a hold names the balances of its chain. A balance
 * that is no longer its scope's present one lives until the last hold that names it is forgotten.
 */
#ifndef WEIR_CORE_LEDGER_INSIDE_H
#define WEIR_CORE_LEDGER_INSIDE_H

#include "core/ledger.h"

/* Indices into the tables are kept plus one, so that zero memory says "none". */

/* One scope in one window. Amounts in tokens. */
struct balance {
    int64_t granted;
    int64_t reserved, committed, lapsed;
    int64_t overrun, cut;
    int64_t raised, lowered;
    int64_t forgotten; /* part of committed whose holds are no longer in the table */
    int64_t unmatched;
    uint64_t window;
    uint32_t scope; /* while free: the next free one, plus one */
    uint32_t refs;  /* holds that name it; a past one is freed with the last of them */
    bool live;
};

struct scope {
    int64_t granted; /* WEIR_BALANCE_MAX when unlimited */
    uint64_t window;
    uint32_t parent, balance; /* plus one */
    uint32_t children;
    uint8_t depth; /* 1: a root; 0: not defined */
    bool unlimited;
};

/* One hold fills one cache line. */
struct hold {
    uint64_t id;
    int64_t asked;  /* estimate of the reserve, for telling repeats; -1: no reserve came */
    int64_t booked; /* what it counts in each balance of its chain, under its state */
    uint32_t hash_next, list_prev, list_next;
    uint32_t chain[WEIR_LEDGER_DEPTH_MAX]; /* balances, leaf first, not plus one */
    uint8_t depth;
    uint8_t state;
};
_Static_assert(sizeof(struct hold) == 64, "a hold fills one cache line");
_Static_assert(WEIR_BALANCE_MAX <= INT64_MAX / 8, "sums and differences of a few balances fit");

enum list_name { LIST_HELD, LIST_LAPSED, LIST_FINISHED, LIST_NONE };
#define LIST_COUNT LIST_NONE

struct list {
    uint32_t head, tail, count;
};

struct weir_ledger {
    struct weir_ledger_limits limits;
    uint64_t epoch;
    struct list lists[LIST_COUNT]; /* in the order of arrival, so HELD is in the order of epochs */
    uint32_t holds_touched, holds_free;
    uint32_t balances_touched, balances_free;
    uint32_t bucket_mask;
    uint64_t results[WEIR_LEDGER_RESULT_COUNT];
    uint64_t clipped;
    struct scope *scopes;
    struct balance *balances;
    struct hold *holds;
    uint32_t *buckets;
};

static inline int64_t balance_used(const struct balance *b)
{
    return b->reserved + b->committed + b->lapsed;
}

/* A defined scope, or NULL. */
static inline struct scope *scope_find(const struct weir_ledger *l, uint32_t scope)
{
    if (scope >= l->limits.scopes_max || l->scopes[scope].depth == 0)
        return NULL;
    return &l->scopes[scope];
}

static inline uint32_t *hold_bucket(const struct weir_ledger *l, uint64_t id)
{
    /* Counters run on by one, so the low bits alone spread well; epochs are kept apart. */
    return &l->buckets[(uint32_t)(id + (id >> 40) * UINT64_C(0x9e3779b1)) & l->bucket_mask];
}

static inline struct hold *hold_find(const struct weir_ledger *l, uint64_t id)
{
    for (uint32_t at = *hold_bucket(l, id); at; at = l->holds[at - 1].hash_next)
        if (l->holds[at - 1].id == id)
            return &l->holds[at - 1];
    return NULL;
}

/* The list a state means; LIST_COUNT: none. */
static inline enum list_name hold_list(enum weir_hold_state state)
{
    switch (state) {
    case WEIR_HOLD_HELD:
        return LIST_HELD;
    case WEIR_HOLD_LAPSED:
        return LIST_LAPSED;
    case WEIR_HOLD_SETTLED:
    case WEIR_HOLD_VOID:
    case WEIR_HOLD_LATE:
        return LIST_FINISHED;
    case WEIR_HOLD_NONE:
        break;
    }
    return LIST_NONE;
}

/* Adds what a hold counts to each balance of its chain, or (sign -1) takes it out. */
static inline void hold_count(struct weir_ledger *l, const struct hold *h, int64_t sign)
{
    int64_t amount = sign * h->booked;
    for (uint8_t i = 0; i < h->depth; i++) {
        struct balance *b = &l->balances[h->chain[i]];
        switch ((enum weir_hold_state)h->state) {
        case WEIR_HOLD_HELD:
            b->reserved += amount;
            break;
        case WEIR_HOLD_LAPSED:
            b->lapsed += amount;
            break;
        case WEIR_HOLD_SETTLED:
        case WEIR_HOLD_LATE:
            b->committed += amount;
            break;
        case WEIR_HOLD_VOID:
        case WEIR_HOLD_NONE:
            WEIR_INVARIANT(amount == 0);
            break;
        }
    }
}

#endif
