#include <errno.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "net/server_exchange.h"

static const struct {
    const char *label;
    int status; /* of the bare answer, where the HTTP fault has none */
} faults[WEIR_SERVER_FAULT_COUNT] = {
    [WEIR_SERVER_BAD_HEAD] = {"BAD_HEAD", 400},
    [WEIR_SERVER_HEAD_TOO_LARGE] = {"HEAD_TOO_LARGE", 431},
    [WEIR_SERVER_HEAD_SLOW] = {"HEAD_SLOW", 408},
    [WEIR_SERVER_BAD_BODY] = {"BAD_BODY", 400},
    [WEIR_SERVER_BODY_TOO_LARGE] = {"BODY_TOO_LARGE", 413},
    [WEIR_SERVER_BODY_SLOW] = {"BODY_SLOW", 408},
    [WEIR_SERVER_CONNECTIONS] = {"CONNECTIONS", 503},
    [WEIR_SERVER_ADDRESS_CONNECTIONS] = {"ADDRESS_CONNECTIONS", 429},
};

const char *weir_server_fault_label(enum weir_server_fault fault)
{
    return faults[fault].label;
}

static uint64_t exchange_now_ns(const struct weir_exchange *x)
{
    return weir_loop_now_ns(x->server->loop);
}

void weir_exchange_due_set(struct weir_exchange *x, uint64_t due_ns)
{
    x->due_ns = due_ns;
    if (due_ns != WEIR_NEVER_NS)
        weir_timer_set(x->server->loop, &x->timer, due_ns);
}

static void due_in(struct weir_exchange *x, uint64_t wait_ns)
{
    weir_exchange_due_set(x, weir_add_sat_u64(exchange_now_ns(x), wait_ns));
}

void weir_exchange_again_soon(struct weir_exchange *x)
{
    if (x->again.link)
        return;
    EXCHANGE_ADD(x->server->again, x, again);
    weir_timer_set(x->server->loop, &x->server->again_timer, 0);
}

/* --- the end of a connection --------------------------------------------------------------------
 */

void weir_exchange_close(struct weir_exchange *x, bool reset)
{
    struct weir_server *server = x->server;
    if (x->phase == PHASE_CLOSED)
        return;
    WEIR_INVARIANT(!x->told);
    x->phase = PHASE_CLOSED;
    x->over = true;
    weir_stream_close(&x->stream, server->loop, reset);
    weir_timer_cancel(server->loop, &x->timer);
    weir_block_drop(&server->blocks, &x->in);
    weir_block_drop(&server->blocks, &x->out);
    weir_block_drop(&server->blocks, &x->body);
    weir_block_drop(&server->blocks, &x->head_block);
    x->head = NULL;
    if (server->out_of == x)
        server->out_of = NULL;
    weir_exchange_free_later(x);
    if (x->connection_user && server->handler.closed)
        server->handler.closed(server->handler.ctx, x->connection_user);
}

void weir_exchange_lost(struct weir_exchange *x, enum weir_gone why)
{
    struct weir_server *server = x->server;
    if (x->phase == PHASE_CLOSED)
        return;
    if (x->told) {
        x->told = false;
        x->over = true;
        *(why == WEIR_GONE_CLOSED ? &server->counts.gone_closed : &server->counts.gone_stalled) +=
            1;
        /* Perhaps this is the turn's end already, and what the handler sets going cannot wait. */
        if (server->flushed_turn == weir_loop_turns(server->loop))
            weir_timer_set(server->loop, &server->again_timer, 0);
        server->handler.gone(server->handler.ctx, x, why);
    }
    weir_exchange_close(x, why == WEIR_GONE_STALLED || x->reset_when_sent);
}

/* What the kernel has not sent, or the peer not acknowledged; 0 if it will not say. */
static int kernel_unsent_bytes(const struct weir_exchange *x)
{
    int unsent = 0;
    return ioctl(x->stream.io.fd, SIOCOUTQ, &unsent) == 0 ? unsent : 0;
}

