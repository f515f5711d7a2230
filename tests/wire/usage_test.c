#include "wire/usage.h"

#include <jansson.h>

#include "wire/wire_data.h"

static json_t *expected;

static enum weir_api api_named(const char *name)
{
    for (int api = 0; api < WEIR_API_COUNT; api++)
        if (strcmp(weir_api_name((enum weir_api)api), name) == 0)
            return (enum weir_api)api;
    fail_msg("no API is named %s", name);
    return WEIR_API_OTHER;
}

static uint64_t whole(json_t *row, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(row, key));
}

/* Holds what was seen against the row of expected.json. */
static void check_row(const char *name, json_t *row, const struct weir_usage_seen *seen,
                      const char *how)
{
    json_t *input = json_object_get(row, "input_total"),
           *output = json_object_get(row, "output_total");
    json_t *finish = json_object_get(row, "finish"), *error = json_object_get(row, "error_type");
    CHECK_MSG(seen->complete == json_is_true(json_object_get(row, "complete")), "%s, %s", name,
              how);
    CHECK_MSG(seen->input_known == json_is_integer(input), "%s, %s", name, how);
    CHECK_MSG(seen->output_known == json_is_integer(output), "%s, %s", name, how);
    CHECK_MSG(seen->input_total_tok == (uint64_t)json_integer_value(input), "%s, %s: %llu", name,
              how, (unsigned long long)seen->input_total_tok);
    CHECK_MSG(seen->output_total_tok == (uint64_t)json_integer_value(output), "%s, %s: %llu", name,
              how, (unsigned long long)seen->output_total_tok);
    CHECK_MSG(seen->cache_read_tok == whole(row, "cache_read"), "%s, %s", name, how);
    CHECK_MSG(seen->cache_write_tok == whole(row, "cache_write"), "%s, %s", name, how);
    CHECK_MSG(seen->reasoning_tok == whole(row, "reasoning"), "%s, %s", name, how);
    CHECK_MSG(seen->events == whole(row, "events"), "%s, %s: %llu events", name, how,
              (unsigned long long)seen->events);
    CHECK_MSG(seen->text_bytes == whole(row, "text_bytes"), "%s, %s: %llu text bytes", name, how,
              (unsigned long long)seen->text_bytes);
    CHECK_MSG(seen->output_bytes >= seen->text_bytes, "%s, %s", name, how);
    CHECK_MSG(strcmp(seen->finish, json_is_string(finish) ? json_string_value(finish) : "") == 0,
              "%s, %s: finish %s", name, how, seen->finish);
    if (json_is_string(error)) {
        CHECK_MSG(seen->error, "%s, %s", name, how);
        CHECK_MSG(strcmp(seen->error_type, json_string_value(error)) == 0, "%s, %s: error %s", name,
                  how, seen->error_type);
    }
    json_t *uncached = json_object_get(row, "uncached_input");
    if (uncached)
        CHECK_MSG(seen->input_total_tok - seen->cache_read_tok - seen->cache_write_tok ==
                      (uint64_t)json_integer_value(uncached),
                  "%s, %s", name, how);
}

/* Feeds the pieces [0, a), [a, b), [b, n). */
static struct weir_usage feed_pieces(enum weir_api api, bool stream, const uint8_t *p, size_t n,
                                     size_t a, size_t b)
{
    struct weir_usage u;
    weir_usage_init(&u, api, stream);
    weir_usage_feed(&u, p, a);
    weir_usage_feed(&u, p + a, b - a);
    weir_usage_feed(&u, p + b, n - b);
    weir_usage_finish(&u);
    return u;
}

