/* The two CSV exports: OpenAI's dashboard, Anthropic's console. */
#include "wire/csv_rows.h"
#include "wire/usage_export_private.h"

#include <stdio.h>
#include <string.h>

struct csv_export {
    struct export_file *f;
    enum export_field fields[WEIR_CSV_CELLS_MAX];
    char names[WEIR_CSV_CELLS_MAX][48]; /* as in messages */
    uint32_t columns;                   /* 0: the header is yet to come */
    uint32_t last_line;                 /* of a row that is too short */
    bool is_short;                      /* the last row was */
    struct export_draft draft;
};

/* In lower case, without blanks around: what a column is known by. */
static void column_name(const char *cell, char out[48])
{
    size_t n = strlen(cell), used = 0;
    while (n > 0 && (cell[n - 1] == ' ' || cell[n - 1] == '\t'))
        n--;
    while (n > 0 && (*cell == ' ' || *cell == '\t'))
        cell++, n--;
    for (; used < n && used < 47; used++)
        out[used] = (char)(cell[used] >= 'A' && cell[used] <= 'Z' ? cell[used] + 32 : cell[used]);
    out[used] = '\0';
}

static bool has_column(const struct csv_export *c, const char *name)
{
    for (uint32_t i = 0; i < c->columns; i++)
        if (strcmp(c->names[i], name) == 0)
            return true;
    return false;
}

static bool has_field(const struct csv_export *c, enum export_field field)
{
    for (uint32_t i = 0; i < c->columns; i++)
        if (c->fields[i] == field)
            return true;
    return false;
}

static const char *columns_found(const struct csv_export *c, char out[400])
{
    size_t used = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < c->columns && used < 340; i++)
        used += (size_t)snprintf(out + used, 400 - used, "%s%s", i ? "," : "", c->names[i]);
    return out;
}

/* Which export it is; false: none that can be used, which is told. */
static bool header_provider(struct csv_export *c)
{
    char found[400];
    bool is_anthropic = has_column(c, "usage_date_utc") ||
                        has_column(c, "usage_input_tokens_no_cache") ||
                        has_column(c, "usage_output_tokens");
    bool is_openai = has_column(c, "start_time") || has_column(c, "start_time_iso") ||
                     has_column(c, "num_model_requests");
    c->f->provider = is_anthropic ? WEIR_EXPORT_ANTHROPIC : WEIR_EXPORT_OPENAI;
    for (uint32_t i = 0; i < c->columns; i++)
        c->fields[i] = export_field_of(c->f->provider, c->names[i]);
    if (has_column(c, "amount_value") || has_column(c, "line_item"))
        return export_file_error(c->f, "this is the cost export; give the completions usage export "
                                       "(completions_usage_FROM_TO.csv)");
    if (!is_anthropic && (has_column(c, "cost_usd") || has_column(c, "cost_type")))
        return export_file_error(c->f, "this is the cost export; give the console's usage export");
    if (is_openai && !is_anthropic && has_column(c, "num_model_requests") &&
        !has_field(c, EXPORT_OUTPUT) && has_column(c, "images"))
        return export_file_error(c->f, "this is the usage of images; give the completions usage "
                                       "export");
    if (is_anthropic != is_openai)
        return true;
    return export_file_error(
        c->f,
        "no usage export that is known: its first line should name start_time,end_time,..."
        "input_tokens,output_tokens (OpenAI) or usage_date_utc,...,usage_output_tokens "
        "(Anthropic); found: %s",
        columns_found(c, found));
}

static bool header_needs(struct csv_export *c)
{
    char missing[160] = "", found[400];
    const struct {
        bool is_there;
        const char *name;
    } openai[] = {{has_field(c, EXPORT_START) || has_field(c, EXPORT_START_ISO), "start_time"},
                  {has_field(c, EXPORT_END) || has_field(c, EXPORT_END_ISO), "end_time"},
                  {has_field(c, EXPORT_INPUT) || has_field(c, EXPORT_UNCACHED), "input_tokens"},
                  {has_field(c, EXPORT_OUTPUT), "output_tokens"}},
      anthropic[] = {{has_field(c, EXPORT_DATE), "usage_date_utc"},
                     {has_field(c, EXPORT_UNCACHED), "usage_input_tokens_no_cache"},
                     {has_field(c, EXPORT_OUTPUT), "usage_output_tokens"}};
    bool is_openai = c->f->provider == WEIR_EXPORT_OPENAI;
    size_t count = is_openai ? WEIR_COUNT(openai) : WEIR_COUNT(anthropic), used = 0;
    bool is_times_only = is_openai;
    for (uint32_t i = 0; i < c->columns; i++)
        is_times_only &= c->fields[i] <= EXPORT_END_ISO;
    if (is_times_only && openai[0].is_there && openai[1].is_there)
        return true; /* an export of a time without use */
    for (size_t i = 0; i < count; i++) {
        bool is_there = is_openai ? openai[i].is_there : anthropic[i].is_there;
        const char *name = is_openai ? openai[i].name : anthropic[i].name;
        if (!is_there)
            used += (size_t)snprintf(missing + used, sizeof missing - used, "%s%s",
                                     used ? ", " : "", name);
    }
    if (used > 0)
        return export_file_error(
            c->f, "the column%s %s missing; found: %s", strchr(missing, ',') ? "s" : "",
            strcat(missing, strchr(missing, ',') ? " are" : " is"), columns_found(c, found));
    if (!has_field(c, EXPORT_MODEL))
        export_say(c->f->reader, WEIR_EXPORT_WARNING,
                   "%s: has no column of models, so all models are compared as one", c->f->name);
    return true;
}

