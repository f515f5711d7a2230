/* idempotency_inside: what the files of the store of keys share, and nobody else:
 *
 *   idempotency.c       the operations
 *   idempotency_view.c  names, looking in, and the audit */
#ifndef WEIR_GATEWAY_IDEMPOTENCY_INSIDE_H
#define WEIR_GATEWAY_IDEMPOTENCY_INSIDE_H

#include "core/heap.h"
#include "gateway/idempotency.h"

enum entry_state { ENTRY_FREE, ENTRY_RUNNING, ENTRY_KEPT, ENTRY_LOST };

/* Links are slot + 1, so that zeroed memory is an empty list. */
struct links {
    uint32_t older_1, newer_1;
};

struct list {
    uint32_t oldest_1, newest_1;
};

struct entry {
    struct weir_idempotency_id id;
    struct answer *answer; /* RUNNING: being recorded, NULL: not (any more); KEPT: complete */
    uint64_t at_ns;        /* RUNNING: since; KEPT, LOST: until */
    int64_t created_s;     /* LOST by a restart */
    uint32_t chain_1;      /* next of its bucket, or next free one */
    struct links ended;    /* KEPT, LOST: in the order of their end */
    /* Of the owner, while nobody reads it, in the order of their end or last replay: */
    struct links forgettable; /* KEPT, LOST */
    struct links evictable;   /* KEPT */
    uint32_t owner;
    uint32_t borrows; /* KEPT */
    uint8_t state;    /* enum entry_state */
    uint8_t loss;     /* enum weir_idempotency_loss: of LOST; of RUNNING without a recording */
};

/* Reason, headers and body, one behind the other. */
struct answer {
    uint32_t status;
    uint32_t reason_bytes, headers_bytes;
    bool is_chunked;
    size_t used, room; /* of bytes */
    char bytes[];
};

struct owner {
    struct list forgettable, evictable;
    uint32_t forgettable_now;
    uint64_t evictable_bytes;
};

struct weir_idempotency {
    struct weir_idempotency_limits limits;
    struct owner *owners;               /* the last one is the earlier runs' */
    struct weir_heap by_keys, by_bytes; /* owners, the one with most of it at the top */
    struct weir_heap_entry *heap_entries[2];
    uint32_t *heap_places[2];
    struct entry *entries;
    uint32_t *buckets; /* slot + 1 */
    uint32_t buckets_mask;
    uint32_t used; /* slots beyond were never touched */
    uint32_t free_1;
    struct list ended;
    struct weir_idempotency_view view;
};

/* The lists that an entry is in, by where its links are. */
#define ENDED offsetof(struct entry, ended)
#define FORGETTABLE offsetof(struct entry, forgettable)
#define EVICTABLE offsetof(struct entry, evictable)

#endif
