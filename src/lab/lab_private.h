/* lab_private: what the parts of the model share.
 *
 *   lab.c           memory, time, the order of what happens
 *   lab_check.c     which scenarios can be run
 *   lab_traffic.c   who sends what when
 *   lab_client.c    what clients do with an answer
 *   lab_host.c      the host of core/flow: its effects, and the backends' events
 *   lab_ledger.c    the same for the budget
 *   lab_results.c   counts, series, the hash
 *   lab_default.c   the default scenario */
#ifndef WEIR_LAB_LAB_PRIVATE_H
#define WEIR_LAB_LAB_PRIVATE_H

#include "core/flow.h"
#include "core/heap.h"
#include "core/ledger.h"
#include "core/num.h"
#include "core/rng.h"
#include "lab/lab.h"

/* Of a stream's text: prose, as docs/estimator.md measures it. */
#define LAB_TOKEN_BYTES 4

/* What a draw is for. Streams of chance are told apart by it: do not renumber. */
enum lab_purpose {
    LAB_DRAW_GAP,
    LAB_DRAW_PROMPT,
    LAB_DRAW_OUTPUT,
    LAB_DRAW_TEXT,
    LAB_DRAW_THINK,
    LAB_DRAW_BACKOFF
};

enum lab_event {
    LAB_EVENT_OFFERED,
    LAB_EVENT_TRY,
    LAB_EVENT_DISPATCH,
    LAB_EVENT_HELD,
    LAB_EVENT_FIRST_TOKEN,
    LAB_EVENT_CALL_ENDED,
    LAB_EVENT_TRY_ENDED,
    LAB_EVENT_OVER,
    LAB_EVENT_WINDOW
};

enum lab_state {
    LAB_FREE,
    LAB_OUT,    /* a try is with the gateway */
    LAB_BETWEEN /* refused or failed: will be sent again */
};

/* What the ledger will tell of a request when its batch is durable. */
enum lab_note { LAB_NOTE_NONE, LAB_NOTE_RESERVED, LAB_NOTE_EXTENDED };

/* One request on its client's side, over all its tries. */
struct lab_request {
    enum lab_state state;
    uint32_t tenant;
    uint32_t user;                               /* of a closed loop, WEIR_NONE */
    uint64_t number;                             /* among its tenant's, whatever the gateway does */
    uint32_t prompt_tok, cached_tok, output_tok; /* what it will come to */
    uint64_t output_limit_tok;
    uint32_t retries; /* so far */
    uint64_t first_sent_ns;
    /* This try. */
    uint64_t sent_ns;
    uint64_t flow; /* the flow's id */
    uint32_t upstream;
    uint32_t place;                         /* in the upstream's backend */
    uint32_t status;                        /* that the backend answered with; 0: none yet */
    uint64_t total_until_ns;                /* of the call */
    uint64_t dispatched_ns, first_token_ns; /* WEIR_NEVER_NS: not yet */
    bool is_waiting, is_calling, is_answering, is_gone;
    enum weir_refusal refusal; /* told */
    bool is_cut;
    uint64_t hint_ns, told_ns;
    uint32_t made_tok; /* by the backend, when the call is over */
    /* When its timer goes off: the earliest of these. */
    uint64_t gives_up_ns;    /* its client */
    uint64_t call_until_ns;  /* the gateway: no first byte, or the total */
    bool is_first_byte_late; /* which of the two it is */
    uint64_t progress_ns;    /* the answer may have passed its hold */
    uint64_t again_ns;       /* BETWEEN */
    /* In the ledger's present batch, or the one that gathers. */
    enum lab_note note;
    struct weir_reserve_told told;
    uint32_t note_next_1, note_prev_1;
    uint32_t next_free_1;
};

/* What a client wants answered. */
struct lab_want {
    uint32_t tenant;
    uint32_t user;
    uint64_t number;
    uint32_t prompt_tok, cached_tok, output_tok;
    uint64_t output_limit_tok;
};

struct lab_user {
    uint32_t tenant;
    uint32_t index; /* among its tenant's */
    uint32_t turn;  /* requests so far */
};

struct lab_tenant {
    uint64_t sent;                      /* POISSON, EVEN: numbers given out */
    uint32_t alive, waiting, in_flight; /* now */
    uint64_t since_ns;                  /* the sums are up to here */
    struct weir_lab_tenant_bin *bins;
};

struct lab_upstream {
    struct weir_backend *backend;
    uint32_t *owner_1; /* by place: request + 1; 0: free, then next says the next free one + 1 */
    uint32_t *next_1;
    uint32_t free_1;
    uint32_t in_flight;
    uint32_t permits; /* as last seen */
    bool is_open;
    uint64_t since_ns;
    uint64_t tokens_made;
    uint64_t calls, failures;
    struct weir_lab_upstream_bin *bins;
    bool is_touched;
};

/* Notes of one batch, in order. */
struct lab_batch {
    uint32_t first_1, last_1;
    bool is_freed;
    bool is_raised;
    uint32_t raised_scope;
    bool is_used;
};

/* Each has one timer: tenants from 0, the trace, scopes, the ledger, users, requests. */
struct lab_timers {
    uint32_t trace, scopes, ledger, users, requests, count;
};

