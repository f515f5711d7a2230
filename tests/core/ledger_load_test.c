/* Rows that a ledger is loaded from are input: whatever is in them, they are taken whole or refused and
 * change nothing. */
#include "core/ledger.h"

#include <stdlib.h>

#include "core/rng.h"
#include "support/check.h"
#include "support/ledger_rows.h"

/* A ledger with org (0), class (1) under it and room for little, and rows that fit it. */
struct bench {
    void *mem;
    size_t bytes;
    struct weir_ledger *l;
    struct weir_ledger_balance org, class, class_past;
    struct weir_ledger_record settled;
};

static const struct weir_ledger_limits bench_limits = {3, 5, 4};

static uint64_t id(uint64_t epoch, uint64_t counter)
{
    return weir_ledger_hold_id(epoch, counter);
}

static struct bench bench_empty(void)
{
    struct bench b = {.bytes = weir_ledger_bytes(&bench_limits)};
    b.l = ledger_in_memory(&bench_limits, 5, &b.mem);
    const struct weir_ledger_rules org = {.parent = WEIR_NONE, .granted_tok = 1000};
    const struct weir_ledger_rules class = {.parent = 0, .granted_tok = 100};
    CHECK_INT(weir_ledger_scope_set(b.l, 0, &org).result, WEIR_LEDGER_DONE);
    CHECK_INT(weir_ledger_scope_set(b.l, 1, &class).result, WEIR_LEDGER_DONE);
    b.org = (struct weir_ledger_balance){
        .scope = 0, .window = 7, .granted_tok = 1000, .committed_tok = 90, .lowered_tok = 10};
    b.class = (struct weir_ledger_balance){
        .scope = 1, .window = 9, .granted_tok = 100, .committed_tok = 50};
    b.class_past = (struct weir_ledger_balance){.scope = 1,
                                                .window = 8,
                                                .granted_tok = 30,
                                                .committed_tok = 50,
                                                .overrun_tok = 20,
                                                .refunded_tok = 5};
    b.settled = (struct weir_ledger_record){.id = id(4, 1),
                                            .state = WEIR_HOLD_SETTLED,
                                            .asked_tok = 30,
                                            .booked_tok = 50,
                                            .depth = 2,
                                            .chain = {{1, 8}, {0, 7}}};
    return b;
}

static struct bench bench_loaded(void)
{
    struct bench b = bench_empty();
    CHECK_INT(weir_ledger_load_balance(b.l, &b.class_past).result, WEIR_LEDGER_DONE);
    CHECK_INT(weir_ledger_load_balance(b.l, &b.org).result, WEIR_LEDGER_DONE);
    CHECK_INT(weir_ledger_load_balance(b.l, &b.class).result, WEIR_LEDGER_DONE);
    return b;
}

/* Gives an answer and leaves every byte of the ledger as it was. */
#define EXPECT_UNCHANGED(b, call, want)                                                            \
    do {                                                                                           \
        void *before = malloc((b)->bytes);                                                         \
        memcpy(before, (b)->mem, (b)->bytes);                                                      \
        enum weir_ledger_result got = (call).result;                                               \
        CHECK_MSG(got == (want), "%s, want %s", weir_ledger_result_name(got),                      \
                  weir_ledger_result_name(want));                                                  \
        CHECK(memcmp(before, (b)->mem, (b)->bytes) == 0);                                          \
        free(before);                                                                              \
    } while (0)

