/* record: the traffic in the form that src/trace reads, one row for each metered request when it is
 * over (docs/traces.md). No content, no credential, no text of a client's: names are the
 * configuration's. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "gateway/state.h"
#include "trace/trace.h"

_Static_assert(WEIR_TRACE_LINE_BYTES <= WEIR_LOG_LINE_BYTES, "a row is a line of the log");

struct weir_record {
    uint64_t began_ns;                       /* loop time 0 of the recording */
    char begin[WEIR_TRACE_HEADER_BYTES + 1]; /* its first lines */
};

/* ---- the file ---- */

/* NULL, or what is wrong with a file that is there already. *wants_end: its last line is not
 * ended. */
static const char *record_look(int fd, bool *wants_end)
{
    static const char first[] = "#weir recording ";
    char have[sizeof first - 1], last;
    struct stat about;
    *wants_end = false;
    if (fstat(fd, &about) != 0)
        return strerror(errno);
    if (!S_ISREG(about.st_mode))
        return "it is not a plain file";
    if (about.st_size == 0)
        return NULL;
    if (pread(fd, have, sizeof have, 0) != (ssize_t)sizeof have ||
        memcmp(have, first, sizeof have) != 0)
        return "it is there, and is not a recording of weir";
    if (pread(fd, &last, 1, about.st_size - 1) != 1)
        return strerror(errno);
    *wants_end = last != '\n';
    return NULL;
}

/* The file, open for rows: new and the owner's alone, or a recording that is continued. -1:
 * *why. */
static int record_open_file(const char *path, const char *begin, uint64_t *file_bytes,
                            const char **why)
{
    struct stat about;
    bool wants_end;
    size_t bytes = strlen(begin);
    int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);
    if (fd < 0) {
        *why = strerror(errno);
        return -1;
    }
    *why = record_look(fd, &wants_end);
    if (!*why && flock(fd, LOCK_EX | LOCK_NB) != 0)
        *why = errno == EWOULDBLOCK ? "another weir records to it" : strerror(errno);
    if (!*why && wants_end && write(fd, "\n", 1) != 1)
        *why = strerror(errno);
    errno = ENOSPC; /* what a short write means */
    if (!*why && write(fd, begin, bytes) != (ssize_t)bytes)
        *why = strerror(errno);
    if (!*why && fstat(fd, &about) != 0)
        *why = strerror(errno);
    if (!*why) {
        *file_bytes = (uint64_t)about.st_size;
        return fd;
    }
    close(fd);
    return -1;
}

bool weir_record_open(struct weir_gateway *g, char *error_text, size_t error_bytes)
{
    const char *path = g->config->record_file, *why;
    struct timespec wall;
    if (!path)
        return true;
    g->record = calloc(1, sizeof *g->record);
    if (!g->record)
        return false; /* error_text says so already */
    clock_gettime(CLOCK_REALTIME, &wall);
    g->record->began_ns = weir_loop_now_ns(g->loop);
    size_t bytes = weir_trace_header((int64_t)wall.tv_sec * 1000000 + wall.tv_nsec / 1000,
                                     g->record->begin, WEIR_TRACE_HEADER_BYTES);
    g->record->begin[bytes] = '\0';
    uint64_t file_bytes = 0;
    int fd = record_open_file(path, g->record->begin, &file_bytes, &why);
    if (fd < 0) {
        snprintf(error_text, error_bytes,
                 "cannot record to %s: %s; name another file in record.file, or leave it out", path,
                 why);
        return false;
    }
    uint64_t limit_bytes = g->config->record_limit_bytes;
    const struct weir_log_record record = {
        .fd = fd,
        .name = path,
        .begin = g->record->begin,
        .room_bytes = limit_bytes > file_bytes ? limit_bytes - file_bytes : 0,
        .dropped = weir_trace_dropped_line};
    if (weir_log_record_start(g->log, &record))
        return true;
    close(fd);
    return false;
}

void weir_record_free(struct weir_gateway *g)
{
    free(g->record);
    g->record = NULL;
}

/* ---- a row ---- */

static uint32_t record_tok(int64_t tok)
{
    return tok > 0 ? (uint32_t)weir_min_i64(tok, WEIR_TRACE_TOK_MAX) : 0;
}

static uint64_t record_since_ns(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? to_ns - from_ns : 0;
}

static enum weir_trace_outcome record_outcome(const struct weir_request *r,
                                              const struct weir_flow_summary *s,
                                              enum weir_refusal refusal)
{
    if (s && s->client_gone)
        return WEIR_TRACE_GONE;
    if (r->was_cut)
        return WEIR_TRACE_CUT;
    if (refusal != WEIR_REFUSAL_NONE)
        return WEIR_TRACE_REFUSED;
    return r->status / 100 == 2 ? WEIR_TRACE_FINISHED : WEIR_TRACE_FAILED;
}

/* What the flow knows of it: tokens, and waits counted from arrival. */
static void record_summary(const struct weir_request *r, const struct weir_flow_summary *s,
                           struct weir_trace_entry *e)
{
    /* What was booked adds up, also where the provider reported nothing; before that, what it
     * said. */
    const struct weir_flow_usage *used = r->settled.input_tok >= 0 ? &r->settled : &s->usage;
    e->prompt_tok = record_tok(used->input_tok);
    e->cached_tok = record_tok(used->cached_tok);
    e->output_tok = record_tok(used->output_tok);
    e->estimate_tok = record_tok((int64_t)s->estimate_tok);
    e->queue_wait_ns = s->queue_wait_ns;
    if (s->first_byte_ns)
        e->first_byte_ns = record_since_ns(r->arrived_ns, s->first_byte_ns);
    if (s->ended_ns)
        e->latency_ns = record_since_ns(r->arrived_ns, s->ended_ns);
}

void weir_request_record(struct weir_request *r, const struct weir_flow_summary *s,
                         enum weir_refusal refusal)
{
    struct weir_gateway *g = r->g;
    char line[WEIR_TRACE_LINE_BYTES];
    if (!weir_log_record_wanted(g->log) || !r->metered || r->tenant == WEIR_NONE)
        return;
    struct weir_trace_entry e = {
        .arrival_ns = record_since_ns(g->record->began_ns, r->arrived_ns),
        .output_limit_tok = (uint32_t)weir_min_u64(r->output_limit_tok, WEIR_TRACE_TOK_MAX),
        .latency_ns = record_since_ns(r->arrived_ns, weir_loop_now_ns(g->loop)),
        .status = r->status,
        .outcome = record_outcome(r, s, refusal),
        .refusal = refusal,
        .is_stream = r->stream};
    if (s)
        record_summary(r, s, &e);
    const char *tenant = weir_tenancy_name(g->tenancy, r->tenant);
    size_t bytes = weir_trace_line(&e, tenant ? tenant : "", g->config->lanes[r->lane].name,
                                   r->model_label, line, sizeof line);
    weir_log_record(g->log, line, bytes);
}
