#include "measure/fair_plans.h"
#include "support/check.h"

#include "core/num.h"

#include <stdlib.h>

static struct plan plan;
static struct weir_fair_result result;

static void run(void)
{
    uint32_t index;
    const char *problem = weir_fair_problem(&plan.fair, &index);
    CHECK_MSG(problem == NULL, "%s", problem);
    CHECK(weir_fair_run(&plan.fair, NULL, NULL, &result));
}

/* ---- schedules worked out by hand ---- */

#define REQUESTS(n) ((n)*UINT64_C(1000000))
#define WORK(n) ((n)*UINT64_C(1000000))

static const struct {
    const char *what;
    enum weir_fair_policy policy;
    uint32_t tenants, weights[3], backlog[3];
    uint64_t input_tok[3];
    const char *order;
} orders[] = {
    /* A turn is `weight` requests, the order of the turns stays. */
    {"drr", WEIR_FAIR_DRR, 3, {4, 1, 1}, {8, 2, 2}, {1, 1, 1}, "aaaabcaaaabc"},
    {"drr, who is empty gives its turn up",
     WEIR_FAIR_DRR,
     3,
     {2, 1, 1},
     {3, 1, 3},
     {1, 1, 1},
     "aabcacc"},
    {"drr counts a dear request once", WEIR_FAIR_DRR, 2, {1, 1}, {3, 3}, {1000, 1}, "ababab"},
    {"restarting", WEIR_FAIR_DRR_RESTARTING, 3, {4, 1, 1}, {5, 2, 2}, {1, 1, 1}, "aaaaabbcc"},
    {"restarting, by index and not by weight",
     WEIR_FAIR_DRR_RESTARTING,
     2,
     {1, 1000},
     {2, 2},
     {1, 1},
     "aabb"},
    {"fifo", WEIR_FAIR_FIFO, 2, {1, 9}, {2, 2}, {1, 1}, "aabb"},
    /* Counters a, b: 3,0 3,5 6,5 6,10 9,10 12,10 12,15. */
    {"vtc", WEIR_FAIR_VTC, 2, {1, 1}, {4, 3}, {3, 5}, "ababaab"},
    /* Of a weight of 2, counters grow half as fast: 1.5,0 1.5,5 3,5 4.5,5 6,5 6,10. */
    {"vtc with weights", WEIR_FAIR_VTC, 2, {2, 1}, {4, 2}, {3, 5}, "abaaab"},
    /* The quantum is the first cost, 4, at first; later a little less: a is served at 0 < 4, 4 < 8
     * and 8 < 11.8, and b as long as it is below the same. */
    {"drr-cost", WEIR_FAIR_DRR_COST, 2, {1, 1}, {3, 12}, {4, 1}, "abbbbabbbbabbbb"},
};

static void fair__schedules_by_hand__dispatched_in_that_order(void **state)
{
    (void)state;
    for (size_t i = 0; i < WEIR_COUNT(orders); i++) {
        struct plan_order got = {.plan = &plan};
        plan_write(&plan, orders[i].policy, 1, orders[i].tenants, orders[i].weights,
                   orders[i].backlog, orders[i].input_tok);
        CHECK(weir_fair_run(&plan.fair, plan_note_order, &got, &result));
        CHECK_MSG(strcmp(got.order, orders[i].order) == 0, "%s: %s, want %s", orders[i].what,
                  got.order, orders[i].order);
    }
}

static void classroom(enum weir_fair_policy policy)
{
    static const uint32_t weights[] = {4, 1, 1}, backlog[] = {40, 10, 10};
    static const uint64_t cost[] = {1, 1, 1};
    plan_write(&plan, policy, 1, 3, weights, backlog, cost);
    run();
    /* The totals, which any order of any dispatcher gives. */
    CHECK_INT(result.dispatches, 60);
    CHECK_INT(result.tenants[0].items, 40);
    CHECK_INT(result.tenants[1].items, 10);
    CHECK_INT(result.tenants[2].items, 10);
}

