#include "wire/encoding.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#define PIECE_BYTES 16384
#define RATIO_FROM_BYTES 65536 /* below this much output nothing is a bomb */
#define ZSTD_WINDOW_LOG_MAX 23 /* 8 MiB */

enum zlib_state {
    ZLIB_FRESH, /* nothing of a member was read */
    ZLIB_INSIDE,
    ZLIB_BETWEEN, /* a member ended; another may follow (gzip) */
};

struct weir_inflate {
    enum weir_encoding encoding;
    enum weir_inflate_result result; /* MORE while it goes on */
    uint64_t in_bytes;
    uint64_t out_bytes;
    uint64_t out_max_bytes;
    uint32_t ratio_max;
    enum zlib_state zlib_state;
    z_stream zlib;
    ZSTD_DStream *zstd;
    bool zstd_inside; /* a frame has begun and not ended */
    bool zstd_any;    /* a frame has ended */
};

enum weir_encoding weir_encoding_of(const char *value, size_t value_bytes)
{
    static const struct {
        const char *name;
        enum weir_encoding encoding;
    } names[] = {
        {"", WEIR_ENCODING_IDENTITY},       {"identity", WEIR_ENCODING_IDENTITY},
        {"gzip", WEIR_ENCODING_GZIP},       {"x-gzip", WEIR_ENCODING_GZIP},
        {"deflate", WEIR_ENCODING_DEFLATE}, {"zstd", WEIR_ENCODING_ZSTD},
    };
    char lower[16];
    while (value_bytes > 0 && (*value == ' ' || *value == '\t'))
        value++, value_bytes--;
    while (value_bytes > 0 && (value[value_bytes - 1] == ' ' || value[value_bytes - 1] == '\t'))
        value_bytes--;
    if (value_bytes >= sizeof lower)
        return WEIR_ENCODING_UNKNOWN;
    for (size_t i = 0; i < value_bytes; i++)
        lower[i] = value[i] >= 'A' && value[i] <= 'Z' ? (char)(value[i] | 0x20) : value[i];
    lower[value_bytes] = 0;
    for (size_t i = 0; i < WEIR_COUNT(names); i++)
        if (strcmp(lower, names[i].name) == 0)
            return names[i].encoding;
    return WEIR_ENCODING_UNKNOWN;
}

struct weir_inflate *weir_inflate_open(enum weir_encoding encoding, uint64_t out_max_bytes,
                                       uint32_t ratio_max)
{
    if (encoding == WEIR_ENCODING_IDENTITY || encoding == WEIR_ENCODING_UNKNOWN)
        return NULL;
    WEIR_INVARIANT(ratio_max > 0);
    struct weir_inflate *z = calloc(1, sizeof *z);
    if (!z)
        return NULL;
    z->encoding = encoding;
    z->out_max_bytes = out_max_bytes;
    z->ratio_max = ratio_max;
    bool opened;
    if (encoding == WEIR_ENCODING_ZSTD) {
        z->zstd = ZSTD_createDStream();
        opened = z->zstd && !ZSTD_isError(ZSTD_DCtx_setParameter(z->zstd, ZSTD_d_windowLogMax,
                                                                 ZSTD_WINDOW_LOG_MAX));
    } else {
        /* 16 more: gzip framing only. Deflate is zlib's framing; raw is tried when that fails. */
        opened = inflateInit2(&z->zlib, encoding == WEIR_ENCODING_GZIP ? 15 + 16 : 15) == Z_OK;
    }
    if (opened)
        return z;
    weir_inflate_close(z);
    return NULL;
}

void weir_inflate_close(struct weir_inflate *z)
{
    if (!z)
        return;
    if (z->encoding == WEIR_ENCODING_ZSTD)
        ZSTD_freeDStream(z->zstd);
    else
        (void)inflateEnd(&z->zlib);
    free(z);
}

/* Hands decoded bytes on, when they are within the bounds. */
static enum weir_inflate_result give(struct weir_inflate *z, const void *bytes, size_t n,
                                     weir_inflate_sink *sink, void *arg)
{
    z->out_bytes += n;
    if (z->out_bytes > z->out_max_bytes)
        return WEIR_INFLATE_TOO_BIG;
    if (z->out_bytes > RATIO_FROM_BYTES && z->out_bytes / z->ratio_max > z->in_bytes)
        return WEIR_INFLATE_BOMB;
    return n == 0 || sink(arg, bytes, n) ? WEIR_INFLATE_MORE : WEIR_INFLATE_STOPPED;
}

/* The first bytes of a deflate body are no zlib header: raw deflate, as some servers send. */
static bool zlib_try_raw(struct weir_inflate *z, const uint8_t *bytes, size_t n)
{
    if (z->encoding != WEIR_ENCODING_DEFLATE || z->zlib_state != ZLIB_FRESH || n == 0)
        return true;
    /* The low four bits of a zlib header are 8. Raw deflate begins with a block type: 8 would be a
     * stored block with odd padding. */
    if ((bytes[0] & 0x0f) == 8)
        return true;
    return inflateReset2(&z->zlib, -15) == Z_OK;
}

