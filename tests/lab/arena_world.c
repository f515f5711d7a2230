#include "lab/arena_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_TENANTS_MAX (WEIR_LAB_TENANTS_MAX)

/* One replica with a pool of 10,000 tokens, as the authors' A10G with a 7B model had. The times of a
 * step are fitted: with them the trace takes the 758 s that it took there in order of arrival, at 777
 * tokens a second. The permits are as many calls as fill the pool three quarters on average (a
 * request is 392 tokens), so that requests wait in the gateway and hardly behind it. */
static const struct weir_backend_rules arena_backend = {.replicas = 1,
                                                        .sequences = 256,
                                                        .step_ns = 19 * WEIR_NS_PER_MS,
                                                        .step_sequence_ns = 720 * WEIR_NS_PER_US,
                                                        .prefill_permille = 40,
                                                        .kv_tok = 10000};
#define ARENA_PERMITS 20

/* Both the test and the table end here when a run is not possible at all. */
static void arena_must(bool is_so, const char *text)
{
    if (is_so)
        return;
    fprintf(stderr, "arena: %s\n", text);
    exit(2);
}

void arena_load(struct weir_trace *trace, const char *name, const char *scheduler)
{
    const char *data = getenv("WEIR_TEST_DATA");
    char path[4096], error[512] = "";
    snprintf(path, sizeof path, "%s/traces/%s", data ? data : "tests/data", name);
    bool is_loaded = weir_trace_load(path, scheduler, trace, error, sizeof error);
    arena_must(is_loaded, error);
    arena_must(trace->names_count[WEIR_TRACE_TENANT] <= ARENA_TENANTS_MAX, "too many tenants");
}

