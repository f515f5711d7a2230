#include "core/rng.h"

void weir_rng_seed(struct weir_rng *rng, uint64_t seed, uint64_t stream)
{
    rng->step = stream * 2 + 1;
    rng->state = 0;
    (void)weir_rng_u32(rng);
    rng->state += seed;
    (void)weir_rng_u32(rng);
}

uint32_t weir_rng_u32(struct weir_rng *rng)
{
    uint64_t before = rng->state;
    rng->state = before * UINT64_C(6364136223846793005) + rng->step;
    /* The low bits of such a generator are weak: fold the high ones in, then turn by the top five.
     */
    uint32_t folded = (uint32_t)((before ^ (before >> 18)) >> 27);
    uint32_t turn = (uint32_t)(before >> 59);
    return folded >> turn | folded << ((32u - turn) & 31u);
}

uint64_t weir_rng_u64(struct weir_rng *rng)
{
    uint64_t high = weir_rng_u32(rng);
    return high << 32 | weir_rng_u32(rng);
}

uint64_t weir_rng_below(struct weir_rng *rng, uint64_t bound)
{
    WEIR_INVARIANT(bound != 0);
    /* 2^64 mod bound values at the low end are drawn again, so that each result has the same share.
     */
    uint64_t surplus = (0 - bound) % bound;
    uint64_t draw;
    do
        draw = weir_rng_u64(rng);
    while (draw < surplus);
    return draw % bound;
}

uint64_t weir_rng_between(struct weir_rng *rng, uint64_t low, uint64_t high)
{
    WEIR_INVARIANT(low <= high);
    if (high - low == UINT64_MAX)
        return weir_rng_u64(rng);
    return low + weir_rng_below(rng, high - low + 1);
}

bool weir_chance(struct weir_rng *rng, uint64_t numerator, uint64_t denominator)
{
    WEIR_INVARIANT(numerator <= denominator);
    return weir_rng_below(rng, denominator) < numerator;
}
