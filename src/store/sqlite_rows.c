/* Statements, prepared once, and the rows they write and find. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "store/sqlite_inside.h"

#define ROWS_ADVICE "the file is damaged: keep a copy, look at it by `weir ledger verify`"
#define LOW_AGE 4096u /* holds between two looks for the lowest held one */
/* One more column of sums to set, kept within the range of balances. */
#define ROWS_SUM(column)                                                                           \
    ", " column "=max(-9007199254740992, min(9007199254740992, " column "+excluded." column "))"
#define ROWS_SCOPE                                                                                 \
    "SELECT id, coalesce(parent, 0), granted, coalesce(configured, -1), seen, window, "            \
    "lapse_refunds, name FROM scope WHERE "

_Static_assert(WEIR_BALANCE_MAX == 9007199254740992, "as in ROWS_SUM");

static const char *const rows_sql[SQL_STATEMENTS] = {
    [SQL_BEGIN] = "BEGIN IMMEDIATE",
    [SQL_COMMIT] = "COMMIT",
    [SQL_ROLLBACK] = "ROLLBACK",
    [SQL_META_GET] = "SELECT v FROM meta WHERE k=?1",
    [SQL_META_SET] = "INSERT INTO meta VALUES(?1,?2) ON CONFLICT(k) DO UPDATE SET v=excluded.v",
    [SQL_HOLD_ADD] = "INSERT INTO hold VALUES(?1,?2,?3,?4,?5,?6,?7,?8)",
    [SQL_HOLD_REPLACE] = "INSERT OR REPLACE INTO hold VALUES(?1,?2,?3,?4,?5,?6,?7,?8)",
    [SQL_HOLD_SET] = "UPDATE hold SET booked=?2, state=?3, done=?4 WHERE id=?1",
    [SQL_HOLD_FIND] = "SELECT id, asked, booked, state, chain FROM hold WHERE id=?1",
    [SQL_BALANCE_SET] =
        "UPDATE balance SET granted=?3, reserved=?4, committed=?5, lapsed=?6, overrun=?7, "
        "cut=?8, raised=?9, lowered=?10, unmatched=?11, refunded=?12 "
        "WHERE scope=?1 AND window=?2",
    [SQL_BALANCE_ADD] = "INSERT INTO balance VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,0)",
    [SQL_BALANCE_FIND] = "SELECT granted, reserved, committed, lapsed, overrun, cut, raised, "
                         "lowered, unmatched, refunded FROM balance WHERE scope=?1 AND window=?2",
    [SQL_SCOPE_BY_NAME] = ROWS_SCOPE "name=?1",
    [SQL_SCOPE_BY_ID] = ROWS_SCOPE "id=?1",
    [SQL_SCOPE_SET] =
        "INSERT INTO scope VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9) ON CONFLICT(id) DO UPDATE SET "
        "parent=excluded.parent, granted=excluded.granted, configured=excluded.configured, "
        "unlimited=excluded.unlimited, lapse_refunds=excluded.lapse_refunds, "
        "window=excluded.window, seen=excluded.seen",
    [SQL_SCOPE_SEEN] = "UPDATE scope SET seen=?2 WHERE id=?1",
    [SQL_JOURNAL_ADD] = "INSERT INTO journal VALUES(?1,?2,?3,?4,?5)",
    [SQL_LABEL_ADD] = "INSERT INTO label VALUES(?1,?2)",
    [SQL_USAGE_ADD] = "INSERT INTO usage VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12) "
                      "ON CONFLICT(utc_hour, scope, upstream, model) DO UPDATE SET "
                      "requests=requests+excluded.requests" ROWS_SUM("input") ROWS_SUM("cached")
                          ROWS_SUM("cache_write") ROWS_SUM("output") ROWS_SUM("estimated")
                              ROWS_SUM("late") ROWS_SUM("unmatched"),
};

bool sql_rows_prepare(struct sql_store *s)
{
    for (int i = 0; i < SQL_STATEMENTS; i++)
        if (sqlite3_prepare_v3(s->file.db, rows_sql[i], -1, SQLITE_PREPARE_PERSISTENT,
                               &s->file.statements[i], NULL) != SQLITE_OK)
            return sql_file_fault(s, "use its tables");
    return true;
}

