#include "mock/mock.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "mock/mock_engine.h"
#include "mock/mock_fault.h"
#include "mock/mock_kept.h"
#include "mock/mock_key.h"
#include "mock/mock_script.h"
#include "net/server.h"
#include "wire/api.h"
#include "wire/errors.h"

#define MOCK_TOOL_BYTES 64
#define MOCK_TOOL_TOK_MIN 3u /* tokens that a tool call takes */
#define MOCK_BYTES_PER_TOK 4u

struct weir_mock;

/* One request and its answer under way. */
struct mock_call {
    struct weir_mock *mock;
    struct weir_exchange *x;
    struct mock_call *next, **link; /* under way; next alone: free */
    enum weir_api api;
    enum weir_dialect dialect;
    struct mock_fault fault;
    struct mock_script script;
    struct mock_sequence sequence;
    struct weir_timer timer;
    void (*on_timer)(struct mock_call *c);
    uint32_t output_tok, per_token; /* tokens; events each */
    uint32_t events_sent;
    uint32_t key; /* its number; 0 where keys do not matter */
    bool stream, counted, over;
};

struct weir_mock {
    struct weir_mock_config config;
    struct weir_loop *loop;
    struct weir_server *server;
    struct mock_engine *engine;
    struct mock_call *under_way, *free;
    struct mock_kept kept;
    struct mock_fault fault;
    struct mock_keys keys;
    uint64_t requests, finished, gone;
    uint32_t in_flight, in_flight_peak;
};

struct weir_mock_config weir_mock_config_default(void)
{
    return (struct weir_mock_config){.listen = "127.0.0.1:8767",
                                     .replicas = 4,
                                     .sequences = 48,
                                     .step_ns = 6 * WEIR_NS_PER_MS,
                                     .step_sequence_ns = 250 * WEIR_NS_PER_US,
                                     .prefill_permille = 100,
                                     .output_tok = 24,
                                     .fault_every = 1};
}

/* ---- records ---- */

static struct mock_call *mock_call_take(struct weir_mock *m)
{
    struct mock_call *c = m->free;
    if (c)
        m->free = c->next;
    else
        c = malloc(sizeof *c);
    if (!c)
        return NULL;
    struct mock_script script = {0};
    *c = (struct mock_call){
        .mock = m, .script = script, .next = m->under_way, .link = &m->under_way};
    if (c->next)
        c->next->link = &c->next;
    return m->under_way = c;
}

static void mock_call_give(struct mock_call *c)
{
    struct weir_mock *m = c->mock;
    weir_timer_cancel(m->loop, &c->timer);
    mock_engine_leave(m->engine, &c->sequence);
    if (c->counted) {
        m->in_flight--;
        m->keys.keys[c->key].in_flight--;
    }
    mock_script_free(&c->script);
    *c->link = c->next;
    if (c->next)
        c->next->link = c->link;
    c->next = m->free;
    m->free = c;
}

/* Ends without a proper end; the exchange is gone with it. */
static void mock_call_abort(struct mock_call *c)
{
    weir_exchange_abort(c->x);
    c->mock->finished++;
    mock_call_give(c);
}

/* The answer is whole, or ends here as if it were. Nothing more is generated: what the engine still
 * owed would be written behind the end. */
static void mock_call_finish(struct mock_call *c)
{
    mock_engine_leave(c->mock->engine, &c->sequence);
    weir_timer_cancel(c->mock->loop, &c->timer);
    c->over = true;
    weir_exchange_finish(c->x);
}

static void mock_call_fire(struct weir_timer *timer)
{
    struct mock_call *c = (struct mock_call *)((char *)timer - offsetof(struct mock_call, timer));
    c->on_timer(c);
}

static void mock_call_later(struct mock_call *c, uint64_t ns, void (*then)(struct mock_call *c))
{
    c->timer.fire = mock_call_fire;
    c->on_timer = then;
    weir_timer_set(c->mock->loop, &c->timer, weir_loop_now_ns(c->mock->loop) + ns);
}

/* ---- answers that are errors ---- */

#define MOCK_ASKED "The mock was asked to fail."

