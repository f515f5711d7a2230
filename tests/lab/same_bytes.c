/* same_bytes: runs of the model, told in full. tests/lab/same_bytes.sh builds this with each
 * compiler at each level of optimisation and compares what they say.
 *
 *   same_bytes         one line a run: its name, its seed, the events, the hash over all of them, the
 *                      hash over the results: what tests/data/lab/same_bytes.txt keeps
 *   same_bytes --all   every number of the results, to see where two builds part
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/lab.h"

static bool says_all;
static uint64_t results_hash;

/* A number of the results, under a name. */
static void tell(const char *name, uint64_t number)
{
    if (says_all)
        printf("  %s %" PRIu64 "\n", name, number);
    for (const char *c = name; *c; c++)
        results_hash = (results_hash ^ (unsigned char)*c) * UINT64_C(0x100000001B3);
    for (int i = 0; i < 8; i++)
        results_hash = (results_hash ^ (number >> 8 * i & 255)) * UINT64_C(0x100000001B3);
}

static void tell_hist(const char *name, const struct weir_hist *h)
{
    tell(name, h->count);
    tell("sum", h->sum);
    tell("max", h->max);
    for (uint32_t i = 0; i < WEIR_HIST_BUCKETS; i++)
        if (h->counts[i]) {
            tell("bucket", i);
            tell("times", h->counts[i]);
        }
}

static void tell_tenant(const struct weir_lab_tenant_results *t, uint32_t bins)
{
    tell("offered", t->offered);
    tell("finished", t->finished);
    tell("refused", t->refused);
    tell("failed", t->failed);
    tell("cut", t->cut);
    tell("gave_up", t->gave_up);
    tell("alive", t->alive);
    tell("good", t->good);
    tell("tries", t->tries);
    for (uint32_t i = 0; i < WEIR_REFUSAL_COUNT; i++)
        tell("refusals", t->refusals[i]);
    tell("prompt_tok", t->prompt_tok);
    tell("output_tok", t->output_tok);
    tell("lost_tok", t->lost_tok);
    tell("charged_tok", t->charged_tok);
    tell("estimate_tok", t->estimate_tok);
    tell("waiting_ns", t->waiting_ns);
    tell_hist("queue_wait_ns", &t->queue_wait_ns);
    tell_hist("first_token_ns", &t->first_token_ns);
    tell_hist("latency_ns", &t->latency_ns);
    for (uint32_t i = 0; i < bins; i++) {
        const struct weir_lab_tenant_bin *bin = &t->bins[i];
        tell("bin", i);
        tell("offered", bin->offered);
        tell("tries", bin->tries);
        tell("finished", bin->finished);
        tell("good", bin->good);
        tell("refused", bin->refused);
        tell("failed", bin->failed);
        tell("prompt_tok", bin->prompt_tok);
        tell("output_tok", bin->output_tok);
        tell("waiting_ns", bin->waiting_ns);
        tell("in_flight_ns", bin->in_flight_ns);
        tell("wait_max_ns", bin->wait_max_ns);
    }
}

static void tell_upstream(const struct weir_lab_upstream_results *u, uint32_t bins)
{
    tell("permits", u->gateway.permits);
    tell("permits_now", u->gateway.permits_now);
    tell("breaker", (uint64_t)u->gateway.breaker);
    tell("calls", u->gateway.calls);
    tell("failures", u->gateway.failures);
    tell("tokens_made", u->backend.tokens_made);
    tell("steps", u->backend.steps);
    tell("busy_ns", u->backend.busy_ns);
    tell("in_flight_max", u->in_flight_max);
    for (uint32_t i = 0; i < bins; i++) {
        tell("bin", i);
        tell("in_flight_ns", u->bins[i].in_flight_ns);
        tell("permits_ns", u->bins[i].permits_ns);
        tell("open_ns", u->bins[i].open_ns);
        tell("tokens_made", u->bins[i].tokens_made);
        tell("calls", u->bins[i].calls);
        tell("failures", u->bins[i].failures);
    }
}

static void tell_gap(const struct weir_lab_gap_results *g, uint32_t bins)
{
    for (uint32_t i = 0; i < WEIR_GAP_WINDOWS; i++) {
        tell("window", i);
        tell("gap_uwork", g->worst[i].gap_uwork);
        tell("bound_uwork", g->worst[i].bound_uwork);
        tell("ahead", g->worst[i].ahead);
        tell("behind", g->worst[i].behind);
        tell("jain_ppm", g->worst[i].jain_ppm);
        tell("at_ns", g->worst_ns[i]);
        tell("broken", g->now.windows[i].broken);
    }
    for (uint32_t i = 0; i < bins; i++) {
        tell("gap_uwork", g->bins[i].gap_uwork);
        tell("bound_uwork", g->bins[i].bound_uwork);
    }
}

