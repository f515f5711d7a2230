#include "net/http1.h"

#include <string.h>

#include "net/http1_bytes.h"

/* Bits of http1_bytes.h per byte; the test http1_bytes__each_class__is_that_of_the_rfc spells them
 * out. */
const uint8_t weir_http1_class[256] = {
    0,  0,  0,  0,  0,  0,  0,  0,  0,  24, 0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,
    0,  0,  0,  0,  0,  0,  0,  0,  24, 15, 8,  9,  15, 15, 15, 15, 14, 14, 15, 15, 14, 15, 15, 10,
    15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 14, 14, 8,  14, 8,  10, 10, 15, 15, 15, 15, 15, 15, 15,
    15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 14, 8,  14, 11, 15,
    11, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15,
    15, 15, 15, 10, 11, 10, 15, 0,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,
    8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,
    8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,
    8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,
    8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,
    8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,
};

#define HOP_SET                                                                                    \
    (WEIR_HTTP_BIT(WEIR_HTTP_CONNECTION) | WEIR_HTTP_BIT(WEIR_HTTP_KEEP_ALIVE) |                   \
     WEIR_HTTP_BIT(WEIR_HTTP_PROXY_AUTHENTICATE) | WEIR_HTTP_BIT(WEIR_HTTP_PROXY_AUTHORIZATION) |  \
     WEIR_HTTP_BIT(WEIR_HTTP_PROXY_CONNECTION) | WEIR_HTTP_BIT(WEIR_HTTP_TE) |                     \
     WEIR_HTTP_BIT(WEIR_HTTP_TRAILER) | WEIR_HTTP_BIT(WEIR_HTTP_TRANSFER_ENCODING) |               \
     WEIR_HTTP_BIT(WEIR_HTTP_UPGRADE) | WEIR_HTTP_BIT(WEIR_HTTP_HTTP2_SETTINGS))

static const struct {
    const char *text, *label;
    int status;
} faults[WEIR_HTTP_FAULT_COUNT] = {
#define FAULT_ROW(id, status, text) [WEIR_HTTP_FAULT_##id] = {text, #id, status},
    WEIR_HTTP_FAULTS(FAULT_ROW)
#undef FAULT_ROW
};

static const struct weir_slice methods[] = {
    [WEIR_HTTP_METHOD_NONE] = {"", 0},  [WEIR_HTTP_GET] = {"GET", 3},
    [WEIR_HTTP_HEAD] = {"HEAD", 4},     [WEIR_HTTP_POST] = {"POST", 4},
    [WEIR_HTTP_PUT] = {"PUT", 3},       [WEIR_HTTP_PATCH] = {"PATCH", 5},
    [WEIR_HTTP_DELETE] = {"DELETE", 6}, [WEIR_HTTP_OPTIONS] = {"OPTIONS", 7},
};

const char *weir_http_fault_text(enum weir_http_fault fault)
{
    return faults[fault].text;
}

const char *weir_http_fault_label(enum weir_http_fault fault)
{
    return faults[fault].label;
}

int weir_http_fault_status(enum weir_http_fault fault)
{
    return faults[fault].status;
}

const char *weir_http_method_text(enum weir_http_method method)
{
    return methods[method].at;
}

uint32_t weir_http_find_next(const struct weir_http_head *head, enum weir_http_name id, uint32_t i)
{
    for (i++; i < head->header_count; i++) {
        if (head->header[i].id == id)
            return i;
    }
    return WEIR_NONE;
}

struct weir_slice weir_http_value_by_text(const struct weir_http_head *head, struct weir_slice name)
{
    for (uint32_t i = 0; i < head->header_count; i++) {
        if (weir_slice_equal_caseless(weir_http_header_name(head, i), name))
            return weir_http_header_value(head, i);
    }
    return (struct weir_slice){NULL, 0};
}

/* Where a parse stands. The head is known to be complete, so every line up to end has its CRLF and
 * the last one is empty: a scan over token, target or value bytes always stops before end. */
struct cursor {
    struct weir_http_head *head;
    const char *base, *p, *end;
};

static uint32_t cursor_offset(const struct cursor *c, const char *p)
{
    return (uint32_t)(p - c->base);
}

static struct weir_http_span cursor_span(const struct cursor *c, const char *from, const char *to)
{
    return (struct weir_http_span){cursor_offset(c, from), (uint32_t)(to - from)};
}

