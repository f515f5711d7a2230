#include "wire/request.h"

#include "wire/json.h"
#include "wire/request_oracle.h"
#include "wire/wire_data.h"

/* Reads a copy of exactly that size. */
static struct weir_request_facts read_bytes(enum weir_api api, const void *bytes, size_t n)
{
    struct weir_request_facts f;
    struct wire_bytes b = wire_copy(bytes, n);
    weir_request_read(&f, api, b.at, b.n);
    if (f.fault == WEIR_REQUEST_OK) {
        void *room = malloc(n + 256);
        const char *why = oracle_differs(&f, api, b.at, b.n);
        CHECK_MSG(!why, "%s: %.*s", why, (int)weir_min_u64(n, 300), (const char *)bytes);
        why = oracle_edit_differs(&f, api, b.at, b.n, room);
        CHECK_MSG(!why, "%s: %.*s", why, (int)weir_min_u64(n, 300), (const char *)bytes);
        free(room);
    }
    free(b.at);
    return f;
}

static struct weir_request_facts read_text(enum weir_api api, const char *text)
{
    return read_bytes(api, text, strlen(text));
}

static struct weir_request_facts read_sample(enum weir_api api, const char *name)
{
    struct wire_bytes b = wire_load(name);
    struct weir_request_facts f = read_bytes(api, b.at, b.n);
    free(b.at);
    return f;
}

static void samples__give_their_facts(void **state)
{
    (void)state;
    struct weir_request_facts f =
        read_sample(WEIR_API_OPENAI_CHAT, "request/openai_chat_stream.json");
    CHECK_INT(f.fault, WEIR_REQUEST_OK);
    CHECK_STR(f.model, "gpt-4.1-mini");
    CHECK(f.stream && f.has_include_usage && f.has_limit && f.has_user);
    CHECK_INT(f.limit_tok, 256);
    CHECK_INT(f.n, 1);
    CHECK_INT(f.classes.messages, 2);
    CHECK_INT(f.classes.text_bytes, 51);

    f = read_sample(WEIR_API_OPENAI_CHAT, "request/openai_chat_parts.json");
    CHECK_INT(f.n, 2);
    CHECK(!f.stream && !f.has_limit);
    CHECK_INT(f.classes.images, 1);
    CHECK_INT(f.classes.images_sized, 0);
    CHECK_INT(f.classes.tools, 1);
    CHECK_INT(f.classes.mixed, 0);

    f = read_sample(WEIR_API_OPENAI_CHAT, "request/openai_chat_duplicate_keys.json");
    CHECK_INT(f.fault, WEIR_REQUEST_DUPLICATE);
    CHECK_INT(f.fault_key, WEIR_KEY_MAX_TOKENS);

    f = read_sample(WEIR_API_OPENAI_CHAT, "request/nested_decoy.json");
    CHECK_STR(f.model, "gpt-4.1-mini");
    CHECK(f.stream);
    CHECK_INT(f.limit_tok, 777);

    f = read_sample(WEIR_API_OPENAI_RESPONSES, "request/openai_responses.json");
    CHECK_INT(f.limit_tok, 512);
    CHECK_INT(f.classes.messages, 1);
    CHECK_INT(f.classes.text_bytes, 17);

    f = read_sample(WEIR_API_OPENAI_EMBEDDINGS, "request/openai_embeddings.json");
    CHECK_INT(f.prompts, 2);
    CHECK_INT(f.classes.text_bytes, 11);

    f = read_sample(WEIR_API_ANTHROPIC_MESSAGES, "request/anthropic_messages.json");
    CHECK_INT(f.limit_tok, 1024);
    CHECK(f.stream);
    CHECK_INT(f.classes.messages, 1);
    CHECK_INT(f.classes.text_bytes, 15 + 26);
}

static void samples__cut_anywhere__are_refused_as_cut(void **state)
{
    (void)state;
    struct wire_bytes b = wire_load("request/openai_chat_parts.json");
    size_t end = b.n;
    while (b.at[end - 1] != '}')
        end--;
    for (size_t n = 1; n < end; n++) {
        struct weir_request_facts f = read_bytes(WEIR_API_OPENAI_CHAT, b.at, n);
        CHECK_MSG(f.fault == WEIR_REQUEST_CUT, "cut at %zu: fault %d", n, f.fault);
        CHECK_INT(f.fault_at, n);
    }
    free(b.at);
}

