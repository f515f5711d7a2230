/* The body decoder: framings, chunks, trailers and their limits, at every split. */
#include "support/check.h"

#include "http1_run.h"

#define CHUNKED "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"

static void run_at_every_split(struct http1_run *run, struct http1_run_input in)
{
    const char *what;
    size_t split;
    CHECK_MSG(http1_run_splits(run, &in, 1, &what, &split), "%.100s: %s differs at %zu",
              in.at + sizeof CHUNKED - 1, what, split);
}

static void run_chunked(struct http1_run *run, const char *body)
{
    static char text[16384];
    int bytes = snprintf(text, sizeof text, CHUNKED "%s", body);
    CHECK(bytes > 0 && (size_t)bytes < sizeof text);
    run_at_every_split(run, (struct http1_run_input){.at = text, .bytes = (size_t)bytes});
}

static void http1_body__chunks__are_joined(void **state)
{
    (void)state;
    static const struct {
        const char *wire, *body;
    } rows[] = {
        {"0\r\n\r\n", ""},
        {"5\r\nhello\r\n0\r\n\r\n", "hello"},
        {"1\r\na\r\n2\r\nbc\r\n3\r\ndef\r\n0\r\n\r\n", "abcdef"},
        {"A\r\n0123456789\r\n00a\r\n0123456789\r\n000\r\n\r\n", "01234567890123456789"},
        {"000000000000002\r\n\r\n\r\n0\r\n\r\n", "\r\n"},
        {"1;a\r\nx\r\n1;name=value\r\ny\r\n0;last=1\r\n\r\n", "xy"},
        {"1\r\nx\r\n0\r\nX-Sum: 1\r\nserver-timing:a;b=\"c\"\r\nX-Empty:\r\n\r\n", "x"},
    };
    static struct http1_run run;
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        run_chunked(&run, rows[i].wire);
        CHECK_MSG(run.answer == WEIR_HTTP_DONE, "row %zu: %s", i, weir_http_fault_label(run.fault));
        CHECK_MEM(run.body, run.body_bytes, rows[i].body, strlen(rows[i].body));
        CHECK_INT(run.consumed, sizeof CHUNKED - 1 + strlen(rows[i].wire));
    }
}

static void http1_body__bad_chunks__are_refused_after_what_came_before(void **state)
{
    (void)state;
    static const struct {
        const char *wire;
        enum weir_http_fault fault;
        const char *body; /* yielded before the fault, however the input was split */
    } rows[] = {
        {"\r\n", WEIR_HTTP_FAULT_CHUNK_SIZE, ""},
        {"x\r\n", WEIR_HTTP_FAULT_CHUNK_SIZE, ""},
        {" 1\r\na\r\n", WEIR_HTTP_FAULT_CHUNK_SIZE, ""},
        {"1 \r\na\r\n", WEIR_HTTP_FAULT_CHUNK_SIZE, ""},
        {"-1\r\na\r\n", WEIR_HTTP_FAULT_CHUNK_SIZE, ""},
        {"+1\r\na\r\n", WEIR_HTTP_FAULT_CHUNK_SIZE, ""},
        {"1\na\r\n", WEIR_HTTP_FAULT_CHUNK_SIZE, ""},
        {"1\r\r\na\r\n", WEIR_HTTP_FAULT_CHUNK_SIZE, ""},
        {"0000000000000001\r\na\r\n", WEIR_HTTP_FAULT_CHUNK_SIZE, ""},
        {"2\r\nab\r\n2\rcd", WEIR_HTTP_FAULT_CHUNK_SIZE, "ab"},
        {"1\r\na\r\n;\r\n", WEIR_HTTP_FAULT_CHUNK_SIZE, "a"},
        {"1;\r\na\r\n", WEIR_HTTP_FAULT_CHUNK_EXTENSION, ""},
        {"1;=b\r\na\r\n", WEIR_HTTP_FAULT_CHUNK_EXTENSION, ""},
        {"1;a=\r\na\r\n", WEIR_HTTP_FAULT_CHUNK_EXTENSION, ""},
        {"1;a=b;c\r\na\r\n", WEIR_HTTP_FAULT_CHUNK_EXTENSION, ""},
        {"1; a\r\na\r\n", WEIR_HTTP_FAULT_CHUNK_EXTENSION, ""},
        {"1;a=\"b\"\r\na\r\n", WEIR_HTTP_FAULT_CHUNK_EXTENSION, ""},
        {"1;a\rb\r\na\r\n", WEIR_HTTP_FAULT_CHUNK_SIZE, ""},
        {"1\r\nab\r\n", WEIR_HTTP_FAULT_CHUNK_END, "a"},
        {"1\r\na\rb", WEIR_HTTP_FAULT_CHUNK_END, "a"},
        {"1\r\na0\r\n\r\n", WEIR_HTTP_FAULT_CHUNK_END, "a"},
        {"1\r\na\n0\r\n\r\n", WEIR_HTTP_FAULT_CHUNK_END, "a"},
        {"0\r\nX\r\n\r\n", WEIR_HTTP_FAULT_TRAILER, ""},
        {"0\r\n: x\r\n\r\n", WEIR_HTTP_FAULT_TRAILER, ""},
        {"0\r\nX : x\r\n\r\n", WEIR_HTTP_FAULT_TRAILER, ""},
        {"0\r\nX: x\n\r\n", WEIR_HTTP_FAULT_TRAILER, ""},
        {"0\r\nX: x\ry\r\n\r\n", WEIR_HTTP_FAULT_TRAILER, ""},
        {"0\r\nX: \x01\r\n\r\n", WEIR_HTTP_FAULT_TRAILER, ""},
        {"0\r\nX: a\r\n b\r\n\r\n", WEIR_HTTP_FAULT_TRAILER, ""},
        {"0\r\n\n", WEIR_HTTP_FAULT_TRAILER, ""},
        {"0\r\n\rX", WEIR_HTTP_FAULT_TRAILER, ""},
        {"0\r\nContent-Length: 1\r\n\r\n", WEIR_HTTP_FAULT_TRAILER, ""},
        {"0\r\nX: y\r\ntransfer-ENCODING: chunked\r\n\r\n", WEIR_HTTP_FAULT_TRAILER, ""},
        {"0\r\nHost: x\r\n\r\n", WEIR_HTTP_FAULT_TRAILER, ""},
        {"0\r\nConnection: close\r\n\r\n", WEIR_HTTP_FAULT_TRAILER, ""},
        {"0\r\nTE: x\r\n\r\n", WEIR_HTTP_FAULT_TRAILER, ""},
        {"0\r\nAuthorization: x\r\n\r\n", WEIR_HTTP_FAULT_TRAILER, ""},
        {"0\r\nProxy-Authorization: x\r\n\r\n", WEIR_HTTP_FAULT_TRAILER, ""},
    };
    static struct http1_run run;
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        run_chunked(&run, rows[i].wire);
        CHECK_MSG(run.answer == WEIR_HTTP_BAD && run.fault == rows[i].fault, "row %zu: %d %s", i,
                  run.answer, weir_http_fault_label(run.fault));
        CHECK_MEM(run.body, run.body_bytes, rows[i].body, strlen(rows[i].body));
    }
}

