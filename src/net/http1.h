/* http1: the heads of HTTP/1.1 requests and responses, strictly.
 *
 * The bytes of a connection are collected in a buffer until a whole head is there; then one call
 * checks all of it and fills a struct weir_http_head. The head holds offsets from head->base, never
 * pointers: if the buffer moves, set base anew and everything stays right. Bodies are decoded by
 * http1_body.h, messages are written by http1_write.h. Nothing here does I/O, allocates, or keeps
 * state of its own.
 *
 * What is accepted is meant to be a subset of what any other careful parser accepts, with the same
 * meaning: where RFC 9110/9112 let a recipient be lenient, this one refuses. The test suite holds
 * it against llhttp (tests/net/http1_diff.h lists every intended difference). In short:
 *   - lines end in CRLF; one empty line before a request is skipped, none before a response;
 *   - names are tokens right before the colon; no folding; values are HTAB, 0x20..0x7e, 0x80..0xff;
 *   - one Content-Length of digits, or one Transfer-Encoding that is exactly "chunked", never both;
 *   - HTTP/1.1 has exactly one Host, HTTP/1.0 at most one and no Transfer-Encoding; others are 505;
 *   - CONNECT, TRACE and unknown methods are 501.
 * Thread: any. */
#ifndef WEIR_NET_HTTP1_H
#define WEIR_NET_HTTP1_H

#include "core/base.h"
#include "net/http1_name.h"
#include "net/slice.h"

#define WEIR_HTTP_HEADERS_MAX 128            /* more are 431 */
#define WEIR_HTTP_NAME_BYTES_MAX 256         /* a longer header name is 431 */
#define WEIR_HTTP_TARGET_BYTES_MAX 16384     /* a longer request target is 414 */
#define WEIR_HTTP_CONNECTION_OPTIONS_MAX 32  /* more options in Connection are 400 */
#define WEIR_HTTP_HEAD_BYTES_DEFAULT 65536   /* a usual head_bytes_max */
#define WEIR_HTTP_HEAD_BYTES_LIMIT (1 << 20) /* no head_bytes_max is above this */

enum weir_http_parse {
    WEIR_HTTP_MORE, /* right so far, more bytes are needed */
    WEIR_HTTP_DONE, /* complete */
    WEIR_HTTP_BAD,  /* refused; the fault says why; the connection can only be closed */
};

/* Why a message was refused: fault, the status a server answers it with, text for logs and bodies.
 * A client that gets one from an upstream answers its own caller 502 whatever the status here. */
#define WEIR_HTTP_FAULTS(X)                                                                        \
    X(NONE, 200, "no fault")                                                                       \
    X(START_LINE, 400, "the first line is not an HTTP/1.1 start line")                             \
    X(METHOD, 501, "the request method is not supported")                                          \
    X(TARGET, 400, "the request target is malformed")                                              \
    X(TARGET_TOO_LONG, 414, "the request target is too long")                                      \
    X(VERSION, 505, "the HTTP version is not supported")                                           \
    X(LINE_END, 400, "a line does not end in CRLF")                                                \
    X(HEADER_NAME, 400, "a header name is malformed")                                              \
    X(HEADER_FOLD, 400, "a header line is folded")                                                 \
    X(HEADER_VALUE, 400, "a header value holds a control character")                               \
    X(HEADERS_TOO_MANY, 431, "the message has too many headers")                                   \
    X(HEAD_TOO_LARGE, 431, "the message head is too large")                                        \
    X(HOST, 400, "the Host header is missing, repeated or malformed")                              \
    X(CONTENT_LENGTH, 400, "Content-Length is repeated or not a number")                           \
    X(TRANSFER_ENCODING, 501, "Transfer-Encoding is not exactly chunked")                          \
    X(FRAMING, 400, "the length of the body is ambiguous")                                         \
    X(CONNECTION, 400, "the Connection header is malformed")                                       \
    X(EXPECTATION, 417, "the expectation is not supported")                                        \
    X(STATUS, 400, "the response status is malformed")                                             \
    X(SWITCHED, 400, "the upstream switched protocols without being asked")                        \
    X(BODY_NOT_ALLOWED, 400, "a response that cannot have a body announces one")                   \
    X(CHUNK_SIZE, 400, "a chunk size is malformed")                                                \
    X(CHUNK_EXTENSION, 400, "a chunk extension is malformed or too long")                          \
    X(CHUNK_END, 400, "a chunk does not end where its size says")                                  \
    X(TRAILER, 400, "a trailer is malformed or not allowed")                                       \
    X(TRAILERS_TOO_LARGE, 431, "the trailers are too large")                                       \
    X(BODY_TOO_LARGE, 413, "the body is too large")                                                \
    X(TRUNCATED, 400, "the connection ended within the message")

