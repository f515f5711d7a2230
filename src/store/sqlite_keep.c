/* House-keeping, a piece of at most 1,000 rows at a time, while nobody waits (and where somebody
 * always does, in a fifth of the time): rows that are past their time go, and the oldest part of the
 * journal is folded into the base it starts from.
 *
 * Nothing that is purged is lost to the balances: `purged` of a balance keeps what its holds that
 * have no row any more had committed, so that the sum can still be checked. */
#include <inttypes.h>
#include <string.h>

#include "store/replay.h"
#include "store/sqlite_inside.h"

#define KEEP_ROWS 1000
#define KEEP_ROWS_TEXT "1000"
#define KEEP_FOLD_ROWS 64 /* of the journal: each is a batch */
#define KEEP_ROUND_S 60
#define KEEP_IDLE_NS WEIR_NS_PER_S
#define KEEP_DAY_S 86400
#define KEEP_JUMP_S 3600                  /* ahead of what the monotonic clock says */
#define KEEP_JUMP_RUN_S (30 * KEEP_DAY_S) /* ahead of what the last run wrote */
#define KEEP_PAST_ROUND_S (6 * 3600)      /* the walk over all balances */

enum keep_step {
    KEEP_HOLDS,
    KEEP_JOURNAL,
    KEEP_BALANCES,
    KEEP_USAGE,
    KEEP_SEEN,
    KEEP_SCOPES,
    KEEP_STEPS
};

/* A statement for one use; NULL: the fault is noted. */
static sqlite3_stmt *keep_prepare(struct sql_store *s, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(s->file.db, sql, -1, &statement, NULL) != SQLITE_OK)
        sql_file_fault(s, "keep house in it");
    return statement;
}

static bool keep_run(struct sql_store *s, sqlite3_stmt *statement)
{
    bool done = sqlite3_step(statement) == SQLITE_DONE || sql_file_fault(s, "keep house in it");
    sqlite3_reset(statement);
    s->rows_written += done ? (uint64_t)sqlite3_changes(s->file.db) : 0;
    return done;
}

/* ---- checkpoints ---- */

bool sql_checkpoint(struct sql_store *s, int mode)
{
    int frames = 0, moved = 0;
    int result = sqlite3_wal_checkpoint_v2(s->file.db, NULL, mode, &frames, &moved);
    if (result == SQLITE_BUSY && mode == SQLITE_CHECKPOINT_PASSIVE)
        return true; /* a reader is in the way; the next one will do */
    if (result != SQLITE_OK)
        return sql_file_fault(s, "move its log into the file");
    s->file.wal_moved = moved;
    return true;
}

/* ---- holds ---- */

static bool hold_purge(struct sql_store *s, const struct sql_hold *hold, sqlite3_stmt *drop,
                       sqlite3_stmt *purged)
{
    bool counts = hold->state == WEIR_HOLD_SETTLED || hold->state == WEIR_HOLD_LATE;
    sql_bind(drop, 1, (int64_t[]){(int64_t)hold->id}, 1);
    if (!sql_begin(s) || !keep_run(s, drop))
        return false;
    for (uint8_t i = 0; counts && hold->booked > 0 && i < hold->depth; i++) {
        sql_bind(purged, 1,
                 (int64_t[]){hold->chain[i].scope_id, (int64_t)hold->chain[i].window, hold->booked},
                 3);
        if (!keep_run(s, purged))
            return false;
    }
    return true;
}

/* Is a hold past its time? A lapsed one that was given back counts nothing, but verify expects its
 * row as long as the journal speaks of it. */
static bool hold_is_over(const struct sql_store *s, const struct sql_hold *hold, int64_t since_s)
{
    switch (hold->state) {
    case WEIR_HOLD_SETTLED:
    case WEIR_HOLD_VOID:
    case WEIR_HOLD_LATE:
        return since_s < s->wall_s - s->config.keep_finished_s;
    case WEIR_HOLD_LAPSED:
        return hold->booked == 0 &&
               since_s < s->wall_s - weir_max_i64(s->config.keep_finished_s,
                                                  s->config.keep_journal_s + KEEP_DAY_S);
    case WEIR_HOLD_HELD:
    case WEIR_HOLD_NONE:
        break;
    }
    return false;
}

