#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gateway/config_value.h"
#include "core/num.h"
#include "gateway/ledger_service_inside.h"
#include "gateway/window.h"

#define SHOW_SLOTS_MAX 20000u /* looked at for a page: about a millisecond */

/* ---- small things ---- */

json_t *service_id(uint64_t id)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, id);
    return json_string(text);
}

const char *service_time(int64_t unix_s, const struct weir_zone *zone,
                         char out[static SERVICE_TIME_BYTES])
{
    struct tm parts;
    int64_t offset_s = zone ? weir_zone_span(zone, unix_s, unix_s + 1).offset_s : 0;
    time_t local = (time_t)(unix_s + offset_s);
    if (unix_s < 0 || unix_s > INT64_C(253402000000) || !gmtime_r(&local, &parts) ||
        strftime(out, SERVICE_TIME_BYTES, "%Y-%m-%dT%H:%M:%S", &parts) == 0) {
        snprintf(out, SERVICE_TIME_BYTES, "%" PRId64, unix_s);
    } else if (!zone) {
        strcat(out, "Z");
    } else {
        int64_t minutes = (offset_s < 0 ? -offset_s : offset_s) / 60;
        size_t used = strlen(out);
        snprintf(out + used, SERVICE_TIME_BYTES - used, "%c%02d:%02d", offset_s < 0 ? '-' : '+',
                 (int)(minutes / 60 % 100), (int)(minutes % 60));
    }
    return out;
}

static json_t *amount(int64_t value)
{
    return json_integer(value);
}

static json_t *amount_or_null(int64_t value)
{
    return value < 0 ? json_null() : json_integer(value);
}

static json_t *amount_u64(uint64_t value)
{
    return json_integer((json_int_t)weir_min_u64(value, INT64_MAX));
}

static json_t *text_or_null(const char *text)
{
    return text && *text ? json_string(text) : json_null();
}

static const struct weir_config_scope *config_scope(const struct weir_ledger_service *service,
                                                    const char *name)
{
    const json_t *index = json_object_get(service->config_scopes, name);
    return index ? &service->host.config->scopes[json_integer_value(index)] : NULL;
}

/* ---- a scope ---- */

/* Adds the window: where it began, when it resets, both for people in UTC and in the scope's zone.
 * The window is the one that the ledger has open; it may be over by the clock. */
static void add_window(json_t *to, const struct weir_config_scope *config, uint64_t number,
                       int64_t wall_s)
{
    char text[SERVICE_TIME_BYTES], period[WEIR_VALUE_TEXT_MAX] = "none";
    struct weir_window_rule rule = {.period = WEIR_PERIOD_NONE};
    if (config)
        rule = config->window;
    if (rule.period == WEIR_PERIOD_SECONDS)
        weir_value_duration_text((uint64_t)rule.seconds * WEIR_NS_PER_S, period);
    else
        snprintf(period, sizeof period, "%s", weir_value_period_name(rule.period));
    json_object_set_new(to, "period", json_string(period));
    json_object_set_new(to, "zone", json_string(rule.zone ? weir_zone_name(rule.zone) : "UTC"));
    json_object_set_new(to, "window", amount_u64(number));
    if (number > 0 && number < INT64_MAX)
        json_object_set_new(to, "window_start",
                            json_string(service_time((int64_t)number, NULL, text)));
    else
        json_object_set_new(to, "window_start", json_null());
    struct weir_window window = weir_window_at(&rule, wall_s);
    bool has_end = window.end_s != INT64_MAX;
    json_object_set_new(to, "resets_s", has_end ? json_integer(window.end_s) : json_null());
    json_object_set_new(
        to, "resets", has_end ? json_string(service_time(window.end_s, NULL, text)) : json_null());
    json_object_set_new(to, "resets_local",
                        has_end ? json_string(service_time(window.end_s, rule.zone, text))
                                : json_null());
    json_object_set_new(to, "window_is_over",
                        json_boolean(has_end && number < weir_window_number(window)));
}

