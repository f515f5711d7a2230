#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/server_exchange.h"

#define ACCEPTS_PER_TURN 64
#define STRUCTS_KEPT 1024
#define SPARE_PER_ADDRESS 16
#define RETRY_NS (100 * WEIR_NS_PER_MS)

void weir_server_log(struct weir_server *server, const char *format, ...)
{
    char text[256];
    uint64_t now_ns = weir_loop_now_ns(server->loop);
    if (!server->handler.log || now_ns < server->log_next_ns)
        return;
    server->log_next_ns = weir_add_sat_u64(now_ns, WEIR_NS_PER_S);
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    server->handler.log(server->handler.ctx, text);
}

/* --- taking connections -------------------------------------------------------------------------
 */

static struct weir_exchange *struct_take(struct weir_server *server)
{
    struct weir_exchange *x = server->idle_structs;
    if (!x)
        return calloc(1, sizeof *x);
    server->idle_structs = x->all.next;
    server->idle_struct_count--;
    memset(x, 0, sizeof *x);
    return x;
}

static void struct_give(struct weir_server *server, struct weir_exchange *x)
{
    if (!BLOCK_KEEP || server->idle_struct_count >= STRUCTS_KEPT) {
        free(x);
        return;
    }
    x->all.next = server->idle_structs;
    server->idle_structs = x;
    server->idle_struct_count++;
}

/* Counts a connection, or says that there is no room even to refuse it. */
static bool connection_count(struct weir_server *server, uint64_t key, uint8_t *refuse)
{
    const struct weir_server_limits *limits = &server->limits;
    uint32_t from_address = 0;
    if (limits->address_connections > 0)
        from_address = weir_address_add(&server->addresses, key);
    *refuse = NO_REFUSAL;
    if (server->connections - server->spare_connections >= limits->connections)
        *refuse = WEIR_SERVER_CONNECTIONS;
    else if (from_address > limits->address_connections)
        *refuse = WEIR_SERVER_ADDRESS_CONNECTIONS;
    if (*refuse == NO_REFUSAL) {
        server->connections++;
        return true;
    }
    if (*refuse == WEIR_SERVER_CONNECTIONS)
        weir_server_log(server, "all %u connections of port %u are in use: new ones are refused",
                        limits->connections, server->port);
    if (server->spare_connections == server->spare_max ||
        (from_address > 0 && from_address - 1 >= limits->address_connections + SPARE_PER_ADDRESS)) {
        if (from_address > 0)
            weir_address_remove(&server->addresses, key);
        return false;
    }
    server->connections++;
    server->spare_connections++;
    return true;
}

static void connection_uncount(struct weir_server *server, uint64_t key, uint8_t refuse)
{
    if (server->limits.address_connections > 0)
        weir_address_remove(&server->addresses, key);
    server->connections--;
    if (refuse != NO_REFUSAL)
        server->spare_connections--;
}

/* Into IPv6 form. */
static void peer_keep(struct weir_exchange *x, const struct sockaddr_storage *peer)
{
    if (peer->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const void *)peer;
        x->address = in6->sin6_addr;
        x->port = ntohs(in6->sin6_port);
        return;
    }
    const struct sockaddr_in *in = (const void *)peer;
    x->address.s6_addr[10] = x->address.s6_addr[11] = 0xff;
    memcpy(&x->address.s6_addr[12], &in->sin_addr, 4);
    x->port = ntohs(in->sin_port);
}

static void fd_reset(int fd)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    close(fd);
}

static void server_take(struct weir_server *server, int fd, const struct sockaddr_storage *peer)
{
    uint64_t key = weir_address_key(peer);
    uint8_t refuse;
    server->counts.accepted++;
    if (!connection_count(server, key, &refuse)) {
        server->counts.dropped++;
        fd_reset(fd);
        return;
    }
    struct weir_exchange *x = struct_take(server);
    int fault = x ? weir_stream_open(&x->stream, server->loop, fd, weir_exchange_ready) : -ENOMEM;
    if (fault) {
        weir_server_log(server, "a connection to port %u was dropped: %s", server->port,
                        strerror(-fault));
        server->counts.dropped++;
        connection_uncount(server, key, refuse);
        fd_reset(fd);
        if (x)
            struct_give(server, x);
        return;
    }
    x->server = server;
    x->address_key = key;
    x->refuse = refuse;
    peer_keep(x, peer);
    x->timer.fire = weir_exchange_due;
    x->phase = server->tls ? PHASE_HANDSHAKE : PHASE_IDLE;
    EXCHANGE_ADD(server->all, x, all);
    weir_exchange_due_set(x,
                          weir_add_sat_u64(weir_loop_now_ns(server->loop), server->limits.head_ns));
    if (server->tls && weir_stream_secure(&x->stream, server->tls, NULL) != 0)
        weir_exchange_close(x, true);
}

