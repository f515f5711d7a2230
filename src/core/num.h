/* num: integer arithmetic that neither wraps nor drifts, and the only place where units change.
 *
 * Every product that is divided afterwards is 128 bits wide inside, so that a small rate times a
 * short time does not round to nothing and a large one does not wrap. Results too large for their
 * type stop at its end ("saturate"): for a wait that reads as never, for an amount as more than
 * anything allows. The rounding is part of each name: charges and hints round up, earnings and
 * refunds round down.
 *
 * Micro-tokens (utok) and micro-work (uwork) are millionths of a model token and of a unit of work;
 * a bucket that counts requests counts a request as one token. Thread: any. */
#ifndef WEIR_CORE_NUM_H
#define WEIR_CORE_NUM_H

#include <stdint.h>

#include "core/base.h"

#define WEIR_UTOK_PER_TOK INT64_C(1000000)
#define WEIR_UWORK_PER_WORK INT64_C(1000000)

/* a * b / c, rounded down; UINT64_MAX when that is too large. c is not 0. */
uint64_t weir_muldiv_floor(uint64_t a, uint64_t b, uint64_t c);

/* a * b / c, rounded up; UINT64_MAX when that is too large. c is not 0. */
uint64_t weir_muldiv_ceil(uint64_t a, uint64_t b, uint64_t c);

/* (a * b + *carry) / c, rounded down, the remainder left in *carry for the next call.
 *
 * *carry  below c, 0 at first. Calls with a1, a2, ... add up to exactly one call with their sum:
 * the result does not depend on how a stretch of time was cut. Saturated, *carry becomes 0. */
uint64_t weir_muldiv_carry(uint64_t a, uint64_t b, uint64_t c, uint64_t *carry);

/* Whole tokens in micro-tokens; stops at INT64_MAX and INT64_MIN. */
int64_t weir_utok_from_tok(int64_t tok);

/* Micro-tokens in whole tokens, rounded towards plus or minus infinity. */
int64_t weir_tok_from_utok_ceil(int64_t utok);
int64_t weir_tok_from_utok_floor(int64_t utok);

/* a + b and a - b that stop at the ends of int64_t. */
static inline int64_t weir_add_sat_i64(int64_t a, int64_t b)
{
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return b > 0 ? INT64_MAX : INT64_MIN;
    return sum;
}

static inline int64_t weir_sub_sat_i64(int64_t a, int64_t b)
{
    int64_t difference;
    if (__builtin_sub_overflow(a, b, &difference))
        return b > 0 ? INT64_MIN : INT64_MAX;
    return difference;
}

/* a - b, or 0 where b is larger: for time left and room left. */
static inline uint64_t weir_sub_sat_u64(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* The distance of v from 0; right for INT64_MIN too. */
static inline uint64_t weir_abs_i64(int64_t v)
{
    return v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
}

/* a / b rounded up, without a sum that could wrap. b is not 0. */
static inline uint64_t weir_div_ceil_u64(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

/* The position of the highest bit set: floor of the binary logarithm. v is not 0. */
static inline uint32_t weir_log2_floor_u64(uint64_t v)
{
    return 63u - (uint32_t)__builtin_clzll(v);
}

#endif
