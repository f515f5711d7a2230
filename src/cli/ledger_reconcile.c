/* weir ledger reconcile: the books against a provider's usage export. */
#include "cli/ledger_reconcile.h"

#include "cli/commands.h"
#include "cli/ledger.h"
#include "cli/text.h"
#include "store/reader.h"
#include "wire/dates.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define HOUR_S INT64_C(3600)

static const struct cli_option options[] = {
    LEDGER_DOOR_OPTIONS,
    {"--from", "TIME", "compare from this instant on (2025-11-30, 2025-11-30T13:00Z; UTC)", NULL},
    {"--to", "TIME", "and before this one; default: as far as the files go", NULL},
    {"--max-drift", "PERCENT", "exit 1 above it, either way; default 1%", NULL},
    {"--apply", NULL, "book what is missing or too much, as signed adjustments", NULL},
    {"--open", NULL, "also compare buckets that have not ended yet", NULL},
    {"--windows", NULL, "show each bucket", NULL},
    {"--json", NULL, "print JSON", NULL},
};

static const struct cli_command command = {
    .name = "weir ledger reconcile",
    .usage = "FILE... [flags]",
    .summary = "Compares what the ledger booked with a provider's own usage export.",
    .help =
        "FILE is the OpenAI usage API's answer (one file a page) or the dashboard's completions "
        "CSV,\n"
        "or Anthropic's usage report or the console's CSV; what it is is seen by its content.\n"
        "provider_ids in the configuration say which keys and projects mean which scope or "
        "upstream.\n"
        "Drift is (weir - provider) / provider: below zero weir counts less than was used.\n"
        "--apply books adjustments with their reason and never changes what is there; applied "
        "twice,\n"
        "the same files change nothing. Exit status: 0 within --max-drift, 1 beyond it.\n",
    .options = options,
    .options_count = WEIR_COUNT(options),
    .words_max = WEIR_EXPORT_FILES_MAX,
};

struct reconcile_call {
    const struct cli_args *args;
    int64_t from_s, to_s, max_drift_ppm;
    bool is_applied, is_json;
};

static int wrong(const char *what, const char *value, const char *want)
{
    fprintf(stderr, "weir ledger reconcile: %s %.60s: %s\n", what, value, want);
    return CLI_USAGE_STATUS;
}

/* "1%", "0.05%", "1": percent with up to four places; into parts per million. */
static bool read_percent(const char *text, int64_t *ppm)
{
    int64_t value = 0;
    int places = -1;
    if (*text < '0' || *text > '9')
        return false;
    for (; (*text >= '0' && *text <= '9') || (*text == '.' && places < 0); text++) {
        if (*text == '.') {
            places = 0;
            continue;
        }
        if (value > 100000000 || places == 4)
            return false;
        value = value * 10 + (*text - '0');
        places += places >= 0;
    }
    for (places = places < 0 ? 0 : places; places < 4; places++)
        value *= 10;
    *ppm = value;
    return *text == '\0' || strcmp(text, "%") == 0;
}

static bool read_time(const char *text, int64_t *unix_s)
{
    bool has_zone, has_time;
    return weir_iso_read(text, strlen(text), unix_s, &has_zone, &has_time) && *unix_s >= 0;
}

static int take_arguments(struct reconcile_call *call, const struct cli_args *args)
{
    const char *from = cli_value(&command, args, "--from"), *to = cli_value(&command, args, "--to"),
               *drift = cli_value(&command, args, "--max-drift");
    *call = (struct reconcile_call){.args = args,
                                    .from_s = INT64_MIN,
                                    .to_s = INT64_MAX,
                                    .max_drift_ppm = 10000,
                                    .is_applied = cli_value(&command, args, "--apply") != NULL,
                                    .is_json = cli_value(&command, args, "--json") != NULL};
    if (args->words_count == 0) {
        fputs("weir ledger reconcile: give at least one export file; see --help\n", stderr);
        return CLI_USAGE_STATUS;
    }
    if (from && !read_time(from, &call->from_s))
        return wrong("--from", from, "not an instant like 2025-11-30 or 2025-11-30T13:00Z");
    if (to && !read_time(to, &call->to_s))
        return wrong("--to", to, "not an instant like 2025-11-30 or 2025-11-30T13:00Z");
    if (call->from_s >= call->to_s)
        return wrong("--from", from, "is not before --to");
    if (drift && !read_percent(drift, &call->max_drift_ppm))
        return wrong("--max-drift", drift, "not a percentage like 1% or 0.05%");
    return CLI_DONE_STATUS;
}

/* --- The export --- */

/* A whole file in memory, the caller's to free. NULL: it was said why. */
static char *read_file(const char *name, size_t *n)
{
    FILE *file = fopen(name, "rb");
    size_t cap = 1 << 16;
    char *bytes = file ? malloc(cap) : NULL;
    *n = 0;
    while (bytes) {
        size_t got = fread(bytes + *n, 1, cap - *n, file);
        *n += got;
        if (got == 0 || *n > WEIR_EXPORT_FILE_MAX)
            break;
        if (*n == cap) {
            char *larger = realloc(bytes, cap * 2);
            if (!larger) {
                free(bytes);
                bytes = NULL;
                break;
            }
            bytes = larger;
            cap *= 2;
        }
    }
    bool is_broken = !file || ferror(file);
    if (is_broken || !bytes)
        fprintf(stderr, "weir ledger reconcile: %s: %s\n", name,
                is_broken ? strerror(errno) : "not enough memory");
    if (file)
        fclose(file);
    if (is_broken) {
        free(bytes);
        return NULL;
    }
    return bytes;
}

