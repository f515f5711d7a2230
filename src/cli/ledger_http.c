#include "cli/ledger_http.h"

#include "gateway/config_value.h"
#include "net/client.h"
#include "net/http1_write.h"
#include "net/loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HTTP_HEAD_BYTES 8192
#define HTTP_ANSWER_BYTES_MAX (64u << 20)
#define HTTP_CONNECT_NS (5 * WEIR_NS_PER_S)
#define HTTP_TOTAL_NS (120 * WEIR_NS_PER_S)

struct ledger_http {
    struct weir_loop *loop;
    struct weir_client *client;
    struct weir_target *target;
    char host[256], url[300], token[128];
    uint16_t port;
    uint64_t patience_ns;

    /* The request under way. */
    uint32_t status;
    char *text;
    size_t text_bytes, text_room;
    bool too_large, done, sent;
    enum weir_call_failure failure;
    char detail[300];
};

static void http_sent(void *ctx)
{
    (void)ctx; /* done tells it too */
}

static void http_head(void *ctx, const struct weir_http_head *head)
{
    struct ledger_http *h = ctx;
    h->status = (uint32_t)head->status;
}

static void http_body(void *ctx, struct weir_slice bytes)
{
    struct ledger_http *h = ctx;
    size_t need = h->text_bytes + bytes.bytes + 1;
    if (need > HTTP_ANSWER_BYTES_MAX) {
        h->too_large = true;
        return;
    }
    if (need > h->text_room) {
        size_t room = need < 65536 ? 65536 : need * 2;
        char *text = realloc(h->text, room);
        if (!text) {
            h->too_large = true;
            return;
        }
        h->text = text;
        h->text_room = room;
    }
    memcpy(h->text + h->text_bytes, bytes.at, bytes.bytes);
    h->text_bytes += bytes.bytes;
}

static void http_done(void *ctx, const struct weir_call_result *result)
{
    struct ledger_http *h = ctx;
    h->done = true;
    h->sent = result->sent;
    h->failure = result->failure;
    snprintf(h->detail, sizeof h->detail, "%s",
             *result->detail ? result->detail : weir_call_failure_label(result->failure));
}

struct ledger_http *ledger_http_open(const char *address, const char *token, uint64_t patience_ns,
                                     char *error_text, size_t error_bytes)
{
    bool tls = strncmp(address, "https://", 8) == 0;
    const char *place = tls                                   ? address + 8
                        : strncmp(address, "http://", 7) == 0 ? address + 7
                                                              : address;
    struct ledger_http *h = calloc(1, sizeof *h);
    char plain[300];
    size_t bytes = strlen(place);
    snprintf(error_text, error_bytes, "out of memory");
    if (!h)
        return NULL;
    snprintf(plain, sizeof plain, "%.*s",
             (int)(bytes && place[bytes - 1] == '/' ? bytes - 1 : bytes), place);
    if (!weir_value_addr(plain, h->host, &h->port) || h->port == 0) {
        snprintf(
            error_text, error_bytes,
            "'%.200s' is no address of an admin API: it must be host:port, as in 127.0.0.1:8766",
            address);
        free(h);
        return NULL;
    }
    snprintf(h->url, sizeof h->url, "%s://%.290s", tls ? "https" : "http", plain);
    snprintf(h->token, sizeof h->token, "%s", token);
    h->patience_ns = patience_ns;
    const struct weir_target_rules rules = {.host = h->host,
                                            .port = h->port,
                                            .tls = tls,
                                            .pool_idle_ns = 10 * WEIR_NS_PER_S,
                                            .pool_max = 1};
    h->loop = weir_loop_create();
    h->client = h->loop ? weir_client_create(h->loop) : NULL;
    h->target = h->client ? weir_target_create(h->client, &rules, error_text, error_bytes) : NULL;
    if (!h->target) {
        ledger_http_close(h);
        return NULL;
    }
    return h;
}

void ledger_http_close(struct ledger_http *h)
{
    if (!h)
        return;
    if (h->target)
        weir_target_destroy(h->target);
    if (h->client)
        weir_client_destroy(h->client);
    if (h->loop)
        weir_loop_destroy(h->loop);
    explicit_bzero(h->token, sizeof h->token);
    free(h->text);
    free(h);
}

const char *ledger_http_url(const struct ledger_http *h)
{
    return h->url;
}

/* The head into out. false: the target is no path, or too long. */
static bool http_write_head(struct ledger_http *h, const char *target, const char *body,
                            struct weir_http_out *out)
{
    char value[160];
    weir_http_write_request(out, body ? WEIR_HTTP_POST : WEIR_HTTP_GET, weir_slice_of(target));
    weir_http_write_header_text(out, "host", strstr(h->url, "://") + 3);
    snprintf(value, sizeof value, "Bearer %s", h->token);
    weir_http_write_header_text(out, "authorization", value);
    explicit_bzero(value, sizeof value);
    if (body) {
        weir_http_write_header_text(out, "content-type", "application/json");
        weir_http_write_content_length(out, strlen(body));
    }
    weir_http_write_end(out);
    return weir_http_out_ok(out);
}

uint32_t ledger_http_ask(struct ledger_http *h, const char *target, const char *body,
                         const char **text, bool *sent, char *error_text, size_t error_bytes)
{
    static const struct weir_call_handler handler = {
        .sent = http_sent, .head = http_head, .body = http_body, .done = http_done};
    char head[HTTP_HEAD_BYTES];
    struct weir_http_out out = {.buf = head, .room = sizeof head};
    *sent = false;
    if (!http_write_head(h, target, body, &out)) {
        snprintf(error_text, error_bytes,
                 "the token or the path cannot be sent: they have bytes "
                 "that no header may have");
        return 0;
    }
    struct weir_call_request request = {
        .head = {head, out.used},
        .timeouts = {.connect_ns = HTTP_CONNECT_NS,
                     .write_ns = h->patience_ns,
                     .first_byte_ns = h->patience_ns,
                     .idle_ns = h->patience_ns,
                     .total_deadline_ns = weir_loop_now_ns(h->loop) + HTTP_TOTAL_NS}};
    if (body)
        request.pieces[request.piece_count++] = weir_slice_of(body);
    h->status = 0;
    h->text_bytes = 0;
    h->too_large = h->done = h->sent = false;
    int fault = 0;
    if (!weir_call_start(h->target, &request, &handler, h)) {
        snprintf(error_text, error_bytes, "out of memory");
        return 0;
    }
    while (!h->done && fault == 0)
        fault = weir_loop_turn(h->loop, WEIR_NS_PER_S);
    explicit_bzero(head, sizeof head);
    *sent = h->sent;
    if (fault != 0 || h->failure != WEIR_CALL_OK || h->too_large) {
        snprintf(error_text, error_bytes, "%s",
                 fault != 0     ? strerror(-fault)
                 : h->too_large ? "the answer is larger than 64 MiB"
                                : h->detail);
        return 0;
    }
    if (h->text)
        h->text[h->text_bytes] = '\0';
    *text = h->text ? h->text : "";
    return h->status;
}
