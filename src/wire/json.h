/* json: a strict pull reader over a whole document in memory, and a writer of quoted strings.
 *
 * The reader walks the bytes once and never copies: the caller asks for the kind of the next value,
 * opens objects and arrays, takes strings and numbers as spans, or skips. It accepts exactly
 * RFC 8259: numbers and escapes by the grammar, valid UTF-8 (no overlong forms, no raw surrogates),
 * no raw control bytes in strings, depth at most WEIR_JSON_DEPTH_MAX. Lone surrogate *escapes* pass
 * and are reported, since clients that cut an emoji send them.
 *
 * The first fault sticks in the reader; every later call returns false. Strings are skipped 16
 * bytes at a time with SSE2, or byte by byte where that is missing (WEIR_JSON_PORTABLE forces it).
 * Thread: any. Nothing allocates. */
#ifndef WEIR_WIRE_JSON_H
#define WEIR_WIRE_JSON_H

#include "core/base.h"
#include "core/shape.h"

#define WEIR_JSON_DEPTH_MAX 64

enum weir_json_fault {
    WEIR_JSON_OK,
    WEIR_JSON_SYNTAX,
    WEIR_JSON_CUT,
    WEIR_JSON_TRAILING,
    WEIR_JSON_DEPTH,
    WEIR_JSON_UTF8,
    WEIR_JSON_CONTROL,
    WEIR_JSON_ESCAPE,
    WEIR_JSON_NUMBER
};

enum weir_json_kind {
    WEIR_JSON_NONE, /* a fault, or no value here */
    WEIR_JSON_OBJECT,
    WEIR_JSON_ARRAY,
    WEIR_JSON_STRING,
    WEIR_JSON_NUM,
    WEIR_JSON_TRUE,
    WEIR_JSON_FALSE,
    WEIR_JSON_NULL
};

struct weir_json {
    const uint8_t *at; /* the next byte */
    const uint8_t *end;
    const uint8_t *start;
    const uint8_t *fault_at;
    enum weir_json_fault fault;
    uint32_t depth;
};

/* A string as it stands between its quotes. */
struct weir_json_string {
    const uint8_t *at;
    size_t bytes;
    bool escaped; /* has at least one escape */
    bool lone;    /* has a lone surrogate escape */
    bool wide;    /* has a raw character beyond ASCII */
};

void weir_json_init(struct weir_json *r, const void *bytes, size_t n);

/* Kind of the value that comes next (white space before it is passed). */
enum weir_json_kind weir_json_kind(struct weir_json *r);

/* Enters an object or array: the next kind must be that. */
WEIR_MUST_USE bool weir_json_open(struct weir_json *r);

/* The next member of the object entered last: its key is read, its value comes next. *first is true
 * before the first call. False at the end of the object (which is then left), or on a fault. */
WEIR_MUST_USE bool weir_json_member(struct weir_json *r, bool *first, struct weir_json_string *key);

/* The next element of the array entered last, as above. */
WEIR_MUST_USE bool weir_json_element(struct weir_json *r, bool *first);

WEIR_MUST_USE bool weir_json_take_string(struct weir_json *r, struct weir_json_string *s);

/* As take_string, and counts its decoded text into classes. */
WEIR_MUST_USE bool weir_json_take_text(struct weir_json *r, struct weir_text_classes *classes,
                                       struct weir_json_string *s);

WEIR_MUST_USE bool weir_json_take_number(struct weir_json *r, struct weir_json_string *s);

/* Any value, checked and forgotten. */
WEIR_MUST_USE bool weir_json_skip(struct weir_json *r);

/* Any value as raw JSON text that a model will read: keys, strings, numbers and punctuation are
 * counted. */
WEIR_MUST_USE bool weir_json_take_raw(struct weir_json *r, struct weir_text_classes *classes);

/* After the document: only white space may follow. */
WEIR_MUST_USE bool weir_json_finish(struct weir_json *r);

/* Decodes a string's escapes to UTF-8. Returns its bytes, or SIZE_MAX when it is longer than cap or
 * has a lone surrogate. */
size_t weir_json_decode(const struct weir_json_string *s, char *out, size_t cap);

/* Counts the text of a string read before (no fault possible). */
void weir_json_count_text(const struct weir_json_string *s, struct weir_text_classes *classes);

/* Whether a key is exactly this name, in its plain spelling. */
#define WEIR_JSON_IS(s, name)                                                                      \
    ((s)->bytes == sizeof(name) - 1 && memcmp((s)->at, (name), sizeof(name) - 1) == 0)

/* Writes s as a JSON string with its quotes; bytes that are not UTF-8 become U+FFFD. No NUL.
 * Returns the bytes written, or 0 when cap is too small (6 n + 2 is always enough). */
WEIR_MUST_USE size_t weir_json_quote(char *out, size_t cap, const char *s, size_t n);

#endif
