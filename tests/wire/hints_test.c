#include "wire/hints.h"

#include "wire/dates.h"
#include "wire/usage.h"
#include "wire/wire_data.h"

#define UNIX_NOV30 INT64_C(1764460800) /* 2025-11-30T00:00:00Z */
#define NS_NOV30 (UNIX_NOV30 * (int64_t)WEIR_NS_PER_S)

/* Reads a stored HTTP response: its headers into *h; its body gives the error type. */
static struct weir_hint hint_of_sample(const char *name, struct weir_hints *h)
{
    struct wire_bytes b = wire_load(name);
    const char *text = (const char *)b.at, *end = text + b.n;
    bool anthropic = strstr(name, "anthropic") != NULL;
    char status_text[4] = {0}; /* the sample has no NUL for a number's end */
    memcpy(status_text, text + strlen("HTTP/1.1 "), 3);
    uint16_t status = (uint16_t)atoi(status_text);
    const char *line = (const char *)memchr(text, '\n', b.n) + 1;
    weir_hints_init(h);
    while (line < end && *line != '\r') {
        const char *stop = (const char *)memchr(line, '\r', (size_t)(end - line));
        const char *colon = (const char *)memchr(line, ':', (size_t)(stop - line));
        weir_hints_header(h, line, (size_t)(colon - line), colon + 1, (size_t)(stop - colon - 1));
        line = stop + 2;
    }
    struct weir_usage u;
    weir_usage_init(&u, anthropic ? WEIR_API_ANTHROPIC_MESSAGES : WEIR_API_OPENAI_CHAT, false);
    weir_usage_feed(&u, line + 2, (size_t)(end - line - 2));
    weir_usage_finish(&u);
    struct weir_hint hint =
        weir_hints_result(h, status, anthropic ? WEIR_DIALECT_ANTHROPIC : WEIR_DIALECT_OPENAI,
                          u.seen.error_type, u.seen.error_code, 0);
    free(b.at);
    return hint;
}

static void samples__give_the_hints_their_table_names(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool permanent, has_wait;
        uint64_t wait_ms;
    } rows[] = {
        {"http/openai_429_tokens.http", false, true, 2528},
        {"http/openai_429_insufficient_quota.http", true, false, 0},
        {"http/openai_429_no_retry.http", true, false, 0},
        {"http/anthropic_429.http", false, true, 38000},
        {"http/anthropic_429_spend_cap.http", true, false, 0},
        {"http/anthropic_529.http", false, false, 0},
        {"http/retry_after_date.http", false, true, 45000},
        {"http/draft_headers_429.http", false, true, 6400},
        {"http/openai_200.http", false, false, 0},
        {"http/anthropic_200.http", false, false, 0},
    };
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct weir_hints h;
        struct weir_hint hint = hint_of_sample(rows[i].name, &h);
        CHECK_MSG(hint.permanent == rows[i].permanent, "%s", rows[i].name);
        CHECK_MSG(hint.has_wait == rows[i].has_wait, "%s", rows[i].name);
        CHECK_MSG(!hint.has_wait || hint.wait_ns == rows[i].wait_ms * WEIR_NS_PER_MS, "%s: %llu",
                  rows[i].name, (unsigned long long)hint.wait_ns);
    }
}

static void check_view(const struct weir_limit_view *view, uint64_t limit, uint64_t remaining,
                       uint64_t reset_ms)
{
    CHECK(view->has_limit && view->has_remaining && view->has_reset);
    CHECK_INT(view->limit, limit);
    CHECK_INT(view->remaining, remaining);
    CHECK_INT(view->reset_ns, reset_ms * WEIR_NS_PER_MS);
}

static void limits_of_both_dialects__are_read_with_their_resets(void **state)
{
    (void)state;
    struct weir_hints h;
    (void)hint_of_sample("http/openai_200.http", &h);
    check_view(&h.limits[WEIR_DIM_REQUESTS], 60, 59, 1000);
    check_view(&h.limits[WEIR_DIM_TOKENS], 150000, 149984, 360000);
    check_view(&h.limits[WEIR_DIM_PROJECT_TOKENS], 1000000, 998767, 74);
    CHECK(!h.limits[WEIR_DIM_INPUT_TOKENS].has_limit);
    (void)hint_of_sample("http/anthropic_429.http", &h);
    check_view(&h.limits[WEIR_DIM_REQUESTS], 50, 49, 1000);
    check_view(&h.limits[WEIR_DIM_INPUT_TOKENS], 30000, 0, 38000);
    check_view(&h.limits[WEIR_DIM_OUTPUT_TOKENS], 8000, 8000, 0);
    check_view(&h.limits[WEIR_DIM_TOKENS], 38000, 37000, 2000);
}

