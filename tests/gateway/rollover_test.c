/* Windows of budgets begin on time, by clocks of the test's own and a store that answers at once,
 * late, or not at all. */
#include "support/check.h"

#include "gateway/rollover.h"

#include <stdlib.h>

#define S WEIR_NS_PER_S
#define DAY INT64_C(86400)
#define MONDAY INT64_C(1795996800) /* 2026-11-30T00:00Z */

enum { SCOPES_MAX = 5000 };

/* The world: one store, two clocks, and what was told. */
struct world {
    struct weir_store *store;
    struct weir_rollover *rollover;
    uint64_t now_ns;
    int64_t wall_ns;
    uint64_t due_ns;
    uint64_t reset_ns[SCOPES_MAX];
    char said[2048];
    uint32_t windows_begun;
};

static int64_t world_wall_ns(void *ctx)
{
    return ((struct world *)ctx)->wall_ns;
}

static void world_reset_at(void *ctx, uint32_t scope, uint64_t reset_ns)
{
    ((struct world *)ctx)->reset_ns[scope] = reset_ns;
}

static void world_say(void *ctx, enum weir_log_level level, const char *text)
{
    struct world *w = ctx;
    size_t used = strlen(w->said);
    snprintf(w->said + used, sizeof w->said - used, "%s%s\n", level == WEIR_LOG_WARN ? "! " : "",
             text);
}

static struct weir_store *memory_store(void)
{
    return weir_memory_store_open(&(struct weir_memory_store_config){
        .scopes_max = SCOPES_MAX, .holds_max = 64, .finished_keep = 64});
}

static void world_open(struct world *w, struct weir_store *store, int64_t wall_s)
{
    *w = (struct world){.store = store, .now_ns = 1000 * S, .wall_ns = wall_s * (int64_t)S};
    const struct weir_rollover_host host = {.store = store,
                                            .wall_ns = world_wall_ns,
                                            .reset_at = world_reset_at,
                                            .say = world_say,
                                            .ctx = w};
    w->rollover = weir_rollover_create(&host, SCOPES_MAX);
    CHECK(store && w->rollover);
}

static void world_close(struct world *w)
{
    weir_rollover_destroy(w->rollover);
    weir_store_close(w->store);
}

static void submit(struct world *w, const struct weir_ledger_op *op)
{
    CHECK(weir_store_submit(w->store,
                            &(struct weir_store_op){.ledger = *op, .deadline_ns = WEIR_NEVER_NS}));
}

/* Defines a scope; window 0: none yet. */
static uint32_t define(struct world *w, const char *name, const struct weir_window_rule *rule,
                       uint64_t window)
{
    uint32_t scope = weir_store_scope(w->store, name);
    CHECK(scope < SCOPES_MAX);
    submit(w,
           &(struct weir_ledger_op){
               .kind = WEIR_LEDGER_SCOPE, .scope = scope, .parent = WEIR_NONE, .amount_tok = 1000});
    if (window)
        submit(w, &(struct weir_ledger_op){
                      .kind = WEIR_LEDGER_WINDOW, .scope = scope, .window = window});
    weir_rollover_add(w->rollover, scope, rule);
    return scope;
}

/* What the gateway does in a turn: ticks when due, collects, ticks again when asked to. */
static void turn(struct world *w)
{
    bool again = w->now_ns >= w->due_ns;
    for (int rounds = 0; rounds < 100; rounds++) {
        struct weir_store_answer answers[64];
        if (again)
            w->due_ns = weir_rollover_tick(w->rollover, w->now_ns);
        again = false;
        size_t count = weir_store_collect(w->store, w->now_ns, answers, 64);
        for (size_t i = 0; i < count; i++) {
            w->windows_begun +=
                answers[i].kind == WEIR_LEDGER_WINDOW && answers[i].result == WEIR_LEDGER_DONE;
            again = weir_rollover_answer(w->rollover, &answers[i], w->now_ns) || again;
        }
        if (count == 0)
            return;
    }
    fail_msg("the store and the rollover keep each other busy");
}

/* Time passes, evenly, in steps of a loop that wakes when something is due. */
static void pass(struct world *w, uint64_t time_ns)
{
    uint64_t until_ns = w->now_ns + time_ns;
    while (w->now_ns < until_ns) {
        turn(w);
        CHECK(w->due_ns <= w->now_ns + S);
        uint64_t next_ns = weir_min_u64(until_ns, weir_max_u64(w->due_ns, w->now_ns + 1));
        w->wall_ns += (int64_t)(next_ns - w->now_ns);
        w->now_ns = next_ns;
    }
    turn(w);
}

