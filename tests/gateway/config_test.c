#include "support/check.h"

#include "gateway/config.h"
#include "gateway/config_print.h"
#include "gateway/config_reference.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static struct weir_config *load_text(const char *text, struct weir_config_problems *problems)
{
    struct weir_config_source from = {
        .file = "weir.yaml", .text = text, .text_bytes = strlen(text)};
    return weir_config_load(&from, problems);
}

static void problems_text(const struct weir_config_problems *problems, char *out, size_t out_bytes)
{
    size_t used = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < problems->count && used < out_bytes; i++)
        used += (size_t)snprintf(out + used, out_bytes - used, "%u:%u: %s%s\n",
                                 problems->list[i].line, problems->list[i].column,
                                 problems->list[i].is_warning ? "warning: " : "",
                                 problems->list[i].text);
}

/* Loads text that must be right, and says what was wrong when it is not. */
static struct weir_config *load_right(const char *text)
{
    struct weir_config_problems problems = {0};
    struct weir_config *config = load_text(text, &problems);
    char said[2048];
    problems_text(&problems, said, sizeof said);
    weir_config_problems_free(&problems);
    CHECK_MSG(config != NULL, "%.400s", said);
    return config;
}

#define UP "upstreams:\n- name: a\n  url: http://127.0.0.1:9/v1\n"

