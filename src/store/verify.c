#include "store/verify.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/hold_map.h"
#include "store/reader_inside.h"

struct verify {
    struct weir_reader *reader;
    struct weir_verify_report *report;
    struct weir_replay *replayed; /* base with the journal */
    struct weir_replay *summed;   /* reserved, lapsed, committed: the sums over the rows of holds */
    struct weir_replay *rows;     /* the table of balances */
    struct hold_map *journalled;  /* what the journal last said of each hold */
};

/* Findings. */

__attribute__((format(printf, 2, 3))) static void find(struct verify *v, const char *format, ...)
{
    struct weir_verify_report *report = v->report;
    report->wrong++;
    if (report->findings_count == WEIR_VERIFY_FINDINGS_MAX)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(report->findings[report->findings_count++], WEIR_VERIFY_TEXT_BYTES, format,
              arguments);
    va_end(arguments);
}

/* "scope NAME, window N": the beginning of a finding. */
struct place {
    char text[200];
};

static struct place place_of(struct verify *v, int64_t scope_id, uint64_t window)
{
    struct place place;
    snprintf(place.text, sizeof place.text, "scope %.140s (id %lld), window %llu",
             reader_scope_name(v->reader, scope_id), (long long)scope_id,
             (unsigned long long)window);
    return place;
}

static bool no_memory(struct verify *v)
{
    return reader_fault(v->reader, SQLITE_NOMEM);
}

/* SQLite's own pages. */

static bool check_pages(struct verify *v)
{
    sqlite3_stmt *statement = reader_prepare(v->reader, "PRAGMA quick_check(10)");
    if (!statement)
        return false;
    int code;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(statement, 0);
        if (text && strcmp(text, "ok") != 0)
            find(v, "the file is damaged: %.300s", text);
    }
    return reader_finish(v->reader, statement, code);
}

/* Balances, from either table. */

static bool load_balances(struct verify *v, const char *table, const char *sql,
                          struct weir_replay *into)
{
    sqlite3_stmt *statement = reader_prepare(v->reader, sql);
    if (!statement)
        return false;
    int code;
    bool fine = true;
    while (fine && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        struct weir_balance_row row = {.scope_id = sqlite3_column_int64(statement, 0),
                                       .window = (uint64_t)sqlite3_column_int64(statement, 1)};
        reader_amounts(statement, 2, &row);
        row.purged_tok = sqlite3_column_int64(statement, 12);
        const char *wrong = weir_balance_row_wrong(&row);
        if (wrong) {
            find(v, "%s: in table %s %s", place_of(v, row.scope_id, row.window).text, table, wrong);
            continue;
        }
        if (weir_replay_find(into, row.scope_id, row.window))
            find(v, "%s: twice in table %s", place_of(v, row.scope_id, row.window).text, table);
        else
            fine = weir_replay_add(into, &row) || no_memory(v);
    }
    return reader_finish(v->reader, statement, fine ? code : SQLITE_DONE) && fine;
}

/* The journal. */

static bool is_finished(enum weir_hold_state state)
{
    return state == WEIR_HOLD_SETTLED || state == WEIR_HOLD_VOID || state == WEIR_HOLD_LATE;
}

/* Does a record go on from what the journal said of its hold before? */
static bool follow_hold(struct verify *v, int64_t seq, const struct weir_journal_record *record)
{
    if (record->kind > WEIR_JOURNAL_LAPSE ||
        (record->kind == WEIR_JOURNAL_SETTLE && record->state_after == WEIR_HOLD_NONE))
        return true; /* of no hold, or of one that is not remembered */
    struct hold_said *said = hold_map_put(v->journalled, record->hold);
    if (!said)
        return no_memory(v);
    /* A finished hold may have been purged, so that a settle found none. */
    bool anew = record->kind == WEIR_JOURNAL_SETTLE && record->state_before == WEIR_HOLD_NONE &&
                is_finished(said->state);
    if (said->state != WEIR_HOLD_NONE && !anew &&
        (said->state != record->state_before || said->booked_tok != record->before_tok))
        find(v,
             "hold %llu: row %lld of the journal says it was %s and counted %lld before a %s, but "
             "it had left it %s with %lld",
             (unsigned long long)record->hold, (long long)seq,
             weir_hold_state_name(record->state_before), (long long)record->before_tok,
             weir_journal_kind_name(record->kind), weir_hold_state_name(said->state),
             (long long)said->booked_tok);
    said->state = record->state_after;
    said->booked_tok = record->after_tok;
    return true;
}

