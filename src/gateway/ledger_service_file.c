/* Lists from the ledger's file. Each call opens the file, takes one page and closes it, so that no
 * reader is left behind to hold the writer up. In a gateway all of it runs in the helper thread. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/num.h"
#include "gateway/ledger_service_inside.h"
#include "gateway/reconcile.h"
#include "store/reader.h"

#define BURN_HOURS 1 /* full hours before the present one that a burn rate looks back on */
#define BURN_PAGES_MAX 50
#define HOUR_S INT64_C(3600)

/* ---- cursors ---- */

/* "12" or "12.3.4.5": what a page's next said. */
static bool read_cursor(const char *after, struct weir_reader_cursor *cursor)
{
    char text[SERVICE_AFTER_BYTES];
    char *rest = text;
    snprintf(text, sizeof text, "%s", after);
    for (size_t i = 0; *after && i < WEIR_COUNT(cursor->at); i++) {
        char *number = strsep(&rest, ".");
        bool negative = number && *number == '-';
        uint64_t value = 0;
        if (!number)
            break;
        if (!service_digits(number + negative, INT64_MAX, &value))
            return false;
        cursor->at[i] = negative ? -(int64_t)value : (int64_t)value;
        cursor->begun = true;
    }
    return *after == '\0' || rest == NULL;
}

static json_t *cursor_json(enum weir_reader_next next, const struct weir_reader_cursor *cursor)
{
    char text[SERVICE_AFTER_BYTES];
    int used = 0;
    size_t count = WEIR_COUNT(cursor->at);
    if (next != WEIR_READER_MORE)
        return json_null();
    while (count > 1 && cursor->at[count - 1] == 0)
        count--;
    for (size_t i = 0; i < count; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, i ? ".%" PRId64 : "%" PRId64,
                         cursor->at[i]);
    return json_string(text);
}

/* ---- rows ---- */

static json_t *text_json(const char *text, size_t bytes)
{
    json_t *value = json_stringn(text, bytes);
    return value ? value : json_string("?"); /* no UTF-8: a damaged row */
}

static void set_text(json_t *to, const char *name, const char *text)
{
    json_object_set_new(to, name, text ? text_json(text, strlen(text)) : json_null());
}

static void set_int(json_t *to, const char *name, int64_t value)
{
    json_object_set_new(to, name, json_integer(value));
}

/* name_s as a number, name as text; none: both null. */
static void set_instant(json_t *to, const char *name, int64_t unix_s, bool none)
{
    char key[24], text[SERVICE_TIME_BYTES];
    snprintf(key, sizeof key, "%s_s", name);
    json_object_set_new(to, key, none ? json_null() : json_integer(unix_s));
    json_object_set_new(to, name,
                        none ? json_null() : json_string(service_time(unix_s, NULL, text)));
}

static void add_hold(void *ctx, const struct weir_reader_hold *h)
{
    json_t *to = json_object();
    json_object_set_new(to, "hold", service_id(h->id));
    set_text(to, "scope", h->scope);
    set_text(to, "state", weir_hold_state_name(h->state));
    json_object_set_new(to, "asked_tok",
                        h->asked_tok < 0 ? json_null() : json_integer(h->asked_tok));
    set_int(to, "booked_tok", h->booked_tok);
    set_int(to, "epoch", (int64_t)weir_ledger_hold_epoch(h->id));
    json_object_set_new(to, "has_key", json_boolean(h->has_key));
    set_int(to, "window", h->depth ? (int64_t)weir_min_u64(h->chain[0].window, INT64_MAX) : 0);
    set_instant(to, "created", h->created_s, false);
    set_instant(to, "done", h->done_s, h->done_s == 0);
    json_array_append_new(ctx, to);
}

