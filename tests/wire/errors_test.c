#include "wire/errors.h"

#include <jansson.h>

#include "wire/usage.h"
#include "wire/wire_data.h"

static const char *text_at(json_t *o, const char *key)
{
    json_t *v = json_object_get(o, key);
    return json_is_string(v) ? json_string_value(v) : json_is_null(v) ? "(null)" : "(missing)";
}

/* The types that Anthropic's SDKs know (samples in error/, and conflict_error). */
static bool anthropic_knows(const char *type)
{
    static const char *const known[] = {
        "invalid_request_error", "authentication_error", "billing_error",    "permission_error",
        "not_found_error",       "request_too_large",    "rate_limit_error", "api_error",
        "timeout_error",         "overloaded_error",     "conflict_error"};
    for (size_t i = 0; i < WEIR_COUNT(known); i++)
        if (strcmp(known[i], type) == 0)
            return true;
    return false;
}

static void bodies__of_every_refusal__have_the_shape_of_their_dialect(void **state)
{
    (void)state;
    for (int i = WEIR_REFUSAL_NONE + 1; i < WEIR_REFUSAL_COUNT; i++) {
        enum weir_refusal refusal = (enum weir_refusal)i;
        const struct weir_refusal_row *row = weir_refusal_row(refusal);
        char out[WEIR_ERROR_BYTES(512)];
        struct weir_error_text e =
            weir_error_text(refusal, WEIR_DIALECT_OPENAI, NULL, "max_tokens", "req_1");
        json_t *body = json_loadb(out, weir_error_body(&e, out, sizeof out), 0, NULL);
        json_t *error = json_object_get(body, "error");
        CHECK_INT(json_object_size(error), 4);
        CHECK_STR(text_at(error, "message"), weir_refusal_message(refusal));
        CHECK_STR(text_at(error, "code"), row->code);
        CHECK_STR(text_at(error, "param"), "max_tokens");
        CHECK(strlen(text_at(error, "type")) > 4);
        json_decref(body);

        e = weir_error_text(refusal, WEIR_DIALECT_ANTHROPIC, "What happened.", NULL, "req_1");
        body = json_loadb(out, weir_error_body(&e, out, sizeof out), 0, NULL);
        error = json_object_get(body, "error");
        CHECK_STR(text_at(body, "type"), "error");
        CHECK_STR(text_at(body, "request_id"), "req_1");
        CHECK_STR(text_at(error, "message"), "What happened.");
        CHECK_MSG(anthropic_knows(text_at(error, "type")), "%s", row->code);
        json_decref(body);
    }
}

static void types__fit_the_samples_of_each_status(void **state)
{
    (void)state;
    static const uint16_t statuses[] = {400, 401, 403, 404, 413, 429, 500, 504, 529};
    for (size_t i = 0; i < WEIR_COUNT(statuses); i++) {
        char name[64];
        snprintf(name, sizeof name, "error/anthropic_%u.json", statuses[i]);
        struct wire_bytes b = wire_load(name);
        json_t *body = json_loadb((const char *)b.at, b.n, 0, NULL);
        CHECK_STR(weir_error_type_of_status(statuses[i], WEIR_DIALECT_ANTHROPIC),
                  text_at(json_object_get(body, "error"), "type"));
        json_decref(body);
        free(b.at);
    }
    static const struct {
        enum weir_refusal refusal;
        const char *anthropic;
    } rows[] = {
        {WEIR_REFUSAL_QUEUE_FULL, "rate_limit_error"},
        {WEIR_REFUSAL_TOO_LARGE, "request_too_large"},
        {WEIR_REFUSAL_BUDGET_EXHAUSTED, "billing_error"},
        {WEIR_REFUSAL_TENANT_PAUSED, "permission_error"},
        {WEIR_REFUSAL_UPSTREAM_OPEN, "overloaded_error"},
        {WEIR_REFUSAL_UPSTREAM_UNAVAILABLE, "api_error"},
        {WEIR_REFUSAL_UPSTREAM_TIMEOUT, "timeout_error"},
        {WEIR_REFUSAL_LEDGER_UNAVAILABLE, "api_error"},
        {WEIR_REFUSAL_IDEMPOTENCY_BUSY, "conflict_error"},
        {WEIR_REFUSAL_KEY_UNKNOWN, "authentication_error"},
        {WEIR_REFUSAL_MALFORMED, "invalid_request_error"},
    };
    for (size_t i = 0; i < WEIR_COUNT(rows); i++)
        CHECK_STR(weir_error_type(rows[i].refusal, WEIR_DIALECT_ANTHROPIC), rows[i].anthropic);
}

