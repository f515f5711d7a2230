/* stream_tls: what stream.c asks of OpenSSL for a stream that has an ssl. Only stream*.c include
 * this. */
#ifndef WEIR_NET_STREAM_TLS_H
#define WEIR_NET_STREAM_TLS_H

#include "net/stream.h"

/* The socket below TLS: as weir_stream_read and weir_stream_writev of a plain stream. */
ssize_t stream_socket_read(struct weir_stream *s, void *buf, size_t room);
ssize_t stream_socket_write(struct weir_stream *s, const struct iovec *iov, size_t count);

ssize_t stream_tls_read(struct weir_stream *s, void *buf, size_t room);
ssize_t stream_tls_write(struct weir_stream *s, const struct iovec *iov, int count);
void stream_tls_shutdown(struct weir_stream *s); /* says close-notify */
bool stream_tls_pending(
    const struct weir_stream *s); /* bytes read from the socket, not yet given out */
/* Frees the ssl; says close-notify unless quiet. */
void stream_tls_close(struct weir_stream *s, bool quiet);
const char *stream_tls_fault_text(const struct weir_stream *s, char *text, size_t text_bytes);

#endif
