/* What clients make of a refusal and of waiting: retries, hints, timeouts, giving up. */
#include "lab/lab_world.h"

static void retries__a_limit_refuses__clients_amplify(void **state)
{
    (void)state;
    struct world w;
    struct world_run run;
    uint64_t tries[2], finished[2];
    for (uint32_t variant = 0; variant < 2; variant++) {
        world_plain(&w, 1, 100);
        w.tenants[0].rate_micro_per_s = 10000000;
        w.tenants[0].rules.requests =
            (struct weir_rate){.rate_micro_per_s = 2000000, .capacity = 2};
        w.tenants[0].rules.refuse_over = true;
        if (variant)
            w.tenants[0].client = (struct weir_lab_client){
                .retries_max = 2, .backoff_ns = 500 * WEIR_NS_PER_MS}; /* ignores hints */
        world_run(&run, &w.s, 1);
        CHECK_INT(run.r->tenants[0].refusals[WEIR_REFUSAL_RATE_LIMIT] + run.r->tenants[0].finished,
                  run.r->tenants[0].tries);
        tries[variant] = run.r->tenants[0].tries;
        finished[variant] = run.r->tenants[0].finished;
        world_free(&run);
    }
    /* Of N tries a second two pass, so N = 10 (1 + q + q^2) with q = 1 - 2 / N: 27.8, and no more
     * answers for it. */
    CHECK_MSG(tries[1] * 10 > tries[0] * 26 && tries[1] * 10 < tries[0] * 29, "%llu for %llu",
              (unsigned long long)tries[1], (unsigned long long)tries[0]);
    CHECK(finished[1] <= finished[0] + 5);
}

static void retries__never_more_than_told_and_backed_off(void **state)
{
    (void)state;
    struct world w;
    struct world_run run;
    world_plain(&w, 1, 1);
    struct weir_backend_trouble down = {
        .replica = WEIR_NONE, .kind = WEIR_TROUBLE_FAIL, .until_ns = WEIR_LAB_TIME_MAX_NS};
    w.upstreams[0].backend.troubles = &down;
    w.upstreams[0].backend.trouble_count = 1;
    w.upstreams[0].rules.breaker.failures_in_row = 0;
    w.upstreams[0].rules.breaker.failure_percent = 0;
    w.tenants[0].client = world_sdk();
    w.tenants[0].client.retries_max = 4;
    world_run(&run, &w.s, 1);
    const struct weir_lab_tenant_results *t = &run.r->tenants[0];
    CHECK_INT(t->failed, t->offered);
    CHECK_INT(t->tries, 5 * t->offered);
    for (size_t i = 0; i < run.count; i++) {
        /* 0.5, 1, 2 and 4 s, each times 0.75 .. 1. */
        CHECK(run.entries[i].latency_ns >= 5625 * WEIR_NS_PER_MS);
        CHECK(run.entries[i].latency_ns <= 7500 * WEIR_NS_PER_MS);
        CHECK_INT(run.entries[i].status, 503);
        CHECK_INT(run.entries[i].outcome, WEIR_TRACE_FAILED);
    }
    world_free(&run);
}

static void hint__obeyed__the_first_retry_succeeds(void **state)
{
    (void)state;
    struct world w;
    struct world_run run;
    world_plain(&w, 1, 10);
    w.tenants[0].arrivals = WEIR_LAB_EVEN;
    w.tenants[0].rate_micro_per_s = 100000;
    w.tenants[0].rules.requests = (struct weir_rate){.rate_micro_per_s = 90000, .capacity = 1};
    w.tenants[0].rules.refuse_over = true;
    w.tenants[0].client = world_sdk();
    world_run(&run, &w.s, 1);
    const struct weir_lab_tenant_results *t = &run.r->tenants[0];
    CHECK_INT(t->finished, t->offered);
    CHECK(t->refusals[WEIR_REFUSAL_RATE_LIMIT] > 5);
    CHECK_INT(t->tries, t->offered + t->refusals[WEIR_REFUSAL_RATE_LIMIT]);
    CHECK(t->refusals[WEIR_REFUSAL_RATE_LIMIT] <= t->offered); /* once each at most */
    world_free(&run);
}