struct header {
    const char *name, *value;
};

static struct weir_hint hint_of(const struct header *headers, size_t n, uint16_t status)
{
    struct weir_hints h;
    weir_hints_init(&h);
    for (size_t i = 0; i < n; i++)
        weir_hints_header(&h, headers[i].name, strlen(headers[i].name), headers[i].value,
                          strlen(headers[i].value));
    return weir_hints_result(&h, status, WEIR_DIALECT_OPENAI, "", "", NS_NOV30);
}

#define HINT_OF(status, ...)                                                                       \
    hint_of((const struct header[]){__VA_ARGS__},                                                  \
            sizeof((const struct header[]){__VA_ARGS__}) / sizeof(struct header), status)

static void hint__milliseconds_beat_seconds_beat_dates_beat_limits(void **state)
{
    (void)state;
    struct header ms = {"Retry-After-Ms", "1500.5"}, after = {"Retry-After", "2.5"};
    struct header t = {"RateLimit", "\"a;,\";r=3;t=90, \"b\";r=0;t=7;x=\"q;t=9\""};
    struct header reset = {"x-ratelimit-reset-tokens", "1m0.5s"};
    struct header left = {"x-ratelimit-remaining-tokens", "0"};
    CHECK_INT(HINT_OF(429, reset, left, t, after, ms).wait_ns, 1500500000);
    CHECK_INT(HINT_OF(429, reset, left, t, after).wait_ns, 2500000000);
    CHECK_INT(HINT_OF(429, reset, left, t).wait_ns, 7 * WEIR_NS_PER_S);
    CHECK_INT(HINT_OF(429, reset, left).wait_ns, 60500 * WEIR_NS_PER_MS);
    /* Only a 429 says that a limit ran out. */
    CHECK(!HINT_OF(503, reset, left).has_wait);
    /* Without Date, a date counts from now. */
    struct header date = {"retry-after", "Sun, 30 Nov 2025 00:00:45 GMT"};
    CHECK_INT(HINT_OF(503, date).wait_ns, 45 * WEIR_NS_PER_S);
    struct header past = {"retry-after", "Sun, 30 Nov 2025 00:00:00 GMT"};
    CHECK(HINT_OF(503, past).has_wait);
    CHECK_INT(HINT_OF(503, past).wait_ns, 0);
}

static void hint__a_limit_not_known_to_be_empty__gives_the_shortest_reset(void **state)
{
    (void)state;
    struct header a = {"x-ratelimit-reset-requests", "120ms"};
    struct header b = {"x-ratelimit-reset-tokens", "57s"};
    struct header a_left = {"x-ratelimit-remaining-requests", "4"};
    struct header b_left = {"x-ratelimit-remaining-tokens", "0"};
    CHECK_INT(HINT_OF(429, a, b).wait_ns, 120 * WEIR_NS_PER_MS);
    CHECK_INT(HINT_OF(429, a, b, a_left, b_left).wait_ns, 57 * WEIR_NS_PER_S);
    struct header unix_s = {"x-ratelimit-reset", "1764460838"};
    struct header unix_ms = {"x-ratelimit-reset", "1764460838000"};
    CHECK_INT(HINT_OF(429, unix_s).wait_ns, 38 * WEIR_NS_PER_S);
    CHECK_INT(HINT_OF(429, unix_ms).wait_ns, 38 * WEIR_NS_PER_S);
}

static void hint__broken_values__are_ignored(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "soon",
                                      "-1",
                                      "1,5",
                                      "1 2",
                                      "0x10",
                                      ".",
                                      "1e3",
                                      "Sun, 30 Nov 2025 00:00:45",
                                      "Sun, 31 Nov 2025 00:00:45 GMT"};
    for (size_t i = 0; i < WEIR_COUNT(bad); i++) {
        struct header after = {"retry-after", bad[i]}, ms = {"retry-after-ms", bad[i]};
        struct header reset = {"x-ratelimit-reset-tokens", bad[i]}, t = {"ratelimit", bad[i]};
        CHECK_MSG(!HINT_OF(429, after, ms, reset, t).has_wait, "%s", bad[i]);
    }
    static const char *const bad_t[] = {"\"a",   "\"a\";t",    "\"a\";t=", "\"a\";r=0;t=x",
                                        "a;b;c", "\"a\";t=-5", ";;;",      "\"a\";t=1 \"b\";t=2"};
    for (size_t i = 0; i < WEIR_COUNT(bad_t); i++)
        CHECK_MSG(!HINT_OF(429, {"ratelimit", bad_t[i]}).has_wait, "%s", bad_t[i]);
    /* Too large is large, not small. */
    CHECK_INT(HINT_OF(429, {"retry-after", "99999999999999999999999999"}).wait_ns, UINT64_MAX);
    CHECK_INT(HINT_OF(429, {"ratelimit", "\"a\";r=0;t=99999999999999999999"}).wait_ns, UINT64_MAX);
}

