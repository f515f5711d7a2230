/* With P permits and, per weight (weights scaled so that the smallest is 1): L the largest work of
 * a request as used or as charged, E the largest difference of the two, Q drr-cost's largest
 * quantum. R is P x E when a tenant ran empty and came back, else 0: a refund for what it had in
 * flight may be lost then, idleness being no credit.
 *
 *             dispatched                          delivered
 *   vtc       2 L + 2 (P - 1) E + R               2 P L + R
 *   drr-cost  2 L + Q + 2 (2 P - 1) E + R         4 P L + Q + R
 *   drr       no bound in work; one turn, in requests
 *
 * What is said of dispatched work holds too when only the tenant that is behind waits.
 *
 * Published: deficit round robin (Shreedhar and Varghese 1995), 2 Max + Q of what was sent; virtual
 * token counters (Sheng et al. 2024), 2 max(w_p L_in, w_q M) of what was delivered, M = P x largest
 * (input + output). Both for exact costs: for estimates 2 P E + R or, for drr-cost, the term of its
 * row is added.
 *
 * Schedulers count whole micro-work per weight, so a gap may be 2 micro-work per weight larger. */
#include "measure/fair_bound.h"

#include "core/num.h"

static uint64_t per_weight(const struct fair_bound *b, uint64_t work_uwork, uint32_t tenant)
{
    return weir_muldiv_ceil(work_uwork, b->weight_min, b->plan->weights[tenant]);
}

void fair_bound_init(struct fair_bound *b, const struct weir_fair_plan *plan)
{
    *b = (struct fair_bound){.plan = plan, .weight_min = plan->weights[0]};
    for (uint32_t i = 1; i < plan->tenants_count; i++)
        b->weight_min = (uint32_t)weir_min_u64(b->weight_min, plan->weights[i]);
    struct weir_fair_facts *f = &b->facts;
    f->turn_micro_requests = (uint64_t)b->weight_min * WEIR_UWORK_PER_WORK;
    for (uint32_t i = 0; i < plan->items_count; i++) {
        const struct weir_fair_item *item = &plan->items[i];
        uint64_t used = weir_fair_work_uwork(item->input_tok, item->output_tok);
        uint64_t charged = item->estimate_uwork;
        uint64_t error = used > charged ? used - charged : charged - used;
        uint64_t larger = weir_max_u64(used, charged);
        f->work_max_uwork = weir_max_u64(f->work_max_uwork, per_weight(b, larger, item->tenant));
        f->error_max_uwork = weir_max_u64(f->error_max_uwork, per_weight(b, error, item->tenant));
        f->item_max_uwork = weir_max_u64(f->item_max_uwork, larger);
        f->input_max_tok = weir_max_u64(f->input_max_tok, item->input_tok);
        f->request_max_tok = weir_max_u64(f->request_max_tok, item->input_tok + item->output_tok);
    }
}

void fair_bound_note_charge(struct fair_bound *b, uint64_t estimate_uwork)
{
    b->mean_x64 =
        b->mean_x64 == 0 ? estimate_uwork * 64 : b->mean_x64 - b->mean_x64 / 64 + estimate_uwork;
    b->facts.quantum_max_uwork =
        weir_max_u64(b->facts.quantum_max_uwork, weir_max_u64(1, b->mean_x64 / 64) * b->weight_min);
}

/* Sums and products of a few amounts of at most 2^62 (and P x E, P x L) do not fit in 64 bits. */
typedef unsigned __int128 wide;

struct bounds {
    bool is_bounded;
    wide bound, published; /* published 0: none */
};

static struct bounds in_work(const struct fair_bound *b, bool is_delivered)
{
    const struct weir_fair_facts *f = &b->facts;
    wide permits = b->plan->permits, work = f->work_max_uwork, error = f->error_max_uwork;
    wide quantum = f->quantum_max_uwork, returned = f->returns ? permits * error : 0;
    wide estimates = 2 * (2 * permits - 1) * error + returned; /* of drr-cost */
    switch (b->plan->policy) {
    case WEIR_FAIR_VTC: {
        wide input = (wide)f->input_max_tok * WEIR_FAIR_WORK_INPUT;
        wide pool = permits * f->request_max_tok * WEIR_FAIR_WORK_OUTPUT;
        wide paper = 2 * (input > pool ? input : pool) * WEIR_UWORK_PER_WORK;
        if (is_delivered)
            return (struct bounds){true, 2 * permits * work + returned,
                                   paper + 2 * permits * error + returned};
        return (struct bounds){true, 2 * work + 2 * (permits - 1) * error + returned, 0};
    }
    case WEIR_FAIR_DRR_COST:
        if (is_delivered)
            return (struct bounds){true, 4 * permits * work + quantum + returned, 0};
        return (struct bounds){true, 2 * work + quantum + estimates,
                               2 * (wide)f->item_max_uwork + quantum + estimates};
    case WEIR_FAIR_DRR:
    case WEIR_FAIR_FIFO:
    case WEIR_FAIR_DRR_RESTARTING:
        break;
    }
    return (struct bounds){0};
}

static struct bounds in_requests(const struct fair_bound *b)
{
    wide turn = b->facts.turn_micro_requests;
    switch (b->plan->policy) {
    case WEIR_FAIR_DRR:
    case WEIR_FAIR_DRR_RESTARTING: /* a deficit round robin is what it wants to be */
        return (struct bounds){true, turn, 2 * (wide)WEIR_UWORK_PER_WORK + turn};
    case WEIR_FAIR_VTC:
    case WEIR_FAIR_DRR_COST:
    case WEIR_FAIR_FIFO:
        break;
    }
    return (struct bounds){0};
}

static uint64_t narrow(wide amount)
{
    return amount > UINT64_MAX ? UINT64_MAX : (uint64_t)amount;
}

void fair_bound_judge(const struct fair_bound *b, enum weir_fair_count count,
                      struct weir_fair_gap *gap)
{
    struct bounds is = {0};
    switch (count) {
    case WEIR_FAIR_DISPATCHED:
        is = in_work(b, false);
        break;
    case WEIR_FAIR_ONE_WAITS:
        is = in_work(b, false);
        is.published = 0;
        break;
    case WEIR_FAIR_DELIVERED:
        is = in_work(b, true);
        break;
    case WEIR_FAIR_REQUESTS:
        is = in_requests(b);
        break;
    }
    uint64_t rounding = 2 * (uint64_t)b->weight_min;
    gap->is_bounded = is.is_bounded;
    gap->bound = narrow(is.bound);
    gap->published = narrow(is.published);
    gap->is_broken = is.is_bounded && weir_sub_sat_u64(gap->gap, rounding) > gap->bound;
}
