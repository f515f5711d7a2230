/* The table of what is counted, and its text. */
#include "gateway/metrics.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/metrics_private.h"
#include "gateway/rollover.h"
#include "gateway/state.h"

#define METRICS_MODEL_BYTES 512
/* Series a metric has at most for tenants and for scopes: the text is made in one turn of the
 * loop. */
#define METRICS_EACH_MAX 1000u

void metrics_add(struct metrics_text *t, const char *format, ...)
{
    va_list args;
    for (;;) { /* once, or twice where the text has to grow first */
        size_t left = t->room - t->used;
        va_start(args, format);
        int n = vsnprintf(t->at ? t->at + t->used : NULL, left, format, args);
        va_end(args);
        if (n < 0 || t->failed)
            return;
        if ((size_t)n < left) {
            t->used += (size_t)n;
            return;
        }
        size_t room = (t->used + (size_t)n + 1) * 2;
        char *bigger = realloc(t->at, room);
        t->failed = !bigger;
        t->at = bigger ? bigger : t->at;
        t->room = bigger ? room : t->room;
    }
}

const char *metrics_label(char *out, size_t cap, const char *value)
{
    size_t used = 0;
    for (; *value && used + 3 < cap; value++) {
        if (*value == '\\' || *value == '"' || *value == '\n')
            out[used++] = '\\';
        out[used++] = *value == '\n' ? 'n' : *value;
    }
    out[used] = 0;
    return out;
}

static void metrics_hist(struct metrics_text *t, const char *name, const struct weir_hist *h)
{
    /* Powers of two of a millisecond and so on, from about 1 ms to 18 min: exact in the log-linear
     * buckets. */
    for (unsigned bits = 20; bits <= 40; bits++) {
        uint64_t bound = (UINT64_C(1) << bits) - 1;
        metrics_add(t, "%s_bucket{le=\"%.9g\"} %llu\n", name, (double)(bound + 1) / 1e9,
                    (unsigned long long)weir_hist_count_upto(h, bound));
    }
    metrics_add(t, "%s_bucket{le=\"+Inf\"} %llu\n%s_sum %.9f\n%s_count %llu\n", name,
                (unsigned long long)h->count, name, (double)h->sum / 1e9, name,
                (unsigned long long)h->count);
}

/* One row: what it is and how its samples are printed. */
struct metrics_row {
    const char *name, *type, *help;
    void (*print)(struct metrics_text *t, const char *name, struct weir_gateway *g);
};

static void print_build(struct metrics_text *t, const char *name, struct weir_gateway *g)
{
    (void)g;
    metrics_add(t, "%s{version=\"%s\"} 1\n", name, WEIR_VERSION);
}

static void print_refusals(struct metrics_text *t, const char *name, struct weir_gateway *g)
{
    /* Several reasons share a code: they are summed, since a series is named once. */
    for (int i = 1; i < WEIR_REFUSAL_COUNT; i++) {
        const char *code = weir_refusal_row((enum weir_refusal)i)->code;
        uint64_t sum = 0;
        bool first = true;
        for (int j = 1; j < WEIR_REFUSAL_COUNT; j++)
            if (strcmp(weir_refusal_row((enum weir_refusal)j)->code, code) == 0) {
                first = first && j >= i;
                sum += g->metrics.refusals[j];
            }
        if (first)
            metrics_add(t, "%s{reason=\"%s\"} %llu\n", name, code, (unsigned long long)sum);
    }
}

static void print_answers(struct metrics_text *t, const char *name, struct weir_gateway *g)
{
    static const char *const classes[WEIR_METRICS_STATUS_CLASSES] = {"none", "1xx", "2xx",
                                                                     "3xx",  "4xx", "5xx"};
    for (int a = 0; a < WEIR_API_COUNT; a++)
        for (int c = 0; c < WEIR_METRICS_STATUS_CLASSES; c++)
            if (g->metrics.answers[a][c] || c == 2)
                metrics_add(t, "%s{api=\"%s\",status=\"%s\"} %llu\n", name,
                            weir_api_name((enum weir_api)a), classes[c],
                            (unsigned long long)g->metrics.answers[a][c]);
}

