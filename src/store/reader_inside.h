/* reader_inside: what reader.c (opening, faults), reader_pages.c (queries) and verify.c share, and
 * nobody else. */
#ifndef WEIR_STORE_READER_INSIDE_H
#define WEIR_STORE_READER_INSIDE_H

#include "store/reader.h"

#include <sqlite3.h>

struct live_count {
    int64_t held, lapsed;
};

struct weir_reader {
    sqlite3 *db;
    char *path;
    struct live_count *live; /* by scope id; NULL: not counted yet */
    size_t live_count;
    sqlite3_stmt *name_of; /* scope id -> name; prepared at first use */
    char trouble[512];
};

/* Says in reader->trouble what SQLite's result code means for the file. Returns false. */
bool reader_fault(struct weir_reader *reader, int code);
/* NULL: a fault. */
sqlite3_stmt *reader_prepare(struct weir_reader *reader, const char *sql);
/* Ends a statement after its last step gave code. false: a fault (code is neither ROW nor DONE). */
bool reader_finish(struct weir_reader *reader, sqlite3_stmt *statement, int code);
/* The name of a scope; "?" when it has no row. Borrowed until the next call. */
const char *reader_scope_name(struct weir_reader *reader, int64_t scope_id);
/* The facts but for holds and bytes, within the transaction that the caller has begun. */
bool reader_facts_inside(struct weir_reader *reader, struct weir_reader_facts *facts);
/* Tokens, kept within the range of balances: what a damaged row says is added to others too. */
int64_t reader_amount(sqlite3_stmt *statement, int column);
/* Reads a row's amounts from column `first` on, in the order of WEIR_SCHEMA_AMOUNTS. */
void reader_amounts(sqlite3_stmt *statement, int first, struct weir_balance_row *row);

#endif
