/* config_print: a configuration as YAML, and single values of it.
 *
 * All are walks over the table of fields. Credentials are in no field of the table, so none can be
 * printed. What is printed as YAML loads again to the same configuration. Thread: any. Owns: the
 * caller frees what is returned. */
#ifndef WEIR_GATEWAY_CONFIG_PRINT_H
#define WEIR_GATEWAY_CONFIG_PRINT_H

#include "gateway/config.h"

/* Every setting in force, with its defaults. */
WEIR_MUST_USE char *weir_config_yaml(const struct weir_config *config);

/* What was given, by a file or by sets, and is not the default. Only of a configuration that was
 * loaded for the lab: others do not keep what was given. */
WEIR_MUST_USE char *weir_config_given_yaml(const struct weir_config *config);

/* The value in force at a path (struct weir_config_set), as it would stand in the file; a table or
 * a list in one line. "": there is none. NULL: there is no such path. */
WEIR_MUST_USE char *weir_config_get(struct weir_config *config, const char *path);

#endif
