/* `weir replay` against the mock in one process, on a simulated clock: each tenant's figures are those
 * that the model's backend, which has the mock's rules, foretells from the same trace. */
#include <math.h>
#include <stdlib.h>

#include "cli/commands.h"
#include "cli/inside.h"
#include "core/rng.h"
#include "lab/backend.h"
#include "measure/percentile.h"
#include "support/check.h"
#include "support/lockstep.h"

enum { REQUESTS_MAX = 200, TENANTS = 3 };

struct row {
    uint64_t arrival_tick;
    uint32_t tenant, output_tok;
    uint64_t first_ns, end_ns; /* foretold, from the start */
};

struct plan {
    struct row rows[REQUESTS_MAX];
    uint32_t count;
    struct weir_mock_config config;
    char path[32];
};

/* Requests just before a tick of their own, so that each is sent at that tick. */
#define BEFORE_NS 1000u

static uint64_t intended_ns(const struct row *row)
{
    return row->arrival_tick * LOCKSTEP_TICK_NS - BEFORE_NS;
}

/* speed: arrivals in the file are so much further apart. */
static void plan_make(struct plan *p, uint64_t seed, uint32_t sequences, uint32_t gap_ticks,
                      uint32_t speed)
{
    struct weir_rng rng;
    uint64_t at_tick = 1;
    weir_rng_seed(&rng, seed, 9);
    p->count = (uint32_t)weir_rng_between(&rng, 60, REQUESTS_MAX);
    p->config = weir_mock_config_default();
    p->config.replicas = 1;
    p->config.sequences = sequences;
    p->config.step_ns = 3 * LOCKSTEP_TICK_NS;
    p->config.step_sequence_ns = LOCKSTEP_TICK_NS;
    p->config.prefill_permille = 0;
    p->config.output_tok = 100;
    strcpy(p->path, "/tmp/weir-replay-XXXXXX");
    int fd = mkstemp(p->path);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    CHECK(file);
    fputs("arrival_s,tenant,prompt_tokens,output_tokens\n", file);
    for (uint32_t i = 0; i < p->count; i++) {
        struct row *row = &p->rows[i];
        *row = (struct row){.arrival_tick = at_tick,
                            .tenant = (uint32_t)weir_rng_between(&rng, 0, TENANTS - 1),
                            .output_tok = (uint32_t)weir_rng_between(&rng, 1, 9)};
        /* Times count from the first. */
        fprintf(file, "%.9f,t%u,%u,%u\n",
                (double)(intended_ns(row) - intended_ns(&p->rows[0])) * speed / 1e9, row->tenant,
                (uint32_t)weir_rng_between(&rng, 1, 50), row->output_tok);
        at_tick += weir_rng_between(&rng, 1, gap_ticks);
    }
    CHECK(fclose(file) == 0);
}

/* The first leaves at the start, which is a tick; the others at that tick that is theirs. */
static uint64_t sent_ns(const struct plan *p, uint32_t i)
{
    return (p->rows[i].arrival_tick - p->rows[0].arrival_tick) * LOCKSTEP_TICK_NS;
}

/* cap: so many are under way at most; those beyond are sent when one ends. */
static void plan_foretell(struct plan *p, uint32_t cap)
{
    const struct weir_backend_rules rules = {.replicas = 1,
                                             .sequences = p->config.sequences,
                                             .step_ns = p->config.step_ns,
                                             .step_sequence_ns = p->config.step_sequence_ns};
    size_t bytes = weir_backend_bytes(&rules, REQUESTS_MAX);
    void *mem = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
    uint32_t sent = 0, ended = 0;
    uint64_t now_ns = 0;
    CHECK(mem);
    memset(mem, 0, bytes);
    struct weir_backend *b = weir_backend_init(mem, bytes, &rules, REQUESTS_MAX);
    while (ended < p->count) {
        bool may_send = sent < p->count && sent - ended < cap;
        uint64_t next_ns = may_send ? weir_max_u64(sent_ns(p, sent), now_ns) : WEIR_NEVER_NS;
        now_ns = weir_min_u64(weir_backend_due_ns(b), next_ns);
        struct weir_backend_event event;
        while (weir_backend_next(b, now_ns, &event)) {
            struct row *row = &p->rows[event.job];
            *(event.kind == WEIR_BACKEND_DONE ? &row->end_ns : &row->first_ns) = event.at_ns;
            ended += event.kind == WEIR_BACKEND_DONE;
        }
        if (now_ns == next_ns) {
            weir_backend_join(b, sent, 0, p->rows[sent].output_tok, now_ns);
            sent++;
        }
    }
    free(mem);
}

