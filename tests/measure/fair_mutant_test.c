/* The proof must be able to fail. This program is linked with the gateway's scheduler with one rule
 * broken (meson.build says which), and finds that bounds break. Linked with the scheduler as it is,
 * it fails. */
#include "measure/fair_plans.h"
#include "support/check.h"

static struct plan plan;
static struct weir_fair_result result;

static void broken_scheduler__random_plans__a_bound_breaks(void **state)
{
    (void)state;
    uint32_t broken[WEIR_FAIR_COUNTS] = {0}, any = 0, plans = 500;
    for (uint64_t seed = 1; seed <= plans; seed++) {
        struct weir_rng rng;
        weir_rng_seed(&rng, seed, 4);
        plan_draw(&plan, &rng, MUTANT_POLICY, PLAN_EXACT);
        CHECK(weir_fair_run(&plan.fair, NULL, NULL, &result));
        any += result.is_broken;
        for (uint32_t c = 0; c < WEIR_FAIR_COUNTS; c++)
            broken[c] += result.gaps[c].is_broken;
    }
    for (uint32_t c = 0; c < WEIR_FAIR_COUNTS; c++)
        print_message("# %s: the bound broke in %u of %u plans\n",
                      weir_fair_count_name((enum weir_fair_count)c), broken[c], plans);
    CHECK_MSG(any > 0, "no bound broke in %u plans", plans);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broken_scheduler__random_plans__a_bound_breaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
