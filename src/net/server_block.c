#include "net/server_block.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK_POOLED_MAX ((size_t)256 * 1024)
#define BLOCK_STEP ((size_t)256) /* of the small sizes: 256, 512, 768, 1024 */
#define BLOCK_SMALL_SHIFT 10u    /* above it four sizes for each doubling: 1280, 1536, ... */

static uint32_t log2_below(size_t room)
{
    return 63u - (uint32_t)__builtin_clzll(room - 1);
}

/* The class of a room that room_for has made. */
static uint32_t class_of(size_t room)
{
    if (room <= (size_t)1 << BLOCK_SMALL_SHIFT)
        return (uint32_t)(room / BLOCK_STEP) - 1;
    uint32_t shift = log2_below(room);
    return 4 * (shift - BLOCK_SMALL_SHIFT) + 3 +
           (uint32_t)((room - ((size_t)1 << shift)) >> (shift - 2));
}
_Static_assert(BLOCK_CLASSES == 4 * (18 - BLOCK_SMALL_SHIFT) + 4, "256 KiB is the last class");

/* What is left over is under 256 bytes, and a fifth of the room in larger ones. */
static size_t room_for(size_t bytes)
{
    if (bytes > BLOCK_POOLED_MAX)
        return bytes;
    size_t step =
        bytes <= (size_t)1 << BLOCK_SMALL_SHIFT ? BLOCK_STEP : (size_t)1 << (log2_below(bytes) - 2);
    return (bytes + step - 1) & ~(step - 1);
}

static char *memory_take(struct weir_block_pool *pool, size_t room)
{
    if (room > BLOCK_POOLED_MAX)
        return malloc(room);
    uint32_t class = class_of(room);
    void *memory = pool->kept[class];
    if (!memory)
        return malloc(room);
    memcpy(&pool->kept[class], memory, sizeof(void *));
    pool->kept_count[class]--;
    return memory;
}

static void memory_give(struct weir_block_pool *pool, char *memory, size_t room)
{
    if (!BLOCK_KEEP || room > BLOCK_POOLED_MAX ||
        pool->kept_count[class_of(room)] >= BLOCK_KEPT_BYTES / room) {
        free(memory);
        return;
    }
    uint32_t class = class_of(room);
    memcpy(memory, &pool->kept[class], sizeof(void *));
    pool->kept[class] = memory;
    pool->kept_count[class]++;
}

/* Large blocks grow by realloc, which moves pages, not bytes. */
static bool block_grow(struct weir_block_pool *pool, struct weir_block *b, size_t room)
{
    if (b->begin == 0 && b->room > BLOCK_POOLED_MAX) {
        char *at = realloc(b->at, room);
        if (!at)
            return false;
        b->at = at;
        b->room = room;
        return true;
    }
    char *at = memory_take(pool, room);
    if (!at)
        return false;
    size_t bytes = weir_block_bytes(b);
    if (bytes > 0)
        memcpy(at, b->at + b->begin, bytes);
    if (b->at)
        memory_give(pool, b->at, b->room);
    *b = (struct weir_block){at, room, 0, bytes};
    return true;
}

bool weir_block_reserve(struct weir_block_pool *pool, struct weir_block *b, size_t bytes,
                        size_t room_max)
{
    if (bytes <= b->room - b->end)
        return true;
    size_t used = weir_block_bytes(b);
    if (bytes > SIZE_MAX / 2 - used)
        return false;
    size_t need = used + bytes;
    if (need <= b->room && used <= b->room / 2) {
        memmove(b->at, b->at + b->begin, used);
        b->begin = 0;
        b->end = used;
        return true;
    }
    size_t room = 2 * b->room;
    if (room_max > 0 && room > room_max)
        room = room_max;
    return block_grow(pool, b, room_for(room > need ? room : need));
}

bool weir_block_append(struct weir_block_pool *pool, struct weir_block *b, const void *bytes,
                       size_t count)
{
    if (count == 0)
        return true;
    if (!weir_block_reserve(pool, b, count, 0))
        return false;
    memcpy(b->at + b->end, bytes, count);
    b->end += count;
    return true;
}

void weir_block_consume(struct weir_block_pool *pool, struct weir_block *b, size_t count)
{
    WEIR_INVARIANT(count <= weir_block_bytes(b));
    b->begin += count;
    if (b->begin == b->end)
        weir_block_drop(pool, b);
}

void weir_block_drop(struct weir_block_pool *pool, struct weir_block *b)
{
    if (b->at)
        memory_give(pool, b->at, b->room);
    *b = (struct weir_block){NULL, 0, 0, 0};
}

void weir_block_pool_free(struct weir_block_pool *pool)
{
    for (uint32_t class = 0; class < BLOCK_CLASSES; class ++) {
        while (pool->kept[class]) {
            void *memory = pool->kept[class];
            memcpy(&pool->kept[class], memory, sizeof(void *));
            free(memory);
        }
        pool->kept_count[class] = 0;
    }
}
