/* effects: carries out what the flow machine asks for.
 *
 * Once a turn: answers of the store go in, time goes in, the gate is pumped, effects come out,
 * until all is quiet. An effect may cause events at once (a memory store answers, a call cannot
 * start), so it is a loop; it ends because every round moves at least one request towards its end.
 */
#include "gateway/admin.h"
#include "gateway/budget.h"
#include "gateway/rollover.h"
#include "gateway/state.h"

#define EFFECTS_ANSWERS_AT_ONCE 64

static void effects_reserved(struct weir_gateway *g, uint64_t request,
                             enum weir_reserve_answer answer, uint32_t scope, uint64_t now_ns)
{
    struct weir_reserve_told told = {.answer = answer, .scope = scope, .reset_ns = WEIR_NEVER_NS};
    const struct weir_request *r = weir_flow_host(g->flow, request);
    if (!r)
        return; /* nobody waits for it any more */
    if (answer == WEIR_RESERVE_EXHAUSTED)
        weir_budget_tell(g, r, scope, &told);
    weir_flow_reserved(g->flow, request, &told, now_ns);
}

/* The tag of a store operation is the flow's request id for RESERVE and EXTEND; the others are
 * answered to nobody. */
static void effects_reserve(struct weir_gateway *g, const struct weir_effect *e, uint64_t now_ns)
{
    struct weir_store_op op = {.ledger = {.kind = WEIR_LEDGER_RESERVE,
                                          .scope = e->scope,
                                          .parent = WEIR_NONE,
                                          .hold = e->hold,
                                          .amount_tok = (int64_t)e->tokens},
                               .tag = e->request,
                               .deadline_ns = e->deadline_ns ? e->deadline_ns : WEIR_NEVER_NS};
    op.has_key = weir_replay_store_key(e->host, op.key);
    if (!weir_store_submit(g->store, &op))
        effects_reserved(g, e->request, WEIR_RESERVE_UNAVAILABLE, WEIR_NONE, now_ns);
}

static void effects_extend(struct weir_gateway *g, const struct weir_effect *e, uint64_t now_ns)
{
    struct weir_store_op op = {.ledger = {.kind = WEIR_LEDGER_EXTEND,
                                          .scope = e->scope,
                                          .parent = WEIR_NONE,
                                          .hold = e->hold,
                                          .amount_tok = (int64_t)e->tokens},
                               .tag = e->request,
                               .deadline_ns = e->deadline_ns};
    if (!weir_store_submit(g->store, &op))
        weir_flow_extended(g->flow, e->request, WEIR_RESERVE_UNAVAILABLE, WEIR_NONE, now_ns);
}

static void effects_close_hold(struct weir_gateway *g, const struct weir_effect *e)
{
    const char *upstream =
        e->upstream == WEIR_NONE ? "other" : g->config->upstreams[e->upstream].name;
    struct weir_store_op op = {
        .ledger = {.kind = e->kind == WEIR_EFFECT_SETTLE ? WEIR_LEDGER_SETTLE : WEIR_LEDGER_VOID,
                   .scope = e->scope,
                   .parent = WEIR_NONE,
                   .hold = e->hold,
                   .amount_tok = (int64_t)e->tokens},
        .tag = e->request,
        .deadline_ns = WEIR_NEVER_NS,
        .usage = {.input_tok = e->usage.input_tok,
                  .cached_tok = e->usage.cached_tok,
                  .cache_write_tok = e->usage.cache_write_tok,
                  .output_tok = e->usage.output_tok,
                  .upstream = weir_store_label(g->store, upstream),
                  .model = weir_store_label(g->store, weir_routes_model_name(g->routes, e->model)),
                  .estimated = e->estimated}};
    bool taken = weir_store_submit(g->store, &op);
    WEIR_INVARIANT(taken); /* the store's contract: closing a held hold always finds room */
}

static void effects_finish(struct weir_gateway *g, struct weir_request *r,
                           const struct weir_effect *e)
{
    weir_metrics_finish(&g->metrics, r, e->summary);
    weir_replay_finish(r, e->summary);
    if (r->metered && e->summary->status / 100 == 2 && !e->summary->client_gone)
        weir_tenancy_count(g->tenancy, r->tenant, e->summary->charged_tok);
    weir_request_log(r, e->summary, e->summary->refusal);
    weir_request_record(r, e->summary, e->summary->refusal);
    r->flow = WEIR_NONE;
    weir_request_release(r);
}