/* Ids go up with time, so the first one that is too young ends the walk. */
static bool keep_holds(struct sql_store *s, bool *more)
{
    sqlite3_stmt *rows = keep_prepare(s, "SELECT id, asked, booked, state, chain, created, "
                                         "coalesce(done, created) FROM hold WHERE id > ?1 "
                                         "ORDER BY id LIMIT " KEEP_ROWS_TEXT);
    sqlite3_stmt *drop = keep_prepare(s, "DELETE FROM hold WHERE id = ?1");
    sqlite3_stmt *purged =
        keep_prepare(s, "UPDATE balance SET purged = purged + ?3 WHERE scope = ?1 AND window = ?2");
    int64_t until_s = s->wall_s - s->config.keep_finished_s;
    bool right = rows && drop && purged, is_young = false;
    int seen = 0, result = SQLITE_ROW;
    if (right)
        sql_bind(rows, 1, (int64_t[]){s->hold_cursor}, 1);
    while (right && !is_young && (result = sqlite3_step(rows)) == SQLITE_ROW) {
        struct sql_hold hold;
        seen++;
        right = sql_hold_read(s, rows, &hold);
        /* One that no reserve preceded may have any id. */
        is_young = sqlite3_column_int64(rows, 5) > until_s && hold.asked >= 0;
        s->hold_cursor = (int64_t)hold.id;
        if (right && hold_is_over(s, &hold, sqlite3_column_int64(rows, 6)))
            right = hold_purge(s, &hold, drop, purged);
    }
    if (right && result != SQLITE_ROW && result != SQLITE_DONE)
        right = sql_file_fault(s, "read its holds");
    *more = !is_young && seen == KEEP_ROWS;
    if (!*more)
        s->hold_cursor = INT64_MIN;
    sqlite3_finalize(rows);
    sqlite3_finalize(drop);
    sqlite3_finalize(purged);
    return right;
}

/* ---- the journal ---- */

/* The base rows that a record counts in, unless they are there already. */
static bool fold_bring(struct sql_store *s, struct weir_replay *replay, sqlite3_stmt *find,
                       const struct weir_journal_record *record)
{
    for (uint8_t i = 0; i < record->depth; i++) {
        const struct weir_journal_link *link = &record->chain[i];
        if (weir_replay_find(replay, link->scope_id, link->window))
            continue;
        sql_bind(find, 1, (int64_t[]){link->scope_id, (int64_t)link->window}, 2);
        int result = sqlite3_step(find);
        struct weir_balance_row row = {.scope_id = link->scope_id, .window = link->window};
        int64_t *amounts[] = {&row.granted_tok, &row.reserved_tok, &row.committed_tok,
                              &row.lapsed_tok,  &row.overrun_tok,  &row.cut_tok,
                              &row.raised_tok,  &row.lowered_tok,  &row.unmatched_tok,
                              &row.refunded_tok};
        for (size_t k = 0; result == SQLITE_ROW && k < WEIR_COUNT(amounts); k++)
            *amounts[k] = sqlite3_column_int64(find, (int)k);
        sqlite3_reset(find);
        if (result != SQLITE_ROW && result != SQLITE_DONE)
            return sql_file_fault(s, "read its base");
        if (result == SQLITE_ROW && !weir_replay_add(replay, &row))
            return sql_file_wrong(s, "there is no memory to fold its journal");
    }
    return true;
}

