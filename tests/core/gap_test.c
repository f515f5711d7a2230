/* The gap in hand-made windows, under dispatchers that are wrong, and at its limits. */
#include "core/gap.h"

#include <stdlib.h>

#include "support/check.h"

#define W ((uint64_t)WEIR_UWORK_PER_WORK)

struct box {
    struct weir_gap *g;
    void *mem;
    uint64_t now_ns;
    uint64_t quantum_uwork[2];
};

static struct box box_new(uint32_t tenants, enum weir_sched_policy policy)
{
    struct weir_gap_limits limits = {.lanes = 1, .tenants_max = tenants};
    struct box box = {.mem = calloc(1, weir_gap_bytes(limits)), .now_ns = 100 * WEIR_NS_PER_S};
    CHECK(box.mem != NULL);
    box.g = weir_gap_init(box.mem, weir_gap_bytes(limits), limits, &policy);
    weir_gap_advance(box.g, box.quantum_uwork, box.now_ns);
    return box;
}

static void box_pass(struct box *box, uint64_t slices)
{
    box->now_ns += slices * WEIR_GAP_SLICE_NS;
    weir_gap_advance(box->g, box->quantum_uwork, box->now_ns);
}

/* A history as text: tenants are letters.
 *   a+3  three of its requests begin to wait     a-1  one leaves     a!100  one is dispatched, work 100
 *   a^100  it is put back     a~-30  a correction     a/4  its weight     a;  suspended     a:  resumed
 *   |3  three slices end */
static void box_play(struct box *box, const char *text)
{
    while (*text) {
        char who = *text++;
        if (who == ' ')
            continue;
        char what = who == '|' ? '|' : *text++;
        char *end;
        long long n = strtoll(text, &end, 10);
        n = end == text ? 1 : n;
        text = end;
        uint32_t tenant = (uint32_t)(who - 'a');
        for (long long i = 0; i < n && what == '+'; i++)
            weir_gap_enqueue(box->g, 0, tenant);
        for (long long i = 0; i < n && what == '-'; i++)
            weir_gap_remove(box->g, 0, tenant);
        switch (what) {
        case '!':
            weir_gap_take(box->g, 0, tenant, (uint64_t)n * W);
            break;
        case '^':
            weir_gap_put_back(box->g, 0, tenant, (uint64_t)n * W);
            break;
        case '~':
            weir_gap_correct(box->g, 0, tenant, n * (int64_t)W);
            break;
        case '/':
            weir_gap_set_weight(box->g, 0, tenant, (uint32_t)n);
            break;
        case ';':
            weir_gap_suspend(box->g, 0, tenant);
            break;
        case ':':
            weir_gap_resume(box->g, 0, tenant);
            break;
        case 'q':
            box->quantum_uwork[0] = (uint64_t)n * W;
            break;
        case '|':
            box_pass(box, (uint64_t)n);
            break;
        default:
            break;
        }
    }
}

/* One window as text: "2: a>b 300/100 jain 0.500000 broken 1"; whole units, rounded down. */
static const char *box_window(const struct box *box, uint32_t index)
{
    static char text[160];
    struct weir_gap_view view;
    weir_gap_view(box->g, 0, &view);
    const struct weir_gap_window *w = &view.windows[index];
    int used = snprintf(text, sizeof text, "%u:", w->compared);
    if (w->compared >= 2)
        used +=
            snprintf(text + used, sizeof text - (size_t)used, " %c>%c %llu/", 'a' + (int)w->ahead,
                     'a' + (int)w->behind, (unsigned long long)(w->gap_uwork / W));
    else
        CHECK(w->ahead == WEIR_NONE && w->behind == WEIR_NONE && w->gap_uwork == 0);
    if (w->compared >= 2 && w->bound_uwork == WEIR_GAP_NO_BOUND)
        used += snprintf(text + used, sizeof text - (size_t)used, "none");
    else if (w->compared >= 2)
        used += snprintf(text + used, sizeof text - (size_t)used, "%llu",
                         (unsigned long long)(w->bound_uwork / W));
    if (w->compared >= 2)
        used += snprintf(text + used, sizeof text - (size_t)used, " jain %u.%06u",
                         w->jain_ppm / 1000000, w->jain_ppm % 1000000);
    snprintf(text + used, sizeof text - (size_t)used, " broken %llu",
             (unsigned long long)w->broken);
    return text;
}

