#include "gateway/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/num.h"
#include "gateway/state.h"

#define REPORT_FORM 1 /* raised when a member changes its meaning */
#define REPORT_TENANTS_MAX 1000u
#define REPORT_NOTABLE_BITS 27 /* a wait of 2^27 ns, 134 ms, or more is one that somebody notices */

struct weir_report {
    struct weir_gateway *g;
    int64_t began_s;
    struct weir_ledger_totals *before; /* of the configuration's scopes, when the run began */
};

struct weir_report *weir_report_begin(struct weir_gateway *g)
{
    struct weir_report *report = calloc(1, sizeof *report);
    if (!report)
        return NULL;
    report->g = g;
    report->began_s = time(NULL);
    report->before = calloc((size_t)g->config->scopes_count + 1, sizeof *report->before);
    if (!report->before) {
        free(report);
        return NULL;
    }
    for (uint32_t i = 0; i < g->config->scopes_count; i++)
        if (!weir_store_totals(g->store, weir_gateway_scope(g, i), &report->before[i]))
            report->before[i] = (struct weir_ledger_totals){0};
    return report;
}

void weir_report_free(struct weir_report *report)
{
    if (!report)
        return;
    free(report->before);
    free(report);
}

/* ---- members ---- */

static json_t *report_count(uint64_t value)
{
    return json_integer((json_int_t)weir_min_u64(value, INT64_MAX));
}

static json_t *report_seconds(uint64_t ns)
{
    return json_real((double)(ns / 1000) / 1e6);
}

static json_t *report_time(int64_t unix_s)
{
    struct tm parts;
    time_t at = (time_t)unix_s;
    char text[32];
    if (!gmtime_r(&at, &parts) || strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
        return json_null();
    return json_string(text);
}

static void report_add(json_t *object, const char *name, uint64_t count)
{
    if (count > 0)
        json_object_set_new(
            object, name,
            report_count((uint64_t)json_integer_value(json_object_get(object, name)) + count));
}

static json_t *report_answered(const struct weir_metrics *m)
{
    json_t *object = json_object();
    for (uint32_t status = 1; status < WEIR_METRICS_STATUSES; status++) {
        char name[16];
        snprintf(name, sizeof name, "%u", status);
        report_add(object, name, m->statuses[status]);
    }
    return object;
}

static json_t *report_refused(const struct weir_metrics *m)
{
    json_t *object = json_object();
    for (int i = 1; i < WEIR_REFUSAL_COUNT; i++)
        report_add(object, weir_refusal_row((enum weir_refusal)i)->code, m->refusals[i]);
    return object;
}

/* Everything that was asked: admitted to the flow, refused before it, or answered by a key. */
static uint64_t report_tries(const struct weir_metrics *m, const struct weir_flow_view *view)
{
    uint64_t tries = view->requests_now + m->idempotency[WEIR_IDEMPOTENCY_REPLAY];
    for (uint32_t status = 0; status < WEIR_METRICS_STATUSES; status++)
        tries += m->statuses[status];
    for (int i = 1; i < WEIR_REFUSAL_COUNT; i++)
        tries += m->refusals[i];
    return tries;
}

static json_t *report_requests(const struct weir_gateway *g, const struct weir_flow_view *view)
{
    const struct weir_metrics *m = &g->metrics;
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "tries",
                     report_count(report_tries(m, view)), "admitted",
                     report_count(m->finished + view->requests_now), "answered", report_answered(m),
                     "refused", report_refused(m), "unanswered", report_count(m->statuses[0]),
                     "cut", report_count(m->cut), "clients_gone",
                     report_count(m->gone[WEIR_GONE_CLOSED] + m->gone[WEIR_GONE_STALLED]),
                     "under_way", report_count(view->requests_now), "repeats_by_clients",
                     report_count(m->repeats), "replayed",
                     report_count(m->idempotency[WEIR_IDEMPOTENCY_REPLAY]));
}

static json_t *report_waiting(const struct weir_metrics *m)
{
    const struct weir_hist *h = &m->queue_wait_ns;
    uint64_t brief = weir_hist_count_upto(h, (UINT64_C(1) << REPORT_NOTABLE_BITS) - 1);
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "dispatched", report_count(h->count),
                     "noticeably", report_count(h->count - brief), "p50_s",
                     report_seconds(weir_hist_quantile(h, 50, 100)), "p95_s",
                     report_seconds(weir_hist_quantile(h, 95, 100)), "max_s",
                     report_seconds(h->max), "longest_queue", report_count(m->waiters_max));
}

static json_t *report_tokens(const struct weir_metrics *m, const struct weir_flow_view *view)
{
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "input", report_count(m->input_tok), "cached_input",
        report_count(m->cached_tok), "output", report_count(m->output_tok), "charged",
        report_count(m->charged_tok), "estimated_requests", report_count(m->estimated), "overruns",
        report_count(view->overruns), "overruns_cut", report_count(view->overruns_cut));
}

static json_t *report_pauses(const struct weir_metrics_pause *p)
{
    return json_pack("{s:o, s:o, s:o, s:o}", "count", report_count(p->count), "with_hint",
                     report_count(p->hinted), "hint_min_s",
                     p->hinted ? report_seconds(p->hint_min_ns) : json_null(), "hint_max_s",
                     p->hinted ? report_seconds(p->hint_max_ns) : json_null());
}

