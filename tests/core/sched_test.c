#include "core/sched.h"

#include <stdlib.h>

#include "support/check.h"

#define W ((uint64_t)WEIR_UWORK_PER_WORK)
#define ITEMS 4000u

static const enum weir_sched_policy policies[] = {WEIR_SCHED_FIFO, WEIR_SCHED_DRR,
                                                  WEIR_SCHED_DRR_COST, WEIR_SCHED_VTC};

struct box {
    struct weir_sched *s;
    struct weir_sched_item *items;
    void *mem;
    uint32_t used;
};

static struct box box_new(enum weir_sched_policy policy, uint32_t tenants, uint32_t items)
{
    struct weir_sched_limits limits = {tenants, items};
    struct box box = {.items = calloc(items, sizeof *box.items)};
    size_t bytes = weir_sched_bytes(limits);
    box.mem = calloc(1, bytes);
    assert_non_null(box.items);
    assert_non_null(box.mem);
    box.s = weir_sched_init(box.mem, bytes, limits, policy, box.items);
    return box;
}

static void box_free(struct box *box)
{
    free(box->mem);
    free(box->items);
}

static void add(struct box *box, uint32_t tenant, uint32_t count, uint64_t work)
{
    while (count-- > 0)
        weir_sched_enqueue(box->s, tenant, box->used++, work);
}

/* Takes up to `count` items; their tenants as letters. */
static const char *order(struct box *box, uint32_t count)
{
    static char text[ITEMS + 1];
    struct weir_sched_choice choice;
    uint32_t i = 0;
    for (; i < count && weir_sched_peek(box->s, &choice); i++)
        text[i] = (char)('a' + weir_sched_take(box->s).tenant);
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

/* Weights 4:1:1, backlog 40/10/10, equal costs. Served to the end, every order gives 40/10/10; it
 * is the prefixes that tell. */
static void sched__weights_4_1_1__every_prefix_is_fair_but_fifos(void **state)
{
    (void)state;
    for (size_t p = 0; p < WEIR_COUNT(policies); p++) {
        struct box box = box_new(policies[p], 3, ITEMS);
        weir_sched_set_weight(box.s, 0, 4);
        add(&box, 0, 40, W);
        add(&box, 1, 10, W);
        add(&box, 2, 10, W);
        const char *got = order(&box, 60);
        CHECK_INT(strlen(got), 60);
        uint32_t count[3] = {0};
        bool fair = true;
        for (uint32_t i = 0; i < 60; i++) {
            count[got[i] - 'a']++;
            for (int t = 1; t < 3; t++)
                fair = fair && abs((int)count[0] - 4 * (int)count[t]) <= 8;
        }
        CHECK_MSG(fair == (policies[p] != WEIR_SCHED_FIFO), "%s: %.60s",
                  weir_sched_policy_name(policies[p]), got);
        box_free(&box);
    }
}

static void sched__golden_orders(void **state)
{
    (void)state;
    static const struct {
        enum weir_sched_policy policy;
        const char *want;
    } rows[] = {
        {WEIR_SCHED_FIFO, "aaaaaaaaaaaabbbccc"},
        {WEIR_SCHED_DRR, "aaaabcaaaabcaaaabc"},
        {WEIR_SCHED_DRR_COST, "aaaabcaaaabcaaaabc"},
    };
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct box box = box_new(rows[i].policy, 3, ITEMS);
        weir_sched_set_weight(box.s, 0, 4);
        add(&box, 0, 12, W);
        add(&box, 1, 3, W);
        add(&box, 2, 3, W);
        CHECK_STR(order(&box, 18), rows[i].want);
        box_free(&box);
    }
}

/* Two equal tenants with a hundred items each: a scheduler that starts at the first tenant on every
 * call serves only that one. */
static void sched__two_equal_tenants__share_every_prefix(void **state)
{
    (void)state;
    for (size_t p = 1; p < WEIR_COUNT(policies); p++) {
        struct box box = box_new(policies[p], 2, ITEMS);
        add(&box, 0, 100, W);
        add(&box, 1, 100, W);
        for (uint32_t pairs = 0; pairs < 100; pairs++) {
            const char *two = order(&box, 2);
            CHECK_MSG(count_of(two, 'a') == 1, "%s", weir_sched_policy_name(policies[p]));
        }
        box_free(&box);
    }
}

