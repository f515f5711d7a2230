/* state: what the gateway's files share. Private to the room.
 *
 *   edge.c    the client's side: head, body, facts, admission; refusals; client gone
 *   effects.c carries out what the flow machine asks for, once a turn
 *   upcall.c  the upstream's side: calls, answers passed on, usage observed
 *   forward.c the head that goes upstream
 *   refuse.c  a refusal as an HTTP answer
 *   access.c  its line in the access log
 *   record.c  its line in the recording
 *   report.c  the counts of the whole run, for the host
 *   replay.c  what an idempotency key does for a request
 *   budget.c  what becomes of a request whose budget is spent
 *   rollover.c  begins the windows of budgets
 *   ledger_open.c  the store and its scopes
 *   gateway.c puts it together, signals, drain
 *
 * One struct weir_request is one client request; it dies when both sides are done with it: the
 * exchange (x is NULL once the client is served or gone) and the flow (flow is WEIR_NONE once
 * FINISH was seen, or never admitted). Thread: loop. */
#ifndef WEIR_GATEWAY_STATE_H
#define WEIR_GATEWAY_STATE_H

#include "core/flow.h"
#include "gateway/config.h"
#include "gateway/idempotency.h"
#include "gateway/keys.h"
#include "gateway/log.h"
#include "gateway/metrics.h"
#include "gateway/routes.h"
#include "gateway/tenancy.h"
#include "net/client.h"
#include "net/loop.h"
#include "net/server.h"
#include "store/store.h"
#include "wire/api.h"
#include "wire/encoding.h"
#include "wire/request.h"
#include "wire/sse_edit.h"
#include "wire/usage.h"

struct weir_admin;
struct weir_budget_scope;
struct weir_gateway;
struct weir_record;
struct weir_report;

/* What every head for an upstream has in common, by dialect; see forward.c. */
struct weir_forward {
    char *lines[2];
    size_t bytes[2];
};

#define WEIR_REQUEST_ID_BYTES 20 /* "wr_" + 16 hex + NUL */

/* What is kept while an answer passes; recycled. */
struct weir_answer {
    struct weir_answer *next_free;
    struct weir_usage usage;
    struct weir_sse_boundary boundary;
    struct weir_sse_edit *edit;   /* NULL: nothing is taken out */
    struct weir_inflate *inflate; /* NULL: not compressed */
    bool is_stream;               /* text/event-stream */
    bool is_read;                 /* usage is looked for */
    bool is_failed_read;          /* compressed beyond our bounds or corrupt: charged by estimate */
    uint64_t progress_at_bytes;   /* of output: then the flow is told how far it is */
    uint64_t last_byte_ns;
    struct weir_timer heartbeat;
    struct weir_request *request;
};

struct weir_request {
    struct weir_gateway *g;
    struct weir_request *next_free;
    struct weir_exchange *x; /* NULL: the client is served or gone */
    struct weir_call *call;  /* NULL: no upstream call now */
    struct weir_answer *answer;
    char *head; /* the serialised head of the call at hand; kept while it is small */
    size_t head_room;
    uint64_t flow; /* id, WEIR_NONE: not admitted, or finished */
    uint32_t tenant, pool, model;
    uint32_t upstream; /* of the call at hand */
    const char *model_label;
    enum weir_api api : 8;
    enum weir_dialect dialect : 8;
    enum weir_http_method method : 8;
    bool stream : 1;     /* the client asked for a stream */
    bool metered : 1;    /* usage is read and charged */
    bool asks_usage : 1; /* the client asked for usage itself */
    bool body_known : 1; /* facts were read: the body may be edited */
    bool is_gone : 1;    /* the client hung up; the call may be drained */
    bool paused : 1;     /* the upstream is not read: the client takes too little */
    bool is_pinned : 1;  /* somebody up the stack still needs the record */
    bool was_cut : 1;    /* its answer began and was cut */
    bool was_sent : 1;   /* a byte of any of its calls may have reached an upstream */
    uint32_t status;     /* what the client was answered */
    uint32_t key_slot; /* of its idempotency key, while it is the first with it; WEIR_NONE: none */
    uint32_t replay_slot; /* borrowed: it is answered from there; WEIR_NONE: it is not a repeat */
    uint32_t lane;        /* it is served in */
    uint64_t output_limit_tok;      /* it named; 0: none */
    struct weir_flow_usage settled; /* what was booked of it; -1: nothing yet */
    uint64_t number;                /* shown as the request id */
    uint64_t arrived_ns;
    uint64_t drained_bytes; /* read from the upstream after the client was gone */
    struct weir_timer drain_timer;
    struct weir_call_facts facts;
    struct weir_request_edits *edits; /* of the body of the call at hand; NULL: none */
    uint64_t body_bytes;
    struct weir_slice replay_left; /* of that answer's body, still to be written */
};

