#include "trace/trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define LOAD_PORTION_BYTES 65536u
#define LOAD_ENTRIES_FIRST 4096u

/* What is allocated while a file is read. */
struct trace_load {
    const char *path;
    char *error_text;
    size_t error_bytes;
    int fd;
    gzFile gz;
    void *reader_memory;
    struct weir_trace_reader *reader;
    struct weir_trace_entry *entries;
    size_t count, cap;
    bool is_out_of_memory;
};

static bool load_entry(void *ctx, const struct weir_trace_entry *entry)
{
    struct trace_load *l = ctx;
    if (l->count == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : LOAD_ENTRIES_FIRST;
        struct weir_trace_entry *entries = realloc(l->entries, cap * sizeof *entries);
        if (!entries) {
            l->is_out_of_memory = true;
            return false;
        }
        l->entries = entries;
        l->cap = cap;
    }
    l->entries[l->count++] = *entry;
    return true;
}

static bool load_memory_out(struct trace_load *l)
{
    snprintf(l->error_text, l->error_bytes, "%s: out of memory while reading the trace", l->path);
    return false;
}

/* The reader's problem as "PATH:LINE: text". */
static bool load_problem(struct trace_load *l)
{
    const struct weir_trace_problem *p = weir_trace_problem(l->reader);
    if (l->is_out_of_memory)
        return load_memory_out(l);
    if (p->line > 0)
        snprintf(l->error_text, l->error_bytes, "%s:%llu: %s", l->path, (unsigned long long)p->line,
                 p->text);
    else
        snprintf(l->error_text, l->error_bytes, "%s: %s", l->path, p->text);
    return false;
}

/* zlib passes a file that is not gzip through as it is. */
static bool load_open(struct trace_load *l)
{
    struct stat st;
    l->fd = open(l->path, O_RDONLY | O_CLOEXEC);
    if (l->fd < 0 || fstat(l->fd, &st) != 0) {
        snprintf(l->error_text, l->error_bytes, "cannot read the trace %s: %s", l->path,
                 strerror(errno));
        return false;
    }
    if (S_ISDIR(st.st_mode)) {
        snprintf(l->error_text, l->error_bytes,
                 "cannot read the trace %s: it is a folder; name a "
                 "file in it",
                 l->path);
        return false;
    }
    l->gz = gzdopen(l->fd, "rb");
    if (!l->gz)
        return load_memory_out(l);
    l->fd = -1; /* zlib's now */
    return gzbuffer(l->gz, LOAD_PORTION_BYTES) == 0 || load_memory_out(l);
}

static bool load_read_failed(struct trace_load *l)
{
    int code;
    int saved = errno;
    const char *text = gzerror(l->gz, &code);
    snprintf(l->error_text, l->error_bytes, "cannot read the trace %s: %s", l->path,
             code == Z_ERRNO        ? strerror(saved)
             : code == Z_BUF_ERROR  ? "the gzip file ends before its end; fetch it again"
             : code == Z_DATA_ERROR ? "the gzip file is damaged; fetch it again"
                                    : text);
    return false;
}

static bool load_feed(struct trace_load *l)
{
    char *portion = malloc(LOAD_PORTION_BYTES);
    int got = 0;
    bool is_wanted = true;
    if (!portion)
        return load_memory_out(l);
    while (is_wanted && (got = gzread(l->gz, portion, LOAD_PORTION_BYTES)) > 0)
        is_wanted = weir_trace_push(l->reader, portion, (size_t)got);
    free(portion);
    if (!is_wanted)
        return load_problem(l);
    int code = Z_OK;
    gzerror(l->gz, &code);
    if (got < 0 || code != Z_OK) /* a gzip file cut short reads as an end, with Z_BUF_ERROR */
        return load_read_failed(l);
    return weir_trace_finish(l->reader) || load_problem(l);
}

