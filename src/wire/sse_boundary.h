/* sse_boundary: whether a stream stands between two events.
 *
 * Fed what went to the client, in any split. Between events a comment (a heartbeat) or an event (an
 * in-band error) may be put in; inside one it would become part of it. A CR that may yet be
 * followed by its LF is not between, unless the stream is seen to end lines with CR alone. Thread:
 * any. Nothing allocates. */
#ifndef WEIR_WIRE_SSE_BOUNDARY_H
#define WEIR_WIRE_SSE_BOUNDARY_H

#include "core/base.h"

struct weir_sse_boundary {
    uint8_t line; /* 0 at the start of a line, 1 inside one */
    bool event;   /* the current event has a line */
    bool cr;      /* last byte was a CR; a LF may follow */
    bool lone_cr; /* this stream ends lines with CR alone */
};

void weir_sse_boundary_init(struct weir_sse_boundary *b);
void weir_sse_boundary_feed(struct weir_sse_boundary *b, const void *bytes, size_t n);

/* Whether whole events only have been sent: a comment or an event may be put in here. */
bool weir_sse_boundary_at(const struct weir_sse_boundary *b);

#endif
