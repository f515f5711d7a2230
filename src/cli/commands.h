/* commands: one function for each `weir COMMAND`. Each takes the arguments from the command's name
 * on and returns the exit status: 0 done, 1 the answer is no or, after a first Ctrl-C, a partial
 * one, 2 usage or refusal to start, 3 run-time fault, 130 a second signal. */
#ifndef WEIR_CLI_COMMANDS_H
#define WEIR_CLI_COMMANDS_H

#include "gateway/config.h"

enum { CLI_DONE_STATUS = 0, CLI_NO_STATUS = 1, CLI_USAGE_STATUS = 2, CLI_FAULT_STATUS = 3 };

int cli_serve(int argc, char **argv);
int cli_check(int argc, char **argv);
int cli_fair(int argc, char **argv);
int cli_mock(int argc, char **argv);
int cli_key(int argc, char **argv);
int cli_lab(int argc, char **argv);
int cli_ledger(int argc, char **argv);
int cli_replay(int argc, char **argv);
int cli_sweep(int argc, char **argv);

/* Prints every problem as file:line:column: text. */
void cli_print_problems(const struct weir_config_problems *problems);

#endif
