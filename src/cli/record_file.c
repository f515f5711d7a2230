#include "cli/record_file.h"

#include "cli/out_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

FILE *cli_record_open(const char *command, const char *path, const char *trace)
{
    if (trace && cli_out_is_same(path, trace)) {
        fprintf(stderr, "%s: --record: %s is the trace that is read; name another file\n", command,
                path);
        return NULL;
    }
    if (cli_out_problem(path, "#weir recording ")) {
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
