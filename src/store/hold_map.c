#include "store/hold_map.h"

#include <stdlib.h>

struct hold_map {
    struct hold_said *table;
    size_t mask, count;
};

struct hold_map *hold_map_new(void)
{
    struct hold_map *map = calloc(1, sizeof *map);
    if (!map)
        return NULL;
    map->mask = 1023;
    map->table = calloc(map->mask + 1, sizeof *map->table);
    if (!map->table) {
        free(map);
        return NULL;
    }
    return map;
}

void hold_map_free(struct hold_map *map)
{
    if (!map)
        return;
    free(map->table);
    free(map);
}

/* Where an id is, or the empty place where it belongs. Ids run on by one, and the journal and the
 * table of holds are both read in about their order: eight in a row stay together, for the cache. */
static struct hold_said *place_of(const struct hold_map *map, uint64_t id)
{
    uint64_t block = (id >> 3) * UINT64_C(0x9e3779b97f4a7c15) >> 24;
    for (size_t at = block << 3 | (id & 7);; at++) {
        struct hold_said *said = &map->table[at & map->mask];
        if (!said->used || said->id == id)
            return said;
    }
}

static bool grow(struct hold_map *map)
{
    struct hold_map larger = {.mask = 2 * map->mask + 1};
    larger.table = calloc(larger.mask + 1, sizeof *larger.table);
    if (!larger.table)
        return false;
    for (size_t i = 0; i <= map->mask; i++)
        if (map->table[i].used)
            *place_of(&larger, map->table[i].id) = map->table[i];
    free(map->table);
    map->table = larger.table;
    map->mask = larger.mask;
    return true;
}

struct hold_said *hold_map_put(struct hold_map *map, uint64_t id)
{
    struct hold_said *said = place_of(map, id);
    if (said->used)
        return said;
    if (2 * (map->count + 1) > map->mask) {
        if (!grow(map))
            return NULL;
        said = place_of(map, id);
    }
    *said = (struct hold_said){.id = id, .used = true};
    map->count++;
    return said;
}

struct hold_said *hold_map_find(const struct hold_map *map, uint64_t id)
{
    struct hold_said *said = place_of(map, id);
    return said->used ? said : NULL;
}

const struct hold_said *hold_map_next(const struct hold_map *map, size_t *cursor)
{
    while (*cursor <= map->mask) {
        const struct hold_said *said = &map->table[(*cursor)++];
        if (said->used)
            return said;
    }
    return NULL;
}
