/* The wheel against a list that is searched from end to end. */
#include "support/check.h"

#include "net/timer.h"

#include <stdlib.h>

#define TICK (UINT64_C(1) << WEIR_TICK_SHIFT)

static uint64_t rng_state;

static uint64_t rng_next(void)
{
    uint64_t z = (rng_state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* Spreads over all magnitudes, so that every level is met. */
static uint64_t rng_span(uint32_t bits_max)
{
    return rng_next() >> (64 - 1 - rng_next() % bits_max);
}

enum { TIMERS = 200 };

struct probe {
    struct weir_timer timer;
    bool set; /* what the naive list thinks */
    uint64_t due_ns;
    uint32_t fired;
};

static struct weir_wheel wheel;
static struct probe probes[TIMERS];
static uint64_t now_ns, fired_tick;
static bool busy; /* fire() sets and cancels others */

static uint64_t tick_up(uint64_t due_ns)
{
    return (due_ns + TICK - 1) / TICK;
}

static void probe_set(struct probe *p, uint64_t due_ns)
{
    p->set = due_ns != WEIR_NEVER_NS;
    p->due_ns = due_ns;
    weir_wheel_set(&wheel, &p->timer, due_ns);
    CHECK(weir_timer_is_set(&p->timer) == p->set);
}

static void probe_cancel(struct probe *p)
{
    p->set = false;
    weir_wheel_cancel(&wheel, &p->timer);
    CHECK(!weir_timer_is_set(&p->timer));
}

static void probe_fire(struct weir_timer *timer)
{
    struct probe *p = (struct probe *)timer;
    CHECK(p->set);
    CHECK(!weir_timer_is_set(timer));
    CHECK(p->due_ns <= now_ns);
    uint64_t tick = tick_up(p->due_ns);
    CHECK(tick >= fired_tick || p->due_ns <= fired_tick * TICK); /* earlier ticks first */
    fired_tick = weir_max_u64(fired_tick, tick);
    p->set = false;
    p->fired++;
    if (!busy)
        return;
    struct probe *other = &probes[rng_next() % TIMERS];
    switch (rng_next() % 4) {
    case 0:
        probe_cancel(other);
        break;
    case 1:
        probe_set(other, now_ns + rng_span(40));
        break;
    case 2:
        probe_set(p, now_ns + rng_span(34));
        break;
    case 3:
        break;
    }
}

static void run_seed(uint64_t seed)
{
    rng_state = seed;
    memset(probes, 0, sizeof probes);
    now_ns = rng_span(62);
    fired_tick = 0;
    busy = seed % 2 != 0;
    weir_wheel_init(&wheel, now_ns);
    for (int i = 0; i < TIMERS; i++)
        probes[i].timer.fire = probe_fire;
    for (int step = 0; step < 300; step++) {
        for (int i = (int)(rng_next() % 20); i > 0; i--) {
            struct probe *p = &probes[rng_next() % TIMERS];
            uint64_t kind = rng_next() % 10;
            if (kind == 0)
                probe_cancel(p);
            else if (kind == 1)
                probe_set(p, rng_next() % 2 ? WEIR_NEVER_NS : now_ns - now_ns % 4096);
            else
                probe_set(p, weir_add_sat_u64(now_ns, rng_span(rng_next() % 4 ? 36 : 62)));
        }
        /* next_ns is never after the earliest due tick, and 0 or in the future. */
        uint64_t next_ns = weir_wheel_next_ns(&wheel);
        uint64_t earliest_ns = WEIR_NEVER_NS;
        for (int i = 0; i < TIMERS; i++)
            if (probes[i].set)
                earliest_ns = weir_min_u64(earliest_ns, tick_up(probes[i].due_ns) * TICK);
        CHECK_MSG(next_ns <= earliest_ns, "seed %llu", (unsigned long long)seed);
        CHECK((next_ns == WEIR_NEVER_NS) == (earliest_ns == WEIR_NEVER_NS));
        uint64_t jump_ns = rng_span(rng_next() % 8 ? 34 : 50);
        if (rng_next() % 3 == 0 && next_ns != WEIR_NEVER_NS && next_ns > now_ns)
            jump_ns = next_ns - now_ns - rng_next() % 2;
        now_ns = weir_min_u64(now_ns + jump_ns, UINT64_C(1) << 63);
        fired_tick = 0;
        weir_wheel_advance(&wheel, now_ns);
        if (busy)
            weir_wheel_advance(&wheel, now_ns); /* those that were set in fire() to a time past */
        for (int i = 0; i < TIMERS; i++) {
            CHECK(weir_timer_is_set(&probes[i].timer) == probes[i].set);
            CHECK_MSG(!probes[i].set || busy || tick_up(probes[i].due_ns) > now_ns / TICK,
                      "seed %llu step %d: a timer is late", (unsigned long long)seed, step);
        }
    }
}

static void wheel__any_order_of_calls__agrees_with_a_naive_list(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 400; seed++)
        run_seed(seed);
}

static void wheel__one_timer_at_every_distance__fires_in_its_tick(void **state)
{
    (void)state;
    for (uint32_t bit = 0; bit < 62; bit++) {
        for (int offset = -1; offset <= 1; offset++) {
            struct probe *p = &probes[0];
            memset(p, 0, sizeof *p);
            p->timer.fire = probe_fire;
            busy = false;
            now_ns = UINT64_C(123456789) * TICK;
            weir_wheel_init(&wheel, now_ns);
            uint64_t due_ns = now_ns + (UINT64_C(1) << bit) + (uint64_t)offset;
            fired_tick = 0;
            probe_set(p, due_ns);
            /* As the loop does: from one next_ns to the next. Eight levels, so few turns. */
            int turns = 0;
            while (p->fired == 0) {
                CHECK(turns++ <= WEIR_WHEEL_LEVELS + 1);
                now_ns = weir_max_u64(now_ns, weir_wheel_next_ns(&wheel));
                weir_wheel_advance(&wheel, now_ns);
            }
            CHECK(now_ns >= due_ns);
            CHECK(now_ns < due_ns + TICK);
            CHECK_INT(weir_wheel_next_ns(&wheel) == WEIR_NEVER_NS, 1);
        }
    }
}

static void rearm_fire(struct weir_timer *timer)
{
    ((struct probe *)timer)->fired++;
    weir_wheel_set(&wheel, timer, 0);
}

static void wheel__timer_set_again_for_now_when_fired__fires_once_an_advance(void **state)
{
    (void)state;
    memset(&probes[0], 0, sizeof probes[0]);
    probes[0].timer.fire = rearm_fire;
    weir_wheel_init(&wheel, 5 * TICK);
    weir_wheel_set(&wheel, &probes[0].timer, 5 * TICK);
    for (uint32_t i = 1; i <= 5; i++) {
        CHECK_INT(weir_wheel_next_ns(&wheel), 0);
        weir_wheel_advance(&wheel, (5 + i / 2) * TICK);
        CHECK_INT(probes[0].fired, i);
    }
}

static void wheel__time_that_goes_back__fires_nothing(void **state)
{
    (void)state;
    memset(&probes[0], 0, sizeof probes[0]);
    probes[0].timer.fire = probe_fire;
    busy = false;
    now_ns = 100 * TICK;
    weir_wheel_init(&wheel, now_ns);
    probe_set(&probes[0], 101 * TICK);
    weir_wheel_advance(&wheel, 50 * TICK);
    CHECK_INT(probes[0].fired, 0);
    now_ns = 101 * TICK;
    fired_tick = 0;
    weir_wheel_advance(&wheel, now_ns);
    CHECK_INT(probes[0].fired, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wheel__any_order_of_calls__agrees_with_a_naive_list),
        cmocka_unit_test(wheel__one_timer_at_every_distance__fires_in_its_tick),
        cmocka_unit_test(wheel__timer_set_again_for_now_when_fired__fires_once_an_advance),
        cmocka_unit_test(wheel__time_that_goes_back__fires_nothing),
    };
    return cmocka_run_group_tests_name("timer", tests, NULL, NULL);
}
