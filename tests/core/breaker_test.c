/* The breaker alone: every rule of its header, at both sides of each boundary. */
#include "core/breaker.h"
#include "support/check.h"

#define SECOND WEIR_NS_PER_S

static const struct weir_breaker_rules ROW_ONLY = {.failures_in_row = 5,
                                                   .window_s = 30,
                                                   .trials = 1,
                                                   .cooldown_ns = 15 * SECOND,
                                                   .cooldown_max_ns = 60 * SECOND};

static void call(struct weir_breaker *b, enum weir_breaker_outcome outcome, uint64_t now_ns)
{
    struct weir_breaker_ticket ticket = weir_breaker_admit(b, now_ns);
    weir_breaker_report(b, ticket, outcome, now_ns);
}

static void calls(struct weir_breaker *b, uint32_t count, enum weir_breaker_outcome outcome,
                  uint64_t now_ns)
{
    for (uint32_t i = 0; i < count; i++)
        call(b, outcome, now_ns);
}

static struct weir_breaker breaker(const struct weir_breaker_rules *rules)
{
    struct weir_breaker b;
    weir_breaker_init(&b, rules);
    return b;
}

/* Open at now_ns, by five failures. */
static struct weir_breaker breaker_open(const struct weir_breaker_rules *rules, uint64_t now_ns)
{
    struct weir_breaker b = breaker(rules);
    calls(&b, 5, WEIR_BREAKER_FAILURE, now_ns);
    CHECK_INT(b.state, WEIR_BREAKER_OPEN);
    return b;
}

static void breaker__statuses__5xx_is_failure_4xx_and_429_neutral(void **state)
{
    (void)state;
    static const struct {
        uint32_t status;
        enum weir_breaker_outcome outcome;
    } rows[] = {
        {200, WEIR_BREAKER_SUCCESS}, {204, WEIR_BREAKER_SUCCESS}, {302, WEIR_BREAKER_SUCCESS},
        {400, WEIR_BREAKER_NEUTRAL}, {401, WEIR_BREAKER_NEUTRAL}, {404, WEIR_BREAKER_NEUTRAL},
        {413, WEIR_BREAKER_NEUTRAL}, {429, WEIR_BREAKER_NEUTRAL}, {499, WEIR_BREAKER_NEUTRAL},
        {500, WEIR_BREAKER_FAILURE}, {503, WEIR_BREAKER_FAILURE}, {529, WEIR_BREAKER_FAILURE}};
    for (size_t i = 0; i < WEIR_COUNT(rows); i++)
        CHECK_MSG(weir_breaker_outcome_of_status(rows[i].status) == rows[i].outcome, "status %u",
                  rows[i].status);
}

static void breaker__five_failures_in_a_row__open_and_four_do_not(void **state)
{
    (void)state;
    struct weir_breaker b = breaker(&ROW_ONLY);
    calls(&b, 4, WEIR_BREAKER_FAILURE, SECOND);
    CHECK(weir_breaker_may_pass(&b, SECOND));
    call(&b, WEIR_BREAKER_FAILURE, SECOND);
    CHECK_INT(b.state, WEIR_BREAKER_OPEN);
    CHECK(!weir_breaker_may_pass(&b, SECOND));
    CHECK_INT(weir_breaker_open_for_ns(&b, SECOND), 15 * SECOND);
}

static void breaker__a_success_ends_the_row_and_a_neutral_does_not(void **state)
{
    (void)state;
    struct weir_breaker b = breaker(&ROW_ONLY);
    calls(&b, 4, WEIR_BREAKER_FAILURE, SECOND);
    call(&b, WEIR_BREAKER_SUCCESS, SECOND);
    calls(&b, 4, WEIR_BREAKER_FAILURE, SECOND);
    CHECK_INT(b.state, WEIR_BREAKER_CLOSED);
    calls(&b, 100, WEIR_BREAKER_NEUTRAL, SECOND); /* 429s must not wipe out real failures */
    calls(&b, 3, WEIR_BREAKER_UNUSED, SECOND);
    CHECK_INT(b.state, WEIR_BREAKER_CLOSED);
    call(&b, WEIR_BREAKER_FAILURE, SECOND);
    CHECK_INT(b.state, WEIR_BREAKER_OPEN);
}

