/* server_rig: a server with a handler that writes down what it is told, and raw sockets against it,
 * all in one thread. The loop's clock stands still but for rig_wait, so no test sleeps.
 *
 * The diary has one word per callback: "head", "request:5" (body bytes), "done", "gone:closed",
 * "gone:stalled", "fault:BODY_SLOW", "drained". What the handler does is a function the test sets;
 * without one it reads the body and answers 200 with the same body. */
#ifndef WEIR_TESTS_NET_SERVER_RIG_H
#define WEIR_TESTS_NET_SERVER_RIG_H

#include "support/check.h"

#include "net/server.h"

struct rig {
    struct weir_loop *loop;
    struct weir_server *server;
    struct weir_tls *tls;
    struct weir_server_limits limits;
    uint64_t now_ns;
    char diary[4096];
    size_t diary_bytes;
    bool diary_off;
    uint64_t heads, requests, ends; /* ends: done, gone, fault of a told exchange, abort */
    struct weir_exchange *x;        /* the last one told of; NULL once it ended */
    char log[256];
    uint32_t closed;
    void *test; /* the test's own */

    enum weir_head_verdict (*head)(struct rig *rig, struct weir_exchange *x);
    void (*request)(struct rig *rig, struct weir_exchange *x);
    void (*fault)(struct rig *rig, struct weir_exchange *x, enum weir_server_fault fault);
    void (*drained)(struct rig *rig, struct weir_exchange *x);
    void (*done)(struct rig *rig, struct weir_exchange *x);
    void (*gone)(struct rig *rig, struct weir_exchange *x);
};

/* Generous limits; change rig->limits, then rig_listen. */
struct rig *rig_create(void);
void rig_listen(struct rig *rig);
void rig_destroy(struct rig *rig);
/* Turns until nothing happens any more. */
void rig_settle(struct rig *rig);
/* The clock goes on by so much, in one step, and things settle. */
void rig_wait(struct rig *rig, uint64_t ns);
/* The diary since the last call. */
const char *rig_diary(struct rig *rig);
void rig_echo(struct rig *rig, struct weir_exchange *x);
/* The handler's own abort. */
void rig_abort(struct rig *rig, struct weir_exchange *x);

/* One client socket. */
struct peer {
    struct rig *rig;
    int fd;
    char *got; /* NUL-terminated */
    size_t got_bytes, got_room;
    bool eof, reset;
};

void peer_connect(struct peer *peer, struct rig *rig);
/* Sends all, turning the loop when the socket is full; false: the server closed. */
bool peer_send(struct peer *peer, const char *bytes, size_t count);
bool peer_say(struct peer *peer, const char *text); /* and things settle */
/* Takes what has come; the loop is not turned. */
void peer_take(struct peer *peer);
/* Settles and takes until neither goes on; returns all that came, without "date" lines. */
const char *peer_hear(struct peer *peer);
/* Forgets what came. */
void peer_forget(struct peer *peer);
void peer_close(struct peer *peer);
void peer_reset(struct peer *peer);

#define CHECK_DIARY(rig, want) CHECK_STR(rig_diary(rig), want)
#define CHECK_HEARS(peer, want) CHECK_STR(peer_hear(peer), want)

#endif
