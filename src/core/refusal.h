/* refusal: every correct "no" the gateway can say, and what a client is told with it.
 *
 * One table (refusal.c) gives each its status, code, advice on repeating and a sentence; the edge
 * turns that into a body of the dialect that was asked. Thread: any. Source: docs/refusals.md. */
#ifndef WEIR_CORE_REFUSAL_H
#define WEIR_CORE_REFUSAL_H

#include "core/base.h"

enum weir_refusal {
    WEIR_REFUSAL_NONE,
    WEIR_REFUSAL_QUEUE_FULL,        /* waiters in all, or waiting bytes, at their bound */
    WEIR_REFUSAL_TENANT_QUEUE_FULL, /* this tenant's waiters at their bound */
    WEIR_REFUSAL_CONNECTIONS,       /* this tenant's or address's connections at their bound */
    WEIR_REFUSAL_QUEUE_TIMEOUT,     /* the deadline passed in the queue, or certainly would */
    WEIR_REFUSAL_RATE_LIMIT,        /* the tenant's own bucket is short */
    WEIR_REFUSAL_BUDGET_BUSY,       /* holds in flight take what is left of the budget */
    WEIR_REFUSAL_TOO_LARGE,         /* costs more than a bucket or grant can ever hold */
    WEIR_REFUSAL_BUDGET_EXHAUSTED,
    WEIR_REFUSAL_TENANT_PAUSED,
    WEIR_REFUSAL_UPSTREAM_OPEN, /* breaker open, or a 429 pause outlasts the deadline */
    WEIR_REFUSAL_UPSTREAM_UNAVAILABLE,
    WEIR_REFUSAL_UPSTREAM_TIMEOUT,
    WEIR_REFUSAL_LEDGER_UNAVAILABLE,
    WEIR_REFUSAL_DRAINING,
    WEIR_REFUSAL_IDEMPOTENCY_BUSY,
    WEIR_REFUSAL_IDEMPOTENCY_MISMATCH,
    WEIR_REFUSAL_IDEMPOTENCY_LOST,
    WEIR_REFUSAL_KEY_UNKNOWN,
    WEIR_REFUSAL_KEYS_DIFFER, /* two differing credentials in one request */
    WEIR_REFUSAL_ORIGIN,      /* a browser in pass-through mode */
    WEIR_REFUSAL_PATH_NOT_METERED,
    WEIR_REFUSAL_MODEL_NOT_ALLOWED,
    WEIR_REFUSAL_MODEL_UNKNOWN,
    WEIR_REFUSAL_NOT_FOUND, /* no upstream serves this path */
    WEIR_REFUSAL_MALFORMED,
    WEIR_REFUSAL_SLOW_BODY,
    WEIR_REFUSAL_BODY_TOO_LARGE,
    WEIR_REFUSAL_HEAD_TOO_LARGE,
    WEIR_REFUSAL_ENCODING_UNKNOWN,
    WEIR_REFUSAL_UPGRADE,  /* 501 */
    WEIR_REFUSAL_INTERNAL, /* a table is full that should not be: 503 */
    WEIR_REFUSAL_COUNT
};

/* What a client may do after it. */
enum weir_repeat {
    WEIR_REPEAT_HINT,  /* after the computed hint */
    WEIR_REPEAT_NEVER, /* x-should-retry: false */
    WEIR_REPEAT_SILENT /* nothing said: the request itself is wrong */
};

struct weir_refusal_row {
    uint16_t status;  /* HTTP */
    const char *code; /* machine code in body, log and metric label; one word with underscores */
    enum weir_repeat repeat;
};

/* The row of a reason; WEIR_REFUSAL_NONE has status 0. Never NULL. */
const struct weir_refusal_row *weir_refusal_row(enum weir_refusal reason);
/* One sentence: what, and what to do. "" for none. */
const char *weir_refusal_message(enum weir_refusal reason);

#endif
