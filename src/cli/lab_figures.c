#include "cli/lab_figures.h"

#include "measure/difference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct lab_figure_row lab_figure_rows[LAB_FIGURES] = {
    [LAB_SENT] = {"sent", "sent", LAB_UNIT_COUNT, false},
    [LAB_FINISHED] = {"finished", "finished", LAB_UNIT_COUNT, true},
    [LAB_REFUSED] = {"refused", "refused", LAB_UNIT_COUNT, true},
    [LAB_FAILED] = {"failed", "failed", LAB_UNIT_COUNT, true},
    [LAB_RETRIES] = {"retries", "retries", LAB_UNIT_COUNT, false},
    [LAB_WAIT_P50] = {"queue_wait_p50_s", "wait p50", LAB_UNIT_SECONDS, false},
    [LAB_WAIT_P95] = {"queue_wait_p95_s", "wait p95", LAB_UNIT_SECONDS, true},
    [LAB_WAIT_P99] = {"queue_wait_p99_s", "wait p99", LAB_UNIT_SECONDS, false},
    [LAB_FIRST_P50] = {"first_token_p50_s", "first p50", LAB_UNIT_SECONDS, false},
    [LAB_FIRST_P95] = {"first_token_p95_s", "first p95", LAB_UNIT_SECONDS, true},
    [LAB_TOKENS] = {"tokens_per_s", "tokens/s", LAB_UNIT_RATE, true},
    [LAB_WORK_SHARE] = {"work_share", "share", LAB_UNIT_PERCENT, false},
    [LAB_GOOD] = {"good_share", "in goal", LAB_UNIT_PERCENT, true},
    [LAB_GOOD_RATE] = {"goodput_per_s", "good/s", LAB_UNIT_RATE, false},
};

const struct lab_figure_row lab_whole_rows[LAB_WHOLES] = {
    [LAB_BUSY] = {"backend_busy", "backend busy", LAB_UNIT_PERCENT, true},
    [LAB_IN_FLIGHT] = {"in_flight_max", "in flight at most", LAB_UNIT_COUNT, false},
    [LAB_LOST] = {"lost_tokens", "tokens made in vain", LAB_UNIT_COUNT, true},
    [LAB_TRIPS] = {"open_s", "breaker open", LAB_UNIT_SECONDS, false},
    [LAB_DIFFERENCE] = {"service_difference", "service difference", LAB_UNIT_RATE, true},
    [LAB_GAP] = {"gap_work", "worst gap", LAB_UNIT_COUNT, true},
    [LAB_GAP_BOUND] = {"gap_bound_work", "its bound", LAB_UNIT_COUNT, true},
    [LAB_JAIN] = {"jain", "Jain's index there", LAB_UNIT_INDEX, true},
};

/* ---- one run ---- */

static double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

static double quantile(const struct weir_hist *h, uint64_t percent)
{
    return h->count ? seconds(weir_hist_quantile(h, percent, 100)) : NAN;
}

static double share(double part, double whole)
{
    return whole > 0 ? part / whole : NAN;
}

static double work_of(const struct lab_map *map, uint32_t tenant, uint64_t prompt_tok,
                      uint64_t output_tok)
{
    const struct weir_pool_rules *pool = &map->pools[map->tenants[tenant].pool];
    return (double)pool->work_input * (double)prompt_tok +
           (double)pool->work_output * (double)output_tok;
}

/* Adds up what can be added; the rest is made of what was added. */
static void add_results(struct weir_lab_tenant_results *to,
                        const struct weir_lab_tenant_results *from)
{
    to->offered += from->offered;
    to->finished += from->finished;
    to->refused += from->refused;
    to->failed += from->failed;
    to->cut += from->cut;
    to->gave_up += from->gave_up;
    to->good += from->good;
    to->tries += from->tries;
    to->prompt_tok += from->prompt_tok;
    to->output_tok += from->output_tok;
    weir_hist_merge(&to->queue_wait_ns, &from->queue_wait_ns);
    weir_hist_merge(&to->first_token_ns, &from->first_token_ns);
}

static void figures_of_tenant(const struct weir_lab_tenant_results *r, double work, double work_all,
                              double elapsed_s, double figures[LAB_FIGURES])
{
    figures[LAB_SENT] = (double)r->offered;
    figures[LAB_FINISHED] = (double)r->finished;
    figures[LAB_REFUSED] = (double)r->refused;
    figures[LAB_FAILED] = (double)(r->failed + r->cut + r->gave_up);
    figures[LAB_RETRIES] = (double)(r->tries > r->offered ? r->tries - r->offered : 0);
    figures[LAB_WAIT_P50] = quantile(&r->queue_wait_ns, 50);
    figures[LAB_WAIT_P95] = quantile(&r->queue_wait_ns, 95);
    figures[LAB_WAIT_P99] = quantile(&r->queue_wait_ns, 99);
    figures[LAB_FIRST_P50] = quantile(&r->first_token_ns, 50);
    figures[LAB_FIRST_P95] = quantile(&r->first_token_ns, 95);
    figures[LAB_TOKENS] = share((double)r->prompt_tok + (double)r->output_tok, elapsed_s);
    figures[LAB_WORK_SHARE] = share(work, work_all);
    figures[LAB_GOOD] = share((double)r->good, (double)r->offered);
    figures[LAB_GOOD_RATE] = share((double)r->good, elapsed_s);
}

