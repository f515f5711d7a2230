/* theory_stats: how a simulated mean is held against an expected one.
 *
 * The mean over independent runs is compared with the theory; the difference allowed is its own
 * standard error times Student's t for so many runs at one in a thousand: what the runs say of
 * themselves, and nothing else. Seeds are fixed, so a test is as deterministic as any other. Floats
 * are fine here; the model has none. */
#ifndef WEIR_TESTS_THEORY_STATS_H
#define WEIR_TESTS_THEORY_STATS_H

#include <math.h>

#include "support/check.h"

struct sample {
    double mean;
    double error; /* standard error of the mean */
    double allowed;
};

static inline struct sample sample_of(const double *values, uint32_t count)
{
    double sum = 0, squares = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += values[i];
    for (uint32_t i = 0; i < count; i++)
        squares += (values[i] - sum / count) * (values[i] - sum / count);
    double error = sqrt(squares / (count - 1) / count);
    /* Two-sided, 0.1 %: 3.883 for 20 runs, 3.558 for 40; never more than that for more. */
    return (struct sample){sum / count, error, (count < 40 ? 3.883 : 3.558) * error};
}

static inline bool sample_agrees(struct sample sample, double theory)
{
    return fabs(sample.mean - theory) <= sample.allowed;
}

/* Agrees, and could tell another value: its error is small beside it. */
static inline void check_agrees(const char *what, struct sample sample, double theory,
                                double error_max)
{
    CHECK_MSG(sample_agrees(sample, theory), "%s: %.6f +- %.6f, theory %.6f", what, sample.mean,
              sample.allowed, theory);
    CHECK_MSG(sample.error <= error_max * theory, "%s: an error of %.2f %% tells nothing", what,
              100 * sample.error / theory);
}

/* Erlang's C: the share of those who come that waits in M/M/c. load: of all servers, below 1. */
static inline double erlang_c(uint32_t servers, double load)
{
    double offered = load * servers, term = 1, sum = 0;
    for (uint32_t k = 0; k < servers; k++) {
        sum += term;
        term *= offered / (k + 1);
    }
    return term / (1 - load) / (sum + term / (1 - load));
}

#endif
