#include "wire/hints.h"

#include <string.h>

#include "wire/dates.h"
#include "wire/text_out.h"

#define HINT_TOLD_MAX_NS (60 * WEIR_NS_PER_S) /* the stock SDKs obey no longer hint */

/* What a header says, by its name without the dialect's prefix. */
enum header_kind {
    HEADER_LIMIT,
    HEADER_REMAINING,
    HEADER_RESET,
};

static const struct dimension_name {
    const char *name; /* in headers of both dialects */
    enum weir_dimension dimension;
} dimension_names[] = {
    {"requests", WEIR_DIM_REQUESTS},
    {"tokens", WEIR_DIM_TOKENS},
    {"input-tokens", WEIR_DIM_INPUT_TOKENS},
    {"output-tokens", WEIR_DIM_OUTPUT_TOKENS},
    {"project-tokens", WEIR_DIM_PROJECT_TOKENS},
};

void weir_hints_init(struct weir_hints *h)
{
    memset(h, 0, sizeof *h);
}

/* --- Reading --- */

struct slice {
    const char *s;
    size_t n;
};

static bool slice_is(struct slice a, const char *name)
{
    return a.n == strlen(name) && memcmp(a.s, name, a.n) == 0;
}

/* Takes a prefix off. */
static bool slice_take(struct slice *a, const char *prefix)
{
    size_t n = strlen(prefix);
    if (a->n < n || memcmp(a->s, prefix, n) != 0)
        return false;
    a->s += n;
    a->n -= n;
    return true;
}

static bool slice_drop_tail(struct slice *a, const char *tail)
{
    size_t n = strlen(tail);
    if (a->n < n || memcmp(a->s + a->n - n, tail, n) != 0)
        return false;
    a->n -= n;
    return true;
}

static bool find_dimension(struct slice name, enum weir_dimension *dimension)
{
    for (size_t i = 0; i < WEIR_COUNT(dimension_names); i++)
        if (slice_is(name, dimension_names[i].name)) {
            *dimension = dimension_names[i].dimension;
            return true;
        }
    return false;
}

/* A reset: a Go duration, seconds, or a time (RFC 3339; Unix seconds or milliseconds, as some
 * routers send). */
static void read_reset(struct weir_hints *h, enum weir_dimension d, struct slice value)
{
    uint64_t ns;
    if (weir_rfc3339_read(value.s, value.n, &h->reset_date_ns[d])) {
        h->has_reset_date[d] = true;
    } else if (weir_decimal_read(value.s, value.n, WEIR_NS_PER_S, &ns)) {
        uint64_t seconds = ns / WEIR_NS_PER_S;
        if (seconds < 1000000000) {
            h->limits[d].reset_ns = ns;
            h->limits[d].has_reset = true;
        } else {
            /* 1e9 seconds is no wait: a time since 1970, in seconds or in milliseconds. Saturated
             * values (milliseconds times 1e9 do not fit) are read again in milliseconds. */
            if (seconds >= 10000000000) {
                if (!weir_decimal_read(value.s, value.n, WEIR_NS_PER_MS, &ns))
                    return;
            }
            if (ns > INT64_MAX)
                return;
            h->reset_date_ns[d] = (int64_t)ns;
            h->has_reset_date[d] = true;
        }
    } else if (weir_duration_read(value.s, value.n, &ns)) {
        h->limits[d].reset_ns = ns;
        h->limits[d].has_reset = true;
    }
}

static void read_limit(struct weir_hints *h, enum header_kind kind, struct slice dimension_name,
                       struct slice value)
{
    enum weir_dimension d;
    uint64_t count;
    if (!find_dimension(dimension_name, &d))
        return;
    struct weir_limit_view *view = &h->limits[d];
    switch (kind) {
    case HEADER_RESET:
        read_reset(h, d, value);
        return;
    case HEADER_LIMIT:
        if (weir_decimal_read(value.s, value.n, 1, &count)) {
            view->limit = count;
            view->has_limit = true;
        }
        return;
    case HEADER_REMAINING:
        if (weir_decimal_read(value.s, value.n, 1, &count)) {
            view->remaining = count;
            view->has_remaining = true;
        }
        return;
    }
}

