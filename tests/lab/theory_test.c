/* The backend against what queueing theory says about it: figures that were known before the model
 * was written. Seeds are fixed, so a run gives the same draws every time.
 *
 * Expectations are compared as tests/lab/theory_stats.h says. A wrong model must fail: fixed lengths
 * judged by the exponential formula do, below, as does one replica more, or a load 5 % larger. */
#include "lab/backend.h"
#include "lab/chance.h"

#include <stdlib.h>

#include "lab/theory_stats.h"
#include "support/check.h"

#define MS WEIR_NS_PER_MS

static struct weir_backend *backend_start(const struct weir_backend_rules *rules, uint32_t jobs_max)
{
    size_t bytes = weir_backend_bytes(rules, jobs_max);
    void *mem = aligned_alloc(64, bytes);
    memset(mem, 0, bytes);
    return weir_backend_init(mem, bytes, rules, jobs_max);
}

/* --- the arithmetic of the default backend: docs/lab.md --- */

static const struct weir_backend_rules default_backend = {.replicas = 4,
                                                          .sequences = 48,
                                                          .step_ns = 6 * MS,
                                                          .step_sequence_ns = MS / 4,
                                                          .prefill_permille = 100};

static uint64_t tokens_made_by(const struct weir_backend_rules *rules, uint32_t jobs,
                               uint64_t now_ns)
{
    struct weir_backend_view view;
    struct weir_backend_event event;
    struct weir_backend *b = backend_start(rules, 256);
    for (uint32_t job = 0; job < jobs; job++)
        weir_backend_join(b, job, 0, 1000000, 0);
    while (weir_backend_next(b, now_ns, &event))
        CHECK(event.kind == WEIR_BACKEND_FIRST_TOKEN);
    weir_backend_view(b, now_ns, &view);
    free(b);
    return view.tokens_made;
}

static void full_backend__every_replica__steps_in_18_ms(void **state)
{
    (void)state;
    /* 48 tokens a replica and step: 10,667 a second over four. */
    CHECK_INT(tokens_made_by(&default_backend, 4 * 48, 18 * MS - 1), 0);
    CHECK_INT(tokens_made_by(&default_backend, 4 * 48, 18 * MS), 4 * 48);
    CHECK_INT(tokens_made_by(&default_backend, 4 * 48, 2 * 18 * MS - 1), 4 * 48);
    CHECK_INT(tokens_made_by(&default_backend, 4 * 48, 18 * WEIR_NS_PER_S), 192000);
    /* More than fits waits, and changes nothing. */
    CHECK_INT(tokens_made_by(&default_backend, 256, 18 * WEIR_NS_PER_S), 192000);
}

static void lone_sequence__each_second__gets_160_tokens(void **state)
{
    (void)state;
    for (uint64_t s = 1; s <= 100; s++)
        CHECK_INT(tokens_made_by(&default_backend, 1, s * WEIR_NS_PER_S), 160 * s);
}

static void a_request__alone__takes_its_work_in_steps(void **state)
{
    (void)state;
    /* prompt / 10 + output: 900 and 250 are 340 units; the 90th makes the first token too. */
    struct weir_backend *b = backend_start(&default_backend, 1);
    struct weir_backend_event event;
    weir_backend_join(b, 0, 900, 250, 0);
    CHECK(weir_backend_next(b, WEIR_NS_PER_S, &event));
    CHECK_INT(event.at_ns, 90 * 6250 * WEIR_NS_PER_US);
    CHECK(weir_backend_next(b, 10 * WEIR_NS_PER_S, &event));
    CHECK_INT(event.at_ns, 339 * 6250 * WEIR_NS_PER_US);
    free(b);
}

/* --- M/G/c: Poisson arrivals, c replicas of one sequence, service = length x step --- */

struct queue_setup {
    uint32_t servers;
    uint64_t gap_ns; /* mean, between arrivals */
    struct weir_length length;
    double late_s; /* what M/M/c expects of those who wait */
};

