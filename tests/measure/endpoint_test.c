/* URLs, prompts and payload files of the instruments. */
#include "measure/endpoint.h"

#include <stdlib.h>
#include <unistd.h>

#include "measure/prompt.h"
#include "support/check.h"

static const struct {
    const char *url;
    enum weir_api api;
    const char *shown; /* NULL: refused */
    enum weir_api got;
    const char *said; /* of a refusal */
} urls[] = {
    {"http://h", WEIR_API_OTHER, "http://h/v1/chat/completions", WEIR_API_OPENAI_CHAT, NULL},
    {"http://h/", WEIR_API_ANTHROPIC_MESSAGES, "http://h/v1/messages", WEIR_API_ANTHROPIC_MESSAGES,
     NULL},
    {"http://127.0.0.1:8765/v1", WEIR_API_OPENAI_RESPONSES, "http://127.0.0.1:8765/v1/responses",
     WEIR_API_OPENAI_RESPONSES, NULL},
    {"https://h/api/v1/", WEIR_API_OPENAI_COMPLETIONS, "https://h/api/v1/completions",
     WEIR_API_OPENAI_COMPLETIONS, NULL},
    {"HTTPS://h:443/base/v1/messages", WEIR_API_OTHER, "https://h/base/v1/messages",
     WEIR_API_ANTHROPIC_MESSAGES, NULL},
    {"http://h:80/v1/responses", WEIR_API_OPENAI_RESPONSES, "http://h/v1/responses",
     WEIR_API_OPENAI_RESPONSES, NULL},
    {"https://[::1]:8443", WEIR_API_OTHER, "https://[::1]:8443/v1/chat/completions",
     WEIR_API_OPENAI_CHAT, NULL},
    {"http://[::1]", WEIR_API_OTHER, "http://[::1]/v1/chat/completions", WEIR_API_OPENAI_CHAT,
     NULL},
    {"h:80", WEIR_API_OTHER, NULL, 0, "must begin with http:// or https://"},
    {"ftp://h", WEIR_API_OTHER, NULL, 0, "must begin with http:// or https://"},
    {"", WEIR_API_OTHER, NULL, 0, "must begin with"},
    {"http://", WEIR_API_OTHER, NULL, 0, "no host"},
    {"http://:80", WEIR_API_OTHER, NULL, 0, "no host"},
    {"http://h:", WEIR_API_OTHER, NULL, 0, "port"},
    {"http://h:0", WEIR_API_OTHER, NULL, 0, "port"},
    {"http://h:65536", WEIR_API_OTHER, NULL, 0, "port"},
    {"http://h:8x", WEIR_API_OTHER, NULL, 0, "port"},
    {"http://[::1", WEIR_API_OTHER, NULL, 0, "no host"},
    {"http://[::1]x", WEIR_API_OTHER, NULL, 0, "port"},
    {"http://h h/", WEIR_API_OTHER, NULL, 0, "no host"},
    {"http://user:sesame@h/", WEIR_API_OTHER, NULL, 0, "a user name or password"},
    {"http://h/v1?x=1", WEIR_API_OTHER, NULL, 0, "a query"},
    {"http://h#x", WEIR_API_OTHER, NULL, 0, "a fragment"},
    {"http://h/v1/messages", WEIR_API_OPENAI_CHAT, NULL, 0, "another API"},
    {"http://h/a b", WEIR_API_OTHER, NULL, 0, "%XX"},
};

