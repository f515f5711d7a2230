/* http1_bench: what the HTTP/1.1 layer of src/net costs, on this machine.
 *
 *   meson setup build-bench -Dbench=true && ninja -C build-bench && build-bench/bench/http1_bench
 *
 * Rows and how they are measured: bench/measure.h. The request is that of a stock SDK with the
 * beginning of its body behind it; the answer is one of the large provider's, with its rate-limit
 * headers; the stream is 20 events, one a chunk. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"
#include "net/http1_body.h"
#include "net/http1_write.h"

static const char request[] =
    "POST /v1/chat/completions HTTP/1.1\r\nHost: api.example.com\r\nAccept: application/json\r\n"
    "Accept-Encoding: gzip, deflate\r\nConnection: keep-alive\r\n"
    "User-Agent: OpenAI/Python 1.40.0\r\nContent-Type: application/json\r\n"
    "Authorization: Bearer wk_0123456789abcdefghijklmnop\r\nX-Stainless-Retry-Count: 0\r\n"
    "Content-Length: 1500\r\n\r\n{\"model\":\"gpt-4o\",\"messages\":[{\"role\":\"user\",";

static const char answer[] =
    "HTTP/1.1 200 OK\r\nDate: Mon, 07 Sep 2026 10:00:00 GMT\r\nContent-Type: application/json\r\n"
    "Transfer-Encoding: chunked\r\nConnection: keep-alive\r\nopenai-organization: org-1\r\n"
    "openai-processing-ms: 512\r\nopenai-version: 2020-10-01\r\n"
    "x-ratelimit-limit-requests: 10000\r\nx-ratelimit-limit-tokens: 2000000\r\n"
    "x-ratelimit-remaining-requests: 9999\r\nx-ratelimit-remaining-tokens: 1999000\r\n"
    "x-ratelimit-reset-requests: 6ms\r\nx-ratelimit-reset-tokens: 30ms\r\n"
    "x-request-id: req_0123456789abcdef0123456789abcdef\r\n"
    "strict-transport-security: max-age=31536000; includeSubDomains; preload\r\n"
    "Server: cloudflare\r\n\r\n";

static struct weir_http_head head;
static char stream[8192];
static size_t stream_bytes;
static size_t sink; /* so that no work is left out */

static void must(bool ok)
{
    if (!ok)
        abort();
}

static void parse_request(void *unused)
{
    (void)unused;
    size_t scanned = 0;
    must(weir_http_request_parse(request, sizeof request - 1, 65536, &scanned, &head) ==
         WEIR_HTTP_DONE);
    sink += head.header_count;
}

static void parse_answer(void *unused)
{
    (void)unused;
    size_t scanned = 0;
    must(weir_http_response_parse(answer, sizeof answer - 1, 65536, WEIR_HTTP_POST, &scanned,
                                  &head) == WEIR_HTTP_DONE);
    sink += head.header_count;
}

/* What a gateway sends on: the head that was parsed last, with another host and credential. */
static void write_request(void *unused)
{
    (void)unused;
    char buf[2048];
    struct weir_http_out out = {.buf = buf, .room = sizeof buf};
    weir_http_write_request(&out, head.method, weir_http_text(&head, head.path));
    weir_http_write_header_text(&out, "host", "api.example.com");
    weir_http_write_header_text(&out, "authorization", "Bearer sk-0123456789abcdefghijklmnop");
    weir_http_write_passed(&out, &head, WEIR_HTTP_BIT(WEIR_HTTP_AUTHORIZATION));
    weir_http_write_content_length(&out, 1500);
    weir_http_write_end(&out);
    must(weir_http_out_ok(&out));
    sink += out.used;
}

static void decode_stream(void *unused)
{
    (void)unused;
    struct weir_http_body body;
    size_t used;
    struct weir_slice data;
    weir_http_body_init(&body, &head, UINT64_MAX);
    for (size_t at = 0; at < stream_bytes; at += used) {
        must(weir_http_body_feed(&body, stream + at, stream_bytes - at, &used, &data) !=
             WEIR_HTTP_BAD);
        sink += data.bytes;
    }
}

int main(int argc, char **argv)
{
    bench_begin(argc, argv);
    parse_request(NULL);
    bench_row("parse a request head", parse_request, NULL, head.head_bytes);
    bench_row("write it for upstream", write_request, NULL, head.head_bytes);
    parse_answer(NULL);
    bench_row("parse a response head", parse_answer, NULL, sizeof answer - 1);
    for (int i = 0; i < 20; i++) {
        static const char event[] =
            "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\","
            "\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word\"}}]}\n\n";
        stream_bytes += weir_http_chunk_head(stream + stream_bytes, sizeof event - 1);
        memcpy(stream + stream_bytes, event, sizeof event - 1);
        memcpy(stream + stream_bytes + sizeof event - 1, WEIR_HTTP_CHUNK_TAIL, 2);
        stream_bytes += sizeof event - 1 + 2;
    }
    memcpy(stream + stream_bytes, WEIR_HTTP_CHUNK_LAST, 5);
    stream_bytes += 5;
    bench_row("decode 20 chunks", decode_stream, NULL, stream_bytes);
    return sink == 0 ? 1 : bench_end();
}
