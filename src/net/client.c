#include "net/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/client_internal.h"

/* --- clients --- */

/* Gone records become free ones: no callback is on the stack now. */
static void client_recycle(struct weir_client *client)
{
    while (client->gone_calls) {
        struct weir_call *call = client->gone_calls;
        client->gone_calls = call->next;
        call->next = client->free_calls;
        client->free_calls = call;
    }
    while (client->gone_connections) {
        struct connection *c = client->gone_connections;
        client->gone_connections = c->next;
        free(c->held);
        c->next = client->free_connections;
        client->free_connections = c;
    }
}

static void client_run(struct weir_hook *hook)
{
    struct weir_client *client =
        (struct weir_client *)((char *)hook - offsetof(struct weir_client, hook));
    client_recycle(client);
    /* Those that are started meanwhile have their own round, so that failing ones cannot hold the
     * loop. */
    for (uint32_t left = client->queued; left > 0 && client->queue; left--) {
        struct weir_call *call = client->queue;
        call_unqueue(call);
        call_begin(call);
    }
}

/* --- calls that are to be read on although no event says so --- */

static bool resuming_unlink(struct weir_call **at, const struct weir_call *call)
{
    while (*at && *at != call)
        at = &(*at)->resume_next;
    if (!*at)
        return false;
    *at = call->resume_next;
    return true;
}

void call_resume_remove(struct weir_call *call)
{
    struct weir_client *client = call->target->client;
    call->resuming = false;
    if (!resuming_unlink(&client->resuming, call))
        resuming_unlink(&client->resuming_now, call);
}

void call_resume_later(struct weir_call *call, uint64_t from_turn)
{
    struct weir_client *client = call->target->client;
    if (call->resuming)
        return;
    struct weir_call **end = &client->resuming;
    while (*end)
        end = &(*end)->resume_next;
    call->resuming = true;
    call->resume_turn = from_turn;
    call->resume_next = NULL;
    *end = call;
    weir_timer_set(client->loop, &client->kick, 0);
}

static void client_kick(struct weir_timer *timer)
{
    struct weir_client *client =
        (struct weir_client *)((char *)timer - offsetof(struct weir_client, kick));
    client->resuming_now = client->resuming;
    client->resuming = NULL;
    while (client->resuming_now) {
        struct weir_call *call = client->resuming_now;
        call_resume_remove(call);
        if (call->resume_turn > weir_loop_turns(client->loop))
            call_resume_later(call, call->resume_turn);
        else if (call->connection)
            answer_read(call);
    }
}

struct weir_client *weir_client_create(struct weir_loop *loop)
{
    struct weir_client *client = malloc(sizeof *client);
    if (!client)
        return NULL;
    memset(client, 0,
           offsetof(struct weir_client, head)); /* buffers are touched when they are used */
    client->loop = loop;
    client->hook.run = client_run;
    client->kick.fire = client_kick;
    client->queue_end = &client->queue;
    client->resolver = weir_resolver_create(loop);
    if (!client->resolver) {
        free(client);
        return NULL;
    }
    weir_loop_at_turn_end(loop, &client->hook);
    return client;
}

void weir_client_destroy(struct weir_client *client)
{
    if (!client)
        return;
    WEIR_INVARIANT(!client->targets);
    client_recycle(client);
    weir_loop_hook_remove(client->loop, &client->hook);
    weir_timer_cancel(client->loop, &client->kick);
    weir_resolver_destroy(client->resolver);
    while (client->free_calls) {
        struct weir_call *call = client->free_calls;
        client->free_calls = call->next;
        free(call);
    }
    while (client->free_connections) {
        struct connection *c = client->free_connections;
        client->free_connections = c->next;
        free(c);
    }
    while (client->free_dials) {
        struct dial *d = client->free_dials;
        client->free_dials = d->next;
        free(d);
    }
    while (client->tls) {
        struct client_tls *tls = client->tls;
        client->tls = tls->next;
        weir_tls_destroy(tls->tls);
        free(tls->ca_file);
        free(tls);
    }
    free(client);
}

void weir_client_name_servers_set(struct weir_client *client, const char *servers)
{
    weir_resolver_servers_set(client->resolver, servers);
}

