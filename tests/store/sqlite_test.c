/* The SQLite store: what lasts over a restart, and what the file says. */
#include "store/sqlite_rig.h"

#include <sys/stat.h>

static uint64_t next(struct rig *r)
{
    return weir_store_hold_next(r->st);
}

/* ---- what lasts ---- */

static void sqlite__restart__balances_and_holds_are_there(void **state)
{
    (void)state;
    struct rig r;
    rig_new(&r);
    rig_open(&r);
    CHECK_STR(r.st->type->name, "sqlite");
    CHECK_INT(r.st->epoch, 1);
    uint32_t org = rig_scope(&r, "org", WEIR_NONE, 1000);
    uint32_t team = rig_scope(&r, "team", org, 500);
    uint64_t a = next(&r), b = next(&r), c = next(&r);
    RIG_DO(&r, RESERVE, team, a, 100, HELD);
    RIG_DO(&r, RESERVE, team, b, 50, HELD);
    RIG_DO(&r, RESERVE, team, c, 30, HELD);
    RIG_DO(&r, EXTEND, team, a, 120, HELD);
    RIG_DO(&r, SETTLE, team, b, 70, SETTLED); /* 20 more than it held */
    RIG_DO(&r, VOID, team, c, 0, VOIDED);
    RIG_TOTALS(&r, team, 120, 70, 0);
    RIG_TOTALS(&r, org, 120, 70, 0);
    rig_reopen(&r);
    CHECK_INT(r.st->epoch, 2);
    struct weir_ledger_stats stats;
    weir_store_stats(r.st, &stats);
    CHECK_INT(stats.epoch, 2);
    CHECK_INT(stats.lapsed, 1); /* a: its owner is gone */
    /* Slots may be others now; the names are the same. */
    team = weir_store_scope(r.st, "team");
    org = weir_store_scope(r.st, "org");
    RIG_TOTALS(&r, team, 0, 70, 120);
    RIG_TOTALS(&r, org, 0, 70, 120);
    CHECK_INT(rig_totals(&r, team).overrun_tok, 20);
    CHECK_INT(rig_scope(&r, "org", WEIR_NONE, 1000), org);
    CHECK_INT(rig_scope(&r, "team", org, 500), team);
    RIG_TOTALS(&r, team, 0, 70, 120);
    RIG_DO(&r, RESERVE, team, next(&r), 311, EXHAUSTED);
    RIG_DO(&r, SETTLE, team, a, 110, LATE);
    RIG_DO(&r, SETTLE, team, a, 110, SAME);
    RIG_TOTALS(&r, team, 0, 180, 0);
    CHECK_INT(rig_number(&r, "SELECT count(*) FROM hold WHERE state IN (1, 4)"), 0);
    rig_end(&r);
}

