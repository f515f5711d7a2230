/* playback: sends requests at the times of a plan, whatever the answers do (open loop).
 *
 * Each request leaves at its intended time, by a timer of its own precision and not by the loop's
 * millisecond ticks; nothing waits for an answer. Latency is counted from the intended time, so
 * that a slow answer cannot hide the wait of those behind it (no coordinated omission).
 *
 * At most in_flight_max are under way at once. Beyond that, requests are held back until one ends:
 * they are sent late, are marked, and their latency includes the wait. A result with held requests
 * measures this cap as well as the endpoint, and whoever shows it must say so.
 *
 *     READY -> IN_FLIGHT -> ENDED      all READY ones stay READY when the replay is stopped
 *
 * It stops by itself when failures_max calls in a row were neither answered nor refused by rate:
 * there is no endpoint there, or no longer.
 *
 * Thread: loop. */
#ifndef WEIR_MEASURE_PLAYBACK_H
#define WEIR_MEASURE_PLAYBACK_H

#include "measure/load.h"

struct weir_playback;

/* One request of a plan. */
struct weir_playback_item {
    uint64_t arrival_ns;         /* since the start, at the speed of the replay; never falls */
    uint32_t tenant, model, key; /* indices of the caller's: key into the keys of the rules */
    uint32_t prompt_tok, shared_tok, output_tok; /* shared: the same front for all of a tenant */
    bool is_stream;
};

enum weir_playback_state { WEIR_PLAYBACK_READY, WEIR_PLAYBACK_IN_FLIGHT, WEIR_PLAYBACK_ENDED };

/* What came of it. Times since the start; 0: it did not come so far. */
struct weir_playback_result {
    uint64_t begun_ns; /* handed to the engine: later than the arrival by our own delay */
    uint64_t sent_ns, head_ns, first_token_ns, end_ns;
    uint64_t hint_ns;                           /* of a refusal; 0: none */
    uint32_t input_tok, cached_tok, output_tok; /* as told; 0 where not is_usage_known */
    uint16_t status;
    uint8_t state; /* enum weir_playback_state */
    uint8_t end;   /* enum weir_load_end */
    uint8_t code;  /* index into the codes */
    bool from_gateway, is_usage_known, is_held;
};

#define WEIR_PLAYBACK_CODES_MAX 64 /* distinct error codes; those beyond are "other" */

struct weir_playback_rules {
    struct weir_load_rules load; /* its endpoint stays where it is until destroy */
    const char *const *models;   /* names by model index; likewise */
    bool has_modern_limit;       /* see prompt.h */
    uint64_t seed;               /* of the prompts' words */
    uint32_t failures_max;       /* 0: never stops by itself */
};

enum weir_playback_stop {
    WEIR_PLAYBACK_GOES_ON,
    WEIR_PLAYBACK_DONE,     /* everything was sent, and ended */
    WEIR_PLAYBACK_STOPPED,  /* by weir_playback_stop */
    WEIR_PLAYBACK_HOPELESS, /* failures_max in a row */
    WEIR_PLAYBACK_FAULT     /* out of memory, or of timers */
};

struct weir_playback_view {
    enum weir_playback_stop stop;
    uint64_t now_ns;                          /* since the start; when over: until the last end */
    size_t begun, ended, ok, refused, failed; /* refused: 429, or by a gateway; cancelled in none */
    size_t held; /* that were sent late because of the cap, or still wait for it */
    uint32_t in_flight, in_flight_peak;
    uint64_t lag_max_ns;  /* of those not held: from the intended time to the engine */
    uint64_t turn_max_ns; /* see load.h */
    uint64_t connects;
    enum weir_load_end last_failure; /* valid when failed is above 0 */
};

/* items and results: the caller's, count of each, until destroy; results are overwritten. over() is
 * called once, from the loop, when nothing more will change.
 *
 * Fails: NULL and error_text; nothing was sent. */
WEIR_MUST_USE struct weir_playback *
weir_playback_create(struct weir_loop *loop, const struct weir_playback_rules *rules,
                     const struct weir_playback_item *items, struct weir_playback_result *results,
                     size_t count, void (*over)(void *ctx), void *ctx, char *error_text,
                     size_t error_bytes);
/* It must be over, or never started. NULL is fine. */
void weir_playback_destroy(struct weir_playback *playback);

/* Time 0 is now. */
void weir_playback_start(struct weir_playback *playback);
/* Sends no more and cancels what is under way; over() follows in the next turn. */
void weir_playback_stop(struct weir_playback *playback);

void weir_playback_view(const struct weir_playback *playback, struct weir_playback_view *view);
const char *weir_playback_code(const struct weir_playback *playback, uint32_t code); /* "" for 0 */
uint32_t weir_playback_codes_count(const struct weir_playback *playback);
const struct weir_load *weir_playback_load(const struct weir_playback *playback);

/* Whether a result is an answer, a refusal (429, or what a gateway refuses but for wrong
 * requests), a failure, or none of them (not
 * ended, or cancelled). */
enum weir_playback_kind {
    WEIR_PLAYBACK_OPEN,
    WEIR_PLAYBACK_OK,
    WEIR_PLAYBACK_REFUSED,
    WEIR_PLAYBACK_FAILED
};
enum weir_playback_kind weir_playback_kind(const struct weir_playback_result *result);

#endif
