/* `weir sweep`, run as a person would, against the mock. */
#include "cli/run.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>

#include "core/base.h"
#include "cli/tls.h"
#include "support/check.h"
#include "support/mock_child.h"

static struct weir_mock_config plain(void)
{
    struct weir_mock_config config = weir_mock_config_default();
    config.plain = true;
    return config;
}

static void usage__what_is_wrong__is_said_before_anything_is_sent(void **state)
{
    (void)state;
    static const struct run_row rows[] = {
        {"$W sweep --help", 0, "weir sweep http://127.0.0.1:8767 --model mock"},
        {"$W sweep 2>&1", 2, "which endpoint?"},
        {"$W sweep ftp://h --model m 2>&1", 2, "http:// or https://"},
        {"$W sweep http://u:p@h --model m 2>&1", 2, "weir sweep: "},
        {"$W sweep http://h 2>&1", 2, "which model? --model NAME"},
        {"$W sweep http://h/v1/embeddings --model m 2>&1", 2, "give its body with --payload"},
        {"$W sweep http://h/v1/models --model m 2>&1", 2, "/v1/models takes no prompt"},
        {"$W sweep http://h/v1/messages/count_tokens --model m 2>&1", 2, "takes no prompt"},
        {"$W sweep http://h --model m --api soap 2>&1", 2, "chat, completions, responses or"},
        {"$W sweep http://h --model m --levels 4,2 2>&1", 2, "must rise, and 2 comes after 4"},
        {"$W sweep http://h --model m --levels 1,x 2>&1", 2, "numbers from 1 to 20000"},
        {"$W sweep http://h --model m --levels 1,20 --requests 59 2>&1", 2, "takes 60 or more"},
        {"$W sweep http://h --model m --clients a 2>&1", 2, "as in a=40,b=1, not 'a'"},
        {"$W sweep http://h --model m --clients a=1,a=2 2>&1", 2, "names a twice"},
        {"$W sweep http://h --model m --clients a=1 2>&1", 2, "wants two or more"},
        {"$W sweep http://h --model m --clients a=1,b=x 2>&1", 2, "not 'x'"},
        {"$W sweep http://h --model m --clients a=1,b=2 --levels 3 2>&1", 2, "give one of them"},
        {"$W sweep http://h --model m --clients \"$(seq -f c%g=5000 -s , 13)\" 2>&1", 2,
         "keep 65000 in flight together; 60000 is most"},
        {"K=k $W sweep http://h --model m --levels 20000 $(printf ' --key-env K%.0s' 1 2 3 4) 2>&1",
         2, "keep 80000 in flight together"},
        {"$W sweep http://h --model m --key-env NOT_THERE 2>&1", 2, "has no NOT_THERE"},
        {"$W sweep http://h --model m --key-env sk-Pasted 2>&1 | grep -c 'no such variable'", 0,
         "1"},
        {"$W sweep http://h --model '' 2>&1", 2, "which model?"},
        {"$W sweep http://h --model m --timeout 3 2>&1", 2, "as in 30s, not '3'"},
        {"$W sweep http://h --model m --errors 101 2>&1", 2, "from 0 to 100"},
        {"$W sweep http://h --payload $D/none.json 2>&1", 2, "none.json"},
        {"echo '{' > $D/bad.json; $W sweep http://h --payload $D/bad.json 2>&1", 2, "bad.json"},
        {"$W sweep http://h --payload $D/bad.json --model m 2>&1", 2, "--payload has its own"},
        {"$W sweep http://h --model m --against $D/none.json 2>&1", 2, "none.json"},
        {"echo '{}' > $D/odd.json; $W sweep http://h --model m --against $D/odd.json 2>&1", 2,
         "this is not what"},
        {"$W sweep http://h --model m --html $D/none/x.html 2>&1", 2, "weir sweep: --html: "},
        {"$W sweep http://h --model m --html $D/none/x.html 2>&1", 2,
         "/none/x.html cannot be written: No such file"},
        {"$W sweep http://h --model m --json --csv - 2>&1", 2, "--json and --csv - both want stan"},
        {"$W sweep http://h --model m --csv - --html - 2>&1", 2, "--csv and --html - both want"},
        {"$W sweep http://h --model m --csv $D/o --svg $D/o 2>&1", 2, "both want"},
        {"$W sweep http://h --model m --dry-run 2>&1", 0,
         "818 requests at most (2 to warm up, then 7 levels from 1 to 64 in flight)"},
        {"$W sweep http://h --model m --dry-run --prompt 50 --output 10 --levels 1 2>&1", 0,
         "about 1,700 input and at most 340 output tokens in all"},
        {"K=sk-secret $W sweep http://h --model m --key-env K --dry-run 2>&1 | grep -c secret", 1,
         "0"},
    };
    run_rows(rows, WEIR_COUNT(rows));
}

