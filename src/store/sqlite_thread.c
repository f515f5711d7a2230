/* The ledger thread: batches made durable, and what happens when they cannot be.
 *
 *   OPEN  --a write fails--> POISONED  --reload works--> OPEN
 *   take a batch, apply,     memory is thrown away; RESERVE and EXTEND are UNAVAILABLE;
 *   commit, tell             all else is kept, and applied again after the reload, unless the
 *                            failed commit proves to be durable: then its answers stand
 *
 * Whether a failed commit is durable is decided by the file alone, read anew: its journal has the
 * batch's row or not. */
#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "store/sqlite_inside.h"

#define THREAD_IDLE_NS (250 * WEIR_NS_PER_MS) /* between looks for house-keeping */
#define THREAD_RIDE_NS (2 * WEIR_NS_PER_MS)   /* how long ends of holds wait for a sync to share */
#define THREAD_RIDE_MAX (SQL_BATCH_MAX / 2)   /* and how many of them */
#define THREAD_BUSY_NS (1 * WEIR_NS_PER_S)    /* after a BUSY they do not */
#define THREAD_LATE_NS (5 * WEIR_NS_PER_S)    /* and how long its rounds let others go first */
#define THREAD_BACKOFF_NS (100 * WEIR_NS_PER_MS)
#define THREAD_BACKOFF_MAX_NS (5 * WEIR_NS_PER_S)
#define THREAD_CLOSE_TRIES 4 /* reloads while closing, before what is left is given up */
#define THREAD_CHECKPOINT_FRAMES 2000

/* ---- rings ---- */

static size_t ring_count(const struct sql_ring *r)
{
    return r->tail - r->head;
}

static void ring_push(struct sql_ring *r, uint32_t entry)
{
    r->items[r->tail++ & r->mask] = entry;
}

static uint32_t ring_pop(struct sql_ring *r)
{
    uint32_t entry = r->items[r->head++ & r->mask];
    if (r->head == r->tail)
        r->head = r->tail = 0; /* the same few pages again, not the whole ring in turn */
    return entry;
}

/* ---- answers ---- */

static bool is_ask(const struct sql_entry *e)
{
    return e->op.ledger.kind == WEIR_LEDGER_RESERVE || e->op.ledger.kind == WEIR_LEDGER_EXTEND;
}

/* Decides who tells the answer of an entry that is done. true: its owner has been told otherwise.
 */
static bool answer_decide(struct sql_entry *e)
{
    e->silent = is_ask(e) && atomic_exchange(&e->told, true);
    return e->silent;
}

/* Under the lock: one write for all that was pushed. */
static void answers_show(struct sql_store *s)
{
    uint64_t one = 1;
    if (s->is_readable || ring_count(&s->answered) == 0)
        return;
    s->is_readable = true;
    ssize_t done = write(s->base.fd, &one, sizeof one);
    (void)done; /* fails only when it is readable already */
}

static void thread_tell(struct sql_store *s, const uint32_t *entries, uint32_t count)
{
    if (count == 0)
        return;
    pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < count; i++)
        ring_push(&s->answered, entries[i]);
    answers_show(s);
    pthread_mutex_unlock(&s->lock);
}

/* ---- copies for readers ---- */

static void publish_slot(struct sql_store *s, uint32_t slot)
{
    struct sql_copy *copy = &s->copies[slot];
    copy->is_defined = weir_ledger_totals(s->ledger, slot, &copy->totals);
    s->slots[slot].is_touched = false;
}

/* What was counted since the start, memory's part of it as it is now. */
static void stats_now(const struct sql_store *s, struct weir_ledger_stats *stats)
{
    weir_ledger_stats(s->ledger, stats);
    for (int i = 0; i < WEIR_LEDGER_RESULT_COUNT; i++)
        stats->results[i] += s->results_before[i];
    stats->clipped += s->clipped_before;
    stats->counted_tok += s->counted_before;
}

static void publish_numbers(struct sql_store *s)
{
    stats_now(s, &s->stats);
    s->status.batches = s->batches;
    s->status.ops = s->ops;
    s->status.rows_written = s->rows_written;
}

void sql_publish(struct sql_store *s)
{
    pthread_mutex_lock(&s->copies_lock);
    for (uint32_t i = 0; i < s->touched_count; i++)
        publish_slot(s, s->touched[i]);
    publish_numbers(s);
    pthread_mutex_unlock(&s->copies_lock);
    s->touched_count = 0;
}

