#include "core/sched_model.h"

#include <stdio.h>
#include <string.h>

#include "core/num.h"

#define TENANTS 6
#define ITEMS 48

typedef __int128 i128;

struct model {
    struct tape *t;
    struct weir_sched *s;
    enum weir_sched_policy policy;
    bool exact; /* no corrections, nothing put back: the bounds hold as they stand */
    uint32_t weight[TENANTS];
    bool suspended[TENANTS];
    uint32_t fifo[TENANTS][ITEMS];
    uint32_t waiting[TENANTS];
    bool used[ITEMS];
    uint64_t work[ITEMS];
    int64_t order[ITEMS];
    int64_t arrivals, returns;
    struct weir_sched_choice taken; /* the last one, to put back; item WEIR_NONE when none */
    bool taken_corrected;
    /* Fairness, in requests (drr) or work. lead(a, b) = served_a w_b - served_b w_a. */
    i128 served[TENANTS];
    uint64_t largest[TENANTS];
    uint64_t mean_x64, quantum_largest;
    i128 shifted;                       /* sum of corrections and put-backs, per weight */
    i128 lowest_lead[TENANTS][TENANTS]; /* since b came */
    bool was_ready[TENANTS];
};

struct weir_sched *sched_model_make(struct tape *t, uint32_t tenants, uint32_t items,
                                    enum weir_sched_policy policy)
{
    struct weir_sched_limits limits = {tenants, items};
    size_t bytes = weir_sched_bytes(limits);
    void *mem = tape_alloc(t, bytes);
    return weir_sched_init(mem, bytes, limits, policy,
                           tape_alloc(t, items * sizeof(struct weir_sched_item)));
}

static bool ready(const struct model *m, uint32_t tenant)
{
    return m->waiting[tenant] > 0 && !m->suspended[tenant];
}

static i128 lead(const struct model *m, uint32_t a, uint32_t b)
{
    return m->served[a] * m->weight[b] - m->served[b] * m->weight[a];
}

/* In units of lead. The counters of the scheduler are whole micro-work: hence the 2. */
static i128 bound(const struct model *m, uint32_t a, uint32_t b)
{
    i128 weights = (i128)m->weight[a] * m->weight[b];
    i128 worst = 0;
    switch (m->policy) {
    case WEIR_SCHED_FIFO:
        return 0;
    case WEIR_SCHED_DRR:
        /* A request put back may go at once, ahead of its turn. */
        return weights * (1 + m->shifted);
    case WEIR_SCHED_DRR_COST:
        return (i128)m->largest[a] * m->weight[b] + (i128)m->largest[b] * m->weight[a] +
               weights * (m->quantum_largest + 2 + 2 * m->shifted);
    case WEIR_SCHED_VTC:
        for (uint32_t i = 0; i < TENANTS; i++) {
            i128 normed = m->largest[i] / m->weight[i] + 1;
            worst = normed > worst ? normed : worst;
        }
        return weights * (2 * worst + 2 + 2 * m->shifted);
    }
    return 0;
}

static void check_fairness(struct model *m)
{
    for (uint32_t b = 0; b < TENANTS; b++) {
        bool came = ready(m, b) && !m->was_ready[b];
        m->was_ready[b] = ready(m, b);
        for (uint32_t a = 0; a < TENANTS; a++) {
            i128 now = lead(m, a, b);
            if (came || now < m->lowest_lead[a][b])
                m->lowest_lead[a][b] = now;
            if (a == b || !ready(m, b) || m->policy == WEIR_SCHED_FIFO)
                continue;
            i128 gained = now - m->lowest_lead[a][b];
            TAPE_CHECK_MSG(m->t, gained <= bound(m, a, b),
                           "%s: tenant %u got %g more per weight than %u, which waited; bound %g",
                           weir_sched_policy_name(m->policy), a,
                           (double)gained / m->weight[a] / m->weight[b], b,
                           (double)bound(m, a, b) / m->weight[a] / m->weight[b]);
        }
    }
}

