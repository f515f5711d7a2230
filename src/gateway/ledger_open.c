/* ledger_open: the store that the configuration names, opened with its scopes; scopes that come and
 * go with their tenants. */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "gateway/rollover.h"
#include "gateway/state.h"

#define LEDGER_HOLDS_MAX (1u << 20) /* the store's own bound */
/* No operation of ours is asked twice but after an outage, so few are enough; more would only be
 * memory that fills for as long as the first hundred thousand requests. */
#define LEDGER_FINISHED_KEEP 4096u
#define LEDGER_CLOCK_DOUBT_S 600
/* At the start nothing else is asked of the store: the scopes are defined within a commit or two. */
#define LEDGER_SCOPES_MS 10000

/* What the store has to say comes from its own thread too, so it does not go through the log's
 * buffer. */
static void ledger_say(enum weir_store_say level, const char *text)
{
    static const enum weir_log_level levels[] = {[WEIR_STORE_SAY_INFO] = WEIR_LOG_INFO,
                                                 [WEIR_STORE_SAY_WARN] = WEIR_LOG_WARN,
                                                 [WEIR_STORE_SAY_ERROR] = WEIR_LOG_ERROR};
    weir_log_message(NULL, levels[level], "%s", text);
}

static struct weir_store *ledger_store(const struct weir_config *c, uint32_t holds_max,
                                       char *error_text, size_t error_bytes)
{
    uint32_t tenants = c->limits.tenants + WEIR_TENANT_FIRST;
    /* Some more: a slot that is given back is free only when the store has answered. */
    uint32_t scopes_max = c->scopes_count + tenants + c->upstreams_count + tenants / 8 + 64;
    if (c->ledger.in_memory) {
        const struct weir_memory_store_config memory = {.scopes_max = scopes_max,
                                                        .holds_max = holds_max,
                                                        .finished_keep = LEDGER_FINISHED_KEEP};
        return weir_memory_store_open(&memory);
    }
    const struct weir_sqlite_config sqlite = {
        .path = c->ledger.path,
        .scopes_max = scopes_max,
        .holds_max = holds_max,
        .finished_keep = LEDGER_FINISHED_KEEP,
        .keep_finished_s = (int64_t)(c->ledger.keep_finished_ns / WEIR_NS_PER_S),
        .keep_journal_s = (int64_t)(c->ledger.keep_journal_ns / WEIR_NS_PER_S),
        .keep_usage_s = (int64_t)(c->ledger.keep_usage_ns / WEIR_NS_PER_S),
        .clock_doubt_s = LEDGER_CLOCK_DOUBT_S,
        .say = ledger_say};
    return weir_sqlite_store_open(&sqlite, error_text, error_bytes);
}

/* The store has answers: the turn's end collects them. The descriptor is the store's to read and close. */
static void ledger_ready(struct weir_io *io, uint32_t events)
{
    (void)events;
    weir_gateway_dirty(
        (struct weir_gateway *)((char *)io - offsetof(struct weir_gateway, store_io)));
}

static struct weir_store_op ledger_scope_op(uint32_t scope, uint32_t parent,
                                            const struct weir_config_scope *rules)
{
    return (struct weir_store_op){
        .ledger = {.kind = WEIR_LEDGER_SCOPE,
                   .scope = scope,
                   .parent = parent,
                   .unlimited = rules == NULL,
                   .lapse_refunds = rules && rules->on_lapse == WEIR_CONFIG_LAPSE_REFUND,
                   .amount_tok = rules ? rules->granted_tok : 0},
        .deadline_ns = WEIR_NEVER_NS,
        .is_configured = true};
}

/* Operations under way before any request is, and the first that was not done. */
struct ledger_wait {
    uint32_t open;
    uint64_t failed_tag;
    enum weir_ledger_result failed; /* DONE: none */
};