bool lab_worst_gap(const struct lab_map *map, const struct weir_lab_results *results,
                   bool in_requests, struct lab_gap *gap)
{
    bool any = false;
    *gap = (struct lab_gap){0};
    for (uint32_t pool = 0; pool < map->scenario.pool_count; pool++)
        for (uint32_t lane = 0; lane < map->scenario.lanes.lane_count; lane++) {
            const struct weir_lab_gap_results *r = &results->gaps[pool][lane];
            const struct weir_gap_window *window = &r->worst[WEIR_LAB_GAP_WINDOW];
            uint64_t ended_ns = r->worst_ns[WEIR_LAB_GAP_WINDOW];
            if ((map->pools[pool].policy == WEIR_SCHED_DRR) != in_requests || ended_ns == 0 ||
                (any && window->gap_uwork <= gap->window->gap_uwork))
                continue;
            *gap = (struct lab_gap){pool, lane, window, ended_ns};
            any = true;
        }
    return any;
}

/* 19 windows over the traffic, a quarter of it long and a minute at most. */
static double difference_of(const struct lab_map *map, const struct weir_trace_entry *entries,
                            size_t count)
{
    double whole_s = seconds(map->scenario.traffic_ns), window_s = fmin(60, whole_s / 4);
    const struct weir_difference_points points = {
        .step_s = (whole_s - window_s) / 18, .window_s = window_s, .count = 19};
    struct weir_difference difference;
    return weir_difference_compute(entries, count, map->scenario.tenant_count, &points, &difference)
               ? NAN
               : difference.mean;
}

static void figures_of_whole(const struct lab_map *map, const struct weir_lab_results *results,
                             double whole[LAB_WHOLES])
{
    double busy_ns = 0, replicas = 0, open_ns = 0;
    whole[LAB_IN_FLIGHT] = whole[LAB_LOST] = 0;
    for (uint32_t u = 0; u < map->scenario.upstream_count; u++) {
        const struct weir_lab_upstream_results *r = &results->upstreams[u];
        busy_ns += (double)r->backend.busy_ns;
        replicas += map->upstreams[u].backend.replicas;
        whole[LAB_IN_FLIGHT] = fmax(whole[LAB_IN_FLIGHT], r->in_flight_max);
        for (uint32_t i = 0; i < results->bin_count; i++)
            open_ns += (double)r->bins[i].open_ns;
    }
    for (uint32_t t = 0; t < map->scenario.tenant_count; t++)
        whole[LAB_LOST] += (double)results->tenants[t].lost_tok;
    whole[LAB_BUSY] = share(busy_ns, replicas * (double)results->now_ns);
    whole[LAB_TRIPS] = open_ns / 1e9;
    whole[LAB_GAP] = whole[LAB_GAP_BOUND] = whole[LAB_JAIN] = NAN;
    struct lab_gap gap;
    if (!lab_worst_gap(map, results, false, &gap))
        return;
    whole[LAB_GAP] = (double)gap.window->gap_uwork / 1e6;
    whole[LAB_JAIN] = (double)gap.window->jain_ppm / 1e6;
    if (gap.window->bound_uwork != WEIR_GAP_NO_BOUND)
        whole[LAB_GAP_BOUND] = (double)gap.window->bound_uwork / 1e6;
}

void lab_figures_of(const struct lab_map *map, const struct weir_lab_results *results,
                    const struct weir_trace_entry *entries, size_t entries_count,
                    struct lab_figures *figures)
{
    uint32_t count = map->scenario.tenant_count;
    double elapsed_s = seconds(results->now_ns), work_all = 0;
    static struct weir_lab_tenant_results all; /* some 50 kB: not on the stack */
    memset(&all, 0, sizeof all);
    for (uint32_t t = 0; t < count; t++) {
        const struct weir_lab_tenant_results *r = &results->tenants[t];
        work_all += work_of(map, t, r->prompt_tok, r->output_tok);
        add_results(&all, r);
    }
    for (uint32_t t = 0; t < count; t++) {
        const struct weir_lab_tenant_results *r = &results->tenants[t];
        figures_of_tenant(r, work_of(map, t, r->prompt_tok, r->output_tok), work_all, elapsed_s,
                          figures->tenants[t]);
    }
    figures_of_tenant(&all, work_all, work_all, elapsed_s, figures->tenants[count]);
    figures_of_whole(map, results, figures->whole);
    figures->whole[LAB_DIFFERENCE] = difference_of(map, entries, entries_count);
}

/* ---- several ---- */

double lab_student_t(uint32_t degrees)
{
    static const double exact[] = {12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060,
                                   2.2622,  2.2281, 2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199,
                                   2.1098,  2.1009, 2.0930, 2.0860, 2.0796, 2.0739, 2.0687, 2.0639,
                                   2.0595,  2.0555, 2.0518, 2.0484, 2.0452, 2.0423};
    if (degrees - 1 < WEIR_COUNT(exact))
        return exact[degrees - 1];
    /* Cornish and Fisher's expansion around the normal's quantile, right to 1e-5 from here on. */
    double z = 1.959964, z3 = z * z * z, z5 = z3 * z * z, n = degrees;
    return z + (z3 + z) / (4 * n) + (5 * z5 + 16 * z3 + 3 * z) / (96 * n * n);
}

struct lab_mean lab_mean_of(const double *values, size_t count)
{
    struct lab_mean m = {.mean = NAN, .half = NAN};
    double sum = 0, squares = 0;
    for (size_t i = 0; i < count; i++)
        if (isfinite(values[i])) {
            sum += values[i];
            m.count++;
        }
    if (m.count == 0)
        return m;
    m.mean = sum / m.count;
    for (size_t i = 0; i < count; i++)
        if (isfinite(values[i]))
            squares += (values[i] - m.mean) * (values[i] - m.mean);
    if (m.count > 1)
        m.half = lab_student_t(m.count - 1) * sqrt(squares / (m.count - 1) / m.count);
    return m;
}
