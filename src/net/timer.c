#include "net/timer.h"

#include <string.h>

#define DIGIT_BITS 6
_Static_assert(1 << DIGIT_BITS == WEIR_WHEEL_SLOTS, "a slot is a digit");
_Static_assert(DIGIT_BITS *WEIR_WHEEL_LEVELS + WEIR_TICK_SHIFT >= 64, "every time has a slot");

static uint64_t tick_of_due(uint64_t due_ns)
{
    uint64_t part = due_ns & ((UINT64_C(1) << WEIR_TICK_SHIFT) - 1);
    return (due_ns >> WEIR_TICK_SHIFT) + (part != 0);
}

static void list_push(struct weir_timer **head, struct weir_timer *t)
{
    t->next = *head;
    if (t->next)
        t->next->link = &t->next;
    t->link = head;
    *head = t;
}

static void list_remove(struct weir_timer *t)
{
    *t->link = t->next;
    if (t->next)
        t->next->link = t->link;
    t->link = NULL;
}

static void slot_mark_empty(struct weir_wheel *w, uint32_t level, uint32_t digit)
{
    w->used[level] &= ~(UINT64_C(1) << digit);
    if (w->used[level] == 0)
        w->levels_used &= ~(1u << level);
}

static void wheel_place(struct weir_wheel *w, struct weir_timer *t)
{
    uint64_t tick = tick_of_due(t->due_ns);
    if (tick <= w->now_tick) {
        list_push(&w->at_once, t);
        return;
    }
    uint32_t top_bit = 63u - (uint32_t)__builtin_clzll(tick ^ w->now_tick);
    uint32_t level = top_bit / DIGIT_BITS;
    uint32_t digit = (uint32_t)(tick >> (level * DIGIT_BITS)) & (WEIR_WHEEL_SLOTS - 1);
    list_push(&w->slot[level][digit], t);
    w->used[level] |= UINT64_C(1) << digit;
    w->levels_used |= 1u << level;
}

void weir_wheel_init(struct weir_wheel *wheel, uint64_t now_ns)
{
    memset(wheel, 0, sizeof *wheel);
    wheel->now_tick = now_ns >> WEIR_TICK_SHIFT;
}

void weir_wheel_cancel(struct weir_wheel *wheel, struct weir_timer *timer)
{
    struct weir_timer **link = timer->link;
    if (!link)
        return;
    list_remove(timer);
    if (*link)
        return;
    /* The list behind link may have become empty: if it is a slot, its place says which. */
    uintptr_t from_first = (uintptr_t)link - (uintptr_t)&wheel->slot[0][0];
    if (from_first < sizeof wheel->slot) {
        uint32_t index = (uint32_t)(from_first / sizeof(struct weir_timer *));
        slot_mark_empty(wheel, index / WEIR_WHEEL_SLOTS, index % WEIR_WHEEL_SLOTS);
    }
}

void weir_wheel_set(struct weir_wheel *wheel, struct weir_timer *timer, uint64_t due_ns)
{
    if (due_ns == WEIR_NEVER_NS) {
        weir_wheel_cancel(wheel, timer);
        return;
    }
    if (timer->link && due_ns >= timer->due_ns) {
        timer->due_ns = due_ns; /* its place comes up no later than its old due time */
        return;
    }
    weir_wheel_cancel(wheel, timer);
    timer->due_ns = due_ns;
    wheel_place(wheel, timer);
}

/* The first slot in use, and the tick at which it begins. */
static bool wheel_first(const struct weir_wheel *w, uint32_t *level, uint32_t *digit,
                        uint64_t *begin_tick)
{
    if (w->levels_used == 0)
        return false;
    *level = (uint32_t)__builtin_ctz(w->levels_used);
    *digit = (uint32_t)__builtin_ctzll(w->used[*level]);
    uint32_t shift = *level * DIGIT_BITS;
    uint64_t above = w->now_tick >> shift >> DIGIT_BITS << DIGIT_BITS;
    *begin_tick = (above | *digit) << shift;
    WEIR_INVARIANT(*begin_tick > w->now_tick);
    return true;
}

uint64_t weir_wheel_next_ns(const struct weir_wheel *wheel)
{
    uint32_t level, digit;
    uint64_t begin_tick;
    if (wheel->at_once)
        return 0;
    if (!wheel_first(wheel, &level, &digit, &begin_tick))
        return WEIR_NEVER_NS;
    return begin_tick << WEIR_TICK_SHIFT;
}

/* Takes a whole list and fires what is due in it; the rest is placed anew. */
static void wheel_fire(struct weir_wheel *w, struct weir_timer **list)
{
    WEIR_INVARIANT(!w->expired);
    w->expired = *list;
    *list = NULL;
    if (w->expired)
        w->expired->link = &w->expired;
    while (w->expired) {
        struct weir_timer *t = w->expired;
        list_remove(t);
        if (tick_of_due(t->due_ns) > w->now_tick)
            wheel_place(w, t);
        else
            t->fire(t);
    }
}

void weir_wheel_advance(struct weir_wheel *wheel, uint64_t now_ns)
{
    uint64_t target_tick = now_ns >> WEIR_TICK_SHIFT;
    uint64_t begin_tick;
    uint32_t level, digit;
    wheel_fire(wheel, &wheel->at_once);
    while (wheel_first(wheel, &level, &digit, &begin_tick) && begin_tick <= target_tick) {
        wheel->now_tick = begin_tick;
        slot_mark_empty(wheel, level, digit);
        wheel_fire(wheel, &wheel->slot[level][digit]);
    }
    wheel->now_tick = weir_max_u64(wheel->now_tick, target_tick);
}
