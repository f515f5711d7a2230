/* chart_inside: what the parts of cli/chart.h share. chart.c: lines, and the whole picture;
 * chart_bars.c: bars; chart_text.c: text as XML carries it. Thread: main. */
#ifndef WEIR_CLI_CHART_INSIDE_H
#define WEIR_CLI_CHART_INSIDE_H

#include "cli/chart.h"

/* Sizes in units of the picture, which is WIDTH wide and shown at that many pixels or less. Room is
 * reckoned for the letters of the narrow view, so that nothing overlaps there. */
enum {
    WIDTH = 800,
    LEFT = 92,
    RIGHT = 28,
    PLOT_HEIGHT = 200,
    LINE = 26, /* of text */
    TICKS_X = 8,
    TICKS_Y = 5,
    LETTER = 13, /* a letter of the narrow view, about */
    /* Letters of the narrow view are so high; of heads, which are bold; of the title. */
    TEXT_EM = 23,
    HEAD_EM = 26,
    TITLE_EM = 30,
    NAME_MAX = 40,
    HUES = 6,
    DASHES = 4, /* the first is none */
    MERGE_FROM = 4000
};

#define CHART_LARGEST 1e15

static inline bool chart_is_told(double value)
{
    return value >= -CHART_LARGEST && value <= CHART_LARGEST; /* false for NaN */
}

size_t chart_characters(const char *text);
/* At most max characters, the last an ellipsis where there are more. */
void chart_put_text(FILE *out, const char *text, size_t max);
void chart_put_all(FILE *out, const char *text);
/* Text in as many lines as it needs, the first at *y; moves *y below them. em: the height of its
 * letters in the narrow view. out NULL: only that. */
void chart_put_wrapped(FILE *out, const char *text, const char *class, int em, int *y);

/* The bars of a chart, the first below *y; moves *y below them. out NULL: only that. */
void chart_put_bars(FILE *out, const struct cli_chart *chart, int *y);
/* What a screen reader is told of them. */
void chart_describe_bars(FILE *out, const struct cli_chart *chart);

#endif
