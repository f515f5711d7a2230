/* loop: one epoll loop with its clock, timers and end-of-turn work. Everything stateful hangs on
 * it.
 *
 * A turn: wait for events or the next timer; sample the clock once; call what is ready; fire due
 * timers; run the turn-end hooks in the order they were added (pump the gate, flush what was
 * written, hand over batches); free what was parked. So whatever one batch of events causes is done
 * once, together.
 *
 * Each socket is registered once, edge-triggered, for reading, writing and hang-up; nobody calls
 * epoll_ctl again. A reader stops at a short read; one that stops earlier (to be fair, or under
 * back-pressure) gets no new event for what is left and must come back by itself. An io or timer
 * may be removed inside any callback, its own included; memory that a callback may still point into
 * is given to weir_loop_park.
 *
 * Thread: loop, except weir_loop_stop and weir_loop_wake (any, async-signal-safe).
 * Source: epoll(7); docs/architecture.md, "The loop". */
#ifndef WEIR_NET_LOOP_H
#define WEIR_NET_LOOP_H

#include "net/timer.h"

struct weir_loop;

/* One descriptor. Embed it; ready() gets the epoll event bits. */
struct weir_io {
    void (*ready)(struct weir_io *io, uint32_t events);
    int fd;
};

/* Run at the end of every turn. */
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
/* The same clock, read now: for what waits before a loop turns. */
uint64_t weir_loop_clock_ns(void);
/* The turns begun since the loop was made. */
uint64_t weir_loop_turns(const struct weir_loop *loop);

/* Registers io->fd, which must be open and not registered; 0 or -errno. What is ready already is
 * reported in the next turn. */
WEIR_MUST_USE int weir_loop_add(struct weir_loop *loop, struct weir_io *io);
/* No event is reported from now on, not even one of this turn. The descriptor stays open. */
void weir_loop_remove(struct weir_loop *loop, struct weir_io *io);
/* Removes, closes, and sets io->fd to -1: one system call less. Only for descriptors that were not
 * duplicated. */
void weir_loop_close(struct weir_loop *loop, struct weir_io *io);

/* Sets or moves the timer; WEIR_NEVER_NS cancels. O(1); see timer.h. It fires in the turn at or
 * after its due time rounded up to the tick, after that turn's events. 0 means with the next timers
 * that fire, without delay: the rest of this turn if they are still to come, else the next turn. */
void weir_timer_set(struct weir_loop *loop, struct weir_timer *timer, uint64_t due_ns);
void weir_timer_cancel(struct weir_loop *loop, struct weir_timer *timer);

/* The hook must stay until it is removed or the loop is destroyed. remove: not inside a hook. */
void weir_loop_at_turn_end(struct weir_loop *loop, struct weir_hook *hook);
void weir_loop_hook_remove(struct weir_loop *loop, struct weir_hook *hook);
/* There is work for a hook that may have run already in this turn: all hooks run once more, in
 * order, before the turn ends. Outside of hooks it changes nothing, they are still to come. Whoever
 * queues work for a hook calls this, so that the order of hooks never matters. */
void weir_loop_hooks_again(struct weir_loop *loop);
/* free()s memory at the end of this turn. NULL is fine. */
void weir_loop_park(struct weir_loop *loop, void *memory);

/* For tests: from now on time stands at now_ns until this is called again, and turns wait for
 * events only as long as wait_ns says. Timers fire in the next turn. */
void weir_loop_time_set(struct weir_loop *loop, uint64_t now_ns);

#endif