void sql_publish_all(struct sql_store *s)
{
    for (uint32_t i = 0; i < s->touched_count; i++)
        s->slots[s->touched[i]].is_touched = false; /* those that lost their rows too */
    pthread_mutex_lock(&s->copies_lock);
    for (uint32_t slot = 0; slot < s->limits.scopes_max; slot++)
        if (s->slots[slot].id != 0 || s->copies[slot].is_defined)
            publish_slot(s, slot);
    publish_numbers(s);
    pthread_mutex_unlock(&s->copies_lock);
    s->touched_count = 0;
}

static void publish_trouble(struct sql_store *s, const char *trouble)
{
    pthread_mutex_lock(&s->copies_lock);
    size_t bytes = strnlen(trouble, sizeof s->status.trouble - 1);
    memcpy(s->status.trouble, trouble, bytes);
    s->status.trouble[bytes] = '\0';
    pthread_mutex_unlock(&s->copies_lock);
}

/* ---- a batch ---- */

/* Is there something to do now? Nobody waits for the ends of holds, so alone they wait a moment for
 * an operation to share its sync with: a request then costs one sync, not two. */
static bool take_is_due(struct sql_store *s, uint64_t now_ns)
{
    size_t ends = ring_count(&s->ends);
    if (s->is_closing || ring_count(&s->others) > 0 || ends >= THREAD_RIDE_MAX)
        return true;
    if (ends > 0 && s->ride_until_ns == 0)
        s->ride_until_ns = now_ns + THREAD_RIDE_NS;
    return ends > 0 && (now_ns >= s->ride_until_ns || now_ns < s->busy_until_ns);
}

/* Under the lock: until there is something to do, at most until the next look for house-keeping. */
static void take_wait(struct sql_store *s)
{
    uint64_t now_ns = sql_clock_ns(), idle_until_ns = now_ns + THREAD_IDLE_NS;
    while (!take_is_due(s, now_ns) && now_ns < idle_until_ns) {
        s->is_riding = ring_count(&s->ends) > 0;
        uint64_t until_ns = s->is_riding ? s->ride_until_ns : idle_until_ns;
        struct timespec until = {.tv_sec = (time_t)(until_ns / WEIR_NS_PER_S),
                                 .tv_nsec = (long)(until_ns % WEIR_NS_PER_S)};
        s->is_waiting = true;
        pthread_cond_timedwait(&s->wake, &s->lock, &until);
        now_ns = sql_clock_ns();
    }
    s->is_waiting = s->is_riding = false;
}

/* Waits for operations when it may. true: there is a batch. */
static bool thread_take(struct sql_store *s, bool may_wait)
{
    pthread_mutex_lock(&s->lock);
    if (may_wait)
        take_wait(s);
    s->ride_until_ns = 0;
    /* With a batch of voids before them, they wait: so voids never grow beyond two batches. */
    uint32_t max = s->voids_count < SQL_BATCH_MAX ? SQL_BATCH_MAX : s->batch_count;
    while (s->batch_count < max && ring_count(&s->ends) > 0)
        s->batch[s->batch_count++] = ring_pop(&s->ends);
    while (s->batch_count < max && ring_count(&s->others) > 0)
        s->batch[s->batch_count++] = ring_pop(&s->others);
    pthread_mutex_unlock(&s->lock);
    return s->batch_count > 0 || s->voids_count > 0;
}

static bool batch_apply(struct sql_store *s)
{
    s->voids_begun = s->voids_count < SQL_BATCH_MAX ? s->voids_count : SQL_BATCH_MAX;
    for (uint32_t i = 0; i < s->voids_begun; i++)
        if (!sql_apply_void(s, s->voids[i]))
            return false;
    for (uint32_t i = 0; i < s->batch_count; i++) {
        struct sql_entry *e = &s->entries[s->batch[i]];
        if (is_ask(e) && atomic_load(&e->told)) { /* its deadline has passed */
            e->result = WEIR_LEDGER_UNAVAILABLE;
            e->scope = e->op.ledger.scope;
        } else if (!sql_apply(s, e)) {
            return false;
        } else if (is_ask(e) && e->result == WEIR_LEDGER_BUSY) {
            s->busy_until_ns = sql_clock_ns() + THREAD_BUSY_NS;
        }
    }
    return sql_balances_set(s) && sql_usage_flush(s) &&
           (!s->file.in_transaction || sql_low_set(s)) && sql_journal_flush(s);
}

