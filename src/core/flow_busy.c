/* flow_busy: requests outside the queue for their budget's sake.
 *
 * Each tenant has two lines of them, FIFOs both. In BUSY are those for whom holds of others take
 * the rest: when budget is freed, a sweep asks the ledger again for the head of each tenant's, a
 * few at a time, once around the ring of tenants that have any; who is answered HELD joins the
 * queue and the one behind is asked. So a freed hold costs a few reserves, not one for each that
 * waits, and nobody is passed by those of the tenant that came later. Nor is a head asked for whom
 * the ledger's answer is known: one on the same scope got it in this sweep (thousands of tenants may
 * share one scope).
 *
 * In SPENT are those for whom only a new window (or a larger grant) helps. They hold nobody up:
 * what still fits the budget passes them. When it comes they move behind those in BUSY, in order,
 * and are asked as these are. */
#include "core/flow_private.h"

#define BUSY_ASKED_MAX 8

static void ring_add(struct weir_flow *f, uint32_t tenant, enum flow_line line)
{
    struct flow_tenant_line *t = &f->tenants[tenant].lines[line];
    f->ring_count[line]++;
    if (!f->ring_1[line]) {
        f->ring_1[line] = t->ring_next_1 = t->ring_prev_1 = tenant + 1;
        return;
    }
    struct flow_tenant_line *next = &f->tenants[f->ring_1[line] - 1].lines[line];
    t->ring_next_1 = f->ring_1[line];
    t->ring_prev_1 = next->ring_prev_1;
    f->tenants[next->ring_prev_1 - 1].lines[line].ring_next_1 = tenant + 1;
    next->ring_prev_1 = tenant + 1;
}

static void ring_remove(struct weir_flow *f, uint32_t tenant, enum flow_line line)
{
    struct flow_tenant_line *t = &f->tenants[tenant].lines[line];
    f->ring_count[line]--;
    if (f->ring_1[line] == tenant + 1)
        f->ring_1[line] = t->ring_next_1 == tenant + 1 ? 0 : t->ring_next_1;
    f->tenants[t->ring_prev_1 - 1].lines[line].ring_next_1 = t->ring_next_1;
    f->tenants[t->ring_next_1 - 1].lines[line].ring_prev_1 = t->ring_prev_1;
    t->ring_next_1 = t->ring_prev_1 = 0;
}

void flow_busy_add(struct weir_flow *f, struct flow_request *r, enum flow_line line)
{
    struct flow_tenant_line *t = &f->tenants[r->tenant].lines[line];
    uint32_t self_1 = flow_slot(f, r) + 1;
    r->line = line;
    r->line_next_1 = 0;
    r->line_prev_1 = t->last_1;
    if (t->last_1)
        f->requests[t->last_1 - 1].line_next_1 = self_1;
    t->last_1 = self_1;
    if (t->first_1)
        return;
    t->first_1 = self_1;
    ring_add(f, r->tenant, line);
}

void flow_busy_remove(struct weir_flow *f, struct flow_request *r)
{
    struct flow_tenant_line *t = &f->tenants[r->tenant].lines[r->line];
    if (r->line_prev_1)
        f->requests[r->line_prev_1 - 1].line_next_1 = r->line_next_1;
    else
        t->first_1 = r->line_next_1;
    if (r->line_next_1)
        f->requests[r->line_next_1 - 1].line_prev_1 = r->line_prev_1;
    else
        t->last_1 = r->line_prev_1;
    r->line_next_1 = r->line_prev_1 = 0;
    if (!t->first_1)
        ring_remove(f, r->tenant, r->line);
}

void flow_busy_ask_head(struct weir_flow *f, uint32_t tenant)
{
    uint32_t first_1 = f->tenants[tenant].lines[FLOW_LINE_BUSY].first_1;
    if (!first_1)
        return;
    struct flow_request *r = &f->requests[first_1 - 1];
    if (r->hold != FLOW_HOLD_NONE)
        return; /* asked already: if budget was freed since, its answer asks again */
    r->is_busy_retry = true;
    f->busy_asked++;
    flow_reserve_ask(f, r);
}

