/* edge: the client's side of a request: who is it, what does it want, may it wait.
 *
 *   head     what can be refused without the body is refused here, before a 100-continue
 *   request  the body is whole: facts are read, the pool is found, the flow is asked
 *   gone     the client hung up, in whatever phase
 *
 * After admission the flow decides; effects.c carries it out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/state.h"

#define EDGE_RATIO_MAX 100u        /* a compressed body that grows beyond this is a bomb */
#define EDGE_HEAD_KEPT_BYTES 4096u /* larger buffers of a finished request are given back */

/* What a client connection remembers. */
struct edge_connection {
    uint32_t tenant; /* whose connection it counts as; WEIR_NONE: nobody's yet */
};

/* ---- records ---- */

struct weir_request *weir_request_new(struct weir_gateway *g)
{
    struct weir_request *r = g->requests_free;
    char *head = NULL;
    size_t head_room = 0;
    if (r) {
        g->requests_free = r->next_free;
        head = r->head;
        head_room = r->head_room;
    } else if (!(r = malloc(sizeof *r))) {
        return NULL;
    }
    *r = (struct weir_request){.g = g,
                               .head = head,
                               .head_room = head_room,
                               .flow = WEIR_NONE,
                               .tenant = WEIR_NONE,
                               .pool = WEIR_NONE,
                               .upstream = WEIR_NONE,
                               .key_slot = WEIR_NONE,
                               .replay_slot = WEIR_NONE,
                               .settled = {-1, -1, -1, -1},
                               .model_label = "other",
                               .number = g->number_next++,
                               .arrived_ns = weir_loop_now_ns(g->loop)};
    g->requests_now++;
    return r;
}

void weir_request_release(struct weir_request *r)
{
    struct weir_gateway *g = r->g;
    if (r->x || r->flow != WEIR_NONE || r->is_pinned)
        return;
    WEIR_INVARIANT(!r->call && r->key_slot == WEIR_NONE);
    weir_answer_drop(r);
    weir_replay_give_back(r);
    free(r->edits);
    r->edits = NULL;
    if (r->head_room > EDGE_HEAD_KEPT_BYTES) {
        free(r->head);
        r->head = NULL;
        r->head_room = 0;
    }
    r->next_free = g->requests_free;
    g->requests_free = r;
    g->requests_now--;
}

void weir_request_pool_free(struct weir_gateway *g)
{
    while (g->requests_free) {
        struct weir_request *r = g->requests_free;
        g->requests_free = r->next_free;
        free(r->head);
        free(r);
    }
}

void weir_request_id(const struct weir_request *r, char text[static WEIR_REQUEST_ID_BYTES])
{
    /* Mixed, so that ids of two runs do not meet and say nothing of the traffic; a bijection, so
     * none repeats. */
    uint64_t v = (r->number + r->g->number_seed) * UINT64_C(0x9e3779b97f4a7c15);
    v ^= v >> 32;
    v *= UINT64_C(0xd6e8feb86659fd93);
    v ^= v >> 32;
    snprintf(text, WEIR_REQUEST_ID_BYTES, "wr_%016llx", (unsigned long long)v);
}

/* ---- refusing ---- */

static void edge_refuse(struct weir_request *r, const struct weir_refused *refused,
                        const char *message, const char *param)
{
    weir_request_refuse(r, refused, message, param);
    weir_metrics_refuse(&r->g->metrics, refused->reason);
    weir_request_log(r, NULL, refused->reason);
    weir_request_record(r, NULL, refused->reason);
}

static void edge_refuse_reason(struct weir_request *r, enum weir_refusal reason,
                               const char *message)
{
    struct weir_refused refused = {.reason = reason, .scope = WEIR_NONE, .upstream = WEIR_NONE};
    edge_refuse(r, &refused, message, NULL);
}

/* ---- at head time ---- */

static struct edge_connection *edge_connection(struct weir_exchange *x)
{
    struct edge_connection *c = weir_exchange_connection_user(x);
    if (!c && (c = calloc(1, sizeof *c)) != NULL) {
        c->tenant = WEIR_NONE;
        weir_exchange_connection_user_set(x, c);
    }
    return c;
}

