/* Windows of budgets: named days that clocks made odd, and the properties that must hold for any
 * instant in any zone, judged by glibc's own reading of the same database. */
#include "support/check.h"

#include "core/rng.h"
#include "gateway/window.h"

#include <stdlib.h>
#include <time.h>

/* "2026-03-29T22:00Z" as unix seconds: proleptic Gregorian, by glibc. */
static int64_t instant(const char *text)
{
    struct tm tm = {0};
    CHECK_MSG(strptime(text, "%Y-%m-%dT%H:%MZ", &tm) != NULL, "%s", text);
    return timegm(&tm);
}

/* Where each instant lies. zone NULL: no zone is given, which means UTC. */
static const struct {
    const char *zone;
    enum weir_period period;
    uint32_t anchor;
    const char *at, *start, *end;
} rows[] = {
    /* The clocks change: 23 h and 25 h. */
    {"Europe/Berlin", WEIR_PERIOD_DAY, 0, "2026-03-29T12:00Z", "2026-03-28T23:00Z",
     "2026-03-29T22:00Z"},
    {"Europe/Berlin", WEIR_PERIOD_DAY, 0, "2026-10-25T12:00Z", "2026-10-24T22:00Z",
     "2026-10-25T23:00Z"},
    {"Europe/Berlin", WEIR_PERIOD_WEEK, 1, "2026-10-25T12:00Z", "2026-10-18T22:00Z",
     "2026-10-25T23:00Z"},
    {"Europe/Berlin", WEIR_PERIOD_MONTH, 1, "2026-03-31T21:59Z", "2026-02-28T23:00Z",
     "2026-03-31T22:00Z"},
    {"Europe/Berlin", WEIR_PERIOD_HOUR, 0, "2026-10-25T00:30Z", "2026-10-25T00:00Z",
     "2026-10-25T01:00Z"},
    {"Europe/Berlin", WEIR_PERIOD_HOUR, 0, "2026-10-25T01:30Z", "2026-10-25T01:00Z",
     "2026-10-25T02:00Z"},
    /* A midnight that is skipped: the first instant after the gap. */
    {"America/Sao_Paulo", WEIR_PERIOD_DAY, 0, "2018-11-04T12:00Z", "2018-11-04T03:00Z",
     "2018-11-05T02:00Z"},
    {"Africa/Cairo", WEIR_PERIOD_DAY, 0, "2023-04-28T12:00Z", "2023-04-27T22:00Z",
     "2023-04-28T21:00Z"},
    {"Asia/Kathmandu", WEIR_PERIOD_DAY, 0, "1986-01-01T12:00Z", "1985-12-31T18:30Z",
     "1986-01-01T18:15Z"},
    /* Clocks go back at midnight, so that the evening comes twice: 25 h. */
    {"America/Sao_Paulo", WEIR_PERIOD_DAY, 0, "2018-02-18T02:30Z", "2018-02-17T02:00Z",
     "2018-02-18T03:00Z"},
    {"Africa/Cairo", WEIR_PERIOD_DAY, 0, "2023-10-26T20:59Z", "2023-10-25T21:00Z",
     "2023-10-26T22:00Z"},
    /* A midnight that comes twice: the first. */
    {"America/Havana", WEIR_PERIOD_DAY, 0, "2025-11-02T05:30Z", "2025-11-02T04:00Z",
     "2025-11-03T05:00Z"},
    {"America/St_Johns", WEIR_PERIOD_DAY, 0, "2010-11-07T02:31Z", "2010-11-07T02:30Z",
     "2010-11-08T03:30Z"},
    /* There the clock shows the sixth again, 23:30; its window stays closed. */
    {"America/St_Johns", WEIR_PERIOD_DAY, 0, "2010-11-07T03:00Z", "2010-11-07T02:30Z",
     "2010-11-08T03:30Z"},
    /* A date that does not exist, nor has a window. */
    {"Pacific/Apia", WEIR_PERIOD_DAY, 0, "2011-12-30T09:59Z", "2011-12-29T10:00Z",
     "2011-12-30T10:00Z"},
    {"Pacific/Apia", WEIR_PERIOD_DAY, 0, "2011-12-30T10:00Z", "2011-12-30T10:00Z",
     "2011-12-31T10:00Z"},
    {"Pacific/Apia", WEIR_PERIOD_MONTH, 30, "2011-12-30T10:00Z", "2011-12-30T10:00Z",
     "2012-01-29T10:00Z"},
    {"Pacific/Apia", WEIR_PERIOD_WEEK, 5, "2011-12-30T10:00Z", "2011-12-30T10:00Z",
     "2012-01-05T10:00Z"},
    /* Offsets that are no whole hours, and change by half of one. */
    {"Asia/Kathmandu", WEIR_PERIOD_HOUR, 0, "2026-07-01T12:00Z", "2026-07-01T11:15Z",
     "2026-07-01T12:15Z"},
    {"Australia/Lord_Howe", WEIR_PERIOD_DAY, 0, "2026-04-05T00:00Z", "2026-04-04T13:00Z",
     "2026-04-05T13:30Z"},
    {"Australia/Lord_Howe", WEIR_PERIOD_DAY, 0, "2026-10-04T00:00Z", "2026-10-03T13:30Z",
     "2026-10-04T13:00Z"},
    {"Australia/Lord_Howe", WEIR_PERIOD_HOUR, 0, "2026-04-04T15:10Z", "2026-04-04T15:00Z",
     "2026-04-04T15:30Z"},
    /* Ends of months: the anchor stays what it was said to be. */
    {NULL, WEIR_PERIOD_MONTH, 31, "2026-02-27T23:59Z", "2026-01-31T00:00Z", "2026-02-28T00:00Z"},
    {NULL, WEIR_PERIOD_MONTH, 31, "2026-02-28T00:00Z", "2026-02-28T00:00Z", "2026-03-31T00:00Z"},
    {NULL, WEIR_PERIOD_MONTH, 31, "2026-04-30T00:00Z", "2026-04-30T00:00Z", "2026-05-31T00:00Z"},
    {NULL, WEIR_PERIOD_MONTH, 31, "2024-03-01T00:00Z", "2024-02-29T00:00Z", "2024-03-31T00:00Z"},
    {NULL, WEIR_PERIOD_MONTH, 29, "2000-03-01T00:00Z", "2000-02-29T00:00Z", "2000-03-29T00:00Z"},
    {NULL, WEIR_PERIOD_MONTH, 30, "2100-03-01T00:00Z", "2100-02-28T00:00Z", "2100-03-30T00:00Z"},
    {NULL, WEIR_PERIOD_MONTH, 15, "2026-01-14T23:59Z", "2025-12-15T00:00Z", "2026-01-15T00:00Z"},
    {NULL, WEIR_PERIOD_MONTH, 1, "2025-12-31T23:59Z", "2025-12-01T00:00Z", "2026-01-01T00:00Z"},
    /* Weeks: ISO ones by default, others by their anchor. */
    {NULL, WEIR_PERIOD_WEEK, 1, "2026-11-30T00:00Z", "2026-11-30T00:00Z", "2026-12-07T00:00Z"},
    {NULL, WEIR_PERIOD_WEEK, 7, "2026-11-30T00:00Z", "2026-11-29T00:00Z", "2026-12-06T00:00Z"},
    {NULL, WEIR_PERIOD_WEEK, 2, "2026-11-30T00:00Z", "2026-11-24T00:00Z", "2026-12-01T00:00Z"},
    /* Long ago, far ahead. */
    {"Europe/Berlin", WEIR_PERIOD_DAY, 0, "2080-07-01T12:00Z", "2080-06-30T22:00Z",
     "2080-07-01T22:00Z"},
    {"Europe/Berlin", WEIR_PERIOD_DAY, 0, "1942-07-01T12:00Z", "1942-06-30T22:00Z",
     "1942-07-01T22:00Z"},
    {NULL, WEIR_PERIOD_DAY, 0, "1969-12-31T23:59Z", "1969-12-31T00:00Z", "1970-01-01T00:00Z"},
    {NULL, WEIR_PERIOD_HOUR, 0, "1969-12-31T23:59Z", "1969-12-31T23:00Z", "1970-01-01T00:00Z"},
    {NULL, WEIR_PERIOD_MONTH, 31, "1900-02-28T12:00Z", "1900-02-28T00:00Z", "1900-03-31T00:00Z"},
    {"UTC", WEIR_PERIOD_DAY, 0, "2026-11-30T07:00Z", "2026-11-30T00:00Z", "2026-12-01T00:00Z"},
};