static void effects_carry_out(struct weir_gateway *g, const struct weir_effect *e, uint64_t now_ns)
{
    struct weir_request *r = e->host;
    switch (e->kind) {
    case WEIR_EFFECT_RESERVE:
        effects_reserve(g, e, now_ns);
        return;
    case WEIR_EFFECT_EXTEND:
        effects_extend(g, e, now_ns);
        return;
    case WEIR_EFFECT_DISPATCH:
        weir_upcall_start(r, e->upstream, e->deadline_ns);
        return;
    case WEIR_EFFECT_CANCEL:
        weir_upcall_cancel(r);
        return;
    case WEIR_EFFECT_SETTLE:
        r->settled = e->usage;
        effects_close_hold(g, e);
        return;
    case WEIR_EFFECT_VOID:
        effects_close_hold(g, e);
        return;
    case WEIR_EFFECT_REFUSE:
        weir_request_refuse(r, &e->refused, NULL, NULL);
        return;
    case WEIR_EFFECT_CUT:
        r->was_cut = true;
        weir_answer_cut(r, &e->refused);
        return;
    case WEIR_EFFECT_FINISH:
        effects_finish(g, r, e);
        return;
    }
}

/* One answer of the store, for the flow. */
static void effects_answer(struct weir_gateway *g, const struct weir_store_answer *a,
                           uint64_t now_ns)
{
    switch (a->kind) {
    case WEIR_LEDGER_RESERVE:
        effects_reserved(g, a->tag, weir_flow_reserve_answer(a->result), a->scope, now_ns);
        return;
    case WEIR_LEDGER_EXTEND:
        weir_flow_extended(g->flow, a->tag, weir_flow_reserve_answer(a->result), a->scope, now_ns);
        return;
    case WEIR_LEDGER_SETTLE:
    case WEIR_LEDGER_VOID:
        if (a->result == WEIR_LEDGER_LATE) /* what had lapsed is less now */
            weir_flow_budget_raised(g->flow, WEIR_NONE);
        weir_flow_budget_freed(g->flow);
        return;
    case WEIR_LEDGER_SCOPE:
    case WEIR_LEDGER_WINDOW:
        weir_flow_budget_raised(g->flow, a->scope);
        return;
    case WEIR_LEDGER_ADJUST: /* of its parents too */
        weir_flow_budget_raised(g->flow, WEIR_NONE);
        return;
    case WEIR_LEDGER_SCOPE_FORGET:
        return;
    }
}

/* What the store answered since; false: nothing. */
static bool effects_collect(struct weir_gateway *g, uint64_t now_ns)
{
    struct weir_store_answer answers[EFFECTS_ANSWERS_AT_ONCE];
    bool any = false;
    size_t count;
    do {
        count = weir_store_collect(g->store, now_ns, answers, EFFECTS_ANSWERS_AT_ONCE);
        for (size_t i = 0; i < count; i++) {
            any = true;
            effects_answer(g, &answers[i], now_ns);
            weir_rollover_answered(g, &answers[i], now_ns);
            weir_admin_ledger_answer(g->admin, &answers[i]);
            weir_metrics_ledger(&g->metrics, &answers[i]);
        }
    } while (count == EFFECTS_ANSWERS_AT_ONCE);
    return any;
}

void weir_gateway_pump(struct weir_gateway *g)
{
    uint64_t now_ns = weir_loop_now_ns(g->loop);
    bool again = true;
    if (!g->dirty && now_ns < weir_flow_due_ns(g->flow) && !effects_collect(g, now_ns))
        return;
    g->dirty = false;
    if (now_ns >= weir_flow_due_ns(g->flow))
        weir_flow_tick(g->flow, now_ns);
    while (again) {
        struct weir_effect e;
        weir_flow_pump(g->flow, now_ns);
        again = false;
        while (weir_flow_next(g->flow, &e)) {
            effects_carry_out(g, &e, now_ns);
            again = true;
        }
        if (effects_collect(g, now_ns))
            again = true;
    }
    g->dirty = false; /* what this loop caused, it has taken */
    struct weir_flow_view view;
    weir_flow_view(g->flow, &view);
    weir_metrics_waiters(&g->metrics, view.waiters_now);
    uint64_t due_ns = weir_flow_due_ns(g->flow);
    if (due_ns != g->due_timer.due_ns || !weir_timer_is_set(&g->due_timer))
        weir_timer_set(g->loop, &g->due_timer, due_ns);
}
