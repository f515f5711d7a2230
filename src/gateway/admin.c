#include "gateway/admin.h"

#include <jansson.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/num.h"
#include "gateway/config_print.h"
#include "gateway/gateway.h"
#include "gateway/ledger_service.h"
#include "gateway/pages.h"
#include "gateway/rollover.h"
#include "gateway/state.h"

#define ADMIN_HOLDS_MAX 1000u
#define ADMIN_TOKEN_BYTES 128u

/* One exchange and what it asks of the ledger; the exchange's user until it ends. */
struct admin_asking {
    struct admin_asking *next, **link;
    struct weir_exchange *x;
    struct weir_ledger_call *call; /* NULL once it is answered, or nothing was asked */
    struct weir_slice rest;        /* of a page: static bytes not yet written */
};

struct weir_admin {
    struct weir_gateway *g;
    struct weir_server *server;
    struct weir_ledger_service *ledger;
    struct admin_asking *askings;
    char token[ADMIN_TOKEN_BYTES];
};

static json_t *admin_u64(uint64_t value)
{
    return json_integer((json_int_t)weir_min_u64(value, INT64_MAX));
}

static json_t *admin_seconds(uint64_t ns)
{
    return json_real((double)ns / 1e9);
}

/* 64-bit ids as strings: many JSON readers have only doubles. */
static json_t *admin_id(uint64_t id)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)id);
    return json_string(text);
}

static json_t *admin_limit(const struct weir_flow_limit *limit)
{
    if (limit->limit == 0)
        return json_null();
    return json_pack("{s:o, s:o, s:o}", "limit", admin_u64(limit->limit), "remaining",
                     admin_u64(limit->remaining), "reset_s", admin_seconds(limit->reset_ns));
}

/* How good the estimates of each model were. Ratios in percent of the actual; null: above 1600. */
static json_t *admin_estimates(struct weir_gateway *g)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < g->models_set; i++) {
        struct weir_coverage coverage;
        weir_flow_coverage(g->flow, i, &coverage);
        if (coverage.samples == 0)
            continue;
        uint32_t p50 = weir_coverage_percent_at(&coverage, 500);
        uint32_t p95 = weir_coverage_percent_at(&coverage, 950);
        json_array_append_new(
            list,
            json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "model",
                      weir_routes_model_name(g->routes, i), "samples", admin_u64(coverage.samples),
                      "under", admin_u64(coverage.under), "under_ppm",
                      admin_u64(weir_muldiv_ceil(coverage.under, 1000000, coverage.samples)),
                      "p50_percent", p50 == UINT32_MAX ? json_null() : admin_u64(p50),
                      "p95_percent", p95 == UINT32_MAX ? json_null() : admin_u64(p95)));
    }
    return list;
}

/* A tenant's name; null: none. */
static json_t *admin_tenant(struct weir_gateway *g, uint32_t tenant)
{
    const char *name = tenant == WEIR_NONE ? NULL : weir_tenancy_name(g->tenancy, tenant);
    return name ? json_string(name) : json_null();
}

static json_t *admin_fairness_windows(struct weir_gateway *g, const struct weir_gap_view *view)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < WEIR_GAP_WINDOWS; i++) {
        const struct weir_gap_window *w = &view->windows[i];
        bool is_known = w->compared >= 2, is_bounded = w->bound_uwork != WEIR_GAP_NO_BOUND;
        json_array_append_new(
            list, json_pack("{s:i, s:i, s:o, s:o, s:o, s:o, s:o, s:o}", "window_s", (int)w->slices,
                            "compared", (int)w->compared, "ahead", admin_tenant(g, w->ahead),
                            "behind", admin_tenant(g, w->behind), "gap",
                            is_known ? json_real((double)w->gap_uwork / 1e6) : json_null(), "bound",
                            is_known && is_bounded ? json_real((double)w->bound_uwork / 1e6)
                                                   : json_null(),
                            "jain", is_known ? json_real((double)w->jain_ppm / 1e6) : json_null(),
                            "broken", admin_u64(w->broken)));
    }
    return list;
}

