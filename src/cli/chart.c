#include "cli/chart_inside.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Told apart with any kind of colour-blindness, 3:1 or better against the ground: light, dark. */
static const char *const hues[HUES][2] = {{"#282cf7", "#7f8bff"}, {"#cd8102", "#ec870f"},
                                          {"#2da576", "#3da96d"}, {"#af53d1", "#b04ea2"},
                                          {"#763200", "#c8ff93"}, {"#4e405e", "#d5c2de"}};

static const char *const dashes[DASHES] = {"", "9 4", "3 3", "12 4 3 4"};

struct range {
    double low, high;
};

struct scale {
    struct range range;
    double step; /* between ticks */
    double unit; /* labels are in so many */
    char suffix;
    int decimals;
    bool is_log;
};

/* ---- numbers ---- */

static bool is_point(const struct cli_chart_series *series, size_t i)
{
    return chart_is_told(series->x[i]) && chart_is_told(series->y[i]);
}

/* The range of all told values, of y those of points; low above high: there is none. A gap widens
 * the range of x, so that charts over one stretch of time have one axis. */
static struct range range_of(const struct cli_chart_series *series, size_t count, bool of_y)
{
    struct range range = {CHART_LARGEST, -CHART_LARGEST};
    for (size_t s = 0; s < count; s++)
        for (size_t i = 0; i < series[s].count; i++) {
            if (of_y ? !is_point(&series[s], i) : !chart_is_told(series[s].x[i]))
                continue;
            double value = of_y ? series[s].y[i] : series[s].x[i];
            range.low = value < range.low ? value : range.low;
            range.high = value > range.high ? value : range.high;
        }
    return range;
}

/* The smallest of 1, 2, 5 times a power of ten of which at most `ticks` reach over the span. */
static double round_step(double span, int ticks)
{
    double up = 1, down = 1;
    while (up * ticks < span)
        up *= 10;
    while (up == 1 && down < 1e12 && ticks / down >= span)
        down *= 10;
    double below = up > 1 ? up / 10 : 1 / down; /* ten of it reach, one does not */
    return below * 2 * ticks >= span   ? below * 2
           : below * 5 * ticks >= span ? below * 5
                                       : below * 10;
}

static struct scale scale_of(struct range range, int ticks, bool from_zero)
{
    struct scale scale = {.unit = 1};
    if (range.low > range.high)
        range = (struct range){0, 1};
    if (from_zero && range.low > 0)
        range.low = 0;
    if (from_zero && range.high < 0)
        range.high = 0;
    if (!(range.high - range.low > 1e-9 * fabs(range.high)) || range.high - range.low < 1e-9)
        range.high = range.low + (fabs(range.low) > 1 ? fabs(range.low) : 1);
    scale.step = round_step(range.high - range.low, ticks);
    if (from_zero) { /* whole steps up and down */
        range.low = floor(range.low / scale.step) * scale.step;
        range.high = ceil(range.high / scale.step) * scale.step;
    }
    scale.range = range;
    static const struct {
        double from, unit;
        char suffix;
    } units[] = {{1e12, 1e12, 'T'}, {1e9, 1e9, 'G'}, {1e6, 1e6, 'M'}, {1e4, 1e3, 'k'}};
    double size = fmax(fabs(range.low), fabs(range.high));
    for (size_t i = 0; i < WEIR_COUNT(units) && scale.unit == 1; i++)
        if (size >= units[i].from) {
            scale.unit = units[i].unit;
            scale.suffix = units[i].suffix;
        }
    double shown = scale.step / scale.unit;
    while (shown < 0.999999 && scale.decimals < 12) {
        shown *= 10;
        scale.decimals++;
    }
    return scale;
}

static void write_number(char out[static 64], double value, const struct scale *scale)
{
    if (fabs(value) < scale->step / 1000)
        snprintf(out, 64, "0");
    else
        snprintf(out, 64, "%.*f%.*s", scale->decimals, value / scale->unit, scale->suffix != 0,
                 &scale->suffix);
}

/* ---- looks ---- */

static bool has_name(const struct cli_chart *chart, const char *name)
{
    for (size_t s = 0; s < chart->series_count; s++)
        if (strcmp(chart->series[s].name, name) == 0)
            return true;
    return false;
}

/* Whether a chart of the picture beside that one has the name too. */
static bool is_shared(const struct cli_chart *charts, size_t count, size_t c, const char *name)
{
    for (size_t d = 0; d < count; d++)
        if (d != c && has_name(&charts[d], name))
            return true;
    return false;
}