static void check_state(struct model *m)
{
    uint32_t items = 0, items_ready = 0, tenants_ready = 0;
    for (uint32_t i = 0; i < TENANTS; i++) {
        items += m->waiting[i];
        items_ready += ready(m, i) ? m->waiting[i] : 0;
        tenants_ready += ready(m, i);
        TAPE_CHECK(m->t, weir_sched_tenant_items(m->s, i) == m->waiting[i]);
        TAPE_CHECK(m->t, weir_sched_is_suspended(m->s, i) == m->suspended[i]);
    }
    TAPE_CHECK(m->t, weir_sched_items(m->s) == items);
    TAPE_CHECK(m->t, weir_sched_items_ready(m->s) == items_ready);
    TAPE_CHECK(m->t, weir_sched_tenants_ready(m->s) == tenants_ready);

    uint32_t walked = (uint32_t)((uint64_t)m->arrivals % TENANTS);
    uint32_t at = weir_sched_tenant_head(m->s, walked);
    for (uint32_t i = 0; i < m->waiting[walked]; i++, at = weir_sched_item_next(m->s, at))
        TAPE_CHECK(m->t, at == m->fifo[walked][i]);
    TAPE_CHECK(m->t, at == WEIR_NONE);

    struct weir_sched_choice first, second;
    bool found = weir_sched_peek(m->s, &first);
    TAPE_CHECK(m->t, found == (tenants_ready > 0)); /* work is conserved */
    if (!found)
        return;
    TAPE_CHECK(m->t, weir_sched_peek(m->s, &second));
    TAPE_CHECK(m->t, first.tenant == second.tenant && first.item == second.item);
    TAPE_CHECK(m->t, ready(m, first.tenant));
    TAPE_CHECK(m->t, first.item == m->fifo[first.tenant][0]);
    TAPE_CHECK(m->t, first.work_uwork == m->work[first.item]);
    for (uint32_t i = 0; i < TENANTS && m->policy == WEIR_SCHED_FIFO; i++)
        TAPE_CHECK(m->t,
                   !ready(m, i) || m->order[m->fifo[i][0]] >= m->order[m->fifo[first.tenant][0]]);
}

static void fifo_cut(struct model *m, uint32_t tenant, uint32_t place)
{
    m->used[m->fifo[tenant][place]] = false;
    m->waiting[tenant]--;
    memmove(&m->fifo[tenant][place], &m->fifo[tenant][place + 1],
            (m->waiting[tenant] - place) * sizeof(uint32_t));
}

static uint64_t draw_work(struct model *m, uint64_t shape)
{
    switch (shape) {
    case 0:
        return 1000;
    case 1:
        return 1 + tape_below(m->t, 1000);
    case 2:
        return UINT64_C(1) << tape_below(m->t, 24);
    default:
        return (uint64_t)WEIR_SCHED_WORK_MAX_UWORK >> tape_below(m->t, 3);
    }
}

/* The quantum that drr-cost is to use: the running mean of what was served, at first of what came.
 */
static void note_cost(struct model *m, uint64_t work)
{
    m->mean_x64 = m->mean_x64 == 0 ? work * 64 : m->mean_x64 + work - m->mean_x64 / 64;
    m->quantum_largest = weir_max_u64(m->quantum_largest, m->mean_x64 / 64);
}

static void do_enqueue(struct model *m, uint32_t tenant, uint64_t work)
{
    uint32_t item = 0;
    while (item < ITEMS && m->used[item])
        item++;
    if (item == ITEMS)
        return;
    m->used[item] = true;
    m->work[item] = work;
    m->order[item] = m->arrivals++;
    m->fifo[tenant][m->waiting[tenant]++] = item;
    m->largest[tenant] = weir_max_u64(m->largest[tenant], work);
    if (m->mean_x64 == 0 && !m->suspended[tenant])
        note_cost(m, work);
    weir_sched_enqueue(m->s, tenant, item, work);
}

static void do_take(struct model *m)
{
    struct weir_sched_choice peeked;
    if (!weir_sched_peek(m->s, &peeked))
        return;
    m->taken = weir_sched_take(m->s);
    m->taken_corrected = false;
    TAPE_CHECK(m->t, m->taken.tenant == peeked.tenant && m->taken.item == peeked.item);
    m->served[peeked.tenant] += m->policy == WEIR_SCHED_DRR ? 1 : (i128)peeked.work_uwork;
    fifo_cut(m, peeked.tenant, 0);
    note_cost(m, peeked.work_uwork);
}

