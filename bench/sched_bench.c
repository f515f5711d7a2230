/* sched_bench: what one enqueue and one dispatch cost, with ten to a million tenants waiting.
 *
 *   build-bench/bench/sched_bench
 *   valgrind --tool=callgrind --toggle-collect=measured \
 *       build-bench/bench/sched_bench vtc 1000 100000      (policy, tenants, pairs)
 *
 * "steady": every tenant has one item waiting; the one that is served comes back at once. "random":
 * as many items, each new one from a tenant drawn at random, so that tenants come and go. Costs are
 * drawn from 100 to 10,000 work, one in a hundred is a hundred times that: far above any quantum.
 * CPU time of this thread, median of 9 runs after one to warm up, each of as many pairs as there
 * are tenants (at least 100,000). Instructions come from callgrind: the function `measured` is one
 * run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "core/rng.h"
#include "core/sched.h"

#define RUNS 9

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

static void *zero_memory(size_t bytes)
{
    void *mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mem == MAP_FAILED) {
        perror("sched_bench: mmap");
        exit(1);
    }
    return mem;
}

struct draw {
    uint32_t tenant;
    uint32_t unused;
    uint64_t work_uwork;
};

static uint64_t draw_work(struct weir_rng *rng)
{
    uint64_t work = weir_rng_between(rng, 100, 10000) * (uint64_t)WEIR_UWORK_PER_WORK;
    return weir_chance(rng, 1, 100) ? work * 100 : work;
}

/* One run; kept apart so that callgrind can count it alone. */
__attribute__((noinline)) void measured(struct weir_sched *s, const struct draw *draws,
                                        uint32_t pairs, bool steady);

void measured(struct weir_sched *s, const struct draw *draws, uint32_t pairs, bool steady)
{
    for (uint32_t i = 0; i < pairs; i++) {
        struct weir_sched_choice choice = weir_sched_take(s);
        weir_sched_enqueue(s, steady ? choice.tenant : draws[i].tenant, choice.item,
                           draws[i].work_uwork);
    }
}

static uint64_t bench(enum weir_sched_policy policy, uint32_t tenants, uint32_t pairs,
                      uint32_t runs, bool steady)
{
    struct weir_sched_limits limits = {tenants, tenants};
    struct weir_rng rng;
    weir_rng_seed(&rng, 1, 1);
    size_t bytes = weir_sched_bytes(limits), items_bytes = tenants * sizeof(struct weir_sched_item);
    void *mem = zero_memory(bytes);
    struct weir_sched_item *items = zero_memory(items_bytes);
    struct weir_sched *s = weir_sched_init(mem, bytes, limits, policy, items);
    struct draw *draws = malloc(pairs * sizeof *draws);
    uint64_t ns[RUNS + 1];
    if (!draws)
        exit(1);
    for (uint32_t i = 0; i < tenants; i++)
        weir_sched_enqueue(s, i, i, draw_work(&rng));
    for (uint32_t run = 0; run < runs; run++) {
        for (uint32_t i = 0; i < pairs; i++)
            draws[i] = (struct draw){(uint32_t)weir_rng_below(&rng, tenants), 0, draw_work(&rng)};
        uint64_t start_ns = cpu_ns();
        measured(s, draws, pairs, steady);
        ns[run] = cpu_ns() - start_ns;
    }
    free(draws);
    munmap(mem, bytes);
    munmap(items, items_bytes);
    qsort(ns + 1, runs - 1, sizeof ns[0], compare_u64); /* the first warms up */
    return ns[1 + (runs - 1) / 2] * 10 / pairs;
}

static void one(const char *policy_name, uint32_t tenants, uint32_t pairs)
{
    for (unsigned p = 0; p <= WEIR_SCHED_VTC; p++)
        if (strcmp(policy_name, weir_sched_policy_name((enum weir_sched_policy)p)) == 0)
            bench((enum weir_sched_policy)p, tenants, pairs, 2, false);
}

int main(int argc, char **argv)
{
    static const uint32_t tenants[] = {10, 100, 1000, 10000, 100000, 1000000};
    if (argc == 4) {
        one(argv[1], (uint32_t)atoi(argv[2]), (uint32_t)atoi(argv[3]));
        return 0;
    }
    printf("ns per enqueue + dispatch, median of %d\n%-18s", RUNS, "tenants");
    for (size_t n = 0; n < WEIR_COUNT(tenants); n++)
        printf("%10u", tenants[n]);
    printf("\n");
    for (unsigned p = 0; p <= WEIR_SCHED_VTC; p++)
        for (unsigned steady = 0; steady < 2; steady++) {
            enum weir_sched_policy policy = (enum weir_sched_policy)p;
            printf("%-9s %-8s", weir_sched_policy_name(policy), steady ? "steady" : "random");
            for (size_t n = 0; n < WEIR_COUNT(tenants); n++) {
                uint32_t pairs = tenants[n] < 100000 ? 100000 : tenants[n];
                uint64_t tenths = bench(policy, tenants[n], pairs, RUNS + 1, steady);
                printf("%8llu.%llu", (unsigned long long)tenths / 10,
                       (unsigned long long)tenths % 10);
                fflush(stdout);
            }
            printf("\n");
        }
    return 0;
}
