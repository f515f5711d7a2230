#include "module.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the run ---- */

enum { MEMORY_MAX = 1 << 30 };

static void *memory; /* of the lab; kept from run to run */
static size_t memory_bytes;
static double *column; /* that was asked for last */
static size_t column_room;

static void *lab_memory(void)
{
    return (void *)(((uintptr_t)memory + 63) & ~(uintptr_t)63);
}

void module_drop_run(void)
{
    module.results = NULL;
    module.entries_count = 0;
}

/* 64 bytes more than that: the lab's memory is aligned to so many. */
static bool make_room(size_t bytes)
{
    if (bytes > MEMORY_MAX)
        return false;
    if (bytes > memory_bytes) {
        free(memory);
        memory = malloc(bytes + 64);
        memory_bytes = memory ? bytes : 0;
    }
    if (memory)
        memset(lab_memory(), 0, bytes);
    return memory != NULL;
}

static void collect_entry(void *user, const struct weir_trace_entry *entry)
{
    (void)user;
    if (module.entries_count == module.entries_room) {
        module.entries_room = module.entries_room ? 2 * module.entries_room : 4096;
        module.entries =
            weir_config_must(realloc(module.entries, module.entries_room * sizeof *module.entries));
    }
    module.entries[module.entries_count++] = *entry;
}

bool module_run_seed(uint64_t seed)
{
    size_t bytes = weir_lab_bytes(&module.map.scenario);
    module_drop_run();
    if (!make_room(bytes))
        return false;
    struct weir_lab *lab = weir_lab_init(lab_memory(), bytes, &module.map.scenario, seed);
    weir_lab_on_ended(lab, collect_entry, NULL);
    for (uint64_t until_ns = WEIR_NS_PER_S; weir_lab_run(lab, until_ns);)
        until_ns += WEIR_NS_PER_S;
    module.results = weir_lab_results(lab);
    return true;
}

/* ---- columns of numbers ---- */

static double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

/* Time since the arrival to time since the start; NaN: it did not come to that. */
static double since(const struct weir_trace_entry *e, uint64_t ns, bool is_there)
{
    return is_there ? seconds(e->arrival_ns + ns) : NAN;
}

enum {
    REQUEST_TENANT,
    REQUEST_ARRIVAL,
    REQUEST_DISPATCH,
    REQUEST_FIRST,
    REQUEST_END,
    REQUEST_OUTCOME,
    REQUEST_REASON,
    REQUEST_PROMPT,
    REQUEST_OUTPUT
};
static const char *const request_names[] = {
    [REQUEST_TENANT] = "tenant", [REQUEST_ARRIVAL] = "arrival", [REQUEST_DISPATCH] = "dispatch",
    [REQUEST_FIRST] = "first",   [REQUEST_END] = "end",         [REQUEST_OUTCOME] = "outcome",
    [REQUEST_REASON] = "reason", [REQUEST_PROMPT] = "prompt",   [REQUEST_OUTPUT] = "output"};

static double of_request(const struct weir_trace_entry *e, size_t which)
{
    switch (which) {
    case REQUEST_TENANT:
        return e->tenant;
    case REQUEST_ARRIVAL:
        return seconds(e->arrival_ns);
    case REQUEST_DISPATCH:
        return since(e, e->queue_wait_ns, e->is_dispatched);
    case REQUEST_FIRST:
        return since(e, e->first_byte_ns, e->first_byte_ns > 0);
    case REQUEST_END:
        return since(e, e->latency_ns, true);
    case REQUEST_OUTCOME:
        return (double)e->outcome;
    case REQUEST_REASON:
        return (double)e->refusal;
    case REQUEST_PROMPT:
        return e->prompt_tok;
    default: /* REQUEST_OUTPUT */
        return e->output_tok;
    }
}

enum {
    TENANT_OFFERED,
    TENANT_FINISHED,
    TENANT_REFUSED,
    TENANT_FAILED,
    TENANT_WAITING,
    TENANT_IN_FLIGHT,
    TENANT_WAIT_MAX,
    TENANT_TOKENS
};
static const char *const tenant_names[] = {
    [TENANT_OFFERED] = "offered",  [TENANT_FINISHED] = "finished", [TENANT_REFUSED] = "refused",
    [TENANT_FAILED] = "failed",    [TENANT_WAITING] = "waiting",   [TENANT_IN_FLIGHT] = "inFlight",
    [TENANT_WAIT_MAX] = "waitMax", [TENANT_TOKENS] = "tokens"};

static double of_tenant_bin(const struct weir_lab_tenant_bin *bin, size_t which)
{
    double bin_ns = (double)module.results->bin_ns;
    switch (which) {
    case TENANT_OFFERED:
        return bin->offered;
    case TENANT_FINISHED:
        return bin->finished;
    case TENANT_REFUSED:
        return bin->refused;
    case TENANT_FAILED:
        return bin->failed;
    case TENANT_WAITING:
        return (double)bin->waiting_ns / bin_ns;
    case TENANT_IN_FLIGHT:
        return (double)bin->in_flight_ns / bin_ns;
    case TENANT_WAIT_MAX:
        return seconds(bin->wait_max_ns);
    default: /* TENANT_TOKENS */
        return (double)(bin->prompt_tok + bin->output_tok) / seconds(module.results->bin_ns);
    }
}

