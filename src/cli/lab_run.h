/* lab_run: one run of the model, in memory of its own, until it is over or the user has had enough.
 * Thread: main. */
#ifndef WEIR_CLI_LAB_RUN_H
#define WEIR_CLI_LAB_RUN_H

#include "cli/lab_setup.h"

#include <stdio.h>

/* Start from {0}. */
struct lab_run {
    const struct weir_lab_results *results; /* valid until lab_run_free */
    uint64_t seed;
    bool is_stopped;                  /* by the user, before its end */
    struct weir_trace_entry *entries; /* each request that ended, in the order of its end */
    size_t entries_count, entries_room;
    void *memory;
    size_t memory_bytes;
};

/* what: shown on a terminal while it takes long; NULL: nothing is. record: each request that ends
 * is written there as a line of a recording, whose head is written too; NULL: not.
 * Fails:  false, said: no memory, or the recording could not be written. */
WEIR_MUST_USE bool lab_run_seed(struct lab_run *run, const struct lab_setup *setup, uint64_t seed,
                                const char *what, FILE *record);
void lab_run_free(struct lab_run *run);

#endif
