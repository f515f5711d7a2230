/* weir lab, run as a person would: what it says, what it refuses, and what its scenarios show. */
#include "cli/run.h"

#include "core/base.h"
#include "support/check.h"

#include <math.h>
#include <stdlib.h>

#define N63 "a-name-of-sixty-three-letters-as-long-as-names-of-tenants-may-b"

#define MINI                                                                                       \
    "printf 'upstreams: [{name: a, url: \"http://h\"}]\\ntraffic: {time: 5s, tenants: [{name: x, " \
    "rate: 9/s, prompt: 100, output: 20}]}\\n' > $D/mini.yaml; "

static const struct run_row rows[] = {
    {"$W lab --help", 0, "usage: weir lab [SCENARIO|FILE.yaml] [flags]"},
    {"$W help lab | sed -n '/^  weir lab/p' | head -1", 0, "  weir lab   "}, /* examples first */
    {"$W lab --list | cut -d' ' -f1 | tr '\\n' ' '", 0,
     "default adaptive budget failing lanes noisy overload request-limits retry-storm "
     "token-limits "},
    {"cd $D; $W lab --help | sed -n 's/^  weir lab\\( --\\| [a-z-]* --\\| *the default "
     "scenario\\)/\\1/p' | "
     "grep -v my-weir | sed 's/the default scenario//; s/  *every order.*//; s/--seeds 20/--seeds "
     "2/' > e; while read -r "
     "l; do "
     "$W lab $l > /dev/null || { echo \"no: $l\"; exit 1; }; done < e; wc -l < e",
     0, "7\n"},
    {"$W lab --list --json", 0, "\"name\": \"retry-storm\""},
    {"$W lab overload --json", 0, "\"windows_broken\": 0"},
    {"$W lab overload --json --policy drr", 0, "\"unit\": \"requests\""},
    {"$W lab overload --json --policy fifo", 0, "\"bound\": null"},
    {"$W lab", 0, "Calculated by a deterministic synthetic model, not measured"},
    {MINI "$W lab $D/mini.yaml", 0, "\nx "},
    {MINI "$W lab $D/mini.yaml --policy fifo", 0, "with scheduler=fifo\n"},
    {MINI "$W lab --set traffic.x.rate=18/s $D/mini.yaml --set=backend=[{replicas: 1}] 2>&1", 2,
     "argument too many"},
    {MINI "$W lab --set traffic.x.rate=18/s $D/mini.yaml '--set=backend=[{replicas: 1}]'", 0,
     "a: 1 replicas x 48"},
    {MINI "$W lab $D/mini.yaml --set 'traffic.x.rate=1/s,backend={replicas: 3, sequences: "
          "5},scheduler=drr'",
     0, "a: 3 replicas x 5"},
    {MINI "$W lab $D/mini.yaml --policy all | cut -d' ' -f1 | tr '\\n' ' '", 0,
     "order fifo drr drr-cost vtc "},
    {MINI "$W lab $D/mini.yaml --policy all --seeds 2", 0, "seeds 1 to 2: means"},
    {MINI "$W lab $D/mini.yaml --policy all --csv", 0, "drr-cost,least_good_share,"},
    {MINI "$W lab $D/mini.yaml --policy all --json", 0, "\"scheduler\": \"drr-cost\""},
    {"$W lab --policy all --svg $D/x.svg 2>&1", 2, "--svg shows one run; leave --policy all out"},
    {"$W lab --yaml --json 2>&1", 2, "one of --json, --csv, --series and --yaml"},
    {"$W lab --yaml --seeds 3 2>&1", 2, "--yaml shows one run; leave --seeds out"},
    {"$W lab budget --yaml --set scopes.class.granted=1M", 0, "- {name: class, granted: 1000000}"},
    {"$W lab --policy all --diff noisy overload 2>&1", 2, "--policy all compares by itself"},
    {MINI "$W lab $D/mini.yaml --csv", 0,
     "tenant,sent,finished,refused,failed,retries,queue_wait_p50_s"},
    {MINI "$W lab $D/mini.yaml --series | head -2", 0, "from_s,tenant,sent,tries"},
    {MINI "$W lab $D/mini.yaml --json", 0, "\"hash\": \""},
    {MINI "$W lab $D/mini.yaml --seeds 3", 0, "seeds 1 to 3: means"},
    {MINI "$W lab $D/mini.yaml --seeds 3 --csv", 0, "x,finished,"},
    {MINI "$W lab $D/mini.yaml --diff scheduler=fifo scheduler=vtc", 0, "B: scheduler=vtc"},
    {MINI "$W lab --diff $D/mini.yaml scheduler=vtc", 0, "A: as it is"},
    {MINI "$W lab --diff $D/mini.yaml default --csv", 0, "all,finished,"},
    {MINI "$W lab --diff scheduler=drr", 0, "A: as it is"},
    /* Names as long as the gateway and traces take them. */
    {"echo 'upstreams: [{name: " N63 ", url: \"http://h\"}]' > $D/n.yaml; echo 'traffic: {tenants: "
     "[{name: " N63 ", rate: 1/s}]}' >> $D/n.yaml; $W lab $D/n.yaml",
     0, N63 ": 4 replicas"},
    {"printf 'arrival_s,tenant,prompt_tokens,output_tokens\\n0," N63 ",9,9\\n' > $D/n.csv; "
     "$W lab --trace $D/n.csv --record $D/m.csv 2>&1 && $W lab --trace $D/m.csv 2>&1",
     0, "\n" N63 "  "},
    /* What is refused. */
    {"$W lab nosuch 2>&1", 2, "there is no scenario and no file 'nosuch'; weir lab --list"},
    {"$W lab overlaod 2>&1", 2, "did you mean 'overload'?"},
    {"$W lab default noisy 2>&1", 2, "to compare setups, add --diff"},
    {"$W lab --diff 2>&1", 2, "--diff needs what to compare"},
    {"$W lab --diff a=b c=d e=f 2>&1", 2, "'a=b' is no scenario or file"},
    {"$W lab --diff scheduler=fifo scheduler=vtx 2>&1", 2,
     "--set scheduler: scheduler must be one of"},
    {"$W lab --set scheduler 2>&1", 2, "'scheduler' sets nothing; write path=value"},
    {"$W lab --set =5 2>&1", 2, "'=5' sets nothing"},
    {"$W lab --set shceduler=fifo 2>&1", 2, "did you mean 'scheduler'?"},
    {"$W lab --set traffic.bacth.rate=1/s 2>&1", 2, "did you mean 'batch'?"},
    {"$W lab --set tenants.batch.weight=0 2>&1", 2,
     "weight must be a whole number between 1 and 1000, not '0'"},
    {"$W lab --set traffic.batch.prompt=0 2>&1", 2, "'batch': prompt has a mean of 0"},
    {"$W lab --set traffic.batch.prompt=-5 2>&1", 2, "a whole number of tokens"},
    {"$W lab --set traffic.batch.rate=1000M/s 2>&1", 2, "above a million requests a second"},
    {"$W lab --set traffic.batch.rate=99999999999999999999/s 2>&1", 2, "rate must be a rate"},
    {"$W lab --set traffic.batch.arrivals=closed 2>&1", 2, "has no users"},
    {"$W lab --set traffic.batch.arrivals=trace --set traffic.batch.growth=0 2>&1", 2,
     "rate belongs to arrivals poisson and even"},
    {"$W lab --policy wfq 2>&1", 2, "scheduler must be one of fifo, drr, drr-cost, vtc"},
    {"$W lab --seed x 2>&1", 2, "--seed must be a whole number, not 'x'"},
    {"$W lab --seeds 0 2>&1", 2, "--seeds must be a whole number between 1 and 10000, not '0'"},
    {"$W lab --seed 18446744073709551615 2>&1", 2,
     "--seed 18446744073709551615 is too large: at most"},
    {"$W lab --seed 9223372036854775806 --seeds 2 2>&1", 2, "too large"},
    {"$W lab --seed 9223372036854775806 --json 2>&1", 0, "\"seed\": 9223372036854775806"},
    {"$W lab --json --csv 2>&1", 2, "one of --json, --csv, --series and --yaml"},
    {"$W lab --seeds 2 --svg $D/x.svg 2>&1", 2, "--svg shows one run; leave --seeds out"},
    {"$W lab --diff scheduler=drr --record $D/x 2>&1", 2, "--record shows one run; leave --diff"},
    {"$W lab --scheduler vtc 2>&1", 2, "--scheduler chooses from a trace"},
    {"$W lab --svg $D/none/x.svg 2>&1", 3, "x.svg cannot be written: No such file or directory"},
    {"$W lab --svg - --json 2>&1", 2, "--svg - and the figures both print"},
    {"$W lab --record /dev/full 2>&1", 3,
     "the recording cannot be written: No space left on device"},
    {"$W lab --record $D/none/x 2>&1", 3, "x cannot be written: No such file or directory"},
    {"echo x > $D/x; $W lab --record $D/x 2>&1; echo $?; cat $D/x", 0,
     "x is there, and is not a recording of weir; name another file, or remove it\n3\nx\n"},
    {"$W lab --svg /dev/full 2>&1", 3, "/dev/full cannot be written: No space left on device"},
    {"$W lab --json > /dev/full 2> $D/e; s=$?; cat $D/e; exit $s", 3, "could not be written"},
    {"$W lab --trace $D/none.csv 2>&1", 2, "none.csv: "},
    {": > $D/empty.csv; $W lab --trace $D/empty.csv 2>&1", 2, "empty.csv"},
    {"printf 'arrival_s,tenant,prompt_tokens,output_tokens\\n5,a,1,1\\n1000005,a,1,1\\n' > "
     "$D/years.csv; $W lab --trace $D/years.csv 2>&1",
     2, "the trace lasts 1000000 s, and the lab runs 1,000,000 s at most: cut it"},
    {"echo 'arrival_s,tenant,prompt_tokens,output_tokens' > $D/head.csv; $W lab --trace "
     "$D/head.csv "
     "2>&1",
     2, "head.csv"},
    {"echo 'upstreams: [{name: a, url: \"http://h\"}]' > $D/c.yaml; $W lab $D/c.yaml 2>&1", 2,
     "c.yaml: has no traffic: say who sends what"},
    {"echo 'upstreams: [{name: a, url: \"http://h\"}]' > $D/c.yaml; echo 'traffic: {tenants: "
     "[{name: "
     "x, rate: 1/s, weigth: 2}]}' >> $D/c.yaml; $W lab $D/c.yaml 2>&1",
     2, "c.yaml:2:42: unknown key 'weigth' in traffic.tenants[]"},
    {"echo 'upstreams: [{name: a, url: \"http://h\", key_env: NOT_THERE}]' > $D/c.yaml; echo "
     "'traffic: {tenants: [{name: x, rate: 1/s}]}' >> $D/c.yaml; $W lab $D/c.yaml",
     0, "\nx "}, /* no credential is needed, and none is looked for */
    {"$W lab --trace $T/traces/arena27.csv 2>&1", 0,
     "the trace is what is sent; the traffic of 6 tenants of default is left out"},
    {"$W lab --trace $T/traces/arena27_measured.csv.gz --scheduler vtc 2>/dev/null | tail -30", 0,
     "c26"},
};

