/* weir replay, run as a person would: what it refuses, what it says of endpoints that are none, what a
 * stop leaves, and a recording that comes back as it was. */
#include "support/check.h"
#include "support/mock_child.h"

#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "cli/run.h"
#include "cli/tls.h"
#include "trace/trace_file.h"

#define KEY "wk_this-is-a-secret-0123456789"

static int setup(void **state)
{
    return run_setup(state) || setenv("KEY", KEY, 1) || setenv("EMPTY", "", 1);
}

static struct mock_child mock_start(const struct weir_mock_config *config)
{
    char port[8];
    struct mock_child mock = mock_child_start(config);
    snprintf(port, sizeof port, "%u", mock.port);
    setenv("P", port, 1);
    return mock;
}

/* ---- what needs no endpoint ---- */

#define DRY " http://h --model m --dry-run 2>&1"

static const struct {
    const char *line;
    int status;
    const char *said;
} rows[] = {
    {"$W replay --help", 0, "usage: weir replay TRACE URL [flags]"},
    {"$W replay --help | grep -c '^  weir replay'", 0, "5\n"}, /* examples first */
    {"$W --help", 0, "replay    send recorded traffic to an endpoint"},
    /* Every form of trace, and what it would cost. */
    {"$W replay $T/traces/arena27.csv" DRY, 0,
     "1,500 requests of 27 tenants within 600.0 s to http://h/v1/chat/completions, about 204,398 "
     "prompt and "
     "384,297 output tokens"},
    {"$W replay $T/traces/azure_code.csv.gz" DRY, 0, "8,819 requests of 1 tenant within"},
    {"$W replay $T/traces/mooncake_synthetic.csv.gz" DRY, 0, "3,993 requests of 1 tenant within"},
    {"$W replay $T/traces/recording.csv" DRY, 0, "5 requests of 3 tenants within 108.9 s"},
    {"$W replay $T/traces/arena27_measured.csv.gz --scheduler vtc" DRY, 0,
     "requests of 27 tenants within"},
    {"$W replay $T/traces/arena27.csv --speed 2.5" DRY, 0, "within 240.0 s"},
    {"$W replay $T/traces/arena27.csv --duration 10s" DRY, 0, "within 9."},
    {"$W replay $T/traces/arena27.csv --limit 7" DRY, 0, " 7 requests of"},
    {"$W replay $T/traces/arena27.csv --limit 1" DRY, 0, " 1 request of 1 tenant within 0.0 s"},
    {"$W replay $T/traces/arena27.csv" DRY, 0, "all tenants are sent with no key"},
    {"$W replay $T/traces/arena27.csv --key-env KEY" DRY, 0,
     "all tenants are sent with the same key"},
    {"$W replay $T/traces/arena27.csv https://h/base/v1/messages --model m --dry-run 2>&1", 0,
     "to https://h/base/v1/messages, "},
    {"$W replay $T/traces/arena27.csv http://h --api responses --model m --dry-run 2>&1", 0,
     "to http://h/v1/responses, "},
    /* What is refused. */
    {"$W replay 2>&1", 2, "give a trace and a URL"},
    {"$W replay $T/traces/arena27.csv 2>&1", 2, "give a trace and a URL"},
    {"$W replay $T/traces/arena27.csv h:80 --model m 2>&1", 2, "the URL must begin with http://"},
    {"$W replay $T/traces/arena27.csv http://me:sesame@h --model m 2>&1 | grep -v sesame", 0,
     "give the key by an environment variable"},
    {"$W replay $T/traces/arena27.csv http://h/v1/embeddings --model m 2>&1", 2,
     "takes no prompts"},
    {"$W replay $T/traces/arena27.csv http://h 2>&1", 2,
     "does not say which model each request is for: add --model NAME"},
    {"$W replay $T/traces/recording.csv http://h 2>&1", 2,
     "add --model NAME"}, /* one is of "other" */
    {"$W replay $T/traces/arena27_measured.csv.gz" DRY, 2, "choose the scheduler: fcfs"},
    {"$W replay $D/none.csv" DRY, 2, "none.csv"},
    {": > $D/empty.csv; $W replay $D/empty.csv" DRY, 2, "empty.csv"},
    {"printf 'arrival_s,tenant,prompt_tokens,output_tokens\\n0,a,3000000,1\\n' > $D/long.csv; $W "
     "replay "
     "$D/long.csv" DRY,
     2, "long.csv has a prompt of 3000000 tokens; at most 2000000 can be sent"},
    {"$W replay $T/traces/arena27.csv --speed 0" DRY, 2,
     "--speed must be a number from 0.001 to 1000"},
    {"$W replay $T/traces/arena27.csv --speed fast" DRY, 2, "not 'fast'"},
    {"$W replay $T/traces/arena27.csv --stream maybe" DRY, 2, "--stream must be yes, no or trace"},
    {"$W replay $T/traces/arena27.csv --api rest" DRY, 2,
     "--api must be chat, completions, responses or"},
    {"$W replay $T/traces/arena27.csv --limit 0" DRY, 2, "--limit must be a whole number from 1"},
    {"$W replay $T/traces/arena27.csv --duration 0" DRY, 2, "--duration must be a time above 0"},
    {"$W replay $T/traces/arena27.csv --timeout 5" DRY, 2, "--timeout must be a time"},
    {"$W replay $T/traces/arena27.csv --max-in-flight 60001" DRY, 2, "from 1 to 60000"},
    {"$W replay $T/traces/arena27.csv --json --csv" DRY, 2, "one of --json and --csv"},
    {"$W replay $T/traces/arena27.csv --svg - --csv" DRY, 2, "both want standard output"},
    {"$W replay $T/traces/arena27.csv http://h --model '' 2>&1", 2, "--model must be a name"},
    {"$W replay $T/traces/arena27.csv --key-env NOT_THERE" DRY, 2,
     "the environment has no NOT_THERE"},
    {"$W replay $T/traces/arena27.csv --key-env EMPTY" DRY, 2,
     "the environment has no EMPTY, or it is empty"},
    {"$W replay $T/traces/arena27.csv --key-env sk-secret" DRY, 2,
     "has no such variable, or it is empty"},
    {"$W replay $T/traces/arena27.csv --key-env c01=sk-secret" DRY, 2, "has no such variable"},
    {"$W replay $T/traces/arena27.csv --key-env KEY --key-env KEY" DRY, 2, "can be given once"},
    {"$W replay $T/traces/arena27.csv --key-env c99=KEY" DRY, 2, "the trace has no tenant 'c99'"},
    {"$W replay $T/traces/arena27.csv --key-env c01=KEY --key-env c01=KEY" DRY, 2,
     "has a key already"},
    {"$W replay $T/traces/arena27.csv --key-env c01=KEY" DRY, 2, "has no key: add --key-env c"},
    {"$W replay $T/traces/arena27.csv --key-env c01=KEY --key-env KEY" DRY, 0, "1,500 requests"},
    {"B=$(printf 'sk-secret\\nx') $W replay $T/traces/arena27.csv http://h --model m --key-env B "
     "2>&1",
     2, "credential 1 is empty or holds white space"},
    {"$W replay $T/traces/arena27.csv http://h --model m --svg $D/none/x.svg 2>&1", 2,
     "x.svg cannot be written: No such file"},
    {"$W replay $T/traces/arena27.csv http://h --model m --record $D/none/x.csv 2>&1", 2,
     "x.csv cannot be written: No such file"},
    {"echo precious > $D/notes; $W replay $T/traces/arena27.csv http://h --model m --record "
     "$D/notes 2>&1; "
     "cat $D/notes",
     0, "precious"},
    {"cp $T/traces/recording.csv $D/r.csv; $W replay $D/r.csv http://127.0.0.1:1 --model m "
     "--record $D/r.csv 2>&1; "
     "cmp $D/r.csv $T/traces/recording.csv",
     0, "r.csv is the trace that is read"},
    {"$W replay $T/traces/arena27.csv https://h --model m --ca $D/none.pem 2>&1", 2, "none.pem"},
    /* Nobody there. */
    {"$W replay $T/traces/arena27.csv http://127.0.0.1:1 --model m --speed 1000 2>&1", 3,
     "50 x no connection: connect to 127.0.0.1:1: Connection refused\n  Look at host and port"},
    {"ulimit -n 300; $W replay $T/traces/arena27.csv http://127.0.0.1:1 --model m --speed 1000 "
     "2>&1",
     3, "no connection"}, /* the cap's default fits the descriptors there are */
    {"ulimit -n 300; $W replay $T/traces/arena27.csv http://127.0.0.1:1 --model m --max-in-flight "
     "1000 2>&1",
     2, "1000 requests at once need 1064 file descriptors"},
    {"$W replay $T/traces/arena27.csv http://no-such-host.invalid --model m --limit 3 --speed 1000 "
     "2>&1",
     3, "3 x no such host: "},
};

