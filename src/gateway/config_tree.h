/* config_tree: a YAML text as a tree of nodes, each with its place. The walker (config_walk.c) knows
 * only this.
 *
 * Natively libyaml makes it (config_yaml.c). In the lab page the page itself does, and hands it over
 * as it stands here: only 32-bit words and offsets, no pointers inside. An alias is the node that it
 * names, once more in a list of links: a bomb stays small, and a tree may go round in a circle, so
 * who walks it must bound the depth. Thread: any. */
#ifndef WEIR_GATEWAY_CONFIG_TREE_H
#define WEIR_GATEWAY_CONFIG_TREE_H

#include "core/base.h"

enum weir_tree_kind { WEIR_TREE_WORD, WEIR_TREE_LIST, WEIR_TREE_MAPPING };

struct weir_tree_node {
    uint32_t kind;             /* enum weir_tree_kind */
    uint32_t is_plain;         /* WORD: it stood there without quotes */
    uint32_t line, column;     /* from 1 */
    uint32_t text, text_bytes; /* WORD: where it is in the tree's text; a NUL stands behind it */
    uint32_t first, count; /* LIST: so many links to its entries; MAPPING: so many pairs of links,
                                  to a key and its value */
};

struct weir_tree {
    const struct weir_tree_node *nodes; /* the first is the root */
    uint32_t nodes_count;               /* 0: nothing stands in the text */
    const uint32_t *links;              /* indices of nodes */
    const char *text;
    uint32_t second_line, second_column; /* where a second document begins; 0: there is none */
    /* What is no YAML, "" for nothing. Line 0: of the whole. There may be nodes all the same. */
    char problem[160];
    char context[160]; /* and inside of what; "" where that is not told */
    uint32_t problem_line, problem_column;
    void *memory; /* of the above */
};

/* Takes the text apart. Owns: the caller frees with weir_tree_free. */
void weir_tree_read(const char *text, size_t bytes, struct weir_tree *tree);
void weir_tree_free(struct weir_tree *tree);

#endif