void arena_heavy(const struct weir_trace *trace, bool heavy[static WEIR_LAB_TENANTS_MAX])
{
    uint64_t work[ARENA_TENANTS_MAX] = {0};
    for (size_t i = 0; i < trace->count; i++)
        work[trace->entries[i].tenant] +=
            (uint64_t)trace->entries[i].prompt_tok + 2 * (uint64_t)trace->entries[i].output_tok;
    for (uint32_t t = 0; t < ARENA_TENANTS_MAX; t++)
        heavy[t] = false;
    for (int i = 0; i < ARENA_HEAVY; i++) {
        uint32_t most = 0;
        for (uint32_t t = 1; t < ARENA_TENANTS_MAX; t++)
            if (!heavy[t] && (heavy[most] || work[t] > work[most]))
                most = t;
        heavy[most] = true;
    }
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void measure_waits(const struct weir_trace_entry *entries, size_t count, const bool *heavy,
                          bool is_heavy, struct arena_waits *waits)
{
    uint64_t *all = calloc(count + 1, sizeof *all), sum_ns = 0;
    *waits = (struct arena_waits){0};
    for (size_t i = 0; i < count; i++) {
        if (heavy[entries[i].tenant] != is_heavy)
            continue;
        if (entries[i].outcome != WEIR_TRACE_FINISHED) {
            waits->refused++;
            continue;
        }
        all[waits->served++] = entries[i].first_byte_ns;
        sum_ns += entries[i].first_byte_ns;
    }
    qsort(all, waits->served, sizeof *all, compare);
    if (waits->served > 0) {
        waits->mean_s = (double)sum_ns / 1e9 / (double)waits->served;
        double place = 0.95 * (double)(waits->served - 1);
        size_t below = (size_t)place, above = below + 1 < waits->served ? below + 1 : below;
        double part = place - (double)below;
        waits->p95_s = ((double)all[below] * (1 - part) + (double)all[above] * part) / 1e9;
    }
    free(all);
}

void arena_measure(const struct weir_trace_entry *entries, size_t count,
                   const bool heavy[static WEIR_LAB_TENANTS_MAX], struct arena_row *row)
{
    const char *problem = weir_difference_compute(entries, count, ARENA_TENANTS_MAX,
                                                  &weir_difference_published, &row->difference);
    arena_must(!problem, problem);
    measure_waits(entries, count, heavy, true, &row->heavy);
    measure_waits(entries, count, heavy, false, &row->light);
}

struct arena_ends {
    struct weir_trace_entry *entries;
    size_t count;
};

static void arena_ended(void *user, const struct weir_trace_entry *entry)
{
    struct arena_ends *ends = user;
    ends->entries[ends->count++] = *entry;
}

static void arena_tenants(const struct weir_trace *trace, uint32_t rpm,
                          struct weir_lab_tenant *tenants, uint32_t *map)
{
    for (uint32_t t = 0; t < trace->names_count[WEIR_TRACE_TENANT]; t++) {
        tenants[t] = (struct weir_lab_tenant){
            .rules = {.weight = 1, .waiters_max = 2000, .scope = WEIR_NONE, .refuse_over = true},
            .arrivals = WEIR_LAB_TRACE,
            .is_stream = true};
        snprintf(tenants[t].name, sizeof tenants[t].name, "%s",
                 t ? trace->names[WEIR_TRACE_TENANT][t] : "unnamed");
        if (rpm)
            tenants[t].rules.requests = (struct weir_rate){(uint64_t)rpm * 1000000 / 60, rpm};
        map[t] = t;
    }
}

/* To its end, looking a few times a second how many wait behind the gateway. */
static void arena_play(const struct weir_lab_scenario *s, struct arena_ends *ends,
                       struct arena_row *row)
{
    struct weir_lab_problem problem = {0};
    bool is_fine = weir_lab_check(s, &problem);
    arena_must(is_fine, problem.text);
    size_t bytes = (weir_lab_bytes(s) + 63) & ~(size_t)63;
    void *mem = aligned_alloc(64, bytes);
    arena_must(mem && ends->entries, "out of memory");
    memset(mem, 0, bytes);
    struct weir_lab *lab = weir_lab_init(mem, bytes, s, 1);
    weir_lab_on_ended(lab, arena_ended, ends);
    for (uint64_t at_ns = 0; weir_lab_run(lab, at_ns); at_ns += WEIR_NS_PER_S / 4) {
        uint32_t waiting = weir_lab_results(lab)->upstreams[0].backend.waiting;
        row->backend_waiting_max =
            waiting > row->backend_waiting_max ? waiting : row->backend_waiting_max;
    }
    row->hash = weir_lab_results(lab)->hash;
    free(mem);
}

void arena_run(const struct weir_trace *trace, const struct arena_setup *setup,
               struct arena_row *row, struct weir_trace_entry **entries)
{
    static struct weir_lab_tenant tenants[ARENA_TENANTS_MAX];
    uint32_t map[ARENA_TENANTS_MAX], tenant_count = trace->names_count[WEIR_TRACE_TENANT];
    bool heavy[WEIR_LAB_TENANTS_MAX];
    struct arena_ends ends = {.entries = calloc(trace->count, sizeof *ends.entries)};
    const struct weir_lab_upstream upstream = {.name = "a10g",
                                               .rules = {.permits = ARENA_PERMITS,
                                                         .breaker = weir_breaker_rules_default(),
                                                         .fallback = WEIR_NONE},
                                               .backend = arena_backend};
    const struct weir_pool_rules pool = {
        .policy = setup->policy, .upstream_count = 1, .work_input = 1, .work_output = 2};
    arena_tenants(trace, setup->rpm, tenants, map);
    const struct weir_lab_scenario s = {.traffic_ns = 700 * WEIR_NS_PER_S,
                                        .queue_wait_max_ns = 7200 * WEIR_NS_PER_S,
                                        .total_max_ns = 14400 * WEIR_NS_PER_S,
                                        .bin_ns = WEIR_NS_PER_S,
                                        .waiters_max = 2000,
                                        .lanes = {.lane_count = 1},
                                        .model = {.output_default_tok = 1024},
                                        .upstreams = &upstream,
                                        .upstream_count = 1,
                                        .pools = &pool,
                                        .pool_count = 1,
                                        .tenants = tenants,
                                        .tenant_count = tenant_count,
                                        .trace = trace->entries,
                                        .trace_count = trace->count,
                                        .trace_tenants = map,
                                        .trace_tenant_count = tenant_count};
    *row = (struct arena_row){0};
    arena_play(&s, &ends, row);
    arena_heavy(trace, heavy);
    arena_must(ends.count == trace->count, "not every request ended once");
    arena_measure(ends.entries, ends.count, heavy, row);
    if (entries)
        *entries = ends.entries;
    else
        free(ends.entries);
}
