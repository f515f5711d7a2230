/* flow_events: what is told of a request that was admitted, and how it moves it. */
#include "core/flow_private.h"

void flow_waited(struct flow_request *r, uint64_t now_ns)
{
    r->summary.queue_wait_ns += weir_sub_sat_u64(now_ns, r->queued_ns);
    r->queued_ns = now_ns;
}

/* The permit is taken and the hold durable: the call may begin. */
void flow_start(struct weir_flow *f, struct flow_request *r, uint64_t now_ns)
{
    weir_gate_started(f->gate, flow_slot(f, r));
    r->state = FLOW_CALLING;
    r->is_sent = false;
    r->is_cancelled = false;
    r->is_retry_wanted = false;
    r->summary.attempts++;
    r->summary.upstream = weir_gate_upstream_of(f->gate, flow_slot(f, r));
    r->summary.dispatched_ns = now_ns;
    r->summary.first_byte_ns = 0;
    flow_waited(r, now_ns);
    if (r->patience_ns == WEIR_NEVER_NS)
        r->patience_ns = weir_sub_sat_u64(r->queue_deadline_ns, now_ns);
    flow_tell(f, r, WEIR_EFFECT_DISPATCH);
}

void flow_return_unused(struct weir_flow *f, struct flow_request *r, uint64_t now_ns)
{
    struct weir_gate_used unused = {.outcome = WEIR_BREAKER_UNUSED};
    weir_gate_release(f->gate, flow_slot(f, r), &unused, now_ns);
}

void weir_flow_sent(struct weir_flow *f, uint64_t request, uint64_t now_ns)
{
    struct flow_request *r = flow_find(f, request);
    if (!r || r->state != FLOW_CALLING)
        return;
    r->state = FLOW_SENT;
    r->is_sent = true;
    r->was_sent = true;
    r->summary.sent_ns = now_ns;
}

bool weir_flow_head(struct weir_flow *f, uint64_t request, uint32_t status, uint64_t pause_ns,
                    uint64_t now_ns)
{
    struct flow_request *r = flow_find(f, request);
    if (!r)
        return false;
    weir_flow_sent(f, request, now_ns); /* who answers has been sent something */
    if (r->state != FLOW_SENT)
        return false;
    uint32_t slot = flow_slot(f, r);
    r->summary.status = status;
    r->summary.head_ns = now_ns;
    bool can_retry = status >= 500 && r->is_repeatable && !r->is_cancelled && !f->is_queue_over &&
                     now_ns < r->total_deadline_ns && weir_gate_has_target(f->gate, slot, now_ns);
    weir_gate_head(f->gate, slot, status, pause_ns, now_ns);
    if (r->is_client_gone || r->is_told)
        return false;
    if (can_retry) {
        r->is_retry_wanted = true;
        r->is_cancelled = true;
        flow_tell(f, r, WEIR_EFFECT_CANCEL);
        return false;
    }
    r->state = FLOW_ANSWERING;
    return true;
}

bool weir_flow_first_byte(struct weir_flow *f, uint64_t request, uint64_t now_ns)
{
    struct flow_request *r = flow_find(f, request);
    if (!r || r->state != FLOW_ANSWERING || r->summary.first_byte_ns != 0)
        return false;
    r->summary.first_byte_ns = now_ns;
    bool is_good = r->summary.status >= 200 && r->summary.status < 300;
    return r->is_stream && is_good &&
           weir_gate_first_byte(f->gate, flow_slot(f, r),
                                weir_sub_sat_u64(now_ns, r->summary.dispatched_ns), now_ns);
}

static struct weir_refused ended_failure(const struct weir_flow *f, const struct flow_request *r,
                                         enum weir_call_end end, uint64_t now_ns)
{
    bool is_timeout = end == WEIR_CALL_CONNECT_TIMEOUT || end == WEIR_CALL_FIRST_BYTE_TIMEOUT ||
                      end == WEIR_CALL_IDLE_TIMEOUT || end == WEIR_CALL_TOTAL_TIMEOUT;
    uint64_t closed_ns =
        weir_gate_pool_closed_for_ns(f->gate, weir_gate_pool_of(f->gate, flow_slot(f, r)), now_ns);
    return flow_refused(
        is_timeout ? WEIR_REFUSAL_UPSTREAM_TIMEOUT : WEIR_REFUSAL_UPSTREAM_UNAVAILABLE,
        weir_max_u64(closed_ns, FLOW_HINT_SHORT_NS), WEIR_NONE, r->summary.upstream);
}

/* May this attempt be followed by another, without the client having seen anything of it? */
static bool ended_may_retry(struct weir_flow *f, const struct flow_request *r,
                            const struct weir_call_facts *facts, uint64_t now_ns)
{
    bool has_failed = r->is_retry_wanted || (facts->end != WEIR_CALL_COMPLETE && !r->is_cancelled);
    return has_failed && r->state != FLOW_ANSWERING && !r->is_client_gone && !r->is_told &&
           (!r->was_sent || r->is_repeatable) && !f->is_queue_over &&
           now_ns < r->total_deadline_ns && weir_gate_has_target(f->gate, flow_slot(f, r), now_ns);
}

