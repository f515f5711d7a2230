#include "ledger_file.h"

#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "store/schema.h"
#include "support/check.h"

#define WINDOW 100

static const struct weir_journal_link key_chain[3] = {{3, WINDOW}, {2, WINDOW}, {1, WINDOW}};

void ledger_file_sql(struct ledger_file *f, const char *format, ...)
{
    va_list arguments;
    char *error = NULL;
    va_start(arguments, format);
    char *sql = sqlite3_vmprintf(format, arguments);
    va_end(arguments);
    sqlite3_exec(f->db, sql, NULL, NULL, &error);
    if (error)
        fail_msg("%s: %s", sql, error);
    sqlite3_free(sql);
}

void ledger_file_record(struct ledger_file *f, const struct weir_journal_record *record)
{
    CHECK_MSG(!weir_journal_record_wrong(record), "%s", weir_journal_record_wrong(record));
    CHECK(weir_journal_write(&f->writer, record));
}

void ledger_file_row(struct ledger_file *f, int64_t wall_s)
{
    struct weir_journal_writer *w = &f->writer;
    sqlite3_stmt *statement;
    f->seq++;
    CHECK_INT(sqlite3_prepare_v2(f->db, "INSERT INTO journal VALUES(?, ?, ?, ?, ?)", -1, &statement,
                                 NULL),
              SQLITE_OK);
    sqlite3_bind_int64(statement, 1, f->seq);
    sqlite3_bind_int64(statement, 2, wall_s);
    sqlite3_bind_int64(statement, 3, w->count);
    sqlite3_bind_int64(statement, 4, weir_journal_crc(f->seq, wall_s, w->count, f->blob, w->bytes));
    sqlite3_bind_blob(statement, 5, f->blob, (int)w->bytes, SQLITE_STATIC);
    CHECK_INT(sqlite3_step(statement), SQLITE_DONE);
    sqlite3_finalize(statement);
    *w = (struct weir_journal_writer){.out = f->blob, .room = sizeof f->blob};
}

static void scope(struct ledger_file *f, int64_t id, const char *name, int64_t parent)
{
    bool unlimited = id == 1;
    int64_t granted = unlimited ? WEIR_BALANCE_MAX : 1000 * id;
    ledger_file_sql(f,
                    "INSERT INTO scope VALUES(%lld, '%s', nullif(%lld, 0), %lld, %s, %d, 0, %d, 5)",
                    (long long)id, name, (long long)parent, (long long)granted,
                    id == 4 ? "NULL" : "77", unlimited, WINDOW);
    ledger_file_sql(f, "INSERT INTO balance VALUES(%lld, %d, %lld, 0,0,0,0,0,0,0,0,0,0)",
                    (long long)id, WINDOW, (long long)granted);
    ledger_file_record(f, &(struct weir_journal_record){.kind = WEIR_JOURNAL_SCOPE,
                                                        .amount_tok = granted,
                                                        .is_configured = true,
                                                        .depth = 1,
                                                        .chain = {{id, WINDOW}},
                                                        .text = name,
                                                        .text_bytes = (uint8_t)strlen(name)});
}

struct ledger_file *ledger_file_new(void)
{
    struct ledger_file *f = calloc(1, sizeof *f);
    CHECK(f != NULL);
    strcpy(f->folder, "/tmp/weir-ledger-XXXXXX");
    CHECK(mkdtemp(f->folder) != NULL);
    snprintf(f->path, sizeof f->path, "%s/ledger.db", f->folder);
    f->writer = (struct weir_journal_writer){.out = f->blob, .room = sizeof f->blob};
    CHECK_INT(sqlite3_open(f->path, &f->db), SQLITE_OK);
    ledger_file_sql(f, "PRAGMA journal_mode = WAL");
    ledger_file_sql(f, "PRAGMA synchronous = OFF");
    ledger_file_sql(f, WEIR_SCHEMA_SQL);
    ledger_file_sql(f, "INSERT INTO meta VALUES('epoch', 1), ('created', 1000), ('wall', 1200)");
    scope(f, 1, "org", 0);
    scope(f, 2, "team", 1);
    scope(f, 3, "key", 2);
    scope(f, 4, "lone", 0);
    ledger_file_row(f, 1500);
    return f;
}

void ledger_file_close(struct ledger_file *f)
{
    CHECK_INT(sqlite3_close(f->db), SQLITE_OK);
    f->db = NULL;
}

void ledger_file_free(struct ledger_file *f)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-copy"};
    sqlite3_close(f->db);
    for (size_t i = 0; i < WEIR_COUNT(suffixes); i++) {
        char name[128];
        snprintf(name, sizeof name, "%s%s", f->path, suffixes[i]);
        unlink(name);
    }
    CHECK(rmdir(f->folder) == 0);
    free(f);
}

