/* request_oracle: jansson as the judge of what the request reader accepted.
 *
 * Used by the test and the fuzz target alike. jansson refuses three things that JSON allows and we
 * pass: doubles out of range, lone surrogate escapes, and NUL in a key; those inputs have no judge.
 */
#ifndef WEIR_TESTS_REQUEST_ORACLE_H
#define WEIR_TESTS_REQUEST_ORACLE_H

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "wire/request.h"

/* A whole number member, or absent (false) when missing or null. */
static inline bool oracle_whole(json_t *doc, const char *key, uint64_t *value)
{
    json_t *v = json_object_get(doc, key);
    if (!json_is_integer(v))
        return false;
    *value = (uint64_t)json_integer_value(v);
    return true;
}

/* Why the facts are not what jansson reads in an accepted body; NULL when they are (or when jansson
 * cannot judge). */
static inline const char *oracle_differs(const struct weir_request_facts *f, enum weir_api api,
                                         const void *body, size_t n)
{
    static char why[256];
    json_error_t error;
    json_t *doc = json_loadb(body, n, JSON_ALLOW_NUL, &error);
    if (!doc) {
        enum json_error_code code = json_error_code(&error);
        if (code == json_error_numeric_overflow || code == json_error_null_byte_in_key ||
            code == json_error_null_character || strstr(error.text, "surrogate") ||
            strstr(error.text, "Unicode"))
            return NULL;
        snprintf(why, sizeof why, "jansson refuses it: %s", error.text);
        return why;
    }
    const char *result = NULL;
    bool chat = api == WEIR_API_OPENAI_CHAT;
    json_t *model = json_object_get(doc, "model");
    json_t *options = json_object_get(doc, "stream_options");
    uint64_t limit = 0, other = 0, count = 1;
    bool has = oracle_whole(
        doc, api == WEIR_API_OPENAI_RESPONSES ? "max_output_tokens" : "max_tokens", &limit);
    bool has_other = chat && oracle_whole(doc, "max_completion_tokens", &other);
    if (api == WEIR_API_OPENAI_EMBEDDINGS)
        has = false;
    uint64_t want = weir_max_u64(has ? limit : 0, has_other ? other : 0);
    if (json_string_length(model) != f->model_bytes ||
        (f->model_bytes && memcmp(json_string_value(model), f->model, f->model_bytes) != 0))
        result = "model";
    else if (api != WEIR_API_OPENAI_EMBEDDINGS &&
             f->stream != json_is_true(json_object_get(doc, "stream")))
        result = "stream";
    else if (f->has_limit != (has || has_other) || f->limit_tok != want)
        result = "limit";
    else if (chat && (oracle_whole(doc, "n", &count), f->n != count))
        result = "n";
    else if (chat &&
             f->has_include_usage != json_is_true(json_object_get(options, "include_usage")))
        result = "include_usage";
    else if (chat && f->has_user != json_is_string(json_object_get(doc, "user")))
        result = "user";
    json_decref(doc);
    return result;
}

/* Whether the planned edits give a body that we and jansson accept and that says what was meant. */
static inline const char *oracle_edit_differs(const struct weir_request_facts *f, enum weir_api api,
                                              const void *body, size_t n, void *room)
{
    struct weir_request_edits edits;
    struct weir_request_facts after;
    if (!weir_request_plan(&edits, f, api, true, 4096, true))
        return NULL;
    size_t bytes = weir_request_edited_bytes(&edits, n);
    weir_request_edit(&edits, body, n, room);
    if (weir_request_read(&after, api, room, bytes) != WEIR_REQUEST_OK)
        return "the edited body is refused";
    bool streams = api == WEIR_API_OPENAI_CHAT || api == WEIR_API_OPENAI_COMPLETIONS;
    if (streams && f->stream && !after.has_include_usage)
        return "include_usage is not in";
    bool limited = api != WEIR_API_OPENAI_EMBEDDINGS;
    if (limited && after.limit_tok != (f->has_limit ? f->limit_tok : 4096))
        return "the limit is not in";
    if (after.model_bytes != f->model_bytes || after.stream != f->stream || after.n != f->n ||
        memcmp(&after.classes, &f->classes, sizeof f->classes) != 0)
        return "an edit changed something else";
    return oracle_differs(&after, api, room, bytes);
}

#endif