static void fair__classroom_under_drr__one_turn_apart(void **state)
{
    (void)state;
    classroom(WEIR_FAIR_DRR);
    struct weir_fair_gap *gap = &result.gaps[WEIR_FAIR_REQUESTS];
    CHECK_INT(gap->gap, REQUESTS(1));
    CHECK_INT(gap->bound, REQUESTS(1));
    CHECK_INT(gap->published, REQUESTS(3));
    CHECK_INT(gap->ahead, 0);
    CHECK_INT(gap->behind, 1);
    CHECK_INT(gap->from.dispatches, 0);
    CHECK_INT(gap->to.dispatches, 4);
    CHECK_INT(gap->to.at_ns, 3 * WEIR_NS_PER_MS);
    CHECK(!result.is_broken);
    /* aaaa: ideal is 4 x 4 / 6 for a and 4 / 6 for each of the others. */
    CHECK_INT(result.tenants[0].ahead.dispatches, 4);
    CHECK_INT(result.tenants[0].ahead.served_uwork, WORK(4));
    CHECK_INT(result.tenants[0].ahead.ideal_uwork, 2666666);
    /* aaaab: 5 / 6 behind, c having had nothing. */
    CHECK_INT(result.tenants[2].behind.dispatches, 5);
    CHECK_INT(result.tenants[2].behind.ideal_uwork, 833333);
}

static void fair__classroom_restarting__totals_right_and_prefix_broken(void **state)
{
    (void)state;
    classroom(WEIR_FAIR_DRR_RESTARTING);
    struct weir_fair_gap *gap = &result.gaps[WEIR_FAIR_REQUESTS];
    CHECK_INT(gap->gap, REQUESTS(10)); /* a 40 / 4, b 0 */
    CHECK_INT(gap->bound, REQUESTS(1));
    CHECK(gap->is_broken && result.is_broken);
    CHECK_INT(gap->from.dispatches, 0);
    CHECK_INT(gap->to.dispatches, 40);
    CHECK_INT(result.tenants[0].ahead.dispatches, 40);
    CHECK_INT(result.tenants[0].ahead.ideal_uwork, 26666666);
    CHECK_INT(result.tenants[2].behind.dispatches, 50);
    CHECK_INT(result.tenants[2].behind.ideal_uwork, 8333333);
}

static void fair__classroom_under_the_others__within_bounds(void **state)
{
    (void)state;
    classroom(WEIR_FAIR_VTC);
    CHECK(result.is_bounded && !result.is_broken);
    CHECK_INT(result.gaps[WEIR_FAIR_DISPATCHED].bound, WORK(2));
    CHECK_INT(result.gaps[WEIR_FAIR_DELIVERED].bound, WORK(2));
    CHECK_INT(result.gaps[WEIR_FAIR_DELIVERED].published, WORK(4));
    classroom(WEIR_FAIR_DRR_COST);
    CHECK(result.is_bounded && !result.is_broken);
    CHECK_INT(result.gaps[WEIR_FAIR_DISPATCHED].bound, WORK(3));
    CHECK_INT(result.gaps[WEIR_FAIR_DISPATCHED].published, WORK(3));
    classroom(WEIR_FAIR_FIFO);
    CHECK(!result.is_bounded && !result.is_broken);
    CHECK_INT(result.gaps[WEIR_FAIR_REQUESTS].gap, REQUESTS(10));
}

static void fair__smallest_weight_is_two__scaled_to_one(void **state)
{
    (void)state;
    static const uint32_t weights[] = {8, 2, 2}, backlog[] = {40, 10, 10};
    static const uint64_t cost[] = {1, 1, 1};
    plan_write(&plan, WEIR_FAIR_DRR_RESTARTING, 1, 3, weights, backlog, cost);
    run();
    CHECK_INT(result.gaps[WEIR_FAIR_DISPATCHED].gap, WORK(10));
    CHECK_INT(result.gaps[WEIR_FAIR_REQUESTS].bound, REQUESTS(2)); /* a turn of the lightest is 2 */
    plan_write(&plan, WEIR_FAIR_VTC, 1, 3, weights, backlog, cost);
    run();
    CHECK_INT(result.gaps[WEIR_FAIR_DISPATCHED].bound, WORK(2));
}

