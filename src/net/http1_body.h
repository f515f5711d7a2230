/* http1_body: the bytes of a body out of the bytes of a connection.
 *
 *     init -> feed, feed, ... -> DONE        (or eof, where the body ends with the connection)
 *
 * The decoder copies nothing: what it yields points into the input. Chunk extensions are checked
 * and dropped, trailers likewise. It is fed any split of the input and the result does not depend
 * on it. Thread: any. */
#ifndef WEIR_NET_HTTP1_BODY_H
#define WEIR_NET_HTTP1_BODY_H

#include "net/http1.h"

#define WEIR_HTTP_TRAILER_BYTES_MAX 8192   /* all trailer lines of a body */
#define WEIR_HTTP_EXTENSION_BYTES_MAX 4096 /* all chunk extensions of a body */

struct weir_http_body {
    enum weir_http_framing framing;
    enum weir_http_fault fault; /* set on WEIR_HTTP_BAD */
    uint64_t left_bytes;        /* of the body or of the chunk at hand */
    uint64_t data_bytes;        /* decoded so far */
    uint64_t data_bytes_max;
    uint32_t extension_bytes, trailer_bytes;
    uint8_t state, digits, name_bytes;
    char name[22]; /* of the trailer at hand; a longer name is none that is forbidden */
    /* Gets each byte of the trailer lines, CRLF included, once it is checked: set it after init by whoever
     * wants them. NULL: they are dropped. At most WEIR_HTTP_TRAILER_BYTES_MAX bytes come. */
    void (*trailer)(void *ctx, char byte);
    void *trailer_ctx;
};

/* Starts the body that follows head.
 * data_bytes_max  more decoded bytes are refused as BODY_TOO_LARGE; UINT64_MAX for no limit. A
 *                 Content-Length above it is refused by the first feed. */
void weir_http_body_init(struct weir_http_body *body, const struct weir_http_head *head,
                         uint64_t data_bytes_max);

/* Takes some of the input and yields at most one piece of body.
 *
 * *used  bytes taken, 0 .. in_bytes
 * *data  a piece of in, perhaps empty; meaningful with MORE and DONE
 *
 * MORE with *used < in_bytes: call again with the rest. MORE with *used == in_bytes: more input is
 * needed. DONE: the body ended right after the taken bytes; what follows is the next message. May
 * be called with in_bytes 0 right after init: a body without bytes is DONE at once. BAD: stays BAD.
 */
WEIR_MUST_USE enum weir_http_parse weir_http_body_feed(struct weir_http_body *body, const char *in,
                                                       size_t in_bytes, size_t *used,
                                                       struct weir_slice *data);

/* Decodes all it can of buf, moving the body's bytes to the front of it.
 *
 * *used        bytes of input taken; less than bytes only with DONE or BAD
 * *data_bytes  decoded bytes, now at buf[0 .. *data_bytes)
 * Bytes from *used on (the next message) are left where they are. */
WEIR_MUST_USE enum weir_http_parse weir_http_body_decode(struct weir_http_body *body, char *buf,
                                                         size_t bytes, size_t *used,
                                                         size_t *data_bytes);

/* The connection ended: DONE if the body is complete by that, else BAD with TRUNCATED. */
WEIR_MUST_USE enum weir_http_parse weir_http_body_eof(struct weir_http_body *body);

#endif
