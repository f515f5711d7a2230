/* The SQLite store when the disk is slow, hangs or fails: batches, deadlines, outages. */
#include "store/gate_vfs.h"
#include "store/sqlite_rig.h"

#define MS WEIR_NS_PER_MS

static void rig_gated(struct rig *r)
{
    gate_reset();
    rig_new(r);
    rig_open(r);
}

static uint64_t next(struct rig *r)
{
    return weir_store_hold_next(r->st);
}

static bool submit(struct rig *r, enum weir_ledger_kind kind, uint32_t scope, uint64_t hold,
                   int64_t tok, uint64_t deadline_ns)
{
    struct weir_store_op op = rig_op(kind, scope, hold, tok);
    op.deadline_ns = deadline_ns;
    return weir_store_submit(r->st, &op);
}

/* Collects at a time; how many answers came. */
static size_t collect(struct rig *r, uint64_t now_ns, struct weir_store_answer *answers, size_t max)
{
    return weir_store_collect(r->st, now_ns, answers, max);
}

static void expect(struct rig *r, enum weir_ledger_kind kind, uint64_t hold, const char *result)
{
    struct weir_store_answer answer = rig_answer(r);
    CHECK_INT(answer.kind, kind);
    CHECK_INT(answer.hold, hold);
    CHECK_STR(weir_ledger_result_name(answer.result), result);
}

static void expect_at(struct rig *r, uint64_t now_ns, enum weir_ledger_kind kind, uint64_t hold,
                      const char *result)
{
    struct weir_store_answer answer;
    CHECK_INT(collect(r, now_ns, &answer, 1), 1);
    CHECK_INT(answer.kind, kind);
    CHECK_INT(answer.hold, hold);
    CHECK_STR(weir_ledger_result_name(answer.result), result);
}

/* What is not told as a whole is waited for: bounded, and by what the store says of itself. */
static void wait_available(struct rig *r, bool is_available)
{
    struct weir_store_status status;
    for (int tries = 0; tries < 2000; tries++) {
        weir_store_status(r->st, &status);
        if (status.is_available == is_available)
            return;
        usleep(10000);
    }
    fail_msg("still %savailable after 20 s", is_available ? "un" : "");
}

static void wait_syncs(uint64_t count)
{
    for (int tries = 0; gate_syncs() < count; tries++) {
        CHECK_MSG(tries < 2000, "%llu syncs after 20 s, want %llu",
                  (unsigned long long)gate_syncs(), (unsigned long long)count);
        usleep(10000);
    }
}

/* Answers are counted once, however often the operation was applied. */
static void check_counted(struct rig *r, enum weir_ledger_result result, uint64_t count)
{
    struct weir_ledger_stats stats;
    weir_store_stats(r->st, &stats);
    CHECK_INT(stats.results[result], count);
}

/* The first batch has begun and waits at the gate: what comes now is in the next one. */
static void begin_batch(struct rig *r, uint32_t scope)
{
    gate_shut();
    CHECK(submit(r, WEIR_LEDGER_ADJUST, scope, 0, 1, WEIR_NEVER_NS));
    CHECK_INT(collect(r, 0, NULL, 0), 0); /* the thread begins now */
    gate_wait();
}

/* ---- batches ---- */

