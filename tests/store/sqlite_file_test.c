/* The SQLite store and its file: who may use it, which file it takes, and what it lets go of. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "store/gate_vfs.h"
#include "store/sqlite_rig.h"

static uint64_t next(struct rig *r)
{
    return weir_store_hold_next(r->st);
}

static void put(const char *path, const void *bytes, size_t count)
{
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    CHECK_INT(fwrite(bytes, 1, count, f), count);
    CHECK_INT(fclose(f), 0);
}

static void copy(const char *from, const char *to)
{
    char bytes[65536];
    FILE *in = fopen(from, "r"), *out = fopen(to, "w");
    CHECK(in != NULL && out != NULL);
    for (size_t n; (n = fread(bytes, 1, sizeof bytes, in)) > 0;)
        CHECK_INT(fwrite(bytes, 1, n, out), n);
    fclose(in);
    CHECK_INT(fclose(out), 0);
}

static void refuses(struct rig *r, const char *part)
{
    CHECK(!rig_try_open(r));
    CHECK_MSG(strstr(r->error_text, part) != NULL, "want \"%s\" in: %s", part, r->error_text);
    CHECK_MSG(strstr(r->error_text, r->folder) != NULL, "no path in: %s", r->error_text);
}

/* Each piece of house-keeping is done when the thread is idle; this waits for the last of it. A round
 * that had begun before the test set its clock goes by the time of its start, so there is another a
 * minute later. */
static void wait_number(const struct rig *r, const char *sql, int64_t want)
{
    int64_t got = -1;
    for (int tries = 0; tries < 1000; tries++) {
        if ((got = rig_number(r, sql)) == want)
            return;
        if (tries % 25 == 24)
            rig_wall_set(rig_wall_s() + 60);
        usleep(20000);
    }
    fail_msg("%s: still %lld, want %lld", sql, (long long)got, (long long)want);
}

/* ---- who may use it ---- */

static void file__second_owner__is_refused_by_the_pid_of_the_first(void **state)
{
    (void)state;
    struct rig r;
    char pid[32];
    rig_new(&r);
    rig_open(&r);
    struct rig other = r;
    snprintf(pid, sizeof pid, "process %d", (int)getpid());
    refuses(&other, pid);
    rig_scope(&r, "a", WEIR_NONE, 1); /* the first one is none the worse */
    rig_close(&r);
    rig_open(&r);
    rig_end(&r);
}

/* Two memories would sell one grant twice, whatever name the second one came by. */
static void file__second_owner_by_another_name_or_without_the_lock_file__is_refused(void **state)
{
    (void)state;
    struct rig r;
    char link_path[128], lock[136];
    rig_new(&r);
    rig_open(&r);
    uint32_t scope = rig_scope(&r, "a", WEIR_NONE, 100);
    struct rig other = r;
    snprintf(link_path, sizeof link_path, "%s.copy", r.path);
    snprintf(lock, sizeof lock, "%s.lock", link_path);
    other.config.path = link_path;
    CHECK_INT(symlink(r.path, link_path), 0);
    refuses(&other, "is in use by another process, by another name");
    CHECK_INT(unlink(link_path), 0);
    CHECK_INT(link(r.path, link_path), 0);
    refuses(&other, "is in use by another process, by another name");
    CHECK_INT(unlink(lock), 0);
    rig_remove(&r, ".lock");
    other.config.path = r.path;
    refuses(&other, "is in use by another process, by another name");
    RIG_DO(&r, RESERVE, scope, next(&r), 10, HELD); /* the first one is none the worse */
    RIG_TOTALS(&r, scope, 10, 0, 0);
    rig_end(&r);
}

static void file__new__is_for_its_owner_only_and_the_disk_is_timed(void **state)
{
    (void)state;
    struct rig r;
    struct stat facts;
    struct weir_store_status status;
    rig_new(&r);
    umask(0);
    rig_open(&r);
    uint32_t scope = rig_scope(&r, "a", WEIR_NONE, 1);
    CHECK_INT(scope, 0);
    static const char *const ends[] = {"", "-wal", ".lock"};
    for (size_t i = 0; i < WEIR_COUNT(ends); i++) {
        char path[128];
        snprintf(path, sizeof path, "%s%s", r.path, ends[i]);
        CHECK_INT(stat(path, &facts), 0);
        CHECK_INT(facts.st_mode & 0777, 0600);
    }
    for (int tries = 0; !rig_heard("one sync of this disk takes") && tries < 1000; tries++)
        usleep(20000); /* at the first idle moment */
    RIG_HEARD("one sync of this disk takes");
    weir_store_status(r.st, &status);
    CHECK(status.is_durable && status.is_available && status.sync_ns > 0);
    CHECK_STR(status.path, r.path);
    CHECK(status.file_bytes > 0 && status.wal_bytes > 0);
    CHECK(status.batches >= 1 && status.rows_written > 0);
    weir_store_close(r.st);
    char wal[128];
    snprintf(wal, sizeof wal, "%s-wal", r.path);
    CHECK(stat(wal, &facts) != 0); /* all is in the one file after a good end */
    CHECK_INT(chmod(r.path, 0644), 0);
    rig_open(&r); /* in the place of the closed one */
    RIG_HEARD("can be read or written by other users");
    rig_end(&r);
}