/* message: at most 64 bytes. */
static void mock_error(struct mock_call *c, uint32_t status, const char *message)
{
    char body[WEIR_ERROR_BYTES(64)], headers[200];
    const char *code = status == 429   ? "rate_limit_exceeded"
                       : status >= 500 ? "server_error"
                                       : "invalid_request";
    struct weir_error_text e = {.dialect = c->dialect,
                                .code = code,
                                .message = message,
                                .request_id = "req_mock",
                                .status = (uint16_t)status};
    size_t n = weir_error_body(&e, body, sizeof body);
    int used = 0;
    if (c->fault.retry_after_ms)
        used += snprintf(headers + used, sizeof headers - (size_t)used, "retry-after-ms: %llu\r\n",
                         (unsigned long long)c->fault.retry_after_ms);
    if (c->fault.retry_after_s)
        used += snprintf(headers + used, sizeof headers - (size_t)used, "retry-after: %llu\r\n",
                         (unsigned long long)c->fault.retry_after_s);
    weir_exchange_respond(c->x, status, "application/json",
                          (struct weir_slice){headers, (size_t)used}, (struct weir_slice){body, n});
}

/* ---- answers ---- */

static void mock_head(struct mock_call *c, uint64_t body_bytes, bool gzip)
{
    struct weir_http_out *out = weir_exchange_answer(c->x, 200, (struct weir_slice){0}, body_bytes);
    char id[48];
    snprintf(id, sizeof id, "req_mock%llu", (unsigned long long)c->mock->requests);
    weir_http_write_header_text(out, "content-type",
                                c->stream ? "text/event-stream" : "application/json");
    weir_http_write_header_text(
        out, c->dialect == WEIR_DIALECT_ANTHROPIC ? "request-id" : "x-request-id", id);
    if (gzip)
        weir_http_write_header_text(out, "content-encoding", "gzip");
    bool fits = weir_exchange_answer_head_end(c->x);
    WEIR_INVARIANT(fits);
}

static void mock_bytewise(struct mock_call *c)
{
    uint32_t n = c->events_sent++;
    if (n < c->script.bytes) {
        weir_exchange_write(c->x, c->script.text + n, 1);
        mock_call_later(c, 0,
                        mock_bytewise); /* each in a turn of its own, so in a packet of its own */
        return;
    }
    mock_call_finish(c);
}

/* Writes text as one gzip member. */
static void mock_gzip(struct mock_call *c, const char *text, size_t bytes)
{
    z_stream z = {0};
    size_t room = bytes + bytes / 100 + 64;
    unsigned char *packed = malloc(room);
    if (!packed || deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        free(packed);
        return;
    }
    z.next_in = (unsigned char *)(uintptr_t)text;
    z.avail_in = (unsigned)bytes;
    z.next_out = packed;
    z.avail_out = (unsigned)room;
    deflate(&z, Z_FINISH);
    weir_exchange_write(c->x, packed, z.total_out);
    deflateEnd(&z);
    free(packed);
}

/* The events of [events_sent, until), with the faults that strike among them. false: the call is
 * over. */
static bool mock_send_events(struct mock_call *c, uint32_t until)
{
    if (c->fault.has_cut && until > c->fault.cut)
        until = c->fault.cut;
    if (c->fault.has_error && until > c->fault.error)
        until = c->fault.error;
    struct weir_slice bytes = mock_script_events(&c->script, c->events_sent, until);
    weir_exchange_write(c->x, bytes.at, bytes.bytes);
    if (c->events_sent < until)
        c->events_sent = until;
    if (c->fault.has_error && c->events_sent >= c->fault.error) {
        char event[WEIR_ERROR_BYTES(64)];
        struct weir_error_text e = {.dialect = c->dialect,
                                    .code = "server_error",
                                    .message = "The mock was asked to fail here.",
                                    .status = 500};
        size_t n = weir_error_event(&e, c->api, true, event, sizeof event);
        weir_exchange_write(c->x, event, n);
        mock_call_finish(c);
        return false;
    }
    if (c->fault.has_cut && c->events_sent >= c->fault.cut) {
        if (c->fault.tidy) {
            mock_call_finish(c);
        } else {
            mock_call_abort(c);
        }
        return false;
    }
    bool half = c->events_sent >= c->script.events / 2;
    if (half && c->fault.reset == MOCK_BODY) {
        mock_call_abort(c);
        return false;
    }
    if (half && c->fault.stall == MOCK_BODY) {
        mock_engine_leave(c->mock->engine, &c->sequence);
        weir_timer_cancel(c->mock->loop, &c->timer);
        return false;
    }
    return true;
}

