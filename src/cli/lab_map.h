/* lab_map: a configuration as a scenario of the model: the gateway's own settings, who sends what,
 * and what stands behind each upstream.
 *
 * What the model does not know is left out: addresses, keys, TLS, HTTP limits, idempotency, names
 * of models. A window of a month outlasts every run. No I/O, nothing printed. Thread: any. */
#ifndef WEIR_CLI_LAB_MAP_H
#define WEIR_CLI_LAB_MAP_H

#include "gateway/config.h"
#include "lab/lab.h"

/* A trace with the names of its tenants; its entries are by arrival and count from the first. */
struct lab_map_trace {
    const struct weir_trace_entry *entries;
    size_t count;
    const char *const *names; /* of its tenants; "" for an unnamed one */
    uint32_t names_count;
};

/* The scenario points into this, so it is not copied. */
struct lab_map {
    struct weir_lab_scenario scenario;
    struct weir_lab_tenant tenants[WEIR_LAB_TENANTS_MAX];
    struct weir_lab_upstream upstreams[WEIR_LAB_UPSTREAMS_MAX];
    struct weir_pool_rules pools[WEIR_LAB_POOLS_MAX];
    struct weir_lab_scope scopes[WEIR_LAB_SCOPES_MAX];
    struct weir_backend_trouble troubles[WEIR_LAB_UPSTREAMS_MAX][WEIR_BACKEND_TROUBLES_MAX];
    uint32_t *trace_tenants; /* allocated */
    uint32_t left_out;       /* tenants of the traffic that a trace displaced */
    uint32_t merged;         /* tenants of the trace that stand together as "others" */
    char error[256];
};

/* With a trace, tenants whose arrivals are its own keep their settings and the others' traffic is
 * left out; a tenant of the trace that the traffic does not name has the defaults. Of more than 64,
 * those with the fewest requests stand together as "others".
 *
 * Owns:   *map frees with lab_map_free; config and trace must outlive it.
 * Fails:  false, map->error says what and where in the words of the file. */
WEIR_MUST_USE bool lab_map_config(const struct weir_config *config,
                                  const struct lab_map_trace *trace, struct lab_map *map);
void lab_map_free(struct lab_map *map);

#endif
