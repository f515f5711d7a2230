#include "gateway/gateway.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "gateway/admin.h"
#include "gateway/budget.h"
#include "gateway/config_rules.h"
#include "gateway/report.h"
#include "gateway/rollover.h"
#include "gateway/state.h"
#include "net/stream.h"

#define GATEWAY_MODELS_MAX 1024u
#define GATEWAY_EXIT_REFUSED 2
#define GATEWAY_EXIT_FAULT 3
#define GATEWAY_EXIT_SECOND_SIGNAL 130
#define GATEWAY_LEDGER_LAST_MS 5000 /* for what it still writes when all requests are over */
#define GATEWAY_LEDGER_STOPPED_MS 500
#define GATEWAY_LEDGER_STEP_MS 50

weir_gateway_ready_fn *weir_gateway_ready;
weir_gateway_report_fn *weir_gateway_report;
struct weir_pages weir_gateway_pages;
int weir_gateway_until_fd = -1;

/* ---- the flow, from the configuration ---- */

void weir_gateway_model(struct weir_gateway *g, uint32_t model, uint32_t pool)
{
    const struct weir_model_rules rules = weir_config_model_rules(g->config, pool);
    if (model < g->models_set)
        return;
    g->models_set = model + 1; /* indices are given in order */
    weir_flow_model_set(g->flow, model, &rules);
}

/* Requests alive at once. Those that end in this turn still have their records: at most one for
 * each connection. */
static uint32_t gateway_requests_max(const struct weir_config *c)
{
    uint32_t in_flight = 0;
    for (uint32_t i = 0; i < c->upstreams_count; i++)
        in_flight += c->upstreams[i].max_in_flight;
    return c->limits.waiters + in_flight + c->limits.connections + 1;
}

