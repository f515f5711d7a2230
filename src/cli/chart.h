/* chart: line and step charts as one SVG that needs nothing else.
 *
 * The charts stand below each other, as wide as each other. Colours are told apart by the
 * colour-blind and, from the seventh series on, by dashes too; a name that several charts of the
 * picture have looks the same in each. Text stays text. Light or dark follows the reader's own
 * setting, and where the picture is shown narrow its letters grow. The same input gives the same
 * bytes.
 *
 * Thread: main. */
#ifndef WEIR_CLI_CHART_H
#define WEIR_CLI_CHART_H

#include "core/base.h"

#include <stdio.h>

/* One line. Points are drawn in their order; x never falls. A point with NaN, an infinity or more
 * than 1e15 on either side of 0 is a gap; its x still counts for the length of the axis. */
struct cli_chart_series {
    const char *name; /* any bytes: what XML cannot carry is shown as U+FFFD */
    const double *x, *y;
    size_t count;
    bool is_dashed; /* a limit or a bound: dashed whatever its place */
    bool is_step;   /* a value holds until the next point */
};

struct cli_chart {
    const char *title, *note; /* note: NULL for none; wrapped below the legend */
    const char *x_label, *y_label;
    const struct cli_chart_series *series;
    size_t series_count;
};

/* Writes the picture and flushes out. title: for the head of the picture and for screen readers,
 * which are also told the range of every series.
 * Fails: false, errno says why; part of it may have been written. */
WEIR_MUST_USE bool cli_chart_write(FILE *out, const char *title, const struct cli_chart *charts,
                                   size_t count);

#endif
