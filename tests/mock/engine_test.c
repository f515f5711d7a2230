/* The mock's engine on a clock that stands still: when tokens come, and whose turn it is, to the
 * nanosecond. */
#include "mock/mock_engine.h"

#include "core/rng.h"
#include "support/check.h"

#define TICK                                                                                       \
    (UINT64_C(1) << WEIR_TICK_SHIFT) /* times are whole ticks, so that nothing is rounded */

enum { SEQUENCES = 64, LOG = 4096 };

struct seen {
    uint32_t who;
    uint64_t at_tick;
    bool last;
};

struct bed {
    struct weir_loop *loop;
    struct mock_engine *engine;
    struct mock_sequence sequences[SEQUENCES];
    uint64_t from_ns;
    uint64_t now_tick; /* since from_ns */
    struct seen log[LOG];
    uint32_t count;
};

static struct bed *bed_now; /* the callback has no context */

static void bed_token(struct mock_sequence *s, uint32_t count, bool last)
{
    struct bed *bed = bed_now;
    CHECK_INT(count, 1);
    CHECK(bed->count < LOG);
    bed->log[bed->count++] = (struct seen){(uint32_t)(s - bed->sequences), bed->now_tick, last};
}

static void bed_open(struct bed *bed, const struct mock_engine_rules *rules)
{
    memset(bed, 0, sizeof *bed);
    bed->loop = weir_loop_create();
    CHECK(bed->loop);
    bed->from_ns = (weir_loop_clock_ns() / TICK + 2) * TICK;
    weir_loop_time_set(bed->loop, bed->from_ns);
    CHECK(weir_loop_turn(bed->loop, 0) == 0);
    bed->engine = mock_engine_create(bed->loop, rules);
    CHECK(bed->engine);
    bed_now = bed;
}

static void bed_close(struct bed *bed)
{
    mock_engine_destroy(bed->engine);
    weir_loop_destroy(bed->loop);
}

/* Turns to that tick in one go: a loop that was late. */
static void bed_jump(struct bed *bed, uint64_t tick)
{
    bed->now_tick = tick;
    weir_loop_time_set(bed->loop, bed->from_ns + tick * TICK);
    CHECK(weir_loop_turn(bed->loop, 0) == 0);
}

static void bed_to(struct bed *bed, uint64_t tick)
{
    while (bed->now_tick < tick)
        bed_jump(bed, bed->now_tick + 1);
}

/* A prompt of `units` steps: the last of them makes the first token. */
static void bed_join(struct bed *bed, uint32_t who, uint32_t key, uint32_t units, uint32_t output)
{
    struct mock_sequence *s = &bed->sequences[who];
    *s = (struct mock_sequence){.tokens = bed_token, .line = key};
    mock_engine_join(bed->engine, s, units, output);
}

static void check_log(const struct bed *bed, const struct seen *want, uint32_t count)
{
    for (uint32_t i = 0; i < bed->count && i < count; i++)
        CHECK_MSG(bed->log[i].who == want[i].who && bed->log[i].at_tick == want[i].at_tick &&
                      bed->log[i].last == want[i].last,
                  "token %u: of %u at %llu%s; want %u at %llu", i, bed->log[i].who,
                  (unsigned long long)bed->log[i].at_tick, bed->log[i].last ? ", the last" : "",
                  want[i].who, (unsigned long long)want[i].at_tick);
    CHECK_INT(bed->count, count);
}

static const struct mock_engine_rules one = {.replicas = 1,
                                             .sequences = 4,
                                             .step_ns = 10 * TICK,
                                             .step_sequence_ns = TICK,
                                             .prefill_permille = 1000};

static void engine__one_alone__a_token_a_step_after_its_prompt(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed, &one);
    bed_join(&bed, 0, 0, 3, 3);
    bed_to(&bed, 100);
    static const struct seen want[] = {{0, 33, false}, {0, 44, false}, {0, 55, true}};
    check_log(&bed, want, WEIR_COUNT(want));
    bed_close(&bed);
}

static void engine__comes_in_mid_step__joins_at_the_next(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed, &one);
    bed_join(&bed, 0, 0, 1, 4); /* its first step, alone, lasts until 11 */
    bed_to(&bed, 5);
    bed_join(&bed, 1, 0, 1, 2); /* the second, of both, until 23, and the third until 35 */
    bed_to(&bed, 100);
    static const struct seen want[] = {{0, 11, false}, {1, 23, false}, {0, 23, false},
                                       {1, 35, true},  {0, 35, false}, {0, 46, true}};
    check_log(&bed, want, WEIR_COUNT(want));
    bed_close(&bed);
}

