#include "core/gap_world.h"

#include <stdio.h>

#include "core/gap_twin.h"
#include "core/lanes.h"

#define W ((uint64_t)WEIR_UWORK_PER_WORK)
#define TENANTS GAP_TWIN_TENANTS
#define ITEMS 48u
#define LANES 2u
#define FLIGHTS 6u

struct flight {
    struct weir_lanes_choice taken;
    bool is_alive;
};

struct world {
    struct tape *t;
    struct weir_lanes *lanes;
    struct weir_gap *gap;
    struct gap_twin *twin[LANES];
    enum weir_sched_policy policy;
    uint64_t slice;
    bool used[ITEMS];
    uint32_t lane_of[ITEMS], tenant_of[ITEMS];
    bool suspended[TENANTS];
    struct flight flights[FLIGHTS];
};

static void world_log(struct world *w, uint32_t lane, enum gap_twin_kind kind, uint32_t tenant,
                      int64_t amount)
{
    for (uint32_t i = 0; i < LANES; i++)
        if (lane == WEIR_NONE || lane == i)
            gap_twin_log(w->twin[i], w->slice, kind, tenant, amount);
}

static bool world_has_room(const struct world *w)
{
    for (uint32_t i = 0; i < LANES; i++)
        if (w->twin[i]->count + 8 > GAP_TWIN_EVENTS)
            return false;
    return w->slice + 130 < GAP_TWIN_SLICES;
}

static void world_compare(struct world *w, uint32_t lane, const struct weir_gap_window *want)
{
    struct weir_gap_view view;
    weir_gap_view(w->gap, lane, &view);
    for (uint32_t i = 0; i < WEIR_GAP_WINDOWS; i++) {
        const struct weir_gap_window *got = &view.windows[i];
        TAPE_CHECK_MSG(
            w->t,
            got->compared == want[i].compared && got->ahead == want[i].ahead &&
                got->behind == want[i].behind,
            "slice %d, lane %u, %u slices: compared %u, twin %u; %d and %d, twin %d and %d",
            (int)w->slice, lane, got->slices, got->compared, want[i].compared, (int)got->ahead,
            (int)got->behind, (int)want[i].ahead, (int)want[i].behind);
        TAPE_CHECK_MSG(w->t, got->gap_uwork == want[i].gap_uwork,
                       "slice %d, %u slices: %g, twin %g", (int)w->slice, got->slices,
                       (double)got->gap_uwork, (double)want[i].gap_uwork);
        TAPE_CHECK_MSG(w->t, got->bound_uwork == want[i].bound_uwork,
                       "slice %d, %u slices: bound %g, twin %g", (int)w->slice, got->slices,
                       (double)got->bound_uwork, (double)want[i].bound_uwork);
        TAPE_CHECK(w->t, got->jain_ppm == want[i].jain_ppm);
        TAPE_CHECK(w->t, got->broken == want[i].broken);
        TAPE_CHECK_MSG(w->t, got->broken == 0,
                       "slice %d, lane %u, %u slices: %d ahead of %d by %g, "
                       "bound %g",
                       (int)w->slice, lane, got->slices, (int)got->ahead, (int)got->behind,
                       (double)got->gap_uwork, (double)got->bound_uwork);
    }
}

/* Ends slices: all at once, as after a pause, or each at its time. */
static void world_pass(struct world *w, uint64_t slices, bool at_once)
{
    struct weir_gap_window want[LANES][WEIR_GAP_WINDOWS];
    for (uint64_t end = w->slice + slices; w->slice < end;) {
        for (uint32_t i = 0; i < LANES; i++) {
            w->twin[i]->quantum[w->slice + 1] =
                weir_sched_quantum_uwork(weir_lanes_sched(w->lanes, i));
            gap_twin_windows(w->twin[i], w->slice, want[i]);
        }
        w->slice++;
        if (at_once && w->slice < end)
            continue;
        weir_lanes_end_slices(w->lanes, w->slice * WEIR_GAP_SLICE_NS + 5);
        for (uint32_t i = 0; i < LANES; i++)
            world_compare(w, i, want[i]);
    }
}

