#include "net/client_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* --- timers --- */

static void call_timer_set(struct weir_call *call)
{
    weir_timer_set(call->target->client->loop, &call->timer,
                   weir_min_u64(call->phase_due_ns, call->request.timeouts.total_deadline_ns));
}

static uint64_t phase_ns(const struct weir_call *call)
{
    const struct weir_call_timeouts *t = &call->request.timeouts;
    switch (call->state) {
    case CALL_DIALING:
        return t->connect_ns;
    case CALL_WRITING:
        return t->write_ns;
    case CALL_WAITING:
        return t->first_byte_ns;
    case CALL_READING:
        return t->idle_ns;
    case CALL_QUEUED:
    case CALL_GONE:
        break;
    }
    return WEIR_NEVER_NS;
}

void call_phase_restart(struct weir_call *call)
{
    uint64_t now_ns = weir_loop_now_ns(call->target->client->loop);
    bool stands_still = call->paused && call->state >= CALL_WAITING;
    call->phase_due_ns = stands_still ? WEIR_NEVER_NS : weir_add_sat_u64(now_ns, phase_ns(call));
    call_timer_set(call);
}

void call_enter(struct weir_call *call, enum call_state state)
{
    call->state = state;
    call_phase_restart(call);
}

static void call_timeout(struct weir_call *call, enum weir_call_failure failure, const char *what,
                         uint64_t limit_ns)
{
    char detail[400];
    snprintf(detail, sizeof detail, "%s: not within %llu.%03llu s", what,
             (unsigned long long)(limit_ns / WEIR_NS_PER_S),
             (unsigned long long)(limit_ns % WEIR_NS_PER_S / WEIR_NS_PER_MS));
    call_end(call, failure, detail, false);
}

static void call_timer_fire(struct weir_timer *timer)
{
    struct weir_call *call =
        (struct weir_call *)((char *)timer - offsetof(struct weir_call, timer));
    const struct weir_call_timeouts *t = &call->request.timeouts;
    char what[300];
    if (weir_loop_now_ns(call->target->client->loop) >= t->total_deadline_ns) {
        call_end(call, WEIR_CALL_E_TOTAL_TIMEOUT, "the whole call: its deadline has passed", false);
        return;
    }
    switch (call->state) {
    case CALL_DIALING:
        call_timeout(call, WEIR_CALL_E_CONNECT_TIMEOUT, dial_phase(call, what, sizeof what),
                     t->connect_ns);
        break;
    case CALL_WRITING:
        call_timeout(call, WEIR_CALL_E_WRITE_TIMEOUT, "the upstream takes the request",
                     t->write_ns);
        break;
    case CALL_WAITING:
        call_timeout(call, WEIR_CALL_E_FIRST_BYTE_TIMEOUT, "first byte of the answer",
                     t->first_byte_ns);
        break;
    case CALL_READING:
        call_timeout(call, WEIR_CALL_E_IDLE_TIMEOUT, "next byte of the answer", t->idle_ns);
        break;
    case CALL_QUEUED:
    case CALL_GONE:
        WEIR_INVARIANT(call->state == CALL_DIALING); /* these have no timer */
    }
}

/* --- the way of a call --- */

void call_begin(struct weir_call *call)
{
    struct weir_target *target = call->target;
    call->timer.fire = call_timer_fire;
    if (weir_loop_now_ns(target->client->loop) >= call->request.timeouts.total_deadline_ns) {
        call_end(call, WEIR_CALL_E_TOTAL_TIMEOUT, "the call's deadline had passed when it began",
                 false);
        return;
    }
    struct connection *c = pool_take(target);
    if (!c) {
        dial_start(call);
        return;
    }
    target->view.reuses++;
    call_connected(call, c);
}

uint64_t call_left_bytes(const struct weir_call *call)
{
    return call->request_bytes - call->written_bytes;
}

/* What is still to be written; returns the count of entries. */
static int request_left(const struct weir_call *call,
                        struct iovec iov[static 1 + WEIR_CALL_PIECES_MAX])
{
    uint64_t skip = call->written_bytes;
    int count = 0;
    for (uint32_t i = 0; i <= call->request.piece_count; i++) {
        const struct weir_slice *s = i == 0 ? &call->request.head : &call->request.pieces[i - 1];
        if (skip >= s->bytes) {
            skip -= s->bytes;
            continue;
        }
        iov[count++] = (struct iovec){.iov_base = (char *)(uintptr_t)(s->at + skip),
                                      .iov_len = s->bytes - (size_t)skip};
        skip = 0;
    }
    return count;
}