static const struct {
    enum weir_sched_policy policy;
    const char *history;
    uint32_t window; /* 0, 1, 2: of 1, 10, 60 slices */
    const char *want;
} rows[] = {
    /* Nobody, or one alone, is no comparison. */
    {WEIR_SCHED_VTC, "|", 0, "0: broken 0"},
    {WEIR_SCHED_VTC, "a+9 | a!100 |", 0, "1: broken 0"},
    /* Alike; of equals the first is "ahead" of the last. */
    {WEIR_SCHED_VTC, "a+9 b+9 c+9 | a!100 b!100 c!100 |", 0, "3: a>c 0/100 jain 1.000000 broken 0"},
    /* One item ahead is within one item; three in a row are not. */
    {WEIR_SCHED_VTC, "a+9 b+9 | a!100 |", 0, "2: a>b 100/100 jain 0.500000 broken 0"},
    {WEIR_SCHED_VTC, "a+9 b+9 | a!100 a!100 a!100 |", 0, "2: a>b 300/100 jain 0.500000 broken 1"},
    /* Both ends count: b was ahead when the window began. */
    {WEIR_SCHED_VTC, "a+9 b+9 b!70 | a!50 a!50 |", 0, "2: a>b 100/120 jain 0.500000 broken 0"},
    {WEIR_SCHED_VTC, "a+9 b+9 b!70 | a!50 a!50 a!30 |", 0, "2: a>b 130/100 jain 0.500000 broken 1"},
    /* However long ago that was: its last dispatch is remembered. */
    {WEIR_SCHED_VTC, "a+9 b+9 b!700 |30 a!90 a!90 a!90 |", 0,
     "2: a>b 270/790 jain 0.500000 broken 0"},
    /* Weights: 4 to 1 is what 400 and 100 are; the gap is that of the smallest weight compared. */
    {WEIR_SCHED_VTC, "a/4 a+9 b+9 | a!400 b!100 |", 0, "2: a>b 0/100 jain 1.000000 broken 0"},
    {WEIR_SCHED_VTC, "a/4 b/2 a+9 b+9 | a!400 |", 0, "2: a>b 200/200 jain 0.500000 broken 0"},
    /* Not all through: came in the window, was gone, was suspended, its weight changed. */
    {WEIR_SCHED_VTC, "a+9 | b+9 a!100 |", 0, "1: broken 0"},
    {WEIR_SCHED_VTC, "a+9 b+9 | b-9 b+9 |", 0, "1: broken 0"},
    {WEIR_SCHED_VTC, "a+9 b+1 | b!10 b+9 |", 0, "1: broken 0"},
    {WEIR_SCHED_VTC, "a+9 b+9 | b; b: |", 0, "1: broken 0"},
    {WEIR_SCHED_VTC, "a+9 b; b+9 | a!100 |", 0, "1: broken 0"},
    {WEIR_SCHED_VTC, "a+9 b+9 | b/3 |", 0, "1: broken 0"},
    {WEIR_SCHED_VTC, "a+9 b+9 | b/3 | a!5 |", 0, "2: a>b 5/5 jain 0.500000 broken 0"},
    {WEIR_SCHED_VTC, "a+9 b+9 | b/1 a!5 |", 0, "2: a>b 5/5 jain 0.500000 broken 0"},
    /* A correction counts when it comes, and moves the bound with it. */
    {WEIR_SCHED_VTC, "a+9 b+9 | a!100 a~50 |", 0, "2: a>b 150/150 jain 0.500000 broken 0"},
    {WEIR_SCHED_VTC, "a+9 b+9 a!100 | a~50 |", 0, "2: a>b 50/150 jain 0.500000 broken 0"},
    {WEIR_SCHED_VTC, "a+9 b+9 | a!100 b!100 b~-60 |", 0, "2: a>b 60/160 jain 0.844827 broken 0"},
    /* A refund of what was charged before its tenant came is not of this stretch. */
    {WEIR_SCHED_VTC, "b+1 b!100 a+9 b+9 | a!10 b!10 b~-60 |", 0,
     "2: a>b 10/120 jain 0.500000 broken 0"},
    /* What was put back was not served, but had counted when others were chosen. */
    {WEIR_SCHED_VTC, "a+9 b+9 | a!100 b!100 b^100 |", 0, "2: a>b 100/200 jain 0.500000 broken 0"},
    /* Debt of an earlier time stays with its tenant. */
    {WEIR_SCHED_VTC, "b+1 b!500 |5 a+9 b+9 | a!100 a!100 a!100 |", 0,
     "2: a>b 300/600 jain 0.500000 broken 0"},
    /* Ten slices; the gap of what has left the window is gone. */
    {WEIR_SCHED_VTC, "a+9 b+9 | a!10 |9", 1, "0: broken 0"},
    {WEIR_SCHED_VTC, "a+9 b+9 | a!10 |10", 1, "2: a>b 10/10 jain 0.500000 broken 0"},
    {WEIR_SCHED_VTC, "a+9 b+9 | a!10 |11", 1, "2: a>b 0/10 jain 1.000000 broken 0"},
    {WEIR_SCHED_VTC, "a+9 b+9 | a!10 |10", 0, "2: a>b 0/10 jain 1.000000 broken 0"},
    {WEIR_SCHED_VTC, "a+9 b+9 | a!10 |60", 2, "2: a>b 10/10 jain 0.500000 broken 0"},
    /* A pause longer than all that is kept. */
    {WEIR_SCHED_VTC, "a+9 b+9 | a!10 |1000000 b!7 |", 0, "2: b>a 7/17 jain 0.500000 broken 0"},
    {WEIR_SCHED_VTC, "a+9 b+9 | a!10 a!10 |1000000", 0, "2: a>b 0/10 jain 1.000000 broken 1"},
    /* drr-cost: one quantum more. */
    {WEIR_SCHED_DRR_COST, "xq40 a+9 b+9 | a!30 a!30 |", 0, "2: a>b 60/70 jain 0.500000 broken 0"},
    {WEIR_SCHED_DRR_COST, "xq40 a+9 b+9 | a!30 a!30 a!30 |", 0,
     "2: a>b 90/70 jain 0.500000 broken 1"},
    /* drr: requests, whatever their work; a weight is a turn. */
    {WEIR_SCHED_DRR, "a/3 b/1 a+9 b+9 | a!500 a!5 a!1 b!1 |", 0,
     "2: a>b 0/1 jain 1.000000 broken 0"},
    {WEIR_SCHED_DRR, "a/3 b/1 a+9 b+9 | a!500 a!5 a!1 |", 0, "2: a>b 1/1 jain 0.500000 broken 0"},
    {WEIR_SCHED_DRR, "a+9 b+9 | a!5 a!5 |", 0, "2: a>b 2/1 jain 0.500000 broken 1"},
    {WEIR_SCHED_DRR, "a+9 b+9 | a!5 a~900 b!7 |", 0, "2: a>b 0/1 jain 1.000000 broken 0"},
    /* fifo: measured, and no bound. */
    {WEIR_SCHED_FIFO, "a+9 b+9 | a!500 a!500 a!500 |", 0,
     "2: a>b 1500/none jain 0.500000 broken 0"},
};

