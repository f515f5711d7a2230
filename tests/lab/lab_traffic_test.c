/* Who sends what when: rates, turns, bursts, sizes, and that nothing of it depends on the gateway.
 */
#include <stdlib.h>

#include "lab/lab_private.h"
#include "lab/lab_world.h"

/* Offered in seconds from .. until - 1 of a run with bins of a second. */
static uint64_t offered_between(const struct weir_lab_results *r, uint32_t tenant, uint32_t from,
                                uint32_t until)
{
    uint64_t sum = 0;
    for (uint32_t i = from; i < until && i < r->bin_count; i++)
        sum += r->tenants[tenant].bins[i].offered;
    return sum;
}

/* A count of a Poisson process with this mean is off by more than five times its spread once in two
 * million. */
static void check_poisson(uint64_t count, uint64_t mean)
{
    uint64_t off = count > mean ? count - mean : mean - count;
    CHECK_MSG(off * off <= 25 * mean, "%llu came, %llu are expected", (unsigned long long)count,
              (unsigned long long)mean);
}

static void poisson__many_seeds__rate_and_spread_are_right(void **state)
{
    (void)state;
    struct world w;
    uint64_t sum = 0, squares = 0;
    world_plain(&w, 1, 100);
    w.s.run_ns = w.s.traffic_ns;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        struct world_run run;
        world_run(&run, &w.s, seed);
        sum += run.r->tenants[0].offered;
        squares += run.r->tenants[0].offered * run.r->tenants[0].offered;
        world_free(&run);
    }
    check_poisson(sum, 40000);
    /* The variance of a count is its mean, 100; that of 400 counts is itself off by 7 a time. */
    uint64_t variance = (squares - sum * sum / 400) / 399;
    CHECK_MSG(variance >= 65 && variance <= 135, "variance %llu", (unsigned long long)variance);
}

static void even__rate_of_three__gaps_alike_and_phases_differ(void **state)
{
    (void)state;
    struct world w;
    struct world_run run;
    uint64_t last_ns[2] = {0}, first_ns[2] = {0};
    world_plain(&w, 2, 100);
    for (uint32_t i = 0; i < 2; i++) {
        w.tenants[i].arrivals = WEIR_LAB_EVEN;
        w.tenants[i].rate_micro_per_s = 3000000;
    }
    world_run(&run, &w.s, 1);
    CHECK_INT(run.r->tenants[0].offered, 300);
    for (size_t i = 0; i < run.count; i++) {
        const struct weir_trace_entry *e = &run.entries[i];
        if (last_ns[e->tenant])
            CHECK_INT(e->arrival_ns - last_ns[e->tenant], 333333333);
        else
            first_ns[e->tenant] = e->arrival_ns;
        last_ns[e->tenant] = e->arrival_ns;
    }
    CHECK(first_ns[0] != first_ns[1]);
    world_free(&run);
}

static void on_off__turns__sends_only_when_on(void **state)
{
    (void)state;
    struct world w;
    struct world_run run;
    world_plain(&w, 1, 200);
    w.tenants[0].rate_micro_per_s = 50000000;
    w.tenants[0].from_ns = 3 * WEIR_NS_PER_S;
    w.tenants[0].on_ns = 2 * WEIR_NS_PER_S;
    w.tenants[0].off_ns = 5 * WEIR_NS_PER_S;
    w.s.run_ns = w.s.traffic_ns;
    world_run(&run, &w.s, 5);
    uint64_t on = 0;
    CHECK_INT(offered_between(run.r, 0, 0, 3), 0);
    for (uint32_t from = 3; from < 100; from += 7) {
        on += offered_between(run.r, 0, from, from + 2);
        CHECK_INT(offered_between(run.r, 0, from + 2, from + 7), 0);
    }
    check_poisson(on, 14 * 2 * 50);
    CHECK_INT(on, run.r->tenants[0].offered);
    world_free(&run);
}

static void burst__window__rate_is_multiplied_there_only(void **state)
{
    (void)state;
    struct world w;
    struct world_run run;
    world_plain(&w, 2, 200);
    for (uint32_t i = 0; i < 2; i++) {
        w.tenants[i].rate_micro_per_s = 40000000;
        w.tenants[i].burst_from_ns = 40 * WEIR_NS_PER_S;
        w.tenants[i].burst_until_ns = 70 * WEIR_NS_PER_S;
    }
    w.tenants[0].burst_permille = 2500;
    w.s.run_ns = w.s.traffic_ns;
    world_run(&run, &w.s, 3);
    check_poisson(offered_between(run.r, 0, 0, 40), 1600);
    check_poisson(offered_between(run.r, 0, 40, 70), 3000);
    check_poisson(offered_between(run.r, 0, 70, 100), 1200);
    CHECK_INT(offered_between(run.r, 1, 40, 70), 0); /* a burst of nothing is silence */
    check_poisson(offered_between(run.r, 1, 70, 100), 1200);
    world_free(&run);
}

