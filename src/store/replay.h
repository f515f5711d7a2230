/* replay: balances as the journal makes them, for folding old records and for checking the rows.
 *
 * A table of balances, one a scope and window, to which records are applied in their order. It does
 * what the rules of the ledger did, from what the records say alone: it decides nothing.
 *
 * Thread: the one that owns the table. Source: docs/ledger.md, "The journal". */
#ifndef WEIR_STORE_REPLAY_H
#define WEIR_STORE_REPLAY_H

#include "store/journal.h"

/* A balance as files keep it. Amounts in tokens, each at most WEIR_BALANCE_MAX; committed alone may
 * be below 0, while adjustments outweigh use. */
struct weir_balance_row {
    int64_t scope_id;
    uint64_t window;
    int64_t granted_tok; /* WEIR_BALANCE_MAX: unlimited */
    int64_t reserved_tok, committed_tok, lapsed_tok;
    int64_t overrun_tok, cut_tok, raised_tok, lowered_tok, unmatched_tok, refunded_tok;
    int64_t purged_tok; /* part of committed whose holds have no row any more; no record says so */
};

/* NULL, or how the amounts of a row leave their range. */
const char *weir_balance_row_wrong(const struct weir_balance_row *row);

struct weir_replay;

struct weir_replay *weir_replay_new(void);         /* NULL: no memory */
void weir_replay_free(struct weir_replay *replay); /* NULL is fine */

/* Borrowed until the next weir_replay_add or weir_replay_apply. NULL: none. */
struct weir_balance_row *weir_replay_find(const struct weir_replay *replay, int64_t scope_id,
                                          uint64_t window);
/* Adds a balance that is not there yet, from a row. false: no memory. */
WEIR_MUST_USE bool weir_replay_add(struct weir_replay *replay, const struct weir_balance_row *row);
size_t weir_replay_count(const struct weir_replay *replay);
/* index 0 .. count - 1, in the order of adding. Borrowed as by weir_replay_find. */
struct weir_balance_row *weir_replay_at(const struct weir_replay *replay, size_t index);

/* Applies one record to each balance that it counts in.
 *
 * Returns NULL, or why it cannot be: it names a balance that is not there (SCOPE and WINDOW begin
 * those), WINDOW begins one that is, an amount leaves its range, no memory. *link says which of the
 * chain; nothing is changed then.   Cost: O(depth). */
const char *weir_replay_apply(struct weir_replay *replay, const struct weir_journal_record *record,
                              uint8_t *link);

#endif
