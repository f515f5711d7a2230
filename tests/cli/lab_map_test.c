/* A configuration as the model's scenario, and several runs' mean. */
#include "support/check.h"

#include "cli/lab_figures.h"
#include "cli/lab_map.h"

#include <math.h>
#include <stdlib.h>

static struct weir_config *load(const char *text, size_t bytes)
{
    struct weir_config_problems problems = {0};
    struct weir_config_source from = {
        .file = "lab.yaml", .text = text, .text_bytes = bytes, .no_secrets = true, .for_lab = true};
    struct weir_config *config = weir_config_load(&from, &problems);
    CHECK_MSG(config, "%s", problems.count ? problems.list[0].text : "?");
    weir_config_problems_free(&problems);
    return config;
}

struct outcome {
    uint64_t hash, traffic_hash;
    uint64_t finished;
};

static struct outcome run(const struct weir_lab_scenario *scenario, uint64_t seed)
{
    size_t bytes = weir_lab_bytes(scenario);
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    CHECK(memory);
    memset(memory, 0, bytes);
    struct weir_lab *lab = weir_lab_init(memory, bytes, scenario, seed);
    CHECK(!weir_lab_run(lab, WEIR_LAB_TIME_MAX_NS));
    const struct weir_lab_results *results = weir_lab_results(lab);
    struct outcome outcome = {results->hash, results->traffic_hash, 0};
    for (uint32_t t = 0; t < scenario->tenant_count; t++)
        outcome.finished += results->tenants[t].finished;
    free(memory);
    return outcome;
}

/* The file and the model's own words for it are two descriptions of one thing. */
static void lab_map__the_default_scenario__is_the_models_own(void **state)
{
    (void)state;
    static char text[16 << 10];
    char path[512];
    snprintf(path, sizeof path, "%s/../../src/cli/scenarios/default.yaml",
             getenv("WEIR_TEST_DATA"));
    FILE *file = fopen(path, "r");
    CHECK_MSG(file, "%s", path);
    size_t bytes = fread(text, 1, sizeof text, file);
    fclose(file);
    struct weir_config *config = load(text, bytes);
    static struct lab_map map;
    CHECK_MSG(lab_map_config(config, NULL, &map), "%s", map.error);
    struct weir_lab_controls controls = weir_lab_controls_default();
    controls.has_agent = controls.has_burst = true;
    controls.batch_micro_per_s = 4000000;
    static struct weir_lab_store store;
    weir_lab_default(&store, &controls);
    struct outcome ours = run(&map.scenario, 7), theirs = run(&store.scenario, 7);
    CHECK(ours.traffic_hash == theirs.traffic_hash);
    CHECK(ours.hash == theirs.hash);
    CHECK(ours.finished == theirs.finished && ours.finished > 1000);
    lab_map_free(&map);
    weir_config_free(config);
}

#define UP "upstreams:\n- {name: a, url: 'http://h', max_in_flight: 7, output_limit: 99}\n"

