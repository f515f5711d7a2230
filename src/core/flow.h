/* flow: the life of every request, as one machine without I/O. Events in, effects out.
 *
 * The host (gateway, lab, tests) tells what happened and carries out what flow asks for. Flow owns
 * the gate (queue, permits, buckets, breakers) and every request's record; it never sees a socket
 * or clock.
 *
 *   arrive ----refused----> (no record)
 *     |
 *     v            leaves: client gone, deadline, breaker, drain, budget
 *   WAITING  ------------------------------------------------+
 *     |  in the gate's queue; the hold is pending or held    |
 *     |  chosen: permit, buckets, breaker trial, in one step |
 *     v                                                      v
 *   GRANTED   permit taken, hold not yet durable          LEAVING   waits for the answer to its
 *     |  hold held                                           |      reserve, so that it is voided
 *     v                                                      v
 *   CALLING   DISPATCH is out; no request byte left        (gone)
 *     |  sent                     \  failed before a byte: next target, or refused
 *     v                            \
 *   SENT      no answer yet         +--> WAITING again (another pool) or CALLING (another upstream)
 *     |  head
 *     v
 *   ANSWERING   first byte of the body
 *     |  ended: permit freed, breaker told, buckets and scheduler corrected once, hold settled
 *     v
 *   (gone)    FINISH is out
 *
 *   BUSY      beside WAITING: outside the queue because holds of others take the budget's rest, or
 *             (policy QUEUE) because it is spent until the next window
 *
 * A spent budget's policy FALLBACK moves the request to another pool and reserves anew, under a new
 * hold on the fallback's scope; the old hold was never held. That happens once in a request's life
 * and before its first dispatch. A running answer that passes its hold has it enlarged (EXTEND).
 *
 * What holds after every call: a record owns at most one hold and one permit; each is given back
 * exactly once on every way out; permits_now of an upstream is the number of its GRANTED..ANSWERING
 * records; a hold is void only if no request byte was sent, else settled.
 *
 * Effects wait in the records, not in a queue, so no burst of them can overflow: call
 * weir_flow_next until it returns false, after any event and after the pump. Ids are slot +
 * generation: a late answer to a request that is gone is ignored.
 *
 * Thread: loop (all of it). Memory: given by the host, sized by the limits, all-zero is fine,
 * untouched where unused. Source: docs/architecture.md, "The way of a request". */
#ifndef WEIR_CORE_FLOW_H
#define WEIR_CORE_FLOW_H

#include "core/base.h"
#include "core/breaker.h"
#include "core/estimator.h"
#include "core/gate.h"
#include "core/ledger.h"
#include "core/refusal.h"
#include "core/shape.h"

struct weir_flow;

/* A request's id: slot + generation, never 0 and never below 2^32, so WEIR_NONE is none. */

struct weir_flow_limits {
    uint32_t tenants_max;       /* indices 0 .. tenants_max - 1 are the host's to give */
    uint32_t requests_max;      /* records alive: waiting and in flight */
    uint32_t models_max;        /* model indices, for the estimator */
    uint32_t waiters_max;       /* waiting in all pools together, >= 1 */
    uint64_t waiting_bytes_max; /* heads and bodies of those waiting */
    uint32_t quantile_permille; /* of the estimator; 0: 990 */
    uint32_t pairs_max;         /* (tenant, model) pairs it remembers; 0: 65,536 */
};

/* How long a request may wait in the queue: wait_max_ns or, where the client tells a timeout of its
 * own (0: it does not), nine tenths of that if they are less: it then hears why, in time to act on
 * it. */
uint64_t weir_flow_wait_max_ns(uint64_t wait_max_ns, uint64_t client_timeout_ns);

/* What the edge knows of a request when it asks for admission. */
struct weir_arrival {
    uint32_t tenant;
    uint32_t pool;
    uint32_t lane; /* WEIR_NONE: the tenant's; else a lower one (a higher is ignored) */
    uint32_t model;
    struct weir_text_classes text;
    uint64_t output_limit_tok; /* of the request; 0: not given, the model's default is used */
    uint32_t choices;          /* n, at least 1 */
    uint64_t extra_input_tok;  /* context kept by the provider (previous_response_id) */
    uint64_t fixed_cost_tok;   /* routes with cost_tok: no estimate, this is the cost; 0: metered by
                                  tokens */
    bool metered;              /* false: counted as a request only, no tokens */
    bool no_output;            /* nothing is generated (embeddings): no output limit is reserved */
    bool stream;
    bool repeatable;            /* came with an idempotency key: may be sent twice */
    uint32_t bytes;             /* head + body held while it waits */
    uint64_t queue_deadline_ns; /* leaves the queue at this time at the latest */
    uint64_t total_deadline_ns; /* of all attempts together */
    uint64_t hold;              /* id for the ledger, made by the host: epoch << 40 | counter */
    void *host;                 /* the host's own, returned in each effect */
};

