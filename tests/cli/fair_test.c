/* weir fair, run as a person would. */
#include "cli/run.h"

#include "core/base.h"
#include "support/check.h"

static const struct run_row good[] = {
    {"$W fair", 0, "vtc: 60 requests of 3 tenants, 1 permit, seed 1\n"},
    {"$W fair", 0, "After all is drained: a 40, b 10, c 10 served."},
    {"$W fair", 0, "totals after draining prove nothing.\nEvery bound holds.\n"},
    {"$W help fair", 0, "usage: weir fair"},
    {"$W fair --policy fifo", 0, "There is no bound that could hold or break."},
    {"$W fair --policy fifo", 0, "fifo: none; who sends more is served more"},
    {"$W fair --weights 2,1 --backlog 5", 0, "After all is drained: a 5, b 5 served."},
    {"$W fair --weights b=2,a=1 --backlog a=3,b=4", 0, "After all is drained: b 4, a 3 served."},
    {"$W fair --weights x=1", 0, "Nothing is proven: no two tenants had requests waiting"},
    {"$W fair --arrivals poisson:1/s", 0, "nothing to compare"},
    {"$W fair --arrivals a=start,b=at:10ms,c=onoff:500/s:20ms:20ms --cost uniform:1..5", 0,
     "Every bound holds."},
    {"$W fair --arrivals poisson:3k/s --cost exponential:10 --policy all", 0, "Every bound holds."},
    {"$W fair --cost 5", 0, "L = 5 the largest work / weight"},
    {"$W fair --input fixed:3 --output fixed:2 --permits 3 --policy drr-cost", 0,
     "L_in = 3 the largest input, M = P x 5 tokens, Q = 7 the largest quantum"},
    {"$W fair --estimates biased:+20% --cost fixed:100", 0, "L = 120 the largest work / weight"},
    {"$W fair --estimates biased:-50% --cost fixed:100 --permits 2", 0, "E = 50 the largest |used"},
    {"$W fair --estimates a=exact,b=noisy:50%,c=biased:10% --cost 100 --permits 4 --policy all", 0,
     "Every bound holds."},
    {"$W fair --items --weights 1,1 --backlog 2", 0, "Every dispatch under vtc"},
    {"$W fair --seeds 30 --cost uniform:1..100 --policy vtc,drr-cost,drr", 0, "seeds 1 to 30"},
    {"$W fair --policy drr-restarting", 1,
     "while b waited, a was served 10 requests per weight more, from dispatch 1 to 40;\n1 is the"},
    {"$W fair --seeds 3 --seed 5 --policy drr-restarting", 1,
     "drr-restarting broke a bound under 3 of 3 seeds."},
    {"$W fair --cost a=trace:$WEIR_TEST_DATA/fair/rows.csv,b=7,c=9", 0, "Every bound holds."},
    {"$W fair --cost trace:$WEIR_TEST_DATA/fair/rows.csv --weights t1=1,t2=1 --items", 0,
     "M = P x 30 tokens"},
    {"$W fair --policy all --input uniform:10..2000 --output exponential:200 --permits 8", 0,
     "Every bound holds."},
    {"$W fair --weights 1,1 --backlog 500 --cost a=100,b=2000 --policy drr,vtc", 0, "948,200"},
    {"$W fair --cost trace:$WEIR_TEST_DATA/traces/arena27.csv --estimates noisy:50% --seeds 200", 0,
     "seeds 1 to 200"},
};

static void fair__asked_for_what_can_be_run__runs_it(void **state)
{
    (void)state;
    run_rows(good, WEIR_COUNT(good));
}

