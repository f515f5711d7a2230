/* lab: a whole setup in simulated time. Tenants that send, the gateway's own core in between, and
 * a backend of replicas behind each upstream.
 *
 *   traffic --> clients --> core/flow (buckets, gate, lanes, scheduler, breaker) --> backend
 *                             |    ^
 *                             v    |
 *                          core/ledger
 *
 * The core is the gateway's, unchanged; the lab is its host and carries out what it asks for. Time
 * steps from one thing that happens to the next (an arrival, a token, a deadline, an answer of the
 * ledger), so a run costs what happens in it and not how long it lasts.
 *
 * Chance: every draw is a function of (seed, tenant, purpose, number of the request), never of what
 * the gateway decided. Two scenarios that differ in limits, policies or backends are therefore sent
 * the very same requests, and one tenant's traffic does not change with another's. Only users in a
 * closed loop send later when they are answered later; what they send stays the same.
 *
 * Same scenario and seed, same bytes, on every machine. Integers only, no allocation, no I/O: it
 * also runs in a browser. Thread: any, one at a time. Source: docs/lab.md. */
#ifndef WEIR_LAB_LAB_H
#define WEIR_LAB_LAB_H

#include "core/flow.h"
#include "core/gap.h"
#include "core/hist.h"
#include "lab/backend.h"
#include "lab/chance.h"
#include "trace/trace.h"

#define WEIR_LAB_TENANTS_MAX 64
#define WEIR_LAB_UPSTREAMS_MAX 16
#define WEIR_LAB_POOLS_MAX 16
#define WEIR_LAB_SCOPES_MAX 64
#define WEIR_LAB_USERS_MAX 4096 /* of all closed loops together */
#define WEIR_LAB_NAME_BYTES WEIR_TRACE_NAME_BYTES
#define WEIR_LAB_BINS_MAX 1024
#define WEIR_LAB_TIME_MAX_NS (UINT64_C(1000000) * WEIR_NS_PER_S) /* of any time in a scenario */
#define WEIR_LAB_RATE_MAX_MICRO UINT64_C(1000000000000)          /* a million requests a second */

/* --- the scenario --- */

/* What a client does with a "no". All zero: it sends once and waits for as long as it takes. */
struct weir_lab_client {
    uint32_t retries_max; /* 0 .. 10 */
    bool obeys_hint;      /* comes back when it was told to, if that is within a minute */
    uint64_t backoff_ns;  /* else after this long, doubled each time up to 8 s, times 0.75 .. 1 */
    uint64_t gives_up_ns; /* without a first byte after so long it hangs up, which counts as a "no";
                             0: never */
    bool tells_timeout;   /* gives_up_ns is in its head (x-stainless-timeout, whole seconds): the
                           gateway lets it wait nine tenths of that at most */
};

enum weir_lab_arrivals {
    WEIR_LAB_POISSON,
    WEIR_LAB_EVEN,  /* all gaps alike */
    WEIR_LAB_TRACE, /* what the scenario's trace says, sizes too */
    WEIR_LAB_CLOSED /* users that each send, wait for the answer, think, and send again */
};

struct weir_lab_tenant {
    char name[WEIR_LAB_NAME_BYTES]; /* not empty, and nobody else's */
    struct weir_tenant_rules rules; /* scope: of the scenario's, WEIR_NONE: unlimited */
    uint32_t pool;
    enum weir_lab_arrivals arrivals;
    uint64_t rate_micro_per_s; /* POISSON, EVEN: millionths of a request a second */
    uint32_t users;            /* CLOSED */
    uint64_t think_ns;      /* CLOSED: exponential, this on average; a second at least for who was
                                  turned away */
    uint64_t on_ns, off_ns; /* POISSON, EVEN: sends in turns, on first; off 0: always on */
    uint64_t burst_from_ns, burst_until_ns; /* POISSON, EVEN: the rate is burst_permille there */
    uint32_t burst_permille;
    uint64_t from_ns, until_ns; /* sends only between; until 0: to the traffic's end */
    struct weir_length prompt, output;
    uint32_t growth_turns; /* 2 or more: the prompt grows evenly from prompt.low to prompt.high over
                              so many requests, then begins anew; else it is drawn */
    uint64_t output_limit_tok; /* named in its requests, and kept to; 0: none is named */
    bool is_stream;
    uint64_t goal_wait_ns; /* the longest wait that meets the goal; 0: every completion does */
    struct weir_lab_client client;
};

struct weir_lab_upstream {
    char name[WEIR_LAB_NAME_BYTES];
    struct weir_upstream_rules rules;
    struct weir_backend_rules backend;
};

