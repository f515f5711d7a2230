/* text: amounts, times and tables as the commands show them. Thread: main. */
#ifndef WEIR_CLI_TEXT_H
#define WEIR_CLI_TEXT_H

#include "core/base.h"

#include <jansson.h>
#include <stdio.h>

#define CLI_AMOUNT_BYTES 32 /* the longest: -9,223,372,036,854,775,808 */
#define CLI_TIME_BYTES 32

/* 1234567 as "1,234,567". Returns out. */
const char *cli_amount(int64_t amount, char out[static CLI_AMOUNT_BYTES]);
/* Seconds as "3d 4h", "4h 12m", "12m 5s" or "5s". Returns out. */
const char *cli_span(int64_t seconds, char out[static CLI_AMOUNT_BYTES]);
/* Whether a hint is of a century or more: whoever sends it means that repeating is of no use. */
static inline bool cli_is_never(uint64_t wait_ns)
{
    return wait_ns / WEIR_NS_PER_S >= UINT64_C(100) * 365 * 86400;
}
/* A time to wait as "0.25 s", "9 s", "2h 46m", or "never". Returns out. */
const char *cli_wait(uint64_t wait_ns, char out[static CLI_AMOUNT_BYTES]);
/* Bytes as "12.4 MiB". Returns out. */
const char *cli_bytes(uint64_t bytes, char out[static CLI_AMOUNT_BYTES]);
/* Microseconds as "0.42 ms". Returns out. */
const char *cli_micros(int64_t us, char out[static CLI_AMOUNT_BYTES]);
/* Reads 250, 10k, 1.5M with a sign before it where signed. */
WEIR_MUST_USE bool cli_read_amount(const char *text, bool is_signed, int64_t *amount);

/* Members of an answer: 0, "" or -1 where they are missing or null. */
int64_t cli_json_int(const json_t *object, const char *name); /* null: -1 */
const char *cli_json_text(const json_t *object, const char *name);
/* Prints and frees it. false: out of memory. */
WEIR_MUST_USE bool cli_print_json(json_t *value);

/* Text as a field of CSV, quoted where it must be (RFC 4180). */
void cli_put_csv(FILE *out, const char *text);

/* A table whose columns are as wide as their cells need; columns of numbers are on the right. */
#define CLI_COLUMNS_MAX 12
struct cli_table {
    const char *titles[CLI_COLUMNS_MAX];
    bool right[CLI_COLUMNS_MAX];
    size_t columns;
    char **cells;
    size_t cells_count, cells_room;
    bool no_memory;
};
/* Cells come row by row, from left to right; copied. */
void cli_table_add(struct cli_table *table, const char *cell);
/* An amount; below 0: the text instead (NULL: the amount all the same). */
void cli_table_add_amount(struct cli_table *table, int64_t amount, const char *instead);
/* Prints what was added, with titles or without, and empties the table. */
void cli_table_print(struct cli_table *table, bool titles);

/* How much has been written, as a line that passes: where standard error is a terminal and standard
 * output is none. What reads that may write to the same terminal, so the cursor stands at its
 * beginning. */
void cli_progress(const char *what, int64_t count, bool end);
/* One that the answer takes the place of: on standard error where that is a terminal, every 0.2 s
 * at most; "" takes it away. */
void cli_progress_line(const char *text);

/* From here on the first Ctrl-C is only noted, for work that ends early and shows what there is; the
 * second ends the process with status 130. */
void cli_catch_interrupts(void);
WEIR_MUST_USE bool cli_is_interrupted(void);

#endif