static void breaker__half_of_twenty_calls_in_the_window__opens(void **state)
{
    (void)state;
    struct weir_breaker_rules share = weir_breaker_rules_default();
    share.failures_in_row = 0;
    struct weir_breaker b = breaker(&share);
    for (uint32_t i = 0; i < 9; i++) { /* 18 calls, half of them failures: too few to judge */
        call(&b, WEIR_BREAKER_SUCCESS, SECOND);
        call(&b, WEIR_BREAKER_FAILURE, SECOND);
    }
    call(&b, WEIR_BREAKER_SUCCESS, SECOND);
    CHECK_INT(b.state, WEIR_BREAKER_CLOSED);
    call(&b, WEIR_BREAKER_FAILURE, SECOND); /* 10 of 20 */
    CHECK_INT(b.state, WEIR_BREAKER_OPEN);

    b = breaker(&share);
    calls(&b, 11, WEIR_BREAKER_SUCCESS, SECOND);
    calls(&b, 10, WEIR_BREAKER_FAILURE, SECOND); /* 10 of 21 */
    CHECK_INT(b.state, WEIR_BREAKER_CLOSED);
    call(&b, WEIR_BREAKER_FAILURE, SECOND); /* 11 of 22 */
    CHECK_INT(b.state, WEIR_BREAKER_OPEN);
}

static void breaker__calls_that_left_the_window__do_not_count(void **state)
{
    (void)state;
    struct weir_breaker_rules share = weir_breaker_rules_default();
    share.failures_in_row = 0;
    struct weir_breaker b = breaker(&share);
    calls(&b, 19, WEIR_BREAKER_FAILURE, 100 * SECOND);
    CHECK_INT(b.state, WEIR_BREAKER_CLOSED);
    struct weir_breaker later = b;
    call(&b, WEIR_BREAKER_FAILURE, 129 * SECOND); /* in the last of thirty seconds */
    CHECK_INT(b.state, WEIR_BREAKER_OPEN);
    call(&later, WEIR_BREAKER_FAILURE, 130 * SECOND);
    CHECK_INT(later.state, WEIR_BREAKER_CLOSED);
}

static void breaker__cooldown_over__exactly_k_trials_pass(void **state)
{
    (void)state;
    for (uint32_t trials = 1; trials <= 4; trials++) {
        struct weir_breaker_rules rules = ROW_ONLY;
        rules.trials = trials;
        struct weir_breaker b = breaker_open(&rules, SECOND);
        CHECK(!weir_breaker_may_pass(&b, 16 * SECOND - 1));
        uint32_t passed = 0;
        for (uint32_t client = 0; client < 50; client++) {
            if (!weir_breaker_may_pass(&b, 16 * SECOND))
                continue;
            struct weir_breaker_ticket ticket = weir_breaker_admit(&b, 16 * SECOND);
            CHECK(ticket.is_trial);
            passed++;
        }
        CHECK_INT(passed, trials);
        CHECK_INT(b.state, WEIR_BREAKER_HALF_OPEN);
    }
}

static void breaker__all_trials_succeed__closes(void **state)
{
    (void)state;
    struct weir_breaker_rules rules = ROW_ONLY;
    rules.trials = 3;
    struct weir_breaker b = breaker_open(&rules, SECOND);
    call(&b, WEIR_BREAKER_SUCCESS, 16 * SECOND);
    call(&b, WEIR_BREAKER_SUCCESS, 16 * SECOND);
    CHECK_INT(b.state, WEIR_BREAKER_HALF_OPEN);
    call(&b, WEIR_BREAKER_SUCCESS, 16 * SECOND);
    CHECK_INT(b.state, WEIR_BREAKER_CLOSED);
    CHECK(weir_breaker_may_pass(&b, 16 * SECOND));
}

