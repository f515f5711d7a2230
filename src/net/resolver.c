#include "net/resolver.h"

#include <ares.h>
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

#define TTL_MIN_S 1
#define TTL_MAX_S 300
#define FAILURE_NS WEIR_NS_PER_S
#define FAMILY_WON_NS (600 * WEIR_NS_PER_S)    /* then the other family gets a new chance */
#define ADDRESS_FAILED_NS (30 * WEIR_NS_PER_S) /* tried last for so long */
#define TRY_MS 1500                            /* c-ares doubles it from round to round */
#define TRIES 3
#define FAMILY_ADDRESSES_MAX 8
#define READS_PER_EVENT_MAX 64

/* A socket of c-ares', owned by the list in the resolver. */
struct dns_socket {
    struct weir_io io;
    struct weir_resolver *resolver;
    struct dns_socket *next;
    bool wants_write;
};

struct weir_resolver {
    struct weir_loop *loop;
    ares_channel channel;
    bool up;
    char *servers;
    struct dns_socket *sockets;
    struct weir_timer timer;
    uint32_t questions; /* asked and not answered */
    bool distrusted;  /* no server answered: read /etc/resolv.conf again before the next question */
    int socket_fault; /* errno of the last socket that could not be opened */
};

struct known_address {
    struct weir_address address;
    uint64_t failed_until_ns;
};

enum { V6, V4, FAMILIES };

struct family {
    struct weir_name *name;
    struct known_address known[FAMILY_ADDRESSES_MAX];
    uint32_t count;
    bool asking;
    int status; /* c-ares' verdict on the last question */
    int ttl_s;
};

struct weir_name {
    struct weir_resolver *resolver;
    char *host;
    uint16_t port;
    bool fixed;  /* a literal or localhost: never asked for */
    bool asking; /* inside name_ask: answers that come at once call nobody */
    bool dead;   /* destroyed; freed with the last answer */
    bool lacked_descriptors;
    struct family family[FAMILIES];
    uint64_t good_until_ns;
    int first_family;
    uint64_t first_family_until_ns;
    uint32_t rotation;
    void (*changed)(void *ctx);
    void *ctx;
    char detail[320];
};

/* --- c-ares on the loop --- */

static void channel_timer_set(struct weir_resolver *r)
{
    struct timeval tv, *wait = ares_timeout(r->channel, NULL, &tv);
    uint64_t wait_ns =
        wait ? (uint64_t)wait->tv_sec * WEIR_NS_PER_S + (uint64_t)wait->tv_usec * WEIR_NS_PER_US
             : WEIR_NEVER_NS;
    uint64_t due_ns = weir_add_sat_u64(weir_loop_now_ns(r->loop), wait_ns);
    /* A question for a socket that could be written all along gets no event: come back at once. */
    for (struct dns_socket *s = r->sockets; s; s = s->next)
        if (s->wants_write)
            due_ns = 0;
    weir_timer_set(r->loop, &r->timer, due_ns);
}

static void channel_fire(struct weir_timer *timer)
{
    struct weir_resolver *r =
        (struct weir_resolver *)((char *)timer - offsetof(struct weir_resolver, timer));
    bool again;
    do {
        again = false;
        for (struct dns_socket *s = r->sockets; s && !again; s = s->next) {
            if (!s->wants_write)
                continue;
            s->wants_write = false; /* if the socket is full, its next event tells */
            ares_process_fd(r->channel, ARES_SOCKET_BAD, s->io.fd);
            again = true; /* the list may have changed */
        }
    } while (again);
    ares_process_fd(r->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD); /* what is overdue */
    channel_timer_set(r);
}

