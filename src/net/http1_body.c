#include "net/http1_body.h"

#include <string.h>

#include "net/http1_bytes.h"

/* Where a chunked body stands; each state names what the next byte must be.
 *
 *     SIZE_FIRST -> SIZE -> SIZE_LF -> DATA -> DATA_CR -> DATA_LF -> SIZE_FIRST
 *                   SIZE -> EXTENSION_NAME_FIRST -> EXTENSION_NAME -> [EXTENSION_VALUE_FIRST ->
 *                           EXTENSION_VALUE] -> SIZE_LF
 *     after a size of 0: LINE_FIRST -> TRAILER_NAME -> TRAILER_VALUE -> TRAILER_LF -> LINE_FIRST
 *                        LINE_FIRST -> LAST_LF -> ENDED
 *
 * A body of known length, or one that ends with the connection, is in PLAIN until ENDED. */
enum body_state {
    PLAIN,
    SIZE_FIRST,
    SIZE,
    EXTENSION_NAME_FIRST,
    EXTENSION_NAME,
    EXTENSION_VALUE_FIRST,
    EXTENSION_VALUE,
    SIZE_LF,
    DATA,
    DATA_CR,
    DATA_LF,
    LINE_FIRST,
    TRAILER_NAME,
    TRAILER_VALUE,
    TRAILER_LF,
    LAST_LF,
    ENDED,
    REFUSED,
};

/* Framing, routing and connection are settled by the head: a trailer may not say it differently
 * later. */
#define TRAILER_FORBIDDEN_SET                                                                      \
    (WEIR_HTTP_BIT(WEIR_HTTP_CONTENT_LENGTH) | WEIR_HTTP_BIT(WEIR_HTTP_TRANSFER_ENCODING) |        \
     WEIR_HTTP_BIT(WEIR_HTTP_HOST) | WEIR_HTTP_BIT(WEIR_HTTP_CONNECTION) |                         \
     WEIR_HTTP_BIT(WEIR_HTTP_KEEP_ALIVE) | WEIR_HTTP_BIT(WEIR_HTTP_PROXY_AUTHENTICATE) |           \
     WEIR_HTTP_BIT(WEIR_HTTP_PROXY_AUTHORIZATION) | WEIR_HTTP_BIT(WEIR_HTTP_PROXY_CONNECTION) |    \
     WEIR_HTTP_BIT(WEIR_HTTP_TE) | WEIR_HTTP_BIT(WEIR_HTTP_TRAILER) |                              \
     WEIR_HTTP_BIT(WEIR_HTTP_UPGRADE) | WEIR_HTTP_BIT(WEIR_HTTP_AUTHORIZATION) |                   \
     WEIR_HTTP_BIT(WEIR_HTTP_CONTENT_ENCODING) | WEIR_HTTP_BIT(WEIR_HTTP_CONTENT_TYPE) |           \
     WEIR_HTTP_BIT(WEIR_HTTP_EXPECT))

#define SIZE_DIGITS_MAX 15 /* less than 2^60: never overflows, and no body comes near it */

static enum weir_http_parse body_refuse(struct weir_http_body *body, enum weir_http_fault fault)
{
    body->state = REFUSED;
    body->fault = fault;
    return WEIR_HTTP_BAD;
}

void weir_http_body_init(struct weir_http_body *body, const struct weir_http_head *head,
                         uint64_t data_bytes_max)
{
    *body = (struct weir_http_body){.framing = head->framing, .data_bytes_max = data_bytes_max};
    switch (head->framing) {
    case WEIR_HTTP_FRAMING_NONE:
        body->state = ENDED;
        break;
    case WEIR_HTTP_FRAMING_LENGTH:
        body->state = head->content_length > 0 ? PLAIN : ENDED;
        body->left_bytes = head->content_length;
        break;
    case WEIR_HTTP_FRAMING_CHUNKED:
        body->state = SIZE_FIRST;
        break;
    case WEIR_HTTP_FRAMING_CLOSE:
        body->state = PLAIN;
        body->left_bytes = UINT64_MAX;
        break;
    }
    if (head->framing == WEIR_HTTP_FRAMING_LENGTH && head->content_length > data_bytes_max)
        (void)body_refuse(body, WEIR_HTTP_FAULT_BODY_TOO_LARGE);
}