/* tenant: TENANTS for all. */
static void check_spread(const struct plan *p, uint32_t tenant, bool is_first, const json_t *got,
                         uint64_t seed)
{
    static const struct {
        const char *name;
        uint32_t permille;
    } rows[] = {{"p50_s", 500}, {"p95_s", 950}, {"p99_s", 990}, {"max_s", 1000}};
    struct weir_sample sample;
    CHECK(weir_sample_init(&sample, p->count));
    for (uint32_t i = 0; i < p->count; i++) {
        const struct row *row = &p->rows[i];
        uint64_t from_ns = intended_ns(row) - intended_ns(&p->rows[0]);
        if (tenant == TENANTS || row->tenant == tenant)
            weir_sample_add(&sample, (is_first ? row->first_ns : row->end_ns) - from_ns);
    }
    CHECK_INT(json_integer_value(json_object_get(got, "count")), sample.count);
    for (size_t k = 0; k < WEIR_COUNT(rows); k++) {
        double want_s = (double)weir_sample_at(&sample, rows[k].permille) / 1e9,
               got_s = inside_number(got, rows[k].name);
        CHECK_MSG(fabs(got_s - want_s) <= 2e-9 * BEFORE_NS,
                  "seed %llu, %u in a batch, tenant %u, %s %s: %.6f s, not %.6f s",
                  (unsigned long long)seed, p->config.sequences, tenant,
                  is_first ? "first token" : "latency", rows[k].name, got_s, want_s);
    }
    weir_sample_free(&sample);
}

/* gap_ticks: the smaller, the more wait. cap: 0: none is met. */
static void check_replay(uint64_t seed, uint32_t sequences, uint32_t gap_ticks, uint32_t speed,
                         uint32_t cap)
{
    struct plan p;
    char line[300];
    int status;
    plan_make(&p, seed, sequences, gap_ticks, speed);
    plan_foretell(&p, cap ? cap : REQUESTS_MAX);
    snprintf(
        line, sizeof line,
        "replay %s http://127.0.0.1:%u --model m --stream yes --speed %u --max-in-flight %u --json",
        p.path, lockstep_open(&p.config), speed, cap ? cap : REQUESTS_MAX);
    json_t *all = inside_json(cli_replay, line, &status);
    lockstep_close();
    CHECK(remove(p.path) == 0);
    CHECK_INT(status, 0);
    const json_t *tenants = json_object_get(all, "tenants");
    CHECK_INT(json_array_size(tenants), TENANTS);
    for (uint32_t i = 0; i <= TENANTS; i++) {
        const json_t *figures =
            i < TENANTS ? json_array_get(tenants, i) : json_object_get(all, "all");
        const char *name = json_string_value(json_object_get(figures, "tenant"));
        uint32_t tenant = i < TENANTS ? (uint32_t)(name[1] - '0') : TENANTS;
        check_spread(&p, tenant, false, json_object_get(figures, "latency"), seed);
        check_spread(&p, tenant, true, json_object_get(figures, "ttft"), seed);
        CHECK(cap || inside_number(json_object_get(figures, "lag"), "max_s") <= 2e-9 * BEFORE_NS);
    }
    json_decref(all);
}

static void replay__any_load__latencies_are_those_that_the_model_foretells(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++)
        for (uint32_t sequences = 1; sequences <= 3; sequences++) {
            check_replay(seed, sequences, 8, 1, 0);  /* far more than it can do: the line grows */
            check_replay(seed, sequences, 60, 1, 0); /* hardly any wait */
        }
}

static void replay__at_another_speed__is_as_foretold_from_those_times(void **state)
{
    (void)state;
    for (uint32_t speed = 2; speed <= 16; speed *= 2)
        check_replay(speed, 2, 12, speed, 0);
}

/* No coordinated omission: who is held back waits, and its wait counts. */
static void replay__at_its_cap__latency_counts_from_the_intended_time(void **state)
{
    (void)state;
    for (uint32_t cap = 1; cap <= 5; cap++)
        check_replay(cap, 2, 8, 1, cap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replay__any_load__latencies_are_those_that_the_model_foretells),
        cmocka_unit_test(replay__at_its_cap__latency_counts_from_the_intended_time),
        cmocka_unit_test(replay__at_another_speed__is_as_foretold_from_those_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
