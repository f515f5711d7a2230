#include <stdio.h>
#include <string.h>

#include "gateway/config_value.h"
#include "gateway/ledger_service_inside.h"
#include "wire/dates.h"

enum param { PARAM_SCOPE, PARAM_STATE, PARAM_FROM, PARAM_TO, PARAM_AFTER, PARAM_LIMIT, PARAM_IDLE };
#define PARAMS 7

static const char *const param_names[PARAMS] = {"scope", "state", "from", "to",
                                                "after", "limit", "idle"};

static const struct {
    const char *path;
    bool is_post;
    uint8_t params; /* a bit for each that it takes */
} routes[SERVICE_ROUTES] = {
    [ROUTE_SHOW] = {WEIR_LEDGER_PATH, false,
                    1 << PARAM_SCOPE | 1 << PARAM_AFTER | 1 << PARAM_LIMIT | 1 << PARAM_IDLE},
    [ROUTE_HOLDS] = {WEIR_LEDGER_PATH "/holds", false,
                     1 << PARAM_SCOPE | 1 << PARAM_STATE | 1 << PARAM_AFTER | 1 << PARAM_LIMIT},
    [ROUTE_USAGE] = {WEIR_LEDGER_PATH "/usage", false,
                     1 << PARAM_SCOPE | 1 << PARAM_FROM | 1 << PARAM_TO | 1 << PARAM_AFTER |
                         1 << PARAM_LIMIT},
    [ROUTE_JOURNAL] = {WEIR_LEDGER_PATH "/journal", false, 1 << PARAM_AFTER | 1 << PARAM_LIMIT},
    [ROUTE_GRANT] = {WEIR_LEDGER_PATH "/grant", true, 0},
    [ROUTE_ADJUST] = {WEIR_LEDGER_PATH "/adjust", true, 0},
};

static const enum weir_hold_state states[] = {WEIR_HOLD_HELD, WEIR_HOLD_SETTLED, WEIR_HOLD_VOID,
                                              WEIR_HOLD_LAPSED, WEIR_HOLD_LATE};

bool weir_ledger_service_serves(struct weir_slice path)
{
    const struct weir_slice root = WEIR_SLICE(WEIR_LEDGER_PATH);
    return path.bytes >= root.bytes && memcmp(path.at, root.at, root.bytes) == 0 &&
           (path.bytes == root.bytes || path.at[root.bytes] == '/');
}

bool service_digits(const char *text, uint64_t max, uint64_t *value)
{
    uint64_t sum = 0;
    if (*text == '\0')
        return false;
    for (; *text; text++) {
        uint64_t digit = (uint64_t)(unsigned char)*text - '0';
        if (digit > 9 || sum > max / 10 || (sum == max / 10 && digit > max % 10))
            return false;
        sum = sum * 10 + digit;
    }
    *value = sum;
    return true;
}

/* ---- values ---- */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Percent-decoding with + for a space. false: malformed, a control character, or too long. */
static bool decode(const char *at, size_t bytes, char *out, size_t room)
{
    size_t used = 0;
    for (size_t i = 0; i < bytes; i++) {
        char c = at[i];
        if (c == '%') {
            int high = i + 2 < bytes ? hex_digit(at[i + 1]) : -1;
            int low = i + 2 < bytes ? hex_digit(at[i + 2]) : -1;
            if (high < 0 || low < 0)
                return false;
            c = (char)(high << 4 | low);
            i += 2;
        } else if (c == '+') {
            c = ' ';
        }
        if ((unsigned char)c < 0x20 || c == 0x7f || used + 1 >= room)
            return false;
        out[used++] = c;
    }
    out[used] = '\0';
    return true;
}

/* Unix seconds, a day, an hour of it, or a whole instant: 1764460800, 2025-11-30, 2025-11-30T13,
 * 2025-11-30T13:00:00Z. */
static bool read_instant(const char *text, int64_t *unix_s)
{
    char whole[56];
    uint64_t seconds = 0;
    int64_t unix_ns = 0;
    size_t bytes = strlen(text);
    if (service_digits(text, UINT64_C(9000000000), &seconds)) {
        *unix_s = (int64_t)seconds;
        return true;
    }
    snprintf(whole, sizeof whole, "%.40s%s", text,
             bytes == 10   ? "T00:00:00Z"
             : bytes == 13 ? ":00:00Z"
                           : "");
    if (!weir_rfc3339_read(whole, strlen(whole), &unix_ns))
        return false;
    *unix_s = unix_ns / (int64_t)WEIR_NS_PER_S;
    return true;
}