/* Each transition, in one table: the operation, its answer, and the hold's row after it. */
static void sqlite__each_transition__is_in_the_row_of_the_hold(void **state)
{
    (void)state;
    struct rig r;
    rig_new(&r);
    rig_open(&r);
    uint32_t scope = rig_scope(&r, "a", WEIR_NONE, 1000);
    uint64_t held = next(&r), lapsing = next(&r), unknown = weir_ledger_hold_id(1, 999);
    const struct {
        enum weir_ledger_kind kind;
        uint64_t hold;
        int64_t tok;
        const char *result;
        int64_t state, booked; /* -1: no row */
    } rows[] = {
        {WEIR_LEDGER_RESERVE, held, 1001, "never", -1, -1},
        {WEIR_LEDGER_RESERVE, held, 40, "held", WEIR_HOLD_HELD, 40},
        {WEIR_LEDGER_RESERVE, held, 40, "same", WEIR_HOLD_HELD, 40},
        {WEIR_LEDGER_RESERVE, held, 41, "conflict", WEIR_HOLD_HELD, 40},
        {WEIR_LEDGER_EXTEND, held, 60, "held", WEIR_HOLD_HELD, 60},
        {WEIR_LEDGER_EXTEND, held, 50, "same", WEIR_HOLD_HELD, 60},
        {WEIR_LEDGER_VOID, held, 0, "voided", WEIR_HOLD_VOID, 0},
        {WEIR_LEDGER_VOID, held, 0, "same", WEIR_HOLD_VOID, 0},
        {WEIR_LEDGER_RESERVE, held, 40, "finished", WEIR_HOLD_VOID, 0},
        {WEIR_LEDGER_SETTLE, held, 33, "late", WEIR_HOLD_LATE, 33},
        {WEIR_LEDGER_SETTLE, held, 34, "conflict", WEIR_HOLD_LATE, 33},
        {WEIR_LEDGER_VOID, unknown, 0, "unknown", -1, -1},
        {WEIR_LEDGER_EXTEND, unknown, 9, "unknown", -1, -1},
        {WEIR_LEDGER_SETTLE, unknown, 7, "unmatched", WEIR_HOLD_LATE, 7},
        {WEIR_LEDGER_SETTLE, unknown, 7, "same", WEIR_HOLD_LATE, 7},
        {WEIR_LEDGER_RESERVE, lapsing, 25, "held", WEIR_HOLD_HELD, 25},
    };
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        char sql[160];
        CHECK_STR(
            weir_ledger_result_name(rig_do(&r, rows[i].kind, scope, rows[i].hold, rows[i].tok)),
            rows[i].result);
        snprintf(sql, sizeof sql, "SELECT coalesce(max(state), -1) FROM hold WHERE id = %lld",
                 (long long)rows[i].hold);
        CHECK_INT(rig_number(&r, sql), rows[i].state);
        snprintf(sql, sizeof sql, "SELECT coalesce(max(booked), -1) FROM hold WHERE id = %lld",
                 (long long)rows[i].hold);
        CHECK_INT(rig_number(&r, sql), rows[i].booked);
    }
    CHECK_INT(rig_totals(&r, scope).unmatched_tok, 7);
    rig_reopen(&r);
    char sql[160];
    snprintf(sql, sizeof sql, "SELECT state FROM hold WHERE id = %lld", (long long)lapsing);
    CHECK_INT(rig_number(&r, sql), WEIR_HOLD_LAPSED);
    CHECK_INT(rig_totals(&r, weir_store_scope(r.st, "a")).unmatched_tok, 7);
    RIG_HEARD("1 request of an earlier run never ended");
    rig_end(&r);
}

/* A repeat for a hold that memory has long forgotten is still known: its row is asked. */
static void sqlite__hold_only_in_the_file__repeats_are_known(void **state)
{
    (void)state;
    struct rig r;
    rig_new(&r);
    r.config.finished_keep = 0;
    rig_open(&r);
    uint32_t scope = rig_scope(&r, "a", WEIR_NONE, 1000);
    uint64_t a = next(&r), b = next(&r);
    RIG_DO(&r, RESERVE, scope, a, 10, HELD);
    RIG_DO(&r, RESERVE, scope, b, 10, HELD);
    RIG_DO(&r, SETTLE, scope, a, 4, SETTLED);
    RIG_DO(&r, VOID, scope, b, 0, VOIDED);
    RIG_DO(&r, SETTLE, scope, a, 4, SAME);
    RIG_DO(&r, SETTLE, scope, a, 5, CONFLICT);
    RIG_DO(&r, VOID, scope, a, 0, CONFLICT);
    RIG_DO(&r, RESERVE, scope, a, 10, FINISHED);
    RIG_DO(&r, RESERVE, scope, a, 11, CONFLICT);
    RIG_DO(&r, EXTEND, scope, a, 11, FINISHED);
    RIG_DO(&r, VOID, scope, b, 0, SAME);
    rig_reopen(&r);
    scope = rig_scope(&r, "a", WEIR_NONE, 1000);
    RIG_DO(&r, SETTLE, scope, a, 4, SAME);
    RIG_DO(&r, SETTLE, scope, b, 6, LATE); /* spent after all: booked */
    RIG_TOTALS(&r, scope, 0, 10, 0);
    rig_end(&r);
}

