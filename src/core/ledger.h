/* ledger: the rules of the token budget, as functions over memory that the host gives.
 *
 * A scope is a node of the budget tree and holds a grant. Before a request is sent, its estimate is
 * set aside by a hold on a leaf scope and on all its parents, in all of them or in none. When the
 * request is over the hold is settled with what was really used, or void if nothing was sent.
 *
 *                reserve
 *                   |
 *                   v    settle
 *      extend +--> HELD --------------> SETTLED      counts as committed: what was used
 *             |     | |    void
 *             +-----+ +---------------> VOID         counts nothing
 *                   |                    |
 *     owner's epoch |                    | settle after all
 *     is over       v      settle        v
 *                 LAPSED -------------> LATE         counts as committed: what was used
 *            counts as lapsed:           ^
 *            the whole estimate, or      | settle of an id that is not known: "unmatched"
 *            nothing if its leaf's     (none)
 *            rule is to refund
 *
 * What holds after every call, for each balance (one scope in one window):
 *   - used = reserved + committed + lapsed, and each is exactly the sum over its holds (committed
 *     also keeps what forgotten holds counted, and the adjustments);
 *   - used <= granted + overrun + cut + raised: every excess has a named cause;
 *   - nothing that was used is ever booked nowhere, however late or large.
 *
 * A hold's id is made by the caller before it reserves, so that every call may be repeated: the
 * same words again change nothing and answer SAME; other words under the same id answer CONFLICT
 * and the first stay. A refusal is not remembered: the same id may succeed later.
 *
 * A hold belongs to an epoch, one run of its owner, and never ends by time. It stays in the window
 * in which it was reserved, also when it is settled in a later one.
 *
 * Amounts are whole tokens, 0 .. WEIR_TOK_MAX. A balance is at most WEIR_BALANCE_MAX.
 *
 * Memory: one block sized by the limits; zero memory is the right start and is touched only as
 * scopes and holds come, so unused room costs nothing. Every call is O(1) but where it says
 * otherwise. Thread: the one that owns the ledger: loop with the memory store, ledger with a
 * durable one. Source: docs/architecture.md, "The ledger". */
#ifndef WEIR_CORE_LEDGER_H
#define WEIR_CORE_LEDGER_H

#include "core/base.h"

struct weir_ledger;

/* A leaf and its parents together: the length of a hold's chain. */
#define WEIR_LEDGER_DEPTH_MAX 6
#define WEIR_LEDGER_EPOCH_MAX ((UINT64_C(1) << 24) - 1)
#define WEIR_LEDGER_COUNTER_MAX ((UINT64_C(1) << 40) - 1)

struct weir_ledger_limits {
    uint32_t scopes_max;   /* ids 0 .. scopes_max - 1 are the host's to give */
    uint32_t balances_max; /* >= scopes_max; the rest is for past windows that holds still name, and
                              for those left since changes were last told */
    uint32_t holds_max;    /* live, lapsed and finished ones not yet forgotten; 1 .. 2^30 */
};

enum weir_hold_state {
    WEIR_HOLD_NONE,
    WEIR_HOLD_HELD,
    WEIR_HOLD_SETTLED,
    WEIR_HOLD_VOID,
    WEIR_HOLD_LAPSED,
    WEIR_HOLD_LATE
};
#define WEIR_HOLD_STATE_COUNT 6

/* The answer to an operation. Which can come from which is said at each function. */
enum weir_ledger_result {
    WEIR_LEDGER_HELD,        /* set aside (reserve), or enlarged (extend) */
    WEIR_LEDGER_SETTLED,     /* use booked, the rest of the hold is free again */
    WEIR_LEDGER_VOIDED,      /* the whole hold is free again */
    WEIR_LEDGER_LATE,        /* use booked on a hold that had lapsed or was void */
    WEIR_LEDGER_UNMATCHED,   /* use booked for an id that is not known: worth an alarm */
    WEIR_LEDGER_DONE,        /* scope, window or adjustment took effect */
    WEIR_LEDGER_SAME,        /* a repeat of what was done before: nothing changed */
    WEIR_LEDGER_FINISHED,    /* a repeat, but the hold is no longer held: do not send under it */
    WEIR_LEDGER_CONFLICT,    /* the id is in use for something else: nothing changed */
    WEIR_LEDGER_UNKNOWN,     /* no such hold: nothing changed */
    WEIR_LEDGER_BUSY,        /* only holds in flight stand in the way: may fit soon */
    WEIR_LEDGER_EXHAUSTED,   /* really spent (committed or lapsed): no wait in this window helps */
    WEIR_LEDGER_NEVER,       /* more than a scope's whole grant */
    WEIR_LEDGER_FULL,        /* a table is at its limit */
    WEIR_LEDGER_BAD,         /* amount, id or scope out of range: a defect of the caller's */
    WEIR_LEDGER_UNAVAILABLE, /* never from these rules: a store could not make it durable */
};
#define WEIR_LEDGER_RESULT_COUNT 16

