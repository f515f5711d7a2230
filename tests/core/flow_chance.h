/* flow_chance: random rules for runs of the flow machine.
 *
 * Draws stand in statements of their own: the order in which the values of an initializer are
 * worked out is the compiler's to choose, and a seed must mean the same run with every compiler. */
#ifndef WEIR_TESTS_FLOW_CHANCE_H
#define WEIR_TESTS_FLOW_CHANCE_H

#include "support/check.h"
#include "support/sim_host.h"

static inline uint64_t pick(struct sim *sim, uint64_t low, uint64_t high)
{
    return weir_rng_between(&sim->rng, low, high);
}

static inline bool odds(struct sim *sim, uint32_t permille)
{
    return weir_chance(&sim->rng, permille, 1000);
}

static inline struct weir_rate chance_rate(struct sim *sim, uint64_t low, uint64_t high)
{
    struct weir_rate rate = {0};
    if (odds(sim, 600))
        return rate;
    rate.rate_micro_per_s = pick(sim, low, high) * 1000000;
    rate.capacity = pick(sim, low, high * 4);
    return rate;
}

static inline struct weir_upstream_rules chance_upstream(struct sim *sim, uint32_t index,
                                                         uint32_t count)
{
    struct weir_upstream_rules u = {.fallback = WEIR_NONE};
    u.permits = (uint32_t)pick(sim, 1, 3);
    u.requests = chance_rate(sim, 1, 4);
    u.tokens = chance_rate(sim, 500, 4000);
    u.input = chance_rate(sim, 500, 2000);
    u.output = chance_rate(sim, 200, 2000);
    u.accounting = (enum weir_accounting)pick(sim, 0, 2);
    u.breaker.failures_in_row = (uint32_t)pick(sim, 0, 3);
    u.breaker.failure_percent = odds(sim, 500) ? 50 : 0;
    u.breaker.calls_min = 4;
    u.breaker.window_s = 30;
    u.breaker.trials = (uint32_t)pick(sim, 1, 2);
    u.breaker.cooldown_ns = pick(sim, 1, 4) * WEIR_NS_PER_S;
    u.breaker.cooldown_max_ns = 10 * WEIR_NS_PER_S;
    if (index + 1 < count && odds(sim, 500))
        u.fallback = (uint32_t)pick(sim, index + 1, count - 1);
    return u;
}

static inline struct weir_tenant_rules chance_tenant(struct sim *sim, uint32_t lanes)
{
    struct weir_tenant_rules t;
    t.weight = (uint32_t)pick(sim, 1, 4);
    t.lane = (uint32_t)pick(sim, 0, lanes - 1);
    t.requests = chance_rate(sim, 1, 4);
    t.tokens = chance_rate(sim, 800, 3000);
    t.refuse_over = odds(sim, 200);
    t.waiters_max = (uint32_t)pick(sim, 1, 12);
    t.paused = odds(sim, 30);
    t.strict = odds(sim, 300);
    t.overrun_cuts = odds(sim, 500);
    t.scope = (uint32_t)pick(sim, 0, 2);
    return t;
}

static inline void chance_pools(struct sim *draw, struct sim_config *c)
{
    c->upstream_count = (uint32_t)pick(draw, 1, 4);
    c->pool_count = (uint32_t)pick(draw, 1, c->upstream_count);
    for (uint32_t i = 0; i < c->pool_count; i++) {
        c->pools[i] = (struct weir_pool_rules){.work_input = 1, .work_output = 2};
        c->pools[i].policy = (enum weir_sched_policy)pick(draw, 0, 3);
    }
    for (uint32_t i = 0; i < c->upstream_count; i++) {
        struct weir_pool_rules *p = &c->pools[i % c->pool_count];
        p->upstreams[p->upstream_count++] = i;
        c->upstreams[i] = chance_upstream(draw, i, c->upstream_count);
    }
}

#endif
