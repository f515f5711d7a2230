/* The schedulers' promises on random events: see sched_model.h and sched_judge.h. WEIR_TEST_LONG=1:
 * twenty times the cases, which is what it took to find the rarest fault so far. */
#include "core/sched_model.h"

#include <stdlib.h>

#include "support/check.h"

static void check(const char *name, tape_property *property, unsigned cases)
{
    tape_check(name, property, getenv("WEIR_TEST_LONG") ? cases * 20 : cases, 1200);
}

static void fifo__any_calls__the_oldest_goes_first(void **state)
{
    (void)state;
    check(__func__, sched_model_fifo, 500);
}

static void drr__every_interval__within_one_turn(void **state)
{
    (void)state;
    check(__func__, sched_model_drr, 1000);
}

static void drr_cost__every_interval__within_two_items_and_a_quantum(void **state)
{
    (void)state;
    check(__func__, sched_model_drr_cost, 1000);
}

static void vtc__every_interval__within_two_items(void **state)
{
    (void)state;
    check(__func__, sched_model_vtc, 1000);
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
