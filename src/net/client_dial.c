#include "net/client_internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

static struct dial *dial_create(struct weir_call *call)
{
    struct weir_client *client = call->target->client;
    struct dial *d = client->free_dials;
    if (d)
        client->free_dials = d->next;
    else if (!(d = malloc(sizeof *d)))
        return NULL;
    d->next = NULL;
    d->call = call;
    d->link = NULL;
    d->address_count = d->address_next = 0;
    d->attempts = d->winner = NULL;
    d->failure = WEIR_CALL_E_CONNECT;
    d->detail[0] = '\0';
    return d;
}

static void waiters_add(struct dial *d)
{
    struct weir_target *target = d->call->target;
    d->next = target->name_waiters;
    if (d->next)
        d->next->link = &d->next;
    d->link = &target->name_waiters;
    target->name_waiters = d;
}

static void waiters_remove(struct dial *d)
{
    if (!d->link)
        return;
    *d->link = d->next;
    if (d->next)
        d->next->link = d->link;
    d->link = NULL;
}

static void attempts_remove(struct dial *d, struct connection *c)
{
    if (c->previous)
        c->previous->next = c->next;
    else
        d->attempts = c->next;
    if (c->next)
        c->next->previous = c->previous;
    c->next = c->previous = NULL;
}

static void attempts_close(struct dial *d)
{
    while (d->attempts) {
        struct connection *c = d->attempts;
        attempts_remove(d, c);
        connection_close(c);
    }
}

/* The call has no dial any more; attempts still in it are closed. */
static void dial_retire(struct weir_call *call)
{
    struct dial *d = call->dial;
    struct weir_target *target = call->target;
    attempts_close(d);
    weir_timer_cancel(target->client->loop, &d->gap_timer);
    waiters_remove(d);
    call->dial = NULL;
    d->next = target->client->free_dials;
    target->client->free_dials = d;
    target->view.connecting--;
}

void dial_abandon(struct weir_call *call)
{
    if (call->dial)
        dial_retire(call);
}

/* Keeps what went wrong for the case that nothing else goes right. */
static void dial_note(struct dial *d, enum weir_call_failure failure,
                      const struct weir_address *address, const char *why)
{
    char text[WEIR_ADDRESS_TEXT_BYTES];
    d->failure = failure;
    if (failure == WEIR_CALL_E_DESCRIPTORS)
        snprintf(
            d->detail, sizeof d->detail,
            "connect to %s: %s: raise the limit of open files (ulimit -n, LimitNOFILE=) or lower "
            "the number of connections",
            weir_address_text(address, text), why);
    else
        snprintf(d->detail, sizeof d->detail, "connect to %s: %s", weir_address_text(address, text),
                 why);
}

/* A socket on its way to address, registered; NULL and a note when that fails at once. */
static struct connection *attempt_open(struct dial *d, const struct weir_address *address)
{
    struct weir_target *target = d->call->target;
    int fd, type = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
    fd = socket(address->at.any.sa_family, type, 0);
    /* Idle connections are worth less than a call. */
    if (fd < 0 && (errno == EMFILE || errno == ENFILE) && pool_clear_all(target->client) > 0)
        fd = socket(address->at.any.sa_family, type, 0);
    if (fd < 0) {
        bool scarce = errno == EMFILE || errno == ENFILE;
        dial_note(d, scarce ? WEIR_CALL_E_DESCRIPTORS : WEIR_CALL_E_CONNECT, address,
                  scarce ? "out of file descriptors" : strerror(errno));
        return NULL;
    }
    /* Connecting first: a socket that is not even connecting counts as hung up. */
    if (connect(fd, &address->at.any, address->bytes) < 0 && errno != EINPROGRESS &&
        errno != EINTR) {
        dial_note(d, WEIR_CALL_E_CONNECT, address, strerror(errno));
        weir_name_address_failed(target->name, address);
        close(fd);
        return NULL;
    }
    struct connection *c = connection_create(target);
    int fault =
        c ? weir_stream_open(&c->stream, target->client->loop, fd, connection_ready) : -ENOMEM;
    if (fault == 0) {
        c->address = *address;
        c->call = d->call;
        return c;
    }
    dial_note(d, WEIR_CALL_E_CONNECT, address, strerror(-fault));
    close(fd);
    if (c)
        connection_close(c);
    return NULL;
}

