/* verify: is a ledger file what it says it is? Reads all of it, beside a gateway or at rest.
 *
 *   - SQLite finds its own pages in order;
 *   - the journal's rows follow each other without a gap, each with its own check, and every record
 *     goes on from what the one before said of its hold;
 *   - base with the journal replayed gives every balance, to the token;
 *   - every balance is the sum of its holds, of what purged holds counted, and of its adjustments;
 *   - used <= granted + overrun + cut + raised in every balance;
 *   - every hold is as the journal last said, and no live hold lacks its row;
 *   - every scope has its parents, at most WEIR_LEDGER_DEPTH_MAX levels, and its present balance.
 *
 * All in one read transaction, so a gateway may go on writing meanwhile; its log grows until then.
 *
 * Thread: any. Source: docs/ledger.md, "The file". */
#ifndef WEIR_STORE_VERIFY_H
#define WEIR_STORE_VERIFY_H

#include "core/base.h"
#include "core/ledger.h"

#define WEIR_VERIFY_FINDINGS_MAX 20
#define WEIR_VERIFY_TEXT_BYTES 400

struct weir_verify_report {
    int64_t scopes, balances, journal_rows, records;
    int64_t holds[WEIR_HOLD_STATE_COUNT]; /* rows by state */
    int64_t first_seq, last_seq;          /* 0: the journal has no row */
    uint64_t epoch;
    int64_t wrong; /* findings in all; 0: the file is right */
    uint32_t findings_count;
    char findings[WEIR_VERIFY_FINDINGS_MAX][WEIR_VERIFY_TEXT_BYTES]; /* the first ones, a sentence
                                                                        each */
};

/* true: the whole file was looked at, and report->wrong says how it is.
 * false: that could not be done (missing, locked, no ledger, too damaged to read, no memory);
 * error_text says why, and report has what was found before. */
WEIR_MUST_USE bool weir_verify(const char *path, struct weir_verify_report *report,
                               char *error_text, size_t error_bytes);

#endif