static json_t *report_upstreams(const struct weir_gateway *g)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < g->config->upstreams_count; i++) {
        struct weir_upstream_view v;
        json_t *failures = json_object();
        weir_flow_upstream_view(g->flow, i, weir_loop_now_ns(g->loop), &v);
        for (int k = 1; k < WEIR_METRICS_FAILURES; k++)
            report_add(failures, weir_metrics_failure_name((enum weir_call_failure)k),
                       g->metrics.upstream_failures[(size_t)i * WEIR_METRICS_FAILURES + (size_t)k]);
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o}", "name",
                            g->config->upstreams[i].name, "url", g->config->upstreams[i].url,
                            "calls", report_count(v.calls), "failed", report_count(v.failures),
                            "not_answered", failures, "breaker_opened", report_count(v.opened),
                            "answered_429", report_pauses(&g->metrics.pauses[i])));
    }
    return list;
}

/* left_out: tenants that did something and are not in the list. */
static json_t *report_tenants(const struct weir_gateway *g, uint64_t *left_out)
{
    json_t *list = json_array();
    *left_out = 0;
    for (uint32_t i = 0; i < weir_tenancy_end(g->tenancy); i++) {
        const char *name = weir_tenancy_name(g->tenancy, i);
        const struct weir_metrics_wait *w = &g->metrics.waits[i];
        struct weir_tenant_view v;
        if (!name)
            continue;
        weir_flow_tenant_view(g->flow, i, weir_loop_now_ns(g->loop), &v);
        if (v.admitted + v.refused == 0)
            continue;
        if (json_array_size(list) == REPORT_TENANTS_MAX) {
            ++*left_out;
            continue;
        }
        json_array_append_new(
            list,
            json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "name",
                      name, "tries", report_count(v.admitted + v.refused - w->refused), "admitted",
                      report_count(v.admitted), "answered",
                      report_count(v.finished - w->refused - w->unanswered), "refused",
                      report_count(v.refused), "unanswered", report_count(w->unanswered),
                      "finished", report_count(v.finished), "under_way",
                      report_count(v.admitted - v.finished), "wait_mean_s",
                      report_seconds(w->count ? w->sum_ns / w->count : 0), "wait_max_s",
                      report_seconds(w->max_ns), "input", report_count(v.input_tok), "output",
                      report_count(v.output_tok), "estimated_requests",
                      report_count(v.estimated_requests)));
    }
    return list;
}

/* What was used of a window, corrections by hand apart. */
static int64_t report_used(const struct weir_ledger_totals *t)
{
    return t->reserved_tok + t->committed_tok + t->lapsed_tok - t->raised_tok + t->lowered_tok;
}

static json_t *report_scopes(const struct weir_report *report)
{
    struct weir_gateway *g = report->g;
    json_t *list = json_array();
    for (uint32_t i = 0; i < g->config->scopes_count; i++) {
        const struct weir_ledger_totals *before = &report->before[i];
        struct weir_ledger_totals t;
        if (!weir_store_totals(g->store, weir_gateway_scope(g, i), &t))
            continue;
        /* What was used before a window began is not this window's; the run's share of an older
         * window is not known any more. */
        bool is_same = t.window == before->window;
        int64_t used = report_used(&t), of_run = is_same ? used - report_used(before) : used;
        json_array_append_new(
            list,
            json_pack("{s:s, s:o, s:I, s:I, s:b, s:I, s:o}", "name", g->config->scopes[i].name,
                      "granted", t.unlimited ? json_null() : json_integer(t.granted_tok), "used",
                      (json_int_t)(t.reserved_tok + t.committed_tok + t.lapsed_tok), "used_by_run",
                      (json_int_t)of_run, "window_changed", !is_same, "overrun",
                      (json_int_t)t.overrun_tok, "refused", report_count(t.refused_count)));
    }
    return list;
}

static const char *report_state_name(enum weir_report_state state)
{
    switch (state) {
    case WEIR_REPORT_SERVING:
        return "serving";
    case WEIR_REPORT_DRAINING:
        return "draining";
    case WEIR_REPORT_DRAINED:
        return "drained";
    case WEIR_REPORT_STOPPED:
        return "stopped";
    case WEIR_REPORT_FAILED:
        return "failed";
    }
    return "";
}

json_t *weir_report_make(const struct weir_report *report, enum weir_report_state state)
{
    struct weir_gateway *g = report->g;
    struct weir_flow_view view;
    uint64_t left_out;
    weir_flow_view(g->flow, &view);
    json_t *tenants = report_tenants(g, &left_out);
    return json_pack("{s:i, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "form",
                     REPORT_FORM, "weir", WEIR_VERSION, "state", report_state_name(state), "began",
                     report_time(report->began_s), "written", report_time(time(NULL)), "seconds",
                     report_seconds(weir_loop_now_ns(g->loop) - g->started_ns), "requests",
                     report_requests(g, &view), "waiting", report_waiting(&g->metrics), "tokens",
                     report_tokens(&g->metrics, &view), "upstreams", report_upstreams(g), "tenants",
                     tenants, "tenants_left_out", report_count(left_out), "scopes",
                     report_scopes(report));
}
