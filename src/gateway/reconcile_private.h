/* reconcile_private: what the two halves of reconcile share: gathering rows, and judging them. */
#ifndef WEIR_GATEWAY_RECONCILE_PRIVATE_H
#define WEIR_GATEWAY_RECONCILE_PRIVATE_H

#include "gateway/reconcile.h"

/* Distinct names, sorted. */
struct reconcile_names {
    const char **list;
    size_t count;
};

/* One row of either side, once it is known where it belongs. */
struct reconcile_entry {
    uint64_t group_key; /* provider, kind of owner, its index: groups are sorted by it */
    const char *model;
    uint32_t base_bytes; /* of model, without its date */
    bool is_theirs, is_correction, is_batch;
    uint32_t scope, upstream; /* indices of names; WEIR_NONE */
    size_t group, line, span;
    struct weir_reconcile_sums sums;
    int64_t estimated_tok, late_tok, unmatched_tok;
};

/* A lapsed hold that the export speaks of. */
struct reconcile_lapse {
    uint64_t group_key;
    size_t index; /* of the input */
    size_t span;
    uint32_t scope;
};

/* Tokens of the few scopes that have any in a stretch, of a hundred thousand that there may be. */
struct reconcile_weights {
    int64_t *of;    /* by scope; 0 but for those in list */
    uint32_t *list; /* ascending */
    size_t list_count;
};

struct weir_reconcile_private {
    const struct weir_reconcile_input *in;
    struct reconcile_names scopes, upstreams;
    uint32_t *parents;     /* of scopes; WEIR_NONE */
    bool *scope_is_mapped; /* has provider_ids itself */
    bool *upstream_is_mapped;
    const struct weir_reconcile_id **ids; /* sorted by id */
    struct weir_export_span *spans;       /* in whole hours, by provider and start */
    size_t spans_count;
    struct reconcile_entry *entries;
    size_t entries_count;
    struct reconcile_lapse *lapses;
    size_t lapses_count;
    /* What a correction is divided by: in a window, and in the line at hand by enum weight. */
    struct reconcile_weights in_window, in_line[2];
    size_t corrections_cap;
};

enum { RECONCILE_KIND_SCOPE, RECONCILE_KIND_UPSTREAM, RECONCILE_KIND_REST };

static inline uint64_t reconcile_group_key(enum weir_export_provider provider, uint32_t kind,
                                           uint32_t index)
{
    return (uint64_t)provider << 60 | (uint64_t)kind << 56 | index;
}

/* false: no memory. */
bool reconcile_gather(struct weir_reconcile *r, struct weir_reconcile_private *p);
bool reconcile_judge(struct weir_reconcile *r, struct weir_reconcile_private *p);

/* calloc that never asks for nothing. */
void *reconcile_zeroed(size_t count, size_t size);

#endif
