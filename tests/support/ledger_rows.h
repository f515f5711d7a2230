/* ledger_rows: a durable store's file as two arrays, for tests of core/ledger. It takes the rows that
 * changed, and fills a fresh ledger with what a store would load at its start. Linear and slow. */
#ifndef WEIR_TESTS_LEDGER_ROWS_H
#define WEIR_TESTS_LEDGER_ROWS_H

#include "core/ledger.h"

struct ledger_rows {
    struct weir_ledger_balance rows[2560];
    bool told[2560]; /* in the present ledger_rows_take */
    size_t row_count;
    struct weir_ledger_record holds[2560];
    size_t hold_count;
};

/* A ledger in memory of its own, which the caller frees. */
struct weir_ledger *ledger_in_memory(const struct weir_ledger_limits *limits, uint64_t epoch,
                                     void **mem);

/* Takes a hold's record as it is now; nothing when the ledger does not know it. */
void ledger_rows_hold(struct ledger_rows *file, const struct weir_ledger *l, uint64_t hold);
/* The same for every hold that the ledger knows. */
void ledger_rows_holds(struct ledger_rows *file, const struct weir_ledger *l);
/* Takes the balances that changed; how many. A balance told twice fails the test. */
size_t ledger_rows_take(struct ledger_rows *file, struct weir_ledger *l);
/* A scope is forgotten and its id may go to another: its rows, and the holds that name it, leave. */
void ledger_rows_scope_drop(struct ledger_rows *file, uint32_t scope);

/* NULL: none. */
const struct weir_ledger_balance *ledger_rows_row(const struct ledger_rows *file, uint32_t scope,
                                                  uint64_t window);
const struct weir_ledger_record *ledger_rows_find(const struct ledger_rows *file, uint64_t hold);

/* Fills a fresh ledger: the scopes of another, the rows of their present windows and those that live
 * holds name, then the live holds. reversed: the rows in the other order, which makes no difference.
 * A row that is refused fails the test, as does an audit that finds something. */
void ledger_rows_load(struct ledger_rows *file, struct weir_ledger *fresh,
                      const struct weir_ledger *scopes_of, uint32_t scopes_max, bool reversed);
/* Puts one forgotten hold back, after the balances of its chain. The first answer that is not DONE
 * or SAME, else the hold's. */
struct weir_ledger_answer ledger_rows_load_hold(const struct ledger_rows *file,
                                                struct weir_ledger *l, uint64_t hold);

#endif
