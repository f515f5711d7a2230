/* sweep: keeps so many requests in flight, and sums up what came of them.
 *
 * A run is a closed loop of one or more parts (clients): each keeps its number in flight, and sends
 * its next request when one of its own ends, until the run has sent what it may. A run stops sending
 * early when more requests went wrong than the error budget allows, or when it is told to stop.
 * Runs follow each other; between two of them the hints of the first are obeyed.
 *
 * All requests have the same body. Of a part that sent at least three times what it keeps in flight,
 * the first and the last so many fill and drain the line and are not measured; of one that sent
 * less, all are. Times begin when a request is handed to the engine, so that dialling counts.
 *
 * Rates follow from the mean time by Little's law: in flight / mean time, of which the share that
 * ended well. They have no edges, unlike counts in a window.
 *
 * Thread: loop, except weir_sweep_stop (async-signal-safe). Source: docs/sweep.md. */
#ifndef WEIR_MEASURE_SWEEP_H
#define WEIR_MEASURE_SWEEP_H

#include "measure/load.h"

#define WEIR_SWEEP_PARTS_MAX 16u
#define WEIR_SWEEP_REQUESTS_MAX 1000000u /* of one run */

struct weir_sweep;

/* Of a run that goes on. */
struct weir_sweep_now {
    uint32_t in_flight, planned, sent, ok, bad;
    uint64_t rest_ns; /* above 0: it waits so long because the endpoint asked for it */
};
typedef void weir_sweep_seen_fn(void *ctx, const struct weir_sweep_now *now);

struct weir_sweep_rules {
    struct weir_load_rules load; /* in_flight_max: the most that a run will have */
    const char *body;            /* JSON, the caller's and unchanged until destroy */
    size_t body_bytes;
    uint32_t bad_permille;    /* the error budget: so many of a run's requests may go wrong */
    uint64_t rest_max_ns;     /* longer hints end the sweep */
    weir_sweep_seen_fn *seen; /* about five times a second; may be NULL */
    void *ctx;
};

struct weir_sweep_part {
    uint32_t in_flight; /* 1 or more */
    uint32_t key_index;
};

/* Of measured requests that ended well; 0 where there are none. */
struct weir_sweep_times {
    uint64_t count, p50_ns, p95_ns, p99_ns, mean_ns;
};

/* What a part came to, or all of a run. */
struct weir_sweep_figures {
    uint32_t in_flight;
    uint64_t sent, ended[WEIR_LOAD_END_COUNT]; /* ended: adds up to sent */
    uint64_t measured;                         /* ended, and neither filled nor drained the line */
    struct weir_sweep_times whole;             /* to the end of the answer */
    struct weir_sweep_times first;             /* to the first token; streams */
    struct weir_sweep_times token;             /* for each later token; streams that tell usage */
    uint64_t mean_all_ns;                      /* of measured ones, however they ended */
    double per_s, output_tok_per_s;
    uint64_t usage_known, input_tok, output_tok; /* of all that ended well and told it */
    uint64_t hints, hint_min_ns, hint_max_ns;    /* of refusals that said when to come again */
    uint64_t from_gateway;                       /* refused by a weir gateway itself */
    uint64_t took_ns;                            /* from the first sent to the last ended */
    char code[WEIR_LOAD_CODE_BYTES];             /* of the first that went wrong and had one */
};

enum weir_sweep_end {
    WEIR_SWEEP_DONE,
    WEIR_SWEEP_BUDGET,  /* the error budget is used up */
    WEIR_SWEEP_STOPPED, /* by weir_sweep_stop */
    WEIR_SWEEP_FAULT,   /* the loop itself failed, or memory */
};

/* Fails: NULL and error_text, as weir_load_create. */
WEIR_MUST_USE struct weir_sweep *weir_sweep_create(const struct weir_sweep_rules *rules,
                                                   char *error_text, size_t error_bytes);
void weir_sweep_destroy(struct weir_sweep *sweep);

/* One run of at most `requests` requests, never more: 1 .. WEIR_SWEEP_REQUESTS_MAX.
 *
 * figures[parts_count]  of all; those of the parts before it. Set whatever the result. */
enum weir_sweep_end weir_sweep_run(struct weir_sweep *sweep, const struct weir_sweep_part *parts,
                                   size_t parts_count, uint32_t requests,
                                   struct weir_sweep_figures *figures);

/* Waits until the hints of earlier runs are over. false: one is permanent or longer than
 * rest_max_ns (then *asked_ns is how long, WEIR_NEVER_NS for permanent), or it was stopped (0). */
WEIR_MUST_USE bool weir_sweep_rest(struct weir_sweep *sweep, uint64_t *asked_ns);

/* Cancels what is in flight; the run returns with what it has. */
void weir_sweep_stop(struct weir_sweep *sweep);

/* For what the endpoint said: weir_load_advertised, weir_load_first_detail. */
const struct weir_load *weir_sweep_load(const struct weir_sweep *sweep);

#endif