static void no_use_to_repeat__an_sdk_does_not(void **state)
{
    (void)state;
    struct world w;
    struct world_run run;
    world_plain(&w, 1, 10);
    w.tenants[0].rules.tokens =
        (struct weir_rate){.rate_micro_per_s = 1000000, .capacity = 50}; /* 413 */
    w.tenants[0].rules.refuse_over = true;
    w.tenants[0].client = world_sdk();
    world_run(&run, &w.s, 1);
    CHECK_INT(run.r->tenants[0].refusals[WEIR_REFUSAL_TOO_LARGE], run.r->tenants[0].offered);
    CHECK_INT(run.r->tenants[0].tries, run.r->tenants[0].offered);
    world_free(&run);
}

static void hint_above_a_minute__an_sdk_does_not_repeat(void **state)
{
    (void)state;
    struct world w;
    struct world_run run;
    world_plain(&w, 1, 10);
    w.tenants[0].rules.requests = (struct weir_rate){.rate_micro_per_s = 5000, .capacity = 1};
    w.tenants[0].rules.refuse_over = true; /* one in 200 s */
    w.tenants[0].client = world_sdk();
    w.s.traffic_ns = 60 * WEIR_NS_PER_S;
    world_run(&run, &w.s, 1);
    CHECK_INT(run.r->tenants[0].finished, 1);
    CHECK(run.r->tenants[0].refusals[WEIR_REFUSAL_RATE_LIMIT] > 30);
    CHECK_INT(run.r->tenants[0].tries, run.r->tenants[0].offered);
    world_free(&run);
}

static void timeout_told__refused_in_the_queue_before_it(void **state)
{
    (void)state;
    struct world w;
    struct world_run run;
    world_plain(&w, 1, 1);
    w.tenants[0].rate_micro_per_s = 5000000;
    w.tenants[0].client.gives_up_ns = 5700 * WEIR_NS_PER_MS; /* "5" in the head */
    w.tenants[0].client.tells_timeout = true;
    world_run(&run, &w.s, 1);
    CHECK_INT(run.r->tenants[0].gave_up, 0);
    CHECK(run.r->tenants[0].refusals[WEIR_REFUSAL_QUEUE_TIMEOUT] > 100);
    CHECK(run.r->tenants[0].queue_wait_ns.max <= 4500 * WEIR_NS_PER_MS);
    CHECK(run.r->tenants[0].queue_wait_ns.max > 4000 * WEIR_NS_PER_MS);
    world_free(&run);
}

static void gives_up__in_the_queue_and_at_the_backend__hangs_up_in_time(void **state)
{
    (void)state;
    struct world w;
    struct world_run run;
    world_plain(&w, 1, 2);
    w.tenants[0].rate_micro_per_s = 8000000;
    w.tenants[0].is_stream = false;
    w.tenants[0].output = world_uniform(50, 200); /* 0.5 .. 2 s */
    w.tenants[0].client.gives_up_ns = 1500 * WEIR_NS_PER_MS;
    world_run(&run, &w.s, 1);
    uint32_t in_queue = 0, at_backend = 0;
    for (size_t i = 0; i < run.count; i++) {
        const struct weir_trace_entry *e = &run.entries[i];
        CHECK(e->latency_ns <= 1500 * WEIR_NS_PER_MS);
        if (e->outcome != WEIR_TRACE_GONE)
            continue;
        CHECK_INT(e->latency_ns, 1500 * WEIR_NS_PER_MS);
        in_queue += e->output_tok == 0;
        at_backend += e->output_tok > 0;
    }
    /* FIFO: who reaches the backend has little patience left. */
    CHECK_MSG(in_queue > 0 && at_backend > 20, "%u, %u", in_queue, at_backend);
    CHECK(run.r->tenants[0].lost_tok > 0);
    CHECK(run.r->tenants[0].charged_tok >
          run.r->tenants[0].prompt_tok + run.r->tenants[0].output_tok);
    world_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(retries__a_limit_refuses__clients_amplify),
        cmocka_unit_test(retries__never_more_than_told_and_backed_off),
        cmocka_unit_test(hint__obeyed__the_first_retry_succeeds),
        cmocka_unit_test(no_use_to_repeat__an_sdk_does_not),
        cmocka_unit_test(hint_above_a_minute__an_sdk_does_not_repeat),
        cmocka_unit_test(timeout_told__refused_in_the_queue_before_it),
        cmocka_unit_test(gives_up__in_the_queue_and_at_the_backend__hangs_up_in_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
