#include "gateway/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LOG_ROOM_BYTES (256u * 1024u)
#define LOG_RECORD_ROOM_BYTES (1024u * 1024u)
#define LOG_CLOSE_WAIT_MS 2000

/* One destination: filled by the loop, swapped and written by the helper. */
struct log_sink {
    int fd;
    char *filling, *writing; /* NULL: nobody writes to it */
    size_t room_bytes, filled_bytes;
    uint64_t dropped_now;      /* since the last line that fitted */
    uint64_t dropped, written; /* since start; written: of the recording only */
    weir_log_dropped_fn *dropped_line;
};

enum { SINK_MESSAGE, SINK_ACCESS, SINK_RECORD, SINK_COUNT };

struct weir_log {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wanted;
    bool stopping;
    bool access_on;
    struct log_sink sinks[SINK_COUNT];
    struct weir_log_record record; /* room_bytes: what is left, the helper's to count */
    bool record_torn; /* the helper's: a write failed, and half a line may stand at its end */
    bool record_full; /* the helper's: it was told that no room is left */
};

/* Writes all, or gives up when the reader takes nothing for LOG_CLOSE_WAIT_MS while stopping.
 * Returns what was not written, with *fault (0: the reader is stuck). */
static size_t log_write_all(struct weir_log *log, int fd, const char *bytes, size_t count,
                            int *fault)
{
    *fault = 0;
    while (count > 0) {
        ssize_t n = write(fd, bytes, count);
        if (n > 0) {
            bytes += n;
            count -= (size_t)n;
        } else if (n < 0 && errno == EAGAIN) {
            struct pollfd p = {.fd = fd, .events = POLLOUT};
            int ready = poll(&p, 1, LOG_CLOSE_WAIT_MS);
            pthread_mutex_lock(&log->lock);
            bool stopping = log->stopping;
            pthread_mutex_unlock(&log->lock);
            if (ready == 0 && stopping)
                return count;
        } else if (n < 0 && errno != EINTR) {
            *fault = errno;
            return count; /* a full disk or closed pipe must not stop the gateway */
        }
    }
    return 0;
}

static uint64_t log_lines(const char *bytes, size_t count)
{
    uint64_t lines = 0;
    for (const char *end = bytes + count; (bytes = memchr(bytes, '\n', (size_t)(end - bytes)));
         bytes++)
        lines++;
    return lines;
}

/* Behind a failed write the recording begins anew on a line of its own: its reader forgives half a
 * line there. false: that could not be written either. */
static bool log_mend_record(struct weir_log *log, int *fault)
{
    int fd = log->record.fd;
    const char *begin = log->record.begin;
    return !log->record_torn || (log_write_all(log, fd, "\n", 1, fault) == 0 &&
                                 log_write_all(log, fd, begin, strlen(begin), fault) == 0);
}

/* Says in the file how many lines it lacks here. */
static bool log_write_record_lost(struct weir_log *log, int *fault)
{
    struct log_sink *sink = &log->sinks[SINK_RECORD];
    char line[WEIR_LOG_LINE_BYTES];
    pthread_mutex_lock(&log->lock);
    uint64_t lost = sink->dropped_now;
    sink->dropped_now = 0;
    pthread_mutex_unlock(&log->lock);
    if (lost == 0 ||
        log_write_all(log, sink->fd, line, sink->dropped_line(lost, line, sizeof line), fault) == 0)
        return true;
    pthread_mutex_lock(&log->lock);
    sink->dropped_now += lost;
    pthread_mutex_unlock(&log->lock);
    return false;
}

/* Counts what was written of `count` bytes, and what is lost. */
static void log_count_record(struct weir_log *log, const char *bytes, size_t count, size_t left)
{
    struct log_sink *sink = &log->sinks[SINK_RECORD];
    uint64_t written = log_lines(bytes, count - left), lost = log_lines(bytes, count) - written;
    pthread_mutex_lock(&log->lock);
    sink->written += written;
    sink->dropped += lost;
    sink->dropped_now += lost;
    pthread_mutex_unlock(&log->lock);
}

/* It has come to its limit: nothing more is written, not even how much is missing before the
 * end. */
static void log_end_record(struct weir_log *log, const char *bytes, size_t count)
{
    log->record.room_bytes = 0;
    log_count_record(log, bytes, count, count);
    if (!log->record_full)
        weir_log_message(
            log, WEIR_LOG_WARN,
            "the recording %s has come to its limit: nothing more is recorded; move it "
            "away and start anew, or raise record.limit",
            log->record.name);
    log->record_full = true;
}