static void http1_body__a_long_trailer_name__is_never_mistaken(void **state)
{
    (void)state;
    static struct http1_run run;
    run_chunked(&run, "0\r\ntransfer-encoding-and-more-than-that: x\r\n"
                      "content-lengthcontent-length: 1\r\n\r\n");
    CHECK_INT(run.answer, WEIR_HTTP_DONE);
}

static void http1_body__size_limit__is_exact_in_every_framing(void **state)
{
    (void)state;
    static const struct {
        bool response;
        const char *text;
    } rows[] = {
        {false, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nabcd"},
        {false, CHUNKED "3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n"},
        {true, "HTTP/1.1 200 OK\r\n\r\nabcd"},
    };
    static struct http1_run run;
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct http1_run_input in = {.response = rows[i].response,
                                     .at = rows[i].text,
                                     .bytes = strlen(rows[i].text),
                                     .body_bytes_max = 4,
                                     .eof = true};
        run_at_every_split(&run, in);
        CHECK_MSG(run.answer == WEIR_HTTP_DONE, "row %zu", i);
        CHECK_INT(run.body_bytes, 4);
        in.body_bytes_max = 3;
        http1_run(&run, &in, HTTP1_RUN_WHOLE, HTTP1_RUN_WHOLE);
        CHECK_MSG(run.fault == WEIR_HTTP_FAULT_BODY_TOO_LARGE, "row %zu", i);
        CHECK(run.body_bytes <= 3);
    }
    CHECK_INT(weir_http_fault_status(run.fault), 413);
}

/* A chunk that alone passes the limit is refused by its size line, before any of it is read. */
static void http1_body__a_huge_chunk__is_refused_by_its_size(void **state)
{
    (void)state;
    static struct http1_run run;
    run_chunked(&run, "fffffffffffffff\r\n");
    CHECK_INT(run.fault, WEIR_HTTP_FAULT_BODY_TOO_LARGE);
}

