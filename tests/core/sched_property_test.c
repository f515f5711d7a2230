#include "core/sched_model.h"
#include "support/check.h"

static void fifo__any_calls__the_oldest_goes_first(void **state)
{
    (void)state;
    tape_check(__func__, sched_model_fifo, 500, 1200);
}

static void drr__every_interval__within_one_turn(void **state)
{
    (void)state;
    tape_check(__func__, sched_model_drr, 1500, 1200);
}

static void drr_cost__every_interval__within_two_items_and_a_quantum(void **state)
{
    (void)state;
    tape_check(__func__, sched_model_drr_cost, 1500, 1200);
}

static void vtc__every_interval__within_two_items(void **state)
{
    (void)state;
    tape_check(__func__, sched_model_vtc, 1500, 1200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fifo__any_calls__the_oldest_goes_first),
        cmocka_unit_test(drr__every_interval__within_one_turn),
        cmocka_unit_test(drr_cost__every_interval__within_two_items_and_a_quantum),
        cmocka_unit_test(vtc__every_interval__within_two_items),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