static const struct run_row bad[] = {
    {"$W fair --weights a=0,b=1 2>&1", 2,
     "weir fair: --weights: the weight of a is a whole number from 1 to 1000, not '0'"},
    {"$W fair --weights a=1001 2>&1", 2, "from 1 to 1000, not '1001'"},
    {"$W fair --weights a=-1 2>&1", 2, "from 1 to 1000, not '-1'"},
    {"$W fair --weights a=99999999999999999999 2>&1", 2, "from 1 to 1000"},
    {"$W fair --weights a=1,a=2 2>&1", 2, "tenant 'a' is there twice"},
    {"$W fair --weights a=1,2 2>&1", 2, "either all weights have a name or none has"},
    {"$W fair --weights a=1, 2>&1", 2, "nothing behind the last comma"},
    {"$W fair --weights ,a=1 2>&1", 2, "nothing between two commas"},
    {"$W fair --weights '' 2>&1", 2, "there are no tenants"},
    {"$W fair --weights '<b>=1' 2>&1", 2, "has a letter other than"},
    {"$W fair --weights =1 2>&1", 2, "the name '' is empty"},
    {"$W fair --weights $(seq -s, 65 | sed 's/[0-9][0-9]*/1/g') 2>&1", 2, "more than 64 tenants"},
    {"$W fair --backlog d=1,a=1,b=1,c=1 2>&1", 2,
     "--backlog: there is no tenant 'd': name it in --weights, d=1"},
    {"$W fair --backlog a=1,b=1 2>&1", 2, "tenant 'c' is missing: name all or none"},
    {"$W fair --backlog a=1,a=1,b=1,c=1 2>&1", 2, "tenant 'a' is there twice"},
    {"$W fair --backlog a=1,5 2>&1", 2, "'5' lacks its tenant"},
    {"$W fair --backlog 1,2 2>&1", 2, "there are 2 values for 3 tenants"},
    {"$W fair --backlog '' 2>&1", 2, "it is empty"},
    {"$W fair --backlog 0 2>&1", 2, "sends from 1 to 1,000,000 requests, not '0'"},
    {"$W fair --backlog 18446744073709551616 2>&1", 2, "from 1 to 1,000,000 requests"},
    {"$W fair --backlog 600k 2>&1", 2, "1,800,000 requests in all are more than 1,000,000"},
    {"$W fair --cost -5 2>&1", 2, "--cost: tokens are a whole number from 0 to 1,000,000,000, not"},
    {"$W fair --cost fixed:-5 2>&1", 2, "not '-5'"},
    {"$W fair --cost fixed:2G 2>&1", 2, "not '2G'"},
    {"$W fair --cost 0 2>&1", 2, "tenant a may cost nothing: let its costs begin at 1 token"},
    {"$W fair --cost a=1,b=uniform:0..5,c=1 2>&1", 2, "tenant b may cost nothing"},
    {"$W fair --input fixed:0 2>&1", 2, "may cost nothing"},
    {"$W fair --cost uniform:5..1 2>&1", 2, "the wrong way round: uniform:1..5"},
    {"$W fair --cost uniform:5 2>&1", 2, "uniform needs two ends"},
    {"$W fair --cost exponential:0 2>&1", 2, "the mean of an exponential is at least 1"},
    {"$W fair --cost exponental:5 2>&1", 2, "did you mean 'exponential'?"},
    {"$W fair --cost 5 --input 5 2>&1", 2, "give either --cost, or --input and --output"},
    {"$W fair --input trace:x 2>&1", 2, "it belongs to --cost"},
    {"$W fair --cost trace:$D/none.csv 2>&1", 2, "none.csv: No such file or directory"},
    {": > $D/empty.csv; $W fair --cost trace:$D/empty.csv 2>&1", 2, "the file is empty"},
    {"echo arrival_s,tenant,prompt_tokens,output_tokens > $D/rows.csv; "
     "$W fair --cost trace:$D/rows.csv 2>&1",
     2, "there are no rows"},
    {"echo 0,x,0,0 >> $D/rows.csv; $W fair --cost trace:$D/rows.csv 2>&1", 2,
     "no row has a token: there is nothing to draw from"},
    {"echo 0,y,5,5 >> $D/rows.csv; $W fair --weights x=1,y=1 --cost trace:$D/rows.csv 2>&1", 2,
     "no row of tenant 'x' has a token"},
    {"echo 0,y,-5,5 >> $D/rows.csv; $W fair --cost trace:$D/rows.csv 2>&1", 2, "rows.csv:4:"},
    {"$W fair --cost fixed:1G --backlog 300k 2>&1", 2, "work of all requests together is above"},
    {"$W fair --cost fixed:1G --estimates biased:+1000% 2>&1", 2, "an estimate is above 2^52"},
    {"$W fair --estimates nosy:5% 2>&1", 2, "did you mean 'noisy'?"},
    {"$W fair --estimates biased:20 2>&1", 2, "a bias is -99% to +1000%"},
    {"$W fair --estimates biased:-100% 2>&1", 2, "a bias is -99% to +1000%"},
    {"$W fair --estimates noisy:101% 2>&1", 2, "noise is 0% to 100%"},
    {"$W fair --estimates noisy:-5% 2>&1", 2, "noise is 0% to 100%"},
    {"$W fair --arrivals pisson:5/s 2>&1", 2, "did you mean 'poisson'?"},
    {"$W fair --arrivals poisson:0/s 2>&1", 2, "a rate is a number and a time"},
    {"$W fair --arrivals even:1.5G/s 2>&1", 2, "more than 1,000,000,000 a second"},
    {"$W fair --arrivals onoff:5/s:1s 2>&1", 2, "onoff needs a rate and two times"},
    {"$W fair --arrivals onoff:5/s:0s:1s 2>&1", 2, "not a time on"},
    {"$W fair --arrivals at 2>&1", 2, "'at' lacks what stands behind the colon; there are"},
    {"$W fair --arrivals at:soon 2>&1", 2, "'soon' is not a time"},
    {"$W fair --arrivals even:1/d --backlog 1M --weights a=1 2>&1", 2, "raise the rate"},
    {"$W fair --policy vct 2>&1", 2, "'vct' is unknown; did you mean 'vtc'?"},
    {"$W fair --policy wfq 2>&1", 2, "there are vtc, drr-cost, drr, fifo, drr-restarting and all"},
    {"$W fair --permits 0 2>&1", 2, "--permits must be a whole number from 1 to 100,000, not '0'"},
    {"$W fair --permits 1M 2>&1", 2, "from 1 to 100,000"},
    {"$W fair --seeds 0 2>&1", 2, "--seeds must be a whole number from 1"},
    {"$W fair --seed x 2>&1", 2, "--seed must be a whole number"},
    {"$W fair --seeds 2 --items 2>&1", 2, "--items shows one run"},
    {"$W fair --seeds 2 --plot $D/x.svg 2>&1", 2, "--plot shows one run"},
    {"$W fair --plot $D/none/x.svg 2>&1", 3, "none/x.svg: No such file or directory"},
    {"$W fair --plot /dev/full 2>&1", 3, "/dev/full: No space left on device"},
    {"$W fair --plot - > /dev/full 2> $D/e; s=$?; cat $D/e; exit $s", 3, "No space left on device"},
    {"$W fair --plot - --json 2>&1", 2, "--plot - and --json both print"},
    {"$W fair more 2>&1", 2, "'more' is one argument too many"},
    {"$W fair --weigths a=1 2>&1", 2, "did you mean '--weights'?"},
};