/* One row of the journal. *wrong: it cannot be replayed, and why; the fold ends before it. */
static bool fold_row(struct sql_store *s, struct weir_replay *replay, sqlite3_stmt *find,
                     sqlite3_stmt *row, const char **wrong)
{
    const void *data = sqlite3_column_blob(row, 4);
    struct weir_journal_reader reader = {.data = data,
                                         .bytes = (size_t)sqlite3_column_bytes(row, 4)};
    struct weir_journal_record record;
    uint32_t crc = weir_journal_crc(sqlite3_column_int64(row, 0), sqlite3_column_int64(row, 1),
                                    (uint32_t)sqlite3_column_int64(row, 2), data, reader.bytes);
    *wrong = crc == (uint32_t)sqlite3_column_int64(row, 3) ? NULL : "its check does not match";
    while (!*wrong) {
        uint8_t link;
        switch (weir_journal_read(&reader, &record)) {
        case WEIR_JOURNAL_END:
            return true;
        case WEIR_JOURNAL_MALFORMED:
            *wrong = "it is malformed";
            break;
        case WEIR_JOURNAL_RECORD:
            if (!fold_bring(s, replay, find, &record))
                return false;
            *wrong = weir_replay_apply(replay, &record, &link);
            break;
        }
    }
    return true;
}

static bool fold_write(struct sql_store *s, struct weir_replay *replay, int64_t last_seq)
{
    sqlite3_stmt *set = keep_prepare(
        s, "INSERT OR REPLACE INTO base VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12)");
    sqlite3_stmt *drop = keep_prepare(s, "DELETE FROM journal WHERE seq <= ?1");
    bool right = set && drop && sql_begin(s);
    for (size_t i = 0; right && i < weir_replay_count(replay); i++) {
        const struct weir_balance_row *b = weir_replay_at(replay, i);
        sql_bind(set, 1,
                 (int64_t[]){b->scope_id, (int64_t)b->window, b->granted_tok, b->reserved_tok,
                             b->committed_tok, b->lapsed_tok, b->overrun_tok, b->cut_tok,
                             b->raised_tok, b->lowered_tok, b->unmatched_tok, b->refunded_tok},
                 12);
        right = keep_run(s, set);
    }
    if (right) {
        sql_bind(drop, 1, (int64_t[]){last_seq}, 1);
        right = keep_run(s, drop) && sql_meta_set(s, "base_seq", last_seq);
    }
    if (right)
        s->file.base_seq = last_seq;
    sqlite3_finalize(set);
    sqlite3_finalize(drop);
    return right;
}

static bool fold_rows(struct sql_store *s, struct weir_replay *replay, sqlite3_stmt *rows,
                      sqlite3_stmt *find, bool *more)
{
    int64_t last_seq = s->file.base_seq;
    const char *wrong = NULL;
    int result = SQLITE_DONE, folded = 0;
    sql_bind(rows, 1, (int64_t[]){KEEP_FOLD_ROWS}, 1);
    while (!wrong && (result = sqlite3_step(rows)) == SQLITE_ROW &&
           sqlite3_column_int64(rows, 1) < s->wall_s - s->config.keep_journal_s) {
        int64_t seq = sqlite3_column_int64(rows, 0);
        if (seq != last_seq + 1)
            wrong = "a row before it is missing";
        else if (!fold_row(s, replay, find, rows, &wrong))
            return false;
        if (wrong) {
            /* Rows folded in this piece before it would be half done with it: none is written. */
            s->fold_is_off = true;
            sql_say(s, WEIR_STORE_SAY_ERROR,
                    "ledger %s: row %" PRId64 " of the journal cannot be folded: %s; the journal "
                    "grows from now on: look at it by `weir ledger verify`",
                    s->path, seq, wrong);
            return true;
        }
        last_seq = seq;
        folded++;
    }
    if (result != SQLITE_ROW && result != SQLITE_DONE)
        return sql_file_fault(s, "read its journal");
    *more = folded == KEEP_FOLD_ROWS;
    sqlite3_reset(rows);
    return folded == 0 || fold_write(s, replay, last_seq);
}

static bool keep_journal(struct sql_store *s, bool *more)
{
    *more = false;
    if (s->fold_is_off)
        return true;
    sqlite3_stmt *rows =
        keep_prepare(s, "SELECT seq, wall, n, crc, data FROM journal ORDER BY seq LIMIT ?1");
    sqlite3_stmt *find = keep_prepare(
        s, "SELECT granted, reserved, committed, lapsed, overrun, cut, raised, lowered, "
           "unmatched, refunded FROM base WHERE scope = ?1 AND window = ?2");
    struct weir_replay *replay = weir_replay_new();
    bool right = rows && find;
    if (right && !replay)
        right = sql_file_wrong(s, "there is no memory to fold its journal");
    right = right && fold_rows(s, replay, rows, find, more);
    weir_replay_free(replay);
    sqlite3_finalize(rows);
    sqlite3_finalize(find);
    return right;
}

