/* trace_inside: what the reader's files share. Private to the room.
 *
 *   trace.c          bytes to rows of cells; what a row is: comment, header, or entry
 *   trace_columns.c  a header to a form; a row to an entry
 *   trace_cells.c    a cell to a number, a time, a name; sentences about them
 *   trace_names.c    names to indices
 *   trace_write.c    the recording's writer
 *   trace_settle.c   the stable sort */
#ifndef WEIR_TRACE_TRACE_INSIDE_H
#define WEIR_TRACE_TRACE_INSIDE_H

#include "trace/trace.h"

enum trace_column {
    COLUMN_TIMESTAMP,
    COLUMN_CONTEXT,
    COLUMN_GENERATED,
    COLUMN_ARRIVAL_S,
    COLUMN_ARRIVAL_MS,
    COLUMN_TENANT,
    COLUMN_PROMPT,
    COLUMN_OUTPUT,
    COLUMN_REUSED,
    COLUMN_SCHEDULER,
    COLUMN_FIRST_TOKEN,
    COLUMN_LATENCY,
    COLUMN_LANE,
    COLUMN_MODEL,
    COLUMN_STREAM,
    COLUMN_CACHED,
    COLUMN_ESTIMATE,
    COLUMN_LIMIT,
    COLUMN_QUEUE_WAIT,
    COLUMN_FIRST_BYTE,
    COLUMN_STATUS,
    COLUMN_REASON,
    COLUMN_OUTCOME,
    COLUMN_COUNT
};

extern const char *const trace_column_names[COLUMN_COUNT];
extern const char *const trace_outcome_words[WEIR_TRACE_OUTCOME_COUNT];

/* Names of one kind; index 0 is "". */
struct trace_names {
    char (*text)[WEIR_TRACE_NAME_BYTES]; /* [names_max] */
    uint32_t *slots;                     /* [slots_mask + 1]: index of a name; 0: free */
    uint32_t slots_mask, count, max;
};

enum trace_cell_state {
    CELL_BEGINS,
    CELL_BARE,
    CELL_QUOTED,
    CELL_QUOTE_SEEN, /* in a quoted cell: its end, or the first of two */
    CELL_CLOSED_CR   /* after it: only a line end may come */
};

struct weir_trace_reader {
    struct weir_trace_limits limits;
    const char *scheduler;
    weir_trace_entry_fn *each;
    void *ctx;
    enum weir_trace_form form;
    struct weir_trace_problem problem;
    struct weir_trace_facts facts;
    bool is_stopped;
    bool is_pending;   /* the problem stops us unless a crash explains it */
    bool wants_header; /* the next row that is no comment is one */
    bool is_recording; /* a "#weir recording" line was seen */
    bool is_comment;   /* the row at hand begins with #: it is one cell */
    uint64_t began_ns; /* of the recording at hand */
    uint64_t last_arrival_ns;
    uint8_t mark_bytes; /* of the byte order mark, matched; 3: all, or it is none */

    enum trace_cell_state cell_state;
    uint64_t line;                       /* at hand, from 1 */
    uint64_t row_line;                   /* the row began here */
    uint32_t row_bytes;                  /* read of it */
    uint32_t text_bytes;                 /* used of text */
    uint32_t cells_count;                /* begun of the row */
    char text[WEIR_TRACE_ROW_BYTES + 1]; /* the cells, each with its NUL */
    uint32_t cell_at[WEIR_TRACE_CELLS_MAX];
    bool is_bare[WEIR_TRACE_CELLS_MAX];

    uint32_t columns_count;             /* of the header */
    uint32_t column_cell[COLUMN_COUNT]; /* WEIR_NONE: the header does not have it */
    struct trace_names names[WEIR_TRACE_KIND_COUNT];
};

/* trace_columns.c. false: problem is set. The row's cells are in r. */
WEIR_MUST_USE bool trace_read_header(struct weir_trace_reader *r);
WEIR_MUST_USE bool trace_read_entry(struct weir_trace_reader *r, struct weir_trace_entry *entry,
                                    bool *is_chosen);

/* trace_cells.c */
struct trace_text {
    char *at;
    size_t used, cap; /* used < cap: it always ends in a NUL */
};
void trace_text_add(struct trace_text *t, const char *text);
void trace_text_number(struct trace_text *t, uint64_t number);
/* Bytes of the control character at `at` (C0, DEL, or C1 in UTF-8, which terminals obey too); 0:
 * none. */
static inline size_t trace_control(const char *at)
{
    const unsigned char *byte = (const unsigned char *)at;
    if (byte[0] == 0xc2 && byte[1] >= 0x80 && byte[1] < 0xa0)
        return 2;
    return byte[0] < ' ' || byte[0] == 0x7f;
}
/* In quotes, cut short where long, without control characters. */
void trace_text_cell(struct trace_text *t, const char *cell);
/* Starts the problem's sentence, of the row at hand. */
struct trace_text trace_problem_begin(struct weir_trace_reader *r);
/* "prompt_tokens is "-3": it must be WHAT". Always false. */
bool trace_problem_cell(struct weir_trace_reader *r, enum trace_column column, const char *cell,
                        const char *what);

WEIR_MUST_USE bool trace_is_equal(const char *a, const char *b); /* ASCII, of any case */
/* Digits only, at most max. */
WEIR_MUST_USE bool trace_whole(const char *cell, uint64_t max, uint64_t *value);
/* A decimal of units of unit_ns, below WEIR_TRACE_TIME_MAX_NS; digits below 1 ns are dropped. */
WEIR_MUST_USE bool trace_decimal_ns(const char *cell, uint64_t unit_ns, uint64_t *ns);
/* "2023-11-16 18:17:03.9799600" since 1970, as if it were UTC. */
WEIR_MUST_USE bool trace_timestamp_ns(const char *cell, uint64_t *ns);
/* NULL: fine; else what it must be. */
const char *trace_name_fault(const char *cell);

/* trace_names.c */
size_t trace_names_bytes(uint32_t max);
void trace_names_init(struct trace_names *n, void *mem, uint32_t max);
/* The index of a name, given one when it is new; WEIR_NONE: no room. */
uint32_t trace_names_index(struct trace_names *n, const char *name);

#endif