/* x-ratelimit-KIND-DIMENSION. */
static void read_openai_limit(struct weir_hints *h, struct slice name, struct slice value)
{
    if (slice_take(&name, "limit-"))
        read_limit(h, HEADER_LIMIT, name, value);
    else if (slice_take(&name, "remaining-"))
        read_limit(h, HEADER_REMAINING, name, value);
    else if (slice_take(&name, "reset-"))
        read_limit(h, HEADER_RESET, name, value);
    else if (slice_is(name, "reset"))
        read_limit(h, HEADER_RESET, (struct slice){"requests", 8}, value);
}

/* anthropic-ratelimit-DIMENSION-KIND. */
static void read_anthropic_limit(struct weir_hints *h, struct slice name, struct slice value)
{
    if (slice_drop_tail(&name, "-limit"))
        read_limit(h, HEADER_LIMIT, name, value);
    else if (slice_drop_tail(&name, "-remaining"))
        read_limit(h, HEADER_REMAINING, name, value);
    else if (slice_drop_tail(&name, "-reset"))
        read_limit(h, HEADER_RESET, name, value);
}

/* One parameter ";key=value" of a structured field's item; integers only are of interest. Strings
 * are passed over with their escapes. Returns false at the end of the item. */
static bool take_parameter(struct slice *v, struct slice *key, uint64_t *value, bool *has_value)
{
    *has_value = false;
    while (v->n > 0 && *v->s == ' ')
        v->s++, v->n--;
    if (!slice_take(v, ";"))
        return false;
    while (v->n > 0 && *v->s == ' ')
        v->s++, v->n--;
    *key = (struct slice){v->s, 0};
    while (v->n > 0 && ((*v->s >= 'a' && *v->s <= 'z') || *v->s == '-' || *v->s == '_' ||
                        (*v->s >= '0' && *v->s <= '9')))
        v->s++, v->n--, key->n++;
    if (key->n == 0)
        return false;
    if (!slice_take(v, "="))
        return true;
    if (slice_take(v, "\"")) {
        while (v->n > 0 && *v->s != '"') {
            size_t step = *v->s == '\\' && v->n > 1 ? 2 : 1;
            v->s += step;
            v->n -= step;
        }
        return slice_take(v, "\"");
    }
    size_t n = 0;
    while (n < v->n && v->s[n] != ';' && v->s[n] != ',' && v->s[n] != ' ')
        n++;
    *has_value = weir_decimal_read(v->s, n, 1, value);
    v->s += n;
    v->n -= n;
    return n > 0;
}

/* RateLimit: "name";r=0;t=7, "other";r=5. The t of the tightest policy: among those with r=0 (or,
 * if there is none, among all) the longest. Malformed fields are ignored as a whole. */
static void read_ietf(struct weir_hints *h, struct slice v)
{
    uint64_t empty_s = 0, any_s = 0;
    bool empty = false, any = false;
    for (;;) {
        while (v.n > 0 && (*v.s == ' ' || *v.s == '\t'))
            v.s++, v.n--;
        if (slice_take(&v, "\"")) {
            while (v.n > 0 && *v.s != '"')
                v.s++, v.n--;
            if (!slice_take(&v, "\""))
                return;
        } else {
            while (v.n > 0 && *v.s != ';' && *v.s != ',' && *v.s != ' ')
                v.s++, v.n--;
        }
        struct slice key;
        uint64_t value, left = 0, t_s = 0;
        bool has_value, has_left = false, has_t = false;
        while (take_parameter(&v, &key, &value, &has_value)) {
            if (has_value && slice_is(key, "r")) {
                left = value;
                has_left = true;
            } else if (has_value && slice_is(key, "t")) {
                t_s = value;
                has_t = true;
            }
        }
        if (has_t && has_left && left == 0) {
            empty = true;
            empty_s = weir_max_u64(empty_s, t_s);
        }
        if (has_t) {
            any = true;
            any_s = weir_max_u64(any_s, t_s);
        }
        if (v.n == 0)
            break;
        if (!slice_take(&v, ","))
            return;
    }
    if (!any)
        return;
    uint64_t seconds = empty ? empty_s : any_s;
    h->has_t = true;
    h->t_ns = seconds > UINT64_MAX / WEIR_NS_PER_S ? UINT64_MAX : seconds * WEIR_NS_PER_S;
}

