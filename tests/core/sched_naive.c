#include "core/sched_naive.h"

#include <string.h>

#include "core/num.h"

void sched_naive_init(struct sched_naive *n, enum weir_sched_policy policy, const uint32_t *weight)
{
    *n = (struct sched_naive){.policy = policy, .last = WEIR_NONE};
    memcpy(n->weight, weight, sizeof n->weight);
}

bool sched_naive_is_ready(const struct sched_naive *n, uint32_t tenant)
{
    return n->waiting[tenant] > 0 && !n->is_suspended[tenant];
}

/* --- vtc --- */

static uint64_t smallest_counter(const struct sched_naive *n, uint32_t but)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < NAIVE_TENANTS; i++)
        if (i != but && sched_naive_is_ready(n, i))
            least = weir_min_u64(least, n->counter[i]);
    return least;
}

/* What somebody who comes is lifted to: the least of those who wait, or the one that left last. */
static uint64_t vtc_level(const struct sched_naive *n, uint32_t but)
{
    uint64_t least = smallest_counter(n, but);
    if (least != UINT64_MAX)
        return least;
    return n->last == WEIR_NONE ? n->floor : weir_max_u64(n->floor, n->counter[n->last]);
}

static void lift(struct sched_naive *n, uint32_t tenant, uint64_t level)
{
    n->counter[tenant] = weir_max_u64(n->counter[tenant], level);
    n->base[tenant] = n->counter[tenant];
}

/* --- drr-cost --- */

static uint64_t quantum(const struct sched_naive *n)
{
    return weir_max_u64(1, n->mean_x64 / 64);
}

static void wait_for_grant(struct sched_naive *n, uint32_t tenant)
{
    n->place[tenant] = n->counter[tenant] < n->granted_next ? NAIVE_LATER : NAIVE_ASLEEP;
}

static void due_or_wait(struct sched_naive *n, uint32_t tenant)
{
    if (n->counter[tenant] < n->granted)
        n->place[tenant] = NAIVE_DUE;
    else
        wait_for_grant(n, tenant);
}

/* --- both round robins --- */

static bool has_passed(const struct sched_naive *n, uint32_t tenant)
{
    return tenant < n->passed;
}

static uint32_t first_due(const struct sched_naive *n)
{
    uint32_t i = 0;
    while (i < NAIVE_TENANTS && n->place[i] != NAIVE_DUE)
        i++;
    return i;
}

static void start_round(struct sched_naive *n)
{
    n->granted_prev = n->granted;
    n->granted = n->granted_next;
    n->granted_next = n->granted + quantum(n);
    n->passed = 0;
    for (uint32_t i = 0; i < NAIVE_TENANTS; i++)
        if (n->place[i] == NAIVE_LATER ||
            (n->place[i] == NAIVE_ASLEEP && n->counter[i] < n->granted))
            n->place[i] = NAIVE_DUE;
}

static uint32_t round_choose(struct sched_naive *n)
{
    for (;;) {
        uint32_t tenant = first_due(n);
        if (tenant == NAIVE_TENANTS) {
            start_round(n);
        } else if (n->policy == WEIR_SCHED_DRR || n->counter[tenant] < n->granted) {
            return tenant;
        } else {
            n->passed = has_passed(n, tenant) ? n->passed : tenant + 1;
            wait_for_grant(n, tenant);
        }
    }
}

/* --- the orders --- */

static void arrive(struct sched_naive *n, uint32_t tenant)
{
    switch (n->policy) {
    case WEIR_SCHED_FIFO:
        return;
    case WEIR_SCHED_DRR:
        n->place[tenant] = has_passed(n, tenant) ? NAIVE_LATER : NAIVE_DUE;
        return;
    case WEIR_SCHED_DRR_COST:
        if (n->mean_x64 == 0) {
            n->mean_x64 = n->work[n->fifo[tenant][0]] * 64;
            n->granted_next = n->granted + quantum(n);
        }
        lift(n, tenant, has_passed(n, tenant) ? n->granted : n->granted_prev);
        due_or_wait(n, tenant);
        return;
    case WEIR_SCHED_VTC:
        lift(n, tenant, vtc_level(n, tenant));
        return;
    }
}

static void leave(struct sched_naive *n, uint32_t tenant)
{
    n->place[tenant] = NAIVE_OUT;
    n->turns_left[tenant] = 0;
}

static void charge(struct sched_naive *n, uint32_t tenant, uint64_t work)
{
    n->passed = has_passed(n, tenant) ? n->passed : tenant + 1;
    n->last = WEIR_NONE;
    switch (n->policy) {
    case WEIR_SCHED_FIFO:
        return;
    case WEIR_SCHED_DRR:
        if (n->turns_left[tenant] == 0)
            n->turns_left[tenant] = n->weight[tenant];
        if (--n->turns_left[tenant] == 0)
            n->place[tenant] = NAIVE_LATER;
        break;
    case WEIR_SCHED_DRR_COST:
        n->mean_x64 += work - n->mean_x64 / 64;
        n->counter[tenant] += work / n->weight[tenant];
        if (n->counter[tenant] >= n->granted)
            wait_for_grant(n, tenant);
        break;
    case WEIR_SCHED_VTC:
        n->floor = weir_max_u64(n->floor, n->counter[tenant]);
        n->counter[tenant] += work / n->weight[tenant];
        break;
    }
    if (n->waiting[tenant] > 0)
        return;
    leave(n, tenant);
    if (smallest_counter(n, WEIR_NONE) == UINT64_MAX)
        n->last = tenant;
}