/* Out of descriptors, a waiting connection can neither be taken nor told. One descriptor is kept
 * for that: it is given up for the time of a refusal. Returns what accept4 would: the kernel finds
 * that there is no descriptor before it finds that nobody waits. */
static int accept_refuse(struct weir_server *server)
{
    static const char refusal[] = "HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\n"
                                  "content-length: 0\r\nconnection: close\r\n\r\n";
    char drop[4096];
    int why = errno;
    if (server->reserve_fd < 0)
        return -1;
    close(server->reserve_fd);
    int fd = accept4(server->listen_io.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    int fault = errno;
    if (fd >= 0) {
        server->counts.descriptors_short++;
        weir_server_log(server,
                        "no descriptor for a connection to port %u (%s): it is refused; raise the "
                        "limit (ulimit -n) or lower the number of connections",
                        server->port, strerror(why));
        if (!server->tls && send(fd, refusal, sizeof refusal - 1, MSG_NOSIGNAL) > 0) {
            /* What is unread at close() would become a RST and take the answer away. */
            shutdown(fd, SHUT_WR);
            while (recv(fd, drop, sizeof drop, 0) == (ssize_t)sizeof drop) {
            }
        }
        close(fd);
    }
    server->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    errno = fault;
    return fd;
}

static void server_accept(struct weir_server *server)
{
    for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
        struct sockaddr_storage peer;
        socklen_t peer_bytes = sizeof peer;
        int fd = accept4(server->listen_io.fd, (struct sockaddr *)&peer, &peer_bytes,
                         SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            server_take(server, fd, &peer);
            continue;
        }
        if ((errno == EMFILE || errno == ENFILE) && accept_refuse(server) >= 0)
            continue;
        switch (errno) {
        case EAGAIN:
            if (server->reserve_fd < 0)
                server->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
            return;
        case EMFILE:
        case ENFILE:
        case ENOBUFS:
        case ENOMEM:
            /* No event will tell of the connections that wait. */
            weir_server_log(server, "connections to port %u wait: %s", server->port,
                            strerror(errno));
            weir_timer_set(server->loop, &server->accept_timer,
                           weir_add_sat_u64(weir_loop_now_ns(server->loop), RETRY_NS));
            return;
        default:
            continue; /* that connection's own trouble, ECONNABORTED and the like */
        }
    }
    weir_timer_set(server->loop, &server->accept_timer, 0); /* the others first */
}

static void listen_ready(struct weir_io *io, uint32_t events)
{
    (void)events;
    server_accept(
        (struct weir_server *)(void *)((char *)io - offsetof(struct weir_server, listen_io)));
}

static void accept_due(struct weir_timer *timer)
{
    struct weir_server *server =
        (struct weir_server *)(void *)((char *)timer - offsetof(struct weir_server, accept_timer));
    if (server->listen_io.fd >= 0)
        server_accept(server);
}

void weir_exchange_free_later(struct weir_exchange *x)
{
    struct weir_server *server = x->server;
    EXCHANGE_REMOVE(x, all);
    EXCHANGE_REMOVE(x, dirty);
    EXCHANGE_REMOVE(x, again);
    connection_uncount(server, x->address_key, x->refuse);
    x->all.next = server->closed;
    server->closed = x;
}

/* --- turns --------------------------------------------------------------------------------------
 */

/* Each of the list as it is now: what is added meanwhile is for the next turn. */
static void each_again(struct weir_server *server)
{
    struct weir_exchange *list = server->again;
    server->again = NULL;
    if (list)
        list->again.link = &list;
    while (list) {
        struct weir_exchange *x = list;
        EXCHANGE_REMOVE(x, again);
        weir_exchange_again(x);
    }
}

