/* weir ledger show: the budgets as a tree, and what is odd about them. */
#include "cli/commands.h"
#include "cli/ledger.h"
#include "cli/ledger_door.h"
#include "cli/text.h"

#include <stdlib.h>
#include <string.h>

#define SHOW_DEPTH_MAX 6

static const struct cli_option show_options[] = {
    LEDGER_DOOR_OPTIONS,
    {"--all", NULL, "also unlimited scopes that nothing was used of", NULL},
    {"--json", NULL, "print JSON", NULL},
};

static const struct cli_command show_command = {
    .name = "weir ledger show",
    .usage = "[SCOPE] [flags]",
    .summary = "Shows budgets: what was granted, used and is left, and when they reset.",
    .help =
        "used is reserved (requests in flight) + committed (what was really used) + lapsed (holds\n"
        "whose gateway died). Refusals and the burn rate come from a running gateway; the burn "
        "rate\n"
        "is that of this hour and the one before.\n",
    .options = show_options,
    .options_count = WEIR_COUNT(show_options),
    .words_max = 1,
};

/* ---- above and below the table ---- */

static void print_head(const json_t *all)
{
    const json_t *store = json_object_get(all, "store"), *holds = json_object_get(all, "holds");
    char a[CLI_AMOUNT_BYTES], b[CLI_AMOUNT_BYTES];
    bool live = json_is_true(json_object_get(all, "live"));
    const char *path = cli_json_text(store, "path");
    printf("ledger %s: %s, epoch %lld", *path ? path : "in memory",
           live ? "a gateway is running on it" : "at rest",
           (long long)cli_json_int(store, "epoch"));
    if (cli_json_int(store, "file_bytes") > 0)
        printf(", %s + %s", cli_bytes((uint64_t)cli_json_int(store, "file_bytes"), a),
               cli_bytes((uint64_t)cli_json_int(store, "wal_bytes"), b));
    if (!live)
        printf(", written %s", cli_json_text(store, "written"));
    puts("");
    if (cli_json_int(store, "sync_us") > 0) {
        printf("disk: one sync %s", cli_micros(cli_json_int(store, "sync_us"), a));
        if (cli_json_int(store, "commit_p50_us") > 0)
            printf(", a commit %s (median) and %s (p99)",
                   cli_micros(cli_json_int(store, "commit_p50_us"), a),
                   cli_micros(cli_json_int(store, "commit_p99_us"), b));
        printf("; %s operations in ", cli_amount(cli_json_int(store, "ops"), a));
        printf("%s batches", cli_amount(cli_json_int(store, "batches"), b));
        printf(", %s waiting\n", cli_amount(cli_json_int(store, "queue"), a));
    }
    const char *name, *between = "holds: ";
    json_t *count;
    json_object_foreach((json_t *)(uintptr_t)holds, name, count)
    {
        printf("%s%s %s", between, cli_amount(json_integer_value(count), a), name);
        between = ", ";
    }
    puts("");
    if (*cli_json_text(store, "trouble"))
        printf("TROUBLE: %s\n", cli_json_text(store, "trouble"));
    puts("");
}

static void note_amount(const json_t *scope, const char *member, const char *format)
{
    char text[CLI_AMOUNT_BYTES];
    int64_t amount = cli_json_int(scope, member);
    if (amount <= 0)
        return;
    printf("  %s: ", cli_json_text(scope, "scope"));
    printf(format, cli_amount(amount, text));
    puts("");
}

