/* The model as a whole: what must come out, worked out by hand where it can be. */
#include "lab/lab_world.h"

/* --- determinism --- */

static void busy_world(struct world *w)
{
    world_plain(w, 4, 4);
    for (uint32_t i = 0; i < 4; i++) {
        w->tenants[i].prompt = world_uniform(10, 3000);
        w->tenants[i].output = world_uniform(1, 200);
        w->tenants[i].rate_micro_per_s = 3000000;
        w->tenants[i].client = world_sdk();
        w->tenants[i].client.gives_up_ns = 4 * WEIR_NS_PER_S;
        w->tenants[i].rules.waiters_max = 20;
    }
    w->upstreams[0].backend.prefill_permille = 20;
    w->s.ledger_delay_ns = 3 * WEIR_NS_PER_MS;
}

static void same_seed__same_hash__another_seed_another(void **state)
{
    (void)state;
    struct world w;
    struct world_run a, b, c;
    busy_world(&w);
    world_run(&a, &w.s, 1);
    world_run(&b, &w.s, 1);
    world_run(&c, &w.s, 2);
    CHECK(a.r->hash == b.r->hash);
    CHECK_INT(a.r->events, b.r->events);
    CHECK(a.r->hash != c.r->hash);
    CHECK(a.r->traffic_hash != c.r->traffic_hash);
    world_free(&a);
    world_free(&b);
    world_free(&c);
}

static void run_in_pieces__looked_at_each_time__same_results(void **state)
{
    (void)state;
    struct world w;
    struct world_run whole, pieces;
    busy_world(&w);
    w.s.bin_ns = 10 * WEIR_NS_PER_MS; /* folds a few times */
    world_run(&whole, &w.s, 3);
    world_open(&pieces, &w.s, 3);
    for (uint64_t at_ns = 0; weir_lab_run(pieces.lab, at_ns); at_ns += 16777216)
        pieces.r = weir_lab_results(pieces.lab);
    pieces.r = weir_lab_results(pieces.lab);
    CHECK(whole.r->hash == pieces.r->hash);
    CHECK_INT(whole.r->now_ns, pieces.r->now_ns);
    CHECK_INT(whole.r->bin_ns, pieces.r->bin_ns);
    CHECK(whole.r->bin_ns > 80 * WEIR_NS_PER_MS);
    CHECK_INT(whole.r->bin_count, pieces.r->bin_count);
    for (uint32_t i = 0; i < 4; i++)
        CHECK_MEM(
            pieces.r->tenants[i].bins, pieces.r->bin_count * sizeof(struct weir_lab_tenant_bin),
            whole.r->tenants[i].bins, whole.r->bin_count * sizeof(struct weir_lab_tenant_bin));
    CHECK_MEM(
        pieces.r->upstreams[0].bins, pieces.r->bin_count * sizeof(struct weir_lab_upstream_bin),
        whole.r->upstreams[0].bins, whole.r->bin_count * sizeof(struct weir_lab_upstream_bin));
    CHECK_MEM(pieces.r->gaps[0][0].bins, sizeof(struct weir_lab_gap_bin) * WEIR_LAB_BINS_MAX,
              whole.r->gaps[0][0].bins, sizeof(struct weir_lab_gap_bin) * WEIR_LAB_BINS_MAX);
    world_free(&whole);
    world_free(&pieces);
}

static void run_ns__ends_there__those_alive_are_counted(void **state)
{
    (void)state;
    struct world w;
    struct world_run run;
    busy_world(&w);
    w.s.run_ns = 20 * WEIR_NS_PER_S;
    world_open(&run, &w.s, 1);
    CHECK(!weir_lab_run(run.lab, WEIR_NEVER_NS));
    run.r = weir_lab_results(run.lab);
    CHECK_INT(run.r->now_ns, 20 * WEIR_NS_PER_S);
    CHECK(!world_wrong_sums(run.lab, run.r));
    uint64_t alive = 0;
    for (uint32_t i = 0; i < 4; i++)
        alive += run.r->tenants[i].alive;
    CHECK(alive > 20);
    world_free(&run);
}