/* How far apart the tenants of each lane were: docs/metrics.md, weir_fairness_*. */
static json_t *admin_fairness(struct weir_gateway *g)
{
    json_t *list = json_array();
    for (uint32_t pool = 0; pool < g->config->pools_count; pool++)
        for (uint32_t lane = 0; lane < g->config->lanes_count; lane++) {
            struct weir_gap_view view;
            weir_flow_gap_view(g->flow, pool, lane, weir_loop_now_ns(g->loop), &view);
            json_array_append_new(
                list, json_pack("{s:s, s:s, s:s, s:i, s:i, s:o}", "pool",
                                g->config->pools[pool].name, "lane", g->config->lanes[lane].name,
                                "unit", view.in_requests ? "requests" : "work", "backlogged",
                                (int)view.backlogged, "tracked", (int)view.tracked, "windows",
                                admin_fairness_windows(g, &view)));
        }
    return list;
}

static json_t *admin_status(struct weir_gateway *g)
{
    struct weir_flow_view v;
    struct weir_ledger_stats ledger;
    weir_flow_view(g->flow, &v);
    weir_store_stats(g->store, &ledger);
    json_t *refusals = json_object();
    for (int i = 1; i < WEIR_REFUSAL_COUNT; i++) {
        const char *code = weir_refusal_row((enum weir_refusal)i)->code;
        json_int_t before = json_integer_value(json_object_get(refusals, code));
        if (g->metrics.refusals[i] > 0)
            json_object_set_new(refusals, code,
                                json_integer(before + (json_int_t)g->metrics.refusals[i]));
    }
    return json_pack(
        "{s:s, s:s, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "version",
        WEIR_VERSION, "phase", g->drain_until_ns == WEIR_NEVER_NS ? "serving" : "draining",
        "uptime_s", admin_seconds(weir_loop_now_ns(g->loop) - g->started_ns), "tenancy",
        weir_tenancy_is_key_mode(g->tenancy) ? "keys" : "pass-through", "requests",
        admin_u64(v.requests_now), "waiting", admin_u64(v.waiters_now), "in_flight",
        admin_u64(v.in_flight_now), "holds", admin_u64(v.holds_now), "waiting_bytes",
        admin_u64(v.waiting_bytes_now), "connections",
        admin_u64(weir_server_connections(g->server)), "finished", admin_u64(g->metrics.finished),
        "refusals", refusals, "estimates", admin_estimates(g), "fairness", admin_fairness(g),
        "ledger",
        json_pack("{s:s, s:o, s:o, s:o, s:o, s:I, s:o}", "store", g->store->type->name, "epoch",
                  admin_u64(ledger.epoch), "held", admin_u64(ledger.held), "lapsed",
                  admin_u64(ledger.lapsed), "finished", admin_u64(ledger.finished),
                  "enforced_tokens", (json_int_t)ledger.counted_tok, "recorded_tokens",
                  admin_u64(g->metrics.charged_tok)));
}

static json_t *admin_tenants(struct weir_gateway *g)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < weir_tenancy_end(g->tenancy); i++) {
        const char *name = weir_tenancy_name(g->tenancy, i);
        const struct weir_config_tenant *c = weir_tenancy_config(g->tenancy, i);
        struct weir_tenant_view v;
        if (!name)
            continue;
        weir_flow_tenant_view(g->flow, i, weir_loop_now_ns(g->loop), &v);
        if (i < WEIR_TENANT_FIRST && v.admitted + v.refused == 0)
            continue;
        json_array_append_new(
            list,
            json_pack("{s:s, s:i, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
                      "name", name, "weight", c ? (int)c->weight : 1, "lane",
                      c ? c->lane : g->config->lanes[g->config->lane_default].name, "waiting",
                      admin_u64(v.waiting), "in_flight", admin_u64(v.in_flight), "longest_wait_s",
                      admin_seconds(v.longest_wait_ns), "admitted", admin_u64(v.admitted),
                      "refused", admin_u64(v.refused), "finished", admin_u64(v.finished),
                      "input_tokens", admin_u64(v.input_tok), "output_tokens",
                      admin_u64(v.output_tok), "estimated", admin_u64(v.estimated_requests),
                      "connections", admin_u64(weir_tenancy_connections(g->tenancy, i)), "requests",
                      admin_limit(&v.requests), "tokens", admin_limit(&v.tokens)));
    }
    return json_pack("{s:o}", "tenants", list);
}