static void load__rows_out_of_range_or_contradicting_themselves__are_bad(void **state)
{
    (void)state;
    struct bench b = bench_empty();
    const struct weir_ledger_balance good = b.org;
    CHECK(good.committed_tok == 90 && good.lowered_tok == 10);
#define BAD_ROW(field, value)                                                                      \
    do {                                                                                           \
        struct weir_ledger_balance bad = good;                                                     \
        bad.field = (value);                                                                       \
        EXPECT_UNCHANGED(&b, weir_ledger_load_balance(b.l, &bad), WEIR_LEDGER_BAD);                \
    } while (0)
    BAD_ROW(scope, 2); /* not defined */
    BAD_ROW(scope, 3); /* out of range */
    BAD_ROW(scope, WEIR_NONE);
    BAD_ROW(granted_tok, -1);
    BAD_ROW(granted_tok, WEIR_TOK_MAX + 1);
    BAD_ROW(granted_tok, WEIR_BALANCE_MAX + 1);
    BAD_ROW(granted_tok, 80);   /* 90 used, and no cause for the 10 above */
    BAD_ROW(reserved_tok, 911); /* 1,001 used */
    BAD_ROW(lapsed_tok, 911);
    BAD_ROW(lowered_tok, -1);
    BAD_ROW(committed_tok, -11); /* more taken away than was ever there */
    BAD_ROW(raised_tok, 101);
    const int64_t far[] = {-1, INT64_MIN, -WEIR_TOK_MAX, WEIR_BALANCE_MAX + 1, INT64_MAX};
    for (size_t i = 0; i < WEIR_COUNT(far); i++) {
        BAD_ROW(reserved_tok, far[i]);
        BAD_ROW(lapsed_tok, far[i]);
        BAD_ROW(overrun_tok, far[i]);
        BAD_ROW(cut_tok, far[i]);
        BAD_ROW(raised_tok, far[i]);
        BAD_ROW(lowered_tok, far[i]);
        BAD_ROW(unmatched_tok, far[i]);
        BAD_ROW(refunded_tok, far[i]);
    }
    BAD_ROW(committed_tok, INT64_MIN);
    BAD_ROW(committed_tok, INT64_MAX);
    BAD_ROW(committed_tok, WEIR_BALANCE_MAX + 1);
    CHECK_INT(weir_ledger_load_balance(b.l, &good).result, WEIR_LEDGER_DONE);
    EXPECT_UNCHANGED(&b, weir_ledger_load_balance(b.l, &good), WEIR_LEDGER_SAME);
    free(b.mem);
}

static void load__records_out_of_range_or_contradicting_themselves__are_bad(void **state)
{
    (void)state;
    struct bench b = bench_loaded();
    const struct weir_ledger_record good = b.settled;
    /* The first look puts the past balance to the front of its list, which is allowed: once. */
#define BAD_RECORD(...)                                                                            \
    do {                                                                                           \
        struct weir_ledger_record r = good;                                                        \
        __VA_ARGS__;                                                                               \
        EXPECT_UNCHANGED(&b, weir_ledger_load_hold(b.l, &r), WEIR_LEDGER_BAD);                     \
    } while (0)
    BAD_RECORD(r.state = WEIR_HOLD_NONE);
    BAD_RECORD(r.state = (enum weir_hold_state)WEIR_HOLD_STATE_COUNT);
    BAD_RECORD(r.state = WEIR_HOLD_VOID);                    /* and yet it counts */
    BAD_RECORD(r.state = WEIR_HOLD_LAPSED, r.id = id(5, 1)); /* its owner lives */
    BAD_RECORD(r.state = WEIR_HOLD_HELD, r.id = id(6, 1));   /* of an epoch to come */
    BAD_RECORD(r.id = id(6, 1));
    BAD_RECORD(r.id = id(0, 1));
    BAD_RECORD(r.id = id(4, 0));
    BAD_RECORD(r.asked_tok = -1); /* settled without a reserve: that is late */
    BAD_RECORD(r.asked_tok = -1, r.state = WEIR_HOLD_HELD);
    BAD_RECORD(r.asked_tok = -2);
    BAD_RECORD(r.asked_tok = WEIR_TOK_MAX + 1);
    BAD_RECORD(r.booked_tok = -1);
    BAD_RECORD(r.booked_tok = INT64_MIN);
    BAD_RECORD(r.booked_tok = WEIR_TOK_MAX + 1);
    BAD_RECORD(r.booked_tok = 51); /* class committed 50 then */
    BAD_RECORD(r.depth = 0);
    BAD_RECORD(r.depth = WEIR_LEDGER_DEPTH_MAX + 1);
    BAD_RECORD(r.depth = 255);
    BAD_RECORD(r.chain[0].scope = 2);
    BAD_RECORD(r.chain[1].scope = 3);
    BAD_RECORD(r.chain[1].scope = WEIR_NONE);
    BAD_RECORD(r.chain[0].window = 6);
    BAD_RECORD(r.chain[1].window = 8);
    BAD_RECORD(r.chain[1] = r.chain[0]);                        /* one balance twice */
    BAD_RECORD(r.chain[1] = ((struct weir_ledger_link){1, 9})); /* one scope twice */

    CHECK_INT(weir_ledger_load_hold(b.l, &good).result, WEIR_LEDGER_DONE);
    BAD_RECORD(r.booked_tok = 0);                  /* it is known */
    BAD_RECORD(r.id = id(4, 2), r.booked_tok = 1); /* all 50 of class are accounted for */
    BAD_RECORD(r.id = id(4, 2), r.booked_tok = 51,
               r.chain[0].window = 9); /* class has 50, org 100 - 50 */
    CHECK(weir_ledger_audit(b.l) == NULL);
    free(b.mem);
}