static void file__place_that_cannot_be__is_refused_and_says_why(void **state)
{
    (void)state;
    struct rig r;
    char folder[128];
    rig_new(&r);
    snprintf(folder, sizeof folder, "%s/none/ledger.db", r.folder);
    r.config.path = folder;
    refuses(&r, "cannot be opened: No such file");
    r.config.path = r.path;
    CHECK_INT(mkdir(r.path, 0700), 0);
    refuses(&r, "cannot be opened: Is a directory");
    CHECK_INT(rmdir(r.path), 0);
    rig_remove(&r, ".lock");
    CHECK_INT(rmdir(r.folder), 0);
}

/* ---- which file it takes ---- */

static void file__not_a_ledger__is_refused_and_left_alone(void **state)
{
    (void)state;
    struct rig r;
    rig_new(&r);
    char garbage[8192];
    memset(garbage, 'g', sizeof garbage);
    put(r.path, garbage, sizeof garbage);
    refuses(&r, "file is not a database");
    struct stat facts;
    CHECK_INT(stat(r.path, &facts), 0);
    CHECK_INT(facts.st_size, sizeof garbage);
    rig_remove(&r, "");
    put(r.path, "", 0);
    rig_sql(&r, "CREATE TABLE mine(x); INSERT INTO mine VALUES(7)");
    refuses(&r, "not a ledger of weir");
    CHECK_INT(rig_number(&r, "SELECT x FROM mine"), 7);
    CHECK_INT(rig_number(&r, "SELECT count(*) FROM sqlite_schema"), 1);
    rig_end(&r);
}

static void file__newer_form__is_refused_by_its_number(void **state)
{
    (void)state;
    struct rig r;
    rig_new(&r);
    rig_open(&r);
    rig_close(&r);
    rig_sql(&r, "PRAGMA user_version = 2");
    refuses(&r, "was written by a newer weir (form 2, this one knows 1)");
    rig_sql(&r, "PRAGMA user_version = 0");
    refuses(&r, "says to be of form 0");
    CHECK_INT(rig_number(&r, "PRAGMA user_version"), 0);
    rig_sql(&r, "PRAGMA user_version = 1");
    rig_open(&r);
    rig_end(&r);
}

/* What the rows say against each other is found before anything is built on it. */
static void file__rows_that_contradict_each_other__are_refused(void **state)
{
    (void)state;
    const struct {
        const char *damage, *repair, *said;
    } rows[] = {
        {"UPDATE balance SET reserved = reserved + 1", "UPDATE balance SET reserved = reserved - 1",
         "reserved is the sum of the held holds"},
        {"UPDATE balance SET overrun = -1", "UPDATE balance SET overrun = 0", "is not right"},
        {"UPDATE hold SET chain = x'05'", NULL, "the row of hold"},
        {"UPDATE hold SET state = 9", "UPDATE hold SET state = 1",
         NULL}, /* not live: passed over */
        {"UPDATE scope SET parent = id", "UPDATE scope SET parent = NULL", "the parents of scope"},
        {"UPDATE scope SET parent = 99", "UPDATE scope SET parent = NULL", "has no row"},
        {"UPDATE scope SET window = 5", "UPDATE scope SET window = 0", "has no balance"},
        {"UPDATE scope SET name = printf('%.200c', 'n')", "UPDATE scope SET name = 'a'",
         "the row of scope"},
        {"UPDATE meta SET v = -1 WHERE k = 'epoch'", "UPDATE meta SET v = 1 WHERE k = 'epoch'",
         "it says to be of run -1"},
        {"UPDATE meta SET v = 16777215 WHERE k = 'epoch'",
         "UPDATE meta SET v = 1 WHERE k = 'epoch'", "it says to be of run 16777215"},
        {"UPDATE meta SET v = 9223372036854775807 WHERE k = 'base_seq'",
         "UPDATE meta SET v = 0 WHERE k = 'base_seq'", "which cannot be"},
        {"UPDATE scope SET id = 9223372036854775807", "UPDATE scope SET id = 1", "which cannot be"},
        {"UPDATE label SET id = 9 WHERE id = 1", "UPDATE label SET id = 1 WHERE id = 9", "label 9"},
    };
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct rig r;
        rig_new(&r);
        rig_open(&r);
        uint32_t scope = rig_scope(&r, "a", WEIR_NONE, 100);
        weir_store_label(r.st, "m");
        RIG_DO(&r, RESERVE, scope, next(&r), 10, HELD);
        rig_close(&r);
        rig_sql(&r, rows[i].damage);
        if (rows[i].said)
            refuses(&r, rows[i].said);
        rig_end(&r);
    }
}

