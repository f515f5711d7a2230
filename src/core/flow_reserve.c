/* flow_reserve: the hold of a request: asked for, answered, and what a refusal by the budget leads
 * to.
 *
 *   HELD         joins the queue again, or the call begins
 *   BUSY         waits, outside the queue, for holds of others to end
 *   EXHAUSTED    refused; or moved to a fallback, once; or waits for the window (flow_busy)
 *   NEVER        refused: no window's grant is large enough
 *   UNAVAILABLE  refused: what is not known is not sent */
#include "core/flow_private.h"

enum weir_reserve_answer weir_flow_reserve_answer(enum weir_ledger_result result)
{
    switch (result) {
    case WEIR_LEDGER_HELD:
    case WEIR_LEDGER_SAME:
        return WEIR_RESERVE_HELD;
    case WEIR_LEDGER_BUSY:
        return WEIR_RESERVE_BUSY;
    case WEIR_LEDGER_EXHAUSTED:
        return WEIR_RESERVE_EXHAUSTED;
    case WEIR_LEDGER_NEVER:
        return WEIR_RESERVE_NEVER;
    case WEIR_LEDGER_SETTLED:
    case WEIR_LEDGER_VOIDED:
    case WEIR_LEDGER_LATE:
    case WEIR_LEDGER_UNMATCHED:
    case WEIR_LEDGER_DONE:
    case WEIR_LEDGER_FINISHED:
    case WEIR_LEDGER_CONFLICT:
    case WEIR_LEDGER_UNKNOWN:
    case WEIR_LEDGER_FULL:
    case WEIR_LEDGER_BAD:
    case WEIR_LEDGER_UNAVAILABLE:
        return WEIR_RESERVE_UNAVAILABLE;
    }
    return WEIR_RESERVE_UNAVAILABLE;
}

void flow_reserve_ask(struct weir_flow *f, struct flow_request *r)
{
    WEIR_INVARIANT(r->hold == FLOW_HOLD_NONE);
    r->hold = FLOW_HOLD_ASKED;
    r->busy_epoch = f->busy_epoch;
    r->raise_epoch = f->raise_epoch;
    f->holds_now++;
    flow_tell(f, r, WEIR_EFFECT_RESERVE);
}

/* A window that should have begun already begins any moment. */
struct weir_refused flow_reserve_spent(uint32_t scope, uint64_t reset_ns, uint64_t now_ns)
{
    uint64_t hint_ns = 0;
    if (reset_ns != WEIR_NEVER_NS)
        hint_ns = reset_ns > now_ns ? reset_ns - now_ns : FLOW_HINT_SHORT_NS;
    return flow_refused(WEIR_REFUSAL_BUDGET_EXHAUSTED, hint_ns, scope, WEIR_NONE);
}

static uint64_t reserve_deadline_ns(const struct flow_request *r)
{
    return weir_min_u64(r->queue_deadline_ns, r->total_deadline_ns);
}

static void reserved_held(struct weir_flow *f, struct flow_request *r, uint64_t now_ns)
{
    if (r->state == FLOW_BUSY) {
        uint32_t tenant = r->tenant;
        flow_busy_remove(f, r);
        r->state = FLOW_WAITING;
        weir_gate_rejoin(f->gate, flow_slot(f, r), now_ns);
        flow_busy_ask_head(f, tenant);
    } else if (r->state == FLOW_GRANTED) {
        flow_start(f, r, now_ns);
    }
}

/* The ledger said no for good: out of wherever it stands. */
static void reserved_refused(struct weir_flow *f, struct flow_request *r,
                             const struct weir_refused *refused, uint64_t now_ns)
{
    uint32_t tenant = r->tenant;
    bool was_busy = r->state == FLOW_BUSY;
    if (was_busy)
        flow_busy_remove(f, r);
    flow_waited(r, now_ns);
    if (r->state == FLOW_GRANTED)
        flow_return_unused(f, r, now_ns);
    else
        weir_gate_leave(f->gate, flow_slot(f, r));
    flow_refuse(f, r, refused);
    if (was_busy)
        flow_busy_ask_head(f, tenant);
}

/* It waits in a line, outside the queue. */
static void reserved_aside(struct weir_flow *f, struct flow_request *r, enum flow_line line,
                           uint64_t now_ns)
{
    uint32_t slot = flow_slot(f, r);
    if (r->state == FLOW_WAITING)
        weir_gate_set_aside(f->gate, slot);
    else if (r->state == FLOW_GRANTED)
        weir_gate_return_aside(f->gate, slot, reserve_deadline_ns(r), now_ns);
    if (r->state == FLOW_BUSY && r->line == line)
        return;
    if (r->state == FLOW_BUSY)
        flow_busy_remove(f, r);
    r->state = FLOW_BUSY;
    flow_busy_add(f, r, line);
}

