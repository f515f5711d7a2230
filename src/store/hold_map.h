/* hold_map: holds by id with what the journal last said of them; for verify.c.
 *
 * Open addressing, at most half full. Thread: the one that owns it. */
#ifndef WEIR_STORE_HOLD_MAP_H
#define WEIR_STORE_HOLD_MAP_H

#include "core/base.h"
#include "core/ledger.h"

struct hold_map;

struct hold_said {
    uint64_t id;
    int64_t booked_tok;
    enum weir_hold_state state; /* NONE: it was just put here */
    bool has_row;
    bool used; /* this place of the table */
};

struct hold_map *hold_map_new(void);      /* NULL: no memory */
void hold_map_free(struct hold_map *map); /* NULL is fine */
/* The entry of a hold, a fresh one if it has none; borrowed until the next put. NULL: no memory. */
struct hold_said *hold_map_put(struct hold_map *map, uint64_t id);
/* NULL: none. */
struct hold_said *hold_map_find(const struct hold_map *map, uint64_t id);
/* The next entry at or after *cursor, in no order; start from 0. NULL: none left. */
const struct hold_said *hold_map_next(const struct hold_map *map, size_t *cursor);

#endif
