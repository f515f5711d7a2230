#include "lab/backend_property.h"
#include "support/check.h"

static void backend__any_run__is_its_step_by_step_twin(void **state)
{
    (void)state;
    tape_check(__func__, backend_property, 10000, 700);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(backend__any_run__is_its_step_by_step_twin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
