/* store: where ledger operations are made to last, behind one small interface.
 *
 * The loop submits operations and collects answers later. A store may answer at once (memory) or
 * from a thread of its own that commits in batches (durable); callers are written for the second
 * kind and see no difference:
 *
 *   weir_store_submit(op) --> [queue] --> rules of core/ledger --> [answers] --> weir_store_collect
 *
 * The contract, for the caller:
 *   - Collect once each turn of the loop, after the turn's submits (a store may begin to work only
 *     then), and whenever weir_store_fd is readable, until fewer answers come than were asked for.
 *   - Act on a HELD only when its answer has been collected: no byte goes upstream before that.
 *   - Submit the SETTLE or VOID of a hold after the answer to its RESERVE, never before: within a
 *     batch settles and voids are applied first, so that what they free can be reserved again.
 *   - Exactly one SETTLE or VOID for each hold that was held.
 *
 * The contract, for a store:
 *   - Each operation it accepted is answered once. Apart from the rule above, in the order of
 *     submits.
 *   - Only RESERVE and EXTEND are answered UNAVAILABLE. They, SCOPE, WINDOW, ADJUST and SCOPE_FORGET
 *     can be turned away (submit says false). What was accepted beside them is kept until it is
 *     durable, over outages too; a SETTLE or VOID of a held hold always finds room: a caller never
 *     has to remember what was used.
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
#include "store/names.h"

#define WEIR_STORE_KEY_BYTES 32 /* 16 of the idempotency key's hash, 16 of the body's */
#define WEIR_STORE_NAME_MAX WEIR_NAME_BYTES_MAX /* bytes of a scope's name, with its NUL */
#define WEIR_STORE_TEXT_MAX 200                 /* bytes of a reason, without a NUL */

/* What a settle is made of, for stores that keep usage tables; -1: not reported. */
struct weir_store_usage {
    int64_t input_tok; /* includes what was cached */
    int64_t cached_tok;
    int64_t cache_write_tok;
    int64_t output_tok;
    uint32_t upstream; /* label of its name */
    uint32_t model;    /* label of its name */
    bool estimated;    /* the amount is our count, not the provider's */
    int64_t utc_hour;  /* ADJUST: the hour of use that it corrects, by signed input and output, in a
                          usage row of its own; 0: it corrects no use */
};

struct weir_store_op {
    struct weir_ledger_op ledger;
    uint64_t tag;         /* the caller's own, returned in the answer */
    uint64_t deadline_ns; /* RESERVE, EXTEND: answered by then (loop time); WEIR_NEVER_NS */
    struct weir_store_usage usage; /* SETTLE, ADJUST */
    bool has_key;
    uint8_t key[WEIR_STORE_KEY_BYTES]; /* RESERVE: kept beside the hold */
    bool is_configured; /* SCOPE: comes from the configuration: a grant changed by hand since then
                           stays, unless the configuration's own has changed too */
    const char *text;   /* ADJUST: the reason, copied by submit; cut to WEIR_STORE_TEXT_MAX; NULL:
                           none */
};

struct weir_store_answer {
    uint64_t tag;
    uint64_t hold;
    enum weir_ledger_kind kind;
    enum weir_ledger_result result;
    uint32_t scope; /* of the operation; when refused by the budget: the scope that refused */
};

/* How a store is; texts are for people. */
struct weir_store_status {
    bool is_durable;
    bool is_available; /* false: what is asked of it now is turned away, or waits */
    char trouble[256]; /* what is wrong and what to do; empty: nothing */
    const char *path;  /* of its file; NULL: none. Borrowed until the store is closed */
    uint64_t sync_ns;  /* one sync of the disk, median of a few at the start */
    uint64_t batches;  /* made durable since the start */
    uint64_t ops;      /* operations in them */
    uint64_t rows_written;
    uint64_t queue_now; /* operations that wait or are being made durable */
    uint64_t file_bytes, wal_bytes;
    uint64_t commit_p50_ns, commit_p99_ns; /* of the last commits */
};

enum weir_store_say { WEIR_STORE_SAY_INFO, WEIR_STORE_SAY_WARN, WEIR_STORE_SAY_ERROR };

typedef void weir_store_key_fn(void *ctx, const uint8_t key[WEIR_STORE_KEY_BYTES], uint64_t hold,
                               int64_t created_s);

struct weir_store;

/* What an implementation provides. Each begins its own struct with a struct weir_store. */
struct weir_store_type {
    const char *name; /* "memory": for status and logs */
    bool (*submit)(struct weir_store *st, const struct weir_store_op *op);
    size_t (*collect)(struct weir_store *st, uint64_t now_ns, struct weir_store_answer *answers,
                      size_t answers_max);
    bool (*totals)(struct weir_store *st, uint32_t scope, struct weir_ledger_totals *totals);
    void (*stats)(struct weir_store *st, struct weir_ledger_stats *stats);
    void (*status)(struct weir_store *st, struct weir_store_status *status);
    void (*keys)(struct weir_store *st, weir_store_key_fn *each, void *ctx); /* NULL: none outlive
                                                                                a restart */
    void (*close)(struct weir_store *st);
};

