/* The default scenario: its arithmetic, and what it is there to show. */
#include "lab/lab_world.h"

#define SEEDS 12

/* What tenants ask of the backend in a second, in output tokens: prompt / 10 + output. */
static uint64_t work_per_s(const struct world_run *run, uint32_t tenant)
{
    uint64_t tenths = 0;
    for (size_t i = 0; i < run->count; i++)
        if (run->entries[i].tenant == tenant)
            tenths += run->entries[i].prompt_tok + 10 * run->entries[i].output_tok;
    return tenths / 10 / 120;
}

#define CHECK_WITHIN(got, want, percent)                                                           \
    do {                                                                                           \
        uint64_t within_got = (got), within_want = (want);                                         \
        CHECK_MSG(within_got * 100 >= within_want * (100 - (percent)) &&                           \
                      within_got * 100 <= within_want * (100 + (percent)),                         \
                  #got " is %llu, want %llu", (unsigned long long)within_got,                      \
                  (unsigned long long)within_want);                                                \
    } while (0)

static void offered_load__each_tenant__as_worked_out(void **state)
{
    (void)state;
    struct weir_lab_store store;
    struct weir_lab_controls c = weir_lab_controls_default();
    uint64_t apps = 0, batch = 0, agent = 0, offered[6] = {0};
    c.has_agent = true;
    weir_lab_default(&store, &c);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct world_run run;
        world_run(&run, &store.scenario, seed);
        for (uint32_t i = 0; i < 4; i++)
            apps += work_per_s(&run, i);
        batch += work_per_s(&run, 4);
        agent += work_per_s(&run, 5);
        for (uint32_t i = 0; i < 6; i++)
            offered[i] += run.r->tenants[i].offered;
        world_free(&run);
    }
    CHECK_WITHIN(apps / SEEDS, 2040, 4);  /* 4 x 1.5 x (90 + 250) */
    CHECK_WITHIN(batch / SEEDS, 1600, 6); /* 2 x (300 + 500) */
    CHECK_WITHIN(agent / SEEDS, 5000, 6); /* 2 x (1,500 + 1,000) */
    for (uint32_t i = 0; i < 4; i++)
        CHECK_WITHIN(offered[i], SEEDS * 180, 7);
    CHECK_WITHIN(offered[4], SEEDS * 240, 7);
    CHECK_WITHIN(offered[5], SEEDS * 240, 7);
}

static void burst__apps__two_and_a_half_times_for_thirty_seconds(void **state)
{
    (void)state;
    struct weir_lab_store store;
    struct weir_lab_controls c = weir_lab_controls_default();
    uint64_t inside = 0, outside = 0;
    c.has_burst = true;
    weir_lab_default(&store, &c);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct world_run run;
        world_run(&run, &store.scenario, seed);
        for (uint32_t i = 0; i < 4; i++)
            for (uint32_t s = 0; s < 120; s++)
                *(s >= 40 && s < 70 ? &inside : &outside) += run.r->tenants[i].bins[s].offered;
        world_free(&run);
    }
    CHECK_WITHIN(inside, SEEDS * 4 * 30 * 15 / 4, 5);
    CHECK_WITHIN(outside, SEEDS * 4 * 90 * 3 / 2, 5);
}

/* 48 sequences step in 18 ms: 2,667 tokens a second on each of four replicas. */
static void saturated__backend_makes_10667_tokens_a_second(void **state)
{
    (void)state;
    struct weir_lab_store store;
    struct weir_lab_controls c = weir_lab_controls_default();
    struct world_run run;
    weir_lab_default(&store, &c);
    for (uint32_t i = 0; i < 5; i++) {
        store.tenants[i].arrivals = WEIR_LAB_CLOSED;
        store.tenants[i].users = 80;
        /* A prompt of one unit, which is the first token's step. */
        store.tenants[i].prompt = (struct weir_length){.kind = WEIR_LENGTH_FIXED, .mean = 10};
    }
    world_run(&run, &store.scenario, 1);
    uint64_t made = 0;
    for (uint32_t s = 10; s < 110; s++)
        made += run.r->upstreams[0].bins[s].tokens_made;
    CHECK_WITHIN(made, 1066667, 1);
    CHECK_INT(run.r->upstreams[0].in_flight_max, 192);
    world_free(&run);
}

