#include "core/heap.h"

#include "support/check.h"
#include "support/tape.h"

#define IDS 40

/* The model is an array of keys; absent ids have none. */
static void heap_is_a_priority_queue(struct tape *t)
{
    struct weir_heap h;
    weir_heap_init(&h, tape_alloc(t, sizeof(struct weir_heap_entry) * (IDS + WEIR_HEAP_SPARE)),
                   tape_alloc(t, sizeof(uint32_t) * IDS), IDS);
    uint64_t keys[IDS] = {0};
    bool in[IDS] = {false};
    uint32_t count = 0;
    while (tape_more(t)) {
        uint32_t id = (uint32_t)tape_below(t, IDS);
        uint64_t key = 1000 + tape_below(t, 50);
        uint64_t deed = tape_below(t, 7);
        if (deed == 6 && count > 0) {
            id = weir_heap_pop(&h);
            for (uint32_t i = 0; i < IDS; i++)
                TAPE_CHECK(t, !in[i] || keys[i] >= keys[id]);
            TAPE_CHECK(t, in[id]);
            in[id] = false;
            count--;
        } else if (!in[id]) {
            weir_heap_push(&h, id, keys[id] = key);
            in[id] = true;
            count++;
        } else if (deed < 3) {
            weir_heap_rekey(&h, id, keys[id] = key);
        } else {
            weir_heap_remove(&h, id);
            in[id] = false;
            count--;
        }
        TAPE_CHECK(t, h.count == count);
        uint64_t least = UINT64_MAX;
        for (uint32_t i = 0; i < IDS; i++) {
            TAPE_CHECK(t, weir_heap_has(&h, i) == in[i]);
            TAPE_CHECK(t, !in[i] || weir_heap_key(&h, i) == keys[i]);
            if (in[i] && keys[i] < least)
                least = keys[i];
        }
        if (count > 0) {
            TAPE_CHECK(t, weir_heap_top_key(&h) == least);
            TAPE_CHECK(t, keys[weir_heap_top(&h)] == least);
        }
    }
}

static void heap__any_calls__the_top_is_the_least(void **state)
{
    (void)state;
    tape_check(__func__, heap_is_a_priority_queue, 2000, 600);
}

static void heap__rebase__keeps_the_order(void **state)
{
    (void)state;
    static struct weir_heap_entry entries[5 + WEIR_HEAP_SPARE];
    static uint32_t place[5];
    struct weir_heap h;
    weir_heap_init(&h, entries, place, 5);
    for (uint32_t i = 0; i < 5; i++)
        weir_heap_push(&h, i, 100 - i);
    weir_heap_rebase(&h, 90);
    for (uint32_t i = 0; i < 5; i++) {
        CHECK_INT(weir_heap_top_key(&h), 6 + i);
        CHECK_INT(weir_heap_pop(&h), 4 - i);
    }
    CHECK_INT(h.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heap__any_calls__the_top_is_the_least),
        cmocka_unit_test(heap__rebase__keeps_the_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
