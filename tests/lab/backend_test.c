#include "lab/backend.h"

#include <stdlib.h>

#include "support/check.h"

#define MS WEIR_NS_PER_MS

struct rig {
    struct weir_backend *b;
    struct weir_backend_event event; /* the last one */
};

static struct rig rig_start(const struct weir_backend_rules *rules, uint32_t jobs_max)
{
    struct rig rig = {0};
    size_t bytes = weir_backend_bytes(rules, jobs_max);
    void *mem = aligned_alloc(64, bytes);
    memset(mem, 0, bytes);
    rig.b = weir_backend_init(mem, bytes, rules, jobs_max);
    return rig;
}

static void rig_stop(struct rig *rig)
{
    free(rig->b);
}

/* Moves to the next thing that happens; false: nothing does. */
static bool rig_next(struct rig *rig)
{
    uint64_t due_ns;
    while ((due_ns = weir_backend_due_ns(rig->b)) != WEIR_NEVER_NS)
        if (weir_backend_next(rig->b, due_ns, &rig->event))
            return true;
    return false;
}

static void check_event(struct rig *rig, uint32_t job, enum weir_backend_event_kind kind,
                        uint64_t at_ns, int line)
{
    CHECK_MSG(rig_next(rig), "line %d", line);
    CHECK_MSG(rig->event.job == job && rig->event.kind == kind && rig->event.at_ns == at_ns,
              "line %d: job %u, kind %d, at %llu", line, rig->event.job, rig->event.kind,
              (unsigned long long)rig->event.at_ns);
}

#define CHECK_EVENT(rig, job, kind, at_ns)                                                         \
    check_event((rig), (job), WEIR_BACKEND_##kind, (at_ns), __LINE__)

static void prompt__a_tenth_of_a_step_a_token__is_rounded_up_to_whole_steps(void **state)
{
    (void)state;
    const struct weir_backend_rules rules = {
        .replicas = 1, .sequences = 4, .step_ns = 10, .prefill_permille = 100};
    static const struct {
        uint32_t prompt_tok, output_tok;
        uint64_t first_ns, done_ns;
    } rows[] = {
        {0, 1, 10, 10},  {0, 0, 10, 10},  {1, 1, 10, 10},        {10, 1, 10, 10},
        {11, 1, 20, 20}, {20, 3, 20, 40}, {900, 250, 900, 3390},
    };
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct rig rig = rig_start(&rules, 1);
        weir_backend_join(rig.b, 0, rows[i].prompt_tok, rows[i].output_tok, 0);
        CHECK_EVENT(&rig, 0, FIRST_TOKEN, rows[i].first_ns);
        CHECK_EVENT(&rig, 0, DONE, rows[i].done_ns);
        CHECK(!rig_next(&rig));
        rig_stop(&rig);
    }
}

static void join__in_the_middle_of_a_step__waits_for_the_next(void **state)
{
    (void)state;
    const struct weir_backend_rules rules = {
        .replicas = 1, .sequences = 4, .step_ns = 6, .step_sequence_ns = 2};
    struct rig rig = rig_start(&rules, 4);
    weir_backend_join(rig.b, 0, 0, 3, 100); /* steps of 8 */
    weir_backend_join(rig.b, 1, 0, 2, 103); /* joins at 108, steps of 10 */
    CHECK_EVENT(&rig, 0, FIRST_TOKEN, 108);
    weir_backend_join(rig.b, 2, 0, 1, 108); /* at the very start of a step: part of it, 12 */
    CHECK_EVENT(&rig, 1, FIRST_TOKEN, 120);
    CHECK_EVENT(&rig, 2, FIRST_TOKEN, 120);
    CHECK_EVENT(&rig, 2, DONE, 120);
    CHECK_EVENT(&rig, 1, DONE, 130);
    CHECK_EVENT(&rig, 0, DONE, 130);
    CHECK(!rig_next(&rig));
    struct weir_backend_view view;
    weir_backend_view(rig.b, 500, &view);
    CHECK_INT(view.steps, 3);
    CHECK_INT(view.busy_ns, 30);
    CHECK_INT(view.tokens_made, 6);
    rig_stop(&rig);
}

