/* mock_kept: what the mock has received, for tests that must know: the latest heads and bodies.
 * Thread: loop. */
#ifndef WEIR_MOCK_MOCK_KEPT_H
#define WEIR_MOCK_MOCK_KEPT_H

#include <jansson.h>

#include "core/base.h"
#include "net/http1.h"
#include "net/slice.h"

#define MOCK_KEPT 64u         /* requests that can be read back */
#define MOCK_KEPT_BODY 65536u /* of each body */

struct mock_kept_request {
    char *head, *body; /* owned */
    size_t head_bytes, body_bytes;
    uint64_t number;
};

/* Zero at first. */
struct mock_kept {
    struct mock_kept_request requests[MOCK_KEPT];
    uint64_t latest;
};

/* number: counts from 1, and rises. What there is no memory for is kept as empty. */
void mock_kept_add(struct mock_kept *kept, uint64_t number, const struct weir_http_head *head,
                   struct weir_slice body);
/* {"requests": [{number, head, body}, ...]}, the oldest first; the caller's. */
json_t *mock_kept_json(const struct mock_kept *kept);
void mock_kept_free(struct mock_kept *kept);

#endif