/* --- the queue --- */

/* How long each waited adds up to how many waited over time: Little's law, to the unit. */
static void queue__littles_law__to_the_unit(void **state)
{
    (void)state;
    struct world w;
    struct world_run run;
    busy_world(&w);
    for (uint32_t i = 0; i < 4; i++)
        w.tenants[i].client = (struct weir_lab_client){.gives_up_ns = 3 * WEIR_NS_PER_S};
    w.s.queue_wait_max_ns = 5 * WEIR_NS_PER_S;
    w.tenants[2].client.gives_up_ns = 0;
    w.tenants[3].rules.waiters_max = 4;
    world_run(&run, &w.s, 1);
    uint64_t waits_ns[4] = {0}, gone = 0, refused = 0;
    for (size_t i = 0; i < run.count; i++) {
        const struct weir_trace_entry *e = &run.entries[i];
        bool is_called = e->queue_wait_ns > 0 || e->outcome == WEIR_TRACE_FINISHED;
        waits_ns[e->tenant] += is_called ? e->queue_wait_ns : e->latency_ns;
        gone += e->outcome == WEIR_TRACE_GONE;
        refused += e->outcome == WEIR_TRACE_REFUSED;
    }
    CHECK_MSG(gone > 50 && refused > 50, "%llu gone, %llu refused", (unsigned long long)gone,
              (unsigned long long)refused);
    for (uint32_t i = 0; i < 4; i++) {
        /* One that waits for its hold longer than its client does is told a batch later. */
        uint64_t more_ns = waits_ns[i] - run.r->tenants[i].waiting_ns;
        CHECK_MSG(more_ns <= 2 * w.s.ledger_delay_ns * run.r->tenants[i].offered, "%llu",
                  (unsigned long long)more_ns);
        CHECK(run.r->tenants[i].waiting_ns > WEIR_NS_PER_S);
    }
    world_free(&run);

    w.s.ledger_delay_ns = 0; /* nothing is told late */
    memset(waits_ns, 0, sizeof waits_ns);
    world_run(&run, &w.s, 1);
    for (size_t i = 0; i < run.count; i++) {
        const struct weir_trace_entry *e = &run.entries[i];
        bool is_called = e->queue_wait_ns > 0 || e->outcome == WEIR_TRACE_FINISHED;
        waits_ns[e->tenant] += is_called ? e->queue_wait_ns : e->latency_ns;
    }
    for (uint32_t i = 0; i < 4; i++)
        CHECK_INT(run.r->tenants[i].waiting_ns, waits_ns[i]);
    world_free(&run);
}

static void one_permit_fifo__fixed_service__waits_as_worked_out(void **state)
{
    (void)state;
    struct world w;
    struct world_run run;
    world_plain(&w, 1, 1);
    w.tenants[0].arrivals = WEIR_LAB_EVEN;
    w.tenants[0].rate_micro_per_s = 4000000; /* every 250 ms; a service takes 500 ms */
    w.pools[0].policy = WEIR_SCHED_FIFO;
    w.s.traffic_ns = 10 * WEIR_NS_PER_S;
    world_run(&run, &w.s, 1);
    CHECK_INT(run.count, 40);
    for (size_t i = 0; i < run.count; i++) {
        CHECK_INT(run.entries[i].queue_wait_ns, i * 250 * WEIR_NS_PER_MS);
        CHECK_INT(run.entries[i].first_byte_ns, (i * 250 + 10) * WEIR_NS_PER_MS);
        CHECK_INT(run.entries[i].latency_ns, (i * 250 + 500) * WEIR_NS_PER_MS);
    }
    world_free(&run);
}

static void goal__only_who_waited_less_is_good(void **state)
{
    (void)state;
    struct world w;
    struct world_run run;
    world_plain(&w, 1, 1);
    w.tenants[0].arrivals = WEIR_LAB_EVEN;
    w.tenants[0].rate_micro_per_s = 4000000;
    w.tenants[0].goal_wait_ns = 2 * WEIR_NS_PER_S;
    w.s.traffic_ns = 10 * WEIR_NS_PER_S;
    world_run(&run, &w.s, 1);
    CHECK_INT(run.r->tenants[0].finished, 40);
    CHECK_INT(run.r->tenants[0].good, 9); /* waits of 0, 250, ... 2,000 ms */
    world_free(&run);
}

