/* adaptive_rig: a rule for the limit of calls in flight before a backend of the model, and nothing
 * between: whenever fewer calls are in flight than the limit allows and work waits, the next goes.
 * The queue before it is endless, or fed by a Poisson process.
 *
 * Rules are compared on it, ours (core/adapt) and those of others. Same case and seed, same run. */
#ifndef WEIR_TESTS_ADAPTIVE_RIG_H
#define WEIR_TESTS_ADAPTIVE_RIG_H

#include "lab/backend.h"
#include "lab/chance.h"

#define RIG_PHASES_MAX 4
#define RIG_MIX_MAX 4
#define RIG_SECONDS_MAX 1200
#define RIG_JOBS 8192

/* What of a call is known when something happens to it. */
struct rig_call {
    uint32_t ticket;    /* the rule's own, from started */
    uint32_t in_flight; /* when it started, itself included */
    bool is_stream;
    uint32_t input_tok, output_tok;
    uint64_t started_ns, first_ns;
};

struct rig_rule {
    const char *name;
    size_t bytes; /* of its state, which is zero at first */
    void (*init)(void *state, uint32_t min, uint32_t start, uint32_t ceiling);
    uint32_t (*limit)(const void *state);
    uint32_t (*started)(void *state, uint32_t in_flight);
    void (*first_byte)(void *state, const struct rig_call *call, uint64_t now_ns);
    void (*ended)(void *state, const struct rig_call *call, uint64_t now_ns); /* well */
    void (*refused)(void *state, const struct rig_call *call, uint64_t now_ns);
};

/* A kind of call. */
struct rig_kind {
    uint32_t share; /* of the calls, in parts of the sum */
    struct weir_length prompt, output;
    bool is_whole;             /* no stream: its first byte is its last */
    uint32_t hidden_tok;       /* input beyond what the estimate knows of */
    uint32_t refused_permille; /* answered at once with a 429 */
};

/* What is sent from a time on. */
struct rig_phase {
    uint64_t from_ns;
    uint64_t rate_micro_per_s; /* 0: there is always more to do */
    uint64_t on_ns, off_ns;    /* sends in turns; off 0: always */
    uint32_t kind_count;
    struct rig_kind kinds[RIG_MIX_MAX];
};

struct rig_case {
    struct weir_backend_rules backend;
    uint32_t phase_count;
    struct rig_phase phases[RIG_PHASES_MAX];
    uint64_t run_ns;
    uint32_t min, start, ceiling;
    uint32_t noise_permille; /* estimates of the input are off by at most this, either way */
};

/* Once a second. */
struct rig_second {
    uint32_t limit, in_flight;
    uint32_t queued; /* upstream */
};

struct rig_series {
    uint32_t count;
    struct rig_second at[RIG_SECONDS_MAX];
    uint32_t least, most; /* limit at any time */
    uint64_t done, tokens;
};

extern const struct rig_rule rig_weir;

/* The mixes that cases are made of. */
extern const struct rig_kind rig_chat;  /* prompts 300 .. 1,500, 250 out */
extern const struct rig_kind rig_code;  /* Azure's code trace: 1,469 in the middle, 13 out */
extern const struct rig_kind rig_arena; /* arena27: 40 in the middle, 211 out */
extern const struct rig_kind rig_agent; /* prompts 6,000 .. 24,000, 1,000 out */

/* The model's backend: steps of 6 ms + 0.25 ms a sequence, prompts at a tenth; chat, always more to
 * do, 400 s, limits 4 .. 2,000 that begin at 16. */
struct rig_case rig_case_of(uint32_t replicas, uint32_t sequences);

void rig_run(const struct rig_case *c, const struct rig_rule *rule, uint64_t seed,
             struct rig_series *out);

/* Of the limit in the seconds from .. until - 1, as parts of 1. */
struct rig_swing {
    double mean, least, most; /* limit / knee */
};
struct rig_swing rig_swing(const struct rig_series *s, uint32_t from_s, uint32_t until_s,
                           double knee);
/* From which second on the limit stays within `within` of the knee until until_s, counted from
 * from_s; until_s - from_s: never. */
uint32_t rig_settles(const struct rig_series *s, uint32_t from_s, uint32_t until_s, double knee,
                     double within);
/* Calls that wait upstream on average, as a part of the knee. */
double rig_queued(const struct rig_series *s, uint32_t from_s, uint32_t until_s, double knee);

#endif
