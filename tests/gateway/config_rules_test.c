/* What the loader lets pass, the core takes: its own checks of rules are invariants, so a setting at
 * the end of its range that the core refuses would end the program at its start. */
#include "support/check.h"

#include "gateway/config_rules.h"

#include <stdlib.h>

static struct weir_config *load(const char *text)
{
    struct weir_config_problems problems = {0};
    const struct weir_config_source from = {
        .file = "weir.yaml", .text = text, .text_bytes = strlen(text), .no_secrets = true};
    struct weir_config *config = weir_config_load(&from, &problems);
    CHECK_MSG(config, "%s: %s", text, problems.list[0].text);
    weir_config_problems_free(&problems);
    return config;
}

/* Sets up a flow as the gateway does. */
static void give_to_the_core(const struct weir_config *config)
{
    const struct weir_flow_limits limits = {.tenants_max = config->tenants_count + 1,
                                            .requests_max = 8,
                                            .models_max = 1,
                                            .waiters_max = 8,
                                            .waiting_bytes_max = 1 << 20};
    const struct weir_lane_rules lanes = weir_config_lane_rules(config);
    size_t bytes = weir_flow_bytes(&limits, config->pools_count, config->upstreams_count, &lanes);
    void *mem = aligned_alloc(64, (bytes + 63) / 64 * 64);
    CHECK(mem);
    struct weir_flow *flow =
        weir_flow_init(mem, bytes, &limits, config->pools_count, config->upstreams_count, &lanes);
    for (uint32_t i = 0; i < config->upstreams_count; i++) {
        const struct weir_upstream_rules rules = weir_config_upstream_rules(config, i);
        weir_flow_upstream_set(flow, i, &rules, 0);
    }
    for (uint32_t i = 0; i < config->pools_count; i++) {
        const struct weir_pool_rules rules = weir_config_pool_rules(config, i);
        weir_flow_pool_set(flow, i, &rules);
    }
    for (uint32_t i = 0; i <= config->tenants_count; i++) {
        const struct weir_tenant_rules rules = weir_config_tenant_rules(
            config, i < config->tenants_count ? &config->tenants[i] : NULL);
        weir_flow_tenant_set(flow, i, &rules, 0);
    }
    const struct weir_model_rules model = weir_config_model_rules(config, 0);
    weir_flow_model_set(flow, 0, &model);
    free(mem);
}

static void config_rules__each_end_of_a_range__is_one_the_core_takes(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "upstreams: [{name: a, url: 'http://h', max_in_flight: 1, adaptive: {min: 1}, rate: 1/d, "
        "burst: 1, tokens: 1/d, tokens_burst: 1, output_limit: 1, image_tokens: 0, file_tokens: 0, "
        "breaker: {failures: 0, failure_percent: 0, calls: 1, window: 1s, cooldown: 100ms, "
        "cooldown_max: 100ms, trials: 1}}]\n"
        "work: {input: 0, output: 1}\nlanes: [{name: x}]\nscheduler: drr-cost\n"
        "limits: {waiters_per_tenant: 1}\n"
        "tenants: [{name: t, weight: 1, limits: {requests: 1/d, burst: 1, tokens: 1/d}}]\n",
        "upstreams: [{name: a, url: 'http://h', max_in_flight: 1000000, adaptive: {min: 1000000, "
        "start: 1000000}, rate: 4T/s, burst: 4T, tokens: 4T/s, tokens_burst: 4T, "
        "output_limit: 100000000, image_tokens: 10000000, file_tokens: 100000000, "
        "breaker: {failures: 1000, failure_percent: 100, calls: 1000000, window: 60s, cooldown: "
        "1h, "
        "cooldown_max: 24h, trials: 64}}]\n"
        "work: {input: 1000, output: 1000}\nscheduler: drr-cost\n"
        "lanes: [{name: a, floor: 100}, {name: b}, {name: c}, {name: d}, {name: e}, {name: f}, "
        "{name: g}, {name: h}]\n"
        "tenants: [{name: t, weight: 1000, limits: {requests: 4T/s, burst: 4T, tokens: 4T/s, "
        "tokens_burst: 4T}}]\n"};
    for (size_t i = 0; i < WEIR_COUNT(texts); i++) {
        struct weir_config *config = load(texts[i]);
        give_to_the_core(config);
        weir_config_free(config);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(config_rules__each_end_of_a_range__is_one_the_core_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