static void load__holds_out_of_the_order_of_their_epochs__are_bad(void **state)
{
    (void)state;
    struct bench b = bench_empty();
    b.class.reserved_tok = b.org.reserved_tok = 30;
    CHECK_INT(weir_ledger_load_balance(b.l, &b.class).result, WEIR_LEDGER_DONE);
    CHECK_INT(weir_ledger_load_balance(b.l, &b.org).result, WEIR_LEDGER_DONE);
    struct weir_ledger_record r = {.id = id(4, 1),
                                   .state = WEIR_HOLD_HELD,
                                   .asked_tok = 5,
                                   .booked_tok = 15,
                                   .depth = 2,
                                   .chain = {{1, 9}, {0, 7}}};
    CHECK_INT(weir_ledger_load_hold(b.l, &r).result, WEIR_LEDGER_DONE);
    CHECK(weir_ledger_audit(b.l) != NULL); /* half of what is reserved has no hold yet */
    r.id = id(3, 1);
    EXPECT_UNCHANGED(&b, weir_ledger_load_hold(b.l, &r), WEIR_LEDGER_BAD);
    r.id = id(4, 7);
    CHECK_INT(weir_ledger_load_hold(b.l, &r).result, WEIR_LEDGER_DONE);
    CHECK(weir_ledger_audit(b.l) == NULL);
    CHECK_INT(weir_ledger_lapse(b.l, 9), 2);
    free(b.mem);
}

static void load__no_room__is_full_and_changes_nothing(void **state)
{
    (void)state;
    struct bench b = bench_loaded(); /* 4 of 5 balances: org's and class's first were taken over */
    struct weir_ledger_balance past = b.class_past;
    past.window = 3;
    CHECK_INT(weir_ledger_load_balance(b.l, &past).result, WEIR_LEDGER_DONE);
    past.window = 4;
    CHECK_INT(weir_ledger_load_balance(b.l, &past).result, WEIR_LEDGER_DONE);
    past.window = 5;
    EXPECT_UNCHANGED(&b, weir_ledger_load_balance(b.l, &past), WEIR_LEDGER_FULL);
    past = b.class;
    past.window = 10;
    EXPECT_UNCHANGED(&b, weir_ledger_load_balance(b.l, &past), WEIR_LEDGER_FULL);

    struct weir_ledger_record r = b.settled;
    r.booked_tok = 1;
    for (r.id = id(4, 1); r.id <= id(4, 4); r.id++)
        CHECK_INT(weir_ledger_load_hold(b.l, &r).result, WEIR_LEDGER_DONE);
    EXPECT_UNCHANGED(&b, weir_ledger_load_hold(b.l, &r), WEIR_LEDGER_FULL);

    struct weir_ledger_balance row;
    CHECK(!weir_ledger_changed_next(b.l, &row)); /* drops the two that no hold came for */
    past.window = 10;
    CHECK_INT(weir_ledger_load_balance(b.l, &past).result, WEIR_LEDGER_DONE);
    CHECK(weir_ledger_audit(b.l) == NULL);
    free(b.mem);
}

/* A present balance that was told and is named by nobody makes way for the row of a later window. */
static void load__a_later_window__takes_the_place_of_one_in_use(void **state)
{
    (void)state;
    struct bench b = bench_loaded();
    struct weir_ledger_balance row;
    CHECK(!weir_ledger_changed_next(b.l, &row));
    CHECK_INT(weir_ledger_adjust(b.l, 1, 7).result, WEIR_LEDGER_DONE);
    CHECK(weir_ledger_changed_next(b.l, &row) && weir_ledger_changed_next(b.l, &row));
    b.class.window = 12;
    CHECK_INT(weir_ledger_load_balance(b.l, &b.class).result, WEIR_LEDGER_DONE);
    CHECK(weir_ledger_audit(b.l) == NULL);
    CHECK(!weir_ledger_changed_next(b.l, &row));
    struct weir_ledger_totals t;
    CHECK(weir_ledger_totals(b.l, 1, &t) && t.window == 12 && t.committed_tok == 50);
    free(b.mem);
}

static void load__the_grant_of_the_latest_row__is_the_scopes(void **state)
{
    (void)state;
    struct bench b = bench_loaded(); /* a past row with a grant of 30 came first */
    struct weir_ledger_totals t;
    CHECK(weir_ledger_totals(b.l, 1, &t));
    CHECK_INT(t.granted_tok, 100);
    CHECK(!t.unlimited);
    b.class.window = 10;
    b.class.granted_tok = WEIR_BALANCE_MAX;
    CHECK_INT(weir_ledger_load_balance(b.l, &b.class).result, WEIR_LEDGER_DONE);
    CHECK(weir_ledger_totals(b.l, 1, &t) && t.unlimited && t.granted_tok == WEIR_BALANCE_MAX);
    CHECK_INT(weir_ledger_window_begin(b.l, 1, 11).result, WEIR_LEDGER_DONE);
    CHECK(weir_ledger_totals(b.l, 1, &t) && t.unlimited && t.granted_tok == WEIR_BALANCE_MAX);
    CHECK(weir_ledger_audit(b.l) == NULL);
    free(b.mem);
}

