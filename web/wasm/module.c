#include "module.h"

#include "gateway/config_print.h"
#include "host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct module module;

/* ---- memory, layout, panic ---- */

void *MODULE_EXPORT(module_alloc)(uint32_t bytes);
void *module_alloc(uint32_t bytes)
{
    return weir_config_must(malloc(bytes ? bytes : 1));
}

void MODULE_EXPORT(module_free)(void *at);
void module_free(void *at)
{
    free(at);
}

static char panic_text[256];

static void note_panic(const char *expression, const char *file, int line)
{
    snprintf(panic_text, sizeof panic_text, "%s, %s:%d", expression, file, line);
}

/* The defect that made the module trap; "": it was none that it noticed. */
const char *MODULE_EXPORT(module_panic)(void);
const char *module_panic(void)
{
    return panic_text;
}

/* What the page writes before the nodes of a tree, word by word. */
struct tree_head {
    uint32_t nodes_count, links_count, text_bytes;
    uint32_t second_line, second_column;
    uint32_t problem_line, problem_column;
    uint32_t problem; /* where its words are in the text; they end with a NUL. No problem: where an
                         empty text is */
};

#define WORD(type, name)                                                                           \
    {                                                                                              \
#name, offsetof(struct type, name)                                                         \
    }
static const struct {
    const char *name;
    size_t offset;
} head_words[] = {WORD(tree_head, nodes_count),    WORD(tree_head, links_count),
                  WORD(tree_head, text_bytes),     WORD(tree_head, second_line),
                  WORD(tree_head, second_column),  WORD(tree_head, problem_line),
                  WORD(tree_head, problem_column), WORD(tree_head, problem)},
  node_words[] = {WORD(weir_tree_node, kind),  WORD(weir_tree_node, is_plain),
                  WORD(weir_tree_node, line),  WORD(weir_tree_node, column),
                  WORD(weir_tree_node, text),  WORD(weir_tree_node, text_bytes),
                  WORD(weir_tree_node, first), WORD(weir_tree_node, count)};
_Static_assert(sizeof(struct tree_head) == sizeof(uint32_t) * WEIR_COUNT(head_words) &&
                   sizeof(struct weir_tree_node) == sizeof(uint32_t) * WEIR_COUNT(node_words),
               "every word has its name");

/* In 32-bit words, by name. */
const char *MODULE_EXPORT(module_layout)(void);
const char *module_layout(void)
{
    struct say *say = &module.say;
    weir_panic_hook = note_panic;
    say_start(say);
    say_open(say, "{");
    say_key(say, "head");
    say_open(say, "{");
    for (size_t i = 0; i < WEIR_COUNT(head_words); i++)
        say_count(say, head_words[i].name, head_words[i].offset / sizeof(uint32_t));
    say_close(say, "}");
    say_key(say, "node");
    say_open(say, "{");
    for (size_t i = 0; i < WEIR_COUNT(node_words); i++)
        say_count(say, node_words[i].name, node_words[i].offset / sizeof(uint32_t));
    say_close(say, "}");
    say_key(say, "kind");
    say_open(say, "{");
    say_count(say, "word", WEIR_TREE_WORD);
    say_count(say, "list", WEIR_TREE_LIST);
    say_count(say, "mapping", WEIR_TREE_MAPPING);
    say_close(say, "}");
    module_say_columns(say);
    say_close(say, "}");
    return say->text;
}

/* ---- what the page pushes ---- */

enum { SETS_MAX = 1000 };

static char *file_name;                       /* of the setup, for messages */
static struct weir_config_set sets[SETS_MAX]; /* their texts are the module's */
static size_t sets_count;
static void *blocks[SETS_MAX + 1]; /* that trees point into */
static size_t blocks_count;
static struct weir_config_problems problems;
static const char file_text[] = ""; /* stands for the file's: its tree is pushed under it */

static void drop_setup(void)
{
    module_drop_run();
    lab_map_free(&module.map);
    weir_config_free(module.config);
    module.config = NULL;
    weir_config_problems_free(&problems);
    for (size_t i = 0; i < sets_count; i++) {
        free((char *)sets[i].path);
        free((char *)sets[i].value);
    }
    for (size_t i = 0; i < blocks_count; i++)
        free(blocks[i]);
    free(file_name);
    file_name = NULL;
    sets_count = blocks_count = 0;
    weir_host_drop_trees();
}

/* A tree as the page wrote it: a head, the nodes, the links, the text. It is the page's own code
 * that wrote it, so what does not fit is a defect. */