/* Last value of each field the provider reported; -1: not reported. input includes what was cached.
 */
struct weir_flow_usage {
    int64_t input_tok;
    int64_t cached_tok;
    int64_t cache_write_tok;
    int64_t output_tok;
};

enum weir_call_end {
    WEIR_CALL_COMPLETE,       /* the answer ended as HTTP and its API say it should */
    WEIR_CALL_CUT,            /* it ended before that */
    WEIR_CALL_CONNECT_FAILED, /* refused, unreachable, name unknown, TLS failed */
    WEIR_CALL_CONNECT_TIMEOUT,
    WEIR_CALL_WRITE_FAILED, /* reset or stalled while the request was being written */
    WEIR_CALL_FIRST_BYTE_TIMEOUT,
    WEIR_CALL_IDLE_TIMEOUT,
    WEIR_CALL_TOTAL_TIMEOUT,
    WEIR_CALL_BAD_ANSWER, /* not HTTP we can pass on */
    WEIR_CALL_CANCELLED   /* we closed it: client gone, drain */
};

struct weir_call_facts {
    enum weir_call_end end;
    bool sent;       /* a request byte may have reached the upstream */
    uint32_t status; /* 0: no answer line came */
    struct weir_flow_usage usage;
    bool
        usage_is_final; /* the provider's last word on usage was seen, however the exchange ended */
    uint64_t output_seen_bytes; /* of output text, for an estimate when usage never came */
    uint64_t answer_bytes;
};

enum weir_reserve_answer {
    WEIR_RESERVE_HELD,
    WEIR_RESERVE_BUSY, /* holds take the rest: may be asked again */
    WEIR_RESERVE_EXHAUSTED,
    WEIR_RESERVE_NEVER, /* above the whole grant */
    WEIR_RESERVE_UNAVAILABLE
};

/* What a spent budget does with a request; of the scope that refused. */
enum weir_exhausted_policy {
    WEIR_EXHAUSTED_REFUSE,
    WEIR_EXHAUSTED_FALLBACK, /* to another pool, charged to another scope */
    WEIR_EXHAUSTED_QUEUE     /* waits for the window's next start, if that is before its deadline */
};

/* The ledger's answer, with what the host knows of the scope that refused. */
struct weir_reserve_told {
    enum weir_reserve_answer answer;
    uint32_t scope;                    /* BUSY, EXHAUSTED, NEVER: which refused, else WEIR_NONE */
    enum weir_exhausted_policy policy; /* EXHAUSTED, as all below */
    uint32_t fallback_pool, fallback_scope; /* FALLBACK */
    uint64_t hold;                          /* FALLBACK: a new id to reserve under */
    uint64_t reset_ns; /* loop time of that scope's next window; WEIR_NEVER_NS: none known */
};

enum weir_effect_kind {
    WEIR_EFFECT_RESERVE,  /* submit: hold, scope, tokens; answer with weir_flow_reserved */
    WEIR_EFFECT_EXTEND,   /* submit: hold, tokens (the new whole); answer with weir_flow_extended */
    WEIR_EFFECT_DISPATCH, /* call upstream; the permit is taken and the hold is durable */
    WEIR_EFFECT_CANCEL,   /* close the upstream call (or drain it under a cap), then weir_flow_ended
                           */
    WEIR_EFFECT_VOID,     /* hold: nothing was sent */
    WEIR_EFFECT_SETTLE,   /* hold, tokens used, flags */
    WEIR_EFFECT_REFUSE, /* answer the client with refused; nothing of an answer was passed on before
                         */
    WEIR_EFFECT_CUT,    /* an answer was under way: error event of its dialect, unclean close */
    WEIR_EFFECT_FINISH  /* the record is gone after this effect; its summary for the log */
};

/* How a request fared: one line of the access log. */
struct weir_flow_summary {
    uint64_t estimate_tok; /* held */
    struct weir_flow_usage usage;
    uint64_t charged_tok;
    uint64_t queue_wait_ns;
    /* 0: did not happen. */
    uint64_t arrived_ns, dispatched_ns, sent_ns, head_ns, first_byte_ns, ended_ns;
    uint32_t upstream; /* the last, WEIR_NONE: none */
    uint32_t attempts;
    uint32_t status;               /* of the upstream */
    enum weir_refusal refusal : 8; /* NONE: answered */
    bool client_gone : 1;
    bool estimated : 1; /* charged by our count, not by the provider's */
};

