/* The file itself: who may use it, whether it is ours and of which form, and what a fault of it
 * means for the people who run the gateway. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "store/sqlite_inside.h"

#define FILE_BUSY_MS 500
#define FILE_SYNC_TRIES 5
#define FILE_SYNC_LONG_NS (20 * WEIR_NS_PER_MS) /* then fewer will do */
#define FILE_SYNC_SLOW_NS (5 * WEIR_NS_PER_MS)
#define FILE_SYNC_LIES_NS (30 * WEIR_NS_PER_US)
#define FILE_NUMBER_MAX (INT64_MAX / 2) /* of rows: there is always a next one */
#define FILE_LOCK_TRIES 5               /* 10 ms apart */
#define FILE_LOCK_BYTES 96 /* the line is filled up with spaces, so that it never gets shorter */

/* ---- the lock file ---- */

bool sql_lock_take(struct sql_store *s, char *error_text, size_t error_bytes)
{
    s->lock_fd = open(s->lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (s->lock_fd < 0) {
        snprintf(error_text, error_bytes, "ledger %s: the lock file %s cannot be opened: %s",
                 s->path, s->lock_path, strerror(errno));
        return false;
    }
    /* Who only looks whether the ledger is in use has the lock for a moment. */
    int result = flock(s->lock_fd, LOCK_EX | LOCK_NB);
    for (int tries = 0; result != 0 && errno == EWOULDBLOCK && tries < FILE_LOCK_TRIES; tries++) {
        nanosleep(&(struct timespec){.tv_nsec = 10 * 1000 * 1000}, NULL);
        result = flock(s->lock_fd, LOCK_EX | LOCK_NB);
    }
    if (result == 0)
        return true;
    if (errno != EWOULDBLOCK) {
        snprintf(error_text, error_bytes, "ledger %s: %s cannot be locked: %s", s->path,
                 s->lock_path, strerror(errno));
        return false;
    }
    char line[FILE_LOCK_BYTES + 1] = "";
    uint64_t epoch;
    int64_t seq;
    int pid = 0;
    ssize_t bytes = pread(s->lock_fd, line, FILE_LOCK_BYTES, 0);
    if (bytes > 0 && sscanf(line, WEIR_SCHEMA_LOCK_SCAN, &epoch, &seq, &pid) == 3)
        snprintf(error_text, error_bytes,
                 "ledger %s is in use by process %d: one gateway at a time may own a ledger; stop "
                 "that process, or give this one another file",
                 s->path, pid);
    else
        snprintf(error_text, error_bytes,
                 "ledger %s is in use by another process (it holds %s): one gateway at a time may "
                 "own a ledger",
                 s->path, s->lock_path);
    return false;
}

bool sql_lock_read(const struct sql_store *s, uint64_t *epoch, int64_t *seq)
{
    char line[FILE_LOCK_BYTES + 1] = "";
    int pid;
    ssize_t bytes = pread(s->lock_fd, line, FILE_LOCK_BYTES, 0);
    return bytes > 0 && sscanf(line, WEIR_SCHEMA_LOCK_SCAN, epoch, seq, &pid) == 3;
}

/* Not synced: a line that is older than the file does no harm, and a newer one than the file cannot
 * come about, since it is written after the commit. */
void sql_lock_write(const struct sql_store *s, uint64_t epoch, int64_t seq)
{
    char line[FILE_LOCK_BYTES];
    memset(line, ' ', sizeof line);
    int bytes = snprintf(line, sizeof line, WEIR_SCHEMA_LOCK_PRINT, epoch, seq, (int)getpid());
    line[bytes] = ' ';
    line[sizeof line - 1] = '\n';
    ssize_t done = pwrite(s->lock_fd, line, sizeof line, 0);
    (void)done; /* then the line stays as it was: older */
}

void sql_lock_drop(struct sql_store *s)
{
    if (s->lock_fd >= 0)
        close(s->lock_fd); /* the file stays: its line is what notices an older copy */
    if (s->own_fd >= 0)
        close(s->own_fd);
    s->lock_fd = s->own_fd = -1;
}

/* ---- how long the disk takes ---- */

static void sync_tell(const struct sql_store *s, uint64_t sync_ns)
{
    double ms = (double)sync_ns / 1e6;
    if (sync_ns > FILE_SYNC_SLOW_NS)
        sql_say(s, WEIR_STORE_SAY_WARN,
                "ledger %s: one sync of this disk takes %.2f ms: each request waits for about 1.6 "
                "of them before it is sent; a disk with power-loss protection would be faster",
                s->path, ms);
    else if (sync_ns < FILE_SYNC_LIES_NS)
        sql_say(
            s, WEIR_STORE_SAY_WARN,
            "ledger %s: one sync of this disk takes %.3f ms: it probably says that data is safe "
            "before it is (or this is memory); a power cut may lose the last requests' tokens",
            s->path, ms);
    else
        sql_say(s, WEIR_STORE_SAY_INFO, "ledger %s: one sync of this disk takes %.2f ms", s->path,
                ms);
}

/* Writes and syncs a small file beside the ledger a few times; how often it did. */
static int sync_try(const char *path, uint64_t took_ns[FILE_SYNC_TRIES])
{
    static const char zeroes[4096];
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600), tries = 0;
    uint64_t begun_ns = sql_clock_ns();
    for (; fd >= 0 && tries < FILE_SYNC_TRIES; tries++) {
        uint64_t before_ns = sql_clock_ns();
        if (before_ns - begun_ns > FILE_SYNC_LONG_NS ||
            pwrite(fd, zeroes, sizeof zeroes, tries * (off_t)sizeof zeroes) != sizeof zeroes ||
            fdatasync(fd) != 0)
            break;
        took_ns[tries] = sql_clock_ns() - before_ns;
    }
    if (fd >= 0) {
        close(fd);
        unlink(path);
    }
    return tries;
}

