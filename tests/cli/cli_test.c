/* The commands, run as a person would: each line, what it says and how it exits. */
#include "cli/run.h"

#include "core/base.h"
#include "support/check.h"

static const struct run_row rows[] = {
    {"$W 2>&1", 2, "usage: weir COMMAND"},
    {"$W --help", 0, "usage: weir COMMAND"},
    {"$W help", 0, "serve"},
    {"$W --version", 0, "weir 0."},
    {"$W version", 0, "weir 0."},
    {"$W version now 2>&1", 2, "too many"},
    {"$W sevre 2>&1", 2, "did you mean 'serve'?"},
    {"$W dance 2>&1", 2, "unknown command 'dance'; see weir --help"},
    {"$W help chek 2>&1", 2, "did you mean 'check'?"},
    {"$W help key", 0, "usage: weir key"},
    {"$W serve --help", 0, "--max-in-flight N"},
    {"$W check --help", 0, "--no-credentials"},
    {"$W key --help", 0, "revoke"},
    {"$W serve --rat 2/s 2>&1", 2, "unknown flag '--rat'; did you mean '--rate'?"},
    {"$W serve --rate 2>&1", 2, "--rate needs a value: --rate N/s"},
    {"$W serve --rate 1/s --rate=2/s 2>&1", 2, "--rate is given twice"},
    {"$W serve --rate fast 2>&1", 2,
     "--rate: the value must be a rate (2/s, 100/m, 1.5M/h) or none, not 'fast'"},
    {"$W serve --upstream ftp://h 2>&1", 2,
     "--upstream: the value must begin with http:// or https://"},
    {"$W serve --ledger /nowhere/x.db 2>&1", 2,
     "--ledger: the ledger's folder '/nowhere' cannot be reached: No such file or directory"},
    {"$W serve --admin 0.0.0.0:1 2>&1", 2, "admin must be on a loopback address"},
    {"$W serve more 2>&1", 2, "'more' is one argument too many"},
    {"$W serve --help", 0, "--report FILE"},
    {"$W serve --report $D 2>&1", 2, "it is a folder; name another file"},
    {"$W serve --report '' 2>&1", 2, "the name is empty"},
    {"$W serve --report /dev/null 2>&1", 2, "is not a plain file"},
    {"$W serve --ready-file $D 2>&1", 2, "--ready-file cannot be written to"},
    {"$W serve -c $D/none.yaml 2>&1", 2, "none.yaml: cannot be read: No such file or directory"},
    {"$W check --json=1 2>&1", 2, "--json takes no value"},
    {"$W check", 0, "listen: 127.0.0.1:8765"},
    {"$W check $D/none.yaml 2>&1", 1, "cannot be read"},
    {"echo 'upstream: []' > $D/c.yaml; $W check $D/c.yaml 2>&1", 1,
     "c.yaml:1:1: unknown key 'upstream'"},
    {"echo 'upstreams: [{name: a, url: \"http://h\", rate: x}]' > $D/c.yaml; $W check -c $D/c.yaml "
     "2>&1",
     1, "c.yaml:1:46: rate must be a rate"},
    {"echo 'upstreams: [{name: a, url: \"http://h\"}]' > $D/c.yaml; $W check -c $D/c.yaml", 0,
     "max_in_flight: 64"},
    {"echo 'upstreams: [{name: a, url: \"http://h\", key_env: NOT_THERE}]' > $D/c.yaml; $W check "
     "$D/c.yaml 2>&1",
     1, "NOT_THERE is not set"},
    {"$W check --no-credentials $D/c.yaml", 0, "key_env: NOT_THERE"},
    {"{ echo 'listen: 0.0.0.0:1'; cat $D/c.yaml; } > $D/d.yaml; NOT_THERE=sk $W check $D/d.yaml "
     "2>&1",
     1, "there are no tenants"},
    {"$W key new a 2>&1 && NOT_THERE=sk $W check $D/d.yaml", 0, "listen: 0.0.0.0:1"},
    {"$W check --defaults | cmp - $WEIR_TEST_DATA/../../docs/configuration.md", 0, ""},
    {"cat $D/c.yaml | $W check --no-credentials /dev/stdin", 0, "name: a"},
    {"sed -n '/^```yaml/,/^```$/p' $WEIR_TEST_DATA/../../README.md | grep -v '^```' > $D/r.yaml; "
     "OPENAI_API_KEY=sk $W check $D/r.yaml 2>&1",
     0, "name: support-bot"},
    {"$W key 2>&1", 2, "new TENANT, list, or revoke"},
    {"$W key lits 2>&1", 2, "did you mean 'list'?"},
    {"$W key new 2>&1", 2, "needs the tenant's name"},
    {"$W key list x 2>&1", 2, "takes no name"},
    {"$W key list --weight 2 2>&1", 2, "--weight belongs to weir key new"},
    {"$W key new b --weight 1001 2>&1", 2, "between 1 and 1000"},
    {"$W key revoke nobody 2>&1", 1, "no key has the id or tenant 'nobody'"},
    {"$W key revoke a", 0, "1 key revoked"},
    {"echo '{' > $D/keys.json; $W key list 2>&1", 2, "damaged"},
    {"$W ledger 2>&1", 2, "usage: weir ledger SUBCOMMAND"},
    {"$W ledger --help", 0, "race"},
    {"$W ledger raec 2>&1", 2, "did you mean 'race'?"},
    {"$W ledger --help", 0, "weir ledger show    "},
    {"$W help ledger", 0, "usage: weir ledger SUBCOMMAND"},
    {"for c in init show holds grant adjust verify export race; do $W ledger $c --help | "
     "grep -c \"^usage: weir ledger $c\"; done | sort | uniq -c",
     0, "      8 1\n"},
    {"$W ledger show --jsn 2>&1", 2, "unknown flag '--jsn'; did you mean '--json'?"},
    {"$W ledger show a b 2>&1", 2, "'b' is one argument too many"},
    {"$W ledger show 2>&1", 2, "/ledger.db: weir ledger init makes one"},
    {"$W ledger show --ledger memory --admin 127.0.0.1:1 2>&1", 2, "give one"},
    {"$W ledger show --ledger memory 2>&1", 2, "admin.token: No such file or directory; run this"},
    {"mkdir -m 700 $D/shut; : > $D/shut/l.db; if [ $(id -u) = 0 ]; then "
     "setpriv --reuid 65534 --clear-groups $W ledger show --ledger $D/shut/l.db 2>&1; else "
     "chmod 0 $D/shut; $W ledger show --ledger $D/shut/l.db 2>&1; fi",
     2, "/shut/l.db cannot be reached: Permission denied"},
    {"echo 'scops: []' > $D/l.yaml; $W ledger show -c $D/l.yaml 2>&1", 2, "did you mean 'scopes'?"},
    {"$W ledger grant a 2>&1", 2, "needs a scope and an amount: weir ledger grant class 10M"},
    {"$W ledger grant a -5 2>&1", 2, "the grant must be a whole number of tokens"},
    {"$W ledger grant a 5P 2>&1", 2, "the grant must be a whole number of tokens"},
    {"$W ledger grant a 4503599627370497 2>&1", 2, "at most 2^52"},
    {"$W ledger adjust a 2>&1", 2, "needs a scope and an amount: weir ledger adjust class -1200"},
    {"$W ledger adjust a -5x --reason b 2>&1", 2, "the amount must be a whole number of tokens"},
    {"$W ledger adjust a -5 2>&1", 2, "say why: --reason TEXT"},
    {"$W ledger adjust --hold 5 -5 --reason b 2>&1", 2, "the amount must be a whole number"},
    {"$W ledger adjust --hold 5 a 5 --reason b 2>&1", 2, "weir ledger adjust --hold ID 1200"},
    {"$W ledger holds --limit 0 2>&1", 2, "--limit must be a whole number from 1 on, or all"},
    {"$W ledger verify $D/none.db 2>&1", 2, "there is no ledger at"},
    {"$W ledger verify --ledger memory 2>&1", 2, "keeps the ledger in memory: give a file"},
    {"echo 'scopes: [{name: class, granted: 10M}, {name: team, parent: class, granted: 1M}]' > "
     "$D/l.yaml; echo 'upstreams: [{name: a, url: \"http://h\", key_env: NOT_THERE}]' >> "
     "$D/l.yaml; echo 'admin: 127.0.0.1:1' >> $D/l.yaml; "
     "$W ledger init -c $D/l.yaml",
     0, "/ledger.db with 2 scopes"},
    {"$W ledger init -c $D/l.yaml 2>&1", 2, "is there already, and stays as it is"},
    {"$W ledger init --ledger $D/none/l.db 2>&1", 3, "/none/l.db"},
    {"$W ledger show -c $D/l.yaml", 0, "at rest, epoch 1"},
    {"$W ledger show -c $D/l.yaml | tr -s ' '", 0, "\n team 1,000,000 0 1,000,000 0"},
    {"$W ledger grant team 2.5M -c $D/l.yaml", 0,
     "team: granted 2,500,000 (before: 1,000,000); used 0"},
    {"$W ledger grant team 2.5M -c $D/l.yaml", 0, "team: granted 2,500,000 as before; used 0"},
    {"$W ledger grant taem 5 -c $D/l.yaml 2>&1", 2,
     "there is no scope 'taem': did you mean 'team'?"},
    {"$W ledger adjust team -1200 --reason 'seen in the export' -c $D/l.yaml", 0,
     "team: adjusted by -1,200; used -1,200"},
    {"$W ledger adjust class 12M --reason b -c $D/l.yaml", 0, "overdrawn by 1,998,800"},
    {"$W ledger show -c $D/l.yaml", 0, "class: overdrawn by 1,998,800: nothing is admitted until"},
    {"$W ledger show -c $D/l.yaml", 0, "team: granted by hand; the configuration says 1,000,000"},
    {"$W ledger holds -c $D/l.yaml", 0, "no holds"},
    {"$W ledger export -c $D/l.yaml", 0, "\"reason\":\"seen in the export\""},
    {"$W ledger export -c $D/l.yaml > /dev/full 2>&1", 3, ""},
    {"for i in 1 2 3 4 5 6 7 8; do $W ledger adjust team 5 --reason b -c $D/l.yaml >/dev/null & "
     "done; wait; $W ledger show team -c $D/l.yaml | tr -s ' '",
     0, "team 2,500,000 -1,160"},
    {"$W ledger verify -c $D/l.yaml", 0, "2 balances agree with 0 holds and 13 changes"},
    {"$W ledger verify -c $D/l.yaml --json", 0, "\"right\": true"},
    {"{ echo 'upstreams: [{name: a, url: \"http://h\"}]'; echo 'scopes:'; seq -f '- {name: "
     "seat-%g, "
     "granted: 5}' 250; } > $D/m.yaml; $W ledger init --ledger $D/m.db -c $D/m.yaml && "
     "$W ledger show --ledger $D/m.db | grep -c '^seat-'",
     0, "\n250\n"},
    {"(trap '' XFSZ; ulimit -f 30; $W ledger init --ledger $D/full.db -c $D/m.yaml 2>&1)", 3,
     "full.db: cannot open it: disk I/O error"},
    {"ls $D | grep -c full.db; $W ledger init --ledger $D/full.db -c $D/m.yaml", 0, "0\nmade "},
    {"rm -f $D/m.db $D/m.db-*; $W ledger init --ledger $D/m.db -c $D/m.yaml 2>&1", 3,
     "the file is missing, but"},
    {"ls $D | grep m.db; $W ledger verify --ledger $D/m.db -c $D/m.yaml 2>&1", 2, "m.db.lock\n"},
    {"$W ledger verify --ledger $D/m.db -c $D/m.yaml 2>&1", 2, "there is no ledger at"},
    {"$W ledger verify --adopt --ledger $D/m.db -c $D/m.yaml 2>&1", 0, "begun anew, as epoch 2"},
    {"$W ledger show --ledger $D/m.db -c $D/m.yaml", 0, "at rest, epoch 2"},
    {"$W ledger verify --adopt --ledger $D/none.db 2>&1", 2, "there is no ledger at"},
    {"$W ledger race --threads 20 --grant 60000 --estimate 1200 | tr -s ' '", 0,
     "OVERSPENT 22,800 0"},
    {"$W ledger race --preset classroom | tr -s ' '", 0, "OVERSPENT 380,000 0"},
    {"$W ledger race --threads 1 2>&1", 2, "--threads must be a whole number between 2 and 200"},
    {"$W ledger race --threads 10000 2>&1", 2, "between 2 and 200, not '10000'"},
    {"$W ledger race --grant 0 2>&1", 2, "--grant must be a whole number between 1 and"},
    {"$W ledger race --grant 1000 2>&1", 2, "not one call fits"},
    {"$W ledger race --grant 60001 2>&1", 2,
     "--grant 60,001 is no multiple of --estimate 1,200, so nobody could say how much is lost at "
     "the last call; 60,000 and 61,200 are"},
    {"$W ledger race --seat 7 2>&1", 2, "20 seats of 7 are 140, not the grant of 60,000"},
    {"$W ledger race --seat 3000 --estimate 2000 2>&1", 2,
     "--seat 3,000 is no multiple of --estimate 2,000"},
    {"$W ledger race --seat 4P 2>&1", 2, "--seat must be a whole number"},
    {"$W ledger race --preset office 2>&1", 2, "there is no preset 'office'; there is classroom"},
    {"TMPDIR=$D/none $W ledger race 2>&1", 3, "set TMPDIR to a place that can be written"},
    {"mkdir $D/t; TMPDIR=$D/t $W ledger race && ls -A $D/t | wc -l", 0, "\n0\n"},
    {"TMPDIR=$D/t $W ledger race --threads 200 --grant 2M --estimate 1k >/dev/null & "
     "until ls $D/t | grep -q weir-race; do kill -0 $! || break; done; kill $!; wait $!; "
     "ls -A $D/t | wc -l",
     0, "0\n"},
    {"$W check > /dev/full 2>&1", 3, ""},
    {"env -u WEIR_STATE -u XDG_STATE_HOME WEIR_STATE=/proc/none $W key new a 2>&1", 2,
     "cannot be made"},
};