static bool gateway_make_flow(struct weir_gateway *g)
{
    const struct weir_config *c = g->config;
    uint64_t now_ns = weir_loop_now_ns(g->loop);
    const struct weir_flow_limits limits = {.tenants_max = c->limits.tenants + WEIR_TENANT_FIRST,
                                            .requests_max = gateway_requests_max(c),
                                            .models_max = GATEWAY_MODELS_MAX,
                                            .waiters_max = c->limits.waiters,
                                            .waiting_bytes_max = c->limits.waiting_bytes};
    const struct weir_lane_rules lanes = weir_config_lane_rules(c);
    g->flow_bytes = weir_flow_bytes(&limits, c->pools_count, c->upstreams_count, &lanes);
    g->flow_memory = mmap(NULL, g->flow_bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (g->flow_memory == MAP_FAILED) {
        g->flow_memory = NULL;
        return false;
    }
    g->flow = weir_flow_init(g->flow_memory, g->flow_bytes, &limits, c->pools_count,
                             c->upstreams_count, &lanes);
    for (uint32_t i = 0; i < c->upstreams_count; i++) {
        const struct weir_upstream_rules rules = weir_config_upstream_rules(c, i);
        weir_flow_upstream_set(g->flow, i, &rules, now_ns);
    }
    for (uint32_t i = 0; i < c->pools_count; i++) {
        const struct weir_pool_rules rules = weir_config_pool_rules(c, i);
        weir_flow_pool_set(g->flow, i, &rules);
    }
    weir_gateway_model(g, WEIR_MODEL_OTHER, 0);
    return true;
}

/* ---- signals, drain, house-keeping ---- */

static void gateway_stop(struct weir_gateway *g, int status)
{
    g->exit_status = status;
    weir_loop_stop(g->loop);
}

/* Hands the host the counts of the run. true: it has them, or nobody wants any. */
static bool gateway_report(struct weir_gateway *g, enum weir_report_state state)
{
    bool is_last = state != WEIR_REPORT_SERVING && state != WEIR_REPORT_DRAINING;
    if (!g->report)
        return true;
    json_t *counts = weir_report_make(g->report, state);
    if (!counts)
        weir_log_message(g->log, WEIR_LOG_ERROR, "out of memory for the report of the run");
    bool is_kept = counts && weir_gateway_report(counts, is_last);
    json_decref(counts);
    return is_kept;
}

static void gateway_drain(struct weir_gateway *g)
{
    uint64_t now_ns = weir_loop_now_ns(g->loop);
    uint64_t queue_until_ns = now_ns + g->config->limits.drain_queue_ns;
    g->drain_until_ns = now_ns + g->config->limits.drain_stream_ns;
    weir_log_message(g->log, WEIR_LOG_INFO,
                     "draining: no new requests; %u alive, queued ones are served for up to %llu "
                     "s, running ones "
                     "for up to %llu s; a second signal stops at once",
                     g->requests_now,
                     (unsigned long long)(g->config->limits.drain_queue_ns / WEIR_NS_PER_S),
                     (unsigned long long)(g->config->limits.drain_stream_ns / WEIR_NS_PER_S));
    weir_flow_drain(g->flow, queue_until_ns, g->drain_until_ns);
    weir_server_drain(g->server);
    weir_gateway_dirty(g);
    /* Where that fails the host has said so, and it is tried again at the end. */
    (void)gateway_report(g, WEIR_REPORT_DRAINING);
}

static void gateway_signal(struct weir_io *io, uint32_t events)
{
    (void)events;
    struct weir_gateway *g =
        (struct weir_gateway *)((char *)io - offsetof(struct weir_gateway, signal_io));
    struct signalfd_siginfo info;
    while (read(io->fd, &info, sizeof info) == sizeof info) {
        if (++g->signals == 1) {
            gateway_drain(g);
        } else {
            weir_log_message(g->log, WEIR_LOG_WARN,
                             "second signal: stopping at once, requests under way are cut: %u",
                             g->requests_now);
            gateway_stop(g, GATEWAY_EXIT_SECOND_SIGNAL);
        }
    }
}

/* Whoever it was to serve for is gone. */
static void gateway_until(struct weir_io *io, uint32_t events)
{
    (void)events;
    struct weir_gateway *g =
        (struct weir_gateway *)((char *)io - offsetof(struct weir_gateway, until_io));
    weir_loop_close(g->loop, io);
    if (g->signals > 0)
        return; /* told to drain already */
    weir_log_message(g->log, WEIR_LOG_INFO, "the process that started weir has ended");
    g->signals = 1;
    gateway_drain(g);
}

static void gateway_turn_end(struct weir_hook *hook)
{
    struct weir_gateway *g =
        (struct weir_gateway *)((char *)hook - offsetof(struct weir_gateway, turn_hook));
    weir_gateway_pump(g);
    if (g->signals == 1 && g->requests_now == 0)
        gateway_stop(g, 0);
}

/* Time alone changed something: the turn's end does the rest. */
static void gateway_due(struct weir_timer *timer)
{
    struct weir_gateway *g =
        (struct weir_gateway *)((char *)timer - offsetof(struct weir_gateway, due_timer));
    weir_gateway_dirty(g);
}

/* A limit that moved by more than a quarter since it was last said. */
static void gateway_tell_limits(struct weir_gateway *g, uint64_t now_ns)
{
    for (uint32_t i = 0; i < g->config->upstreams_count; i++) {
        const struct weir_config_upstream *u = &g->config->upstreams[i];
        struct weir_upstream_view view;
        if (u->adaptive.min == 0)
            continue;
        weir_flow_upstream_view(g->flow, i, now_ns, &view);
        uint32_t told = g->limits_told[i] ? g->limits_told[i] : u->adaptive.start;
        uint32_t by = view.permits > told ? view.permits - told : told - view.permits;
        if (by <= told / 4)
            continue;
        weir_log_message(g->log, WEIR_LOG_INFO,
                         "upstream %s: at most %u requests in flight now (before: %u)", u->name,
                         view.permits, told);
        g->limits_told[i] = view.permits;
    }
}

static void gateway_second(struct weir_timer *timer)
{
    struct weir_gateway *g =
        (struct weir_gateway *)((char *)timer - offsetof(struct weir_gateway, second_timer));
    uint64_t now_ns = weir_loop_now_ns(g->loop);
    weir_tenancy_refresh(g->tenancy, now_ns);
    if (g->idempotency)
        weir_idempotency_tick(g->idempotency, now_ns);
    const char *trouble = weir_keys_trouble(g->keys);
    if (trouble && !g->keys_troubled)
        weir_log_message(g->log, WEIR_LOG_WARN, "%s; the keys read before stay in force", trouble);
    g->keys_troubled = trouble != NULL;
    gateway_tell_limits(g, now_ns);
    weir_timer_set(g->loop, timer, now_ns + WEIR_NS_PER_S);
}

static bool gateway_watch_signals(struct weir_gateway *g)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
        return false;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file at its limit is a result of write: the ledger's to judge */
    g->signal_io.fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    g->signal_io.ready = gateway_signal;
    g->until_io = (struct weir_io){.ready = gateway_until, .fd = weir_gateway_until_fd};
    return g->signal_io.fd >= 0 && weir_loop_add(g->loop, &g->signal_io) == 0 &&
           (g->until_io.fd < 0 || weir_loop_add(g->loop, &g->until_io) == 0);
}

