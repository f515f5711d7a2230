/* module: what the page's WebAssembly module gives out. One page, one setup at a time.
 *
 * The page pushes a setup's YAML (as trees, see gateway/config_tree.h) and the values set over it,
 * loads it, and runs it. What comes out are JSON texts and arrays of doubles, both of the module's
 * own and good until the next call: names and orders are told by module_layout(), so that the page
 * copies no layout by hand. A defect traps; module_panic() then says which.
 *
 * module.c: the setup. module_results.c: what a run came to. module_trace.c: recorded traffic. */
#ifndef WEIR_WEB_MODULE_H
#define WEIR_WEB_MODULE_H

#include "cli/lab_figures.h"
#include "gateway/config_load.h"
#include "say.h"

#define MODULE_EXPORT(name) __attribute__((export_name(#name), used)) name

struct module {
    struct weir_config *config; /* NULL: no setup is loaded */
    struct lab_map map;
    const struct weir_lab_results *results; /* NULL: not run */
    struct weir_trace_entry *entries;       /* of the requests that ended, in that order */
    size_t entries_count, entries_room;
    uint64_t seed;
    struct say say;
};
extern struct module module;

/* The recorded traffic, NULL: none was pushed. */
const struct lab_map_trace *module_trace(void);
/* Drops the run, whose results point into the map. */
void module_drop_run(void);
/* Runs what is loaded. false: there is not enough memory for it. */
bool module_run_seed(uint64_t seed);
/* Says the names of columns: part of module_layout(). */
void module_say_columns(struct say *say);

#endif
