#include "core/bits.h"

#include <string.h>

#include "support/check.h"
#include "support/tape.h"

static void bits_are_a_set(struct tape *t)
{
    static const uint32_t sizes[] = {1, 2, 63, 64, 65, 4096, 4097, 300000};
    uint32_t size = sizes[tape_below(t, WEIR_COUNT(sizes))];
    struct weir_bits b;
    weir_bits_init(&b, tape_alloc(t, weir_bits_words(size) * sizeof(uint64_t)), size);
    bool *in = tape_alloc(t, size);
    while (tape_more(t)) {
        uint32_t n = (uint32_t)tape_below(t, tape_chance(t, 1, 2) ? size : weir_min_u64(size, 9));
        if (tape_chance(t, 2, 3)) {
            weir_bits_set(&b, n);
            in[n] = true;
        } else {
            weir_bits_clear(&b, n);
            in[n] = false;
        }
        TAPE_CHECK(t, weir_bits_has(&b, n) == in[n]);
        uint32_t from = (uint32_t)tape_below(t, size), want = from;
        while (want < size && !in[want])
            want++;
        TAPE_CHECK(t, weir_bits_next(&b, from) == (want < size ? want : WEIR_NONE));
    }
    TAPE_CHECK(t, weir_bits_next(&b, size) == WEIR_NONE);
}

static void bits__any_calls__find_the_next_member(void **state)
{
    (void)state;
    tape_check(__func__, bits_are_a_set, 500, 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits__any_calls__find_the_next_member),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
