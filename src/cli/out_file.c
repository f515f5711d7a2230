#include "cli/out_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whether the file's first bytes are those. */
static bool begins_so(const char *path, const char *begins)
{
    char have[256];
    size_t bytes = strlen(begins);
    WEIR_INVARIANT(bytes <= sizeof have);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, have, bytes);
    if (fd >= 0)
        close(fd);
    return got == (ssize_t)bytes && memcmp(have, begins, bytes) == 0;
}

const char *cli_out_problem(const char *path, const char *begins)
{
    struct stat about;
    if (stat(path, &about) != 0 || !S_ISREG(about.st_mode) || about.st_size == 0 ||
        begins_so(path, begins))
        return NULL;
    return "it is there, and holds something else";
}

/* Whether it can be opened for writing. A pipe is not opened: its reader would take our closing it for
 * the end. false: errno says why. */
static bool can_open(const char *path)
{
    struct stat about;
    if (stat(path, &about) == 0 && !S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode))
        return access(path, W_OK) == 0;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0)
        unlink(path);
    else if (errno == EEXIST)
        fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

bool cli_out_check(const char *command, const char *flag, const char *path, const char *begins)
{
    const char *problem = cli_out_problem(path, begins);
    if (problem) {
        fprintf(stderr, "%s: %s: %s: %s; name another file, or remove it\n", command, flag, path,
                problem);
        return false;
    }
    if (can_open(path))
        return true;
    fprintf(stderr, "%s: %s: %s cannot be written: %s\n", command, flag, path, strerror(errno));
    return false;
}

bool cli_out_is_same(const char *a, const char *b)
{
    struct stat of_a, of_b;
    if (stat(a, &of_a) == 0 && stat(b, &of_b) == 0)
        return of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
    return strcmp(a, b) == 0;
}
