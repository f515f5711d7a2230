/* trace_file: a whole trace from a file into memory. Native only.
 *
 * What begins as a gzip file is gunzipped, whatever its name. Entries are sorted by arrival (see
 * weir_trace_settle). Thread: any; reads the file, allocates the entries. */
#ifndef WEIR_TRACE_TRACE_FILE_H
#define WEIR_TRACE_TRACE_FILE_H

#include "trace/trace.h"

#define WEIR_TRACE_ROWS_MAX UINT64_C(20000000) /* what a file may hold: about 2 GB of entries */
#define WEIR_TRACE_NAMES_MAX 65536u

struct weir_trace {
    enum weir_trace_form form;
    struct weir_trace_entry *entries; /* by arrival */
    size_t count;                     /* at least 1 */
    uint64_t span_ns;                 /* the last arrival */
    struct weir_trace_facts facts;
    size_t filled;                                   /* by weir_trace_fill_sizes */
    const char *const *names[WEIR_TRACE_KIND_COUNT]; /* [kind][index] */
    uint32_t names_count[WEIR_TRACE_KIND_COUNT];
    void *memory; /* of the names */
};

/* scheduler: see weir_trace_init. false: error_text says "PATH:LINE: what" and what to do, and
 * nothing is allocated. weir_trace_free on success; it takes an all-zero trace too. */
WEIR_MUST_USE bool weir_trace_load(const char *path, const char *scheduler,
                                   struct weir_trace *trace, char *error_text, size_t error_bytes);
void weir_trace_free(struct weir_trace *trace);

/* weir_trace_fill, before a trace is sent again. Without memory for it nothing is filled. */
void weir_trace_fill_sizes(struct weir_trace *trace);

/* One line about what a reader should know (unsorted rows, rows cut short, dropped, or filled); ""
 * if there is nothing to say. */
void weir_trace_remark(const struct weir_trace *trace, char *text, size_t text_bytes);

#endif
