/* traffic, backend, and single values laid over a file by their path. */
#include "support/check.h"

#include "gateway/config.h"
#include "gateway/config_print.h"

#include <stdlib.h>

#define UP "upstreams:\n- name: a\n  url: http://127.0.0.1:9/v1\n"

static struct weir_config *load(const char *text, const struct weir_config_set *sets, size_t count,
                                char said[2048])
{
    struct weir_config_problems problems = {0};
    struct weir_config_source from = {.file = "lab.yaml",
                                      .text = text,
                                      .text_bytes = strlen(text),
                                      .sets = sets,
                                      .sets_count = count,
                                      .no_secrets = true,
                                      .for_lab = true};
    struct weir_config *config = weir_config_load(&from, &problems);
    size_t used = 0;
    said[0] = '\0';
    for (uint32_t i = 0; i < problems.count && used < 2048; i++)
        used +=
            (size_t)snprintf(said + used, 2048 - used, "%s:%u:%u: %s%s\n", problems.list[i].where,
                             problems.list[i].line, problems.list[i].column,
                             problems.list[i].is_warning ? "warning: " : "", problems.list[i].text);
    weir_config_problems_free(&problems);
    return config;
}

#define T "traffic:\n  tenants:\n"
#define SAY(place, text) "lab.yaml:" place ": " text "\n"