static void replay__each_command_line__says_what_it_must(void **state)
{
    (void)state;
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        int status = run(rows[i].line);
        CHECK_MSG(status == rows[i].status, "%s: %d, %.200s", rows[i].line, status, run_out);
        CHECK_MSG(strstr(run_out, rows[i].said), "%.200s: %.300s", rows[i].line, run_out);
        CHECK(!strstr(run_out, KEY) && !strstr(run_out, "sk-secret"));
    }
}

/* ---- endpoints that are none ---- */

static const struct {
    const char *fault, *flags;
    int status;
    const char *said;
} faults[] = {
    {"stall=head", "--timeout 200ms", 3,
     "head timeout: first byte of the answer: not within 0.200 s"},
    {"stall=body", "--timeout 200ms", 3,
     "idle timeout: next byte of the answer: not within 0.200 s"},
    {"reset=head", "", 3, "reset: connection to 127.0.0.1:"},
    {"reset=body", "", 3, "cut: connection to 127.0.0.1:"},
    {"cut=2;end=tidy", "", 3, "cut: status 200 with a stream that ended without its last word"},
    {"html", "", 3,
     "web page: status 200 with a web page where an answer of openai-chat was expected"},
    {"garbage", "", 3, "not an answer: status 200 with "},
    {"garbage", "--stream no", 3, "not an answer: status 200 with "},
    {"redirect", "", 3,
     "redirect: status 307 to http://127.0.0.1:1/elsewhere\n  Redirects are not followed"},
    {"status=401", "", 3, "4xx: status 401"},
    {"status=503", "--failures 0", 3, "not one of 30 requests was answered"},
    {"error=1", "", 3, "error inside: status 200 with an error inside"},
    {"gzip", "--stream no", 3, "not an answer: status 200 with a compressed body"},
    {"status=429;retry-after=3", "", 1, "not one of 30 requests was answered"},
};

