#include "cli/fair.h"

#include "core/rng.h"
#include "core/sched.h"
#include "trace/trace_file.h"

#include <stdlib.h>
#include <string.h>

/* ---- costs from a trace ---- */

static struct loaded {
    char *path;
    struct weir_trace trace;
    struct fair_tokens *rows[1 + WEIR_FAIR_TENANTS_MAX]; /* handed out */
    size_t rows_count;
} loaded[WEIR_FAIR_TENANTS_MAX];
static size_t loaded_count;

static struct loaded *load(const char *path, struct fair_error *error)
{
    for (size_t i = 0; i < loaded_count; i++)
        if (strcmp(loaded[i].path, path) == 0)
            return &loaded[i];
    WEIR_INVARIANT(loaded_count < WEIR_COUNT(loaded));
    struct loaded *l = &loaded[loaded_count];
    if (!weir_trace_load(path, NULL, &l->trace, error->text, sizeof error->text))
        return NULL;
    l->path = strdup(path);
    if (!l->path) {
        weir_trace_free(&l->trace);
        snprintf(error->text, sizeof error->text, "out of memory");
        return NULL;
    }
    loaded_count++;
    return l;
}

/* The rows of one tenant of the trace (WEIR_NONE: of all) that cost something. */
static size_t copy_rows(const struct weir_trace *trace, uint32_t tenant, struct fair_tokens *rows)
{
    size_t count = 0;
    for (size_t i = 0; i < trace->count; i++) {
        const struct weir_trace_entry *e = &trace->entries[i];
        struct fair_tokens tokens = {e->prompt_tok - e->cached_tok, e->output_tok};
        if ((tenant == WEIR_NONE || e->tenant == tenant) && tokens.input + tokens.output > 0)
            rows[count++] = tokens;
    }
    return count;
}

bool fair_rows_load(const char *path, const char *tenant, struct fair_cost *cost,
                    struct fair_error *error)
{
    struct loaded *l = load(path, error);
    uint32_t index = WEIR_NONE;
    if (!l)
        return false;
    for (uint32_t i = 0; i < l->trace.names_count[WEIR_TRACE_TENANT]; i++)
        if (strcmp(l->trace.names[WEIR_TRACE_TENANT][i], tenant) == 0)
            index = i;
    struct fair_tokens *rows = malloc(l->trace.count * sizeof *rows);
    if (!rows) {
        snprintf(error->text, sizeof error->text, "out of memory");
        return false;
    }
    WEIR_INVARIANT(l->rows_count < WEIR_COUNT(l->rows));
    l->rows[l->rows_count++] = rows;
    cost->rows = rows;
    cost->rows_count = copy_rows(&l->trace, index, rows);
    if (cost->rows_count > 0)
        return true;
    snprintf(error->text, sizeof error->text,
             index == WEIR_NONE ? "%.300s: no row has a token: there is nothing to draw from"
                                : "%.300s: no row of tenant '%.40s' has a token",
             path, tenant);
    return false;
}

void fair_rows_free(void)
{
    for (size_t i = 0; i < loaded_count; i++) {
        free(loaded[i].path);
        weir_trace_free(&loaded[i].trace);
        for (size_t k = 0; k < loaded[i].rows_count; k++)
            free(loaded[i].rows[k]);
    }
    memset(loaded, 0, sizeof loaded);
    loaded_count = 0;
}

/* ---- the requests ---- */

/* Each draws from a stream of its own, so that a change of one leaves the others as they were. */
enum purpose { DRAW_COST, DRAW_ARRIVAL, DRAW_ESTIMATE, DRAW_PURPOSES };

static void seed_stream(struct weir_rng *rng, uint64_t seed, uint32_t tenant, enum purpose purpose)
{
    weir_rng_seed(rng, seed, (uint64_t)tenant * DRAW_PURPOSES + purpose);
}

static struct fair_tokens draw_cost(const struct fair_cost *cost, struct weir_rng *rng)
{
    if (cost->rows)
        return cost->rows[weir_rng_below(rng, cost->rows_count)];
    return (struct fair_tokens){weir_length_draw(&cost->input, rng),
                                weir_length_draw(&cost->output, rng)};
}

/* The time of the request with that number; *at_ns is that of the one before. */
static void draw_arrival(const struct fair_arrivals *a, struct weir_rng *rng, uint64_t number,
                         uint64_t *at_ns)
{
    switch (a->kind) {
    case FAIR_AT:
        *at_ns = a->at_ns;
        return;
    case FAIR_EVEN:
        *at_ns = weir_muldiv_floor(number, a->per_ns, a->count);
        return;
    case FAIR_POISSON:
    case FAIR_ONOFF:
        *at_ns = weir_add_sat_u64(*at_ns, weir_chance_exponential(rng, a->per_ns / a->count));
        return;
    }
}

