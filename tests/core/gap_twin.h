/* gap_twin: what core/gap measures, reckoned anew from a full log of events.
 *
 * It keeps nothing but the log. Each window is found by playing the log from its beginning, and what
 * the gap keeps as running maxima is searched for in all states there ever were. */
#ifndef WEIR_TESTS_GAP_TWIN_H
#define WEIR_TESTS_GAP_TWIN_H

#include "core/gap.h"

#define GAP_TWIN_TENANTS 6u
#define GAP_TWIN_EVENTS 600u
#define GAP_TWIN_SLICES 1024u

enum gap_twin_kind {
    GAP_TWIN_WEIGHT, /* amount */
    GAP_TWIN_ENQUEUE,
    GAP_TWIN_REMOVE,
    GAP_TWIN_TAKE, /* amount, as all below */
    GAP_TWIN_PUT_BACK,
    GAP_TWIN_CORRECT,
    GAP_TWIN_SUSPEND,
    GAP_TWIN_RESUME,
    GAP_TWIN_FORGET
};

struct gap_twin_event {
    uint64_t slice;
    enum gap_twin_kind kind;
    uint32_t tenant;
    int64_t amount;
};

/* The log of one lane. Zero memory is an empty one; set policy. */
struct gap_twin {
    enum weir_sched_policy policy;
    uint32_t count;
    struct gap_twin_event events[GAP_TWIN_EVENTS];
    uint64_t quantum[GAP_TWIN_SLICES]; /* at the start of each slice */
    uint64_t broken[WEIR_GAP_WINDOWS];
};

/* An event in a slice. Slices begin with 1 and end at GAP_TWIN_SLICES - 1. */
void gap_twin_log(struct gap_twin *twin, uint64_t slice, enum gap_twin_kind kind, uint32_t tenant,
                  int64_t amount);

/* The windows at the end of a slice; each slice once, in order, as broken windows are counted. */
void gap_twin_windows(struct gap_twin *twin, uint64_t slice,
                      struct weir_gap_window windows[WEIR_GAP_WINDOWS]);

#endif
