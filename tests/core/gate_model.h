/* gate_model: the gate against a naive model of it, as a property of a choice tape.
 *
 * One or two pools of up to three upstreams with permits and rate buckets; tenants with weights,
 * lanes and buckets of their own; requests that come, leave, are set aside, granted, end with more
 * or less than was charged, unused, with a 429 that pauses their upstream, or fail and try another.
 * The model keeps plain lists and exact buckets (billionths of a micro-token) and looks at
 * everything after every event:
 *
 *   work is conserved     no request stays that could go: the first of its tenant in its lane, its
 *                         tenant's buckets full enough, no parked request before it, and an
 *                         upstream with a permit free, no pause, and room in its buckets
 *   one step              what is granted had all of that, and the upstream with the lowest share
 *                         of its permits in use among those that had
 *   order                 FIFO inside a tenant's lane; nobody overtakes what is parked in a lane
 *   deadlines             nothing is granted after its deadline; a host that sleeps until
 *                         weir_gate_due_ns loses no time, one with a timer tick at most a tick
 *   due                   before weir_gate_due_ns nothing could have gone
 *   fairness              the bounds of docs/bounds.md in every lane of every pool, on every
 *                         interval (sched_judge.h), while buckets empty and fill */
#ifndef WEIR_TESTS_GATE_MODEL_H
#define WEIR_TESTS_GATE_MODEL_H

#include "support/tape.h"

void gate_model_holds(struct tape *t);

#endif