void sql_rows_finalize(struct sql_store *s)
{
    for (int i = 0; i < SQL_STATEMENTS; i++) {
        sqlite3_finalize(s->file.statements[i]);
        s->file.statements[i] = NULL;
    }
}

/* Runs a statement that gives no row. */
bool sql_run(struct sql_store *s, enum sql_statement which, const char *doing)
{
    sqlite3_stmt *statement = s->file.statements[which];
    bool done = sqlite3_step(statement) == SQLITE_DONE || sql_file_fault(s, doing);
    sqlite3_reset(statement);
    return done;
}

/* The statement at its first row; reset it afterwards when SQL_FOUND. */
static enum sql_found rows_find(struct sql_store *s, enum sql_statement which)
{
    sqlite3_stmt *statement = s->file.statements[which];
    int result = sqlite3_step(statement);
    if (result == SQLITE_ROW)
        return SQL_FOUND;
    if (result != SQLITE_DONE)
        sql_file_fault(s, "read from it");
    sqlite3_reset(statement);
    return result == SQLITE_DONE ? SQL_MISSING : SQL_FAULT;
}

void sql_bind(sqlite3_stmt *statement, int first, const int64_t *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sqlite3_bind_int64(statement, first + (int)i, values[i]);
}

bool sql_number(struct sql_store *s, const char *sql, int64_t *value)
{
    sqlite3_stmt *row = NULL;
    bool found = sqlite3_prepare_v2(s->file.db, sql, -1, &row, NULL) == SQLITE_OK &&
                 sqlite3_step(row) == SQLITE_ROW;
    if (found)
        *value = sqlite3_column_int64(row, 0);
    else
        sql_file_fault(s, "read it");
    sqlite3_finalize(row);
    return found;
}

/* ---- transactions ---- */

bool sql_begin(struct sql_store *s)
{
    if (s->file.in_transaction)
        return true;
    s->file.in_transaction = sql_run(s, SQL_BEGIN, "begin to write");
    return s->file.in_transaction;
}

bool sql_commit(struct sql_store *s)
{
    if (!s->file.in_transaction)
        return true;
    if (!sql_file_in_place(s) || !sql_run(s, SQL_COMMIT, "make a batch durable"))
        return false;
    s->file.in_transaction = false;
    s->seq_durable = s->file.seq;
    return true;
}

void sql_rollback(struct sql_store *s)
{
    if (s->file.in_transaction && s->file.db && !sqlite3_get_autocommit(s->file.db)) {
        sqlite3_step(s->file.statements[SQL_ROLLBACK]); /* the fault was noted before */
        sqlite3_reset(s->file.statements[SQL_ROLLBACK]);
    }
    s->file.in_transaction = false;
}

/* ---- meta ---- */

bool sql_meta_get(struct sql_store *s, const char *key, int64_t *value)
{
    sqlite3_stmt *row = s->file.statements[SQL_META_GET];
    s->file.fault = SQLITE_OK;
    sqlite3_bind_text(row, 1, key, -1, SQLITE_STATIC);
    if (rows_find(s, SQL_META_GET) != SQL_FOUND)
        return false;
    *value = sqlite3_column_int64(row, 0);
    sqlite3_reset(row);
    return true;
}

bool sql_meta_set(struct sql_store *s, const char *key, int64_t value)
{
    sqlite3_stmt *row = s->file.statements[SQL_META_SET];
    sqlite3_bind_text(row, 1, key, -1, SQLITE_STATIC);
    sqlite3_bind_int64(row, 2, value);
    s->rows_written++;
    return sql_begin(s) && sql_run(s, SQL_META_SET, "write its numbers");
}

/* ---- holds ---- */

bool sql_hold_read(struct sql_store *s, sqlite3_stmt *row, struct sql_hold *hold)
{
    int64_t state = sqlite3_column_int64(row, 3);
    *hold = (struct sql_hold){.id = (uint64_t)sqlite3_column_int64(row, 0),
                              .asked = sqlite3_column_int64(row, 1),
                              .booked = sqlite3_column_int64(row, 2),
                              .state = (enum weir_hold_state)state};
    const void *chain = sqlite3_column_blob(row, 4);
    hold->depth = weir_chain_read(chain, (size_t)sqlite3_column_bytes(row, 4), hold->chain);
    if (state < WEIR_HOLD_HELD || state > WEIR_HOLD_LATE || hold->depth == 0)
        return sql_file_wrong(s, "the row of hold %" PRIu64 " is not right: " ROWS_ADVICE,
                              hold->id);
    return true;
}