static void endpoint__each_url__is_taken_apart_or_refused_with_what_to_write(void **state)
{
    (void)state;
    for (size_t i = 0; i < WEIR_COUNT(urls); i++) {
        struct weir_endpoint e;
        char text[WEIR_ENDPOINT_TEXT_BYTES], error_text[300] = "";
        bool ok = weir_endpoint_read(urls[i].url, urls[i].api, &e, error_text, sizeof error_text);
        CHECK_MSG(ok == (urls[i].shown != NULL), "%s: %s", urls[i].url, error_text);
        CHECK(!strstr(error_text, "sesame"));
        if (ok) {
            CHECK_STR(weir_endpoint_text(&e, text), urls[i].shown);
            CHECK_INT(e.api, urls[i].got);
        } else {
            CHECK_MSG(strstr(error_text, urls[i].said), "%s: %s", urls[i].url, error_text);
        }
    }
    char url[2000] = "http://h/";
    memset(url + 9, 'a', 1500);
    struct weir_endpoint e;
    char error_text[300];
    CHECK(!weir_endpoint_read(url, WEIR_API_OTHER, &e, error_text, sizeof error_text));
    CHECK(strstr(error_text, "too long"));
    memset(url + 7, 'a', 300);
    CHECK(!weir_endpoint_read(url, WEIR_API_OTHER, &e, error_text, sizeof error_text));
}

static const enum weir_api apis[] = {WEIR_API_OPENAI_CHAT, WEIR_API_OPENAI_COMPLETIONS,
                                     WEIR_API_OPENAI_RESPONSES, WEIR_API_ANTHROPIC_MESSAGES};

static char *prompt_of(const struct weir_prompt_wish *wish, size_t *bytes)
{
    size_t room = weir_prompt_bytes(wish);
    char *body = malloc(room);
    CHECK(body);
    *bytes = weir_prompt_write(wish, body);
    CHECK(*bytes <= room);
    return body;
}

static void prompt__each_api_and_size__is_what_was_wished_for(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {0, 1, 2, 9, 10, 11, 31, 32, 33, 100, 5000};
    for (size_t i = 0; i < WEIR_COUNT(apis) * WEIR_COUNT(sizes) * 2; i++) {
        size_t bytes;
        const struct weir_prompt_wish wish = {.api = apis[i / 2 % WEIR_COUNT(apis)],
                                              .model = "a \"b\\\n\xc3\xa4",
                                              .prompt_tok = sizes[i / 2 / WEIR_COUNT(apis)],
                                              .output_tok = (uint32_t)i,
                                              .is_stream = i % 2,
                                              .has_modern_limit = i % 2,
                                              .seed = i};
        char *body = prompt_of(&wish, &bytes);
        struct weir_request_facts facts;
        weir_request_read(&facts, wish.api, body, bytes);
        CHECK_INT(facts.fault == WEIR_REQUEST_NAME_BAD,
                  true); /* the line end in the name got through */
        free(body);
        struct weir_prompt_wish plain = wish;
        plain.model = "a \"b\\\xc3\xa4";
        body = prompt_of(&plain, &bytes);
        CHECK_INT(weir_request_read(&facts, plain.api, body, bytes), WEIR_REQUEST_OK);
        CHECK_STR(facts.model, plain.model);
        CHECK_INT(facts.stream, plain.is_stream);
        CHECK_INT(facts.limit_tok, plain.output_tok ? plain.output_tok : 1);
        CHECK_INT(facts.has_include_usage,
                  plain.is_stream && (plain.api == WEIR_API_OPENAI_CHAT ||
                                      plain.api == WEIR_API_OPENAI_COMPLETIONS));
        uint64_t want_bytes = 4 * (uint64_t)(plain.prompt_tok > 3 ? plain.prompt_tok - 3 : 1);
        CHECK_MSG(facts.classes.text_bytes >= want_bytes &&
                      facts.classes.text_bytes <= want_bytes + 12,
                  "%u tokens: %llu bytes", plain.prompt_tok,
                  (unsigned long long)facts.classes.text_bytes);
        free(body);
    }
}

