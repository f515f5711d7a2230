#include "wire/usage_schema.h"

#define KEY(name, node)                                                                            \
    {                                                                                              \
        name, sizeof(name) - 1, NODE_##node                                                        \
    }
/* The length mask of a node is the sum of the lengths of its keys, as bits: a key of any other
 * length is known at once to lead nowhere. */
#define LENGTH(name) (UINT32_C(1) << ((sizeof(name) - 1) & 31))

static const struct weir_push_key keys_top[] = {
    KEY("type", TYPE),
    KEY("choices", CHOICES),
    KEY("usage", USAGE),
    KEY("error", ERROR),
    KEY("response", RESPONSE),
    KEY("message", MESSAGE),
    KEY("delta", DELTA),
    KEY("content", CONTENT),
    KEY("output", OUTPUT),
    KEY("stop_reason", FINISH),
    KEY("status", STATUS),
    KEY("code", CODE),
    KEY("input_tokens", FIELD_INPUT),
};

static const struct weir_push_key keys_choice[] = {
    KEY("index", INDEX),      KEY("delta", CHOICE_MESSAGE), KEY("message", CHOICE_MESSAGE),
    KEY("text", CHOICE_TEXT), KEY("finish_reason", FINISH),
};

static const struct weir_push_key keys_choice_message[] = {
    KEY("content", CHOICE_TEXT),    KEY("tool_calls", TOOL_CALLS),
    KEY("function_call", FUNCTION), KEY("refusal", OTHER_TEXT),
    KEY("reasoning", OTHER_TEXT),   KEY("reasoning_content", OTHER_TEXT),
};

static const struct weir_push_key keys_tool_call[] = {
    KEY("function", FUNCTION),
};

static const struct weir_push_key keys_function[] = {
    KEY("name", OTHER_TEXT),
    KEY("arguments", OTHER_TEXT),
};

static const struct weir_push_key keys_usage[] = {
    KEY("prompt_tokens", FIELD_INPUT),
    KEY("completion_tokens", FIELD_OUTPUT),
    KEY("input_tokens", FIELD_INPUT),
    KEY("output_tokens", FIELD_OUTPUT),
    KEY("prompt_tokens_details", INPUT_DETAILS),
    KEY("input_tokens_details", INPUT_DETAILS),
    KEY("completion_tokens_details", OUTPUT_DETAILS),
    KEY("output_tokens_details", OUTPUT_DETAILS),
    KEY("cache_read_input_tokens", FIELD_CACHE_READ_A),
    KEY("cache_creation_input_tokens", FIELD_CACHE_WRITE_A),
};

static const struct weir_push_key keys_input_details[] = {
    KEY("cached_tokens", FIELD_CACHED),
    KEY("cache_write_tokens", FIELD_CACHE_WRITE),
};

static const struct weir_push_key keys_output_details[] = {
    KEY("reasoning_tokens", FIELD_REASONING),
    KEY("thinking_tokens", FIELD_REASONING),
};

static const struct weir_push_key keys_error[] = {
    KEY("type", ERROR_TYPE),
    KEY("code", ERROR_CODE),
};

static const struct weir_push_key keys_response[] = {
    KEY("usage", USAGE),
    KEY("status", STATUS),
    KEY("error", ERROR),
};

static const struct weir_push_key keys_message[] = {
    KEY("usage", USAGE),
    KEY("stop_reason", FINISH),
};

static const struct weir_push_key keys_delta[] = {
    KEY("text", TEXT),
    KEY("thinking", OTHER_TEXT),
    KEY("partial_json", OTHER_TEXT),
    KEY("stop_reason", FINISH),
};

static const struct weir_push_key keys_block[] = {
    KEY("text", TEXT),
    KEY("thinking", OTHER_TEXT),
};

static const struct weir_push_key keys_item[] = {
    KEY("content", ITEM_CONTENT),
    KEY("name", OTHER_TEXT),
    KEY("arguments", OTHER_TEXT),
};

static const struct weir_push_key keys_item_part[] = {
    KEY("text", TEXT),
    KEY("refusal", OTHER_TEXT),
};

#define NODE_OF(kind, string, keys, lengths)                                                       \
    {                                                                                              \
        kind, WEIR_COUNT(keys), 0, string, lengths, keys                                           \
    }

const struct weir_push_node weir_usage_schema[NODE_COUNT] = {
    [NODE_TOP] = NODE_OF(WEIR_PUSH_OBJECT, 0, keys_top,
                         LENGTH("type") | LENGTH("choices") | LENGTH("usage") | LENGTH("response") |
                             LENGTH("output") | LENGTH("stop_reason") | LENGTH("input_tokens")),
    [NODE_CHOICE] =
        NODE_OF(WEIR_PUSH_NOTED, 0, keys_choice,
                LENGTH("index") | LENGTH("message") | LENGTH("text") | LENGTH("finish_reason")),
    [NODE_CHOICE_MESSAGE] =
        NODE_OF(WEIR_PUSH_OBJECT, 0, keys_choice_message,
                LENGTH("content") | LENGTH("tool_calls") | LENGTH("function_call") |
                    LENGTH("reasoning") | LENGTH("reasoning_content")),
    [NODE_TOOL_CALL] = NODE_OF(WEIR_PUSH_OBJECT, 0, keys_tool_call, LENGTH("function")),
    [NODE_FUNCTION] =
        NODE_OF(WEIR_PUSH_OBJECT, 0, keys_function, LENGTH("name") | LENGTH("arguments")),
    [NODE_USAGE] =
        NODE_OF(WEIR_PUSH_NOTED, 0, keys_usage,
                LENGTH("prompt_tokens") | LENGTH("completion_tokens") | LENGTH("input_tokens") |
                    LENGTH("prompt_tokens_details") | LENGTH("input_tokens_details") |
                    LENGTH("completion_tokens_details") | LENGTH("cache_read_input_tokens") |
                    LENGTH("cache_creation_input_tokens")),
    [NODE_INPUT_DETAILS] = NODE_OF(WEIR_PUSH_OBJECT, 0, keys_input_details,
                                   LENGTH("cached_tokens") | LENGTH("cache_write_tokens")),
    [NODE_OUTPUT_DETAILS] = NODE_OF(WEIR_PUSH_OBJECT, 0, keys_output_details,
                                    LENGTH("reasoning_tokens") | LENGTH("thinking_tokens")),
    [NODE_ERROR] = NODE_OF(WEIR_PUSH_NOTED, NODE_ERROR_TEXT, keys_error, LENGTH("type")),
    [NODE_RESPONSE] =
        NODE_OF(WEIR_PUSH_OBJECT, 0, keys_response, LENGTH("usage") | LENGTH("status")),
    [NODE_MESSAGE] =
        NODE_OF(WEIR_PUSH_OBJECT, 0, keys_message, LENGTH("usage") | LENGTH("stop_reason")),
    [NODE_DELTA] = NODE_OF(WEIR_PUSH_OBJECT, NODE_DELTA_TEXT, keys_delta,
                           LENGTH("text") | LENGTH("thinking") | LENGTH("partial_json") |
                               LENGTH("stop_reason")),
    [NODE_BLOCK] = NODE_OF(WEIR_PUSH_OBJECT, 0, keys_block, LENGTH("text") | LENGTH("thinking")),
    [NODE_ITEM] = NODE_OF(WEIR_PUSH_OBJECT, 0, keys_item,
                          LENGTH("content") | LENGTH("name") | LENGTH("arguments")),
    [NODE_ITEM_PART] =
        NODE_OF(WEIR_PUSH_OBJECT, 0, keys_item_part, LENGTH("text") | LENGTH("refusal")),
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
