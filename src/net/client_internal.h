/* client_internal: the structs that the parts of the client share. Only client*.c include this.
 *
 *   client.c         clients, targets, the queue of started calls
 *   client_pool.c    connection records and the idle pool
 *   client_dial.c    from a name to a connection that can take a request
 *   client_call.c    writing the request, timers, the end of a call
 *   client_answer.c  reading the answer
 *
 * A call is in one state, and moves only forward, but for a replaced connection (WRITING or WAITING
 * -> DIALING, once):
 *
 *   QUEUED   started; on client->queue until the end of the turn
 *   DIALING  has a dial: waits for the name, races connections, or shakes hands
 *   WRITING  has a connection; bytes of the request are still to be written
 *   WAITING  the request is written (or no longer wanted); no byte of the final answer yet
 *   READING  the answer has begun
 *   GONE     ended or cancelled: on client->gone_calls, reused after the stack is unwound
 *
 * Whoever calls back (sent, head, body, trailer, done) must afterwards assume that the call is
 * GONE: records of gone calls and connections stay readable until the next run of the client's
 * hook. */
#ifndef WEIR_NET_CLIENT_INTERNAL_H
#define WEIR_NET_CLIENT_INTERNAL_H

#include "net/client.h"
#include "net/http1_body.h"
#include "net/resolver.h"
#include "net/stream.h"

#define READ_BYTES (256u * 1024u)             /* the one read buffer of a client */
#define ANSWER_HEAD_BYTES (128u * 1024u)      /* longest head of an answer */
#define READS_PER_TURN 4                      /* of one connection, then the others have a turn */
#define ATTEMPT_GAP_NS (250 * WEIR_NS_PER_MS) /* RFC 8305, Connection Attempt Delay */

enum call_state { CALL_QUEUED, CALL_DIALING, CALL_WRITING, CALL_WAITING, CALL_READING, CALL_GONE };

enum connection_state {
    CONNECTION_DIALING, /* an attempt of a dial, not yet open or not yet secured */
    CONNECTION_BUSY,    /* carries a call */
    CONNECTION_IDLE,    /* in its target's pool */
    CONNECTION_GONE,    /* closed */
};

struct connection {
    struct weir_stream stream;
    struct weir_client *client;
    struct weir_target *target;
    struct weir_call *call; /* DIALING, BUSY */
    struct connection *next,
        *previous; /* pool or attempts; next alone in the lists of gone and free */
    enum connection_state state;
    bool reused;
    uint64_t idle_until_ns;
    struct weir_address address;
    struct weir_http_body body;
    char *held; /* a head that came in several reads; later the trailers */
    size_t held_bytes, held_room;
    size_t scanned; /* of the head, by the parser */
};

/* What a call needs until it has a connection. */
struct dial {
    struct dial *next,
        **link; /* target->name_waiters, then link is set; next alone in the free list */
    struct weir_call *call;
    struct weir_address addresses[2 * 8];
    uint32_t address_count, address_next;
    uint64_t attempt_ns;         /* when the last one began */
    struct connection *attempts; /* newest first */
    struct connection *winner;   /* connected; shakes hands */
    struct weir_timer gap_timer;
    enum weir_call_failure failure; /* of the last attempt that failed, for the case that all do */
    char detail[320];
};

struct weir_call {
    struct weir_target *target;
    const struct weir_call_handler *handler;
    void *ctx;
    enum call_state state;
    bool sent, sent_told; /* see weir_call_result */
    bool head_given;
    bool write_stopped; /* an error was answered before the request was written */
    int write_fault; /* errno: the request could not be written; an answer may have come before */
    bool keep;       /* the answer's framing lets the connection live on */
    bool paused, resuming; /* resuming: on client->resuming */
    bool replaced;
    struct weir_call *next,
        **link; /* client->queue, else link is NULL; next alone in other lists */
    struct weir_call *resume_next;
    uint64_t resume_turn;
    struct connection *connection;
    struct dial *dial;
    uint64_t request_bytes, written_bytes, out_bytes_before;
    uint64_t phase_due_ns;   /* of the state's own timer */
    struct weir_timer timer; /* the earlier of it and the total deadline */
    struct weir_call_request request;
};

