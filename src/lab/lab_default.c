/* lab_default: the scenario one starts from. Four apps and a batch job share an endpoint; an agent
 * may come to it. docs/lab.md, "The default scenario", has its arithmetic. */
#include "lab/lab_private.h"

/* What a request limit takes a request for, in tokens. */
#define DEFAULT_REQUEST_TOK 1500
#define DEFAULT_OUTPUT_LIMIT_TOK 1024
#define DEFAULT_APPS 4

struct weir_lab_controls weir_lab_controls_default(void)
{
    return (struct weir_lab_controls){.limit = WEIR_LAB_LIMIT_NONE,
                                      .limit_tok_per_s = 3000,
                                      .bucket_tok = 60000,
                                      .policy = WEIR_SCHED_VTC,
                                      .batch_micro_per_s = 2000000};
}

static struct weir_length default_uniform(uint32_t low, uint32_t high)
{
    return (struct weir_length){.kind = WEIR_LENGTH_UNIFORM, .low = low, .high = high};
}

static struct weir_tenant_rules default_rules(const struct weir_lab_controls *c)
{
    struct weir_tenant_rules rules = {
        .weight = 1, .waiters_max = 1000, .refuse_over = true, .scope = WEIR_NONE};
    switch (c->limit) {
    case WEIR_LAB_LIMIT_NONE:
        break;
    case WEIR_LAB_LIMIT_REQUESTS:
        rules.requests.rate_micro_per_s =
            weir_muldiv_floor(c->limit_tok_per_s, 1000000, DEFAULT_REQUEST_TOK);
        rules.requests.capacity = weir_max_u64(c->bucket_tok / DEFAULT_REQUEST_TOK, 1);
        break;
    case WEIR_LAB_LIMIT_TOKENS:
        rules.tokens.rate_micro_per_s = weir_muldiv_floor(c->limit_tok_per_s, 1000000, 1);
        rules.tokens.capacity = c->bucket_tok;
        break;
    }
    return rules;
}

/* What all of them have in common. */
static struct weir_lab_tenant default_tenant(const struct weir_lab_controls *c)
{
    return (struct weir_lab_tenant){.rules = default_rules(c),
                                    .arrivals = WEIR_LAB_POISSON,
                                    .output_limit_tok = DEFAULT_OUTPUT_LIMIT_TOK,
                                    .is_stream = true};
}

static struct weir_lab_tenant default_app(const struct weir_lab_controls *c, uint32_t index)
{
    struct weir_lab_tenant t = default_tenant(c);
    t.name[0] = 'a', t.name[1] = t.name[2] = 'p', t.name[3] = '-';
    t.name[4] = (char)('1' + index);
    t.rate_micro_per_s = 1500000;
    t.prompt = default_uniform(300, 1500);
    t.output = default_uniform(100, 400);
    t.goal_wait_ns = 2 * WEIR_NS_PER_S;
    if (c->has_burst) {
        t.burst_from_ns = 40 * WEIR_NS_PER_S;
        t.burst_until_ns = 70 * WEIR_NS_PER_S;
        t.burst_permille = 2500;
    }
    return t;
}

static struct weir_lab_tenant default_batch(const struct weir_lab_controls *c)
{
    struct weir_lab_tenant t = default_tenant(c);
    static const char name[] = "batch";
    __builtin_memcpy(t.name, name, sizeof name);
    t.rules.lane = c->has_lanes ? 1 : 0;
    t.rate_micro_per_s = c->batch_micro_per_s;
    t.prompt = default_uniform(2000, 4000);
    t.output = default_uniform(200, 800);
    return t;
}

static struct weir_lab_tenant default_agent(const struct weir_lab_controls *c)
{
    struct weir_lab_tenant t = default_tenant(c);
    static const char name[] = "agent";
    __builtin_memcpy(t.name, name, sizeof name);
    t.rate_micro_per_s = 2000000;
    t.prompt = default_uniform(6000, 24000);
    t.growth_turns = 60;
    t.output = default_uniform(976, 1024);
    return t;
}

static struct weir_lab_upstream default_upstream(void)
{
    struct weir_lab_upstream u = {.rules = {.permits = 4 * 48,
                                            .accounting = WEIR_ACCOUNTING_PLAIN,
                                            .breaker = weir_breaker_rules_default(),
                                            .fallback = WEIR_NONE},
                                  .backend = {.replicas = 4,
                                              .sequences = 48,
                                              .step_ns = 6 * WEIR_NS_PER_MS,
                                              .step_sequence_ns = 250 * WEIR_NS_PER_US,
                                              .prefill_permille = 100}};
    static const char name[] = "backend";
    __builtin_memcpy(u.name, name, sizeof name);
    return u;
}

void weir_lab_default(struct weir_lab_store *store, const struct weir_lab_controls *controls)
{
    const struct weir_lab_controls *c = controls;
    *store = (struct weir_lab_store){
        .upstream = default_upstream(),
        .pool = {.policy = c->policy, .upstream_count = 1, .work_input = 1, .work_output = 2}};
    for (uint32_t i = 0; i < DEFAULT_APPS; i++)
        store->tenants[i] = default_app(c, i);
    store->tenants[DEFAULT_APPS] = default_batch(c);
    store->tenants[DEFAULT_APPS + 1] = default_agent(c);
    store->scenario = (struct weir_lab_scenario){
        .traffic_ns = 120 * WEIR_NS_PER_S,
        .queue_wait_max_ns = 60 * WEIR_NS_PER_S,
        .first_byte_max_ns = 120 * WEIR_NS_PER_S,
        .first_byte_whole_max_ns = 600 * WEIR_NS_PER_S,
        .total_max_ns = 3600 * WEIR_NS_PER_S,
        .bin_ns = WEIR_NS_PER_S,
        .waiters_max = 2000, /* more than come in a minute, and little memory for a page */
        .lanes = {.lane_count = c->has_lanes ? 2 : 1, .floor_percent = {0, c->has_lanes ? 5 : 0}},
        .model = {.output_default_tok = 4096, .image_tok = 1000, .file_tok = 3000},
        .upstreams = &store->upstream,
        .upstream_count = 1,
        .pools = &store->pool,
        .pool_count = 1,
        .tenants = store->tenants,
        .tenant_count = DEFAULT_APPS + (c->has_agent ? 2 : 1)};
}