void ledger_file_hold(struct ledger_file *f, uint64_t counter, enum weir_hold_state state,
                      int64_t asked_tok, int64_t booked_tok)
{
    static const char *const columns[] = {NULL, "reserved", "committed",
                                          NULL, "lapsed",   "committed"};
    uint8_t chain[WEIR_CHAIN_BYTES];
    size_t bytes = weir_chain_write(key_chain, 3, chain);
    sqlite3_stmt *statement;
    CHECK_INT(sqlite3_prepare_v2(f->db, "INSERT INTO hold VALUES(?, ?, ?, ?, ?, ?, 1600, ?)", -1,
                                 &statement, NULL),
              SQLITE_OK);
    sqlite3_bind_int64(statement, 1, (int64_t)weir_ledger_hold_id(1, counter));
    if (counter % 2 == 0)
        sqlite3_bind_blob(statement, 2, "0123456789abcdef0123456789abcdef", 32, SQLITE_STATIC);
    sqlite3_bind_blob(statement, 3, chain, (int)bytes, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 4, asked_tok);
    sqlite3_bind_int64(statement, 5, booked_tok);
    sqlite3_bind_int64(statement, 6, state);
    if (state != WEIR_HOLD_HELD && state != WEIR_HOLD_LAPSED)
        sqlite3_bind_int64(statement, 7, 1700);
    CHECK_INT(sqlite3_step(statement), SQLITE_DONE);
    sqlite3_finalize(statement);
    if (columns[state])
        ledger_file_sql(f,
                        "UPDATE balance SET %s = %s + %lld, overrun = overrun + max(0, %lld) "
                        "WHERE scope IN (1, 2, 3)",
                        columns[state], columns[state], (long long)booked_tok,
                        (long long)(booked_tok - asked_tok));
}

static void hold_moves(struct ledger_file *f, uint64_t counter, enum weir_journal_kind kind,
                       enum weir_hold_state before, enum weir_hold_state after, int64_t before_tok,
                       int64_t after_tok)
{
    struct weir_journal_record record = {.kind = kind,
                                         .state_before = before,
                                         .state_after = after,
                                         .hold = weir_ledger_hold_id(1, counter),
                                         .before_tok = before_tok,
                                         .after_tok = after_tok,
                                         .depth = 3};
    memcpy(record.chain, key_chain, sizeof key_chain);
    ledger_file_record(f, &record);
}

void ledger_file_fill(struct ledger_file *f)
{
    static const int64_t asked[] = {10, 30, 60, 40, 50};
    for (uint64_t counter = 1; counter <= 5; counter++)
        hold_moves(f, counter, WEIR_JOURNAL_RESERVE, WEIR_HOLD_NONE, WEIR_HOLD_HELD, 0,
                   asked[counter - 1]);
    ledger_file_row(f, 1600);
    hold_moves(f, 2, WEIR_JOURNAL_SETTLE, WEIR_HOLD_HELD, WEIR_HOLD_SETTLED, 30, 20);
    hold_moves(f, 3, WEIR_JOURNAL_VOID, WEIR_HOLD_HELD, WEIR_HOLD_VOID, 60, 0);
    hold_moves(f, 4, WEIR_JOURNAL_LAPSE, WEIR_HOLD_HELD, WEIR_HOLD_LAPSED, 40, 40);
    hold_moves(f, 5, WEIR_JOURNAL_LAPSE, WEIR_HOLD_HELD, WEIR_HOLD_LAPSED, 50, 50);
    hold_moves(f, 5, WEIR_JOURNAL_SETTLE, WEIR_HOLD_LAPSED, WEIR_HOLD_LATE, 50, 55);
    struct weir_journal_record adjust = {.kind = WEIR_JOURNAL_ADJUST,
                                         .amount_tok = -5,
                                         .depth = 2,
                                         .chain = {{2, WINDOW}, {1, WINDOW}},
                                         .text = "export of May",
                                         .text_bytes = 13};
    ledger_file_record(f, &adjust);
    ledger_file_row(f, 1700);
    ledger_file_hold(f, 1, WEIR_HOLD_HELD, 10, 10);
    ledger_file_hold(f, 2, WEIR_HOLD_SETTLED, 30, 20);
    ledger_file_hold(f, 3, WEIR_HOLD_VOID, 60, 0);
    ledger_file_hold(f, 4, WEIR_HOLD_LAPSED, 40, 40);
    ledger_file_hold(f, 5, WEIR_HOLD_LATE, 50, 55);
    ledger_file_sql(f, "UPDATE balance SET committed = committed - 5, lowered = 5 "
                       "WHERE scope IN (1, 2)");
    ledger_file_sql(f, "INSERT INTO label VALUES(1, 'openai'), (2, 'gpt-5')");
    ledger_file_sql(f, "INSERT INTO usage VALUES(3, 1, 2, 400, 1, 12, 4, 0, 8, 0, 0, 0),"
                       "(3, 1, 0, 401, 1, 50, 0, 0, 5, 55, 55, 0),(9, 7, 7, 401, 1,1,1,1,1,1,1,1)");
}
