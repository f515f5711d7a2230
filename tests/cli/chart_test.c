/* The pictures of cli/chart.h: well-formed whatever is put in, and the same bytes each time. An XML
 * parser of another house (Python's) reads them back. */
#include "support/check.h"

#include "cli/chart.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static char *draw(const char *title, const struct cli_chart *charts, size_t count)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    CHECK(out);
    CHECK(cli_chart_write(out, title, NULL, false, charts, count));
    CHECK(fclose(out) == 0);
    return text;
}

/* Hands the picture to a parser; `claim` is a Python expression over root (the element), paths (the d
 * of every path) and texts (of every text element). */
static void check_parsed(const char *svg, const char *claim)
{
    static const char program[] =
        "python3 -c 'import sys, xml.etree.ElementTree as E\n"
        "root = E.fromstring(sys.stdin.buffer.read())\n"
        "n = \"{http://www.w3.org/2000/svg}\"\n"
        "paths = [p.get(\"d\") for p in root.iter(n + \"path\")]\n"
        "texts = [t.text or \"\" for t in root.iter(n + \"text\")]\n"
        "inside = all(-1 <= float(t.get(\"x\")) <= float(root.get(\"width\")) and "
        "0 <= float(t.get(\"y\")) <= float(root.get(\"height\")) for t in root.iter(n + "
        "\"text\"))\n"
        "assert root.tag == n + \"svg\" and root.get(\"role\") == \"img\" and inside\n"
        "assert root.find(n + \"title\") is not None and root.find(n + \"desc\").text\n"
        "assert not any(\"nan\" in d or \"inf\" in d for d in paths)\n"
        "assert eval(sys.argv[1]), (str(texts)[:400], str(paths)[:400])' '%s'";
    char line[4096];
    snprintf(line, sizeof line, program, claim);
    FILE *pipe = popen(line, "w");
    CHECK(pipe);
    CHECK(fwrite(svg, 1, strlen(svg), pipe) == strlen(svg));
    int status = pclose(pipe);
    CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s", claim);
}

static const double seconds[] = {0, 1, 2, 3, 4};

static void chart__names_of_any_bytes__give_well_formed_xml(void **state)
{
    (void)state;
    static const double y[] = {1, 2, 3, 4, 5};
    const struct cli_chart_series series[] = {
        {.name = "<script>&\"'</script>", .x = seconds, .y = y, .count = 5},
        {.name = "]]>\x01\x1b\x7f\xff\xc0\xaf\xed\xa0\x80\xef\xbf\xbf\xc2\x85",
         .x = seconds,
         .y = y,
         .count = 5},
        {.name = "Zürich 東京 🙂", .x = seconds, .y = y, .count = 5},
        {.name = "", .x = seconds, .y = y, .count = 5}};
    const struct cli_chart chart = {.title = "a < b & \"c\"",
                                    .note = "note & <b>",
                                    .x_label = "x <s>",
                                    .y_label = "y & z",
                                    .series = series,
                                    .series_count = 4};
    char *svg = draw("<&>\n\t\x02", &chart, 1);
    check_parsed(svg, "texts[0].startswith(\"<&>\") and any(\"</script>\" in t for t in texts) and "
                      "any(\"\\u6771\" in t for t in texts) and "
                      "any(t.startswith(\"]]>\\ufffd\\ufffd\") for t in texts) and "
                      "\"note & <b>\" in texts");
    CHECK(!strstr(svg, "<script>"));
    free(svg);
}

static void chart__what_is_no_number__is_a_gap(void **state)
{
    (void)state;
    const double gap[] = {1, NAN, 3, INFINITY, 2};
    const double huge[] = {NAN, -INFINITY, 1e300, -1e300, NAN};
    const struct cli_chart_series series[] = {
        {.name = "gap", .x = seconds, .y = gap, .count = 5},
        {.name = "none told", .x = seconds, .y = huge, .count = 5},
        {.name = "empty"}};
    const struct cli_chart chart = {.title = "gaps",
                                    .x_label = "seconds",
                                    .y_label = "value",
                                    .series = series,
                                    .series_count = 3};
    char *svg = draw("gaps", &chart, 1);
    /* One line, of three single points, and the three pieces of the legend. */
    check_parsed(svg, "len(paths) == 4 and paths[0].count(\"M\") == 3 and "
                      "paths[0].count(\"h0\") == 3 and "
                      "\"empty without data\" in root[1].text");
    free(svg);
}

