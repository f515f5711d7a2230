#include "cli/lab_show.h"

#include "cli/commands.h"
#include "cli/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Several seeds of one setup, and two setups beside each other over the same seeds. */

static double *room_for(uint32_t count)
{
    double *values = calloc(count + 1u, sizeof *values);
    if (!values) {
        fputs("weir lab: out of memory\n", stderr);
        exit(CLI_FAULT_STATUS);
    }
    return values;
}

static struct lab_mean mean_of(const struct lab_batch *batch, uint32_t row, enum lab_figure figure)
{
    double *values = room_for(batch->count);
    lab_collect(batch, row, figure, values);
    struct lab_mean mean = lab_mean_of(values, batch->count);
    free(values);
    return mean;
}

static struct lab_mean mean_of_whole(const struct lab_batch *batch, enum lab_whole figure)
{
    double *values = room_for(batch->count);
    lab_collect_whole(batch, figure, values);
    struct lab_mean mean = lab_mean_of(values, batch->count);
    free(values);
    return mean;
}

/* "1.23 s ± 0.04 s", of one value "1.23 s". */
static const char *mean_cell(enum lab_unit unit, struct lab_mean mean, char out[2 * LAB_CELL_BYTES])
{
    char middle[LAB_CELL_BYTES], half[LAB_CELL_BYTES];
    lab_cell(unit, mean.mean, middle);
    if (isfinite(mean.half))
        snprintf(out, 2 * LAB_CELL_BYTES, "%s +-%s", middle, lab_cell(unit, mean.half, half));
    else
        snprintf(out, 2 * LAB_CELL_BYTES, "%s", middle);
    return out;
}

static json_t *mean_json(struct lab_mean mean)
{
    return json_pack("{s:o, s:o, s:I}", "mean", lab_number(mean.mean), "half_width_95",
                     lab_number(mean.half), "runs", (json_int_t)mean.count);
}

static void put_seeds(const struct lab_batch *batch)
{
    printf("seeds %llu to %llu: means, +- half of the 95 %% confidence interval (Student's t)\n\n",
           (unsigned long long)batch->seed, (unsigned long long)(batch->seed + batch->count - 1));
}

/* ---- several seeds ---- */

void lab_show_many_table(const struct lab_batch *batch)
{
    const struct lab_setup *setup = batch->setup;
    struct cli_table table = {.titles = {"tenant"}, .columns = 1};
    char cell[2 * LAB_CELL_BYTES];
    for (int f = 0; f < LAB_FIGURES; f++)
        if (lab_figure_rows[f].is_headline && f != LAB_FAILED) {
            table.titles[table.columns] = lab_figure_rows[f].title;
            table.right[table.columns++] = true;
        }
    lab_put_head(setup);
    put_seeds(batch);
    for (uint32_t row = 0; row <= setup->map->scenario.tenant_count; row++) {
        cli_table_add(&table, lab_tenant_name(setup, row));
        for (int f = 0; f < LAB_FIGURES; f++)
            if (lab_figure_rows[f].is_headline && f != LAB_FAILED)
                cli_table_add(&table, mean_cell(lab_figure_rows[f].unit,
                                                mean_of(batch, row, (enum lab_figure)f), cell));
    }
    cli_table_print(&table, true);
    putchar('\n');
    for (int w = 0; w < LAB_WHOLES; w++) {
        struct lab_mean mean = mean_of_whole(batch, (enum lab_whole)w);
        if (mean.count)
            printf("%s: %s\n", lab_whole_rows[w].title,
                   mean_cell(lab_whole_rows[w].unit, mean, cell));
    }
    printf("\n%s\n", lab_note);
}

void lab_show_many_csv(const struct lab_batch *batch)
{
    puts("tenant,figure,mean,half_width_95,runs");
    for (uint32_t row = 0; row <= batch->setup->map->scenario.tenant_count; row++)
        for (int f = 0; f < LAB_FIGURES; f++) {
            struct lab_mean mean = mean_of(batch, row, (enum lab_figure)f);
            cli_put_csv(stdout, lab_tenant_name(batch->setup, row));
            printf(",%s", lab_figure_rows[f].key);
            lab_put_csv_number(mean.mean);
            lab_put_csv_number(mean.half);
            printf(",%u\n", mean.count);
        }
}