/* ---- an older copy in its place ---- */

static void file__older_copy_in_its_place__is_noticed_until_adopted(void **state)
{
    (void)state;
    struct rig r;
    char saved[128];
    rig_new(&r);
    snprintf(saved, sizeof saved, "%s.copy", r.path);
    rig_open(&r);
    uint32_t scope = rig_scope(&r, "a", WEIR_NONE, 100);
    uint64_t a = next(&r);
    RIG_DO(&r, RESERVE, scope, a, 10, HELD);
    rig_close(&r);
    copy(r.path, saved);
    rig_open(&r);
    scope = rig_scope(&r, "a", WEIR_NONE, 100);
    uint64_t spent = next(&r);
    RIG_DO(&r, RESERVE, scope, spent, 50, HELD);
    RIG_DO(&r, SETTLE, scope, spent, 50, SETTLED);
    rig_close(&r);
    copy(saved, r.path);
    refuses(&r, "this is an older file (run 1, journal row 2) than the one last written (run 2");
    CHECK(strstr(r.error_text, "weir ledger verify --adopt") != NULL);
    refuses(&r, "this is an older file"); /* and again: nothing was changed by asking */
    r.config.adopt = true;
    rig_open(&r);
    RIG_HEARD("an older file is adopted");
    CHECK_INT(r.st->epoch, 3); /* ids of run 2 are not given again */
    r.config.adopt = false;
    rig_reopen(&r); /* once is enough */
    scope = rig_scope(&r, "a", WEIR_NONE, 100);
    RIG_TOTALS(&r, scope, 0, 0, 10);
    rig_end(&r);
}

static void file__missing__is_noticed_until_adopted(void **state)
{
    (void)state;
    struct rig r;
    rig_new(&r);
    rig_open(&r);
    rig_scope(&r, "a", WEIR_NONE, 100);
    rig_close(&r);
    rig_remove(&r, "");
    char log[128];
    snprintf(log, sizeof log, "%s-wal", r.path);
    put(log, "what was written last", 21);
    refuses(&r, "the file is missing");
    CHECK(strstr(r.error_text, ".lock") != NULL);
    CHECK(access(r.path, F_OK) != 0); /* nothing stands in the way of putting it back, and */
    CHECK(access(log, F_OK) == 0);    /* its log waits for it */
    rig_remove(&r, "-wal");
    r.config.adopt = true;
    rig_open(&r);
    CHECK_INT(r.st->epoch, 2);
    rig_end(&r);
}

static void file__lock_file_without_sense__is_written_anew(void **state)
{
    (void)state;
    struct rig r;
    char lock[128];
    rig_new(&r);
    rig_open(&r);
    rig_close(&r);
    snprintf(lock, sizeof lock, "%s.lock", r.path);
    put(lock, "\0\0nonsense", 10);
    rig_open(&r);
    CHECK_INT(r.st->epoch, 2);
    rig_close(&r);
    char line[64] = "";
    FILE *f = fopen(lock, "r");
    CHECK(f != NULL && fgets(line, sizeof line, f) != NULL);
    fclose(f);
    CHECK(strncmp(line, "weir ledger: epoch 2 seq ", 25) == 0);
    rig_end(&r);
}

/* ---- what it lets go of ---- */

