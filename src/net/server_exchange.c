#include "net/server_exchange.h"

#include <arpa/inet.h>
#include <stdio.h>

const struct weir_http_head *weir_exchange_head(const struct weir_exchange *x)
{
    return x->head;
}

struct weir_slice weir_exchange_path(const struct weir_exchange *x)
{
    if (x->head)
        return weir_http_text(x->head, x->head->path);
    /* A head that was refused: what stands behind the first space, if a method stands before it. */
    if (!x->in.at)
        return WEIR_SLICE("");
    const char *p = x->in.at + x->in.begin, *end = x->in.at + x->in.end;
    while (p < end && (*p == '\r' || *p == '\n'))
        p++;
    while (p < end && *p >= 'A' && *p <= 'Z')
        p++;
    if (p == end || *p++ != ' ')
        return WEIR_SLICE("");
    const char *path = p;
    while (p<end && * p> 0x20 && *p < 0x7f)
        p++;
    return (struct weir_slice){path, (size_t)(p - path)};
}

struct weir_slice weir_exchange_body(const struct weir_exchange *x)
{
    size_t bytes = weir_block_bytes(&x->body);
    return bytes > 0 ? (struct weir_slice){x->body.at + x->body.begin, bytes} : WEIR_SLICE("");
}

void weir_exchange_body_drop(struct weir_exchange *x)
{
    WEIR_INVARIANT(x->phase != PHASE_BODY);
    weir_block_drop(&x->server->blocks, &x->body);
}

struct weir_server *weir_exchange_server(const struct weir_exchange *x)
{
    return x->server;
}

void *weir_exchange_user(const struct weir_exchange *x)
{
    return x->user;
}

void weir_exchange_user_set(struct weir_exchange *x, void *user)
{
    x->user = user;
}

void *weir_exchange_connection_user(const struct weir_exchange *x)
{
    return x->connection_user;
}

void weir_exchange_connection_user_set(struct weir_exchange *x, void *user)
{
    x->connection_user = user;
}

const char *weir_exchange_peer(const struct weir_exchange *x)
{
    char *text = x->server->peer_text;
    size_t room = sizeof x->server->peer_text;
    char address[INET6_ADDRSTRLEN];
    if (IN6_IS_ADDR_V4MAPPED(&x->address)) {
        inet_ntop(AF_INET, &x->address.s6_addr[12], address, sizeof address);
        snprintf(text, room, "%s:%u", address, x->port);
    } else {
        inet_ntop(AF_INET6, &x->address, address, sizeof address);
        snprintf(text, room, "[%s]:%u", address, x->port);
    }
    return text;
}
