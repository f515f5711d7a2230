/* request: the facts of a request body, read in one strict pass, and the edits it may get.
 *
 * The scanner accepts exactly JSON (RFC 8259): full grammar, valid UTF-8, depth at most 64, nothing
 * after the document, no BOM. A member that policy depends on (model, stream, the output limit, n,
 * best_of, stream_options, include_usage in it, previous_response_id, conversation, user) may stand
 * once only, in whatever spelling: a second one, an escaped spelling of it, or one that differs
 * only in letter case (Go servers match those) is refused, since gateway and provider could read
 * different values. The same names inside strings and nested objects mean nothing.
 *
 * Lone surrogate escapes pass inside content (clients that cut an emoji send them) and are refused
 * in model and user. The body itself is never changed here: edits are a list of splices.
 *
 * Thread: any. Nothing allocates; the struct is the caller's. */
#ifndef WEIR_WIRE_REQUEST_H
#define WEIR_WIRE_REQUEST_H

#include "core/base.h"
#include "core/shape.h"
#include "wire/api.h"

#define WEIR_MODEL_BYTES_MAX 256
#define WEIR_REQUEST_DEPTH_MAX 64
#define WEIR_REQUEST_N_MAX 1024
#define WEIR_REQUEST_IMAGES_MAX 8 /* sizes kept; more images are counted but not listed */

enum weir_request_fault {
    WEIR_REQUEST_OK,
    WEIR_REQUEST_EMPTY,         /* no body */
    WEIR_REQUEST_NOT_OBJECT,    /* JSON, but not an object */
    WEIR_REQUEST_SYNTAX,        /* not JSON at fault_at */
    WEIR_REQUEST_CUT,           /* ends inside the document */
    WEIR_REQUEST_TRAILING,      /* bytes after the document */
    WEIR_REQUEST_DEPTH,         /* nested deeper than WEIR_REQUEST_DEPTH_MAX */
    WEIR_REQUEST_UTF8,          /* not UTF-8 at fault_at */
    WEIR_REQUEST_CONTROL,       /* a raw control byte inside a string */
    WEIR_REQUEST_ESCAPE,        /* a malformed escape */
    WEIR_REQUEST_NUMBER,        /* a malformed number */
    WEIR_REQUEST_DUPLICATE,     /* fault_key given twice */
    WEIR_REQUEST_SPELLING,      /* fault_key spelled by escapes, or in other letter case */
    WEIR_REQUEST_NOT_STRING,    /* fault_key must be a string */
    WEIR_REQUEST_NOT_BOOL,      /* fault_key must be true or false */
    WEIR_REQUEST_NOT_WHOLE,     /* fault_key must be a whole number */
    WEIR_REQUEST_OUT_OF_RANGE,  /* fault_key is a number outside what is allowed */
    WEIR_REQUEST_NOT_AN_OBJECT, /* fault_key must be an object */
    WEIR_REQUEST_NAME_TOO_LONG, /* model is longer than WEIR_MODEL_BYTES_MAX */
    WEIR_REQUEST_NAME_BAD,      /* model or user has a lone surrogate or a control character */
};

/* The members policy depends on. */
enum weir_request_key {
    WEIR_KEY_NONE,
    WEIR_KEY_MODEL,
    WEIR_KEY_STREAM,
    WEIR_KEY_STREAM_OPTIONS,
    WEIR_KEY_INCLUDE_USAGE,
    WEIR_KEY_MAX_TOKENS,
    WEIR_KEY_MAX_COMPLETION_TOKENS,
    WEIR_KEY_MAX_OUTPUT_TOKENS,
    WEIR_KEY_N,
    WEIR_KEY_BEST_OF,
    WEIR_KEY_USER,
    WEIR_KEY_PREVIOUS_RESPONSE_ID,
    WEIR_KEY_CONVERSATION,
};

/* A run of bytes of the body. bytes == 0: not there. */
struct weir_span {
    size_t at;
    size_t bytes;
};