static void file__finished_holds__are_purged_when_old_and_the_sums_hold(void **state)
{
    (void)state;
    struct rig r;
    rig_new(&r);
    rig_open(&r);
    uint32_t org = rig_scope(&r, "org", WEIR_NONE, -1), scope = rig_scope(&r, "a", org, -1);
    uint64_t first = next(&r), lapsing = next(&r), last = 0;
    RIG_DO(&r, RESERVE, scope, first, 10, HELD);
    RIG_DO(&r, SETTLE, scope, first, 9, SETTLED);
    RIG_DO(&r, RESERVE, scope, lapsing, 10, HELD);
    for (int i = 0; i < 2500; i++) {
        struct weir_store_op op = rig_op(WEIR_LEDGER_RESERVE, scope, last = next(&r), 1);
        CHECK(weir_store_submit(r.st, &op));
    }
    for (int i = 0; i < 2500; i++)
        CHECK_INT(rig_answer(&r).result, WEIR_LEDGER_HELD);
    for (uint64_t hold = last - 2499; hold <= last; hold++) {
        struct weir_store_op op =
            rig_op(hold % 3 ? WEIR_LEDGER_SETTLE : WEIR_LEDGER_VOID, scope, hold, 2);
        CHECK(weir_store_submit(r.st, &op));
    }
    for (int i = 0; i < 2500; i++)
        CHECK(rig_answer(&r).result <= WEIR_LEDGER_VOIDED);
    CHECK_INT(rig_number(&r, "SELECT count(*) FROM hold"), 2502);
    int64_t committed = rig_totals(&r, scope).committed_tok;
    rig_reopen(&r);
    scope = weir_store_scope(r.st, "a");
    rig_wall_set(RIG_START_S + 86400); /* just not old enough */
    RIG_DO(&r, ADJUST, scope, 0, 1, DONE);
    rig_wall_set(RIG_START_S + 86400 + 120);
    for (int round = 1; rig_number(&r, "SELECT count(*) FROM hold") != 1; round++) {
        CHECK(round < 1000); /* a round that had begun before let those go that it had not seen */
        rig_wall_set(RIG_START_S + 86400 + 120 * round);
        usleep(20000);
    }
    CHECK_INT(rig_totals(&r, scope).committed_tok, committed + 1);
    CHECK_INT(rig_number(&r, "SELECT purged FROM balance WHERE scope = 1"), committed);
    CHECK_INT(rig_number(&r, "SELECT purged FROM balance WHERE scope = 2"), committed);
    rig_verify(&r);
    RIG_DO(&r, SETTLE, scope, lapsing, 3, LATE);
    RIG_DO(&r, SETTLE, scope, last, 2, UNMATCHED); /* not known any more: booked, not lost */
    rig_end(&r);
}

static void file__journal__is_folded_and_the_rest_still_explains_the_balances(void **state)
{
    (void)state;
    struct rig r;
    rig_new(&r);
    r.config.keep_journal_s = 100000;
    rig_open(&r);
    uint32_t org = rig_scope(&r, "org", WEIR_NONE, 5000), scope = rig_scope(&r, "a", org, 1000);
    uint64_t open = next(&r);
    RIG_DO(&r, RESERVE, scope, open, 11, HELD);
    for (int i = 0; i < 150; i++)
        RIG_DO(&r, ADJUST, scope, 0, i % 2 ? 3 : -2, DONE);
    int64_t rows = rig_number(&r, "SELECT count(*) FROM journal");
    CHECK(rows >= 153);
    rig_wall_set(RIG_START_S + 90000);
    RIG_DO(&r, ADJUST, scope, 0, 7, DONE);
    rig_wall_set(RIG_START_S + 100001);
    RIG_DO(&r, ADJUST, scope, 0, 5, DONE);
    wait_number(&r, "SELECT count(*) FROM journal", 2);
    CHECK_INT(rig_number(&r, "SELECT v FROM meta WHERE k = 'base_seq'"), rows);
    CHECK_INT(rig_number(&r, "SELECT committed FROM base WHERE scope = 1"), 75);
    CHECK_INT(rig_number(&r, "SELECT reserved FROM base WHERE scope = 2"), 11);
    rig_verify(&r);
    RIG_DO(&r, SETTLE, scope, open, 4, SETTLED);
    rig_wall_set(RIG_START_S + 1000000);
    RIG_DO(&r, ADJUST, scope, 0, 1, DONE);
    wait_number(&r, "SELECT count(*) FROM journal WHERE wall < 1800900000", 0);
    rig_reopen(&r); /* numbers go on over an empty journal */
    rig_end(&r);
}

