/* The sweep against the mock, whose latency, capacity, limits and faults are known. What is timed is
 * tried a few times, since a busy machine makes anybody late; one good run is enough. */
#include "measure/sweep.h"

#include <arpa/inet.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "core/rng.h"
#include "measure/knee.h"
#include "measure/percentile.h"
#include "measure/prompt.h"
#include "net/timer.h"
#include "support/check.h"
#include "support/mock_child.h"

enum { TRIES = 5 };

struct bed {
    struct mock_child mock;
    struct weir_sweep *sweep;
    char body[4096];
    uint32_t seen;
    uint32_t stop_at; /* sent; 0: never */
};

static void bed_seen(void *ctx, const struct weir_sweep_now *now)
{
    struct bed *bed = ctx;
    bed->seen++;
    if (bed->stop_at > 0 && now->sent >= bed->stop_at)
        weir_sweep_stop(bed->sweep);
}

static void bed_aim(struct bed *bed, uint16_t port, bool is_stream, uint32_t output_tok,
                    uint64_t timeout_ns)
{
    char url[64], error_text[512] = "";
    struct weir_endpoint endpoint;
    struct weir_load_timeouts timeouts = weir_load_timeouts_default();
    snprintf(url, sizeof url, "http://127.0.0.1:%u", port);
    CHECK(weir_endpoint_read(url, WEIR_API_OPENAI_CHAT, &endpoint, error_text, sizeof error_text));
    const struct weir_prompt_wish wish = {.api = WEIR_API_OPENAI_CHAT,
                                          .model = "m",
                                          .prompt_tok = 1,
                                          .output_tok = output_tok,
                                          .is_stream = is_stream,
                                          .seed = 1};
    CHECK(weir_prompt_bytes(&wish) <= sizeof bed->body);
    timeouts.head_ns = timeouts.idle_ns = timeout_ns;
    const struct weir_sweep_rules rules = {
        .load = {.endpoint = &endpoint, .timeouts = timeouts, .in_flight_max = 128},
        .body = bed->body,
        .body_bytes = weir_prompt_write(&wish, bed->body),
        .bad_permille = 100,
        .rest_max_ns = 5 * WEIR_NS_PER_S,
        .seen = bed_seen,
        .ctx = bed};
    bed->sweep = weir_sweep_create(&rules, error_text, sizeof error_text);
    CHECK_MSG(bed->sweep, "%s", error_text);
}

static void bed_open(struct bed *bed, const struct weir_mock_config *config, bool is_stream,
                     uint32_t output_tok, uint64_t timeout_ns)
{
    memset(bed, 0, sizeof *bed);
    bed->mock = mock_child_start(config);
    bed_aim(bed, bed->mock.port, is_stream, output_tok, timeout_ns);
}

static void bed_close(struct bed *bed)
{
    weir_sweep_destroy(bed->sweep);
    mock_child_stop(&bed->mock);
}

static enum weir_sweep_end bed_run(struct bed *bed, uint32_t in_flight, uint32_t requests,
                                   struct weir_sweep_figures *figures)
{
    struct weir_sweep_figures both[2];
    const struct weir_sweep_part part = {.in_flight = in_flight};
    enum weir_sweep_end end = weir_sweep_run(bed->sweep, &part, 1, requests, both);
    CHECK(memcmp(&both[0], &both[1], sizeof both[0]) == 0); /* one part is all */
    *figures = both[1];
    return end;
}

static struct weir_mock_config plain(void)
{
    struct weir_mock_config config = weir_mock_config_default();
    config.plain = true;
    return config;
}

/* Within 2 % or 1 ms. */
static bool is_near(uint64_t got_ns, double want_ms)
{
    double got_ms = (double)got_ns / 1e6;
    return fabs(got_ms - want_ms) <= fmax(1.0, want_ms * 0.02);
}

