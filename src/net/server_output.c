#include <stdio.h>
#include <string.h>
#include <time.h>

#include "net/server_exchange.h"

/* --- sending ------------------------------------------------------------------------------------
 */

void weir_exchange_dirty(struct weir_exchange *x)
{
    struct weir_server *server = x->server;
    if (x->phase == PHASE_CLOSED || x->dirty.link)
        return;
    EXCHANGE_ADD(server->dirty, x, dirty);
    /* Too late for the end of this turn: the next one comes at once. */
    if (server->flushed_turn == weir_loop_turns(server->loop))
        weir_timer_set(server->loop, &server->again_timer, 0);
}

void weir_exchange_append(struct weir_exchange *x, const void *bytes, size_t count)
{
    if (!weir_block_append(&x->server->blocks, &x->out, bytes, count))
        x->no_memory = true;
    weir_exchange_dirty(x);
}

/* Gives the kernel what it takes. false: the connection is closed. */
static bool exchange_send(struct weir_exchange *x)
{
    struct weir_server *server = x->server;
    bool progress = false;
    size_t count;
    while ((count = weir_block_bytes(&x->out)) > 0) {
        struct iovec iov = {x->out.at + x->out.begin, count};
        ssize_t sent = weir_stream_writev(&x->stream, &iov, 1);
        if (sent == WEIR_STREAM_AGAIN)
            break;
        if (sent <= 0) {
            weir_exchange_lost(x, WEIR_GONE_CLOSED);
            return false;
        }
        progress = true;
        server->counts.sent_bytes += (uint64_t)sent;
        weir_block_consume(&server->blocks, &x->out, (size_t)sent);
    }
    if (x->phase != PHASE_WAIT)
        return true;
    if (count == 0)
        weir_exchange_due_set(x, WEIR_NEVER_NS);
    else if (progress || x->due_ns == WEIR_NEVER_NS)
        weir_exchange_stall_begin(x);
    return true;
}

/* An aborted answer is with the kernel as far as it goes. Its framing shows a chunked or counted
 * body to be cut off even by a FIN, which, unlike a RST, takes nothing from the client that was
 * sent before. Only where a FIN would look like the proper end there is a RST, once all is sent. */
static void exchange_cut(struct weir_exchange *x)
{
    if (x->answer_unsent) {
        weir_exchange_close(x, true);
        return;
    }
    x->reset_when_sent = x->answer_body == BODY_CLOSE ||
                         (x->answer_body == BODY_LENGTH && x->answer_left_bytes == 0);
    weir_exchange_end(x);
}

void weir_exchange_flush(struct weir_exchange *x)
{
    struct weir_server *server = x->server;
    if (x->phase == PHASE_CLOSED)
        return;
    if (x->no_memory) {
        weir_exchange_lost(x, WEIR_GONE_CLOSED);
        return;
    }
    if (!exchange_send(x))
        return;
    size_t unsent = weir_block_bytes(&x->out);
    if (unsent == 0 && x->answer == ANSWER_FINISHED) {
        weir_exchange_next(x);
        return;
    }
    if (unsent == 0 && x->answer == ANSWER_ABORTED) {
        exchange_cut(x);
        return;
    }
    if (!x->was_full || unsent > WEIR_EXCHANGE_HIGH_BYTES / 2)
        return;
    x->was_full = false;
    if (x->told && x->answer != ANSWER_FINISHED && server->handler.drained) {
        /* What the handler sets going must not wait for the next event. */
        weir_timer_set(server->loop, &server->again_timer, 0);
        server->handler.drained(server->handler.ctx, x);
    }
}

/* --- heads --------------------------------------------------------------------------------------
 */

/* The wall clock is read once a turn, and the line made once a second (RFC 9110 5.6.7). */
static void server_date_renew(struct weir_server *server)
{
    static const char days[] = "SunMonTueWedThuFriSat";
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    struct timespec wall;
    struct tm utc;
    uint64_t now_ns = weir_loop_now_ns(server->loop);
    if (server->date_bytes > 0 && server->date_checked_ns == now_ns)
        return;
    server->date_checked_ns = now_ns;
    clock_gettime(CLOCK_REALTIME_COARSE, &wall);
    if (server->date_bytes > 0 && server->date_s == wall.tv_sec)
        return;
    server->date_s = wall.tv_sec;
    gmtime_r(&wall.tv_sec, &utc);
    int bytes = snprintf(server->date, sizeof server->date,
                         "date: %.3s, %02d %.3s %04d %02d:%02d:%02d GMT\r\n",
                         days + 3 * utc.tm_wday, utc.tm_mday, months + 3 * utc.tm_mon,
                         utc.tm_year + 1900, utc.tm_hour, utc.tm_min, utc.tm_sec);
    WEIR_INVARIANT(bytes > 0 && (size_t)bytes < sizeof server->date);
    server->date_bytes = (size_t)bytes;
}

