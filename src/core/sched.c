#include "core/sched.h"

#include "core/sched_internal.h"

#define LINE 64u

static const struct sched_order *const orders[] = {
    [WEIR_SCHED_FIFO] = &sched_order_fifo,
    [WEIR_SCHED_DRR] = &sched_order_drr,
    [WEIR_SCHED_DRR_COST] = &sched_order_drr_cost,
    [WEIR_SCHED_VTC] = &sched_order_vtc,
};

/* The parts of a scheduler's memory, each starting a cache line. Parts that a policy does not use
 * stay untouched zero memory. */
struct layout {
    size_t sched, tenants, heap_entries, heap_place, set_0, set_1, bytes;
};

static size_t reserve_part(size_t *end, size_t bytes)
{
    size_t start = *end;
    *end = (start + bytes + LINE - 1) / LINE * LINE;
    return start;
}

static struct layout layout_of(struct weir_sched_limits limits)
{
    struct layout at = {0};
    size_t tenants = limits.tenants_max;
    size_t set_bytes = weir_bits_words(limits.tenants_max) * sizeof(uint64_t);
    at.sched = reserve_part(&at.bytes, sizeof(struct weir_sched));
    at.tenants = reserve_part(&at.bytes, tenants * sizeof(struct sched_tenant));
    at.heap_entries =
        reserve_part(&at.bytes, (tenants + WEIR_HEAP_SPARE) * sizeof(struct weir_heap_entry));
    at.heap_place = reserve_part(&at.bytes, tenants * sizeof(uint32_t));
    at.set_0 = reserve_part(&at.bytes, set_bytes);
    at.set_1 = reserve_part(&at.bytes, set_bytes);
    return at;
}

size_t weir_sched_bytes(struct weir_sched_limits limits)
{
    return layout_of(limits).bytes + LINE; /* room to start at a cache line */
}

struct weir_sched *weir_sched_init(void *mem, size_t bytes, struct weir_sched_limits limits,
                                   enum weir_sched_policy policy, struct weir_sched_item *items)
{
    WEIR_INVARIANT(limits.tenants_max > 0 && limits.tenants_max < UINT32_MAX);
    WEIR_INVARIANT(limits.items_max > 0 && limits.items_max < UINT32_MAX);
    WEIR_INVARIANT(bytes >= weir_sched_bytes(limits));
    struct layout at = layout_of(limits);
    unsigned char *start = mem;
    start += (LINE - (uintptr_t)start % LINE) % LINE;
    struct weir_sched *s = (void *)(start + at.sched);
    s->limits = limits;
    s->policy = policy;
    s->order = orders[policy];
    s->items = items;
    s->tenants = (void *)(start + at.tenants);
    weir_heap_init(&s->heap, (void *)(start + at.heap_entries), (void *)(start + at.heap_place),
                   limits.tenants_max);
    weir_bits_init(&s->round.set[0], (void *)(start + at.set_0), limits.tenants_max);
    weir_bits_init(&s->round.set[1], (void *)(start + at.set_1), limits.tenants_max);
    return s;
}

void weir_sched_set_weight(struct weir_sched *s, uint32_t tenant, uint32_t weight)
{
    WEIR_INVARIANT(weight >= 1 && weight <= WEIR_SCHED_WEIGHT_MAX);
    struct sched_tenant *t = sched_tenant(s, tenant);
    if (weight == sched_weight(t))
        return; /* nor is a turn made up for a request put back lost */
    t->weight = weight;
    t->rest = (uint32_t)weir_min_u64(t->rest, weight - 1);
    t->turns_left = (uint32_t)weir_min_u64(t->turns_left, weight);
}

static struct weir_sched_item *item_at(const struct weir_sched *s, uint32_t item)
{
    WEIR_INVARIANT(item < s->limits.items_max);
    return &s->items[item];
}

static bool in_order(const struct sched_tenant *t)
{
    return t->items > 0 && !t->suspended;
}

/* Links a free item in behind `prev` (1 + item; 0 = at the head). */
static void fifo_insert(struct weir_sched *s, struct sched_tenant *t, uint32_t tenant,
                        uint32_t item, uint32_t prev, uint64_t work_uwork)
{
    struct weir_sched_item *i = item_at(s, item);
    WEIR_INVARIANT(i->tenant == 0);
    uint32_t next = prev ? s->items[prev - 1].next : t->head;
    i->tenant = tenant + 1;
    i->work_uwork = weir_max_u64(1, weir_min_u64(work_uwork, (uint64_t)WEIR_SCHED_WORK_MAX_UWORK));
    i->prev = prev;
    i->next = next;
    *(prev ? &s->items[prev - 1].next : &t->head) = item + 1;
    *(next ? &s->items[next - 1].prev : &t->tail) = item + 1;
    t->items++;
    s->items_now++;
    s->items_ready += !t->suspended;
    s->tenants_ready += t->items == 1 && !t->suspended;
}

static void fifo_remove(struct weir_sched *s, struct sched_tenant *t, struct weir_sched_item *i)
{
    *(i->prev ? &s->items[i->prev - 1].next : &t->head) = i->next;
    *(i->next ? &s->items[i->next - 1].prev : &t->tail) = i->prev;
    i->tenant = 0;
    t->items--;
    s->items_now--;
    s->items_ready -= !t->suspended;
    s->tenants_ready -= t->items == 0 && !t->suspended;
}

void weir_sched_enqueue(struct weir_sched *s, uint32_t tenant, uint32_t item, uint64_t work_uwork)
{
    struct sched_tenant *t = sched_tenant(s, tenant);
    bool was_in_order = in_order(t);
    item_at(s, item)->order = (UINT64_C(1) << 63) + s->arrivals++;
    fifo_insert(s, t, tenant, item, t->tail, work_uwork);
    if (!was_in_order && !t->suspended)
        s->order->arrive(s, tenant);
}