static bool replay_blob(struct verify *v, int64_t seq, int64_t count, const uint8_t *data,
                        size_t bytes)
{
    struct weir_journal_reader blob = {.data = data, .bytes = bytes};
    struct weir_journal_record record;
    enum weir_journal_next next;
    int64_t records = 0;
    while ((next = weir_journal_read(&blob, &record)) == WEIR_JOURNAL_RECORD) {
        uint8_t link;
        const char *wrong = weir_replay_apply(v->replayed, &record, &link);
        if (wrong)
            find(v, "%s: record %lld in row %lld of the journal, a %s, cannot be: %s",
                 place_of(v, record.chain[link].scope_id, record.chain[link].window).text,
                 (long long)records, (long long)seq, weir_journal_kind_name(record.kind), wrong);
        if (!follow_hold(v, seq, &record))
            return false;
        records++;
    }
    v->report->records += records;
    if (next == WEIR_JOURNAL_MALFORMED)
        find(v,
             "row %lld of the journal: its check is right, but no weir wrote its bytes from %zu "
             "on",
             (long long)seq, blob.at);
    else if (records != count)
        find(v, "row %lld of the journal: has %lld records, should have %lld", (long long)seq,
             (long long)records, (long long)count);
    return true;
}

static bool check_journal(struct verify *v)
{
    struct weir_verify_report *report = v->report;
    sqlite3_stmt *statement =
        reader_prepare(v->reader, "SELECT seq, wall, n, crc, data, "
                                  "(SELECT v FROM meta WHERE k = 'base_seq') FROM journal "
                                  "ORDER BY seq");
    if (!statement)
        return false;
    int code;
    bool fine = true;
    while (fine && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        int64_t seq = sqlite3_column_int64(statement, 0);
        int64_t count = sqlite3_column_int64(statement, 2);
        if (report->journal_rows++ == 0) {
            report->first_seq = seq;
            report->last_seq = sqlite3_column_int64(statement, 5);
        }
        if (report->last_seq == INT64_MAX || seq != report->last_seq + 1)
            find(v, "the journal: row %lld follows row %lld; what is between them is missing",
                 (long long)seq, (long long)report->last_seq);
        report->last_seq = seq;
        const uint8_t *data = sqlite3_column_blob(statement, 4);
        size_t bytes = (size_t)sqlite3_column_bytes(statement, 4);
        if (weir_journal_crc(seq, sqlite3_column_int64(statement, 1), (uint32_t)count, data,
                             bytes) != sqlite3_column_int64(statement, 3))
            find(v, "row %lld of the journal: its bytes are not those that were written",
                 (long long)seq);
        else
            fine = replay_blob(v, seq, count, data, bytes);
    }
    return reader_finish(v->reader, statement, fine ? code : SQLITE_DONE) && fine;
}

/* Holds. */