static void replay__each_fault__ends_with_what_it_is_and_a_status(void **state)
{
    (void)state;
    for (size_t i = 0; i < WEIR_COUNT(faults); i++) {
        char line[400];
        struct weir_mock_config config = weir_mock_config_default();
        config.plain = true;
        config.fault = faults[i].fault;
        struct mock_child mock = mock_start(&config);
        snprintf(
            line, sizeof line,
            "$W replay $T/traces/arena27.csv http://127.0.0.1:$P --model m --speed 1000 --limit 30 "
            "--key-env KEY %s %s 2>&1",
            strstr(faults[i].flags, "--failures") ? "" : "--failures 8", faults[i].flags);
        int status = run(line);
        CHECK_MSG(status == faults[i].status, "%s: %d: %.900s", faults[i].fault, status, run_out);
        CHECK_MSG(strstr(run_out, faults[i].said), "%s: %s", faults[i].fault, run_out);
        CHECK_MSG(strstr(run_out, "Refused and failed:") && strstr(run_out, "\nall "), "%s",
                  run_out);
        CHECK(!strstr(run_out, KEY));
        mock_child_stop(&mock);
    }
    struct weir_mock_config config = weir_mock_config_default();
    config.plain = true;
    config.plain_gap_ns = 20 * WEIR_NS_PER_MS;
    config.output_tok = 9999;
    struct mock_child endless =
        mock_start(&config); /* each event in time, and there are too many */
    CHECK_INT(run("printf 'arrival_s,tenant,prompt_tokens,output_tokens\\n0,a,9,9999\\n0,a,9,9\\n' "
                  ">$D/long.csv; $W replay $D/long.csv http://127.0.0.1:$P --model m "
                  "--timeout 200ms --failures 1 2>&1"),
              3);
    CHECK_MSG(strstr(run_out, "1 x total timeout: "), "%s", run_out);
    CHECK_MSG(strstr(run_out, "2 of 2 were sent, and 0 of them cancelled"), "%s", run_out);
    mock_child_stop(&endless);
    config = weir_mock_config_default();
    struct mock_child mock = mock_start(&config); /* plain HTTP where TLS is expected */
    CHECK_INT(run("$W replay $T/traces/arena27.csv https://127.0.0.1:$P --model m --speed 1000 "
                  "--limit 30 "
                  "--failures 8 2>&1"),
              3);
    CHECK_MSG(strstr(run_out, " x TLS: TLS with 127.0.0.1"), "%s", run_out);
    mock_child_stop(&mock);
}