/* Starts the next attempt; ends the call when there is none left, none under way and none to come.
 */
static void dial_next(struct dial *d)
{
    struct weir_call *call = d->call;
    struct weir_loop *loop = call->target->client->loop;
    while (d->address_next < d->address_count) {
        struct connection *c = attempt_open(d, &d->addresses[d->address_next++]);
        if (!c)
            continue;
        c->next = d->attempts;
        if (c->next)
            c->next->previous = c;
        d->attempts = c;
        d->attempt_ns = weir_loop_now_ns(loop);
        if (d->address_next < d->address_count)
            weir_timer_set(loop, &d->gap_timer, d->attempt_ns + ATTEMPT_GAP_NS);
        return;
    }
    if (!d->attempts && !d->link)
        call_end(call, d->failure, d->detail, false);
}

static void dial_gap_fire(struct weir_timer *timer)
{
    dial_next((struct dial *)((char *)timer - offsetof(struct dial, gap_timer)));
}

/* Adds the addresses that are new to it. */
static void dial_add_addresses(struct dial *d)
{
    struct weir_address now[WEIR_COUNT(d->addresses)];
    uint32_t count = weir_name_order(d->call->target->name, now, WEIR_COUNT(now));
    for (uint32_t i = 0; i < count && d->address_count < WEIR_COUNT(d->addresses); i++) {
        uint32_t known = 0;
        while (known < d->address_count && !weir_address_equal(&d->addresses[known], &now[i]))
            known++;
        if (known == d->address_count)
            d->addresses[d->address_count++] = now[i];
    }
}

/* Goes on with what the name's answer says; at the start, and after each change. */
static void dial_with_name(struct dial *d)
{
    struct weir_call *call = d->call;
    struct weir_target *target = call->target;
    enum weir_name_answer answer = weir_name_get(target->name);
    if (weir_name_more_to_come(target->name))
        waiters_add(d);
    switch (answer) {
    case WEIR_NAME_READY:
        dial_add_addresses(d);
        break;
    case WEIR_NAME_WAIT:
        return;
    case WEIR_NAME_FAILED:
        if (d->address_count > 0)
            break; /* it had some before: what became of them counts */
        if (weir_name_lacked_descriptors(target->name)) {
            pool_clear_all(target->client); /* the next question finds some */
            d->failure = WEIR_CALL_E_DESCRIPTORS;
        } else {
            d->failure = WEIR_CALL_E_RESOLVE;
        }
        snprintf(d->detail, sizeof d->detail, "%s", weir_name_detail(target->name));
        break;
    }
    if (!d->attempts)
        dial_next(d);
    else if (d->address_next < d->address_count)
        weir_timer_set(target->client->loop, &d->gap_timer, d->attempt_ns + ATTEMPT_GAP_NS);
}

void dial_start(struct weir_call *call)
{
    struct dial *d = dial_create(call);
    if (!d) {
        call_end(call, WEIR_CALL_E_CONNECT, "out of memory", false);
        return;
    }
    d->gap_timer = (struct weir_timer){.fire = dial_gap_fire};
    call->dial = d;
    call->target->view.connecting++;
    call_enter(call, CALL_DIALING);
    dial_with_name(d);
}

