/* dns: a name server inside a test, on the test's loop, over UDP and TCP. */
#ifndef WEIR_TESTS_DNS_H
#define WEIR_TESTS_DNS_H

#include "support/check.h"

#include "net/loop.h"

enum { DNS_ROWS = 8, DNS_TCP = 4 };

enum dns_way {
    DNS_ANSWER, /* addresses; none: the name exists, without any of that type */
    DNS_NXDOMAIN,
    DNS_SERVFAIL,
    DNS_DROP,           /* never answered */
    DNS_TRUNCATED,      /* over UDP only the wish to be asked over TCP */
    DNS_TRUNCATED_DROP, /* the same, and no answer there */
};

/* What is answered for a name and a family; a name without a row does not exist. */
struct dns_row {
    const char *name;
    int family; /* AF_INET, AF_INET6 */
    enum dns_way way;
    uint32_t ttl_s;
    const char *addresses; /* "127.0.0.1 127.0.0.2" */
};

struct dns {
    struct weir_io udp; /* first */
    struct weir_io tcp;
    struct weir_io tcp_ends[DNS_TCP];
    struct weir_loop *loop;
    struct dns_row rows[DNS_ROWS];
    int row_count;
    uint32_t asked, asked_by_tcp;
    char servers[32]; /* "127.0.0.1:12345" */
};

void dns_open(struct dns *dns, struct weir_loop *loop);
void dns_close(struct dns *dns);
/* Adds a row, or replaces the one of that name and family. */
void dns_set(struct dns *dns, struct dns_row row);

#endif