static void cli__each_line__says_and_exits_as_told(void **state)
{
    (void)state;
    run_rows(rows, WEIR_COUNT(rows));
}

static void cli__check_json__is_json_either_way(void **state)
{
    (void)state;
    json_t *all = run_json("$W check --json", 0);
    CHECK(json_is_true(json_object_get(all, "valid")));
    CHECK_STR(json_string_value(json_object_get(json_object_get(all, "config"), "listen")),
              "127.0.0.1:8765");
    json_decref(all);
    CHECK_INT(run("echo 'listn: x' > $D/c.yaml; $W check --json $D/c.yaml"), 1);
    all = json_loads(run_out, 0, NULL);
    CHECK(json_is_false(json_object_get(all, "valid")));
    CHECK_INT(json_array_size(json_object_get(all, "problems")), 2);
    const json_t *first = json_array_get(json_object_get(all, "problems"), 0);
    CHECK_INT(json_integer_value(json_object_get(first, "line")), 1);
    CHECK(strstr(json_string_value(json_object_get(first, "text")), "did you mean 'listen'?"));
    json_decref(all);
}

static void cli__key_new__prints_the_key_alone_on_stdout(void **state)
{
    (void)state;
    CHECK_INT(run("$W key new a 2>/dev/null"), 0);
    CHECK_INT(strlen(run_out), 53);
    CHECK(strncmp(run_out, "wk_", 3) == 0 && run_out[52] == '\n');
    json_t *made = run_json("$W key new b --weight 3 --lane batch --json", 0);
    CHECK_INT(strlen(json_string_value(json_object_get(made, "key"))), 52);
    json_decref(made);
    json_t *list = run_json("$W key list --json", 0);
    CHECK_INT(json_array_size(list), 2);
    CHECK_STR(json_string_value(json_object_get(json_array_get(list, 1), "lane")), "batch");
    CHECK_INT(json_integer_value(json_object_get(json_array_get(list, 1), "weight")), 3);
    json_decref(list);
    CHECK(!strstr(run_out, "wk_"));
}

