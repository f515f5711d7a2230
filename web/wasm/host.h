/* host: what the page has handed over before it loads a setup. */
#ifndef WEIR_WEB_HOST_H
#define WEIR_WEB_HOST_H

#include "gateway/config_tree.h"

/* What weir_tree_read answers when it is asked for that very text: the address counts, not what
 * stands there. Text and tree stay the caller's, until weir_host_drop_trees. */
void weir_host_push_tree(const char *text, const struct weir_tree *tree);
void weir_host_drop_trees(void);

#endif
