/* stream: a non-blocking byte stream over a socket, plain or TLS, for both sides.
 *
 * Reads and writes never block and never raise SIGPIPE. AGAIN means: wait for the io's next event (for TLS
 * either direction may be meant; the owner tries both on any event). Embedded by value in connections.
 *
 * TLS: OpenSSL 3, TLS 1.2 and later, ALPN http/1.1. Client side: SNI, host name check, session kept and
 * offered again. read-ahead, partial writes, and buffers released when idle.
 * Thread: loop. */
#ifndef WEIR_NET_STREAM_H
#define WEIR_NET_STREAM_H

#include <sys/uio.h>

#include "net/loop.h"

struct ssl_st;
struct weir_tls; /* one side's TLS settings, shared by its connections */

struct weir_stream {
    struct weir_io io;
    struct ssl_st *ssl; /* NULL: plain */
    bool handshaken;
};

#define WEIR_STREAM_AGAIN (-1)
#define WEIR_STREAM_EOF 0   /* read only: the peer closed properly */
#define WEIR_STREAM_ERROR (-2)

/* Settings. error_text: what, which file, what to do. */
struct weir_tls *weir_tls_server_create(const char *cert_file, const char *key_file, char *error_text,
                                        size_t error_bytes);
struct weir_tls *weir_tls_client_create(const char *ca_file, char *error_text, size_t error_bytes);
void weir_tls_destroy(struct weir_tls *tls);

/* Takes a connected or connecting non-blocking descriptor; 0 or -errno. host: name to verify (client). */
WEIR_MUST_USE int weir_stream_open(struct weir_stream *s, struct weir_loop *loop, int fd,
                                   struct weir_tls *tls, const char *host);
/* Drives the handshake: 1 done, WEIR_STREAM_AGAIN, WEIR_STREAM_ERROR. Plain: 1 at once. */
WEIR_MUST_USE int weir_stream_handshake(struct weir_stream *s, char *error_text, size_t error_bytes);
/* > 0 bytes, WEIR_STREAM_EOF, AGAIN, ERROR. A short read of a plain stream means "drained". */
WEIR_MUST_USE ssize_t weir_stream_read(struct weir_stream *s, void *buf, size_t room);
WEIR_MUST_USE ssize_t weir_stream_writev(struct weir_stream *s, const struct iovec *iov, int count);
/* Removes from the loop and closes. reset: RST instead of FIN (and no TLS close-notify). */
void weir_stream_close(struct weir_stream *s, struct weir_loop *loop, bool reset);

#endif