static void tell_ended(void *user, const struct weir_trace_entry *e)
{
    (void)user;
    tell("arrival_ns", e->arrival_ns);
    tell("tenant", e->tenant);
    tell("output_tok", e->output_tok);
    tell("estimate_tok", e->estimate_tok);
    tell("queue_wait_ns", e->queue_wait_ns);
    tell("first_byte_ns", e->first_byte_ns);
    tell("latency_ns", e->latency_ns);
    tell("status", e->status);
    tell("outcome", (uint64_t)e->outcome);
    tell("refusal", (uint64_t)e->refusal);
}

static void run(const char *name, const struct weir_lab_scenario *s, uint64_t seed)
{
    size_t bytes = weir_lab_bytes(s);
    void *mem = aligned_alloc(64, bytes);
    if (!mem)
        exit(1);
    memset(mem, 0, bytes);
    results_hash = UINT64_C(0xCBF29CE484222325);
    if (says_all)
        printf("%s, seed %" PRIu64 "\n", name, seed);
    struct weir_lab *lab = weir_lab_init(mem, bytes, s, seed);
    weir_lab_on_ended(lab, tell_ended, NULL);
    while (weir_lab_run(lab, weir_lab_results(lab)->now_ns + 7 * WEIR_NS_PER_S))
        ;
    const struct weir_lab_results *results = weir_lab_results(lab);
    tell("now_ns", results->now_ns);
    tell("traffic_hash", results->traffic_hash);
    tell("tokens_made", results->tokens_made);
    for (uint32_t i = 0; i < s->tenant_count; i++)
        tell_tenant(&results->tenants[i], results->bin_count);
    for (uint32_t i = 0; i < s->upstream_count; i++)
        tell_upstream(&results->upstreams[i], results->bin_count);
    for (uint32_t i = 0; i < s->lanes.lane_count; i++)
        tell_gap(&results->gaps[0][i], results->bin_count);
    for (uint32_t i = 0; i < s->scope_count; i++) {
        tell("reserved_tok", (uint64_t)results->scopes[i].reserved_tok);
        tell("committed_tok", (uint64_t)results->scopes[i].committed_tok);
        tell("refused", results->scopes[i].refused);
        tell("settled_tok", results->scopes[i].settled_tok);
    }
    printf("%s | %" PRIu64 " | %" PRIu64 " | %016" PRIx64 " | %016" PRIx64 "\n", name, seed,
           results->events, results->hash, results_hash);
    free(mem);
}

static void run_default(const char *name, const struct weir_lab_controls *controls, uint64_t seed)
{
    static struct weir_lab_store store;
    weir_lab_default(&store, controls);
    run(name, &store.scenario, seed);
}

static void run_defaults(uint64_t seed)
{
    struct weir_lab_controls c = weir_lab_controls_default();
    run_default("as it stands", &c, seed);
    c.has_agent = c.has_burst = true;
    c.batch_micro_per_s = 4000000;
    run_default("crowded", &c, seed);
    c.policy = WEIR_SCHED_DRR_COST;
    c.has_lanes = true;
    run_default("crowded, drr-cost, lanes", &c, seed);
    c.policy = WEIR_SCHED_DRR;
    c.limit = WEIR_LAB_LIMIT_TOKENS;
    run_default("crowded, drr, token limits", &c, seed);
    c.policy = WEIR_SCHED_FIFO;
    c.limit = WEIR_LAB_LIMIT_REQUESTS;
    run_default("crowded, fifo, request limits", &c, seed);

    static struct weir_lab_store store;
    c.policy = WEIR_SCHED_VTC;
    c.limit = WEIR_LAB_LIMIT_NONE;
    weir_lab_default(&store, &c);
    store.upstream.rules.permits = 400;
    store.upstream.rules.adapt = (struct weir_adapt_rules){.min = 8, .start = 32};
    run("crowded, adaptive", &store.scenario, seed);
}