/* Adds what a hold counts to the sums of its chain. */
static bool sum_hold(struct verify *v, enum weir_hold_state state, int64_t booked_tok,
                     const struct weir_journal_link *chain, uint8_t depth)
{
    for (uint8_t i = 0; i < depth; i++) {
        struct weir_balance_row *sum =
            weir_replay_find(v->summed, chain[i].scope_id, chain[i].window);
        if (!sum) {
            struct weir_balance_row row = {.scope_id = chain[i].scope_id,
                                           .window = chain[i].window};
            if (!weir_replay_add(v->summed, &row))
                return no_memory(v);
            sum = weir_replay_find(v->summed, chain[i].scope_id, chain[i].window);
        }
        int64_t *part = state == WEIR_HOLD_HELD     ? &sum->reserved_tok
                        : state == WEIR_HOLD_LAPSED ? &sum->lapsed_tok
                                                    : &sum->committed_tok;
        if (*part < INT64_MAX / 2) /* amounts are in range, so only a sum of nonsense gets here */
            *part += booked_tok;
    }
    return true;
}

static void compare_hold(struct verify *v, uint64_t id, enum weir_hold_state state,
                         int64_t booked_tok)
{
    struct hold_said *said = hold_map_find(v->journalled, id);
    if (!said)
        return; /* it was folded */
    if (said->state != state || said->booked_tok != booked_tok)
        find(v, "hold %llu: its row says %s with %lld tokens, the journal %s with %lld",
             (unsigned long long)id, weir_hold_state_name(state), (long long)booked_tok,
             weir_hold_state_name(said->state), (long long)said->booked_tok);
    said->has_row = true;
}

static bool check_hold(struct verify *v, sqlite3_stmt *statement)
{
    struct weir_journal_link chain[WEIR_LEDGER_DEPTH_MAX];
    uint64_t id = (uint64_t)sqlite3_column_int64(statement, 0);
    int64_t state = sqlite3_column_int64(statement, 1);
    int64_t booked_tok = sqlite3_column_int64(statement, 2);
    const void *data = sqlite3_column_blob(statement, 3);
    uint8_t depth = weir_chain_read(data, (size_t)sqlite3_column_bytes(statement, 3), chain);
    const char *wrong = NULL;
    if (depth == 0)
        wrong = "its chain of scopes is damaged";
    else if (state <= WEIR_HOLD_NONE || state >= WEIR_HOLD_STATE_COUNT)
        wrong = "it has no state";
    else if (booked_tok < 0 || booked_tok > WEIR_TOK_MAX ||
             (state == WEIR_HOLD_VOID && booked_tok != 0))
        wrong = "it counts an amount that it cannot";
    else if (state == WEIR_HOLD_HELD && weir_ledger_hold_epoch(id) > v->report->epoch)
        wrong = "it is held by a run that has not been yet";
    else if (state == WEIR_HOLD_HELD && sqlite3_column_int(statement, 4))
        wrong = "it is held, but the file says that none is so low";
    if (wrong) {
        find(v, "hold %llu: %s", (unsigned long long)id, wrong);
        if (depth == 0 || booked_tok < 0 || booked_tok > WEIR_TOK_MAX)
            return true;
    }
    if (state > WEIR_HOLD_NONE && state < WEIR_HOLD_STATE_COUNT)
        v->report->holds[state]++;
    compare_hold(v, id, (enum weir_hold_state)state, booked_tok);
    return sum_hold(v, (enum weir_hold_state)state, booked_tok, chain, depth);
}

static bool check_holds(struct verify *v)
{
    sqlite3_stmt *statement =
        reader_prepare(v->reader, "SELECT id, state, booked, chain, "
                                  "id < (SELECT v FROM meta WHERE k = 'low') FROM hold "
                                  "ORDER BY id");
    if (!statement)
        return false;
    int code;
    bool fine = true;
    while (fine && (code = sqlite3_step(statement)) == SQLITE_ROW)
        fine = check_hold(v, statement);
    if (!reader_finish(v->reader, statement, fine ? code : SQLITE_DONE) || !fine)
        return false;
    size_t cursor = 0;
    const struct hold_said *said;
    while ((said = hold_map_next(v->journalled, &cursor)))
        if (!said->has_row && !is_finished(said->state))
            find(v, "hold %llu: the journal left it %s with %lld tokens, but it has no row",
                 (unsigned long long)said->id, weir_hold_state_name(said->state),
                 (long long)said->booked_tok);
    return true;
}

