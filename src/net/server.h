/* server: the listening side. Connections, heads, bodies, and answers written without buffering more
 * than a bound. It knows HTTP, not what it is used for: the handler decides.
 *
 *   accept -> (TLS) -> HEAD -> handler.head -> BODY -> handler.request -> answer -> HEAD (keep-alive)
 *
 * One exchange at a time per connection: a pipelined next request waits in the kernel until the answer
 * before it is written, so answers keep their order. While an exchange waits for its answer the socket is
 * watched: a client that hangs up (also half-closes) is reported by handler.gone in the same turn.
 *
 * Output: write calls append to the connection's buffer; one sendmsg per connection and turn sends it. When
 * more than WEIR_EXCHANGE_HIGH_BYTES wait unsent, weir_exchange_full answers true: stop producing until
 * handler.drained. A client that takes nothing for stall_ns is gone (WEIR_GONE_STALLED).
 *
 * Bounds: head bytes, body bytes, connections in all and per address, a deadline for the whole head, a
 * minimum rate for the body. At each the handler is told (fault) and may write the answer in its own dialect;
 * else a bare status is sent. After a fault the connection closes, lingering, so that the answer arrives.
 * Out of descriptors: a reserve descriptor is used to accept and refuse, logged at most once a second, and
 * accepting resumes when one is free.
 *
 * Thread: loop. */
#ifndef WEIR_NET_SERVER_H
#define WEIR_NET_SERVER_H

#include "net/http1.h"
#include "net/loop.h"

struct weir_server;
struct weir_exchange;

#define WEIR_EXCHANGE_HIGH_BYTES (256u * 1024u)

enum weir_head_verdict {
    WEIR_HEAD_READ_BODY, /* go on: 100-continue is sent if it was asked for, handler.request follows */
    WEIR_HEAD_ANSWERED   /* the handler has answered in full; the body is not wanted: close after it */
};

enum weir_server_fault {
    WEIR_SERVER_BAD_HEAD, /* http_fault tells what */
    WEIR_SERVER_HEAD_TOO_LARGE,
    WEIR_SERVER_HEAD_SLOW,
    WEIR_SERVER_BAD_BODY,
    WEIR_SERVER_BODY_TOO_LARGE,
    WEIR_SERVER_BODY_SLOW,
    WEIR_SERVER_CONNECTIONS,        /* too many in all */
    WEIR_SERVER_ADDRESS_CONNECTIONS /* too many from this address */
};

enum weir_gone {
    WEIR_GONE_CLOSED, /* FIN, RST, or an error on the socket */
    WEIR_GONE_STALLED /* took no output for stall_ns */
};

struct weir_server_limits {
    size_t head_bytes;           /* default 64 KiB */
    size_t body_bytes;           /* default 32 MiB */
    uint32_t connections;        /* in all */
    uint32_t address_connections;
    uint64_t head_ns;            /* from first byte (or accept) to the whole head */
    uint64_t keep_alive_ns;      /* idle between requests */
    uint64_t body_min_bytes_per_s; /* after body_grace_ns */
    uint64_t body_grace_ns;
    uint64_t stall_ns;           /* client takes nothing */
};

struct weir_server_handler {
    void *ctx;
    enum weir_head_verdict (*head)(void *ctx, struct weir_exchange *x);
    void (*request)(void *ctx, struct weir_exchange *x); /* the whole body is there */
    /* The client is gone before the answer was complete; x is freed after this call. */
    void (*gone)(void *ctx, struct weir_exchange *x, enum weir_gone why);
    void (*drained)(void *ctx, struct weir_exchange *x); /* unsent output fell below half the mark */
    /* The answer's last byte went to the kernel; x is freed after this call. */
    void (*done)(void *ctx, struct weir_exchange *x);
    /* The server itself must refuse. The handler may answer with weir_exchange_respond. The head is valid only
     * from BAD_BODY on; before that (and for the connection caps) path() may still be known, or empty.
     * If head() was called for x before, gone/done will NOT follow: this is its end for the handler. */
    void (*fault)(void *ctx, struct weir_exchange *x, enum weir_server_fault fault,
                  enum weir_http_fault http_fault);
    /* The connection that weir_exchange_connection_user_set was called on is closed. */
    void (*closed)(void *ctx, void *connection_user);
};

struct weir_tls; /* net/stream.h */

/* Listens on "127.0.0.1:8765", "[::1]:0", ... NULL on failure, then error_text says what, where and what to do.
 * tls NULL: plain. The handler struct is copied. */
struct weir_server *weir_server_listen(struct weir_loop *loop, const char *address, struct weir_tls *tls,
                                       const struct weir_server_limits *limits,
                                       const struct weir_server_handler *handler, char *error_text,
                                       size_t error_bytes);
/* The port really bound. */
uint16_t weir_server_port(const struct weir_server *server);
uint32_t weir_server_connections(const struct weir_server *server);
/* Stops accepting, closes idle connections; answers that follow say "connection: close". */
void weir_server_drain(struct weir_server *server);
/* Closes everything at once; no handler calls follow. */
void weir_server_destroy(struct weir_server *server);

const struct weir_http_head *weir_exchange_head(const struct weir_exchange *x);
/* The whole body, contiguous; valid until the exchange ends. */
struct weir_slice weir_exchange_body(const struct weir_exchange *x);
/* Frees the body early, once nobody needs it (after the upstream has it all). */
void weir_exchange_body_drop(struct weir_exchange *x);
const char *weir_exchange_peer(const struct weir_exchange *x); /* "127.0.0.1:5555" */
struct weir_server *weir_exchange_server(const struct weir_exchange *x);
void *weir_exchange_user(const struct weir_exchange *x);
void weir_exchange_user_set(struct weir_exchange *x, void *user);
void *weir_exchange_connection_user(const struct weir_exchange *x);
void weir_exchange_connection_user_set(struct weir_exchange *x, void *user);

/* Answering. Start the head, append headers to *out (weir_http_out_header), end it, write, finish.
 * body_bytes: the exact length, or WEIR_BODY_CHUNKED (a 1.0 client gets an unframed body and a close).
 * "date" and "connection" are the server's. For HEAD requests, 204 and 304 written bytes are dropped. */
#define WEIR_BODY_CHUNKED UINT64_MAX
struct weir_http_out *weir_exchange_answer(struct weir_exchange *x, uint32_t status, struct weir_slice reason,
                                           uint64_t body_bytes);
void weir_exchange_answer_head_end(struct weir_exchange *x);
void weir_exchange_write(struct weir_exchange *x, const void *bytes, size_t count);
/* Trailers may be appended between: out is NULL unless the answer is chunked. */
void weir_exchange_finish(struct weir_exchange *x);
/* Ends uncleanly: what was written is sent, then the connection is closed without its proper end. */
void weir_exchange_abort(struct weir_exchange *x);
/* A whole answer at once; headers is a block of "name: value\r\n" lines or empty. */
void weir_exchange_respond(struct weir_exchange *x, uint32_t status, const char *content_type,
                           struct weir_slice headers, struct weir_slice body);
bool weir_exchange_full(const struct weir_exchange *x);
bool weir_exchange_answering(const struct weir_exchange *x); /* a head was started */
/* The connection closes after this answer. */
void weir_exchange_close_after(struct weir_exchange *x);

#endif
