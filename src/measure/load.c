#include "measure/load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "measure/load_inside.h"
#include "net/http1_write.h"

#define LOAD_HEAD_BYTES 2048        /* beside path, host and key */
#define LOAD_DESCRIPTORS_BESIDE 64u /* files, the loop, names */
#define LOAD_ANTHROPIC "2023-06-01" /* every server of that API knows this version */
/* Below the five seconds after which common servers close a connection that nobody uses: a request
 * on one that is being closed would be a reset that the endpoint does not deserve. */
#define LOAD_POOL_IDLE_NS (4 * WEIR_NS_PER_S)

struct weir_load_timeouts weir_load_timeouts_default(void)
{
    return (struct weir_load_timeouts){.connect_ns = 10 * WEIR_NS_PER_S,
                                       .write_ns = 10 * WEIR_NS_PER_S,
                                       .head_ns = 600 * WEIR_NS_PER_S,
                                       .idle_ns = 300 * WEIR_NS_PER_S,
                                       .total_ns = 3600 * WEIR_NS_PER_S};
}

struct weir_load_timeouts weir_load_timeouts_of(uint64_t patience_ns)
{
    struct weir_load_timeouts t = weir_load_timeouts_default();
    t.connect_ns = weir_min_u64(t.connect_ns, patience_ns);
    t.head_ns = t.idle_ns = patience_ns;
    t.total_ns = patience_ns < WEIR_NEVER_NS / WEIR_LOAD_PATIENCES
                     ? WEIR_LOAD_PATIENCES * patience_ns
                     : WEIR_NEVER_NS;
    return t;
}

/* ---- set-up ---- */

static void load_head_host(struct weir_http_out *out, const struct weir_endpoint *e)
{
    char host[WEIR_ENDPOINT_HOST_BYTES + 16];
    bool is_v6 = strchr(e->host, ':') != NULL;
    int n = snprintf(host, sizeof host, "%s%s%s", is_v6 ? "[" : "", e->host, is_v6 ? "]" : "");
    if (e->port != (e->tls ? 443 : 80))
        snprintf(host + n, sizeof host - (size_t)n, ":%u", e->port);
    weir_http_write_header_text(out, "host", host);
}

/* Writes everything before the body's length. Anthropic's key goes as x-api-key, which servers of
 * every version take. */
static bool load_head_make(struct load_key *key, const struct weir_endpoint *e)
{
    size_t key_bytes = key->text ? strlen(key->text) : 0;
    size_t room = LOAD_HEAD_BYTES + strlen(e->path) + strlen(e->host) + key_bytes;
    char *buffer = malloc(room), *bearer = malloc(key_bytes + sizeof "Bearer ");
    struct weir_http_out out = {.buf = buffer, .room = room};
    if (!buffer || !bearer) {
        free(buffer);
        free(bearer);
        return false;
    }
    bool is_anthropic = weir_api_dialect(e->api) == WEIR_DIALECT_ANTHROPIC;
    weir_http_write_request(&out, WEIR_HTTP_POST, weir_slice_of(e->path));
    load_head_host(&out, e);
    weir_http_write_header_text(&out, "user-agent", "weir/" WEIR_VERSION);
    weir_http_write_header_text(&out, "accept", "application/json, text/event-stream");
    weir_http_write_header_text(&out, "content-type", "application/json");
    if (is_anthropic)
        weir_http_write_header_text(&out, "anthropic-version", LOAD_ANTHROPIC);
    if (key->text && is_anthropic) {
        weir_http_write_header_text(&out, "x-api-key", key->text);
    } else if (key->text) {
        snprintf(bearer, key_bytes + sizeof "Bearer ", "Bearer %s", key->text);
        weir_http_write_header_text(&out, "authorization", bearer);
    }
    weir_http_write_raw(&out, WEIR_SLICE("content-length: "));
    explicit_bzero(bearer, key_bytes + sizeof "Bearer ");
    free(bearer);
    key->head = (struct weir_slice){buffer, out.used};
    return weir_http_out_ok(&out);
}

static bool load_keys_make(struct weir_load *load, const struct weir_load_rules *rules,
                           char *error_text, size_t error_bytes)
{
    load->keys_count = rules->keys_count > 0 ? rules->keys_count : 1;
    load->keys = calloc(load->keys_count, sizeof *load->keys);
    if (!load->keys)
        return false;
    for (uint32_t i = 0; i < load->keys_count; i++) {
        struct load_key *key = &load->keys[i];
        const char *text = rules->keys_count > 0 ? rules->keys[i] : NULL;
        if (text && !(key->text = strdup(text)))
            return false;
        if (text && (!*text || strpbrk(text, " \t\r\n"))) {
            snprintf(
                error_text, error_bytes,
                "credential %u is empty or holds white space: a stray line end? (it is not shown)",
                i + 1);
            return false;
        }
        if (!load_head_make(key, &load->endpoint)) {
            if (key->head.at)
                snprintf(
                    error_text, error_bytes,
                    "credential %u holds a character that no header can carry (it is not shown)",
                    i + 1);
            return false;
        }
    }
    return true;
}