static void outage__64_callers__share_a_sync(void **state)
{
    (void)state;
    struct rig r;
    rig_gated(&r);
    uint32_t scope = rig_scope(&r, "a", WEIR_NONE, 1000000);
    struct weir_store_status before, after;
    weir_store_status(r.st, &before);
    uint64_t syncs = gate_syncs(), ops = 0;
    gate_shut();
    for (int i = 0; i < 64; i++)
        CHECK(submit(&r, WEIR_LEDGER_RESERVE, scope, next(&r), 10, WEIR_NEVER_NS));
    for (int round = 0; round < 50; round++) {
        /* Each caller that was answered asks again while the disk is busy. */
        gate_wait();
        gate_step();
        struct weir_store_answer answer = rig_answer(&r);
        do {
            bool is_held = answer.result == WEIR_LEDGER_HELD;
            CHECK(is_held || answer.result == WEIR_LEDGER_SETTLED);
            ops++;
            CHECK(submit(&r, is_held ? WEIR_LEDGER_SETTLE : WEIR_LEDGER_RESERVE, scope,
                         is_held ? answer.hold : next(&r), 10, WEIR_NEVER_NS));
        } while (collect(&r, 1, &answer, 1) == 1);
    }
    weir_store_status(r.st, &after);
    CHECK_MSG(ops >= 20 * (gate_syncs() - syncs), "%llu ops in %llu syncs", (unsigned long long)ops,
              (unsigned long long)(gate_syncs() - syncs));
    CHECK(after.ops - before.ops >= 20 * (after.batches - before.batches));
    CHECK(after.commit_p50_ns > 0 && after.commit_p99_ns >= after.commit_p50_ns);
    gate_open();
    rig_end(&r);
}

static void outage__batch__ends_holds_before_it_reserves(void **state)
{
    (void)state;
    struct rig r;
    rig_gated(&r);
    uint32_t scope = rig_scope(&r, "a", WEIR_NONE, 101);
    uint64_t a = next(&r), b = next(&r), c = next(&r);
    RIG_DO(&r, RESERVE, scope, a, 100, HELD);
    begin_batch(&r, scope);
    CHECK(submit(&r, WEIR_LEDGER_RESERVE, scope, b, 90, WEIR_NEVER_NS));
    CHECK(submit(&r, WEIR_LEDGER_RESERVE, scope, c, 90, WEIR_NEVER_NS));
    CHECK(submit(&r, WEIR_LEDGER_SETTLE, scope, a, 10, WEIR_NEVER_NS));
    gate_open();
    expect(&r, WEIR_LEDGER_ADJUST, 0, "done");
    expect(&r, WEIR_LEDGER_SETTLE, a, "settled");
    expect(&r, WEIR_LEDGER_RESERVE, b, "held");
    expect(&r, WEIR_LEDGER_RESERVE, c, "budget_busy");
    CHECK_INT(rig_totals(&r, scope).refused_count, 1);
    rig_end(&r);
}

static void outage__only_refusals__do_not_touch_the_disk(void **state)
{
    (void)state;
    struct rig r;
    rig_gated(&r);
    uint32_t scope = rig_scope(&r, "a", WEIR_NONE, 10);
    struct weir_store_status before, after;
    weir_store_status(r.st, &before);
    uint64_t syncs = gate_syncs();
    for (int i = 0; i < 50; i++)
        RIG_DO(&r, RESERVE, scope, next(&r), 11, NEVER);
    weir_store_status(r.st, &after);
    CHECK_INT(after.batches, before.batches);
    CHECK_INT(gate_syncs(), syncs);
    CHECK_INT(rig_totals(&r, scope).refused_count, 50);
    rig_end(&r);
}

static void outage__queue_full__turns_away_all_but_ends_of_holds(void **state)
{
    (void)state;
    struct rig r;
    gate_reset();
    rig_new(&r);
    r.config.queue_max = 3;
    rig_open(&r);
    uint32_t scope = rig_scope(&r, "a", WEIR_NONE, 100);
    uint64_t held[8];
    for (int i = 0; i < 8; i++) {
        held[i] = next(&r);
        RIG_DO(&r, RESERVE, scope, held[i], 1, HELD);
    }
    begin_batch(&r, scope);
    CHECK(submit(&r, WEIR_LEDGER_ADJUST, scope, 0, 1, WEIR_NEVER_NS));
    CHECK(submit(&r, WEIR_LEDGER_RESERVE, scope, next(&r), 1, WEIR_NEVER_NS));
    CHECK(!submit(&r, WEIR_LEDGER_RESERVE, scope, next(&r), 1, WEIR_NEVER_NS));
    CHECK(!submit(&r, WEIR_LEDGER_ADJUST, scope, 0, 1, WEIR_NEVER_NS));
    for (int i = 0; i < 8; i++)
        CHECK(submit(&r, i % 2 ? WEIR_LEDGER_VOID : WEIR_LEDGER_SETTLE, scope, held[i], 1,
                     WEIR_NEVER_NS));
    struct weir_store_status status;
    weir_store_status(r.st, &status);
    CHECK_INT(status.queue_now, 11);
    gate_open();
    for (int i = 0; i < 11; i++)
        CHECK(rig_answer(&r).result != WEIR_LEDGER_UNAVAILABLE);
    RIG_TOTALS(&r, scope, 1, 4 + 2, 0);
    rig_end(&r);
}

