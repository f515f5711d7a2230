/* What `weir sweep` and `weir replay` leave for others to read: JSON, CSV, pages and pictures. */
#include "cli/run.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "core/base.h"
#include "support/check.h"
#include "support/mock_child.h"

static struct weir_mock_config plain(void)
{
    struct weir_mock_config config = weir_mock_config_default();
    config.plain = true;
    config.latency_ns = 2 * WEIR_NS_PER_MS;
    return config;
}

static double number(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    CHECK_MSG(json_is_number(value), "%s", name);
    return json_number_value(value);
}

static const char *text(const json_t *object, const char *name)
{
    const char *value = json_string_value(json_object_get(object, name));
    CHECK_MSG(value, "%s", name);
    return value;
}

#define SWEEP "$W sweep $U --model m --output 2 --prompt 1 "

/* One member of a comparison: what was, what is, and the change between them. */
static void check_pair(const json_t *run, const char *member, const json_t *then, const json_t *now)
{
    const json_t *both = json_object_get(run, member);
    CHECK(json_equal(json_object_get(both, "then"), json_object_get(then, member)));
    CHECK(json_equal(json_object_get(both, "now"), json_object_get(now, member)));
    double change = number(now, member) / number(then, member) - 1;
    CHECK_MSG(fabs(number(both, "change") - change) < 1e-9, "%s", member);
}

static void against__levels__are_compared_in_json_and_text(void **state)
{
    (void)state;
    struct weir_mock_config config = plain();
    struct mock_child mock = mock_child_serve(&config);
    json_t *then = run_json(SWEEP "--levels 1,2,4 --json 2>/dev/null | tee $D/then.json", 0);
    json_t *now = run_json(
        SWEEP "--levels 2,4,6 --json --against $D/then.json 2>/dev/null | tee $D/now.json", 0);
    CHECK(!json_object_get(then, "against"));
    const json_t *against = json_object_get(now, "against"),
                 *levels = json_object_get(against, "levels");
    CHECK_STR(text(against, "begun"), text(then, "begun"));
    CHECK_STR(text(against, "url"), text(then, "url"));
    CHECK(json_is_true(json_object_get(against, "same_payload")));
    CHECK_INT(json_array_size(levels), 2); /* 2 and 4 are in both */
    for (size_t i = 0; i < 2; i++) {
        const json_t *level = json_array_get(levels, i),
                     *old = json_array_get(json_object_get(then, "levels"), i + 1),
                     *new = json_array_get(json_object_get(now, "levels"), i);
        CHECK_INT(json_integer_value(json_object_get(level, "in_flight")), 2 + 2 * (int)i);
        check_pair(level, "p50_ms", old, new);
        check_pair(level, "p95_ms", old, new);
        check_pair(level, "requests_per_s", old, new);
        CHECK_INT(number(json_object_get(level, "refused"), "now"), 0);
    }
    CHECK_STR(text(json_object_get(against, "knee"), "now"),
              text(json_object_get(now, "knee"), "result"));
    CHECK_INT(number(json_object_get(against, "max_in_flight"), "then"),
              (int)number(json_object_get(then, "knee"), "max_in_flight"));
    json_decref(then);
    json_decref(now);
    static const struct run_row rows[] = {
        /* A comparison can be compared with, too. */
        {SWEEP "--levels 4 --against $D/now.json 2>/dev/null", 0, "max_in_flight: then"},
        {"$W sweep $U --model m --whole --levels 4 --json --against $D/now.json 2>/dev/null", 0,
         "\"same_payload\": false"},
        {SWEEP "--levels 3 --against $D/now.json 2>/dev/null", 0, "no level in common"},
        {SWEEP "--clients a=1,b=2 --against $D/now.json 2>&1", 2,
         "now.json: it has levels, and this sweep has clients: they cannot be compared"},
        {"echo '{\"kind\": \"weir sweep\", \"levels\": [7]}' >$D/odd.json; " SWEEP
         "--levels 2 --against $D/odd.json 2>&1",
         2, "this is not what `weir sweep URL --json` prints for levels"},
        {"echo '{\"kind\": \"weir sweep\", \"levels\": [{\"in_flight\": 2, \"p50_ms\": \"x\", "
         "\"not_ok\": 3}, {}], \"knee\": 8}' >$D/odd.json; " SWEEP
         "--levels 2 --against $D/odd.json --svg $D/odd.svg 2>/dev/null",
         0, "0 > 0"}, /* what is missing in it is a gap */
        {"echo '[' >$D/odd.json; " SWEEP "--levels 2 --against $D/odd.json 2>&1", 2,
         "odd.json: line"},
    };
    run_rows(rows, WEIR_COUNT(rows));
    mock_child_stop(&mock);
}

