/* percentile: exact percentiles of a bounded number of measured values.
 *
 * Every value is kept, so that what is said of the tail was measured and not interpolated: the
 * percentile p of n values is the smallest of them that at least p of all values do not exceed
 * (nearest rank). The median of two values is the lower one, the 99th percentile of fifty the
 * largest. Thread: of its owner. */
#ifndef WEIR_MEASURE_PERCENTILE_H
#define WEIR_MEASURE_PERCENTILE_H

#include "core/base.h"

#define WEIR_SAMPLE_ROOM_MAX (UINT64_C(1) << 28)

/* Zero is an empty one without room. */
struct weir_sample {
    uint64_t *values;
    size_t count, room;
    size_t sorted; /* values[0 .. sorted - 1] are in order */
};

/* Makes room for so many values, 0 .. WEIR_SAMPLE_ROOM_MAX. Owns: the caller, until free.
 * Fails: false, out of memory; *sample is empty. */
WEIR_MUST_USE bool weir_sample_init(struct weir_sample *sample, size_t room);
void weir_sample_free(struct weir_sample *sample);

/* Adds a value; there is room for it. */
void weir_sample_add(struct weir_sample *sample, uint64_t value);

/* The percentile, in thousandths: 500 is the median, 0 the smallest, 1000 the largest. 0 when there
 * are no values. Cost: sorts what was added since the last time. */
uint64_t weir_sample_at(struct weir_sample *sample, uint32_t permille);

/* Rounded down; 0 when there are no values. */
uint64_t weir_sample_mean(const struct weir_sample *sample);

#endif
