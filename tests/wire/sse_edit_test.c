#include "wire/sse_edit.h"

#include "wire/wire_data.h"

/* Filters the pieces [0, a), [a, b), [b, n) and the end; the result is malloc'd. */
static struct wire_bytes filter(const void *bytes, size_t n, size_t a, size_t b,
                                struct weir_sse_edit *e)
{
    const uint8_t *p = bytes;
    struct wire_bytes out = {malloc(n + 4 * WEIR_SSE_EDIT_HOLD), 0};
    size_t cuts[] = {0, a, b, n};
    weir_sse_edit_init(e);
    for (int i = 0; i < 3; i++) {
        size_t piece = cuts[i + 1] - cuts[i];
        struct wire_bytes in = wire_copy(p + cuts[i], piece);
        uint8_t *room = malloc(piece + WEIR_SSE_EDIT_HOLD);
        size_t got = weir_sse_edit_feed(e, in.at, piece, room);
        memcpy(out.at + out.n, room, got);
        out.n += got;
        free(room);
        free(in.at);
    }
    out.n += weir_sse_edit_finish(e, out.at + out.n);
    return out;
}

/* Holds the filter to this result, whole, at every split and byte by byte. */
static void check_filter(const void *in, size_t in_bytes, const void *want, size_t want_bytes,
                         const char *what)
{
    struct weir_sse_edit e;
    for (size_t a = 0; a <= in_bytes; a++) {
        struct wire_bytes got = filter(in, in_bytes, a, a, &e);
        CHECK_MSG(got.n == want_bytes && memcmp(got.at, want, want_bytes) == 0,
                  "%s, split at %zu:\n%.*s", what, a, (int)got.n, (char *)got.at);
        free(got.at);
    }
    uint64_t seed = 11;
    for (int i = 0; i < 300; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        size_t a = (seed >> 33) % (in_bytes + 1), b = a + (seed >> 17) % (in_bytes + 1 - a);
        struct wire_bytes got = filter(in, in_bytes, a, b, &e);
        CHECK_MSG(got.n == want_bytes && memcmp(got.at, want, want_bytes) == 0,
                  "%s, split at %zu and %zu", what, a, b);
        free(got.at);
    }
    uint8_t *out = malloc(in_bytes + 2 * WEIR_SSE_EDIT_HOLD);
    size_t out_bytes = 0;
    weir_sse_edit_init(&e);
    for (size_t i = 0; i < in_bytes; i++)
        out_bytes += weir_sse_edit_feed(&e, (const uint8_t *)in + i, 1, out + out_bytes);
    out_bytes += weir_sse_edit_finish(&e, out + out_bytes);
    CHECK_MSG(out_bytes == want_bytes && memcmp(out, want, want_bytes) == 0, "%s, byte by byte",
              what);
    free(out);
}

static void check_text(const char *in, const char *want)
{
    check_filter(in, strlen(in), want, strlen(want), in);
}

/* The same stream with other line ends. */
static struct wire_bytes with_line_ends(struct wire_bytes lf, const char *line_end)
{
    size_t bytes = strlen(line_end);
    struct wire_bytes out = {malloc(lf.n * bytes), 0};
    for (size_t i = 0; i < lf.n; i++) {
        if (lf.at[i] != '\n') {
            out.at[out.n++] = lf.at[i];
            continue;
        }
        memcpy(out.at + out.n, line_end, bytes);
        out.n += bytes;
    }
    return out;
}

static void chat_stream_asked_for_usage__filtered__is_what_was_sent_without_asking(void **state)
{
    (void)state;
    struct wire_bytes plain = wire_load("stream/openai_chat_stream.sse");
    struct wire_bytes usage = wire_load("stream/openai_chat_stream_usage.sse");
    static const char *const line_ends[] = {"\n", "\r\n", "\r"};
    for (size_t i = 0; i < WEIR_COUNT(line_ends); i++) {
        struct wire_bytes in = with_line_ends(usage, line_ends[i]);
        struct wire_bytes want = with_line_ends(plain, line_ends[i]);
        check_filter(in.at, in.n, want.at, want.n, "usage stream");
        struct weir_sse_edit e;
        struct wire_bytes got = filter(in.at, in.n, in.n, in.n, &e);
        CHECK_INT(e.chunks_dropped, 1);
        CHECK_INT(e.nulls_dropped, 22);
        free(got.at);
        free(in.at);
        free(want.at);
    }
    free(plain.at);
    free(usage.at);
}