/* As many holds as the limit allows, and every one of them can be ended. */
static void outage__holds_at_their_limit__full_and_each_still_ends(void **state)
{
    (void)state;
    struct rig r;
    gate_reset();
    rig_new(&r);
    r.config.holds_max = 40;
    r.config.finished_keep = 3;
    rig_open(&r);
    uint32_t scope = rig_scope(&r, "a", WEIR_NONE, 100000);
    for (int round = 0; round < 3; round++) {
        uint64_t held[40];
        for (int i = 0; i < 40; i++) {
            held[i] = next(&r);
            RIG_DO(&r, RESERVE, scope, held[i], 1, HELD);
        }
        RIG_DO(&r, RESERVE, scope, next(&r), 1, FULL);
        for (int i = 0; i < 40; i++)
            CHECK(submit(&r, WEIR_LEDGER_SETTLE, scope, held[i], 2, WEIR_NEVER_NS));
        for (int i = 0; i < 40; i++)
            expect(&r, WEIR_LEDGER_SETTLE, held[i], "settled");
    }
    RIG_TOTALS(&r, scope, 0, 240, 0);
    rig_end(&r);
}

/* ---- a disk that hangs ---- */

static void outage__disk_hangs__deadlines_are_answered_and_the_hold_is_voided(void **state)
{
    (void)state;
    struct rig r;
    struct weir_store_answer answers[4];
    rig_gated(&r);
    uint32_t scope = rig_scope(&r, "a", WEIR_NONE, 100);
    uint64_t a = next(&r), b = next(&r);
    gate_shut();
    CHECK(submit(&r, WEIR_LEDGER_RESERVE, scope, a, 10, 50 * MS));
    gate_wait(); /* a is being made durable; b waits in the queue */
    CHECK(submit(&r, WEIR_LEDGER_RESERVE, scope, b, 20, 60 * MS));
    CHECK_INT(collect(&r, 50 * MS - 1, answers, 4), 0);
    expect_at(&r, 50 * MS, WEIR_LEDGER_RESERVE, a, "unavailable");
    CHECK_INT(collect(&r, 60 * MS - 1, answers, 4), 0);
    expect_at(&r, 70 * MS, WEIR_LEDGER_RESERVE, b, "unavailable");
    CHECK_INT(collect(&r, 90 * MS, answers, 4), 0); /* each once */
    gate_open();
    uint64_t c = next(&r);
    CHECK(submit(&r, WEIR_LEDGER_RESERVE, scope, c, 100, WEIR_NEVER_NS)); /* after the void */
    CHECK(submit(&r, WEIR_LEDGER_ADJUST, scope, 0, 1, WEIR_NEVER_NS));
    /* c came in the same batch as the void, or in the one before it: then it is asked again. */
    struct weir_store_answer answer = rig_answer(&r);
    CHECK_INT(answer.hold, c);
    expect(&r, WEIR_LEDGER_ADJUST, 0, "done");
    if (answer.result == WEIR_LEDGER_HELD) {
        RIG_DO(&r, VOID, scope, c, 0, VOIDED);
    } else {
        CHECK_STR(weir_ledger_result_name(answer.result), "budget_busy");
        RIG_DO(&r, ADJUST, scope, 0, 1, DONE);
    }
    RIG_TOTALS(&r, scope, 0, rig_totals(&r, scope).committed_tok, 0);
    rig_close(&r);
    char sql[100];
    snprintf(sql, sizeof sql, "SELECT state FROM hold WHERE id = %llu", (unsigned long long)a);
    CHECK_INT(rig_number(&r, sql), WEIR_HOLD_VOID);
    snprintf(sql, sizeof sql, "SELECT count(*) FROM hold WHERE id = %llu", (unsigned long long)b);
    CHECK_INT(rig_number(&r, sql), 0); /* it was never applied */
    rig_end(&r);
}

