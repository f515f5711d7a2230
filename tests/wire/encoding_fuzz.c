/* Compressed bodies: bounds hold, and any split gives the same end and the same bytes. The first
 * byte chooses the encoding. */
#include "wire/encoding.h"
#include "wire/fuzz.h"

#define OUT_MAX (256u * 1024)
#define RATIO 20

struct out {
    uint64_t hash;
    uint64_t bytes;
};

static bool sink(void *arg, const void *bytes, size_t n)
{
    struct out *o = arg;
    for (size_t i = 0; i < n; i++)
        o->hash = (o->hash ^ ((const uint8_t *)bytes)[i]) * 1099511628211u;
    o->bytes += n;
    return true;
}

static enum weir_inflate_result decode(enum weir_encoding encoding, const uint8_t *p, size_t n,
                                       size_t piece, struct out *o)
{
    struct weir_inflate *z = weir_inflate_open(encoding, OUT_MAX, RATIO);
    enum weir_inflate_result result = WEIR_INFLATE_MORE;
    *o = (struct out){0};
    for (size_t at = 0; at < n; at += piece) {
        size_t bytes = n - at < piece ? n - at : piece;
        uint8_t *part = bytes > 1 ? fuzz_copy(p + at, bytes) : NULL;
        result = weir_inflate_feed(z, part ? part : p + at, bytes, sink, o);
        free(part);
        FUZZ_CHECK(o->bytes <= OUT_MAX, "beyond the limit");
        FUZZ_CHECK(o->bytes <= 65536 || o->bytes <= (n + 1) * RATIO, "beyond the ratio");
    }
    weir_inflate_close(z);
    return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n == 0)
        return 0;
    static const enum weir_encoding encodings[] = {WEIR_ENCODING_GZIP, WEIR_ENCODING_DEFLATE,
                                                   WEIR_ENCODING_ZSTD};
    enum weir_encoding encoding = encodings[data[0] % 3];
    struct out whole, single, pieces;
    enum weir_inflate_result a = decode(encoding, data + 1, n - 1, n, &whole);
    enum weir_inflate_result b = decode(encoding, data + 1, n - 1, 1, &single);
    size_t piece = fuzz_split(data, n) + 1;
    enum weir_inflate_result c = decode(encoding, data + 1, n - 1, piece, &pieces);
    /* Which bound is met first may hang on the split; an end does not. */
    FUZZ_CHECK((a == WEIR_INFLATE_END) == (b == WEIR_INFLATE_END), "end, bytewise");
    FUZZ_CHECK((a == WEIR_INFLATE_END) == (c == WEIR_INFLATE_END), "end, in pieces");
    if (a == WEIR_INFLATE_END) {
        FUZZ_CHECK(whole.bytes == single.bytes && whole.hash == single.hash, "bytes, bytewise");
        FUZZ_CHECK(whole.bytes == pieces.bytes && whole.hash == pieces.hash, "bytes, in pieces");
    }
    (void)weir_encoding_of((const char *)data, n);
    return 0;
}
