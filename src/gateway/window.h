/* window: which stretch of time a budget's grant is for.
 *
 * A rule (period, zone, anchor) cuts all of time into windows: each ends where the next begins, and
 * every instant lies in exactly one. Windows follow the clock on the wall of a zone:
 *
 *   boundary label   2026-03-29 00:00   2026-03-30 00:00   2026-03-31 00:00    (local, per rule)
 *   its instant             | ---- 23 h ---- | ------ 24 h ------ |            (UTC)
 *
 * The instant of a label is the first at which local time has reached it. So a midnight that is
 * skipped by a change of the clocks is the first instant after the gap, one that comes twice is the
 * first of the two, a date that does not exist has no window (its label and the next have the same
 * instant), and clocks that go back over a boundary do not open the old window again.
 *
 *   NONE      one window for ever, number 0
 *   HOUR      each full hour of local time; changes by whole hours leave it alone
 *   DAY       local midnight to local midnight: 23, 24 or 25 hours
 *   WEEK      from local midnight of the anchor, 1 (Monday) to 7 (Sunday)
 *   MONTH     from local midnight of day anchor, 1 to 31; in shorter months, of their last day
 *   SECONDS   multiples of `seconds` since 1970-01-01T00:00Z, whatever the zone
 *
 * Pure but for the zone's database. Thread: any. Source: docs/ledger.md, "Windows". */
#ifndef WEIR_GATEWAY_WINDOW_H
#define WEIR_GATEWAY_WINDOW_H

#include "gateway/zone.h"

enum weir_period {
    WEIR_PERIOD_NONE,
    WEIR_PERIOD_HOUR,
    WEIR_PERIOD_DAY,
    WEIR_PERIOD_WEEK,
    WEIR_PERIOD_MONTH,
    WEIR_PERIOD_SECONDS
};

struct weir_window_rule {
    enum weir_period period;
    uint32_t seconds;             /* SECONDS: above 0 */
    uint32_t anchor;              /* WEEK: 1 .. 7; MONTH: 1 .. 31 */
    const struct weir_zone *zone; /* borrowed; HOUR, DAY, WEEK, MONTH; NULL: UTC */
};

/* From start_s (included) to end_s (excluded), unix seconds. */
struct weir_window {
    int64_t start_s;
    int64_t end_s; /* INT64_MAX: it never ends */
};

/* The window that unix_s lies in. Instants more than 30,000 years from 1970 are taken as if they
 * lay there. Costs a few look-ups in the zone's table: not for each request. */
struct weir_window weir_window_at(const struct weir_window_rule *rule, int64_t unix_s);

/* The number a ledger knows it by: its start; 0 for one that began before 1970. */
static inline uint64_t weir_window_number(struct weir_window window)
{
    return window.start_s > 0 ? (uint64_t)window.start_s : 0;
}

#endif