void sql_sync_measure(struct sql_store *s)
{
    uint64_t took_ns[FILE_SYNC_TRIES];
    char *path;
    s->is_measured = true;
    if (asprintf(&path, "%s.sync", s->path) < 0)
        return;
    int tries = sync_try(path, took_ns);
    free(path);
    if (tries == 0)
        return; /* whatever is wrong, the ledger's own writes say it better */
    qsort(took_ns, (size_t)tries, sizeof *took_ns, sql_by_size);
    uint64_t sync_ns = took_ns[tries / 2];
    pthread_mutex_lock(&s->copies_lock);
    s->status.sync_ns = sync_ns;
    pthread_mutex_unlock(&s->copies_lock);
    sync_tell(s, sync_ns);
}

/* ---- faults ---- */

bool sql_file_wrong(struct sql_store *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int bytes = snprintf(s->file.trouble, sizeof s->file.trouble, "ledger %s: ", s->path);
    if (bytes > 0 && (size_t)bytes < sizeof s->file.trouble)
        vsnprintf(s->file.trouble + bytes, sizeof s->file.trouble - (size_t)bytes, format, args);
    va_end(args);
    if (s->file.fault == SQLITE_OK)
        s->file.fault = SQLITE_CORRUPT;
    return false;
}

/* What to do about a fault. */
static const char *fault_advice(int fault)
{
    switch (fault & 0xff) {
    case SQLITE_FULL:
        return "make room on this file system";
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_CANTOPEN:
    case SQLITE_AUTH:
        return "the file and its folder must belong to the gateway's user, on a file system that "
               "can be written";
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return "another program keeps it locked: end its transaction";
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return "the file is damaged: stop the gateway, keep a copy of the file, look at it by "
               "`weir ledger verify`, and go on with a backup; it is never repaired by itself";
    case SQLITE_NOMEM:
        return "there is no memory left";
    case SQLITE_IOERR:
        return "look at the disk (full, quota, size limit, read-only, or failing: `dmesg` says)";
    default:
        return "look at the disk and the system's log";
    }
}