/* One permit, equal costs: forty of tenant a queued, then one of tenant b. */
static void sched__single_request_behind_forty__goes_next_or_next_but_one_but_in_fifo(void **state)
{
    (void)state;
    for (size_t p = 0; p < WEIR_COUNT(policies); p++)
        for (uint32_t flip = 0; flip < 2; flip++)
            for (uint32_t served = 0; served < 20; served++) {
                struct box box = box_new(policies[p], 2, ITEMS);
                add(&box, flip, 40, W);
                order(&box, served);
                add(&box, !flip, 1, W);
                const char *two = order(&box, 2);
                bool soon = count_of(two, (char)('a' + !flip)) == 1;
                CHECK_MSG(soon == (policies[p] != WEIR_SCHED_FIFO), "%s after %u: %.2s",
                          weir_sched_policy_name(policies[p]), served, two);
                box_free(&box);
            }
}

static void sched__idle_tenant__earns_no_credit(void **state)
{
    (void)state;
    for (size_t p = 1; p < WEIR_COUNT(policies); p++) {
        struct box box = box_new(policies[p], 2, ITEMS);
        add(&box, 1, 1, W);
        add(&box, 0, 1500, W);
        order(&box, 1000); /* b had one, then was idle for a long time */
        add(&box, 1, 100, W);
        uint32_t b = count_of(order(&box, 100), 'b');
        CHECK_MSG(b >= 49 && b <= 51, "%s: b got %u of 100", weir_sched_policy_name(policies[p]),
                  b);
        box_free(&box);
    }
}

static void sched__idle_scheduler__newcomer_is_level_with_the_last_served(void **state)
{
    (void)state;
    for (size_t p = 1; p < WEIR_COUNT(policies); p++) {
        struct box box = box_new(policies[p], 2, ITEMS);
        add(&box, 0, 500, W);
        order(&box, 500); /* a was served alone, to the end; nobody waits */
        add(&box, 1, 100, W);
        add(&box, 0, 100, W);
        uint32_t a = count_of(order(&box, 100), 'a');
        CHECK_MSG(a >= 49 && a <= 51, "%s: a got %u of 100", weir_sched_policy_name(policies[p]),
                  a);
        box_free(&box);
    }
}

/* a sends one item as costly as a hundred of b's, and runs empty; it comes back at once. */
static void sched__debt__outlives_running_empty(void **state)
{
    (void)state;
    static const enum weir_sched_policy by_work[] = {WEIR_SCHED_DRR_COST, WEIR_SCHED_VTC};
    for (size_t p = 0; p < WEIR_COUNT(by_work); p++) {
        struct box box = box_new(by_work[p], 2, ITEMS);
        add(&box, 1, 300, W);
        add(&box, 0, 1, 100 * W);
        while (weir_sched_tenant_items(box.s, 0) > 0)
            order(&box, 1);
        CHECK(weir_sched_tenant_debt_uwork(box.s, 0) > 90 * W);
        CHECK(weir_sched_tenant_matters(box.s, 0));
        add(&box, 0, 10, 100 * W);
        uint32_t b = (uint32_t)strcspn(order(&box, 200), "a");
        CHECK_MSG(b >= 97 && b <= 102, "%s: b got %u before a came again",
                  weir_sched_policy_name(by_work[p]), b);
        box_free(&box);
    }
}

static void sched__correction__charges_the_rest_and_refunds(void **state)
{
    (void)state;
    static const enum weir_sched_policy by_work[] = {WEIR_SCHED_DRR_COST, WEIR_SCHED_VTC};
    for (size_t p = 0; p < WEIR_COUNT(by_work); p++) {
        struct box box = box_new(by_work[p], 2, ITEMS);
        add(&box, 0, 200, W);
        add(&box, 1, 200, W);
        order(&box, 20);
        weir_sched_correct(box.s, 0, (int64_t)(30 * W)); /* one of a's used 31 times as much */
        uint32_t b = (uint32_t)strcspn(order(&box, 60), "a");
        CHECK_MSG(b >= 29 && b <= 32, "%s: b got %u", weir_sched_policy_name(by_work[p]), b);
        weir_sched_correct(box.s, 0, -(int64_t)(20 * W));
        uint32_t a = count_of(order(&box, 21), 'a');
        CHECK_MSG(a >= 19, "%s: a got %u", weir_sched_policy_name(by_work[p]), a);
        box_free(&box);
    }
}

