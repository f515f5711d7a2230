#include "mock/mock_key.h"

#include <stdlib.h>

struct weir_slice mock_key_bearer(const struct weir_http_head *head)
{
    static const char scheme[] = "Bearer ";
    struct weir_slice value = weir_http_value(head, WEIR_HTTP_AUTHORIZATION);
    size_t n = sizeof scheme - 1;
    if (value.bytes < n || memcmp(value.at, scheme, n) != 0)
        return (struct weir_slice){0};
    return (struct weir_slice){value.at + n, value.bytes - n};
}

struct weir_slice mock_key_credential(const struct weir_http_head *head)
{
    struct weir_slice direct = weir_http_value(head, WEIR_HTTP_X_API_KEY);
    return direct.at ? direct : mock_key_bearer(head);
}

uint32_t mock_keys_find(struct mock_keys *keys, struct weir_slice credential)
{
    for (uint32_t i = 0; i < keys->count; i++)
        if (weir_slice_equal((struct weir_slice){keys->keys[i].text, keys->keys[i].bytes},
                             credential))
            return i;
    char *text = keys->count < MOCK_KEYS_MAX ? malloc(credential.bytes + 1) : NULL;
    if (!text)
        return MOCK_KEYS_MAX - 1;
    if (credential.bytes > 0)
        memcpy(text, credential.at, credential.bytes);
    keys->keys[keys->count] = (struct mock_key){.text = text, .bytes = credential.bytes};
    return keys->count++;
}

void mock_keys_free(struct mock_keys *keys)
{
    for (uint32_t i = 0; i < keys->count; i++)
        free(keys->keys[i].text);
    keys->count = 0;
}
