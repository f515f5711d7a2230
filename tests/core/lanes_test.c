#include "core/lanes.h"

#include <stdlib.h>

#include "support/check.h"
#include "support/tape.h"

#define W ((uint64_t)WEIR_UWORK_PER_WORK)
#define ITEMS 2000u
#define TENANTS 4u

static const struct weir_lane_config three[] = {
    {WEIR_SCHED_VTC, 0}, {WEIR_SCHED_VTC, 20}, {WEIR_SCHED_VTC, 5}};

struct box {
    struct weir_lanes *l;
    struct weir_sched_item *items;
    void *mem;
    uint32_t used;
};

static struct box box_new(const struct weir_lane_config *config, uint32_t lanes)
{
    struct weir_lanes_limits limits = {lanes, TENANTS, ITEMS};
    struct box box = {.items = calloc(ITEMS, sizeof *box.items)};
    size_t bytes = weir_lanes_bytes(limits);
    box.mem = calloc(1, bytes);
    assert_non_null(box.items);
    assert_non_null(box.mem);
    box.l = weir_lanes_init(box.mem, bytes, limits, config, box.items);
    return box;
}

static void box_free(struct box *box)
{
    free(box->mem);
    free(box->items);
}

static void add(struct box *box, uint32_t lane, uint32_t tenant, uint32_t count, uint64_t work)
{
    while (count-- > 0)
        weir_lanes_enqueue(box->l, lane, tenant, box->used++, work);
}

/* The lanes of the next items taken, as digits. */
static const char *order(struct box *box, uint32_t count)
{
    static char text[ITEMS + 1];
    struct weir_lanes_choice choice;
    uint32_t i = 0;
    for (; i < count && weir_lanes_peek(box->l, &choice); i++)
        text[i] = (char)('0' + weir_lanes_take(box->l).lane);
    text[i] = 0;
    return text;
}

static uint32_t count_of(const char *text, char letter)
{
    uint32_t count = 0;
    for (; *text; text++)
        count += *text == letter;
    return count;
}

static void lanes_config__floors__add_up_to_at_most_100(void **state)
{
    (void)state;
    struct weir_lane_config c[9] = {{WEIR_SCHED_VTC, 60}, {WEIR_SCHED_VTC, 40}};
    CHECK(weir_lanes_config_ok(c, 2));
    CHECK(weir_lanes_config_ok(c, 8));
    CHECK(!weir_lanes_config_ok(c, 9));
    CHECK(!weir_lanes_config_ok(c, 0));
    c[1].floor_percent = 41;
    CHECK(!weir_lanes_config_ok(c, 2));
    c[1].floor_percent = UINT32_MAX - 50;
    CHECK(!weir_lanes_config_ok(c, 2));
}

static void lanes__without_floors__the_upper_goes_first(void **state)
{
    (void)state;
    static const struct weir_lane_config none[] = {
        {WEIR_SCHED_VTC, 0}, {WEIR_SCHED_DRR, 0}, {WEIR_SCHED_FIFO, 0}};
    struct box box = box_new(none, 3);
    add(&box, 2, 0, 3, W);
    add(&box, 1, 1, 3, W);
    add(&box, 0, 2, 3, W);
    CHECK_INT(weir_lanes_items(box.l), 9);
    CHECK_STR(order(&box, 9), "000111222");
    box_free(&box);
}

static void lanes__floors__are_kept_under_a_full_upper_lane(void **state)
{
    (void)state;
    struct box box = box_new(three, 3);
    add(&box, 0, 0, 500, W);
    add(&box, 1, 1, 200, W);
    add(&box, 2, 2, 200, W);
    CHECK_STR(order(&box, 10), "0000010000");
    const char *got = order(&box, 400);
    CHECK_INT(count_of(got, '1'), 80);
    CHECK_INT(count_of(got, '2'), 20);
    box_free(&box);
}

static void lanes__empty_lane__earns_no_credit(void **state)
{
    (void)state;
    struct box box = box_new(three, 3);
    add(&box, 0, 0, 900, W);
    order(&box, 500); /* lane 1 had nobody all that time */
    add(&box, 1, 1, 100, W);
    CHECK_STR(order(&box, 6), "000001");
    CHECK_INT(count_of(order(&box, 100), '1'), 20);
    box_free(&box);
}