static void prompt__seeds__decide_the_words_and_shared_ones_the_front(void **state)
{
    (void)state;
    struct weir_prompt_wish wish = {.api = WEIR_API_OPENAI_COMPLETIONS,
                                    .model = "m",
                                    .prompt_tok = 400,
                                    .output_tok = 5,
                                    .seed = 1,
                                    .shared_seed = 9,
                                    .shared_tok = 100};
    size_t bytes, again_bytes, other_bytes;
    char *one = prompt_of(&wish, &bytes), *again = prompt_of(&wish, &again_bytes);
    CHECK_MEM(one, bytes, again, again_bytes);
    wish.seed = 2;
    char *other = prompt_of(&wish, &other_bytes);
    CHECK_INT(bytes, other_bytes);
    size_t same = 0;
    while (one[same] == other[same])
        same++;
    static const char key[] = "\"prompt\":\"";
    const char *at = memmem(one, bytes, key, strlen(key));
    CHECK(at != NULL);
    size_t front = (size_t)(at - one) + strlen(key);
    CHECK_MSG(same >= front + 400 && same < front + 400 + 5 * 4, "%zu, %zu", same, front);
    wish.shared_tok = 4000; /* more than there is: all of it */
    free(other);
    other = prompt_of(&wish, &other_bytes);
    CHECK_INT(bytes, other_bytes);
    free(one);
    free(again);
    free(other);
}

static const struct {
    const char *text;
    enum weir_api api;
    const char *said; /* NULL: right */
} files[] = {
    {"{\"model\":\"m\",\"messages\":[],\"stream\":true}", WEIR_API_OPENAI_CHAT, NULL},
    {"", WEIR_API_OPENAI_CHAT, "payload.json: is not a body of openai-chat"},
    {"[1]", WEIR_API_ANTHROPIC_MESSAGES, "is not a body of anthropic-messages"},
    {"{\"model\":\"m\",", WEIR_API_OPENAI_CHAT, "is not a body"},
    {"{\"stream\":1}", WEIR_API_OPENAI_CHAT, "stream"},
};

static void payload__each_file__is_read_or_refused_by_name(void **state)
{
    (void)state;
    char folder[] = "/tmp/weir-payload-XXXXXX", path[64], error_text[600];
    struct weir_request_facts facts;
    char *body;
    size_t bytes;
    CHECK(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/payload.json", folder);
    for (size_t i = 0; i < WEIR_COUNT(files); i++) {
        FILE *file = fopen(path, "w");
        CHECK(file);
        fputs(files[i].text, file);
        fclose(file);
        bool ok = weir_prompt_file(path, files[i].api, &body, &bytes, &facts, error_text,
                                   sizeof error_text);
        CHECK_MSG(ok == (files[i].said == NULL), "%s: %s", files[i].text, error_text);
        if (ok) {
            CHECK_MEM(body, bytes, files[i].text, strlen(files[i].text));
            CHECK(facts.stream);
        } else {
            CHECK_MSG(strstr(error_text, files[i].said), "%s: %s", files[i].text, error_text);
            CHECK(!body);
        }
        free(body);
    }
    unlink(path);
    CHECK(!weir_prompt_file(path, WEIR_API_OPENAI_CHAT, &body, &bytes, &facts, error_text,
                            sizeof error_text));
    CHECK(strstr(error_text, "No such file"));
    CHECK(!weir_prompt_file(folder, WEIR_API_OPENAI_CHAT, &body, &bytes, &facts, error_text,
                            sizeof error_text));
    CHECK_MSG(strstr(error_text, "directory"), "%s", error_text);
    CHECK(!weir_prompt_file("/dev/zero", WEIR_API_OPENAI_CHAT, &body, &bytes, &facts, error_text,
                            sizeof error_text));
    CHECK_MSG(strstr(error_text, "more than 32 MiB"), "%s", error_text);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(endpoint__each_url__is_taken_apart_or_refused_with_what_to_write),
        cmocka_unit_test(prompt__each_api_and_size__is_what_was_wished_for),
        cmocka_unit_test(prompt__seeds__decide_the_words_and_shared_ones_the_front),
        cmocka_unit_test(payload__each_file__is_read_or_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
