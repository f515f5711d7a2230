#include "support/check.h"

#include "net/loop.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct end {
    struct weir_io io;
    struct weir_loop *loop;
    struct weir_io *victim; /* removed when this one is called */
    uint32_t calls, events;
};

static void end_ready(struct weir_io *io, uint32_t events)
{
    struct end *e = (struct end *)io;
    e->calls++;
    e->events |= events;
    if (e->victim) {
        weir_loop_close(e->loop, e->victim);
        e->victim = NULL;
    }
}

static void pair_open(struct weir_loop *loop, struct end *a, int *peer)
{
    int fds[2];
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    *a = (struct end){.io = {.ready = end_ready, .fd = fds[0]}, .loop = loop};
    *peer = fds[1];
    CHECK_INT(weir_loop_add(loop, &a->io), 0);
}

static void loop__bytes_and_hang_up__are_reported_once_each(void **state)
{
    (void)state;
    struct weir_loop *loop = weir_loop_create();
    struct end a;
    int peer;
    pair_open(loop, &a, &peer);
    CHECK_INT(weir_loop_turn(loop, 0), 0); /* writable */
    CHECK_INT(a.calls, 1);
    CHECK_INT(weir_loop_turn(loop, 0), 0);
    CHECK_INT(a.calls, 1);
    CHECK_INT(write(peer, "x", 1), 1);
    CHECK_INT(weir_loop_turn(loop, WEIR_NS_PER_S), 0);
    CHECK_INT(a.calls, 2);
    CHECK(a.events & EPOLLIN);
    close(peer);
    CHECK_INT(weir_loop_turn(loop, WEIR_NS_PER_S), 0);
    CHECK_INT(a.calls, 3);
    CHECK(a.events & EPOLLRDHUP);
    weir_loop_close(loop, &a.io);
    CHECK_INT(a.io.fd, -1);
    weir_loop_destroy(loop);
}

static void loop__io_closed_by_another_callback_of_the_turn__gets_no_event(void **state)
{
    (void)state;
    struct weir_loop *loop = weir_loop_create();
    struct end a, b;
    int peers[2];
    pair_open(loop, &a, &peers[0]);
    pair_open(loop, &b, &peers[1]);
    a.victim = &b.io;
    b.victim = &a.io;
    CHECK_INT(weir_loop_turn(loop, 0), 0);
    CHECK_INT(a.calls + b.calls, 1);
    if (a.io.fd >= 0)
        weir_loop_close(loop, &a.io);
    if (b.io.fd >= 0)
        weir_loop_close(loop, &b.io);
    close(peers[0]);
    close(peers[1]);
    weir_loop_destroy(loop);
}

struct replacer {
    struct weir_io io;
    struct weir_loop *loop;
    struct replacer *other;
    struct end *fresh;
    int *fresh_peer;
    bool ran;
};

/* Closes the other, and opens a new socket that gets the same descriptor, in the same turn. */
static void replacer_ready(struct weir_io *io, uint32_t events)
{
    struct replacer *r = (struct replacer *)io;
    (void)events;
    if (r->ran || r->other->ran)
        return;
    r->ran = true;
    int fd = r->other->io.fd;
    weir_loop_close(r->loop, &r->other->io);
    pair_open(r->loop, r->fresh, r->fresh_peer);
    CHECK_INT(r->fresh->io.fd, fd);
}

static void loop__descriptor_given_out_again_within_a_turn__gets_no_stale_event(void **state)
{
    (void)state;
    struct weir_loop *loop = weir_loop_create();
    int fds[2], fresh_peer;
    struct end fresh;
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    struct replacer r[2];
    for (int i = 0; i < 2; i++) {
        r[i] = (struct replacer){.io = {.ready = replacer_ready, .fd = fds[i]},
                                 .loop = loop,
                                 .other = &r[!i],
                                 .fresh = &fresh,
                                 .fresh_peer = &fresh_peer};
        CHECK_INT(weir_loop_add(loop, &r[i].io), 0);
    }
    CHECK_INT(weir_loop_turn(loop, 0), 0);
    CHECK(r[0].ran != r[1].ran);
    CHECK_INT(fresh.calls, 0);
    CHECK_INT(weir_loop_turn(loop, 0), 0);
    CHECK_INT(fresh.calls, 1);
    weir_loop_close(loop, &fresh.io);
    weir_loop_close(loop, &r[r[1].ran].io);
    close(fresh_peer);
    weir_loop_destroy(loop);
}

