/* flow_bench: what the gate and the flow machine cost for one request, and with a million waiting.
 *
 *   meson setup build-bench -Dbench=true && ninja -C build-bench && build-bench/bench/flow_bench
 *
 * "unqueued" is a request's whole life with a permit free and a ledger in memory: arrive, RESERVE,
 * reserved, pump, DISPATCH, sent, head, ended, SETTLE, FINISH; its rows are measured as
 * bench/measure.h says. The rows with a queue, without arguments only, are CPU time of this thread,
 * the median of 11 runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "core/flow.h"
#include "measure.h"

#define RUNS 11

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * WEIR_NS_PER_S + (uint64_t)t.tv_nsec;
}

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

struct bench {
    struct weir_flow *flow;
    void *mem;
    size_t bytes;
    uint32_t tenants;
    uint64_t now_ns;
    uint64_t hold;
};

static void bench_open(struct bench *b, uint32_t tenants, uint32_t requests, uint32_t permits,
                       enum weir_sched_policy policy)
{
    struct weir_flow_limits limits = {.tenants_max = tenants,
                                      .requests_max = requests,
                                      .models_max = 1,
                                      .waiters_max = requests,
                                      .waiting_bytes_max = UINT64_C(1) << 50};
    struct weir_lane_rules lanes = {.lane_count = 3, .floor_percent = {0, 20, 5}};
    *b = (struct bench){.tenants = tenants, .now_ns = WEIR_NS_PER_S};
    b->bytes = weir_flow_bytes(&limits, 1, 1, &lanes);
    b->mem = mmap(NULL, b->bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (b->mem == MAP_FAILED)
        exit(1);
    b->flow = weir_flow_init(b->mem, b->bytes, &limits, 1, 1, &lanes);
    struct weir_upstream_rules upstream = {.permits = permits,
                                           .requests = {UINT64_C(1) << 50, UINT64_C(1) << 40},
                                           .tokens = {UINT64_C(1) << 60, UINT64_C(1) << 41},
                                           .breaker = weir_breaker_rules_default(),
                                           .fallback = WEIR_NONE};
    weir_flow_upstream_set(b->flow, 0, &upstream, b->now_ns);
    struct weir_pool_rules pool = {
        .policy = policy, .upstream_count = 1, .work_input = 1, .work_output = 2};
    weir_flow_pool_set(b->flow, 0, &pool);
    for (uint32_t i = 0; i < tenants; i++) {
        struct weir_tenant_rules tenant = {.weight = 1,
                                           .lane = 1,
                                           .requests = {UINT64_C(1) << 50, UINT64_C(1) << 40},
                                           .tokens = {UINT64_C(1) << 60, UINT64_C(1) << 41},
                                           .waiters_max = requests};
        weir_flow_tenant_set(b->flow, i, &tenant, b->now_ns);
    }
    struct weir_model_rules model = {.output_default_tok = 4096};
    weir_flow_model_set(b->flow, 0, &model);
}

static void bench_close(struct bench *b)
{
    munmap(b->mem, b->bytes);
}

static uint64_t bench_arrive(struct bench *b, uint32_t tenant)
{
    struct weir_arrival a = {.tenant = tenant,
                             .lane = WEIR_NONE,
                             .text = {.letters = 1200,
                                      .words = 260,
                                      .space = 260,
                                      .punct = 40,
                                      .messages = 3,
                                      .text_bytes = 1500},
                             .output_limit_tok = 400,
                             .choices = 1,
                             .metered = true,
                             .bytes = 1700,
                             .queue_deadline_ns = b->now_ns + 3600 * WEIR_NS_PER_S,
                             .total_deadline_ns = b->now_ns + 7200 * WEIR_NS_PER_S,
                             .hold = ++b->hold};
    uint64_t id;
    struct weir_refused refused;
    if (weir_flow_arrive(b->flow, &a, b->now_ns, &id, &refused) != WEIR_REFUSAL_NONE)
        abort();
    return id;
}

/* Carries effects out with a ledger that says yes and upstreams that answer at once; returns how
 * many ended. */