/* One word for metrics, JSON and tables of tests. Never NULL. */
const char *weir_ledger_result_name(enum weir_ledger_result result);
const char *weir_hold_state_name(enum weir_hold_state state);

/* An operation as a value: what a store queues, journals and replays. */
enum weir_ledger_kind {
    WEIR_LEDGER_RESERVE,      /* hold, scope, amount_tok */
    WEIR_LEDGER_EXTEND,       /* hold, amount_tok (the new whole) */
    WEIR_LEDGER_SETTLE,       /* hold, scope, amount_tok (really used) */
    WEIR_LEDGER_VOID,         /* hold */
    WEIR_LEDGER_SCOPE,        /* scope, parent, amount_tok (granted), unlimited,
                                 lapse_refunds */
    WEIR_LEDGER_SCOPE_FORGET, /* scope */
    WEIR_LEDGER_WINDOW,       /* scope, window */
    WEIR_LEDGER_ADJUST        /* scope, amount_tok (signed) */
};

struct weir_ledger_op {
    enum weir_ledger_kind kind;
    uint32_t scope;
    uint32_t parent; /* WEIR_NONE: a root */
    bool unlimited;
    bool lapse_refunds;
    uint64_t hold;
    int64_t amount_tok;
    uint64_t window;
};

struct weir_ledger_answer {
    enum weir_ledger_result result;
    uint32_t scope; /* BUSY, EXHAUSTED, NEVER: the scope that refused, else WEIR_NONE */
};

struct weir_ledger_rules {
    uint32_t parent; /* WEIR_NONE: a root */
    bool unlimited;
    bool lapse_refunds;  /* what a dead owner held here is given back: under-counts what it used */
    int64_t granted_tok; /* ignored when unlimited */
};

struct weir_ledger_totals {
    uint32_t parent; /* WEIR_NONE: a root */
    bool unlimited;
    bool lapse_refunds;
    uint64_t window;
    int64_t granted_tok; /* WEIR_BALANCE_MAX when unlimited */
    int64_t reserved_tok;
    int64_t committed_tok; /* below 0 only while adjustments outweigh use */
    int64_t lapsed_tok;
    int64_t overrun_tok;    /* use above its hold, summed */
    int64_t cut_tok;        /* how far cuts of the grant went below what was used, summed */
    int64_t raised_tok;     /* upward adjustments, summed */
    int64_t lowered_tok;    /* downward adjustments, summed, positive */
    int64_t unmatched_tok;  /* part of committed that no reserve preceded */
    int64_t refunded_tok;   /* estimates of lapsed holds given back, summed: what may be missing */
    uint64_t refused_count; /* reserves and extends this scope refused, over all windows, since it
                               was defined; not kept by a durable store */
    uint32_t held_count;    /* holds in this window */
    uint32_t lapsed_count;
};

struct weir_ledger_hold {
    uint64_t id;
    enum weir_hold_state state;
    uint32_t scope;     /* the leaf it was reserved on */
    bool unmatched;     /* made by a settle without a reserve */
    int64_t asked_tok;  /* the estimate of its reserve; -1 when unmatched */
    int64_t booked_tok; /* what it counts now: estimate while HELD or LAPSED (0 when refunded), use
                           when SETTLED or LATE */
};

/* One scope in one window with all it counts: a row of a durable store. */
struct weir_ledger_balance {
    uint32_t scope;
    uint64_t window;
    int64_t granted_tok; /* WEIR_BALANCE_MAX: unlimited */
    int64_t reserved_tok;
    int64_t committed_tok;
    int64_t lapsed_tok;
    int64_t overrun_tok;
    int64_t cut_tok;
    int64_t raised_tok;
    int64_t lowered_tok;
    int64_t unmatched_tok;
    int64_t refunded_tok;
};

struct weir_ledger_link {
    uint32_t scope;
    uint64_t window;
};

/* One hold with its chain: a row of a durable store. */
struct weir_ledger_record {
    uint64_t id;
    enum weir_hold_state state;
    int64_t asked_tok;                                    /* as in struct weir_ledger_hold */
    int64_t booked_tok;                                   /* the same */
    uint8_t depth;                                        /* links in use */
    struct weir_ledger_link chain[WEIR_LEDGER_DEPTH_MAX]; /* leaf first */
};