static void cancel__in_the_middle_of_a_step__shortens_those_after_it_only(void **state)
{
    (void)state;
    const struct weir_backend_rules rules = {
        .replicas = 1, .sequences = 2, .step_ns = 6, .step_sequence_ns = 2};
    struct rig rig = rig_start(&rules, 4);
    weir_backend_join(rig.b, 0, 0, 4, 0); /* two of them: steps of 10 */
    weir_backend_join(rig.b, 1, 0, 4, 0);
    weir_backend_join(rig.b, 2, 0, 4, 5); /* no place */
    CHECK(rig_next(&rig) && rig_next(&rig));
    weir_backend_cancel(rig.b, 0, 25); /* two steps made; 2 takes its place in the one from 30 */
    CHECK_INT(weir_backend_output_tok(rig.b, 0, 25), 2);
    CHECK_INT(weir_backend_output_tok(rig.b, 1, 29), 2);
    CHECK_INT(weir_backend_output_tok(rig.b, 1, 30), 3);
    weir_backend_cancel(rig.b, 2, 26); /* it has not begun: from 30 on steps of 8 */
    CHECK_EVENT(&rig, 1, DONE, 38);
    weir_backend_join(rig.b, 0, 0, 2, 40);
    weir_backend_cancel(rig.b, 0, 41); /* nobody is left, and the step at hand ends at 48 */
    weir_backend_join(rig.b, 0, 0, 1, 42);
    CHECK_EVENT(&rig, 0, FIRST_TOKEN, 56);
    CHECK_EVENT(&rig, 0, DONE, 56);
    weir_backend_cancel(rig.b, 0, 56);
    weir_backend_cancel(rig.b, 3, 56); /* out already: nothing */
    CHECK(!rig_next(&rig));
    rig_stop(&rig);
}

static void kv_pool__the_oldest_does_not_fit__nobody_overtakes_it(void **state)
{
    (void)state;
    const struct weir_backend_rules rules = {
        .replicas = 2, .sequences = 8, .step_ns = 10, .kv_tok = 100};
    struct rig rig = rig_start(&rules, 8);
    struct weir_backend_view view;
    weir_backend_join(rig.b, 0, 95, 5, 0); /* a whole pool */
    weir_backend_join(rig.b, 1, 50, 10, 0);
    weir_backend_join(rig.b, 2, 40, 1, 0);  /* one more than what is left */
    weir_backend_join(rig.b, 3, 1, 1, 0);   /* would fit */
    weir_backend_join(rig.b, 4, 100, 1, 0); /* never fits */
    weir_backend_view(rig.b, 0, &view);
    CHECK_INT(view.running, 2);
    CHECK_INT(view.waiting, 2);
    CHECK_INT(view.kv_now_tok, 160);
    CHECK_EVENT(&rig, 4, FAILED, 0);
    CHECK(rig_next(&rig) && rig_next(&rig));
    weir_backend_cancel(rig.b, 1, 20);
    weir_backend_view(rig.b, 20, &view);
    CHECK_INT(view.running, 3);
    CHECK_INT(view.waiting, 0);
    CHECK_INT(view.kv_now_tok, 143);
    rig_stop(&rig);
}

static void trouble__a_replica_fails__its_jobs_fail_and_others_take_what_comes(void **state)
{
    (void)state;
    static const struct weir_backend_trouble troubles[] = {
        {.replica = 0, .kind = WEIR_TROUBLE_FAIL, .from_ns = 15, .until_ns = 100},
        {.replica = WEIR_NONE, .kind = WEIR_TROUBLE_FAIL, .from_ns = 50, .until_ns = 60},
    };
    const struct weir_backend_rules rules = {.replicas = 2,
                                             .sequences = 1,
                                             .step_ns = 10,
                                             .troubles = troubles,
                                             .trouble_count = WEIR_COUNT(troubles)};
    struct rig rig = rig_start(&rules, 8);
    weir_backend_join(rig.b, 0, 0, 9, 0);
    weir_backend_join(rig.b, 1, 0, 2, 0);
    weir_backend_join(rig.b, 2, 0, 9, 0); /* waits */
    CHECK(rig_next(&rig) && rig_next(&rig));
    CHECK_EVENT(&rig, 0, FAILED, 15);
    CHECK_INT(weir_backend_output_tok(rig.b, 0, 15), 1);
    CHECK_EVENT(&rig, 1, DONE, 20);
    CHECK_EVENT(&rig, 2, FIRST_TOKEN, 30);
    weir_backend_join(rig.b, 3, 0, 1, 40); /* waits: one lives, and is full */
    CHECK_EVENT(&rig, 2, FAILED, 50);
    CHECK_INT(weir_backend_output_tok(rig.b, 2, 50), 3);
    CHECK_EVENT(&rig, 3, FAILED, 50);
    weir_backend_join(rig.b, 4, 0, 1, 55);
    CHECK_EVENT(&rig, 4, FAILED, 55);
    weir_backend_join(rig.b, 5, 0, 20, 60);
    weir_backend_join(rig.b, 6, 0, 1, 60); /* until the other replica comes back */
    CHECK_EVENT(&rig, 5, FIRST_TOKEN, 70);
    CHECK_EVENT(&rig, 6, FIRST_TOKEN, 110);
    rig_stop(&rig);
}