static json_t *admin_upstreams(struct weir_gateway *g)
{
    static const char *const breakers[] = {"closed", "open", "half-open"};
    json_t *list = json_array();
    for (uint32_t i = 0; i < g->config->upstreams_count; i++) {
        const struct weir_config_upstream *u = &g->config->upstreams[i];
        struct weir_upstream_view v;
        struct weir_target_view t;
        struct weir_pool_view p;
        weir_flow_upstream_view(g->flow, i, weir_loop_now_ns(g->loop), &v);
        weir_flow_pool_view(g->flow, u->pool_index, weir_loop_now_ns(g->loop), &p);
        weir_target_view(g->targets[i], &t);
        json_array_append_new(
            list,
            json_pack(
                "{s:s, s:s, s:s, s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
                "name", u->name, "url", u->url, "pool", u->pool, "permits", admin_u64(v.permits),
                "in_flight", admin_u64(v.permits_now), "breaker", breakers[v.breaker], "open_for_s",
                admin_seconds(v.open_for_ns), "paused_for_s", admin_seconds(v.paused_for_ns),
                "calls", admin_u64(v.calls), "failures", admin_u64(v.failures), "connections_idle",
                admin_u64(t.idle), "connections_busy", admin_u64(t.busy), "pool_waiting",
                admin_u64(p.waiting), "pool_waiting_tenants", admin_u64(p.waiting_tenants),
                "requests", admin_limit(&v.requests), "tokens", admin_limit(&v.tokens)));
    }
    return json_pack("{s:o}", "upstreams", list);
}

static json_t *admin_holds(struct weir_gateway *g)
{
    json_t *list = json_array();
    struct weir_hold_view v;
    uint32_t cursor = 0, count = 0;
    bool more = false;
    while (weir_flow_hold_view(g->flow, &cursor, weir_loop_now_ns(g->loop), &v)) {
        if (count++ == ADMIN_HOLDS_MAX) {
            more = true;
            break;
        }
        const char *tenant = weir_tenancy_name(g->tenancy, v.tenant);
        json_array_append_new(list, json_pack("{s:o, s:s, s:s, s:s, s:o, s:o}", "hold",
                                              admin_id(v.hold), "tenant", tenant ? tenant : "?",
                                              "model", weir_routes_model_name(g->routes, v.model),
                                              "state", v.state, "age_s", admin_seconds(v.age_ns),
                                              "estimate_tokens", admin_u64(v.estimate_tok)));
    }
    return json_pack("{s:o, s:b}", "holds", list, "more", more);
}

/* ---- HTTP ---- */

static void admin_text(struct weir_exchange *x, uint32_t status, const char *text)
{
    weir_exchange_respond(x, status, "text/plain; charset=utf-8", (struct weir_slice){0},
                          weir_slice_of(text));
}

static void admin_json(struct weir_exchange *x, uint32_t status, json_t *root)
{
    char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    if (text)
        weir_exchange_respond(x, status, "application/json",
                              WEIR_SLICE("cache-control: no-store\r\n"), weir_slice_of(text));
    else
        admin_text(x, 500, "out of memory\n");
    free(text);
}

static bool admin_may(const struct weir_admin *a, const struct weir_http_head *head)
{
    struct weir_slice value = weir_http_value(head, WEIR_HTTP_AUTHORIZATION);
    const struct weir_slice scheme = WEIR_SLICE("Bearer ");
    size_t want = strlen(a->token);
    return value.bytes == scheme.bytes + want && memcmp(value.at, scheme.at, scheme.bytes) == 0 &&
           CRYPTO_memcmp(value.at + scheme.bytes, a->token, want) == 0;
}

static void admin_metrics(struct weir_gateway *g, struct weir_exchange *x)
{
    size_t bytes = 0;
    char *text = weir_metrics_print(g, &bytes);
    if (text)
        weir_exchange_respond(x, 200, "text/plain; version=0.0.4", (struct weir_slice){0},
                              (struct weir_slice){text, bytes});
    else
        admin_text(x, 500, "out of memory\n");
    free(text);
}

