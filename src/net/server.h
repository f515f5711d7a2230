/* server: the listening side. Connections, heads, bodies, and answers written without buffering
 * more than a bound. It knows HTTP, not what it is used for: the handler decides.
 *
 *   accept -> (TLS) -> HEAD -> handler.head -> BODY -> handler.request -> answer
 *                       ^------------------------ keep-alive ---------------'
 *
 * One exchange at a time per connection: a pipelined next request waits until the answer before it
 * is written, so answers keep their order. While an exchange waits for its answer the socket is
 * watched: a client that hangs up (also half-closes) is reported by handler.gone in the same turn.
 * What it may have sent before it hung up is not looked at.
 *
 * Output: write calls append to the connection's buffer; one sendmsg per connection and turn sends
 * it. When more than WEIR_EXCHANGE_HIGH_BYTES wait unsent, weir_exchange_full answers true: stop
 * producing until handler.drained. A client that takes nothing for stall_ns is gone
 * (WEIR_GONE_STALLED).
 *
 * Bounds: head bytes, body bytes, connections in all and per address, a deadline for the whole
 * head, a minimum rate for the body. At each the handler is told (fault) and may write the answer
 * in its own dialect; else a bare status is sent. After a fault the connection closes, lingering,
 * so that the answer arrives. Out of descriptors: a reserve descriptor is used to accept and
 * refuse, and accepting goes on when one is free.
 *
 * An exchange ends for the handler exactly once: by gone, done or fault, or by the handler's own
 * weir_exchange_abort. From then on (after the callback, or after abort) it must not be touched.
 * The handler may answer, finish or abort inside any callback, or later. It is called from the
 * loop only, never inside one of the calls below; what it does in one call is sent at the turn's
 * end.
 *
 * Thread: loop. Source: RFC 9110, RFC 9112. */
#ifndef WEIR_NET_SERVER_H
#define WEIR_NET_SERVER_H

#include "net/http1.h"
#include "net/http1_write.h"
#include "net/loop.h"

struct weir_server;
struct weir_exchange;

#define WEIR_EXCHANGE_HIGH_BYTES (256u * 1024u)
/* The head of an answer is at most so long, its status line and the server's own headers included.
 */
#define WEIR_EXCHANGE_HEAD_BYTES (160u * 1024u)

enum weir_head_verdict {
    WEIR_HEAD_READ_BODY, /* go on: 100-continue is sent if it was asked for, request follows */
    WEIR_HEAD_ANSWERED /* answered, or will be: the body is not wanted and request will not follow.
                          The connection closes after the answer, but if the body is all there */
};

enum weir_server_fault {
    WEIR_SERVER_BAD_HEAD, /* http_fault tells what */
    WEIR_SERVER_HEAD_TOO_LARGE,
    WEIR_SERVER_HEAD_SLOW,
    WEIR_SERVER_BAD_BODY,       /* http_fault tells what */
    WEIR_SERVER_BODY_TOO_LARGE, /* by Content-Length: told right after head(), before any
                                   100-continue */
    WEIR_SERVER_BODY_SLOW,
    WEIR_SERVER_CONNECTIONS,         /* too many in all */
    WEIR_SERVER_ADDRESS_CONNECTIONS, /* too many from this address */
    WEIR_SERVER_FAULT_COUNT
};
const char *weir_server_fault_label(enum weir_server_fault fault); /* static, "BODY_SLOW" */

enum weir_gone {
    WEIR_GONE_CLOSED, /* FIN, RST, or an error on the socket */
    WEIR_GONE_STALLED /* took no output for stall_ns */
};

struct weir_server_limits {
    size_t head_bytes;            /* default 64 KiB */
    size_t body_bytes;            /* default 32 MiB, as decoded */
    uint32_t connections;         /* in all; at least 1 */
    uint32_t address_connections; /* from one IPv4 address or IPv6 /64; 0: no limit of its own */
    uint64_t head_ns;             /* from first byte to the whole head; from accept to first byte */
    uint64_t keep_alive_ns;       /* idle between requests */
    uint64_t body_min_bytes_per_s; /* a body that falls body_grace_ns behind this is slow; 0: a body
                                      that brings nothing for body_grace_ns is */
    uint64_t body_grace_ns;
    uint64_t stall_ns; /* client takes nothing; noticed at most a quarter of it late */
};

struct weir_server_handler {
    void *ctx;
    enum weir_head_verdict (*head)(void *ctx, struct weir_exchange *x);
    void (*request)(void *ctx, struct weir_exchange *x); /* the whole body is there */
    /* The client is gone before the answer was complete. */
    void (*gone)(void *ctx, struct weir_exchange *x, enum weir_gone why);
    /* Unsent output fell below half the mark, after weir_exchange_full was true. May be NULL. */
    void (*drained)(void *ctx, struct weir_exchange *x);
    /* The answer's last byte went to the kernel. */
    void (*done)(void *ctx, struct weir_exchange *x);
    /* The server itself must refuse. The handler may answer, in full, inside this call. What is
     * known of the request: weir_exchange_head (perhaps NULL), weir_exchange_path. head() was
     * called before only for BAD_BODY, BODY_TOO_LARGE and BODY_SLOW. May be NULL. */
    void (*fault)(void *ctx, struct weir_exchange *x, enum weir_server_fault fault,
                  enum weir_http_fault http_fault);
    /* The connection on which weir_exchange_connection_user_set was called is closed. May be NULL.
     */
    void (*closed)(void *ctx, void *connection_user);
    /* Something an operator must know: out of descriptors, the connection cap. One line of text, at
     * most one a second. May be NULL. */
    void (*log)(void *ctx, const char *text);
};

