/* reconcile: what weir booked against what a provider says was used. Pure: arrays in, arrays out.
 *
 *   usage rows, lapsed holds --+            +--> lines: group, model: both sides, drift, its sign
 *   provider's export ---------+--> compare +--> windows of a line, judged after the edge slip
 *   provider_ids --------------+            +--> corrections: scope, window, signed tokens
 *
 * Groups. A row of the export belongs to the scope or upstream whose provider_ids name its key (id
 * or name), else its project; a row of ours to the nearest scope up its chain that has provider_ids,
 * else to its upstream if that has some. What nobody maps is one group for each provider, compared
 * with itself. Only upstreams that speak a provider's API are compared with its export.
 *
 * Models. The same name first; then names that differ by a date at their end ("gpt-4o" and
 * "gpt-4o-2024-08-06", "...-latest") become one line, which says so.
 *
 * Time. The export's buckets, in whole UTC hours (ours is kept by the hour). A call counts in the
 * bucket of the provider's clock, so at an edge it may lie one bucket off: up to the difference
 * between neighbouring buckets is moved before they are judged. A line's totals need no move.
 *
 * Drift is (ours - provider's) / provider's in parts per million, away from zero: below zero weir
 * counts less than was used, which is the dangerous side.
 *
 * Corrections make the books say what the provider says. They are remembered as usage rows of the
 * upstream WEIR_RECONCILE_PREFIX + NAME, which count as ours here, so that the same export gives no
 * drift a second time.
 *
 * Thread: any. Allocates. Source: docs/ledger.md, "Reconciliation". */
#ifndef WEIR_GATEWAY_RECONCILE_H
#define WEIR_GATEWAY_RECONCILE_H

#include "wire/usage_export.h"

#define WEIR_RECONCILE_PREFIX "reconcile/"
#define WEIR_DRIFT_ONLY_OURS INT64_MAX /* the provider knows nothing of it */

/* A row of the ledger's usage table. */
struct weir_reconcile_use {
    const char *scope, *upstream, *model;
    int64_t utc_hour; /* hours since 1970 */
    int64_t requests;
    int64_t input_tok, cached_tok, cache_write_tok, output_tok;
    int64_t estimated_tok, late_tok, unmatched_tok; /* parts of input + output */
};

/* A hold whose owner died: charged by its estimate, though nobody knows what was used. */
struct weir_reconcile_lapse {
    const char *scope;
    const char *hold; /* its id, as text */
    int64_t created_s;
    int64_t asked_tok;   /* its estimate: a measure of whose use it was */
    int64_t charged_tok; /* 0 where a lapse refunds */
};

struct weir_reconcile_scope {
    const char *name;
    const char *parent; /* NULL: a root */
};

struct weir_reconcile_upstream {
    const char *name;
    bool speaks[WEIR_EXPORT_PROVIDERS];
};

/* One of the provider_ids of a scope or of an upstream. */
struct weir_reconcile_id {
    const char *id;
    const char *scope;    /* NULL: of the upstream */
    const char *upstream; /* NULL: of the scope */
};

struct weir_reconcile_input {
    const struct weir_export *export; /* without errors */
    const struct weir_reconcile_use *uses;
    size_t uses_count;
    const struct weir_reconcile_lapse *lapses;
    size_t lapses_count;
    const struct weir_reconcile_scope *scopes;
    size_t scopes_count;
    const struct weir_reconcile_upstream *upstreams;
    size_t upstreams_count;
    const struct weir_reconcile_id *ids;
    size_t ids_count;
    int64_t from_s, to_s; /* INT64_MIN, INT64_MAX: as far as the export goes */
    int64_t max_drift_ppm;
};

struct weir_reconcile_sums {
    int64_t requests; /* -1: not told */
    int64_t input_tok, cached_tok, cache_write_tok, output_tok;
};

enum weir_reconcile_match {
    WEIR_MATCH_SAME,        /* by the same name */
    WEIR_MATCH_DATED,       /* by names that differ in a date */
    WEIR_MATCH_ALL,         /* the export names no models */
    WEIR_MATCH_ONLY_OURS,   /* nothing of it in the export */
    WEIR_MATCH_ONLY_THEIRS, /* nothing of it in the ledger */
};