#define STEP_NS UINT64_C(10000)
#define MEAN_TOK 10000u /* so a service takes 100 ms on average, cut to 10 us: 1 in 10,000 */
#define SERVICE_S 0.1
#define JOBS_WARM 3000u
#define JOBS_SEEN 12000u
#define RUNS 40u

struct queue_means {
    double wait_s, waited_share, late_share; /* late: waited longer than setup.late_s */
};

/* One run: the waits of JOBS_SEEN jobs, after those that came while the queue filled. */
static struct queue_means queue_run(const struct queue_setup *setup, uint64_t seed)
{
    static uint64_t came_ns[JOBS_WARM + JOBS_SEEN];
    const struct weir_backend_rules rules = {
        .replicas = setup->servers, .sequences = 1, .step_ns = STEP_NS};
    const uint32_t jobs = JOBS_WARM + JOBS_SEEN;
    struct weir_backend *b = backend_start(&rules, jobs);
    struct weir_rng gaps, lengths;
    weir_rng_seed(&gaps, seed, 1);
    weir_rng_seed(&lengths, seed, 2);
    struct queue_means means = {0};
    uint64_t now_ns = 0;
    for (uint32_t job = 0; job <= jobs; job++) {
        struct weir_backend_event event;
        now_ns += weir_chance_exponential(&gaps, setup->gap_ns);
        if (job == jobs)
            now_ns = UINT64_MAX - 1; /* to the end */
        while (weir_backend_next(b, now_ns, &event)) {
            if (event.kind != WEIR_BACKEND_FIRST_TOKEN || event.job < JOBS_WARM)
                continue;
            uint64_t wait_ns = event.at_ns - STEP_NS - came_ns[event.job];
            means.wait_s += (double)wait_ns / 1e9 / JOBS_SEEN;
            means.waited_share += (wait_ns > 0) / (double)JOBS_SEEN;
            means.late_share += ((double)wait_ns > setup->late_s * 1e9) / (double)JOBS_SEEN;
        }
        if (job == jobs)
            break;
        came_ns[job] = now_ns;
        weir_backend_join(b, job, 0, weir_length_draw(&setup->length, &lengths), now_ns);
    }
    free(b);
    return means;
}

struct queue_samples {
    struct sample wait_s, waited_share, late_share;
};

static struct queue_samples queue_runs(const struct queue_setup *setup)
{
    double wait_s[RUNS], waited_share[RUNS], late_share[RUNS];
    for (uint32_t i = 0; i < RUNS; i++) {
        struct queue_means means = queue_run(setup, 1000 + i);
        wait_s[i] = means.wait_s;
        waited_share[i] = means.waited_share;
        late_share[i] = means.late_share;
    }
    return (struct queue_samples){sample_of(wait_s, RUNS), sample_of(waited_share, RUNS),
                                  sample_of(late_share, RUNS)};
}

static struct queue_setup queue_setup(uint32_t servers, double load, struct weir_length length)
{
    return (struct queue_setup){servers, (uint64_t)(SERVICE_S * 1e9 / (load * servers)), length,
                                SERVICE_S / (servers * (1 - load))};
}

static const struct weir_length exponential = {.kind = WEIR_LENGTH_EXPONENTIAL, .mean = MEAN_TOK};
static const struct weir_length fixed = {.kind = WEIR_LENGTH_FIXED, .mean = MEAN_TOK};

static void mmc__any_servers_and_load__waits_as_erlang_says(void **state)
{
    (void)state;
    static const struct {
        uint32_t servers;
        double load;
    } rows[] = {{1, 0.5}, {1, 0.8}, {4, 0.8}, {8, 0.7}};
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        uint32_t c = rows[i].servers;
        double load = rows[i].load, waits = erlang_c(c, load);
        struct queue_setup setup = queue_setup(c, load, exponential);
        struct queue_samples seen = queue_runs(&setup);
        char what[64];
        snprintf(what, sizeof what, "M/M/%u at %.2f", c, load);
        /* The wait of those who wait is exponential, c (1 - load) times as quick as a service. */
        check_agrees(what, seen.waited_share, waits, 0.02);
        check_agrees(what, seen.wait_s, waits * setup.late_s, 0.04);
        check_agrees(what, seen.late_share, waits * exp(-1), 0.04);
    }
    CHECK(fabs(erlang_c(1, 0.8) - 0.8) < 1e-12); /* M/M/1: the load itself */
}