static void against__clients__are_compared_with_their_verdict(void **state)
{
    (void)state;
    struct weir_mock_config config = plain();
    config.latency_ns = 10 * WEIR_NS_PER_MS;
    config.in_flight_max = 6;
    config.fault = "retry-after-ms=20"; /* what it refuses may come again soon: sweeps obey that */
    struct mock_child mock = mock_child_serve(&config);
    json_t *then = run_json(SWEEP "--clients a=8,b=1,gone=1 --json 2>/dev/null | tee $D/c.json", 0);
    const json_t *client = json_array_get(json_object_get(then, "clients"), 0);
    CHECK_INT(json_array_size(json_object_get(then, "clients")), 3);
    CHECK_STR(text(client, "name"), "a");
    CHECK(number(json_object_get(json_object_get(client, "together"), "not_ok"), "429") > 0);
    mock_child_stop(&mock);
    config.in_flight_max = 0;
    config.fault = NULL;
    mock = mock_child_serve(&config);
    json_t *now = run_json(
        SWEEP "--clients b=1,a=4 --json --against $D/c.json --html $D/c.html --svg $D/c.svg "
              "2>/dev/null | tee $D/c2.json",
        0);
    const json_t *against = json_object_get(now, "against"),
                 *clients = json_object_get(against, "clients");
    CHECK_INT(json_array_size(clients), 2);
    const json_t *b = json_array_get(clients, 0), *a = json_array_get(clients, 1);
    CHECK_STR(text(a, "name"), "a");
    CHECK_INT(number(json_object_get(a, "in_flight"), "then"), 8);
    CHECK_INT(number(json_object_get(a, "in_flight"), "now"), 4);
    check_pair(json_object_get(b, "alone"), "p50_ms",
               json_object_get(json_array_get(json_object_get(then, "clients"), 1), "alone"),
               json_object_get(json_array_get(json_object_get(now, "clients"), 0), "alone"));
    const json_t *refused = json_object_get(json_object_get(a, "together"), "refused");
    CHECK(number(refused, "then") > 0 && (int)number(refused, "now") == 0);
    CHECK_STR(text(json_object_get(against, "failure"), "then"),
              text(json_object_get(then, "verdict"), "failure"));
    CHECK_STR(text(json_object_get(against, "failure"), "now"),
              text(json_object_get(now, "verdict"), "failure"));
    CHECK_STR(text(json_object_get(against, "failure"), "now"), "neither");
    json_decref(then);
    json_decref(now);
    static const struct run_row rows[] = {
        {SWEEP "--clients a=4,b=1 --against $D/c.json 2>/dev/null", 0, "a=8 > 4 together"},
        {SWEEP "--clients a=4,b=1 --against $D/c.json 2>/dev/null", 0, "now neither"},
        {SWEEP "--clients x=4,y=1 --against $D/c.json 2>/dev/null", 0, "no client in common"},
        {SWEEP "--levels 2 --against $D/c.json 2>&1", 2,
         "it has clients, and this sweep has levels"},
        {"cat $D/c.html", 0, "<dt>Compared with</dt>"},
        /* Names and values in the picture, of now and then. */
        {"for t in '>a=4<' '>b=1<' '>alone<' '>alone then<' '>together then<' ' refused<'; do grep "
         "-q \"$t\" "
         "$D/c.svg || echo \"no $t\"; done; echo end",
         0, "end"},
    };
    run_rows(rows, WEIR_COUNT(rows));
    CHECK_STR(run_out, "end\n");
    mock_child_stop(&mock);
}

static void forms__of_a_sweep__hold_what_was_measured_and_nothing_else(void **state)
{
    (void)state;
    struct weir_mock_config config = plain();
    struct mock_child mock = mock_child_serve(&config);
    static const struct run_row rows[] = {
        {SWEEP "--levels 1,8 --csv $D/f.csv --html $D/f.html --svg $D/f.svg --note plain "
               "2>$D/err >/dev/null; head -1 $D/f.csv",
         0, "begun,host,payload_sha256,client,run,in_flight,sent,ok,"},
        {"sed -n 2p $D/f.csv", 0, "Z,127.0.0.1,"}, /* quotes only where they must be */
        {"grep -c '\"' $D/f.csv", 1, "0"},
        {"tail -n 1 $D/f.csv", 0, ",,plain\n"},
        {"python3 -c \"import re; t = open('$D/f.html', encoding='utf-8').read(); "
         "print(re.findall('<td class=t>(.*?)</td>', t))\"",
         0, "['', '']\n"}, /* nothing went wrong */
        {"cat $D/f.html", 0, "<h1>weir sweep of 127.0.0.1</h1>"},
        {"grep -c 'class=\"t\"' $D/f.html", 1, "0"}, /* one title is enough */
        {"cat $D/f.svg", 0, "/v1/chat/completions,"},
        {SWEEP "--levels 3 --dry-run 2>&1", 0, "(2 to warm up, then 3 in flight)"},
    };
    run_rows(rows, WEIR_COUNT(rows));
    mock_child_stop(&mock);
}