static enum weir_http_parse body_feed_plain(struct weir_http_body *body, const char *in,
                                            size_t in_bytes, size_t *used, struct weir_slice *data)
{
    size_t taken = (size_t)weir_min_u64(in_bytes, body->left_bytes);
    if (taken > body->data_bytes_max - body->data_bytes)
        return body_refuse(body, WEIR_HTTP_FAULT_BODY_TOO_LARGE);
    *data = (struct weir_slice){in, taken};
    *used = taken;
    body->data_bytes += taken;
    if (body->framing == WEIR_HTTP_FRAMING_CLOSE)
        return WEIR_HTTP_MORE;
    body->left_bytes -= taken;
    if (body->left_bytes > 0)
        return WEIR_HTTP_MORE;
    body->state = ENDED;
    return WEIR_HTTP_DONE;
}

static int hex_value(char byte)
{
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    char lower = (char)(byte | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

static enum weir_http_fault take_size_digit(struct weir_http_body *body, char byte)
{
    int digit = hex_value(byte);
    if (digit < 0 || body->digits == SIZE_DIGITS_MAX)
        return WEIR_HTTP_FAULT_CHUNK_SIZE;
    body->digits++;
    body->left_bytes = body->left_bytes * 16 + (uint64_t)digit;
    body->state = SIZE;
    return WEIR_HTTP_FAULT_NONE;
}

/* A byte of a chunk extension: ";name" or ";name=value", tokens both, one a chunk. */
static enum weir_http_fault take_extension(struct weir_http_body *body, char byte)
{
    bool after_name = body->state == EXTENSION_NAME, after_value = body->state == EXTENSION_VALUE;
    if (++body->extension_bytes > WEIR_HTTP_EXTENSION_BYTES_MAX)
        return WEIR_HTTP_FAULT_CHUNK_EXTENSION;
    if (byte == '\r' && (after_name || after_value))
        body->state = SIZE_LF;
    else if (byte == '=' && after_name)
        body->state = EXTENSION_VALUE_FIRST;
    else if (!http1_is(byte, HTTP1_TOKEN))
        return WEIR_HTTP_FAULT_CHUNK_EXTENSION;
    else if (body->state == EXTENSION_NAME_FIRST)
        body->state = EXTENSION_NAME;
    else if (body->state == EXTENSION_VALUE_FIRST)
        body->state = EXTENSION_VALUE;
    return WEIR_HTTP_FAULT_NONE;
}

/* A byte of a chunk's first line. */
static enum weir_http_fault take_size(struct weir_http_body *body, char byte)
{
    if (body->state == SIZE_FIRST) {
        body->left_bytes = 0;
        body->digits = 0;
        return take_size_digit(body, byte);
    }
    if (body->state == SIZE) {
        if (byte != '\r' && byte != ';')
            return take_size_digit(body, byte);
        body->state = byte == '\r' ? SIZE_LF : EXTENSION_NAME_FIRST;
        return WEIR_HTTP_FAULT_NONE;
    }
    if (body->state != SIZE_LF)
        return take_extension(body, byte);
    if (byte != '\n')
        return WEIR_HTTP_FAULT_CHUNK_SIZE;
    if (body->left_bytes > body->data_bytes_max - body->data_bytes)
        return WEIR_HTTP_FAULT_BODY_TOO_LARGE;
    body->state = body->left_bytes > 0 ? DATA : LINE_FIRST;
    return WEIR_HTTP_FAULT_NONE;
}

static bool trailer_is_forbidden(const struct weir_http_body *body)
{
    if (body->name_bytes > sizeof body->name)
        return false;
    enum weir_http_name id = weir_http_name_id(body->name, body->name_bytes);
    return (WEIR_HTTP_BIT(id) & TRAILER_FORBIDDEN_SET) != 0;
}

/* A byte of the trailer lines, or of the empty line that ends the body. */
static enum weir_http_fault take_trailer(struct weir_http_body *body, char byte)
{
    if (++body->trailer_bytes > WEIR_HTTP_TRAILER_BYTES_MAX)
        return WEIR_HTTP_FAULT_TRAILERS_TOO_LARGE;
    bool ok = true;
    if (body->state == LINE_FIRST) {
        body->name_bytes = 0;
        body->state = byte == '\r' ? LAST_LF : TRAILER_NAME;
        if (byte == '\r')
            return WEIR_HTTP_FAULT_NONE;
    }
    if (body->state == TRAILER_NAME) {
        if (byte == ':' && body->name_bytes > 0) {
            ok = !trailer_is_forbidden(body);
            body->state = TRAILER_VALUE;
        } else {
            ok = http1_is(byte, HTTP1_TOKEN);
            if (body->name_bytes < sizeof body->name)
                body->name[body->name_bytes] = byte;
            if (body->name_bytes <= sizeof body->name)
                body->name_bytes++; /* one more than fits says "longer" */
        }
    } else if (body->state == TRAILER_VALUE) {
        ok = byte == '\r' || http1_is(byte, HTTP1_VALUE);
        body->state = byte == '\r' ? TRAILER_LF : TRAILER_VALUE;
    } else { /* TRAILER_LF, LAST_LF */
        ok = byte == '\n';
        body->state = body->state == LAST_LF ? ENDED : LINE_FIRST;
    }
    if (ok && body->trailer && body->state != ENDED)
        body->trailer(body->trailer_ctx, byte);
    return ok ? WEIR_HTTP_FAULT_NONE : WEIR_HTTP_FAULT_TRAILER;
}

static enum weir_http_fault take_chunk_end(struct weir_http_body *body, char byte)
{
    if (byte != (body->state == DATA_CR ? '\r' : '\n'))
        return WEIR_HTTP_FAULT_CHUNK_END;
    body->state = body->state == DATA_CR ? DATA_LF : SIZE_FIRST;
    return WEIR_HTTP_FAULT_NONE;
}

/* Goes on past the chunk at hand up to the data of the next one, so that a stream of small chunks
 * costs one call each. */
static enum weir_http_parse body_feed_chunked(struct weir_http_body *body, const char *in,
                                              size_t in_bytes, size_t *used,
                                              struct weir_slice *data)
{
    const char *p = in, *end = in + in_bytes;
    while (p < end && body->state != ENDED) {
        enum weir_http_fault fault;
        if (body->state == DATA) {
            if (data->bytes > 0)
                break;
            size_t taken = (size_t)weir_min_u64((uint64_t)(end - p), body->left_bytes);
            *data = (struct weir_slice){p, taken};
            body->left_bytes -= taken;
            body->data_bytes += taken;
            body->state = body->left_bytes > 0 ? DATA : DATA_CR;
            p += taken;
            continue;
        }
        if (body->state < DATA)
            fault = take_size(body, *p++);
        else if (body->state <= DATA_LF)
            fault = take_chunk_end(body, *p++);
        else
            fault = take_trailer(body, *p++);
        if (fault != WEIR_HTTP_FAULT_NONE) {
            (void)body_refuse(body, fault);
            if (data->bytes == 0)
                return WEIR_HTTP_BAD;
            p--; /* what came before the fault is yielded first; the next call refuses */
            break;
        }
    }
    *used = (size_t)(p - in);
    return body->state == ENDED ? WEIR_HTTP_DONE : WEIR_HTTP_MORE;
}

enum weir_http_parse weir_http_body_feed(struct weir_http_body *body, const char *in,
                                         size_t in_bytes, size_t *used, struct weir_slice *data)
{
    *used = 0;
    *data = (struct weir_slice){in, 0};
    if (body->state == ENDED)
        return WEIR_HTTP_DONE;
    if (body->state == REFUSED)
        return WEIR_HTTP_BAD;
    if (body->state == PLAIN)
        return body_feed_plain(body, in, in_bytes, used, data);
    return body_feed_chunked(body, in, in_bytes, used, data);
}

enum weir_http_parse weir_http_body_decode(struct weir_http_body *body, char *buf, size_t bytes,
                                           size_t *used, size_t *data_bytes)
{
    *used = *data_bytes = 0;
    for (;;) {
        size_t taken;
        struct weir_slice data;
        enum weir_http_parse answer =
            weir_http_body_feed(body, buf + *used, bytes - *used, &taken, &data);
        if (answer == WEIR_HTTP_BAD)
            return answer;
        if (data.bytes > 0 && data.at != buf + *data_bytes)
            memmove(buf + *data_bytes, data.at, data.bytes);
        *data_bytes += data.bytes;
        *used += taken;
        if (answer == WEIR_HTTP_DONE || *used == bytes)
            return answer;
    }
}

enum weir_http_parse weir_http_body_eof(struct weir_http_body *body)
{
    if (body->state == PLAIN && body->framing == WEIR_HTTP_FRAMING_CLOSE)
        body->state = ENDED;
    if (body->state == ENDED)
        return WEIR_HTTP_DONE;
    return body->state == REFUSED ? WEIR_HTTP_BAD : body_refuse(body, WEIR_HTTP_FAULT_TRUNCATED);
}
