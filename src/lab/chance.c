#include "lab/chance.h"

#include "core/num.h"

#define Q32_ONE (UINT64_C(1) << 32)
#define LN2_Q64 UINT64_C(0xb17217f7d1cf79ac)
#define LN2_Q32 INT64_C(0xb17217f8)

/* Digits of the logarithm: what lies behind the last is below 2^-40. */
#define LOG_DIGITS 40u

/* The upper half of x squared, or one less: without the product of the lower halves, and so without
 * 128-bit arithmetic, which is slow where there is none in hardware. */
static uint64_t square_high(uint64_t x)
{
    uint64_t high = x >> 32, low = x & UINT32_MAX;
    return high * high + (high * low >> 31);
}

static uint64_t mul_high(uint64_t a, uint64_t b)
{
    return (uint64_t)((unsigned __int128)a * b >> 64);
}

uint64_t weir_neg_ln_q32(uint64_t u)
{
    WEIR_INVARIANT(u != 0);
    uint32_t zeros = (uint32_t)__builtin_clzll(u);
    uint64_t x = u << zeros; /* 1 <= x / 2^63 < 2 */
    uint64_t digits = 0;     /* of log2 of that */
    for (uint32_t i = 0; i < LOG_DIGITS; i++) {
        /* The square lies in 1 .. 4: a digit is whether it reached 2. Cut off to 63 digits each
         * time, which costs less than 2^-60 in all. */
        uint64_t square = square_high(x); /* / 2^62 */
        uint64_t digit = square >> 63;
        digits = digits << 1 | digit;
        x = square << (1 - digit);
    }
    /* u / 2^64 = 2^-(zeros + 1) x (1 .. 2). Half a digit more lies in the middle of what was cut
     * off. */
    uint64_t log2_q41 = ((uint64_t)(zeros + 1) << (LOG_DIGITS + 1)) - (2 * digits + 1);
    unsigned __int128 ln_q105 = (unsigned __int128)log2_q41 * LN2_Q64;
    return (uint64_t)((ln_q105 >> 72) + 1) >> 1;
}

uint64_t weir_exp_q32(int64_t x_q32)
{
    /* e^x = 2^halvings x e^rest, rest in 0 .. ln 2. */
    int64_t halvings = x_q32 / LN2_Q32 - (x_q32 % LN2_Q32 < 0);
    if (halvings >= 31)
        return UINT64_MAX;
    if (halvings < -33)
        return 0;
    unsigned __int128 magnitude = (unsigned __int128)weir_abs_i64(halvings) * LN2_Q64;
    __int128 whole_q64 = halvings < 0 ? -(__int128)magnitude : (__int128)magnitude;
    __int128 rest_q64 = (__int128)x_q32 * (__int128)Q32_ONE - whole_q64;
    /* LN2_Q32 is not quite ln 2, so the rest may be a hair below 0. */
    uint64_t rest = rest_q64 < 0 ? 0 : (uint64_t)rest_q64;
    /* 1 + r (1 + r/2 (1 + r/3 (...))), r below 0.7: the 20th term is below 2^-70. */
    uint64_t sum_q62 = UINT64_C(1) << 62;
    for (uint64_t n = 20; n > 0; n--)
        sum_q62 = (UINT64_C(1) << 62) + mul_high(sum_q62, rest) / n;
    return sum_q62 >> (30 - halvings);
}

static uint64_t draw_nonzero(struct weir_rng *rng)
{
    uint64_t u;
    do
        u = weir_rng_u64(rng);
    while (u == 0);
    return u;
}

/* value x factor_q32, rounded to nearest; stops at UINT64_MAX. */
static uint64_t scale_q32(uint64_t value, uint64_t factor_q32)
{
    unsigned __int128 scaled = ((unsigned __int128)value * factor_q32 + (Q32_ONE >> 1)) >> 32;
    return scaled > UINT64_MAX ? UINT64_MAX : (uint64_t)scaled;
}

uint64_t weir_chance_exponential(struct weir_rng *rng, uint64_t mean)
{
    return scale_q32(mean, weir_neg_ln_q32(draw_nonzero(rng)));
}

/* The integer part of the square root. */
static uint64_t root_floor(uint64_t v)
{
    uint64_t root = 0;
    for (uint64_t bit = UINT64_C(1) << 62; bit != 0; bit >>= 2) {
        bool fits = v >= root + bit;
        if (fits)
            v -= root + bit;
        root = (root >> 1) + (fits ? bit : 0);
    }
    return root;
}

int64_t weir_chance_normal_q32(struct weir_rng *rng)
{
    /* A point in the unit disc: its direction is uniform, and -ln of its squared radius is
     * exponential. The other coordinate's draw is not kept: a draw leaves nothing behind. */
    int64_t across, up;
    uint64_t radius_q62;
    do {
        across = (int64_t)weir_rng_u32(rng) - (INT64_C(1) << 31);
        up = (int64_t)weir_rng_u32(rng) - (INT64_C(1) << 31);
        radius_q62 = (uint64_t)(across * across) + (uint64_t)(up * up);
    } while (radius_q62 == 0 || radius_q62 >= UINT64_C(1) << 62);
    int64_t length_q28 = (int64_t)root_floor(weir_neg_ln_q32(radius_q62 << 2) << 25);
    int64_t radius_q31 = (int64_t)root_floor(radius_q62);
    return length_q28 * across / radius_q31 * 16;
}

static uint32_t clamp_tok(uint64_t tok, const struct weir_length *l)
{
    uint64_t high = l->high == 0 ? UINT32_MAX : l->high;
    return (uint32_t)weir_min_u64(weir_max_u64(tok, l->low), high);
}

static uint64_t draw_lognormal(const struct weir_length *l, struct weir_rng *rng)
{
    int64_t x_q32 = weir_chance_normal_q32(rng) * (int64_t)l->sigma_permille / 1000;
    return scale_q32(l->mean, weir_exp_q32(x_q32));
}

const char *weir_length_problem(const struct weir_length *l)
{
    if ((l->high != 0 || l->kind == WEIR_LENGTH_UNIFORM) && l->high < l->low)
        return "has its low end above its high end";
    if (l->kind != WEIR_LENGTH_UNIFORM && l->mean == 0)
        return "has a mean of 0; give at least 1 token";
    if (l->sigma_permille > WEIR_LENGTH_SIGMA_MAX_PERMILLE)
        return "has a sigma above 5";
    return NULL;
}

uint32_t weir_length_draw(const struct weir_length *l, struct weir_rng *rng)
{
    switch (l->kind) {
    case WEIR_LENGTH_FIXED:
        return clamp_tok(l->mean, l);
    case WEIR_LENGTH_UNIFORM:
        return (uint32_t)weir_rng_between(rng, l->low, l->high);
    case WEIR_LENGTH_EXPONENTIAL:
        return clamp_tok(weir_chance_exponential(rng, l->mean), l);
    case WEIR_LENGTH_LOGNORMAL:
        break;
    }
    return clamp_tok(draw_lognormal(l, rng), l);
}
