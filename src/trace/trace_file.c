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

/* What is allocated while a file is read. */
struct trace_load {
    const char *path;
    char *error_text;
    size_t error_bytes;
    int fd;
    gzFile gz;
    void *reader_memory;
    struct weir_trace_reader *reader;
    struct weir_trace_collector collector;
};

static bool load_memory_out(struct trace_load *l)
{
    snprintf(l->error_text, l->error_bytes, "%s: out of memory while reading the trace", l->path);
    return false;
}

/* The reader's problem as "PATH:LINE: text". */
static bool load_problem(struct trace_load *l)
{
    const struct weir_trace_problem *p = weir_trace_problem(l->reader);
    if (l->collector.is_out_of_memory)
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
        l.reader = weir_trace_init(l.reader_memory, bytes, &limits, scheduler, weir_trace_collect,
                                   &l.collector);
        is_loaded = load_feed(&l) &&
                    (weir_trace_take(&l.collector, l.reader, trace) || load_memory_out(&l));
    }
    if (l.gz)
        gzclose(l.gz);
    if (l.fd >= 0)
        close(l.fd);
    free(l.collector.entries);
    free(l.reader_memory);
    return is_loaded;
}
