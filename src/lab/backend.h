/* backend: an endpoint of the model: replicas that run what they have in steps (continuous
 * batching), as src/mock/mock_engine.h does, but in simulated time.
 *
 *   join --latency--> waits --a replica has room--> joins --its next step--> runs --> DONE
 *     (travels)         |  all replicas down             |  the replica fails   |
 *                       +--------------------------------+----------------------+--> FAILED
 *
 * The oldest job that waits goes to the replica that has the fewest, of those that live, have a
 * place (`sequences`) and room in their pool of KV tokens for its prompt and output. While it fits
 * nowhere, nobody overtakes it. A job that no pool could hold even when empty fails as it comes.
 *
 * A step takes step_ns + n x step_sequence_ns, n being the jobs that were there when it began, and
 * moves each of them by one unit. A job needs prompt x prefill_permille / 1000 units for its
 * prompt, rounded up, at least one; the step that ends the prompt makes the first output token, and
 * every further step one more (an output of 0 counts as 1). Who comes at the instant at which a
 * step begins is part of it; later, it joins at the next. Who leaves in the middle does not shorten
 * the step at hand. A replica with nobody begins a step as soon as somebody comes.
 *
 * Troubles hold from from_ns until before until_ns. FAIL: what runs or joins there fails at once,
 * the step at hand is lost, and other replicas take what comes; with none that lives, everything
 * that waits or comes fails. SLOW: steps that begin meanwhile take slow_permille / 1000 as long,
 * rounded up; of several at once the largest holds. At one instant, steps end first, troubles
 * change next, then those who travelled arrive, and last the free places are taken.
 *
 * Skips ahead: nothing is computed for a step at which nobody gets a first token, ends or joins.
 * The cost of a job is O(log sequences + replicas), whatever its tokens; thousands may wait.
 * Integers only, no allocation. Times are nanoseconds since the run's start and never go back.
 * Thread: of its owner. */
#ifndef WEIR_LAB_BACKEND_H
#define WEIR_LAB_BACKEND_H

#include <stddef.h>
#include <stdint.h>

#include "core/base.h"

#define WEIR_BACKEND_REPLICAS_MAX 256u
#define WEIR_BACKEND_SEQUENCES_MAX 65536u
#define WEIR_BACKEND_TROUBLES_MAX 64u
#define WEIR_BACKEND_JOBS_MAX (UINT32_C(1) << 24)
#define WEIR_BACKEND_PERMILLE_MAX 1000000u /* of prefill_permille and slow_permille */

enum weir_trouble_kind { WEIR_TROUBLE_FAIL, WEIR_TROUBLE_SLOW };

struct weir_backend_trouble {
    uint32_t replica; /* WEIR_NONE: every one */
    enum weir_trouble_kind kind;
    uint64_t from_ns, until_ns;
    uint32_t slow_permille; /* SLOW */
};

struct weir_backend_rules {
    uint32_t replicas;  /* 1 .. WEIR_BACKEND_REPLICAS_MAX */
    uint32_t sequences; /* of one replica, 1 .. WEIR_BACKEND_SEQUENCES_MAX */
    uint64_t step_ns, step_sequence_ns;
    uint32_t prefill_permille;
    uint64_t kv_tok;     /* of one replica; 0: no bound */
    uint64_t latency_ns; /* the network, before anything else */
    const struct weir_backend_trouble *troubles;
    uint32_t trouble_count;
};

enum weir_backend_event_kind {
    WEIR_BACKEND_FIRST_TOKEN,
    WEIR_BACKEND_DONE,  /* all of its output is made */
    WEIR_BACKEND_FAILED /* status 503 */
};

struct weir_backend_event {
    uint32_t job;
    enum weir_backend_event_kind kind;
    uint64_t at_ns;
};

struct weir_backend_view {
    uint32_t travelling, waiting, running; /* running: on a replica, joining included */
    uint64_t tokens_made;                  /* output tokens, those of jobs that did not end too */
    uint64_t steps;                        /* that ended */
    uint64_t busy_ns;                      /* time in steps, summed over the replicas */
    uint64_t kv_now_tok;                   /* taken in all pools */
};

struct weir_backend;

/* NULL: rules that a backend can follow. Else what is wrong with them first. */
const char *weir_backend_problem(const struct weir_backend_rules *r);

/* Bytes that a backend for jobs 0 .. jobs_max - 1 needs. jobs_max 1 .. WEIR_BACKEND_JOBS_MAX. */
size_t weir_backend_bytes(const struct weir_backend_rules *r, uint32_t jobs_max);

/* Starts one in memory that the host keeps: zero, weir_backend_bytes long, aligned to 64 bytes. The
 * rules are copied, troubles too. */
struct weir_backend *weir_backend_init(void *mem, size_t bytes, const struct weir_backend_rules *r,
                                       uint32_t jobs_max);

/* A job leaves for the backend. `job` is the host's number for it, free for use again when its DONE
 * or FAILED was taken, or it was cancelled. */
void weir_backend_join(struct weir_backend *b, uint32_t job, uint32_t prompt_tok,
                       uint32_t output_tok, uint64_t now_ns);

/* Takes a job out wherever it is; its events that were not taken yet do not come any more. Nothing
 * happens when it is out already. */
void weir_backend_cancel(struct weir_backend *b, uint32_t job, uint64_t now_ns);

/* When weir_backend_next will have something to do; WEIR_NEVER_NS: not by itself. */
uint64_t weir_backend_due_ns(const struct weir_backend *b);

/* The next event up to now_ns, false: none any more. In the order of time; within an instant in a
 * fixed order, the first token of a job before its end. The host may join and cancel between two
 * calls. */
WEIR_MUST_USE bool weir_backend_next(struct weir_backend *b, uint64_t now_ns,
                                     struct weir_backend_event *event);

/* Output tokens that a job has made by now_ns; after its end all it made, until it joins anew.
 * Nothing is due before now_ns. */
uint32_t weir_backend_output_tok(const struct weir_backend *b, uint32_t job, uint64_t now_ns);

/* As of now_ns; nothing is due before it. Cost: O(replicas). */
void weir_backend_view(const struct weir_backend *b, uint64_t now_ns,
                       struct weir_backend_view *view);

#endif
