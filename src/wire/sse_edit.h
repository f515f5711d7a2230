/* sse_edit: takes out of a stream what only our include_usage put in.
 *
 * When the gateway adds stream_options.include_usage for a client that did not ask, an OpenAI
 * upstream adds `"usage":null` to each chunk and one chunk with empty `choices` and the totals. The
 * filter removes both, so that the client gets byte for byte what an upstream that was not asked
 * would have sent. Everything else passes unchanged, line ends and comments included.
 *
 * Bytes flow on as soon as they can be known: an event is held until its `choices` is seen not to
 * be empty (or it ends), and a member from its comma until it is seen not to be a null usage; never
 * more than WEIR_SSE_EDIT_HOLD bytes. An event that outgrows the hold, has several data lines or is
 * not JSON passes unchanged from there on.
 *
 * Thread: any. Nothing allocates. */
#ifndef WEIR_WIRE_SSE_EDIT_H
#define WEIR_WIRE_SSE_EDIT_H

#include "core/base.h"
#include "wire/sse_boundary.h"

#define WEIR_SSE_EDIT_HOLD 4096

struct weir_sse_edit {
    uint64_t chunks_dropped; /* whole usage chunks taken out */
    uint64_t nulls_dropped;  /* null usage members taken out */

    /* Private from here. */
    uint32_t held;      /* bytes in hold */
    uint32_t member_at; /* in hold: where the member begins that may go */
    uint32_t depth;     /* brackets open in the JSON value */
    uint8_t line;       /* where in a line */
    uint8_t json;       /* where in the JSON value; off when this event is not to be edited */
    uint8_t key;        /* the key read last at depth 1 */
    uint8_t match;      /* bytes of a name or literal matched so far */
    uint8_t usage;      /* what this event's usage is */
    uint8_t bom;        /* bytes of a byte order mark passed at the very start */
    bool choices_empty;
    bool event;      /* the event has a line that is no comment */
    bool data;       /* ... and a data line */
    bool decided;    /* the event stays, its bytes flow */
    bool member;     /* a member is being held that may go */
    bool first;      /* ... and no comma stands before it */
    bool cr;         /* the byte before was a CR: a LF that follows belongs to it */
    bool cr_dropped; /* ... and goes with it */
    uint8_t hold[WEIR_SSE_EDIT_HOLD];
};

void weir_sse_edit_init(struct weir_sse_edit *e);

/* Filters n bytes. out needs room for n + WEIR_SSE_EDIT_HOLD bytes and must not overlap bytes.
 * Returns the bytes written. */
WEIR_MUST_USE size_t weir_sse_edit_feed(struct weir_sse_edit *e, const void *bytes, size_t n,
                                        void *out);

/* The stream ended well: writes what is still held (room: WEIR_SSE_EDIT_HOLD). A held whole usage
 * chunk without its blank line is dropped. When the upstream died instead, do not call this: what
 * is held belongs to a cut event that the client is better off without. */
WEIR_MUST_USE size_t weir_sse_edit_finish(struct weir_sse_edit *e, void *out);

#endif
