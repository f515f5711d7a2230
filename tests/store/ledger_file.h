/* ledger_file: a small ledger file written by hand, right to the last row, for tests of what reads
 * one. Scopes: org (1) > team (2) > key (3), and lone (4); window 100. */
#ifndef WEIR_TESTS_LEDGER_FILE_H
#define WEIR_TESTS_LEDGER_FILE_H

#include <sqlite3.h>

#include "store/journal.h"

struct ledger_file {
    char folder[64], path[96];
    sqlite3 *db; /* open for writing, WAL */
    int64_t seq;
    struct weir_journal_writer writer;
    uint8_t blob[1 << 20];
};

/* A new file in a new folder under /tmp, with the tables and the scopes, and its connection open. */
struct ledger_file *ledger_file_new(void);
/* Closes the connection; the file stays. */
void ledger_file_close(struct ledger_file *f);
/* Removes file and folder too. */
void ledger_file_free(struct ledger_file *f);
/* Runs SQL; printf-like. */
void ledger_file_sql(struct ledger_file *f, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Adds a record to the row of the journal that is being made. */
void ledger_file_record(struct ledger_file *f, const struct weir_journal_record *record);
/* Ends that row, at time wall_s. */
void ledger_file_row(struct ledger_file *f, int64_t wall_s);
/* A hold on key with its chain in the file, and its row: id counts from 1 in epoch 1. */
void ledger_file_hold(struct ledger_file *f, uint64_t counter, enum weir_hold_state state,
                      int64_t asked_tok, int64_t booked_tok);
/* What most tests want: holds 1 held 10, 2 settled 20 of 30, 3 void, 4 lapsed 40, 5 late 55 of 50
 * (all on key), an adjustment of -5 on team, usage, labels, each in its rows and in the journal. */
void ledger_file_fill(struct ledger_file *f);

#endif