static void gap__hand_made_windows__are_as_written(void **state)
{
    (void)state;
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct box box = box_new(24, rows[i].policy);
        box_play(&box, rows[i].history);
        const char *got = box_window(&box, rows[i].window);
        CHECK_MSG(strcmp(got, rows[i].want) == 0, "row %zu, %s: got \"%s\", want \"%s\"", i,
                  rows[i].history, got, rows[i].want);
        free(box.mem);
    }
}

/* ---- dispatchers that are wrong ---- */

static uint64_t box_broken(const struct box *box)
{
    struct weir_gap_view view;
    uint64_t broken = 0;
    weir_gap_view(box->g, 0, &view);
    for (uint32_t i = 0; i < WEIR_GAP_WINDOWS; i++)
        broken += view.windows[i].broken;
    return broken;
}

/* Turns by weight that begin at the first tenant on every call, the classroom's mistake. */
static void gap__order_that_restarts__is_convicted_in_its_first_slice(void **state)
{
    (void)state;
    static const enum weir_sched_policy policies[] = {WEIR_SCHED_DRR, WEIR_SCHED_DRR_COST,
                                                      WEIR_SCHED_VTC};
    for (size_t i = 0; i < WEIR_COUNT(policies); i++) {
        struct box box = box_new(3, policies[i]);
        box.quantum_uwork[0] = policies[i] == WEIR_SCHED_DRR_COST ? 100 * W : 0;
        box_play(&box, "a/4 a+40 b+10 c+10 | ");
        for (uint32_t served = 0; served < 20; served++)
            box_play(&box, "a!100");
        box_pass(&box, 1);
        CHECK(box_broken(&box) > 0);
        free(box.mem);
    }
}