#define PRINT_COUNTER(id, field)                                                                   \
    static void print_##id(struct metrics_text *t, const char *name, struct weir_gateway *g)       \
    {                                                                                              \
        metrics_add(t, "%s %llu\n", name, (unsigned long long)(field));                            \
    }
PRINT_COUNTER(cut, g->metrics.cut)
PRINT_COUNTER(estimated, g->metrics.estimated)
PRINT_COUNTER(repeats, g->metrics.repeats)
PRINT_COUNTER(charged, g->metrics.charged_tok)
PRINT_COUNTER(log_dropped, weir_log_dropped(g->log))
PRINT_COUNTER(limiters_idle, weir_tenancy_limiters_idle(g->tenancy))
PRINT_COUNTER(recorded, g->metrics.charged_tok)

static void print_record_written(struct metrics_text *t, const char *name, struct weir_gateway *g)
{
    uint64_t written, dropped;
    weir_log_record_counts(g->log, &written, &dropped);
    metrics_add(t, "%s %llu\n", name, (unsigned long long)written);
}

static void print_record_dropped(struct metrics_text *t, const char *name, struct weir_gateway *g)
{
    uint64_t written, dropped;
    weir_log_record_counts(g->log, &written, &dropped);
    metrics_add(t, "%s %llu\n", name, (unsigned long long)dropped);
}

static void print_enforced(struct metrics_text *t, const char *name, struct weir_gateway *g)
{
    struct weir_ledger_stats stats;
    weir_store_stats(g->store, &stats);
    metrics_add(t, "%s %lld\n", name, (long long)stats.counted_tok);
}

static void print_gone(struct metrics_text *t, const char *name, struct weir_gateway *g)
{
    metrics_add(t, "%s{why=\"closed\"} %llu\n%s{why=\"stalled\"} %llu\n", name,
                (unsigned long long)g->metrics.gone[WEIR_GONE_CLOSED], name,
                (unsigned long long)g->metrics.gone[WEIR_GONE_STALLED]);
}

static void print_tokens(struct metrics_text *t, const char *name, struct weir_gateway *g)
{
    metrics_add(t, "%s{type=\"input\"} %llu\n%s{type=\"cached\"} %llu\n%s{type=\"output\"} %llu\n",
                name, (unsigned long long)g->metrics.input_tok, name,
                (unsigned long long)g->metrics.cached_tok, name,
                (unsigned long long)g->metrics.output_tok);
}

#define PRINT_HIST(id, field)                                                                      \
    static void print_##id(struct metrics_text *t, const char *name, struct weir_gateway *g)       \
    {                                                                                              \
        metrics_hist(t, name, &g->metrics.field);                                                  \
    }
PRINT_HIST(queue_wait, queue_wait_ns)
PRINT_HIST(first_byte, first_byte_ns)
PRINT_HIST(duration, duration_ns)

#define PRINT_FLOW(id, field)                                                                      \
    static void print_##id(struct metrics_text *t, const char *name, struct weir_gateway *g)       \
    {                                                                                              \
        struct weir_flow_view view;                                                                \
        weir_flow_view(g->flow, &view);                                                            \
        metrics_add(t, "%s %llu\n", name, (unsigned long long)view.field);                         \
    }
PRINT_FLOW(waiters, waiters_now)
PRINT_FLOW(in_flight, in_flight_now)
PRINT_FLOW(holds, holds_now)
PRINT_FLOW(waiting_bytes, waiting_bytes_now)
PRINT_FLOW(overruns_now, overruns_now)
PRINT_FLOW(overruns, overruns)
PRINT_FLOW(overruns_cut, overruns_cut)

