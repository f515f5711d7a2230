/* Pages of the two usage APIs: one document, an array of them, or one after the other. */
#include "wire/json.h"
#include "wire/usage_export_private.h"

#include <stdio.h>
#include <string.h>

struct json_export {
    struct export_file *f;
    struct weir_json json;
    uint32_t page; /* from 0 */
    uint32_t bucket;
    bool is_known; /* the provider is */
    uint32_t line; /* of counted_to */
    const uint8_t *counted_to;
    struct export_draft draft;
    /* Of the page being read: */
    int64_t start_s, end_s;
    uint32_t buckets;
};

/* A bucket's members before its results are read. */
struct json_bucket {
    struct export_draft times;
    struct weir_json results; /* the reader where the results begin */
    bool has_results;
};

/* The line at which the reader is; it is asked in the order of the file. */
static uint32_t line_now(struct json_export *x)
{
    for (; x->counted_to < x->json.at; x->counted_to++)
        x->line += *x->counted_to == '\n';
    return x->line;
}

static const char *fault_text(enum weir_json_fault fault)
{
    switch (fault) {
    case WEIR_JSON_OK:
    case WEIR_JSON_TRAILING:
    case WEIR_JSON_SYNTAX:
        return "not JSON";
    case WEIR_JSON_CUT:
        return "the file ends in the middle; fetch it again";
    case WEIR_JSON_DEPTH:
        return "nested too deep";
    case WEIR_JSON_UTF8:
        return "not UTF-8";
    case WEIR_JSON_CONTROL:
        return "a control byte in a string";
    case WEIR_JSON_ESCAPE:
        return "an escape that is none";
    case WEIR_JSON_NUMBER:
        return "a number that is none";
    }
    return "not JSON";
}

/* A string, number, true, false as text; "" for null. false: a fault, or an object or array. */
static bool take_scalar(struct weir_json *r, char *out, size_t cap)
{
    struct weir_json_string s;
    enum weir_json_kind kind = weir_json_kind(r);
    out[0] = '\0';
    switch (kind) {
    case WEIR_JSON_STRING: {
        if (!weir_json_take_string(r, &s))
            return false;
        size_t n = weir_json_decode(&s, out, cap - 1);
        if (n == SIZE_MAX || memchr(out, '\0', n)) /* longer than any name, or no text */
            memset(out, '?', n = cap - 1);
        out[n] = '\0';
        return true;
    }
    case WEIR_JSON_NUM:
        if (!weir_json_take_number(r, &s))
            return false;
        snprintf(out, cap, "%.*s", (int)weir_min_u64(s.bytes, cap - 1), (const char *)s.at);
        return true;
    case WEIR_JSON_TRUE:
    case WEIR_JSON_FALSE:
        snprintf(out, cap, "%s", kind == WEIR_JSON_TRUE ? "true" : "false");
        return weir_json_skip(r);
    case WEIR_JSON_NULL:
        return weir_json_skip(r);
    case WEIR_JSON_NONE:
    case WEIR_JSON_OBJECT:
    case WEIR_JSON_ARRAY:
        break;
    }
    return false;
}

static void key_text(const struct weir_json_string *key, char out[80])
{
    snprintf(out, 80, "%.*s", (int)weir_min_u64(key->bytes, 79), (const char *)key->at);
}

/* The kinds of OpenAI results: which are read, and which are another export. */
static bool take_object_name(struct json_export *x, struct export_draft *d, const char *value)
{
    if (strcmp(value, "organization.usage.completions.result") == 0)
        return true;
    if (strcmp(value, "organization.usage.embeddings.result") == 0) {
        d->no_output = true;
        return true;
    }
    if (strcmp(value, "organization.costs.result") == 0)
        return export_file_error(x->f, "this is the cost export; give the completions usage export "
                                       "(/v1/organization/usage/completions)");
    return export_file_error(x->f,
                             "\"%.60s\" is not usage that is counted in tokens; give the "
                             "completions or embeddings usage",
                             value);
}

static bool take_member(struct json_export *x, struct export_draft *d, const char *name);

/* cache_creation {...}, server_tool_use {...}: members by their path. */
static bool take_nested(struct json_export *x, struct export_draft *d, const char *name)
{
    struct weir_json *r = &x->json;
    struct weir_json_string key;
    bool first = true;
    if (!weir_json_open(r))
        return false;
    while (weir_json_member(r, &first, &key)) {
        char path[170], last[80];
        key_text(&key, last);
        snprintf(path, sizeof path, "%s.%s", name, last);
        enum weir_json_kind kind = weir_json_kind(r);
        if (kind == WEIR_JSON_OBJECT || kind == WEIR_JSON_ARRAY) {
            export_unknown(x->f, path);
            if (!weir_json_skip(r))
                return false;
        } else if (!take_member(x, d, path)) {
            return false;
        }
    }
    return r->fault == WEIR_JSON_OK;
}