/* The look of each series, chart by chart: names that several charts have are numbered in the order
 * of their first use, others take what is free in their chart. NULL: no memory. */
static size_t *find_looks(const struct cli_chart *charts, size_t count)
{
    size_t all = 0, names = 0;
    for (size_t c = 0; c < count; c++)
        all += charts[c].series_count;
    size_t *looks = malloc((all + 1) * sizeof *looks);
    const char **known = calloc(all + 1, sizeof *known);
    bool *is_taken = calloc(all + 1, sizeof *is_taken);
    size_t *of_chart = looks;
    for (size_t c = 0; c < count && looks && known && is_taken; c++) {
        size_t own = charts[c].series_count, next = 0;
        memset(is_taken, 0, (all + 1) * sizeof *is_taken);
        for (size_t s = 0; s < own; s++) {
            const char *name = charts[c].series[s].name;
            of_chart[s] = SIZE_MAX;
            if (!is_shared(charts, count, c, name))
                continue;
            for (of_chart[s] = 0; of_chart[s] < names; of_chart[s]++)
                if (strcmp(known[of_chart[s]], name) == 0)
                    break;
            if (of_chart[s] == names)
                known[names++] = name;
            is_taken[of_chart[s]] = true;
        }
        for (size_t s = 0; s < own; s++) {
            if (of_chart[s] != SIZE_MAX)
                continue;
            while (is_taken[next])
                next++;
            is_taken[next] = true;
            of_chart[s] = next;
        }
        of_chart += own;
    }
    bool done = looks && known && is_taken;
    free(known);
    free(is_taken);
    if (!done) {
        free(looks);
        looks = NULL;
    }
    return looks;
}

static void put_look(FILE *out, const struct cli_chart_series *series, size_t look)
{
    size_t dash = look / HUES % DASHES;
    fprintf(out, "class=\"l h%zu\"", look % HUES);
    if (series->is_dashed)
        fputs(" stroke-dasharray=\"6 5\"", out);
    else if (dash)
        fprintf(out, " stroke-dasharray=\"%s\"", dashes[dash]);
}

static void put_style(FILE *out)
{
    fputs("<style>\n"
          ".weir-chart{max-width:100%;height:auto;font-family:system-ui,-apple-system,\"Segoe UI\","
          "Roboto,\"DejaVu Sans\",sans-serif}\n"
          ".weir-chart text{font-size:15px;fill:#22262c}\n"
          ".weir-chart .t{font-size:20px;font-weight:600}\n"
          ".weir-chart .c{font-size:17px;font-weight:600}\n"
          ".weir-chart .o{font-weight:600}\n"
          ".weir-chart .m{fill:#5a616b}\n"
          ".weir-chart .e{text-anchor:end}\n"
          ".weir-chart .n{text-anchor:middle}\n"
          ".weir-chart .p{fill:#ffffff}\n"
          ".weir-chart .g{stroke:#e3e6ea;stroke-width:1}\n"
          ".weir-chart .a{stroke:#8b929c;stroke-width:1}\n"
          ".weir-chart .l{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}\n"
          ".weir-chart .d{fill:none;stroke-width:7;stroke-linecap:round}\n"
          ".weir-chart .b{fill:none;stroke-width:16}\n"
          ".weir-chart .k{fill:none;stroke-width:2}\n",
          out);
    for (int i = 0; i < HUES; i++)
        fprintf(out, ".weir-chart .h%d{stroke:%s}\n", i, hues[i][0]);
    fputs("@media (prefers-color-scheme:dark){\n"
          ".weir-chart text{fill:#e8eaed}\n"
          ".weir-chart .m{fill:#a9b0ba}\n"
          ".weir-chart .p{fill:#15181d}\n"
          ".weir-chart .g{stroke:#2b3038}\n"
          ".weir-chart .a{stroke:#6d7580}\n",
          out);
    for (int i = 0; i < HUES; i++)
        fprintf(out, ".weir-chart .h%d{stroke:%s}\n", i, hues[i][1]);
    fputs("}\n"
          "@media (max-width:600px){\n"
          ".weir-chart text{font-size:23px}\n"
          ".weir-chart .t{font-size:27px}\n"
          ".weir-chart .c{font-size:24px}\n"
          ".weir-chart .l{stroke-width:3}\n"
          ".weir-chart .d{stroke-width:9}\n"
          ".weir-chart .w{display:none}\n"
          "}\n"
          "</style>\n",
          out);
}