static void add_usage(void *ctx, const struct weir_reader_usage *u)
{
    json_t *to = json_object();
    set_instant(to, "hour", u->utc_hour * HOUR_S, false);
    set_text(to, "scope", u->scope);
    set_text(to, "upstream", u->upstream);
    set_text(to, "model", u->model);
    set_int(to, "requests", u->requests);
    set_int(to, "input_tok", u->input_tok);
    set_int(to, "cached_tok", u->cached_tok);
    set_int(to, "cache_write_tok", u->cache_write_tok);
    set_int(to, "output_tok", u->output_tok);
    set_int(to, "estimated_tok", u->estimated_tok);
    set_int(to, "late_tok", u->late_tok);
    set_int(to, "unmatched_tok", u->unmatched_tok);
    json_array_append_new(ctx, to);
}

static void add_change(void *ctx, const struct weir_reader_change *c)
{
    const struct weir_journal_record *r = c->record;
    json_t *to = json_object();
    set_int(to, "seq", c->seq);
    set_int(to, "index", c->index);
    set_instant(to, "at", c->wall_s, false);
    set_text(to, "kind", weir_journal_kind_name(r->kind));
    set_text(to, "scope", c->scope);
    set_int(to, "window", r->depth ? (int64_t)weir_min_u64(r->chain[0].window, INT64_MAX) : 0);
    switch (r->kind) {
    case WEIR_JOURNAL_RESERVE:
    case WEIR_JOURNAL_EXTEND:
    case WEIR_JOURNAL_SETTLE:
    case WEIR_JOURNAL_VOID:
    case WEIR_JOURNAL_LAPSE:
        json_object_set_new(to, "hold", service_id(r->hold));
        set_text(to, "state_before", weir_hold_state_name(r->state_before));
        set_text(to, "state_after", weir_hold_state_name(r->state_after));
        set_int(to, "before_tok", r->before_tok);
        set_int(to, "after_tok", r->after_tok);
        if (r->kind == WEIR_JOURNAL_SETTLE)
            json_object_set_new(to, "estimated", json_boolean(r->estimated));
        break;
    case WEIR_JOURNAL_ADJUST:
        set_int(to, "amount_tok", r->amount_tok);
        json_object_set_new(to, "reason",
                            r->text ? text_json(r->text, r->text_bytes) : json_null());
        break;
    case WEIR_JOURNAL_SCOPE:
        json_object_set_new(to, "configured", json_boolean(r->is_configured));
        json_object_set_new(to, "on_lapse", json_string(r->lapse_refunds ? "refund" : "charge"));
        /* fall through */
    case WEIR_JOURNAL_WINDOW:
        json_object_set_new(to, "granted_tok",
                            r->amount_tok >= WEIR_BALANCE_MAX ? json_null()
                                                              : json_integer(r->amount_tok));
        break;
    case WEIR_JOURNAL_FORGET:
        break;
    }
    json_array_append_new(ctx, to);
}

/* ---- the overview ---- */

static void add_burn_row(void *ctx, const struct weir_reader_usage *u)
{
    json_int_t before = json_integer_value(json_object_get(ctx, u->scope));
    if (strncmp(u->upstream, WEIR_RECONCILE_PREFIX, strlen(WEIR_RECONCILE_PREFIX)) == 0)
        return; /* a correction of the past, no use of now */
    json_object_set_new(ctx, u->scope,
                        json_integer(weir_add_sat_i64(before, u->input_tok + u->output_tok)));
}

static enum weir_reader_next read_burn(struct weir_ledger_call *call, struct weir_reader *reader)
{
    int64_t now_s = call->service->host.wall_s(), hour = now_s / HOUR_S;
    const struct weir_reader_usage_filter filter = {.from_hour = hour - BURN_HOURS,
                                                    .to_hour = hour + 1};
    struct weir_reader_cursor cursor = {0};
    enum weir_reader_next next = WEIR_READER_MORE;
    call->burn = (struct service_burn){
        .scopes = json_object(), .since_s = (hour - BURN_HOURS) * HOUR_S, .until_s = now_s};
    for (int page = 0; page < BURN_PAGES_MAX && next == WEIR_READER_MORE; page++)
        next = weir_reader_usage(reader, &filter, &cursor, WEIR_READER_ROWS_MAX, add_burn_row,
                                 call->burn.scopes);
    return next;
}

struct scopes_at_rest {
    struct weir_ledger_call *call;
    struct service_scopes out;
};

