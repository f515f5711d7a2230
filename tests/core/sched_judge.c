#include "core/sched_judge.h"

#include <stdio.h>

#include "core/num.h"

/* Counters are whole micro-work per weight, of two tenants. (Largest costs are rounded up.) */
#define ROUNDING 2

void sched_judge_init(struct sched_judge *j, enum weir_sched_policy policy, uint32_t tenants)
{
    j->policy = policy;
    j->tenants = tenants;
    for (uint32_t i = 0; i < tenants; i++)
        j->weight[i] = 1;
}

static uint64_t per_weight(const struct sched_judge *j, uint32_t tenant, uint64_t work_uwork)
{
    return work_uwork / j->weight[tenant] + 1;
}

static void raise_to(uint64_t *most, uint64_t value)
{
    *most = weir_max_u64(*most, value);
}

static judge_int unit(const struct sched_judge *j, uint64_t work_uwork)
{
    return j->policy == WEIR_SCHED_DRR ? 1 : (judge_int)work_uwork;
}

void sched_judge_first_work(struct sched_judge *j, uint64_t work_uwork)
{
    if (j->mean_x64 != 0)
        return;
    j->mean_x64 = work_uwork * 64;
    raise_to(&j->quantum_largest, work_uwork);
}

void sched_judge_taken(struct sched_judge *j, uint32_t tenant, uint64_t work_uwork)
{
    j->booked[tenant] += unit(j, work_uwork);
    j->is_first[tenant] = false;
    raise_to(&j->largest, per_weight(j, tenant, work_uwork));
    raise_to(&j->largest_of[tenant], per_weight(j, tenant, work_uwork));
    raise_to(&j->item_largest[tenant], work_uwork);
    j->mean_x64 += work_uwork - j->mean_x64 / 64;
    raise_to(&j->quantum_largest, j->mean_x64 / 64);
    j->in_flight++;
    j->in_flight_most = j->in_flight > j->in_flight_most ? j->in_flight : j->in_flight_most;
    for (uint32_t b = 0; b < j->tenants; b++)
        j->had_since[b][tenant] += unit(j, work_uwork);
}

static void note_error(struct sched_judge *j, uint32_t tenant, uint64_t work_uwork,
                       uint64_t used_uwork)
{
    uint64_t error_uwork =
        used_uwork > work_uwork ? used_uwork - work_uwork : work_uwork - used_uwork;
    if (error_uwork > 0)
        raise_to(&j->error, per_weight(j, tenant, error_uwork));
}

void sched_judge_ended(struct sched_judge *j, uint32_t tenant, uint64_t work_uwork,
                       uint64_t used_uwork, bool is_stale)
{
    j->in_flight--;
    if (j->policy == WEIR_SCHED_DRR || used_uwork == work_uwork)
        return;
    j->booked[tenant] += (judge_int)used_uwork - (judge_int)work_uwork;
    raise_to(&j->largest, per_weight(j, tenant, used_uwork));
    note_error(j, tenant, work_uwork, used_uwork);
    j->has_stale |= is_stale && used_uwork < work_uwork;
}

void sched_judge_put_back(struct sched_judge *j, uint32_t tenant, uint64_t work_uwork,
                          bool is_stale)
{
    raise_to(&j->largest, per_weight(j, tenant, work_uwork));
    j->has_stale |= is_stale;
    j->is_unmeasured = true;
    j->in_flight--;
    j->booked[tenant] -= unit(j, work_uwork);
    raise_to(&j->error, per_weight(j, tenant, work_uwork));
}

void sched_judge_will_use(struct sched_judge *j, uint32_t tenant, uint64_t work_uwork,
                          uint64_t used_uwork)
{
    if (j->policy == WEIR_SCHED_DRR)
        return;
    note_error(j, tenant, work_uwork, used_uwork);
    j->used.had[tenant] += used_uwork;
    raise_to(&j->largest, per_weight(j, tenant, used_uwork));
    raise_to(&j->item_largest[tenant], used_uwork);
}

void sched_judge_delivered(struct sched_judge *j, uint32_t tenant, uint64_t part_uwork)
{
    j->delivered.had[tenant] += part_uwork;
}

static judge_int lead(const struct sched_judge *j, uint32_t a, uint32_t b)
{
    return j->booked[a] * j->weight[b] - j->booked[b] * j->weight[a];
}

static judge_int measure_lead(const struct sched_judge *j, const struct sched_measure *m,
                              uint32_t a, uint32_t b)
{
    return m->had[a] * j->weight[b] - m->had[b] * j->weight[a];
}

void sched_judge_weight(struct sched_judge *j, uint32_t tenant, uint32_t weight)
{
    j->weight[tenant] = weight;
    j->is_reweighed |= j->in_flight > 0 || j->error > 0;
    j->is_unmeasured |= j->in_flight > 0;
    j->is_first[tenant] = false;
    for (uint32_t i = 0; i < j->tenants; i++) {
        j->is_first[i] = false;
        j->lowest_lead[tenant][i] = lead(j, tenant, i);
        j->lowest_lead[i][tenant] = lead(j, i, tenant);
        for (uint32_t k = 0; k < 2; k++) {
            struct sched_measure *m = k == 0 ? &j->used : &j->delivered;
            m->lowest_lead[tenant][i] = measure_lead(j, m, tenant, i);
            m->lowest_lead[i][tenant] = measure_lead(j, m, i, tenant);
        }
    }
}

