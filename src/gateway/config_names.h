/* config_names: rows of the configuration by their names: unique ones, and references to them.
 * Internal to the configuration's own files. */
#ifndef WEIR_GATEWAY_CONFIG_NAMES_H
#define WEIR_GATEWAY_CONFIG_NAMES_H

#include "gateway/config_load.h"

struct weir_named {
    const char *name; /* borrowed */
    uint32_t index;
};

struct weir_names {
    struct weir_named *list;
    uint32_t count;
};

/* The names of an array of structs that begin with their name, sorted. Rows without one are left
 * out. Free with weir_names_free. */
struct weir_names weir_names_collect(const void *rows, uint32_t count, size_t row_bytes);
void weir_names_free(struct weir_names *names);

/* The index of the first row of that name, WEIR_NONE: there is none. */
uint32_t weir_names_find(const struct weir_names *names, const char *name);

/* Reports each name that more than one row has. what: "upstream". */
void weir_names_check_unique(struct weir_loader *loader, const struct weir_names *names,
                             const void *rows, size_t row_bytes, const char *what);

/* The index that a reference means, or WEIR_NONE after saying that there is none of that name.
 * field: where the reference stands. */
uint32_t weir_names_resolve(struct weir_loader *loader, const void *field, const char *name,
                            const struct weir_names *names, const char *what);

#endif
