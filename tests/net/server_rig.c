#include "net/server_rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static void diary_add(struct rig *rig, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void diary_add(struct rig *rig, const char *format, ...)
{
    if (rig->diary_off)
        return;
    va_list args;
    va_start(args, format);
    char *at = rig->diary + rig->diary_bytes;
    size_t room = sizeof rig->diary - rig->diary_bytes;
    int n = snprintf(at, room, "%s", rig->diary_bytes ? " " : "");
    n += vsnprintf(at + n, room - (size_t)n, format, args);
    va_end(args);
    CHECK((size_t)n < room);
    rig->diary_bytes += (size_t)n;
}

static void end_note(struct rig *rig, struct weir_exchange *x)
{
    rig->ends++;
    if (rig->x == x)
        rig->x = NULL;
}

static enum weir_head_verdict on_head(void *ctx, struct weir_exchange *x)
{
    struct rig *rig = ctx;
    rig->heads++;
    rig->x = x;
    CHECK(weir_exchange_head(x));
    CHECK(weir_exchange_server(x) == rig->server);
    diary_add(rig, "head");
    return rig->head ? rig->head(rig, x) : WEIR_HEAD_READ_BODY;
}

static void on_request(void *ctx, struct weir_exchange *x)
{
    struct rig *rig = ctx;
    rig->requests++;
    diary_add(rig, "request:%zu", weir_exchange_body(x).bytes);
    if (rig->request)
        rig->request(rig, x);
    else
        rig_echo(rig, x);
}

static void on_gone(void *ctx, struct weir_exchange *x, enum weir_gone why)
{
    struct rig *rig = ctx;
    diary_add(rig, "gone:%s", why == WEIR_GONE_CLOSED ? "closed" : "stalled");
    end_note(rig, x);
    if (rig->gone)
        rig->gone(rig, x);
}

static void on_drained(void *ctx, struct weir_exchange *x)
{
    struct rig *rig = ctx;
    diary_add(rig, "drained");
    if (rig->drained)
        rig->drained(rig, x);
}

static void on_done(void *ctx, struct weir_exchange *x)
{
    struct rig *rig = ctx;
    diary_add(rig, "done");
    end_note(rig, x);
    if (rig->done)
        rig->done(rig, x);
}

static void on_fault(void *ctx, struct weir_exchange *x, enum weir_server_fault fault,
                     enum weir_http_fault http_fault)
{
    struct rig *rig = ctx;
    if (http_fault == WEIR_HTTP_FAULT_NONE)
        diary_add(rig, "fault:%s", weir_server_fault_label(fault));
    else
        diary_add(rig, "fault:%s:%s", weir_server_fault_label(fault),
                  weir_http_fault_label(http_fault));
    if (fault == WEIR_SERVER_BAD_BODY || fault == WEIR_SERVER_BODY_TOO_LARGE ||
        fault == WEIR_SERVER_BODY_SLOW)
        end_note(rig, x);
    if (rig->fault)
        rig->fault(rig, x, fault);
}

static void on_closed(void *ctx, void *connection_user)
{
    struct rig *rig = ctx;
    CHECK(connection_user);
    rig->closed++;
}

static void on_log(void *ctx, const char *text)
{
    struct rig *rig = ctx;
    snprintf(rig->log, sizeof rig->log, "%s", text);
}

void rig_echo(struct rig *rig, struct weir_exchange *x)
{
    (void)rig;
    weir_exchange_respond(x, 200, "text/plain", WEIR_SLICE(""), weir_exchange_body(x));
}

void rig_abort(struct rig *rig, struct weir_exchange *x)
{
    weir_exchange_abort(x);
    end_note(rig, x);
}

struct rig *rig_create(void)
{
    struct rig *rig = calloc(1, sizeof *rig);
    CHECK(rig);
    rig->loop = weir_loop_create();
    CHECK(rig->loop);
    rig->now_ns = weir_loop_now_ns(rig->loop);
    weir_loop_time_set(rig->loop, rig->now_ns);
    rig->limits = (struct weir_server_limits){
        .head_bytes = 65536,
        .body_bytes = 32u << 20,
        .connections = 1000,
        .head_ns = 10 * WEIR_NS_PER_S,
        .keep_alive_ns = 75 * WEIR_NS_PER_S,
        .body_min_bytes_per_s = 1000,
        .body_grace_ns = 10 * WEIR_NS_PER_S,
        .stall_ns = 60 * WEIR_NS_PER_S,
    };
    return rig;
}

