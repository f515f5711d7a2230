/* lab_ledger: the budget's side of the host.
 *
 * Operations take effect on core/ledger in the order in which they are asked for. They are told as
 * the gateway's ledger tells them: by batches. The first operation begins a batch, which is durable
 * ledger_delay_ns later; what is asked meanwhile goes into the next. Without a delay all is told at
 * once.
 *
 * Scopes: those of the scenario, then one for each tenant that names none, then one for what falls
 * back without a scope of its own. The latter have no limit. */
#include "lab/lab_private.h"

static uint32_t ledger_scopes(const struct weir_lab_scenario *s)
{
    return s->scope_count + s->tenant_count + 1;
}

uint32_t lab_ledger_scope_of(const struct weir_lab_scenario *s, uint32_t tenant)
{
    uint32_t scope = s->tenants[tenant].rules.scope;
    return scope == WEIR_NONE ? s->scope_count + tenant : scope;
}

/* Past windows live as long as a hold names them: no longer than a request does. */
static uint32_t ledger_past_windows(const struct weir_lab_scenario *s, uint32_t requests_max)
{
    uint64_t sum = 0;
    uint64_t life_ns = weir_add_sat_u64(weir_add_sat_u64(s->total_max_ns, s->queue_wait_max_ns),
                                        weir_add_sat_u64(s->ledger_delay_ns, s->ledger_delay_ns));
    for (uint32_t i = 0; i < s->scope_count; i++)
        if (s->scopes[i].period_ns)
            sum += weir_min_u64(requests_max, life_ns / s->scopes[i].period_ns) + 2;
    return (uint32_t)sum;
}

static struct weir_ledger_limits ledger_limits(const struct weir_lab_scenario *s,
                                               uint32_t requests_max)
{
    uint32_t scopes = ledger_scopes(s);
    return (struct weir_ledger_limits){.scopes_max = scopes,
                                       .balances_max =
                                           scopes * 2 + ledger_past_windows(s, requests_max),
                                       .holds_max = requests_max + 1};
}

size_t lab_ledger_bytes(const struct weir_lab_scenario *s, uint32_t requests_max)
{
    struct weir_ledger_limits limits = ledger_limits(s, requests_max);
    return weir_ledger_bytes(&limits);
}

/* Nothing is kept elsewhere: what has changed is taken, so that its memory can be used again. */
static void ledger_tidy(struct weir_lab *lab)
{
    struct weir_ledger_balance balance;
    while (weir_ledger_changed_next(lab->ledger, &balance))
        ;
    (void)weir_ledger_forget(lab->ledger, 0, UINT32_MAX);
}

void lab_ledger_start(struct weir_lab *lab, void *mem, size_t bytes)
{
    const struct weir_lab_scenario *s = lab->s;
    struct weir_ledger_limits limits = ledger_limits(s, lab->requests_max);
    lab->ledger = weir_ledger_init(mem, bytes, &limits, 1);
    for (uint32_t i = 0; i < ledger_scopes(s); i++) {
        bool is_named = i < s->scope_count;
        struct weir_ledger_rules rules = {.parent = is_named ? s->scopes[i].parent : WEIR_NONE,
                                          .unlimited = !is_named || s->scopes[i].is_unlimited,
                                          .granted_tok =
                                              is_named ? (int64_t)s->scopes[i].granted_tok : 0};
        struct weir_ledger_answer a = weir_ledger_scope_set(lab->ledger, i, &rules);
        WEIR_INVARIANT(a.result == WEIR_LEDGER_DONE || a.result == WEIR_LEDGER_SAME);
        if (is_named && s->scopes[i].period_ns)
            lab_timer(lab, lab->at.scopes + i, s->scopes[i].period_ns);
    }
    ledger_tidy(lab);
}

/* --- batches --- */

static struct lab_batch *batch_begin(struct weir_lab *lab)
{
    struct lab_batch *batch = lab->batch.is_used ? &lab->gathering : &lab->batch;
    if (!lab->batch.is_used)
        lab_timer(lab, lab->at.ledger, weir_add_sat_u64(lab->now_ns, lab->s->ledger_delay_ns));
    batch->is_used = true;
    return batch;
}

