#include "wire/encoding.h"

#include <zlib.h>
#include <zstd.h>

#include "wire/wire_data.h"

#define ROOM (8u << 20)

struct sink_out {
    uint8_t *out;
    size_t bytes;
    size_t stop_at; /* says stop when it would hold more */
};

static bool sink(void *arg, const void *bytes, size_t n)
{
    struct sink_out *s = arg;
    if (s->bytes + n > s->stop_at)
        return false;
    memcpy(s->out + s->bytes, bytes, n);
    s->bytes += n;
    return true;
}

static struct wire_bytes deflated(const void *bytes, size_t n, int window_bits)
{
    z_stream z = {0};
    CHECK_INT(deflateInit2(&z, 9, Z_DEFLATED, window_bits, 9, Z_DEFAULT_STRATEGY), Z_OK);
    struct wire_bytes out = {malloc(n + 4096), 0};
    z.next_in = (Bytef *)(uintptr_t)bytes;
    z.avail_in = (uInt)n;
    z.next_out = out.at;
    z.avail_out = (uInt)(n + 4096);
    CHECK_INT(deflate(&z, Z_FINISH), Z_STREAM_END);
    out.n = z.total_out;
    deflateEnd(&z);
    return out;
}

static struct wire_bytes encode(enum weir_encoding encoding, const void *bytes, size_t n)
{
    if (encoding == WEIR_ENCODING_ZSTD) {
        size_t room = ZSTD_compressBound(n);
        struct wire_bytes out = {malloc(room), 0};
        out.n = ZSTD_compress(out.at, room, bytes, n, 3);
        CHECK(!ZSTD_isError(out.n));
        return out;
    }
    return deflated(bytes, n, encoding == WEIR_ENCODING_GZIP ? 31 : 15);
}

static enum weir_inflate_result decode(enum weir_encoding encoding, struct wire_bytes in,
                                       size_t piece, struct sink_out *out)
{
    struct weir_inflate *z = weir_inflate_open(encoding, ROOM, 200);
    CHECK(z != NULL);
    enum weir_inflate_result result = WEIR_INFLATE_MORE;
    out->bytes = 0;
    for (size_t at = 0; at < in.n; at += piece) {
        size_t n = in.n - at < piece ? in.n - at : piece;
        struct wire_bytes part = wire_copy(in.at + at, n);
        result = weir_inflate_feed(z, part.at, part.n, sink, out);
        free(part.at);
    }
    weir_inflate_close(z);
    return result;
}

static const enum weir_encoding encodings[] = {WEIR_ENCODING_GZIP, WEIR_ENCODING_DEFLATE,
                                               WEIR_ENCODING_ZSTD};

static void bodies__in_pieces_of_any_size__come_out_whole(void **state)
{
    (void)state;
    struct wire_bytes plain = wire_load("stream/openai_chat_stream_usage.sse");
    struct sink_out out = {malloc(ROOM), 0, ROOM};
    for (size_t i = 0; i < WEIR_COUNT(encodings); i++) {
        struct wire_bytes in = encode(encodings[i], plain.at, plain.n);
        for (size_t piece = 1; piece <= in.n; piece++) {
            CHECK_INT(decode(encodings[i], in, piece, &out), WEIR_INFLATE_END);
            CHECK_MEM(out.out, out.bytes, plain.at, plain.n);
        }
        size_t bytes = 0;
        CHECK_INT(weir_inflate_whole(encodings[i], in.at, in.n, 100, out.out, ROOM, &bytes),
                  WEIR_INFLATE_END);
        CHECK_MEM(out.out, bytes, plain.at, plain.n);
        free(in.at);
    }
    free(out.out);
    free(plain.at);
}

static void deflate__raw_as_some_send_it__is_read(void **state)
{
    (void)state;
    struct sink_out out = {malloc(ROOM), 0, ROOM};
    struct wire_bytes in = deflated("{\"model\":\"m\"}", 13, -15);
    CHECK_INT(decode(WEIR_ENCODING_DEFLATE, in, 1, &out), WEIR_INFLATE_END);
    CHECK_MEM(out.out, out.bytes, "{\"model\":\"m\"}", 13);
    free(in.at);
    free(out.out);
}

static void gzip_members_and_zstd_frames__follow_one_another(void **state)
{
    (void)state;
    struct sink_out out = {malloc(ROOM), 0, ROOM};
    static const enum weir_encoding several[] = {WEIR_ENCODING_GZIP, WEIR_ENCODING_ZSTD};
    for (size_t i = 0; i < WEIR_COUNT(several); i++) {
        struct wire_bytes a = encode(several[i], "abc", 3), b = encode(several[i], "defg", 4);
        struct wire_bytes both = {malloc(a.n + b.n), a.n + b.n};
        memcpy(both.at, a.at, a.n);
        memcpy(both.at + a.n, b.at, b.n);
        for (size_t piece = 1; piece <= both.n; piece++) {
            CHECK_INT(decode(several[i], both, piece, &out), WEIR_INFLATE_END);
            CHECK_MEM(out.out, out.bytes, "abcdefg", 7);
        }
        free(a.at);
        free(b.at);
        free(both.at);
    }
    free(out.out);
}