static void sqlite__windows__each_has_its_balance_and_holds_stay_in_theirs(void **state)
{
    (void)state;
    struct rig r;
    rig_new(&r);
    rig_open(&r);
    uint32_t scope = rig_scope(&r, "day", WEIR_NONE, 100);
    struct weir_store_op window = rig_op(WEIR_LEDGER_WINDOW, scope, 0, 0);
    window.ledger.window = 1000;
    CHECK_STR(weir_ledger_result_name(rig_run(&r, &window)), "done");
    CHECK_STR(weir_ledger_result_name(rig_run(&r, &window)), "same");
    uint64_t a = next(&r), b = next(&r);
    RIG_DO(&r, RESERVE, scope, a, 60, HELD);
    RIG_DO(&r, RESERVE, scope, b, 30, HELD);
    window.ledger.window = 2000;
    CHECK_STR(weir_ledger_result_name(rig_run(&r, &window)), "done");
    RIG_TOTALS(&r, scope, 0, 0, 0);
    RIG_DO(&r, SETTLE, scope, a, 50, SETTLED);
    RIG_TOTALS(&r, scope, 0, 0, 0);
    CHECK_INT(rig_number(&r, "SELECT committed FROM balance WHERE window = 1000"), 50);
    rig_reopen(&r);
    scope = rig_scope(&r, "day", WEIR_NONE, 100);
    CHECK_INT(rig_totals(&r, scope).window, 2000);
    CHECK_INT(rig_number(&r, "SELECT lapsed FROM balance WHERE window = 1000"), 30);
    RIG_DO(&r, SETTLE, scope, b, 5, LATE);
    CHECK_INT(rig_number(&r, "SELECT committed FROM balance WHERE window = 1000"), 55);
    CHECK_INT(rig_number(&r, "SELECT lapsed FROM balance WHERE window = 1000"), 0);
    window = rig_op(WEIR_LEDGER_WINDOW, scope, 0, 0);
    window.ledger.window = 1000; /* yesterday does not come back */
    CHECK_STR(weir_ledger_result_name(rig_run(&r, &window)), "bad");
    rig_end(&r);
}

static void sqlite__grant_changed_by_hand__stays_until_the_configuration_changes(void **state)
{
    (void)state;
    struct rig r;
    rig_new(&r);
    rig_open(&r);
    uint32_t scope = rig_scope(&r, "a", WEIR_NONE, 100);
    struct weir_store_op by_hand = rig_op(WEIR_LEDGER_SCOPE, scope, 0, 500);
    by_hand.is_configured = false;
    CHECK_STR(weir_ledger_result_name(rig_run(&r, &by_hand)), "done");
    rig_reopen(&r);
    scope = rig_scope(&r, "a", WEIR_NONE, 100); /* as before: what was done by hand counts */
    CHECK_INT(rig_totals(&r, scope).granted_tok, 500);
    rig_reopen(&r);
    scope = rig_scope(&r, "a", WEIR_NONE, 200); /* the configuration has changed: it counts */
    CHECK_INT(rig_totals(&r, scope).granted_tok, 200);
    by_hand.ledger.scope = scope;
    by_hand.ledger.unlimited = true;
    CHECK_STR(weir_ledger_result_name(rig_run(&r, &by_hand)), "done");
    rig_reopen(&r);
    scope = rig_scope(&r, "a", WEIR_NONE, 200);
    CHECK(rig_totals(&r, scope).unlimited);
    rig_end(&r);
}

static void sqlite__lapse_refunds__gives_back_and_says_how_much(void **state)
{
    (void)state;
    struct rig r;
    rig_new(&r);
    rig_open(&r);
    uint32_t scope = weir_store_scope(r.st, "a");
    struct weir_store_op define = rig_op(WEIR_LEDGER_SCOPE, scope, 0, 100);
    define.ledger.lapse_refunds = true;
    CHECK_STR(weir_ledger_result_name(rig_run(&r, &define)), "done");
    uint64_t a = next(&r);
    RIG_DO(&r, RESERVE, scope, a, 60, HELD);
    rig_reopen(&r);
    scope = weir_store_scope(r.st, "a");
    RIG_TOTALS(&r, scope, 0, 0, 0);
    CHECK_INT(rig_totals(&r, scope).refunded_tok, 60);
    RIG_DO(&r, SETTLE, scope, a, 45, LATE);
    RIG_TOTALS(&r, scope, 0, 45, 0);
    rig_end(&r);
}