static const struct {
    const char *text, *said;
} mistakes[] = {
    {T "  - {name: x}\n", SAY("6:12", "'x' has no rate; give one, as in rate: 1.5/s")},
    {T "  - {name: x, rate: 1/s, prompt: 5..4}\n",
     SAY("6:34", "prompt must be a whole number of tokens, or two as in 300..1500, not "
                 "'5..4'")},
    {T "  - {name: x, rate: 1/s, output: {distribution: lognorml}}\n",
     SAY("6:49", "distribution must be one of fixed, uniform, exponential, lognormal, not "
                 "'lognorml'; did you mean 'lognormal'?")},
    {T "  - {name: x, rate: 1/s, output: {distribution: uniform, low: 5}}\n",
     SAY("6:49", "output: uniform needs high, as in output: 300..1500")},
    {T "  - {name: x, rate: 1/s, output: {mean: 5, low: 9, high: 8}}\n",
     SAY("6:49", "output: low is above high")},
    {T "  - {name: x, rate: 1/s, output: {distribution: exponential, mean: 0}}\n",
     SAY("6:49", "output: this distribution needs mean")},
    {T "  - {name: x, rate: 1/s, output: {mean: 5, sigma: 0.5}}\n",
     SAY("6:51", "output: sigma belongs to lognormal")},
    {T "  - {name: x, rate: 1/s, output: {mean: -5}}\n",
     SAY("6:41", "mean must be a whole number between 0 and 10000000, not '-5'")},
    {T "  - {name: x, rate: 0/s}\n",
     SAY("6:12", "'x' has no rate; give one, as in rate: 1.5/s")
         SAY("6:21", "rate must be a rate (2/s, 100/m, 1.5M/h) or none, not '0/s'")},
    {T "  - {name: x, rate: 2M/s}\n", SAY("6:21", "rate is above a million requests a second")},
    {T "  - {name: x, arrivals: closed, rate: 1/s, users: 2}\n",
     SAY("6:39", "rate belongs to arrivals poisson and even")},
    {T "  - {name: x, arrivals: closed}\n", SAY("6:12", "'x' is a closed loop and has no users")},
    {T "  - {name: x, rate: 1/s, users: 5, think: 1s}\n",
     SAY("6:33", "users belongs to arrivals: closed")
         SAY("6:43", "think belongs to arrivals: closed")},
    {T "  - {name: x, rate: 1/s, on_for: 5s}\n", SAY("6:34", "on_for and off_for go together")},
    {T "  - {name: x, rate: 1/s, burst: {from: 5s, until: 4s}}\n",
     SAY("6:40", "burst ends before it begins: until must be above from")},
    {T "  - {name: x, rate: 1/s, burst: {times: 1.2345}}\n",
     SAY("6:41", "times must be a number (2, 0.1, 1.25) between 0 and 1000, not '1.2345'")},
    {T "  - {name: x, rate: 1/s, from: 5s, until: 5s}\n",
     SAY("6:43", "until is not after from: it would send nothing")},
    {T "  - {name: x, rate: 1/s, from: 2m}\n",
     SAY("6:32", "from is after the end of the traffic: it would send nothing")},
    {T "  - {name: x, rate: 1/s, growth: 5}\n",
     SAY("6:34", "growth needs a prompt with low and high, as in 6000..24000")},
    {T "  - {name: x, rate: 1/s, growth: 1}\n",
     SAY("6:34", "growth must be a whole number between 2 and 100000, or 0 for off, not '1'")},
    {T "  - {name: x, arrivals: trace, growth: 5, prompt: 1..2}\n",
     SAY("6:40", "growth does not go with arrivals: trace, which has its lengths")},
    {T "  - {name: x, rate: 1/s, upstream: aa}\n", SAY("6:36", "there is no upstream 'aa'")},
    {T "  - {name: x, rate: 1/s, client: skd}\n",
     SAY("6:34", "client must be one of none, sdk, not 'skd'; did you mean 'sdk'?")},
    {T "  - {name: x, rate: 1/s, client: {retires: 2}}\n",
     SAY("6:35", "unknown key 'retires' in traffic.tenants[].client; did you mean 'retries'?")},
    {T "  - {name: x, rate: 1/s}\n  - {name: x, rate: 1/s}\n",
     SAY("7:12", "the traffic of 'x' is given twice; first on line 6")},
    {"traffic: {time: 0}\n",
     SAY("4:17", "time must be a duration (250ms, 5s, 10m, 1h) between 10ms "
                 "and 1d, not '0' (the unit is missing)")},
    {"traffic: {run: 10s}\n",
     SAY("4:16", "run is shorter than time: part of the traffic would never be sent")},
    {"traffic: 5\n", SAY("4:10", "traffic must be a mapping (\"key: value\")")},
    {"backend: 5\n", SAY("4:10", "backend must be a list (\"- name: ...\")")},
    {"backend: {replicas: 0}\n",
     SAY("4:21", "replicas must be a whole number between 1 and 256, not '0'")},
    {"backend: {upstream: b}\n", SAY("4:21", "there is no upstream 'b'")},
    {"backend: [{upstream: a}, {upstream: a}]\n",
     SAY("4:37", "the backend of 'a' is given twice; first on line 4")},
    {"backend: [{replicas: 1}, {replicas: 2}]\n",
     SAY("4:10", "two backends name no upstream; one may, for those without a backend of their "
                 "own")},
    {"backend: {step: 0, step_sequence: 0}\n",
     SAY("4:17", "step and step_sequence are both 0: it would take no time")},
    {"backend: {troubles: [{kind: fail, from: 2s, until: 2s}]}\n",
     SAY("4:52", "a trouble ends after it begins: until must be above from")},
    {"backend: {troubles: [{kind: fail, from: 2s}]}\n",
     SAY("0:0", "a trouble ends after it begins: until must be above from")
         SAY("4:22", "backend[].troubles[] needs 'until'")},
    {"backend: {troubles: [{kind: fail, from: 2s, until: 3s, replica: 5}]}\n",
     SAY("4:65", "there is no replica 5: this backend has 4")},
    {"backend: {troubles: [{kind: slow, from: 2s, until: 3s, times: 0.5}]}\n",
     SAY("4:63", "times must be a number (2, 0.1, 1.25) between 1 and 1000, not '0.5'")},
    {"backend: {troubles: [{kind: fail, from: 2s, until: 3s, times: 2}]}\n",
     SAY("4:63", "times belongs to kind: slow")},
};

static void config_lab__each_mistake__is_told_with_its_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < WEIR_COUNT(mistakes); i++) {
        char text[1024], said[2048];
        snprintf(text, sizeof text, UP "%s", mistakes[i].text);
        struct weir_config *config = load(text, NULL, 0, said);
        CHECK_STR(said, mistakes[i].said);
        CHECK_MSG(!config, "%s", mistakes[i].text);
    }
}

