/* weir ledger SUBCOMMAND: finds the subcommand and hands it the rest. */
#include "cli/ledger.h"

#include "cli/commands.h"
#include "gateway/config_value.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
} subcommands[] = {
    {"init", cli_ledger_init, "make the file"},
    {"show", cli_ledger_show, "budgets: granted, used, left, and when they reset"},
    {"holds", cli_ledger_holds, "what is set aside, lapsed or finished, one by one"},
    {"grant", cli_ledger_grant, "set what a scope may use"},
    {"adjust", cli_ledger_adjust, "correct what was used"},
    {"verify", cli_ledger_verify, "check the file: every change, every balance"},
    {"reconcile", cli_ledger_reconcile, "compare with a provider's usage export, and correct"},
    {"export", cli_ledger_export, "the journal as JSON lines"},
    {"race", cli_ledger_race, "show how check-then-write overspends, and that the ledger does not"},
};

static void print_usage(FILE *out)
{
    fputs(
        "usage: weir ledger SUBCOMMAND [arguments]\n\n"
        "  weir ledger show                                        what is left?\n"
        "  weir ledger grant class 12M                             more, at once\n"
        "  weir ledger holds --state lapsed                        what did a crash leave behind?\n"
        "  weir ledger adjust --hold ID 1834 --reason 'by export'  it really used 1,834 tokens\n"
        "  weir ledger verify                                      is every balance right?\n\n",
        out);
    for (size_t i = 0; i < WEIR_COUNT(subcommands); i++)
        fprintf(out, "  %-10s %s\n", subcommands[i].name, subcommands[i].summary);
    fputs(
        "\nEach has --help. A running gateway is asked through its admin API, and changes take "
        "effect at\nonce; else the file itself is read, and changed. -c FILE says which ledger.\n",
        out);
}

static size_t find_subcommand(const char *name)
{
    size_t i = 0;
    while (i < WEIR_COUNT(subcommands) && strcmp(subcommands[i].name, name) != 0)
        i++;
    return i;
}

int cli_ledger(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return CLI_USAGE_STATUS;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_usage(stdout);
        return CLI_DONE_STATUS;
    }
    size_t i = find_subcommand(argv[1]);
    if (i < WEIR_COUNT(subcommands))
        return subcommands[i].run(argc - 1, argv + 1);
    const char *known[WEIR_COUNT(subcommands)];
    for (size_t k = 0; k < WEIR_COUNT(subcommands); k++)
        known[k] = subcommands[k].name;
    const char *near = weir_value_suggest(argv[1], known, WEIR_COUNT(subcommands));
    if (near)
        fprintf(stderr, "weir ledger: unknown subcommand '%.60s'; did you mean '%s'?\n", argv[1],
                near);
    else
        fprintf(stderr, "weir ledger: unknown subcommand '%.60s'; see weir ledger --help\n",
                argv[1]);
    return CLI_USAGE_STATUS;
}