static uint64_t world_work(struct world *w, uint64_t shape)
{
    switch (shape) {
    case 0:
        return 1000 * W;
    case 1:
        return 1 + tape_below(w->t, 1000);
    default:
        return W << tape_below(w->t, 20);
    }
}

static void world_enqueue(struct world *w, uint32_t tenant, uint32_t lane, uint64_t work)
{
    uint32_t item = 0;
    while (item < ITEMS && w->used[item])
        item++;
    if (item == ITEMS)
        return;
    w->used[item] = true;
    w->lane_of[item] = lane;
    w->tenant_of[item] = tenant;
    world_log(w, lane, GAP_TWIN_ENQUEUE, tenant, 0);
    weir_lanes_enqueue(w->lanes, lane, tenant, item, work);
}

static void world_take(struct world *w)
{
    struct weir_lanes_choice choice;
    struct flight *free_flight = NULL;
    for (uint32_t i = 0; i < FLIGHTS; i++)
        if (!w->flights[i].is_alive)
            free_flight = &w->flights[i];
    if (!free_flight || !weir_lanes_peek(w->lanes, &choice))
        return;
    world_log(w, choice.lane, GAP_TWIN_TAKE, choice.tenant, (int64_t)choice.work_uwork);
    *free_flight = (struct flight){weir_lanes_take(w->lanes), true};
}

static struct flight *world_flight(struct world *w)
{
    struct flight *f = &w->flights[tape_below(w->t, FLIGHTS)];
    return f->is_alive ? f : NULL;
}

static void world_correct(struct world *w)
{
    struct flight *f = world_flight(w);
    if (!f)
        return;
    int64_t work = (int64_t)f->taken.work_uwork;
    int64_t delta = tape_chance(w->t, 1, 2) ? (int64_t)tape_below(w->t, 4) * work
                                            : -(int64_t)tape_below(w->t, (uint64_t)work);
    f->is_alive = false;
    w->used[f->taken.item] = false;
    world_log(w, f->taken.lane, GAP_TWIN_CORRECT, f->taken.tenant, delta);
    weir_lanes_correct(w->lanes, f->taken.lane, f->taken.tenant, delta);
}

/* A call that failed before a byte: put back, and some of them removed at once. */
static void world_put_back(struct world *w)
{
    struct flight *f = world_flight(w);
    if (!f)
        return;
    f->is_alive = false;
    const struct weir_lanes_choice *c = &f->taken;
    world_log(w, c->lane, GAP_TWIN_PUT_BACK, c->tenant, (int64_t)c->work_uwork);
    weir_lanes_put_back(w->lanes, c->lane, c->tenant, c->item, c->work_uwork);
    if (!tape_chance(w->t, 1, 3))
        return;
    world_log(w, c->lane, GAP_TWIN_REMOVE, c->tenant, 0);
    weir_lanes_remove(w->lanes, c->item);
    w->used[c->item] = false;
}

static void world_remove(struct world *w, uint32_t item)
{
    for (uint32_t i = 0; i < FLIGHTS; i++)
        if (w->flights[i].is_alive && w->flights[i].taken.item == item)
            return;
    if (!w->used[item])
        return;
    w->used[item] = false;
    world_log(w, w->lane_of[item], GAP_TWIN_REMOVE, w->tenant_of[item], 0);
    weir_lanes_remove(w->lanes, item);
}

static void world_forget(struct world *w, uint32_t tenant)
{
    for (uint32_t i = 0; i < ITEMS; i++)
        if (w->used[i] && w->tenant_of[i] == tenant)
            return;
    w->suspended[tenant] = false;
    world_log(w, WEIR_NONE, GAP_TWIN_FORGET, tenant, 0);
    weir_lanes_tenant_forget(w->lanes, tenant);
}

static void world_suspend(struct world *w, uint32_t tenant)
{
    world_log(w, WEIR_NONE, w->suspended[tenant] ? GAP_TWIN_RESUME : GAP_TWIN_SUSPEND, tenant, 0);
    if (w->suspended[tenant])
        weir_lanes_resume(w->lanes, tenant);
    else
        weir_lanes_suspend(w->lanes, tenant);
    w->suspended[tenant] = !w->suspended[tenant];
}

