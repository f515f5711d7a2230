/* race_threads: threads that begin at the same moment. Thread: main. */
#ifndef WEIR_CLI_RACE_THREADS_H
#define WEIR_CLI_RACE_THREADS_H

#include "core/base.h"

/* Runs work(ctx, index) in so many threads that all begin at once, and waits for them. false: not
 * all threads could be had, and none has run. */
WEIR_MUST_USE bool race_run(uint32_t threads, void (*work)(void *ctx, uint32_t index), void *ctx);

#endif