static void edge_closed(void *ctx, void *connection_user)
{
    struct weir_gateway *g = ctx;
    struct edge_connection *c = connection_user;
    if (c->tenant != WEIR_NONE)
        weir_tenancy_disconnect(g->tenancy, c->tenant);
    free(c);
}

/* A connection counts for the tenant of its latest request. */
static bool edge_count_connection(struct weir_gateway *g, struct edge_connection *c,
                                  uint32_t tenant)
{
    if (c->tenant == tenant)
        return true;
    if (c->tenant != WEIR_NONE)
        weir_tenancy_disconnect(g->tenancy, c->tenant);
    c->tenant = weir_tenancy_connect(g->tenancy, tenant) ? tenant : WEIR_NONE;
    return c->tenant == tenant;
}

static void edge_classify(struct weir_request *r, const struct weir_http_head *head)
{
    struct weir_slice path = weir_http_text(head, head->path);
    r->method = head->method;
    r->api = weir_api_of_path(path.at, path.bytes);
    r->dialect = weir_api_dialect(r->api);
    if ((r->api == WEIR_API_MODELS || r->api == WEIR_API_OTHER) &&
        weir_http_has(head, WEIR_HTTP_ANTHROPIC_VERSION))
        r->dialect = WEIR_DIALECT_ANTHROPIC;
    r->metered = weir_api_is_metered(r->api) && head->method == WEIR_HTTP_POST;
}

/* By the configuration and by the timeout that the SDKs tell, in whole seconds. */
static uint64_t edge_queue_deadline_ns(const struct weir_request *r,
                                       const struct weir_http_head *head)
{
    struct weir_slice text = weir_http_value(head, WEIR_HTTP_X_STAINLESS_TIMEOUT);
    if (!text.at)
        text = weir_http_value(head, WEIR_HTTP_X_STAINLESS_READ_TIMEOUT);
    uint64_t s = 0;
    size_t i = 0;
    for (; text.at && i < text.bytes && i < 7 && text.at[i] >= '0' && text.at[i] <= '9'; i++)
        s = s * 10 + (uint64_t)(text.at[i] - '0');
    return weir_add_sat_u64(
        r->arrived_ns, weir_flow_wait_max_ns(r->g->config->limits.max_wait_ns, s * WEIR_NS_PER_S));
}

/* The stock SDKs number their attempts from 0. Other clients do not tell. */
static bool edge_is_repeat(const struct weir_http_head *head)
{
    struct weir_slice text = weir_http_value(head, WEIR_HTTP_X_STAINLESS_RETRY_COUNT);
    return text.bytes > 0 && text.at[0] >= '1' && text.at[0] <= '9';
}

static enum weir_refusal edge_check_head(struct weir_request *r, const struct weir_http_head *head,
                                         struct edge_connection *c, struct weir_refused *refused,
                                         char *text, size_t text_bytes)
{
    struct weir_gateway *g = r->g;
    uint64_t now_ns = weir_loop_now_ns(g->loop);
    /* An offer of h2c may be ignored (RFC 9113 3.2), and some clients make it always. */
    if (head->upgrade &&
        !weir_slice_equal_caseless(weir_http_value_by_text(head, WEIR_SLICE("upgrade")),
                                   WEIR_SLICE("h2c")))
        return WEIR_REFUSAL_UPGRADE;
    if (weir_http_text(head, head->path).at[0] != '/')
        return WEIR_REFUSAL_NOT_FOUND; /* OPTIONS * */
    uint32_t tenant;
    enum weir_refusal reason = weir_tenancy_identify(g->tenancy, head, now_ns, &tenant);
    if (reason != WEIR_REFUSAL_NONE)
        return reason;
    r->tenant = tenant;
    r->lane = weir_tenancy_lane(g->tenancy, tenant);
    if (!edge_count_connection(g, c, tenant))
        return WEIR_REFUSAL_CONNECTIONS;
    if (weir_tenancy_is_key_mode(g->tenancy) &&
        weir_tenancy_holds_key(weir_http_text(head, head->target))) {
        snprintf(text, text_bytes,
                 "The URL holds a gateway key. Send keys in the Authorization or x-api-key header "
                 "only, and replace this key: URLs end up in logs.");
        return WEIR_REFUSAL_MALFORMED;
    }
    struct weir_slice coding = weir_http_value(head, WEIR_HTTP_CONTENT_ENCODING);
    if (r->metered && weir_encoding_of(coding.at, coding.bytes) == WEIR_ENCODING_UNKNOWN)
        return WEIR_REFUSAL_ENCODING_UNKNOWN;
    if (!r->metered && r->api == WEIR_API_OTHER &&
        weir_tenancy_has_token_budget(g->tenancy, tenant) &&
        weir_routes_cost_tok(g->routes, weir_http_text(head, head->path)) < 0)
        return WEIR_REFUSAL_PATH_NOT_METERED;
    if (!weir_replay_check(r, head, text, text_bytes))
        return WEIR_REFUSAL_MALFORMED;
    return weir_flow_precheck(g->flow, tenant, WEIR_NONE, edge_queue_deadline_ns(r, head), now_ns,
                              refused);
}

