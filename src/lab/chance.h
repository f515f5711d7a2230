/* chance: gaps and lengths drawn at random, in integers, so that the same seed gives the same draws
 * whatever compiled it.
 *
 * Exponential draws come from -ln(u) by repeated squaring (the binary digits of a logarithm, one
 * squaring each), normal ones from the polar method (Marsaglia and Bray 1964), log-normal ones from
 * those through a series for e^x. No floating point and no libm anywhere. Chance itself is
 * core/rng.h; each draw takes what it needs from the generator it is given. Thread: any. */
#ifndef WEIR_LAB_CHANCE_H
#define WEIR_LAB_CHANCE_H

#include <stdint.h>

#include "core/rng.h"

/* -ln(u / 2^64) in units of 2^-32 (so at most 64 ln 2, about 44.4 of them). u is not 0.
 *
 * Rounded to nearest; the error is below 0.51 units, whatever u. */
uint64_t weir_neg_ln_q32(uint64_t u);

/* e^(x / 2^32) in units of 2^-32, rounded down; UINT64_MAX from 2^31 on. Off by less than one unit
 * and a 2^-31st of the result. */
uint64_t weir_exp_q32(int64_t x_q32);

/* A gap of a Poisson process: exponential with this mean, rounded to nearest. Stops at UINT64_MAX.
 */
uint64_t weir_chance_exponential(struct weir_rng *rng, uint64_t mean);

/* A standard normal draw in units of 2^-32, exact to a few of 2^-28; at most 9.5 either way. */
int64_t weir_chance_normal_q32(struct weir_rng *rng);

enum weir_length_kind {
    WEIR_LENGTH_FIXED,       /* mean */
    WEIR_LENGTH_UNIFORM,     /* low .. high, both included */
    WEIR_LENGTH_EXPONENTIAL, /* around mean */
    WEIR_LENGTH_LOGNORMAL,   /* around the median `mean`, sigma_permille of its logarithm */
};

#define WEIR_LENGTH_SIGMA_MAX_PERMILLE 5000u

/* How long a prompt or an answer is, in tokens. Every draw is held to low .. high. */
struct weir_length {
    enum weir_length_kind kind;
    uint32_t low, high; /* high 0: no upper end (not for UNIFORM) */
    uint32_t mean;
    uint32_t sigma_permille; /* LOGNORMAL: 0 .. WEIR_LENGTH_SIGMA_MAX_PERMILLE */
};

/* NULL: the distribution can be drawn from. Else what is wrong with it, to be put behind its name.
 */
const char *weir_length_problem(const struct weir_length *l);

/* One length. Rounded to nearest, then held to its ends. Without a problem, see above.
 *
 * Takes from the generator: nothing when FIXED, else a number of draws that may differ. */
uint32_t weir_length_draw(const struct weir_length *l, struct weir_rng *rng);

#endif
