/* The estimator: bounds, learning at a quantile, prediction, a table that stays its size. */
#include <stdlib.h>

#include "core/estimator.h"
#include "core/rng.h"
#include "support/check.h"

struct fixture {
    struct weir_estimator *e;
    void *mem;
};

static struct fixture fixture_open(uint32_t pairs_max, uint32_t permille)
{
    struct weir_estimator_rules rules = {
        .pairs_max = pairs_max, .models_max = 2, .quantile_permille = permille};
    size_t bytes = (weir_estimator_bytes(&rules) + 63) & ~(size_t)63;
    struct fixture x = {.mem = aligned_alloc(64, bytes)};
    CHECK(x.mem != NULL);
    memset(x.mem, 0, bytes);
    x.e = weir_estimator_init(x.mem, bytes, &rules);
    struct weir_model_rules model = {
        .output_default_tok = 4096, .image_tok = 1500, .file_tok = 3000};
    weir_estimator_model_set(x.e, 0, &model);
    weir_estimator_model_set(x.e, 1, &model);
    return x;
}

static const struct weir_estimator_pair PAIR = {.tenant = 3, .generation = 0, .model = 0};

/* English prose of so many words: 4.7 letters, a space, a punctuation mark each tenth word. */
static struct weir_estimate_want want_prose(uint32_t words)
{
    struct weir_estimate_want want = {.choices = 1, .output_limit_tok = 100};
    want.text.words = words;
    want.text.letters = words * 47 / 10;
    want.text.space = words;
    want.text.punct = words / 10;
    want.text.messages = 1;
    want.text.text_bytes = want.text.letters + want.text.space + want.text.punct;
    return want;
}

static struct weir_estimate estimate(struct fixture *x, const struct weir_estimate_want *want)
{
    struct weir_estimate got;
    weir_estimator_estimate(x->e, PAIR, want, &got);
    return got;
}

static void estimator__prose_that_nobody_sent_before__is_a_little_above_the_true_count(void **state)
{
    (void)state;
    struct fixture x = fixture_open(64, 990);
    struct weir_estimate_want want = want_prose(1000);
    uint64_t got = estimate(&x, &want).input_tok;
    uint64_t true_tok = want.text.text_bytes * 10 / 43; /* measured: 4.3 bytes a token */
    CHECK(got >= true_tok);
    CHECK(got <= true_tok * 3 / 2);
    free(x.mem);
}

static void estimator__any_text__stays_between_eight_bytes_and_one_byte_a_token(void **state)
{
    (void)state;
    struct fixture x = fixture_open(64, 990);
    struct weir_rng rng;
    weir_rng_seed(&rng, 1, 1);
    for (uint32_t i = 0; i < 20000; i++) {
        struct weir_estimate_want want = {.choices = 1};
        struct weir_text_classes *t = &want.text;
        uint32_t most = (uint32_t)weir_rng_below(&rng, 5000);
        uint32_t *ascii[] = {&t->letters, &t->digits, &t->punct, &t->space, &t->mixed};
        uint32_t *two[] = {&t->cyrillic, &t->greek, &t->other2};
        uint32_t *three[] = {&t->cjk, &t->other3};
        for (size_t k = 0; k < WEIR_COUNT(ascii); k++)
            t->text_bytes += *ascii[k] = (uint32_t)weir_rng_below(&rng, most + 1);
        t->words = (uint32_t)weir_rng_below(&rng, t->letters + 1);
        for (size_t k = 0; k < WEIR_COUNT(two); k++)
            t->text_bytes += 2 * (*two[k] = (uint32_t)weir_rng_below(&rng, most / 4 + 1));
        for (size_t k = 0; k < WEIR_COUNT(three); k++)
            t->text_bytes += 3 * (*three[k] = (uint32_t)weir_rng_below(&rng, most / 4 + 1));
        struct weir_estimate got = estimate(&x, &want);
        uint64_t text_tok = got.input_tok - got.fixed_tok;
        CHECK(text_tok * 8 >= t->text_bytes);
        CHECK(text_tok <= t->text_bytes);
        want.strict = true;
        struct weir_estimate strict = estimate(&x, &want);
        CHECK_INT(strict.input_tok - strict.fixed_tok, t->text_bytes);
        CHECK(strict.input_tok >= got.input_tok);
        /* What is learned may be absurd: the clamp holds all the same. */
        struct weir_estimate_actual actual = {.output_tok = -1, .choices = 1};
        if (i >= 10000) /* nothing at first, so that the ratio falls to its floor, then anything */
            actual.input_tok = (int64_t)weir_rng_below(&rng, 1000000);
        weir_estimator_learn(x.e, PAIR, &got, &actual);
    }
    free(x.mem);
}