static enum weir_inflate_result feed_zlib(struct weir_inflate *z, const uint8_t *bytes, size_t n,
                                          weir_inflate_sink *sink, void *arg)
{
    uint8_t piece[PIECE_BYTES];
    if (!zlib_try_raw(z, bytes, n))
        return WEIR_INFLATE_NO_MEMORY;
    while (n > 0) {
        if (z->zlib_state == ZLIB_BETWEEN) {
            /* gzip bodies may have several members; nothing may follow a deflate stream. */
            if (z->encoding != WEIR_ENCODING_GZIP || inflateReset(&z->zlib) != Z_OK)
                return WEIR_INFLATE_CORRUPT;
        }
        z->zlib_state = ZLIB_INSIDE;
        uInt taken = n > 1u << 30 ? 1u << 30 : (uInt)n;
        z->zlib.next_in = (Bytef *)(uintptr_t)bytes; /* zlib does not write there */
        z->zlib.avail_in = taken;
        int code;
        do {
            uInt before = z->zlib.avail_in;
            z->zlib.next_out = piece;
            z->zlib.avail_out = sizeof piece;
            code = inflate(&z->zlib, Z_NO_FLUSH);
            if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
                return code == Z_MEM_ERROR ? WEIR_INFLATE_NO_MEMORY : WEIR_INFLATE_CORRUPT;
            z->in_bytes += before - z->zlib.avail_in;
            enum weir_inflate_result given =
                give(z, piece, sizeof piece - z->zlib.avail_out, sink, arg);
            if (given != WEIR_INFLATE_MORE)
                return given;
        } while (code == Z_OK && (z->zlib.avail_in > 0 || z->zlib.avail_out == 0));
        if (code == Z_STREAM_END)
            z->zlib_state = ZLIB_BETWEEN;
        bytes += taken - z->zlib.avail_in;
        n -= taken - z->zlib.avail_in;
        if (code == Z_BUF_ERROR && z->zlib.avail_in > 0)
            return WEIR_INFLATE_CORRUPT;
    }
    return z->zlib_state == ZLIB_BETWEEN ? WEIR_INFLATE_END : WEIR_INFLATE_MORE;
}

static enum weir_inflate_result feed_zstd(struct weir_inflate *z, const uint8_t *bytes, size_t n,
                                          weir_inflate_sink *sink, void *arg)
{
    uint8_t piece[PIECE_BYTES];
    ZSTD_inBuffer in = {bytes, n, 0};
    bool full = false; /* the last call filled the piece: more may be waiting inside */
    while (in.pos < in.size || full) {
        ZSTD_outBuffer out = {piece, sizeof piece, 0};
        size_t before = in.pos, left = ZSTD_decompressStream(z->zstd, &out, &in);
        if (ZSTD_isError(left)) {
            switch (ZSTD_getErrorCode(left)) {
            case ZSTD_error_frameParameter_windowTooLarge:
                return WEIR_INFLATE_TOO_BIG;
            case ZSTD_error_memory_allocation:
                return WEIR_INFLATE_NO_MEMORY;
            default:
                return WEIR_INFLATE_CORRUPT;
            }
        }
        z->in_bytes += in.pos - before;
        z->zstd_inside = left != 0;
        z->zstd_any |= left == 0;
        enum weir_inflate_result given = give(z, piece, out.pos, sink, arg);
        if (given != WEIR_INFLATE_MORE)
            return given;
        full = out.pos == sizeof piece && left != 0;
    }
    return z->zstd_any && !z->zstd_inside ? WEIR_INFLATE_END : WEIR_INFLATE_MORE;
}

enum weir_inflate_result weir_inflate_feed(struct weir_inflate *z, const void *bytes, size_t n,
                                           weir_inflate_sink *sink, void *arg)
{
    if (z->result != WEIR_INFLATE_MORE && z->result != WEIR_INFLATE_END)
        return z->result;
    if (n > 0)
        z->result = z->encoding == WEIR_ENCODING_ZSTD ? feed_zstd(z, bytes, n, sink, arg)
                                                      : feed_zlib(z, bytes, n, sink, arg);
    return z->result;
}

struct whole_out {
    uint8_t *out;
    size_t bytes;
    size_t cap;
};

static bool whole_sink(void *arg, const void *bytes, size_t n)
{
    struct whole_out *w = arg;
    if (n > w->cap - w->bytes)
        return false;
    memcpy(w->out + w->bytes, bytes, n);
    w->bytes += n;
    return true;
}

enum weir_inflate_result weir_inflate_whole(enum weir_encoding encoding, const void *bytes,
                                            size_t n, uint32_t ratio_max, void *out, size_t out_cap,
                                            size_t *out_bytes)
{
    struct whole_out w = {out, 0, out_cap};
    struct weir_inflate *z = weir_inflate_open(encoding, out_cap, ratio_max);
    if (!z)
        return WEIR_INFLATE_NO_MEMORY;
    enum weir_inflate_result result = weir_inflate_feed(z, bytes, n, whole_sink, &w);
    weir_inflate_close(z);
    if (result == WEIR_INFLATE_END)
        *out_bytes = w.bytes;
    return result == WEIR_INFLATE_MORE ? WEIR_INFLATE_CORRUPT : result;
}
