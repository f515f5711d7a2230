/* arena_world: the arena trace on a backend like the one its authors measured, under one policy. */
#ifndef WEIR_TESTS_ARENA_WORLD_H
#define WEIR_TESTS_ARENA_WORLD_H

#include "lab/lab.h"
#include "measure/difference.h"
#include "trace/trace_file.h"

/* The four tenants that ask for most of the work, by name: 62 % of it. */
#define ARENA_HEAVY 4

struct arena_setup {
    enum weir_sched_policy policy;
    uint32_t rpm; /* requests a minute of each tenant, refused above it; 0: no limit */
};

/* Waits for the first token of a group of tenants, of its served requests. */
struct arena_waits {
    double mean_s, p95_s;
    uint64_t served, refused;
};

struct arena_row {
    struct weir_difference difference;
    struct arena_waits heavy, light;
    uint32_t backend_waiting_max; /* calls that waited behind the gateway, at most */
    uint64_t hash;
};

/* tests/data/traces/NAME by the environment of the tests; free with weir_trace_free. */
void arena_load(struct weir_trace *trace, const char *name, const char *scheduler);
/* Which of a trace's tenants are heavy: those whose demand (prompt + 2 x output) is largest. */
void arena_heavy(const struct weir_trace *trace, bool heavy[static WEIR_LAB_TENANTS_MAX]);
/* The row of entries that were measured or run. */
void arena_measure(const struct weir_trace_entry *entries, size_t count,
                   const bool heavy[static WEIR_LAB_TENANTS_MAX], struct arena_row *row);
/* Runs the trace in the lab. entries: NULL, or where the requests go in the order of their ends, as
 * many as the trace has; the caller frees them. */
void arena_run(const struct weir_trace *trace, const struct arena_setup *setup,
               struct arena_row *row, struct weir_trace_entry **entries);

#endif