/* ---- one chart ---- */

static double place_x(const struct scale *x, double value)
{
    double share = x->is_log ? log(value / x->range.low) / log(x->range.high / x->range.low)
                             : (value - x->range.low) / (x->range.high - x->range.low);
    return LEFT + share * (WIDTH - LEFT - RIGHT);
}

static double place_y(const struct scale *y, double value, int top)
{
    double share = (value - y->range.low) / (y->range.high - y->range.low);
    return top + PLOT_HEIGHT - share * PLOT_HEIGHT;
}

/* A tick of the x axis with its label. narrow: the label has room where letters are large, too. */
static void put_tick(FILE *out, double at, int bottom, const char *label, bool is_narrow)
{
    fprintf(out, "<line class=\"a\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/>", at, bottom, at,
            bottom + 5);
    fprintf(out, "<text class=\"m n%s\" x=\"%.1f\" y=\"%d\">%s</text>\n", is_narrow ? "" : " w", at,
            bottom + 24, label);
}

/* Labels at round values, of which every other gives way where letters are large. */
static void put_round_ticks(FILE *out, const struct scale *x, int bottom)
{
    long first = lround(ceil(x->range.low / x->step - 1e-6));
    for (long i = first; (double)i * x->step <= x->range.high + x->step / 1000; i++) {
        char label[64];
        write_number(label, (double)i * x->step, x);
        put_tick(out, place_x(x, (double)i * x->step), bottom, label, (i - first) % 2 == 0);
    }
}

/* Labels at the values that are wished for, as far as there is room between them. */
static void put_wished_ticks(FILE *out, const struct cli_chart *chart, const struct scale *x,
                             int bottom)
{
    enum { GAP = 10 };
    double taken = -WIDTH, taken_narrow = -WIDTH; /* up to there, by labels */
    for (size_t i = 0; i < chart->x_ticks_count; i++) {
        char label[64];
        int letters = snprintf(label, sizeof label, "%.6g", chart->x_ticks[i]);
        double at = place_x(x, chart->x_ticks[i]);
        double half = letters * 4.5, half_narrow = letters * LETTER / 2.0;
        if (at - half < taken + GAP)
            continue;
        bool is_narrow = at - half_narrow >= taken_narrow + GAP;
        put_tick(out, at, bottom, label, is_narrow);
        taken = at + half;
        taken_narrow = is_narrow ? at + half_narrow : taken_narrow;
    }
}

static void put_grid(FILE *out, const struct cli_chart *chart, const struct scale *x,
                     const struct scale *y, int top)
{
    int bottom = top + PLOT_HEIGHT;
    long first = lround(ceil(y->range.low / y->step - 1e-6));
    for (long i = first; (double)i * y->step <= y->range.high + y->step / 1000; i++) {
        double at = place_y(y, (double)i * y->step, top);
        char label[64];
        write_number(label, (double)i * y->step, y);
        fprintf(out, "<line class=\"%s\" x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/>",
                i == 0 ? "a" : "g", LEFT, at, WIDTH - RIGHT, at);
        fprintf(out, "<text class=\"m e\" x=\"%d\" y=\"%.1f\">%s</text>\n", LEFT - 8, at + 5,
                label);
    }
    fprintf(out, "<line class=\"a\" x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"/>\n", LEFT, top, LEFT,
            bottom);
    if (chart->x_ticks)
        put_wished_ticks(out, chart, x, bottom);
    else
        put_round_ticks(out, x, bottom);
    fprintf(out, "<text class=\"m e\" x=\"%d\" y=\"%d\">", WIDTH - RIGHT, bottom + 22 + LINE);
    chart_put_all(out, chart->x_label);
    fputs("</text>\n", out);
}

struct pen {
    FILE *out;
    bool is_down, is_step;
    bool is_alone; /* down, and not moved yet */
};

static void pen_up(struct pen *pen)
{
    if (pen->is_down && pen->is_alone)
        fputs("h0", pen->out); /* a single point is a dot */
    pen->is_down = false;
}

static void pen_to(struct pen *pen, double x, double y)
{
    if (!pen->is_down)
        fprintf(pen->out, "M%.1f %.1f", x, y);
    else if (pen->is_step)
        fprintf(pen->out, "H%.1fV%.1f", x, y);
    else
        fprintf(pen->out, "L%.1f %.1f", x, y);
    pen->is_alone = !pen->is_down;
    pen->is_down = true;
}

