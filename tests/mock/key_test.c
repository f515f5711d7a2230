/* The mock's credentials: numbered as they came, and bounded. */
#include "mock/mock_key.h"

#include <stdio.h>

#include "support/check.h"

static void keys__as_they_come__keep_their_number(void **state)
{
    (void)state;
    struct mock_keys keys = {0};
    CHECK_INT(mock_keys_find(&keys, WEIR_SLICE("b")), 0);
    CHECK_INT(mock_keys_find(&keys, (struct weir_slice){0}), 1); /* none is one, too */
    CHECK_INT(mock_keys_find(&keys, WEIR_SLICE("bb")), 2);
    CHECK_INT(mock_keys_find(&keys, WEIR_SLICE("a")), 3);
    CHECK_INT(mock_keys_find(&keys, WEIR_SLICE("b")), 0);
    CHECK_INT(mock_keys_find(&keys, (struct weir_slice){"", 0}), 1);
    mock_keys_free(&keys);
}

static void keys__more_than_there_is_room_for__share_the_last_number(void **state)
{
    (void)state;
    struct mock_keys keys = {0};
    char text[16];
    for (uint32_t i = 0; i < 3 * MOCK_KEYS_MAX; i++) {
        int n = snprintf(text, sizeof text, "key-%u", i);
        CHECK_INT(mock_keys_find(&keys, (struct weir_slice){text, (size_t)n}),
                  i < MOCK_KEYS_MAX ? i : MOCK_KEYS_MAX - 1);
    }
    CHECK_INT(mock_keys_find(&keys, WEIR_SLICE("key-7")), 7);
    mock_keys_free(&keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys__as_they_come__keep_their_number),
        cmocka_unit_test(keys__more_than_there_is_room_for__share_the_last_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