/* A budget. Parents come before their children. */
struct weir_lab_scope {
    char name[WEIR_LAB_NAME_BYTES];
    uint32_t parent; /* WEIR_NONE: a root */
    bool is_unlimited;
    uint64_t granted_tok; /* in each window */
    uint64_t period_ns;   /* windows begin at its multiples; 0: one for the whole run */
    enum weir_exhausted_policy on_exhausted;
    uint32_t fallback_pool, fallback_scope; /* FALLBACK; scope WEIR_NONE: unlimited */
};

struct weir_lab_scenario {
    uint64_t traffic_ns; /* nobody sends anything new after that */
    uint64_t run_ns;     /* the run ends there at the latest; 0: when all is over */
    uint64_t queue_wait_max_ns;
    uint64_t first_byte_max_ns;       /* the gateway gives up on a stream; 0: never */
    uint64_t first_byte_whole_max_ns; /* ... on a whole answer */
    uint64_t total_max_ns;    /* for the call, counted from when the queue's time would be over */
    uint64_t ledger_delay_ns; /* a batch of the ledger takes so long; 0: it answers at once */
    uint64_t bin_ns;          /* of the series; doubled as often as WEIR_LAB_BINS_MAX asks for */
    uint32_t waiters_max;
    uint64_t waiting_bytes_max; /* 0: no bound */
    uint32_t requests_max; /* alive on the clients' side, those between two tries included; more are
                              turned away. 0: twice the waiters, and the permits */
    struct weir_lane_rules lanes;
    struct weir_model_rules model;
    const struct weir_lab_upstream *upstreams;
    uint32_t upstream_count;
    const struct weir_pool_rules *pools;
    uint32_t pool_count;
    const struct weir_lab_tenant *tenants;
    uint32_t tenant_count;
    const struct weir_lab_scope *scopes;
    uint32_t scope_count;
    const struct weir_trace_entry *trace; /* in the order of arrival */
    size_t trace_count;
    const uint32_t *trace_tenants; /* index in the trace -> tenant here; WEIR_NONE: left out */
    uint32_t trace_tenant_count;
    bool is_audited; /* every invariant of flow and ledger after every event: tests; slow */
};

enum weir_lab_part {
    WEIR_LAB_OF_SCENARIO,
    WEIR_LAB_OF_TENANT,
    WEIR_LAB_OF_UPSTREAM,
    WEIR_LAB_OF_POOL,
    WEIR_LAB_OF_SCOPE,
    WEIR_LAB_OF_TRACE
};

struct weir_lab_problem {
    const char *text; /* static: what, and what to do */
    const char *field;
    enum weir_lab_part part;
    uint32_t index; /* of the tenant, upstream, pool, scope or trace entry; 0 for the scenario */
};

/* Whether a scenario can be run; false: *problem says what is wrong with it first. Everything else
 * here takes only scenarios that pass. */
WEIR_MUST_USE bool weir_lab_check(const struct weir_lab_scenario *s,
                                  struct weir_lab_problem *problem);

/* --- the default scenario --- */

enum weir_lab_limit { WEIR_LAB_LIMIT_NONE, WEIR_LAB_LIMIT_REQUESTS, WEIR_LAB_LIMIT_TOKENS };

/* What can be turned in it. */
struct weir_lab_controls {
    enum weir_lab_limit limit;
    uint64_t limit_tok_per_s; /* of each tenant; REQUESTS: a request for each 1,500 of it */
    uint64_t bucket_tok;      /* the same */
    enum weir_sched_policy policy;
    bool has_lanes; /* batch has a lane of its own below the others, with a floor */
    uint64_t batch_micro_per_s;
    bool has_burst, has_agent;
};

/* The scenario with what it points to: it points into itself, so it is not to be copied. */
struct weir_lab_store {
    struct weir_lab_scenario scenario;
    struct weir_lab_tenant tenants[6];
    struct weir_lab_upstream upstream;
    struct weir_pool_rules pool;
};

/* Token limit off, vtc, no lanes, 2 batch requests a second, neither burst nor agent. */
struct weir_lab_controls weir_lab_controls_default(void);
/* Four apps, a batch tenant, an agent if it is on, before four replicas. docs/lab.md, "The default
 * scenario". */
void weir_lab_default(struct weir_lab_store *store, const struct weir_lab_controls *controls);

/* --- the results --- */

/* Counts of one tenant in one bin of time. A request counts in the bin in which the thing happened.
 */
struct weir_lab_tenant_bin {
    uint32_t offered, tries, finished, good, refused, failed; /* as in the totals; failed: also cut
                                                                 and given up */
    uint64_t prompt_tok, output_tok;                          /* of answers that ended */
    uint64_t waiting_ns; /* how many waited in the queue, summed over time */
    uint64_t in_flight_ns;
    uint64_t wait_max_ns; /* the longest wait of those that were dispatched */
};