void weir_exchange_stall_begin(struct weir_exchange *x)
{
    x->stall_unsent_bytes = kernel_unsent_bytes(x);
    x->stall_since_ns = exchange_now_ns(x);
    due_in(x, x->server->limits.stall_ns / STALL_LOOKS);
}

/* The kernel takes more only when a good part of its megabytes is free, so no progress of ours does
 * not mean that the client takes nothing: its acknowledgements tell. */
static void stall_due(struct weir_exchange *x)
{
    uint64_t now_ns = exchange_now_ns(x), stall_ns = x->server->limits.stall_ns;
    if (kernel_unsent_bytes(x) < x->stall_unsent_bytes)
        weir_exchange_stall_begin(x);
    else if (now_ns - x->stall_since_ns >= stall_ns)
        weir_exchange_lost(x, WEIR_GONE_STALLED);
    else
        weir_exchange_due_set(x, weir_min_u64(weir_add_sat_u64(x->stall_since_ns, stall_ns),
                                              weir_add_sat_u64(now_ns, stall_ns / STALL_LOOKS)));
}

static void linger_due(struct weir_exchange *x)
{
    bool is_late = exchange_now_ns(x) >= x->linger_end_ns;
    if (!is_late && x->reset_when_sent && kernel_unsent_bytes(x) > 0)
        due_in(x, LINGER_POLL_NS);
    else
        weir_exchange_close(x, x->reset_when_sent);
}

/* close() while input is unread makes the kernel send a RST, which takes the answer from a client
 * that has not read it yet (RFC 9112 9.6). So our side is shut first, and what comes is dropped
 * until the client closes too. */
void weir_exchange_end(struct weir_exchange *x)
{
    bool unread = x->readable || weir_block_bytes(&x->in) > 0 || !x->body_done;
    if (!unread && !x->reset_when_sent) {
        weir_exchange_close(x, false);
        return;
    }
    x->phase = PHASE_LINGER;
    x->over = true;
    x->linger_end_ns = weir_add_sat_u64(exchange_now_ns(x), LINGER_NS);
    x->linger_left_bytes = weir_max_u64(1u << 20, 4 * (uint64_t)x->server->limits.body_bytes);
    weir_block_drop(&x->server->blocks, &x->in);
    weir_block_drop(&x->server->blocks, &x->body);
    weir_block_drop(&x->server->blocks, &x->head_block);
    x->head = NULL;
    if (x->reset_when_sent) {
        linger_due(x);
        return;
    }
    weir_stream_shutdown(&x->stream);
    weir_exchange_due_set(x, x->linger_end_ns);
    if (x->readable)
        weir_exchange_again_soon(x);
}

void weir_exchange_next(struct weir_exchange *x)
{
    struct weir_server *server = x->server;
    if (x->told) {
        x->told = false;
        x->over = true;
        server->handler.done(server->handler.ctx, x);
    }
    if (x->close_after || server->draining) {
        weir_exchange_end(x);
        return;
    }
    weir_block_drop(&server->blocks, &x->body);
    weir_block_drop(&server->blocks, &x->head_block);
    x->head = NULL;
    x->user = NULL;
    x->answer = ANSWER_NONE;
    x->over = x->was_full = false;
    x->phase = PHASE_IDLE;
    due_in(x, server->limits.keep_alive_ns);
    if (x->readable || weir_block_bytes(&x->in) > 0)
        weir_exchange_again_soon(x);
}

void weir_exchange_input_stop(struct weir_exchange *x)
{
    if (x->phase != PHASE_BODY)
        return;
    x->phase = PHASE_WAIT;
    weir_exchange_due_set(x, WEIR_NEVER_NS);
}

/* --- refusals -----------------------------------------------------------------------------------
 */