struct weir_ledger_stats {
    uint64_t epoch;
    uint32_t held, lapsed, finished;            /* holds by state, now */
    uint64_t results[WEIR_LEDGER_RESULT_COUNT]; /* answers since start */
    uint64_t clipped;    /* settles booked short because a balance reached WEIR_BALANCE_MAX */
    int64_t counted_tok; /* what the holds of this epoch count, each once, forgotten ones too */
};

static inline uint64_t weir_ledger_hold_id(uint64_t epoch, uint64_t counter)
{
    return epoch << 40 | counter;
}

/* The run that a hold belongs to. */
static inline uint64_t weir_ledger_hold_epoch(uint64_t hold)
{
    return hold >> 40;
}

static inline int64_t weir_ledger_used_tok(const struct weir_ledger_totals *t)
{
    return t->reserved_tok + t->committed_tok + t->lapsed_tok;
}

size_t weir_ledger_bytes(const struct weir_ledger_limits *limits);
/* mem: zero, aligned to 64 bytes, bytes as told; the host keeps it until it drops the ledger.
 * epoch: 1 .. WEIR_LEDGER_EPOCH_MAX, higher than that of any run before. */
struct weir_ledger *weir_ledger_init(void *mem, size_t bytes,
                                     const struct weir_ledger_limits *limits, uint64_t epoch);

/* Defines a scope or changes it; balances are kept.
 *
 * rules->parent       WEIR_NONE or a defined scope; holds alive stay on the chain they were
 *                     reserved on
 * rules->granted_tok  0 .. WEIR_TOK_MAX. Below what is used is allowed: nothing more is admitted,
 *                     running holds finish
 *
 * Fails:  BAD (ids, amount, a parent that is below the scope, a chain that would be too deep), FULL
 * (no balance is free). Nothing is changed then.
 * Cost:   O(1), and O(scopes) when a scope with children goes to another level. */
struct weir_ledger_answer weir_ledger_scope_set(struct weir_ledger *l, uint32_t scope,
                                                const struct weir_ledger_rules *rules);
/* Forgets a scope and the finished holds that name it. Its id may be given to another as soon as
 * what changed has been told (weir_ledger_changed_next).
 * Fails:  BAD (not defined), BUSY (children, or holds held or lapsed in any of its windows).
 * Cost:   O(past windows), and when finished holds name it O(finished holds), oldest first. */
struct weir_ledger_answer weir_ledger_scope_forget(struct weir_ledger *l, uint32_t scope);
/* Opens a window with a fresh balance. Windows only go up: the present one again is SAME, a lower
 * one BAD. The past balance lives on while holds name it and until its last change is told.
 * Fails:  BAD, FULL. */
struct weir_ledger_answer weir_ledger_window_begin(struct weir_ledger *l, uint32_t scope,
                                                   uint64_t window);

/* Sets est_tok aside on the scope and all its parents, or on none of them.
 *
 * hold  weir_ledger_hold_id(the ledger's epoch, 1 ..), never used for another request
 *
 * Gives:  HELD, SAME, FINISHED.
 * Fails:  BUSY, EXHAUSTED, NEVER with the scope that refused (the most final of the chain, the
 * nearest to the leaf among equals), CONFLICT, FULL, BAD. Balances are unchanged on all of them. */
WEIR_MUST_USE struct weir_ledger_answer weir_ledger_reserve(struct weir_ledger *l, uint64_t hold,
                                                            uint32_t scope, int64_t est_tok);
/* Enlarges a hold to est_tok in all, under the rules of reserve; less than it has is SAME.
 * Gives:  HELD, SAME.   Fails:  as reserve, UNKNOWN, FINISHED (no longer held). */
WEIR_MUST_USE struct weir_ledger_answer weir_ledger_extend(struct weir_ledger *l, uint64_t hold,
                                                           int64_t est_tok);
/* Books what was used and frees the rest. Always books when it is not a repeat.
 *
 * scope  where the use is booked if the hold is not known; else the hold's own chain counts
 *
 * Gives:  SETTLED, LATE, UNMATCHED, SAME.
 * Fails:  CONFLICT (settled before with another amount; the first stays), BAD (amount; or the hold
 * is not known and neither is the scope). */
struct weir_ledger_answer weir_ledger_settle(struct weir_ledger *l, uint64_t hold, uint32_t scope,
                                             int64_t actual_tok);
/* Frees a hold of which no byte was sent upstream.
 * Gives:  VOIDED, SAME.
 * Fails:  CONFLICT (settled, late or lapsed; a lapsed one is freed by settling 0), UNKNOWN. */
struct weir_ledger_answer weir_ledger_void(struct weir_ledger *l, uint64_t hold);

/* Corrects the committed tokens of a scope and its parents by a signed amount.
 * Gives:  DONE.   Fails:  BAD (scope, amount, or a balance would leave its range). */
