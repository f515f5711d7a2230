/* Open loop: when requests leave, what is counted, when it stops; and what the results come to. */
#include "measure/playback.h"

#include <stdlib.h>

#include "measure/playback_figures.h"
#include "support/check.h"
#include "support/mock_child.h"

enum { ITEMS_MAX = 256 };

struct bed {
    struct weir_loop *loop;
    struct weir_playback *playback;
    struct weir_endpoint endpoint;
    struct weir_playback_item items[ITEMS_MAX];
    struct weir_playback_result results[ITEMS_MAX];
    size_t count;
    uint32_t overs;
};

static void bed_over(void *ctx)
{
    struct bed *bed = ctx;
    bed->overs++;
    weir_loop_stop(bed->loop);
}

/* count requests, gap_ns apart. */
static struct bed *bed_open(uint16_t port, size_t count, uint64_t gap_ns, uint32_t in_flight_max,
                            uint32_t failures_max)
{
    static const char *const models[] = {"m"};
    char url[64], error_text[400];
    struct bed *bed = calloc(1, sizeof *bed);
    CHECK(bed && count <= ITEMS_MAX);
    bed->count = count;
    for (size_t i = 0; i < count; i++)
        bed->items[i] = (struct weir_playback_item){
            .arrival_ns = i * gap_ns, .prompt_tok = 10, .output_tok = 3, .is_stream = i % 2};
    snprintf(url, sizeof url, "http://127.0.0.1:%u", port);
    CHECK(weir_endpoint_read(url, WEIR_API_OPENAI_CHAT, &bed->endpoint, error_text,
                             sizeof error_text));
    struct weir_playback_rules rules = {.load = {.endpoint = &bed->endpoint,
                                                 .timeouts = weir_load_timeouts_default(),
                                                 .in_flight_max = in_flight_max},
                                        .models = models,
                                        .failures_max = failures_max};
    rules.load.timeouts.head_ns = 400 * WEIR_NS_PER_MS;
    bed->loop = weir_loop_create();
    CHECK(bed->loop);
    bed->playback = weir_playback_create(bed->loop, &rules, bed->items, bed->results, count,
                                         bed_over, bed, error_text, sizeof error_text);
    CHECK_MSG(bed->playback, "%s", error_text);
    return bed;
}

static struct weir_playback_view bed_run(struct bed *bed)
{
    struct weir_playback_view view;
    weir_playback_start(bed->playback);
    CHECK(weir_loop_run(bed->loop) == 0);
    weir_playback_view(bed->playback, &view);
    CHECK_INT(bed->overs, 1);
    CHECK_INT(view.in_flight, 0);
    return view;
}

static void bed_close(struct bed *bed)
{
    weir_playback_destroy(bed->playback);
    weir_loop_destroy(bed->loop);
    free(bed);
}

static void playback__answers_that_hang__do_not_hold_up_what_follows(void **state)
{
    (void)state;
    struct weir_mock_config config = weir_mock_config_default();
    config.plain = true;
    config.fault = "stall=head";
    struct mock_child mock = mock_child_start(&config);
    struct bed *bed = bed_open(mock.port, 60, 2 * WEIR_NS_PER_MS, 100, 0);
    struct weir_playback_view view = bed_run(bed);
    CHECK_INT(view.stop, WEIR_PLAYBACK_DONE);
    CHECK_INT(view.begun, 60);
    CHECK_INT(view.failed, 60);
    CHECK_INT(view.last_failure, WEIR_LOAD_TIMEOUT_HEAD);
    CHECK_INT(view.in_flight_peak, 60); /* the first timeout is 0.4 s after the first request */
    CHECK_INT(view.held, 0);
    for (size_t i = 0; i < bed->count; i++) {
        CHECK(bed->results[i].begun_ns >= bed->items[i].arrival_ns); /* never early */
        CHECK(bed->results[i].end_ns >= bed->results[i].sent_ns + 390 * WEIR_NS_PER_MS);
    }
    bed_close(bed);
    mock_child_stop(&mock);
}

