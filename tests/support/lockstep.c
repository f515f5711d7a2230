#include "support/lockstep.h"

#include <signal.h>
#include <sys/epoll.h>

#include "support/check.h"

#define HOURS_NS (24 * 3600 * WEIR_NS_PER_S) /* what is not over by then never will be */

static struct {
    struct weir_mock *mock;
    struct weir_loop *mock_loop, *loop;
    uint64_t from_ns, now_ns;
    uint64_t events; /* reported to anybody */
    bool is_open, is_new_time;
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

static void time_set(uint64_t now_ns)
{
    lockstep.now_ns = now_ns;
    lockstep.is_new_time = true;
    weir_loop_time_set(lockstep.mock_loop, now_ns);
    if (lockstep.loop)
        weir_loop_time_set(lockstep.loop, now_ns);
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
    if (is_idle)
        time_set(lockstep.now_ns + LOCKSTEP_TICK_NS);
    CHECK_MSG(lockstep.now_ns - lockstep.from_ns < HOURS_NS, "it has no end");
    return fault;
}

uint16_t lockstep_open(const struct weir_mock_config *config)
{
    char error_text[512] = "";
    struct weir_mock_config own = *config;
    if (lockstep.is_open) /* the test before failed in the middle */
        lockstep_close();
    signal(SIGPIPE, SIG_IGN);
    own.listen = "127.0.0.1:0";
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