/* ---- balances of past windows, and usage ---- */

#define KEEP_PAST                                                                                  \
    "SELECT b.scope, b.window, b.window < sc.window AND b.window < ?3 AND b.reserved = 0 "         \
    "AND b.lapsed = 0 AND b.committed = b.purged + b.raised - b.lowered "                          \
    "AND EXISTS(SELECT 1 FROM balance n WHERE n.scope = b.scope AND n.window > b.window "          \
    "AND n.window <= ?3) "                                                                         \
    "AND EXISTS(SELECT 1 FROM base o WHERE o.scope = b.scope AND o.window = b.window "             \
    "AND o.granted = b.granted AND o.reserved = 0 AND o.lapsed = 0 "                               \
    "AND o.committed = b.committed AND o.overrun = b.overrun AND o.cut = b.cut "                   \
    "AND o.raised = b.raised AND o.lowered = b.lowered AND o.unmatched = b.unmatched "             \
    "AND o.refunded = b.refunded) "                                                                \
    "FROM balance b JOIN scope sc ON sc.id = b.scope WHERE (b.scope, b.window) > (?1, ?2) "        \
    "ORDER BY b.scope, b.window LIMIT " KEEP_ROWS_TEXT

/* A past balance goes, and its base row, when nothing that is still kept can name it: its window
 * ended before the cut, its holds have no rows, and the journal that changed it is folded. (Holds
 * that counted nothing in the end may have changed it and be in the journal still: those end within
 * hours of their window, and the cut is a day before the journal's.) */
static bool keep_balances(struct sql_store *s, bool *more)
{
    bool is_begun = s->balance_cursor[0] != 0;
    *more = false;
    if (!is_begun && s->wall_s >= s->past_wall_s && s->wall_s - s->past_wall_s < KEEP_PAST_ROUND_S)
        return true;
    s->past_wall_s = s->wall_s;
    int64_t kept_s = weir_max_i64(s->config.keep_usage_s, s->config.keep_journal_s + KEEP_DAY_S);
    sqlite3_stmt *rows = keep_prepare(s, KEEP_PAST);
    sqlite3_stmt *drops[] = {
        keep_prepare(s, "DELETE FROM balance WHERE scope = ?1 AND window = ?2"),
        keep_prepare(s, "DELETE FROM base WHERE scope = ?1 AND window = ?2")};
    bool right = rows && drops[0] && drops[1];
    int seen = 0, result = SQLITE_ROW;
    if (right)
        sql_bind(rows, 1,
                 (int64_t[]){s->balance_cursor[0], s->balance_cursor[1], s->wall_s - kept_s}, 3);
    while (right && (result = sqlite3_step(rows)) == SQLITE_ROW) {
        seen++;
        for (int i = 0; i < 2; i++)
            s->balance_cursor[i] = sqlite3_column_int64(rows, i);
        for (int i = 0; right && sqlite3_column_int64(rows, 2) != 0 && i < 2; i++) {
            sql_bind(drops[i], 1, s->balance_cursor, 2);
            right = sql_begin(s) && keep_run(s, drops[i]);
        }
    }
    if (right && result != SQLITE_DONE)
        right = sql_file_fault(s, "read its balances");
    *more = seen == KEEP_ROWS;
    if (!*more)
        s->balance_cursor[0] = s->balance_cursor[1] = 0;
    sqlite3_finalize(rows);
    sqlite3_finalize(drops[0]);
    sqlite3_finalize(drops[1]);
    return right;
}