#define PRINT_UPSTREAM(id, expression)                                                             \
    static void print_##id(struct metrics_text *t, const char *name, struct weir_gateway *g)       \
    {                                                                                              \
        for (uint32_t i = 0; i < g->config->upstreams_count; i++) {                                \
            struct weir_upstream_view view;                                                        \
            char label[200];                                                                       \
            weir_flow_upstream_view(g->flow, i, weir_loop_now_ns(g->loop), &view);                 \
            metrics_add(t, "%s{upstream=\"%s\"} " METRICS_EXACT "\n", name,                        \
                        metrics_label(label, sizeof label, g->config->upstreams[i].name),          \
                        (double)(expression));                                                     \
        }                                                                                          \
    }
PRINT_UPSTREAM(permits, view.permits)
PRINT_UPSTREAM(permits_now, view.permits_now)
PRINT_UPSTREAM(breaker, view.breaker)
PRINT_UPSTREAM(paused, (double)view.paused_for_ns / 1e9)
PRINT_UPSTREAM(calls, view.calls)
PRINT_UPSTREAM(opened, view.opened)
PRINT_UPSTREAM(throttled, g->metrics.pauses[i].count)

const char *weir_metrics_failure_name(enum weir_call_failure failure)
{
    static const char *const kinds[WEIR_METRICS_FAILURES] = {
        [WEIR_CALL_OK] = "none",
        [WEIR_CALL_E_RESOLVE] = "resolve",
        [WEIR_CALL_E_CONNECT] = "connect",
        [WEIR_CALL_E_TLS] = "tls",
        [WEIR_CALL_E_CONNECT_TIMEOUT] = "connect_timeout",
        [WEIR_CALL_E_WRITE] = "write",
        [WEIR_CALL_E_WRITE_TIMEOUT] = "write_timeout",
        [WEIR_CALL_E_FIRST_BYTE_TIMEOUT] = "first_byte_timeout",
        [WEIR_CALL_E_IDLE_TIMEOUT] = "idle_timeout",
        [WEIR_CALL_E_TOTAL_TIMEOUT] = "total_timeout",
        [WEIR_CALL_E_ANSWER] = "bad_answer",
        [WEIR_CALL_E_CUT] = "cut",
        [WEIR_CALL_E_DESCRIPTORS] = "descriptors",
    };
    return kinds[failure];
}

static void print_failures(struct metrics_text *t, const char *name, struct weir_gateway *g)
{
    for (uint32_t i = 0; i < g->metrics.upstreams_count; i++) {
        char label[200];
        metrics_label(label, sizeof label, g->config->upstreams[i].name);
        for (int k = 1; k < WEIR_METRICS_FAILURES; k++)
            metrics_add(t, "%s{upstream=\"%s\",kind=\"%s\"} %llu\n", name, label,
                        weir_metrics_failure_name((enum weir_call_failure)k),
                        (unsigned long long)g->metrics
                            .upstream_failures[(size_t)i * WEIR_METRICS_FAILURES + (size_t)k]);
    }
}

#define PRINT_TENANT(id, expression)                                                               \
    static void print_##id(struct metrics_text *t, const char *name, struct weir_gateway *g)       \
    {                                                                                              \
        for (uint32_t i = 0; i < weir_tenancy_end(g->tenancy) && i < METRICS_EACH_MAX; i++) {      \
            struct weir_tenant_view view;                                                          \
            const char *tenant = weir_tenancy_name(g->tenancy, i);                                 \
            char label[2 * WEIR_TENANT_NAME_BYTES];                                                \
            if (!tenant)                                                                           \
                continue;                                                                          \
            weir_flow_tenant_view(g->flow, i, weir_loop_now_ns(g->loop), &view);                   \
            metrics_add(t, "%s{tenant=\"%s\"} " METRICS_EXACT "\n", name,                          \
                        metrics_label(label, sizeof label, tenant), (double)(expression));         \
        }                                                                                          \
    }