/* Books the attempt in the record; the last one's total is what is settled. */
static void ended_book(struct weir_flow *f, struct flow_request *r,
                       const struct flow_charge *charge, const struct weir_call_facts *facts)
{
    struct flow_tenant *t = &f->tenants[r->tenant];
    r->earlier_tok = weir_min_u64(r->earlier_tok + charge->tokens, (uint64_t)WEIR_TOK_MAX);
    r->was_estimated |= charge->is_estimated;
    r->summary.charged_tok = r->earlier_tok;
    r->summary.estimated = r->was_estimated;
    r->summary.usage = charge->usage;
    if (facts->status)
        r->summary.status = facts->status;
    t->input_tok += charge->used.input_tok;
    t->output_tok += charge->used.output_tok;
    flow_learn(f, r, facts);
}

static void ended_retry(struct weir_flow *f, struct flow_request *r,
                        const struct flow_charge *charge, enum weir_call_end end, uint64_t now_ns)
{
    r->refused = ended_failure(f, r, end, now_ns);
    /* Patience is for the queue: what the failed call took does not use it up. */
    uint64_t deadline_ns =
        weir_min_u64(weir_add_sat_u64(now_ns, r->patience_ns), r->total_deadline_ns);
    r->queued_ns = now_ns;
    r->state = FLOW_WAITING;
    weir_gate_requeue(f->gate, flow_slot(f, r), &charge->used, deadline_ns, now_ns);
}

void weir_flow_ended(struct weir_flow *f, uint64_t request, const struct weir_call_facts *facts,
                     uint64_t now_ns)
{
    struct flow_request *r = flow_find(f, request);
    if (!r || r->state < FLOW_CALLING || r->state > FLOW_ANSWERING ||
        r->effects & UINT32_C(1) << WEIR_EFFECT_DISPATCH)
        return;
    flow_untell(r, WEIR_EFFECT_CANCEL); /* nothing is left to cancel */
    r->is_sent |= facts->sent;
    r->was_sent |= r->is_sent;
    struct flow_charge charge = flow_charge_of(r, facts);
    if (r->is_stream && r->choices == 1 && r->summary.first_byte_ns > 0 &&
        facts->end == WEIR_CALL_COMPLETE)
        charge.used.answer_ns = weir_sub_sat_u64(now_ns, r->summary.first_byte_ns);
    charge.used.is_late = facts->end == WEIR_CALL_FIRST_BYTE_TIMEOUT;
    ended_book(f, r, &charge, facts);
    if (ended_may_retry(f, r, facts, now_ns)) {
        ended_retry(f, r, &charge, facts->end, now_ns);
        return;
    }
    bool was_answering = r->state == FLOW_ANSWERING;
    weir_gate_release(f->gate, flow_slot(f, r), &charge.used, now_ns);
    r->summary.ended_ns = now_ns;
    r->summary.client_gone = r->is_client_gone;
    if (!was_answering || facts->end != WEIR_CALL_COMPLETE) {
        struct weir_refused failure = ended_failure(f, r, facts->end, now_ns);
        flow_tell_client(f, r, was_answering ? WEIR_EFFECT_CUT : WEIR_EFFECT_REFUSE, &failure);
    }
    flow_leave(f, r);
}

static void flow_cancel(struct weir_flow *f, struct flow_request *r)
{
    if (r->is_cancelled)
        return;
    r->is_cancelled = true;
    flow_tell(f, r, WEIR_EFFECT_CANCEL);
}

/* Ends a request from our side, in whatever state; the client has been told, or is gone. */
void flow_abandon(struct weir_flow *f, struct flow_request *r, uint64_t now_ns)
{
    uint32_t tenant = r->tenant;
    switch (r->state) {
    case FLOW_FREE:
    case FLOW_LEAVING:
    case FLOW_GONE:
        return;
    case FLOW_BUSY:
        flow_busy_remove(f, r);
        flow_waited(r, now_ns);
        weir_gate_leave(f->gate, flow_slot(f, r));
        flow_leave(f, r);
        if (r->line == FLOW_LINE_BUSY)
            flow_busy_ask_head(f, tenant);
        return;
    case FLOW_WAITING:
        flow_waited(r, now_ns);
        weir_gate_leave(f->gate, flow_slot(f, r));
        flow_leave(f, r);
        return;
    case FLOW_CALLING:
        if (!flow_untell(r, WEIR_EFFECT_DISPATCH)) {
            flow_cancel(f, r);
            return;
        }
        r->summary.attempts--; /* the host never heard of it */
        flow_return_unused(f, r, now_ns);
        flow_leave(f, r);
        return;
    case FLOW_GRANTED:
        flow_return_unused(f, r, now_ns);
        flow_leave(f, r);
        return;
    case FLOW_SENT:
    case FLOW_ANSWERING:
        flow_cancel(f, r);
        return;
    }
}

void weir_flow_client_gone(struct weir_flow *f, uint64_t request, uint64_t now_ns)
{
    struct flow_request *r = flow_find(f, request);
    if (!r)
        return;
    r->is_client_gone = true;
    r->is_retry_wanted = false;
    r->summary.client_gone = true;
    bool was_untold = flow_untell(r, WEIR_EFFECT_REFUSE);
    was_untold |= flow_untell(r, WEIR_EFFECT_CUT);
    if (was_untold) {
        f->refusals[r->summary.refusal]--;
        f->tenants[r->tenant].refused--;
        r->summary.refusal = WEIR_REFUSAL_NONE;
    }
    flow_abandon(f, r, now_ns);
}