/* Each mistake, and all that must be said about it. Lines of UP are 1 to 3. */
static const struct {
    const char *text, *said;
} mistakes[] = {
    {"", "0:0: is empty: it needs at least upstreams\n"},
    {"listen: 127.0.0.1:1\n", "1:1: the file needs 'upstreams'\n"},
    {"- a\n", "1:1: the file must be a mapping (\"key: value\")\n"},
    {"a: [b\n", "2:1: not YAML: did not find expected ',' or ']', while parsing a flow sequence\n"},
    {UP "wieght: 4\n", "4:1: unknown key 'wieght' at the top level\n"},
    {UP "tenats: 4\n", "4:1: unknown key 'tenats' at the top level; did you mean 'tenants'?\n"},
    {UP "ledger: memory\nledger: memory\n", "5:1: 'ledger' is given twice; first on line 4\n"},
    {UP "tenants:\n- name: t\n  weight: four\n",
     "6:11: weight must be a whole number between 1 and 1000, not 'four'\n"},
    {UP "tenants:\n- name: t\n  weight: 0\n",
     "6:11: weight must be a whole number between 1 and 1000, not '0'\n"},
    {UP "tenants:\n- name: t\n  weight: 1001\n  wieght: 1\n",
     "6:11: weight must be a whole number between 1 and 1000, not '1001'\n"
     "7:3: unknown key 'wieght' in tenants[]; did you mean 'weight'?\n"},
    {UP "tenants:\n- name: t\n  lane: interactiv\n",
     "6:9: there is no lane 'interactiv'; did you mean 'interactive'?\n"},
    {UP "tenants:\n- name: t\n  scope: s\n", "6:10: there is no scope 's'\n"},
    {UP "tenants:\n- name: t\n- name: t\n", "6:9: tenant 't' is given twice; first on line 5\n"},
    {UP "tenants:\n- name: anonymous\n",
     "5:9: anonymous is the tenant of requests without a credential\n"},
    {UP "tenants:\n- weight: 2\n", "5:3: tenants[] needs 'name'\n"},
    {UP "tenants:\n- name: t\n  limits: {tokens_burst: 5}\n",
     "6:26: tokens_burst is given without tokens: nothing would be limited\n"},
    {UP "tenants:\n- name: t\n  limits: {mode: shadow}\n",
     "6:12: 'mode' in tenants[].limits is not supported yet: shadow limits are not built yet; "
     "every limit "
     "given is enforced\n"},
    {UP "tenants:\n- name: t\n  key_sha256: wk_secretsecret\n",
     "6:15: key_sha256 must be 64 hex digits, or a list of those; `weir key new NAME` makes and "
     "keeps "
     "keys\n"},
    {UP "tenants: []\n", "4:10: tenants must have between 1 and 1000000 entries, not 0\n"},
    {UP "tenants: 3\n", "4:10: tenants must be a list (\"- name: ...\")\n"},
    {UP "limits: {max_wait: 60}\n", "4:20: max_wait must be a duration (250ms, 5s, 10m, 1h) "
                                    "between 10ms and 1d, not '60' (the unit is "
                                    "missing)\n"},
    {UP "limits: {body: 2TiB}\n",
     "4:16: body must be a size (64KiB, 32MiB) between 1KiB and 1GiB, not '2TiB'\n"},
    {UP "limits: {body: 300MiB}\n",
     "0:0: waiting_bytes is below body: the largest request could never wait\n"},
    {UP "limits: {waiters: 5, waiters_per_tenant: 6}\n",
     "4:42: waiters_per_tenant is above waiters\n"},
    {UP "idempotency: {answer: 2MiB, answers: 1MiB}\n",
     "4:38: answers is below answer: the largest answer could never be kept\n"},
    {UP "limits:\n", "4:8: limits must be a mapping (\"key: value\")\n"},
    {UP "listen:\n", "4:8: listen has no value; give address:port (127.0.0.1:8765, [::1]:8765), or "
                     "leave the key out\n"},
    {UP "listen: 8765\n",
     "4:9: listen must be address:port (127.0.0.1:8765, [::1]:8765), not '8765'\n"},
    {UP "admin: 0.0.0.0:8766\n", "4:8: admin must be on a loopback address (127.0.0.1, ::1)\n"},
    {UP "admin: 127.0.0.1:8765\n", "4:8: admin and listen are the same address\n"},
    {UP "ledger: /nonexistent/ledger.db\n",
     "4:9: the ledger's folder '/nonexistent' cannot be reached: No such file or directory; make "
     "it, or name another\n"},
    {UP "ledger: /etc/passwd/ledger.db\n",
     "4:9: '/etc/passwd' is a file: no ledger can lie in it; name one in a folder\n"},
    {UP "ledger: /tmp\n", "4:9: '/tmp' is a folder; name a file in it, as in /tmp/ledger.db\n"},
    {UP "ledger: /tmp/\n", "4:9: '/tmp/' is a folder; name a file in it, as in /tmp/ledger.db\n"},
    {UP "ledger: /dev/null\n", "4:9: '/dev/null' is not a plain file; name one, or memory\n"},
    {UP "ledger: {path: /tmp/x.db, keep_finished: 0}\n",
     "4:42: keep_finished must be a duration (250ms, 5s, 10m, 1h) between 1s and 365d, not '0' "
     "(the unit is missing)\n"},
    {UP "ledger: /tmp/l.db\nrecord: {file: /tmp/l.db}\n",
     "5:16: '/tmp/l.db' is a file of the ledger: a recording needs a file of its own\n"},
    {UP "ledger: /tmp/l.db\nrecord: {file: /tmp/../tmp/l.db-wal}\n",
     "5:16: '/tmp/../tmp/l.db-wal' is a file of the ledger: a recording needs a file of its own\n"},
    {UP "log: {access: /tmp/a.log}\nrecord: {file: /tmp/./a.log}\n",
     "5:16: '/tmp/./a.log' is the access log: a recording needs a file of its own\n"},
    {UP "record: {file: /tmp}\n",
     "4:16: '/tmp' is a folder; name a file in it, as in /tmp/record.csv\n"},
    {UP "record: /tmp/r.csv\n", "4:9: record must be a mapping (\"key: value\")\n"},
    {UP "record: {path: /tmp/r.csv}\n", "4:10: unknown key 'path' in record\n"},
    {UP "ledger: {file: x}\n", "4:10: unknown key 'file' in ledger\n"},
    {UP "ledger: [x]\n", "4:9: ledger must be text, not a list\n"},
    {UP "ledger:\n", "4:8: ledger has no value; give text, or leave the key out\n"},
    {UP "scheduler: drr_cost\n", "4:12: scheduler must be one of fifo, drr, drr-cost, vtc, not "
                                 "'drr_cost'; did you mean 'drr-cost'?\n"},
    {UP "scheduler: wfq\n", "4:12: scheduler must be one of fifo, drr, drr-cost, vtc, not 'wfq'\n"},
    {UP "workers: 4\n",
     "4:1: 'workers' is not supported yet: one event loop serves all in this version\n"},
    {UP "  adaptive: true\n", "4:13: upstreams[].adaptive must be a mapping (\"key: value\")\n"},
    {UP "  adaptive: {start: 8}\n", "4:21: start is given without min: the limit would be fixed; "
                                    "give min, or leave adaptive out\n"},
    {UP "  adaptive: {min: 65}\n", "4:19: min is above max_in_flight, which is 64\n"},
    {UP "  adaptive: {min: 4, start: 3}\n",
     "4:29: start must be between min and max_in_flight, here 4 and 64\n"},
    {UP "  adaptive: {min: 4, start: 65}\n",
     "4:29: start must be between min and max_in_flight, here 4 and 64\n"},
    {UP "  adaptive: {min: -1}\n",
     "4:19: min must be a whole number between 1 and 1000000, or 0 for off, not '-1'\n"},
    {UP "  adaptive: {floor: 4}\n", "4:14: unknown key 'floor' in upstreams[].adaptive\n"},
    {UP "  key: sk-secret\n",
     "4:3: 'key': secrets do not stand in this file; name their place with key_env or key_file\n"},
    {UP "  key_env: WEIR_TEST_NOT_SET\n",
     "4:12: the environment variable WEIR_TEST_NOT_SET is not set\n"},
    {UP "  key_file: /nonexistent/key\n",
     "4:13: '/nonexistent/key' cannot be read: No such file or directory\n"},
    {UP "  key_file: /nonexistent/key\n  key_env: X\n",
     "4:13: key_env and key_file are both given; one credential, one place\n"},
    {UP "  tls: {verify: false}\n", "4:17: verify must be true, not 'false'\n"},
    {UP "  api: openia\n",
     "4:8: api must be one of openai, anthropic, both, not 'openia'; did you mean 'openai'?\n"},
    {UP "  rate: 2\n", "4:9: rate must be a rate (2/s, 100/m, 1.5M/h) or none, not '2'\n"},
    {UP "  burst: 5\n", "4:10: burst is given without rate: nothing would be limited\n"},
    {UP "  models: [gpt-*, g*t]\n",
     "4:19: models must be a list of model names (an asterisk only at their end), not 'g*t'\n"},
    {UP "  api: anthropic\n  tokens: 5k/m\n",
     "5:11: accounting anthropic has no single token limit; give input_tokens and output_tokens\n"},
    {UP "  output_tokens: 5k/m\n",
     "4:18: accounting openai has one token limit; give tokens, or accounting: anthropic\n"},
    {UP "  breaker: {cooldown: 30s, cooldown_max: 20s}\n",
     "4:42: cooldown_max is shorter than cooldown\n"},
    {UP "  breaker: {trials: 0}\n",
     "4:21: trials must be a whole number between 1 and 64, not '0'\n"},
    {UP "  breaker: {window: 61s}\n",
     "4:21: window must be a duration (250ms, 5s, 10m, 1h) between 1s and 1m, not '61s'\n"},
    {UP "  fallback: b\n", "4:13: there is no upstream 'b'\n"},
    {UP "  fallback: a\n", "4:13: fallbacks go round in a circle: 'a' comes back to itself\n"},
    {UP "  fallback: b\n- name: b\n  url: http://h\n  fallback: c\n- {name: c, url: 'http://h', "
        "fallback: b}\n",
     "7:13: fallbacks go round in a circle: 'b' comes back to itself\n"},
    {UP "  fallback: b\n- {name: b, url: 'http://h', api: openai}\n",
     "4:13: upstream 'b' does not speak the API of 'a'\n"},
    {UP "  pool: p\n- {name: b, url: 'http://h', pool: p, models: [x]}\n",
     "5:36: upstreams of one pool serve the same: 'a' and 'b' differ in api or models\n"},
    {UP "pools:\n- {name: q}\n", "5:10: no upstream is in pool 'q'\n"},
    {UP "work: {input: 0, output: 0}\n",
     "0:0: work.input and work.output of pool 'a' are both 0: nothing would count\n"},
    {UP "- {name: a, url: 'http://h'}\n", "4:10: upstream 'a' is given twice; first on line 2\n"},
    {"upstreams:\n- {name: a, url: 'ftp://h'}\n",
     "2:18: url must begin with http:// or https://\n"},
    {"upstreams:\n- {name: a, url: 'http://u:p@h/v1'}\n",
     "2:18: url must hold no credential; use key_env or key_file\n"},
    {"upstreams:\n- {name: a, url: 'http://h/v1?x=1'}\n",
     "2:18: url must have no query and no fragment\n"},
    {"upstreams:\n- {name: a, url: 'http:///v1'}\n", "2:18: url has no host\n"},
    {"upstreams:\n- {name: a, url: 'http://h:99999'}\n",
     "2:18: url has a host or port that cannot be\n"},
    {"upstreams:\n- {name: 'a b', url: 'http://h'}\n",
     "2:10: name must be a name (letters, digits, '.', '_', '-'; at most 63), not 'a b'\n"},
    {UP "lanes:\n- {name: x, floor: 60}\n- {name: y, floor: 41}\n",
     "6:20: the floors of all lanes come to more than 100 percent\n"},
    {UP "scopes:\n- {name: s, granted: 5, parent: r}\n", "5:33: there is no scope 'r'\n"},
    {UP "scopes:\n- {name: s, granted: 5, parent: r}\n- {name: r, granted: 5, parent: s}\n",
     "5:33: scopes go round in a circle, or more than 6 deep\n"},
    {UP "scopes:\n- {name: tenant/x, granted: 5}\n",
     "5:10: names that begin with tenant/ are weir's own\n"},
    {UP "scopes:\n- {name: s}\n", "5:3: scopes[] needs 'granted'\n"},
    {UP "scopes:\n- {name: fallback/a, granted: 5}\n",
     "5:10: names that begin with fallback/ are weir's own\n"},
    {UP "scopes:\n- {name: s, granted: 5, period: rolling, zone: X, anchor: 3}\n",
     "5:33: period must be none, hour, day, week, month, or a duration in whole seconds (5h, 7d) "
     "between 1s and 36600d, not 'rolling'\n"},
    {UP "scopes:\n- {name: s, granted: 5, period: months}\n",
     "5:33: period must be none, hour, day, week, month, or a duration in whole seconds (5h, 7d) "
     "between 1s and 36600d, not 'months'; did you mean 'month'?\n"},
    {UP "scopes:\n- {name: s, granted: 5, period: 1500ms}\n",
     "5:33: period must be none, hour, day, week, month, or a duration in whole seconds (5h, 7d) "
     "between 1s and 36600d, not '1500ms'\n"},
    {UP "scopes:\n- {name: s, granted: 5, period: day, zone: europe/berlin}\n",
     "5:44: there is no time zone 'europe/berlin'; did you mean 'Europe/Berlin'?\n"},
    {UP "scopes:\n- {name: s, granted: 5, period: day, zone: New York}\n",
     "5:44: there is no time zone 'New York'; did you mean 'America/New_York'?\n"},
    {UP "scopes:\n- {name: s, granted: 5, period: day, zone: Europe/Belrin}\n",
     "5:44: there is no time zone 'Europe/Belrin'; did you mean 'Europe/Berlin'?\n"},
    {UP "scopes:\n- {name: s, granted: 5, period: day, zone: ../../../etc/passwd}\n",
     "5:44: there is no time zone '../../../etc/passwd'; zones are named as in Europe/Berlin, and "
     "listed in /usr/share/zoneinfo\n"},
    {UP "scopes:\n- {name: s, granted: 5, period: day, zone: tzdata.zi}\n",
     "5:44: there is no time zone 'tzdata.zi'; zones are named as in Europe/Berlin, and listed in "
     "/usr/share/zoneinfo\n"},
    {UP "scopes:\n- {name: s, granted: 5, period: day, zone: '+01:00'}\n",
     "5:44: there is no time zone '+01:00'; zones are named as in Europe/Berlin, and listed in "
     "/usr/share/zoneinfo\n"},
    {UP "scopes:\n- {name: s, granted: 5, zone: UTC}\n",
     "5:31: zone is given without a period: nothing would begin anew\n"},
    {UP "scopes:\n- {name: s, granted: 5, period: 24h, zone: UTC}\n",
     "5:44: zone is given with a period of fixed length, which is counted from "
     "1970-01-01T00:00Z; periods of a zone are hour, day, week and month\n"},
    {UP "scopes:\n- {name: s, granted: 5, period: day, anchor: 6}\n",
     "5:46: anchor is for the periods week and month\n"},
    {UP "scopes:\n- {name: s, granted: 5, period: week, anchor: 1}\n",
     "5:47: anchor of a week must be a day from monday to sunday, not '1'\n"},
    {UP "scopes:\n- {name: s, granted: 5, period: month, anchor: 32}\n",
     "5:48: anchor of a month must be one of its days, 1 to 31 (31: always the last), not '32'\n"},
    {UP "scopes:\n- {name: s, granted: 5, period: month, anchor: 0}\n",
     "5:48: anchor of a month must be one of its days, 1 to 31 (31: always the last), not '0'\n"},
    {UP "scopes:\n- {name: s, granted: 5, on_exhausted: queue}\n",
     "5:39: on_exhausted: queue waits for the next window, and period none has no next one; give a "
     "period, or refuse\n"},
    {UP "scopes:\n- {name: s, granted: 5, on_exhausted: fallback}\n",
     "5:39: on_exhausted must be one of refuse, queue, or {fallback: UPSTREAM}, not 'fallback'\n"},
    {UP "scopes:\n- {name: s, granted: 5, on_exhausted: {fallback: b}}\n",
     "5:50: there is no upstream 'b'\n"},
    {UP "scopes:\n- {name: s, granted: 5, on_overrun: cuts}\n",
     "5:37: on_overrun must be one of log, cut, not 'cuts'; did you mean 'cut'?\n"},
    {UP "scopes:\n- {name: s, granted: 5, provider_ids: [k1]}\n- {name: t, granted: 5}\n"
        "tenants:\n- {name: x, provider_ids: [k0, k1]}\n",
     "8:27: the provider's id 'k1' is given twice; first on line 5: it must mean one scope or "
     "tenant\n"},
    {UP "  provider_ids: [k1, k2, k1]\n",
     "4:17: the provider's id 'k1' is given twice; first on line 4: it must mean one upstream\n"},
    {UP "  provider_ids: []\n", "4:17: provider_ids is empty; leave the key out\n"},
    {UP "routes:\n- {path: v1/x, cost_tok: 5}\n",
     "5:10: path must be a path that begins with / (an asterisk only at its end), not 'v1/x'\n"},
    {UP "routes:\n- {path: /x, cost_tok: 5}\n- {path: /x, cost_tok: 6}\n",
     "6:10: route '/x' is given twice; first on line 5\n"},
    {UP "tls: {cert_file: /c.pem}\n", "4:18: tls needs both cert_file and key_file\n"},
    {UP "log: {access: maybe}\n",
     "4:15: access must be off, stderr, or a path that begins with / or ., not 'maybe'\n"},
    {UP "responses: {exhausted_status: 403}\n",
     "4:31: exhausted_status must be one of 402, 429, not '403'; did you mean '402'?\n"},
    {UP "responses: {heartbeat: 10ms}\n", "4:24: heartbeat must be a duration (250ms, 5s, 10m, 1h) "
                                          "between 1s and 1h, or 0 for off, not '10ms'\n"},
    {UP "? [a]\n: b\n", "4:3: a key in the file must be a word\n"},
    {UP "---\nmore: x\n", "5:1: a second document begins here; one file is one configuration\n"},
    {UP "ledger: \"mem\\0ory\"\n", "4:9: ledger has a NUL byte in it\n"},
    {UP "ledger: \"mem\\nory\"\n", "4:9: ledger has a control character in it\n"},
    {UP "<<: {ledger: memory}\n", "4:1: unknown key '<<' at the top level\n"},
};