static void add_scope(void *ctx, const struct weir_reader_scope *r)
{
    struct scopes_at_rest *all = ctx;
    const struct weir_balance_row *b = &r->balance;
    const struct service_scope scope = {
        .name = r->name,
        .parent = r->parent,
        .window = b->window,
        .unlimited = r->unlimited,
        .lapse_refunds = r->lapse_refunds,
        .granted_tok = r->granted_tok,
        .reserved_tok = b->reserved_tok,
        .committed_tok = b->committed_tok,
        .lapsed_tok = b->lapsed_tok,
        .overrun_tok = b->overrun_tok,
        .cut_tok = b->cut_tok,
        .raised_tok = b->raised_tok,
        .lowered_tok = b->lowered_tok,
        .unmatched_tok = b->unmatched_tok,
        .refunded_tok = b->refunded_tok,
        .configured_tok =
            r->is_configured && r->configured_tok < WEIR_BALANCE_MAX ? r->configured_tok : -1,
        .held = r->held,
        .lapsed = r->lapsed,
        .refused = -1,
    };
    const struct weir_ledger_service *service = all->call->service;
    service_scopes_add(service, &all->call->query, &scope, &service->rest_burn, &all->out);
}

static void add_parent(void *ctx, const struct weir_reader_scope *r)
{
    if (r->parent)
        json_object_set_new(ctx, r->name, json_string(r->parent));
}

static const char *parent_at_rest(void *ctx, const char *name)
{
    return json_string_value(json_object_get(ctx, name));
}

static json_t *facts_json(const char *path, const struct weir_reader_facts *f)
{
    json_t *to = json_pack("{s:s, s:b, s:b, s:n, s:s}", "type", "sqlite", "durable", 1, "available",
                           1, "trouble", "path", path);
    set_int(to, "epoch", (int64_t)f->epoch);
    set_instant(to, "created", f->created_s, false);
    set_instant(to, "written", f->wall_s, false);
    set_int(to, "journal_first", f->first_seq);
    set_int(to, "journal_last", f->last_seq);
    set_int(to, "file_bytes", f->file_bytes);
    set_int(to, "wal_bytes", f->wal_bytes);
    return to;
}

static json_t *holds_json(const struct weir_reader_facts *f)
{
    static const enum weir_hold_state states[] = {
        WEIR_HOLD_HELD, WEIR_HOLD_LAPSED, WEIR_HOLD_SETTLED, WEIR_HOLD_VOID, WEIR_HOLD_LATE};
    json_t *to = json_object();
    for (size_t i = 0; i < WEIR_COUNT(states); i++)
        set_int(to, weir_hold_state_name(states[i]), f->holds[states[i]]);
    return to;
}

/* What memory does not know. */
static enum weir_reader_next read_for_memory(struct weir_ledger_call *call,
                                             struct weir_reader *reader)
{
    struct weir_reader_facts facts;
    enum weir_reader_next next = read_burn(call, reader);
    if (next == WEIR_READER_FAULT || !weir_reader_facts(reader, &facts)) {
        json_decref(call->burn.scopes);
        call->burn = (struct service_burn){0};
        return WEIR_READER_FAULT;
    }
    call->holds = holds_json(&facts);
    return next;
}

/* The burn rates of a file at rest, once for all pages. */
static enum weir_reader_next read_rest_burn(struct weir_ledger_call *call,
                                            struct weir_reader *reader)
{
    struct weir_ledger_service *service = call->service;
    struct weir_reader_cursor cursor = {0};
    json_t *parents = json_object();
    if (service->rest_burn.scopes) {
        json_decref(parents);
        return WEIR_READER_END;
    }
    enum weir_reader_next next = read_burn(call, reader);
    if (next != WEIR_READER_FAULT)
        next = json_object_size(call->burn.scopes) > 0 ? WEIR_READER_MORE : WEIR_READER_END;
    while (next == WEIR_READER_MORE)
        next = weir_reader_scopes(reader, NULL, &cursor, WEIR_READER_ROWS_MAX, add_parent, parents);
    if (next != WEIR_READER_FAULT) {
        service_burn_climb(&call->burn, parent_at_rest, parents);
        service->rest_burn = call->burn;
        call->burn = (struct service_burn){0};
    }
    json_decref(parents);
    return next;
}

