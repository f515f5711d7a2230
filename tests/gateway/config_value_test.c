#include "support/check.h"

#include "gateway/config_value.h"

static const struct {
    const char *text;
    bool is_right;
    uint64_t value;
} counts[] = {
    {"0", true, 0},
    {"250", true, 250},
    {"100k", true, 100000},
    {"1.5M", true, 1500000},
    {"2G", true, 2000000000},
    {"18446744073709551615", true, UINT64_MAX},
    {"18446744073709551616", false, 0},
    {"1.5", false, 0},
    {"-1", false, 0},
    {"", false, 0},
    {"k", false, 0},
    {"1 k", false, 0},
    {"1K", false, 0},
    {"1.", false, 0},
    {".5k", false, 0},
    {"1.2.3k", false, 0},
    {"0x10", false, 0},
    {"1e3", false, 0},
    {"99999999999999999999G", false, 0},
};

static const struct {
    const char *text;
    bool is_right;
    uint64_t ns;
} durations[] = {
    {"0", true, 0},
    {"250ms", true, 250 * WEIR_NS_PER_MS},
    {"5s", true, 5 * WEIR_NS_PER_S},
    {"1.5m", true, 90 * WEIR_NS_PER_S},
    {"1h30m", true, 5400 * WEIR_NS_PER_S},
    {"1d", true, 86400 * WEIR_NS_PER_S},
    {"1us", true, 1000},
    {"0.5ns", false, 0},
    {"60", false, 0},
    {"1m1h", false, 0},
    {"1s1s", false, 0},
    {"5 s", false, 0},
    {"5sec", false, 0},
    {"-5s", false, 0},
    {"300000d", false, 0},
};

static const struct {
    const char *text;
    bool is_right;
    uint64_t count, per_s;
} rates[] = {
    {"2/s", true, 2, 1},
    {"100/m", true, 100, 60},
    {"1.5M/h", true, 1500000, 3600},
    {"10k/d", true, 10000, 86400},
    {"7/min", true, 7, 60},
    {"1.5/s", true, 90, 60}, /* the first unit in which it is whole */
    {"0.25/m", true, 15, 3600},
    {"0.001/s", false, 0, 0}, /* 3.6 an hour, 86.4 a day */
    {"0.01/s", true, 36, 3600},
    {"1.5k/s", true, 1500, 1},
    {"18446744073709551615/s", true, UINT64_MAX, 1},
    {"1844674407370955161.6/s", false, 0, 0},
    {"0.00001/s", false, 0, 0},
    {"0.0/s", false, 0, 0},
    {"1./s", false, 0, 0},
    {"0/s", false, 0, 0},
    {"2", false, 0, 0},
    {"2/", false, 0, 0},
    {"2/x", false, 0, 0},
    {"2 /s", false, 0, 0},
    {"/s", false, 0, 0},
    {"2/s ", false, 0, 0},
};

static const struct {
    const char *text;
    bool is_right;
    const char *host;
    uint16_t port;
    bool is_loopback;
} addrs[] = {
    {"127.0.0.1:8765", true, "127.0.0.1", 8765, true},
    {"127.9.9.9:1", true, "127.9.9.9", 1, true},
    {"[::1]:8765", true, "::1", 8765, true},
    {"[::]:80", true, "::", 80, false},
    {"0.0.0.0:0", true, "0.0.0.0", 0, false},
    {"localhost:65535", true, "localhost", 65535, true},
    {"gateway.example:443", true, "gateway.example", 443, false},
    {"::1:8765", false, NULL, 0, false},
    {"127.0.0.1", false, NULL, 0, false},
    {"127.0.0.256:80", false, NULL, 0, false},
    {"127.1:80", false, NULL, 0, false},
    {":80", false, NULL, 0, false},
    {"host:65536", false, NULL, 0, false},
    {"host:", false, NULL, 0, false},
    {"host:8a", false, NULL, 0, false},
    {"[::1:80", false, NULL, 0, false},
    {"[host]:80", false, NULL, 0, false},
    {"ho st:80", false, NULL, 0, false},
};

