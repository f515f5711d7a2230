#include "net/stream.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "net/stream_tls.h"

static void stream_ready(struct weir_io *io, uint32_t events)
{
    struct weir_stream *s = (struct weir_stream *)((char *)io - offsetof(struct weir_stream, io));
    if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        s->hung_up = true;
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        s->drained = false;
    if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
        s->blocked = false;
    s->ready(s, events);
}

int weir_stream_open(struct weir_stream *s, struct weir_loop *loop, int fd,
                     void (*ready)(struct weir_stream *s, uint32_t events))
{
    *s = (struct weir_stream){.io = {.ready = stream_ready, .fd = fd}, .ready = ready};
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* fails for others than TCP: fine */
    int fault = weir_loop_add(loop, &s->io);
    s->open = fault == 0;
    return fault;
}

ssize_t stream_socket_read(struct weir_stream *s, void *buf, size_t room)
{
    if (s->drained)
        return WEIR_STREAM_AGAIN;
    ssize_t n;
    do
        n = recv(s->io.fd, buf, room, 0);
    while (n < 0 && errno == EINTR);
    if (n >= 0) {
        /* A short read leaves nothing behind, and what comes later is a new event. But an end that
         * has been announced already is announced only once: it has to be read now. */
        s->drained = (size_t)n < room && !s->hung_up;
        return n;
    }
    if (errno == EAGAIN) {
        s->drained = true;
        return WEIR_STREAM_AGAIN;
    }
    s->fault = errno;
    return WEIR_STREAM_ERROR;
}

ssize_t stream_socket_write(struct weir_stream *s, const struct iovec *iov, size_t count)
{
    if (s->blocked)
        return WEIR_STREAM_AGAIN;
    /* sendmsg takes the vector as not const, and does not change it. */
    struct msghdr message = {.msg_iov = (struct iovec *)iov, .msg_iovlen = count};
    ssize_t n;
    do
        n = count == 1 ? send(s->io.fd, iov->iov_base, iov->iov_len, MSG_NOSIGNAL) /* cheaper */
                       : sendmsg(s->io.fd, &message, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n >= 0) {
        s->out_bytes += (uint64_t)n;
        return n;
    }
    if (errno == EAGAIN) {
        s->blocked = true;
        return WEIR_STREAM_AGAIN;
    }
    s->fault = errno;
    return WEIR_STREAM_ERROR;
}

ssize_t weir_stream_read(struct weir_stream *s, void *buf, size_t room)
{
    return s->ssl ? stream_tls_read(s, buf, room) : stream_socket_read(s, buf, room);
}

ssize_t weir_stream_writev(struct weir_stream *s, const struct iovec *iov, int count)
{
    return s->ssl ? stream_tls_write(s, iov, count) : stream_socket_write(s, iov, (size_t)count);
}

void weir_stream_shutdown(struct weir_stream *s)
{
    if (s->ssl)
        stream_tls_shutdown(s);
    shutdown(s->io.fd, SHUT_WR);
}

bool weir_stream_quiet(const struct weir_stream *s)
{
    return s->drained && !(s->ssl && stream_tls_pending(s));
}

void weir_stream_close(struct weir_stream *s, struct weir_loop *loop, bool reset)
{
    if (!s->open)
        return;
    s->open = false;
    if (s->ssl)
        stream_tls_close(s, reset || s->hung_up);
    if (reset) {
        struct linger linger = {.l_onoff = 1, .l_linger = 0};
        setsockopt(s->io.fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    }
    weir_loop_close(loop, &s->io);
}

const char *weir_stream_fault_text(const struct weir_stream *s, char *text, size_t text_bytes)
{
    if (s->ssl && s->fault == 0)
        return stream_tls_fault_text(s, text, text_bytes);
    snprintf(text, text_bytes, "%s", s->fault ? strerror(s->fault) : "no fault");
    return text;
}