static void whole_answers__first_byte_is_the_last(void **state)
{
    (void)state;
    struct world w;
    struct world_run run;
    world_plain(&w, 1, 10);
    w.tenants[0].is_stream = false;
    world_run(&run, &w.s, 1);
    CHECK(run.count > 50);
    for (size_t i = 0; i < run.count; i++)
        CHECK_INT(run.entries[i].first_byte_ns, run.entries[i].latency_ns);
    world_free(&run);
}

static void waiting_bytes__bound_keeps_the_queue_short(void **state)
{
    (void)state;
    struct world w;
    struct world_run run;
    world_plain(&w, 1, 1);
    w.tenants[0].rate_micro_per_s = 20000000;
    w.s.waiting_bytes_max = 9500; /* of prompts with some 430 bytes and a frame of 500 */
    world_run(&run, &w.s, 1);
    CHECK(run.r->tenants[0].refusals[WEIR_REFUSAL_QUEUE_FULL] > 1000);
    uint64_t most_ns = run.r->tenants[0].queue_wait_ns.max;
    CHECK(most_ns > 4 * WEIR_NS_PER_S && most_ns < 6 * WEIR_NS_PER_S);
    world_free(&run);
}

/* --- shares --- */

static void weights__overload__tokens_go_by_weight_and_the_gap_keeps_its_bound(void **state)
{
    (void)state;
    struct world w;
    struct world_run run;
    world_plain(&w, 3, 4);
    for (uint32_t i = 0; i < 3; i++) {
        w.tenants[i].rate_micro_per_s = 20000000;
        w.tenants[i].rules.weight = i + 1;
    }
    w.s.run_ns = w.s.traffic_ns;
    w.s.bin_ns = 10 * WEIR_NS_PER_MS;
    world_run(&run, &w.s, 1);
    const struct weir_lab_results *r = run.r;
    uint64_t share =
        (r->tenants[0].output_tok + r->tenants[1].output_tok + r->tenants[2].output_tok) / 6;
    for (uint32_t i = 0; i < 3; i++) {
        uint64_t got = r->tenants[i].output_tok, want = share * (i + 1);
        CHECK_MSG(got * 100 >= want * 97 && got * 100 <= want * 103, "%u got %llu of %llu", i,
                  (unsigned long long)got, (unsigned long long)want);
    }
    const struct weir_lab_gap_results *gap = &r->gaps[0][0];
    CHECK(r->bin_ns > w.s.bin_ns); /* the bins were folded */
    CHECK_INT(gap->bins[(gap->worst_ns[WEIR_LAB_GAP_WINDOW] - 1) / r->bin_ns].gap_uwork,
              gap->worst[WEIR_LAB_GAP_WINDOW].gap_uwork);
    CHECK_INT(gap->bins[5 * WEIR_NS_PER_S / r->bin_ns].gap_uwork, 0); /* no window is over yet */
    for (uint32_t i = 0; i < WEIR_GAP_WINDOWS; i++) {
        CHECK_INT(r->gaps[0][0].worst[i].compared, 3);
        CHECK(r->gaps[0][0].worst[i].gap_uwork <= r->gaps[0][0].worst[i].bound_uwork);
        CHECK_INT(r->gaps[0][0].now.windows[i].broken, 0);
    }
    world_free(&run);
}

