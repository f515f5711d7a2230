#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gateway/config_value.h"
#include "gateway/ledger_service_inside.h"
#include "gateway/window.h"

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

const struct weir_config_scope *service_config_scope(const struct weir_config *config,
                                                     const char *name)
{
    for (uint32_t i = 0; i < config->scopes_count; i++)
        if (strcmp(config->scopes[i].name, name) == 0)
            return &config->scopes[i];
    return NULL;
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

json_t *service_scope_json(const struct weir_ledger_service *service, const struct service_scope *s,
                           const struct service_burn *burn)
{
    int64_t wall_s = service->host.wall_s();
    const struct weir_config_scope *config = service_config_scope(service->host.config, s->name);
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
            json_object_set_new(sums, name, json_integer(before + json_integer_value(value)));
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

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Names in use after the given one, sorted. NULL: out of memory. */
static const char **names_after(struct weir_store *store, const char *after, size_t *count)
{
    uint32_t slots = weir_store_scopes_max(store);
    const char **names = calloc(slots ? slots : 1, sizeof *names);
    *count = 0;
    for (uint32_t i = 0; names && i < slots; i++) {
        const char *name = weir_store_scope_name(store, i);
        if (name && strcmp(name, after) > 0)
            names[(*count)++] = name;
    }
    if (names)
        qsort(names, *count, sizeof *names, by_name);
    return names;
}

json_t *service_show(struct weir_ledger_service *service, const struct service_query *query,
                     struct service_burn *burn)
{
    struct weir_store *store = service->host.store;
    char text[SERVICE_TIME_BYTES];
    size_t count = 0, given = 0;
    const char **names = names_after(store, query->after, &count);
    json_t *scopes = json_array(), *next = json_null();
    if (!names) {
        json_decref(scopes);
        return NULL;
    }
    if (burn->scopes)
        service_burn_climb(burn, parent_in_memory, store);
    for (size_t i = 0; i < count; i++) {
        struct weir_ledger_totals totals;
        if ((*query->scope && strcmp(query->scope, names[i]) != 0) ||
            !weir_store_totals(store, weir_names_scope_find(store->names, names[i]), &totals))
            continue;
        if (given == query->limit) {
            next = json_string(names[i - 1]);
            break;
        }
        const struct service_scope scope = scope_of_totals(store, names[i], &totals);
        json_array_append_new(scopes, service_scope_json(service, &scope, burn));
        given++;
    }
    free(names);
    struct weir_ledger_stats stats;
    weir_store_stats(store, &stats);
    int64_t wall_s = service->host.wall_s();
    return json_pack("{s:s, s:I, s:b, s:o, s:{s:I, s:I, s:I}, s:o, s:o, s:o}", "at",
                     service_time(wall_s, NULL, text), "at_s", (json_int_t)wall_s, "live", 1,
                     "store", store_json(service), "holds", "held", (json_int_t)stats.held,
                     "lapsed", (json_int_t)stats.lapsed, "finished", (json_int_t)stats.finished,
                     "answers", answers_json(&stats), "scopes", scopes, "next", next);
}
