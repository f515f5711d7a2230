/* usage_schema: where in responses the values are that usage.c reads.
 *
 * One tree for all APIs: their member names do not collide in meaning, so a server that mixes them
 * is still read. Private to usage.c. */
#ifndef WEIR_WIRE_USAGE_SCHEMA_H
#define WEIR_WIRE_USAGE_SCHEMA_H

#include "wire/json_push.h"

enum usage_node {
    NODE_SKIP,
    NODE_TOP,
    /* objects and arrays */
    NODE_CHOICES,
    NODE_CHOICE,
    NODE_CHOICE_MESSAGE,
    NODE_TOOL_CALLS,
    NODE_TOOL_CALL,
    NODE_FUNCTION,
    NODE_USAGE,
    NODE_INPUT_DETAILS,
    NODE_OUTPUT_DETAILS,
    NODE_ERROR,
    NODE_RESPONSE,
    NODE_MESSAGE, /* Anthropic's message_start */
    NODE_DELTA,
    NODE_CONTENT,
    NODE_BLOCK,
    NODE_OUTPUT,
    NODE_ITEM,
    NODE_ITEM_CONTENT,
    NODE_ITEM_PART,
    /* words */
    NODE_TYPE,
    NODE_STATUS,
    NODE_FINISH,
    NODE_CODE,
    NODE_ERROR_TYPE,
    NODE_ERROR_CODE,
    NODE_ERROR_TEXT,
    /* texts */
    NODE_DELTA_TEXT,  /* Responses: its meaning hangs on type */
    NODE_CHOICE_TEXT, /* text of a choice */
    NODE_TEXT,        /* text */
    NODE_OTHER_TEXT,  /* output that is not text: arguments, reasoning */
    /* whole numbers */
    NODE_INDEX,
    NODE_FIELD_INPUT,
    NODE_FIELD_OUTPUT,
    NODE_FIELD_CACHED,
    NODE_FIELD_CACHE_WRITE,
    NODE_FIELD_REASONING,
    NODE_FIELD_CACHE_READ_A,
    NODE_FIELD_CACHE_WRITE_A,
    NODE_COUNT
};

extern const struct weir_push_node weir_usage_schema[NODE_COUNT];

#endif