static void breaker__every_outcome_of_a_trial__frees_its_place(void **state)
{
    (void)state;
    static const enum weir_breaker_outcome outcomes[] = {WEIR_BREAKER_SUCCESS, WEIR_BREAKER_FAILURE,
                                                         WEIR_BREAKER_NEUTRAL, WEIR_BREAKER_UNUSED};
    static const enum weir_breaker_state after[] = {WEIR_BREAKER_CLOSED, WEIR_BREAKER_OPEN,
                                                    WEIR_BREAKER_HALF_OPEN, WEIR_BREAKER_HALF_OPEN};
    for (size_t i = 0; i < WEIR_COUNT(outcomes); i++) {
        struct weir_breaker b = breaker_open(&ROW_ONLY, SECOND);
        struct weir_breaker_ticket ticket = weir_breaker_admit(&b, 16 * SECOND);
        CHECK(!weir_breaker_may_pass(&b, 16 * SECOND));
        CHECK(weir_breaker_report(&b, ticket, outcomes[i], 16 * SECOND));
        CHECK_INT(b.state, after[i]);
        CHECK_INT(b.trials_out, 0);
        /* and whatever it was, the upstream can be tried again, at the latest after the next
         * cool-down */
        CHECK(weir_breaker_may_pass(&b, 16 * SECOND + 60 * SECOND));
    }
}

static void breaker__a_failed_trial__doubles_the_cooldown_to_its_maximum(void **state)
{
    (void)state;
    static const uint64_t seconds[] = {15, 30, 60, 60, 60};
    struct weir_breaker b = breaker_open(&ROW_ONLY, SECOND);
    uint64_t now_ns = SECOND;
    for (size_t i = 0; i < WEIR_COUNT(seconds); i++) {
        CHECK_INT(weir_breaker_open_for_ns(&b, now_ns), seconds[i] * SECOND);
        now_ns += seconds[i] * SECOND;
        call(&b, WEIR_BREAKER_FAILURE, now_ns);
    }
}

static void breaker__trips_again_soon_after_closing__doubles_and_later_does_not(void **state)
{
    (void)state;
    struct weir_breaker b = breaker_open(&ROW_ONLY, SECOND);
    call(&b, WEIR_BREAKER_SUCCESS, 16 * SECOND);
    CHECK_INT(b.state, WEIR_BREAKER_CLOSED);
    struct weir_breaker later = b;
    calls(&b, 5, WEIR_BREAKER_FAILURE, 31 * SECOND - 1); /* closed for less than 15 s */
    CHECK_INT(weir_breaker_open_for_ns(&b, 31 * SECOND - 1), 30 * SECOND);
    calls(&later, 5, WEIR_BREAKER_FAILURE, 31 * SECOND);
    CHECK_INT(weir_breaker_open_for_ns(&later, 31 * SECOND), 15 * SECOND);
}

static void breaker__results_of_calls_from_before__change_nothing(void **state)
{
    (void)state;
    struct weir_breaker b = breaker(&ROW_ONLY);
    struct weir_breaker_ticket old[6];
    for (size_t i = 0; i < WEIR_COUNT(old); i++)
        old[i] = weir_breaker_admit(&b, SECOND);
    calls(&b, 5, WEIR_BREAKER_FAILURE, SECOND);
    CHECK_INT(b.state, WEIR_BREAKER_OPEN);
    /* A late success does not close it, late failures neither lengthen the cool-down nor trip it
     * twice. */
    CHECK(!weir_breaker_report(&b, old[0], WEIR_BREAKER_SUCCESS, 2 * SECOND));
    CHECK(!weir_breaker_report(&b, old[1], WEIR_BREAKER_FAILURE, 2 * SECOND));
    CHECK_INT(b.state, WEIR_BREAKER_OPEN);
    CHECK_INT(b.open_until_ns, 16 * SECOND);
    struct weir_breaker_ticket trial = weir_breaker_admit(&b, 16 * SECOND);
    CHECK(!weir_breaker_report(&b, old[2], WEIR_BREAKER_FAILURE, 16 * SECOND));
    CHECK(!weir_breaker_report(&b, old[3], WEIR_BREAKER_SUCCESS, 16 * SECOND));
    CHECK_INT(b.state, WEIR_BREAKER_HALF_OPEN);
    CHECK_INT(b.trials_out, 1);
    CHECK(weir_breaker_report(&b, trial, WEIR_BREAKER_SUCCESS, 17 * SECOND));
    CHECK_INT(b.state, WEIR_BREAKER_CLOSED);
    CHECK(!weir_breaker_report(&b, old[4], WEIR_BREAKER_FAILURE, 18 * SECOND));
    CHECK_INT(b.failures_in_row_now, 0);
    CHECK_INT(b.calls, 11);
    CHECK_INT(b.failures, 8);
}