static void from_until__window__nothing_outside(void **state)
{
    (void)state;
    struct world w;
    struct world_run run;
    world_plain(&w, 3, 200);
    for (uint32_t i = 0; i < 3; i++) {
        w.tenants[i].rate_micro_per_s = 20000000;
        w.tenants[i].from_ns = 20 * WEIR_NS_PER_S;
        w.tenants[i].until_ns = 30 * WEIR_NS_PER_S;
    }
    w.tenants[1].arrivals = WEIR_LAB_CLOSED;
    w.tenants[1].users = 5;
    w.tenants[1].think_ns = WEIR_NS_PER_S;
    w.tenants[2].rate_micro_per_s = 0;
    world_run(&run, &w.s, 3);
    for (uint32_t i = 0; i < 3; i++)
        CHECK_INT(offered_between(run.r, i, 20, 30), run.r->tenants[i].offered);
    check_poisson(run.r->tenants[0].offered, 200);
    CHECK(run.r->tenants[1].offered > 10);
    CHECK_INT(run.r->tenants[2].offered, 0);
    world_free(&run);
}

static void growth__turns__prompt_grows_evenly_and_begins_anew(void **state)
{
    (void)state;
    struct world w;
    struct world_run run;
    world_plain(&w, 1, 1);
    w.tenants[0].prompt = world_uniform(6000, 24000);
    w.tenants[0].growth_turns = 4;
    w.tenants[0].rate_micro_per_s = 100000;
    w.pools[0].policy = WEIR_SCHED_FIFO;
    world_run(&run, &w.s, 1);
    CHECK(run.count >= 6);
    for (size_t i = 0; i < run.count; i++)
        CHECK_INT(run.entries[i].prompt_tok, 6000 + 6000 * (i % 4));
    world_free(&run);
}

static void lengths__uniform__mean_is_right(void **state)
{
    (void)state;
    struct world w;
    struct world_run run;
    world_plain(&w, 1, 200);
    w.tenants[0].rate_micro_per_s = 50000000;
    w.tenants[0].prompt = world_uniform(300, 1500);
    w.tenants[0].output = world_uniform(100, 400);
    w.tenants[0].output_limit_tok = 1024;
    world_run(&run, &w.s, 9);
    uint64_t n = run.r->tenants[0].finished;
    CHECK(n > 4500);
    /* Spreads of 346 and 87 over the root of n: 5 and 1.3. */
    CHECK(run.r->tenants[0].prompt_tok / n >= 875 && run.r->tenants[0].prompt_tok / n <= 925);
    CHECK(run.r->tenants[0].output_tok / n >= 243 && run.r->tenants[0].output_tok / n <= 257);
    world_free(&run);
}

static void output_limit__answers_keep_to_it(void **state)
{
    (void)state;
    struct world w;
    struct world_run run;
    world_plain(&w, 1, 10);
    w.tenants[0].output = world_uniform(1, 400);
    w.tenants[0].output_limit_tok = 100;
    world_run(&run, &w.s, 9);
    uint32_t most = 0;
    for (size_t i = 0; i < run.count; i++)
        if (run.entries[i].output_tok > most)
            most = run.entries[i].output_tok;
    CHECK_INT(most, 100);
    world_free(&run);
}