PRINT_TENANT(tenant_waiting, view.waiting)
PRINT_TENANT(tenant_in_flight, view.in_flight)
PRINT_TENANT(tenant_longest_wait, (double)view.longest_wait_ns / 1e9)
PRINT_TENANT(tenant_admitted, view.admitted)
PRINT_TENANT(tenant_refused, view.refused)
PRINT_TENANT(tenant_input, view.input_tok)
PRINT_TENANT(tenant_output, view.output_tok)

static void print_ledger(struct metrics_text *t, const char *name, struct weir_gateway *g)
{
    for (int i = 0; i < WEIR_LEDGER_RESULT_COUNT; i++)
        metrics_add(t, "%s{result=\"%s\"} %llu\n", name,
                    weir_ledger_result_name((enum weir_ledger_result)i),
                    (unsigned long long)g->metrics.ledger_results[i]);
}

static void print_idempotency(struct metrics_text *t, const char *name, struct weir_gateway *g)
{
    for (int i = 0; i < WEIR_IDEMPOTENCY_OUTCOME_COUNT; i++)
        metrics_add(t, "%s{outcome=\"%s\"} %llu\n", name,
                    weir_idempotency_outcome_name((enum weir_idempotency_outcome)i),
                    (unsigned long long)g->metrics.idempotency[i]);
}

#define PRINT_IDEMPOTENCY(id, field)                                                               \
    static void print_##id(struct metrics_text *t, const char *name, struct weir_gateway *g)       \
    {                                                                                              \
        struct weir_idempotency_view view = {0};                                                   \
        if (g->idempotency)                                                                        \
            weir_idempotency_view(g->idempotency, &view);                                          \
        metrics_add(t, "%s %llu\n", name, (unsigned long long)view.field);                         \
    }
PRINT_IDEMPOTENCY(idempotency_keys, keys_now)
PRINT_IDEMPOTENCY(idempotency_bytes, answers_bytes_now)
PRINT_IDEMPOTENCY(idempotency_keys_pushed_out, keys_pushed_out)
PRINT_IDEMPOTENCY(idempotency_answers_pushed_out, answers_pushed_out)

#define PRINT_STORE(id, expression)                                                                \
    static void print_##id(struct metrics_text *t, const char *name, struct weir_gateway *g)       \
    {                                                                                              \
        (void)g;                                                                                   \
        metrics_add(t, "%s " METRICS_EXACT "\n", name, (double)(expression));                      \
    }
PRINT_STORE(store_available, t->store.is_available)
PRINT_STORE(store_queue, t->store.queue_now)
PRINT_STORE(store_sync, (double)t->store.sync_ns / 1e9)
PRINT_STORE(store_batches, t->store.batches)
PRINT_STORE(store_ops, t->store.ops)
PRINT_STORE(store_rows, t->store.rows_written)
PRINT_STORE(store_file, t->store.file_bytes)
PRINT_STORE(store_wal, t->store.wal_bytes)

static void print_store_commit(struct metrics_text *t, const char *name, struct weir_gateway *g)
{
    (void)g;
    metrics_add(t, "%s{quantile=\"0.5\"} %.9g\n%s{quantile=\"0.99\"} %.9g\n", name,
                (double)t->store.commit_p50_ns / 1e9, name, (double)t->store.commit_p99_ns / 1e9);
}

/* Of the configuration's first scopes only: those of tenants are as many as there are
 * credentials. */
#define PRINT_SCOPE(id, field)                                                                     \
    static void print_##id(struct metrics_text *t, const char *name, struct weir_gateway *g)       \
    {                                                                                              \
        for (uint32_t i = 0; i < g->config->scopes_count && i < METRICS_EACH_MAX; i++) {           \
            struct weir_ledger_totals totals;                                                      \
            char label[300];                                                                       \
            if (weir_store_totals(g->store, t->scopes[i], &totals))                                \
                metrics_add(t, "%s{scope=\"%s\"} %lld\n", name,                                    \
                            metrics_label(label, sizeof label, g->config->scopes[i].name),         \
                            (long long)(totals.field));                                            \
        }                                                                                          \
    }