static enum weir_reader_next read_scopes(struct weir_ledger_call *call, struct weir_reader *reader,
                                         struct weir_reader_cursor *cursor)
{
    const struct service_query *query = &call->query;
    struct weir_reader_facts facts;
    struct scopes_at_rest all = {.call = call, .out = {.list = json_array()}};
    char text[SERVICE_TIME_BYTES];
    int64_t wall_s = call->service->host.wall_s();
    enum weir_reader_next next = WEIR_READER_FAULT;
    if (weir_reader_facts(reader, &facts) && read_rest_burn(call, reader) != WEIR_READER_FAULT)
        next = WEIR_READER_MORE;
    while (next == WEIR_READER_MORE && all.out.count < query->limit)
        next = weir_reader_scopes(reader, *query->scope ? query->scope : NULL, cursor,
                                  query->limit - all.out.count, add_scope, &all);
    if (next == WEIR_READER_FAULT) {
        json_decref(all.out.list);
        return next;
    }
    call->answer = json_pack("{s:s, s:I, s:b, s:o, s:o, s:n, s:o, s:I, s:o}", "at",
                             service_time(wall_s, NULL, text), "at_s", (json_int_t)wall_s, "live",
                             0, "store", facts_json(call->service->host.path, &facts), "holds",
                             holds_json(&facts), "answers", "scopes", all.out.list, "left_out",
                             (json_int_t)all.out.left_out, "next", cursor_json(next, cursor));
    return next;
}

/* ---- pages ---- */

static enum weir_reader_next read_list(struct weir_ledger_call *call, struct weir_reader *reader,
                                       struct weir_reader_cursor *cursor)
{
    const struct service_query *query = &call->query;
    const char *scope = *query->scope ? query->scope : NULL;
    json_t *list = json_array();
    const char *name = "";
    enum weir_reader_next next = WEIR_READER_FAULT;
    if (call->route == ROUTE_HOLDS) {
        const struct weir_reader_hold_filter filter = {scope, query->state};
        name = "holds";
        next = weir_reader_holds(reader, &filter, cursor, query->limit, add_hold, list);
    } else if (call->route == ROUTE_USAGE) {
        int64_t last_hour = query->to_s / HOUR_S + (query->to_s % HOUR_S > 0);
        const struct weir_reader_usage_filter filter = {scope, query->from_s / HOUR_S, last_hour};
        name = "usage";
        next = weir_reader_usage(reader, &filter, cursor, query->limit, add_usage, list);
    } else {
        name = "journal";
        next = weir_reader_journal(reader, cursor, query->limit, add_change, list);
    }
    if (next == WEIR_READER_FAULT)
        json_decref(list);
    else
        call->answer = json_pack("{s:o, s:o}", name, list, "next", cursor_json(next, cursor));
    return next;
}

void service_read(struct weir_ledger_call *call)
{
    char error_text[512] = "";
    struct weir_reader_cursor cursor = {0};
    bool of_memory = call->route == ROUTE_SHOW && call->service->host.store;
    call->status = 200;
    if (!of_memory && !read_cursor(call->query.after, &cursor)) {
        call->status = 400;
        call->answer = service_after_error(&call->query);
        return;
    }
    struct weir_reader *reader =
        weir_reader_open(call->service->host.path, error_text, sizeof error_text);
    enum weir_reader_next next = WEIR_READER_FAULT;
    if (reader)
        next = of_memory                   ? read_for_memory(call, reader)
               : call->route == ROUTE_SHOW ? read_scopes(call, reader, &cursor)
                                           : read_list(call, reader, &cursor);
    if (next == WEIR_READER_FAULT) {
        call->status = 500;
        call->answer = service_error("%s", reader ? weir_reader_trouble(reader) : error_text);
    }
    weir_reader_close(reader);
}