static void value__counts__as_people_write_them(void **state)
{
    (void)state;
    for (size_t i = 0; i < WEIR_COUNT(counts); i++) {
        uint64_t out = 77;
        CHECK_MSG(weir_value_count(counts[i].text, &out) == counts[i].is_right, "%s",
                  counts[i].text);
        CHECK_MSG(out == (counts[i].is_right ? counts[i].value : 77), "%s", counts[i].text);
    }
}

static void value__durations__need_a_unit(void **state)
{
    (void)state;
    for (size_t i = 0; i < WEIR_COUNT(durations); i++) {
        uint64_t out = 77;
        CHECK_MSG(weir_value_duration(durations[i].text, &out) == durations[i].is_right, "%s",
                  durations[i].text);
        CHECK_MSG(out == (durations[i].is_right ? durations[i].ns : 77), "%s", durations[i].text);
    }
}

static void value__sizes__binary_and_decimal(void **state)
{
    (void)state;
    uint64_t out = 0;
    CHECK(weir_value_bytes("64KiB", &out) && out == 65536);
    CHECK(weir_value_bytes("10MB", &out) && out == 10000000);
    CHECK(weir_value_bytes("1.5GiB", &out) && out == UINT64_C(3) << 29);
    CHECK(weir_value_bytes("512", &out) && out == 512);
    CHECK(!weir_value_bytes("64K", &out) && out == 512);
    CHECK(!weir_value_bytes("99999999999GiB", &out));
}

static void value__factors__are_thousandths(void **state)
{
    (void)state;
    static const struct {
        const char *text, *again;
        bool is_right;
        uint32_t permille;
    } factors[] = {{"2.5", "2.5", true, 2500},  {"0.1", "0.1", true, 100},
                   {"3", "3", true, 3000},      {"0", "0", true, 0},
                   {"0.001", "0.001", true, 1}, {"1000", "1000", true, 1000000},
                   {"2.50", "2.5", true, 2500}, {"1000.001", "", false, 0},
                   {"0.0001", "", false, 0},    {"", "", false, 0},
                   {"x", "", false, 0},         {"-1", "", false, 0},
                   {"2.5 ", "", false, 0},      {"1e3", "", false, 0},
                   {".5", "", false, 0},        {"18446744073709551616", "", false, 0}};
    for (size_t i = 0; i < WEIR_COUNT(factors); i++) {
        uint32_t permille = 0;
        char text[WEIR_VALUE_TEXT_MAX];
        CHECK_MSG(weir_value_factor(factors[i].text, &permille) == factors[i].is_right, "%s",
                  factors[i].text);
        CHECK_INT(permille, factors[i].permille);
        weir_value_factor_text(permille, text);
        CHECK_STR(text, factors[i].is_right ? factors[i].again : "0");
    }
}

static void value__rates__count_per_unit(void **state)
{
    (void)state;
    for (size_t i = 0; i < WEIR_COUNT(rates); i++) {
        struct weir_config_rate out = {0, 0};
        CHECK_MSG(weir_value_rate(rates[i].text, &out) == rates[i].is_right, "%s", rates[i].text);
        CHECK_MSG(out.count == rates[i].count && out.per_ns == rates[i].per_s * WEIR_NS_PER_S, "%s",
                  rates[i].text);
    }
}

static void value__addresses__literals_and_names(void **state)
{
    (void)state;
    for (size_t i = 0; i < WEIR_COUNT(addrs); i++) {
        char host[256] = "";
        uint16_t port = 0;
        CHECK_MSG(weir_value_addr(addrs[i].text, host, &port) == addrs[i].is_right, "%s",
                  addrs[i].text);
        if (!addrs[i].is_right)
            continue;
        CHECK_STR(host, addrs[i].host);
        CHECK_INT(port, addrs[i].port);
        CHECK_MSG(weir_value_is_loopback(host) == addrs[i].is_loopback, "%s", addrs[i].text);
    }
}

