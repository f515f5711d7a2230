/* encoding: looks into gzip, deflate and zstd bodies, within bounds.
 *
 * Only for reading: what is forwarded is always the original bytes. Output is bounded twice: by
 * out_max_bytes in all, and by ratio_max times the input (checked once more than 64 KiB have come
 * out), so a bomb is known after little work. Memory is bounded by the formats' windows (gzip 32
 * KiB, zstd at most 8 MiB: frames that ask for more are refused as WEIR_INFLATE_TOO_BIG).
 *
 * Thread: any, one context at a time. Allocates: in open only (and zstd lazily, bounded). */
#ifndef WEIR_WIRE_ENCODING_H
#define WEIR_WIRE_ENCODING_H

#include "core/base.h"

enum weir_encoding {
    WEIR_ENCODING_IDENTITY, /* none, "identity", "" */
    WEIR_ENCODING_GZIP,     /* "gzip", "x-gzip" */
    WEIR_ENCODING_DEFLATE,  /* "deflate": zlib format, raw accepted */
    WEIR_ENCODING_ZSTD,     /* "zstd" */
    WEIR_ENCODING_UNKNOWN   /* anything else, several encodings in a row included */
};

/* Of a Content-Encoding value. */
enum weir_encoding weir_encoding_of(const char *value, size_t value_bytes);

enum weir_inflate_result {
    WEIR_INFLATE_MORE,    /* all input taken; the stream has not ended */
    WEIR_INFLATE_END,     /* the stream ended exactly at the end of this input */
    WEIR_INFLATE_CORRUPT, /* not of that format, or bytes after its end */
    WEIR_INFLATE_TOO_BIG, /* more than out_max_bytes, or a window beyond ours */
    WEIR_INFLATE_BOMB,    /* beyond ratio_max */
    WEIR_INFLATE_NO_MEMORY,
    WEIR_INFLATE_STOPPED /* the sink said so */
};

struct weir_inflate;

/* Takes the decoded bytes; returning false stops. */
typedef bool weir_inflate_sink(void *arg, const void *bytes, size_t n);

/* A context for one body (ratio_max at least 1); NULL when memory is short or the encoding is
 * IDENTITY or UNKNOWN. */
WEIR_MUST_USE struct weir_inflate *weir_inflate_open(enum weir_encoding encoding,
                                                     uint64_t out_max_bytes, uint32_t ratio_max);
void weir_inflate_close(struct weir_inflate *z); /* NULL is fine */

/* Feeds input in any split. After any result but MORE and END it keeps giving that result. */
WEIR_MUST_USE enum weir_inflate_result weir_inflate_feed(struct weir_inflate *z, const void *bytes,
                                                         size_t n, weir_inflate_sink *sink,
                                                         void *arg);

/* The whole body at once, into out. *out_bytes is set on END only. A body that ends inside the
 * stream is CORRUPT. */
WEIR_MUST_USE enum weir_inflate_result weir_inflate_whole(enum weir_encoding encoding,
                                                          const void *bytes, size_t n,
                                                          uint32_t ratio_max, void *out,
                                                          size_t out_cap, size_t *out_bytes);

#endif