static void log_write_record(struct weir_log *log, const char *bytes, size_t count)
{
    bool was_torn = log->record_torn;
    size_t left = count;
    int fault = 0;
    if (count > log->record.room_bytes) {
        log_end_record(log, bytes, count);
        return;
    }
    if (log_mend_record(log, &fault))
        left = log_write_all(log, log->record.fd, bytes, count, &fault);
    log->record.room_bytes -= count - left;
    log_count_record(log, bytes, count, left);
    log->record_torn = left > 0 || fault != 0 || !log_write_record_lost(log, &fault);
    if (log->record_torn && !was_torn)
        weir_log_message(log, WEIR_LOG_ERROR,
                         "cannot write the recording %s: %s; requests are served, but those not "
                         "written are lost until it can be written again",
                         log->record.name, fault ? strerror(fault) : "its reader takes nothing");
    else if (!log->record_torn && was_torn)
        weir_log_message(log, WEIR_LOG_INFO, "the recording %s is written again", log->record.name);
}

static void *log_main(void *arg)
{
    struct weir_log *log = arg;
    pthread_mutex_lock(&log->lock);
    for (;;) {
        bool any = false;
        for (int i = 0; i < SINK_COUNT; i++) {
            struct log_sink *sink = &log->sinks[i];
            size_t count = sink->filled_bytes;
            int fault;
            if (count == 0)
                continue;
            any = true;
            char *bytes = sink->filling;
            sink->filling = sink->writing;
            sink->writing = bytes;
            sink->filled_bytes = 0;
            pthread_mutex_unlock(&log->lock);
            if (i == SINK_RECORD)
                log_write_record(log, bytes, count);
            else
                (void)log_write_all(log, sink->fd, bytes, count, &fault);
            pthread_mutex_lock(&log->lock);
        }
        if (any)
            continue;
        if (log->stopping)
            break;
        pthread_cond_wait(&log->wanted, &log->lock);
    }
    pthread_mutex_unlock(&log->lock);
    return NULL;
}

static size_t log_dropped_line(uint64_t count, char *out, size_t cap)
{
    return (size_t)snprintf(out, cap, "{\"log_lines_dropped\":%llu}\n", (unsigned long long)count);
}

/* has_end: the line has its newline. */
static void log_append(struct weir_log *log, int which, const char *line, size_t bytes,
                       bool has_end)
{
    struct log_sink *sink = &log->sinks[which];
    char lost[WEIR_LOG_LINE_BYTES];
    size_t lost_bytes = 0;
    pthread_mutex_lock(&log->lock);
    if (sink->dropped_now > 0 && which != SINK_RECORD) /* whose helper tells it */
        lost_bytes = sink->dropped_line(sink->dropped_now, lost, sizeof lost);
    if (sink->room_bytes - sink->filled_bytes < bytes + 1 + lost_bytes) {
        sink->dropped_now++;
        sink->dropped++;
    } else {
        if (lost_bytes > 0) {
            memcpy(sink->filling + sink->filled_bytes, lost, lost_bytes);
            sink->filled_bytes += lost_bytes;
            sink->dropped_now = 0;
        }
        memcpy(sink->filling + sink->filled_bytes, line, bytes);
        sink->filled_bytes += bytes;
        if (!has_end)
            sink->filling[sink->filled_bytes++] = '\n';
        pthread_cond_signal(&log->wanted);
    }
    pthread_mutex_unlock(&log->lock);
}

static bool log_sink_open(struct log_sink *sink, int fd, size_t room_bytes,
                          weir_log_dropped_fn *dropped_line)
{
    sink->filling = malloc(room_bytes);
    sink->writing = malloc(room_bytes);
    if (!sink->filling || !sink->writing)
        return false;
    sink->fd = fd;
    sink->room_bytes = room_bytes;
    sink->dropped_line = dropped_line;
    return true;
}