/* Two permits. Turns: a and b begin at 0 ms, and both have had 2 when b's ends at 2 ms. Then a begins
 * its last, and waits no longer. In order of arrival: a has both permits until 10 ms, then one. */
static void fair__two_permits__delivered_evenly_in_time(void **state)
{
    (void)state;
    static const uint32_t weights[] = {1, 1}, backlog[] = {2, 6}, longer[] = {3, 6};
    static const uint64_t cost[] = {10, 2};
    plan_write(&plan, WEIR_FAIR_DRR, 2, 2, weights, backlog, cost);
    run();
    CHECK_INT(result.gaps[WEIR_FAIR_DELIVERED].gap, 0);
    CHECK_INT(result.gaps[WEIR_FAIR_DELIVERED].ahead, WEIR_NONE);
    CHECK_INT(result.gaps[WEIR_FAIR_DISPATCHED].gap, WORK(18)); /* 10 - 2 + 10 */
    CHECK_INT(result.end_ns, 16 * WEIR_NS_PER_MS);
    plan_write(&plan, WEIR_FAIR_FIFO, 2, 2, weights, longer, cost);
    run();
    const struct weir_fair_gap *gap = &result.gaps[WEIR_FAIR_DELIVERED];
    CHECK_INT(gap->gap, WORK(20));
    CHECK_INT(gap->ahead, 0);
    CHECK_INT(gap->from.at_ns, 0);
    CHECK_INT(gap->to.at_ns, 10 * WEIR_NS_PER_MS);
    CHECK_INT(gap->to.dispatches, 2);
    CHECK_INT(result.gaps[WEIR_FAIR_DISPATCHED].gap, WORK(30));
    CHECK_INT(result.end_ns, 22 * WEIR_NS_PER_MS);
}

/* Two permits, in order of arrival: a1 of 10, b1 of 100, c1 of 100, a2, b2. a, of weight 1, gains on b,
 * of weight 2, until a1 ends at 10 ms and c takes its permit; then b gains until 100 ms. The lead turns
 * where neither of the two is dispatched. */
static void fair__a_lead_turns_as_a_request_ends__seen_there(void **state)
{
    (void)state;
    static const uint32_t weights[] = {1, 2, 1000}, backlog[] = {2, 2, 1};
    static const uint64_t cost[] = {10, 100, 100};
    plan_write(&plan, WEIR_FAIR_FIFO, 2, 3, weights, backlog, cost);
    static const uint32_t order[] = {0, 2, 4, 1, 3};
    struct weir_fair_item items[5];
    for (uint32_t i = 0; i < 5; i++)
        items[i] = plan.items[order[i]];
    memcpy(plan.items, items, sizeof items);
    run();
    const struct weir_fair_gap *gap = &result.gaps[WEIR_FAIR_DELIVERED];
    CHECK_INT(gap->gap, WORK(45)); /* 100 / 2 - 10 less 10 / 2 - 10 */
    CHECK_INT(gap->ahead, 1);
    CHECK_INT(gap->behind, 0);
    CHECK_INT(gap->from.at_ns, 10 * WEIR_NS_PER_MS);
    CHECK_INT(gap->to.at_ns, 100 * WEIR_NS_PER_MS);
}

/* ---- exactness: every interval looked at, the slow way ---- */

#define STATES_MAX (3 * PLAN_ITEMS)

static struct {
    uint32_t count;
    uint64_t served[STATES_MAX][WEIR_FAIR_COUNTS][PLAN_TENANTS];
    bool before[STATES_MAX][PLAN_TENANTS]; /* backlogged since the state before, and up to here */
    bool after[STATES_MAX][PLAN_TENANTS];
    uint64_t requests[PLAN_TENANTS];
} seen;

static void note_state(void *user, const struct weir_fair_now *now)
{
    (void)user;
    uint32_t n = seen.count++;
    uint32_t tenant = plan.items[now->item].tenant;
    if (now->event == WEIR_FAIR_SENT)
        seen.requests[tenant] += REQUESTS(1);
    for (uint32_t i = 0; i < plan.fair.tenants_count; i++) {
        seen.served[n][WEIR_FAIR_DISPATCHED][i] = now->dispatched_uwork[i];
        seen.served[n][WEIR_FAIR_ONE_WAITS][i] = now->dispatched_uwork[i];
        seen.served[n][WEIR_FAIR_DELIVERED][i] = now->delivered_uwork[i];
        seen.served[n][WEIR_FAIR_REQUESTS][i] = seen.requests[i];
        seen.before[n][i] = n > 0 && seen.after[n - 1][i];
        seen.after[n][i] = now->is_backlogged[i];
    }
}