static void config__each_mistake__is_told_with_its_place(void **state)
{
    (void)state;
    unsetenv("WEIR_TEST_NOT_SET");
    for (size_t i = 0; i < WEIR_COUNT(mistakes); i++) {
        struct weir_config_problems problems = {0};
        struct weir_config *config = load_text(mistakes[i].text, &problems);
        char said[2048];
        problems_text(&problems, said, sizeof said);
        CHECK_STR(said, mistakes[i].said);
        CHECK_MSG(config == NULL && problems.errors > 0, "%s", mistakes[i].text);
        weir_config_problems_free(&problems);
    }
}

static void config__several_mistakes__are_told_at_once_in_order(void **state)
{
    (void)state;
    struct weir_config_problems problems = {0};
    struct weir_config *config = load_text("upstreams:\n"
                                           "- name: a\n"
                                           "  url: http://h\n"
                                           "  fallback: zz\n"
                                           "  rate: fast\n"
                                           "tenants:\n"
                                           "- name: t\n"
                                           "  lane: l\n"
                                           "  nope: 1\n"
                                           "traffic: {}\n",
                                           &problems);
    CHECK(!config);
    CHECK_INT(problems.errors, 4);
    CHECK_INT(problems.count, 5);
    uint32_t lines[] = {4, 5, 8, 9, 10};
    for (uint32_t i = 0; i < 5; i++)
        CHECK_INT(problems.list[i].line, lines[i]);
    CHECK(problems.list[4].is_warning);
    weir_config_problems_free(&problems);
}

/* Everything set at once, and read back from the struct. */
static const char *everything; /* tests/data/config/everything.yaml */

static int read_everything(void **state)
{
    static char text[16 << 10];
    char path[512];
    (void)state;
    snprintf(path, sizeof path, "%s/config/everything.yaml", getenv("WEIR_TEST_DATA"));
    FILE *file = fopen(path, "r");
    if (!file)
        return -1;
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    everything = text;
    return 0;
}

static void check_length(const struct weir_config_length *length,
                         enum weir_config_distribution distribution, uint32_t mean, uint32_t low,
                         uint32_t high, uint32_t sigma_permille)
{
    CHECK_INT(length->distribution, distribution);
    CHECK_INT(length->mean, mean);
    CHECK_INT(length->low, low);
    CHECK_INT(length->high, high);
    CHECK_INT(length->sigma_permille, sigma_permille);
}