/* What is refused, why, about which member and where. */
static void bodies_at_fault__are_refused_for_the_right_reason(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        enum weir_request_fault fault;
        enum weir_request_key key;
        size_t at;
    } rows[] = {
        {"", WEIR_REQUEST_EMPTY, WEIR_KEY_NONE, 0},
        {" ", WEIR_REQUEST_CUT, WEIR_KEY_NONE, 1},
        {"[]", WEIR_REQUEST_NOT_OBJECT, WEIR_KEY_NONE, 0},
        {"7", WEIR_REQUEST_NOT_OBJECT, WEIR_KEY_NONE, 0},
        {"\"{}\"", WEIR_REQUEST_NOT_OBJECT, WEIR_KEY_NONE, 0},
        {"hello", WEIR_REQUEST_SYNTAX, WEIR_KEY_NONE, 0},
        {"\xef\xbb\xbf{}", WEIR_REQUEST_SYNTAX, WEIR_KEY_NONE, 0},
        {"{}{}", WEIR_REQUEST_TRAILING, WEIR_KEY_NONE, 2},
        {"{} x", WEIR_REQUEST_TRAILING, WEIR_KEY_NONE, 3},
        {"{,}", WEIR_REQUEST_SYNTAX, WEIR_KEY_NONE, 1},
        {"{\"a\":1,}", WEIR_REQUEST_SYNTAX, WEIR_KEY_NONE, 7},
        {"{\"a\":[1,]}", WEIR_REQUEST_SYNTAX, WEIR_KEY_NONE, 8},
        {"{\"a\" 1}", WEIR_REQUEST_SYNTAX, WEIR_KEY_NONE, 5},
        {"{a:1}", WEIR_REQUEST_SYNTAX, WEIR_KEY_NONE, 1},
        {"{'a':1}", WEIR_REQUEST_SYNTAX, WEIR_KEY_NONE, 1},
        {"{\"a\":nul}", WEIR_REQUEST_SYNTAX, WEIR_KEY_NONE, 8},
        {"{\"a\":NaN}", WEIR_REQUEST_SYNTAX, WEIR_KEY_NONE, 5},
        {"{\"a\":[1}}", WEIR_REQUEST_SYNTAX, WEIR_KEY_NONE, 7},
        {"{\"a\":01}", WEIR_REQUEST_SYNTAX, WEIR_KEY_NONE, 6},
        {"{\"a\":-}", WEIR_REQUEST_NUMBER, WEIR_KEY_NONE, 6},
        {"{\"a\":1.}", WEIR_REQUEST_NUMBER, WEIR_KEY_NONE, 7},
        {"{\"a\":1e}", WEIR_REQUEST_NUMBER, WEIR_KEY_NONE, 7},
        {"{\"a\":.5}", WEIR_REQUEST_SYNTAX, WEIR_KEY_NONE, 5},
        {"{\"a\":\"\n\"}", WEIR_REQUEST_CONTROL, WEIR_KEY_NONE, 6},
        {"{\"a\":\"\\x\"}", WEIR_REQUEST_ESCAPE, WEIR_KEY_NONE, 6},
        {"{\"a\":\"\\u12g4\"}", WEIR_REQUEST_ESCAPE, WEIR_KEY_NONE, 6},
        {"{\"a\":\"\x80\"}", WEIR_REQUEST_UTF8, WEIR_KEY_NONE, 6},
        {"{\"a\":\"\xc0\xaf\"}", WEIR_REQUEST_UTF8, WEIR_KEY_NONE, 6},
        {"{\"a\":\"\xe0\x80\x80\"}", WEIR_REQUEST_UTF8, WEIR_KEY_NONE, 6},
        {"{\"a\":\"\xed\xa0\x80\"}", WEIR_REQUEST_UTF8, WEIR_KEY_NONE, 6},
        {"{\"a\":\"\xf4\x90\x80\x80\"}", WEIR_REQUEST_UTF8, WEIR_KEY_NONE, 6},
        {"{\"a\":\"\xe4\xb8\"}", WEIR_REQUEST_UTF8, WEIR_KEY_NONE, 6},
        {"{\"max_tokens\":1,\"max_tokens\":1}", WEIR_REQUEST_DUPLICATE, WEIR_KEY_MAX_TOKENS, 16},
        {"{\"model\":\"a\",\"model\":\"a\"}", WEIR_REQUEST_DUPLICATE, WEIR_KEY_MODEL, 13},
        {"{\"n\":1,\"n\":null}", WEIR_REQUEST_DUPLICATE, WEIR_KEY_N, 7},
        {"{\"stream_options\":{},\"stream_options\":{}}", WEIR_REQUEST_DUPLICATE,
         WEIR_KEY_STREAM_OPTIONS, 21},
        {"{\"stream_options\":{\"include_usage\":true,\"include_usage\":false}}",
         WEIR_REQUEST_DUPLICATE, WEIR_KEY_INCLUDE_USAGE, 40},
        {"{\"max\\u005ftokens\":9}", WEIR_REQUEST_SPELLING, WEIR_KEY_MAX_TOKENS, 1},
        {"{\"max_tokens\":1,\"max\\u005Ftokens\":9}", WEIR_REQUEST_SPELLING, WEIR_KEY_MAX_TOKENS,
         16},
        {"{\"Max_Tokens\":9}", WEIR_REQUEST_SPELLING, WEIR_KEY_MAX_TOKENS, 1},
        {"{\"MODEL\":\"x\"}", WEIR_REQUEST_SPELLING, WEIR_KEY_MODEL, 1},
        {"{\"\\u006e\":2}", WEIR_REQUEST_SPELLING, WEIR_KEY_N, 1},
        {"{\"max_to\xe2\x84\xaa"
         "ens\":9}",
         WEIR_REQUEST_SPELLING, WEIR_KEY_MAX_TOKENS, 1},
        {"{\"\xc5\xbftream\":true}", WEIR_REQUEST_SPELLING, WEIR_KEY_STREAM, 1},
        {"{\"\\u017ftream\":true}", WEIR_REQUEST_SPELLING, WEIR_KEY_STREAM, 1},
        {"{\"stream_options\":{\"Include_Usage\":true}}", WEIR_REQUEST_SPELLING,
         WEIR_KEY_INCLUDE_USAGE, 19},
        {"{\"model\":7}", WEIR_REQUEST_NOT_STRING, WEIR_KEY_MODEL, 9},
        {"{\"model\":null}", WEIR_REQUEST_NOT_STRING, WEIR_KEY_MODEL, 9},
        {"{\"user\":{}}", WEIR_REQUEST_NOT_STRING, WEIR_KEY_USER, 8},
        {"{\"stream\":\"true\"}", WEIR_REQUEST_NOT_BOOL, WEIR_KEY_STREAM, 10},
        {"{\"stream\":1}", WEIR_REQUEST_NOT_BOOL, WEIR_KEY_STREAM, 10},
        {"{\"stream_options\":true}", WEIR_REQUEST_NOT_AN_OBJECT, WEIR_KEY_STREAM_OPTIONS, 18},
        {"{\"stream_options\":{\"include_usage\":1}}", WEIR_REQUEST_NOT_BOOL,
         WEIR_KEY_INCLUDE_USAGE, 35},
        {"{\"max_tokens\":\"9\"}", WEIR_REQUEST_NOT_WHOLE, WEIR_KEY_MAX_TOKENS, 14},
        {"{\"max_tokens\":1.5}", WEIR_REQUEST_NOT_WHOLE, WEIR_KEY_MAX_TOKENS, 14},
        {"{\"max_tokens\":1.0}", WEIR_REQUEST_NOT_WHOLE, WEIR_KEY_MAX_TOKENS, 14},
        {"{\"max_tokens\":1e2}", WEIR_REQUEST_NOT_WHOLE, WEIR_KEY_MAX_TOKENS, 14},
        {"{\"max_tokens\":1e400}", WEIR_REQUEST_NOT_WHOLE, WEIR_KEY_MAX_TOKENS, 14},
        {"{\"max_tokens\":-1}", WEIR_REQUEST_OUT_OF_RANGE, WEIR_KEY_MAX_TOKENS, 14},
        {"{\"max_tokens\":-0}", WEIR_REQUEST_OUT_OF_RANGE, WEIR_KEY_MAX_TOKENS, 14},
        {"{\"max_tokens\":18446744073709551616}", WEIR_REQUEST_OUT_OF_RANGE, WEIR_KEY_MAX_TOKENS,
         14},
        {"{\"max_tokens\":18446744073709551617}", WEIR_REQUEST_OUT_OF_RANGE, WEIR_KEY_MAX_TOKENS,
         14},
        {"{\"max_tokens\":4503599627370497}", WEIR_REQUEST_OUT_OF_RANGE, WEIR_KEY_MAX_TOKENS, 14},
        {"{\"max_completion_tokens\":-9}", WEIR_REQUEST_OUT_OF_RANGE,
         WEIR_KEY_MAX_COMPLETION_TOKENS, 25},
        {"{\"n\":0}", WEIR_REQUEST_OUT_OF_RANGE, WEIR_KEY_N, 5},
        {"{\"n\":1025}", WEIR_REQUEST_OUT_OF_RANGE, WEIR_KEY_N, 5},
        {"{\"n\":\"2\"}", WEIR_REQUEST_NOT_WHOLE, WEIR_KEY_N, 5},
        {"{\"model\":\"\\ud800\"}", WEIR_REQUEST_NAME_BAD, WEIR_KEY_MODEL, 9},
        {"{\"user\":\"\\udc00\"}", WEIR_REQUEST_NAME_BAD, WEIR_KEY_USER, 8},
        {"{\"model\":\"a\\u0000b\"}", WEIR_REQUEST_NAME_BAD, WEIR_KEY_MODEL, 9},
        {"{\"model\":\"a\\nb\"}", WEIR_REQUEST_NAME_BAD, WEIR_KEY_MODEL, 9},
    };
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct weir_request_facts f = read_text(WEIR_API_OPENAI_CHAT, rows[i].body);
        char text[400];
        size_t n = weir_request_fault_text(&f, text, sizeof text);
        CHECK_MSG(f.fault == rows[i].fault, "%s: %s", rows[i].body, text);
        CHECK_MSG(f.fault_key == rows[i].key, "%s: %s", rows[i].body, text);
        CHECK_MSG(f.fault_at == rows[i].at, "%s: %s", rows[i].body, text);
        CHECK_INT(n, strlen(text));
        CHECK_MSG(n > 20 && n < 300, "%s", text);
        if (f.fault_key)
            CHECK_MSG(strstr(text, weir_request_key_name(f.fault_key)), "%s", text);
    }
}