PRINT_SCOPE(scope_granted, granted_tok)
PRINT_SCOPE(scope_reserved, reserved_tok)
PRINT_SCOPE(scope_committed, committed_tok)
PRINT_SCOPE(scope_lapsed, lapsed_tok)
PRINT_SCOPE(scope_overrun, overrun_tok)
PRINT_SCOPE(scope_unmatched, unmatched_tok)
PRINT_SCOPE(scope_refused, refused_count)

static void print_held_back(struct metrics_text *t, const char *name, struct weir_gateway *g)
{
    metrics_add(t, "%s %u\n", name, g->rollover ? weir_rollover_held_back(g->rollover) : 0);
}

/* The next label, from *model on, under whose models something was learned, with their sum. */
static bool metrics_next_model(struct weir_gateway *g, uint32_t *model,
                               char label[METRICS_MODEL_BYTES], struct weir_coverage *sum)
{
    for (; *model < g->models_set; (*model)++) {
        const char *text = weir_routes_model_label(g->routes, *model);
        uint32_t first = 0;
        while (weir_routes_model_label(g->routes, first) != text)
            first++;
        if (first < *model)
            continue;
        *sum = (struct weir_coverage){0};
        for (uint32_t i = first; i < g->models_set; i++) {
            struct weir_coverage one;
            if (weir_routes_model_label(g->routes, i) != text)
                continue;
            weir_flow_coverage(g->flow, i, &one);
            sum->samples += one.samples;
            sum->under += one.under;
            for (uint32_t bin = 0; bin < WEIR_COVERAGE_BINS; bin++)
                sum->bins[bin] += one.bins[bin];
        }
        if (sum->samples == 0)
            continue;
        metrics_label(label, METRICS_MODEL_BYTES, text);
        (*model)++;
        return true;
    }
    return false;
}

#define PRINT_ESTIMATE(id, field)                                                                  \
    static void print_##id(struct metrics_text *t, const char *name, struct weir_gateway *g)       \
    {                                                                                              \
        struct weir_coverage coverage;                                                             \
        char label[METRICS_MODEL_BYTES];                                                           \
        for (uint32_t model = 0; metrics_next_model(g, &model, label, &coverage);)                 \
            metrics_add(t, "%s{model=\"%s\"} %llu\n", name, label,                                 \
                        (unsigned long long)coverage.field);                                       \
    }
PRINT_ESTIMATE(estimate_samples, samples)
PRINT_ESTIMATE(estimate_under, under)

static void print_estimate_ratio(struct metrics_text *t, const char *name, struct weir_gateway *g)
{
    static const uint32_t permilles[] = {500, 950};
    struct weir_coverage coverage;
    char label[METRICS_MODEL_BYTES];
    for (uint32_t model = 0; metrics_next_model(g, &model, label, &coverage);)
        for (size_t i = 0; i < WEIR_COUNT(permilles); i++) {
            uint32_t percent = weir_coverage_percent_at(&coverage, permilles[i]);
            metrics_add(t, "%s{model=\"%s\",quantile=\"%g\"} ", name, label, permilles[i] / 1000.0);
            if (percent == UINT32_MAX)
                metrics_add(t, "+Inf\n");
            else
                metrics_add(t, "%.9g\n", percent / 100.0);
        }
}

static void print_connections(struct metrics_text *t, const char *name, struct weir_gateway *g)
{
    metrics_add(t, "%s %u\n", name, weir_server_connections(g->server));
}

static void print_faults(struct metrics_text *t, const char *name, struct weir_gateway *g)
{
    struct weir_server_view view;
    weir_server_view(g->server, &view);
    for (int i = 0; i < WEIR_SERVER_FAULT_COUNT; i++)
        metrics_add(t, "%s{fault=\"%s\"} %llu\n", name,
                    weir_server_fault_label((enum weir_server_fault)i),
                    (unsigned long long)view.faults[i]);
}

