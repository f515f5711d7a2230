/* The integer logarithm, exponential and draws against libm: floats are the judge here, and only
 * here. */
#include "lab/chance.h"

#include <math.h>
#include <stdlib.h>

#include "support/check.h"

#define UNIT 4294967296.0L /* 2^32 */

static long double off_units(uint64_t u)
{
    long double want = -logl((long double)u / 18446744073709551616.0L) * UNIT;
    return fabsl((long double)weir_neg_ln_q32(u) - want);
}

static void neg_ln__any_u__is_within_its_bound_of_libm(void **state)
{
    (void)state;
    long double worst = 0;
    for (uint32_t bit = 0; bit < 64; bit++) /* around every power of two, and 3/2 of it */
        for (int64_t by = -3; by <= 3; by++) {
            uint64_t u = (UINT64_C(1) << bit) + (uint64_t)by;
            worst = fmaxl(worst, u ? off_units(u) : 0);
            worst = fmaxl(worst, off_units((u | 4) + (u >> 1)));
        }
    worst = fmaxl(worst, off_units(UINT64_MAX));
    struct weir_rng rng;
    weir_rng_seed(&rng, 11, 0);
    for (int i = 0; i < 300000; i++) {
        uint64_t u = weir_rng_u64(&rng) >> weir_rng_below(&rng, 64);
        worst = fmaxl(worst, u ? off_units(u) : 0);
    }
    CHECK_MSG(worst < 0.51L, "off by %.4Lf units of 2^-32", worst);
    CHECK_MSG(worst > 0.49L, "a bound of %.4Lf units could be promised", worst);
}

static void neg_ln__known_values__are_exact(void **state)
{
    (void)state;
    CHECK_INT(weir_neg_ln_q32(UINT64_MAX), 0);
    CHECK_INT(weir_neg_ln_q32(UINT64_C(1) << 63), 2977044472); /* ln 2 */
    CHECK_INT(weir_neg_ln_q32(1), 190530846196);               /* 64 ln 2 */
}

static void neg_ln__u_grows__never_grows(void **state)
{
    (void)state;
    struct weir_rng rng;
    weir_rng_seed(&rng, 12, 0);
    for (int i = 0; i < 100000; i++) {
        uint64_t u = weir_rng_between(&rng, 1, UINT64_MAX >> weir_rng_below(&rng, 60));
        uint64_t v = u + (u >> weir_rng_below(&rng, 64));
        CHECK(v < u || weir_neg_ln_q32(v) <= weir_neg_ln_q32(u));
    }
}

static void exp__any_x__is_within_its_bound_of_libm(void **state)
{
    (void)state;
    struct weir_rng rng;
    weir_rng_seed(&rng, 13, 0);
    for (int i = 0; i < 300000; i++) {
        int64_t span = (int64_t)(UINT64_C(1) << (20 + weir_rng_below(&rng, 18)));
        int64_t x = (int64_t)weir_rng_between(&rng, 0, 2 * (uint64_t)span) - span;
        long double want = expl((long double)x / UNIT) * UNIT;
        uint64_t got = weir_exp_q32(x);
        if (want >= 9223372036854775808.0L)
            CHECK_MSG(got == UINT64_MAX, "x %lld", (long long)x);
        else
            CHECK_MSG(fabsl((long double)got - want) < 1 + want / 2147483648.0L,
                      "x %lld: %llu, want %.2Lf", (long long)x, (unsigned long long)got, want);
    }
    CHECK(weir_exp_q32(0) == UINT64_C(1) << 32);
    CHECK(weir_exp_q32(INT64_MAX) == UINT64_MAX);
    CHECK(weir_exp_q32(INT64_MIN) == 0);
}

/* How far the draws are from a distribution: the largest difference of the two cumulative curves
 * (Kolmogorov-Smirnov) times sqrt(n); by chance above 1.95 once in a thousand seeds. */