/* Adds how fast the budget goes, and when it is gone at that pace. free_tok < 0: unlimited. */
static void add_burn(json_t *to, const struct service_burn *burn, const char *name,
                     int64_t free_tok, int64_t wall_s)
{
    const json_t *used = burn->scopes ? json_object_get(burn->scopes, name) : NULL;
    int64_t span_s = burn->until_s - burn->since_s, per_hour = -1, left_s = -1;
    char text[SERVICE_TIME_BYTES];
    if (burn->scopes && span_s > 0) {
        int64_t tokens = weir_min_i64(json_integer_value(used), INT64_MAX / 3600);
        per_hour = tokens * 3600 / span_s;
        if (tokens > 0 && free_tok >= 0)
            left_s = weir_min_i64((int64_t)((__int128)free_tok * span_s / tokens),
                                  INT64_C(100) * 366 * 86400);
    }
    json_object_set_new(to, "burn_tok_per_h", amount_or_null(per_hour));
    json_object_set_new(to, "burn_span_s", per_hour >= 0 ? amount(span_s) : json_null());
    json_object_set_new(to, "exhausted_in_s", amount_or_null(left_s));
    json_object_set_new(to, "exhausted_at",
                        left_s >= 0 ? json_string(service_time(wall_s + left_s, NULL, text))
                                    : json_null());
}

static json_t *scope_json(const struct weir_ledger_service *service, const struct service_scope *s,
                          const struct service_burn *burn)
{
    int64_t wall_s = service->host.wall_s();
    const struct weir_config_scope *config = config_scope(service, s->name);
    int64_t used_tok = s->reserved_tok + s->committed_tok + s->lapsed_tok;
    int64_t free_tok = s->unlimited ? -1 : weir_max_i64(0, s->granted_tok - used_tok);
    int64_t overdrawn_tok = s->unlimited ? 0 : weir_max_i64(0, used_tok - s->granted_tok);
    int64_t configured_tok = config ? config->granted_tok : s->configured_tok;
    json_t *to = json_object();
    const struct {
        const char *name;
        json_t *value;
    } fields[] = {
        {"scope", json_string(s->name)},
        {"parent", text_or_null(s->parent)},
        {"granted_tok", s->unlimited ? json_null() : amount(s->granted_tok)},
        {"configured_tok", amount_or_null(configured_tok)},
        {"used_tok", amount(used_tok)},
        {"free_tok", amount_or_null(free_tok)},
        {"overdrawn_tok", amount(overdrawn_tok)},
        {"reserved_tok", amount(s->reserved_tok)},
        {"committed_tok", amount(s->committed_tok)},
        {"lapsed_tok", amount(s->lapsed_tok)},
        {"overrun_tok", amount(s->overrun_tok)},
        {"cut_tok", amount(s->cut_tok)},
        {"raised_tok", amount(s->raised_tok)},
        {"lowered_tok", amount(s->lowered_tok)},
        {"unmatched_tok", amount(s->unmatched_tok)},
        {"refunded_tok", amount(s->refunded_tok)},
        {"on_lapse", json_string(s->lapse_refunds ? "refund" : "charge")},
        {"held", amount(s->held)},
        {"lapsed", amount(s->lapsed)},
        {"refused", amount_or_null(s->refused)},
    };
    for (size_t i = 0; i < WEIR_COUNT(fields); i++)
        json_object_set_new(to, fields[i].name, fields[i].value);
    add_window(to, config, s->window, wall_s);
    add_burn(to, burn, s->name, free_tok, wall_s);
    return to;
}