static void config_lab__a_slip_in_a_tenants_name__is_pointed_at(void **state)
{
    (void)state;
    char said[2048];
    struct weir_config *config =
        load(UP "tenants: [{name: batch}, {name: app1}]\n" T
                "  - {name: bacth, rate: 1/s}\n  - {name: app1, rate: 1/s}\n"
                "  - {name: app2, rate: 1/s}\n",
             NULL, 0, said);
    CHECK(config);
    CHECK_STR(said, SAY("7:12", "warning: no tenant is called 'bacth', so it has the defaults of "
                                "one; did you mean 'batch', which sends nothing?"));
    weir_config_free(config);
}

static void config_lab__a_trace_is_longer_than_time__from_may_be_later(void **state)
{
    (void)state;
    char said[2048];
    struct weir_config *config =
        load(UP T "  - {name: x, arrivals: trace, from: 10m}\n", NULL, 0, said);
    CHECK_STR(said, "");
    CHECK(config);
    weir_config_free(config);
}

static const char base[] =
    UP "  max_in_flight: 8\n"
       "tenants: [{name: batch, weight: 1}, {name: app1}, {name: app1.b}]\n"
       "scopes: [{name: org, granted: 5}, {name: org/team, granted: 4}]\n" T
       "  - {name: batch, rate: 1/s, prompt: 300..1500}\n"
       "  - {name: app1.b, rate: 1/s}\n"
       "  - {name: time, rate: 1/s}\n"
       "backend: {replicas: 2, troubles: [{kind: fail, from: 1s, until: 2s}]}\n";