static void chart__nothing_to_draw__says_so(void **state)
{
    (void)state;
    const struct cli_chart chart = {.title = "empty", .x_label = "seconds", .y_label = "requests"};
    char *svg = draw("none", &chart, 1);
    check_parsed(svg, "\"no data\" in texts and not paths");
    free(svg);
    svg = draw("", NULL, 0);
    CHECK(strstr(svg, "</svg>"));
    free(svg);
}

static void chart__ticks__are_round_and_enclose_the_data(void **state)
{
    (void)state;
    static const struct {
        double high;
        const char *ticks; /* texts that must be there, as a Python set */
    } rows[] = {{0, "{\"0\", \"0.2\", \"1.0\"}"},       {4.7, "{\"0\", \"1\", \"5\"}"},
                {0.031, "{\"0\", \"0.01\", \"0.04\"}"}, {9999, "{\"0\", \"2k\", \"10k\"}"},
                {12345, "{\"0\", \"5k\", \"15k\"}"},    {2.5e6, "{\"0\", \"0.5M\", \"2.5M\"}"},
                {7e12, "{\"0\", \"2T\", \"8T\"}"},      {-3, "{\"0\", \"-1\", \"-3\"}"},
                {1e-12, "{\"0\", \"0.2\", \"1.0\"}"},   {9.99e14, "{\"0\", \"200T\", \"1000T\"}"}};
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        const double y[] = {0, rows[i].high};
        const struct cli_chart_series series = {.name = "s", .x = seconds, .y = y, .count = 2};
        const struct cli_chart chart = {
            .title = "t", .x_label = "s", .y_label = "v", .series = &series, .series_count = 1};
        char *svg = draw("ticks", &chart, 1), claim[160];
        snprintf(claim, sizeof claim, "%s <= set(texts)", rows[i].ticks);
        check_parsed(svg, claim);
        free(svg);
    }
}

static void chart__a_step__goes_across_before_it_goes_up(void **state)
{
    (void)state;
    static const double y[] = {0, 1, 0, 1, 0};
    const struct cli_chart_series series = {
        .name = "s", .x = seconds, .y = y, .count = 5, .is_step = true, .is_dashed = true};
    const struct cli_chart chart = {
        .title = "t", .x_label = "s", .y_label = "v", .series = &series, .series_count = 1};
    char *svg = draw("steps", &chart, 1);
    check_parsed(svg, "paths[0].count(\"H\") == 4 and paths[0].count(\"V\") == 4 and "
                      "paths[0].index(\"H\") < paths[0].index(\"V\")");
    CHECK(strstr(svg, "stroke-dasharray=\"6 5\""));
    free(svg);
}

static void chart__a_million_points__fit_in_a_report(void **state)
{
    (void)state;
    enum { MANY = 1000000 };
    double *x = malloc(MANY * sizeof *x), *y = malloc(MANY * sizeof *y);
    CHECK(x && y);
    for (int i = 0; i < MANY; i++) {
        x[i] = i;
        y[i] = i == 777777 ? 100 : i == 222222 ? -100 : i % 7; /* neither must be lost */
    }
    const struct cli_chart_series series = {.name = "s", .x = x, .y = y, .count = MANY};
    const struct cli_chart chart = {
        .title = "t", .x_label = "s", .y_label = "v", .series = &series, .series_count = 1};
    char *svg = draw("many", &chart, 1);
    CHECK_MSG(strlen(svg) < 64 << 10, "%zu bytes", strlen(svg));
    check_parsed(svg, "[f(float(p.split(\" \")[1]) for p in paths[0][1:].split(\"L\")) "
                      "for f in (min, max)] == "
                      "[f(float(e.get(\"y1\")) for e in root.iter(n + \"line\") "
                      "if e.get(\"x1\") == \"92\" and e.get(\"x2\") != \"92\") "
                      "for f in (min, max)]");
    free(svg);
    free(x);
    free(y);
}

/* A name that two charts have looks the same in both; others take what is free in their chart, from the
 * first look on; beyond the hues come dashes. */