struct client_tls {
    struct weir_tls *tls;
    char *ca_file; /* NULL: the system's store */
    struct client_tls *next;
};

struct weir_client {
    struct weir_loop *loop;
    struct weir_resolver *resolver;
    struct weir_hook hook;
    struct weir_timer kick;               /* fires next turn to go on with client->resuming */
    struct weir_call *queue, **queue_end; /* started, oldest first */
    uint32_t queued;
    struct weir_call *resuming, *resuming_now; /* next turn's, and those of the kick that runs */
    struct weir_call *gone_calls, *free_calls;
    struct connection *gone_connections, *free_connections;
    struct dial *free_dials;
    struct weir_target *targets;
    struct client_tls *tls;
    struct weir_http_head head; /* of the answer being read */
    char detail[512];
    char buffer[READ_BYTES];
};

struct weir_target {
    struct weir_client *client;
    struct weir_target *next;
    struct weir_name *name;
    char *host;
    char *ca_file;
    uint16_t port;
    bool tls;
    struct weir_tls_peer *peer;
    uint64_t pool_idle_ns;
    uint32_t pool_max;
    struct connection *idle_newest, *idle_oldest;
    struct weir_timer idle_timer;  /* due no later than the oldest idle connection's end */
    struct dial *name_waiters;     /* may get more addresses; newest first */
    struct dial *name_waiters_now; /* those that a change is still to be told */
    uint32_t calls;                /* alive */
    struct weir_target_view view;
};

/* client.c */
struct weir_tls *client_tls_get(struct weir_client *client, const char *ca_file, char *error_text,
                                size_t error_bytes);

void call_unqueue(struct weir_call *call);
/* Reads on without an event, in the turn with this number (weir_loop_turns) or later. */
void call_resume_later(struct weir_call *call, uint64_t from_turn);
void call_resume_remove(struct weir_call *call);

/* client_pool.c */
struct connection *connection_create(struct weir_target *target); /* NULL: out of memory */
/* Closes and retires; it must be in no list but the lists of its state, which it leaves. */
void connection_close(struct connection *c);
void connection_ready(struct weir_stream *stream, uint32_t events);
struct connection *pool_take(struct weir_target *target);
void pool_give(struct connection *c);
void pool_clear(struct weir_target *target);
/* Closes every idle connection of every target; how many. */
uint32_t pool_clear_all(struct weir_client *client);
void pool_idle_fire(struct weir_timer *timer);

/* client_dial.c */
void dial_start(struct weir_call *call);
void dial_abandon(struct weir_call *call); /* closes its attempts */
void dial_ready(struct connection *c, uint32_t events);
void dial_name_changed(void *target);
/* What it is doing, for the text of a timeout. */
const char *dial_phase(const struct weir_call *call, char *text, size_t text_bytes);

/* client_call.c */
void call_begin(struct weir_call *call);
/* The connection can take the request. */
void call_connected(struct weir_call *call, struct connection *c);
void call_ready(struct connection *c, uint32_t events);
/* Sets the state and starts its timer. */
void call_enter(struct weir_call *call, enum call_state state);
void call_phase_restart(struct weir_call *call);
/* The end. keep: the connection goes to the pool. detail is copied where needed; "" when OK. */
void call_end(struct weir_call *call, enum weir_call_failure failure, const char *detail,
              bool keep);
/* The connection broke: says what that means in this state, or replaces it. */
void call_broken(struct weir_call *call, const char *why);
uint64_t call_left_bytes(const struct weir_call *call);

/* client_answer.c */
void answer_begin(struct connection *c); /* before the first byte of an answer */
void answer_read(struct weir_call *call);

#endif
