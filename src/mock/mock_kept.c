#include "mock/mock_kept.h"

#include <stdlib.h>

void mock_kept_add(struct mock_kept *kept, uint64_t number, const struct weir_http_head *head,
                   struct weir_slice body)
{
    struct mock_kept_request *k = &kept->requests[number % MOCK_KEPT];
    kept->latest = k->number = number;
    free(k->head);
    free(k->body);
    k->head_bytes = head->head_bytes;
    k->body_bytes = body.bytes < MOCK_KEPT_BODY ? body.bytes : MOCK_KEPT_BODY;
    k->head = malloc(k->head_bytes + 1);
    k->body = malloc(k->body_bytes + 1);
    if (!k->head || !k->body) {
        k->head_bytes = k->body_bytes = 0;
        return;
    }
    memcpy(k->head, head->base, k->head_bytes);
    if (k->body_bytes)
        memcpy(k->body, body.at, k->body_bytes);
}

/* Bytes that may not be UTF-8: what is not printable ASCII or a line end is shown as '?'. */
static json_t *kept_text(const char *at, size_t bytes)
{
    json_t *whole = json_stringn(at, bytes);
    if (whole)
        return whole;
    char *copy = malloc(bytes + 1);
    for (size_t i = 0; copy && i < bytes; i++)
        copy[i] = (unsigned char)at[i] < 0x7f ? at[i] : '?';
    whole = json_stringn(copy ? copy : "", copy ? bytes : 0);
    free(copy);
    return whole;
}

json_t *mock_kept_json(const struct mock_kept *kept)
{
    json_t *list = json_array();
    uint64_t first = kept->latest > MOCK_KEPT ? kept->latest - MOCK_KEPT + 1 : 1;
    for (uint64_t i = first; i <= kept->latest; i++) {
        const struct mock_kept_request *k = &kept->requests[i % MOCK_KEPT];
        if (k->head && k->number == i) /* others were answered before they were read */
            json_array_append_new(list, json_pack("{s:I, s:o, s:o}", "number", (json_int_t)i,
                                                  "head", kept_text(k->head, k->head_bytes), "body",
                                                  kept_text(k->body, k->body_bytes)));
    }
    return json_pack("{s:o}", "requests", list);
}

void mock_kept_free(struct mock_kept *kept)
{
    for (size_t i = 0; i < MOCK_KEPT; i++) {
        free(kept->requests[i].head);
        free(kept->requests[i].body);
    }
}
