/* Every order in which a few events of three lanes can come, against lanes that are plain sums.
 *
 * As sched_exhaustive_test.c, but the lists of deeds are those of lanes with one tenant each:
 * a0..a2 enqueue, r0..r2 remove the oldest, s0..s2 suspend, u0..u2 resume, t take, p put the last
 * taken back. After every deed: the lane that the naive one chooses, what each is behind its floor;
 * and over every stretch that ends now the floor is kept, less a slack as in lanes_test.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/interleave.h"
#include "core/lanes.h"
#include "core/num.h"
#include "support/check.h"
#include "support/tape.h"

#define LANES 3u
#define ITEMS 12u

struct plan {
    const char *name;
    uint32_t floor_percent[LANES];
    interleave_lists lists;
};

struct naive_lane {
    uint32_t fifo[ITEMS];
    uint32_t waiting;
    bool is_suspended;
    uint64_t largest, largest_ever;
    int64_t behind; /* hundredths */
    int64_t promised, got;
    int64_t lowest_short; /* of promised - got, since it has waiters */
    bool had_waiters;
};

struct world {
    struct naive_lane lane[LANES];
    uint64_t work[ITEMS];
    int64_t counted[ITEMS]; /* of the last take, to put back */
    uint32_t taken, taken_lane;
    bool can_put_back;
    uint32_t items_used;
    struct weir_sched_item items[ITEMS];
};

struct walk {
    struct tape *t;
    const struct plan *plan;
    struct weir_lanes *l;
    struct world *w;
};

static bool waits(const struct naive_lane *n)
{
    return n->waiting > 0 && !n->is_suspended;
}

static void note_empty(struct naive_lane *n)
{
    if (!waits(n))
        n->behind = 0;
    if (n->waiting == 0)
        n->largest = 0;
}

/* The furthest beyond its floor by its largest item, else the highest; LANES: nobody waits. */
static uint32_t naive_choose(const struct walk *k)
{
    uint32_t highest = LANES, due = LANES;
    int64_t most = -1;
    for (uint32_t i = LANES; i-- > 0;) {
        const struct naive_lane *n = &k->w->lane[i];
        if (!waits(n))
            continue;
        highest = i;
        int64_t beyond = n->behind - (int64_t)(100 * n->largest);
        if (k->plan->floor_percent[i] > 0 && beyond >= 0 && beyond >= most) {
            due = i;
            most = beyond;
        }
    }
    return due < LANES ? due : highest;
}

static void check_world(struct walk *k)
{
    uint64_t largest = 0;
    struct weir_lanes_choice choice;
    uint32_t chosen = naive_choose(k);
    bool found = weir_lanes_peek(k->l, &choice);
    TAPE_CHECK(k->t, found == (chosen < LANES));
    if (found) {
        TAPE_CHECK_MSG(k->t, choice.lane == chosen, "lane %u, not %u", choice.lane, chosen);
        TAPE_CHECK(k->t, choice.item == k->w->lane[chosen].fifo[0]);
    }
    for (uint32_t i = 0; i < LANES; i++)
        largest = weir_max_u64(largest, k->w->lane[i].largest_ever);
    for (uint32_t i = 0; i < LANES; i++) {
        struct naive_lane *n = &k->w->lane[i];
        TAPE_CHECK(k->t, weir_lanes_behind_uwork(k->l, i) == (uint64_t)n->behind / 100);
        TAPE_CHECK(k->t, weir_lanes_tenant_items(k->l, i) == n->waiting);
        int64_t is_short = n->promised - n->got;
        if (!(waits(n) && n->had_waiters) || is_short < n->lowest_short)
            n->lowest_short = is_short;
        n->had_waiters = waits(n);
        if (waits(n) && k->plan->floor_percent[i] > 0) /* two lanes have a floor: 1 + 1/2 */
            TAPE_CHECK(k->t, is_short - n->lowest_short <=
                                 (int64_t)(100 * n->largest_ever + 150 * largest));
    }
}

static void do_take(struct walk *k)
{
    struct world *w = k->w;
    struct weir_lanes_choice taken = weir_lanes_take(k->l);
    struct naive_lane *served = &w->lane[taken.lane];
    int64_t work = (int64_t)taken.work_uwork;
    memmove(&served->fifo[0], &served->fifo[1], --served->waiting * sizeof served->fifo[0]);
    for (uint32_t i = 0; i < LANES; i++)
        if (waits(&w->lane[i]) || i == taken.lane) {
            w->lane[i].behind += k->plan->floor_percent[i] * work;
            w->lane[i].promised += k->plan->floor_percent[i] * work;
        }
    int64_t counted = weir_min_i64(100 * work, served->behind);
    served->behind -= counted;
    served->got += 100 * work;
    note_empty(served);
    w->counted[taken.item] = counted;
    w->taken = taken.item;
    w->taken_lane = taken.lane;
    w->can_put_back = true;
}

/* As if it had not been taken, as far as that is known: lanes that were empty then are owed
 * nothing. */
