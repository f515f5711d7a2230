/* out_file: files that a command writes what it found to. What is there already is replaced only if
 * weir wrote it: a slip of the hand costs no trace, setup or payload. Thread: main. */
#ifndef WEIR_CLI_OUT_FILE_H
#define WEIR_CLI_OUT_FILE_H

#include "core/base.h"

/* NULL: the path may be written to: there is nothing, an empty file, no plain file (a device or a
 * pipe), or one that begins as ours do. Else why not, to be said behind the path.
 *
 * begins  how every such file begins */
const char *cli_out_problem(const char *path, const char *begins);

/* The same, and whether it can be opened at all; what is there keeps what it holds, and what is not
 * there is not made. flag: "--csv". false: said on standard error. */
WEIR_MUST_USE bool cli_out_check(const char *command, const char *flag, const char *path,
                                 const char *begins);

/* Whether both are one file, if there is one; else whether they have one name. */
bool cli_out_is_same(const char *a, const char *b);

#endif
