#include "net/client_internal.h"

#include <stdlib.h>
#include <string.h>

/* --- bytes that have to wait for others: a head in several pieces, trailers --- */

static bool held_append(struct connection *c, const char *bytes, size_t count)
{
    if (count > c->held_room - c->held_bytes) {
        size_t room = c->held_room ? c->held_room : 512;
        while (room < c->held_bytes + count)
            room *= 2;
        char *held = realloc(c->held, room);
        if (!held)
            return false;
        c->held = held;
        c->held_room = room;
    }
    memcpy(c->held + c->held_bytes, bytes, count);
    c->held_bytes += count;
    return true;
}

static void held_trailer_byte(void *ctx, char byte)
{
    (void)held_append(ctx, &byte, 1); /* without memory, trailers are lost */
}

void answer_begin(struct connection *c)
{
    c->held_bytes = 0;
    c->scanned = 0;
}

/* --- the end --- */

/* Hands out "name: value" lines, which the decoder has checked. False when the call is gone. */
static bool answer_trailers(struct weir_call *call)
{
    struct connection *c = call->connection;
    const char *at = c->held, *end = at + c->held_bytes;
    if (!call->handler->trailer)
        return true;
    while (at < end) {
        const char *line_end = memchr(at, '\r', (size_t)(end - at));
        const char *colon = line_end ? memchr(at, ':', (size_t)(line_end - at)) : NULL;
        if (!colon)
            break;
        const char *from = colon + 1, *to = line_end;
        while (from < to && (*from == ' ' || *from == '\t'))
            from++;
        while (to > from && (to[-1] == ' ' || to[-1] == '\t'))
            to--;
        call->handler->trailer(call->ctx, (struct weir_slice){at, (size_t)(colon - at)},
                               (struct weir_slice){from, (size_t)(to - from)});
        if (call->state == CALL_GONE)
            return false;
        at = line_end + 2;
    }
    return true;
}

static void answer_complete(struct weir_call *call, bool more_follows)
{
    if (!answer_trailers(call))
        return;
    bool keep = call->keep && !more_follows && call_left_bytes(call) == 0;
    call_end(call, WEIR_CALL_OK, "", keep);
}

/* The connection ended, properly or not. */
static void answer_cut(struct weir_call *call, bool proper, const char *why)
{
    if (call->head_given && proper && weir_http_body_eof(&call->connection->body) == WEIR_HTTP_DONE)
        answer_complete(call, true);
    else
        call_broken(call, why);
}

/* --- reading --- */

/* Takes bytes of the body. False when the call is over. */
static bool answer_take_body(struct weir_call *call, char *bytes, size_t count)
{
    struct connection *c = call->connection;
    size_t used, data_bytes;
    enum weir_http_parse parse = weir_http_body_decode(&c->body, bytes, count, &used, &data_bytes);
    if (data_bytes > 0) {
        call->handler->body(call->ctx, (struct weir_slice){bytes, data_bytes});
        if (call->state == CALL_GONE)
            return false;
    }
    switch (parse) {
    case WEIR_HTTP_MORE:
        return true;
    case WEIR_HTTP_BAD:
        call_end(call, WEIR_CALL_E_ANSWER, weir_http_fault_text(c->body.fault), false);
        return false;
    case WEIR_HTTP_DONE:
        answer_complete(call, used < count);
        return false;
    }
    return false;
}

/* The final head is there, count bytes follow it. False when the call is over. */
static bool answer_take_head(struct weir_call *call, char *rest, size_t count)
{
    struct connection *c = call->connection;
    const struct weir_http_head *head = &call->target->client->head;
    call_enter(call, CALL_READING);
    call->keep = head->keep_alive;
    call->write_stopped = call_left_bytes(call) > 0 && head->status >= 300;
    weir_http_body_init(&c->body, head, UINT64_MAX);
    /* rest may lie in what is held, and trailers are held too: from here on in a buffer of their
     * own. */
    char *held = c->held;
    c->held = NULL;
    c->held_bytes = c->held_room = 0;
    c->body.trailer = held_trailer_byte;
    c->body.trailer_ctx = c;
    call->head_given = true;
    call->handler->head(call->ctx, head);
    bool more = call->state != CALL_GONE && answer_take_body(call, rest, count);
    free(held);
    return more;
}

/* "HTTP/1.1 2": the first digit of the status tells a final answer from one that announces it. */
static bool final_has_begun(const char *head, size_t bytes)
{
    return bytes > 9 && head[9] != '1';
}

/* Takes bytes of the head and what follows it. False when the call is over. */
static bool answer_take_start(struct weir_call *call, char *bytes, size_t count)
{
    struct weir_client *client = call->target->client;
    struct connection *c = call->connection;
    bool in_held = c->held_bytes > 0;
    if (in_held) {
        if (!held_append(c, bytes, count)) {
            call_end(call, WEIR_CALL_E_ANSWER, "out of memory for its head", false);
            return false;
        }
        bytes = c->held;
        count = c->held_bytes;
    }
    while (count > 0) {
        enum weir_http_parse parse =
            weir_http_response_parse(bytes, count, ANSWER_HEAD_BYTES,
                                     call->request.is_head_method ? WEIR_HTTP_HEAD : WEIR_HTTP_POST,
                                     &c->scanned, &client->head);
        if (parse == WEIR_HTTP_BAD) {
            call_end(call, WEIR_CALL_E_ANSWER, weir_http_fault_text(client->head.fault), false);
            return false;
        }
        if (parse == WEIR_HTTP_MORE)
            break;
        bytes += client->head.head_bytes;
        count -= client->head.head_bytes;
        c->scanned = 0;
        if (!client->head.interim)
            return answer_take_head(call, bytes, count);
    }
    if (in_held) {
        memmove(c->held, bytes, count);
        c->held_bytes = count;
    } else if (count > 0 && !held_append(c, bytes, count)) {
        call_end(call, WEIR_CALL_E_ANSWER, "out of memory for its head", false);
        return false;
    }
    if (call->state != CALL_READING && final_has_begun(c->held, count))
        call_enter(call, CALL_READING);
    return true;
}

static bool answer_take(struct weir_call *call, char *bytes, size_t count)
{
    if (!call->sent) {
        call_broken(call, "it spoke before it was asked");
        return false;
    }
    if (!call->head_given && call->state != CALL_READING)
        return answer_take_start(call, bytes, count);
    call_phase_restart(call);
    return call->head_given ? answer_take_body(call, bytes, count)
                            : answer_take_start(call, bytes, count);
}

void answer_read(struct weir_call *call)
{
    struct weir_client *client = call->target->client;
    struct connection *c = call->connection;
    char text[400];
    for (int reads = 0; !call->paused; reads++) {
        if (reads == READS_PER_TURN) {
            call_resume_later(call, weir_loop_turns(client->loop) + 1);
            return;
        }
        ssize_t n = weir_stream_read(&c->stream, client->buffer, sizeof client->buffer);
        if (n == WEIR_STREAM_AGAIN)
            return;
        if (n == WEIR_STREAM_EOF) {
            answer_cut(call, true, "the upstream closed it");
            return;
        }
        if (n == WEIR_STREAM_ERROR) {
            answer_cut(call, false, weir_stream_fault_text(&c->stream, text, sizeof text));
            return;
        }
        if (!answer_take(call, client->buffer, (size_t)n))
            return;
    }
}
