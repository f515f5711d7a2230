/* Budgets in the model: what a spent one does with those who come, at once and through batches. */
#include "lab/lab_world.h"

static void budget_world(struct world *w, enum weir_exhausted_policy policy)
{
    world_plain(w, 2, 20);
    w->tenants[0].rules.scope = w->tenants[1].rules.scope = 1;
    w->scopes[0] =
        (struct weir_lab_scope){.name = "org", .parent = WEIR_NONE, .is_unlimited = true};
    w->scopes[1] = (struct weir_lab_scope){.name = "team",
                                           .parent = 0,
                                           .granted_tok = 6000, /* 40 requests of 150 tokens */
                                           .period_ns = 25 * WEIR_NS_PER_S,
                                           .on_exhausted = policy,
                                           .fallback_scope = WEIR_NONE};
    w->s.scope_count = 2;
    for (uint32_t i = 0; i < 2; i++)
        w->tenants[i].rate_micro_per_s = 4000000;
}

/* A ledger that answers at once, and one whose batches take 2 ms. */
static const uint64_t delays_ns[2] = {0, 2 * WEIR_NS_PER_MS};

static void budget_spent__refuse__never_past_the_grant(uint64_t delay_ns)
{
    struct world w;
    struct world_run run;
    budget_world(&w, WEIR_EXHAUSTED_REFUSE);
    w.s.ledger_delay_ns = delay_ns;
    w.tenants[0].client = world_sdk();
    world_run(&run, &w.s, 1);
    uint64_t finished = run.r->tenants[0].finished + run.r->tenants[1].finished;
    uint64_t spent = run.r->tenants[0].refusals[WEIR_REFUSAL_BUDGET_EXHAUSTED];
    /* Four windows; what is left of each is too little for a hold of 300 or so. */
    CHECK_MSG(finished <= 160 && finished >= 144, "%llu", (unsigned long long)finished);
    CHECK(spent > 200);
    CHECK_INT(run.r->scopes[1].settled_tok, finished * 150);
    CHECK_INT(run.r->scopes[0].settled_tok, finished * 150);
    CHECK_INT(run.r->scopes[1].overrun_tok, 0);
    CHECK_INT(run.r->scopes[1].reserved_tok, 0);
    /* 402 is not repeated; only those refused for the holds of others are. */
    CHECK_INT(run.r->tenants[0].tries - run.r->tenants[0].offered,
              run.r->tenants[0].refusals[WEIR_REFUSAL_BUDGET_BUSY]);
    world_free(&run);
}

static void budget_spent__fallback__goes_on_elsewhere(uint64_t delay_ns)
{
    struct world w;
    struct world_run run;
    budget_world(&w, WEIR_EXHAUSTED_FALLBACK);
    w.s.ledger_delay_ns = delay_ns;
    w.upstreams[1] = w.upstreams[0];
    w.upstreams[1].name[1] = '1';
    w.pools[1] = w.pools[0];
    w.pools[1].upstreams[0] = 1;
    w.s.upstream_count = w.s.pool_count = 2;
    w.scopes[1].fallback_pool = 1;
    world_run(&run, &w.s, 1);
    uint64_t finished = run.r->tenants[0].finished + run.r->tenants[1].finished;
    CHECK_INT(finished, run.r->tenants[0].offered + run.r->tenants[1].offered);
    CHECK_INT(run.r->upstreams[1].gateway.calls, finished - run.r->scopes[1].settled_tok / 150);
    CHECK(run.r->upstreams[1].gateway.calls > 500);
    world_free(&run);
}

