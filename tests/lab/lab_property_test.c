#include "lab/lab_setup.h"
#include "support/check.h"

static void any_setup__every_event__audited_and_added_up(void **state)
{
    (void)state;
    tape_check(__func__, lab_setup_any, 2000, 900);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_setup__every_event__audited_and_added_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
