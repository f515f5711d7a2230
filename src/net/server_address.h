/* server_address: how many connections each address holds.
 *
 * An IPv4 address counts by itself; IPv6 by its /64, which one subscriber usually has whole. One
 * open-addressed table of fixed size, keyed with a secret, so that nobody can choose addresses
 * that fall together. Thread: loop. */
#ifndef WEIR_NET_SERVER_ADDRESS_H
#define WEIR_NET_SERVER_ADDRESS_H

#include <sys/socket.h>

#include "core/base.h"

struct weir_address_count {
    uint64_t key;
    uint32_t count; /* 0: the place is free */
};

struct weir_address_table {
    struct weir_address_count *places;
    uint64_t mask; /* places - 1; at most half of them are ever in use */
    uint64_t secret;
};

/* Room for addresses_max different ones. 0 or -errno. Unused places cost no memory. */
WEIR_MUST_USE int weir_address_table_init(struct weir_address_table *t, uint32_t addresses_max);
void weir_address_table_free(struct weir_address_table *t);

/* The key of an IPv4 or IPv6 address; an IPv4 address mapped into IPv6 is an IPv4 address. */
uint64_t weir_address_key(const struct sockaddr_storage *address);
/* Counts one more, one less; both return the count then. */
uint32_t weir_address_add(struct weir_address_table *t, uint64_t key);
uint32_t weir_address_remove(struct weir_address_table *t, uint64_t key);

#endif
