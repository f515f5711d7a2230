#include "support/check.h"

#include "core/window.h"

#define S WEIR_NS_PER_S
#define DAY INT64_C(86400)

/* A budget by the day, with its clocks: what the host does, in ten lines. */
struct host {
    struct weir_window_clock clock;
    uint64_t now_ns;
    int64_t wall_s;
    uint64_t present;
};

static enum weir_window_verdict look(struct host *h)
{
    uint64_t computed = (uint64_t)(h->wall_s / DAY * DAY);
    (void)weir_window_clock_see(&h->clock, h->wall_s * (int64_t)S, h->now_ns);
    enum weir_window_verdict verdict =
        weir_window_judge(&h->clock, h->present, h->present + DAY, computed, h->now_ns);
    if (verdict == WEIR_WINDOW_ROLL)
        h->present = computed;
    return verdict;
}

/* Time passes as it should. */
static void pass(struct host *h, int64_t seconds)
{
    h->wall_s += seconds;
    h->now_ns += (uint64_t)seconds * S;
}

static struct host start(int64_t wall_s, uint64_t present)
{
    return (struct host){.now_ns = 5000 * S, .wall_s = wall_s, .present = present};
}

#define NOON (20000 * DAY + DAY / 2)

static void window__no_window_yet__begins_at_once(void **state)
{
    (void)state;
    struct host h = start(NOON, 0);
    CHECK_INT(look(&h), WEIR_WINDOW_ROLL);
    CHECK_INT(h.present, 20000 * DAY);
    CHECK_INT(look(&h), WEIR_WINDOW_STAY);
}

static void window__time_passes__rolls_at_the_boundary_and_not_before(void **state)
{
    (void)state;
    struct host h = start(NOON, 20000 * DAY);
    pass(&h, DAY / 2 - 1);
    CHECK_INT(look(&h), WEIR_WINDOW_STAY);
    pass(&h, 1);
    CHECK_INT(look(&h), WEIR_WINDOW_ROLL);
    CHECK_INT(h.present, 20001 * DAY);
    for (int day = 2; day < 40; day++) {
        pass(&h, DAY);
        CHECK_INT(look(&h), WEIR_WINDOW_ROLL);
        CHECK_INT(h.present, (20000 + day) * DAY);
    }
}

static void window__nobody_looked_for_days__rolls_when_the_clocks_agree(void **state)
{
    (void)state;
    struct host h = start(NOON, 20000 * DAY);
    CHECK_INT(look(&h), WEIR_WINDOW_STAY);
    pass(&h, 10 * DAY);
    CHECK_INT(look(&h), WEIR_WINDOW_ROLL);
    CHECK_INT(h.present, 20010 * DAY);
}

static void window__the_clock_goes_back__stays(void **state)
{
    (void)state;
    struct host h = start(NOON, 20000 * DAY);
    CHECK_INT(look(&h), WEIR_WINDOW_STAY);
    h.wall_s -= 3 * DAY;
    for (int i = 0; i < 200; i++) {
        pass(&h, 10);
        CHECK_INT(look(&h), WEIR_WINDOW_STAY);
        CHECK_INT(h.present, 20000 * DAY);
    }
    h.wall_s += 3 * DAY; /* set right again */
    CHECK_INT(look(&h), WEIR_WINDOW_STAY);
    pass(&h, DAY / 2);
    CHECK_INT(look(&h), WEIR_WINDOW_ROLL);
    CHECK_INT(h.present, 20001 * DAY);
}

static void window__a_step_of_one_window__is_believed(void **state)
{
    (void)state;
    struct host h = start(NOON, 20000 * DAY);
    CHECK_INT(look(&h), WEIR_WINDOW_STAY);
    h.wall_s += DAY;
    CHECK_INT(look(&h), WEIR_WINDOW_ROLL);
    CHECK_INT(h.present, 20001 * DAY);
}

static void window__a_step_of_two__alarms_until_60_s_of_agreement(void **state)
{
    (void)state;
    struct host h = start(NOON, 20000 * DAY);
    CHECK_INT(look(&h), WEIR_WINDOW_STAY);
    pass(&h, 3600);
    CHECK_INT(look(&h), WEIR_WINDOW_STAY);
    h.wall_s += 2 * DAY;
    CHECK_INT(look(&h), WEIR_WINDOW_ALARM);
    CHECK_INT(weir_window_clock_trusted_ns(&h.clock), h.now_ns + 60 * S);
    pass(&h, 59);
    CHECK_INT(look(&h), WEIR_WINDOW_ALARM);
    CHECK_INT(h.present, 20000 * DAY);
    pass(&h, 1);
    CHECK_INT(look(&h), WEIR_WINDOW_ROLL);
    CHECK_INT(h.present, 20002 * DAY);
}

static void window__an_alarm_and_the_clock_is_set_right__stays_quietly(void **state)
{
    (void)state;
    struct host h = start(NOON, 20000 * DAY);
    CHECK_INT(look(&h), WEIR_WINDOW_STAY);
    h.wall_s += 700 * DAY;
    CHECK_INT(look(&h), WEIR_WINDOW_ALARM);
    pass(&h, 30);
    CHECK_INT(look(&h), WEIR_WINDOW_ALARM);
    h.wall_s -= 700 * DAY;
    CHECK_INT(look(&h), WEIR_WINDOW_STAY);
    pass(&h, DAY / 2);
    CHECK_INT(look(&h), WEIR_WINDOW_ROLL);
    CHECK_INT(h.present, 20001 * DAY);
}