static enum weir_head_verdict edge_head(void *ctx, struct weir_exchange *x)
{
    struct weir_gateway *g = ctx;
    const struct weir_http_head *head = weir_exchange_head(x);
    struct weir_request *r = weir_request_new(g);
    struct edge_connection *c = edge_connection(x);
    if (!r || !c) {
        if (r)
            weir_request_release(r);
        weir_exchange_respond(x, 503, "text/plain", (struct weir_slice){0},
                              WEIR_SLICE("out of memory\n"));
        return WEIR_HEAD_ANSWERED;
    }
    r->x = x;
    weir_exchange_user_set(x, r);
    edge_classify(r, head);
    g->metrics.repeats += edge_is_repeat(head);
    struct weir_refused refused = {.scope = WEIR_NONE, .upstream = WEIR_NONE};
    char text[320] = "";
    refused.reason = edge_check_head(r, head, c, &refused, text, sizeof text);
    if (refused.reason == WEIR_REFUSAL_NONE)
        return WEIR_HEAD_READ_BODY;
    edge_refuse(r, &refused, text[0] ? text : NULL, NULL);
    return WEIR_HEAD_ANSWERED;
}

/* ---- with the body ---- */

/* Reads the facts of a body that may be compressed. false: refused, with *refused and text filled.
 */
static bool edge_read_facts(struct weir_request *r, struct weir_slice body,
                            enum weir_encoding encoding, struct weir_request_facts *facts,
                            struct weir_refused *refused, char *text, size_t text_bytes)
{
    char *plain = NULL;
    struct weir_slice look = body;
    if (encoding != WEIR_ENCODING_IDENTITY) {
        size_t room = r->g->config->limits.inspect_bytes, bytes = 0;
        if (room > body.bytes * EDGE_RATIO_MAX + 65536)
            room = body.bytes * EDGE_RATIO_MAX + 65536;
        plain = malloc(room);
        enum weir_inflate_result got = plain
                                           ? weir_inflate_whole(encoding, body.at, body.bytes,
                                                                EDGE_RATIO_MAX, plain, room, &bytes)
                                           : WEIR_INFLATE_NO_MEMORY;
        if (got != WEIR_INFLATE_END) {
            bool big = got == WEIR_INFLATE_TOO_BIG || got == WEIR_INFLATE_BOMB;
            refused->reason = got == WEIR_INFLATE_NO_MEMORY ? WEIR_REFUSAL_INTERNAL
                              : big                         ? WEIR_REFUSAL_BODY_TOO_LARGE
                                                            : WEIR_REFUSAL_MALFORMED;
            snprintf(text, text_bytes,
                     big ? "The body unpacks to more than the gateway looks into "
                           "(limits.inspect_bytes, or %u "
                           "times its size)."
                         : "The body is not valid in its content-encoding (limit %u).",
                     EDGE_RATIO_MAX);
            free(plain);
            return false;
        }
        look = (struct weir_slice){plain, bytes};
    }
    enum weir_request_fault fault = weir_request_read(facts, r->api, look.at, look.bytes);
    if (fault != WEIR_REQUEST_OK) {
        refused->reason = WEIR_REFUSAL_MALFORMED;
        weir_request_fault_text(facts, text, text_bytes);
    }
    free(plain);
    return fault == WEIR_REQUEST_OK;
}

