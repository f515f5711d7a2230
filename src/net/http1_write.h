/* http1_write: heads and chunks into a buffer of the caller's.
 *
 * Each writer appends, or leaves the buffer as it was and marks it: overflow when there is no room,
 * refused when a name or value could end its line early (CR, LF, NUL or another control character).
 * A mark stays and makes later writers do nothing, so one look at weir_http_out_ok at the end is
 * enough. Thread: any. */
#ifndef WEIR_NET_HTTP1_WRITE_H
#define WEIR_NET_HTTP1_WRITE_H

#include "net/http1.h"

struct weir_http_out {
    char *buf;
    size_t used, room; /* bytes written; bytes buf has in all */
    bool overflow, refused;
};

static inline bool weir_http_out_ok(const struct weir_http_out *out)
{
    return !out->overflow && !out->refused;
}

/* "METHOD target HTTP/1.1"; target: visible ASCII, at least one byte. */
void weir_http_write_request(struct weir_http_out *out, enum weir_http_method method,
                             struct weir_slice target);

/* "HTTP/1.1 status reason"; reason {NULL, 0}: the usual one for the status. status: 100..999. */
void weir_http_write_status(struct weir_http_out *out, int status, struct weir_slice reason);

/* "name: value". The name must be a token, the value free of control characters but HTAB. */
void weir_http_write_header(struct weir_http_out *out, struct weir_slice name,
                            struct weir_slice value);
void weir_http_write_header_text(struct weir_http_out *out, const char *name, const char *value);
void weir_http_write_header_u64(struct weir_http_out *out, const char *name, uint64_t value);

void weir_http_write_content_length(struct weir_http_out *out, uint64_t bytes);
void weir_http_write_chunked(struct weir_http_out *out); /* transfer-encoding: chunked */

/* Copies every header of head as it was received, but for those that concern its connection only
 * (weir_http_is_hop), Content-Length, Host, Expect, and the known names in skip (WEIR_HTTP_BIT(id)
 * | ...). What they were before is the caller's to say anew. */
void weir_http_write_passed(struct weir_http_out *out, const struct weir_http_head *head,
                            uint64_t skip);

/* The empty line after the headers. */
void weir_http_write_end(struct weir_http_out *out);

/* Bytes as they are: for what the caller has checked itself. */
void weir_http_write_raw(struct weir_http_out *out, struct weir_slice bytes);

/* One chunk on the wire: head, bytes, WEIR_HTTP_CHUNK_TAIL. The last: WEIR_HTTP_CHUNK_LAST. */
#define WEIR_HTTP_CHUNK_HEAD_MAX 18
#define WEIR_HTTP_CHUNK_TAIL "\r\n"
#define WEIR_HTTP_CHUNK_LAST "0\r\n\r\n"

/* Writes "1a2b" CRLF; bytes at least 1 (0 would end the body). Returns its length. */
size_t weir_http_chunk_head(char buf[static WEIR_HTTP_CHUNK_HEAD_MAX], uint64_t bytes);

/* The usual reason phrase; "Status" for a status without one. Static. */
const char *weir_http_reason(int status);

#endif
