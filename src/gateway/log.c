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
#define LOG_LINE_BYTES 4096u
#define LOG_CLOSE_WAIT_MS 2000

/* One destination: filled by the loop, swapped and written by the helper. */
struct log_sink {
    int fd;
    char *filling, *writing;
    size_t filled_bytes;
    uint64_t dropped_now; /* since the last line that fitted */
};

enum { SINK_MESSAGE, SINK_ACCESS, SINK_COUNT };

struct weir_log {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wanted;
    bool stopping;
    bool access_on;
    uint64_t dropped;
    struct log_sink sinks[SINK_COUNT];
};

/* Writes all, or gives up when the reader takes nothing for LOG_CLOSE_WAIT_MS while stopping. */
static void log_write_all(struct weir_log *log, int fd, const char *bytes, size_t count)
{
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
                return;
        } else if (n < 0 && errno != EINTR) {
            return; /* a full disk or closed pipe must not stop the gateway; the lines are lost */
        }
    }
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
            if (count == 0)
                continue;
            any = true;
            char *bytes = sink->filling;
            sink->filling = sink->writing;
            sink->writing = bytes;
            sink->filled_bytes = 0;
            pthread_mutex_unlock(&log->lock);
            log_write_all(log, sink->fd, bytes, count);
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

static void log_append(struct weir_log *log, int which, const char *line, size_t bytes)
{
    struct log_sink *sink = &log->sinks[which];
    char lost[96];
    size_t lost_bytes = 0;
    pthread_mutex_lock(&log->lock);
    if (sink->dropped_now > 0)
        lost_bytes = (size_t)snprintf(lost, sizeof lost, "{\"log_lines_dropped\":%llu}\n",
                                      (unsigned long long)sink->dropped_now);
    if (LOG_ROOM_BYTES - sink->filled_bytes < bytes + 1 + lost_bytes) {
        sink->dropped_now++;
        log->dropped++;
    } else {
        if (lost_bytes > 0) {
            memcpy(sink->filling + sink->filled_bytes, lost, lost_bytes);
            sink->filled_bytes += lost_bytes;
            sink->dropped_now = 0;
        }
        memcpy(sink->filling + sink->filled_bytes, line, bytes);
        sink->filled_bytes += bytes;
        sink->filling[sink->filled_bytes++] = '\n';
        pthread_cond_signal(&log->wanted);
    }
    pthread_mutex_unlock(&log->lock);
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
    log->sinks[SINK_MESSAGE].fd = STDERR_FILENO;
    log->sinks[SINK_ACCESS].fd = fd >= 0 ? fd : STDERR_FILENO;
    for (int i = 0; i < SINK_COUNT; i++) {
        log->sinks[i].filling = malloc(LOG_ROOM_BYTES);
        log->sinks[i].writing = malloc(LOG_ROOM_BYTES);
        if (!log->sinks[i].filling || !log->sinks[i].writing)
            goto out_of_memory;
    }
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

void weir_log_close(struct weir_log *log)
{
    if (!log)
        return;
    pthread_mutex_lock(&log->lock);
    log->stopping = true;
    pthread_cond_signal(&log->wanted);
    pthread_mutex_unlock(&log->lock);
    pthread_join(log->thread, NULL);
    if (log->sinks[SINK_ACCESS].fd != STDERR_FILENO)
        close(log->sinks[SINK_ACCESS].fd);
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
        log_append(log, SINK_ACCESS, line, bytes < LOG_LINE_BYTES ? bytes : LOG_LINE_BYTES);
}

void weir_log_message(struct weir_log *log, enum weir_log_level level, const char *format, ...)
{
    static const char *const names[] = {"info", "warning", "error"};
    char line[LOG_LINE_BYTES];
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
        log_append(log, SINK_MESSAGE, line, used);
    else
        dprintf(STDERR_FILENO, "%.*s\n", (int)used, line);
}

uint64_t weir_log_dropped(const struct weir_log *log)
{
    return log ? log->dropped : 0;
}
