/* The gap through the whole flow machine: three tenants that always wait, one of which asks far more
 * often and for more, with answers as long as chance will have it, in simulated time. */
#include "support/check.h"
#include "support/sim_host.h"

#define TENANTS 3u
#define SECONDS 75u

static void draw_plan(struct sim *sim, const struct sim_request *r, uint32_t upstream,
                      struct sim_plan *plan)
{
    (void)upstream;
    uint64_t mean_tok = r->arrival.tenant == 0 ? 300 : 60;
    int64_t output_tok = (int64_t)weir_rng_between(&sim->rng, 1, 2 * mean_tok);
    *plan = sim_plan_ok((20 + (uint64_t)output_tok) * WEIR_NS_PER_MS, 100, output_tok);
}

/* The widest gaps that were seen, and the last windows. */
struct seen {
    uint64_t widest_uwork[WEIR_GAP_WINDOWS];
    struct weir_gap_view last;
};

static struct seen flow_run(enum weir_sched_policy policy, uint64_t seed)
{
    static const uint32_t every_s[TENANTS] = {60, 40, 40};
    struct weir_tenant_rules tenants[TENANTS];
    struct sim_config c = sim_config_plain(4, tenants, TENANTS);
    struct seen seen = {{0}, {.ended_ns = 0}};
    struct sim sim;
    for (uint32_t i = 0; i < TENANTS; i++) {
        tenants[i].weight = 1 + i % 2;
        tenants[i].waiters_max = 300;
    }
    c.limits.requests_max = c.limits.waiters_max = 1000;
    c.limits.waiting_bytes_max = UINT64_C(1) << 30;
    c.pools[0].policy = policy;
    c.plan = draw_plan;
    c.seed = seed;
    c.is_audited = false;
    sim_open(&sim, &c);
    uint64_t start_ns = sim.now_ns;
    for (uint32_t second = 0; second < SECONDS; second++) {
        for (uint32_t i = 0; i < TENANTS; i++)
            for (uint32_t k = 0; k < every_s[i]; k++) {
                struct weir_arrival a = sim_arrival(&sim, i, 400, 4096, 3000 * WEIR_NS_PER_S);
                (void)sim_arrive(&sim, &a);
            }
        sim_run(&sim, start_ns + (second + 1) * WEIR_NS_PER_S);
        weir_flow_gap_view(sim.flow, 0, 0, sim.now_ns, &seen.last);
        for (uint32_t w = 0; w < WEIR_GAP_WINDOWS; w++) {
            const struct weir_gap_window *window = &seen.last.windows[w];
            CHECK_MSG(window->broken == 0, "%s, seed %llu, second %u, %u s: %u ahead of %u by %llu",
                      weir_sched_policy_name(policy), (unsigned long long)seed, second,
                      window->slices, window->ahead, window->behind,
                      (unsigned long long)window->gap_uwork);
            CHECK(window->gap_uwork <= window->bound_uwork);
            seen.widest_uwork[w] = weir_max_u64(seen.widest_uwork[w], window->gap_uwork);
        }
    }
    for (uint32_t w = 0; w < WEIR_GAP_WINDOWS; w++)
        CHECK_INT(seen.last.windows[w].compared, TENANTS);
    CHECK_INT(seen.last.backlogged, TENANTS);
    sim_free(&sim);
    return seen;
}

static void gap__tenants_that_always_wait__are_alike_under_all_but_fifo(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct seen fifo = flow_run(WEIR_SCHED_FIFO, seed);
        struct seen vtc = flow_run(WEIR_SCHED_VTC, seed);
        struct seen cost = flow_run(WEIR_SCHED_DRR_COST, seed);
        struct seen turns = flow_run(WEIR_SCHED_DRR, seed);
        /* In a minute fifo lets the one get far ahead; the others do not grow with the window. */
        CHECK(fifo.widest_uwork[2] > 10 * vtc.widest_uwork[2]);
        CHECK(fifo.widest_uwork[2] > 10 * cost.widest_uwork[2]);
        CHECK(fifo.last.windows[2].jain_ppm < 750000);
        CHECK(vtc.last.windows[2].jain_ppm > 995000);
        CHECK(cost.last.windows[2].jain_ppm > 995000);
        CHECK(fifo.last.windows[2].ahead == 0);
        CHECK(fifo.last.windows[2].bound_uwork == WEIR_GAP_NO_BOUND);
        CHECK(turns.last.in_requests);
        CHECK(turns.widest_uwork[2] <= WEIR_GAP_REQUEST_UWORK + 4); /* a turn and the rounding */
        if (seed == 1)
            printf(
                "# widest gap in work, 1 s / 10 s / 60 s: fifo %llu %llu %llu, vtc %llu %llu %llu, "
                "drr-cost %llu %llu %llu; bounds at the end, 60 s: vtc %llu, drr-cost %llu\n",
                (unsigned long long)fifo.widest_uwork[0] / 1000000,
                (unsigned long long)fifo.widest_uwork[1] / 1000000,
                (unsigned long long)fifo.widest_uwork[2] / 1000000,
                (unsigned long long)vtc.widest_uwork[0] / 1000000,
                (unsigned long long)vtc.widest_uwork[1] / 1000000,
                (unsigned long long)vtc.widest_uwork[2] / 1000000,
                (unsigned long long)cost.widest_uwork[0] / 1000000,
                (unsigned long long)cost.widest_uwork[1] / 1000000,
                (unsigned long long)cost.widest_uwork[2] / 1000000,
                (unsigned long long)vtc.last.windows[2].bound_uwork / 1000000,
                (unsigned long long)cost.last.windows[2].bound_uwork / 1000000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gap__tenants_that_always_wait__are_alike_under_all_but_fifo),
    };
    return cmocka_run_group_tests_name("gap_flow", tests, NULL, NULL);
}
