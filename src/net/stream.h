/* stream: a non-blocking byte stream over a socket, plain or TLS, for both sides.
 *
 * Reads and writes never block and never raise SIGPIPE. The owner reads until AGAIN, and writes
 * until all is written or AGAIN; then ready() is called when it is worth trying again (with TLS
 * either direction may be meant by an event: try both). The stream remembers what the kernel said
 * last, so that reading or writing once more after a short read or a full socket costs no system
 * call: one request is one recv.
 *
 * Embedded by value in connections; it must stay where it is while open.
 *
 *     open -> (secure) -> handshake until 1 -> read, writev -> close
 *
 * TLS: OpenSSL 3, TLS 1.2 and later, ALPN http/1.1, no renegotiation. Read-ahead, partial writes,
 * buffers released when idle; a head and a small body leave as one record. Client side: SNI, host
 * name check, the last session of a peer is kept and offered again. Thread: loop. Source: RFC 8446,
 * RFC 9525. */
#ifndef WEIR_NET_STREAM_H
#define WEIR_NET_STREAM_H

#include <sys/types.h>
#include <sys/uio.h>

#include "net/loop.h"

struct ssl_st;
struct weir_tls;      /* one side's TLS settings, shared by its connections */
struct weir_tls_peer; /* whom a client expects, and the session it kept */

struct weir_stream {
    struct weir_io io; /* the stream's own */
    /* events: the epoll bits; EPOLLRDHUP, EPOLLHUP and EPOLLERR are news about the peer */
    void (*ready)(struct weir_stream *s, uint32_t events);
    struct ssl_st *ssl; /* NULL: plain */
    const struct weir_tls_peer *peer;
    uint64_t out_bytes; /* handed to the kernel so far */
    int fault;          /* errno of the last ERROR; 0: TLS's own, or none */
    bool drained;       /* nothing to read until the next event */
    bool blocked;       /* no room to write until the next event */
    bool hung_up;       /* the peer closed, or half-closed; what it sent before can still be read */
    bool open;
};

#define WEIR_STREAM_EOF 0 /* read only: the peer closed properly (TLS: with close-notify) */
#define WEIR_STREAM_AGAIN (-1)
#define WEIR_STREAM_ERROR (-2)

/* Settings. NULL on failure, then error_text says what, which file, what to do.
 * ca_file NULL: the system's store, read as certificates are checked. */
struct weir_tls *weir_tls_server_create(const char *cert_file, const char *key_file,
                                        char *error_text, size_t error_bytes);
struct weir_tls *weir_tls_client_create(const char *ca_file, char *error_text, size_t error_bytes);
void weir_tls_destroy(struct weir_tls *tls); /* connections may outlive it */

/* host: a name or a literal, IPv6 without brackets; it is copied. NULL: out of memory. Outlives its
 * streams. */
struct weir_tls_peer *weir_tls_peer_create(const char *host, uint16_t port);
void weir_tls_peer_destroy(struct weir_tls_peer *peer);

/* Takes a connected or connecting non-blocking descriptor and registers it; 0, or -errno and then
 * the descriptor is still the caller's. Turns Nagle's algorithm off where the socket has one. */
WEIR_MUST_USE int weir_stream_open(struct weir_stream *s, struct weir_loop *loop, int fd,
                                   void (*ready)(struct weir_stream *s, uint32_t events));
/* Makes it a TLS stream, before the first byte. peer: client side only, else NULL. 0 or -ENOMEM. */
WEIR_MUST_USE int weir_stream_secure(struct weir_stream *s, struct weir_tls *tls,
                                     struct weir_tls_peer *peer);
/* Drives the TLS handshake: 1 done, AGAIN, ERROR (see weir_stream_fault_text). Plain: 1 at once. */
WEIR_MUST_USE int weir_stream_handshake(struct weir_stream *s);
bool weir_stream_resumed(const struct weir_stream *s); /* the handshake used a kept session */

/* Bytes read (at least 1), EOF, AGAIN or ERROR. room at least 1. */
WEIR_MUST_USE ssize_t weir_stream_read(struct weir_stream *s, void *buf, size_t room);
/* Bytes taken (at least 1, perhaps not all), AGAIN or ERROR. At least one byte must be there. After
 * AGAIN the bytes offered next must begin as those offered now; they may lie elsewhere and be more.
 */
WEIR_MUST_USE ssize_t weir_stream_writev(struct weir_stream *s, const struct iovec *iov, int count);

/* No more will be written: FIN, with TLS a close-notify before it. Reading goes on. */
void weir_stream_shutdown(struct weir_stream *s);
/* Nothing that has arrived by now is left unread, as far as the kernel has told. */
bool weir_stream_quiet(const struct weir_stream *s);

/* Removes from the loop and closes; nothing for a stream that is not open (all-zero is not open).
 * reset: RST instead of FIN (and no TLS close-notify). */
void weir_stream_close(struct weir_stream *s, struct weir_loop *loop, bool reset);

/* Why the last call answered ERROR: "Connection reset by peer", or for a handshake what is wrong
 * with the certificate and what to do about it. To be called right after it. Returns text. */
const char *weir_stream_fault_text(const struct weir_stream *s, char *text, size_t text_bytes);

#endif
