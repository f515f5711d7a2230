/* A ledger file read beside its writer and at rest; and what is said of files that are none. */
#include "store/reader.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ledger_file.h"
#include "support/check.h"

#define HOLD(counter) weir_ledger_hold_id(1, counter)

static struct weir_reader *open_right(const char *path)
{
    char error[512] = "";
    struct weir_reader *reader = weir_reader_open(path, error, sizeof error);
    CHECK_MSG(reader != NULL, "%s", error);
    CHECK_STR(weir_reader_trouble(reader), "");
    return reader;
}

/* What came, one word a row. */
struct seen {
    char text[2000];
    size_t rows;
};

__attribute__((format(printf, 2, 3))) static void see(struct seen *seen, const char *format, ...)
{
    size_t at = strlen(seen->text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(seen->text + at, sizeof seen->text - at, format, arguments);
    va_end(arguments);
    seen->rows++;
}

static void see_scope(void *ctx, const struct weir_reader_scope *s)
{
    see(ctx, "%s<%s %lld %lld/%lld %lld;", s->name, s->parent ? s->parent : "-",
        s->unlimited ? -1 : (long long)s->granted_tok, (long long)s->balance.reserved_tok,
        (long long)s->balance.committed_tok, (long long)(s->held * 10 + s->lapsed));
}

static void see_balance(void *ctx, const struct weir_reader_balance *b)
{
    see(ctx, "%s@%llu%s %lld;", b->scope, (unsigned long long)b->balance.window,
        b->is_present ? "*" : "", (long long)b->balance.lapsed_tok);
}

static void see_hold(void *ctx, const struct weir_reader_hold *h)
{
    see(ctx, "%lld %s %s %lld/%lld %d%s;", (long long)(h->id & WEIR_LEDGER_COUNTER_MAX), h->scope,
        weir_hold_state_name(h->state), (long long)h->booked_tok, (long long)h->asked_tok, h->depth,
        h->has_key ? "k" : "");
}

static void see_usage(void *ctx, const struct weir_reader_usage *u)
{
    see(ctx, "%lld %s %s %s %lld+%lld;", (long long)u->utc_hour, u->scope, u->upstream, u->model,
        (long long)u->input_tok, (long long)u->output_tok);
}

static void see_change(void *ctx, const struct weir_reader_change *c)
{
    see(ctx, "%lld.%u %s %s %lld;", (long long)c->seq, c->index, c->scope,
        weir_journal_kind_name(c->record->kind),
        (long long)(c->record->after_tok - c->record->before_tok + c->record->amount_tok));
}

#define SCOPES "org<- -1 10/70 11;team<org 2000 10/70 11;key<team 3000 10/75 11;lone<- 4000 0/0 0;"
#define HOLDS                                                                                      \
    "1 key held 10/10 3;2 key settled 20/30 3k;3 key void 0/60 3;4 key lapsed 40/40 3k;"           \
    "5 key late 55/50 3;"
#define CHANGES                                                                                    \
    "2.0 key reserve 10;2.1 key reserve 30;2.2 key reserve 60;2.3 key reserve 40;2.4 key reserve " \
    "50;3.0 key settle -10;3.1 key void -60;3.2 key lapse 0;3.3 key lapse 0;3.4 key settle 5;3.5 " \
    "team adjust -5;"

static struct seen scopes_of(struct weir_reader *reader, const char *name, uint32_t rows_max)
{
    struct seen seen = {0};
    struct weir_reader_cursor cursor = {0};
    enum weir_reader_next next;
    while ((next = weir_reader_scopes(reader, name, &cursor, rows_max, see_scope, &seen)) ==
           WEIR_READER_MORE)
        CHECK(seen.rows < 100);
    CHECK_INT(next, WEIR_READER_END);
    return seen;
}

static struct seen holds_of(struct weir_reader *reader, const char *scope,
                            enum weir_hold_state state, uint32_t rows_max)
{
    struct seen seen = {0};
    struct weir_reader_cursor cursor = {0};
    struct weir_reader_hold_filter filter = {.scope = scope, .state = state};
    enum weir_reader_next next;
    for (int pages = 0; (next = weir_reader_holds(reader, &filter, &cursor, rows_max, see_hold,
                                                  &seen)) == WEIR_READER_MORE;
         pages++)
        CHECK(pages < 100);
    CHECK_INT(next, WEIR_READER_END);
    return seen;
}

static struct seen changes_of(struct weir_reader *reader, int64_t after, uint32_t rows_max)
{
    struct seen seen = {0};
    struct weir_reader_cursor cursor = {.begun = true, .at = {after}};
    enum weir_reader_next next;
    for (int pages = 0; (next = weir_reader_journal(reader, &cursor, rows_max, see_change,
                                                    &seen)) == WEIR_READER_MORE;
         pages++)
        CHECK(pages < 100);
    CHECK_INT(next, WEIR_READER_END);
    return seen;
}

/* Every query, in pages of one row and in one page, beside the writer's connection and after it. */
static void reader__each_query__gives_the_same_in_pages_of_any_size(void **state)
{
    (void)state;
    struct ledger_file *f = ledger_file_new();
    ledger_file_fill(f);
    ledger_file_sql(f, "INSERT INTO balance VALUES(3, 99, 5, 0,0,7,0,0,0,0,0,0,0)");
    for (int round = 0; round < 2; round++) {
        struct weir_reader *reader = open_right(f->path);
        static const uint32_t sizes[] = {1, 2, 3, 0, UINT32_MAX};
        for (size_t i = 0; i < WEIR_COUNT(sizes); i++) {
            CHECK_STR(scopes_of(reader, NULL, sizes[i]).text, SCOPES);
            CHECK_STR(scopes_of(reader, "team", sizes[i]).text, "team<org 2000 10/70 11;");
            CHECK_STR(scopes_of(reader, "nobody", sizes[i]).text, "");
            CHECK_STR(holds_of(reader, NULL, WEIR_HOLD_NONE, sizes[i]).text, HOLDS);
            CHECK_STR(holds_of(reader, "org", WEIR_HOLD_NONE, sizes[i]).text, HOLDS);
            CHECK_STR(holds_of(reader, "lone", WEIR_HOLD_NONE, sizes[i]).text, "");
            CHECK_STR(holds_of(reader, "nobody", WEIR_HOLD_NONE, sizes[i]).text, "");
            CHECK_STR(holds_of(reader, "key", WEIR_HOLD_LAPSED, sizes[i]).text,
                      "4 key lapsed 40/40 3k;");
            CHECK_STR(holds_of(reader, NULL, WEIR_HOLD_VOID, sizes[i]).text, "3 key void 0/60 3;");
            CHECK_STR(changes_of(reader, 1, sizes[i]).text, CHANGES);
            CHECK_STR(changes_of(reader, 3, sizes[i]).text, "");
            struct seen seen = {0};
            struct weir_reader_cursor cursor = {0};
            while (weir_reader_balances(reader, "key", &cursor, sizes[i], see_balance, &seen) ==
                   WEIR_READER_MORE)
                CHECK(seen.rows < 10);
            CHECK_STR(seen.text, "key@99 7;key@100* 40;");
            seen = (struct seen){0};
            cursor = (struct weir_reader_cursor){0};
            struct weir_reader_usage_filter filter = {.from_hour = 0, .to_hour = 402};
            while (weir_reader_usage(reader, &filter, &cursor, sizes[i], see_usage, &seen) ==
                   WEIR_READER_MORE)
                CHECK(seen.rows < 10);
            CHECK_STR(seen.text, "400 key openai gpt-5 12+8;401 key openai other 50+5;"
                                 "401 ? ? ? 1+1;");
        }
        weir_reader_close(reader);
        if (round == 0)
            ledger_file_close(f);
    }
    ledger_file_free(f);
}

static void reader__usage__keeps_to_its_hours_and_scope(void **state)
{
    (void)state;
    static const struct {
        const char *scope;
        int64_t from, to;
        size_t rows;
    } rows[] = {{NULL, 400, 401, 1},
                {NULL, 401, 402, 2},
                {"key", 401, 402, 1},
                {"key", 0, 400, 0},
                {"nobody", 0, 1000, 0},
                {NULL, 402, 400, 0},
                {NULL, INT64_MIN, INT64_MAX, 3}};
    struct ledger_file *f = ledger_file_new();
    ledger_file_fill(f);
    struct weir_reader *reader = open_right(f->path);
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct seen seen = {0};
        struct weir_reader_cursor cursor = {0};
        struct weir_reader_usage_filter filter = {rows[i].scope, rows[i].from, rows[i].to};
        CHECK_INT(weir_reader_usage(reader, &filter, &cursor, 0, see_usage, &seen),
                  WEIR_READER_END);
        CHECK_MSG(seen.rows == rows[i].rows, "row %zu: %zu", i, seen.rows);
    }
    weir_reader_close(reader);
    ledger_file_free(f);
}