/* Whether both are backlogged, or b is where that is enough. */
static bool both(uint32_t count, const bool *is_backlogged, uint32_t a, uint32_t b)
{
    return is_backlogged[b] && (is_backlogged[a] || count == WEIR_FAIR_ONE_WAITS);
}

/* The largest gap of one way of counting, over every pair and every interval of states. */
static uint64_t slow_gap(uint32_t count)
{
    long double worst = 0;
    uint32_t weight_min = UINT32_MAX, tenants = plan.fair.tenants_count;
    for (uint32_t i = 0; i < tenants; i++)
        weight_min = plan.weights[i] < weight_min ? plan.weights[i] : weight_min;
    for (uint32_t from = 0; from < seen.count; from++)
        for (uint32_t pair = 0; pair < tenants * tenants; pair++) {
            uint32_t a = pair / tenants, b = pair % tenants;
            if (a == b || !both(count, seen.after[from], a, b))
                continue;
            for (uint32_t to = from + 1; to < seen.count && both(count, seen.before[to], a, b);
                 to++) {
                long double got_a = seen.served[to][count][a] - seen.served[from][count][a];
                long double got_b = seen.served[to][count][b] - seen.served[from][count][b];
                long double gap = (got_a / plan.weights[a] - got_b / plan.weights[b]) * weight_min;
                worst = gap > worst ? gap : worst;
            }
        }
    return (uint64_t)(worst + 1e-6L);
}

static void fair__any_plan__finds_the_gap_that_all_intervals_have(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 150; seed++) {
        struct weir_rng rng;
        weir_rng_seed(&rng, seed, 1);
        enum weir_fair_policy policy = (enum weir_fair_policy)(seed % WEIR_FAIR_POLICIES);
        plan_draw(&plan, &rng, policy, (enum plan_kind)(seed % PLAN_KINDS));
        plan.fair.items_count = (uint32_t)weir_min_u64(plan.fair.items_count, 70);
        memset(&seen, 0, sizeof seen);
        CHECK(weir_fair_run(&plan.fair, note_state, NULL, &result));
        for (uint32_t c = 0; c < WEIR_FAIR_COUNTS; c++)
            CHECK_MSG(slow_gap(c) == result.gaps[c].gap, "seed %u, %s: %llu, slowly %llu",
                      (unsigned)seed, weir_fair_count_name((enum weir_fair_count)c),
                      (unsigned long long)result.gaps[c].gap, (unsigned long long)slow_gap(c));
    }
}

/* ---- bounds ---- */

static void fair__any_plan__the_gateways_policies_keep_their_bounds(void **state)
{
    (void)state;
    uint64_t seeds = getenv("WEIR_TEST_LONG") ? 200000 : 2000;
    double nearest[WEIR_FAIR_POLICIES][WEIR_FAIR_COUNTS] = {{0}};
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        static const enum weir_fair_policy policies[] = {WEIR_FAIR_VTC, WEIR_FAIR_DRR_COST,
                                                         WEIR_FAIR_DRR};
        struct weir_rng rng;
        weir_rng_seed(&rng, seed, 2);
        enum plan_kind kind = (enum plan_kind)weir_rng_below(&rng, PLAN_KINDS);
        plan_draw(&plan, &rng, policies[seed % WEIR_COUNT(policies)], kind);
        run();
        for (uint32_t c = 0; c < WEIR_FAIR_COUNTS; c++) {
            const struct weir_fair_gap *gap = &result.gaps[c];
            if (!gap->is_bounded)
                continue;
            CHECK_MSG(!gap->is_broken, "seed %llu, %s, %s, estimates %d: gap %llu, bound %llu",
                      (unsigned long long)seed, weir_fair_policy_name(plan.fair.policy),
                      weir_fair_count_name((enum weir_fair_count)c), (int)kind,
                      (unsigned long long)gap->gap, (unsigned long long)gap->bound);
            CHECK(gap->published == 0 || gap->published >= gap->bound);
            double share = (double)gap->gap / (double)gap->bound;
            if (share > nearest[plan.fair.policy][c])
                nearest[plan.fair.policy][c] = share;
        }
    }
    /* Plans that never come near would prove little. */
    CHECK_MSG(nearest[WEIR_FAIR_VTC][WEIR_FAIR_DISPATCHED] > 0.9, "%g",
              nearest[WEIR_FAIR_VTC][WEIR_FAIR_DISPATCHED]);
    CHECK_MSG(nearest[WEIR_FAIR_VTC][WEIR_FAIR_DELIVERED] > 0.7, "%g",
              nearest[WEIR_FAIR_VTC][WEIR_FAIR_DELIVERED]);
    CHECK_MSG(nearest[WEIR_FAIR_DRR_COST][WEIR_FAIR_DISPATCHED] > 0.7, "%g",
              nearest[WEIR_FAIR_DRR_COST][WEIR_FAIR_DISPATCHED]);
    CHECK(nearest[WEIR_FAIR_DRR][WEIR_FAIR_REQUESTS] == 1.0);
}