static void check_lab(const struct weir_config *c)
{
    CHECK_INT(c->traffic.time_ns, 30 * WEIR_NS_PER_S);
    CHECK_INT(c->traffic.run_ns, 40 * WEIR_NS_PER_S);
    CHECK_INT(c->traffic.bin_ns, 2 * WEIR_NS_PER_S);
    CHECK_INT(c->traffic.ledger_delay_ns, 3 * WEIR_NS_PER_MS);
    CHECK_INT(c->traffic.tenants_count, 3);
    const struct weir_config_traffic_tenant *t = c->traffic.tenants;
    CHECK_INT(t->tenant_index, 0);
    CHECK_INT(t->arrivals, WEIR_CONFIG_ARRIVALS_POISSON);
    CHECK_INT(weir_config_rate_micro_per_s(t->rate), 1500000);
    CHECK_INT(t->on_ns, 4 * WEIR_NS_PER_S);
    CHECK_INT(t->off_ns, 5 * WEIR_NS_PER_S);
    CHECK_INT(t->burst.from_ns, 6 * WEIR_NS_PER_S);
    CHECK_INT(t->burst.until_ns, 7 * WEIR_NS_PER_S);
    CHECK_INT(t->burst.times_permille, 2500);
    CHECK_INT(t->from_ns, 8 * WEIR_NS_PER_S);
    CHECK_INT(t->until_ns, 9 * WEIR_NS_PER_S);
    check_length(&t->prompt, WEIR_CONFIG_LENGTH_UNIFORM, 0, 300, 1500, 0);
    check_length(&t->output, WEIR_CONFIG_LENGTH_LOGNORMAL, 250, 10, 2000, 750);
    CHECK_INT(t->growth_turns, 11);
    CHECK_INT(t->output_limit_tok, 12);
    CHECK(!t->is_stream && t->sends);
    CHECK_INT(t->goal_ns, 13 * WEIR_NS_PER_S);
    CHECK_INT(t->client.retries, 3);
    CHECK(!t->client.obeys_hint);
    CHECK_INT(t->client.backoff_ns, 14 * WEIR_NS_PER_MS);
    CHECK_INT(t->client.gives_up_ns, 15 * WEIR_NS_PER_S);
    CHECK(!t->client.tells_timeout);
    CHECK_INT(t[1].tenant_index, WEIR_NONE); /* not under tenants */
    CHECK_INT(t[1].arrivals, WEIR_CONFIG_ARRIVALS_CLOSED);
    CHECK_INT(t[1].users, 16);
    CHECK_INT(t[1].think_ns, 17 * WEIR_NS_PER_S);
    check_length(&t[1].prompt, WEIR_CONFIG_LENGTH_FIXED, 18, 0, 0, 0);
    CHECK_INT(t[1].client.retries, 2);
    CHECK(t[1].client.obeys_hint && t[1].is_stream && !t[1].sends);
    CHECK_INT(t[2].arrivals, WEIR_CONFIG_ARRIVALS_TRACE);
    CHECK_INT(t[2].upstream_index, 3);
    CHECK_INT(t[1].upstream_index, 0);
    CHECK_INT(c->backends_count, 2);
    const struct weir_config_backend *b = c->backends;
    CHECK_INT(b->upstream_index, 0);
    CHECK_INT(b->replicas, 2);
    CHECK_INT(b->sequences, 3);
    CHECK_INT(b->step_ns, 4 * WEIR_NS_PER_MS);
    CHECK_INT(b->step_sequence_ns, 5 * WEIR_NS_PER_US);
    CHECK_INT(b->prefill_permille, 125);
    CHECK_INT(b->kv_tok, 6000);
    CHECK_INT(b->latency_ns, 7 * WEIR_NS_PER_MS);
    CHECK_INT(b->troubles_count, 2);
    CHECK_INT(b->troubles[0].kind, WEIR_CONFIG_TROUBLE_SLOW);
    CHECK_INT(b->troubles[0].times_permille, 3000);
    CHECK_INT(b->troubles[0].replica, 0);
    CHECK_INT(b->troubles[1].replica, 2);
    CHECK_INT(b->troubles[1].until_ns, 3 * WEIR_NS_PER_S);
    CHECK_INT(b[1].upstream_index, WEIR_NONE);
    CHECK_INT(b[1].sequences, 48);
}