static void md1__fixed_lengths__wait_half_as_long(void **state)
{
    (void)state;
    struct queue_setup setup = queue_setup(1, 0.8, fixed);
    struct queue_samples seen = queue_runs(&setup);
    check_agrees("M/D/1", seen.waited_share, 0.8, 0.02);
    check_agrees("M/D/1", seen.wait_s, SERVICE_S * 0.8 / (2 * 0.2),
                 0.04); /* Pollaczek, Khinchine */
}

static void mg1__uniform_lengths__wait_by_their_second_moment(void **state)
{
    (void)state;
    const struct weir_length uniform = {
        .kind = WEIR_LENGTH_UNIFORM, .low = 1, .high = 2 * MEAN_TOK - 1};
    struct queue_setup setup = queue_setup(1, 0.7, uniform);
    struct queue_samples seen = queue_runs(&setup);
    check_agrees("M/G/1", seen.wait_s, SERVICE_S * 0.7 * (1 + 1 / 3.0) / (2 * 0.3), 0.04);
}

static void a_wrong_model__same_bounds__is_found_out(void **state)
{
    (void)state;
    double waits = erlang_c(4, 0.8), wait_s = waits * SERVICE_S / (4 * 0.2);
    struct queue_setup wrong[] = {
        queue_setup(4, 0.8, fixed),        /* lengths that do not vary */
        queue_setup(5, 0.64, exponential), /* a replica more, same arrivals */
        queue_setup(4, 0.84, exponential), /* 5 % more arrivals */
    };
    for (size_t i = 0; i < WEIR_COUNT(wrong); i++) {
        struct queue_samples seen = queue_runs(&wrong[i]);
        CHECK_MSG(!sample_agrees(seen.wait_s, wait_s), "wrong model %zu passes", i);
    }
}

/* --- conservation: to the unit --- */

#define MIXED_JOBS 4000u

struct mixed {
    struct weir_backend *b;
    uint64_t now_ns;
    uint64_t came_ns[MIXED_JOBS];
    uint32_t output_tok[MIXED_JOBS];
    bool is_there[MIXED_JOBS];
    uint64_t inside_ns; /* by jobs: the time of each in the system, summed up */
    uint64_t area_ns;   /* by time: how many were in the system, summed up */
    uint64_t tok;       /* by jobs: what each made */
    uint32_t ended[4];  /* by kind; cancelled last */
};

static uint64_t mixed_there(const struct mixed *m)
{
    struct weir_backend_view view;
    weir_backend_view(m->b, m->now_ns, &view);
    return view.travelling + view.waiting + view.running;
}

static void mixed_leaves(struct mixed *m, uint32_t job, uint32_t how)
{
    CHECK(m->is_there[job]);
    m->is_there[job] = false;
    m->inside_ns += m->now_ns - m->came_ns[job];
    m->tok += weir_backend_output_tok(m->b, job, m->now_ns);
    m->ended[how]++;
    if (how == WEIR_BACKEND_DONE)
        CHECK_INT(weir_backend_output_tok(m->b, job, m->now_ns), m->output_tok[job]);
}

/* Moves to to_ns, one instant after the other; how many are there changes only at instants. */
static void mixed_move(struct mixed *m, uint64_t to_ns)
{
    for (;;) {
        uint64_t due_ns = weir_min_u64(weir_backend_due_ns(m->b), to_ns);
        m->area_ns += mixed_there(m) * (due_ns - m->now_ns);
        m->now_ns = due_ns;
        struct weir_backend_event event;
        while (weir_backend_next(m->b, due_ns, &event))
            if (event.kind != WEIR_BACKEND_FIRST_TOKEN)
                mixed_leaves(m, event.job, event.kind);
        if (due_ns == to_ns)
            return;
    }
}

