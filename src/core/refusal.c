#include "core/refusal.h"

/* One row a reason. */
static const struct weir_refusal_row refusal_rows[WEIR_REFUSAL_COUNT] = {
    [WEIR_REFUSAL_NONE] = {0, "", WEIR_REPEAT_SILENT},
    [WEIR_REFUSAL_QUEUE_FULL] = {429, "queue_full", WEIR_REPEAT_HINT},
    [WEIR_REFUSAL_TENANT_QUEUE_FULL] = {429, "queue_full", WEIR_REPEAT_HINT},
    [WEIR_REFUSAL_CONNECTIONS] = {429, "queue_full", WEIR_REPEAT_HINT},
    [WEIR_REFUSAL_QUEUE_TIMEOUT] = {429, "queue_timeout", WEIR_REPEAT_HINT},
    [WEIR_REFUSAL_RATE_LIMIT] = {429, "rate_limit_exceeded", WEIR_REPEAT_HINT},
    [WEIR_REFUSAL_BUDGET_BUSY] = {429, "budget_busy", WEIR_REPEAT_HINT},
    [WEIR_REFUSAL_TOO_LARGE] = {413, "request_too_large_for_limit", WEIR_REPEAT_NEVER},
    [WEIR_REFUSAL_BUDGET_EXHAUSTED] = {402, "budget_exhausted", WEIR_REPEAT_NEVER},
    [WEIR_REFUSAL_TENANT_PAUSED] = {403, "tenant_paused", WEIR_REPEAT_NEVER},
    [WEIR_REFUSAL_UPSTREAM_OPEN] = {503, "upstream_open", WEIR_REPEAT_HINT},
    [WEIR_REFUSAL_UPSTREAM_UNAVAILABLE] = {502, "upstream_unavailable", WEIR_REPEAT_HINT},
    [WEIR_REFUSAL_UPSTREAM_TIMEOUT] = {504, "upstream_timeout", WEIR_REPEAT_HINT},
    [WEIR_REFUSAL_LEDGER_UNAVAILABLE] = {503, "ledger_unavailable", WEIR_REPEAT_HINT},
    [WEIR_REFUSAL_DRAINING] = {503, "draining", WEIR_REPEAT_HINT},
    [WEIR_REFUSAL_IDEMPOTENCY_BUSY] = {409, "idempotency_in_progress", WEIR_REPEAT_HINT},
    [WEIR_REFUSAL_IDEMPOTENCY_MISMATCH] = {422, "idempotency_mismatch", WEIR_REPEAT_NEVER},
    [WEIR_REFUSAL_IDEMPOTENCY_LOST] = {409, "idempotency_answer_lost", WEIR_REPEAT_NEVER},
    [WEIR_REFUSAL_KEY_UNKNOWN] = {401, "key_unknown", WEIR_REPEAT_SILENT},
    [WEIR_REFUSAL_KEYS_DIFFER] = {400, "keys_differ", WEIR_REPEAT_SILENT},
    [WEIR_REFUSAL_ORIGIN] = {403, "origin_not_allowed", WEIR_REPEAT_SILENT},
    [WEIR_REFUSAL_PATH_NOT_METERED] = {403, "path_not_metered", WEIR_REPEAT_SILENT},
    [WEIR_REFUSAL_MODEL_NOT_ALLOWED] = {403, "model_not_allowed", WEIR_REPEAT_SILENT},
    [WEIR_REFUSAL_MODEL_UNKNOWN] = {404, "model_unknown", WEIR_REPEAT_SILENT},
    [WEIR_REFUSAL_NOT_FOUND] = {404, "not_found", WEIR_REPEAT_SILENT},
    [WEIR_REFUSAL_MALFORMED] = {400, "malformed", WEIR_REPEAT_SILENT},
    [WEIR_REFUSAL_SLOW_BODY] = {408, "slow_body", WEIR_REPEAT_SILENT},
    [WEIR_REFUSAL_BODY_TOO_LARGE] = {413, "body_too_large", WEIR_REPEAT_SILENT},
    [WEIR_REFUSAL_HEAD_TOO_LARGE] = {431, "head_too_large", WEIR_REPEAT_SILENT},
    [WEIR_REFUSAL_ENCODING_UNKNOWN] = {415, "encoding_unknown", WEIR_REPEAT_SILENT},
    [WEIR_REFUSAL_UPGRADE] = {501, "upgrade_not_supported", WEIR_REPEAT_SILENT},
    [WEIR_REFUSAL_INTERNAL] = {503, "gateway_full", WEIR_REPEAT_HINT},
};

const struct weir_refusal_row *weir_refusal_row(enum weir_refusal reason)
{
    WEIR_INVARIANT((uint32_t)reason < WEIR_REFUSAL_COUNT);
    return &refusal_rows[reason];
}