static void batch_add(struct weir_lab *lab, struct lab_request *r, enum lab_note note)
{
    struct lab_batch *batch = batch_begin(lab);
    uint32_t self_1 = lab_index(lab, r) + 1;
    WEIR_INVARIANT(r->note == LAB_NOTE_NONE);
    r->note = note;
    r->note_next_1 = 0;
    r->note_prev_1 = batch->last_1;
    if (batch->last_1)
        lab->requests[batch->last_1 - 1].note_next_1 = self_1;
    else
        batch->first_1 = self_1;
    batch->last_1 = self_1;
}

void lab_ledger_drop(struct weir_lab *lab, struct lab_request *r)
{
    if (r->note == LAB_NOTE_NONE)
        return;
    uint32_t self_1 = lab_index(lab, r) + 1;
    r->note = LAB_NOTE_NONE;
    if (r->note_prev_1)
        lab->requests[r->note_prev_1 - 1].note_next_1 = r->note_next_1;
    if (r->note_next_1)
        lab->requests[r->note_next_1 - 1].note_prev_1 = r->note_prev_1;
    for (uint32_t i = 0; i < 2; i++) {
        struct lab_batch *batch = i == 0 ? &lab->batch : &lab->gathering;
        if (batch->first_1 == self_1)
            batch->first_1 = r->note_next_1;
        if (batch->last_1 == self_1)
            batch->last_1 = r->note_prev_1;
    }
}

static void ledger_tell(struct weir_lab *lab, struct lab_request *r, enum lab_note note)
{
    switch (note) {
    case LAB_NOTE_NONE:
        return;
    case LAB_NOTE_RESERVED:
        weir_flow_reserved(lab->flow, r->flow, &r->told, lab->now_ns);
        return;
    case LAB_NOTE_EXTENDED:
        weir_flow_extended(lab->flow, r->flow, r->told.answer, r->told.scope, lab->now_ns);
        if (r->is_calling && r->is_answering)
            lab_host_progress(lab, r);
        return;
    }
}

static void ledger_tell_batch(struct weir_lab *lab, const struct lab_batch *batch)
{
    if (batch->is_raised)
        weir_flow_budget_raised(lab->flow, batch->raised_scope);
    if (batch->is_freed)
        weir_flow_budget_freed(lab->flow);
}

void lab_ledger_batch_done(struct weir_lab *lab)
{
    /* Whoever is told now may ask again: that goes into the next batch. */
    while (lab->batch.first_1) {
        struct lab_request *r = &lab->requests[lab->batch.first_1 - 1];
        enum lab_note note = r->note;
        lab_ledger_drop(lab, r);
        ledger_tell(lab, r, note);
        lab_audit(lab);
    }
    ledger_tell_batch(lab, &lab->batch);
    lab->batch = lab->gathering;
    lab->gathering = (struct lab_batch){0};
    if (lab->batch.is_used)
        lab_timer(lab, lab->at.ledger, weir_add_sat_u64(lab->now_ns, lab->s->ledger_delay_ns));
}

/* --- operations --- */

/* What a spent scope does with the request. */
static void ledger_policy(struct weir_lab *lab, struct weir_reserve_told *told)
{
    const struct weir_lab_scenario *s = lab->s;
    if (told->scope >= s->scope_count)
        return;
    const struct weir_lab_scope *scope = &s->scopes[told->scope];
    told->policy = scope->on_exhausted;
    if (scope->period_ns)
        told->reset_ns = (lab->now_ns / scope->period_ns + 1) * scope->period_ns;
    if (scope->on_exhausted != WEIR_EXHAUSTED_FALLBACK)
        return;
    told->fallback_pool = scope->fallback_pool;
    told->fallback_scope = scope->fallback_scope == WEIR_NONE ? s->scope_count + s->tenant_count
                                                              : scope->fallback_scope;
    told->hold = weir_ledger_hold_id(1, ++lab->holds_made);
}

