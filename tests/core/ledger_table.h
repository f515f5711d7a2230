/* ledger_table: runs the tables of tests/data/ledger (its README says what a line may be): each case
 * against a fresh ledger, an audit after each line. */
#ifndef WEIR_TESTS_LEDGER_TABLE_H
#define WEIR_TESTS_LEDGER_TABLE_H

#include "support/check.h"

#define LEDGER_TABLE_CASES_MAX 256

/* Reads all tables; a test for each case. Returns how many. Exits when there are hardly any. */
size_t ledger_table_read(struct CMUnitTest *tests, size_t tests_max);
void ledger_table_free(void);

#endif