static struct flow_busy_known *busy_known_of(struct weir_flow *f, uint32_t scope)
{
    for (uint32_t i = 0; i < f->busy_known_count && i < FLOW_BUSY_KNOWN_MAX; i++)
        if (f->busy_known[i].scope == scope)
            return &f->busy_known[i];
    return NULL;
}

void flow_busy_learn(struct weir_flow *f, const struct flow_request *r)
{
    uint64_t tok = r->summary.estimate_tok;
    struct flow_busy_known *known = busy_known_of(f, r->scope);
    if (!known) {
        known = &f->busy_known[f->busy_known_count++ % FLOW_BUSY_KNOWN_MAX];
        *known = (struct flow_busy_known){r->scope, tok, tok};
    }
    known->least_tok = weir_min_u64(known->least_tok, tok);
    known->most_tok = weir_max_u64(known->most_tok, tok);
}

static bool busy_is_known(struct weir_flow *f, uint32_t tenant)
{
    const struct flow_request *r =
        &f->requests[f->tenants[tenant].lines[FLOW_LINE_BUSY].first_1 - 1];
    const struct flow_busy_known *known = busy_known_of(f, r->scope);
    return known && r->summary.estimate_tok >= known->least_tok &&
           r->summary.estimate_tok <= known->most_tok;
}

void flow_busy_sweep(struct weir_flow *f)
{
    while (f->busy_sweep_left > 0 && f->ring_1[FLOW_LINE_BUSY] && f->busy_asked < BUSY_ASKED_MAX) {
        uint32_t tenant = f->ring_1[FLOW_LINE_BUSY] - 1;
        f->ring_1[FLOW_LINE_BUSY] = f->tenants[tenant].lines[FLOW_LINE_BUSY].ring_next_1;
        f->busy_sweep_left--;
        if (!busy_is_known(f, tenant))
            flow_busy_ask_head(f, tenant);
    }
    if (!f->ring_1[FLOW_LINE_BUSY])
        f->busy_sweep_left = 0;
}

void flow_busy_answered(struct weir_flow *f, struct flow_request *r)
{
    if (!r->is_busy_retry)
        return;
    WEIR_INVARIANT(f->busy_asked > 0);
    r->is_busy_retry = false;
    f->busy_asked--;
}

void weir_flow_budget_freed(struct weir_flow *f)
{
    f->busy_epoch++;
    f->busy_known_count = 0;
    f->busy_sweep_left = f->ring_count[FLOW_LINE_BUSY];
    flow_busy_sweep(f);
}

void weir_flow_budget_raised(struct weir_flow *f, uint32_t scope)
{
    f->raise_epoch++;
    f->raised_scope = f->is_raised && f->raised_scope != scope ? WEIR_NONE : scope;
    f->is_raised = true;
}

/* Those of one tenant that this helps go over to BUSY. */
static void raise_tenant(struct weir_flow *f, uint32_t tenant, uint32_t scope)
{
    uint32_t at_1 = f->tenants[tenant].lines[FLOW_LINE_SPENT].first_1;
    while (at_1) {
        struct flow_request *r = &f->requests[at_1 - 1];
        at_1 = r->line_next_1;
        if (scope != WEIR_NONE && r->busy_scope != scope)
            continue;
        flow_busy_remove(f, r);
        flow_busy_add(f, r, FLOW_LINE_BUSY);
    }
}

/* Many windows begin at midnight: one walk for all that were raised since the last pump. */
void flow_busy_raise(struct weir_flow *f)
{
    if (!f->is_raised)
        return;
    f->is_raised = false;
    uint32_t next_1 = f->ring_1[FLOW_LINE_SPENT];
    for (uint32_t left = f->ring_count[FLOW_LINE_SPENT]; left > 0; left--) {
        uint32_t tenant = next_1 - 1;
        next_1 = f->tenants[tenant].lines[FLOW_LINE_SPENT].ring_next_1;
        raise_tenant(f, tenant, f->raised_scope);
    }
    weir_flow_budget_freed(f);
}