/* The mock's own latency is only as exact as its timer: begun within a tick of the wheel and rounded
 * up to one. */
static const double mock_ticks_ms = 2 * (double)(UINT64_C(1) << WEIR_TICK_SHIFT) / 1e6;

static bool is_near_mock(uint64_t got_ns, double want_ms)
{
    double got_ms = (double)got_ns / 1e6;
    return is_near(got_ns, want_ms) || is_near(got_ns, want_ms + mock_ticks_ms) ||
           (got_ms > want_ms && got_ms < want_ms + mock_ticks_ms);
}

static void sweep__known_latency__percentiles_are_within_two_percent(void **state)
{
    (void)state;
    static const uint64_t latency_ms[] = {100, 200}; /* its timer ticks in ms */
    for (size_t i = 0; i < WEIR_COUNT(latency_ms); i++)
        for (int is_stream = 0; is_stream < 2; is_stream++) {
            struct weir_mock_config config = plain();
            struct weir_sweep_figures f;
            struct bed bed;
            bool is_well = false;
            config.latency_ns = latency_ms[i] * WEIR_NS_PER_MS;
            bed_open(&bed, &config, is_stream, 4, 10 * WEIR_NS_PER_S);
            for (int try = 0; try < TRIES && !is_well; try++) {
                CHECK_INT(bed_run(&bed, 6, 24, &f), WEIR_SWEEP_DONE);
                CHECK_INT(f.sent, 24);
                CHECK_INT(f.ended[WEIR_LOAD_OK], 24);
                CHECK_INT(f.measured, 12);
                CHECK_INT(f.whole.count, 12);
                CHECK_INT(f.first.count, is_stream ? 12 : 0);
                const struct weir_sweep_times *t = is_stream ? &f.first : &f.whole;
                double rate = 6000 / (double)latency_ms[i],
                       rate_least = 6000 / ((double)latency_ms[i] + mock_ticks_ms);
                is_well = is_near_mock(t->p50_ns, (double)latency_ms[i]) &&
                          is_near_mock(t->p95_ns, (double)latency_ms[i]) &&
                          is_near_mock(t->p99_ns, (double)latency_ms[i]) &&
                          (is_stream || (f.per_s > 0.97 * rate_least && f.per_s < 1.03 * rate));
            }
            CHECK_MSG(is_well, "latency %llu ms, stream %d: whole %.2f ms, first %.2f ms, %.1f/s",
                      (unsigned long long)latency_ms[i], is_stream, (double)f.whole.p99_ns / 1e6,
                      (double)f.first.p99_ns / 1e6, f.per_s);
            bed_close(&bed);
        }
}

/* ---- an endpoint that writes down how long it really took ---- */

enum { TRUTH_REQUESTS = 60 };

struct truth {
    int listener;
    uint64_t took_ns[TRUTH_REQUESTS];
};

static void truth_answer(int peer, uint64_t *took_ns, struct weir_rng *rng)
{
    static const char answer[] =
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 95\r\n\r\n"
        "{\"choices\":[{\"message\":{\"content\":\"a\"}}],\"usage\":{\"prompt_tokens\":1,"
        "\"completion_tokens\":1}}    ";
    char in[8192];
    size_t used = 0, body_at = 0;
    while (body_at == 0 || memchr(in + body_at, '}', used - body_at) == NULL ||
           in[used - 1] != '}') {
        ssize_t got = read(peer, in + used, sizeof in - 1 - used);
        CHECK(got > 0);
        used += (size_t)got;
        in[used] = '\0';
        const char *blank = strstr(in, "\r\n\r\n");
        body_at = blank ? (size_t)(blank - in) + 4 : 0;
    }
    uint64_t from_ns = weir_loop_clock_ns(),
             wait_ns = weir_rng_between(rng, 1, 20) * WEIR_NS_PER_MS;
    const struct timespec wait = {.tv_nsec = (long)wait_ns};
    nanosleep(&wait, NULL);
    *took_ns = weir_loop_clock_ns() - from_ns;
    CHECK(write(peer, answer, sizeof answer - 1) == (ssize_t)sizeof answer - 1);
}

