#include "trace/trace.h"

#include <string.h>

#include "trace/trace_inside.h"

#define READER_ALIGN 16u

static const uint8_t reader_mark[] = {0xef, 0xbb, 0xbf}; /* UTF-8's byte order mark */

static size_t reader_align(size_t bytes)
{
    return (bytes + READER_ALIGN - 1) / READER_ALIGN * READER_ALIGN;
}

size_t weir_trace_bytes(const struct weir_trace_limits *limits)
{
    return reader_align(sizeof(struct weir_trace_reader)) +
           WEIR_TRACE_KIND_COUNT * reader_align(trace_names_bytes(limits->names_max));
}

struct weir_trace_reader *weir_trace_init(void *mem, size_t bytes,
                                          const struct weir_trace_limits *limits,
                                          const char *scheduler, weir_trace_entry_fn *each,
                                          void *ctx)
{
    WEIR_INVARIANT(limits->names_max >= 2 && limits->names_max <= 1u << 20);
    WEIR_INVARIANT(bytes >= weir_trace_bytes(limits));
    struct weir_trace_reader *r = mem;
    r->limits = *limits;
    r->scheduler = scheduler;
    r->each = each;
    r->ctx = ctx;
    r->wants_header = true;
    r->line = 1;
    r->row_line = 1;
    char *names = (char *)mem + reader_align(sizeof *r);
    for (uint32_t kind = 0; kind < WEIR_TRACE_KIND_COUNT; kind++) {
        trace_names_init(&r->names[kind], names, limits->names_max);
        names += reader_align(trace_names_bytes(limits->names_max));
    }
    return r;
}

/* Stops with a sentence about the row at hand. Always false. */
static bool reader_stop(struct weir_trace_reader *r, const char *text)
{
    struct trace_text t = trace_problem_begin(r);
    trace_text_add(&t, text);
    r->is_stopped = true;
    return false;
}

/* The problem that is set is of one row: it stops us, unless a crash explains it. */
static bool row_fault(struct weir_trace_reader *r)
{
    r->is_pending = r->is_recording || r->form == WEIR_TRACE_RECORDING;
    r->is_stopped = !r->is_pending;
    return r->is_pending;
}

static bool row_fault_text(struct weir_trace_reader *r, const char *text)
{
    struct trace_text t = trace_problem_begin(r);
    trace_text_add(&t, text);
    return row_fault(r);
}

static void row_forgive(struct weir_trace_reader *r)
{
    r->is_pending = false;
    r->problem = (struct weir_trace_problem){0};
    r->facts.rows_cut++;
}

/* "a b c" begins with the words of prefix: the rest, else NULL. */
static const char *row_behind(const char *text, const char *prefix)
{
    for (; *prefix; prefix++, text++)
        if (*text != *prefix)
            return NULL;
    return text;
}

/* A recording begins, at `began` (NULL: not said): what a crash cut short before it is forgiven. */
static bool row_recording(struct weir_trace_reader *r, const char *began)
{
    uint64_t began_ns;
    if (!began || !trace_decimal_ns(began, WEIR_NS_PER_S, &began_ns))
        return row_fault_text(r,
                              "the line must say \"#weir recording 1 began SECONDS\", in seconds "
                              "since 1970");
    if (r->form != WEIR_TRACE_UNKNOWN && r->form != WEIR_TRACE_RECORDING)
        return reader_stop(r, "a recording begins inside a trace of another form");
    if (r->is_pending)
        row_forgive(r);
    r->began_ns = began_ns;
    r->wants_header = true;
    r->is_recording = true;
    return true;
}

/* A line that begins with #. Only "#weir" ones mean anything. */
static bool row_comment(struct weir_trace_reader *r)
{
    const char *rest = row_behind(r->text + r->cell_at[0], "#weir ");
    uint64_t count;
    if (!rest)
        return true;
    const char *began = row_behind(rest, "recording 1");
    if (began && (*began == ' ' || *began == '\0'))
        return row_recording(r, row_behind(began, " began "));
    if (row_behind(rest, "recording "))
        return reader_stop(r, "a recording of a form that this weir does not know");
    const char *dropped = row_behind(rest, "dropped ");
    if (dropped && trace_whole(dropped, UINT32_MAX, &count))
        r->facts.rows_dropped += count;
    return true;
}

