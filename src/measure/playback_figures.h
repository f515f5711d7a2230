/* playback_figures: what the results of a replay come to, for each tenant and for all.
 *
 * Exact: percentiles are those of the sorted values (nearest rank), not of a histogram. Thread:
 * any. */
#ifndef WEIR_MEASURE_PLAYBACK_FIGURES_H
#define WEIR_MEASURE_PLAYBACK_FIGURES_H

#include "measure/playback.h"

struct weir_playback_spread {
    size_t count; /* 0: the others say nothing */
    uint64_t p50_ns, p95_ns, p99_ns, max_ns;
};

struct weir_playback_figures {
    size_t planned, begun, ok, refused, failed, held;
    struct weir_playback_spread latency; /* of answers, from the intended time to the end */
    struct weir_playback_spread ttft;    /* of streams, from the intended time to the first token */
    struct weir_playback_spread tpot;    /* of streams with known usage: each later token */
    struct weir_playback_spread lag;     /* of those not held: intended time to our own beginning */
    uint64_t input_tok, output_tok;      /* of answers that told them */
    size_t usage_unknown;                /* answers that did not */
};

/* figures: room for tenants_count + 1; the last is of all. false: out of memory. */
WEIR_MUST_USE bool weir_playback_figures(const struct weir_playback_item *items,
                                         const struct weir_playback_result *results, size_t count,
                                         uint32_t tenants_count,
                                         struct weir_playback_figures *figures);

/* What was refused to whom and why, or failed how: one row for each tenant, kind and reason that
 * occurred, the largest counts first. */
struct weir_playback_reason {
    uint32_t tenant;
    uint16_t status;
    uint8_t end, code;
    bool from_gateway;
    size_t count;
    uint64_t hint_max_ns; /* 0: none had a hint */
};
#define WEIR_PLAYBACK_REASONS_MAX 4096
/* reasons: malloc'ed, the caller's. *count rows, at most WEIR_PLAYBACK_REASONS_MAX. false: out of
 * memory. */
WEIR_MUST_USE bool weir_playback_reasons(const struct weir_playback_item *items,
                                         const struct weir_playback_result *results, size_t count,
                                         struct weir_playback_reason **reasons,
                                         size_t *reasons_count);

#endif
