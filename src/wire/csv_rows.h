/* csv_rows: rows of a CSV text in memory, over libcsv.
 *
 * RFC 4180 as it is met: LF, CRLF or CR ends lines, cells may be quoted and then hold delimiters,
 * line ends and doubled quotes; blank lines are passed over; blanks around a bare cell are dropped.
 * A byte order mark is the caller's to pass. The delimiter is found from the first line: a comma,
 * else a semicolon or a tab (as spreadsheets write them).
 *
 * Thread: any. Allocates one row. Source: docs/ledger.md, "Reconciliation". */
#ifndef WEIR_WIRE_CSV_ROWS_H
#define WEIR_WIRE_CSV_ROWS_H

#include "core/base.h"

#define WEIR_CSV_CELLS_MAX 256

struct weir_csv_row {
    const char *cells[WEIR_CSV_CELLS_MAX]; /* NUL-terminated, valid during the call */
    uint32_t cells_count;
    uint32_t line; /* the row begins here, from 1 */
};

enum weir_csv_result {
    WEIR_CSV_DONE,
    WEIR_CSV_STOPPED,   /* the caller wanted no more */
    WEIR_CSV_CUT,       /* the text ends inside a quoted cell */
    WEIR_CSV_MALFORMED, /* a quote or a NUL byte where none may be */
    WEIR_CSV_WIDE,      /* more cells in a row than WEIR_CSV_CELLS_MAX */
    WEIR_CSV_NO_MEMORY
};

/* false: no more rows are wanted. */
typedef bool weir_csv_row_fn(void *ctx, const struct weir_csv_row *row);

/* Calls `each` for every row. *line: where the last row read begins, for messages. */
WEIR_MUST_USE enum weir_csv_result weir_csv_read(const void *bytes, size_t n, weir_csv_row_fn *each,
                                                 void *ctx, uint32_t *line);

#endif
