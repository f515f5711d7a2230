/* A right file is found right, and each way of being wrong is found and named. */
#include "store/verify.h"

#include <stdlib.h>
#include <unistd.h>

#include "ledger_file.h"
#include "support/check.h"

#define HOLD(counter) ((1LL << 40) | (counter))

static struct weir_verify_report verify(const char *path)
{
    struct weir_verify_report report;
    char error[512] = "";
    bool done = weir_verify(path, &report, error, sizeof error);
    CHECK_MSG(done, "%s", error);
    return report;
}

static void verify__right_file__is_right_and_counted(void **state)
{
    (void)state;
    struct ledger_file *f = ledger_file_new();
    ledger_file_fill(f);
    for (int round = 0; round < 2; round++) {
        struct weir_verify_report report = verify(f->path);
        CHECK_MSG(report.wrong == 0, "%s", report.findings[0]);
        CHECK_INT(report.findings_count, 0);
        CHECK_INT(report.scopes, 4);
        CHECK_INT(report.balances, 4);
        CHECK_INT(report.journal_rows, 3);
        CHECK_INT(report.records, 15);
        CHECK_INT(report.first_seq, 1);
        CHECK_INT(report.last_seq, 3);
        CHECK_INT(report.epoch, 1);
        for (int i = WEIR_HOLD_HELD; i < WEIR_HOLD_STATE_COUNT; i++)
            CHECK_INT(report.holds[i], 1);
        if (round == 0)
            ledger_file_close(f); /* once beside the writer, once at rest */
    }
    ledger_file_free(f);
}

/* Folding and purging leave a right file: the first row of the journal goes into base, finished
 * holds go and are counted as purged. */
static void verify__folded_and_purged__is_right(void **state)
{
    (void)state;
    struct ledger_file *f = ledger_file_new();
    ledger_file_fill(f);
    ledger_file_sql(f, "INSERT INTO base SELECT scope, window, granted, 0,0,0,0,0,0,0,0,0 FROM "
                       "balance; DELETE FROM journal WHERE seq = 1;"
                       "UPDATE meta SET v = 1 WHERE k = 'base_seq';"
                       "DELETE FROM hold WHERE state IN (2, 3, 5);"
                       "UPDATE balance SET purged = 75 WHERE scope <= 3");
    struct weir_verify_report report = verify(f->path);
    CHECK_MSG(report.wrong == 0, "%s", report.findings[0]);
    CHECK_INT(report.first_seq, 2);
    ledger_file_free(f);
}

