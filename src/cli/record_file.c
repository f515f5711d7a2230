#include "cli/record_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whether something is there that is no recording: a setup, a trace. */
static bool holds_something_else(const char *path)
{
    static const char first[] = "#weir recording ";
    char have[sizeof first - 1];
    struct stat about;
    if (stat(path, &about) != 0 || !S_ISREG(about.st_mode) || about.st_size == 0)
        return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t bytes = fd < 0 ? 0 : read(fd, have, sizeof have);
    if (fd >= 0)
        close(fd);
    return bytes != (ssize_t)sizeof have || memcmp(have, first, sizeof have) != 0;
}

static bool is_same_file(const char *a, const char *b)
{
    struct stat of_a, of_b;
    return stat(a, &of_a) == 0 && stat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
           of_a.st_ino == of_b.st_ino;
}

FILE *cli_record_open(const char *command, const char *path, const char *trace)
{
    if (trace && is_same_file(path, trace)) {
        fprintf(stderr, "%s: --record: %s is the trace that is read; name another file\n", command,
                path);
        return NULL;
    }
    if (holds_something_else(path)) {
        fprintf(stderr,
                "%s: --record: %s is there, and is not a recording of weir; name another "
                "file, or remove it\n",
                command, path);
        return NULL;
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (!file) {
        fprintf(stderr, "%s: %s cannot be written: %s\n", command, path, strerror(errno));
        if (fd >= 0)
            close(fd);
    }
    return file;
}