static void reader__one_hold__is_found_by_its_id(void **state)
{
    (void)state;
    struct ledger_file *f = ledger_file_new();
    ledger_file_fill(f);
    struct weir_reader *reader = open_right(f->path);
    struct seen seen = {0};
    CHECK_INT(weir_reader_hold(reader, HOLD(4), see_hold, &seen), WEIR_READER_MORE);
    CHECK_STR(seen.text, "4 key lapsed 40/40 3k;");
    CHECK_INT(weir_reader_hold(reader, HOLD(6), see_hold, &seen), WEIR_READER_END);
    CHECK_INT(weir_reader_hold(reader, UINT64_MAX, see_hold, &seen), WEIR_READER_END);
    CHECK_INT(seen.rows, 1);
    weir_reader_close(reader);
    ledger_file_free(f);
}

static void reader__facts__tell_the_file(void **state)
{
    (void)state;
    struct ledger_file *f = ledger_file_new();
    ledger_file_fill(f);
    struct weir_reader *reader = open_right(f->path);
    struct weir_reader_facts facts;
    CHECK(weir_reader_facts(reader, &facts));
    CHECK_INT(facts.version, 1);
    CHECK_INT(facts.epoch, 1);
    CHECK_INT(facts.created_s, 1000);
    CHECK_INT(facts.wall_s, 1700); /* of the last journal row; the run began at 1200 */
    CHECK_INT(facts.base_seq, 0);
    CHECK_INT(facts.first_seq, 1);
    CHECK_INT(facts.last_seq, 3);
    CHECK_INT(facts.scopes, 4);
    CHECK_INT(facts.balances, 4);
    for (int i = WEIR_HOLD_HELD; i < WEIR_HOLD_STATE_COUNT; i++)
        CHECK_INT(facts.holds[i], 1);
    CHECK(facts.wal_bytes > 0); /* the writer is still there */
    weir_reader_close(reader);
    ledger_file_free(f);
}

