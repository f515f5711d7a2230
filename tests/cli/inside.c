#include "cli/inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/check.h"

enum { WORDS_MAX = 40, LINE_BYTES = 1024 };

json_t *inside_json(int (*command)(int argc, char **argv), const char *line, int *status)
{
    char path[] = "/tmp/weir-inside-XXXXXX", words[LINE_BYTES], *argv[WORDS_MAX], *at = NULL;
    json_error_t error;
    int argc = 0;
    CHECK(snprintf(words, sizeof words, "%s", line) < LINE_BYTES);
    for (char *word = strtok_r(words, " ", &at); word; word = strtok_r(NULL, " ", &at)) {
        CHECK(argc < WORDS_MAX);
        argv[argc++] = word;
    }
    fflush(stdout);
    int kept = dup(STDOUT_FILENO), file = mkstemp(path);
    CHECK(kept >= 0 && file >= 0 && unlink(path) == 0);
    CHECK(dup2(file, STDOUT_FILENO) == STDOUT_FILENO);
    *status = command(argc, argv);
    fflush(stdout);
    CHECK(dup2(kept, STDOUT_FILENO) == STDOUT_FILENO);
    CHECK(close(kept) == 0 && lseek(file, 0, SEEK_SET) == 0);
    json_t *all = json_loadfd(file, 0, &error);
    CHECK(close(file) == 0);
    CHECK_MSG(all, "%s: status %d, and no JSON: %s", line, *status, error.text);
    return all;
}

double inside_number(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}
