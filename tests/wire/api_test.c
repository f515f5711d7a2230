#include "wire/api.h"

#include "support/check.h"

static enum weir_api api_of(const char *path)
{
    return weir_api_of_path(path, strlen(path));
}

static void paths__of_each_api__are_known_behind_any_prefix(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        enum weir_api want;
    } rows[] = {
        {"/v1/chat/completions", WEIR_API_OPENAI_CHAT},
        {"/v1/chat/completions?x=/v1/models", WEIR_API_OPENAI_CHAT},
        {"/openai/deployments/gpt/chat/completions", WEIR_API_OPENAI_CHAT},
        {"/chat/completions", WEIR_API_OPENAI_CHAT},
        {"/v1/completions", WEIR_API_OPENAI_COMPLETIONS},
        {"/v1/responses", WEIR_API_OPENAI_RESPONSES},
        {"/api/v1/responses", WEIR_API_OPENAI_RESPONSES},
        {"/v1/embeddings", WEIR_API_OPENAI_EMBEDDINGS},
        {"/v1/messages", WEIR_API_ANTHROPIC_MESSAGES},
        {"/messages", WEIR_API_ANTHROPIC_MESSAGES},
        {"/v1/messages/count_tokens", WEIR_API_ANTHROPIC_COUNT},
        {"/v1/models", WEIR_API_MODELS},
        {"/v1/models/gpt-4.1-mini", WEIR_API_MODELS},
        {"/v1beta/models", WEIR_API_MODELS},
        {"/v1/threads/t1/messages", WEIR_API_OTHER},
        {"/v1/messages/batches", WEIR_API_OTHER},
        {"/v1/responses/r1", WEIR_API_OTHER},
        {"/v1/chat/completionsx", WEIR_API_OTHER},
        {"/v1/chat", WEIR_API_OTHER},
        {"/v1/audio/speech", WEIR_API_OTHER},
        {"/", WEIR_API_OTHER},
        {"", WEIR_API_OTHER},
        {"*", WEIR_API_OTHER},
    };
    for (size_t i = 0; i < WEIR_COUNT(rows); i++)
        CHECK_MSG(api_of(rows[i].path) == rows[i].want, "%s", rows[i].path);
}

static void metered_path_in_disguise__is_still_metered(void **state)
{
    (void)state;
    static const char *const chat[] = {
        "/v1/chat/completions/",         "//v1//chat//completions",
        "/v1/./chat/completions",        "/v1/x/../chat/completions",
        "/v1/chat%2Fcompletions",        "/v1/%63hat/completions",
        "/V1/Chat/Completions",          "/v1/chat/completions#a",
        "/v1\\chat\\completions",        "/v1/chat/completions/x/..",
        "/../v1/chat/completions",       "/v1/chat/%2e/completions",
        "/v1/chat/y/%2E%2e/completions", "/v1/chat/completions/a/b/c/d/e/../../../../..",
    };
    for (size_t i = 0; i < WEIR_COUNT(chat); i++)
        CHECK_MSG(api_of(chat[i]) == WEIR_API_OPENAI_CHAT, "%s", chat[i]);
    /* Escapes are decoded once, as servers do. */
    CHECK_INT(api_of("/v1/%2563hat/completions"), WEIR_API_OTHER);
}

static void path_of_very_many_segments__is_other_until_dots_take_them_away(void **state)
{
    (void)state;
    static char path[8192];
    strcpy(path, "/v1/chat/completions");
    for (int i = 0; i < 600; i++)
        strcat(path, "/a");
    CHECK_INT(api_of(path), WEIR_API_OTHER);
    for (int i = 0; i < 600; i++)
        strcat(path, "/..");
    CHECK_INT(api_of(path), WEIR_API_OPENAI_CHAT);
}

static void join__by_the_longest_overlap_of_whole_segments(void **state)
{
    (void)state;
    static const struct {
        const char *base, *path, *want;
    } rows[] = {
        {"/api/v1", "/v1/x", "/api/v1/x"},
        {"/api/v1/", "/v1/x?q=1", "/api/v1/x?q=1"},
        {"", "/v1/x", "/v1/x"},
        {"/", "/v1/x", "/v1/x"},
        {"/v1", "/x", "/v1/x"},
        {"/api/v1", "/api/v1/x", "/api/v1/x"},
        {"/v1", "/v1", "/v1"},
        {"/v1", "/v1?q", "/v1?q"},
        {"/v1", "/v12/x", "/v1/v12/x"},
        {"/av1", "/v1/x", "/av1/v1/x"},
        {"/v1/v1", "/v1/x", "/v1/v1/x"},
        {"/a/b/a", "/a/b/a/x", "/a/b/a/x"},
        {"/v1", "/", "/v1/"},
    };
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        char out[64];
        size_t base_bytes = strlen(rows[i].base), path_bytes = strlen(rows[i].path);
        size_t n =
            weir_path_join(rows[i].base, base_bytes, rows[i].path, path_bytes, out, sizeof out - 1);
        out[n] = 0;
        CHECK_STR(out, rows[i].want);
        CHECK_INT(weir_path_join(rows[i].base, base_bytes, rows[i].path, path_bytes, out, n - 1),
                  0);
    }
}

static void names_and_dialects__are_those_of_each_api(void **state)
{
    (void)state;
    for (int a = 0; a < WEIR_API_COUNT; a++) {
        enum weir_api api = (enum weir_api)a;
        bool anthropic = strncmp(weir_api_name(api), "anthropic", 9) == 0;
        CHECK_INT(weir_api_dialect(api) == WEIR_DIALECT_ANTHROPIC, anthropic);
        CHECK_INT(weir_api_is_metered(api), api != WEIR_API_ANTHROPIC_COUNT &&
                                                api != WEIR_API_MODELS && api != WEIR_API_OTHER);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths__of_each_api__are_known_behind_any_prefix),
        cmocka_unit_test(metered_path_in_disguise__is_still_metered),
        cmocka_unit_test(path_of_very_many_segments__is_other_until_dots_take_them_away),
        cmocka_unit_test(join__by_the_longest_overlap_of_whole_segments),
        cmocka_unit_test(names_and_dialects__are_those_of_each_api),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
