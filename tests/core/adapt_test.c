/* The rule of the adaptive limit, event by event. What it comes to on a backend is in
 * tests/lab/adaptive_test.c. */
#include "core/adapt.h"

#include "support/check.h"
#include "support/tape.h"

#define MS WEIR_NS_PER_MS
#define SECOND WEIR_NS_PER_S
#define PACE_NS (10 * MS) /* of an output token */

/* An upstream that takes 100 ms for 100 input tokens and ends 10 calls a second. */
struct upstream {
    struct weir_adapt adapt;
    uint64_t now_ns;
};

static struct upstream upstream_of(uint32_t min, uint32_t start, uint32_t ceiling)
{
    struct upstream u = {.now_ns = 5 * SECOND};
    weir_adapt_set(&u.adapt, &(struct weir_adapt_rules){.min = min, .start = start}, ceiling,
                   u.now_ns);
    return u;
}

static void one_ends(struct upstream *u)
{
    u->now_ns += 100 * MS;
    weir_adapt_ended(&u->adapt, 99 * PACE_NS, 100);
}

/* Calls that start with so many in flight, until the limit moves; 64 at most. Returns how many. */
static uint32_t calls(struct upstream *u, uint32_t in_flight, uint64_t input_tok, uint64_t wait_ns)
{
    uint32_t period = u->adapt.period, count = 0;
    while (u->adapt.period == period && count < 64) {
        uint32_t ticket = weir_adapt_started(&u->adapt, in_flight);
        one_ends(u);
        weir_adapt_first_byte(&u->adapt, ticket, input_tok, wait_ns, u->now_ns);
        count++;
    }
    return count;
}

/* One period at the limit without a queue. */
static void calm(struct upstream *u)
{
    calls(u, u->adapt.limit, 100, 100 * MS);
}

/* A queue at 60, so that it is known where it was; then back at 64 of a calm upstream. */
static struct upstream settled(void)
{
    struct upstream u = upstream_of(4, 60, 1000);
    one_ends(&u);
    calm(&u);
    calls(&u, u.adapt.limit, 100, 100 * MS + 2500 * MS);
    for (int i = 0; i < 40 && u.adapt.limit < 64; i++)
        calm(&u);
    CHECK(u.adapt.limit >= 64 && u.adapt.limit <= 67);
    return u;
}

static void adapt__all_zero__is_the_ceiling_whatever_is_told(void **state)
{
    (void)state;
    struct upstream u = upstream_of(0, 0, 40);
    CHECK_INT(u.adapt.limit, 40);
    weir_adapt_set(&u.adapt, &(struct weir_adapt_rules){0}, 70, u.now_ns);
    CHECK_INT(u.adapt.limit, 70);
}

static void adapt__switched_off_on_the_way__calls_from_before_change_nothing(void **state)
{
    (void)state;
    for (uint32_t ceiling = 1; ceiling <= 64; ceiling += 63) {
        struct upstream u = upstream_of(1, ceiling, ceiling);
        one_ends(&u);
        uint32_t ticket = weir_adapt_started(&u.adapt, ceiling);
        weir_adapt_set(&u.adapt, &(struct weir_adapt_rules){0}, ceiling, u.now_ns);
        for (int i = 0; i < 100; i++) {
            weir_adapt_refused(&u.adapt, ticket, u.now_ns);
            weir_adapt_first_byte(&u.adapt, ticket, 100, 3600 * SECOND, u.now_ns);
        }
        CHECK_INT(u.adapt.limit, ceiling);
    }
}

static void adapt__begins_at_start_held_to_its_ends(void **state)
{
    (void)state;
    static const struct {
        uint32_t min, start, ceiling, want;
    } rows[] = {{4, 0, 64, 4}, {4, 20, 64, 20},       {4, 100, 64, 64},       {80, 20, 64, 64},
                {1, 1, 1, 1},  {1, 0, UINT32_MAX, 1}, {4, UINT32_MAX, 64, 64}};
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct upstream u = upstream_of(rows[i].min, rows[i].start, rows[i].ceiling);
        CHECK_MSG(u.adapt.limit == rows[i].want, "row %zu: %u", i, u.adapt.limit);
    }
}

