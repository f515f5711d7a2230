#include "gateway/config_rules.h"

static struct weir_rate rules_rate(struct weir_config_rate rate, uint64_t capacity)
{
    return (struct weir_rate){.rate_micro_per_s = weir_config_rate_micro_per_s(rate),
                              .capacity = capacity};
}

static enum weir_sched_policy rules_policy(enum weir_config_policy policy)
{
    switch (policy) {
    case WEIR_CONFIG_POLICY_FIFO:
        return WEIR_SCHED_FIFO;
    case WEIR_CONFIG_POLICY_DRR:
        return WEIR_SCHED_DRR;
    case WEIR_CONFIG_POLICY_DRR_COST:
        return WEIR_SCHED_DRR_COST;
    case WEIR_CONFIG_POLICY_VTC:
        return WEIR_SCHED_VTC;
    }
    return WEIR_SCHED_VTC;
}

static enum weir_accounting rules_accounting(enum weir_config_accounting accounting)
{
    switch (accounting) {
    case WEIR_CONFIG_ACCOUNTING_OPENAI:
        return WEIR_ACCOUNTING_OPENAI;
    case WEIR_CONFIG_ACCOUNTING_ANTHROPIC:
        return WEIR_ACCOUNTING_ANTHROPIC;
    }
    return WEIR_ACCOUNTING_OPENAI;
}

/* The window in whole seconds, rounded up. */
static struct weir_breaker_rules rules_breaker(const struct weir_config_breaker *b)
{
    return (struct weir_breaker_rules){
        .failures_in_row = b->failures,
        .failure_percent = b->failure_percent,
        .calls_min = b->calls_min,
        .window_s = (uint32_t)((b->window_ns + WEIR_NS_PER_S - 1) / WEIR_NS_PER_S),
        .trials = b->trials,
        .cooldown_ns = b->cooldown_ns,
        .cooldown_max_ns = b->cooldown_max_ns};
}

struct weir_upstream_rules weir_config_upstream_rules(const struct weir_config *config,
                                                      uint32_t upstream)
{
    const struct weir_config_upstream *u = &config->upstreams[upstream];
    return (struct weir_upstream_rules){
        .permits = u->max_in_flight,
        .adapt = {.min = u->adaptive.min, .start = u->adaptive.start},
        .requests = rules_rate(u->rate, u->burst_req),
        .tokens = rules_rate(u->tokens, u->tokens_burst_tok),
        .input = rules_rate(u->input_tokens, u->input_tokens_burst_tok),
        .output = rules_rate(u->output_tokens, u->output_tokens_burst_tok),
        .accounting = rules_accounting(u->accounting),
        .breaker = rules_breaker(&u->breaker),
        .fallback = u->fallback_index};
}

struct weir_pool_rules weir_config_pool_rules(const struct weir_config *config, uint32_t pool)
{
    const struct weir_config_pool *p = &config->pools[pool];
    struct weir_pool_rules rules = {.policy = rules_policy(p->scheduler),
                                    .upstream_count = p->upstreams_count,
                                    .work_input = p->work_input,
                                    .work_output = p->work_output};
    for (uint32_t i = 0; i < p->upstreams_count && i < WEIR_POOL_UPSTREAMS_MAX; i++)
        rules.upstreams[i] = p->upstreams[i];
    return rules;
}

struct weir_lane_rules weir_config_lane_rules(const struct weir_config *config)
{
    struct weir_lane_rules rules = {.lane_count = config->lanes_count};
    for (uint32_t i = 0; i < config->lanes_count && i < WEIR_LANES_MAX; i++)
        rules.floor_percent[i] = config->lanes[i].floor_percent;
    return rules;
}

struct weir_model_rules weir_config_model_rules(const struct weir_config *config, uint32_t pool)
{
    const struct weir_config_upstream *first = &config->upstreams[config->pools[pool].upstreams[0]];
    return (struct weir_model_rules){.output_default_tok = first->output_limit_tok,
                                     .image_tok = first->image_tok,
                                     .file_tok = first->file_tok};
}

struct weir_tenant_rules weir_config_tenant_rules(const struct weir_config *config,
                                                  const struct weir_config_tenant *tenant)
{
    struct weir_tenant_rules rules = {.weight = 1,
                                      .lane = config->lane_default,
                                      .waiters_max = config->limits.waiters_per_tenant,
                                      .scope = WEIR_NONE};
    if (!tenant)
        return rules;
    rules.weight = tenant->weight;
    rules.lane = tenant->lane_index;
    rules.requests = rules_rate(tenant->limits.requests, tenant->limits.burst_req);
    rules.tokens = rules_rate(tenant->limits.tokens, tenant->limits.tokens_burst_tok);
    rules.refuse_over = tenant->limits.over == WEIR_CONFIG_OVER_REFUSE;
    rules.paused = tenant->is_paused;
    return rules;
}

void weir_config_scope_rules(const struct weir_config_scope *scope, struct weir_tenant_rules *rules)
{
    rules->strict = scope->is_strict;
    rules->overrun_cuts = scope->on_overrun == WEIR_CONFIG_OVERRUN_CUT;
}

enum weir_exhausted_policy weir_config_exhausted_policy(const struct weir_config_scope *scope)
{
    switch (scope->on_exhausted) {
    case WEIR_CONFIG_EXHAUSTED_REFUSE:
        return WEIR_EXHAUSTED_REFUSE;
    case WEIR_CONFIG_EXHAUSTED_FALLBACK:
        return WEIR_EXHAUSTED_FALLBACK;
    case WEIR_CONFIG_EXHAUSTED_QUEUE:
        return WEIR_EXHAUSTED_QUEUE;
    }
    return WEIR_EXHAUSTED_REFUSE;
}