/* Every setting in force. Credentials and keys are no settings: none is in it. */
static void admin_config(struct weir_gateway *g, struct weir_exchange *x)
{
    char *text = weir_config_yaml(g->config);
    if (text)
        weir_exchange_respond(x, 200, "application/yaml", WEIR_SLICE("cache-control: no-store\r\n"),
                              weir_slice_of(text));
    else
        admin_text(x, 500, "out of memory\n");
    free(text);
}

/* ---- the ledger ---- */

static int64_t admin_wall_s(void)
{
    return (int64_t)time(NULL);
}

static void admin_say(void *ctx, const char *text)
{
    struct weir_gateway *g = ctx;
    weir_log_message(g->log, WEIR_LOG_INFO, "%s", text);
}

static void admin_ledger_reply(void *ctx, uint32_t status, json_t *answer)
{
    struct admin_asking *asking = ctx;
    asking->call = NULL;
    admin_json(asking->x, status, answer);
}

/* NULL: out of memory. */
static struct admin_asking *admin_asking_begin(struct weir_admin *a, struct weir_exchange *x)
{
    struct admin_asking *asking = calloc(1, sizeof *asking);
    if (!asking)
        return NULL;
    asking->x = x;
    asking->next = a->askings;
    asking->link = &a->askings;
    if (asking->next)
        asking->next->link = &asking->next;
    a->askings = asking;
    weir_exchange_user_set(x, asking);
    return asking;
}

/* body NULL: a GET. The path and the query are cut from the head's. */
static void admin_ledger(struct weir_admin *a, struct weir_exchange *x,
                         const struct weir_slice *body)
{
    struct weir_slice whole = weir_exchange_path(x);
    char *path = NULL;
    if (asprintf(&path, "%.*s", (int)whole.bytes, whole.at) < 0)
        path = NULL;
    char *query = path ? strchr(path, '?') : NULL;
    struct admin_asking *asking = path ? admin_asking_begin(a, x) : NULL;
    json_t *json = body ? json_loadb(body->at, body->bytes, JSON_REJECT_DUPLICATES, NULL) : NULL;
    if (query)
        *query++ = '\0';
    if (asking) {
        const struct weir_ledger_request request = {.is_post = body != NULL,
                                                    .path = path,
                                                    .query = query ? query : "",
                                                    .body = json,
                                                    .reply = admin_ledger_reply,
                                                    .ctx = asking};
        asking->call = weir_ledger_service_call(a->ledger, &request, weir_loop_now_ns(a->g->loop));
    } else {
        admin_text(x, 500, "out of memory\n");
    }
    json_decref(json);
    free(path);
}

/* The exchange ends, answered or not. */
static void admin_end(struct weir_admin *a, struct weir_exchange *x)
{
    struct admin_asking *asking = weir_exchange_user(x);
    if (!asking)
        return;
    if (asking->call)
        weir_ledger_service_cancel(a->ledger, asking->call);
    *asking->link = asking->next;
    if (asking->next)
        asking->next->link = asking->link;
    free(asking);
}

/* ---- the lab page ---- */

/* As much as the exchange takes: a file may be larger than what one connection may hold. */
static void admin_page_go_on(struct admin_asking *asking)
{
    const size_t piece_bytes = WEIR_EXCHANGE_HIGH_BYTES / 4;
    struct weir_slice *rest = &asking->rest;
    while (rest->bytes > 0 && !weir_exchange_full(asking->x)) {
        size_t bytes = rest->bytes < piece_bytes ? rest->bytes : piece_bytes;
        weir_exchange_write(asking->x, rest->at, bytes);
        *rest = (struct weir_slice){rest->at + bytes, rest->bytes - bytes};
    }
    if (rest->bytes == 0)
        weir_exchange_finish(asking->x);
}