struct weir_store {
    const struct weir_store_type *type;
    struct weir_names *names;
    uint64_t epoch;
    uint64_t counter; /* of the last hold id given */
    int fd;
};

/* The id for a new hold of this run. */
static inline uint64_t weir_store_hold_next(struct weir_store *st)
{
    return weir_ledger_hold_id(st->epoch, ++st->counter);
}

/* Takes a copy of op; it may be begun only when weir_store_collect is called next. false: no room
 * now; collect, and try again or refuse the request. */
WEIR_MUST_USE static inline bool weir_store_submit(struct weir_store *st,
                                                   const struct weir_store_op *op)
{
    return st->type->submit(st, op);
}

/* Takes up to answers_max answers; how many came. What was submitted since the last call is begun,
 * also with answers_max 0. */
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

static inline void weir_store_status(struct weir_store *st, struct weir_store_status *status)
{
    st->type->status(st, status);
}

/* The slot of a scope's name, a new one if it has none: what operations call `scope`. Define it by
 * a SCOPE operation before use. An answer DONE to SCOPE_FORGET, when collected, frees the slot for
 * another name. WEIR_NONE: the table is full, or the name is empty or too long. */
static inline uint32_t weir_store_scope(struct weir_store *st, const char *name)
{
    return weir_names_scope(st->names, name);
}

/* NULL: the slot is free. */
static inline const char *weir_store_scope_name(const struct weir_store *st, uint32_t slot)
{
    return weir_names_scope_text(st->names, slot);
}

/* Slots are 0 .. this - 1. */
static inline uint32_t weir_store_scopes_max(const struct weir_store *st)
{
    return weir_names_scopes_max(st->names);
}

/* The label of an upstream's or model's name, for weir_store_usage; WEIR_LABEL_OTHER when the table
 * is full. */
static inline uint32_t weir_store_label(struct weir_store *st, const char *text)
{
    return weir_names_label(st->names, text);
}

/* The idempotency keys that outlived a restart: of holds of earlier runs that are not yet purged,
 * but for those that are void or were settled with nothing: their work cost nothing and may be done
 * anew. In the order of their ids. Calls each once for each; call it once, at the start. */
static inline void weir_store_keys(struct weir_store *st, weir_store_key_fn *each, void *ctx)
{
    if (st->type->keys)
        st->type->keys(st, each, ctx);
}

/* Makes durable what was accepted, then frees all. NULL is fine. */
static inline void weir_store_close(struct weir_store *st)
{
    if (st)
        st->type->close(st);
}

struct weir_memory_store_config {
    uint32_t scopes_max;    /* slots */
    uint32_t holds_max;     /* alive at once; 1 .. 2^20 */
    uint32_t finished_keep; /* finished holds remembered, so that repeats are known; <= 2^20 */
};

/* The store of the process's own memory: answers at once, lasts as long as the process. NULL: no
 * memory. Its tables are mapped, not touched: unused room costs nothing. */
WEIR_MUST_USE struct weir_store *
weir_memory_store_open(const struct weir_memory_store_config *config);
/* weir_ledger_audit of a memory store: NULL, or the fact that is false. For tests. */
const char *weir_memory_store_audit(struct weir_store *st);

/* The store of one SQLite file. */
struct weir_sqlite_config {
    const char *path;        /* created when missing, mode 0600; its folder must exist */
    uint32_t scopes_max;     /* slots, beside those that the file needs at once */
    uint32_t holds_max;      /* alive at once, beside those in the file; 1 .. 2^20 */
    uint32_t finished_keep;  /* finished holds remembered in memory; <= 2^20 */
    uint32_t queue_max;      /* operations under way, beside ends of holds; 0: 65,536 */
    int64_t keep_finished_s; /* rows of finished holds in the file, then purged */
    int64_t keep_journal_s;  /* journal rows, then folded into the base snapshot */
    int64_t keep_usage_s;    /* usage rows and balances of past windows, then purged */
    /* Nothing is purged or folded for so long after the clock jumped ahead by more than an hour
     * (while it ran), or a month (since the last run). 0: every clock is believed at once. */
    int64_t clock_doubt_s;
    bool adopt;              /* use a file that is older than its lock file says */
    int64_t (*wall_s)(void); /* for columns that people read; NULL: time(2) */
    void (*say)(enum weir_store_say level, const char *text); /* what an operator should know; any
                                                                 thread; NULL: stderr */
    const char *vfs; /* of SQLite, by name; NULL: its default */
};

/* Opens or creates the file, takes its lock, begins a new epoch and lets the holds of earlier ones
 * lapse. NULL: error_text says what is wrong and what to do; the file was not changed, unless a
 * migration had begun (which is all or nothing). */
WEIR_MUST_USE struct weir_store *weir_sqlite_store_open(const struct weir_sqlite_config *config,
                                                        char *error_text, size_t error_bytes);

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