static void refund(struct sched_naive *n, uint32_t tenant, uint64_t work)
{
    uint64_t less = weir_sub_sat_u64(n->counter[tenant], work / n->weight[tenant]);
    n->counter[tenant] = weir_max_u64(n->base[tenant], less);
}

/* --- calls --- */

void sched_naive_enqueue(struct sched_naive *n, uint32_t tenant, uint32_t item, uint64_t work)
{
    bool was_ready = sched_naive_is_ready(n, tenant);
    n->work[item] = work;
    n->order[item] = n->arrivals++;
    n->fifo[tenant][n->waiting[tenant]++] = item;
    if (!was_ready && !n->is_suspended[tenant])
        arrive(n, tenant);
}

static uint32_t cut(struct sched_naive *n, uint32_t tenant, uint32_t place)
{
    uint32_t item = n->fifo[tenant][place];
    n->waiting[tenant]--;
    memmove(&n->fifo[tenant][place], &n->fifo[tenant][place + 1],
            (n->waiting[tenant] - place) * sizeof(uint32_t));
    return item;
}

void sched_naive_remove(struct sched_naive *n, uint32_t tenant, uint32_t place)
{
    cut(n, tenant, place);
    if (n->waiting[tenant] == 0 && !n->is_suspended[tenant])
        leave(n, tenant);
}

void sched_naive_suspend(struct sched_naive *n, uint32_t tenant)
{
    if (sched_naive_is_ready(n, tenant))
        leave(n, tenant);
    n->is_suspended[tenant] = true;
}

void sched_naive_resume(struct sched_naive *n, uint32_t tenant)
{
    bool was_suspended = n->is_suspended[tenant];
    n->is_suspended[tenant] = false;
    if (was_suspended && n->waiting[tenant] > 0)
        arrive(n, tenant);
}

void sched_naive_correct(struct sched_naive *n, uint32_t tenant, int64_t delta)
{
    if (n->policy != WEIR_SCHED_VTC && n->policy != WEIR_SCHED_DRR_COST)
        return;
    if (delta >= 0)
        n->counter[tenant] += (uint64_t)delta / n->weight[tenant];
    else
        refund(n, tenant, (uint64_t)-delta);
    if (n->place[tenant] == NAIVE_ASLEEP)
        wait_for_grant(n, tenant);
}

void sched_naive_put_back(struct sched_naive *n, uint32_t tenant, uint32_t item)
{
    bool was_ready = sched_naive_is_ready(n, tenant);
    memmove(&n->fifo[tenant][1], &n->fifo[tenant][0], n->waiting[tenant] * sizeof(uint32_t));
    n->fifo[tenant][0] = item;
    n->waiting[tenant]++;
    n->order[item] = -++n->returns;
    if (n->policy == WEIR_SCHED_VTC || n->policy == WEIR_SCHED_DRR_COST)
        refund(n, tenant, n->work[item]);
    if (n->is_suspended[tenant])
        return;
    switch (n->policy) {
    case WEIR_SCHED_FIFO:
        return;
    case WEIR_SCHED_DRR: {
        bool to_come = n->turns_left[tenant] == 0 &&
                       (was_ready ? n->place[tenant] == NAIVE_DUE : !has_passed(n, tenant));
        n->turns_left[tenant] += to_come ? n->weight[tenant] + 1 : 1;
        n->place[tenant] = NAIVE_DUE;
        return;
    }
    case WEIR_SCHED_DRR_COST:
        if (!was_ready)
            lift(n, tenant,
                 has_passed(n, tenant) ? weir_sub_sat_u64(n->granted, 1) : n->granted_prev);
        due_or_wait(n, tenant);
        return;
    case WEIR_SCHED_VTC:
        if (!was_ready)
            lift(n, tenant, weir_min_u64(n->floor, smallest_counter(n, tenant)));
        return;
    }
}

static uint32_t fifo_choose(const struct sched_naive *n)
{
    uint32_t oldest = WEIR_NONE;
    for (uint32_t i = 0; i < NAIVE_TENANTS; i++)
        if (sched_naive_is_ready(n, i) &&
            (oldest == WEIR_NONE || n->order[n->fifo[i][0]] < n->order[n->fifo[oldest][0]]))
            oldest = i;
    return oldest;
}

uint32_t sched_naive_choose(struct sched_naive *n)
{
    uint64_t least = smallest_counter(n, WEIR_NONE);
    uint32_t chosen = 0;
    if (least == UINT64_MAX)
        return 0;
    switch (n->policy) {
    case WEIR_SCHED_FIFO:
        return 1u << fifo_choose(n);
    case WEIR_SCHED_DRR:
    case WEIR_SCHED_DRR_COST:
        return 1u << round_choose(n);
    case WEIR_SCHED_VTC:
        for (uint32_t i = 0; i < NAIVE_TENANTS; i++)
            chosen |= (uint32_t)(sched_naive_is_ready(n, i) && n->counter[i] == least) << i;
        return chosen;
    }
    return 0;
}

uint32_t sched_naive_take(struct sched_naive *n, uint32_t tenant)
{
    uint32_t item = cut(n, tenant, 0);
    charge(n, tenant, n->work[item]);
    return item;
}

uint64_t sched_naive_debt(const struct sched_naive *n, uint32_t tenant)
{
    switch (n->policy) {
    case WEIR_SCHED_FIFO:
    case WEIR_SCHED_DRR:
        return 0;
    case WEIR_SCHED_DRR_COST:
        return weir_sub_sat_u64(n->counter[tenant], n->granted) * n->weight[tenant];
    case WEIR_SCHED_VTC:
        return weir_sub_sat_u64(n->counter[tenant], vtc_level(n, WEIR_NONE)) * n->weight[tenant];
    }
    return 0;
}
