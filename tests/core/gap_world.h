/* gap_world: random histories of real lanes, as properties of a choice tape: costs, weights, cancels,
 * suspensions, corrections both ways, put-backs in any order, forgotten tenants, slices that end
 * anywhere, one at a time or after a pause.
 *
 * Every window is what gap_twin reckons anew from the log, to the unit, and none is broken. */
#ifndef WEIR_TESTS_GAP_WORLD_H
#define WEIR_TESTS_GAP_WORLD_H

#include "support/tape.h"

void gap_world_fifo(struct tape *t);
void gap_world_drr(struct tape *t);
void gap_world_drr_cost(struct tape *t);
void gap_world_vtc(struct tape *t);

#endif
