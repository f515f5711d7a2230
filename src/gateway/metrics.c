#include "gateway/metrics.h"

#include <stdlib.h>

#include "core/num.h"
#include "gateway/state.h"

#define METRICS_UNCOUNTED_WARN                                                                     \
    20 /* metered requests in a row that counted nothing: something is off */

bool weir_metrics_init(struct weir_metrics *m, uint32_t upstreams_count, uint32_t tenants_max)
{
    *m = (struct weir_metrics){.upstreams_count = upstreams_count};
    m->pauses = calloc(upstreams_count, sizeof *m->pauses);
    m->waits = calloc(tenants_max, sizeof *m->waits);
    m->upstream_failures =
        calloc((size_t)upstreams_count * WEIR_METRICS_FAILURES, sizeof *m->upstream_failures);
    return m->upstream_failures && m->pauses && m->waits;
}

void weir_metrics_free(struct weir_metrics *m)
{
    free(m->upstream_failures);
    free(m->pauses);
    free(m->waits);
    m->upstream_failures = NULL;
    m->pauses = NULL;
    m->waits = NULL;
}

void weir_metrics_refuse(struct weir_metrics *m, enum weir_refusal reason)
{
    m->refusals[reason]++;
}

static uint64_t metrics_known(int64_t tok)
{
    return tok > 0 ? (uint64_t)tok : 0;
}

static void metrics_answer(struct weir_metrics *m, enum weir_api api, uint32_t status)
{
    m->answers[api][status / 100 < WEIR_METRICS_STATUS_CLASSES ? status / 100 : 0]++;
    m->statuses[status < WEIR_METRICS_STATUSES ? status : 0]++;
}

static void metrics_wait(struct weir_metrics *m, uint32_t tenant, uint64_t wait_ns)
{
    struct weir_metrics_wait *w = &m->waits[tenant];
    weir_hist_add(&m->queue_wait_ns, wait_ns);
    w->count++;
    w->sum_ns = weir_add_sat_u64(w->sum_ns, wait_ns);
    w->max_ns = weir_max_u64(w->max_ns, wait_ns);
}

void weir_metrics_finish(struct weir_metrics *m, const struct weir_request *r,
                         const struct weir_flow_summary *s)
{
    m->finished++;
    if (s->refusal != WEIR_REFUSAL_NONE && s->status == 0)
        m->refusals[s->refusal]++;
    else
        metrics_answer(m, r->api, s->status);
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
    m->waits[r->tenant].refused += s->refusal != WEIR_REFUSAL_NONE;
    m->waits[r->tenant].unanswered += s->refusal == WEIR_REFUSAL_NONE && s->status == 0;
    if (s->dispatched_ns)
        metrics_wait(m, r->tenant, s->queue_wait_ns);
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

void weir_metrics_pause(struct weir_metrics *m, uint32_t upstream, uint64_t hint_ns)
{
    struct weir_metrics_pause *p = &m->pauses[upstream];
    p->count++;
    if (hint_ns == 0)
        return;
    p->hint_min_ns = p->hinted == 0 ? hint_ns : weir_min_u64(p->hint_min_ns, hint_ns);
    p->hint_max_ns = weir_max_u64(p->hint_max_ns, hint_ns);
    p->hinted++;
}

void weir_metrics_waiters(struct weir_metrics *m, uint32_t waiters)
{
    if (waiters > m->waiters_max)
        m->waiters_max = waiters;
}

void weir_metrics_tenant_forget(struct weir_metrics *m, uint32_t tenant)
{
    m->waits[tenant] = (struct weir_metrics_wait){0};
}