/* A page ends its transaction: the writer empties its log between two of them, and what it writes
 * meanwhile is seen by the next. */
static void reader__between_pages__the_log_can_be_emptied(void **state)
{
    (void)state;
    struct ledger_file *f = ledger_file_new();
    ledger_file_fill(f);
    struct weir_reader *reader = open_right(f->path);
    struct weir_reader_cursor cursors[3] = {{0}};
    struct weir_reader_hold_filter filter = {0};
    struct seen seen = {0}, other = {0};
    CHECK_INT(weir_reader_holds(reader, &filter, &cursors[0], 2, see_hold, &seen),
              WEIR_READER_MORE);
    CHECK_INT(weir_reader_scopes(reader, NULL, &cursors[1], 1, see_scope, &other),
              WEIR_READER_MORE);
    CHECK_INT(weir_reader_journal(reader, &cursors[2], 1, see_change, &other), WEIR_READER_MORE);
    struct weir_reader_facts facts;
    CHECK(weir_reader_facts(reader, &facts));
    int log_frames = -1, done_frames = -1;
    CHECK_INT(sqlite3_wal_checkpoint_v2(f->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, &log_frames,
                                        &done_frames),
              SQLITE_OK);
    ledger_file_hold(f, 6, WEIR_HOLD_HELD, 1, 1);
    while (weir_reader_holds(reader, &filter, &cursors[0], 2, see_hold, &seen) == WEIR_READER_MORE)
        CHECK(seen.rows < 10);
    CHECK_STR(seen.text, HOLDS "6 key held 1/1 3k;");
    weir_reader_close(reader);
    ledger_file_free(f);
}

