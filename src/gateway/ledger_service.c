#include "gateway/ledger_service.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "gateway/ledger_service_inside.h"

#define SERVICE_WRITE_PATIENCE_NS (5 * WEIR_NS_PER_S)
#define SERVICE_LIST_PATIENCE_NS (20 * WEIR_NS_PER_S)
#define SERVICE_SHOW_PATIENCE_NS WEIR_NS_PER_S /* memory knows nearly all of it */
#define SERVICE_HELPER_STACK_BYTES (512u * 1024u)

json_t *service_error(const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return json_pack("{s:s}", "error", text);
}

/* ---- calls ---- */

static void call_free(struct weir_ledger_call *call)
{
    json_decref(call->answer);
    json_decref(call->burn.scopes);
    json_decref(call->holds);
    *call = (struct weir_ledger_call){0};
}

void service_reply(struct weir_ledger_call *call, uint32_t status, json_t *answer)
{
    weir_ledger_reply_fn *reply = call->reply;
    void *ctx = call->ctx;
    call_free(call);
    if (reply)
        reply(ctx, answer ? status : 500, answer);
    else
        json_decref(answer);
}

/* A read is complete: the file's part, and for the overview memory's part with it. */
static void call_read_done(struct weir_ledger_call *call)
{
    struct weir_ledger_service *service = call->service;
    service->is_stuck = false;
    if (call->reply && call->route == ROUTE_SHOW && service->host.store) {
        service_reply(call, 200, service_show(service, &call->query, &call->burn, call->holds));
        return;
    }
    json_t *answer = call->answer;
    call->answer = NULL;
    service_reply(call, call->status, answer);
}

static struct weir_ledger_call *call_new(struct weir_ledger_service *service)
{
    for (size_t i = 0; i < WEIR_LEDGER_CALLS_MAX; i++)
        if (!service->calls[i].in_use)
            return &service->calls[i];
    return NULL;
}

/* The timer stands at the earliest deadline, or is not set. */
static void timer_set(struct weir_ledger_service *service)
{
    uint64_t due_ns = WEIR_NEVER_NS;
    for (size_t i = 0; i < WEIR_LEDGER_CALLS_MAX; i++)
        if (service->calls[i].in_use)
            due_ns = weir_min_u64(due_ns, service->calls[i].deadline_ns);
    if (service->host.loop)
        weir_timer_set(service->host.loop, &service->timer, due_ns);
}

/* The file does not answer, as when its disk hangs. What memory knows is told without it; the
 * helper keeps the call until it comes back. */
static void call_read_late(struct weir_ledger_call *call)
{
    struct weir_ledger_service *service = call->service;
    weir_ledger_reply_fn *reply = call->reply;
    struct service_burn none = {0};
    service->is_stuck = true;
    call->reply = NULL;
    call->deadline_ns = WEIR_NEVER_NS;
    if (!reply)
        return;
    json_t *answer = call->route == ROUTE_SHOW
                         ? service_show(service, &call->query, &none, NULL)
                         : service_error("the file %s does not answer; is its disk hanging?",
                                         service->host.path);
    reply(call->ctx, answer ? (call->route == ROUTE_SHOW ? 200 : 503) : 500, answer);
}

/* Gives a read to the helper, or does it at once. */
static void call_read(struct weir_ledger_call *call, uint64_t now_ns)
{
    struct weir_ledger_service *service = call->service;
    if (service->is_stuck) { /* no use to queue up behind those that wait */
        call_read_late(call);
        call_free(call);
        return;
    }
    if (service->done_io.fd < 0) {
        if (service->host.path)
            service_read(call);
        call_read_done(call);
        return;
    }
    call->deadline_ns =
        now_ns + (call->route == ROUTE_SHOW ? SERVICE_SHOW_PATIENCE_NS : SERVICE_LIST_PATIENCE_NS);
    pthread_mutex_lock(&service->lock);
    *service->todo_end = call;
    service->todo_end = &call->next;
    pthread_cond_signal(&service->more);
    pthread_mutex_unlock(&service->lock);
}

struct weir_ledger_call *weir_ledger_service_call(struct weir_ledger_service *service,
                                                  const struct weir_ledger_request *request,
                                                  uint64_t now_ns)
{
    struct weir_ledger_call *call = call_new(service);
    json_t *error = NULL;
    if (!call) {
        request->reply(request->ctx, 503,
                       service_error("%u requests to the ledger are under way; try again",
                                     WEIR_LEDGER_CALLS_MAX));
        return NULL;
    }
    *call = (struct weir_ledger_call){.in_use = true,
                                      .service = service,
                                      .reply = request->reply,
                                      .ctx = request->ctx,
                                      .deadline_ns = WEIR_NEVER_NS};
    uint32_t refused = service_parse(request, call, &error);
    if (refused) {
        service_reply(call, refused, error);
        return NULL;
    }
    switch (call->route) {
    case ROUTE_GRANT:
    case ROUTE_ADJUST:
        call->deadline_ns = now_ns + SERVICE_WRITE_PATIENCE_NS;
        service_write(call, request->body);
        break;
    case ROUTE_HOLDS:
    case ROUTE_USAGE:
    case ROUTE_JOURNAL:
        if (!service->host.path) {
            service_reply(call, 404,
                          service_error("this ledger is in memory and keeps balances only; lists "
                                        "need `ledger:` to name a file"));
            return NULL;
        }
        call_read(call, now_ns);
        break;
    case ROUTE_SHOW:
        call_read(call, now_ns);
        break;
    }
    timer_set(service);
    return call->in_use ? call : NULL;
}