static bool load_descriptors_raise(uint32_t in_flight_max, char *error_text, size_t error_bytes)
{
    struct rlimit limit;
    rlim_t need = in_flight_max + LOAD_DESCRIPTORS_BESIDE;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= need)
        return true;
    if (limit.rlim_max < need) {
        snprintf(error_text, error_bytes,
                 "%u requests at once need %llu file descriptors, and this process may have %llu: "
                 "raise the limit (ulimit -n), or ask for less at once",
                 in_flight_max, (unsigned long long)need, (unsigned long long)limit.rlim_max);
        return false;
    }
    limit.rlim_cur = need;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

static void load_turn_end(struct weir_hook *hook)
{
    struct weir_load *load =
        (struct weir_load *)((char *)hook - offsetof(struct weir_load, turn_hook));
    uint64_t now_ns = weir_loop_clock_ns(), from_ns = weir_loop_now_ns(load->loop);
    if (now_ns > from_ns && now_ns - from_ns > load->view.turn_max_ns)
        load->view.turn_max_ns = now_ns - from_ns;
}

static bool load_start(struct weir_load *load, const struct weir_load_rules *rules,
                       char *error_text, size_t error_bytes)
{
    const struct weir_target_rules target = {.host = load->endpoint.host,
                                             .port = load->endpoint.port,
                                             .tls = load->endpoint.tls,
                                             .ca_file = rules->ca_file,
                                             .pool_idle_ns = LOAD_POOL_IDLE_NS,
                                             .pool_max = rules->in_flight_max};
    if (!load_keys_make(load, rules, error_text, error_bytes) ||
        !load_descriptors_raise(rules->in_flight_max, error_text, error_bytes))
        return false;
    load->calls = calloc(rules->in_flight_max, sizeof *load->calls);
    load->client = load->calls ? weir_client_create(load->loop) : NULL;
    if (!load->client)
        return false;
    load->target = weir_target_create(load->client, &target, error_text, error_bytes);
    if (!load->target)
        return false;
    for (uint32_t i = rules->in_flight_max; i-- > 0;) {
        load->calls[i].load = load;
        load->calls[i].next_free = load->free_calls;
        load->free_calls = &load->calls[i];
    }
    load->turn_hook.run = load_turn_end;
    weir_loop_at_turn_end(load->loop, &load->turn_hook); /* after the client's */
    return true;
}

struct weir_load *weir_load_create(struct weir_loop *loop, const struct weir_load_rules *rules,
                                   weir_load_ended_fn *ended, void *ctx, char *error_text,
                                   size_t error_bytes)
{
    WEIR_INVARIANT(rules->in_flight_max > 0);
    WEIR_INVARIANT(rules->in_flight_max <= WEIR_LOAD_IN_FLIGHT_MAX);
    struct weir_load *load = calloc(1, sizeof *load);
    snprintf(error_text, error_bytes, "out of memory");
    if (!load)
        return NULL;
    load->loop = loop;
    load->endpoint = *rules->endpoint;
    load->timeouts = rules->timeouts;
    load->in_flight_max = rules->in_flight_max;
    load->ended = ended;
    load->ctx = ctx;
    if (load_start(load, rules, error_text, error_bytes))
        return load;
    weir_load_destroy(load);
    return NULL;
}

void weir_load_destroy(struct weir_load *load)
{
    if (!load)
        return;
    WEIR_INVARIANT(load->view.in_flight == 0);
    if (load->turn_hook.run)
        weir_loop_hook_remove(load->loop, &load->turn_hook);
    weir_target_destroy(load->target);
    weir_client_destroy(load->client);
    for (uint32_t i = 0; load->keys && i < load->keys_count; i++) {
        struct load_key *key = &load->keys[i];
        char *head = (char *)(uintptr_t)key->head.at;
        if (key->text)
            explicit_bzero(key->text, strlen(key->text));
        if (head)
            explicit_bzero(head, key->head.bytes);
        free(key->text);
        free(head);
    }
    free(load->keys);
    free(load->calls);
    free(load);
}

/* ---- sending ---- */

bool weir_load_begin(struct weir_load *load, const struct weir_load_ask *ask)
{
    struct load_call *c = load->free_calls;
    if (!c || load->is_stopped)
        return false;
    uint64_t now_ns = weir_loop_clock_ns();
    const struct load_key *key =
        &load->keys[ask->key_index < load->keys_count ? ask->key_index : 0];
    int length_bytes = snprintf(c->length, sizeof c->length, "%zu\r\n\r\n", ask->body_bytes);
    const struct weir_call_request request = {
        .head = key->head,
        .pieces = {{c->length, (size_t)length_bytes}, {ask->body, ask->body_bytes}},
        .piece_count = 2,
        .timeouts = {.connect_ns = load->timeouts.connect_ns,
                     .write_ns = load->timeouts.write_ns,
                     .first_byte_ns = load->timeouts.head_ns,
                     .idle_ns = load->timeouts.idle_ns,
                     .total_deadline_ns = weir_add_sat_u64(now_ns, load->timeouts.total_ns)}};
    struct weir_call *call = weir_call_start(load->target, &request, &load_handler, c);
    if (!call)
        return false;
    load->free_calls = c->next_free;
    c->call = call;
    c->user = ask->user;
    c->record =
        (struct weir_load_record){.intended_ns = ask->intended_ns ? ask->intended_ns : now_ns,
                                  .key_index = (uint32_t)(key - load->keys)};
    c->answer_bytes = 0;
    c->is_html = c->is_coded = false;
    c->location[0] = '\0';
    load->view.begun++;
    if (++load->view.in_flight > load->view.in_flight_peak)
        load->view.in_flight_peak = load->view.in_flight;
    return true;
}

