#include "cli/sweep.h"

#include "cli/chart.h"
#include "cli/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Over levels: throughput, time of a whole answer, time to the first token. Over clients there is no
 * curve: what each waited and got, alone and together, are bars. */

enum { RATE, WHOLE, FIRST, CHARTS };
enum { SERIES_MAX = 6, POINTS_MAX = WEIR_KNEE_LEVELS_MAX };
enum { LOG_FROM = 8 }; /* levels that spread so far are drawn by their doublings */
enum { BARS_MAX = 4 * WEIR_SWEEP_PARTS_MAX };

struct picture {
    struct cli_chart_series series[CHARTS][SERIES_MAX];
    size_t counts[CHARTS]; /* of series, or of bars */
    double x[CHARTS][SERIES_MAX][POINTS_MAX], y[CHARTS][SERIES_MAX][POINTS_MAX];
    double ticks[2 * POINTS_MAX]; /* levels of now and then */
    size_t ticks_count;
    struct cli_chart_bar bars[CHARTS][BARS_MAX];
    char groups[WEIR_SWEEP_PARTS_MAX][80];
    char notes[BARS_MAX][32]; /* of RATE */
    char note[1024];
};

static struct cli_chart_series *add_series(struct picture *p, int chart, const char *name,
                                           bool is_dashed)
{
    size_t at = p->counts[chart]++;
    p->series[chart][at] = (struct cli_chart_series){
        .name = name, .x = p->x[chart][at], .y = p->y[chart][at], .is_dashed = is_dashed};
    return &p->series[chart][at];
}

static void add_point(struct picture *p, int chart, double x, double y)
{
    size_t at = p->counts[chart] - 1, point = p->series[chart][at].count++;
    p->x[chart][at][point] = x;
    p->y[chart][at][point] = y;
}

static void add_times(struct picture *p, int chart, const struct sweep_result *r, int percentile)
{
    static const char *const names[] = {"median", "95th percentile", "99th percentile"};
    add_series(p, chart, names[percentile], false)->has_dots = true;
    for (uint32_t i = 0; i < r->levels_count; i++) {
        const struct weir_sweep_figures *f = &r->levels[i].figures;
        const struct weir_sweep_times *t = chart == FIRST ? &f->first : &f->whole;
        const uint64_t ns[] = {t->p50_ns, t->p95_ns, t->p99_ns};
        add_point(p, chart, f->in_flight, t->count ? (double)ns[percentile] / 1e6 : NAN);
    }
}

static double highest(const struct picture *p, int chart)
{
    double most = 0;
    for (size_t s = 0; s < p->counts[chart]; s++)
        for (size_t i = 0; i < p->series[chart][s].count; i++)
            most = fmax(most, p->y[chart][s][i]);
    return most;
}

static void add_old(struct picture *p, int chart, const json_t *against, const char *member)
{
    size_t i;
    const json_t *level;
    if (!against)
        return;
    add_series(p, chart, chart == RATE ? "then" : "median then", true);
    json_array_foreach(json_object_get(against, "levels"), i, level)
    {
        const json_t *value = json_object_get(level, member);
        int64_t x = cli_json_int(level, "in_flight");
        size_t count = p->series[chart][p->counts[chart] - 1].count;
        if (count == POINTS_MAX ||
            (count > 0 && (double)x < p->x[chart][p->counts[chart] - 1][count - 1]))
            return;
        add_point(p, chart, (double)x, json_is_number(value) ? json_number_value(value) : NAN);
    }
}

static void add_knee(struct picture *p, int chart, const struct weir_knee *knee)
{
    if (knee->result != WEIR_KNEE_FOUND)
        return;
    double most = highest(p, chart);
    add_series(p, chart, "knee", true);
    add_point(p, chart, knee->at, 0);
    add_point(p, chart, knee->at, most);
}

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* The x axis has its ticks where something was measured. */
static void fill_ticks(struct picture *p)
{
    double all[SERIES_MAX * POINTS_MAX];
    size_t count = 0;
    for (size_t s = 0; s < p->counts[RATE]; s++)
        for (size_t i = 0; i < p->series[RATE][s].count; i++)
            all[count++] = p->x[RATE][s][i];
    qsort(all, count, sizeof *all, by_value);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || all[i] > all[i - 1])
            p->ticks[p->ticks_count++] = all[i];
}

