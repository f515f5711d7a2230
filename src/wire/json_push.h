/* json_push: a JSON tokenizer that is fed in any split and keeps no text.
 *
 * It follows a document by a small table of paths (a "schema"): each object on the way has a node
 * number, keys lead to child nodes, and a subtree that no row names is skipped quickly. It checks
 * the structure (brackets, commas, colons, literals), not UTF-8: it reads responses, which are
 * passed on whatever they are. Requests are read by the strict scanner of json.h.
 *
 * Thread: any. Nothing allocates. */
#ifndef WEIR_WIRE_JSON_PUSH_H
#define WEIR_WIRE_JSON_PUSH_H

#include "core/base.h"

#define WEIR_JSON_PUSH_DEPTH 64
#define WEIR_JSON_PUSH_WORD 40

struct weir_json_push {
    uint8_t state;
    uint8_t after;      /* unfinished literal, escape or number: where in it */
    uint8_t node;       /* of the value being read */
    uint8_t word_bytes; /* captured so far; WORD: too long */
    bool is_key;
    bool word_on; /* the string being read is captured */
    bool failed;
    uint16_t unit; /* UTF-16 unit being read in an escape */
    uint16_t high; /* a high surrogate before it; 0: none */
    uint32_t depth;
    uint64_t arrays;     /* bit d: the container at depth d is an array */
    uint64_t text_bytes; /* decoded bytes of the string so far */
    uint8_t nodes[WEIR_JSON_PUSH_DEPTH + 1];
    char word[WEIR_JSON_PUSH_WORD];
};

#endif
