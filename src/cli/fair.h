/* fair: what `weir fair` was asked for, and the parts of the command. fair.c reads the flags;
 * fair_value.c their values; fair_draw.c draws the requests; fair_run.c runs them under each policy
 * and seed; fair_show.c, fair_json.c and fair_plot.c show what came out. Thread: main. */
#ifndef WEIR_CLI_FAIR_H
#define WEIR_CLI_FAIR_H

#include "core/num.h"
#include "lab/chance.h"
#include "measure/fair.h"

#include <jansson.h>
#include <stdio.h>

#define FAIR_COMMAND "weir fair"
#define FAIR_NAME_BYTES 32
#define FAIR_AMOUNT_BYTES 48

struct fair_tokens {
    uint32_t input, output;
};

/* What requests cost: two lengths drawn on their own, or a row of a trace. */
struct fair_cost {
    struct weir_length input, output;
    const struct fair_tokens *rows; /* NULL: drawn */
    size_t rows_count;
};

enum fair_arrival { FAIR_AT, FAIR_EVEN, FAIR_POISSON, FAIR_ONOFF };

struct fair_arrivals {
    enum fair_arrival kind;
    uint64_t at_ns;         /* AT */
    uint64_t count, per_ns; /* the others: so many in that time */
    uint64_t on_ns, off_ns; /* ONOFF: Poisson while on */
};

enum fair_estimate { FAIR_EXACT, FAIR_BIASED, FAIR_NOISY };

struct fair_estimates {
    enum fair_estimate kind;
    int64_t percent; /* BIASED: added to the truth; NOISY: off by at most this, evenly */
};

struct fair_tenant {
    char name[FAIR_NAME_BYTES];
    uint32_t weight;
    uint64_t backlog; /* requests that it sends */
    struct fair_cost cost;
    struct fair_arrivals arrivals;
    struct fair_estimates estimates;
};

struct fair_setup {
    struct fair_tenant tenants[WEIR_FAIR_TENANTS_MAX];
    uint32_t tenants_count;
    uint32_t permits;
    uint64_t seed, seeds;
    bool policies[WEIR_FAIR_POLICIES];
    uint32_t policies_count;
    bool is_all; /* drr-restarting is there as the counterexample */
    /* As they were given, to be shown; either cost or the other two. */
    const char *cost_text, *input_text, *output_text;
    const char *arrivals_text, *estimates_text;
};

struct fair_error {
    char text[640];
};

/* Each reads one value; false: *error says what is wrong, as a sentence to be put behind the flag.
 */
WEIR_MUST_USE bool fair_read_length(const char *text, struct weir_length *length,
                                    struct fair_error *error);
WEIR_MUST_USE bool fair_read_arrivals(const char *text, struct fair_arrivals *arrivals,
                                      struct fair_error *error);
WEIR_MUST_USE bool fair_read_estimates(const char *text, struct fair_estimates *estimates,
                                       struct fair_error *error);
WEIR_MUST_USE bool fair_read_policies(const char *text, struct fair_setup *setup,
                                      struct fair_error *error);
/* "a=4,b=1" or "4,1" (then called a, b, ...): makes the tenants. */
WEIR_MUST_USE bool fair_read_weights(const char *text, struct fair_setup *setup,
                                     struct fair_error *error);

/* Calls take for every tenant of "a=VALUE,b=VALUE", or of "VALUE" for all, or, where by_place is
 * true, of "VALUE,VALUE,..." in the order of --weights. Each tenant is named once. */
typedef bool fair_take_fn(struct fair_tenant *tenant, const char *value, struct fair_error *error);
WEIR_MUST_USE bool fair_read_each(const char *text, struct fair_setup *setup, bool by_place,
                                  fair_take_fn *take, struct fair_error *error);

/* The rows of a trace file: those of the tenant of that name, or all if there is none. Read once a
 * file; kept until fair_rows_free. */
WEIR_MUST_USE bool fair_rows_load(const char *path, const char *tenant, struct fair_cost *cost,
                                  struct fair_error *error);
void fair_rows_free(void);

/* The requests of one seed. items has room for all; weights for the tenants. false: the plan cannot
 * be run. */
uint64_t fair_requests(const struct fair_setup *setup);
WEIR_MUST_USE bool fair_draw(const struct fair_setup *setup, uint64_t seed, uint32_t *weights,
                             struct weir_fair_item *items, struct weir_fair_plan *plan,
                             struct fair_error *error);

/* What is kept of a run beside its result: the state after every dispatch or, of long runs, after
 * every so many. */
struct fair_step {
    uint64_t dispatches;
    uint64_t at_ns;
    uint32_t item;
    bool is_contended; /* two tenants or more were backlogged */
};
struct fair_log {
    uint32_t tenants_count;
    uint64_t stride;
    size_t count, room;
    struct fair_step *steps;
    double *served, *ideal; /* work, up to here; [step x tenants_count + tenant] */
    bool *backlogged;       /* before the dispatch; likewise */
    bool was_backlogged[WEIR_FAIR_TENANTS_MAX];
};
WEIR_MUST_USE bool fair_log_init(struct fair_log *log, uint32_t tenants_count, uint64_t requests);
void fair_log_free(struct fair_log *log);
void fair_log_note(void *log, const struct weir_fair_now *now); /* a weir_fair_seen_fn */

/* One run, or the worst of the runs of many seeds, each gap for itself. */
struct fair_outcome {
    enum weir_fair_policy policy;
    const struct weir_fair_plan *plan; /* of the last run */
    struct weir_fair_result result;
    uint64_t gap_seeds[WEIR_FAIR_COUNTS];
    uint64_t broken_seeds; /* how many seeds broke a bound */
    struct fair_log log;   /* of one seed only */
};

/* Everything that came out, and what the last run was made of. */
struct fair_report {
    const struct fair_setup *setup;
    bool wants_items;
    uint64_t runs; /* of each policy; fewer than setup->seeds when somebody had enough */
    uint32_t count;
    struct fair_outcome outcomes[WEIR_FAIR_POLICIES];
    uint32_t weights[WEIR_FAIR_TENANTS_MAX];
    struct weir_fair_item *items; /* allocated */
    struct weir_fair_plan plan;   /* of the two above */
};

/* Runs each policy under each seed of report->setup, or under as many as there is patience for; all else of the report but wants_items is zero
 * before.
 *
 * Owns:   *report frees with fair_report_free, whatever is returned; it must not be moved.
 * Fails:  a status of the program's other than CLI_DONE_STATUS; what is wrong has been said. */
WEIR_MUST_USE int fair_run(struct fair_report *report);
void fair_report_free(struct fair_report *report);

/* Under --policy all the classroom dispatcher is the counterexample, which must not fail the
 * rest. */
bool fair_is_counterexample(const struct fair_setup *setup, enum weir_fair_policy policy);
bool fair_is_broken(const struct fair_report *report);

/* 1.75, 1,234 or 0.33 (at most two digits), from millionths. Returns out. */
const char *fair_amount(uint64_t millionths, char out[static FAIR_AMOUNT_BYTES]);

void fair_show(const struct fair_report *report);
WEIR_MUST_USE bool fair_show_json(const struct fair_report *report);
/* false: *error says why. */
WEIR_MUST_USE bool fair_plot(const struct fair_report *report, const char *path,
                             struct fair_error *error);

#endif