static void exchange_fault(struct weir_exchange *x, enum weir_server_fault fault,
                           enum weir_http_fault http_fault)
{
    struct weir_server *server = x->server;
    x->phase = PHASE_WAIT;
    x->told = false;
    x->close_after = true;
    weir_exchange_due_set(x, WEIR_NEVER_NS);
    server->counts.faults[fault]++;
    if (server->handler.fault)
        server->handler.fault(server->handler.ctx, x, fault, http_fault);
    if (x->over)
        return;
    if (x->answer == ANSWER_NONE) {
        int status = http_fault == WEIR_HTTP_FAULT_NONE ? faults[fault].status
                                                        : weir_http_fault_status(http_fault);
        weir_exchange_respond(x, (uint32_t)status, NULL, WEIR_SLICE(""), WEIR_SLICE(""));
    } else if (x->answer != ANSWER_FINISHED) {
        weir_exchange_abort(x);
    }
}

static void exchange_fault_head(struct weir_exchange *x)
{
    enum weir_http_fault fault = x->server->parsed.fault;
    exchange_fault(x,
                   fault == WEIR_HTTP_FAULT_HEAD_TOO_LARGE ? WEIR_SERVER_HEAD_TOO_LARGE
                                                           : WEIR_SERVER_BAD_HEAD,
                   fault);
}

static void exchange_fault_body(struct weir_exchange *x)
{
    enum weir_http_fault fault = x->decoder.fault;
    exchange_fault(x,
                   fault == WEIR_HTTP_FAULT_BODY_TOO_LARGE ? WEIR_SERVER_BODY_TOO_LARGE
                                                           : WEIR_SERVER_BAD_BODY,
                   fault);
}

/* --- bytes into heads and bodies ----------------------------------------------------------------
 */

/* What some bytes led to; the handler is told once they are stored. */
enum step {
    STEP_NONE,
    STEP_HEAD, /* a head, and of its body all that came along */
    STEP_BODY, /* the rest of the body, or one that is refused */
    STEP_BAD_HEAD,
    STEP_NO_MEMORY
};

/* Keeps the parsed head beside a copy of its bytes; of the header array only what is in use, which
 * is a tenth of it. */
static bool take_head_keep(struct weir_exchange *x)
{
    const struct weir_http_head *parsed = &x->server->parsed;
    size_t struct_bytes =
        offsetof(struct weir_http_head, header) + parsed->header_count * sizeof parsed->header[0];
    if (!weir_block_reserve(&x->server->blocks, &x->head_block, struct_bytes + parsed->head_bytes,
                            0))
        return false;
    char *at = x->head_block.at;
    memcpy(at, parsed, struct_bytes);
    memcpy(at + struct_bytes, parsed->base, parsed->head_bytes);
    x->head_block.end = struct_bytes + parsed->head_bytes;
    x->head = (struct weir_http_head *)(void *)at;
    x->head->base = at + struct_bytes;
    return true;
}

/* A body owns at most twice what has come of it, whatever its Content-Length promises. */
static bool take_body_keep(struct weir_exchange *x, struct weir_slice data)
{
    size_t room_max = x->head->framing == WEIR_HTTP_FRAMING_LENGTH ? x->head->content_length
                                                                   : x->server->limits.body_bytes;
    if (data.bytes == 0)
        return true;
    if (!weir_block_reserve(&x->server->blocks, &x->body, data.bytes, room_max))
        return false;
    memcpy(x->body.at + x->body.end, data.at, data.bytes);
    x->body.end += data.bytes;
    return true;
}

/* Decodes what it can. MORE means that all bytes were taken. */
static enum weir_http_parse take_body(struct weir_exchange *x, const char *bytes, size_t count,
                                      size_t *used, bool *no_memory)
{
    for (;;) {
        size_t taken;
        struct weir_slice data;
        enum weir_http_parse parse =
            weir_http_body_feed(&x->decoder, bytes + *used, count - *used, &taken, &data);
        if (parse == WEIR_HTTP_BAD)
            return parse;
        *used += taken;
        *no_memory = !take_body_keep(x, data);
        x->body_done = parse == WEIR_HTTP_DONE;
        if (*no_memory || parse == WEIR_HTTP_DONE || *used == count)
            return parse;
    }
}