static void samples__fed_whole_bytewise_and_at_every_split__give_the_expected_totals(void **state)
{
    (void)state;
    const char *name;
    json_t *row;
    size_t rows = 0;
    json_object_foreach(expected, name, row)
    {
        struct wire_bytes b = wire_load(name);
        enum weir_api api = api_named(json_string_value(json_object_get(row, "api")));
        bool stream = strncmp(name, "stream/", 7) == 0;
        struct weir_usage u = feed_pieces(api, stream, b.at, b.n, b.n, b.n);
        check_row(name, row, &u.seen, "whole");
        for (size_t a = 1; a < b.n; a++) {
            char how[64];
            snprintf(how, sizeof how, "split at %zu", a);
            u = feed_pieces(api, stream, b.at, b.n, a, a);
            check_row(name, row, &u.seen, how);
        }
        weir_usage_init(&u, api, stream);
        for (size_t i = 0; i < b.n; i++) {
            struct wire_bytes one = wire_copy(b.at + i, 1);
            weir_usage_feed(&u, one.at, 1);
            free(one.at);
        }
        weir_usage_finish(&u);
        check_row(name, row, &u.seen, "byte by byte");
        uint64_t seed = 7;
        for (int i = 0; i < 400; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            size_t a2 = (seed >> 33) % (b.n + 1), b2 = a2 + (seed >> 17) % (b.n + 1 - a2);
            char how[64];
            snprintf(how, sizeof how, "split at %zu and %zu", a2, b2);
            u = feed_pieces(api, stream, b.at, b.n, a2, b2);
            check_row(name, row, &u.seen, how);
        }
        free(b.at);
        rows++;
    }
    CHECK_INT(rows, 22);
}

static struct weir_usage feed_text(enum weir_api api, bool stream, const char *text)
{
    struct wire_bytes b = wire_copy(text, strlen(text));
    struct weir_usage u = feed_pieces(api, stream, b.at, b.n, b.n, b.n);
    for (size_t a = 0; a <= b.n; a++) {
        struct weir_usage v = feed_pieces(api, stream, b.at, b.n, a, a);
        CHECK_MSG(memcmp(&u.seen, &v.seen, offsetof(struct weir_usage_seen, finish)) == 0,
                  "split at %zu of: %s", a, text);
    }
    free(b.at);
    return u;
}

static void stream__comments_bom_unknown_fields_and_data_in_pieces__are_read(void **state)
{
    (void)state;
    struct weir_usage u = feed_text(WEIR_API_OPENAI_CHAT, true,
                                    "\xef\xbb\xbf: hello\n\nretry: 10\nid: 7\n"
                                    "data:{\"choices\":[],\ndata: \"usage\":{\"prompt_tokens\":3,\n"
                                    "data:\"completion_tokens\":4}}\n\ndata: [DONE]\n\n");
    CHECK_INT(u.seen.events, 1);
    CHECK_INT(u.seen.input_total_tok, 3);
    CHECK_INT(u.seen.output_total_tok, 4);
    CHECK(u.seen.complete);
    CHECK(!u.seen.unreadable);
}

static void stream__usage_comes_again__the_last_one_counts_and_nothing_is_added(void **state)
{
    (void)state;
    struct weir_usage u = feed_text(
        WEIR_API_OPENAI_CHAT, true,
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1}}\n\n"
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":9}}\n\n"
        "data: {\"choices\":[],\"usage\":null}\n\n"
        "data: {\"choices\":[],\"usage\":{\"completion_tokens\":null}}\n\n"
        "data: [DONE]\n\n");
    CHECK_INT(u.seen.input_total_tok, 3);
    CHECK_INT(u.seen.output_total_tok, 9);
}

static void stream__usage_inside_content__is_only_text(void **state)
{
    (void)state;
    struct weir_usage u = feed_text(
        WEIR_API_OPENAI_CHAT, true,
        "data: "
        "{\"choices\":[{\"delta\":{\"content\":\"\\\"usage\\\":{\\\"prompt_tokens\\\":9}\"}}],"
        "\"x\":{\"usage\":{\"prompt_tokens\":8}}}\n\ndata: [DONE]\n\n");
    CHECK(!u.seen.input_known);
    CHECK_INT(u.seen.text_bytes, 27);
    CHECK(u.seen.complete);
}