static bool row_entry(struct weir_trace_reader *r)
{
    struct weir_trace_entry entry;
    bool is_chosen;
    if (!trace_read_entry(r, &entry, &is_chosen))
        return row_fault(r);
    if (!is_chosen) {
        r->facts.rows_unchosen++;
        return true;
    }
    if (r->facts.rows == r->limits.rows_max)
        return reader_stop(r, "more rows than are read of one file; cut it into parts");
    if (r->facts.rows > 0 && entry.arrival_ns < r->last_arrival_ns && r->facts.unsorted_line == 0)
        r->facts.unsorted_line = r->row_line;
    r->last_arrival_ns = entry.arrival_ns;
    r->facts.rows++;
    return r->each(r->ctx, &entry) || reader_stop(r, "no more entries were wanted");
}

/* The row's cells are there. */
static bool row_take(struct weir_trace_reader *r)
{
    const char *first = r->text + r->cell_at[0];
    if (r->cells_count == 1 && r->is_bare[0] && *first == '\0')
        return true; /* blank */
    if (r->is_pending && !(r->is_comment && row_behind(first, "#weir recording "))) {
        r->is_stopped = true; /* no crash explains it: rows follow */
        return false;
    }
    if (r->is_comment)
        return row_comment(r);
    if (r->cell_state == CELL_QUOTED)
        return row_fault_text(r, "a quoted cell is not closed");
    if (!r->wants_header)
        return row_entry(r);
    r->wants_header = false;
    return trace_read_header(r) || row_fault(r);
}

/* ---- bytes to cells ---- */

static void cell_begin(struct weir_trace_reader *r)
{
    r->cell_at[r->cells_count] = r->text_bytes;
    r->is_bare[r->cells_count] = true;
    r->cells_count++;
    r->cell_state = CELL_BEGINS;
}

/* Blanks around a bare cell are dropped; its carriage return is, where the line ends. */
static void cell_end(struct weir_trace_reader *r, bool ends_line)
{
    uint32_t cell = r->cells_count - 1;
    char *begin = r->text + r->cell_at[cell];
    if (r->is_bare[cell]) {
        char *end = r->text + r->text_bytes;
        if (ends_line && end > begin && end[-1] == '\r')
            end--;
        while (end > begin && (end[-1] == ' ' || end[-1] == '\t'))
            end--;
        while (begin < end && (*begin == ' ' || *begin == '\t'))
            begin++;
        r->cell_at[cell] = (uint32_t)(begin - r->text);
        r->text_bytes = (uint32_t)(end - r->text);
    }
    r->text[r->text_bytes++] = '\0';
}

/* The row is over: it is taken, and the next begins. */
static bool row_end(struct weir_trace_reader *r)
{
    cell_end(r, true);
    bool goes_on = row_take(r);
    r->row_bytes = r->text_bytes = r->cells_count = 0;
    r->cell_state = CELL_BEGINS;
    return goes_on;
}

static bool row_byte_quoted(struct weir_trace_reader *r, char byte)
{
    switch (r->cell_state) {
    case CELL_BEGINS:
    case CELL_BARE:
        break;
    case CELL_QUOTED:
        if (byte == '"') {
            r->cell_state = CELL_QUOTE_SEEN;
            return true;
        }
        r->text[r->text_bytes++] = byte;
        return true;
    case CELL_QUOTE_SEEN:
        if (byte == '"') {
            r->text[r->text_bytes++] = byte;
            r->cell_state = CELL_QUOTED;
            return true;
        }
        if (byte == '\r') {
            r->cell_state = CELL_CLOSED_CR;
            return true;
        }
        break;
    case CELL_CLOSED_CR:
        break;
    }
    return reader_stop(r, "text follows a closing quote; a quote inside a quoted cell is doubled");
}

/* One byte that is neither NUL nor the end of the row. */
static bool row_byte(struct weir_trace_reader *r, char byte)
{
    bool is_between = r->cell_state == CELL_BEGINS || r->cell_state == CELL_BARE;
    if (r->is_comment) {
        r->text[r->text_bytes++] = byte;
        return true;
    }
    if (byte == ',' && (is_between || r->cell_state == CELL_QUOTE_SEEN)) {
        cell_end(r, false);
        if (r->cells_count == WEIR_TRACE_CELLS_MAX)
            return reader_stop(r, "more than 64 cells in a row");
        cell_begin(r);
        return true;
    }
    if (!is_between)
        return row_byte_quoted(r, byte);
    if (byte == '"' && r->cell_state == CELL_BARE)
        return reader_stop(r, "a quote in the middle of a cell; quote the whole cell");
    if (byte == '"') {
        r->is_bare[r->cells_count - 1] = false;
        r->cell_state = CELL_QUOTED;
        return true;
    }
    r->cell_state = CELL_BARE;
    r->text[r->text_bytes++] = byte;
    return true;
}