/* What is sent must be the same whatever is done with it. */
static void any_change_of_the_setup__same_traffic(void **state)
{
    (void)state;
    uint64_t hash = 0, event_hash = 0;
    uint32_t event_hashes = 0;
    for (uint32_t variant = 0; variant < 12; variant++) {
        struct weir_lab_store store;
        struct weir_lab_controls c = weir_lab_controls_default();
        struct world_run run;
        c.has_agent = c.has_burst = true;
        c.batch_micro_per_s = 4000000;
        c.policy = (enum weir_sched_policy)(variant % 4);
        c.limit = (enum weir_lab_limit)(variant / 4);
        c.has_lanes = variant % 2;
        weir_lab_default(&store, &c);
        store.scenario.ledger_delay_ns = variant % 3 * WEIR_NS_PER_MS;
        store.upstream.rules.permits = 20 + 40 * (variant % 5);
        for (uint32_t i = 0; i < 6; i++)
            if (variant >= 6)
                store.tenants[i].client = world_sdk();
        world_run(&run, &store.scenario, 77);
        if (variant == 0)
            hash = run.r->traffic_hash;
        CHECK_MSG(run.r->traffic_hash == hash, "variant %u", variant);
        event_hashes += run.r->hash != event_hash; /* and something was done with it */
        event_hash = run.r->hash;
        world_free(&run);
    }
    CHECK_INT(event_hashes, 12);
}

static void another_tenants_rate__leaves_the_others_traffic(void **state)
{
    (void)state;
    uint64_t arrivals_sum[2] = {0}, sizes_sum[2] = {0};
    for (uint32_t variant = 0; variant < 2; variant++) {
        struct world w;
        struct world_run run;
        world_plain(&w, 3, 5);
        w.tenants[0].rate_micro_per_s = variant ? 9000000 : 1000000;
        w.tenants[1].prompt = w.tenants[1].output = world_uniform(1, 400);
        world_run(&run, &w.s, 4);
        for (size_t i = 0; i < run.count; i++) {
            if (run.entries[i].tenant != 1)
                continue;
            arrivals_sum[variant] += run.entries[i].arrival_ns;
            sizes_sum[variant] += run.entries[i].prompt_tok * 1000 + run.entries[i].output_tok;
        }
        world_free(&run);
    }
    CHECK_INT(arrivals_sum[0], arrivals_sum[1]);
    CHECK_INT(sizes_sum[0], sizes_sum[1]);
}

static void closed_loop__one_user__waits_for_its_answer(void **state)
{
    (void)state;
    struct world w;
    struct world_run run;
    world_plain(&w, 1, 10);
    w.tenants[0].arrivals = WEIR_LAB_CLOSED;
    w.tenants[0].users = 3;
    w.tenants[0].think_ns = 0;
    world_run(&run, &w.s, 1);
    /* A prompt of one unit and 50 tokens take 50 steps of 10 ms; nobody else is on the replica. */
    CHECK_INT(run.r->tenants[0].offered, 3 * 200);
    CHECK_INT(run.r->upstreams[0].in_flight_max, 3);
    world_free(&run);
}

static void closed_loop__thinking__rate_is_users_by_cycle(void **state)
{
    (void)state;
    struct world w;
    struct world_run run;
    world_plain(&w, 1, 200);
    w.tenants[0].arrivals = WEIR_LAB_CLOSED;
    w.tenants[0].users = 100;
    w.tenants[0].think_ns = 1500 * WEIR_NS_PER_MS;
    world_run(&run, &w.s, 1);
    /* A cycle of 1.5 s of thought and 0.5 s of answer: 50 a second, less spread than by chance. */
    check_poisson(run.r->tenants[0].offered, 5000);
    world_free(&run);
}

static void closed_loop__refused_at_once__comes_back_no_sooner_than_a_second(void **state)
{
    (void)state;
    struct world w;
    struct world_run run;
    world_plain(&w, 1, 1);
    w.tenants[0].rules.paused = true;
    w.tenants[0].arrivals = WEIR_LAB_CLOSED;
    w.tenants[0].users = 1;
    world_run(&run, &w.s, 1);
    CHECK_INT(run.r->tenants[0].refusals[WEIR_REFUSAL_TENANT_PAUSED], 100);
    world_free(&run);
}