enum weir_http_fault {
#define WEIR_HTTP_FAULT_ID(id, status, text) WEIR_HTTP_FAULT_##id,
    WEIR_HTTP_FAULTS(WEIR_HTTP_FAULT_ID)
#undef WEIR_HTTP_FAULT_ID
        WEIR_HTTP_FAULT_COUNT,
};

/* Static: one short clause; the name alone ("HEADER_NAME") for metrics. */
const char *weir_http_fault_text(enum weir_http_fault fault);
const char *weir_http_fault_label(enum weir_http_fault fault);
int weir_http_fault_status(enum weir_http_fault fault);

enum weir_http_method {
    WEIR_HTTP_METHOD_NONE, /* a response */
    WEIR_HTTP_GET,
    WEIR_HTTP_HEAD,
    WEIR_HTTP_POST,
    WEIR_HTTP_PUT,
    WEIR_HTTP_PATCH,
    WEIR_HTTP_DELETE,
    WEIR_HTTP_OPTIONS,
};
const char *weir_http_method_text(enum weir_http_method method); /* static, "POST" */

enum weir_http_framing {
    WEIR_HTTP_FRAMING_NONE,    /* no body */
    WEIR_HTTP_FRAMING_LENGTH,  /* content_length bytes, perhaps 0 */
    WEIR_HTTP_FRAMING_CHUNKED, /* chunks and trailers */
    WEIR_HTTP_FRAMING_CLOSE,   /* until the connection ends; responses only */
};

/* Bytes of a head, as an offset from its base. */
struct weir_http_span {
    uint32_t at;
    uint32_t bytes;
};

struct weir_http_header {
    uint32_t name_at;
    uint32_t value_at; /* without the white space around it */
    uint32_t value_bytes;
    uint16_t name_bytes;
    uint8_t id; /* enum weir_http_name */
    bool hop;   /* concerns this connection only: never forwarded */
};

/* A parsed head. Plain data: may be copied and moved. Valid after WEIR_HTTP_DONE only, but for
 * fault. */
struct weir_http_head {
    const char *base; /* where the buffer starts now; the owner of the buffer may set it anew */
    uint32_t head_bytes;
    enum weir_http_fault fault; /* set on WEIR_HTTP_BAD */

    enum weir_http_method method;
    struct weir_http_span target;    /* as sent */
    struct weir_http_span path;      /* origin form with the query: "/v1/x?y", or "*" */
    struct weir_http_span authority; /* of an absolute target, else of Host; may be empty */

    uint16_t status; /* responses: 100..999 */
    bool interim;    /* a 1xx response: skip head_bytes and parse the next head */
    struct weir_http_span reason;

    uint8_t version_minor; /* 0 or 1 */
    bool keep_alive;       /* the connection may carry another message after this one */
    bool expect_continue;  /* HTTP/1.1 only: answer 100 (or refuse) before the body will come */
    bool upgrade;          /* an Upgrade header is present */
    enum weir_http_framing framing;
    uint64_t content_length; /* of the header, or 0; an answer to HEAD has it without a body */

