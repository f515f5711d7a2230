#include "http1_diff.h"

#include <string.h>

#include <llhttp.h>

#define HEADERS_MAX 1024

/* What llhttp said of one message; its callbacks fill it. */
struct told {
    const struct http1_run_input *in;
    const char *base;
    bool headers_complete, complete, keep_alive, interim;
    struct weir_slice url, status;
    size_t header_count;
    struct weir_slice name[HEADERS_MAX], value[HEADERS_MAX];
    size_t body_bytes;
    char body[HTTP1_DIFF_BYTES_MAX];
};

/* One call of execute gets all the input, so a span comes in one piece, but for a value that spans
 * folded lines; ours never accepts those, so the last piece will do. */
static int on_span(struct weir_slice *to, const char *at, size_t bytes)
{
    *to = (struct weir_slice){at, bytes};
    return 0;
}

static int on_url(llhttp_t *parser, const char *at, size_t bytes)
{
    return on_span(&((struct told *)parser->data)->url, at, bytes);
}

static int on_status(llhttp_t *parser, const char *at, size_t bytes)
{
    return on_span(&((struct told *)parser->data)->status, at, bytes);
}

/* Trailers have fields, too: ours checks and drops them, so only those of the head are kept. */
static int on_header_field(llhttp_t *parser, const char *at, size_t bytes)
{
    struct told *told = parser->data;
    if (told->headers_complete || told->header_count == HEADERS_MAX)
        return 0;
    told->value[told->header_count] = (struct weir_slice){at, 0};
    return on_span(&told->name[told->header_count++], at, bytes);
}

static int on_header_value(llhttp_t *parser, const char *at, size_t bytes)
{
    struct told *told = parser->data;
    if (told->headers_complete || told->header_count == 0)
        return 0;
    while (bytes > 0 && (at[bytes - 1] == ' ' || at[bytes - 1] == '\t'))
        bytes--;
    return on_span(&told->value[told->header_count - 1], at, bytes);
}

static int on_headers_complete(llhttp_t *parser)
{
    struct told *told = parser->data;
    int status = parser->status_code;
    told->headers_complete = true;
    told->interim = told->in->response && status >= 100 && status < 200;
    return told->in->response &&
           (told->interim || status == 204 || status == 304 || told->in->method == WEIR_HTTP_HEAD);
}

static int on_body(llhttp_t *parser, const char *at, size_t bytes)
{
    struct told *told = parser->data;
    if (bytes <= sizeof told->body - told->body_bytes)
        memcpy(told->body + told->body_bytes, at, bytes);
    told->body_bytes += bytes;
    return 0;
}

static int on_message_complete(llhttp_t *parser)
{
    struct told *told = parser->data;
    told->complete = true;
    told->keep_alive = llhttp_should_keep_alive(parser);
    return HPE_PAUSED;
}

/* Runs one message that starts at base; *consumed: its bytes, if complete. */
static llhttp_errno_t tell(struct told *told, llhttp_t *parser, const struct http1_run_input *in,
                           size_t from, size_t *consumed)
{
    static const llhttp_settings_t settings = {
        .on_url = on_url,
        .on_status = on_status,
        .on_header_field = on_header_field,
        .on_header_value = on_header_value,
        .on_headers_complete = on_headers_complete,
        .on_body = on_body,
        .on_message_complete = on_message_complete,
    };
    told->in = in;
    told->base = in->at + from;
    told->headers_complete = told->complete = told->interim = told->keep_alive = false;
    told->url = told->status = (struct weir_slice){told->base, 0};
    told->header_count = told->body_bytes = 0;
    llhttp_init(parser, in->response ? HTTP_RESPONSE : HTTP_REQUEST, &settings);
    parser->data = told;
    llhttp_errno_t error = llhttp_execute(parser, told->base, in->bytes - from);
    *consumed = in->bytes - from;
    if (error == HPE_PAUSED || error == HPE_PAUSED_UPGRADE) {
        *consumed = (size_t)(llhttp_get_error_pos(parser) - told->base);
        return HPE_OK;
    }
    if (error == HPE_OK && in->eof && !told->complete)
        (void)llhttp_finish(parser); /* completes a body that ends with the connection */
    return error;
}

