/* usage: reads what a response cost while its bytes pass by.
 *
 * A side observer: it is fed the upstream's bytes in any split, keeps a fixed state (no body and no
 * event is ever buffered), changes nothing and refuses nothing. It reads whole JSON bodies and SSE
 * streams (LF, CR, CRLF; BOM; comments; several data lines) of every metered API.
 *
 * Counting, one rule for all APIs: numbers are running totals, so the last non-null value of each
 * field counts and nothing is ever added up over events. input_total_tok includes cached tokens
 * (Anthropic: input + cache writes + cache reads); output_total_tok includes reasoning.
 *
 * Values of an event count when the event is complete (its blank line was seen): a cut event adds
 * nothing but its text to output_bytes. Thread: any. Nothing allocates. */
#ifndef WEIR_WIRE_USAGE_H
#define WEIR_WIRE_USAGE_H

#include "core/base.h"
#include "wire/api.h"
#include "wire/json_push.h"
#include "wire/usage_again.h"

#define WEIR_USAGE_WORD_BYTES 40 /* finish reasons, error types and codes; longer ones are cut */

/* What was seen so far. */
struct weir_usage_seen {
    bool input_known;  /* an input count was given */
    bool output_known; /* an output count was given (embeddings: 0 once usage was seen) */
    bool complete;   /* ended properly: [DONE], response.completed|incomplete, message_stop; a body:
                        the whole document; and no error was seen */
    bool error;      /* an error body or an in-band error event */
    bool unreadable; /* not JSON / not SSE as expected: charge by estimate and flag it */

    uint64_t input_total_tok;
    uint64_t cache_read_tok;  /* part of input_total */
    uint64_t cache_write_tok; /* part of input_total */
    uint64_t output_total_tok;
    uint64_t reasoning_tok; /* part of output_total */

    uint64_t events;       /* data events, [DONE] not counted; 0 for whole bodies */
    uint64_t text_bytes;   /* decoded text of choice 0 / of text blocks */
    uint64_t output_bytes; /* decoded text of every choice, tool arguments and reasoning included:
                              for estimating output when usage never came */
    char finish[WEIR_USAGE_WORD_BYTES];     /* "stop", "end_turn", "completed", ...; "" none */
    char error_type[WEIR_USAGE_WORD_BYTES]; /* error.type; "" none; Responses: the code */
    char error_code[WEIR_USAGE_WORD_BYTES]; /* error.code; "" none */
};

/* Counts an API gives, as running totals. Private. */
enum weir_usage_field {
    WEIR_USAGE_INPUT,
    WEIR_USAGE_OUTPUT,
    WEIR_USAGE_CACHED,        /* OpenAI: part of input */
    WEIR_USAGE_CACHE_WRITE,   /* OpenAI: part of input */
    WEIR_USAGE_REASONING,     /* part of output */
    WEIR_USAGE_CACHE_READ_A,  /* Anthropic: beside input */
    WEIR_USAGE_CACHE_WRITE_A, /* Anthropic: beside input */
};
#define WEIR_USAGE_FIELDS 7

/* The event (or body) being read: counts when it is complete. Private. */
struct weir_usage_draft {
    uint64_t value[WEIR_USAGE_FIELDS];
    uint8_t value_has; /* bit of enum weir_usage_field */
    bool usage_has;    /* a usage object was there */
    bool error_has;    /* an error object or text was there */
    bool choice_index_has;
    uint8_t texts;       /* strings of output told, at most 255 */
    const uint8_t *text; /* the last one, where it lies in the input at hand; or NULL */
    uint64_t text_bytes;
    uint64_t output_bytes;
    uint64_t delta_bytes;  /* a "delta" string at the top (Responses) */
    uint64_t choice_bytes; /* text of the choice being read */
    uint64_t choice_index;
    uint64_t choices_before;
    char type[WEIR_USAGE_WORD_BYTES];
    char finish[WEIR_USAGE_WORD_BYTES];
    char status[WEIR_USAGE_WORD_BYTES];
    char code[WEIR_USAGE_WORD_BYTES]; /* at the top */
    char error_type[WEIR_USAGE_WORD_BYTES];
    char error_code[WEIR_USAGE_WORD_BYTES];
};

struct weir_usage {
    struct weir_usage_seen seen; /* read it at any time */

    /* Private from here. */
    enum weir_api api;
    bool stream;
    bool ended; /* a proper end was seen */
    bool bom_checked;
    uint8_t value_has;
    uint64_t value[WEIR_USAGE_FIELDS];
    struct weir_json_push json;
    struct weir_usage_draft draft;

    uint8_t line;  /* where in a line of the stream */
    bool line_cr;  /* the byte before was a CR: a LF that follows belongs to it */
    bool data_any; /* the event has a data line */
    uint8_t name_bytes;
    uint8_t head_bytes;
    uint8_t event_bytes;
    uint8_t bom_bytes;
    char name[8]; /* of the field */
    char head[8]; /* first bytes of the event's data, to know [DONE] */
    char event[WEIR_USAGE_WORD_BYTES];
    bool ordinary_counts_text;
    const uint8_t *
        ordinary; /* the text of the event that just ended, when it was nothing but that; or NULL */
    uint64_t ordinary_bytes;
    struct weir_usage_again again;
};

/* stream: the response is text/event-stream (by its content type), else one JSON body. */
void weir_usage_init(struct weir_usage *u, enum weir_api api, bool stream);

/* Feeds response bytes, after transfer and content decoding. */
void weir_usage_feed(struct weir_usage *u, const void *bytes, size_t n);

/* The response ended, cleanly or not: decides `complete`. Call once; no feed after it. */
void weir_usage_finish(struct weir_usage *u);

#endif
