/* Memory from the file: at the start, and anew after a fault. Only what is needed is loaded: the
 * live holds and the scopes they count in. Another scope comes when it is defined. What the rows
 * say is checked by the ledger's own rules and by its audit; a file that contradicts itself is not
 * used. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "store/sqlite_inside.h"

#define LOAD_LIVE                                                                                  \
    "SELECT id, asked, booked, state, chain FROM hold WHERE state IN (1, 4) ORDER BY id"
#define LOAD_LABELS_MIN 4096u
#define LOAD_ADVICE "the file contradicts itself: keep a copy, look at it by `weir ledger verify`"

/* Calls a function for every live hold, in the order of their ids. */
typedef bool load_hold_fn(struct sql_store *s, const struct sql_hold *hold, void *ctx);

static bool load_each_live(struct sql_store *s, load_hold_fn *each, void *ctx)
{
    sqlite3_stmt *row = NULL;
    struct sql_hold hold;
    int result = sqlite3_prepare_v2(s->file.db, LOAD_LIVE, -1, &row, NULL);
    bool right = result == SQLITE_OK;
    while (right && (result = sqlite3_step(row)) == SQLITE_ROW)
        right = sql_hold_read(s, row, &hold) && each(s, &hold, ctx);
    if (result != SQLITE_ROW && result != SQLITE_DONE)
        right = sql_file_fault(s, "read its holds");
    sqlite3_finalize(row);
    return right;
}

/* ---- what is needed ---- */

struct load_ids {
    int64_t *ids;
    size_t count, max, sorted; /* up to sorted: in order, each once */
    uint32_t live;
};