/* Counters without the lift: who was idle is served alone until it has caught up. */
static void gap__credit_for_idle_time__is_convicted(void **state)
{
    (void)state;
    struct box box = box_new(2, WEIR_SCHED_VTC);
    box_play(&box, "b+99 | b!10 b!10 b!10 b!10 b!10 b!10 a+99 |");
    for (uint32_t served = 0; served < 2; served++)
        box_play(&box, "a!10 |");
    CHECK_INT(box_broken(&box), 0); /* so far it may have been behind by b's last item */
    for (uint32_t served = 0; served < 4; served++)
        box_play(&box, "a!10 a!10 a!10 |");
    CHECK(box_broken(&box) > 0);
    free(box.mem);
}

/* ---- limits ---- */

static struct weir_gap_view box_view(const struct box *box)
{
    struct weir_gap_view view;
    weir_gap_view(box->g, 0, &view);
    return view;
}

static void gap__more_tenants_than_are_compared__says_how_many_and_makes_up_for_it(void **state)
{
    (void)state;
    const uint32_t all = WEIR_GAP_TRACKED_MAX + 44;
    struct box box = box_new(all, WEIR_SCHED_VTC);
    for (uint32_t i = 0; i < all; i++) {
        weir_gap_enqueue(box.g, 0, i);
        weir_gap_enqueue(box.g, 0, i);
    }
    box_pass(&box, 2);
    CHECK_INT(box_view(&box).backlogged, all);
    CHECK_INT(box_view(&box).tracked, WEIR_GAP_TRACKED_MAX);
    CHECK_INT(box_view(&box).windows[0].compared, WEIR_GAP_TRACKED_MAX);
    /* A place that is free goes to the next that is heard of, by its dispatch or a new request. */
    weir_gap_remove(box.g, 0, 3);
    weir_gap_remove(box.g, 0, 3);
    weir_gap_take(box.g, 0, all - 1, W);
    CHECK_INT(box_view(&box).tracked, WEIR_GAP_TRACKED_MAX);
    weir_gap_remove(box.g, 0, 4);
    weir_gap_remove(box.g, 0, 4);
    weir_gap_enqueue(box.g, 0, all - 2);
    CHECK_INT(box_view(&box).tracked, WEIR_GAP_TRACKED_MAX);
    box_pass(&box, 2);
    CHECK_INT(box_view(&box).windows[0].compared, WEIR_GAP_TRACKED_MAX);
    CHECK_INT(box_broken(&box), 0);
    /* All leave: nothing is left. */
    for (uint32_t i = 0; i < all; i++)
        for (uint32_t item = i == 3 || i == 4 ? 0
                             : i == all - 1   ? 1
                             : i == all - 2   ? 3
                                              : 2;
             item > 0; item--)
            weir_gap_remove(box.g, 0, i);
    CHECK_INT(box_view(&box).backlogged, 0);
    CHECK_INT(box_view(&box).tracked, 0);
    box_pass(&box, 1);
    CHECK_INT(box_view(&box).windows[0].compared, 0);
    free(box.mem);
}