/* Takes what is answered, until no more than `left` are open. false: they did not come in time. */
static bool ledger_await(struct weir_gateway *g, struct ledger_wait *w, uint32_t left)
{
    struct weir_store_answer answers[64];
    for (int ms = 0; w->open > left && ms < LEDGER_SCOPES_MS; ms++) {
        size_t count =
            weir_store_collect(g->store, weir_loop_now_ns(g->loop), answers, WEIR_COUNT(answers));
        for (size_t i = 0; i < count; i++, w->open--)
            if (answers[i].result != WEIR_LEDGER_DONE && answers[i].result != WEIR_LEDGER_SAME &&
                w->failed == WEIR_LEDGER_DONE) {
                w->failed = answers[i].result;
                w->failed_tag = answers[i].tag;
            }
        struct pollfd wait = {.fd = weir_store_fd(g->store), .events = POLLIN};
        if (count == 0)
            poll(&wait, 1, 1);
        else
            ms = 0;
    }
    return w->open <= left;
}

static bool ledger_submit(struct weir_gateway *g, struct ledger_wait *w,
                          const struct weir_store_op *op)
{
    while (!weir_store_submit(g->store, op))
        if (w->open == 0 || !ledger_await(g, w, w->open - 1))
            return false;
    w->open++;
    return true;
}

static uint32_t ledger_depth(const struct weir_config *c, uint32_t index)
{
    uint32_t depth = 0;
    for (uint32_t p = c->scopes[index].parent_index; p != WEIR_NONE; p = c->scopes[p].parent_index)
        depth++;
    return depth;
}

/* Defines the scopes of the configuration, parents before children: the loader has refused cycles
 * and chains that are too deep. */
static bool ledger_define(struct weir_gateway *g, struct ledger_wait *w)
{
    const struct weir_config *c = g->config;
    *w = (struct ledger_wait){.failed = WEIR_LEDGER_DONE};
    for (uint32_t depth = 0; depth < WEIR_LEDGER_DEPTH_MAX; depth++)
        for (uint32_t i = 0; i < c->scopes_count; i++) {
            if (ledger_depth(c, i) != depth)
                continue;
            struct weir_store_op op =
                ledger_scope_op(weir_gateway_scope(g, i),
                                weir_gateway_scope(g, c->scopes[i].parent_index), &c->scopes[i]);
            op.tag = i;
            if (op.ledger.scope == WEIR_NONE || !ledger_submit(g, w, &op)) {
                w->failed = WEIR_LEDGER_UNAVAILABLE;
                w->failed_tag = i;
                return false;
            }
        }
    if (!ledger_await(g, w, 0))
        w->failed = WEIR_LEDGER_UNAVAILABLE;
    return w->failed == WEIR_LEDGER_DONE;
}

/* A tree that the configuration turned over may be too deep half way. Then it is taken apart first:
 * every scope becomes a root, the deepest before those above them. */
static bool ledger_take_apart(struct weir_gateway *g)
{
    struct ledger_wait w = {.failed = WEIR_LEDGER_DONE};
    uint32_t slots = weir_store_scopes_max(g->store);
    for (uint32_t depth = WEIR_LEDGER_DEPTH_MAX; depth > 1; depth--) {
        for (uint32_t slot = 0; slot < slots; slot++) {
            struct weir_ledger_totals t, up;
            uint32_t level = 1;
            if (!weir_store_scope_name(g->store, slot) || !weir_store_totals(g->store, slot, &t))
                continue;
            for (uint32_t p = t.parent; p != WEIR_NONE && weir_store_totals(g->store, p, &up);
                 p = up.parent)
                level++;
            if (level != depth)
                continue;
            struct weir_store_op op = {.ledger = {.kind = WEIR_LEDGER_SCOPE,
                                                  .scope = slot,
                                                  .parent = WEIR_NONE,
                                                  .unlimited = t.unlimited,
                                                  .lapse_refunds = t.lapse_refunds,
                                                  .amount_tok = t.granted_tok},
                                       .deadline_ns = WEIR_NEVER_NS};
            if (!ledger_submit(g, &w, &op))
                return false;
        }
        if (!ledger_await(g, &w, 0))
            return false;
    }
    return w.failed == WEIR_LEDGER_DONE;
}

