#include "core/flow_private.h"

#include <string.h>

static struct weir_gate_limits flow_gate_limits(const struct weir_flow_limits *limits,
                                                uint32_t pool_count, uint32_t upstream_count,
                                                const struct weir_lane_rules *lanes)
{
    return (struct weir_gate_limits){.tenants_max = limits->tenants_max,
                                     .slots_max = limits->requests_max,
                                     .waiters_max = limits->waiters_max,
                                     .waiting_bytes_max = limits->waiting_bytes_max,
                                     .pool_count = pool_count,
                                     .upstream_count = upstream_count,
                                     .lanes = *lanes};
}

static struct weir_estimator_rules flow_estimator_rules(const struct weir_flow_limits *limits)
{
    return (struct weir_estimator_rules){
        .pairs_max = limits->pairs_max ? limits->pairs_max : 65536,
        .models_max = limits->models_max,
        .quantile_permille = limits->quantile_permille ? limits->quantile_permille : 990};
}

static size_t flow_align(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

/* The pieces of the block after struct weir_flow, in order. */
static size_t flow_requests_bytes(const struct weir_flow_limits *limits)
{
    return flow_align(sizeof(struct flow_request) * limits->requests_max);
}

static size_t flow_tenants_bytes(const struct weir_flow_limits *limits)
{
    return flow_align(sizeof(struct flow_tenant) * limits->tenants_max);
}

size_t weir_flow_bytes(const struct weir_flow_limits *limits, uint32_t pool_count,
                       uint32_t upstream_count, const struct weir_lane_rules *lanes)
{
    struct weir_gate_limits gate = flow_gate_limits(limits, pool_count, upstream_count, lanes);
    struct weir_estimator_rules estimator = flow_estimator_rules(limits);
    return flow_align(sizeof(struct weir_flow)) + flow_requests_bytes(limits) +
           flow_tenants_bytes(limits) + flow_align(weir_gate_bytes(&gate)) +
           weir_estimator_bytes(&estimator);
}

struct weir_flow *weir_flow_init(void *mem, size_t bytes, const struct weir_flow_limits *limits,
                                 uint32_t pool_count, uint32_t upstream_count,
                                 const struct weir_lane_rules *lanes)
{
    WEIR_INVARIANT(bytes >= weir_flow_bytes(limits, pool_count, upstream_count, lanes));
    WEIR_INVARIANT(((uintptr_t)mem & 63) == 0);
    struct weir_gate_limits gate = flow_gate_limits(limits, pool_count, upstream_count, lanes);
    struct weir_estimator_rules estimator = flow_estimator_rules(limits);
    struct weir_flow *f = mem;
    unsigned char *at = (unsigned char *)mem + flow_align(sizeof *f);
    f->limits = *limits;
    f->drain_queue_ns = f->drain_cut_ns = WEIR_NEVER_NS;
    f->requests = (struct flow_request *)(void *)at;
    at += flow_requests_bytes(limits);
    f->tenants = (struct flow_tenant *)(void *)at;
    at += flow_tenants_bytes(limits);
    f->gate = weir_gate_init(at, weir_gate_bytes(&gate), &gate);
    at += flow_align(weir_gate_bytes(&gate));
    f->estimator = weir_estimator_init(at, weir_estimator_bytes(&estimator), &estimator);
    return f;
}

void weir_flow_upstream_set(struct weir_flow *f, uint32_t upstream,
                            const struct weir_upstream_rules *rules, uint64_t now_ns)
{
    weir_gate_upstream_set(f->gate, upstream, rules, now_ns);
}

void weir_flow_pool_set(struct weir_flow *f, uint32_t pool, const struct weir_pool_rules *rules)
{
    weir_gate_pool_set(f->gate, pool, rules);
}

void weir_flow_tenant_set(struct weir_flow *f, uint32_t tenant,
                          const struct weir_tenant_rules *rules, uint64_t now_ns)
{
    weir_gate_tenant_set(f->gate, tenant, rules, now_ns);
}

void weir_flow_model_set(struct weir_flow *f, uint32_t model, const struct weir_model_rules *rules)
{
    weir_estimator_model_set(f->estimator, model, rules);
}

bool weir_flow_tenant_forget(struct weir_flow *f, uint32_t tenant)
{
    WEIR_INVARIANT(tenant < f->limits.tenants_max);
    if (f->tenants[tenant].alive > 0)
        return false;
    bool is_forgotten = weir_gate_tenant_forget(f->gate, tenant);
    WEIR_INVARIANT(is_forgotten);
    f->tenants[tenant] = (struct flow_tenant){0};
    return true;
}

/* The record of an id, NULL when it is gone. */
struct flow_request *flow_find(struct weir_flow *f, uint64_t id)
{
    uint64_t slot = id & UINT32_MAX;
    if (slot >= f->slots_used)
        return NULL;
    struct flow_request *r = &f->requests[slot];
    return r->state != FLOW_FREE && r->generation == id >> 32 ? r : NULL;
}

void flow_free(struct weir_flow *f, struct flow_request *r)
{
    WEIR_INVARIANT(f->requests_now > 0);
    f->requests_now--;
    f->tenants[r->tenant].alive--;
    f->overruns_now -= r->is_overrun;
    r->state = FLOW_FREE;
    r->effects = 0;
    r->next_effect_1 = f->free_1;
    f->free_1 = flow_slot(f, r) + 1;
}

void flow_tell(struct weir_flow *f, struct flow_request *r, enum weir_effect_kind kind)
{
    r->effects |= UINT32_C(1) << kind;
    if (r->is_listed)
        return;
    r->is_listed = true;
    r->next_effect_1 = 0;
    uint32_t self_1 = flow_slot(f, r) + 1;
    if (f->effects_last_1)
        f->requests[f->effects_last_1 - 1].next_effect_1 = self_1;
    else
        f->effects_first_1 = self_1;
    f->effects_last_1 = self_1;
}

/* Takes back an effect that nobody has seen yet. Returns whether there was one. */
bool flow_untell(struct flow_request *r, enum weir_effect_kind kind)
{
    uint32_t bit = UINT32_C(1) << kind;
    bool was = r->effects & bit;
    r->effects &= ~bit;
    return was;
}

static void flow_finish(struct weir_flow *f, struct flow_request *r)
{
    struct flow_tenant *t = &f->tenants[r->tenant];
    t->finished++;
    t->estimated_requests += r->summary.estimated;
    r->state = FLOW_GONE;
    flow_tell(f, r, WEIR_EFFECT_FINISH);
}

static void flow_hold_close(struct weir_flow *f, struct flow_request *r, enum weir_effect_kind kind)
{
    if (r->hold == FLOW_HOLD_UNNEEDED)
        return;
    WEIR_INVARIANT(r->hold == FLOW_HOLD_HELD);
    WEIR_INVARIANT(kind == WEIR_EFFECT_SETTLE || !r->was_sent);
    r->hold = FLOW_HOLD_CLOSED;
    f->holds_now--;
    flow_untell(r, WEIR_EFFECT_EXTEND);
    flow_tell(f, r, kind);
}

void flow_leave(struct weir_flow *f, struct flow_request *r)
{
    if (r->hold == FLOW_HOLD_ASKED && flow_untell(r, WEIR_EFFECT_RESERVE)) {
        r->hold = FLOW_HOLD_NONE;
        f->holds_now--;
        flow_busy_answered(f, r);
    }
    switch (r->hold) {
    case FLOW_HOLD_ASKED:
        r->state = FLOW_LEAVING;
        return;
    case FLOW_HOLD_HELD:
        flow_hold_close(f, r, r->was_sent ? WEIR_EFFECT_SETTLE : WEIR_EFFECT_VOID);
        break;
    case FLOW_HOLD_NONE:
    case FLOW_HOLD_UNNEEDED:
    case FLOW_HOLD_CLOSED:
        break;
    }
    flow_finish(f, r);
}

void flow_tell_client(struct weir_flow *f, struct flow_request *r, enum weir_effect_kind kind,
                      const struct weir_refused *refused)
{
    if (r->is_client_gone || r->is_told)
        return;
    r->is_told = true;
    r->refused = *refused;
    r->summary.refusal = refused->reason;
    f->refusals[refused->reason]++;
    f->tenants[r->tenant].refused++;
    flow_tell(f, r, kind);
}

void flow_refuse(struct weir_flow *f, struct flow_request *r, const struct weir_refused *refused)
{
    flow_tell_client(f, r, WEIR_EFFECT_REFUSE, refused);
    flow_leave(f, r);
}

/* A request whose last attempt failed is told that, not why the next did not come about. */
void flow_refuse_waiting(struct weir_flow *f, struct flow_request *r,
                         const struct weir_refused *refused)
{
    struct weir_refused failed = r->refused;
    flow_refuse(f, r, r->refused.reason != WEIR_REFUSAL_NONE ? &failed : refused);
}

static enum weir_refusal flow_refuse_arrival(struct weir_flow *f, uint32_t tenant,
                                             struct weir_refused *refused)
{
    f->refusals[refused->reason]++;
    f->tenants[tenant].refused++;
    return refused->reason;
}

/* Arrivals since the last pump may fill the queue though they could pass at once: then it is pumped
 * first. */
static bool flow_is_full(enum weir_refusal reason)
{
    return reason == WEIR_REFUSAL_QUEUE_FULL || reason == WEIR_REFUSAL_TENANT_QUEUE_FULL;
}

enum weir_refusal weir_flow_precheck(struct weir_flow *f, uint32_t tenant, uint32_t pool,
                                     uint64_t queue_deadline_ns, uint64_t now_ns,
                                     struct weir_refused *refused)
{
    if (f->is_draining) {
        *refused = flow_refused(WEIR_REFUSAL_DRAINING, FLOW_HINT_SHORT_NS, WEIR_NONE, WEIR_NONE);
        return flow_refuse_arrival(f, tenant, refused);
    }
    enum weir_refusal reason =
        weir_gate_precheck(f->gate, tenant, pool, queue_deadline_ns, now_ns, refused);
    if (flow_is_full(reason)) {
        weir_flow_pump(f, now_ns);
        reason = weir_gate_precheck(f->gate, tenant, pool, queue_deadline_ns, now_ns, refused);
    }
    if (reason == WEIR_REFUSAL_NONE)
        return WEIR_REFUSAL_NONE;
    return flow_refuse_arrival(f, tenant, refused);
}

static struct flow_request *flow_free_slot(struct weir_flow *f)
{
    if (f->free_1)
        return &f->requests[f->free_1 - 1];
    return f->slots_used < f->limits.requests_max ? &f->requests[f->slots_used] : NULL;
}

uint64_t weir_flow_wait_max_ns(uint64_t wait_max_ns, uint64_t client_timeout_ns)
{
    if (client_timeout_ns == 0)
        return wait_max_ns;
    return weir_min_u64(wait_max_ns, client_timeout_ns / 10 * 9);
}

static void arrive_estimate(const struct weir_flow *f, const struct weir_arrival *a, bool is_strict,
                            struct weir_estimate *estimate)
{
    *estimate = (struct weir_estimate){0};
    if (a->fixed_cost_tok > 0) {
        estimate->input_tok = weir_min_u64(a->fixed_cost_tok, (uint64_t)WEIR_TOK_MAX / 4);
        return;
    }
    if (!a->metered)
        return;
    struct weir_estimate_want want = {.text = a->text,
                                      .output_limit_tok = a->output_limit_tok,
                                      .extra_input_tok = a->extra_input_tok,
                                      .choices = a->choices,
                                      .no_output = a->no_output,
                                      .strict = is_strict};
    struct weir_estimator_pair pair = {.tenant = a->tenant,
                                       .generation =
                                           weir_gate_tenant_generation(f->gate, a->tenant),
                                       .model = a->model};
    weir_estimator_estimate(f->estimator, pair, &want, estimate);
}

/* Takes the slot that flow_free_slot showed. The parts of the record outlive it: its generation and
 * the list. */
static void arrive_fill(struct weir_flow *f, struct flow_request *r, const struct weir_arrival *a,
                        const struct weir_estimate *estimate, uint64_t now_ns)
{
    uint32_t slot = flow_slot(f, r), generation = r->generation + 1;
    if (f->free_1 == slot + 1)
        f->free_1 = r->next_effect_1;
    else
        f->slots_used++;
    f->requests_now++;
    f->tenants[a->tenant].alive++;
    *r = (struct flow_request){.generation = generation ? generation : 1,
                               .state = FLOW_WAITING,
                               .is_repeatable = a->repeatable,
                               .is_metered = a->metered || a->fixed_cost_tok > 0,
                               .is_stream = a->stream,
                               .is_fixed_cost = a->fixed_cost_tok > 0,
                               .is_limited = a->output_limit_tok > 0 || a->no_output,
                               .tenant = a->tenant,
                               .model = a->model,
                               .scope = weir_gate_tenant_rules(f->gate, a->tenant)->scope,
                               .choices = a->choices ? a->choices : 1,
                               .hold_id = a->hold,
                               .host = a->host,
                               .queue_deadline_ns = a->queue_deadline_ns,
                               .patience_ns = WEIR_NEVER_NS,
                               .total_deadline_ns = a->total_deadline_ns,
                               .queued_ns = now_ns,
                               .busy_scope = WEIR_NONE,
                               .estimate = *estimate};
    r->held_tok = estimate->input_tok + estimate->output_tok;
    r->summary.estimate_tok = r->held_tok;
    r->summary.usage = (struct weir_flow_usage){-1, -1, -1, -1};
    r->summary.arrived_ns = now_ns;
    r->summary.upstream = WEIR_NONE;
}

enum weir_refusal weir_flow_arrive(struct weir_flow *f, const struct weir_arrival *arrival,
                                   uint64_t now_ns, uint64_t *request, struct weir_refused *refused)
{
    const struct weir_arrival *a = arrival;
    WEIR_INVARIANT(a->tenant < f->limits.tenants_max);
    *request = WEIR_NONE;
    if (f->is_draining) {
        *refused = flow_refused(WEIR_REFUSAL_DRAINING, FLOW_HINT_SHORT_NS, WEIR_NONE, WEIR_NONE);
        return flow_refuse_arrival(f, a->tenant, refused);
    }
    struct flow_request *r = flow_free_slot(f);
    if (!r) {
        *refused = flow_refused(WEIR_REFUSAL_INTERNAL, FLOW_HINT_SHORT_NS, WEIR_NONE, WEIR_NONE);
        return flow_refuse_arrival(f, a->tenant, refused);
    }
    struct weir_estimate estimate;
    arrive_estimate(f, a, weir_gate_tenant_rules(f->gate, a->tenant)->strict, &estimate);
    bool has_tokens = a->metered || a->fixed_cost_tok > 0;
    struct weir_gate_want want = {.tenant = a->tenant,
                                  .pool = a->pool,
                                  .lane = a->lane,
                                  .bytes = a->bytes,
                                  .deadline_ns =
                                      weir_min_u64(a->queue_deadline_ns, a->total_deadline_ns),
                                  .input_tok = estimate.input_tok,
                                  .output_tok = estimate.output_tok,
                                  .predicted_tok = estimate.predicted_tok,
                                  .work_min = has_tokens ? 1 : 1 + a->bytes / 4};
    uint32_t slot = flow_slot(f, r);
    enum weir_refusal reason = weir_gate_admit(f->gate, slot, &want, now_ns, refused);
    if (flow_is_full(reason)) {
        weir_flow_pump(f, now_ns);
        reason = weir_gate_admit(f->gate, slot, &want, now_ns, refused);
    }
    if (reason != WEIR_REFUSAL_NONE)
        return flow_refuse_arrival(f, a->tenant, refused);
    arrive_fill(f, r, a, &estimate, now_ns);
    f->tenants[a->tenant].admitted++;
    *request = flow_id(f, r);
    if (!r->is_metered) {
        r->hold = FLOW_HOLD_UNNEEDED;
    } else if (f->tenants[a->tenant].lines[FLOW_LINE_BUSY].first_1) {
        r->state = FLOW_BUSY; /* behind those of its tenant that wait for budget already */
        weir_gate_set_aside(f->gate, slot);
        flow_busy_add(f, r, FLOW_LINE_BUSY);
    } else {
        flow_reserve_ask(f, r);
    }
    return WEIR_REFUSAL_NONE;
}