/* The whole answer, now. */
static void mock_send_whole(struct mock_call *c)
{
    const struct mock_script *s = &c->script;
    bool broken = c->fault.has_cut || c->fault.stall == MOCK_BODY || c->fault.reset == MOCK_BODY;
    size_t part = c->fault.has_cut && c->fault.cut < s->bytes ? c->fault.cut : s->bytes / 2;
    if (c->fault.bytewise) {
        mock_head(c, s->bytes, false);
        c->events_sent = 0;
        mock_bytewise(c);
        return;
    }
    mock_head(c, c->fault.gzip || (broken && c->fault.tidy) ? WEIR_BODY_CHUNKED : s->bytes,
              c->fault.gzip);
    if (broken) {
        weir_exchange_write(c->x, s->text, part);
        if (c->fault.tidy) {
            mock_call_finish(c);
        } else if (c->fault.stall != MOCK_BODY) {
            mock_call_abort(c);
        }
        return;
    }
    if (c->fault.gzip)
        mock_gzip(c, s->text, s->bytes);
    else
        weir_exchange_write(c->x, s->text, s->bytes);
    mock_call_finish(c);
}

/* Output tokens came from the engine. */
static void mock_tokens(struct mock_sequence *sequence, uint32_t count, bool last)
{
    struct mock_call *c =
        (struct mock_call *)((char *)sequence - offsetof(struct mock_call, sequence));
    if (!c->stream) {
        if (last)
            mock_send_whole(c);
        return;
    }
    uint32_t until = c->events_sent + count * c->per_token;
    if (c->events_sent == 0) {
        mock_head(c, WEIR_BODY_CHUNKED, false);
        until += c->script.opening;
    }
    if (!mock_send_events(c, last ? c->script.events : until) || !last)
        return;
    mock_call_finish(c);
}

/* Plain mode: an event a gap. */
static void mock_plain_event(struct mock_call *c)
{
    if (c->events_sent == 0)
        mock_head(c, WEIR_BODY_CHUNKED, false);
    uint32_t until = c->mock->config.plain_gap_ns > 0 ? c->events_sent + 1 : c->script.events;
    if (!mock_send_events(c, until))
        return;
    if (c->events_sent < c->script.events) {
        mock_call_later(c, c->mock->config.plain_gap_ns, mock_plain_event);
        return;
    }
    mock_call_finish(c);
}

static void mock_stream_bytewise(struct mock_call *c)
{
    mock_head(c, WEIR_BODY_CHUNKED, false);
    c->events_sent = 0;
    mock_bytewise(c);
}

static void mock_garbage(struct mock_call *c)
{
    weir_exchange_respond(c->x, 200, c->stream ? "text/event-stream" : "application/json",
                          (struct weir_slice){0},
                          WEIR_SLICE("data: {\"choices\": [}\n\n\x00\xff\x9c\x1b[31m:::\n\n"
                                     "event\n\ndata: 7\n\n"));
}

static void mock_generate(struct mock_call *c)
{
    if (c->fault.garbage) {
        mock_garbage(c);
    } else if (c->stream && c->fault.bytewise) {
        mock_stream_bytewise(c);
    } else if (c->mock->config.plain) {
        if (c->stream)
            mock_plain_event(c);
        else
            mock_send_whole(c);
    } else {
        uint32_t prompt_tok = 0;
        struct weir_slice body = weir_exchange_body(c->x);
        prompt_tok = (uint32_t)(body.bytes / MOCK_BYTES_PER_TOK);
        c->sequence.tokens = mock_tokens;
        c->sequence.line = c->key;
        mock_engine_join(c->mock->engine, &c->sequence, prompt_tok,
                         c->output_tok ? c->output_tok : 1);
    }
}

