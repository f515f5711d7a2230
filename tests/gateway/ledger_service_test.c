#include "support/check.h"

#include "gateway/ledger_service.h"
#include "net/loop.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdlib.h>

/* A service over a memory store with the scopes class and class/team, and what it replied last. */
struct rig {
    struct weir_config *config;
    struct weir_store *store;
    struct weir_ledger_service *service;
    struct weir_loop *loop; /* NULL but where a test makes one */
    uint32_t replies, status;
    char text[8192];
    char said[1024];
};

static int64_t wall_s(void)
{
    return INT64_C(1796040000); /* 2026-11-30T12:00:00Z */
}

static void say(void *ctx, const char *text)
{
    struct rig *rig = ctx;
    snprintf(rig->said, sizeof rig->said, "%s", text);
}

static void reply(void *ctx, uint32_t status, json_t *answer)
{
    struct rig *rig = ctx;
    rig->replies++;
    rig->status = status;
    char *text = json_dumps(answer, JSON_COMPACT | JSON_SORT_KEYS);
    snprintf(rig->text, sizeof rig->text, "%s", text);
    free(text);
    json_decref(answer);
}

static void collect(struct rig *rig)
{
    struct weir_store_answer answers[64];
    size_t count = weir_store_collect(rig->store, 1, answers, 64);
    for (size_t i = 0; i < count; i++)
        weir_ledger_service_answer(rig->service, &answers[i]);
}

static void define(struct rig *rig, const char *name, const char *parent, int64_t granted_tok)
{
    const struct weir_store_op op = {
        .ledger = {.kind = WEIR_LEDGER_SCOPE,
                   .scope = weir_store_scope(rig->store, name),
                   .parent = parent ? weir_store_scope(rig->store, parent) : WEIR_NONE,
                   .amount_tok = granted_tok},
        .deadline_ns = WEIR_NEVER_NS};
    CHECK(weir_store_submit(rig->store, &op));
}

/* ---- a disk that hangs: opening a file waits while the gate is shut ---- */

static struct {
    sqlite3_vfs vfs;
    int (*open)(sqlite3_vfs *, const char *, sqlite3_file *, int, int *);
    pthread_mutex_t lock;
    pthread_cond_t opens;
    bool is_shut;
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .opens = PTHREAD_COND_INITIALIZER};

static int gate_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out)
{
    pthread_mutex_lock(&gate.lock);
    while (gate.is_shut)
        pthread_cond_wait(&gate.opens, &gate.lock);
    pthread_mutex_unlock(&gate.lock);
    return gate.open(vfs, name, file, flags, out);
}

static void gate_set(bool shut)
{
    pthread_mutex_lock(&gate.lock);
    gate.is_shut = shut;
    pthread_cond_broadcast(&gate.opens);
    pthread_mutex_unlock(&gate.lock);
}

static void gate_register(void)
{
    gate.vfs = *sqlite3_vfs_find(NULL);
    gate.open = gate.vfs.xOpen;
    gate.vfs.xOpen = gate_open;
    gate.vfs.zName = "gate";
    CHECK_INT(sqlite3_vfs_register(&gate.vfs, 1), SQLITE_OK);
}

/* collects: how long the store thinks about each operation; 0: it answers at once. */
static void rig_open(struct rig *rig, uint32_t collects)
{
    static const char yaml[] =
        "ledger: memory\nupstreams: [{name: a, url: 'http://127.0.0.1:1'}]\n"
        "scopes: [{name: class, granted: 1000, period: day, zone: Europe/Berlin}, "
        "{name: class/team, parent: class, granted: 600}]\n";
    const struct weir_config_source from = {
        .file = "test.yaml", .no_secrets = true, .text = yaml, .text_bytes = sizeof yaml - 1};
    struct weir_config_problems problems = {0};
    const struct weir_memory_store_config memory = {
        .scopes_max = 16, .holds_max = 64, .finished_keep = 64};
    const struct weir_faulty_store_config faulty = {.queue_max = 4, .delay_collects = collects};
    *rig = (struct rig){0};
    rig->config = weir_config_load(&from, &problems);
    CHECK_MSG(rig->config, "%s", problems.count ? problems.list[0].text : "");
    weir_config_problems_free(&problems);
    rig->store = weir_memory_store_open(&memory);
    define(rig, "class", NULL, 1000);
    define(rig, "class/team", "class", 600);
    struct weir_store_answer answers[2];
    CHECK_INT(weir_store_collect(rig->store, 1, answers, 2), 2);
    if (collects)
        rig->store = weir_faulty_store_open(rig->store, &faulty);
    const struct weir_ledger_host host = {
        .store = rig->store, .config = rig->config, .wall_s = wall_s, .say = say, .ctx = rig};
    rig->service = weir_ledger_service_create(&host);
    CHECK(rig->store && rig->service);
}

