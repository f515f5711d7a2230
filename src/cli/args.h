/* args: the arguments of one command, by a table that is also its help.
 *
 * `--flag value` and `--flag=value`; `--` ends the flags; -5 is a number and no flag. A flag given
 * twice, without its value, or not in the table is refused with the nearest known one. `--help` and
 * `-h` work for every command.
 * Thread: main. */
#ifndef WEIR_CLI_ARGS_H
#define WEIR_CLI_ARGS_H

#include "core/base.h"
#include "wire/api.h"

#include <stdio.h>

struct cli_option {
    const char *flag;  /* "--rate" */
    const char *value; /* as shown: "N/s"; NULL: a switch that takes none */
    const char *help;
    const char *letter; /* "-c", or NULL */
};

struct cli_command {
    const char *name;    /* as typed: "weir serve" */
    const char *usage;   /* what follows the name */
    const char *summary; /* one line */
    const char *help;    /* paragraphs under the options; NULL: none */
    const struct cli_option *options;
    size_t options_count;
    uint32_t words_max; /* arguments that are no flags */
    const char *many;   /* the flag that may be given several times; NULL: none */
};

enum { CLI_WORDS_MAX = 64, CLI_OPTIONS_MAX = 32, CLI_MANY_MAX = 64 };

struct cli_args {
    const char
        *values[CLI_OPTIONS_MAX]; /* of each option: NULL not given; "" a switch that is on */
    const char *words[CLI_WORDS_MAX];
    uint32_t words_count;
    const char *many[CLI_MANY_MAX]; /* values of the flag that may be given several times */
    uint32_t many_count;
};

enum cli_parsed {
    CLI_GO,   /* args are right */
    CLI_DONE, /* help was printed: exit 0 */
    CLI_WRONG /* said on stderr: exit 2 */
};

/* argv[0] is the command's own name and is skipped. */
enum cli_parsed cli_parse(const struct cli_command *command, int argc, char **argv,
                          struct cli_args *args);

void cli_print_help(const struct cli_command *command, FILE *out);

/* The value of that flag, NULL when it was not given. The flag must be in the table. */
const char *cli_value(const struct cli_command *command, const struct cli_args *args,
                      const char *flag);

/* The value of that flag as a whole number from least to most; *out is as it was when the flag was
 * not given. false: said on stderr. */
WEIR_MUST_USE bool cli_count(const struct cli_command *command, const struct cli_args *args,
                             const char *flag, uint64_t least, uint64_t most, uint64_t *out);
/* The API that --api names, WEIR_API_OTHER when it was not given. false: said on stderr. */
WEIR_MUST_USE bool cli_api(const struct cli_command *command, const struct cli_args *args,
                           enum weir_api *api);
/* The credential that a variable of --key-env holds, in the environment's own bytes. NULL: said on
 * stderr, with the variable's name only where it looks like one: it may be a key that was pasted
 * there. */
WEIR_MUST_USE const char *cli_key_of(const char *command, const char *variable);

#endif