static void outage__stuck_for_two_seconds__one_waits_and_the_rest_is_turned_away(void **state)
{
    (void)state;
    struct rig r;
    struct weir_store_answer answers[4];
    struct weir_store_status status;
    rig_gated(&r);
    uint32_t scope = rig_scope(&r, "a", WEIR_NONE, 100);
    uint64_t a = next(&r), b = next(&r), c = next(&r), d = next(&r), held = next(&r);
    RIG_DO(&r, RESERVE, scope, held, 5, HELD);
    CHECK_INT(collect(&r, 1000 * MS, answers, 4), 0);
    begin_batch(&r, scope);
    CHECK(submit(&r, WEIR_LEDGER_RESERVE, scope, a, 1, 5000 * MS));
    CHECK_INT(collect(&r, 3000 * MS, answers, 4), 0);
    CHECK(submit(&r, WEIR_LEDGER_RESERVE, scope, b, 1, 5000 * MS)); /* just not stuck yet */
    weir_store_status(r.st, &status);
    CHECK(status.is_available);
    CHECK_INT(collect(&r, 3000 * MS + 1, answers, 4), 0);
    weir_store_status(r.st, &status);
    CHECK(!status.is_available);
    CHECK(strstr(status.trouble, "has not answered") != NULL);
    CHECK(!submit(&r, WEIR_LEDGER_RESERVE, scope, c, 1, 9000 * MS));
    CHECK(!submit(&r, WEIR_LEDGER_EXTEND, scope, held, 6, 9000 * MS));
    CHECK(submit(&r, WEIR_LEDGER_SETTLE, scope, held, 4, WEIR_NEVER_NS)); /* always */
    CHECK_INT(collect(&r, 5000 * MS, answers, 4), 2);                     /* a and b */
    CHECK(submit(&r, WEIR_LEDGER_RESERVE, scope, c, 1, 9000 * MS));       /* one may wait */
    CHECK(!submit(&r, WEIR_LEDGER_RESERVE, scope, d, 1, 9000 * MS));
    gate_open();
    expect(&r, WEIR_LEDGER_ADJUST, 0, "done");
    expect(&r, WEIR_LEDGER_SETTLE, held, "settled");
    expect(&r, WEIR_LEDGER_RESERVE, c, "held");
    RIG_DO(&r, RESERVE, scope, d, 1, HELD);
    RIG_TOTALS(&r, scope, 2, 5, 0);
    rig_end(&r);
}

/* ---- a disk that fails ---- */