struct weir_lab {
    const struct weir_lab_scenario *s;
    uint64_t seed;
    uint64_t now_ns;
    struct weir_flow *flow;
    struct weir_ledger *ledger;
    struct lab_request *requests;
    uint32_t requests_max, requests_used, free_1;
    uint32_t requests_now;
    uint32_t senders_now; /* tenants, users and the trace, as long as they will send again */
    struct lab_user *users;
    size_t trace_next;
    struct weir_heap timers;
    struct lab_timers at;
    uint64_t holds_made;
    uint64_t scope_settled_tok[WEIR_LAB_SCOPES_MAX];
    struct lab_batch batch, gathering;
    struct lab_tenant tenants[WEIR_LAB_TENANTS_MAX];
    struct weir_lab_tenant_results *tenant_results; /* apart: a histogram is large */
    struct lab_upstream upstreams[WEIR_LAB_UPSTREAMS_MAX];
    struct weir_lab_gap_bin *gap_bins[WEIR_LAB_POOLS_MAX][WEIR_LANES_MAX];
    uint64_t bin_end_ns;
    uint64_t slice_end_ns; /* of the slice of time at hand, of which gaps are made */
    void (*ended)(void *user, const struct weir_trace_entry *entry);
    void *ended_user;
    struct weir_lab_results results;
};

static inline uint32_t lab_index(const struct weir_lab *lab, const struct lab_request *r)
{
    return (uint32_t)(r - lab->requests);
}

static inline const struct weir_lab_tenant *lab_rules(const struct weir_lab *lab, uint32_t tenant)
{
    return &lab->s->tenants[tenant];
}

static inline struct weir_lab_tenant_results *lab_tenant(struct weir_lab *lab, uint32_t tenant)
{
    return &lab->tenant_results[tenant];
}

/* --- lab.c --- */

/* Sets, moves or (WEIR_NEVER_NS) takes away a timer. */
void lab_timer(struct weir_lab *lab, uint32_t timer, uint64_t at_ns);
void lab_request_timer(struct weir_lab *lab, struct lab_request *r);
void lab_audit(struct weir_lab *lab);

/* --- lab_traffic.c --- */

void lab_traffic_start(struct weir_lab *lab);
/* A tenant's, a user's, or the trace's time to send has come. */
void lab_traffic_tenant(struct weir_lab *lab, uint32_t tenant);
void lab_traffic_trace(struct weir_lab *lab);
void lab_traffic_user(struct weir_lab *lab, uint32_t user);
/* A user has its answer, or was turned away: it thinks, then sends again. */
void lab_traffic_think(struct weir_lab *lab, uint32_t user, bool is_turned_away);
/* A generator for one draw. */
struct weir_rng lab_chance(const struct weir_lab *lab, uint32_t tenant, enum lab_purpose purpose,
                           uint64_t number);

/* --- lab_client.c --- */

void lab_client_send(struct weir_lab *lab, const struct lab_want *want);
/* Its timer says that it sends again, or that it gives up. */
void lab_client_again(struct weir_lab *lab, struct lab_request *r);
void lab_client_gives_up(struct weir_lab *lab, struct lab_request *r);
/* A try is over, however; summary NULL: it was refused on arrival. */
void lab_client_answered(struct weir_lab *lab, struct lab_request *r,
                         const struct weir_flow_summary *summary);

/* --- lab_host.c --- */

/* Asks the gateway; what comes of it goes to the client. */
void lab_host_try(struct weir_lab *lab, struct lab_request *r);
/* Takes what the backends have had to tell up to now. */
void lab_host_backends(struct weir_lab *lab);
/* A timer of the gateway's side has gone off. */
void lab_host_late(struct weir_lab *lab, struct lab_request *r);
void lab_host_progress(struct weir_lab *lab, struct lab_request *r);
/* Lets the flow do all that it can now. */
void lab_host_pump(struct weir_lab *lab);
uint64_t lab_host_due_ns(const struct weir_lab *lab);

/* --- lab_ledger.c --- */

size_t lab_ledger_bytes(const struct weir_lab_scenario *s, uint32_t requests_max);
void lab_ledger_start(struct weir_lab *lab, void *mem, size_t bytes);
/* The ledger's scope of a tenant. */
uint32_t lab_ledger_scope_of(const struct weir_lab_scenario *s, uint32_t tenant);
void lab_ledger_reserve(struct weir_lab *lab, struct lab_request *r, const struct weir_effect *e);
void lab_ledger_extend(struct weir_lab *lab, struct lab_request *r, const struct weir_effect *e);
void lab_ledger_close(struct weir_lab *lab, const struct weir_effect *e);
/* The request's record is gone: what it was still to be told is nobody's any more. */
void lab_ledger_drop(struct weir_lab *lab, struct lab_request *r);
void lab_ledger_batch_done(struct weir_lab *lab);
void lab_ledger_window(struct weir_lab *lab, uint32_t scope);
void lab_ledger_view(struct weir_lab *lab);

/* --- lab_results.c --- */

void lab_results_start(struct weir_lab *lab);
void lab_note_event(struct weir_lab *lab, enum lab_event event, uint32_t tenant, uint64_t number,
                    uint64_t more);
void lab_note_offered(struct weir_lab *lab, const struct lab_want *want);
struct weir_lab_tenant_bin *lab_tenant_bin(struct weir_lab *lab, uint32_t tenant);
/* The request waits in the gateway's queue; is called for; and not any more. */
void lab_waits(struct weir_lab *lab, struct lab_request *r);
void lab_waits_no_more(struct weir_lab *lab, struct lab_request *r);
void lab_calls(struct weir_lab *lab, struct lab_request *r);
void lab_calls_no_more(struct weir_lab *lab, struct lab_request *r);
/* Sees what the flow made of its upstreams; after each step. */
void lab_upstreams_seen(struct weir_lab *lab, bool all);
/* Time is about to go to now_ns, where something happens: sees the bins and slices that end on the
 * way. */
void lab_time_passes(struct weir_lab *lab, uint64_t now_ns);
void lab_results_fill(struct weir_lab *lab);

#endif
