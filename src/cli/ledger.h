/* ledger: the subcommands of `weir ledger`, a function each. Arguments begin with the subcommand's
 * name; the exit status is returned, as in commands.h. */
#ifndef WEIR_CLI_LEDGER_H
#define WEIR_CLI_LEDGER_H

int cli_ledger_init(int argc, char **argv);
int cli_ledger_show(int argc, char **argv);
int cli_ledger_grant(int argc, char **argv);
int cli_ledger_holds(int argc, char **argv);
int cli_ledger_adjust(int argc, char **argv);
int cli_ledger_verify(int argc, char **argv);
int cli_ledger_reconcile(int argc, char **argv);
int cli_ledger_export(int argc, char **argv);
int cli_ledger_race(int argc, char **argv);

#endif
