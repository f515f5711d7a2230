/* inside: a command of the program called as a function, in this process. */
#ifndef WEIR_TESTS_CLI_INSIDE_H
#define WEIR_TESTS_CLI_INSIDE_H

#include <jansson.h>

/* What the command prints, as JSON; the caller's. line: its words, from its name on, apart by single
 * spaces. Anything else on standard output fails the test. */
json_t *inside_json(int (*command)(int argc, char **argv), const char *line, int *status);
/* The number of that name; 0 where there is none. */
double inside_number(const json_t *object, const char *name);

#endif