static char trace[16];
static struct weir_loop *trace_loop;

static void trace_add(char c)
{
    size_t n = strlen(trace);
    CHECK(n + 1 < sizeof trace);
    trace[n] = c;
}

static void hook_a(struct weir_hook *hook)
{
    (void)hook;
    trace_add('a');
}

static void hook_b(struct weir_hook *hook)
{
    (void)hook;
    trace_add('b');
}

static void trace_fire(struct weir_timer *timer)
{
    trace_add('t');
    weir_loop_park(trace_loop, timer); /* its memory is still read after this callback: see ASan */
}

static void trace_ready(struct weir_io *io, uint32_t events)
{
    (void)io;
    (void)events;
    trace_add('e');
}

static void loop__a_turn__runs_events_then_timers_then_hooks_in_order(void **state)
{
    (void)state;
    memset(trace, 0, sizeof trace);
    struct weir_loop *loop = trace_loop = weir_loop_create();
    struct weir_hook a = {.run = hook_a}, b = {.run = hook_b};
    weir_loop_at_turn_end(loop, &a);
    weir_loop_at_turn_end(loop, &b);
    struct end e;
    int peer;
    pair_open(loop, &e, &peer);
    e.io.ready = trace_ready;
    struct weir_timer *timer = calloc(1, sizeof *timer);
    timer->fire = trace_fire;
    weir_timer_set(loop, timer, 0);
    CHECK_INT(weir_loop_turn(loop, 0), 0);
    CHECK_STR(trace, "etab");
    weir_loop_hook_remove(loop, &a);
    CHECK_INT(weir_loop_turn(loop, 0), 0);
    CHECK_STR(trace, "etabb");
    weir_loop_close(loop, &e.io);
    close(peer);
    weir_loop_destroy(loop);
}

static int late_work;

static void hook_late(struct weir_hook *hook)
{
    (void)hook;
    if (late_work > 0 && late_work-- > 0)
        weir_loop_hooks_again(trace_loop); /* work for a, which ran before */
}

static void
loop__hook_that_makes_work_for_an_earlier_one__runs_all_again_in_the_same_turn(void **state)
{
    (void)state;
    struct weir_loop *loop = trace_loop = weir_loop_create();
    struct weir_hook a = {.run = hook_a}, late = {.run = hook_late};
    weir_loop_at_turn_end(loop, &a);
    weir_loop_at_turn_end(loop, &late);
    memset(trace, 0, sizeof trace);
    late_work = 2;
    CHECK_INT(weir_loop_turn(loop, 0), 0);
    CHECK_STR(trace, "aaa");
    /* Endless work does not keep the sockets waiting, and the next turn does not wait. */
    late_work = 40;
    memset(trace, 0, sizeof trace);
    a.run = hook_late;
    CHECK_INT(weir_loop_turn(loop, 0), 0);
    CHECK_INT(weir_loop_turn(loop, WEIR_NEVER_NS), 0);
    CHECK_INT(late_work, 0);
    weir_loop_destroy(loop);
}

struct tick {
    struct weir_timer timer;
    int fired;
};

static void tick_fire(struct weir_timer *timer)
{
    ((struct tick *)timer)->fired++;
}

