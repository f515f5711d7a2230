#include "core/hist.h"

#include <stdlib.h>

#include "support/check.h"
#include "support/tape.h"

static void hist__buckets__tile_all_values(void **state)
{
    (void)state;
    CHECK(weir_hist_first(0) == 0);
    for (uint32_t i = 0; i < WEIR_HIST_BUCKETS; i++) {
        uint64_t first = weir_hist_first(i), last = weir_hist_last(i);
        CHECK_INT(weir_hist_index(first), i);
        CHECK_INT(weir_hist_index(last), i);
        CHECK(i == 0 || weir_hist_last(i - 1) + 1 == first);
        CHECK_MSG((last - first) <= first / 32, "bucket %u is too wide", i);
    }
    CHECK(weir_hist_last(WEIR_HIST_BUCKETS - 1) == UINT64_MAX);
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void quantiles_are_close(struct tape *t)
{
    struct weir_hist *h = tape_alloc(t, sizeof *h);
    struct weir_hist *half = tape_alloc(t, sizeof *half);
    uint64_t values[200], sum = 0;
    size_t count = 0;
    do {
        uint64_t v = tape_below(t, UINT64_C(1) << 48) >> tape_below(t, 48);
        values[count++] = v;
        sum += v;
        weir_hist_add(tape_chance(t, 1, 2) ? h : half, v);
    } while (tape_more(t) && count < WEIR_COUNT(values));
    weir_hist_merge(h, half);
    qsort(values, count, sizeof values[0], by_value);
    TAPE_CHECK(t, h->count == count);
    TAPE_CHECK(t, h->sum == sum);
    TAPE_CHECK(t, h->max == values[count - 1]);
    for (uint64_t percent = 0; percent <= 100; percent++) {
        uint64_t rank = (count * percent + 99) / 100;
        uint64_t truth = values[rank ? rank - 1 : 0];
        uint64_t answer = weir_hist_quantile(h, percent, 100);
        TAPE_CHECK(t, answer >= truth);
        TAPE_CHECK(t, answer - truth <= truth / 32);
    }
    for (uint32_t bits = 0; bits < 64; bits++) {
        uint64_t bound = (UINT64_C(1) << bits) - 1, below = 0;
        for (size_t i = 0; i < count; i++)
            below += values[i] <= bound;
        TAPE_CHECK(t, weir_hist_count_upto(h, bound) == below);
    }
}

static void hist__any_values__quantiles_are_within_a_bucket(void **state)
{
    (void)state;
    tape_check(__func__, quantiles_are_close, 500, 600);
}

static void hist__empty__answers_zero(void **state)
{
    (void)state;
    static struct weir_hist h;
    CHECK(weir_hist_quantile(&h, 99, 100) == 0);
    CHECK(weir_hist_count_upto(&h, UINT64_MAX) == 0);
    weir_hist_add_many(&h, 5, 0);
    CHECK(h.count == 0);
}

static void hist__sum_too_large__stops_at_the_end(void **state)
{
    (void)state;
    static struct weir_hist h;
    weir_hist_add_many(&h, UINT64_MAX, 3);
    weir_hist_add(&h, 1);
    CHECK(h.sum == UINT64_MAX);
    CHECK(h.count == 4);
    CHECK(weir_hist_quantile(&h, 1, 4) == 1);
    CHECK(weir_hist_quantile(&h, 1, 2) == UINT64_MAX);
    CHECK(weir_hist_count_upto(&h, UINT64_MAX) == 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hist__buckets__tile_all_values),
        cmocka_unit_test(hist__any_values__quantiles_are_within_a_bucket),
        cmocka_unit_test(hist__empty__answers_zero),
        cmocka_unit_test(hist__sum_too_large__stops_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
