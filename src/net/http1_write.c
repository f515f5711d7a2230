#include "net/http1_write.h"

#include <string.h>

#include "net/http1_bytes.h"

/* What the caller of write_passed says anew, whatever came in. */
#define REWRITTEN_SET                                                                              \
    (WEIR_HTTP_BIT(WEIR_HTTP_CONTENT_LENGTH) | WEIR_HTTP_BIT(WEIR_HTTP_HOST) |                     \
     WEIR_HTTP_BIT(WEIR_HTTP_EXPECT))

/* Room for bytes more, or NULL with the mark set. */
static char *out_take(struct weir_http_out *out, size_t bytes)
{
    if (!weir_http_out_ok(out))
        return NULL;
    if (bytes > out->room - out->used) {
        out->overflow = true;
        return NULL;
    }
    char *at = out->buf + out->used;
    out->used += bytes;
    return at;
}

static char *put(char *at, struct weir_slice bytes)
{
    if (bytes.bytes > 0)
        memcpy(at, bytes.at, bytes.bytes);
    return at + bytes.bytes;
}

/* Digits of n at the end of buf; where they begin. */
static char *digits_of(char buf[20], uint64_t n)
{
    char *at = buf + 20;
    do {
        *--at = (char)('0' + n % 10);
    } while ((n /= 10) > 0);
    return at;
}

static bool is_all(struct weir_slice text, int class_bits)
{
    const char *end = text.at + text.bytes;
    return text.bytes == 0 || http1_skip(text.at, end, class_bits) == end;
}

static bool is_value(struct weir_slice text)
{
    const char *end = text.at + text.bytes;
    return text.bytes == 0 || http1_skip_value(text.at, end) == end;
}

void weir_http_write_raw(struct weir_http_out *out, struct weir_slice bytes)
{
    char *at = out_take(out, bytes.bytes);
    if (at)
        put(at, bytes);
}

void weir_http_write_request(struct weir_http_out *out, enum weir_http_method method,
                             struct weir_slice target)
{
    const struct weir_slice name = weir_slice_of(weir_http_method_text(method));
    const struct weir_slice version = WEIR_SLICE(" HTTP/1.1\r\n");
    if (name.bytes == 0 || target.bytes == 0 || !is_all(target, HTTP1_TARGET)) {
        out->refused = true;
        return;
    }
    char *at = out_take(out, name.bytes + 1 + target.bytes + version.bytes);
    if (!at)
        return;
    at = put(at, name);
    *at++ = ' ';
    put(put(at, target), version);
}

void weir_http_write_status(struct weir_http_out *out, int status, struct weir_slice reason)
{
    if (!reason.at)
        reason = weir_slice_of(weir_http_reason(status));
    if (status < 100 || status > 999 || !is_value(reason)) {
        out->refused = true;
        return;
    }
    char digits[20];
    char *at = out_take(out, sizeof "HTTP/1.1 200 \r\n" - 1 + reason.bytes);
    if (!at)
        return;
    at = put(at, WEIR_SLICE("HTTP/1.1 "));
    at = put(at, (struct weir_slice){digits_of(digits, (uint64_t)status), 3});
    *at++ = ' ';
    put(put(at, reason), WEIR_SLICE("\r\n"));
}

/* The line itself, of a name and a value that are known to be well formed. */
static void write_line(struct weir_http_out *out, struct weir_slice name, struct weir_slice value)
{
    char *at = out_take(out, name.bytes + 2 + value.bytes + 2);
    if (!at)
        return;
    at = put(put(at, name), WEIR_SLICE(": "));
    put(put(at, value), WEIR_SLICE("\r\n"));
}

void weir_http_write_header(struct weir_http_out *out, struct weir_slice name,
                            struct weir_slice value)
{
    if (name.bytes == 0 || !is_all(name, HTTP1_TOKEN) || !is_value(value))
        out->refused = true;
    else
        write_line(out, name, value);
}

void weir_http_write_header_text(struct weir_http_out *out, const char *name, const char *value)
{
    weir_http_write_header(out, weir_slice_of(name), weir_slice_of(value));
}

void weir_http_write_header_u64(struct weir_http_out *out, const char *name, uint64_t value)
{
    char digits[20];
    char *at = digits_of(digits, value);
    weir_http_write_header(out, weir_slice_of(name),
                           (struct weir_slice){at, (size_t)(digits + sizeof digits - at)});
}

void weir_http_write_content_length(struct weir_http_out *out, uint64_t bytes)
{
    weir_http_write_header_u64(out, "content-length", bytes);
}

void weir_http_write_chunked(struct weir_http_out *out)
{
    weir_http_write_raw(out, WEIR_SLICE("transfer-encoding: chunked\r\n"));
}

void weir_http_write_passed(struct weir_http_out *out, const struct weir_http_head *head,
                            uint64_t skip)
{
    skip = (skip | REWRITTEN_SET) & ~WEIR_HTTP_BIT(WEIR_HTTP_OTHER);
    for (uint32_t i = 0; i < head->header_count; i++) {
        if (!head->header[i].hop && !(skip & WEIR_HTTP_BIT(head->header[i].id)))
            write_line(out, weir_http_header_name(head, i), weir_http_header_value(head, i));
    }
}

void weir_http_write_end(struct weir_http_out *out)
{
    weir_http_write_raw(out, WEIR_SLICE("\r\n"));
}

size_t weir_http_chunk_head(char buf[static WEIR_HTTP_CHUNK_HEAD_MAX], uint64_t bytes)
{
    static const char hex[] = "0123456789abcdef";
    size_t digits = 1;
    for (uint64_t rest = bytes >> 4; rest > 0; rest >>= 4)
        digits++;
    for (size_t i = digits; i-- > 0; bytes >>= 4)
        buf[i] = hex[bytes & 15];
    memcpy(buf + digits, "\r\n", 2);
    return digits + 2;
}

const char *weir_http_reason(int status)
{
    static const struct {
        int status;
        const char *text;
    } reasons[] = {
        {100, "Continue"},
        {103, "Early Hints"},
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {204, "No Content"},
        {206, "Partial Content"},
        {301, "Moved Permanently"},
        {302, "Found"},
        {303, "See Other"},
        {304, "Not Modified"},
        {307, "Temporary Redirect"},
        {308, "Permanent Redirect"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {402, "Payment Required"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {406, "Not Acceptable"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {410, "Gone"},
        {411, "Length Required"},
        {412, "Precondition Failed"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {416, "Range Not Satisfiable"},
        {417, "Expectation Failed"},
        {421, "Misdirected Request"},
        {422, "Unprocessable Content"},
        {424, "Failed Dependency"},
        {425, "Too Early"},
        {426, "Upgrade Required"},
        {428, "Precondition Required"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
        {529, "Overloaded"},
    };
    for (size_t i = 0; i < WEIR_COUNT(reasons); i++) {
        if (reasons[i].status == status)
            return reasons[i].text;
    }
    return "Status";
}