struct weir_tls; /* net/stream.h */

/* Listens on "127.0.0.1:8765", "[::1]:0", "localhost:80" ... NULL on failure, then error_text says
 * what, where and what to do. tls NULL: plain; else it must outlive the server. limits and handler
 * are copied. */
struct weir_server *weir_server_listen(struct weir_loop *loop, const char *address,
                                       struct weir_tls *tls,
                                       const struct weir_server_limits *limits,
                                       const struct weir_server_handler *handler, char *error_text,
                                       size_t error_bytes);
/* The port really bound. */
uint16_t weir_server_port(const struct weir_server *server);
/* Open now, those that only linger included. */
uint32_t weir_server_connections(const struct weir_server *server);
/* Stops listening and closes idle connections; answers that follow say "connection: close". */
void weir_server_drain(struct weir_server *server);
/* Closes everything at once; no handler calls follow. Not inside a callback or a turn-end hook. */
void weir_server_destroy(struct weir_server *server);

/* Counted since the start. */
struct weir_server_view {
    uint32_t connections;       /* open now */
    uint64_t accepted;          /* connections */
    uint64_t dropped;           /* closed unheard: even the room to refuse was used up */
    uint64_t descriptors_short; /* accepts that found no descriptor */
    uint64_t requests;          /* handler.head calls */
    uint64_t faults[WEIR_SERVER_FAULT_COUNT];
    uint64_t gone_closed, gone_stalled;
    uint64_t received_bytes, sent_bytes; /* as on the wire, TLS not counted */
};
void weir_server_view(const struct weir_server *server, struct weir_server_view *view);

/* NULL before the head is known. Valid until the exchange ends. Its header array is cut to
 * header_count: do not copy the struct. */
const struct weir_http_head *weir_exchange_head(const struct weir_exchange *x);
/* The path with its query; of a head that was refused, the target as far as it can be told. Empty
 * if not known. */
struct weir_slice weir_exchange_path(const struct weir_exchange *x);
/* The whole body, contiguous, from request() on; valid until the exchange ends or body_drop. */
struct weir_slice weir_exchange_body(const struct weir_exchange *x);
/* Frees the body early, once nobody needs it (after the upstream has it all). */
void weir_exchange_body_drop(struct weir_exchange *x);
/* "127.0.0.1:5555", "[::1]:5555". Valid until the next call for any exchange. */
const char *weir_exchange_peer(const struct weir_exchange *x);
struct weir_server *weir_exchange_server(const struct weir_exchange *x);
/* NULL at the start of each exchange. */
void *weir_exchange_user(const struct weir_exchange *x);
void weir_exchange_user_set(struct weir_exchange *x, void *user);
/* Stays over all exchanges of a connection. */
void *weir_exchange_connection_user(const struct weir_exchange *x);
void weir_exchange_connection_user_set(struct weir_exchange *x, void *user);

/* Starts an answer: append headers to the out that is returned (weir_http_write_header and the
 * like), end the head, write, finish.
 *
 * status      200 .. 999
 * reason      {NULL, 0}: the usual one
 * body_bytes  the exact length, or WEIR_BODY_CHUNKED (a 1.0 client gets an unframed body and a
 *             close). For HEAD requests and 304 what is written is dropped, so it may be what a GET
 *             would have; 204 has no length.
 *
 * "connection", "content-length" and "transfer-encoding" are the server's to write; "date" also,
 * unless weir_exchange_answer_dated says that the headers bring their own. The out is shared by
 * all exchanges: end the head before another answer is started. */
#define WEIR_BODY_CHUNKED UINT64_MAX
struct weir_http_out *weir_exchange_answer(struct weir_exchange *x, uint32_t status,
                                           struct weir_slice reason, uint64_t body_bytes);
void weir_exchange_answer_dated(struct weir_exchange *x);
/* false: the head was too long or a header malformed. Then nothing was written, and the exchange
 * is as before weir_exchange_answer: answer something else. */
WEIR_MUST_USE bool weir_exchange_answer_head_end(struct weir_exchange *x);
/* Appends to the body; the bytes are copied. Never more than body_bytes in all. */
void weir_exchange_write(struct weir_exchange *x, const void *bytes, size_t count);
/* After the last write: a trailer field, dropped unless the answer is chunked or if malformed. */
void weir_exchange_trailer(struct weir_exchange *x, struct weir_slice name,
                           struct weir_slice value);
/* The answer is complete (body_bytes were written); done or gone follows, never inside this call.
 */
void weir_exchange_finish(struct weir_exchange *x);
/* Ends uncleanly, in any state: what was written is sent, then the connection is closed without the
 * body's proper end (by RST where a FIN would look like one). No callback follows for x. */
void weir_exchange_abort(struct weir_exchange *x);
/* A whole answer at once; headers is a block of well formed "name: value\r\n" lines or empty,
 * content_type may be NULL. */
void weir_exchange_respond(struct weir_exchange *x, uint32_t status, const char *content_type,
                           struct weir_slice headers, struct weir_slice body);
bool weir_exchange_full(const struct weir_exchange *x);
bool weir_exchange_answering(const struct weir_exchange *x); /* a head was started */
/* The connection closes after this answer. Before the head's end. */
void weir_exchange_close_after(struct weir_exchange *x);

#endif