enum sql_found sql_hold_find(struct sql_store *s, uint64_t id, struct sql_hold *hold)
{
    sqlite3_stmt *row = s->file.statements[SQL_HOLD_FIND];
    sqlite3_bind_int64(row, 1, (int64_t)id);
    enum sql_found found = rows_find(s, SQL_HOLD_FIND);
    if (found != SQL_FOUND)
        return found;
    bool right = sql_hold_read(s, row, hold);
    sqlite3_reset(row);
    return right ? SQL_FOUND : SQL_FAULT;
}

static bool hold_is_done(enum weir_hold_state state)
{
    return state != WEIR_HOLD_HELD && state != WEIR_HOLD_LAPSED;
}

static void hold_bind_done(const struct sql_store *s, sqlite3_stmt *row, int at,
                           enum weir_hold_state state)
{
    if (hold_is_done(state))
        sqlite3_bind_int64(row, at, s->wall_s);
    else
        sqlite3_bind_null(row, at);
}

static bool low_write(struct sql_store *s, uint64_t low)
{
    s->hold_low = low;
    return sql_meta_set(s, "low", (int64_t)low);
}

/* Looking at all that are held is spread over at least as many new ones. */
bool sql_low_set(struct sql_store *s)
{
    struct weir_ledger_stats stats;
    if (s->low_age < LOW_AGE)
        return true;
    weir_ledger_stats(s->ledger, &stats);
    if (s->low_age < stats.held)
        return true;
    s->low_age = 0;
    uint64_t low = weir_ledger_held_low(s->ledger);
    if (low == 0)
        low = s->hold_highest;
    return low == s->hold_low || low_write(s, low);
}

bool sql_hold_add(struct sql_store *s, const struct weir_ledger_record *record, const uint8_t *key,
                  bool replace)
{
    enum sql_statement which = replace ? SQL_HOLD_REPLACE : SQL_HOLD_ADD;
    sqlite3_stmt *row = s->file.statements[which];
    struct weir_journal_link links[WEIR_LEDGER_DEPTH_MAX];
    uint8_t chain[WEIR_CHAIN_BYTES];
    sql_links(s, record, links);
    size_t chain_bytes = weir_chain_write(links, record->depth, chain);
    sqlite3_bind_int64(row, 1, (int64_t)record->id);
    if (key)
        sqlite3_bind_blob(row, 2, key, WEIR_STORE_KEY_BYTES, SQLITE_STATIC);
    else
        sqlite3_bind_null(row, 2);
    sqlite3_bind_blob(row, 3, chain, (int)chain_bytes, SQLITE_STATIC);
    sql_bind(row, 4, (int64_t[]){record->asked_tok, record->booked_tok, record->state, s->wall_s},
             4);
    hold_bind_done(s, row, 8, record->state);
    s->rows_written++;
    if (!sql_begin(s) || !sql_run(s, which, "write a hold"))
        return false;
    s->low_age++;
    /* Its id was made long before it was held. */
    return record->state != WEIR_HOLD_HELD || record->id >= s->hold_low || low_write(s, record->id);
}

bool sql_hold_set(struct sql_store *s, const struct weir_ledger_record *record)
{
    sqlite3_stmt *row = s->file.statements[SQL_HOLD_SET];
    sql_bind(row, 1, (int64_t[]){(int64_t)record->id, record->booked_tok, record->state}, 3);
    hold_bind_done(s, row, 4, record->state);
    s->rows_written++;
    if (!sql_begin(s) || !sql_run(s, SQL_HOLD_SET, "write a hold"))
        return false;
    /* Its row was purged while memory still knew the hold. */
    return sqlite3_changes(s->file.db) == 1 || sql_hold_add(s, record, NULL, false);
}

/* ---- balances ---- */

