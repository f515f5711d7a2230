/* usage_again: knows the last ordinary event of a stream again when it comes with other text.
 *
 * Most events of a stream are alike to the byte but for one piece of text: "...content":"THIS"}..."
 * . Once such an event was read in full, its bytes before and after the text are kept; an event
 * with the same bytes around another plain text (no escape, no line end) can only mean the same
 * again, and is counted by comparing, without being parsed. Everything else goes the full way, so
 * nothing depends on what providers happen to send.
 *
 * Thread: any. Nothing allocates. */
#ifndef WEIR_WIRE_USAGE_AGAIN_H
#define WEIR_WIRE_USAGE_AGAIN_H

#include "core/base.h"

#define WEIR_USAGE_AGAIN_BYTES 640 /* longer events are not kept */

struct weir_usage_again {
    uint16_t before_bytes; /* 0: nothing is kept */
    uint16_t after_bytes;
    bool counts_text;                      /* its text is that of choice 0 */
    uint8_t bytes[WEIR_USAGE_AGAIN_BYTES]; /* before, then after */
};

/* Keeps the event [at, end) whose only text lies at [text, text + text_bytes). */
void weir_usage_again_learn(struct weir_usage_again *again, const uint8_t *at, const uint8_t *end,
                            const uint8_t *text, uint64_t text_bytes, bool counts_text);

/* The end of the event that begins at p, when it is the kept one with other text; *text_bytes is
 * that text's. NULL: it is not, or not all of it is there. */
const uint8_t *weir_usage_again_match(const struct weir_usage_again *again, const uint8_t *p,
                                      const uint8_t *end, uint64_t *text_bytes);

#endif