/* The lane a client asks for; WEIR_NONE: none, or not one of ours. */
static uint32_t edge_lane(const struct weir_gateway *g, const struct weir_http_head *head)
{
    struct weir_slice name = weir_http_value(head, WEIR_HTTP_WEIR_LANE);
    for (uint32_t i = 0; name.at && i < g->config->lanes_count; i++)
        if (weir_slice_equal(name, weir_slice_of(g->config->lanes[i].name)))
            return i;
    return WEIR_NONE;
}

static uint64_t edge_total_ns(const struct weir_gateway *g, uint32_t pool)
{
    const struct weir_config_pool *p = &g->config->pools[pool];
    uint64_t total_ns = 0;
    for (uint32_t i = 0; i < p->upstreams_count; i++)
        total_ns = weir_max_u64(total_ns, g->config->upstreams[p->upstreams[i]].timeouts.total_ns);
    return total_ns;
}

/* Fills what the flow asks, from the head alone. */
static void edge_arrival(struct weir_request *r, const struct weir_http_head *head,
                         struct weir_arrival *arrival)
{
    struct weir_gateway *g = r->g;
    uint64_t queue_ns = edge_queue_deadline_ns(r, head);
    uint32_t lane = edge_lane(g, head);
    if (lane != WEIR_NONE && lane > r->lane) /* a lower one only, as the gate has it */
        r->lane = lane;
    *arrival = (struct weir_arrival){
        .tenant = r->tenant,
        .lane = lane,
        .choices = 1,
        .repeatable = weir_http_has(head, WEIR_HTTP_IDEMPOTENCY_KEY),
        .bytes = (uint32_t)weir_min_u64(head->head_bytes + r->body_bytes, UINT32_MAX),
        .queue_deadline_ns = queue_ns,
        .hold = weir_store_hold_next(g->store),
        .host = r};
}

/* Reads the body's facts into the arrival and finds the pool by its model. NONE: go on. */
static enum weir_refusal edge_metered(struct weir_request *r, const struct weir_http_head *head,
                                      struct weir_slice body, struct weir_arrival *arrival,
                                      struct weir_refused *refused, char *text, size_t text_bytes,
                                      const char **param)
{
    struct weir_gateway *g = r->g;
    struct weir_slice coding = weir_http_value(head, WEIR_HTTP_CONTENT_ENCODING);
    enum weir_encoding encoding = weir_encoding_of(coding.at, coding.bytes);
    struct weir_request_facts facts;
    facts.fault_key = WEIR_KEY_NONE; /* a body that cannot be unpacked is never looked into */
    if (!edge_read_facts(r, body, encoding, &facts, refused, text, text_bytes)) {
        if (refused->reason == WEIR_REFUSAL_MALFORMED && facts.fault_key != WEIR_KEY_NONE)
            *param = weir_request_key_name(facts.fault_key);
        return refused->reason;
    }
    struct weir_slice model = {facts.model, facts.model_bytes};
    struct weir_route route = weir_routes_find(g->routes, r->dialect, model);
    r->model = route.model;
    r->model_label = route.label;
    r->pool = route.pool;
    r->stream = facts.stream;
    r->output_limit_tok = facts.limit_tok;
    r->asks_usage = facts.has_include_usage;
    r->body_known = encoding == WEIR_ENCODING_IDENTITY;
    const struct weir_config_tenant *tenant = weir_tenancy_config(g->tenancy, r->tenant);
    const char *matched;
    *param = "model";
    if (facts.model_bytes == 0) {
        snprintf(text, text_bytes, "The body names no model. Add \"model\".");
        return WEIR_REFUSAL_MALFORMED;
    }
    if (tenant && !weir_model_listed(tenant->models, tenant->models_count, model, &matched))
        return WEIR_REFUSAL_MODEL_NOT_ALLOWED;
    if (route.pool == WEIR_NONE)
        return WEIR_REFUSAL_MODEL_UNKNOWN;
    weir_gateway_model(g, route.model, route.pool);
    *param = NULL;
    arrival->text = facts.classes;
    arrival->output_limit_tok = facts.limit_tok;
    arrival->choices = (facts.n > facts.best_of ? facts.n : facts.best_of);
    if (r->api == WEIR_API_OPENAI_COMPLETIONS)
        arrival->choices *= facts.prompts;
    if (facts.has_conversation) /* context we do not see: the worst case is the model's default
                                   output again */
        arrival->extra_input_tok =
            g->config->upstreams[g->config->pools[r->pool].upstreams[0]].output_limit_tok;
    arrival->metered = r->metered;
    arrival->no_output = r->api == WEIR_API_OPENAI_EMBEDDINGS;
    arrival->stream = facts.stream;
    return WEIR_REFUSAL_NONE;
}