static json_t *batch_json(const struct lab_batch *batch)
{
    const struct lab_setup *setup = batch->setup;
    json_t *tenants = json_object(), *whole = json_object();
    for (uint32_t row = 0; row <= setup->map->scenario.tenant_count; row++) {
        json_t *figures = json_object();
        for (int f = 0; f < LAB_FIGURES; f++)
            json_object_set_new(figures, lab_figure_rows[f].key,
                                mean_json(mean_of(batch, row, (enum lab_figure)f)));
        if (row < setup->map->scenario.tenant_count)
            json_object_set_new(tenants, lab_tenant_name(setup, row), figures);
        else
            json_object_set_new(whole, "all", figures);
    }
    json_t *run = json_object();
    for (int w = 0; w < LAB_WHOLES; w++)
        json_object_set_new(run, lab_whole_rows[w].key,
                            mean_json(mean_of_whole(batch, (enum lab_whole)w)));
    json_t *object =
        json_pack("{s:s, s:s, s:s, s:I, s:I, s:o, s:o}", "scenario", setup->name, "about",
                  setup->about, "changes", setup->changes, "first_seed", (json_int_t)batch->seed,
                  "runs", (json_int_t)batch->count, "tenants", tenants, "run", run);
    json_object_update(object, whole);
    json_decref(whole);
    return object;
}

int lab_show_many_json(const struct lab_batch *batch)
{
    json_t *object = batch_json(batch);
    json_object_set_new(object, "note", json_string(lab_note));
    return cli_print_json(object) ? CLI_DONE_STATUS : CLI_FAULT_STATUS;
}

/* ---- two setups ---- */

/* The row of b that has the name of that row of a; WEIR_NONE: there is none. */
static uint32_t same_row(const struct lab_batch *a, uint32_t row, const struct lab_batch *b)
{
    uint32_t count = b->setup->map->scenario.tenant_count;
    if (row == a->setup->map->scenario.tenant_count)
        return count;
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(lab_tenant_name(a->setup, row), lab_tenant_name(b->setup, i)) == 0)
            return i;
    return WEIR_NONE;
}

/* b - a, seed by seed. */
static struct lab_mean difference_of(const double *a, const double *b, uint32_t count)
{
    double *values = room_for(count);
    for (uint32_t i = 0; i < count; i++)
        values[i] = b[i] - a[i];
    struct lab_mean mean = lab_mean_of(values, count);
    free(values);
    return mean;
}

/* Leaves out the seeds in which only one side has a value, so that the means differ by the mean
 * difference; but not all: where a side never has one, the other's are kept. */
static void keep_pairs(double *a, double *b, uint32_t count)
{
    uint32_t both = 0;
    for (uint32_t i = 0; i < count; i++)
        both += isfinite(a[i]) && isfinite(b[i]);
    for (uint32_t i = 0; i < count && both > 0; i++)
        if (!isfinite(a[i]) || !isfinite(b[i]))
            a[i] = b[i] = NAN;
}

/* One figure of both: their means and that of the difference. */
struct pair {
    const char *tenant; /* "" for the run as a whole */
    const struct lab_figure_row *figure;
    struct lab_mean a, b, difference;
};

typedef void pair_fn(const struct pair *pair, void *ctx);

static void each_tenant_pair(const struct lab_batch *a, const struct lab_batch *b,
                             enum lab_figure figure, pair_fn *each, void *ctx)
{
    double *of_a = room_for(a->count), *of_b = room_for(b->count);
    for (uint32_t row = 0; row <= a->setup->map->scenario.tenant_count; row++) {
        uint32_t other = same_row(a, row, b);
        if (other == WEIR_NONE)
            continue;
        lab_collect(a, row, figure, of_a);
        lab_collect(b, other, figure, of_b);
        keep_pairs(of_a, of_b, a->count);
        struct pair pair = {lab_tenant_name(a->setup, row), &lab_figure_rows[figure],
                            lab_mean_of(of_a, a->count), lab_mean_of(of_b, b->count),
                            difference_of(of_a, of_b, a->count)};
        each(&pair, ctx);
    }
    free(of_a);
    free(of_b);
}

static void each_pair(const struct lab_batch *a, const struct lab_batch *b, pair_fn *each,
                      void *ctx)
{
    for (int f = 0; f < LAB_FIGURES; f++)
        each_tenant_pair(a, b, (enum lab_figure)f, each, ctx);
    double *of_a = room_for(a->count), *of_b = room_for(b->count);
    for (int w = 0; w < LAB_WHOLES; w++) {
        lab_collect_whole(a, (enum lab_whole)w, of_a);
        lab_collect_whole(b, (enum lab_whole)w, of_b);
        keep_pairs(of_a, of_b, a->count);
        struct pair pair = {"", &lab_whole_rows[w], lab_mean_of(of_a, a->count),
                            lab_mean_of(of_b, b->count), difference_of(of_a, of_b, a->count)};
        each(&pair, ctx);
    }
    free(of_a);
    free(of_b);
}

