/* errors: the gateway's own refusals, in the shape of the API that was called.
 *
 * OpenAI:    {"error":{"message":..,"type":..,"param":..,"code":..}}
 * Anthropic: {"type":"error","error":{"type":..,"message":..},"request_id":..}
 * One table gives each refusal its status, code and the two types that the SDKs map to classes.
 * Thread: any. Nothing allocates. */
#ifndef WEIR_WIRE_ERRORS_H
#define WEIR_WIRE_ERRORS_H

#include "core/base.h"
#include "wire/api.h"

/* Every refusal of the gateway's own. The code is the enumerator in lower case but where noted. */
enum weir_error {
    WEIR_ERROR_QUEUE_FULL,                  /* 429 */
    WEIR_ERROR_QUEUE_TIMEOUT,               /* 429 */
    WEIR_ERROR_RATE_LIMIT_EXCEEDED,         /* 429 */
    WEIR_ERROR_BUDGET_BUSY,                 /* 429 */
    WEIR_ERROR_REQUEST_TOO_LARGE_FOR_LIMIT, /* 413 */
    WEIR_ERROR_BUDGET_EXHAUSTED,            /* 402 */
    WEIR_ERROR_INSUFFICIENT_QUOTA,          /* 429, the configurable form of the row above */
    WEIR_ERROR_TENANT_PAUSED,               /* 403 */
    WEIR_ERROR_UPSTREAM_OPEN,               /* 503 */
    WEIR_ERROR_UPSTREAM_UNAVAILABLE,        /* 502 */
    WEIR_ERROR_UPSTREAM_TIMEOUT,            /* 504 */
    WEIR_ERROR_LEDGER_UNAVAILABLE,          /* 503 */
    WEIR_ERROR_DRAINING,                    /* 503 */
    WEIR_ERROR_IDEMPOTENCY_IN_PROGRESS,     /* 409 */
    WEIR_ERROR_IDEMPOTENCY_MISMATCH,        /* 422 */
    WEIR_ERROR_IDEMPOTENCY_LOST,            /* 409 */
    WEIR_ERROR_INVALID_API_KEY,             /* 401: unknown weir key, or none where one is needed */
    WEIR_ERROR_PATH_NOT_METERED,            /* 403 */
    WEIR_ERROR_MODEL_NOT_ALLOWED,           /* 403 */
    WEIR_ERROR_ORIGIN_NOT_ALLOWED,          /* 403 */
    WEIR_ERROR_MODEL_NOT_FOUND,             /* 404: no pool serves it */
    WEIR_ERROR_INVALID_REQUEST,             /* 400, code invalid_request */
    WEIR_ERROR_CREDENTIALS_CONFLICT,        /* 400: two differing credentials */
    WEIR_ERROR_REQUEST_TIMEOUT,             /* 408: slow head or body */
    WEIR_ERROR_BODY_TOO_LARGE,              /* 413 */
    WEIR_ERROR_HEAD_TOO_LARGE,              /* 431 */
    WEIR_ERROR_UNSUPPORTED_ENCODING,        /* 415 */
    WEIR_ERROR_UPGRADE_NOT_SUPPORTED,       /* 501 */
    WEIR_ERROR_STREAM_CUT, /* in-band: the upstream died mid-stream; as a status 502 */
    WEIR_ERROR_INTERNAL,   /* 500 */
};
#define WEIR_ERROR_COUNT 30

struct weir_error_kind {
    uint16_t status;
    bool retry;                 /* repeating can help: give a hint; else x-should-retry: false */
    const char *code;           /* machine code, in OpenAI's `code` */
    const char *openai_type;    /* in OpenAI's `type` */
    const char *anthropic_type; /* in Anthropic's `error.type` */
    const char *message;        /* what to say when nothing better is known */
};

/* The row of an error. Never NULL. */
const struct weir_error_kind *weir_error_kind(enum weir_error error);

/* The fitting Anthropic type of a status alone. */
const char *weir_error_anthropic_type(uint16_t status);

struct weir_error_text {
    enum weir_dialect dialect;
    const char *type;       /* of that dialect; NULL: from status */
    const char *code;       /* OpenAI only; NULL: null */
    const char *message;    /* any bytes; escaped; cut when out is too small */
    const char *param;      /* OpenAI only; NULL: null */
    const char *request_id; /* Anthropic only; NULL: null */
    uint16_t status;
};

/* Room that is always enough for a message of message_bytes bytes (ids, codes and params of at most
 * 128 bytes each). */
#define WEIR_ERROR_BYTES(message_bytes) ((size_t)(message_bytes)*6 + 2304)

/* Writes an error body (no NUL). Returns its bytes, or 0 when it does not fit in cap. */
WEIR_MUST_USE size_t weir_error_body(const struct weir_error_text *e, char *out, size_t cap);

/* The text of a row in a dialect: fills type, code and status (message when NULL is given). */
void weir_error_text_of(struct weir_error_text *e, enum weir_error error, enum weir_dialect dialect,
                        const char *message, const char *param, const char *request_id);

/* Writes an in-band error event of that API, ready to be sent at an event boundary (or after a line
 * end where at_boundary is false: then a blank line comes first, which ends a cut event).
 *   OpenAI chat, completions: data: {"error":{...}}
 *   Responses:                event: error + data:
 * {"type":"error","code":..,"message":..,"param":..} Anthropic:                event: error + data:
 * {"type":"error","error":{...}} Returns its bytes, or 0 when it does not fit. */
WEIR_MUST_USE size_t weir_error_event(const struct weir_error_text *e, enum weir_api api,
                                      bool at_boundary, char *out, size_t cap);

#endif