/* Everything at once: queues, cancels, a pool that fills, failures, slow phases, a network. */
static void mixed_run(struct mixed *m, uint64_t seed)
{
    static const struct weir_backend_trouble troubles[] = {
        {.replica = 1, .from_ns = 20 * WEIR_NS_PER_S, .until_ns = 30 * WEIR_NS_PER_S},
        {.replica = WEIR_NONE, .from_ns = 50 * WEIR_NS_PER_S, .until_ns = 52 * WEIR_NS_PER_S},
        {.replica = 0,
         .kind = WEIR_TROUBLE_SLOW,
         .from_ns = 40 * WEIR_NS_PER_S,
         .until_ns = 80 * WEIR_NS_PER_S,
         .slow_permille = 2500},
    };
    struct weir_backend_rules rules = default_backend;
    rules.kv_tok = 40000;
    rules.latency_ns = 3 * MS;
    rules.troubles = troubles;
    rules.trouble_count = WEIR_COUNT(troubles);
    struct weir_rng rng;
    weir_rng_seed(&rng, seed, 3);
    m->b = backend_start(&rules, MIXED_JOBS);
    for (uint32_t job = 0; job < MIXED_JOBS; job++) {
        mixed_move(m, m->now_ns + weir_chance_exponential(&rng, WEIR_NS_PER_S / 30));
        m->came_ns[job] = m->now_ns;
        m->is_there[job] = true;
        m->output_tok[job] = (uint32_t)weir_rng_between(&rng, 1, 600);
        weir_backend_join(m->b, job, (uint32_t)weir_rng_below(&rng, 3000), m->output_tok[job],
                          m->now_ns);
        uint32_t other = (uint32_t)weir_rng_below(&rng, job + 1);
        if (weir_chance(&rng, 1, 2) && m->is_there[other] && other + 200 > job) {
            mixed_leaves(m, other, 3); /* before it is told: what it made by now */
            weir_backend_cancel(m->b, other, m->now_ns);
        }
    }
    mixed_move(m, m->now_ns + 3600 * WEIR_NS_PER_S);
}

static void little__time_by_jobs_and_by_the_clock__are_equal_to_the_nanosecond(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct mixed *m = calloc(1, sizeof *m);
        mixed_run(m, seed);
        struct weir_backend_view view;
        weir_backend_view(m->b, m->now_ns, &view);
        for (uint32_t how = WEIR_BACKEND_DONE; how < WEIR_COUNT(m->ended); how++)
            CHECK_MSG(m->ended[how] > 50, "seed %llu: %u ended as %u", (unsigned long long)seed,
                      m->ended[how], how);
        CHECK_INT(mixed_there(m), 0);
        CHECK_INT(m->inside_ns, m->area_ns);
        CHECK_INT(m->tok, view.tokens_made);
        CHECK_INT(view.kv_now_tok, 0);
        CHECK(view.busy_ns <= 4 * m->now_ns);
        free(m->b);
        free(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_backend__every_replica__steps_in_18_ms),
        cmocka_unit_test(lone_sequence__each_second__gets_160_tokens),
        cmocka_unit_test(a_request__alone__takes_its_work_in_steps),
        cmocka_unit_test(mmc__any_servers_and_load__waits_as_erlang_says),
        cmocka_unit_test(md1__fixed_lengths__wait_half_as_long),
        cmocka_unit_test(mg1__uniform_lengths__wait_by_their_second_moment),
        cmocka_unit_test(a_wrong_model__same_bounds__is_found_out),
        cmocka_unit_test(little__time_by_jobs_and_by_the_clock__are_equal_to_the_nanosecond),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
