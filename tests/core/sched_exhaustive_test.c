/* Every order in which a few events of three tenants can come, for each policy.
 *
 * Tenants, the server that takes, and the calls that end each have a short list of deeds; all
 * interleavings of the lists are walked (interleave.h): a scheduler is one block of memory. After
 * every deed the scheduler is compared with the naive one (sched_naive.h): who may be chosen, what
 * is owed; and judged by the bounds on every interval (sched_judge.h). In the end what is left is
 * taken. WEIR_TEST_LONG=1: longer lists.
 *
 * The deeds: a0..a2 enqueue (work in twelves, so that a half divides by every weight), r0..r2 remove
 * the oldest, s0..s2 suspend, u0..u2 resume, t take, e end the call that is out longest, p put the
 * last taken back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/interleave.h"
#include "core/num.h"
#include "core/sched_judge.h"
#include "core/sched_naive.h"
#include "support/check.h"
#include "support/tape.h"

#define TENANTS NAIVE_TENANTS
#define ITEMS NAIVE_ITEMS

struct plan {
    const char *name;
    interleave_lists lists;
};

static const uint32_t weights[TENANTS] = {1, 2, 3};

struct call {
    uint32_t tenant, item;
    uint64_t work;
    bool is_stale;
};

/* All that changes, in front of the scheduler's memory. */
struct world {
    struct sched_naive naive;
    struct sched_judge judge;
    struct call calls[ITEMS];
    uint32_t calls_now, items_used;
    struct weir_sched_item items[ITEMS];
};

struct walk {
    struct tape *t;
    struct weir_sched *s;
    struct world *w;
};

static void check_world(struct walk *k)
{
    struct world *w = k->w;
    bool is_ready[TENANTS], is_free[TENANTS];
    uint32_t allowed = sched_naive_choose(&w->naive);
    struct weir_sched_choice choice;
    bool found = weir_sched_peek(k->s, &choice);
    TAPE_CHECK(k->t, found == (allowed != 0));
    if (found) {
        TAPE_CHECK_MSG(k->t, allowed >> choice.tenant & 1, "chosen %u, may be: %x", choice.tenant,
                       allowed);
        TAPE_CHECK(k->t, choice.item == w->naive.fifo[choice.tenant][0]);
    }
    for (uint32_t i = 0; i < TENANTS; i++) {
        TAPE_CHECK(k->t, weir_sched_tenant_items(k->s, i) == w->naive.waiting[i]);
        TAPE_CHECK(k->t, weir_sched_tenant_debt_uwork(k->s, i) == sched_naive_debt(&w->naive, i));
        is_ready[i] = sched_naive_is_ready(&w->naive, i);
        is_free[i] = false;
        for (uint32_t c = 0; c < w->calls_now && is_ready[i] && !w->judge.is_ready[i]; c++)
            w->calls[c].is_stale |= w->calls[c].tenant == i;
    }
    sched_judge_look(&w->judge, k->t, is_ready, is_free);
}

static void do_take(struct walk *k)
{
    struct world *w = k->w;
    struct weir_sched_choice taken = weir_sched_take(k->s);
    TAPE_CHECK(k->t, sched_naive_take(&w->naive, taken.tenant) == taken.item);
    TAPE_CHECK(k->t, w->naive.work[taken.item] == taken.work_uwork);
    sched_judge_taken(&w->judge, taken.tenant, taken.work_uwork);
    w->calls[w->calls_now++] = (struct call){taken.tenant, taken.item, taken.work_uwork, false};
}

/* Tenant 0 uses twice what was charged, 1 a half, 2 just that. */
static void do_end(struct walk *k)
{
    struct world *w = k->w;
    struct call call = w->calls[0];
    memmove(&w->calls[0], &w->calls[1], --w->calls_now * sizeof call);
    uint64_t used = call.tenant == 0 ? call.work * 2 : call.tenant == 1 ? call.work / 2 : call.work;
    sched_judge_ended(&w->judge, call.tenant, call.work, used, call.is_stale);
    sched_naive_correct(&w->naive, call.tenant, (int64_t)used - (int64_t)call.work);
    weir_sched_correct(k->s, call.tenant, (int64_t)used - (int64_t)call.work);
}

static void do_put_back(struct walk *k)
{
    struct world *w = k->w;
    struct call call = w->calls[--w->calls_now];
    sched_judge_put_back(&w->judge, call.tenant, call.work, call.is_stale);
    sched_naive_put_back(&w->naive, call.tenant, call.item);
    weir_sched_put_back(k->s, call.tenant, call.item, call.work);
}

static void do_enqueue(struct walk *k, uint32_t tenant, uint64_t work)
{
    struct world *w = k->w;
    uint32_t item = w->items_used++;
    sched_judge_first_work(&w->judge, work);
    sched_naive_enqueue(&w->naive, tenant, item, work);
    weir_sched_enqueue(k->s, tenant, item, work);
}

static bool is_possible(void *user, const struct interleave_deed *deed)
{
    const struct walk *k = user;
    const struct world *w = k->w;
    switch (deed->what) {
    case 't':
        return weir_sched_tenants_ready(k->s) > 0;
    case 'e':
    case 'p':
        return w->calls_now > 0;
    case 'r':
        return w->naive.waiting[deed->who] > 0;
    default:
        return true;
    }
}