static void adapt__other_rules_on_the_way__keep_the_limit_as_far_as_they_allow(void **state)
{
    (void)state;
    struct upstream u = upstream_of(4, 60, 1000);
    weir_adapt_set(&u.adapt, &(struct weir_adapt_rules){.min = 4, .start = 8}, 900, u.now_ns);
    CHECK_INT(u.adapt.limit, 60);
    weir_adapt_set(&u.adapt, &(struct weir_adapt_rules){.min = 4}, 50, u.now_ns);
    CHECK_INT(u.adapt.limit, 50);
    weir_adapt_set(&u.adapt, &(struct weir_adapt_rules){.min = 55}, 70, u.now_ns);
    CHECK_INT(u.adapt.limit, 55);
    weir_adapt_set(&u.adapt, &(struct weir_adapt_rules){0}, 70, u.now_ns);
    CHECK_INT(u.adapt.limit, 70);
    weir_adapt_set(&u.adapt, &(struct weir_adapt_rules){.min = 4, .start = 9}, 70, u.now_ns);
    CHECK_INT(u.adapt.limit, 9);
}

static void adapt__no_queue_was_ever_seen__rises_by_half_a_period(void **state)
{
    (void)state;
    struct upstream u = upstream_of(4, 0, 100);
    one_ends(&u);
    static const uint32_t want[] = {6, 9, 13, 19, 28, 42, 63, 94, 100, 100};
    for (size_t i = 0; i < WEIR_COUNT(want); i++) {
        calm(&u);
        CHECK_MSG(u.adapt.limit == want[i], "period %zu: %u", i, u.adapt.limit);
    }
}

static void adapt__a_queue__takes_what_is_queued_and_a_step(void **state)
{
    (void)state;
    struct upstream u = settled();
    uint32_t limit = u.adapt.limit;
    /* 0.8 s longer at 10 calls a second: 8 wait. */
    CHECK(calls(&u, limit, 100, 900 * MS) < 64);
    CHECK_INT(u.adapt.limit, limit - 8 - limit / 32);
}

static void adapt__a_long_queue__falls_by_a_third_and_sooner(void **state)
{
    (void)state;
    struct upstream u = settled();
    uint32_t limit = u.adapt.limit;
    CHECK_INT(calls(&u, limit, 100, 20 * SECOND), 8);
    CHECK_INT(u.adapt.limit, limit - limit / 3);
}

static void adapt__three_percent_queued__is_none(void **state)
{
    (void)state;
    struct upstream u = settled();
    uint32_t limit = u.adapt.limit;
    calls(&u, limit, 100, 100 * MS + 185 * MS);
    CHECK(u.adapt.limit > limit);
}

static void adapt__slower_but_alike__is_no_queue(void **state)
{
    (void)state;
    struct upstream u = settled();
    uint32_t limit = u.adapt.limit;
    for (int i = 0; i < 100; i++) {
        u.now_ns += 100 * MS;
        weir_adapt_ended(&u.adapt, 99 * 3 * PACE_NS, 100);
    }
    for (int i = 0; i < 16; i++) {
        uint32_t ticket = weir_adapt_started(&u.adapt, limit);
        u.now_ns += 100 * MS;
        weir_adapt_ended(&u.adapt, 99 * 3 * PACE_NS, 100);
        weir_adapt_first_byte(&u.adapt, ticket, 100, 300 * MS, u.now_ns);
    }
    CHECK(u.adapt.limit > limit);
}

static void adapt__longer_prompts_that_take_longer__are_no_queue(void **state)
{
    (void)state;
    static const uint64_t inputs[] = {1, 3, 50, 127, 1000, 8000, 200000, UINT64_MAX};
    for (size_t i = 0; i < WEIR_COUNT(inputs); i++) {
        struct upstream u = settled();
        uint32_t limit = u.adapt.limit;
        uint64_t wait_ns = inputs[i] < 100 ? 100 * MS : weir_min_u64(inputs[i], 1 << 23) * MS / 2;
        calls(&u, limit, inputs[i], wait_ns);
        /* One step: that it is sooner than a guess from other sizes is no sign of room. */
        CHECK_MSG(u.adapt.limit == limit + limit / 32, "input %llu: %u -> %u",
                  (unsigned long long)inputs[i], limit, u.adapt.limit);
    }
}

