/* window: when a budget's next window may begin, by a clock that may be wrong.
 *
 * A window, once begun, stays begun: to go back would open a spent grant again. So a clock that
 * jumps ahead must not be believed at once. The host reads two clocks together, the wall's and one
 * that only ever runs on (monotonic), and hands in three window numbers (starts of
 * windows, in unix seconds):
 *
 *   present    the one the ledger is in
 *   following  the one that the calendar has right after it
 *   computed   the one that the wall clock says it is
 *
 *   computed <= present                                 STAY   nothing to do, or a clock that went
 *                                                              back: yesterday is not opened again
 *   computed == following                               ROLL   the usual case; and a step of up to
 *                                                              one window is believed
 *   within a minute of the present one's start          ROLL   to wait would take as long
 *   beyond, and both clocks ran alike for 60 s          ROLL   time did pass: nobody looked, or it
 *                                                              was confirmed
 *   beyond, and they did not yet                        ALARM  stay, tell an operator, ask again
 *
 * After a start nothing vouches for the wall clock yet: a machine may boot with its clock wrong and
 * set it right a moment later. So a gateway that was down for days also waits for 60 s of agreement
 * (or a confirmation) before it leaves the old window: a minute of that window's remainder is cheap,
 * and a window of next year could not be left before next year. A ledger without any window
 * (present is 0) has nothing to lose and begins at once.
 *
 * Pure: reads no clock. Thread: loop. Source: docs/ledger.md, "Windows". */
#ifndef WEIR_CORE_WINDOW_H
#define WEIR_CORE_WINDOW_H

#include "core/base.h"

/* So long both clocks must have run alike before a leap over several windows is believed. */
#define WEIR_WINDOW_AGREE_S 60
#define WEIR_WINDOW_AGREE_NS (WEIR_WINDOW_AGREE_S * WEIR_NS_PER_S)

/* What two readings may differ by without being a step: a second, and a thousandth of the time
 * between them (clocks are set right gradually at half of that). */
#define WEIR_WINDOW_SLACK_NS WEIR_NS_PER_S
#define WEIR_WINDOW_SLEW_PARTS 1000

/* How the wall clock runs beside the monotonic one. Start from {0}. */
struct weir_window_clock {
    bool is_seen;
    bool is_confirmed;        /* since the last step */
    int64_t offset_ns;        /* wall minus monotonic, as last seen */
    uint64_t seen_ns;         /* when that was; all times are monotonic */
    uint64_t agreed_since_ns; /* the last step, or the first reading */
};

/* Takes in one reading of both clocks. The step since the reading before: above 0 the wall clock
 * was set ahead, below 0 back, 0: it ran on as it should. A step ends a confirmation. */
int64_t weir_window_clock_see(struct weir_window_clock *clock, int64_t wall_ns, uint64_t now_ns);

/* An operator vouches for the wall clock as it is: believed until its next step. */
void weir_window_clock_confirm(struct weir_window_clock *clock);

/* The time from which leaps are believed: now or earlier once they are. */
uint64_t weir_window_clock_trusted_ns(const struct weir_window_clock *clock);

enum weir_window_verdict { WEIR_WINDOW_STAY, WEIR_WINDOW_ROLL, WEIR_WINDOW_ALARM };

/* What to do about one budget's window, by the rules above. following > present. After ALARM, ask
 * again at weir_window_clock_trusted_ns, and after each step. */
WEIR_MUST_USE enum weir_window_verdict weir_window_judge(const struct weir_window_clock *clock,
                                                         uint64_t present, uint64_t following,
                                                         uint64_t computed, uint64_t now_ns);

#endif
