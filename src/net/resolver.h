/* resolver: names to addresses, without blocking: c-ares on the loop.
 *
 * A weir_name is one host and port that is asked for again and again. Its addresses are asked for
 * when they are first wanted and again when their TTL (1 s to 300 s) has passed; old addresses
 * serve until the new ones are there, and also while no name server answers, but not after the name
 * is known not to exist. A failure is kept for 1 s. IPv4 and IPv6 are asked for side by side, and
 * either answer is enough to begin. Literals and localhost are answered without asking anybody;
 * /etc/hosts comes before the name servers.
 *
 * Thread: loop. Source: RFC 8305 section 3, RFC 8767 (old answers), RFC 6761 (localhost). */
#ifndef WEIR_NET_RESOLVER_H
#define WEIR_NET_RESOLVER_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "net/loop.h"

struct weir_resolver;
struct weir_name;

struct weir_address {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } at;
    socklen_t bytes;
};

enum weir_name_answer {
    WEIR_NAME_READY,  /* there are addresses */
    WEIR_NAME_WAIT,   /* none yet; changed() will be called */
    WEIR_NAME_FAILED, /* weir_name_detail says why; ask again in a second */
};

/* Opens nothing before the first name that must be asked for. NULL: out of memory. */
struct weir_resolver *weir_resolver_create(struct weir_loop *loop);
void weir_resolver_destroy(struct weir_resolver *resolver); /* after its names */
/* Name servers instead of the system's: "127.0.0.1:5353,[::1]:53". Before the first name is asked
 * for. */
void weir_resolver_servers_set(struct weir_resolver *resolver, const char *servers);

/* host is copied: a name or a literal, IPv6 without brackets. changed: called from the loop, never
 * inside weir_name_get, when a WAIT is over. NULL: out of memory. */
struct weir_name *weir_name_create(struct weir_resolver *resolver, const char *host, uint16_t port,
                                   void (*changed)(void *ctx), void *ctx);
void weir_name_destroy(struct weir_name *name);

enum weir_name_answer weir_name_get(struct weir_name *name);

/* A question is open: changed() will be called, and addresses may be added. */
bool weir_name_more_to_come(const struct weir_name *name);

/* Writes up to room addresses in the order in which they should be tried: the families alternate,
 * IPv6 first unless IPv4 has won lately; within a family the first one changes from call to call;
 * addresses that have failed lately come last. Returns how many. */
uint32_t weir_name_order(struct weir_name *name, struct weir_address *addresses, uint32_t room);
/* What came of it, for later orders. */
void weir_name_address_failed(struct weir_name *name, const struct weir_address *address);
void weir_name_address_won(struct weir_name *name, const struct weir_address *address);

const char *weir_name_detail(const struct weir_name *name);
bool weir_name_lacked_descriptors(const struct weir_name *name); /* that was why */

bool weir_address_equal(const struct weir_address *a,
                        const struct weir_address *b); /* but for the port */

#define WEIR_ADDRESS_TEXT_BYTES 64
/* "10.0.0.1:443", "[::1]:443". Returns text. */
const char *weir_address_text(const struct weir_address *address,
                              char text[static WEIR_ADDRESS_TEXT_BYTES]);

#endif
