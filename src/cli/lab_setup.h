/* lab_setup: what `weir lab` runs: a named scenario or a file, with single values set over it, and
 * perhaps a trace. Says what is wrong on standard error. Thread: main. */
#ifndef WEIR_CLI_LAB_SETUP_H
#define WEIR_CLI_LAB_SETUP_H

#include "cli/lab_map.h"
#include "trace/trace_file.h"

/* The scenarios in the program, from src/cli/scenarios by tools/embed.py; by name, the default
 * first. */
struct lab_scenario_text {
    const char *name;
    const char *text; /* YAML; its first line is a comment that says what it shows */
    size_t bytes;
};
extern const struct lab_scenario_text lab_scenarios[];
extern const size_t lab_scenarios_count;

enum { LAB_SETS_MAX = 1000 }; /* as the lab page */

/* Start from {0}. */
struct lab_sets {
    struct weir_config_set list[LAB_SETS_MAX];
    size_t count;
    char *texts[LAB_SETS_MAX]; /* what paths and values point into */
    size_t texts_count;
};

/* Adds path=value, or several set apart by commas (a comma inside brackets, or one that no path=
 * comes behind, is the value's). false: said. */
WEIR_MUST_USE bool lab_sets_add(struct lab_sets *sets, const char *text);
void lab_sets_free(struct lab_sets *sets);

struct lab_setup {
    const char *name;  /* of the scenario, or the file */
    char about[200];   /* what it shows, "" where it does not say */
    char changes[400]; /* the values set over it, as given */
    struct weir_config *config;
    struct lab_map *map;
};

/* word: a scenario's name or a file; NULL: the default. trace: NULL for none; it must outlive the
 * setup, as sets must.
 * Owns:   the caller frees with lab_setup_free, on failure too.
 * Fails:  false, said; the exit status is CLI_USAGE_STATUS. */
WEIR_MUST_USE bool lab_setup_load(struct lab_setup *setup, const char *word,
                                  const struct lab_sets *sets, const struct weir_trace *trace);
void lab_setup_free(struct lab_setup *setup);

/* Prints the names of the scenarios and what each shows; the exit status. */
int lab_setup_list(bool as_json);

#endif