void weir_ledger_service_cancel(struct weir_ledger_service *service, struct weir_ledger_call *call)
{
    (void)service;
    call->reply = NULL; /* it goes on to its end and is told to nobody */
}

bool weir_ledger_service_answer(struct weir_ledger_service *service,
                                const struct weir_store_answer *answer)
{
    for (size_t i = 0; i < WEIR_LEDGER_CALLS_MAX; i++) {
        struct weir_ledger_call *call = &service->calls[i];
        if (call->in_use && call->tag != 0 && call->tag == answer->tag &&
            call->kind == answer->kind && call->hold == answer->hold) {
            service_written(call, answer);
            return true;
        }
    }
    return false;
}

void weir_ledger_service_tick(struct weir_ledger_service *service, uint64_t now_ns)
{
    for (size_t i = 0; i < WEIR_LEDGER_CALLS_MAX; i++) {
        struct weir_ledger_call *call = &service->calls[i];
        if (!call->in_use || now_ns < call->deadline_ns)
            continue;
        if (call->tag != 0)
            service_late(call);
        else
            call_read_late(call);
    }
}

static void service_timer(struct weir_timer *timer)
{
    struct weir_ledger_service *service =
        (struct weir_ledger_service *)((char *)timer - offsetof(struct weir_ledger_service, timer));
    weir_ledger_service_tick(service, weir_loop_now_ns(service->host.loop));
    timer_set(service);
}

/* ---- the helper ---- */

static void *helper_run(void *arg)
{
    struct weir_ledger_service *service = arg;
    pthread_mutex_lock(&service->lock);
    while (!service->stop) {
        struct weir_ledger_call *call = service->todo;
        if (!call) {
            pthread_cond_wait(&service->more, &service->lock);
            continue;
        }
        service->todo = call->next;
        if (!service->todo)
            service->todo_end = &service->todo;
        pthread_mutex_unlock(&service->lock);
        service_read(call);
        pthread_mutex_lock(&service->lock);
        call->next = service->done;
        service->done = call;
        const uint64_t one = 1;
        ssize_t n = write(service->done_io.fd, &one, sizeof one);
        (void)n; /* a counter that is full is readable too */
    }
    pthread_mutex_unlock(&service->lock);
    return NULL;
}

/* The helper has something: in the loop. */
static void helper_done(struct weir_io *io, uint32_t events)
{
    struct weir_ledger_service *service =
        (struct weir_ledger_service *)((char *)io - offsetof(struct weir_ledger_service, done_io));
    uint64_t count;
    ssize_t n = read(io->fd, &count, sizeof count);
    (void)n;
    (void)events;
    pthread_mutex_lock(&service->lock);
    struct weir_ledger_call *list = service->done;
    service->done = NULL;
    pthread_mutex_unlock(&service->lock);
    while (list) {
        struct weir_ledger_call *call = list;
        list = call->next;
        call_read_done(call);
    }
}

static bool helper_start(struct weir_ledger_service *service)
{
    pthread_attr_t attributes;
    service->done_io.ready = helper_done;
    service->done_io.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (service->done_io.fd < 0)
        return false;
    bool started = weir_loop_add(service->host.loop, &service->done_io) == 0;
    if (started && pthread_attr_init(&attributes) == 0) {
        pthread_attr_setstacksize(&attributes, SERVICE_HELPER_STACK_BYTES);
        started = pthread_create(&service->helper, &attributes, helper_run, service) == 0;
        pthread_attr_destroy(&attributes);
        if (!started)
            weir_loop_remove(service->host.loop, &service->done_io);
    }
    if (!started) {
        close(service->done_io.fd);
        service->done_io.fd = -1;
    }
    return started;
}

struct weir_ledger_service *weir_ledger_service_create(const struct weir_ledger_host *host)
{
    struct weir_ledger_service *service = calloc(1, sizeof *service);
    if (!service)
        return NULL;
    service->host = *host;
    service->done_io.fd = -1;
    service->todo_end = &service->todo;
    service->timer.fire = service_timer;
    pthread_mutex_init(&service->lock, NULL);
    pthread_cond_init(&service->more, NULL);
    json_object_seed(0); /* before there is a second thread */
    service->config_scopes = json_object();
    for (uint32_t i = 0; i < host->config->scopes_count; i++)
        json_object_set_new(service->config_scopes, host->config->scopes[i].name, json_integer(i));
    if (host->loop && host->path && !helper_start(service)) {
        weir_ledger_service_destroy(service);
        return NULL;
    }
    return service;
}

void weir_ledger_service_destroy(struct weir_ledger_service *service)
{
    if (!service)
        return;
    if (service->done_io.fd >= 0) {
        pthread_mutex_lock(&service->lock);
        service->stop = true;
        pthread_cond_signal(&service->more);
        pthread_mutex_unlock(&service->lock);
        pthread_join(service->helper, NULL);
        weir_loop_close(service->host.loop, &service->done_io);
    }
    if (service->host.loop)
        weir_timer_cancel(service->host.loop, &service->timer);
    for (size_t i = 0; i < WEIR_LEDGER_CALLS_MAX; i++)
        call_free(&service->calls[i]);
    json_decref(service->config_scopes);
    json_decref(service->rest_burn.scopes);
    pthread_cond_destroy(&service->more);
    pthread_mutex_destroy(&service->lock);
    free(service);
}