static void playback__a_cap_of_one__shows_the_wait_in_latency_and_says_what_was_held(void **state)
{
    (void)state;
    struct weir_mock_config config = weir_mock_config_default();
    config.plain = true;
    config.latency_ns = 20 * WEIR_NS_PER_MS;
    struct mock_child mock = mock_child_start(&config);
    struct bed *bed = bed_open(mock.port, 6, 0, 1, 0);
    struct weir_playback_view view = bed_run(bed);
    struct weir_playback_figures figures[2];
    CHECK_INT(view.stop, WEIR_PLAYBACK_DONE);
    CHECK_INT(view.ok, 6);
    CHECK_INT(view.held, 5);
    CHECK_INT(view.in_flight_peak, 1);
    CHECK_INT(view.connects, 1);
    for (size_t i = 0; i < 6; i++) {
        CHECK_INT(bed->results[i].is_held, i > 0);
        CHECK(bed->results[i].end_ns >= (i + 1) * 19 * WEIR_NS_PER_MS);
    }
    CHECK(weir_playback_figures(bed->items, bed->results, 6, 1, figures));
    CHECK_INT(figures[0].latency.count, 6);
    CHECK_INT(figures[0].latency.max_ns, bed->results[5].end_ns);
    CHECK(figures[0].latency.p50_ns >=
          3 * 19 * WEIR_NS_PER_MS); /* not 20 ms, as from the sending */
    CHECK_INT(figures[0].lag.count, 1);
    CHECK_INT(figures[0].held, 5);
    bed_close(bed);
    mock_child_stop(&mock);
}

static void playback__failures_in_a_row__stop_it_and_a_refusal_between_does_not(void **state)
{
    (void)state;
    struct weir_mock_config config = weir_mock_config_default();
    config.plain = true;
    config.fault = "html";
    struct mock_child mock = mock_child_start(&config);
    struct bed *bed = bed_open(mock.port, 200, 3 * WEIR_NS_PER_MS, 50, 7);
    struct weir_playback_view view = bed_run(bed);
    CHECK_INT(view.stop, WEIR_PLAYBACK_HOPELESS);
    CHECK_INT(view.failed, 7);
    CHECK_MSG(view.begun < 200, "%zu", view.begun);
    CHECK_INT(bed->results[199].state, WEIR_PLAYBACK_READY);
    for (size_t i = 0; i < bed->count; i++)
        CHECK_INT(bed->results[i].state,
                  i < view.begun ? WEIR_PLAYBACK_ENDED : WEIR_PLAYBACK_READY);
    bed_close(bed);
    mock_child_stop(&mock);

    config.fault = "status=429;retry-after=1";
    mock = mock_child_start(&config);
    bed = bed_open(mock.port, 40, 0, 50, 7);
    view = bed_run(bed);
    CHECK_INT(view.stop, WEIR_PLAYBACK_DONE);
    CHECK_INT(view.refused, 40);
    CHECK_INT(bed->results[3].hint_ns, WEIR_NS_PER_S);
    CHECK_STR(weir_playback_code(bed->playback, bed->results[3].code), "rate_limit_exceeded");
    CHECK_INT(weir_playback_codes_count(bed->playback), 2);
    bed_close(bed);
    mock_child_stop(&mock);
}

static struct bed *stopping;

static void stop_fire(struct weir_timer *timer)
{
    (void)timer;
    weir_playback_stop(stopping->playback);
    weir_playback_stop(stopping->playback); /* nothing more */
}

static void playback__stopped__has_a_result_for_all_that_was_sent_and_counts_the_held(void **state)
{
    (void)state;
    struct weir_mock_config config = weir_mock_config_default();
    config.plain = true;
    config.latency_ns = 5 * WEIR_NS_PER_S;
    struct mock_child mock = mock_child_start(&config);
    struct bed *bed = bed_open(mock.port, 100, WEIR_NS_PER_MS, 8, 0);
    struct weir_timer timer = {.fire = stop_fire};
    stopping = bed;
    weir_timer_set(bed->loop, &timer, weir_loop_clock_ns() + 150 * WEIR_NS_PER_MS);
    struct weir_playback_view view = bed_run(bed);
    CHECK_INT(view.stop, WEIR_PLAYBACK_STOPPED);
    CHECK_INT(view.begun, 8);
    CHECK_INT(view.ended, 8);
    CHECK_INT(view.ok + view.refused + view.failed, 0);
    CHECK_INT(view.held, 92); /* all were due, and none got in */
    CHECK(view.now_ns >= 149 * WEIR_NS_PER_MS);
    for (size_t i = 0; i < 8; i++)
        CHECK_INT(bed->results[i].end, WEIR_LOAD_CANCELLED);
    bed_close(bed);
    mock_child_stop(&mock);
}

