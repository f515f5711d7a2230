/* The naive ledger of the simulated host: every request has one hold at a time, and what a scope has
 * reserved or committed in a window is added up over all requests whenever it is asked for. */
#include <stdlib.h>

#include "support/check.h"
#include "support/sim_private.h"

static uint64_t ledger_sum(const struct sim *sim, uint32_t scope, uint64_t window,
                           enum sim_ledger_state state)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < sim->requests_count; i++) {
        const struct sim_request *r = &sim->requests[i];
        if (r->hold == state && r->hold_scope == scope && r->hold_window == window)
            sum += state == SIM_HOLD_HELD ? r->held_tok : r->settled_tok;
    }
    return sum;
}

uint64_t sim_reserved_tok(const struct sim *sim, uint32_t scope)
{
    return ledger_sum(sim, scope, sim->window[scope], SIM_HOLD_HELD);
}

uint64_t sim_committed_tok(const struct sim *sim, uint32_t scope)
{
    return ledger_sum(sim, scope, sim->window[scope], SIM_HOLD_CLOSED);
}

static bool ledger_is_stuck(const struct sim *sim)
{
    return sim->now_ns >= sim->config.stuck_from_ns && sim->now_ns < sim->config.stuck_until_ns;
}

/* Negative: not available. */
static int64_t ledger_delay(struct sim *sim)
{
    return sim->config.ledger_delay ? sim->config.ledger_delay(sim) : 0;
}

/* The first waits in a hanging ledger until by_ns, and is told then that it is not available. */
static int64_t ledger_delay_until(struct sim *sim, uint64_t by_ns, uint64_t *answer_at_ns)
{
    int64_t delay = ledger_delay(sim);
    *answer_at_ns = sim->now_ns + (uint64_t)(delay > 0 ? delay : 0);
    if (!ledger_is_stuck(sim))
        return delay;
    *answer_at_ns = sim->is_stuck_one ? sim->now_ns : by_ns;
    sim->is_stuck_one = true;
    return -1;
}

/* When the end of a hold is known to be durable. */
static uint64_t ledger_close_at_ns(struct sim *sim)
{
    int64_t delay = ledger_delay(sim);
    uint64_t at_ns = ledger_is_stuck(sim) ? sim->config.stuck_until_ns : sim->now_ns;
    return at_ns + (uint64_t)(delay > 0 ? delay : 0);
}

static enum weir_reserve_answer ledger_decide(const struct sim *sim, uint32_t scope,
                                              uint64_t window, uint64_t more_tok,
                                              uint64_t whole_tok)
{
    uint64_t granted = sim->granted_tok[scope];
    uint64_t committed = ledger_sum(sim, scope, window, SIM_HOLD_CLOSED);
    if (whole_tok > granted)
        return WEIR_RESERVE_NEVER;
    if (committed + more_tok > granted)
        return WEIR_RESERVE_EXHAUSTED;
    if (committed + ledger_sum(sim, scope, window, SIM_HOLD_HELD) + more_tok > granted)
        return WEIR_RESERVE_BUSY;
    return WEIR_RESERVE_HELD;
}

/* When the scope's next window begins. */
static uint64_t ledger_reset_ns(const struct sim *sim, uint32_t scope)
{
    uint64_t period_ns = sim->config.scopes[scope].period_ns;
    return period_ns ? (sim->window[scope] + 1) * period_ns : WEIR_NEVER_NS;
}