/* A refund that comes after its tenant was idle restores no more than a newcomer has. */
static void sched__refund_after_idleness__is_no_credit(void **state)
{
    (void)state;
    static const enum weir_sched_policy by_work[] = {WEIR_SCHED_DRR_COST, WEIR_SCHED_VTC};
    for (size_t p = 0; p < WEIR_COUNT(by_work); p++) {
        struct box box = box_new(by_work[p], 2, ITEMS);
        add(&box, 0, 1, 50 * W);
        order(&box, 1);
        add(&box, 1, 500, W);
        order(&box, 200); /* meanwhile a's debt is long past */
        add(&box, 0, 100, W);
        weir_sched_correct(box.s, 0, -(int64_t)(49 * W));
        uint32_t a = count_of(order(&box, 40), 'a');
        CHECK_MSG(a >= 19 && a <= 22, "%s: a got %u of 40", weir_sched_policy_name(by_work[p]), a);
        box_free(&box);
    }
}

static void sched__suspended_tenant__keeps_its_fifo_and_holds_nobody_up(void **state)
{
    (void)state;
    for (size_t p = 0; p < WEIR_COUNT(policies); p++) {
        struct box box = box_new(policies[p], 2, ITEMS);
        add(&box, 0, 3, W);
        add(&box, 1, 200, W);
        weir_sched_suspend(box.s, 0);
        weir_sched_suspend(box.s, 0);
        add(&box, 0, 100, W);
        CHECK_INT(weir_sched_items(box.s), 303);
        CHECK_INT(weir_sched_items_ready(box.s), 200);
        CHECK_INT(weir_sched_tenants_ready(box.s), 1);
        CHECK_INT(count_of(order(&box, 100), 'b'), 100);
        weir_sched_resume(box.s, 0);
        weir_sched_resume(box.s, 0);
        CHECK_INT(weir_sched_tenant_head(box.s, 0), 0);
        uint32_t a = count_of(order(&box, 60), 'a');
        if (policies[p] != WEIR_SCHED_FIFO) /* its return is an arrival: level, without credit */
            CHECK_MSG(a >= 29 && a <= 31, "%s: a got %u", weir_sched_policy_name(policies[p]), a);
        box_free(&box);
    }
}

static void sched__put_back__is_as_if_never_taken(void **state)
{
    (void)state;
    for (size_t p = 0; p < WEIR_COUNT(policies); p++)
        /* From three on no two counters of vtc are equal, whose order would be open. */
        for (uint32_t before = 3; before < 24; before++) {
            struct box plain = box_new(policies[p], 3, ITEMS), undone = plain;
            undone = box_new(policies[p], 3, ITEMS);
            struct box *both[] = {&plain, &undone};
            for (size_t i = 0; i < 2; i++) {
                weir_sched_set_weight(both[i]->s, 0, 2);
                add(both[i], 0, 9, 31 * W);
                add(both[i], 1, 9, 53 * W);
                add(both[i], 2, 9, 77 * W);
                order(both[i], before);
            }
            struct weir_sched_choice taken = weir_sched_take(undone.s);
            weir_sched_put_back(undone.s, taken.tenant, taken.item, taken.work_uwork);
            for (uint32_t left = 27 - before; left > 0; left--) {
                struct weir_sched_choice a = weir_sched_take(plain.s),
                                         b = weir_sched_take(undone.s);
                /* drr-cost has learnt from the cost that it saw: its quantum differs a little. */
                bool same = a.item == b.item || policies[p] == WEIR_SCHED_DRR_COST;
                CHECK_MSG(same, "%s after %u", weir_sched_policy_name(policies[p]), before);
                CHECK(b.item == taken.item || left < 27 - before);
            }
            box_free(&plain);
            box_free(&undone);
        }
}

/* b ran empty with its request and gave its turn up; the request is put back in the next round. */
static void sched__put_back_in_a_later_round__costs_nothing_of_that_rounds_turn(void **state)
{
    (void)state;
    static const enum weir_sched_policy rounds[] = {WEIR_SCHED_DRR, WEIR_SCHED_DRR_COST};
    for (size_t p = 0; p < WEIR_COUNT(rounds); p++) {
        struct box box = box_new(rounds[p], 2, ITEMS);
        weir_sched_set_weight(box.s, 1, 4);
        add(&box, 0, 10, W);
        add(&box, 1, 1, W);
        CHECK_STR(order(&box, 1), "a");
        struct weir_sched_choice taken = weir_sched_take(box.s), next;
        CHECK_INT(taken.tenant, 1);
        CHECK(weir_sched_peek(box.s, &next)); /* the next round has begun */
        weir_sched_put_back(box.s, taken.tenant, taken.item, taken.work_uwork);
        add(&box, 1, 8, W);
        /* drr counts what was put back beside the turn; drr-cost, from where an arrival stands. */
        CHECK_STR(order(&box, 7), rounds[p] == WEIR_SCHED_DRR ? "abbbbba" : "abbbbab");
        box_free(&box);
    }
}