static void config__every_field__arrives_in_the_struct(void **state)
{
    (void)state;
    setenv("WEIR_TEST_KEY", "sk-test", 1);
    struct weir_config *c = load_right(everything);
    CHECK_STR(c->file, "weir.yaml");
    CHECK_STR(c->listen.host, "::1");
    CHECK_INT(c->listen.port, 9000);
    CHECK(c->listen.is_loopback && c->admin.is_loopback && !c->builtin_mock);
    CHECK_STR(c->admin.host, "localhost");
    CHECK_STR(c->tls_cert_file, "/c.pem");
    CHECK_STR(c->tls_key_file, "/k.pem");
    CHECK_INT(c->scheduler, WEIR_CONFIG_POLICY_DRR_COST);
    CHECK_INT(c->work_input, 3);
    CHECK_INT(c->work_output, 7);
    CHECK_INT(c->upstreams_count, 4);
    const struct weir_config_upstream *u = &c->upstreams[0];
    CHECK_STR(u->name, "main");
    CHECK(u->is_tls && u->tls_verify);
    CHECK_STR(u->host, "api.example.com");
    CHECK_INT(u->port, 8443);
    CHECK_STR(u->prefix, "/api/v1");
    CHECK_STR(u->key, "sk-test");
    CHECK_INT(u->api, WEIR_CONFIG_API_OPENAI);
    CHECK_INT(u->models_count, 2);
    CHECK_INT(u->provider_ids_count, 2);
    CHECK_STR(u->provider_ids[1], "Main project");
    CHECK_STR(u->models[0], "gpt-*");
    CHECK_INT(u->max_in_flight, 8);
    CHECK_INT(u->adaptive.min, 2);
    CHECK_INT(u->adaptive.start, 3);
    CHECK_INT(u->rate.count, 120);
    CHECK_INT(u->rate.per_ns, 60 * WEIR_NS_PER_S);
    CHECK_INT(weir_config_rate_micro_per_s(u->rate), 2000000);
    CHECK_INT(u->burst_req, 2); /* a second's worth */
    CHECK_INT(u->tokens.count, 200000);
    CHECK_INT(u->tokens_burst_tok, 200000);
    CHECK_INT(u->accounting, WEIR_CONFIG_ACCOUNTING_OPENAI);
    CHECK_INT(u->fallback_index, 2);
    CHECK_INT(u->breaker.failures, 3);
    CHECK_INT(u->breaker.failure_percent, 20);
    CHECK_INT(u->breaker.calls_min, 10);
    CHECK_INT(u->breaker.window_ns, 60 * WEIR_NS_PER_S);
    CHECK_INT(u->breaker.cooldown_ns, 90 * WEIR_NS_PER_S);
    CHECK_INT(u->breaker.cooldown_max_ns, 90 * WEIR_NS_PER_S); /* never below the first cool-down */
    CHECK_INT(u->breaker.trials, 2);
    CHECK_INT(u->timeouts.connect_ns, 1 * WEIR_NS_PER_S);
    CHECK_INT(u->timeouts.write_ns, 2 * WEIR_NS_PER_S);
    CHECK_INT(u->timeouts.first_byte_ns, 3 * WEIR_NS_PER_S);
    CHECK_INT(u->timeouts.first_byte_whole_ns, 4 * WEIR_NS_PER_S);
    CHECK_INT(u->timeouts.idle_ns, 5 * WEIR_NS_PER_S);
    CHECK_INT(u->timeouts.total_ns, 6 * WEIR_NS_PER_S);
    CHECK_INT(u->timeouts.pool_idle_ns, 0);
    CHECK_STR(u->tls_ca_file, "/ca.pem");
    CHECK(!u->edits.include_usage && u->edits.output_limit && !u->edits.identity);
    CHECK_INT(u->output_limit_tok, 1000);
    CHECK_INT(u->image_tok, 700);
    CHECK_INT(u->file_tok, 800);
    CHECK_INT(u->on_client_gone, WEIR_CONFIG_GONE_DRAIN);
    CHECK_INT(u->drain_time_ns, 9 * WEIR_NS_PER_S);
    CHECK_INT(u->drain_bytes, 9 << 10);
    CHECK_STR(c->upstreams[1].host, "::1");
    CHECK_STR(c->upstreams[1].prefix, "");
    CHECK_INT(c->upstreams[2].port, 80);
    CHECK_INT(c->upstreams[3].accounting, WEIR_CONFIG_ACCOUNTING_ANTHROPIC);
    CHECK_INT(c->upstreams[3].input_tokens_burst_tok, 40000);
    CHECK_INT(c->upstreams[3].output_tokens_burst_tok, 8000);
    CHECK_INT(c->upstreams[3].port, 443);

    /* main and twin serve alike and share a pool; spare is a fallback and stands apart, last. */
    CHECK_INT(c->pools_count, 3);
    CHECK_STR(c->pools[0].name, "main");
    CHECK_INT(c->pools[0].upstreams_count, 2);
    CHECK_INT(c->pools[0].upstreams[1], 1);
    CHECK_INT(c->pools[0].scheduler, WEIR_CONFIG_POLICY_DRR_COST);
    CHECK_STR(c->pools[1].name, "c");
    CHECK_INT(c->pools[1].scheduler, WEIR_CONFIG_POLICY_FIFO);
    CHECK_INT(c->pools[1].work_input, 3);
    CHECK_INT(c->pools[1].work_output, 5);
    CHECK_STR(c->pools[2].name, "spare");
    CHECK_INT(c->upstreams[2].pool_index, 2);
    CHECK_INT(c->upstreams[3].pool_index, 1);

    const struct weir_config_tenant *t = &c->tenants[0];
    CHECK_INT(c->tenants_count, 2);
    CHECK_STR(t->name, "alpha");
    CHECK_INT(t->key_sha256_count, 2);
    CHECK_INT(t->key_sha256[0][1], 0x11);
    CHECK_INT(t->key_sha256[1][31], 0xff);
    CHECK_INT(t->weight, 10);
    CHECK_INT(t->lane_index, 1);
    CHECK_INT(t->limits.burst_req, 9);
    CHECK_INT(t->limits.tokens_burst_tok, 1000000);
    CHECK_INT(t->limits.over, WEIR_CONFIG_OVER_REFUSE);
    CHECK_INT(t->max_connections, 12);
    CHECK_INT(t->scope_index, 1);
    CHECK_STR(t->models[0], "gpt-4*");
    CHECK_STR(t->provider_ids[0], "proj_alpha");
    CHECK(t->is_paused);
    CHECK_STR(c->tenants[1].lane, "fast"); /* no lane is called standard: the first */
    CHECK_INT(c->tenants[1].limits.burst_req, 1);
    CHECK_INT(c->tenants[1].scope_index, WEIR_NONE);
    CHECK_INT(c->lanes[1].floor_percent, 30);
    CHECK_INT(c->scopes[0].granted_tok, 1000000);
    CHECK_INT(c->scopes[0].window.period, WEIR_PERIOD_MONTH);
    CHECK_INT(c->scopes[0].window.anchor, 31);
    CHECK_STR(weir_zone_name(c->scopes[0].window.zone), "Europe/Berlin");
    CHECK_INT(c->scopes[0].on_overrun, WEIR_CONFIG_OVERRUN_LOG);
    CHECK_INT(c->scopes[0].on_lapse, WEIR_CONFIG_LAPSE_CHARGE);
    CHECK_INT(c->scopes[0].fallback_index, WEIR_NONE);
    CHECK_INT(c->scopes[1].window.period, WEIR_PERIOD_NONE);
    CHECK_INT(c->scopes[2].window.period, WEIR_PERIOD_WEEK);
    CHECK_INT(c->scopes[2].window.anchor, 7);
    CHECK(!c->scopes[2].window.zone);
    CHECK_INT(c->scopes[2].on_exhausted, WEIR_CONFIG_EXHAUSTED_QUEUE);
    CHECK_INT(c->scopes[2].on_overrun, WEIR_CONFIG_OVERRUN_CUT);
    CHECK_INT(c->scopes[2].on_lapse, WEIR_CONFIG_LAPSE_REFUND);
    CHECK_STR(c->scopes[2].provider_ids[0], "wrkspc_1");
    CHECK_INT(c->scopes[3].window.period, WEIR_PERIOD_SECONDS);
    CHECK_INT(c->scopes[3].window.seconds, 5 * 3600);
    CHECK_INT(c->scopes[3].on_exhausted, WEIR_CONFIG_EXHAUSTED_FALLBACK);
    CHECK_INT(c->scopes[3].fallback_index, 2);
    CHECK_STR(c->ledger.path, "/tmp/everything.db");
    CHECK(!c->ledger.in_memory);
    CHECK_STR(c->record_file, "/tmp/everything.csv");
    CHECK_INT(c->record_limit_bytes, 5 * 1024 * 1024);
    CHECK_INT(c->ledger.keep_finished_ns, 3600 * WEIR_NS_PER_S);
    CHECK_INT(c->ledger.keep_journal_ns, 2 * 86400 * WEIR_NS_PER_S);
    CHECK_INT(c->ledger.keep_usage_ns, 3 * 86400 * WEIR_NS_PER_S);
    CHECK_INT(c->scopes[1].parent_index, 0);
    CHECK_INT(c->scopes[1].granted_tok, WEIR_TOK_MAX);
    CHECK(c->scopes[1].is_strict);
    CHECK_STR(c->routes[0].path, "/v1/audio/*");
    CHECK_INT(c->routes[0].cost_tok, 500);
    const struct weir_config_limits *l = &c->limits;
    CHECK_INT(l->tenants, 10);
    CHECK_INT(l->connections, 11);
    CHECK_INT(l->connections_per_address, 12);
    CHECK_INT(l->connections_per_tenant, 13);
    CHECK_INT(l->waiters, 14);
    CHECK_INT(l->waiters_per_tenant, 3);
    CHECK_INT(l->waiting_bytes, 16 << 20);
    CHECK_INT(l->body_bytes, 1 << 20);
    CHECK_INT(l->head_bytes, 8 << 10);
    CHECK_INT(l->inspect_bytes, 2 << 20);
    CHECK_INT(l->max_wait_ns, 20 * WEIR_NS_PER_S);
    CHECK_INT(l->head_ns, 21 * WEIR_NS_PER_S);
    CHECK_INT(l->keep_alive_ns, 22 * WEIR_NS_PER_S);
    CHECK_INT(l->body_bytes_per_s, 23);
    CHECK_INT(l->body_grace_ns, 24 * WEIR_NS_PER_S);
    CHECK_INT(l->client_stall_ns, 25 * WEIR_NS_PER_S);
    CHECK_INT(l->drain_queue_ns, 26 * WEIR_NS_PER_S);
    CHECK_INT(l->drain_stream_ns, 27 * WEIR_NS_PER_S);
    CHECK_INT(c->idempotency.keys, 28);
    CHECK_INT(c->idempotency.keep_ns, 29 * 60 * WEIR_NS_PER_S);
    CHECK_INT(c->idempotency.answer_bytes, 30 << 10);
    CHECK_INT(c->idempotency.answers_bytes, 31 << 20);
    CHECK_INT(c->exhausted_status, 429);
    CHECK(c->ratelimit_fields);
    CHECK_INT(c->heartbeat_ns, 15 * WEIR_NS_PER_S);
    CHECK_INT(c->access, WEIR_CONFIG_ACCESS_FILE);
    CHECK_STR(c->access_file, "./access.log");
    check_lab(c);
    weir_config_free(c);
}

