#include "support/lockstep.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include "net/stream.h"
#include "support/check.h"

#define HOURS_NS (24 * 3600 * WEIR_NS_PER_S) /* what is not over by then never will be */
#define LOST_AFTER                                                                                 \
    10000u /* looks without anything coming: what is on its way was for a closed end */

static struct {
    struct weir_mock *mock;
    struct weir_loop *mock_loop, *loop;
    uint64_t from_ns, now_ns;
    uint64_t events;    /* reported to anybody */
    uint64_t under_way; /* bytes written by one end and not read by the other */
    uint32_t looks;     /* in a row that saw nothing, while some were */
    int alarm_fd;       /* a timerfd that was set, and to when; NEVER: none */
    uint64_t alarm_ns;
    bool is_open, is_new_time, is_stopped;
} lockstep;

int __real_epoll_wait(int fd, struct epoll_event *events, int max, int wait_ms);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int max, int wait_ms);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int max, int wait_ms)
{
    int count = __real_epoll_wait(fd, events, max, wait_ms);
    lockstep.events += count > 0 ? (uint64_t)count : 0;
    return count;
}

uint64_t __real_weir_loop_clock_ns(void);
uint64_t __wrap_weir_loop_clock_ns(void);
uint64_t __wrap_weir_loop_clock_ns(void)
{
    return lockstep.is_open ? lockstep.now_ns : __real_weir_loop_clock_ns();
}

/* ---- what is on its way ---- */

ssize_t __real_weir_stream_read(struct weir_stream *s, void *buf, size_t room);
ssize_t __wrap_weir_stream_read(struct weir_stream *s, void *buf, size_t room);
ssize_t __wrap_weir_stream_read(struct weir_stream *s, void *buf, size_t room)
{
    ssize_t n = __real_weir_stream_read(s, buf, room);
    if (n > 0)
        lockstep.under_way -= (uint64_t)n;
    return n;
}

ssize_t __real_weir_stream_writev(struct weir_stream *s, const struct iovec *iov, int count);
ssize_t __wrap_weir_stream_writev(struct weir_stream *s, const struct iovec *iov, int count);
ssize_t __wrap_weir_stream_writev(struct weir_stream *s, const struct iovec *iov, int count)
{
    ssize_t n = __real_weir_stream_writev(s, iov, count);
    if (n > 0)
        lockstep.under_way += (uint64_t)n;
    return n;
}

/* Whether to wait for what the kernel has still to hand over. */
static bool is_under_way(void)
{
    if (lockstep.under_way == 0)
        return false;
    if (++lockstep.looks < LOST_AFTER) {
        sched_yield();
        return true;
    }
    lockstep.under_way = lockstep.looks = 0;
    return false;
}

/* ---- the alarm ---- */

int __real_timerfd_settime(int fd, int flags, const struct itimerspec *to, struct itimerspec *old);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *to, struct itimerspec *old);

static void alarm_ring_if_due(void)
{
    const struct itimerspec at_once = {.it_value = {.tv_nsec = 1}};
    struct pollfd poll_fd = {.fd = lockstep.alarm_fd, .events = POLLIN};
    if (lockstep.alarm_ns > lockstep.now_ns)
        return;
    lockstep.alarm_ns = WEIR_NEVER_NS;
    CHECK(__real_timerfd_settime(lockstep.alarm_fd, 0, &at_once, NULL) == 0);
    CHECK(poll(&poll_fd, 1, 10000) == 1);
}

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *to, struct itimerspec *old)
{
    if (!lockstep.is_open)
        return __real_timerfd_settime(fd, flags, to, old);
    CHECK(flags == TFD_TIMER_ABSTIME && !old);
    lockstep.alarm_fd = fd;
    lockstep.alarm_ns =
        (uint64_t)to->it_value.tv_sec * WEIR_NS_PER_S + (uint64_t)to->it_value.tv_nsec;
    alarm_ring_if_due();
    return 0;
}

/* ---- the loops ---- */