static void streams_of_every_kind_without_usage_nulls__pass_unchanged(void **state)
{
    (void)state;
    static const char *const names[] = {
        "stream/openai_chat_stream.sse",
        "stream/openai_chat_stream_error.sse",
        "stream/anthropic_messages_stream.sse",
    };
    for (size_t i = 0; i < WEIR_COUNT(names); i++) {
        struct wire_bytes b = wire_load(names[i]);
        check_filter(b.at, b.n, b.at, b.n, names[i]);
        free(b.at);
    }
}

static void null_usage__wherever_it_stands__goes_with_its_comma(void **state)
{
    (void)state;
    check_text("data: {\"a\":1,\"usage\":null,\"b\":2}\n\n", "data: {\"a\":1,\"b\":2}\n\n");
    check_text("data: {\"usage\":null,\"b\":2}\n\n", "data: {\"b\":2}\n\n");
    check_text("data: {\"usage\":null}\n\n", "data: {}\n\n");
    check_text("data: {\"a\": 1, \"usage\": null, \"b\": 2}\n\n", "data: {\"a\": 1, \"b\": 2}\n\n");
    check_text("data: { \"usage\" : null , \"b\": 2}\n\n", "data: { \"b\": 2}\n\n");
    check_text("data:{\"a\":\"x\",\"usage\":null }  \r\n\r\n", "data:{\"a\":\"x\" }  \r\n\r\n");
    check_text("data: {\"choices\":[],\"usage\":null}\n\n", "data: {\"choices\":[]}\n\n");
    check_text("\xef\xbb\xbf"
               "data: {\"a\":1,\"usage\":null}\n\n",
               "\xef\xbb\xbf"
               "data: {\"a\":1}\n\n");
}

static void usage_that_is_not_a_null_member_of_the_chunk__stays(void **state)
{
    (void)state;
    static const char *const same[] = {
        "data: {\"a\":{\"usage\":null},\"b\":[{\"usage\":null}]}\n\n",
        "data: {\"a\":\"\\\"usage\\\":null\",\"usage2\":null,\"usag\":null,\"usage\":7}\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}],\"usage\":{\"prompt_tokens\":1}}\n\n",
        "data: {\"choices\":[1],\"usage\":nul}\n\n",
        "data: {\"choices\":[1],\"usage\":nullx}\n\n",
        "data: {\"usage\":{\"a\":1}}\n\n",
        "data: {\"choices\":[]}\n\n",
        "data: {\"choices\":{},\"usage\":{}}\n\n",
        "data: {\"choices\":[],\"usage\":{}\n\n",
        "data: {\"choices\":[],\"usage\":{}} x\n\n",
        "data: {\"a\":1,\ndata: \"usage\":null}\n\n",
        ": {\"usage\":null}\n\nid: {\"a\":1,\"usage\":null}\n\nretry:1\n\n\n\n",
        "data: [DONE]\n\n",
        "data: hello\n\n",
        "data\n\n",
        "data:",
        "data: {\"a\":1,\"usage\":null",
        "dat: {\"a\":1,\"usage\":null}\n\n",
        "datas: {\"a\":1,\"usage\":null}\n\n",
        "\xef\xbb {\"a\":1,\"usage\":null}\n\n",
    };
    for (size_t i = 0; i < WEIR_COUNT(same); i++)
        check_text(same[i], same[i]);
    static const char nul[] = "data: {\"a\":1,\"usage\0\":null}\n\n";
    check_filter(nul, sizeof nul - 1, nul, sizeof nul - 1, "a NUL in the key");
}

static void usage_chunk__in_any_order_and_with_fields_around_it__goes_whole(void **state)
{
    (void)state;
    check_text("data: {\"usage\":{\"a\":1},\"choices\":[]}\n\ndata: [DONE]\n\n",
               "data: [DONE]\n\n");
    check_text(
        ": ping\nevent: x\ndata: {\"choices\":[ ] , \"usage\": {\"a\":[1]} } \nid: 1\n\n: z\n\n",
        ": ping\n: z\n\n");
    check_text("data: {\"choices\":[],\"usage\":{}}", "");
    check_text("data: {\"choices\":[],\"usage\":{}}\r\n\r\ndata: {}\r\n\r\n", "data: {}\r\n\r\n");
    check_text("data: {\"choices\":[],\"usage\":{}}\r\rdata: {}\r\r", "data: {}\r\r");
}

