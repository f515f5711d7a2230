#include "gateway/metrics.h"

#include <stdlib.h>

#include "gateway/state.h"

#define METRICS_UNCOUNTED_WARN                                                                     \
    20 /* metered requests in a row that counted nothing: something is off */

bool weir_metrics_init(struct weir_metrics *m, uint32_t upstreams_count)
{
    *m = (struct weir_metrics){.upstreams_count = upstreams_count};
    m->upstream_failures =
        calloc((size_t)upstreams_count * WEIR_METRICS_FAILURES, sizeof *m->upstream_failures);
    return m->upstream_failures != NULL;
}

void weir_metrics_free(struct weir_metrics *m)
{
    free(m->upstream_failures);
    m->upstream_failures = NULL;
}

void weir_metrics_refuse(struct weir_metrics *m, enum weir_refusal reason)
{
    m->refusals[reason]++;
}

static uint64_t metrics_known(int64_t tok)
{
    return tok > 0 ? (uint64_t)tok : 0;
}

void weir_metrics_finish(struct weir_metrics *m, const struct weir_request *r,
                         const struct weir_flow_summary *s)
{
    m->finished++;
    if (s->refusal != WEIR_REFUSAL_NONE && s->status == 0)
        m->refusals[s->refusal]++;
    else
        m->answers[r->api][s->status / 100 < WEIR_METRICS_STATUS_CLASSES ? s->status / 100 : 0]++;
    if (s->refusal != WEIR_REFUSAL_NONE && s->status != 0)
        m->cut++;
    m->input_tok += metrics_known(s->usage.input_tok);
    m->cached_tok += metrics_known(s->usage.cached_tok);
    m->output_tok += metrics_known(s->usage.output_tok);
    m->charged_tok += s->charged_tok;
    m->estimated += s->estimated;
    if (r->metered && s->status == 200 && !s->client_gone) {
        m->finished_uncounted = s->usage.input_tok > 0 ? 0 : m->finished_uncounted + 1;
        if (m->finished_uncounted == METRICS_UNCOUNTED_WARN)
            weir_log_message(r->g->log, WEIR_LOG_WARN,
                             "%u metered answers in a row carried no usage: budgets are charged by "
                             "estimate. Does "
                             "upstream %s report usage (edits.include_usage, its own settings)?",
                             METRICS_UNCOUNTED_WARN,
                             s->upstream != WEIR_NONE ? r->g->config->upstreams[s->upstream].name
                                                      : "?");
    }
    if (s->dispatched_ns)
        weir_hist_add(&m->queue_wait_ns, s->queue_wait_ns);
    if (s->head_ns && s->sent_ns)
        weir_hist_add(&m->first_byte_ns, s->head_ns - s->sent_ns);
    if (s->ended_ns >= s->arrived_ns)
        weir_hist_add(&m->duration_ns, s->ended_ns - s->arrived_ns);
}

void weir_metrics_gone(struct weir_metrics *m, enum weir_gone why)
{
    m->gone[why]++;
}

void weir_metrics_ledger(struct weir_metrics *m, const struct weir_store_answer *answer)
{
    m->ledger_results[answer->result]++;
}

void weir_metrics_idempotency(struct weir_metrics *m, enum weir_idempotency_outcome outcome)
{
    m->idempotency[outcome]++;
}

void weir_metrics_upstream_failure(struct weir_metrics *m, uint32_t upstream,
                                   const struct weir_call_result *result)
{
    m->upstream_failures[(size_t)upstream * WEIR_METRICS_FAILURES + result->failure]++;
}
