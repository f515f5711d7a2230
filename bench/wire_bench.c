/* wire_bench: what the parsers of src/wire cost, on this machine.
 *
 *   meson setup build-bench -Dbench=true && ninja -C build-bench && build-bench/bench/wire_bench
 *
 * Rows and how they are measured: bench/measure.h. Bodies are made here: prose with escapes and some
 * UTF-8, as chat bodies are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"
#include "wire/request.h"
#include "wire/sse_edit.h"
#include "wire/usage.h"

/* --- Requests --- */

struct body {
    char *text;
    size_t bytes;
    enum weir_api api;
    struct weir_request_facts facts;
};

static void read_body(void *arg)
{
    struct body *b = arg;
    if (weir_request_read(&b->facts, b->api, b->text, b->bytes) != WEIR_REQUEST_OK)
        abort();
}

static struct body chat_body(size_t bytes, const char *sentence)
{
    struct body b = {.text = malloc(bytes + 1024), .api = WEIR_API_OPENAI_CHAT};
    if (!b.text)
        abort();
    size_t at =
        (size_t)sprintf(b.text, "{\"model\":\"gpt-4.1-mini\",\"stream\":true,\"max_tokens\":"
                                "256,\"temperature\":0.7,\"user\":\"seat-07\",\"messages\":"
                                "[{\"role\":\"system\",\"content\":\"Answer briefly.\"}");
    while (at < bytes) {
        at += (size_t)sprintf(b.text + at, ",{\"role\":\"user\",\"content\":\"");
        for (int i = 0; i < 6; i++)
            at += (size_t)sprintf(b.text + at, "%s", sentence);
        at += (size_t)sprintf(b.text + at, "\"}");
    }
    at += (size_t)sprintf(b.text + at, "]}");
    b.bytes = at;
    return b;
}

static void bench_requests(void)
{
    static const char prose[] = "The ferry to the island leaves at 7:05 \\u2014 bring 3 euros in "
                                "coins, and a warm coat.\\n";
    static const char plain[] = "The ferry to the island leaves at 7:05, so bring three euros in "
                                "coins and a warm coat. ";
    static const char chinese[] = "\xe6\xb8\xa1\xe8\xbd\xae\xe4\xb8\x83\xe7\x82\xb9\xe4\xba\x94"
                                  "\xe5\x88\x86\xe5\xbc\x80\xe8\xb5\xb0\xe3\x80\x82";
    static const size_t sizes[] = {1500, 20000, 200000};
    for (size_t i = 0; i < WEIR_COUNT(sizes); i++) {
        struct body b = chat_body(sizes[i], prose);
        char name[64];
        snprintf(name, sizeof name, "request facts, prose with escapes, %zu", sizes[i]);
        bench_row(name, read_body, &b, b.bytes);
        free(b.text);
    }
    struct body b = chat_body(1500, plain);
    bench_row("request facts, plain prose", read_body, &b, b.bytes);
    free(b.text);
    b = chat_body(1800, chinese);
    bench_row("request facts, Chinese", read_body, &b, b.bytes);
    free(b.text);
}

/* --- Responses --- */

struct response {
    const char *text;
    size_t bytes;
    enum weir_api api;
    bool stream;
    struct weir_usage usage;
    struct weir_sse_edit edit;
    uint8_t out[65536 + WEIR_SSE_EDIT_HOLD];
};

static void read_response(void *arg)
{
    struct response *r = arg;
    weir_usage_init(&r->usage, r->api, r->stream);
    weir_usage_feed(&r->usage, r->text, r->bytes);
    weir_usage_finish(&r->usage);
    if (!r->stream && r->usage.seen.output_total_tok != 46)
        abort();
}

/* One event of a stream that goes on: no start, no end. */
static void read_event(void *arg)
{
    struct response *r = arg;
    weir_usage_feed(&r->usage, r->text, r->bytes);
}

static void edit_event(void *arg)
{
    struct response *r = arg;
    if (weir_sse_edit_feed(&r->edit, r->text, r->bytes, r->out) == 0)
        abort();
}

static void bench_responses(void)
{
    static const char body[] =
        "{\"id\":\"chatcmpl-Fw0rthPassage0001\",\"object\":\"chat.completion\",\"created\":"
        "1764460800,"
        "\"model\":\"gpt-4.1-mini-2025-04-14\",\"choices\":[{\"index\":0,\"message\":{\"role\":"
        "\"assistant\",\"content\":\"The ferry to the island leaves at 7:05, so bring three euros "
        "in "
        "coins and a warm coat.\\nIt comes back at nine.\",\"refusal\":null,\"annotations\":[]},"
        "\"logprobs\":null,\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":1187,"
        "\"completion_tokens\":46,\"total_tokens\":1233,\"prompt_tokens_details\":{\"cached_"
        "tokens\":"
        "1024,\"audio_tokens\":0},\"completion_tokens_details\":{\"reasoning_tokens\":0,"
        "\"audio_tokens\":0}},\"service_tier\":\"default\",\"system_fingerprint\":\"fp_"
        "3f1e2d4c5b\"}";
    static const char chat[] =
        "data: {\"id\":\"chatcmpl-Fw0rthPassage0001\",\"object\":\"chat.completion.chunk\","
        "\"created\":1764460800,\"model\":\"gpt-4.1-mini-2025-04-14\",\"service_tier\":\"default\","
        "\"system_fingerprint\":\"fp_3f1e2d4c5b\",\"choices\":[{\"index\":0,\"delta\":{\"content\":"
        "\" ferry\"},\"logprobs\":null,\"finish_reason\":null}],\"usage\":null,\"obfuscation\":"
        "\"xxxxxxx\"}\n\n";
    static const char anthropic[] = "event: content_block_delta\ndata: "
                                    "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{"
                                    "\"type\":\"text_delta\",\"text\":\" ferry\"}}\n\n";
    static struct response r;
    r.text = body;
    r.bytes = sizeof body - 1;
    bench_row("usage of a whole chat body", read_response, &r, r.bytes);
    r.stream = true;
    r.text = chat;
    r.bytes = sizeof chat - 1;
    weir_usage_init(&r.usage, r.api, true);
    bench_row("usage observer, one chat event", read_event, &r, r.bytes);
    weir_sse_edit_init(&r.edit);
    bench_row("include_usage filter, one chat event", edit_event, &r, r.bytes);
    r.text = anthropic;
    r.bytes = sizeof anthropic - 1;
    weir_usage_init(&r.usage, WEIR_API_ANTHROPIC_MESSAGES, true);
    bench_row("usage observer, one Anthropic event", read_event, &r, r.bytes);
}

int main(int argc, char **argv)
{
    bench_begin(argc, argv);
    bench_requests();
    bench_responses();
    return bench_end();
}