/* Name of the first tool of a request; false: none. Only requests that have tools come here. */
static bool mock_tool(struct weir_slice body, char name[MOCK_TOOL_BYTES])
{
    json_t *root = json_loadb(body.at, body.bytes, 0, NULL);
    json_t *tool = json_array_get(json_object_get(root, "tools"), 0);
    json_t *function = json_object_get(tool, "function");
    const char *text = json_string_value(json_object_get(function ? function : tool, "name"));
    bool plain = text && strlen(text) < MOCK_TOOL_BYTES && strpbrk(text, "\"\\") == NULL;
    if (plain)
        memcpy(name, text, strlen(text) + 1);
    json_decref(root);
    return plain;
}

/* Reads the request and builds the script. false: answered with an error. */
static bool mock_prepare(struct mock_call *c, struct weir_slice body)
{
    const struct weir_mock_config *config = &c->mock->config;
    struct weir_request_facts facts = {.model = "mock", .n = 1};
    char tool[MOCK_TOOL_BYTES];
    bool has_body = c->api != WEIR_API_MODELS && c->api != WEIR_API_OTHER;
    if (has_body && weir_request_read(&facts, c->api, body.at, body.bytes) != WEIR_REQUEST_OK) {
        mock_error(c, 400, MOCK_ASKED);
        return false;
    }
    c->stream = facts.stream;
    c->output_tok = config->output_tok;
    if (facts.has_limit && facts.limit_tok < c->output_tok)
        c->output_tok = (uint32_t)facts.limit_tok;
    bool tools = facts.classes.tools > 0 && mock_tool(body, tool);
    if (tools && c->output_tok < MOCK_TOOL_TOK_MIN)
        c->output_tok = MOCK_TOOL_TOK_MIN;
    for (char *p = facts.model; *p; p++)
        if (*p == '"' || *p == '\\' || (unsigned char)*p < ' ')
            *p = '_';
    struct mock_script_wish wish = {
        .api = c->api,
        .stream = facts.stream,
        .usage = facts.has_include_usage,
        .no_usage = c->fault.no_usage,
        .model = facts.model,
        .tool = tools ? tool : NULL,
        .prompt_tok = (uint32_t)(facts.classes.text_bytes / MOCK_BYTES_PER_TOK) + 3,
        .output_tok = c->output_tok,
        .choices = c->api == WEIR_API_OPENAI_CHAT ? facts.n : 1,
        .number = c->mock->requests};
    mock_script_build(&c->script, &wish);
    c->per_token = wish.choices;
    if (c->script.failed) {
        mock_error(c, 500, MOCK_ASKED);
        return false;
    }
    return true;
}

/* ---- its own pages ---- */

static void mock_answer_json(struct weir_exchange *x, json_t *root)
{
    char *text = json_dumps(root, JSON_COMPACT);
    weir_exchange_respond(x, text ? 200 : 500, "application/json", (struct weir_slice){0},
                          text ? weir_slice_of(text) : (struct weir_slice){0});
    free(text);
    json_decref(root);
}

static bool mock_own_page(struct weir_mock *m, struct weir_exchange *x, struct weir_slice path)
{
    if (weir_slice_equal(path, WEIR_SLICE("/mock/stats"))) {
        mock_answer_json(x, json_pack("{s:I, s:I, s:I, s:i, s:i}", "requests",
                                      (json_int_t)m->requests, "finished", (json_int_t)m->finished,
                                      "gone", (json_int_t)m->gone, "in_flight", (int)m->in_flight,
                                      "in_flight_peak", (int)m->in_flight_peak));
        return true;
    }
    if (!weir_slice_equal(path, WEIR_SLICE("/mock/requests")))
        return false;
    mock_answer_json(x, mock_kept_json(&m->kept));
    return true;
}

/* ---- the server's calls ---- */

static bool mock_may(const struct weir_mock *m, const struct weir_http_head *head)
{
    if (!m->config.key)
        return true;
    struct weir_slice key = weir_slice_of(m->config.key);
    return weir_slice_equal(weir_http_value(head, WEIR_HTTP_X_API_KEY), key) ||
           weir_slice_equal(mock_key_bearer(head), key);
}

