/* log: the access log, the recording and the gateway's own messages, written by one helper thread.
 *
 * The loop appends whole lines to a bounded buffer and never waits for a disk or a pipe: when the
 * buffer is full the line is dropped and counted, and the next line that fits says how many were
 * lost. Access lines are JSON, one object a line; messages are "weir: level: text" on standard
 * error; record.c makes the lines of a recording. None ever holds a credential, a prompt or a
 * completion.
 *
 * Thread: every function from the loop (and before it starts); the helper is inside. */
#ifndef WEIR_GATEWAY_LOG_H
#define WEIR_GATEWAY_LOG_H

#include "core/base.h"

struct weir_log;

#define WEIR_LOG_LINE_BYTES 4096u

/* access_path: NULL: no access log; "-": standard error; else a file, appended to, made 0640.
 * NULL on failure; error_text says what and what to do. */
struct weir_log *weir_log_open(const char *access_path, char *error_text, size_t error_bytes);
/* Writes what is left, gives up a reader that takes nothing for two seconds, stops the thread. */
void weir_log_close(struct weir_log *log);

/* One access line without its newline; longer than WEIR_LOG_LINE_BYTES is cut. */
void weir_log_access(struct weir_log *log, const char *line, size_t bytes);
bool weir_log_access_wanted(const struct weir_log *log);

/* Makes the line that says how many were lost before it; returns its bytes. */
typedef size_t weir_log_dropped_fn(uint64_t count, char *out, size_t cap);

/* Where a recording goes. The texts are kept by pointer. */
struct weir_log_record {
    int fd;              /* open for appending; closed with the log */
    const char *name;    /* for messages */
    const char *begin;   /* the lines that begin a recording: not written now, but again whenever a
                            failed write may have left half a line */
    uint64_t room_bytes; /* more is not written: lines are dropped from then on */
    weir_log_dropped_fn *dropped;
};

/* From now on. false: out of memory, and the fd stays the caller's. Once, before any line. */
WEIR_MUST_USE bool weir_log_record_start(struct weir_log *log,
                                         const struct weir_log_record *record);
/* One line of it, with its newline; at most WEIR_LOG_LINE_BYTES. */
void weir_log_record(struct weir_log *log, const char *line, size_t bytes);
bool weir_log_record_wanted(const struct weir_log *log);
/* Lines in the file, and lines lost (no room in the buffer, on the disk, or in room_bytes), since
 * start. */
void weir_log_record_counts(struct weir_log *log, uint64_t *written, uint64_t *dropped);

enum weir_log_level { WEIR_LOG_INFO, WEIR_LOG_WARN, WEIR_LOG_ERROR };
/* log may be NULL: written to standard error at once. */
void weir_log_message(struct weir_log *log, enum weir_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

uint64_t weir_log_dropped(struct weir_log *log); /* access lines and messages, since start */

#endif
