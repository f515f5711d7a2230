/* ledger_naive: a second ledger that shares nothing with the first but its operations. One list of all
 * that ever happened, summed anew for every question, in 128-bit integers. It remembers what core/ledger
 * may forget, and so predicts each answer, each total, what is told to a store and what can be loaded
 * again. */
#ifndef WEIR_TESTS_LEDGER_NAIVE_H
#define WEIR_TESTS_LEDGER_NAIVE_H

#include "core/ledger.h"

typedef __int128 naive_wide;

#define NAIVE_SCOPES 8
#define NAIVE_BALANCES 12
#define NAIVE_HOLDS 48
#define NAIVE_STEPS 1000

struct naive_cell { /* one scope in one window; a scope that is defined anew has others */
    uint32_t scope, life;
    uint64_t window;
    int64_t granted;
    naive_wide overrun, cut, cut_whole, raised, lowered, unmatched, refunded;
    bool untold; /* it changed since changes were last taken */
    bool loaded; /* since then, and perhaps in vain */
};

struct naive_record { /* one hold, kept for ever */
    uint64_t id;
    enum weir_hold_state state;
    bool known;   /* false: forgotten, but what it counts stays */
    bool is_kept; /* a store has it, so it can be loaded when forgotten */
    uint32_t scope;
    int64_t asked, booked;
    uint64_t held_at, finished_at; /* order */
    uint64_t counted_in;           /* the epoch in which it counts as this epoch's, 0: none */
    int cells[WEIR_LEDGER_DEPTH_MAX];
    int depth;
};

struct naive {
    struct {
        bool defined, refunds;
        uint32_t parent, life;
        int64_t granted;
        uint64_t window, refused;
        int cell;
    } scopes[NAIVE_SCOPES];
    struct naive_cell cells[NAIVE_STEPS + NAIVE_SCOPES];
    int cell_count;
    struct naive_record records[NAIVE_STEPS + 1];
    int record_count;
    uint64_t epoch, clock;
};

/* What the records of one cell come to. */
struct naive_sums {
    naive_wide held, lapsed, committed;
    naive_wide spent; /* lapsed and committed */
    naive_wide used;  /* and held */
    uint32_t held_count, lapsed_count;
};

/* As weir_ledger_apply, _lapse and _forget. The epoch is the caller's to set. */
struct weir_ledger_answer naive_apply(struct naive *n, const struct weir_ledger_op *op);
uint32_t naive_lapse(struct naive *n, uint32_t most);
uint32_t naive_forget(struct naive *n, uint32_t keep, uint32_t most);

/* Changes are told: how many balances. */
size_t naive_take(struct naive *n);
/* All is loaded into a fresh ledger, which knows live holds only. Returns whether they were in the
 * order of their ids before, as they are from now on. */
bool naive_reload(struct naive *n);
/* A forgotten hold that could be loaded again; the at-th of those. NULL: there are not so many. */
struct naive_record *naive_loadable(struct naive *n, uint64_t at);
/* Loads it: DONE or FULL. */
enum weir_ledger_result naive_load(struct naive *n, struct naive_record *r);

struct naive_record *naive_find(struct naive *n, uint64_t id);
bool naive_defined(const struct naive *n, uint32_t scope);
struct naive_sums naive_sum(const struct naive *n, int cell);
/* What the holds of this epoch count, each once. */
naive_wide naive_counted(const struct naive *n);
/* A cell as the row it should be. */
struct weir_ledger_balance naive_row(const struct naive *n, int cell,
                                     const struct naive_sums *sums);

#endif
