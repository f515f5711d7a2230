/* fair_bound: what the gaps of a run may be at most. The facts are gathered as the run goes on; the
 * formulas and where they come from stand in fair_bound.c and, with proofs, in docs/bounds.md. */
#ifndef WEIR_MEASURE_FAIR_BOUND_H
#define WEIR_MEASURE_FAIR_BOUND_H

#include "measure/fair.h"

struct fair_bound {
    const struct weir_fair_plan *plan;
    uint32_t weight_min;
    uint64_t mean_x64; /* drr-cost: 64 x the running mean of what was charged */
    struct weir_fair_facts facts;
};

/* Gathers what the plan itself tells. */
void fair_bound_init(struct fair_bound *b, const struct weir_fair_plan *plan);

/* In the order of the run: the first arrival, each dispatch. */
void fair_bound_note_charge(struct fair_bound *b, uint64_t estimate_uwork);

/* Sets bound, published, is_bounded and is_broken of a gap that is known. */
void fair_bound_judge(const struct fair_bound *b, enum weir_fair_count count,
                      struct weir_fair_gap *gap);

#endif
