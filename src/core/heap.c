#include "core/heap.h"

/* Positions count from 0 at the top; the children of p are 4p + 1 .. 4p + 4. */

static struct weir_heap_entry *at(const struct weir_heap *h, uint32_t position)
{
    return &h->entries[WEIR_HEAP_SPARE + position];
}

static void put(struct weir_heap *h, uint32_t position, uint64_t key, uint32_t id)
{
    struct weir_heap_entry *entry = at(h, position);
    entry->key = key;
    entry->id = id;
    h->place[id] = position + 1;
}

/* Both sifts move a hole to where (key, id) belongs and fill it once. */
static void sift_up(struct weir_heap *h, uint32_t position, uint64_t key, uint32_t id)
{
    while (position > 0) {
        uint32_t parent = (position - 1) / 4;
        const struct weir_heap_entry *above = at(h, parent);
        if (above->key <= key)
            break;
        put(h, position, above->key, above->id);
        position = parent;
    }
    put(h, position, key, id);
}

static void sift_down(struct weir_heap *h, uint32_t position, uint64_t key, uint32_t id)
{
    for (;;) {
        uint64_t child = (uint64_t)position * 4 + 1;
        if (child >= h->count)
            break;
        uint32_t end = (uint32_t)weir_min_u64(child + 4, h->count);
        uint32_t least = (uint32_t)child;
        for (uint32_t c = least + 1; c < end; c++)
            if (at(h, c)->key < at(h, least)->key)
                least = c;
        const struct weir_heap_entry *below = at(h, least);
        if (below->key >= key)
            break;
        put(h, position, below->key, below->id);
        position = least;
    }
    put(h, position, key, id);
}

static void settle(struct weir_heap *h, uint32_t position, uint64_t key, uint32_t id)
{
    if (position > 0 && at(h, (position - 1) / 4)->key > key)
        sift_up(h, position, key, id);
    else
        sift_down(h, position, key, id);
}

void weir_heap_init(struct weir_heap *h, struct weir_heap_entry *entries, uint32_t *place,
                    uint32_t ids_max)
{
    h->entries = entries;
    h->place = place;
    h->ids_max = ids_max;
    h->count = 0;
}

uint64_t weir_heap_key(const struct weir_heap *h, uint32_t id)
{
    WEIR_INVARIANT(weir_heap_has(h, id));
    return at(h, h->place[id] - 1)->key;
}

void weir_heap_push(struct weir_heap *h, uint32_t id, uint64_t key)
{
    WEIR_INVARIANT(!weir_heap_has(h, id));
    sift_up(h, h->count++, key, id);
}

uint32_t weir_heap_pop(struct weir_heap *h)
{
    uint32_t id = weir_heap_top(h);
    weir_heap_remove(h, id);
    return id;
}

void weir_heap_remove(struct weir_heap *h, uint32_t id)
{
    WEIR_INVARIANT(weir_heap_has(h, id));
    uint32_t position = h->place[id] - 1;
    h->place[id] = 0;
    h->count--;
    if (position == h->count)
        return;
    struct weir_heap_entry last = *at(h, h->count);
    settle(h, position, last.key, last.id);
}

void weir_heap_rekey(struct weir_heap *h, uint32_t id, uint64_t key)
{
    WEIR_INVARIANT(weir_heap_has(h, id));
    settle(h, h->place[id] - 1, key, id);
}

void weir_heap_rebase(struct weir_heap *h, uint64_t by)
{
    for (uint32_t p = 0; p < h->count; p++) {
        WEIR_INVARIANT(at(h, p)->key >= by);
        at(h, p)->key -= by;
    }
}
