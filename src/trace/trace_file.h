/* trace_file: a whole trace from a file into memory. trace_file.c is native only.
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

/* What weir_trace_load is made of, where the bytes come from elsewhere: weir_trace_collect is what
 * the reader calls for each entry, with the collector (start from {0}); once it is finished,
 * weir_trace_take gives all that was collected to *trace, settled. The caller frees collector->entries
 * where it comes to no trace. false: no memory. */
struct weir_trace_collector {
    struct weir_trace_entry *entries;
    size_t count, room;
    bool is_out_of_memory;
};
bool weir_trace_collect(void *ctx, const struct weir_trace_entry *entry);
WEIR_MUST_USE bool weir_trace_take(struct weir_trace_collector *collector,
                                   const struct weir_trace_reader *reader,
                                   struct weir_trace *trace);

/* weir_trace_fill, before a trace is sent again. Without memory for it nothing is filled. */
void weir_trace_fill_sizes(struct weir_trace *trace);

/* One line about what a reader should know (unsorted rows, rows cut short, dropped, or filled); ""
 * if there is nothing to say. */
void weir_trace_remark(const struct weir_trace *trace, char *text, size_t text_bytes);

#endif
