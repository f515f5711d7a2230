/* estimator: how many tokens a request will cost, told before it is sent.
 *
 * Three numbers for each request:
 *   input      what its input counts as, aimed at the upper side: the classes of its text
 *              (core/shape.h) each at a base price, times a ratio learned from the usage that came
 *              back for the same (tenant, model), at a chosen quantile: with p99 one request in a
 *              hundred is under-estimated. Text is clamped to 1 .. 8 bytes a token, whatever was learned.
 *   output     the most it may produce: its limit, or the model's default, times its choices.
 *   predicted  what it likely produces: a moving average of (tenant, model), 0 before the first
 *              answer.
 *
 * Budgets reserve input + output; fairness charges input and predicted.
 *
 * strict takes the hard upper bound instead of what was learned: a token for each byte.
 *
 * What is learned lies in a table of fixed size, four places a set, the least recently used of the
 * four makes room. A newcomer starts from its model's ratio, a new model from 1.2. Nothing is lost
 * for good: a forgotten pair learns again.
 *
 * Integers only. Thread: loop. Memory: the host's, all-zero at start, untouched where unused.
 * Source: docs/estimator.md. */
#ifndef WEIR_CORE_ESTIMATOR_H
#define WEIR_CORE_ESTIMATOR_H

#include "core/base.h"
#include "core/shape.h"

struct weir_estimator;

/* Ratios of estimate to actual, in percent, that the coverage histogram counts below; the last is
 * "more". */
#define WEIR_COVERAGE_BINS 14
extern const uint32_t weir_coverage_percent[WEIR_COVERAGE_BINS - 1];

struct weir_estimator_rules {
    uint32_t pairs_max; /* (tenant, model) pairs remembered; rounded up to a power of two, >= 4 */
    uint32_t models_max;
    uint32_t quantile_permille; /* 500 .. 999; 990 is p99 */
};

/* Constants of a model. */
struct weir_model_rules {
    uint64_t output_default_tok; /* when a request gives no limit */
    uint64_t image_tok;          /* an image whose size is not known */
    uint64_t file_tok;           /* any other attachment */
};

/* Who is learned for. The generation tells a tenant from an earlier one with the same index. */
struct weir_estimator_pair {
    uint32_t tenant;
    uint32_t generation;
    uint32_t model;
};

struct weir_estimate_want {
    struct weir_text_classes text;
    uint64_t output_limit_tok; /* 0: not given */
    uint64_t extra_input_tok;  /* context the provider keeps */
    uint32_t choices;          /* 0 counts as 1 */
    bool no_output;            /* nothing is generated (embeddings) */
    bool strict;
};

struct weir_estimate {
    uint64_t input_tok;
    uint64_t output_tok;
    uint64_t predicted_tok;
    uint64_t text_mtok; /* thousandths: the text at base prices, to learn from */
    uint64_t fixed_tok; /* of input: framing, media, kept context */
    bool can_learn;     /* nothing in it but text */
};

/* What came back. -1: not reported. */
struct weir_estimate_actual {
    int64_t input_tok;
    int64_t output_tok;
    uint32_t choices;
};

struct weir_coverage {
    uint64_t samples;
    uint64_t under;                    /* estimate below actual */
    uint64_t bins[WEIR_COVERAGE_BINS]; /* by 100 x estimate / actual */
};

size_t weir_estimator_bytes(const struct weir_estimator_rules *rules);
struct weir_estimator *weir_estimator_init(void *mem, size_t bytes,
                                           const struct weir_estimator_rules *rules);
void weir_estimator_model_set(struct weir_estimator *e, uint32_t model,
                              const struct weir_model_rules *rules);

void weir_estimator_estimate(const struct weir_estimator *e, struct weir_estimator_pair pair,
                             const struct weir_estimate_want *want, struct weir_estimate *estimate);
/* Learns from one answered request; call once, and only with usage that the provider reported. */
void weir_estimator_learn(struct weir_estimator *e, struct weir_estimator_pair pair,
                          const struct weir_estimate *estimate,
                          const struct weir_estimate_actual *actual);
void weir_estimator_coverage(const struct weir_estimator *e, uint32_t model,
                             struct weir_coverage *coverage);

/* The upper edge of the bin in which that share of the samples ends, in percent of the actual: 500
 * is the median. 0: no samples. UINT32_MAX: in the last bin, which has no edge. */
uint32_t weir_coverage_percent_at(const struct weir_coverage *coverage, uint32_t permille);

/* Tokens of so many bytes of answer text, when the provider never told: rounded up, upper side. */
uint64_t weir_estimate_output_tok(uint64_t output_bytes);

#endif
