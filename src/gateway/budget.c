#include "gateway/budget.h"

#include <stdio.h>
#include <stdlib.h>

#include "gateway/state.h"

/* All zero: nobody spoke of it. */
struct weir_budget_scope {
    enum weir_exhausted_policy policy;
    uint32_t fallback_pool, fallback_scope;
    uint64_t reset_ns; /* 0: none to come */
};

static enum weir_exhausted_policy budget_policy(enum weir_config_exhausted on_exhausted)
{
    switch (on_exhausted) {
    case WEIR_CONFIG_EXHAUSTED_REFUSE:
        return WEIR_EXHAUSTED_REFUSE;
    }
    return WEIR_EXHAUSTED_REFUSE;
}

bool weir_budget_open(struct weir_gateway *g)
{
    const struct weir_config *c = g->config;
    g->budget = calloc(weir_store_scopes_max(g->store), sizeof *g->budget);
    if (!g->budget)
        return false;
    for (uint32_t i = 0; i < c->scopes_count; i++) {
        uint32_t slot = weir_gateway_scope(g, i);
        if (slot == WEIR_NONE)
            return false;
        g->budget[slot].policy = budget_policy(c->scopes[i].on_exhausted);
    }
    return true;
}

void weir_budget_free(struct weir_gateway *g)
{
    free(g->budget);
    g->budget = NULL;
}

void weir_budget_reset_at(struct weir_gateway *g, uint32_t scope, uint64_t reset_ns)
{
    WEIR_INVARIANT(scope < weir_store_scopes_max(g->store));
    g->budget[scope].reset_ns = reset_ns == WEIR_NEVER_NS ? 0 : reset_ns;
}

void weir_gateway_told(struct weir_gateway *g, uint32_t scope, struct weir_reserve_told *told)
{
    if (scope >= weir_store_scopes_max(g->store))
        return;
    const struct weir_budget_scope *s = &g->budget[scope];
    told->policy = s->policy;
    told->reset_ns = s->reset_ns ? s->reset_ns : WEIR_NEVER_NS;
    if (s->policy != WEIR_EXHAUSTED_FALLBACK)
        return;
    told->fallback_pool = s->fallback_pool;
    told->fallback_scope = s->fallback_scope;
    told->hold = weir_store_hold_next(g->store);
}
