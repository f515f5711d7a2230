/* backend_twin: the rules of lab/backend.h once more, as plainly as they can be: every step is made,
 * and everything is found by looking through all jobs. What it says is what lab/backend.c must say,
 * to the nanosecond. For small numbers only. */
#ifndef WEIR_TESTS_BACKEND_TWIN_H
#define WEIR_TESTS_BACKEND_TWIN_H

#include "lab/backend.h"

#define TWIN_JOBS 24u
#define TWIN_REPLICAS 4u
#define TWIN_EVENTS 256u

enum twin_place { TWIN_OUT, TWIN_TRAVELS, TWIN_WAITS, TWIN_ON_REPLICA };

struct twin_job {
    enum twin_place place;
    bool is_in_step; /* of the step at hand */
    uint64_t order;  /* of its coming */
    uint64_t arrives_ns;
    uint32_t replica;
    uint64_t units_left; /* of its prompt */
    uint32_t prompt_tok, output_tok, made_tok;
};

struct twin_replica {
    bool is_down, is_stepping;
    uint32_t slow_permille;
    uint64_t began_ns, due_ns;
};

struct backend_twin {
    struct weir_backend_rules rules;
    struct twin_job jobs[TWIN_JOBS];
    struct twin_replica replicas[TWIN_REPLICAS];
    uint64_t now_ns;
    uint64_t orders;
    uint64_t tokens_made, steps, busy_ns;
    struct weir_backend_event events[TWIN_EVENTS]; /* the host takes them and sets the count to 0 */
    uint32_t event_count;
};

void twin_init(struct backend_twin *t, const struct weir_backend_rules *rules);
void twin_move(struct backend_twin *t, uint64_t now_ns);
void twin_join(struct backend_twin *t, uint32_t job, uint32_t prompt_tok, uint32_t output_tok,
               uint64_t now_ns);
void twin_cancel(struct backend_twin *t, uint32_t job, uint64_t now_ns);
void twin_view(const struct backend_twin *t, struct weir_backend_view *view);

#endif
