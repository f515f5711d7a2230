#include "cli/lab_run.h"

#include "cli/commands.h"
#include "cli/text.h"
#include "trace/trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- what ended ---- */

struct collector {
    struct lab_run *run;
    FILE *record; /* NULL: none */
    const struct lab_setup *setup;
    const char *fault; /* NULL: none so far */
    int fault_errno;
};

static void fault(struct collector *c, const char *what)
{
    c->fault = what;
    c->fault_errno = errno;
}

static void record_bytes(struct collector *c, const char *bytes, size_t count)
{
    if (fwrite(bytes, 1, count, c->record) != count)
        fault(c, "the recording cannot be written");
}

static void record_entry(struct collector *c, const struct weir_trace_entry *entry)
{
    char line[WEIR_TRACE_LINE_BYTES];
    const char *lane = entry->lane < c->setup->config->lanes_count
                           ? c->setup->config->lanes[entry->lane].name
                           : "";
    size_t bytes = weir_trace_line(entry, c->setup->map->tenants[entry->tenant].name, lane, "lab",
                                   line, sizeof line);
    record_bytes(c, line, bytes);
}

static void collect_entry(void *user, const struct weir_trace_entry *entry)
{
    struct collector *c = user;
    struct lab_run *run = c->run;
    if (run->entries_count == run->entries_room) {
        size_t room = run->entries_room ? run->entries_room * 2 : 4096;
        struct weir_trace_entry *more = realloc(run->entries, room * sizeof *more);
        if (!more) {
            fault(c, "its requests cannot be kept");
            return;
        }
        run->entries = more;
        run->entries_room = room;
    }
    run->entries[run->entries_count++] = *entry;
    if (c->record && !c->fault)
        record_entry(c, entry);
}

static void start_recording(struct collector *c)
{
    char head[WEIR_TRACE_HEADER_BYTES];
    size_t bytes = weir_trace_header(0, head, sizeof head);
    record_bytes(c, head, bytes);
}

/* ---- the run ---- */

static void show_progress(const char *what, uint64_t until_ns, uint64_t traffic_ns)
{
    char text[160];
    snprintf(text, sizeof text, "%s: %llu s of %llu s", what,
             (unsigned long long)(until_ns / WEIR_NS_PER_S),
             (unsigned long long)(traffic_ns / WEIR_NS_PER_S));
    cli_progress_line(text);
}

bool lab_run_seed(struct lab_run *run, const struct lab_setup *setup, uint64_t seed,
                  const char *what, FILE *record)
{
    const struct weir_lab_scenario *s = &setup->map->scenario;
    struct collector collector = {.run = run, .record = record, .setup = setup};
    lab_run_free(run);
    run->seed = seed;
    run->memory_bytes = weir_lab_bytes(s);
    run->memory = mmap(NULL, run->memory_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (run->memory == MAP_FAILED) {
        run->memory = NULL;
        fprintf(stderr,
                "weir lab: this setup needs %zu MiB of memory, more than there is; lower "
                "limits.waiters\n",
                run->memory_bytes >> 20);
        return false;
    }
    struct weir_lab *lab = weir_lab_init(run->memory, run->memory_bytes, s, seed);
    weir_lab_on_ended(lab, collect_entry, &collector);
    if (record)
        start_recording(&collector);
    uint64_t until_ns = 0;
    bool goes_on = true;
    while (goes_on && !cli_is_interrupted() && !collector.fault) {
        until_ns += WEIR_NS_PER_S;
        goes_on = weir_lab_run(lab, until_ns);
        if (what)
            show_progress(what, until_ns, s->traffic_ns);
    }
    run->is_stopped = goes_on;
    run->results = weir_lab_results(lab);
    if (what)
        cli_progress_line("");
    if (collector.fault)
        fprintf(stderr, "weir lab: %s: %s\n", collector.fault, strerror(collector.fault_errno));
    return !collector.fault;
}

void lab_run_free(struct lab_run *run)
{
    free(run->entries);
    if (run->memory)
        munmap(run->memory, run->memory_bytes);
    *run = (struct lab_run){0};
}