/* Slots of scopes that were forgotten: their rows stay, the slots are free. */
static void batch_leave_slots(struct sql_store *s)
{
    for (uint32_t i = 0; i < s->batch_count; i++) {
        const struct sql_entry *e = &s->entries[s->batch[i]];
        if (e->op.ledger.kind == WEIR_LEDGER_SCOPE_FORGET && e->result == WEIR_LEDGER_DONE &&
            s->slots[e->op.ledger.scope].is_left)
            sql_ids_drop(s, e->op.ledger.scope);
    }
}

static void batch_count_commit(struct sql_store *s, uint64_t took_ns)
{
    pthread_mutex_lock(&s->copies_lock);
    s->commits_ns[s->commits_count++ % SQL_COMMITS_KEPT] = took_ns;
    pthread_mutex_unlock(&s->copies_lock);
    s->batches++;
}

/* What is durable is told; a hold that was told UNAVAILABLE meanwhile is voided next. */
static void batch_tell(struct sql_store *s)
{
    s->voids_count -= s->voids_begun;
    memmove(s->voids, s->voids + s->voids_begun, s->voids_count * sizeof *s->voids);
    s->voids_begun = 0;
    for (uint32_t i = 0; i < s->batch_count; i++) {
        struct sql_entry *e = &s->entries[s->batch[i]];
        if (answer_decide(e) && e->op.ledger.kind == WEIR_LEDGER_RESERVE &&
            e->result == WEIR_LEDGER_HELD)
            s->voids[s->voids_count++] = e->op.ledger.hold;
    }
    thread_tell(s, s->batch, s->batch_count);
    s->batch_count = 0;
}

static bool thread_batch(struct sql_store *s)
{
    uint64_t before_ns = sql_clock_ns();
    uint64_t applied = s->batch_count + s->voids_count;
    int64_t seq = s->file.seq;
    s->wall_s = sql_wall_s(s);
    if (!batch_apply(s))
        return false;
    bool writes = s->file.in_transaction;
    if (s->file.seq > seq)
        s->doubt_seq = s->file.seq;
    if (!sql_commit(s))
        return false;
    s->doubt_seq = INT64_MAX;
    if (writes) {
        s->commit_last_ns = sql_clock_ns();
        sql_lock_write(s, s->base.epoch, s->file.seq);
        batch_count_commit(s, s->commit_last_ns - before_ns);
        s->backoff_ns = THREAD_BACKOFF_NS;
        s->tries = 0;
    }
    s->ops += applied;
    batch_leave_slots(s);
    weir_ledger_forget(s->ledger, s->config.finished_keep, UINT32_MAX);
    sql_publish(s);
    batch_tell(s);
    if (s->file.wal_frames < s->file.wal_moved)
        s->file.wal_moved = 0; /* the log began anew */
    if (s->file.wal_frames - s->file.wal_moved >= THREAD_CHECKPOINT_FRAMES)
        return sql_checkpoint(s, SQLITE_CHECKPOINT_PASSIVE);
    return true;
}

/* ---- outages ---- */

/* Of the operations that wait: asks are refused, all of them or those whose deadline has passed.
 * The others keep their order. */
static void thread_refuse(struct sql_store *s, bool all)
{
    pthread_mutex_lock(&s->lock);
    for (size_t left = ring_count(&s->others); left > 0; left--) {
        uint32_t entry = ring_pop(&s->others);
        struct sql_entry *e = &s->entries[entry];
        if (is_ask(e) && (all || atomic_load(&e->told))) {
            e->result = WEIR_LEDGER_UNAVAILABLE;
            e->scope = e->op.ledger.scope;
            answer_decide(e);
            ring_push(&s->answered, entry);
        } else {
            ring_push(&s->others, entry);
        }
    }
    answers_show(s);
    pthread_mutex_unlock(&s->lock);
}

/* The batch after a fault: asks are UNAVAILABLE, all else stays in it. Holds that were to be held
 * are noted: should the commit be durable, they are voided. */
