/* Seeded differential test of the HTTP/1.1 layer against llhttp; http1_diff.h has the property.
 *
 * Each case puts a message together from lines that are often right, then damages it up to four
 * times. WEIR_SEED and WEIR_CASES (count) replay or prolong a run. */
#include "support/check.h"

#include <stdlib.h>

#ifdef WEIR_HAVE_LLHTTP

#include "core/base.h"
#include "http1_diff.h"

#define CASES 300000

static uint64_t rng_state;

/* splitmix64 (Steele, Lea, Flood 2014): every seed gives another stream. */
static uint64_t rng(void)
{
    uint64_t z = rng_state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static size_t below(size_t bound)
{
    return (size_t)(rng() % bound);
}

#define PICK(list) (list)[below(WEIR_COUNT(list))]

static const char *const request_lines[] = {
    "GET / HTTP/1.1\r\n",
    "POST /v1/chat/completions HTTP/1.1\r\n",
    "POST /v1/messages HTTP/1.1\r\n",
    "HEAD /?a=b HTTP/1.1\r\n",
    "OPTIONS * HTTP/1.1\r\n",
    "PUT /a HTTP/1.0\r\n",
    "DELETE http://a.b:80/c?d HTTP/1.1\r\n",
    "PATCH https://[::1] HTTP/1.1\r\n",
    "\r\nGET /x HTTP/1.1\r\n",
    "CONNECT a:443 HTTP/1.1\r\n",
    "GET / HTTP/2.0\r\n",
    "GET /\r\n",
    "GET  / HTTP/1.1\r\n",
    "GET /#f HTTP/1.1\r\n",
    "PRI * HTTP/2.0\r\n",
};
static const char *const status_lines[] = {
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.1 200\r\n",
    "HTTP/1.1 200 \r\n",
    "HTTP/1.0 200 OK\r\n",
    "HTTP/1.1 429 Too Many Requests\r\n",
    "HTTP/1.1 204 No Content\r\n",
    "HTTP/1.1 304 Not Modified\r\n",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n",
    "HTTP/1.1 103 Hints\r\nLink: a\r\n\r\nHTTP/1.1 529 Over\tloaded \r\n",
    "HTTP/1.1 101 Switching Protocols\r\n",
    "HTTP/1.1 999 \xc3\xa4\r\n",
    "HTTP/1.2 200 OK\r\n",
    "\r\nHTTP/1.1 200 OK\r\n",
    "HTTP/1.1 99 x\r\n",
};
static const char *const header_lines[] = {
    "Host: x\r\n",
    "Accept: */*\r\n",
    "Authorization: Bearer wk_0123456789\r\n",
    "X-Api-Key:k\r\n",
    "Content-Type: application/json\r\n",
    "Connection: close\r\n",
    "Connection: keep-alive\r\n",
    "connection: Upgrade, x-a\r\n",
    "Connection: keep-alive\t\r\n",
    "Connection: close , a\r\n",
    "Connection: ,, Keep-Alive ,\r\n",
    "Connection: closed\r\n",
    "Connection: close\tx\r\n",
    "Upgrade: websocket\r\n",
    "Upgrade:\r\n",
    "Expect: 100-continue\r\n",
    "X-A: \t b \t \r\n",
    "X-Empty:\r\n",
    "X-Spaces:   \r\n",
    "X-Long: 0123456789abcdef0123456789abcdef0123456789\r\n",
    "X-High: \xc3\xa4\xff\r\n",
    "Proxy-Connection: close\r\n",
    "Keep-Alive: timeout=5\r\n",
    "Transfer-Encodin: chunked\r\n",
    "Content-Lengths: 5\r\n",
    "Connection-X: close\r\n",
    "TE: trailers\r\n",
    "Trailer: X-Sum\r\n",
    "Set-Cookie: a=b\r\n",
    "a: b\r\n",
    "X: a\r\n b\r\n",
    ": a\r\n",
    "X : a\r\n",
    "X\r\n",
    "X: a\rb\r\n",
    "Y: a\n",
};
static const char *const framing_lines[] = {
    "Content-Length: 5\r\n",
    "Content-Length: 5\r\n",
    "Content-Length:5 \r\n",
    "Content-Length: \t005\r\n",
    "Content-Length: 0\r\n",
    "Content-Length: 5\t\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: chunked\r\n",
    "transfer-encoding:  CHUNKED  \r\n",
    "Transfer-Encoding: chunked\t\r\n",
    "Transfer-Encoding: gzip, chunked\r\n",
    "Transfer-Encoding: chunked, chunked\r\n",
    "Transfer-Encoding: identity\r\n",
    "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
    "Content-Length: +5\r\n",
    "Content-Length: 5, 5\r\n",
    "Content-Length: 18446744073709551621\r\n",
    "Content-Length: 5\r\nContent-Length: 5\r\n",
};
static const char *const chunks[] = {
    "5\r\nhello\r\n",     "1\r\na\r\n",     "00002\r\n\r\n\r\n", "A\r\n0123456789\r\n",
    "1;a\r\nb\r\n",       "1;a=b\r\nc\r\n", "1;a=b;c\r\nd\r\n",  "1;a;b=c\r\nd\r\n",
    "1;a=\"b\"\r\nd\r\n", "1;\r\nx\r\n",    "1;=\r\nx\r\n",      "1 \r\nx\r\n",
    "0x1\r\nx\r\n",       "1\nx\r\n",       "1\r\nx\n",          "FFFFFFFFFFFFFFFFF\r\n",
};
static const char *const chunk_ends[] = {
    "0\r\n\r\n",
    "0\r\n\r\n",
    "000\r\n\r\n",
    "0\r\nX-Sum: 1\r\n\r\n",
    "0;last\r\n\r\n",
    "0\r\nContent-Length: 5\r\n\r\n",
    "0\r\nTransfer-Encoding: chunked\r\n\r\n",
    "0\r\nTransfer-Encoding: x\r\n\r\n",
    "0\r\nX: a\r\n b\r\n\r\n",
    "0\r\nX\r\n\r\n",
    "0\r\nConnection: close\r\n\r\n",
    "0\r\nUpgrade: x\r\n\r\n",
    "0\r\n: x\r\n\r\n",
    "0\r\n\n",
};
static const char *const splinters[] = {
    "\r",
    "\n",
    "\r\n",
    " ",
    "\t",
    ":",
    ";",
    ",",
    "=",
    "\"",
    "0",
    "5",
    "a",
    "F",
    "+",
    "-",
    "\x80",
    "\x7f",
    "\x01",
    "/",
    "?",
    "#",
    "*",
    "\r\n\r\n",
    "chunked",
    "close",
    "HTTP/1.1",
    "Host: x\r\n",
    "Content-Length: 5\r\n",
    "Transfer-Encoding: chunked\r\n",
    "\r\n ",
    "0\r\n\r\n",
};

static char text[HTTP1_DIFF_BYTES_MAX];
static size_t text_bytes;

static void add(const char *more)
{
    size_t bytes = strlen(more);
    if (bytes <= sizeof text - text_bytes) {
        memcpy(text + text_bytes, more, bytes);
        text_bytes += bytes;
    }
}

static void make_message(bool response)
{
    text_bytes = 0;
    if (response)
        add(status_lines[below(below(4) ? 9 : WEIR_COUNT(status_lines))]);
    else
        add(request_lines[below(below(4) ? 9 : WEIR_COUNT(request_lines))]);
    if (!response && below(16) > 0)
        add("Host: a.example\r\n");
    /* The first 29 lines are good ones; most messages get only such, so that many are accepted. */
    size_t choices = below(8) ? 29 : WEIR_COUNT(header_lines);
    for (size_t count = below(6); count > 0; count--)
        add(header_lines[1 + below(choices - 1)]);
    size_t framing = below(3);
    if (framing == 0)
        add(framing_lines[below(below(4) ? 5 : WEIR_COUNT(framing_lines))]);
    else if (framing == 1)
        add(below(6) ? "Transfer-Encoding: chunked\r\n" : PICK(framing_lines));
    for (size_t count = below(3); count > 0; count--)
        add(header_lines[1 + below(choices - 1)]);
    add("\r\n");
    if (framing == 0)
        add("hello");
    for (size_t count = framing == 1 ? below(4) : 0; count > 0; count--)
        add(chunks[below(below(12) ? 6 : WEIR_COUNT(chunks))]);
    if (framing == 1)
        add(chunk_ends[below(below(6) ? 5 : WEIR_COUNT(chunk_ends))]);
    if (below(3) == 0)
        add("GET / HTTP/1.1\r\nHost: next\r\n\r\n");
}

static void cut(size_t at, size_t bytes)
{
    memmove(text + at, text + at + bytes, text_bytes - at - bytes);
    text_bytes -= bytes;
}

static void insert(size_t at, const char *more, size_t bytes)
{
    if (bytes > sizeof text - text_bytes)
        return;
    memmove(text + at + bytes, text + at, text_bytes - at);
    memcpy(text + at, more, bytes);
    text_bytes += bytes;
}

static void damage(void)
{
    if (text_bytes < 2)
        return;
    size_t at = below(text_bytes), span = 1 + below(text_bytes - at < 8 ? text_bytes - at : 8);
    char copy[64];
    const char *splinter = PICK(splinters);
    switch (below(7)) {
    case 0:
        text[at] = (char)rng();
        break;
    case 1:
        text[at] = (char)(text[at] ^ (1 << below(8)));
        break;
    case 2:
        cut(at, span);
        break;
    case 3:
        insert(at, splinter, strlen(splinter));
        break;
    case 4: /* a piece again, somewhere else */
        memcpy(copy, text + at, span);
        insert(below(text_bytes), copy, span);
        break;
    case 5: /* a splinter in place of as many bytes */
        if (strlen(splinter) <= text_bytes - at)
            memcpy(text + at, splinter, strlen(splinter));
        break;
    case 6:
        text_bytes = at + 1;
        break;
    }
}

static uint64_t number_of_env(const char *name, uint64_t otherwise)
{
    const char *value = getenv(name);
    return value && *value ? strtoull(value, NULL, 0) : otherwise;
}

/* The message on one line, for the failure report. */
static const char *readable(void)
{
    static char out[400];
    size_t at = 0;
    for (size_t i = 0; i < text_bytes && at < sizeof out - 5; i++) {
        unsigned char byte = (unsigned char)text[i];
        at += (size_t)(byte >= 0x20 && byte < 0x7f
                           ? snprintf(out + at, sizeof out - at, "%c", byte)
                           : snprintf(out + at, sizeof out - at, "\\x%02x", byte));
    }
    return out;
}

static void http1_diff__what_ours_accepts__llhttp_accepts_with_the_same_meaning(void **state)
{
    (void)state;
    static struct http1_run run, split;
    uint64_t seed = number_of_env("WEIR_SEED", 1),
             cases = number_of_env("WEIR_CASES", getenv("WEIR_TEST_LONG") ? 20 * CASES : CASES);
    uint64_t ours_done = 0, both_done = 0, theirs_only = 0, damaged_done = 0;
    for (uint64_t i = 0; i < cases; i++) {
        rng_state = seed + i * UINT64_C(0x9e3779b9);
        bool response = below(2), theirs;
        make_message(response);
        size_t damages = below(5);
        for (size_t k = 0; k < damages; k++)
            damage();
        struct http1_run_input in = {.response = response,
                                     .method = below(8) ? WEIR_HTTP_POST : WEIR_HTTP_HEAD,
                                     .at = text,
                                     .bytes = text_bytes,
                                     .eof = below(2)};
        const char *what;
        CHECK_MSG(http1_diff(&run, &in, &theirs, &what), "%s; WEIR_SEED=%llu WEIR_CASES=1: %s",
                  what, (unsigned long long)(seed + i * UINT64_C(0x9e3779b9)), readable());
        /* Ours against itself: byte by byte, and at one split. */
        http1_run(&split, &in, HTTP1_RUN_BYTE_BY_BYTE, HTTP1_RUN_BYTE_BY_BYTE);
        CHECK_MSG(http1_run_same(&run, &split, &what), "%s byte by byte: %s", what, readable());
        http1_run(&split, &in, 1 + below(text_bytes + 1), HTTP1_RUN_WHOLE);
        CHECK_MSG(http1_run_same(&run, &split, &what), "%s at a split: %s", what, readable());
        ours_done += run.answer == WEIR_HTTP_DONE;
        both_done += run.answer == WEIR_HTTP_DONE && theirs;
        theirs_only += run.answer == WEIR_HTTP_BAD && theirs;
        damaged_done += run.answer == WEIR_HTTP_DONE && damages > 0;
    }
    print_message("# %llu cases: both accept %llu (%llu of them damaged), llhttp alone %llu\n",
                  (unsigned long long)cases, (unsigned long long)both_done,
                  (unsigned long long)damaged_done, (unsigned long long)theirs_only);
    CHECK_INT(ours_done, both_done);
    /* A run in which little is accepted would prove little. */
    if (cases >= 1000) {
        CHECK(both_done > cases / 8);
        CHECK(damaged_done > cases / 50);
        CHECK(theirs_only > cases / 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(http1_diff__what_ours_accepts__llhttp_accepts_with_the_same_meaning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    puts("1..0 # SKIP llhttp is not installed (Debian: node-llhttp); nothing to compare with");
    return 0;
}

#endif