static void sched__item_far_above_any_quantum__is_served_in_its_turn(void **state)
{
    (void)state;
    for (size_t p = 0; p < WEIR_COUNT(policies); p++) {
        struct box box = box_new(policies[p], 3, ITEMS);
        add(&box, 0, 200, 1);
        order(&box, 100);
        add(&box, 1, 3, (uint64_t)WEIR_SCHED_WORK_MAX_UWORK);
        add(&box, 2, 3, UINT64_MAX); /* clamped */
        CHECK_INT(strlen(order(&box, 200)), 106);
        box_free(&box);
    }
}

/* Work of many eras: the counters start anew again and again, and nothing else changes. */
static void sched__many_eras__stay_fair(void **state)
{
    (void)state;
    static const enum weir_sched_policy by_work[] = {WEIR_SCHED_DRR_COST, WEIR_SCHED_VTC};
    uint64_t most = (uint64_t)WEIR_SCHED_WORK_MAX_UWORK;
    for (size_t p = 0; p < WEIR_COUNT(by_work); p++) {
        struct box box = box_new(by_work[p], 4, ITEMS);
        uint32_t got[4] = {0};
        /* d was served once and comes back much later; c owes what one tenant can owe at most. */
        add(&box, 3, 1, most);
        order(&box, 1);
        add(&box, 0, 3, most);
        add(&box, 1, 3, most / 8);
        add(&box, 2, 3, most);
        for (uint32_t i = 0; i < 300; i++)
            weir_sched_correct(box.s, 2, WEIR_SCHED_WORK_MAX_UWORK);
        for (uint32_t i = 0; i < 90000; i++) {
            struct weir_sched_choice c = weir_sched_take(box.s);
            got[c.tenant]++;
            weir_sched_enqueue(box.s, c.tenant, c.item, c.work_uwork);
            if (i == 60000)
                add(&box, 3, 3, most);
            if (i == 60000)
                memset(got, 0, sizeof got);
        }
        /* By then c's debt is paid: 30,000 items, shares 1 : 8 : 1 : 1. */
        for (uint32_t t = 0; t < 4; t++) {
            uint32_t want = t == 1 ? 21818 : 2727;
            CHECK_MSG(got[t] + 20 > want && got[t] < want + 20, "%s: tenant %u got %u",
                      weir_sched_policy_name(by_work[p]), t, got[t]);
        }
        box_free(&box);
    }
}

/* A debt of as much as is remembered, made just before an era ends, is paid after it to the last
 * item: to the one who waited all along, or to a newcomer when that one cancels. */
static void sched__debt_across_the_end_of_an_era__is_paid_exactly(void **state)
{
    (void)state;
    static const enum weir_sched_policy by_work[] = {WEIR_SCHED_DRR_COST, WEIR_SCHED_VTC};
    uint64_t most = (uint64_t)WEIR_SCHED_WORK_MAX_UWORK;
    for (size_t p = 0; p < WEIR_COUNT(by_work); p++)
        for (uint32_t before = 1000; before < 1030; before++)
            for (uint32_t cancel = 0; cancel < 2; cancel++) {
                struct box box = box_new(by_work[p], 3, ITEMS);
                add(&box, 0, 1500, most);
                order(&box, before);
                add(&box, 1, 2, most);
                while (weir_sched_tenant_items(box.s, 1) > 1)
                    order(&box, 1);
                for (uint32_t i = 0; i < 300; i++)
                    weir_sched_correct(box.s, 1, WEIR_SCHED_WORK_MAX_UWORK);
                CHECK_INT(count_of(order(&box, 100), 'a'), 100);
                while (cancel && weir_sched_tenant_items(box.s, 0) > 0)
                    weir_sched_remove(box.s, weir_sched_tenant_head(box.s, 0));
                if (cancel) { /* b now waits alone, and cancels too */
                    weir_sched_remove(box.s, weir_sched_tenant_head(box.s, 1));
                    add(&box, 2, 400, most);
                    add(&box, 1, 1, most);
                }
                uint32_t others = (uint32_t)strcspn(order(&box, 300), "b");
                CHECK_MSG(others >= 155 && others <= 158, "%s, %u before: others got %u",
                          weir_sched_policy_name(by_work[p]), before, others);
                box_free(&box);
            }
}