static void stream__ends_inside_the_last_event__counts_its_text_as_output_only(void **state)
{
    (void)state;
    struct weir_usage u =
        feed_text(WEIR_API_OPENAI_CHAT, true,
                  "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"abc\"}}]}\n\n"
                  "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"de");
    CHECK_INT(u.seen.events, 1);
    CHECK_INT(u.seen.text_bytes, 3);
    CHECK_INT(u.seen.output_bytes, 5);
    CHECK(!u.seen.complete);
}

static void stream__done_without_its_blank_line__is_complete(void **state)
{
    (void)state;
    CHECK(feed_text(WEIR_API_OPENAI_CHAT, true, "data: {}\n\ndata: [DONE]").seen.complete);
    CHECK(feed_text(WEIR_API_OPENAI_CHAT, true, "data: {}\n\ndata:[DONE]\r\n").seen.complete);
    CHECK(!feed_text(WEIR_API_OPENAI_CHAT, true, "data: {}\n\ndata: [DON").seen.complete);
    CHECK(feed_text(WEIR_API_ANTHROPIC_MESSAGES, true, "data: {\"type\":\"message_stop\"}")
              .seen.complete);
    CHECK(!feed_text(WEIR_API_ANTHROPIC_MESSAGES, true, "data: {\"type\":\"message_stop\"")
               .seen.complete);
}

static void stream__anthropic_error_event__is_seen_and_not_complete(void **state)
{
    (void)state;
    struct weir_usage u = feed_text(
        WEIR_API_ANTHROPIC_MESSAGES, true,
        "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\","
        "\"message\":\"Overloaded\"}}\n\nevent: message_stop\ndata: "
        "{\"type\":\"message_stop\"}\n\n");
    CHECK(u.seen.error);
    CHECK_STR(u.seen.error_type, "overloaded_error");
    CHECK(!u.seen.complete);
}

static void stream__not_json__is_unreadable(void **state)
{
    (void)state;
    struct weir_usage u = feed_text(WEIR_API_OPENAI_CHAT, true, "data: hello\n\ndata: [DONE]\n\n");
    CHECK(u.seen.unreadable);
    CHECK_INT(u.seen.events, 1);
}

static void stream__anthropic_thinking_and_tool_json__are_output_but_no_text(void **state)
{
    (void)state;
    struct weir_usage u = feed_text(
        WEIR_API_ANTHROPIC_MESSAGES, true,
        "data: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"thinking_delta\","
        "\"thinking\":\"hmm\"}}\n\n"
        "data: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"input_json_delta\","
        "\"partial_json\":\"{\\\"a\\\"\"}}\n\n");
    CHECK_INT(u.seen.text_bytes, 0);
    CHECK_INT(u.seen.output_bytes, 7);
}

static void body__surrogate_pairs_and_halves__count_as_the_utf8_they_become(void **state)
{
    (void)state;
    /* a pair: 4; a lone high and a lone low: 3 each (U+FFFD); \u00e9: 2; \n: 1 */
    struct weir_usage u = feed_text(WEIR_API_ANTHROPIC_MESSAGES, false,
                                    "{\"content\":[{\"text\":\"\\ud83e\\ude99\\ud83ex\\ude99\\u00e9"
                                    "\\n\\ud83e\"}]}");
    CHECK_INT(u.seen.text_bytes, 4 + 3 + 1 + 3 + 2 + 1 + 3);
    CHECK(u.seen.complete);
}

static void body__counts_that_are_no_counts__are_ignored(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "-1", "1.5", "1e3", "\"7\"", "true", "[1]", "99999999999999999999999"};
    for (size_t i = 0; i < WEIR_COUNT(bad); i++) {
        char text[160];
        snprintf(text, sizeof text, "{\"usage\":{\"prompt_tokens\":%s,\"completion_tokens\":2}}",
                 bad[i]);
        struct weir_usage u = feed_text(WEIR_API_OPENAI_CHAT, false, text);
        CHECK_MSG(!u.seen.input_known, "%s", bad[i]);
        CHECK_MSG(u.seen.output_known && u.seen.output_total_tok == 2, "%s", bad[i]);
    }
}

