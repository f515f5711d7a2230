/* mock_engine: how fast tokens come. Replicas that run what they have in steps (continuous
 * batching).
 *
 * A sequence takes a place at the replica with the fewest, or waits when all are full: in lines,
 * one for each key, from which the order of service takes (fifo: all stand in one line). It joins
 * at the replica's next step: who comes at the instant at which a step begins is part of it, and a
 * replica with nobody begins one as soon as somebody comes. A step with n sequences takes step_ns +
 * n x step_sequence_ns and moves each by one unit of work: first the prompt's share (prefill), then
 * one output token a step. So tokens per second of one sequence fall as the batch grows, and the
 * replica's total levels off.
 *
 * Timed by the loop's wheel (about 1 ms): a fire makes all the steps that were due by then, each
 * with those that had come by its beginning. The same rules in simulated time: src/lab/backend.h.
 * Thread: loop. */
#ifndef WEIR_MOCK_MOCK_ENGINE_H
#define WEIR_MOCK_MOCK_ENGINE_H

#include "mock/mock.h"
#include "mock/mock_key.h"
#include "net/loop.h"

struct mock_engine;

struct mock_engine_rules {
    enum weir_mock_order order;
    uint32_t replicas, sequences;
    uint64_t step_ns, step_sequence_ns;
    uint32_t prefill_permille;
};

/* Embedded by its owner. */
struct mock_sequence {
    void (*tokens)(struct mock_sequence *s, uint32_t count, bool last); /* output came */
    uint32_t line;         /* its key's number, below MOCK_KEYS_MAX; set by the owner */
    uint64_t from_ns;      /* it came, or took its place: no step that began before moves it */
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
