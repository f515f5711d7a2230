#include "cli/chart_inside.h"

#include <math.h>
#include <string.h>

/* Bars lie: names of any length are read on their left, and what they come to behind them. */

enum { BAR = 28, GAP = 8, BAR_NAME_MAX = 18, TEXT_ROOM = 17 * LETTER };

static void write_value(char out[static 32], double value)
{
    double size = fabs(value);
    snprintf(out, 32, size < 10 ? "%.2f" : size < 1000 ? "%.1f" : "%.0f", value);
}

static double bars_end(const struct cli_chart *chart)
{
    double end = 0;
    for (size_t i = 0; i < chart->bars_count; i++) {
        if (chart_is_told(chart->bars[i].value))
            end = fmax(end, chart->bars[i].value);
        if (chart_is_told(chart->bars[i].high))
            end = fmax(end, chart->bars[i].high);
    }
    return end > 0 ? end : 1;
}

/* Looks in the order in which the names first come. */
static size_t bar_look(const struct cli_chart *chart, size_t bar)
{
    size_t look = 0;
    while (bar > 0 && chart->bars[bar].is_striped)
        bar--;
    for (size_t i = 0; i < bar; i++) {
        if (strcmp(chart->bars[i].name, chart->bars[bar].name) == 0)
            return bar_look(chart, i);
        bool is_known = chart->bars[i].is_striped;
        for (size_t k = 0; k < i && !is_known; k++)
            is_known = strcmp(chart->bars[k].name, chart->bars[i].name) == 0;
        look += !is_known;
    }
    return look;
}

static void put_bar_text(FILE *out, const struct cli_chart *chart, const struct cli_chart_bar *bar)
{
    char value[32], high[32];
    write_value(value, bar->value);
    write_value(high, bar->high);
    if (!chart_is_told(bar->value))
        fputs("no data", out);
    else if (chart_is_told(bar->high))
        fprintf(out, "%s, %s %s", value, chart->high_name, high);
    else
        fputs(value, out);
    if (bar->note)
        chart_put_text(out, bar->note, BAR_NAME_MAX);
}

static void put_bar(FILE *out, const struct cli_chart *chart, size_t index, int left, int y)
{
    const struct cli_chart_bar *bar = &chart->bars[index];
    double unit = (WIDTH - RIGHT - TEXT_ROOM - left) / bars_end(chart), end = left;
    size_t hue = bar_look(chart, index) % HUES;
    fprintf(out, "<text class=\"e\" x=\"%d\" y=\"%d\">", left - 10, y + 6);
    chart_put_text(out, bar->name, BAR_NAME_MAX);
    fputs("</text>", out);
    if (chart_is_told(bar->value) && bar->value > 0) {
        end = left + bar->value * unit;
        fprintf(out, "<path class=\"b h%zu\"%s d=\"M%d %dH%.1f\"/>", hue,
                bar->is_striped ? " stroke-dasharray=\"5 3\"" : "", left, y, end);
    }
    if (chart_is_told(bar->high) && bar->high > bar->value) {
        double reach = left + bar->high * unit;
        fprintf(out, "<path class=\"k h%zu\" d=\"M%.1f %dH%.1fm0 -6v12\"/>", hue, end, y, reach);
        end = reach;
    }
    fprintf(out, "<text x=\"%.1f\" y=\"%d\">", end + 8, y + 6);
    put_bar_text(out, chart, bar);
    fputs("</text>\n", out);
}

void chart_put_bars(FILE *out, const struct cli_chart *chart, int *y)
{
    size_t longest = 1;
    for (size_t i = 0; i < chart->bars_count; i++)
        longest = weir_max_u64(longest, chart_characters(chart->bars[i].name));
    int left = 16 + (int)weir_min_u64(longest, BAR_NAME_MAX) * LETTER + 10;
    *y += LINE + GAP;
    for (size_t i = 0; i < chart->bars_count; i++) {
        const char *group = chart->bars[i].group;
        if (i == 0 || strcmp(group, chart->bars[i - 1].group) != 0) {
            *y += i == 0 ? 0 : GAP;
            chart_put_wrapped(out, group, "o", HEAD_EM, y);
        }
        if (out)
            put_bar(out, chart, i, left, *y - 8);
        *y += BAR;
    }
    *y += GAP;
}

void chart_describe_bars(FILE *out, const struct cli_chart *chart)
{
    for (size_t i = 0; i < chart->bars_count; i++) {
        fputs(i ? ", " : " ", out);
        chart_put_text(out, chart->bars[i].group, NAME_MAX);
        fputc(' ', out);
        chart_put_text(out, chart->bars[i].name, NAME_MAX);
        fputc(' ', out);
        put_bar_text(out, chart, &chart->bars[i]);
    }
    fputs(chart->bars_count ? ". " : " no bars. ", out);
}