/* Everything that the default scenario leaves out. */
static void run_odd(uint64_t seed)
{
    static const struct weir_backend_trouble troubles[] = {
        {.replica = 0,
         .kind = WEIR_TROUBLE_FAIL,
         .from_ns = 10 * WEIR_NS_PER_S,
         .until_ns = 20 * WEIR_NS_PER_S},
        {.replica = WEIR_NONE,
         .kind = WEIR_TROUBLE_FAIL,
         .from_ns = 25 * WEIR_NS_PER_S,
         .until_ns = 27 * WEIR_NS_PER_S},
        {.replica = 1,
         .kind = WEIR_TROUBLE_SLOW,
         .from_ns = 30 * WEIR_NS_PER_S,
         .until_ns = 40 * WEIR_NS_PER_S,
         .slow_permille = 2345},
    };
    static const struct weir_lab_scope scopes[] = {
        {.name = "school", .parent = WEIR_NONE, .granted_tok = 3000000},
        {.name = "class", .parent = 0, .granted_tok = 60000, .period_ns = 15 * WEIR_NS_PER_S},
    };
    static struct weir_trace_entry trace[200];
    static const uint32_t trace_tenants[] = {WEIR_NONE, 3};
    for (uint32_t i = 0; i < WEIR_COUNT(trace); i++)
        trace[i] = (struct weir_trace_entry){.arrival_ns = i * UINT64_C(271828182),
                                             .tenant = i % 3 > 0,
                                             .prompt_tok = 31 * i % 900,
                                             .cached_tok = 7 * i % 100,
                                             .output_tok = 17 * i % 500};
    static struct weir_lab_store store;
    struct weir_lab_controls c = weir_lab_controls_default();
    weir_lab_default(&store, &c);
    struct weir_lab_scenario *s = &store.scenario;
    s->traffic_ns = 60 * WEIR_NS_PER_S;
    s->ledger_delay_ns = 2 * WEIR_NS_PER_MS;
    s->queue_wait_max_ns = 5 * WEIR_NS_PER_S;
    s->bin_ns = 50 * WEIR_NS_PER_MS; /* so that bins are folded */
    s->scopes = scopes;
    s->scope_count = WEIR_COUNT(scopes);
    s->trace = trace;
    s->trace_count = WEIR_COUNT(trace);
    s->trace_tenants = trace_tenants;
    s->trace_tenant_count = WEIR_COUNT(trace_tenants);
    struct weir_backend_rules *backend = &store.upstream.backend;
    backend->replicas = 2;
    backend->sequences = 12;
    backend->kv_tok = 20000;
    backend->latency_ns = 12345678;
    backend->troubles = troubles;
    backend->trouble_count = WEIR_COUNT(troubles);
    store.upstream.rules.permits = 30;
    for (uint32_t i = 0; i < 3; i++)
        store.tenants[i].client = (struct weir_lab_client){.retries_max = 2,
                                                           .obeys_hint = i != 1,
                                                           .backoff_ns = WEIR_NS_PER_S / 2,
                                                           .gives_up_ns = 4 * WEIR_NS_PER_S};
    store.tenants[0].arrivals = WEIR_LAB_CLOSED;
    store.tenants[0].users = 10;
    store.tenants[0].think_ns = 2 * WEIR_NS_PER_S;
    store.tenants[0].output = (struct weir_length){
        .kind = WEIR_LENGTH_LOGNORMAL, .mean = 200, .sigma_permille = 900, .high = 2000};
    store.tenants[1].arrivals = WEIR_LAB_EVEN;
    store.tenants[1].on_ns = 700 * WEIR_NS_PER_MS;
    store.tenants[1].off_ns = 1300 * WEIR_NS_PER_MS;
    store.tenants[1].rate_micro_per_s = 9000000;
    store.tenants[1].output = (struct weir_length){.kind = WEIR_LENGTH_EXPONENTIAL, .mean = 250};
    store.tenants[2].rules.scope = 1;
    store.tenants[3].rules.weight = 7;
    store.tenants[3].is_stream = false;
    store.tenants[3].arrivals = WEIR_LAB_TRACE;
    run("odd", s, seed);
}

int main(int argc, char **argv)
{
    says_all = argc == 2 && strcmp(argv[1], "--all") == 0;
    if (argc > 1 && !says_all) {
        fprintf(stderr, "usage: %s [--all]\n", argv[0]);
        return 2;
    }
    for (uint64_t seed = 1; seed <= 3; seed++) {
        run_defaults(seed);
        run_odd(seed);
    }
    return 0;
}