static void lanes__cancelled_and_back__starts_anew(void **state)
{
    (void)state;
    struct box box = box_new(three, 3);
    add(&box, 0, 0, 50, W);
    add(&box, 1, 1, 1, W);
    CHECK_STR(order(&box, 4), "0000");
    CHECK_INT(weir_lanes_behind_uwork(box.l, 1), 4 * W / 5);
    weir_lanes_remove(box.l, 50);
    CHECK_INT(weir_lanes_behind_uwork(box.l, 1), 0);
    add(&box, 1, 1, 1, W);
    CHECK_STR(order(&box, 6), "000001");
    box_free(&box);
}

static void lanes__large_item_gone__small_ones_are_not_held_back_by_it(void **state)
{
    (void)state;
    struct box box = box_new(three, 3);
    add(&box, 0, 0, 50, W);
    add(&box, 1, 1, 1, 1000 * W);
    weir_lanes_remove(box.l, 50);
    add(&box, 1, 1, 3, W);
    CHECK_STR(order(&box, 6), "000001");
    box_free(&box);
}

static void lanes__two_behind_their_floors__the_one_further_behind_goes_first(void **state)
{
    (void)state;
    static const struct weir_lane_config config[] = {
        {WEIR_SCHED_VTC, 0}, {WEIR_SCHED_VTC, 10}, {WEIR_SCHED_VTC, 60}};
    struct box box = box_new(config, 3);
    add(&box, 0, 0, 1, 100 * W);
    add(&box, 0, 0, 1, 100 * W);
    add(&box, 1, 1, 50, W);
    add(&box, 2, 2, 100, W);
    const char *got = order(&box, 60);
    CHECK_INT(got[0], '0');
    CHECK_INT(count_of(got, '0'), 1);
    CHECK_INT(strspn(got + 1, "2"), 59); /* it is owed 60, lane 1 is owed 10 */
    box_free(&box);
}

static void lanes__more_than_the_floor__is_not_held_against_a_lane(void **state)
{
    (void)state;
    struct box box = box_new(three, 3);
    add(&box, 1, 1, 500, W);
    order(&box, 300); /* served alone */
    add(&box, 0, 0, 500, W);
    CHECK_INT(count_of(order(&box, 101), '1'), 20);
    box_free(&box);
}

static void lanes__refunds_of_a_lane_with_more_than_its_floor__lift_it_above_nobody(void **state)
{
    (void)state;
    struct box box = box_new(three, 3);
    add(&box, 1, 1, 300, 10 * W);
    order(&box, 100);
    add(&box, 0, 0, 100, 10 * W);
    for (int i = 0; i < 100; i++)
        weir_lanes_correct(box.l, 1, 1, -(int64_t)(9 * W));
    CHECK_STR(order(&box, 5), "00000");
    box_free(&box);
}

static void lanes__put_back__is_as_if_never_taken(void **state)
{
    (void)state;
    for (uint32_t before = 0; before < 60; before++) {
        struct box plain = box_new(three, 3), undone = box_new(three, 3);
        struct box *both[] = {&plain, &undone};
        for (size_t i = 0; i < 2; i++) {
            add(both[i], 1, 1, 40, 3 * W);
            add(both[i], 2, 2, 40, 2 * W);
            order(both[i], before / 3); /* some by precedence, with nobody above */
            add(both[i], 0, 0, 40, W);
            order(both[i], before);
        }
        struct weir_lanes_choice taken = weir_lanes_take(undone.l);
        weir_lanes_put_back(undone.l, taken.lane, taken.tenant, taken.item, taken.work_uwork);
        for (uint32_t left = 120 - before - before / 3; left > 0; left--)
            CHECK_INT(weir_lanes_take(plain.l).item, weir_lanes_take(undone.l).item);
        box_free(&plain);
        box_free(&undone);
    }
}

