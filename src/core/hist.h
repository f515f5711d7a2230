/* hist: a histogram of any uint64_t in fixed memory, for waits, sizes and token counts.
 *
 * Log-linear: values below 64 have a bucket each; above, every doubling is cut into 32 equal
 * buckets. A bucket is thus at most 1/32 (3.2 %) of its lower end wide, from nanoseconds to
 * centuries. All-zero memory is an empty histogram. Counts stop at their end rather than wrap.
 * Thread: of its owner. */
#ifndef WEIR_CORE_HIST_H
#define WEIR_CORE_HIST_H

#include <stdint.h>

#include "core/base.h"

#define WEIR_HIST_SPLIT_BITS 5
#define WEIR_HIST_BUCKETS ((64 - WEIR_HIST_SPLIT_BITS + 1) << WEIR_HIST_SPLIT_BITS)

struct weir_hist {
    uint64_t count;
    uint64_t sum;
    uint64_t max;
    uint64_t counts[WEIR_HIST_BUCKETS];
};

void weir_hist_add(struct weir_hist *h, uint64_t value);
void weir_hist_add_many(struct weir_hist *h, uint64_t value, uint64_t times);

/* Adds everything that `from` has seen to h. */
void weir_hist_merge(struct weir_hist *h, const struct weir_hist *from);

/* The value below or at which at least numerator/denominator of all values lie: the upper end of
 * that bucket, never above the true maximum; 0 when nothing was added. 0 <= numerator <=
 * denominator. */
uint64_t weir_hist_quantile(const struct weir_hist *h, uint64_t numerator, uint64_t denominator);

/* How many values are at most `bound`: exact when bound is the last value of a bucket (2^k - 1
 * always is), else values of bound's own bucket are left out. For the `le` series of a metrics
 * page. */
uint64_t weir_hist_count_upto(const struct weir_hist *h, uint64_t bound);

/* The bucket that holds value, and the first and last value of a bucket. */
uint32_t weir_hist_index(uint64_t value);
uint64_t weir_hist_first(uint32_t index);
uint64_t weir_hist_last(uint32_t index);

#endif