static void fill_levels(struct picture *p, const struct sweep_result *r, const json_t *against)
{
    bool has_first = false;
    add_series(p, RATE, "requests answered a second", false)->has_dots = true;
    for (uint32_t i = 0; i < r->levels_count; i++) {
        const struct weir_sweep_figures *f = &r->levels[i].figures;
        add_point(p, RATE, f->in_flight, f->per_s > 0 ? f->per_s : NAN);
        has_first = has_first || f->first.count > 0;
    }
    for (int percentile = 0; percentile < 3; percentile++) {
        add_times(p, WHOLE, r, percentile);
        if (has_first)
            add_times(p, FIRST, r, percentile);
    }
    add_old(p, RATE, against, "requests_per_s");
    add_old(p, WHOLE, against, "p50_ms");
    if (has_first)
        add_old(p, FIRST, against, "ttft_p50_ms");
    fill_ticks(p);
    add_knee(p, RATE, &r->knee);
    add_knee(p, WHOLE, &r->knee);
    if (has_first)
        add_knee(p, FIRST, &r->knee);
}

static double ms_or_none(const struct weir_sweep_times *t, uint64_t ns)
{
    return t->count ? (double)ns / 1e6 : NAN;
}

static void add_bar(struct picture *p, int chart, uint32_t client, const char *name, double value,
                    double high, bool is_old)
{
    size_t at = p->counts[chart]++;
    WEIR_INVARIANT(at < BARS_MAX);
    p->bars[chart][at] = (struct cli_chart_bar){.group = p->groups[client],
                                                .name = name,
                                                .value = value,
                                                .high = high,
                                                .is_striped = is_old};
}

/* Puts behind the last bar of RATE how many were refused. */
static void note_refused(struct picture *p, long long refused)
{
    size_t at = p->counts[RATE] - 1;
    if (refused <= 0)
        return;
    snprintf(p->notes[at], sizeof p->notes[at], ", %lld refused", refused);
    p->bars[RATE][at].note = p->notes[at];
}

static void add_bars(struct picture *p, uint32_t client, const char *name,
                     const struct weir_sweep_figures *f, bool has_first)
{
    add_bar(p, RATE, client, name, f->measured ? f->per_s : NAN, NAN, false);
    note_refused(p, (long long)f->ended[WEIR_LOAD_429]);
    add_bar(p, WHOLE, client, name, ms_or_none(&f->whole, f->whole.p50_ns),
            ms_or_none(&f->whole, f->whole.p95_ns), false);
    if (has_first)
        add_bar(p, FIRST, client, name, ms_or_none(&f->first, f->first.p50_ns),
                ms_or_none(&f->first, f->first.p95_ns), false);
}

/* The same run of an older sweep; nothing when it had no such client. */
static void add_old_bars(struct picture *p, uint32_t client, const char *name, const json_t *run,
                         bool has_first)
{
    if (!run)
        return;
    add_bar(p, RATE, client, name, sweep_number(run, "requests_per_s"), NAN, true);
    note_refused(p, (long long)cli_json_int(json_object_get(run, "not_ok"), "429"));
    add_bar(p, WHOLE, client, name, sweep_number(run, "p50_ms"), sweep_number(run, "p95_ms"), true);
    if (has_first)
        add_bar(p, FIRST, client, name, sweep_number(run, "ttft_p50_ms"),
                sweep_number(run, "ttft_p95_ms"), true);
}

static void fill_clients(struct picture *p, const struct sweep_plan *plan,
                         const struct sweep_result *r, const json_t *against)
{
    bool has_first = r->light.first.count > 0;
    for (uint32_t i = 0; i < plan->clients_count; i++) {
        const json_t *old = sweep_old_client(against, plan->clients[i].name);
        snprintf(p->groups[i], sizeof p->groups[i], "%s=%u", plan->clients[i].name,
                 plan->clients[i].part.in_flight);
        add_bars(p, i, "alone", &r->alone[i], has_first);
        add_old_bars(p, i, "alone then", json_object_get(old, "alone"), has_first);
        add_bars(p, i, "together", &r->together[i], has_first);
        add_old_bars(p, i, "together then", json_object_get(old, "together"), has_first);
    }
}

static void fill_note(struct picture *p, const struct sweep_plan *plan,
                      const struct sweep_result *r)
{
    char text[1024];
    if (plan->clients_count > 0)
        snprintf(p->note, sizeof p->note, "Which failure: %.900s",
                 r->has_clients ? sweep_verdict_text(plan, r, text, sizeof text) : r->stop);
    else
        snprintf(p->note, sizeof p->note, "Knee: %.400s%s%.400s", sweep_knee_text(r, text, 512),
                 *r->stop ? " Not whole: " : "", r->stop);
}

