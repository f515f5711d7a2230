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
    world_check_sums(run);
    if (s->run_ns == 0)
        world_check_over(run);
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

static void check_bins(const struct weir_lab_results *r, uint32_t tenant)
{
    const struct weir_lab_tenant_results *t = &r->tenants[tenant];
    struct weir_lab_tenant_bin sum = bins_sum(r, tenant);
    CHECK_INT(sum.offered, t->offered);
    CHECK_INT(sum.tries, t->tries);
    CHECK_INT(sum.finished, t->finished);
    CHECK_INT(sum.good, t->good);
    CHECK_INT(sum.refused, t->refused);
    CHECK_INT(sum.failed, t->failed + t->cut + t->gave_up);
    CHECK_INT(sum.prompt_tok, t->prompt_tok);
    CHECK_INT(sum.output_tok, t->output_tok);
    CHECK_INT(sum.waiting_ns, t->waiting_ns);
}

void world_check_sums(const struct world_run *run)
{
    const struct weir_lab_results *r = run->r;
    uint64_t ended = 0, alive = 0;
    for (uint32_t i = 0; i < run->lab->s->tenant_count; i++) {
        const struct weir_lab_tenant_results *t = &r->tenants[i];
        CHECK_INT(t->offered,
                  t->finished + t->refused + t->failed + t->cut + t->gave_up + t->alive);
        CHECK(t->good <= t->finished);
        CHECK(t->tries >= t->offered);
        CHECK_INT(t->latency_ns.count, t->finished);
        check_bins(r, i);
        ended += t->offered - t->alive;
        alive += t->alive;
    }
    CHECK_INT(ended, run->count);
    CHECK(r->flow.requests_now <= alive);
}

void world_check_over(const struct world_run *run)
{
    const struct weir_lab_scenario *s = run->lab->s;
    const struct weir_lab_results *r = run->r;
    uint64_t output_tok = 0, charged_tok = 0, settled_tok = 0;
    CHECK_INT(r->flow.requests_now, 0);
    CHECK_INT(r->flow.waiters_now, 0);
    CHECK_INT(r->flow.in_flight_now, 0);
    CHECK_INT(r->flow.holds_now, 0);
    for (uint32_t i = 0; i < s->tenant_count; i++) {
        const struct weir_lab_tenant_results *t = &r->tenants[i];
        CHECK_INT(t->alive, 0);
        output_tok += t->output_tok + t->lost_tok;
        charged_tok += t->charged_tok;
    }
    for (uint32_t i = 0; i < s->upstream_count; i++) {
        CHECK_INT(r->upstreams[i].gateway.permits_now, 0);
        CHECK_INT(r->upstreams[i].backend.running, 0);
        CHECK_INT(r->upstreams[i].backend.waiting, 0);
        CHECK_INT(r->upstreams[i].backend.travelling, 0);
    }
    /* Each token that a backend made is somebody's. */
    CHECK_INT(r->tokens_made, output_tok);
    /* What was charged is what the ledger has, over all its scopes without a parent. */
    for (uint32_t i = 0; i < s->scope_count + s->tenant_count + 1; i++) {
        struct weir_ledger_totals totals;
        CHECK(weir_ledger_totals(run->lab->ledger, i, &totals));
        CHECK_INT(totals.reserved_tok, 0);
        bool is_root = i >= s->scope_count || s->scopes[i].parent == WEIR_NONE;
        if (is_root && i < s->scope_count)
            settled_tok += r->scopes[i].settled_tok;
        else if (is_root)
            settled_tok += (uint64_t)totals.committed_tok;
    }
    CHECK_INT(settled_tok, charged_tok);
}