static const struct metrics_row metrics_rows[] = {
    {"weir_build_info", "gauge", "The version that runs; always 1.", print_build},
    {"weir_refusals_total", "counter",
     "Requests the gateway itself answered with a refusal, by code.", print_refusals},
    {"weir_answers_total", "counter", "Answers of upstreams passed on, by API and status class.",
     print_answers},
    {"weir_answers_cut_total", "counter", "Answers that began and did not end properly.",
     print_cut},
    {"weir_client_repeats_total", "counter",
     "Requests by which a client said that it tries again (x-stainless-retry-count).",
     print_repeats},
    {"weir_clients_gone_total", "counter",
     "Clients that left before their answer was complete, by how.", print_gone},
    {"weir_tokens_total", "counter", "Tokens that upstreams reported; input includes cached.",
     print_tokens},
    {"weir_charged_tokens_total", "counter", "Tokens charged to budgets, estimates included.",
     print_charged},
    {"weir_estimated_requests_total", "counter",
     "Finished requests charged by estimate: no usage came.", print_estimated},
    {"weir_queue_wait_seconds", "histogram", "Time from admission to dispatch.", print_queue_wait},
    {"weir_first_byte_seconds", "histogram",
     "Time from the request being sent to the answer's head.", print_first_byte},
    {"weir_request_duration_seconds", "histogram",
     "Time from arrival to the end of the upstream exchange.", print_duration},
    {"weir_overruns", "gauge",
     "Streams running beyond a hold that their budget had no room to enlarge.", print_overruns_now},
    {"weir_overruns_total", "counter", "Streams that came to that.", print_overruns},
    {"weir_overruns_cut_total", "counter", "Those of them that were cut (on_overrun: cut).",
     print_overruns_cut},
    {"weir_waiting_requests", "gauge", "Requests in the queue now.", print_waiters},
    {"weir_waiting_bytes", "gauge", "Heads and bodies of the requests in the queue now.",
     print_waiting_bytes},
    {"weir_in_flight_requests", "gauge", "Requests that hold a permit now.", print_in_flight},
    {"weir_holds", "gauge", "Budget holds alive now.", print_holds},
    {"weir_upstream_permits", "gauge",
     "Most requests in flight at once: the limit in force, where it is adaptive.", print_permits},
    {"weir_upstream_in_flight", "gauge", "Requests in flight now.", print_permits_now},
    {"weir_upstream_breaker", "gauge", "0 closed, 1 open, 2 half-open.", print_breaker},
    {"weir_upstream_breaker_opened_total", "counter", "How often its breaker opened.",
     print_opened},
    {"weir_upstream_throttled_total", "counter", "Its answers 429.", print_throttled},
    {"weir_upstream_paused_seconds", "gauge", "Rest of the pause that a 429 asked for.",
     print_paused},
    {"weir_upstream_calls_total", "counter", "Calls that were dispatched.", print_calls},
    {"weir_upstream_failures_total", "counter", "Calls that failed, by kind.", print_failures},
    {"weir_tenant_waiting_requests", "gauge", "Requests of the tenant in the queue now.",
     print_tenant_waiting},
    {"weir_tenant_in_flight_requests", "gauge", "Requests of the tenant in flight now.",
     print_tenant_in_flight},
    {"weir_tenant_longest_wait_seconds", "gauge",
     "How long the tenant's oldest waiting request has waited, for its turn or for budget.",
     print_tenant_longest_wait},
    {"weir_tenant_admitted_total", "counter", "Requests of the tenant that were admitted.",
     print_tenant_admitted},
    {"weir_tenant_refused_total", "counter", "Requests of the tenant that were refused.",
     print_tenant_refused},
    {"weir_tenant_input_tokens_total", "counter", "Input tokens of the tenant's finished requests.",
     print_tenant_input},
    {"weir_tenant_output_tokens_total", "counter",
     "Output tokens of the tenant's finished requests.", print_tenant_output},
    {"weir_fairness_gap_work", "gauge",
     "Largest difference of work per weight (1: the smallest) between two tenants of the lane that "
     "were backlogged all through the last 1, 10 or 60 s. NaN: fewer than two were.",
     metrics_print_gap_work},
    {"weir_fairness_bound_work", "gauge",
     "What that difference cannot pass, made of what these two really had. NaN: nothing to "
     "compare, "
     "or fifo, which has no bound.",
     metrics_print_bound_work},
    {"weir_fairness_gap_requests", "gauge",
     "The same in requests, under drr, which divides requests and not work.",
     metrics_print_gap_requests},
    {"weir_fairness_bound_requests", "gauge", "And its bound: one turn.",
     metrics_print_bound_requests},
    {"weir_fairness_jain_ratio", "gauge",
     "Jain's index of what these tenants got for their weight: 1 alike, 1/n one got all.",
     metrics_print_gap_jain},
    {"weir_fairness_compared_tenants", "gauge", "Tenants that were compared for these.",
     metrics_print_gap_compared},
    {"weir_fairness_bound_broken_total", "counter",
     "Windows in which two tenants were further apart than their bound. Always 0 unless weir has a "
     "fault: page someone.",
     metrics_print_gap_broken},
    {"weir_fairness_backlogged_tenants", "gauge", "Tenants that wait for their turn in the lane.",
     metrics_print_gap_backlogged},
    {"weir_fairness_tracked_tenants", "gauge",
     "Those of them that can be compared: 256 at most, those that came first.",
     metrics_print_gap_tracked},
    {"weir_ledger_enforced_tokens", "gauge",
     "What the ledger counts against budgets for the requests of this run: holds and use.",
     print_enforced},
    {"weir_ledger_recorded_tokens", "gauge",
     "What finished requests of this run were recorded to have used. Equals enforced when idle: a "
     "lasting difference is a hold that leaked or a settle that was lost.",
     print_recorded},
    {"weir_limiters_idle", "gauge",
     "Tenants whose token limit counted nothing over their last 100 answers.", print_limiters_idle},
    {"weir_estimate_samples_total", "counter",
     "Answers that told their input tokens, against which the estimate was held, by model.",
     print_estimate_samples},
    {"weir_estimate_under_total", "counter",
     "Those that had more input tokens than estimated: about 1 in 100 at the default quantile.",
     print_estimate_under},
    {"weir_estimate_ratio", "gauge",
     "Estimate over actual input tokens: at most this for that share of the answers (upper edge of "
     "a bin: 0.25, 0.5, 0.75, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 4, 8, 16).",
     print_estimate_ratio},
    {"weir_ledger_answers_total", "counter", "Answers of the ledger, by result.", print_ledger},
    {"weir_idempotency_requests_total", "counter",
     "Requests with an idempotency key, by what was found.", print_idempotency},
    {"weir_idempotency_keys", "gauge", "Idempotency keys remembered now.", print_idempotency_keys},
    {"weir_idempotency_answer_bytes", "gauge",
     "Answers kept for replays now, those being recorded included.", print_idempotency_bytes},
    {"weir_idempotency_keys_pushed_out_total", "counter",
     "Idempotency keys forgotten before their time: idempotency.keys is too small.",
     print_idempotency_keys_pushed_out},
    {"weir_idempotency_answers_pushed_out_total", "counter",
     "Answers dropped before their time: idempotency.answers is too small.",
     print_idempotency_answers_pushed_out},
    {"weir_ledger_available", "gauge",
     "1: the ledger answers. 0: it cannot be written, and requests are refused.",
     print_store_available},
    {"weir_ledger_queue", "gauge", "Operations that wait to be made durable now.",
     print_store_queue},
    {"weir_ledger_sync_seconds", "gauge",
     "One sync of the ledger's disk, measured at the start; 0: in memory.", print_store_sync},
    {"weir_ledger_commit_seconds", "gauge", "How long the last commits took, by quantile.",
     print_store_commit},
    {"weir_ledger_batches_total", "counter", "Batches made durable.", print_store_batches},
    {"weir_ledger_operations_total", "counter", "Operations in these batches.", print_store_ops},
    {"weir_ledger_rows_total", "counter", "Rows written to the ledger's file.", print_store_rows},
    {"weir_ledger_file_bytes", "gauge", "Size of the ledger's file.", print_store_file},
    {"weir_ledger_wal_bytes", "gauge", "Size of the file's write-ahead log.", print_store_wal},
    {"weir_scope_granted_tokens", "gauge", "Grant of the scope in its present window.",
     print_scope_granted},
    {"weir_scope_reserved_tokens", "gauge", "Tokens set aside for requests under way.",
     print_scope_reserved},
    {"weir_scope_committed_tokens", "gauge", "Tokens used in the present window, adjusted.",
     print_scope_committed},
    {"weir_scope_lapsed_tokens", "gauge",
     "Tokens of holds whose gateway died: charged until they are settled or written off.",
     print_scope_lapsed},
    {"weir_scope_overrun_tokens", "gauge", "Use above its holds in the present window.",
     print_scope_overrun},
    {"weir_scope_unmatched_tokens", "gauge", "Use that no hold preceded in the present window.",
     print_scope_unmatched},
    {"weir_scope_refused_total", "counter", "Reserves that this scope refused since the start.",
     print_scope_refused},
    {"weir_scopes_held_back", "gauge",
     "Scopes kept in an old window because the clock leapt ahead and is not believed yet.",
     print_held_back},
    {"weir_client_connections", "gauge", "Client connections open now.", print_connections},
    {"weir_server_faults_total", "counter",
     "Requests that were not well-formed, too large or too slow, by fault.", print_faults},
    {"weir_log_lines_dropped_total", "counter", "Log lines lost because their reader was too slow.",
     print_log_dropped},
    {"weir_record_lines_total", "counter", "Requests written to the recording (`record.file`).",
     print_record_written},
    {"weir_record_lines_dropped_total", "counter",
     "Requests that the recording lacks: its disk was too slow, full or failing, or it had come to "
     "`record.limit`.",
     print_record_dropped},
};