/* Comparing balances. */

static void compare_replayed(struct verify *v, const struct weir_balance_row *row,
                             const struct weir_balance_row *replayed)
{
    const struct {
        const char *name;
        int64_t has, should;
    } amounts[] = {
        {"granted", row->granted_tok, replayed->granted_tok},
        {"reserved", row->reserved_tok, replayed->reserved_tok},
        {"committed", row->committed_tok, replayed->committed_tok},
        {"lapsed", row->lapsed_tok, replayed->lapsed_tok},
        {"overrun", row->overrun_tok, replayed->overrun_tok},
        {"cut", row->cut_tok, replayed->cut_tok},
        {"raised", row->raised_tok, replayed->raised_tok},
        {"lowered", row->lowered_tok, replayed->lowered_tok},
        {"unmatched", row->unmatched_tok, replayed->unmatched_tok},
        {"refunded", row->refunded_tok, replayed->refunded_tok},
    };
    for (size_t i = 0; i < WEIR_COUNT(amounts); i++)
        if (amounts[i].has != amounts[i].should)
            find(v, "%s: %s is %lld, the journal makes it %lld",
                 place_of(v, row->scope_id, row->window).text, amounts[i].name,
                 (long long)amounts[i].has, (long long)amounts[i].should);
}

static void compare_summed(struct verify *v, const struct weir_balance_row *row)
{
    static const struct weir_balance_row nothing;
    const struct weir_balance_row *sum = weir_replay_find(v->summed, row->scope_id, row->window);
    if (!sum)
        sum = &nothing;
    int64_t committed = sum->committed_tok + row->purged_tok + row->raised_tok - row->lowered_tok;
    const struct {
        const char *name;
        int64_t has, should;
    } amounts[] = {
        {"reserved", row->reserved_tok, sum->reserved_tok},
        {"lapsed", row->lapsed_tok, sum->lapsed_tok},
        {"committed", row->committed_tok, committed},
    };
    for (size_t i = 0; i < WEIR_COUNT(amounts); i++)
        if (amounts[i].has != amounts[i].should)
            find(v, "%s: %s is %lld, its holds make it %lld",
                 place_of(v, row->scope_id, row->window).text, amounts[i].name,
                 (long long)amounts[i].has, (long long)amounts[i].should);
}

static void compare_balances(struct verify *v)
{
    v->report->balances = (int64_t)weir_replay_count(v->rows);
    for (size_t i = 0; i < weir_replay_count(v->rows); i++) {
        const struct weir_balance_row *row = weir_replay_at(v->rows, i);
        const struct weir_balance_row *replayed =
            weir_replay_find(v->replayed, row->scope_id, row->window);
        int64_t used = row->reserved_tok + row->committed_tok + row->lapsed_tok;
        if (used - row->granted_tok > row->overrun_tok + row->cut_tok + row->raised_tok)
            find(v, "%s: %lld used, %lld granted, and overrun, cut and raised explain only %lld",
                 place_of(v, row->scope_id, row->window).text, (long long)used,
                 (long long)row->granted_tok,
                 (long long)(row->overrun_tok + row->cut_tok + row->raised_tok));
        if (replayed)
            compare_replayed(v, row, replayed);
        else
            find(v, "%s: has a balance that the journal never began",
                 place_of(v, row->scope_id, row->window).text);
        compare_summed(v, row);
    }
    struct weir_replay *const others[] = {v->replayed, v->summed};
    const char *const says[] = {"the journal has a balance that is not in the table",
                                "holds count in a balance that is not in the table"};
    for (size_t k = 0; k < WEIR_COUNT(others); k++)
        for (size_t i = 0; i < weir_replay_count(others[k]); i++) {
            const struct weir_balance_row *row = weir_replay_at(others[k], i);
            bool counts = others[k] == v->replayed || row->reserved_tok != 0 ||
                          row->lapsed_tok != 0 || row->committed_tok != 0;
            if (counts && !weir_replay_find(v->rows, row->scope_id, row->window))
                find(v, "%s: %s", place_of(v, row->scope_id, row->window).text, says[k]);
        }
}

