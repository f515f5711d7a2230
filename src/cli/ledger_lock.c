#include "cli/ledger_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "store/schema.h"

#define LOCK_PAUSE_NS 20000000
#define LOCK_TRIES_SAME 100 /* a process that has it for 2 s is no command */
#define LOCK_TRIES_FREE 2   /* that fail although nobody has it: something else is wrong */
#define LOCK_TRIES_MAX 2000

enum ledger_lock ledger_lock_look(const char *path, struct ledger_lock_line *line)
{
    char *lock_path = NULL, text[100] = "";
    enum ledger_lock state = LEDGER_LOCK_FREE;
    *line = (struct ledger_lock_line){0};
    if (asprintf(&lock_path, "%s.lock", path) < 0)
        return LEDGER_LOCK_UNKNOWN;
    int fd = open(lock_path, O_RDONLY | O_CLOEXEC);
    int error = errno;
    free(lock_path);
    if (fd < 0) {
        errno = error;
        return error == ENOENT ? LEDGER_LOCK_FREE : LEDGER_LOCK_UNKNOWN;
    }
    if (flock(fd, LOCK_SH | LOCK_NB) != 0)
        state = errno == EWOULDBLOCK ? LEDGER_LOCK_TAKEN : LEDGER_LOCK_UNKNOWN;
    error = errno;
    if (pread(fd, text, sizeof text - 1, 0) > 0 &&
        sscanf(text, WEIR_SCHEMA_LOCK_SCAN, &line->epoch, &line->seq, &line->pid) != 3)
        *line = (struct ledger_lock_line){0};
    close(fd);
    errno = error;
    return state;
}

bool ledger_lock_wait(struct ledger_lock_wait *wait, const char *path)
{
    const struct timespec pause = {.tv_nsec = LOCK_PAUSE_NS};
    struct ledger_lock_line line;
    if (ledger_lock_look(path, &line) != LEDGER_LOCK_TAKEN)
        return wait->free++ < LOCK_TRIES_FREE;
    wait->free = 0;
    wait->same = line.pid == wait->pid ? wait->same + 1 : 0;
    wait->pid = line.pid;
    if (wait->same >= LOCK_TRIES_SAME || wait->tries++ >= LOCK_TRIES_MAX)
        return false;
    nanosleep(&pause, NULL);
    return true;
}