static void lanes__tenant_in_several_lanes__is_suspended_and_weighed_in_all(void **state)
{
    (void)state;
    struct box box = box_new(three, 3);
    weir_lanes_set_weight(box.l, 0, 3);
    add(&box, 0, 0, 40, W);
    weir_lanes_suspend(box.l, 0);
    CHECK(weir_lanes_is_suspended(box.l, 0));
    add(&box, 1, 0, 40, W); /* lane 1 first meets the tenant while it is suspended */
    add(&box, 1, 1, 40, W);
    CHECK_INT(weir_lanes_items(box.l), 120);
    CHECK_INT(weir_lanes_items_ready(box.l), 40);
    CHECK_INT(weir_lanes_tenant_items(box.l, 0), 80);
    CHECK_STR(order(&box, 4), "1111");
    weir_lanes_resume(box.l, 0);
    CHECK_INT(weir_lanes_items_ready(box.l), 116);
    uint32_t of_0 = 0, in_lane_1 = 0;
    while (in_lane_1 < 8) {
        struct weir_lanes_choice c = weir_lanes_take(box.l);
        in_lane_1 += c.lane == 1;
        of_0 += c.lane == 1 && c.tenant == 0;
    }
    CHECK_MSG(of_0 == 6, "%u of 8", of_0);
    box_free(&box);
}

/* One of lane 1 was taken and is waited for. The lane has nobody else, and a claim all the same. */
static void lanes__held_lane__keeps_its_claim(void **state)
{
    (void)state;
    struct box box = box_new(three, 3);
    struct weir_lanes_choice choice;
    add(&box, 1, 1, 1, W);
    weir_lanes_hold(box.l, 1, true);
    CHECK_STR(order(&box, 1), "1");
    add(&box, 0, 0, 20, W);
    CHECK_STR(order(&box, 5), "00000");
    CHECK(weir_lanes_peek(box.l, &choice));
    CHECK_INT(choice.lane, 1);
    CHECK_INT(choice.item, WEIR_NONE);
    weir_lanes_hold(box.l, 1, false);
    CHECK_INT(weir_lanes_behind_uwork(box.l, 1), 0);
    CHECK_STR(order(&box, 1), "0");
    box_free(&box);
}

static void lanes__forgotten_tenant__is_new_in_all(void **state)
{
    (void)state;
    struct box box = box_new(three, 3);
    add(&box, 0, 0, 1, W);
    add(&box, 1, 0, 1, W);
    CHECK_INT(weir_lanes_item_lane(box.l, 1), 1);
    CHECK(weir_lanes_tenant_matters(box.l, 0));
    weir_lanes_remove(box.l, 0);
    weir_lanes_remove(box.l, 1);
    weir_lanes_suspend(box.l, 0);
    CHECK(weir_lanes_tenant_matters(box.l, 0));
    weir_lanes_tenant_forget(box.l, 0);
    CHECK(!weir_lanes_tenant_matters(box.l, 0));
    CHECK(!weir_lanes_is_suspended(box.l, 0));
    add(&box, 1, 0, 1, W);
    CHECK_STR(order(&box, 5), "1");
    box_free(&box);
}

/* 1 + 1/2 + .. + 1/m in hundredths, rounded up, for m lanes with a floor. */
static const uint32_t harmonic_percent[WEIR_LANES_MAX + 1] = {100, 100, 150, 184, 209,
                                                              229, 245, 260, 272};

/* On every interval in which a lane has waiters: at least its floor less its own largest item
 * and harmonic_percent of the largest of any lane (less than docs/bounds.md has to allow);
 * and while a higher lane has waiters, no more than its floor of what was dispatched while it had
 * waiters, and that slack. Hundredths of work. */
struct floors {
    struct tape *t;
    struct weir_lanes *l;
    uint32_t lanes, floored;
    struct weir_lane_config config[WEIR_LANES_MAX];
    __int128 promised[WEIR_LANES_MAX]; /* its floor of the work dispatched while it had waiters */
    __int128 got[WEIR_LANES_MAX];
    uint64_t largest[WEIR_LANES_MAX]; /* of the lane's items, ever */
    bool waits[WEIR_LANES_MAX];
    __int128 lowest_short[WEIR_LANES_MAX];  /* since the lane had waiters */
    __int128 highest_short[WEIR_LANES_MAX]; /* since the highest lane had waiters */
    bool used[64];
    uint32_t waiting;
    bool suspended[TENANTS];
    bool held[WEIR_LANES_MAX]; /* its last taken is waited for */
};