static void admin_page(struct weir_admin *a, struct weir_exchange *x, struct weir_slice path)
{
    const struct weir_http_head *head = weir_exchange_head(x);
    const struct weir_page_request request = {
        .is_get = head->method == WEIR_HTTP_GET || head->method == WEIR_HTTP_HEAD,
        .path = path,
        .accept_encoding = weir_http_value(head, WEIR_HTTP_ACCEPT_ENCODING),
        .if_none_match = weir_http_value(head, WEIR_HTTP_IF_NONE_MATCH)};
    struct weir_page_answer answer;
    struct admin_asking *asking = admin_asking_begin(a, x);
    if (!asking) {
        admin_text(x, 500, "out of memory\n");
        return;
    }
    weir_pages_answer(&weir_gateway_pages, &request, &answer);
    struct weir_http_out *out =
        weir_exchange_answer(x, answer.status, (struct weir_slice){0}, answer.body.bytes);
    weir_http_write_header_text(out, "content-type", answer.type);
    weir_http_write_raw(out, weir_slice_of(answer.headers));
    bool has_ended = weir_exchange_answer_head_end(x);
    WEIR_INVARIANT(has_ended); /* nothing of the client's is in it */
    asking->rest = answer.body;
    admin_page_go_on(asking);
}

static void admin_drained(void *ctx, struct weir_exchange *x)
{
    (void)ctx;
    admin_page_go_on(weir_exchange_user(x)); /* every other answer was whole from the start */
}

/* ---- requests ---- */

void weir_admin_ledger_answer(struct weir_admin *admin, const struct weir_store_answer *answer)
{
    if (admin)
        weir_ledger_service_answer(admin->ledger, answer);
}

/* Not ready: whoever asks for tokens now is refused. */
static void admin_ready(struct weir_gateway *g, struct weir_exchange *x)
{
    struct weir_store_status ledger;
    weir_store_status(g->store, &ledger);
    if (g->drain_until_ns != WEIR_NEVER_NS)
        admin_text(x, 503, "draining\n");
    else if (!ledger.is_available)
        admin_text(x, 503, "the ledger is not available\n");
    else
        admin_text(x, 200, "ready\n");
}

static enum weir_head_verdict admin_head(void *ctx, struct weir_exchange *x)
{
    struct weir_admin *a = ctx;
    struct weir_gateway *g = a->g;
    const struct weir_http_head *head = weir_exchange_head(x);
    struct weir_slice path = weir_http_text(head, head->path);
    const char *query = memchr(path.at, '?', path.bytes);
    if (query)
        path.bytes = (size_t)(query - path.at);
    static const struct {
        const char *path;
        json_t *(*make)(struct weir_gateway *g);
    } pages[] = {{"/v1/status", admin_status},
                 {"/v1/tenants", admin_tenants},
                 {"/v1/upstreams", admin_upstreams},
                 {"/v1/holds", admin_holds}};

    bool is_ledger = weir_ledger_service_serves(path);
    if (weir_pages_has(path)) {
        admin_page(a, x, path);
    } else if (head->method != WEIR_HTTP_GET && head->method != WEIR_HTTP_HEAD &&
               !(is_ledger && head->method == WEIR_HTTP_POST)) {
        admin_text(x, 405, "only GET is served here, and POST below /v1/ledger\n");
    } else if (weir_slice_equal(path, WEIR_SLICE("/healthz"))) {
        admin_text(x, 200, "ok\n");
    } else if (weir_slice_equal(path, WEIR_SLICE("/readyz"))) {
        admin_ready(g, x);
    } else if (!admin_may(a, head)) {
        weir_exchange_respond(
            x, 401, "text/plain", WEIR_SLICE("www-authenticate: Bearer\r\n"),
            WEIR_SLICE("The admin token is needed: Authorization: Bearer TOKEN. It is in the file "
                       "admin.token of the state directory.\n"));
    } else if (weir_slice_equal(path, WEIR_SLICE("/metrics"))) {
        admin_metrics(g, x);
    } else if (weir_slice_equal(path, WEIR_SLICE("/v1/config"))) {
        admin_config(g, x);
    } else if (is_ledger && head->method == WEIR_HTTP_POST) {
        return WEIR_HEAD_READ_BODY;
    } else if (is_ledger) {
        admin_ledger(a, x, NULL);
    } else {
        for (size_t i = 0; i < WEIR_COUNT(pages); i++) {
            if (weir_slice_equal(path, weir_slice_of(pages[i].path))) {
                admin_json(x, 200, pages[i].make(g));
                return WEIR_HEAD_ANSWERED;
            }
        }
        admin_text(x, 404,
                   "no such page; there are /lab/, /healthz, /readyz, /metrics, /v1/status, "
                   "/v1/tenants, /v1/upstreams, /v1/holds, /v1/config and /v1/ledger\n");
    }
    return WEIR_HEAD_ANSWERED;
}

