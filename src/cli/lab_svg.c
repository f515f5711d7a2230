#include "cli/lab_show.h"
#include "cli/out_file.h"

#include "cli/chart.h"
#include "cli/commands.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A run over time: how long the queue was waited in, who was served how much, what was in flight,
 * and what was refused. */

enum { WAIT, WORK, IN_FLIGHT, GAP, REFUSED, CHARTS };
enum { SHOWN_MAX = 8, SERIES_MAX = SHOWN_MAX + 2 * WEIR_LAB_UPSTREAMS_MAX };

struct picture {
    const struct lab_setup *setup;
    const struct weir_lab_results *results;
    uint32_t bins;
    uint32_t shown[SHOWN_MAX];
    uint32_t shown_count;
    double *room; /* x and y of each series of each chart */
    size_t room_used;
    struct cli_chart_series series[CHARTS][SERIES_MAX];
    size_t counts[CHARTS];
    const char *gap_label;
    char names[2 * WEIR_LAB_UPSTREAMS_MAX][WEIR_LAB_NAME_BYTES + 16];
};

/* A series under construction. */
struct line {
    struct cli_chart_series *series;
    double *x, *y;
};

static struct line add_line(struct picture *p, int chart, const char *name, bool is_dashed,
                            bool is_step)
{
    size_t points = p->bins + 2u;
    struct line line = {&p->series[chart][p->counts[chart]++], p->room + p->room_used,
                        p->room + p->room_used + points};
    p->room_used += 2 * points;
    *line.series = (struct cli_chart_series){
        .name = name, .x = line.x, .y = line.y, .is_dashed = is_dashed, .is_step = is_step};
    return line;
}

static void add_point(struct line *line, double x, double y)
{
    line->x[line->series->count] = x;
    line->y[line->series->count++] = y;
}

static double tenant_work(const struct picture *p, uint32_t t)
{
    const struct weir_pool_rules *pool = &p->setup->map->pools[p->setup->map->tenants[t].pool];
    const struct weir_lab_tenant_results *r = &p->results->tenants[t];
    return (double)pool->work_input * (double)r->prompt_tok +
           (double)pool->work_output * (double)r->output_tok;
}

/* The tenants with the most work, in the order of the file. */
static void choose_tenants(struct picture *p)
{
    uint32_t count = p->setup->map->scenario.tenant_count;
    for (uint32_t t = 0; t < count; t++) {
        uint32_t larger = 0;
        for (uint32_t other = 0; other < count; other++)
            larger += tenant_work(p, other) > tenant_work(p, t) ||
                      (tenant_work(p, other) == tenant_work(p, t) && other < t);
        if (larger < SHOWN_MAX)
            p->shown[p->shown_count++] = t;
    }
}

static void add_tenant(struct picture *p, uint32_t t)
{
    const char *name = p->setup->map->tenants[t].name;
    const struct weir_pool_rules *pool = &p->setup->map->pools[p->setup->map->tenants[t].pool];
    const struct weir_lab_tenant_bin *bins = p->results->tenants[t].bins;
    double bin_s = (double)p->results->bin_ns / 1e9, sum = 0;
    struct line wait = add_line(p, WAIT, name, false, false);
    struct line work = add_line(p, WORK, name, false, false);
    add_point(&work, 0, 0);
    for (uint32_t i = 0; i < p->bins; i++) {
        sum += (double)pool->work_input * (double)bins[i].prompt_tok +
               (double)pool->work_output * (double)bins[i].output_tok;
        add_point(&work, bin_s * (i + 1), sum);
        /* Some wait and none was dispatched: there is no wait to tell of. */
        if (bins[i].wait_max_ns > 0 || bins[i].waiting_ns == 0)
            add_point(&wait, bin_s * i, (double)bins[i].wait_max_ns / 1e9);
    }
    add_point(&wait, bin_s * p->bins, NAN); /* all charts end alike */
}

static void add_refusals(struct picture *p, uint32_t t)
{
    const struct weir_lab_tenant_bin *bins = p->results->tenants[t].bins;
    double bin_s = (double)p->results->bin_ns / 1e9;
    bool any = false;
    for (uint32_t i = 0; i < p->bins && !any; i++)
        any = bins[i].refused > 0;
    if (!any)
        return;
    struct line refused = add_line(p, REFUSED, p->setup->map->tenants[t].name, false, true);
    for (uint32_t i = 0; i <= p->bins; i++)
        add_point(&refused, bin_s * i, i < p->bins ? bins[i].refused / bin_s : 0);
}

static void add_upstream(struct picture *p, uint32_t u)
{
    const struct weir_lab_upstream_bin *bins = p->results->upstreams[u].bins;
    const char *name = p->setup->map->upstreams[u].name;
    double bin_ns = (double)p->results->bin_ns;
    snprintf(p->names[2 * u], sizeof p->names[0], "in flight at %s", name);
    snprintf(p->names[2 * u + 1], sizeof p->names[0], "limit of %s", name);
    struct line in_flight = add_line(p, IN_FLIGHT, p->names[2 * u], false, false);
    struct line limit = add_line(p, IN_FLIGHT, p->names[2 * u + 1], true, true);
    for (uint32_t i = 0; i < p->bins; i++) {
        /* The last bin is not whole: what it holds is of the part that was. */
        double length_ns = fmin(bin_ns, (double)p->results->now_ns - bin_ns * i);
        if (length_ns <= 0)
            continue;
        add_point(&in_flight, bin_ns * i / 1e9, (double)bins[i].in_flight_ns / length_ns);
        add_point(&limit, bin_ns * i / 1e9, (double)bins[i].permits_ns / length_ns);
    }
    add_point(&in_flight, bin_ns * p->bins / 1e9, NAN);
}