/* In units of lead: per weight, times both weights. */
static judge_int bound(const struct sched_judge *j, uint32_t a, uint32_t b)
{
    judge_int both = (judge_int)j->weight[a] * j->weight[b];
    judge_int p = j->in_flight_most, e = j->error;
    judge_int stale = j->has_stale ? p * e : 0;
    switch (j->policy) {
    case WEIR_SCHED_FIFO:
        return 0;
    case WEIR_SCHED_DRR: /* a turn; and what was put back goes at once, beside its turn. A turn that
                            has a request put back beside it keeps the weight it had. */
        return both * (e > 0 && j->is_reweighed ? 2 : 1) +
               (e > 0 ? p * (j->weight[a] + j->weight[b]) : 0);
    case WEIR_SCHED_DRR_COST:
        if (e == 0)
            return both * ((judge_int)j->largest_of[a] + j->largest_of[b] + j->quantum_largest);
        return both * (2 * (judge_int)j->largest + j->quantum_largest + (4 * p - 2) * e + stale +
                       ROUNDING);
    case WEIR_SCHED_VTC:
        return both *
               (2 * (judge_int)j->largest + (e > 0 ? (2 * p - 2) * e : 0) + stale + ROUNDING);
    }
    return 0;
}

static void judge_gaps(struct sched_judge *j, struct tape *t, uint32_t b, bool came)
{
    for (uint32_t a = 0; a < j->tenants; a++) {
        judge_int now = lead(j, a, b);
        if (came || now < j->lowest_lead[a][b])
            j->lowest_lead[a][b] = now;
        if (a == b || !j->is_ready[b])
            continue;
        judge_int gained = now - j->lowest_lead[a][b];
        double both = (double)j->weight[a] * j->weight[b];
        TAPE_CHECK_MSG(t, gained <= bound(j, a, b),
                       "%s: tenant %u got %g more per weight than %u, which waited; bound %g",
                       weir_sched_policy_name(j->policy), a, (double)gained / both, b,
                       (double)bound(j, a, b) / both);
    }
}

/* per_weight bounds what a got beyond b, since both wait. */
static void judge_measure(struct sched_judge *j, struct tape *t, struct sched_measure *m,
                          const char *name, uint32_t b, bool came, judge_int per_weight_most)
{
    for (uint32_t a = 0; a < j->tenants; a++) {
        judge_int both = (judge_int)j->weight[a] * j->weight[b];
        judge_int now = measure_lead(j, m, a, b);
        if (came || !j->is_ready[a] || now < m->lowest_lead[a][b])
            m->lowest_lead[a][b] = now;
        TAPE_CHECK_MSG(t, now - m->lowest_lead[a][b] <= both * per_weight_most,
                       "%s, %s: tenant %u got %g more per weight than %u; bound %g",
                       weir_sched_policy_name(j->policy), name, a,
                       (double)(now - m->lowest_lead[a][b]) / (double)both, b,
                       (double)per_weight_most);
    }
}

static void judge_measures(struct sched_judge *j, struct tape *t, uint32_t b, bool came)
{
    judge_int p = j->in_flight_most, e = j->error, l = j->largest, q = j->quantum_largest;
    judge_int more = (j->has_stale ? p * e : 0) + ROUNDING;
    if (j->is_unmeasured)
        return;
    switch (j->policy) {
    case WEIR_SCHED_FIFO:
    case WEIR_SCHED_DRR:
        return;
    case WEIR_SCHED_DRR_COST:
        judge_measure(j, t, &j->used, "used", b, came,
                      2 * l + q + (e > 0 ? (4 * p - 2) * e : 0) + more);
        judge_measure(j, t, &j->delivered, "delivered", b, came, 4 * p * l + q + more);
        return;
    case WEIR_SCHED_VTC:
        judge_measure(j, t, &j->used, "used", b, came,
                      2 * l + (e > 0 ? (2 * p - 2) * e : 0) + more);
        judge_measure(j, t, &j->delivered, "delivered", b, came, 2 * p * l + more);
        return;
    }
}

/* With exact estimates only: how much each other tenant may have before the first turn of b. */
static judge_int first_bound(const struct sched_judge *j, uint32_t a)
{
    switch (j->policy) {
    case WEIR_SCHED_FIFO:
        return 0;
    case WEIR_SCHED_DRR:
        return j->weight[a];
    case WEIR_SCHED_DRR_COST: /* the round under way, and the next */
        return 2 * (judge_int)j->quantum_largest * j->weight[a] + j->item_largest[a] + j->weight[a];
    case WEIR_SCHED_VTC:
        return (judge_int)j->item_largest[a] + j->weight[a];
    }
    return 0;
}

static void judge_first(struct sched_judge *j, struct tape *t, uint32_t b)
{
    for (uint32_t a = 0; a < j->tenants; a++)
        TAPE_CHECK_MSG(t, a == b || j->had_since[b][a] <= first_bound(j, a),
                       "%s: tenant %u had %g before the first turn of %u; bound %g",
                       weir_sched_policy_name(j->policy), a, (double)j->had_since[b][a], b,
                       (double)first_bound(j, a));
}

void sched_judge_look(struct sched_judge *j, struct tape *t, const bool *is_ready,
                      const bool *is_free_of_debt)
{
    if (j->policy == WEIR_SCHED_FIFO)
        return;
    for (uint32_t b = 0; b < j->tenants; b++) {
        bool came = is_ready[b] && !j->is_ready[b];
        j->is_ready[b] = is_ready[b];
        if (came) {
            j->is_first[b] = is_free_of_debt[b];
            for (uint32_t a = 0; a < j->tenants; a++)
                j->had_since[b][a] = 0;
        }
        if (!is_ready[b] || j->error > 0)
            j->is_first[b] = false;
        judge_gaps(j, t, b, came);
        judge_measures(j, t, b, came || !is_ready[b]);
        if (j->is_first[b])
            judge_first(j, t, b);
    }
}
