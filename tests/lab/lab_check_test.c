/* What cannot be run is refused, with what is wrong and where; and what is only odd can be run. */
#include "lab/lab_world.h"

static struct weir_trace_entry rows[3];
static uint32_t names[2];

/* A scenario with everything in it that can be wrong. */
static void whole_world(struct world *w)
{
    world_plain(w, 3, 4);
    w->upstreams[1] = w->upstreams[0];
    w->upstreams[1].name[1] = '1';
    w->upstreams[0].rules.fallback = 1;
    w->pools[1] = w->pools[0];
    w->pools[1].upstreams[0] = 1;
    w->s.upstream_count = w->s.pool_count = 2;
    w->scopes[0] = (struct weir_lab_scope){
        .name = "org", .parent = WEIR_NONE, .granted_tok = 1000, .period_ns = WEIR_NS_PER_S};
    w->scopes[1] = (struct weir_lab_scope){.name = "team",
                                           .parent = 0,
                                           .granted_tok = 500,
                                           .on_exhausted = WEIR_EXHAUSTED_FALLBACK,
                                           .fallback_pool = 1,
                                           .fallback_scope = WEIR_NONE};
    w->s.scope_count = 2;
    w->tenants[1].arrivals = WEIR_LAB_TRACE;
    w->tenants[2].arrivals = WEIR_LAB_CLOSED;
    w->tenants[2].users = 3;
    names[0] = 1, names[1] = WEIR_NONE;
    for (uint32_t i = 0; i < 3; i++)
        rows[i] = (struct weir_trace_entry){
            .arrival_ns = i * WEIR_NS_PER_S, .tenant = i % 2, .prompt_tok = 10, .output_tok = 10};
    w->s.trace = rows;
    w->s.trace_count = 3;
    w->s.trace_tenants = names;
    w->s.trace_tenant_count = 2;
}

