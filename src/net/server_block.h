/* server_block: memory that goes round. Heads, bodies and unsent output live in blocks of a few
 * sizes, four for each doubling, so that little is left over; a block that is given back is kept
 * for the next request, up to a bound per size, so that in a steady state nothing is asked of
 * malloc, and an idle connection owns none.
 *
 * Under AddressSanitizer nothing is kept, so that a use after the giving back is seen.
 * Thread: loop. */
#ifndef WEIR_NET_SERVER_BLOCK_H
#define WEIR_NET_SERVER_BLOCK_H

#include "core/base.h"

#if defined(__SANITIZE_ADDRESS__)
#define BLOCK_KEEP false
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BLOCK_KEEP false
#endif
#endif
#ifndef BLOCK_KEEP
#define BLOCK_KEEP true
#endif

#define BLOCK_CLASSES 36              /* up to 256 KiB; larger ones are malloc's */
#define BLOCK_KEPT_BYTES (256u << 10) /* of each size */

struct weir_block_pool {
    void *kept[BLOCK_CLASSES]; /* linked by their first word */
    uint32_t kept_count[BLOCK_CLASSES];
};

/* Bytes of a growing kind: at[begin .. end) are in use. All-zero is empty and owns nothing. */
struct weir_block {
    char *at;
    size_t room, begin, end;
};

static inline size_t weir_block_bytes(const struct weir_block *b)
{
    return b->end - b->begin;
}

/* Makes room for bytes more behind end, moving what is there; the room at least doubles, so that
 * appending is linear in all, but does not pass room_max (0: no bound) unless bytes need it.
 * false: out of memory, nothing changed. */
WEIR_MUST_USE bool weir_block_reserve(struct weir_block_pool *pool, struct weir_block *b,
                                      size_t bytes, size_t room_max);
WEIR_MUST_USE bool weir_block_append(struct weir_block_pool *pool, struct weir_block *b,
                                     const void *bytes, size_t count);
/* Takes count bytes off the front; an empty block gives its memory back. */
void weir_block_consume(struct weir_block_pool *pool, struct weir_block *b, size_t count);
/* Empties it and gives the memory back. */
void weir_block_drop(struct weir_block_pool *pool, struct weir_block *b);
/* Frees all that is kept. */
void weir_block_pool_free(struct weir_block_pool *pool);

#endif
