#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>

#include "net/server_exchange.h"

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

void weir_exchange_due_in(struct weir_exchange *x, uint64_t wait_ns)
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
    weir_exchange_due_in(x, x->server->limits.stall_ns / STALL_LOOKS);
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
        weir_exchange_due_in(x, LINGER_POLL_NS);
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
    weir_exchange_due_in(x, server->limits.keep_alive_ns);
    if (x->readable || weir_block_bytes(&x->in) > 0)
        weir_exchange_again_soon(x);
}

/* --- timers --------------------------------------------------------------------------------------
 */

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
        weir_exchange_fault(x, WEIR_SERVER_HEAD_SLOW, WEIR_HTTP_FAULT_NONE);
        return;
    case PHASE_BODY:
        weir_exchange_fault(x, WEIR_SERVER_BODY_SLOW, WEIR_HTTP_FAULT_NONE);
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