enum { UPSTREAM_IN_FLIGHT, UPSTREAM_PERMITS, UPSTREAM_OPEN };
static const char *const upstream_names[] = {
    [UPSTREAM_IN_FLIGHT] = "inFlight", [UPSTREAM_PERMITS] = "permits", [UPSTREAM_OPEN] = "open"};

static double of_upstream_bin(const struct weir_lab_upstream_bin *bin, size_t which)
{
    double bin_ns = (double)module.results->bin_ns;
    switch (which) {
    case UPSTREAM_IN_FLIGHT:
        return (double)bin->in_flight_ns / bin_ns;
    case UPSTREAM_PERMITS:
        return (double)bin->permits_ns / bin_ns;
    default: /* UPSTREAM_OPEN */
        return (double)bin->open_ns / bin_ns;
    }
}

static double *make_column(size_t count)
{
    if (count > column_room) {
        column = weir_config_must(realloc(column, count * sizeof *column));
        column_room = count;
    }
    return column;
}

/* A column of the requests that ended, one double for each, in the order of their ends. */
const double *MODULE_EXPORT(module_request_column)(uint32_t which);
const double *module_request_column(uint32_t which)
{
    double *to = make_column(module.entries_count + 1);
    WEIR_INVARIANT(which < WEIR_COUNT(request_names));
    for (size_t i = 0; i < module.entries_count; i++)
        to[i] = of_request(&module.entries[i], which);
    return to;
}

/* The longest wait of a bin in which none was dispatched is none, not 0. */
static void clear_idle_waits(uint32_t tenant, double *waits)
{
    const struct weir_lab_results *r = module.results;
    uint8_t *any = weir_config_must(calloc(r->bin_count + 1, 1));
    for (size_t i = 0; i < module.entries_count; i++) {
        const struct weir_trace_entry *e = &module.entries[i];
        uint64_t bin = (e->arrival_ns + e->queue_wait_ns) / r->bin_ns;
        if (e->tenant == tenant && e->is_dispatched && bin < r->bin_count)
            any[bin] = 1;
    }
    for (uint32_t i = 0; i < r->bin_count; i++)
        if (!any[i] && waits[i] == 0)
            waits[i] = NAN;
    free(any);
}

/* A series of a tenant, a double for each bin. */
const double *MODULE_EXPORT(module_tenant_series)(uint32_t tenant, uint32_t which);
const double *module_tenant_series(uint32_t tenant, uint32_t which)
{
    const struct weir_lab_results *r = module.results;
    WEIR_INVARIANT(r && tenant < module.map.scenario.tenant_count);
    WEIR_INVARIANT(which < WEIR_COUNT(tenant_names));
    double *to = make_column(r->bin_count + 1);
    for (uint32_t i = 0; i < r->bin_count; i++)
        to[i] = of_tenant_bin(&r->tenants[tenant].bins[i], which);
    if (which == TENANT_WAIT_MAX)
        clear_idle_waits(tenant, to);
    return to;
}

const double *MODULE_EXPORT(module_upstream_series)(uint32_t upstream, uint32_t which);
const double *module_upstream_series(uint32_t upstream, uint32_t which)
{
    const struct weir_lab_results *r = module.results;
    WEIR_INVARIANT(r && upstream < module.map.scenario.upstream_count);
    WEIR_INVARIANT(which < WEIR_COUNT(upstream_names));
    double *to = make_column(r->bin_count + 1);
    for (uint32_t i = 0; i < r->bin_count; i++)
        to[i] = of_upstream_bin(&r->upstreams[upstream].bins[i], which);
    return to;
}

/* The figures of each tenant, of all together, and of the whole, one behind the other. */
const double *MODULE_EXPORT(module_figures)(void);
const double *module_figures(void)
{
    static struct lab_figures figures;
    uint32_t rows = module.map.scenario.tenant_count + 1;
    double *to = make_column(rows * (size_t)LAB_FIGURES + LAB_WHOLES);
    lab_figures_of(&module.map, module.results, module.entries, module.entries_count, &figures);
    memcpy(to, figures.tenants, rows * sizeof figures.tenants[0]);
    memcpy(to + rows * (size_t)LAB_FIGURES, figures.whole, sizeof figures.whole);
    return to;
}

static void say_list(struct say *say, const char *key, const char *const *names, size_t count)
{
    say_key(say, key);
    say_open(say, "[");
    for (size_t i = 0; i < count; i++) {
        say_key(say, NULL);
        say_string(say, names[i]);
    }
    say_close(say, "]");
}

static void say_figure_keys(struct say *say, const char *key, const struct lab_figure_row *rows,
                            size_t count)
{
    say_key(say, key);
    say_open(say, "[");
    for (size_t i = 0; i < count; i++) {
        say_key(say, NULL);
        say_string(say, rows[i].key);
    }
    say_close(say, "]");
}