static void window__named_instants__lie_where_their_calendar_says(void **state)
{
    (void)state;
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct weir_zone *zone = rows[i].zone ? weir_zone_open(rows[i].zone) : NULL;
        CHECK_MSG(!rows[i].zone || zone, "%s", rows[i].zone);
        struct weir_window_rule rule = {
            .period = rows[i].period, .anchor = rows[i].anchor, .zone = zone};
        struct weir_window window = weir_window_at(&rule, instant(rows[i].at));
        CHECK_MSG(window.start_s == instant(rows[i].start), "row %zu: starts %lld, want %s", i,
                  (long long)window.start_s, rows[i].start);
        CHECK_MSG(window.end_s == instant(rows[i].end), "row %zu: ends %lld, want %s", i,
                  (long long)window.end_s, rows[i].end);
        weir_zone_close(zone);
    }
}

static void window__none_and_seconds__need_no_calendar(void **state)
{
    (void)state;
    struct weir_window_rule none = {.period = WEIR_PERIOD_NONE};
    struct weir_window_rule five = {.period = WEIR_PERIOD_SECONDS, .seconds = 18000};
    struct weir_window window = weir_window_at(&none, 1796022000);
    CHECK_INT(weir_window_number(window), 0);
    CHECK_INT(window.end_s, INT64_MAX);
    window = weir_window_at(&five, 1796022000);
    CHECK_INT(window.start_s % 18000, 0);
    CHECK(window.start_s <= 1796022000 && window.end_s == window.start_s + 18000);
    CHECK_INT(weir_window_number(window), window.start_s);
    window = weir_window_at(&five, -1);
    CHECK_INT(window.start_s, -18000);
    CHECK_INT(window.end_s, 0);
    CHECK_INT(weir_window_number(window), 0); /* numbers are never negative */
    struct weir_window_rule day = {.period = WEIR_PERIOD_DAY};
    CHECK(weir_window_at(&day, INT64_MAX).end_s > weir_window_at(&day, INT64_MAX).start_s);
    CHECK(weir_window_at(&day, INT64_MIN).end_s > weir_window_at(&day, INT64_MIN).start_s);
}

