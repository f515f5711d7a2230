/* fair_gap: the largest difference of service per weight between two tenants over any interval in
 * which both are backlogged or, when one-sided, in which the one that is behind is. Exact, in one
 * pass.
 *
 * The lead of a over b is served_a x weight_b - served_b x weight_a. Over an interval it changes by
 * the gap times both weights. So the largest gap of a over b that ends now is the lead now less the
 * lowest since both are, or b is, backlogged. Leads need 73 bits: 128 are used. */
#ifndef WEIR_MEASURE_FAIR_GAP_H
#define WEIR_MEASURE_FAIR_GAP_H

#include "measure/fair.h"

struct fair_lead {
    __int128 value;
    struct weir_fair_edge at;
};

struct fair_gap {
    uint32_t tenants_count;
    const uint32_t *weights;
    uint32_t weight_min;
    bool is_one_sided;
    struct fair_lead lowest[WEIR_FAIR_TENANTS_MAX][WEIR_FAIR_TENANTS_MAX]; /* [ahead][behind] */
    __int128 worst;                                                        /* change of a lead */
    uint32_t ahead, behind;
    struct weir_fair_edge from, to;
};

/* weights stay the caller's. */
void fair_gap_init(struct fair_gap *g, const uint32_t *weights, uint32_t tenants_count,
                   bool is_one_sided);

/* tenant has become backlogged: its intervals begin here. */
void fair_gap_begin(struct fair_gap *g, uint32_t tenant, const uint64_t *served,
                    struct weir_fair_edge now);

/* tenant has been served; it is backlogged up to here. */
void fair_gap_served(struct fair_gap *g, uint32_t tenant, const uint64_t *served,
                     const bool *is_backlogged, struct weir_fair_edge now);

/* Sets gap (rounded down), ahead, behind, from and to of *out. */
void fair_gap_result(const struct fair_gap *g, struct weir_fair_gap *out);

#endif