static void outage__writes_fail__use_is_kept_and_nothing_else_is_admitted(void **state)
{
    (void)state;
    struct rig r;
    struct weir_store_answer answers[4];
    struct weir_store_status status;
    rig_gated(&r);
    uint32_t scope = rig_scope(&r, "a", WEIR_NONE, 100);
    uint64_t a = next(&r), b = next(&r), c = next(&r), d = next(&r);
    RIG_DO(&r, RESERVE, scope, a, 10, HELD);
    gate_fail_writes(true);
    CHECK(submit(&r, WEIR_LEDGER_RESERVE, scope, b, 10, 5000 * MS));
    expect(&r, WEIR_LEDGER_RESERVE, b, "unavailable"); /* at once, not at its deadline */
    wait_available(&r, false);
    weir_store_status(r.st, &status);
    CHECK(strstr(status.trouble, r.path) != NULL && strstr(status.trouble, "dmesg") != NULL);
    CHECK(rig_heard("2 ledger") && rig_heard("No request is admitted until it works again"));
    RIG_TOTALS(&r, scope, 10, 0, 0); /* as of the last commit */
    CHECK(submit(&r, WEIR_LEDGER_RESERVE, scope, c, 10, 10 * MS));
    CHECK(!submit(&r, WEIR_LEDGER_RESERVE, scope, d, 10, 10 * MS));
    CHECK(submit(&r, WEIR_LEDGER_SETTLE, scope, a, 7, WEIR_NEVER_NS));
    CHECK(submit(&r, WEIR_LEDGER_ADJUST, scope, 0, 3, WEIR_NEVER_NS)); /* answered when it works */
    CHECK_INT(collect(&r, 9 * MS, answers, 4), 0);
    expect_at(&r, 10 * MS, WEIR_LEDGER_RESERVE, c, "unavailable");
    gate_fail_writes(false);
    expect(&r, WEIR_LEDGER_SETTLE, a, "settled");
    expect(&r, WEIR_LEDGER_ADJUST, 0, "done");
    weir_store_status(r.st, &status);
    CHECK(status.is_available);
    CHECK_STR(status.trouble, "");
    RIG_HEARD("works again");
    RIG_DO(&r, RESERVE, scope, d, 10, HELD);
    RIG_TOTALS(&r, scope, 10, 10, 0);
    struct weir_ledger_stats stats;
    weir_store_stats(r.st, &stats);
    CHECK_INT(stats.held, 1);
    CHECK(stats.results[WEIR_LEDGER_HELD] >= 2); /* counts go on over the reload */
    rig_end(&r);
}

/* The sync of the commit fails, yet the log has the whole batch, and the next opening finds it: the
 * file decides. What was told UNAVAILABLE is voided; nothing is applied twice. */
static void outage__failed_commit_is_durable_after_all__answers_stand(void **state)
{
    (void)state;
    struct rig r;
    rig_gated(&r);
    uint32_t scope = rig_scope(&r, "a", WEIR_NONE, 1000);
    uint64_t a = next(&r), b = next(&r), unknown = weir_ledger_hold_id(1, 777);
    RIG_DO(&r, RESERVE, scope, a, 10, HELD);
    begin_batch(&r, scope);
    CHECK(submit(&r, WEIR_LEDGER_RESERVE, scope, b, 20, WEIR_NEVER_NS));
    CHECK(submit(&r, WEIR_LEDGER_SETTLE, scope, a, 7, WEIR_NEVER_NS));
    CHECK(submit(&r, WEIR_LEDGER_SETTLE, scope, unknown, 5, WEIR_NEVER_NS));
    CHECK(submit(&r, WEIR_LEDGER_ADJUST, scope, 0, 100, WEIR_NEVER_NS));
    CHECK(submit(&r, WEIR_LEDGER_SCOPE_FORGET, WEIR_NONE, 0, 0, WEIR_NEVER_NS));
    gate_step();
    expect(&r, WEIR_LEDGER_ADJUST, 0, "done");
    gate_wait(); /* they are written and wait for their sync */
    gate_fail_syncs(true);
    gate_open();
    expect(&r, WEIR_LEDGER_RESERVE, b, "unavailable");
    wait_available(&r, false);
    wait_syncs(gate_syncs() + 2); /* some reloads fail too, the closing of the file among them */
    gate_fail_syncs(false);
    expect(&r, WEIR_LEDGER_SETTLE, a, "settled");
    expect(&r, WEIR_LEDGER_SETTLE, unknown, "unmatched");
    expect(&r, WEIR_LEDGER_ADJUST, 0, "done");
    expect(&r, WEIR_LEDGER_SCOPE_FORGET, 0, "bad");
    /* Nobody relies on a log whose sync failed: all was moved into the file before. */
    CHECK_INT(rig_number_in_file(&r, "SELECT committed FROM balance"), 1 + 7 + 5 + 100);
    RIG_DO(&r, SETTLE, scope, unknown, 5, SAME);
    RIG_DO(&r, SETTLE, scope, a, 7, SAME);
    CHECK_INT(rig_totals(&r, scope).committed_tok, 1 + 7 + 5 + 100);
    check_counted(&r, WEIR_LEDGER_SETTLED, 1);
    check_counted(&r, WEIR_LEDGER_UNMATCHED, 1);
    check_counted(&r, WEIR_LEDGER_DONE, 3); /* the scope and two adjustments */
    rig_close(&r);
    char sql[100];
    snprintf(sql, sizeof sql, "SELECT coalesce(max(state), 3) FROM hold WHERE id = %llu",
             (unsigned long long)b);
    CHECK_INT(rig_number(&r, sql), WEIR_HOLD_VOID);
    rig_end(&r);
}