static enum step take_head(struct weir_exchange *x, const char *bytes, size_t count, size_t *used)
{
    struct weir_server *server = x->server;
    bool no_memory = false;
    switch (weir_http_request_parse(bytes, count, server->limits.head_bytes, &x->in_scanned,
                                    &server->parsed)) {
    case WEIR_HTTP_MORE:
        return STEP_NONE;
    case WEIR_HTTP_BAD:
        return STEP_BAD_HEAD;
    case WEIR_HTTP_DONE:
        break;
    }
    x->in_scanned = 0;
    if (!take_head_keep(x))
        return STEP_NO_MEMORY;
    *used = x->head->head_bytes;
    x->body_done = false;
    weir_http_body_init(&x->decoder, x->head, server->limits.body_bytes);
    (void)take_body(x, bytes, count, used, &no_memory);
    return no_memory ? STEP_NO_MEMORY : STEP_HEAD;
}

/* Takes what the phase has a use for; *used says how much. Tells nobody. */
static enum step exchange_take(struct weir_exchange *x, const char *bytes, size_t count,
                               size_t *used)
{
    bool no_memory = false;
    switch ((enum exchange_phase)x->phase) {
    case PHASE_IDLE:
    case PHASE_HEAD:
        return count == 0 ? STEP_NONE : take_head(x, bytes, count, used);
    case PHASE_BODY: {
        uint64_t before_bytes = x->decoder.data_bytes;
        enum weir_http_parse parse = take_body(x, bytes, count, used, &no_memory);
        if (no_memory)
            return STEP_NO_MEMORY;
        if (parse != WEIR_HTTP_MORE)
            return STEP_BODY;
        /* Each byte earns its time, but never more than a grace ahead of now. */
        uint64_t rate = x->server->limits.body_min_bytes_per_s;
        uint64_t came_bytes = x->decoder.data_bytes - before_bytes;
        uint64_t grace_ns = weir_add_sat_u64(exchange_now_ns(x), x->server->limits.body_grace_ns);
        if (came_bytes > 0 && rate == 0)
            weir_exchange_due_set(x, grace_ns);
        else if (came_bytes > 0)
            weir_exchange_due_set(
                x, weir_min_u64(grace_ns, x->due_ns + came_bytes * WEIR_NS_PER_S / rate));
        return STEP_NONE;
    }
    case PHASE_HANDSHAKE:
    case PHASE_WAIT:
    case PHASE_LINGER:
    case PHASE_CLOSED:
        break;
    }
    return STEP_NONE;
}

/* --- telling the handler ------------------------------------------------------------------------
 */

static void exchange_request(struct weir_exchange *x)
{
    x->phase = PHASE_WAIT;
    weir_exchange_due_set(x, WEIR_NEVER_NS);
    x->server->handler.request(x->server->handler.ctx, x);
}

/* The head is there, and of the body perhaps all. What is refused here is refused before the client
 * is told to send the body. */
static void exchange_judge(struct weir_exchange *x)
{
    struct weir_server *server = x->server;
    x->phase = PHASE_WAIT;
    weir_exchange_due_set(x, WEIR_NEVER_NS);
    if (x->refuse != NO_REFUSAL) {
        exchange_fault(x, (enum weir_server_fault)x->refuse, WEIR_HTTP_FAULT_NONE);
        return;
    }
    x->told = true;
    server->counts.requests++;
    enum weir_head_verdict verdict = server->handler.head(server->handler.ctx, x);
    if (x->over || x->answer != ANSWER_NONE || verdict == WEIR_HEAD_ANSWERED)
        return;
    if (x->body_done) {
        exchange_request(x);
        return;
    }
    if (x->decoder.fault != WEIR_HTTP_FAULT_NONE) {
        exchange_fault_body(x);
        return;
    }
    x->phase = PHASE_BODY;
    due_in(x, server->limits.body_grace_ns);
    if (x->head->expect_continue && x->decoder.data_bytes == 0)
        weir_exchange_append(x, "HTTP/1.1 100 Continue\r\n\r\n", 25);
}

