/* tenancy: whose request is it? From a request's credential to a tenant's index.
 *
 * Key mode (tenants are configured, or keys were made): a weir key in Authorization: Bearer or
 * x-api-key names the tenant; nothing else is admitted. Pass-through mode (neither exists): the
 * tenant is the HMAC of the client's own credential under the install secret, ten hex digits of it
 * shown; no credential is `anonymous`. Idle pass-through tenants are forgotten, least recently used
 * first; when all are busy, newcomers share `overflow`.
 *
 * Credentials seen of late are remembered with their tenants, so that a known one costs a
 * comparison (in constant time) instead of a digest. They lie in this process's memory only, as
 * request heads do, and are wiped at the end.
 *
 * Indices are those of weir_flow_tenant_set: 0 is `anonymous`, 1 is `overflow` (both unused in key
 * mode), then the configuration's tenants in the file's order, then those of keys and of
 * pass-through. Thread: loop. */
#ifndef WEIR_GATEWAY_TENANCY_H
#define WEIR_GATEWAY_TENANCY_H

#include "core/flow.h"
#include "gateway/config.h"
#include "gateway/keys.h"
#include "net/http1.h"

struct weir_gateway;
struct weir_tenancy;

#define WEIR_TENANT_ANONYMOUS 0u
#define WEIR_TENANT_OVERFLOW 1u
#define WEIR_TENANT_FIRST 2u
#define WEIR_TENANT_NAME_BYTES 64
#define WEIR_LIMITER_IDLE_ANSWERS 100u

/* g: its flow and ledger are told of each tenant. Owns: the caller; all that is given must outlive
 * it. */
struct weir_tenancy *weir_tenancy_create(const struct weir_config *config, struct weir_keys *keys,
                                         const uint8_t secret[32], struct weir_gateway *g,
                                         uint64_t now_ns);
void weir_tenancy_destroy(struct weir_tenancy *t);

bool weir_tenancy_is_key_mode(const struct weir_tenancy *t);

/* Finds the tenant of a request. NONE and *tenant, or KEY_UNKNOWN, KEYS_DIFFER, ORIGIN. */
WEIR_MUST_USE enum weir_refusal weir_tenancy_identify(struct weir_tenancy *t,
                                                      const struct weir_http_head *head,
                                                      uint64_t now_ns, uint32_t *tenant);

/* True when any byte run of a header value (or of the target) looks like a weir key: it must not
 * leave. */
bool weir_tenancy_holds_key(struct weir_slice value);

/* Connections of a tenant: counted up unless at its bound. */
WEIR_MUST_USE bool weir_tenancy_connect(struct weir_tenancy *t, uint32_t tenant);
void weir_tenancy_disconnect(struct weir_tenancy *t, uint32_t tenant);

const char *weir_tenancy_name(const struct weir_tenancy *t, uint32_t tenant);
/* The configuration's tenant; NULL for those that come from keys or pass-through. */
const struct weir_config_tenant *weir_tenancy_config(const struct weir_tenancy *t, uint32_t tenant);
/* The lane of its requests that name none: an index into the configuration's. */
uint32_t weir_tenancy_lane(const struct weir_tenancy *t, uint32_t tenant);
/* Indices in use are below this; those without a name are free. */
uint32_t weir_tenancy_end(const struct weir_tenancy *t);
uint32_t weir_tenancy_connections(const struct weir_tenancy *t, uint32_t tenant);
/* True when its tokens are limited by a scope with a grant, or by a token rate. */
bool weir_tenancy_has_token_budget(const struct weir_tenancy *t, uint32_t tenant);

/* An answered request of the tenant came to charged_tok. A token limit that counts nothing, answer
 * after answer, limits nothing: after WEIR_LIMITER_IDLE_ANSWERS in a row it is warned of, once
 * until it counts again. */
void weir_tenancy_count(struct weir_tenancy *t, uint32_t tenant, uint64_t charged_tok);
/* Tenants with a token limit of which that is so now. */
uint32_t weir_tenancy_limiters_idle(const struct weir_tenancy *t);

/* Takes in keys made or revoked since; cheap when nothing changed. */
void weir_tenancy_refresh(struct weir_tenancy *t, uint64_t now_ns);

#endif
