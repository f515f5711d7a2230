#include "core/bucket.h"

#include "support/check.h"
#include "support/tape.h"

#define REQ UINT64_C(1000000)
#define T0 (UINT64_C(5) * WEIR_NS_PER_S)

static void bucket__full_and_cost_is_capacity__admits(void **state)
{
    (void)state;
    struct weir_bucket b;
    uint64_t wait_ns = 77;
    weir_bucket_init(&b, 5 * REQ, 2 * REQ, T0);
    CHECK_INT(weir_bucket_take(&b, 5 * REQ, T0, &wait_ns), WEIR_BUCKET_OK);
    CHECK_INT(b.level_utok, 0);
    CHECK_INT(wait_ns, 77);
}

static void bucket__cost_above_capacity__is_never(void **state)
{
    (void)state;
    struct weir_bucket b;
    uint64_t wait_ns = 77;
    weir_bucket_init(&b, 5 * REQ, 2 * REQ, T0);
    CHECK_INT(weir_bucket_take(&b, 5 * REQ + 1, T0, &wait_ns), WEIR_BUCKET_NEVER);
    CHECK_INT(weir_bucket_check(&b, UINT64_MAX, T0, NULL), WEIR_BUCKET_NEVER);
    CHECK_INT(b.level_utok, 5 * REQ);
    CHECK_INT(wait_ns, 77);
}

/* Rate 2/s, burst 5, fourteen at once: five pass, then one each half second, exactly. */
static void bucket__fourteen_at_two_a_second_burst_five__pass_at_exact_times(void **state)
{
    (void)state;
    struct weir_bucket b;
    weir_bucket_init(&b, 5 * REQ, 2 * REQ, T0);
    uint64_t now_ns = T0;
    for (unsigned i = 0; i < 14; i++) {
        uint64_t wait_ns = 0;
        while (weir_bucket_take(&b, REQ, now_ns, &wait_ns) == WEIR_BUCKET_WAIT)
            now_ns += wait_ns;
        uint64_t want_ns = T0 + (i < 5 ? 0 : (i - 4) * WEIR_NS_PER_S / 2);
        CHECK_MSG(now_ns == want_ns, "request %u passed %lld ns off", i,
                  (long long)(now_ns - want_ns));
    }
}

static void bucket__slow_rate__does_not_round_to_nothing(void **state)
{
    (void)state;
    struct weir_bucket b;
    weir_bucket_init(&b, 1 * REQ, 3, T0); /* three micro-tokens a second */
    weir_bucket_charge(&b, 1 * REQ, T0);
    for (unsigned i = 1; i <= 1000; i++)
        weir_bucket_refill(&b, T0 + i * WEIR_NS_PER_MS);
    CHECK_INT(b.level_utok, 3);
    CHECK_INT(b.carry, 0);
}

static void bucket__full__owes_no_fraction(void **state)
{
    (void)state;
    struct weir_bucket b;
    uint64_t wait_ns = 0;
    weir_bucket_init(&b, REQ, 3, T0);
    weir_bucket_charge(&b, 1, T0);
    /* Half a second earns one and a half; the half falls over the brim. */
    weir_bucket_charge(&b, 1, T0 + WEIR_NS_PER_S / 2);
    CHECK_INT(weir_bucket_take(&b, REQ, T0 + WEIR_NS_PER_S / 2, &wait_ns), WEIR_BUCKET_WAIT);
    CHECK_INT(wait_ns, WEIR_NS_PER_S / 3 + 1);
    /* And so it is when a refund fills the bucket. */
    weir_bucket_init(&b, REQ, 3, T0);
    weir_bucket_charge(&b, 1, T0);
    weir_bucket_refund(&b, 1, T0 + WEIR_NS_PER_MS);
    weir_bucket_charge(&b, 1, T0 + WEIR_NS_PER_MS);
    CHECK_INT(weir_bucket_take(&b, REQ, T0 + WEIR_NS_PER_MS, &wait_ns), WEIR_BUCKET_WAIT);
    CHECK_INT(wait_ns, WEIR_NS_PER_S / 3 + 1);
}

static void bucket__clock_steps_back__earns_nothing(void **state)
{
    (void)state;
    struct weir_bucket b;
    weir_bucket_init(&b, 10 * REQ, REQ, T0);
    weir_bucket_charge(&b, 10 * REQ, T0);
    CHECK_INT(weir_bucket_level_utok(&b, 0), 0);
    uint64_t wait_ns = 0;
    CHECK_INT(weir_bucket_take(&b, REQ, T0 - 7, &wait_ns), WEIR_BUCKET_WAIT);
    CHECK_INT(wait_ns, WEIR_NS_PER_S + 7);
    weir_bucket_refill(&b, T0 - WEIR_NS_PER_S);
    weir_bucket_refill(&b, T0 + WEIR_NS_PER_S);
    CHECK_INT(b.level_utok, REQ);
}