/* Scopes. */

#define LEVELS_SQL                                                                                 \
    "WITH RECURSIVE up(id, parent, level) AS (SELECT id, parent, 1 FROM scope UNION ALL "          \
    "SELECT up.id, s.parent, level + 1 FROM up JOIN scope s ON s.id = up.parent WHERE level < 7) " \
    "SELECT id, 'its chain of parents is too long, or a circle' FROM up WHERE level > 6 "          \
    "UNION ALL SELECT s.id, 'its parent has no row' FROM scope s LEFT JOIN scope p "               \
    "ON p.id = s.parent WHERE s.parent IS NOT NULL AND p.id IS NULL "                              \
    "UNION ALL SELECT s.id, 'its present window has no balance, or one with another grant' "       \
    "FROM scope s LEFT JOIN balance b ON b.scope = s.id AND b.window = s.window "                  \
    "WHERE b.granted IS NOT iif(s.unlimited, ?, s.granted)"

static bool check_scopes(struct verify *v)
{
    _Static_assert(WEIR_LEDGER_DEPTH_MAX == 6, "LEVELS_SQL");
    sqlite3_stmt *statement = reader_prepare(v->reader, LEVELS_SQL);
    if (!statement)
        return false;
    sqlite3_bind_int64(statement, 1, WEIR_BALANCE_MAX);
    int code;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        int64_t id = sqlite3_column_int64(statement, 0);
        find(v, "scope %.140s (id %lld): %s", reader_scope_name(v->reader, id), (long long)id,
             (const char *)sqlite3_column_text(statement, 1));
    }
    return reader_finish(v->reader, statement, code);
}

/* All of it. */

static bool verify_file(struct verify *v)
{
    struct weir_reader_facts facts;
    if (!v->replayed || !v->summed || !v->rows || !v->journalled)
        return no_memory(v);
    if (!reader_facts_inside(v->reader, &facts))
        return false;
    v->report->epoch = facts.epoch;
    v->report->scopes = facts.scopes;
    if (!check_pages(v) ||
        !load_balances(v, "base",
                       "SELECT scope, window, granted, reserved, committed, lapsed, overrun, cut, "
                       "raised, lowered, unmatched, refunded, 0 FROM base",
                       v->replayed) ||
        !load_balances(v, "balance",
                       "SELECT scope, window, granted, reserved, committed, lapsed, overrun, cut, "
                       "raised, lowered, unmatched, refunded, purged FROM balance",
                       v->rows) ||
        !check_journal(v) || !check_holds(v) || !check_scopes(v))
        return false;
    compare_balances(v);
    return true;
}

bool weir_verify(const char *path, struct weir_verify_report *report, char *error_text,
                 size_t error_bytes)
{
    *report = (struct weir_verify_report){0};
    struct verify v = {.report = report, .reader = weir_reader_open(path, error_text, error_bytes)};
    if (!v.reader)
        return false;
    v.replayed = weir_replay_new();
    v.summed = weir_replay_new();
    v.rows = weir_replay_new();
    v.journalled = hold_map_new();
    int code = sqlite3_exec(v.reader->db, "BEGIN", NULL, NULL, NULL);
    bool done = code == SQLITE_OK ? verify_file(&v) : reader_fault(v.reader, code);
    if (!done)
        snprintf(error_text, error_bytes, "%s", weir_reader_trouble(v.reader));
    weir_replay_free(v.replayed);
    weir_replay_free(v.summed);
    weir_replay_free(v.rows);
    hold_map_free(v.journalled);
    weir_reader_close(v.reader);
    return done;
}
