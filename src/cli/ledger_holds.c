/* weir ledger holds, export: what is in the ledger's lists. */
#include "cli/commands.h"
#include "cli/ledger.h"
#include "cli/ledger_door.h"
#include "cli/text.h"

#include <stdlib.h>
#include <string.h>

#define HOLDS_PAGE 1000
#define HOLDS_SHOWN "50"

/* ---- holds ---- */

static const struct cli_option holds_options[] = {
    LEDGER_DOOR_OPTIONS,
    {"--scope", "NAME", "only those that count in this scope", NULL},
    {"--state", "STATE", "only held, settled, void, lapsed or late ones", NULL},
    {"--after", "ID", "go on behind this one", NULL},
    {"--limit", "N", "how many at most, or all (" HOLDS_SHOWN ")", NULL},
    {"--json", NULL, "print JSON lines, one hold a line", NULL},
};

static const struct cli_command holds_command = {
    .name = "weir ledger holds",
    .usage = "[flags]",
    .summary =
        "Lists holds by their ids, oldest first: what each was asked for and what it counts.",
    .help =
        "A lapsed hold counts its whole estimate until weir ledger adjust --hold ID says what was\n"
        "really used. Finished holds stay for `ledger: keep_finished`.\n",
    .options = holds_options,
    .options_count = WEIR_COUNT(holds_options),
    .words_max = 0,
};

static void add_hold(struct cli_table *table, const json_t *hold)
{
    cli_table_add(table, cli_json_text(hold, "hold"));
    cli_table_add(table, cli_json_text(hold, "scope"));
    cli_table_add(table, cli_json_text(hold, "state"));
    cli_table_add_amount(table, cli_json_int(hold, "asked_tok"), "none");
    cli_table_add_amount(table, cli_json_int(hold, "booked_tok"), NULL);
    cli_table_add(table, cli_json_text(hold, "created"));
    cli_table_add(table, *cli_json_text(hold, "done") ? cli_json_text(hold, "done") : "-");
}

static void print_line(const json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT);
    puts(text ? text : "{}");
    free(text);
}

/* One page: so many rows are looked at. *after is where the next begins; empty: there is none. */
static int holds_page(struct ledger_door *door, const struct cli_args *args, uint64_t limit,
                      char after[static 200], json_t **page)
{
    struct ledger_path path;
    char count[24];
    snprintf(count, sizeof count, "%llu", (unsigned long long)limit);
    ledger_path_start(&path, "/v1/ledger/holds");
    ledger_path_add(&path, "scope", cli_value(&holds_command, args, "--scope"));
    ledger_path_add(&path, "state", cli_value(&holds_command, args, "--state"));
    ledger_path_add(&path, "after", *after ? after : NULL);
    ledger_path_add(&path, "limit", count);
    int status = ledger_door_call(door, "GET", path.text, NULL, page);
    if (status == CLI_DONE_STATUS)
        snprintf(after, 200, "%s", cli_json_text(*page, "next"));
    return status;
}

static int print_holds(struct ledger_door *door, const struct cli_args *args, uint64_t limit)
{
    struct cli_table table = {
        .titles = {"HOLD", "SCOPE", "STATE", "ASKED", "COUNTS", "CREATED", "ENDED"},
        .right = {true, false, false, true, true, false, false},
        .columns = 7};
    bool as_json = cli_value(&holds_command, args, "--json") != NULL;
    const char *start = cli_value(&holds_command, args, "--after");
    char after[200] = "";
    int status = CLI_DONE_STATUS;
    uint64_t shown = 0;
    bool filtered = cli_value(&holds_command, args, "--scope") != NULL ||
                    cli_value(&holds_command, args, "--state") != NULL;
    snprintf(after, sizeof after, "%s", start ? start : "");
    do {
        json_t *page = NULL, *hold;
        size_t i;
        /* With a filter a page may show few of the rows it looks at, so it looks at many. */
        status =
            holds_page(door, args, filtered ? HOLDS_PAGE : weir_min_u64(limit - shown, HOLDS_PAGE),
                       after, &page);
        json_array_foreach(json_object_get(page, "holds"), i, hold)
        {
            if (shown == limit) { /* the next page begins behind the last one shown */
                snprintf(
                    after, sizeof after, "%s",
                    cli_json_text(json_array_get(json_object_get(page, "holds"), i - 1), "hold"));
                break;
            }
            if (as_json)
                print_line(hold);
            else
                add_hold(&table, hold);
            shown++;
        }
        json_decref(page);
        if (table.cells_count)
            cli_table_print(&table, shown <= HOLDS_PAGE);
        cli_progress("holds", (int64_t)shown, false);
    } while (status == CLI_DONE_STATUS && *after && shown < limit && !ferror(stdout));
    cli_progress("holds", (int64_t)shown, true);
    if (status == CLI_DONE_STATUS && !as_json && shown == 0)
        puts("no holds");
    if (status == CLI_DONE_STATUS && *after)
        fprintf(stderr, "there may be more: --after %s goes on, --limit all shows all\n", after);
    return status;
}

