/* metrics_fairness: how far apart the tenants of each lane were, from core/gap. */
#include <stdio.h>

#include "gateway/metrics_private.h"
#include "gateway/state.h"

/* One line for each lane of each pool whose scheduler divides what the metric counts. */
static void metrics_lane(struct metrics_text *t, const char *name, struct weir_gateway *g,
                         uint32_t pool, uint32_t lane, const char *window)
{
    char pool_label[200], lane_label[200];
    metrics_add(t, "%s{pool=\"%s\",lane=\"%s\"%s%s%s} ", name,
                metrics_label(pool_label, sizeof pool_label, g->config->pools[pool].name),
                metrics_label(lane_label, sizeof lane_label, g->config->lanes[lane].name),
                window ? ",window=\"" : "", window ? window : "", window ? "\"" : "");
}

static void metrics_real(struct metrics_text *t, double value, bool is_known)
{
    if (is_known)
        metrics_add(t, METRICS_EXACT "\n", value);
    else
        metrics_add(t, "NaN\n");
}

#define PRINT_LANES(id, expression)                                                                \
    void metrics_print_##id(struct metrics_text *t, const char *name, struct weir_gateway *g)      \
    {                                                                                              \
        for (uint32_t pool = 0; pool < g->config->pools_count; pool++)                             \
            for (uint32_t lane = 0; lane < g->config->lanes_count; lane++) {                       \
                struct weir_gap_view view;                                                         \
                weir_flow_gap_view(g->flow, pool, lane, weir_loop_now_ns(g->loop), &view);         \
                metrics_lane(t, name, g, pool, lane, NULL);                                        \
                metrics_add(t, "%u\n", (expression));                                              \
            }                                                                                      \
    }
PRINT_LANES(gap_backlogged, view.backlogged)
PRINT_LANES(gap_tracked, view.tracked)

/* w: the window. is_shown: whether lanes like this one have the metric; is_known: else NaN. */
#define PRINT_WINDOWS(id, is_shown, is_known, expression)                                          \
    void metrics_print_##id(struct metrics_text *t, const char *name, struct weir_gateway *g)      \
    {                                                                                              \
        for (uint32_t pool = 0; pool < g->config->pools_count; pool++)                             \
            for (uint32_t lane = 0; lane < g->config->lanes_count; lane++) {                       \
                struct weir_gap_view view;                                                         \
                weir_flow_gap_view(g->flow, pool, lane, weir_loop_now_ns(g->loop), &view);         \
                for (uint32_t i = 0; i < WEIR_GAP_WINDOWS && (is_shown); i++) {                    \
                    const struct weir_gap_window *w = &view.windows[i];                            \
                    char window[16];                                                               \
                    snprintf(window, sizeof window, "%us", w->slices);                             \
                    metrics_lane(t, name, g, pool, lane, window);                                  \
                    metrics_real(t, (double)(expression), (is_known));                             \
                }                                                                                  \
            }                                                                                      \
    }
#define GAP_IS_KNOWN (w->compared >= 2)
#define BOUND_IS_KNOWN (w->compared >= 2 && w->bound_uwork != WEIR_GAP_NO_BOUND)
PRINT_WINDOWS(gap_work, !view.in_requests, GAP_IS_KNOWN, (double)w->gap_uwork / 1e6)
PRINT_WINDOWS(bound_work, !view.in_requests, BOUND_IS_KNOWN, (double)w->bound_uwork / 1e6)
PRINT_WINDOWS(gap_requests, view.in_requests, GAP_IS_KNOWN, (double)w->gap_uwork / 1e6)
PRINT_WINDOWS(bound_requests, view.in_requests, BOUND_IS_KNOWN, (double)w->bound_uwork / 1e6)
PRINT_WINDOWS(gap_jain, true, GAP_IS_KNOWN, (double)w->jain_ppm / 1e6)
PRINT_WINDOWS(gap_compared, true, true, w->compared)
PRINT_WINDOWS(gap_broken, true, true, w->broken)