static void adapt__one_slow_tenant__is_no_queue(void **state)
{
    (void)state;
    struct upstream u = settled();
    uint32_t limit = u.adapt.limit;
    for (int i = 0; i < 16; i++) {
        uint32_t ticket = weir_adapt_started(&u.adapt, limit);
        one_ends(&u);
        weir_adapt_first_byte(&u.adapt, ticket, 100, i % 5 == 0 ? 60 * SECOND : 100 * MS, u.now_ns);
    }
    CHECK(u.adapt.limit > limit);
}

/* Not half used: no ticket. Not nearly used: no sample. */
static void adapt__limit_not_used__stays(void **state)
{
    (void)state;
    struct upstream u = settled();
    uint32_t limit = u.adapt.limit;
    CHECK_INT(weir_adapt_started(&u.adapt, limit / 2 - 1), 0);
    CHECK_INT(calls(&u, limit / 2 - 1, 100, 20 * SECOND), 64);
    CHECK_INT(calls(&u, limit - limit / 8 - 1, 100, 20 * SECOND), 64);
    CHECK_INT(u.adapt.limit, limit);
    CHECK_INT(u.adapt.sample_count, 0);
}

static void adapt__calls_of_another_limit__change_nothing(void **state)
{
    (void)state;
    struct upstream u = settled();
    uint32_t ticket = weir_adapt_started(&u.adapt, u.adapt.limit);
    calm(&u);
    uint32_t limit = u.adapt.limit;
    for (int i = 0; i < 100; i++) {
        one_ends(&u);
        weir_adapt_first_byte(&u.adapt, ticket, 100, 20 * SECOND, u.now_ns);
        weir_adapt_refused(&u.adapt, ticket, u.now_ns);
    }
    CHECK_INT(u.adapt.limit, limit);
    CHECK_INT(u.adapt.sample_count, 0);
    CHECK_INT(u.adapt.refused, 0);
}

static void adapt__samples_with_a_long_gap_between__are_not_of_one_period(void **state)
{
    (void)state;
    struct upstream u = settled();
    uint32_t limit = u.adapt.limit;
    for (int i = 0; i < 40; i++) {
        uint32_t ticket = weir_adapt_started(&u.adapt, limit);
        u.now_ns += i % 10 == 9 ? 61 * SECOND : 100 * MS;
        weir_adapt_first_byte(&u.adapt, ticket, 100, 100 * MS, u.now_ns);
    }
    CHECK_INT(u.adapt.limit, limit);
    CHECK_INT(u.adapt.sample_count, 1);
}

/* The first byte comes sooner and the pace is as it was: so does that input from now on. */
static void adapt__sooner_at_the_same_pace__is_learned_at_once(void **state)
{
    (void)state;
    struct upstream u = settled();
    calls(&u, u.adapt.limit, 1000, 1000 * MS);
    uint32_t limit = u.adapt.limit;
    calls(&u, limit, 1000, 300 * MS);
    CHECK_INT(u.adapt.limit, limit + limit / 32);
    limit = u.adapt.limit;
    calls(&u, limit, 1000, 700 * MS); /* 4 calls wait, by what is expected now */
    CHECK_INT(u.adapt.limit, limit - 4 - limit / 32);
}

/* It comes sooner and the pace quickens: more is there, and the limit rises by an eighth, without
 * learning from what is half known. After three such periods the pace is known. */
static void adapt__sooner_at_a_quicker_pace__is_room_three_times(void **state)
{
    (void)state;
    struct upstream u = settled();
    calls(&u, u.adapt.limit, 1000, 1000 * MS);
    struct weir_adapt before = u.adapt;
    for (int i = 0; i < 4; i++) {
        uint32_t limit = u.adapt.limit;
        for (int j = 0; j < 64 && u.adapt.limit == limit; j++) {
            uint32_t ticket = weir_adapt_started(&u.adapt, limit);
            u.now_ns += 100 * MS;
            weir_adapt_ended(&u.adapt, 99 * PACE_NS * 9 / 10, 100);
            weir_adapt_first_byte(&u.adapt, ticket, 1000, 300 * MS, u.now_ns);
        }
        if (i == 0)
            CHECK_INT(u.adapt.limit, limit + limit / 8);
        bool is_same = memcmp(u.adapt.shape, before.shape, sizeof before.shape) == 0;
        CHECK_MSG(is_same == (i < 3), "period %d", i);
    }
}

