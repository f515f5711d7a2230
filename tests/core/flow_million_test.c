/* A million requests waiting at once: dispatch, departure from the middle, deadlines, a breaker
 * that opens, and memory that is only touched where it is used. No step may cost more because many
 * wait; a step that did would make this run for hours. */
#include <stdlib.h>
#include <sys/mman.h>

#include "core/flow.h"
#include "core/rng.h"
#include "support/check.h"

#define WAITING 1000000u
#define TENANTS 100000u

struct million {
    struct weir_flow *flow;
    void *mem;
    size_t bytes;
    uint64_t now_ns;
    uint64_t hold;
    uint64_t *ids;
    uint32_t finished, refused, calls;
    uint64_t last_call;
};

static void million_open(struct million *m, enum weir_sched_policy policy)
{
    struct weir_flow_limits limits = {.tenants_max = TENANTS,
                                      .requests_max = WAITING + 100,
                                      .models_max = 1,
                                      .waiters_max = WAITING + 10,
                                      .waiting_bytes_max = UINT64_C(1) << 50};
    struct weir_lane_rules lanes = {.lane_count = 3, .floor_percent = {0, 20, 5}};
    *m = (struct million){.now_ns = WEIR_NS_PER_S};
    m->bytes = weir_flow_bytes(&limits, 1, 1, &lanes);
    m->mem = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(m->mem != MAP_FAILED);
    m->ids = calloc(WAITING, sizeof *m->ids);
    CHECK(m->ids != NULL);
    m->flow = weir_flow_init(m->mem, m->bytes, &limits, 1, 1, &lanes);
    struct weir_upstream_rules upstream = {
        .permits = 1, .breaker = weir_breaker_rules_default(), .fallback = WEIR_NONE};
    struct weir_pool_rules pool = {
        .policy = policy, .upstream_count = 1, .work_input = 1, .work_output = 2};
    weir_flow_upstream_set(m->flow, 0, &upstream, m->now_ns);
    weir_flow_pool_set(m->flow, 0, &pool);
    struct weir_model_rules model = {.output_default_tok = 100};
    weir_flow_model_set(m->flow, 0, &model);
    struct weir_tenant_rules tenant = {.weight = 1, .waiters_max = WAITING};
    for (uint32_t i = 0; i < TENANTS; i++) {
        tenant.lane = i % 3;
        weir_flow_tenant_set(m->flow, i, &tenant, m->now_ns);
    }
}

static void million_close(struct million *m)
{
    munmap(m->mem, m->bytes);
    free(m->ids);
}

static uint64_t million_arrive(struct million *m, uint32_t tenant, uint64_t patience_ns)
{
    struct weir_arrival a = {.tenant = tenant,
                             .lane = WEIR_NONE,
                             .text = {.letters = 800, .words = 200, .text_bytes = 1000},
                             .metered = true,
                             .bytes = 1000,
                             .queue_deadline_ns = m->now_ns + patience_ns,
                             .total_deadline_ns = WEIR_NEVER_NS,
                             .hold = ++m->hold};
    uint64_t id;
    struct weir_refused refused;
    CHECK_INT(weir_flow_arrive(m->flow, &a, m->now_ns, &id, &refused), WEIR_REFUSAL_NONE);
    return id;
}

static void million_end(struct million *m, uint64_t id, uint32_t status)
{
    weir_flow_sent(m->flow, id, m->now_ns);
    CHECK(weir_flow_head(m->flow, id, status, 0, m->now_ns));
    struct weir_call_facts facts = {
        .end = WEIR_CALL_COMPLETE, .sent = true, .status = status, .usage = {200, 0, 0, 50}};
    weir_flow_ended(m->flow, id, &facts, m->now_ns);
}

static void million_effects(struct million *m)
{
    struct weir_effect e;
    while (weir_flow_next(m->flow, &e)) {
        if (e.kind == WEIR_EFFECT_RESERVE)
            weir_flow_reserved(m->flow, e.request,
                               &(struct weir_reserve_told){.answer = WEIR_RESERVE_HELD}, m->now_ns);
        m->finished += e.kind == WEIR_EFFECT_FINISH;
        m->refused += e.kind == WEIR_EFFECT_REFUSE;
        if (e.kind == WEIR_EFFECT_DISPATCH) {
            m->calls++;
            m->last_call = e.request;
        }
    }
}

static void million_settle(struct million *m)
{
    do {
        weir_flow_tick(m->flow, m->now_ns);
        weir_flow_pump(m->flow, m->now_ns);
        million_effects(m);
    } while (weir_flow_due_ns(m->flow) <= m->now_ns);
}

static void million_run(enum weir_sched_policy policy)
{
    struct million m;
    struct weir_rng rng;
    struct weir_flow_view view;
    weir_rng_seed(&rng, 42, 1);
    million_open(&m, policy);
    /* The first takes the permit; then a million wait, with deadlines spread over an hour from the
     * second on. */
    million_arrive(&m, 0, WEIR_NS_PER_S);
    million_settle(&m);
    for (uint32_t i = 0; i < WAITING; i++) {
        m.now_ns += 1000;
        m.ids[i] = million_arrive(&m, (uint32_t)weir_rng_below(&rng, TENANTS),
                                  weir_rng_between(&rng, 3600, 7200) * WEIR_NS_PER_S);
        million_effects(&m);
    }
    weir_flow_view(m.flow, &view);
    CHECK_INT(view.waiters_now, WAITING);
    /* Ten thousand are served one by one, ten thousand leave from wherever they stand. */
    for (uint32_t i = 0; i < 10000; i++) {
        m.now_ns += 100000;
        million_end(&m, m.last_call, 200);
        million_settle(&m);
        weir_flow_client_gone(m.flow, m.ids[weir_rng_below(&rng, WAITING)], m.now_ns);
        million_settle(&m);
    }
    CHECK(m.calls >= 10000);
    /* Half of the deadlines pass in one tick, the others when the breaker opens and turns them
     * away. */
    uint32_t before = m.refused;
    m.now_ns += 5400 * WEIR_NS_PER_S;
    million_settle(&m);
    CHECK(m.refused - before > 400000);
    for (uint32_t i = 0; i < 5; i++) {
        million_end(&m, m.last_call, 500);
        million_settle(&m);
    }
    weir_flow_view(m.flow, &view);
    CHECK_INT(view.waiters_now, 0);
    CHECK_INT(view.in_flight_now, 0);
    CHECK_INT(view.holds_now, 0);
    CHECK_INT(view.requests_now, 0);
    CHECK_INT(view.waiting_bytes_now, 0);
    CHECK_INT(m.finished, WAITING + 1);
    weir_flow_audit(m.flow);
    million_close(&m);
}

static void flow__a_million_waiting_under_vtc__all_leave_by_some_way(void **state)
{
    (void)state;
    million_run(WEIR_SCHED_VTC);
}

static void flow__a_million_waiting_under_drr_cost__all_leave_by_some_way(void **state)
{
    (void)state;
    million_run(WEIR_SCHED_DRR_COST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flow__a_million_waiting_under_vtc__all_leave_by_some_way),
        cmocka_unit_test(flow__a_million_waiting_under_drr_cost__all_leave_by_some_way),
    };
    return cmocka_run_group_tests_name("flow_million", tests, NULL, NULL);
}
