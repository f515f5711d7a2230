/* routes: which pool serves a request, and the small index of each model's name.
 *
 * A model is served by the pool with an upstream that speaks the dialect and lists the model most
 * exactly: by name, else by the longest pattern that ends in an asterisk, else an upstream without
 * a list; among equals the first in the configuration's order. Names are interned, so that the
 * estimator learns per model: when the table is full, newcomers share index 0. A metric label is
 * never a client's text: it is the pattern of the configuration that matched, or "other". Thread:
 * loop. */
#ifndef WEIR_GATEWAY_ROUTES_H
#define WEIR_GATEWAY_ROUTES_H

#include "gateway/config.h"
#include "net/slice.h"
#include "wire/api.h"

struct weir_routes;

#define WEIR_MODEL_OTHER 0u

struct weir_route {
    uint32_t model;    /* index, for flow and the estimator */
    uint32_t pool;     /* WEIR_NONE: no upstream serves this model in this dialect */
    const char *label; /* for metrics and logs; static or the configuration's */
};

struct weir_routes *weir_routes_create(const struct weir_config *config, uint32_t models_max);
void weir_routes_destroy(struct weir_routes *routes);

/* The route of a model name; an empty name (paths without one) gets the first pool of the dialect.
 */
struct weir_route weir_routes_find(struct weir_routes *routes, enum weir_dialect dialect,
                                   struct weir_slice model);

/* Whether a list of names and patterns allows a model; an empty list allows all. */
bool weir_model_listed(const char *const *list, uint32_t count, struct weir_slice model,
                       const char **matched);

/* Whether an upstream speaks the dialect and serves the model of this index. Names that found no
 * room (index 0) are known to be served only where all are. */
bool weir_routes_serves(const struct weir_routes *routes, uint32_t upstream,
                        enum weir_dialect dialect, uint32_t model);

/* The fixed cost of a path by the configuration's routes; -1: none is given. */
int64_t weir_routes_cost_tok(const struct weir_routes *routes, struct weir_slice path);

/* Name of an interned model, for the admin API. */
const char *weir_routes_model_name(const struct weir_routes *routes, uint32_t model);

/* Its label, for metrics: the configuration's name or pattern, or "other". Models of one label have
 * the same pointer. */
const char *weir_routes_model_label(const struct weir_routes *routes, uint32_t model);

#endif