/* ---- glibc as the oracle ---- */

static void enter_zone(const char *name)
{
    CHECK(setenv("TZ", name, 1) == 0);
    tzset();
}

static struct tm local(int64_t unix_s)
{
    struct tm tm;
    time_t when = unix_s;
    CHECK(localtime_r(&when, &tm) != NULL);
    return tm;
}

/* A local date, in days since 1970-01-01. */
static int64_t date_of(int64_t unix_s)
{
    int64_t local_s = unix_s + local(unix_s).tm_gmtoff;
    return local_s / 86400 - (local_s % 86400 < 0);
}

/* A day's window is the run of instants at which the latest date seen so far is one and the same. */
static void check_day(const char *zone, int64_t at_s, struct weir_window day)
{
    int64_t date = date_of(day.start_s);
    for (int64_t s = day.start_s - 1; s > day.start_s - 26 * 3600; s -= 1811)
        CHECK_MSG(date_of(s) < date, "%s at %lld: %lld before the start", zone, (long long)at_s,
                  (long long)(day.start_s - s));
    for (int64_t s = day.end_s - 1; s >= day.start_s; s -= 1811)
        CHECK_MSG(date_of(s) <= date, "%s at %lld: %lld before the end", zone, (long long)at_s,
                  (long long)(day.end_s - s));
    CHECK_MSG(date_of(day.end_s) > date, "%s at %lld: the end", zone, (long long)at_s);
}

/* Whether a date is one on which the rule begins a window. */
static bool is_anchor_date(const struct weir_window_rule *rule, int64_t start_s)
{
    struct tm tm = local(start_s), next = tm;
    if (rule->period == WEIR_PERIOD_WEEK)
        return (uint32_t)tm.tm_wday == rule->anchor % 7;
    next.tm_mday = 0; /* the last day of this month, by mktime's own rule */
    next.tm_mon++;
    next.tm_hour = 12;
    next.tm_isdst = -1;
    CHECK(mktime(&next) != -1);
    return (uint32_t)tm.tm_mday == rule->anchor ||
           (tm.tm_mday == next.tm_mday && rule->anchor > (uint32_t)next.tm_mday);
}

/* A week or month begins where a day does, on its anchor, and on no day inside it again. */
static void check_days(const struct weir_window_rule *rule, int64_t at_s, struct weir_window window)
{
    const char *zone = weir_zone_name(rule->zone);
    struct weir_window_rule daily = {.period = WEIR_PERIOD_DAY, .zone = rule->zone};
    struct weir_window day = weir_window_at(&daily, window.start_s);
    CHECK_MSG(day.start_s == window.start_s, "%s at %lld", zone, (long long)at_s);
    bool is_after_a_gap = date_of(window.start_s) - date_of(window.start_s - 1) > 1;
    CHECK_MSG(is_anchor_date(rule, window.start_s) || is_after_a_gap, "%s at %lld", zone,
              (long long)at_s);
    for (day = weir_window_at(&daily, day.end_s); day.start_s < window.end_s;
         day = weir_window_at(&daily, day.end_s))
        CHECK_MSG(!is_anchor_date(rule, day.start_s), "%s at %lld", zone, (long long)at_s);
    CHECK_MSG(day.start_s == window.end_s, "%s at %lld", zone, (long long)at_s);
}