void service_scopes_add(const struct weir_ledger_service *service,
                        const struct service_query *query, const struct service_scope *scope,
                        const struct service_burn *burn, struct service_scopes *out)
{
    bool is_idle = scope->unlimited && scope->reserved_tok == 0 && scope->committed_tok == 0 &&
                   scope->lapsed_tok == 0 && scope->refunded_tok == 0 && scope->held == 0;
    if (is_idle && query->idle_left_out) {
        out->left_out++;
        return;
    }
    json_array_append_new(out->list, scope_json(service, scope, burn));
    out->count++;
}

/* ---- all of them, from memory ---- */

static struct service_scope scope_of_totals(const struct weir_store *store, const char *name,
                                            const struct weir_ledger_totals *t)
{
    return (struct service_scope){
        .name = name,
        .parent = t->parent == WEIR_NONE ? NULL : weir_store_scope_name(store, t->parent),
        .window = t->window,
        .unlimited = t->unlimited,
        .lapse_refunds = t->lapse_refunds,
        .granted_tok = t->granted_tok,
        .reserved_tok = t->reserved_tok,
        .committed_tok = t->committed_tok,
        .lapsed_tok = t->lapsed_tok,
        .overrun_tok = t->overrun_tok,
        .cut_tok = t->cut_tok,
        .raised_tok = t->raised_tok,
        .lowered_tok = t->lowered_tok,
        .unmatched_tok = t->unmatched_tok,
        .refunded_tok = t->refunded_tok,
        .configured_tok = -1,
        .held = t->held_count,
        .lapsed = t->lapsed_count,
        .refused = (int64_t)weir_min_u64(t->refused_count, INT64_MAX),
    };
}

void service_burn_climb(struct service_burn *burn,
                        const char *(*parent_of)(void *ctx, const char *name), void *ctx)
{
    json_t *sums = json_object();
    const char *leaf;
    json_t *value;
    json_object_foreach(burn->scopes, leaf, value)
    {
        const char *name = leaf;
        for (int depth = 0; depth < WEIR_LEDGER_DEPTH_MAX && name; depth++) {
            json_int_t before = json_integer_value(json_object_get(sums, name));
            json_object_set_new(sums, name,
                                json_integer(weir_add_sat_i64(before, json_integer_value(value))));
            name = parent_of(ctx, name);
        }
    }
    json_decref(burn->scopes);
    burn->scopes = sums;
}

static const char *parent_in_memory(void *ctx, const char *name)
{
    struct weir_store *store = ctx;
    struct weir_ledger_totals totals;
    uint32_t slot = weir_names_scope_find(store->names, name);
    if (slot == WEIR_NONE || !weir_store_totals(store, slot, &totals) || totals.parent == WEIR_NONE)
        return NULL;
    return weir_store_scope_name(store, totals.parent);
}

static json_t *store_json(struct weir_ledger_service *service)
{
    struct weir_store *store = service->host.store;
    struct weir_store_status s = {0};
    weir_store_status(store, &s);
    json_t *to = json_object();
    const struct {
        const char *name;
        json_t *value;
    } fields[] = {
        {"type", json_string(store->type->name)},
        {"durable", json_boolean(s.is_durable)},
        {"available", json_boolean(s.is_available)},
        {"trouble", text_or_null(s.trouble)},
        {"path", text_or_null(s.path)},
        {"epoch", amount_u64(store->epoch)},
        {"queue", amount_u64(s.queue_now)},
        {"ops", amount_u64(s.ops)},
        {"batches", amount_u64(s.batches)},
        {"rows_written", amount_u64(s.rows_written)},
        {"sync_us", s.is_durable ? amount_u64(s.sync_ns / 1000) : json_null()},
        {"commit_p50_us", s.is_durable ? amount_u64(s.commit_p50_ns / 1000) : json_null()},
        {"commit_p99_us", s.is_durable ? amount_u64(s.commit_p99_ns / 1000) : json_null()},
        {"file_bytes", s.is_durable ? amount_u64(s.file_bytes) : json_null()},
        {"wal_bytes", s.is_durable ? amount_u64(s.wal_bytes) : json_null()},
    };
    for (size_t i = 0; i < WEIR_COUNT(fields); i++)
        json_object_set_new(to, fields[i].name, fields[i].value);
    return to;
}