static void fifo__overload__the_gap_shows_who_sends_more(void **state)
{
    (void)state;
    struct world w;
    struct world_run fifo, vtc;
    world_plain(&w, 2, 4);
    w.tenants[0].rate_micro_per_s = 30000000;
    w.tenants[1].rate_micro_per_s = 10000000;
    w.s.run_ns = w.s.traffic_ns;
    world_run(&vtc, &w.s, 1);
    w.pools[0].policy = WEIR_SCHED_FIFO;
    world_run(&fifo, &w.s, 1);
    CHECK(fifo.r->traffic_hash == vtc.r->traffic_hash);
    CHECK_INT(fifo.r->gaps[0][0].worst[1].bound_uwork, WEIR_GAP_NO_BOUND);
    CHECK(fifo.r->gaps[0][0].worst[1].gap_uwork > 8 * vtc.r->gaps[0][0].worst[1].gap_uwork);
    world_free(&fifo);
    world_free(&vtc);
}

/* Slices of a second, and an answer every two and a half: most windows end where nothing happens. */
static void slow_answers__windows_without_an_event_are_looked_at_too(void **state)
{
    (void)state;
    struct world w;
    struct world_run run, pieces;
    world_plain(&w, 2, 1);
    w.upstreams[0].backend.step_ns = 2500 * WEIR_NS_PER_MS;
    for (uint32_t i = 0; i < 2; i++) {
        w.tenants[i].rate_micro_per_s = 100000000;
        w.tenants[i].until_ns = 500 * WEIR_NS_PER_MS;
        w.tenants[i].output = world_fixed(1);
    }
    w.s.run_ns = 200 * WEIR_NS_PER_S;
    world_run(&run, &w.s, 1);
    const struct weir_lab_gap_results *gap = &run.r->gaps[0][0];
    CHECK(gap->worst[0].gap_uwork >= 100 * (uint64_t)WEIR_UWORK_PER_WORK); /* one request */
    for (uint32_t bin = 11; bin < 60; bin++)
        CHECK_MSG(gap->bins[bin].bound_uwork > 0, "second %u", bin);
    world_open(&pieces, &w.s, 1);
    for (uint64_t at_ns = 0; weir_lab_run(pieces.lab, at_ns); at_ns += 700 * WEIR_NS_PER_MS)
        pieces.r = weir_lab_results(pieces.lab);
    pieces.r = weir_lab_results(pieces.lab);
    CHECK_MEM(pieces.r->gaps[0][0].worst, sizeof gap->worst, gap->worst, sizeof gap->worst);
    CHECK_MEM(pieces.r->gaps[0][0].bins, sizeof(struct weir_lab_gap_bin) * WEIR_LAB_BINS_MAX,
              gap->bins, sizeof(struct weir_lab_gap_bin) * WEIR_LAB_BINS_MAX);
    world_free(&run);
    world_free(&pieces);
}

static void lanes__upper_overloads__the_lower_keeps_its_floor(void **state)
{
    (void)state;
    struct world w;
    struct world_run run;
    uint64_t batch_permille[2];
    for (uint32_t variant = 0; variant < 2; variant++) {
        world_plain(&w, 2, 4);
        w.s.lanes.lane_count = 2;
        w.s.lanes.floor_percent[1] = variant ? 20 : 0;
        for (uint32_t i = 0; i < 2; i++) {
            w.tenants[i].rate_micro_per_s = 20000000;
            w.tenants[i].rules.lane = i;
        }
        w.s.run_ns = w.s.traffic_ns;
        world_run(&run, &w.s, 1);
        batch_permille[variant] = run.r->tenants[1].output_tok * 1000 /
                                  (run.r->tenants[0].output_tok + run.r->tenants[1].output_tok);
        world_free(&run);
    }
    CHECK_MSG(batch_permille[0] <= 10, "%llu", (unsigned long long)batch_permille[0]);
    CHECK_MSG(batch_permille[1] >= 190 && batch_permille[1] <= 215, "%llu",
              (unsigned long long)batch_permille[1]);
}

/* --- upstreams --- */