/* What a reader of the table should not have to find out alone. */
static void print_notes(const json_t *scope, int64_t now_s, bool live)
{
    char a[CLI_AMOUNT_BYTES], b[CLI_AMOUNT_BYTES];
    int64_t held = cli_json_int(scope, "held"), lapsed = cli_json_int(scope, "lapsed");
    const char *name = cli_json_text(scope, "scope");
    int64_t granted = cli_json_int(scope, "granted_tok");
    int64_t configured = cli_json_int(scope, "configured_tok");
    int64_t gone_s = cli_json_int(scope, "exhausted_in_s");
    note_amount(scope, "overdrawn_tok",
                "overdrawn by %s: nothing is admitted until use is below "
                "the grant again");
    note_amount(scope, "overrun_tok", "%s used above what was set aside for it (overrun)");
    note_amount(scope, "unmatched_tok", "%s used without a reserve (unmatched)");
    note_amount(scope, "refunded_tok",
                "%s given back for holds that lapsed: at most so much is "
                "missing here");
    if (lapsed > 0)
        printf("  %s: %s lapsed hold%s, charged with %s; see weir ledger holds --state lapsed\n",
               name, cli_amount(lapsed, a), lapsed == 1 ? "" : "s",
               cli_amount(cli_json_int(scope, "lapsed_tok"), b));
    if (held > 0 && !live)
        printf("  %s: %s hold%s of a gateway that ended without a word; lapses at the next start\n",
               name, cli_amount(held, a), held == 1 ? "" : "s");
    if (configured >= 0 && configured != granted)
        printf("  %s: granted by hand; the configuration says %s\n", name,
               cli_amount(configured, a));
    if (gone_s > 0) {
        int64_t reset_s = cli_json_int(scope, "resets_s");
        if (reset_s < 0 || now_s + gone_s < reset_s)
            printf("  %s: at this pace gone in %s (%s)\n", name, cli_span(gone_s, a),
                   cli_json_text(scope, "exhausted_at"));
    }
    if (json_is_true(json_object_get(scope, "window_is_over")))
        printf(cli_json_int(scope, "window") > 0
                   ? "  %s: its window is over; the gateway begins the next one\n"
                   : "  %s: the gateway's start begins its first window\n",
               name);
}

/* ---- the table ---- */

static void add_reset(struct cli_table *table, const json_t *scope, int64_t now_s)
{
    char cell[160], in[CLI_AMOUNT_BYTES];
    int64_t resets_s = cli_json_int(scope, "resets_s");
    if (resets_s < 0) {
        /* At rest and without its configuration nobody knows when the window that it is in ends. */
        bool is_windowed = cli_json_int(scope, "window") > 0;
        cli_table_add(table, is_windowed ? "not in this configuration (-c FILE)" : "never");
        return;
    }
    /* "2026-12-01T00:00:00+01:00" and "2026-11-30T23:00:00Z": seconds say nothing here. */
    const char *local = cli_json_text(scope, "resets_local"), *utc = cli_json_text(scope, "resets");
    bool is_utc = strcmp(local, utc) == 0;
    if (is_utc || strlen(local) < 25)
        snprintf(cell, sizeof cell, "%.16sZ, in %s", utc, cli_span(resets_s - now_s, in));
    else
        snprintf(cell, sizeof cell, "%.16s%s = %.16sZ, in %s", local, local + 19, utc,
                 cli_span(resets_s - now_s, in));
    cli_table_add(table, cell);
}

static void add_row(struct cli_table *table, const json_t *scope, int depth, int64_t now_s)
{
    char name[200];
    snprintf(name, sizeof name, "%*s%s", 2 * depth, "", cli_json_text(scope, "scope"));
    cli_table_add(table, name);
    cli_table_add_amount(table, cli_json_int(scope, "granted_tok"), "unlimited");
    cli_table_add_amount(table, cli_json_int(scope, "used_tok"), NULL);
    cli_table_add_amount(table, cli_json_int(scope, "free_tok"), "-");
    cli_table_add_amount(table, cli_json_int(scope, "reserved_tok"), NULL);
    cli_table_add_amount(table, cli_json_int(scope, "committed_tok"), NULL);
    cli_table_add_amount(table, cli_json_int(scope, "lapsed_tok"), NULL);
    cli_table_add_amount(table, cli_json_int(scope, "held"), NULL);
    cli_table_add_amount(table, cli_json_int(scope, "refused"), "-");
    cli_table_add_amount(table, cli_json_int(scope, "burn_tok_per_h"), "-");
    add_reset(table, scope, now_s);
}