bool sql_file_fault(struct sql_store *s, const char *doing)
{
    struct sql_file *f = &s->file;
    int fault = f->db ? sqlite3_extended_errcode(f->db) : SQLITE_NOMEM;
    int system = f->db ? sqlite3_system_errno(f->db) : 0;
    const char *text = f->db ? sqlite3_errmsg(f->db) : "out of memory";
    f->fault = fault != SQLITE_OK ? fault : SQLITE_ERROR;
    snprintf(f->trouble, sizeof f->trouble, "ledger %s: cannot %s: %s%s%s (code %d): %s", s->path,
             doing, text, system ? ", " : "", system ? strerror(system) : "", f->fault,
             fault_advice(f->fault));
    return false;
}

/* ---- opening ---- */

bool sql_file_missing(struct sql_store *s, uint64_t epoch)
{
    return sql_file_wrong(s,
                          "the file is missing, but %s says that run %" PRIu64
                          " wrote it: put it back; to begin anew with nothing spent, run "
                          "`weir ledger verify --adopt`",
                          s->lock_path, epoch);
}

/* The lock file goes by the ledger's name, and names are not all: a link has another, and a lock
 * file can be deleted. So the file itself is locked too, by flock, which SQLite does not use. Other
 * errors mean that its file system knows no such locks. */