static void first_byte_too_late__given_up_by_the_gateway(void **state)
{
    (void)state;
    struct world w;
    struct world_run run;
    struct weir_backend_trouble slow = {.replica = 0,
                                        .kind = WEIR_TROUBLE_SLOW,
                                        .from_ns = 30 * WEIR_NS_PER_S,
                                        .until_ns = 60 * WEIR_NS_PER_S,
                                        .slow_permille = 500000}; /* a step takes 5 s */
    world_plain(&w, 1, 50);
    w.upstreams[0].backend.troubles = &slow;
    w.upstreams[0].backend.trouble_count = 1;
    w.s.first_byte_max_ns = 2 * WEIR_NS_PER_S;
    world_run(&run, &w.s, 1);
    const struct weir_lab_tenant_results *t = &run.r->tenants[0];
    CHECK(t->refusals[WEIR_REFUSAL_UPSTREAM_TIMEOUT] >= 5);
    CHECK(t->refusals[WEIR_REFUSAL_UPSTREAM_OPEN] > 0); /* five in a row */
    CHECK(t->finished > 40);
    world_free(&run);
}

static void first_byte_in_time__a_long_answer_is_left_alone(void **state)
{
    (void)state;
    struct world w;
    struct world_run run;
    world_plain(&w, 1, 50);
    w.s.first_byte_max_ns = 100 * WEIR_NS_PER_MS; /* an answer takes 500 ms */
    world_run(&run, &w.s, 1);
    CHECK_INT(run.r->tenants[0].finished, run.r->tenants[0].offered);
    world_free(&run);
    w.tenants[0].is_stream = false; /* whole answers have a limit of their own */
    world_run(&run, &w.s, 1);
    CHECK_INT(run.r->tenants[0].finished, run.r->tenants[0].offered);
    world_free(&run);
    w.s.first_byte_whole_max_ns = 100 * WEIR_NS_PER_MS;
    world_run(&run, &w.s, 1);
    CHECK_INT(run.r->tenants[0].finished, 0);
    world_free(&run);
}

static void total_too_long__the_answer_is_cut(void **state)
{
    (void)state;
    struct world w;
    struct world_run run;
    world_plain(&w, 1, 50);
    w.tenants[0].arrivals = WEIR_LAB_EVEN;
    w.s.queue_wait_max_ns = 100 * WEIR_NS_PER_MS;
    w.s.total_max_ns = 200 * WEIR_NS_PER_MS; /* from then on; an answer takes 500 ms */
    world_run(&run, &w.s, 1);
    const struct weir_lab_tenant_results *t = &run.r->tenants[0];
    CHECK_INT(t->cut, t->offered);
    CHECK_INT(t->lost_tok, 30 * t->offered);
    world_free(&run);
}

static void failing_upstream__breaker_opens_and_traffic_falls_back(void **state)
{
    (void)state;
    struct world w;
    struct world_run run;
    struct weir_backend_trouble down = {.replica = WEIR_NONE,
                                        .kind = WEIR_TROUBLE_FAIL,
                                        .from_ns = 20 * WEIR_NS_PER_S,
                                        .until_ns = 50 * WEIR_NS_PER_S};
    world_plain(&w, 1, 50);
    w.tenants[0].rate_micro_per_s = 5000000;
    w.upstreams[1] = w.upstreams[0];
    w.upstreams[1].name[1] = '1';
    w.upstreams[0].backend.troubles = &down;
    w.upstreams[0].backend.trouble_count = 1;
    w.upstreams[0].rules.fallback = 1;
    w.pools[1] = w.pools[0];
    w.pools[1].upstreams[0] = 1;
    w.s.upstream_count = w.s.pool_count = 2;
    world_run(&run, &w.s, 1);
    const struct weir_lab_tenant_results *t = &run.r->tenants[0];
    uint64_t open_ns = 0, before = 0, failures = 0;
    for (uint32_t i = 0; i < run.r->bin_count; i++) {
        open_ns += run.r->upstreams[0].bins[i].open_ns;
        failures += run.r->upstreams[0].bins[i].failures;
        if (i < 20)
            before += run.r->upstreams[1].bins[i].calls;
    }
    CHECK_INT(before, 0);
    CHECK(run.r->upstreams[1].gateway.calls > 100);
    CHECK(open_ns > 30 * WEIR_NS_PER_S && open_ns < 80 * WEIR_NS_PER_S);
    /* Those that ran when it broke, then a few, then a trial each time it half opens. */
    CHECK_INT(failures, t->failed + t->cut);
    CHECK(failures >= 5 && failures < 15);
    CHECK_INT(run.r->upstreams[0].gateway.breaker, WEIR_BREAKER_CLOSED);
    world_free(&run);
}

