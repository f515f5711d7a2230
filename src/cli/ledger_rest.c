#include "cli/ledger_rest.h"

#include "cli/ledger_lock.h"
#include "gateway/ledger_service.h"
#include "store/reader.h"
#include "store/store.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define REST_CLOCK_DOUBT_S 600
#define REST_HOLDS 1024u
#define REST_SCOPES_SPARE 64u
#define REST_WAIT_MS 20
#define REST_DEFINE_NS (10 * WEIR_NS_PER_S)
#define REST_MEASURE_NS WEIR_NS_PER_S

struct ledger_rest {
    const char *path;
    const struct weir_config *config;
    struct weir_store *store; /* NULL: not opened yet */
    struct weir_ledger_service *service;
    uint64_t defined;                /* answers to our own definitions, so far */
    enum weir_ledger_result refused; /* the last of them that did not take effect; DONE: none */

    uint32_t status; /* of the call under way */
    json_t *answer;
};

static int64_t rest_wall_s(void)
{
    return (int64_t)time(NULL);
}

static uint64_t rest_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * WEIR_NS_PER_S + (uint64_t)now.tv_nsec;
}

static bool rest_serve(struct ledger_rest *rest)
{
    const struct weir_ledger_host host = {
        .store = rest->store, .path = rest->path, .config = rest->config, .wall_s = rest_wall_s};
    weir_ledger_service_destroy(rest->service);
    rest->service = weir_ledger_service_create(&host);
    return rest->service != NULL;
}

/* Takes the answers that are there, or waits a moment for some. */
static void rest_collect(struct ledger_rest *rest)
{
    struct weir_store_answer answers[64];
    size_t count = weir_store_collect(rest->store, rest_now_ns(), answers, WEIR_COUNT(answers));
    for (size_t i = 0; i < count; i++)
        if (!weir_ledger_service_answer(rest->service, &answers[i])) {
            rest->defined++;
            if (answers[i].result != WEIR_LEDGER_DONE)
                rest->refused = answers[i].result;
        }
    if (count == 0) {
        struct pollfd wait = {.fd = weir_store_fd(rest->store), .events = POLLIN};
        poll(&wait, 1, REST_WAIT_MS);
    }
}

/* ---- the store, and the scopes of its file ---- */

/* What the store's own thread has to say: here only what has failed. How fast the disk is, and what
 * became of old holds, is news for a gateway's log. */
static void rest_say(enum weir_store_say level, const char *text)
{
    if (level == WEIR_STORE_SAY_ERROR)
        fprintf(stderr, "weir ledger: %s\n", text);
}

static struct weir_sqlite_config rest_store_config(const char *path,
                                                   const struct weir_config *config)
{
    return (struct weir_sqlite_config){
        .path = path,
        .scopes_max = config->scopes_count + REST_SCOPES_SPARE,
        .holds_max = REST_HOLDS,
        .finished_keep = REST_HOLDS,
        .keep_finished_s = (int64_t)(config->ledger.keep_finished_ns / WEIR_NS_PER_S),
        .keep_journal_s = (int64_t)(config->ledger.keep_journal_ns / WEIR_NS_PER_S),
        .keep_usage_s = (int64_t)(config->ledger.keep_usage_ns / WEIR_NS_PER_S),
        .clock_doubt_s = REST_CLOCK_DOUBT_S,
        .say = rest_say,
    };
}

struct rest_scopes {
    struct rest_scope {
        char *name, *parent; /* parent NULL: a root */
        bool unlimited, lapse_refunds, is_defined;
        int64_t granted_tok;
        bool is_configured;
    } * list;
    size_t count, room;
    bool no_memory;
};

static void rest_scope_add(struct rest_scopes *all, const struct rest_scope *scope)
{
    if (all->count == all->room) {
        size_t room = all->room ? all->room * 2 : 64;
        struct rest_scope *list = realloc(all->list, room * sizeof *list);
        if (!list) {
            all->no_memory = true;
            return;
        }
        all->list = list;
        all->room = room;
    }
    struct rest_scope *to = &all->list[all->count++];
    *to = *scope;
    to->name = strdup(scope->name);
    to->parent = scope->parent ? strdup(scope->parent) : NULL;
    all->no_memory |= !to->name || (scope->parent && !to->parent);
}

static void rest_scope_read(void *ctx, const struct weir_reader_scope *row)
{
    const struct rest_scope scope = {.name = (char *)(uintptr_t)row->name,
                                     .parent = (char *)(uintptr_t)row->parent,
                                     .unlimited = row->unlimited,
                                     .lapse_refunds = row->lapse_refunds,
                                     .granted_tok = row->granted_tok};
    rest_scope_add(ctx, &scope);
}

