#include "net/client_internal.h"

#include <stdlib.h>
#include <sys/epoll.h>

struct connection *connection_create(struct weir_target *target)
{
    struct weir_client *client = target->client;
    struct connection *c = client->free_connections;
    if (c)
        client->free_connections = c->next;
    else if (!(c = malloc(sizeof *c)))
        return NULL;
    *c = (struct connection){.client = client, .target = target, .state = CONNECTION_DIALING};
    return c;
}

static void pool_unlink(struct connection *c)
{
    struct weir_target *target = c->target;
    if (c->previous)
        c->previous->next = c->next;
    else
        target->idle_newest = c->next;
    if (c->next)
        c->next->previous = c->previous;
    else
        target->idle_oldest = c->previous;
    c->next = c->previous = NULL;
    target->view.idle--;
}

void connection_close(struct connection *c)
{
    WEIR_INVARIANT(c->state != CONNECTION_GONE);
    if (c->state == CONNECTION_IDLE)
        pool_unlink(c);
    weir_stream_close(&c->stream, c->client->loop, false);
    c->state = CONNECTION_GONE;
    c->call = NULL;
    c->next = c->client->gone_connections;
    c->client->gone_connections = c;
}

/* Bytes, an end or an error on a connection that nobody uses: whatever it is, it is not an answer.
 */
static void pool_ready(struct connection *c, uint32_t events)
{
    char byte;
    if ((events & ~(uint32_t)EPOLLOUT) == 0)
        return;
    /* TLS has messages of its own (session tickets, key updates), which harm nobody. */
    if (c->stream.ssl && !c->stream.hung_up &&
        weir_stream_read(&c->stream, &byte, sizeof byte) == WEIR_STREAM_AGAIN)
        return;
    connection_close(c);
}

void connection_ready(struct weir_stream *stream, uint32_t events)
{
    struct connection *c =
        (struct connection *)((char *)stream - offsetof(struct connection, stream));
    switch (c->state) {
    case CONNECTION_DIALING:
        dial_ready(c, events);
        break;
    case CONNECTION_BUSY:
        call_ready(c, events);
        break;
    case CONNECTION_IDLE:
        pool_ready(c, events);
        break;
    case CONNECTION_GONE:
        break;
    }
}

struct connection *pool_take(struct weir_target *target)
{
    struct connection *c = target->idle_newest;
    if (!c)
        return NULL;
    pool_unlink(c);
    c->reused = true;
    return c;
}

/* Nothing may be left to read: it would be taken for the answer to the next request. */
static bool connection_is_clean(struct connection *c)
{
    char byte;
    if (c->stream.hung_up)
        return false;
    return weir_stream_quiet(&c->stream) ||
           weir_stream_read(&c->stream, &byte, sizeof byte) == WEIR_STREAM_AGAIN;
}

void pool_give(struct connection *c)
{
    struct weir_target *target = c->target;
    WEIR_INVARIANT(c->state == CONNECTION_BUSY && !c->call);
    if (target->pool_max == 0 || !connection_is_clean(c)) {
        connection_close(c);
        return;
    }
    free(c->held);
    c->held = NULL;
    c->held_bytes = c->held_room = 0;
    c->idle_until_ns = weir_add_sat_u64(weir_loop_now_ns(c->client->loop), target->pool_idle_ns);
    c->state = CONNECTION_IDLE;
    c->previous = NULL;
    c->next = target->idle_newest;
    if (c->next)
        c->next->previous = c;
    else
        target->idle_oldest = c;
    target->idle_newest = c;
    if (++target->view.idle > target->pool_max)
        connection_close(target->idle_oldest);
    if (!weir_timer_is_set(&target->idle_timer))
        weir_timer_set(c->client->loop, &target->idle_timer, target->idle_oldest->idle_until_ns);
}

void pool_idle_fire(struct weir_timer *timer)
{
    struct weir_target *target =
        (struct weir_target *)((char *)timer - offsetof(struct weir_target, idle_timer));
    struct weir_loop *loop = target->client->loop;
    while (target->idle_oldest && target->idle_oldest->idle_until_ns <= weir_loop_now_ns(loop))
        connection_close(target->idle_oldest);
    if (target->idle_oldest)
        weir_timer_set(loop, timer, target->idle_oldest->idle_until_ns);
}

void pool_clear(struct weir_target *target)
{
    while (target->idle_oldest)
        connection_close(target->idle_oldest);
    weir_timer_cancel(target->client->loop, &target->idle_timer);
}

uint32_t pool_clear_all(struct weir_client *client)
{
    uint32_t closed = 0;
    for (struct weir_target *target = client->targets; target; target = target->next) {
        closed += target->view.idle;
        pool_clear(target);
    }
    return closed;
}