/* Each row spoils a right file in one way. */
static void verify__each_spoiled_file__is_found_and_named(void **state)
{
    (void)state;
    static const struct {
        const char *sql;
        const char *words[4]; /* each is in a finding */
        int64_t wrong;
    } rows[] = {
        {"UPDATE balance SET reserved = 11 WHERE scope = 2",
         {"scope team (id 2), window 100: reserved is 11, the journal makes it 10",
          "scope team (id 2), window 100: reserved is 11, its holds make it 10"},
         2},
        {"UPDATE balance SET overrun = 4 WHERE scope = 3",
         {"overrun is 4, the journal makes it 5"},
         1},
        {"UPDATE balance SET purged = 1 WHERE scope = 3",
         {"committed is 75, its holds make it 76"},
         1},
        {"UPDATE balance SET lapsed = -1 WHERE scope = 3",
         {"in table balance an amount is outside", "the journal has a balance that is not in",
          "holds count in a balance"},
         3},
        {"UPDATE balance SET granted = 10 WHERE scope = 3",
         {"scope key (id 3): its present window has no balance, or one with another grant",
          "granted is 10, the journal makes it 3000",
          "125 used, 10 granted, and overrun, cut and raised explain only 5"},
         3},
        {"DELETE FROM balance WHERE scope = 4",
         {"scope lone (id 4), window 100: the journal has a balance that is not in the table",
          "scope lone (id 4): its present window"},
         2},
        {"INSERT INTO balance VALUES(4, 101, 4000, 0,0,0,0,0,0,0,0,0,0)",
         {"scope lone (id 4), window 101: has a balance that the journal never began"},
         1},
        {"INSERT INTO base VALUES(4, 100, 4000, 0,0,0,0,0,0,0,0,9)",
         {"refunded is 0, the journal makes it 9"},
         1},
        {"UPDATE hold SET booked = 21 WHERE id = 1099511627778",
         {"hold 1099511627778: its row says settled with 21 tokens, the journal settled with 20",
          "committed is 75, its holds make it 76"},
         4},
        {"UPDATE hold SET state = 4 WHERE id = 1099511627777",
         {"its row says lapsed with 10 tokens, the journal held with 10",
          "reserved is 10, its holds"},
         7},
        {"DELETE FROM hold WHERE id = 1099511627777",
         {"hold 1099511627777: the journal left it held with 10 tokens, but it has no row"},
         4},
        {"DELETE FROM hold WHERE id = 1099511627779", {NULL}, 0}, /* void: as if purged */
        /* Past balances go before the rows of holds that counted nothing in them; of no others. */
        {"INSERT INTO hold VALUES(1099511627785, NULL, x'040e', 5, 0, 3, 1600, 1700)", {NULL}, 0},
        {"INSERT INTO hold VALUES(1099511627785, NULL, x'040e', 5, 5, 2, 1600, 1700)",
         {"scope lone (id 4), window 7: holds count in a balance that is not in the table"},
         1},
        {"UPDATE hold SET chain = x'01' WHERE id = 1099511627777",
         {"hold 1099511627777: its chain of scopes is damaged", "but it has no row"},
         5},
        {"UPDATE hold SET state = 9 WHERE id = 1099511627779",
         {"it has no state", "the journal void"},
         2},
        {"UPDATE hold SET booked = -1 WHERE id = 1099511627779",
         {"it counts an amount that it cannot"},
         1},
        {"UPDATE hold SET id = 2199023255553 WHERE id = 1099511627777",
         {"hold 2199023255553: it is held by a run that has not been yet",
          "hold 1099511627777: the journal left it held"},
         2},
        {"UPDATE journal SET data = x'00' WHERE seq = 2",
         {"row 2 of the journal: its bytes are not those that were written"},
         -1},
        {"UPDATE journal SET wall = wall + 1 WHERE seq = 3",
         {"row 3 of the journal: its bytes"},
         -1},
        {"UPDATE journal SET crc = crc + 4294967296 WHERE seq = 3",
         {"row 3 of the journal: its bytes"},
         -1},
        {"DELETE FROM journal WHERE seq = 2",
         {"the journal: row 3 follows row 1; what is between them is missing"},
         -1},
        {"UPDATE journal SET seq = -9223372036854775808 WHERE seq = 1",
         {"the journal: row -9223372036854775808 follows row 0"},
         -1},
        {"DELETE FROM journal WHERE seq = 1", {"the journal: row 2 follows row 0"}, -1},
        {"UPDATE meta SET v = 1 WHERE k = 'base_seq'", {"the journal: row 1 follows row 1"}, 1},
        {"UPDATE scope SET parent = 77 WHERE id = 4",
         {"scope lone (id 4): its parent has no row"},
         1},
        {"UPDATE scope SET parent = 3 WHERE id = 1",
         {"scope org (id 1): its chain of parents is too long, or a circle"},
         3},
        {"UPDATE scope SET window = 99 WHERE id = 4", {"scope lone (id 4): its present window"}, 1},
    };
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct ledger_file *f = ledger_file_new();
        ledger_file_fill(f);
        ledger_file_sql(f, "%s", rows[i].sql);
        CHECK(sqlite3_changes(f->db) > 0);
        struct weir_verify_report report = verify(f->path);
        for (size_t k = 0; k < WEIR_COUNT(rows[i].words) && rows[i].words[k]; k++) {
            bool found = false;
            for (uint32_t n = 0; n < report.findings_count; n++)
                found = found || strstr(report.findings[n], rows[i].words[k]);
            CHECK_MSG(found, "%s: no \"%s\" but \"%s\"", rows[i].sql, rows[i].words[k],
                      report.findings[0]);
        }
        CHECK_MSG(rows[i].wrong < 0 ? report.wrong > 0 : report.wrong == rows[i].wrong,
                  "%s: %lld findings; %s", rows[i].sql, (long long)report.wrong,
                  report.findings[0]);
        ledger_file_free(f);
    }
}

static struct weir_journal_record reserve_of(uint64_t counter, int64_t tok)
{
    return (struct weir_journal_record){.kind = WEIR_JOURNAL_RESERVE,
                                        .state_after = WEIR_HOLD_HELD,
                                        .hold = weir_ledger_hold_id(1, counter),
                                        .after_tok = tok,
                                        .depth = 1,
                                        .chain = {{4, 100}}};
}