static void batch_keep(struct sql_store *s)
{
    uint32_t kept = 0, told = 0, asks[SQL_BATCH_MAX];
    for (uint32_t i = 0; i < s->batch_count; i++) {
        struct sql_entry *e = &s->entries[s->batch[i]];
        if (!is_ask(e)) {
            s->batch[kept++] = s->batch[i];
            continue;
        }
        if (e->op.ledger.kind == WEIR_LEDGER_RESERVE && e->result == WEIR_LEDGER_HELD)
            s->voids[s->voids_count++] =
                e->op.ledger.hold; /* one that is not held is passed over */
        e->result = WEIR_LEDGER_UNAVAILABLE;
        e->scope = e->op.ledger.scope;
        answer_decide(e);
        asks[told++] = s->batch[i];
    }
    s->batch_count = kept;
    thread_tell(s, asks, told);
}

static void thread_poison(struct sql_store *s)
{
    char trouble[SQL_TEXT_BYTES];
    bool is_new = !atomic_exchange(&s->is_poisoned, true);
    stats_now(s, &s->doubt);
    sql_usage_drop(s);
    sql_keep_restart(s);
    sql_rollback(s);
    memcpy(trouble, s->file.trouble, sizeof trouble);
    publish_trouble(s, trouble);
    if (is_new)
        sql_say(s, WEIR_STORE_SAY_ERROR,
                "%s. No request is admitted until it works again; what was used is kept in memory "
                "and written then",
                trouble);
    batch_keep(s);
    thread_refuse(s, true);
    sql_file_close(s);
}

/* The batch is durable, and with it scopes that it forgot: memory has loaded them from their rows. */
static void thread_forget_again(struct sql_store *s)
{
    for (uint32_t i = 0; i < s->batch_count; i++) {
        const struct sql_entry *e = &s->entries[s->batch[i]];
        enum weir_ledger_kind kind = e->op.ledger.kind;
        if ((kind == WEIR_LEDGER_SCOPE || kind == WEIR_LEDGER_SCOPE_FORGET) &&
            e->result == WEIR_LEDGER_DONE)
            s->slots[e->op.ledger.scope].is_left = kind == WEIR_LEDGER_SCOPE_FORGET;
    }
    for (uint32_t i = 0; i < s->batch_count; i++) {
        const struct sql_entry *e = &s->entries[s->batch[i]];
        uint32_t slot = e->op.ledger.scope;
        if (e->op.ledger.kind != WEIR_LEDGER_SCOPE_FORGET || e->result != WEIR_LEDGER_DONE ||
            !s->slots[slot].is_left)
            continue; /* any number may have been asked to be forgotten */
        struct weir_ledger_answer answer = weir_ledger_scope_forget(s->ledger, slot);
        WEIR_INVARIANT(answer.result == WEIR_LEDGER_DONE);
        sql_ids_drop(s, slot);
    }
}

/* The file is whole again: what became of the batch whose commit failed? */
static void thread_resolve(struct sql_store *s)
{
    bool is_durable = s->file.seq >= s->doubt_seq;
    s->doubt_seq = INT64_MAX;
    s->voids_begun = 0;
    sql_count_on(s, is_durable ? &s->doubt : &s->stats);
    if (is_durable)
        thread_forget_again(s);
    sql_publish_all(s);
    if (is_durable) {
        thread_tell(s, s->batch, s->batch_count);
        s->batch_count = 0;
    }
}

/* Reading may work where writing does not: a full disk, say. The number is another each time: SQLite
 * writes no page that stays as it is. */
static bool thread_prove(struct sql_store *s)
{
    if (sql_meta_set(s, "proof", (int64_t)sql_clock_ns()) && sql_commit(s))
        return true;
    sql_rollback(s);
    return false;
}

static bool thread_reload(struct sql_store *s)
{
    if (!sql_file_open(s) || !sql_load_again(s) || !thread_prove(s)) {
        sql_file_close(s);
        publish_trouble(s, s->file.trouble);
        return false;
    }
    sql_lock_write(s, s->base.epoch, s->file.seq);
    publish_trouble(s, "");
    atomic_store(&s->is_poisoned, false);
    sql_say(s, WEIR_STORE_SAY_INFO, "ledger %s works again: requests are admitted", s->path);
    thread_resolve(s);
    return true;
}