static void chart__many_series__are_told_apart(void **state)
{
    (void)state;
    static const double y[] = {1, 2, 3, 4, 5};
    struct cli_chart_series series[64], own = {.name = "own", .x = seconds, .y = y, .count = 5};
    char names[64][16];
    for (int i = 0; i < 64; i++) {
        snprintf(names[i], sizeof names[i], "tenant-%d", i);
        series[i] = (struct cli_chart_series){.name = names[i], .x = seconds, .y = y, .count = 5};
    }
    const struct cli_chart_series pair[] = {series[7], own};
    const struct cli_chart charts[] = {
        {.title = "all", .x_label = "s", .y_label = "v", .series = series, .series_count = 64},
        {.title = "two", .x_label = "s", .y_label = "v", .series = pair, .series_count = 2},
        {.title = "one", .x_label = "s", .y_label = "v", .series = &own, .series_count = 1},
        {.title = "alone", .x_label = "s", .y_label = "v", .series = series + 63}};
    char *svg = draw("many", charts, 4);
    check_parsed(svg, "len(paths) == 128 + 4 + 2 and len({(p.get(\"class\"), "
                      "p.get(\"stroke-dasharray\")) for p in root.iter(n + \"path\")}) == 24");
    /* tenant-7 and own are shared: looks 0 and 1; tenant-0 has the first that is free, tenant-4 the
     * first behind the hues. */
    static const struct {
        const char *chart, *name, *look;
    } rows[] = {{">all<", "tenant-7", "class=\"l h0\" d"},
                {">all<", "tenant-0", "class=\"l h1\" d"},
                {">all<", "tenant-5", "class=\"l h0\" stroke-dasharray=\"9 4\" d"},
                {">two<", "tenant-7", "class=\"l h0\" d"},
                {">two<", "own", "class=\"l h1\" d"},
                {">one<", "own", "class=\"l h1\" d"}};
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        char wanted[64];
        snprintf(wanted, sizeof wanted, ">%s</text>", rows[i].name);
        const char *at = strstr(strstr(svg, rows[i].chart), wanted); /* in the legend */
        CHECK(at);
        while (strncmp(at, "<path ", 6) != 0)
            at--;
        CHECK_MSG(strncmp(at + 6, rows[i].look, strlen(rows[i].look)) == 0, "%s %s: %.60s",
                  rows[i].chart, rows[i].name, at);
    }
    free(svg);
}

static void chart__long_texts__are_wrapped_or_cut(void **state)
{
    (void)state;
    char word[400], sentence[700];
    memset(word, 'w', sizeof word - 1);
    word[sizeof word - 1] = '\0';
    for (size_t i = 0; i + 1 < sizeof sentence; i++)
        sentence[i] = i % 10 == 9 ? ' ' : 'x';
    sentence[sizeof sentence - 1] = '\0';
    static const double y[] = {1, 2, 3, 4, 5};
    const struct cli_chart_series series = {.name = word, .x = seconds, .y = y, .count = 5};
    const struct cli_chart chart = {.title = sentence,
                                    .note = word,
                                    .x_label = "s",
                                    .y_label = "v",
                                    .series = &series,
                                    .series_count = 1};
    char *svg = draw(sentence, &chart, 1);
    check_parsed(svg, "max(len(t) for t in texts) <= 72 and "
                      "any(len(t) == 40 and t.endswith(\"\\u2026\") for t in texts)");
    free(svg);
}

static void chart__the_same_input__gives_the_same_bytes(void **state)
{
    (void)state;
    static const double y[] = {1.0 / 3, 2.0 / 7, 1e6 / 3, 4, 5};
    const struct cli_chart_series series = {.name = "s", .x = seconds, .y = y, .count = 5};
    const struct cli_chart chart = {.title = "t",
                                    .note = "n",
                                    .x_label = "s",
                                    .y_label = "v",
                                    .series = &series,
                                    .series_count = 1};
    char *one = draw("same", &chart, 1), *two = draw("same", &chart, 1);
    CHECK_STR(one, two);
    free(one);
    free(two);
}

/* Twice as much in flight is everywhere the same way, and what was measured is labelled. */
static void chart__levels_that_double__stand_at_even_distances(void **state)
{
    (void)state;
    static const double levels[] = {1, 2, 4, 8, 16, 32, 64}, y[] = {1, 2, 3, 4, 5, 6, 7},
                        close[] = {1, 2, 3, 1000, 1001, 1002, 2000};
    struct cli_chart_series series = {
        .name = "s", .x = levels, .y = y, .count = 7, .has_dots = true};
    struct cli_chart chart = {.title = "t",
                              .x_label = "in flight",
                              .y_label = "v",
                              .series = &series,
                              .series_count = 1,
                              .x_ticks = levels,
                              .x_ticks_count = 7,
                              .is_x_log = true};
    char *svg = draw("log", &chart, 1);
    check_parsed(svg, "[t for t in texts if t in \"1 2 4 8 16 32 64\".split()][-7:] == "
                      "\"1 2 4 8 16 32 64\".split()");
    check_parsed(svg, "(lambda at: max(b - a for a, b in zip(at, at[1:])) - min(b - a for a, b in "
                      "zip(at, at[1:])) < 0.2)([float(p.split(\" \")[0]) for p in "
                      "paths[0][1:].split(\"L\")]) and paths[1].count(\"h0\") == 7");
    free(svg);
    /* Labels that would lie on each other are left out; a level of 0 has no logarithm. */
    series.x = chart.x_ticks = close;
    svg = draw("close", &chart, 1);
    check_parsed(svg, "\"1000\" in texts and \"1001\" not in texts and \"2000\" in texts");
    free(svg);
    static const double from_zero[] = {0, 2, 4, 8, 16, 32, 64};
    series.x = chart.x_ticks = from_zero;
    svg = draw("zero", &chart, 1);
    check_parsed(svg, "float(paths[0].split(\"L\")[1].split(\" \")[0]) < 120");
    free(svg);
}