static void replay__a_certificate_that_does_not_hold__is_named(void **state)
{
    (void)state;
    struct certs certs;
    static const struct run_row certificates[] = {
        {"$W replay $T/traces/arena27.csv $U --model m --speed 1000 --limit 30 --failures 8 2>&1",
         3, "x TLS: "},
        {"$W replay $T/traces/arena27.csv $U --model m --speed 1000 --limit 30 --failures 8 2>&1",
         3, "certificate"},
        {"$W replay $T/traces/arena27.csv $U --model m --speed 1000 --limit 3 --ca $CA --timeout "
         "300ms 2>&1",
         3, "head timeout"}, /* it holds; a POST gets no answer */
    };
    tls_open(&certs);
    run_rows(certificates, WEIR_COUNT(certificates));
    tls_close(&certs);
}

/* ---- what comes out ---- */

static void replay__an_endpoint_that_answers__is_shown_in_every_form(void **state)
{
    (void)state;
    struct weir_mock_config config = weir_mock_config_default();
    config.plain = true;
    config.output_tok = 4096;
    config.key = KEY;
    struct mock_child mock = mock_start(&config);
    CHECK_INT(run("$W replay $T/traces/arena27.csv http://127.0.0.1:$P --model m --speed 1000 "
                  "--limit 100 "
                  "--key-env KEY --note 'limit: 5/s' --svg $D/a.svg --record $D/a.csv 2>&1"),
              0);
    CHECK_MSG(strstr(run_out, "100 of 100 requests sent") && strstr(run_out, "limit: 5/s"), "%s",
              run_out);
    CHECK(!strstr(run_out, KEY) && !strstr(run_out, "Refused and failed"));
    CHECK_INT(run("head -c 300 $D/a.svg; tail -c 20 $D/a.svg"), 0);
    CHECK_MSG(strstr(run_out, "<svg") && strstr(run_out, "</svg>"), "%s", run_out);
    CHECK_INT(run("$W lab $T/traces/arena.yaml --trace $D/a.csv 2>&1"),
              0); /* a recording is a trace */
    CHECK_INT(run("$W replay $T/traces/arena27.csv http://127.0.0.1:$P --model m --speed 1000 "
                  "--limit 100 "
                  "--key-env KEY --csv 2>/dev/null | sed -n '1p;$p'"),
              0);
    CHECK_MSG(strncmp(run_out, "tenant,planned,sent,ok,refused,failed,held,latency_p50_s,", 57) ==
                  0,
              "%s", run_out);
    CHECK_MSG(strstr(run_out, "\nall,100,100,100,0,0,0,0."), "%s", run_out);
    CHECK_INT(run("$W replay $T/traces/arena27.csv http://127.0.0.1:$P --model m --speed 1000 "
                  "--limit 100 "
                  "--key-env KEY --max-in-flight 2 --json 2>/dev/null"),
              0);
    json_t *root = json_loads(run_out, 0, NULL);
    CHECK_MSG(root, "%.300s", run_out);
    CHECK_STR(json_string_value(json_object_get(root, "end")), "done");
    CHECK_INT(json_integer_value(json_object_get(json_object_get(root, "all"), "ok")), 100);
    CHECK_INT(json_integer_value(json_object_get(root, "in_flight_peak")), 2);
    CHECK_MSG(
        strstr(json_string_value(json_object_get(root, "distortion")), "Raise --max-in-flight"),
        "%s", json_string_value(json_object_get(root, "distortion")));
    json_decref(root);
    mock_child_stop(&mock);
}

