/* json_push: a JSON reader that is fed in any split and keeps no text.
 *
 * A schema says what is of interest: a tree of nodes, where an object node leads by key to child
 * nodes and an array node to the node of its elements. Objects and arrays on that tree are read by
 * the full grammar; everything else is passed over by counting brackets outside strings, 16 bytes
 * at a time. Values of interest are told to one function: whole numbers, short strings, the decoded
 * length of long ones, beginnings and ends of objects. null is never told.
 *
 * It reads responses, which are passed on whatever they are, so it does not check UTF-8 and is not
 * strict below what it follows. Requests are read by the strict reader of json.h.
 *
 *   VALUE -> (string, number, literal, container) -> NEXT -> VALUE | KEY | container's end -> DONE
 *
 * Thread: any. Nothing allocates. */
#ifndef WEIR_WIRE_JSON_PUSH_H
#define WEIR_WIRE_JSON_PUSH_H

#include "core/base.h"

#define WEIR_JSON_PUSH_DEPTH 16 /* of the schema, not of documents */
#define WEIR_JSON_PUSH_WORD 40

/* How the value at a node is told. */
enum weir_push_kind {
    WEIR_PUSH_SKIP,   /* not at all (node 0) */
    WEIR_PUSH_OBJECT, /* keys lead on; another kind of value is passed over */
    WEIR_PUSH_NOTED,  /* as OBJECT, and its beginning and end are told */
    WEIR_PUSH_ARRAY,  /* elements lead on; an object in its place is passed over */
    WEIR_PUSH_WHOLE,  /* a whole number */
    WEIR_PUSH_WORD,   /* a string, its first bytes */
    WEIR_PUSH_TEXT,   /* a string, its decoded length */
};

struct weir_push_key {
    const char *name;
    uint8_t bytes;
    uint8_t node;
};
#define WEIR_PUSH_KEY(name, node)                                                                  \
    {                                                                                              \
        name, sizeof(name) - 1, node                                                               \
    }

/* One of 64 bits, by a key's first two letters (second: 0 in a key of one) and length. */
#define WEIR_PUSH_MASK(first, second, bytes)                                                       \
    (UINT64_C(1) << ((5 * (unsigned)(unsigned char)(first) +                                       \
                      3 * (unsigned)(unsigned char)(second) + 7 * (unsigned)(bytes)) &             \
                     63))

struct weir_push_node {
    enum weir_push_kind kind;
    uint8_t keys_now;
    uint8_t element; /* ARRAY: node of each element */
    uint8_t string;  /* OBJECT, NOTED: the node to use when the value is a string; 0: none */
    uint64_t mask;   /* OBJECT: the WEIR_PUSH_MASK of each key */
    const struct weir_push_key *keys;
};

enum weir_push_event { WEIR_PUSH_BEGIN, WEIR_PUSH_VALUE, WEIR_PUSH_END };

struct weir_json_push {
    uint64_t number;     /* WHOLE */
    uint64_t text_bytes; /* TEXT */
    const uint8_t *text; /* TEXT, when told: where it lies in the input at hand; NULL: not in one
                            plain piece */
    uint32_t skip_depth; /* brackets open in a subtree that is passed over */
    uint16_t unit;       /* of an escape being read */
    uint16_t high;       /* a high surrogate that waits for its other half */
    uint8_t state;
    uint8_t step;   /* in a literal or an escape */
    uint8_t string; /* what the string being read is */
    uint8_t node;   /* of the value being read */
    uint8_t depth;
    bool whole; /* the number has only digits */
    uint16_t arrays;
    uint8_t word_bytes;
    uint8_t nodes[WEIR_JSON_PUSH_DEPTH];
    char word[WEIR_JSON_PUSH_WORD]; /* WORD, NUL at the end */
};

/* Told each value of interest: what it is is in p (word, number, text_bytes). */
typedef void weir_push_fn(void *arg, const struct weir_json_push *p, uint8_t node,
                          enum weir_push_event event);

/* Before a document. The first node of a schema (number 1) is the document. */
void weir_json_push_init(struct weir_json_push *p);

void weir_json_push_feed(struct weir_json_push *p, const struct weir_push_node *schema,
                         weir_push_fn *told, void *arg, const uint8_t *bytes, size_t n);

/* Whether a whole document was read (white space may have followed). */
bool weir_json_push_done(const struct weir_json_push *p);

/* Whether it is not JSON. */
bool weir_json_push_failed(const struct weir_json_push *p);

/* Decoded bytes so far of a text of interest that is being read; 0 outside one. */
uint64_t weir_json_push_text_open(const struct weir_json_push *p);

#endif
