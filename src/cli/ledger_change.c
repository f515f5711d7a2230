/* weir ledger grant, adjust: budgets changed by hand. */
#include "cli/commands.h"
#include "cli/ledger.h"
#include "cli/ledger_door.h"
#include "cli/text.h"

#include <string.h>

static const struct cli_option grant_options[] = {
    LEDGER_DOOR_OPTIONS,
    {"--json", NULL, "print JSON", NULL},
};

static const struct cli_command grant_command = {
    .name = "weir ledger grant",
    .usage = "SCOPE TOKENS|unlimited [flags]",
    .summary = "Sets what a scope may use in each window, from now on.",
    .help = "It takes effect at once and stays over restarts, until the configuration's own value\n"
            "changes. Below what is used already is allowed: then nothing more is admitted, and\n"
            "requests in flight finish.\n",
    .options = grant_options,
    .options_count = WEIR_COUNT(grant_options),
    .words_max = 2,
};

static const struct cli_option adjust_options[] = {
    LEDGER_DOOR_OPTIONS,
    {"--hold", "ID",
     "a lapsed hold instead of a scope: TOKENS is what it really used; 0 writes it off", NULL},
    {"--reason", "TEXT", "why; needed, and kept in the journal (at most 200 bytes)", NULL},
    {"--json", NULL, "print JSON", NULL},
};

static const struct cli_command adjust_command = {
    .name = "weir ledger adjust",
    .usage = "SCOPE TOKENS | --hold ID TOKENS --reason TEXT [flags]",
    .summary =
        "Corrects what was used: by a signed amount, or a hold that its gateway left behind.",
    .help =
        "An adjustment is a new line of the journal; nothing is edited. It counts in the scope's\n"
        "present window, and in its parents. A hold counts in the window of its reserve.\n",
    .options = adjust_options,
    .options_count = WEIR_COUNT(adjust_options),
    .words_max = 2,
};

/* Calls with the body, which is given away, and prints the answer as JSON or by print. */
static int change(const struct cli_command *command, const struct cli_args *args, const char *path,
                  json_t *body, void (*print)(const json_t *answer))
{
    json_t *answer = NULL;
    int status = CLI_USAGE_STATUS;
    struct ledger_door *door = ledger_door_open(command, args, &status);
    if (door)
        status = ledger_door_call(door, "POST", path, body, &answer);
    ledger_door_close(door);
    json_decref(body);
    if (status != CLI_DONE_STATUS)
        return status;
    if (cli_value(command, args, "--json"))
        return cli_print_json(answer) ? CLI_DONE_STATUS : CLI_FAULT_STATUS;
    print(answer);
    json_decref(answer);
    return CLI_DONE_STATUS;
}

static void print_used(const json_t *answer)
{
    char used[CLI_AMOUNT_BYTES], over[CLI_AMOUNT_BYTES];
    int64_t over_tok = cli_json_int(answer, "overdrawn_tok");
    printf("; used %s", cli_amount(cli_json_int(answer, "used_tok"), used));
    if (*cli_json_text(answer, "window_start"))
        printf(" in the window that began %s", cli_json_text(answer, "window_start"));
    if (over_tok > 0)
        printf(", overdrawn by %s", cli_amount(over_tok, over));
    puts("");
}

static const char *granted_text(const json_t *answer, const char *member,
                                char text[static CLI_AMOUNT_BYTES])
{
    int64_t tokens = cli_json_int(answer, member);
    return tokens < 0 ? "unlimited" : cli_amount(tokens, text);
}

static void print_grant(const json_t *answer)
{
    char now[CLI_AMOUNT_BYTES], before[CLI_AMOUNT_BYTES];
    printf("%s: granted %s", cli_json_text(answer, "scope"),
           granted_text(answer, "granted_tok", now));
    if (cli_json_int(answer, "granted_tok") == cli_json_int(answer, "before_tok"))
        printf(" as before");
    else
        printf(" (before: %s)", granted_text(answer, "before_tok", before));
    print_used(answer);
}

static void print_adjust(const json_t *answer)
{
    char tokens[CLI_AMOUNT_BYTES];
    int64_t amount = cli_json_int(answer, "tokens");
    bool same = strcmp(cli_json_text(answer, "result"), "same") == 0;
    cli_amount(amount, tokens);
    if (*cli_json_text(answer, "hold")) {
        printf("hold %s: %s%s tokens booked\n", cli_json_text(answer, "hold"),
               same ? "unchanged, " : "", tokens);
        return;
    }
    printf("%s: adjusted by %s%s", cli_json_text(answer, "scope"), amount > 0 ? "+" : "", tokens);
    print_used(answer);
}

int cli_ledger_grant(int argc, char **argv)
{
    struct cli_args args;
    int64_t tokens = 0;
    enum cli_parsed parsed = cli_parse(&grant_command, argc, argv, &args);
    if (parsed != CLI_GO)
        return parsed == CLI_DONE ? CLI_DONE_STATUS : CLI_USAGE_STATUS;
    if (args.words_count != 2) {
        fprintf(stderr, "%s: needs a scope and an amount: weir ledger grant class 10M\n",
                grant_command.name);
        return CLI_USAGE_STATUS;
    }
    bool unlimited = strcmp(args.words[1], "unlimited") == 0;
    if (!unlimited && !cli_read_amount(args.words[1], false, &tokens)) {
        fprintf(stderr,
                "%s: the grant must be a whole number of tokens (250000, 10M, at most 2^52) "
                "or unlimited, not '%.60s'\n",
                grant_command.name, args.words[1]);
        return CLI_USAGE_STATUS;
    }
    return change(&grant_command, &args, "/v1/ledger/grant",
                  json_pack("{s:s, s:o}", "scope", args.words[0], "granted_tok",
                            unlimited ? json_null() : json_integer(tokens)),
                  print_grant);
}

int cli_ledger_adjust(int argc, char **argv)
{
    struct cli_args args;
    int64_t tokens = 0;
    enum cli_parsed parsed = cli_parse(&adjust_command, argc, argv, &args);
    if (parsed != CLI_GO)
        return parsed == CLI_DONE ? CLI_DONE_STATUS : CLI_USAGE_STATUS;
    const char *hold = cli_value(&adjust_command, &args, "--hold");
    const char *reason = cli_value(&adjust_command, &args, "--reason");
    if (args.words_count != (hold ? 1 : 2)) {
        fprintf(stderr, "%s: needs %s\n", adjust_command.name,
                hold ? "the tokens that the hold really used: weir ledger adjust --hold ID 1200"
                     : "a scope and an amount: weir ledger adjust class -1200");
        return CLI_USAGE_STATUS;
    }
    const char *amount = args.words[args.words_count - 1];
    if (!cli_read_amount(amount, !hold, &tokens)) {
        fprintf(stderr,
                "%s: the amount must be a whole number of tokens (%s, at most 2^52), not "
                "'%.60s'\n",
                adjust_command.name, hold ? "1200, 10k" : "1200, -1200, 10k", amount);
        return CLI_USAGE_STATUS;
    }
    if (!reason) {
        fprintf(stderr, "%s: say why: --reason TEXT\n", adjust_command.name);
        return CLI_USAGE_STATUS;
    }
    return change(&adjust_command, &args, "/v1/ledger/adjust",
                  json_pack("{s:s, s:I, s:s}", hold ? "hold" : "scope", hold ? hold : args.words[0],
                            "tokens", (json_int_t)tokens, "reason", reason),
                  print_adjust);
}