static void endpoint__that_misbehaves__ends_with_a_message_and_a_status(void **state)
{
    (void)state;
    static const struct {
        const char *fault, *said;
    } rows[] = {
        {"html", "web page"},         {"garbage", "not an answer"},
        {"redirect", "redirect"},     {"stall=head", "timeout"},
        {"stall=body", "timeout"},    {"reset=head", "reset"},
        {"reset=body", "cut"},        {"cut=2;end=tidy", "cut"},
        {"status=503", "status 503"}, {"status=401", "look at the key"},
        {"error=1", "error inside"},  {"status=429;retry-after=9", "asked to come again in 9 s"},
    };
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct weir_mock_config config = plain();
        config.fault = rows[i].fault;
        struct mock_child mock = mock_child_serve(&config);
        int status = run("$W sweep $U --model m --levels 1,2 --timeout 200ms 2>&1");
        CHECK_MSG(status == 3, "%s: status %d: %.300s", rows[i].fault, status, run_out);
        CHECK_MSG(strstr(run_out, rows[i].said) && strstr(run_out, "nothing was measured"),
                  "%s: %.400s", rows[i].fault, run_out);
        mock_child_stop(&mock);
    }
    struct weir_mock_config endless = plain(); /* each event in time, and there are too many */
    endless.plain_gap_ns = 20 * WEIR_NS_PER_MS;
    endless.output_tok = 9999;
    struct mock_child mock = mock_child_serve(&endless);
    CHECK_INT(run("$W sweep $U --model m --levels 1 --output 9999 --timeout 200ms 2>&1"), 3);
    CHECK_MSG(strstr(run_out, "total timeout x1: "), "%.400s", run_out);
    mock_child_stop(&mock);
    static const struct run_row nobody[] = {
        {"$W sweep http://127.0.0.1:1 --model m --json 2>&1 >$D/n.json", 3, "nobody listens"},
        {"$W sweep http://nowhere.invalid --model m --timeout 2s 2>&1", 3, "nothing was measured"},
    };
    run_rows(nobody, WEIR_COUNT(nobody));
    json_t *all = run_json("cat $D/n.json", 0); /* readable all the same */
    CHECK(json_is_false(json_object_get(all, "complete")));
    json_decref(all);
}