static bool ledger_define_all(struct weir_gateway *g, char *error_text, size_t error_bytes)
{
    struct ledger_wait w;
    if (ledger_define(g, &w) ||
        (w.failed == WEIR_LEDGER_BAD && ledger_take_apart(g) && ledger_define(g, &w)))
        return true;
    struct weir_store_status status;
    weir_store_status(g->store, &status);
    snprintf(error_text, error_bytes, "scope %s could not be defined in the ledger%s%s: %s",
             g->config->scopes[w.failed_tag].name, status.path ? " " : "",
             status.path ? status.path : "",
             status.trouble[0] ? status.trouble : weir_ledger_result_name(w.failed));
    return false;
}

bool weir_gateway_ledger_open(struct weir_gateway *g, uint64_t requests_max, char *error_text,
                              size_t error_bytes)
{
    const struct weir_config *c = g->config;
    g->store = ledger_store(c, (uint32_t)weir_min_u64(requests_max, LEDGER_HOLDS_MAX), error_text,
                            error_bytes);
    if (!g->store)
        return false;
    g->store_io.fd = weir_store_fd(g->store);
    g->store_io.ready = ledger_ready;
    if (g->store_io.fd >= 0 && weir_loop_add(g->loop, &g->store_io) != 0) {
        g->store_io.fd = -1;
        return false;
    }
    return ledger_define_all(g, error_text, error_bytes);
}

void weir_gateway_ledger_close(struct weir_gateway *g)
{
    if (g->store && g->store_io.fd >= 0)
        weir_loop_remove(g->loop, &g->store_io);
    weir_store_close(g->store);
}

uint32_t weir_gateway_scope(struct weir_gateway *g, uint32_t index)
{
    return index == WEIR_NONE ? WEIR_NONE
                              : weir_store_scope(g->store, g->config->scopes[index].name);
}

/* At the start there may be more scopes than the queue holds, so room is waited for. Only windows
 * that begin late are anybody's among the answers then. Later a full queue is a no: the loop waits
 * for nobody. */
static bool ledger_submit_scope(struct weir_gateway *g, const struct weir_store_op *op)
{
    for (int ms = 0; !weir_store_submit(g->store, op); ms++) {
        struct weir_store_answer answers[64];
        struct pollfd wait = {.fd = weir_store_fd(g->store), .events = POLLIN};
        if (g->started_ns != 0 || ms == LEDGER_SCOPES_MS)
            return false;
        uint64_t now_ns = weir_loop_now_ns(g->loop);
        size_t count = weir_store_collect(g->store, now_ns, answers, WEIR_COUNT(answers));
        for (size_t i = 0; i < count; i++)
            weir_rollover_answered(g, &answers[i], now_ns);
        if (count == 0)
            poll(&wait, 1, 1);
    }
    return true;
}

uint32_t weir_gateway_unlimited_scope(struct weir_gateway *g, const char *name)
{
    struct weir_names *names = g->store->names;
    bool is_new = weir_names_scope_find(names, name) == WEIR_NONE;
    uint32_t scope = weir_names_scope(names, name);
    if (scope == WEIR_NONE)
        return WEIR_NONE;
    const struct weir_store_op op = ledger_scope_op(scope, WEIR_NONE, NULL);
    if (ledger_submit_scope(g, &op))
        return scope;
    if (is_new) /* it was never defined, so nothing but its name holds the slot */
        weir_names_scope_left(names, scope, weir_names_scope_leave(names, scope));
    return WEIR_NONE;
}

uint32_t weir_gateway_tenant_scope(struct weir_gateway *g, const char *tenant_name)
{
    char name[WEIR_STORE_NAME_MAX];
    snprintf(name, sizeof name, "tenant/%s", tenant_name);
    return weir_gateway_unlimited_scope(g, name);
}

void weir_gateway_tenant_scope_forget(struct weir_gateway *g, const char *tenant_name)
{
    char name[WEIR_STORE_NAME_MAX];
    snprintf(name, sizeof name, "tenant/%s", tenant_name);
    const struct weir_store_op op = {
        .ledger = {.kind = WEIR_LEDGER_SCOPE_FORGET,
                   .scope = weir_names_scope_find(g->store->names, name)},
        .deadline_ns = WEIR_NEVER_NS};
    /* Turned away, or answered BUSY: the scope stays defined, and a slot is taken. */
    bool taken = op.ledger.scope != WEIR_NONE && weir_store_submit(g->store, &op);
    (void)taken;
}
