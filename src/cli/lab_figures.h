/* lab_figures: what a run came to, as figures with names and units; and several runs' mean with how
 * sure it is. One table of figures is behind the tables, CSV and JSON. Thread: any. */
#ifndef WEIR_CLI_LAB_FIGURES_H
#define WEIR_CLI_LAB_FIGURES_H

#include "cli/lab_map.h"

/* Of each tenant, and of all together. A figure that there is none of (a percentile of nothing) is
 * NaN. */
enum lab_figure {
    LAB_SENT,     /* requests that its users had */
    LAB_FINISHED, /* answered in full */
    LAB_REFUSED,  /* of them, those whose last try was refused */
    LAB_FAILED,   /* ended with an error, an answer cut short, or a client that had enough */
    LAB_RETRIES,  /* tries beyond the first */
    LAB_WAIT_P50, /* in the gateway's queue */
    LAB_WAIT_P95,
    LAB_WAIT_P99,
    LAB_FIRST_P50, /* from the first try to the first token */
    LAB_FIRST_P95,
    LAB_TOKENS,     /* prompt and output of finished requests */
    LAB_WORK_SHARE, /* of all finished work, as fairness counts it; a total proves nothing */
    LAB_GOOD,       /* of what was sent: finished, and within the goal */
    LAB_GOOD_RATE,  /* requests that met their goal */
    LAB_FIGURES
};

/* Of the run as a whole. */
enum lab_whole {
    LAB_BUSY, /* of the replicas' time until the last answer */
    LAB_IN_FLIGHT,
    LAB_LOST,       /* tokens made for answers that were not finished */
    LAB_TRIPS,      /* breaker open, summed over the upstreams */
    LAB_DIFFERENCE, /* work a second, mean over windows: src/measure/difference.h */
    LAB_GAP,        /* the largest difference of work per weight between two tenants that waited all
                       through ten seconds */
    LAB_GAP_BOUND,
    LAB_JAIN, /* there: of work per weight, of all that waited through it */
    LAB_WHOLES
};

enum lab_unit { LAB_UNIT_COUNT, LAB_UNIT_SECONDS, LAB_UNIT_RATE, LAB_UNIT_PERCENT, LAB_UNIT_INDEX };

struct lab_figure_row {
    const char *key;   /* in JSON and CSV */
    const char *title; /* in tables */
    enum lab_unit unit;
    bool is_headline; /* shown for several seeds, and where setups are compared */
};
extern const struct lab_figure_row lab_figure_rows[LAB_FIGURES];
extern const struct lab_figure_row lab_whole_rows[LAB_WHOLES];

struct lab_figures {
    double tenants[WEIR_LAB_TENANTS_MAX + 1][LAB_FIGURES]; /* behind the tenants: all together */
    double whole[LAB_WHOLES];
};

/* The lane with the largest gap in work, in the windows of ten seconds. false: none was measured,
 * or the pools count requests (drr). */
struct lab_gap {
    uint32_t pool, lane;
    const struct weir_gap_window *window;
    uint64_t ended_ns;
};
WEIR_MUST_USE bool lab_worst_gap(const struct lab_map *map, const struct weir_lab_results *results,
                                 bool in_requests, struct lab_gap *gap);

/* entries: every request that ended. */
void lab_figures_of(const struct lab_map *map, const struct weir_lab_results *results,
                    const struct weir_trace_entry *entries, size_t entries_count,
                    struct lab_figures *figures);

/* Mean and half the width of its 95 % confidence interval (Student's t; NaN for fewer than two). */
struct lab_mean {
    double mean, half;
    uint32_t count; /* values that were numbers */
};
struct lab_mean lab_mean_of(const double *values, size_t count);

/* Student's t, two-sided 95 %, for so many degrees of freedom (1 or more). */
double lab_student_t(uint32_t degrees);

#endif
