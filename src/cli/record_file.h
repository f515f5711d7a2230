/* record_file: the file that a command writes a recording to. Thread: main. */
#ifndef WEIR_CLI_RECORD_FILE_H
#define WEIR_CLI_RECORD_FILE_H

#include <stdio.h>

/* Makes it for its owner's eyes only (0600), or begins one anew that holds a recording already. Anything
 * else that is there is left alone.
 *
 * command  "weir lab": begins what is said
 * trace    what is read: it is not written over, though it be a recording; NULL: none
 *
 * Owns: the caller, by fclose.   Fails: NULL; said on standard error. */
FILE *cli_record_open(const char *command, const char *path, const char *trace);

#endif