struct weir_effect {
    enum weir_effect_kind kind;
    uint64_t request; /* id */
    void *host;
    uint32_t tenant;
    uint32_t model;
    uint32_t upstream;            /* DISPATCH, SETTLE */
    uint64_t hold;                /* RESERVE, EXTEND, VOID, SETTLE */
    uint32_t scope;               /* RESERVE, EXTEND, VOID, SETTLE */
    uint64_t tokens;              /* RESERVE: estimate; EXTEND: new whole; SETTLE: actual */
    bool estimated;               /* SETTLE: no usage was reported */
    struct weir_flow_usage usage; /* SETTLE: input and output add up to tokens */
    struct weir_refused refused;  /* REFUSE, CUT */
    uint64_t deadline_ns; /* RESERVE: when it leaves the queue; EXTEND: when the answer is of no use
                             any more; DISPATCH: total deadline of the request */
    const struct weir_flow_summary *summary; /* FINISH: valid until the next call */
};

/* mem: zero, aligned to 64 bytes; the host keeps it. lanes hold for all pools and are copied. */
size_t weir_flow_bytes(const struct weir_flow_limits *limits, uint32_t pool_count,
                       uint32_t upstream_count, const struct weir_lane_rules *lanes);
struct weir_flow *weir_flow_init(void *mem, size_t bytes, const struct weir_flow_limits *limits,
                                 uint32_t pool_count, uint32_t upstream_count,
                                 const struct weir_lane_rules *lanes);

/* Setting up: upstreams first, then pools, tenants, models. Each may be called again with other
 * values while running: balances are kept, a pool keeps its policy and may only gain upstreams. An
 * upstream is in one pool. */
void weir_flow_upstream_set(struct weir_flow *f, uint32_t upstream,
                            const struct weir_upstream_rules *rules, uint64_t now_ns);
void weir_flow_pool_set(struct weir_flow *f, uint32_t pool, const struct weir_pool_rules *rules);
void weir_flow_tenant_set(struct weir_flow *f, uint32_t tenant,
                          const struct weir_tenant_rules *rules, uint64_t now_ns);
void weir_flow_model_set(struct weir_flow *f, uint32_t model, const struct weir_model_rules *rules);
/* Forgets a tenant that has nothing alive, with its buckets, debts and what was learned of it; its
 * index may then be set for another. false: it still has requests, and nothing changed. */
WEIR_MUST_USE bool weir_flow_tenant_forget(struct weir_flow *f, uint32_t tenant);

/* Asks for admission. All-or-nothing: a refusal leaves every counter and bucket as it was.
 * Returns the reason (NONE: admitted, *request is set); on refusal *refused is filled and no record
 * exists. Does not dispatch: the pump does. */
WEIR_MUST_USE enum weir_refusal weir_flow_arrive(struct weir_flow *f,
                                                 const struct weir_arrival *arrival,
                                                 uint64_t now_ns, uint64_t *request,
                                                 struct weir_refused *refused);

/* What arrive would refuse without knowing the body (paused, draining, a queue at its bound, a pool
 * whose upstreams are all open beyond the deadline): asked when only the head is there, so that a
 * body which would be refused is never uploaded. pool: WEIR_NONE when not known yet. Counts the
 * refusal, takes nothing. */
WEIR_MUST_USE enum weir_refusal weir_flow_precheck(struct weir_flow *f, uint32_t tenant,
                                                   uint32_t pool, uint64_t queue_deadline_ns,
                                                   uint64_t now_ns, struct weir_refused *refused);

/* What a ledger's result says to a RESERVE or an EXTEND. Whatever is no answer to one is
 * UNAVAILABLE: what is not known is not sent. */
WEIR_MUST_USE enum weir_reserve_answer weir_flow_reserve_answer(enum weir_ledger_result result);

/* The ledger's answer to RESERVE, exactly one for each. */
void weir_flow_reserved(struct weir_flow *f, uint64_t request, const struct weir_reserve_told *told,
                        uint64_t now_ns);
/* A hold was settled or voided: requests that wait for holds of others are tried again, the oldest
 * of each tenant first. Of whatever scope: which of them share a parent is the ledger's to know. */
void weir_flow_budget_freed(struct weir_flow *f);
/* A window began, a grant rose, or committed tokens were taken back: in the next pump those whom
 * this scope refused as spent (WEIR_NONE: any scope) are tried again too. Without it they wait to
 * their deadlines: the flow does not go by reset_ns. */
void weir_flow_budget_raised(struct weir_flow *f, uint32_t scope);

/* How far a running answer has come: the last values told (-1: not yet) and the bytes of output
 * seen. When the use so far passes the hold, an EXTEND is asked for; one at a time.
 * Returns the output bytes from which on it is worth being told again; 0: an EXTEND is under way;
 * UINT64_MAX: never. */
WEIR_MUST_USE uint64_t weir_flow_progress(struct weir_flow *f, uint64_t request, int64_t input_tok,
                                          int64_t output_tok, uint64_t output_seen_bytes,
                                          uint64_t now_ns);