static void do_put_back(struct model *m)
{
    uint32_t tenant = m->taken.tenant, item = m->taken.item;
    if (item == WEIR_NONE || m->taken_corrected || m->used[item])
        return;
    m->taken.item = WEIR_NONE;
    m->used[item] = true;
    m->order[item] = -++m->returns;
    memmove(&m->fifo[tenant][1], &m->fifo[tenant][0], m->waiting[tenant] * sizeof(uint32_t));
    m->fifo[tenant][0] = item;
    m->waiting[tenant]++;
    i128 unit = m->policy == WEIR_SCHED_DRR ? 1 : (i128)m->work[item];
    m->served[tenant] -= unit;
    m->shifted += unit;
    weir_sched_put_back(m->s, tenant, item, m->work[item]);
}

static void do_correct(struct model *m)
{
    if (m->taken.item == WEIR_NONE || m->taken_corrected || m->policy == WEIR_SCHED_DRR)
        return;
    m->taken_corrected = true;
    int64_t work = (int64_t)m->taken.work_uwork;
    /* Used a part of what was charged, or up to four times as much. */
    int64_t delta = tape_chance(m->t, 1, 2) ? (int64_t)tape_below(m->t, 4) * work
                                            : -(int64_t)tape_below(m->t, (uint64_t)work);
    m->served[m->taken.tenant] += delta;
    m->shifted += delta < 0 ? -delta : delta;
    weir_sched_correct(m->s, m->taken.tenant, delta);
}

static void do_one(struct model *m, uint64_t shape)
{
    uint32_t tenant = (uint32_t)tape_below(m->t, TENANTS);
    switch (tape_below(m->t, m->exact ? 13 : 16)) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4: {
        uint64_t work = draw_work(m, shape);
        for (uint64_t times = 1 + tape_below(m->t, 4); times > 0; times--)
            do_enqueue(m, tenant, work);
        break;
    }
    case 5:
    case 6:
    case 7:
    case 8:
    case 9:
        do_take(m);
        break;
    case 10:
        if (m->waiting[tenant] > 0) {
            uint32_t place = (uint32_t)tape_below(m->t, m->waiting[tenant]);
            weir_sched_remove(m->s, m->fifo[tenant][place]);
            fifo_cut(m, tenant, place);
        }
        break;
    case 11:
        weir_sched_suspend(m->s, tenant);
        m->suspended[tenant] = true;
        break;
    case 12:
        weir_sched_resume(m->s, tenant);
        if (m->suspended[tenant] && m->waiting[tenant] > 0 && m->mean_x64 == 0)
            note_cost(m, m->work[m->fifo[tenant][0]]);
        m->suspended[tenant] = false;
        break;
    case 13:
    case 14:
        do_correct(m);
        break;
    default:
        do_put_back(m);
        break;
    }
}

/* Work enough that the counters start a new era, some of the tenants having been left behind in the
 * old. */
static void reach_another_era(struct model *m, uint64_t takes)
{
    uint64_t work = (uint64_t)WEIR_SCHED_WORK_MAX_UWORK;
    for (uint64_t i = 0; i < takes; i++) {
        do_enqueue(m, 0, work);
        do_take(m);
    }
}

static void run(struct tape *t, enum weir_sched_policy policy)
{
    static const uint32_t weights[] = {1, 1, 2, 3, 4, 7, 100, 1000};
    struct model *m = tape_alloc(t, sizeof *m);
    m->t = t;
    m->policy = policy;
    m->s = sched_model_make(t, TENANTS, ITEMS, policy);
    m->taken.item = WEIR_NONE;
    m->exact = !tape_chance(t, 1, 3);
    for (uint32_t i = 0; i < TENANTS; i++) {
        m->weight[i] = weights[tape_below(t, WEIR_COUNT(weights))];
        if (m->weight[i] > 1)
            weir_sched_set_weight(m->s, i, m->weight[i]);
    }
    uint64_t shape = tape_below(t, 4);
    if (shape == 3 && m->weight[0] == 1)
        reach_another_era(m, tape_below(t, 4) * 1100);
    while (tape_more(t)) {
        do_one(m, shape);
        check_fairness(m);
        check_state(m);
    }
    m->taken.item = WEIR_NONE;
    while (weir_sched_tenants_ready(m->s) > 0) {
        do_take(m);
        check_fairness(m);
        check_state(m);
    }
}

void sched_model_fifo(struct tape *t)
{
    run(t, WEIR_SCHED_FIFO);
}

void sched_model_drr(struct tape *t)
{
    run(t, WEIR_SCHED_DRR);
}

void sched_model_drr_cost(struct tape *t)
{
    run(t, WEIR_SCHED_DRR_COST);
}

void sched_model_vtc(struct tape *t)
{
    run(t, WEIR_SCHED_VTC);
}