static void read_retry_after(struct weir_hints *h, struct slice value)
{
    int64_t unix_s;
    if (weir_decimal_read(value.s, value.n, WEIR_NS_PER_S, &h->after_ns)) {
        h->has_after = true;
    } else if (weir_http_date_read(value.s, value.n, &unix_s) &&
               unix_s <= INT64_MAX / (int64_t)WEIR_NS_PER_S) {
        h->after_date_ns = unix_s * (int64_t)WEIR_NS_PER_S;
        h->has_after_date = true;
    }
}

void weir_hints_header(struct weir_hints *h, const char *name, size_t name_bytes, const char *value,
                       size_t value_bytes)
{
    char lower[48];
    if (name_bytes < 4 || name_bytes >= sizeof lower)
        return;
    /* Only names that begin with one of these letters are of interest. */
    char first = (char)(name[0] | 0x20);
    if (first != 'r' && first != 'x' && first != 'a' && first != 'd')
        return;
    for (size_t i = 0; i < name_bytes; i++)
        lower[i] = name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] | 0x20) : name[i];
    struct slice n = {lower, name_bytes}, v = {value, value_bytes};
    while (v.n > 0 && (*v.s == ' ' || *v.s == '\t'))
        v.s++, v.n--;
    while (v.n > 0 && (v.s[v.n - 1] == ' ' || v.s[v.n - 1] == '\t'))
        v.n--;
    if (slice_is(n, "retry-after-ms")) {
        if (weir_decimal_read(v.s, v.n, WEIR_NS_PER_MS, &h->ms_ns))
            h->has_ms = true;
    } else if (slice_is(n, "retry-after")) {
        read_retry_after(h, v);
    } else if (slice_is(n, "x-should-retry")) {
        h->should_retry = slice_is(v, "false")  ? WEIR_RETRY_NO
                          : slice_is(v, "true") ? WEIR_RETRY_YES
                                                : h->should_retry;
    } else if (slice_is(n, "date")) {
        int64_t unix_s;
        if (weir_http_date_read(v.s, v.n, &unix_s) &&
            unix_s <= INT64_MAX / (int64_t)WEIR_NS_PER_S) {
            h->date_ns = unix_s * (int64_t)WEIR_NS_PER_S;
            h->has_date = true;
        }
    } else if (slice_is(n, "ratelimit")) {
        read_ietf(h, v);
    } else if (slice_take(&n, "x-ratelimit-")) {
        read_openai_limit(h, n, v);
    } else if (slice_take(&n, "anthropic-ratelimit-")) {
        read_anthropic_limit(h, n, v);
    }
}

static uint64_t until(int64_t then_ns, int64_t now_ns)
{
    return then_ns > now_ns ? (uint64_t)then_ns - (uint64_t)now_ns : 0;
}

/* The wait that the provider's limit view gives: the longest reset of what has run out; if nothing
 * has, the shortest that is not zero (which limit refused is then not known). */
static bool wait_of_limits(const struct weir_hints *h, uint64_t *wait_ns)
{
    uint64_t empty_ns = 0, shortest_ns = UINT64_MAX;
    bool empty = false;
    for (size_t d = 0; d < WEIR_DIM_COUNT; d++) {
        const struct weir_limit_view *view = &h->limits[d];
        if (!view->has_reset)
            continue;
        if (view->has_remaining && view->remaining == 0) {
            empty = true;
            empty_ns = weir_max_u64(empty_ns, view->reset_ns);
        }
        if (view->reset_ns > 0)
            shortest_ns = weir_min_u64(shortest_ns, view->reset_ns);
    }
    *wait_ns = empty ? empty_ns : shortest_ns;
    return empty || shortest_ns != UINT64_MAX;
}

static bool text_is(const char *text, const char *want)
{
    return text && strcmp(text, want) == 0;
}