static void adapt__no_pace_known__stays(void **state)
{
    (void)state;
    struct upstream u = upstream_of(4, 16, 100);
    for (int i = 0; i < 200; i++) {
        uint32_t ticket = weir_adapt_started(&u.adapt, 16);
        u.now_ns += 100 * MS;
        weir_adapt_ended(&u.adapt, 0, 100);    /* not a stream */
        weir_adapt_ended(&u.adapt, SECOND, 7); /* too short an answer */
        weir_adapt_first_byte(&u.adapt, ticket, 100, 100 * MS, u.now_ns);
    }
    CHECK_INT(u.adapt.limit, 16);
}

static void adapt__refusals__take_an_eighth_once_a_period(void **state)
{
    (void)state;
    struct upstream u = settled();
    uint32_t limit = u.adapt.limit, ticket = weir_adapt_started(&u.adapt, limit);
    weir_adapt_refused(&u.adapt, ticket, u.now_ns);
    CHECK_INT(u.adapt.limit, limit);
    for (int i = 0; i < 50; i++)
        weir_adapt_refused(&u.adapt, ticket, u.now_ns);
    CHECK_INT(u.adapt.limit, limit - limit / 8);
}

static void adapt__few_refusals_among_many_calls__change_nothing(void **state)
{
    (void)state;
    struct upstream u = settled();
    uint32_t limit = u.adapt.limit, ticket = weir_adapt_started(&u.adapt, limit);
    for (int i = 0; i < 200; i++) {
        one_ends(&u);
        if (i % 20 == 19)
            weir_adapt_refused(&u.adapt, ticket, u.now_ns);
    }
    CHECK_INT(u.adapt.limit, limit);
}

static void adapt__refusals_at_the_floor__stay_there(void **state)
{
    (void)state;
    struct upstream u = upstream_of(4, 30, 100);
    for (int i = 0; i < 100; i++) {
        uint32_t ticket = weir_adapt_started(&u.adapt, u.adapt.limit);
        weir_adapt_refused(&u.adapt, ticket, u.now_ns);
        weir_adapt_refused(&u.adapt, ticket, u.now_ns);
        CHECK(u.adapt.limit >= 4);
    }
    CHECK_INT(u.adapt.limit, 4);
    calm(&u);
    CHECK(u.adapt.limit > 4);
}

/* Half the calls more than expected wait, whatever the limit: so they do not wait for each other.
 */
static void adapt__what_does_not_shrink_with_the_limit__is_learned_as_no_queue(void **state)
{
    (void)state;
    struct upstream u = settled();
    uint32_t limit = u.adapt.limit, least = limit;
    for (int period = 0; period < 60; period++) {
        uint32_t now = u.adapt.limit;
        for (uint32_t i = 0; i < 64 && u.adapt.limit == now; i++) {
            uint32_t ticket = weir_adapt_started(&u.adapt, now);
            u.now_ns += 10 * SECOND / now; /* calls take 10 s, at any limit */
            weir_adapt_ended(&u.adapt, 99 * PACE_NS, 100);
            weir_adapt_first_byte(&u.adapt, ticket, 100, 5 * SECOND, u.now_ns);
        }
        least = u.adapt.limit < least ? u.adapt.limit : least;
    }
    CHECK_MSG(least >= limit / 6, "fell to %u of %u", least, limit);
    CHECK_MSG(u.adapt.limit > limit, "ended at %u of %u", u.adapt.limit, limit);
}

/* ---- whatever happens ---- */

static uint64_t draw_extreme(struct tape *t)
{
    static const uint64_t of[] = {0,
                                  1,
                                  100,
                                  1000,
                                  MS,
                                  50 * MS,
                                  SECOND,
                                  100 * SECOND,
                                  UINT64_C(1) << 40,
                                  UINT64_MAX / 2,
                                  UINT64_MAX};
    return of[tape_below(t, WEIR_COUNT(of))];
}

static void check_step(struct tape *t, const struct weir_adapt *a, uint32_t before)
{
    uint32_t least = a->rules.min < a->ceiling ? a->rules.min : a->ceiling;
    TAPE_CHECK(t, a->limit >= least);
    TAPE_CHECK(t, a->limit <= a->ceiling);
    uint32_t up = before / 2 > 1 ? before / 2 : 1, down = before / 3 > 1 ? before / 3 : 1;
    TAPE_CHECK_MSG(t, a->limit <= before || a->limit - before <= up, "%u -> %u", before, a->limit);
    TAPE_CHECK_MSG(t, a->limit >= before || before - a->limit <= down, "%u -> %u", before,
                   a->limit);
}