/* What was measured, when, with what. */
static void write_facts(const struct sweep_plan *plan, const struct sweep_result *r,
                        const json_t *against, char *out, size_t bytes)
{
    char when[SWEEP_WHEN_BYTES], amount[CLI_AMOUNT_BYTES], then[80] = "";
    if (against)
        snprintf(then, sizeof then, " Then: %.30s%s.", cli_json_text(against, "begun"),
                 sweep_is_same_payload(plan, against) ? "" : ", with another payload");
    snprintf(out, bytes,
             "%.250s, %s. Model %.100s, %s, payload %.12s (%zu bytes), %s requests "
             "sent.%s%s%.250s",
             plan->url, sweep_when(r->begun_unix_s, when), *plan->model ? plan->model : "(none)",
             plan->is_stream ? "streamed" : "whole answers", plan->digest, plan->body_bytes,
             cli_amount((int64_t)r->sent, amount), then, plan->note ? " Note: " : "",
             plan->note ? plan->note : "");
}

static bool draw(const struct sweep_plan *plan, const struct sweep_result *r, const json_t *against,
                 bool is_in_page, FILE *out)
{
    static struct picture p; /* large */
    char title[512], facts[1200];
    bool is_bars = plan->clients_count > 0;
    memset(&p, 0, sizeof p);
    if (is_bars)
        fill_clients(&p, plan, r, against);
    else
        fill_levels(&p, r, against);
    fill_note(&p, plan, r);
    snprintf(title, sizeof title, "weir sweep of %s", plan->endpoint.host);
    write_facts(plan, r, against, facts, sizeof facts);
    static const struct {
        const char *title, *unit;
    } heads[CHARTS] = {[RATE] = {"Throughput", "requests a second"},
                       [WHOLE] = {"Time to the whole answer", "milliseconds"},
                       [FIRST] = {"Time to the first token", "milliseconds"}};
    struct cli_chart charts[CHARTS];
    size_t count = 0;
    for (int c = 0; c < CHARTS; c++) {
        if (p.counts[c] == 0)
            continue;
        struct cli_chart *chart = &charts[count++];
        *chart = (struct cli_chart){
            .title = heads[c].title, .note = c == RATE ? p.note : NULL, .y_label = heads[c].unit};
        if (is_bars) {
            chart->y_label = c == RATE ? heads[c].unit
                                       : "milliseconds: median, and a line to the 95th percentile";
            chart->bars = p.bars[c];
            chart->bars_count = p.counts[c];
            chart->high_name = "p95";
            continue;
        }
        chart->x_label = "requests in flight";
        chart->series = p.series[c];
        chart->series_count = p.counts[c];
        chart->x_ticks = p.ticks;
        chart->x_ticks_count = p.ticks_count;
        chart->is_x_log = p.ticks_count > 1 && p.ticks[p.ticks_count - 1] >= LOG_FROM * p.ticks[0];
    }
    return cli_chart_write(out, title, facts, is_in_page, charts, count);
}

bool sweep_draw(const struct sweep_plan *plan, const struct sweep_result *r, const json_t *against,
                FILE *out)
{
    return draw(plan, r, against, false, out);
}

/* ---- a page ---- */

/* At most max bytes of it. */
static void put_html_part(FILE *out, const char *text, size_t max)
{
    for (size_t i = 0; i < max && text[i]; i++)
        switch (text[i]) {
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '&':
            fputs("&amp;", out);
            break;
        default:
            putc((unsigned char)text[i] < ' ' ? ' ' : text[i], out);
        }
}

static void put_html(FILE *out, const char *text)
{
    put_html_part(out, text, SIZE_MAX);
}

static void put_fact(FILE *out, const char *name, const char *text)
{
    if (!text || !*text)
        return;
    fprintf(out, "<dt>%s</dt>", name);
    for (const char *at = text; *at; at += strcspn(at, "\n"), at += *at == '\n') {
        fputs("<dd>", out);
        put_html_part(out, at, strcspn(at, "\n"));
        fputs("</dd>\n", out);
    }
}

static void put_cell_ms(FILE *out, const struct weir_sweep_times *times, uint64_t ns)
{
    if (times->count > 0)
        fprintf(out, "<td>%.1f</td>", (double)ns / 1e6);
    else
        fputs("<td>-</td>", out);
}

static void put_row(FILE *out, const char *name, const struct weir_sweep_figures *f)
{
    char errors[512];
    if (f->sent == 0)
        return;
    fputs("<tr><th scope=row>", out);
    put_html(out, name);
    fprintf(out, "</th><td>%llu</td><td>%llu</td>", (unsigned long long)f->sent,
            (unsigned long long)f->ended[WEIR_LOAD_OK]);
    put_cell_ms(out, &f->whole, f->whole.p50_ns);
    put_cell_ms(out, &f->whole, f->whole.p95_ns);
    put_cell_ms(out, &f->whole, f->whole.p99_ns);
    put_cell_ms(out, &f->first, f->first.p50_ns);
    put_cell_ms(out, &f->first, f->first.p95_ns);
    put_cell_ms(out, &f->token, f->token.p50_ns);
    fprintf(out, "<td>%.1f</td><td>%.0f</td><td class=t>", f->per_s, f->output_tok_per_s);
    put_html(out, sweep_errors(f, errors, sizeof errors));
    fputs("</td></tr>\n", out);
}

