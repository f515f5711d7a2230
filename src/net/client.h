/* client: calls to upstreams over pooled connections, plain or TLS.
 *
 * A target is one address that serves (scheme, host, port): its names resolved by TTL while live sockets are
 * kept, IPv6 and IPv4 raced (RFC 8305), idle connections in a LIFO pool that drops a socket the moment the
 * peer hangs up and after pool_idle_ns.
 *
 *   start -> (pooled connection | connect -> TLS) -> request written -> head -> body -> end
 *
 * Separate timers: connect, request-write, first byte, idle between bytes, total. A pooled connection that
 * dies before any answer byte, with no request byte handed to the kernel, is replaced once, silently;
 * everything else is the caller's to judge: done() says whether a byte of the request was sent.
 *
 * Calls back only from the loop, never inside weir_call_start or weir_call_cancel. done() is called exactly
 * once per call, unless the call was cancelled: after weir_call_cancel nothing is called and the call is gone.
 *
 * Thread: loop. Source: RFC 9110, 9112, 8305, 8446. */
#ifndef WEIR_NET_CLIENT_H
#define WEIR_NET_CLIENT_H

#include "net/http1.h"
#include "net/loop.h"

struct weir_client;
struct weir_target;
struct weir_call;

struct weir_call_timeouts {
    uint64_t connect_ns, write_ns, first_byte_ns, idle_ns;
    uint64_t total_deadline_ns; /* absolute; WEIR_NEVER_NS */
};

enum weir_call_failure {
    WEIR_CALL_OK,               /* the answer is complete */
    WEIR_CALL_E_RESOLVE,
    WEIR_CALL_E_CONNECT,
    WEIR_CALL_E_TLS,
    WEIR_CALL_E_CONNECT_TIMEOUT,
    WEIR_CALL_E_WRITE,          /* reset while the request was being written, or before the answer began */
    WEIR_CALL_E_WRITE_TIMEOUT,
    WEIR_CALL_E_FIRST_BYTE_TIMEOUT,
    WEIR_CALL_E_IDLE_TIMEOUT,
    WEIR_CALL_E_TOTAL_TIMEOUT,
    WEIR_CALL_E_ANSWER,         /* not HTTP we accept; http_fault in detail */
    WEIR_CALL_E_CUT,            /* the answer began and did not end as its framing says */
    WEIR_CALL_E_DESCRIPTORS     /* out of file descriptors */
};

struct weir_call_result {
    enum weir_call_failure failure;
    bool sent;               /* a request byte may have reached the peer */
    const char *detail;      /* for the log: "connect to 10.0.0.1:443: Connection refused" */
};

struct weir_call_handler {
    /* The first byte of the request was handed to the kernel (once). */
    void (*sent)(void *ctx);
    /* The final head (1xx are skipped). Valid in this call only. */
    void (*head)(void *ctx, const struct weir_http_head *head);
    /* Body bytes without transfer coding, valid in this call only. */
    void (*body)(void *ctx, struct weir_slice bytes);
    /* Trailer fields that came with a chunked body; may be NULL. */
    void (*trailer)(void *ctx, struct weir_slice name, struct weir_slice value);
    void (*done)(void *ctx, const struct weir_call_result *result);
};

/* What is sent. All memory stays the caller's and unchanged until sent in full, done or cancel; pieces are
 * written behind the head in order. head_bytes is the serialised head, final blank line included. */
#define WEIR_CALL_PIECES_MAX 8
struct weir_call_request {
    struct weir_slice head;
    struct weir_slice pieces[WEIR_CALL_PIECES_MAX];
    uint32_t piece_count;
    bool is_head_method;     /* HEAD: the answer has no body */
    struct weir_call_timeouts timeouts;
};

struct weir_target_rules {
    const char *host;        /* a name or a literal, IPv6 without brackets */
    uint16_t port;
    bool tls;
    const char *ca_file;     /* NULL: the system store, loaded at first use */
    uint64_t pool_idle_ns;   /* default 10 s */
    uint32_t pool_max;       /* idle connections kept */
};

struct weir_client *weir_client_create(struct weir_loop *loop);
void weir_client_destroy(struct weir_client *client);

/* Strings are copied. NULL with error_text on a bad CA file or out of memory. */
struct weir_target *weir_target_create(struct weir_client *client, const struct weir_target_rules *rules,
                                       char *error_text, size_t error_bytes);
void weir_target_destroy(struct weir_target *target); /* no call may be alive */

/* Never NULL but when memory is out. Every other failure comes by done(), in a later turn or at this turn's end.
 * handler must outlive the call. */
struct weir_call *weir_call_start(struct weir_target *target, const struct weir_call_request *request,
                                  const struct weir_call_handler *handler, void *ctx);
/* Closes the connection (an answer half read cannot be pooled); no callback follows. true: a request byte may have
 * reached the peer, even if sent() was not called yet. */
bool weir_call_cancel(struct weir_call *call);
/* Back-pressure: stops reading the answer, and starts again. The idle timer stands still meanwhile. */
void weir_call_pause(struct weir_call *call);
void weir_call_resume(struct weir_call *call);

struct weir_target_view {
    uint32_t connecting, busy, idle;
    uint64_t connects, reuses, failures, tls_resumed;
};
void weir_target_view(const struct weir_target *target, struct weir_target_view *view);

#endif