static void lab_map__every_setting__arrives(void **state)
{
    (void)state;
    static const char text[] = UP
        "- {name: b, url: 'http://h', rate: 3/s, tokens: 5k/s, tokens_burst: 9k, fallback: a,\n"
        "   breaker: {failures: 3, failure_percent: 20, calls: 9, window: 1500ms, cooldown: 2s, "
        "cooldown_max: 4s, trials: 2}}\n"
        "scheduler: drr-cost\nwork: {input: 3, output: 4}\n"
        "lanes: [{name: x, floor: 10}, {name: y, floor: 20}]\n"
        "limits: {max_wait: 9s, waiters: 77, waiters_per_tenant: 11, body: 1MiB, waiting_bytes: "
        "2MiB}\n"
        "scopes:\n- {name: c/a, parent: c, granted: 5, strict: true, on_overrun: cut}\n"
        "- {name: c, granted: 9, period: 5s, on_exhausted: {fallback: a}}\n"
        "- {name: unused, granted: 1}\n"
        "tenants:\n- {name: t, weight: 3, lane: y, scope: c/a, limits: {requests: 2/s, burst: 6, "
        "tokens: 8k/s, over: refuse}}\n- {name: idle}\n"
        "traffic:\n  time: 30s\n  run: 40s\n  bin: 2s\n  ledger_delay: 3ms\n  tenants:\n"
        "  - {name: t, upstream: b, rate: 1.5/s, on_for: 1s, off_for: 2s, burst: {from: 1s, until: "
        "2s, times: 2.5}, from: 3s, until: 4s, prompt: {distribution: lognormal, mean: 5, low: 2, "
        "high: 9, sigma: 0.5}, output: 7, output_limit: 8, stream: false, goal: 6s, client: "
        "{retries: 3, obeys_hint: false, backoff: 7ms, gives_up: 8s}}\n"
        "  - {name: other, arrivals: closed, users: 5, think: 6s}\n"
        "  - {name: out, rate: 1/s, sends: false}\n"
        "backend:\n- {replicas: 2, sequences: 3, kv_tokens: 4k, latency: 5ms}\n"
        "- {upstream: b, replicas: 9, step: 1ms, step_sequence: 2us, prefill: 0.25, troubles: "
        "[{kind: slow, replica: 9, from: 1s, until: 2s, times: 4}, {kind: fail, from: 3s, until: "
        "4s}]}\n";
    struct weir_config *config = load(text, sizeof text - 1);
    static struct lab_map map;
    CHECK_MSG(lab_map_config(config, NULL, &map), "%s", map.error);
    const struct weir_lab_scenario *s = &map.scenario;
    CHECK_INT(s->traffic_ns, 30 * WEIR_NS_PER_S);
    CHECK_INT(s->run_ns, 40 * WEIR_NS_PER_S);
    CHECK_INT(s->bin_ns, 2 * WEIR_NS_PER_S);
    CHECK_INT(s->ledger_delay_ns, 3 * WEIR_NS_PER_MS);
    CHECK_INT(s->queue_wait_max_ns, 9 * WEIR_NS_PER_S);
    CHECK_INT(s->waiters_max, 77);
    CHECK_INT(s->waiting_bytes_max, 2 << 20);
    CHECK_INT(s->model.output_default_tok, 99);
    CHECK_INT(s->lanes.lane_count, 2);
    CHECK_INT(s->lanes.floor_percent[1], 20);
    CHECK_INT(s->upstream_count, 2);
    CHECK_STR(s->upstreams[1].name, "b");
    const struct weir_upstream_rules *u = &s->upstreams[1].rules;
    CHECK_INT(s->upstreams[0].rules.permits, 7);
    CHECK_INT(u->requests.rate_micro_per_s, 3000000);
    CHECK_INT(u->tokens.capacity, 9000);
    CHECK_INT(u->fallback, 0);
    CHECK_INT(u->breaker.failures_in_row, 3);
    CHECK_INT(u->breaker.calls_min, 9);
    CHECK_INT(u->breaker.window_s, 2);
    CHECK_INT(u->breaker.cooldown_max_ns, 4 * WEIR_NS_PER_S);
    CHECK_INT(u->breaker.trials, 2);
    const struct weir_backend_rules *b = &s->upstreams[0].backend;
    CHECK_INT(b->replicas, 2);
    CHECK_INT(b->sequences, 3);
    CHECK_INT(b->kv_tok, 4000);
    CHECK_INT(b->latency_ns, 5 * WEIR_NS_PER_MS);
    CHECK_INT(b->step_ns, 6 * WEIR_NS_PER_MS);
    b = &s->upstreams[1].backend;
    CHECK_INT(b->replicas, 9);
    CHECK_INT(b->prefill_permille, 250);
    CHECK_INT(b->trouble_count, 2);
    CHECK_INT(b->troubles[0].replica, 8);
    CHECK_INT(b->troubles[0].slow_permille, 4000);
    CHECK_INT(b->troubles[1].replica, WEIR_NONE);
    CHECK_INT(b->troubles[1].kind, WEIR_TROUBLE_FAIL);
    CHECK_INT(s->pool_count, 2);
    CHECK_INT(s->pools[0].policy, WEIR_SCHED_DRR_COST);
    CHECK_INT(s->pools[0].work_output, 4);
    CHECK_INT(s->tenant_count, 2); /* idle sends nothing, out is switched off */
    const struct weir_lab_tenant *t = &s->tenants[0];
    CHECK_STR(t->name, "t");
    CHECK_INT(s->pools[t->pool].upstreams[0], 1);
    CHECK_INT(t->rules.weight, 3);
    CHECK_INT(t->rules.lane, 1);
    CHECK_INT(t->rules.requests.capacity, 6);
    CHECK_INT(t->rules.tokens.rate_micro_per_s, 8000000000);
    CHECK_INT(t->rules.waiters_max, 11);
    CHECK(t->rules.refuse_over && t->rules.strict && t->rules.overrun_cuts);
    CHECK_INT(t->rate_micro_per_s, 1500000);
    CHECK_INT(t->burst_permille, 2500);
    CHECK_INT(t->until_ns, 4 * WEIR_NS_PER_S);
    CHECK_INT(t->prompt.kind, WEIR_LENGTH_LOGNORMAL);
    CHECK_INT(t->prompt.sigma_permille, 500);
    CHECK_INT(t->output.mean, 7);
    CHECK_INT(t->output_limit_tok, 8);
    CHECK(!t->is_stream && !t->client.obeys_hint);
    CHECK_INT(t->goal_wait_ns, 6 * WEIR_NS_PER_S);
    CHECK_INT(t->client.retries_max, 3);
    CHECK_INT(t->client.gives_up_ns, 8 * WEIR_NS_PER_S);
    CHECK(t->client.tells_timeout);
    CHECK_INT(s->scope_count, 2); /* the unused one is left out */
    CHECK_STR(s->scopes[0].name, "c");
    CHECK_INT(s->scopes[0].period_ns, 5 * WEIR_NS_PER_S);
    CHECK_INT(s->scopes[0].on_exhausted, WEIR_EXHAUSTED_FALLBACK);
    CHECK_INT(s->scopes[1].parent, 0);
    CHECK_INT(t->rules.scope, 1);
    t = &s->tenants[1];
    CHECK_INT(t->arrivals, WEIR_LAB_CLOSED);
    CHECK_INT(t->users, 5);
    CHECK_INT(t->rules.weight, 1);
    CHECK_INT(t->rules.scope, WEIR_NONE);
    CHECK_INT(t->pool, s->pools[0].upstreams[0] == 0 ? 0 : 1); /* of the first upstream */
    lab_map_free(&map);
    weir_config_free(config);
}