/* It begins to fail in the middle: what was measured before stays. */
static void endpoint__fails_later__keeps_the_levels_before(void **state)
{
    (void)state;
    struct weir_mock_config config = plain();
    config.latency_ns = 5 * WEIR_NS_PER_MS;
    config.in_flight_max = 3;
    struct mock_child mock = mock_child_serve(&config);
    json_t *all = run_json("$W sweep $U --model m --levels 1,2,8,16 --json 2>$D/err", 0);
    CHECK_INT(json_array_size(json_object_get(all, "levels")), 3); /* 16 was not tried */
    const json_t *knee = json_object_get(all, "knee"),
                 *last = json_array_get(json_object_get(all, "levels"), 2);
    CHECK_STR(json_string_value(json_object_get(knee, "result")), "refused");
    CHECK_INT(json_integer_value(json_object_get(knee, "max_in_flight")), 2);
    CHECK(json_integer_value(json_object_get(json_object_get(last, "not_ok"), "429")) > 0);
    CHECK(json_integer_value(json_object_get(last, "hints")) > 0);
    json_decref(all);
    static const struct run_row rows[] = {
        {"cat $D/err", 0, "stopped in level 8 (3 of 4): too much went wrong"},
        {"$W sweep $U --model m --levels 1,2,8 >$D/t 2>&1; cat $D/t", 0,
         "from 8 in flight on the endpoint refused"},
        {"cat $D/t", 0, "    max_in_flight: 2    # the most that"},
        {"cat $D/t", 0, "said when to come again: after"},
    };
    run_rows(rows, WEIR_COUNT(rows));
    mock_child_stop(&mock);
    config.in_flight_max = 0;
    config.fault = "status=500";
    config.fault_every = 4;
    mock = mock_child_serve(&config);
    CHECK_INT(run("$W sweep $U --model m --levels 1,2 2>&1"), 3);
    CHECK_MSG(strstr(run_out, "level 1 (1 of 2)"), "%.400s", run_out);
    mock_child_stop(&mock);
}

static void certificate__that_does_not_hold__is_named(void **state)
{
    (void)state;
    struct certs certs;
    static const struct run_row rows[] = {
        {"$W sweep $U --model m 2>&1", 3, "certificate"},
        {"$W sweep $U --model m --ca $D/none 2>&1", 2, "none"},
        {"$W sweep $U --model m --ca $CA --timeout 300ms 2>&1", 3,
         "timeout"}, /* it holds; a POST gets no answer */
    };
    tls_open(&certs);
    run_rows(rows, WEIR_COUNT(rows));
    tls_close(&certs);
}

/* (Of every command, also before anything was measured: stop_test.c.) */
static void ctrl_c__in_the_middle__leaves_what_was_measured(void **state)
{
    (void)state;
    struct weir_mock_config config = plain();
    config.latency_ns = 5 * WEIR_NS_PER_MS;
    struct mock_child mock = mock_child_serve(&config);
    CHECK_INT(run("cat >$D/wait.py <<'E'\n"
                  "import json, os, time, urllib.request as u\n"
                  "stats = os.environ['U'] + '/mock/stats'\n"
                  "while json.load(u.urlopen(stats))['requests'] < int(os.environ['N']):\n"
                  "    time.sleep(0.02)\n"
                  "E\n"),
              0);
    json_t *all = run_json("$W sweep $U --model m --levels 1,2 --requests 400000 --json 2>$D/err & "
                           "p=$!; N=40 timeout 30 python3 $D/wait.py && kill -INT $p; wait $p; "
                           "[ $? = 1 ]",
                           0);
    const json_t *levels = json_object_get(all, "levels"), *level = json_array_get(levels, 0);
    CHECK_INT(json_array_size(levels), 1);
    CHECK(json_integer_value(json_object_get(level, "ok")) > 20);
    CHECK(json_is_real(json_object_get(level, "p50_ms")));
    CHECK(json_is_false(json_object_get(all, "complete")));
    json_decref(all);
    CHECK_INT(run("cat $D/err"), 0);
    CHECK_MSG(strstr(run_out, "stopped by hand in level 1"), "%s", run_out);
    mock_child_stop(&mock);
}