static void engine__come_together__are_one_batch_from_the_first_step(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed, &one);
    for (uint32_t i = 0; i < 3; i++)
        bed_join(&bed, i, 0, 1, 1);
    bed_to(&bed, 100);
    static const struct seen want[] = {{2, 13, true}, {1, 13, true}, {0, 13, true}};
    check_log(&bed, want, WEIR_COUNT(want));
    bed_close(&bed);
}

/* A place that gets free at the end of a step is taken for the whole of the next one, also where
 * only one can run (the step that follows is no longer than any other). */
static void engine__who_waits__takes_the_place_at_the_end_of_the_step(void **state)
{
    (void)state;
    struct mock_engine_rules rules = one;
    struct bed bed;
    rules.sequences = 1;
    bed_open(&bed, &rules);
    for (uint32_t i = 0; i < 3; i++)
        bed_join(&bed, i, 0, 1, 2);
    bed_to(&bed, 100);
    static const struct seen want[] = {{0, 11, false}, {0, 22, true},  {1, 33, false},
                                       {1, 44, true},  {2, 55, false}, {2, 66, true}};
    check_log(&bed, want, WEIR_COUNT(want));
    bed_close(&bed);
}

/* A loop that turns late makes up the steps that were due, but for nobody who had not come yet. */
static void engine__loop_is_late__nobody_runs_before_it_came(void **state)
{
    (void)state;
    struct mock_engine_rules rules = one;
    struct bed bed;
    bed_open(&bed, &rules);
    bed_join(&bed, 0, 0, 1, 5);
    bed.now_tick = 28; /* comes in a turn in which the steps to 11 and 22 are still to be made */
    weir_loop_time_set(bed.loop, bed.from_ns + 28 * TICK);
    bed_join(&bed, 1, 0, 1, 1);
    CHECK(weir_loop_turn(bed.loop, 0) == 0);
    bed_to(&bed, 100);
    for (uint32_t i = 0; i < bed.count; i++)
        CHECK_MSG(bed.log[i].who == 0 || bed.log[i].at_tick >= 28 + 12, "at %llu",
                  (unsigned long long)bed.log[i].at_tick);
    CHECK_INT(bed.count, 6);
    bed_close(&bed);
    rules.sequences =
        1; /* and one that takes a place which, by the steps made up, got free before */
    bed_open(&bed, &rules);
    bed_join(&bed, 0, 0, 1, 1);
    bed.now_tick = 28;
    weir_loop_time_set(bed.loop, bed.from_ns + 28 * TICK);
    bed_join(&bed, 1, 0, 1, 1);
    CHECK(weir_loop_turn(bed.loop, 0) == 0);
    bed_to(&bed, 100);
    CHECK_INT(bed.count, 2);
    CHECK_INT(bed.log[1].at_tick, 44); /* the step from 33 is the first that begins after 28 */
    bed_close(&bed);
}

static void engine__one_goes_away__its_place_is_taken_and_it_gets_nothing(void **state)
{
    (void)state;
    struct mock_engine_rules rules = one;
    struct bed bed;
    rules.sequences = 1;
    bed_open(&bed, &rules);
    for (uint32_t i = 0; i < 4; i++)
        bed_join(&bed, i, 0, 1, 2);
    bed_to(&bed, 15);
    mock_engine_leave(bed.engine, &bed.sequences[0]); /* runs */
    mock_engine_leave(bed.engine, &bed.sequences[3]); /* waits, as the last */
    mock_engine_leave(bed.engine, &bed.sequences[3]);
    bed_join(&bed, 4, 0, 1, 1); /* the line's end is still its end */
    bed_to(&bed, 200);
    CHECK_INT(bed.count, 1 + 2 + 2 + 1);
    CHECK_INT(bed.log[bed.count - 1].who, 4);
    for (uint32_t i = 1; i < bed.count; i++)
        CHECK(bed.log[i].who != 0 && bed.log[i].who != 3);
    CHECK(bed.log[1].at_tick > 22); /* joined in mid-step */
    bed_close(&bed);
}

/* Who is served, one after the other, of so many of each key that wait from the start. */
static void serve(enum weir_mock_order order, const uint32_t *keys, uint32_t count, uint32_t *got)
{
    struct mock_engine_rules rules = one;
    struct bed bed;
    rules.sequences = 1;
    rules.order = order;
    bed_open(&bed, &rules);
    for (uint32_t i = 0; i < count; i++)
        bed_join(&bed, i, keys[i], 1, 1);
    bed_to(&bed, 11 * (uint64_t)count + 20);
    CHECK_INT(bed.count, count);
    for (uint32_t i = 0; i < count; i++)
        got[i] = bed.log[i].who;
    bed_close(&bed);
}