/* Faults that strike before anything is generated. true: dealt with. */
static bool mock_fault_first(struct mock_call *c)
{
    if (c->fault.stall == MOCK_HEAD)
        return true; /* never answered */
    if (c->fault.reset == MOCK_HEAD) {
        mock_call_abort(c);
        return true;
    }
    if (c->fault.html) {
        weir_exchange_respond(c->x, 200, "text/html", (struct weir_slice){0},
                              WEIR_SLICE("<html><body>It works!</body></html>"));
        return true;
    }
    if (c->fault.redirect) {
        weir_exchange_respond(c->x, 307, NULL,
                              WEIR_SLICE("location: http://127.0.0.1:1/elsewhere\r\n"),
                              (struct weir_slice){0});
        return true;
    }
    if (c->fault.status) {
        mock_error(c, c->fault.status, MOCK_ASKED);
        return true;
    }
    return false;
}

static void mock_begin(struct mock_call *c)
{
    if (mock_fault_first(c) || !mock_prepare(c, weir_exchange_body(c->x)))
        return;
    mock_generate(c);
}

static enum weir_head_verdict mock_on_head(void *ctx, struct weir_exchange *x)
{
    struct weir_mock *m = ctx;
    const struct weir_http_head *head = weir_exchange_head(x);
    struct weir_slice path = weir_http_text(head, head->path);
    if (path.bytes > 6 && memcmp(path.at, "/mock/", 6) == 0)
        return mock_own_page(m, x, path) ? WEIR_HEAD_ANSWERED : WEIR_HEAD_READ_BODY;
    struct mock_call *c = mock_call_take(m);
    if (!c) {
        weir_exchange_respond(x, 503, "text/plain", (struct weir_slice){0},
                              WEIR_SLICE("out of memory\n"));
        return WEIR_HEAD_ANSWERED;
    }
    c->x = x;
    weir_exchange_user_set(x, c);
    c->api = weir_api_of_path(path.at, path.bytes);
    c->dialect = weir_api_dialect(c->api);
    m->requests++;
    if (m->config.fault && m->requests % m->config.fault_every == 0)
        c->fault = m->fault;
    struct weir_slice asked = m->config.plain
                                  ? (struct weir_slice){0}
                                  : weir_http_value_by_text(head, WEIR_SLICE("mock-fault"));
    struct weir_slice bad;
    if (asked.at && !mock_fault_parse(asked, &c->fault, &bad)) {
        mock_error(c, 400, MOCK_ASKED);
        return WEIR_HEAD_ANSWERED;
    }
    if (!mock_may(m, head)) {
        mock_error(c, 401, MOCK_ASKED);
        return WEIR_HEAD_ANSWERED;
    }
    if (c->fault.early) {
        mock_error(c, c->fault.status ? c->fault.status : 413, MOCK_ASKED);
        return WEIR_HEAD_ANSWERED;
    }
    return WEIR_HEAD_READ_BODY;
}

/* Why this one is too many; NULL: it is not. Finds its key where keys matter. */
static const char *mock_full(struct mock_call *c)
{
    struct weir_mock *m = c->mock;
    const struct weir_mock_config *config = &m->config;
    if (config->key_in_flight_max || config->order != WEIR_MOCK_FIFO)
        c->key = mock_keys_find(&m->keys, mock_key_credential(weir_exchange_head(c->x)));
    if (config->in_flight_max && m->in_flight >= config->in_flight_max)
        return "As many are in flight as --in-flight allows.";
    if (config->key_in_flight_max && m->keys.keys[c->key].in_flight >= config->key_in_flight_max)
        return "As many of this key are in flight as --key-in-flight allows.";
    return NULL;
}

static void mock_on_request(void *ctx, struct weir_exchange *x)
{
    struct weir_mock *m = ctx;
    struct mock_call *c = weir_exchange_user(x);
    if (!c) {
        weir_exchange_respond(x, 404, "text/plain", (struct weir_slice){0},
                              WEIR_SLICE("no such page\n"));
        return;
    }
    if (!m->config.plain)
        mock_kept_add(&m->kept, m->requests, weir_exchange_head(x), weir_exchange_body(x));
    const char *full = mock_full(c);
    if (full) {
        c->fault.retry_after_s =
            c->fault.retry_after_s || c->fault.retry_after_ms ? c->fault.retry_after_s : 1;
        mock_error(c, 429, full);
        return;
    }
    c->counted = true;
    m->keys.keys[c->key].in_flight++;
    if (++m->in_flight > m->in_flight_peak)
        m->in_flight_peak = m->in_flight;
    uint64_t latency_ns = m->config.latency_ns + c->fault.latency_ns;
    if (latency_ns > 0)
        mock_call_later(c, latency_ns, mock_begin);
    else
        mock_begin(c);
}