static void event_larger_than_the_hold__passes(void **state)
{
    (void)state;
    char in[3 * WEIR_SSE_EDIT_HOLD];
    int n = snprintf(in, sizeof in, "data: {\"x\":\"%*d\",\"choices\":[],\"usage\":{}}\n\n",
                     WEIR_SSE_EDIT_HOLD, 1);
    struct weir_sse_edit e;
    for (size_t a = 0; a <= (size_t)n; a += 97) {
        struct wire_bytes got = filter(in, (size_t)n, a, a, &e);
        CHECK_MEM(got.at, got.n, in, n);
        free(got.at);
    }
    uint8_t *out = malloc((size_t)n + 2 * WEIR_SSE_EDIT_HOLD);
    size_t bytes = 0;
    weir_sse_edit_init(&e);
    for (int i = 0; i < n; i++)
        bytes += weir_sse_edit_feed(&e, in + i, 1, out + bytes);
    bytes += weir_sse_edit_finish(&e, out + bytes);
    CHECK_MEM(out, bytes, in, n);
    free(out);
}

static void bytes__of_an_event_with_choices__flow_before_it_ends(void **state)
{
    (void)state;
    struct weir_sse_edit e;
    uint8_t out[WEIR_SSE_EDIT_HOLD + 128];
    static const char part[] = "data: {\"choices\":[{\"delta\":{\"content\":\"a";
    weir_sse_edit_init(&e);
    CHECK_INT(weir_sse_edit_feed(&e, part, sizeof part - 1, out), sizeof part - 1);
    CHECK_INT(weir_sse_edit_feed(&e, "b", 1, out), 1);
    /* A comma is held until the key after it is known not to be usage. */
    CHECK_INT(weir_sse_edit_feed(&e, "\"}}],\"us", 8, out), 4);
    CHECK_INT(weir_sse_edit_feed(&e, "er\":1}\n\n", 8, out), 12);
    /* Comments and [DONE] are never held. */
    CHECK_INT(weir_sse_edit_feed(&e, ": ping", 6, out), 6);
    CHECK_INT(weir_sse_edit_feed(&e, "\n\ndata: [", 9, out), 9);
    /* A value that goes on in a second data line is none of ours: it flows from the line's end on.
     */
    weir_sse_edit_init(&e);
    CHECK_INT(weir_sse_edit_feed(&e, "data: {\"id\":1,", 14, out), 0);
    CHECK_INT(weir_sse_edit_feed(&e, "\n", 1, out), 15);
}

static bool boundary_after(const char *text)
{
    struct weir_sse_boundary whole, bytewise;
    size_t n = strlen(text);
    weir_sse_boundary_init(&whole);
    weir_sse_boundary_init(&bytewise);
    weir_sse_boundary_feed(&whole, text, n);
    for (size_t i = 0; i < n; i++)
        weir_sse_boundary_feed(&bytewise, text + i, 1);
    CHECK_MSG(weir_sse_boundary_at(&whole) == weir_sse_boundary_at(&bytewise), "%s", text);
    return weir_sse_boundary_at(&whole);
}

static void boundary__is_after_a_blank_line_only(void **state)
{
    (void)state;
    static const char *const at[] = {
        "", "data: a\n\n", ": c\n\n", "data: a\r\n\r\n", "data: a\r\r", "\n", "a\n\n\n"};
    static const char *const inside[] = {"d",           "data: a",      "data: a\n", "data: a\r",
                                         "data: a\r\n", "data: a\n\nb", ": c\n"};
    for (size_t i = 0; i < WEIR_COUNT(at); i++)
        CHECK_MSG(boundary_after(at[i]), "%zu", i);
    for (size_t i = 0; i < WEIR_COUNT(inside); i++)
        CHECK_MSG(!boundary_after(inside[i]), "%zu", i);
    /* A CR that may still be half of CRLF is no place to put anything. */
    CHECK(!boundary_after("data: a\r\n\r"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chat_stream_asked_for_usage__filtered__is_what_was_sent_without_asking),
        cmocka_unit_test(streams_of_every_kind_without_usage_nulls__pass_unchanged),
        cmocka_unit_test(null_usage__wherever_it_stands__goes_with_its_comma),
        cmocka_unit_test(usage_that_is_not_a_null_member_of_the_chunk__stays),
        cmocka_unit_test(usage_chunk__in_any_order_and_with_fields_around_it__goes_whole),
        cmocka_unit_test(event_larger_than_the_hold__passes),
        cmocka_unit_test(bytes__of_an_event_with_choices__flow_before_it_ends),
        cmocka_unit_test(boundary__is_after_a_blank_line_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