struct weir_image_size {
    uint32_t width_px;
    uint32_t height_px;
};

struct weir_request_facts {
    enum weir_request_fault fault;
    enum weir_request_key fault_key; /* for faults of one member */
    unsigned char fault_byte;        /* the byte found, for SYNTAX and the like */
    size_t fault_at;                 /* byte offset in the body */

    uint32_t model_bytes;                 /* 0: not given (or "") */
    char model[WEIR_MODEL_BYTES_MAX + 1]; /* unescaped, NUL at the end */

    bool stream;            /* "stream": true */
    bool has_limit;         /* an output limit was given (and was not null) */
    bool has_include_usage; /* stream_options.include_usage: true */
    bool has_user;
    bool has_conversation; /* previous_response_id or conversation, not null */

    uint64_t limit_tok;    /* the larger of the given limits; 0 when none */
    uint32_t n;            /* choices; 1 when not given */
    uint32_t best_of;      /* 1 when not given */
    uint32_t prompts;      /* prompts of /v1/completions (array form), inputs of embeddings; >= 1 */
    struct weir_span user; /* raw bytes between the quotes, escapes as sent */
    struct weir_span previous_response_id; /* same; also the id of a conversation */

    struct weir_text_classes classes;
    uint32_t image_sizes_now;
    struct weir_image_size image_sizes[WEIR_REQUEST_IMAGES_MAX];

    /* Where edits go: offsets into the body. */
    size_t open_at;                 /* just after the document's '{' */
    bool open_empty;                /* the document has no member */
    struct weir_span options_value; /* value of stream_options; bytes 0 when absent */
    bool options_is_object;
    bool options_empty;             /* ... with no member */
    struct weir_span include_value; /* value of include_usage in it; bytes 0 when absent */
    struct weir_span limit_null;    /* an output limit given as null: replaced by an edit */
};

/* Reads body into *facts (every field is set). Returns facts->fault.
 * Cost: one pass, about 0.5 ns a byte; inline base64 is skipped, not decoded. */
enum weir_request_fault weir_request_read(struct weir_request_facts *facts, enum weir_api api,
                                          const void *body, size_t body_bytes);

/* The refusal text for a fault: what is wrong, where, and what would be right, without any content
 * of the body but the one offending byte. Writes a NUL-terminated text, cut at cap; returns its
 * length. */
size_t weir_request_fault_text(const struct weir_request_facts *facts, char *out, size_t cap);

/* The name of a member, as in "max_tokens"; for `param` in OpenAI's error bodies. "" for NONE. */
const char *weir_request_key_name(enum weir_request_key key);

/* --- Edits of a body: splices in rising order of offset, never overlapping. --- */

struct weir_splice {
    size_t at;             /* offset in the original body */
    size_t removed_bytes;  /* taken out there */
    uint32_t insert_at;    /* in edits->text */
    uint32_t insert_bytes; /* put in there */
};

struct weir_request_edits {
    uint32_t splices_now;
    uint32_t text_bytes;
    struct weir_splice splices[4];
    char text[192];
};

/* Plans the edits of a body read without fault: add_include_usage asks a streaming chat or
 * completions upstream for usage (no-op when it is asked already, or the body does not stream, or
 * the API has no such option); limit_tok > 0 puts in an output limit where none was given (in chat
 * as max_completion_tokens when modern_limit, else max_tokens). Returns whether there is any edit.
 */
bool weir_request_plan(struct weir_request_edits *edits, const struct weir_request_facts *facts,
                       enum weir_api api, bool add_include_usage, uint64_t limit_tok,
                       bool modern_limit);

/* Bytes of the body after the edits. */
size_t weir_request_edited_bytes(const struct weir_request_edits *edits, size_t body_bytes);

/* Writes the edited body to out (weir_request_edited_bytes of room; must not overlap body). */
void weir_request_edit(const struct weir_request_edits *edits, const void *body, size_t body_bytes,
                       void *out);

#endif