void weir_sched_remove(struct weir_sched *s, uint32_t item)
{
    struct weir_sched_item *i = item_at(s, item);
    WEIR_INVARIANT(i->tenant != 0);
    uint32_t tenant = i->tenant - 1;
    struct sched_tenant *t = sched_tenant(s, tenant);
    bool was_head = t->head == item + 1;
    fifo_remove(s, t, i);
    if (t->suspended)
        return;
    if (t->items == 0)
        s->order->leave(s, tenant);
    else if (was_head)
        s->order->head_changed(s, tenant);
}

bool weir_sched_peek(struct weir_sched *s, struct weir_sched_choice *choice)
{
    if (s->tenants_ready == 0)
        return false;
    uint32_t tenant = s->order->choose(s);
    const struct sched_tenant *t = &s->tenants[tenant];
    WEIR_INVARIANT(in_order(t));
    choice->tenant = tenant;
    choice->item = t->head - 1;
    choice->work_uwork = s->items[choice->item].work_uwork;
    return true;
}

struct weir_sched_choice weir_sched_take(struct weir_sched *s)
{
    struct weir_sched_choice choice;
    bool found = weir_sched_peek(s, &choice);
    WEIR_INVARIANT(found);
    struct sched_tenant *t = sched_tenant(s, choice.tenant);
    fifo_remove(s, t, &s->items[choice.item]);
    s->order->charge(s, choice.tenant, choice.work_uwork);
    return choice;
}

void weir_sched_put_back(struct weir_sched *s, uint32_t tenant, uint32_t item, uint64_t work_uwork)
{
    struct sched_tenant *t = sched_tenant(s, tenant);
    bool was_in_order = in_order(t);
    item_at(s, item)->order = (UINT64_C(1) << 63) - ++s->returns;
    fifo_insert(s, t, tenant, item, 0, work_uwork);
    s->order->put_back(s, tenant, s->items[item].work_uwork, was_in_order);
}

void weir_sched_correct(struct weir_sched *s, uint32_t tenant, int64_t delta_uwork)
{
    int64_t most = WEIR_SCHED_WORK_MAX_UWORK;
    s->order->correct(s, tenant, weir_max_i64(-most, weir_min_i64(delta_uwork, most)));
}

void weir_sched_suspend(struct weir_sched *s, uint32_t tenant)
{
    struct sched_tenant *t = sched_tenant(s, tenant);
    if (t->suspended)
        return;
    t->suspended = 1;
    if (t->items == 0)
        return;
    s->items_ready -= t->items;
    s->tenants_ready--;
    s->order->leave(s, tenant);
}

void weir_sched_resume(struct weir_sched *s, uint32_t tenant)
{
    struct sched_tenant *t = sched_tenant(s, tenant);
    if (!t->suspended)
        return;
    t->suspended = 0;
    if (t->items == 0)
        return;
    s->items_ready += t->items;
    s->tenants_ready++;
    s->order->arrive(s, tenant);
}

bool weir_sched_is_suspended(const struct weir_sched *s, uint32_t tenant)
{
    WEIR_INVARIANT(tenant < s->limits.tenants_max);
    return s->tenants[tenant].suspended;
}

uint32_t weir_sched_items(const struct weir_sched *s)
{
    return s->items_now;
}

uint32_t weir_sched_items_ready(const struct weir_sched *s)
{
    return s->items_ready;
}

uint32_t weir_sched_tenants_ready(const struct weir_sched *s)
{
    return s->tenants_ready;
}

uint64_t weir_sched_quantum_uwork(const struct weir_sched *s)
{
    return s->granted - s->granted_prev;
}

uint32_t weir_sched_tenant_items(const struct weir_sched *s, uint32_t tenant)
{
    WEIR_INVARIANT(tenant < s->limits.tenants_max);
    return s->tenants[tenant].items;
}

uint32_t weir_sched_tenant_head(const struct weir_sched *s, uint32_t tenant)
{
    WEIR_INVARIANT(tenant < s->limits.tenants_max);
    return s->tenants[tenant].head - 1; /* 0 = empty becomes WEIR_NONE */
}

uint32_t weir_sched_item_next(const struct weir_sched *s, uint32_t item)
{
    return item_at(s, item)->next - 1;
}

uint64_t weir_sched_tenant_debt_uwork(struct weir_sched *s, uint32_t tenant)
{
    const struct sched_tenant *t = sched_tenant(s, tenant);
    uint64_t ahead = weir_sub_sat_u64(t->counter, s->order->level(s));
    return ahead ? weir_muldiv_floor(ahead, sched_weight(t), 1) + t->rest : 0;
}

bool weir_sched_tenant_matters(struct weir_sched *s, uint32_t tenant)
{
    const struct sched_tenant *t = sched_tenant(s, tenant);
    return t->items > 0 || t->suspended || t->counter > s->order->level(s);
}

void weir_sched_tenant_forget(struct weir_sched *s, uint32_t tenant)
{
    struct sched_tenant *t = sched_tenant(s, tenant);
    WEIR_INVARIANT(t->items == 0);
    s->order->forget(s, tenant);
    *t = (struct sched_tenant){.eras = s->eras};
}

const char *weir_sched_policy_name(enum weir_sched_policy policy)
{
    switch (policy) {
    case WEIR_SCHED_FIFO:
        return "fifo";
    case WEIR_SCHED_DRR:
        return "drr";
    case WEIR_SCHED_DRR_COST:
        return "drr-cost";
    case WEIR_SCHED_VTC:
        return "vtc";
    }
    weir_panic("policy is one of the four", __FILE__, __LINE__);
}
