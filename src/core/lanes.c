#include "core/lanes.h"

#include "core/num.h"

#define LINE 64u

struct lane {
    struct weir_sched *sched;
    uint32_t floor_percent;
    bool is_held;           /* an item was taken and is waited for: the lane has a waiter more */
    uint64_t largest_uwork; /* largest item since the lane last held none */
    /* Hundredths of micro-work that the floor promises and the lane has not had; 0 while it is
     * empty. 128 bits: a promise is percent x work. */
    unsigned __int128 behind;
};

struct lanes_tenant {
    uint16_t weight; /* 0 means 1 */
    uint8_t lanes;   /* bit l: lane l's scheduler knows this tenant */
    uint8_t suspended;
};
_Static_assert(WEIR_SCHED_WEIGHT_MAX <= UINT16_MAX, "a weight fits");
_Static_assert(WEIR_LANES_MAX <= 8, "a lane has a bit");

struct weir_lanes {
    struct weir_lanes_limits limits;
    struct weir_sched_item *items;
    struct lanes_tenant *tenants;
    struct weir_gap *gap; /* NULL: nobody measures */
    uint64_t gap_due_ns;
    struct lane lane[WEIR_LANES_MAX];
};

static size_t round_up(size_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

static struct weir_sched_limits sched_limits(struct weir_lanes_limits limits)
{
    return (struct weir_sched_limits){limits.tenants_max, limits.items_max};
}

bool weir_lanes_config_ok(const struct weir_lane_config *config, uint32_t lanes)
{
    if (lanes == 0 || lanes > WEIR_LANES_MAX)
        return false;
    uint32_t left_percent = 100;
    for (uint32_t i = 0; i < lanes; i++) {
        if (config[i].floor_percent > left_percent)
            return false;
        left_percent -= config[i].floor_percent;
    }
    return true;
}

size_t weir_lanes_bytes(struct weir_lanes_limits limits)
{
    return LINE + round_up(sizeof(struct weir_lanes)) +
           round_up(limits.tenants_max * sizeof(struct lanes_tenant)) +
           limits.lanes * round_up(weir_sched_bytes(sched_limits(limits)));
}

struct weir_lanes *weir_lanes_init(void *mem, size_t bytes, struct weir_lanes_limits limits,
                                   const struct weir_lane_config *config,
                                   struct weir_sched_item *items)
{
    WEIR_INVARIANT(weir_lanes_config_ok(config, limits.lanes));
    WEIR_INVARIANT(bytes >= weir_lanes_bytes(limits));
    unsigned char *at = mem;
    at += (LINE - (uintptr_t)at % LINE) % LINE;
    struct weir_lanes *l = (void *)at;
    at += round_up(sizeof *l);
    l->limits = limits;
    l->items = items;
    l->tenants = (void *)at;
    at += round_up(limits.tenants_max * sizeof(struct lanes_tenant));
    size_t sched_bytes = round_up(weir_sched_bytes(sched_limits(limits)));
    for (uint32_t i = 0; i < limits.lanes; i++, at += sched_bytes) {
        l->lane[i].floor_percent = config[i].floor_percent;
        l->lane[i].sched =
            weir_sched_init(at, sched_bytes, sched_limits(limits), config[i].policy, items);
    }
    return l;
}

static struct lane *lane_at(struct weir_lanes *l, uint32_t lane)
{
    WEIR_INVARIANT(lane < l->limits.lanes);
    return &l->lane[lane];
}

static struct lanes_tenant *tenant_at(const struct weir_lanes *l, uint32_t tenant)
{
    WEIR_INVARIANT(tenant < l->limits.tenants_max);
    return &l->tenants[tenant];
}

static bool has_waiters(const struct lane *lane)
{
    return lane->is_held || weir_sched_tenants_ready(lane->sched) > 0;
}

/* A lane whose items are gone, or belong to suspended tenants, earns nothing and keeps nothing. */
static void lane_note_empty(struct lane *lane)
{
    if (!has_waiters(lane))
        lane->behind = 0;
    if (!lane->is_held && weir_sched_items(lane->sched) == 0)
        lane->largest_uwork = 0;
}

static void lane_note_item(struct lane *lane, uint64_t work_uwork)
{
    uint64_t clamped = weir_min_u64(work_uwork, (uint64_t)WEIR_SCHED_WORK_MAX_UWORK);
    lane->largest_uwork = weir_max_u64(lane->largest_uwork, clamped);
}

static void lane_suspend(struct weir_lanes *l, uint32_t lane, uint32_t tenant)
{
    weir_sched_suspend(l->lane[lane].sched, tenant);
    if (l->gap)
        weir_gap_suspend(l->gap, lane, tenant);
}

/* Lanes whose scheduler first meets a tenant learn what holds for it in all of them. */
static void lane_meet_tenant(struct weir_lanes *l, uint32_t lane, uint32_t tenant)
{
    struct lanes_tenant *t = tenant_at(l, tenant);
    uint8_t bit = (uint8_t)(1u << lane);
    if (t->lanes & bit)
        return;
    t->lanes |= bit;
    weir_sched_set_weight(l->lane[lane].sched, tenant, t->weight ? t->weight : 1);
    if (l->gap)
        weir_gap_set_weight(l->gap, lane, tenant, t->weight ? t->weight : 1);
    if (t->suspended)
        lane_suspend(l, lane, tenant);
}

static bool knows_tenant(const struct weir_lanes *l, uint32_t lane, uint32_t tenant)
{
    return tenant_at(l, tenant)->lanes >> lane & 1;
}

void weir_lanes_set_weight(struct weir_lanes *l, uint32_t tenant, uint32_t weight)
{
    WEIR_INVARIANT(weight >= 1 && weight <= WEIR_SCHED_WEIGHT_MAX);
    tenant_at(l, tenant)->weight = (uint16_t)weight;
    for (uint32_t i = 0; i < l->limits.lanes; i++) {
        if (!knows_tenant(l, i, tenant))
            continue;
        weir_sched_set_weight(l->lane[i].sched, tenant, weight);
        if (l->gap)
            weir_gap_set_weight(l->gap, i, tenant, weight);
    }
}

void weir_lanes_enqueue(struct weir_lanes *l, uint32_t lane, uint32_t tenant, uint32_t item,
                        uint64_t work_uwork)
{
    struct lane *into = lane_at(l, lane);
    lane_meet_tenant(l, lane, tenant);
    weir_sched_enqueue(into->sched, tenant, item, work_uwork);
    l->items[item].lane = lane;
    lane_note_item(into, work_uwork);
    if (l->gap)
        weir_gap_enqueue(l->gap, lane, tenant);
}

void weir_lanes_remove(struct weir_lanes *l, uint32_t item)
{
    uint32_t lane = weir_lanes_item_lane(l, item);
    struct lane *from = lane_at(l, lane);
    if (l->gap)
        weir_gap_remove(l->gap, lane, l->items[item].tenant - 1);
    weir_sched_remove(from->sched, item);
    lane_note_empty(from);
}

void weir_lanes_hold(struct weir_lanes *l, uint32_t lane, bool is_held)
{
    struct lane *it = lane_at(l, lane);
    it->is_held = is_held;
    lane_note_empty(it);
}

static unsigned __int128 promise(uint64_t percent, uint64_t work_uwork)
{
    return (unsigned __int128)percent * work_uwork;
}

/* Work dispatched in `served`: the floors of all lanes with waiters grow by their part of it, and
 * what the lane got comes off its own. What it got beyond is not held against it. Returns what came
 * off. */
static uint64_t floors_charge(struct weir_lanes *l, struct lane *served, uint64_t work_uwork)
{
    for (uint32_t i = 0; i < l->limits.lanes; i++) {
        struct lane *lane = &l->lane[i];
        if (lane->floor_percent > 0 && (lane == served || has_waiters(lane)))
            lane->behind += promise(lane->floor_percent, work_uwork);
    }
    if (served->behind == 0)
        return 0;
    unsigned __int128 counted = promise(100, work_uwork);
    if (counted > served->behind)
        counted = served->behind;
    served->behind -= counted;
    return (uint64_t)counted;
}

/* The reverse, counted being what floors_charge returned. */
static void floors_uncharge(struct weir_lanes *l, struct lane *served, uint64_t work_uwork,
                            uint64_t counted)
{
    served->behind += counted;
    for (uint32_t i = 0; i < l->limits.lanes; i++) {
        struct lane *lane = &l->lane[i];
        unsigned __int128 less = promise(lane->floor_percent, work_uwork);
        lane->behind = lane->behind > less ? lane->behind - less : 0;
    }
}

/* The lane to serve: of those that are behind their floor by their largest item, the one furthest
 * beyond; else the highest with waiters. */
static uint32_t lane_choose(const struct weir_lanes *l)
{
    uint32_t chosen = WEIR_NONE;
    unsigned __int128 most = 0;
    for (uint32_t i = 0; i < l->limits.lanes; i++) {
        const struct lane *lane = &l->lane[i];
        if (lane->floor_percent == 0 || !has_waiters(lane))
            continue;
        unsigned __int128 due = promise(100, lane->largest_uwork);
        if (lane->behind >= due && (chosen == WEIR_NONE || lane->behind - due > most)) {
            chosen = i;
            most = lane->behind - due;
        }
    }
    for (uint32_t i = 0; chosen == WEIR_NONE && i < l->limits.lanes; i++)
        if (weir_sched_tenants_ready(l->lane[i].sched) > 0)
            chosen = i;
    return chosen;
}

bool weir_lanes_peek(struct weir_lanes *l, struct weir_lanes_choice *choice)
{
    uint32_t lane = lane_choose(l);
    if (lane == WEIR_NONE)
        return false;
    struct weir_sched_choice inner = {.tenant = WEIR_NONE, .item = WEIR_NONE};
    bool found = weir_sched_peek(l->lane[lane].sched, &inner);
    WEIR_INVARIANT(found || l->lane[lane].is_held);
    *choice = (struct weir_lanes_choice){lane, inner.tenant, inner.item, inner.work_uwork};
    return true;
}

struct weir_lanes_choice weir_lanes_take(struct weir_lanes *l)
{
    uint32_t lane = lane_choose(l);
    WEIR_INVARIANT(lane != WEIR_NONE);
    struct weir_sched_choice inner = weir_sched_take(l->lane[lane].sched);
    /* Kept beside the item, which is in no queue now, for weir_lanes_put_back. */
    l->items[inner.item].order = floors_charge(l, &l->lane[lane], inner.work_uwork);
    lane_note_empty(&l->lane[lane]);
    if (l->gap)
        weir_gap_take(l->gap, lane, inner.tenant, inner.work_uwork);
    return (struct weir_lanes_choice){lane, inner.tenant, inner.item, inner.work_uwork};
}

void weir_lanes_put_back(struct weir_lanes *l, uint32_t lane, uint32_t tenant, uint32_t item,
                         uint64_t work_uwork)
{
    WEIR_INVARIANT(item < l->limits.items_max);
    struct lane *into = lane_at(l, lane);
    uint64_t counted = l->items[item].order;
    lane_meet_tenant(l, lane, tenant);
    weir_sched_put_back(into->sched, tenant, item, work_uwork);
    l->items[item].lane = lane;
    lane_note_item(into, work_uwork);
    floors_uncharge(l, into, work_uwork, counted);
    lane_note_empty(into);
    if (l->gap)
        weir_gap_put_back(l->gap, lane, tenant, work_uwork);
}

void weir_lanes_correct(struct weir_lanes *l, uint32_t lane, uint32_t tenant, int64_t delta_uwork)
{
    weir_sched_correct(lane_at(l, lane)->sched, tenant, delta_uwork);
    if (l->gap)
        weir_gap_correct(l->gap, lane, tenant, delta_uwork);
}

void weir_lanes_suspend(struct weir_lanes *l, uint32_t tenant)
{
    tenant_at(l, tenant)->suspended = 1;
    for (uint32_t i = 0; i < l->limits.lanes; i++) {
        if (!knows_tenant(l, i, tenant))
            continue;
        lane_suspend(l, i, tenant);
        lane_note_empty(&l->lane[i]);
    }
}

void weir_lanes_resume(struct weir_lanes *l, uint32_t tenant)
{
    tenant_at(l, tenant)->suspended = 0;
    for (uint32_t i = 0; i < l->limits.lanes; i++) {
        if (!knows_tenant(l, i, tenant))
            continue;
        weir_sched_resume(l->lane[i].sched, tenant);
        if (l->gap)
            weir_gap_resume(l->gap, i, tenant);
    }
}

bool weir_lanes_is_suspended(const struct weir_lanes *l, uint32_t tenant)
{
    return tenant_at(l, tenant)->suspended;
}

bool weir_lanes_tenant_matters(struct weir_lanes *l, uint32_t tenant)
{
    if (tenant_at(l, tenant)->suspended)
        return true;
    for (uint32_t i = 0; i < l->limits.lanes; i++)
        if (knows_tenant(l, i, tenant) && weir_sched_tenant_matters(l->lane[i].sched, tenant))
            return true;
    return false;
}

void weir_lanes_tenant_forget(struct weir_lanes *l, uint32_t tenant)
{
    for (uint32_t i = 0; i < l->limits.lanes; i++) {
        if (!knows_tenant(l, i, tenant))
            continue;
        weir_sched_tenant_forget(l->lane[i].sched, tenant);
        if (l->gap)
            weir_gap_tenant_forget(l->gap, i, tenant);
    }
    *tenant_at(l, tenant) = (struct lanes_tenant){0};
}

uint32_t weir_lanes_items(const struct weir_lanes *l)
{
    uint32_t items = 0;
    for (uint32_t i = 0; i < l->limits.lanes; i++)
        items += weir_sched_items(l->lane[i].sched);
    return items;
}

uint32_t weir_lanes_items_ready(const struct weir_lanes *l)
{
    uint32_t items = 0;
    for (uint32_t i = 0; i < l->limits.lanes; i++)
        items += weir_sched_items_ready(l->lane[i].sched);
    return items;
}

uint32_t weir_lanes_tenant_items(const struct weir_lanes *l, uint32_t tenant)
{
    uint32_t items = 0;
    for (uint32_t i = 0; i < l->limits.lanes; i++)
        if (knows_tenant(l, i, tenant))
            items += weir_sched_tenant_items(l->lane[i].sched, tenant);
    return items;
}

uint32_t weir_lanes_item_lane(const struct weir_lanes *l, uint32_t item)
{
    WEIR_INVARIANT(item < l->limits.items_max);
    return l->items[item].lane;
}

const struct weir_sched *weir_lanes_sched(const struct weir_lanes *l, uint32_t lane)
{
    WEIR_INVARIANT(lane < l->limits.lanes);
    return l->lane[lane].sched;
}

void weir_lanes_set_gap(struct weir_lanes *l, struct weir_gap *gap)
{
    l->gap = gap;
}

void weir_lanes_end_slices(struct weir_lanes *l, uint64_t now_ns)
{
    if (!l->gap || now_ns < l->gap_due_ns)
        return;
    uint64_t quantum_uwork[WEIR_LANES_MAX];
    for (uint32_t i = 0; i < l->limits.lanes; i++)
        quantum_uwork[i] = weir_sched_quantum_uwork(l->lane[i].sched);
    weir_gap_advance(l->gap, quantum_uwork, now_ns);
    l->gap_due_ns = weir_gap_due_ns(l->gap);
}

uint64_t weir_lanes_behind_uwork(const struct weir_lanes *l, uint32_t lane)
{
    WEIR_INVARIANT(lane < l->limits.lanes);
    return (uint64_t)(l->lane[lane].behind / 100);
}