static void estimator__frames_tools_images_and_files__cost_their_constants(void **state)
{
    (void)state;
    struct fixture x = fixture_open(64, 990);
    struct weir_estimate_want want = {.choices = 1};
    CHECK_INT(estimate(&x, &want).input_tok, 3);
    want.text.messages = 5;
    CHECK_INT(estimate(&x, &want).input_tok, 3 + 20);
    want.text.tools = 2;
    want.text.token_ids = 7;
    CHECK_INT(estimate(&x, &want).input_tok, 3 + 20 + 32 + 7);
    want.text.images = 2; /* one of them 1,000 x 750 px, one of unknown size */
    want.text.images_sized = 1;
    want.text.image_px = 750000;
    want.text.files = 1;
    want.text.blob_bytes = 50000000; /* base64 never counts as text */
    want.extra_input_tok = 100000;
    CHECK_INT(estimate(&x, &want).input_tok, 62 + (170 + 1000) + 1500 + 3000 + 100000);
    want.text.image_px = UINT64_MAX; /* providers shrink what is too large */
    CHECK_INT(estimate(&x, &want).input_tok, 62 + 3200 + 1500 + 3000 + 100000);
    CHECK(!estimate(&x, &want).can_learn);
    free(x.mem);
}

static void estimator__output__is_the_limit_or_the_default_times_the_choices(void **state)
{
    (void)state;
    struct fixture x = fixture_open(64, 990);
    static const struct {
        uint64_t limit_tok;
        uint32_t choices;
        bool no_output;
        uint64_t want_tok;
    } rows[] = {{0, 1, false, 4096},
                {0, 0, false, 4096},
                {100, 1, false, 100},
                {100, 3, false, 300},
                {0, 2, false, 8192},
                {100, 3, true, 0},
                {UINT64_MAX, 1024, false, (uint64_t)WEIR_TOK_MAX / 4}};
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct weir_estimate_want want = {.output_limit_tok = rows[i].limit_tok,
                                          .choices = rows[i].choices,
                                          .no_output = rows[i].no_output};
        struct weir_estimate got = estimate(&x, &want);
        CHECK_INT(got.output_tok, rows[i].want_tok);
        CHECK_INT(got.predicted_tok, 0); /* nothing has come back yet */
    }
    free(x.mem);
}

static void estimator__prediction__takes_the_first_whole_then_a_fifth_of_each(void **state)
{
    (void)state;
    struct fixture x = fixture_open(64, 990);
    struct weir_estimate_want want = want_prose(100);
    want.output_limit_tok = 1000;
    struct weir_estimate got = estimate(&x, &want);
    struct weir_estimate_actual actual = {.input_tok = -1, .output_tok = 200, .choices = 1};
    weir_estimator_learn(x.e, PAIR, &got, &actual);
    CHECK_INT(estimate(&x, &want).predicted_tok, 200);
    actual.output_tok = 700;
    weir_estimator_learn(x.e, PAIR, &got, &actual);
    CHECK_INT(estimate(&x, &want).predicted_tok, (4 * 200 + 700) / 5);
    want.choices = 2; /* a prediction for each choice */
    CHECK_INT(estimate(&x, &want).predicted_tok, 600);
    want.output_limit_tok = 50;
    CHECK_INT(estimate(&x, &want).predicted_tok, 100); /* never above what it may produce */
    actual.output_tok = 0;
    for (uint32_t i = 0; i < 100; i++)
        weir_estimator_learn(x.e, PAIR, &got, &actual);
    CHECK_INT(estimate(&x, &want).predicted_tok, 0); /* rounding does not hold it up */
    free(x.mem);
}

/* Runs many requests whose true ratio to the base price is spread; returns the under-estimated, in
 * 10,000ths of the second half. */
static uint64_t share_under(uint32_t permille, uint64_t seed, uint64_t *mean_percent)
{
    struct fixture x = fixture_open(64, permille);
    struct weir_rng rng;
    weir_rng_seed(&rng, seed, 1);
    uint64_t under = 0, counted = 0, percents = 0;
    for (uint32_t i = 0; i < 40000; i++) {
        struct weir_estimate_want want = want_prose(200 + (uint32_t)weir_rng_below(&rng, 800));
        struct weir_estimate got = estimate(&x, &want);
        /* 0.7 .. 1.3 of the base price, the middle more likely */
        uint64_t ratio = 700 + weir_rng_below(&rng, 301) + weir_rng_below(&rng, 301);
        uint64_t true_tok = got.fixed_tok + got.text_mtok * ratio / 1000000;
        if (i >= 20000) {
            under += got.input_tok < true_tok;
            percents += got.input_tok * 100 / true_tok;
            counted++;
        }
        struct weir_estimate_actual actual = {
            .input_tok = (int64_t)true_tok, .output_tok = 10, .choices = 1};
        weir_estimator_learn(x.e, PAIR, &got, &actual);
    }
    struct weir_coverage coverage;
    weir_estimator_coverage(x.e, 0, &coverage);
    CHECK_INT(coverage.samples, 40000);
    uint64_t binned = 0;
    for (uint32_t i = 0; i < WEIR_COVERAGE_BINS; i++)
        binned += coverage.bins[i];
    CHECK_INT(binned, coverage.samples);
    *mean_percent = percents / counted;
    free(x.mem);
    return under * 10000 / counted;
}

