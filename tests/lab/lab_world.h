/* lab_world: small scenarios for tests of the model, and what came of them. */
#ifndef WEIR_TESTS_LAB_WORLD_H
#define WEIR_TESTS_LAB_WORLD_H

#include "lab/lab.h"
#include "support/check.h"

#define WORLD_MAX 8

/* A scenario with what it points to; it points into itself. */
struct world {
    struct weir_lab_scenario s;
    struct weir_lab_tenant tenants[WORLD_MAX];
    struct weir_lab_upstream upstreams[WORLD_MAX];
    struct weir_pool_rules pools[WORLD_MAX];
    struct weir_lab_scope scopes[WORLD_MAX];
};

/* A run and the requests that ended in it, in order. */
struct world_run {
    void *mem;
    size_t bytes;
    struct weir_lab *lab;
    const struct weir_lab_results *r;
    struct weir_trace_entry *entries;
    size_t count, room;
};

/* Tenants t0, t1, ... of weight 1 that send once a second on average for 100 s, prompts of 100 and
 * outputs of 50 tokens, before one upstream u0 with so many permits and a backend of one replica
 * that makes 100 tokens a second and sequence, however many. Everybody is patient. */
void world_plain(struct world *w, uint32_t tenants, uint32_t permits);
struct weir_length world_fixed(uint32_t tok);
struct weir_length world_uniform(uint32_t low, uint32_t high);
/* As an SDK with its defaults. */
struct weir_lab_client world_sdk(void);

/* Sets up; nothing has happened yet. */
void world_open(struct world_run *run, const struct weir_lab_scenario *s, uint64_t seed);
/* To the end. */
void world_run(struct world_run *run, const struct weir_lab_scenario *s, uint64_t seed);
void world_free(struct world_run *run);
/* What must hold of every run, at any time; and when all is over. NULL, or what does not. */
const char *world_wrong_sums(const struct weir_lab *lab, const struct weir_lab_results *r);
const char *world_wrong_over(const struct weir_lab *lab, const struct weir_lab_results *r);

#endif