static bool take_header(struct csv_export *c, const struct weir_csv_row *row)
{
    c->columns = row->cells_count;
    for (uint32_t i = 0; i < c->columns; i++) {
        column_name(row->cells[i], c->names[i]);
        for (uint32_t k = 0; k < i; k++)
            if (c->names[i][0] && strcmp(c->names[i], c->names[k]) == 0)
                return export_file_error(c->f, "the column %s is there twice", c->names[i]);
    }
    if (!header_provider(c) || !header_needs(c))
        return false;
    for (uint32_t i = 0; i < c->columns; i++)
        if (c->fields[i] == EXPORT_UNKNOWN || c->fields[i] == EXPORT_COST)
            export_unknown(c->f, c->names[i]);
    return true;
}

static bool take_row(void *ctx, const struct weir_csv_row *row)
{
    struct csv_export *c = ctx;
    struct export_draft *d = &c->draft;
    if (c->columns == 0)
        return take_header(c, row);
    if (c->f->errors >= EXPORT_FILE_ERRORS_MAX)
        return export_file_error(c->f, "too many errors; read up to line %u", row->line);
    export_draft_begin(d);
    d->line = row->line;
    snprintf(d->place, sizeof d->place, "%.100s:%u", c->f->name, row->line);
    if (c->is_short) {
        struct export_draft before = {0};
        snprintf(before.place, sizeof before.place, "%.100s:%u", c->f->name, c->last_line);
        c->is_short = false;
        export_row_error(c->f, &before, "has not as many cells as the first line (%u)", c->columns);
    }
    if (row->cells_count > c->columns) {
        export_row_error(c->f, d, "has %u cells, the first line has %u", row->cells_count,
                         c->columns);
        return true;
    }
    if (row->cells_count < c->columns) { /* told when it is known whether the file ends here */
        c->is_short = true;
        c->last_line = row->line;
        return true;
    }
    for (uint32_t i = 0; i < c->columns; i++)
        export_draft_take(c->f, d, c->fields[i], c->names[i], row->cells[i]);
    export_draft_end(c->f, d);
    return true;
}

/* Rows that told only a date and midnight are of a day, unless the file has hours. */
static void settle_dates(struct csv_export *c)
{
    if (c->f->provider == WEIR_EXPORT_ANTHROPIC && !c->f->has_hours)
        export_widen(c->f);
}

void export_read_csv(struct export_file *f, const char *bytes, size_t n)
{
    static const char too_wide[] = "has more cells than any export";
    struct csv_export c = {.f = f};
    uint32_t line;
    enum weir_csv_result result = weir_csv_read(bytes, n, take_row, &c, &line);
    bool is_line_open = n > 0 && bytes[n - 1] != '\n' && bytes[n - 1] != '\r';
    if (result == WEIR_CSV_DONE && c.is_short && is_line_open)
        result = WEIR_CSV_CUT;
    switch (result) {
    case WEIR_CSV_STOPPED: /* told */
        return;
    case WEIR_CSV_DONE:
        if (c.is_short)
            (void)export_file_error(f, "line %u has not as many cells as the first line (%u)",
                                    c.last_line, c.columns);
        else if (is_line_open && c.columns > 0)
            export_say(f->reader, WEIR_EXPORT_WARNING,
                       "%s:%u: the last line has no line end: if the file was cut, its last number "
                       "is too small",
                       f->name, line);
        break;
    case WEIR_CSV_CUT:
        (void)export_file_error(f, "line %u: the file ends in the middle of a row; export it again",
                                line);
        break;
    case WEIR_CSV_MALFORMED:
        (void)export_file_error(f, "line %u: not CSV: a quote or a NUL byte in the wrong place",
                                line);
        break;
    case WEIR_CSV_WIDE:
        (void)export_file_error(f, "line %u: %s (%d)", line, too_wide, WEIR_CSV_CELLS_MAX);
        break;
    case WEIR_CSV_NO_MEMORY:
        (void)export_file_error(f, "not enough memory to read it");
        break;
    }
    settle_dates(&c);
}