static bool take_member(struct json_export *x, struct export_draft *d, const char *name)
{
    struct weir_json *r = &x->json;
    char value[WEIR_EXPORT_NAME_MAX + 16];
    enum export_field field = export_field_of(x->f->provider, name);
    enum weir_json_kind kind = weir_json_kind(r);
    if (field == EXPORT_COST)
        return export_file_error(x->f, "this is the cost export; give the usage export (%s)",
                                 x->f->provider == WEIR_EXPORT_OPENAI
                                     ? "/v1/organization/usage/completions"
                                     : "/v1/organizations/usage_report/messages");
    if (kind == WEIR_JSON_OBJECT && !strchr(name, '.') && field == EXPORT_UNKNOWN)
        return take_nested(x, d, name);
    if (kind == WEIR_JSON_ARRAY || kind == WEIR_JSON_OBJECT) {
        if (field != EXPORT_UNKNOWN)
            export_row_error(x->f, d, "%s is no single value", name);
        else
            export_unknown(x->f, name);
        return weir_json_skip(r);
    }
    if (!take_scalar(r, value, sizeof value))
        return false;
    if (strcmp(name, "object") == 0 && x->f->provider == WEIR_EXPORT_OPENAI)
        return take_object_name(x, d, value);
    if (field == EXPORT_UNKNOWN)
        export_unknown(x->f, name);
    export_draft_take(x->f, d, field, name, value);
    return true;
}

static bool take_result(struct json_export *x, const struct json_bucket *bucket, uint32_t index)
{
    static const enum export_field times[] = {EXPORT_START, EXPORT_END, EXPORT_START_ISO,
                                              EXPORT_END_ISO};
    struct weir_json *r = &x->json;
    struct export_draft *d = &x->draft;
    struct weir_json_string key;
    bool first = true;
    export_draft_begin(d);
    d->line = line_now(x);
    snprintf(d->place, sizeof d->place, "%.60s: data[%u].results[%u]", x->f->name, x->bucket,
             index);
    for (size_t i = 0; i < WEIR_COUNT(times); i++) {
        d->text_has[times[i]] = bucket->times.text_has[times[i]];
        memcpy(d->text[times[i]], bucket->times.text[times[i]], sizeof d->text[0]);
    }
    if (weir_json_kind(r) != WEIR_JSON_OBJECT)
        return r->fault == WEIR_JSON_OK &&
               export_file_error(x->f, "data[%u].results[%u] is no object", x->bucket, index);
    if (!weir_json_open(r))
        return false;
    while (weir_json_member(r, &first, &key)) {
        char name[80];
        key_text(&key, name);
        if (!take_member(x, d, name))
            return false;
    }
    if (r->fault != WEIR_JSON_OK)
        return false;
    export_draft_end(x->f, d);
    if (x->f->errors >= EXPORT_FILE_ERRORS_MAX)
        return export_file_error(x->f, "too many errors; read up to data[%u].results[%u]",
                                 x->bucket, index);
    return true;
}

/* The members of a bucket. Its results may come before its times, so they are read afterwards. */
static bool scan_bucket(struct json_export *x, struct json_bucket *bucket)
{
    struct weir_json *r = &x->json;
    struct weir_json_string key;
    bool first = true;
    if (weir_json_kind(r) != WEIR_JSON_OBJECT)
        return r->fault == WEIR_JSON_OK &&
               export_file_error(x->f, "data[%u] is no object", x->bucket);
    if (!weir_json_open(r))
        return false;
    while (weir_json_member(r, &first, &key)) {
        char name[80], value[64];
        key_text(&key, name);
        if (strcmp(name, "results") == 0 || strcmp(name, "result") == 0) {
            bucket->has_results = weir_json_kind(r) == WEIR_JSON_ARRAY;
            bucket->results = *r;
            if (!weir_json_skip(r))
                return false;
            continue;
        }
        bool is_openai = strcmp(name, "start_time") == 0 || strcmp(name, "end_time") == 0;
        bool is_anthropic = strcmp(name, "starting_at") == 0 || strcmp(name, "ending_at") == 0;
        if (!x->is_known && (is_openai || is_anthropic)) {
            x->is_known = true;
            x->f->provider = is_openai ? WEIR_EXPORT_OPENAI : WEIR_EXPORT_ANTHROPIC;
        }
        enum export_field field = export_field_of(x->f->provider, name);
        if (field > EXPORT_END_ISO) {
            if (field == EXPORT_UNKNOWN)
                export_unknown(x->f, name);
            if (!weir_json_skip(r))
                return false;
        } else if (!take_scalar(r, value, sizeof value)) {
            return false;
        } else {
            export_draft_take(x->f, &bucket->times, field, name, value);
        }
    }
    return r->fault == WEIR_JSON_OK;
}