static void print_problems(const struct weir_export *e)
{
    static const char *const words[] = {"note", "warning", "error"};
    for (size_t i = 0; i < e->problems_count; i++)
        fprintf(stderr, "%s: %s\n", words[e->problems[i].level], e->problems[i].text);
}

static int read_export(const struct cli_args *args, struct weir_export_reader *reader,
                       const struct weir_export **export)
{
    bool is_known[WEIR_EXPORT_PROVIDERS] = {false};
    for (uint32_t i = 0; i < args->words_count; i++) {
        size_t n;
        char *bytes = read_file(args->words[i], &n);
        if (!bytes)
            return CLI_USAGE_STATUS;
        weir_export_add(reader, args->words[i], bytes, n);
        free(bytes);
    }
    *export = weir_export_finish(reader);
    print_problems(*export);
    if ((*export)->errors > 0) {
        fputs("weir ledger reconcile: the export cannot be used; nothing was compared\n", stderr);
        return CLI_USAGE_STATUS;
    }
    for (size_t i = 0; i < (*export)->spans_count; i++)
        is_known[(*export)->spans[i].provider] = true;
    if (!is_known[WEIR_EXPORT_OPENAI] && !is_known[WEIR_EXPORT_ANTHROPIC]) {
        fputs("weir ledger reconcile: the files do not say of which time they are; nothing was "
              "compared\n",
              stderr);
        return CLI_USAGE_STATUS;
    }
    return CLI_DONE_STATUS;
}

/* --- Comparing --- */

/* One comparison: the books as they are now. */
struct reconcile_round {
    struct reconcile_books books;
    struct weir_reconcile *r;
};

static void round_free(struct reconcile_round *round)
{
    weir_reconcile_free(round->r);
    reconcile_books_free(&round->books);
}

static int round_run(struct reconcile_round *round, const struct reconcile_call *call,
                     struct ledger_door *door, const struct weir_export *export)
{
    int64_t from_s = INT64_MAX, to_s = 0;
    for (size_t i = 0; i < export->spans_count; i++) {
        from_s = weir_min_i64(from_s, export->spans[i].start_s);
        to_s = weir_max_i64(to_s, export->spans[i].end_s);
    }
    *round = (struct reconcile_round){0};
    from_s = weir_max_i64(from_s, call->from_s);
    to_s = weir_max_i64(weir_min_i64(to_s, call->to_s), from_s) + HOUR_S; /* maybe nothing of it */
    int status = reconcile_books_read(&round->books, door, from_s, to_s);
    if (status != CLI_DONE_STATUS)
        return status;
    const struct reconcile_books *b = &round->books;
    const struct weir_reconcile_input in = {.export = export,
                                            .uses = b->uses,
                                            .uses_count = b->uses_count,
                                            .lapses = b->lapses,
                                            .lapses_count = b->lapses_count,
                                            .scopes = b->scopes,
                                            .scopes_count = b->scopes_count,
                                            .upstreams = b->upstreams,
                                            .upstreams_count = b->upstreams_count,
                                            .ids = b->ids,
                                            .ids_count = b->ids_count,
                                            .from_s = call->from_s,
                                            .to_s = call->to_s,
                                            .max_drift_ppm = call->max_drift_ppm};
    round->r = weir_reconcile_run(&in);
    if (round->r)
        return CLI_DONE_STATUS;
    fputs("weir ledger reconcile: not enough memory\n", stderr);
    return CLI_FAULT_STATUS;
}

static int refuse_apply(const struct weir_reconcile *r)
{
    if (r->is_guessed)
        fputs("weir ledger reconcile: nothing is booked: several upstreams speak this API and no "
              "provider_ids say\nwhich keys or projects of the export are whose; name them on "
              "scopes, tenants or upstreams in the configuration\n",
              stderr);
    else if (r->has_partial_hours)
        fputs("weir ledger reconcile: nothing is booked: the export begins, ends or has holes "
              "within an hour, and\nweir keeps use by the hour; export whole hours or days\n",
              stderr);
    else
        return CLI_DONE_STATUS;
    return CLI_USAGE_STATUS;
}

static void count_left(struct reconcile_applied *left, const struct reconcile_round *round)
{
    *left = (struct reconcile_applied){0};
    for (size_t i = 0; i < round->r->corrections_count; i++) {
        const struct weir_reconcile_correction *c = &round->r->corrections[i];
        int64_t tok = llabs(c->input_tok) + llabs(c->output_tok);
        if (!c->scope) {
            left->nobody++;
            left->nobody_tok += tok;
        } else if (reconcile_is_over(&round->books, c)) {
            left->over++;
            left->over_tok += tok;
        }
    }
}