/* Adds scopes, each with those below it (children: an array by name). */
static void add_tree(struct cli_table *table, const json_t *scopes, const json_t *children,
                     int depth, int64_t now_s)
{
    size_t i;
    json_t *scope;
    json_array_foreach((json_t *)(uintptr_t)scopes, i, scope)
    {
        add_row(table, scope, depth, now_s);
        if (depth < SHOW_DEPTH_MAX)
            add_tree(table, json_object_get(children, cli_json_text(scope, "scope")), children,
                     depth + 1, now_s);
    }
}

static void print_scopes(json_t *scopes, int64_t now_s, bool live)
{
    struct cli_table table = {
        .titles = {"SCOPE", "GRANTED", "USED", "FREE", "RESERVED", "COMMITTED", "LAPSED", "HELD",
                   "REFUSED", "BURN/H", "RESETS"},
        .right = {false, true, true, true, true, true, true, true, true, true, false},
        .columns = 11};
    json_t *children = json_object(), *roots = json_array();
    size_t i;
    json_t *scope;
    json_array_foreach(scopes, i, scope)
        json_object_set_new(children, cli_json_text(scope, "scope"), json_array());
    json_array_foreach(scopes, i, scope)
    {
        json_t *siblings = json_object_get(children, cli_json_text(scope, "parent"));
        json_array_append(siblings ? siblings : roots, scope);
    }
    add_tree(&table, roots, children, 0, now_s);
    json_decref(children);
    json_decref(roots);
    cli_table_print(&table, true);
    puts("");
    json_array_foreach(scopes, i, scope) print_notes(scope, now_s, live);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(cli_json_text(*(json_t *const *)a, "scope"),
                  cli_json_text(*(json_t *const *)b, "scope"));
}

/* Memory tells scopes by their names, the file by their numbers. */
static void sort_scopes(json_t *all)
{
    json_t *scopes = json_object_get(all, "scopes"), *sorted = json_array();
    size_t count = json_array_size(scopes);
    json_t **list = calloc(count ? count : 1, sizeof *list);
    for (size_t i = 0; list && i < count; i++)
        list[i] = json_array_get(scopes, i);
    if (list)
        qsort(list, count, sizeof *list, by_name);
    for (size_t i = 0; list && i < count; i++)
        json_array_append(sorted, list[i]);
    free(list);
    if (json_array_size(sorted) == count)
        json_object_set(all, "scopes", sorted);
    json_decref(sorted);
}

/* All pages as one answer. */
static int read_all(struct ledger_door *door, const char *scope, bool idle, json_t **all)
{
    char after[200] = "";
    *all = NULL;
    for (;;) {
        struct ledger_path path;
        json_t *page = NULL;
        ledger_path_start(&path, "/v1/ledger");
        ledger_path_add(&path, "scope", scope);
        ledger_path_add(&path, "idle", idle ? NULL : "no");
        ledger_path_add(&path, "after", *after ? after : NULL);
        int status = ledger_door_call(door, "GET", path.text, NULL, &page);
        if (status != CLI_DONE_STATUS) {
            json_decref(*all);
            *all = NULL;
            return status;
        }
        snprintf(after, sizeof after, "%s", cli_json_text(page, "next"));
        if (!*all) {
            *all = page;
        } else {
            json_array_extend(json_object_get(*all, "scopes"), json_object_get(page, "scopes"));
            json_object_set_new(
                *all, "left_out",
                json_integer(cli_json_int(*all, "left_out") + cli_json_int(page, "left_out")));
            json_decref(page);
        }
        if (*after == '\0') {
            json_object_set_new(*all, "next", json_null());
            sort_scopes(*all);
            return CLI_DONE_STATUS;
        }
    }
}