static uint64_t window_of(struct world *w, uint32_t scope)
{
    struct weir_ledger_totals totals;
    CHECK(weir_store_totals(w->store, scope, &totals));
    return totals.window;
}

static const struct weir_window_rule daily = {.period = WEIR_PERIOD_DAY};
static const struct weir_window_rule hourly = {.period = WEIR_PERIOD_HOUR};

static void rollover__new_scopes__begin_at_once_and_then_on_time(void **state)
{
    (void)state;
    static struct world w;
    world_open(&w, memory_store(), MONDAY + DAY - 90);
    uint32_t day = define(&w, "day", &daily, 0), hour = define(&w, "hour", &hourly, 0);
    turn(&w);
    CHECK_INT(window_of(&w, day), MONDAY);
    CHECK_INT(window_of(&w, hour), MONDAY + DAY - 3600);
    CHECK_INT(w.reset_ns[day], w.now_ns + 90 * S);
    CHECK_INT(w.reset_ns[hour], w.now_ns + 90 * S);
    pass(&w, 90 * S - 1);
    CHECK_INT(window_of(&w, day), MONDAY);
    CHECK_INT(w.due_ns, w.now_ns + 1); /* not a nanosecond late */
    pass(&w, 1);
    CHECK_INT(window_of(&w, day), MONDAY + DAY);
    CHECK_INT(window_of(&w, hour), MONDAY + DAY);
    CHECK_INT(w.reset_ns[day], w.now_ns + DAY * S);
    CHECK_INT(w.reset_ns[hour], w.now_ns + 3600 * S);
    pass(&w, (uint64_t)DAY * S);
    CHECK_INT(window_of(&w, day), MONDAY + 2 * DAY);
    CHECK_INT(w.windows_begun, 2 + 2 + 24 + 1);
    CHECK_STR(w.said, "");
    world_close(&w);
}

/* A hold of before midnight is settled after it: it counts in the day it was taken in. */
static void rollover__a_hold_over_midnight__stays_in_its_window(void **state)
{
    (void)state;
    static struct world w;
    world_open(&w, memory_store(), MONDAY + DAY - 10);
    uint32_t day = define(&w, "day", &daily, 0);
    turn(&w);
    uint64_t hold = weir_store_hold_next(w.store);
    submit(&w, &(struct weir_ledger_op){
                   .kind = WEIR_LEDGER_RESERVE, .scope = day, .hold = hold, .amount_tok = 900});
    pass(&w, 20 * S);
    submit(&w, &(struct weir_ledger_op){
                   .kind = WEIR_LEDGER_SETTLE, .scope = day, .hold = hold, .amount_tok = 800});
    turn(&w);
    struct weir_ledger_totals totals;
    CHECK(weir_store_totals(w.store, day, &totals));
    CHECK_INT(totals.window, MONDAY + DAY);
    CHECK_INT(weir_ledger_used_tok(&totals), 0);
    CHECK(weir_memory_store_audit(w.store) == NULL);
    world_close(&w);
}

static void rollover__the_clock_goes_back__nothing_is_granted_again(void **state)
{
    (void)state;
    static struct world w;
    world_open(&w, memory_store(), MONDAY + 100);
    uint32_t day = define(&w, "day", &daily, 0), hour = define(&w, "hour", &hourly, 0);
    pass(&w, 10 * S);
    w.wall_ns -= 7200 * (int64_t)S; /* yesterday */
    pass(&w, 30 * S);
    CHECK_INT(window_of(&w, day), MONDAY);
    CHECK_INT(window_of(&w, hour), MONDAY);
    CHECK_STR(w.said, "! the clock was set back by 7200 s: windows of budgets that began stay as "
                      "they are\n");
    /* The hint goes by the clock as it runs: what was two minutes short of an hour away is now an
     * hour and two hours. */
    CHECK_INT(w.reset_ns[hour], w.now_ns + (3600 - 140 + 7200) * S);
    pass(&w, (3600 - 140 + 7200) * S);
    CHECK_INT(window_of(&w, hour), MONDAY + 3600);
    CHECK_INT(window_of(&w, day), MONDAY);
    CHECK_INT(w.windows_begun, 3);
    world_close(&w);
}