/* The ledger's answer to EXTEND; one that comes too late is ignored. On a refusal the answer is cut
 * or goes on as an overrun (weir_tenant_rules.overrun_cuts). scope: which one refused. */
void weir_flow_extended(struct weir_flow *f, uint64_t request, enum weir_reserve_answer answer,
                        uint32_t scope, uint64_t now_ns);

void weir_flow_sent(struct weir_flow *f, uint64_t request, uint64_t now_ns);
/* The answer's status line and head came. pause_ns: a 429's own hint, 0 when none.
 * true: pass it on to the client. */
WEIR_MUST_USE bool weir_flow_head(struct weir_flow *f, uint64_t request, uint32_t status,
                                  uint64_t pause_ns, uint64_t now_ns);
/* The first byte of the answer's body came; of one that is passed on. Later calls of an attempt
 * change nothing. Returns whether the pump has something to do. */
bool weir_flow_first_byte(struct weir_flow *f, uint64_t request, uint64_t now_ns);
/* The upstream exchange ended, however it did; exactly once per DISPATCH. */
void weir_flow_ended(struct weir_flow *f, uint64_t request, const struct weir_call_facts *facts,
                     uint64_t now_ns);
/* The client hung up or stopped reading; any state. */
void weir_flow_client_gone(struct weir_flow *f, uint64_t request, uint64_t now_ns);

/* No new admissions; those waiting at queue_until_ns are refused, answers alive at cut_at_ns are
 * cut. */
void weir_flow_drain(struct weir_flow *f, uint64_t queue_until_ns, uint64_t cut_at_ns);

/* Dispatches what may go now. Call once after each batch of events. */
void weir_flow_pump(struct weir_flow *f, uint64_t now_ns);
/* When time alone next changes something (a bucket fills, a deadline, a cool-down ends);
 * WEIR_NEVER_NS. */
uint64_t weir_flow_due_ns(const struct weir_flow *f);
/* Lets time do that. Follow with the pump. */
void weir_flow_tick(struct weir_flow *f, uint64_t now_ns);

/* Takes the next effect; false: none left. */
WEIR_MUST_USE bool weir_flow_next(struct weir_flow *f, struct weir_effect *effect);

/* Looking in: copies, for the admin API, rate-limit headers and metrics. */
struct weir_tenant_view {
    uint32_t waiting, in_flight;
    uint64_t longest_wait_ns; /* of those that wait now, for their turn or for budget */
    uint64_t admitted, refused, finished;
    uint64_t input_tok, output_tok, estimated_requests;
    struct weir_flow_limit requests, tokens;
};
struct weir_flow_view {
    uint32_t requests_now, waiters_now, in_flight_now, holds_now;
    uint64_t waiting_bytes_now;
    uint64_t refusals[WEIR_REFUSAL_COUNT]; /* since start, by reason; those the host refused are not
                                              here */
    uint32_t overruns_now;                 /* answers running beyond a hold that could not grow */
    uint64_t overruns, overruns_cut;       /* such, since start; those of them that were cut */
};
void weir_flow_tenant_view(const struct weir_flow *f, uint32_t tenant, uint64_t now_ns,
                           struct weir_tenant_view *view);
void weir_flow_upstream_view(const struct weir_flow *f, uint32_t upstream, uint64_t now_ns,
                             struct weir_upstream_view *view);
void weir_flow_pool_view(const struct weir_flow *f, uint32_t pool, uint64_t now_ns,
                         struct weir_pool_view *view);
/* How far apart the tenants of a lane were, in the last windows before now_ns: core/gap.h. The pool
 * has been set. */
void weir_flow_gap_view(struct weir_flow *f, uint32_t pool, uint32_t lane, uint64_t now_ns,
                        struct weir_gap_view *view);
/* What the host gave a request as its own; NULL: it is no more. */
void *weir_flow_host(struct weir_flow *f, uint64_t request);
void weir_flow_view(const struct weir_flow *f, struct weir_flow_view *view);
/* How good the estimates of a model's input were. */
void weir_flow_coverage(const struct weir_flow *f, uint32_t model, struct weir_coverage *coverage);

/* One live hold, for GET /v1/holds: iterate *cursor from 0 until false. */
struct weir_hold_view {
    uint64_t hold, estimate_tok, age_ns;
    uint32_t tenant, model;
    uint64_t request;
    const char *state; /* "waiting", "granted", ... */
};
WEIR_MUST_USE bool weir_flow_hold_view(const struct weir_flow *f, uint32_t *cursor, uint64_t now_ns,
                                       struct weir_hold_view *view);

/* O(n): checks every invariant named above; panics on a false one. Tests and lab. */
void weir_flow_audit(const struct weir_flow *f);

#endif