static void bodies_that_look_odd_but_are_well_formed__are_read(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "{}",
        " \t\r\n{ } \n",
        "{\"a\":1e400,\"b\":-0.0e-7,\"c\":123456789012345678901234567890}",
        "{\"metadata\":{\"model\":1,\"model\":2,\"max_tokens\":\"x\"},\"model\":\"m\"}",
        "{\"messages\":[{\"content\":\"\\ud83d\"},{\"content\":\"\\ude00 \\ud83d\\u0041\"}]}",
        "{\"max_tokens\":null,\"n\":null,\"stream\":null,\"user\":null,\"stream_options\":null}",
        "{\"max_tokens\":4503599627370496}",
        "{\"max_tokens\":0}",
        "{\"n\":1024}",
        "{\"temperature\":1,\"temperature\":2}",
        "{\"\":1,\"\\\"\":2,\"models\":3,\"mode\":4}",
        "{\"model\":\"\\u0067pt-\\u00e9\\ud83e\\ude99\\/\"}",
        "{\"max_output_tokens\":-1,\"best_of\":0}", /* not members of this API */
        "{\"stream\":true,\"stream_options\":{ }}",
        "{\"stream\":true,\"stream_options\":{\"x\":{\"include_usage\":7}}}",
        "{\"stream\":true,\"stream_options\":{\"include_usage\":false,\"x\":1}}",
        "{\"stream\":true,\"stream_options\":{\"include_usage\" : null}}",
        "{\"stream\":true,\"stream_options\":null}",
        "{\"max_tokens\":null,\"stream\":true}",
        "{\"max_tokens\":null,\"max_completion_tokens\":5,\"stream\":true}",
    };
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct weir_request_facts f = read_text(WEIR_API_OPENAI_CHAT, rows[i]);
        char text[400];
        weir_request_fault_text(&f, text, sizeof text);
        CHECK_MSG(f.fault == WEIR_REQUEST_OK, "%s: %s", rows[i], text);
    }
    struct weir_request_facts f = read_text(WEIR_API_OPENAI_CHAT, rows[11]);
    CHECK_STR(f.model, "gpt-\xc3\xa9\xf0\x9f\xaa\x99/");
}

