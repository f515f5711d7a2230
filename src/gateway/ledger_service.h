/* ledger_service: what people and programs ask of a ledger, as paths and JSON.
 *
 *   GET  /v1/ledger          scopes with their balances, and how the store is;
 *                            ?scope=; ?idle=no leaves out unlimited ones that nothing was used of
 *   GET  /v1/ledger/holds    holds by id                                     ?scope= &state=
 *   GET  /v1/ledger/usage    tokens by scope, upstream, model and UTC hour   ?scope= &from= &to=
 *   GET  /v1/ledger/journal  what changed, in order, one object a transition
 *   POST /v1/ledger/grant    {"scope", "granted_tok"}          null: unlimited
 *   POST /v1/ledger/adjust   {"scope", "tokens", "reason"}     signed, into its present window;
 *                            with "usage": {"upstream", "model", "utc_hour", "input_tok",
 *                            "output_tok"} also a row of the usage table, whose two amounts add up
 *                            to tokens: how a reconciliation remembers what it corrected
 *                            {"hold", "tokens", "reason"}      what a lapsed hold really used; 0
 *                                                              writes it off
 *
 * Lists come in pages of ?limit= (1 to 1,000, the default; of scopes 100 at most): "next" is null
 * at the end, else it is what ?after= takes to go on. Amounts are integers, ids are strings of digits,
 * instants are Unix seconds (..._s) and beside them text for people. An error is {"error": "..."}.
 *
 * One implementation, two hosts: the admin API of a live gateway (balances from its memory, lists
 * from the file by a helper thread, so that no disk holds the loop up), and a command in its own
 * process on a file at rest (no loop: everything is done within the call; all from the file until a
 * POST has opened the store). A memory ledger has balances only.
 *
 * Writes are told when the store has answered: 200, 503 when it cannot or does not within 5 s.
 * Where the file hangs, balances are told from memory after a second, and lists are refused.
 * Thread: loop. Source: docs/ledger.md, "Commands". */
#ifndef WEIR_GATEWAY_LEDGER_SERVICE_H
#define WEIR_GATEWAY_LEDGER_SERVICE_H

#include "gateway/config.h"
#include "net/slice.h"
#include "store/store.h"

#include <jansson.h>

struct weir_ledger_service;
struct weir_ledger_call;
struct weir_loop;

#define WEIR_LEDGER_PATH "/v1/ledger"
#define WEIR_LEDGER_CALLS_MAX 16 /* under way at once; more are told 503 */
#define WEIR_LEDGER_BODY_BYTES_MAX 65536

/* What a service stands on; all borrowed until it is destroyed. */
struct weir_ledger_host {
    struct weir_store *store; /* NULL: a file at rest that is only read */
    const char *path;         /* of its file; NULL: a memory ledger */
    const struct weir_config *config;
    struct weir_loop *loop;  /* NULL: no thread, no timer; every GET is answered within the call */
    int64_t (*wall_s)(void); /* for windows and what people read */
    /* One line for the log: who changed what by hand. NULL: nobody listens. */
    void (*say)(void *ctx, const char *text);
    void *ctx;
};

/* answer is the callee's to json_decref; NULL: out of memory. Never called after a cancel. */
typedef void weir_ledger_reply_fn(void *ctx, uint32_t status, json_t *answer);

struct weir_ledger_request {
    bool is_post;
    const char *path;   /* without its query */
    const char *query;  /* "" or what follows the question mark, still percent-encoded */
    const json_t *body; /* POST: NULL when it was no JSON */
    weir_ledger_reply_fn *reply;
    void *ctx;
};

/* NULL: out of memory, descriptors or threads. */
WEIR_MUST_USE struct weir_ledger_service *
weir_ledger_service_create(const struct weir_ledger_host *host);
/* Calls under way are forgotten without a reply. NULL is fine. */
void weir_ledger_service_destroy(struct weir_ledger_service *service);

/* Whether the path is one of ours. */
bool weir_ledger_service_serves(struct weir_slice path);

/* Takes a request. reply is called once: within this call (then NULL is returned), or later, from
 * weir_ledger_service_answer or _tick or the loop. */
struct weir_ledger_call *weir_ledger_service_call(struct weir_ledger_service *service,
                                                  const struct weir_ledger_request *request,
                                                  uint64_t now_ns);
/* The asker is gone. What was submitted to the store still happens. */
void weir_ledger_service_cancel(struct weir_ledger_service *service, struct weir_ledger_call *call);

/* Shown every answer that was collected. true: it was for a call of this service, and may have
 * freed some budget. */
bool weir_ledger_service_answer(struct weir_ledger_service *service,
                                const struct weir_store_answer *answer);
/* Ends calls that have waited too long. A service with a loop does it by itself. */
void weir_ledger_service_tick(struct weir_ledger_service *service, uint64_t now_ns);

#endif