static void config__the_printed_one__loads_to_the_same(void **state)
{
    (void)state;
    setenv("WEIR_TEST_KEY", "sk-test", 1);
    const char *texts[] = {everything, UP,
                           UP "  models: ['*', 'a:b#\"c\\', 'x:']\nlog: {access: off}\n"};
    for (size_t i = 0; i < WEIR_COUNT(texts); i++) {
        struct weir_config *first = load_right(texts[i]);
        char *yaml = weir_config_yaml(first);
        CHECK(yaml);
        struct weir_config *second = load_right(yaml);
        char *again = weir_config_yaml(second);
        CHECK_STR(again, yaml);
        json_t *a = weir_config_json(first), *b = weir_config_json(second);
        CHECK(json_equal(a, b));
        json_decref(a);
        json_decref(b);
        CHECK(!strstr(yaml, "sk-test"));
        free(yaml);
        free(again);
        weir_config_free(first);
        weir_config_free(second);
    }
}

/* What is allowed and probably not meant. */
static void config__warnings__are_told_with_their_place(void **state)
{
    (void)state;
    static const struct {
        const char *text, *said;
    } rows[] = {
        {UP "ledger: memory\n", ""},
        {UP "ledger: memory\nidempotency: {keep: 2d}\n", ""},
        {UP "ledger: {keep_finished: 1h}\nidempotency: {keep: 1h}\n", ""},
        {UP "ledger: {keep_finished: 1h}\nidempotency: {keep: 61m}\n",
         "5:21: warning: keep is above ledger.keep_finished: after a restart a key is known for "
         "that time only, and then a repeat is sent and charged anew\n"},
        {UP "ledger: memory\nscopes:\n- {name: s, granted: 5}\n",
         "4:9: warning: ledger: memory forgets at each restart what was spent: every scope then "
         "begins anew, within its period too\n"},
        {UP "limits: {max_wait: 2m}\nscopes:\n"
            "- {name: s, granted: 5, period: day, on_exhausted: queue}\n"
            "- {name: t, granted: 5, period: 2m, on_exhausted: queue}\n",
         "6:52: warning: on_exhausted: queue waits at most limits.max_wait (2m): a request that "
         "comes longer than that before the next window is refused at once\n"},
        {UP "scopes:\n- {name: s, granted: 5, on_exhausted: {fallback: a}}\n",
         "5:50: warning: there is no other pool than that of upstream 'a': a spent budget would "
         "change nothing\n"},
        {UP "- {name: b, url: 'http://h', api: openai}\nscopes:\n"
            "- {name: s, granted: 5, on_exhausted: {fallback: b}}\n",
         "6:50: warning: upstream 'b' does not speak the API 'anthropic': once the budget is "
         "spent, such requests are refused\n"},
        /* Alike, and yet no pool in common: what is a budget's fallback is kept for that. */
        {UP "- {name: b, url: 'http://h'}\nscopes:\n"
            "- {name: s, granted: 5, on_exhausted: {fallback: b}}\n",
         ""},
        {UP
         "- {name: b, url: 'http://h', pool: p}\n- {name: c, url: 'http://h', pool: p}\nscopes:\n"
         "- {name: s, granted: 5, on_exhausted: {fallback: b}}\n",
         "7:50: warning: upstream 'b' shares its pool with 'c': either serves what a spent budget "
         "sends there, without a limit\n"},
        {UP "- {name: b, url: 'http://h', fallback: a}\nscopes:\n"
            "- {name: s, granted: 5, on_exhausted: {fallback: b}}\n",
         "6:50: warning: upstream 'b' has a fallback of its own: while its breaker is open, 'a' "
         "serves what a spent budget sends there, without a limit\n"},
        {UP "- {name: b, url: 'http://h', models: [gpt-4*]}\n"
            "tenants:\n- {name: t, scope: s/t, models: [gpt-4o]}\n- {name: u, scope: s}\n"
            "scopes:\n- {name: s, granted: 5, on_exhausted: {fallback: b}}\n"
            "- {name: s/t, parent: s, granted: 5, on_exhausted: {fallback: b}}\n",
         "9:50: warning: upstream 'b' does not serve '*', which tenant 'u' may ask for: once the "
         "budget is spent, such requests are refused\n"},
        {"upstreams:\n- {name: a, url: 'http://h', models: [gpt-*, o3]}\n"
         "- {name: b, url: 'http://h', models: [gpt-4*, o3]}\n"
         "tenants:\n- {name: t, scope: s}\n"
         "scopes:\n- {name: s, granted: 5, on_exhausted: {fallback: b}}\n",
         "7:50: warning: upstream 'b' does not serve 'gpt-*', which tenant 't' may ask for: once "
         "the budget is spent, such requests are refused\n"},
    };
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct weir_config_problems problems = {0};
        struct weir_config *config = load_text(rows[i].text, &problems);
        char said[2048];
        problems_text(&problems, said, sizeof said);
        CHECK_STR(said, rows[i].said);
        CHECK(config != NULL);
        weir_config_free(config);
        weir_config_problems_free(&problems);
    }
}

/* However much there is to be warned of, what must be mended is told. */
static void config__an_error_after_many_warnings__is_told(void **state)
{
    (void)state;
    enum { SCOPES = 300, ROW = 80 };
    char text[SCOPES * ROW + 256], said[SCOPES * 256];
    size_t used = (size_t)snprintf(text, sizeof text, UP "scopes:\n");
    for (int i = 0; i < SCOPES; i++)
        used +=
            (size_t)snprintf(text + used, sizeof text - used,
                             "- {name: s%d, granted: 5, period: day, on_exhausted: queue}\n", i);
    snprintf(text + used, sizeof text - used, "- {name: last, granted: 5, zone: UTC}\n");
    struct weir_config_problems problems = {0};
    CHECK(load_text(text, &problems) == NULL);
    CHECK_INT(problems.errors, 1);
    CHECK_INT(problems.warnings, SCOPES);
    CHECK_INT(problems.count, 200 + 1);
    problems_text(&problems, said, sizeof said);
    CHECK(strstr(said, "305:34: zone is given without a period"));
    weir_config_problems_free(&problems);
}

/* One place, whatever the folder that weir is started from. */
static void config__the_ledgers_path__is_absolute(void **state)
{
    (void)state;
    char folder[] = "/tmp/weir-config-XXXXXX", file[128], wanted[128], here[PATH_MAX];
    CHECK(mkdtemp(folder) && getcwd(here, sizeof here));
    snprintf(file, sizeof file, "%s/weir.yaml", folder);
    snprintf(wanted, sizeof wanted, "%s/l.db", folder);
    FILE *out = fopen(file, "w");
    CHECK(out && fputs(UP "ledger: l.db\n", out) >= 0 && fclose(out) == 0);
    struct weir_config_problems problems = {0};
    struct weir_config_source from = {.file = file};
    struct weir_config *c = weir_config_load(&from, &problems);
    CHECK_STR(c->ledger.path, wanted);
    weir_config_free(c);

    /* A flag goes before the file, and its path is the caller's, who stands elsewhere. */
    struct weir_config_flag flag = {"--ledger", "l.db"};
    from.flags = &flag;
    from.flags_count = 1;
    c = weir_config_load(&from, &problems);
    CHECK(strncmp(c->ledger.path, here, strlen(here)) == 0);
    CHECK_STR(c->ledger.path + strlen(here), "/l.db");
    weir_config_free(c);
    flag.value = "memory";
    c = weir_config_load(&from, &problems);
    CHECK(c->ledger.in_memory);
    weir_config_free(c);
    flag.value = "none/l.db";
    CHECK(!weir_config_load(&from, &problems));
    CHECK_STR(problems.list[0].where, "--ledger");
    weir_config_problems_free(&problems);
    from.no_secrets = true; /* of another machine */
    c = weir_config_load(&from, &problems);
    CHECK(c != NULL && problems.count == 0);
    weir_config_free(c);

    /* The default is in the state directory, which need not be there yet. */
    setenv("WEIR_STATE", "/nonexistent/weir", 1);
    c = weir_config_load(&(struct weir_config_source){0}, &problems);
    CHECK(c && problems.count == 0);
    CHECK_STR(c->ledger.path, "/nonexistent/weir/ledger.db");
    CHECK(!c->ledger.in_memory);
    weir_config_free(c);
    unsetenv("WEIR_STATE");
    CHECK(unlink(file) == 0 && rmdir(folder) == 0);
}

