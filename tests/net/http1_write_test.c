/* The writers: what they write, what they refuse to write, and that our own parser reads it back.
 */
#include "support/check.h"

#include "net/http1_write.h"

static char buf[4096];

static struct weir_http_out out_of(size_t room)
{
    memset(buf, '?', sizeof buf);
    return (struct weir_http_out){.buf = buf, .room = room};
}

static void http1_write__a_request__is_byte_for_byte_this(void **state)
{
    (void)state;
    struct weir_http_out out = out_of(sizeof buf);
    weir_http_write_request(&out, WEIR_HTTP_POST, WEIR_SLICE("/v1/messages?beta=true"));
    weir_http_write_header_text(&out, "host", "api.example");
    weir_http_write_header(&out, WEIR_SLICE("x-api-key"), WEIR_SLICE("k\t\xc3\xa4"));
    weir_http_write_header_text(&out, "x-empty", "");
    weir_http_write_content_length(&out, 0);
    weir_http_write_header_u64(&out, "x-large", UINT64_MAX);
    weir_http_write_end(&out);
    static const char want[] = "POST /v1/messages?beta=true HTTP/1.1\r\nhost: api.example\r\n"
                               "x-api-key: k\t\xc3\xa4\r\nx-empty: \r\ncontent-length: 0\r\n"
                               "x-large: 18446744073709551615\r\n\r\n";
    CHECK(weir_http_out_ok(&out));
    CHECK_MEM(buf, out.used, want, sizeof want - 1);

    struct weir_http_head head;
    size_t scanned = 0;
    CHECK_INT(weir_http_request_parse(buf, out.used, 65536, &scanned, &head), WEIR_HTTP_DONE);
    CHECK_INT(head.head_bytes, out.used);
    CHECK_INT(head.header_count, 5);
}

static void http1_write__a_response__is_byte_for_byte_this(void **state)
{
    (void)state;
    struct weir_http_out out = out_of(sizeof buf);
    weir_http_write_status(&out, 429, (struct weir_slice){NULL, 0});
    weir_http_write_chunked(&out);
    weir_http_write_end(&out);
    weir_http_write_status(&out, 200, WEIR_SLICE(""));
    weir_http_write_status(&out, 999, (struct weir_slice){NULL, 0});
    weir_http_write_status(&out, 529, WEIR_SLICE("Site is overloaded"));
    static const char want[] =
        "HTTP/1.1 429 Too Many Requests\r\ntransfer-encoding: chunked\r\n\r\n"
        "HTTP/1.1 200 \r\nHTTP/1.1 999 Status\r\n"
        "HTTP/1.1 529 Site is overloaded\r\n";
    CHECK(weir_http_out_ok(&out));
    CHECK_MEM(buf, out.used, want, sizeof want - 1);
}

static void http1_write__what_could_end_a_line_early__is_refused(void **state)
{
    (void)state;
    static const struct {
        struct weir_slice name, value;
    } rows[] = {
        {WEIR_SLICE("x"), WEIR_SLICE("a\r\nSet-Cookie: b")},
        {WEIR_SLICE("x"), WEIR_SLICE("a\rb")},
        {WEIR_SLICE("x"), WEIR_SLICE("a\nb")},
        {WEIR_SLICE("x"), WEIR_SLICE("a\0b")},
        {WEIR_SLICE("x"), WEIR_SLICE("0123456789abcdef0123456789\n")},
        {WEIR_SLICE("x"), WEIR_SLICE("\x7f")},
        {WEIR_SLICE(""), WEIR_SLICE("a")},
        {WEIR_SLICE("x "), WEIR_SLICE("a")},
        {WEIR_SLICE("x:"), WEIR_SLICE("a")},
        {WEIR_SLICE("x\r\ny"), WEIR_SLICE("a")},
        {WEIR_SLICE("\xc3\xa4"), WEIR_SLICE("a")},
    };
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct weir_http_out out = out_of(sizeof buf);
        weir_http_write_header(&out, rows[i].name, rows[i].value);
        CHECK_MSG(out.refused && out.used == 0, "row %zu", i);
        weir_http_write_header_text(&out, "a", "b"); /* the mark stays */
        CHECK_MSG(out.used == 0 && !weir_http_out_ok(&out), "row %zu", i);
    }
    static const struct weir_slice targets[] = {
        WEIR_SLICE(""),     WEIR_SLICE("/ HTTP/1.1\r\nX: y"),
        WEIR_SLICE("/a b"), WEIR_SLICE("/\n"),
        WEIR_SLICE("/\0"),  WEIR_SLICE("/#")};
    for (size_t i = 0; i < WEIR_COUNT(targets); i++) {
        struct weir_http_out out = out_of(sizeof buf);
        weir_http_write_request(&out, WEIR_HTTP_GET, targets[i]);
        CHECK_MSG(out.refused && out.used == 0, "target %zu", i);
    }
    struct weir_http_out out = out_of(sizeof buf);
    weir_http_write_status(&out, 200, WEIR_SLICE("OK\r\nX: y"));
    CHECK(out.refused && out.used == 0);
}

