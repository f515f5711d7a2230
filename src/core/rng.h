/* rng: seeded chance. The core draws only from a generator that the host seeded and handed in, so
 * the same seed gives the same run on every machine and in the browser.
 *
 * A 64-bit linear congruential state, of which each draw shows 32 well mixed bits (the PCG family,
 * O'Neill 2014, XSH-RR). Streams of one seed are independent. Not for secrets. Thread: of its
 * owner. */
#ifndef WEIR_CORE_RNG_H
#define WEIR_CORE_RNG_H

#include <stdint.h>

#include "core/base.h"

struct weir_rng {
    uint64_t state;
    uint64_t step; /* odd; chooses the stream */
};

/* Starts a generator. Different streams of the same seed share no sequence. */
void weir_rng_seed(struct weir_rng *rng, uint64_t seed, uint64_t stream);

uint32_t weir_rng_u32(struct weir_rng *rng);
uint64_t weir_rng_u64(struct weir_rng *rng);

/* Uniform in 0 .. bound - 1, without bias. bound is not 0. */
uint64_t weir_rng_below(struct weir_rng *rng, uint64_t bound);

/* Uniform in low .. high, both included. low <= high. */
uint64_t weir_rng_between(struct weir_rng *rng, uint64_t low, uint64_t high);

/* True in numerator of denominator cases: weir_chance(rng, 3, 1000). 0 <= numerator <= denominator.
 */
bool weir_chance(struct weir_rng *rng, uint64_t numerator, uint64_t denominator);

#endif