static void one_of_two_replicas_fails__the_other_carries_on(void **state)
{
    (void)state;
    struct world w;
    struct world_run run;
    struct weir_backend_trouble down = {.replica = 0,
                                        .kind = WEIR_TROUBLE_FAIL,
                                        .from_ns = 20 * WEIR_NS_PER_S,
                                        .until_ns = 50 * WEIR_NS_PER_S};
    world_plain(&w, 1, 50);
    w.upstreams[0].backend.replicas = 2;
    w.upstreams[0].backend.troubles = &down;
    w.upstreams[0].backend.trouble_count = 1;
    w.tenants[0].rate_micro_per_s = 5000000;
    world_run(&run, &w.s, 1);
    const struct weir_lab_tenant_results *t = &run.r->tenants[0];
    CHECK(t->failed + t->cut > 0 && t->failed + t->cut < 5); /* those that ran there */
    CHECK_INT(t->finished + t->failed + t->cut, t->offered);
    world_free(&run);
}

/* --- limits of the model itself --- */

static void more_clients_than_can_be_kept__turned_away_and_counted(void **state)
{
    (void)state;
    struct world w;
    struct world_run run;
    world_plain(&w, 1, 2);
    w.s.requests_max = 10;
    w.tenants[0].rate_micro_per_s = 20000000;
    world_run(&run, &w.s, 1);
    const struct weir_lab_tenant_results *t = &run.r->tenants[0];
    CHECK(t->refusals[WEIR_REFUSAL_INTERNAL] > 1000);
    CHECK_INT(t->refusals[WEIR_REFUSAL_INTERNAL], t->refused);
    world_free(&run);
}

static void audited__busy_setup__every_invariant_after_every_event(void **state)
{
    (void)state;
    struct world w;
    struct world_run run;
    busy_world(&w);
    w.s.is_audited = true;
    w.s.traffic_ns = 10 * WEIR_NS_PER_S;
    w.tenants[1].rules.tokens =
        (struct weir_rate){.rate_micro_per_s = 2000000000, .capacity = 9000};
    world_run(&run, &w.s, 8);
    CHECK(run.r->events > 300);
    world_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_seed__same_hash__another_seed_another),
        cmocka_unit_test(run_in_pieces__looked_at_each_time__same_results),
        cmocka_unit_test(run_ns__ends_there__those_alive_are_counted),
        cmocka_unit_test(queue__littles_law__to_the_unit),
        cmocka_unit_test(one_permit_fifo__fixed_service__waits_as_worked_out),
        cmocka_unit_test(goal__only_who_waited_less_is_good),
        cmocka_unit_test(whole_answers__first_byte_is_the_last),
        cmocka_unit_test(waiting_bytes__bound_keeps_the_queue_short),
        cmocka_unit_test(weights__overload__tokens_go_by_weight_and_the_gap_keeps_its_bound),
        cmocka_unit_test(fifo__overload__the_gap_shows_who_sends_more),
        cmocka_unit_test(slow_answers__windows_without_an_event_are_looked_at_too),
        cmocka_unit_test(lanes__upper_overloads__the_lower_keeps_its_floor),
        cmocka_unit_test(first_byte_too_late__given_up_by_the_gateway),
        cmocka_unit_test(first_byte_in_time__a_long_answer_is_left_alone),
        cmocka_unit_test(total_too_long__the_answer_is_cut),
        cmocka_unit_test(failing_upstream__breaker_opens_and_traffic_falls_back),
        cmocka_unit_test(one_of_two_replicas_fails__the_other_carries_on),
        cmocka_unit_test(more_clients_than_can_be_kept__turned_away_and_counted),
        cmocka_unit_test(audited__busy_setup__every_invariant_after_every_event),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