static void nesting__64_deep_passes_and_65_is_refused(void **state)
{
    (void)state;
    for (int depth = 63; depth <= 65; depth++) {
        char text[256] = "{\"a\":";
        for (int i = 1; i < depth; i++)
            strcat(text, "[");
        for (int i = 1; i < depth; i++)
            strcat(text, "]");
        strcat(text, "}");
        CHECK_INT(read_text(WEIR_API_OPENAI_CHAT, text).fault,
                  depth <= 64 ? WEIR_REQUEST_OK : WEIR_REQUEST_DEPTH);
    }
    size_t n = 200000;
    char *deep = malloc(n);
    memset(deep, '[', n);
    CHECK_INT(read_bytes(WEIR_API_OPENAI_CHAT, deep, n).fault, WEIR_REQUEST_DEPTH);
    free(deep);
}

static void model__of_256_bytes_passes_and_of_257_is_refused(void **state)
{
    (void)state;
    for (int bytes = 255; bytes <= 257; bytes++) {
        char text[400];
        snprintf(text, sizeof text, "{\"model\":\"%0*d\"}", bytes, 7);
        struct weir_request_facts f = read_text(WEIR_API_OPENAI_CHAT, text);
        CHECK_INT(f.fault, bytes <= 256 ? WEIR_REQUEST_OK : WEIR_REQUEST_NAME_TOO_LONG);
        if (bytes <= 256)
            CHECK_INT(f.model_bytes, bytes);
    }
}

