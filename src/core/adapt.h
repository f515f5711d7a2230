/* adapt: a limit on calls in flight that follows what an upstream can carry.
 *
 * Below its knee an upstream that batches gets slower with every call it carries, yet answers more
 * of them; above, calls only wait for each other. Both lengthen the time to the first byte, so that
 * time alone can not tell them apart. What can is the upstream's own pace, the time one output
 * token takes: a larger batch lengthens both alike, a queue only the first. So
 *
 *   expected   = pace x shape(input size)       what the first byte takes without a queue
 *   excess     = time to the first byte - expected
 *   queued     = excess x calls ended a second  the calls that wait upstream, by Little's law
 *
 * `shape`, in output tokens' time per input token, is learned for each size of input (four classes
 * an octave) and is the low edge of what was seen. Long prompts, long answers and a slower upstream
 * change nothing in it.
 *
 * A period ends with 16 to 64 first bytes of calls that started in it, with the limit (nearly) used
 * up; with 8, when a quarter of the calls is queued. Then
 *
 *   queued more than 3 % of the limit  the limit falls by what is queued and one step, a third at
 *                                      most
 *   else                               it rises: by half until it has first found a queue, later
 *                                      by a step of 1/32, by more where the last queue is far or
 *                                      capacity seems to have come back
 *
 * A queue shrinks by what the limit falls. What did not shrink three times in a row was none: the
 * upstream takes longer for the same input than it did, and the shape is learned anew. Refusals
 * (429, 5xx, no first byte in time) lower the limit by an eighth once a period, when they are a
 * tenth of its calls.
 *
 * Held: min <= limit <= ceiling; no change by more than half up and a third down (one, where that
 * is more); calls that started under another limit, or with the limit not half used, change
 * nothing. Without streams, or without any output tokens to take the pace from, the limit stays.
 *
 * Integers only; no division by what may be 0. Thread: loop. Owns nothing: a struct weir_adapt lies
 * where the caller puts it, all zero at first. Source: docs/adaptive.md. */
#ifndef WEIR_CORE_ADAPT_H
#define WEIR_CORE_ADAPT_H

#include "core/base.h"

#define WEIR_ADAPT_SAMPLES_MAX 64
#define WEIR_ADAPT_CLASSES 96 /* of input size: four an octave, the last from 2^23.75 on */

/* All zero: off, the ceiling is the limit. */
struct weir_adapt_rules {
    uint32_t min;   /* the limit never falls below it (or the ceiling); 0: off */
    uint32_t start; /* where it begins, held to min .. ceiling */
};

struct weir_adapt_sample {
    uint64_t wait_ns;
    uint64_t pace_ns; /* then */
    uint32_t input_tok;
};

struct weir_adapt {
    struct weir_adapt_rules rules;
    uint32_t ceiling;
    uint32_t limit;
    uint32_t period;    /* counts changes of the limit: a ticket's upper bits */
    uint32_t knee;      /* the limit less the queue when there was one last; 0: never */
    uint32_t rises;     /* in a row, far above the knee */
    uint32_t roomy;     /* periods in a row in which capacity seemed to come back */
    uint32_t stubborn;  /* times in a row that what looked like a queue did not shrink */
    uint32_t fell_from; /* the limit before it fell for a queue of so many; 0: it did not, last */
    uint64_t fell_queued_milli;
    uint64_t pace_ns;      /* an output token takes so long, of late; 0: not known */
    uint64_t calm_pace_ns; /* it was so when the shape was learned last */
    uint64_t rate_micro;   /* calls ended a second, in the last period with enough of them */
    uint64_t sampled_ns;
    uint64_t since_ns;       /* the period began */
    uint32_t ended, refused; /* in it; refused of its own calls only */
    uint32_t sample_count;
    struct weir_adapt_sample samples[WEIR_ADAPT_SAMPLES_MAX];
    uint64_t shape[WEIR_ADAPT_CLASSES]; /* pace an input token, in 2^-16; 0: not known */
    uint8_t seen[WEIR_ADAPT_CLASSES];   /* samples in it, up to 8 */
};

/* Sets the rules or changes them: a limit that is under way stays as far as they allow.
 * ceiling >= 1. */
void weir_adapt_set(struct weir_adapt *a, const struct weir_adapt_rules *rules, uint32_t ceiling,
                    uint64_t now_ns);

/* A call starts, with so many in flight, itself included. Returns the ticket that it carries to
 * the functions below; 0: it will not count. */
WEIR_MUST_USE uint32_t weir_adapt_started(const struct weir_adapt *a, uint32_t in_flight);

/* The first byte of a stream's good answer came, wait_ns after its call began. */
void weir_adapt_first_byte(struct weir_adapt *a, uint32_t ticket, uint64_t input_tok,
                           uint64_t wait_ns, uint64_t now_ns);

/* The upstream did not take the call, for it has too many: 429, 5xx, no first byte in time. */
void weir_adapt_refused(struct weir_adapt *a, uint32_t ticket, uint64_t now_ns);

/* A call ended, any call. answer_ns: from the first byte of a stream to its end, 0 when it is not
 * known or the stream did not end well. */
void weir_adapt_ended(struct weir_adapt *a, uint64_t answer_ns, uint64_t output_tok);

#endif