static bool floors_waits(const struct floors *f, uint32_t lane)
{
    return f->held[lane] || weir_sched_tenants_ready(weir_lanes_sched(f->l, lane)) > 0;
}

static void check_floors(struct floors *f)
{
    uint64_t largest = 0;
    for (uint32_t i = 0; i < f->lanes; i++)
        largest = weir_max_u64(largest, f->largest[i]);
    bool top_waited = f->waits[0];
    f->waits[0] = false;
    for (uint32_t i = 0; i < f->lanes; i++) {
        __int128 is_short = f->promised[i] - f->got[i];
        __int128 slack =
            (__int128)100 * f->largest[i] + (__int128)harmonic_percent[f->floored] * largest;
        bool waits = floors_waits(f, i);
        bool stays = waits && (i == 0 ? top_waited : f->waits[i]);
        f->waits[i] = waits;
        if (!stays || is_short < f->lowest_short[i])
            f->lowest_short[i] = is_short;
        if (!(top_waited && f->waits[0]) || is_short > f->highest_short[i])
            f->highest_short[i] = is_short;
        if (waits && f->config[i].floor_percent > 0)
            TAPE_CHECK_MSG(f->t, is_short - f->lowest_short[i] <= slack, "lane %u is %g short", i,
                           (double)(is_short - f->lowest_short[i]) / 100);
        if (i > 0 && f->waits[0])
            TAPE_CHECK_MSG(f->t, f->highest_short[i] - is_short <= slack, "lane %u got %g too much",
                           i, (double)(f->highest_short[i] - is_short) / 100);
    }
    TAPE_CHECK(f->t, weir_lanes_items(f->l) == f->waiting);
}

static void floors_enqueue(struct floors *f, uint32_t lane, uint32_t tenant, uint64_t work)
{
    uint32_t item = 0;
    while (item < WEIR_COUNT(f->used) && f->used[item])
        item++;
    if (item == WEIR_COUNT(f->used))
        return;
    f->used[item] = true;
    f->waiting++;
    f->largest[lane] = weir_max_u64(f->largest[lane], work);
    weir_lanes_enqueue(f->l, lane, tenant, item, work);
    TAPE_CHECK(f->t, weir_lanes_item_lane(f->l, item) == lane);
}

static void floors_hold_lane(struct floors *f, uint32_t lane, bool is_held)
{
    weir_lanes_hold(f->l, lane, is_held);
    f->held[lane] = is_held;
}

static void floors_take(struct floors *f, bool is_held)
{
    struct weir_lanes_choice peeked, taken;
    bool found = weir_lanes_peek(f->l, &peeked);
    TAPE_CHECK(f->t, found || weir_lanes_items_ready(f->l) == 0);
    /* What is waited for goes before its lane and those below, as at the gate. */
    for (uint32_t i = 0; i < f->lanes && (!found || i <= peeked.lane); i++)
        if (f->held[i]) {
            floors_hold_lane(f, i, false);
            return;
        }
    if (!found)
        return;
    TAPE_CHECK(f->t, peeked.item != WEIR_NONE);
    if (is_held)
        floors_hold_lane(f, peeked.lane, true);
    taken = weir_lanes_take(f->l);
    TAPE_CHECK(f->t, peeked.lane == taken.lane && peeked.tenant == taken.tenant);
    TAPE_CHECK(f->t, peeked.item == taken.item);
    f->used[taken.item] = false;
    f->waiting--;
    f->got[taken.lane] += (__int128)100 * taken.work_uwork;
    for (uint32_t i = 0; i < f->lanes; i++)
        if (floors_waits(f, i) || i == taken.lane)
            f->promised[i] += (__int128)f->config[i].floor_percent * taken.work_uwork;
}

