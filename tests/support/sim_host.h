/* sim_host: a host for the flow machine in simulated time.
 *
 * It owns a clock that only moves from event to event, upstreams whose behaviour is a plan made for
 * each call, and a naive ledger (one list of holds, sums counted anew each time) that answers late,
 * or says no, whose budgets are spent by a policy and come anew with each window. It keeps a second, naive record of what each request must come to, and checks every
 * effect against it: no effect out of turn, none twice, every charge by the rules. With
 * `is_audited` the flow's own audit runs after every event.
 *
 * Ties in time are broken by the order in which things were put in, so a run depends on its plan
 * alone. */
#ifndef WEIR_TESTS_SIM_HOST_H
#define WEIR_TESTS_SIM_HOST_H

#include "core/flow.h"
#include "core/rng.h"

#define SIM_UPSTREAMS_MAX 8
#define SIM_SCOPES_MAX 8

struct sim;
struct sim_request;

/* How one call goes. Times from the dispatch; a step whose time is not before the end does not
 * happen. */
struct sim_plan {
    uint64_t sent_ns; /* WEIR_NEVER_NS: no byte leaves */
    uint64_t head_ns; /* WEIR_NEVER_NS: no head comes */
    uint64_t end_ns;
    uint32_t status;
    uint64_t pause_ns;
    enum weir_call_end end;
    struct weir_flow_usage usage; /* told by the end */
    bool usage_is_final;
    uint64_t output_seen_bytes;
    uint64_t answer_bytes;
    uint64_t cancel_ns;      /* from a CANCEL to its end; 0: at once */
    uint32_t progress_count; /* times, evenly between head and end, that it is said how far it is */
};

/* What of a scope the host knows and the ledger does not. */
struct sim_scope {
    enum weir_exhausted_policy policy;
    uint32_t fallback_pool, fallback_scope;
    uint64_t period_ns; /* windows begin at its multiples; 0: none */
    uint64_t late_ns;   /* the window is begun so much after that */
};

struct sim_config {
    struct weir_flow_limits limits;
    struct weir_lane_rules lanes;
    uint32_t pool_count;
    uint32_t upstream_count;
    uint32_t tenant_count;
    struct weir_upstream_rules upstreams[SIM_UPSTREAMS_MAX];
    struct weir_pool_rules pools[SIM_UPSTREAMS_MAX];
    const struct weir_tenant_rules *tenants;
    struct weir_model_rules model;
    bool is_audited;
    uint64_t granted_tok[SIM_SCOPES_MAX];
    struct sim_scope scopes[SIM_SCOPES_MAX];
    uint64_t seed;
    /* The ledger hangs: the first RESERVE waits to its deadline, the others are refused at once. */
    uint64_t stuck_from_ns, stuck_until_ns;
    /* Delay of the ledger's answers; NULL: at once. A negative one: the ledger is not available. */
    int64_t (*ledger_delay)(struct sim *sim);
    /* May answer a RESERVE in the ledger's place, after so long; NULL: never does. */
    bool (*ledger_says)(struct sim *sim, const struct sim_request *r,
                        enum weir_reserve_answer *answer, uint64_t *delay_ns);
    void (*plan)(struct sim *sim, const struct sim_request *r, uint32_t upstream,
                 struct sim_plan *plan);
    void *user;
};

enum sim_ledger_state { SIM_HOLD_NONE, SIM_HOLD_ASKED, SIM_HOLD_HELD, SIM_HOLD_CLOSED };