void lab_ledger_reserve(struct weir_lab *lab, struct lab_request *r, const struct weir_effect *e)
{
    struct weir_ledger_answer a =
        weir_ledger_reserve(lab->ledger, e->hold, e->scope, (int64_t)e->tokens);
    r->told = (struct weir_reserve_told){
        .answer = weir_flow_reserve_answer(a.result), .scope = a.scope, .reset_ns = WEIR_NEVER_NS};
    if (r->told.answer == WEIR_RESERVE_EXHAUSTED)
        ledger_policy(lab, &r->told);
    lab_note_event(lab, LAB_EVENT_HELD, r->tenant, r->number,
                   (uint64_t)r->told.answer << 56 | e->tokens);
    if (lab->s->ledger_delay_ns == 0)
        ledger_tell(lab, r, LAB_NOTE_RESERVED);
    else
        batch_add(lab, r, LAB_NOTE_RESERVED);
}

void lab_ledger_extend(struct weir_lab *lab, struct lab_request *r, const struct weir_effect *e)
{
    struct weir_ledger_answer a = weir_ledger_extend(lab->ledger, e->hold, (int64_t)e->tokens);
    r->told =
        (struct weir_reserve_told){.answer = weir_flow_reserve_answer(a.result), .scope = a.scope};
    if (lab->s->ledger_delay_ns == 0)
        ledger_tell(lab, r, LAB_NOTE_EXTENDED);
    else
        batch_add(lab, r, LAB_NOTE_EXTENDED);
}

void lab_ledger_close(struct weir_lab *lab, const struct weir_effect *e)
{
    struct weir_ledger_answer a;
    if (e->kind == WEIR_EFFECT_VOID) {
        a = weir_ledger_void(lab->ledger, e->hold);
        WEIR_INVARIANT(a.result == WEIR_LEDGER_VOIDED);
    } else {
        a = weir_ledger_settle(lab->ledger, e->hold, e->scope, (int64_t)e->tokens);
        WEIR_INVARIANT(a.result == WEIR_LEDGER_SETTLED);
        for (uint32_t i = e->scope; i < lab->s->scope_count; i = lab->s->scopes[i].parent)
            lab->scope_settled_tok[i] += e->tokens;
    }
    ledger_tidy(lab);
    if (lab->s->ledger_delay_ns == 0)
        weir_flow_budget_freed(lab->flow);
    else
        batch_begin(lab)->is_freed = true;
}

void lab_ledger_window(struct weir_lab *lab, uint32_t scope)
{
    uint64_t period_ns = lab->s->scopes[scope].period_ns;
    uint64_t window = lab->now_ns / period_ns;
    struct weir_ledger_answer a = weir_ledger_window_begin(lab->ledger, scope, window);
    WEIR_INVARIANT(a.result == WEIR_LEDGER_DONE);
    ledger_tidy(lab);
    lab_timer(lab, lab->at.scopes + scope, (window + 1) * period_ns);
    lab_note_event(lab, LAB_EVENT_WINDOW, scope, window, 0);
    if (lab->s->ledger_delay_ns == 0) {
        weir_flow_budget_raised(lab->flow, scope);
        return;
    }
    struct lab_batch *batch = batch_begin(lab);
    batch->raised_scope = batch->is_raised && batch->raised_scope != scope ? WEIR_NONE : scope;
    batch->is_raised = true;
}

void lab_ledger_view(struct weir_lab *lab)
{
    for (uint32_t i = 0; i < lab->s->scope_count; i++) {
        struct weir_ledger_totals totals;
        bool is_known = weir_ledger_totals(lab->ledger, i, &totals);
        WEIR_INVARIANT(is_known);
        lab->results.scopes[i] =
            (struct weir_lab_scope_results){.granted_tok = totals.granted_tok,
                                            .reserved_tok = totals.reserved_tok,
                                            .committed_tok = totals.committed_tok,
                                            .overrun_tok = totals.overrun_tok,
                                            .refused = totals.refused_count,
                                            .settled_tok = lab->scope_settled_tok[i]};
    }
}