static const struct {
    const char *text, *said;
} impossible[] = {
    {UP, "has no traffic: say who sends what, as in traffic: {tenants: [{name: app, rate: 2/s}]}"},
    {UP "traffic: {tenants: [{name: x, rate: 1/s, sends: false}]}\n",
     "nobody sends anything: sends is false for every tenant of traffic"},
    {UP "traffic: {tenants: [{name: x, arrivals: trace}]}\n",
     "'x' sends what a trace says (arrivals: trace): give one with --trace"},
    {UP "traffic: {tenants: [{name: x, arrivals: closed, users: 4000}, {name: y, arrivals: closed, "
        "users: 97}]}\n",
     "tenant 'y': users brings all users above 4,096"},
    {"upstreams:\n- {name: a, url: 'http://h', max_in_flight: 100000}\n"
     "traffic: {tenants: [{name: x, rate: 1/s}]}\n",
     "upstream 'a': max_in_flight must be 1 to 65,536"},
};

static void lab_map__what_cannot_be_run__is_told(void **state)
{
    (void)state;
    static struct lab_map map;
    for (size_t i = 0; i < WEIR_COUNT(impossible); i++) {
        struct weir_config *config = load(impossible[i].text, strlen(impossible[i].text));
        CHECK(!lab_map_config(config, NULL, &map));
        CHECK_STR(map.error, impossible[i].said);
        lab_map_free(&map);
        weir_config_free(config);
    }
}

enum { NAMES = 100 };

/* A trace of so many tenants; tenant i has i + 1 requests. */
static size_t make_trace(struct weir_trace_entry *entries, uint32_t tenants)
{
    size_t count = 0;
    for (uint32_t t = 0; t < tenants; t++)
        for (uint32_t i = 0; i <= t; i++) {
            entries[count] = (struct weir_trace_entry){.arrival_ns = count * WEIR_NS_PER_MS,
                                                       .tenant = t,
                                                       .prompt_tok = 10,
                                                       .output_tok = 5};
            count++;
        }
    return count;
}