struct weir_hint weir_hints_result(struct weir_hints *h, uint16_t status, enum weir_dialect dialect,
                                   const char *error_type, const char *error_code, int64_t unix_ns)
{
    struct weir_hint hint = {0};
    int64_t base_ns = h->has_date ? h->date_ns : unix_ns;
    bool limits_told = false;
    for (size_t d = 0; d < WEIR_DIM_COUNT; d++) {
        if (h->has_reset_date[d]) {
            h->limits[d].reset_ns = until(h->reset_date_ns[d], base_ns);
            h->limits[d].has_reset = true;
        }
        limits_told |= h->limits[d].has_reset || h->limits[d].has_remaining;
    }
    hint.has_wait = true;
    if (h->has_ms)
        hint.wait_ns = h->ms_ns;
    else if (h->has_after)
        hint.wait_ns = h->after_ns;
    else if (h->has_after_date)
        hint.wait_ns = until(h->after_date_ns, base_ns);
    else if (h->has_t)
        hint.wait_ns = h->t_ns;
    else if (status != 429 || !wait_of_limits(h, &hint.wait_ns))
        hint.has_wait = false;

    bool quota =
        text_is(error_code, "insufficient_quota") || text_is(error_type, "insufficient_quota");
    bool spend_cap = status == 429 && dialect == WEIR_DIALECT_ANTHROPIC && !hint.has_wait &&
                     !limits_told && text_is(error_type, "rate_limit_error") &&
                     h->should_retry != WEIR_RETRY_YES;
    hint.permanent = h->should_retry == WEIR_RETRY_NO || quota || spend_cap;
    return hint;
}

/* --- Writing --- */

static uint64_t round_up(uint64_t ns, uint64_t unit_ns)
{
    return weir_max_u64(ns / unit_ns + (ns % unit_ns > 0), 1);
}

size_t weir_hint_write(char *out, size_t cap, uint64_t wait_ns)
{
    if (wait_ns > HINT_TOLD_MAX_NS)
        return weir_hint_write_permanent(out, cap, wait_ns);
    struct weir_text_out o = {out, cap, 0, false};
    weir_out_text(&o, "retry-after: ");
    weir_out_u64(&o, round_up(wait_ns, WEIR_NS_PER_S));
    weir_out_text(&o, "\r\nretry-after-ms: ");
    weir_out_u64(&o, round_up(wait_ns, WEIR_NS_PER_MS));
    weir_out_text(&o, "\r\n");
    return weir_out_result(&o);
}

size_t weir_hint_write_permanent(char *out, size_t cap, uint64_t wait_ns)
{
    struct weir_text_out o = {out, cap, 0, false};
    if (wait_ns != WEIR_NEVER_NS) {
        weir_out_text(&o, "retry-after: ");
        weir_out_u64(&o, round_up(wait_ns, WEIR_NS_PER_S));
        weir_out_text(&o, "\r\n");
    }
    weir_out_text(&o, "x-should-retry: false\r\n");
    return weir_out_result(&o);
}

static void write_limit(struct weir_text_out *o, bool anthropic, const char *dimension,
                        const char *kind)
{
    weir_out_text(o, anthropic ? "anthropic-ratelimit-" : "x-ratelimit-");
    weir_out_text(o, anthropic ? dimension : kind);
    weir_out_text(o, "-");
    weir_out_text(o, anthropic ? kind : dimension);
    weir_out_text(o, ": ");
}

size_t weir_limits_write(char *out, size_t cap, enum weir_dialect dialect,
                         const struct weir_limit_view limits[WEIR_DIM_COUNT], int64_t unix_ns)
{
    struct weir_text_out o = {out, cap, 0, false};
    bool anthropic = dialect == WEIR_DIALECT_ANTHROPIC;
    for (size_t i = 0; i < WEIR_COUNT(dimension_names); i++) {
        const struct weir_limit_view *view = &limits[dimension_names[i].dimension];
        const char *name = dimension_names[i].name;
        if (!view->has_limit)
            continue;
        write_limit(&o, anthropic, name, "limit");
        weir_out_u64(&o, view->limit);
        weir_out_text(&o, "\r\n");
        if (view->has_remaining) {
            write_limit(&o, anthropic, name, "remaining");
            weir_out_u64(&o, view->remaining);
            weir_out_text(&o, "\r\n");
        }
        if (view->has_reset) {
            char reset[40];
            int64_t then_ns = view->reset_ns > (uint64_t)(INT64_MAX - weir_max_i64(unix_ns, 0))
                                  ? INT64_MAX
                                  : unix_ns + (int64_t)view->reset_ns;
            size_t n = anthropic ? weir_rfc3339_write(reset, sizeof reset, then_ns)
                                 : weir_duration_write(reset, sizeof reset, view->reset_ns);
            write_limit(&o, anthropic, name, "reset");
            weir_out_bytes(&o, reset, n);
            weir_out_text(&o, "\r\n");
        }
    }
    return weir_out_result(&o);
}