/* --- the end of the head ------------------------------------------------------------------------
 */

#ifdef __SSE2__
/* Bit k: p[k] is byte; for the 32 bytes at p. */
static uint64_t mask_of(const char *p, char byte)
{
    __m128i wanted = _mm_set1_epi8(byte);
    __m128i low = _mm_loadu_si128((const __m128i *)(const void *)p);
    __m128i high = _mm_loadu_si128((const __m128i *)(const void *)(p + 16));
    return (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(low, wanted)) |
           (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(high, wanted)) << 16;
}
#endif

/* Looks for the empty line that ends a head, from *scanned on. A line feed without its carriage
 * return is BAD at once: waiting for more would let such a message hang until a timeout. *scanned:
 * on DONE the bytes of the head, else all of them. */
static enum weir_http_parse head_end(const char *buf, size_t bytes, size_t *scanned)
{
    size_t i = *scanned;
#ifdef __SSE2__
    /* 32 bytes at a time as bit masks: bit k + 2 is byte i + k, bits 0 and 1 are the two before it.
     */
    uint64_t feeds = (i > 1 && buf[i - 2] == '\n' ? 1 : 0) | (i > 0 && buf[i - 1] == '\n' ? 2 : 0);
    uint64_t returns = i > 0 && buf[i - 1] == '\r' ? 2 : 0;
    for (; bytes - i >= 32; i += 32) {
        feeds |= mask_of(buf + i, '\n') << 2;
        returns |= mask_of(buf + i, '\r') << 2;
        uint64_t alone = feeds & ~(returns << 1) & ~UINT64_C(3); /* a feed without its return */
        uint64_t ends = feeds & returns << 1 & feeds << 2;
        if (alone | ends) {
            int at = __builtin_ctzll(alone | ends);
            *scanned = i + (size_t)at - 1;
            return alone >> at & 1 ? WEIR_HTTP_BAD : WEIR_HTTP_DONE;
        }
        feeds >>= 32;
        returns >>= 32;
    }
#endif
    for (; i < bytes; i++) {
        if (buf[i] != '\n')
            continue;
        *scanned = i + 1;
        if (i == 0 || buf[i - 1] != '\r')
            return WEIR_HTTP_BAD;
        if (i >= 3 && buf[i - 2] == '\n')
            return WEIR_HTTP_DONE;
    }
    *scanned = bytes;
    return WEIR_HTTP_MORE;
}

/* The first byte and the end of the head; on DONE the cursor holds the head. */
static enum weir_http_parse head_open(struct cursor *c, const char *buf, size_t bytes,
                                      size_t head_bytes_max, size_t *scanned,
                                      struct weir_http_head *head)
{
    head->base = buf;
    head->fault = WEIR_HTTP_FAULT_NONE;
    size_t looked = bytes < head_bytes_max ? bytes : head_bytes_max;
    switch (head_end(buf, looked, scanned)) {
    case WEIR_HTTP_DONE:
        *c = (struct cursor){head, buf, buf, buf + *scanned};
        head->head_bytes = (uint32_t)*scanned;
        head->method = WEIR_HTTP_METHOD_NONE;
        head->target = head->path = head->authority = head->reason = (struct weir_http_span){0, 0};
        head->status = 0;
        head->interim = head->expect_continue = head->upgrade = head->keep_alive = false;
        head->version_minor = 0;
        head->framing = WEIR_HTTP_FRAMING_NONE;
        head->content_length = head->present = head->repeated = 0;
        head->header_count = 0;
        return WEIR_HTTP_DONE;
    case WEIR_HTTP_BAD:
        head->fault = WEIR_HTTP_FAULT_LINE_END;
        return WEIR_HTTP_BAD;
    case WEIR_HTTP_MORE:
        break;
    }
    if (bytes < head_bytes_max)
        return WEIR_HTTP_MORE;
    head->fault = WEIR_HTTP_FAULT_HEAD_TOO_LARGE;
    return WEIR_HTTP_BAD;
}

/* --- start lines --------------------------------------------------------------------------------
 */

/* "HTTP/1.1" or "HTTP/1.0" at p. */
static enum weir_http_fault take_version(struct cursor *c)
{
    const char *p = c->p;
    if (c->end - p < 8 || memcmp(p, "HTTP/", 5) != 0 || p[6] != '.' || p[5] < '0' || p[5] > '9' ||
        p[7] < '0' || p[7] > '9')
        return WEIR_HTTP_FAULT_START_LINE;
    if (p[5] != '1' || p[7] > '1')
        return WEIR_HTTP_FAULT_VERSION;
    c->head->version_minor = (uint8_t)(p[7] - '0');
    c->p = p + 8;
    return WEIR_HTTP_FAULT_NONE;
}