/* Some lanes stay full for a while. */
static void floors_steady(struct floors *f)
{
    uint64_t full = tape_below(f->t, UINT64_C(1) << f->lanes), work = 1 + tape_below(f->t, 1 << 16);
    for (uint64_t times = tape_below(f->t, 256); times > 0; times--) {
        for (uint32_t i = 0; i < f->lanes; i++)
            if (full >> i & 1 && !floors_waits(f, i))
                floors_enqueue(f, i, (uint32_t)(times % TENANTS), work);
        floors_take(f, times % 64 == 0);
        check_floors(f);
    }
}

static void floors_setup(struct floors *f)
{
    static const uint32_t floors[][WEIR_LANES_MAX] = {
        {0, 20, 5}, {0, 50, 50}, {10, 30, 60}, {0, 1, 0, 99}, {12, 12, 12, 12, 12, 12, 12, 12}};
    static const uint32_t lanes[] = {3, 3, 3, 4, 8};
    uint64_t row = tape_below(f->t, WEIR_COUNT(floors));
    f->lanes = lanes[row];
    for (uint32_t i = 0; i < f->lanes; i++) {
        f->config[i] =
            (struct weir_lane_config){(enum weir_sched_policy)tape_below(f->t, 4), floors[row][i]};
        f->floored += floors[row][i] > 0;
    }
    const uint32_t items = WEIR_COUNT(f->used);
    struct weir_lanes_limits limits = {f->lanes, TENANTS, items};
    size_t bytes = weir_lanes_bytes(limits);
    f->l = weir_lanes_init(tape_alloc(f->t, bytes), bytes, limits, f->config,
                           tape_alloc(f->t, items * sizeof(struct weir_sched_item)));
}

static void floors_hold(struct tape *t)
{
    struct floors *f = tape_alloc(t, sizeof *f);
    f->t = t;
    floors_setup(f);
    while (tape_more(t)) {
        uint64_t deed = tape_below(t, 17);
        uint32_t tenant = (uint32_t)tape_below(t, TENANTS);
        if (deed < 7) {
            uint32_t lane = (uint32_t)tape_below(t, f->lanes);
            floors_enqueue(f, lane, tenant, 1 + (tape_below(t, 1 << 16) >> tape_below(t, 16)));
        } else if (deed < 14) {
            floors_take(f, tape_chance(t, 1, 8));
        } else if (deed == 14) {
            uint32_t item = (uint32_t)tape_below(t, WEIR_COUNT(f->used));
            if (!f->used[item])
                continue;
            weir_lanes_remove(f->l, item);
            f->used[item] = false;
            f->waiting--;
        } else if (deed == 15) {
            f->suspended[tenant] = !f->suspended[tenant];
            (f->suspended[tenant] ? weir_lanes_suspend : weir_lanes_resume)(f->l, tenant);
        } else {
            floors_steady(f);
        }
        check_floors(f);
    }
}

static void lanes__every_interval__floors_and_precedence_hold(void **state)
{
    (void)state;
    tape_check(__func__, floors_hold, 2000, 800);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes_config__floors__add_up_to_at_most_100),
        cmocka_unit_test(lanes__without_floors__the_upper_goes_first),
        cmocka_unit_test(lanes__floors__are_kept_under_a_full_upper_lane),
        cmocka_unit_test(lanes__empty_lane__earns_no_credit),
        cmocka_unit_test(lanes__cancelled_and_back__starts_anew),
        cmocka_unit_test(lanes__large_item_gone__small_ones_are_not_held_back_by_it),
        cmocka_unit_test(lanes__two_behind_their_floors__the_one_further_behind_goes_first),
        cmocka_unit_test(lanes__more_than_the_floor__is_not_held_against_a_lane),
        cmocka_unit_test(lanes__refunds_of_a_lane_with_more_than_its_floor__lift_it_above_nobody),
        cmocka_unit_test(lanes__put_back__is_as_if_never_taken),
        cmocka_unit_test(lanes__tenant_in_several_lanes__is_suspended_and_weighed_in_all),
        cmocka_unit_test(lanes__held_lane__keeps_its_claim),
        cmocka_unit_test(lanes__forgotten_tenant__is_new_in_all),
        cmocka_unit_test(lanes__every_interval__floors_and_precedence_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
