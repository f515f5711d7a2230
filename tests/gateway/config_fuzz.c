/* Any text: the loader says what is wrong or gives a configuration, and what it gives prints to a
 * text that loads to the same. */
#include "gateway/config.h"
#include "gateway/config_print.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static struct weir_config *load(const char *text, size_t bytes,
                                struct weir_config_problems *problems)
{
    struct weir_config_source from = {
        .file = "fuzz", .text = text, .text_bytes = bytes, .no_secrets = true};
    return weir_config_load(&from, problems);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct weir_config_problems problems = {0}, none = {0};
    struct weir_config *config = load((const char *)data, bytes, &problems);
    WEIR_INVARIANT((config == NULL) == (problems.errors > 0));
    for (uint32_t i = 0; i < problems.count; i++)
        WEIR_INVARIANT(*problems.list[i].text && *problems.list[i].where);
    if (config) {
        char *text = weir_config_yaml(config);
        struct weir_config *again = load(text, strlen(text), &none);
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