static void lab__each_command_line__says_what_it_must(void **state)
{
    (void)state;
    run_rows(rows, WEIR_COUNT(rows));
}

/* ---- what is the same each time ---- */

static void lab__the_default_scenario__comes_to_the_same_as_ever(void **state)
{
    (void)state;
    if (getenv("WEIR_LAB_WRITE"))
        CHECK_INT(run("mkdir -p $T/lab && $W lab --seed 1 > $T/lab/default.txt"), 0);
    int status = run("$W lab --seed 1 | diff $T/lab/default.txt - 2>&1");
    CHECK_MSG(status == 0,
              "what the gateway's core does has changed; if that is meant, run this test with "
              "WEIR_LAB_WRITE=1 and say in the commit why: %.300s",
              run_out);
}

static void lab__two_runs__print_the_same_bytes(void **state)
{
    (void)state;
    CHECK_INT(run("$W lab --json > $D/1 && $W lab --json > $D/2 && cmp $D/1 $D/2"), 0);
    CHECK_INT(run("$W lab --svg $D/1.svg >/dev/null && $W lab --svg $D/2.svg >/dev/null && cmp "
                  "$D/1.svg $D/2.svg"),
              0);
    CHECK_INT(run("$W lab --json --seed 2 > $D/2; cmp $D/1 $D/2 2>&1"), 1);
}

