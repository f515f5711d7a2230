/* serve_report: the files that `weir serve` leaves for whoever started it: the report of the run,
 * and the file that says it is ready. Both appear whole or not at all. Thread: main. */
#ifndef WEIR_CLI_SERVE_REPORT_H
#define WEIR_CLI_SERVE_REPORT_H

#include "core/base.h"

#include <jansson.h>

struct weir_config;

/* NULL: the path may be used for a file of ours, which begins so; else why not. What is there
 * already must be a plain file that is empty or an older one of ours: it will be replaced. */
const char *cli_serve_path_problem(const char *path, const char *begins);

/* Where reports go: path (borrowed), and beside it the same as text, with .txt in place of .json or
 * behind the name. false: it cannot be used; said on standard error. */
WEIR_MUST_USE bool cli_serve_report_to(const char *path);

/* Whether the report's files and the ready file (NULL: none) are none that weir has another use for, be
 * they there yet or not, nor one another. After cli_serve_report_to. false: said on standard error. */
WEIR_MUST_USE bool cli_serve_check_files(const struct weir_config *config, const char *ready);

/* A weir_gateway_report_fn: writes both files, the text first: where the JSON tells
 * a state, so does the text. When that fails it says so; the last report is then
 * printed on standard error instead. */
bool cli_serve_report(const json_t *report, bool is_last);

/* Replaces the file with this text. sync: its bytes are on the disk when true is returned. false:
 * errno says why; what was there is still there. */
WEIR_MUST_USE bool cli_serve_write(const char *path, const char *text, size_t bytes, bool sync);

#endif