/* A drop of one that is not compared moves the bound of those that are. */
static void gap__refund_of_an_untracked_tenant__counts_in_the_bound(void **state)
{
    (void)state;
    const uint32_t all = WEIR_GAP_TRACKED_MAX + 1;
    struct box box = box_new(all, WEIR_SCHED_VTC);
    for (uint32_t i = 0; i < all; i++)
        for (uint32_t item = 0; item < 3; item++)
            weir_gap_enqueue(box.g, 0, i);
    weir_gap_take(box.g, 0, all - 1, 100 * W);
    box_pass(&box, 1);
    weir_gap_correct(box.g, 0, all - 1, -90 * (int64_t)W);
    weir_gap_take(box.g, 0, 0, 10 * W);
    box_pass(&box, 1);
    CHECK_INT(box_view(&box).windows[0].gap_uwork / W, 10);
    CHECK_INT(box_view(&box).windows[0].bound_uwork / W, 100);
    box_pass(&box, 3);
    CHECK_INT(box_view(&box).windows[0].bound_uwork / W, 190); /* and stays while it is so */
    free(box.mem);
}

static void gap__largest_amounts__stop_at_their_ends(void **state)
{
    (void)state;
    struct box box = box_new(2, WEIR_SCHED_VTC);
    box_play(&box, "a+5000 b+5000 |");
    for (uint32_t i = 0; i < 4000; i++) {
        weir_gap_take(box.g, 0, 0, UINT64_MAX);
        weir_gap_correct(box.g, 0, 0, INT64_MAX);
        weir_gap_take(box.g, 0, 1, UINT64_MAX);
        weir_gap_correct(box.g, 0, 1, INT64_MAX);
        if (i % 400 == 0)
            box_pass(&box, 1);
    }
    for (uint32_t i = 0; i < 4000; i++)
        weir_gap_correct(box.g, 0, 0, INT64_MIN);
    box_pass(&box, 1);
    CHECK_INT(box_broken(&box), 0);
    box.now_ns = UINT64_MAX - 1; /* the last slice there is */
    weir_gap_advance(box.g, box.quantum_uwork, box.now_ns);
    CHECK(weir_gap_due_ns(box.g) == UINT64_MAX);
    free(box.mem);
}

static void gap__clock_that_steps_back__ends_no_slice(void **state)
{
    (void)state;
    struct box box = box_new(2, WEIR_SCHED_VTC);
    box_play(&box, "a+9 b+9 |2");
    uint64_t ended_ns = box_view(&box).ended_ns;
    weir_gap_advance(box.g, box.quantum_uwork, box.now_ns - 5 * WEIR_NS_PER_S);
    weir_gap_advance(box.g, box.quantum_uwork, 0);
    CHECK_INT(box_view(&box).ended_ns, ended_ns);
    box_play(&box, "a!10 |");
    CHECK_STR(box_window(&box, 0), "2: a>b 10/10 jain 0.500000 broken 0");
    free(box.mem);
}

static void gap__forgotten_tenant__leaves_nothing_to_the_next(void **state)
{
    (void)state;
    struct box box = box_new(2, WEIR_SCHED_VTC);
    box_play(&box, "a/1000 a+1 a!900 |");
    weir_gap_tenant_forget(box.g, 0, 0);
    box_play(&box, "a+9 b+9 | b!10 |");
    CHECK_STR(box_window(&box, 0), "2: b>a 10/10 jain 0.500000 broken 0");
    free(box.mem);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gap__hand_made_windows__are_as_written),
        cmocka_unit_test(gap__order_that_restarts__is_convicted_in_its_first_slice),
        cmocka_unit_test(gap__credit_for_idle_time__is_convicted),
        cmocka_unit_test(gap__more_tenants_than_are_compared__says_how_many_and_makes_up_for_it),
        cmocka_unit_test(gap__refund_of_an_untracked_tenant__counts_in_the_bound),
        cmocka_unit_test(gap__largest_amounts__stop_at_their_ends),
        cmocka_unit_test(gap__clock_that_steps_back__ends_no_slice),
        cmocka_unit_test(gap__forgotten_tenant__leaves_nothing_to_the_next),
    };
    return cmocka_run_group_tests_name("gap", tests, NULL, NULL);
}
