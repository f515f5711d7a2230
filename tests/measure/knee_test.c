/* The knee of computed curves: the backend of the lab, whose capacity is known, in a closed loop. */
#include "measure/knee.h"

#include "core/rng.h"
#include "lab/backend.h"
#include "lab/chance.h"
#include "support/check.h"

#include <math.h>
#include <stdlib.h>

#define MS WEIR_NS_PER_MS

struct curve {
    struct weir_backend_rules rules;
    struct weir_length output;
    uint32_t prompt_tok;
    bool is_stream;
    double noise; /* relative, of what is measured */
    uint64_t seed;
};

static double with_noise(struct weir_rng *rng, double value, double noise)
{
    double z = (double)weir_chance_normal_q32(rng) / 4294967296.0;
    return value * (1 + noise * fmin(fmax(z, -3), 3));
}

/* So many in flight, `requests` in all; the first and the last `in_flight` of them fill and drain the
 * line and are not measured. */
static struct weir_knee_level run_level(const struct curve *c, uint32_t in_flight,
                                        uint32_t requests, struct weir_rng *rng)
{
    struct weir_knee_level level = {.in_flight = in_flight};
    size_t bytes = weir_backend_bytes(&c->rules, requests);
    void *mem = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
    uint64_t *sent_ns = calloc(requests, sizeof *sent_ns), now_ns = 0, measured = 0;
    uint32_t sent = 0, ended = 0;
    memset(mem, 0, bytes);
    struct weir_backend *b = weir_backend_init(mem, bytes, &c->rules, requests);
    for (; sent < in_flight; sent++)
        weir_backend_join(b, sent, c->prompt_tok, weir_length_draw(&c->output, rng), 0);
    while (ended < requests) {
        struct weir_backend_event event;
        now_ns = weir_backend_due_ns(b);
        CHECK(now_ns != WEIR_NEVER_NS);
        if (!weir_backend_next(b, now_ns, &event))
            continue;
        double took_ns = (double)(event.at_ns - sent_ns[event.job]);
        bool is_measured = event.job >= in_flight && event.job < requests - in_flight;
        if (event.kind == WEIR_BACKEND_FIRST_TOKEN) {
            level.first_ns += is_measured && c->is_stream ? took_ns : 0;
            continue;
        }
        ended++;
        measured += is_measured;
        level.mean_ns += is_measured ? took_ns : 0;
        if (sent < requests) {
            sent_ns[sent] = event.at_ns;
            weir_backend_join(b, sent++, c->prompt_tok, weir_length_draw(&c->output, rng),
                              event.at_ns);
        }
    }
    level.ok = requests;
    level.mean_ns = with_noise(rng, level.mean_ns / (double)measured, c->noise);
    level.first_ns = with_noise(rng, level.first_ns / (double)measured, c->noise);
    free(sent_ns);
    free(mem);
    return level;
}

static struct weir_knee find(const struct curve *c, const uint32_t *levels, size_t count)
{
    struct weir_knee_level points[WEIR_KNEE_LEVELS_MAX];
    struct weir_knee knee;
    struct weir_rng rng;
    weir_rng_seed(&rng, c->seed, 7);
    for (size_t i = 0; i < count; i++)
        points[i] = run_level(c, levels[i], levels[i] * 6 > 32 ? levels[i] * 6 : 32, &rng);
    weir_knee_find(points, count, &knee);
    return knee;
}

static const uint32_t doubling[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512};

static void check_capacity(const struct curve *c, uint32_t capacity)
{
    struct weir_knee knee = find(c, doubling, WEIR_COUNT(doubling));
    CHECK_MSG(knee.result == WEIR_KNEE_FOUND, "capacity %u, seed %llu, stream %d: result %d",
              capacity, (unsigned long long)c->seed, c->is_stream, (int)knee.result);
    CHECK_MSG(knee.at >= 0.9 * capacity && knee.at <= 1.1 * capacity,
              "capacity %u, seed %llu, stream %d: knee at %f (%u to %u)", capacity,
              (unsigned long long)c->seed, c->is_stream, knee.at, knee.low, knee.high);
    CHECK_INT(knee.max_in_flight, lround(knee.at));
}