char *weir_metrics_print(struct weir_gateway *g, size_t *bytes)
{
    uint32_t scopes_count = g->config->scopes_count;
    struct metrics_text t = {.scopes = calloc((size_t)scopes_count + 1, sizeof *t.scopes)};
    if (!t.scopes)
        return NULL;
    weir_store_status(g->store, &t.store);
    for (uint32_t i = 0; i < scopes_count; i++)
        t.scopes[i] = weir_gateway_scope(g, i);
    for (size_t i = 0; i < WEIR_COUNT(metrics_rows); i++) {
        const struct metrics_row *row = &metrics_rows[i];
        metrics_add(&t, "# HELP %s %s\n# TYPE %s %s\n", row->name, row->help, row->name, row->type);
        row->print(&t, row->name, g);
    }
    free(t.scopes);
    if (t.failed) {
        free(t.at);
        return NULL;
    }
    *bytes = t.used;
    return t.at;
}

char *weir_metrics_describe(size_t *bytes)
{
    struct metrics_text t = {0};
    metrics_add(&t, "| metric | type | meaning |\n| --- | --- | --- |\n");
    for (size_t i = 0; i < WEIR_COUNT(metrics_rows); i++)
        metrics_add(&t, "| `%s` | %s | %s |\n", metrics_rows[i].name, metrics_rows[i].type,
                    metrics_rows[i].help);
    if (t.failed) {
        free(t.at);
        return NULL;
    }
    *bytes = t.used;
    return t.at;
}