/* Waits for so long, or until the store is closed. true: it is closing. */
static bool thread_pause(struct sql_store *s, uint64_t pause_ns)
{
    uint64_t until_ns = sql_clock_ns() + pause_ns;
    struct timespec until = {.tv_sec = (time_t)(until_ns / WEIR_NS_PER_S),
                             .tv_nsec = (long)(until_ns % WEIR_NS_PER_S)};
    pthread_mutex_lock(&s->lock);
    while (!s->is_closing && pthread_cond_timedwait(&s->wake, &s->lock, &until) != ETIMEDOUT)
        ;
    bool is_closing = s->is_closing;
    pthread_mutex_unlock(&s->lock);
    return is_closing;
}

/* Gives up while closing: what waits is lost, and said. */
static void thread_give_up(struct sql_store *s)
{
    pthread_mutex_lock(&s->lock);
    size_t lost = s->batch_count + ring_count(&s->ends) + ring_count(&s->others);
    pthread_mutex_unlock(&s->lock);
    if (lost == 0)
        sql_say(s, WEIR_STORE_SAY_WARN, "%s. The gateway stops; nothing waited to be written",
                s->file.trouble);
    else
        sql_say(s, WEIR_STORE_SAY_ERROR,
                "%s. The gateway stops without having written %zu operations: what they would have "
                "settled lapses at the next start, charged by its estimate",
                s->file.trouble, lost);
}

/* Until the file works again. false: closing, and it does not. Tries are counted until a batch is
 * committed: a file that can be read but not written fails again and again, and must neither be
 * tried without a pause nor keep a closing store for ever. */
static bool thread_outage(struct sql_store *s)
{
    for (;; thread_refuse(s, false)) {
        if (s->tries++ > 0) {
            bool is_closing = thread_pause(s, s->backoff_ns);
            s->backoff_ns = weir_min_u64(2 * s->backoff_ns, THREAD_BACKOFF_MAX_NS);
            if (is_closing && s->tries > THREAD_CLOSE_TRIES) {
                thread_give_up(s);
                return false;
            }
            struct timespec pause = {.tv_nsec = 100 * 1000 * 1000};
            if (is_closing)
                nanosleep(&pause, NULL);
        }
        if (thread_reload(s))
            return true;
    }
}

/* ---- the loop ---- */

/* House-keeping when nobody waits; where somebody always does, now and then, so that what is let go
 * of keeps up with what comes: then four times as long as it takes is left to the others. */
static bool thread_keep(struct sql_store *s, bool is_idle, bool *more)
{
    uint64_t begun_ns = sql_clock_ns();
    *more = false;
    if (!is_idle && begun_ns < s->keep_late_ns)
        return true;
    bool right = sql_keep(s, more);
    uint64_t now_ns = sql_clock_ns();
    s->keep_late_ns = now_ns + (*more ? 4 * (now_ns - begun_ns) : THREAD_LATE_NS);
    if (right)
        sql_publish(s); /* rows written */
    return right;
}

static bool thread_is_done(struct sql_store *s)
{
    pthread_mutex_lock(&s->lock);
    bool done = s->is_closing && s->batch_count == 0 && s->voids_count == 0 &&
                ring_count(&s->ends) + ring_count(&s->others) == 0;
    pthread_mutex_unlock(&s->lock);
    return done;
}

void *sql_thread_main(void *store)
{
    struct sql_store *s = store;
    bool more = false;
    s->backoff_ns = THREAD_BACKOFF_NS;
    s->doubt_seq = INT64_MAX;
    while (!thread_is_done(s)) {
        bool may_wait = s->is_measured && !more && s->batch_count == 0 && s->voids_count == 0;
        bool has_batch = thread_take(s, may_wait);
        if (!has_batch && !s->is_measured)
            sql_sync_measure(s); /* at the first idle moment, so that the start does not wait */
        bool right = !has_batch || thread_batch(s);
        right = right && thread_keep(s, !has_batch, &more);
        if (!right) {
            thread_poison(s);
            more = false;
            if (!thread_outage(s))
                break;
        }
    }
    if (s->file.db && !sql_checkpoint(s, SQLITE_CHECKPOINT_TRUNCATE))
        sql_say(s, WEIR_STORE_SAY_WARN, "%s. Nothing is lost: it is done at the next start",
                s->file.trouble);
    return NULL;
}