/* Path, value, and what the effective configuration then says; or the problem. */
static const struct {
    const char *path, *value, *shows, *said;
} sets[] = {
    {"scheduler", "fifo", "\nscheduler: fifo\n", NULL},
    {"tenants.batch.weight", "2", "- name: batch\n    weight: 2\n", NULL},
    {"tenants.app1.b.weight", "3", "- name: app1.b\n    weight: 3\n", NULL},
    {"tenants.app1.limits.tokens", "5k/s", "      tokens: 5000/s\n", NULL},
    {"tenants.app1.models", "[x, y-*]", "    models:\n      - x\n", NULL},
    {"tenants", "[{name: z}]", "tenants:\n  - name: z\n", NULL},
    {"scopes.org/team.granted", "77", "- name: org/team\n    granted: 77\n", NULL},
    {"scopes.org.on_exhausted", "{fallback: a}", "on_exhausted:\n      fallback: a\n", NULL},
    {"scopes.org.on_exhausted", "queue", NULL,
     "--set scopes.org.on_exhausted:0:0: on_exhausted: queue waits for the next window, and period "
     "none has no next one; give a period, or refuse\n"},
    {"traffic.batch.rate", "3/s", "      rate: 3/s\n", NULL},
    {"traffic.tenants.batch.rate", "3/s", "      rate: 3/s\n", NULL},
    {"traffic.time", "7s", "traffic:\n  time: 7s\n", NULL}, /* a key goes before a name */
    {"traffic.tenants.time.rate", "9/s",
     "- name: time\n      sends: true\n      arrivals: poisson\n"
     "      rate: 9/s\n",
     NULL},
    {"traffic.batch.prompt", "9", "        distribution: fixed\n        mean: 9\n", NULL},
    {"traffic.batch.prompt.high", "2k", "        high: 2000\n", NULL},
    {"traffic.batch.sends", "false", "- name: batch\n      sends: false\n", NULL},
    {"backend.replicas", "9", "- replicas: 9\n", NULL},
    {"backend.1.replicas", "9", "- replicas: 9\n", NULL},
    {"backend.troubles.1.until", "9s", "        until: 9s\n", NULL},
    {"backend.troubles", "[]", "- replicas: 2\n", NULL},
    {"tenants", "[]", "\ntraffic:\n", NULL},
    {"upstreams", "[]", NULL,
     "--set upstreams:0:0: upstreams must have between 1 and 64 entries, not 0\n"},
    {"upstreams.a.breaker.trials", "4", "      trials: 4\n", NULL},
    {"upstreams.a.url", "http://h:80/x", "url: http://h:80/x\n", NULL},
    {"scheduler", "vtx", NULL,
     "--set scheduler:0:0: scheduler must be one of fifo, drr, drr-cost, vtc, not 'vtx'; did you "
     "mean 'vtc'?\n"},
    {"shceduler", "fifo", NULL,
     "--set shceduler:0:0: unknown key 'shceduler' at the top level; did you mean 'scheduler'?\n"},
    {"tenants.bacth.weight", "2", NULL,
     "--set tenants.bacth.weight:0:0: there is no 'bacth' under tenants; did you mean 'batch'?\n"},
    {"tenants.batch.wieght", "2", NULL,
     "--set tenants.batch.wieght:0:0: unknown key 'wieght' in tenants[]; did you mean 'weight'?\n"},
    {"tenants.batch.weight", "0", NULL,
     "--set tenants.batch.weight:0:0: weight must be a whole number between 1 and 1000, not '0'\n"},
    {"tenants.batch.weight", "", NULL,
     "--set tenants.batch.weight:0:0: has no value; give one behind the =\n"},
    {"tenants.batch.weight", "[", NULL,
     "--set tenants.batch.weight:0:0: '[' is not YAML: did not find expected node content\n"},
    {"tenants.batch.weight", "{a: b}", NULL,
     "--set tenants.batch.weight:0:0: weight must be a whole number between 1 and 1000, not a "
     "mapping\n"},
    {"tenants.batch.weight.x", "1", NULL,
     "--set tenants.batch.weight.x:0:0: 'weight' has no parts of its own\n"},
    {"tenants.batch", "1", NULL,
     "--set tenants.batch:0:0: is a whole entry of tenants; go on with one of its keys, as in "
     ".key_sha256\n"},
    {"traffic.btach.rate", "1/s", NULL,
     "--set traffic.btach.rate:0:0: unknown key 'btach' in traffic; did you mean 'batch'?\n"},
    {"traffic.batch.rate", "fast", NULL,
     "--set traffic.batch.rate:0:0: rate must be a rate (2/s, 100/m, 1.5M/h) or none, not "
     "'fast'\n"},
    {"traffic.batch.prompt.low", "2k", NULL,
     "--set traffic.batch.prompt.low:0:0: prompt: low is above high\n"},
    {"traffic.batch.arrivals", "closed", NULL,
     "lab.yaml:9:12: 'batch' is a closed loop and has no users\n"
     "lab.yaml:9:25: rate belongs to arrivals poisson and even\n"},
    {"backend.troubles.2.until", "9s", NULL,
     "--set backend.troubles.2.until:0:0: unknown key '2' in backend[].troubles[]\n"},
    {"", "1", NULL, "--set :0:0: unknown key '' at the top level\n"},
    {".", "1", NULL, "--set .:0:0: unknown key '' at the top level\n"},
    {"traffic..rate", "1", NULL, "--set traffic..rate:0:0: unknown key '' in traffic\n"},
    {"backend.", "1", NULL,
     "--set backend.:0:0: is a whole entry of backend; go on with one of its keys, as in "
     ".replicas\n"},
};

static void config_lab__a_path__sets_one_value_or_says_why_not(void **state)
{
    (void)state;
    for (size_t i = 0; i < WEIR_COUNT(sets); i++) {
        char said[2048];
        struct weir_config_set set = {sets[i].path, sets[i].value};
        struct weir_config *config = load(base, &set, 1, said);
        if (sets[i].said) {
            CHECK_STR(said, sets[i].said);
            CHECK(!config);
            continue;
        }
        CHECK_MSG(config, "%s: %.300s", sets[i].path, said);
        char *yaml = weir_config_yaml(config);
        CHECK_MSG(yaml && strstr(yaml, sets[i].shows), "%s: %s", sets[i].path, yaml);
        free(yaml);
        weir_config_free(config);
    }
}

