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

/* On every interval in which a lane has waiters: at least its floor less the slack of the header;
 * and while a higher lane has waiters, no more than its floor. */
struct floors {
    uint32_t lanes;
    struct weir_lane_config config[WEIR_LANES_MAX];
    __int128 total; /* dispatched work */
    __int128 got[WEIR_LANES_MAX];
    uint64_t largest[WEIR_LANES_MAX]; /* of the lane's items, ever */
    bool waits[WEIR_LANES_MAX];
    __int128 lowest_short[WEIR_LANES_MAX];  /* since the lane had waiters */
    __int128 highest_short[WEIR_LANES_MAX]; /* since the highest lane had waiters */
};

static void check_floors(struct tape *t, struct floors *f, const struct weir_lanes *l)
{
    uint64_t largest = 0;
    for (uint32_t i = 0; i < f->lanes; i++)
        largest = weir_max_u64(largest, f->largest[i]);
    bool top_waited = f->waits[0];
    f->waits[0] = false;
    for (uint32_t i = 0; i < f->lanes; i++) {
        __int128 is_short = f->config[i].floor_percent * f->total - 100 * f->got[i];
        bool waits = weir_sched_tenants_ready(weir_lanes_sched(l, i)) > 0;
        bool stays = waits && (i == 0 ? top_waited : f->waits[i]);
        f->waits[i] = waits;
        bool is_new_low = !stays || is_short < f->lowest_short[i];
        f->lowest_short[i] = is_new_low ? is_short : f->lowest_short[i];
        bool is_new_high = !(top_waited && f->waits[0]) || is_short > f->highest_short[i];
        f->highest_short[i] = is_new_high ? is_short : f->highest_short[i];
        if (waits && f->config[i].floor_percent > 0)
            TAPE_CHECK_MSG(t,
                           is_short - f->lowest_short[i] <=
                               (__int128)100 * f->largest[i] + (__int128)272 * largest,
                           "lane %u is %g short", i, (double)(is_short - f->lowest_short[i]) / 100);
        if (i > 0 && f->waits[0]) /* what it was owed when the stretch began, and its floor */
            TAPE_CHECK_MSG(t,
                           f->highest_short[i] - is_short <=
                               (__int128)100 * f->largest[i] + (__int128)272 * largest,
                           "lane %u got %g too much", i,
                           (double)(f->highest_short[i] - is_short) / 100);
    }
}

static void floors_hold(struct tape *t)
{
    static const uint32_t floors[][WEIR_LANES_MAX] = {
        {0, 20, 5}, {0, 50, 50}, {10, 30, 60}, {0, 1, 0, 99}, {12, 12, 12, 12, 12, 12, 12, 12}};
    static const uint32_t lanes[] = {3, 3, 3, 4, 8};
    struct floors f = {0};
    uint64_t row = tape_below(t, WEIR_COUNT(floors));
    f.lanes = lanes[row];
    for (uint32_t i = 0; i < f.lanes; i++)
        f.config[i] =
            (struct weir_lane_config){(enum weir_sched_policy)tape_below(t, 4), floors[row][i]};
    enum { COUNT = 64 };
    struct weir_lanes_limits limits = {f.lanes, TENANTS, COUNT};
    size_t bytes = weir_lanes_bytes(limits);
    struct weir_lanes *l = weir_lanes_init(tape_alloc(t, bytes), bytes, limits, f.config,
                                           tape_alloc(t, COUNT * sizeof(struct weir_sched_item)));
    bool used[COUNT] = {false};
    uint32_t waiting = 0, suspended[TENANTS] = {0};
    while (tape_more(t)) {
        uint64_t deed = tape_below(t, 16);
        uint32_t tenant = (uint32_t)tape_below(t, TENANTS), item = 0;
        if (deed < 7) {
            uint32_t lane = (uint32_t)tape_below(t, f.lanes);
            uint64_t work = 1 + (tape_below(t, 1 << 16) >> tape_below(t, 16));
            while (item < COUNT && used[item])
                item++;
            if (item == COUNT)
                continue;
            used[item] = true;
            waiting++;
            f.largest[lane] = weir_max_u64(f.largest[lane], work);
            weir_lanes_enqueue(l, lane, tenant, item, work);
            TAPE_CHECK(t, weir_lanes_item_lane(l, item) == lane);
        } else if (deed < 14) {
            struct weir_lanes_choice peeked, taken;
            if (!weir_lanes_peek(l, &peeked)) {
                TAPE_CHECK(t, weir_lanes_items_ready(l) == 0);
                continue;
            }
            taken = weir_lanes_take(l);
            TAPE_CHECK(t, peeked.lane == taken.lane && peeked.tenant == taken.tenant);
            TAPE_CHECK(t, peeked.item == taken.item);
            used[taken.item] = false;
            waiting--;
            f.total += taken.work_uwork;
            f.got[taken.lane] += taken.work_uwork;
        } else if (deed == 14) {
            item = (uint32_t)tape_below(t, COUNT);
            if (!used[item])
                continue;
            weir_lanes_remove(l, item);
            used[item] = false;
            waiting--;
        } else {
            suspended[tenant] = !suspended[tenant];
            (suspended[tenant] ? weir_lanes_suspend : weir_lanes_resume)(l, tenant);
        }
        TAPE_CHECK(t, weir_lanes_items(l) == waiting);
        check_floors(t, &f, l);
    }
}

static void lanes__every_interval__floors_and_precedence_hold(void **state)
{
    (void)state;
    tape_check(__func__, floors_hold, 5000, 1500);
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
        cmocka_unit_test(lanes__forgotten_tenant__is_new_in_all),
        cmocka_unit_test(lanes__every_interval__floors_and_precedence_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
