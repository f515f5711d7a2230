#include "wire/usage_schema.h"

/* The keys that lead on from each kind of object. A list makes both the table and its mask, which
 * says at once of most other keys that they lead nowhere. */
#define KEYS_TOP(X)                                                                                \
    X("type", TYPE)                                                                                \
    X("choices", CHOICES)                                                                          \
    X("usage", USAGE)                                                                              \
    X("error", ERROR)                                                                              \
    X("response", RESPONSE)                                                                        \
    X("message", MESSAGE)                                                                          \
    X("delta", DELTA)                                                                              \
    X("content", CONTENT)                                                                          \
    X("output", OUTPUT)                                                                            \
    X("stop_reason", FINISH)                                                                       \
    X("status", STATUS)                                                                            \
    X("code", CODE)                                                                                \
    X("input_tokens", FIELD_INPUT)

#define KEYS_CHOICE(X)                                                                             \
    X("index", INDEX)                                                                              \
    X("delta", CHOICE_MESSAGE)                                                                     \
    X("message", CHOICE_MESSAGE)                                                                   \
    X("text", CHOICE_TEXT)                                                                         \
    X("finish_reason", FINISH)

#define KEYS_CHOICE_MESSAGE(X)                                                                     \
    X("content", CHOICE_TEXT)                                                                      \
    X("tool_calls", TOOL_CALLS)                                                                    \
    X("function_call", FUNCTION)                                                                   \
    X("refusal", OTHER_TEXT)                                                                       \
    X("reasoning", OTHER_TEXT)                                                                     \
    X("reasoning_content", OTHER_TEXT)

#define KEYS_TOOL_CALL(X) X("function", FUNCTION)

#define KEYS_FUNCTION(X)                                                                           \
    X("name", OTHER_TEXT)                                                                          \
    X("arguments", OTHER_TEXT)

#define KEYS_USAGE(X)                                                                              \
    X("prompt_tokens", FIELD_INPUT)                                                                \
    X("completion_tokens", FIELD_OUTPUT)                                                           \
    X("input_tokens", FIELD_INPUT)                                                                 \
    X("output_tokens", FIELD_OUTPUT)                                                               \
    X("prompt_tokens_details", INPUT_DETAILS)                                                      \
    X("input_tokens_details", INPUT_DETAILS)                                                       \
    X("completion_tokens_details", OUTPUT_DETAILS)                                                 \
    X("output_tokens_details", OUTPUT_DETAILS)                                                     \
    X("cache_read_input_tokens", FIELD_CACHE_READ_A)                                               \
    X("cache_creation_input_tokens", FIELD_CACHE_WRITE_A)

#define KEYS_INPUT_DETAILS(X)                                                                      \
    X("cached_tokens", FIELD_CACHED)                                                               \
    X("cache_write_tokens", FIELD_CACHE_WRITE)

#define KEYS_OUTPUT_DETAILS(X)                                                                     \
    X("reasoning_tokens", FIELD_REASONING)                                                         \
    X("thinking_tokens", FIELD_REASONING)

#define KEYS_ERROR(X)                                                                              \
    X("type", ERROR_TYPE)                                                                          \
    X("code", ERROR_CODE)

#define KEYS_RESPONSE(X)                                                                           \
    X("usage", USAGE)                                                                              \
    X("status", STATUS)                                                                            \
    X("error", ERROR)

#define KEYS_MESSAGE(X)                                                                            \
    X("usage", USAGE)                                                                              \
    X("stop_reason", FINISH)

#define KEYS_DELTA(X)                                                                              \
    X("text", TEXT)                                                                                \
    X("thinking", OTHER_TEXT)                                                                      \
    X("partial_json", OTHER_TEXT)                                                                  \
    X("stop_reason", FINISH)

#define KEYS_BLOCK(X)                                                                              \
    X("text", TEXT)                                                                                \
    X("thinking", OTHER_TEXT)

#define KEYS_ITEM(X)                                                                               \
    X("content", ITEM_CONTENT)                                                                     \
    X("name", OTHER_TEXT)                                                                          \
    X("arguments", OTHER_TEXT)

#define KEYS_ITEM_PART(X)                                                                          \
    X("text", TEXT)                                                                                \
    X("refusal", OTHER_TEXT)

#define KEY(name, node) {name, sizeof(name) - 1, NODE_##node},
#define KEY_MASK(name, node) | WEIR_PUSH_MASK((name)[0], (name)[1], sizeof(name) - 1)

static const struct weir_push_key keys_top[] = {KEYS_TOP(KEY)};
static const struct weir_push_key keys_choice[] = {KEYS_CHOICE(KEY)};
static const struct weir_push_key keys_choice_message[] = {KEYS_CHOICE_MESSAGE(KEY)};
static const struct weir_push_key keys_tool_call[] = {KEYS_TOOL_CALL(KEY)};
static const struct weir_push_key keys_function[] = {KEYS_FUNCTION(KEY)};
static const struct weir_push_key keys_usage[] = {KEYS_USAGE(KEY)};
static const struct weir_push_key keys_input_details[] = {KEYS_INPUT_DETAILS(KEY)};
static const struct weir_push_key keys_output_details[] = {KEYS_OUTPUT_DETAILS(KEY)};
static const struct weir_push_key keys_error[] = {KEYS_ERROR(KEY)};
static const struct weir_push_key keys_response[] = {KEYS_RESPONSE(KEY)};
static const struct weir_push_key keys_message[] = {KEYS_MESSAGE(KEY)};
static const struct weir_push_key keys_delta[] = {KEYS_DELTA(KEY)};
static const struct weir_push_key keys_block[] = {KEYS_BLOCK(KEY)};
static const struct weir_push_key keys_item[] = {KEYS_ITEM(KEY)};
static const struct weir_push_key keys_item_part[] = {KEYS_ITEM_PART(KEY)};