/* In the lab whoever sends is a tenant: a path to one that `tenants` does not have makes the entry,
 * and what was said of the others still points at their lines. */
static void config_lab__a_path_to_a_sender__makes_a_tenant(void **state)
{
    (void)state;
    static const char text[] =
        "upstreams: [{name: a, url: 'http://h:1'}]\n"
        "tenants:\n"
        "- {name: a, lane: nowhere}\n"
        "- {name: b, limits: {requests: 2/s, burst: 9}}\n"
        "traffic: {tenants: [{name: a.b, rate: 1/s}, {name: b, rate: 1/s}]}\n";
    static const char *const senders[] = {"of-trace", "not a name"};
    struct weir_config_source from = {.file = "lab.yaml",
                                      .text = text,
                                      .text_bytes = sizeof text - 1,
                                      .for_lab = true,
                                      .senders = senders,
                                      .senders_count = 2};
    static const struct weir_config_set right[] = {
        {"tenants.a.b.weight", "3"},           {"tenants.of-trace.lane", "batch"},
        {"tenants.a.b.weight", "4"},           {"tenants.b.weight", "5"},
        {"tenants.b.limits.requests", "none"}, {"tenants.a.lane", "standard"}};
    struct weir_config_problems problems = {0};
    from.sets = right;
    from.sets_count = WEIR_COUNT(right);
    struct weir_config *config = weir_config_load(&from, &problems);
    CHECK_MSG(config, "%s", problems.list[0].text);
    CHECK_INT(config->tenants_count, 4);
    CHECK_STR(config->tenants[2].name, "a.b");
    CHECK_INT(config->tenants[2].weight, 4);
    CHECK_STR(config->tenants[3].name, "of-trace");
    CHECK_INT(config->tenants[1].weight, 5);
    CHECK_INT(config->tenants[1].limits.burst_req, 0);
    weir_config_free(config);

    static const struct weir_config_set wrong[] = {{"tenants.a.b.weight", "3"},
                                                   {"tenants.not a name.weight", "3"},
                                                   {"tenants.of-trade.weight", "3"}};
    static const char *const said[] = {
        "the tenant's name must be a name (letters, digits, '.', '_', '-'; at most 63), not 'not",
        "there is no 'of-trade' under tenants", "there is no lane 'nowhere'"};
    from.sets = wrong;
    from.sets_count = WEIR_COUNT(wrong);
    CHECK(!weir_config_load(&from, &problems));
    CHECK_INT(problems.count, 3);
    for (size_t i = 0; i < 3; i++)
        CHECK_MSG(strstr(problems.list[i].text, said[i]), "%s", problems.list[i].text);
    CHECK_INT(problems.list[2].line, 3);
    weir_config_problems_free(&problems);

    from.for_lab = false; /* the gateway knows its own tenants only */
    from.sets = right;
    from.sets_count = 1;
    CHECK(!weir_config_load(&from, &problems));
    weir_config_problems_free(&problems);
}

static void config_lab__of_two_values_for_one_path__the_last_holds(void **state)
{
    (void)state;
    char said[2048];
    const struct weir_config_set both[] = {{"tenants.batch.weight", "2"},
                                           {"tenants.batch.weight", "7"}};
    struct weir_config *config = load(base, both, 2, said);
    CHECK_MSG(config, "%s", said);
    CHECK_INT(config->tenants[0].weight, 7);
    weir_config_free(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(config_lab__each_mistake__is_told_with_its_place),
        cmocka_unit_test(config_lab__a_trace_is_longer_than_time__from_may_be_later),
        cmocka_unit_test(config_lab__a_slip_in_a_tenants_name__is_pointed_at),
        cmocka_unit_test(config_lab__a_path__sets_one_value_or_says_why_not),
        cmocka_unit_test(config_lab__a_path_to_a_sender__makes_a_tenant),
        cmocka_unit_test(config_lab__of_two_values_for_one_path__the_last_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