/* When the books can first be compared: use from before the file was made was never in it (--from
 * says that it is meant all the same), and use older than keep_usage is gone from it. */
static void begin_with_books(struct reconcile_call *call, struct ledger_door *door,
                             const struct weir_export *export, struct reconcile_shown *shown)
{
    int64_t now_s = (int64_t)time(NULL);
    int64_t keep_s = (int64_t)(ledger_door_config(door)->ledger.keep_usage_ns / WEIR_NS_PER_S);
    int64_t from_s = now_s - weir_min_i64(keep_s, now_s);
    const char *path = ledger_door_file(door);
    char error_text[512];
    from_s += (HOUR_S - from_s % HOUR_S) % HOUR_S;
    struct weir_reader *reader = path && call->from_s == INT64_MIN
                                     ? weir_reader_open(path, error_text, sizeof error_text)
                                     : NULL;
    struct weir_reader_facts facts;
    if (reader && weir_reader_facts(reader, &facts))
        from_s = weir_max_i64(from_s, facts.created_s - facts.created_s % HOUR_S);
    weir_reader_close(reader);
    if (from_s <= call->from_s)
        return;
    call->from_s = from_s;
    shown->begin_s = from_s;
    for (size_t i = 0; i < export->spans_count; i++)
        shown->early_count +=
            export->spans[i].start_s < from_s && export->spans[i].start_s < call->to_s;
}

static int show(const struct reconcile_shown *shown, bool is_json)
{
    if (is_json) {
        json_t *value = reconcile_json(shown);
        if (!value || !cli_print_json(value)) {
            fputs("weir ledger reconcile: not enough memory\n", stderr);
            return CLI_FAULT_STATUS;
        }
    } else {
        reconcile_print(shown);
    }
    return shown->is_beyond ? CLI_NO_STATUS : CLI_DONE_STATUS;
}

static void files_text(const struct cli_args *args, char out[static 100])
{
    const char *slash = strrchr(args->words[0], '/');
    snprintf(out, 100, "%.70s%s", slash ? slash + 1 : args->words[0],
             args->words_count > 1 ? " and more" : "");
}

/* Compares, and with --apply books and compares again: what is shown is what was found first, and
 * the exit status is of how things are in the end. */
static int reconcile(struct reconcile_call *call, struct ledger_door *door,
                     const struct weir_export *export)
{
    struct reconcile_round round = {0}, after = {0};
    struct reconcile_shown shown = {.export = export,
                                    .max_drift_ppm = call->max_drift_ppm,
                                    .files_count = call->args->words_count,
                                    .with_windows =
                                        cli_value(&command, call->args, "--windows") != NULL};
    int64_t now_s = (int64_t)time(NULL);
    if (!cli_value(&command, call->args, "--open")) {
        for (size_t i = 0; i < export->spans_count; i++)
            shown.open_count +=
                export->spans[i].end_s > now_s && export->spans[i].start_s < call->to_s;
        call->to_s = weir_min_i64(call->to_s, now_s - now_s % HOUR_S);
    }
    begin_with_books(call, door, export, &shown);
    int status = round_run(&round, call, door, export);
    if (status == CLI_DONE_STATUS) {
        shown.r = round.r;
        shown.books = &round.books;
        shown.is_beyond = round.r->is_beyond;
        count_left(&shown.applied, &round);
    }
    if (status == CLI_DONE_STATUS && call->is_applied)
        status = refuse_apply(round.r);
    if (status == CLI_DONE_STATUS && call->is_applied) {
        char files[100];
        files_text(call->args, files);
        status = reconcile_apply(door, round.r, &round.books, files, &shown.applied);
        if (status == CLI_DONE_STATUS)
            status = round_run(&after, call, door, export);
        if (status == CLI_DONE_STATUS) {
            shown.after = after.r;
            shown.is_beyond = after.r->is_beyond;
        }
    }
    if (status == CLI_DONE_STATUS)
        status = show(&shown, call->is_json);
    round_free(&round);
    round_free(&after);
    return status;
}

int cli_ledger_reconcile(int argc, char **argv)
{
    struct cli_args args;
    struct reconcile_call call;
    const struct weir_export *export = NULL;
    switch (cli_parse(&command, argc, argv, &args)) {
    case CLI_DONE:
        return CLI_DONE_STATUS;
    case CLI_WRONG:
        return CLI_USAGE_STATUS;
    case CLI_GO:
        break;
    }
    int status = take_arguments(&call, &args);
    if (status != CLI_DONE_STATUS)
        return status;
    struct weir_export_reader *reader = weir_export_open();
    if (!reader) {
        fputs("weir ledger reconcile: not enough memory\n", stderr);
        return CLI_FAULT_STATUS;
    }
    status = read_export(&args, reader, &export);
    if (status == CLI_DONE_STATUS) {
        struct ledger_door *door = ledger_door_open(&command, &args, &status);
        if (door)
            status = reconcile(&call, door, export);
        ledger_door_close(door);
    }
    weir_export_close(reader);
    return status;
}