static bool rest_scopes_configured(const struct weir_config *config, struct rest_scopes *all)
{
    for (uint32_t i = 0; i < config->scopes_count; i++) {
        const struct weir_config_scope *c = &config->scopes[i];
        const struct rest_scope scope = {.name = (char *)(uintptr_t)c->name,
                                         .parent = (char *)(uintptr_t)c->parent,
                                         .lapse_refunds = c->on_lapse == WEIR_CONFIG_LAPSE_REFUND,
                                         .granted_tok = c->granted_tok,
                                         .is_configured = true};
        rest_scope_add(all, &scope);
    }
    return !all->no_memory;
}

static bool rest_scopes_read(const char *path, struct rest_scopes *all, char *error_text,
                             size_t error_bytes)
{
    struct weir_reader *reader = weir_reader_open(path, error_text, error_bytes);
    struct weir_reader_cursor cursor = {0};
    enum weir_reader_next next = reader ? WEIR_READER_MORE : WEIR_READER_FAULT;
    while (next == WEIR_READER_MORE)
        next = weir_reader_scopes(reader, NULL, &cursor, 0, rest_scope_read, all);
    if (reader && next == WEIR_READER_FAULT)
        snprintf(error_text, error_bytes, "%s", weir_reader_trouble(reader));
    if (all->no_memory)
        snprintf(error_text, error_bytes, "out of memory");
    weir_reader_close(reader);
    return next != WEIR_READER_FAULT && !all->no_memory;
}

static void rest_scopes_free(struct rest_scopes *all)
{
    for (size_t i = 0; i < all->count; i++) {
        free(all->list[i].name);
        free(all->list[i].parent);
    }
    free(all->list);
}

/* Defines a scope as its row says. false: turned away, or no slot. */
static bool rest_define(struct ledger_rest *rest, const struct rest_scope *scope)
{
    uint32_t slot = weir_store_scope(rest->store, scope->name);
    uint32_t parent = scope->parent ? weir_store_scope(rest->store, scope->parent) : WEIR_NONE;
    const struct weir_store_op op = {
        .ledger = {.kind = WEIR_LEDGER_SCOPE,
                   .scope = slot,
                   .parent = parent,
                   .unlimited = scope->unlimited,
                   .lapse_refunds = scope->lapse_refunds,
                   .amount_tok = scope->unlimited ? 0 : scope->granted_tok},
        .deadline_ns = WEIR_NEVER_NS,
        .is_configured = scope->is_configured};
    return slot != WEIR_NONE && weir_store_submit(rest->store, &op);
}

static bool rest_parent_is_defined(const struct rest_scopes *all, const struct rest_scope *scope)
{
    if (!scope->parent)
        return true;
    for (size_t i = 0; i < all->count; i++)
        if (all->list[i].is_defined && strcmp(all->list[i].name, scope->parent) == 0)
            return true;
    return false;
}

/* Gives every scope its slot, parents first, as a gateway does. */
static bool rest_define_all(struct ledger_rest *rest, struct rest_scopes *all)
{
    uint64_t submitted = rest->defined, give_up_ns = rest_now_ns() + REST_DEFINE_NS;
    for (int depth = 0; depth < WEIR_LEDGER_DEPTH_MAX; depth++)
        for (size_t i = 0; i < all->count; i++) {
            struct rest_scope *scope = &all->list[i];
            if (scope->is_defined || !rest_parent_is_defined(all, scope))
                continue;
            while (!rest_define(rest, scope)) {
                if (rest_now_ns() > give_up_ns)
                    return false;
                rest_collect(rest);
            }
            scope->is_defined = true;
            submitted++;
        }
    while (rest->defined < submitted && rest_now_ns() < give_up_ns)
        rest_collect(rest);
    return rest->defined == submitted && rest->refused == WEIR_LEDGER_DONE;
}

/* Opens the store. Another command may have been faster: it is done in a moment. */
static struct weir_store *rest_store_own(const char *path, const struct weir_sqlite_config *config,
                                         char *error_text, size_t error_bytes)
{
    struct ledger_lock_wait wait = {0};
    struct weir_store *store;
    do
        store = weir_sqlite_store_open(config, error_text, error_bytes);
    while (!store && ledger_lock_wait(&wait, path));
    return store;
}

