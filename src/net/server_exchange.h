/* server_exchange: the inside of the server, shared by its files and nobody else.
 *
 *   server_listen.c    listening, accepting, the caps, the end of a turn
 *   server_input.c     from bytes to the handler's head, request, fault
 *   server_output.c    from the handler's answer to bytes
 *   server_end.c       timers, hang-up, the end of an exchange and of a connection
 *   server_exchange.c  what the handler may ask
 *   server_block.h     memory; server_address.h  connections per address
 *
 * A connection carries one exchange at a time, so both are one struct, made at accept.
 *
 *   HANDSHAKE -> IDLE -> HEAD -> WAIT -> BODY -> WAIT -> IDLE ...      (a turn of keep-alive)
 *        any, but by a FIN of ours only -> LINGER -> CLOSED            any -> CLOSED
 *
 *   HANDSHAKE  TLS is being agreed on; due: the head deadline, from accept
 *   IDLE       no byte of a request yet; due: keep-alive, or the head deadline after accept
 *   HEAD       some bytes of a head in `in`; due: the head deadline
 *   BODY       the head was judged, the body comes; due: the minimum rate
 *   WAIT       the handler is in charge: nothing is read; due: the stall timer while output is stuck
 *   LINGER     our side is shut; what comes is dropped, so that no RST destroys the answer; due: end
 *   CLOSED     gone; freed at the turn's end
 *
 * `answer` says how far the handler's answer is; `told` that head() was called and the handler has
 * not been told an end. Input is parsed first and told to the handler after, when all bytes are
 * stored; output is only ever appended by the handler's calls and sent at the turn's end. So no
 * handler call can close a connection under the code that called it.
 *
 * Fresh bytes are read into one buffer of the server and parsed there; a connection owns memory
 * only for what must stay: a head not yet whole, the head and body of its exchange, unsent output,
 * and pipelined bytes that came with a request (never more than READ_BYTES). */
#ifndef WEIR_NET_SERVER_EXCHANGE_H
#define WEIR_NET_SERVER_EXCHANGE_H

#include <netinet/in.h>

#include "net/http1_body.h"
#include "net/server.h"
#include "net/server_address.h"
#include "net/server_block.h"
#include "net/stream.h"

#define READ_BYTES (16u * 1024u) /* of a head at once, and beyond the end of a body */
#define SCRATCH_BYTES (256u * 1024u)
#define TURN_BYTES                                                                                 \
    (1024u * 1024u)   /* read from one connection in a turn; the others want theirs                \
                       */
#define STALL_LOOKS 4 /* at what a stuck client took, in stall_ns */
#define LINGER_NS (10 * WEIR_NS_PER_S)
#define LINGER_POLL_NS (5 * WEIR_NS_PER_MS)

enum exchange_phase {
    PHASE_HANDSHAKE,
    PHASE_IDLE,
    PHASE_HEAD,
    PHASE_BODY,
    PHASE_WAIT,
    PHASE_LINGER,
    PHASE_CLOSED
};

enum exchange_answer {
    ANSWER_NONE,
    ANSWER_HEAD,     /* the head is being written in the server's out */
    ANSWER_BODY,     /* the head is in `out` */
    ANSWER_TRAILERS, /* the last chunk is */
    ANSWER_FINISHED, /* all is */
    ANSWER_ABORTED   /* all that will be is */
};

enum exchange_body {
    BODY_DROPPED, /* none is allowed: HEAD, 204, 304 */
    BODY_LENGTH,
    BODY_CHUNKED,
    BODY_CLOSE /* ends with the connection: HTTP/1.0 */
};

/* Membership in one of the server's lists. */
struct exchange_link {
    struct weir_exchange *next, **link; /* link NULL: not in it */
};

struct weir_exchange {
    struct weir_stream stream; /* first: a stream is its exchange */
    struct weir_server *server;
    struct exchange_link all, dirty, again;
    struct weir_timer timer;
    uint64_t due_ns; /* the timer may fire before it, then it is set anew */
    void *user, *connection_user;

    struct weir_block in;          /* bytes not yet parsed */
    struct weir_block head_block;  /* the parsed head, then its bytes */
    struct weir_block body, out;   /* decoded; unsent */
    struct weir_http_head *head;   /* in head_block, or NULL */
    struct weir_http_body decoder; /* of the request's body */
    size_t in_scanned;             /* by the head parser, of `in` */
    uint64_t answer_left_bytes;    /* BODY_LENGTH: to be written */
    uint64_t linger_left_bytes, linger_end_ns;
    uint64_t stall_since_ns;
    int stall_unsent_bytes; /* in the kernel then */

    uint64_t address_key;
    struct in6_addr address; /* IPv4 mapped */
    uint16_t port;