static void check_hour(const char *zone, int64_t at_s, struct weir_window hour)
{
    struct tm before = local(hour.start_s - 1), tm = local(hour.start_s);
    bool is_even = (before.tm_gmtoff - tm.tm_gmtoff) % 3600 == 0;
    CHECK_MSG(!is_even || (tm.tm_min == 0 && tm.tm_sec == 0), "%s at %lld", zone, (long long)at_s);
    long shift = (local(hour.end_s).tm_gmtoff - local(hour.start_s - 1).tm_gmtoff) % 3600;
    CHECK_MSG(shift != 0 || hour.end_s - hour.start_s == 3600, "%s at %lld: %lld s long", zone,
              (long long)at_s, (long long)(hour.end_s - hour.start_s));
    CHECK_MSG(hour.end_s - hour.start_s < 7200, "%s at %lld", zone, (long long)at_s);
}

/* Every instant is in one window, and windows follow one another. */
static void check_tiles(const struct weir_window_rule *rule, int64_t at_s,
                        struct weir_window window)
{
    const char *zone = weir_zone_name(rule->zone);
    CHECK_MSG(window.start_s <= at_s && at_s < window.end_s, "%s period %d at %lld", zone,
              rule->period, (long long)at_s);
    struct weir_window first = weir_window_at(rule, window.start_s);
    struct weir_window last = weir_window_at(rule, window.end_s - 1);
    struct weir_window next = weir_window_at(rule, window.end_s);
    struct weir_window before = weir_window_at(rule, window.start_s - 1);
    CHECK_MSG(first.start_s == window.start_s && first.end_s == window.end_s,
              "%s period %d at %lld", zone, rule->period, (long long)at_s);
    CHECK_MSG(last.start_s == window.start_s && last.end_s == window.end_s, "%s period %d at %lld",
              zone, rule->period, (long long)at_s);
    CHECK_MSG(next.start_s == window.end_s && next.end_s > next.start_s, "%s period %d at %lld",
              zone, rule->period, (long long)at_s);
    CHECK_MSG(before.end_s == window.start_s, "%s period %d at %lld", zone, rule->period,
              (long long)at_s);
}

static void check_instant(struct weir_rng *rng, const struct weir_zone *zone, int64_t at_s)
{
    const struct weir_window_rule rules[] = {
        {.period = WEIR_PERIOD_HOUR, .zone = zone},
        {.period = WEIR_PERIOD_DAY, .zone = zone},
        {.period = WEIR_PERIOD_WEEK, .zone = zone, .anchor = (uint32_t)weir_rng_between(rng, 1, 7)},
        {.period = WEIR_PERIOD_MONTH,
         .zone = zone,
         .anchor = (uint32_t)weir_rng_between(rng, 1, 31)}};
    for (size_t i = 0; i < WEIR_COUNT(rules); i++) {
        struct weir_window window = weir_window_at(&rules[i], at_s);
        check_tiles(&rules[i], at_s, window);
        if (rules[i].period == WEIR_PERIOD_HOUR)
            check_hour(weir_zone_name(zone), at_s, window);
        else if (rules[i].period == WEIR_PERIOD_DAY)
            check_day(weir_zone_name(zone), at_s, window);
        else
            check_days(&rules[i], at_s, window);
    }
}

static const char *const zones[] = {"UTC",
                                    "Europe/Berlin",
                                    "America/Sao_Paulo",
                                    "Africa/Cairo",
                                    "Pacific/Apia",
                                    "Asia/Kathmandu",
                                    "Australia/Lord_Howe",
                                    "America/Havana",
                                    "America/St_Johns",
                                    "Africa/Casablanca",
                                    "Asia/Tehran",
                                    "Pacific/Kiritimati",
                                    "Pacific/Kwajalein",
                                    "Asia/Manila",
                                    "America/Juneau",
                                    "Antarctica/Troll",
                                    "Antarctica/Casey",
                                    "Asia/Gaza",
                                    "America/Scoresbysund",
                                    "Africa/Monrovia",
                                    "Pacific/Enderbury",
                                    "Asia/Amman",
                                    "America/Asuncion",
                                    "Europe/Lisbon"};

#define YEAR_S (INT64_C(31557600))