struct difference_table {
    struct cli_table table;
    const struct lab_figure_row *last; /* its title stands once */
    bool has_intervals;
};

static bool is_nothing(struct lab_mean mean)
{
    return mean.count == 0 || (mean.mean == 0 && !(mean.half > 0));
}

static void add_pair(const struct pair *pair, void *ctx)
{
    struct difference_table *d = ctx;
    enum lab_unit unit = pair->figure->unit;
    char cell[2 * LAB_CELL_BYTES];
    if (!pair->figure->is_headline || (is_nothing(pair->a) && is_nothing(pair->b)))
        return;
    cli_table_add(&d->table, pair->figure == d->last ? "" : pair->figure->title);
    d->last = pair->figure;
    cli_table_add(&d->table, pair->tenant);
    cli_table_add(&d->table, lab_cell(unit, pair->a.mean, cell));
    cli_table_add(&d->table, lab_cell(unit, pair->b.mean, cell));
    mean_cell(unit, pair->difference, cell);
    cli_table_add(&d->table, cell);
    if (d->has_intervals)
        cli_table_add(&d->table,
                      fabs(pair->difference.mean) > pair->difference.half ? "differs" : "");
}

static void put_heads(const struct lab_setup *a, const struct lab_setup *b)
{
    bool is_same = strcmp(a->name, b->name) == 0;
    if (is_same)
        printf("%s%s%s\n", a->name, *a->about ? ": " : "", a->about);
    const struct lab_setup *each[] = {a, b};
    for (int i = 0; i < 2; i++)
        printf("%c: %s%s%s\n", "AB"[i], is_same ? "" : each[i]->name,
               *each[i]->changes ? (is_same ? "" : ", with ")
               : is_same         ? "as it is"
                                 : "",
               each[i]->changes);
}

void lab_show_difference_table(const struct lab_batch *a, const struct lab_batch *b)
{
    struct difference_table d = {.table = {.titles = {"", "tenant", "A", "B", "B - A"},
                                           .right = {false, false, true, true, true},
                                           .columns = 5},
                                 .has_intervals = a->count > 1};
    if (d.has_intervals) {
        d.table.titles[5] = "";
        d.table.columns = 6;
    }
    put_heads(a->setup, b->setup);
    if (a->count > 1)
        put_seeds(a);
    else
        printf("seed %llu\n\n", (unsigned long long)a->seed);
    each_pair(a, b, add_pair, &d);
    cli_table_print(&d.table, true);
    if (d.has_intervals)
        puts("\ndiffers: the interval of the difference, seed by seed, does not hold 0.");
    printf("\n%s\n", lab_note);
}

static void put_csv_pair(const struct pair *pair, void *ctx)
{
    (void)ctx;
    cli_put_csv(stdout, pair->tenant);
    printf(",%s", pair->figure->key);
    lab_put_csv_number(pair->a.mean);
    lab_put_csv_number(pair->b.mean);
    lab_put_csv_number(pair->difference.mean);
    lab_put_csv_number(pair->difference.half);
    printf(",%u\n", pair->difference.count);
}

void lab_show_difference_csv(const struct lab_batch *a, const struct lab_batch *b)
{
    puts("tenant,figure,a,b,difference,half_width_95,runs");
    each_pair(a, b, put_csv_pair, NULL);
}

static void add_json_pair(const struct pair *pair, void *ctx)
{
    json_t *list = ctx;
    json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:o, s:o}", "tenant", pair->tenant,
                                          "figure", pair->figure->key, "a",
                                          lab_number(pair->a.mean), "b", lab_number(pair->b.mean),
                                          "difference", mean_json(pair->difference)));
}

int lab_show_difference_json(const struct lab_batch *a, const struct lab_batch *b)
{
    json_t *list = json_array();
    each_pair(a, b, add_json_pair, list);
    return cli_print_json(json_pack("{s:o, s:o, s:o, s:s}", "a", batch_json(a), "b", batch_json(b),
                                    "differences", list, "note", lab_note))
               ? CLI_DONE_STATUS
               : CLI_FAULT_STATUS;
}

/* ---- several orders of service ---- */

static const char *policy_of(const struct lab_batch *batch)
{
    return weir_sched_policy_name(batch->setup->map->pools[0].policy);
}

/* Of all tenants together, but for the longest wait and the least share in goal: those are of the
 * tenant that fares worst, since that is what an order is chosen for. */