/* An operator vouches for the clock: budgets leave windows that they were held back in. */
static void admin_clock(struct weir_gateway *g, struct weir_exchange *x)
{
    uint32_t count = g->rollover ? weir_rollover_confirm(g->rollover) : 0;
    if (count > 0)
        weir_rollover_look(g);
    admin_json(x, 200, json_pack("{s:o}", "scopes", admin_u64(count)));
}

static void admin_request(void *ctx, struct weir_exchange *x)
{
    struct weir_admin *a = ctx;
    const struct weir_slice body = weir_exchange_body(x);
    if (weir_slice_equal(weir_exchange_path(x), WEIR_SLICE("/v1/ledger/clock")))
        admin_clock(a->g, x);
    else
        admin_ledger(a, x, &body); /* every other head was answered */
}

static void admin_gone(void *ctx, struct weir_exchange *x, enum weir_gone why)
{
    (void)why;
    admin_end(ctx, x);
}

static void admin_done(void *ctx, struct weir_exchange *x)
{
    admin_end(ctx, x);
}

/* The server refuses a body that is too large, slow or malformed; its own bare status will do. */
static void admin_fault(void *ctx, struct weir_exchange *x, enum weir_server_fault fault,
                        enum weir_http_fault http_fault)
{
    (void)fault;
    (void)http_fault;
    admin_end(ctx, x);
}

struct weir_admin *weir_admin_listen(struct weir_gateway *g, const char *address, const char *token,
                                     char *error_text, size_t error_bytes)
{
    const struct weir_server_limits limits = {.head_bytes = 16384,
                                              .body_bytes = WEIR_LEDGER_BODY_BYTES_MAX,
                                              .connections = 256,
                                              .head_ns = 10 * WEIR_NS_PER_S,
                                              .keep_alive_ns = 60 * WEIR_NS_PER_S,
                                              .body_grace_ns = 5 * WEIR_NS_PER_S,
                                              .body_min_bytes_per_s = 1024,
                                              .stall_ns = 10 * WEIR_NS_PER_S};
    struct weir_admin *a = calloc(1, sizeof *a);
    if (!a) {
        snprintf(error_text, error_bytes, "out of memory");
        return NULL;
    }
    const struct weir_server_handler handler = {.ctx = a,
                                                .head = admin_head,
                                                .request = admin_request,
                                                .gone = admin_gone,
                                                .drained = admin_drained,
                                                .done = admin_done,
                                                .fault = admin_fault};
    struct weir_store_status status = {0};
    weir_store_status(g->store, &status);
    const struct weir_ledger_host host = {.store = g->store,
                                          .path = status.path,
                                          .config = g->config,
                                          .loop = g->loop,
                                          .wall_s = admin_wall_s,
                                          .say = admin_say,
                                          .ctx = g};
    a->g = g;
    a->ledger = weir_ledger_service_create(&host);
    if (!a->ledger) {
        snprintf(error_text, error_bytes, "out of memory");
        free(a);
        return NULL;
    }
    snprintf(a->token, sizeof a->token, "%s", token);
    a->server =
        weir_server_listen(g->loop, address, NULL, &limits, &handler, error_text, error_bytes);
    if (!a->server) {
        weir_ledger_service_destroy(a->ledger);
        free(a);
        return NULL;
    }
    return a;
}

unsigned weir_admin_port(const struct weir_admin *admin)
{
    return weir_server_port(admin->server);
}

void weir_admin_destroy(struct weir_admin *admin)
{
    if (!admin)
        return;
    weir_ledger_service_destroy(admin->ledger);
    weir_server_destroy(admin->server);
    while (admin->askings) {
        struct admin_asking *asking = admin->askings;
        admin->askings = asking->next;
        free(asking);
    }
    OPENSSL_cleanse(admin->token, sizeof admin->token);
    free(admin);
}