/* Writes what the socket takes. False when the call must not be touched any more. */
static bool call_write(struct weir_call *call)
{
    struct connection *c = call->connection;
    uint64_t before_bytes = c->stream.out_bytes;
    ssize_t n = 0;
    while (n >= 0 && call_left_bytes(call) > 0) {
        struct iovec iov[1 + WEIR_CALL_PIECES_MAX];
        int count = request_left(call, iov);
        n = weir_stream_writev(&c->stream, iov, count);
        if (n > 0)
            call->written_bytes += (uint64_t)n;
    }
    bool progress = c->stream.out_bytes > before_bytes;
    call->sent = call->sent || c->stream.out_bytes > call->out_bytes_before;
    if (n == WEIR_STREAM_ERROR) {
        char text[160];
        call->write_fault = c->stream.fault ? c->stream.fault : EPROTO;
        if (!call->sent) {
            call_broken(call, weir_stream_fault_text(&c->stream, text, sizeof text));
            return false;
        }
    }
    if (call->sent && !call->sent_told) {
        call->sent_told = true;
        call->handler->sent(call->ctx);
        if (call->state == CALL_GONE)
            return false;
    }
    if (call->state != CALL_WRITING)
        return true;
    if (call_left_bytes(call) == 0)
        call_enter(call, CALL_WAITING);
    else if (progress)
        call_phase_restart(call);
    if (call->write_fault == 0)
        return true;
    answer_read(call); /* an answer that came before the break, or what the break was */
    return false;
}

void call_connected(struct weir_call *call, struct connection *c)
{
    c->state = CONNECTION_BUSY;
    c->call = call;
    call->connection = c;
    call->target->view.busy++;
    call->out_bytes_before = c->stream.out_bytes;
    answer_begin(c);
    call_enter(call, CALL_WRITING);
    (void)call_write(call);
}

void call_ready(struct connection *c, uint32_t events)
{
    struct weir_call *call = c->call;
    (void)events;
    if (call_left_bytes(call) > 0 && !call->write_stopped && call->write_fault == 0 &&
        !call_write(call))
        return;
    answer_read(call);
}

static void call_detach(struct weir_call *call, bool keep)
{
    struct connection *c = call->connection;
    if (!c)
        return;
    call->connection = NULL;
    c->call = NULL;
    call->target->view.busy--;
    if (keep)
        pool_give(c);
    else
        connection_close(c);
}

/* A pooled connection that the peer had closed, or was about to: a new one takes the request, if
 * nothing of it can have been read, or if it may be read twice and nothing was answered. */
static bool call_may_replace(const struct weir_call *call)
{
    const struct connection *c = call->connection;
    bool is_unanswered = call->state != CALL_READING && c->held_bytes == 0;
    return c->reused && !call->replaced &&
           (!call->sent || (call->request.is_repeatable && is_unanswered));
}

void call_broken(struct weir_call *call, const char *why)
{
    char detail[400], address[WEIR_ADDRESS_TEXT_BYTES];
    struct connection *c = call->connection;
    if (call_may_replace(call)) {
        call->replaced = true;
        call->write_fault = 0;
        call->written_bytes = 0;
        call_detach(call, false);
        dial_start(call);
        return;
    }
    bool begun = call->state == CALL_READING;
    const char *when = begun                       ? "within the answer"
                       : call_left_bytes(call) > 0 ? "within the request"
                                                   : "before the answer";
    weir_address_text(&c->address, address);
    if (call->write_fault && !begun)
        snprintf(detail, sizeof detail, "connection to %s broke %s: %s, then %s", address, when,
                 strerror(call->write_fault), why);
    else
        snprintf(detail, sizeof detail, "connection to %s broke %s: %s", address, when, why);
    call_end(call, begun ? WEIR_CALL_E_CUT : WEIR_CALL_E_WRITE, detail, false);
}

/* Everything but the callback. */
static void call_retire(struct weir_call *call, bool keep)
{
    struct weir_client *client = call->target->client;
    WEIR_INVARIANT(call->state != CALL_GONE);
    if (call->link)
        call_unqueue(call);
    if (call->resuming)
        call_resume_remove(call);
    dial_abandon(call);
    call_detach(call, keep);
    weir_timer_cancel(client->loop, &call->timer);
    call->target->calls--;
    call->state = CALL_GONE;
    call->next = client->gone_calls;
    client->gone_calls = call;
}

void call_end(struct weir_call *call, enum weir_call_failure failure, const char *detail, bool keep)
{
    struct weir_client *client = call->target->client;
    struct weir_call_result result = {failure, call->sent, client->detail};
    snprintf(client->detail, sizeof client->detail, "%s", detail); /* its owner is retired now */
    call->target->view.failures += failure != WEIR_CALL_OK;
    call_retire(call, keep);
    call->handler->done(call->ctx, &result);
}

bool weir_call_cancel(struct weir_call *call)
{
    call_retire(call, false);
    return call->sent;
}

void weir_call_pause(struct weir_call *call)
{
    WEIR_INVARIANT(call->state != CALL_GONE);
    if (call->paused)
        return;
    call->paused = true;
    if (call->state >= CALL_WAITING)
        call_phase_restart(call);
}

void weir_call_resume(struct weir_call *call)
{
    WEIR_INVARIANT(call->state != CALL_GONE);
    if (!call->paused)
        return;
    call->paused = false;
    if (call->state >= CALL_WAITING)
        call_phase_restart(call);
    if (call->connection)
        call_resume_later(call, 0);
}