static void limits__of_each_api__are_only_those_it_knows(void **state)
{
    (void)state;
    static const char body[] =
        "{\"max_tokens\":1,\"max_completion_tokens\":2,\"max_output_tokens\":3}";
    static const struct {
        enum weir_api api;
        uint64_t want;
    } rows[] = {{WEIR_API_OPENAI_CHAT, 2},
                {WEIR_API_OPENAI_COMPLETIONS, 1},
                {WEIR_API_OPENAI_RESPONSES, 3},
                {WEIR_API_OPENAI_EMBEDDINGS, 0},
                {WEIR_API_ANTHROPIC_MESSAGES, 1}};
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct weir_request_facts f = read_text(rows[i].api, body);
        CHECK_INT(f.limit_tok, rows[i].want);
        CHECK_INT(f.has_limit, rows[i].want > 0);
    }
}

static void conversation__by_id_or_object__is_seen(void **state)
{
    (void)state;
    static const char *const with[] = {"{\"previous_response_id\":\"resp_1\"}",
                                       "{\"conversation\":\"resp_1\"}",
                                       "{\"conversation\":{\"x\":[1],\"id\":\"resp_1\"}}"};
    for (size_t i = 0; i < WEIR_COUNT(with); i++) {
        struct weir_request_facts f = read_text(WEIR_API_OPENAI_RESPONSES, with[i]);
        CHECK(f.has_conversation);
        CHECK_MEM(with[i] + f.previous_response_id.at, f.previous_response_id.bytes, "resp_1", 6);
    }
    CHECK(
        !read_text(WEIR_API_OPENAI_RESPONSES, "{\"previous_response_id\":null}").has_conversation);
    CHECK(!read_text(WEIR_API_OPENAI_CHAT, "{\"previous_response_id\":\"r\"}").has_conversation);
}

