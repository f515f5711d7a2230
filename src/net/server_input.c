#include <string.h>
#include <sys/epoll.h>

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

void weir_exchange_input_stop(struct weir_exchange *x)
{
    if (x->phase != PHASE_BODY)
        return;
    x->phase = PHASE_WAIT;
    weir_exchange_due_set(x, WEIR_NEVER_NS);
}

/* --- refusals -----------------------------------------------------------------------------------
 */

void weir_exchange_fault(struct weir_exchange *x, enum weir_server_fault fault,
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
    weir_exchange_fault(x,
                        fault == WEIR_HTTP_FAULT_HEAD_TOO_LARGE ? WEIR_SERVER_HEAD_TOO_LARGE
                                                                : WEIR_SERVER_BAD_HEAD,
                        fault);
}

static void exchange_fault_body(struct weir_exchange *x)
{
    enum weir_http_fault fault = x->decoder.fault;
    weir_exchange_fault(x,
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
        uint64_t grace_ns =
            weir_add_sat_u64(weir_loop_now_ns(x->server->loop), x->server->limits.body_grace_ns);
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
        weir_exchange_fault(x, (enum weir_server_fault)x->refuse, WEIR_HTTP_FAULT_NONE);
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
    weir_exchange_due_in(x, server->limits.body_grace_ns);
    if (x->head->expect_continue && x->decoder.data_bytes == 0)
        weir_exchange_append(x, "HTTP/1.1 100 Continue\r\n\r\n", 25);
}

static void exchange_advance(struct weir_exchange *x, enum step step)
{
    switch (step) {
    case STEP_NONE:
        if (x->phase == PHASE_IDLE && weir_block_bytes(&x->in) > 0) {
            x->phase = PHASE_HEAD;
            weir_exchange_due_in(x, x->server->limits.head_ns);
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