void weir_load_stop(struct weir_load *load)
{
    load->is_stopped = true;
    for (uint32_t i = 0; i < load->in_flight_max; i++) {
        struct load_call *c = &load->calls[i];
        if (!c->call)
            continue;
        weir_call_cancel(c->call);
        load_call_over(c, NULL);
    }
}

/* ---- what can be asked ---- */

void weir_load_view(const struct weir_load *load, struct weir_load_view *view)
{
    struct weir_target_view target;
    weir_target_view(load->target, &target);
    *view = load->view;
    view->connects = target.connects;
    view->reuses = target.reuses;
}

const char *weir_load_first_detail(const struct weir_load *load, enum weir_load_end end)
{
    return load->first_detail[end];
}

const char *weir_load_advertised(const struct weir_load *load)
{
    return load->advertised;
}

#define LOAD_ENDS(X)                                                                               \
    X(OK, "ok", "")                                                                                \
    X(429, "429",                                                                                  \
      "The endpoint refuses for its rate or its load: send less, or look at its hints.")           \
    X(4XX, "4xx",                                                                                  \
      "The endpoint refuses the request itself: look at the key (401, 403), the path (404) and "   \
      "the "                                                                                       \
      "payload (400, 422).")                                                                       \
    X(5XX, "5xx", "The endpoint fails or is overloaded: look at its own log.")                     \
    X(REDIRECT, "redirect",                                                                        \
      "Redirects are not followed: give the address it names, if you trust it.")                   \
    X(HTML, "web page",                                                                            \
      "A web page answers there, not an API: look at the path and at proxies on the way.")         \
    X(GARBAGE, "not an answer",                                                                    \
      "What answers there does not speak this API: look at the URL and --api.")                    \
    X(ERROR_EVENT, "error inside", "The endpoint gave up within an answer: look at its own log.")  \
    X(CUT, "cut",                                                                                  \
      "Answers break off: look at the endpoint and at the time limits of proxies on the way.")     \
    X(RESET, "reset",                                                                              \
      "The connection breaks before an answer: look at the endpoint and its limits on "            \
      "connections.")                                                                              \
    X(RESOLVE, "no such host", "Look at the host's name and at this machine's name servers.")      \
    X(CONNECT, "no connection",                                                                    \
      "Look at host and port: nobody listens there, or a firewall is between.")                    \
    X(TLS, "TLS", "Look at the certificate; name the authority that signed it with --ca.")         \
    X(TIMEOUT_CONNECT, "connect timeout",                                                          \
      "Nothing answers at that address: look at host, port and firewalls.")                        \
    X(TIMEOUT_WRITE, "write timeout",                                                              \
      "The endpoint does not take requests: it hangs, or is overloaded.")                          \
    X(TIMEOUT_HEAD, "head timeout",                                                                \
      "The endpoint takes requests and does not answer: it hangs, or is overloaded.")              \
    X(TIMEOUT_IDLE, "idle timeout", "Answers begin and then stand still: the endpoint hangs.")     \
    X(TIMEOUT_TOTAL, "total timeout",                                                              \
      "Answers begin and go on without an end: the endpoint, or too short a --timeout (it is a "   \
      "tenth of what a whole answer may take).")                                                   \
    X(DESCRIPTORS, "descriptors", "This process is out of file descriptors: raise ulimit -n.")     \
    X(CANCELLED, "cancelled", "")

const char *weir_load_end_name(enum weir_load_end end)
{
    static const char *const names[] = {
#define LOAD_END_NAME(id, name, advice) [WEIR_LOAD_##id] = name,
        LOAD_ENDS(LOAD_END_NAME)
#undef LOAD_END_NAME
    };
    _Static_assert(WEIR_COUNT(names) == WEIR_LOAD_END_COUNT, "each end has a name");
    return names[end];
}

const char *weir_load_end_advice(enum weir_load_end end)
{
    static const char *const advices[] = {
#define LOAD_END_ADVICE(id, name, advice) [WEIR_LOAD_##id] = advice,
        LOAD_ENDS(LOAD_END_ADVICE)
#undef LOAD_END_ADVICE
    };
    _Static_assert(WEIR_COUNT(advices) == WEIR_LOAD_END_COUNT, "each end has its advice");
    return advices[end];
}