static json_t *answers_json(const struct weir_ledger_stats *stats)
{
    json_t *to = json_object();
    for (int i = 0; i < WEIR_LEDGER_RESULT_COUNT; i++)
        if (stats->results[i] > 0)
            json_object_set_new(to, weir_ledger_result_name((enum weir_ledger_result)i),
                                amount_u64(stats->results[i]));
    return to;
}

/* Holds by state: the live ones from memory, the finished ones from the file (which keeps them for
 * longer), or all of those together as memory has them. */
static json_t *holds_json(const struct weir_ledger_stats *stats, const json_t *in_file)
{
    json_t *to = json_object();
    json_object_set_new(to, "held", amount(stats->held));
    json_object_set_new(to, "lapsed", amount(stats->lapsed));
    static const enum weir_hold_state ended[] = {WEIR_HOLD_SETTLED, WEIR_HOLD_VOID, WEIR_HOLD_LATE};
    for (size_t i = 0; in_file && i < WEIR_COUNT(ended); i++) {
        const char *name = weir_hold_state_name(ended[i]);
        json_object_set(to, name, json_object_get(in_file, name));
    }
    if (!in_file)
        json_object_set_new(to, "finished", amount(stats->finished));
    return to;
}

/* The slots that a page looks at: from *slot on. Moves it behind the last one. */
static void show_slots(struct weir_ledger_service *service, const struct service_query *query,
                       const struct service_burn *burn, uint32_t *slot, struct service_scopes *out)
{
    struct weir_store *store = service->host.store;
    uint32_t end = weir_store_scopes_max(store), first = *slot;
    for (; *slot < end && *slot - first < SHOW_SLOTS_MAX; (*slot)++) {
        const char *name = weir_store_scope_name(store, *slot);
        struct weir_ledger_totals totals;
        if (!name || !weir_store_totals(store, *slot, &totals))
            continue;
        if (out->count == query->limit)
            return;
        const struct service_scope scope = scope_of_totals(store, name, &totals);
        service_scopes_add(service, query, &scope, burn, out);
    }
}

json_t *service_show(struct weir_ledger_service *service, const struct service_query *query,
                     struct service_burn *burn, const json_t *holds)
{
    struct weir_store *store = service->host.store;
    struct weir_ledger_stats stats;
    struct service_scopes out = {.list = json_array()};
    char text[SERVICE_TIME_BYTES];
    uint64_t after = 0;
    uint32_t slot = 0;
    json_t *next = json_null();
    if (service_digits(query->after, UINT32_MAX - 1, &after)) /* checked; empty: from the start */
        slot = (uint32_t)after;
    if (burn->scopes)
        service_burn_climb(burn, parent_in_memory, store);
    if (*query->scope) {
        struct weir_ledger_totals totals;
        slot = weir_names_scope_find(store->names, query->scope);
        if (slot != WEIR_NONE && weir_store_totals(store, slot, &totals)) {
            const struct service_scope scope = scope_of_totals(store, query->scope, &totals);
            service_scopes_add(service, query, &scope, burn, &out);
        }
    } else {
        show_slots(service, query, burn, &slot, &out);
        if (slot < weir_store_scopes_max(store))
            next = service_id(slot);
    }
    weir_store_stats(store, &stats);
    int64_t wall_s = service->host.wall_s();
    return json_pack("{s:s, s:I, s:b, s:o, s:o, s:o, s:o, s:I, s:o}", "at",
                     service_time(wall_s, NULL, text), "at_s", (json_int_t)wall_s, "live", 1,
                     "store", store_json(service), "holds", holds_json(&stats, holds), "answers",
                     answers_json(&stats), "scopes", out.list, "left_out", (json_int_t)out.left_out,
                     "next", next);
}