static void dns_socket_ready(struct weir_io *io, uint32_t events)
{
    struct dns_socket *s = (struct dns_socket *)io;
    struct weir_resolver *r = s->resolver;
    bool readable = (events & ~(uint32_t)EPOLLOUT) != 0;
    bool writable = (events & EPOLLOUT) != 0;
    for (int i = 0; i < READS_PER_EVENT_MAX && (readable || writable); i++) {
        s->wants_write = false;
        ares_process_fd(r->channel, readable ? io->fd : ARES_SOCKET_BAD,
                        writable ? io->fd : ARES_SOCKET_BAD);
        if (io->fd < 0)
            break; /* c-ares closed it */
        /* c-ares takes one piece from a TCP socket, and an edge is reported once: look for more. */
        char byte;
        writable = false;
        readable = recv(io->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0;
    }
    channel_timer_set(r);
}

static ares_socket_t dns_open(int family, int type, int protocol, void *ctx)
{
    struct weir_resolver *r = ctx;
    struct dns_socket *s = calloc(1, sizeof *s);
    int fd = socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);
    int fault = fd < 0 ? errno : s ? 0 : ENOMEM;
    if (fault == 0) {
        *s = (struct dns_socket){
            .io = {.ready = dns_socket_ready, .fd = fd}, .resolver = r, .next = r->sockets};
        fault = -weir_loop_add(r->loop, &s->io);
    }
    if (fault == 0) {
        r->sockets = s;
        return fd;
    }
    r->socket_fault = fault;
    if (fd >= 0)
        close(fd);
    free(s);
    errno = fault;
    return ARES_SOCKET_BAD;
}

static struct dns_socket **dns_find(struct weir_resolver *r, ares_socket_t fd)
{
    struct dns_socket **at = &r->sockets;
    while (*at && (*at)->io.fd != fd)
        at = &(*at)->next;
    return at;
}

static int dns_close(ares_socket_t fd, void *ctx)
{
    struct weir_resolver *r = ctx;
    struct dns_socket **at = dns_find(r, fd), *s = *at;
    WEIR_INVARIANT(s);
    *at = s->next;
    weir_loop_close(r->loop, &s->io);
    weir_loop_park(r->loop, s);
    return 0;
}

static int dns_connect(ares_socket_t fd, const struct sockaddr *address, ares_socklen_t bytes,
                       void *ctx)
{
    (void)ctx;
    return connect(fd, address, bytes);
}

static ares_ssize_t dns_receive(ares_socket_t fd, void *buf, size_t room, int flags,
                                struct sockaddr *from, ares_socklen_t *from_bytes, void *ctx)
{
    (void)ctx;
    return recvfrom(fd, buf, room, flags, from, from_bytes);
}

static ares_ssize_t dns_send(ares_socket_t fd, const struct iovec *iov, int count, void *ctx)
{
    (void)ctx;
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)iov,
                             .msg_iovlen = (size_t)count};
    ssize_t n = sendmsg(fd, &message, MSG_NOSIGNAL);
    /* That speaks of a datagram sent before, not of this one. Taking it here would hide it from the
     * question it belongs to, which would wait its full time; the next one is refused anew. */
    if (n < 0 && errno == ECONNREFUSED)
        n = sendmsg(fd, &message, MSG_NOSIGNAL);
    return n;
}

static void dns_state(void *ctx, ares_socket_t fd, int readable, int writable)
{
    struct weir_resolver *r = ctx;
    struct dns_socket *s = *dns_find(r, fd);
    (void)readable;
    if (s)
        s->wants_write = writable != 0;
}

static void channel_down(struct weir_resolver *r)
{
    if (!r->up)
        return;
    r->up = r->distrusted = false;
    ares_destroy(r->channel);
    ares_library_cleanup();
    weir_timer_cancel(r->loop, &r->timer);
}

static int channel_up(struct weir_resolver *r)
{
    static const struct ares_socket_functions functions = {
        .asocket = dns_open,
        .aclose = dns_close,
        .aconnect = dns_connect,
        .arecvfrom = dns_receive,
        .asendv = dns_send,
    };
    if (r->up && !(r->distrusted && r->questions == 0))
        return ARES_SUCCESS;
    channel_down(r);
    char lookups[] = "fb"; /* /etc/hosts, then the name servers */
    struct ares_options options = {.timeout = TRY_MS,
                                   .tries = TRIES,
                                   .lookups = lookups,
                                   .sock_state_cb = dns_state,
                                   .sock_state_cb_data = r};
    int status = ares_library_init(ARES_LIB_INIT_ALL);
    if (status != ARES_SUCCESS)
        return status;
    status = ares_init_options(&r->channel, &options,
                               ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_LOOKUPS |
                                   ARES_OPT_SOCK_STATE_CB);
    if (status == ARES_SUCCESS && r->servers)
        status = ares_set_servers_ports_csv(r->channel, r->servers);
    else if (status != ARES_SUCCESS)
        r->channel = NULL;
    if (status != ARES_SUCCESS) {
        ares_destroy(r->channel);
        ares_library_cleanup();
        return status;
    }
    ares_set_socket_functions(r->channel, &functions, r);
    r->up = true;
    return ARES_SUCCESS;
}