static void rig_close(struct rig *rig)
{
    weir_ledger_service_destroy(rig->service);
    weir_store_close(rig->store);
    weir_config_free(rig->config);
}

/* target: "/v1/ledger?x=y"; body NULL: GET. */
static struct weir_ledger_call *ask(struct rig *rig, const char *target, const char *body)
{
    char path[512];
    snprintf(path, sizeof path, "%s", target);
    char *query = strchr(path, '?');
    if (query)
        *query++ = '\0';
    json_t *json = body ? json_loads(body, JSON_DECODE_ANY, NULL) : NULL;
    const struct weir_ledger_request request = {.is_post = body != NULL,
                                                .path = path,
                                                .query = query ? query : "",
                                                .body = json,
                                                .reply = reply,
                                                .ctx = rig};
    struct weir_ledger_call *call = weir_ledger_service_call(
        rig->service, &request, rig->loop ? weir_loop_now_ns(rig->loop) : 1);
    json_decref(json);
    return call;
}

#define GRANT "/v1/ledger/grant"
#define ADJUST "/v1/ledger/adjust"
#define LONG_50 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
#define LONG_200 LONG_50 LONG_50 LONG_50 LONG_50

/* An adjustment that corrects use: tokens, upstream, hour, input, output. */
#define USAGE(tokens, upstream, hour, input, output)                                               \
    "{\"scope\":\"class\",\"tokens\":" tokens                                                      \
    ",\"reason\":\"x\",\"usage\":{\"upstream\":" upstream ",\"model\":\"m\",\"utc_hour\":" hour    \
    ",\"input_tok\":" input ",\"output_tok\":" output "}}"

