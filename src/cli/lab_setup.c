#include "cli/lab_setup.h"

#include "cli/commands.h"
#include "cli/text.h"
#include "gateway/config_value.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- values set over it ---- */

/* Whether a path and its = stand here: `tenants.batch.weight=`. */
static bool is_path(const char *text)
{
    size_t bytes = strcspn(text, "=,{}[]\"' ");
    return bytes > 0 && text[bytes] == '=' && isalpha((unsigned char)*text);
}

/* Where this path=value ends: at a comma that another stands behind, or at the end. */
static size_t one_set(const char *text)
{
    int depth = 0;
    size_t i = 0;
    for (; text[i]; i++) {
        depth += text[i] == '[' || text[i] == '{';
        depth -= text[i] == ']' || text[i] == '}';
        if (text[i] == ',' && depth <= 0 && is_path(text + i + 1))
            break;
    }
    return i;
}

bool lab_sets_add(struct lab_sets *sets, const char *text)
{
    if (sets->texts_count == LAB_SETS_MAX || !(sets->texts[sets->texts_count] = strdup(text))) {
        fprintf(stderr, "weir lab: more than %d values are set\n", LAB_SETS_MAX);
        return false;
    }
    char *at = sets->texts[sets->texts_count++];
    for (;;) {
        size_t bytes = one_set(at);
        bool is_last = at[bytes] == '\0';
        at[bytes] = '\0';
        char *equals = strchr(at, '=');
        if (!equals || equals == at) {
            fprintf(stderr,
                    "weir lab: '%s' sets nothing; write path=value, as in tenants.batch.weight=2\n",
                    at);
            return false;
        }
        if (sets->count == LAB_SETS_MAX) {
            fprintf(stderr, "weir lab: more than %d values are set\n", LAB_SETS_MAX);
            return false;
        }
        *equals = '\0';
        sets->list[sets->count++] = (struct weir_config_set){.path = at, .value = equals + 1};
        if (is_last)
            return true;
        at += bytes + 1;
    }
}

void lab_sets_free(struct lab_sets *sets)
{
    for (size_t i = 0; i < sets->texts_count; i++)
        free(sets->texts[i]);
    *sets = (struct lab_sets){0};
}

/* ---- scenarios ---- */

static const struct lab_scenario_text *find_scenario(const char *name)
{
    for (size_t i = 0; i < lab_scenarios_count; i++)
        if (strcmp(lab_scenarios[i].name, name) == 0)
            return &lab_scenarios[i];
    return NULL;
}

/* The comment that a text begins with, without its mark. */
static void copy_about(char *to, size_t to_bytes, const char *text, size_t bytes)
{
    to[0] = '\0';
    if (bytes == 0 || *text != '#')
        return;
    size_t from = strspn(text, "# ");
    const char *end = memchr(text, '\n', bytes);
    size_t length = (end ? (size_t)(end - text) : bytes) - from;
    snprintf(to, to_bytes, "%.*s", (int)weir_min_u64(length, to_bytes - 1), text + from);
}

int lab_setup_list(bool as_json)
{
    json_t *list = json_array();
    for (size_t i = 0; i < lab_scenarios_count; i++) {
        char about[200];
        copy_about(about, sizeof about, lab_scenarios[i].text, lab_scenarios[i].bytes);
        if (!as_json)
            printf("%-16s %s\n", lab_scenarios[i].name, about);
        else
            json_array_append_new(
                list, json_pack("{s:s, s:s}", "name", lab_scenarios[i].name, "about", about));
    }
    if (as_json)
        return cli_print_json(list) ? CLI_DONE_STATUS : CLI_FAULT_STATUS;
    json_decref(list);
    return CLI_DONE_STATUS;
}

static void read_about(char *to, size_t to_bytes, const char *path)
{
    char line[256] = "";
    struct stat kind;
    bool is_file = stat(path, &kind) == 0 && S_ISREG(kind.st_mode); /* a pipe is read once */
    FILE *file = is_file ? fopen(path, "r") : NULL;
    if (file && !fgets(line, sizeof line, file))
        line[0] = '\0';
    if (file)
        fclose(file);
    copy_about(to, to_bytes, line, strlen(line));
}