static void should_retry__false_is_permanent_and_true_lifts_the_spend_cap(void **state)
{
    (void)state;
    CHECK(HINT_OF(429, {"x-should-retry", "false"}, {"retry-after", "3"}).permanent);
    CHECK(!HINT_OF(429, {"x-should-retry", "true"}).permanent);
    struct weir_hints h;
    weir_hints_init(&h);
    CHECK(weir_hints_result(&h, 429, WEIR_DIALECT_ANTHROPIC, "rate_limit_error", "", 0).permanent);
    CHECK(!weir_hints_result(&h, 529, WEIR_DIALECT_ANTHROPIC, "overloaded_error", "", 0).permanent);
    weir_hints_header(&h, "x-should-retry", 14, "true", 4);
    CHECK(!weir_hints_result(&h, 429, WEIR_DIALECT_ANTHROPIC, "rate_limit_error", "", 0).permanent);
}

#define CHECK_WRITE(want, call)                                                                    \
    do {                                                                                           \
        char out[1024];                                                                            \
        size_t cap = sizeof out - 1, n = (call);                                                   \
        out[n] = 0;                                                                                \
        CHECK_STR(out, want);                                                                      \
        cap = n - 1;                                                                               \
        CHECK_INT((call), 0);                                                                      \
    } while (0)

static void hints_written__are_rounded_up_and_say_when_repeating_is_pointless(void **state)
{
    (void)state;
    CHECK_WRITE("retry-after: 3\r\nretry-after-ms: 2529\r\n",
                weir_hint_write(out, cap, 2528 * WEIR_NS_PER_MS + 1));
    CHECK_WRITE("retry-after: 1\r\nretry-after-ms: 1\r\n", weir_hint_write(out, cap, 0));
    CHECK_WRITE("retry-after: 60\r\nretry-after-ms: 60000\r\n",
                weir_hint_write(out, cap, 60 * WEIR_NS_PER_S));
    CHECK_WRITE("retry-after: 61\r\nx-should-retry: false\r\n",
                weir_hint_write(out, cap, 60 * WEIR_NS_PER_S + 1));
    CHECK_WRITE("x-should-retry: false\r\n", weir_hint_write_permanent(out, cap, WEIR_NEVER_NS));
    CHECK_WRITE("retry-after: 1\r\nx-should-retry: false\r\n",
                weir_hint_write_permanent(out, cap, 5));
}

static void limits_written__read_back_the_same_in_both_dialects(void **state)
{
    (void)state;
    struct weir_limit_view limits[WEIR_DIM_COUNT] = {
        [WEIR_DIM_REQUESTS] = {true, true, true, 60, 59, WEIR_NS_PER_S},
        [WEIR_DIM_TOKENS] = {true, true, true, 150000, 0, 359500 * WEIR_NS_PER_MS},
    };
    CHECK_WRITE("x-ratelimit-limit-requests: 60\r\nx-ratelimit-remaining-requests: 59\r\n"
                "x-ratelimit-reset-requests: 1s\r\nx-ratelimit-limit-tokens: 150000\r\n"
                "x-ratelimit-remaining-tokens: 0\r\nx-ratelimit-reset-tokens: 5m59.5s\r\n",
                weir_limits_write(out, cap, WEIR_DIALECT_OPENAI, limits, NS_NOV30));
    CHECK_WRITE("anthropic-ratelimit-requests-limit: 60\r\n"
                "anthropic-ratelimit-requests-remaining: 59\r\n"
                "anthropic-ratelimit-requests-reset: 2025-11-30T00:00:01Z\r\n"
                "anthropic-ratelimit-tokens-limit: 150000\r\n"
                "anthropic-ratelimit-tokens-remaining: 0\r\n"
                "anthropic-ratelimit-tokens-reset: 2025-11-30T00:06:00Z\r\n",
                weir_limits_write(out, cap, WEIR_DIALECT_ANTHROPIC, limits, NS_NOV30));
}