static void again_due(struct weir_timer *timer)
{
    each_again(
        (struct weir_server *)(void *)((char *)timer - offsetof(struct weir_server, again_timer)));
}

static void closed_free(struct weir_server *server)
{
    while (server->closed) {
        struct weir_exchange *x = server->closed;
        server->closed = x->all.next;
        struct_give(server, x);
    }
}

static void turn_end(struct weir_hook *hook)
{
    struct weir_server *server =
        (struct weir_server *)(void *)((char *)hook - offsetof(struct weir_server, turn_end));
    server->flushed_turn = weir_loop_turns(server->loop);
    struct weir_exchange *list = server->dirty;
    server->dirty = NULL;
    if (list)
        list->dirty.link = &list;
    while (list) {
        struct weir_exchange *x = list;
        EXCHANGE_REMOVE(x, dirty);
        weir_exchange_flush(x);
    }
    closed_free(server);
}

/* --- listening ----------------------------------------------------------------------------------
 */

static bool address_parse(const char *text, struct sockaddr_storage *address, socklen_t *bytes)
{
    char host[64];
    const char *colon = strrchr(text, ':');
    if (!colon || colon == text || (size_t)(colon - text) >= sizeof host)
        return false;
    char *end;
    unsigned long port = strtoul(colon + 1, &end, 10);
    if (colon[1] < '0' || colon[1] > '9' || *end || port > UINT16_MAX)
        return false;
    size_t host_bytes = (size_t)(colon - text);
    bool is_bracketed = text[0] == '[' && colon[-1] == ']';
    memcpy(host, text + is_bracketed, host_bytes);
    host[host_bytes - (is_bracketed ? 2 : 0)] = '\0';

    memset(address, 0, sizeof *address);
    struct sockaddr_in *in = (void *)address;
    struct sockaddr_in6 *in6 = (void *)address;
    if (!is_bracketed && inet_pton(AF_INET, strcmp(host, "localhost") == 0 ? "127.0.0.1" : host,
                                   &in->sin_addr) == 1) {
        in->sin_family = AF_INET;
        in->sin_port = htons((uint16_t)port);
        *bytes = sizeof *in;
        return true;
    }
    if (!is_bracketed || inet_pton(AF_INET6, host, &in6->sin6_addr) != 1)
        return false;
    in6->sin6_family = AF_INET6;
    in6->sin6_port = htons((uint16_t)port);
    *bytes = sizeof *in6;
    return true;
}

static const char *advice_for(int fault)
{
    switch (fault) {
    case EADDRINUSE:
        return ": stop what listens there, or choose another port";
    case EACCES:
        return ": choose a port above 1023";
    case EADDRNOTAVAIL:
        return ": choose an address of this machine";
    case EMFILE:
    case ENFILE:
        return ": raise the limit (ulimit -n)";
    default:
        return "";
    }
}

static void option_set(int fd, int level, int name, int value)
{
    setsockopt(fd, level, name, &value, sizeof value); /* each only makes things better */
}

/* A listening descriptor, or -errno. Accepted sockets inherit the keep-alive: a peer that lost its
 * power while its request waits is noticed within a minute and a half. */
static int listen_open(const struct sockaddr_storage *address, socklen_t bytes)
{
    int fd = socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    option_set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    option_set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    option_set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 30);
    option_set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 15);
    option_set(fd, IPPROTO_TCP, TCP_KEEPCNT, 4);
    if (address->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const void *)address;
        option_set(fd, IPPROTO_IPV6, IPV6_V6ONLY, !IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr));
    }
    if (bind(fd, (const struct sockaddr *)address, bytes) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    int fault = errno;
    close(fd);
    return -fault;
}

static uint16_t port_of(int fd)
{
    struct sockaddr_storage bound;
    socklen_t bytes = sizeof bound;
    if (getsockname(fd, (struct sockaddr *)&bound, &bytes) != 0)
        return 0;
    const struct sockaddr_in *in = (const void *)&bound; /* the port lies alike in both families */
    return ntohs(in->sin_port);
}