struct weir_resolver *weir_resolver_create(struct weir_loop *loop)
{
    struct weir_resolver *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->loop = loop;
    r->timer.fire = channel_fire;
    return r;
}

void weir_resolver_destroy(struct weir_resolver *resolver)
{
    if (!resolver)
        return;
    channel_down(resolver);
    free(resolver->servers);
    free(resolver);
}

void weir_resolver_servers_set(struct weir_resolver *resolver, const char *servers)
{
    WEIR_INVARIANT(!resolver->up);
    free(resolver->servers);
    resolver->servers = strdup(servers);
}

/* --- addresses --- */

const char *weir_address_text(const struct weir_address *address,
                              char text[static WEIR_ADDRESS_TEXT_BYTES])
{
    char ip[INET6_ADDRSTRLEN] = "?";
    if (address->at.any.sa_family == AF_INET) {
        inet_ntop(AF_INET, &address->at.v4.sin_addr, ip, sizeof ip);
        snprintf(text, WEIR_ADDRESS_TEXT_BYTES, "%s:%u", ip, ntohs(address->at.v4.sin_port));
    } else {
        inet_ntop(AF_INET6, &address->at.v6.sin6_addr, ip, sizeof ip);
        snprintf(text, WEIR_ADDRESS_TEXT_BYTES, "[%s]:%u", ip, ntohs(address->at.v6.sin6_port));
    }
    return text;
}

bool weir_address_equal(const struct weir_address *a, const struct weir_address *b)
{
    if (a->at.any.sa_family != b->at.any.sa_family)
        return false;
    if (a->at.any.sa_family == AF_INET)
        return a->at.v4.sin_addr.s_addr == b->at.v4.sin_addr.s_addr;
    return memcmp(&a->at.v6.sin6_addr, &b->at.v6.sin6_addr, sizeof a->at.v6.sin6_addr) == 0 &&
           a->at.v6.sin6_scope_id == b->at.v6.sin6_scope_id;
}

static void family_add(struct family *f, const void *ip, uint16_t port, int family, uint32_t scope)
{
    if (f->count == FAMILY_ADDRESSES_MAX)
        return;
    struct weir_address a;
    memset(&a, 0, sizeof a);
    if (family == AF_INET) {
        a.bytes = sizeof a.at.v4;
        a.at.v4.sin_family = AF_INET;
        a.at.v4.sin_port = htons(port);
        memcpy(&a.at.v4.sin_addr, ip, sizeof a.at.v4.sin_addr);
    } else {
        a.bytes = sizeof a.at.v6;
        a.at.v6.sin6_family = AF_INET6;
        a.at.v6.sin6_port = htons(port);
        a.at.v6.sin6_scope_id = scope;
        memcpy(&a.at.v6.sin6_addr, ip, sizeof a.at.v6.sin6_addr);
    }
    f->known[f->count++] = (struct known_address){.address = a};
}

static bool host_is_localhost(const char *host)
{
    size_t n = strlen(host);
    if (n > 0 && host[n - 1] == '.')
        n--;
    static const char suffix[] = ".localhost";
    size_t s = sizeof suffix - 1;
    return (n == s - 1 && strncasecmp(host, suffix + 1, n) == 0) ||
           (n > s && strncasecmp(host + n - s, suffix, s) == 0);
}

/* Fills the addresses of hosts that nobody needs to be asked for. */
static bool name_fix(struct weir_name *name)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, name->host, &v4) == 1) {
        family_add(&name->family[V4], &v4, name->port, AF_INET, 0);
        return true;
    }
    if (inet_pton(AF_INET6, name->host, &v6) == 1) {
        family_add(&name->family[V6], &v6, name->port, AF_INET6, 0);
        return true;
    }
    if (host_is_localhost(name->host)) {
        v4.s_addr = htonl(INADDR_LOOPBACK);
        family_add(&name->family[V4], &v4, name->port, AF_INET, 0);
        family_add(&name->family[V6], &in6addr_loopback, name->port, AF_INET6, 0);
        /* Local servers listen on 127.0.0.1 more often than on ::1. */
        name->first_family = V4;
        name->first_family_until_ns = WEIR_NEVER_NS;
        return true;
    }
    return false;
}