/* Damage inside rows is told, and hides no other row. */
static void reader__damaged_rows__are_given_as_such(void **state)
{
    (void)state;
    struct ledger_file *f = ledger_file_new();
    ledger_file_fill(f);
    ledger_file_sql(f, "UPDATE hold SET chain = x'8080' WHERE id = %lld", (long long)HOLD(1));
    ledger_file_sql(f, "UPDATE hold SET state = 77 WHERE id = %lld", (long long)HOLD(2));
    ledger_file_sql(f, "DELETE FROM scope WHERE id = 3");
    ledger_file_sql(f, "UPDATE journal SET data = x'00' WHERE seq = 2");
    struct weir_reader *reader = open_right(f->path);
    CHECK_STR(holds_of(reader, NULL, WEIR_HOLD_NONE, 2).text,
              "1 ? held 10/10 0;2 ? none 20/30 3k;3 ? void 0/60 3;4 ? lapsed 40/40 3k;"
              "5 ? late 55/50 3;");
    struct seen seen = {0};
    struct weir_reader_cursor cursor = {.begun = true, .at = {1}};
    CHECK_INT(weir_reader_journal(reader, &cursor, 0, see_change, &seen), WEIR_READER_FAULT);
    CHECK(strstr(weir_reader_trouble(reader), "row 2 of the journal is damaged") != NULL);
    CHECK_INT(seen.rows, 0);
    CHECK_INT(weir_reader_journal(reader, &cursor, 0, see_change, &seen), WEIR_READER_END);
    CHECK_INT(seen.rows, 6);
    weir_reader_close(reader);
    ledger_file_free(f);
}

/* Files that are no ledgers. */

static void expect_refused(const char *path, const char *words)
{
    char error[512] = "";
    struct weir_reader *reader = weir_reader_open(path, error, sizeof error);
    CHECK_MSG(reader == NULL, "%s", path);
    CHECK_MSG(strstr(error, words) != NULL, "\"%s\" lacks \"%s\"", error, words);
    CHECK_MSG(strstr(error, path) != NULL, "\"%s\" lacks the path", error);
}

static void write_file(const char *path, const void *data, size_t bytes)
{
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    CHECK_INT(fwrite(data, 1, bytes, file), bytes);
    CHECK_INT(fclose(file), 0);
}

