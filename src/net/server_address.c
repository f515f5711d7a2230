#include "net/server_address.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

int weir_address_table_init(struct weir_address_table *t, uint32_t addresses_max)
{
    uint64_t places = 16;
    while (places < 2 * (uint64_t)addresses_max)
        places *= 2;
    if (getrandom(&t->secret, sizeof t->secret, 0) != (ssize_t)sizeof t->secret)
        return -EIO;
    t->places = calloc(places, sizeof *t->places);
    t->mask = places - 1;
    return t->places ? 0 : -ENOMEM;
}

void weir_address_table_free(struct weir_address_table *t)
{
    free(t->places);
    t->places = NULL;
}

/* IPv4 goes where the reserved block 0::/8 has no subscriber. */
uint64_t weir_address_key(const struct sockaddr_storage *address)
{
    uint32_t v4;
    if (address->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const void *)address;
        v4 = ntohl(in->sin_addr.s_addr);
        return UINT64_C(1) << 32 | v4;
    }
    const struct sockaddr_in6 *in6 = (const void *)address;
    const uint8_t *at = in6->sin6_addr.s6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr)) {
        memcpy(&v4, at + 12, sizeof v4);
        return UINT64_C(1) << 32 | ntohl(v4);
    }
    uint64_t prefix = 0;
    for (int i = 0; i < 8; i++)
        prefix = prefix << 8 | at[i];
    return prefix;
}

/* Where the search for a key begins. */
static uint64_t home_of(const struct weir_address_table *t, uint64_t key)
{
    uint64_t h = (key ^ t->secret) * UINT64_C(0x9e3779b97f4a7c15);
    h = (h ^ h >> 32 ^ t->secret) * UINT64_C(0xd6e8feb86659fd93);
    return (h ^ h >> 32) & t->mask;
}

/* The place of the key, or the free one where it would be. */
static uint64_t place_of(const struct weir_address_table *t, uint64_t key)
{
    uint64_t i = home_of(t, key);
    while (t->places[i].count > 0 && t->places[i].key != key)
        i = (i + 1) & t->mask;
    return i;
}

uint32_t weir_address_add(struct weir_address_table *t, uint64_t key)
{
    struct weir_address_count *place = &t->places[place_of(t, key)];
    place->key = key;
    return ++place->count;
}

/* A freed place may lie between others and their homes: those are moved up (Knuth 6.4, R). */
uint32_t weir_address_remove(struct weir_address_table *t, uint64_t key)
{
    uint64_t hole = place_of(t, key);
    WEIR_INVARIANT(t->places[hole].count > 0);
    uint32_t left = --t->places[hole].count;
    if (left > 0)
        return left;
    for (uint64_t i = (hole + 1) & t->mask; t->places[i].count > 0; i = (i + 1) & t->mask) {
        uint64_t from_home = (i - home_of(t, t->places[i].key)) & t->mask;
        if (from_home >= ((i - hole) & t->mask)) {
            t->places[hole] = t->places[i];
            t->places[i].count = 0;
            hole = i;
        }
    }
    return 0;
}