static void forms__json_csv_svg_html__agree_and_carry_the_facts(void **state)
{
    (void)state;
    struct weir_mock_config config = plain();
    config.latency_ns = 3 * WEIR_NS_PER_MS;
    config.key = "sk-right-0123456789";
    struct mock_child mock = mock_child_serve(&config);
    CHECK(setenv("GOOD", config.key, 1) == 0);
    json_t *all =
        run_json("$W sweep $U --model m --api messages --key-env GOOD --levels 1,3 --json "
                 "--csv $D/s.csv --svg $D/s.svg --html $D/s.html --note 'RPM \"<500>\"' "
                 "2>/dev/null | tee $D/s.json",
                 0);
    CHECK_INT(json_integer_value(json_object_get(all, "requests_sent")), 2 + 32 + 32);
    CHECK_INT(json_integer_value(json_object_get(all, "requests_at_most")), 2 + 32 + 32);
    CHECK_STR(json_string_value(json_object_get(all, "host")), "127.0.0.1");
    CHECK_STR(json_string_value(json_object_get(all, "note")), "RPM \"<500>\"");
    CHECK_INT(json_string_length(json_object_get(json_object_get(all, "payload"), "sha256")), 64);
    CHECK_INT(json_array_size(json_object_get(all, "levels")), 2);
    CHECK(json_is_true(json_object_get(all, "complete")));
    json_decref(all);
    static const struct run_row rows[] = {
        {"python3 -c \"import urllib.request as u; print(u.urlopen('$U/mock/stats').read())\"", 0,
         "\"requests\":66,"}, /* not one more */
        {"wc -l < $D/s.csv", 0, "3"},
        {"cat $D/s.csv", 0, ",\"RPM \"\"<500>\"\"\""},
        {"cat $D/s.html", 0, "RPM \"&lt;500&gt;\""},
        {"cat $D/s.*", 0, "<svg"},
        {"grep -l sk-right $D/s.*; true", 0, ""},
        {"python3 -c \"import xml.etree.ElementTree as E; E.parse('$D/s.svg')\"", 0, ""},
        {"$W sweep $U --model m --api messages --key-env GOOD --levels 1,3 --against $D/s.json "
         "2>/dev/null",
         0, "max_in_flight: then"},
        {"$W sweep $U --model other --api messages --key-env GOOD --levels 2 --against $D/s.json "
         "2>/dev/null",
         0, "ANOTHER payload"},
        {"$W sweep $U --model m --whole --key-env GOOD --levels 1 --csv - 2>/dev/null | head -1", 0,
         "begun,host,payload_sha256"},
        {"$W sweep $U --model m --levels 1 2>&1", 3, "look at the key"},
        {"$W sweep $U --model m --key-env GOOD --levels 1 --csv /dev/full 2>&1", 3,
         "/dev/full cannot be written: No space left"},
        {"grep -rl sk-right $D/s.csv $D/s.svg $D/s.html $D/s.json", 1, ""},
    };
    run_rows(rows, WEIR_COUNT(rows));
    mock_child_stop(&mock);
}

static void payload__from_a_file__is_sent_as_it_is(void **state)
{
    (void)state;
    struct weir_mock_config config = plain();
    struct mock_child mock = mock_child_serve(&config);
    static const struct run_row rows[] = {
        {"printf '{\"model\": \"mine\", \"stream\":true,\"max_tokens\":7,\"messages\":[{\"role\":"
         "\"user\",\"content\":\"hi\"}]}' > $D/p.json; $W sweep $U --payload $D/p.json --levels 1 "
         "2>&1",
         0, "mine, streamed"},
        {"$W sweep $U --payload $D/p.json --levels 1 --dry-run 2>&1", 0,
         "at most 238 output tokens"},
        {"python3 -c \"import json,hashlib,sys,os; print(hashlib.sha256(open('$D/p.json','rb').read"
         "()).hexdigest())\" > $D/sum; $W sweep $U --payload $D/p.json --levels 1 --json "
         "2>/dev/null "
         "| grep -c \"$(cat $D/sum)\"",
         0, "1"},
    };
    run_rows(rows, WEIR_COUNT(rows));
    mock_child_stop(&mock);
}

static const char *failure(const char *line, char out[64])
{
    json_t *all = run_json(line, 0);
    const json_t *verdict = json_object_get(all, "verdict");
    snprintf(out, 64, "%s, limits %s", json_string_value(json_object_get(verdict, "failure")),
             json_string_value(json_object_get(verdict, "limits")));
    json_decref(all);
    return out;
}