static enum weir_refusal edge_unmetered(struct weir_request *r, const struct weir_http_head *head,
                                        struct weir_arrival *arrival)
{
    struct weir_gateway *g = r->g;
    struct weir_route route = weir_routes_find(g->routes, r->dialect, (struct weir_slice){0});
    int64_t cost_tok = weir_routes_cost_tok(g->routes, weir_http_text(head, head->path));
    if (cost_tok > 0)
        arrival->fixed_cost_tok = (uint64_t)cost_tok;
    r->pool = route.pool;
    return r->pool == WEIR_NONE ? WEIR_REFUSAL_NOT_FOUND : WEIR_REFUSAL_NONE;
}

/* Asks the flow for admission. NONE: r->flow is set. */
static enum weir_refusal edge_arrive(struct weir_request *r, struct weir_arrival *arrival,
                                     struct weir_refused *refused)
{
    struct weir_gateway *g = r->g;
    arrival->pool = r->pool;
    arrival->model = r->model;
    arrival->total_deadline_ns =
        weir_add_sat_u64(arrival->queue_deadline_ns, edge_total_ns(g, r->pool));
    enum weir_refusal reason =
        weir_flow_arrive(g->flow, arrival, weir_loop_now_ns(g->loop), &r->flow, refused);
    weir_gateway_dirty(g);
    if (reason != WEIR_REFUSAL_NONE) {
        r->flow = WEIR_NONE;
        weir_replay_forget(r);
    }
    return reason;
}

static void edge_request(void *ctx, struct weir_exchange *x)
{
    (void)ctx;
    struct weir_request *r = weir_exchange_user(x);
    const struct weir_http_head *head = weir_exchange_head(x);
    struct weir_slice body = weir_exchange_body(x);
    struct weir_refused refused = {.scope = WEIR_NONE, .upstream = WEIR_NONE};
    struct weir_arrival arrival;
    char text[512] = "";
    const char *param = NULL;

    r->body_bytes = body.bytes;
    edge_arrival(r, head, &arrival);
    refused.reason =
        r->metered || r->api == WEIR_API_ANTHROPIC_COUNT
            ? edge_metered(r, head, body, &arrival, &refused, text, sizeof text, &param)
            : edge_unmetered(r, head, &arrival);
    if (refused.reason == WEIR_REFUSAL_NONE)
        refused.reason = weir_replay_ask(r, head, body, &refused, text, sizeof text);
    if (refused.reason == WEIR_REFUSAL_NONE && r->replay_slot != WEIR_NONE) {
        if (weir_replay_send(r))
            return;
        refused.reason = WEIR_REFUSAL_IDEMPOTENCY_LOST;
    }
    if (refused.reason == WEIR_REFUSAL_NONE)
        refused.reason = edge_arrive(r, &arrival, &refused);
    if (refused.reason != WEIR_REFUSAL_NONE)
        edge_refuse(r, &refused, text[0] ? text : NULL, param);
}

/* ---- the client leaves, or has all ---- */