/* Three does not divide a cost of one: what the division leaves is not lost. */
static void sched__weights_that_do_not_divide_the_cost__share_exactly(void **state)
{
    (void)state;
    static const enum weir_sched_policy by_work[] = {WEIR_SCHED_DRR_COST, WEIR_SCHED_VTC};
    for (size_t p = 0; p < WEIR_COUNT(by_work); p++) {
        struct box box = box_new(by_work[p], 2, ITEMS);
        uint32_t got[2] = {0};
        weir_sched_set_weight(box.s, 0, 3);
        weir_sched_set_weight(box.s, 1, 7);
        add(&box, 0, 3, 10);
        add(&box, 1, 3, 10);
        for (uint32_t i = 0; i < 100000; i++) {
            struct weir_sched_choice c = weir_sched_take(box.s);
            got[c.tenant]++;
            weir_sched_enqueue(box.s, c.tenant, c.item, c.work_uwork);
        }
        CHECK_MSG(got[0] > 29990 && got[0] < 30010, "%s: %u", weir_sched_policy_name(by_work[p]),
                  got[0]);
        box_free(&box);
    }
}

/* The first case of the lift: to the smallest counter of those who wait, here of one in debt. */
static void vtc__arrival_while_others_wait__is_lifted_to_their_smallest_counter(void **state)
{
    (void)state;
    struct box box = box_new(WEIR_SCHED_VTC, 3, ITEMS);
    add(&box, 0, 50, W);
    order(&box, 1);
    weir_sched_correct(box.s, 0, (int64_t)(20 * W));
    add(&box, 1, 50, W);
    CHECK_INT(weir_sched_tenant_debt_uwork(box.s, 0), 0);
    uint32_t a = count_of(order(&box, 20), 'a');
    CHECK_MSG(a == 10, "a got %u of 20", a);
    box_free(&box);
}

/* The second case: to the counter of the tenant that left last, refunds it got since included. */
static void vtc__arrival_while_nobody_waits__is_lifted_to_the_one_that_left_last(void **state)
{
    (void)state;
    struct box box = box_new(WEIR_SCHED_VTC, 3, ITEMS);
    add(&box, 0, 1, 100 * W);
    order(&box, 1);
    weir_sched_correct(box.s, 0, -(int64_t)(90 * W));
    add(&box, 1, 30, W);
    add(&box, 0, 30, W);
    uint32_t a = count_of(order(&box, 20), 'a');
    CHECK_MSG(a == 10, "a got %u of 20", a);
    box_free(&box);
}

static void vtc__cancelled_while_in_debt__does_not_lift_those_who_come(void **state)
{
    (void)state;
    for (uint32_t eras = 0; eras < 2; eras++) {
        struct box box = box_new(WEIR_SCHED_VTC, 3, ITEMS);
        add(&box, 2, eras * 1100, (uint64_t)WEIR_SCHED_WORK_MAX_UWORK);
        order(&box, eras * 1100);
        add(&box, 0, 2, 100 * W);
        add(&box, 1, 2, W);
        CHECK(count_of(order(&box, 3), 'b') == 2);
        weir_sched_remove(box.s, eras * 1100 + 1); /* a, 100 work in debt, waited alone and left */
        add(&box, 1, 200, W);
        add(&box, 0, 2, W);
        uint32_t b = (uint32_t)strcspn(order(&box, 150), "a");
        CHECK_MSG(b >= 98 && b <= 101, "b got %u before a", b);
        box_free(&box);
    }
}

static void vtc__last_to_leave_is_forgotten__others_stand_where_they_stood(void **state)
{
    (void)state;
    struct box box = box_new(WEIR_SCHED_VTC, 3, ITEMS);
    add(&box, 2, 1, 60 * W);
    order(&box, 1);
    add(&box, 0, 1, 40 * W); /* lifted to 60, and leaves at 100 */
    order(&box, 1);
    weir_sched_correct(box.s, 2, (int64_t)(30 * W)); /* 90 */
    CHECK_INT(weir_sched_tenant_debt_uwork(box.s, 2), 0);
    weir_sched_tenant_forget(box.s, 0);
    CHECK_INT(weir_sched_tenant_debt_uwork(box.s, 2), 0);
    box_free(&box);
}