/* Points of one column of the picture, when there are far more points than columns: the eye sees
 * their first, lowest, highest and last. */
struct column {
    long at;
    size_t count;
    double x, first, low, high, last;
};

static void flush_column(struct pen *pen, struct column *column)
{
    double each[] = {column->first, column->low, column->high, column->last};
    size_t count = column->count;
    for (size_t i = 0; i < WEIR_COUNT(each) && count > 0; i++)
        if (i == 0 || (each[i] != each[i - 1] && count > 1))
            pen_to(pen, column->x, each[i]);
    column->count = 0;
}

static void add_to_column(struct pen *pen, struct column *column, double x, double y)
{
    long at = lround(floor(x));
    if (column->count && column->at != at)
        flush_column(pen, column);
    if (!column->count)
        *column = (struct column){at, 0, x, y, y, y, y};
    column->count++;
    column->low = fmin(column->low, y);
    column->high = fmax(column->high, y);
    column->last = y;
}

static void put_line(FILE *out, const struct cli_chart_series *series, size_t look,
                     const struct scale *x, const struct scale *y, int top)
{
    struct pen pen = {.out = out, .is_step = series->is_step};
    struct column column = {0};
    bool merges = series->count >= MERGE_FROM, is_empty = true;
    for (size_t i = 0; i < series->count; i++) {
        if (!is_point(series, i)) {
            flush_column(&pen, &column);
            pen_up(&pen);
            continue;
        }
        if (is_empty) {
            fputs("<path ", out);
            put_look(out, series, look);
            fputs(" d=\"", out);
            is_empty = false;
        }
        double at_x = place_x(x, series->x[i]), at_y = place_y(y, series->y[i], top);
        if (merges)
            add_to_column(&pen, &column, at_x, at_y);
        else
            pen_to(&pen, at_x, at_y);
    }
    flush_column(&pen, &column);
    pen_up(&pen);
    if (!is_empty)
        fputs("\"/>\n", out);
}

static void put_dots(FILE *out, const struct cli_chart_series *series, size_t look,
                     const struct scale *x, const struct scale *y, int top)
{
    bool is_empty = true;
    for (size_t i = 0; i < series->count; i++) {
        if (!is_point(series, i))
            continue;
        if (is_empty)
            fprintf(out, "<path class=\"d h%zu\" d=\"", look % HUES);
        is_empty = false;
        fprintf(out, "M%.1f %.1fh0", place_x(x, series->x[i]), place_y(y, series->y[i], top));
    }
    if (!is_empty)
        fputs("\"/>\n", out);
}

/* Names with a piece of their line, in columns as wide as the longest needs. Moves *y below.
 * out NULL: only that. */
static void put_legend(FILE *out, const struct cli_chart *chart, const size_t *looks, int *y)
{
    size_t longest = 1;
    for (size_t s = 0; s < chart->series_count; s++)
        longest = weir_max_u64(longest, chart_characters(chart->series[s].name));
    longest = weir_min_u64(longest, NAME_MAX);
    int width = 44 + (int)longest * LETTER;
    int columns = (WIDTH - LEFT) / width > 0 ? (WIDTH - LEFT) / width : 1;
    for (size_t s = 0; s < chart->series_count && out; s++) {
        int left = LEFT + (int)(s % (size_t)columns) * width;
        int line = *y + (int)(s / (size_t)columns) * LINE;
        fputs("<path ", out);
        put_look(out, &chart->series[s], looks[s]);
        fprintf(out, " d=\"M%d %dh24\"/><text x=\"%d\" y=\"%d\">", left, line - 5, left + 32, line);
        chart_put_text(out, chart->series[s].name, NAME_MAX);
        fputs("</text>\n", out);
    }
    *y += (int)((chart->series_count + (size_t)columns - 1) / (size_t)columns) * LINE;
}