static void edge_gone(void *ctx, struct weir_exchange *x, enum weir_gone why)
{
    struct weir_gateway *g = ctx;
    struct weir_request *r = weir_exchange_user(x);
    if (!r)
        return;
    r->x = NULL;
    r->is_gone = true;
    weir_metrics_gone(&g->metrics, why);
    if (r->flow != WEIR_NONE) {
        weir_flow_client_gone(g->flow, r->flow, weir_loop_now_ns(g->loop));
        weir_gateway_dirty(g);
        r->is_pinned = true;
        weir_gateway_pump(g); /* at once: a call may still be sending the body, which goes with x */
        r->is_pinned = false;
    }
    weir_request_release(r);
}

static void edge_drained(void *ctx, struct weir_exchange *x)
{
    (void)ctx;
    struct weir_request *r = weir_exchange_user(x);
    if (r && r->replay_slot != WEIR_NONE)
        weir_replay_more(r);
    else if (r)
        weir_upcall_resume(r);
}

static void edge_done(void *ctx, struct weir_exchange *x)
{
    (void)ctx;
    struct weir_request *r = weir_exchange_user(x);
    if (!r)
        return;
    r->x = NULL;
    weir_request_release(r);
}

static enum weir_refusal edge_fault_reason(enum weir_server_fault fault,
                                           enum weir_http_fault http_fault)
{
    switch (fault) {
    case WEIR_SERVER_BAD_HEAD:
        return weir_http_fault_status(http_fault) == 431 ||
                       http_fault == WEIR_HTTP_FAULT_TARGET_TOO_LONG
                   ? WEIR_REFUSAL_HEAD_TOO_LARGE
                   : WEIR_REFUSAL_MALFORMED;
    case WEIR_SERVER_BAD_BODY:
        return WEIR_REFUSAL_MALFORMED;
    case WEIR_SERVER_HEAD_TOO_LARGE:
        return WEIR_REFUSAL_HEAD_TOO_LARGE;
    case WEIR_SERVER_HEAD_SLOW:
    case WEIR_SERVER_BODY_SLOW:
        return WEIR_REFUSAL_SLOW_BODY;
    case WEIR_SERVER_BODY_TOO_LARGE:
        return WEIR_REFUSAL_BODY_TOO_LARGE;
    case WEIR_SERVER_CONNECTIONS:
    case WEIR_SERVER_ADDRESS_CONNECTIONS:
        return WEIR_REFUSAL_CONNECTIONS;
    case WEIR_SERVER_FAULT_COUNT:
        break;
    }
    return WEIR_REFUSAL_MALFORMED;
}

/* The server itself must refuse: in the dialect of the path, where the path is known. */
static void edge_fault(void *ctx, struct weir_exchange *x, enum weir_server_fault fault,
                       enum weir_http_fault http_fault)
{
    struct weir_gateway *g = ctx;
    struct weir_request *r = weir_exchange_user(x);
    if (!r && !(r = weir_request_new(g)))
        return; /* the server sends a bare status */
    r->x = x;
    struct weir_slice path = weir_exchange_path(x);
    r->dialect = weir_api_dialect(weir_api_of_path(path.at, path.bytes));
    char text[160];
    snprintf(text, sizeof text, "The request is not well-formed HTTP: %s.",
             weir_http_fault_text(http_fault));
    enum weir_refusal reason = edge_fault_reason(fault, http_fault);
    edge_refuse_reason(r, reason, reason == WEIR_REFUSAL_MALFORMED ? text : NULL);
    r->x = NULL;
    weir_request_release(r);
}

static void edge_log(void *ctx, const char *text)
{
    struct weir_gateway *g = ctx;
    weir_log_message(g->log, WEIR_LOG_WARN, "%s", text);
}

const struct weir_server_handler weir_edge_handler = {.head = edge_head,
                                                      .request = edge_request,
                                                      .gone = edge_gone,
                                                      .drained = edge_drained,
                                                      .done = edge_done,
                                                      .fault = edge_fault,
                                                      .closed = edge_closed,
                                                      .log = edge_log};