/* p is before end, and the last byte before end is a line feed: a CR always has a byte after it. */
static bool take_line_end(struct cursor *c)
{
    if (c->p[0] != '\r' || c->p[1] != '\n')
        return false;
    c->p += 2;
    return true;
}

static enum weir_http_method method_of(const char *at, size_t bytes)
{
    for (unsigned i = WEIR_HTTP_GET; i < WEIR_COUNT(methods); i++) {
        if (methods[i].bytes == bytes && memcmp(methods[i].at, at, bytes) == 0)
            return (enum weir_http_method)i;
    }
    return WEIR_HTTP_METHOD_NONE;
}

/* The form of the target (RFC 9112 3.2): origin, absolute with http or https, or "*" for OPTIONS.
 * The authority form belongs to CONNECT, which is refused before. */
static enum weir_http_fault read_target(struct cursor *c, const char *at, const char *end)
{
    struct weir_http_head *head = c->head;
    if (*at == '/') {
        head->path = head->target;
        return WEIR_HTTP_FAULT_NONE;
    }
    if (*at == '*' && end - at == 1 && head->method == WEIR_HTTP_OPTIONS) {
        head->path = head->target;
        return WEIR_HTTP_FAULT_NONE;
    }
    size_t scheme = 0;
    if (end - at > 7 &&
        weir_slice_equal_caseless((struct weir_slice){at, 7}, WEIR_SLICE("http://")))
        scheme = 7;
    else if (end - at > 8 &&
             weir_slice_equal_caseless((struct weir_slice){at, 8}, WEIR_SLICE("https://")))
        scheme = 8;
    const char *host = at + scheme, *host_end = http1_skip(host, end, HTTP1_HOST);
    if (scheme == 0 || host_end == host)
        return WEIR_HTTP_FAULT_TARGET;
    head->authority = cursor_span(c, host, host_end);
    if (host_end == end)
        head->path = cursor_span(c, host - 1, host); /* no path: "/", which the scheme ends in */
    else if (*host_end == '/')
        head->path = cursor_span(c, host_end, end);
    else
        return WEIR_HTTP_FAULT_TARGET;
    return WEIR_HTTP_FAULT_NONE;
}

static enum weir_http_fault take_request_line(struct cursor *c)
{
    struct weir_http_head *head = c->head;
    take_line_end(c); /* one empty line before it is skipped (RFC 9112 2.2) */
    const char *method = c->p, *method_end = http1_skip_line(method, HTTP1_TOKEN);
    if (method_end == method || *method_end != ' ')
        return WEIR_HTTP_FAULT_START_LINE;
    const char *target = method_end + 1, *target_end = http1_skip_target(target, c->end);
    if (*target_end != ' ' && *target_end != '\r')
        return WEIR_HTTP_FAULT_TARGET;
    if (target_end == target || *target_end == '\r') /* two spaces, or HTTP/0.9 */
        return WEIR_HTTP_FAULT_START_LINE;
    c->p = target_end + 1;
    enum weir_http_fault fault = take_version(c);
    if (fault != WEIR_HTTP_FAULT_NONE)
        return fault;
    if (!take_line_end(c))
        return WEIR_HTTP_FAULT_START_LINE;
    if ((head->method = method_of(method, (size_t)(method_end - method))) == WEIR_HTTP_METHOD_NONE)
        return WEIR_HTTP_FAULT_METHOD;
    if (target_end - target > WEIR_HTTP_TARGET_BYTES_MAX)
        return WEIR_HTTP_FAULT_TARGET_TOO_LONG;
    head->target = cursor_span(c, target, target_end);
    return read_target(c, target, target_end);
}

