/* The sweep against the mock, whose latency, limits and faults are known, on a simulated clock; and, on
 * the real one, against an endpoint that writes down when what happened. (Capacities, clients and
 * verdicts: tests/cli/sweep_exact_test.c.) */
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
#include "measure/percentile.h"
#include "measure/prompt.h"
#include "net/timer.h"
#include "support/check.h"
#include "support/lockstep.h"

struct bed {
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
    bed_aim(bed, lockstep_open(config), is_stream, output_tok, timeout_ns);
}

static void bed_close(struct bed *bed)
{
    weir_sweep_destroy(bed->sweep);
    lockstep_close();
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

static void sweep__known_latency__is_every_percentile(void **state)
{
    (void)state;
    static const uint64_t latency_ticks[] = {2, 19, 100, 191, 1000};
    for (size_t i = 0; i < WEIR_COUNT(latency_ticks); i++)
        for (int is_stream = 0; is_stream < 2; is_stream++) {
            struct weir_mock_config config = plain();
            struct weir_sweep_figures f;
            struct bed bed;
            uint64_t want_ns = config.latency_ns = latency_ticks[i] * LOCKSTEP_TICK_NS;
            bed_open(&bed, &config, is_stream, 4, 10 * WEIR_NS_PER_S);
            CHECK_INT(bed_run(&bed, 6, 24, &f), WEIR_SWEEP_DONE);
            CHECK_INT(f.sent, 24);
            CHECK_INT(f.ended[WEIR_LOAD_OK], 24);
            CHECK_INT(f.measured, 12);
            CHECK_INT(f.whole.count, 12);
            CHECK_INT(f.first.count, is_stream ? 12 : 0);
            const struct weir_sweep_times *times[] = {&f.whole, &f.first};
            for (int k = 0; k <= is_stream; k++) {
                CHECK_INT(times[k]->p50_ns, want_ns);
                CHECK_INT(times[k]->p95_ns, want_ns);
                CHECK_INT(times[k]->p99_ns, want_ns);
                CHECK_INT(times[k]->mean_ns, want_ns);
            }
            CHECK(fabs(f.per_s - 6e9 / (double)want_ns) < 1e-6 * f.per_s);
            bed_close(&bed);
        }
}

/* ---- an endpoint that writes down how long it really took ---- */

enum { TRUTH_REQUESTS = 60, TRIES = 5 };

struct truth {
    int listener;
    uint64_t read_ns[TRUTH_REQUESTS + 1], wrote_ns[TRUTH_REQUESTS]; /* read: the whole request */
};

static void truth_answer(int peer, struct truth *truth, int i, struct weir_rng *rng)
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
    truth->read_ns[i] = weir_loop_clock_ns();
    const struct timespec wait = {
        .tv_nsec = (long)(weir_rng_between(rng, 1, 20) * WEIR_NS_PER_MS)}; /* what it takes */
    nanosleep(&wait, NULL);
    truth->wrote_ns[i] = weir_loop_clock_ns();
    CHECK(write(peer, answer, sizeof answer - 1) == (ssize_t)sizeof answer - 1);
}

static void *truth_serve(void *ctx)
{
    struct truth *truth = ctx;
    struct weir_rng rng;
    weir_rng_seed(&rng, 5, 5);
    int peer = accept(truth->listener, NULL, NULL);
    for (int i = 0; i < TRUTH_REQUESTS; i++)
        truth_answer(peer, truth, i, &rng);
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

/* With one in flight a request is sent after the answer before it was written and before it is read,
 * and ends after its own answer was written and before the next request is read. So each time, and
 * with them each percentile, has a lower and an upper bound, however busy the machine is; on a quiet
 * one they are close to each other. */
static void sweep__times_at_random__percentiles_are_those_that_the_endpoint_wrote_down(void **state)
{
    (void)state;
    static const uint32_t permille[] = {500, 950, 990};
    double apart_ms = 1;
    for (int try = 0; try < TRIES && apart_ms >= 1; try++) {
        struct truth truth;
        struct weir_sweep_figures f;
        struct weir_sample least, most;
        struct bed bed = {0};
        pthread_t thread;
        bed_aim(&bed, truth_listen(&truth), false, 4, 10 * WEIR_NS_PER_S);
        CHECK(pthread_create(&thread, NULL, truth_serve, &truth) == 0);
        enum weir_sweep_end end = bed_run(&bed, 1, TRUTH_REQUESTS, &f);
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK_INT(end, WEIR_SWEEP_DONE);
        CHECK_INT(f.ended[WEIR_LOAD_OK], TRUTH_REQUESTS);
        CHECK(weir_sample_init(&least, TRUTH_REQUESTS) && weir_sample_init(&most, TRUTH_REQUESTS));
        for (int i = 1; i < TRUTH_REQUESTS - 1; i++) { /* the first and the last are not measured */
            weir_sample_add(&least, truth.wrote_ns[i] - truth.read_ns[i]);
            weir_sample_add(&most, truth.read_ns[i + 1] - truth.wrote_ns[i - 1]);
        }
        const uint64_t got_ns[] = {f.whole.p50_ns, f.whole.p95_ns, f.whole.p99_ns};
        apart_ms = 0;
        for (int i = 0; i < 3; i++) {
            uint64_t low_ns = weir_sample_at(&least, permille[i]),
                     high_ns = weir_sample_at(&most, permille[i]);
            CHECK_MSG(low_ns <= got_ns[i] && got_ns[i] <= high_ns,
                      "%u permille: %.3f ms, not %.3f to %.3f ms", permille[i],
                      (double)got_ns[i] / 1e6, (double)low_ns / 1e6, (double)high_ns / 1e6);
            apart_ms = fmax(apart_ms, (double)(high_ns - low_ns) / 1e6);
        }
        weir_sample_free(&least);
        weir_sample_free(&most);
        weir_sweep_destroy(bed.sweep);
        close(truth.listener);
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
    uint64_t rested_ns = weir_loop_clock_ns() - before_ns;
    CHECK_MSG(rested_ns + LOCKSTEP_TICK_NS >= 400 * WEIR_NS_PER_MS &&
                  rested_ns <= 400 * WEIR_NS_PER_MS + LOCKSTEP_TICK_NS,
              "%llu ns", (unsigned long long)rested_ns);
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
    CHECK_INT(f[1].sent, 10); /* in order of arrival: one for every fifteen of the other */
    CHECK(f[0].measured <= f[0].sent - 30 && f[1].measured == f[1].sent - 2);
    bed_close(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sweep__known_latency__is_every_percentile),
        cmocka_unit_test(
            sweep__times_at_random__percentiles_are_those_that_the_endpoint_wrote_down),
        cmocka_unit_test(sweep__more_goes_wrong_than_the_budget__stops_and_counts),
        cmocka_unit_test(sweep__refused_with_a_hint__rests_that_long_before_the_next_run),
        cmocka_unit_test(sweep__stopped__gives_what_it_has),
        cmocka_unit_test(sweep__unequal_parts__each_keeps_its_own_in_flight),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
