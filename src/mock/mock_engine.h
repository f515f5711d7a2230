/* mock_engine: how fast tokens come. Replicas that run what they have in steps (continuous
 * batching).
 *
 * A sequence joins the replica with the fewest at its next step, or waits in order when all are
 * full. A step of a replica with n sequences takes step_ns + n x step_sequence_ns and moves each by
 * one unit of work: first the prompt's share (prefill), then one output token a step. So tokens per
 * second of one sequence fall as the batch grows, and the replica's total levels off.
 *
 * Timed by the loop's wheel (about 1 ms): a fire makes all the steps that were due by then.
 * Thread: loop. */
#ifndef WEIR_MOCK_MOCK_ENGINE_H
#define WEIR_MOCK_MOCK_ENGINE_H

#include "net/loop.h"

struct mock_engine;

struct mock_engine_rules {
    uint32_t replicas, sequences;
    uint64_t step_ns, step_sequence_ns;
    uint32_t prefill_permille;
};

/* Embedded by its owner. */
struct mock_sequence {
    void (*tokens)(struct mock_sequence *s, uint32_t count, bool last); /* output came */
    uint64_t prefill_left; /* permille of a step's unit */
    uint32_t output_left;
    uint32_t replica; /* WEIR_NONE: waits, or is out */
    struct mock_sequence *next, **link;
};

struct mock_engine *mock_engine_create(struct weir_loop *loop,
                                       const struct mock_engine_rules *rules);
void mock_engine_destroy(struct mock_engine *e);
void mock_engine_join(struct mock_engine *e, struct mock_sequence *s, uint32_t prompt_tok,
                      uint32_t output_tok);
/* Takes it out wherever it is; fine when it is out already. */
void mock_engine_leave(struct mock_engine *e, struct mock_sequence *s);

#endif
