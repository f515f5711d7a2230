/* Rows of an export: what the columns are called, how values are written, what a row must have. */
#include "wire/dates.h"
#include "wire/usage_export_private.h"
#include "wire/utf8.h"

#include <stdio.h>
#include <string.h>

#define DAY_S INT64_C(86400)
#define HOUR_S INT64_C(3600)
#define TIME_MAX_S INT64_C(7258118400) /* the year 2200: later is no time of an export */

struct export_column {
    const char *name;
    enum export_field field;
};

/* The usage API's members and the dashboard's columns have the same names. */
static const struct export_column openai_columns[] = {
    {"start_time", EXPORT_START},
    {"end_time", EXPORT_END},
    {"start_time_iso", EXPORT_START_ISO},
    {"end_time_iso", EXPORT_END_ISO},
    {"api_key_id", EXPORT_KEY},
    {"api_key_name", EXPORT_KEY_NAME},
    {"project_id", EXPORT_PROJECT},
    {"project_name", EXPORT_PROJECT_NAME},
    {"model", EXPORT_MODEL},
    {"batch", EXPORT_BATCH},
    {"service_tier", EXPORT_TIER},
    {"user_id", EXPORT_GROUP},
    {"organization_id", EXPORT_GROUP},
    {"source", EXPORT_GROUP},
    {"api_source", EXPORT_GROUP},
    {"size", EXPORT_GROUP},
    {"num_model_requests", EXPORT_REQUESTS},
    {"input_tokens", EXPORT_INPUT},
    {"input_uncached_tokens", EXPORT_UNCACHED},
    {"input_cached_tokens", EXPORT_CACHED},
    {"input_cache_write_tokens", EXPORT_WRITE},
    {"output_tokens", EXPORT_OUTPUT},
    {"object", EXPORT_IGNORED},
    {"organization_name", EXPORT_IGNORED},
    {"user_email", EXPORT_IGNORED},
    {"api_key_redacted", EXPORT_IGNORED},
    {"input_text_tokens", EXPORT_IGNORED},
    {"output_text_tokens", EXPORT_IGNORED},
    {"input_cached_text_tokens", EXPORT_IGNORED},
    {"input_audio_tokens", EXPORT_IGNORED},
    {"input_cached_audio_tokens", EXPORT_IGNORED},
    {"output_audio_tokens", EXPORT_IGNORED},
    {"input_image_tokens", EXPORT_IGNORED},
    {"input_cached_image_tokens", EXPORT_IGNORED},
    {"output_image_tokens", EXPORT_IGNORED},
    {"amount", EXPORT_COST},
    {"amount_value", EXPORT_COST},
    {"amount_currency", EXPORT_COST},
    {"line_item", EXPORT_COST},
    {"quantity", EXPORT_COST},
    {"quantity_unit", EXPORT_COST},
};

/* The API's members, nested ones with their path, and the console's columns. */
static const struct export_column anthropic_columns[] = {
    {"starting_at", EXPORT_START_ISO},
    {"ending_at", EXPORT_END_ISO},
    {"api_key_id", EXPORT_KEY},
    {"workspace_id", EXPORT_PROJECT},
    {"model", EXPORT_MODEL},
    {"service_tier", EXPORT_TIER},
    {"context_window", EXPORT_GROUP},
    {"inference_geo", EXPORT_GROUP},
    {"speed", EXPORT_GROUP},
    {"account_id", EXPORT_GROUP},
    {"service_account_id", EXPORT_GROUP},
    {"uncached_input_tokens", EXPORT_UNCACHED},
    {"cache_read_input_tokens", EXPORT_CACHED},
    {"cache_creation_input_tokens", EXPORT_WRITE},
    {"cache_creation.ephemeral_5m_input_tokens", EXPORT_WRITE_5M},
    {"cache_creation.ephemeral_1h_input_tokens", EXPORT_WRITE_1H},
    {"output_tokens", EXPORT_OUTPUT},
    {"server_tool_use.web_search_requests", EXPORT_IGNORED},
    {"usage_date_utc", EXPORT_DATE},
    {"model_version", EXPORT_MODEL},
    {"api_key", EXPORT_KEY_NAME},
    {"workspace", EXPORT_PROJECT_NAME},
    {"usage_type", EXPORT_TIER},
    {"usage_input_tokens_no_cache", EXPORT_UNCACHED},
    {"usage_input_tokens_cache_write_5m", EXPORT_WRITE_5M},
    {"usage_input_tokens_cache_write_1h", EXPORT_WRITE_1H},
    {"usage_input_tokens_cache_read", EXPORT_CACHED},
    {"usage_output_tokens", EXPORT_OUTPUT},
    {"web_search_count", EXPORT_IGNORED},
    {"amount", EXPORT_COST},
    {"currency", EXPORT_COST},
    {"cost_type", EXPORT_COST},
    {"token_type", EXPORT_COST},
    {"description", EXPORT_COST},
    {"cost_usd", EXPORT_COST},
};