struct weir_gateway {
    const struct weir_config *config;
    struct weir_loop *loop;
    struct weir_log *log;
    void *flow_memory;
    size_t flow_bytes;
    struct weir_flow *flow;
    struct weir_store *store;
    struct weir_budget_scope *budget; /* by slot of the store: budget.h */
    struct weir_rollover *rollover;
    struct weir_timer rollover_timer;
    struct weir_client *client;
    struct weir_target **targets; /* by upstream */
    uint32_t *limits_told;        /* by upstream: the adaptive limit last said in the log */
    struct weir_forward *forward; /* by upstream */
    struct weir_server *server;
    struct weir_tls *tls; /* of the listener; NULL: plain */
    struct weir_admin *admin;
    struct weir_keys *keys;
    struct weir_tenancy *tenancy;
    struct weir_routes *routes;
    struct weir_metrics metrics;
    struct weir_record *record;           /* NULL: nothing is recorded */
    struct weir_report *report;           /* NULL: nobody wants one */
    struct weir_idempotency *idempotency; /* NULL: switched off */
    uint8_t idempotency_secret[32];
    struct weir_hook turn_hook;
    struct weir_timer due_timer;    /* when time alone changes something in the flow */
    struct weir_timer second_timer; /* house-keeping */
    struct weir_io signal_io;
    struct weir_io until_io; /* readable: drain; fd -1: none */
    struct weir_io store_io; /* readable: the store has answers; fd -1: it answers at once */
    struct weir_request *requests_free;
    struct weir_answer *answers_free;
    uint32_t requests_now;
    uint32_t models_set; /* indices below this have their rules */
    uint64_t number_next, number_seed;
    uint64_t started_ns;
    int64_t started_s;       /* by the wall clock, for people */
    uint64_t drain_until_ns; /* WEIR_NEVER_NS: not draining */
    uint32_t signals;        /* to stop, so far */
    bool dirty;              /* the flow wants its effects taken */
    bool keys_troubled;      /* the key file cannot be read; said once */
    int exit_status;
    uint8_t *scratch; /* WEIR_SCRATCH_BYTES, for edited bytes of one read */
};

#define WEIR_SCRATCH_BYTES (256u * 1024u + WEIR_SSE_EDIT_HOLD)

/* edge.c */
extern const struct weir_server_handler weir_edge_handler;
struct weir_request *weir_request_new(struct weir_gateway *g);
/* Frees the record if neither side needs it any more. */
void weir_request_release(struct weir_request *r);
void weir_request_id(const struct weir_request *r, char text[static WEIR_REQUEST_ID_BYTES]);
/* access.c: one line of the access log; summary NULL: refused before admission. */
void weir_request_log(struct weir_request *r, const struct weir_flow_summary *summary,
                      enum weir_refusal refusal);

/* record.c: opens the recording that the configuration names, if any; false: error_text says what
 * is wrong with it. Then one line for each metered request of a known tenant; as
 * weir_request_log. */
WEIR_MUST_USE bool weir_record_open(struct weir_gateway *g, char *error_text, size_t error_bytes);
void weir_record_free(struct weir_gateway *g);
void weir_request_record(struct weir_request *r, const struct weir_flow_summary *summary,
                         enum weir_refusal refusal);

void weir_request_pool_free(struct weir_gateway *g);

/* ledger_open.c: opens the store that the configuration names and defines its scopes; requests_max:
 * holds alive at once. false: error_text says why. Before any request. */
WEIR_MUST_USE bool weir_gateway_ledger_open(struct weir_gateway *g, uint64_t requests_max,
                                            char *error_text, size_t error_bytes);
void weir_gateway_ledger_close(struct weir_gateway *g);
/* The store's slot of a scope of the configuration; WEIR_NONE stays so. */
uint32_t weir_gateway_scope(struct weir_gateway *g, uint32_t index);
/* Defines the implicit scope of a tenant: unlimited, but recorded. WEIR_NONE: no slot is free, or
 * the store takes nothing now. */
