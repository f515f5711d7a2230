/* The queries of reader.h that come in pages: each is one SELECT, and so one read transaction. */
#include "store/reader.h"

#include <stdio.h>
#include <stdlib.h>

#include "store/reader_inside.h"

static uint32_t rows_of_page(uint32_t rows_max)
{
    return rows_max == 0 || rows_max > WEIR_READER_ROWS_MAX ? WEIR_READER_ROWS_MAX : rows_max;
}

/* A statement with LIMIT as its last parameter: one row more than the page is asked for, which tells
 * whether there is another page. */
struct page {
    struct weir_reader *reader;
    sqlite3_stmt *statement;
    uint32_t rows_left;
    int code;
};

static bool page_begin(struct page *page, struct weir_reader *reader, const char *sql,
                       uint32_t rows_max)
{
    *page = (struct page){.reader = reader,
                          .statement = reader_prepare(reader, sql),
                          .rows_left = rows_of_page(rows_max)};
    if (!page->statement)
        return false;
    sqlite3_bind_int64(page->statement, sqlite3_bind_parameter_count(page->statement),
                       (int64_t)page->rows_left + 1);
    return true;
}

static bool page_row(struct page *page)
{
    page->code = sqlite3_step(page->statement);
    if (page->code != SQLITE_ROW || page->rows_left == 0)
        return false;
    page->rows_left--;
    return true;
}

static enum weir_reader_next page_end(struct page *page)
{
    int code = page->code;
    if (page->reader->name_of)
        sqlite3_reset(page->reader->name_of); /* else it would keep the transaction open */
    if (!reader_finish(page->reader, page->statement, code))
        return WEIR_READER_FAULT;
    return code == SQLITE_ROW ? WEIR_READER_MORE : WEIR_READER_END;
}

static const char *column_name(sqlite3_stmt *statement, int column)
{
    const char *text = (const char *)sqlite3_column_text(statement, column);
    return text ? text : "?";
}

/* Finds a scope's id by name. MORE: found, or no name was given (0); END: there is none. */
static enum weir_reader_next scope_id(struct weir_reader *reader, const char *name, int64_t *id)
{
    *id = 0;
    if (!name)
        return WEIR_READER_MORE;
    sqlite3_stmt *statement = reader_prepare(reader, "SELECT id FROM scope WHERE name = ?");
    if (!statement)
        return WEIR_READER_FAULT;
    sqlite3_bind_text(statement, 1, name, -1, SQLITE_STATIC);
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW)
        *id = sqlite3_column_int64(statement, 0);
    if (!reader_finish(reader, statement, code))
        return WEIR_READER_FAULT;
    return code == SQLITE_ROW ? WEIR_READER_MORE : WEIR_READER_END;
}

/* Scopes. */

#define SCOPE_IDS_MAX (INT64_C(1) << 28)

/* Room for a count of every scope id. */
static bool live_room(struct weir_reader *reader)
{
    sqlite3_stmt *statement = reader_prepare(reader, "SELECT max(id) FROM scope");
    if (!statement)
        return false;
    int code = sqlite3_step(statement);
    int64_t id_max = code == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : 0;
    if (!reader_finish(reader, statement, code))
        return false;
    if (id_max < 0 || id_max > SCOPE_IDS_MAX)
        return reader_fault(reader, SQLITE_CORRUPT);
    free(reader->live);
    reader->live_count = (size_t)id_max + 1;
    reader->live = calloc(reader->live_count, sizeof *reader->live);
    return reader->live || reader_fault(reader, SQLITE_NOMEM);
}

/* Live holds are few among many: held ones lie at or above meta low, lapsed ones have an index. */
#define HELD_AFTER                                                                                 \
    " WHERE id > max(?, coalesce((SELECT v FROM meta WHERE k = 'low'), 0) - 1) AND state = 1 "     \
    "ORDER BY id LIMIT ?"
#define LAPSED_AFTER " WHERE id > ? AND state = 4 ORDER BY id LIMIT ?"