enum export_field export_field_of(enum weir_export_provider provider, const char *name)
{
    const struct export_column *columns = openai_columns;
    size_t count = WEIR_COUNT(openai_columns);
    if (provider == WEIR_EXPORT_ANTHROPIC) {
        columns = anthropic_columns;
        count = WEIR_COUNT(anthropic_columns);
    }
    for (size_t i = 0; i < count; i++)
        if (strcmp(columns[i].name, name) == 0)
            return columns[i].field;
    return EXPORT_UNKNOWN;
}

/* --- Values --- */

/* "151", "151.0", "-3": digits, with a fraction of nothing but zeros. false: not a whole number, or
 * beyond 2^62. */
static bool read_whole(const char *s, int64_t *out)
{
    bool is_negative = *s == '-';
    uint64_t value = 0;
    s += is_negative;
    if (*s < '0' || *s > '9')
        return false;
    for (; *s >= '0' && *s <= '9'; s++) {
        value = value * 10 + (uint64_t)(*s - '0');
        if (value > UINT64_C(1) << 62)
            return false;
    }
    if (*s == '.')
        while (*++s == '0')
            ;
    *out = is_negative ? -(int64_t)value : (int64_t)value;
    return *s == '\0';
}

const char *export_time_text(int64_t unix_s, char out[EXPORT_TIME_BYTES])
{
    size_t n = weir_rfc3339_write(out, EXPORT_TIME_BYTES, unix_s * (int64_t)WEIR_NS_PER_S);
    out[n] = '\0';
    if (n == 20 && memcmp(out + 16, ":00Z", 4) == 0)
        memcpy(out + 16, "Z", 2);
    return out;
}

/* --- A row --- */

void export_draft_begin(struct export_draft *d)
{
    memset(d, 0, sizeof *d);
    d->identity = UINT64_C(14695981039346656037);
}

static void draft_mix(struct export_draft *d, const char *text)
{
    /* The NUL too, so that "a","bc" and "ab","c" differ. */
    do
        d->identity = (d->identity ^ (uint8_t)*text) * UINT64_C(1099511628211);
    while (*text++);
}

/* Values that mean "none" where a provider groups. */
static bool is_none(const char *value)
{
    return value[0] == '\0' || strcmp(value, "null") == 0 || strcmp(value, "None") == 0;
}

static bool is_plain_text(const char *value)
{
    const uint8_t *at = (const uint8_t *)value, *end = at + strlen(value);
    uint32_t cp;
    while (at < end) {
        uint32_t bytes = *at < 0x80 ? 1 : weir_utf8_take(at, end, &cp);
        if (bytes == 0 || *at < 0x20 || *at == 0x7f)
            return false;
        at += bytes;
    }
    return true;
}

void export_draft_take(struct export_file *f, struct export_draft *d, enum export_field field,
                       const char *name, const char *value)
{
    if (is_none(value) || field == EXPORT_IGNORED || field == EXPORT_COST)
        return;
    int64_t number = 0;
    if (field == EXPORT_UNKNOWN) {
        /* A text may be one more thing by which rows are grouped; a number may be one more split,
         * which grows with the rest. */
        if (!read_whole(value, &number)) {
            draft_mix(d, name);
            draft_mix(d, value);
        }
        return;
    }
    if (field >= EXPORT_NUMBER_FIRST) {
        size_t at = field - EXPORT_NUMBER_FIRST;
        if (!read_whole(value, &number))
            export_row_error(f, d, "%s is \"%.40s\", not a whole number of at most 2^62", name,
                             value);
        else if (number < 0)
            export_row_error(f, d, "%s is %.40s: less than nothing cannot have been used", name,
                             value);
        else if (number > WEIR_TOK_MAX)
            export_row_error(f, d, "%s is %.40s: more than 2^52 cannot be right", name, value);
        d->number_has[at] = true;
        d->number[at] = d->is_bad ? 0 : number;
        return;
    }
    if (strlen(value) > WEIR_EXPORT_NAME_MAX) {
        export_row_error(f, d, "%s is longer than %d bytes", name, WEIR_EXPORT_NAME_MAX);
        return;
    }
    if (field != EXPORT_GROUP && !is_plain_text(value)) {
        export_row_error(f, d, "%s is not UTF-8, or has a control character in it", name);
        return;
    }
    memcpy(d->text[field], value, strlen(value) + 1);
    d->text_has[field] = true;
    if (field == EXPORT_GROUP) {
        draft_mix(d, name);
        draft_mix(d, value);
    }
}

