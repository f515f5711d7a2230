/* lab_recorded: what a trace says of the same requests that the model was sent: what really happened,
 * as the figures of a run. Thread: any. */
#ifndef WEIR_CLI_LAB_RECORDED_H
#define WEIR_CLI_LAB_RECORDED_H

#include "cli/lab_figures.h"

/* Whether it says so: every request with the time of its answer. */
bool lab_recorded_is_measured(const struct lab_map_trace *trace);

/* rows: of each tenant of the map, and of all together. Those of a tenant that the map took together
 * are together here. What the trace does not tell is NaN: retries (a recording has each try as a
 * request of its own), shares of work, and queue waits of all but recordings (has_waits).
 * Fails: false, no memory. */
WEIR_MUST_USE bool lab_recorded_figures(const struct lab_map *map,
                                        const struct lab_map_trace *trace, bool has_waits,
                                        double (*rows)[LAB_FIGURES]);

#endif