static bool text_equal(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

struct weir_tls *client_tls_get(struct weir_client *client, const char *ca_file, char *error_text,
                                size_t error_bytes)
{
    for (struct client_tls *known = client->tls; known; known = known->next)
        if (text_equal(known->ca_file, ca_file))
            return known->tls;
    struct client_tls *fresh = calloc(1, sizeof *fresh);
    snprintf(error_text, error_bytes, "out of memory");
    if (fresh && (!ca_file || (fresh->ca_file = strdup(ca_file)) != NULL) &&
        (fresh->tls = weir_tls_client_create(ca_file, error_text, error_bytes)) != NULL) {
        fresh->next = client->tls;
        client->tls = fresh;
        return fresh->tls;
    }
    if (fresh)
        free(fresh->ca_file);
    free(fresh);
    return NULL;
}

/* --- targets --- */

static void target_free(struct weir_target *target)
{
    weir_name_destroy(target->name);
    weir_tls_peer_destroy(target->peer);
    free(target->host);
    free(target->ca_file);
    free(target);
}

struct weir_target *weir_target_create(struct weir_client *client,
                                       const struct weir_target_rules *rules, char *error_text,
                                       size_t error_bytes)
{
    struct weir_target *target = calloc(1, sizeof *target);
    snprintf(error_text, error_bytes, "out of memory");
    if (!target)
        return NULL;
    target->client = client;
    target->port = rules->port;
    target->tls = rules->tls;
    target->pool_idle_ns = rules->pool_idle_ns;
    target->pool_max = rules->pool_max;
    target->idle_timer.fire = pool_idle_fire;
    target->host = strdup(rules->host);
    target->name =
        weir_name_create(client->resolver, rules->host, rules->port, dial_name_changed, target);
    bool ok = target->host && target->name;
    if (ok && rules->ca_file)
        ok = (target->ca_file = strdup(rules->ca_file)) != NULL;
    if (ok && rules->tls)
        ok = (target->peer = weir_tls_peer_create(rules->host, rules->port)) != NULL;
    /* A file that is named is read now, so that a mistake shows at start; the system's store is
     * not. */
    if (ok && rules->tls && rules->ca_file)
        ok = client_tls_get(client, rules->ca_file, error_text, error_bytes) != NULL;
    if (!ok) {
        target_free(target);
        return NULL;
    }
    target->next = client->targets;
    client->targets = target;
    return target;
}

void weir_target_destroy(struct weir_target *target)
{
    if (!target)
        return;
    WEIR_INVARIANT(target->calls == 0);
    pool_clear(target);
    struct weir_target **at = &target->client->targets;
    while (*at != target)
        at = &(*at)->next;
    *at = target->next;
    target_free(target);
}

void weir_target_view(const struct weir_target *target, struct weir_target_view *view)
{
    *view = target->view;
}

/* --- starting calls --- */

struct weir_call *weir_call_start(struct weir_target *target,
                                  const struct weir_call_request *request,
                                  const struct weir_call_handler *handler, void *ctx)
{
    struct weir_client *client = target->client;
    struct weir_call *call = client->free_calls;
    WEIR_INVARIANT(request->piece_count <= WEIR_CALL_PIECES_MAX && request->head.bytes > 0);
    if (call)
        client->free_calls = call->next;
    else if (!(call = malloc(sizeof *call)))
        return NULL;
    *call = (struct weir_call){.target = target,
                               .handler = handler,
                               .ctx = ctx,
                               .state = CALL_QUEUED,
                               .request = *request,
                               .request_bytes = request->head.bytes};
    for (uint32_t i = 0; i < request->piece_count; i++)
        call->request_bytes += request->pieces[i].bytes;
    call->link = client->queue_end;
    *client->queue_end = call;
    client->queue_end = &call->next;
    client->queued++;
    target->calls++;
    weir_loop_hooks_again(client->loop);
    return call;
}

void call_unqueue(struct weir_call *call)
{
    struct weir_client *client = call->target->client;
    *call->link = call->next;
    if (call->next)
        call->next->link = call->link;
    else
        client->queue_end = call->link;
    call->link = NULL;
    call->next = NULL;
    client->queued--;
}

const char *weir_call_failure_label(enum weir_call_failure failure)
{
    static const char *const labels[] = {
        [WEIR_CALL_OK] = "ok",
        [WEIR_CALL_E_RESOLVE] = "resolve",
        [WEIR_CALL_E_CONNECT] = "connect",
        [WEIR_CALL_E_TLS] = "tls",
        [WEIR_CALL_E_CONNECT_TIMEOUT] = "connect_timeout",
        [WEIR_CALL_E_WRITE] = "write",
        [WEIR_CALL_E_WRITE_TIMEOUT] = "write_timeout",
        [WEIR_CALL_E_FIRST_BYTE_TIMEOUT] = "first_byte_timeout",
        [WEIR_CALL_E_IDLE_TIMEOUT] = "idle_timeout",
        [WEIR_CALL_E_TOTAL_TIMEOUT] = "total_timeout",
        [WEIR_CALL_E_ANSWER] = "answer",
        [WEIR_CALL_E_CUT] = "cut",
        [WEIR_CALL_E_DESCRIPTORS] = "descriptors",
    };
    return labels[failure];
}
