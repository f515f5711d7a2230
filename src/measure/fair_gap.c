#include "measure/fair_gap.h"

void fair_gap_init(struct fair_gap *g, const uint32_t *weights, uint32_t tenants_count)
{
    g->tenants_count = tenants_count;
    g->weights = weights;
    g->weight_min = weights[0];
    for (uint32_t i = 1; i < tenants_count; i++)
        g->weight_min = weights[i] < g->weight_min ? weights[i] : g->weight_min;
    g->worst = 0;
    g->ahead = g->behind = WEIR_NONE;
    g->from = g->to = (struct weir_fair_edge){0};
}

/* a < b */
static struct fair_pair *pair_of(struct fair_gap *g, uint32_t a, uint32_t b)
{
    return &g->pairs[b * (b - 1) / 2 + a];
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

/* a < b */
static void look(struct fair_gap *g, uint32_t a, uint32_t b, const uint64_t *served,
                 struct weir_fair_edge now)
{
    struct fair_pair *p = pair_of(g, a, b);
    __int128 value = lead(g, a, b, served);
    note(g, a, b, value - p->lowest.value, p->lowest.at, now);
    note(g, b, a, p->highest.value - value, p->highest.at, now);
    if (value < p->lowest.value)
        p->lowest = (struct fair_lead){value, now};
    if (value > p->highest.value)
        p->highest = (struct fair_lead){value, now};
}

void fair_gap_begin(struct fair_gap *g, uint32_t tenant, const uint64_t *served,
                    const bool *is_backlogged, struct weir_fair_edge now)
{
    for (uint32_t i = 0; i < g->tenants_count; i++) {
        if (i == tenant || !is_backlogged[i])
            continue;
        uint32_t a = i < tenant ? i : tenant, b = i < tenant ? tenant : i;
        struct fair_lead first = {lead(g, a, b, served), now};
        *pair_of(g, a, b) = (struct fair_pair){first, first};
    }
}

void fair_gap_served(struct fair_gap *g, uint32_t tenant, const uint64_t *served,
                     const bool *is_backlogged, struct weir_fair_edge now)
{
    for (uint32_t i = 0; i < g->tenants_count; i++)
        if (i != tenant && is_backlogged[i])
            look(g, i < tenant ? i : tenant, i < tenant ? tenant : i, served, now);
}

void fair_gap_served_all(struct fair_gap *g, const uint64_t *served, const bool *is_backlogged,
                         struct weir_fair_edge now)
{
    for (uint32_t b = 1; b < g->tenants_count; b++)
        for (uint32_t a = 0; a < b && is_backlogged[b]; a++)
            if (is_backlogged[a])
                look(g, a, b, served, now);
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
