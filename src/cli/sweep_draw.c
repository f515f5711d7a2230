#include "cli/sweep.h"

#include "cli/chart.h"
#include "cli/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Over levels: throughput, time of a whole answer, time to the first token. Over clients there is no
 * curve, so what each got and waited alone and together stands side by side. */

enum { RATE, WHOLE, FIRST, CHARTS };
enum { SERIES_MAX = 6, POINTS_MAX = WEIR_KNEE_LEVELS_MAX };
_Static_assert(POINTS_MAX >= 3 * WEIR_SWEEP_PARTS_MAX + 2, "a client's piece has three points");

struct picture {
    struct cli_chart_series series[CHARTS][SERIES_MAX];
    size_t counts[CHARTS];
    double x[CHARTS][SERIES_MAX][POINTS_MAX], y[CHARTS][SERIES_MAX][POINTS_MAX];
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
    add_series(p, chart, names[percentile], false);
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

static void fill_levels(struct picture *p, const struct sweep_result *r, const json_t *against)
{
    bool has_first = false;
    add_series(p, RATE, "requests answered a second", false);
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
    add_knee(p, RATE, &r->knee);
    add_knee(p, WHOLE, &r->knee);
    if (has_first)
        add_knee(p, FIRST, &r->knee);
}

/* A piece of a line, as wide as a bar. */
static void add_bar(struct picture *p, int chart, double x, double y)
{
    add_point(p, chart, x - 0.1, y);
    add_point(p, chart, x + 0.1, y);
    add_point(p, chart, x + 0.1, NAN);
}

static void fill_clients(struct picture *p, const struct sweep_plan *plan,
                         const struct sweep_result *r)
{
    static const char *const names[] = {"alone, median", "together, median", "together, 95th"};
    for (int which = 0; which < 3; which++)
        for (int chart = RATE; chart < CHARTS; chart++) {
            if (chart == RATE ? which == 2 : chart == FIRST && r->light.first.count == 0)
                continue;
            add_series(p, chart, chart == RATE ? (which ? "together" : "alone") : names[which],
                       false);
            add_point(p, chart, 0.5, NAN); /* so that all have the same axis */
            for (uint32_t i = 0; i < plan->clients_count; i++) {
                const struct weir_sweep_figures *f = which ? &r->together[i] : &r->alone[i];
                const struct weir_sweep_times *t = chart == FIRST ? &f->first : &f->whole;
                double ms = t->count ? (double)(which == 2 ? t->p95_ns : t->p50_ns) / 1e6 : NAN;
                add_bar(p, chart, i + 1 + (which - 1) * 0.25, chart == RATE ? f->per_s : ms);
            }
            add_point(p, chart, plan->clients_count + 0.5, NAN);
        }
}

static void fill_note(struct picture *p, const struct sweep_plan *plan,
                      const struct sweep_result *r)
{
    char text[1024], clients[256] = "";
    for (uint32_t i = 0; i < plan->clients_count; i++) {
        size_t used = strlen(clients);
        snprintf(clients + used, sizeof clients - used, "%s%u is %s=%u", i ? ", " : "Client ",
                 i + 1, plan->clients[i].name, plan->clients[i].part.in_flight);
    }
    if (plan->clients_count > 0)
        snprintf(p->note, sizeof p->note, "%.250s. Which failure: %.650s", clients,
                 r->has_clients ? sweep_verdict_text(plan, r, text, sizeof text) : r->stop);
    else
        snprintf(p->note, sizeof p->note, "Knee: %.400s%s%.400s", sweep_knee_text(r, text, 512),
                 *r->stop ? " Not whole: " : "", r->stop);
}

bool sweep_draw(const struct sweep_plan *plan, const struct sweep_result *r, const json_t *against,
                FILE *out)
{
    static struct picture p; /* large */
    char title[512], facts[512], when[SWEEP_WHEN_BYTES];
    memset(&p, 0, sizeof p);
    if (plan->clients_count > 0)
        fill_clients(&p, plan, r);
    else
        fill_levels(&p, r, against);
    fill_note(&p, plan, r);
    snprintf(title, sizeof title, "weir sweep of %s, %s", plan->endpoint.host,
             sweep_when(r->begun_unix_s, when));
    snprintf(facts, sizeof facts, "Model %.100s, %s, payload %.12s, %llu requests sent.%s%.250s",
             *plan->model ? plan->model : "(none)", plan->is_stream ? "streamed" : "whole answers",
             plan->digest, (unsigned long long)r->sent, plan->note ? " Note: " : "",
             plan->note ? plan->note : "");
    const char *x = plan->clients_count ? "client" : "requests in flight";
    const struct cli_chart all[CHARTS] = {
        [RATE] = {"Throughput", p.note, x, "requests a second", p.series[RATE], p.counts[RATE]},
        [WHOLE] = {"Time to the whole answer", NULL, x, "ms", p.series[WHOLE], p.counts[WHOLE]},
        [FIRST] = {"Time to the first token", NULL, x, "ms", p.series[FIRST], p.counts[FIRST]}};
    struct cli_chart charts[CHARTS];
    size_t count = 0;
    for (int c = 0; c < CHARTS; c++)
        if (all[c].series_count > 0)
            charts[count++] = all[c];
    charts[count - 1].note = facts; /* there are two at least */
    return cli_chart_write(out, title, charts, count);
}

/* ---- a page ---- */

static void put_html(FILE *out, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
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

static void put_fact(FILE *out, const char *name, const char *text)
{
    if (!text || !*text)
        return;
    fprintf(out, "<dt>%s</dt>", name);
    for (const char *at = text; *at; at += strcspn(at, "\n"), at += *at == '\n') {
        fputs("<dd>", out);
        put_html(out, at, strcspn(at, "\n"));
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
    put_html(out, name, strlen(name));
    fprintf(out, "</th><td>%u</td><td>%llu</td><td>%llu</td>", f->in_flight,
            (unsigned long long)f->sent, (unsigned long long)f->ended[WEIR_LOAD_OK]);
    put_cell_ms(out, &f->whole, f->whole.p50_ns);
    put_cell_ms(out, &f->whole, f->whole.p95_ns);
    put_cell_ms(out, &f->whole, f->whole.p99_ns);
    put_cell_ms(out, &f->first, f->first.p50_ns);
    put_cell_ms(out, &f->first, f->first.p95_ns);
    put_cell_ms(out, &f->token, f->token.p50_ns);
    fprintf(out, "<td>%.1f</td><td>%.0f</td><td class=t>", f->per_s, f->output_tok_per_s);
    put_html(out, sweep_errors(f, errors, sizeof errors), strlen(errors));
    fputs("</td></tr>\n", out);
}

bool sweep_draw_page(const struct sweep_plan *plan, const struct sweep_result *r,
                     const json_t *against, FILE *out)
{
    char when[SWEEP_WHEN_BYTES], name[128], text[1024];
    fputs("<!doctype html>\n<html lang=en><meta charset=utf-8>\n"
          "<meta name=viewport content='width=device-width'>\n<title>weir sweep of ",
          out);
    put_html(out, plan->endpoint.host, strlen(plan->endpoint.host));
    fputs("</title>\n<style>:root{color-scheme:light dark}"
          "body{font:16px/1.5 system-ui,sans-serif;max-width:62rem;margin:1rem auto;padding:0 1rem}"
          "svg{width:100%;height:auto}.w{overflow-x:auto}"
          "table{border-collapse:collapse;font-variant-numeric:tabular-nums}"
          "th,td{padding:.2rem .6rem;text-align:right;border-bottom:1px solid #8886;"
          "white-space:nowrap}.t,tbody th{text-align:left}dt{font-weight:600;margin-top:.5rem}"
          "dd{margin:0;overflow-wrap:anywhere}</style>\n<main><h1>weir sweep of ",
          out);
    put_html(out, plan->endpoint.host, strlen(plan->endpoint.host));
    fputs("</h1>\n", out);
    if (!sweep_draw(plan, r, against, out))
        return false;
    fputs("<div class=w tabindex=0 role=region aria-label=Figures><table><thead><tr>"
          "<th class=t scope=col>run</th><th scope=col>in flight</th><th scope=col>sent</th>"
          "<th scope=col>ok</th><th scope=col>p50 ms</th><th scope=col>p95 ms</th>"
          "<th scope=col>p99 ms</th><th scope=col>TTFT p50</th><th scope=col>TTFT p95</th>"
          "<th scope=col>per token</th><th scope=col>req/s</th><th scope=col>tok/s</th>"
          "<th class=t scope=col>not ok</th></tr></thead><tbody>\n",
          out);
    for (uint32_t i = 0; i < r->levels_count; i++)
        put_row(out, "level", &r->levels[i].figures);
    put_row(out, "one at a time", &r->light);
    for (uint32_t i = 0; i < plan->clients_count * 2; i++) {
        uint32_t c = i % plan->clients_count;
        bool is_alone = i < plan->clients_count;
        snprintf(name, sizeof name, "%s %s", plan->clients[c].name,
                 is_alone ? "alone" : "together");
        put_row(out, name, is_alone ? &r->alone[c] : &r->together[c]);
    }
    fputs("</tbody></table></div>\n<dl>", out);
    if (plan->clients_count == 0)
        put_fact(out, "Knee", sweep_knee_text(r, text, sizeof text));
    else if (r->has_clients)
        put_fact(out, "Which failure", sweep_verdict_text(plan, r, text, sizeof text));
    put_fact(out, "Endpoint", plan->url);
    put_fact(out, "Begun", sweep_when(r->begun_unix_s, when));
    put_fact(out, "Payload, SHA-256", plan->digest);
    put_fact(out, "Note", plan->note);
    put_fact(out, "Stopped early", r->stop);
    put_fact(out, "What went wrong", r->failures);
    put_fact(out, "Limits the endpoint told", r->advertised);
    if (r->has_clients)
        put_fact(out, "Limits hold for", sweep_caps_text(r));
    fputs("</dl></main></html>\n", out);
    return fflush(out) == 0 && !ferror(out);
}