static void body__error__tells_type_and_code(void **state)
{
    (void)state;
    struct wire_bytes b = wire_load("error/openai_429_insufficient_quota.json");
    struct weir_usage u = feed_pieces(WEIR_API_OPENAI_CHAT, false, b.at, b.n, b.n, b.n);
    CHECK(u.seen.error);
    CHECK(!u.seen.complete);
    CHECK_STR(u.seen.error_type, "insufficient_quota");
    CHECK_STR(u.seen.error_code, "insufficient_quota");
    free(b.at);
    b = wire_load("error/anthropic_429.json");
    u = feed_pieces(WEIR_API_ANTHROPIC_MESSAGES, false, b.at, b.n, b.n, b.n);
    CHECK(u.seen.error);
    CHECK_STR(u.seen.error_type, "rate_limit_error");
    free(b.at);
}

static void body__deep_or_odd_subtrees_of_no_interest__do_not_hinder(void **state)
{
    (void)state;
    char text[2048] = "{\"x\":";
    for (int i = 0; i < 300; i++)
        strcat(text, "[");
    strcat(text, "\"]\\\"}\"");
    for (int i = 0; i < 300; i++)
        strcat(text, "]");
    strcat(text, ",\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":6}}");
    struct weir_usage u = feed_text(WEIR_API_OPENAI_CHAT, false, text);
    CHECK_INT(u.seen.input_total_tok, 5);
    CHECK(u.seen.complete);
}

static void body__cut_or_malformed__is_not_complete(void **state)
{
    (void)state;
    CHECK(
        !feed_text(WEIR_API_OPENAI_CHAT, false, "{\"usage\":{\"prompt_tokens\":5}").seen.complete);
    CHECK(!feed_text(WEIR_API_OPENAI_CHAT, false, "").seen.complete);
    static const char *const bad[] = {"{\"usage\" 5}", "{,}",  "{\"a\":1,}",     "{\"a\":1 2}",
                                      "nulL",          "{}{}", "{\"a\":\"\\x\"}"};
    for (size_t i = 0; i < WEIR_COUNT(bad); i++) {
        struct weir_usage u = feed_text(WEIR_API_OPENAI_CHAT, false, bad[i]);
        CHECK_MSG(u.seen.unreadable && !u.seen.complete, "%s", bad[i]);
    }
}

int main(void)
{
    struct wire_bytes b = wire_load("expected.json");
    expected = json_loadb((const char *)b.at, b.n, 0, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples__fed_whole_bytewise_and_at_every_split__give_the_expected_totals),
        cmocka_unit_test(stream__comments_bom_unknown_fields_and_data_in_pieces__are_read),
        cmocka_unit_test(stream__usage_comes_again__the_last_one_counts_and_nothing_is_added),
        cmocka_unit_test(stream__usage_inside_content__is_only_text),
        cmocka_unit_test(stream__ends_inside_the_last_event__counts_its_text_as_output_only),
        cmocka_unit_test(stream__done_without_its_blank_line__is_complete),
        cmocka_unit_test(stream__anthropic_error_event__is_seen_and_not_complete),
        cmocka_unit_test(stream__not_json__is_unreadable),
        cmocka_unit_test(stream__anthropic_thinking_and_tool_json__are_output_but_no_text),
        cmocka_unit_test(body__surrogate_pairs_and_halves__count_as_the_utf8_they_become),
        cmocka_unit_test(body__counts_that_are_no_counts__are_ignored),
        cmocka_unit_test(body__error__tells_type_and_code),
        cmocka_unit_test(body__deep_or_odd_subtrees_of_no_interest__do_not_hinder),
        cmocka_unit_test(body__cut_or_malformed__is_not_complete),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    json_decref(expected);
    free(b.at);
    return failed;
}