void dial_name_changed(void *target_of_name)
{
    struct weir_target *target = target_of_name;
    /* Each is told once: those that still wait go back to the other list. What the end of a call
     * does may take others out of either list. */
    target->name_waiters_now = target->name_waiters;
    target->name_waiters = NULL;
    if (target->name_waiters_now)
        target->name_waiters_now->link = &target->name_waiters_now;
    while (target->name_waiters_now) {
        struct dial *d = target->name_waiters_now;
        waiters_remove(d);
        dial_with_name(d);
    }
}

static void dial_done(struct weir_call *call, struct connection *c)
{
    attempts_remove(call->dial, c);
    dial_retire(call);
    call->target->view.connects++;
    call_connected(call, c);
}

static void dial_handshake(struct dial *d, struct connection *c)
{
    struct weir_call *call = d->call;
    char text[400], detail[512], address[WEIR_ADDRESS_TEXT_BYTES];
    int answer = weir_stream_handshake(&c->stream);
    if (answer == WEIR_STREAM_AGAIN)
        return;
    if (answer == 1) {
        call->target->view.tls_resumed += weir_stream_resumed(&c->stream);
        dial_done(call, c);
        return;
    }
    snprintf(detail, sizeof detail, "TLS with %s: %s", weir_address_text(&c->address, address),
             weir_stream_fault_text(&c->stream, text, sizeof text));
    call_end(call, WEIR_CALL_E_TLS, detail, false);
}

static void dial_secure(struct dial *d, struct connection *c)
{
    struct weir_target *target = c->target;
    char text[400] = "out of memory";
    struct weir_tls *tls = client_tls_get(target->client, target->ca_file, text, sizeof text);
    if (tls && weir_stream_secure(&c->stream, tls, target->peer) == 0) {
        d->winner = c;
        dial_handshake(d, c);
        return;
    }
    call_end(d->call, WEIR_CALL_E_TLS, text, false);
}

static void attempt_failed(struct dial *d, struct connection *c, const char *why)
{
    dial_note(d, WEIR_CALL_E_CONNECT, &c->address, why);
    weir_name_address_failed(c->target->name, &c->address);
    attempts_remove(d, c);
    connection_close(c);
    dial_next(d);
}

static void attempt_won(struct dial *d, struct connection *c)
{
    weir_name_address_won(c->target->name, &c->address);
    for (const struct connection *older = c->next; older; older = older->next)
        weir_name_address_failed(c->target->name, &older->address); /* had a start, and lost */
    weir_timer_cancel(c->client->loop, &d->gap_timer);
    waiters_remove(d);
    attempts_remove(d, c);
    attempts_close(d);
    d->attempts = c;
    if (c->target->tls)
        dial_secure(d, c);
    else
        dial_done(d->call, c);
}

void dial_ready(struct connection *c, uint32_t events)
{
    struct dial *d = c->call->dial;
    if (d->winner == c) {
        dial_handshake(d, c);
        return;
    }
    int fault = 0;
    socklen_t bytes = sizeof fault;
    if (getsockopt(c->stream.io.fd, SOL_SOCKET, SO_ERROR, &fault, &bytes) < 0)
        fault = errno;
    if (fault != 0)
        attempt_failed(d, c, strerror(fault));
    else if (c->stream.hung_up)
        attempt_failed(d, c, "the upstream closed the connection at once");
    else if (events & EPOLLOUT)
        attempt_won(d, c);
}

const char *dial_phase(const struct weir_call *call, char *text, size_t text_bytes)
{
    const struct dial *d = call->dial;
    char address[WEIR_ADDRESS_TEXT_BYTES];
    if (!d->attempts && d->link)
        snprintf(text, text_bytes, "resolve %.200s", call->target->host);
    else if (d->winner)
        snprintf(text, text_bytes, "TLS handshake with %s",
                 weir_address_text(&d->winner->address, address));
    else if (d->attempts)
        snprintf(text, text_bytes, "connect to %s",
                 weir_address_text(&d->attempts->address, address));
    else
        snprintf(text, text_bytes, "connect");
    return text;
}
