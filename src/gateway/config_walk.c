#include "gateway/config_load.h"

#include "gateway/config_tree.h"
#include "gateway/config_value.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Walks a YAML tree beside the table of fields. Every node has its position, so each problem names
 * its own line. Aliases share nodes and the table bounds the depth: a bomb stays small. */

struct walker {
    struct weir_loader *loader;
    const struct weir_tree *tree;
    const char *file;
    const struct weir_place *flag; /* of a value that is no file's; else NULL */
};

static struct weir_place node_place(const struct walker *walker, const struct weir_tree_node *node)
{
    if (walker->flag)
        return *walker->flag;
    return (struct weir_place){walker->file, node->line, node->column};
}

/* The node that a link of `node` leads to. */
static const struct weir_tree_node *get_link(const struct walker *walker,
                                             const struct weir_tree_node *node, size_t index)
{
    return &walker->tree->nodes[walker->tree->links[node->first + index]];
}

/* The word of a scalar, or NULL after a problem was reported. */
static const char *get_word(const struct walker *walker, const struct weir_tree_node *node,
                            const char *label, const char *accepts)
{
    if (node->kind != WEIR_TREE_WORD) {
        weir_loader_error(walker->loader, node_place(walker, node), "%s must be %s, not a %s",
                          label, accepts, node->kind == WEIR_TREE_MAPPING ? "mapping" : "list");
        return NULL;
    }
    const char *word = walker->tree->text + node->text;
    if (strlen(word) != node->text_bytes) {
        weir_loader_error(walker->loader, node_place(walker, node), "%s has a NUL byte in it",
                          label);
        return NULL;
    }
    if (*word == '\0' ||
        (node->is_plain && (strcmp(word, "~") == 0 || strcmp(word, "null") == 0))) {
        weir_loader_error(walker->loader, node_place(walker, node),
                          "%s has no value; give %s, or leave the key out", label, accepts);
        return NULL;
    }
    return word;
}

static void walk_mapping(struct walker *walker, const struct weir_field_table *table,
                         const struct weir_tree_node *node, void *row);

static bool is_model(const char *text)
{
    size_t bytes = strlen(text);
    const char *asterisk = strchr(text, '*');
    if (bytes == 0 || bytes > 200 || (asterisk && asterisk[1]))
        return false;
    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)text[i] <= ' ' || text[i] == 0x7f)
            return false;
    return true;
}

static bool is_short(const char *text)
{
    size_t bytes = strlen(text);
    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
            return false;
    return bytes > 0 && bytes <= 200;
}

static bool read_digest(const char *text, uint8_t digest[32])
{
    if (strlen(text) != 64)
        return false;
    for (size_t i = 0; i < 64; i++) {
        char c = (char)tolower((unsigned char)text[i]);
        if (!isxdigit((unsigned char)c))
            return false;
        uint8_t nibble = (uint8_t)(c <= '9' ? c - '0' : c - 'a' + 10);
        digest[i / 2] = (uint8_t)(i % 2 ? digest[i / 2] | nibble : nibble << 4);
    }
    return true;
}

/* A list of words, or a single word for a list of one. */
static void walk_words(struct walker *walker, const struct weir_field *field,
                       const struct weir_tree_node *node, void *row)
{
    struct weir_loader *loader = walker->loader;
    bool is_list = node->kind == WEIR_TREE_LIST;
    size_t count = is_list ? node->count : 1;
    char accepts[128];
    weir_field_accepts(field, accepts, sizeof accepts);
    if (count == 0 || count > 10000) {
        weir_loader_error(loader, node_place(walker, node),
                          count ? "%s has more than 10000 entries"
                                : "%s is empty; leave the key out",
                          field->key);
        return;
    }
    bool is_digests = field->kind == WEIR_FIELD_DIGESTS;
    const char **texts =
        is_digests ? NULL : weir_config_alloc(loader->config, count, sizeof *texts);
    uint8_t(*digests)[32] = is_digests ? weir_config_alloc(loader->config, count, 32) : NULL;
    for (size_t i = 0; i < count; i++) {
        const struct weir_tree_node *item = is_list ? get_link(walker, node, i) : node;
        const char *word = get_word(walker, item, field->key, accepts);
        if (!word)
            return;
        if (!is_digests && (field->kind == WEIR_FIELD_MODELS ? is_model(word) : is_short(word))) {
            texts[i] = weir_config_text(loader->config, word, strlen(word));
        } else if (!is_digests || !read_digest(word, digests[i])) {
            /* What is no digest may be a key: it is not repeated. */
            weir_loader_error(loader, node_place(walker, item), "%s must be %s%s%s%s", field->key,
                              accepts, is_digests ? "" : ", not '", is_digests ? "" : word,
                              is_digests ? "; `weir key new NAME` makes and keeps keys" : "'");
            return;
        }
    }
    uint32_t narrow = (uint32_t)count;
    void *list = is_digests ? (void *)digests : (void *)texts;
    memcpy((char *)row + field->offset, &list, sizeof list);
    memcpy((char *)row + field->count_offset, &narrow, sizeof narrow);
    weir_loader_mark(loader, (char *)row + field->offset, node_place(walker, node));
}