static void durations__are_read_and_written_as_go_does(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t ns;
        const char *written;
    } rows[] = {
        {"1s", 1000000000, "1s"},
        {"6m0s", 360000000000, "6m0s"},
        {"12ms", 12000000, "12ms"},
        {"2m59.56s", 179560000000, "2m59.56s"},
        {"1h2m3s", 3723000000000, "1h2m3s"},
        {"0", 0, "0s"},
        {"0s", 0, "0s"},
        {"1.5h", 5400000000000, "1h30m0s"},
        {"250us", 250000, "1ms"},
        {"250\xc2\xb5s", 250000, "1ms"},
        {"3ns", 3, "1ms"},
        {"1d", 86400000000000, "24h0m0s"},
        {"57.908s", 57908000000, "57.908s"},
        {"999.2ms", 999200000, "1s"},
    };
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        uint64_t ns = 1;
        char out[40];
        CHECK_MSG(weir_duration_read(rows[i].text, strlen(rows[i].text), &ns), "%s", rows[i].text);
        CHECK_MSG(ns == rows[i].ns, "%s: %llu", rows[i].text, (unsigned long long)ns);
        out[weir_duration_write(out, sizeof out, ns)] = 0;
        CHECK_STR(out, rows[i].written);
    }
    static const char *const bad[] = {"", "s", "1", "1x", "1s2", "1.s.", "-1s", " 1s", "1s ", "m"};
    uint64_t ns;
    for (size_t i = 0; i < WEIR_COUNT(bad); i++)
        CHECK_MSG(!weir_duration_read(bad[i], strlen(bad[i]), &ns), "%s", bad[i]);
}

static void dates__of_every_form__are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t unix_s;
    } rows[] = {
        {"Sun, 06 Nov 1994 08:49:37 GMT", 784111777},
        {"Sunday, 06-Nov-94 08:49:37 GMT", 784111777},
        {"Sun Nov  6 08:49:37 1994", 784111777},
        {"Thu, 01 Jan 1970 00:00:00 GMT", 0},
        {"Tue, 29 Feb 2000 12:00:00 GMT", 951825600},
        {"Sat, 31 Dec 2016 23:59:60 GMT", 1483228800},
        {"Fri, 31 Dec 9999 23:59:59 GMT", 253402300799},
    };
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        int64_t unix_s = -1;
        CHECK_MSG(weir_http_date_read(rows[i].text, strlen(rows[i].text), &unix_s), "%s",
                  rows[i].text);
        CHECK_MSG(unix_s == rows[i].unix_s, "%s: %lld", rows[i].text, (long long)unix_s);
    }
    static const char *const bad[] = {"Sun, 06 Nov 1994 08:49:37",
                                      "Sun, 06 Nov 1994 08:49:37 UTC",
                                      "06 Nov 1994 08:49:37 GMT",
                                      "Sun, 29 Feb 2023 00:00:00 GMT",
                                      "Sun, 06 Nov 1994 24:00:00 GMT",
                                      "Sun, 06 nov 1994 08:49:37 GMT",
                                      "Sun, 06 Nov 1969 08:49:37 GMT",
                                      "Sun, 06 Nov 1994 08:49:37 GMT ",
                                      "",
                                      "Sun, 00 Nov 1994 08:49:37 GMT"};
    for (size_t i = 0; i < WEIR_COUNT(bad); i++) {
        int64_t unix_s;
        CHECK_MSG(!weir_http_date_read(bad[i], strlen(bad[i]), &unix_s), "%s", bad[i]);
    }
}

static void dates__as_tables_write_them__are_read_and_missing_parts_are_zero(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t unix_s;
        bool has_zone, has_time;
    } rows[] = {{"2025-11-30", 1764460800, false, false},
                {"2025-11-30Z", 1764460800, true, false},
                {"2025-11-30T01", 1764464400, false, true},
                {"2025-11-30 01:00", 1764464400, false, true},
                {"2025-11-30 01:00 UTC", 1764464400, true, true},
                {"2025-11-30 01:00:00UTC", 1764464400, true, true},
                {"2025-11-30T01:00:00.9", 1764464400, false, true},
                {"2025-11-30T03:00:00+0200", 1764464400, true, true},
                {"2025-11-30T03:00+02:00", 1764464400, true, true},
                {"2025-11-29T20:00:00-05:00", 1764464400, true, true}};
    static const char *const bad[] = {"",
                                      "2025-11-3",
                                      "2025-13-30",
                                      "30.11.2025",
                                      "2025-11-30X01",
                                      "2025-11-30T1",
                                      "2025-11-30T25:00",
                                      "2025-11-30T01:00 CET",
                                      "2025-11-30T01:00:00+2",
                                      "2025-11-30T01:00:00UTCUTC",
                                      "2025-11-30T01:00:00.00000000000000000000000000000000000000"};
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        int64_t unix_s;
        bool has_zone, has_time;
        CHECK_MSG(weir_iso_read(rows[i].text, strlen(rows[i].text), &unix_s, &has_zone, &has_time),
                  "%s", rows[i].text);
        CHECK_MSG(unix_s == rows[i].unix_s && has_zone == rows[i].has_zone &&
                      has_time == rows[i].has_time,
                  "%s: %lld", rows[i].text, (long long)unix_s);
    }
    for (size_t i = 0; i < WEIR_COUNT(bad); i++) {
        int64_t unix_s;
        bool zone, time;
        CHECK_MSG(!weir_iso_read(bad[i], strlen(bad[i]), &unix_s, &zone, &time), "%s", bad[i]);
    }
}