static int64_t draw_tok(struct weir_rng *rng)
{
    const int64_t edges[] = {0,
                             1,
                             10,
                             50,
                             WEIR_TOK_MAX,
                             WEIR_BALANCE_MAX,
                             -1,
                             100,
                             WEIR_TOK_MAX + 1,
                             INT64_MAX,
                             INT64_MIN,
                             -WEIR_BALANCE_MAX};
    if (weir_chance(rng, 1, 20))
        return (int64_t)weir_rng_u64(rng);
    return edges[weir_chance(rng, 3, 4) ? weir_rng_below(rng, 4)
                                        : weir_rng_below(rng, WEIR_COUNT(edges))];
}

/* Rows of anything, in any order: the ledger stays one that works. What its holds do not cover is the
 * only fact an audit may miss afterwards. */
static void load__rows_of_anything__never_break_the_tables(void **state)
{
    (void)state;
    uint64_t done = 0, refused = 0;
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        struct weir_rng rng;
        weir_rng_seed(&rng, seed, 0);
        struct bench b = bench_empty();
        for (int step = 0; step < 40; step++) {
            enum weir_ledger_result result;
            if (weir_chance(&rng, 1, 2)) {
                const struct weir_ledger_balance row = {.scope = (uint32_t)weir_rng_below(&rng, 4),
                                                        .window = weir_rng_below(&rng, 5),
                                                        .granted_tok = draw_tok(&rng),
                                                        .reserved_tok = draw_tok(&rng),
                                                        .committed_tok = draw_tok(&rng),
                                                        .lapsed_tok = draw_tok(&rng),
                                                        .overrun_tok = draw_tok(&rng),
                                                        .cut_tok = draw_tok(&rng),
                                                        .raised_tok = draw_tok(&rng),
                                                        .lowered_tok = draw_tok(&rng),
                                                        .unmatched_tok = draw_tok(&rng),
                                                        .refunded_tok = draw_tok(&rng)};
                result = weir_ledger_load_balance(b.l, &row).result;
            } else {
                struct weir_ledger_record r = {
                    .id = id(weir_rng_below(&rng, 7), weir_rng_below(&rng, 6)),
                    .state = (enum weir_hold_state)weir_rng_below(&rng, 7),
                    .asked_tok = draw_tok(&rng),
                    .booked_tok = draw_tok(&rng),
                    .depth = (uint8_t)weir_rng_below(&rng, 4)};
                for (int i = 0; i < WEIR_LEDGER_DEPTH_MAX; i++)
                    r.chain[i] = (struct weir_ledger_link){(uint32_t)weir_rng_below(&rng, 4),
                                                           weir_rng_below(&rng, 5)};
                result = weir_ledger_load_hold(b.l, &r).result;
            }
            done += result == WEIR_LEDGER_DONE;
            refused += result != WEIR_LEDGER_DONE;
            const char *wrong = weir_ledger_audit(b.l);
            CHECK_MSG(!wrong || strstr(wrong, "is the sum of the"), "seed %llu, step %d: %s",
                      (unsigned long long)seed, step, wrong);
            struct weir_ledger_balance row;
            if (weir_chance(&rng, 1, 8))
                CHECK(!weir_ledger_changed_next(b.l, &row) || row.scope < 3);
        }
        free(b.mem);
    }
    CHECK_MSG(done > 2000 && refused > 2000, "%llu done, %llu refused", (unsigned long long)done,
              (unsigned long long)refused);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(load__rows_out_of_range_or_contradicting_themselves__are_bad),
        cmocka_unit_test(load__records_out_of_range_or_contradicting_themselves__are_bad),
        cmocka_unit_test(load__holds_out_of_the_order_of_their_epochs__are_bad),
        cmocka_unit_test(load__no_room__is_full_and_changes_nothing),
        cmocka_unit_test(load__a_later_window__takes_the_place_of_one_in_use),
        cmocka_unit_test(load__the_grant_of_the_latest_row__is_the_scopes),
        cmocka_unit_test(load__rows_of_anything__never_break_the_tables),
    };
    return cmocka_run_group_tests_name("ledger_load", tests, NULL, NULL);
}