static void trace__entries__sent_as_they_stand(void **state)
{
    (void)state;
    struct world w;
    struct world_run run;
    struct weir_trace_entry trace[6] = {0};
    uint32_t map[3] = {1, WEIR_NONE, 0};
    for (uint32_t i = 0; i < 6; i++)
        trace[i] = (struct weir_trace_entry){.arrival_ns = i / 2 * 5 * WEIR_NS_PER_S,
                                             .tenant = i % 3,
                                             .prompt_tok = 1000 + i,
                                             .cached_tok = i == 3 ? 900 : 0,
                                             .output_tok = 10 + i,
                                             .output_limit_tok = i == 0 ? 7 : 0};
    world_plain(&w, 2, 10);
    w.tenants[0].arrivals = w.tenants[1].arrivals = WEIR_LAB_TRACE;
    w.s.trace = trace;
    w.s.trace_count = 6;
    w.s.trace_tenants = map;
    w.s.trace_tenant_count = 3;
    w.tenants[0].until_ns = 6 * WEIR_NS_PER_S;
    world_run(&run, &w.s, 1);
    CHECK_INT(run.count, 3); /* but for the one at 10 s, which tenant 0 does not send any more */
    world_free(&run);
    w.tenants[0].until_ns = 0;
    world_run(&run, &w.s, 1);
    CHECK_INT(run.count, 4); /* those of name 1 are left out */
    CHECK_INT(run.entries[0].tenant, 1);
    CHECK_INT(run.entries[0].arrival_ns, 0);
    CHECK_INT(run.entries[0].output_tok, 7); /* its own limit holds */
    CHECK_INT(run.entries[1].tenant, 0);
    CHECK_INT(run.entries[1].prompt_tok, 1002);
    CHECK_INT(run.entries[1].output_tok, 12);
    CHECK_INT(run.entries[1].arrival_ns, 5 * WEIR_NS_PER_S);
    CHECK_INT(run.entries[2].cached_tok, 900);
    CHECK_INT(run.entries[3].arrival_ns, 10 * WEIR_NS_PER_S);
    world_free(&run);
}

/* A run's own entries are a trace; sent again they are the same traffic. (Not the same texts, so
 * what is estimated differs; fifo does not look at it.) */
static void trace__of_a_run__is_that_run_again(void **state)
{
    (void)state;
    struct world w;
    struct world_run first, second;
    uint32_t map[3] = {0, 1, 2};
    world_plain(&w, 3, 2);
    w.pools[0].policy = WEIR_SCHED_FIFO;
    for (uint32_t i = 0; i < 3; i++) {
        w.tenants[i].prompt = w.tenants[i].output = world_uniform(1, 150);
        w.tenants[i].output_limit_tok = 0;
        w.tenants[i].rules.waiters_max = 2; /* some are refused */
    }
    world_run(&first, &w.s, 6);
    CHECK(first.r->tenants[0].refused > 0);
    struct weir_trace_entry *scratch = malloc(first.count * sizeof *scratch);
    CHECK(scratch != NULL);
    uint64_t began_ns = WEIR_NEVER_NS;
    for (size_t i = 0; i < first.count; i++)
        began_ns = weir_min_u64(began_ns, first.entries[i].arrival_ns);
    weir_trace_settle(first.entries, scratch, first.count);
    free(scratch);
    for (uint32_t i = 0; i < 3; i++)
        w.tenants[i].arrivals = WEIR_LAB_TRACE;
    w.s.trace = first.entries;
    w.s.trace_count = first.count;
    w.s.trace_tenants = map;
    w.s.trace_tenant_count = 3;
    world_run(&second, &w.s, 99);
    CHECK_INT(second.count, first.count);
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_INT(second.r->tenants[i].offered, first.r->tenants[i].offered);
        CHECK_INT(second.r->tenants[i].refused, first.r->tenants[i].refused);
        CHECK_INT(second.r->tenants[i].output_tok, first.r->tenants[i].output_tok);
    }
    CHECK_INT(second.r->now_ns, first.r->now_ns - began_ns);
    world_free(&first);
    world_free(&second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(poisson__many_seeds__rate_and_spread_are_right),
        cmocka_unit_test(even__rate_of_three__gaps_alike_and_phases_differ),
        cmocka_unit_test(on_off__turns__sends_only_when_on),
        cmocka_unit_test(burst__window__rate_is_multiplied_there_only),
        cmocka_unit_test(from_until__window__nothing_outside),
        cmocka_unit_test(growth__turns__prompt_grows_evenly_and_begins_anew),
        cmocka_unit_test(lengths__uniform__mean_is_right),
        cmocka_unit_test(output_limit__answers_keep_to_it),
        cmocka_unit_test(any_change_of_the_setup__same_traffic),
        cmocka_unit_test(another_tenants_rate__leaves_the_others_traffic),
        cmocka_unit_test(closed_loop__one_user__waits_for_its_answer),
        cmocka_unit_test(closed_loop__thinking__rate_is_users_by_cycle),
        cmocka_unit_test(closed_loop__refused_at_once__comes_back_no_sooner_than_a_second),
        cmocka_unit_test(trace__entries__sent_as_they_stand),
        cmocka_unit_test(trace__of_a_run__is_that_run_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
