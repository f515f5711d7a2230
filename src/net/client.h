/* client: calls to upstreams over pooled connections, plain or TLS.
 *
 * A target is one address that serves (scheme, host, port): its names resolved by TTL while live
 * sockets are kept, IPv6 and IPv4 raced (RFC 8305), idle connections in a LIFO pool that drops a
 * socket the moment the peer hangs up and after pool_idle_ns.
 *
 *   start -> (pooled connection | resolve -> connect -> TLS) -> request written -> head -> body
 *         -> end
 *
 * Separate timers: connect (names and TLS included), request-write, first byte, idle between bytes,
 * total. A pooled connection that dies with no request byte handed to the kernel is replaced once,
 * silently, and so is one that dies before the first byte of an answer when the request is
 * repeatable; everything else is the caller's to judge: done() says whether a byte of the request
 * was sent.
 *
 * An answer may come before the request is written in full. If it is an error (status 300 or more)
 * the rest of the request is not written. Either way the answer is passed on, and the connection is
 * not kept.
 *
 * Calls back only from the loop, never inside a function of this header. done() is called exactly
 * once per call and is the last callback, unless the call was cancelled: after weir_call_cancel
 * nothing is called and the call is gone. Any function may be called inside a callback.
 *
 * In steady state a call costs one sendmsg and one recv; nothing is allocated.
 * Thread: loop. Source: RFC 9110, 9112, 8305, 8446. */
#ifndef WEIR_NET_CLIENT_H
#define WEIR_NET_CLIENT_H

#include "net/http1.h"
#include "net/loop.h"

struct weir_client;
struct weir_target;
struct weir_call;

/* Each WEIR_NEVER_NS switches a timer off. */
struct weir_call_timeouts {
    uint64_t connect_ns;        /* until the connection can take the request */
    uint64_t write_ns;          /* the upstream takes nothing of the request for so long */
    uint64_t first_byte_ns;     /* request written -> first byte of the final answer */
    uint64_t idle_ns;           /* between bytes of the answer; stands still while paused */
    uint64_t total_deadline_ns; /* absolute, by the loop's clock */
};

enum weir_call_failure {
    WEIR_CALL_OK, /* the answer is complete */
    WEIR_CALL_E_RESOLVE,
    WEIR_CALL_E_CONNECT,
    WEIR_CALL_E_TLS,
    WEIR_CALL_E_CONNECT_TIMEOUT,
    WEIR_CALL_E_WRITE, /* reset while the request was being written, or before the answer began */
    WEIR_CALL_E_WRITE_TIMEOUT,
    WEIR_CALL_E_FIRST_BYTE_TIMEOUT,
    WEIR_CALL_E_IDLE_TIMEOUT,
    WEIR_CALL_E_TOTAL_TIMEOUT,
    WEIR_CALL_E_ANSWER,     /* not HTTP we accept; the fault's text in detail */
    WEIR_CALL_E_CUT,        /* the answer began and did not end as its framing says */
    WEIR_CALL_E_DESCRIPTORS /* out of file descriptors, even without idle connections */
};

struct weir_call_result {
    enum weir_call_failure failure;
    bool sent;          /* a request byte may have reached the peer */
    const char *detail; /* for the log: "connect to 10.0.0.1:443: Connection refused"; "" when OK */
};

struct weir_call_handler {
    /* The first byte of the request was handed to the kernel (once). */
    void (*sent)(void *ctx);
    /* The final head (1xx are skipped). Valid in this call only. */
    void (*head)(void *ctx, const struct weir_http_head *head);
    /* Body bytes without transfer coding, valid in this call only; one call per read. */
    void (*body)(void *ctx, struct weir_slice bytes);
    /* A trailer field that came with a chunked body; after the body, before done. May be NULL. */
    void (*trailer)(void *ctx, struct weir_slice name, struct weir_slice value);
    void (*done)(void *ctx, const struct weir_call_result *result);
};

/* What is sent: the serialised head (its final blank line included), behind it the pieces in order.
 * The struct is copied; the memory behind the slices stays the caller's, unchanged until done or
 * cancel. */
#define WEIR_CALL_PIECES_MAX 8
struct weir_call_request {
    struct weir_slice head;
    struct weir_slice pieces[WEIR_CALL_PIECES_MAX];
    uint32_t piece_count;
    bool is_head_method; /* HEAD: the answer has no body */
    bool is_repeatable;  /* it may reach the peer twice: a safe method, or an idempotency key */
    struct weir_call_timeouts timeouts;
};

struct weir_target_rules {
    const char *host; /* a name or a literal, IPv6 without brackets */
    uint16_t port;
    bool tls;
    const char *ca_file;   /* NULL: the system's store, used from the first connection on */
    uint64_t pool_idle_ns; /* default 10 s */
    uint32_t pool_max;     /* idle connections kept */
};

/* NULL: out of memory. */
struct weir_client *weir_client_create(struct weir_loop *loop);
void weir_client_destroy(struct weir_client *client); /* after its targets */
/* Name servers instead of the system's, "127.0.0.1:5353": for tests. Before the first call. */
void weir_client_name_servers_set(struct weir_client *client, const char *servers);

/* Strings are copied. NULL with error_text on a bad CA file or out of memory. */
struct weir_target *weir_target_create(struct weir_client *client,
                                       const struct weir_target_rules *rules, char *error_text,
                                       size_t error_bytes);
void weir_target_destroy(struct weir_target *target); /* no call may be alive */

/* NULL only when memory is out. Every other failure comes by done(). The call takes its connection
 * at the end of this turn, or of the next when it is started outside of one. handler must outlive
 * the call. */
struct weir_call *weir_call_start(struct weir_target *target,
                                  const struct weir_call_request *request,
                                  const struct weir_call_handler *handler, void *ctx);
/* Closes the connection (an answer half read cannot be pooled); no callback follows. true: a
 * request byte may have reached the peer, even if sent() was not called yet. */
bool weir_call_cancel(struct weir_call *call);
/* Back-pressure: stops reading the answer, and starts again. What has been read already (at most
 * 256 KiB) is still delivered. Inside body(), done() may thus follow at once although paused. */
void weir_call_pause(struct weir_call *call);
void weir_call_resume(struct weir_call *call);

struct weir_target_view {
    uint32_t connecting, busy; /* calls on their way to a connection; calls on one */
    uint32_t idle;             /* pooled connections */
    uint64_t connects, reuses, tls_resumed;
    uint64_t failures; /* calls that ended in anything but OK; cancelled ones not counted */
};
void weir_target_view(const struct weir_target *target, struct weir_target_view *view);

/* A short clause for logs and metrics, "first_byte_timeout". Static. */
const char *weir_call_failure_label(enum weir_call_failure failure);

#endif
