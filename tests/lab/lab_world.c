#include "lab/lab_world.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "lab/lab_private.h"

struct weir_length world_fixed(uint32_t tok)
{
    return (struct weir_length){.kind = WEIR_LENGTH_FIXED, .mean = tok};
}

struct weir_length world_uniform(uint32_t low, uint32_t high)
{
    return (struct weir_length){.kind = WEIR_LENGTH_UNIFORM, .low = low, .high = high};
}

struct weir_lab_client world_sdk(void)
{
    return (struct weir_lab_client){
        .retries_max = 2, .obeys_hint = true, .backoff_ns = 500 * WEIR_NS_PER_MS};
}

void world_plain(struct world *w, uint32_t tenants, uint32_t permits)
{
    CHECK(tenants <= WORLD_MAX);
    *w = (struct world){0};
    w->upstreams[0] = (struct weir_lab_upstream){
        .name = "u0",
        .rules = {.permits = permits,
                  .breaker = weir_breaker_rules_default(),
                  .fallback = WEIR_NONE},
        .backend = {.replicas = 1, .sequences = permits, .step_ns = 10 * WEIR_NS_PER_MS}};
    w->pools[0] = (struct weir_pool_rules){
        .policy = WEIR_SCHED_VTC, .upstream_count = 1, .work_input = 1, .work_output = 2};
    for (uint32_t i = 0; i < tenants; i++)
        w->tenants[i] = (struct weir_lab_tenant){
            .name = {'t', (char)('0' + i)},
            .rules = {.weight = 1, .waiters_max = 5000, .scope = WEIR_NONE},
            .rate_micro_per_s = 1000000,
            .prompt = world_fixed(100),
            .output = world_fixed(50),
            .output_limit_tok = 200,
            .is_stream = true};
    w->s = (struct weir_lab_scenario){.traffic_ns = 100 * WEIR_NS_PER_S,
                                      .queue_wait_max_ns = 3600 * WEIR_NS_PER_S,
                                      .total_max_ns = 7200 * WEIR_NS_PER_S,
                                      .bin_ns = WEIR_NS_PER_S,
                                      .waiters_max = 5000,
                                      .lanes = {.lane_count = 1},
                                      .model = {.output_default_tok = 1000},
                                      .upstreams = w->upstreams,
                                      .upstream_count = 1,
                                      .pools = w->pools,
                                      .pool_count = 1,
                                      .tenants = w->tenants,
                                      .tenant_count = tenants,
                                      .scopes = w->scopes};
}

static void world_ended(void *user, const struct weir_trace_entry *entry)
{
    struct world_run *run = user;
    if (run->count == run->room) {
        run->room = run->room ? run->room * 2 : 256;
        run->entries = realloc(run->entries, run->room * sizeof *run->entries);
        CHECK(run->entries != NULL);
    }
    run->entries[run->count++] = *entry;
}

void world_open(struct world_run *run, const struct weir_lab_scenario *s, uint64_t seed)
{
    struct weir_lab_problem problem;
    *run = (struct world_run){0};
    CHECK_MSG(weir_lab_check(s, &problem), "%s %u: %s %s", problem.field, problem.index,
              problem.text, "");
    size_t bytes = (weir_lab_bytes(s) + 63) & ~(size_t)63;
    /* Pages that are not used cost nothing, so a thousand runs of large limits are cheap. */
    run->bytes = bytes;
    run->mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(run->mem != MAP_FAILED);
    run->lab = weir_lab_init(run->mem, bytes, s, seed);
    weir_lab_on_ended(run->lab, world_ended, run);
}

void world_run(struct world_run *run, const struct weir_lab_scenario *s, uint64_t seed)
{
    world_open(run, s, seed);
    (void)weir_lab_run(run->lab, WEIR_NEVER_NS);
    run->r = weir_lab_results(run->lab);
    const char *wrong = world_wrong_sums(run->lab, run->r);
    CHECK_MSG(!wrong, "%s", wrong);
    wrong = s->run_ns == 0 ? world_wrong_over(run->lab, run->r) : NULL;
    CHECK_MSG(!wrong, "%s", wrong);
    uint64_t ended = 0;
    for (uint32_t i = 0; i < s->tenant_count; i++)
        ended += run->r->tenants[i].offered - run->r->tenants[i].alive;
    CHECK_INT(run->count, ended);
}

void world_free(struct world_run *run)
{
    free(run->entries);
    munmap(run->mem, run->bytes);
    *run = (struct world_run){0};
}

/* What of a tenant is counted over all bins. */
static struct weir_lab_tenant_bin bins_sum(const struct weir_lab_results *r, uint32_t tenant)
{
    struct weir_lab_tenant_bin sum = {0};
    for (uint32_t i = 0; i < r->bin_count; i++) {
        const struct weir_lab_tenant_bin *bin = &r->tenants[tenant].bins[i];
        sum.offered += bin->offered;
        sum.tries += bin->tries;
        sum.finished += bin->finished;
        sum.good += bin->good;
        sum.refused += bin->refused;
        sum.failed += bin->failed;
        sum.prompt_tok += bin->prompt_tok;
        sum.output_tok += bin->output_tok;
        sum.waiting_ns += bin->waiting_ns;
    }
    return sum;
}

#define HOLDS(c)                                                                                   \
    do {                                                                                           \
        if (!(c))                                                                                  \
            return #c;                                                                             \
    } while (0)