static void hints__of_centuries__are_never(void **state)
{
    (void)state;
    struct weir_mock_config config = plain();
    config.fault = "status=429;retry-after=9999999999";
    struct mock_child mock = mock_child_serve(&config);
    CHECK_INT(run("$W replay $T/traces/arena27.csv $U --model m --limit 3 --speed 1000 2>$D/err"),
              1);
    CHECK_MSG(strstr(run_out, "never") && !strstr(run_out, "999999"), "%s", run_out);
    json_t *all =
        run_json("$W replay $T/traces/arena27.csv $U --model m --limit 3 --speed 1000 --json "
                 "2>$D/err",
                 1);
    const json_t *reason = json_array_get(json_object_get(all, "reasons"), 0);
    CHECK(json_is_null(json_object_get(reason, "hint_max_s")));
    json_decref(all);
    mock_child_stop(&mock);
    config.fault_every = 3;
    mock = mock_child_serve(&config);
    CHECK_INT(run(SWEEP "--levels 2 --errors 100 --warm-up 0 2>&1"), 0);
    CHECK_MSG(strstr(run_out, "said not to come again") && !strstr(run_out, "e+"), "%s", run_out);
    all =
        run_json(SWEEP "--levels 2 --errors 100 --warm-up 0 --json --csv $D/h.csv 2>/dev/null", 0);
    const json_t *level = json_array_get(json_object_get(all, "levels"), 0);
    CHECK(number(level, "hints") > 0);
    CHECK(json_is_null(json_object_get(level, "hint_max_s")));
    json_decref(all);
    CHECK(run("grep -c 999999 $D/h.csv") == 1);
    mock_child_stop(&mock);
}

/* A slip of the hand destroys nothing; what weir wrote is written anew. */
static void files__that_weir_did_not_write__are_left_alone(void **state)
{
    (void)state;
    struct weir_mock_config config = plain();
    struct mock_child mock = mock_child_serve(&config);
    static const struct run_row rows[] = {
        {"cp $T/traces/arena27.csv $D/t.csv; echo precious >$D/p; for flag in --csv --svg --html; "
         "do " SWEEP "--levels 2 $flag $D/p 2>&1; test $? = 2 || exit 9; done",
         0, "/p: it is there, and holds something else; name another file, or remove it\n"},
        {"$W replay $D/t.csv $U --model m --limit 2 --svg $D/t.csv 2>&1", 2,
         "weir replay: --svg: "},
        {"cmp $D/t.csv $T/traces/arena27.csv && cat $D/p", 0, "precious\n"},
        {"echo '{}' >$D/s.yaml; $W lab noisy --svg $D/s.yaml 2>&1 >$D/o", 3,
         "holds something else"},
        {"$W fair --plot $D/s.yaml 2>&1", 3, "holds something else"},
        {"cat $D/s.yaml; ls $D/none.csv", 2, "{}\n"},
        /* Nothing is left of what was never sent. */
        {SWEEP "--levels 2 --csv $D/none.csv --html $D/p 2>&1", 2, "--html: "},
        {"ls $D/none.csv", 2, ""},
        {": >$D/empty; ln -sf empty $D/link; " SWEEP "--csv $D/empty --svg $D/link 2>&1", 2,
         "both want"},
        {"$W replay $D/t.csv $U --model m --limit 2 --svg $D/x --record $D/x 2>&1", 2,
         "--svg and --record both want"},
        /* Twice the same: the second takes the place of the first. */
        {"for n in 1 2; do " SWEEP "--levels $n --csv $D/a.csv --svg $D/a.svg --html $D/a.html "
         ">$D/o 2>&1 || exit 9; done; tail -n 1 $D/a.csv",
         0, ",level,2,"},
        {"for n in 1 2; do $W replay $D/t.csv $U --model m --limit $n --speed 1000 --svg $D/a.svg "
         "--record $D/a.rec >$D/o 2>&1 || exit 9; done; grep -o 'weir replay of [a-z.]*' "
         "$D/a.svg",
         0, "weir replay of t.csv\n"},
        {SWEEP "--levels 2 --csv $D/a.svg 2>&1", 2,
         "holds something else"}, /* a picture is no CSV */
        {SWEEP "--levels 1 --csv $D 2>&1", 2, "cannot be written: Is a directory"},
        {"mkfifo $D/pipe; timeout 20 cat $D/pipe >$D/got & "
         "timeout 20 " SWEEP "--levels 1 --csv $D/pipe >$D/o "
         "2>&1 && wait && head -n 1 $D/got",
         0, "begun,host,"},
        {SWEEP "--levels 1 --csv /dev/null >$D/o 2>&1", 0, ""},
    };
    run_rows(rows, WEIR_COUNT(rows));

    mock_child_stop(&mock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(against__levels__are_compared_in_json_and_text),
        cmocka_unit_test(against__clients__are_compared_with_their_verdict),
        cmocka_unit_test(forms__of_a_sweep__hold_what_was_measured_and_nothing_else),
        cmocka_unit_test(hints__of_centuries__are_never),
        cmocka_unit_test(files__that_weir_did_not_write__are_left_alone),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, run_setup, run_teardown);
}