static const struct {
    const char *target, *body;
    uint32_t status;
    const char *says;
} rows[] = {
    {"/v1/ledger", NULL, 200, "\"scope\":\"class/team\""},
    {"/v1/ledger?scope=class%2Fteam", NULL, 200, "\"scopes\":[{"},
    {"/v1/ledger?scope=none", NULL, 200, "\"scopes\":[]"},
    {"/v1/ledger?limit=1", NULL, 200, "\"next\":\"1\""},
    {"/v1/ledger?after=1", NULL, 200, "\"next\":null"},
    {"/v1/ledger?after=x", NULL, 400, "after must be what 'next' of a page said"},
    {"/v1/ledger?idle=no", NULL, 200, "\"left_out\":0"},
    {"/v1/ledger?idle=maybe", NULL, 400, "idle must be yes or no, not 'maybe'"},
    {"/v1/ledger", NULL, 200, "\"resets\":\"2026-11-30T23:00:00Z\""},
    {"/v1/ledger", NULL, 200, "\"resets_local\":\"2026-12-01T00:00:00+01:00\""},
    {"/v1/ledger/", NULL, 404, "there are /v1/ledger, and below it holds, usage"},
    {"/v1/ledger/hold", NULL, 404, "no such page"},
    {"/v1/ledger", "{}", 405, "/v1/ledger takes GET"},
    {GRANT, NULL, 405, "/v1/ledger/grant takes POST"},
    {"/v1/ledger/holds", NULL, 404, "this ledger is in memory and keeps balances only"},
    {"/v1/ledger?scpoe=a", NULL, 400, "'scpoe' is not asked here: did you mean 'scope'?"},
    {"/v1/ledger?scope", NULL, 400, "the query is malformed"},
    {"/v1/ledger?scope=%4", NULL, 400, "the query is malformed"},
    {"/v1/ledger?scope=%0a", NULL, 400, "the query is malformed"},
    {"/v1/ledger?scope=", NULL, 400, "scope must be a name of 1 to 135 bytes"},
    {"/v1/ledger?scope=" LONG_50 LONG_50 LONG_50, NULL, 400, "scope must be a name"},
    {"/v1/ledger?scope=a&scope=b", NULL, 400, "scope is given twice"},
    {"/v1/ledger?limit=0", NULL, 400, "limit must be a whole number between 1 and 1000"},
    {"/v1/ledger?limit=1001", NULL, 400, "limit must be"},
    {"/v1/ledger?limit=18446744073709551617", NULL, 400, "limit must be"},
    {"/v1/ledger/holds?state=hled", NULL, 400, "there is no state 'hled': did you mean 'held'?"},
    {"/v1/ledger/usage?from=yesterday", NULL, 400, "from must be a time in UTC"},
    {"/v1/ledger/usage?from=2026-02-30", NULL, 400, "from must be a time in UTC"},
    {"/v1/ledger/usage?from=2026-11-02&to=2026-11-01T13", NULL, 400, "from must be before to"},
    {"/v1/ledger/usage?from=2026-11-01&to=1796040000", NULL, 404, "this ledger is in memory"},

    {GRANT, "[]", 400, "the body must be a JSON object"},
    {GRANT, "{\"scope\":\"class\"}", 400, "granted_tok must be a whole number of tokens"},
    {GRANT, "{\"granted_tok\":5}", 400, "scope must be the name of a scope"},
    {GRANT, "{\"scope\":\"clas\",\"granted_tok\":5}", 404,
     "there is no scope 'clas': did you mean 'class'?"},
    {GRANT, "{\"scope\":\"other\",\"granted_tok\":5}", 404, "scopes come from the configuration"},
    {GRANT, "{\"scope\":\"class\",\"granted_tok\":-1}", 400, "between 0 and 4503599627370496"},
    {GRANT, "{\"scope\":\"class\",\"granted_tok\":4503599627370497}", 400, "between 0 and"},
    {GRANT, "{\"scope\":\"class\",\"granted_tok\":9223372036854775807}", 400, "between 0 and"},
    {GRANT, "{\"scope\":\"class\",\"granted_tok\":1.5}", 400, "between 0 and"},
    {GRANT, "{\"scope\":\"class\",\"granted_tok\":\"5\"}", 400, "between 0 and"},
    {GRANT, "{\"scope\":\"class\",\"grant\":5}", 400,
     "there is no member 'grant' here; there are scope and granted_tok"},
    {GRANT, "{\"scope\":\"class\",\"granted_tok\":2000}", 200, "\"before_tok\":1000"},
    {GRANT, "{\"scope\":\"class\",\"granted_tok\":2000}", 200, "\"granted_tok\":2000"},
    {GRANT, "{\"scope\":\"class\",\"granted_tok\":null}", 200, "\"granted_tok\":null"},
    {GRANT, "{\"scope\":\"class\",\"granted_tok\":4503599627370496}", 200, "\"before_tok\":null"},

    {ADJUST, "{\"scope\":\"class\",\"tokens\":5}", 400, "reason must say why, in 1 to 200 bytes"},
    {ADJUST, "{\"scope\":\"class\",\"tokens\":5,\"reason\":\"\"}", 400, "reason must say why"},
    {ADJUST, "{\"scope\":\"class\",\"tokens\":5,\"reason\":\"" LONG_200 "x\"}", 400,
     "reason must say why"},
    {ADJUST, "{\"scope\":\"class\",\"tokens\":5,\"reason\":\"a\\nb\"}", 400, "one line"},
    {ADJUST, "{\"tokens\":5,\"reason\":\"x\"}", 400, "name either a scope or a hold"},
    {ADJUST, "{\"scope\":\"class\",\"hold\":\"5\",\"tokens\":5,\"reason\":\"x\"}", 400,
     "name either a scope or a hold"},
    {ADJUST, "{\"scope\":\"class\",\"tokens\":0,\"reason\":\"x\"}", 400, "changes nothing"},
    {ADJUST, "{\"scope\":\"class\",\"tokens\":-4503599627370497,\"reason\":\"x\"}", 400,
     "between -4503599627370496 and"},
    {ADJUST, "{\"scope\":\"class/team\",\"tokens\":700,\"reason\":\"" LONG_200 "\"}", 200,
     "\"overdrawn_tok\":100"},
    {ADJUST, "{\"scope\":\"class/team\",\"tokens\":-200,\"reason\":\"x\"}", 200,
     "\"used_tok\":500"},
    {"/v1/ledger?scope=class", NULL, 200, "\"used_tok\":500"},
    {ADJUST, USAGE("3", "\"up\"", "9", "1", "1"), 400, "tokens must be the sum of usage's"},
    {ADJUST, USAGE("2", "\"up\"", "0", "1", "1"), 400, "an utc_hour between 1 and now (49"},
    {ADJUST, USAGE("2", "\"up\"", "499000", "1", "1"), 400, "an utc_hour between 1 and now"},
    {ADJUST, USAGE("2", "\"" LONG_200 "\"", "9", "1", "1"), 400, "by more than 135 bytes"},
    {ADJUST, USAGE("2", "5", "9", "1", "1"), 400, "usage needs an upstream"},
    {ADJUST, USAGE("2", "\"up\"", "9", "1.0", "1"), 400, "input_tok must be a whole number"},
    {ADJUST, USAGE("2", "\"up\"", "9", "1", "1,\"more\":1"), 400, "there is no member 'more' here"},
    {ADJUST, "{\"scope\":\"class\",\"tokens\":5,\"reason\":\"x\",\"usage\":[]}", 400,
     "usage must be a JSON object"},
    {ADJUST, "{\"hold\":\"5\",\"tokens\":5,\"reason\":\"x\",\"usage\":{}}", 400,
     "usage goes with a scope, not with a hold"},
    {"/v1/ledger?scope=class", NULL, 200, "\"used_tok\":500"},
    {ADJUST, USAGE("-2", "\"up\"", "9", "3", "-5"), 200, "\"used_tok\":498"},
    {ADJUST, USAGE("2", "\"other\"", "9", "1", "1"), 200, "\"used_tok\":500"},
    {ADJUST, USAGE("2", "\"\"", "9", "1", "1"), 503, "no room for another name"},
    {ADJUST, "{\"hold\":5,\"tokens\":5,\"reason\":\"x\"}", 400, "a string of digits"},
    {ADJUST, "{\"hold\":\"5x\",\"tokens\":5,\"reason\":\"x\"}", 400, "a string of digits"},
    {ADJUST, "{\"hold\":\"18446744073709551616\",\"tokens\":5,\"reason\":\"x\"}", 400, "of digits"},
    {ADJUST, "{\"hold\":\"5\",\"tokens\":-5,\"reason\":\"x\"}", 400,
     "tokens must be a whole number"},
    {ADJUST, "{\"hold\":\"5\",\"tokens\":5,\"reason\":\"x\"}", 404, "there is no hold 5"},
    {ADJUST, "{\"hold\":\"1099511627777\",\"tokens\":5,\"reason\":\"x\"}", 409,
     "belongs to this run of the ledger"},
};