static bool keep_usage(struct sql_store *s, bool *more)
{
    int64_t until_hour = (s->wall_s - s->config.keep_usage_s) / 3600;
    sqlite3_stmt *old = keep_prepare(s, "SELECT 1 FROM usage WHERE utc_hour < ?1 LIMIT 1");
    sqlite3_stmt *drop = keep_prepare(
        s, "DELETE FROM usage WHERE (utc_hour, scope, upstream, model) IN (SELECT utc_hour, scope, "
           "upstream, model FROM usage WHERE utc_hour < ?1 LIMIT " KEEP_ROWS_TEXT ")");
    bool right = old && drop;
    int result = SQLITE_DONE;
    *more = false;
    if (right) {
        sql_bind(old, 1, (int64_t[]){until_hour}, 1);
        sql_bind(drop, 1, (int64_t[]){until_hour}, 1);
        result = sqlite3_step(old);
        sqlite3_reset(old);
    }
    if (right && result == SQLITE_ROW) {
        right = sql_begin(s) && keep_run(s, drop);
        *more = right && sqlite3_changes(s->file.db) == KEEP_ROWS;
    } else if (right && result != SQLITE_DONE) {
        right = sql_file_fault(s, "read its usage");
    }
    sqlite3_finalize(old);
    sqlite3_finalize(drop);
    return right;
}

/* ---- scopes ---- */

/* Scopes in use say so once a day: their rows are not past their time. */
static bool keep_seen(struct sql_store *s, bool *more)
{
    sqlite3_stmt *row = s->file.statements[SQL_SCOPE_SEEN];
    uint32_t written = 0;
    for (; s->seen_cursor < s->limits.scopes_max && written < KEEP_ROWS; s->seen_cursor++) {
        struct sql_slot *slot = &s->slots[s->seen_cursor];
        if (slot->id == 0 || slot->seen_s / KEEP_DAY_S == s->wall_s / KEEP_DAY_S)
            continue;
        slot->seen_s = s->wall_s;
        sql_bind(row, 1, (int64_t[]){slot->id, slot->seen_s}, 2);
        if (!sql_begin(s) || !sql_run(s, SQL_SCOPE_SEEN, "write a scope"))
            return false;
        written++;
    }
    *more = s->seen_cursor < s->limits.scopes_max;
    if (!*more)
        s->seen_cursor = 0;
    return true;
}

/* What may go: nobody defined it for so long that its usage, its holds and its part of the journal
 * are gone, and it has no children. One that has holds to be settled has a slot. */
#define KEEP_SCOPE_ROWS                                                                            \
    "SELECT id, seen < ?2 AND id NOT IN (SELECT parent FROM scope WHERE parent NOT NULL) "         \
    "FROM scope WHERE id > ?1 ORDER BY id LIMIT " KEEP_ROWS_TEXT

static bool keep_scopes(struct sql_store *s, bool *more)
{
    *more = false;
    if (s->fold_is_off || (s->scope_cursor == 0 && s->wall_s >= s->scopes_wall_s &&
                           s->wall_s - s->scopes_wall_s < KEEP_DAY_S))
        return true;
    s->scopes_wall_s = s->wall_s;
    int64_t kept_s = 2 * KEEP_DAY_S +
                     weir_max_i64(s->config.keep_usage_s, weir_max_i64(s->config.keep_journal_s,
                                                                       s->config.keep_finished_s));
    sqlite3_stmt *rows = keep_prepare(s, KEEP_SCOPE_ROWS);
    sqlite3_stmt *drops[] = {keep_prepare(s, "DELETE FROM balance WHERE scope = ?1"),
                             keep_prepare(s, "DELETE FROM base WHERE scope = ?1"),
                             keep_prepare(s, "DELETE FROM scope WHERE id = ?1")};
    bool right = rows && drops[0] && drops[1] && drops[2];
    int seen = 0, result = SQLITE_ROW;
    if (right)
        sql_bind(rows, 1, (int64_t[]){s->scope_cursor, s->wall_s - kept_s}, 2);
    while (right && (result = sqlite3_step(rows)) == SQLITE_ROW) {
        seen++;
        s->scope_cursor = sqlite3_column_int64(rows, 0);
        bool goes =
            sqlite3_column_int64(rows, 1) != 0 && sql_ids_find(s, s->scope_cursor) == WEIR_NONE;
        for (size_t i = 0; right && goes && i < WEIR_COUNT(drops); i++) {
            sql_bind(drops[i], 1, &s->scope_cursor, 1);
            right = sql_begin(s) && keep_run(s, drops[i]);
        }
    }
    if (right && result != SQLITE_DONE)
        right = sql_file_fault(s, "read its scopes");
    *more = seen == KEEP_ROWS;
    if (!*more)
        s->scope_cursor = 0;
    sqlite3_finalize(rows);
    for (size_t i = 0; i < WEIR_COUNT(drops); i++)
        sqlite3_finalize(drops[i]);
    return right;
}