static struct weir_reserve_told ledger_told(struct sim *sim, struct sim_request *r,
                                            enum weir_reserve_answer answer, uint32_t scope)
{
    const struct sim_scope *s = &sim->config.scopes[scope];
    struct weir_reserve_told told = {.answer = answer,
                                     .scope = answer == WEIR_RESERVE_HELD ? WEIR_NONE : scope,
                                     .fallback_pool = WEIR_NONE,
                                     .fallback_scope = WEIR_NONE,
                                     .reset_ns = WEIR_NEVER_NS};
    if (answer != WEIR_RESERVE_EXHAUSTED)
        return told;
    told.policy = s->policy;
    told.reset_ns = ledger_reset_ns(sim, scope);
    if (s->policy == WEIR_EXHAUSTED_FALLBACK) {
        told.fallback_pool = s->fallback_pool;
        told.fallback_scope = s->fallback_scope;
        told.hold = UINT64_C(2) << 40 | ++sim->holds_made;
    }
    uint64_t deadline_ns = weir_min_u64(r->arrival.queue_deadline_ns, r->arrival.total_deadline_ns);
    if (s->policy == WEIR_EXHAUSTED_QUEUE && told.reset_ns <= deadline_ns)
        sim_events_push(
            sim, (struct sim_event){.kind = SIM_WINDOW,
                                    .at_ns = weir_max_u64(sim->now_ns, told.reset_ns + s->late_ns),
                                    .b = scope});
    return told;
}

static void ledger_tell(struct sim *sim, uint32_t request, const struct weir_reserve_told *told)
{
    struct sim_request *r = &sim->requests[request];
    r->is_asked = false;
    if (told->answer == WEIR_RESERVE_EXHAUSTED && told->policy == WEIR_EXHAUSTED_FALLBACK &&
        r->falls == 0) {
        r->falls++;
        r->hold_id = told->hold;
        r->hold_scope = told->fallback_scope;
    }
    r->is_queued_once |=
        told->answer == WEIR_RESERVE_EXHAUSTED && told->policy == WEIR_EXHAUSTED_QUEUE;
    weir_flow_reserved(sim->flow, r->id, told, sim->now_ns);
}

void sim_ledger_reserve(struct sim *sim, uint32_t request, const struct weir_effect *e)
{
    struct sim_request *r = &sim->requests[request];
    CHECK_INT(r->hold, SIM_HOLD_NONE);
    CHECK(!r->is_calling);
    CHECK(e->hold == r->hold_id);
    CHECK_INT(e->scope, r->hold_scope);
    if (r->reserve_tok)
        CHECK_INT(e->tokens, r->reserve_tok); /* a fallback changes nothing of the amount */
    r->reserve_tok = r->held_tok = r->told_tok = e->tokens;
    r->is_asked = true;
    r->hold_window = sim->window[e->scope];
    uint64_t at_ns;
    int64_t delay = ledger_delay_until(sim, e->deadline_ns, &at_ns);
    enum weir_reserve_answer answer = WEIR_RESERVE_UNAVAILABLE;
    if (delay >= 0)
        answer = ledger_decide(sim, e->scope, r->hold_window, e->tokens, e->tokens);
    uint64_t said_ns;
    if (sim->config.ledger_says && sim->config.ledger_says(sim, r, &answer, &said_ns))
        at_ns = sim->now_ns + said_ns;
    r->hold = answer == WEIR_RESERVE_HELD ? SIM_HOLD_HELD : SIM_HOLD_NONE;
    struct weir_reserve_told told = ledger_told(sim, r, answer, e->scope);
    if (!sim->config.ledger_delay && at_ns == sim->now_ns) {
        ledger_tell(sim, request, &told);
        return;
    }
    sim_events_push(
        sim, (struct sim_event){
                 .kind = SIM_RESERVE_ANSWER, .at_ns = at_ns, .request = request, .told = told});
}

void sim_ledger_extend(struct sim *sim, uint32_t request, const struct weir_effect *e)
{
    struct sim_request *r = &sim->requests[request];
    CHECK_INT(r->hold, SIM_HOLD_HELD);
    CHECK(r->is_calling);
    CHECK_INT(r->extend_tok, 0); /* one at a time */
    CHECK(!r->is_overrun);       /* a refused one is the last */
    CHECK(e->hold == r->hold_id);
    CHECK_INT(e->scope, r->hold_scope);
    CHECK(e->tokens > r->held_tok);
    CHECK(e->deadline_ns >= sim->now_ns);
    r->extend_tok = e->tokens;
    r->extends++;
    uint64_t at_ns;
    int64_t delay = ledger_delay_until(sim, e->deadline_ns, &at_ns);
    enum weir_reserve_answer answer = WEIR_RESERVE_UNAVAILABLE;
    if (delay >= 0)
        answer = ledger_decide(sim, e->scope, r->hold_window, e->tokens - r->held_tok, e->tokens);
    if (answer == WEIR_RESERVE_HELD)
        r->held_tok = e->tokens;
    sim_events_push(sim, (struct sim_event){.kind = SIM_EXTEND_ANSWER,
                                            .at_ns = at_ns,
                                            .request = request,
                                            .a = answer,
                                            .b = e->scope});
}