static enum weir_http_method method_of(const llhttp_t *parser)
{
    switch ((llhttp_method_t)parser->method) {
    case HTTP_GET:
        return WEIR_HTTP_GET;
    case HTTP_HEAD:
        return WEIR_HTTP_HEAD;
    case HTTP_POST:
        return WEIR_HTTP_POST;
    case HTTP_PUT:
        return WEIR_HTTP_PUT;
    case HTTP_PATCH:
        return WEIR_HTTP_PATCH;
    case HTTP_DELETE:
        return WEIR_HTTP_DELETE;
    case HTTP_OPTIONS:
        return WEIR_HTTP_OPTIONS;
    default: /* llhttp's enum: the rest are methods that ours refuses */
        return WEIR_HTTP_METHOD_NONE;
    }
}

static const char *head_difference(const struct weir_http_head *head, const struct told *told,
                                   const llhttp_t *parser)
{
    if (parser->http_major != 1 || parser->http_minor != head->version_minor)
        return "version";
    if (told->in->response) {
        if (parser->status_code != head->status)
            return "status";
        if (!weir_slice_equal(told->status, weir_http_text(head, head->reason)))
            return "reason";
    } else {
        if (method_of(parser) != head->method)
            return "method";
        if (!weir_slice_equal(told->url, weir_http_text(head, head->target)))
            return "target";
    }
    if (told->header_count != head->header_count)
        return "header count";
    for (uint32_t i = 0; i < head->header_count; i++) {
        if (!weir_slice_equal(told->name[i], weir_http_header_name(head, i)))
            return "header name";
        if (!weir_slice_equal(told->value[i], weir_http_header_value(head, i)))
            return "header value";
    }
    return NULL;
}

/* A tab in a Connection header, or Proxy-Connection: see the list of differences. */
static bool keep_alive_may_differ(const struct weir_http_head *head)
{
    if (weir_http_has(head, WEIR_HTTP_PROXY_CONNECTION))
        return true;
    for (uint32_t i = weir_http_find(head, WEIR_HTTP_CONNECTION); i != WEIR_NONE;
         i = weir_http_find_next(head, WEIR_HTTP_CONNECTION, i)) {
        /* The white space around the value is in the buffer up to the CR. */
        const char *name = head->base + head->header[i].name_at;
        const char *line_end = memchr(name, '\r', head->head_bytes - head->header[i].name_at);
        if (memchr(name, '\t', (size_t)(line_end - name)))
            return true;
    }
    return false;
}

bool http1_diff(struct http1_run *run, const struct http1_run_input *in, bool *llhttp_accepts,
                const char **what)
{
    static struct told told;
    llhttp_t parser;
    size_t at = 0, consumed = 0;
    llhttp_errno_t error;
    int interims = 0;
    *what = NULL;
    http1_run(run, in, HTTP1_RUN_WHOLE, HTTP1_RUN_WHOLE);
    for (;;) {
        error = tell(&told, &parser, in, at, &consumed);
        if (error != HPE_OK || !told.complete || !told.interim || interims == run->interims)
            break;
        interims++;
        at += consumed;
    }
    *llhttp_accepts = error == HPE_OK && told.complete && !told.interim;
    if (!run->head_done || run->answer == WEIR_HTTP_BAD)
        return true; /* ours does not accept, or not yet */

    if (interims != run->interims || at != run->head_at)
        *what = "interim responses";
    else if (error != HPE_OK || !told.headers_complete)
        *what = "llhttp refuses the message";
    else if (head_difference(&run->head, &told, &parser))
        *what = head_difference(&run->head, &told, &parser);
    else if (told.body_bytes != run->body_bytes ||
             memcmp(told.body, run->body, run->body_bytes) != 0)
        *what = "body";
    else if (told.complete != (run->answer == WEIR_HTTP_DONE))
        *what = "completeness";
    else if (told.complete && at + consumed != run->consumed)
        *what = "bytes of the message";
    else if (told.complete && run->head.keep_alive && !told.keep_alive &&
             !keep_alive_may_differ(&run->head))
        *what = "keep alive";
    return *what == NULL;
}