static void say_no_scenario(const char *word)
{
    const char *known[64];
    size_t count = weir_min_u64(lab_scenarios_count, WEIR_COUNT(known));
    for (size_t i = 0; i < count; i++)
        known[i] = lab_scenarios[i].name;
    const char *near = weir_value_suggest(word, known, count);
    fprintf(stderr, "weir lab: there is no scenario and no file '%s'", word);
    if (near)
        fprintf(stderr, "; did you mean '%s'?\n", near);
    else
        fputs("; weir lab --list names the scenarios\n", stderr);
}

static bool load_config(struct lab_setup *setup, const char *word, const struct lab_sets *sets,
                        const struct weir_trace *trace)
{
    const struct lab_scenario_text *scenario = find_scenario(word);
    if (!scenario && access(word, F_OK) != 0) {
        say_no_scenario(word);
        return false;
    }
    setup->name = word;
    struct weir_config_source from = {.file = word,
                                      .text = scenario ? scenario->text : NULL,
                                      .text_bytes = scenario ? scenario->bytes : 0,
                                      .sets = sets->list,
                                      .sets_count = sets->count,
                                      .no_secrets = true,
                                      .for_lab = true};
    if (trace) {
        from.senders = (const char *const *)trace->names[WEIR_TRACE_TENANT];
        from.senders_count = trace->names_count[WEIR_TRACE_TENANT];
    }
    if (scenario)
        copy_about(setup->about, sizeof setup->about, scenario->text, scenario->bytes);
    else
        read_about(setup->about, sizeof setup->about, word);
    struct weir_config_problems problems = {0};
    setup->config = weir_config_load(&from, &problems);
    cli_print_problems(&problems);
    weir_config_problems_free(&problems);
    return setup->config != NULL;
}

static void note_changes(struct lab_setup *setup, const struct lab_sets *sets)
{
    size_t used = 0;
    setup->changes[0] = '\0';
    for (size_t i = 0; i < sets->count && used < sizeof setup->changes; i++)
        used += (size_t)snprintf(setup->changes + used, sizeof setup->changes - used, "%s%s=%s",
                                 i ? ", " : "", sets->list[i].path, sets->list[i].value);
}

bool lab_setup_load(struct lab_setup *setup, const char *word, const struct lab_sets *sets,
                    const struct weir_trace *trace)
{
    *setup = (struct lab_setup){0};
    if (!load_config(setup, word ? word : "default", sets, trace))
        return false;
    note_changes(setup, sets);
    setup->map = malloc(sizeof *setup->map);
    if (!setup->map) {
        fputs("weir lab: out of memory\n", stderr);
        return false;
    }
    struct lab_map_trace of_map = {0};
    if (trace)
        of_map = (struct lab_map_trace){.entries = trace->entries,
                                        .count = trace->count,
                                        .names = trace->names[WEIR_TRACE_TENANT],
                                        .names_count = trace->names_count[WEIR_TRACE_TENANT]};
    if (!lab_map_config(setup->config, trace ? &of_map : NULL, setup->map)) {
        fprintf(stderr, "%s: %s\n", setup->name, setup->map->error);
        return false;
    }
    if (setup->map->left_out)
        fprintf(
            stderr,
            "weir lab: the trace is what is sent; the traffic of %u tenants of %s is left out\n",
            setup->map->left_out, setup->name);
    if (setup->map->merged)
        fprintf(
            stderr,
            "weir lab: the trace has more than %d tenants; the %u with the fewest requests stand "
            "together as 'others'\n",
            WEIR_LAB_TENANTS_MAX, setup->map->merged);
    return true;
}

void lab_setup_free(struct lab_setup *setup)
{
    if (setup->map)
        lab_map_free(setup->map);
    free(setup->map);
    weir_config_free(setup->config);
    *setup = (struct lab_setup){0};
}
