#include "wire/usage_export.h"

#include "wire/usage_export_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROBLEM_BYTES 1024
#define DAY_S INT64_C(86400)
#define EXPORT_SPANS_MAX (4 * WEIR_EXPORT_ROWS_MAX)

struct export_page {
    enum weir_export_provider provider;
    const char *place;
    int64_t start_s, end_s;
    bool has_more;
};

/* What a file's rows are grouped by: two files of one time must not differ in that. */
struct export_told {
    const char *name;
    enum weir_export_provider provider;
    bool has_rows, has_key, has_model, has_project;
    int64_t start_s, end_s;
};

struct weir_export_reader {
    struct weir_export export; /* as told at the end */
    struct weir_export_row *rows;
    size_t rows_cap;
    struct weir_export_span *spans;
    size_t spans_cap;
    struct weir_export_problem *problems;
    size_t problems_cap;
    size_t level_counts[3];
    struct export_page *pages;
    size_t pages_count, pages_cap;
    struct export_told files[WEIR_EXPORT_FILES_MAX];
    uint32_t files_count;
    const char **texts; /* a hash table, at most half full */
    size_t texts_count, texts_cap;
    bool no_memory, is_full;
};

/* --- Memory --- */

/* Makes room for one more of count elements of size bytes. false: no memory, which is remembered. */
static bool grow(struct weir_export_reader *r, void *list, size_t *cap, size_t count, size_t size)
{
    void **at = list;
    if (count < *cap)
        return true;
    size_t more = *cap ? *cap * 2 : 64;
    void *larger = realloc(*at, more * size);
    if (!larger) {
        r->no_memory = true;
        return false;
    }
    *at = larger;
    *cap = more;
    return true;
}

static uint64_t text_hash(const char *text)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (; *text; text++)
        hash = (hash ^ (uint8_t)*text) * UINT64_C(1099511628211);
    return hash ^ hash >> 29;
}

static const char **text_place(const char **texts, size_t cap, const char *text)
{
    size_t at = (size_t)text_hash(text) & (cap - 1);
    while (texts[at] && strcmp(texts[at], text) != 0)
        at = (at + 1) & (cap - 1);
    return &texts[at];
}

const char *export_keep(struct weir_export_reader *r, const char *text)
{
    if (text[0] == '\0')
        return "";
    if (r->texts_count * 2 >= r->texts_cap) {
        size_t cap = r->texts_cap ? r->texts_cap * 2 : 256;
        const char **texts = calloc(cap, sizeof *texts);
        if (!texts) {
            r->no_memory = true;
            return "";
        }
        for (size_t i = 0; i < r->texts_cap; i++)
            if (r->texts[i])
                *text_place(texts, cap, r->texts[i]) = r->texts[i];
        free(r->texts);
        r->texts = texts;
        r->texts_cap = cap;
    }
    const char **place = text_place(r->texts, r->texts_cap, text);
    if (!*place) {
        *place = strdup(text);
        if (!*place) {
            r->no_memory = true;
            return "";
        }
        r->texts_count++;
    }
    return *place;
}

/* --- Problems --- */

static void say(struct weir_export_reader *r, enum weir_export_level level, const char *text)
{
    if (level == WEIR_EXPORT_ERROR)
        r->export.errors++;
    r->export.warnings += level == WEIR_EXPORT_WARNING;
    if (++r->level_counts[level] > WEIR_EXPORT_PROBLEMS_MAX ||
        !grow(r, &r->problems, &r->problems_cap, r->export.problems_count, sizeof *r->problems))
        return;
    char *copy = strdup(text);
    r->no_memory |= copy == NULL;
    if (copy)
        r->problems[r->export.problems_count++] = (struct weir_export_problem){level, copy};
}