static void prompts__as_text_ids_or_arrays__are_counted(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        uint32_t prompts, token_ids;
        uint64_t text_bytes;
    } rows[] = {
        {"{\"prompt\":\"abc\"}", 1, 0, 3},   {"{\"prompt\":[\"abc\",\"de\"]}", 2, 0, 5},
        {"{\"prompt\":[1,2,3]}", 1, 3, 0},   {"{\"prompt\":[[1,2,3],[4]]}", 2, 4, 0},
        {"{\"prompt\":[\"abc\"]}", 1, 0, 3}, {"{\"prompt\":[]}", 1, 0, 0},
    };
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct weir_request_facts f = read_text(WEIR_API_OPENAI_COMPLETIONS, rows[i].body);
        CHECK_MSG(f.prompts == rows[i].prompts, "%s", rows[i].body);
        CHECK_MSG(f.classes.token_ids == rows[i].token_ids, "%s", rows[i].body);
        CHECK_MSG(f.classes.text_bytes == rows[i].text_bytes, "%s", rows[i].body);
    }
    struct weir_request_facts f =
        read_text(WEIR_API_OPENAI_COMPLETIONS, "{\"prompt\":\"a\",\"n\":2,\"best_of\":5}");
    CHECK_INT(f.n, 2);
    CHECK_INT(f.best_of, 5);
}

static void edits__put_in_exactly_what_is_missing(void **state)
{
    (void)state;
    static const struct {
        enum weir_api api;
        const char *body, *want; /* want NULL: no edit */
    } rows[] = {
        {WEIR_API_OPENAI_CHAT, "{ \"stream\":true,\"max_tokens\":5}",
         "{\"stream_options\":{\"include_usage\":true}, \"stream\":true,\"max_tokens\":5}"},
        {WEIR_API_OPENAI_CHAT, "{\"stream\":true,\"max_tokens\":5,\"stream_options\":{}}",
         "{\"stream\":true,\"max_tokens\":5,\"stream_options\":{\"include_usage\":true}}"},
        {WEIR_API_OPENAI_CHAT, "{\"stream_options\":{\"x\":1},\"stream\":true,\"max_tokens\":5}",
         "{\"stream_options\":{\"include_usage\":true,\"x\":1},\"stream\":true,\"max_tokens\":5}"},
        {WEIR_API_OPENAI_CHAT,
         "{\"stream_options\":{\"include_usage\": false},\"stream\":true,\"max_tokens\":5}",
         "{\"stream_options\":{\"include_usage\": true},\"stream\":true,\"max_tokens\":5}"},
        {WEIR_API_OPENAI_CHAT, "{\"stream_options\":null,\"stream\":true,\"max_tokens\":5}",
         "{\"stream_options\":{\"include_usage\":true},\"stream\":true,\"max_tokens\":5}"},
        {WEIR_API_OPENAI_CHAT,
         "{\"stream_options\":{\"include_usage\":true},\"stream\":true,\"max_tokens\":5}", NULL},
        {WEIR_API_OPENAI_CHAT, "{\"max_tokens\":5}", NULL},
        {WEIR_API_OPENAI_CHAT, "{}", "{\"max_completion_tokens\":4096}"},
        {WEIR_API_OPENAI_CHAT, "{\"n\":1}", "{\"max_completion_tokens\":4096,\"n\":1}"},
        {WEIR_API_OPENAI_CHAT, "{\"stream\":true}",
         "{\"stream_options\":{\"include_usage\":true},\"max_completion_tokens\":4096,"
         "\"stream\":true}"},
        {WEIR_API_OPENAI_CHAT, "{\"max_completion_tokens\":null,\"n\":1}",
         "{\"max_completion_tokens\":4096,\"n\":1}"},
        {WEIR_API_OPENAI_CHAT, "{\"stream\":true,\"max_tokens\":null,\"stream_options\":null}",
         "{\"stream\":true,\"max_tokens\":4096,\"stream_options\":{\"include_usage\":true}}"},
        {WEIR_API_OPENAI_RESPONSES, "{\"stream\":true}",
         "{\"max_output_tokens\":4096,\"stream\":true}"},
        {WEIR_API_ANTHROPIC_MESSAGES, "{\"stream\":true}", "{\"max_tokens\":4096,\"stream\":true}"},
        {WEIR_API_OPENAI_EMBEDDINGS, "{\"input\":\"a\"}", NULL},
    };
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct weir_request_facts f = read_text(rows[i].api, rows[i].body);
        struct weir_request_edits edits;
        bool any = weir_request_plan(&edits, &f, rows[i].api, true, 4096, true);
        CHECK_MSG(any == (rows[i].want != NULL), "%s", rows[i].body);
        if (!any)
            continue;
        char out[512];
        size_t n = strlen(rows[i].body);
        out[weir_request_edited_bytes(&edits, n)] = 0;
        weir_request_edit(&edits, rows[i].body, n, out);
        CHECK_STR(out, rows[i].want);
    }
}

