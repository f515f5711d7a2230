/* config_rules: what a configuration asks of the core, in the core's own words.
 *
 * One place, so that the gateway and `weir lab` give their cores the same rules for the same file.
 * What only a host knows (the number a scope has there, what a fallback leads to) it fills in
 * itself.
 *
 * Pure functions of a loaded configuration. Thread: any. */
#ifndef WEIR_GATEWAY_CONFIG_RULES_H
#define WEIR_GATEWAY_CONFIG_RULES_H

#include "core/flow.h"
#include "gateway/config.h"

struct weir_upstream_rules weir_config_upstream_rules(const struct weir_config *config,
                                                      uint32_t upstream);
struct weir_pool_rules weir_config_pool_rules(const struct weir_config *config, uint32_t pool);
struct weir_lane_rules weir_config_lane_rules(const struct weir_config *config);
/* Of a model that the pool serves: as its first upstream has it. */
struct weir_model_rules weir_config_model_rules(const struct weir_config *config, uint32_t pool);
/* Of a tenant, NULL: of one that the configuration does not name. scope is WEIR_NONE: the host's to
 * number; what the scope says of the tenant's requests comes with weir_config_scope_rules. */
struct weir_tenant_rules weir_config_tenant_rules(const struct weir_config *config,
                                                  const struct weir_config_tenant *tenant);
/* Sets in rules what a scope says of the requests that are charged to it. */
void weir_config_scope_rules(const struct weir_config_scope *scope,
                             struct weir_tenant_rules *rules);
enum weir_exhausted_policy weir_config_exhausted_policy(const struct weir_config_scope *scope);

#endif
