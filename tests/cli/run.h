/* run: the program as a person would call it: a shell line in, its exit status and what it printed out. */
#ifndef WEIR_TESTS_CLI_RUN_H
#define WEIR_TESTS_CLI_RUN_H

#include <jansson.h>
#include <stddef.h>

/* What the last line printed to stdout (2>&1 in the line adds stderr), to its first NUL. */
extern char run_out[1 << 20];

/* A set-up and its end, for cmocka: before, $W is the program, $D an empty folder that is also its
 * state directory, $T the folder of test data; after, $D is gone. */
int run_setup(void **state);
int run_teardown(void **state);

/* The line's exit status. A line that dies of a signal fails the test. */
int run(const char *line);

/* A line, how it must exit, and what it must say somewhere. */
struct run_row {
    const char *line;
    int status;
    const char *said;
};
void run_rows(const struct run_row *rows, size_t count);

/* What the line prints, as JSON; owned by the caller. Another status fails the test. */
json_t *run_json(const char *line, int status);

#endif