static bool reader_too_long(struct weir_trace_reader *r)
{
    return reader_stop(r, r->cell_state == CELL_QUOTED
                              ? "a quote that is opened in this row is not closed within 4096 bytes"
                              : "the row is longer than 4096 bytes: is this a CSV file?");
}

static bool reader_byte(struct weir_trace_reader *r, char byte)
{
    if (r->row_bytes == 0) {
        r->row_line = r->line;
        r->is_comment = byte == '#';
        cell_begin(r);
    }
    if (byte == '\n') {
        r->line++;
        /* No cell of a recording holds a line end: there an open quote was cut short. */
        if (r->cell_state != CELL_QUOTED || r->form == WEIR_TRACE_RECORDING)
            return row_end(r);
    }
    if (byte == '\0')
        return reader_stop(r, "a NUL byte: this is not UTF-8 text");
    /* A cell's NUL takes a byte as well, but never more than its comma or line end did. */
    if (++r->row_bytes > WEIR_TRACE_ROW_BYTES)
        return reader_too_long(r);
    return row_byte(r, byte);
}

bool weir_trace_push(struct weir_trace_reader *r, const void *bytes, size_t count)
{
    const char *at = bytes;
    for (size_t i = 0; i < count && !r->is_stopped; i++) {
        if (r->mark_bytes < sizeof reader_mark) {
            if ((uint8_t)at[i] == reader_mark[r->mark_bytes]) {
                r->mark_bytes++;
                continue;
            }
            uint32_t kept = r->mark_bytes; /* it was none after all */
            r->mark_bytes = sizeof reader_mark;
            for (uint32_t k = 0; k < kept; k++)
                if (!reader_byte(r, (char)reader_mark[k]))
                    return false;
        }
        if (!reader_byte(r, at[i]))
            break;
    }
    return !r->is_stopped;
}

/* The file must hold one run, and that of the scheduler wanted. */
static bool finish_choice(struct weir_trace_reader *r)
{
    const struct trace_names *names = &r->names[WEIR_TRACE_SCHEDULER];
    bool is_found = !r->scheduler;
    for (uint32_t i = 1; i < names->count && r->scheduler; i++)
        is_found |= trace_is_equal(names->text[i], r->scheduler);
    if (is_found && (r->scheduler || names->count <= 2))
        return true;
    r->row_line = 0;
    struct trace_text t = trace_problem_begin(r);
    if (r->scheduler && names->count <= 1) {
        trace_text_add(&t, "a scheduler is chosen, but the trace has no column scheduler");
    } else {
        trace_text_add(&t, is_found ? "the trace holds several runs; choose the scheduler: "
                                    : "the trace holds no run of the scheduler ");
        if (!is_found) {
            trace_text_cell(&t, r->scheduler);
            trace_text_add(&t, ", but ");
        }
        for (uint32_t i = 1; i < names->count; i++) {
            trace_text_add(&t, i > 1 ? ", " : "");
            trace_text_add(&t, names->text[i]);
        }
    }
    r->is_stopped = true;
    return false;
}

/* The file is over: its last row needs no line end. In a recording it may be cut short. */
static bool finish_row(struct weir_trace_reader *r)
{
    if (r->row_bytes == 0) {
        r->is_stopped = r->is_pending;
        return !r->is_stopped;
    }
    if (!row_end(r))
        return false;
    if (r->is_pending)
        row_forgive(r);
    return true;
}

bool weir_trace_finish(struct weir_trace_reader *r)
{
    if (r->is_stopped || !finish_row(r))
        return false;
    if (r->form == WEIR_TRACE_UNKNOWN || r->facts.rows == 0) {
        if (!finish_choice(r))
            return false;
        r->row_line = 0;
        return reader_stop(r, r->form == WEIR_TRACE_UNKNOWN
                                  ? "the file is empty: a line with the names of the columns must "
                                    "come first"
                                  : "there are no rows below the names of the columns");
    }
    return finish_choice(r);
}

const struct weir_trace_problem *weir_trace_problem(const struct weir_trace_reader *r)
{
    return &r->problem;
}

const struct weir_trace_facts *weir_trace_facts(const struct weir_trace_reader *r)
{
    return &r->facts;
}

enum weir_trace_form weir_trace_form(const struct weir_trace_reader *r)
{
    return r->form;
}

uint32_t weir_trace_names_count(const struct weir_trace_reader *r, enum weir_trace_kind kind)
{
    return r->names[kind].count;
}

const char *weir_trace_name(const struct weir_trace_reader *r, enum weir_trace_kind kind,
                            uint32_t index)
{
    WEIR_INVARIANT(index < r->names[kind].count);
    return r->names[kind].text[index];
}
