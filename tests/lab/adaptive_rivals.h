/* adaptive_rivals: three rules of others for the same limit, made anew from their published
 * descriptions, to be compared with on the same backend: Netflix's concurrency-limits (Gradient2,
 * Vegas, AIMD), their constants unchanged but for the ends of the limit, which are the case's.
 *
 * Each by the signal it was made for, how long a call takes, and by the time to its first byte. As
 * there, Gradient2 and Vegas take the mean over a window of at least 10 calls and a second; a
 * failed call is a drop. */
#ifndef WEIR_TESTS_ADAPTIVE_RIVALS_H
#define WEIR_TESTS_ADAPTIVE_RIVALS_H

#include "lab/adaptive_rig.h"

extern const struct rig_rule rig_gradient2, rig_gradient2_first;
extern const struct rig_rule rig_vegas, rig_vegas_first;
extern const struct rig_rule rig_aimd, rig_aimd_first;

#endif
