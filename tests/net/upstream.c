#include "upstream.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

const struct weir_call_timeouts bed_timeouts = {
    .connect_ns = 5 * WEIR_NS_PER_S,
    .write_ns = 10 * WEIR_NS_PER_S,
    .first_byte_ns = 20 * WEIR_NS_PER_S,
    .idle_ns = 30 * WEIR_NS_PER_S,
    .total_deadline_ns = WEIR_NEVER_NS,
};

static int descriptors_open(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

static int descriptors_before;

int up_listen(uint16_t *port, int backlog)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    CHECK(fd >= 0);
    CHECK_INT(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    address.sin_port = htons(*port);
    CHECK_INT(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    CHECK_INT(listen(fd, backlog), 0);
    CHECK_INT(getsockname(fd, (struct sockaddr *)&address, &bytes), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

void bed_open(struct bed *bed, const struct weir_target_rules *rules)
{
    char text[400];
    descriptors_before = descriptors_open();
    memset(bed, 0, sizeof *bed);
    bed->listener = up_listen(&bed->port, 512);
    bed->loop = weir_loop_create();
    bed->now_ns = weir_loop_now_ns(bed->loop);
    weir_loop_time_set(bed->loop, bed->now_ns);
    bed->client = weir_client_create(bed->loop);
    struct weir_target_rules own =
        rules ? *rules
              : (struct weir_target_rules){.pool_idle_ns = 10 * WEIR_NS_PER_S, .pool_max = 8};
    own.host = own.host ? own.host : "127.0.0.1";
    own.port = own.port ? own.port : bed->port;
    bed->target = weir_target_create(bed->client, &own, text, sizeof text);
    CHECK_MSG(bed->target, "%s", text);
}

void bed_close(struct bed *bed)
{
    struct weir_target_view view;
    weir_target_view(bed->target, &view);
    CHECK_INT(view.busy, 0);
    CHECK_INT(view.connecting, 0);
    weir_target_destroy(bed->target);
    weir_client_destroy(bed->client);
    weir_loop_destroy(bed->loop);
    if (bed->listener >= 0)
        close(bed->listener);
    CHECK_INT(descriptors_open(), descriptors_before);
}

void bed_turn(struct bed *bed)
{
    CHECK_INT(weir_loop_turn(bed->loop, 0), 0);
}

void bed_wait(struct bed *bed)
{
    CHECK_INT(weir_loop_turn(bed->loop, 5 * WEIR_NS_PER_MS), 0);
}

void bed_pass(struct bed *bed, uint64_t ns)
{
    bed->now_ns += ns;
    weir_loop_time_set(bed->loop, bed->now_ns);
    bed_turn(bed);
}

int bed_client_end(struct bed *bed)
{
    for (int fd = 3; fd < 256; fd++) {
        struct sockaddr_in peer;
        socklen_t bytes = sizeof peer;
        if (getpeername(fd, (struct sockaddr *)&peer, &bytes) == 0 && peer.sin_family == AF_INET &&
            ntohs(peer.sin_port) == bed->port)
            return fd;
    }
    fail_msg("no connection");
    return -1;
}

/* --- the caller --- */

static void caller_sent(void *ctx)
{
    struct caller *c = ctx;
    c->sent_count++;
    if (c->cancel_in_sent)
        weir_call_cancel(c->call);
}

static void caller_head(void *ctx, const struct weir_http_head *head)
{
    struct caller *c = ctx;
    CHECK(c->sent_count == 1);
    c->head_count++;
    c->status = head->status;
    struct weir_slice value = weir_http_value_by_text(head, WEIR_SLICE("x-test"));
    size_t n = value.bytes < sizeof c->header - 1 ? value.bytes : sizeof c->header - 1;
    if (n > 0)
        memcpy(c->header, value.at, n);
    c->header[n] = '\0';
    if (c->cancel_in_head)
        weir_call_cancel(c->call);
}

static void caller_body(void *ctx, struct weir_slice bytes)
{
    struct caller *c = ctx;
    CHECK_INT(c->head_count, 1);
    CHECK(bytes.bytes > 0);
    c->body_calls++;
    while (c->body_room < c->body_bytes + bytes.bytes + 1) {
        c->body_room = 2 * c->body_room + 1024;
        c->body = realloc(c->body, c->body_room);
    }
    memcpy(c->body + c->body_bytes, bytes.at, bytes.bytes);
    c->body_bytes += bytes.bytes;
    c->body[c->body_bytes] = '\0';
    if (c->pause_in_body)
        weir_call_pause(c->call);
    if (c->cancel_in_body)
        weir_call_cancel(c->call);
}

static void caller_trailer(void *ctx, struct weir_slice name, struct weir_slice value)
{
    struct caller *c = ctx;
    size_t n = strlen(c->trailers);
    snprintf(c->trailers + n, sizeof c->trailers - n, "%.*s=%.*s;", (int)name.bytes, name.at,
             (int)value.bytes, value.at);
}

static void caller_done(void *ctx, const struct weir_call_result *result)
{
    struct caller *c = ctx;
    CHECK_INT(c->done_count, 0);
    c->done_count++;
    c->failure = result->failure;
    c->sent = result->sent;
    CHECK(c->sent == (c->sent_count == 1));
    snprintf(c->detail, sizeof c->detail, "%s", result->detail);
    CHECK((result->failure == WEIR_CALL_OK) == (result->detail[0] == '\0'));
    c->call = NULL;
    if (c->start_in_done)
        caller_start(c->next, c->bed, GET, NULL);
}

const struct weir_call_handler caller_handler = {
    .sent = caller_sent,
    .head = caller_head,
    .body = caller_body,
    .trailer = caller_trailer,
    .done = caller_done,
};

void caller_start_request(struct caller *caller, struct bed *bed,
                          const struct weir_call_request *request)
{
    caller->bed = bed;
    caller->call = weir_call_start(bed->target, request, &caller_handler, caller);
    CHECK(caller->call);
    CHECK_INT(caller->sent_count + caller->done_count, 0);
}

void caller_start(struct caller *caller, struct bed *bed, const char *head, const char *body)
{
    struct weir_call_request request = {.head = weir_slice_of(head), .timeouts = bed_timeouts};
    request.is_head_method = strncmp(head, "HEAD ", 5) == 0;
    if (body) {
        request.pieces[0] = weir_slice_of(body);
        request.piece_count = 1;
    }
    caller_start_request(caller, bed, &request);
}

void caller_free(struct caller *caller)
{
    free(caller->body);
    memset(caller, 0, sizeof *caller);
}

/* --- the upstream --- */

int up_accept(struct bed *bed)
{
    struct timeval limit = {.tv_sec = 5};
    int on = 1;
    CHECK_INT(setsockopt(bed->listener, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    int fd = accept4(bed->listener, NULL, NULL, SOCK_CLOEXEC);
    CHECK_MSG(fd >= 0, "accept: %s", strerror(errno));
    CHECK_INT(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    CHECK_INT(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit), 0);
    CHECK_INT(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), 0);
    return fd;
}

void up_read(int fd, const char *want)
{
    char got[65536];
    size_t want_bytes = strlen(want), got_bytes = 0;
    CHECK(want_bytes < sizeof got);
    while (got_bytes < want_bytes) {
        ssize_t n = recv(fd, got + got_bytes, want_bytes - got_bytes, 0);
        CHECK_MSG(n > 0, "upstream read: %s", n == 0 ? "closed" : strerror(errno));
        got_bytes += (size_t)n;
    }
    CHECK_MEM(got, got_bytes, want, want_bytes);
    CHECK_MSG(recv(fd, got, sizeof got, MSG_DONTWAIT) < 0 && errno == EAGAIN, "more was sent");
}

bool up_is_closed(int fd)
{
    char byte;
    ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno == ECONNRESET);
}

void up_write_bytes(int fd, const void *bytes, size_t count)
{
    const char *at = bytes;
    while (count > 0) {
        ssize_t n = send(fd, at, count, MSG_NOSIGNAL);
        CHECK_MSG(n > 0, "upstream write: %s", strerror(errno));
        at += n;
        count -= (size_t)n;
    }
}

void up_write(int fd, const char *text)
{
    up_write_bytes(fd, text, strlen(text));
}

void up_reset(int fd)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    CHECK_INT(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger), 0);
    close(fd);
}