static void order__each__serves_whom_it_says(void **state)
{
    (void)state;
    static const uint32_t keys[] = {2, 0, 0, 0, 1, 0, 1, 2};
    static const uint32_t want[][8] = {
        [WEIR_MOCK_FIFO] = {0, 1, 2, 3, 4, 5, 6, 7},
        [WEIR_MOCK_TURNS] = {0, 1, 4, 7, 2, 6, 3, 5}, /* the first found the place empty */
        [WEIR_MOCK_STRICT] = {0, 1, 2, 3, 5, 4, 6, 7},
    };
    for (uint32_t order = 0; order < WEIR_COUNT(want); order++) {
        uint32_t got[8];
        serve((enum weir_mock_order)order, keys, 8, got);
        for (uint32_t i = 0; i < 8; i++)
            CHECK_MSG(got[i] == want[order][i], "order %u, place %u: %u, not %u", order, i, got[i],
                      want[order][i]);
    }
}

/* On every prefix of the service: turns differ by one at most while both wait; strict serves no
 * later key while an earlier one waits; within a key all orders serve who came first. */
static void order__at_random__holds_on_every_prefix(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct weir_rng rng;
        uint32_t keys[SEQUENCES], got[SEQUENCES];
        weir_rng_seed(&rng, seed, 3);
        uint32_t count = (uint32_t)weir_rng_between(&rng, 2, SEQUENCES);
        for (uint32_t i = 0; i < count; i++)
            keys[i] = (uint32_t)weir_rng_between(&rng, 0, 1);
        for (uint32_t order = 0; order < 3; order++) {
            uint32_t left[2] = {0, 0}, served[2] = {0, 0}, last[2] = {0, 0};
            serve((enum weir_mock_order)order, keys, count, got);
            for (uint32_t i = 0; i < count; i++)
                left[keys[i]]++;
            left[keys[got[0]]]--; /* found the place empty */
            for (uint32_t i = 1; i < count; i++) {
                uint32_t key = keys[got[i]], other = 1 - key;
                CHECK_MSG(order != WEIR_MOCK_STRICT || key == 0 || left[0] == 0, "seed %llu",
                          (unsigned long long)seed);
                CHECK(served[key] == 0 || got[i] > last[key]);
                last[key] = got[i];
                left[key]--;
                served[key]++;
                CHECK_MSG(order != WEIR_MOCK_TURNS || left[other] == 0 ||
                              served[key] <= served[other] + 1,
                          "seed %llu, %u: %u and %u", (unsigned long long)seed, i, served[key],
                          served[other]);
            }
        }
    }
}

static void replicas__several__the_one_with_the_fewest_takes_it(void **state)
{
    (void)state;
    struct mock_engine_rules rules = one;
    struct bed bed;
    rules.replicas = 3;
    bed_open(&bed, &rules);
    for (uint32_t i = 0; i < 14; i++)
        bed_join(&bed, i, 0, 1, 1);
    for (uint32_t i = 0; i < 12; i++)
        CHECK_INT(bed.sequences[i].replica, i % 3);
    CHECK_INT(bed.sequences[12].replica, WEIR_NONE);
    CHECK_INT(bed.sequences[13].replica, WEIR_NONE);
    bed_to(&bed, 14);
    CHECK_INT(bed.count, 12); /* four in each: one step of 14 ticks */
    bed_to(&bed, 40);
    CHECK_INT(bed.count, 14);
    bed_close(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(engine__one_alone__a_token_a_step_after_its_prompt),
        cmocka_unit_test(engine__comes_in_mid_step__joins_at_the_next),
        cmocka_unit_test(engine__come_together__are_one_batch_from_the_first_step),
        cmocka_unit_test(engine__who_waits__takes_the_place_at_the_end_of_the_step),
        cmocka_unit_test(engine__loop_is_late__nobody_runs_before_it_came),
        cmocka_unit_test(engine__one_goes_away__its_place_is_taken_and_it_gets_nothing),
        cmocka_unit_test(order__each__serves_whom_it_says),
        cmocka_unit_test(order__at_random__holds_on_every_prefix),
        cmocka_unit_test(replicas__several__the_one_with_the_fewest_takes_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