/* Opens the store and gives it the scopes. */
static bool rest_store_open(struct ledger_rest *rest, struct rest_scopes *scopes, char *error_text,
                            size_t error_bytes)
{
    struct weir_sqlite_config config = rest_store_config(rest->path, rest->config);
    config.scopes_max += (uint32_t)weir_min_u64(scopes->count, 1u << 20);
    rest->store = rest_store_own(rest->path, &config, error_text, error_bytes);
    if (!rest->store)
        return false;
    if (!rest_serve(rest)) {
        snprintf(error_text, error_bytes, "out of memory");
        return false;
    }
    if (rest_define_all(rest, scopes))
        return true;
    if (rest->refused != WEIR_LEDGER_DONE)
        snprintf(error_text, error_bytes, "the ledger %s did not take a scope: %s", rest->path,
                 weir_ledger_result_name(rest->refused));
    else
        snprintf(error_text, error_bytes, "the ledger %s did not take its scopes in time",
                 rest->path);
    return false;
}

/* For a change: the store, with the scopes that the file has. */
static bool rest_open_for_change(struct ledger_rest *rest, char *error_text, size_t error_bytes)
{
    struct rest_scopes scopes = {0};
    bool opened = rest_scopes_read(rest->path, &scopes, error_text, error_bytes) &&
                  rest_store_open(rest, &scopes, error_text, error_bytes);
    rest_scopes_free(&scopes);
    return opened;
}

/* ---- calls ---- */

struct ledger_rest *ledger_rest_open(const char *path, const struct weir_config *config)
{
    struct ledger_rest *rest = calloc(1, sizeof *rest);
    if (!rest)
        return NULL;
    rest->path = path;
    rest->config = config;
    rest->refused = WEIR_LEDGER_DONE;
    if (!rest_serve(rest)) {
        free(rest);
        return NULL;
    }
    return rest;
}

void ledger_rest_close(struct ledger_rest *rest)
{
    if (!rest)
        return;
    weir_ledger_service_destroy(rest->service);
    weir_store_close(rest->store);
    free(rest);
}

static void rest_reply(void *ctx, uint32_t status, json_t *answer)
{
    struct ledger_rest *rest = ctx;
    rest->status = status;
    rest->answer = answer;
}

uint32_t ledger_rest_ask(struct ledger_rest *rest, const char *target, const json_t *body,
                         json_t **answer, char *error_text, size_t error_bytes)
{
    char path[2048];
    snprintf(path, sizeof path, "%s", target);
    char *query = strchr(path, '?');
    if (query)
        *query++ = '\0';
    if (body && !rest->store && !rest_open_for_change(rest, error_text, error_bytes))
        return 0;
    rest->status = 0;
    rest->answer = NULL;
    const struct weir_ledger_request request = {.is_post = body != NULL,
                                                .path = path,
                                                .query = query ? query : "",
                                                .body = body,
                                                .reply = rest_reply,
                                                .ctx = rest};
    const struct weir_ledger_call *call =
        weir_ledger_service_call(rest->service, &request, rest_now_ns());
    while (call && rest->status == 0) {
        rest_collect(rest);
        weir_ledger_service_tick(rest->service, rest_now_ns());
    }
    *answer = rest->answer;
    if (rest->status == 0 || !rest->answer)
        snprintf(error_text, error_bytes, "out of memory");
    return rest->answer ? rest->status : 0;
}

/* ---- files ---- */

bool ledger_rest_make(const char *path, const struct weir_config *config, struct ledger_made *made,
                      char *error_text, size_t error_bytes)
{
    struct ledger_rest *rest = ledger_rest_open(path, config);
    struct rest_scopes scopes = {0};
    struct weir_store_status status = {0};
    snprintf(error_text, error_bytes, "out of memory");
    bool done = rest && rest_scopes_configured(config, &scopes) &&
                rest_store_open(rest, &scopes, error_text, error_bytes);
    /* The store times the disk in a thread of its own, in a moment. */
    uint64_t give_up_ns = rest_now_ns() + REST_MEASURE_NS;
    while (done && status.sync_ns == 0 && rest_now_ns() < give_up_ns) {
        rest_collect(rest);
        weir_store_status(rest->store, &status);
    }
    *made = (struct ledger_made){(uint32_t)scopes.count, status.sync_ns};
    rest_scopes_free(&scopes);
    ledger_rest_close(rest);
    return done;
}

bool ledger_rest_adopt(const char *path, const struct weir_config *config, uint64_t *epoch,
                       char *error_text, size_t error_bytes)
{
    struct weir_sqlite_config open = rest_store_config(path, config);
    open.adopt = true;
    struct weir_store *store = weir_sqlite_store_open(&open, error_text, error_bytes);
    *epoch = store ? store->epoch : 0;
    weir_store_close(store);
    return store != NULL;
}
