#include "module.h"

#include "cli/lab_recorded.h"
#include "trace/trace_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Recorded traffic: pushed once, in portions, and kept for as many runs as there come. */

enum { NAMES_MAX = 8192, ROWS_MAX = 1000000 };

static struct weir_trace trace;
static struct lab_map_trace of_map;
static struct weir_trace_collector collector;
static struct weir_trace_reader *reader;
static void *reader_memory;
static char *chosen;         /* which of several measured runs; NULL: none was named */
static char schedulers[512]; /* those that were seen in a file that could not be read */
static struct weir_trace_problem problem;

const struct lab_map_trace *module_trace(void)
{
    return trace.count ? &of_map : NULL;
}

static void drop_reader(void)
{
    free(reader_memory);
    free(collector.entries);
    free(chosen);
    reader_memory = NULL;
    reader = NULL;
    chosen = NULL;
    collector = (struct weir_trace_collector){0};
}

/* Drops the trace. The setup that was loaded with it must not be run again. */
void MODULE_EXPORT(module_trace_drop)(void);
void module_trace_drop(void)
{
    drop_reader();
    weir_trace_free(&trace);
    of_map = (struct lab_map_trace){0};
    problem = (struct weir_trace_problem){0};
    schedulers[0] = '\0';
}

/* scheduler: which of several measured runs in it; it is the module's then. 0: it must hold one. */
void MODULE_EXPORT(module_trace_begin)(char *scheduler);
void module_trace_begin(char *scheduler)
{
    const struct weir_trace_limits limits = {NAMES_MAX, ROWS_MAX};
    module_trace_drop();
    size_t bytes = weir_trace_bytes(&limits);
    chosen = scheduler;
    reader_memory = weir_config_must(calloc(1, bytes));
    reader = weir_trace_init(reader_memory, bytes, &limits, chosen, weir_trace_collect, &collector);
}

/* The problem is kept, and what the page needs to choose among several runs. */
static uint32_t fail(void)
{
    problem = *weir_trace_problem(reader);
    if (collector.is_out_of_memory)
        snprintf(problem.text, sizeof problem.text, "is larger than a page has memory for");
    size_t used = 0;
    for (uint32_t i = 1; i < weir_trace_names_count(reader, WEIR_TRACE_SCHEDULER); i++) {
        const char *name = weir_trace_name(reader, WEIR_TRACE_SCHEDULER, i);
        if (used + strlen(name) + 2 > sizeof schedulers)
            break;
        used += (size_t)snprintf(schedulers + used, sizeof schedulers - used, "%s%s",
                                 used ? "\n" : "", name);
    }
    drop_reader();
    return 0;
}

/* A portion of the file, which stays the page's. 0: it could not be read; module_trace_about(). */
uint32_t MODULE_EXPORT(module_trace_push)(const char *bytes, uint32_t count);
uint32_t module_trace_push(const char *bytes, uint32_t count)
{
    WEIR_INVARIANT(reader);
    return weir_trace_push(reader, bytes, count) ? 1 : fail();
}

/* The file is over. 0: as above. */
uint32_t MODULE_EXPORT(module_trace_end)(void);
uint32_t module_trace_end(void)
{
    WEIR_INVARIANT(reader);
    if (!weir_trace_finish(reader))
        return fail();
    if (!weir_trace_take(&collector, reader, &trace)) {
        collector.is_out_of_memory = true;
        return fail();
    }
    weir_trace_fill_sizes(&trace);
    of_map = (struct lab_map_trace){.entries = trace.entries,
                                    .count = trace.count,
                                    .names = trace.names[WEIR_TRACE_TENANT],
                                    .names_count = trace.names_count[WEIR_TRACE_TENANT]};
    drop_reader();
    return 1;
}

/* {line, text, schedulers, remark, isMeasured}: text "": it was read. schedulers: one a line. */
const char *MODULE_EXPORT(module_trace_about)(void);
const char *module_trace_about(void)
{
    struct say *say = &module.say;
    char remark[512] = "";
    if (trace.count)
        weir_trace_remark(&trace, remark, sizeof remark);
    say_start(say);
    say_open(say, "{");
    say_count(say, "line", problem.line);
    say_pair(say, "text", problem.text);
    say_pair(say, "schedulers", schedulers);
    say_pair(say, "remark", remark);
    say_key(say, "isMeasured");
    say_bool(say, trace.count && lab_recorded_is_measured(&of_map));
    say_close(say, "}");
    return say->text;
}

/* What really happened, of each tenant of the setup and of all: as module_figures() without the
 * figures of the whole. Only of a measured trace, with a setup that was loaded with it. */
const double *MODULE_EXPORT(module_trace_figures)(void);
const double *module_trace_figures(void)
{
    static double rows[WEIR_LAB_TENANTS_MAX + 1][LAB_FIGURES];
    WEIR_INVARIANT(trace.count && module.map.trace_tenants);
    if (!lab_recorded_figures(&module.map, &of_map, trace.form == WEIR_TRACE_RECORDING, rows))
        weir_config_no_memory();
    return rows[0];
}