static void rollover__the_clock_leaps_ahead__waits_60_s_and_says_so_once(void **state)
{
    (void)state;
    static struct world w;
    world_open(&w, memory_store(), MONDAY + 100);
    uint32_t day = define(&w, "day", &daily, 0);
    define(&w, "hour", &hourly, 0);
    pass(&w, 10 * S);
    w.wall_ns += 30 * DAY * (int64_t)S;
    uint64_t leapt_ns = w.now_ns;
    pass(&w, S);
    CHECK_INT(window_of(&w, day), MONDAY);
    CHECK_INT(weir_rollover_held_back(w.rollover), 2);
    CHECK(strstr(w.said, "! the clock was set ahead by 2592000 s: "));
    CHECK(strstr(w.said, "! scope hour (and 1 more): by the clock its window is that of "
                         "2026-12-30T00:00:00Z, 720 windows after that of 2026-11-30T00:00:00Z, in "
                         "which it is."));
    uint64_t trusted_ns = w.reset_ns[day];
    CHECK(trusted_ns >= leapt_ns + 60 * S && trusted_ns <= leapt_ns + 61 * S);
    w.said[0] = '\0';
    w.wall_ns += DAY * (int64_t)S; /* and again: the minute begins anew */
    pass(&w, 30 * S);
    CHECK_STR(w.said, "! the clock was set ahead by 86400 s: windows of budgets that began stay as "
                      "they are\n");
    CHECK(w.reset_ns[day] > trusted_ns);
    trusted_ns = w.reset_ns[day];
    w.said[0] = '\0';
    pass(&w, trusted_ns - w.now_ns - 1);
    CHECK_INT(window_of(&w, day), MONDAY);
    CHECK_STR(w.said, "");
    pass(&w, 1);
    CHECK_INT(window_of(&w, day), MONDAY + 31 * DAY);
    CHECK_INT(weir_rollover_held_back(w.rollover), 0);
    CHECK_STR(w.said, "the clock is believed again: no scope is held in its old window\n");
    world_close(&w);
}

static void rollover__a_leap_that_is_set_right__changes_nothing(void **state)
{
    (void)state;
    static struct world w;
    world_open(&w, memory_store(), MONDAY + 100);
    uint32_t day = define(&w, "day", &daily, 0);
    pass(&w, 10 * S);
    w.wall_ns += 30 * DAY * (int64_t)S;
    pass(&w, 40 * S);
    CHECK_INT(weir_rollover_held_back(w.rollover), 1);
    w.wall_ns -= 30 * DAY * (int64_t)S;
    pass(&w, 100 * S);
    CHECK_INT(weir_rollover_held_back(w.rollover), 0);
    CHECK_INT(window_of(&w, day), MONDAY);
    CHECK_INT(w.reset_ns[day], w.now_ns + (uint64_t)(DAY - 250) * S);
    pass(&w, (uint64_t)(DAY - 250) * S);
    CHECK_INT(window_of(&w, day), MONDAY + DAY);
    CHECK_INT(w.windows_begun, 2);
    world_close(&w);
}

static void rollover__a_start_after_days__is_confirmed_by_hand(void **state)
{
    (void)state;
    static struct world w;
    world_open(&w, memory_store(), MONDAY + 100);
    uint32_t day = define(&w, "day", &daily, (uint64_t)(MONDAY - 5 * DAY));
    uint32_t late = define(&w, "late", &daily, (uint64_t)(MONDAY - DAY));
    turn(&w);
    CHECK_INT(window_of(&w, day), MONDAY - 5 * DAY);
    CHECK_INT(window_of(&w, late), MONDAY); /* down over one midnight */
    CHECK_INT(w.reset_ns[day], w.now_ns + 60 * S);
    CHECK_INT(weir_rollover_confirm(w.rollover), 1);
    w.due_ns = 0;
    turn(&w);
    CHECK_INT(window_of(&w, day), MONDAY);
    CHECK_INT(w.reset_ns[day], w.now_ns + (uint64_t)(DAY - 100) * S);
    world_close(&w);
}

