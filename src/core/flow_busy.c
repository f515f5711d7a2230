/* flow_busy: requests outside the queue because holds of others take the rest of their budget.
 *
 * Each tenant's are a FIFO, and the tenants that have any are a ring. When budget is freed, a sweep
 * asks the ledger again for the head of each FIFO, a few at a time, once around the ring; who is
 * answered HELD joins the queue and the one behind is asked. So a freed hold costs a few reserves,
 * not one for each that waits, and nobody is passed by those of the tenant that came later. */
#include "core/flow_private.h"

#define BUSY_ASKED_MAX 8

void flow_busy_add(struct weir_flow *f, struct flow_request *r)
{
    struct flow_tenant *t = &f->tenants[r->tenant];
    uint32_t self_1 = flow_slot(f, r) + 1, tenant_1 = r->tenant + 1;
    r->busy_next_1 = 0;
    r->busy_prev_1 = t->busy_last_1;
    if (t->busy_last_1)
        f->requests[t->busy_last_1 - 1].busy_next_1 = self_1;
    t->busy_last_1 = self_1;
    if (t->busy_first_1)
        return;
    t->busy_first_1 = self_1;
    f->busy_tenants++;
    if (!f->busy_ring_1) {
        f->busy_ring_1 = t->ring_next_1 = t->ring_prev_1 = tenant_1;
        return;
    }
    struct flow_tenant *next = &f->tenants[f->busy_ring_1 - 1];
    t->ring_next_1 = f->busy_ring_1;
    t->ring_prev_1 = next->ring_prev_1;
    f->tenants[next->ring_prev_1 - 1].ring_next_1 = tenant_1;
    next->ring_prev_1 = tenant_1;
}

static void busy_ring_remove(struct weir_flow *f, uint32_t tenant)
{
    struct flow_tenant *t = &f->tenants[tenant];
    f->busy_tenants--;
    if (f->busy_ring_1 == tenant + 1)
        f->busy_ring_1 = t->ring_next_1 == tenant + 1 ? 0 : t->ring_next_1;
    f->tenants[t->ring_prev_1 - 1].ring_next_1 = t->ring_next_1;
    f->tenants[t->ring_next_1 - 1].ring_prev_1 = t->ring_prev_1;
    t->ring_next_1 = t->ring_prev_1 = 0;
}

void flow_busy_remove(struct weir_flow *f, struct flow_request *r)
{
    struct flow_tenant *t = &f->tenants[r->tenant];
    if (r->busy_prev_1)
        f->requests[r->busy_prev_1 - 1].busy_next_1 = r->busy_next_1;
    else
        t->busy_first_1 = r->busy_next_1;
    if (r->busy_next_1)
        f->requests[r->busy_next_1 - 1].busy_prev_1 = r->busy_prev_1;
    else
        t->busy_last_1 = r->busy_prev_1;
    r->busy_next_1 = r->busy_prev_1 = 0;
    if (!t->busy_first_1)
        busy_ring_remove(f, r->tenant);
}

void flow_busy_ask_head(struct weir_flow *f, uint32_t tenant)
{
    uint32_t first_1 = f->tenants[tenant].busy_first_1;
    if (!first_1)
        return;
    struct flow_request *r = &f->requests[first_1 - 1];
    if (r->hold != FLOW_HOLD_NONE)
        return; /* asked already: if budget was freed since, its answer asks again */
    r->hold = FLOW_HOLD_ASKED;
    r->is_busy_retry = true;
    r->busy_epoch = f->busy_epoch;
    f->holds_now++;
    f->busy_asked++;
    flow_tell(f, r, WEIR_EFFECT_RESERVE);
}

void flow_busy_sweep(struct weir_flow *f)
{
    while (f->busy_sweep_left > 0 && f->busy_ring_1 && f->busy_asked < BUSY_ASKED_MAX) {
        uint32_t tenant = f->busy_ring_1 - 1;
        f->busy_ring_1 = f->tenants[tenant].ring_next_1;
        f->busy_sweep_left--;
        flow_busy_ask_head(f, tenant);
    }
    if (!f->busy_ring_1)
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

void weir_flow_budget_freed(struct weir_flow *f, uint32_t scope, uint64_t now_ns)
{
    (void)scope; /* which scopes share a parent is the ledger's to know: all are asked */
    (void)now_ns;
    f->busy_epoch++;
    f->busy_sweep_left = f->busy_tenants;
    flow_busy_sweep(f);
}
