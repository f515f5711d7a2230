/* budget: what the gateway knows of a scope that the ledger does not: what becomes of requests when
 * it is spent, and when its next window begins.
 *
 * By the store's slot. The policies come from the configuration, the windows from whoever begins
 * them. A scope that nobody spoke of refuses, and promises no time. Thread: loop. Source:
 * docs/configuration.md, "scopes". */
#ifndef WEIR_GATEWAY_BUDGET_H
#define WEIR_GATEWAY_BUDGET_H

#include "core/flow.h"

struct weir_gateway;
struct weir_request;

/* Takes the policies of the configured scopes, and defines the scopes that fallbacks are charged
 * to: fallback/UPSTREAM, unlimited but recorded. After the ledger was opened, before any request.
 * false: no memory, and error_text is as it was; or the store takes nothing, and it says so. */
WEIR_MUST_USE bool weir_budget_open(struct weir_gateway *g, char *error_text, size_t error_bytes);
void weir_budget_free(struct weir_gateway *g);

/* The scope's next window begins at this loop time; WEIR_NEVER_NS: there is none to come. */
void weir_budget_reset_at(struct weir_gateway *g, uint32_t scope, uint64_t reset_ns);

/* Completes what the flow is told of this scope's refusal of r: policy, fallback, a new hold's id
 * for it, and the next window. What the fallback does not speak or serve is refused, not sent there.
 * Only for EXHAUSTED; told->answer and told->scope stay as they are. */
void weir_budget_tell(struct weir_gateway *g, const struct weir_request *r, uint32_t scope,
                      struct weir_reserve_told *told);

#endif