/* Adds the live holds of one page, from *at on. */
static enum weir_reader_next count_page(struct weir_reader *reader, int64_t state, int64_t *at)
{
    struct page page;
    if (!page_begin(&page, reader,
                    state == WEIR_HOLD_HELD ? "SELECT id, chain FROM hold" HELD_AFTER
                                            : "SELECT id, chain FROM hold" LAPSED_AFTER,
                    0))
        return WEIR_READER_FAULT;
    sqlite3_bind_int64(page.statement, 1, *at);
    while (page_row(&page)) {
        struct weir_journal_link chain[WEIR_LEDGER_DEPTH_MAX];
        *at = sqlite3_column_int64(page.statement, 0);
        const void *data = sqlite3_column_blob(page.statement, 1);
        uint8_t depth =
            weir_chain_read(data, (size_t)sqlite3_column_bytes(page.statement, 1), chain);
        for (uint8_t i = 0; i < depth; i++)
            if (chain[i].scope_id < (int64_t)reader->live_count) {
                struct live_count *live = &reader->live[chain[i].scope_id];
                *(state == WEIR_HOLD_HELD ? &live->held : &live->lapsed) += 1;
            }
    }
    return page_end(&page);
}

static bool count_live(struct weir_reader *reader)
{
    if (!live_room(reader))
        return false;
    const int64_t states[] = {WEIR_HOLD_HELD, WEIR_HOLD_LAPSED};
    for (size_t i = 0; i < WEIR_COUNT(states); i++) {
        int64_t at = INT64_MIN;
        enum weir_reader_next next = WEIR_READER_MORE;
        while (next == WEIR_READER_MORE)
            next = count_page(reader, states[i], &at);
        if (next == WEIR_READER_FAULT)
            return false;
    }
    return true;
}

static void scope_row(const struct weir_reader *reader, sqlite3_stmt *statement,
                      struct weir_reader_scope *scope)
{
    int64_t id = sqlite3_column_int64(statement, 0);
    *scope = (struct weir_reader_scope){
        .id = id,
        .name = column_name(statement, 1),
        .unlimited = sqlite3_column_int(statement, 4) != 0,
        .lapse_refunds = sqlite3_column_int(statement, 5) != 0,
        .is_configured = sqlite3_column_type(statement, 6) != SQLITE_NULL,
        .configured_tok = reader_amount(statement, 6),
        .granted_tok = reader_amount(statement, 7),
        .seen_s = sqlite3_column_int64(statement, 9),
        .has_balance = sqlite3_column_type(statement, 10) != SQLITE_NULL,
        .balance = {.scope_id = id, .window = (uint64_t)sqlite3_column_int64(statement, 8)},
    };
    if (sqlite3_column_type(statement, 2) != SQLITE_NULL)
        scope->parent = column_name(statement, 3);
    if (scope->unlimited)
        scope->granted_tok = WEIR_BALANCE_MAX;
    if (scope->has_balance) {
        reader_amounts(statement, 10, &scope->balance);
        scope->balance.purged_tok = reader_amount(statement, 20);
    }
    if (id >= 0 && id < (int64_t)reader->live_count) {
        scope->held = reader->live[id].held;
        scope->lapsed = reader->live[id].lapsed;
    }
}

enum weir_reader_next weir_reader_scopes(struct weir_reader *reader, const char *only_name,
                                         struct weir_reader_cursor *cursor, uint32_t rows_max,
                                         weir_reader_scope_fn *each, void *ctx)
{
    struct page page;
    if ((!cursor->begun || !reader->live) && !count_live(reader))
        return WEIR_READER_FAULT;
    if (!page_begin(&page, reader,
                    "SELECT s.id, s.name, s.parent, p.name, s.unlimited, s.lapse_refunds, "
                    "s.configured, s.granted, s.window, s.seen, "
                    "b.granted, b.reserved, b.committed, b.lapsed, b.overrun, b.cut, b.raised, "
                    "b.lowered, b.unmatched, b.refunded, b.purged "
                    "FROM scope s LEFT JOIN scope p ON p.id = s.parent "
                    "LEFT JOIN balance b ON b.scope = s.id AND b.window = s.window "
                    "WHERE s.id > ?1 AND (?2 IS NULL OR s.name = ?2) ORDER BY s.id LIMIT ?3",
                    rows_max))
        return WEIR_READER_FAULT;
    sqlite3_bind_int64(page.statement, 1, cursor->begun ? cursor->at[0] : INT64_MIN);
    sqlite3_bind_text(page.statement, 2, only_name, -1, SQLITE_STATIC);
    while (page_row(&page)) {
        struct weir_reader_scope scope;
        scope_row(reader, page.statement, &scope);
        cursor->begun = true;
        cursor->at[0] = scope.id;
        each(ctx, &scope);
    }
    return page_end(&page);
}

