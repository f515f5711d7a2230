/* flow_case: short words for cases of the flow machine in simulated time. */
#ifndef WEIR_TESTS_FLOW_CASE_H
#define WEIR_TESTS_FLOW_CASE_H

#include "support/check.h"
#include "support/sim_host.h"

#define MS WEIR_NS_PER_MS
#define SECOND WEIR_NS_PER_S

/* One plan for each upstream, changed by the test as it goes. */
struct script {
    struct sim_plan of[SIM_UPSTREAMS_MAX];
};

static inline void script_plan(struct sim *sim, const struct sim_request *r, uint32_t upstream,
                               struct sim_plan *plan)
{
    (void)r;
    *plan = ((const struct script *)sim->config.user)->of[upstream];
}

static inline struct script script_ok(uint64_t service_ns)
{
    struct script s;
    for (uint32_t i = 0; i < SIM_UPSTREAMS_MAX; i++)
        s.of[i] = sim_plan_ok(service_ns, 100, 100);
    return s;
}

static inline struct sim_plan plan_status(uint32_t status, uint64_t service_ns)
{
    struct sim_plan p = sim_plan_ok(service_ns, -1, -1);
    p.status = status;
    p.output_seen_bytes = 0;
    return p;
}

static inline struct sim_plan plan_fails(enum weir_call_end end, bool sent, uint64_t after_ns)
{
    return (struct sim_plan){.sent_ns = sent ? 0 : WEIR_NEVER_NS,
                             .head_ns = WEIR_NEVER_NS,
                             .end_ns = after_ns,
                             .end = end,
                             .usage = {-1, -1, -1, -1}};
}

static inline struct weir_rate rate(uint64_t per_s, uint64_t capacity)
{
    return (struct weir_rate){.rate_micro_per_s = per_s * 1000000, .capacity = capacity};
}

static inline uint32_t arrive(struct sim *sim, uint32_t tenant, uint64_t patience_ns)
{
    struct weir_arrival a = sim_arrival(sim, tenant, 500, 100, patience_ns);
    return sim_arrive(sim, &a);
}

static inline enum weir_refusal try(struct sim *sim, uint32_t tenant, uint64_t patience_ns)
{
    uint32_t r = arrive(sim, tenant, patience_ns);
    return sim->requests[r].refusal;
}

static inline enum weir_refusal try_arrival(struct sim *sim, const struct weir_arrival *arrival)
{
    uint32_t r = sim_arrive(sim, arrival);
    return sim->requests[r].refusal;
}

/* Tells the flow without pumping between: all at once. Returns the first index. */
static inline uint32_t arrive_many(struct sim *sim, uint32_t tenant, uint32_t count,
                                   uint64_t patience_ns)
{
    uint32_t first = sim->requests_count;
    struct weir_arrival a = sim_arrival(sim, tenant, 500, 100, patience_ns);
    for (uint32_t i = 0; i < count; i++)
        sim_arrive_at(sim, sim->now_ns, &a);
    sim_run(sim, sim->now_ns);
    return first;
}

static inline uint64_t wait_of(const struct sim *sim, uint32_t request)
{
    const struct sim_request *r = &sim->requests[request];
    return r->first_dispatched_ns - r->arrived_ns;
}

static inline uint32_t waiters_now(const struct sim *sim)
{
    struct weir_flow_view view;
    weir_flow_view(sim->flow, &view);
    return view.waiters_now;
}

static inline void finish_all(struct sim *sim)
{
    CHECK(sim_run_dry(sim, sim->now_ns + 24 * 3600 * SECOND));
    sim_close_settled(sim);
}

#endif
