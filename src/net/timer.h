/* timer: a hierarchical timing wheel. Setting, moving, cancelling and firing a timer are O(1),
 * however many there are; nothing is allocated.
 *
 * Time is cut into ticks of about a millisecond. A level has 64 slots; a slot of level n is 64^n
 * ticks wide; eight levels hold every time there is. A timer lies in the level of the highest digit
 * (base 64) in which its tick differs from the present one, so all slots in use lie ahead of the
 * present, and the lowest level in use holds what comes next. When time enters a slot of a higher
 * level, its timers move down a level.
 *
 * A timer that is moved to a later time stays where it lies and is moved when that place comes up:
 * pushing a deadline ahead, the usual case, is one store.
 *
 * The wheel knows no clock: its owner (the loop, a test) tells it the time. Thread: its owner's.
 * Source: Varghese and Lauck, "Hashed and Hierarchical Timing Wheels", 1987. */
#ifndef WEIR_NET_TIMER_H
#define WEIR_NET_TIMER_H

#include "core/base.h"

#define WEIR_TICK_SHIFT 20 /* a tick is 2^20 ns, 1.05 ms */
#define WEIR_WHEEL_LEVELS 8
#define WEIR_WHEEL_SLOTS 64

/* Embed it; all-zero is a valid start. While it is set it must stay where it is. */
struct weir_timer {
    void (*fire)(struct weir_timer *timer);
    struct weir_timer *next, **link; /* the wheel's own; link is NULL when not set */
    uint64_t due_ns;
};

struct weir_wheel {
    uint64_t now_tick;
    struct weir_timer *at_once; /* due when they were set; fired by the next advance */
    struct weir_timer *expired; /* being fired */
    uint32_t levels_used;       /* bit n: level n has timers */
    uint64_t used[WEIR_WHEEL_LEVELS];
    struct weir_timer *slot[WEIR_WHEEL_LEVELS][WEIR_WHEEL_SLOTS];
};

void weir_wheel_init(struct weir_wheel *wheel, uint64_t now_ns);

/* Sets the timer, or moves it. It fires once, never before due_ns, in the first advance to a time
 * at least one tick later. WEIR_NEVER_NS cancels. */
void weir_wheel_set(struct weir_wheel *wheel, struct weir_timer *timer, uint64_t due_ns);
void weir_wheel_cancel(struct weir_wheel *wheel, struct weir_timer *timer);

/* When advance must be called next: not after the earliest due time rounded up to its tick, perhaps
 * before it (to move timers down a level). 0: at once. WEIR_NEVER_NS: no timer is set. */
uint64_t weir_wheel_next_ns(const struct weir_wheel *wheel);

/* Goes to now_ns and fires what is due, earlier ticks first, in no order within one tick. fire()
 * may set and cancel any timer, its own included; one that is set to a time already past fires in
 * the next advance. A time before the last one changes nothing. Not to be called inside fire(). */
void weir_wheel_advance(struct weir_wheel *wheel, uint64_t now_ns);

static inline bool weir_timer_is_set(const struct weir_timer *timer)
{
    return timer->link != NULL;
}

#endif