    uint64_t present;  /* WEIR_HTTP_BIT(id) of each known name that occurs */
    uint64_t repeated; /* of each that occurs more than once */
    uint32_t header_count;
    uint8_t first[WEIR_HTTP_NAME_COUNT]; /* index of the first; set where present says so */
    struct weir_http_header header[WEIR_HTTP_HEADERS_MAX]; /* set only up to header_count */
};

/* Parses the head of a request that starts at buf.
 *
 * head_bytes_max  longest head accepted; at most WEIR_HTTP_HEAD_BYTES_LIMIT
 * *scanned        0 for a new head; kept by the caller between calls, so that a head fed byte by
 *                 byte is searched once in all. The buffer may move meanwhile, its bytes may not
 *                 change.
 * *head           see above; base = buf
 *
 * The result depends on the bytes alone, not on how many calls brought them; bytes after the head
 * are never looked at. Owns: nothing. Cost: O(new bytes), then once O(head). */
WEIR_MUST_USE enum weir_http_parse weir_http_request_parse(const char *buf, size_t bytes,
                                                           size_t head_bytes_max, size_t *scanned,
                                                           struct weir_http_head *head);

/* The same for the head of a response.
 *
 * method  of the request it answers: what follows HEAD has no body
 * A 1xx head is returned with interim set; 101 is refused. keep_alive is false wherever the end of
 * the message is the end of the connection. */
WEIR_MUST_USE enum weir_http_parse weir_http_response_parse(const char *buf, size_t bytes,
                                                            size_t head_bytes_max,
                                                            enum weir_http_method method,
                                                            size_t *scanned,
                                                            struct weir_http_head *head);

static inline struct weir_slice weir_http_text(const struct weir_http_head *head,
                                               struct weir_http_span span)
{
    return (struct weir_slice){head->base + span.at, span.bytes};
}

static inline struct weir_slice weir_http_header_name(const struct weir_http_head *head, uint32_t i)
{
    return (struct weir_slice){head->base + head->header[i].name_at, head->header[i].name_bytes};
}

static inline struct weir_slice weir_http_header_value(const struct weir_http_head *head,
                                                       uint32_t i)
{
    return (struct weir_slice){head->base + head->header[i].value_at, head->header[i].value_bytes};
}

static inline bool weir_http_has(const struct weir_http_head *head, enum weir_http_name id)
{
    return (head->present & WEIR_HTTP_BIT(id)) != 0;
}

/* Index of the first header of this known name, or WEIR_NONE. */
static inline uint32_t weir_http_find(const struct weir_http_head *head, enum weir_http_name id)
{
    return weir_http_has(head, id) ? head->first[id] : WEIR_NONE;
}

/* Index of the next header of this known name after index i, or WEIR_NONE. */
uint32_t weir_http_find_next(const struct weir_http_head *head, enum weir_http_name id, uint32_t i);

/* Value of the first header of this known name; {NULL, 0} when absent (a present one has at !=
 * NULL). */
static inline struct weir_slice weir_http_value(const struct weir_http_head *head,
                                                enum weir_http_name id)
{
    uint32_t i = weir_http_find(head, id);
    return i == WEIR_NONE ? (struct weir_slice){NULL, 0} : weir_http_header_value(head, i);
}

/* Value of the first header of any name, in any case; {NULL, 0} when absent. O(headers). */
struct weir_slice weir_http_value_by_text(const struct weir_http_head *head,
                                          struct weir_slice name);

/* True if header i concerns this connection only (RFC 9110 7.6.1): Connection, what it lists,
 * keep-alive, proxy-*, te, trailer, transfer-encoding, upgrade. Such a header is never forwarded.
 */
static inline bool weir_http_is_hop(const struct weir_http_head *head, uint32_t i)
{
    return head->header[i].hop;
}

#endif
