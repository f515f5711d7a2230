/* The head parser against tables of good and bad messages, each fed whole, byte by byte, at every
 * split, and right before an unmapped page. */
#include "support/check.h"

#include <sys/mman.h>
#include <unistd.h>

#include "http1_run.h"
#include "net/http1_write.h"

struct row {
    const char *name;
    const char *text;
    size_t bytes;
    enum weir_http_fault fault;
    int status;
};
#define ROW(name, text, fault, status)                                                             \
    {                                                                                              \
        name, text, sizeof(text) - 1, WEIR_HTTP_FAULT_##fault, status                              \
    }

#define H "Host: x\r\n"

/* The nineteen that common servers let through in part, each refused with the fault that names it.
 */
static const struct row nineteen[] = {
    ROW("both Content-Length and Transfer-Encoding",
        "POST / HTTP/1.1\r\n" H "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        FRAMING, 400),
    ROW("two lengths that differ",
        "POST / HTTP/1.1\r\n" H "Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
        CONTENT_LENGTH, 400),
    ROW("a length with a sign", "POST / HTTP/1.1\r\n" H "Content-Length: +4\r\n\r\nabcd",
        CONTENT_LENGTH, 400),
    ROW("a list of lengths", "POST / HTTP/1.1\r\n" H "Content-Length: 4, 4\r\n\r\nabcd",
        CONTENT_LENGTH, 400),
    ROW("an unknown coding", "POST / HTTP/1.1\r\n" H "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        TRANSFER_ENCODING, 501),
    ROW("chunked before another coding",
        "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        TRANSFER_ENCODING, 501),
    ROW("two Transfer-Encoding lines",
        "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"
        "0\r\n\r\n",
        TRANSFER_ENCODING, 501),
    ROW("Transfer-Encoding in HTTP/1.0",
        "POST / HTTP/1.0\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", FRAMING, 400),
    ROW("a space before the colon", "POST / HTTP/1.1\r\n" H "Content-Length : 4\r\n\r\nabcd",
        HEADER_NAME, 400),
    ROW("a folded line", "GET / HTTP/1.1\r\n" H "X: a\r\n b\r\n\r\n", HEADER_FOLD, 400),
    ROW("a line feed alone", "GET / HTTP/1.1\nHost: x\n\n", LINE_END, 400),
    ROW("a carriage return alone", "GET / HTTP/1.1\r\n" H "X: a\rContent-Length: 4\r\n\r\n",
        LINE_END, 400),
    ROW("a NUL", "GET / HTTP/1.1\r\n" H "X: a\0b\r\n\r\n", HEADER_VALUE, 400),
    ROW("no Host", "GET / HTTP/1.1\r\n\r\n", HOST, 400),
    ROW("two Hosts", "GET / HTTP/1.1\r\n" H "Host: y\r\n\r\n", HOST, 400),
    ROW("a chunk size with 0x",
        "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n0x4\r\nabcd\r\n0\r\n\r\n",
        CHUNK_SIZE, 400),
    ROW("a chunk size that overflows",
        "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n10000000000000004\r\nabcd\r\n",
        CHUNK_SIZE, 400),
    ROW("a line feed in a chunk extension",
        "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n4;a\nb\r\nabcd\r\n0\r\n\r\n",
        CHUNK_EXTENSION, 400),
    ROW("a line feed alone after a chunk",
        "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n4\r\nabcd\n0\r\n\r\n", CHUNK_END,
        400),
};

static const struct row bad_requests[] = {
    ROW("a TLS hello", "\x16\x03\x01\x02", START_LINE, 400),
    ROW("HTTP/2 with prior knowledge", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", VERSION, 505),
    ROW("HTTP/0.9", "GET /\r\n\r\n", START_LINE, 400),
    ROW("HTTP/0.9 with a version", "GET / HTTP/0.9\r\n\r\n", VERSION, 505),
    ROW("HTTP/1.2", "GET / HTTP/1.2\r\n" H "\r\n", VERSION, 505),
    ROW("HTTP/3.0", "GET / HTTP/3.0\r\n" H "\r\n", VERSION, 505),
    ROW("a version with two digits", "GET / HTTP/1.11\r\n" H "\r\n", START_LINE, 400),
    ROW("a version in lower case", "GET / http/1.1\r\n" H "\r\n", START_LINE, 400),
    ROW("RTSP", "GET / RTSP/1.0\r\n" H "\r\n", START_LINE, 400),
    ROW("a word after the version", "GET / HTTP/1.1 x\r\n" H "\r\n", START_LINE, 400),
    ROW("a space after the version", "GET / HTTP/1.1 \r\n" H "\r\n", START_LINE, 400),
    ROW("two spaces", "GET  / HTTP/1.1\r\n" H "\r\n", START_LINE, 400),
    ROW("two spaces before the version", "GET /  HTTP/1.1\r\n" H "\r\n", START_LINE, 400),
    ROW("a tab for a space", "GET\t/ HTTP/1.1\r\n" H "\r\n", START_LINE, 400),
    ROW("a space in the target", "GET /a b HTTP/1.1\r\n" H "\r\n", START_LINE, 400),
    ROW("two empty lines first", "\r\n\r\nGET / HTTP/1.1\r\n" H "\r\n", START_LINE, 400),
    ROW("a line feed first", "\nGET / HTTP/1.1\r\n" H "\r\n", START_LINE, 400),
    ROW("a space first", " GET / HTTP/1.1\r\n" H "\r\n", START_LINE, 400),
    ROW("a carriage return first", "\rGET / HTTP/1.1\r\n" H "\r\n", START_LINE, 400),
    ROW("no method", "/ HTTP/1.1\r\n" H "\r\n", START_LINE, 400),
    ROW("a header before the request line", "Host: x\r\n\r\n", START_LINE, 400),
    ROW("an unknown method", "BREW /pot HTTP/1.1\r\n" H "\r\n", METHOD, 501),
    ROW("a method in lower case", "get / HTTP/1.1\r\n" H "\r\n", METHOD, 501),
    ROW("a method with a tail", "POSTS / HTTP/1.1\r\n" H "\r\n", METHOD, 501),
    ROW("CONNECT", "CONNECT x:443 HTTP/1.1\r\n" H "\r\n", METHOD, 501),
    ROW("TRACE", "TRACE / HTTP/1.1\r\n" H "\r\n", METHOD, 501),
    ROW("a target without a slash", "GET v1 HTTP/1.1\r\n" H "\r\n", TARGET, 400),
    ROW("the authority form", "GET x:80 HTTP/1.1\r\n" H "\r\n", TARGET, 400),
    ROW("the asterisk form", "GET * HTTP/1.1\r\n" H "\r\n", TARGET, 400),
    ROW("an asterisk with a tail", "OPTIONS *x HTTP/1.1\r\n" H "\r\n", TARGET, 400),
    ROW("a fragment", "GET /a#b HTTP/1.1\r\n" H "\r\n", TARGET, 400),
    ROW("a backslash in the target", "GET /a\\b HTTP/1.1\r\n" H "\r\n", TARGET, 400),
    ROW("a byte above 0x7f in the target", "GET /\xc3\xa4 HTTP/1.1\r\n" H "\r\n", TARGET, 400),
    ROW("a NUL in the target", "GET /\0 HTTP/1.1\r\n" H "\r\n", TARGET, 400),
    ROW("another scheme", "GET ftp://x/ HTTP/1.1\r\n" H "\r\n", TARGET, 400),
    ROW("an absolute target without a host", "GET http:///v1 HTTP/1.1\r\n" H "\r\n", TARGET, 400),
    ROW("a scheme alone", "GET http:// HTTP/1.1\r\n" H "\r\n", TARGET, 400),
    ROW("user information", "GET http://u@x/ HTTP/1.1\r\n" H "\r\n", TARGET, 400),
    ROW("a query right after the host", "GET http://x?y HTTP/1.1\r\n" H "\r\n", TARGET, 400),
    ROW("a header without a colon", "GET / HTTP/1.1\r\n" H "X\r\n\r\n", HEADER_NAME, 400),
    ROW("an empty header name", "GET / HTTP/1.1\r\n" H ": x\r\n\r\n", HEADER_NAME, 400),
    ROW("a tab before the colon", "GET / HTTP/1.1\r\n" H "X\t: x\r\n\r\n", HEADER_NAME, 400),
    ROW("a space within a name", "GET / HTTP/1.1\r\n" H "X Y: x\r\n\r\n", HEADER_NAME, 400),
    ROW("a byte above 0x7f in a name", "GET / HTTP/1.1\r\n" H "X\xff: x\r\n\r\n", HEADER_NAME, 400),
    ROW("a NUL in a name", "GET / HTTP/1.1\r\n" H "X\0: x\r\n\r\n", HEADER_NAME, 400),
    ROW("a bracket in a name", "GET / HTTP/1.1\r\n" H "X[0]: x\r\n\r\n", HEADER_NAME, 400),
    ROW("a folded first header", "GET / HTTP/1.1\r\n " H "\r\n", HEADER_FOLD, 400),
    ROW("a line of spaces", "GET / HTTP/1.1\r\n" H " \r\n\r\n", HEADER_FOLD, 400),
    ROW("a fold with a tab", "GET / HTTP/1.1\r\n" H "X: a\r\n\tb\r\n\r\n", HEADER_FOLD, 400),
    ROW("a fold with nothing in it", "GET / HTTP/1.1\r\n" H "X: a\r\n \r\n\r\n", HEADER_FOLD, 400),
    ROW("a line feed alone after a header", "GET / HTTP/1.1\r\n" H "X: a\nY: b\r\n\r\n", LINE_END,
        400),
    ROW("a head that ends in a line feed alone", "GET / HTTP/1.1\r\n" H "\n", LINE_END, 400),
    ROW("a carriage return before CRLF", "GET / HTTP/1.1\r\n" H "X: a\r\r\n\r\n", LINE_END, 400),
    ROW("a carriage return where a line starts", "GET / HTTP/1.1\r\n" H "\rX: a\r\n\r\n", LINE_END,
        400),
    ROW("an escape in a value", "GET / HTTP/1.1\r\n" H "X: \x1b[0m\r\n\r\n", HEADER_VALUE, 400),
    ROW("DEL in a value", "GET / HTTP/1.1\r\n" H "X: \x7f\r\n\r\n", HEADER_VALUE, 400),
    ROW("a control byte late in a long value",
        "GET / HTTP/1.1\r\n" H "X: 0123456789abcdef0123456789abcdef0123\x01\r\n\r\n", HEADER_VALUE,
        400),
    ROW("a Host with a slash", "GET / HTTP/1.1\r\nHost: x/y\r\n\r\n", HOST, 400),
    ROW("a Host with a space", "GET / HTTP/1.1\r\nHost: x y\r\n\r\n", HOST, 400),
    ROW("a Host with user information", "GET / HTTP/1.1\r\nHost: u@x\r\n\r\n", HOST, 400),
    ROW("two Hosts in HTTP/1.0", "GET / HTTP/1.0\r\n" H H "\r\n", HOST, 400),
    ROW("two Hosts that are alike", "GET / HTTP/1.1\r\n" H H "\r\n", HOST, 400),
    ROW("two lengths that are alike",
        "POST / HTTP/1.1\r\n" H "Content-Length: 4\r\nContent-Length: 4\r\n\r\nabcd",
        CONTENT_LENGTH, 400),
    ROW("an empty length", "POST / HTTP/1.1\r\n" H "Content-Length:\r\n\r\n", CONTENT_LENGTH, 400),
    ROW("a negative length", "POST / HTTP/1.1\r\n" H "Content-Length: -1\r\n\r\n", CONTENT_LENGTH,
        400),
    ROW("a length in hex", "POST / HTTP/1.1\r\n" H "Content-Length: 0x4\r\n\r\nabcd",
        CONTENT_LENGTH, 400),
    ROW("a length with a space", "POST / HTTP/1.1\r\n" H "Content-Length: 1 0\r\n\r\n",
        CONTENT_LENGTH, 400),
    ROW("a length with a point", "POST / HTTP/1.1\r\n" H "Content-Length: 4.0\r\n\r\nabcd",
        CONTENT_LENGTH, 400),
    ROW("a length followed by a tab", "POST / HTTP/1.1\r\n" H "Content-Length: 4\t\r\n\r\nabcd",
        CONTENT_LENGTH, 400),
    ROW("a length of 2^64", "POST / HTTP/1.1\r\n" H "Content-Length: 18446744073709551616\r\n\r\n",
        CONTENT_LENGTH, 400),
    ROW("a length of 19 digits",
        "POST / HTTP/1.1\r\n" H "Content-Length: 1000000000000000000\r\n\r\n", CONTENT_LENGTH, 400),
    ROW("an empty coding", "POST / HTTP/1.1\r\n" H "Transfer-Encoding:\r\n\r\n", TRANSFER_ENCODING,
        501),
    ROW("gzip, chunked", "POST / HTTP/1.1\r\n" H "Transfer-Encoding: gzip, chunked\r\n\r\n",
        TRANSFER_ENCODING, 501),
    ROW("identity", "POST / HTTP/1.1\r\n" H "Transfer-Encoding: identity\r\n\r\n",
        TRANSFER_ENCODING, 501),
    ROW("a comma after chunked", "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked,\r\n\r\n",
        TRANSFER_ENCODING, 501),
    ROW("chunked followed by a tab", "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\t\r\n\r\n",
        TRANSFER_ENCODING, 501),
    ROW("chunked in quotes", "POST / HTTP/1.1\r\n" H "Transfer-Encoding: \"chunked\"\r\n\r\n",
        TRANSFER_ENCODING, 501),
    ROW("chunked with a parameter",
        "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked;a=b\r\n\r\n", TRANSFER_ENCODING, 501),
    ROW("a Connection that is no list", "GET / HTTP/1.1\r\n" H "Connection: close now\r\n\r\n",
        CONNECTION, 400),
    ROW("a Connection with quotes", "GET / HTTP/1.1\r\n" H "Connection: \"close\"\r\n\r\n",
        CONNECTION, 400),
    ROW("more options in Connection than allowed",
        "GET / HTTP/1.1\r\n" H "Connection: a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a\r\n"
        "Connection: a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a\r\n\r\n",
        CONNECTION, 400),
    ROW("an expectation nobody knows", "POST / HTTP/1.1\r\n" H "Expect: a miracle\r\n\r\n",
        EXPECTATION, 417),
};

static const struct row bad_responses[] = {
    ROW("another protocol", "ICY 200 OK\r\n\r\n", START_LINE, 400),
    ROW("a TLS alert, without a line feed", "\x15\x03\x01", START_LINE, 400),
    ROW("an empty line first", "\r\nHTTP/1.1 200 OK\r\n\r\n", START_LINE, 400),
    ROW("HTTP/2.0", "HTTP/2.0 200 OK\r\n\r\n", VERSION, 505),
    ROW("HTTP/1.x", "HTTP/1.x 200 OK\r\n\r\n", START_LINE, 400),
    ROW("HTTP/1.2", "HTTP/1.2 200 OK\r\n\r\n", VERSION, 505),
    ROW("no status", "HTTP/1.1\r\n\r\n", START_LINE, 400),
    ROW("an empty status", "HTTP/1.1 \r\n\r\n", STATUS, 400),
    ROW("two digits", "HTTP/1.1 20\r\n\r\n", STATUS, 400),
    ROW("four digits", "HTTP/1.1 2000 OK\r\n\r\n", STATUS, 400),
    ROW("a status below 100", "HTTP/1.1 099 x\r\n\r\n", STATUS, 400),
    ROW("two spaces before the status", "HTTP/1.1  200 OK\r\n\r\n", STATUS, 400),
    ROW("a tab after the status", "HTTP/1.1 200\tOK\r\n\r\n", STATUS, 400),
    ROW("a control byte in the reason", "HTTP/1.1 200 O\x01K\r\n\r\n", START_LINE, 400),
    ROW("a carriage return in the reason", "HTTP/1.1 200 O\rK\r\n\r\n", START_LINE, 400),
    ROW("a line feed alone", "HTTP/1.1 200 OK\nX: y\r\n\r\n", LINE_END, 400),
    ROW("a folded line", "HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n", HEADER_FOLD, 400),
    ROW("a NUL", "HTTP/1.1 200 OK\r\nX: a\0\r\n\r\n", HEADER_VALUE, 400),
    ROW("both length and coding",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", FRAMING, 400),
    ROW("a coding in HTTP/1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", FRAMING,
        400),
    ROW("gzip as a coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", TRANSFER_ENCODING,
        501),
    ROW("two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
        CONTENT_LENGTH, 400),
    ROW("101 unasked", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n", SWITCHED, 400),
    ROW("204 with a length", "HTTP/1.1 204 No Content\r\nContent-Length: 1\r\n\r\na",
        BODY_NOT_ALLOWED, 400),
    ROW("204 with chunks", "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n",
        BODY_NOT_ALLOWED, 400),
    ROW("100 with a length", "HTTP/1.1 100 Continue\r\nContent-Length: 1\r\n\r\na",
        BODY_NOT_ALLOWED, 400),
    ROW("a body cut short", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", TRUNCATED, 400),
    ROW("chunks cut short", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n",
        TRUNCATED, 400),
};

static void check_bad(const struct row *rows, size_t count, bool response)
{
    static struct http1_run run;
    for (size_t i = 0; i < count; i++) {
        const struct row *row = &rows[i];
        struct http1_run_input in = {
            .response = response, .at = row->text, .bytes = row->bytes, .eof = response};
        const char *what;
        size_t split;
        CHECK_MSG(http1_run_splits(&run, &in, 1, &what, &split), "%s: %s differs at %zu", row->name,
                  what, split);
        CHECK_MSG(run.answer == WEIR_HTTP_BAD, "%s: answer %d", row->name, run.answer);
        CHECK_MSG(run.fault == row->fault, "%s: %s", row->name, weir_http_fault_label(run.fault));
        CHECK_INT(weir_http_fault_status(run.fault), row->status);
    }
}

static void http1__the_nineteen_bad_messages__are_refused(void **state)
{
    (void)state;
    CHECK_INT(WEIR_COUNT(nineteen), 19);
    check_bad(nineteen, WEIR_COUNT(nineteen), false);
}

static void http1__bad_requests__are_refused_with_their_fault(void **state)
{
    (void)state;
    check_bad(bad_requests, WEIR_COUNT(bad_requests), false);
}

static void http1__bad_responses__are_refused_with_their_fault(void **state)
{
    (void)state;
    check_bad(bad_responses, WEIR_COUNT(bad_responses), true);
}

/* Runs a message at every split; it must be complete. */
static void run_good(struct http1_run *run, struct http1_run_input in)
{
    const char *what;
    size_t split;
    CHECK_MSG(http1_run_splits(run, &in, 1, &what, &split), "%.40s: %s differs at %zu", in.at, what,
              split);
    CHECK_MSG(run->answer == WEIR_HTTP_DONE, "%.200s: %d %s", in.at, run->answer,
              weir_http_fault_label(run->fault));
}

static void run_request(struct http1_run *run, const char *text)
{
    run_good(run, (struct http1_run_input){.at = text, .bytes = strlen(text)});
}

static void run_response(struct http1_run *run, enum weir_http_method method, const char *text)
{
    run_good(
        run,
        (struct http1_run_input){
            .response = true, .method = method, .at = text, .bytes = strlen(text), .eof = true});
}

#define CHECK_SLICE(got, want)                                                                     \
    do {                                                                                           \
        struct weir_slice check_slice = (got);                                                     \
        CHECK_MEM(check_slice.at, check_slice.bytes, want, sizeof(want) - 1);                      \
    } while (0)

static void http1__a_chat_request__is_read_field_by_field(void **state)
{
    (void)state;
    static struct http1_run run;
    static const char text[] = "POST /v1/chat/completions?beta=1 HTTP/1.1\r\n"
                               "Host: api.example:8765\r\n"
                               "authorization:Bearer wk_1\r\n"
                               "X-Empty:\r\n"
                               "X-Tabs: \t a \t b \t\r\n"
                               "CONTENT-LENGTH:  0005  \r\n"
                               "Expect: 100-Continue\r\n"
                               "X-Stainless-Timeout: 600\r\n"
                               "\r\n"
                               "hello"
                               "GET / HT"; /* the next message is not looked at */
    run_request(&run, text);
    const struct weir_http_head *head = &run.head;
    CHECK_INT(run.consumed, sizeof text - 1 - 8);
    CHECK_MEM(run.body, run.body_bytes, "hello", 5);
    CHECK_INT(head->method, WEIR_HTTP_POST);
    CHECK_INT(head->version_minor, 1);
    CHECK_INT(head->framing, WEIR_HTTP_FRAMING_LENGTH);
    CHECK_INT(head->content_length, 5);
    CHECK(head->keep_alive && head->expect_continue && !head->upgrade && !head->interim);
    CHECK_SLICE(weir_http_text(head, head->target), "/v1/chat/completions?beta=1");
    CHECK_SLICE(weir_http_text(head, head->path), "/v1/chat/completions?beta=1");
    CHECK_SLICE(weir_http_text(head, head->authority), "api.example:8765");
    CHECK_INT(head->header_count, 7);
    CHECK_SLICE(weir_http_header_name(head, 4), "CONTENT-LENGTH");
    CHECK_SLICE(weir_http_header_value(head, 4), "0005");
    CHECK_SLICE(weir_http_value(head, WEIR_HTTP_AUTHORIZATION), "Bearer wk_1");
    CHECK_SLICE(weir_http_value(head, WEIR_HTTP_X_STAINLESS_TIMEOUT), "600");
    CHECK_SLICE(weir_http_value_by_text(head, WEIR_SLICE("x-empty")), "");
    CHECK_SLICE(weir_http_value_by_text(head, WEIR_SLICE("x-TABS")), "a \t b");
    CHECK(weir_http_value_by_text(head, WEIR_SLICE("x-tab")).at == NULL);
    CHECK(weir_http_value(head, WEIR_HTTP_COOKIE).at == NULL);
    CHECK_INT(weir_http_find(head, WEIR_HTTP_COOKIE), WEIR_NONE);
}

static void http1__targets__are_split_into_authority_and_path(void **state)
{
    (void)state;
    static const struct {
        const char *text, *authority, *path;
    } rows[] = {
        {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "x", "/"},
        {"GET /?a=b?c=[d] HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", "[::1]:80", "/?a=b?c=[d]"},
        {"GET http://a.b:80/v1/x?y HTTP/1.1\r\nHost: other\r\n\r\n", "a.b:80", "/v1/x?y"},
        {"GET HTTPS://a HTTP/1.1\r\nHost: a\r\n\r\n", "a", "/"},
        {"GET http://a HTTP/1.1\r\nHost: a\r\n\r\n", "a", "/"},
        {"GET http://a/ HTTP/1.0\r\n\r\n", "a", "/"},
        {"OPTIONS * HTTP/1.1\r\nHost:\r\n\r\n", "", "*"},
        {"GET /v1 HTTP/1.0\r\n\r\n", "", "/v1"},
        {"\r\nGET /v1 HTTP/1.1\r\nHost: x\r\n\r\n", "x", "/v1"},
    };
    static struct http1_run run;
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        run_request(&run, rows[i].text);
        struct weir_slice path = weir_http_text(&run.head, run.head.path);
        struct weir_slice authority = weir_http_text(&run.head, run.head.authority);
        CHECK_MEM(path.at, path.bytes, rows[i].path, strlen(rows[i].path));
        CHECK_MEM(authority.at, authority.bytes, rows[i].authority, strlen(rows[i].authority));
    }
}

static void http1__keep_alive__follows_version_and_connection(void **state)
{
    (void)state;
    static const struct {
        const char *line, *connection;
        bool keep_alive;
    } rows[] = {
        {"GET / HTTP/1.1\r\n", "", true},
        {"GET / HTTP/1.1\r\n", "Connection: close\r\n", false},
        {"GET / HTTP/1.1\r\n", "Connection: Keep-Alive\r\n", true},
        {"GET / HTTP/1.1\r\n", "Connection: keep-alive, CLOSE\r\n", false},
        {"GET / HTTP/1.1\r\n", "Connection: foo\r\nConnection: ,, close ,\r\n", false},
        {"GET / HTTP/1.1\r\n", "Connection: closed\r\n", true},
        {"GET / HTTP/1.1\r\n", "Connection:\r\n", true},
        {"GET / HTTP/1.1\r\n", "Proxy-Connection: close\r\n", true},
        {"GET / HTTP/1.0\r\n", "", false},
        {"GET / HTTP/1.0\r\n", "Connection: keep-alive\r\n", true},
        {"GET / HTTP/1.0\r\n", "Connection: keep-alive, close\r\n", false},
        {"GET / HTTP/1.0\r\n", "Proxy-Connection: keep-alive\r\n", false},
    };
    static struct http1_run run;
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        char text[200];
        snprintf(text, sizeof text, "%sHost: x\r\n%s\r\n", rows[i].line, rows[i].connection);
        run_request(&run, text);
        CHECK_MSG(run.head.keep_alive == rows[i].keep_alive, "row %zu", i);
    }
}

static void http1__expect__asks_only_where_a_body_will_come_in_1_1(void **state)
{
    (void)state;
    static struct http1_run run;
    run_request(&run, "POST / HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 1\r\n\r\na");
    CHECK(run.head.expect_continue);
    run_request(&run, "POST / HTTP/1.1\r\n" H "Expect: 100-continue\r\n"
                      "Transfer-Encoding: Chunked\r\n\r\n0\r\n\r\n");
    CHECK(run.head.expect_continue);
    run_request(&run, "POST / HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 0\r\n\r\n");
    CHECK(!run.head.expect_continue);
    run_request(&run, "GET / HTTP/1.1\r\n" H "Expect: 100-continue\r\n\r\n");
    CHECK(!run.head.expect_continue);
    run_request(&run, "POST / HTTP/1.0\r\nExpect: a miracle\r\nContent-Length: 1\r\n\r\na");
    CHECK(!run.head.expect_continue);
}

static void http1__upgrade__is_reported_and_hop_by_hop(void **state)
{
    (void)state;
    static struct http1_run run;
    run_request(&run, "GET / HTTP/1.1\r\n" H "Connection: Upgrade, HTTP2-Settings\r\n"
                      "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n");
    CHECK(run.head.upgrade && run.head.keep_alive);
    CHECK(!weir_http_is_hop(&run.head, 0));
    for (uint32_t i = 1; i < run.head.header_count; i++)
        CHECK(weir_http_is_hop(&run.head, i));
}

static void http1__hop_by_hop__is_the_fixed_set_and_what_connection_lists(void **state)
{
    (void)state;
    static struct http1_run run;
    run_request(&run, "GET / HTTP/1.1\r\n" H "X-One: 1\r\nx-two: 2\r\nConnection: X-ONE\r\n"
                      "Keep-Alive: timeout=5\r\nProxy-Authorization: a\r\nProxy-Authenticate: b\r\n"
                      "Proxy-Connection: close\r\nTE: trailers\r\nTrailer: x\r\nUpgrade: a\r\n"
                      "Connection: close, x-two\r\nX-Two: again\r\nX-Three: 3\r\n"
                      "Authorization: b\r\n\r\n");
    static const bool hop[] = {false, true, true, true, true, true,  true, true,
                               true,  true, true, true, true, false, false};
    CHECK_INT(run.head.header_count, WEIR_COUNT(hop));
    for (uint32_t i = 0; i < WEIR_COUNT(hop); i++)
        CHECK_MSG(weir_http_is_hop(&run.head, i) == hop[i], "header %u", i);
}

static void http1__repeated_names__are_told_and_found(void **state)
{
    (void)state;
    static struct http1_run run;
    run_request(&run, "GET / HTTP/1.1\r\n" H "X-Api-Key: a\r\nX-Other: 1\r\nx-api-key: b\r\n"
                      "X-Other: 2\r\nAuthorization: c\r\n\r\n");
    CHECK(run.head.repeated == WEIR_HTTP_BIT(WEIR_HTTP_X_API_KEY));
    uint32_t i = weir_http_find(&run.head, WEIR_HTTP_X_API_KEY);
    CHECK_INT(i, 1);
    CHECK_INT(i = weir_http_find_next(&run.head, WEIR_HTTP_X_API_KEY, i), 3);
    CHECK_INT(weir_http_find_next(&run.head, WEIR_HTTP_X_API_KEY, i), WEIR_NONE);
}

static void http1__framing_of_responses__follows_status_and_method(void **state)
{
    (void)state;
    static const struct {
        enum weir_http_method method;
        const char *text;
        enum weir_http_framing framing;
        bool keep_alive;
        const char *body;
    } rows[] = {
        {WEIR_HTTP_GET, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", WEIR_HTTP_FRAMING_LENGTH,
         true, "ab"},
        {WEIR_HTTP_GET, "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", WEIR_HTTP_FRAMING_LENGTH, true,
         ""},
        {WEIR_HTTP_GET, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
         WEIR_HTTP_FRAMING_CHUNKED, true, "ab"},
        {WEIR_HTTP_GET, "HTTP/1.1 200 OK\r\n\r\nab", WEIR_HTTP_FRAMING_CLOSE, false, "ab"},
        {WEIR_HTTP_GET, "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n",
         WEIR_HTTP_FRAMING_CLOSE, false, ""},
        {WEIR_HTTP_GET, "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\na",
         WEIR_HTTP_FRAMING_LENGTH, true, "a"},
        {WEIR_HTTP_GET, "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", WEIR_HTTP_FRAMING_LENGTH,
         false, "a"},
        {WEIR_HTTP_HEAD, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", WEIR_HTTP_FRAMING_NONE,
         true, ""},
        {WEIR_HTTP_HEAD, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
         WEIR_HTTP_FRAMING_NONE, true, ""},
        {WEIR_HTTP_HEAD, "HTTP/1.1 200 OK\r\n\r\n", WEIR_HTTP_FRAMING_NONE, true, ""},
        {WEIR_HTTP_GET, "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
         WEIR_HTTP_FRAMING_NONE, true, ""},
        {WEIR_HTTP_GET, "HTTP/1.1 204 No Content\r\n\r\n", WEIR_HTTP_FRAMING_NONE, true, ""},
        {WEIR_HTTP_GET, "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n",
         WEIR_HTTP_FRAMING_NONE, true, ""},
        {WEIR_HTTP_POST,
         "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
         "HTTP/1.1 529 Overloaded\r\nContent-Length: 1\r\nRetry-After: 3\r\n\r\na",
         WEIR_HTTP_FRAMING_LENGTH, true, "a"},
    };
    static struct http1_run run;
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        run_response(&run, rows[i].method, rows[i].text);
        CHECK_MSG(run.head.framing == rows[i].framing, "row %zu: %d", i, run.head.framing);
        CHECK_MSG(run.head.keep_alive == rows[i].keep_alive, "row %zu", i);
        CHECK_MEM(run.body, run.body_bytes, rows[i].body, strlen(rows[i].body));
        CHECK_INT(run.consumed, strlen(rows[i].text));
    }
    CHECK_INT(run.head.status, 529);
    CHECK_INT(run.interims, 2);
    CHECK_SLICE(weir_http_text(&run.head, run.head.reason), "Overloaded");
    CHECK_SLICE(weir_http_value(&run.head, WEIR_HTTP_RETRY_AFTER), "3");
}

/* --- limits -------------------------------------------------------------------------------------
 */

static char big[1 << 18];

static size_t append(size_t at, const char *text)
{
    size_t bytes = strlen(text);
    CHECK(bytes <= sizeof big - at);
    memcpy(big + at, text, bytes);
    return at + bytes;
}

/* Whole and in pieces of 1,000; a head of this size at every split would take minutes. */
static void run_big(struct http1_run *run, size_t bytes, size_t head_bytes_max)
{
    static struct http1_run pieces;
    const char *what;
    struct http1_run_input in = {.at = big, .bytes = bytes, .head_bytes_max = head_bytes_max};
    http1_run(run, &in, HTTP1_RUN_WHOLE, HTTP1_RUN_WHOLE);
    http1_run(&pieces, &in, 1, 1000);
    CHECK_MSG(http1_run_same(run, &pieces, &what), "%s", what);
}

static void http1__head_limit__is_exact(void **state)
{
    (void)state;
    static struct http1_run run;
    static const char text[] = "GET / HTTP/1.1\r\n" H "\r\n";
    struct http1_run_input in = {.at = text, .bytes = sizeof text - 1};
    const char *what;
    size_t split;
    in.head_bytes_max = in.bytes;
    CHECK(http1_run_splits(&run, &in, 1, &what, &split));
    CHECK_INT(run.answer, WEIR_HTTP_DONE);
    in.head_bytes_max = in.bytes - 1;
    CHECK(http1_run_splits(&run, &in, 1, &what, &split));
    CHECK_INT(run.fault, WEIR_HTTP_FAULT_HEAD_TOO_LARGE);
    in.head_bytes_max = 10; /* not even the first line */
    CHECK(http1_run_splits(&run, &in, 1, &what, &split));
    CHECK_INT(run.fault, WEIR_HTTP_FAULT_TARGET_TOO_LONG);
    CHECK_INT(weir_http_fault_status(run.fault), 414);
}

static void http1__a_big_cookie__fits_in_64_kib(void **state)
{
    (void)state;
    static struct http1_run run;
    size_t at = append(0, "GET / HTTP/1.1\r\n" H "Cookie: ");
    memset(big + at, 'c', 60000);
    size_t bytes = append(at + 60000, "\r\n\r\n");
    run_big(&run, bytes, WEIR_HTTP_HEAD_BYTES_DEFAULT);
    CHECK_INT(run.answer, WEIR_HTTP_DONE);
    CHECK_INT(weir_http_value(&run.head, WEIR_HTTP_COOKIE).bytes, 60000);
    run_big(&run, bytes, 60000);
    CHECK_INT(run.fault, WEIR_HTTP_FAULT_HEAD_TOO_LARGE);
    CHECK_INT(weir_http_fault_status(run.fault), 431);
}

static void http1__target_limit__is_exact(void **state)
{
    (void)state;
    static struct http1_run run;
    for (size_t extra = 0; extra < 2; extra++) {
        size_t at = append(0, "GET ");
        memset(big + at, '/', WEIR_HTTP_TARGET_BYTES_MAX + extra);
        size_t bytes = append(at + WEIR_HTTP_TARGET_BYTES_MAX + extra, " HTTP/1.1\r\n" H "\r\n");
        run_big(&run, bytes, 0);
        CHECK_INT(run.fault, extra ? WEIR_HTTP_FAULT_TARGET_TOO_LONG : WEIR_HTTP_FAULT_NONE);
    }
}

static void http1__header_count_limit__is_exact(void **state)
{
    (void)state;
    static struct http1_run run;
    for (int extra = 0; extra < 2; extra++) {
        size_t at = append(0, "GET / HTTP/1.1\r\n" H);
        for (int i = 1; i < WEIR_HTTP_HEADERS_MAX + extra; i++)
            at = append(at, "A: b\r\n");
        run_big(&run, append(at, "\r\n"), 0);
        CHECK_INT(run.fault, extra ? WEIR_HTTP_FAULT_HEADERS_TOO_MANY : WEIR_HTTP_FAULT_NONE);
        if (!extra)
            CHECK_INT(run.head.header_count, WEIR_HTTP_HEADERS_MAX);
    }
}

static void http1__name_length_limit__is_exact(void **state)
{
    (void)state;
    static struct http1_run run;
    for (size_t extra = 0; extra < 2; extra++) {
        size_t at = append(0, "GET / HTTP/1.1\r\n" H);
        memset(big + at, 'n', WEIR_HTTP_NAME_BYTES_MAX + extra);
        run_big(&run, append(at + WEIR_HTTP_NAME_BYTES_MAX + extra, ": x\r\n\r\n"), 0);
        CHECK_INT(run.fault, extra ? WEIR_HTTP_FAULT_HEAD_TOO_LARGE : WEIR_HTTP_FAULT_NONE);
    }
}

static void http1__no_line_feed_ever__is_refused_at_the_limit(void **state)
{
    (void)state;
    static struct http1_run run;
    memset(big, 'A', sizeof big);
    run_big(&run, 65535, 0);
    CHECK_INT(run.answer, WEIR_HTTP_MORE);
    run_big(&run, 65536, 0);
    CHECK_INT(run.fault, WEIR_HTTP_FAULT_TARGET_TOO_LONG);
}

/* --- memory -------------------------------------------------------------------------------------
 */

static void http1__the_search_for_the_end__never_goes_back(void **state)
{
    (void)state;
    static struct weir_http_head head;
    static const char text[] = "GET / HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n";
    char buf[sizeof text];
    size_t scanned = 0;
    memcpy(buf, text, sizeof text);
    for (size_t given = 1; given < sizeof text - 1; given++) {
        CHECK_INT(weir_http_request_parse(buf, given, 65536, &scanned, &head), WEIR_HTTP_MORE);
        CHECK_INT(scanned, given);
        /* Only the last two bytes before are needed again, and the first tells the protocol. */
        if (given > 3)
            memset(buf + 1, 'z', given - 3);
    }
    memcpy(buf, text, sizeof text);
    CHECK_INT(weir_http_request_parse(buf, sizeof text - 1, 65536, &scanned, &head),
              WEIR_HTTP_DONE);
}

static void http1__a_head__stays_right_when_its_buffer_moves(void **state)
{
    (void)state;
    static struct weir_http_head head;
    char here[] = "GET /v1 HTTP/1.1\r\nHost: x\r\nX-Api-Key: k\r\n\r\n", there[sizeof here];
    size_t scanned = 0;
    CHECK_INT(weir_http_request_parse(here, sizeof here - 1, 65536, &scanned, &head),
              WEIR_HTTP_DONE);
    memcpy(there, here, sizeof here);
    memset(here, 0, sizeof here);
    head.base = there;
    CHECK_SLICE(weir_http_text(&head, head.path), "/v1");
    CHECK_SLICE(weir_http_value(&head, WEIR_HTTP_X_API_KEY), "k");
}

/* Two pages, the second not readable; every row and every beginning of it is placed right before.
 */
static void http1__no_byte_after_the_input__is_ever_read(void **state)
{
    (void)state;
    static struct http1_run run;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED);
    CHECK_INT(mprotect(pages + page, page, PROT_NONE), 0);
    const struct {
        const struct row *rows;
        size_t count;
        bool response;
    } tables[] = {
        {nineteen, WEIR_COUNT(nineteen), false},
        {bad_requests, WEIR_COUNT(bad_requests), false},
        {bad_responses, WEIR_COUNT(bad_responses), true},
    };
    for (size_t t = 0; t < WEIR_COUNT(tables); t++) {
        for (size_t i = 0; i < tables[t].count; i++) {
            const struct row *row = &tables[t].rows[i];
            for (size_t bytes = 0; bytes <= row->bytes; bytes++) {
                char *at = pages + page - bytes;
                memcpy(at, row->text, bytes);
                struct http1_run_input in = {
                    .response = tables[t].response, .at = at, .bytes = bytes, .eof = true};
                http1_run(&run, &in, HTTP1_RUN_WHOLE, HTTP1_RUN_WHOLE);
            }
        }
    }
    CHECK_INT(munmap(pages, 2 * page), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(http1__the_nineteen_bad_messages__are_refused),
        cmocka_unit_test(http1__bad_requests__are_refused_with_their_fault),
        cmocka_unit_test(http1__bad_responses__are_refused_with_their_fault),
        cmocka_unit_test(http1__a_chat_request__is_read_field_by_field),
        cmocka_unit_test(http1__targets__are_split_into_authority_and_path),
        cmocka_unit_test(http1__keep_alive__follows_version_and_connection),
        cmocka_unit_test(http1__expect__asks_only_where_a_body_will_come_in_1_1),
        cmocka_unit_test(http1__upgrade__is_reported_and_hop_by_hop),
        cmocka_unit_test(http1__hop_by_hop__is_the_fixed_set_and_what_connection_lists),
        cmocka_unit_test(http1__repeated_names__are_told_and_found),
        cmocka_unit_test(http1__framing_of_responses__follows_status_and_method),
        cmocka_unit_test(http1__head_limit__is_exact),
        cmocka_unit_test(http1__a_big_cookie__fits_in_64_kib),
        cmocka_unit_test(http1__target_limit__is_exact),
        cmocka_unit_test(http1__header_count_limit__is_exact),
        cmocka_unit_test(http1__name_length_limit__is_exact),
        cmocka_unit_test(http1__no_line_feed_ever__is_refused_at_the_limit),
        cmocka_unit_test(http1__the_search_for_the_end__never_goes_back),
        cmocka_unit_test(http1__a_head__stays_right_when_its_buffer_moves),
        cmocka_unit_test(http1__no_byte_after_the_input__is_ever_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