static void reserved_busy(struct weir_flow *f, struct flow_request *r, uint32_t scope,
                          uint64_t now_ns)
{
    r->busy_scope = scope;
    reserved_aside(f, r, FLOW_LINE_BUSY, now_ns);
    /* Budget may have been freed between the ledger's answer and now. */
    if (r->busy_epoch != f->busy_epoch)
        flow_busy_ask_head(f, r->tenant);
    else
        flow_busy_learn(f, r);
}

static void reserved_queue(struct weir_flow *f, struct flow_request *r,
                           const struct weir_reserve_told *told, uint64_t now_ns)
{
    bool was_busy = r->state == FLOW_BUSY;
    /* A window may have begun between the ledger's answer and now: then it is asked again. */
    bool is_raised = r->raise_epoch != f->raise_epoch;
    r->busy_scope = told->scope;
    r->until_ns = told->reset_ns;
    reserved_aside(f, r, is_raised ? FLOW_LINE_BUSY : FLOW_LINE_SPENT, now_ns);
    if (is_raised || was_busy)
        flow_busy_ask_head(f, r->tenant);
}

/* To the fallback's pool, by the rules of an arrival there, under a new hold on its scope. */
static void reserved_fall_back(struct weir_flow *f, struct flow_request *r,
                               const struct weir_reserve_told *told, uint64_t now_ns)
{
    struct weir_refused refused;
    uint32_t tenant = r->tenant;
    bool was_busy = r->state == FLOW_BUSY;
    if (was_busy)
        flow_busy_remove(f, r);
    r->is_fallen = true;
    r->scope = told->fallback_scope;
    r->hold_id = told->hold;
    r->state = FLOW_WAITING;
    if (weir_gate_move(f->gate, flow_slot(f, r), told->fallback_pool, reserve_deadline_ns(r),
                       now_ns, &refused) == WEIR_REFUSAL_NONE) {
        flow_reserve_ask(f, r);
    } else {
        flow_waited(r, now_ns);
        flow_refuse(f, r, &refused);
    }
    if (was_busy)
        flow_busy_ask_head(f, tenant);
}

static void reserved_exhausted(struct weir_flow *f, struct flow_request *r,
                               const struct weir_reserve_told *told, uint64_t now_ns)
{
    struct weir_refused refused = flow_reserve_spent(told->scope, told->reset_ns, now_ns);
    switch (told->policy) {
    case WEIR_EXHAUSTED_FALLBACK:
        if (r->is_fallen)
            break;
        reserved_fall_back(f, r, told, now_ns);
        return;
    case WEIR_EXHAUSTED_QUEUE:
        if (told->reset_ns == WEIR_NEVER_NS || told->reset_ns > reserve_deadline_ns(r))
            break;
        reserved_queue(f, r, told, now_ns);
        return;
    case WEIR_EXHAUSTED_REFUSE:
        break;
    }
    reserved_refused(f, r, &refused, now_ns);
}

void weir_flow_reserved(struct weir_flow *f, uint64_t request, const struct weir_reserve_told *told,
                        uint64_t now_ns)
{
    struct weir_refused refused;
    struct flow_request *r = flow_find(f, request);
    if (!r || r->hold != FLOW_HOLD_ASKED || r->effects & UINT32_C(1) << WEIR_EFFECT_RESERVE)
        return;
    bool is_held = told->answer == WEIR_RESERVE_HELD;
    r->hold = is_held ? FLOW_HOLD_HELD : FLOW_HOLD_NONE;
    f->holds_now -= !is_held;
    flow_busy_answered(f, r);
    if (r->state == FLOW_LEAVING) {
        flow_leave(f, r);
        flow_busy_sweep(f);
        return;
    }
    switch (told->answer) {
    case WEIR_RESERVE_HELD:
        reserved_held(f, r, now_ns);
        break;
    case WEIR_RESERVE_BUSY:
        reserved_busy(f, r, told->scope, now_ns);
        break;
    case WEIR_RESERVE_EXHAUSTED:
        reserved_exhausted(f, r, told, now_ns);
        break;
    case WEIR_RESERVE_NEVER:
        refused = flow_refused(WEIR_REFUSAL_TOO_LARGE, 0, told->scope, WEIR_NONE);
        reserved_refused(f, r, &refused, now_ns);
        break;
    case WEIR_RESERVE_UNAVAILABLE:
        refused =
            flow_refused(WEIR_REFUSAL_LEDGER_UNAVAILABLE, FLOW_HINT_SHORT_NS, WEIR_NONE, WEIR_NONE);
        reserved_refused(f, r, &refused, now_ns);
        break;
    }
    flow_busy_sweep(f);
}