static void sched__forgotten_tenant__is_as_new(void **state)
{
    (void)state;
    for (size_t p = 0; p < WEIR_COUNT(policies); p++) {
        struct box box = box_new(policies[p], 2, ITEMS);
        CHECK(!weir_sched_tenant_matters(box.s, 0));
        weir_sched_set_weight(box.s, 0, 9);
        weir_sched_suspend(box.s, 0);
        CHECK(weir_sched_tenant_matters(box.s, 0));
        weir_sched_resume(box.s, 0);
        add(&box, 0, 1, 50 * W);
        CHECK(weir_sched_tenant_matters(box.s, 0));
        order(&box, 1);
        weir_sched_tenant_forget(box.s, 0);
        CHECK(!weir_sched_tenant_matters(box.s, 0));
        add(&box, 1, 100, 50 * W);
        add(&box, 0, 100, 50 * W);
        uint32_t a = count_of(order(&box, 40), 'a');
        if (policies[p] != WEIR_SCHED_FIFO)
            CHECK_MSG(a >= 19 && a <= 21, "%s: a got %u", weir_sched_policy_name(policies[p]), a);
        box_free(&box);
    }
}

/* A million tenants with one waiting request each, and every second one cancelled. */
static void sched__a_million_waiters__are_served_and_cancelled(void **state)
{
    (void)state;
    enum { MILLION = 1000000 };
    for (size_t p = 0; p < WEIR_COUNT(policies); p++) {
        struct box box = box_new(policies[p], MILLION, MILLION);
        for (uint32_t i = 0; i < MILLION; i++)
            weir_sched_enqueue(box.s, i, i, W + i * UINT64_C(7919) % W);
        CHECK_INT(weir_sched_tenants_ready(box.s), MILLION);
        for (uint32_t i = 0; i < MILLION; i += 2)
            weir_sched_remove(box.s, i);
        for (uint32_t i = 0; i < MILLION / 2; i++)
            CHECK_INT(weir_sched_take(box.s).tenant % 2, 1);
        CHECK_INT(weir_sched_items(box.s), 0);
        struct weir_sched_choice choice;
        CHECK(!weir_sched_peek(box.s, &choice));
        box_free(&box);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sched__weights_4_1_1__every_prefix_is_fair_but_fifos),
        cmocka_unit_test(sched__golden_orders),
        cmocka_unit_test(sched__two_equal_tenants__share_every_prefix),
        cmocka_unit_test(sched__single_request_behind_forty__goes_next_or_next_but_one_but_in_fifo),
        cmocka_unit_test(sched__idle_tenant__earns_no_credit),
        cmocka_unit_test(sched__idle_scheduler__newcomer_is_level_with_the_last_served),
        cmocka_unit_test(sched__debt__outlives_running_empty),
        cmocka_unit_test(sched__correction__charges_the_rest_and_refunds),
        cmocka_unit_test(sched__refund_after_idleness__is_no_credit),
        cmocka_unit_test(sched__suspended_tenant__keeps_its_fifo_and_holds_nobody_up),
        cmocka_unit_test(sched__put_back__is_as_if_never_taken),
        cmocka_unit_test(sched__put_back_in_a_later_round__costs_nothing_of_that_rounds_turn),
        cmocka_unit_test(sched__item_far_above_any_quantum__is_served_in_its_turn),
        cmocka_unit_test(sched__many_eras__stay_fair),
        cmocka_unit_test(sched__debt_across_the_end_of_an_era__is_paid_exactly),
        cmocka_unit_test(sched__weights_that_do_not_divide_the_cost__share_exactly),
        cmocka_unit_test(vtc__arrival_while_others_wait__is_lifted_to_their_smallest_counter),
        cmocka_unit_test(vtc__arrival_while_nobody_waits__is_lifted_to_the_one_that_left_last),
        cmocka_unit_test(vtc__cancelled_while_in_debt__does_not_lift_those_who_come),
        cmocka_unit_test(vtc__last_to_leave_is_forgotten__others_stand_where_they_stood),
        cmocka_unit_test(sched__forgotten_tenant__is_as_new),
        cmocka_unit_test(sched__a_million_waiters__are_served_and_cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