struct weir_reconcile_drift {
    int64_t input_ppm, output_ppm, total_ppm; /* WEIR_DRIFT_ONLY_OURS */
};

struct weir_reconcile_group {
    enum weir_export_provider provider;
    const char *scope;    /* that maps it, or NULL */
    const char *upstream; /* that maps it, or NULL; both NULL: what nobody maps */
    struct weir_reconcile_sums ours, theirs;
    struct weir_reconcile_drift drift; /* lapsed holds counted on our side, in total_ppm only */
    int64_t estimated_tok, late_tok, unmatched_tok, corrected_tok; /* parts of ours */
    int64_t lapsed_tok;                                            /* beside ours */
    size_t lapses_count;
    int64_t batch_tok; /* part of theirs */
    bool is_beyond;    /* max_drift_ppm, it or one of its lines */
};

struct weir_reconcile_line {
    size_t group;
    enum weir_reconcile_match match;
    const char *model;      /* "*": all */
    const char *ours_model; /* under which we know most of it; NULL: we do not */
    const char *upstream;   /* of ours most of it went through; NULL */
    struct weir_reconcile_sums ours, theirs;
    struct weir_reconcile_drift drift;
    int64_t estimated_tok, late_tok, unmatched_tok, corrected_tok;
    int64_t slipped_tok;           /* moved between neighbouring buckets */
    size_t windows, windows_count; /* first of its own in windows, and how many */
    uint32_t one_way_windows;      /* longest run of windows in a row that drift to one side ... */
    bool one_way_is_under;         /* ... which is this one */
    bool is_beyond;
};
#define WEIR_ONE_WAY_WINDOWS 3 /* from so many in a row on it is worth an alarm */

struct weir_reconcile_window {
    int64_t start_s, end_s; /* whole UTC hours */
    int64_t ours_input_tok, ours_output_tok;
    int64_t theirs_input_tok, theirs_output_tok;
    int64_t left_input_tok, left_output_tok; /* ours - theirs after the edge slip */
};

struct weir_reconcile_correction {
    size_t line;
    const char *scope; /* NULL: no scope of ours is known to have used it */
    int64_t start_s;   /* of the window it belongs to */
    int64_t end_s;
    int64_t input_tok, output_tok; /* signed */
};

struct weir_reconcile {
    struct weir_reconcile_group *groups; /* mapped scopes, mapped upstreams, the rest */
    size_t groups_count;
    struct weir_reconcile_line *lines; /* by group and model */
    size_t lines_count;
    struct weir_reconcile_window *windows;
    size_t windows_count;
    struct weir_reconcile_correction *corrections; /* by line, window, scope */
    size_t corrections_count;
    size_t *lapses; /* indices of those that the export speaks of: they can be written off */
    size_t lapses_count;
    int64_t from_s, to_s;   /* what was compared */
    int64_t uncovered_tok;  /* of ours, between from and to where the export has no bucket */
    int64_t other_tok;      /* of ours, of upstreams that speak to another provider */
    size_t lapses_left;     /* that may be another provider's */
    bool has_partial_hours; /* some hour is only told in part: ours is not known any finer */
    bool is_guessed;        /* nothing is mapped, and more than one upstream is compared */
    bool is_beyond;         /* any group */
    struct weir_reconcile_private *private;
};

/* Owns:   the caller frees with weir_reconcile_free; texts are the input's, which must outlive it.
 * Fails:  NULL: no memory. */
WEIR_MUST_USE struct weir_reconcile *weir_reconcile_run(const struct weir_reconcile_input *in);
void weir_reconcile_free(struct weir_reconcile *r); /* NULL is fine */

/* (ours - theirs) / theirs in parts per million, away from zero. */
int64_t weir_drift_ppm(int64_t ours, int64_t theirs);

/* The length of a model's name without a date at its end. */
size_t weir_model_base_bytes(const char *model);

#endif