/* b comes while a's first request is in flight, charged 950 of which 850 are refunded when it ends:
 * b was placed at 950, and waits until a has caught up. */
static void fair__newcomer_beside_an_overestimate__waits_for_as_much_as_it_was(void **state)
{
    (void)state;
    static const uint32_t weights[] = {1, 1}, backlog[] = {20, 5};
    static const uint64_t cost[] = {100, 100};
    plan_write(&plan, WEIR_FAIR_VTC, 1, 2, weights, backlog, cost);
    plan.items[0].estimate_uwork = WORK(950);
    for (uint32_t i = 20; i < 25; i++)
        plan.items[i].arrival_ns = 1;
    run();
    const struct weir_fair_gap *gap = &result.gaps[WEIR_FAIR_DISPATCHED];
    CHECK_INT(gap->gap, WORK(900)); /* more than 2 requests as used, which is 200 */
    CHECK_INT(gap->ahead, 0);
    CHECK_INT(gap->bound, WORK(2 * 950)); /* L is the largest of estimates too */
    CHECK(!result.is_broken);
}

static void fair__restarting_and_fifo__bounds_break_where_backlogs_last(void **state)
{
    (void)state;
    uint32_t broken = 0, fifo_worse = 0;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct weir_rng rng;
        weir_rng_seed(&rng, seed, 3);
        plan_draw(&plan, &rng, WEIR_FAIR_DRR_RESTARTING, PLAN_AT_START);
        run();
        broken += result.is_broken;
        /* Nor would fifo keep what vtc must keep. */
        plan.fair.policy = WEIR_FAIR_VTC;
        run();
        uint64_t bound = result.gaps[WEIR_FAIR_DELIVERED].published;
        plan.fair.policy = WEIR_FAIR_FIFO;
        run();
        CHECK(!result.is_bounded && !result.is_broken);
        fifo_worse += result.gaps[WEIR_FAIR_DISPATCHED].gap > bound;
    }
    CHECK_MSG(broken > 250, "%u of 300", broken);
    CHECK_MSG(fifo_worse > 30, "%u of 300", fifo_worse);
}

/* ---- plans that cannot be run ---- */

static void plan_of_two(void)
{
    static const uint32_t weights[] = {1, 2}, backlog[] = {2, 2};
    static const uint64_t cost[] = {1, 1};
    plan_write(&plan, WEIR_FAIR_VTC, 1, 2, weights, backlog, cost);
}

#define CHECK_PROBLEM(change, at, said)                                                            \
    do {                                                                                           \
        uint32_t problem_index = 77;                                                               \
        plan_of_two();                                                                             \
        change;                                                                                    \
        const char *problem = weir_fair_problem(&plan.fair, &problem_index);                       \
        CHECK_MSG(problem &&strstr(problem, said), "%s", problem ? problem : "none");              \
        CHECK_INT(problem_index, at);                                                              \
    } while (0)