static void message_of_any_bytes__is_escaped_and_fits_the_room_promised(void **state)
{
    (void)state;
    char message[256];
    for (int i = 0; i < 255; i++)
        message[i] = (char)(i + 1);
    message[255] = 0;
    struct weir_error_text e = {.dialect = WEIR_DIALECT_OPENAI, .status = 400, .message = message};
    char out[WEIR_ERROR_BYTES(255)];
    size_t n = weir_error_body(&e, out, sizeof out);
    CHECK(n > 0);
    json_t *body = json_loadb(out, n, 0, NULL);
    CHECK(body != NULL);
    const char *back = text_at(json_object_get(body, "error"), "message");
    CHECK_INT(strncmp(back, message, 127), 0);
    CHECK_STR(text_at(json_object_get(body, "error"), "code"), "(null)");
    json_decref(body);
    for (size_t cap = 0; cap < n; cap++) {
        char *exact = malloc(cap + 1);
        CHECK_INT(weir_error_body(&e, exact, cap), 0);
        free(exact);
    }
}

static void events__of_each_api__are_seen_as_errors_by_a_reader(void **state)
{
    (void)state;
    static const enum weir_api apis[] = {WEIR_API_OPENAI_CHAT, WEIR_API_OPENAI_COMPLETIONS,
                                         WEIR_API_OPENAI_RESPONSES, WEIR_API_ANTHROPIC_MESSAGES};
    for (size_t i = 0; i < WEIR_COUNT(apis); i++) {
        struct weir_error_text e =
            weir_error_text(WEIR_REFUSAL_UPSTREAM_UNAVAILABLE, weir_api_dialect(apis[i]),
                            "The upstream ended the stream.\ndata: x", NULL, "req_1");
        char out[1024];
        size_t n = weir_error_event(&e, apis[i], true, out, sizeof out);
        CHECK(n > 0);
        struct weir_usage u;
        weir_usage_init(&u, apis[i], true);
        weir_usage_feed(&u, out, n);
        weir_usage_finish(&u);
        CHECK_INT(u.seen.events, 1);
        CHECK(u.seen.error && !u.seen.unreadable && !u.seen.complete);
        CHECK_STR(u.seen.error_type, apis[i] == WEIR_API_OPENAI_RESPONSES ? "upstream_unavailable"
                                     : apis[i] == WEIR_API_ANTHROPIC_MESSAGES ? "api_error"
                                                                              : "server_error");
        CHECK_INT(strncmp(out, "event: error\n", 13) == 0, apis[i] >= WEIR_API_OPENAI_RESPONSES);
        /* Inside a cut line, the event still stands alone. */
        n = weir_error_event(&e, apis[i], false, out, sizeof out);
        weir_usage_init(&u, apis[i], true);
        weir_usage_feed(&u, "data: {\"cut", 11);
        weir_usage_feed(&u, out, n);
        weir_usage_finish(&u);
        CHECK_INT(u.seen.events, 2);
        CHECK(u.seen.error);
    }
}

static void events__of_chat_and_responses__are_exactly_these(void **state)
{
    (void)state;
    struct weir_error_text e = {
        .dialect = WEIR_DIALECT_OPENAI, .status = 502, .code = "c", .message = "m"};
    char out[256];
    out[weir_error_event(&e, WEIR_API_OPENAI_CHAT, true, out, sizeof out)] = 0;
    CHECK_STR(out, "data: {\"error\":{\"message\":\"m\",\"type\":\"server_error\",\"param\":null,"
                   "\"code\":\"c\"}}\n\n");
    out[weir_error_event(&e, WEIR_API_OPENAI_RESPONSES, true, out, sizeof out)] = 0;
    CHECK_STR(out, "event: error\ndata: {\"type\":\"error\",\"code\":\"c\",\"message\":\"m\","
                   "\"param\":null}\n\n");
    e.dialect = WEIR_DIALECT_ANTHROPIC;
    out[weir_error_event(&e, WEIR_API_ANTHROPIC_MESSAGES, true, out, sizeof out)] = 0;
    CHECK_STR(out, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\","
                   "\"message\":\"m\"},\"request_id\":null}\n\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies__of_every_refusal__have_the_shape_of_their_dialect),
        cmocka_unit_test(types__fit_the_samples_of_each_status),
        cmocka_unit_test(message_of_any_bytes__is_escaped_and_fits_the_room_promised),
        cmocka_unit_test(events__of_each_api__are_seen_as_errors_by_a_reader),
        cmocka_unit_test(events__of_chat_and_responses__are_exactly_these),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