static int compare_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double curve_distance(double *draws, size_t count, double (*cumulative)(double))
{
    double worst = 0;
    qsort(draws, count, sizeof *draws, compare_double);
    for (size_t i = 0; i < count; i++) {
        double at = cumulative(draws[i]);
        worst = fmax(worst, fabs(at - (double)i / (double)count));
        worst = fmax(worst, fabs(at - (double)(i + 1) / (double)count));
    }
    return worst * sqrt((double)count);
}

static double exponential_curve(double x)
{
    return 1 - exp(-x);
}

static double normal_curve(double x)
{
    return erfc(-x / sqrt(2)) / 2;
}

#define DRAWS 200000
static double draws[DRAWS];

static void exponential__many_draws__follow_the_curve(void **state)
{
    (void)state;
    struct weir_rng rng;
    weir_rng_seed(&rng, 14, 0);
    double sum = 0;
    for (size_t i = 0; i < DRAWS; i++)
        sum += draws[i] = (double)weir_chance_exponential(&rng, 1000000000) / 1e9;
    double distance = curve_distance(draws, DRAWS, exponential_curve);
    CHECK_MSG(distance < 1.95, "distance %.3f", distance);
    /* The standard error of the mean is the mean / sqrt(n). */
    CHECK_MSG(fabs(sum / DRAWS - 1) < 4 / sqrt(DRAWS), "mean %.5f", sum / DRAWS);
}

static void exponential__large_means__stop_at_the_end(void **state)
{
    (void)state;
    struct weir_rng rng;
    weir_rng_seed(&rng, 15, 0);
    bool stopped = false;
    for (int i = 0; i < 100; i++) {
        stopped = stopped || weir_chance_exponential(&rng, UINT64_MAX) == UINT64_MAX;
        CHECK(weir_chance_exponential(&rng, 0) == 0);
    }
    CHECK(stopped);
}

static void normal__many_draws__follow_the_curve(void **state)
{
    (void)state;
    struct weir_rng rng;
    weir_rng_seed(&rng, 16, 0);
    for (size_t i = 0; i < DRAWS; i++) {
        draws[i] = (double)weir_chance_normal_q32(&rng) / (double)UNIT;
        CHECK(fabs(draws[i]) < 9.5);
    }
    double distance = curve_distance(draws, DRAWS, normal_curve);
    CHECK_MSG(distance < 1.95, "distance %.3f", distance);
}

static double median_1000_curve(double x)
{
    return normal_curve(log(x / 1000) / 0.75);
}

static void lengths__each_kind__has_its_shape(void **state)
{
    (void)state;
    struct weir_rng rng;
    weir_rng_seed(&rng, 17, 0);
    const struct weir_length fixed = {.kind = WEIR_LENGTH_FIXED, .mean = 250};
    const struct weir_length uniform = {.kind = WEIR_LENGTH_UNIFORM, .low = 300, .high = 1500};
    const struct weir_length exponential = {
        .kind = WEIR_LENGTH_EXPONENTIAL, .mean = 250, .low = 1, .high = 600};
    const struct weir_length lognormal = {
        .kind = WEIR_LENGTH_LOGNORMAL, .mean = 1000, .sigma_permille = 750};
    double uniform_sum = 0;
    uint32_t at_low = 0, at_high = 0;
    for (size_t i = 0; i < DRAWS; i++) {
        CHECK_INT(weir_length_draw(&fixed, &rng), 250);
        uint32_t tok = weir_length_draw(&uniform, &rng);
        CHECK(tok >= 300 && tok <= 1500);
        uniform_sum += tok;
        tok = weir_length_draw(&exponential, &rng);
        CHECK(tok >= 1 && tok <= 600);
        at_low += tok == 1;
        at_high += tok == 600;
        /* The draws are whole tokens: spread them again before the curves are compared. */
        draws[i] =
            weir_length_draw(&lognormal, &rng) + (double)weir_rng_below(&rng, 1000) / 1000 - 0.5;
    }
    CHECK_MSG(fabs(uniform_sum / DRAWS - 900) < 4 * 346.7 / sqrt(DRAWS), "mean %.2f",
              uniform_sum / DRAWS);
    double high_share = exp(-599.5 / 250), low_share = 1 - exp(-1.5 / 250);
    CHECK_MSG(fabs(at_high - high_share * DRAWS) < 4 * sqrt(high_share * DRAWS), "%u", at_high);
    CHECK_MSG(fabs(at_low - low_share * DRAWS) < 4 * sqrt(low_share * DRAWS), "%u", at_low);
    double distance = curve_distance(draws, DRAWS, median_1000_curve);
    CHECK_MSG(distance < 1.95, "distance %.3f", distance);
}