static void push_tree(const char *text, uint32_t *block)
{
    const struct tree_head *head = (const struct tree_head *)block;
    const struct weir_tree_node *nodes = (const struct weir_tree_node *)(head + 1);
    const uint32_t *links = (const uint32_t *)(nodes + head->nodes_count);
    struct weir_tree tree = {.nodes = nodes,
                             .nodes_count = head->nodes_count,
                             .links = links,
                             .text = (const char *)(links + head->links_count),
                             .second_line = head->second_line,
                             .second_column = head->second_column,
                             .problem_line = head->problem_line,
                             .problem_column = head->problem_column};
    WEIR_INVARIANT(head->problem < head->text_bytes && tree.text[head->text_bytes - 1] == '\0');
    for (uint32_t i = 0; i < head->nodes_count; i++) {
        const struct weir_tree_node *n = &nodes[i];
        uint64_t links_end = n->first + (uint64_t)n->count * (n->kind == WEIR_TREE_MAPPING ? 2 : 1);
        WEIR_INVARIANT(n->kind <= WEIR_TREE_MAPPING);
        WEIR_INVARIANT(n->kind == WEIR_TREE_WORD || links_end <= head->links_count);
        WEIR_INVARIANT(n->kind != WEIR_TREE_WORD ||
                       ((uint64_t)n->text + n->text_bytes < head->text_bytes &&
                        tree.text[n->text + n->text_bytes] == '\0'));
    }
    for (uint32_t i = 0; i < head->links_count; i++)
        WEIR_INVARIANT(links[i] < head->nodes_count);
    snprintf(tree.problem, sizeof tree.problem, "%s", tree.text + head->problem);
    WEIR_INVARIANT(blocks_count < WEIR_COUNT(blocks));
    blocks[blocks_count++] = block;
    weir_host_push_tree(text, &tree);
}

/* A new setup; the former one is dropped. All of these own what they are given, which came from
 * module_alloc. name: shown in messages. */
void MODULE_EXPORT(module_begin)(char *name, uint32_t *tree);
void module_begin(char *name, uint32_t *tree)
{
    drop_setup();
    file_name = name;
    push_tree(file_text, tree);
}

void MODULE_EXPORT(module_push_set)(char *path, char *value, uint32_t *tree);
void module_push_set(char *path, char *value, uint32_t *tree)
{
    WEIR_INVARIANT(sets_count < SETS_MAX);
    sets[sets_count++] = (struct weir_config_set){.path = path, .value = value};
    push_tree(value, tree);
}

/* ---- the setup ---- */

static void add_problem(const char *text)
{
    struct weir_loader loader = {.problems = &problems};
    weir_loader_error(&loader, (struct weir_place){.where = file_name}, "%s", text);
}

/* Loads what was pushed. with_traffic: also as a scenario that can be run; else as a configuration
 * only. 0: module_problems() says what is wrong. */
uint32_t MODULE_EXPORT(module_load)(uint32_t with_traffic, uint32_t with_trace);
uint32_t module_load(uint32_t with_traffic, uint32_t with_trace)
{
    const struct lab_map_trace *trace = with_trace ? module_trace() : NULL;
    const struct weir_config_source from = {.file = file_name,
                                            .text = file_text,
                                            .sets = sets,
                                            .sets_count = sets_count,
                                            .senders = trace ? trace->names : NULL,
                                            .senders_count = trace ? trace->names_count : 0,
                                            .no_secrets = true,
                                            .for_lab = true};
    module.config = weir_config_load(&from, &problems);
    if (!module.config || !with_traffic)
        return module.config != NULL;
    if (lab_map_config(module.config, trace, &module.map))
        return 1;
    add_problem(module.map.error);
    return 0;
}

/* [{where, line, column, isWarning, text}] */
const char *MODULE_EXPORT(module_problems)(void);
const char *module_problems(void)
{
    struct say *say = &module.say;
    say_start(say);
    say_open(say, "[");
    for (uint32_t i = 0; i < problems.count; i++) {
        const struct weir_config_problem *p = &problems.list[i];
        say_open(say, "{");
        say_pair(say, "where", p->where);
        say_count(say, "line", p->line);
        say_count(say, "column", p->column);
        say_pair(say, "text", p->text);
        say_key(say, "isWarning");
        say_bool(say, p->is_warning);
        say_close(say, "}");
    }
    say_close(say, "]");
    return say->text;
}

static const char *arrivals_word(enum weir_lab_arrivals arrivals)
{
    switch (arrivals) {
    case WEIR_LAB_POISSON:
        return "poisson";
    case WEIR_LAB_EVEN:
        return "even";
    case WEIR_LAB_CLOSED:
        return "closed";
    case WEIR_LAB_TRACE:
        break;
    }
    return "trace";
}