/* In every room that is too small, overflow is marked, whole lines only are there, and nothing is
 * written beyond the room. */
static void http1_write__too_little_room__is_marked_and_never_passed(void **state)
{
    (void)state;
    static const char want[] = "HTTP/1.1 200 OK\r\na: b\r\ncontent-length: 12345\r\n\r\n";
    for (size_t room = 0; room < sizeof want; room++) {
        struct weir_http_out out = out_of(room);
        weir_http_write_status(&out, 200, (struct weir_slice){NULL, 0});
        weir_http_write_header_text(&out, "a", "b");
        weir_http_write_content_length(&out, 12345);
        weir_http_write_end(&out);
        CHECK_INT(out.overflow, room < sizeof want - 1);
        CHECK(out.used <= room && memcmp(buf, want, out.used) == 0);
        for (size_t i = out.used; i < sizeof want + 8; i++)
            CHECK(buf[i] == '?');
    }
}

static void http1_write__passed_headers__leave_out_hops_framing_and_the_skipped(void **state)
{
    (void)state;
    static const char text[] =
        "POST /v1 HTTP/1.1\r\nHost: a\r\nAccept: */*\r\nAuthorization: Bearer k\r\n"
        "Connection: close, x-private\r\nX-Private: 1\r\nKeep-Alive: 2\r\nTE: trailers\r\n"
        "X-Custom:  \t v v\t \r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n"
        "Proxy-Authorization: p\r\ncookie:c\r\nX-CUSTOM: again\r\n\r\n";
    struct weir_http_head head;
    size_t scanned = 0;
    CHECK_INT(weir_http_request_parse(text, sizeof text - 1, 65536, &scanned, &head),
              WEIR_HTTP_DONE);
    struct weir_http_out out = out_of(sizeof buf);
    weir_http_write_passed(&out, &head, WEIR_HTTP_BIT(WEIR_HTTP_AUTHORIZATION));
    static const char want[] = "Accept: */*\r\nX-Custom: v v\r\ncookie: c\r\nX-CUSTOM: again\r\n";
    CHECK(weir_http_out_ok(&out));
    CHECK_MEM(buf, out.used, want, sizeof want - 1);

    /* A mask that names OTHER must not drop every unknown header. */
    out = out_of(sizeof buf);
    weir_http_write_passed(&out, &head, ~UINT64_C(0));
    static const char others[] = "X-Custom: v v\r\nX-CUSTOM: again\r\n";
    CHECK_MEM(buf, out.used, others, sizeof others - 1);
}

static void http1_write__chunk_heads__are_hex(void **state)
{
    (void)state;
    static const struct {
        uint64_t bytes;
        const char *text;
    } rows[] = {
        {1, "1\r\n"},         {15, "f\r\n"},        {16, "10\r\n"},
        {0x1a2b, "1a2b\r\n"}, {65536, "10000\r\n"}, {UINT64_MAX, "ffffffffffffffff\r\n"},
    };
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        char head[WEIR_HTTP_CHUNK_HEAD_MAX];
        size_t bytes = weir_http_chunk_head(head, rows[i].bytes);
        CHECK_MEM(head, bytes, rows[i].text, strlen(rows[i].text));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(http1_write__a_request__is_byte_for_byte_this),
        cmocka_unit_test(http1_write__a_response__is_byte_for_byte_this),
        cmocka_unit_test(http1_write__what_could_end_a_line_early__is_refused),
        cmocka_unit_test(http1_write__too_little_room__is_marked_and_never_passed),
        cmocka_unit_test(http1_write__passed_headers__leave_out_hops_framing_and_the_skipped),
        cmocka_unit_test(http1_write__chunk_heads__are_hex),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