static void *truth_serve(void *ctx)
{
    struct truth *truth = ctx;
    struct weir_rng rng;
    weir_rng_seed(&rng, 5, 5);
    int peer = accept(truth->listener, NULL, NULL);
    for (int i = 0; i < TRUTH_REQUESTS; i++)
        truth_answer(peer, &truth->took_ns[i], &rng);
    close(peer);
    return NULL;
}

static uint16_t truth_listen(struct truth *truth)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    truth->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(truth->listener, (struct sockaddr *)&address, bytes) == 0);
    CHECK(listen(truth->listener, 4) == 0);
    CHECK(getsockname(truth->listener, (struct sockaddr *)&address, &bytes) == 0);
    return ntohs(address.sin_port);
}

static void sweep__times_at_random__percentiles_are_those_that_the_endpoint_wrote_down(void **state)
{
    (void)state;
    bool is_well = false;
    double off_ms[3] = {0};
    for (int try = 0; try < TRIES && !is_well; try++) {
        struct truth truth;
        struct weir_sweep_figures f;
        struct weir_sample sample;
        struct bed bed = {0};
        pthread_t thread;
        bed_aim(&bed, truth_listen(&truth), false, 4, 10 * WEIR_NS_PER_S);
        CHECK(pthread_create(&thread, NULL, truth_serve, &truth) == 0);
        enum weir_sweep_end end = bed_run(&bed, 1, TRUTH_REQUESTS, &f);
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK_INT(end, WEIR_SWEEP_DONE);
        CHECK_INT(f.ended[WEIR_LOAD_OK], TRUTH_REQUESTS);
        CHECK(weir_sample_init(&sample, TRUTH_REQUESTS));
        for (int i = 1; i < TRUTH_REQUESTS - 1; i++) /* the first and the last are not measured */
            weir_sample_add(&sample, truth.took_ns[i]);
        const uint64_t got_ns[] = {f.whole.p50_ns, f.whole.p95_ns, f.whole.p99_ns};
        static const uint32_t permille[] = {500, 950, 990};
        is_well = true;
        for (int i = 0; i < 3; i++) {
            double want_ms = (double)weir_sample_at(&sample, permille[i]) / 1e6;
            off_ms[i] = (double)got_ns[i] / 1e6 - want_ms;
            is_well = is_well && is_near(got_ns[i], want_ms);
        }
        weir_sample_free(&sample);
        weir_sweep_destroy(bed.sweep);
        close(truth.listener);
    }
    CHECK_MSG(is_well, "p50, p95, p99 off by %.3f, %.3f, %.3f ms", off_ms[0], off_ms[1], off_ms[2]);
}

static struct weir_knee find_knee(struct bed *bed, const uint32_t *levels, size_t count)
{
    struct weir_knee_level points[8];
    struct weir_knee knee;
    for (size_t i = 0; i < count; i++) {
        struct weir_sweep_figures f;
        uint32_t requests = levels[i] * 4 > 20 ? levels[i] * 4 : 20;
        CHECK_INT(bed_run(bed, levels[i], requests, &f), WEIR_SWEEP_DONE);
        points[i] = (struct weir_knee_level){.in_flight = levels[i],
                                             .ok = f.ended[WEIR_LOAD_OK],
                                             .mean_ns = (double)f.whole.mean_ns,
                                             .first_ns = (double)f.first.mean_ns};
    }
    weir_knee_find(points, count, &knee);
    return knee;
}