enum sql_found sql_balance_find(struct sql_store *s, int64_t scope_id, uint64_t window,
                                struct weir_ledger_balance *balance)
{
    sqlite3_stmt *row = s->file.statements[SQL_BALANCE_FIND];
    sql_bind(row, 1, (int64_t[]){scope_id, (int64_t)window}, 2);
    enum sql_found found = rows_find(s, SQL_BALANCE_FIND);
    if (found != SQL_FOUND)
        return found;
    *balance = (struct weir_ledger_balance){.scope = WEIR_NONE, .window = window};
    int64_t *amounts[] = {&balance->granted_tok, &balance->reserved_tok, &balance->committed_tok,
                          &balance->lapsed_tok,  &balance->overrun_tok,  &balance->cut_tok,
                          &balance->raised_tok,  &balance->lowered_tok,  &balance->unmatched_tok,
                          &balance->refunded_tok};
    for (size_t i = 0; i < WEIR_COUNT(amounts); i++)
        *amounts[i] = sqlite3_column_int64(row, (int)i);
    sqlite3_reset(row);
    return SQL_FOUND;
}

/* Most balances have their row: an UPDATE that may be followed by an INSERT costs a sixth less than an
 * upsert. */
static bool balance_write(struct sql_store *s, const int64_t values[12])
{
    sql_bind(s->file.statements[SQL_BALANCE_SET], 1, values, 12);
    s->rows_written++;
    if (!sql_begin(s) || !sql_run(s, SQL_BALANCE_SET, "write a balance"))
        return false;
    if (sqlite3_changes(s->file.db) == 1)
        return true;
    sql_bind(s->file.statements[SQL_BALANCE_ADD], 1, values, 12);
    return sql_run(s, SQL_BALANCE_ADD, "write a balance");
}

bool sql_balances_set(struct sql_store *s)
{
    for (struct weir_ledger_balance b; weir_ledger_changed_next(s->ledger, &b);) {
        WEIR_INVARIANT(s->slots[b.scope].id != 0);
        sql_touch(s, b.scope);
        if (!balance_write(s, (int64_t[]){s->slots[b.scope].id, (int64_t)b.window, b.granted_tok,
                                          b.reserved_tok, b.committed_tok, b.lapsed_tok,
                                          b.overrun_tok, b.cut_tok, b.raised_tok, b.lowered_tok,
                                          b.unmatched_tok, b.refunded_tok}))
            return false;
    }
    return true;
}

/* ---- scopes ---- */

static enum sql_found scope_read(struct sql_store *s, enum sql_statement which,
                                 struct sql_scope *scope)
{
    sqlite3_stmt *row = s->file.statements[which];
    enum sql_found found = rows_find(s, which);
    if (found != SQL_FOUND)
        return found;
    *scope = (struct sql_scope){.slot = {.id = sqlite3_column_int64(row, 0),
                                         .parent_id = sqlite3_column_int64(row, 1),
                                         .granted = sqlite3_column_int64(row, 2),
                                         .configured = sqlite3_column_int64(row, 3),
                                         .seen_s = sqlite3_column_int64(row, 4),
                                         .window = (uint64_t)sqlite3_column_int64(row, 5),
                                         .lapse_refunds = sqlite3_column_int64(row, 6) != 0}};
    const char *name = (const char *)sqlite3_column_text(row, 7);
    size_t bytes = name ? strlen(name) : 0;
    bool right = bytes > 0 && bytes < sizeof scope->name && scope->slot.id > 0;
    if (right)
        memcpy(scope->name, name, bytes + 1);
    else
        sql_file_wrong(s, "the row of scope %" PRId64 " is not right: " ROWS_ADVICE,
                       scope->slot.id);
    sqlite3_reset(row);
    return right ? SQL_FOUND : SQL_FAULT;
}

enum sql_found sql_scope_by_name(struct sql_store *s, const char *name, struct sql_scope *scope)
{
    sqlite3_bind_text(s->file.statements[SQL_SCOPE_BY_NAME], 1, name, -1, SQLITE_STATIC);
    return scope_read(s, SQL_SCOPE_BY_NAME, scope);
}

enum sql_found sql_scope_by_id(struct sql_store *s, int64_t id, struct sql_scope *scope)
{
    sqlite3_bind_int64(s->file.statements[SQL_SCOPE_BY_ID], 1, id);
    return scope_read(s, SQL_SCOPE_BY_ID, scope);
}