static void chart__bars__have_names_and_print_their_values(void **state)
{
    (void)state;
    static const struct cli_chart_bar bars[] = {
        {"<a>=40", "alone", 836.12, 1030, NULL, false},
        {"<a>=40", "alone then", 418.06, NAN, ", 3 <of> 9", true},
        {"<a>=40", "together", 9.876, 10, NULL, false},
        {"b=1", "alone", NAN, NAN, NULL, false},
        {"b=1", "together", 0, 5, NULL, false}};
    const struct cli_chart chart = {.title = "Time",
                                    .note = "note",
                                    .y_label = "ms",
                                    .bars = bars,
                                    .bars_count = WEIR_COUNT(bars),
                                    .high_name = "p95"};
    char *svg = draw("bars", &chart, 1);
    check_parsed(svg,
                 "texts[3:] == [\"<a>=40\", \"alone\", \"836.1, p95 1030\", "
                 "\"alone then\", \"418.1, 3 <of> 9\", \"together\", \"9.88, p95 10.0\", \"b=1\", "
                 "\"alone\", \"no data\", \"together\", \"0.00, p95 5.00\", \"note\"]");
    /* As long as their values; stripes have the colour of the bar before; names their own. */
    check_parsed(svg,
                 "(lambda w: abs(w[0] - 2 * w[1]) < 0.2 and len(w) == 3)([float(d.split(\"H\")[1]) "
                 "- float(d[1:].split(\" \")[0]) for p in root.iter(n + \"path\") for d in "
                 "[p.get(\"d\")] if p.get(\"class\")[0] == \"b\"]) and "
                 "[p.get(\"class\") for p in root.iter(n + \"path\") if p.get(\"class\")[0] == "
                 "\"b\"] == [\"b h0\", \"b h0\", \"b h1\"]");
    check_parsed(svg, "\"<a>=40 alone 836.1, p95 1030\" in root[1].text");
    free(svg);
}

static void chart__in_a_page__has_facts_and_no_title(void **state)
{
    (void)state;
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    static const double y[] = {1, 2, 3, 4, 5};
    const struct cli_chart_series series = {.name = "s", .x = seconds, .y = y, .count = 5};
    const struct cli_chart chart = {
        .title = "c", .x_label = "x", .y_label = "y", .series = &series, .series_count = 1};
    CHECK(out && cli_chart_write(out, "the title", "to http://h, now", true, &chart, 1));
    CHECK(fclose(out) == 0);
    check_parsed(text, "texts[0] == \"to http://h, now\" and root[0].text == \"the title\"");
    CHECK(strncmp(text, CLI_CHART_BEGIN, strlen(CLI_CHART_BEGIN)) == 0);
    free(text);
}

static void chart__a_full_disk__is_told(void **state)
{
    (void)state;
    FILE *full = fopen("/dev/full", "w");
    CHECK(full);
    CHECK(!cli_chart_write(full, "t", NULL, false, NULL, 0));
    CHECK_INT(errno, ENOSPC);
    fclose(full);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chart__names_of_any_bytes__give_well_formed_xml),
        cmocka_unit_test(chart__what_is_no_number__is_a_gap),
        cmocka_unit_test(chart__nothing_to_draw__says_so),
        cmocka_unit_test(chart__ticks__are_round_and_enclose_the_data),
        cmocka_unit_test(chart__a_step__goes_across_before_it_goes_up),
        cmocka_unit_test(chart__a_million_points__fit_in_a_report),
        cmocka_unit_test(chart__many_series__are_told_apart),
        cmocka_unit_test(chart__long_texts__are_wrapped_or_cut),
        cmocka_unit_test(chart__the_same_input__gives_the_same_bytes),
        cmocka_unit_test(chart__levels_that_double__stand_at_even_distances),
        cmocka_unit_test(chart__bars__have_names_and_print_their_values),
        cmocka_unit_test(chart__in_a_page__has_facts_and_no_title),
        cmocka_unit_test(chart__a_full_disk__is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