static void sqlite__scope_forgotten__its_slot_is_free_and_its_rows_stay(void **state)
{
    (void)state;
    struct rig r;
    rig_new(&r);
    r.config.scopes_max = 2;
    rig_open(&r);
    uint32_t a = rig_scope(&r, "a", WEIR_NONE, 100);
    uint64_t hold = next(&r);
    RIG_DO(&r, RESERVE, a, hold, 40, HELD);
    RIG_DO(&r, SCOPE_FORGET, a, 0, 0, BUSY);
    RIG_DO(&r, SETTLE, a, hold, 30, SETTLED);
    RIG_DO(&r, SCOPE_FORGET, a, 0, 0, DONE);
    struct weir_ledger_totals totals;
    CHECK(!weir_store_totals(r.st, a, &totals));
    CHECK(weir_store_scope_name(r.st, a) == NULL);
    CHECK_INT(rig_scope(&r, "b", WEIR_NONE, 10), a);
    RIG_TOTALS(&r, a, 0, 0, 0);
    RIG_DO(&r, SETTLE, a, hold, 30, SAME); /* no slot knows its scope: the row answers */
    RIG_DO(&r, SETTLE, a, hold, 31, CONFLICT);
    uint32_t again = rig_scope(&r, "a", WEIR_NONE, 100);
    CHECK(again != a);
    RIG_TOTALS(&r, again, 0, 30, 0); /* what it had counted is there */
    CHECK_INT(weir_store_scope(r.st, "c"), WEIR_NONE);
    rig_end(&r);
}

/* Forgotten and defined again in one batch: nothing of what it counted may be read too early. */
static void sqlite__scope_comes_back_in_the_same_batch__keeps_what_it_counted(void **state)
{
    (void)state;
    struct rig r;
    rig_new(&r);
    rig_open(&r);
    uint32_t a = rig_scope(&r, "a", WEIR_NONE, 100);
    for (int round = 1; round <= 20; round++) {
        struct weir_store_op ops[] = {rig_op(WEIR_LEDGER_ADJUST, a, 0, 3),
                                      rig_op(WEIR_LEDGER_SCOPE_FORGET, a, 0, 0),
                                      rig_op(WEIR_LEDGER_SCOPE, a, 0, 100)};
        for (size_t i = 0; i < WEIR_COUNT(ops); i++)
            CHECK(weir_store_submit(r.st, &ops[i]));
        for (size_t i = 0; i < WEIR_COUNT(ops); i++)
            CHECK_STR(weir_ledger_result_name(rig_answer(&r).result), "done");
        CHECK_STR(weir_store_scope_name(r.st, a), "a");
        CHECK_INT(rig_totals(&r, a).committed_tok, 3 * round);
    }
    rig_reopen(&r);
    a = rig_scope(&r, "a", WEIR_NONE, 100);
    CHECK_INT(rig_totals(&r, a).committed_tok, 60);
    CHECK_INT(rig_totals(&r, a).raised_tok, 60);
    rig_end(&r);
}

/* ---- batches ---- */

/* Batches so far. */
static uint64_t batches(const struct rig *r)
{
    struct weir_store_status status;
    weir_store_status(r->st, &status);
    return status.batches;
}

/* Looks so often whether there is another batch: time for a thread that should not begin one. */
static void look_for_batch(const struct rig *r, int looks)
{
    for (uint64_t before = batches(r); looks > 0 && batches(r) == before; looks--)
        ;
}

/* What a turn submits waits for its collect, and is one batch then. The thread may be awake for
 * house-keeping of its own just then, so it is most turns of which this is asked. */
static void sqlite__submits_of_a_turn__are_one_batch(void **state)
{
    (void)state;
    struct rig r;
    rig_new(&r);
    rig_open(&r);
    uint32_t scope = rig_scope(&r, "a", WEIR_NONE, 1000000);
    int whole = 0;
    for (int turn = 0; turn < 40; turn++) {
        uint64_t before = batches(&r);
        for (int i = 0; i < 20; i++) {
            struct weir_store_op op = rig_op(WEIR_LEDGER_ADJUST, scope, 0, 1);
            CHECK(weir_store_submit(r.st, &op));
            if (i == 0)
                look_for_batch(&r, 200);
        }
        for (int i = 0; i < 20; i++)
            CHECK_STR(weir_ledger_result_name(rig_answer(&r).result), "done");
        whole += batches(&r) - before == 1;
    }
    CHECK_MSG(whole >= 30, "%d of 40 turns were one batch", whole);
    CHECK_INT(rig_totals(&r, scope).committed_tok, 800);
    rig_end(&r);
}