/* What waits in the queue when a batch fails is refused with it, without a deadline. */
static void outage__asks_behind_a_failed_batch__are_refused_at_once(void **state)
{
    (void)state;
    struct rig r;
    rig_gated(&r);
    uint32_t scope = rig_scope(&r, "a", WEIR_NONE, 1000);
    uint64_t a = next(&r), b = next(&r), c = next(&r);
    RIG_DO(&r, RESERVE, scope, a, 10, HELD);
    begin_batch(&r, scope);
    CHECK(submit(&r, WEIR_LEDGER_RESERVE, scope, b, 10, WEIR_NEVER_NS));
    CHECK(submit(&r, WEIR_LEDGER_ADJUST, scope, 0, 5, WEIR_NEVER_NS));
    CHECK(submit(&r, WEIR_LEDGER_EXTEND, scope, a, 20, WEIR_NEVER_NS));
    CHECK(submit(&r, WEIR_LEDGER_RESERVE, scope, c, 10, WEIR_NEVER_NS));
    gate_fail_writes(true); /* so that reloads fail too */
    gate_fail_syncs(true);
    gate_open();
    expect(&r, WEIR_LEDGER_RESERVE, b, "unavailable");
    expect(&r, WEIR_LEDGER_EXTEND, a, "unavailable");
    expect(&r, WEIR_LEDGER_RESERVE, c, "unavailable");
    gate_fail_writes(false);
    gate_fail_syncs(false);
    expect(&r, WEIR_LEDGER_ADJUST, 0, "done");
    expect(&r, WEIR_LEDGER_ADJUST, 0, "done");
    RIG_TOTALS(&r, scope, 10, 6, 0);
    check_counted(&r, WEIR_LEDGER_DONE, 3); /* the scope and two adjustments */
    check_counted(&r, WEIR_LEDGER_HELD, 1); /* what was taken back was not told */
    rig_end(&r);
}

/* Scopes defined in a batch that fails are defined when it works again, in their order. */
static void outage__scopes_in_a_failed_batch__are_defined_afterwards(void **state)
{
    (void)state;
    struct rig r;
    rig_gated(&r);
    rig_scope(&r, "before", WEIR_NONE, 10);
    gate_fail_writes(true);
    uint32_t org = weir_store_scope(r.st, "org"), team = weir_store_scope(r.st, "team");
    struct weir_store_op ops[] = {
        rig_op(WEIR_LEDGER_SCOPE, org, 1, 100), rig_op(WEIR_LEDGER_SCOPE, team, 2, 50),
        rig_op(WEIR_LEDGER_WINDOW, team, 3, 0), rig_op(WEIR_LEDGER_SCOPE_FORGET, 0, 4, 0)};
    ops[1].ledger.parent = org;
    ops[2].ledger.window = 77;
    for (size_t i = 0; i < WEIR_COUNT(ops); i++)
        CHECK(weir_store_submit(r.st, &ops[i]));
    wait_available(&r, false);
    struct weir_ledger_totals totals;
    CHECK(!weir_store_totals(r.st, org, &totals));
    gate_fail_writes(false);
    for (size_t i = 0; i < WEIR_COUNT(ops); i++)
        expect(&r, ops[i].ledger.kind, i + 1, "done");
    CHECK_INT(rig_totals(&r, team).window, 77);
    CHECK_INT(rig_totals(&r, team).parent, org);
    CHECK(weir_store_scope_name(r.st, 0) == NULL);
    RIG_DO(&r, RESERVE, team, next(&r), 50, HELD);
    RIG_TOTALS(&r, org, 50, 0, 0);
    rig_end(&r);
}