static bool file_lock(struct sql_store *s)
{
    if (flock(s->own_fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return true;
    s->file.fault = SQLITE_BUSY;
    return sql_file_wrong(s,
                          "is in use by another process, by another name or without the lock file "
                          "%s: one gateway at a time may own a ledger",
                          s->lock_path);
}

/* Makes the file if it is not there, for the owner only. SQLite gives its other files the same
 * mode. Before any connection of this process has it open, and it stays open until none has:
 * closing would drop their locks. */
static bool file_make(struct sql_store *s)
{
    struct stat facts;
    uint64_t epoch;
    int64_t seq;
    /* A new file would make SQLite delete the log that belongs to the missing one. */
    if (!s->config.adopt && sql_lock_read(s, &epoch, &seq) && stat(s->path, &facts) != 0 &&
        errno == ENOENT)
        return sql_file_missing(s, epoch);
    if (s->own_fd < 0)
        s->own_fd = open(s->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (s->own_fd < 0) {
        s->file.fault = SQLITE_CANTOPEN;
        return sql_file_wrong(s,
                              "cannot be opened: %s; its folder must exist, and the file must "
                              "belong to the gateway's user",
                              strerror(errno));
    }
    if (fstat(s->own_fd, &facts) != 0 || !S_ISREG(facts.st_mode)) {
        s->file.fault = SQLITE_CANTOPEN;
        return sql_file_wrong(s, "is not a file");
    }
    if (facts.st_mode & 077)
        sql_say(s, WEIR_STORE_SAY_WARN,
                "ledger %s can be read or written by other users (mode %03o): `chmod 600` it",
                s->path, (unsigned)facts.st_mode & 0777);
    return file_lock(s);
}

static bool file_is_at(const struct stat *file, const char *path, const char *end)
{
    char name[PATH_MAX];
    struct stat facts;
    int bytes = snprintf(name, sizeof name, "%s%s", path, end);
    return bytes > 0 && (size_t)bytes < sizeof name && stat(name, &facts) == 0 &&
           facts.st_ino == file->st_ino && facts.st_dev == file->st_dev;
}

bool sql_file_in_place(struct sql_store *s)
{
    const char *path = s->real_path ? s->real_path : s->path;
    struct stat own;
    bool is_there = fstat(s->own_fd, &own) != 0 || file_is_at(&own, path, "");
    if (is_there && (s->file.wal.st_ino == 0 || file_is_at(&s->file.wal, path, "-wal")))
        return true;
    if (is_there)
        s->file.is_log_lost = true;
    else if (s->file.db) /* what is at those names now is not ours to delete */
        sqlite3_db_config(s->file.db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    s->file.fault = SQLITE_READONLY_DBMOVED;
    return sql_file_wrong(s,
                          "%s was deleted, moved or replaced while weir had it open: put the one "
                          "that was there back, or stop weir and start it with what is there now",
                          is_there ? "its -wal" : "the file");
}

/* Remembers which file is the log. */
static void file_know_wal(struct sql_store *s, const char *path)
{
    char name[PATH_MAX];
    int bytes = snprintf(name, sizeof name, "%s-wal", path);
    if (bytes < 0 || (size_t)bytes >= sizeof name || stat(name, &s->file.wal) != 0)
        s->file.wal = (struct stat){0};
}

static bool file_do(struct sql_store *s, const char *sql, const char *doing)
{
    return sqlite3_exec(s->file.db, sql, NULL, NULL, NULL) == SQLITE_OK || sql_file_fault(s, doing);
}

static bool file_use_wal(struct sql_store *s)
{
    sqlite3_stmt *row = NULL;
    bool done =
        sqlite3_prepare_v2(s->file.db, "PRAGMA journal_mode=WAL", -1, &row, NULL) == SQLITE_OK &&
        sqlite3_step(row) == SQLITE_ROW;
    bool is_wal = done && strcmp((const char *)sqlite3_column_text(row, 0), "wal") == 0;
    if (!done)
        sql_file_fault(s, "open it");
    else if (!is_wal)
        sql_file_wrong(s, "its file system cannot share memory between processes, which SQLite's "
                          "write-ahead log needs: put the ledger on a local disk");
    sqlite3_finalize(row);
    return is_wal;
}

/* steps[n] makes form n + 1 out of form n; the first makes all tables of a new file. */
static const char *const file_steps[] = {WEIR_SCHEMA_SQL};
_Static_assert(WEIR_COUNT(file_steps) == WEIR_SCHEMA_VERSION, "a step for each form");

/* One transaction for all steps: a file is of the old form or of the new one. */
static bool file_migrate(struct sql_store *s, int64_t version)
{
    bool done = file_do(s, "BEGIN IMMEDIATE", "begin to write");
    for (int64_t step = version; done && step < WEIR_SCHEMA_VERSION; step++) {
        char set[64];
        snprintf(set, sizeof set, "PRAGMA user_version=%" PRId64, step + 1);
        done =
            file_do(s, file_steps[step], "make its tables") && file_do(s, set, "make its tables");
    }
    done = done && file_do(s, "COMMIT", "make its tables");
    if (!done)
        sqlite3_exec(s->file.db, "ROLLBACK", NULL, NULL, NULL);
    else if (version > 0)
        sql_say(s, WEIR_STORE_SAY_INFO, "ledger %s: migrated from form %" PRId64 " to %d", s->path,
                version, WEIR_SCHEMA_VERSION);
    return done;
}

static bool file_check_form(struct sql_store *s)
{
    int64_t application, version, tables;
    if (!sql_number(s, "PRAGMA application_id", &application) ||
        !sql_number(s, "PRAGMA user_version", &version) ||
        !sql_number(s, "SELECT count(*) FROM sqlite_schema", &tables))
        return false;
    if (tables > 0 && application != WEIR_SCHEMA_APPLICATION)
        return sql_file_wrong(s, "is a database, but not a ledger of weir: give `ledger` another "
                                 "path");
    if (tables == 0)
        version = 0;
    if (version > WEIR_SCHEMA_VERSION)
        return sql_file_wrong(s,
                              "was written by a newer weir (form %" PRId64
                              ", this one knows %d): start that one, or go back to a backup",
                              version, WEIR_SCHEMA_VERSION);
    if (version < 0 || (version == 0 && tables > 0))
        return sql_file_wrong(s,
                              "says to be of form %" PRId64 ", which never was: go on with a "
                              "backup",
                              version);
    return version == WEIR_SCHEMA_VERSION || file_migrate(s, version);
}

static int file_committed(void *file, sqlite3 *db, const char *name, int frames)
{
    (void)db, (void)name;
    ((struct sql_file *)file)->wal_frames = frames;
    return SQLITE_OK;
}

/* The numbers that go on from run to run. */
static bool file_read_numbers(struct sql_store *s)
{
    struct sql_file *f = &s->file;
    int64_t labels;
    if (!sql_number(s,
                    "SELECT max(coalesce((SELECT max(seq) FROM journal), 0), v) FROM meta "
                    "WHERE k = 'base_seq'",
                    &f->seq) ||
        !sql_number(s, "SELECT v FROM meta WHERE k = 'base_seq'", &f->base_seq) ||
        !sql_number(s, "SELECT coalesce(max(id), 0) FROM scope", &f->scope_id) ||
        !sql_number(s, "SELECT coalesce(max(id) + 1, 0) FROM label", &labels))
        return false;
    if (f->seq < 0 || f->base_seq < 0 || f->scope_id < 0 || f->seq > FILE_NUMBER_MAX ||
        f->scope_id > FILE_NUMBER_MAX)
        return sql_file_wrong(s,
                              "its journal ends with row %" PRId64 " (%" PRId64
                              " folded) and its highest scope is %" PRId64
                              ", which cannot be: restore a backup",
                              f->seq, f->base_seq, f->scope_id);
    f->labels = labels < UINT32_MAX ? (uint32_t)labels : UINT32_MAX;
    return true;
}

static bool file_open(struct sql_store *s, bool is_new)
{
    struct sql_file *f = &s->file;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW;
    if (is_new && !file_make(s))
        return false;
    if (!s->real_path) /* a link given by the operator is fine, one made later is not */
        s->real_path = realpath(s->path, NULL);
    const char *path = s->real_path ? s->real_path : s->path;
    if (!sql_file_in_place(s))
        return false;
    if (sqlite3_open_v2(path, &f->db, flags, s->vfs) != SQLITE_OK)
        return sql_file_fault(s, "open it");
    sqlite3_extended_result_codes(f->db, 1);
    sqlite3_busy_timeout(f->db, FILE_BUSY_MS);
    /* Checkpoints are ours to make, after the answers are told. */
    if (!file_use_wal(s) ||
        !file_do(s,
                 "PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0; PRAGMA foreign_keys=OFF;"
                 "PRAGMA trusted_schema=OFF; PRAGMA secure_delete=OFF; PRAGMA temp_store=MEMORY;"
                 "PRAGMA cache_size=-2000; PRAGMA cell_size_check=ON",
                 "open it") ||
        !file_check_form(s) || !file_read_numbers(s))
        return false;
    sqlite3_wal_hook(f->db, file_committed, f);
    file_know_wal(s, path);
    return sql_rows_prepare(s);
}

bool sql_file_open(struct sql_store *s)
{
    bool is_first = !s->real_path;
    s->file = (struct sql_file){0};
    if (file_open(s, is_first))
        return true;
    char trouble[SQL_TEXT_BYTES];
    int fault = s->file.fault;
    memcpy(trouble, s->file.trouble, sizeof trouble);
    sql_file_close(s);
    s->file.fault = fault;
    memcpy(s->file.trouble, trouble, sizeof trouble);
    return false;
}

void sql_file_close(struct sql_store *s)
{
    /* Only this connection still has the log: what is in it goes into the file now, or is gone.
     * Reading it again shows which. */
    if (s->file.db && s->file.is_log_lost && !sql_checkpoint(s, SQLITE_CHECKPOINT_FULL))
        sql_say(s, WEIR_STORE_SAY_WARN, "%s", s->file.trouble);
    sql_rows_finalize(s);
    sqlite3_close(s->file.db); /* NULL is fine; no statement is left, so it closes */
    s->file.db = NULL;
    s->file.in_transaction = false;
}