/* A settle that comes alone waits a moment for a reserve to share its sync; with nobody to share it
 * is done all the same. */
static void sqlite__settle_and_the_next_reserve__share_a_sync(void **state)
{
    (void)state;
    struct rig r;
    rig_new(&r);
    rig_open(&r);
    uint32_t scope = rig_scope(&r, "a", WEIR_NONE, 1000000);
    struct weir_store_answer answer;
    uint64_t held = next(&r);
    int shared = 0;
    RIG_DO(&r, RESERVE, scope, held, 5, HELD);
    for (int round = 0; round < 40; round++) {
        uint64_t before = batches(&r);
        struct weir_store_op settle = rig_op(WEIR_LEDGER_SETTLE, scope, held, 5);
        CHECK(weir_store_submit(r.st, &settle));
        CHECK_INT(weir_store_collect(r.st, 1, &answer, 0), 0); /* the end of a turn */
        look_for_batch(&r, 80);
        held = next(&r);
        struct weir_store_op reserve = rig_op(WEIR_LEDGER_RESERVE, scope, held, 5);
        CHECK(weir_store_submit(r.st, &reserve));
        CHECK_STR(weir_ledger_result_name(rig_answer(&r).result), "settled");
        CHECK_STR(weir_ledger_result_name(rig_answer(&r).result), "held");
        shared += batches(&r) - before == 1;
    }
    CHECK_MSG(shared >= 30, "%d of 40 shared", shared);
    RIG_DO(&r, SETTLE, scope, held, 5, SETTLED);
    rig_end(&r);
}

/* ---- what is kept beside the balances ---- */

static void sqlite__usage__is_summed_by_hour_scope_upstream_and_model(void **state)
{
    (void)state;
    struct rig r;
    rig_new(&r);
    rig_open(&r);
    uint32_t scope = rig_scope(&r, "a", WEIR_NONE, 1000);
    uint32_t upstream = weir_store_label(r.st, "openai"), model = weir_store_label(r.st, "gpt-5");
    for (int i = 0; i < 4; i++) {
        uint64_t hold = next(&r);
        RIG_DO(&r, RESERVE, scope, hold, 50, HELD);
        struct weir_store_op settle = rig_op(WEIR_LEDGER_SETTLE, scope, hold, 30);
        settle.usage = (struct weir_store_usage){.input_tok = 20,
                                                 .cached_tok = 5,
                                                 .cache_write_tok = -1,
                                                 .output_tok = 10,
                                                 .upstream = upstream,
                                                 .model = i == 3 ? WEIR_LABEL_OTHER : model,
                                                 .estimated = i == 1};
        if (i == 2)
            rig_wall_set(RIG_START_S + 3600);
        CHECK_STR(weir_ledger_result_name(rig_run(&r, &settle)), "settled");
    }
    CHECK_INT(rig_number(&r, "SELECT count(*) FROM usage"), 3);
    CHECK_INT(rig_number(&r, "SELECT sum(requests) FROM usage"), 4);
    CHECK_INT(rig_number(&r, "SELECT sum(input) FROM usage"), 80);
    CHECK_INT(rig_number(&r, "SELECT sum(cached) FROM usage"), 20);
    CHECK_INT(rig_number(&r, "SELECT sum(cache_write) FROM usage"), 0);
    CHECK_INT(rig_number(&r, "SELECT sum(output) FROM usage"), 40);
    CHECK_INT(rig_number(&r, "SELECT sum(estimated) FROM usage"), 30);
    CHECK_INT(rig_number(&r, "SELECT max(requests) FROM usage JOIN label ON label.id = model "
                             "WHERE text = 'gpt-5' AND utc_hour = 500000"),
              2);
    RIG_DO(&r, SETTLE, scope, weir_ledger_hold_id(1, 900), 9, UNMATCHED);
    CHECK_INT(rig_number(&r, "SELECT sum(unmatched) FROM usage"), 9);
    rig_reopen(&r);
    CHECK_INT(weir_store_label(r.st, "gpt-5"), model);
    CHECK_INT(weir_store_label(r.st, "claude"), model + 1);
    rig_end(&r);
}

struct keys_seen {
    uint64_t holds[8];
    uint8_t first[8];
    int64_t created_s;
    int count;
};