/* From time spent on to time passed. */
static uint64_t passed_ns(const struct fair_arrivals *a, uint64_t at_ns)
{
    if (a->kind != FAIR_ONOFF)
        return at_ns;
    return weir_add_sat_u64(at_ns, weir_muldiv_floor(at_ns / a->on_ns, a->off_ns, 1));
}

static uint64_t draw_estimate(const struct fair_estimates *e, struct weir_rng *rng,
                              uint64_t work_uwork)
{
    int64_t percent = 0, noise_ppm = 0;
    switch (e->kind) {
    case FAIR_EXACT:
        return work_uwork;
    case FAIR_BIASED:
        percent = e->percent;
        break;
    case FAIR_NOISY:
        noise_ppm =
            (int64_t)weir_rng_between(rng, 0, (uint64_t)e->percent * 20000) - e->percent * 10000;
        break;
    }
    uint64_t ppm = (uint64_t)(1000000 + percent * 10000 + noise_ppm);
    return weir_max_u64(1, weir_muldiv_floor(work_uwork, ppm, 1000000));
}

/* A tenant's requests in the order of their arrivals, one drawn ahead. */
struct stream {
    const struct fair_tenant *tenant;
    struct weir_rng cost, arrival, estimate;
    uint64_t drawn, at_ns;
    struct weir_fair_item next;
};

static void stream_draw(struct stream *s)
{
    struct fair_tokens tokens = draw_cost(&s->tenant->cost, &s->cost);
    draw_arrival(&s->tenant->arrivals, &s->arrival, s->drawn, &s->at_ns);
    uint64_t work = weir_fair_work_uwork(tokens.input, tokens.output);
    s->next.arrival_ns = passed_ns(&s->tenant->arrivals, s->at_ns);
    s->next.input_tok = tokens.input;
    s->next.output_tok = tokens.output;
    s->next.estimate_uwork = draw_estimate(&s->tenant->estimates, &s->estimate, work);
    s->drawn++;
}

uint64_t fair_requests(const struct fair_setup *setup)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < setup->tenants_count; i++)
        count = weir_add_sat_u64(count, setup->tenants[i].backlog);
    return count;
}

bool fair_draw(const struct fair_setup *setup, uint64_t seed, uint32_t *weights,
               struct weir_fair_item *items, struct weir_fair_plan *plan, struct fair_error *error)
{
    struct stream streams[WEIR_FAIR_TENANTS_MAX];
    uint32_t open[WEIR_FAIR_TENANTS_MAX], open_count = 0, count = 0, index;
    for (uint32_t i = 0; i < setup->tenants_count; i++) {
        struct stream *s = &streams[i];
        weights[i] = setup->tenants[i].weight;
        *s = (struct stream){.tenant = &setup->tenants[i], .next.tenant = i};
        seed_stream(&s->cost, seed, i, DRAW_COST);
        seed_stream(&s->arrival, seed, i, DRAW_ARRIVAL);
        seed_stream(&s->estimate, seed, i, DRAW_ESTIMATE);
        stream_draw(s);
        open[open_count++] = i;
    }
    /* Of one time the tenants' in their order, each with all that it has. */
    while (open_count > 0) {
        uint32_t first = 0;
        for (uint32_t i = 1; i < open_count; i++)
            if (streams[open[i]].next.arrival_ns < streams[open[first]].next.arrival_ns)
                first = i;
        struct stream *s = &streams[open[first]];
        items[count++] = s->next;
        if (s->drawn < s->tenant->backlog)
            stream_draw(s);
        else
            memmove(&open[first], &open[first + 1], (--open_count - first) * sizeof open[0]);
    }
    *plan = (struct weir_fair_plan){.permits = setup->permits,
                                    .tenants_count = setup->tenants_count,
                                    .items_count = count,
                                    .weights = weights,
                                    .items = items};
    const char *problem = weir_fair_problem(plan, &index);
    if (problem && index < count)
        snprintf(error->text, sizeof error->text, "seed %llu, tenant %s: %s",
                 (unsigned long long)seed, setup->tenants[items[index].tenant].name, problem);
    else if (problem)
        snprintf(error->text, sizeof error->text, "%s", problem);
    return problem == NULL;
}