static void budget_spent__queue__waits_for_the_window(uint64_t delay_ns)
{
    struct world w;
    struct world_run run;
    budget_world(&w, WEIR_EXHAUSTED_QUEUE);
    w.s.ledger_delay_ns = delay_ns;
    w.s.traffic_ns = 20 * WEIR_NS_PER_S;
    w.s.queue_wait_max_ns = 60 * WEIR_NS_PER_S;
    world_run(&run, &w.s, 1);
    uint64_t finished = run.r->tenants[0].finished + run.r->tenants[1].finished;
    uint64_t offered = run.r->tenants[0].offered + run.r->tenants[1].offered;
    CHECK(offered > 120);
    /* 60 s of patience are two or three more windows. */
    CHECK(finished >= 108 && finished <= 160);
    uint64_t after = 0;
    for (size_t i = 0; i < run.count; i++) {
        const struct weir_trace_entry *e = &run.entries[i];
        if (e->outcome == WEIR_TRACE_FINISHED && e->queue_wait_ns > WEIR_NS_PER_S)
            after += e->arrival_ns + e->queue_wait_ns >= 25 * WEIR_NS_PER_S;
    }
    CHECK(after > 60);
    world_free(&run);
}

/* Few tokens, many that want them: those who wait go on as soon as a hold is given back. */
static void budget_busy__holds_of_others__waits_for_them(uint64_t delay_ns)
{
    struct world w;
    struct world_run run;
    budget_world(&w, WEIR_EXHAUSTED_REFUSE);
    w.scopes[1].granted_tok = 1000000;
    w.scopes[1].period_ns = 0;
    w.s.scope_count = 3;
    w.scopes[2] = (struct weir_lab_scope){.name = "few", .parent = 1, .granted_tok = 200000};
    w.tenants[0].rules.scope = 2;
    w.tenants[0].output_limit_tok = 40000; /* holds for three to five at once */
    w.tenants[0].rate_micro_per_s = 3000000;
    w.s.ledger_delay_ns = delay_ns;
    world_run(&run, &w.s, 1);
    CHECK_INT(run.r->tenants[0].finished, run.r->tenants[0].offered);
    CHECK_INT(run.r->upstreams[0].in_flight_max < 12, 1);
    CHECK(run.r->tenants[0].queue_wait_ns.max < 5 * WEIR_NS_PER_S);
    CHECK(run.r->tenants[0].queue_wait_ns.max > 100 * WEIR_NS_PER_MS);
    world_free(&run);
}

static void budgets__any_delay__policies_hold(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        budget_spent__refuse__never_past_the_grant(delays_ns[i]);
        budget_spent__fallback__goes_on_elsewhere(delays_ns[i]);
        budget_spent__queue__waits_for_the_window(delays_ns[i]);
        budget_busy__holds_of_others__waits_for_them(delays_ns[i]);
    }
}

static void answer_passes_its_hold__extended_or_cut(void **state)
{
    (void)state;
    for (uint32_t variant = 0; variant < 3; variant++) {
        struct world w;
        struct world_run run;
        world_plain(&w, 1, 20);
        w.s.model.output_default_tok = 100;
        w.s.ledger_delay_ns = variant == 2 ? 5 * WEIR_NS_PER_MS : 0;
        w.tenants[0].output_limit_tok = 0;
        w.tenants[0].output = world_fixed(variant == 1 ? 400 : 4000); /* enlarged three times */
        w.tenants[0].rules.scope = 0;
        w.tenants[0].rules.overrun_cuts = true;
        w.tenants[0].rate_micro_per_s = 100000;
        w.scopes[0] = (struct weir_lab_scope){
            .name = "team", .parent = WEIR_NONE, .granted_tok = variant == 1 ? 300 : 1000000};
        w.s.scope_count = 1;
        world_run(&run, &w.s, 1);
        const struct weir_lab_tenant_results *t = &run.r->tenants[0];
        if (variant == 1) {
            CHECK_INT(t->cut, 1); /* then nothing is left of the grant */
            CHECK(t->refusals[WEIR_REFUSAL_BUDGET_EXHAUSTED] > 1);
            CHECK(t->lost_tok > 75 && t->lost_tok < 400);
        } else {
            CHECK_INT(t->finished, t->offered);
            CHECK_INT(run.r->scopes[0].overrun_tok, 0);
            CHECK_INT(run.r->scopes[0].settled_tok, 4100 * t->offered);
        }
        world_free(&run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(budgets__any_delay__policies_hold),
        cmocka_unit_test(answer_passes_its_hold__extended_or_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