static void knee__several_capacities_and_batch_slow_downs__is_within_a_tenth(void **state)
{
    (void)state;
    static const struct {
        uint32_t replicas, sequences;
    } sizes[] = {{1, 4}, {1, 6}, {1, 11}, {2, 8}, {1, 24}, {4, 10}, {3, 23}, {4, 48}, {2, 100}};
    static const uint64_t per_sequence_ns[] = {0, 50 * WEIR_NS_PER_US, 250 * WEIR_NS_PER_US};
    for (size_t i = 0; i < WEIR_COUNT(sizes); i++)
        for (size_t s = 0; s < WEIR_COUNT(per_sequence_ns); s++)
            for (int is_stream = 0; is_stream < 2; is_stream++) {
                struct curve c = {.rules = {.replicas = sizes[i].replicas,
                                            .sequences = sizes[i].sequences,
                                            .step_ns = 6 * MS,
                                            .step_sequence_ns = per_sequence_ns[s],
                                            .prefill_permille = 100},
                                  .output = {.kind = WEIR_LENGTH_FIXED, .mean = 60},
                                  .prompt_tok = 50,
                                  .is_stream = is_stream,
                                  .seed = i};
                check_capacity(&c, sizes[i].replicas * sizes[i].sequences);
            }
}

static void knee__lengths_at_random_and_noise__is_within_a_tenth_with_streams(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        uint32_t sequences = (uint32_t)(5 + seed * 7 % 44), replicas = (uint32_t)(1 + seed % 4);
        struct curve c = {.rules = {.replicas = replicas,
                                    .sequences = sequences,
                                    .step_ns = 6 * MS,
                                    .step_sequence_ns = 50 * WEIR_NS_PER_US,
                                    .prefill_permille = 100},
                          .output = {.kind = WEIR_LENGTH_UNIFORM, .low = 40, .high = 80},
                          .prompt_tok = 50,
                          .is_stream = true,
                          .noise = 0.01,
                          .seed = seed};
        check_capacity(&c, replicas * sequences);
    }
}

static void knee__levels_end_below_capacity__is_not_reached(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct curve c = {.rules = {.replicas = 4,
                                    .sequences = 48,
                                    .step_ns = 6 * MS,
                                    .step_sequence_ns = 50 * WEIR_NS_PER_US,
                                    .prefill_permille = 100},
                          .output = {.kind = WEIR_LENGTH_UNIFORM, .low = 30, .high = 50},
                          .prompt_tok = 50,
                          .is_stream = seed % 2,
                          .noise = 0.02,
                          .seed = seed};
        struct weir_knee knee = find(&c, doubling, 8);
        CHECK_MSG(knee.result == WEIR_KNEE_NOT_REACHED, "seed %llu", (unsigned long long)seed);
        CHECK_INT(knee.max_in_flight, 128);
        CHECK(knee.growth > 0.3);
        knee = find(&c, doubling, 9); /* 256 is beyond it, but no level shows that yet */
        CHECK_INT(knee.result, WEIR_KNEE_NOT_REACHED);
    }
}

/* Whole answers of batches that grow s times slower: the place is exact on an exact curve, moves by s % for
 * each percent of throughput, and is said to be rough where that is much. */
static void knee__steep_slow_down__is_as_rough_as_it_says(void **state)
{
    (void)state;
    for (uint32_t s = 1; s <= 7; s++) {
        const double capacity = 24, growth = (s - 1) / capacity;
        struct weir_knee_level levels[8];
        struct weir_knee knee, moved;
        for (uint32_t i = 0; i < WEIR_COUNT(levels); i++) {
            double n = 1u << i, batch = fmin(n, capacity);
            levels[i] = (struct weir_knee_level){
                .in_flight = 1u << i, .ok = 30, .mean_ns = 1e8 * (1 + growth * batch) * n / batch};
        }
        weir_knee_find(levels, WEIR_COUNT(levels), &knee);
        CHECK_INT(knee.result, WEIR_KNEE_FOUND);
        CHECK_MSG(fabs(knee.at - capacity) < 1e-6 * capacity && fabs(knee.blur - s) < 1e-6 * s,
                  "%u times slower: at %f, blur %f", s, knee.at, knee.blur);
        for (uint32_t i = 5; i < WEIR_COUNT(levels); i++)
            levels[i].mean_ns *= 0.999; /* beyond the knee throughput seems 0.1 % more */
        weir_knee_find(levels, WEIR_COUNT(levels), &moved);
        CHECK_MSG(fabs((moved.at / knee.at - 1) * 1000 - s) < 0.1 * s,
                  "%u times slower: moved %f %%", s, (moved.at / knee.at - 1) * 100);
    }
}

