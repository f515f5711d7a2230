#include "wire/csv_rows.h"

#include <csv.h>
#include <stdlib.h>
#include <string.h>

struct csv_reading {
    struct csv_parser parser;
    weir_csv_row_fn *each;
    void *ctx;
    char *text; /* the cells of the row, each with its NUL */
    size_t text_bytes, text_cap;
    size_t cell_at[WEIR_CSV_CELLS_MAX]; /* offsets: text moves as it grows */
    uint32_t cells_count;
    uint32_t line;     /* being fed */
    uint32_t row_line; /* the row begins here */
    bool row_begun;
    enum weir_csv_result result; /* the first that is not DONE stays */
    struct weir_csv_row row;
};

static void csv_cell(void *cell, size_t n, void *ctx)
{
    struct csv_reading *r = ctx;
    if (r->result != WEIR_CSV_DONE)
        return;
    if (r->cells_count == WEIR_CSV_CELLS_MAX) {
        r->result = WEIR_CSV_WIDE;
        return;
    }
    if (n > 0 && memchr(cell, '\0', n)) {
        r->result = WEIR_CSV_MALFORMED;
        return;
    }
    if (n + 1 > r->text_cap - r->text_bytes) {
        size_t cap = (r->text_bytes + n + 1) * 2;
        char *text = realloc(r->text, cap);
        if (!text) {
            r->result = WEIR_CSV_NO_MEMORY;
            return;
        }
        r->text = text;
        r->text_cap = cap;
    }
    r->cell_at[r->cells_count++] = r->text_bytes;
    if (n > 0)
        memcpy(r->text + r->text_bytes, cell, n);
    r->text[r->text_bytes + n] = '\0';
    r->text_bytes += n + 1;
}

static void csv_row(int end, void *ctx)
{
    struct csv_reading *r = ctx;
    (void)end; /* which byte ended the line */
    if (r->result == WEIR_CSV_DONE && r->cells_count > 0) {
        for (uint32_t i = 0; i < r->cells_count; i++)
            r->row.cells[i] = r->text + r->cell_at[i];
        r->row.cells_count = r->cells_count;
        r->row.line = r->row_line;
        if (!r->each(r->ctx, &r->row))
            r->result = WEIR_CSV_STOPPED;
    }
    r->cells_count = 0;
    r->text_bytes = 0;
    r->row_begun = false;
}

static unsigned char csv_delimiter(const char *at, size_t n)
{
    unsigned char found = CSV_COMMA;
    for (size_t i = 0; i < n && at[i] != '\n' && at[i] != '\r'; i++) {
        if (at[i] == ',')
            return CSV_COMMA;
        if (at[i] == ';' || at[i] == '\t')
            found = (unsigned char)at[i];
    }
    return found;
}

/* The bytes of the line at `at` with its end: LF, CRLF or CR. */
static size_t csv_line_bytes(const char *at, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (at[i] == '\n')
            return i + 1;
        if (at[i] == '\r')
            return i + 1 < n && at[i + 1] == '\n' ? i + 2 : i + 1;
    }
    return n;
}

/* libcsv does not tell where it is, so it is fed line by line. */
static void csv_feed(struct csv_reading *r, const char *at, size_t n)
{
    for (size_t passed = 0, bytes; passed < n && r->result == WEIR_CSV_DONE; passed += bytes) {
        bytes = csv_line_bytes(at + passed, n - passed);
        r->line++;
        if (!r->row_begun) {
            r->row_begun = true;
            r->row_line = r->line;
        }
        if (csv_parse(&r->parser, at + passed, bytes, csv_cell, csv_row, r) != bytes &&
            r->result == WEIR_CSV_DONE)
            r->result =
                csv_error(&r->parser) == CSV_EPARSE ? WEIR_CSV_MALFORMED : WEIR_CSV_NO_MEMORY;
        if (r->parser.pstate == 0 && r->cells_count == 0)
            r->row_begun = false; /* a blank line: the row is yet to begin */
    }
}

enum weir_csv_result weir_csv_read(const void *bytes, size_t n, weir_csv_row_fn *each, void *ctx,
                                   uint32_t *line)
{
    struct csv_reading *r = calloc(1, sizeof *r);
    *line = 0;
    if (!r || csv_init(&r->parser, CSV_STRICT | CSV_STRICT_FINI) != 0) {
        free(r);
        return WEIR_CSV_NO_MEMORY;
    }
    r->each = each;
    r->ctx = ctx;
    csv_set_delim(&r->parser, csv_delimiter(bytes, n));
    csv_feed(r, bytes, n);
    if (r->result == WEIR_CSV_DONE && csv_fini(&r->parser, csv_cell, csv_row, r) != 0 &&
        r->result == WEIR_CSV_DONE)
        r->result = csv_error(&r->parser) == CSV_EPARSE ? WEIR_CSV_CUT : WEIR_CSV_NO_MEMORY;
    enum weir_csv_result result = r->result;
    *line = r->row_line;
    csv_free(&r->parser);
    free(r->text);
    free(r);
    return result;
}
