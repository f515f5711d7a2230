/* sqlite: the durable store, the loop's side. Entries, queue, deadlines, and what readers see.
 *
 * Room: an entry is in use from its submit until its answer is collected. Of the entries, so many
 * are kept free as there are holds alive: the end of each finds one. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "store/sqlite_inside.h"

#define SQLITE_QUEUE_MAX 65536u
#define SQLITE_STUCK_NS (2 * WEIR_NS_PER_S) /* the oldest operation waits for so long: stuck */
#define SQLITE_HOLDS_MAX (UINT32_C(1) << 20)

uint64_t sql_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * WEIR_NS_PER_S + (uint64_t)now.tv_nsec;
}

int sql_by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

int64_t sql_wall_clip(int64_t wall_s)
{
    return weir_min_i64(weir_max_i64(wall_s, 0), SQL_WALL_MAX_S);
}

int64_t sql_wall_s(const struct sql_store *s)
{
    return sql_wall_clip(s->config.wall_s ? s->config.wall_s() : (int64_t)time(NULL));
}

void sql_say(const struct sql_store *s, enum weir_store_say level, const char *format, ...)
{
    char text[SQL_TEXT_BYTES + 256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (s->config.say)
        s->config.say(level, text);
    else
        fprintf(stderr, "weir: %s\n", text);
}

/* ---- entries ---- */

static bool ends_hold(enum weir_ledger_kind kind)
{
    return kind == WEIR_LEDGER_SETTLE || kind == WEIR_LEDGER_VOID;
}

static bool asks(enum weir_ledger_kind kind)
{
    return kind == WEIR_LEDGER_RESERVE || kind == WEIR_LEDGER_EXTEND;
}

static uint32_t entry_new(struct sql_store *s)
{
    uint32_t index;
    if (s->entries_free) {
        index = s->entries_free - 1;
        s->entries_free = s->entries[index].next_free;
    } else {
        index = s->entries_touched++;
    }
    struct sql_entry *e = &s->entries[index];
    e->newer = 0;
    e->older = s->newest;
    *(s->newest ? &s->entries[s->newest - 1].newer : &s->oldest) = index + 1;
    s->newest = index + 1;
    s->entries_now++;
    return index;
}

static void entry_free(struct sql_store *s, uint32_t index)
{
    struct sql_entry *e = &s->entries[index];
    *(e->older ? &s->entries[e->older - 1].newer : &s->oldest) = e->newer;
    *(e->newer ? &s->entries[e->newer - 1].older : &s->newest) = e->older;
    if (weir_heap_has(&s->deadlines, index))
        weir_heap_remove(&s->deadlines, index);
    free((void *)(uintptr_t)e->op.text);
    e->op.text = NULL;
    e->next_free = s->entries_free;
    s->entries_free = index + 1;
    s->entries_now--;
}

/* ---- submit ---- */

static bool has_room(const struct sql_store *s, enum weir_ledger_kind kind)
{
    uint32_t room = s->entries_max - s->entries_now;
    if (ends_hold(kind))
        return room >= 1;
    return s->others_now < s->config.queue_max &&
           room >= s->held_now + (kind == WEIR_LEDGER_RESERVE ? 2u : 1u);
}

/* Nothing comes out of the store: asking it for more would only be waiting. */
static bool is_stuck(const struct sql_store *s)
{
    if (atomic_load(&s->is_poisoned))
        return true;
    return s->oldest && s->now_ns > s->entries[s->oldest - 1].submitted_ns &&
           s->now_ns - s->entries[s->oldest - 1].submitted_ns > SQLITE_STUCK_NS;
}

static bool sqlite_submit(struct weir_store *st, const struct weir_store_op *op)
{
    struct sql_store *s = (struct sql_store *)st;
    enum weir_ledger_kind kind = op->ledger.kind;
    char *text = NULL;
    /* One ask at a time finds out whether it works again. */
    if (!has_room(s, kind) || (asks(kind) && s->asks_now > 0 && is_stuck(s)))
        return false;
    if (op->text && op->text[0] && !(text = strndup(op->text, WEIR_STORE_TEXT_MAX)))
        return false;
    uint32_t index = entry_new(s);
    struct sql_entry *e = &s->entries[index];
    e->op = *op;
    e->op.text = text;
    e->submitted_ns = s->now_ns;
    e->result = WEIR_LEDGER_UNAVAILABLE;
    e->scope = op->ledger.scope;
    e->silent = false;
    atomic_store_explicit(&e->told, false, memory_order_relaxed);
    s->others_now += !ends_hold(kind);
    s->asks_now += asks(kind);
    s->held_now += kind == WEIR_LEDGER_RESERVE;
    if (asks(kind) && op->deadline_ns != WEIR_NEVER_NS)
        weir_heap_push(&s->deadlines, index, op->deadline_ns);
    if (kind == WEIR_LEDGER_SCOPE)
        weir_names_scope_stay(st->names, op->ledger.scope);
    else if (kind == WEIR_LEDGER_SCOPE_FORGET)
        e->turn = weir_names_scope_leave(st->names, op->ledger.scope);
    pthread_mutex_lock(&s->lock);
    struct sql_ring *ring = ends_hold(kind) ? &s->ends : &s->others;
    ring->items[ring->tail++ & ring->mask] = index;
    pthread_mutex_unlock(&s->lock);
    s->is_submitted = true;
    return true;
}

/* All that a turn submitted is one batch: the thread is woken once the turn collects. */
static void collect_wake(struct sql_store *s)
{
    if (!s->is_submitted)
        return;
    s->is_submitted = false;
    pthread_mutex_lock(&s->lock);
    if (s->is_waiting && (!s->is_riding || s->others.head != s->others.tail)) {
        s->is_waiting = false;
        pthread_cond_signal(&s->wake);
    }
    pthread_mutex_unlock(&s->lock);
}

/* ---- collect ---- */

static struct weir_store_answer answer_of(const struct sql_entry *e)
{
    return (struct weir_store_answer){.tag = e->op.tag,
                                      .hold = e->op.ledger.hold,
                                      .kind = e->op.ledger.kind,
                                      .result = e->result,
                                      .scope = e->scope};
}

/* An entry is done. true: its answer is told now. */
static bool collect_entry(struct sql_store *s, uint32_t index, struct weir_store_answer *answer)
{
    const struct sql_entry *e = &s->entries[index];
    enum weir_ledger_kind kind = e->op.ledger.kind;
    bool is_told_now = !e->silent;
    *answer = answer_of(e);
    s->others_now -= !ends_hold(kind);
    s->asks_now -= asks(kind) && is_told_now;
    if (kind == WEIR_LEDGER_RESERVE)
        s->held_now -= e->silent || e->result != WEIR_LEDGER_HELD;
    else if (e->result == WEIR_LEDGER_SETTLED || e->result == WEIR_LEDGER_VOIDED)
        s->held_now--;
    else if (kind == WEIR_LEDGER_SCOPE_FORGET && e->result == WEIR_LEDGER_DONE)
        weir_names_scope_left(s->base.names, e->op.ledger.scope, e->turn);
    entry_free(s, index);
    return is_told_now;
}

static size_t collect_answered(struct sql_store *s, struct weir_store_answer *answers,
                               size_t answers_max)
{
    size_t count = 0;
    bool more = true;
    while (more && count < answers_max) {
        uint32_t some[64];
        size_t taken = 0;
        pthread_mutex_lock(&s->lock);
        while (taken < WEIR_COUNT(some) && taken < answers_max - count &&
               s->answered.head != s->answered.tail)
            some[taken++] = s->answered.items[s->answered.head++ & s->answered.mask];
        more = s->answered.head != s->answered.tail;
        if (!more)
            s->answered.head = s->answered.tail = 0; /* as ring_pop does, for the pages' sake */
        if (!more && s->is_readable) {
            uint64_t word;
            ssize_t done = read(s->base.fd, &word, sizeof word);
            (void)done; /* never blocks; fails only when it was not readable */
            s->is_readable = false;
        }
        pthread_mutex_unlock(&s->lock);
        for (size_t i = 0; i < taken; i++)
            count += collect_entry(s, some[i], &answers[count]);
    }
    return count;
}

/* Asks whose deadline has passed while the thread had them, or could not take them. */
static size_t collect_late(struct sql_store *s, struct weir_store_answer *answers,
                           size_t answers_max)
{
    size_t count = 0;
    while (count < answers_max && s->deadlines.count > 0 &&
           weir_heap_top_key(&s->deadlines) <= s->now_ns) {
        struct sql_entry *e = &s->entries[weir_heap_pop(&s->deadlines)];
        if (atomic_exchange(&e->told, true))
            continue; /* the thread has told just now: its answer is on the way */
        answers[count] = (struct weir_store_answer){.tag = e->op.tag,
                                                    .hold = e->op.ledger.hold,
                                                    .kind = e->op.ledger.kind,
                                                    .result = WEIR_LEDGER_UNAVAILABLE,
                                                    .scope = e->op.ledger.scope};
        s->asks_now--;
        count++;
    }
    return count;
}

static size_t sqlite_collect(struct weir_store *st, uint64_t now_ns,
                             struct weir_store_answer *answers, size_t answers_max)
{
    struct sql_store *s = (struct sql_store *)st;
    if (s->now_ns == 0) /* what came before the first collect came now */
        for (uint32_t at = s->oldest; at; at = s->entries[at - 1].newer)
            s->entries[at - 1].submitted_ns = now_ns;
    s->now_ns = weir_max_u64(s->now_ns, now_ns);
    collect_wake(s);
    size_t count = collect_answered(s, answers, answers_max);
    return count + collect_late(s, answers + count, answers_max - count);
}

/* ---- looking in ---- */

static bool sqlite_totals(struct weir_store *st, uint32_t scope, struct weir_ledger_totals *totals)
{
    struct sql_store *s = (struct sql_store *)st;
    if (scope >= s->limits.scopes_max)
        return false;
    pthread_mutex_lock(&s->copies_lock);
    bool is_defined = s->copies[scope].is_defined;
    if (is_defined)
        *totals = s->copies[scope].totals;
    pthread_mutex_unlock(&s->copies_lock);
    return is_defined;
}

static void sqlite_stats(struct weir_store *st, struct weir_ledger_stats *stats)
{
    struct sql_store *s = (struct sql_store *)st;
    pthread_mutex_lock(&s->copies_lock);
    *stats = s->stats;
    pthread_mutex_unlock(&s->copies_lock);
}

static uint64_t file_bytes(const char *path, const char *end)
{
    char *whole;
    struct stat facts;
    if (asprintf(&whole, "%s%s", path, end) < 0)
        return 0;
    bool known = stat(whole, &facts) == 0;
    free(whole);
    return known ? (uint64_t)facts.st_size : 0;
}

static void sqlite_status(struct weir_store *st, struct weir_store_status *status)
{
    struct sql_store *s = (struct sql_store *)st;
    uint64_t commits_ns[SQL_COMMITS_KEPT];
    pthread_mutex_lock(&s->copies_lock);
    *status = s->status;
    uint64_t count = weir_min_u64(s->commits_count, SQL_COMMITS_KEPT);
    memcpy(commits_ns, s->commits_ns, count * sizeof *commits_ns);
    pthread_mutex_unlock(&s->copies_lock);
    if (count > 0) {
        qsort(commits_ns, count, sizeof *commits_ns, sql_by_size);
        status->commit_p50_ns = commits_ns[(count - 1) / 2];
        status->commit_p99_ns = commits_ns[(count - 1) * 99 / 100];
    }
    status->is_durable = true;
    status->is_available = !is_stuck(s);
    status->path = s->path;
    status->queue_now = s->entries_now;
    status->file_bytes = file_bytes(s->real_path, "");
    status->wal_bytes = file_bytes(s->real_path, "-wal");
    if (!status->is_available && !status->trouble[0])
        snprintf(status->trouble, sizeof status->trouble,
                 "ledger %s: the disk has not answered for more than 2 s: look at it (`dmesg`)",
                 s->path);
}

/* By a connection of its own: the other one is the thread's. */
static void sqlite_keys(struct weir_store *st, weir_store_key_fn *each, void *ctx)
{
    struct sql_store *s = (struct sql_store *)st;
    sqlite3 *db = NULL;
    sqlite3_stmt *rows = NULL;
    int result =
        sqlite3_open_v2(s->real_path, &db,
                        SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW, s->vfs);
    if (result == SQLITE_OK)
        result = sqlite3_prepare_v2(db,
                                    "SELECT key, id, created FROM hold WHERE key NOT NULL AND "
                                    "id < ?1 AND state != 3 AND NOT (state = 2 AND booked = 0) "
                                    "AND (done IS NULL OR done >= ?2) "
                                    "ORDER BY id",
                                    -1, &rows, NULL);
    if (result == SQLITE_OK) {
        sqlite3_busy_timeout(db, 500);
        sqlite3_bind_int64(rows, 1, (int64_t)weir_ledger_hold_id(st->epoch, 0));
        sqlite3_bind_int64(rows, 2, sql_wall_s(s) - s->config.keep_finished_s);
    }
    while (result == SQLITE_OK || result == SQLITE_ROW) {
        result = sqlite3_step(rows);
        const void *key = sqlite3_column_blob(rows, 0);
        if (result == SQLITE_ROW && sqlite3_column_bytes(rows, 0) == WEIR_STORE_KEY_BYTES)
            each(ctx, key, (uint64_t)sqlite3_column_int64(rows, 1), sqlite3_column_int64(rows, 2));
    }
    if (result != SQLITE_DONE)
        sql_say(s, WEIR_STORE_SAY_ERROR,
                "ledger %s: the idempotency keys of earlier runs cannot be read (%s): repeats of "
                "their requests are taken for new ones",
                s->path, sqlite3_errmsg(db));
    sqlite3_finalize(rows);
    sqlite3_close(db);
}

/* ---- open and close ---- */

static void store_free(struct sql_store *s)
{
    sql_file_close(s);
    sql_ledger_drop(s);
    sql_lock_drop(s);
    for (uint32_t i = s->oldest; i; i = s->entries[i - 1].newer)
        free((void *)(uintptr_t)s->entries[i - 1].op.text);
    weir_names_destroy(s->base.names);
    if (s->memory)
        munmap(s->memory, s->memory_bytes);
    if (s->queue_memory)
        munmap(s->queue_memory, s->queue_bytes);
    if (s->base.fd >= 0)
        close(s->base.fd);
    pthread_mutex_destroy(&s->lock);
    pthread_mutex_destroy(&s->copies_lock);
    pthread_cond_destroy(&s->wake);
    free(s->path);
    free(s->real_path);
    free(s->lock_path);
    free(s->vfs);
    free(s);
}

static void sqlite_close(struct weir_store *st)
{
    struct sql_store *s = (struct sql_store *)st;
    pthread_mutex_lock(&s->lock);
    s->is_closing = true;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    store_free(s);
}

static const struct weir_store_type sqlite_type = {
    .name = "sqlite",
    .submit = sqlite_submit,
    .collect = sqlite_collect,
    .totals = sqlite_totals,
    .stats = sqlite_stats,
    .status = sqlite_status,
    .keys = sqlite_keys,
    .close = sqlite_close,
};

/* Entries and rings: as many as there can be operations and ends of holds. */
static bool queue_make(struct sql_store *s)
{
    size_t max = 64;
    while (max < 2 * ((size_t)s->config.queue_max + s->config.holds_max))
        max *= 2;
    size_t ring_bytes = max * sizeof(uint32_t), entries_bytes = max * sizeof *s->entries;
    size_t heap_bytes = (max + WEIR_HEAP_SPARE) * sizeof(struct weir_heap_entry);
    s->queue_bytes = entries_bytes + heap_bytes + 4 * ring_bytes;
    s->queue_memory = mmap(NULL, s->queue_bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (s->queue_memory == MAP_FAILED) {
        s->queue_memory = NULL;
        return false;
    }
    char *at = s->queue_memory;
    struct weir_heap_entry *heap = (void *)(at + entries_bytes);
    uint32_t *numbers = (void *)(at + entries_bytes + heap_bytes);
    s->entries = (void *)at;
    s->entries_max = (uint32_t)max;
    struct sql_ring *rings[] = {&s->ends, &s->others, &s->answered};
    for (size_t i = 0; i < WEIR_COUNT(rings); i++)
        *rings[i] = (struct sql_ring){.items = numbers + i * max, .mask = max - 1};
    weir_heap_init(&s->deadlines, heap, numbers + 3 * max, (uint32_t)max);
    return true;
}

static struct sql_store *store_new(const struct weir_sqlite_config *config)
{
    struct sql_store *s = calloc(1, sizeof *s);
    pthread_condattr_t attributes;
    if (!s)
        return NULL;
    s->base = (struct weir_store){.type = &sqlite_type, .fd = -1};
    s->config = *config;
    s->config.queue_max = config->queue_max ? config->queue_max : SQLITE_QUEUE_MAX;
    s->lock_fd = s->own_fd = -1;
    sql_keep_restart(s);
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->copies_lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&s->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    s->path = strdup(config->path);
    s->vfs = config->vfs ? strdup(config->vfs) : NULL;
    if (asprintf(&s->lock_path, "%s.lock", config->path) < 0)
        s->lock_path = NULL;
    s->base.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (!s->path || !s->lock_path || (config->vfs && !s->vfs) || s->base.fd < 0 || !queue_make(s)) {
        store_free(s);
        return NULL;
    }
    return s;
}

static bool config_ok(const struct weir_sqlite_config *c)
{
    return c->path && c->scopes_max >= 1 && c->holds_max >= 1 && c->holds_max <= SQLITE_HOLDS_MAX &&
           c->finished_keep <= SQLITE_HOLDS_MAX && c->queue_max <= SQLITE_HOLDS_MAX &&
           c->keep_finished_s >= 0 && c->keep_journal_s >= 0 && c->keep_usage_s >= 0 &&
           c->clock_doubt_s >= 0;
}

static bool store_start(struct sql_store *s, char *error_text, size_t error_bytes)
{
    if (!sql_lock_take(s, error_text, error_bytes))
        return false;
    if (!sql_file_open(s) || !sql_load_start(s)) {
        snprintf(error_text, error_bytes, "%s", s->file.trouble);
        return false;
    }
    sql_lock_write(s, s->base.epoch, s->file.seq);
    sql_publish_all(s);
    int error = pthread_create(&s->thread, NULL, sql_thread_main, s);
    if (error == 0)
        return true;
    snprintf(error_text, error_bytes,
             "ledger %s: its thread cannot be started: %s; look at the limits of this user and "
             "of its service (`ulimit -u`, TasksMax)",
             s->path, strerror(error));
    return false;
}

struct weir_store *weir_sqlite_store_open(const struct weir_sqlite_config *config, char *error_text,
                                          size_t error_bytes)
{
    WEIR_INVARIANT(config_ok(config));
    /* Nobody asks how much memory SQLite uses, and counting it costs a lock each time. Refused, and
     * harmless, when SQLite is in use already. */
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    struct sql_store *s = store_new(config);
    if (!s) {
        snprintf(error_text, error_bytes, "ledger %s: there is no memory for its queue",
                 config->path);
        return NULL;
    }
    if (store_start(s, error_text, error_bytes))
        return &s->base;
    store_free(s);
    return NULL;
}