static enum weir_http_fault take_status_line(struct cursor *c)
{
    struct weir_http_head *head = c->head;
    enum weir_http_fault fault = take_version(c);
    if (fault != WEIR_HTTP_FAULT_NONE)
        return fault;
    const char *p = c->p;
    if (*p != ' ')
        return WEIR_HTTP_FAULT_START_LINE;
    unsigned status = 0;
    for (int i = 1; i <= 3; i++) { /* stops at the CR of a shorter line */
        if (p[i] < '0' || p[i] > '9')
            return WEIR_HTTP_FAULT_STATUS;
        status = status * 10 + (unsigned)(p[i] - '0');
    }
    p += 4;
    if (status < 100 || (*p != ' ' && *p != '\r'))
        return WEIR_HTTP_FAULT_STATUS;
    head->status = (uint16_t)status;
    head->interim = status < 200;
    const char *reason = *p == ' ' ? p + 1 : p;
    c->p = http1_skip_value(reason, c->end);
    head->reason = cursor_span(c, reason, c->p);
    return take_line_end(c) ? WEIR_HTTP_FAULT_NONE : WEIR_HTTP_FAULT_START_LINE;
}

/* --- headers ------------------------------------------------------------------------------------
 */

/* White space around a value is dropped (RFC 9110 5.5), but where the value is a length or a coding
 * a tab in it is refused: parsers differ on it, and a disputed length is a smuggled request. */
static bool has_tab_after(const char *value_end)
{
    return memchr(value_end, '\t', (size_t)(http1_skip_line(value_end, HTTP1_SPACE) - value_end));
}

static enum weir_http_fault read_content_length(struct cursor *c, const char *at, const char *end)
{
    if (weir_http_has(c->head, WEIR_HTTP_CONTENT_LENGTH) || at == end || end - at > 18 ||
        has_tab_after(end))
        return WEIR_HTTP_FAULT_CONTENT_LENGTH; /* 18 digits: less than an exabyte, no overflow */
    uint64_t length = 0;
    for (const char *p = at; p < end; p++) {
        if (*p < '0' || *p > '9')
            return WEIR_HTTP_FAULT_CONTENT_LENGTH;
        length = length * 10 + (uint64_t)(*p - '0');
    }
    c->head->content_length = length;
    return WEIR_HTTP_FAULT_NONE;
}

/* What a header of a known name says about this message, before its bit is set in present. */
static enum weir_http_fault read_known(struct cursor *c, enum weir_http_name id, const char *at,
                                       const char *end)
{
    struct weir_http_head *head = c->head;
    struct weir_slice value = {at, (size_t)(end - at)};
    if (id == WEIR_HTTP_CONTENT_LENGTH)
        return read_content_length(c, at, end);
    if (id == WEIR_HTTP_TRANSFER_ENCODING) {
        if (weir_http_has(head, id) || !weir_slice_equal_caseless(value, WEIR_SLICE("chunked")) ||
            has_tab_after(end))
            return WEIR_HTTP_FAULT_TRANSFER_ENCODING;
    }
    if (id == WEIR_HTTP_HOST && head->method != WEIR_HTTP_METHOD_NONE) {
        if (weir_http_has(head, id) || http1_skip(at, end, HTTP1_HOST) != end)
            return WEIR_HTTP_FAULT_HOST;
    }
    if (id == WEIR_HTTP_EXPECT && head->method != WEIR_HTTP_METHOD_NONE &&
        head->version_minor > 0) {
        if (!weir_slice_equal_caseless(value, WEIR_SLICE("100-continue")))
            return WEIR_HTTP_FAULT_EXPECTATION;
    }
    return WEIR_HTTP_FAULT_NONE;
}

#define READ_SET                                                                                   \
    (WEIR_HTTP_BIT(WEIR_HTTP_CONTENT_LENGTH) | WEIR_HTTP_BIT(WEIR_HTTP_TRANSFER_ENCODING) |        \
     WEIR_HTTP_BIT(WEIR_HTTP_HOST) | WEIR_HTTP_BIT(WEIR_HTTP_EXPECT))

/* One header line; the cursor is at its first byte, which is not a CR. */
static enum weir_http_fault take_header(struct cursor *c)
{
    struct weir_http_head *head = c->head;
    const char *name = c->p, *name_end = http1_skip_name(name, c->end);
    if (name_end == name)
        return http1_is(*name, HTTP1_SPACE) ? WEIR_HTTP_FAULT_HEADER_FOLD
                                            : WEIR_HTTP_FAULT_HEADER_NAME;
    if (*name_end != ':')
        return WEIR_HTTP_FAULT_HEADER_NAME;
    if (head->header_count == WEIR_HTTP_HEADERS_MAX)
        return WEIR_HTTP_FAULT_HEADERS_TOO_MANY;
    if (name_end - name > WEIR_HTTP_NAME_BYTES_MAX)
        return WEIR_HTTP_FAULT_HEAD_TOO_LARGE;
    const char *value = http1_skip_line(name_end + 1, HTTP1_SPACE);
    const char *value_end = http1_skip_value(value, c->end);
    c->p = value_end;
    if (!take_line_end(c))
        return *value_end == '\r' ? WEIR_HTTP_FAULT_LINE_END : WEIR_HTTP_FAULT_HEADER_VALUE;
    while (value_end > value && http1_is(value_end[-1], HTTP1_SPACE))
        value_end--;

