#include "net/loop.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define EVENTS_PER_TURN 256
#define HOOK_ROUNDS_MAX 16 /* then the rest waits for the next turn, which comes at once */
#define EVENTS_WATCHED (EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET)

/* By descriptor. An event carries descriptor and generation, so one for a descriptor that was
 * closed and given out again earlier in the same turn is known to be stale. */
struct entry {
    struct weir_io *io;
    uint32_t generation;
};

struct weir_loop {
    int epoll_fd;
    uint64_t now_ns, turns;
    bool time_is_set;
    bool hooks_again;
    struct entry *entries;
    size_t entry_count;
    struct weir_hook *hooks;
    void **parked;
    size_t parked_count, parked_room;
    struct weir_io wake_io;
    atomic_bool stop, woken;
    struct weir_wheel wheel;
    struct epoll_event events[EVENTS_PER_TURN];
};

uint64_t weir_loop_clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (uint64_t)t.tv_sec * WEIR_NS_PER_S + (uint64_t)t.tv_nsec;
}

/* Edge-triggered: each write is an event of its own, so the eventfd's count is never read. */
static void wake_ready(struct weir_io *io, uint32_t events)
{
    struct weir_loop *loop = (struct weir_loop *)((char *)io - offsetof(struct weir_loop, wake_io));
    (void)events;
    atomic_store(&loop->woken, false);
}

struct weir_loop *weir_loop_create(void)
{
    struct weir_loop *loop = calloc(1, sizeof *loop);
    if (!loop)
        return NULL;
    loop->wake_io = (struct weir_io){.ready = wake_ready, .fd = -1};
    loop->now_ns = weir_loop_clock_ns();
    weir_wheel_init(&loop->wheel, loop->now_ns);
    int fault;
    if ((loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC)) < 0 ||
        (loop->wake_io.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
        fault = errno;
    else
        fault = -weir_loop_add(loop, &loop->wake_io);
    if (fault == 0)
        return loop;
    weir_loop_destroy(loop);
    errno = fault;
    return NULL;
}

static void parked_free(struct weir_loop *loop)
{
    for (size_t i = 0; i < loop->parked_count; i++)
        free(loop->parked[i]);
    loop->parked_count = 0;
}

void weir_loop_destroy(struct weir_loop *loop)
{
    if (!loop)
        return;
    if (loop->wake_io.fd >= 0)
        close(loop->wake_io.fd);
    if (loop->epoll_fd >= 0)
        close(loop->epoll_fd);
    parked_free(loop);
    free(loop->parked);
    free(loop->entries);
    free(loop);
}

static int entries_reserve(struct weir_loop *loop, size_t count)
{
    if (count <= loop->entry_count)
        return 0;
    size_t room = loop->entry_count ? loop->entry_count : 64;
    while (room < count)
        room *= 2;
    struct entry *entries = realloc(loop->entries, room * sizeof *entries);
    if (!entries)
        return -ENOMEM;
    for (size_t i = loop->entry_count; i < room; i++)
        entries[i] = (struct entry){NULL, 0};
    loop->entries = entries;
    loop->entry_count = room;
    return 0;
}

int weir_loop_add(struct weir_loop *loop, struct weir_io *io)
{
    WEIR_INVARIANT(io->fd >= 0);
    int fault = entries_reserve(loop, (size_t)io->fd + 1);
    if (fault)
        return fault;
    struct entry *e = &loop->entries[io->fd];
    WEIR_INVARIANT(!e->io);
    struct epoll_event event = {
        .events = EVENTS_WATCHED,
        .data.u64 = (uint64_t)e->generation << 32 | (uint32_t)io->fd,
    };
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, io->fd, &event) < 0)
        return -errno;
    e->io = io;
    return 0;
}

static void entry_clear(struct weir_loop *loop, struct weir_io *io)
{
    WEIR_INVARIANT(io->fd >= 0 && (size_t)io->fd < loop->entry_count);
    struct entry *e = &loop->entries[io->fd];
    WEIR_INVARIANT(e->io == io);
    e->io = NULL;
    e->generation++;
}

void weir_loop_remove(struct weir_loop *loop, struct weir_io *io)
{
    entry_clear(loop, io);
    epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, io->fd, NULL);
}

void weir_loop_close(struct weir_loop *loop, struct weir_io *io)
{
    entry_clear(loop, io);
    close(io->fd); /* which also takes it out of the epoll set */
    io->fd = -1;
}

uint64_t weir_loop_now_ns(const struct weir_loop *loop)
{
    return loop->now_ns;
}

uint64_t weir_loop_turns(const struct weir_loop *loop)
{
    return loop->turns;
}