/* The gap of the lane that had the largest, with its bound: where two tenants waited all
 * through. */
static void add_gap(struct picture *p, bool in_requests)
{
    struct lab_gap worst;
    if (p->counts[GAP] || !lab_worst_gap(p->setup->map, p->results, in_requests, &worst))
        return;
    const struct weir_lab_gap_bin *bins = p->results->gaps[worst.pool][worst.lane].bins;
    double bin_s = (double)p->results->bin_ns / 1e9;
    struct line gap = add_line(p, GAP, "gap", false, false);
    struct line bound = {0};
    if (worst.window->bound_uwork != WEIR_GAP_NO_BOUND)
        bound = add_line(p, GAP, "its bound", true, false);
    add_point(&gap, 0, NAN); /* and begin alike */
    for (uint32_t i = 0; i < p->bins; i++) {
        bool is_told = bins[i].bound_uwork > 0;
        add_point(&gap, bin_s * (i + 1), is_told ? (double)bins[i].gap_uwork / 1e6 : NAN);
        if (bound.series)
            add_point(&bound, bin_s * (i + 1), is_told ? (double)bins[i].bound_uwork / 1e6 : NAN);
    }
    p->gap_label = in_requests ? "requests for its weight" : "work for its weight";
}

static bool fill(struct picture *p)
{
    p->room = calloc((size_t)CHARTS * SERIES_MAX * 2 * (p->bins + 2u), sizeof *p->room);
    if (!p->room)
        return false;
    choose_tenants(p);
    for (uint32_t i = 0; i < p->shown_count; i++) {
        add_tenant(p, p->shown[i]);
        add_refusals(p, p->shown[i]);
    }
    for (uint32_t u = 0; u < p->setup->map->scenario.upstream_count; u++)
        add_upstream(p, u);
    add_gap(p, false);
    add_gap(p, true);
    return true;
}

static bool write_picture(const struct picture *p, uint64_t seed, FILE *out)
{
    char title[700], note[160] = "";
    uint32_t count = p->setup->map->scenario.tenant_count;
    snprintf(title, sizeof title, "%s%s%s (seed %llu)", p->setup->name,
             *p->setup->changes ? " with " : "", p->setup->changes, (unsigned long long)seed);
    if (p->shown_count < count)
        snprintf(note, sizeof note, "The %u of %u tenants with the most work.", p->shown_count,
                 count);
    const struct {
        const char *title, *note, *y_label;
    } heads[CHARTS] = {
        [WAIT] = {"Longest wait in the queue", *note ? note : NULL,
                  "seconds, of the requests dispatched in a bin"},
        [WORK] = {"Work served so far", NULL,
                  "prompt and output tokens, weighted as fairness counts them"},
        [IN_FLIGHT] = {"Requests in flight", NULL, "requests"},
        [GAP] = {"Largest gap between two tenants that waited all through the last ten seconds",
                 NULL, p->gap_label},
        [REFUSED] = {"Refused requests", NULL, "a second"}};
    struct cli_chart charts[CHARTS];
    size_t charts_count = 0;
    for (int c = 0; c < CHARTS; c++)
        if (p->counts[c] > 0)
            charts[charts_count++] = (struct cli_chart){.title = heads[c].title,
                                                        .note = heads[c].note,
                                                        .x_label = "seconds since the start",
                                                        .y_label = heads[c].y_label,
                                                        .series = p->series[c],
                                                        .series_count = p->counts[c]};
    charts[charts_count - 1].note = lab_note; /* work and what was in flight are always there */
    return cli_chart_write(out, title, NULL, false, charts, charts_count);
}

int lab_show_svg(const struct lab_setup *setup, const struct lab_run *run, const char *path)
{
    static struct picture picture; /* large */
    picture =
        (struct picture){.setup = setup, .results = run->results, .bins = run->results->bin_count};
    bool is_stdout = strcmp(path, "-") == 0, done = false;
    const char *problem = is_stdout ? NULL : cli_out_problem(path, CLI_CHART_BEGIN);
    if (problem) {
        fprintf(stderr, "weir lab: --svg: %s: %s; name another file, or remove it\n", path,
                problem);
        return CLI_FAULT_STATUS;
    }
    errno = 0;
    FILE *out = is_stdout ? stdout : fopen(path, "w");
    if (out && fill(&picture))
        done = write_picture(&picture, run->seed, out);
    if (out && !is_stdout && fclose(out) != 0)
        done = false;
    if (!done)
        fprintf(stderr, "weir lab: %s cannot be written: %s\n", path, strerror(errno));
    free(picture.room);
    return done ? CLI_DONE_STATUS : CLI_FAULT_STATUS;
}