static void lengths__impossible_ones__are_told(void **state)
{
    (void)state;
    static const struct {
        struct weir_length length;
        bool is_fine;
    } rows[] = {
        {{.kind = WEIR_LENGTH_FIXED, .mean = 1}, true},
        {{.kind = WEIR_LENGTH_FIXED, .mean = 0}, false},
        {{.kind = WEIR_LENGTH_UNIFORM, .low = 0, .high = 0}, true},
        {{.kind = WEIR_LENGTH_UNIFORM, .low = 0, .high = UINT32_MAX}, true},
        {{.kind = WEIR_LENGTH_UNIFORM, .low = 2, .high = 1}, false},
        {{.kind = WEIR_LENGTH_UNIFORM, .low = 2, .high = 0}, false},
        {{.kind = WEIR_LENGTH_EXPONENTIAL, .mean = 5, .low = 7}, true},
        {{.kind = WEIR_LENGTH_EXPONENTIAL, .mean = 5, .low = 7, .high = 6}, false},
        {{.kind = WEIR_LENGTH_LOGNORMAL, .mean = UINT32_MAX, .sigma_permille = 5000}, true},
        {{.kind = WEIR_LENGTH_LOGNORMAL, .mean = 5, .sigma_permille = 5001}, false},
    };
    struct weir_rng rng;
    weir_rng_seed(&rng, 18, 0);
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        CHECK_MSG((weir_length_problem(&rows[i].length) == NULL) == rows[i].is_fine, "row %zu", i);
        for (int n = 0; rows[i].is_fine && n < 10000; n++)
            CHECK(weir_length_draw(&rows[i].length, &rng) >= rows[i].length.low);
    }
}

/* The first draws of a seed, as every compiler must give them. */
static void draws__golden_seed__are_these(void **state)
{
    (void)state;
    static const int64_t want[][3] = {
        {1189179974, -585836160, 1908},
        {639375516, 5545098288, 786},
        {1686004082, 3057106384, 897},
    };
    const struct weir_length lognormal = {
        .kind = WEIR_LENGTH_LOGNORMAL, .mean = 1000, .sigma_permille = 750};
    struct weir_rng rng;
    weir_rng_seed(&rng, 42, 1);
    for (size_t i = 0; i < WEIR_COUNT(want); i++) {
        CHECK_INT(weir_chance_exponential(&rng, WEIR_NS_PER_S), want[i][0]);
        CHECK_INT(weir_chance_normal_q32(&rng), want[i][1]);
        CHECK_INT(weir_length_draw(&lognormal, &rng), want[i][2]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neg_ln__any_u__is_within_its_bound_of_libm),
        cmocka_unit_test(neg_ln__known_values__are_exact),
        cmocka_unit_test(neg_ln__u_grows__never_grows),
        cmocka_unit_test(exp__any_x__is_within_its_bound_of_libm),
        cmocka_unit_test(exponential__many_draws__follow_the_curve),
        cmocka_unit_test(exponential__large_means__stop_at_the_end),
        cmocka_unit_test(normal__many_draws__follow_the_curve),
        cmocka_unit_test(lengths__each_kind__has_its_shape),
        cmocka_unit_test(lengths__impossible_ones__are_told),
        cmocka_unit_test(draws__golden_seed__are_these),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
