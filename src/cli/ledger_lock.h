/* ledger_lock: who has a ledger's file, as its lock file says.
 *
 * The lock is only looked at here; the store takes it. Thread: main. */
#ifndef WEIR_CLI_LEDGER_LOCK_H
#define WEIR_CLI_LEDGER_LOCK_H

#include "core/base.h"

enum ledger_lock { LEDGER_LOCK_FREE, LEDGER_LOCK_TAKEN, LEDGER_LOCK_UNKNOWN };

/* What the lock file's line says of who wrote it last; all 0: nothing. */
struct ledger_lock_line {
    uint64_t epoch;
    int64_t seq;
    int pid;
};

/* Whether a process has the ledger at path, and what the line says. The lock is only tried, and let
 * go at once: a gateway that starts in this very moment tries again. UNKNOWN: errno says why it
 * cannot be looked at. */
enum ledger_lock ledger_lock_look(const char *path, struct ledger_lock_line *line);

/* After a failed attempt to have the ledger: waits a moment for whoever has it. false: it is no use
 * to try again: the same process has had it for long, or nobody has. Start from {0}. */
struct ledger_lock_wait {
    int pid;
    uint32_t same, free, tries;
};
WEIR_MUST_USE bool ledger_lock_wait(struct ledger_lock_wait *wait, const char *path);

#endif