/* ---- putting it together ---- */

static void gateway_format_addr(const struct weir_config_addr *a, char *out, size_t cap)
{
    snprintf(out, cap, strchr(a->host, ':') ? "[%s]:%u" : "%s:%u", a->host, a->port);
}

static bool gateway_make_targets(struct weir_gateway *g, char *error_text, size_t error_bytes)
{
    g->client = weir_client_create(g->loop);
    g->targets = calloc(g->config->upstreams_count, sizeof(struct weir_target *));
    g->limits_told = calloc(g->config->upstreams_count, sizeof *g->limits_told);
    if (!g->client || !g->targets || !g->limits_told) {
        snprintf(error_text, error_bytes, "out of memory");
        return false;
    }
    for (uint32_t i = 0; i < g->config->upstreams_count; i++) {
        const struct weir_config_upstream *u = &g->config->upstreams[i];
        struct weir_target_rules rules = {.host = u->host,
                                          .port = u->port,
                                          .tls = u->is_tls,
                                          .ca_file = u->tls_ca_file,
                                          .pool_idle_ns = u->timeouts.pool_idle_ns,
                                          .pool_max = u->max_in_flight};
        g->targets[i] = weir_target_create(g->client, &rules, error_text, error_bytes);
        if (!g->targets[i])
            return false;
    }
    return true;
}

static bool gateway_listen(struct weir_gateway *g, char *error_text, size_t error_bytes)
{
    const struct weir_config_limits *l = &g->config->limits;
    const struct weir_server_limits limits = {.head_bytes = l->head_bytes,
                                              .body_bytes = l->body_bytes,
                                              .connections = l->connections,
                                              .address_connections = l->connections_per_address,
                                              .head_ns = l->head_ns,
                                              .keep_alive_ns = l->keep_alive_ns,
                                              .body_min_bytes_per_s = l->body_bytes_per_s,
                                              .body_grace_ns = l->body_grace_ns,
                                              .stall_ns = l->client_stall_ns};
    struct weir_server_handler handler = weir_edge_handler;
    struct weir_tls *tls = NULL;
    char address[300];
    if (g->config->tls_cert_file) {
        tls = weir_tls_server_create(g->config->tls_cert_file, g->config->tls_key_file, error_text,
                                     error_bytes);
        if (!tls)
            return false;
    }
    g->tls = tls;
    handler.ctx = g;
    gateway_format_addr(&g->config->listen, address, sizeof address);
    g->server =
        weir_server_listen(g->loop, address, tls, &limits, &handler, error_text, error_bytes);
    return g->server != NULL;
}

/* As many descriptors as the kernel lets us have: each request may need two. */
static void gateway_raise_descriptors(struct weir_gateway *g)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < g->config->limits.connections)
        weir_log_message(g->log, WEIR_LOG_WARN,
                         "only %llu file descriptors are allowed, fewer than limits.connections "
                         "(%u): raise `ulimit "
                         "-n`, or lower the limit",
                         (unsigned long long)limit.rlim_cur, g->config->limits.connections);
}