/* Each spoils a whole world in one way: where it must be found, and a word of what is said. */
#define SPOILS(X)                                                                                  \
    X(OF_SCENARIO, 0, "traffic", w->s.traffic_ns = 0)                                              \
    X(OF_SCENARIO, 0, "traffic", w->s.traffic_ns = WEIR_LAB_TIME_MAX_NS + 1)                       \
    X(OF_SCENARIO, 0, "run", w->s.run_ns = WEIR_LAB_TIME_MAX_NS + 1)                               \
    X(OF_SCENARIO, 0, "queue_wait", w->s.queue_wait_max_ns = 0)                                    \
    X(OF_SCENARIO, 0, "queue_wait", w->s.queue_wait_max_ns = UINT64_MAX)                           \
    X(OF_SCENARIO, 0, "first_byte", w->s.first_byte_max_ns = UINT64_MAX)                           \
    X(OF_SCENARIO, 0, "first_byte_whole", w->s.first_byte_whole_max_ns = UINT64_MAX)               \
    X(OF_SCENARIO, 0, "total", w->s.total_max_ns = 0)                                              \
    X(OF_SCENARIO, 0, "total", w->s.total_max_ns = UINT64_MAX)                                     \
    X(OF_SCENARIO, 0, "ledger_delay", w->s.ledger_delay_ns = UINT64_MAX)                           \
    X(OF_SCENARIO, 0, "bin", w->s.bin_ns = 0)                                                      \
    X(OF_SCENARIO, 0, "bin", w->s.bin_ns = WEIR_NS_PER_US)                                         \
    X(OF_SCENARIO, 0, "bin", w->s.bin_ns = UINT64_MAX)                                             \
    X(OF_SCENARIO, 0, "waiters", w->s.waiters_max = 0)                                             \
    X(OF_SCENARIO, 0, "waiters", w->s.waiters_max = UINT32_MAX)                                    \
    X(OF_SCENARIO, 0, "requests", w->s.requests_max = UINT32_MAX)                                  \
    X(OF_SCENARIO, 0, "tenants", w->s.tenant_count = 0)                                            \
    X(OF_SCENARIO, 0, "tenants", w->s.tenant_count = 65)                                           \
    X(OF_SCENARIO, 0, "upstreams", w->s.upstream_count = 0)                                        \
    X(OF_SCENARIO, 0, "upstreams", w->s.upstream_count = 17)                                       \
    X(OF_SCENARIO, 0, "pools", w->s.pool_count = 0)                                                \
    X(OF_SCENARIO, 0, "pools", w->s.pool_count = 17)                                               \
    X(OF_SCENARIO, 0, "scopes", w->s.scope_count = 65)                                             \
    X(OF_SCENARIO, 0, "lanes", w->s.lanes.lane_count = 0)                                          \
    X(OF_SCENARIO, 0, "lanes", w->s.lanes.lane_count = 9)                                          \
    X(OF_SCENARIO, 0, "lanes.floor", w->s.lanes.floor_percent[0] = 101)                            \
    X(OF_UPSTREAM, 1, "name", w->upstreams[1].name[0] = 0)                                         \
    X(OF_UPSTREAM, 1, "name", memset(w->upstreams[1].name, 'x', WEIR_LAB_NAME_BYTES))              \
    X(OF_UPSTREAM, 1, "name", w->upstreams[1].name[1] = '0')                                       \
    X(OF_UPSTREAM, 1, "max_in_flight", w->upstreams[1].rules.permits = 0)                          \
    X(OF_UPSTREAM, 1, "max_in_flight", w->upstreams[1].rules.permits = 65537)                      \
    X(OF_UPSTREAM, 0, "adaptive", w->upstreams[0].rules.adapt.min = 5)                             \
    X(OF_UPSTREAM, 0, "limits.requests", w->upstreams[0].rules.requests.rate_micro_per_s = 1)      \
    X(OF_UPSTREAM, 0, "limits.tokens", w->upstreams[0].rules.tokens.rate_micro_per_s = 1)          \
    X(OF_UPSTREAM, 0, "limits.input", w->upstreams[0].rules.input.rate_micro_per_s = 1)            \
    X(OF_UPSTREAM, 0, "limits.output",                                                             \
      (w->upstreams[0].rules.output.rate_micro_per_s = 1,                                          \
       w->upstreams[0].rules.output.capacity = UINT64_MAX))                                        \
    X(OF_UPSTREAM, 0, "fallback", w->upstreams[0].rules.fallback = 2)                              \
    X(OF_UPSTREAM, 0, "fallback", w->upstreams[1].rules.fallback = 0)                              \
    X(OF_UPSTREAM, 0, "fallback", w->upstreams[1].rules.fallback = 1)                              \
    X(OF_UPSTREAM, 0, "breaker.trials", w->upstreams[0].rules.breaker.trials = 0)                  \
    X(OF_UPSTREAM, 0, "breaker.window", w->upstreams[0].rules.breaker.window_s = 0)                \
    X(OF_UPSTREAM, 0, "breaker.window", w->upstreams[0].rules.breaker.window_s = 61)               \
    X(OF_UPSTREAM, 0, "breaker.failure_percent",                                                   \
      w->upstreams[0].rules.breaker.failure_percent = 101)                                         \
    X(OF_UPSTREAM, 0, "breaker.cooldown", w->upstreams[0].rules.breaker.cooldown_ns = 0)           \
    X(OF_UPSTREAM, 0, "breaker.cooldown", w->upstreams[0].rules.breaker.cooldown_max_ns = 1)       \
    X(OF_UPSTREAM, 0, "backend", w->upstreams[0].backend.replicas = 0)                             \
    X(OF_UPSTREAM, 0, "backend", w->upstreams[0].backend.step_ns = 0)                              \
    X(OF_UPSTREAM, 0, "backend", w->upstreams[0].backend.step_ns = UINT64_MAX)                     \
    X(OF_UPSTREAM, 1, "backend", w->upstreams[1].backend.step_sequence_ns = UINT64_MAX)            \
    X(OF_UPSTREAM, 0, "backend", w->upstreams[0].backend.latency_ns = WEIR_LAB_TIME_MAX_NS + 1)    \
    X(OF_UPSTREAM, 1, "pool", w->s.pool_count = 1)                                                 \
    X(OF_POOL, 1, "upstreams", w->pools[1].upstream_count = 0)                                     \
    X(OF_POOL, 1, "upstreams", w->pools[1].upstream_count = 17)                                    \
    X(OF_POOL, 1, "upstreams", w->pools[1].upstreams[0] = 0)                                       \
    X(OF_POOL, 1, "upstreams", w->pools[1].upstreams[0] = 7)                                       \
    X(OF_POOL, 0, "work", w->pools[0].work_input = w->pools[0].work_output = 0)                    \
    X(OF_POOL, 0, "work", w->pools[0].work_output = 1001)                                          \
    X(OF_POOL, 0, "scheduler", w->pools[0].policy = (enum weir_sched_policy)9)                     \
    X(OF_SCOPE, 1, "name", w->scopes[1].name[0] = 0)                                               \
    X(OF_SCOPE, 1, "name", memcpy(w->scopes[1].name, "org", 4))                                    \
    X(OF_SCOPE, 1, "parent", w->scopes[1].parent = 1)                                              \
    X(OF_SCOPE, 0, "parent", w->scopes[0].parent = 1)                                              \
    X(OF_SCOPE, 0, "granted", w->scopes[0].granted_tok = UINT64_C(1) << 53)                        \
    X(OF_SCOPE, 0, "period", w->scopes[0].period_ns = 1)                                           \
    X(OF_SCOPE, 0, "period", w->scopes[0].period_ns = UINT64_MAX)                                  \
    X(OF_SCOPE, 0, "on_exhausted", w->scopes[0].on_exhausted = (enum weir_exhausted_policy)3)      \
    X(OF_SCOPE, 1, "fallback", w->scopes[1].fallback_pool = 2)                                     \
    X(OF_SCOPE, 1, "fallback", w->scopes[1].fallback_scope = 2)                                    \
    X(OF_TENANT, 1, "name", w->tenants[1].name[0] = 0)                                             \
    X(OF_TENANT, 1, "name", w->tenants[1].name[1] = '0')                                           \
    X(OF_TENANT, 0, "weight", w->tenants[0].rules.weight = 0)                                      \
    X(OF_TENANT, 0, "weight", w->tenants[0].rules.weight = 1001)                                   \
    X(OF_TENANT, 0, "lane", w->tenants[0].rules.lane = 1)                                          \
    X(OF_TENANT, 0, "waiters", w->tenants[0].rules.waiters_max = 0)                                \
    X(OF_TENANT, 0, "limits.requests", w->tenants[0].rules.requests.rate_micro_per_s = 5)          \
    X(OF_TENANT, 0, "limits.tokens", w->tenants[0].rules.tokens.rate_micro_per_s = 5)              \
    X(OF_TENANT, 0, "scope", w->tenants[0].rules.scope = 2)                                        \
    X(OF_TENANT, 0, "pool", w->tenants[0].pool = 2)                                                \
    X(OF_TENANT, 0, "output_limit", w->tenants[0].output_limit_tok = UINT64_MAX)                   \
    X(OF_TENANT, 0, "goal", w->tenants[0].goal_wait_ns = UINT64_MAX)                               \
    X(OF_TENANT, 0, "client.retries", w->tenants[0].client.retries_max = 11)                       \
    X(OF_TENANT, 0, "client.backoff", w->tenants[0].client.retries_max = 1)                        \
    X(OF_TENANT, 0, "client", w->tenants[0].client.gives_up_ns = UINT64_MAX)                       \
    X(OF_TENANT, 0, "arrivals", w->tenants[0].arrivals = (enum weir_lab_arrivals)4)                \
    X(OF_TENANT, 0, "rate", w->tenants[0].rate_micro_per_s = UINT64_MAX)                           \
    X(OF_TENANT, 0, "rate",                                                                        \
      (w->tenants[0].rate_micro_per_s = WEIR_LAB_RATE_MAX_MICRO,                                   \
       w->s.traffic_ns = 1001 * WEIR_NS_PER_S))                                                    \
    X(OF_TENANT, 2, "users", w->tenants[2].users = 0)                                              \
    X(OF_TENANT, 2, "users", w->tenants[2].users = 4097)                                           \
    X(OF_TENANT, 2, "think", w->tenants[2].think_ns = UINT64_MAX)                                  \
    X(OF_TENANT, 0, "on", w->tenants[0].off_ns = WEIR_NS_PER_S)                                    \
    X(OF_TENANT, 0, "on", w->tenants[0].on_ns = w->tenants[0].off_ns = 100)                        \
    X(OF_TENANT, 0, "on", w->tenants[0].on_ns = w->tenants[0].off_ns = UINT64_MAX)                 \
    X(OF_TENANT, 0, "burst", w->tenants[0].burst_from_ns = 5)                                      \
    X(OF_TENANT, 0, "burst", w->tenants[0].burst_until_ns = UINT64_MAX)                            \
    X(OF_TENANT, 0, "burst", w->tenants[0].burst_permille = 1000001)                               \
    X(OF_TENANT, 0, "from", w->tenants[0].from_ns = UINT64_MAX)                                    \
    X(OF_TENANT, 0, "until", w->tenants[0].from_ns = w->tenants[0].until_ns = 9)                   \
    X(OF_TENANT, 1, "arrivals", w->s.trace_count = 0)                                              \
    X(OF_TENANT, 0, "prompt", w->tenants[0].prompt = world_uniform(9, 8))                          \
    X(OF_TENANT, 0, "prompt", w->tenants[0].prompt = world_fixed(2000000000))                      \
    X(OF_TENANT, 0, "output", w->tenants[0].output = world_uniform(9, 8))                          \
    X(OF_TENANT, 0, "output", w->tenants[0].output = world_fixed(2000000000))                      \
    X(OF_TENANT, 0, "prompt",                                                                      \
      (w->tenants[0].growth_turns = 3, w->tenants[0].prompt = world_uniform(9, 8)))                \
    X(OF_TRACE, 0, "tenant", names[0] = 3)                                                         \
    X(OF_TRACE, 2, "tenant", rows[2].tenant = 2)                                                   \
    X(OF_TRACE, 2, "arrival", rows[2].arrival_ns = UINT64_MAX)                                     \
    X(OF_TRACE, 2, "arrival", rows[2].arrival_ns = 0)                                              \
    X(OF_TRACE, 1, "tokens", rows[1].output_tok = UINT32_MAX)