struct weir_lab_upstream_bin {
    uint64_t in_flight_ns, permits_ns; /* summed over time */
    uint64_t open_ns;                  /* its breaker was not closed */
    uint64_t tokens_made;
    uint32_t calls, failures;
};

/* The largest gap among windows of WEIR_LAB_GAP_WINDOW that ended in the bin, and its bound. */
struct weir_lab_gap_bin {
    uint64_t gap_uwork, bound_uwork;
};
#define WEIR_LAB_GAP_WINDOW 1 /* of core/gap.h: ten seconds */

struct weir_lab_tenant_results {
    /* Requests: offered = finished + refused + failed + cut + gave_up + alive. */
    uint64_t offered;
    uint64_t finished; /* answered in full */
    uint64_t refused;  /* the last try was */
    uint64_t failed;   /* the last try got an error from upstream */
    uint64_t cut;      /* an answer broke off */
    uint64_t gave_up;  /* hung up at the last try */
    uint64_t alive;    /* not over yet */
    uint64_t good;     /* of finished: the goal was met */
    /* Tries: each is a request to the gateway. */
    uint64_t tries;
    uint64_t refusals[WEIR_REFUSAL_COUNT]; /* of tries, by reason */
    uint64_t prompt_tok, output_tok;       /* of finished requests, really used */
    uint64_t lost_tok;              /* made by a backend for answers that were not finished */
    uint64_t charged_tok;           /* settled for all tries that are over */
    uint64_t estimate_tok;          /* held for them at first */
    uint64_t waiting_ns;            /* how many waited in the queue, summed over time */
    struct weir_hist queue_wait_ns; /* of tries that were dispatched, from their own arrival */
    struct weir_hist
        first_token_ns;          /* of requests that were answered, from when it was first sent */
    struct weir_hist latency_ns; /* of finished ones, the same */
    const struct weir_lab_tenant_bin *bins;
};

struct weir_lab_upstream_results {
    struct weir_upstream_view gateway; /* now: permits, in flight, breaker */
    struct weir_backend_view backend;
    uint32_t in_flight_max;
    const struct weir_lab_upstream_bin *bins;
};

struct weir_lab_scope_results {
    int64_t granted_tok, reserved_tok, committed_tok, overrun_tok; /* of the present window */
    uint64_t refused;     /* reserves and extends that it refused */
    uint64_t settled_tok; /* in all windows, its children's included */
};

/* How far apart the tenants of a lane were: see core/gap.h. */
struct weir_lab_gap_results {
    struct weir_gap_view now;
    struct weir_gap_window worst[WEIR_GAP_WINDOWS]; /* that with the largest gap in the run */
    uint64_t worst_ns[WEIR_GAP_WINDOWS];            /* when it ended; 0: none was compared */
    const struct weir_lab_gap_bin *bins;
};

struct weir_lab_results {
    uint64_t now_ns;
    uint64_t bin_ns; /* now */
    uint32_t bin_count;
    uint64_t events;
    uint64_t hash;         /* over every event: equal bytes, equal hash */
    uint64_t traffic_hash; /* over what clients began to send and when, in any order: equal for
                              scenarios that differ in how the gateway and backends treat it */
    uint64_t tokens_made;  /* by all backends */
    const struct weir_lab_tenant_results *tenants;
    struct weir_lab_upstream_results upstreams[WEIR_LAB_UPSTREAMS_MAX];
    struct weir_lab_scope_results scopes[WEIR_LAB_SCOPES_MAX];
    struct weir_lab_gap_results gaps[WEIR_LAB_POOLS_MAX][WEIR_LANES_MAX];
    struct weir_flow_view flow;
};

/* --- the run --- */

struct weir_lab;

size_t weir_lab_bytes(const struct weir_lab_scenario *s);
/* mem: zero, aligned to 64 bytes; the host's. s and what it points to stay as they are until the
 * lab is dropped. */
struct weir_lab *weir_lab_init(void *mem, size_t bytes, const struct weir_lab_scenario *s,
                               uint64_t seed);
/* Each request that ended, in the order of its end. The entry's tenant is the lab's own, its lane
 * the tenant's, its model 0; arrival is that of its first try, waits are from there. output_tok is
 * what was made of it; of one that was refused, what it asked for, so that it can be sent again. */
void weir_lab_on_ended(struct weir_lab *lab,
                       void (*ended)(void *user, const struct weir_trace_entry *entry), void *user);
/* Lets everything happen up to and including until_ns. false: all is over, or run_ns is. */
bool weir_lab_run(struct weir_lab *lab, uint64_t until_ns);
/* As of now; valid until the next run. */
const struct weir_lab_results *weir_lab_results(struct weir_lab *lab);

#endif
