/* Memory from the file: at the start, and anew after a fault. Only what is needed is loaded: the
 * live holds and the scopes they count in. Another scope comes when it is defined. What the rows
 * say is checked by the ledger's own rules and by its audit; a file that contradicts itself is not
 * used. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "store/sqlite_inside.h"

/* Lapsed holds have an index, held ones lie at or above meta low. */
#define LOAD_LAPSED "FROM hold INDEXED BY hold_lapsed WHERE state = 4"
#define LOAD_HELD                                                                                  \
    "FROM hold WHERE id >= coalesce((SELECT v FROM meta WHERE k = 'low'), 0) AND state = 1"
#define LOAD_COLUMNS "SELECT id, asked, booked, state, chain "
#define LOAD_COUNT_LIVE "SELECT (SELECT count(*) " LOAD_LAPSED ") + (SELECT count(*) " LOAD_HELD ")"
#define LOAD_LABELS_MIN 4096u
#define LOAD_ADVICE "the file contradicts itself: keep a copy, look at it by `weir ledger verify`"

/* ---- tables ---- */

static size_t load_round(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

/* Sizes of all tables, in the order of load_tables. */
static void *load_take(char **at, size_t bytes)
{
    void *here = *at;
    *at += load_round(bytes);
    return here;
}

static bool load_tables(struct sql_store *s, uint32_t scopes_max)
{
    size_t ids = 16, journal_bytes = SQL_BATCH_MAX * (size_t)WEIR_JOURNAL_RECORD_BYTES;
    while (ids < 2 * (size_t)scopes_max)
        ids *= 2;
    s->memory_bytes = load_round(scopes_max * sizeof *s->slots) +
                      load_round(scopes_max * sizeof *s->copies) +
                      load_round(scopes_max * sizeof *s->touched) +
                      load_round(ids * sizeof *s->ids.slots) + load_round(journal_bytes);
    s->memory = mmap(NULL, s->memory_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (s->memory == MAP_FAILED) {
        s->memory = NULL;
        return sql_file_wrong(s, "there is no memory for its tables");
    }
    char *at = s->memory;
    s->slots = load_take(&at, scopes_max * sizeof *s->slots);
    s->copies = load_take(&at, scopes_max * sizeof *s->copies);
    s->touched = load_take(&at, scopes_max * sizeof *s->touched);
    s->ids.slots = load_take(&at, ids * sizeof *s->ids.slots);
    s->ids.mask = (uint32_t)ids - 1;
    s->journal_room = load_take(&at, journal_bytes);
    s->journal_bytes = journal_bytes;
    return true;
}

static bool load_labels(struct sql_store *s)
{
    sqlite3_stmt *row = NULL;
    int result =
        sqlite3_prepare_v2(s->file.db, "SELECT id, text FROM label ORDER BY id", -1, &row, NULL);
    bool right = result == SQLITE_OK;
    while (right && (result = sqlite3_step(row)) == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(row, 1);
        int64_t id = sqlite3_column_int64(row, 0);
        if (!text || weir_names_label(s->base.names, text) != id)
            right = sql_file_wrong(s, "label %" PRId64 " is not right: " LOAD_ADVICE, id);
    }
    if (result != SQLITE_ROW && result != SQLITE_DONE)
        right = sql_file_fault(s, "read its labels");
    sqlite3_finalize(row);
    return right;
}

/* Tables with room for what the file needs at once: the scopes that live holds may name, the live
 * holds, the labels. */
static bool load_room(struct sql_store *s)
{
    int64_t live, scopes;
    if (!sql_number(s, LOAD_COUNT_LIVE, &live) ||
        !sql_number(s, "SELECT count(*) FROM scope", &scopes))
        return false;
    scopes = s->config.scopes_max + weir_min_i64(scopes, live * WEIR_LEDGER_DEPTH_MAX);
    uint64_t labels = weir_max_u64(LOAD_LABELS_MIN, s->file.labels + LOAD_LABELS_MIN / 4);
    if (live > INT64_C(1) << 26 || scopes > INT64_C(1) << 24 || labels > UINT32_C(1) << 20)
        return sql_file_wrong(s,
                              "it needs room for %" PRId64 " live holds, %" PRId64 " scopes and "
                              "%" PRIu64 " labels, which is more than can be had: lower "
                              "`limits.tenants`, or settle lapsed holds by `weir ledger adjust`",
                              live, scopes, labels);
    s->base.names = weir_names_create((uint32_t)scopes, (uint32_t)labels);
    if (!s->base.names)
        return sql_file_wrong(s, "there is no memory for its names");
    s->live_max = s->config.holds_max + (uint32_t)live;
    s->limits = (struct weir_ledger_limits){.scopes_max = (uint32_t)scopes,
                                            .holds_max = s->live_max + s->config.finished_keep +
                                                         SQL_HOLDS_SPARE};
    /* Past balances live by the holds that name them, so this many can never run out. */
    s->limits.balances_max =
        s->limits.scopes_max + s->limits.holds_max * (uint32_t)WEIR_LEDGER_DEPTH_MAX;
    return load_tables(s, (uint32_t)scopes) && load_labels(s);
}

/* ---- memory ---- */

static bool load_ledger_new(struct sql_store *s)
{
    s->ledger_bytes = weir_ledger_bytes(&s->limits);
    s->ledger_mem = mmap(NULL, s->ledger_bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (s->ledger_mem == MAP_FAILED) {
        s->ledger_mem = NULL;
        return sql_file_wrong(s, "there is no memory for its balances");
    }
    s->ledger = weir_ledger_init(s->ledger_mem, s->ledger_bytes, &s->limits, s->base.epoch);
    return true;
}

void sql_ledger_drop(struct sql_store *s)
{
    if (!s->ledger)
        return;
    munmap(s->ledger_mem, s->ledger_bytes);
    s->ledger = NULL;
    s->ledger_mem = NULL;
}

void sql_count_on(struct sql_store *s, const struct weir_ledger_stats *from)
{
    struct weir_ledger_stats loaded;
    weir_ledger_stats(s->ledger, &loaded);
    for (int i = 0; i < WEIR_LEDGER_RESULT_COUNT; i++)
        s->results_before[i] = from->results[i] - loaded.results[i];
    s->clipped_before = from->clipped - loaded.clipped;
    s->counted_before = from->counted_tok - loaded.counted_tok;
}

static bool load_balance(struct sql_store *s, uint32_t slot, uint64_t window, bool *found)
{
    struct weir_ledger_balance balance;
    *found = true;
    switch (sql_balance_find(s, s->slots[slot].id, window, &balance)) {
    case SQL_FAULT:
        return false;
    case SQL_MISSING:
        *found = false;
        return sql_file_wrong(
            s, "scope %" PRId64 " has no balance in window %" PRIu64 ": " LOAD_ADVICE,
            s->slots[slot].id, window);
    case SQL_FOUND:
        break;
    }
    balance.scope = slot;
    struct weir_ledger_answer answer = weir_ledger_load_balance(s->ledger, &balance);
    if (answer.result == WEIR_LEDGER_DONE || answer.result == WEIR_LEDGER_SAME)
        return true;
    return sql_file_wrong(
        s, "the balance of scope %" PRId64 " in window %" PRIu64 " is not right: " LOAD_ADVICE,
        s->slots[slot].id, window);
}

bool sql_load_balance(struct sql_store *s, uint32_t slot, uint64_t window)
{
    bool found;
    return load_balance(s, slot, window, &found);
}

static bool load_scope(struct sql_store *s, int64_t id, int level, uint32_t *slot);

/* Defines a slot's scope as its row says, its parents first. */
static bool load_slot(struct sql_store *s, uint32_t slot, int level)
{
    struct weir_ledger_totals totals;
    const struct sql_slot *row = &s->slots[slot];
    struct weir_ledger_rules rules = {.parent = WEIR_NONE,
                                      .unlimited = row->granted == WEIR_BALANCE_MAX,
                                      .lapse_refunds = row->lapse_refunds,
                                      .granted_tok = row->granted};
    if (weir_ledger_totals(s->ledger, slot, &totals))
        return true;
    if (row->parent_id != 0 && !load_scope(s, row->parent_id, level + 1, &rules.parent))
        return false;
    if (weir_ledger_scope_set(s->ledger, slot, &rules).result != WEIR_LEDGER_DONE)
        return sql_file_wrong(s, "the row of scope %" PRId64 " is not right: " LOAD_ADVICE,
                              row->id);
    return sql_load_balance(s, slot, row->window);
}

/* The slot of a scope's row, a new one at the start, and its scope defined. */
static bool load_scope(struct sql_store *s, int64_t id, int level, uint32_t *slot)
{
    struct sql_scope scope;
    if (level > WEIR_LEDGER_DEPTH_MAX)
        return sql_file_wrong(s, "the parents of scope %" PRId64 " are not right: " LOAD_ADVICE,
                              id);
    *slot = sql_ids_find(s, id);
    if (*slot != WEIR_NONE)
        return load_slot(s, *slot, level);
    switch (s->is_started ? SQL_MISSING : sql_scope_by_id(s, id, &scope)) {
    case SQL_FAULT:
        return false;
    case SQL_MISSING:
        return sql_file_wrong(s, "scope %" PRId64 " has no row: " LOAD_ADVICE, id);
    case SQL_FOUND:
        break;
    }
    *slot = weir_names_scope(s->base.names, scope.name);
    if (*slot == WEIR_NONE)
        return sql_file_wrong(s, "its live holds name more scopes than it has: " LOAD_ADVICE);
    s->slots[*slot] = scope.slot;
    sql_ids_set(s, *slot);
    return load_slot(s, *slot, level);
}

static bool load_scopes(struct sql_store *s)
{
    for (uint32_t at = 0; at <= s->ids.mask; at++)
        if (s->ids.slots[at] && !load_slot(s, s->ids.slots[at] - 1, 1))
            return false;
    return true;
}

/* The held ones, to lapse at the start. */
struct load_held {
    uint64_t *ids;
    int64_t *booked;
    size_t count, max;
};

static bool held_add(struct sql_store *s, struct load_held *held, const struct sql_hold *hold)
{
    if (held->count == held->max) {
        size_t max = 2 * held->max + 1024;
        uint64_t *ids = realloc(held->ids, max * sizeof *ids);
        held->ids = ids ? ids : held->ids;
        int64_t *booked = realloc(held->booked, max * sizeof *booked);
        held->booked = booked ? booked : held->booked;
        if (!ids || !booked)
            return sql_file_wrong(s, "there is no memory to load it");
        held->max = max;
    }
    held->ids[held->count] = hold->id;
    held->booked[held->count++] = hold->booked;
    return true;
}

/* The scopes of a hold come when it is the first to name them. */
static bool load_live_hold(struct sql_store *s, const struct sql_hold *hold)
{
    bool known;
    uint32_t slot;
    if (!sql_load_hold(s, hold, &known))
        return false;
    if (known)
        return true;
    for (uint8_t i = 0; i < hold->depth; i++)
        if (sql_ids_find(s, hold->chain[i].scope_id) == WEIR_NONE &&
            !load_scope(s, hold->chain[i].scope_id, 1, &slot))
            return false;
    if (!sql_load_hold(s, hold, &known))
        return false;
    WEIR_INVARIANT(known);
    return true;
}

/* Live holds of one state, in the order of their ids. held NULL: not noted. */
static bool load_live(struct sql_store *s, enum weir_hold_state state, struct load_held *held)
{
    sqlite3_stmt *row = NULL;
    struct sql_hold hold;
    const char *sql = state == WEIR_HOLD_HELD ? LOAD_COLUMNS LOAD_HELD " ORDER BY id"
                                              : LOAD_COLUMNS LOAD_LAPSED " ORDER BY id";
    int result = sqlite3_prepare_v2(s->file.db, sql, -1, &row, NULL);
    bool right = result == SQLITE_OK;
    while (right && (result = sqlite3_step(row)) == SQLITE_ROW)
        right = sql_hold_read(s, row, &hold) && load_live_hold(s, &hold) &&
                (!held || held_add(s, held, &hold));
    if (result != SQLITE_ROW && result != SQLITE_DONE)
        right = sql_file_fault(s, "read its holds");
    sqlite3_finalize(row);
    return right;
}

bool sql_load_hold(struct sql_store *s, const struct sql_hold *hold, bool *known)
{
    struct weir_ledger_record record = {.id = hold->id,
                                        .state = hold->state,
                                        .asked_tok = hold->asked,
                                        .booked_tok = hold->booked,
                                        .depth = hold->depth};
    bool is_finished = hold->state != WEIR_HOLD_HELD && hold->state != WEIR_HOLD_LAPSED;
    *known = false;
    for (uint8_t i = 0; i < hold->depth; i++) {
        uint32_t slot = sql_ids_find(s, hold->chain[i].scope_id);
        if (slot == WEIR_NONE || s->slots[slot].is_left)
            return true;
        record.chain[i] = (struct weir_ledger_link){slot, hold->chain[i].window};
    }
    for (uint8_t i = 0; i < hold->depth; i++)
        if (record.chain[i].window > s->slots[record.chain[i].scope].window)
            return sql_file_wrong(s, "hold %" PRIu64 " is of a window to come: " LOAD_ADVICE,
                                  hold->id);
    /* Most holds count in balances that memory has: those of past windows are asked for when not. */
    *known = weir_ledger_load_hold(s->ledger, &record).result == WEIR_LEDGER_DONE;
    if (*known)
        return true;
    for (uint8_t i = 0; i < hold->depth; i++) {
        bool found;
        if (record.chain[i].window != s->slots[record.chain[i].scope].window &&
            !load_balance(s, record.chain[i].scope, record.chain[i].window, &found))
            return !found && is_finished; /* then it may have been purged */
    }
    if (weir_ledger_load_hold(s->ledger, &record).result != WEIR_LEDGER_DONE)
        return sql_file_wrong(s, "hold %" PRIu64 " is not right: " LOAD_ADVICE, hold->id);
    *known = true;
    return true;
}

static bool load_low(struct sql_store *s)
{
    int64_t low = 0;
    if (!sql_meta_get(s, "low", &low) && s->file.fault != SQLITE_OK)
        return false;
    s->hold_low = (uint64_t)low;
    return true;
}

static bool load_memory(struct sql_store *s, struct load_held *held)
{
    if (!load_low(s) || !load_ledger_new(s) || !load_scopes(s) ||
        !load_live(s, WEIR_HOLD_LAPSED, NULL) || !load_live(s, WEIR_HOLD_HELD, held))
        return false;
    const char *wrong = weir_ledger_audit(s->ledger);
    if (wrong)
        return sql_file_wrong(s, "its rows say otherwise than \"%s\": " LOAD_ADVICE, wrong);
    /* Balances of the past that no hold names are let go. */
    return sql_balances_set(s) && sql_journal_flush(s);
}

/* ---- the start ---- */

/* An older copy put in the place of the file would give back what was spent since. */
static bool load_check_age(struct sql_store *s, uint64_t epoch)
{
    uint64_t known_epoch;
    int64_t known_seq;
    if (!sql_lock_read(s, &known_epoch, &known_seq) || known_epoch < epoch ||
        (known_epoch == epoch && known_seq <= s->file.seq))
        return true;
    if (s->config.adopt) {
        sql_say(s, WEIR_STORE_SAY_WARN,
                "ledger %s: an older file is adopted (run %" PRIu64 ", journal row %" PRId64
                "; last written: run %" PRIu64 ", row %" PRId64
                "): what was spent in between is not in it",
                s->path, epoch, s->file.seq, known_epoch, known_seq);
        s->base.epoch = known_epoch; /* ids of that run are not given again */
        return true;
    }
    if (epoch == 0)
        return sql_file_missing(s, known_epoch);
    return sql_file_wrong(s,
                          "this is an older file (run %" PRIu64 ", journal row %" PRId64
                          ") than the one last written (run %" PRIu64 ", row %" PRId64
                          "), so what was spent since is not in it: put the newer one back, or use "
                          "it all the same by `weir ledger verify --adopt`",
                          epoch, s->file.seq, known_epoch, known_seq);
}

/* Holds of earlier runs: nobody is left to settle them. */
static bool load_lapse(struct sql_store *s, const struct load_held *held)
{
    struct weir_ledger_stats stats;
    weir_ledger_stats(s->ledger, &stats);
    if (stats.epoch < s->base.epoch && !weir_ledger_epoch_begin(s->ledger, s->base.epoch))
        return sql_file_wrong(s, "run %" PRIu64 " cannot begin", s->base.epoch);
    uint32_t count = weir_ledger_lapse(s->ledger, UINT32_MAX);
    WEIR_INVARIANT(count == held->count); /* all the held ones are older */
    for (size_t i = 0; i < held->count; i++) {
        struct weir_ledger_record after;
        bool known = weir_ledger_record(s->ledger, held->ids[i], &after);
        WEIR_INVARIANT(known && after.state == WEIR_HOLD_LAPSED);
        struct weir_journal_record record = {.kind = WEIR_JOURNAL_LAPSE,
                                             .state_before = WEIR_HOLD_HELD,
                                             .state_after = WEIR_HOLD_LAPSED,
                                             .hold = after.id,
                                             .before_tok = held->booked[i],
                                             .after_tok = after.booked_tok,
                                             .depth = after.depth};
        sql_links(s, &after, record.chain);
        if (!sql_hold_set(s, &after) || !sql_journal_add(s, &record))
            return false;
    }
    if (count > 0)
        sql_say(s, WEIR_STORE_SAY_WARN,
                "ledger %s: %" PRIu32 " request%s of an earlier run never ended: what was held "
                "lapses (it stays charged, where the scope does not refund)",
                s->path, count, count == 1 ? "" : "s");
    return sql_balances_set(s) && sql_journal_flush(s);
}

static bool load_epoch(struct sql_store *s, uint64_t *before)
{
    int64_t epoch = 0;
    if ((!sql_meta_get(s, "epoch", &epoch) && s->file.fault != SQLITE_OK) ||
        !sql_number(s, WEIR_SCHEMA_LAST_WALL, &s->clock_wall_s))
        return false;
    s->clock_wall_s = sql_wall_clip(s->clock_wall_s);
    if (epoch < 0 || (uint64_t)epoch >= WEIR_LEDGER_EPOCH_MAX)
        return sql_file_wrong(s, "it says to be of run %" PRId64 ", the last possible is %" PRIu64,
                              epoch, (uint64_t)WEIR_LEDGER_EPOCH_MAX - 1);
    s->base.epoch = *before = (uint64_t)epoch;
    if (!load_check_age(s, *before))
        return false;
    return s->base.epoch < WEIR_LEDGER_EPOCH_MAX ||
           sql_file_wrong(s, "no run is left: its lock file says %" PRIu64, s->base.epoch);
}

static bool load_begin_epoch(struct sql_store *s, const struct load_held *held, uint64_t before)
{
    int64_t highest;
    if (!sql_number(s, "SELECT coalesce(max(id), 0) FROM hold", &highest))
        return false;
    s->base.epoch++;
    s->hold_highest = weir_max_u64(weir_ledger_hold_id(s->base.epoch, 0), (uint64_t)highest);
    s->hold_low = weir_ledger_hold_id(s->base.epoch, 0); /* none is held any more */
    return load_lapse(s, held) && sql_meta_set(s, "low", (int64_t)s->hold_low) &&
           (before > 0 || sql_meta_set(s, "created", s->wall_s)) &&
           sql_meta_set(s, "epoch", (int64_t)s->base.epoch) && sql_meta_set(s, "wall", s->wall_s) &&
           sql_commit(s);
}

static bool load_start(struct sql_store *s, struct load_held *held)
{
    uint64_t before = 0;
    s->wall_s = sql_wall_s(s);
    if (!load_epoch(s, &before) || !load_room(s))
        return false;
    s->journal = (struct weir_journal_writer){.out = s->journal_room, .room = s->journal_bytes};
    uint64_t epoch = s->base.epoch;
    s->base.epoch = weir_max_u64(1, epoch); /* of the ledger until the new one begins */
    bool loaded = load_memory(s, held);
    s->base.epoch = epoch;
    return loaded && load_begin_epoch(s, held, before);
}

bool sql_load_start(struct sql_store *s)
{
    struct load_held held = {0};
    bool done = load_start(s, &held);
    if (!done)
        sql_rollback(s);
    if (done)
        sql_count_on(s, &(struct weir_ledger_stats){0});
    s->is_started = done;
    free(held.ids);
    free(held.booked);
    return done;
}

/* ---- after a fault ---- */

/* Rows of the slots anew; one that never became durable has none. */
static bool load_slots_again(struct sql_store *s)
{
    for (uint32_t slot = 0; slot < s->limits.scopes_max; slot++) {
        struct sql_scope scope;
        if (s->slots[slot].id == 0)
            continue;
        switch (sql_scope_by_id(s, s->slots[slot].id, &scope)) {
        case SQL_FAULT:
            return false;
        case SQL_MISSING:
            sql_ids_drop(s, slot);
            break;
        case SQL_FOUND:
            scope.slot.is_touched = s->slots[slot].is_touched;
            s->slots[slot] = scope.slot;
            break;
        }
    }
    return true;
}

bool sql_load_again(struct sql_store *s)
{
    sql_ledger_drop(s);
    s->journal = (struct weir_journal_writer){.out = s->journal_room, .room = s->journal_bytes};
    s->wall_s = sql_wall_s(s);
    /* A log whose sync failed may be in memory only: it is moved into the file, and that synced,
     * before anybody builds on it. */
    if (!sql_checkpoint(s, SQLITE_CHECKPOINT_FULL))
        return false;
    if (s->file.seq < s->seq_durable)
        return sql_file_wrong(s,
                              "it ends with journal row %" PRId64 ", and row %" PRId64
                              " was written: what was used in between is not in it. Put the one "
                              "that was there back",
                              s->file.seq, s->seq_durable);
    return load_slots_again(s) && load_memory(s, NULL);
}
