/* Any text: the loader says what is wrong or gives a configuration, and what it gives prints to a
 * text that loads to the same. Comments like "#set path=value" are values laid over it. */
#include "gateway/config.h"
#include "gateway/config_print.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { SETS_MAX = 4 };

static struct weir_config *load(const char *text, size_t bytes, const struct weir_config_set *sets,
                                size_t sets_count, struct weir_config_problems *problems)
{
    struct weir_config_source from = {.file = "fuzz",
                                      .text = text,
                                      .text_bytes = bytes,
                                      .sets = sets,
                                      .sets_count = sets_count,
                                      .no_secrets = true};
    return weir_config_load(&from, problems);
}

/* The values set in the comments of a text, which is cut up for it. */
static size_t find_sets(char *text, struct weir_config_set sets[SETS_MAX])
{
    static const char mark[] = "#set ";
    size_t count = 0;
    for (char *at = strstr(text, mark); at && count < SETS_MAX; at = strstr(at, mark)) {
        char *path = at + strlen(mark), *end = path + strcspn(path, "\n");
        at = *end ? end + 1 : end;
        *end = '\0';
        char *equals = strchr(path, '=');
        if (!equals)
            continue;
        *equals = '\0';
        sets[count++] = (struct weir_config_set){path, equals + 1};
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct weir_config_problems problems = {0}, none = {0};
    struct weir_config_set sets[SETS_MAX];
    char *copy = malloc(bytes + 1);
    if (!copy)
        return 0;
    memcpy(copy, data, bytes);
    copy[bytes] = '\0';
    size_t sets_count = find_sets(copy, sets);
    struct weir_config *config = load((const char *)data, bytes, sets, sets_count, &problems);
    free(copy); /* nothing of it is kept */
    WEIR_INVARIANT((config == NULL) == (problems.errors > 0));
    for (uint32_t i = 0; i < problems.count; i++)
        WEIR_INVARIANT(*problems.list[i].text && *problems.list[i].where);
    if (config) {
        char *text = weir_config_yaml(config);
        struct weir_config *again = load(text, strlen(text), NULL, 0, &none);
        WEIR_INVARIANT(again);
        char *text_again = weir_config_yaml(again);
        WEIR_INVARIANT(strcmp(text, text_again) == 0);
        free(text);
        free(text_again);
        weir_config_free(again);
        weir_config_free(config);
    }
    weir_config_problems_free(&problems);
    weir_config_problems_free(&none);
    return 0;
}