/* It lies beside the configuration, and no other file of weir's may be it: by name or by inode. */
static void config__the_recordings_path__is_a_file_of_its_own(void **state)
{
    (void)state;
    char folder[] = "/tmp/weir-config-XXXXXX", file[128], other[128], wanted[128];
    CHECK(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/weir.yaml", folder);
    snprintf(other, sizeof other, "%s/same.yaml", folder);
    snprintf(wanted, sizeof wanted, "%s/r.csv", folder);
    FILE *out = fopen(file, "w");
    CHECK(out && fputs(UP "record: {file: r.csv}\n", out) >= 0 && fclose(out) == 0);
    struct weir_config_problems problems = {0};
    struct weir_config_source from = {.file = file};
    struct weir_config *c = weir_config_load(&from, &problems);
    CHECK(c != NULL);
    CHECK_STR(c->record_file, wanted);
    weir_config_free(c);

    CHECK(link(file, other) == 0 && (out = fopen(file, "w")));
    CHECK(fputs(UP "record: {file: same.yaml}\n", out) >= 0 && fclose(out) == 0);
    CHECK(!weir_config_load(&from, &problems));
    CHECK(strstr(problems.list[0].text, "same.yaml' is the configuration: a recording needs"));
    weir_config_problems_free(&problems);

    setenv("WEIR_STATE", folder, 1);
    CHECK((out = fopen(file, "w")));
    CHECK(fputs(UP "ledger: memory\nrecord: {file: admin.token}\n", out) >= 0 && fclose(out) == 0);
    CHECK(!weir_config_load(&from, &problems));
    CHECK(strstr(problems.list[0].text, "admin.token' is a file of the state directory"));
    weir_config_problems_free(&problems);
    unsetenv("WEIR_STATE");
    CHECK(unlink(file) == 0 && unlink(other) == 0 && rmdir(folder) == 0);
}

static void config__no_zone_database__says_so(void **state)
{
    (void)state;
    setenv("TZDIR", "/nonexistent/zoneinfo", 1);
    struct weir_config_problems problems = {0};
    CHECK(!load_text(UP "scopes:\n- {name: s, granted: 5, period: day, zone: Europe/Berlin}\n"
                        "- {name: t, granted: 5, period: day, zone: UTC}\n",
                     &problems));
    CHECK_INT(problems.count, 1);
    CHECK_STR(problems.list[0].text, "there are no time zones in /nonexistent/zoneinfo: install "
                                     "tzdata, or leave zone out for UTC");
    weir_config_problems_free(&problems);
    unsetenv("TZDIR");
}

static void config__nothing_given__is_the_embedded_default(void **state)
{
    (void)state;
    struct weir_config_problems problems = {0};
    struct weir_config *c = weir_config_load(&(struct weir_config_source){0}, &problems);
    CHECK(c && problems.count == 0);
    CHECK(c->builtin_mock && !c->file);
    CHECK_STR(c->listen.host, "127.0.0.1");
    CHECK_INT(c->listen.port, 8765);
    CHECK_INT(c->admin.port, 8766);
    CHECK_STR(c->upstreams[0].name, "mock");
    CHECK_INT(c->upstreams[0].max_in_flight, 64);
    CHECK_INT(c->upstreams[0].adaptive.min, 0); /* fixed */
    CHECK_INT(c->limits.waiters, 10000);
    CHECK_INT(c->limits.waiters_per_tenant, 1000);
    CHECK_INT(c->limits.waiting_bytes, 256 << 20);
    CHECK_INT(c->limits.body_bytes, 32 << 20);
    CHECK_INT(c->limits.head_bytes, 64 << 10);
    CHECK_INT(c->limits.max_wait_ns, 60 * WEIR_NS_PER_S);
    CHECK_INT(c->upstreams[0].timeouts.connect_ns, 5 * WEIR_NS_PER_S);
    CHECK_INT(c->upstreams[0].timeouts.first_byte_ns, 120 * WEIR_NS_PER_S);
    CHECK_INT(c->upstreams[0].timeouts.first_byte_whole_ns, 600 * WEIR_NS_PER_S);
    CHECK_INT(c->upstreams[0].timeouts.idle_ns, 300 * WEIR_NS_PER_S);
    CHECK_INT(c->upstreams[0].timeouts.total_ns, 3600 * WEIR_NS_PER_S);
    CHECK_INT(c->upstreams[0].timeouts.pool_idle_ns, 10 * WEIR_NS_PER_S);
    CHECK_INT(c->limits.client_stall_ns, 60 * WEIR_NS_PER_S);
    CHECK_INT(c->scheduler, WEIR_CONFIG_POLICY_VTC);
    CHECK_INT(c->upstreams[0].breaker.failures, 5);
    CHECK_INT(c->upstreams[0].breaker.cooldown_ns, 15 * WEIR_NS_PER_S);
    CHECK_INT(c->upstreams[0].breaker.cooldown_max_ns, 60 * WEIR_NS_PER_S);
    CHECK_INT(c->upstreams[0].output_limit_tok, 4096);
    CHECK_INT(c->lanes_count, 3);
    CHECK_INT(c->lanes[1].floor_percent, 20);
    CHECK_INT(c->lane_default, 1);
    CHECK_INT(c->tenants_count, 0);
    weir_config_free(c);
    weir_config_problems_free(&problems);
}

static void config__quick_flags__make_an_upstream(void **state)
{
    (void)state;
    struct weir_config_flag flags[] = {{"--upstream", "https://host.example/v1"},
                                       {"--rate", "2/s"},
                                       {"--burst", "5"},
                                       {"--max-in-flight", "3"},
                                       {"--max-wait", "9s"},
                                       {"--timeout", "100s"},
                                       {"--fail-threshold", "7"},
                                       {"--cooldown", "2m"},
                                       {"--listen", "0.0.0.0:1"},
                                       {"--admin", "127.0.0.1:2"},
                                       {"--ledger", "memory"},
                                       {"--access-log", "off"}};
    struct weir_config_problems problems = {0};
    struct weir_config_source from = {.flags = flags, .flags_count = WEIR_COUNT(flags)};
    struct weir_config *c = weir_config_load(&from, &problems);
    CHECK(c && !c->builtin_mock);
    const struct weir_config_upstream *u = &c->upstreams[0];
    CHECK_STR(u->host, "host.example");
    CHECK_INT(u->rate.count, 2);
    CHECK_INT(u->burst_req, 5);
    CHECK_INT(u->max_in_flight, 3);
    CHECK_INT(c->limits.max_wait_ns, 9 * WEIR_NS_PER_S);
    CHECK_INT(u->timeouts.total_ns, 100 * WEIR_NS_PER_S);
    CHECK_INT(u->timeouts.first_byte_whole_ns, 100 * WEIR_NS_PER_S);
    CHECK_INT(u->timeouts.first_byte_ns, 100 * WEIR_NS_PER_S);
    CHECK_INT(u->timeouts.connect_ns, 5 * WEIR_NS_PER_S);
    CHECK_INT(u->breaker.failures, 7);
    CHECK_INT(u->breaker.cooldown_ns, 120 * WEIR_NS_PER_S);
    CHECK_INT(u->breaker.cooldown_max_ns, 120 * WEIR_NS_PER_S);
    CHECK_INT(c->access, WEIR_CONFIG_ACCESS_OFF);
    CHECK(weir_config_exposed(c, 0) == NULL); /* no credential of ours to spend */
    weir_config_free(c);
    weir_config_problems_free(&problems);
}

static void config__flags_beside_a_file(void **state)
{
    (void)state;
    struct weir_config_flag flags[] = {
        {"--listen", "127.0.0.1:0"}, {"--rate", "2/s"}, {"--admin", "x"}};
    struct weir_config_problems problems = {0};
    struct weir_config_source from = {
        .file = "f", .text = UP, .text_bytes = strlen(UP), .flags = flags, .flags_count = 1};
    struct weir_config *c = weir_config_load(&from, &problems);
    CHECK(c && c->listen.port == 0);
    weir_config_free(c);
    from.flags_count = 3;
    CHECK(!weir_config_load(&from, &problems));
    CHECK_INT(problems.errors, 2);
    CHECK_STR(problems.list[0].where, "--rate");
    CHECK_STR(problems.list[1].where, "--admin");
    weir_config_problems_free(&problems);
}

static void config__credential_files(void **state)
{
    (void)state;
    static const struct {
        const char *content;
        mode_t mode;
        const char *key, *said;
    } rows[] = {
        {"sk-abc\n", 0600, "sk-abc", ""},
        {"sk-abc", 0644, "sk-abc", "can be read by others"},
        {"\n", 0600, NULL, "is empty"},
        {"sk-a\nsk-b\n", 0600, NULL, "a line break"},
    };
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        char path[] = "/tmp/weir-key-XXXXXX", text[256];
        int fd = mkstemp(path);
        CHECK(fd >= 0);
        CHECK(write(fd, rows[i].content, strlen(rows[i].content)) >= 0);
        CHECK(fchmod(fd, rows[i].mode) == 0);
        close(fd);
        snprintf(text, sizeof text, UP "  key_file: %s\n", path);
        struct weir_config_problems problems = {0};
        struct weir_config *c = load_text(text, &problems);
        CHECK_MSG((c != NULL) == (rows[i].key != NULL), "row %zu", i);
        if (c)
            CHECK_STR(c->upstreams[0].key, rows[i].key);
        CHECK_MSG(problems.count == (*rows[i].said ? 1 : 0), "row %zu", i);
        if (problems.count) {
            CHECK_MSG(strstr(problems.list[0].text, rows[i].said), "%s", problems.list[0].text);
            CHECK(!strstr(problems.list[0].text, "sk-"));
        }
        weir_config_free(c);
        weir_config_problems_free(&problems);
        unlink(path);
    }
}