static void bucket__debt__is_filled_up_before_anything_passes(void **state)
{
    (void)state;
    struct weir_bucket b;
    uint64_t wait_ns = 0;
    weir_bucket_init(&b, 10 * REQ, 2 * REQ, T0);
    weir_bucket_charge(&b, 10 * REQ, T0);
    weir_bucket_correct(&b, 6 * (int64_t)REQ, T0);
    CHECK_INT(b.level_utok, -6 * (int64_t)REQ);
    CHECK_INT(weir_bucket_take(&b, REQ, T0, &wait_ns), WEIR_BUCKET_WAIT);
    CHECK_INT(wait_ns, 7 * WEIR_NS_PER_S / 2);
    CHECK_INT(weir_bucket_take(&b, REQ, T0 + wait_ns - 1, &wait_ns), WEIR_BUCKET_WAIT);
    CHECK_INT(weir_bucket_take(&b, REQ, T0 + 7 * WEIR_NS_PER_S / 2, &wait_ns), WEIR_BUCKET_OK);
}

static void bucket__refund__stops_at_the_capacity(void **state)
{
    (void)state;
    struct weir_bucket b;
    weir_bucket_init(&b, 10 * REQ, 2 * REQ, T0);
    weir_bucket_charge(&b, 3 * REQ, T0);
    weir_bucket_refund(&b, 2 * REQ, T0);
    CHECK_INT(b.level_utok, 9 * REQ);
    weir_bucket_correct(&b, -(int64_t)(2 * REQ), T0);
    CHECK_INT(b.level_utok, 10 * REQ);
    weir_bucket_refund(&b, UINT64_MAX, T0 + 1);
    CHECK_INT(b.level_utok, 10 * REQ);
}

static void bucket__charge_late__first_earns_what_was_lost_at_the_brim(void **state)
{
    (void)state;
    struct weir_bucket b;
    weir_bucket_init(&b, 10 * REQ, 2 * REQ, T0);
    /* Full for a minute: that earned nothing, so a charge now shows at once. */
    weir_bucket_charge(&b, 4 * REQ, T0 + 60 * WEIR_NS_PER_S);
    CHECK_INT(b.level_utok, 6 * REQ);
}

static void bucket__rate_zero__waits_for_ever(void **state)
{
    (void)state;
    struct weir_bucket b;
    uint64_t wait_ns = 0;
    weir_bucket_init(&b, REQ, 0, T0);
    weir_bucket_charge(&b, 1, T0);
    CHECK_INT(weir_bucket_take(&b, REQ, UINT64_MAX, &wait_ns), WEIR_BUCKET_WAIT);
    CHECK(wait_ns == WEIR_NEVER_NS);
}

static void bucket__reconfigured__cuts_the_level_keeps_debt_fills_nothing(void **state)
{
    (void)state;
    struct weir_bucket b;
    weir_bucket_init(&b, 10 * REQ, REQ, T0);
    weir_bucket_charge(&b, 8 * REQ, T0);
    weir_bucket_reconfigure(&b, 20 * REQ, 5 * REQ, T0 + 3 * WEIR_NS_PER_S);
    CHECK_INT(b.level_utok, 5 * REQ); /* three seconds at the old rate; growth is not filled */
    weir_bucket_reconfigure(&b, 4 * REQ, 5 * REQ, T0 + 3 * WEIR_NS_PER_S);
    CHECK_INT(b.level_utok, 4 * REQ);
    weir_bucket_charge(&b, 9 * REQ, T0 + 3 * WEIR_NS_PER_S);
    weir_bucket_reconfigure(&b, 100 * REQ, REQ, T0 + 3 * WEIR_NS_PER_S);
    CHECK_INT(b.level_utok, -5 * (int64_t)REQ);
}

static void bucket__huge_charges__stop_at_the_debt_that_is_remembered(void **state)
{
    (void)state;
    struct weir_bucket b;
    weir_bucket_init(&b, WEIR_BUCKET_CAPACITY_MAX_UTOK, 1, T0);
    for (int i = 0; i < 5; i++)
        weir_bucket_charge(&b, UINT64_MAX, T0);
    CHECK_INT(b.level_utok, -WEIR_BUCKET_DEBT_MAX_UTOK);
    uint64_t wait_ns = 0;
    CHECK_INT(weir_bucket_check(&b, (uint64_t)WEIR_BUCKET_CAPACITY_MAX_UTOK, T0, &wait_ns),
              WEIR_BUCKET_WAIT);
    CHECK(wait_ns == WEIR_NEVER_NS);
    b.rate_utok_per_s = UINT64_MAX;
    CHECK_INT(weir_bucket_level_utok(&b, UINT64_MAX), WEIR_BUCKET_CAPACITY_MAX_UTOK);
}

static uint64_t draw_rate(struct tape *t)
{
    return tape_below(t, UINT64_C(1) << 40) >> tape_below(t, 40);
}

