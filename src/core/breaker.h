/* breaker: stops calling an upstream that is ill, and lets a few trials find out when it is well.
 *
 *            failures in a row, or a share of the window's calls
 *   CLOSED ------------------------------------------------------> OPEN
 *     ^                                                             | cool-down over
 *     | every trial succeeded                                       v
 *     +------------------------------------------------------ HALF_OPEN ----> OPEN (a trial failed)
 *
 * Closed, every call passes. Open, none. Half-open, `trials` calls pass: at most so many are out at
 * once, and as many successes close it. Whatever becomes of a trial (success, failure, neutral,
 * never sent) gives its place back, so a trial whose client left can not lock the upstream out.
 *
 * The cool-down doubles when a trial fails, and when the breaker trips again before it has been
 * closed for as long as the last cool-down was; else it starts from its first length.
 *
 * What counts: connect errors, timeouts to the first byte, 5xx, 529, and an answer that stalls or
 * is cut before its end are failures: in each the upstream did not do what it began. Other 4xx and
 * a client that left are neutral: they neither count as a call nor end a row of failures. 429 is
 * neutral too, and besides pauses the upstream: a pause is a matter of time only and changes no
 * state.
 *
 * Each change of state starts a new generation. A call keeps the ticket it was admitted with, and
 * its outcome counts only in that generation: late results of calls from before can not flip the
 * state twice.
 *
 * Thread: loop. Owns nothing; a struct weir_breaker lies where the caller puts it. */
#ifndef WEIR_CORE_BREAKER_H
#define WEIR_CORE_BREAKER_H

#include "core/base.h"

#define WEIR_BREAKER_WINDOW_MAX_S 60
#define WEIR_BREAKER_PAUSE_DEFAULT_NS WEIR_NS_PER_S
#define WEIR_BREAKER_PAUSE_MIN_NS WEIR_NS_PER_S
#define WEIR_BREAKER_PAUSE_MAX_NS (60 * WEIR_NS_PER_S)

enum weir_breaker_state { WEIR_BREAKER_CLOSED, WEIR_BREAKER_OPEN, WEIR_BREAKER_HALF_OPEN };

enum weir_breaker_outcome {
    WEIR_BREAKER_SUCCESS,
    WEIR_BREAKER_FAILURE,
    WEIR_BREAKER_NEUTRAL, /* tells nothing of the upstream's health */
    WEIR_BREAKER_UNUSED   /* the call was never made: as NEUTRAL, and not counted as a call */
};

struct weir_breaker_rules {
    uint32_t failures_in_row; /* opens at so many; 0: this rule is off */
    uint32_t failure_percent; /* opens at this share of the window's calls; 0: this rule is off */
    uint32_t calls_min;       /* judged by share only with at least so many calls in the window */
    uint32_t window_s;        /* 1 .. WEIR_BREAKER_WINDOW_MAX_S */
    uint32_t trials;          /* 1 or more */
    uint64_t cooldown_ns;
    uint64_t cooldown_max_ns;
};

/* What an answer's status says: 5xx is a failure, other 4xx (429 too) neutral, all else success. */
enum weir_breaker_outcome weir_breaker_outcome_of_status(uint32_t status);

/* 5 in a row, 50 % of at least 20 in 30 s, one trial, 15 s to 60 s. */
struct weir_breaker_rules weir_breaker_rules_default(void);

/* What an admitted call carries until its outcome is reported. */
struct weir_breaker_ticket {
    uint32_t generation;
    bool is_trial;
};

struct weir_breaker_second {
    uint64_t second; /* number of the second + 1; 0: never used */
    uint32_t calls;
    uint32_t failures;
};

struct weir_breaker {
    struct weir_breaker_rules rules;
    enum weir_breaker_state state;
    uint32_t generation;
    uint32_t failures_in_row_now;
    uint32_t trials_out;    /* half-open: admitted, outcome not known */
    uint32_t trials_passed; /* half-open: succeeded */
    uint32_t trips;         /* since the cool-down was last at its first length */
    uint64_t open_until_ns;
    uint64_t closed_ns; /* when it last closed */
    uint64_t paused_until_ns;
    uint64_t calls; /* since start: outcomes reported, the unused apart */
    uint64_t failures;
    uint64_t opened; /* since start: how often it opened */
    struct weir_breaker_second window[WEIR_BREAKER_WINDOW_MAX_S];
};

/* Closed and empty. */
void weir_breaker_init(struct weir_breaker *b, const struct weir_breaker_rules *rules);
/* Other rules from now on; state, window and cool-down under way stay. */
void weir_breaker_rules_set(struct weir_breaker *b, const struct weir_breaker_rules *rules);

/* Turns OPEN into HALF_OPEN once the cool-down is over. Returns the state. */
enum weir_breaker_state weir_breaker_tick(struct weir_breaker *b, uint64_t now_ns);

/* Would a call pass now? Ticks first. Says nothing of pauses. */
WEIR_MUST_USE bool weir_breaker_may_pass(struct weir_breaker *b, uint64_t now_ns);
/* Admits a call that may pass (a defect if it may not); exactly one report must follow. */
WEIR_MUST_USE struct weir_breaker_ticket weir_breaker_admit(struct weir_breaker *b,
                                                            uint64_t now_ns);
/* The outcome of an admitted call. Returns true when it changed the state or freed a trial's place.
 */
bool weir_breaker_report(struct weir_breaker *b, struct weir_breaker_ticket ticket,
                         enum weir_breaker_outcome outcome, uint64_t now_ns);

/* A 429: nobody is sent there for hint_ns, clamped to 1 .. 60 s (0: no hint, 1 s). Never shortens.
 */
void weir_breaker_pause(struct weir_breaker *b, uint64_t hint_ns, uint64_t now_ns);

/* Rest of the cool-down, 0 unless open; rest of the pause, 0 unless paused. */
uint64_t weir_breaker_open_for_ns(const struct weir_breaker *b, uint64_t now_ns);
uint64_t weir_breaker_paused_for_ns(const struct weir_breaker *b, uint64_t now_ns);

#endif