static void config__credential_without_tenants_beyond_loopback__is_refused(void **state)
{
    (void)state;
    setenv("WEIR_TEST_KEY", "sk-test", 1);
    struct weir_config *c = load_right(UP "  key_env: WEIR_TEST_KEY\nlisten: 0.0.0.0:1\n");
    CHECK(weir_config_exposed(c, 0) != NULL);
    CHECK(weir_config_exposed(c, 1) == NULL);
    weir_config_free(c);
    c = load_right(UP "  key_env: WEIR_TEST_KEY\n");
    CHECK(weir_config_exposed(c, 0) == NULL);
    weir_config_free(c);
    c = load_right(UP "  key_env: WEIR_TEST_KEY\nlisten: 0.0.0.0:1\ntenants: [{name: t}]\n");
    CHECK(weir_config_exposed(c, 0) == NULL);
    weir_config_free(c);
}

static void config__aliases_a_bomb_and_a_circle__stay_small(void **state)
{
    (void)state;
    char bomb[4096];
    size_t used =
        (size_t)snprintf(bomb, sizeof bomb, UP "traffic:\n  l0: &l0 [x,x,x,x,x,x,x,x,x,x]\n");
    for (int i = 1; i < 12; i++)
        used += (size_t)snprintf(bomb + used, sizeof bomb - used,
                                 "  l%d: &l%d [*l%d,*l%d,*l%d,*l%d,*l%d,*l%d,*l%d,*l%d]\n", i, i,
                                 i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1);
    struct weir_config_problems problems = {0};
    CHECK(!load_text(bomb, &problems));
    CHECK_INT(problems.errors, 12); /* unknown keys; what stands behind them is not looked into */
    weir_config_problems_free(&problems);
    CHECK(!load_text("upstreams: &u [*u]\n", &problems));
    weir_config_problems_free(&problems);
    CHECK(!load_text("&r upstreams: *r\n", &problems));
    weir_config_problems_free(&problems);
    weir_config_free(
        load_right("upstreams: [&a {name: a, url: 'http://h'}]\ntenants: [{name: x, limits: &l "
                   "{requests: 1/s}}, {name: y, limits: *l}]\n"));
}

static void config__a_hundred_thousand_tenants__load(void **state)
{
    (void)state;
    enum { TENANTS = 100000 };
    char *text = malloc(TENANTS * 64 + 256);
    CHECK(text);
    size_t used = (size_t)sprintf(text, UP "tenants:\n");
    for (int i = 0; i < TENANTS; i++)
        used += (size_t)sprintf(text + used, "- {name: t%d, weight: %d}\n", i, 1 + i % 1000);
    struct weir_config *c = load_right(text);
    CHECK_INT(c->tenants_count, TENANTS);
    CHECK_INT(c->tenants[TENANTS - 1].weight, 1000);
    weir_config_free(c);
    free(text);
}

static void config__the_reference__is_in_step_with_the_table(void **state)
{
    (void)state;
    char path[512];
    snprintf(path, sizeof path, "%s/../../docs/configuration.md", getenv("WEIR_TEST_DATA"));
    FILE *file = fopen(path, "r");
    CHECK_MSG(file, "%.300s is missing: weir check --defaults > docs/configuration.md", path);
    char *reference = weir_config_reference();
    CHECK(reference);
    size_t bytes = strlen(reference);
    char *text = calloc(1, bytes + 2);
    CHECK(text);
    size_t got = fread(text, 1, bytes + 1, file);
    fclose(file);
    CHECK_MSG(got == bytes && memcmp(text, reference, bytes) == 0,
              "run: weir check --defaults > docs/configuration.md");
    free(text);
    free(reference);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(config__each_mistake__is_told_with_its_place),
        cmocka_unit_test(config__several_mistakes__are_told_at_once_in_order),
        cmocka_unit_test(config__every_field__arrives_in_the_struct),
        cmocka_unit_test(config__the_printed_one__loads_to_the_same),
        cmocka_unit_test(config__warnings__are_told_with_their_place),
        cmocka_unit_test(config__an_error_after_many_warnings__is_told),
        cmocka_unit_test(config__the_ledgers_path__is_absolute),
        cmocka_unit_test(config__the_recordings_path__is_a_file_of_its_own),
        cmocka_unit_test(config__no_zone_database__says_so),
        cmocka_unit_test(config__nothing_given__is_the_embedded_default),
        cmocka_unit_test(config__quick_flags__make_an_upstream),
        cmocka_unit_test(config__flags_beside_a_file),
        cmocka_unit_test(config__credential_files),
        cmocka_unit_test(config__credential_without_tenants_beyond_loopback__is_refused),
        cmocka_unit_test(config__aliases_a_bomb_and_a_circle__stay_small),
        cmocka_unit_test(config__a_hundred_thousand_tenants__load),
        cmocka_unit_test(config__the_reference__is_in_step_with_the_table),
    };
    return cmocka_run_group_tests_name("gateway/config", tests, read_everything, NULL);
}