static void world_reweigh(struct world *w, uint32_t tenant)
{
    static const uint32_t weights[] = {1, 2, 3, 4, 7, 100, 1000};
    uint32_t weight = weights[tape_below(w->t, WEIR_COUNT(weights))];
    world_log(w, WEIR_NONE, GAP_TWIN_WEIGHT, tenant, weight);
    weir_lanes_set_weight(w->lanes, tenant, weight);
}

static void world_step(struct world *w, uint64_t shape, bool is_calm)
{
    uint32_t tenant = (uint32_t)tape_below(w->t, TENANTS);
    uint32_t lane = tape_chance(w->t, 1, 4);
    switch (tape_below(w->t, is_calm ? 17 : 24)) {
    default: {
        uint64_t work = world_work(w, shape);
        for (uint64_t times = 1 + tape_below(w->t, 4); times > 0; times--)
            world_enqueue(w, tenant, lane, work);
        return;
    }
    case 5:
    case 6:
    case 7:
    case 8:
    case 9:
    case 10:
        world_take(w);
        return;
    case 11:
    case 12:
        world_correct(w);
        return;
    case 13:
    case 14:
    case 15:
        world_pass(w, 1, false);
        return;
    case 16: {
        uint64_t slices = 1 + tape_below(w->t, tape_chance(w->t, 1, 20) ? 120 : 12);
        world_pass(w, slices, tape_chance(w->t, 1, 2));
        return;
    }
    case 17:
    case 18:
        world_put_back(w);
        return;
    case 19:
    case 20:
        world_remove(w, (uint32_t)tape_below(w->t, ITEMS));
        return;
    case 21:
        world_suspend(w, tenant);
        return;
    case 22:
        world_reweigh(w, tenant);
        return;
    case 23:
        world_forget(w, tenant);
        return;
    }
}

static void world_run(struct tape *t, enum weir_sched_policy policy)
{
    struct world *w = tape_alloc(t, sizeof *w);
    w->t = t;
    w->policy = policy;
    w->slice = 1 + tape_below(t, 100);
    struct weir_lanes_limits limits = {LANES, TENANTS, ITEMS};
    struct weir_gap_limits gap_limits = {LANES, TENANTS};
    struct weir_lane_config config[LANES] = {{policy, 0}, {policy, 30}};
    enum weir_sched_policy policies[LANES] = {policy, policy};
    size_t lanes_bytes = weir_lanes_bytes(limits), gap_bytes = weir_gap_bytes(gap_limits);
    w->lanes = weir_lanes_init(tape_alloc(t, lanes_bytes), lanes_bytes, limits, config,
                               tape_alloc(t, ITEMS * sizeof(struct weir_sched_item)));
    w->gap = weir_gap_init(tape_alloc(t, gap_bytes), gap_bytes, gap_limits, policies);
    weir_lanes_set_gap(w->lanes, w->gap);
    for (uint32_t i = 0; i < LANES; i++) {
        w->twin[i] = tape_alloc(t, sizeof *w->twin[i]);
        w->twin[i]->policy = policy;
    }
    weir_lanes_end_slices(w->lanes, w->slice * WEIR_GAP_SLICE_NS);
    bool is_calm = tape_chance(t, 1, 2);
    for (uint32_t i = 0; i < TENANTS; i++)
        if (tape_chance(t, 1, 2))
            world_reweigh(w, i);
    uint64_t shape = tape_below(t, 3);
    while (tape_more(t) && world_has_room(w))
        world_step(w, shape, is_calm);
    world_pass(w, 1, false);
}

void gap_world_vtc(struct tape *t)
{
    world_run(t, WEIR_SCHED_VTC);
}

void gap_world_drr_cost(struct tape *t)
{
    world_run(t, WEIR_SCHED_DRR_COST);
}

void gap_world_drr(struct tape *t)
{
    world_run(t, WEIR_SCHED_DRR);
}

void gap_world_fifo(struct tape *t)
{
    world_run(t, WEIR_SCHED_FIFO);
}