static void do_put_back(struct walk *k)
{
    struct world *w = k->w;
    struct naive_lane *n = &w->lane[w->taken_lane];
    int64_t work = (int64_t)w->work[w->taken];
    memmove(&n->fifo[1], &n->fifo[0], n->waiting++ * sizeof n->fifo[0]);
    n->fifo[0] = w->taken;
    n->largest = weir_max_u64(n->largest, (uint64_t)work);
    n->behind += w->counted[w->taken];
    n->got -= 100 * work;
    for (uint32_t i = 0; i < LANES; i++) {
        int64_t less = k->plan->floor_percent[i] * work;
        w->lane[i].promised -= less;
        w->lane[i].lowest_short -= less; /* the interval's work is not dispatched after all */
        w->lane[i].behind = weir_max_i64(0, w->lane[i].behind - less);
    }
    n->lowest_short += 100 * work;
    note_empty(n);
    weir_lanes_put_back(k->l, w->taken_lane, w->taken_lane, w->taken, (uint64_t)work);
    w->can_put_back = false;
}

static bool is_possible(void *user, const struct interleave_deed *deed)
{
    const struct walk *k = user;
    switch (deed->what) {
    case 't':
        return weir_lanes_items_ready(k->l) > 0;
    case 'p':
        return k->w->can_put_back;
    case 'r':
        return k->w->lane[deed->who].waiting > 0;
    default:
        return true;
    }
}

static void do_deed(void *user, const struct interleave_deed *deed)
{
    struct walk *k = user;
    struct world *w = k->w;
    struct naive_lane *n = &w->lane[deed->who];
    switch (deed->what) {
    case 'a':
        w->work[w->items_used] = deed->work;
        n->fifo[n->waiting++] = w->items_used;
        n->largest = weir_max_u64(n->largest, deed->work);
        n->largest_ever = weir_max_u64(n->largest_ever, deed->work);
        weir_lanes_enqueue(k->l, deed->who, deed->who, w->items_used++, deed->work);
        break;
    case 'r':
        weir_lanes_remove(k->l, n->fifo[0]);
        memmove(&n->fifo[0], &n->fifo[1], --n->waiting * sizeof n->fifo[0]);
        note_empty(n);
        break;
    case 's':
        weir_lanes_suspend(k->l, deed->who);
        n->is_suspended = true;
        note_empty(n);
        break;
    case 'u':
        weir_lanes_resume(k->l, deed->who);
        n->is_suspended = false;
        break;
    case 't':
        do_take(k);
        break;
    case 'p':
        do_put_back(k);
        break;
    default:
        tape_fail(k->t, "a plan has a deed '%c'", deed->what);
    }
    check_world(k);
}

static void drain(void *user)
{
    struct walk *k = user;
    while (weir_lanes_items_ready(k->l) > 0) {
        do_take(k);
        check_world(k);
    }
}

static void walk_plan(struct tape *t, const struct plan *plan)
{
    struct weir_lanes_limits limits = {LANES, LANES, ITEMS};
    struct weir_lane_config config[LANES];
    size_t lanes_bytes = weir_lanes_bytes(limits);
    struct walk k = {.t = t, .plan = plan, .w = tape_alloc(t, sizeof *k.w + lanes_bytes)};
    char title[80];
    for (uint32_t i = 0; i < LANES; i++)
        config[i] = (struct weir_lane_config){WEIR_SCHED_VTC, plan->floor_percent[i]};
    k.l = weir_lanes_init(k.w + 1, lanes_bytes, limits, config, k.w->items);
    snprintf(title, sizeof title, "lanes, %s", plan->name);
    const struct interleave in = {.title = title,
                                  .user = &k,
                                  .world = k.w,
                                  .bytes = sizeof *k.w + lanes_bytes,
                                  .is_possible = is_possible,
                                  .act = do_deed,
                                  .finish = drain};
    interleave_walk(t, &in, plan->lists);
}

static const struct plan plans[] = {
    {"come and cancel",
     {0, 50, 25},
     {{{'a', 0, 4}, {'a', 0, 4}, {'a', 0, 4}},
      {{'a', 1, 8}, {'r', 1, 0}, {'a', 1, 1}},
      {{'a', 2, 1}},
      {{'t', 0, 0}, {'t', 0, 0}, {'t', 0, 0}}}},
    {"leave the order, are put back",
     {0, 30, 70},
     {{{'a', 0, 8}, {'a', 0, 8}},
      {{'a', 1, 2}, {'s', 1, 0}, {'u', 1, 0}},
      {{'a', 2, 4}},
      {{'t', 0, 0}, {'t', 0, 0}, {'t', 0, 0}},
      {{'p', 0, 0}}}},
};

static const struct plan long_plans[] = {
    {"come and cancel",
     {0, 50, 25},
     {{{'a', 0, 4}, {'a', 0, 4}, {'a', 0, 4}},
      {{'a', 1, 8}, {'r', 1, 0}, {'a', 1, 1}},
      {{'a', 2, 1}, {'a', 2, 1}},
      {{'t', 0, 0}, {'t', 0, 0}, {'t', 0, 0}, {'t', 0, 0}}}},
    {"leave the order, are put back",
     {0, 30, 70},
     {{{'a', 0, 8}, {'a', 0, 8}, {'a', 0, 8}},
      {{'a', 1, 2}, {'s', 1, 0}, {'u', 1, 0}},
      {{'a', 2, 4}},
      {{'t', 0, 0}, {'t', 0, 0}, {'t', 0, 0}, {'t', 0, 0}},
      {{'p', 0, 0}}}},
};

static void walk_lanes(struct tape *t)
{
    for (size_t i = 0; i < WEIR_COUNT(plans); i++)
        walk_plan(t, getenv("WEIR_TEST_LONG") ? &long_plans[i] : &plans[i]);
}

static void lanes__every_order_of_events__is_as_the_naive_one(void **state)
{
    (void)state;
    tape_check(__func__, walk_lanes, 1, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes__every_order_of_events__is_as_the_naive_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
