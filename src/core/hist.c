#include "core/hist.h"

#include "core/num.h"

#define SPLIT (UINT32_C(1) << WEIR_HIST_SPLIT_BITS)

/* The first two rows of SPLIT buckets are one value wide; row r after them covers values with r - 1
 * bits below the ones that choose the bucket. */
uint32_t weir_hist_index(uint64_t value)
{
    if (value < 2 * SPLIT)
        return (uint32_t)value;
    uint32_t shift = weir_log2_floor_u64(value) - WEIR_HIST_SPLIT_BITS;
    return shift * SPLIT + (uint32_t)(value >> shift);
}

uint64_t weir_hist_first(uint32_t index)
{
    WEIR_INVARIANT(index < WEIR_HIST_BUCKETS);
    if (index < 2 * SPLIT)
        return index;
    uint32_t shift = index / SPLIT - 1;
    return (uint64_t)(index - shift * SPLIT) << shift;
}

uint64_t weir_hist_last(uint32_t index)
{
    return index + 1 < WEIR_HIST_BUCKETS ? weir_hist_first(index + 1) - 1 : UINT64_MAX;
}

void weir_hist_add(struct weir_hist *h, uint64_t value)
{
    weir_hist_add_many(h, value, 1);
}

void weir_hist_add_many(struct weir_hist *h, uint64_t value, uint64_t times)
{
    if (times == 0)
        return;
    uint64_t *bucket = &h->counts[weir_hist_index(value)];
    *bucket = weir_add_sat_u64(*bucket, times);
    h->count = weir_add_sat_u64(h->count, times);
    uint64_t total;
    if (__builtin_mul_overflow(value, times, &total))
        total = UINT64_MAX;
    h->sum = weir_add_sat_u64(h->sum, total);
    h->max = weir_max_u64(h->max, value);
}

void weir_hist_merge(struct weir_hist *h, const struct weir_hist *from)
{
    for (uint32_t i = 0; i < WEIR_HIST_BUCKETS; i++)
        h->counts[i] = weir_add_sat_u64(h->counts[i], from->counts[i]);
    h->count = weir_add_sat_u64(h->count, from->count);
    h->sum = weir_add_sat_u64(h->sum, from->sum);
    h->max = weir_max_u64(h->max, from->max);
}

uint64_t weir_hist_quantile(const struct weir_hist *h, uint64_t numerator, uint64_t denominator)
{
    WEIR_INVARIANT(numerator <= denominator);
    if (h->count == 0)
        return 0;
    uint64_t rank = weir_max_u64(1, weir_muldiv_ceil(h->count, numerator, denominator));
    uint64_t below = 0;
    for (uint32_t i = 0; i < WEIR_HIST_BUCKETS; i++) {
        below = weir_add_sat_u64(below, h->counts[i]);
        if (below >= rank)
            return weir_min_u64(weir_hist_last(i), h->max);
    }
    return h->max;
}

uint64_t weir_hist_count_upto(const struct weir_hist *h, uint64_t bound)
{
    uint32_t end = weir_hist_index(bound);
    if (weir_hist_last(end) == bound)
        end++;
    uint64_t count = 0;
    for (uint32_t i = 0; i < end; i++)
        count = weir_add_sat_u64(count, h->counts[i]);
    return count;
}