static void walk_rows(struct walker *walker, const struct weir_field *field,
                      const struct weir_tree_node *node, void *row)
{
    struct weir_loader *loader = walker->loader;
    bool is_one = field->one_is_a_list && node->kind == WEIR_TREE_MAPPING;
    if (node->kind != WEIR_TREE_LIST && !is_one) {
        weir_loader_error(loader, node_place(walker, node), "%s must be a list (\"- name: ...\")",
                          field->key);
        return;
    }
    size_t count = is_one ? 1 : node->count;
    /* --set backend.troubles=[]: the file's are taken away. */
    bool is_none = count == 0 && walker->flag && !field->is_required;
    if ((count == 0 && !is_none) || count > field->table->rows_max) {
        weir_loader_error(loader, node_place(walker, node),
                          "%s must have between 1 and %u entries, not %zu", field->key,
                          field->table->rows_max, count);
        return;
    }
    char *rows = is_none ? NULL : weir_config_alloc(loader->config, count, field->table->row_bytes);
    uint32_t narrow = (uint32_t)count;
    memcpy((char *)row + field->offset, &rows, sizeof rows);
    memcpy((char *)row + field->count_offset, &narrow, sizeof narrow);
    weir_loader_mark(loader, (char *)row + field->offset, node_place(walker, node));
    for (size_t i = 0; i < count; i++) {
        char *each = rows + i * field->table->row_bytes;
        weir_loader_presets(loader, field->table, each);
        walk_mapping(walker, field->table, is_one ? node : get_link(walker, node, i), each);
    }
}

/* A field of one word; key names it in messages. */
static void walk_word(struct walker *walker, const struct weir_field *field, const char *key,
                      const struct weir_tree_node *node, void *row)
{
    char accepts[256];
    weir_field_accepts(field, accepts, sizeof accepts);
    const char *word = get_word(walker, node, key, accepts);
    if (word)
        (void)weir_loader_set(walker->loader, field, row, key, word, node_place(walker, node));
}

static void walk_field(struct walker *walker, const struct weir_field_table *table,
                       const struct weir_field *field, const struct weir_tree_node *key,
                       const struct weir_tree_node *node, void *row)
{
    struct weir_loader *loader = walker->loader;
    if (field->is_lab && !loader->for_lab)
        weir_loader_warn(loader, node_place(walker, key),
                         "'%s' belongs to `weir lab`; the gateway does not use it", field->key);
    switch (field->kind) {
    case WEIR_FIELD_TABLE:
        if (field->word && node->kind != WEIR_TREE_MAPPING)
            walk_word(walker, field->word, field->key, node, (char *)row + field->offset);
        else
            walk_mapping(walker, field->table, node, (char *)row + field->offset);
        return;
    case WEIR_FIELD_ROWS:
        walk_rows(walker, field, node, row);
        return;
    case WEIR_FIELD_MODELS:
    case WEIR_FIELD_TEXTS:
    case WEIR_FIELD_DIGESTS:
        walk_words(walker, field, node, row);
        return;
    case WEIR_FIELD_LATER:
        weir_loader_error(loader, node_place(walker, key), "'%s'%s%s is not supported yet: %s",
                          field->key, *table->name ? " in " : "", table->name, field->help);
        return;
    case WEIR_FIELD_TEXT:
    case WEIR_FIELD_NAME:
    case WEIR_FIELD_U32:
    case WEIR_FIELD_COUNT:
    case WEIR_FIELD_BOOL:
    case WEIR_FIELD_TIME:
    case WEIR_FIELD_BYTES:
    case WEIR_FIELD_FACTOR:
    case WEIR_FIELD_LENGTH:
    case WEIR_FIELD_RATE:
    case WEIR_FIELD_CHOICE:
    case WEIR_FIELD_ADDR:
    case WEIR_FIELD_URL:
    case WEIR_FIELD_PATH:
    case WEIR_FIELD_PERIOD:
    case WEIR_FIELD_LOG:
        break;
    }
    walk_word(walker, field, field->key, node, row);
}

/* A key that no field has. One that would hold a secret gets its own advice, and no echo of the
 * value. */