bool sql_scope_set(struct sql_store *s, uint32_t slot)
{
    sqlite3_stmt *row = s->file.statements[SQL_SCOPE_SET];
    const struct sql_slot *scope = &s->slots[slot];
    sqlite3_bind_int64(row, 1, scope->id);
    sqlite3_bind_text(row, 2, weir_names_scope_text(s->base.names, slot), -1, SQLITE_STATIC);
    if (scope->parent_id)
        sqlite3_bind_int64(row, 3, scope->parent_id);
    else
        sqlite3_bind_null(row, 3);
    sqlite3_bind_int64(row, 4, scope->granted);
    if (scope->configured >= 0)
        sqlite3_bind_int64(row, 5, scope->configured);
    else
        sqlite3_bind_null(row, 5);
    sql_bind(row, 6,
             (int64_t[]){scope->granted == WEIR_BALANCE_MAX, scope->lapse_refunds,
                         (int64_t)scope->window, scope->seen_s},
             4);
    s->rows_written++;
    return sql_begin(s) && sql_run(s, SQL_SCOPE_SET, "write a scope");
}

/* ---- the journal ---- */

bool sql_journal_add(struct sql_store *s, const struct weir_journal_record *record)
{
    if (weir_journal_write(&s->journal, record))
        return true;
    if (!sql_journal_flush(s)) /* the blob is full: the batch goes on in another row */
        return false;
    bool fits = weir_journal_write(&s->journal, record);
    WEIR_INVARIANT(fits);
    return true;
}

bool sql_journal_flush(struct sql_store *s)
{
    struct weir_journal_writer *w = &s->journal;
    sqlite3_stmt *row = s->file.statements[SQL_JOURNAL_ADD];
    if (w->count > 0) {
        int64_t seq = s->file.seq + 1;
        uint32_t crc = weir_journal_crc(seq, s->wall_s, w->count, w->out, w->bytes);
        sql_bind(row, 1, (int64_t[]){seq, s->wall_s, w->count, crc}, 4);
        sqlite3_bind_blob(row, 5, w->out, (int)w->bytes, SQLITE_STATIC);
        s->rows_written++;
        if (!sql_begin(s) || !sql_run(s, SQL_JOURNAL_ADD, "write the journal"))
            return false;
        s->file.seq = seq;
    }
    *w = (struct weir_journal_writer){.out = s->journal_room, .room = s->journal_bytes};
    return true;
}

/* ---- slots ---- */

static uint32_t ids_home(const struct sql_store *s, int64_t id)
{
    return (uint32_t)((uint64_t)id * UINT64_C(0x9e3779b97f4a7c15) >> 32) & s->ids.mask;
}

static uint32_t *ids_place(const struct sql_store *s, int64_t id)
{
    uint32_t at = ids_home(s, id);
    while (s->ids.slots[at] && s->slots[s->ids.slots[at] - 1].id != id)
        at = (at + 1) & s->ids.mask;
    return &s->ids.slots[at];
}

uint32_t sql_ids_find(const struct sql_store *s, int64_t id)
{
    uint32_t slot = *ids_place(s, id);
    return slot ? slot - 1 : WEIR_NONE;
}

void sql_ids_set(struct sql_store *s, uint32_t slot)
{
    *ids_place(s, s->slots[slot].id) = slot + 1;
}

void sql_ids_drop(struct sql_store *s, uint32_t slot)
{
    uint32_t at = (uint32_t)(ids_place(s, s->slots[slot].id) - s->ids.slots);
    for (uint32_t next = (at + 1) & s->ids.mask; s->ids.slots[next];
         next = (next + 1) & s->ids.mask) {
        uint32_t home = ids_home(s, s->slots[s->ids.slots[next] - 1].id);
        if (((next - home) & s->ids.mask) >= ((next - at) & s->ids.mask)) {
            s->ids.slots[at] = s->ids.slots[next];
            at = next;
        }
    }
    s->ids.slots[at] = 0;
    s->slots[slot] = (struct sql_slot){.is_touched = s->slots[slot].is_touched};
}

void sql_links(const struct sql_store *s, const struct weir_ledger_record *record,
               struct weir_journal_link chain[WEIR_LEDGER_DEPTH_MAX])
{
    for (uint8_t i = 0; i < record->depth; i++) {
        chain[i] = (struct weir_journal_link){.scope_id = s->slots[record->chain[i].scope].id,
                                              .window = record->chain[i].window};
        WEIR_INVARIANT(chain[i].scope_id != 0);
    }
}

void sql_touch(struct sql_store *s, uint32_t slot)
{
    if (s->slots[slot].is_touched)
        return;
    s->slots[slot].is_touched = true;
    s->touched[s->touched_count++] = slot;
}