/* One sequence alone steps in 6.25 ms: 160 tokens a second. */
static void alone__160_tokens_a_second(void **state)
{
    (void)state;
    struct weir_lab_store store;
    struct weir_lab_controls c = weir_lab_controls_default();
    struct world_run run;
    weir_lab_default(&store, &c);
    for (uint32_t i = 0; i < 5; i++)
        store.tenants[i].rate_micro_per_s = i == 0 ? 20000 : 0; /* one in 50 s */
    store.tenants[0].output = (struct weir_length){.kind = WEIR_LENGTH_FIXED, .mean = 160};
    store.tenants[0].prompt = (struct weir_length){.kind = WEIR_LENGTH_FIXED, .mean = 1000};
    store.tenants[0].output_limit_tok = 0;
    world_run(&run, &store.scenario, 3);
    CHECK(run.count > 0);
    for (size_t i = 0; i < run.count; i++) {
        CHECK_INT(run.entries[i].first_byte_ns, 100 * 6250 * WEIR_NS_PER_US);
        CHECK_INT(run.entries[i].latency_ns, (100 + 159) * 6250 * WEIR_NS_PER_US);
    }
    world_free(&run);
}

static uint64_t refused_permille(const struct world_run *run, uint32_t tenant)
{
    return run->r->tenants[tenant].refused * 1000 / run->r->tenants[tenant].offered;
}

/* The point of it all: counted in requests the agent looks like any app, counted in tokens it does
 * not. 3,000 tokens a second are two requests. */
static void request_limit__agent_looks_like_an_app__token_limit_tells_them_apart(void **state)
{
    (void)state;
    struct weir_lab_store store;
    struct weir_lab_controls c = weir_lab_controls_default();
    struct world_run run;
    c.has_agent = true;
    c.limit = WEIR_LAB_LIMIT_REQUESTS;
    weir_lab_default(&store, &c);
    world_run(&run, &store.scenario, 1);
    for (uint32_t i = 0; i < 4; i++)
        CHECK_INT(refused_permille(&run, i), 0);
    CHECK(refused_permille(&run, 5) < 100);
    world_free(&run);
    c.limit = WEIR_LAB_LIMIT_TOKENS;
    weir_lab_default(&store, &c);
    world_run(&run, &store.scenario, 1);
    for (uint32_t i = 0; i < 4; i++)
        CHECK(refused_permille(&run, i) < 20);
    CHECK_MSG(refused_permille(&run, 5) > 800, "%llu",
              (unsigned long long)refused_permille(&run, 5));
    world_free(&run);
}

static uint64_t apps_good_permille(const struct world_run *run)
{
    uint64_t good = 0, offered = 0;
    for (uint32_t i = 0; i < 4; i++) {
        good += run->r->tenants[i].good;
        offered += run->r->tenants[i].offered;
    }
    return good * 1000 / offered;
}

static void overload__fifo_breaks_the_goal__vtc_keeps_it(void **state)
{
    (void)state;
    struct weir_lab_store store;
    struct weir_lab_controls c = weir_lab_controls_default();
    uint64_t good[2];
    c.has_agent = c.has_burst = true;
    c.batch_micro_per_s = 4000000;
    for (uint32_t i = 0; i < 2; i++) {
        struct world_run run;
        c.policy = i ? WEIR_SCHED_VTC : WEIR_SCHED_FIFO;
        weir_lab_default(&store, &c);
        world_run(&run, &store.scenario, 1);
        good[i] = apps_good_permille(&run);
        world_free(&run);
    }
    CHECK_MSG(good[0] < 700 && good[1] > 980, "fifo %llu, vtc %llu", (unsigned long long)good[0],
              (unsigned long long)good[1]);
}

static void estimates__of_prose__learned_as_the_gateway_does(void **state)
{
    (void)state;
    struct weir_lab_store store;
    struct weir_lab_controls c = weir_lab_controls_default();
    struct world_run run;
    struct weir_trace_entry *last = NULL;
    uint64_t held_tok = 0, used_tok = 0, under = 0, late = 0;
    weir_lab_default(&store, &c);
    store.scenario.traffic_ns = 2000 * WEIR_NS_PER_S;
    world_run(&run, &store.scenario, 1);
    for (size_t i = run.count / 10; i < run.count; i++) {
        last = &run.entries[i];
        uint64_t estimate_tok = last->estimate_tok - last->output_limit_tok;
        held_tok += estimate_tok;
        used_tok += last->prompt_tok;
        under += estimate_tok < last->prompt_tok;
        late++;
    }
    CHECK_MSG(under * 100 <= late * 2, "%llu of %llu too low", (unsigned long long)under,
              (unsigned long long)late);
    CHECK_WITHIN(held_tok, used_tok * 114 / 100, 5); /* prose: docs/estimator.md */
    world_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(offered_load__each_tenant__as_worked_out),
        cmocka_unit_test(burst__apps__two_and_a_half_times_for_thirty_seconds),
        cmocka_unit_test(saturated__backend_makes_10667_tokens_a_second),
        cmocka_unit_test(alone__160_tokens_a_second),
        cmocka_unit_test(request_limit__agent_looks_like_an_app__token_limit_tells_them_apart),
        cmocka_unit_test(overload__fifo_breaks_the_goal__vtc_keeps_it),
        cmocka_unit_test(estimates__of_prose__learned_as_the_gateway_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