static void mock_on_gone(void *ctx, struct weir_exchange *x, enum weir_gone why)
{
    struct weir_mock *m = ctx;
    struct mock_call *c = weir_exchange_user(x);
    (void)why;
    if (!c)
        return;
    m->gone++;
    mock_call_give(c);
}

static void mock_on_done(void *ctx, struct weir_exchange *x)
{
    struct weir_mock *m = ctx;
    struct mock_call *c = weir_exchange_user(x);
    if (!c)
        return;
    m->finished++;
    mock_call_give(c);
}

static void mock_on_fault(void *ctx, struct weir_exchange *x, enum weir_server_fault fault,
                          enum weir_http_fault http_fault)
{
    (void)ctx;
    (void)fault;
    (void)http_fault;
    struct mock_call *c = weir_exchange_user(x);
    if (c)
        mock_call_give(c);
}

/* ---- life ---- */

static struct weir_server *mock_listen(struct weir_mock *m, char *error_text, size_t error_bytes)
{
    const struct weir_server_limits limits = {.head_bytes = 256 * 1024,
                                              .body_bytes = 64u << 20,
                                              .connections = 65536,
                                              .head_ns = 60 * WEIR_NS_PER_S,
                                              .keep_alive_ns = 600 * WEIR_NS_PER_S,
                                              .body_grace_ns = 60 * WEIR_NS_PER_S,
                                              .stall_ns = 600 * WEIR_NS_PER_S};
    const struct weir_server_handler handler = {.ctx = m,
                                                .head = mock_on_head,
                                                .request = mock_on_request,
                                                .gone = mock_on_gone,
                                                .done = mock_on_done,
                                                .fault = mock_on_fault};
    return weir_server_listen(m->loop, m->config.listen, NULL, &limits, &handler, error_text,
                              error_bytes);
}

struct weir_mock *weir_mock_open(struct weir_loop *loop, const struct weir_mock_config *config,
                                 char *error_text, size_t error_bytes)
{
    const struct mock_engine_rules rules = {.order = config->order,
                                            .replicas = config->replicas,
                                            .sequences = config->sequences,
                                            .step_ns = config->step_ns,
                                            .step_sequence_ns = config->step_sequence_ns,
                                            .prefill_permille = config->prefill_permille};
    struct mock_fault fault = {0};
    struct weir_slice bad;
    if (config->fault && !mock_fault_parse(weir_slice_of(config->fault), &fault, &bad)) {
        snprintf(error_text, error_bytes, "--fault: '%.*s' is not a fault; see weir mock --help",
                 (int)bad.bytes, bad.at);
        return NULL;
    }
    struct weir_mock *m = calloc(1, sizeof *m);
    if (m) {
        m->config = *config;
        m->loop = loop;
        m->fault = fault;
        m->engine = mock_engine_create(loop, &rules);
    }
    if (!m || !m->engine)
        snprintf(error_text, error_bytes, "out of memory");
    else if ((m->server = mock_listen(m, error_text, error_bytes)) != NULL)
        return m;
    weir_mock_close(m);
    return NULL;
}

void weir_mock_close(struct weir_mock *m)
{
    if (!m)
        return;
    if (m->server)
        weir_server_destroy(m->server);
    while (m->under_way)
        mock_call_give(m->under_way);
    while (m->free) {
        struct mock_call *c = m->free;
        m->free = c->next;
        free(c);
    }
    mock_engine_destroy(m->engine);
    mock_keys_free(&m->keys);
    mock_kept_free(&m->kept);
    free(m);
}

uint16_t weir_mock_port(const struct weir_mock *m)
{
    return weir_server_port(m->server);
}