static void trouble__slow__holds_for_steps_that_begin_in_it(void **state)
{
    (void)state;
    static const struct weir_backend_trouble troubles[] = {
        {.replica = 0,
         .kind = WEIR_TROUBLE_SLOW,
         .from_ns = 15,
         .until_ns = 50,
         .slow_permille = 1550},
        {.replica = 0,
         .kind = WEIR_TROUBLE_SLOW,
         .from_ns = 30,
         .until_ns = 40,
         .slow_permille = 1200},
    };
    const struct weir_backend_rules rules = {.replicas = 1,
                                             .sequences = 1,
                                             .step_ns = 10,
                                             .troubles = troubles,
                                             .trouble_count = WEIR_COUNT(troubles)};
    struct rig rig = rig_start(&rules, 1);
    weir_backend_join(rig.b, 0, 0, 6, 0); /* ends at 10, 20, 36, 52, 62, 72 */
    CHECK_EVENT(&rig, 0, FIRST_TOKEN, 10);
    static const uint64_t ends[] = {10, 20, 36, 52, 62};
    for (uint32_t i = 0; i < WEIR_COUNT(ends); i++) {
        struct weir_backend_event none;
        CHECK(!weir_backend_next(rig.b, ends[i] - 1, &none));
        CHECK(i == 0 || weir_backend_output_tok(rig.b, 0, ends[i] - 1) == i);
        CHECK(!weir_backend_next(rig.b, ends[i], &none));
        CHECK_INT(weir_backend_output_tok(rig.b, 0, ends[i]), i + 1);
    }
    CHECK_EVENT(&rig, 0, DONE, 72);
    rig_stop(&rig);
}

static void skip_ahead__four_billion_tokens__are_two_events(void **state)
{
    (void)state;
    const struct weir_backend_rules rules = {
        .replicas = 1, .sequences = 64, .step_ns = 1, .prefill_permille = 1000000};
    struct rig rig = rig_start(&rules, 64);
    uint64_t first_ns = UINT32_MAX * UINT64_C(1000);
    for (uint32_t job = 0; job < 64; job++)
        weir_backend_join(rig.b, job, UINT32_MAX, UINT32_MAX, 0);
    for (uint32_t job = 0; job < 64; job++)
        CHECK(rig_next(&rig) && rig.event.at_ns == first_ns);
    CHECK_INT(weir_backend_output_tok(rig.b, 7, first_ns + 1000000), 1000001);
    for (uint32_t job = 0; job < 64; job++)
        CHECK(rig_next(&rig) && rig.event.at_ns == first_ns + UINT32_MAX - 1);
    struct weir_backend_view view;
    weir_backend_view(rig.b, rig.event.at_ns, &view);
    CHECK_INT(view.tokens_made, 64 * (uint64_t)UINT32_MAX);
    rig_stop(&rig);
}

static void overflow__times_at_their_ends__never_come_and_never_wrap(void **state)
{
    (void)state;
    static const struct weir_backend_trouble trouble = {.replica = 0,
                                                        .kind = WEIR_TROUBLE_SLOW,
                                                        .from_ns = 0,
                                                        .until_ns = UINT64_MAX,
                                                        .slow_permille = WEIR_BACKEND_PERMILLE_MAX};
    static const struct weir_backend_rules rows[] = {
        {.replicas = 1, .sequences = 8, .step_ns = UINT64_MAX},
        {.replicas = 1, .sequences = 8, .step_ns = 1, .step_sequence_ns = UINT64_MAX / 2},
        {.replicas = 1, .sequences = 8, .step_ns = UINT64_MAX / 8, .prefill_permille = 1000000},
        {.replicas = 1, .sequences = 8, .step_ns = 1, .latency_ns = UINT64_MAX},
        {.replicas = 1,
         .sequences = 8,
         .step_ns = UINT64_MAX / 1000,
         .troubles = &trouble,
         .trouble_count = 1},
    };
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct rig rig = rig_start(&rows[i], 8);
        for (uint32_t job = 0; job < 8; job++)
            weir_backend_join(rig.b, job, UINT32_MAX, UINT32_MAX, UINT64_MAX / 2 + job);
        struct weir_backend_event none;
        CHECK_MSG(!weir_backend_next(rig.b, UINT64_MAX - 1, &none), "row %zu", i);
        for (uint32_t job = 0; job < 8; job++) {
            CHECK_INT(weir_backend_output_tok(rig.b, job, UINT64_MAX - 1), 0);
            weir_backend_cancel(rig.b, job, UINT64_MAX - 1);
        }
        rig_stop(&rig);
    }
}