/* Keys and answers; not made when the configuration switches them off. */
static bool gateway_make_idempotency(struct weir_gateway *g, const uint8_t secret[32])
{
    const struct weir_config_idempotency *c = &g->config->idempotency;
    const struct weir_idempotency_limits limits = {.owners_max = g->config->limits.tenants +
                                                                 WEIR_TENANT_FIRST,
                                                   .keys_max = c->keys,
                                                   .answer_bytes = c->answer_bytes,
                                                   .answers_bytes = c->answers_bytes,
                                                   .keep_ns = c->keep_ns};
    if (c->keys == 0)
        return true;
    memcpy(g->idempotency_secret, secret, sizeof g->idempotency_secret);
    g->idempotency = weir_idempotency_create(&limits);
    if (!g->idempotency)
        return false;
    g->started_s = time(NULL);
    weir_replay_load(g);
    return true;
}

static bool gateway_start(struct weir_gateway *g, char *error_text, size_t error_bytes)
{
    const struct weir_config *c = g->config;
    const char *access = c->access == WEIR_CONFIG_ACCESS_OFF      ? NULL
                         : c->access == WEIR_CONFIG_ACCESS_STDERR ? "-"
                                                                  : c->access_file;
    char token[WEIR_TOKEN_CHARS + 1];
    uint8_t secret[32];
    struct weir_keys_error trouble = {""};
    char address[300];
    snprintf(error_text, error_bytes, "out of memory");
    g->loop = weir_loop_create();
    if (!g->loop || !gateway_watch_signals(g)) /* before any thread, so that all inherit the mask */
        return false;
    g->log = weir_log_open(access, error_text, error_bytes);
    if (!g->log)
        return false;
    gateway_raise_descriptors(g);
    if (!weir_record_open(g, error_text, error_bytes))
        return false;
    if (!weir_state_install_secret(c->state_dir, secret, &trouble) ||
        !weir_state_admin_token(c->state_dir, token, &trouble) ||
        !(g->keys = weir_keys_open(c->state_dir, &trouble))) {
        snprintf(error_text, error_bytes, "%s", trouble.text);
        return false;
    }
    const char *exposed = weir_config_exposed(c, weir_keys_count(g->keys));
    if (exposed) {
        snprintf(error_text, error_bytes, "%s", exposed);
        return false;
    }
    g->scratch = malloc(WEIR_SCRATCH_BYTES);
    g->routes = weir_routes_create(c, GATEWAY_MODELS_MAX);
    if (!g->scratch || !g->routes ||
        !weir_metrics_init(&g->metrics, c->upstreams_count,
                           c->limits.tenants + WEIR_TENANT_FIRST) ||
        !weir_forward_prepare(g) || !gateway_make_flow(g) ||
        !weir_gateway_ledger_open(g, gateway_requests_max(c), error_text, error_bytes) ||
        !weir_budget_open(g, error_text, error_bytes) || !weir_rollover_open(g))
        return false;
    g->turn_hook.run = gateway_turn_end;
    g->due_timer.fire = gateway_due;
    g->second_timer.fire = gateway_second;
    weir_loop_at_turn_end(g->loop, &g->turn_hook);
    g->tenancy = weir_tenancy_create(c, g->keys, secret, g, weir_loop_now_ns(g->loop));
    bool has_idempotency = gateway_make_idempotency(g, secret);
    explicit_bzero(secret, sizeof secret);
    if (!g->tenancy || !has_idempotency || !gateway_make_targets(g, error_text, error_bytes) ||
        !gateway_listen(g, error_text, error_bytes))
        return false;
    gateway_format_addr(&c->admin, address, sizeof address);
    g->admin = weir_admin_listen(g, address, token, error_text, error_bytes);
    explicit_bzero(token, sizeof token);
    if (!g->admin)
        return false;
    g->started_ns = weir_loop_now_ns(g->loop);
    if (weir_gateway_report && !(g->report = weir_report_begin(g)))
        return false;
    weir_timer_set(g->loop, &g->second_timer, g->started_ns + WEIR_NS_PER_S);
    return true;
}

