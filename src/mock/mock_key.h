/* mock_key: who asks: credentials, numbered in the order in which they were first seen.
 *
 * No credential at all counts as one more. Beyond MOCK_KEYS_MAX the rest share the last number.
 * Thread: loop. */
#ifndef WEIR_MOCK_MOCK_KEY_H
#define WEIR_MOCK_MOCK_KEY_H

#include "core/base.h"
#include "net/http1.h"
#include "net/slice.h"

#define MOCK_KEYS_MAX 256u

struct mock_key {
    char *text; /* owned, not terminated */
    size_t bytes;
    uint32_t in_flight;
};

/* Zero at first. */
struct mock_keys {
    struct mock_key keys[MOCK_KEYS_MAX];
    uint32_t count;
};

/* What a request's authorization header says behind "Bearer ", in the head's own bytes. */
struct weir_slice mock_key_bearer(const struct weir_http_head *head);
/* The credential of a request: x-api-key, or else the bearer; empty where there is none. */
struct weir_slice mock_key_credential(const struct weir_http_head *head);

/* Its number, from 0; a new one is remembered. Out of memory: as one beyond the last. */
uint32_t mock_keys_find(struct mock_keys *keys, struct weir_slice credential);
void mock_keys_free(struct mock_keys *keys);

#endif