static void file__damaged_journal_row__is_not_folded_over(void **state)
{
    (void)state;
    struct rig r;
    rig_new(&r);
    r.config.keep_journal_s = 1000;
    rig_open(&r);
    rig_scope(&r, "a", WEIR_NONE, 5000);
    rig_close(&r);
    rig_sql(&r, "UPDATE journal SET crc = crc + 1 WHERE seq = 1");
    rig_wall_set(RIG_START_S + 2000);
    rig_open(&r);
    rig_scope(&r, "a", WEIR_NONE, 5000);
    for (int tries = 0; !rig_heard("row 1 of the journal cannot be folded") && tries < 1000;
         tries++)
        usleep(20000);
    RIG_HEARD("row 1 of the journal cannot be folded: its check does not match");
    uint32_t scope = weir_store_scope(r.st, "a");
    RIG_DO(&r, RESERVE, scope, next(&r), 1, HELD); /* admission goes on */
    CHECK_INT(rig_number(&r, "SELECT count(*) FROM journal WHERE seq = 1"), 1);
    rig_sql(&r, "UPDATE journal SET crc = crc - 1 WHERE seq = 1");
    rig_end(&r);
}

static void window(struct rig *r, uint32_t scope, uint64_t number)
{
    struct weir_store_op op = rig_op(WEIR_LEDGER_WINDOW, scope, 0, 0);
    op.ledger.window = number;
    CHECK_STR(weir_ledger_result_name(rig_run(r, &op)), "done");
}

static void file__past_windows_and_usage__are_purged_when_nothing_names_them(void **state)
{
    (void)state;
    struct rig r;
    rig_new(&r);
    r.config.keep_usage_s = 10 * 86400;
    r.config.keep_journal_s = 86400;
    r.config.finished_keep = 0;
    rig_open(&r);
    uint32_t scope = rig_scope(&r, "a", WEIR_NONE, 1000);
    uint64_t lapsing = 0;
    for (int day = 0; day < 5; day++) {
        rig_wall_set(RIG_START_S + day * 86400);
        window(&r, scope, (uint64_t)rig_wall_s());
        uint64_t hold = next(&r);
        RIG_DO(&r, RESERVE, scope, hold, 10, HELD);
        if (day == 1)
            lapsing = hold; /* this window stays: it has a hold that is not settled */
        else
            RIG_DO(&r, SETTLE, scope, hold, 8, SETTLED);
    }
    CHECK_INT(rig_number(&r, "SELECT count(*) FROM balance"), 6); /* one before the first window */
    CHECK_INT(rig_number(&r, "SELECT count(*) FROM usage"), 4);
    rig_reopen(&r);
    scope = rig_scope(&r, "a", WEIR_NONE, 1000);
    rig_wall_set(RIG_START_S + 20 * 86400);
    RIG_DO(&r, ADJUST, scope, 0, 1, DONE);
    wait_number(&r, "SELECT count(*) FROM usage", 0);
    /* The walk over balances comes every few hours; the journal has to be folded before. */
    rig_wall_set(RIG_START_S + 30 * 86400);
    wait_number(&r, "SELECT count(*) FROM balance", 2);
    CHECK_INT(rig_number(&r, "SELECT min(lapsed) FROM balance WHERE window < 1800300000"), 10);
    rig_verify(&r);
    RIG_DO(&r, SETTLE, scope, lapsing, 10, LATE);
    rig_end(&r);
}

