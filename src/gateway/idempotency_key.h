/* idempotency_key: from a request to the digests by which its idempotency key is known.
 *
 * The field's value is a structured-field string ("8e03978e", the draft's form) or the same
 * characters bare (8e03978e, what many clients send); both name the same key. It is kept and
 * compared as a digest under the install secret only, together with whose it is: the tenant's name
 * in key mode, the client's own credentials in pass-through mode (also where tenants share an
 * index, as `overflow` and `anonymous` do, one client must not be given another's answer).
 * Thread: any. Source: docs/idempotency.md; draft-ietf-httpapi-idempotency-key-header. */
#ifndef WEIR_GATEWAY_IDEMPOTENCY_KEY_H
#define WEIR_GATEWAY_IDEMPOTENCY_KEY_H

#include "gateway/idempotency.h"
#include "net/http1.h"

#define WEIR_IDEMPOTENCY_KEY_BYTES_MAX 255
#define WEIR_IDEMPOTENCY_SECRET_BYTES 32

/* Reads the one Idempotency-Key field of a head that has at least one. key: room of
 * WEIR_IDEMPOTENCY_KEY_BYTES_MAX bytes. NULL: right, *bytes is set; else a clause that says what is
 * wrong with it ("it is empty"). Static. */
WEIR_MUST_USE const char *weir_idempotency_key_read(const struct weir_http_head *head, char *key,
                                                    size_t *bytes);

/* tenant: its name in key mode; NULL in pass-through mode. body: as received, coded or not. false:
 * the library failed (out of memory). Cost: one pass over the body. */
WEIR_MUST_USE bool
weir_idempotency_key_digest(const uint8_t secret[static WEIR_IDEMPOTENCY_SECRET_BYTES],
                            const struct weir_http_head *head, struct weir_slice key,
                            const char *tenant, struct weir_slice body,
                            struct weir_idempotency_id *id);

#endif