void module_say_columns(struct say *say)
{
    say_list(say, "requests", request_names, WEIR_COUNT(request_names));
    say_list(say, "tenantSeries", tenant_names, WEIR_COUNT(tenant_names));
    say_list(say, "upstreamSeries", upstream_names, WEIR_COUNT(upstream_names));
    say_figure_keys(say, "figures", lab_figure_rows, LAB_FIGURES);
    say_figure_keys(say, "wholes", lab_whole_rows, LAB_WHOLES);
    say_key(say, "reasons");
    say_open(say, "[\"\"");
    for (int reason = 1; reason < WEIR_REFUSAL_COUNT; reason++) {
        say_key(say, NULL);
        say_string(say, weir_refusal_row((enum weir_refusal)reason)->code);
    }
    say_close(say, "]");
    say_key(say, "outcomes");
    say_open(say, "{");
    say_count(say, "finished", WEIR_TRACE_FINISHED);
    say_count(say, "refused", WEIR_TRACE_REFUSED);
    say_count(say, "gone", WEIR_TRACE_GONE);
    say_count(say, "failed", WEIR_TRACE_FAILED);
    say_count(say, "cut", WEIR_TRACE_CUT);
    say_close(say, "}");
}

/* ---- the rest, as JSON ---- */

static void say_hash(struct say *say, const char *key, uint64_t hash)
{
    char text[32];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)hash);
    say_pair(say, key, text);
}

/* Tries refused, by the number of the reason. */
static void say_refusals(struct say *say)
{
    say_key(say, "refusals");
    say_open(say, "[");
    for (uint32_t t = 0; t < module.map.scenario.tenant_count; t++) {
        say_open(say, "[");
        for (int reason = 0; reason < WEIR_REFUSAL_COUNT; reason++) {
            say_key(say, NULL);
            say_u64(say, module.results->tenants[t].refusals[reason]);
        }
        say_close(say, "]");
    }
    say_close(say, "]");
}

static void say_upstreams(struct say *say)
{
    say_key(say, "upstreams");
    say_open(say, "[");
    for (uint32_t u = 0; u < module.map.scenario.upstream_count; u++) {
        say_open(say, "{");
        say_count(say, "inFlightMax", module.results->upstreams[u].in_flight_max);
        say_count(say, "trips", module.results->upstreams[u].gateway.opened);
        say_close(say, "}");
    }
    say_close(say, "]");
}

static void say_scopes(struct say *say)
{
    say_key(say, "scopes");
    say_open(say, "[");
    for (uint32_t i = 0; i < module.map.scenario.scope_count; i++) {
        const struct weir_lab_scope_results *r = &module.results->scopes[i];
        say_open(say, "{");
        say_pair(say, "name", module.map.scopes[i].name);
        say_key(say, "granted");
        say_i64(say, r->granted_tok);
        say_key(say, "committed");
        say_i64(say, r->committed_tok);
        say_key(say, "reserved");
        say_i64(say, r->reserved_tok);
        say_key(say, "overrun");
        say_i64(say, r->overrun_tok);
        say_count(say, "refused", r->refused);
        say_close(say, "}");
    }
    say_close(say, "]");
}

/* bound_uwork: null: this order has no bound. */
static void say_gap(struct say *say)
{
    struct lab_gap gap;
    say_key(say, "gap");
    if (!lab_worst_gap(&module.map, module.results, false, &gap)) {
        say_raw(say, "null");
        return;
    }
    say_open(say, "{");
    say_count(say, "gap_uwork", gap.window->gap_uwork);
    say_key(say, "bound_uwork");
    if (gap.window->bound_uwork == WEIR_GAP_NO_BOUND)
        say_raw(say, "null");
    else
        say_u64(say, gap.window->bound_uwork);
    say_pair(say, "ahead", module.map.tenants[gap.window->ahead].name);
    say_pair(say, "behind", module.map.tenants[gap.window->behind].name);
    say_count(say, "ended_ns", gap.ended_ns);
    say_count(say, "jain_ppm", gap.window->jain_ppm);
    say_close(say, "}");
}

/* What a run came to, but for the columns of numbers. */
const char *MODULE_EXPORT(module_result)(void);
const char *module_result(void)
{
    struct say *say = &module.say;
    const struct weir_lab_results *r = module.results;
    WEIR_INVARIANT(r);
    say_start(say);
    say_open(say, "{");
    say_hash(say, "hash", r->hash);
    say_hash(say, "trafficHash", r->traffic_hash);
    say_count(say, "events", r->events);
    say_count(say, "now_ns", r->now_ns);
    say_count(say, "bin_ns", r->bin_ns);
    say_count(say, "bins", r->bin_count);
    say_count(say, "requests", module.entries_count);
    say_refusals(say);
    say_upstreams(say);
    say_scopes(say);
    say_gap(say);
    say_close(say, "}");
    return say->text;
}