static void exchange_advance(struct weir_exchange *x, enum step step)
{
    switch (step) {
    case STEP_NONE:
        if (x->phase == PHASE_IDLE && weir_block_bytes(&x->in) > 0) {
            x->phase = PHASE_HEAD;
            due_in(x, x->server->limits.head_ns);
        }
        return;
    case STEP_HEAD:
        exchange_judge(x);
        return;
    case STEP_BODY:
        if (x->body_done)
            exchange_request(x);
        else
            exchange_fault_body(x);
        return;
    case STEP_BAD_HEAD:
        exchange_fault_head(x);
        return;
    case STEP_NO_MEMORY:
        weir_exchange_lost(x, WEIR_GONE_CLOSED);
        return;
    }
}

/* Fresh bytes (perhaps none) behind those that were left. */
static void exchange_input(struct weir_exchange *x, const char *bytes, size_t count)
{
    struct weir_block_pool *blocks = &x->server->blocks;
    size_t used = 0;
    if (x->phase == PHASE_LINGER) {
        x->linger_left_bytes -= weir_min_u64(count, x->linger_left_bytes);
        if (x->linger_left_bytes == 0)
            weir_exchange_close(x, true);
        return;
    }
    enum step step = STEP_NO_MEMORY;
    if (weir_block_bytes(&x->in) == 0) {
        step = exchange_take(x, bytes, count, &used);
        if (!weir_block_append(blocks, &x->in, bytes + used, count - used))
            step = STEP_NO_MEMORY;
    } else if (weir_block_append(blocks, &x->in, bytes, count)) {
        step = exchange_take(x, x->in.at + x->in.begin, weir_block_bytes(&x->in), &used);
        weir_block_consume(blocks, &x->in, used);
    }
    exchange_advance(x, step);
}

/* --- reading ------------------------------------------------------------------------------------
 */

/* Bytes to ask for. A little more than is wanted shows by a short read that the kernel has no more;
 * much more would let a peer store pipelined requests with us. */
static size_t read_room(const struct weir_exchange *x)
{
    if (x->phase == PHASE_LINGER)
        return SCRATCH_BYTES;
    if (x->phase == PHASE_BODY)
        return (size_t)weir_min_u64(SCRATCH_BYTES,
                                    weir_add_sat_u64(x->decoder.left_bytes, READ_BYTES));
    return READ_BYTES;
}

static bool wants_bytes(const struct weir_exchange *x)
{
    switch ((enum exchange_phase)x->phase) {
    case PHASE_IDLE:
    case PHASE_HEAD:
    case PHASE_BODY:
    case PHASE_LINGER:
        return true;
    case PHASE_HANDSHAKE:
    case PHASE_WAIT:
    case PHASE_CLOSED:
        break;
    }
    return false;
}

static void exchange_read(struct weir_exchange *x)
{
    struct weir_server *server = x->server;
    size_t turn_left = TURN_BYTES;
    while (x->readable && wants_bytes(x)) {
        if (turn_left == 0) {
            weir_exchange_again_soon(x);
            return;
        }
        size_t room = read_room(x);
        ssize_t got = weir_stream_read(&x->stream, server->scratch, room);
        if (got == WEIR_STREAM_AGAIN) {
            x->readable = false;
            return;
        }
        if (got <= 0) {
            weir_exchange_lost(x, WEIR_GONE_CLOSED);
            return;
        }
        x->readable = (size_t)got == room;
        server->counts.received_bytes += (uint64_t)got;
        turn_left -= (size_t)weir_min_u64(turn_left, (uint64_t)got);
        exchange_input(x, server->scratch, (size_t)got);
    }
}