static void fair__plans_that_cannot_be_run__named(void **state)
{
    (void)state;
    CHECK_PROBLEM(plan.fair.permits = 0, WEIR_NONE, "permits");
    CHECK_PROBLEM(plan.fair.permits = WEIR_FAIR_PERMITS_MAX + 1, WEIR_NONE, "permits");
    CHECK_PROBLEM(plan.fair.tenants_count = 0, WEIR_NONE, "tenants");
    CHECK_PROBLEM(plan.fair.tenants_count = WEIR_FAIR_TENANTS_MAX + 1, WEIR_NONE, "tenants");
    CHECK_PROBLEM(plan.fair.items_count = 0, WEIR_NONE, "requests");
    CHECK_PROBLEM(plan.fair.items_count = WEIR_FAIR_ITEMS_MAX + 1, WEIR_NONE, "requests");
    CHECK_PROBLEM(plan.weights[1] = 0, 1, "weight");
    CHECK_PROBLEM(plan.weights[0] = 1001, 0, "weight");
    CHECK_PROBLEM(plan.items[3].tenant = 2, 3, "not in the plan");
    CHECK_PROBLEM(plan.items[2].input_tok = 0, 2, "at least one token");
    CHECK_PROBLEM(plan.items[2].input_tok = WEIR_FAIR_TOK_MAX + 1, 2, "at most");
    CHECK_PROBLEM(plan.items[2].output_tok = WEIR_FAIR_TOK_MAX + 1, 2, "at most");
    CHECK_PROBLEM(plan.items[1].estimate_uwork = 0, 1, "estimate");
    CHECK_PROBLEM(plan.items[1].estimate_uwork = (UINT64_C(1) << 52) + 1, 1, "estimate");
    CHECK_PROBLEM(plan.items[1].arrival_ns = 5, 2, "out of order");
    CHECK_PROBLEM(plan.items[3].arrival_ns = UINT64_MAX, 3, "36 years");
}

static void fair__more_work_than_can_be_counted__named(void **state)
{
    (void)state;
    struct weir_fair_item *items = calloc(2000, sizeof *items);
    CHECK(items);
    static const uint32_t weights[] = {1, 1000};
    struct weir_fair_plan large = {
        .permits = 1, .tenants_count = 2, .weights = weights, .items = items};
    for (uint32_t i = 0; i < 2000; i++)
        items[i] = (struct weir_fair_item){.input_tok = WEIR_FAIR_TOK_MAX,
                                           .output_tok = WEIR_FAIR_TOK_MAX,
                                           .estimate_uwork = 1,
                                           .tenant = i % 2};
    uint32_t index;
    large.items_count = 1537; /* 1,537 x 3e15 are below 2^62, one more is not */
    CHECK(weir_fair_problem(&large, &index) == NULL);
    CHECK(weir_fair_run(&large, NULL, NULL, &result));
    CHECK(!result.is_broken);
    large.items_count = 1538;
    CHECK(weir_fair_problem(&large, &index) != NULL);
    CHECK_INT(index, 1537);
    free(items);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fair__schedules_by_hand__dispatched_in_that_order),
        cmocka_unit_test(fair__classroom_under_drr__one_turn_apart),
        cmocka_unit_test(fair__classroom_restarting__totals_right_and_prefix_broken),
        cmocka_unit_test(fair__classroom_under_the_others__within_bounds),
        cmocka_unit_test(fair__smallest_weight_is_two__scaled_to_one),
        cmocka_unit_test(fair__two_permits__delivered_evenly_in_time),
        cmocka_unit_test(fair__a_lead_turns_as_a_request_ends__seen_there),
        cmocka_unit_test(fair__any_plan__finds_the_gap_that_all_intervals_have),
        cmocka_unit_test(fair__any_plan__the_gateways_policies_keep_their_bounds),
        cmocka_unit_test(fair__newcomer_beside_an_overestimate__waits_for_as_much_as_it_was),
        cmocka_unit_test(fair__restarting_and_fifo__bounds_break_where_backlogs_last),
        cmocka_unit_test(fair__plans_that_cannot_be_run__named),
        cmocka_unit_test(fair__more_work_than_can_be_counted__named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