/* Balances. */

enum weir_reader_next weir_reader_balances(struct weir_reader *reader, const char *scope,
                                           struct weir_reader_cursor *cursor, uint32_t rows_max,
                                           weir_reader_balance_fn *each, void *ctx)
{
    struct page page;
    int64_t first = INT64_MIN, last = INT64_MAX;
    if (scope) {
        enum weir_reader_next found = scope_id(reader, scope, &first);
        if (found != WEIR_READER_MORE)
            return found;
        last = first;
    }
    if (!page_begin(&page, reader,
                    "SELECT b.scope, b.window, s.name, s.window = b.window, "
                    "b.granted, b.reserved, b.committed, b.lapsed, b.overrun, b.cut, b.raised, "
                    "b.lowered, b.unmatched, b.refunded, b.purged "
                    "FROM balance b LEFT JOIN scope s ON s.id = b.scope "
                    "WHERE (b.scope, b.window) > (?, ?) AND b.scope >= ? AND b.scope <= ? "
                    "ORDER BY b.scope, b.window LIMIT ?",
                    rows_max))
        return WEIR_READER_FAULT;
    sqlite3_bind_int64(page.statement, 1, cursor->begun ? cursor->at[0] : INT64_MIN);
    sqlite3_bind_int64(page.statement, 2, cursor->begun ? cursor->at[1] : INT64_MIN);
    sqlite3_bind_int64(page.statement, 3, first);
    sqlite3_bind_int64(page.statement, 4, last);
    while (page_row(&page)) {
        struct weir_reader_balance balance = {
            .scope = column_name(page.statement, 2),
            .is_present = sqlite3_column_int(page.statement, 3) != 0,
        };
        cursor->begun = true;
        cursor->at[0] = balance.balance.scope_id = sqlite3_column_int64(page.statement, 0);
        cursor->at[1] = sqlite3_column_int64(page.statement, 1);
        balance.balance.window = (uint64_t)cursor->at[1];
        reader_amounts(page.statement, 4, &balance.balance);
        balance.balance.purged_tok = reader_amount(page.statement, 14);
        each(ctx, &balance);
    }
    return page_end(&page);
}

/* Holds. */

#define HOLD_COLUMNS "id, key IS NOT NULL, chain, asked, booked, state, created, done"

static void hold_row(struct weir_reader *reader, sqlite3_stmt *statement,
                     struct weir_reader_hold *hold)
{
    int64_t state = sqlite3_column_int64(statement, 5);
    *hold = (struct weir_reader_hold){
        .id = (uint64_t)sqlite3_column_int64(statement, 0),
        .has_key = sqlite3_column_int(statement, 1) != 0,
        .asked_tok = reader_amount(statement, 3),
        .booked_tok = reader_amount(statement, 4),
        .created_s = sqlite3_column_int64(statement, 6),
        .done_s = sqlite3_column_int64(statement, 7),
    };
    if (state > 0 && state < WEIR_HOLD_STATE_COUNT)
        hold->state = (enum weir_hold_state)state;
    const void *data = sqlite3_column_blob(statement, 2);
    hold->depth = weir_chain_read(data, (size_t)sqlite3_column_bytes(statement, 2), hold->chain);
    hold->scope = hold->depth > 0 ? reader_scope_name(reader, hold->chain[0].scope_id) : "?";
}

