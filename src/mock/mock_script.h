/* mock_script: the words of an answer, in the form of each API, whole or as events.
 *
 * A script is built when the request is known and holds everything that will be sent: one text, cut
 * into events for streams. Which event goes out with which output token is said by weir's own rule
 * here: the opening events go with the first token, the closing ones with the last. Deterministic:
 * the n-th word is always the same. Thread: loop. */
#ifndef WEIR_MOCK_MOCK_SCRIPT_H
#define WEIR_MOCK_MOCK_SCRIPT_H

#include "net/slice.h"
#include "wire/request.h"

struct mock_script {
    char *text;
    size_t bytes, room;
    uint32_t *ends; /* ends[i]: where event i ends in text */
    uint32_t events, events_room;
    uint32_t opening, closing; /* events before the first token's and after the last token's */
    bool failed;               /* out of memory */
};

struct mock_script_wish {
    enum weir_api api;
    bool stream, usage, no_usage;
    const char *model; /* as the request spelled it */
    const char *tool;  /* NULL: text; else a call of this tool */
    uint32_t prompt_tok, output_tok, choices;
    uint64_t number; /* for ids */
};

/* Fills *s (zero at first). */
void mock_script_build(struct mock_script *s, const struct mock_script_wish *wish);
void mock_script_free(struct mock_script *s);
/* The bytes of events from up to, but not including, until. */
struct weir_slice mock_script_events(const struct mock_script *s, uint32_t from, uint32_t until);
/* Adds text as printf does. */
void mock_script_add(struct mock_script *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