static void say_tenants(struct say *say)
{
    say_key(say, "tenants");
    say_open(say, "[");
    for (uint32_t i = 0; i < module.map.scenario.tenant_count; i++) {
        const struct weir_lab_tenant *t = &module.map.tenants[i];
        say_open(say, "{");
        say_pair(say, "name", t->name);
        say_pair(say, "lane", module.config->lanes[t->rules.lane].name);
        say_count(say, "weight", t->rules.weight);
        say_pair(say, "scope",
                 t->rules.scope == WEIR_NONE ? "" : module.map.scopes[t->rules.scope].name);
        say_count(say, "goal_ns", t->goal_wait_ns);
        say_pair(say, "arrivals", arrivals_word(t->arrivals));
        say_close(say, "}");
    }
    say_close(say, "]");
}

static void say_parts(struct say *say)
{
    const struct weir_config *config = module.config;
    say_key(say, "lanes");
    say_open(say, "[");
    for (uint32_t i = 0; i < config->lanes_count; i++) {
        say_open(say, "{");
        say_pair(say, "name", config->lanes[i].name);
        say_count(say, "floorPercent", config->lanes[i].floor_percent);
        say_close(say, "}");
    }
    say_close(say, "]");
    say_key(say, "upstreams");
    say_open(say, "[");
    for (uint32_t i = 0; i < module.map.scenario.upstream_count; i++) {
        const struct weir_lab_upstream *u = &module.map.upstreams[i];
        say_open(say, "{");
        say_pair(say, "name", u->name);
        say_count(say, "replicas", u->backend.replicas);
        say_count(say, "sequences", u->backend.sequences);
        say_close(say, "}");
    }
    say_close(say, "]");
    say_key(say, "scopes");
    say_open(say, "[");
    for (uint32_t i = 0; i < module.map.scenario.scope_count; i++) {
        say_open(say, "{");
        say_pair(say, "name", module.map.scopes[i].name);
        say_count(say, "granted", module.map.scopes[i].granted_tok);
        say_close(say, "}");
    }
    say_close(say, "]");
}

/* Names of the configuration's tenants, of the traffic's, of the trace's: the page drops repeats. */
static void say_names(struct say *say)
{
    const struct weir_config *config = module.config;
    say_key(say, "names");
    say_open(say, "[");
    for (uint32_t i = 0; i < config->tenants_count; i++) {
        say_key(say, NULL);
        say_string(say, config->tenants[i].name);
    }
    for (uint32_t i = 0; i < config->traffic.tenants_count; i++) {
        say_key(say, NULL);
        say_string(say, config->traffic.tenants[i].name);
    }
    for (uint32_t i = 0; i < module.map.scenario.tenant_count; i++) {
        say_key(say, NULL);
        say_string(say, module.map.tenants[i].name);
    }
    say_close(say, "]");
}

/* The value in force at each path, of which there are count, one behind the other, each with its
 * NUL. {"path": "value", "path": null} */
static void say_values(struct say *say, const char *paths, uint32_t count)
{
    say_key(say, "values");
    say_open(say, "[");
    for (; count > 0; count--, paths += strlen(paths) + 1) {
        char *value = weir_config_get(module.config, paths);
        say_key(say, NULL);
        if (value)
            say_string(say, value);
        else
            say_raw(say, "null");
        free(value);
    }
    say_close(say, "]");
}

/* The setup as the core understood it, and the values in force at `count` paths, which stand one
 * behind the other, each with its NUL. */
const char *MODULE_EXPORT(module_describe)(const char *paths, uint32_t count);
const char *module_describe(const char *paths, uint32_t count)
{
    struct say *say = &module.say;
    say_start(say);
    say_open(say, "{");
    say_tenants(say);
    say_parts(say);
    say_names(say);
    say_count(say, "time_ns", module.map.scenario.traffic_ns);
    say_count(say, "merged", module.map.merged);
    say_count(say, "left_out", module.map.left_out);
    say_values(say, paths, count);
    say_close(say, "}");
    return say->text;
}

/* The setup as a configuration of what is not a default. */
const char *MODULE_EXPORT(module_yaml)(void);
const char *module_yaml(void)
{
    static char *text;
    free(text);
    text = weir_config_must(weir_config_given_yaml(module.config));
    return text;
}

/* 0: module_problems() says why not. */
uint32_t MODULE_EXPORT(module_run)(uint64_t seed);
uint32_t module_run(uint64_t seed)
{
    char text[160];
    if (module_run_seed(seed))
        return 1;
    snprintf(text, sizeof text,
             "needs %zu MiB of memory, more than a page has; lower limits.waiters",
             weir_lab_bytes(&module.map.scenario) >> 20);
    add_problem(text);
    return 0;
}
