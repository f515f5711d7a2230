/* upstream: a scripted upstream and a recording caller, for tests of the client.
 *
 * Everything runs in one thread: the test turns the loop until the client has done its part, and
 * plays the upstream with plain blocking calls in between. Loopback only, ports chosen by the
 * kernel, no sleeping: time passes by weir_loop_time_set. */
#ifndef WEIR_TESTS_UPSTREAM_H
#define WEIR_TESTS_UPSTREAM_H

#include "support/check.h"

#include "net/client.h"

struct bed {
    struct weir_loop *loop;
    struct weir_client *client;
    struct weir_target *target;
    int listener;
    uint16_t port;
    uint64_t now_ns;
};

/* One call and what came of it. */
struct caller {
    struct weir_call *call;
    uint32_t sent_count, head_count, done_count;
    int status;
    char header[256]; /* value of x-test */
    char *body;
    size_t body_bytes, body_room;
    uint32_t body_calls;
    char trailers[256];
    enum weir_call_failure failure;
    bool sent;
    char detail[300];
    /* What to do inside the callbacks. */
    bool cancel_in_sent, cancel_in_head, cancel_in_body, pause_in_body, start_in_done;
    struct bed *bed;
    struct caller *next; /* started in done */
};

/* rules: host, port are filled in when host is NULL / port is 0. */
void bed_open(struct bed *bed, const struct weir_target_rules *rules);
/* Fails the test when a descriptor, a call or memory is left behind (the latter by ASan). */
void bed_close(struct bed *bed);
void bed_turn(struct bed *bed);
/* Lets time pass, then turns. */
void bed_pass(struct bed *bed, uint64_t ns);

#define BED_UNTIL(bed, condition)                                                                  \
    do {                                                                                           \
        int bed_turns = 0;                                                                         \
        while (!(condition)) {                                                                     \
            if (++bed_turns > 5000)                                                                \
                fail_msg("%s:%d: never so: %s", __FILE__, __LINE__, #condition);                   \
            bed_wait(bed);                                                                         \
        }                                                                                          \
    } while (0)
/* A turn that waits for an event, at most 5 ms. */
void bed_wait(struct bed *bed);

/* The client's own descriptor of its only connection. */
int bed_client_end(struct bed *bed);

extern const struct weir_call_handler caller_handler;
extern const struct weir_call_timeouts bed_timeouts; /* 5 s, 10 s, 20 s, 30 s, never */
/* A request of head and body (NULL: none). */
void caller_start(struct caller *caller, struct bed *bed, const char *head, const char *body);
void caller_start_request(struct caller *caller, struct bed *bed,
                          const struct weir_call_request *request);
void caller_free(struct caller *caller);

#define GET "GET / HTTP/1.1\r\nhost: a\r\n\r\n"

/* Blocking, with a limit of five seconds. */
int up_listen(uint16_t *port, int backlog);
int up_accept(struct bed *bed);
void up_read(int fd, const char *want); /* exactly these bytes */
bool up_is_closed(int fd);              /* the peer closed: EOF or reset */
void up_write(int fd, const char *text);
void up_write_bytes(int fd, const void *bytes, size_t count);
void up_reset(int fd);

#endif
