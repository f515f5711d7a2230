/* The properties of gap_world on random tapes. tests/core/mutants runs this with schedulers that are
 * wrong: then bounds are broken.
 *
 * WEIR_TEST_LONG=1 plays more than a hundred times as many. */
#include <stdlib.h>

#include "core/gap_world.h"
#include "support/check.h"

static unsigned cases(void)
{
    const char *is_long = getenv("WEIR_TEST_LONG");
    return is_long && *is_long == '1' ? 40000 : 300;
}

static void gap__any_history_under_vtc__is_the_twins_and_within_its_bound(void **state)
{
    (void)state;
    tape_check("gap__vtc", gap_world_vtc, cases(), 1200);
}

static void gap__any_history_under_drr_cost__is_the_twins_and_within_its_bound(void **state)
{
    (void)state;
    tape_check("gap__drr_cost", gap_world_drr_cost, cases(), 1200);
}

static void gap__any_history_under_drr__is_the_twins_and_within_a_turn(void **state)
{
    (void)state;
    tape_check("gap__drr", gap_world_drr, cases(), 1200);
}

static void gap__any_history_under_fifo__is_the_twins_and_has_no_bound(void **state)
{
    (void)state;
    tape_check("gap__fifo", gap_world_fifo, cases() / 2, 1200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gap__any_history_under_vtc__is_the_twins_and_within_its_bound),
        cmocka_unit_test(gap__any_history_under_drr_cost__is_the_twins_and_within_its_bound),
        cmocka_unit_test(gap__any_history_under_drr__is_the_twins_and_within_a_turn),
        cmocka_unit_test(gap__any_history_under_fifo__is_the_twins_and_has_no_bound),
    };
    return cmocka_run_group_tests_name("gap_property", tests, NULL, NULL);
}
