/* The shortcut for events that come again must never be seen: a stream fed whole (where the
 * shortcut is taken) and byte by byte (where it cannot be) must say the same. Streams are made by
 * chance from events that differ in what matters: text, escapes, quotes, line ends, roles,
 * finishes, tools, indices, errors, usage. */
#include "support/check.h"
#include "core/rng.h"
#include "wire/usage.h"

#include <stdlib.h>

static const char *const texts[] = {
    "a",
    " ferry",
    "",
    "\\n",
    "\\\"x\\\"",
    "p\u00e5",
    "}",
    "\\u00e9",
    "[DONE]",
    "usage",
    "a longer piece of text that goes on for more than sixteen bytes"};
static const char *const ends[] = {"\n", "\r\n", "\r"};

static size_t put_event(char *out, size_t cap, struct weir_rng *rng, unsigned kind, const char *eol)
{
    const char *text = texts[weir_rng_below(rng, WEIR_COUNT(texts))];
    switch (kind) {
    case 0: /* the ordinary one, many times */
        return (size_t)snprintf(
            out, cap,
            "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%s\"},"
            "\"finish_reason\":null}]}%s%s",
            text, eol, eol);
    case 1: /* the same of another choice */
        return (size_t)snprintf(
            out, cap,
            "data: {\"id\":\"c\",\"choices\":[{\"index\":1,\"delta\":{\"content\":\"%s\"},"
            "\"finish_reason\":null}]}%s%s",
            text, eol, eol);
    case 2:
        return (size_t)snprintf(
            out, cap,
            "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%s\"},"
            "\"finish_reason\":\"stop\"}]}%s%s",
            text, eol, eol);
    case 3:
        return (size_t)snprintf(
            out, cap,
            "event: content_block_delta%sdata: {\"type\":\"content_block_delta\",\"index\":0,"
            "\"delta\":{\"type\":\"text_delta\",\"text\":\"%s\"}}%s%s",
            eol, text, eol, eol);
    case 4:
        return (size_t)snprintf(
            out, cap,
            "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":%u,\"completion_tokens\":3}}%s%s",
            (unsigned)weir_rng_below(rng, 99), eol, eol);
    case 5:
        return (size_t)snprintf(out, cap, ": ping%s%s", eol, eol);
    case 6: /* a line end inside the string: two lines, the second of no known field */
        return (size_t)snprintf(
            out, cap,
            "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x%sy\"},"
            "\"finish_reason\":null}]}%s%s",
            eol, eol, eol);
    case 7:
        return (size_t)snprintf(
            out, cap, "data: {\"error\":{\"type\":\"t\",\"message\":\"%s\"}}%s%s", text, eol, eol);
    default:
        return (size_t)snprintf(
            out, cap,
            "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"function\":{\"name\":"
            "\"f\",\"arguments\":\"%s\"}}]}}]}%s%s",
            text, eol, eol);
    }
}

static void usage_again__streams_by_chance__whole_and_bytewise_agree(void **state)
{
    (void)state;
    static char stream[65536];
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        struct weir_rng rng;
        weir_rng_seed(&rng, seed, 0);
        const char *eol = ends[weir_rng_below(&rng, 3)];
        size_t n = 0;
        for (uint64_t i = weir_rng_below(&rng, 40); i > 0; i--) {
            unsigned kind = (unsigned)(weir_rng_below(&rng, 3) ? weir_rng_below(&rng, 2) * 3
                                                               : weir_rng_below(&rng, 9));
            n += put_event(stream + n, sizeof stream - n, &rng, kind, eol);
        }
        struct weir_usage whole, bytewise;
        weir_usage_init(&whole, WEIR_API_OPENAI_CHAT, true);
        weir_usage_init(&bytewise, WEIR_API_OPENAI_CHAT, true);
        weir_usage_feed(&whole, stream, n);
        for (size_t i = 0; i < n; i++)
            weir_usage_feed(&bytewise, stream + i, 1);
        weir_usage_finish(&whole);
        weir_usage_finish(&bytewise);
        CHECK_MSG(memcmp(&whole.seen, &bytewise.seen, sizeof whole.seen) == 0,
                  "seed %llu: events %llu and %llu, output %llu and %llu, text %llu and %llu",
                  (unsigned long long)seed, (unsigned long long)whole.seen.events,
                  (unsigned long long)bytewise.seen.events,
                  (unsigned long long)whole.seen.output_bytes,
                  (unsigned long long)bytewise.seen.output_bytes,
                  (unsigned long long)whole.seen.text_bytes,
                  (unsigned long long)bytewise.seen.text_bytes);
    }
}

static void usage_again__ordinary_events__are_known_again(void **state)
{
    (void)state;
    const uint8_t first[] = "data: {\"delta\":\"one\"}\n\n",
                  second[] = "data: {\"delta\":\"three\"}\n\ndata";
    struct weir_usage_again again = {0};
    uint64_t text_bytes = 0;
    CHECK(!weir_usage_again_match(&again, first, first + sizeof first - 1, &text_bytes));
    weir_usage_again_learn(&again, first, first + sizeof first - 1, first + 16, 3, true);
    const uint8_t *after =
        weir_usage_again_match(&again, second, second + sizeof second - 1, &text_bytes);
    CHECK(after == second + sizeof second - 1 - 4);
    CHECK_INT(text_bytes, 5);
    CHECK(!weir_usage_again_match(&again, second, second + 20, &text_bytes)); /* not all there */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(usage_again__streams_by_chance__whole_and_bytewise_agree),
        cmocka_unit_test(usage_again__ordinary_events__are_known_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
