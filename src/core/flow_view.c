/* flow_view: looking into the flow, and checking it. */
#include "core/flow_private.h"

void weir_flow_tenant_view(const struct weir_flow *f, uint32_t tenant, uint64_t now_ns,
                           struct weir_tenant_view *view)
{
    struct weir_gate_tenant_view gate;
    weir_gate_tenant_view(f->gate, tenant, now_ns, &gate);
    const struct flow_tenant *t = &f->tenants[tenant];
    *view = (struct weir_tenant_view){.waiting = gate.waiting,
                                      .in_flight = gate.in_flight,
                                      .longest_wait_ns = gate.longest_wait_ns,
                                      .admitted = t->admitted,
                                      .refused = t->refused,
                                      .finished = t->finished,
                                      .input_tok = t->input_tok,
                                      .output_tok = t->output_tok,
                                      .estimated_requests = t->estimated_requests,
                                      .requests = gate.requests,
                                      .tokens = gate.tokens};
    for (int line = 0; line < FLOW_LINE_COUNT; line++) {
        uint32_t first_1 = t->lines[line].first_1;
        if (first_1)
            view->longest_wait_ns =
                weir_max_u64(view->longest_wait_ns,
                             weir_sub_sat_u64(now_ns, f->requests[first_1 - 1].queued_ns));
    }
}

void weir_flow_upstream_view(const struct weir_flow *f, uint32_t upstream, uint64_t now_ns,
                             struct weir_upstream_view *view)
{
    weir_gate_upstream_view(f->gate, upstream, now_ns, view);
}

void weir_flow_pool_view(const struct weir_flow *f, uint32_t pool, uint64_t now_ns,
                         struct weir_pool_view *view)
{
    weir_gate_pool_view(f->gate, pool, now_ns, view);
}

void weir_flow_view(const struct weir_flow *f, struct weir_flow_view *view)
{
    struct weir_gate_view gate;
    weir_gate_view(f->gate, &gate);
    *view = (struct weir_flow_view){.requests_now = f->requests_now,
                                    .waiters_now = gate.waiters_now,
                                    .in_flight_now = gate.granted_now,
                                    .holds_now = f->holds_now,
                                    .waiting_bytes_now = gate.waiting_bytes_now,
                                    .overruns_now = f->overruns_now,
                                    .overruns = f->overruns,
                                    .overruns_cut = f->overruns_cut};
    for (uint32_t i = 0; i < WEIR_REFUSAL_COUNT; i++)
        view->refusals[i] = f->refusals[i];
}

void weir_flow_gap_view(struct weir_flow *f, uint32_t pool, uint32_t lane, uint64_t now_ns,
                        struct weir_gap_view *view)
{
    weir_gate_gap_view(f->gate, pool, lane, now_ns, view);
}

void *weir_flow_host(struct weir_flow *f, uint64_t request)
{
    const struct flow_request *r = flow_find(f, request);
    return r ? r->host : NULL;
}

void weir_flow_coverage(const struct weir_flow *f, uint32_t model, struct weir_coverage *coverage)
{
    weir_estimator_coverage(f->estimator, model, coverage);
}

static const char *view_state_name(enum flow_state state)
{
    switch (state) {
    case FLOW_FREE:
    case FLOW_GONE:
        return "gone";
    case FLOW_WAITING:
        return "waiting";
    case FLOW_BUSY:
        return "budget_busy";
    case FLOW_GRANTED:
        return "granted";
    case FLOW_CALLING:
        return "calling";
    case FLOW_SENT:
        return "sent";
    case FLOW_ANSWERING:
        return "answering";
    case FLOW_LEAVING:
        return "leaving";
    }
    return "gone";
}

bool weir_flow_hold_view(const struct weir_flow *f, uint32_t *cursor, uint64_t now_ns,
                         struct weir_hold_view *view)
{
    for (; *cursor < f->slots_used; (*cursor)++) {
        const struct flow_request *r = &f->requests[*cursor];
        if (r->state == FLOW_FREE || (r->hold != FLOW_HOLD_ASKED && r->hold != FLOW_HOLD_HELD))
            continue;
        *view = (struct weir_hold_view){.hold = r->hold_id,
                                        .estimate_tok = r->held_tok,
                                        .age_ns = weir_sub_sat_u64(now_ns, r->summary.arrived_ns),
                                        .tenant = r->tenant,
                                        .model = r->model,
                                        .request = flow_id(f, r),
                                        .state = view_state_name(r->state)};
        (*cursor)++;
        return true;
    }
    return false;
}

/* Where a record of this state lies in the gate. */
static void audit_place(const struct weir_flow *f, const struct flow_request *r)
{
    enum weir_gate_place place = weir_gate_place(f->gate, (uint32_t)(r - f->requests));
    switch (r->state) {
    case FLOW_FREE:
    case FLOW_LEAVING:
    case FLOW_GONE:
        WEIR_INVARIANT(place == WEIR_GATE_NONE);
        return;
    case FLOW_WAITING:
        WEIR_INVARIANT(place == WEIR_GATE_QUEUED || place == WEIR_GATE_PARKED);
        return;
    case FLOW_BUSY:
        WEIR_INVARIANT(place == WEIR_GATE_ASIDE);
        return;
    case FLOW_GRANTED:
    case FLOW_CALLING:
    case FLOW_SENT:
    case FLOW_ANSWERING:
        WEIR_INVARIANT(place == WEIR_GATE_GRANTED);
        return;
    }
}

static bool audit_has(const struct flow_request *r, enum weir_effect_kind kind)
{
    return r->effects & UINT32_C(1) << kind;
}