void export_say(struct weir_export_reader *r, enum weir_export_level level, const char *format, ...)
{
    char text[PROBLEM_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    say(r, level, text);
}

bool export_row_error(struct export_file *f, struct export_draft *d, const char *format, ...)
{
    char text[PROBLEM_BYTES];
    va_list arguments;
    if (d->is_bad)
        return false;
    d->is_bad = true;
    f->errors++;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    export_say(f->reader, WEIR_EXPORT_ERROR, "%s: %s", d->place, text);
    return false;
}

bool export_file_error(struct export_file *f, const char *format, ...)
{
    char text[PROBLEM_BYTES];
    va_list arguments;
    f->errors++;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    export_say(f->reader, WEIR_EXPORT_ERROR, "%s: %s", f->name, text);
    return false;
}

void export_unknown(struct export_file *f, const char *name)
{
    size_t used = strlen(f->unknown);
    char quoted[80];
    snprintf(quoted, sizeof quoted, "\"%.60s\"", name);
    if (strstr(f->unknown, quoted))
        return;
    if (used + strlen(quoted) + 3 < sizeof f->unknown)
        snprintf(f->unknown + used, sizeof f->unknown - used, "%s%s", used ? ", " : "", quoted);
    else
        f->has_more_unknown = true;
}

/* --- Rows --- */

static int compare_i64(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int compare_spans(const void *left, const void *right)
{
    const struct weir_export_span *a = left, *b = right;
    int by = compare_i64(a->provider, b->provider);
    if (by == 0)
        by = compare_i64(a->start_s, b->start_s);
    return by ? by : compare_i64(a->end_s, b->end_s);
}

/* Said once: one that is full drops what comes after. */
static void say_full(struct export_file *f, const char *what, int max)
{
    if (!f->reader->is_full)
        (void)export_file_error(f, "more than %d %s in all: give a shorter time, or longer buckets",
                                max, what);
    f->reader->is_full = true;
}

void export_add_row(struct export_file *f, const struct weir_export_row *row)
{
    struct weir_export_reader *r = f->reader;
    if (r->export.rows_count == WEIR_EXPORT_ROWS_MAX)
        say_full(f, "rows", WEIR_EXPORT_ROWS_MAX);
    else if (grow(r, &r->rows, &r->rows_cap, r->export.rows_count, sizeof *r->rows))
        r->rows[r->export.rows_count++] = *row;
}

void export_add_span(struct export_file *f, int64_t start_s, int64_t end_s)
{
    struct weir_export_reader *r = f->reader;
    size_t count = r->export.spans_count;
    struct weir_export_span span = {f->provider, start_s, end_s};
    /* Rows of one bucket follow each other, so nearly all repeats are seen here. */
    if (count > f->spans_first && compare_spans(&r->spans[count - 1], &span) == 0)
        return;
    if (count == EXPORT_SPANS_MAX)
        say_full(f, "buckets", EXPORT_SPANS_MAX);
    else if (grow(r, &r->spans, &r->spans_cap, count, sizeof *r->spans))
        r->spans[r->export.spans_count++] = span;
}

void export_widen(struct export_file *f)
{
    struct weir_export_reader *r = f->reader;
    for (size_t i = f->rows_first; i < r->export.rows_count; i++)
        r->rows[i].end_s = r->rows[i].start_s + DAY_S;
    for (size_t i = f->spans_first; i < r->export.spans_count; i++)
        r->spans[i].end_s = r->spans[i].start_s + DAY_S;
}

void export_add_page(struct export_file *f, const char *place, int64_t start_s, int64_t end_s,
                     bool has_more)
{
    struct weir_export_reader *r = f->reader;
    if (grow(r, &r->pages, &r->pages_cap, r->pages_count, sizeof *r->pages))
        r->pages[r->pages_count++] =
            (struct export_page){f->provider, export_keep(r, place), start_s, end_s, has_more};
}

const char *weir_export_provider_name(enum weir_export_provider provider)
{
    switch (provider) {
    case WEIR_EXPORT_OPENAI:
        return "OpenAI";
    case WEIR_EXPORT_ANTHROPIC:
        return "Anthropic";
    }
    return "";
}

/* --- Files --- */

struct weir_export_reader *weir_export_open(void)
{
    return calloc(1, sizeof(struct weir_export_reader));
}

/* What can be said of a file only when all of it was read. */
static void file_end(struct export_file *f)
{
    struct weir_export_reader *r = f->reader;
    struct export_told *told = &r->files[f->index];
    told->provider = f->provider;
    for (size_t i = f->rows_first; i < r->export.rows_count; i++) {
        const struct weir_export_row *row = &r->rows[i];
        told->start_s = told->has_rows ? weir_min_i64(told->start_s, row->start_s) : row->start_s;
        told->end_s = told->has_rows ? weir_max_i64(told->end_s, row->end_s) : row->end_s;
        told->has_rows = true;
        told->has_key |= row->key[0] != '\0' || row->key_name[0] != '\0';
        told->has_project |= row->project[0] != '\0' || row->project_name[0] != '\0';
        told->has_model |= row->model[0] != '\0';
    }
    if (f->unknown[0] != '\0')
        export_say(r, WEIR_EXPORT_NOTE, "%s: not known and passed over: %s%s", f->name, f->unknown,
                   f->has_more_unknown ? ", ..." : "");
    if (f->errors == 0 && !told->has_rows)
        export_say(r, WEIR_EXPORT_WARNING, "%s: says that nothing was used%s", f->name,
                   r->export.spans_count > f->spans_first ? "" : ", and not when");
}

void weir_export_add(struct weir_export_reader *r, const char *name, const void *bytes, size_t n)
{
    const char *at = bytes;
    if (r->files_count == WEIR_EXPORT_FILES_MAX) {
        export_say(r, WEIR_EXPORT_ERROR, "%s: more than %d files", name, WEIR_EXPORT_FILES_MAX);
        return;
    }
    struct export_file f = {.reader = r,
                            .name = export_keep(r, name),
                            .index = r->files_count++,
                            .rows_first = r->export.rows_count,
                            .spans_first = r->export.spans_count};
    r->files[f.index].name = f.name;
    if (n > WEIR_EXPORT_FILE_MAX) {
        (void)export_file_error(&f, "larger than %llu MiB",
                                (unsigned long long)(WEIR_EXPORT_FILE_MAX >> 20));
        return;
    }
    if (n >= 2 && (memcmp(at, "\xff\xfe", 2) == 0 || memcmp(at, "\xfe\xff", 2) == 0)) {
        (void)export_file_error(&f, "is UTF-16; save it as UTF-8");
        return;
    }
    if (n >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0) {
        at += 3;
        n -= 3;
    }
    size_t blank = 0;
    while (blank < n &&
           (at[blank] == ' ' || at[blank] == '\n' || at[blank] == '\r' || at[blank] == '\t'))
        blank++;
    if (blank == n) {
        (void)export_file_error(&f, "is empty");
        return;
    }
    if (at[blank] == '{' || at[blank] == '[')
        export_read_json(&f, at, n);
    else
        export_read_csv(&f, at, n);
    file_end(&f);
}

/* --- Across files --- */

static int compare_rows(const void *left, const void *right)
{
    const struct weir_export_row *a = left, *b = right;
    int by = compare_i64(a->provider, b->provider);
    if (by == 0)
        by = compare_i64(a->start_s, b->start_s);
    if (by == 0)
        by = compare_i64(a->end_s, b->end_s);
    if (by == 0)
        by = strcmp(a->model, b->model);
    if (by == 0)
        by = strcmp(a->key, b->key);
    if (by == 0)
        by = strcmp(a->project, b->project);
    if (by == 0)
        by = (a->identity > b->identity) - (a->identity < b->identity);
    if (by == 0)
        by = compare_i64(a->file, b->file);
    return by ? by : compare_i64(a->line, b->line);
}

static bool row_is_of(const struct weir_export_row *a, const struct weir_export_row *b)
{
    return a->provider == b->provider && a->start_s == b->start_s && a->end_s == b->end_s &&
           a->identity == b->identity && strcmp(a->model, b->model) == 0 &&
           strcmp(a->key, b->key) == 0 && strcmp(a->project, b->project) == 0;
}

static bool row_equals(const struct weir_export_row *a, const struct weir_export_row *b)
{
    return a->requests == b->requests && a->input_tok == b->input_tok &&
           a->cached_tok == b->cached_tok && a->cache_write_tok == b->cache_write_tok &&
           a->output_tok == b->output_tok;
}

/* Usage only grows: every number of a is at least b's. */
static bool row_covers(const struct weir_export_row *a, const struct weir_export_row *b)
{
    return a->requests >= b->requests && a->input_tok >= b->input_tok &&
           a->cached_tok >= b->cached_tok && a->cache_write_tok >= b->cache_write_tok &&
           a->output_tok >= b->output_tok;
}

static void row_text(const struct weir_export_reader *r, const struct weir_export_row *row,
                     char out[400])
{
    char time[EXPORT_TIME_BYTES];
    const char *key = row->key[0] ? row->key : row->key_name;
    snprintf(out, 400, "%s line %u (%s, model %.60s, key %.60s, project %.60s)",
             r->files[row->file].name, row->line, export_time_text(row->start_s, time),
             row->model[0] ? row->model : "-", key[0] ? key : "-",
             row->project[0]        ? row->project
             : row->project_name[0] ? row->project_name
                                    : "-");
}

struct repeats {
    size_t equal, grown;
    char example[400];
};

/* b comes after a and is of the same bucket, key, project and model. true: b is not to be counted
 * (a may have taken its numbers). */
static bool row_repeats(struct weir_export_reader *r, struct weir_export_row *a,
                        const struct weir_export_row *b, struct repeats *repeats)
{
    char first[400], second[400];
    if (row_equals(a, b)) {
        if (repeats->equal++ == 0)
            row_text(r, b, repeats->example);
        return true;
    }
    row_text(r, a, first);
    row_text(r, b, second);
    if (a->file == b->file) {
        export_say(r, WEIR_EXPORT_WARNING,
                   "%s and line %u are of the same bucket, key, project and model with different "
                   "numbers; both are counted",
                   first, b->line);
        return false;
    }
    if (row_covers(a, b) || row_covers(b, a)) {
        repeats->grown++;
        if (row_covers(b, a))
            *a = *b;
        return true;
    }
    export_say(r, WEIR_EXPORT_ERROR,
               "%s and %s say different things of the same bucket, and neither is the later one: "
               "give one of them",
               first, second);
    return true;
}

static void find_repeats(struct weir_export_reader *r)
{
    struct repeats repeats = {0};
    size_t kept = 0;
    for (size_t i = 0; i < r->export.rows_count; i++) {
        struct weir_export_row row = r->rows[i];
        bool is_repeat = false;
        for (size_t k = kept;
             k > 0 && !is_repeat && row_is_of(&r->rows[k - 1], &row) && kept - k < 64; k--)
            is_repeat = row_repeats(r, &r->rows[k - 1], &row, &repeats);
        if (!is_repeat)
            r->rows[kept++] = row;
    }
    r->export.rows_count = kept;
    if (repeats.equal > 0)
        export_say(r, WEIR_EXPORT_WARNING,
                   "%zu row%s given twice and counted once, as %s: pages or files that overlap",
                   repeats.equal, repeats.equal == 1 ? " is" : "s are", repeats.example);
    if (repeats.grown > 0)
        export_say(r, WEIR_EXPORT_WARNING,
                   "%zu bucket%s grew between two files: the larger numbers count", repeats.grown,
                   repeats.grown == 1 ? "" : "s");
}

/* Buckets of different length over one time would count it twice. */
static void join_spans(struct weir_export_reader *r)
{
    size_t kept = 0;
    bool is_told = false;
    for (size_t i = 0; i < r->export.spans_count; i++) {
        const struct weir_export_span *span = &r->spans[i];
        const struct weir_export_span *last = kept > 0 ? &r->spans[kept - 1] : NULL;
        if (last && compare_spans(last, span) == 0)
            continue;
        if (last && last->provider == span->provider && span->start_s < last->end_s && !is_told) {
            char times[4][EXPORT_TIME_BYTES];
            is_told = true;
            export_say(
                r, WEIR_EXPORT_ERROR,
                "the files have buckets that overlap (%s to %s, and %s to %s), so that time "
                "would count twice: give one export with one length of bucket",
                export_time_text(last->start_s, times[0]), export_time_text(last->end_s, times[1]),
                export_time_text(span->start_s, times[2]), export_time_text(span->end_s, times[3]));
        }
        r->spans[kept++] = *span;
    }
    r->export.spans_count = kept;
}

static int compare_pages(const void *left, const void *right)
{
    const struct export_page *a = left, *b = right;
    int by = compare_i64(a->provider, b->provider);
    return by ? by : compare_i64(a->start_s, b->start_s);
}

/* A file may have as many pages as it has room for. */
static void check_pages(struct weir_export_reader *r)
{
    if (r->pages_count > 1)
        qsort(r->pages, r->pages_count, sizeof *r->pages, compare_pages);
    for (size_t i = 0; i < r->pages_count; i++) {
        const struct export_page *page = &r->pages[i];
        const struct export_page next = {.provider = page->provider, .start_s = page->end_s};
        char time[EXPORT_TIME_BYTES];
        if (page->has_more && !bsearch(&next, r->pages, r->pages_count, sizeof next, compare_pages))
            export_say(r, WEIR_EXPORT_WARNING,
                       "%s: has_more is true, and no file given goes on at %s: fetch the next page "
                       "(page=next_page) and give it too",
                       page->place, export_time_text(page->end_s, time));
    }
}

/* One time told by two files, once by key and once without: the same usage twice. */
static void check_groups(struct weir_export_reader *r)
{
    for (uint32_t i = 0; i < r->files_count; i++)
        for (uint32_t k = i + 1; k < r->files_count; k++) {
            const struct export_told *a = &r->files[i], *b = &r->files[k];
            if (!a->has_rows || !b->has_rows || a->provider != b->provider ||
                a->start_s >= b->end_s || b->start_s >= a->end_s)
                continue;
            const char *by = a->has_key != b->has_key           ? "API key"
                             : a->has_model != b->has_model     ? "model"
                             : a->has_project != b->has_project ? "project or workspace"
                                                                : NULL;
            if (by)
                export_say(r, WEIR_EXPORT_ERROR,
                           "%s and %s are of the same time, and only one of them is grouped by "
                           "%s: the same usage would count twice; give one of them",
                           a->name, b->name, by);
        }
}

static void check_sums(struct weir_export_reader *r)
{
    int64_t sum = 0;
    for (size_t i = 0; i < r->export.rows_count && sum <= WEIR_BALANCE_MAX; i++)
        sum += r->rows[i].input_tok + r->rows[i].output_tok;
    if (sum > WEIR_BALANCE_MAX)
        export_say(r, WEIR_EXPORT_ERROR,
                   "the rows add up to more than 2^53 tokens, which cannot "
                   "be right");
}

const struct weir_export *weir_export_finish(struct weir_export_reader *r)
{
    if (r->export.rows_count > 1)
        qsort(r->rows, r->export.rows_count, sizeof *r->rows, compare_rows);
    find_repeats(r);
    if (r->export.spans_count > 1)
        qsort(r->spans, r->export.spans_count, sizeof *r->spans, compare_spans);
    join_spans(r);
    check_pages(r);
    check_groups(r);
    check_sums(r);
    for (int level = WEIR_EXPORT_NOTE; level <= WEIR_EXPORT_ERROR; level++)
        if (r->level_counts[level] > WEIR_EXPORT_PROBLEMS_MAX) {
            size_t more = r->level_counts[level] - WEIR_EXPORT_PROBLEMS_MAX;
            r->level_counts[level] = 0;
            export_say(r, (enum weir_export_level)level, "... and %zu more like these", more);
        }
    if (r->no_memory)
        export_say(r, WEIR_EXPORT_ERROR, "not enough memory for this export");
    r->export.errors += r->no_memory; /* also when that could not be told */
    r->export.rows = r->rows;
    r->export.spans = r->spans;
    r->export.problems = r->problems;
    return &r->export;
}

void weir_export_close(struct weir_export_reader *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->texts_cap; i++)
        free((char *)r->texts[i]);
    for (size_t i = 0; i < r->export.problems_count; i++)
        free((char *)r->problems[i].text);
    free(r->texts);
    free(r->problems);
    free(r->rows);
    free(r->spans);
    free(r->pages);
    free(r);
}