static void fair__asked_for_the_impossible__says_what_and_what_to_do(void **state)
{
    (void)state;
    run_rows(bad, WEIR_COUNT(bad));
}

static void fair__help__the_classroom_comes_first(void **state)
{
    (void)state;
    CHECK_INT(run("$W fair --help"), 0);
    const char *classroom = strstr(run_out, "weir fair --weights a=4,b=1,c=1 --backlog 40,10,10");
    const char *flags = strstr(run_out, "  --weights LIST");
    CHECK(classroom && flags && classroom < flags);
    const char *before = strstr(run_out, "  weir fair ");
    CHECK(before && before + 2 == classroom);
}

static void fair__nothing_said__is_the_classroom(void **state)
{
    (void)state;
    CHECK_INT(run("$W fair > $D/a; $W fair --weights a=4,b=1,c=1 --backlog 40,10,10 > $D/b; "
                  "cmp $D/a $D/b"),
              0);
}

/* A gap of the n-th policy. */
static json_t *gap_of(json_t *all, size_t policy, const char *counted)
{
    size_t i;
    json_t *gap;
    json_array_foreach(
        json_object_get(json_array_get(json_object_get(all, "policies"), policy), "gaps"), i, gap)
    {
        if (strcmp(json_string_value(json_object_get(gap, "counted")), counted) == 0)
            return gap;
    }
    return NULL;
}

