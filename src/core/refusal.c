#include "core/refusal.h"

/* One row a reason. Sentences say what happened and what the reader can do; they name no tenant,
 * model or number, so that they are constant (the edge adds the hint and the scope in fields of
 * their own). */
static const struct weir_refusal_row refusal_rows[WEIR_REFUSAL_COUNT] = {
    [WEIR_REFUSAL_NONE] = {0, "", WEIR_REPEAT_SILENT, ""},
    [WEIR_REFUSAL_QUEUE_FULL] = {429, "queue_full", WEIR_REPEAT_HINT,
                                 "The gateway's queue is full. Repeat after the time given."},
    [WEIR_REFUSAL_TENANT_QUEUE_FULL] =
        {429, "queue_full", WEIR_REPEAT_HINT,
         "Too many requests of this tenant are waiting already. Repeat "
         "after the time given."},
    [WEIR_REFUSAL_CONNECTIONS] =
        {429, "queue_full", WEIR_REPEAT_HINT,
         "Too many connections are open already. Close some, or repeat after "
         "the time given."},
    [WEIR_REFUSAL_QUEUE_TIMEOUT] =
        {429, "queue_timeout", WEIR_REPEAT_HINT,
         "The request's turn did not come, or could not have come, within "
         "its time in the queue. Repeat after the time given."},
    [WEIR_REFUSAL_RATE_LIMIT] =
        {429, "rate_limit_exceeded", WEIR_REPEAT_HINT,
         "The tenant's rate limit is used up. Repeat after the time given."},
    [WEIR_REFUSAL_BUDGET_BUSY] = {429, "budget_busy", WEIR_REPEAT_HINT,
                                  "Requests in flight hold what is left of the budget. Repeat when "
                                  "some have ended."},
    [WEIR_REFUSAL_TOO_LARGE] =
        {413, "request_too_large_for_limit", WEIR_REPEAT_NEVER,
         "The request costs more than a limit can ever grant. Shorten the input "
         "or lower the output limit."},
    [WEIR_REFUSAL_BUDGET_EXHAUSTED] =
        {402, "budget_exhausted", WEIR_REPEAT_NEVER,
         "The budget is spent. It is available again in its next window, "
         "or when its grant is raised."},
    [WEIR_REFUSAL_TENANT_PAUSED] = {403, "tenant_paused", WEIR_REPEAT_NEVER,
                                    "This tenant is paused. Ask the operator of the gateway."},
    [WEIR_REFUSAL_UPSTREAM_OPEN] =
        {503, "upstream_open", WEIR_REPEAT_HINT,
         "The upstream is failing or asked for a pause, so no request is sent "
         "to it now. Repeat after the time given."},
    [WEIR_REFUSAL_UPSTREAM_UNAVAILABLE] =
        {502, "upstream_unavailable", WEIR_REPEAT_HINT,
         "The upstream could not be reached, or ended the exchange "
         "before its answer was complete."},
    [WEIR_REFUSAL_UPSTREAM_TIMEOUT] = {504, "upstream_timeout", WEIR_REPEAT_HINT,
                                       "The upstream did not answer in time."},
    [WEIR_REFUSAL_LEDGER_UNAVAILABLE] =
        {503, "ledger_unavailable", WEIR_REPEAT_HINT,
         "The budget could not be checked, so the request was not sent. "
         "Repeat after the time given."},
    [WEIR_REFUSAL_DRAINING] =
        {503, "draining", WEIR_REPEAT_HINT,
         "The gateway is shutting down. Repeat the request on a new connection."},
    [WEIR_REFUSAL_IDEMPOTENCY_BUSY] =
        {409, "idempotency_in_progress", WEIR_REPEAT_HINT,
         "A request with this idempotency key is under way. Repeat after "
         "the time given."},
    [WEIR_REFUSAL_IDEMPOTENCY_MISMATCH] =
        {422, "idempotency_mismatch", WEIR_REPEAT_NEVER,
         "This idempotency key was used with another path or body. "
         "Use a new key."},
    [WEIR_REFUSAL_IDEMPOTENCY_LOST] =
        {409, "idempotency_answer_lost", WEIR_REPEAT_NEVER,
         "A request with this idempotency key was sent and its answer is "
         "not known any more. Use a new key to send it again."},
    [WEIR_REFUSAL_KEY_UNKNOWN] = {401, "key_unknown", WEIR_REPEAT_SILENT,
                                  "The API key is missing or not known to this gateway."},
    [WEIR_REFUSAL_KEYS_DIFFER] = {400, "keys_differ", WEIR_REPEAT_SILENT,
                                  "The request carries two different credentials. Send one."},
    [WEIR_REFUSAL_ORIGIN] = {403, "origin_not_allowed", WEIR_REPEAT_SILENT,
                             "Requests from web pages are not accepted without tenant keys."},
    [WEIR_REFUSAL_PATH_NOT_METERED] =
        {403, "path_not_metered", WEIR_REPEAT_SILENT,
         "This path has no known cost and the tenant has a token budget. "
         "The operator can give the route a cost."},
    [WEIR_REFUSAL_MODEL_NOT_ALLOWED] = {403, "model_not_allowed", WEIR_REPEAT_SILENT,
                                        "This tenant may not use the model."},
    [WEIR_REFUSAL_MODEL_UNKNOWN] = {404, "model_unknown", WEIR_REPEAT_SILENT,
                                    "No upstream of this gateway serves the model."},
    [WEIR_REFUSAL_NOT_FOUND] = {404, "not_found", WEIR_REPEAT_SILENT,
                                "No upstream of this gateway serves the path."},
    [WEIR_REFUSAL_MALFORMED] = {400, "malformed", WEIR_REPEAT_SILENT,
                                "The request could not be understood."},
    [WEIR_REFUSAL_SLOW_BODY] = {408, "slow_body", WEIR_REPEAT_SILENT,
                                "The request's head or body came too slowly."},
    [WEIR_REFUSAL_BODY_TOO_LARGE] = {413, "body_too_large", WEIR_REPEAT_SILENT,
                                     "The request's body is larger than the gateway accepts."},
    [WEIR_REFUSAL_HEAD_TOO_LARGE] = {431, "head_too_large", WEIR_REPEAT_SILENT,
                                     "The request's head is larger than the gateway accepts."},
    [WEIR_REFUSAL_ENCODING_UNKNOWN] =
        {415, "encoding_unknown", WEIR_REPEAT_SILENT,
         "The body's content encoding is not supported. Use identity, gzip "
         "or zstd."},
    [WEIR_REFUSAL_UPGRADE] = {501, "upgrade_not_supported", WEIR_REPEAT_SILENT,
                              "Protocol upgrades are not supported."},
    [WEIR_REFUSAL_INTERNAL] = {503, "gateway_full", WEIR_REPEAT_HINT,
                               "A table of the gateway is full. Repeat after the time given."},
};

const struct weir_refusal_row *weir_refusal_row(enum weir_refusal reason)
{
    WEIR_INVARIANT((uint32_t)reason < WEIR_REFUSAL_COUNT);
    return &refusal_rows[reason];
}