static void report_unknown_key(struct walker *walker, const struct weir_field_table *table,
                               const struct weir_tree_node *key, const char *word)
{
    char after[160];
    const char *known[64];
    size_t count = 0;
    bool has_key_file = weir_field_find(table, "key_env") != NULL;
    if (has_key_file &&
        (strcmp(word, "key") == 0 || strcmp(word, "api_key") == 0 || strcmp(word, "token") == 0)) {
        weir_loader_error(
            walker->loader, node_place(walker, key),
            "'%s': secrets do not stand in this file; name their place with key_env or "
            "key_file",
            word);
        return;
    }
    for (size_t i = 0; i < table->fields_count && count < WEIR_COUNT(known); i++)
        known[count++] = table->fields[i].key;
    if (*table->name)
        snprintf(after, sizeof after, " in %s", table->name);
    else
        snprintf(after, sizeof after, " at the top level");
    weir_loader_unknown(walker->loader, node_place(walker, key), "unknown key", word, after, known,
                        count);
}

static void walk_mapping(struct walker *walker, const struct weir_field_table *table,
                         const struct weir_tree_node *node, void *row)
{
    struct weir_loader *loader = walker->loader;
    const char *name = *table->name ? table->name : "the file";
    if (node->kind != WEIR_TREE_MAPPING) {
        weir_loader_error(loader, node_place(walker, node), "%s must be a mapping (\"key: value\")",
                          name);
        return;
    }
    const struct weir_tree_node *seen[64] = {NULL}; /* the key that gave each field */
    WEIR_INVARIANT(table->fields_count <= WEIR_COUNT(seen));
    for (uint32_t pair = 0; pair < node->count; pair++) {
        const struct weir_tree_node *key = get_link(walker, node, 2 * (size_t)pair);
        if (key->kind != WEIR_TREE_WORD) {
            weir_loader_error(loader, node_place(walker, key), "a key in %s must be a word", name);
            continue;
        }
        const char *word = walker->tree->text + key->text;
        const struct weir_field *field = weir_field_find(table, word);
        if (!field || strlen(word) != key->text_bytes) {
            report_unknown_key(walker, table, key, word);
            continue;
        }
        size_t index = (size_t)(field - table->fields);
        if (seen[index]) {
            weir_loader_error(loader, node_place(walker, key),
                              "'%s' is given twice; first on line %u", word, seen[index]->line);
            continue;
        }
        seen[index] = key;
        walk_field(walker, table, field, key, get_link(walker, node, 2 * (size_t)pair + 1), row);
    }
    for (size_t i = 0; i < table->fields_count; i++)
        if (table->fields[i].is_required && !seen[i])
            weir_loader_error(loader, node_place(walker, node), "%s needs '%s'", name,
                              table->fields[i].key);
}

static void report_syntax(struct weir_loader *loader, const struct weir_tree *tree)
{
    if (tree->problem_line == 0)
        weir_loader_error(loader, loader->whole, "%s", tree->problem);
    else
        weir_loader_error(
            loader,
            (struct weir_place){loader->whole.where, tree->problem_line, tree->problem_column},
            "not YAML: %s%s%s", tree->problem, *tree->context ? ", " : "", tree->context);
}

void weir_config_read_yaml(struct weir_loader *loader, const char *text, size_t bytes)
{
    struct weir_tree tree;
    weir_tree_read(text, bytes, &tree);
    struct walker walker = {loader, &tree, loader->whole.where, NULL};
    if (tree.nodes_count)
        walk_mapping(&walker, &weir_config_root_table, &tree.nodes[0], loader->config);
    if (*tree.problem)
        report_syntax(loader, &tree);
    else if (tree.second_line)
        weir_loader_error(
            loader, (struct weir_place){loader->whole.where, tree.second_line, tree.second_column},
            "a second document begins here; one file is one configuration");
    else if (!tree.nodes_count)
        weir_loader_error(loader, loader->whole, "is empty: it needs at least upstreams");
    weir_tree_free(&tree);
}

void weir_config_walk_value(struct weir_loader *loader, const struct weir_field_table *table,
                            const struct weir_field *field, void *row, struct weir_place place,
                            const char *text)
{
    struct weir_tree tree;
    weir_tree_read(text, strlen(text), &tree);
    struct walker walker = {loader, &tree, place.where, &place};
    if (tree.nodes_count)
        walk_field(&walker, table, field, &tree.nodes[0], &tree.nodes[0], row);
    else if (*tree.problem)
        weir_loader_error(loader, place, "'%s' is not YAML: %s", text, tree.problem);
    else
        weir_loader_error(loader, place, "has no value; give one behind the =");
    weir_tree_free(&tree);
}