struct weir_log *weir_log_open(const char *access_path, char *error_text, size_t error_bytes)
{
    int fd = -1;
    if (access_path && strcmp(access_path, "-") != 0) {
        fd = open(access_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
        if (fd < 0) {
            snprintf(
                error_text, error_bytes,
                "cannot open the access log %s: %s; make its folder writable, or set log.access "
                "to another path or to off",
                access_path, strerror(errno));
            return NULL;
        }
    }
    struct weir_log *log = calloc(1, sizeof *log);
    if (!log)
        goto out_of_memory;
    log->access_on = access_path != NULL;
    log->sinks[SINK_RECORD].fd = -1;
    if (!log_sink_open(&log->sinks[SINK_MESSAGE], STDERR_FILENO, LOG_ROOM_BYTES,
                       log_dropped_line) ||
        !log_sink_open(&log->sinks[SINK_ACCESS], fd >= 0 ? fd : STDERR_FILENO, LOG_ROOM_BYTES,
                       log_dropped_line))
        goto out_of_memory;
    pthread_mutex_init(&log->lock, NULL);
    pthread_cond_init(&log->wanted, NULL);
    if (pthread_create(&log->thread, NULL, log_main, log) == 0)
        return log;
out_of_memory:
    snprintf(error_text, error_bytes, "cannot start the log writer: out of memory or threads");
    if (log)
        for (int i = 0; i < SINK_COUNT; i++) {
            free(log->sinks[i].filling);
            free(log->sinks[i].writing);
        }
    free(log);
    if (fd >= 0)
        close(fd);
    return NULL;
}

/* How many lines the recording lacks at its end; the helper is over. */
static void log_write_last(struct weir_log *log)
{
    struct log_sink *said = &log->sinks[SINK_MESSAGE];
    int fault;
    log_write_record(log, "", 0);
    (void)log_write_all(log, said->fd, said->filling, said->filled_bytes, &fault);
}

void weir_log_close(struct weir_log *log)
{
    if (!log)
        return;
    pthread_mutex_lock(&log->lock);
    log->stopping = true;
    pthread_cond_signal(&log->wanted);
    pthread_mutex_unlock(&log->lock);
    pthread_join(log->thread, NULL);
    if (log->sinks[SINK_RECORD].dropped_now > 0)
        log_write_last(log);
    if (log->sinks[SINK_ACCESS].fd != STDERR_FILENO)
        close(log->sinks[SINK_ACCESS].fd);
    if (log->sinks[SINK_RECORD].fd >= 0)
        close(log->sinks[SINK_RECORD].fd);
    for (int i = 0; i < SINK_COUNT; i++) {
        free(log->sinks[i].filling);
        free(log->sinks[i].writing);
    }
    pthread_mutex_destroy(&log->lock);
    pthread_cond_destroy(&log->wanted);
    free(log);
}

bool weir_log_access_wanted(const struct weir_log *log)
{
    return log && log->access_on;
}

void weir_log_access(struct weir_log *log, const char *line, size_t bytes)
{
    if (weir_log_access_wanted(log))
        log_append(log, SINK_ACCESS, line,
                   bytes < WEIR_LOG_LINE_BYTES ? bytes : WEIR_LOG_LINE_BYTES, false);
}

bool weir_log_record_start(struct weir_log *log, const struct weir_log_record *record)
{
    pthread_mutex_lock(&log->lock); /* the helper looks at every sink */
    bool is_open =
        log_sink_open(&log->sinks[SINK_RECORD], record->fd, LOG_RECORD_ROOM_BYTES, record->dropped);
    log->record = *record;
    pthread_mutex_unlock(&log->lock);
    return is_open;
}

bool weir_log_record_wanted(const struct weir_log *log)
{
    return log && log->sinks[SINK_RECORD].fd >= 0;
}

void weir_log_record(struct weir_log *log, const char *line, size_t bytes)
{
    WEIR_INVARIANT(bytes > 0 && bytes <= WEIR_LOG_LINE_BYTES && line[bytes - 1] == '\n');
    if (weir_log_record_wanted(log))
        log_append(log, SINK_RECORD, line, bytes, true);
}

void weir_log_record_counts(struct weir_log *log, uint64_t *written, uint64_t *dropped)
{
    *written = *dropped = 0;
    if (!log)
        return;
    pthread_mutex_lock(&log->lock);
    *written = log->sinks[SINK_RECORD].written;
    *dropped = log->sinks[SINK_RECORD].dropped;
    pthread_mutex_unlock(&log->lock);
}

void weir_log_message(struct weir_log *log, enum weir_log_level level, const char *format, ...)
{
    static const char *const names[] = {"info", "warning", "error"};
    char line[WEIR_LOG_LINE_BYTES];
    time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    size_t used = strftime(line, sizeof line, "%Y-%m-%dT%H:%M:%SZ weir: ", &utc);
    used += (size_t)snprintf(line + used, sizeof line - used, "%s: ", names[level]);
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line + used, sizeof line - used, format, args);
    va_end(args);
    if (n > 0)
        used = (size_t)n < sizeof line - used ? used + (size_t)n : sizeof line - 1;
    for (size_t i = 0; i < used; i++) /* what came from outside cannot start a line of its own */
        if ((unsigned char)line[i] < ' ')
            line[i] = ' ';
    if (log)
        log_append(log, SINK_MESSAGE, line, used, false);
    else
        dprintf(STDERR_FILENO, "%.*s\n", (int)used, line);
}

uint64_t weir_log_dropped(struct weir_log *log)
{
    if (!log)
        return 0;
    pthread_mutex_lock(&log->lock); /* the helper has messages of its own */
    uint64_t dropped = log->sinks[SINK_MESSAGE].dropped + log->sinks[SINK_ACCESS].dropped;
    pthread_mutex_unlock(&log->lock);
    return dropped;
}