/* Records with a right check that do not go on from those before. */
static void verify__records_that_contradict_each_other__are_named(void **state)
{
    (void)state;
    struct ledger_file *f = ledger_file_new();
    struct weir_journal_record record = reserve_of(1, 10);
    ledger_file_record(f, &record);
    ledger_file_record(f, &record); /* once more */
    record.chain[0].window = 7;
    record.hold++;
    ledger_file_record(f, &record); /* in a balance that never began */
    ledger_file_row(f, 1600);
    struct weir_verify_report report = verify(f->path);
    CHECK(strstr(report.findings[0],
                 "hold 1099511627777: row 2 of the journal says it was none and counted 0 before a "
                 "reserve, but it had left it held with 10") != NULL);
    CHECK(strstr(report.findings[1],
                 "scope lone (id 4), window 7: record 2 in row 2 of the journal, "
                 "a reserve, cannot be: names a balance that is not there") != NULL);
    /* A purged hold that is settled again is one that no reserve preceded: that is right. */
    ledger_file_free(f);
    f = ledger_file_new();
    for (int i = 0; i < 2; i++) {
        record = (struct weir_journal_record){.kind = WEIR_JOURNAL_SETTLE,
                                              .state_after = i ? WEIR_HOLD_LATE : WEIR_HOLD_NONE,
                                              .hold = 5,
                                              .after_tok = 30,
                                              .depth = 1,
                                              .chain = {{4, 100}}};
        ledger_file_record(f, &record);
    }
    ledger_file_record(f, &record);
    ledger_file_row(f, 1600);
    ledger_file_sql(f, "UPDATE balance SET committed = 90, purged = 90, overrun = 90, "
                       "unmatched = 90 WHERE scope = 4");
    report = verify(f->path);
    CHECK_MSG(report.wrong == 0, "%s", report.findings[0]);
    ledger_file_free(f);
}

static void verify__many_findings__are_counted_and_the_first_are_kept(void **state)
{
    (void)state;
    struct ledger_file *f = ledger_file_new();
    for (uint64_t i = 1; i <= 1000; i++) {
        struct weir_journal_record record = reserve_of(i, 1);
        ledger_file_record(f, &record);
    }
    ledger_file_row(f, 1600);
    ledger_file_sql(f, "UPDATE balance SET reserved = 1000 WHERE scope = 4");
    struct weir_verify_report report = verify(f->path);
    CHECK_INT(report.wrong, 1001);
    CHECK_INT(report.findings_count, WEIR_VERIFY_FINDINGS_MAX);
    ledger_file_free(f);
}

static void verify__cannot_be_done__says_why(void **state)
{
    (void)state;
    struct weir_verify_report report;
    char error[512] = "";
    CHECK(!weir_verify("/tmp/weir-is-not-there", &report, error, sizeof error));
    CHECK(strstr(error, "no such file") != NULL);
    struct ledger_file *f = ledger_file_new();
    ledger_file_sql(f, "DROP TABLE base");
    CHECK(!weir_verify(f->path, &report, error, sizeof error));
    CHECK(strstr(error, "no such table: base") != NULL);
    ledger_file_free(f);
}

/* Pages of a copy overwritten: never a crash, and what is left unseen lies in pages of no row. */
static void verify__overwritten_pages__are_said(void **state)
{
    (void)state;
    struct ledger_file *f = ledger_file_new();
    ledger_file_fill(f);
    ledger_file_close(f); /* all of it is in the file now */
    FILE *file = fopen(f->path, "r+");
    CHECK(file != NULL && fseek(file, 0, SEEK_END) == 0);
    long pages = ftell(file) / 4096;
    CHECK(pages > 10);
    static uint8_t page[4096];
    for (long i = 0; i < pages; i++)
        for (unsigned fill = 0; fill < 3; fill++) {
            uint8_t other[4096];
            CHECK(fseek(file, i * 4096, SEEK_SET) == 0 && fread(page, 4096, 1, file) == 1);
            for (size_t k = 0; k < sizeof other; k++)
                other[k] = fill == 0   ? 0
                           : fill == 1 ? 0xff
                                       : (uint8_t)(page[k] + (k == 300 + 8 * 5));
            memcpy(other, page, fill == 2 ? 100 : 0);
            CHECK(fseek(file, i * 4096, SEEK_SET) == 0 && fwrite(other, 4096, 1, file) == 1);
            CHECK(fflush(file) == 0);
            struct weir_verify_report report;
            char error[512] = "";
            bool right = weir_verify(f->path, &report, error, sizeof error) && report.wrong == 0;
            CHECK_MSG(!right || fill == 2, "page %ld of %ld, fill %u", i, pages, fill);
            CHECK(fseek(file, i * 4096, SEEK_SET) == 0 && fwrite(page, 4096, 1, file) == 1);
            CHECK(fflush(file) == 0);
        }
    fclose(file);
    struct weir_verify_report report = verify(f->path);
    CHECK_MSG(report.wrong == 0, "%s", report.findings[0]);
    ledger_file_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verify__right_file__is_right_and_counted),
        cmocka_unit_test(verify__folded_and_purged__is_right),
        cmocka_unit_test(verify__each_spoiled_file__is_found_and_named),
        cmocka_unit_test(verify__records_that_contradict_each_other__are_named),
        cmocka_unit_test(verify__many_findings__are_counted_and_the_first_are_kept),
        cmocka_unit_test(verify__cannot_be_done__says_why),
        cmocka_unit_test(verify__overwritten_pages__are_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