static bool counts_in(const struct weir_reader_hold *hold, int64_t scope)
{
    for (uint8_t i = 0; i < hold->depth; i++)
        if (hold->chain[i].scope_id == scope)
            return true;
    return false;
}

enum weir_reader_next weir_reader_holds(struct weir_reader *reader,
                                        const struct weir_reader_hold_filter *filter,
                                        struct weir_reader_cursor *cursor, uint32_t rows_max,
                                        weir_reader_hold_fn *each, void *ctx)
{
    struct page page;
    int64_t scope;
    enum weir_reader_next found = scope_id(reader, filter->scope, &scope);
    if (found != WEIR_READER_MORE)
        return found;
    const char *sql = "SELECT " HOLD_COLUMNS " FROM hold WHERE id > ? ORDER BY id LIMIT ?";
    if (filter->state == WEIR_HOLD_HELD)
        sql = "SELECT " HOLD_COLUMNS " FROM hold" HELD_AFTER;
    else if (filter->state == WEIR_HOLD_LAPSED)
        sql = "SELECT " HOLD_COLUMNS " FROM hold" LAPSED_AFTER;
    if (!page_begin(&page, reader, sql, rows_max))
        return WEIR_READER_FAULT;
    sqlite3_bind_int64(page.statement, 1, cursor->begun ? cursor->at[0] : INT64_MIN);
    while (page_row(&page)) {
        struct weir_reader_hold hold;
        hold_row(reader, page.statement, &hold);
        cursor->begun = true;
        cursor->at[0] = (int64_t)hold.id;
        if ((filter->state == WEIR_HOLD_NONE || hold.state == filter->state) &&
            (!filter->scope || counts_in(&hold, scope)))
            each(ctx, &hold);
    }
    return page_end(&page);
}

enum weir_reader_next weir_reader_hold(struct weir_reader *reader, uint64_t id,
                                       weir_reader_hold_fn *each, void *ctx)
{
    struct page page;
    bool found = false;
    if (!page_begin(&page, reader, "SELECT " HOLD_COLUMNS " FROM hold WHERE id = ? LIMIT ?", 1))
        return WEIR_READER_FAULT;
    sqlite3_bind_int64(page.statement, 1, (int64_t)id);
    while (page_row(&page)) {
        struct weir_reader_hold hold;
        hold_row(reader, page.statement, &hold);
        found = true;
        each(ctx, &hold);
    }
    enum weir_reader_next next = page_end(&page);
    return next == WEIR_READER_END && found ? WEIR_READER_MORE : next;
}

/* Usage. */

static void usage_row(sqlite3_stmt *statement, struct weir_reader_usage *usage)
{
    *usage = (struct weir_reader_usage){
        .utc_hour = sqlite3_column_int64(statement, 0),
        .scope = column_name(statement, 4),
        .upstream = column_name(statement, 5),
        .model = column_name(statement, 6),
        .requests = reader_amount(statement, 7),
        .input_tok = reader_amount(statement, 8),
        .cached_tok = reader_amount(statement, 9),
        .cache_write_tok = reader_amount(statement, 10),
        .output_tok = reader_amount(statement, 11),
        .estimated_tok = reader_amount(statement, 12),
        .late_tok = reader_amount(statement, 13),
        .unmatched_tok = reader_amount(statement, 14),
    };
}