struct weir_name *weir_name_create(struct weir_resolver *resolver, const char *host, uint16_t port,
                                   void (*changed)(void *ctx), void *ctx)
{
    struct weir_name *name = calloc(1, sizeof *name);
    if (!name || !(name->host = strdup(host))) {
        free(name);
        return NULL;
    }
    name->resolver = resolver;
    name->port = port;
    name->changed = changed;
    name->ctx = ctx;
    for (int i = 0; i < FAMILIES; i++)
        name->family[i].name = name;
    name->fixed = name_fix(name);
    return name;
}

static bool name_asking(const struct weir_name *name)
{
    return name->family[V4].asking || name->family[V6].asking;
}

static void name_free(struct weir_name *name)
{
    free(name->host);
    free(name);
}

void weir_name_destroy(struct weir_name *name)
{
    if (!name)
        return;
    name->dead = true;
    if (!name_asking(name))
        name_free(name);
}

/* --- asking --- */

static void name_explain(struct weir_name *name)
{
    int status = name->family[V4].status;
    if (status == ARES_SUCCESS || status == ARES_ENODATA)
        status = name->family[V6].status;
    int socket_fault = name->resolver->socket_fault;
    name->lacked_descriptors = status != ARES_ENOTFOUND && status != ARES_ENODATA &&
                               (socket_fault == EMFILE || socket_fault == ENFILE);
    const char *why;
    switch (status) {
    case ARES_ENOTFOUND:
        why = "there is no such host: check the name";
        break;
    case ARES_SUCCESS:
    case ARES_ENODATA:
        why = "the name has no address";
        break;
    case ARES_ETIMEOUT:
        why = "no name server answered in time: check /etc/resolv.conf and the network";
        break;
    case ARES_ECONNREFUSED:
        why = "no name server can be reached: check /etc/resolv.conf and the network";
        break;
    default:
        why = ares_strerror(status);
    }
    if (name->lacked_descriptors)
        why = "out of file descriptors";
    snprintf(name->detail, sizeof name->detail, "resolve %.200s: %s", name->host, why);
}

static void family_take(struct family *f, const struct ares_addrinfo *info)
{
    struct known_address old[FAMILY_ADDRESSES_MAX];
    uint32_t old_count = f->count;
    memcpy(old, f->known, sizeof old);
    f->count = 0;
    f->ttl_s = TTL_MAX_S;
    for (const struct ares_addrinfo_node *n = info->nodes; n; n = n->ai_next) {
        if (n->ai_ttl < f->ttl_s)
            f->ttl_s = n->ai_ttl;
        if (n->ai_family == AF_INET) {
            struct sockaddr_in in;
            memcpy(&in, n->ai_addr, sizeof in);
            family_add(f, &in.sin_addr, f->name->port, AF_INET, 0);
        } else if (n->ai_family == AF_INET6) {
            struct sockaddr_in6 in;
            memcpy(&in, n->ai_addr, sizeof in);
            family_add(f, &in.sin6_addr, f->name->port, AF_INET6, in.sin6_scope_id);
        }
    }
    for (uint32_t i = 0; i < f->count; i++)
        for (uint32_t k = 0; k < old_count; k++)
            if (weir_address_equal(&f->known[i].address, &old[k].address))
                f->known[i].failed_until_ns = old[k].failed_until_ns;
    if (f->ttl_s < TTL_MIN_S)
        f->ttl_s = TTL_MIN_S;
}

static void name_answered(struct weir_name *name)
{
    uint64_t now_ns = weir_loop_now_ns(name->resolver->loop);
    uint64_t good_ns = WEIR_NEVER_NS;
    for (int i = 0; i < FAMILIES; i++) {
        const struct family *f = &name->family[i];
        if (!f->asking && f->status == ARES_SUCCESS && f->count > 0)
            good_ns = weir_min_u64(good_ns, (uint64_t)f->ttl_s * WEIR_NS_PER_S);
    }
    bool found = good_ns != WEIR_NEVER_NS;
    name->good_until_ns = now_ns + (found ? good_ns : FAILURE_NS);
    if (!found && !name_asking(name))
        name_explain(name);
    if (!name->asking)
        name->changed(name->ctx);
}