int cli_ledger_holds(int argc, char **argv)
{
    struct cli_args args;
    int status = CLI_USAGE_STATUS;
    uint64_t limit = 0;
    int64_t number = 0;
    enum cli_parsed parsed = cli_parse(&holds_command, argc, argv, &args);
    if (parsed != CLI_GO)
        return parsed == CLI_DONE ? CLI_DONE_STATUS : CLI_USAGE_STATUS;
    const char *text = cli_value(&holds_command, &args, "--limit");
    text = text ? text : HOLDS_SHOWN;
    if (strcmp(text, "all") == 0) {
        limit = UINT64_MAX;
    } else if (cli_read_amount(text, false, &number) && number > 0) {
        limit = (uint64_t)number;
    } else {
        fprintf(stderr, "%s: --limit must be a whole number from 1 on, or all, not '%.60s'\n",
                holds_command.name, text);
        return CLI_USAGE_STATUS;
    }
    struct ledger_door *door = ledger_door_open(&holds_command, &args, &status);
    if (!door)
        return status;
    status = print_holds(door, &args, limit);
    ledger_door_close(door);
    return status;
}

/* ---- export ---- */

static const struct cli_option export_options[] = {
    LEDGER_DOOR_OPTIONS,
    {"--after", "SEQ", "only what the journal has behind this row", NULL},
};

static const struct cli_command export_command = {
    .name = "weir ledger export",
    .usage = "[flags] > FILE",
    .summary = "Writes the journal as JSON lines: every change of every balance, oldest first.",
    .help = "seq and index number the changes without a gap. The journal reaches back `ledger:\n"
            "keep_journal`; a program that follows it keeps the last seq and asks --after it.\n",
    .options = export_options,
    .options_count = WEIR_COUNT(export_options),
    .words_max = 0,
};

int cli_ledger_export(int argc, char **argv)
{
    struct cli_args args;
    char after[200] = "";
    int64_t count = 0;
    int status = CLI_USAGE_STATUS;
    enum cli_parsed parsed = cli_parse(&export_command, argc, argv, &args);
    if (parsed != CLI_GO)
        return parsed == CLI_DONE ? CLI_DONE_STATUS : CLI_USAGE_STATUS;
    struct ledger_door *door = ledger_door_open(&export_command, &args, &status);
    if (!door)
        return status;
    const char *start = cli_value(&export_command, &args, "--after");
    snprintf(after, sizeof after, "%s", start ? start : "");
    do {
        struct ledger_path path;
        json_t *page = NULL, *change;
        size_t i;
        ledger_path_start(&path, "/v1/ledger/journal");
        ledger_path_add(&path, "after", *after ? after : NULL);
        status = ledger_door_call(door, "GET", path.text, NULL, &page);
        json_array_foreach(json_object_get(page, "journal"), i, change) print_line(change);
        count += (int64_t)json_array_size(json_object_get(page, "journal"));
        snprintf(after, sizeof after, "%s", cli_json_text(page, "next"));
        json_decref(page);
        cli_progress("changes", count, false);
    } while (status == CLI_DONE_STATUS && *after && !ferror(stdout));
    cli_progress("changes", count, true);
    ledger_door_close(door);
    return status;
}
