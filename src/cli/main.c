/* weir COMMAND: finds the command and hands it the rest. */
#include "cli/commands.h"
#include "gateway/config_value.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int print_version(int argc, char **argv);
static int print_help(int argc, char **argv);

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
} commands[] = {
    {"serve", cli_serve, "run the gateway"},
    {"mock", cli_mock, "run a synthetic model server, both API families"},
    {"check", cli_check, "validate a configuration and print what would be in force"},
    {"key", cli_key, "make, list and revoke weir keys"},
    {"ledger", cli_ledger, "show, change and check the budgets"},
    {"sweep", cli_sweep, "measure how an endpoint behaves as more is in flight"},
    {"fair", cli_fair, "prove offline how far a scheduler is from fair"},
    {"lab", cli_lab, "run a setup against synthetic or recorded traffic, in simulated time"},
    {"replay", cli_replay, "send recorded traffic to an endpoint, at its own times"},
    {"version", print_version, "print the version"},
    {"help", print_help, "print this, or the help of a command"},
};

static size_t find_command(const char *name)
{
    size_t i = 0;
    while (i < WEIR_COUNT(commands) && strcmp(commands[i].name, name) != 0)
        i++;
    return i;
}

static void print_usage(FILE *out)
{
    fputs("usage: weir COMMAND [arguments]\n\n"
          "weir stands before an LLM API and divides it fairly: token budgets, weighted fair "
          "queueing,\n"
          "a circuit breaker, and streams passed on untouched.\n\n",
          out);
    for (size_t i = 0; i < WEIR_COUNT(commands); i++)
        fprintf(out, "  %-9s %s\n", commands[i].name, commands[i].summary);
    fputs("\nEach has --help. `weir serve` with nothing else runs a gateway before a built-in "
          "mock.\n",
          out);
}

static int say_unknown(const char *name)
{
    const char *known[WEIR_COUNT(commands)];
    for (size_t i = 0; i < WEIR_COUNT(commands); i++)
        known[i] = commands[i].name;
    const char *near = weir_value_suggest(name, known, WEIR_COUNT(commands));
    if (near)
        fprintf(stderr, "weir: unknown command '%s'; did you mean '%s'?\n", name, near);
    else
        fprintf(stderr, "weir: unknown command '%s'; see weir --help\n", name);
    return CLI_USAGE_STATUS;
}

static int print_version(int argc, char **argv)
{
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        puts("usage: weir version\n\nPrints the version.");
        return CLI_DONE_STATUS;
    }
    if (argc > 1) {
        fprintf(stderr, "weir version: '%s' is one argument too many\n", argv[1]);
        return CLI_USAGE_STATUS;
    }
    puts("weir " WEIR_VERSION);
    return CLI_DONE_STATUS;
}

static int print_help(int argc, char **argv)
{
    if (argc < 2 || argv[1][0] == '-' || strcmp(argv[1], "help") == 0) {
        print_usage(stdout);
        return CLI_DONE_STATUS;
    }
    size_t i = find_command(argv[1]);
    if (i == WEIR_COUNT(commands))
        return say_unknown(argv[1]);
    char flag[] = "--help", *arguments[] = {argv[1], flag, NULL};
    return commands[i].run(2, arguments);
}

_Noreturn static void panic(const char *expression, const char *file, int line)
{
    fprintf(stderr, "weir: this should be impossible, and is: %s (%s:%d)\n", expression, file,
            line);
    abort();
}

int main(int argc, char **argv)
{
    weir_panic_hook = panic;
    signal(SIGPIPE, SIG_IGN); /* a closed pipe or socket is a result of write, everywhere */
    if (argc < 2) {
        print_usage(stderr);
        return CLI_USAGE_STATUS;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_usage(stdout);
        return CLI_DONE_STATUS;
    }
    if (strcmp(argv[1], "--version") == 0)
        return print_version(1, argv);
    size_t i = find_command(argv[1]);
    if (i == WEIR_COUNT(commands))
        return say_unknown(argv[1]);
    int status = commands[i].run(argc - 1, argv + 1);
    if ((fflush(stdout) != 0 || ferror(stdout)) && status == CLI_DONE_STATUS) {
        fputs("weir: the output could not be written\n", stderr);
        status = CLI_FAULT_STATUS;
    }
    return status;
}