static void window__any_instant_in_any_zone__agrees_with_glibc(void **state)
{
    (void)state;
    struct weir_rng rng;
    weir_rng_seed(&rng, 20261130, 1);
    for (size_t i = 0; i < WEIR_COUNT(zones); i++) {
        struct weir_zone *zone = weir_zone_open(zones[i]);
        CHECK_MSG(zone != NULL, "%s", zones[i]);
        enter_zone(zones[i]);
        for (int n = 0; n < 40; n++) /* 1880 to 2080 */
            check_instant(&rng, zone,
                          (int64_t)weir_rng_below(&rng, (uint64_t)(200 * YEAR_S)) - 90 * YEAR_S);
        weir_zone_close(zone);
    }
    enter_zone("UTC");
}

/* The same about each change of the clocks since 1880 and the yearly ones to 2080, found by glibc:
 * that is where windows go wrong. */
static void window__around_every_change_of_the_clocks__agrees_with_glibc(void **state)
{
    (void)state;
    struct weir_rng rng;
    weir_rng_seed(&rng, 20261130, 2);
    size_t changes = 0;
    for (size_t i = 0; i < WEIR_COUNT(zones); i++) {
        struct weir_zone *zone = weir_zone_open(zones[i]);
        enter_zone(zones[i]);
        for (int64_t s = -90 * YEAR_S; s < 110 * YEAR_S; s += 10 * 86400) {
            int64_t low = s, high = s + 10 * 86400;
            if (local(low).tm_gmtoff == local(high).tm_gmtoff)
                continue;
            while (high - low > 1) {
                int64_t middle = low + (high - low) / 2;
                if (local(middle).tm_gmtoff == local(s).tm_gmtoff)
                    low = middle;
                else
                    high = middle;
            }
            changes++;
            struct weir_zone_span span = weir_zone_span(zone, low, low + 86400);
            CHECK_MSG(span.end_s == high && span.offset_s == local(low).tm_gmtoff, "%s at %lld",
                      zones[i], (long long)high);
            check_instant(&rng, zone, low);
            check_instant(&rng, zone, high);
            check_instant(&rng, zone, high - 90000 + (int64_t)weir_rng_below(&rng, 180000));
        }
        weir_zone_close(zone);
    }
    enter_zone("UTC");
    CHECK(changes > 500);
}

static void zone__what_is_no_name__is_none(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "/",
        "Europe",
        "Europe/",
        "Europe/Atlantis",
        "europe/berlin",
        "../zoneinfo/Europe/Berlin",
        "/usr/share/zoneinfo/Europe/Berlin",
        "Europe//Berlin",
        "Europe/../Europe/Berlin",
        "+01:00",
        "CET-1CEST",
        "CET-1CEST,M3.5.0,M10.5.0/3",
        "tzdata.zi",
        "leapseconds",
        "posixrules",
        "right/Europe/Berlin",
        "zone.tab",
        "Europe/Berlin\n",
        "A_name/longer/than/any/that/was/ever/in/the/database/of/time/zones"};
    for (size_t i = 0; i < WEIR_COUNT(wrong); i++)
        CHECK_MSG(weir_zone_open(wrong[i]) == NULL, "'%s'", wrong[i]);
    static const struct {
        const char *word, *meant;
    } near[] = {{"berlin", "Europe/Berlin"},
                {"new york", "America/New_York"},
                {"EUROPE/BERLIN", "Europe/Berlin"},
                {"Europe/Berln", "Europe/Berlin"},
                {"utc", "UTC"}};
    for (size_t i = 0; i < WEIR_COUNT(near); i++) {
        char out[WEIR_ZONE_NAME_MAX];
        CHECK_MSG(weir_zone_suggest(near[i].word, out), "%s", near[i].word);
        if (strcmp(near[i].meant, "UTC") != 0) /* it has several names */
            CHECK_STR(out, near[i].meant);
    }
    char out[WEIR_ZONE_NAME_MAX];
    CHECK(!weir_zone_suggest("Middle-earth/Bree", out));
    CHECK(!weir_zone_suggest("", out));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(window__named_instants__lie_where_their_calendar_says),
        cmocka_unit_test(window__none_and_seconds__need_no_calendar),
        cmocka_unit_test(window__any_instant_in_any_zone__agrees_with_glibc),
        cmocka_unit_test(window__around_every_change_of_the_clocks__agrees_with_glibc),
        cmocka_unit_test(zone__what_is_no_name__is_none),
    };
    return cmocka_run_group_tests_name("gateway/window", tests, NULL, NULL);
}