/* Tenants come and go for years: a scope that nobody defined for long, and that owes nothing, goes. */
static void file__scopes_not_seen_for_long__are_purged(void **state)
{
    (void)state;
    struct rig r;
    rig_new(&r);
    r.config.keep_usage_s = 10 * 86400;
    r.config.keep_journal_s = 86400;
    rig_open(&r);
    uint32_t gone = rig_scope(&r, "tenant/gone", WEIR_NONE, -1);
    uint32_t owing = rig_scope(&r, "tenant/owing", WEIR_NONE, -1);
    uint32_t parent = rig_scope(&r, "org", WEIR_NONE, -1);
    rig_scope(&r, "team", parent, -1);
    rig_scope(&r, "tenant/back", WEIR_NONE, -1);
    uint64_t a = next(&r), b = next(&r);
    RIG_DO(&r, RESERVE, gone, a, 10, HELD);
    RIG_DO(&r, SETTLE, gone, a, 9, SETTLED);
    RIG_DO(&r, SCOPE_FORGET, gone, 0, 0, DONE);
    RIG_DO(&r, RESERVE, owing, b, 10, HELD);
    rig_reopen(&r); /* b lapses */
    uint32_t team = rig_scope(&r, "team", rig_scope(&r, "org", WEIR_NONE, -1), -1);
    for (int day = 1; day <= 30; day++) { /* in use all the time, but never defined again */
        rig_wall_set(RIG_START_S + day * 86400);
        RIG_DO(&r, ADJUST, team, 0, 1, DONE);
        if (day == 5)
            RIG_DO(&r, SCOPE_FORGET, rig_scope(&r, "tenant/back", WEIR_NONE, -1), 0, 0, DONE);
        if (day == 14) {
            wait_number(&r, "SELECT count(*) FROM scope", 4);
            CHECK_INT(rig_number(&r, "SELECT count(*) FROM scope WHERE name = 'tenant/gone'"), 0);
            CHECK_INT(rig_number(&r, "SELECT count(*) FROM balance WHERE scope = 1"), 0);
            rig_verify(&r);
        }
    }
    wait_number(&r, "SELECT count(*) FROM scope", 3); /* org, team, owing */
    CHECK_INT(rig_number(&r, "SELECT min(seen) FROM scope") / 86400, RIG_START_S / 86400 + 30);
    rig_verify(&r);
    RIG_DO(&r, SETTLE, weir_store_scope(r.st, "tenant/owing"), b, 3, LATE);
    gone = rig_scope(&r, "tenant/gone", WEIR_NONE, -1); /* as if never seen */
    RIG_TOTALS(&r, gone, 0, 0, 0);
    rig_end(&r);
}

/* A clock that is years ahead for a moment must not cost years of usage. */
static void file__clock_that_jumps_ahead__is_not_believed_at_once(void **state)
{
    (void)state;
    struct rig r;
    rig_new(&r);
    r.config.clock_doubt_s = 100000;
    rig_open(&r);
    uint32_t scope = rig_scope(&r, "a", WEIR_NONE, 1000);
    uint64_t a = next(&r);
    RIG_DO(&r, RESERVE, scope, a, 10, HELD);
    RIG_DO(&r, SETTLE, scope, a, 8, SETTLED);
    rig_reopen(&r);
    scope = rig_scope(&r, "a", WEIR_NONE, 1000);
    rig_forget_said();
    rig_wall_set(RIG_START_S + INT64_C(10) * 365 * 86400);
    RIG_DO(&r, ADJUST, scope, 0, 1, DONE);
    for (int tries = 0; !rig_heard("ahead of where it should be") && tries < 1000; tries++)
        usleep(20000);
    RIG_HEARD("nothing old is let go of for 100000 s");
    rig_wall_set(RIG_START_S + 60); /* somebody set it right */
    RIG_DO(&r, ADJUST, scope, 0, 1, DONE);
    CHECK_INT(rig_number(&r, "SELECT count(*) FROM hold"), 1);
    CHECK_INT(rig_number(&r, "SELECT count(*) FROM usage"), 1);
    rig_end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(file__second_owner__is_refused_by_the_pid_of_the_first),
        cmocka_unit_test(file__second_owner_by_another_name_or_without_the_lock_file__is_refused),
        cmocka_unit_test(file__new__is_for_its_owner_only_and_the_disk_is_timed),
        cmocka_unit_test(file__place_that_cannot_be__is_refused_and_says_why),
        cmocka_unit_test(file__not_a_ledger__is_refused_and_left_alone),
        cmocka_unit_test(file__newer_form__is_refused_by_its_number),
        cmocka_unit_test(file__rows_that_contradict_each_other__are_refused),
        cmocka_unit_test(file__older_copy_in_its_place__is_noticed_until_adopted),
        cmocka_unit_test(file__missing__is_noticed_until_adopted),
        cmocka_unit_test(file__lock_file_without_sense__is_written_anew),
        cmocka_unit_test(file__finished_holds__are_purged_when_old_and_the_sums_hold),
        cmocka_unit_test(file__journal__is_folded_and_the_rest_still_explains_the_balances),
        cmocka_unit_test(file__damaged_journal_row__is_not_folded_over),
        cmocka_unit_test(file__scopes_not_seen_for_long__are_purged),
        cmocka_unit_test(file__clock_that_jumps_ahead__is_not_believed_at_once),
        cmocka_unit_test(file__past_windows_and_usage__are_purged_when_nothing_names_them),
    };
    gate_reset();
    rig_vfs = GATE_VFS_NAME; /* the open gate: no sync is waited for */
    return cmocka_run_group_tests_name("sqlite_file", tests, NULL, NULL);
}