static void exchange_handshake(struct weir_exchange *x)
{
    int answer = weir_stream_handshake(&x->stream);
    if (answer == WEIR_STREAM_AGAIN)
        return;
    if (answer == WEIR_STREAM_ERROR)
        weir_exchange_close(x, false);
    else
        x->phase = PHASE_IDLE; /* due as before: the head deadline, from accept */
}

void weir_exchange_ready(struct weir_stream *stream, uint32_t events)
{
    struct weir_exchange *x = (struct weir_exchange *)(void *)stream;
    if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
        weir_exchange_lost(x, WEIR_GONE_CLOSED);
        return;
    }
    if (x->stream.ssl || (events & EPOLLIN))
        x->readable = true;
    if (weir_block_bytes(&x->out) > 0)
        weir_exchange_dirty(x);
    if (x->phase == PHASE_HANDSHAKE)
        exchange_handshake(x);
    exchange_read(x);
}

void weir_exchange_again(struct weir_exchange *x)
{
    if (x->phase == PHASE_IDLE && weir_block_bytes(&x->in) > 0)
        exchange_input(x, NULL, 0);
    exchange_read(x);
}

void weir_exchange_due(struct weir_timer *timer)
{
    struct weir_exchange *x =
        (struct weir_exchange *)(void *)((char *)timer - offsetof(struct weir_exchange, timer));
    if (exchange_now_ns(x) < x->due_ns)
        return; /* it was taken back; cancelling would have cost more */
    switch ((enum exchange_phase)x->phase) {
    case PHASE_HANDSHAKE:
    case PHASE_IDLE:
        weir_exchange_close(x, false);
        return;
    case PHASE_HEAD:
        exchange_fault(x, WEIR_SERVER_HEAD_SLOW, WEIR_HTTP_FAULT_NONE);
        return;
    case PHASE_BODY:
        exchange_fault(x, WEIR_SERVER_BODY_SLOW, WEIR_HTTP_FAULT_NONE);
        return;
    case PHASE_WAIT:
        stall_due(x);
        return;
    case PHASE_LINGER:
        linger_due(x);
        return;
    case PHASE_CLOSED:
        return;
    }
}

/* --- what the handler may ask -------------------------------------------------------------------
 */

const struct weir_http_head *weir_exchange_head(const struct weir_exchange *x)
{
    return x->head;
}

struct weir_slice weir_exchange_path(const struct weir_exchange *x)
{
    if (x->head)
        return weir_http_text(x->head, x->head->path);
    /* A head that was refused: what stands behind the first space, if a method stands before it. */
    if (!x->in.at)
        return WEIR_SLICE("");
    const char *p = x->in.at + x->in.begin, *end = x->in.at + x->in.end;
    while (p < end && (*p == '\r' || *p == '\n'))
        p++;
    while (p < end && *p >= 'A' && *p <= 'Z')
        p++;
    if (p == end || *p++ != ' ')
        return WEIR_SLICE("");
    const char *path = p;
    while (p<end && * p> 0x20 && *p < 0x7f)
        p++;
    return (struct weir_slice){path, (size_t)(p - path)};
}

struct weir_slice weir_exchange_body(const struct weir_exchange *x)
{
    size_t bytes = weir_block_bytes(&x->body);
    return bytes > 0 ? (struct weir_slice){x->body.at + x->body.begin, bytes} : WEIR_SLICE("");
}

void weir_exchange_body_drop(struct weir_exchange *x)
{
    WEIR_INVARIANT(x->phase != PHASE_BODY);
    weir_block_drop(&x->server->blocks, &x->body);
}

struct weir_server *weir_exchange_server(const struct weir_exchange *x)
{
    return x->server;
}

void *weir_exchange_user(const struct weir_exchange *x)
{
    return x->user;
}

void weir_exchange_user_set(struct weir_exchange *x, void *user)
{
    x->user = user;
}

void *weir_exchange_connection_user(const struct weir_exchange *x)
{
    return x->connection_user;
}

void weir_exchange_connection_user_set(struct weir_exchange *x, void *user)
{
    x->connection_user = user;
}
