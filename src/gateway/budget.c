#include "gateway/budget.h"

#include <stdio.h>
#include <stdlib.h>

#include "gateway/config_rules.h"
#include "gateway/state.h"

/* All zero: nobody spoke of it. */
struct weir_budget_scope {
    enum weir_exhausted_policy policy;
    uint32_t fallback_upstream, fallback_scope;
    uint64_t reset_ns; /* 0: none to come */
};

/* The scope that what falls back to this upstream is charged to. */
static uint32_t budget_fallback_scope(struct weir_gateway *g, uint32_t upstream)
{
    char name[WEIR_STORE_NAME_MAX];
    snprintf(name, sizeof name, "fallback/%s", g->config->upstreams[upstream].name);
    return weir_gateway_unlimited_scope(g, name);
}

static bool budget_take(struct weir_gateway *g, const struct weir_config_scope *from,
                        struct weir_budget_scope *scope)
{
    scope->policy = weir_config_exhausted_policy(from);
    if (scope->policy != WEIR_EXHAUSTED_FALLBACK)
        return true;
    scope->fallback_upstream = from->fallback_index;
    scope->fallback_scope = budget_fallback_scope(g, from->fallback_index);
    return scope->fallback_scope != WEIR_NONE;
}

bool weir_budget_open(struct weir_gateway *g, char *error_text, size_t error_bytes)
{
    const struct weir_config *c = g->config;
    g->budget = calloc(weir_store_scopes_max(g->store), sizeof *g->budget);
    if (!g->budget)
        return false;
    for (uint32_t i = 0; i < c->scopes_count; i++) {
        uint32_t slot = weir_gateway_scope(g, i);
        if (slot == WEIR_NONE || !budget_take(g, &c->scopes[i], &g->budget[slot])) {
            snprintf(error_text, error_bytes,
                     "the scope that scope %s falls back to could not be defined: the ledger takes "
                     "nothing. Is its disk full, or does it hang?",
                     c->scopes[i].name);
            return false;
        }
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

void weir_budget_tell(struct weir_gateway *g, const struct weir_request *r, uint32_t scope,
                      struct weir_reserve_told *told)
{
    if (scope >= weir_store_scopes_max(g->store))
        return;
    const struct weir_budget_scope *s = &g->budget[scope];
    told->policy = s->policy;
    told->reset_ns = s->reset_ns ? s->reset_ns : WEIR_NEVER_NS;
    if (s->policy != WEIR_EXHAUSTED_FALLBACK)
        return;
    if (!weir_routes_serves(g->routes, s->fallback_upstream, r->dialect, r->model)) {
        told->policy = WEIR_EXHAUSTED_REFUSE;
        return;
    }
    told->fallback_pool = g->config->upstreams[s->fallback_upstream].pool_index;
    told->fallback_scope = s->fallback_scope;
    told->hold = weir_store_hold_next(g->store);
}