static void ledger_extended(struct sim *sim, const struct sim_event *e)
{
    struct sim_request *r = &sim->requests[e->request];
    bool is_running = r->is_calling && r->is_sent && !r->is_cancelled && r->hold == SIM_HOLD_HELD;
    if (e->a == WEIR_RESERVE_HELD)
        r->told_tok = r->extend_tok;
    r->extend_tok = 0;
    r->is_overrun |= is_running && e->a != WEIR_RESERVE_HELD;
    weir_flow_extended(sim->flow, r->id, (enum weir_reserve_answer)e->a, (uint32_t)e->b,
                       sim->now_ns);
}

void sim_ledger_close(struct sim *sim, uint32_t request, const struct weir_effect *e)
{
    struct sim_request *r = &sim->requests[request];
    CHECK_INT(r->hold, SIM_HOLD_HELD);
    CHECK(e->hold == r->hold_id);
    CHECK_INT(e->scope, r->hold_scope);
    r->hold = SIM_HOLD_CLOSED;
    if (e->kind == WEIR_EFFECT_VOID) {
        CHECK(!r->was_sent);
        r->is_voided = true;
    } else {
        CHECK(r->was_sent);
        CHECK_INT(e->tokens, r->naive_tok);
        CHECK_INT(e->estimated, r->is_naive_estimated);
        CHECK(e->usage.input_tok >= 0 && e->usage.output_tok >= 0);
        CHECK_INT(e->usage.input_tok + e->usage.output_tok, e->tokens);
        r->is_settled = true;
        r->settled_tok = e->tokens;
    }
    sim_events_push(sim, (struct sim_event){.kind = SIM_BUDGET_FREED,
                                            .at_ns = ledger_close_at_ns(sim),
                                            .request = request});
}

void sim_grant(struct sim *sim, uint32_t scope, uint64_t granted_tok)
{
    sim->granted_tok[scope] = granted_tok;
    weir_flow_budget_raised(sim->flow, scope);
}

/* The window of a scope begins; the flow hears of it as late as of any answer. */
static void ledger_window(struct sim *sim, uint32_t scope)
{
    uint64_t number = sim->now_ns / sim->config.scopes[scope].period_ns;
    if (number <= sim->window[scope])
        return;
    sim->window[scope] = number;
    sim_events_push(sim, (struct sim_event){.kind = SIM_WINDOW_ANSWER,
                                            .at_ns = ledger_close_at_ns(sim),
                                            .b = scope});
}

void sim_ledger_event(struct sim *sim, const struct sim_event *e)
{
    switch (e->kind) {
    case SIM_RESERVE_ANSWER:
        ledger_tell(sim, e->request, &e->told);
        return;
    case SIM_EXTEND_ANSWER:
        ledger_extended(sim, e);
        return;
    case SIM_BUDGET_FREED:
        weir_flow_budget_freed(sim->flow);
        return;
    case SIM_WINDOW:
        ledger_window(sim, (uint32_t)e->b);
        return;
    case SIM_WINDOW_ANSWER:
        weir_flow_budget_raised(sim->flow, (uint32_t)e->b);
        return;
    case SIM_ARRIVE:
    case SIM_CLIENT_GONE:
    case SIM_DRAIN:
    case SIM_CALL_SENT:
    case SIM_CALL_HEAD:
    case SIM_CALL_PROGRESS:
    case SIM_CALL_END:
        return;
    }
}