/* A clock that is set again and again never gets its 60 s. */
static void window__each_step__begins_the_60_s_anew(void **state)
{
    (void)state;
    struct host h = start(NOON, 20000 * DAY);
    CHECK_INT(look(&h), WEIR_WINDOW_STAY);
    for (int i = 0; i < 20; i++) {
        h.wall_s += 2 * DAY;
        CHECK_INT(look(&h), WEIR_WINDOW_ALARM);
        pass(&h, 59);
        CHECK_INT(look(&h), WEIR_WINDOW_ALARM);
    }
    pass(&h, 1);
    CHECK_INT(look(&h), WEIR_WINDOW_ROLL);
}

static void window__a_start_after_days__waits_60_s_in_the_old_window(void **state)
{
    (void)state;
    struct host h = start(NOON, 19990 * DAY);
    CHECK_INT(look(&h), WEIR_WINDOW_ALARM);
    pass(&h, 59);
    CHECK_INT(look(&h), WEIR_WINDOW_ALARM);
    pass(&h, 1);
    CHECK_INT(look(&h), WEIR_WINDOW_ROLL);
    CHECK_INT(h.present, 20000 * DAY);

    h = start(NOON, 19999 * DAY); /* down over one midnight only */
    CHECK_INT(look(&h), WEIR_WINDOW_ROLL);
}

/* Windows of a second: a stall of some is caught up with, one of an hour is looked at first. */
static void window__a_leap_within_a_minute__is_believed(void **state)
{
    (void)state;
    struct weir_window_clock clock = {0};
    CHECK_INT(weir_window_clock_see(&clock, NOON * (int64_t)S, 5 * S), 0);
    CHECK_INT(weir_window_judge(&clock, NOON, NOON + 1, NOON + 60, 6 * S), WEIR_WINDOW_ROLL);
    CHECK_INT(weir_window_judge(&clock, NOON, NOON + 1, NOON + 61, 6 * S), WEIR_WINDOW_ALARM);
}

static void window__a_confirmation__is_for_the_clock_as_it_is(void **state)
{
    (void)state;
    struct host h = start(NOON, 19990 * DAY);
    CHECK_INT(look(&h), WEIR_WINDOW_ALARM);
    weir_window_clock_confirm(&h.clock);
    CHECK_INT(look(&h), WEIR_WINDOW_ROLL);
    CHECK_INT(h.present, 20000 * DAY);
    h.wall_s += 5 * DAY; /* nobody confirmed this one */
    CHECK_INT(look(&h), WEIR_WINDOW_ALARM);
}

static void clock__what_is_a_step_and_what_is_not(void **state)
{
    (void)state;
    struct weir_window_clock clock = {0};
    const int64_t second = (int64_t)S;
    CHECK_INT(weir_window_clock_trusted_ns(&clock), WEIR_NEVER_NS);
    CHECK_INT(weir_window_clock_see(&clock, 1000 * second, 7 * S), 0); /* the first tells nothing */
    CHECK_INT(weir_window_clock_see(&clock, 1002 * second, 8 * S), 0); /* a second off */
    CHECK_INT(weir_window_clock_see(&clock, 1002 * second, 9 * S), 0); /* and back */
    CHECK_INT(clock.agreed_since_ns, 7 * S);
    const int64_t more =
        second + 2 * (int64_t)WEIR_NS_PER_MS; /* than 1 s and a thousandth of 1 s */
    CHECK_INT(weir_window_clock_see(&clock, 1003 * second + more, 10 * S), more);
    CHECK_INT(clock.agreed_since_ns, 10 * S);
    CHECK_INT(weir_window_clock_see(&clock, 1004 * second, 11 * S), -more);
    CHECK_INT(clock.agreed_since_ns, 11 * S);
    /* Set right gradually, 500 millionths for a day: 43 s in all, in readings an hour apart. */
    int64_t wall_ns = 1004 * second;
    uint64_t now_ns = 11 * S;
    for (int hour = 0; hour < 24; hour++) {
        wall_ns += 3600 * second + 1800 * (int64_t)WEIR_NS_PER_MS;
        now_ns += 3600 * S;
        CHECK_INT(weir_window_clock_see(&clock, wall_ns, now_ns), 0);
    }
    CHECK_INT(clock.agreed_since_ns, 11 * S);
    CHECK_INT(weir_window_clock_see(&clock, 0, now_ns), -wall_ns); /* to 1970 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(window__no_window_yet__begins_at_once),
        cmocka_unit_test(window__time_passes__rolls_at_the_boundary_and_not_before),
        cmocka_unit_test(window__nobody_looked_for_days__rolls_when_the_clocks_agree),
        cmocka_unit_test(window__the_clock_goes_back__stays),
        cmocka_unit_test(window__a_step_of_one_window__is_believed),
        cmocka_unit_test(window__a_step_of_two__alarms_until_60_s_of_agreement),
        cmocka_unit_test(window__an_alarm_and_the_clock_is_set_right__stays_quietly),
        cmocka_unit_test(window__each_step__begins_the_60_s_anew),
        cmocka_unit_test(window__a_start_after_days__waits_60_s_in_the_old_window),
        cmocka_unit_test(window__a_leap_within_a_minute__is_believed),
        cmocka_unit_test(window__a_confirmation__is_for_the_clock_as_it_is),
        cmocka_unit_test(clock__what_is_a_step_and_what_is_not),
    };
    return cmocka_run_group_tests_name("core/window", tests, NULL, NULL);
}
