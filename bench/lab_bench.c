/* lab_bench: what the model costs: whole runs of the default scenario, and its parts alone.
 *
 *   meson setup build-bench -Dbench=true -Dbuildtype=release && ninja -C build-bench
 *   build-bench/bench/lab_bench
 *
 * A run is set up in fresh pages of zero, sends for 120 s of its own time and ends when the last
 * answer has; the page makes one for every change of a control. "settled" is as it stands at first;
 * "crowded" has the agent, the burst, a batch tenant of 4 requests a second and token limits, and
 * waits in the gate. The first lines say what happens in a run: divide, for events a second.
 * Measured as bench/measure.h says. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "lab/lab.h"
#include "measure.h"

struct run {
    struct weir_lab_store store;
    size_t bytes;
    bool is_told;
    struct weir_lab_results results;
    uint64_t offered;
};

static void run_once(void *arg)
{
    struct run *r = arg;
    void *mem = mmap(NULL, r->bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mem == MAP_FAILED)
        exit(1);
    struct weir_lab *lab = weir_lab_init(mem, r->bytes, &r->store.scenario, 1);
    (void)weir_lab_run(lab, WEIR_NEVER_NS);
    if (r->is_told) {
        r->results = *weir_lab_results(lab);
        for (uint32_t i = 0; i < r->store.scenario.tenant_count; i++)
            r->offered += r->results.tenants[i].offered;
    }
    munmap(mem, r->bytes);
}

static void run_row(const char *name, const struct weir_lab_controls *controls, bool is_told)
{
    static struct run r;
    weir_lab_default(&r.store, controls);
    r.bytes = weir_lab_bytes(&r.store.scenario);
    r.is_told = is_told;
    if (is_told) {
        const struct weir_lab_results *results = &r.results;
        r.offered = 0;
        run_once(&r);
        r.is_told = false;
        printf("%s: %llu events, %llu requests, %llu steps, %llu tokens, %.0f s, %zu bytes\n", name,
               (unsigned long long)results->events, (unsigned long long)r.offered,
               (unsigned long long)results->upstreams[0].backend.steps,
               (unsigned long long)results->tokens_made, (double)results->now_ns / 1e9, r.bytes);
    }
    bench_row(name, run_once, &r, 0);
}

/* --- the backend alone --- */

#define JOBS 192u

struct alone {
    struct weir_backend *b;
    struct weir_rng rng;
    uint64_t now_ns;
};

/* One job more, and the rest of what happens until one ends: the backend stays full. */
static void alone_job(void *arg)
{
    struct alone *a = arg;
    struct weir_backend_event event;
    for (;;) {
        a->now_ns = weir_backend_due_ns(a->b);
        if (weir_backend_next(a->b, a->now_ns, &event) && event.kind == WEIR_BACKEND_DONE)
            break;
    }
    weir_backend_join(a->b, event.job, (uint32_t)weir_rng_between(&a->rng, 300, 1500),
                      (uint32_t)weir_rng_between(&a->rng, 100, 400), a->now_ns);
}

static void alone_row(const char *name)
{
    const struct weir_backend_rules rules = {.replicas = 4,
                                             .sequences = 48,
                                             .step_ns = 6 * WEIR_NS_PER_MS,
                                             .step_sequence_ns = 250 * WEIR_NS_PER_US,
                                             .prefill_permille = 100};
    size_t bytes = weir_backend_bytes(&rules, JOBS);
    void *mem = aligned_alloc(64, bytes);
    if (!mem)
        exit(1);
    memset(mem, 0, bytes);
    struct alone a = {.b = weir_backend_init(mem, bytes, &rules, JOBS)};
    weir_rng_seed(&a.rng, 1, 1);
    for (uint32_t job = 0; job < JOBS; job++)
        weir_backend_join(a.b, job, 300 + 6 * job, 100 + job, 0);
    bench_row(name, alone_job, &a, 0);
    free(mem);
}

/* --- draws --- */

static uint64_t sink;

static void draw_gap(void *arg)
{
    sink += weir_chance_exponential(arg, WEIR_NS_PER_S);
}

static void draw_lognormal(void *arg)
{
    static const struct weir_length length = {
        .kind = WEIR_LENGTH_LOGNORMAL, .mean = 1000, .sigma_permille = 750};
    sink += weir_length_draw(&length, arg);
}

int main(int argc, char **argv)
{
    bool is_told = argc == 1;
    bench_begin(argc, argv);
    struct weir_lab_controls settled = weir_lab_controls_default();
    run_row("120 s, settled", &settled, is_told);
    struct weir_lab_controls crowded = settled;
    crowded.has_agent = crowded.has_burst = true;
    crowded.batch_micro_per_s = 4000000;
    run_row("120 s, crowded", &crowded, is_told);
    crowded.limit = WEIR_LAB_LIMIT_TOKENS;
    run_row("120 s, crowded, token limits", &crowded, is_told);
    alone_row("a job on a full backend");
    struct weir_rng rng;
    weir_rng_seed(&rng, 1, 1);
    bench_row("an exponential gap", draw_gap, &rng, 0);
    bench_row("a log-normal length", draw_lognormal, &rng, 0);
    return bench_end();
}