struct weir_ledger_answer weir_ledger_adjust(struct weir_ledger *l, uint32_t scope,
                                             int64_t amount_tok);

/* Does op by the function of its kind. */
struct weir_ledger_answer weir_ledger_apply(struct weir_ledger *l, const struct weir_ledger_op *op);

/* A new owner takes over: holds of older epochs can lapse from now on, and only ids of this one can
 * be reserved. false: not higher than the present epoch, or out of range; nothing changed. */
WEIR_MUST_USE bool weir_ledger_epoch_begin(struct weir_ledger *l, uint64_t epoch);
/* Lapses up to count_max held holds of older epochs, oldest first: they stay charged until they are
 * settled, or are given back if their leaf scope's rule is lapse_refunds; a settle books either way.
 * Returns how many; fewer than count_max: none is left.   Cost: O(returned). */
uint32_t weir_ledger_lapse(struct weir_ledger *l, uint32_t count_max);
/* Forgets up to count_max finished holds, oldest first, while more than keep are there. What they
 * counted stays. A repeat for a forgotten id is UNMATCHED or UNKNOWN, so keep as many as repeats
 * can reach back.   Returns how many.   Cost: O(returned). */
uint32_t weir_ledger_forget(struct weir_ledger *l, uint32_t keep, uint32_t count_max);

/* Write-through and loading, for a store that keeps the ledger elsewhere: each balance and each
 * hold is a row, and the rows of one moment, loaded into a fresh ledger, are that ledger.
 *
 * Takes the next balance that has changed since it was last taken; one that was just defined or
 * whose window just began counts as changed. In no order; a balance that changed many times is told
 * once. false: none is left. A changed balance is not freed before, so a host without a store takes
 * them too.   Cost: O(1), and once for each loaded balance. */
WEIR_MUST_USE bool weir_ledger_changed_next(struct weir_ledger *l,
                                            struct weir_ledger_balance *balance);
/* false: not known. */
WEIR_MUST_USE bool weir_ledger_record(const struct weir_ledger *l, uint64_t hold,
                                      struct weir_ledger_record *record);
/* Loads a row. First the scopes are defined (weir_ledger_scope_set, parents first), then come the
 * balances, then the holds in the order of their ids, then weir_ledger_audit must say NULL. Amounts
 * are the balances'; a hold only links to them. Nothing that is loaded counts as changed.
 *
 * A balance of the present window takes the place of one that counts nothing yet. So does one of a
 * later window, which becomes the present one; its grant is the scope's from then on. One of an
 * earlier window is a past one: if no hold that is loaded before the next weir_ledger_changed_next
 * names it, it is dropped.
 *
 * Also at any time: the rows of a scope that is defined anew, directly after weir_ledger_scope_set;
 * and one FINISHED hold that was forgotten, after the balances of its chain.
 *
 * Gives:  DONE, SAME (a balance that is known: memory's own stays).
 * Fails:  BAD (out of range or contradicting itself, an unknown scope or balance, a known hold, a
 * settled amount that its balances do not hold), FULL. Nothing is changed then.
 * Cost:   O(chain); a balance of a past window is sought among those of its scope, last found first.
 */
WEIR_MUST_USE struct weir_ledger_answer
weir_ledger_load_balance(struct weir_ledger *l, const struct weir_ledger_balance *balance);
WEIR_MUST_USE struct weir_ledger_answer
weir_ledger_load_hold(struct weir_ledger *l, const struct weir_ledger_record *record);

/* The balance of a scope in its present window. false: not defined. */
WEIR_MUST_USE bool weir_ledger_totals(const struct weir_ledger *l, uint32_t scope,
                                      struct weir_ledger_totals *totals);
void weir_ledger_stats(const struct weir_ledger *l, struct weir_ledger_stats *stats);
/* false: not known. */
WEIR_MUST_USE bool weir_ledger_hold_find(const struct weir_ledger *l, uint64_t hold,
                                         struct weir_ledger_hold *view);
/* The lowest id that is held; 0: none is.   Cost: O(held). */
uint64_t weir_ledger_held_low(const struct weir_ledger *l);
/* The next hold at or after *cursor, in no order; start from 0. false: none left. Holds that come
 * or go between calls may be missed or seen. */
WEIR_MUST_USE bool weir_ledger_hold_next(const struct weir_ledger *l, uint32_t *cursor,
                                         struct weir_ledger_hold *view);

/* Checks all that is said above, over every hold and balance: NULL, or the first fact that is
 * false. Works inside the ledger's own memory and leaves it as it was.   Cost: O(holds + balances).
 */
const char *weir_ledger_audit(struct weir_ledger *l);

#endif
