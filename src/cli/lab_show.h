/* lab_show: a run, several, or two setups beside each other, for people (tables), for programs
 * (JSON, CSV) and for reports (SVG). Thread: main. */
#ifndef WEIR_CLI_LAB_SHOW_H
#define WEIR_CLI_LAB_SHOW_H

#include "cli/lab_figures.h"
#include "cli/lab_run.h"

#include <jansson.h>

/* The same setup with several seeds, one behind the other. */
struct lab_batch {
    const struct lab_setup *setup;
    uint64_t seed; /* the first */
    uint32_t count;
    const struct lab_figures *runs;
};

/* The note that goes under all of it. */
extern const char lab_note[];

/* One run. */
void lab_show_table(const struct lab_setup *setup, const struct lab_run *run);
void lab_show_csv(const struct lab_setup *setup, const struct lab_run *run);
/* Every bin of every tenant. */
void lab_show_series(const struct lab_setup *setup, const struct lab_run *run);
/* The next return the exit status: no memory, or (svg) the file could not be written. */
int lab_show_json(const struct lab_setup *setup, const struct lab_run *run);
int lab_show_svg(const struct lab_setup *setup, const struct lab_run *run, const char *path);

/* Several: means with their 95 % confidence intervals. */
void lab_show_many_table(const struct lab_batch *batch);
void lab_show_many_csv(const struct lab_batch *batch);
int lab_show_many_json(const struct lab_batch *batch);

/* Two setups, seed by seed: as many runs of each. Tenants are matched by name. */
void lab_show_difference_table(const struct lab_batch *a, const struct lab_batch *b);
void lab_show_difference_csv(const struct lab_batch *a, const struct lab_batch *b);
int lab_show_difference_json(const struct lab_batch *a, const struct lab_batch *b);

/* The same setup under several orders of service, which are the pools' of each: a row for each. */
void lab_show_policies_table(const struct lab_batch *batches, uint32_t count);
void lab_show_policies_csv(const struct lab_batch *batches, uint32_t count);
int lab_show_policies_json(const struct lab_batch *batches, uint32_t count);

/* Shared by the parts: a figure as people read it, "-" for none. */
enum { LAB_CELL_BYTES = 48 };
const char *lab_cell(enum lab_unit unit, double value, char out[LAB_CELL_BYTES]);
/* As JSON and CSV have it: null or nothing where there is none. */
json_t *lab_number(double value);
void lab_put_csv_number(double value);
/* The tenant in that row of figures: behind the tenants, all of them. */
const char *lab_tenant_name(const struct lab_setup *setup, uint32_t row);
/* One figure of every run of a batch, in values. */
void lab_collect(const struct lab_batch *batch, uint32_t row, enum lab_figure figure,
                 double *values);
void lab_collect_whole(const struct lab_batch *batch, enum lab_whole figure, double *values);
/* The lines that a table begins with. */
void lab_put_head(const struct lab_setup *setup);

#endif