/* The lines of a chart and their legend. Moves *y below them. out NULL: only that. */
static void put_plot(FILE *out, const struct cli_chart *chart, const size_t *looks, int *y)
{
    struct scale x_scale =
        scale_of(range_of(chart->series, chart->series_count, false), TICKS_X, false);
    struct range y_range = range_of(chart->series, chart->series_count, true);
    struct scale y_scale = scale_of(y_range, TICKS_Y, true);
    int top = *y + 18;
    x_scale.is_log = chart->is_x_log && x_scale.range.low > 0;
    if (out) {
        put_grid(out, chart, &x_scale, &y_scale, top);
        for (size_t s = 0; s < chart->series_count; s++) {
            put_line(out, &chart->series[s], looks[s], &x_scale, &y_scale, top);
            if (chart->series[s].has_dots)
                put_dots(out, &chart->series[s], looks[s], &x_scale, &y_scale, top);
        }
        if (y_range.low > y_range.high)
            fprintf(out, "<text class=\"m n\" x=\"%d\" y=\"%d\">no data</text>\n",
                    (LEFT + WIDTH - RIGHT) / 2, top + PLOT_HEIGHT / 2);
    }
    *y = top + PLOT_HEIGHT + 22 + 2 * LINE + 4;
    put_legend(out, chart, looks, y);
}

/* Moves *y below it. out NULL: only that. */
static void put_chart(FILE *out, const struct cli_chart *chart, const size_t *looks, int *y)
{
    chart_put_wrapped(out, chart->title, "c", HEAD_EM, y);
    chart_put_wrapped(out, chart->y_label, "m", TEXT_EM, y);
    *y -= LINE; /* what follows keeps its own distance */
    if (chart->bars)
        chart_put_bars(out, chart, y);
    else
        put_plot(out, chart, looks, y);
    *y += chart->note ? 6 : 0;
    if (chart->note)
        chart_put_wrapped(out, chart->note, "m", TEXT_EM, y);
    *y += LINE;
}

/* ---- the whole ---- */

/* What a screen reader is told: the range of every series. */
static void put_description(FILE *out, const struct cli_chart *charts, size_t count)
{
    fputs("<desc id=\"weir-chart-desc\">", out);
    for (size_t c = 0; c < count; c++) {
        chart_put_all(out, charts[c].title);
        fputs(" (", out);
        chart_put_all(out, charts[c].y_label);
        if (charts[c].bars) {
            fputs("):", out);
            chart_describe_bars(out, &charts[c]);
            continue;
        }
        fputs(" over ", out);
        chart_put_all(out, charts[c].x_label);
        fputs("):", out);
        for (size_t s = 0; s < charts[c].series_count; s++) {
            const struct cli_chart_series *series = &charts[c].series[s];
            struct range range = range_of(series, 1, true);
            fputs(s ? ", " : " ", out);
            chart_put_text(out, series->name, NAME_MAX);
            if (range.low > range.high)
                fputs(" without data", out);
            else
                fprintf(out, " from %.4g to %.4g", range.low, range.high);
        }
        fputs(charts[c].series_count ? ". " : " no series. ", out);
    }
    fputs("</desc>\n", out);
}

/* title: NULL: none. */
static void put_charts(FILE *out, const char *title, const char *facts,
                       const struct cli_chart *charts, size_t count, const size_t *looks, int *y)
{
    if (title)
        chart_put_wrapped(out, title, "t", TITLE_EM, y);
    if (facts)
        chart_put_wrapped(out, facts, "m", TEXT_EM, y);
    *y += 12;
    for (size_t c = 0; c < count; c++) {
        put_chart(out, &charts[c], looks, y);
        looks += charts[c].series_count;
    }
}

bool cli_chart_write(FILE *out, const char *title, const char *facts, bool is_in_page,
                     const struct cli_chart *charts, size_t count)
{
    enum { TOP = 36 };
    const char *head = is_in_page ? NULL : title;
    size_t *looks = find_looks(charts, count);
    if (!looks) {
        errno = ENOMEM;
        return false;
    }
    int height = TOP, y = TOP;
    put_charts(NULL, head, facts, charts, count, looks, &height);
    fprintf(out,
            CLI_CHART_BEGIN
            " role=\"img\" "
            "aria-labelledby=\"weir-chart-title weir-chart-desc\" width=\"%d\" height=\"%d\" "
            "viewBox=\"0 0 %d %d\">\n<title id=\"weir-chart-title\">",
            WIDTH, height, WIDTH, height);
    chart_put_all(out, title);
    fputs("</title>\n", out);
    put_description(out, charts, count);
    put_style(out);
    fprintf(out, "<rect class=\"p\" width=\"%d\" height=\"%d\" rx=\"8\"/>\n", WIDTH, height);
    put_charts(out, head, facts, charts, count, looks, &y);
    fputs("</svg>\n", out);
    free(looks);
    return fflush(out) == 0 && !ferror(out);
}