enum weir_reader_next weir_reader_usage(struct weir_reader *reader,
                                        const struct weir_reader_usage_filter *filter,
                                        struct weir_reader_cursor *cursor, uint32_t rows_max,
                                        weir_reader_usage_fn *each, void *ctx)
{
    struct page page;
    int64_t scope;
    enum weir_reader_next found = scope_id(reader, filter->scope, &scope);
    if (found != WEIR_READER_MORE)
        return found;
    if (!page_begin(&page, reader,
                    "SELECT u.utc_hour, u.scope, u.upstream, u.model, s.name, "
                    "iif(u.upstream = 0, 'other', up.text), iif(u.model = 0, 'other', m.text), "
                    "u.requests, u.input, u.cached, u.cache_write, u.output, u.estimated, u.late, "
                    "u.unmatched FROM usage u LEFT JOIN scope s ON s.id = u.scope "
                    "LEFT JOIN label up ON up.id = u.upstream LEFT JOIN label m ON m.id = u.model "
                    "WHERE (u.utc_hour, u.scope, u.upstream, u.model) > (?1, ?2, ?3, ?4) "
                    "AND u.utc_hour >= ?5 AND u.utc_hour < ?6 AND (?7 IS NULL OR u.scope = ?7) "
                    "ORDER BY u.utc_hour, u.scope, u.upstream, u.model LIMIT ?8",
                    rows_max))
        return WEIR_READER_FAULT;
    for (int i = 0; i < 4; i++)
        sqlite3_bind_int64(page.statement, 1 + i, cursor->begun ? cursor->at[i] : INT64_MIN);
    sqlite3_bind_int64(page.statement, 5, filter->from_hour);
    sqlite3_bind_int64(page.statement, 6, filter->to_hour);
    if (filter->scope)
        sqlite3_bind_int64(page.statement, 7, scope);
    while (page_row(&page)) {
        struct weir_reader_usage usage;
        usage_row(page.statement, &usage);
        cursor->begun = true;
        for (int i = 0; i < 4; i++)
            cursor->at[i] = sqlite3_column_int64(page.statement, i);
        each(ctx, &usage);
    }
    return page_end(&page);
}

/* The journal. */

/* Gives the records of the row that the statement stands on. false: it is damaged. */
static bool journal_row(struct weir_reader *reader, sqlite3_stmt *statement, int64_t *records,
                        weir_reader_change_fn *each, void *ctx)
{
    const uint8_t *data = sqlite3_column_blob(statement, 4);
    size_t bytes = (size_t)sqlite3_column_bytes(statement, 4);
    int64_t count = sqlite3_column_int64(statement, 2);
    struct weir_reader_change change = {.seq = sqlite3_column_int64(statement, 0),
                                        .wall_s = sqlite3_column_int64(statement, 1)};
    if (count < 0 || count > UINT32_MAX ||
        weir_journal_crc(change.seq, change.wall_s, (uint32_t)count, data, bytes) !=
            sqlite3_column_int64(statement, 3))
        return false;
    struct weir_journal_reader blob = {.data = data, .bytes = bytes};
    struct weir_journal_record record;
    enum weir_journal_next next;
    while ((next = weir_journal_read(&blob, &record)) == WEIR_JOURNAL_RECORD) {
        change.record = &record;
        change.scope = reader_scope_name(reader, record.chain[0].scope_id);
        each(ctx, &change);
        change.index++;
        ++*records;
    }
    return next == WEIR_JOURNAL_END && change.index == count;
}

enum weir_reader_next weir_reader_journal(struct weir_reader *reader,
                                          struct weir_reader_cursor *cursor, uint32_t rows_max,
                                          weir_reader_change_fn *each, void *ctx)
{
    struct page page;
    if (!page_begin(
            &page, reader,
            "SELECT seq, wall, n, crc, data FROM journal WHERE seq > ? ORDER BY seq LIMIT ?",
            rows_max))
        return WEIR_READER_FAULT;
    sqlite3_bind_int64(page.statement, 1, cursor->begun ? cursor->at[0] : INT64_MIN);
    int64_t records = 0;
    bool damaged = false;
    while (records < rows_of_page(rows_max) && !damaged && page_row(&page)) {
        cursor->begun = true;
        cursor->at[0] = sqlite3_column_int64(page.statement, 0);
        damaged = !journal_row(reader, page.statement, &records, each, ctx);
    }
    enum weir_reader_next next = page_end(&page);
    if (damaged && next != WEIR_READER_FAULT) {
        snprintf(reader->trouble, sizeof reader->trouble,
                 "%.200s: row %lld of the journal is damaged; `weir ledger verify` says more",
                 reader->path, (long long)cursor->at[0]);
        return WEIR_READER_FAULT;
    }
    return next;
}
