/* replay: what the parts of `weir replay` share. Thread: main. */
#ifndef WEIR_CLI_REPLAY_H
#define WEIR_CLI_REPLAY_H

#include "measure/playback.h"
#include "measure/playback_figures.h"
#include "trace/trace_file.h"

#include <stdio.h>

/* What was asked for. Texts are of the command line. */
struct replay_wish {
    const char *trace, *url, *scheduler, *model, *ca_file, *note;
    const char *svg, *record;    /* files; NULL: none */
    const char *const *key_envs; /* "VAR" or "TENANT=VAR" */
    uint32_t key_envs_count;
    uint32_t speed_permille;
    uint64_t limit;       /* requests; UINT64_MAX: all */
    uint64_t duration_ns; /* of the replay; WEIR_NEVER_NS: all */
    uint64_t timeout_ns;
    uint64_t seed;
    uint32_t in_flight_max, failures_max;
    enum { REPLAY_STREAM_AS_TRACED, REPLAY_STREAM_YES, REPLAY_STREAM_NO } stream;
    bool has_modern_limit, is_json, is_csv, is_dry;
};

/* What will be sent. */
struct replay_plan {
    struct weir_trace trace;
    struct weir_endpoint endpoint;
    struct weir_playback_item *items;
    struct weir_playback_result *results;
    size_t count;
    const char *const *tenants; /* names, of the trace */
    uint32_t tenants_count;     /* in the trace */
    uint32_t tenants_used;      /* in the items */
    const char **models;        /* by index, of the trace or the one asked for */
    const char **keys;          /* of the environment; NULL: none */
    uint32_t keys_count;
    uint32_t *tenant_keys; /* key index by tenant */
    uint64_t prompt_tok, output_tok, span_ns;
};

/* Reads trace, keys and URL. false: said on standard error; replay_plan_free all the same. */
WEIR_MUST_USE bool replay_plan_make(struct replay_plan *plan, const struct replay_wish *wish,
                                    enum weir_api api);
void replay_plan_free(struct replay_plan *plan);

/* What came of it, all together. */
struct replay_outcome {
    const struct replay_wish *wish;
    const struct replay_plan *plan;
    const struct weir_playback *playback;
    struct weir_playback_view view;
    struct weir_playback_figures *figures; /* of each tenant, then of all */
    struct weir_playback_reason *reasons;
    size_t reasons_count;
    int64_t began_us; /* since 1970 */
};

static inline const struct weir_playback_figures *replay_all(const struct replay_outcome *o)
{
    return &o->figures[o->plan->tenants_count];
}
/* A tenant's name as shown; "-" for the unnamed one. */
const char *replay_tenant_name(const struct replay_plan *plan, uint32_t tenant);
/* The indices of the tenants that were in the plan, those with the most requests first; malloc'ed.
 * NULL: out of memory. */
uint32_t *replay_tenants_ordered(const struct replay_outcome *o);
/* "2026-11-30 12:05:00 UTC" */
#define REPLAY_DATE_BYTES 32
const char *replay_date(int64_t unix_us, char out[static REPLAY_DATE_BYTES]);
/* Whether the cap, or this machine, is part of what was measured: one sentence each; "" when
 * not. */
#define REPLAY_TEXT_BYTES 400
void replay_distortion(const struct replay_outcome *o, char text[static REPLAY_TEXT_BYTES]);

WEIR_MUST_USE bool replay_show_table(const struct replay_outcome *o);
WEIR_MUST_USE bool replay_show_csv(const struct replay_outcome *o);
WEIR_MUST_USE bool replay_show_json(const struct replay_outcome *o);
/* false: errno says why. */
WEIR_MUST_USE bool replay_draw(const struct replay_outcome *o, FILE *out);
WEIR_MUST_USE bool replay_record(const struct replay_outcome *o, FILE *out);

#endif