/* (What is said of each kind of endpoint: sweep_exact_test.c.) */
static void clients__unequal__the_failure_is_named_in_every_form(void **state)
{
    (void)state;
    char got[64];
    struct weir_mock_config config = weir_mock_config_default();
    config.replicas = 1;
    config.sequences = 2;
    config.step_ns = 2 * WEIR_NS_PER_MS;
    config.step_sequence_ns = 0;
    struct mock_child mock = mock_child_serve(&config);
    /* 25 for 2 places, of which b has a 25th: far beyond both lines, however busy this machine is. */
    CHECK_STR(
        failure(
            "$W sweep $U --model m --output 2 --prompt 1 --clients a=24,b=1 --requests 75 --json "
            "--html $D/c.html --csv $D/c.csv 2>/dev/null",
            got),
        "overload and unfairness, limits one_key");
    static const struct run_row rows[] = {
        {"cat $D/c.html", 0, "<dt>Which failure</dt><dd>overload and unfairness"},
        {"wc -l < $D/c.csv", 0, "6"}, /* titles, one at a time, two alone, two together */
    };
    run_rows(rows, WEIR_COUNT(rows));
    mock_child_stop(&mock);
}

/* The same unequal clients before the same endpoint, with a gateway between: it is overloaded as
 * before, and fair. */
static void clients__before_a_gateway__are_treated_fairly(void **state)
{
    (void)state;
    char got[64];
    struct weir_mock_config config = weir_mock_config_default();
    config.replicas = 1;
    config.sequences = 2;
    config.step_ns = 3 * WEIR_NS_PER_MS;
    config.step_sequence_ns = 0;
    struct mock_child mock = mock_child_serve(&config);
    CHECK_INT(run("printf 'listen: 127.0.0.1:0\\nadmin: 127.0.0.1:0\\nupstreams: [{name: m, url: "
                  "\"%s\", max_in_flight: 2}]\\n' $U >$D/g.yaml; $W key new heavy 2>$D/e >$D/k1 && "
                  "$W key new light 2>$D/e >$D/k2"),
              0);
    CHECK_INT(run("timeout 100 $W serve -c $D/g.yaml >$D/g.log 2>&1 & echo $! >$D/g.pid; "
                  "for i in $(seq 300); do grep -q 'serves http' $D/g.log && break; sleep 0.02; "
                  "done; sed -n 's/.*serves \\(http[^ ]*\\) before.*/\\1/p' $D/g.log"),
              0);
    run_out[strcspn(run_out, "\n")] = '\0';
    CHECK_MSG(strncmp(run_out, "http://", 7) == 0, "%.200s", run_out);
    CHECK(setenv("U", run_out, 1) == 0);
    /* 25 for 2 places again. */
    CHECK_STR(failure("A=$(cat $D/k1) B=$(cat $D/k2) $W sweep $U --model m --output 2 --prompt 1 "
                      "--clients a=24,b=1 --requests 75 --key-env A --key-env B --json 2>/dev/null",
                      got),
              "overload, limits not_met");
    CHECK_INT(run("kill $(cat $D/g.pid)"), 0);
    mock_child_stop(&mock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(usage__what_is_wrong__is_said_before_anything_is_sent),
        cmocka_unit_test(endpoint__that_misbehaves__ends_with_a_message_and_a_status),
        cmocka_unit_test(endpoint__fails_later__keeps_the_levels_before),
        cmocka_unit_test(certificate__that_does_not_hold__is_named),
        cmocka_unit_test(ctrl_c__in_the_middle__leaves_what_was_measured),
        cmocka_unit_test(forms__json_csv_svg_html__agree_and_carry_the_facts),
        cmocka_unit_test(payload__from_a_file__is_sent_as_it_is),
        cmocka_unit_test(clients__unequal__the_failure_is_named_in_every_form),
        cmocka_unit_test(clients__before_a_gateway__are_treated_fairly),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, run_setup, run_teardown);
}
