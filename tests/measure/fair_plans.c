#include "measure/fair_plans.h"

#include <stdlib.h>
#include <string.h>

static void plan_begin(struct plan *p, enum weir_fair_policy policy, uint32_t permits,
                       uint32_t tenants)
{
    memset(p, 0, sizeof *p);
    p->fair = (struct weir_fair_plan){.policy = policy,
                                      .permits = permits,
                                      .tenants_count = tenants,
                                      .weights = p->weights,
                                      .items = p->items};
}

void plan_write(struct plan *p, enum weir_fair_policy policy, uint32_t permits, uint32_t tenants,
                const uint32_t *weights, const uint32_t *backlog, const uint64_t *input_tok)
{
    plan_begin(p, policy, permits, tenants);
    for (uint32_t i = 0; i < tenants; i++) {
        p->weights[i] = weights[i];
        for (uint32_t k = 0; k < backlog[i]; k++)
            p->items[p->fair.items_count++] =
                (struct weir_fair_item){.input_tok = input_tok[i],
                                        .estimate_uwork = weir_fair_work_uwork(input_tok[i], 0),
                                        .tenant = i};
    }
}

static int by_arrival(const void *left, const void *right)
{
    const struct weir_fair_item *a = left, *b = right;
    return (a->arrival_ns > b->arrival_ns) - (a->arrival_ns < b->arrival_ns);
}

/* Tenants differ in what they send, and change it halfway: that is what drives leads apart. */
static uint64_t draw_tokens(struct weir_rng *rng, uint32_t tenant, bool is_late)
{
    switch ((tenant + is_late) % 4) {
    case 0:
        return 1;
    case 1:
        return 1 + weir_rng_below(rng, 20);
    case 2:
        return 100;
    default:
        return UINT64_C(1) << weir_rng_below(rng, 10);
    }
}

static uint64_t draw_estimate(struct weir_rng *rng, uint64_t work_uwork, uint64_t habit)
{
    switch (habit) {
    case 0:
        return 1;
    case 1:
        return work_uwork * 4;
    case 2:
        return 1 + weir_rng_below(rng, 2 * work_uwork);
    default:
        return weir_chance(rng, 1, 2) ? 1 : 2 * work_uwork;
    }
}

void plan_draw(struct plan *p, struct weir_rng *rng, enum weir_fair_policy policy,
               enum plan_kind kind)
{
    static const uint32_t weights[] = {1, 1, 2, 3, 4, 7, 100, 1000};
    static const uint32_t permits[] = {1, 1, 2, 3, 8, 40};
    uint32_t tenants = 2 + (uint32_t)weir_rng_below(rng, PLAN_TENANTS - 1);
    plan_begin(p, policy, permits[weir_rng_below(rng, WEIR_COUNT(permits))], tenants);
    uint64_t spread = 1 + weir_rng_below(rng, 4), shift = weir_rng_below(rng, 4);
    for (uint32_t i = 0; i < tenants; i++)
        p->weights[i] = weights[weir_rng_below(rng, spread * 2)];
    p->fair.items_count = 20 + (uint32_t)weir_rng_below(rng, PLAN_ITEMS - 20);
    uint64_t span_ms = 1 + weir_rng_below(rng, p->fair.items_count * 60);
    uint64_t habits[PLAN_TENANTS];
    for (uint32_t i = 0; i < tenants; i++)
        habits[i] = weir_rng_below(rng, 4);
    for (uint32_t k = 0; k < p->fair.items_count; k++) {
        struct weir_fair_item *item = &p->items[k];
        item->tenant = (uint32_t)weir_rng_below(rng, tenants);
        bool is_late = k > p->fair.items_count / 2;
        uint32_t sort = item->tenant + (uint32_t)shift;
        item->input_tok = weir_chance(rng, 1, 2) ? draw_tokens(rng, sort, is_late) : 0;
        item->output_tok =
            item->input_tok == 0 || weir_chance(rng, 1, 2) ? draw_tokens(rng, sort, is_late) : 0;
        uint64_t work = weir_fair_work_uwork(item->input_tok, item->output_tok);
        item->estimate_uwork = kind == PLAN_EXACT
                                   ? work
                                   : draw_estimate(rng, work, (habits[item->tenant] + is_late) % 4);
        if (kind != PLAN_AT_START)
            item->arrival_ns = weir_rng_below(rng, span_ms) * WEIR_NS_PER_MS;
    }
    qsort(p->items, p->fair.items_count, sizeof p->items[0], by_arrival);
}

void plan_note_order(void *user, const struct weir_fair_now *now)
{
    struct plan_order *o = user;
    if (now->event == WEIR_FAIR_SENT)
        o->order[o->count++] = (char)('a' + o->plan->items[now->item].tenant);
    o->order[o->count] = '\0';
}
