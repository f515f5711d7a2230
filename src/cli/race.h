/* race: what `weir ledger race` runs, twice over: once by check-then-write, once by the ledger.
 *
 * Both stand at the last admissible moment: of the grant so much is spent that exactly one more
 * call fits. Then all threads ask at once. With seats each thread has a budget of its own under the
 * grant; each of these has room for one more call too, so that only the grant they share is at
 * stake. */
#ifndef WEIR_CLI_RACE_H
#define WEIR_CLI_RACE_H

#include "core/base.h"

enum { RACE_THREADS_MIN = 2, RACE_THREADS_MAX = 200 };

struct race_plan {
    uint32_t threads;
    int64_t granted_tok;
    int64_t estimate_tok; /* divides granted_tok, and seat_tok */
    int64_t seat_tok;     /* each thread's own budget, threads x seat = granted; 0: no seats */
    const char *dir;      /* an empty folder for files; whoever made it clears it */
};

struct race_outcome {
    int64_t before_tok; /* spent of the grant before the race */
    int64_t after_tok;
    uint32_t admitted, refused;
    uint32_t seats_over; /* seats that spent more than their own budget */
};

struct race_error {
    char text[400];
};

/* Names of the files that a race makes in its folder, for whoever clears it. */
extern const char *const race_naive_files[];
extern const char *const race_ledger_files[];
enum { RACE_NAIVE_FILES = 4, RACE_LEDGER_FILES = 5 };

/* What is spent before the threads ask: by each seat for itself, and of the grant in all. */
static inline int64_t race_seat_before_tok(const struct race_plan *plan)
{
    return plan->seat_tok ? plan->seat_tok - plan->estimate_tok : 0;
}

static inline int64_t race_before_tok(const struct race_plan *plan)
{
    return plan->granted_tok - plan->estimate_tok;
}

/* Check, then write: SQLite, a connection for each thread, and between read and write a barrier.
 * false with the error when a file or thread could not be had. */
WEIR_MUST_USE bool race_naive(const struct race_plan *plan, struct race_outcome *outcome,
                              struct race_error *error);
/* The same by reserve and settle of the store that a gateway uses. */
WEIR_MUST_USE bool race_ledger(const struct race_plan *plan, struct race_outcome *outcome,
                               struct race_error *error);

#endif
