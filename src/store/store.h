/* store: where ledger operations are made to last, behind one small interface.
 *
 * The loop submits operations and collects answers later. A store may answer at once (memory) or
 * from a thread of its own that commits in batches (durable); callers are written for the second
 * kind and see no difference:
 *
 *   weir_store_submit(op) --> [queue] --> rules of core/ledger --> [answers] --> weir_store_collect
 *
 * The contract, for the caller:
 *   - Collect once each turn of the loop, and whenever weir_store_fd is readable, until fewer
 *     answers come than were asked for.
 *   - Act on a HELD only when its answer has been collected: no byte goes upstream before that.
 *   - Submit the SETTLE or VOID of a hold after the answer to its RESERVE, never before: within a
 *     batch settles and voids are applied first, so that what they free can be reserved again.
 *   - Exactly one SETTLE or VOID for each hold that was held.
 *
 * The contract, for a store:
 *   - Each operation it accepted is answered once. Apart from the rule above, in the order of
 *     submits.
 *   - Only RESERVE, EXTEND, SCOPE, WINDOW, ADJUST and SCOPE_FORGET can be turned away or answered
 *     UNAVAILABLE. A SETTLE or VOID of a held hold always finds room and is kept until it is
 *     durable: a caller never has to remember what was used.
 *   - After UNAVAILABLE to a RESERVE nothing stays held: should it have become durable all the
 *     same, the store voids it itself.
 *   - Unknown means no: a store that cannot tell answers UNAVAILABLE by the operation's deadline.
 *
 * Thread: loop, all of it. Tags and ids, never pointers, cross to a store's own thread.
 * Source: docs/architecture.md, "The ledger". */
#ifndef WEIR_STORE_STORE_H
#define WEIR_STORE_STORE_H

#include "core/base.h"
#include "core/ledger.h"

/* What a settle is made of, for stores that keep usage tables; -1: not reported. */
struct weir_store_usage {
    int64_t input_tok; /* includes what was cached */
    int64_t cached_tok;
    int64_t cache_write_tok;
    int64_t output_tok;
    uint32_t upstream; /* index, WEIR_NONE: none */
    uint32_t model;    /* index, WEIR_NONE: unknown */
    bool estimated;    /* the amount is our count, not the provider's */
};

struct weir_store_op {
    struct weir_ledger_op ledger;
    uint64_t tag;         /* the caller's own, returned in the answer */
    uint64_t deadline_ns; /* RESERVE, EXTEND: answered by then (loop time); WEIR_NEVER_NS */
    struct weir_store_usage usage; /* SETTLE */
};

struct weir_store_answer {
    uint64_t tag;
    uint64_t hold;
    enum weir_ledger_kind kind;
    enum weir_ledger_result result;
    uint32_t scope; /* of the operation; when refused by the budget: the scope that refused */
};

struct weir_store;

/* What an implementation provides. Each begins its own struct with a struct weir_store. */
struct weir_store_type {
    const char *name; /* "memory": for status and logs */
    bool (*submit)(struct weir_store *st, const struct weir_store_op *op);
    size_t (*collect)(struct weir_store *st, uint64_t now_ns, struct weir_store_answer *answers,
                      size_t answers_max);
    bool (*totals)(struct weir_store *st, uint32_t scope, struct weir_ledger_totals *totals);
    void (*stats)(struct weir_store *st, struct weir_ledger_stats *stats);
    void (*close)(struct weir_store *st);
};

struct weir_store {
    const struct weir_store_type *type;
    uint64_t epoch;
    uint64_t counter; /* of the last hold id given */
    int fd;
};

/* The id for a new hold of this run. */
static inline uint64_t weir_store_hold_next(struct weir_store *st)
{
    return weir_ledger_hold_id(st->epoch, ++st->counter);
}

/* Takes a copy of op. false: no room now; collect, and try again or refuse the request. */
WEIR_MUST_USE static inline bool weir_store_submit(struct weir_store *st,
                                                   const struct weir_store_op *op)
{
    return st->type->submit(st, op);
}

/* Takes up to answers_max answers; how many came. */
WEIR_MUST_USE static inline size_t weir_store_collect(struct weir_store *st, uint64_t now_ns,
                                                      struct weir_store_answer *answers,
                                                      size_t answers_max)
{
    return st->type->collect(st, now_ns, answers, answers_max);
}

/* Readable when answers wait; collecting makes it unreadable again. -1: answers are there as soon
 * as submit returns. Borrowed: watch it, do not read or close it. */
static inline int weir_store_fd(const struct weir_store *st)
{
    return st->fd;
}

/* A copy of a scope's balance as of the last commit. false: not defined. */
WEIR_MUST_USE static inline bool weir_store_totals(struct weir_store *st, uint32_t scope,
                                                   struct weir_ledger_totals *totals)
{
    return st->type->totals(st, scope, totals);
}

static inline void weir_store_stats(struct weir_store *st, struct weir_ledger_stats *stats)
{
    st->type->stats(st, stats);
}

/* Makes durable what was accepted, then frees all. NULL is fine. */
static inline void weir_store_close(struct weir_store *st)
{
    if (st)
        st->type->close(st);
}

struct weir_memory_store_config {
    uint32_t scopes_max;
    uint32_t holds_max;     /* alive at once; 1 .. 2^20 */
    uint32_t finished_keep; /* finished holds remembered, so that repeats are known; <= 2^20 */
};

/* The store of the process's own memory: answers at once, lasts as long as the process. NULL: no
 * memory. Its tables are mapped, not touched: unused room costs nothing. */
WEIR_MUST_USE struct weir_store *
weir_memory_store_open(const struct weir_memory_store_config *config);
/* weir_ledger_audit of a memory store: NULL, or the fact that is false. For tests. */
const char *weir_memory_store_audit(struct weir_store *st);

/* For tests: behaves as a durable store at its worst, around another store (which it owns from then
 * on). Operations wait for a batch; settles and voids go before the rest; answers come late. */
struct weir_faulty_store_config {
    uint32_t queue_max;      /* operations under way, beside settles and voids */
    uint32_t delay_collects; /* collects that pass before an operation is applied and answered */
    uint64_t
        unavailable_at; /* the n-th reserve or extend (from 1) is answered UNAVAILABLE; 0: none */
    uint64_t unavailable_for; /* and so are the next ones, this many in all; 0 counts as 1 */
    bool unavailable_applied; /* it became durable all the same: the store has to void it itself */
    bool with_fd;             /* has a descriptor to watch, as a store with a thread of its own */
};
WEIR_MUST_USE struct weir_store *
weir_faulty_store_open(struct weir_store *inner, const struct weir_faulty_store_config *config);

#endif
