#include "core/refusal.h"

/* Sentences say what happened and what the reader can do; they name no tenant, model or number, so
 * that they are constant (the edge adds the hint and the scope in fields of their own). They stand
 * apart because the lab page's module, which refuses too, has no use for them. */
static const char *const refusal_messages[WEIR_REFUSAL_COUNT] = {
    [WEIR_REFUSAL_NONE] = "",
    [WEIR_REFUSAL_QUEUE_FULL] = "The gateway's queue is full. Repeat after the time given.",
    [WEIR_REFUSAL_TENANT_QUEUE_FULL] =
        "Too many requests of this tenant are waiting already. Repeat "
        "after the time given.",
    [WEIR_REFUSAL_CONNECTIONS] =
        "Too many connections are open already. Close some, or repeat after "
        "the time given.",
    [WEIR_REFUSAL_QUEUE_TIMEOUT] =
        "The request's turn did not come, or could not have come, within "
        "its time in the queue. Repeat after the time given.",
    [WEIR_REFUSAL_RATE_LIMIT] = "The tenant's rate limit is used up. Repeat after the time given.",
    [WEIR_REFUSAL_BUDGET_BUSY] = "Requests in flight hold what is left of the budget. Repeat when "
                                 "some have ended.",
    [WEIR_REFUSAL_TOO_LARGE] =
        "The request costs more than a limit can ever grant. Shorten the input "
        "or lower the output limit.",
    [WEIR_REFUSAL_BUDGET_EXHAUSTED] =
        "The budget is spent. It is available again in its next window, "
        "or when its grant is raised.",
    [WEIR_REFUSAL_TENANT_PAUSED] = "This tenant is paused. Ask the operator of the gateway.",
    [WEIR_REFUSAL_UPSTREAM_OPEN] =
        "The upstream is failing or asked for a pause, so no request is sent "
        "to it now. Repeat after the time given.",
    [WEIR_REFUSAL_UPSTREAM_UNAVAILABLE] =
        "The upstream could not be reached, or ended the exchange "
        "before its answer was complete.",
    [WEIR_REFUSAL_UPSTREAM_TIMEOUT] = "The upstream did not answer in time.",
    [WEIR_REFUSAL_LEDGER_UNAVAILABLE] =
        "The budget could not be checked, so the request was not sent. "
        "Repeat after the time given.",
    [WEIR_REFUSAL_DRAINING] =
        "The gateway is shutting down. Repeat the request on a new connection.",
    [WEIR_REFUSAL_IDEMPOTENCY_BUSY] =
        "A request with this idempotency key is under way. Repeat after "
        "the time given.",
    [WEIR_REFUSAL_IDEMPOTENCY_MISMATCH] =
        "This idempotency key was used with another path or body. "
        "Use a new key.",
    [WEIR_REFUSAL_IDEMPOTENCY_LOST] =
        "A request with this idempotency key was sent and its answer is "
        "not known any more. Use a new key to send it again.",
    [WEIR_REFUSAL_KEY_UNKNOWN] = "The API key is missing or not known to this gateway.",
    [WEIR_REFUSAL_KEYS_DIFFER] = "The request carries two different credentials. Send one.",
    [WEIR_REFUSAL_ORIGIN] = "Requests from web pages are not accepted without tenant keys.",
    [WEIR_REFUSAL_PATH_NOT_METERED] =
        "This path has no known cost and the tenant has a token budget. "
        "The operator can give the route a cost.",
    [WEIR_REFUSAL_MODEL_NOT_ALLOWED] = "This tenant may not use the model.",
    [WEIR_REFUSAL_MODEL_UNKNOWN] = "No upstream of this gateway serves the model.",
    [WEIR_REFUSAL_NOT_FOUND] = "No upstream of this gateway serves the path.",
    [WEIR_REFUSAL_MALFORMED] = "The request could not be understood.",
    [WEIR_REFUSAL_SLOW_BODY] = "The request's head or body came too slowly.",
    [WEIR_REFUSAL_BODY_TOO_LARGE] = "The request's body is larger than the gateway accepts.",
    [WEIR_REFUSAL_HEAD_TOO_LARGE] = "The request's head is larger than the gateway accepts.",
    [WEIR_REFUSAL_ENCODING_UNKNOWN] =
        "The body's content encoding is not supported. Use identity, gzip "
        "or zstd.",
    [WEIR_REFUSAL_UPGRADE] = "Protocol upgrades are not supported.",
    [WEIR_REFUSAL_INTERNAL] = "A table of the gateway is full. Repeat after the time given.",
};

const char *weir_refusal_message(enum weir_refusal reason)
{
    WEIR_INVARIANT((unsigned)reason < WEIR_REFUSAL_COUNT);
    return refusal_messages[reason];
}