static void do_deed(void *user, const struct interleave_deed *deed)
{
    struct walk *k = user;
    switch (deed->what) {
    case 'a':
        do_enqueue(k, deed->who, deed->work * UINT64_C(12));
        break;
    case 'r':
        weir_sched_remove(k->s, weir_sched_tenant_head(k->s, deed->who));
        sched_naive_remove(&k->w->naive, deed->who, 0);
        break;
    case 's':
        weir_sched_suspend(k->s, deed->who);
        sched_naive_suspend(&k->w->naive, deed->who);
        break;
    case 'u':
        weir_sched_resume(k->s, deed->who);
        sched_naive_resume(&k->w->naive, deed->who);
        break;
    case 't':
        do_take(k);
        break;
    case 'e':
        do_end(k);
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
    while (weir_sched_tenants_ready(k->s) > 0) {
        do_take(k);
        check_world(k);
        do_end(k);
        check_world(k);
    }
}

static void walk_plan(struct tape *t, enum weir_sched_policy policy, const struct plan *plan)
{
    struct weir_sched_limits limits = {TENANTS, ITEMS};
    size_t sched_bytes = weir_sched_bytes(limits);
    struct walk k = {.t = t, .w = tape_alloc(t, sizeof *k.w + sched_bytes)};
    char title[80];
    k.s = weir_sched_init(k.w + 1, sched_bytes, limits, policy, k.w->items);
    sched_naive_init(&k.w->naive, policy, weights);
    sched_judge_init(&k.w->judge, policy, TENANTS);
    for (uint32_t i = 0; i < TENANTS; i++) {
        weir_sched_set_weight(k.s, i, weights[i]);
        sched_judge_weight(&k.w->judge, i, weights[i]);
    }
    snprintf(title, sizeof title, "%s, %s", weir_sched_policy_name(policy), plan->name);
    const struct interleave in = {.title = title,
                                  .user = &k,
                                  .world = k.w,
                                  .bytes = sizeof *k.w + sched_bytes,
                                  .is_possible = is_possible,
                                  .act = do_deed,
                                  .finish = drain};
    interleave_walk(t, &in, plan->lists);
}

static const struct plan plans[] = {
    {"come, cancel, leave the order",
     {{{'a', 0, 1}, {'a', 0, 1}, {'r', 0, 0}},
      {{'a', 1, 6}, {'a', 1, 1}},
      {{'a', 2, 2}, {'s', 2, 0}, {'u', 2, 0}},
      {{'t', 0, 0}, {'t', 0, 0}, {'t', 0, 0}}}},
    {"calls use more and less",
     {{{'a', 0, 1}, {'a', 0, 4}},
      {{'a', 1, 6}, {'a', 1, 1}},
      {{'a', 2, 2}},
      {{'t', 0, 0}, {'t', 0, 0}, {'t', 0, 0}},
      {{'e', 0, 0}, {'e', 0, 0}}}},
    {"some are put back",
     {{{'a', 0, 1}, {'a', 0, 1}},
      {{'a', 1, 6}, {'a', 1, 1}},
      {{'a', 2, 2}},
      {{'t', 0, 0}, {'t', 0, 0}, {'t', 0, 0}},
      {{'p', 0, 0}},
      {{'e', 0, 0}}}},
};

static const struct plan long_plans[] = {
    {"come, cancel, leave the order",
     {{{'a', 0, 1}, {'a', 0, 1}, {'r', 0, 0}, {'a', 0, 6}},
      {{'a', 1, 6}, {'a', 1, 1}},
      {{'a', 2, 2}, {'s', 2, 0}, {'u', 2, 0}},
      {{'t', 0, 0}, {'t', 0, 0}, {'t', 0, 0}, {'t', 0, 0}}}},
    {"calls use more and less",
     {{{'a', 0, 1}, {'a', 0, 4}},
      {{'a', 1, 6}, {'a', 1, 1}},
      {{'a', 2, 2}, {'s', 2, 0}},
      {{'t', 0, 0}, {'t', 0, 0}, {'t', 0, 0}, {'t', 0, 0}},
      {{'e', 0, 0}, {'e', 0, 0}}}},
    {"some are put back",
     {{{'a', 0, 1}, {'a', 0, 1}, {'a', 0, 6}},
      {{'a', 1, 6}, {'a', 1, 1}},
      {{'a', 2, 2}},
      {{'t', 0, 0}, {'t', 0, 0}, {'t', 0, 0}, {'t', 0, 0}},
      {{'p', 0, 0}},
      {{'e', 0, 0}}}},
};

static void walk_policy(struct tape *t, enum weir_sched_policy policy)
{
    for (size_t i = 0; i < WEIR_COUNT(plans); i++)
        walk_plan(t, policy, getenv("WEIR_TEST_LONG") ? &long_plans[i] : &plans[i]);
}

static void walk_fifo(struct tape *t)
{
    walk_policy(t, WEIR_SCHED_FIFO);
}

static void walk_drr(struct tape *t)
{
    walk_policy(t, WEIR_SCHED_DRR);
}

static void walk_drr_cost(struct tape *t)
{
    walk_policy(t, WEIR_SCHED_DRR_COST);
}

static void walk_vtc(struct tape *t)
{
    walk_policy(t, WEIR_SCHED_VTC);
}

static void fifo__every_order_of_events__is_as_the_naive_one(void **state)
{
    (void)state;
    tape_check(__func__, walk_fifo, 1, 1);
}

static void drr__every_order_of_events__is_as_the_naive_one(void **state)
{
    (void)state;
    tape_check(__func__, walk_drr, 1, 1);
}

static void drr_cost__every_order_of_events__is_as_the_naive_one(void **state)
{
    (void)state;
    tape_check(__func__, walk_drr_cost, 1, 1);
}

static void vtc__every_order_of_events__is_as_the_naive_one(void **state)
{
    (void)state;
    tape_check(__func__, walk_vtc, 1, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fifo__every_order_of_events__is_as_the_naive_one),
        cmocka_unit_test(drr__every_order_of_events__is_as_the_naive_one),
        cmocka_unit_test(drr_cost__every_order_of_events__is_as_the_naive_one),
        cmocka_unit_test(vtc__every_order_of_events__is_as_the_naive_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
