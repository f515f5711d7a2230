/* ledger_inside: what the files of the ledger share, and nobody else:
 *
 *   ledger.c         scopes and the operations: the rules
 *   ledger_tables.c  memory; where balances and holds come from and go to
 *   ledger_load.c    telling a durable store what changed, and loading what it kept
 *   ledger_view.c    looking in, and the audit
 *
 * Three tables: scopes by id, balances (one a scope and window), holds (found by a chained hash of
 * their id). A scope names its present balance and lists its past ones; a hold names the balances of
 * its chain.
 *
 *   scope_set, window_begin --> PRESENT --next window--> PAST --last hold forgotten--> freed
 *                                  |                      |
 *                                  +---- scope_forget ----+--> LEFT --told--> freed
 *
 * None is freed while it is in the queue of those that changed and have not been told. */
#ifndef WEIR_CORE_LEDGER_INSIDE_H
#define WEIR_CORE_LEDGER_INSIDE_H

#include "core/ledger.h"

/* Indices into the tables are kept plus one, so that zero memory says "none". */

enum balance_place { BALANCE_FREE, BALANCE_PRESENT, BALANCE_PAST, BALANCE_LEFT };

/* One scope in one window. Amounts in tokens. The first cache line is what every operation needs. */
struct balance {
    int64_t granted;
    int64_t reserved, committed, lapsed;
    int64_t overrun;
    uint32_t held_count, lapsed_count;
    uint32_t refs;       /* holds that name it */
    uint32_t scope;      /* while free: the next free one, plus one */
    uint32_t queue_next; /* in the queue, plus one */
    uint8_t place;
    bool queued;  /* in the queue of changed ones */
    bool changed; /* since it was last told */
    bool fresh;   /* no operation and no row has given it an amount yet */

    int64_t forgotten; /* part of committed whose holds are not in the table */
    int64_t cut, raised, lowered;
    int64_t unmatched, refunded;
    uint64_t window;
    uint32_t past_prev, past_next; /* of the same scope, plus one */
};
_Static_assert(sizeof(struct balance) == 128, "a balance fills two cache lines");

struct scope {
    int64_t granted; /* WEIR_BALANCE_MAX when unlimited */
    uint64_t window;
    uint64_t refused;
    uint32_t parent, balance; /* plus one */
    uint32_t past;            /* the first past balance, plus one */
    uint32_t children;
    uint8_t depth; /* 1: a root; 0: not defined */
    bool unlimited;
    bool lapse_refunds;
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
    uint32_t queue; /* balances to be told, the latest first, plus one */
    uint32_t bucket_mask;
    uint64_t results[WEIR_LEDGER_RESULT_COUNT];
    uint64_t clipped;
    uint64_t counted; /* of this epoch; wraps, as nothing judges by it */
    struct scope *scopes;
    struct balance *balances;
    struct hold *holds;
    uint32_t *buckets;
};

/* A place in the queue for a balance. */
static inline void balance_queue(struct weir_ledger *l, uint32_t index)
{
    struct balance *b = &l->balances[index];
    if (b->queued)
        return;
    b->queued = true;
    b->queue_next = l->queue;
    l->queue = index + 1;
}

/* It has to be told. */
static inline void balance_tell(struct weir_ledger *l, uint32_t index)
{
    l->balances[index].changed = true;
    balance_queue(l, index);
}

/* Amounts of the whole chain change. */
static inline void chain_touch(struct weir_ledger *l, const uint32_t *chain, uint8_t depth)
{
    for (uint8_t i = 0; i < depth; i++) {
        l->balances[chain[i]].fresh = false;
        balance_tell(l, chain[i]);
    }
}

static inline bool amount_ok(int64_t amount)
{
    return amount >= 0 && amount <= WEIR_TOK_MAX;
}

/* The named causes only have to cover the excess, which a balance's own limit bounds. */
static inline void add_capped(int64_t *sum, int64_t amount)
{
    *sum = amount > WEIR_BALANCE_MAX - *sum ? WEIR_BALANCE_MAX : *sum + amount;
}

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
    return &l->buckets[(uint32_t)(id + weir_ledger_hold_epoch(id) * UINT64_C(0x9e3779b1)) &
                       l->bucket_mask];
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
static inline void hold_count(struct weir_ledger *l, const struct hold *h, int sign)
{
    int64_t amount = sign * h->booked;
    if (weir_ledger_hold_epoch(h->id) == l->epoch)
        l->counted += (uint64_t)amount;
    for (uint8_t i = 0; i < h->depth; i++) {
        struct balance *b = &l->balances[h->chain[i]];
        switch ((enum weir_hold_state)h->state) {
        case WEIR_HOLD_HELD:
            b->reserved += amount;
            b->held_count += (uint32_t)sign;
            break;
        case WEIR_HOLD_LAPSED:
            b->lapsed += amount;
            b->lapsed_count += (uint32_t)sign;
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

/* ledger_tables.c */

bool ledger_balance_has_room(const struct weir_ledger *l);
/* A balance that counts nothing, in the place that is told, not yet told. Needs room. */
uint32_t ledger_balance_new(struct weir_ledger *l, uint32_t scope, uint64_t window, int64_t granted,
                            enum balance_place place);
/* Moves a present one to the past, or a past one out of its scope. */
void ledger_balance_move(struct weir_ledger *l, uint32_t index, enum balance_place place);
/* Frees one that is not present, that no hold names and that waits for nothing. */
void ledger_balance_release(struct weir_ledger *l, uint32_t index);
/* The grant of a balance changes; a cut below what is used is a named cause. */
void ledger_balance_grant(struct weir_ledger *l, uint32_t index, int64_t granted_tok);

bool ledger_hold_has_room(const struct weir_ledger *l);
/* A new record that counts nothing yet. Needs room. */
struct hold *ledger_hold_new(struct weir_ledger *l, uint64_t id, const uint32_t *chain,
                             uint8_t depth, int64_t asked);
/* The only place where a hold changes its state. */
void ledger_hold_move(struct weir_ledger *l, struct hold *h, enum weir_hold_state to);
void ledger_hold_forget(struct weir_ledger *l, struct hold *h);

#endif