struct sim_request {
    uint64_t id; /* of the flow, 0: refused on arrival */
    struct weir_arrival arrival;
    uint64_t arrived_ns;
    enum weir_refusal refusal; /* last told, or on arrival */
    struct weir_refused refused;
    uint64_t refused_ns;
    bool is_alive, is_client_gone, is_head_passed, is_cut, is_finished;
    bool is_calling; /* between DISPATCH and ended */
    bool is_sent;    /* this call */
    bool was_sent;
    bool is_cancelled;
    uint32_t call; /* number of the call, so that events of an older one are dropped */
    uint32_t upstream;
    uint32_t attempts;
    uint32_t tried[8];
    uint64_t dispatched_ns; /* the last */
    uint64_t first_dispatched_ns;
    struct sim_plan plan;
    enum sim_ledger_state hold;
    uint64_t hold_id;
    uint32_t hold_scope;
    uint64_t hold_window;
    uint64_t reserve_tok; /* of its first hold, as asked */
    uint64_t held_tok;    /* of the hold it has, with what was added */
    uint64_t told_tok;    /* the same, as far as the flow was told */
    bool is_asked;        /* its RESERVE is out */
    uint64_t extend_tok;  /* asked for; 0: nothing is */
    uint32_t extends, falls;
    uint64_t passed_ns;  /* when its use first passed its hold; 0: not */
    bool is_overrun;     /* an extend was refused while the answer ran */
    bool is_queued_once; /* it was told to wait for a window */
    uint64_t naive_tok;  /* what it must be charged so far */
    bool is_naive_estimated;
    bool is_voided, is_settled;
    uint64_t settled_tok;
    struct weir_flow_summary summary;
};

struct sim_event;

struct sim {
    struct sim_config config;
    struct weir_flow *flow;
    void *mem;
    uint64_t now_ns;
    struct weir_rng rng;
    struct sim_event *events;
    uint32_t events_count, events_room;
    uint64_t order;
    struct sim_request *requests;
    uint32_t requests_count, requests_room;
    uint64_t granted_tok[SIM_SCOPES_MAX];
    uint64_t window[SIM_SCOPES_MAX]; /* the present one's number */
    uint64_t holds_made;
    bool is_stuck_one; /* a RESERVE waits in the hanging ledger */
    uint32_t calls_now[SIM_UPSTREAMS_MAX];
    uint64_t calls_total[SIM_UPSTREAMS_MAX];
    uint64_t steps;
};

/* One pool of one upstream with so many permits, one lane, tenants of weight 1, no limits, no
 * failures, a ledger that answers at once: what most tests start from. tenants is an array of
 * tenant_count. */
struct sim_config sim_config_plain(uint32_t permits, struct weir_tenant_rules *tenants,
                                   uint32_t tenant_count);
/* A plan that answers 200 after service_ns and tells usage of input_tok and output_tok. */
struct sim_plan sim_plan_ok(uint64_t service_ns, int64_t input_tok, int64_t output_tok);

void sim_open(struct sim *sim, const struct sim_config *config);
/* Everything must be over: no request, permit, waiter, hold; and the ledger's sums are those of the
 * naive record. */
void sim_close_settled(struct sim *sim);
void sim_free(struct sim *sim);

/* A metered arrival of this tenant with text of so many bytes, patience and a total of an hour. */
struct weir_arrival sim_arrival(const struct sim *sim, uint32_t tenant, uint32_t text_bytes,
                                uint64_t output_limit_tok, uint64_t patience_ns);
/* Now; pumps. Returns the index in sim->requests, also when it was refused. */
uint32_t sim_arrive(struct sim *sim, const struct weir_arrival *arrival);
/* Later. */
void sim_arrive_at(struct sim *sim, uint64_t at_ns, const struct weir_arrival *arrival);
void sim_client_gone_at(struct sim *sim, uint64_t at_ns, uint32_t request);
/* The grant of a scope changes, and the flow hears of it. */
void sim_grant(struct sim *sim, uint32_t scope, uint64_t granted_tok);
/* Tokens of a scope's present window, added up over the list of all requests. */
uint64_t sim_reserved_tok(const struct sim *sim, uint32_t scope);
uint64_t sim_committed_tok(const struct sim *sim, uint32_t scope);
void sim_drain_at(struct sim *sim, uint64_t at_ns, uint64_t queue_ns, uint64_t cut_ns);

/* Carries out all that is due now, then every event up to and including until_ns, moving the clock.
 */
void sim_run(struct sim *sim, uint64_t until_ns);
/* Until nothing is left to happen but at WEIR_NEVER_NS; false: still busy at until_ns. */
bool sim_run_dry(struct sim *sim, uint64_t until_ns);

#endif