static void time_set(uint64_t now_ns)
{
    lockstep.now_ns = now_ns;
    lockstep.is_new_time = true;
    weir_loop_time_set(lockstep.mock_loop, now_ns);
    if (lockstep.loop)
        weir_loop_time_set(lockstep.loop, now_ns);
    alarm_ring_if_due();
}

/* The clock's next whole tick: no loop made by now is ahead of it. */
static uint64_t next_tick_ns(void)
{
    return (__real_weir_loop_clock_ns() / LOCKSTEP_TICK_NS + 1) * LOCKSTEP_TICK_NS;
}

struct weir_loop *__real_weir_loop_create(void);
struct weir_loop *__wrap_weir_loop_create(void);
struct weir_loop *__wrap_weir_loop_create(void)
{
    struct weir_loop *loop = __real_weir_loop_create();
    if (!lockstep.is_open || !loop || lockstep.loop)
        return loop;
    lockstep.loop = loop;
    time_set(weir_max_u64(lockstep.now_ns, next_tick_ns()));
    return loop;
}

int __real_weir_loop_turn(struct weir_loop *loop, uint64_t wait_ns);
int __wrap_weir_loop_turn(struct weir_loop *loop, uint64_t wait_ns);
int __wrap_weir_loop_turn(struct weir_loop *loop, uint64_t wait_ns)
{
    if (!lockstep.is_open || loop != lockstep.loop)
        return __real_weir_loop_turn(loop, wait_ns);
    uint64_t before = lockstep.events;
    int fault = __real_weir_loop_turn(lockstep.mock_loop, 0);
    fault = fault ? fault : __real_weir_loop_turn(loop, 0);
    /* The turn in which the timers of a new time fired is followed by one for what they wrote. */
    bool is_idle = lockstep.events == before && !lockstep.is_new_time;
    lockstep.is_new_time = false;
    if (lockstep.events != before)
        lockstep.looks = 0;
    if (is_idle && !is_under_way())
        time_set(lockstep.now_ns + LOCKSTEP_TICK_NS);
    CHECK_MSG(lockstep.now_ns - lockstep.from_ns < HOURS_NS, "it has no end");
    return fault;
}

int __real_weir_loop_run(struct weir_loop *loop);
int __wrap_weir_loop_run(struct weir_loop *loop);
int __wrap_weir_loop_run(struct weir_loop *loop)
{
    int fault = 0;
    if (!lockstep.is_open || loop != lockstep.loop)
        return __real_weir_loop_run(loop);
    while (fault == 0 && !lockstep.is_stopped)
        fault = __wrap_weir_loop_turn(loop, WEIR_NEVER_NS);
    return fault;
}

void __real_weir_loop_stop(struct weir_loop *loop);
void __wrap_weir_loop_stop(struct weir_loop *loop);
void __wrap_weir_loop_stop(struct weir_loop *loop)
{
    if (lockstep.is_open && loop == lockstep.loop)
        lockstep.is_stopped = true;
    else
        __real_weir_loop_stop(loop);
}

uint16_t lockstep_open(const struct weir_mock_config *config)
{
    char error_text[512] = "";
    struct weir_mock_config own = *config;
    if (lockstep.is_open) /* the test before failed in the middle */
        lockstep_close();
    signal(SIGPIPE, SIG_IGN);
    own.listen = "127.0.0.1:0";
    lockstep.is_stopped = false;
    lockstep.under_way = 0;
    lockstep.alarm_ns = WEIR_NEVER_NS;
    lockstep.mock_loop = __real_weir_loop_create();
    CHECK(lockstep.mock_loop);
    time_set(weir_max_u64(lockstep.now_ns, next_tick_ns()));
    lockstep.from_ns = lockstep.now_ns;
    lockstep.mock = weir_mock_open(lockstep.mock_loop, &own, error_text, sizeof error_text);
    CHECK_MSG(lockstep.mock, "%s", error_text);
    lockstep.is_open = true;
    return weir_mock_port(lockstep.mock);
}

void lockstep_close(void)
{
    weir_mock_close(lockstep.mock);
    weir_loop_destroy(lockstep.mock_loop);
    lockstep.mock_loop = lockstep.loop = NULL;
    lockstep.is_open = false;
}
