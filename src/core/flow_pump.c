/* flow_pump: dispatch, time, drain, and the telling of effects. */
#include "core/flow_private.h"

/* Waiters moved or refused in one pump when a pool's upstreams are all open; the rest in the next.
 */
#define PUMP_TURNED_AWAY_MAX 4096

void weir_flow_drain(struct weir_flow *f, uint64_t queue_until_ns, uint64_t cut_at_ns)
{
    f->is_draining = true;
    f->drain_queue_ns = queue_until_ns;
    f->drain_cut_ns = cut_at_ns;
}

static void drain_refuse_queue(struct weir_flow *f, uint64_t now_ns)
{
    struct weir_refused refused =
        flow_refused(WEIR_REFUSAL_DRAINING, FLOW_HINT_SHORT_NS, WEIR_NONE, WEIR_NONE);
    for (uint32_t slot = 0; slot < f->slots_used; slot++) {
        struct flow_request *r = &f->requests[slot];
        if (r->state != FLOW_WAITING && r->state != FLOW_BUSY && r->state != FLOW_GRANTED)
            continue;
        flow_tell_client(f, r, WEIR_EFFECT_REFUSE, &refused);
        flow_abandon(f, r, now_ns);
    }
}

static void drain_cut_calls(struct weir_flow *f, uint64_t now_ns)
{
    struct weir_refused refused =
        flow_refused(WEIR_REFUSAL_DRAINING, FLOW_HINT_SHORT_NS, WEIR_NONE, WEIR_NONE);
    for (uint32_t slot = 0; slot < f->slots_used; slot++) {
        struct flow_request *r = &f->requests[slot];
        if (r->state < FLOW_CALLING || r->state > FLOW_ANSWERING)
            continue;
        bool is_answering = r->state == FLOW_ANSWERING;
        r->is_retry_wanted = false;
        flow_tell_client(f, r, is_answering ? WEIR_EFFECT_CUT : WEIR_EFFECT_REFUSE, &refused);
        flow_abandon(f, r, now_ns);
    }
}

void weir_flow_pump(struct weir_flow *f, uint64_t now_ns)
{
    struct weir_gate_event event;
    uint32_t turned_away = 0;
    flow_busy_raise(f);
    flow_busy_sweep(f);
    while (turned_away < PUMP_TURNED_AWAY_MAX && weir_gate_next(f->gate, now_ns, &event)) {
        struct flow_request *r = &f->requests[event.waiter];
        WEIR_INVARIANT(r->state == FLOW_WAITING);
        if (!event.granted) {
            turned_away++;
            if (event.refused.reason != WEIR_REFUSAL_NONE) {
                flow_waited(r, now_ns);
                flow_refuse_waiting(f, r, &event.refused);
            }
            continue;
        }
        r->state = FLOW_GRANTED;
        if (r->hold == FLOW_HOLD_HELD || r->hold == FLOW_HOLD_UNNEEDED)
            flow_start(f, r, now_ns);
    }
}

/* A deadline of the queue has come; the gate has let go of it unless it was granted. */
static void tick_expired(struct weir_flow *f, struct flow_request *r, struct weir_refused *refused,
                         uint64_t now_ns)
{
    uint32_t tenant = r->tenant;
    bool was_busy = r->state == FLOW_BUSY;
    flow_waited(r, now_ns);
    bool is_ledger_late =
        r->state == FLOW_GRANTED ||
        (r->hold == FLOW_HOLD_ASKED && !(r->effects & UINT32_C(1) << WEIR_EFFECT_RESERVE));
    if (r->state == FLOW_GRANTED)
        flow_return_unused(f, r, now_ns);
    if (was_busy) {
        flow_busy_remove(f, r);
        refused->scope = r->busy_scope;
        if (r->line == FLOW_LINE_SPENT) /* the window did not begin when it should have */
            *refused = flow_reserve_spent(r->busy_scope, r->until_ns, now_ns);
    } else if (is_ledger_late) {
        *refused =
            flow_refused(WEIR_REFUSAL_LEDGER_UNAVAILABLE, FLOW_HINT_SHORT_NS, WEIR_NONE, WEIR_NONE);
    }
    flow_refuse_waiting(f, r, refused);
    if (was_busy && r->line == FLOW_LINE_BUSY)
        flow_busy_ask_head(f, tenant);
}