/* The present window is another period's: it lasts until the new one's next start. */
static void rollover__a_changed_period__goes_on_from_the_present_window(void **state)
{
    (void)state;
    static struct world w;
    const struct weir_window_rule monthly = {.period = WEIR_PERIOD_MONTH, .anchor = 1};
    world_open(&w, memory_store(), MONDAY + 100);
    uint32_t scope = define(&w, "s", &monthly, (uint64_t)MONDAY); /* it was by the day */
    pass(&w, (uint64_t)(DAY - 101) * S);
    CHECK_INT(window_of(&w, scope), MONDAY);
    pass(&w, S);
    CHECK_INT(window_of(&w, scope), MONDAY + DAY); /* the first of December */
    CHECK_INT(w.reset_ns[scope], w.now_ns + 31 * DAY * S);
    world_close(&w);
}

static void rollover__midnight_of_thousands__is_done_in_rounds(void **state)
{
    (void)state;
    static struct world w;
    world_open(&w, memory_store(), MONDAY + DAY - 30);
    for (uint32_t i = 0; i < SCOPES_MAX; i++) {
        char name[16];
        struct weir_store_answer answers[64];
        snprintf(name, sizeof name, "s%u", i);
        define(&w, name, &daily, 0);
        CHECK(weir_store_collect(w.store, w.now_ns, answers, 64) > 0);
    }
    pass(&w, 29 * S);
    CHECK_INT(w.windows_begun, SCOPES_MAX);
    pass(&w, 2 * S);
    CHECK_INT(w.windows_begun, 2 * SCOPES_MAX);
    for (uint32_t i = 0; i < SCOPES_MAX; i++)
        CHECK_INT(window_of(&w, i), MONDAY + DAY);
    CHECK_STR(w.said, "");
    world_close(&w);
}

/* Requests must find room beside the windows: no more than a bounded number is under way. */
static void rollover__midnight_of_thousands__leaves_room_for_requests(void **state)
{
    (void)state;
    static struct world w;
    struct weir_store *store = weir_faulty_store_open(
        memory_store(),
        &(struct weir_faulty_store_config){.queue_max = 2 * SCOPES_MAX, .delay_collects = 1});
    world_open(&w, store, MONDAY + DAY);
    for (uint32_t i = 0; i < SCOPES_MAX; i++) {
        char name[16];
        snprintf(name, sizeof name, "s%u", i);
        define(&w, name, &daily, 0);
    }
    for (uint32_t begun = 0, rounds = 0; begun < SCOPES_MAX; rounds++) {
        static struct weir_store_answer answers[3 * SCOPES_MAX];
        uint32_t windows = 0;
        CHECK(rounds < 100);
        CHECK(weir_rollover_tick(w.rollover, w.now_ns) > w.now_ns); /* no spin */
        size_t count = weir_store_collect(w.store, w.now_ns, answers, WEIR_COUNT(answers));
        for (size_t i = 0; i < count; i++) {
            windows += answers[i].kind == WEIR_LEDGER_WINDOW;
            weir_rollover_answer(w.rollover, &answers[i], w.now_ns);
        }
        CHECK(windows <= WEIR_ROLLOVER_AT_ONCE);
        begun += windows;
    }
    CHECK_STR(w.said, "");
    world_close(&w);
}

/* A store that takes three at a time and answers two collects later. */
static void rollover__a_store_that_is_full_and_slow__gets_there(void **state)
{
    (void)state;
    static struct world w;
    struct weir_store *store = weir_faulty_store_open(
        memory_store(), &(struct weir_faulty_store_config){.queue_max = 3, .delay_collects = 2});
    world_open(&w, store, MONDAY + DAY - 30);
    for (uint32_t i = 0; i < 50; i++) {
        char name[16];
        struct weir_store_answer answers[64];
        snprintf(name, sizeof name, "s%u", i);
        define(&w, name, &daily, 0);
        while (weir_store_collect(w.store, w.now_ns, answers, 64) == 0)
            ;
    }
    pass(&w, 20 * S);
    CHECK_INT(w.windows_begun, 50);
    w.wall_ns += 10 * (int64_t)S;
    w.now_ns += 10 * S; /* midnight */
    CHECK_INT(weir_rollover_tick(w.rollover, w.now_ns), w.now_ns + 10 * WEIR_NS_PER_MS);
    pass(&w, 5 * S);
    CHECK_INT(w.windows_begun, 100);
    for (uint32_t i = 0; i < 50; i++)
        CHECK_INT(window_of(&w, i), MONDAY + DAY);
    world_close(&w);
}