/* The names' pointers and their text, in one piece. */
static bool load_names(struct trace_load *l, struct weir_trace *trace)
{
    size_t count = 0;
    for (uint32_t kind = 0; kind < WEIR_TRACE_KIND_COUNT; kind++)
        count += weir_trace_names_count(l->reader, kind);
    const char **pointers = malloc(count * (sizeof *pointers + WEIR_TRACE_NAME_BYTES));
    if (!pointers)
        return load_memory_out(l);
    char *text = (char *)(pointers + count);
    trace->memory = (void *)pointers;
    for (uint32_t kind = 0; kind < WEIR_TRACE_KIND_COUNT; kind++) {
        trace->names[kind] = pointers;
        trace->names_count[kind] = weir_trace_names_count(l->reader, kind);
        for (uint32_t i = 0; i < trace->names_count[kind]; i++) {
            snprintf(text, WEIR_TRACE_NAME_BYTES, "%s", weir_trace_name(l->reader, kind, i));
            *pointers++ = text;
            text += WEIR_TRACE_NAME_BYTES;
        }
    }
    return true;
}

/* Sorts, and gives the entries to the trace. */
static bool load_settle(struct trace_load *l, struct weir_trace *trace)
{
    struct weir_trace_entry *scratch = malloc(l->count * sizeof *scratch);
    if (!scratch)
        return load_memory_out(l);
    weir_trace_settle(l->entries, scratch, l->count);
    free(scratch);
    if (!load_names(l, trace))
        return false;
    trace->form = weir_trace_form(l->reader);
    trace->facts = *weir_trace_facts(l->reader);
    trace->entries = l->entries;
    trace->count = l->count;
    trace->span_ns = l->entries[l->count - 1].arrival_ns;
    l->entries = NULL;
    return true;
}

bool weir_trace_load(const char *path, const char *scheduler, struct weir_trace *trace,
                     char *error_text, size_t error_bytes)
{
    const struct weir_trace_limits limits = {WEIR_TRACE_NAMES_MAX, WEIR_TRACE_ROWS_MAX};
    struct trace_load l = {
        .path = path, .error_text = error_text, .error_bytes = error_bytes, .fd = -1};
    bool is_loaded = false;
    *trace = (struct weir_trace){0};
    size_t bytes = weir_trace_bytes(&limits);
    l.reader_memory = calloc(1, bytes); /* aligned enough; pages that are not used are not there */
    if (!l.reader_memory) {
        load_memory_out(&l);
    } else if (load_open(&l)) {
        l.reader = weir_trace_init(l.reader_memory, bytes, &limits, scheduler, load_entry, &l);
        is_loaded = load_feed(&l) && load_settle(&l, trace);
    }
    if (l.gz)
        gzclose(l.gz);
    if (l.fd >= 0)
        close(l.fd);
    free(l.entries);
    free(l.reader_memory);
    return is_loaded;
}

void weir_trace_free(struct weir_trace *trace)
{
    free(trace->entries);
    free(trace->memory);
    *trace = (struct weir_trace){0};
}

void weir_trace_fill_sizes(struct weir_trace *trace)
{
    uint32_t tenants = trace->names_count[WEIR_TRACE_TENANT];
    struct weir_trace_sizes *sizes = calloc(tenants, sizeof *sizes);
    if (sizes)
        trace->filled = weir_trace_fill(trace->entries, trace->count, sizes, tenants);
    free(sizes);
}

void weir_trace_remark(const struct weir_trace *trace, char *text, size_t text_bytes)
{
    const struct weir_trace_facts *f = &trace->facts;
    size_t used = 0;
    text[0] = '\0';
    if (f->unsorted_line > 0 && trace->form != WEIR_TRACE_RECORDING)
        used += (size_t)snprintf(text, text_bytes,
                                 "line %llu arrives before the one above it: rows were sorted by "
                                 "arrival",
                                 (unsigned long long)f->unsorted_line);
    if (f->rows_cut > 0 && used < text_bytes)
        used += (size_t)snprintf(text + used, text_bytes - used,
                                 "%s%llu rows cut short by a crash were left out", used ? "; " : "",
                                 (unsigned long long)f->rows_cut);
    if (f->rows_dropped > 0 && used < text_bytes)
        used += (size_t)snprintf(
            text + used, text_bytes - used,
            "%s%llu requests are missing: the gateway could not write them in time",
            used ? "; " : "", (unsigned long long)f->rows_dropped);
    if (trace->filled > 0 && used < text_bytes)
        snprintf(text + used, text_bytes - used,
                 "%s%zu requests were refused or left before they used a token: they have the mean "
                 "size of their tenant's others",
                 used ? "; " : "", trace->filled);
}