static void rules__impossible_ones__are_told(void **state)
{
    (void)state;
    static const struct weir_backend_trouble bad[] = {
        {.replica = 1, .kind = WEIR_TROUBLE_FAIL, .from_ns = 0, .until_ns = 1},
        {.replica = 0, .kind = WEIR_TROUBLE_FAIL, .from_ns = 1, .until_ns = 1},
        {.replica = 0, .kind = WEIR_TROUBLE_SLOW, .from_ns = 0, .until_ns = 1},
        {.replica = 0,
         .kind = WEIR_TROUBLE_SLOW,
         .from_ns = 0,
         .until_ns = 1,
         .slow_permille = WEIR_BACKEND_PERMILLE_MAX + 1},
    };
    const struct weir_backend_rules fine = {.replicas = 1, .sequences = 1, .step_ns = 1};
    CHECK(weir_backend_problem(&fine) == NULL);
    for (size_t i = 0; i < WEIR_COUNT(bad); i++) {
        struct weir_backend_rules rules = fine;
        rules.troubles = &bad[i];
        rules.trouble_count = 1;
        CHECK_MSG(weir_backend_problem(&rules) != NULL, "trouble %zu", i);
    }
    static const struct weir_backend_rules rows[] = {
        {.replicas = 0, .sequences = 1, .step_ns = 1},
        {.replicas = WEIR_BACKEND_REPLICAS_MAX + 1, .sequences = 1, .step_ns = 1},
        {.replicas = 1, .sequences = 0, .step_ns = 1},
        {.replicas = 1, .sequences = WEIR_BACKEND_SEQUENCES_MAX + 1, .step_ns = 1},
        {.replicas = 1, .sequences = 1},
        {.replicas = 1, .sequences = 1, .step_ns = 1, .prefill_permille = 1000001},
        {.replicas = 1, .sequences = 1, .step_ns = 1, .trouble_count = 65},
    };
    for (size_t i = 0; i < WEIR_COUNT(rows); i++)
        CHECK_MSG(weir_backend_problem(&rows[i]) != NULL, "row %zu", i);
}

static void queue__a_hundred_thousand_wait__all_are_served_in_order(void **state)
{
    (void)state;
    enum { JOBS = 100000 };
    const struct weir_backend_rules rules = {
        .replicas = 4, .sequences = 48, .step_ns = 6 * MS, .step_sequence_ns = MS / 4};
    struct rig rig = rig_start(&rules, JOBS);
    for (uint32_t job = 0; job < JOBS; job++)
        weir_backend_join(rig.b, job, 0, 100, 0);
    uint32_t ends = 0, last = 0;
    while (rig_next(&rig)) {
        ends += rig.event.kind == WEIR_BACKEND_DONE;
        if (rig.event.kind != WEIR_BACKEND_FIRST_TOKEN)
            continue;
        CHECK(rig.event.job + 4 * 48 > last); /* all alike: a batch at a time */
        last = rig.event.job > last ? rig.event.job : last;
    }
    CHECK_INT(ends, JOBS);
    rig_stop(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompt__a_tenth_of_a_step_a_token__is_rounded_up_to_whole_steps),
        cmocka_unit_test(join__in_the_middle_of_a_step__waits_for_the_next),
        cmocka_unit_test(cancel__in_the_middle_of_a_step__shortens_those_after_it_only),
        cmocka_unit_test(kv_pool__the_oldest_does_not_fit__nobody_overtakes_it),
        cmocka_unit_test(trouble__a_replica_fails__its_jobs_fail_and_others_take_what_comes),
        cmocka_unit_test(trouble__slow__holds_for_steps_that_begin_in_it),
        cmocka_unit_test(skip_ahead__four_billion_tokens__are_two_events),
        cmocka_unit_test(overflow__times_at_their_ends__never_come_and_never_wrap),
        cmocka_unit_test(rules__impossible_ones__are_told),
        cmocka_unit_test(queue__a_hundred_thousand_wait__all_are_served_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