static bool take_bucket(struct json_export *x)
{
    struct json_bucket bucket = {0};
    int64_t start_s, end_s;
    export_draft_begin(&bucket.times);
    snprintf(bucket.times.place, sizeof bucket.times.place, "%.60s: data[%u]", x->f->name,
             x->bucket);
    if (!scan_bucket(x, &bucket))
        return false;
    if (!export_draft_span(x->f, &bucket.times, &start_s, &end_s))
        return x->f->errors < EXPORT_FILE_ERRORS_MAX;
    if (!bucket.has_results)
        return export_file_error(x->f, "data[%u] has no list of results", x->bucket);
    export_add_span(x->f, start_s, end_s);
    x->start_s = x->buckets ? weir_min_i64(x->start_s, start_s) : start_s;
    x->end_s = x->buckets ? weir_max_i64(x->end_s, end_s) : end_s;
    x->buckets++;

    struct weir_json after = x->json;
    bool first = true;
    x->json = bucket.results;
    bool is_good = weir_json_open(&x->json);
    for (uint32_t i = 0; is_good && weir_json_element(&x->json, &first); i++)
        is_good = take_result(x, &bucket, i);
    x->json = after;
    return is_good;
}

static bool take_error(struct json_export *x)
{
    struct weir_json *r = &x->json;
    struct weir_json_string key;
    char message[200] = "", name[80];
    bool first = true;
    if (weir_json_kind(r) != WEIR_JSON_OBJECT)
        return weir_json_skip(r);
    if (!weir_json_open(r))
        return false;
    while (weir_json_member(r, &first, &key)) {
        key_text(&key, name);
        if (strcmp(name, "message") == 0 && weir_json_kind(r) == WEIR_JSON_STRING) {
            if (!take_scalar(r, message, sizeof message))
                return false;
        } else if (!weir_json_skip(r)) {
            return false;
        }
    }
    return export_file_error(x->f, "is an error answer of the API, no export: %s", message);
}

static bool take_page(struct json_export *x)
{
    struct weir_json *r = &x->json;
    struct weir_json_string key;
    bool first = true, has_data = false, has_more = false;
    x->buckets = 0;
    if (weir_json_kind(r) != WEIR_JSON_OBJECT)
        return r->fault == WEIR_JSON_OK && export_file_error(x->f, "is JSON, but no page of usage");
    if (!weir_json_open(r))
        return false;
    while (weir_json_member(r, &first, &key)) {
        char name[80];
        key_text(&key, name);
        if (strcmp(name, "data") == 0 && weir_json_kind(r) == WEIR_JSON_ARRAY) {
            bool first_bucket = true;
            has_data = weir_json_open(r);
            for (x->bucket = 0; weir_json_element(r, &first_bucket); x->bucket++)
                if (!take_bucket(x))
                    return false;
        } else if (strcmp(name, "error") == 0) {
            if (!take_error(x))
                return false;
        } else {
            has_more |= strcmp(name, "has_more") == 0 && weir_json_kind(r) == WEIR_JSON_TRUE;
            if (!weir_json_skip(r))
                return false;
        }
    }
    if (r->fault != WEIR_JSON_OK)
        return false;
    if (!has_data)
        return export_file_error(x->f, "is JSON, but has no \"data\" with buckets of usage: give "
                                       "the whole answer of the usage API");
    char place[128];
    snprintf(place, sizeof place, x->page ? "%.100s (page %u)" : "%.100s", x->f->name, x->page + 1);
    if (x->buckets > 0)
        export_add_page(x->f, place, x->start_s, x->end_s, has_more);
    else if (has_more)
        export_say(x->f->reader, WEIR_EXPORT_WARNING,
                   "%s: has_more is true on a page without buckets: fetch the next page", place);
    x->page++;
    return true;
}

/* One page, or an array of pages. */
static bool take_document(struct json_export *x)
{
    bool first = true;
    if (weir_json_kind(&x->json) != WEIR_JSON_ARRAY)
        return take_page(x);
    if (!weir_json_open(&x->json))
        return false;
    while (weir_json_element(&x->json, &first))
        if (!take_page(x))
            return false;
    return x->json.fault == WEIR_JSON_OK;
}

void export_read_json(struct export_file *f, const char *bytes, size_t n)
{
    struct json_export x = {.f = f, .line = 1};
    uint32_t documents = 0;
    weir_json_init(&x.json, bytes, n);
    x.counted_to = x.json.at;
    while (weir_json_kind(&x.json) != WEIR_JSON_NONE && take_document(&x))
        documents++;
    /* After the last document the reader finds nothing more, which is no fault of the file's. */
    bool is_at_end = documents > 0 && x.json.at == x.json.end && x.json.depth == 0;
    if (x.json.fault != WEIR_JSON_OK && !is_at_end)
        (void)export_file_error(f, "line %u, byte %zu: %s", line_now(&x),
                                (size_t)(x.json.at - x.json.start) + 1, fault_text(x.json.fault));
    else if (x.page == 0 && f->errors == 0)
        (void)export_file_error(f, "is JSON, but has no page of usage in it");
}