static void dates__of_rfc3339__are_read_with_fraction_and_offset(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ns;
    } rows[] = {
        {"2025-11-30T00:00:38Z", NS_NOV30 + 38000000000},
        {"2025-11-30T02:00:38.25+02:00", NS_NOV30 + 38250000000},
        {"2025-11-29t23:00:00.000000001234-01:00", NS_NOV30 + 1},
        {"2025-11-30 00:00:00z", NS_NOV30},
    };
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        int64_t ns = -1;
        CHECK_MSG(weir_rfc3339_read(rows[i].text, strlen(rows[i].text), &ns), "%s", rows[i].text);
        CHECK_MSG(ns == rows[i].ns, "%s: %lld", rows[i].text, (long long)ns);
    }
    static const char *const bad[] = {"2025-11-30T00:00:38",      "2025-11-30",
                                      "2025-13-30T00:00:38Z",     "2025-11-30T00:00:38.Z",
                                      "2025-11-30T00:00:38+2:00", "9999-11-30T00:00:38Z"};
    for (size_t i = 0; i < WEIR_COUNT(bad); i++) {
        int64_t ns;
        CHECK_MSG(!weir_rfc3339_read(bad[i], strlen(bad[i]), &ns), "%s", bad[i]);
    }
}

static void dates__written__read_back_the_same_for_every_day_of_400_years(void **state)
{
    (void)state;
    for (int64_t day = 0; day < 146097; day++) {
        int64_t unix_s = day * 86400 + day % 86400, back = 0, back_ns = 0;
        char out[40];
        size_t n = weir_http_date_write(out, sizeof out, unix_s);
        CHECK_INT(n, 29);
        CHECK_MSG(weir_http_date_read(out, n, &back) && back == unix_s, "day %lld: %.*s",
                  (long long)day, (int)n, out);
        if (unix_s > INT64_MAX / (int64_t)WEIR_NS_PER_S - 2)
            continue;
        n = weir_rfc3339_write(out, sizeof out, unix_s * (int64_t)WEIR_NS_PER_S);
        CHECK_INT(n, 20);
        CHECK_MSG(weir_rfc3339_read(out, n, &back_ns) && back_ns == unix_s * (int64_t)WEIR_NS_PER_S,
                  "day %lld: %.*s", (long long)day, (int)n, out);
    }
    char out[30];
    out[weir_http_date_write(out, sizeof out, 784111777)] = 0;
    CHECK_STR(out, "Sun, 06 Nov 1994 08:49:37 GMT");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples__give_the_hints_their_table_names),
        cmocka_unit_test(limits_of_both_dialects__are_read_with_their_resets),
        cmocka_unit_test(hint__milliseconds_beat_seconds_beat_dates_beat_limits),
        cmocka_unit_test(hint__a_limit_not_known_to_be_empty__gives_the_shortest_reset),
        cmocka_unit_test(hint__broken_values__are_ignored),
        cmocka_unit_test(should_retry__false_is_permanent_and_true_lifts_the_spend_cap),
        cmocka_unit_test(hints_written__are_rounded_up_and_say_when_repeating_is_pointless),
        cmocka_unit_test(limits_written__read_back_the_same_in_both_dialects),
        cmocka_unit_test(durations__are_read_and_written_as_go_does),
        cmocka_unit_test(dates__of_every_form__are_read),
        cmocka_unit_test(dates__as_tables_write_them__are_read_and_missing_parts_are_zero),
        cmocka_unit_test(dates__of_rfc3339__are_read_with_fraction_and_offset),
        cmocka_unit_test(dates__written__read_back_the_same_for_every_day_of_400_years),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