static void http1_body__extensions_and_trailers__are_bounded_over_the_body(void **state)
{
    (void)state;
    static struct http1_run run;
    static char wire[1 << 17];
    struct http1_run_input in = {.at = wire};
    /* Ten extension bytes a chunk, with the carriage return that ends them; the last chunk fills
     * up. */
    for (int extra = 0; extra < 2; extra++) {
        int chunks = WEIR_HTTP_EXTENSION_BYTES_MAX / 10;
        int fill = WEIR_HTTP_EXTENSION_BYTES_MAX - chunks * 10 - 1 + extra;
        size_t at = (size_t)snprintf(wire, sizeof wire, CHUNKED);
        for (int i = 0; i < chunks; i++)
            at += (size_t)snprintf(wire + at, sizeof wire - at, "1;abcdefghi\r\nx\r\n");
        in.bytes = at + (size_t)snprintf(wire + at, sizeof wire - at, "0;%.*s\r\n\r\n", fill,
                                         "abcdefghijkl");
        http1_run(&run, &in, HTTP1_RUN_WHOLE, HTTP1_RUN_WHOLE);
        CHECK_INT(run.fault, extra ? WEIR_HTTP_FAULT_CHUNK_EXTENSION : WEIR_HTTP_FAULT_NONE);
        CHECK_INT(run.body_bytes, chunks);
    }
    /* Sixteen bytes a line; the last line leaves two bytes for the empty one. */
    for (int extra = 0; extra < 2; extra++) {
        size_t at = (size_t)snprintf(wire, sizeof wire, CHUNKED "0\r\n");
        for (int i = 0; i < WEIR_HTTP_TRAILER_BYTES_MAX / 16 - 1; i++)
            at += (size_t)snprintf(wire + at, sizeof wire - at, "X-abcdef: 1234\r\n");
        in.bytes = at + (size_t)snprintf(wire + at, sizeof wire - at, "X-abcdef: 12%.*s\r\n\r\n",
                                         extra, "3");
        http1_run(&run, &in, HTTP1_RUN_WHOLE, HTTP1_RUN_WHOLE);
        CHECK_INT(run.fault, extra ? WEIR_HTTP_FAULT_TRAILERS_TOO_LARGE : WEIR_HTTP_FAULT_NONE);
    }
}

static struct weir_http_head head_of(const char *text)
{
    struct weir_http_head head;
    size_t scanned = 0;
    CHECK_INT(weir_http_response_parse(text, strlen(text), 65536, WEIR_HTTP_GET, &scanned, &head),
              WEIR_HTTP_DONE);
    return head;
}

static void http1_body__decode__moves_the_body_to_the_front(void **state)
{
    (void)state;
    struct weir_http_head head = head_of("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    struct weir_http_body body;
    char buf[] = "5\r\nhello\r\n6\r\n, weir\r\n0\r\n\r\nHTTP/1.1";
    size_t used, data_bytes;
    weir_http_body_init(&body, &head, 100);
    CHECK_INT(weir_http_body_decode(&body, buf, 15, &used, &data_bytes), WEIR_HTTP_MORE);
    CHECK_INT(used, 15); /* within the second chunk */
    CHECK_MEM(buf, data_bytes, "hello, ", 7);
    char *rest = buf + 15;
    CHECK_INT(weir_http_body_decode(&body, rest, sizeof buf - 1 - 15, &used, &data_bytes),
              WEIR_HTTP_DONE);
    CHECK_MEM(rest, data_bytes, "weir", 4);
    CHECK_MEM(rest + used, sizeof buf - 1 - 15 - used, "HTTP/1.1", 8);
    CHECK_INT(body.data_bytes, 11);
}

static void http1_body__decode__keeps_what_came_before_a_fault(void **state)
{
    (void)state;
    struct weir_http_head head = head_of("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    struct weir_http_body body;
    char buf[] = "2\r\nab\r\n1\r\nc\r\nrubbish";
    size_t used, data_bytes;
    weir_http_body_init(&body, &head, 100);
    CHECK_INT(weir_http_body_decode(&body, buf, sizeof buf - 1, &used, &data_bytes), WEIR_HTTP_BAD);
    CHECK_MEM(buf, data_bytes, "abc", 3);
    CHECK_INT(weir_http_body_eof(&body), WEIR_HTTP_BAD);
    CHECK_INT(body.fault, WEIR_HTTP_FAULT_CHUNK_SIZE); /* the first fault stays */
}

static void http1_body__without_bytes__is_done_at_once(void **state)
{
    (void)state;
    static const char *const heads[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 204 No Content\r\n\r\n",
    };
    for (size_t i = 0; i < WEIR_COUNT(heads); i++) {
        struct weir_http_head head = head_of(heads[i]);
        struct weir_http_body body;
        size_t used;
        struct weir_slice data;
        weir_http_body_init(&body, &head, 0);
        CHECK_INT(weir_http_body_feed(&body, "", 0, &used, &data), WEIR_HTTP_DONE);
        CHECK_INT(weir_http_body_eof(&body), WEIR_HTTP_DONE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(http1_body__chunks__are_joined),
        cmocka_unit_test(http1_body__bad_chunks__are_refused_after_what_came_before),
        cmocka_unit_test(http1_body__a_long_trailer_name__is_never_mistaken),
        cmocka_unit_test(http1_body__size_limit__is_exact_in_every_framing),
        cmocka_unit_test(http1_body__a_huge_chunk__is_refused_by_its_size),
        cmocka_unit_test(http1_body__extensions_and_trailers__are_bounded_over_the_body),
        cmocka_unit_test(http1_body__decode__moves_the_body_to_the_front),
        cmocka_unit_test(http1_body__decode__keeps_what_came_before_a_fault),
        cmocka_unit_test(http1_body__without_bytes__is_done_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
