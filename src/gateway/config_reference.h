/* config_reference: the effective configuration as JSON, and the reference of all settings. Thread:
 * any. */
#ifndef WEIR_GATEWAY_CONFIG_REFERENCE_H
#define WEIR_GATEWAY_CONFIG_REFERENCE_H

#include "gateway/config.h"

#include <jansson.h>

/* Every setting in force, as in YAML, but amounts without a unit are numbers. */
WEIR_MUST_USE json_t *weir_config_json(const struct weir_config *config);

/* docs/configuration.md. The caller frees; NULL when memory is short. */
WEIR_MUST_USE char *weir_config_reference(void);

#endif