/* One bucket is looked at often, one only when something is taken: they never differ. */
static void level_is_split_invariant(struct tape *t)
{
    struct weir_bucket often, seldom;
    int64_t capacity = (int64_t)(1 + tape_below(t, UINT64_C(1) << 40));
    uint64_t rate = draw_rate(t), now_ns = tape_below(t, 1000000);
    weir_bucket_init(&often, capacity, rate, now_ns);
    seldom = often;
    while (tape_more(t)) {
        for (uint64_t looks = tape_below(t, 5); looks > 0; looks--) {
            now_ns += tape_below(t, UINT64_C(1) << 32) >> tape_below(t, 32);
            weir_bucket_refill(&often, now_ns);
            TAPE_CHECK(t, often.level_utok == weir_bucket_level_utok(&seldom, now_ns));
        }
        int64_t delta = (int64_t)(tape_below(t, UINT64_C(1) << 40) >> tape_below(t, 40));
        if (tape_chance(t, 1, 3))
            delta = -delta;
        weir_bucket_correct(&often, delta, now_ns);
        weir_bucket_correct(&seldom, delta, now_ns);
        TAPE_CHECK(t, often.level_utok == seldom.level_utok);
        TAPE_CHECK(t, often.carry == seldom.carry);
        TAPE_CHECK(t, often.level_utok <= capacity);
    }
}

static void bucket__looked_at_often__holds_the_same(void **state)
{
    (void)state;
    tape_check(__func__, level_is_split_invariant, 3000, 200);
}

/* The hint is enough, and one nanosecond less is not. */
static void wait_hint_is_exact(struct tape *t)
{
    struct weir_bucket b;
    int64_t capacity = (int64_t)(1 + (tape_below(t, UINT64_C(1) << 40) >> tape_below(t, 40)));
    uint64_t now_ns = 1 + tape_below(t, 1000000);
    weir_bucket_init(&b, capacity, 1 + draw_rate(t), now_ns);
    while (tape_more(t)) {
        now_ns += tape_below(t, UINT64_C(1) << 32) >> tape_below(t, 32);
        uint64_t cost = tape_below(t, (uint64_t)capacity + 2);
        int64_t level = weir_bucket_level_utok(&b, now_ns);
        struct weir_bucket before = b;
        uint64_t wait_ns = 0;
        switch (weir_bucket_take(&b, cost, now_ns, &wait_ns)) {
        case WEIR_BUCKET_OK:
            TAPE_CHECK(t, (int64_t)cost <= level);
            TAPE_CHECK(t, b.level_utok == level - (int64_t)cost);
            break;
        case WEIR_BUCKET_NEVER:
            TAPE_CHECK(t, cost > (uint64_t)capacity);
            TAPE_CHECK(t, memcmp(&b, &before, sizeof b) == 0);
            break;
        case WEIR_BUCKET_WAIT:
            TAPE_CHECK(t, (int64_t)cost > level);
            TAPE_CHECK(t, memcmp(&b, &before, sizeof b) == 0);
            TAPE_CHECK(t, wait_ns > 0);
            if (wait_ns != WEIR_NEVER_NS) {
                uint64_t then_ns = now_ns + wait_ns;
                TAPE_CHECK(t, weir_bucket_check(&b, cost, then_ns, NULL) == WEIR_BUCKET_OK);
                TAPE_CHECK(t, weir_bucket_check(&b, cost, then_ns - 1, NULL) == WEIR_BUCKET_WAIT);
            }
            if (tape_chance(t, 1, 3))
                weir_bucket_charge(&b, cost, now_ns); /* into debt */
            break;
        }
    }
}

static void bucket__wait_hint__is_sufficient_and_least(void **state)
{
    (void)state;
    tape_check(__func__, wait_hint_is_exact, 10000, 120);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bucket__full_and_cost_is_capacity__admits),
        cmocka_unit_test(bucket__cost_above_capacity__is_never),
        cmocka_unit_test(bucket__fourteen_at_two_a_second_burst_five__pass_at_exact_times),
        cmocka_unit_test(bucket__slow_rate__does_not_round_to_nothing),
        cmocka_unit_test(bucket__full__owes_no_fraction),
        cmocka_unit_test(bucket__clock_steps_back__earns_nothing),
        cmocka_unit_test(bucket__debt__is_filled_up_before_anything_passes),
        cmocka_unit_test(bucket__refund__stops_at_the_capacity),
        cmocka_unit_test(bucket__charge_late__first_earns_what_was_lost_at_the_brim),
        cmocka_unit_test(bucket__rate_zero__waits_for_ever),
        cmocka_unit_test(bucket__reconfigured__cuts_the_level_keeps_debt_fills_nothing),
        cmocka_unit_test(bucket__huge_charges__stop_at_the_debt_that_is_remembered),
        cmocka_unit_test(bucket__looked_at_often__holds_the_same),
        cmocka_unit_test(bucket__wait_hint__is_sufficient_and_least),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
