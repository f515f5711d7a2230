/* errors: the gateway's own refusals, in the shape of the API that was called.
 *
 * OpenAI:    {"error":{"message":..,"type":..,"param":..,"code":..}}
 * Anthropic: {"type":"error","error":{"type":..,"message":..},"request_id":..}
 * core/refusal.h says what each refusal is (status, code, sentence); here each gets the type that
 * the SDKs of either dialect know. Thread: any. Nothing allocates. */
#ifndef WEIR_WIRE_ERRORS_H
#define WEIR_WIRE_ERRORS_H

#include "core/base.h"
#include "core/refusal.h"
#include "wire/api.h"

/* The fitting `type` of a refusal. Never NULL. */
const char *weir_error_type(enum weir_refusal refusal, enum weir_dialect dialect);

/* The fitting `type` of a status alone. Never NULL. */
const char *weir_error_type_of_status(uint16_t status, enum weir_dialect dialect);

/* One error as it will be told. Texts are borrowed. */
struct weir_error_text {
    enum weir_dialect dialect;
    uint16_t status; /* chooses the type when type is NULL */
    const char *type;
    const char *code;       /* OpenAI and Responses events; NULL: null */
    const char *message;    /* escaped when written; NULL: "" */
    const char *param;      /* OpenAI: the member at fault; NULL: null */
    const char *request_id; /* Anthropic; NULL: null */
};

/* The text of a refusal: its row, with another message where that is not NULL. Fields may be
 * changed afterwards (402 budget_exhausted told as 429 insufficient_quota, for instance). */
struct weir_error_text weir_error_text(enum weir_refusal refusal, enum weir_dialect dialect,
                                       const char *message, const char *param,
                                       const char *request_id);

/* Room that is always enough when the texts together have text_bytes bytes. */
#define WEIR_ERROR_BYTES(text_bytes) ((size_t)(text_bytes)*6 + 256)

/* Writes an error body (no NUL). Returns its bytes, or 0 when it does not fit in cap. */
WEIR_MUST_USE size_t weir_error_body(const struct weir_error_text *e, char *out, size_t cap);

/* Writes an in-band error event of that API. Where the stream is not at an event boundary,
 * at_boundary is false: then a blank line comes first, which ends the event that was cut. OpenAI
 * chat, completions and unknown paths: data: {"error":{...}} Responses: event: error, data:
 * {"type":"error","code":..,"message":..,"param":..} Anthropic: event: error, data:
 * {"type":"error","error":{...},"request_id":..} Returns its bytes, or 0 when it does not fit. */
WEIR_MUST_USE size_t weir_error_event(const struct weir_error_text *e, enum weir_api api,
                                      bool at_boundary, char *out, size_t cap);

#endif