/* ---- in turn ---- */

static bool keep_piece(struct sql_store *s, bool *more)
{
    switch ((enum keep_step)s->keep_step) {
    case KEEP_HOLDS:
        return keep_holds(s, more);
    case KEEP_JOURNAL:
        return keep_journal(s, more);
    case KEEP_BALANCES:
        return keep_balances(s, more);
    case KEEP_USAGE:
        return keep_usage(s, more);
    case KEEP_SEEN:
        return keep_seen(s, more);
    case KEEP_SCOPES:
        return keep_scopes(s, more);
    case KEEP_STEPS:
        break;
    }
    *more = false;
    return true;
}

void sql_keep_restart(struct sql_store *s)
{
    s->keep_is_begun = false;
    s->keep_step = 0;
    s->keep_wall_s = 0;
    s->hold_cursor = INT64_MIN;
    s->balance_cursor[0] = s->balance_cursor[1] = s->scope_cursor = 0;
    s->seen_cursor = 0;
}

/* A clock that jumps ahead would have years of usage and of holds purged within a minute. It is not
 * believed until it has gone on for a while: then it is right, or it was set by someone who means it. */
static bool keep_believes(struct sql_store *s, int64_t wall_s)
{
    uint64_t now_ns = sql_clock_ns();
    bool is_first = s->clock_ns == 0;
    int64_t passed_s = is_first ? 0 : (int64_t)((now_ns - s->clock_ns) / WEIR_NS_PER_S);
    int64_t ahead_s = wall_s - s->clock_wall_s - passed_s;
    if (s->config.clock_doubt_s > 0 && s->clock_wall_s > 0 &&
        ahead_s > (is_first ? KEEP_JUMP_RUN_S : KEEP_JUMP_S)) {
        s->clock_doubt_ns = now_ns + (uint64_t)s->config.clock_doubt_s * WEIR_NS_PER_S;
        sql_keep_restart(s);
        sql_say(s, WEIR_STORE_SAY_WARN,
                "ledger %s: the clock is %" PRId64
                " s ahead of where it should be: nothing old is let "
                "go of for %" PRId64 " s; if it is wrong, set it right",
                s->path, ahead_s, s->config.clock_doubt_s);
    }
    s->clock_ns = now_ns;
    s->clock_wall_s = wall_s;
    return now_ns >= s->clock_doubt_ns;
}

bool sql_keep(struct sql_store *s, bool *more)
{
    bool again = false;
    int64_t wall_s = sql_wall_s(s);
    bool is_believed = keep_believes(s, wall_s);
    bool is_due =
        s->keep_is_begun || wall_s >= s->keep_wall_s + KEEP_ROUND_S || wall_s < s->keep_wall_s;
    *more = false;
    if (is_believed && is_due) {
        /* A round has one present: what a later step lets go of relies on what an earlier one did. */
        if (!s->keep_is_begun)
            s->keep_wall_s = wall_s;
        s->keep_is_begun = true;
        s->wall_s = s->keep_wall_s;
        if (!keep_piece(s, &again) || !sql_commit(s))
            return false;
        if (!again)
            s->keep_step++;
        if (s->keep_step == KEEP_STEPS) {
            s->keep_step = 0;
            s->keep_is_begun = false;
        }
        *more = s->keep_is_begun;
    } else if (s->file.wal_frames != s->file.wal_moved &&
               sql_clock_ns() - s->commit_last_ns >= KEEP_IDLE_NS) {
        return sql_checkpoint(s, SQLITE_CHECKPOINT_PASSIVE);
    }
    return true;
}