    enum weir_http_name id = weir_http_name_id(name, (size_t)(name_end - name));
    uint64_t bit = WEIR_HTTP_BIT(id);
    if (bit & READ_SET) {
        enum weir_http_fault fault = read_known(c, id, value, value_end);
        if (fault != WEIR_HTTP_FAULT_NONE)
            return fault;
    }
    if (id != WEIR_HTTP_OTHER) {
        if (head->present & bit)
            head->repeated |= bit;
        else
            head->first[id] = (uint8_t)head->header_count;
        head->present |= bit;
    }
    head->header[head->header_count++] = (struct weir_http_header){
        .name_at = cursor_offset(c, name),
        .value_at = cursor_offset(c, value),
        .value_bytes = (uint32_t)(value_end - value),
        .name_bytes = (uint16_t)(name_end - name),
        .id = (uint8_t)id,
        .hop = (bit & HOP_SET) != 0,
    };
    return WEIR_HTTP_FAULT_NONE;
}

static void mark_hop(struct weir_http_head *head, struct weir_slice option)
{
    for (uint32_t i = 0; i < head->header_count; i++) {
        if (weir_slice_equal_caseless(weir_http_header_name(head, i), option))
            head->header[i].hop = true;
    }
}

/* All Connection headers: a list of tokens, with empty elements allowed (RFC 9110 5.6.1). */
static enum weir_http_fault read_connection(struct weir_http_head *head, bool *close, bool *keep)
{
    int options_left = WEIR_HTTP_CONNECTION_OPTIONS_MAX;
    for (uint32_t i = weir_http_find(head, WEIR_HTTP_CONNECTION); i != WEIR_NONE;
         i = weir_http_find_next(head, WEIR_HTTP_CONNECTION, i)) {
        struct weir_slice list = weir_http_header_value(head, i);
        for (const char *p = list.at, *end = p + list.bytes; p < end; p++) {
            p = http1_skip(p, end, HTTP1_SPACE);
            const char *option_end = http1_skip(p, end, HTTP1_TOKEN);
            struct weir_slice option = {p, (size_t)(option_end - p)};
            p = http1_skip(option_end, end, HTTP1_SPACE);
            if ((p < end && *p != ',') || options_left-- == 0)
                return WEIR_HTTP_FAULT_CONNECTION;
            if (weir_slice_equal_caseless(option, WEIR_SLICE("close")))
                *close = true;
            else if (weir_slice_equal_caseless(option, WEIR_SLICE("keep-alive")))
                *keep = true;
            else if (option.bytes > 0)
                mark_hop(head, option);
        }
    }
    return WEIR_HTTP_FAULT_NONE;
}

/* The header lines up to the empty one, and what they say about the connection and the length. */
static enum weir_http_fault take_headers(struct cursor *c)
{
    struct weir_http_head *head = c->head;
    while (*c->p != '\r') {
        enum weir_http_fault fault = take_header(c);
        if (fault != WEIR_HTTP_FAULT_NONE)
            return fault;
    }
    if (!take_line_end(c))
        return WEIR_HTTP_FAULT_LINE_END; /* a CR alone where a line should start */
    WEIR_INVARIANT(c->p == c->end);

    bool close = false, keep = false;
    enum weir_http_fault fault = read_connection(head, &close, &keep);
    if (fault != WEIR_HTTP_FAULT_NONE)
        return fault;
    head->keep_alive = !close && (keep || head->version_minor > 0);
    head->upgrade = weir_http_has(head, WEIR_HTTP_UPGRADE);

    bool coded = weir_http_has(head, WEIR_HTTP_TRANSFER_ENCODING);
    bool sized = weir_http_has(head, WEIR_HTTP_CONTENT_LENGTH);
    if (coded && (sized || head->version_minor == 0))
        return WEIR_HTTP_FAULT_FRAMING;
    if (coded)
        head->framing = WEIR_HTTP_FRAMING_CHUNKED;
    else if (sized)
        head->framing = WEIR_HTTP_FRAMING_LENGTH;
    return WEIR_HTTP_FAULT_NONE;
}