static void cli__race_json__names_what_both_lost(void **state)
{
    (void)state;
    json_t *all = run_json("$W ledger race --threads 7 --grant 1k --estimate 50 --json", 0);
    const json_t *naive = json_object_get(all, "check_then_write");
    const json_t *ledger = json_object_get(all, "ledger");
    CHECK_INT(json_integer_value(json_object_get(naive, "overspent_tok")), 300);
    CHECK_INT(json_integer_value(json_object_get(naive, "admitted")), 7);
    CHECK_INT(json_integer_value(json_object_get(ledger, "overspent_tok")), 0);
    CHECK_INT(json_integer_value(json_object_get(ledger, "admitted")), 1);
    CHECK_INT(json_integer_value(json_object_get(ledger, "refused")), 6);
    CHECK(json_is_true(json_object_get(all, "as_expected")));
    json_decref(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(cli__each_line__says_and_exits_as_told, run_setup,
                                        run_teardown),
        cmocka_unit_test_setup_teardown(cli__check_json__is_json_either_way, run_setup,
                                        run_teardown),
        cmocka_unit_test_setup_teardown(cli__key_new__prints_the_key_alone_on_stdout, run_setup,
                                        run_teardown),
        cmocka_unit_test_setup_teardown(cli__race_json__names_what_both_lost, run_setup,
                                        run_teardown),
    };
    return cmocka_run_group_tests_name("cli", tests, NULL, NULL);
}
