/* difference: how unequally a run served its tenants, as the measure of the VTC paper has it.
 *
 * A request's cost is prompt + 2 x output tokens. At each sample point a window is looked at:
 *
 *   service of a tenant  each served request's cost, spread evenly from its first token to its
 *                        last, as far as it falls in the window, per second
 *   demand of a tenant   the cost of its served requests that arrive in the window, per second
 *   difference           sum over tenants of min(S - service, |demand - service|), S the largest
 *                        service of any tenant in that window
 *
 * so a tenant counts as far as it got less than the best served, but no further than it differs
 * from what it asked for. Tenants are those with a served request. A refused request asks for
 * nothing here: a limit that refuses looks fair, which is why `served` stands beside it.
 *
 * Thread: any. Allocates while it computes. Source: docs/fairness.md, "A real trace";
 * Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024. */
#ifndef WEIR_MEASURE_DIFFERENCE_H
#define WEIR_MEASURE_DIFFERENCE_H

#include "trace/trace.h"

/* Windows [first + j x step, that + window], j = 0 .. count - 1. */
struct weir_difference_points {
    double first_s, step_s, window_s;
    uint32_t count; /* at least 1 */
};

/* Those of the published table: 19 points, 28.5 s apart, windows of a minute, over ten minutes. */
extern const struct weir_difference_points weir_difference_published;

struct weir_difference {
    double max, mean, variance; /* work per second; variance over the population of points */
    double throughput_tok_per_s;
    double run_s; /* from time 0 to the last token of all */
    uint64_t served, refused;
    uint64_t left; /* neither: their clients left, or they failed or were cut */
};

/* entries: measured ones (is_measured), in any order, with tenants below tenants_count.
 *
 * NULL: *result is filled. Else a sentence that says what is wrong: no served request, none was
 * measured, or no memory. */
WEIR_MUST_USE const char *weir_difference_compute(const struct weir_trace_entry *entries,
                                                  size_t count, uint32_t tenants_count,
                                                  const struct weir_difference_points *points,
                                                  struct weir_difference *result);

#endif