static void ledger_service__each_request__is_answered_at_once_as_told(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, 0);
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        uint32_t replies = rig.replies;
        ask(&rig, rows[i].target, rows[i].body);
        collect(&rig);
        CHECK_MSG(rig.replies == replies + 1, "%s %s", rows[i].target, rows[i].body);
        CHECK_MSG(rig.status == rows[i].status, "%s %s: %u %s", rows[i].target, rows[i].body,
                  rig.status, rig.text);
        CHECK_MSG(strstr(rig.text, rows[i].says), "%s %s: %s", rows[i].target, rows[i].body,
                  rig.text);
    }
    CHECK(weir_memory_store_audit(rig.store) == NULL);
    rig_close(&rig);
}

static void ledger_service__a_change__is_told_when_the_store_has_answered(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, 3);
    CHECK(ask(&rig, GRANT, "{\"scope\":\"class\",\"granted_tok\":7}") != NULL);
    collect(&rig);
    CHECK_INT(rig.replies, 0);
    for (int i = 0; i < 5; i++)
        collect(&rig);
    CHECK_INT(rig.replies, 1);
    CHECK_INT(rig.status, 200);
    CHECK(strstr(rig.text, "\"granted_tok\":7"));
    CHECK_STR(rig.said, "ledger: the grant of class was set to 7 by hand");
    rig_close(&rig);
}