static json_t *take_state(const char *text, struct service_query *query)
{
    const char *known[WEIR_COUNT(states)];
    for (size_t i = 0; i < WEIR_COUNT(states); i++) {
        known[i] = weir_hold_state_name(states[i]);
        if (strcmp(text, known[i]) == 0) {
            query->state = states[i];
            return NULL;
        }
    }
    const char *near = weir_value_suggest(text, known, WEIR_COUNT(known));
    return service_error("there is no state '%.40s'%s%s%s; there are held, settled, void, lapsed "
                         "and late",
                         text, near ? ": did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* NULL: taken; else what is wrong with it. */
static json_t *take_value(enum param param, const char *text, struct service_query *query)
{
    uint64_t number = 0;
    int64_t *instant = param == PARAM_FROM ? &query->from_s : &query->to_s;
    switch (param) {
    case PARAM_SCOPE:
        if (*text == '\0' || strlen(text) >= sizeof query->scope)
            return service_error("scope must be a name of 1 to %d bytes", WEIR_STORE_NAME_MAX - 1);
        snprintf(query->scope, sizeof query->scope, "%s", text);
        return NULL;
    case PARAM_STATE:
        return take_state(text, query);
    case PARAM_FROM:
    case PARAM_TO:
        if (read_instant(text, instant))
            return NULL;
        return service_error("%s must be a time in UTC (2026-11-30, 2026-11-30T13, "
                             "2026-11-30T13:00:00Z, or Unix seconds), not '%.40s'",
                             param_names[param], text);
    case PARAM_AFTER:
        snprintf(query->after, sizeof query->after, "%s", text);
        return NULL;
    case PARAM_LIMIT:
        if (!service_digits(text, SERVICE_PAGE_MAX, &number) || number == 0)
            return service_error("limit must be a whole number between 1 and %u, not '%.40s'",
                                 SERVICE_PAGE_MAX, text);
        query->limit = (uint32_t)number;
        return NULL;
    case PARAM_IDLE:
        query->idle_left_out = strcmp(text, "no") == 0;
        return query->idle_left_out || strcmp(text, "yes") == 0
                   ? NULL
                   : service_error("idle must be yes or no, not '%.40s'", text);
    }
    return NULL;
}

static json_t *say_unknown_param(uint8_t allowed, const char *name)
{
    const char *known[PARAMS];
    size_t count = 0;
    for (size_t i = 0; i < PARAMS; i++)
        if (allowed & 1 << i)
            known[count++] = param_names[i];
    const char *near = count ? weir_value_suggest(name, known, count) : NULL;
    return service_error("'%.40s' is not asked here%s%s%s", name, near ? ": did you mean '" : "",
                         near ? near : "", near ? "'?" : "");
}

static json_t *take_pair(uint8_t allowed, const char *at, size_t bytes, uint8_t *seen,
                         struct service_query *query)
{
    char name[16], value[SERVICE_AFTER_BYTES];
    const char *equals = memchr(at, '=', bytes);
    size_t name_bytes = equals ? (size_t)(equals - at) : bytes;
    if (!equals || !decode(equals + 1, bytes - name_bytes - 1, value, sizeof value))
        return service_error("the query is malformed: NAME=VALUE&..., percent-encoded");
    if (!decode(at, name_bytes, name, sizeof name))
        snprintf(name, sizeof name, "%.*s...", (int)weir_min_u64(name_bytes, 8), at);
    for (int i = 0; i < PARAMS; i++) {
        if (!(allowed & 1 << i) || strcmp(name, param_names[i]) != 0)
            continue;
        if (*seen & 1 << i)
            return service_error("%s is given twice", name);
        *seen |= (uint8_t)(1 << i);
        return take_value((enum param)i, value, query);
    }
    return say_unknown_param(allowed, name);
}

static json_t *take_query(uint8_t allowed, const char *text, struct service_query *query)
{
    uint8_t seen = 0;
    while (*text) {
        size_t bytes = strcspn(text, "&");
        json_t *error = bytes ? take_pair(allowed, text, bytes, &seen, query) : NULL;
        if (error)
            return error;
        text += bytes + (text[bytes] == '&');
    }
    if (query->from_s >= query->to_s)
        return service_error("from must be before to");
    return NULL;
}

json_t *service_after_error(const struct service_query *query)
{
    return service_error("after must be what 'next' of a page said, not '%.60s'", query->after);
}

uint32_t service_parse(const struct weir_ledger_request *request, struct weir_ledger_call *call,
                       json_t **error)
{
    size_t i = 0;
    while (i < SERVICE_ROUTES && strcmp(request->path, routes[i].path) != 0)
        i++;
    if (i == SERVICE_ROUTES) {
        *error = service_error("no such page; there are /v1/ledger, and below it holds, usage, "
                               "journal, grant (POST), adjust (POST) and clock (POST)");
        return 404;
    }
    if (request->is_post != routes[i].is_post) {
        *error = service_error("%s takes %s", routes[i].path, routes[i].is_post ? "POST" : "GET");
        return 405;
    }
    call->route = (enum service_route)i;
    call->query = (struct service_query){.to_s = INT64_MAX, .limit = SERVICE_PAGE_MAX};
    *error = take_query(routes[i].params, request->query, &call->query);
    if (*error)
        return 400;
    if (call->route != ROUTE_SHOW || !call->service->host.store)
        return 0;
    /* The loop makes the page: short, and from a slot on. */
    uint64_t slot;
    call->query.limit = (uint32_t)weir_min_u64(call->query.limit, SERVICE_SCOPES_MAX);
    if (*call->query.after == '\0' || service_digits(call->query.after, UINT32_MAX - 1, &slot))
        return 0;
    *error = service_after_error(&call->query);
    return 400;
}