static void breaker__a_trial_of_an_earlier_half_open__does_not_free_a_later_ones_place(void **state)
{
    (void)state;
    struct weir_breaker_rules rules = ROW_ONLY;
    rules.trials = 2;
    struct weir_breaker b = breaker_open(&rules, SECOND);
    struct weir_breaker_ticket slow = weir_breaker_admit(&b, 16 * SECOND);
    call(&b, WEIR_BREAKER_FAILURE, 16 * SECOND); /* the other one: open again, for 30 s */
    CHECK_INT(b.state, WEIR_BREAKER_OPEN);
    struct weir_breaker_ticket first = weir_breaker_admit(&b, 46 * SECOND);
    struct weir_breaker_ticket second = weir_breaker_admit(&b, 46 * SECOND);
    CHECK(first.is_trial && second.is_trial);
    CHECK(!weir_breaker_report(&b, slow, WEIR_BREAKER_NEUTRAL, 46 * SECOND));
    CHECK(!weir_breaker_may_pass(&b, 46 * SECOND));
}

static void breaker__a_pause__is_clamped_and_never_shortened(void **state)
{
    (void)state;
    static const struct {
        uint64_t hint_ns, want_ns;
    } rows[] = {{0, SECOND},
                {1, SECOND},
                {SECOND, SECOND},
                {7 * SECOND, 7 * SECOND},
                {60 * SECOND, 60 * SECOND},
                {86400 * SECOND, 60 * SECOND},
                {UINT64_MAX, 60 * SECOND}};
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct weir_breaker b = breaker(&ROW_ONLY);
        weir_breaker_pause(&b, rows[i].hint_ns, 5 * SECOND);
        CHECK_INT(weir_breaker_paused_for_ns(&b, 5 * SECOND), rows[i].want_ns);
        CHECK_INT(b.state, WEIR_BREAKER_CLOSED);
        CHECK_INT(weir_breaker_paused_for_ns(&b, 5 * SECOND + rows[i].want_ns), 0);
    }
    struct weir_breaker b = breaker(&ROW_ONLY);
    weir_breaker_pause(&b, 30 * SECOND, 5 * SECOND);
    weir_breaker_pause(&b, 2 * SECOND, 6 * SECOND);
    CHECK_INT(weir_breaker_paused_for_ns(&b, 6 * SECOND), 29 * SECOND);
}

static void breaker__other_rules_while_half_open__do_not_lock_it(void **state)
{
    (void)state;
    struct weir_breaker_rules rules = ROW_ONLY;
    rules.trials = 3;
    struct weir_breaker b = breaker_open(&rules, SECOND);
    call(&b, WEIR_BREAKER_SUCCESS, 16 * SECOND);
    call(&b, WEIR_BREAKER_SUCCESS, 16 * SECOND);
    rules.trials = 1; /* two have passed already */
    weir_breaker_rules_set(&b, &rules);
    CHECK(weir_breaker_may_pass(&b, 16 * SECOND));
    CHECK_INT(b.state, WEIR_BREAKER_CLOSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(breaker__statuses__5xx_is_failure_4xx_and_429_neutral),
        cmocka_unit_test(breaker__five_failures_in_a_row__open_and_four_do_not),
        cmocka_unit_test(breaker__a_success_ends_the_row_and_a_neutral_does_not),
        cmocka_unit_test(breaker__half_of_twenty_calls_in_the_window__opens),
        cmocka_unit_test(breaker__calls_that_left_the_window__do_not_count),
        cmocka_unit_test(breaker__cooldown_over__exactly_k_trials_pass),
        cmocka_unit_test(breaker__all_trials_succeed__closes),
        cmocka_unit_test(breaker__every_outcome_of_a_trial__frees_its_place),
        cmocka_unit_test(breaker__a_failed_trial__doubles_the_cooldown_to_its_maximum),
        cmocka_unit_test(breaker__trips_again_soon_after_closing__doubles_and_later_does_not),
        cmocka_unit_test(breaker__results_of_calls_from_before__change_nothing),
        cmocka_unit_test(
            breaker__a_trial_of_an_earlier_half_open__does_not_free_a_later_ones_place),
        cmocka_unit_test(breaker__a_pause__is_clamped_and_never_shortened),
        cmocka_unit_test(breaker__other_rules_while_half_open__do_not_lock_it),
    };
    return cmocka_run_group_tests_name("breaker", tests, NULL, NULL);
}
