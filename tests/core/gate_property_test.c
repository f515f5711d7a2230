#include "core/gate_model.h"
#include <stdlib.h>

#include "support/check.h"

static void gate__any_events__conserves_work_and_keeps_order_deadlines_and_bounds(void **state)
{
    (void)state;
    tape_check(__func__, gate_model_holds, getenv("WEIR_TEST_LONG") ? 8000 : 400, 1500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gate__any_events__conserves_work_and_keeps_order_deadlines_and_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
