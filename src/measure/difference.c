#include "measure/difference.h"

#include <math.h>
#include <stdlib.h>

const struct weir_difference_points weir_difference_published = {
    .first_s = 28.5, .step_s = 28.5, .window_s = 60, .count = 19};

struct difference_tenant {
    double service, demand; /* work in the window at hand */
    bool is_served;         /* ever */
};

static bool difference_is_served(const struct weir_trace_entry *e)
{
    return e->outcome == WEIR_TRACE_FINISHED;
}

static double difference_seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

/* How much of work that is spread evenly over first..last falls in from..until. */
static double difference_part(double work, double first_s, double last_s, double from_s,
                              double until_s)
{
    if (last_s <= first_s) /* all at once */
        return first_s >= from_s && first_s <= until_s ? work : 0;
    double overlap_s = fmin(last_s, until_s) - fmax(first_s, from_s);
    return overlap_s > 0 ? work * overlap_s / (last_s - first_s) : 0;
}

static void difference_window(struct difference_tenant *tenants, uint32_t tenants_count,
                              const struct weir_trace_entry *entries, size_t count, double from_s,
                              double until_s)
{
    for (uint32_t t = 0; t < tenants_count; t++)
        tenants[t].service = tenants[t].demand = 0;
    for (size_t i = 0; i < count; i++) {
        const struct weir_trace_entry *e = &entries[i];
        if (!difference_is_served(e))
            continue;
        struct difference_tenant *t = &tenants[e->tenant];
        double arrival_s = difference_seconds(e->arrival_ns);
        double work = (double)e->prompt_tok + 2.0 * (double)e->output_tok;
        t->service +=
            difference_part(work, arrival_s + difference_seconds(e->first_byte_ns),
                            arrival_s + difference_seconds(e->latency_ns), from_s, until_s);
        if (arrival_s >= from_s && arrival_s <= until_s)
            t->demand += work;
    }
}

/* The difference in the window at hand, per second. */
static double difference_sum(const struct difference_tenant *tenants, uint32_t tenants_count,
                             double window_s)
{
    double most = 0, sum = 0;
    for (uint32_t t = 0; t < tenants_count; t++)
        most = fmax(most, tenants[t].service);
    for (uint32_t t = 0; t < tenants_count; t++)
        if (tenants[t].is_served)
            sum += fmin(most - tenants[t].service, fabs(tenants[t].demand - tenants[t].service));
    return sum / window_s;
}

/* Marks served tenants; counts; the sum of tokens and the last token's time. */
static const char *difference_total(struct difference_tenant *tenants,
                                    const struct weir_trace_entry *entries, size_t count,
                                    struct weir_difference *result)
{
    double tokens = 0;
    *result = (struct weir_difference){0};
    for (size_t i = 0; i < count; i++) {
        const struct weir_trace_entry *e = &entries[i];
        if (!e->is_measured)
            return "the trace does not tell when requests were served (first_token_s, latency_s)";
        result->refused += e->outcome == WEIR_TRACE_REFUSED;
        result->left += !difference_is_served(e) && e->outcome != WEIR_TRACE_REFUSED;
        if (!difference_is_served(e))
            continue;
        result->served++;
        tenants[e->tenant].is_served = true;
        tokens += (double)e->prompt_tok + (double)e->output_tok;
        result->run_s = fmax(result->run_s, difference_seconds(e->arrival_ns + e->latency_ns));
    }
    if (result->served == 0)
        return "no request was served";
    result->throughput_tok_per_s = result->run_s > 0 ? tokens / result->run_s : 0;
    return NULL;
}

const char *weir_difference_compute(const struct weir_trace_entry *entries, size_t count,
                                    uint32_t tenants_count,
                                    const struct weir_difference_points *points,
                                    struct weir_difference *result)
{
    struct difference_tenant *tenants = calloc(tenants_count ? tenants_count : 1, sizeof *tenants);
    double *at = calloc(points->count, sizeof *at);
    const char *problem = "out of memory";
    if (tenants && at)
        problem = difference_total(tenants, entries, count, result);
    for (uint32_t j = 0; !problem && j < points->count; j++) {
        double from_s = points->first_s + j * points->step_s;
        difference_window(tenants, tenants_count, entries, count, from_s,
                          from_s + points->window_s);
        at[j] = difference_sum(tenants, tenants_count, points->window_s);
        result->max = fmax(result->max, at[j]);
        result->mean += at[j] / points->count;
    }
    for (uint32_t j = 0; !problem && j < points->count; j++)
        result->variance += (at[j] - result->mean) * (at[j] - result->mean) / points->count;
    free(tenants);
    free(at);
    return problem;
}
