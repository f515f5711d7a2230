/* Exact percentiles, against the definition. */
#include "measure/percentile.h"

#include "core/rng.h"
#include "support/check.h"

static void percentile__small_samples__are_values_that_were_measured(void **state)
{
    (void)state;
    struct weir_sample s = {0};
    CHECK_INT(weir_sample_at(&s, 500), 0);
    CHECK_INT(weir_sample_mean(&s), 0);
    CHECK(weir_sample_init(&s, 50));
    weir_sample_add(&s, 7);
    CHECK_INT(weir_sample_at(&s, 0), 7);
    CHECK_INT(weir_sample_at(&s, 1000), 7);
    weir_sample_add(&s, 3); /* added after it was sorted */
    CHECK_INT(weir_sample_at(&s, 500), 3);
    CHECK_INT(weir_sample_at(&s, 501), 7);
    CHECK_INT(weir_sample_mean(&s), 5);
    for (uint64_t i = 3; i <= 50; i++)
        weir_sample_add(&s, i * 100);
    CHECK_INT(weir_sample_at(&s, 990), 5000);
    CHECK_INT(weir_sample_at(&s, 980), 4900);
    weir_sample_free(&s);
    CHECK_INT(weir_sample_at(&s, 990), 0);
}

/* The smallest value that at least permille of all values do not exceed. */
static bool is_percentile(const struct weir_sample *s, uint64_t value, uint32_t permille)
{
    uint64_t below = 0, upto = 0;
    for (size_t i = 0; i < s->count; i++) {
        below += s->values[i] < value;
        upto += s->values[i] <= value;
    }
    return upto * 1000 >= s->count * (uint64_t)permille && upto > 0 &&
           (below == 0 || below * 1000 < s->count * (uint64_t)permille);
}

static void percentile__any_sample__is_what_the_definition_says(void **state)
{
    (void)state;
    static const uint32_t asked[] = {0, 1, 250, 500, 900, 950, 990, 999, 1000};
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct weir_rng rng;
        struct weir_sample s;
        weir_rng_seed(&rng, seed, 1);
        size_t count = (size_t)weir_rng_between(&rng, 1, 400);
        uint64_t span = weir_rng_between(&rng, 1, 500);
        CHECK(weir_sample_init(&s, count));
        for (size_t i = 0; i < count; i++)
            weir_sample_add(&s, weir_rng_below(&rng, span));
        for (size_t i = 0; i < WEIR_COUNT(asked); i++)
            CHECK_MSG(is_percentile(&s, weir_sample_at(&s, asked[i]), asked[i]),
                      "seed %llu, permille %u", (unsigned long long)seed, asked[i]);
        weir_sample_free(&s);
    }
}

static void mean__of_the_largest_values__does_not_wrap(void **state)
{
    (void)state;
    struct weir_sample s;
    CHECK(weir_sample_init(&s, 3));
    for (int i = 0; i < 3; i++)
        weir_sample_add(&s, UINT64_MAX - 1);
    CHECK(weir_sample_mean(&s) == UINT64_MAX - 1);
    weir_sample_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(percentile__small_samples__are_values_that_were_measured),
        cmocka_unit_test(percentile__any_sample__is_what_the_definition_says),
        cmocka_unit_test(mean__of_the_largest_values__does_not_wrap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