static bool draft_unix(struct export_file *f, struct export_draft *d, enum export_field field,
                       const char *what, int64_t *unix_s)
{
    if (!read_whole(d->text[field], unix_s))
        return export_row_error(f, d, "the bucket's %s is \"%.40s\", not unix seconds", what,
                                d->text[field]);
    if (*unix_s < 0 || *unix_s > TIME_MAX_S)
        return export_row_error(f, d, "the bucket's %s is %.40s, which is no time in unix seconds",
                                what, d->text[field]);
    return true;
}

static bool draft_iso(struct export_file *f, struct export_draft *d, enum export_field field,
                      const char *what, int64_t *unix_s, bool *has_time)
{
    bool has_zone;
    if (!weir_iso_read(d->text[field], strlen(d->text[field]), unix_s, &has_zone, has_time) ||
        *unix_s > TIME_MAX_S || *unix_s < 0)
        return export_row_error(f, d, "the bucket's %s is \"%.40s\", not a date and time", what,
                                d->text[field]);
    if (!has_zone && field != EXPORT_DATE && !f->is_iso_told) {
        f->is_iso_told = true;
        export_say(f->reader, WEIR_EXPORT_NOTE, "%s: \"%s\" names no time zone; taken as UTC",
                   d->place, d->text[field]);
    }
    return true;
}

/* One end of the bucket, from its unix or its ISO form, which should agree. */
static bool draft_time(struct export_file *f, struct export_draft *d, enum export_field unix_field,
                       enum export_field iso_field, const char *what, int64_t *unix_s)
{
    bool has_time;
    if (!d->text_has[unix_field] && !d->text_has[iso_field])
        return export_row_error(f, d, "the bucket's %s is missing", what);
    if (!d->text_has[unix_field])
        return draft_iso(f, d, iso_field, what, unix_s, &has_time);
    if (!draft_unix(f, d, unix_field, what, unix_s))
        return false;
    int64_t iso_s = *unix_s;
    if (d->text_has[iso_field] && !draft_iso(f, d, iso_field, what, &iso_s, &has_time))
        return false;
    if (iso_s != *unix_s && !f->is_clash_told) {
        f->is_clash_told = true;
        export_say(f->reader, WEIR_EXPORT_WARNING,
                   "%s: the %s %s is not the same instant as %s; the number is used", d->place,
                   what, d->text[iso_field], d->text[unix_field]);
    }
    return true;
}

bool export_draft_span(struct export_file *f, struct export_draft *d, int64_t *start_s,
                       int64_t *end_s)
{
    if (d->text_has[EXPORT_DATE]) {
        bool has_time;
        if (!draft_iso(f, d, EXPORT_DATE, "date", start_s, &has_time))
            return false;
        f->has_hours |= *start_s % DAY_S != 0;
        /* A midnight may be of a day or of its first hour: export_widen decides when all rows have
         * been seen. */
        *end_s = *start_s + (has_time ? HOUR_S : DAY_S);
        return true;
    }
    if (!draft_time(f, d, EXPORT_START, EXPORT_START_ISO, "start", start_s) ||
        !draft_time(f, d, EXPORT_END, EXPORT_END_ISO, "end", end_s))
        return false;
    if (*end_s <= *start_s)
        return export_row_error(f, d, "the bucket ends before it starts");
    if (*end_s - *start_s > 400 * DAY_S)
        return export_row_error(f, d, "the bucket is longer than 400 days");
    return true;
}

