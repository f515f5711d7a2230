/* chart: line, step and bar charts as one SVG that needs nothing else.
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
    bool has_dots;  /* each point was measured, and shows as one */
};

/* One bar, from 0 to the value, in a chart of bars. */
struct cli_chart_bar {
    const char *group; /* bars of one group follow each other below its name */
    const char *name;  /* bars of one name look the same */
    double value;      /* NaN: there is none, and it says so */
    double high;       /* a thin line reaches on to here; NaN: none */
    const char *note;  /* put behind the value; NULL: nothing */
    bool is_striped;   /* has the colour of the bar before it instead of its name's, in stripes */
};

struct cli_chart {
    const char *title, *note; /* note: NULL for none; wrapped below the legend */
    const char *x_label, *y_label;
    const struct cli_chart_series *series;
    size_t series_count;
    const double *x_ticks; /* the values of x that are labelled, rising; NULL: round ones */
    size_t x_ticks_count;
    bool is_x_log; /* twice as much is everywhere the same way; every x above 0 */
    /* Bars instead of series: NULL: none. */
    const struct cli_chart_bar *bars;
    size_t bars_count;
    const char *high_name; /* of bars: what `high` is, as in "p95" */
};

/* The beginning of every picture, by which one is known again. */
#define CLI_CHART_BEGIN "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"weir-chart\""

/* Writes the picture and flushes out.
 *
 * title  for the head of the picture and for screen readers, which are also told the range of every
 *        series and the value of every bar
 * facts  below it: what was measured, when and how; NULL: nothing
 * is_in_page  the title is not drawn: the page around it has it
 *
 * Fails: false, errno says why; part of it may have been written. */
WEIR_MUST_USE bool cli_chart_write(FILE *out, const char *title, const char *facts, bool is_in_page,
                                   const struct cli_chart *charts, size_t count);

#endif