static const char *wrong_bins(const struct weir_lab_results *r, uint32_t tenant)
{
    const struct weir_lab_tenant_results *t = &r->tenants[tenant];
    struct weir_lab_tenant_bin sum = bins_sum(r, tenant);
    HOLDS(sum.offered == t->offered);
    HOLDS(sum.tries == t->tries);
    HOLDS(sum.finished == t->finished);
    HOLDS(sum.good == t->good);
    HOLDS(sum.refused == t->refused);
    HOLDS(sum.failed == t->failed + t->cut + t->gave_up);
    HOLDS(sum.prompt_tok == t->prompt_tok);
    HOLDS(sum.output_tok == t->output_tok);
    HOLDS(sum.waiting_ns == t->waiting_ns);
    return NULL;
}

static const char *wrong_upstream(const struct weir_lab *lab, const struct weir_lab_results *r,
                                  uint32_t upstream)
{
    const struct weir_lab_upstream_results *u = &r->upstreams[upstream];
    uint64_t in_flight_ns = 0, tokens_made = 0, calls = 0;
    for (uint32_t i = 0; i < r->bin_count; i++) {
        in_flight_ns += u->bins[i].in_flight_ns;
        tokens_made += u->bins[i].tokens_made;
        calls += u->bins[i].calls;
        HOLDS(u->bins[i].in_flight_ns <= u->bins[i].permits_ns ||
              lab->s->upstreams[upstream].rules.adapt.min > 0);
    }
    HOLDS(tokens_made == u->backend.tokens_made);
    HOLDS(calls == u->gateway.calls);
    HOLDS(in_flight_ns <= r->now_ns * u->in_flight_max);
    HOLDS(u->in_flight_max <= lab->s->upstreams[upstream].rules.permits);
    return NULL;
}

const char *world_wrong_sums(const struct weir_lab *lab, const struct weir_lab_results *r)
{
    uint64_t alive = 0;
    const char *wrong = NULL;
    for (uint32_t i = 0; i < lab->s->tenant_count && !wrong; i++) {
        const struct weir_lab_tenant_results *t = &r->tenants[i];
        HOLDS(t->offered == t->finished + t->refused + t->failed + t->cut + t->gave_up + t->alive);
        HOLDS(t->good <= t->finished);
        HOLDS(t->tries >= t->offered);
        HOLDS(t->latency_ns.count == t->finished);
        HOLDS(t->first_token_ns.count >= t->finished);
        uint64_t refused = 0;
        for (uint32_t k = 0; k < WEIR_REFUSAL_COUNT; k++)
            refused += t->refusals[k];
        HOLDS(refused <= t->tries && refused >= t->refused);
        wrong = wrong_bins(r, i);
        alive += t->alive;
    }
    for (uint32_t i = 0; i < lab->s->upstream_count && !wrong; i++)
        wrong = wrong_upstream(lab, r, i);
    HOLDS(r->flow.requests_now <= alive);
    for (uint32_t pool = 0; pool < lab->s->pool_count; pool++)
        for (uint32_t lane = 0; lane < lab->s->lanes.lane_count; lane++)
            for (uint32_t i = 0; i < WEIR_GAP_WINDOWS; i++)
                HOLDS(r->gaps[pool][lane].now.windows[i].broken == 0);
    return wrong;
}

/* What was charged is what the ledger has, over all its scopes without a parent. */
static const char *wrong_ledger(const struct weir_lab *lab, const struct weir_lab_results *r)
{
    const struct weir_lab_scenario *s = lab->s;
    uint64_t charged_tok = 0, settled_tok = 0;
    for (uint32_t i = 0; i < s->tenant_count; i++)
        charged_tok += r->tenants[i].charged_tok;
    for (uint32_t i = 0; i < s->scope_count + s->tenant_count + 1; i++) {
        struct weir_ledger_totals totals;
        HOLDS(weir_ledger_totals(lab->ledger, i, &totals));
        HOLDS(totals.reserved_tok == 0);
        HOLDS(weir_ledger_used_tok(&totals) <= totals.granted_tok + totals.overrun_tok);
        if (i >= s->scope_count)
            settled_tok += (uint64_t)totals.committed_tok;
        else if (s->scopes[i].parent == WEIR_NONE)
            settled_tok += r->scopes[i].settled_tok;
        if (i < s->scope_count && s->scopes[i].period_ns == 0)
            HOLDS(r->scopes[i].settled_tok == (uint64_t)totals.committed_tok);
    }
    HOLDS(settled_tok == charged_tok);
    return NULL;
}

const char *world_wrong_over(const struct weir_lab *lab, const struct weir_lab_results *r)
{
    uint64_t output_tok = 0;
    HOLDS(r->flow.requests_now == 0);
    HOLDS(r->flow.waiters_now == 0);
    HOLDS(r->flow.in_flight_now == 0);
    HOLDS(r->flow.holds_now == 0);
    for (uint32_t i = 0; i < lab->s->tenant_count; i++) {
        HOLDS(r->tenants[i].alive == 0);
        output_tok += r->tenants[i].output_tok + r->tenants[i].lost_tok;
    }
    for (uint32_t i = 0; i < lab->s->upstream_count; i++) {
        HOLDS(r->upstreams[i].gateway.permits_now == 0);
        HOLDS(r->upstreams[i].backend.running == 0);
        HOLDS(r->upstreams[i].backend.waiting == 0);
        HOLDS(r->upstreams[i].backend.travelling == 0);
    }
    /* Each token that a backend made is somebody's. */
    HOLDS(r->tokens_made == output_tok);
    return wrong_ledger(lab, r);
}