/* A program that keeps the file locked is named as what it is, and waited for. */
static void outage__stranger_keeps_it_locked__says_so_and_comes_back(void **state)
{
    (void)state;
    struct rig r;
    rig_new(&r);
    rig_open(&r);
    uint32_t scope = rig_scope(&r, "a", WEIR_NONE, 100);
    sqlite3 *stranger;
    CHECK_INT(sqlite3_open(r.path, &stranger), SQLITE_OK);
    CHECK_INT(sqlite3_exec(stranger, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    uint64_t a = next(&r);
    RIG_DO(&r, RESERVE, scope, a, 10, UNAVAILABLE);
    RIG_HEARD("another program keeps it locked");
    CHECK_INT(sqlite3_exec(stranger, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(stranger);
    wait_available(&r, true);
    RIG_DO(&r, RESERVE, scope, a, 10, HELD);
    rig_end(&r);
}

/* ---- the file leaves its place ---- */

static void move(const struct rig *r, const char *from, const char *to)
{
    char a[128], b[128];
    snprintf(a, sizeof a, "%s%s", r->path, from);
    snprintf(b, sizeof b, "%s%s", r->path, to);
    CHECK_INT(rename(a, b), 0);
}

/* What would be written goes nowhere: it is not durable, so nothing is admitted, and an older copy
 * put there instead is not believed either. */
static void outage__file_moved_away__closes_until_it_is_back(void **state)
{
    (void)state;
    struct rig r;
    rig_new(&r);
    rig_open(&r);
    uint32_t scope = rig_scope(&r, "a", WEIR_NONE, 100);
    uint64_t a = next(&r);
    RIG_DO(&r, RESERVE, scope, a, 10, HELD);
    move(&r, "", ".copy");
    RIG_DO(&r, RESERVE, scope, next(&r), 10, UNAVAILABLE);
    RIG_HEARD("the file was deleted, moved or replaced");
    CHECK(submit(&r, WEIR_LEDGER_SETTLE, scope, a, 7, WEIR_NEVER_NS));
    FILE *other = fopen(r.path, "w");
    CHECK(other != NULL && fclose(other) == 0);
    struct weir_store_status status;
    usleep(300000); /* it tries again meanwhile; right code does not care how often */
    weir_store_status(r.st, &status);
    CHECK(!status.is_available);
    CHECK(strstr(status.trouble, "was deleted, moved or replaced") != NULL);
    move(&r, ".copy", "");
    wait_available(&r, true);
    CHECK_INT(rig_answer(&r).result, WEIR_LEDGER_SETTLED);
    RIG_TOTALS(&r, scope, 0, 7, 0);
    rig_reopen(&r);
    RIG_TOTALS(&r, rig_scope(&r, "a", WEIR_NONE, 100), 0, 7, 0);
    rig_end(&r);
}

/* The store still has the deleted log open: what is in it goes into the file. */
static void outage__log_deleted__loses_nothing(void **state)
{
    (void)state;
    struct rig r;
    rig_new(&r);
    rig_open(&r);
    uint32_t scope = rig_scope(&r, "a", WEIR_NONE, 100);
    uint64_t a = next(&r);
    RIG_DO(&r, RESERVE, scope, a, 10, HELD);
    rig_remove(&r, "-wal");
    rig_remove(&r, "-shm");
    RIG_DO(&r, RESERVE, scope, next(&r), 10, UNAVAILABLE);
    RIG_HEARD("its -wal was deleted, moved or replaced");
    wait_available(&r, true);
    RIG_TOTALS(&r, scope, 10, 0, 0);
    RIG_DO(&r, SETTLE, scope, a, 7, SETTLED);
    CHECK_INT(rig_number(&r, "SELECT committed FROM balance"), 7);
    rig_end(&r);
}

/* ---- closing ---- */

/* Later: so that the store is probably closing already. Right code does not care. */
static void *open_gate_later(void *unused)
{
    (void)unused;
    usleep(20000);
    gate_open();
    return NULL;
}

static void outage__close__makes_durable_what_was_accepted(void **state)
{
    (void)state;
    struct rig r;
    rig_gated(&r);
    uint32_t scope = rig_scope(&r, "a", WEIR_NONE, 1000000);
    begin_batch(&r, scope);
    for (int i = 0; i < 3000; i++)
        CHECK(submit(&r, WEIR_LEDGER_ADJUST, scope, 0, 1, WEIR_NEVER_NS));
    pthread_t opener;
    CHECK_INT(pthread_create(&opener, NULL, open_gate_later, NULL), 0);
    rig_close(&r);
    CHECK_INT(pthread_join(opener, NULL), 0);
    CHECK_INT(rig_number(&r, "SELECT committed FROM balance"), 3001);
    rig_open(&r);
    CHECK_INT(rig_totals(&r, rig_scope(&r, "a", WEIR_NONE, 1000000)).committed_tok, 3001);
    rig_end(&r);
}

/* A file that never works again does not keep the gateway from ending: it says what is lost. */
static void outage__close_during_an_outage__gives_up_and_says_so(void **state)
{
    (void)state;
    struct rig r;
    rig_gated(&r);
    uint32_t scope = rig_scope(&r, "a", WEIR_NONE, 1000);
    uint64_t a = next(&r);
    RIG_DO(&r, RESERVE, scope, a, 10, HELD);
    gate_fail_writes(true);
    CHECK(submit(&r, WEIR_LEDGER_SETTLE, scope, a, 7, WEIR_NEVER_NS));
    wait_available(&r, false);
    weir_store_close(r.st);
    r.st = NULL;
    RIG_HEARD("without having written 1 operations");
    gate_fail_writes(false);
    rig_open(&r); /* the hold lapses: charged by its estimate */
    scope = weir_store_scope(r.st, "a");
    RIG_TOTALS(&r, scope, 0, 0, 10);
    gate_fail_writes(true);
    RIG_DO(&r, RESERVE, scope, next(&r), 10, UNAVAILABLE); /* refused: it is not waiting */
    weir_store_close(r.st);
    r.st = NULL;
    RIG_HEARD("nothing waited to be written");
    gate_fail_writes(false);
    rig_open(&r);
    rig_end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outage__64_callers__share_a_sync),
        cmocka_unit_test(outage__batch__ends_holds_before_it_reserves),
        cmocka_unit_test(outage__only_refusals__do_not_touch_the_disk),
        cmocka_unit_test(outage__queue_full__turns_away_all_but_ends_of_holds),
        cmocka_unit_test(outage__holds_at_their_limit__full_and_each_still_ends),
        cmocka_unit_test(outage__disk_hangs__deadlines_are_answered_and_the_hold_is_voided),
        cmocka_unit_test(outage__stuck_for_two_seconds__one_waits_and_the_rest_is_turned_away),
        cmocka_unit_test(outage__writes_fail__use_is_kept_and_nothing_else_is_admitted),
        cmocka_unit_test(outage__failed_commit_is_durable_after_all__answers_stand),
        cmocka_unit_test(outage__asks_behind_a_failed_batch__are_refused_at_once),
        cmocka_unit_test(outage__scopes_in_a_failed_batch__are_defined_afterwards),
        cmocka_unit_test(outage__stranger_keeps_it_locked__says_so_and_comes_back),
        cmocka_unit_test(outage__file_moved_away__closes_until_it_is_back),
        cmocka_unit_test(outage__log_deleted__loses_nothing),
        cmocka_unit_test(outage__close__makes_durable_what_was_accepted),
        cmocka_unit_test(outage__close_during_an_outage__gives_up_and_says_so),
    };
    gate_reset();
    rig_vfs = GATE_VFS_NAME;
    return cmocka_run_group_tests_name("sqlite_outage", tests, NULL, NULL);
}