/* --- whole heads --------------------------------------------------------------------------------
 */

static enum weir_http_fault read_request(struct cursor *c)
{
    struct weir_http_head *head = c->head;
    enum weir_http_fault fault = take_request_line(c);
    if (fault == WEIR_HTTP_FAULT_NONE)
        fault = take_headers(c);
    if (fault != WEIR_HTTP_FAULT_NONE)
        return fault;
    uint32_t host = weir_http_find(head, WEIR_HTTP_HOST);
    if (host == WEIR_NONE && head->version_minor > 0)
        return WEIR_HTTP_FAULT_HOST;
    if (host != WEIR_NONE && head->authority.bytes == 0)
        head->authority =
            (struct weir_http_span){head->header[host].value_at, head->header[host].value_bytes};
    bool body = head->framing == WEIR_HTTP_FRAMING_CHUNKED || head->content_length > 0;
    head->expect_continue =
        body && head->version_minor > 0 && weir_http_has(head, WEIR_HTTP_EXPECT);
    return WEIR_HTTP_FAULT_NONE;
}

static enum weir_http_fault read_response(struct cursor *c, enum weir_http_method method)
{
    struct weir_http_head *head = c->head;
    enum weir_http_fault fault = take_status_line(c);
    if (fault == WEIR_HTTP_FAULT_NONE)
        fault = take_headers(c);
    if (fault != WEIR_HTTP_FAULT_NONE)
        return fault;
    if (head->status == 101)
        return WEIR_HTTP_FAULT_SWITCHED;
    bool body = head->framing == WEIR_HTTP_FRAMING_CHUNKED || head->content_length > 0;
    if (body && (head->interim || head->status == 204))
        return WEIR_HTTP_FAULT_BODY_NOT_ALLOWED;
    if (head->interim || head->status == 204 || head->status == 304 || method == WEIR_HTTP_HEAD) {
        head->framing = WEIR_HTTP_FRAMING_NONE;
    } else if (head->framing == WEIR_HTTP_FRAMING_NONE) {
        head->framing = WEIR_HTTP_FRAMING_CLOSE;
        head->keep_alive = false;
    }
    return WEIR_HTTP_FAULT_NONE;
}

static enum weir_http_parse head_close(struct weir_http_head *head, enum weir_http_fault fault)
{
    head->fault = fault;
    return fault == WEIR_HTTP_FAULT_NONE ? WEIR_HTTP_DONE : WEIR_HTTP_BAD;
}

enum weir_http_parse weir_http_request_parse(const char *buf, size_t bytes, size_t head_bytes_max,
                                             size_t *scanned, struct weir_http_head *head)
{
    struct cursor c;
    head_bytes_max = weir_min_u64(head_bytes_max, WEIR_HTTP_HEAD_BYTES_LIMIT);
    /* Another protocol (a TLS hello) shows in its first byte, and may never send a line feed. */
    if (bytes > 0 && *buf != '\r' && !http1_is(*buf, HTTP1_TOKEN))
        return head_close(head, WEIR_HTTP_FAULT_START_LINE);
    enum weir_http_parse answer = head_open(&c, buf, bytes, head_bytes_max, scanned, head);
    if (answer == WEIR_HTTP_DONE)
        return head_close(head, read_request(&c));
    if (head->fault == WEIR_HTTP_FAULT_HEAD_TOO_LARGE && !memchr(buf, '\n', head_bytes_max))
        head->fault = WEIR_HTTP_FAULT_TARGET_TOO_LONG;
    return answer;
}

enum weir_http_parse weir_http_response_parse(const char *buf, size_t bytes, size_t head_bytes_max,
                                              enum weir_http_method method, size_t *scanned,
                                              struct weir_http_head *head)
{
    struct cursor c;
    head_bytes_max = weir_min_u64(head_bytes_max, WEIR_HTTP_HEAD_BYTES_LIMIT);
    if (bytes > 0 && *buf != 'H')
        return head_close(head, WEIR_HTTP_FAULT_START_LINE);
    enum weir_http_parse answer = head_open(&c, buf, bytes, head_bytes_max, scanned, head);
    return answer == WEIR_HTTP_DONE ? head_close(head, read_response(&c, method)) : answer;
}