void rig_listen(struct rig *rig)
{
    char why[256] = "";
    const struct weir_server_handler handler = {
        .ctx = rig,
        .head = on_head,
        .request = on_request,
        .gone = on_gone,
        .drained = on_drained,
        .done = on_done,
        .fault = on_fault,
        .closed = on_closed,
        .log = on_log,
    };
    rig->server = weir_server_listen(rig->loop, "127.0.0.1:0", rig->tls, &rig->limits, &handler,
                                     why, sizeof why);
    CHECK_MSG(rig->server, "%s", why);
}

void rig_destroy(struct rig *rig)
{
    weir_server_destroy(rig->server);
    weir_loop_destroy(rig->loop);
    free(rig);
}

void rig_settle(struct rig *rig)
{
    /* Loopback delivers within the sender's system call; three turns without a wait see it all. */
    for (int quiet = 0; quiet < 3;) {
        struct weir_server_view before, after;
        size_t diary_bytes = rig->diary_bytes;
        weir_server_view(rig->server, &before);
        CHECK_INT(weir_loop_turn(rig->loop, 0), 0);
        weir_server_view(rig->server, &after);
        bool is_quiet =
            memcmp(&before, &after, sizeof before) == 0 && diary_bytes == rig->diary_bytes;
        quiet = is_quiet ? quiet + 1 : 0;
    }
}

void rig_wait(struct rig *rig, uint64_t ns)
{
    rig->now_ns += ns;
    weir_loop_time_set(rig->loop, rig->now_ns);
    rig_settle(rig);
}

const char *rig_diary(struct rig *rig)
{
    rig->diary[rig->diary_bytes] = '\0';
    rig->diary_bytes = 0;
    return rig->diary;
}

void peer_connect(struct peer *peer, struct rig *rig)
{
    *peer = (struct peer){.rig = rig};
    peer->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(peer->fd >= 0);
    int on = 1;
    setsockopt(peer->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(weir_server_port(rig->server)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CHECK_INT(connect(peer->fd, (struct sockaddr *)&to, sizeof to), 0);
    rig_settle(rig);
}

bool peer_send(struct peer *peer, const char *bytes, size_t count)
{
    while (count > 0) {
        ssize_t n = send(peer->fd, bytes, count, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN)
            return false;
        if (n < 0) {
            rig_settle(peer->rig);
            continue;
        }
        bytes += n;
        count -= (size_t)n;
    }
    return true;
}

bool peer_say(struct peer *peer, const char *text)
{
    bool ok = peer_send(peer, text, strlen(text));
    rig_settle(peer->rig);
    return ok;
}

void peer_take(struct peer *peer)
{
    while (peer->fd >= 0 && !peer->eof && !peer->reset) {
        if (peer->got_room - peer->got_bytes < 65536) {
            peer->got_room = 2 * peer->got_room + 131072;
            peer->got = realloc(peer->got, peer->got_room);
            CHECK(peer->got);
        }
        ssize_t n = recv(peer->fd, peer->got + peer->got_bytes,
                         peer->got_room - peer->got_bytes - 1, MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0)
            peer->reset = true;
        else if (n == 0)
            peer->eof = true;
        else
            peer->got_bytes += (size_t)n;
    }
}

/* Date lines differ from run to run. */
static void dates_drop(struct peer *peer)
{
    char *date;
    peer->got[peer->got_bytes] = '\0';
    while ((date = strstr(peer->got, "\r\ndate: "))) {
        char *end = strstr(date + 2, "\r\n");
        CHECK(end && end - date == (long)strlen("\r\ndate: Mon, 30 Nov 2026 03:39:00 GMT"));
        memmove(date, end, (size_t)(peer->got + peer->got_bytes + 1 - end));
        peer->got_bytes -= (size_t)(end - date);
    }
}

const char *peer_hear(struct peer *peer)
{
    size_t before;
    do {
        before = peer->got_bytes;
        rig_settle(peer->rig);
        peer_take(peer);
    } while (peer->got_bytes != before);
    if (peer->got_bytes == 0)
        return "";
    dates_drop(peer);
    return peer->got;
}

void peer_forget(struct peer *peer)
{
    peer->got_bytes = 0;
    if (peer->got)
        peer->got[0] = '\0';
}

void peer_close(struct peer *peer)
{
    if (peer->fd >= 0)
        close(peer->fd);
    peer->fd = -1;
    free(peer->got);
    peer->got = NULL;
    rig_settle(peer->rig);
}

void peer_reset(struct peer *peer)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    setsockopt(peer->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    peer_close(peer);
}