/* How good a running gateway's estimates have been: holds are made of them. */
static int add_estimates(struct ledger_door *door, json_t *all)
{
    json_t *status_page = NULL;
    json_object_set_new(all, "estimates", json_null());
    if (!ledger_door_is_live(door))
        return CLI_DONE_STATUS;
    int status = ledger_door_call(door, "GET", "/v1/status", NULL, &status_page);
    if (status == CLI_DONE_STATUS)
        json_object_set(all, "estimates", json_object_get(status_page, "estimates"));
    json_decref(status_page);
    return status;
}

static void add_ratio(struct cli_table *table, const json_t *model, const char *name)
{
    char cell[32];
    int64_t percent = cli_json_int(model, name);
    if (percent < 0)
        snprintf(cell, sizeof cell, "> 16");
    else
        snprintf(cell, sizeof cell, "<= %lld.%02lld", (long long)percent / 100,
                 (long long)percent % 100);
    cli_table_add(table, cell);
}

static void print_estimates(const json_t *estimates)
{
    struct cli_table table = {.titles = {"MODEL", "ANSWERS", "TOO LOW", "MEDIAN", "P95"},
                              .right = {false, true, true, true, true},
                              .columns = 5};
    size_t i;
    json_t *model;
    if (json_array_size(estimates) == 0)
        return;
    puts("\nestimates of input / what the provider counted, since the gateway started:");
    json_array_foreach((json_t *)(uintptr_t)estimates, i, model)
    {
        char low[32];
        int64_t hundredths = (cli_json_int(model, "under_ppm") + 99) / 100; /* of a percent */
        snprintf(low, sizeof low, "%lld.%02lld %%", (long long)hundredths / 100,
                 (long long)hundredths % 100);
        cli_table_add(&table, cli_json_text(model, "model"));
        cli_table_add_amount(&table, cli_json_int(model, "samples"), NULL);
        cli_table_add(&table, low);
        add_ratio(&table, model, "p50_percent");
        add_ratio(&table, model, "p95_percent");
    }
    cli_table_print(&table, true);
}

int cli_ledger_show(int argc, char **argv)
{
    struct cli_args args;
    json_t *all = NULL;
    char text[CLI_AMOUNT_BYTES];
    int status = CLI_USAGE_STATUS;
    enum cli_parsed parsed = cli_parse(&show_command, argc, argv, &args);
    if (parsed != CLI_GO)
        return parsed == CLI_DONE ? CLI_DONE_STATUS : CLI_USAGE_STATUS;
    struct ledger_door *door = ledger_door_open(&show_command, &args, &status);
    if (!door)
        return status;
    const char *only = args.words_count ? args.words[0] : NULL;
    bool idle = only || cli_value(&show_command, &args, "--all");
    status = read_all(door, only, idle, &all);
    if (status == CLI_DONE_STATUS)
        status = add_estimates(door, all);
    ledger_door_close(door);
    if (status != CLI_DONE_STATUS) {
        json_decref(all);
        return status;
    }
    json_t *scopes = json_object_get(all, "scopes");
    if (only && json_array_size(scopes) == 0) {
        fprintf(stderr, "%s: there is no scope '%.135s'\n", show_command.name, only);
        status = CLI_USAGE_STATUS;
    } else if (cli_value(&show_command, &args, "--json")) {
        return cli_print_json(all) ? CLI_DONE_STATUS : CLI_FAULT_STATUS;
    } else {
        print_head(all);
        if (cli_json_int(all, "left_out") > 0)
            printf("(%s unlimited scope%s with no use: --all shows them)\n",
                   cli_amount(cli_json_int(all, "left_out"), text),
                   cli_json_int(all, "left_out") == 1 ? "" : "s");
        print_scopes(scopes, cli_json_int(all, "at_s"), json_is_true(json_object_get(all, "live")));
        if (!only)
            print_estimates(json_object_get(all, "estimates"));
    }
    json_decref(all);
    return status;
}