static void knee__one_at_a_time__is_the_first_level(void **state)
{
    (void)state;
    struct curve c = {.rules = {.replicas = 1, .sequences = 1, .step_ns = 10 * MS},
                      .output = {.kind = WEIR_LENGTH_FIXED, .mean = 20}};
    struct weir_knee knee = find(&c, doubling, 4);
    CHECK_INT(knee.result, WEIR_KNEE_FOUND);
    CHECK_INT(knee.max_in_flight, 1);
    CHECK_INT(knee.low, 1);
    CHECK_INT(knee.high, 1);
}

static void knee__refusals_or_failures_first__end_the_curve(void **state)
{
    (void)state;
    struct weir_knee knee;
    struct weir_knee_level levels[] = {
        {.in_flight = 1, .ok = 30, .mean_ns = 1e8},
        {.in_flight = 8, .ok = 30, .mean_ns = 1e8},
        {.in_flight = 16, .ok = 20, .refused = 4, .failed = 1, .mean_ns = 2.3e8},
        {.in_flight = 32, .ok = 30, .mean_ns = 4e8},
    };
    weir_knee_find(levels, 4, &knee);
    CHECK_INT(knee.result, WEIR_KNEE_REFUSED);
    CHECK_INT(knee.low, 8);
    CHECK_INT(knee.high, 16);
    CHECK_INT(knee.max_in_flight, 8);
    levels[2].failed = 9;
    weir_knee_find(levels, 4, &knee);
    CHECK_INT(knee.result, WEIR_KNEE_FAILING);
    levels[1].mean_ns = 7.9e8; /* level before the refusals: the knee comes first */
    weir_knee_find(levels, 4, &knee);
    CHECK_INT(knee.result, WEIR_KNEE_FOUND);
    CHECK_INT(knee.max_in_flight, 1);
}

static void knee__nothing_to_go_by__is_unknown(void **state)
{
    (void)state;
    struct weir_knee knee;
    const struct weir_knee_level levels[] = {{.in_flight = 1, .ok = 30, .mean_ns = 1e8},
                                             {.in_flight = 2, .ok = 2}};
    weir_knee_find(levels, 0, &knee);
    CHECK_INT(knee.result, WEIR_KNEE_UNKNOWN);
    CHECK_INT(knee.max_in_flight, 0);
    weir_knee_find(levels, 2, &knee);
    CHECK_INT(knee.result, WEIR_KNEE_UNKNOWN);
    CHECK_INT(knee.max_in_flight, 0); /* one level is no curve: 1 would throttle whoever set it */
    /* Hardly more in flight: that throughput stays says nothing. */
    const struct weir_knee_level near[] = {{.in_flight = 8, .ok = 30, .mean_ns = 1e8},
                                           {.in_flight = 16, .ok = 30, .mean_ns = 1e8},
                                           {.in_flight = 18, .ok = 30, .mean_ns = 1.12e8}};
    weir_knee_find(near, WEIR_COUNT(near), &knee);
    CHECK_INT(knee.result, WEIR_KNEE_NOT_REACHED);
}

static void knee__throughput_falls_beyond_it__is_before_the_fall(void **state)
{
    (void)state;
    struct weir_knee knee;
    const struct weir_knee_level levels[] = {{.in_flight = 4, .ok = 30, .mean_ns = 1e8},
                                             {.in_flight = 8, .ok = 30, .mean_ns = 1e8},
                                             {.in_flight = 16, .ok = 30, .mean_ns = 1.63e8},
                                             {.in_flight = 32, .ok = 30, .mean_ns = 4.57e8},
                                             {.in_flight = 64, .ok = 30, .mean_ns = 1.6e9}};
    weir_knee_find(levels, WEIR_COUNT(levels), &knee);
    CHECK_INT(knee.result, WEIR_KNEE_FOUND);
    CHECK(knee.low == 8 && knee.high == 16);
    CHECK_MSG(knee.max_in_flight >= 8 && knee.max_in_flight <= 10, "%u", knee.max_in_flight);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(knee__several_capacities_and_batch_slow_downs__is_within_a_tenth),
        cmocka_unit_test(knee__lengths_at_random_and_noise__is_within_a_tenth_with_streams),
        cmocka_unit_test(knee__levels_end_below_capacity__is_not_reached),
        cmocka_unit_test(knee__steep_slow_down__is_as_rough_as_it_says),
        cmocka_unit_test(knee__one_at_a_time__is_the_first_level),
        cmocka_unit_test(knee__refusals_or_failures_first__end_the_curve),
        cmocka_unit_test(knee__nothing_to_go_by__is_unknown),
        cmocka_unit_test(knee__throughput_falls_beyond_it__is_before_the_fall),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