static void ledger_service__no_answer_for_5_s__is_told_as_unknown_and_only_once(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, 3);
    CHECK(ask(&rig, ADJUST, "{\"scope\":\"class\",\"tokens\":7,\"reason\":\"x\"}") != NULL);
    weir_ledger_service_tick(rig.service, 5 * WEIR_NS_PER_S);
    CHECK_INT(rig.replies, 0);
    weir_ledger_service_tick(rig.service, 5 * WEIR_NS_PER_S + 1);
    CHECK_INT(rig.replies, 1);
    CHECK_INT(rig.status, 503);
    CHECK(strstr(rig.text, "has not answered within 5 s") &&
          strstr(rig.text, "look at the journal"));
    for (int i = 0; i < 5; i++)
        collect(&rig);
    CHECK_INT(rig.replies, 1);
    ask(&rig, "/v1/ledger?scope=class", NULL);
    CHECK(strstr(rig.text, "\"used_tok\":7"));
    rig_close(&rig);
}

static void ledger_service__more_than_there_is_room_for__is_refused(void **state)
{
    struct rig rig;
    static const char body[] = "{\"scope\":\"class\",\"tokens\":1,\"reason\":\"x\"}";
    (void)state;
    rig_open(&rig, 1000);
    for (int i = 0; i < 4; i++)
        CHECK(ask(&rig, ADJUST, body) != NULL); /* the store's queue */
    CHECK(ask(&rig, ADJUST, body) == NULL);
    CHECK_INT(rig.status, 503);
    CHECK(strstr(rig.text, "the ledger has no room for more now"));
    rig_close(&rig);
    rig_open(&rig, 0);
    for (int i = 0; i < WEIR_LEDGER_CALLS_MAX; i++)
        CHECK(ask(&rig, ADJUST, body) != NULL); /* nobody collects */
    CHECK(ask(&rig, ADJUST, body) == NULL);
    CHECK_INT(rig.status, 503);
    CHECK(strstr(rig.text, "16 requests to the ledger are under way"));
    collect(&rig);
    CHECK_INT(rig.replies, 1 + WEIR_LEDGER_CALLS_MAX);
    rig_close(&rig);
}

static void ledger_service__the_asker_is_gone__is_done_and_told_to_nobody(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, 2);
    struct weir_ledger_call *call = ask(&rig, GRANT, "{\"scope\":\"class\",\"granted_tok\":8}");
    weir_ledger_service_cancel(rig.service, call);
    for (int i = 0; i < 4; i++)
        collect(&rig);
    CHECK_INT(rig.replies, 0);
    CHECK_STR(rig.said, "ledger: the grant of class was set to 8 by hand");
    rig_close(&rig);
}

static void ledger_service__answers_to_others__are_left_to_them(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, 0);
    struct weir_store_answer other = {.tag = 1, .kind = WEIR_LEDGER_SCOPE};
    ask(&rig, GRANT, "{\"scope\":\"class\",\"granted_tok\":8}");
    CHECK(!weir_ledger_service_answer(rig.service, &other));
    CHECK_INT(rig.replies, 0);
    collect(&rig);
    CHECK_INT(rig.replies, 1);
    rig_close(&rig);
}

