/* flow_private: what the files of the flow share. Nobody else includes
 * it. */
#ifndef WEIR_CORE_FLOW_PRIVATE_H
#define WEIR_CORE_FLOW_PRIVATE_H

#include "core/flow.h"
#include "core/num.h"

#define FLOW_HINT_SHORT_NS WEIR_NS_PER_S

enum flow_state {
    FLOW_FREE,
    FLOW_WAITING,
    FLOW_BUSY,
    FLOW_GRANTED,
    FLOW_CALLING,
    FLOW_SENT,
    FLOW_ANSWERING,
    FLOW_LEAVING,
    FLOW_GONE /* FINISH is to be told, nothing else happens any more */
};

enum flow_hold {
    FLOW_HOLD_NONE,     /* not asked for, or refused */
    FLOW_HOLD_UNNEEDED, /* not metered: the ledger is not asked */
    FLOW_HOLD_ASKED,    /* RESERVE is out, or about to be */
    FLOW_HOLD_HELD,
    FLOW_HOLD_CLOSED /* void or settle is out, or about to be */
};

/* What a BUSY request waits for. Each tenant has a FIFO for each. */
enum flow_line {
    FLOW_LINE_BUSY, /* that holds of others end: asked again whenever budget is freed */
    FLOW_LINE_SPENT /* that a window begins or a grant rises: asked again only then */
};
#define FLOW_LINE_COUNT 2

/* There are as many as requests that wait, so its small fields share words. */
struct flow_request {
    uint32_t generation;
    uint32_t effects;       /* bit of each enum weir_effect_kind to be told */
    uint32_t next_effect_1; /* the next record with effects, or the next free one */
    enum flow_state state : 8;
    enum flow_hold hold : 8;
    enum flow_line line : 8; /* BUSY: in which */
    bool is_listed : 1;      /* in the list of those with effects */
    bool is_client_gone : 1;
    bool is_told : 1; /* the client got its refusal or its cut */
    bool is_repeatable : 1;
    bool is_metered : 1;
    bool is_stream : 1;
    bool is_fixed_cost : 1;
    bool is_sent : 1;  /* this attempt */
    bool was_sent : 1; /* any attempt: the hold can not be void any more */
    bool is_cancelled : 1;
    bool is_retry_wanted : 1; /* the head was not passed on, another target is to be tried */
    bool is_busy_retry : 1;   /* its RESERVE is one of the sweep's */
    bool was_estimated : 1;   /* an earlier attempt was charged by our count */
    bool is_fallen : 1;       /* moved to a fallback: its second hold is the last */
    bool is_limited : 1;      /* its output limit is its own: the provider keeps to it */
    bool is_extending : 1;    /* EXTEND is out, or about to be */
    bool is_overrun : 1;      /* its hold could not grow */
    uint32_t busy_scope;
    uint32_t busy_epoch, raise_epoch; /* of the budget when it asked */
    uint32_t line_next_1, line_prev_1;
    uint32_t tenant, model, scope, choices;
    uint64_t hold_id;
    void *host;
    uint64_t queue_deadline_ns;
    uint64_t patience_ns; /* what was left of it at the first dispatch */
    uint64_t total_deadline_ns;
    uint64_t queued_ns;
    uint64_t earlier_tok; /* charged for earlier attempts */
    uint64_t held_tok;    /* of its hold */
    uint64_t extend_tok;  /* asked for */
    uint64_t until_ns; /* SPENT: when the window begins; extending: when an answer comes too late */
    struct weir_estimate estimate;
    struct weir_refused refused; /* for REFUSE and CUT; before that, how the last attempt failed */
    struct weir_flow_summary summary;
};

/* Since budget was last freed, the ledger said BUSY to the least and to the most of these amounts,
 * and so it would to each between them: the chain of a scope decides, and nothing else does. */
struct flow_busy_known {
    uint32_t scope;
    uint64_t least_tok, most_tok;
};
#define FLOW_BUSY_KNOWN_MAX 8

struct flow_tenant_line {
    uint32_t first_1, last_1;
    uint32_t ring_next_1, ring_prev_1; /* among tenants that have any in this line */
};

struct flow_tenant {
    struct flow_tenant_line lines[FLOW_LINE_COUNT];
    uint32_t alive; /* records that name it */
    uint64_t admitted, refused, finished;
    uint64_t input_tok, output_tok, estimated_requests;
};

