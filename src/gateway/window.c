#include "gateway/window.h"

enum { HOUR_S = 3600, DAY_S = 86400 };

/* No clock stands further from UTC, not even where a zone changed sides of the date line. */
#define OFFSET_MAX_S (INT64_C(26) * HOUR_S)
#define UNIX_MAX_S (INT64_C(1) << 40)

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static int64_t floor_mod(int64_t a, int64_t b)
{
    return a - floor_div(a, b) * b;
}

/* ---- the calendar: days since 1970-01-01, Gregorian at all times ---- */

struct month {
    int64_t year;
    int64_t month; /* 0 .. 11 */
};

static bool is_leap(int64_t year)
{
    return floor_mod(year, 4) == 0 && (floor_mod(year, 100) != 0 || floor_mod(year, 400) == 0);
}

static int64_t month_days(struct month m)
{
    static const uint8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return days[m.month] + (m.month == 1 && is_leap(m.year));
}

/* The day on which a month begins. Years are counted from March, so that the leap day is last. */
static int64_t month_first_day(struct month m)
{
    int64_t year = m.month < 2 ? m.year - 1 : m.year;
    int64_t from_march = m.month < 2 ? m.month + 10 : m.month - 2;
    int64_t leaps = floor_div(year, 4) - floor_div(year, 100) + floor_div(year, 400);
    return year * 365 + leaps + (from_march * 153 + 2) / 5 - 719468;
}

static struct month month_after(struct month m, int64_t months)
{
    int64_t count = m.year * 12 + m.month + months;
    return (struct month){floor_div(count, 12), floor_mod(count, 12)};
}

/* The month that a day lies in: guessed from the mean length, then put right. */
static struct month month_of(int64_t day)
{
    struct month m = month_after((struct month){1970, 0}, floor_div(day * 4800, 146097));
    while (month_first_day(m) > day)
        m = month_after(m, -1);
    while (month_first_day(month_after(m, 1)) <= day)
        m = month_after(m, 1);
    return m;
}

static int64_t month_anchor_day(struct month m, uint32_t anchor)
{
    int64_t days = month_days(m);
    return month_first_day(m) + (anchor < days ? anchor : days) - 1;
}

/* ---- labels: boundaries in local seconds, as a clock on the wall shows them ---- */

/* The last label at or before a local time. */
static int64_t label_at(const struct weir_window_rule *rule, int64_t local_s)
{
    int64_t day = floor_div(local_s, DAY_S);
    switch (rule->period) {
    case WEIR_PERIOD_HOUR:
        return floor_div(local_s, HOUR_S) * HOUR_S;
    case WEIR_PERIOD_DAY:
        return day * DAY_S;
    case WEIR_PERIOD_WEEK: /* day 0 was a Thursday, 4 */
        return (day - floor_mod(day + 4 - (int64_t)rule->anchor, 7)) * DAY_S;
    case WEIR_PERIOD_MONTH: {
        struct month m = month_of(day);
        if (month_anchor_day(m, rule->anchor) > day)
            m = month_after(m, -1);
        return month_anchor_day(m, rule->anchor) * DAY_S;
    }
    case WEIR_PERIOD_NONE:
    case WEIR_PERIOD_SECONDS:
        break;
    }
    WEIR_INVARIANT(false);
}

static int64_t label_after(const struct weir_window_rule *rule, int64_t label_s)
{
    switch (rule->period) {
    case WEIR_PERIOD_HOUR:
        return label_s + HOUR_S;
    case WEIR_PERIOD_DAY:
        return label_s + DAY_S;
    case WEIR_PERIOD_WEEK:
        return label_s + 7 * DAY_S;
    case WEIR_PERIOD_MONTH:
        return month_anchor_day(month_after(month_of(floor_div(label_s, DAY_S)), 1), rule->anchor) *
               DAY_S;
    case WEIR_PERIOD_NONE:
    case WEIR_PERIOD_SECONDS:
        break;
    }
    WEIR_INVARIANT(false);
}

/* ---- instants ---- */

/* Local time minus UTC as far as a rule cares: full hours do not move the hours. */
static int64_t shift_of(const struct weir_window_rule *rule, int64_t offset_s)
{
    return rule->period == WEIR_PERIOD_HOUR ? floor_mod(offset_s, HOUR_S) : offset_s;
}

/* The first instant at which local time has reached a label: stretches of constant offset are
 * looked at in order, from before it can be to after it must have been. */
static int64_t instant_of(const struct weir_window_rule *rule, int64_t label_s)
{
    if (!rule->zone)
        return label_s;
    int64_t at_s = label_s - OFFSET_MAX_S, limit_s = label_s + OFFSET_MAX_S;
    for (;;) {
        WEIR_INVARIANT(at_s < limit_s);
        struct weir_zone_span span = weir_zone_span(rule->zone, at_s, limit_s);
        int64_t reached_s = label_s - shift_of(rule, span.offset_s);
        if (reached_s < span.end_s)
            return reached_s > at_s ? reached_s : at_s;
        at_s = span.end_s;
    }
}

struct weir_window weir_window_at(const struct weir_window_rule *rule, int64_t unix_s)
{
    unix_s = weir_max_i64(-UNIX_MAX_S, weir_min_i64(unix_s, UNIX_MAX_S));
    if (rule->period == WEIR_PERIOD_NONE)
        return (struct weir_window){0, INT64_MAX};
    if (rule->period == WEIR_PERIOD_SECONDS) {
        WEIR_INVARIANT(rule->seconds > 0);
        int64_t start_s = unix_s - floor_mod(unix_s, rule->seconds);
        return (struct weir_window){start_s, start_s + rule->seconds};
    }
    int64_t offset_s = rule->zone ? weir_zone_span(rule->zone, unix_s, unix_s + 1).offset_s : 0;
    int64_t label_s = label_at(rule, unix_s + shift_of(rule, offset_s));
    struct weir_window window = {.start_s = instant_of(rule, label_s)};
    for (;;) { /* clocks that went back: local time may have been past the next label before */
        label_s = label_after(rule, label_s);
        window.end_s = instant_of(rule, label_s);
        if (window.end_s > unix_s)
            return window;
        window.start_s = window.end_s;
    }
}