static void family_answered(void *ctx, int status, int timeouts, struct ares_addrinfo *info)
{
    struct family *f = ctx;
    struct weir_name *name = f->name;
    (void)timeouts;
    f->asking = false;
    f->status = status;
    name->resolver->questions--;
    if (status == ARES_ETIMEOUT || status == ARES_ECONNREFUSED)
        name->resolver->distrusted = true;
    if (status == ARES_SUCCESS)
        family_take(f, info);
    else if (status == ARES_ENOTFOUND || status == ARES_ENODATA)
        f->count = 0;
    if (info)
        ares_freeaddrinfo(info);
    if (!name->dead)
        name_answered(name);
    else if (!name_asking(name) && !name->asking)
        name_free(name);
}

static void name_ask(struct weir_name *name)
{
    static const int number[FAMILIES] = {[V6] = AF_INET6, [V4] = AF_INET};
    struct weir_resolver *r = name->resolver;
    r->socket_fault = 0;
    int status = channel_up(r);
    if (status != ARES_SUCCESS) {
        name->family[V4].status = name->family[V6].status = status;
        name_answered(name);
        return;
    }
    name->asking = true;
    name->family[V4].asking = name->family[V6].asking = true;
    r->questions += FAMILIES;
    for (int i = 0; i < FAMILIES; i++) {
        struct ares_addrinfo_hints hints = {
            .ai_flags = ARES_AI_NOSORT, .ai_family = number[i], .ai_socktype = SOCK_STREAM};
        ares_getaddrinfo(r->channel, name->host, NULL, &hints, family_answered, &name->family[i]);
    }
    name->asking = false;
    channel_timer_set(r);
}

enum weir_name_answer weir_name_get(struct weir_name *name)
{
    if (name->fixed)
        return WEIR_NAME_READY;
    if (!name_asking(name) && weir_loop_now_ns(name->resolver->loop) >= name->good_until_ns)
        name_ask(name);
    if (name->family[V4].count > 0 || name->family[V6].count > 0)
        return WEIR_NAME_READY;
    return name_asking(name) ? WEIR_NAME_WAIT : WEIR_NAME_FAILED;
}

bool weir_name_more_to_come(const struct weir_name *name)
{
    return name_asking(name);
}

const char *weir_name_detail(const struct weir_name *name)
{
    return name->detail;
}

bool weir_name_lacked_descriptors(const struct weir_name *name)
{
    return name->lacked_descriptors;
}

/* --- the order in which addresses are tried --- */

uint32_t weir_name_order(struct weir_name *name, struct weir_address *addresses, uint32_t room)
{
    uint64_t now_ns = weir_loop_now_ns(name->resolver->loop);
    int first = now_ns < name->first_family_until_ns ? name->first_family : V6;
    uint32_t count = 0;
    uint32_t rotation = name->rotation++;
    for (int failed = 0; failed < 2; failed++) {
        for (uint32_t i = 0; i < FAMILY_ADDRESSES_MAX; i++) {
            for (int k = 0; k < FAMILIES; k++) {
                const struct family *f = &name->family[k == 0 ? first : !first];
                if (i >= f->count || count == room)
                    continue;
                const struct known_address *known = &f->known[(i + rotation) % f->count];
                if ((known->failed_until_ns > now_ns) == (failed == 1))
                    addresses[count++] = known->address;
            }
        }
    }
    return count;
}

static int address_family(const struct weir_address *address)
{
    return address->at.any.sa_family == AF_INET ? V4 : V6;
}

void weir_name_address_failed(struct weir_name *name, const struct weir_address *address)
{
    struct family *f = &name->family[address_family(address)];
    for (uint32_t i = 0; i < f->count; i++)
        if (weir_address_equal(&f->known[i].address, address))
            f->known[i].failed_until_ns =
                weir_loop_now_ns(name->resolver->loop) + ADDRESS_FAILED_NS;
}

void weir_name_address_won(struct weir_name *name, const struct weir_address *address)
{
    struct family *f = &name->family[address_family(address)];
    for (uint32_t i = 0; i < f->count; i++)
        if (weir_address_equal(&f->known[i].address, address))
            f->known[i].failed_until_ns = 0;
    uint64_t now_ns = weir_loop_now_ns(name->resolver->loop);
    if (name->fixed || now_ns < name->first_family_until_ns)
        return; /* not renewed: in the end IPv6 gets its new chance */
    name->first_family = address_family(address);
    name->first_family_until_ns = now_ns + FAMILY_WON_NS;
}