static struct lab_mean worst_of(const struct lab_batch *batch, enum lab_figure figure, bool is_most)
{
    double *values = room_for(batch->count);
    for (uint32_t i = 0; i < batch->count; i++) {
        values[i] = NAN;
        for (uint32_t t = 0; t < batch->setup->map->scenario.tenant_count; t++) {
            double value = batch->runs[i].tenants[t][figure];
            bool is_worse = is_most ? value > values[i] : value < values[i];
            if (isfinite(value) && (isnan(values[i]) || is_worse))
                values[i] = value;
        }
    }
    struct lab_mean mean = lab_mean_of(values, batch->count);
    free(values);
    return mean;
}

struct policy_figure {
    const char *title, *key;
    enum lab_unit unit;
    enum { OF_ALL, OF_WORST_MOST, OF_WORST_LEAST, OF_RUN } of;
    int figure;
};

static const struct policy_figure policy_figures[] = {
    {"finished", "finished", LAB_UNIT_COUNT, OF_ALL, LAB_FINISHED},
    {"refused", "refused", LAB_UNIT_COUNT, OF_ALL, LAB_REFUSED},
    {"tokens/s", "tokens_per_s", LAB_UNIT_RATE, OF_ALL, LAB_TOKENS},
    {"least in goal", "least_good_share", LAB_UNIT_PERCENT, OF_WORST_LEAST, LAB_GOOD},
    {"longest wait p95", "longest_queue_wait_p95_s", LAB_UNIT_SECONDS, OF_WORST_MOST, LAB_WAIT_P95},
    {"service difference", "service_difference", LAB_UNIT_RATE, OF_RUN, LAB_DIFFERENCE},
    {"worst gap", "gap_work", LAB_UNIT_COUNT, OF_RUN, LAB_GAP},
    {"its bound", "gap_bound_work", LAB_UNIT_COUNT, OF_RUN, LAB_GAP_BOUND},
    {"Jain there", "jain", LAB_UNIT_INDEX, OF_RUN, LAB_JAIN},
};

static struct lab_mean policy_mean(const struct lab_batch *batch, const struct policy_figure *f)
{
    switch (f->of) {
    case OF_ALL:
        return mean_of(batch, batch->setup->map->scenario.tenant_count, (enum lab_figure)f->figure);
    case OF_WORST_MOST:
        return worst_of(batch, (enum lab_figure)f->figure, true);
    case OF_WORST_LEAST:
        return worst_of(batch, (enum lab_figure)f->figure, false);
    case OF_RUN:
        break;
    }
    return mean_of_whole(batch, (enum lab_whole)f->figure);
}

void lab_show_policies_table(const struct lab_batch *batches, uint32_t count)
{
    struct cli_table table = {.titles = {"order"}, .columns = 1};
    char cell[2 * LAB_CELL_BYTES];
    for (size_t f = 0; f < WEIR_COUNT(policy_figures); f++) {
        table.titles[table.columns] = policy_figures[f].title;
        table.right[table.columns++] = true;
    }
    const struct lab_setup *setup = batches[0].setup;
    printf("%s%s%s\n", setup->name, *setup->about ? ": " : "", setup->about);
    if (batches[0].count > 1)
        put_seeds(&batches[0]);
    else
        printf("seed %llu\n\n", (unsigned long long)batches[0].seed);
    for (uint32_t i = 0; i < count; i++) {
        cli_table_add(&table, policy_of(&batches[i]));
        for (size_t f = 0; f < WEIR_COUNT(policy_figures); f++)
            cli_table_add(&table, mean_cell(policy_figures[f].unit,
                                            policy_mean(&batches[i], &policy_figures[f]), cell));
    }
    cli_table_print(&table, true);
    printf("\nLeast in goal and longest wait are of the tenant that fares worst; the gap is in "
           "work, drr's "
           "bound is in requests.\n%s\n",
           lab_note);
}

void lab_show_policies_csv(const struct lab_batch *batches, uint32_t count)
{
    puts("scheduler,figure,mean,half_width_95,runs");
    for (uint32_t i = 0; i < count; i++)
        for (size_t f = 0; f < WEIR_COUNT(policy_figures); f++) {
            struct lab_mean mean = policy_mean(&batches[i], &policy_figures[f]);
            printf("%s,%s", policy_of(&batches[i]), policy_figures[f].key);
            lab_put_csv_number(mean.mean);
            lab_put_csv_number(mean.half);
            printf(",%u\n", mean.count);
        }
}

int lab_show_policies_json(const struct lab_batch *batches, uint32_t count)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++) {
        json_t *object = batch_json(&batches[i]);
        json_object_set_new(object, "scheduler", json_string(policy_of(&batches[i])));
        json_array_append_new(list, object);
    }
    return cli_print_json(json_pack("{s:o, s:s}", "policies", list, "note", lab_note))
               ? CLI_DONE_STATUS
               : CLI_FAULT_STATUS;
}