static void key_seen(void *ctx, const uint8_t key[WEIR_STORE_KEY_BYTES], uint64_t hold,
                     int64_t created_s)
{
    struct keys_seen *seen = ctx;
    CHECK(seen->count < 8);
    seen->holds[seen->count] = hold;
    seen->first[seen->count++] = key[0];
    seen->created_s = created_s;
}

static void sqlite__keys__outlive_a_restart_unless_they_cost_nothing_or_are_old(void **state)
{
    (void)state;
    struct rig r;
    rig_new(&r);
    rig_open(&r);
    uint32_t scope = rig_scope(&r, "a", WEIR_NONE, 1000);
    uint64_t holds[5];
    for (uint8_t i = 0; i < 5; i++) {
        holds[i] = next(&r);
        struct weir_store_op reserve = rig_op(WEIR_LEDGER_RESERVE, scope, holds[i], 10);
        reserve.has_key = i != 3;
        memset(reserve.key, i + 1, sizeof reserve.key);
        CHECK_STR(weir_ledger_result_name(rig_run(&r, &reserve)), "held");
    }
    RIG_DO(&r, SETTLE, scope, holds[0], 5, SETTLED);
    RIG_DO(&r, VOID, scope, holds[1], 0, VOIDED);
    RIG_DO(&r, SETTLE, scope, holds[4], 0, SETTLED);
    struct keys_seen seen = {0};
    weir_store_keys(r.st, key_seen, &seen);
    CHECK_INT(seen.count, 0); /* of this run: its owner knows them */
    rig_reopen(&r);
    weir_store_keys(r.st, key_seen, &seen);
    CHECK_INT(seen.count, 2);
    CHECK(seen.holds[0] == holds[0] && seen.holds[1] == holds[2]);
    CHECK_INT(seen.first[0], 1);
    CHECK_INT(seen.first[1], 3);
    CHECK_INT(seen.created_s, RIG_START_S);
    rig_wall_set(RIG_START_S + 86400 + 1);
    seen.count = 0;
    weir_store_keys(r.st, key_seen, &seen);
    CHECK_INT(seen.count, 1); /* the lapsed one: it may still be settled */
    rig_end(&r);
}

static void sqlite__adjust__keeps_its_reason_in_the_journal(void **state)
{
    (void)state;
    struct rig r;
    rig_new(&r);
    rig_open(&r);
    uint32_t scope = rig_scope(&r, "a", WEIR_NONE, 1000);
    char reason[300];
    memset(reason, 'r', sizeof reason);
    reason[299] = '\0';
    struct weir_store_op adjust = rig_op(WEIR_LEDGER_ADJUST, scope, 0, -40);
    adjust.text = reason;
    CHECK(weir_store_submit(r.st, &adjust));
    memset(reason, 'x', sizeof reason - 1); /* the store has its own copy */
    CHECK_STR(weir_ledger_result_name(rig_answer(&r).result), "done");
    CHECK_INT(rig_totals(&r, scope).committed_tok, -40);
    CHECK_INT(rig_number(&r, "SELECT instr(data, cast(printf('%.200c', 'r') AS BLOB)) > 0 FROM "
                             "journal ORDER BY seq DESC LIMIT 1"),
              1);
    CHECK_INT(rig_number(&r, "SELECT instr(data, cast(printf('%.201c', 'r') AS BLOB)) FROM "
                             "journal ORDER BY seq DESC LIMIT 1"),
              0);
    rig_end(&r);
}

/* Reserves and settles so many holds, a few hundred to a batch. */
static void pass_by(struct rig *r, uint32_t scope, uint32_t count)
{
    enum { AT_ONCE = 500 };
    uint64_t ids[AT_ONCE];
    for (uint32_t done = 0; done < count; done += AT_ONCE) {
        for (uint32_t i = 0; i < AT_ONCE; i++) {
            ids[i] = next(r);
            struct weir_store_op op = rig_op(WEIR_LEDGER_RESERVE, scope, ids[i], 1);
            CHECK(weir_store_submit(r->st, &op));
        }
        for (uint32_t i = 0; i < AT_ONCE; i++)
            CHECK_INT(rig_answer(r).result, WEIR_LEDGER_HELD);
        for (uint32_t i = 0; i < AT_ONCE; i++) {
            struct weir_store_op op = rig_op(WEIR_LEDGER_SETTLE, scope, ids[i], 1);
            CHECK(weir_store_submit(r->st, &op));
        }
        for (uint32_t i = 0; i < AT_ONCE; i++)
            CHECK_INT(rig_answer(r).result, WEIR_LEDGER_SETTLED);
    }
}