static void replay__stopped_by_ctrl_c__leaves_a_partial_result(void **state)
{
    (void)state;
    struct weir_mock_config config = weir_mock_config_default();
    config.plain = true;
    config.latency_ns = 30 * WEIR_NS_PER_S;
    struct mock_child mock = mock_start(&config);
    FILE *pipe = popen(
        "echo $$; exec $W replay $T/traces/arena27.csv http://127.0.0.1:$P --model m --record "
        "$D/stopped.csv 2>&1",
        "r");
    CHECK(pipe);
    CHECK(fgets(run_out, sizeof run_out, pipe));
    pid_t pid = (pid_t)atol(run_out);
    CHECK(pid > 1);
    CHECK(fgets(run_out, sizeof run_out,
                pipe)); /* the plan is said: from here on a signal stops the sending */
    CHECK_MSG(strstr(run_out, "1,500 requests"), "%s", run_out);
    CHECK(kill(pid, SIGINT) == 0);
    size_t used = fread(run_out, 1, sizeof run_out - 1, pipe);
    run_out[used] = '\0';
    int status = pclose(pipe);
    CHECK(WIFEXITED(status));
    CHECK_INT(WEXITSTATUS(status), 1);
    CHECK_MSG(strstr(run_out, "the result is a partial one") &&
                  strstr(run_out, "of 1,500 requests sent"),
              "%s", run_out);
    CHECK_INT(run("head -1 $D/stopped.csv"), 0);
    CHECK(strstr(run_out, "#weir recording 1 began "));
    mock_child_stop(&mock);
}

/* ---- a recording that comes back ---- */

struct gateway {
    FILE *pipe;
    pid_t pid;
};

/* A gateway with keys for ada and bob that records to $D/NAME; its URL in $G. */
static struct gateway gateway_start(const char *name)
{
    char line[900], *at;
    struct gateway g = {0};
    snprintf(line, sizeof line,
             "printf 'listen: 127.0.0.1:0\\nadmin: 127.0.0.1:0\\nledger: memory\\nupstreams: "
             "[{name: a, url: "
             "\"http://127.0.0.1:%%s\", models: [m]}]\\ntenants: [{name: ada}, {name: bob, limits: "
             "{requests: "
             "3/h, burst: 5, over: refuse}}]\\nrecord: {file: %s}\\n' $P > $D/weir.yaml; echo $$; "
             "exec $W serve -c $D/weir.yaml 2>&1",
             name);
    g.pipe = popen(line, "r");
    CHECK(g.pipe);
    CHECK(fgets(run_out, sizeof run_out, g.pipe));
    g.pid = (pid_t)atol(run_out);
    do
        CHECK_MSG(fgets(run_out, sizeof run_out, g.pipe), "the gateway does not start");
    while (!(at = strstr(run_out, "serves http://")));
    at += strlen("serves ");
    at[strcspn(at, " \n")] = '\0';
    setenv("G", at, 1);
    return g;
}

