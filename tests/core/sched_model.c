#include "core/sched_model.h"

#include <stdio.h>
#include <string.h>

#include "core/num.h"
#include "core/sched_judge.h"

#define TENANTS 6
#define ITEMS 48
#define CALLS_MAX 5

/* What calls of a tenant use, beside what was charged. */
enum use { USE_EXACT, USE_MORE, USE_LESS, USE_EITHER };

struct call {
    uint32_t tenant, item;
    uint64_t work, used, delivered;
    bool is_stale; /* since it was taken its tenant has come anew, or has another weight */
};

struct model {
    struct tape *t;
    struct weir_sched *s;
    enum weir_sched_policy policy;
    struct sched_judge judge;
    bool is_exact, puts_back, reweighs;
    uint32_t tenants_now; /* that send */
    uint32_t calls_max;
    enum use use[TENANTS];
    uint32_t shape[TENANTS];
    bool suspended[TENANTS];
    uint32_t fifo[TENANTS][ITEMS];
    uint32_t waiting[TENANTS];
    bool used[ITEMS]; /* waits or is out */
    uint64_t work[ITEMS];
    int64_t order[ITEMS];
    int64_t arrivals, returns;
    struct call calls[CALLS_MAX];
    uint32_t calls_now;
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

static void check_fairness(struct model *m)
{
    bool is_ready[TENANTS], is_free[TENANTS];
    for (uint32_t i = 0; i < TENANTS; i++) {
        is_ready[i] = ready(m, i);
        is_free[i] = m->is_exact && weir_sched_tenant_debt_uwork(m->s, i) == 0;
        for (uint32_t c = 0; c < m->calls_now && is_ready[i] && !m->judge.is_ready[i]; c++)
            m->calls[c].is_stale |= m->calls[c].tenant == i;
    }
    sched_judge_look(&m->judge, m->t, is_ready, is_free);
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
    if (!m->suspended[tenant])
        sched_judge_first_work(&m->judge, work);
    weir_sched_enqueue(m->s, tenant, item, work);
}

static uint64_t draw_used(struct model *m, uint32_t tenant, uint64_t work)
{
    bool is_more = m->use[tenant] == USE_MORE;
    if (m->use[tenant] == USE_EITHER)
        is_more = tape_chance(m->t, 1, 2);
    if (m->use[tenant] == USE_EXACT)
        return work;
    if (!is_more)
        return work - tape_below(m->t, work);
    return weir_min_u64(work * (1 + tape_below(m->t, 4)), (uint64_t)WEIR_SCHED_WORK_MAX_UWORK);
}

static void do_take(struct model *m)
{
    struct weir_sched_choice peeked;
    if (m->calls_now == m->calls_max || !weir_sched_peek(m->s, &peeked))
        return;
    struct weir_sched_choice taken = weir_sched_take(m->s);
    TAPE_CHECK(m->t, taken.tenant == peeked.tenant && taken.item == peeked.item);
    sched_judge_taken(&m->judge, taken.tenant, taken.work_uwork);
    fifo_cut(m, taken.tenant, 0);
    m->used[taken.item] = true;
    struct call *call = &m->calls[m->calls_now++];
    *call = (struct call){.tenant = taken.tenant, .item = taken.item, .work = taken.work_uwork};
    call->used = draw_used(m, call->tenant, call->work);
    sched_judge_will_use(&m->judge, call->tenant, call->work, call->used);
}

static struct call call_cut(struct model *m, uint32_t place)
{
    struct call call = m->calls[place];
    m->calls[place] = m->calls[--m->calls_now];
    m->used[call.item] = false;
    return call;
}

static void do_end(struct model *m)
{
    if (m->calls_now == 0)
        return;
    struct call call = call_cut(m, (uint32_t)tape_below(m->t, m->calls_now));
    sched_judge_delivered(&m->judge, call.tenant, call.used - call.delivered);
    sched_judge_ended(&m->judge, call.tenant, call.work, call.used, call.is_stale);
    if (call.used != call.work)
        weir_sched_correct(m->s, call.tenant, (int64_t)call.used - (int64_t)call.work);
}

static void do_deliver(struct model *m)
{
    if (m->calls_now == 0)
        return;
    struct call *call = &m->calls[tape_below(m->t, m->calls_now)];
    uint64_t rest = call->used - call->delivered, part = rest - rest / (1 + tape_below(m->t, 3));
    call->delivered += part;
    sched_judge_delivered(&m->judge, call->tenant, part);
}

static void do_put_back(struct model *m)
{
    if (m->calls_now == 0)
        return;
    struct call call = call_cut(m, (uint32_t)tape_below(m->t, m->calls_now));
    uint32_t tenant = call.tenant;
    m->used[call.item] = true;
    m->order[call.item] = -++m->returns;
    memmove(&m->fifo[tenant][1], &m->fifo[tenant][0], m->waiting[tenant] * sizeof(uint32_t));
    m->fifo[tenant][0] = call.item;
    m->waiting[tenant]++;
    sched_judge_put_back(&m->judge, tenant, call.work, call.is_stale);
    weir_sched_put_back(m->s, tenant, call.item, call.work);
}

static uint32_t draw_weight(struct tape *t)
{
    static const uint32_t weights[] = {1, 1, 2, 3, 4, 7, 100, 1000};
    return weights[tape_below(t, WEIR_COUNT(weights))];
}

static void set_weight(struct model *m, uint32_t tenant, uint32_t weight)
{
    weir_sched_set_weight(m->s, tenant, weight);
    sched_judge_weight(&m->judge, tenant, weight);
    for (uint32_t i = 0; i < m->calls_now; i++)
        m->calls[i].is_stale |= m->calls[i].tenant == tenant;
}

/* As the gate does it: a tenant with nothing waiting and no calls out; another takes its place. */
static void do_forget(struct model *m, uint32_t tenant)
{
    for (uint32_t i = 0; i < m->calls_now; i++)
        if (m->calls[i].tenant == tenant)
            return;
    if (m->waiting[tenant] > 0)
        return;
    weir_sched_tenant_forget(m->s, tenant);
    m->suspended[tenant] = false;
    sched_judge_weight(&m->judge, tenant, 1);
    TAPE_CHECK(m->t, !weir_sched_tenant_matters(m->s, tenant));
    set_weight(m, tenant, draw_weight(m->t));
}

static void do_remove(struct model *m, uint32_t tenant)
{
    if (m->waiting[tenant] == 0)
        return;
    uint32_t place = (uint32_t)tape_below(m->t, m->waiting[tenant]);
    weir_sched_remove(m->s, m->fifo[tenant][place]);
    fifo_cut(m, tenant, place);
}

static void do_resume(struct model *m, uint32_t tenant)
{
    if (m->suspended[tenant] && m->waiting[tenant] > 0)
        sched_judge_first_work(&m->judge, m->work[m->fifo[tenant][0]]);
    weir_sched_resume(m->s, tenant);
    m->suspended[tenant] = false;
}

/* A stretch in which everybody stays backlogged. */
static void do_steady(struct model *m)
{
    for (uint64_t times = tape_below(m->t, 256); times > 0; times--) {
        for (uint32_t i = 0; i < m->tenants_now; i++)
            if (m->waiting[i] < 2)
                do_enqueue(m, i, draw_work(m, m->shape[i]));
        do_take(m);
        check_fairness(m);
        if (times % 4 == 0)
            do_deliver(m);
        check_fairness(m);
        if (m->calls_now == m->calls_max)
            do_end(m);
        check_fairness(m);
    }
}

enum deed {
    ENQUEUE,
    TAKE,
    DELIVER,
    END,
    REMOVE,
    SUSPEND,
    RESUME,
    WEIGHT,
    FORGET,
    PUT_BACK,
    STEADY
};

static enum deed draw_deed(struct model *m)
{
    static const uint8_t deeds[] = {ENQUEUE, ENQUEUE, ENQUEUE, ENQUEUE, TAKE,    TAKE,   TAKE,
                                    TAKE,    TAKE,    TAKE,    DELIVER, END,     END,    END,
                                    END,     REMOVE,  SUSPEND, RESUME,  ENQUEUE, ENQUEUE};
    uint64_t rare = tape_below(m->t, 40);
    if (rare == 39)
        return m->reweighs ? WEIGHT : TAKE;
    if (rare == 38)
        return FORGET;
    if (rare >= 36)
        return m->puts_back ? PUT_BACK : TAKE;
    if (rare == 35)
        return STEADY;
    return (enum deed)deeds[tape_below(m->t, WEIR_COUNT(deeds))];
}

static void do_one(struct model *m)
{
    uint32_t tenant = (uint32_t)tape_below(m->t, m->tenants_now);
    switch (draw_deed(m)) {
    case ENQUEUE: {
        uint64_t work = draw_work(m, m->shape[tenant]);
        for (uint64_t times = 1 + tape_below(m->t, 4); times > 0; times--)
            do_enqueue(m, tenant, work);
        break;
    }
    case TAKE:
        do_take(m);
        break;
    case DELIVER:
        do_deliver(m);
        break;
    case END:
        do_end(m);
        break;
    case REMOVE:
        do_remove(m, tenant);
        break;
    case SUSPEND:
        weir_sched_suspend(m->s, tenant);
        m->suspended[tenant] = true;
        break;
    case RESUME:
        do_resume(m, tenant);
        break;
    case WEIGHT:
        set_weight(m, tenant, draw_weight(m->t));
        break;
    case FORGET:
        do_forget(m, tenant);
        break;
    case PUT_BACK:
        do_put_back(m);
        break;
    case STEADY:
        do_steady(m);
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
        call_cut(m, 0);
        sched_judge_delivered(&m->judge, 0, work);
        sched_judge_ended(&m->judge, 0, work, work, false);
    }
}

static void draw_setting(struct model *m)
{
    m->is_exact = !tape_chance(m->t, 1, 3);
    m->puts_back = !m->is_exact && tape_chance(m->t, 1, 2);
    m->reweighs = tape_chance(m->t, 1, 2);
    m->tenants_now = 2 + (uint32_t)tape_below(m->t, TENANTS - 1);
    m->calls_max = 1 + (uint32_t)tape_below(m->t, CALLS_MAX);
    uint32_t shape = (uint32_t)tape_below(m->t, 4);
    bool is_mixed = tape_chance(m->t, 1, 3);
    for (uint32_t i = 0; i < TENANTS; i++) {
        set_weight(m, i, draw_weight(m->t));
        m->shape[i] = is_mixed ? (uint32_t)tape_below(m->t, 3) : shape;
        if (!m->is_exact)
            m->use[i] = (enum use)tape_below(m->t, 4);
    }
    if (shape == 3 && m->judge.weight[0] == 1)
        reach_another_era(m, tape_below(m->t, 4) * 1100);
}

static void run(struct tape *t, enum weir_sched_policy policy)
{
    struct model *m = tape_alloc(t, sizeof *m);
    m->t = t;
    m->policy = policy;
    m->s = sched_model_make(t, TENANTS, ITEMS, policy);
    sched_judge_init(&m->judge, policy, TENANTS);
    draw_setting(m);
    while (tape_more(t)) {
        do_one(m);
        check_fairness(m);
        check_state(m);
    }
    while (weir_sched_tenants_ready(m->s) > 0) {
        do_take(m);
        do_end(m);
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
