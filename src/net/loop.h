/* loop: one epoll loop with its clock, timers and end-of-turn work. Everything stateful hangs on it.
 *
 * A turn: wait for events or the next timer; sample the clock once; call what is ready; fire due timers;
 * run the turn-end hooks in the order they were added (pump the gate, flush what was written, hand over
 * batches); free what was parked. So whatever one batch of events causes is done once, together.
 *
 * Each socket is registered once, edge-triggered, for reading, writing and hang-up; nobody calls epoll_ctl
 * again. A reader stops at a short read. An io or timer may be removed inside any callback, its own included;
 * memory that a callback may still point into is given to weir_loop_park.
 *
 * Thread: loop, except weir_loop_stop and weir_loop_wake (any, async-signal-safe).
 * Source: epoll(7); docs/architecture.md, "The loop". */
#ifndef WEIR_NET_LOOP_H
#define WEIR_NET_LOOP_H

#include "core/base.h"

struct weir_loop;

/* One descriptor. Embed it; ready() gets the epoll event bits. */
struct weir_io {
    void (*ready)(struct weir_io *io, uint32_t events);
    int fd;
    uint32_t slot; /* the loop's own */
};

/* A timer; embed it, zero is a valid start. Due times are rounded up to the wheel's tick (about 1 ms). */
struct weir_timer {
    void (*fire)(struct weir_timer *timer);
    struct weir_timer *next, **link; /* the loop's own; link is NULL when not set */
    uint64_t due_ns;
};

struct weir_hook {
    void (*run)(struct weir_hook *hook);
    struct weir_hook *next;
};

/* NULL with errno when the kernel has no descriptor or memory. Owns: the caller, until destroy. */
struct weir_loop *weir_loop_create(void);
void weir_loop_destroy(struct weir_loop *loop);

/* Runs until weir_loop_stop. 0, or -errno when epoll itself fails. */
WEIR_MUST_USE int weir_loop_run(struct weir_loop *loop);
/* One turn, waiting at most wait_ns: for tests. */
WEIR_MUST_USE int weir_loop_turn(struct weir_loop *loop, uint64_t wait_ns);
void weir_loop_stop(struct weir_loop *loop);
void weir_loop_wake(struct weir_loop *loop);

/* Monotonic (CLOCK_BOOTTIME), sampled at the start of this turn. */
uint64_t weir_loop_now_ns(const struct weir_loop *loop);

/* Registers io->fd; 0 or -errno. remove leaves the descriptor open: closing it is the owner's. */
WEIR_MUST_USE int weir_loop_add(struct weir_loop *loop, struct weir_io *io);
void weir_loop_remove(struct weir_loop *loop, struct weir_io *io);

/* Sets or moves the timer. O(1). */
void weir_timer_set(struct weir_loop *loop, struct weir_timer *timer, uint64_t due_ns);
void weir_timer_cancel(struct weir_loop *loop, struct weir_timer *timer);

void weir_loop_at_turn_end(struct weir_loop *loop, struct weir_hook *hook);
/* free()s memory at the end of this turn. */
void weir_loop_park(struct weir_loop *loop, void *memory);

#endif
