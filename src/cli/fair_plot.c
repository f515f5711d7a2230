#include "cli/fair.h"

#include "cli/chart.h"
#include "cli/out_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define POINTS_MAX 2000u /* of a line; more do not show */

/* One chart: two lines a tenant, served and ideal, whose points lie behind each other in
 * `points`. */
struct picture {
    struct cli_chart_series series[2 * WEIR_FAIR_TENANTS_MAX];
    char names[2 * WEIR_FAIR_TENANTS_MAX][FAIR_NAME_BYTES + 8];
    char note[640];
    double *points;
};

static void write_note(const struct fair_report *r, const struct fair_outcome *o, char note[640])
{
    size_t used = 0;
    note[0] = '\0';
    for (uint32_t c = 0; c < WEIR_FAIR_COUNTS; c++) {
        const struct weir_fair_gap *gap = &o->result.gaps[c];
        char a[FAIR_AMOUNT_BYTES], b[FAIR_AMOUNT_BYTES];
        if ((!gap->is_bounded && c != WEIR_FAIR_DISPATCHED) || gap->ahead == WEIR_NONE)
            continue;
        int bytes = snprintf(note + used, 640 - used, "%sWorst gap, %s: %s (%s over %s), bound %s.",
                             used ? " " : "", weir_fair_count_name((enum weir_fair_count)c),
                             fair_amount(gap->gap, a), r->setup->tenants[gap->ahead].name,
                             r->setup->tenants[gap->behind].name,
                             gap->is_bounded ? fair_amount(gap->bound, b) : "none");
        used = weir_min_u64(used + (size_t)bytes, 639);
    }
}

static size_t points_of(const struct fair_log *log)
{
    return 1 + weir_min_u64(log->count, POINTS_MAX);
}

/* The k-th point: the start, then steps spread evenly up to the last. */
static size_t step_of(const struct fair_log *log, size_t k)
{
    size_t points = points_of(log) - 1;
    return (k * log->count + points - 1) / points - 1;
}

static bool picture_fill(struct picture *p, const struct fair_report *r,
                         const struct fair_outcome *o)
{
    const struct fair_log *log = &o->log;
    uint32_t tenants = r->setup->tenants_count;
    size_t count = points_of(log);
    p->points = calloc(count * (1 + 2 * (size_t)tenants), sizeof *p->points);
    if (!p->points)
        return false;
    double *x = p->points;
    for (size_t k = 1; k < count; k++)
        x[k] = (double)log->steps[step_of(log, k)].at_ns / 1e9;
    for (uint32_t i = 0; i < 2 * tenants; i++) {
        bool is_ideal = i >= tenants;
        uint32_t tenant = i % tenants;
        double *y = p->points + (1 + (size_t)i) * count;
        const double *from = is_ideal ? log->ideal : log->served;
        for (size_t k = 1; k < count; k++)
            y[k] = from[step_of(log, k) * tenants + tenant];
        snprintf(p->names[i], sizeof p->names[i], "%s%s", r->setup->tenants[tenant].name,
                 is_ideal ? ", ideal" : "");
        p->series[i] = (struct cli_chart_series){.name = p->names[i],
                                                 .x = x,
                                                 .y = y,
                                                 .count = count,
                                                 .is_dashed = is_ideal,
                                                 .is_step = true};
    }
    write_note(r, o, p->note);
    return true;
}

static bool write_file(const struct cli_chart *charts, size_t count, const char *path)
{
    bool is_stdout = strcmp(path, "-") == 0;
    FILE *out = is_stdout ? stdout : fopen(path, "w");
    if (!out)
        return false;
    bool ok = cli_chart_write(out, "weir fair: service over time beside ideal", NULL, false, charts,
                              count);
    int error = errno;
    if (!is_stdout && fclose(out) != 0 && ok) {
        error = errno;
        ok = false;
    }
    errno = error;
    return ok;
}

bool fair_plot(const struct fair_report *r, const char *path, struct fair_error *error)
{
    struct picture *pictures = calloc(r->count, sizeof *pictures);
    struct cli_chart charts[WEIR_FAIR_POLICIES];
    bool ok = pictures != NULL;
    const char *problem = strcmp(path, "-") == 0 ? NULL : cli_out_problem(path, CLI_CHART_BEGIN);
    for (uint32_t i = 0; ok && i < r->count; i++) {
        ok = picture_fill(&pictures[i], r, &r->outcomes[i]);
        charts[i] = (struct cli_chart){.title = weir_fair_policy_name(r->outcomes[i].policy),
                                       .note = pictures[i].note[0] ? pictures[i].note : NULL,
                                       .x_label = "seconds",
                                       .y_label = "work dispatched",
                                       .series = pictures[i].series,
                                       .series_count = 2 * (size_t)r->setup->tenants_count};
    }
    if (!ok) {
        snprintf(error->text, sizeof error->text, "out of memory");
    } else if (problem) {
        ok = false;
        snprintf(error->text, sizeof error->text, "%.300s: %s; name another file, or remove it",
                 path, problem);
    } else if (!write_file(charts, r->count, path)) {
        ok = false;
        snprintf(error->text, sizeof error->text, "%.300s: %s", path, strerror(errno));
    }
    for (uint32_t i = 0; pictures && i < r->count; i++)
        free(pictures[i].points);
    free(pictures);
    return ok;
}
