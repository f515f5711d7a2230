#include "gateway/config_tree.h"

#include "gateway/config_load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

/* A tree from what libyaml makes of a text. It keeps the position of every node, and its nodes have
 * the numbers that they have in the tree, counted from 1. */

static uint32_t yaml_list_count(const yaml_node_t *node)
{
    return (uint32_t)(node->data.sequence.items.top - node->data.sequence.items.start);
}

static uint32_t yaml_pairs_count(const yaml_node_t *node)
{
    return (uint32_t)(node->data.mapping.pairs.top - node->data.mapping.pairs.start);
}

/* Room for all nodes, their links and their text, in one piece. */
static void yaml_make_room(const yaml_document_t *document, struct weir_tree *tree,
                           struct weir_tree_node **nodes, uint32_t **links, char **text)
{
    size_t links_count = 0, text_bytes = 0;
    size_t count = (size_t)(document->nodes.top - document->nodes.start);
    for (const yaml_node_t *n = document->nodes.start; n < document->nodes.top; n++) {
        links_count += n->type == YAML_SEQUENCE_NODE  ? yaml_list_count(n)
                       : n->type == YAML_MAPPING_NODE ? 2 * (size_t)yaml_pairs_count(n)
                                                      : 0;
        text_bytes += n->type == YAML_SCALAR_NODE ? n->data.scalar.length + 1 : 0;
    }
    tree->memory = weir_config_must(
        malloc(count * sizeof **nodes + links_count * sizeof **links + text_bytes + 1));
    *nodes = tree->memory;
    *links = (uint32_t *)(*nodes + count);
    *text = (char *)(*links + links_count);
    tree->nodes = *nodes;
    tree->nodes_count = (uint32_t)count;
    tree->links = *links;
    tree->text = *text;
}

static void yaml_copy(const yaml_document_t *document, struct weir_tree *tree)
{
    struct weir_tree_node *to;
    uint32_t *links, links_used = 0, text_used = 0;
    char *text;
    yaml_make_room(document, tree, &to, &links, &text);
    for (const yaml_node_t *from = document->nodes.start; from < document->nodes.top;
         from++, to++) {
        *to = (struct weir_tree_node){.line = (uint32_t)from->start_mark.line + 1,
                                      .column = (uint32_t)from->start_mark.column + 1,
                                      .first = links_used};
        if (from->type == YAML_SEQUENCE_NODE) {
            to->kind = WEIR_TREE_LIST;
            to->count = yaml_list_count(from);
            for (uint32_t i = 0; i < to->count; i++)
                links[links_used++] = (uint32_t)from->data.sequence.items.start[i] - 1;
        } else if (from->type == YAML_MAPPING_NODE) {
            to->kind = WEIR_TREE_MAPPING;
            to->count = yaml_pairs_count(from);
            for (uint32_t i = 0; i < to->count; i++) {
                links[links_used++] = (uint32_t)from->data.mapping.pairs.start[i].key - 1;
                links[links_used++] = (uint32_t)from->data.mapping.pairs.start[i].value - 1;
            }
        } else {
            size_t bytes = from->data.scalar.length;
            to->kind = WEIR_TREE_WORD;
            to->is_plain = from->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
            to->text = text_used;
            to->text_bytes = (uint32_t)bytes;
            memcpy(text + text_used, from->data.scalar.value, bytes);
            text[text_used + bytes] = '\0';
            text_used += (uint32_t)bytes + 1;
        }
    }
}

/* libyaml counts from 0; an error in the encoding has only an offset. */
static void yaml_say(const yaml_parser_t *parser, struct weir_tree *tree)
{
    if (parser->error == YAML_READER_ERROR) {
        snprintf(tree->problem, sizeof tree->problem, "byte %zu: %s", parser->problem_offset,
                 parser->problem ? parser->problem : "not UTF-8");
        return;
    }
    snprintf(tree->problem, sizeof tree->problem, "%s",
             parser->problem ? parser->problem : "unreadable");
    snprintf(tree->context, sizeof tree->context, "%s", parser->context ? parser->context : "");
    tree->problem_line = (uint32_t)parser->problem_mark.line + 1;
    tree->problem_column = (uint32_t)parser->problem_mark.column + 1;
}

/* What stands behind the first document. */
static void yaml_look_behind(yaml_parser_t *parser, struct weir_tree *tree)
{
    yaml_document_t second;
    if (!yaml_parser_load(parser, &second)) {
        yaml_say(parser, tree);
        return;
    }
    const yaml_node_t *root = yaml_document_get_root_node(&second);
    if (root) {
        tree->second_line = (uint32_t)root->start_mark.line + 1;
        tree->second_column = (uint32_t)root->start_mark.column + 1;
    }
    yaml_document_delete(&second);
}

void weir_tree_read(const char *text, size_t bytes, struct weir_tree *tree)
{
    yaml_parser_t parser;
    yaml_document_t document;
    *tree = (struct weir_tree){0};
    if (!yaml_parser_initialize(&parser))
        (void)weir_config_must(NULL);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, bytes);
    if (!yaml_parser_load(&parser, &document)) {
        yaml_say(&parser, tree);
    } else {
        if (yaml_document_get_root_node(&document)) {
            yaml_copy(&document, tree);
            yaml_look_behind(&parser, tree);
        }
        yaml_document_delete(&document);
    }
    yaml_parser_delete(&parser);
}

void weir_tree_free(struct weir_tree *tree)
{
    free(tree->memory);
    *tree = (struct weir_tree){0};
}