static int by_id(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void ids_sort(struct load_ids *n)
{
    size_t kept = 0;
    if (n->count > 0)
        qsort(n->ids, n->count, sizeof *n->ids, by_id);
    for (size_t i = 0; i < n->count; i++)
        if (i == 0 || n->ids[i] != n->ids[kept - 1])
            n->ids[kept++] = n->ids[i];
    n->count = n->sorted = kept;
}

static bool ids_add(struct sql_store *s, struct load_ids *n, int64_t id)
{
    if (n->sorted > 0 && bsearch(&id, n->ids, n->sorted, sizeof *n->ids, by_id))
        return true;
    if (n->count >= 2 * n->sorted + 4096)
        ids_sort(n);
    if (n->count == n->max) {
        size_t max = 2 * n->max + 4096;
        int64_t *ids = realloc(n->ids, max * sizeof *ids);
        if (!ids)
            return sql_file_wrong(s, "there is no memory to load it");
        n->ids = ids;
        n->max = max;
    }
    n->ids[n->count++] = id;
    return true;
}

static bool ids_add_chain(struct sql_store *s, const struct sql_hold *hold, void *ctx)
{
    struct load_ids *n = ctx;
    n->live++;
    for (uint8_t i = 0; i < hold->depth; i++)
        if (!ids_add(s, n, hold->chain[i].scope_id))
            return false;
    return true;
}

/* Adds the parents of those that are in, as the rows of scopes say. */
static bool ids_add_level(struct sql_store *s, struct load_ids *n, struct load_ids *parents)
{
    for (size_t i = 0; i < n->count; i++) {
        struct sql_scope scope;
        switch (sql_scope_by_id(s, n->ids[i], &scope)) {
        case SQL_FAULT:
            return false;
        case SQL_MISSING:
            return sql_file_wrong(s, "scope %" PRId64 " has no row: " LOAD_ADVICE, n->ids[i]);
        case SQL_FOUND:
            break;
        }
        if (scope.slot.parent_id != 0 && !ids_add(s, parents, scope.slot.parent_id))
            return false;
    }
    for (size_t i = 0; i < parents->count; i++)
        if (!ids_add(s, n, parents->ids[i]))
            return false;
    return true;
}

/* A chain has so many levels at most. */
static bool ids_add_parents(struct sql_store *s, struct load_ids *n)
{
    bool right = true;
    for (int level = 1; right && level < WEIR_LEDGER_DEPTH_MAX; level++) {
        struct load_ids parents = {0};
        ids_sort(n);
        right = ids_add_level(s, n, &parents);
        free(parents.ids);
    }
    ids_sort(n);
    return right;
}

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

/* Names with a slot for each scope needed, and the labels. */
static bool load_names(struct sql_store *s, const struct load_ids *needed)
{
    uint64_t scopes_max = (uint64_t)s->config.scopes_max + needed->count;
    uint64_t labels_max = weir_max_u64(LOAD_LABELS_MIN, s->file.labels + LOAD_LABELS_MIN / 4);
    if (scopes_max > UINT32_C(1) << 24 || labels_max > UINT32_C(1) << 20)
        return sql_file_wrong(s, "it names more scopes or labels than can be loaded");
    s->base.names = weir_names_create((uint32_t)scopes_max, (uint32_t)labels_max);
    if (!s->base.names)
        return sql_file_wrong(s, "there is no memory for its names");
    if (!load_tables(s, (uint32_t)scopes_max))
        return false;
    for (size_t i = 0; i < needed->count; i++) {
        struct sql_scope scope;
        if (sql_scope_by_id(s, needed->ids[i], &scope) != SQL_FOUND)
            return sql_file_wrong(s, "a scope's row went away while it was read");
        uint32_t slot = weir_names_scope(s->base.names, scope.name);
        WEIR_INVARIANT(slot != WEIR_NONE); /* names are unique in the file */
        s->slots[slot] = scope.slot;
        sql_ids_set(s, slot);
    }
    return load_labels(s);
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
    struct weir_ledger_stats stats;
    if (!s->ledger)
        return;
    weir_ledger_stats(s->ledger, &stats);
    for (int i = 0; i < WEIR_LEDGER_RESULT_COUNT; i++)
        s->results_before[i] += stats.results[i];
    s->clipped_before += stats.clipped;
    munmap(s->ledger_mem, s->ledger_bytes);
    s->ledger = NULL;
    s->ledger_mem = NULL;
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

/* Defines a slot's scope as its row says, its parents first. */
static bool load_scope(struct sql_store *s, uint32_t slot, int level)
{
    struct weir_ledger_totals totals;
    struct weir_ledger_rules rules = {.parent = WEIR_NONE};
    const struct sql_slot *row = &s->slots[slot];
    if (weir_ledger_totals(s->ledger, slot, &totals))
        return true;
    if (row->parent_id != 0)
        rules.parent = sql_ids_find(s, row->parent_id);
    if (level > WEIR_LEDGER_DEPTH_MAX || (row->parent_id != 0 && rules.parent == WEIR_NONE))
        return sql_file_wrong(s, "the parents of scope %" PRId64 " are not right: " LOAD_ADVICE,
                              row->id);
    if (rules.parent != WEIR_NONE && !load_scope(s, rules.parent, level + 1))
        return false;
    rules.unlimited = row->granted == WEIR_BALANCE_MAX;
    rules.lapse_refunds = row->lapse_refunds;
    rules.granted_tok = row->granted;
    if (weir_ledger_scope_set(s->ledger, slot, &rules).result != WEIR_LEDGER_DONE)
        return sql_file_wrong(s, "the row of scope %" PRId64 " is not right: " LOAD_ADVICE,
                              row->id);
    return sql_load_balance(s, slot, row->window);
}

static bool load_scopes(struct sql_store *s)
{
    for (uint32_t slot = 0; slot <= s->ids.mask; slot++) {
        uint32_t at = s->ids.slots[slot];
        if (at && !load_scope(s, at - 1, 1))
            return false;
    }
    return true;
}

/* The held ones, to lapse at the start. */
struct load_held {
    uint64_t *ids;
    int64_t *booked;
    uint32_t count, max;
};

static bool load_live(struct sql_store *s, const struct sql_hold *hold, void *ctx)
{
    struct load_held *held = ctx;
    bool known;
    if (!sql_load_hold(s, hold, &known))
        return false;
    if (!known)
        return sql_file_wrong(s, "a scope of hold %" PRIu64 " has no row: " LOAD_ADVICE, hold->id);
    if (held && hold->state == WEIR_HOLD_HELD) {
        if (held->count >= held->max)
            return sql_file_wrong(s, "it changed while it was read");
        held->ids[held->count] = hold->id;
        held->booked[held->count++] = hold->booked;
    }
    return true;
}

bool sql_load_hold(struct sql_store *s, const struct sql_hold *hold, bool *known)
{
    struct weir_ledger_record record = {.id = hold->id,
                                        .state = hold->state,
                                        .asked_tok = hold->asked,
                                        .booked_tok = hold->booked,
                                        .depth = hold->depth};
    struct weir_ledger_totals totals;
    bool is_finished = hold->state != WEIR_HOLD_HELD && hold->state != WEIR_HOLD_LAPSED;
    *known = false;
    for (uint8_t i = 0; i < hold->depth; i++) {
        uint32_t slot = sql_ids_find(s, hold->chain[i].scope_id);
        if (slot == WEIR_NONE || !weir_ledger_totals(s->ledger, slot, &totals))
            return true;
        record.chain[i] = (struct weir_ledger_link){slot, hold->chain[i].window};
    }
    for (uint8_t i = 0; i < hold->depth; i++) {
        uint32_t slot = record.chain[i].scope;
        bool found;
        if (record.chain[i].window != s->slots[slot].window &&
            !load_balance(s, slot, record.chain[i].window, &found))
            return !found && is_finished; /* then it may have been purged */
    }
    if (weir_ledger_load_hold(s->ledger, &record).result != WEIR_LEDGER_DONE)
        return sql_file_wrong(s, "hold %" PRIu64 " is not right: " LOAD_ADVICE, hold->id);
    *known = true;
    return true;
}

static bool load_memory(struct sql_store *s, struct load_held *held)
{
    if (!load_ledger_new(s) || !load_scopes(s) || !load_each_live(s, load_live, held))
        return false;
    const char *wrong = weir_ledger_audit(s->ledger);
    if (wrong)
        return sql_file_wrong(s, "its rows say otherwise than \"%s\": " LOAD_ADVICE, wrong);
    /* Balances of the past that no hold names are let go; a grant that differed is written. */
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
        return sql_file_wrong(s,
                              "the file is missing, but %s says that run %" PRIu64
                              " wrote it: put it back; to begin anew with nothing spent, run "
                              "`weir ledger verify --adopt`",
                              s->lock_path, known_epoch);
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
    for (uint32_t i = 0; i < held->count; i++) {
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
                "ledger %s: %" PRIu32 " requests of an earlier run never ended: what they held "
                "lapses (it stays charged, where the scope does not refund)",
                s->path, count);
    return sql_balances_set(s) && sql_journal_flush(s);
}

static bool load_epoch(struct sql_store *s, uint64_t *before)
{
    int64_t epoch = 0;
    if (!sql_meta_get(s, "epoch", &epoch) && s->file.fault != SQLITE_OK)
        return false;
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
    int64_t highest = 0;
    s->base.epoch++;
    s->hold_highest = weir_ledger_hold_id(s->base.epoch, 0);
    sqlite3_stmt *row = NULL;
    if (sqlite3_prepare_v2(s->file.db, "SELECT coalesce(max(id), 0) FROM hold", -1, &row, NULL) !=
            SQLITE_OK ||
        sqlite3_step(row) != SQLITE_ROW) {
        sqlite3_finalize(row);
        return sql_file_fault(s, "read its holds");
    }
    highest = sqlite3_column_int64(row, 0);
    sqlite3_finalize(row);
    s->hold_highest = weir_max_u64(s->hold_highest, (uint64_t)highest);
    return load_lapse(s, held) && (before > 0 || sql_meta_set(s, "created", s->wall_s)) &&
           sql_meta_set(s, "epoch", (int64_t)s->base.epoch) && sql_meta_set(s, "wall", s->wall_s) &&
           sql_commit(s);
}

static bool load_start(struct sql_store *s, struct load_ids *needed, struct load_held *held)
{
    uint64_t before = 0;
    s->wall_s = sql_wall_s(s);
    if (!load_epoch(s, &before) || !load_each_live(s, ids_add_chain, needed) ||
        !ids_add_parents(s, needed) || !load_names(s, needed))
        return false;
    held->max = needed->live;
    held->ids = malloc(((size_t)held->max + 1) * sizeof *held->ids);
    held->booked = malloc(((size_t)held->max + 1) * sizeof *held->booked);
    if (!held->ids || !held->booked)
        return sql_file_wrong(s, "there is no memory to load it");
    s->live_max = s->config.holds_max + needed->live;
    s->limits = (struct weir_ledger_limits){.scopes_max = weir_names_scopes_max(s->base.names),
                                            .holds_max = s->live_max + s->config.finished_keep +
                                                         SQL_HOLDS_SPARE};
    /* Past balances live by the holds that name them, so this many can never run out. */
    s->limits.balances_max =
        s->limits.scopes_max + s->limits.holds_max * (uint32_t)WEIR_LEDGER_DEPTH_MAX;
    s->journal = (struct weir_journal_writer){.out = s->journal_room, .room = s->journal_bytes};
    uint64_t epoch = s->base.epoch;
    s->base.epoch = weir_max_u64(1, epoch); /* of the ledger until the new one begins */
    bool loaded = load_memory(s, held);
    s->base.epoch = epoch;
    return loaded && load_begin_epoch(s, held, before);
}

bool sql_load_start(struct sql_store *s)
{
    struct load_ids needed = {0};
    struct load_held held = {0};
    bool done = load_start(s, &needed, &held);
    if (!done)
        sql_rollback(s);
    free(needed.ids);
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
    /* A write that succeeds is the proof that writes do again; a commit whose sync failed is made
     * whole by a checkpoint before anybody builds on it. */
    bool done = sql_checkpoint(s, SQLITE_CHECKPOINT_FULL) && load_slots_again(s) &&
                load_memory(s, NULL) && sql_meta_set(s, "wall", s->wall_s) && sql_commit(s);
    if (!done)
        sql_rollback(s);
    return done;
}