/* Random bytes from JSON's own alphabet, and samples with a byte changed: what we accept, jansson
 * accepts with the same facts (checked in read_bytes). */
static void bodies_made_at_random__accepted_ones_are_accepted_by_jansson_too(void **state)
{
    (void)state;
    static const char *const pieces[] = {"{",
                                         "}",
                                         "[",
                                         "]",
                                         ",",
                                         ":",
                                         "\"model\"",
                                         "\"a\"",
                                         "\"stream\"",
                                         "true",
                                         "false",
                                         "null",
                                         "\"max_tokens\"",
                                         "\"n\"",
                                         "1",
                                         "-1",
                                         "0",
                                         "2.5",
                                         "1e9",
                                         "\"messages\"",
                                         "\"content\"",
                                         "\"x\\ny\"",
                                         " ",
                                         "\"\\ud800\"",
                                         "\"\xc3\xa9\"",
                                         "\"stream_options\"",
                                         "\"include_usage\"",
                                         "{\"model\":\"m\",",
                                         "\"user\":\"u\"",
                                         "\"stream\":true,",
                                         "\"messages\":[{\"role\":\"user\"}]"};
    uint64_t seed = 3;
    size_t accepted = 0;
    for (int round = 0; round < 100000; round++) {
        char text[512] = "";
        size_t n = 0;
        for (int i = 0; i < 12; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            const char *piece = pieces[(seed >> 33) % WEIR_COUNT(pieces)];
            n += (size_t)snprintf(text + n, sizeof text - n, "%s", piece);
        }
        struct weir_request_facts f = read_bytes(WEIR_API_OPENAI_CHAT, text, n);
        accepted += f.fault == WEIR_REQUEST_OK;
    }
    struct wire_bytes b = wire_load("request/openai_chat_stream.json");
    for (int round = 0; round < 20000; round++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        size_t at = (seed >> 33) % b.n;
        uint8_t was = b.at[at];
        b.at[at] = (uint8_t)(seed >> 25);
        struct weir_request_facts f = read_bytes(WEIR_API_OPENAI_CHAT, b.at, b.n);
        accepted += f.fault == WEIR_REQUEST_OK;
        b.at[at] = was;
    }
    free(b.at);
    CHECK_MSG(accepted > 1000, "only %zu were accepted", accepted);
}

static void quote__of_any_bytes__is_json_that_reads_back(void **state)
{
    (void)state;
    uint64_t seed = 5;
    for (int round = 0; round < 2000; round++) {
        char text[40], out[6 * 40 + 2];
        for (size_t i = 0; i < sizeof text; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            text[i] = (char)(seed >> 40 & (round % 2 ? 0x7f : 0xff));
        }
        size_t n = weir_json_quote(out, sizeof out, text, sizeof text);
        CHECK(n > 0);
        json_t *back = json_loadb(out, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        CHECK_MSG(json_is_string(back), "%.*s", (int)n, out);
        if (round % 2)
            CHECK_MEM(json_string_value(back), json_string_length(back), text, sizeof text);
        json_decref(back);
        CHECK_INT(weir_json_quote(out, n - 1, text, sizeof text), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples__give_their_facts),
        cmocka_unit_test(samples__cut_anywhere__are_refused_as_cut),
        cmocka_unit_test(bodies_at_fault__are_refused_for_the_right_reason),
        cmocka_unit_test(bodies_that_look_odd_but_are_well_formed__are_read),
        cmocka_unit_test(nesting__64_deep_passes_and_65_is_refused),
        cmocka_unit_test(model__of_256_bytes_passes_and_of_257_is_refused),
        cmocka_unit_test(limits__of_each_api__are_only_those_it_knows),
        cmocka_unit_test(conversation__by_id_or_object__is_seen),
        cmocka_unit_test(prompts__as_text_ids_or_arrays__are_counted),
        cmocka_unit_test(edits__put_in_exactly_what_is_missing),
        cmocka_unit_test(bodies_made_at_random__accepted_ones_are_accepted_by_jansson_too),
        cmocka_unit_test(quote__of_any_bytes__is_json_that_reads_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