    uint8_t phase, answer, answer_body; /* the enums above */
    uint8_t refuse;                     /* fault to raise once the head is there, or NO_REFUSAL */
    bool readable;    /* there may be bytes to read, which no event will tell of */
    bool body_done;   /* the request's body is all there */
    bool told;        /* head() was called and no end was told */
    bool over;        /* ended for the handler: its calls do nothing */
    bool close_after; /* no other exchange on this connection */
    bool dated;
    bool was_full;
    bool answer_unsent;   /* ABORTED before its head was there */
    bool reset_when_sent; /* LINGER: a RST when the kernel has sent all */
    bool no_memory;       /* an append failed: the flush gives up */
};
#define NO_REFUSAL 0xff

struct weir_server {
    struct weir_loop *loop;
    struct weir_io listen_io; /* fd -1 when draining */
    struct weir_tls *tls;
    struct weir_server_limits limits;
    struct weir_server_handler handler;
    uint32_t connections, spare_connections, spare_max; /* spare: over a cap, to be refused */
    uint16_t port;
    bool draining;

    struct weir_exchange *all, *dirty, *again; /* lists */
    struct weir_exchange *closed;              /* freed at the turn's end, linked by all.next */
    struct weir_exchange *idle_structs;        /* for the next accept, linked by all.next */
    uint32_t idle_struct_count;
    struct weir_block_pool blocks;
    struct weir_address_table addresses;

    struct weir_hook turn_end;
    struct weir_timer again_timer, accept_timer;
    uint64_t flushed_turn; /* the turn whose end was run last */

    int reserve_fd; /* -1: none */
    uint64_t log_next_ns;

    struct weir_http_out out; /* of the head being written */
    struct weir_exchange *out_of;
    struct weir_http_out void_out; /* for an exchange that is over: takes nothing */

    int64_t date_s;
    uint64_t date_checked_ns;
    char date[40]; /* "date: ...\r\n" */
    size_t date_bytes;

    struct weir_server_view counts;
    char peer_text[64];
    struct weir_http_head parsed;
    char *scratch; /* SCRATCH_BYTES, then the out's WEIR_EXCHANGE_HEAD_BYTES */
};

/* --- server_listen.c --- */
void weir_exchange_free_later(struct weir_exchange *x);
void weir_server_log(struct weir_server *server, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* --- server_input.c --- */
void weir_exchange_ready(struct weir_stream *stream, uint32_t events);
/* Goes on with what was left unread. */
void weir_exchange_again(struct weir_exchange *x);
/* Stops taking a body that is not wanted any more. */
void weir_exchange_input_stop(struct weir_exchange *x);
/* The server itself refuses; the exchange ends for the handler. */
void weir_exchange_fault(struct weir_exchange *x, enum weir_server_fault fault,
                         enum weir_http_fault http_fault);

/* --- server_end.c --- */
void weir_exchange_due(struct weir_timer *timer);
void weir_exchange_due_set(struct weir_exchange *x, uint64_t due_ns);
void weir_exchange_due_in(struct weir_exchange *x, uint64_t wait_ns);
/* Has weir_exchange_again called in this turn, or in the next if this one's timers have fired. */
void weir_exchange_again_soon(struct weir_exchange *x);
/* The kernel takes no more: the client has stall_ns to take something. */
void weir_exchange_stall_begin(struct weir_exchange *x);
/* The client is gone: the handler is told, if it has to be, and the connection closed. */
void weir_exchange_lost(struct weir_exchange *x, enum weir_gone why);
/* The answer is with the kernel: the next exchange, or the end of the connection. */
void weir_exchange_next(struct weir_exchange *x);
/* Closes without loss of what the kernel has to send. */
void weir_exchange_end(struct weir_exchange *x);
void weir_exchange_close(struct weir_exchange *x, bool reset);

/* --- server_output.c --- */
void weir_exchange_flush(struct weir_exchange *x);
void weir_exchange_dirty(struct weir_exchange *x);
/* Bytes of the server itself: 100 Continue. */
void weir_exchange_append(struct weir_exchange *x, const void *bytes, size_t count);

static inline void exchange_link_add(struct weir_exchange **list, struct weir_exchange *x,
                                     struct exchange_link *link, size_t offset)
{
    link->next = *list;
    if (link->next)
        ((struct exchange_link *)(void *)((char *)link->next + offset))->link = &link->next;
    link->link = list;
    *list = x;
}

static inline void exchange_link_remove(struct exchange_link *link, size_t offset)
{
    if (!link->link)
        return;
    *link->link = link->next;
    if (link->next)
        ((struct exchange_link *)(void *)((char *)link->next + offset))->link = link->link;
    link->link = NULL;
}
#define EXCHANGE_ADD(list, x, member)                                                              \
    exchange_link_add(&(list), (x), &(x)->member, offsetof(struct weir_exchange, member))
#define EXCHANGE_REMOVE(x, member)                                                                 \
    exchange_link_remove(&(x)->member, offsetof(struct weir_exchange, member))

#endif