static uint32_t bench_effects(struct bench *b, bool is_answered)
{
    struct weir_effect e;
    uint32_t finished = 0;
    while (weir_flow_next(b->flow, &e)) {
        if (e.kind == WEIR_EFFECT_RESERVE)
            weir_flow_reserved(b->flow, e.request,
                               &(struct weir_reserve_told){.answer = WEIR_RESERVE_HELD}, b->now_ns);
        finished += e.kind == WEIR_EFFECT_FINISH;
        if (e.kind != WEIR_EFFECT_DISPATCH || !is_answered)
            continue;
        weir_flow_sent(b->flow, e.request, b->now_ns);
        if (!weir_flow_head(b->flow, e.request, 200, 0, b->now_ns))
            abort();
        struct weir_call_facts facts = {.end = WEIR_CALL_COMPLETE,
                                        .sent = true,
                                        .status = 200,
                                        .usage = {350, 0, 0, 120},
                                        .output_seen_bytes = 480,
                                        .answer_bytes = 900};
        weir_flow_ended(b->flow, e.request, &facts, b->now_ns);
    }
    return finished;
}

/* One request from its arrival to its FINISH. */
static void bench_request(void *arg)
{
    struct bench *b = arg;
    b->now_ns += 5000;
    bench_arrive(b, (uint32_t)(b->hold % b->tenants));
    weir_flow_pump(b->flow, b->now_ns);
    uint32_t finished = 0;
    while (finished == 0) {
        finished += bench_effects(b, true);
        weir_flow_pump(b->flow, b->now_ns);
    }
}

static void bench_unqueued(enum weir_sched_policy policy, uint32_t tenants)
{
    struct bench b;
    char name[64];
    bench_open(&b, tenants, 4096, 64, policy);
    snprintf(name, sizeof name, "unqueued, %s, %u tenants", weir_sched_policy_name(policy),
             tenants);
    bench_row(name, bench_request, &b, 0);
    bench_close(&b);
}

/* n waiting, one permit: each round one call ends, one is dispatched, one arrives. */
static void bench_queued(enum weir_sched_policy policy, uint32_t tenants, uint32_t waiting)
{
    enum { ROUNDS = 100000 };
    struct bench b;
    bench_open(&b, tenants, waiting + 16, 1, policy);
    uint64_t start_ns = cpu_ns();
    for (uint32_t i = 0; i < waiting; i++) {
        b.now_ns += 1000;
        bench_arrive(&b, (uint32_t)((uint64_t)i * 2654435761u % tenants));
        (void)bench_effects(&b, false); /* no pump: nobody is dispatched yet */
    }
    uint64_t fill_ns = (cpu_ns() - start_ns) / waiting;
    uint64_t ns[RUNS];
    for (uint32_t run = 0; run < RUNS; run++) {
        start_ns = cpu_ns();
        for (uint32_t i = 0; i < ROUNDS / RUNS; i++) {
            b.now_ns += 1000;
            bench_arrive(&b, (uint32_t)((b.hold * 2654435761u) % tenants));
            uint32_t finished = 0;
            while (finished == 0) {
                weir_flow_pump(b.flow, b.now_ns);
                finished += bench_effects(&b, true);
            }
        }
        ns[run] = (cpu_ns() - start_ns) / (ROUNDS / RUNS);
    }
    qsort(ns, RUNS, sizeof ns[0], compare_u64);
    printf("%-10s %7u waiting, %7u tenants     %6llu ns a request (%llu .. %llu), %llu ns to queue "
           "one\n",
           weir_sched_policy_name(policy), waiting, tenants, (unsigned long long)ns[RUNS / 2],
           (unsigned long long)ns[0], (unsigned long long)ns[RUNS - 1],
           (unsigned long long)fill_ns);
    bench_close(&b);
}

static void bench_panic(const char *expression, const char *file, int line)
{
    fprintf(stderr, "%s:%d: broken: %s\n", file, line, expression);
    exit(1);
}

int main(int argc, char **argv)
{
    static const enum weir_sched_policy policies[] = {WEIR_SCHED_FIFO, WEIR_SCHED_DRR,
                                                      WEIR_SCHED_DRR_COST, WEIR_SCHED_VTC};
    weir_panic_hook = bench_panic;
    bench_begin(argc, argv);
    for (size_t i = 0; i < WEIR_COUNT(policies); i++) {
        bench_unqueued(policies[i], 4);
        if (argc > 1)
            continue;
        bench_queued(policies[i], 1000, 100000);
        bench_queued(policies[i], 100000, 1000000);
    }
    return bench_end();
}