/* What a record of this state may have of hold and effects. */
static void audit_hold(const struct flow_request *r)
{
    bool is_open = r->hold == FLOW_HOLD_ASKED || r->hold == FLOW_HOLD_HELD;
    switch (r->state) {
    case FLOW_FREE:
        WEIR_INVARIANT(r->effects == 0);
        return;
    case FLOW_WAITING:
        WEIR_INVARIANT(is_open || r->hold == FLOW_HOLD_UNNEEDED);
        break;
    case FLOW_BUSY:
        WEIR_INVARIANT(r->hold == FLOW_HOLD_NONE || r->hold == FLOW_HOLD_ASKED);
        break;
    case FLOW_GRANTED:
    case FLOW_LEAVING:
        WEIR_INVARIANT(r->hold == FLOW_HOLD_ASKED);
        break;
    case FLOW_CALLING:
    case FLOW_SENT:
    case FLOW_ANSWERING:
        WEIR_INVARIANT(r->hold == FLOW_HOLD_HELD || r->hold == FLOW_HOLD_UNNEEDED);
        break;
    case FLOW_GONE:
        WEIR_INVARIANT(!is_open);
        WEIR_INVARIANT(audit_has(r, WEIR_EFFECT_FINISH));
        break;
    }
    WEIR_INVARIANT(!audit_has(r, WEIR_EFFECT_RESERVE) || r->hold == FLOW_HOLD_ASKED);
    WEIR_INVARIANT(!audit_has(r, WEIR_EFFECT_EXTEND) || r->hold == FLOW_HOLD_HELD);
    WEIR_INVARIANT(!audit_has(r, WEIR_EFFECT_DISPATCH) || r->state == FLOW_CALLING);
    WEIR_INVARIANT(!audit_has(r, WEIR_EFFECT_VOID) || r->hold == FLOW_HOLD_CLOSED);
    WEIR_INVARIANT(!audit_has(r, WEIR_EFFECT_SETTLE) || r->hold == FLOW_HOLD_CLOSED);
    WEIR_INVARIANT(!audit_has(r, WEIR_EFFECT_VOID) || !audit_has(r, WEIR_EFFECT_SETTLE));
    WEIR_INVARIANT(!audit_has(r, WEIR_EFFECT_VOID) || !r->was_sent);
    WEIR_INVARIANT(r->effects == 0 || r->is_listed);
}

/* One tenant's line: linked both ways, of its own and BUSY ones. Returns how many stand in it. */
static uint32_t audit_line(const struct weir_flow *f, uint32_t tenant, enum flow_line line)
{
    const struct flow_tenant_line *t = &f->tenants[tenant].lines[line];
    uint32_t prev_1 = 0, listed = 0;
    for (uint32_t at_1 = t->first_1; at_1; at_1 = f->requests[at_1 - 1].line_next_1) {
        const struct flow_request *r = &f->requests[at_1 - 1];
        WEIR_INVARIANT(r->state == FLOW_BUSY);
        WEIR_INVARIANT(r->tenant == tenant);
        WEIR_INVARIANT(r->line == line);
        WEIR_INVARIANT(r->line_prev_1 == prev_1);
        WEIR_INVARIANT(line == FLOW_LINE_BUSY || r->hold == FLOW_HOLD_NONE);
        prev_1 = at_1;
        listed++;
    }
    WEIR_INVARIANT(t->last_1 == prev_1);
    return listed;
}

static void audit_ring(const struct weir_flow *f, enum flow_line line, uint32_t tenants)
{
    uint32_t ring = 0;
    WEIR_INVARIANT(f->ring_count[line] == tenants);
    for (uint32_t at_1 = f->ring_1[line]; at_1;) {
        ring++;
        at_1 = f->tenants[at_1 - 1].lines[line].ring_next_1;
        if (at_1 == f->ring_1[line])
            break;
    }
    WEIR_INVARIANT(ring == tenants);
}

static void audit_busy(const struct weir_flow *f, uint32_t busy)
{
    static const enum flow_line lines[] = {FLOW_LINE_BUSY, FLOW_LINE_SPENT};
    uint32_t listed = 0;
    for (size_t i = 0; i < WEIR_COUNT(lines); i++) {
        uint32_t tenants = 0;
        for (uint32_t tenant = 0; tenant < f->limits.tenants_max; tenant++) {
            uint32_t of_tenant = audit_line(f, tenant, lines[i]);
            tenants += of_tenant > 0;
            listed += of_tenant;
        }
        audit_ring(f, lines[i], tenants);
    }
    WEIR_INVARIANT(listed == busy);
}

void weir_flow_audit(const struct weir_flow *f)
{
    uint32_t alive = 0, holds = 0, asked = 0, busy = 0, listed = 0, in_list = 0, overruns = 0;
    for (uint32_t slot = 0; slot < f->slots_used; slot++) {
        const struct flow_request *r = &f->requests[slot];
        audit_place(f, r);
        audit_hold(r);
        bool is_alive = r->state != FLOW_FREE;
        alive += is_alive;
        holds += is_alive && (r->hold == FLOW_HOLD_ASKED || r->hold == FLOW_HOLD_HELD);
        asked += is_alive && r->is_busy_retry;
        busy += r->state == FLOW_BUSY;
        listed += is_alive && r->is_listed;
        overruns += is_alive && r->is_overrun;
    }
    for (uint32_t at_1 = f->effects_first_1; at_1; at_1 = f->requests[at_1 - 1].next_effect_1)
        in_list++;
    WEIR_INVARIANT(f->requests_now == alive);
    WEIR_INVARIANT(f->holds_now == holds);
    WEIR_INVARIANT(f->busy_asked == asked);
    WEIR_INVARIANT(f->overruns_now == overruns);
    WEIR_INVARIANT(in_list == listed);
    audit_busy(f, busy);
    weir_gate_audit(f->gate);
}
