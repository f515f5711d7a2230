#include "core/num.h"

typedef unsigned __int128 u128;

static uint64_t narrow(u128 v)
{
    return v > UINT64_MAX ? UINT64_MAX : (uint64_t)v;
}

/* Most products fit 64 bits; dividing those there is several times as fast as the 128-bit helper.
 */
static u128 divide(u128 product, uint64_t c, uint64_t *remainder)
{
    WEIR_INVARIANT(c != 0);
    if (product <= UINT64_MAX) {
        *remainder = (uint64_t)product % c;
        return (uint64_t)product / c;
    }
    *remainder = (uint64_t)(product % c);
    return product / c;
}

uint64_t weir_muldiv_floor(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t remainder;
    return narrow(divide((u128)a * b, c, &remainder));
}

uint64_t weir_muldiv_ceil(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t remainder;
    u128 quotient = divide((u128)a * b, c, &remainder);
    return narrow(quotient + (remainder != 0));
}

uint64_t weir_muldiv_carry(uint64_t a, uint64_t b, uint64_t c, uint64_t *carry)
{
    WEIR_INVARIANT(*carry < c);
    /* (2^64 - 1)^2 + 2^64 - 2 is below 2^128: the sum cannot wrap. */
    u128 quotient = divide((u128)a * b + *carry, c, carry);
    if (quotient > UINT64_MAX)
        *carry = 0;
    return narrow(quotient);
}

int64_t weir_utok_from_tok(int64_t tok)
{
    int64_t utok;
    if (__builtin_mul_overflow(tok, WEIR_UTOK_PER_TOK, &utok))
        return tok > 0 ? INT64_MAX : INT64_MIN;
    return utok;
}

int64_t weir_tok_from_utok_ceil(int64_t utok)
{
    return utok / WEIR_UTOK_PER_TOK + (utok % WEIR_UTOK_PER_TOK > 0);
}

int64_t weir_tok_from_utok_floor(int64_t utok)
{
    return utok / WEIR_UTOK_PER_TOK - (utok % WEIR_UTOK_PER_TOK < 0);
}