static void loop__time_set_by_a_test__moves_timers_without_waiting(void **state)
{
    (void)state;
    struct weir_loop *loop = weir_loop_create();
    uint64_t t0_ns = weir_loop_now_ns(loop);
    struct tick t = {.timer = {.fire = tick_fire}};
    weir_loop_time_set(loop, t0_ns);
    weir_timer_set(loop, &t.timer, t0_ns + 3600 * WEIR_NS_PER_S);
    CHECK_INT(weir_loop_turn(loop, 0), 0);
    weir_loop_time_set(loop, t0_ns + 3600 * WEIR_NS_PER_S - 1);
    CHECK_INT(weir_loop_turn(loop, 0), 0);
    CHECK_INT(t.fired, 0);
    weir_loop_time_set(loop, t0_ns + 3600 * WEIR_NS_PER_S + (1 << WEIR_TICK_SHIFT));
    CHECK_INT(weir_loop_turn(loop, 0), 0);
    CHECK_INT(t.fired, 1);
    weir_loop_destroy(loop);
}

static void loop__real_timer__ends_the_wait_and_is_not_early(void **state)
{
    (void)state;
    struct weir_loop *loop = weir_loop_create();
    struct tick t = {.timer = {.fire = tick_fire}};
    uint64_t due_ns = weir_loop_now_ns(loop) + 3 * WEIR_NS_PER_MS;
    weir_timer_set(loop, &t.timer, due_ns);
    while (!t.fired)
        CHECK_INT(weir_loop_turn(loop, WEIR_NEVER_NS), 0);
    CHECK(weir_loop_now_ns(loop) >= due_ns);
    CHECK(weir_loop_turns(loop) < 10);
    weir_loop_destroy(loop);
}

static struct {
    pthread_mutex_t lock;
    uint32_t queued, seen;
    struct weir_loop *loop;
} box = {.lock = PTHREAD_MUTEX_INITIALIZER};

enum { PUSHES = 20000 };

static void *box_push(void *arg)
{
    for (int i = 0; i < PUSHES; i++) {
        pthread_mutex_lock(&box.lock);
        box.queued++;
        pthread_mutex_unlock(&box.lock);
        weir_loop_wake(box.loop);
    }
    return arg;
}

static void box_pull(struct weir_hook *hook)
{
    (void)hook;
    pthread_mutex_lock(&box.lock);
    box.seen += box.queued;
    box.queued = 0;
    pthread_mutex_unlock(&box.lock);
    if (box.seen == 2 * PUSHES)
        weir_loop_stop(box.loop);
}

static void loop__wakes_from_other_threads__lose_nothing(void **state)
{
    (void)state;
    box.loop = weir_loop_create();
    struct weir_hook hook = {.run = box_pull};
    weir_loop_at_turn_end(box.loop, &hook);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, box_push, NULL), 0);
    CHECK_INT(weir_loop_run(box.loop), 0); /* hangs if a wake is lost */
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    CHECK_INT(box.seen, 2 * PUSHES);
    weir_loop_destroy(box.loop);
}

static void loop__no_descriptor_left__create_says_so(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        /* None, then one: epoll gets it, the eventfd does not. */
        for (rlim_t extra = 0; extra < 2; extra++) {
            int next = dup(0);
            close(next);
            struct rlimit limit = {(rlim_t)next + extra, (rlim_t)next + extra + 8};
            if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
                _exit(3);
            errno = 0;
            if (weir_loop_create() || errno != EMFILE)
                _exit(1);
        }
        _exit(0);
    }
    int status;
    CHECK_INT(waitpid(child, &status, 0), child);
    CHECK_INT(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loop__bytes_and_hang_up__are_reported_once_each),
        cmocka_unit_test(loop__io_closed_by_another_callback_of_the_turn__gets_no_event),
        cmocka_unit_test(loop__descriptor_given_out_again_within_a_turn__gets_no_stale_event),
        cmocka_unit_test(loop__a_turn__runs_events_then_timers_then_hooks_in_order),
        cmocka_unit_test(
            loop__hook_that_makes_work_for_an_earlier_one__runs_all_again_in_the_same_turn),
        cmocka_unit_test(loop__time_set_by_a_test__moves_timers_without_waiting),
        cmocka_unit_test(loop__real_timer__ends_the_wait_and_is_not_early),
        cmocka_unit_test(loop__wakes_from_other_threads__lose_nothing),
        cmocka_unit_test(loop__no_descriptor_left__create_says_so),
    };
    return cmocka_run_group_tests_name("loop", tests, NULL, NULL);
}