static void adapt_bounds(struct tape *t)
{
    static const uint32_t ceilings[] = {1, 2, 7, 64, 1000, UINT32_MAX};
    uint32_t ceiling = ceilings[tape_below(t, WEIR_COUNT(ceilings))];
    struct weir_adapt_rules rules = {.min = (uint32_t)tape_between(t, 1, 100),
                                     .start = (uint32_t)draw_extreme(t)};
    struct weir_adapt *a = tape_alloc(t, sizeof *a);
    uint64_t now_ns = 0;
    uint32_t tickets[8] = {0};
    weir_adapt_set(a, &rules, ceiling, now_ns);
    while (tape_more(t)) {
        uint32_t before = a->limit, *ticket = &tickets[tape_below(t, WEIR_COUNT(tickets))];
        now_ns = weir_add_sat_u64(now_ns, tape_chance(t, 1, 8) ? draw_extreme(t) : 20 * MS);
        *ticket = weir_adapt_started(a, tape_chance(t, 1, 4) ? (uint32_t)draw_extreme(t) : before);
        uint64_t input_tok = tape_chance(t, 1, 4) ? draw_extreme(t) : tape_between(t, 1, 4000);
        uint64_t wait_ns =
            tape_chance(t, 1, 4) ? draw_extreme(t) : tape_between(t, 1, 40) * 50 * MS;
        switch (tape_below(t, 8)) {
        case 0:
            weir_adapt_refused(a, *ticket, now_ns);
            break;
        case 1:
        case 2:
            weir_adapt_ended(a, draw_extreme(t), draw_extreme(t));
            break;
        default:
            weir_adapt_ended(a, 99 * PACE_NS, 100);
            /* A period's worth at once, so that short tapes get far. */
            for (int i = 0; i < 16 && a->limit == before; i++)
                weir_adapt_first_byte(a, *ticket, input_tok, wait_ns, now_ns);
        }
        check_step(t, a, before);
    }
}

static void adapt__whatever_happens__stays_in_its_bounds_by_bounded_steps(void **state)
{
    (void)state;
    tape_check(__func__, adapt_bounds, 3000, 600);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adapt__all_zero__is_the_ceiling_whatever_is_told),
        cmocka_unit_test(adapt__switched_off_on_the_way__calls_from_before_change_nothing),
        cmocka_unit_test(adapt__begins_at_start_held_to_its_ends),
        cmocka_unit_test(adapt__other_rules_on_the_way__keep_the_limit_as_far_as_they_allow),
        cmocka_unit_test(adapt__no_queue_was_ever_seen__rises_by_half_a_period),
        cmocka_unit_test(adapt__a_queue__takes_what_is_queued_and_a_step),
        cmocka_unit_test(adapt__a_long_queue__falls_by_a_third_and_sooner),
        cmocka_unit_test(adapt__three_percent_queued__is_none),
        cmocka_unit_test(adapt__slower_but_alike__is_no_queue),
        cmocka_unit_test(adapt__longer_prompts_that_take_longer__are_no_queue),
        cmocka_unit_test(adapt__one_slow_tenant__is_no_queue),
        cmocka_unit_test(adapt__limit_not_used__stays),
        cmocka_unit_test(adapt__calls_of_another_limit__change_nothing),
        cmocka_unit_test(adapt__samples_with_a_long_gap_between__are_not_of_one_period),
        cmocka_unit_test(adapt__sooner_at_the_same_pace__is_learned_at_once),
        cmocka_unit_test(adapt__sooner_at_a_quicker_pace__is_room_three_times),
        cmocka_unit_test(adapt__no_pace_known__stays),
        cmocka_unit_test(adapt__refusals__take_an_eighth_once_a_period),
        cmocka_unit_test(adapt__few_refusals_among_many_calls__change_nothing),
        cmocka_unit_test(adapt__refusals_at_the_floor__stay_there),
        cmocka_unit_test(adapt__what_does_not_shrink_with_the_limit__is_learned_as_no_queue),
        cmocka_unit_test(adapt__whatever_happens__stays_in_its_bounds_by_bounded_steps),
    };
    return cmocka_run_group_tests_name("core/adapt", tests, NULL, NULL);
}