static void gateway_stop(struct gateway *g)
{
    CHECK(kill(g->pid, SIGTERM) == 0);
    while (fgets(run_out, sizeof run_out, g->pipe))
        continue;
    int status = pclose(g->pipe);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void load(const char *name, struct weir_trace *trace)
{
    char path[200], error_text[500];
    snprintf(path, sizeof path, "%s/%s", getenv("D"), name);
    CHECK_MSG(weir_trace_load(path, NULL, trace, error_text, sizeof error_text), "%s", error_text);
}

static const char *name_of(const struct weir_trace *trace, enum weir_trace_kind kind,
                           uint32_t index)
{
    return trace->names[kind][index];
}

#define PLAY " --key-env ada=ADA --key-env bob=BOB"

/* By what a request is, and only then by its time: on a busy machine two may change places. */
static int by_request(const void *a, const void *b)
{
    const struct weir_trace_entry *x = a, *y = b;
    if (x->outcome != y->outcome)
        return x->outcome < y->outcome ? -1 : 1;
    if (x->prompt_tok != y->prompt_tok)
        return x->prompt_tok < y->prompt_tok ? -1 : 1;
    return x->arrival_ns < y->arrival_ns ? -1 : x->arrival_ns > y->arrival_ns;
}

/* Compares b with a, request by request. late_max_ns: how much later one may have come. */
static void compare(const struct weir_trace *a, const struct weir_trace *b, uint64_t late_max_ns)
{
    CHECK_INT(a->count, b->count);
    for (size_t i = 0; i < a->count; i++) {
        const struct weir_trace_entry *x = &a->entries[i], *y = &b->entries[i];
        CHECK_STR(name_of(a, WEIR_TRACE_TENANT, x->tenant),
                  name_of(b, WEIR_TRACE_TENANT, y->tenant));
        CHECK_STR(name_of(a, WEIR_TRACE_LANE, x->lane), name_of(b, WEIR_TRACE_LANE, y->lane));
        CHECK_STR(name_of(a, WEIR_TRACE_MODEL, x->model), name_of(b, WEIR_TRACE_MODEL, y->model));
        CHECK_INT(x->is_stream, y->is_stream);
        CHECK_MSG(x->outcome == y->outcome && x->refusal == y->refusal && x->status == y->status,
                  "request %zu: status %u, then %u", i, x->status, y->status);
        CHECK_INT(x->prompt_tok, y->prompt_tok);
        CHECK_INT(x->output_tok, y->output_tok);
        uint64_t apart_ns = x->arrival_ns > y->arrival_ns ? x->arrival_ns - y->arrival_ns
                                                          : y->arrival_ns - x->arrival_ns;
        CHECK_MSG(apart_ns <= late_max_ns, "request %zu: %" PRIu64 " ns apart", i, apart_ns);
    }
}

static void replay__a_gateways_recording_sent_again__is_recorded_as_it_was(void **state)
{
    (void)state;
    struct weir_mock_config config = weir_mock_config_default();
    config.plain = true;
    config.output_tok = 4096;
    struct mock_child mock = mock_start(&config);
    /* 60 requests 20 ms apart, each of its own length. */
    CHECK_INT(run("awk 'BEGIN {print \"arrival_s,tenant,prompt_tokens,output_tokens\"; "
                  "for (i = 0; i < 60; i++) printf \"%.2f,%s,%d,%d\\n\", i / 50, i % 5 ? \"ada\" : "
                  "\"bob\", "
                  "50 + i, 2 + i / 5}' > $D/sent.csv; wc -l < $D/sent.csv"),
              0);
    CHECK_STR(run_out, "61\n");
    for (int i = 0; i < 2; i++) {
        CHECK_INT(run(i ? "$W key new bob --json" : "$W key new ada --json"), 0);
        char *key = strstr(run_out, "\"wk_");
        CHECK_MSG(key, "%s", run_out);
        key[1 + strcspn(key + 1, "\"")] = '\0';
        setenv(i ? "BOB" : "ADA", key + 1, 1);
    }
    struct gateway g = gateway_start("first.csv");
    CHECK_INT(run("$W replay $D/sent.csv $G --model m" PLAY " 2>&1"), 0);
    CHECK_MSG(strstr(run_out, "rate_limit_exceeded  weir"), "%s", run_out);
    CHECK(!strstr(run_out, getenv("ADA")) && !strstr(run_out, getenv("BOB")));
    gateway_stop(&g);
    g = gateway_start("second.csv");
    CHECK_INT(run("$W replay $D/first.csv $G --record $D/client.csv" PLAY " 2>&1"), 0);
    gateway_stop(&g);
    struct weir_trace sent, first, second, client;
    load("sent.csv", &sent);
    load("first.csv", &first);
    load("second.csv", &second);
    load("client.csv", &client);
    CHECK_INT(first.count, 60);
    uint32_t refused = 0;
    qsort(first.entries, first.count, sizeof *first.entries, by_request);
    qsort(second.entries, second.count, sizeof *second.entries, by_request);
    qsort(client.entries, client.count, sizeof *client.entries, by_request);
    for (size_t i = 0; i < first.count; i++) {
        const struct weir_trace_entry *is = &first.entries[i];
        refused += is->outcome == WEIR_TRACE_REFUSED;
        if (is->outcome == WEIR_TRACE_REFUSED)
            continue;
        CHECK_INT(is->outcome, WEIR_TRACE_FINISHED);
        CHECK(is->prompt_tok >= 50 && is->prompt_tok < 110); /* request n has 50 + n of them */
        const struct weir_trace_entry *was = &sent.entries[is->prompt_tok - 50];
        CHECK_INT(was->prompt_tok, is->prompt_tok);
        CHECK_INT(was->output_tok, is->output_tok);
        CHECK_STR(name_of(&sent, WEIR_TRACE_TENANT, was->tenant),
                  name_of(&first, WEIR_TRACE_TENANT, is->tenant));
    }
    CHECK_INT(refused, 12 - 5); /* bob's burst is five */
    compare(&first, &second, 500 * WEIR_NS_PER_MS);
    /* What the client wrote is what its gateway wrote; the lane it had from the trace. */
    compare(&second, &client, 500 * WEIR_NS_PER_MS);
    CHECK_INT(run("$W lab $D/weir.yaml --trace $D/client.csv 2>&1"), 0);
    /* Anthropic's errors have no code of their own: the reason is in the head. */
    g = gateway_start("third.csv");
    CHECK_INT(run("$W replay $D/sent.csv $G --api messages --speed 100 --limit 40 --model m" PLAY
                  " 2>&1"),
              0);
    CHECK_MSG(strstr(run_out, "rate_limit_exceeded  weir"), "%s", run_out);
    gateway_stop(&g);
    CHECK_INT(run("stat -c %a $D/client.csv"), 0);
    CHECK_STR(run_out, "600\n");
    weir_trace_free(&sent);
    weir_trace_free(&first);
    weir_trace_free(&second);
    weir_trace_free(&client);
    mock_child_stop(&mock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replay__each_command_line__says_what_it_must),
        cmocka_unit_test(replay__each_fault__ends_with_what_it_is_and_a_status),
        cmocka_unit_test(replay__a_certificate_that_does_not_hold__is_named),
        cmocka_unit_test(replay__an_endpoint_that_answers__is_shown_in_every_form),
        cmocka_unit_test(replay__stopped_by_ctrl_c__leaves_a_partial_result),
        cmocka_unit_test(replay__a_gateways_recording_sent_again__is_recorded_as_it_was),
    };
    return cmocka_run_group_tests(tests, setup, run_teardown);
}
