#include "measure.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RUNS 21
#define RUN_NS UINT64_C(10000000)

static const char *only; /* NULL: all rows, timed */
static uint64_t only_count;
static bool only_found;

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int compare_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void bench_begin(int argc, char **argv)
{
    if (argc == 1)
        return;
    char *end = NULL;
    only_count = argc == 3 ? strtoull(argv[2], &end, 10) : 0;
    if (argc != 3 || only_count == 0 || *end) {
        fprintf(stderr, "usage: %s [ROW COUNT]\n", argv[0]);
        exit(2);
    }
    only = argv[1];
}

static uint64_t timed(void (*work)(void *), void *arg, uint64_t rounds)
{
    uint64_t start_ns = cpu_ns();
    for (uint64_t i = 0; i < rounds; i++)
        work(arg);
    return cpu_ns() - start_ns;
}

void bench_row(const char *name, void (*work)(void *), void *arg, size_t bytes)
{
    if (only) {
        if (strcmp(only, name) != 0)
            return;
        only_found = true;
        for (uint64_t i = 0; i < only_count; i++)
            work(arg);
        return;
    }
    double ns[RUNS];
    uint64_t rounds = 1;
    while (timed(work, arg, rounds) < RUN_NS)
        rounds *= 2;
    for (int run = 0; run < RUNS; run++)
        ns[run] = (double)timed(work, arg, rounds) / (double)rounds;
    qsort(ns, RUNS, sizeof ns[0], compare_double);
    printf("%-44s %10.1f ns  (%.1f .. %.1f)", name, ns[RUNS / 2], ns[0], ns[RUNS - 1]);
    if (bytes > 0)
        printf("  %zu bytes, %.2f GB/s", bytes, (double)bytes / ns[RUNS / 2]);
    printf("\n");
}

int bench_end(void)
{
    if (!only || only_found)
        return 0;
    fprintf(stderr, "there is no row '%s'\n", only);
    return 2;
}