/* How the body will end, by the request, the status and what the handler knows (RFC 9112 6.3). */
static enum exchange_body answer_body_of(const struct weir_exchange *x, uint32_t status,
                                         uint64_t body_bytes)
{
    if (status == 204 || status == 304 || (x->head && x->head->method == WEIR_HTTP_HEAD))
        return BODY_DROPPED;
    if (body_bytes != WEIR_BODY_CHUNKED)
        return BODY_LENGTH;
    return x->head && x->head->version_minor == 0 ? BODY_CLOSE : BODY_CHUNKED;
}

static bool is_http10(const struct weir_exchange *x)
{
    return x->head && x->head->version_minor == 0;
}

struct weir_http_out *weir_exchange_answer(struct weir_exchange *x, uint32_t status,
                                           struct weir_slice reason, uint64_t body_bytes)
{
    struct weir_server *server = x->server;
    struct weir_http_out *out = &server->out;
    server->void_out = (struct weir_http_out){.overflow = true};
    if (x->over)
        return &server->void_out;
    WEIR_INVARIANT(x->answer == ANSWER_NONE);
    WEIR_INVARIANT(!server->out_of);
    WEIR_INVARIANT(status >= 200 && status <= 999);
    weir_exchange_input_stop(x);
    server->out_of = x;
    x->answer = ANSWER_HEAD;
    x->dated = false;
    x->answer_body = (uint8_t)answer_body_of(x, status, body_bytes);
    x->answer_left_bytes = x->answer_body == BODY_LENGTH ? body_bytes : 0;
    if (!x->head || !x->head->keep_alive || !x->body_done || server->draining ||
        x->answer_body == BODY_CLOSE)
        x->close_after = true;

    *out = (struct weir_http_out){
        .buf = server->scratch + SCRATCH_BYTES, .used = 0, .room = WEIR_EXCHANGE_HEAD_BYTES};
    weir_http_write_status(out, (int)status, reason);
    if (status == 204 || status == 304)
        return out;
    if (body_bytes != WEIR_BODY_CHUNKED)
        weir_http_write_content_length(out, body_bytes);
    else if (!is_http10(x))
        weir_http_write_chunked(out);
    return out;
}

void weir_exchange_answer_dated(struct weir_exchange *x)
{
    x->dated = true;
}

bool weir_exchange_answer_head_end(struct weir_exchange *x)
{
    struct weir_server *server = x->server;
    struct weir_http_out *out = &server->out;
    if (x->over)
        return true;
    WEIR_INVARIANT(server->out_of == x && x->answer == ANSWER_HEAD);
    server->out_of = NULL;
    if (!x->dated) {
        server_date_renew(server);
        weir_http_write_raw(out, (struct weir_slice){server->date, server->date_bytes});
    }
    if (x->close_after)
        weir_http_write_raw(out, WEIR_SLICE("connection: close\r\n"));
    else if (is_http10(x))
        weir_http_write_raw(out, WEIR_SLICE("connection: keep-alive\r\n"));
    weir_http_write_end(out);
    if (!weir_http_out_ok(out)) {
        x->answer = ANSWER_NONE;
        return false;
    }
    x->answer = ANSWER_BODY;
    weir_exchange_append(x, out->buf, out->used);
    return true;
}

/* --- bodies -------------------------------------------------------------------------------------
 */

static void write_chunk(struct weir_exchange *x, const void *bytes, size_t count)
{
    struct weir_block *out = &x->out;
    char head[WEIR_HTTP_CHUNK_HEAD_MAX];
    size_t head_bytes = weir_http_chunk_head(head, count);
    if (!weir_block_reserve(&x->server->blocks, out, head_bytes + count + 2, 0)) {
        x->no_memory = true;
        return;
    }
    memcpy(out->at + out->end, head, head_bytes);
    memcpy(out->at + out->end + head_bytes, bytes, count);
    memcpy(out->at + out->end + head_bytes + count, WEIR_HTTP_CHUNK_TAIL, 2);
    out->end += head_bytes + count + 2;
}