static void bodies__cut_garbled_or_with_bytes_after__are_not_an_end(void **state)
{
    (void)state;
    struct wire_bytes plain = wire_load("request/openai_chat_stream.json");
    struct sink_out out = {malloc(ROOM), 0, ROOM};
    for (size_t i = 0; i < WEIR_COUNT(encodings); i++) {
        struct wire_bytes in = encode(encodings[i], plain.at, plain.n);
        size_t bytes = 77;
        for (size_t n = 1; n < in.n; n++)
            CHECK_INT(weir_inflate_whole(encodings[i], in.at, n, 100, out.out, ROOM, &bytes),
                      WEIR_INFLATE_CORRUPT);
        CHECK_INT(bytes, 77);
        struct wire_bytes longer = {malloc(in.n + 3), in.n + 3};
        memcpy(longer.at, in.at, in.n);
        memcpy(longer.at + in.n, "{}x", 3);
        CHECK_INT(weir_inflate_whole(encodings[i], longer.at, longer.n, 100, out.out, ROOM, &bytes),
                  WEIR_INFLATE_CORRUPT);
        longer.at[1] ^= 0x55;
        CHECK_INT(weir_inflate_whole(encodings[i], longer.at, in.n, 100, out.out, ROOM, &bytes),
                  WEIR_INFLATE_CORRUPT);
        free(longer.at);
        free(in.at);
    }
    free(out.out);
    free(plain.at);
}

static void bomb__is_known_early_and_stays_known(void **state)
{
    (void)state;
    size_t n = 64u << 20;
    uint8_t *zeros = calloc(1, n);
    for (size_t i = 0; i < WEIR_COUNT(encodings); i++) {
        struct wire_bytes in = encode(encodings[i], zeros, n);
        struct sink_out out = {malloc(ROOM), 0, ROOM};
        struct weir_inflate *z = weir_inflate_open(encodings[i], 1u << 30, 100);
        CHECK_INT(weir_inflate_feed(z, in.at, in.n, sink, &out), WEIR_INFLATE_BOMB);
        CHECK_MSG(out.bytes < 256 * 1024, "%zu bytes came out before it was known", out.bytes);
        CHECK_INT(weir_inflate_feed(z, in.at, in.n, sink, &out), WEIR_INFLATE_BOMB);
        weir_inflate_close(z);
        free(out.out);
        free(in.at);
    }
    free(zeros);
}

static void body__beyond_the_output_limit_or_a_sink_that_stops__ends_so(void **state)
{
    (void)state;
    uint8_t plain[100000];
    for (size_t i = 0; i < sizeof plain; i++)
        plain[i] = (uint8_t)(i * i >> 3);
    for (size_t i = 0; i < WEIR_COUNT(encodings); i++) {
        struct wire_bytes in = encode(encodings[i], plain, sizeof plain);
        struct sink_out out = {malloc(ROOM), 0, ROOM};
        size_t bytes;
        CHECK_INT(
            weir_inflate_whole(encodings[i], in.at, in.n, 100, out.out, sizeof plain - 1, &bytes),
            WEIR_INFLATE_TOO_BIG);
        CHECK_INT(weir_inflate_whole(encodings[i], in.at, in.n, 100, out.out, sizeof plain, &bytes),
                  WEIR_INFLATE_END);
        out.stop_at = 50000;
        CHECK_INT(decode(encodings[i], in, 1000, &out), WEIR_INFLATE_STOPPED);
        free(out.out);
        free(in.at);
    }
}

static void zstd_window_beyond_ours__is_refused(void **state)
{
    (void)state;
    ZSTD_CCtx *c = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(c, ZSTD_c_windowLog, 27);
    ZSTD_CCtx_setParameter(c, ZSTD_c_contentSizeFlag, 0);
    size_t n = 200000, room = ZSTD_compressBound(n);
    uint8_t *plain = calloc(1, n);
    struct wire_bytes in = {malloc(room), 0};
    ZSTD_inBuffer from = {plain, n, 0};
    ZSTD_outBuffer to = {in.at, room, 0};
    ZSTD_compressStream2(c, &to, &from, ZSTD_e_flush);
    ZSTD_compressStream2(c, &to, &from, ZSTD_e_end);
    in.n = to.pos;
    struct sink_out out = {malloc(ROOM), 0, ROOM};
    CHECK_INT(decode(WEIR_ENCODING_ZSTD, in, in.n, &out), WEIR_INFLATE_TOO_BIG);
    ZSTD_freeCCtx(c);
    free(plain);
    free(in.at);
    free(out.out);
}

static void names__of_encodings__are_known_in_any_case(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        enum weir_encoding want;
    } rows[] = {
        {"", WEIR_ENCODING_IDENTITY},       {"Identity", WEIR_ENCODING_IDENTITY},
        {" gzip ", WEIR_ENCODING_GZIP},     {"X-GZIP", WEIR_ENCODING_GZIP},
        {"deflate", WEIR_ENCODING_DEFLATE}, {"zstd", WEIR_ENCODING_ZSTD},
        {"br", WEIR_ENCODING_UNKNOWN},      {"gzip, gzip", WEIR_ENCODING_UNKNOWN},
        {"gzi", WEIR_ENCODING_UNKNOWN},     {"a-very-long-encoding", WEIR_ENCODING_UNKNOWN},
    };
    for (size_t i = 0; i < WEIR_COUNT(rows); i++)
        CHECK_MSG(weir_encoding_of(rows[i].value, strlen(rows[i].value)) == rows[i].want, "%s",
                  rows[i].value);
    CHECK(weir_inflate_open(WEIR_ENCODING_UNKNOWN, 1, 1) == NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies__in_pieces_of_any_size__come_out_whole),
        cmocka_unit_test(deflate__raw_as_some_send_it__is_read),
        cmocka_unit_test(gzip_members_and_zstd_frames__follow_one_another),
        cmocka_unit_test(bodies__cut_garbled_or_with_bytes_after__are_not_an_end),
        cmocka_unit_test(bomb__is_known_early_and_stays_known),
        cmocka_unit_test(body__beyond_the_output_limit_or_a_sink_that_stops__ends_so),
        cmocka_unit_test(zstd_window_beyond_ours__is_refused),
        cmocka_unit_test(names__of_encodings__are_known_in_any_case),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