/* A store that has lost its disk: each answer is UNAVAILABLE for a while. */
static void rollover__a_store_that_cannot__is_asked_again_each_second(void **state)
{
    (void)state;
    static struct world w;
    world_open(&w, memory_store(), MONDAY + DAY - 5);
    uint32_t day = define(&w, "day", &daily, 0);
    pass(&w, 4 * S);
    w.wall_ns += (int64_t)S;
    w.now_ns += S; /* midnight */
    for (int i = 0; i < 30; i++) {
        struct weir_store_answer answers[64];
        uint64_t due_ns = weir_rollover_tick(w.rollover, w.now_ns);
        CHECK_INT(weir_store_collect(w.store, w.now_ns, answers, 64), 1);
        CHECK_INT(answers[0].kind, WEIR_LEDGER_WINDOW);
        answers[0].result = i % 2 ? WEIR_LEDGER_UNAVAILABLE : WEIR_LEDGER_FULL; /* it says */
        CHECK(!weir_rollover_answer(w.rollover, &answers[0], w.now_ns));
        due_ns = weir_rollover_tick(w.rollover, w.now_ns);
        CHECK_INT(weir_store_collect(w.store, w.now_ns, answers, 64), 0);
        CHECK_INT(due_ns, w.now_ns + S);
        w.wall_ns += (int64_t)S;
        w.now_ns += S;
    }
    CHECK_STR(w.said, "! the ledger could not begin a window of scope day (full): admission stays "
                      "in the old one; asked again every second\n");
    w.said[0] = '\0';
    w.due_ns = 0;
    turn(&w);
    CHECK_STR(w.said, "the ledger begins windows again\n");
    CHECK_INT(w.reset_ns[day], w.now_ns + (uint64_t)(DAY - 30) * S);
    world_close(&w);
}

/* Answers to WINDOW operations of somebody else, or to ones long done, are not taken for ours. */
static void rollover__answers_of_others__are_left_alone(void **state)
{
    (void)state;
    static struct world w;
    world_open(&w, memory_store(), MONDAY + 100);
    uint32_t day = define(&w, "day", &daily, 0);
    turn(&w);
    const struct weir_store_answer others[] = {
        {.kind = WEIR_LEDGER_WINDOW, .result = WEIR_LEDGER_DONE, .tag = 0, .scope = day},
        {.kind = WEIR_LEDGER_WINDOW, .result = WEIR_LEDGER_DONE, .tag = 0, .scope = day + 1},
        {.kind = WEIR_LEDGER_WINDOW, .result = WEIR_LEDGER_DONE, .tag = UINT64_MAX, .scope = day},
        {.kind = WEIR_LEDGER_SETTLE, .result = WEIR_LEDGER_SETTLED, .tag = 0, .scope = day}};
    for (size_t i = 0; i < WEIR_COUNT(others); i++)
        CHECK(!weir_rollover_answer(w.rollover, &others[i], w.now_ns));
    pass(&w, (uint64_t)(DAY - 100) * S - 1);
    w.now_ns++;
    w.wall_ns++;
    w.due_ns = weir_rollover_tick(w.rollover, w.now_ns); /* asked; the answer is under way */
    for (size_t i = 1; i < WEIR_COUNT(others); i++)
        CHECK(!weir_rollover_answer(w.rollover, &others[i], w.now_ns));
    turn(&w);
    CHECK_INT(window_of(&w, day), MONDAY + DAY);
    CHECK_INT(w.windows_begun, 2);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rollover__new_scopes__begin_at_once_and_then_on_time),
        cmocka_unit_test(rollover__a_hold_over_midnight__stays_in_its_window),
        cmocka_unit_test(rollover__the_clock_goes_back__nothing_is_granted_again),
        cmocka_unit_test(rollover__the_clock_leaps_ahead__waits_60_s_and_says_so_once),
        cmocka_unit_test(rollover__a_leap_that_is_set_right__changes_nothing),
        cmocka_unit_test(rollover__a_start_after_days__is_confirmed_by_hand),
        cmocka_unit_test(rollover__a_changed_period__goes_on_from_the_present_window),
        cmocka_unit_test(rollover__midnight_of_thousands__is_done_in_rounds),
        cmocka_unit_test(rollover__midnight_of_thousands__leaves_room_for_requests),
        cmocka_unit_test(rollover__a_store_that_is_full_and_slow__gets_there),
        cmocka_unit_test(rollover__a_store_that_cannot__is_asked_again_each_second),
        cmocka_unit_test(rollover__answers_of_others__are_left_alone),
    };
    return cmocka_run_group_tests_name("gateway/rollover", tests, NULL, NULL);
}