static void reader__no_ledger__is_refused_with_what_to_do(void **state)
{
    (void)state;
    struct ledger_file *f = ledger_file_new();
    ledger_file_close(f);
    expect_refused("/tmp/weir-is-not-there/ledger.db", "no such file");
    expect_refused("/dev/null/ledger.db", "no such file");
    expect_refused("/dev/null", "not a file");
    expect_refused(f->folder, "ledger.db in it");
    char path[sizeof f->path + 8];
    snprintf(path, sizeof path, "%s-copy", f->path);
    write_file(path, "", 0);
    expect_refused(path, "is empty");
    char text[8192];
    memset(text, 'x', sizeof text);
    write_file(path, text, sizeof text);
    expect_refused(path, "not a ledger file");
    write_file(path, "SQLite format 3", 16);
    expect_refused(path, "not a ledger file");
    CHECK(unlink(path) == 0);
    sqlite3 *db;
    CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
    CHECK_INT(sqlite3_exec(db, "CREATE TABLE meta(k, v)", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    expect_refused(path, "another program");
    ledger_file_free(f);
}

static void reader__other_form__says_which_weir_to_use(void **state)
{
    (void)state;
    struct ledger_file *f = ledger_file_new();
    ledger_file_sql(f, "PRAGMA user_version = 2");
    expect_refused(f->path, "form 2, this weir reads form 1; use the newer weir");
    ledger_file_sql(f, "PRAGMA user_version = 0");
    expect_refused(f->path, "`weir serve` brings it up to date");
    ledger_file_free(f);
}

static void reader__tables_missing__is_a_fault_with_their_name(void **state)
{
    (void)state;
    struct ledger_file *f = ledger_file_new();
    ledger_file_sql(f, "DROP TABLE journal");
    struct weir_reader *reader = open_right(f->path);
    struct seen seen = {0};
    struct weir_reader_cursor cursor = {0};
    CHECK_INT(weir_reader_journal(reader, &cursor, 0, see_change, &seen), WEIR_READER_FAULT);
    CHECK(strstr(weir_reader_trouble(reader), "no such table: journal") != NULL);
    struct weir_reader_facts facts;
    CHECK(!weir_reader_facts(reader, &facts));
    CHECK_STR(holds_of(reader, NULL, WEIR_HOLD_NONE, 0).text, "");
    weir_reader_close(reader);
    ledger_file_free(f);
}

/* As a user who may not: in a child of its own, since the tests may run as root. */
static void reader__not_permitted__says_so(void **state)
{
    (void)state;
    static const struct {
        mode_t file, folder;
        const char *words; /* NULL: it can be read */
    } rows[] = {{0600, 0755, "open to this user"},
                {0644, 0700, "Permission denied"},
                {0644, 0755, "open to this user"}, /* no log is there, and none can be made */
                {0666, 0777, NULL}};
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct ledger_file *f = ledger_file_new();
        ledger_file_close(f);
        CHECK(chmod(f->path, rows[i].file) == 0 && chmod(f->folder, rows[i].folder) == 0);
        pid_t child = fork();
        if (child == 0) {
            char error[512] = "";
            bool root = geteuid() == 0;
            if (root && (setegid(65534) != 0 || seteuid(65534) != 0))
                _exit(3);
            struct weir_reader *reader = weir_reader_open(f->path, error, sizeof error);
            bool right =
                !root || (rows[i].words ? !reader && strstr(error, rows[i].words) : reader != NULL);
            if (!right)
                fprintf(stderr, "row %zu: %s\n", i, error);
            weir_reader_close(reader);
            _exit(right ? 0 : 1);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK_MSG(status == 0, "row %zu: %d", i, status);
        chmod(f->folder, 0700);
        ledger_file_free(f);
    }
}

static void reader__locked_by_another__is_told_after_a_while(void **state)
{
    (void)state;
    struct ledger_file *f = ledger_file_new();
    ledger_file_sql(f, "PRAGMA journal_mode = DELETE");
    ledger_file_sql(f, "BEGIN EXCLUSIVE");
    expect_refused(f->path, "another program has locked it");
    ledger_file_sql(f, "COMMIT");
    weir_reader_close(open_right(f->path));
    ledger_file_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reader__each_query__gives_the_same_in_pages_of_any_size),
        cmocka_unit_test(reader__usage__keeps_to_its_hours_and_scope),
        cmocka_unit_test(reader__one_hold__is_found_by_its_id),
        cmocka_unit_test(reader__facts__tell_the_file),
        cmocka_unit_test(reader__between_pages__the_log_can_be_emptied),
        cmocka_unit_test(reader__damaged_rows__are_given_as_such),
        cmocka_unit_test(reader__no_ledger__is_refused_with_what_to_do),
        cmocka_unit_test(reader__other_form__says_which_weir_to_use),
        cmocka_unit_test(reader__tables_missing__is_a_fault_with_their_name),
        cmocka_unit_test(reader__not_permitted__says_so),
        cmocka_unit_test(reader__locked_by_another__is_told_after_a_while),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