static double number(json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

static void fair__restarting__right_totals_and_a_broken_prefix(void **state)
{
    (void)state;
    json_t *all = run_json("$W fair --policy drr-restarting --items --json", 1);
    json_t *policy = json_array_get(json_object_get(all, "policies"), 0);
    json_t *gap = gap_of(all, 0, "requests");
    CHECK(json_is_true(json_object_get(all, "broken")));
    CHECK(json_is_true(json_object_get(gap, "broken")));
    CHECK(number(gap, "gap") == 10 && number(gap, "bound") == 1);
    CHECK_STR(json_string_value(json_object_get(gap, "ahead")), "a");
    CHECK_STR(json_string_value(json_object_get(gap, "behind")), "b");
    CHECK(number(json_object_get(gap, "to"), "dispatches") == 40);
    /* What was served in the end is what fair ones serve. */
    static const int totals[] = {40, 10, 10};
    size_t i;
    json_t *tenant, *item;
    json_array_foreach(json_object_get(policy, "tenants"), i, tenant)
        CHECK_INT(number(tenant, "requests"), totals[i]);
    CHECK_INT(i, 3);
    /* a x 40, b x 10, c x 10 */
    json_array_foreach(json_object_get(policy, "items"), i, item)
        CHECK_STR(json_string_value(json_object_get(item, "tenant")), i < 40   ? "a"
                                                                      : i < 50 ? "b"
                                                                               : "c");
    CHECK_INT(i, 60);
    json_decref(all);
}

static void fair__all__the_counterexample_does_not_count(void **state)
{
    (void)state;
    json_t *all = run_json("$W fair --policy all --json", 0);
    json_t *policies = json_object_get(all, "policies");
    CHECK_INT(json_array_size(policies), 5);
    json_t *last = json_array_get(policies, 4);
    CHECK_STR(json_string_value(json_object_get(last, "policy")), "drr-restarting");
    CHECK(json_is_true(json_object_get(last, "broken")));
    CHECK(json_is_true(json_object_get(last, "counterexample")));
    CHECK(json_is_false(json_object_get(all, "broken")));
    CHECK(json_is_null(json_object_get(gap_of(all, 3, "dispatched"), "bound"))); /* fifo */
    json_decref(all);
    CHECK_INT(run("$W fair --policy all"), 0);
    CHECK(strstr(run_out, "BROKEN, as it must be"));
    CHECK_INT(run("$W fair --policy vtc,drr-restarting"), 1); /* asked for by name it does */
}

/* Q = 7, L = 7, and with three permits 2 L + Q and 2 max(3, 2 x 3 x 5). */
static void fair__input_and_output__bounds_of_both(void **state)
{
    (void)state;
    json_t *all = run_json("$W fair --input 3 --output 2 --permits 3 --policy all --json", 0);
    CHECK(number(gap_of(all, 0, "dispatched"), "bound") == 14);
    CHECK(number(gap_of(all, 0, "delivered"), "bound") == 42);
    CHECK(number(gap_of(all, 0, "delivered"), "published") == 60);
    CHECK(number(gap_of(all, 1, "dispatched"), "bound") == 21);
    CHECK(number(gap_of(all, 1, "dispatched"), "published") == 21);
    CHECK(number(gap_of(all, 2, "requests"), "bound") == 1);
    json_decref(all);
}

static void fair__a_seed__the_same_bytes_and_another_seed_others(void **state)
{
    (void)state;
    CHECK_INT(run("F='fair --policy all --cost exponential:50 --arrivals poisson:100/s --items "
                  "--estimates noisy:50% --permits 4 --json'; $W $F --seed 7 > $D/a; "
                  "$W $F --seed 7 > $D/b; $W $F --seed 8 > $D/c; "
                  "cmp $D/a $D/b && ! cmp -s $D/a $D/c"),
              0);
}

static void fair__plot__a_picture_of_each_tenant_and_its_ideal(void **state)
{
    (void)state;
    CHECK_INT(run("$W fair --policy vtc,drr-restarting --plot $D/p.svg"), 1);
    CHECK_INT(run("cat $D/p.svg"), 0);
    CHECK(strncmp(run_out, "<svg", 4) == 0 || strncmp(run_out, "<?xml", 5) == 0);
    CHECK(strcmp(run_out + strlen(run_out) - 7, "</svg>\n") == 0);
    CHECK(strstr(run_out, ">vtc<") && strstr(run_out, ">drr-restarting<"));
    CHECK(strstr(run_out, "a, ideal") && strstr(run_out, "c, ideal"));
    CHECK(strstr(run_out, "bound 1."));
    CHECK(!strstr(run_out, "nan") && !strstr(run_out, "inf\""));
    CHECK_INT(
        run("cd $D && $W fair --policy vtc,drr-restarting --plot - | cmp - p.svg && ! ls -- -"), 0);
}

static void fair__an_interrupt__shows_the_worst_so_far(void **state)
{
    (void)state;
    /* A million runs, of which some hundreds are over when the signal comes. */
    CHECK_INT(run("$W fair --seeds 1M --backlog 100 --policy all > $D/o 2> $D/e & p=$!; "
                  "for i in 1 2 3 4 5 6 7 8 9 10; do $W fair --seeds 20 > /dev/null; done; "
                  "kill -INT $p; wait $p; s=$?; cat $D/e $D/o; exit $s"),
              1);
    unsigned long long runs = 0;
    CHECK_MSG(sscanf(run_out, "weir fair: stopped after %llu of 1000000 runs", &runs) == 1,
              "%.300s", run_out);
    char seeds[64];
    snprintf(seeds, sizeof seeds, "seeds 1 to %llu\n", runs);
    CHECK_MSG(strstr(run_out, seeds) && strstr(run_out, "Every bound holds."), "%.300s", run_out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fair__asked_for_what_can_be_run__runs_it),
        cmocka_unit_test(fair__asked_for_the_impossible__says_what_and_what_to_do),
        cmocka_unit_test(fair__help__the_classroom_comes_first),
        cmocka_unit_test(fair__nothing_said__is_the_classroom),
        cmocka_unit_test(fair__restarting__right_totals_and_a_broken_prefix),
        cmocka_unit_test(fair__all__the_counterexample_does_not_count),
        cmocka_unit_test(fair__input_and_output__bounds_of_both),
        cmocka_unit_test(fair__a_seed__the_same_bytes_and_another_seed_others),
        cmocka_unit_test(fair__plot__a_picture_of_each_tenant_and_its_ideal),
        cmocka_unit_test(fair__an_interrupt__shows_the_worst_so_far),
    };
    return cmocka_run_group_tests(tests, run_setup, run_teardown);
}