#define LOW "SELECT v FROM meta WHERE k = 'low'"

static void sqlite__low_mark__follows_the_oldest_held_one_and_never_passes_it(void **state)
{
    (void)state;
    struct rig r;
    rig_new(&r);
    rig_open(&r);
    uint32_t scope = rig_scope(&r, "class", WEIR_NONE, -1);
    uint64_t early = next(&r), oldest = next(&r);
    RIG_DO(&r, RESERVE, scope, oldest, 7, HELD);
    pass_by(&r, scope, 5000);
    CHECK_INT(rig_number(&r, LOW), (int64_t)oldest);
    RIG_DO(&r, SETTLE, scope, oldest, 7, SETTLED);
    pass_by(&r, scope, 5000);
    CHECK(rig_number(&r, LOW) > (int64_t)oldest + 5000);
    /* Made before all others, held after them: it waited for budget. */
    RIG_DO(&r, RESERVE, scope, early, 9, HELD);
    CHECK_INT(rig_number(&r, LOW), (int64_t)early);
    rig_verify(&r);
    rig_reopen(&r);
    scope = weir_store_scope(r.st, "class");
    RIG_TOTALS(&r, scope, 0, 10007, 9); /* it was found, and lapsed */
    RIG_DO(&r, SETTLE, scope, early, 4, LATE);
    rig_end(&r);
}

/* ---- clocks ---- */

static void sqlite__clock_beyond_all_sense__counts_as_ever(void **state)
{
    (void)state;
    static const int64_t walls[] = {INT64_MIN, -1, 0, RIG_START_S, INT64_MAX};
    for (size_t i = 0; i < WEIR_COUNT(walls); i++)
        for (size_t k = 0; k < WEIR_COUNT(walls); k++) {
            struct rig r;
            rig_new(&r);
            r.config.clock_doubt_s = 600;
            rig_wall_set(walls[i]);
            rig_open(&r);
            uint32_t scope = rig_scope(&r, "a", WEIR_NONE, 1000);
            uint64_t a = next(&r);
            RIG_DO(&r, RESERVE, scope, a, 10, HELD);
            RIG_DO(&r, SETTLE, scope, a, 7, SETTLED);
            rig_wall_set(walls[k]);
            RIG_DO(&r, RESERVE, scope, next(&r), 10, HELD);
            rig_reopen(&r);
            scope = rig_scope(&r, "a", WEIR_NONE, 1000);
            RIG_TOTALS(&r, scope, 0, 7, 10);
            rig_end(&r);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sqlite__clock_beyond_all_sense__counts_as_ever),
        cmocka_unit_test(sqlite__restart__balances_and_holds_are_there),
        cmocka_unit_test(sqlite__each_transition__is_in_the_row_of_the_hold),
        cmocka_unit_test(sqlite__hold_only_in_the_file__repeats_are_known),
        cmocka_unit_test(sqlite__windows__each_has_its_balance_and_holds_stay_in_theirs),
        cmocka_unit_test(sqlite__grant_changed_by_hand__stays_until_the_configuration_changes),
        cmocka_unit_test(sqlite__lapse_refunds__gives_back_and_says_how_much),
        cmocka_unit_test(sqlite__scope_forgotten__its_slot_is_free_and_its_rows_stay),
        cmocka_unit_test(sqlite__scope_comes_back_in_the_same_batch__keeps_what_it_counted),
        cmocka_unit_test(sqlite__submits_of_a_turn__are_one_batch),
        cmocka_unit_test(sqlite__settle_and_the_next_reserve__share_a_sync),
        cmocka_unit_test(sqlite__usage__is_summed_by_hour_scope_upstream_and_model),
        cmocka_unit_test(sqlite__keys__outlive_a_restart_unless_they_cost_nothing_or_are_old),
        cmocka_unit_test(sqlite__adjust__keeps_its_reason_in_the_journal),
        cmocka_unit_test(sqlite__low_mark__follows_the_oldest_held_one_and_never_passes_it),
    };
    return cmocka_run_group_tests_name("sqlite", tests, NULL, NULL);
}