void weir_flow_tick(struct weir_flow *f, uint64_t now_ns)
{
    weir_gate_tick(f->gate, now_ns);
    /* Who can pass at its very deadline passes. */
    weir_flow_pump(f, now_ns);
    uint32_t slot;
    struct weir_refused refused;
    while (weir_gate_expired(f->gate, now_ns, &slot, &refused))
        tick_expired(f, &f->requests[slot], &refused, now_ns);
    if (now_ns >= f->drain_queue_ns) {
        f->drain_queue_ns = WEIR_NEVER_NS;
        f->is_queue_over = true;
        drain_refuse_queue(f, now_ns);
    }
    if (now_ns >= f->drain_cut_ns) {
        f->drain_cut_ns = WEIR_NEVER_NS;
        drain_cut_calls(f, now_ns);
    }
}

uint64_t weir_flow_due_ns(const struct weir_flow *f)
{
    return weir_min_u64(weir_gate_due_ns(f->gate),
                        weir_min_u64(f->drain_queue_ns, f->drain_cut_ns));
}

/* What a settle is made of adds up to what it books, also where part of it is our own count or an
 * earlier attempt's. */
static struct weir_flow_usage next_usage(const struct flow_request *r, uint64_t booked_tok)
{
    struct weir_flow_usage usage = r->summary.usage;
    if (usage.input_tok >= 0 && usage.output_tok >= 0 &&
        (uint64_t)usage.input_tok + (uint64_t)usage.output_tok == booked_tok)
        return usage;
    uint64_t input_tok =
        usage.input_tok > 0 ? (uint64_t)usage.input_tok : weir_max_u64(r->estimate.input_tok, 1);
    usage.input_tok = (int64_t)weir_min_u64(input_tok, booked_tok);
    usage.output_tok = (int64_t)booked_tok - usage.input_tok;
    return usage;
}

static void next_fill(const struct weir_flow *f, struct flow_request *r, enum weir_effect_kind kind,
                      struct weir_effect *e)
{
    *e = (struct weir_effect){.kind = kind,
                              .request = flow_id(f, r),
                              .host = r->host,
                              .tenant = r->tenant,
                              .model = r->model,
                              .upstream = r->summary.upstream,
                              .hold = r->hold_id,
                              .scope = r->scope};
    switch (kind) {
    case WEIR_EFFECT_RESERVE:
        e->tokens = r->summary.estimate_tok;
        e->deadline_ns = weir_min_u64(r->queue_deadline_ns, r->total_deadline_ns);
        return;
    case WEIR_EFFECT_EXTEND:
        e->tokens = r->extend_tok;
        e->deadline_ns = r->until_ns;
        return;
    case WEIR_EFFECT_DISPATCH:
        e->deadline_ns = r->total_deadline_ns;
        return;
    case WEIR_EFFECT_CANCEL:
    case WEIR_EFFECT_VOID:
        return;
    case WEIR_EFFECT_SETTLE:
        e->tokens = r->summary.charged_tok;
        e->estimated = r->summary.estimated;
        e->usage = next_usage(r, e->tokens);
        return;
    case WEIR_EFFECT_REFUSE:
    case WEIR_EFFECT_CUT:
        e->refused = r->refused;
        return;
    case WEIR_EFFECT_FINISH:
        e->summary = &r->summary; /* free after this, but not reused before the next call */
        return;
    }
}

bool weir_flow_next(struct weir_flow *f, struct weir_effect *effect)
{
    while (f->effects_first_1) {
        struct flow_request *r = &f->requests[f->effects_first_1 - 1];
        enum weir_effect_kind kind = WEIR_EFFECT_FINISH;
        bool has_any = r->effects != 0;
        if (has_any) {
            kind = (enum weir_effect_kind)__builtin_ctz(r->effects);
            r->effects &= r->effects - 1;
        }
        if (r->effects == 0) {
            r->is_listed = false;
            f->effects_first_1 = r->next_effect_1;
            if (!f->effects_first_1)
                f->effects_last_1 = 0;
        }
        if (!has_any)
            continue; /* all it had was taken back */
        next_fill(f, r, kind, effect);
        if (kind == WEIR_EFFECT_FINISH)
            flow_free(f, r);
        return true;
    }
    return false;
}