static void estimator__learned_at_p99__under_estimates_about_one_in_a_hundred(void **state)
{
    (void)state;
    uint64_t mean;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        uint64_t under = share_under(990, seed, &mean);
        CHECK_MSG(under >= 50 && under <= 150, "seed %llu: %llu of 10,000",
                  (unsigned long long)seed, (unsigned long long)under);
        CHECK_MSG(mean < 145, "mean %llu %%", (unsigned long long)mean);
        under = share_under(500, seed, &mean);
        CHECK_MSG(under >= 4500 && under <= 5500, "seed %llu: %llu of 10,000",
                  (unsigned long long)seed, (unsigned long long)under);
        CHECK_MSG(mean >= 95 && mean <= 107, "mean %llu %%", (unsigned long long)mean);
    }
}

static void estimator__a_full_table__forgets_the_least_recently_used_and_stays_right(void **state)
{
    (void)state;
    struct fixture x = fixture_open(64, 990);
    struct weir_estimate_want want = want_prose(100);
    want.output_limit_tok = 5000;
    struct weir_estimate got = estimate(&x, &want);
    for (uint32_t tenant = 0; tenant < 1000; tenant++) {
        struct weir_estimator_pair pair = {.tenant = tenant, .model = 1};
        struct weir_estimate_actual actual = {
            .input_tok = -1, .output_tok = 1000 + tenant, .choices = 1};
        weir_estimator_learn(x.e, pair, &got, &actual);
        /* the newest is always there, and nobody is ever given another's */
        weir_estimator_estimate(x.e, pair, &want, &got);
        CHECK_INT(got.predicted_tok, 1000 + tenant);
    }
    uint32_t known = 0;
    for (uint32_t tenant = 0; tenant < 1000; tenant++) {
        struct weir_estimator_pair pair = {.tenant = tenant, .model = 1};
        weir_estimator_estimate(x.e, pair, &want, &got);
        CHECK(got.predicted_tok == 0 || got.predicted_tok == 1000 + tenant);
        known += got.predicted_tok != 0;
        pair.generation = 1; /* the next tenant of this index starts anew */
        weir_estimator_estimate(x.e, pair, &want, &got);
        CHECK_INT(got.predicted_tok, 0);
    }
    CHECK(known > 40);
    CHECK(known <= 64);
    free(x.mem);
}

static void estimator__output_never_told__is_rounded_up_from_its_bytes(void **state)
{
    (void)state;
    CHECK_INT(weir_estimate_output_tok(0), 0);
    CHECK_INT(weir_estimate_output_tok(1), 1);
    CHECK_INT(weir_estimate_output_tok(3), 1);
    CHECK_INT(weir_estimate_output_tok(4), 2);
    CHECK(weir_estimate_output_tok(UINT64_MAX) == UINT64_MAX / 3);
}

static void coverage__a_quantile_is_the_edge_of_the_bin_it_ends_in(void **state)
{
    (void)state;
    struct weir_coverage c = {0};
    CHECK_INT(weir_coverage_percent_at(&c, 500), 0);
    c.samples = 100;
    c.bins[4] = 1;                      /* 0.9 to 1 */
    c.bins[5] = 49;                     /* 1 to 1.1 */
    c.bins[7] = 45;                     /* 1.25 to 1.5 */
    c.bins[WEIR_COVERAGE_BINS - 1] = 5; /* above 16 */
    CHECK_INT(weir_coverage_percent_at(&c, 0), 25);
    CHECK_INT(weir_coverage_percent_at(&c, 10), 100);
    CHECK_INT(weir_coverage_percent_at(&c, 500), 110);
    CHECK_INT(weir_coverage_percent_at(&c, 501), 150);
    CHECK_INT(weir_coverage_percent_at(&c, 950), 150);
    CHECK_INT(weir_coverage_percent_at(&c, 951), UINT32_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            estimator__prose_that_nobody_sent_before__is_a_little_above_the_true_count),
        cmocka_unit_test(estimator__any_text__stays_between_eight_bytes_and_one_byte_a_token),
        cmocka_unit_test(estimator__frames_tools_images_and_files__cost_their_constants),
        cmocka_unit_test(estimator__output__is_the_limit_or_the_default_times_the_choices),
        cmocka_unit_test(estimator__prediction__takes_the_first_whole_then_a_fifth_of_each),
        cmocka_unit_test(estimator__learned_at_p99__under_estimates_about_one_in_a_hundred),
        cmocka_unit_test(estimator__a_full_table__forgets_the_least_recently_used_and_stays_right),
        cmocka_unit_test(estimator__output_never_told__is_rounded_up_from_its_bytes),
        cmocka_unit_test(coverage__a_quantile_is_the_edge_of_the_bin_it_ends_in),
    };
    return cmocka_run_group_tests_name("estimator", tests, NULL, NULL);
}