static void sweep__known_capacity__knee_is_within_a_tenth(void **state)
{
    (void)state;
    static const struct {
        uint32_t replicas, sequences;
    } sizes[] = {{1, 6}, {2, 10}};
    static const uint32_t levels[] = {2, 4, 8, 16, 32, 64};
    for (size_t i = 0; i < WEIR_COUNT(sizes); i++) {
        struct weir_mock_config config = weir_mock_config_default();
        struct weir_knee knee = {0};
        struct bed bed;
        double capacity = sizes[i].replicas * sizes[i].sequences;
        bool is_well = false;
        config.replicas = sizes[i].replicas;
        config.sequences = sizes[i].sequences;
        config.step_ns = 3 * WEIR_NS_PER_MS;
        config.step_sequence_ns = 50 * WEIR_NS_PER_US;
        bed_open(&bed, &config, true, 10, 10 * WEIR_NS_PER_S);
        for (int try = 0; try < TRIES && !is_well; try++) {
            knee = find_knee(&bed, levels, WEIR_COUNT(levels) - (capacity < 16));
            is_well = knee.result == WEIR_KNEE_FOUND && fabs(knee.at - capacity) <= 0.1 * capacity;
        }
        CHECK_MSG(is_well, "capacity %.0f: result %d, knee at %.2f (%u to %u)", capacity,
                  (int)knee.result, knee.at, knee.low, knee.high);
        bed_close(&bed);
    }
}

static void sweep__more_goes_wrong_than_the_budget__stops_and_counts(void **state)
{
    (void)state;
    static const struct {
        const char *fault;
        enum weir_load_end end;
    } rows[] = {
        {"html", WEIR_LOAD_HTML},
        {"redirect", WEIR_LOAD_REDIRECT},
        {"stall=head", WEIR_LOAD_TIMEOUT_HEAD},
        {"stall=body", WEIR_LOAD_TIMEOUT_IDLE},
        {"reset=head", WEIR_LOAD_RESET},
        {"cut=2", WEIR_LOAD_CUT},
        {"status=500", WEIR_LOAD_5XX},
        {"status=404", WEIR_LOAD_4XX},
    };
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct weir_mock_config config = plain();
        struct weir_sweep_figures f;
        struct bed bed;
        config.fault = rows[i].fault;
        bed_open(&bed, &config, true, 4, 100 * WEIR_NS_PER_MS);
        CHECK_INT(bed_run(&bed, 2, 40, &f), WEIR_SWEEP_BUDGET);
        CHECK_MSG(f.ended[rows[i].end] == f.sent, "%s: %llu of %llu", rows[i].fault,
                  (unsigned long long)f.ended[rows[i].end], (unsigned long long)f.sent);
        CHECK_MSG(f.sent >= 5 && f.sent <= 6, "%s: %llu sent", rows[i].fault,
                  (unsigned long long)f.sent); /* 4 are allowed, and one more is under way */
        CHECK_INT(f.whole.count, 0);
        CHECK(f.per_s == 0);
        bed_close(&bed);
    }
}

static void sweep__refused_with_a_hint__rests_that_long_before_the_next_run(void **state)
{
    (void)state;
    struct weir_mock_config config = plain();
    struct weir_sweep_figures f;
    struct bed bed;
    uint64_t asked_ns;
    config.fault = "status=429;retry-after-ms=400";
    config.fault_every = 20;
    bed_open(&bed, &config, false, 4, WEIR_NS_PER_S);
    CHECK(weir_sweep_rest(bed.sweep, &asked_ns)); /* nothing to wait for */
    CHECK_INT(bed_run(&bed, 1, 20, &f), WEIR_SWEEP_DONE);
    CHECK_INT(f.ended[WEIR_LOAD_429], 1);
    CHECK_INT(f.hints, 1);
    CHECK_INT(f.hint_max_ns, 400 * WEIR_NS_PER_MS);
    uint64_t before_ns = weir_loop_clock_ns();
    CHECK(weir_sweep_rest(bed.sweep, &asked_ns));
    CHECK(weir_loop_clock_ns() - before_ns >= 380 * WEIR_NS_PER_MS);
    CHECK(bed.seen > 0); /* and said so meanwhile */
    bed_close(&bed);
    config.fault = "status=429;retry-after=30";
    bed_open(&bed, &config, false, 4, WEIR_NS_PER_S);
    CHECK_INT(bed_run(&bed, 1, 20, &f), WEIR_SWEEP_DONE);
    CHECK(!weir_sweep_rest(bed.sweep, &asked_ns)); /* longer than is waited for */
    CHECK(asked_ns > 25 * WEIR_NS_PER_S && asked_ns <= 30 * WEIR_NS_PER_S);
    bed_close(&bed);
}