static void lab_map__a_trace__brings_its_tenants_and_the_largest_keep_their_names(void **state)
{
    (void)state;
    static struct lab_map map;
    static struct weir_trace_entry entries[NAMES * (NAMES + 1) / 2];
    const char *names[NAMES];
    static char texts[NAMES][16];
    for (int i = 0; i < NAMES; i++) {
        snprintf(texts[i], sizeof texts[i], "c%d", i);
        names[i] = texts[i];
    }
    static const char text[] =
        UP "tenants: [{name: c1, weight: 5}, {name: c2, weight: 6}]\n"
           "traffic: {tenants: [{name: app, rate: 1/s}, {name: c1, arrivals: "
           "trace, goal: 3s, client: sdk}, {name: c0, arrivals: trace, sends: "
           "false}]}\n";
    struct weir_config *config = load(text, sizeof text - 1);
    struct lab_map_trace trace = {entries, make_trace(entries, 3), names, 3};
    CHECK_MSG(lab_map_config(config, &trace, &map), "%s", map.error);
    CHECK_INT(map.scenario.tenant_count, 2); /* c0 does not send, app is left out */
    CHECK_INT(map.left_out, 1);
    CHECK_INT(map.trace_tenants[0], WEIR_NONE);
    CHECK_STR(map.tenants[map.trace_tenants[1]].name, "c1");
    CHECK_INT(map.tenants[0].rules.weight, 5);
    CHECK_INT(map.tenants[0].goal_wait_ns, 3 * WEIR_NS_PER_S);
    CHECK_INT(map.tenants[0].client.retries_max, 2);
    CHECK_INT(map.tenants[1].rules.weight, 6); /* of tenants, though the traffic does not name it */
    CHECK_INT(map.tenants[1].goal_wait_ns, 0);
    CHECK_INT(run(&map.scenario, 1).finished, 2 + 3);
    lab_map_free(&map);

    trace = (struct lab_map_trace){entries, make_trace(entries, NAMES), names, NAMES};
    CHECK_MSG(lab_map_config(config, &trace, &map), "%s", map.error);
    CHECK_INT(map.scenario.tenant_count, WEIR_LAB_TENANTS_MAX);
    CHECK_INT(map.merged, NAMES - 63);
    CHECK_STR(map.tenants[63].name, "others");
    CHECK_STR(map.tenants[map.trace_tenants[99]].name, "c99");
    CHECK_STR(map.tenants[map.trace_tenants[37]].name, "c37"); /* the 63rd largest */
    CHECK_INT(map.trace_tenants[36], 63);
    CHECK_INT(run(&map.scenario, 1).finished, trace.count);
    lab_map_free(&map);
    weir_config_free(config);
}

static void lab_figures__a_mean__has_students_interval(void **state)
{
    (void)state;
    /* Worked by hand: mean 3, standard deviation sqrt(2.5), t(4) = 2.776. */
    const double values[] = {1, 2, 3, 4, 5};
    struct lab_mean mean = lab_mean_of(values, 5);
    CHECK(fabs(mean.mean - 3) < 1e-12 && mean.count == 5);
    CHECK_MSG(fabs(mean.half - 2.7764 * sqrt(2.5 / 5)) < 1e-9, "%f", mean.half);
    const double gaps[] = {NAN, 2, INFINITY, 4};
    mean = lab_mean_of(gaps, 4);
    CHECK(mean.mean == 3 && mean.count == 2 && fabs(mean.half - 12.7062) < 1e-9);
    mean = lab_mean_of(gaps, 2);
    CHECK(mean.mean == 2 && mean.count == 1 && isnan(mean.half));
    mean = lab_mean_of(gaps, 1);
    CHECK(mean.count == 0 && isnan(mean.mean));
    /* From a table: 31, 40, 60, 120 degrees, and without end. */
    static const struct {
        uint32_t degrees;
        double t;
    } rows[] = {{1, 12.7062}, {30, 2.0423},  {31, 2.0395},      {40, 2.0211},
                {60, 2.0003}, {120, 1.9799}, {1000000, 1.95997}};
    for (size_t i = 0; i < WEIR_COUNT(rows); i++)
        CHECK_MSG(fabs(lab_student_t(rows[i].degrees) - rows[i].t) < 1e-4, "%u: %f",
                  rows[i].degrees, lab_student_t(rows[i].degrees));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lab_map__the_default_scenario__is_the_models_own),
        cmocka_unit_test(lab_map__every_setting__arrives),
        cmocka_unit_test(lab_map__what_cannot_be_run__is_told),
        cmocka_unit_test(lab_map__a_trace__brings_its_tenants_and_the_largest_keep_their_names),
        cmocka_unit_test(lab_figures__a_mean__has_students_interval),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