uint32_t weir_gateway_tenant_scope(struct weir_gateway *g, const char *tenant_name);
/* The same for a scope of this whole name. */
uint32_t weir_gateway_unlimited_scope(struct weir_gateway *g, const char *name);
/* The tenant is gone: its scope's slot may be given to another. */
void weir_gateway_tenant_scope_forget(struct weir_gateway *g, const char *tenant_name);

/* Gives a model's index its defaults (those of its pool's first upstream) when it is new. */
void weir_gateway_model(struct weir_gateway *g, uint32_t model, uint32_t pool);

/* refuse.c: answers r->x (if the client is there and nothing was answered yet).
 * message NULL: the refusal's own. */
void weir_request_refuse(struct weir_request *r, const struct weir_refused *refused,
                         const char *message, const char *param);
/* Header lines that each answer to this tenant carries: rate-limit fields. Returns bytes written.
 */
size_t weir_limit_headers(struct weir_gateway *g, uint32_t tenant, enum weir_dialect dialect,
                          char *out, size_t cap);

/* forward.c: serialises the head for an upstream into r->head. body_bytes: after edits; has_body
 * false: none is framed. false: it does not fit what upstreams accept, or memory is out. */
WEIR_MUST_USE bool weir_forward_head(struct weir_request *r, uint32_t upstream, bool has_body,
                                     uint64_t body_bytes, struct weir_slice *head);

WEIR_MUST_USE bool weir_forward_prepare(struct weir_gateway *g);
void weir_forward_free(struct weir_gateway *g);

/* upcall.c */
void weir_upcall_start(struct weir_request *r, uint32_t upstream, uint64_t deadline_ns);
/* Closes the call at hand and tells the flow; or goes on reading where draining is configured. */
void weir_upcall_cancel(struct weir_request *r);
/* The client takes bytes again. */
void weir_upcall_resume(struct weir_request *r);
/* The answer was cut: error event of its dialect where that is possible, then an unclean close. */
void weir_answer_cut(struct weir_request *r, const struct weir_refused *refused);

void weir_answer_pool_free(struct weir_gateway *g);
/* Gives back what looked at an answer, if there is one. */
void weir_answer_drop(struct weir_request *r);

/* replay.c: idempotency keys. check: false, with a sentence in text, when the field is there and
 * malformed. ask: NONE, then r->replay_slot says whether it is a repeat to be answered by send;
 * else a refusal, with *refused and perhaps text filled. send: false: its head does not fit, and
 * nothing was written. more: the client takes bytes again. */
WEIR_MUST_USE bool weir_replay_check(const struct weir_request *r,
                                     const struct weir_http_head *head, char *text,
                                     size_t text_bytes);
WEIR_MUST_USE enum weir_refusal
weir_replay_ask(struct weir_request *r, const struct weir_http_head *head, struct weir_slice body,
                struct weir_refused *refused, char *text, size_t text_bytes);
WEIR_MUST_USE bool weir_replay_send(struct weir_request *r);
void weir_replay_more(struct weir_request *r);
void weir_replay_give_back(struct weir_request *r);
/* What the ledger keeps beside the hold, so that the key outlives a restart; false: it has none. */
WEIR_MUST_USE bool weir_replay_store_key(const struct weir_request *r,
                                         uint8_t key[static WEIR_STORE_KEY_BYTES]);
/* Takes in the keys of earlier runs. At the start, once started_s is set. */
void weir_replay_load(struct weir_gateway *g);
/* The first request's answer passes: its head (own_headers: lines that weir itself adds to it for
 * good), then its body as the client gets it. body_bytes as for weir_exchange_answer. */
void weir_replay_head(struct weir_request *r, const struct weir_http_head *head,
                      struct weir_slice own_headers, uint64_t body_bytes);
bool weir_replay_is_recording(const struct weir_request *r);
void weir_replay_body(struct weir_request *r, const void *bytes, size_t count);
/* True when its key will be lost: a repeat with it is pointless. */
bool weir_replay_is_spent(const struct weir_request *r);
/* Its end: forget, when it was never admitted; finish, when flow is done with it. */
void weir_replay_forget(struct weir_request *r);
void weir_replay_finish(struct weir_request *r, const struct weir_flow_summary *summary);

/* The flow has effects to be taken: the pump runs in this turn. */
static inline void weir_gateway_dirty(struct weir_gateway *g)
{
    g->dirty = true;
    weir_loop_hooks_again(g->loop);
}

/* effects.c: hands the flow its events' consequences until none is left. Runs at the end of each
 * turn. */
void weir_gateway_pump(struct weir_gateway *g);

#endif