static int64_t draft_number(const struct export_draft *d, enum export_field field)
{
    return d->number[field - EXPORT_NUMBER_FIRST];
}

static bool draft_has(const struct export_draft *d, enum export_field field)
{
    return d->number_has[field - EXPORT_NUMBER_FIRST];
}

static bool draft_is_empty(const struct export_draft *d)
{
    for (size_t i = 0; i < EXPORT_NUMBERS; i++)
        if (d->number_has[i] && d->number[i] > 0)
            return false;
    return !d->text_has[EXPORT_KEY] && !d->text_has[EXPORT_KEY_NAME] && !d->text_has[EXPORT_MODEL];
}

/* Input as the two providers split it; sums cannot wrap: each part is at most 2^52. */
static bool draft_input(struct export_file *f, struct export_draft *d, struct weir_export_row *row)
{
    row->cached_tok = draft_number(d, EXPORT_CACHED);
    row->cache_write_tok = draft_has(d, EXPORT_WRITE_5M) || draft_has(d, EXPORT_WRITE_1H)
                               ? draft_number(d, EXPORT_WRITE_5M) + draft_number(d, EXPORT_WRITE_1H)
                               : draft_number(d, EXPORT_WRITE);
    int64_t parts_tok = row->cached_tok + row->cache_write_tok;
    if (!draft_has(d, EXPORT_INPUT)) {
        if (!draft_has(d, EXPORT_UNCACHED))
            return export_row_error(f, d, "it names a key or a model, but no input tokens");
        parts_tok += draft_number(d, EXPORT_UNCACHED);
        row->input_tok = parts_tok;
    } else {
        row->input_tok = draft_number(d, EXPORT_INPUT);
    }
    if (row->input_tok > WEIR_TOK_MAX)
        return export_row_error(f, d, "its input is %lld in all: more than 2^52 cannot be right",
                                (long long)row->input_tok);
    if (parts_tok > row->input_tok)
        return export_row_error(f, d,
                                "cached and written input (%lld) is more than all input (%lld)",
                                (long long)parts_tok, (long long)row->input_tok);
    return true;
}

static void draft_identity(struct export_draft *d, const struct weir_export_row *row)
{
    static const enum export_field groups[] = {EXPORT_KEY,     EXPORT_KEY_NAME,     EXPORT_MODEL,
                                               EXPORT_PROJECT, EXPORT_PROJECT_NAME, EXPORT_TIER};
    for (size_t i = 0; i < WEIR_COUNT(groups); i++)
        draft_mix(d, d->text[groups[i]]);
    draft_mix(d, row->is_batch ? "batch" : "");
}

void export_draft_end(struct export_file *f, struct export_draft *d)
{
    struct weir_export_row row = {.provider = f->provider, .file = f->index, .line = d->line};
    if (d->is_bad || !export_draft_span(f, d, &row.start_s, &row.end_s))
        return;
    export_add_span(f, row.start_s, row.end_s);
    if (draft_is_empty(d))
        return;
    if (!draft_input(f, d, &row))
        return;
    if (!draft_has(d, EXPORT_OUTPUT) && !d->no_output) {
        export_row_error(f, d, "it has input tokens, but no output tokens");
        return;
    }
    const char *batch = d->text[EXPORT_BATCH];
    row.is_batch = strcmp(batch, "true") == 0 || strcmp(batch, "True") == 0 ||
                   strcmp(batch, "TRUE") == 0 || strcmp(batch, "1") == 0 ||
                   strcmp(d->text[EXPORT_TIER], "batch") == 0;
    row.output_tok = draft_number(d, EXPORT_OUTPUT);
    row.requests = draft_has(d, EXPORT_REQUESTS) ? draft_number(d, EXPORT_REQUESTS) : -1;
    draft_identity(d, &row);
    row.identity = d->identity;
    row.key = export_keep(f->reader, d->text[EXPORT_KEY]);
    row.key_name = export_keep(f->reader, d->text[EXPORT_KEY_NAME]);
    row.project = export_keep(f->reader, d->text[EXPORT_PROJECT]);
    row.project_name = export_keep(f->reader, d->text[EXPORT_PROJECT_NAME]);
    row.model = export_keep(f->reader, d->text[EXPORT_MODEL]);
    export_add_row(f, &row);
}