static void playback__a_request_that_is_due_in_centuries__is_not_due_now(void **state)
{
    (void)state;
    struct weir_mock_config config = weir_mock_config_default();
    config.plain = true;
    struct mock_child mock = mock_child_start(&config);
    struct bed *bed = bed_open(mock.port, 2, 0, 8, 0);
    struct weir_timer timer = {.fire = stop_fire};
    bed->items[1].arrival_ns = UINT64_MAX;
    stopping = bed;
    weir_timer_set(bed->loop, &timer, weir_loop_clock_ns() + 100 * WEIR_NS_PER_MS);
    struct weir_playback_view view = bed_run(bed);
    CHECK_INT(view.stop, WEIR_PLAYBACK_STOPPED);
    CHECK_INT(view.begun, 1);
    CHECK_INT(view.ok, 1);
    CHECK_INT(view.held, 0);
    CHECK_MSG(weir_loop_turns(bed->loop) < 500, "%llu turns: it does not wait",
              (unsigned long long)weir_loop_turns(bed->loop));
    bed_close(bed);
    mock_child_stop(&mock);
}

static void playback__never_started__can_be_destroyed(void **state)
{
    (void)state;
    struct bed *bed = bed_open(1, 1, 0, 1, 0);
    weir_playback_stop(bed->playback);
    bed_close(bed);
}

/* ---- figures ---- */

static void figures__by_hand__are_exact(void **state)
{
    (void)state;
    enum { N = 200 };
    static struct weir_playback_item items[N];
    static struct weir_playback_result results[N];
    struct weir_playback_figures f[4];
    for (size_t i = 0; i < N;
         i++) { /* tenant 0: latencies 1..100 ms, in falling order; tenant 2 likewise */
        uint64_t ms = 100 - i / 2;
        items[i] =
            (struct weir_playback_item){.arrival_ns = i * WEIR_NS_PER_MS, .tenant = i % 2 ? 2 : 0};
        results[i] =
            (struct weir_playback_result){.state = WEIR_PLAYBACK_ENDED,
                                          .end = WEIR_LOAD_OK,
                                          .begun_ns = items[i].arrival_ns + 7,
                                          .end_ns = items[i].arrival_ns + ms * WEIR_NS_PER_MS,
                                          .is_usage_known = true,
                                          .input_tok = 10,
                                          .output_tok = 11};
    }
    /* of tenant 2: the slowest was refused, the next failed, one was cancelled, one never sent, one held */
    results[1] = (struct weir_playback_result){.state = WEIR_PLAYBACK_ENDED, .end = WEIR_LOAD_429};
    results[3] = (struct weir_playback_result){.state = WEIR_PLAYBACK_ENDED, .end = WEIR_LOAD_CUT};
    results[5] =
        (struct weir_playback_result){.state = WEIR_PLAYBACK_ENDED, .end = WEIR_LOAD_CANCELLED};
    results[7] = (struct weir_playback_result){.state = WEIR_PLAYBACK_READY};
    results[9].is_held = true;
    results[0].first_token_ns =
        results[0].end_ns - 50 * WEIR_NS_PER_MS; /* 10 later tokens in 50 ms */
    for (size_t i = 0; i < N; i++)
        if (i == 1 || i == 3 || i == 5)
            results[i].begun_ns = items[i].arrival_ns + 9;
    CHECK(weir_playback_figures(items, results, N, 3, f));
    CHECK_INT(f[0].planned, 100);
    CHECK_INT(f[0].ok, 100);
    CHECK_INT(f[0].latency.p50_ns, 50 * WEIR_NS_PER_MS);
    CHECK_INT(f[0].latency.p95_ns, 95 * WEIR_NS_PER_MS);
    CHECK_INT(f[0].latency.p99_ns, 99 * WEIR_NS_PER_MS);
    CHECK_INT(f[0].latency.max_ns, 100 * WEIR_NS_PER_MS);
    CHECK_INT(f[0].ttft.count, 1);
    CHECK_INT(f[0].ttft.p50_ns, 50 * WEIR_NS_PER_MS);
    CHECK_INT(f[0].tpot.p99_ns, 5 * WEIR_NS_PER_MS);
    CHECK_INT(f[0].output_tok, 1100);
    CHECK_INT(f[1].planned, 0);
    CHECK_INT(f[1].latency.count, 0);
    CHECK_INT(f[2].planned, 100);
    CHECK_INT(f[2].begun, 99);
    CHECK_INT(f[2].ok, 96);
    CHECK_INT(f[2].refused, 1);
    CHECK_INT(f[2].failed, 1);
    CHECK_INT(f[2].held, 1);
    CHECK_INT(f[2].latency.max_ns, 96 * WEIR_NS_PER_MS);
    CHECK_INT(f[2].lag.count, 98);
    CHECK_INT(f[2].lag.p50_ns, 7);
    CHECK_INT(f[2].lag.max_ns, 9);
    CHECK_INT(f[3].planned, 200);
    CHECK_INT(f[3].latency.count, 196);
    CHECK_INT(f[3].ttft.count, 1);
}