struct weir_flow {
    struct weir_flow_limits limits;
    struct weir_gate *gate;
    struct weir_estimator *estimator;
    struct flow_request *requests;
    struct flow_tenant *tenants;
    uint32_t slots_used; /* high-water mark: slots beyond were never touched */
    uint32_t free_1;
    uint32_t effects_first_1, effects_last_1;
    uint32_t requests_now, holds_now;
    bool is_draining;
    uint64_t drain_queue_ns, drain_cut_ns; /* WEIR_NEVER_NS: done or not asked */
    bool is_queue_over;
    uint32_t ring_1[FLOW_LINE_COUNT];     /* BUSY: the tenant whose head is tried next */
    uint32_t ring_count[FLOW_LINE_COUNT]; /* tenants in it */
    uint32_t busy_sweep_left, busy_asked;
    struct flow_busy_known busy_known[FLOW_BUSY_KNOWN_MAX];
    uint32_t busy_known_count; /* may be above the maximum: the oldest ones were written over */
    uint32_t busy_epoch, raise_epoch; /* count the times that budget was freed, and raised */
    bool is_raised;                   /* since the last pump */
    uint32_t raised_scope;            /* WEIR_NONE: several, or not known */
    uint32_t overruns_now;
    uint64_t overruns, overruns_cut;
    uint64_t refusals[WEIR_REFUSAL_COUNT];
};

static inline uint64_t flow_id(const struct weir_flow *f, const struct flow_request *r)
{
    return (uint64_t)r->generation << 32 | (uint64_t)(r - f->requests);
}

static inline uint32_t flow_slot(const struct weir_flow *f, const struct flow_request *r)
{
    return (uint32_t)(r - f->requests);
}

/* flow.c */
void flow_tell(struct weir_flow *f, struct flow_request *r, enum weir_effect_kind kind);
/* Out of the queue or off its upstream: the hold is given back when it is known, then FINISH. */
void flow_leave(struct weir_flow *f, struct flow_request *r);
void flow_refuse(struct weir_flow *f, struct flow_request *r, const struct weir_refused *refused);
struct flow_request *flow_find(struct weir_flow *f, uint64_t id);
/* Takes back an effect that nobody has seen yet. Returns whether there was one. */
bool flow_untell(struct flow_request *r, enum weir_effect_kind kind);
/* A refusal or a cut, unless the client is gone or was told one before. */
void flow_tell_client(struct weir_flow *f, struct flow_request *r, enum weir_effect_kind kind,
                      const struct weir_refused *refused);
void flow_refuse_waiting(struct weir_flow *f, struct flow_request *r,
                         const struct weir_refused *refused);
void flow_free(struct weir_flow *f, struct flow_request *r);

/* flow_events.c */
void flow_waited(struct flow_request *r, uint64_t now_ns);
void flow_start(struct weir_flow *f, struct flow_request *r, uint64_t now_ns);
void flow_return_unused(struct weir_flow *f, struct flow_request *r, uint64_t now_ns);
void flow_abandon(struct weir_flow *f, struct flow_request *r, uint64_t now_ns);

static inline struct weir_refused flow_refused(enum weir_refusal reason, uint64_t hint_ns,
                                               uint32_t scope, uint32_t upstream)
{
    return (struct weir_refused){
        .reason = reason, .hint_ns = hint_ns, .scope = scope, .upstream = upstream};
}

/* flow_reserve.c: RESERVE is told, whatever became of an earlier one. */
void flow_reserve_ask(struct weir_flow *f, struct flow_request *r);
/* Why one in the line SPENT goes without. */
struct weir_refused flow_reserve_spent(uint32_t scope, uint64_t reset_ns, uint64_t now_ns);

/* flow_busy.c: the requests that wait for budget. They are BUSY, and ASIDE in the gate. */
void flow_busy_add(struct weir_flow *f, struct flow_request *r, enum flow_line line);
void flow_busy_remove(struct weir_flow *f, struct flow_request *r);
/* The ledger said BUSY to r, and nothing was freed since it was asked. */
void flow_busy_learn(struct weir_flow *f, const struct flow_request *r);
/* A RESERVE of the sweep was answered, or the head of a tenant's list changed. */
void flow_busy_answered(struct weir_flow *f, struct flow_request *r);
void flow_busy_ask_head(struct weir_flow *f, uint32_t tenant);
void flow_busy_sweep(struct weir_flow *f);
/* What weir_flow_budget_raised asked for. */
void flow_busy_raise(struct weir_flow *f);

/* flow_charge.c: what an attempt came to. */
uint64_t flow_charge_cap(uint64_t tok);
struct flow_charge {
    uint64_t tokens;
    bool is_estimated;
    struct weir_flow_usage usage; /* as reported */
    struct weir_gate_used used;
};
struct flow_charge flow_charge_of(const struct flow_request *r,
                                  const struct weir_call_facts *facts);
void flow_learn(struct weir_flow *f, const struct flow_request *r,
                const struct weir_call_facts *facts);

#endif