/* ---- figures ---- */

static json_t *find_tenant(const json_t *all, const char *name)
{
    size_t i;
    json_t *tenant;
    if (strcmp(name, "all") == 0)
        return json_object_get(all, "all");
    if (strcmp(name, "run") == 0)
        return json_object_get(all, "run");
    json_array_foreach(json_object_get(all, "tenants"), i,
                       tenant) if (strcmp(json_string_value(json_object_get(tenant, "name")),
                                          name) == 0) return tenant;
    return NULL;
}

/* A figure of one run; 0 for a kind of refusal that there was none of. */
static double figure(const json_t *all, const char *tenant, const char *key)
{
    json_t *of = find_tenant(all, tenant);
    CHECK_MSG(of, "%s", tenant);
    json_t *value = json_object_get(of, key);
    if (!value)
        value = json_object_get(json_object_get(of, "refusals_of_tries"), key);
    return value ? json_number_value(value) : 0;
}

/* A figure of one run of the scenario, with flags. */
static double of_run(const char *flags, const char *tenant, const char *key)
{
    char line[512];
    snprintf(line, sizeof line, "$W lab --json %s", flags);
    json_t *all = run_json(line, 0);
    double value = figure(all, tenant, key);
    json_decref(all);
    return value;
}

#define CHECK_RANGE(value, low, high)                                                              \
    do {                                                                                           \
        double check_value = (value);                                                              \
        CHECK_MSG(check_value >= (low) && check_value <= (high), "%s is %g", #value, check_value); \
    } while (0)

/* In each scenario what its first line says. */
static void scenario__default__apps_keep_their_goal_while_it_is_crowded(void **state)
{
    (void)state;
    CHECK_RANGE(of_run("", "app-1", "good_share"), 0.95, 1);
    CHECK_RANGE(of_run("--policy fifo", "app-1", "good_share"), 0, 0.8);
    CHECK_RANGE(of_run("", "run", "backend_busy"), 0.95, 1);
    CHECK_RANGE(of_run("--set traffic.agent.sends=false --set traffic.batch.rate=2/s", "app-1",
                       "queue_wait_p99_s"),
                0, 0.01);
}

static void scenario__overload__no_order_helps(void **state)
{
    (void)state;
    double fifo = of_run("overload --policy fifo", "app-1", "good_share");
    double vtc = of_run("overload --policy vtc", "app-1", "good_share");
    CHECK_RANGE(fifo, 0, 0.2);
    CHECK_RANGE(vtc, 0, 0.2);
    CHECK_RANGE(of_run("overload", "app-1", "work_share"), 0.23, 0.27);
    CHECK_RANGE(of_run("overload", "all", "queue_timeout") + of_run("overload", "all", "refused"),
                1000, 2000);
    CHECK_RANGE(
        of_run("overload --set backend.replicas=8 --set upstreams.backend.max_in_flight=384",
               "app-1", "good_share"),
        0.99, 1);
}

static void scenario__noisy__a_fair_order_takes_the_neighbour_away(void **state)
{
    (void)state;
    CHECK_RANGE(of_run("noisy", "app-1", "good_share"), 0, 0.3);
    CHECK_RANGE(of_run("noisy --policy vtc", "app-1", "good_share"), 0.99, 1);
    CHECK_RANGE(of_run("noisy --policy drr-cost", "app-1", "good_share"), 0.99, 1);
    /* And costs nothing: as much is served in all. */
    double fifo = of_run("noisy", "all", "tokens_per_s");
    CHECK_RANGE(of_run("noisy --policy vtc", "all", "tokens_per_s") / fifo, 0.97, 1.03);
}

static void scenario__limits__requests_miss_the_agent_and_tokens_do_not(void **state)
{
    (void)state;
    CHECK_INT(of_run("request-limits", "agent", "refused"), 0);
    CHECK_RANGE(of_run("request-limits", "app-1", "rate_limit_exceeded"), 20, 200);
    CHECK_RANGE(of_run("token-limits", "agent", "rate_limit_exceeded"), 100, 200);
    CHECK_INT(of_run("token-limits", "app-1", "refused"), 0);
    CHECK_INT(of_run("token-limits", "app-3", "refused"), 0);
}

static void scenario__lanes__a_floor_keeps_the_job_going(void **state)
{
    (void)state;
    double floor = of_run("lanes", "job", "queue_wait_p99_s");
    double none = of_run("lanes --set lanes.batch.floor=0", "job", "queue_wait_p99_s");
    CHECK_MSG(none > 1.3 * floor, "%g, without %g", floor, none);
    CHECK_MSG(of_run("lanes", "app-1", "queue_wait_p95_s") >
                  of_run("lanes --set lanes.batch.floor=0", "app-1", "queue_wait_p95_s"),
              "what the job gets, the apps wait for");
    double equal = of_run("lanes --set tenants.job.lane=interactive", "app-1", "good_share");
    CHECK_RANGE(equal, 0, of_run("lanes", "app-1", "good_share"));
}

static void scenario__budget__a_spent_third_hurts_nobody_else(void **state)
{
    (void)state;
    json_t *all = run_json("$W lab budget --json", 0);
    CHECK_RANGE(figure(all, "team-a", "budget_exhausted"), 300, 500);
    CHECK_RANGE(figure(all, "team-c", "budget_exhausted"), 50, 200);
    CHECK_INT(figure(all, "team-b", "refused"), 0);
    size_t i;
    json_t *scope;
    json_array_foreach(json_object_get(all, "budgets"), i, scope)
        CHECK(json_integer_value(json_object_get(scope, "committed_tokens")) <=
              json_integer_value(json_object_get(scope, "granted_tokens")));
    json_decref(all);
}

static void scenario__failing__the_breaker_saves_all_but_what_was_under_way(void **state)
{
    (void)state;
    CHECK_RANGE(of_run("failing", "all", "failed"), 1, 60);
    CHECK_RANGE(of_run("failing", "run", "open_s"), 25, 60);
    CHECK_RANGE(of_run("failing --set upstreams.main.breaker.failures=0,"
                       "upstreams.main.breaker.failure_percent=0",
                       "all", "failed"),
                200, 600);
}

static void scenario__retry_storm__waiting_serves_whom_refusing_loses(void **state)
{
    (void)state;
    double sent = of_run("retry-storm", "app-1", "sent");
    CHECK_RANGE(of_run("retry-storm", "app-1", "rate_limit_exceeded") / sent, 0.5, 2);
    CHECK_RANGE(of_run("retry-storm", "app-1", "refused") / sent, 0.1, 0.4);
    json_t *all = run_json("$W lab retry-storm --set tenants.app-1.limits.over=wait --json", 0);
    CHECK(figure(all, "app-1", "finished") == sent);
    CHECK_INT(figure(all, "app-1", "retries"), 0);
    CHECK_RANGE(figure(all, "app-1", "good_share"), 0.99, 1);
    json_decref(all);
}

static void scenario__adaptive__the_queue_stands_where_an_order_helps(void **state)
{
    (void)state;
    double found = of_run("adaptive", "app", "first_token_p95_s");
    double fixed =
        of_run("adaptive --set upstreams.backend.adaptive.min=0", "app", "first_token_p95_s");
    CHECK_MSG(fixed > 3 * found, "%g, fixed %g", found, fixed);
    CHECK_RANGE(of_run("adaptive", "run", "in_flight_max"), 40, 200);
}

/* ---- seeds and differences ---- */

static void lab__seeds__are_the_mean_of_single_runs(void **state)
{
    (void)state;
    double sum = 0, values[4], squares = 0;
    for (int i = 0; i < 4; i++) {
        char flags[64];
        snprintf(flags, sizeof flags, "noisy --seed %d", 5 + i);
        values[i] = of_run(flags, "app-2", "tokens_per_s");
        sum += values[i];
    }
    for (int i = 0; i < 4; i++)
        squares += (values[i] - sum / 4) * (values[i] - sum / 4);
    json_t *all = run_json("$W lab noisy --seed 5 --seeds 4 --json", 0);
    json_t *mean =
        json_object_get(json_object_get(json_object_get(all, "tenants"), "app-2"), "tokens_per_s");
    CHECK_INT(json_integer_value(json_object_get(mean, "runs")), 4);
    CHECK(fabs(json_number_value(json_object_get(mean, "mean")) - sum / 4) < 1e-6);
    CHECK(fabs(json_number_value(json_object_get(mean, "half_width_95")) -
               3.1824 * sqrt(squares / 3 / 4)) < 1e-6);
    json_decref(all);
}

/* The pair of one tenant and figure in a difference. */
static json_t *find_pair(const json_t *all, const char *tenant, const char *key)
{
    size_t i;
    json_t *pair;
    json_array_foreach(
        json_object_get(all, "differences"), i,
        pair) if (strcmp(json_string_value(json_object_get(pair, "tenant")), tenant) == 0 &&
                  strcmp(json_string_value(json_object_get(pair, "figure")), key) == 0) return pair;
    fail_msg("no %s of %s", key, tenant);
    return NULL;
}

static void lab__a_difference__is_of_the_same_traffic(void **state)
{
    (void)state;
    double fifo = of_run("--policy fifo", "app-1", "queue_wait_p95_s");
    double vtc = of_run("--policy vtc", "app-1", "queue_wait_p95_s");
    json_t *all = run_json("$W lab --diff scheduler=fifo scheduler=vtc --json", 0);
    json_t *pair = find_pair(all, "app-1", "queue_wait_p95_s");
    CHECK(json_number_value(json_object_get(pair, "a")) == fifo);
    CHECK(json_number_value(json_object_get(pair, "b")) == vtc);
    CHECK(json_number_value(json_object_get(json_object_get(pair, "difference"), "mean")) ==
          vtc - fifo);
    pair = find_pair(all, "agent", "sent");
    CHECK(json_number_value(json_object_get(pair, "a")) ==
          json_number_value(json_object_get(pair, "b")));
    json_decref(all);

    /* A setup against itself differs in nothing, over many seeds neither. */
    all = run_json("$W lab --diff default default --seeds 3 --json", 0);
    size_t i;
    json_array_foreach(json_object_get(all, "differences"), i, pair)
    {
        json_t *mean = json_object_get(json_object_get(pair, "difference"), "mean");
        CHECK(json_is_null(mean) || json_number_value(mean) == 0);
    }
    CHECK(i > 50);
    json_decref(all);
}

/* ---- recordings and pictures ---- */

static void lab__a_recording__is_a_trace_that_sends_the_same(void **state)
{
    (void)state;
    json_t *first = run_json("$W lab noisy --policy vtc --record $D/r.csv --json", 0);
    CHECK_INT(run("head -1 $D/r.csv; stat -c %a $D/r.csv"), 0);
    CHECK(strstr(run_out, "#weir recording 1") && strstr(run_out, "\n600\n"));
    CHECK(figure(first, "all", "refused") > 0); /* overloaded: refused ones have no tokens there */
    json_decref(first);
    first = run_json(
        "$W lab noisy --policy vtc --set traffic.batch.rate=5/s --record $D/r.csv --json", 0);
    json_t *again = run_json("$W lab noisy --policy vtc --trace $D/r.csv --json 2>/dev/null", 0);
    const char *tenants[] = {"app-1", "app-2", "app-3", "batch", "all"};
    for (size_t i = 0; i < WEIR_COUNT(tenants); i++) {
        CHECK(figure(first, tenants[i], "sent") == figure(again, tenants[i], "sent"));
        CHECK(figure(first, tenants[i], "finished") == figure(again, tenants[i], "finished"));
        CHECK(figure(first, tenants[i], "work_share") == figure(again, tenants[i], "work_share"));
    }
    json_decref(first);
    json_decref(again);
}

static void lab__a_picture__is_well_formed(void **state)
{
    (void)state;
    const char *scenarios[] = {"default", "noisy", "failing", "lanes"};
    for (size_t i = 0; i < WEIR_COUNT(scenarios); i++) {
        char line[512];
        snprintf(line, sizeof line,
                 "$W lab %s --svg - | python3 -c 'import sys, xml.etree.ElementTree as E\n"
                 "root = E.fromstring(sys.stdin.buffer.read())\n"
                 "texts = [e.text for e in root.iter(\"{http://www.w3.org/2000/svg}text\")]\n"
                 "print(\"Longest wait in the queue\" in texts, \"Refused requests\" in texts)'",
                 scenarios[i]);
        CHECK_INT(run(line), 0);
        bool has_refusals =
            strcmp(scenarios[i], "noisy") == 0 || strcmp(scenarios[i], "failing") == 0;
        CHECK_MSG(strcmp(run_out, has_refusals ? "True True\n" : "True False\n") == 0 ||
                      strcmp(scenarios[i], "failing") == 0,
                  "%s: %s", scenarios[i], run_out);
    }
}

/* ---- enough ---- */

static void lab__an_interrupt__shows_what_there_is(void **state)
{
    (void)state;
    /* A day of traffic, far more than is run before the signal comes. */
    CHECK_INT(run("$W lab noisy --set traffic.time=24h --record $D/stop.csv > $D/o 2>&1 & p=$!; "
                  "while ! grep -q tenant $D/stop.csv 2>/dev/null; do :; done; "
                  "kill -INT $p; wait $p; s=$?; cat $D/o; exit $s"),
              1);
    CHECK_MSG(strstr(run_out, "Stopped before its end") && strstr(run_out, "app-1"), "%.300s",
              run_out);
    /* Of many, those that are over: as many of each side. */
    CHECK_INT(run("$W lab --diff scheduler=fifo scheduler=vtc --seeds 10000 > $D/o 2> $D/e & p=$!; "
                  "for i in 1 2 3 4 5 6 7 8 9 10; do $W lab --seeds 2 > /dev/null; done; "
                  "kill -INT $p; wait $p; s=$?; cat $D/e $D/o; exit $s"),
              1);
    CHECK_MSG(strstr(run_out, "stopped after ") && strstr(run_out, " of 10000 seeds") &&
                  strstr(run_out, "app-1"),
              "%.300s", run_out);
    /* The second ends it at once: here while nobody reads what it prints. */
    CHECK_INT(
        run("mkfifo $D/f; $W lab --series --set traffic.time=10m > $D/f & p=$!; exec 3< $D/f; "
            "read -r line <&3; while kill -INT $p 2> /dev/null; do :; done; wait $p"),
        130);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lab__each_command_line__says_what_it_must),
        cmocka_unit_test(lab__the_default_scenario__comes_to_the_same_as_ever),
        cmocka_unit_test(lab__two_runs__print_the_same_bytes),
        cmocka_unit_test(scenario__default__apps_keep_their_goal_while_it_is_crowded),
        cmocka_unit_test(scenario__overload__no_order_helps),
        cmocka_unit_test(scenario__noisy__a_fair_order_takes_the_neighbour_away),
        cmocka_unit_test(scenario__limits__requests_miss_the_agent_and_tokens_do_not),
        cmocka_unit_test(scenario__lanes__a_floor_keeps_the_job_going),
        cmocka_unit_test(scenario__budget__a_spent_third_hurts_nobody_else),
        cmocka_unit_test(scenario__failing__the_breaker_saves_all_but_what_was_under_way),
        cmocka_unit_test(scenario__retry_storm__waiting_serves_whom_refusing_loses),
        cmocka_unit_test(scenario__adaptive__the_queue_stands_where_an_order_helps),
        cmocka_unit_test(lab__seeds__are_the_mean_of_single_runs),
        cmocka_unit_test(lab__a_difference__is_of_the_same_traffic),
        cmocka_unit_test(lab__a_recording__is_a_trace_that_sends_the_same),
        cmocka_unit_test(lab__a_picture__is_well_formed),
        cmocka_unit_test(lab__an_interrupt__shows_what_there_is),
    };
    return cmocka_run_group_tests(tests, run_setup, run_teardown);
}
