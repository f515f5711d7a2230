/* heap: a priority queue of small ids, smallest key first: deadlines, resume times, virtual
 * counters.
 *
 * Four children a node: half the levels of a binary heap, and the children of a node share one
 * cache line. It is indexed: place[id] knows where an id lies, so any id can be removed or given
 * another key in O(log n). The host gives both arrays; all-zero arrays are an empty heap and are
 * not touched at init. Among equal keys the order is fixed by the history of calls but otherwise
 * unspecified. */
#ifndef WEIR_CORE_HEAP_H
#define WEIR_CORE_HEAP_H

#include <stdint.h>

#include "core/base.h"

struct weir_heap_entry {
    uint64_t key;
    uint32_t id;
    uint32_t unused;
};

struct weir_heap {
    struct weir_heap_entry *entries; /* ids_max + WEIR_HEAP_SPARE; best aligned to 64 bytes */
    uint32_t *place;                 /* ids_max; 0 = not in the heap */
    uint32_t ids_max;
    uint32_t count;
};

/* Entries in front of the first, so that each group of four children starts a cache line. */
#define WEIR_HEAP_SPARE 3u

/* entries has ids_max + WEIR_HEAP_SPARE elements, place has ids_max, zero at first; both stay the
 * host's. */
void weir_heap_init(struct weir_heap *h, struct weir_heap_entry *entries, uint32_t *place,
                    uint32_t ids_max);

static inline bool weir_heap_has(const struct weir_heap *h, uint32_t id)
{
    WEIR_INVARIANT(id < h->ids_max);
    return h->place[id] != 0;
}

/* The id with the smallest key. The heap is not empty. */
static inline uint32_t weir_heap_top(const struct weir_heap *h)
{
    WEIR_INVARIANT(h->count > 0);
    return h->entries[WEIR_HEAP_SPARE].id;
}

static inline uint64_t weir_heap_top_key(const struct weir_heap *h)
{
    WEIR_INVARIANT(h->count > 0);
    return h->entries[WEIR_HEAP_SPARE].key;
}

/* The key of an id that is in the heap. */
uint64_t weir_heap_key(const struct weir_heap *h, uint32_t id);

/* Adds an id that is not in the heap. Cost: O(log n), O(1) when key is not among the smallest. */
void weir_heap_push(struct weir_heap *h, uint32_t id, uint64_t key);

/* Removes and returns the id with the smallest key. The heap is not empty. */
uint32_t weir_heap_pop(struct weir_heap *h);

/* Removes an id that is in the heap. */
void weir_heap_remove(struct weir_heap *h, uint32_t id);

/* Gives an id that is in the heap another key, smaller or larger. */
void weir_heap_rekey(struct weir_heap *h, uint32_t id, uint64_t key);

/* Subtracts `by` from every key; no key is smaller than that. Cost: O(n); the order stays. */
void weir_heap_rebase(struct weir_heap *h, uint64_t by);

#endif
