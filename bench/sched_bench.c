/* sched_bench: what one enqueue and one dispatch cost, with up to a million tenants and a million
 * waiting requests.
 *
 *   sched_bench [POLICY TENANTS]     all policies and sizes, or one of them (for callgrind)
 *
 * Every tenant has one request waiting. Each step dispatches one request and enqueues another for
 * the same tenant, so the backlog stays. CPU time of this thread; the median of seven runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "core/rng.h"
#include "core/sched.h"

#define RUNS 7
#define STEPS 1000000u

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * WEIR_NS_PER_S + (uint64_t)t.tv_nsec;
}

static void *zeroes(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
        fputs("sched_bench: out of memory\n", stderr);
        exit(3);
    }
    return at;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(enum weir_sched_policy policy, uint32_t tenants)
{
    const struct weir_sched_limits limits = {.tenants_max = tenants, .items_max = tenants};
    size_t bytes = weir_sched_bytes(limits), items_bytes = tenants * sizeof(struct weir_sched_item);
    struct weir_sched_item *items = zeroes(items_bytes);
    void *memory = zeroes(bytes);
    struct weir_sched *s = weir_sched_init(memory, bytes, limits, policy, items);
    struct weir_rng rng;
    double ns[RUNS];
    weir_rng_seed(&rng, 1, 0);
    for (uint32_t i = 0; i < tenants; i++)
        weir_sched_enqueue(s, i, i, 1000000 * (1 + weir_rng_below(&rng, 4000)));
    for (int run = 0; run < RUNS; run++) {
        uint64_t from = cpu_ns();
        for (uint32_t i = 0; i < STEPS; i++) {
            struct weir_sched_choice c = weir_sched_take(s);
            weir_sched_enqueue(s, c.tenant, c.item, c.work_uwork);
        }
        ns[run] = (double)(cpu_ns() - from) / STEPS;
    }
    qsort(ns, RUNS, sizeof ns[0], compare);
    printf("%-9s %8u tenants  %7.1f ns per enqueue + dispatch  [%.1f .. %.1f]\n",
           weir_sched_policy_name(policy), tenants, ns[RUNS / 2], ns[0], ns[RUNS - 1]);
    munmap(memory, bytes);
    munmap(items, items_bytes);
}

int main(int argc, char **argv)
{
    static const enum weir_sched_policy policies[] = {WEIR_SCHED_FIFO, WEIR_SCHED_DRR,
                                                      WEIR_SCHED_DRR_COST, WEIR_SCHED_VTC};
    static const uint32_t sizes[] = {1000, 10000, 100000, 1000000};
    for (size_t p = 0; p < WEIR_COUNT(policies); p++)
        for (size_t i = 0; i < WEIR_COUNT(sizes); i++)
            if (argc < 3 || (strcmp(argv[1], weir_sched_policy_name(policies[p])) == 0 &&
                             (uint32_t)strtoul(argv[2], NULL, 10) == sizes[i]))
                measure(policies[p], sizes[i]);
    return 0;
}
