/* measure: what the benches share: one row after the other, timed, or one alone for counting.
 *
 *   program              times every row: median of 21 runs of about 10 ms, in CPU time of this thread
 *   program ROW COUNT    does the work of one row COUNT times, and nothing else: under callgrind, the
 *                        difference between two counts is what the work costs in instructions
 *
 * Thread: one. */
#ifndef WEIR_BENCH_MEASURE_H
#define WEIR_BENCH_MEASURE_H

#include <stddef.h>

void bench_begin(int argc, char **argv);
/* work(arg) does one unit of work on so many bytes (0: bytes say nothing). */
void bench_row(const char *name, void (*work)(void *), void *arg, size_t bytes);
/* What main returns: not 0 when no row had the name asked for. */
int bench_end(void);

#endif