static void reasons__many__are_counted_by_tenant_and_kind_largest_first(void **state)
{
    (void)state;
    static struct weir_playback_item items[60];
    static struct weir_playback_result results[60];
    struct weir_playback_reason *reasons;
    size_t count;
    for (size_t i = 0; i < 60; i++) {
        items[i].tenant = i < 10;
        results[i] = (struct weir_playback_result){.state = WEIR_PLAYBACK_ENDED,
                                                   .end = i < 20   ? WEIR_LOAD_429
                                                          : i < 55 ? WEIR_LOAD_5XX
                                                                   : WEIR_LOAD_OK,
                                                   .status = 503,
                                                   .from_gateway = i < 50,
                                                   .hint_ns = i};
    }
    CHECK(weir_playback_reasons(items, results, 60, &reasons, &count));
    CHECK_INT(count, 4);
    CHECK_INT(reasons[0].count, 30); /* the gateway's 503 */
    CHECK_INT(reasons[0].hint_max_ns, 49);
    CHECK_INT(reasons[0].from_gateway, true);
    CHECK_INT(reasons[1].count, 10);
    CHECK_INT(reasons[1].tenant, 0);
    CHECK_INT(reasons[2].tenant, 1);
    CHECK_INT(reasons[3].count, 5); /* the endpoint's own */
    free(reasons);
    static const struct {
        struct weir_playback_result r;
        enum weir_playback_kind kind;
    } kinds[] = {
        {{.state = WEIR_PLAYBACK_ENDED, .end = WEIR_LOAD_5XX, .status = 503, .from_gateway = true},
         WEIR_PLAYBACK_REFUSED},
        {{.state = WEIR_PLAYBACK_ENDED, .end = WEIR_LOAD_5XX, .status = 503}, WEIR_PLAYBACK_FAILED},
        {{.state = WEIR_PLAYBACK_ENDED, .end = WEIR_LOAD_4XX, .status = 401, .from_gateway = true},
         WEIR_PLAYBACK_FAILED},
        {{.state = WEIR_PLAYBACK_ENDED, .end = WEIR_LOAD_4XX, .status = 402, .from_gateway = true},
         WEIR_PLAYBACK_REFUSED},
        {{.state = WEIR_PLAYBACK_IN_FLIGHT}, WEIR_PLAYBACK_OPEN},
    };
    for (size_t i = 0; i < WEIR_COUNT(kinds); i++)
        CHECK_INT(weir_playback_kind(&kinds[i].r), kinds[i].kind);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(playback__answers_that_hang__do_not_hold_up_what_follows),
        cmocka_unit_test(playback__a_cap_of_one__shows_the_wait_in_latency_and_says_what_was_held),
        cmocka_unit_test(playback__failures_in_a_row__stop_it_and_a_refusal_between_does_not),
        cmocka_unit_test(playback__stopped__has_a_result_for_all_that_was_sent_and_counts_the_held),
        cmocka_unit_test(playback__a_request_that_is_due_in_centuries__is_not_due_now),
        cmocka_unit_test(playback__never_started__can_be_destroyed),
        cmocka_unit_test(figures__by_hand__are_exact),
        cmocka_unit_test(reasons__many__are_counted_by_tenant_and_kind_largest_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