static void sweep__stopped__gives_what_it_has(void **state)
{
    (void)state;
    struct weir_mock_config config = plain();
    struct weir_sweep_figures f;
    struct bed bed;
    uint64_t asked_ns;
    config.latency_ns = 20 * WEIR_NS_PER_MS;
    bed_open(&bed, &config, true, 4, 10 * WEIR_NS_PER_S);
    bed.stop_at = 1;
    CHECK_INT(bed_run(&bed, 4, 100000, &f), WEIR_SWEEP_STOPPED);
    CHECK(f.ended[WEIR_LOAD_OK] > 0);
    CHECK_INT(f.ended[WEIR_LOAD_CANCELLED] + f.ended[WEIR_LOAD_OK], f.sent);
    CHECK(f.ended[WEIR_LOAD_CANCELLED] >= 1 && f.ended[WEIR_LOAD_CANCELLED] <= 4);
    CHECK(f.whole.count > 0 && f.whole.p50_ns >= 20 * WEIR_NS_PER_MS);
    CHECK_INT(bed_run(&bed, 4, 10, &f), WEIR_SWEEP_STOPPED); /* and stays stopped */
    CHECK_INT(f.sent, 0);
    CHECK(!weir_sweep_rest(bed.sweep, &asked_ns));
    CHECK_INT(asked_ns, 0);
    bed_close(&bed);
}

static void sweep__unequal_parts__each_keeps_its_own_in_flight(void **state)
{
    (void)state;
    struct weir_mock_config config = weir_mock_config_default();
    struct weir_sweep_figures f[3];
    struct bed bed;
    config.replicas = 1;
    config.sequences = 4;
    config.step_ns = 2 * WEIR_NS_PER_MS;
    config.step_sequence_ns = 0;
    bed_open(&bed, &config, false, 5, 10 * WEIR_NS_PER_S);
    const struct weir_sweep_part parts[] = {{.in_flight = 15}, {.in_flight = 1}};
    CHECK_INT(weir_sweep_run(bed.sweep, parts, 2, 160, f), WEIR_SWEEP_DONE);
    CHECK_INT(f[0].sent + f[1].sent, 160);
    CHECK_INT(f[2].sent, 160);
    CHECK_INT(f[2].in_flight, 16);
    /* In order of arrival, both wait alike: it sends one for every fifteen of the other. */
    CHECK_MSG(f[1].sent >= 8 && f[1].sent <= 12, "%llu", (unsigned long long)f[1].sent);
    CHECK(f[0].measured <= f[0].sent - 30 && f[1].measured == f[1].sent - 2);
    bed_close(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sweep__known_latency__percentiles_are_within_two_percent),
        cmocka_unit_test(
            sweep__times_at_random__percentiles_are_those_that_the_endpoint_wrote_down),
        cmocka_unit_test(sweep__known_capacity__knee_is_within_a_tenth),
        cmocka_unit_test(sweep__more_goes_wrong_than_the_budget__stops_and_counts),
        cmocka_unit_test(sweep__refused_with_a_hint__rests_that_long_before_the_next_run),
        cmocka_unit_test(sweep__stopped__gives_what_it_has),
        cmocka_unit_test(sweep__unequal_parts__each_keeps_its_own_in_flight),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