static void put_rows(FILE *out, const struct sweep_plan *plan, const struct sweep_result *r)
{
    char name[128];
    for (uint32_t i = 0; i < r->levels_count; i++) {
        snprintf(name, sizeof name, "%u", r->levels[i].figures.in_flight);
        put_row(out, name, &r->levels[i].figures);
    }
    put_row(out, "one at a time", &r->light);
    for (uint32_t i = 0; i < plan->clients_count * 2; i++) {
        uint32_t c = i % plan->clients_count;
        bool is_alone = i < plan->clients_count;
        snprintf(name, sizeof name, "%s=%u %s", plan->clients[c].name,
                 plan->clients[c].part.in_flight, is_alone ? "alone" : "together");
        put_row(out, name, is_alone ? &r->alone[c] : &r->together[c]);
    }
}

/* Which older result it is compared with, and what that one said. */
static void put_against(FILE *out, const struct sweep_plan *plan, const json_t *against)
{
    char text[1024];
    const json_t *verdict = json_object_get(against, "verdict"),
                 *knee = json_object_get(against, "knee");
    if (!against)
        return;
    snprintf(text, sizeof text, "%.300s at %.30s%s: %.600s", cli_json_text(against, "url"),
             cli_json_text(against, "begun"),
             sweep_is_same_payload(plan, against) ? "" : ", with another payload",
             cli_json_text(verdict ? verdict : knee, "text"));
    put_fact(out, "Compared with", text);
}

bool sweep_draw_page(const struct sweep_plan *plan, const struct sweep_result *r,
                     const json_t *against, FILE *out)
{
    char when[SWEEP_WHEN_BYTES], text[1024];
    fputs(SWEEP_PAGE_BEGIN, out);
    put_html(out, plan->endpoint.host);
    fputs("</title>\n<style>:root{color-scheme:light dark;background:#fff;color:#22262c}"
          "@media(prefers-color-scheme:dark){:root{background:#15181d;color:#e8eaed}}"
          "body{font:16px/1.5 system-ui,sans-serif;max-width:62rem;margin:1rem auto;padding:0 1rem}"
          "svg{width:100%;height:auto}.w{overflow-x:auto}"
          "table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums}"
          "th,td{padding:.2rem .35rem;text-align:right;border-bottom:1px solid #8886;"
          "white-space:nowrap}.t,tbody th{text-align:left}tbody "
          "th{white-space:normal;min-width:6rem}dt{font-weight:600;margin-top:.5rem}"
          "dd{margin:0;overflow-wrap:anywhere}</style>\n<main><h1>weir sweep of ",
          out);
    put_html(out, plan->endpoint.host);
    fputs("</h1>\n", out);
    if (!draw(plan, r, against, true, out))
        return false;
    fprintf(out,
            "<div class=w tabindex=0 role=region aria-label=Figures><table><thead><tr>"
            "<th class=t scope=col>%s</th><th scope=col>sent</th>"
            "<th scope=col>ok</th><th scope=col>p50 ms</th><th scope=col>p95 ms</th>"
            "<th scope=col>p99 ms</th><th scope=col>TTFT p50</th><th scope=col>TTFT p95</th>"
            "<th scope=col>per token</th><th scope=col>req/s</th><th scope=col>tok/s</th>"
            "<th class=t scope=col>not ok</th></tr></thead><tbody>\n",
            plan->clients_count ? "client" : "in flight");
    put_rows(out, plan, r);
    fputs("</tbody></table></div>\n<dl>", out);
    if (plan->clients_count == 0)
        put_fact(out, "Knee", sweep_knee_text(r, text, sizeof text));
    else if (r->has_clients)
        put_fact(out, "Which failure", sweep_verdict_text(plan, r, text, sizeof text));
    put_against(out, plan, against);
    put_fact(out, "Endpoint", plan->url);
    put_fact(out, "Begun", sweep_when(r->begun_unix_s, when));
    put_fact(out, "Payload, SHA-256", plan->digest);
    put_fact(out, "Note", plan->note);
    put_fact(out, "Stopped early", r->stop);
    put_fact(out, "What went wrong", r->failures);
    put_fact(out, "Limits the endpoint told", r->advertised);
    if (r->has_clients)
        put_fact(out, "For whom limits hold", sweep_caps_text(r));
    fputs("</dl></main></html>\n", out);
    return fflush(out) == 0 && !ferror(out);
}
