/* ledger_service_inside: what the files of the ledger service share. Private to them.
 *
 *   ledger_service.c        calls from begin to end; the helper thread
 *   ledger_service_query.c  paths and queries, checked
 *   ledger_service_show.c   scopes and store as JSON
 *   ledger_service_write.c  grant and adjust
 *   ledger_service_file.c   lists from the file (helper) */
#ifndef WEIR_GATEWAY_LEDGER_SERVICE_INSIDE_H
#define WEIR_GATEWAY_LEDGER_SERVICE_INSIDE_H

#include "gateway/ledger_service.h"
#include "net/loop.h"

#include <pthread.h>

enum service_route {
    ROUTE_SHOW,
    ROUTE_HOLDS,
    ROUTE_USAGE,
    ROUTE_JOURNAL,
    ROUTE_GRANT,
    ROUTE_ADJUST
};
#define SERVICE_ROUTES 6

#define SERVICE_PAGE_MAX 1000u
#define SERVICE_SCOPES_MAX 100u /* of a page made by the loop: some 3 ms */
#define SERVICE_AFTER_BYTES 160
#define SERVICE_TIME_BYTES 32 /* "2026-12-01T00:00:00+01:00" */

/* A query, checked. */
struct service_query {
    char scope[WEIR_STORE_NAME_MAX]; /* "": all */
    enum weir_hold_state state;      /* NONE: all */
    char after[SERVICE_AFTER_BYTES]; /* "": from the start */
    bool idle_left_out;              /* no unlimited scopes that nothing was used of */
    int64_t from_s, to_s;            /* from included, to excluded */
    uint32_t limit;
};

/* What the file knows of the use of late, for the burn rate. */
struct service_burn {
    json_t *scopes; /* name: tokens of its own holds; NULL: not known */
    int64_t since_s, until_s;
};

struct weir_ledger_call {
    bool in_use;
    struct weir_ledger_service *service;
    enum service_route route;
    struct service_query query;
    weir_ledger_reply_fn *reply; /* NULL: the asker is gone */
    void *ctx;
    uint64_t deadline_ns;

    /* A write: how its answer is known, and what is told then. */
    uint64_t tag; /* 0: no write */
    uint64_t hold;
    enum weir_ledger_kind kind;
    uint32_t scope;
    int64_t before_tok; /* granted, or used, before */
    int64_t amount_tok;
    char reason[WEIR_STORE_TEXT_MAX + 1];

    /* A read by the helper. */
    struct weir_ledger_call *next;
    uint32_t status;
    json_t *answer;
    struct service_burn burn;
    json_t *holds; /* counts by state; NULL: not known */
};

struct weir_ledger_service {
    struct weir_ledger_host host;
    json_t *config_scopes;         /* name: index into the configuration's */
    struct service_burn rest_burn; /* of a file at rest: the same for all pages */
    struct weir_ledger_call calls[WEIR_LEDGER_CALLS_MAX];
    uint64_t tag_last;
    bool
        is_stuck; /* the helper has not come back in time: nothing more is given to it until then */
    struct weir_timer timer;

    /* The helper. What it works on is its own until it is in done. */
    struct weir_io done_io; /* an eventfd; -1: there is no helper */
    pthread_t helper;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t more;
    struct weir_ledger_call *todo, **todo_end, *done;
    bool stop;
};

/* --- ledger_service.c --- */
json_t *service_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Ends a call with its answer, which is given away. */
void service_reply(struct weir_ledger_call *call, uint32_t status, json_t *answer);

/* --- ledger_service_query.c --- */
/* Fills call->route and call->query. 0: right; else the status of the refusal and *error. */
uint32_t service_parse(const struct weir_ledger_request *request, struct weir_ledger_call *call,
                       json_t **error);
json_t *service_after_error(const struct service_query *query);
/* Whole decimal digits, at most max. */
WEIR_MUST_USE bool service_digits(const char *text, uint64_t max, uint64_t *value);

/* --- ledger_service_show.c --- */
/* One scope in one window, from memory or from the file. */
struct service_scope {
    const char *name, *parent; /* parent NULL: a root */
    uint64_t window;
    bool unlimited, lapse_refunds;
    int64_t granted_tok, reserved_tok, committed_tok, lapsed_tok, overrun_tok, cut_tok, raised_tok,
        lowered_tok, unmatched_tok, refunded_tok;
    int64_t configured_tok; /* -1: the configuration gave it none */
    int64_t held, lapsed;   /* holds */
    int64_t refused;        /* since the start; -1: not known */
};
/* Scopes of a page as JSON. */
struct service_scopes {
    json_t *list;
    uint32_t count;
    uint64_t left_out; /* unlimited ones that nothing was used of */
};
void service_scopes_add(const struct weir_ledger_service *service,
                        const struct service_query *query, const struct service_scope *scope,
                        const struct service_burn *burn, struct service_scopes *out);
/* The whole answer to GET /v1/ledger from memory; burn may be empty, and is that of leaves;
 * holds: by state in the file, NULL: not known. */
json_t *service_show(struct weir_ledger_service *service, const struct service_query *query,
                     struct service_burn *burn, const json_t *holds);
/* The file names leaves only: what they used is added to their parents too. */
void service_burn_climb(struct service_burn *burn,
                        const char *(*parent_of)(void *ctx, const char *name), void *ctx);
/* Instants as text: UTC, and with the offset of a zone (NULL: UTC). Returns out. */
const char *service_time(int64_t unix_s, const struct weir_zone *zone,
                         char out[static SERVICE_TIME_BYTES]);
json_t *service_id(uint64_t id);

/* --- ledger_service_write.c --- */
/* Submits, or replies with what is wrong. */
void service_write(struct weir_ledger_call *call, const json_t *body);
/* The store has answered a write. */
void service_written(struct weir_ledger_call *call, const struct weir_store_answer *answer);
void service_late(struct weir_ledger_call *call);

/* --- ledger_service_file.c; thread: helper --- */
/* Fills call->status and call->answer from the file; for ROUTE_SHOW of a live ledger call->burn and
 * call->holds. */
void service_read(struct weir_ledger_call *call);

#endif