#define SPOIL_COUNT(part, index, field, spoil) +1
#define SPOIL_CASE(part, index, field, spoil)                                                      \
    if (n-- == 0) {                                                                                \
        spoil;                                                                                     \
        return (struct weir_lab_problem){"", field, WEIR_LAB_##part, index};                       \
    }

static struct weir_lab_problem spoil_one(struct world *w, uint32_t n)
{
    SPOILS(SPOIL_CASE)
    return (struct weir_lab_problem){0};
}

static void impossible__each_kind__is_refused_where_it_is(void **state)
{
    (void)state;
    uint32_t count = 0 SPOILS(SPOIL_COUNT);
    for (uint32_t n = 0; n < count; n++) {
        static struct world w;
        struct weir_lab_problem want, got;
        whole_world(&w);
        CHECK(weir_lab_check(&w.s, &got));
        CHECK(got.text == NULL);
        want = spoil_one(&w, n);
        CHECK_MSG(!weir_lab_check(&w.s, &got), "case %u (%s) passes", n, want.field);
        CHECK_MSG(got.part == want.part && got.index == want.index &&
                      strcmp(got.field, want.field) == 0,
                  "case %u: %u %u %s instead of %u %u %s", n, got.part, got.index, got.field,
                  want.part, want.index, want.field);
        CHECK(strlen(got.text) > 10);
    }
}

static void odd_but_possible__runs(void **state)
{
    (void)state;
    struct world w;
    struct world_run run;
    whole_world(&w);
    w.tenants[0].rate_micro_per_s = 0; /* sends nothing */
    w.tenants[2].until_ns = 1;         /* hardly anything */
    w.scopes[0].granted_tok = 0;
    w.tenants[1].rules.scope = 1; /* nothing to spend, of which it falls back to the other */
    world_run(&run, &w.s, 1);
    CHECK_INT(run.r->tenants[0].offered, 0);
    CHECK_INT(run.r->tenants[1].offered, 2);
    world_free(&run);
}

static void extremes_of_what_is_allowed__run(void **state)
{
    (void)state;
    struct world w;
    struct world_run run;
    world_plain(&w, 2, 1);
    w.s.traffic_ns = WEIR_LAB_TIME_MAX_NS;
    w.s.queue_wait_max_ns = w.s.total_max_ns = WEIR_LAB_TIME_MAX_NS;
    w.s.bin_ns = WEIR_NS_PER_MS;
    w.tenants[0].rate_micro_per_s = 1; /* one in eleven days: perhaps */
    w.tenants[0].prompt = w.tenants[0].output = world_fixed(WEIR_TRACE_TOK_MAX);
    w.tenants[0].output_limit_tok = 0;
    w.tenants[1].rate_micro_per_s = WEIR_LAB_RATE_MAX_MICRO;
    w.tenants[1].until_ns = WEIR_NS_PER_MS; /* a thousand of them */
    w.tenants[1].rules.waiters_max = 10;
    world_run(&run, &w.s, 2);
    CHECK(run.r->tenants[1].offered > 850);
    world_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(impossible__each_kind__is_refused_where_it_is),
        cmocka_unit_test(odd_but_possible__runs),
        cmocka_unit_test(extremes_of_what_is_allowed__run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