static void gateway_free(struct weir_gateway *g)
{
    weir_admin_destroy(g->admin);
    if (g->server)
        weir_server_destroy(g->server);
    for (uint32_t i = 0; g->targets && i < g->config->upstreams_count; i++)
        if (g->targets[i])
            weir_target_destroy(g->targets[i]);
    free(g->targets);
    free(g->limits_told);
    if (g->client)
        weir_client_destroy(g->client);
    weir_tls_destroy(g->tls);
    weir_tenancy_destroy(g->tenancy);
    weir_keys_close(g->keys);
    weir_gateway_ledger_close(g);
    weir_rollover_close(g);
    weir_budget_free(g);
    weir_routes_destroy(g->routes);
    weir_forward_free(g);
    if (g->flow_memory)
        munmap(g->flow_memory, g->flow_bytes);
    weir_metrics_free(&g->metrics);
    weir_idempotency_destroy(g->idempotency);
    explicit_bzero(g->idempotency_secret, sizeof g->idempotency_secret);
    free(g->scratch);
    weir_request_pool_free(g);
    weir_answer_pool_free(g);
    if (g->signal_io.fd >= 0 && g->loop)
        weir_loop_close(g->loop, &g->signal_io);
    if (g->until_io.fd >= 0 && g->loop)
        weir_loop_close(g->loop, &g->until_io);
    if (g->loop)
        weir_loop_destroy(g->loop);
    weir_log_close(g->log);
    weir_record_free(g);
    weir_report_free(g->report);
}

/* What the ledger still writes belongs into the report: waits for it, a little. */
static void gateway_await_ledger(struct weir_gateway *g, uint32_t at_most_ms)
{
    struct weir_store_status status;
    struct weir_store_answer answers[64];
    for (uint32_t waited_ms = 0; g->report && waited_ms < at_most_ms;
         waited_ms += GATEWAY_LEDGER_STEP_MS) {
        weir_store_status(g->store, &status);
        if (status.queue_now == 0)
            return;
        struct pollfd answered = {.fd = weir_store_fd(g->store), .events = POLLIN};
        if (answered.fd >= 0)
            (void)poll(&answered, 1, GATEWAY_LEDGER_STEP_MS);
        while (weir_store_collect(g->store, weir_loop_now_ns(g->loop), answers,
                                  WEIR_COUNT(answers)) > 0) { /* nobody waits for these any more */
        }
    }
}

/* After the loop: says how it ended, for the log and in the report. Returns the exit status. */
static int gateway_end(struct weir_gateway *g, int fault)
{
    enum weir_report_state state = WEIR_REPORT_DRAINED;
    int status = g->exit_status;
    if (fault != 0) {
        weir_log_message(g->log, WEIR_LOG_ERROR, "the event loop failed: %s", strerror(-fault));
        status = GATEWAY_EXIT_FAULT;
        state = WEIR_REPORT_FAILED;
    } else if (status == 0) {
        weir_log_message(g->log, WEIR_LOG_INFO, "drained");
    } else {
        state = WEIR_REPORT_STOPPED;
    }
    gateway_await_ledger(g, status == 0 ? GATEWAY_LEDGER_LAST_MS : GATEWAY_LEDGER_STOPPED_MS);
    if (!gateway_report(g, state) && status == 0)
        status = GATEWAY_EXIT_FAULT;
    return status;
}

int weir_gateway_run(const struct weir_config *config)
{
    struct weir_gateway g = {.config = config,
                             .drain_until_ns = WEIR_NEVER_NS,
                             .signal_io = {.fd = -1},
                             .until_io = {.fd = -1}};
    char error_text[1024];
    int status = GATEWAY_EXIT_REFUSED;
    if (getrandom(&g.number_seed, sizeof g.number_seed, 0) != sizeof g.number_seed)
        g.number_seed = (uint64_t)getpid();
    if (!gateway_start(&g, error_text, sizeof error_text)) {
        weir_log_message(NULL, WEIR_LOG_ERROR, "%s", error_text);
    } else if (gateway_report(&g, WEIR_REPORT_SERVING) &&
               (!weir_gateway_ready || weir_gateway_ready(config, weir_server_port(g.server),
                                                          (uint16_t)weir_admin_port(g.admin)))) {
        int fault = weir_loop_run(g.loop);
        status = gateway_end(&g, fault);
    }
    if (g.requests_now > 0) {
        /* Told to stop at once: calls and exchanges still hang on each other, and the kernel closes
         * them faster than we could. What they hold in the ledger lapses, charged. */
        weir_log_close(g.log);
        _exit(status);
    }
    gateway_free(&g);
    return status;
}