static void value__printed__parses_to_the_same(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (int i = 0; i < 10000; i++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint64_t value = seed >> (seed % 61), back = 0;
        char text[WEIR_VALUE_TEXT_MAX];
        weir_value_duration_text(value, text);
        CHECK_MSG(weir_value_duration(text, &back) && back == value, "%s", text);
        weir_value_bytes_text(value, text);
        CHECK_MSG(weir_value_bytes(text, &back) && back == value, "%s", text);
        weir_value_count_text(value, text);
        CHECK_MSG(weir_value_count(text, &back) && back == value, "%s", text);
    }
}

static void value__suggest__nearest_but_not_far(void **state)
{
    (void)state;
    static const char *const known[] = {"weight", "lane", "limits", "max_in_flight", "models"};
    CHECK_STR(weir_value_suggest("wieght", known, WEIR_COUNT(known)), "weight");
    CHECK_STR(weir_value_suggest("max-in-flight", known, WEIR_COUNT(known)), "max_in_flight");
    CHECK_STR(weir_value_suggest("Model", known, WEIR_COUNT(known)), "models");
    CHECK(weir_value_suggest("zzz", known, WEIR_COUNT(known)) == NULL);
    CHECK(weir_value_suggest("colour", known, WEIR_COUNT(known)) == NULL);
    CHECK(weir_value_suggest("x", known, 0) == NULL);
}

static void value__periods__words_or_whole_seconds(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is_right;
        enum weir_period period;
        uint32_t seconds;
    } rows[] = {
        {"none", true, WEIR_PERIOD_NONE, 0},
        {"hour", true, WEIR_PERIOD_HOUR, 0},
        {"day", true, WEIR_PERIOD_DAY, 0},
        {"week", true, WEIR_PERIOD_WEEK, 0},
        {"month", true, WEIR_PERIOD_MONTH, 0},
        {"5h", true, WEIR_PERIOD_SECONDS, 18000},
        {"1000ms", true, WEIR_PERIOD_SECONDS, 1},
        {"36600d", true, WEIR_PERIOD_SECONDS, UINT32_C(36600) * 86400},
        {"36601d", false, 0, 0},
        {"0", false, 0, 0},
        {"1500ms", false, 0, 0},
        {"5", false, 0, 0},
        {"Day", false, 0, 0},
        {"daily", false, 0, 0},
        {"", false, 0, 0},
    };
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct weir_window_rule out = {.anchor = 9};
        CHECK_MSG(weir_value_period(rows[i].text, &out) == rows[i].is_right, "%s", rows[i].text);
        CHECK_MSG(out.period == rows[i].period && out.seconds == rows[i].seconds, "%s",
                  rows[i].text);
        CHECK_INT(out.anchor, 9);
        if (rows[i].is_right && rows[i].period != WEIR_PERIOD_SECONDS)
            CHECK_STR(weir_value_period_name(rows[i].period), rows[i].text);
    }
    uint32_t day = 9;
    CHECK(weir_value_weekday("monday", &day) && day == 1);
    CHECK(weir_value_weekday("sunday", &day) && day == 7);
    CHECK(!weir_value_weekday("mon", &day) && day == 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(value__counts__as_people_write_them),
        cmocka_unit_test(value__durations__need_a_unit),
        cmocka_unit_test(value__sizes__binary_and_decimal),
        cmocka_unit_test(value__factors__are_thousandths),
        cmocka_unit_test(value__rates__count_per_unit),
        cmocka_unit_test(value__periods__words_or_whole_seconds),
        cmocka_unit_test(value__addresses__literals_and_names),
        cmocka_unit_test(value__printed__parses_to_the_same),
        cmocka_unit_test(value__suggest__nearest_but_not_far),
    };
    return cmocka_run_group_tests_name("gateway/config_value", tests, NULL, NULL);
}