static int server_open(struct weir_server *server, const struct sockaddr_storage *address,
                       socklen_t bytes)
{
    uint32_t connections = server->limits.connections;
    server->spare_max = connections / 16 < 16 ? 16 : connections / 16;
    if (server->spare_max > 1024)
        server->spare_max = 1024;
    if (server->limits.address_connections > 0) {
        int fault = weir_address_table_init(&server->addresses, connections + server->spare_max);
        if (fault)
            return fault;
    }
    server->scratch = malloc(SCRATCH_BYTES + WEIR_EXCHANGE_HEAD_BYTES);
    if (!server->scratch)
        return -ENOMEM;
    server->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    server->listen_io.ready = listen_ready;
    int fd = listen_open(address, bytes);
    if (fd < 0)
        return fd;
    server->listen_io.fd = fd;
    server->port = port_of(fd);
    int fault = weir_loop_add(server->loop, &server->listen_io);
    if (fault) {
        close(fd);
        server->listen_io.fd = -1;
    }
    return fault;
}

struct weir_server *weir_server_listen(struct weir_loop *loop, const char *address,
                                       struct weir_tls *tls,
                                       const struct weir_server_limits *limits,
                                       const struct weir_server_handler *handler, char *error_text,
                                       size_t error_bytes)
{
    struct sockaddr_storage at;
    socklen_t at_bytes;
    WEIR_INVARIANT(handler->head && handler->request && handler->gone && handler->done);
    WEIR_INVARIANT(limits->connections > 0);
    if (!address_parse(address, &at, &at_bytes)) {
        snprintf(error_text, error_bytes,
                 "cannot listen on \"%s\": give an address and a port, as in 127.0.0.1:8765 or "
                 "[::1]:8765",
                 address);
        return NULL;
    }
    struct weir_server *server = calloc(1, sizeof *server);
    int fault = -ENOMEM;
    if (server) {
        server->loop = loop;
        server->tls = tls;
        server->limits = *limits;
        server->handler = *handler;
        server->listen_io.fd = server->reserve_fd = -1;
        server->again_timer.fire = again_due;
        server->accept_timer.fire = accept_due;
        server->turn_end.run = turn_end;
        server->flushed_turn = UINT64_MAX;
        weir_loop_at_turn_end(loop, &server->turn_end);
        fault = server_open(server, &at, at_bytes);
    }
    if (fault == 0)
        return server;
    snprintf(error_text, error_bytes, "cannot listen on %s: %s%s", address, strerror(-fault),
             advice_for(-fault));
    if (server)
        weir_server_destroy(server);
    return NULL;
}

void weir_server_drain(struct weir_server *server)
{
    server->draining = true;
    if (server->listen_io.fd >= 0)
        weir_loop_close(server->loop, &server->listen_io);
    weir_timer_cancel(server->loop, &server->accept_timer);
    for (struct weir_exchange *x = server->all, *next; x; x = next) {
        next = x->all.next;
        bool is_idle = x->phase == PHASE_IDLE && weir_block_bytes(&x->in) == 0 && !x->readable;
        if (is_idle || x->phase == PHASE_HANDSHAKE)
            weir_exchange_close(x, false);
    }
}

void weir_server_destroy(struct weir_server *server)
{
    if (!server)
        return;
    server->handler.closed = NULL;
    while (server->all) {
        server->all->told = false;
        weir_exchange_close(server->all, false);
    }
    if (server->listen_io.fd >= 0)
        weir_loop_close(server->loop, &server->listen_io);
    if (server->reserve_fd >= 0)
        close(server->reserve_fd);
    weir_timer_cancel(server->loop, &server->accept_timer);
    weir_timer_cancel(server->loop, &server->again_timer);
    weir_loop_hook_remove(server->loop, &server->turn_end);
    closed_free(server);
    while (server->idle_structs) {
        struct weir_exchange *x = server->idle_structs;
        server->idle_structs = x->all.next;
        free(x);
    }
    weir_block_pool_free(&server->blocks);
    weir_address_table_free(&server->addresses);
    free(server->scratch);
    free(server);
}

/* --- questions ----------------------------------------------------------------------------------
 */

uint16_t weir_server_port(const struct weir_server *server)
{
    return server->port;
}

uint32_t weir_server_connections(const struct weir_server *server)
{
    return server->connections;
}

void weir_server_view(const struct weir_server *server, struct weir_server_view *view)
{
    *view = server->counts;
    view->connections = server->connections;
}
