/* fair_plans: plans for the tests of measure/fair, written out or drawn at random. */
#ifndef WEIR_TESTS_FAIR_PLANS_H
#define WEIR_TESTS_FAIR_PLANS_H

#include "core/rng.h"
#include "measure/fair.h"

#define PLAN_TENANTS 6u
#define PLAN_ITEMS 400u

struct plan {
    struct weir_fair_plan fair; /* points into this struct */
    uint32_t weights[PLAN_TENANTS];
    struct weir_fair_item items[PLAN_ITEMS];
};

/* backlog[i] requests of input_tok[i] tokens of tenant i, all there at the start, tenant by tenant.
 */
void plan_write(struct plan *p, enum weir_fair_policy policy, uint32_t permits, uint32_t tenants,
                const uint32_t *weights, const uint32_t *backlog, const uint64_t *input_tok);

enum plan_kind {
    PLAN_EXACT,    /* estimates are right; requests come and go */
    PLAN_AT_START, /* estimates are anything from nothing to four times; all there at the start */
    PLAN_ANY,      /* estimates are anything; requests come and go */
    PLAN_KINDS
};

void plan_draw(struct plan *p, struct weir_rng *rng, enum weir_fair_policy policy,
               enum plan_kind kind);

/* Which tenant was dispatched, in order: 'a' is 0. Returns its length. */
struct plan_order {
    const struct plan *plan;
    char order[PLAN_ITEMS + 1];
    uint32_t count;
};
void plan_note_order(void *order, const struct weir_fair_now *now);

#endif