void weir_exchange_write(struct weir_exchange *x, const void *bytes, size_t count)
{
    if (x->over || count == 0)
        return;
    WEIR_INVARIANT(x->answer == ANSWER_BODY);
    switch ((enum exchange_body)x->answer_body) {
    case BODY_DROPPED:
        return;
    case BODY_LENGTH:
        WEIR_INVARIANT(count <= x->answer_left_bytes);
        x->answer_left_bytes -= count;
        weir_exchange_append(x, bytes, count);
        break;
    case BODY_CLOSE:
        weir_exchange_append(x, bytes, count);
        break;
    case BODY_CHUNKED:
        write_chunk(x, bytes, count);
        weir_exchange_dirty(x);
        break;
    }
    if (weir_exchange_full(x))
        x->was_full = true;
}

void weir_exchange_trailer(struct weir_exchange *x, struct weir_slice name, struct weir_slice value)
{
    struct weir_block *block = &x->out;
    size_t line_bytes = name.bytes + value.bytes + 4;
    if (x->over || x->answer_body != BODY_CHUNKED)
        return;
    WEIR_INVARIANT(x->answer == ANSWER_BODY || x->answer == ANSWER_TRAILERS);
    if (x->answer == ANSWER_BODY)
        weir_exchange_append(x, "0\r\n", 3);
    x->answer = ANSWER_TRAILERS;
    if (x->no_memory || !weir_block_reserve(&x->server->blocks, block, line_bytes, 0)) {
        x->no_memory = true;
        return;
    }
    struct weir_http_out line = {.buf = block->at + block->end, .used = 0, .room = line_bytes};
    weir_http_write_header(&line, name, value);
    if (weir_http_out_ok(&line))
        block->end += line.used;
}

void weir_exchange_finish(struct weir_exchange *x)
{
    if (x->over)
        return;
    WEIR_INVARIANT(x->answer == ANSWER_BODY || x->answer == ANSWER_TRAILERS);
    WEIR_INVARIANT(x->answer_left_bytes == 0);
    if (x->answer_body == BODY_CHUNKED) {
        struct weir_slice last =
            x->answer == ANSWER_TRAILERS ? WEIR_SLICE("\r\n") : WEIR_SLICE(WEIR_HTTP_CHUNK_LAST);
        weir_exchange_append(x, last.at, last.bytes);
    }
    x->answer = ANSWER_FINISHED;
    weir_exchange_dirty(x);
}

void weir_exchange_abort(struct weir_exchange *x)
{
    if (x->over)
        return;
    x->told = false;
    x->over = true;
    x->close_after = true;
    weir_exchange_input_stop(x);
    if (x->server->out_of == x)
        x->server->out_of = NULL;
    if (x->answer != ANSWER_FINISHED) {
        x->answer_unsent = x->answer == ANSWER_NONE || x->answer == ANSWER_HEAD;
        x->answer = ANSWER_ABORTED;
    }
    weir_exchange_dirty(x);
}

void weir_exchange_respond(struct weir_exchange *x, uint32_t status, const char *content_type,
                           struct weir_slice headers, struct weir_slice body)
{
    const struct weir_slice usual = {NULL, 0};
    struct weir_http_out *out = weir_exchange_answer(x, status, usual, body.bytes);
    if (content_type)
        weir_http_write_header_text(out, "content-type", content_type);
    weir_http_write_raw(out, headers);
    if (!weir_exchange_answer_head_end(x)) {
        weir_exchange_answer(x, 500, usual, 0);
        bool ended = weir_exchange_answer_head_end(x);
        WEIR_INVARIANT(ended);
        weir_exchange_finish(x);
        return;
    }
    weir_exchange_write(x, body.at, body.bytes);
    weir_exchange_finish(x);
}

bool weir_exchange_full(const struct weir_exchange *x)
{
    return weir_block_bytes(&x->out) > WEIR_EXCHANGE_HIGH_BYTES;
}

bool weir_exchange_answering(const struct weir_exchange *x)
{
    return x->answer != ANSWER_NONE;
}

void weir_exchange_close_after(struct weir_exchange *x)
{
    x->close_after = true;
}
