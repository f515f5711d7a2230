/* config_print: the effective configuration and the reference of all settings, as text.
 *
 * Both are walks over the table of fields. Credentials are in no field of the table, so none can be
 * printed. What is printed as YAML loads again to the same configuration. Thread: any. */
#ifndef WEIR_GATEWAY_CONFIG_PRINT_H
#define WEIR_GATEWAY_CONFIG_PRINT_H

#include "gateway/config.h"

#include <jansson.h>

/* Every setting in force, with its defaults. The caller frees; NULL when memory is short. */
WEIR_MUST_USE char *weir_config_yaml(const struct weir_config *config);
WEIR_MUST_USE json_t *weir_config_json(const struct weir_config *config);

/* docs/configuration.md. The caller frees; NULL when memory is short. */
WEIR_MUST_USE char *weir_config_reference(void);

#endif