#define NODE_OF(kind, string, keys, list)                                                          \
    {                                                                                              \
        kind, WEIR_COUNT(keys), 0, string, 0 list(KEY_MASK), keys                                  \
    }

const struct weir_push_node weir_usage_schema[NODE_COUNT] = {
    [NODE_TOP] = NODE_OF(WEIR_PUSH_OBJECT, 0, keys_top, KEYS_TOP),
    [NODE_CHOICE] = NODE_OF(WEIR_PUSH_NOTED, 0, keys_choice, KEYS_CHOICE),
    [NODE_CHOICE_MESSAGE] = NODE_OF(WEIR_PUSH_OBJECT, 0, keys_choice_message, KEYS_CHOICE_MESSAGE),
    [NODE_TOOL_CALL] = NODE_OF(WEIR_PUSH_OBJECT, 0, keys_tool_call, KEYS_TOOL_CALL),
    [NODE_FUNCTION] = NODE_OF(WEIR_PUSH_OBJECT, 0, keys_function, KEYS_FUNCTION),
    [NODE_USAGE] = NODE_OF(WEIR_PUSH_NOTED, 0, keys_usage, KEYS_USAGE),
    [NODE_INPUT_DETAILS] = NODE_OF(WEIR_PUSH_OBJECT, 0, keys_input_details, KEYS_INPUT_DETAILS),
    [NODE_OUTPUT_DETAILS] = NODE_OF(WEIR_PUSH_OBJECT, 0, keys_output_details, KEYS_OUTPUT_DETAILS),
    [NODE_ERROR] = NODE_OF(WEIR_PUSH_NOTED, NODE_ERROR_TEXT, keys_error, KEYS_ERROR),
    [NODE_RESPONSE] = NODE_OF(WEIR_PUSH_OBJECT, 0, keys_response, KEYS_RESPONSE),
    [NODE_MESSAGE] = NODE_OF(WEIR_PUSH_OBJECT, 0, keys_message, KEYS_MESSAGE),
    [NODE_DELTA] = NODE_OF(WEIR_PUSH_OBJECT, NODE_DELTA_TEXT, keys_delta, KEYS_DELTA),
    [NODE_BLOCK] = NODE_OF(WEIR_PUSH_OBJECT, 0, keys_block, KEYS_BLOCK),
    [NODE_ITEM] = NODE_OF(WEIR_PUSH_OBJECT, 0, keys_item, KEYS_ITEM),
    [NODE_ITEM_PART] = NODE_OF(WEIR_PUSH_OBJECT, 0, keys_item_part, KEYS_ITEM_PART),
    [NODE_CHOICES] = {.kind = WEIR_PUSH_ARRAY, .element = NODE_CHOICE},
    [NODE_TOOL_CALLS] = {.kind = WEIR_PUSH_ARRAY, .element = NODE_TOOL_CALL},
    [NODE_CONTENT] = {.kind = WEIR_PUSH_ARRAY, .element = NODE_BLOCK},
    [NODE_OUTPUT] = {.kind = WEIR_PUSH_ARRAY, .element = NODE_ITEM},
    [NODE_ITEM_CONTENT] = {.kind = WEIR_PUSH_ARRAY, .element = NODE_ITEM_PART},
    [NODE_TYPE] = {.kind = WEIR_PUSH_WORD},
    [NODE_STATUS] = {.kind = WEIR_PUSH_WORD},
    [NODE_FINISH] = {.kind = WEIR_PUSH_WORD},
    [NODE_CODE] = {.kind = WEIR_PUSH_WORD},
    [NODE_ERROR_TYPE] = {.kind = WEIR_PUSH_WORD},
    [NODE_ERROR_CODE] = {.kind = WEIR_PUSH_WORD},
    [NODE_ERROR_TEXT] = {.kind = WEIR_PUSH_WORD},
    [NODE_DELTA_TEXT] = {.kind = WEIR_PUSH_TEXT},
    [NODE_CHOICE_TEXT] = {.kind = WEIR_PUSH_TEXT},
    [NODE_TEXT] = {.kind = WEIR_PUSH_TEXT},
    [NODE_OTHER_TEXT] = {.kind = WEIR_PUSH_TEXT},
    [NODE_INDEX] = {.kind = WEIR_PUSH_WHOLE},
    [NODE_FIELD_INPUT] = {.kind = WEIR_PUSH_WHOLE},
    [NODE_FIELD_OUTPUT] = {.kind = WEIR_PUSH_WHOLE},
    [NODE_FIELD_CACHED] = {.kind = WEIR_PUSH_WHOLE},
    [NODE_FIELD_CACHE_WRITE] = {.kind = WEIR_PUSH_WHOLE},
    [NODE_FIELD_REASONING] = {.kind = WEIR_PUSH_WHOLE},
    [NODE_FIELD_CACHE_READ_A] = {.kind = WEIR_PUSH_WHOLE},
    [NODE_FIELD_CACHE_WRITE_A] = {.kind = WEIR_PUSH_WHOLE},
};