static void turn(struct rig *rig)
{
    CHECK_INT(weir_loop_turn(rig->loop, 100 * WEIR_NS_PER_MS), 0);
}

static void ledger_service__the_disk_hangs__balances_are_told_and_lists_are_refused(void **state)
{
    struct rig rig;
    char folder[] = "/tmp/weir-service-XXXXXX", path[64], error_text[256], clear[64];
    (void)state;
    CHECK(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/ledger.db", folder);
    const struct weir_sqlite_config sqlite = {.path = path,
                                              .scopes_max = 4,
                                              .holds_max = 4,
                                              .keep_finished_s = 1000,
                                              .keep_journal_s = 1000,
                                              .keep_usage_s = 1000};
    struct weir_store *made = weir_sqlite_store_open(&sqlite, error_text, sizeof error_text);
    CHECK_MSG(made, "%s", error_text);
    weir_store_close(made);
    rig_open(&rig, 0);
    weir_ledger_service_destroy(rig.service);
    rig.loop = weir_loop_create();
    uint64_t now_ns = weir_loop_now_ns(rig.loop);
    const struct weir_ledger_host host = {
        .store = rig.store, .path = path, .config = rig.config, .loop = rig.loop, .wall_s = wall_s};
    rig.service = weir_ledger_service_create(&host);
    weir_loop_time_set(rig.loop, now_ns);
    gate_register();
    gate_set(true);
    CHECK(ask(&rig, "/v1/ledger", NULL) != NULL);
    CHECK(ask(&rig, "/v1/ledger/holds", NULL) != NULL);
    turn(&rig);
    CHECK_INT(rig.replies, 0);
    weir_loop_time_set(rig.loop, now_ns + WEIR_NS_PER_S + WEIR_NS_PER_S / 100);
    turn(&rig);
    CHECK_INT(rig.replies, 1);
    CHECK_INT(rig.status, 200);
    CHECK(strstr(rig.text, "\"scope\":\"class/team\"") && strstr(rig.text, "\"burn_span_s\":null"));
    CHECK(ask(&rig, "/v1/ledger/journal", NULL) == NULL);
    CHECK_INT(rig.status, 503);
    CHECK(strstr(rig.text, "/ledger.db does not answer"));
    CHECK(ask(&rig, "/v1/ledger", NULL) == NULL);
    CHECK_INT(rig.status, 200);
    CHECK_INT(rig.replies, 3);
    gate_set(false); /* the list that waited is answered now */
    for (int i = 0; i < 100 && rig.replies < 4; i++)
        turn(&rig);
    CHECK_INT(rig.replies, 4);
    CHECK_INT(rig.status, 200);
    CHECK(strstr(rig.text, "\"holds\":[]"));
    CHECK(ask(&rig, "/v1/ledger/holds", NULL) != NULL);
    for (int i = 0; i < 100 && rig.replies < 5; i++)
        turn(&rig);
    CHECK_INT(rig.replies, 5);
    sqlite3_vfs_unregister(&gate.vfs);
    rig_close(&rig);
    weir_loop_destroy(rig.loop);
    snprintf(clear, sizeof clear, "rm -r %s", folder);
    CHECK_INT(system(clear), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ledger_service__each_request__is_answered_at_once_as_told),
        cmocka_unit_test(ledger_service__a_change__is_told_when_the_store_has_answered),
        cmocka_unit_test(ledger_service__no_answer_for_5_s__is_told_as_unknown_and_only_once),
        cmocka_unit_test(ledger_service__more_than_there_is_room_for__is_refused),
        cmocka_unit_test(ledger_service__the_asker_is_gone__is_done_and_told_to_nobody),
        cmocka_unit_test(ledger_service__answers_to_others__are_left_to_them),
        cmocka_unit_test(ledger_service__the_disk_hangs__balances_are_told_and_lists_are_refused),
    };
    return cmocka_run_group_tests_name("ledger_service", tests, NULL, NULL);
}