void weir_timer_set(struct weir_loop *loop, struct weir_timer *timer, uint64_t due_ns)
{
    weir_wheel_set(&loop->wheel, timer, due_ns);
}

void weir_timer_cancel(struct weir_loop *loop, struct weir_timer *timer)
{
    weir_wheel_cancel(&loop->wheel, timer);
}

void weir_loop_at_turn_end(struct weir_loop *loop, struct weir_hook *hook)
{
    struct weir_hook **last = &loop->hooks;
    while (*last)
        last = &(*last)->next;
    hook->next = NULL;
    *last = hook;
}

void weir_loop_hook_remove(struct weir_loop *loop, struct weir_hook *hook)
{
    for (struct weir_hook **h = &loop->hooks; *h; h = &(*h)->next) {
        if (*h == hook) {
            *h = hook->next;
            return;
        }
    }
}

void weir_loop_hooks_again(struct weir_loop *loop)
{
    loop->hooks_again = true;
}

static void turn_hooks(struct weir_loop *loop)
{
    for (int round = 0; round < HOOK_ROUNDS_MAX; round++) {
        loop->hooks_again = false;
        for (struct weir_hook *h = loop->hooks; h; h = h->next)
            h->run(h);
        if (!loop->hooks_again)
            return;
    }
}

void weir_loop_park(struct weir_loop *loop, void *memory)
{
    if (!memory)
        return;
    if (loop->parked_count == loop->parked_room) {
        size_t room = loop->parked_room ? 2 * loop->parked_room : 64;
        void **parked = realloc(loop->parked, room * sizeof *parked);
        if (!parked)
            return; /* out of memory: better lost than freed while a callback points into it */
        loop->parked = parked;
        loop->parked_room = room;
    }
    loop->parked[loop->parked_count++] = memory;
}

void weir_loop_time_set(struct weir_loop *loop, uint64_t now_ns)
{
    loop->time_is_set = true;
    loop->now_ns = now_ns;
}

/* Milliseconds for epoll_wait, rounded up: waking early would only turn the loop for nothing. */
static int turn_wait_ms(const struct weir_loop *loop, uint64_t wait_ns)
{
    uint64_t next_ns = weir_wheel_next_ns(&loop->wheel);
    if (next_ns <= loop->now_ns || loop->hooks_again)
        return 0;
    /* now_ns is as old as the last turn's start, so a timer is late by what that turn took at most:
     * less than a tick, and cheaper than a second look at the clock. */
    if (!loop->time_is_set && next_ns != WEIR_NEVER_NS)
        wait_ns = weir_min_u64(wait_ns, next_ns - loop->now_ns);
    if (wait_ns == WEIR_NEVER_NS)
        return -1;
    uint64_t ms = wait_ns / WEIR_NS_PER_MS + (wait_ns % WEIR_NS_PER_MS != 0);
    return (int)weir_min_u64(ms, INT32_MAX);
}

int weir_loop_turn(struct weir_loop *loop, uint64_t wait_ns)
{
    int wait_ms = turn_wait_ms(loop, wait_ns);
    int count = epoll_wait(loop->epoll_fd, loop->events, EVENTS_PER_TURN, wait_ms);
    if (count < 0) {
        if (errno != EINTR)
            return -errno;
        count = 0;
    }
    loop->turns++;
    if (!loop->time_is_set)
        loop->now_ns = weir_loop_clock_ns();
    for (int i = 0; i < count; i++) {
        uint64_t tag = loop->events[i].data.u64;
        const struct entry *e = &loop->entries[(uint32_t)tag];
        if (e->io && e->generation == (uint32_t)(tag >> 32))
            e->io->ready(e->io, loop->events[i].events);
    }
    weir_wheel_advance(&loop->wheel, loop->now_ns);
    turn_hooks(loop);
    parked_free(loop);
    return 0;
}

int weir_loop_run(struct weir_loop *loop)
{
    int fault = 0;
    while (fault == 0 && !atomic_load_explicit(&loop->stop, memory_order_relaxed))
        fault = weir_loop_turn(loop, WEIR_NEVER_NS);
    atomic_store(&loop->stop, false);
    return fault;
}

void weir_loop_wake(struct weir_loop *loop)
{
    /* A signal handler may come here: errno is the interrupted code's. */
    int saved = errno;
    uint64_t one = 1;
    if (!atomic_exchange(&loop->woken, true) && write(loop->wake_io.fd, &one, sizeof one) < 0)
        atomic_store(&loop->woken, false); /* the count is full: the loop is awake */
    errno = saved;
}

void weir_loop_stop(struct weir_loop *loop)
{
    atomic_store(&loop->stop, true);
    weir_loop_wake(loop);
}
