/* admin: the operator's listener: health, metrics, a small JSON API, and the lab page.
 *
 *   GET /lab/...        the lab page, see pages.h; no token
 *   GET /healthz        200 while the process serves its loop; no token
 *   GET /readyz         200 when new requests are admitted, 503 with the reason otherwise; no token
 *   GET /metrics        Prometheus text, see metrics.h
 *   GET /v1/status      counts, phase, version, ledger
 *   GET /v1/tenants     one object a tenant
 *   GET /v1/upstreams   one object an upstream, with its pool
 *   GET /v1/holds       live holds: id, tenant, age, estimate; at most 1,000, "more" says whether
 *                       there are others
 *   GET /v1/config      every setting in force, as YAML that loads again. Where a credential is
 *                       (key_env, key_file) but none itself, and no weir keys or their digests
 *   /v1/ledger...       budgets, also to change them: see ledger_service.h
 *
 * All but the first three want the admin token: Authorization: Bearer TOKEN. Ids are strings. Answers
 * are read from the flow's views and the store, and nothing but the POSTs of the ledger changes
 * anything. Thread: loop. */
#ifndef WEIR_GATEWAY_ADMIN_H
#define WEIR_GATEWAY_ADMIN_H

#include <stddef.h>

struct weir_admin;
struct weir_gateway;
struct weir_store_answer;

/* token: NUL-terminated, copied. NULL with error_text when the address cannot be had. */
struct weir_admin *weir_admin_listen(struct weir_gateway *g, const char *address, const char *token,
                                     char *error_text, size_t error_bytes);
/* Is shown every answer of the store: it may be to a change that was made here. */
void weir_admin_ledger_answer(struct weir_admin *admin, const struct weir_store_answer *answer);
unsigned weir_admin_port(const struct weir_admin *admin);
void weir_admin_destroy(struct weir_admin *admin);

#endif
