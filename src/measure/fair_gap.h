/* fair_gap: the largest difference of service per weight between two tenants over any interval in
 * which both are backlogged. Exact, in one pass.
 *
 * The lead of a over b is served_a x weight_b - served_b x weight_a. Over an interval it changes by
 * the gap times both weights; so the largest gap of a pair that ends now is its lead now against the
 * lowest and the highest lead since both are backlogged. Leads need 73 bits: 128 are used. */
#ifndef WEIR_MEASURE_FAIR_GAP_H
#define WEIR_MEASURE_FAIR_GAP_H

#include "measure/fair.h"

struct fair_lead {
    __int128 value;
    struct weir_fair_edge at;
};

struct fair_pair {
    struct fair_lead lowest, highest;
};

struct fair_gap {
    uint32_t tenants_count;
    const uint32_t *weights;
    uint32_t weight_min;
    struct fair_pair pairs[WEIR_FAIR_TENANTS_MAX * (WEIR_FAIR_TENANTS_MAX - 1) / 2];
    __int128 worst; /* change of a lead */
    uint32_t ahead, behind;
    struct weir_fair_edge from, to;
};

/* weights stay the caller's. */
void fair_gap_init(struct fair_gap *g, const uint32_t *weights, uint32_t tenants_count);

/* tenant has become backlogged: its intervals with the others that are begin here. */
void fair_gap_begin(struct fair_gap *g, uint32_t tenant, const uint64_t *served,
                    const bool *is_backlogged, struct weir_fair_edge now);

/* tenant, which is backlogged, has been served. */
void fair_gap_served(struct fair_gap *g, uint32_t tenant, const uint64_t *served,
                     const bool *is_backlogged, struct weir_fair_edge now);

/* Any of them have been. */
void fair_gap_served_all(struct fair_gap *g, const uint64_t *served, const bool *is_backlogged,
                         struct weir_fair_edge now);

/* Sets gap (rounded down), ahead, behind, from and to of *out. */
void fair_gap_result(const struct fair_gap *g, struct weir_fair_gap *out);

#endif
