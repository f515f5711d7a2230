#include "measure/fair_gap.h"

void fair_gap_init(struct fair_gap *g, const uint32_t *weights, uint32_t tenants_count,
                   bool is_one_sided)
{
    g->tenants_count = tenants_count;
    g->weights = weights;
    g->weight_min = weights[0];
    for (uint32_t i = 1; i < tenants_count; i++)
        g->weight_min = weights[i] < g->weight_min ? weights[i] : g->weight_min;
    g->is_one_sided = is_one_sided;
    g->worst = 0;
    g->ahead = g->behind = WEIR_NONE;
    g->from = g->to = (struct weir_fair_edge){0};
}

static __int128 lead(const struct fair_gap *g, uint32_t a, uint32_t b, const uint64_t *served)
{
    return (__int128)served[a] * g->weights[b] - (__int128)served[b] * g->weights[a];
}

static void note(struct fair_gap *g, uint32_t ahead, uint32_t behind, __int128 change,
                 struct weir_fair_edge from, struct weir_fair_edge to)
{
    __int128 weights = (__int128)g->weights[ahead] * g->weights[behind];
    if (change <= 0)
        return;
    if (g->ahead != WEIR_NONE &&
        change * g->weights[g->ahead] * g->weights[g->behind] <= g->worst * weights)
        return;
    g->worst = change;
    g->ahead = ahead;
    g->behind = behind;
    g->from = from;
    g->to = to;
}

/* The lead of a over b has changed. */
static void look(struct fair_gap *g, uint32_t a, uint32_t b, const uint64_t *served,
                 struct weir_fair_edge now)
{
    struct fair_lead *lowest = &g->lowest[a][b];
    __int128 value = lead(g, a, b, served);
    if (value < lowest->value)
        *lowest = (struct fair_lead){value, now};
    else
        note(g, a, b, value - lowest->value, lowest->at, now);
}

void fair_gap_begin(struct fair_gap *g, uint32_t tenant, const uint64_t *served,
                    struct weir_fair_edge now)
{
    for (uint32_t i = 0; i < g->tenants_count; i++) {
        g->lowest[i][tenant] = (struct fair_lead){lead(g, i, tenant, served), now};
        if (!g->is_one_sided)
            g->lowest[tenant][i] = (struct fair_lead){lead(g, tenant, i, served), now};
    }
}

void fair_gap_served(struct fair_gap *g, uint32_t tenant, const uint64_t *served,
                     const bool *is_backlogged, struct weir_fair_edge now)
{
    for (uint32_t i = 0; i < g->tenants_count; i++) {
        if (i == tenant)
            continue;
        if (is_backlogged[i])
            look(g, tenant, i, served, now);
        if (is_backlogged[i] || g->is_one_sided)
            look(g, i, tenant, served, now);
    }
}

void fair_gap_result(const struct fair_gap *g, struct weir_fair_gap *out)
{
    out->ahead = g->ahead;
    out->behind = g->behind;
    out->from = g->from;
    out->to = g->to;
    out->gap =
        g->ahead == WEIR_NONE
            ? 0
            : (uint64_t)(g->worst * g->weight_min / g->weights[g->ahead] / g->weights[g->behind]);
}
