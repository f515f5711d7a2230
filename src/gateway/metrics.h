/* metrics: what is counted, as one table.
 *
 * One row describes a metric: name, type, unit and meaning; /metrics and docs/metrics.md are
 * printed from it. Every label value comes from the configuration, from an enum, or collapses to
 * "other": no client's text becomes a label. Counters of the flow, the server and the store are
 * read from them when asked, not kept twice. Thread: loop. Source: Prometheus text format 0.0.4. */
#ifndef WEIR_GATEWAY_METRICS_H
#define WEIR_GATEWAY_METRICS_H

#include "core/flow.h"
#include "core/hist.h"
#include "gateway/idempotency.h"
#include "net/client.h"
#include "net/server.h"
#include "store/store.h"
#include "wire/api.h"

struct weir_gateway;
struct weir_request;

#define WEIR_METRICS_STATUS_CLASSES 6 /* 0: none, 1..5: 1xx..5xx */
#define WEIR_METRICS_STATUSES 600     /* 0: none, or none of HTTP's */
#define WEIR_METRICS_FAILURES (WEIR_CALL_E_DESCRIPTORS + 1)

/* Waits of one tenant's requests that were dispatched, and what became of all that were admitted. */
struct weir_metrics_wait {
    uint64_t count, sum_ns, max_ns;
    uint64_t refused;    /* ended with a refusal of ours: before an answer, or in the middle */
    uint64_t unanswered; /* ended before an answer, and not by us */
};

/* An upstream's answers 429. */
struct weir_metrics_pause {
    uint64_t count, hinted;            /* hinted: those that said when to come back */
    uint64_t hint_min_ns, hint_max_ns; /* of these; 0 while there is none */
};

struct weir_metrics {
    uint64_t refusals[WEIR_REFUSAL_COUNT]; /* answered by the gateway itself */
    uint64_t answers[WEIR_API_COUNT][WEIR_METRICS_STATUS_CLASSES]; /* passed on from upstreams */
    uint64_t statuses[WEIR_METRICS_STATUSES];                      /* the same answers by status */
    uint64_t repeats; /* requests by which a client said that it tries again */
    uint64_t gone[2]; /* by enum weir_gone */
    uint64_t cut;     /* answers that began and were cut */
    uint64_t input_tok, cached_tok, output_tok, charged_tok;
    uint64_t estimated; /* finished requests without usage */
    uint64_t ledger_results[WEIR_LEDGER_RESULT_COUNT];
    uint64_t idempotency[WEIR_IDEMPOTENCY_OUTCOME_COUNT];
    uint64_t *upstream_failures; /* [upstream][WEIR_METRICS_FAILURES]: by enum weir_call_failure */
    struct weir_metrics_pause *pauses; /* [upstream] */
    uint32_t upstreams_count;
    struct weir_metrics_wait *waits; /* [tenant] */
    uint32_t waiters_max;            /* most requests in the queue after any turn */
    struct weir_hist queue_wait_ns, first_byte_ns, duration_ns; /* of finished requests */
    uint64_t finished,
        finished_uncounted; /* uncounted: metered, but no token was counted, in a row */
};

WEIR_MUST_USE bool weir_metrics_init(struct weir_metrics *m, uint32_t upstreams_count,
                                     uint32_t tenants_max);
void weir_metrics_free(struct weir_metrics *m);

void weir_metrics_refuse(struct weir_metrics *m, enum weir_refusal reason);
void weir_metrics_finish(struct weir_metrics *m, const struct weir_request *r,
                         const struct weir_flow_summary *summary);
void weir_metrics_gone(struct weir_metrics *m, enum weir_gone why);
void weir_metrics_ledger(struct weir_metrics *m, const struct weir_store_answer *answer);
void weir_metrics_idempotency(struct weir_metrics *m, enum weir_idempotency_outcome outcome);
void weir_metrics_upstream_failure(struct weir_metrics *m, uint32_t upstream,
                                   const struct weir_call_result *result);
/* An upstream answered 429; hint_ns: when it said to come back, 0: it did not. */
void weir_metrics_pause(struct weir_metrics *m, uint32_t upstream, uint64_t hint_ns);
/* This many wait now, at the end of a turn. */
void weir_metrics_waiters(struct weir_metrics *m, uint32_t waiters);
/* The tenant is gone: its index may be given to another. */
void weir_metrics_tenant_forget(struct weir_metrics *m, uint32_t tenant);

/* "first_byte_timeout": the label of a kind of failure. */
const char *weir_metrics_failure_name(enum weir_call_failure failure);

/* The whole exposition; *bytes its length. free() it. NULL: out of memory. */
char *weir_metrics_print(struct weir_gateway *g, size_t *bytes);
/* The table as Markdown, for docs/metrics.md. */
char *weir_metrics_describe(size_t *bytes);

#endif
