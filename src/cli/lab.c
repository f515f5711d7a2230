#include "cli/args.h"
#include "cli/commands.h"
#include "cli/lab_show.h"
#include "cli/record_file.h"
#include "cli/text.h"
#include "gateway/config_print.h"
#include "gateway/config_value.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SEEDS_MAX = 10000 };

static const struct cli_option lab_options[] = {
    {"--set", "PATH=VALUE", "change one value of the setup; may be given several times", NULL},
    {"--policy", "NAME", "order of service: fifo, drr, drr-cost, vtc; all: beside each other",
     NULL},
    {"--seed", "N", "the chance of the run, 1 when not given", NULL},
    {"--seeds", "N", "so many runs, each with the next seed: means with confidence intervals",
     NULL},
    {"--diff", NULL, "two setups over the same traffic, and what differs", NULL},
    {"--trace", "FILE", "send what a trace says (docs/lab.md lists the forms)", NULL},
    {"--scheduler", "NAME", "of a trace that holds several measured runs: which", NULL},
    {"--json", NULL, "print one JSON object", NULL},
    {"--csv", NULL, "print the figures as CSV", NULL},
    {"--series", NULL, "print every bin of time of every tenant as CSV", NULL},
    {"--svg", "FILE", "draw the run over time; - is standard output", NULL},
    {"--record", "FILE", "write every request as a recording that --trace reads", NULL},
    {"--yaml", NULL, "print the setup as a configuration of what is not a default; run nothing",
     NULL},
    {"--list", NULL, "name the scenarios", NULL},
};

static const struct cli_command lab_command = {
    .name = "weir lab",
    .usage = "[SCENARIO|FILE.yaml] [flags]",
    .summary =
        "Runs a setup against synthetic or recorded traffic, in simulated time, with the gateway's "
        "own core.\n\n"
        "  weir lab                                            the default scenario\n"
        "  weir lab --list\n"
        "  weir lab noisy --policy all                         every order of service beside each "
        "other\n"
        "  weir lab overload --policy fifo --svg out.svg\n"
        "  weir lab --set traffic.batch.rate=6/s --set tenants.batch.weight=2\n"
        "  weir lab --diff scheduler=fifo scheduler=vtc --seeds 20\n"
        "  weir lab --diff request-limits token-limits\n"
        "  weir lab my-weir.yaml --trace requests.csv.gz       docs/lab.md, \"A file of your own\"",
    .help =
        "A file is a gateway's configuration with two parts more: traffic (who sends what) and "
        "backend\n(what answers). --set takes any of its values by path: "
        "upstreams.main.max_in_flight=64.\n--diff compares: each of A and B is a scenario, a file, "
        "or "
        "path=value[,path=value...] over the\nscenario named before them. The figures are "
        "calculated "
        "by a deterministic synthetic model, not\nmeasured. Status 2: the setup is impossible, and "
        "why is said. Ctrl-C shows what there is so far; status 1.\n",
    .options = lab_options,
    .options_count = WEIR_COUNT(lab_options),
    .words_max = 3,
    .many = "--set",
};

/* What was asked for. */
struct wish {
    const struct cli_args *args;
    uint64_t seed;
    uint32_t seeds;
    const char *svg, *record;
    bool is_json, is_csv, is_series, is_yaml, is_difference, has_seeds, is_every_policy;
    struct weir_trace trace;
    bool has_trace;
};

static const char *value(const struct wish *wish, const char *flag)
{
    return cli_value(&lab_command, wish->args, flag);
}

static bool read_numbers(struct wish *wish)
{
    const char *seed = value(wish, "--seed"), *seeds = value(wish, "--seeds");
    uint64_t count = 1;
    wish->seed = 1;
    if (seed && !weir_value_count(seed, &wish->seed)) {
        fprintf(stderr, "weir lab: --seed must be a whole number, not '%s'\n", seed);
        return false;
    }
    if (seeds && (!weir_value_count(seeds, &count) || count < 1 || count > SEEDS_MAX)) {
        fprintf(stderr, "weir lab: --seeds must be a whole number between 1 and %d, not '%s'\n",
                SEEDS_MAX, seeds);
        return false;
    }
    if (wish->seed > INT64_MAX - count) { /* what JSON can tell */
        fprintf(stderr, "weir lab: --seed %s is too large: at most 2^63 - 1 with all seeds\n",
                seed);
        return false;
    }
    wish->seeds = (uint32_t)count;
    wish->has_seeds = seeds != NULL;
    return true;
}

/* Flags that do not go together. */
static bool check_flags(const struct wish *wish)
{
    if (wish->is_json + wish->is_csv + wish->is_series + wish->is_yaml > 1) {
        fputs("weir lab: one of --json, --csv, --series and --yaml\n", stderr);
        return false;
    }
    if (wish->svg && strcmp(wish->svg, "-") == 0 &&
        wish->is_json + wish->is_csv + wish->is_series > 0) {
        fputs("weir lab: --svg - and the figures both print; give --svg a file\n", stderr);
        return false;
    }
    bool is_one = !wish->is_difference && !wish->has_seeds && !wish->is_every_policy;
    const char *flag = wish->is_series ? "--series"
                       : wish->is_yaml ? "--yaml"
                       : wish->svg     ? "--svg"
                       : wish->record  ? "--record"
                                       : NULL;
    if (flag && !is_one) {
        fprintf(stderr, "weir lab: %s shows one run; leave %s out\n", flag,
                wish->is_difference ? "--diff"
                : wish->has_seeds   ? "--seeds"
                                    : "--policy all");
        return false;
    }
    if (wish->is_every_policy && wish->is_difference) {
        fputs("weir lab: --policy all compares by itself; leave --diff out\n", stderr);
        return false;
    }
    if (value(wish, "--scheduler") && !value(wish, "--trace")) {
        fputs(
            "weir lab: --scheduler chooses from a trace; give one with --trace. For the gateway's "
            "own order: --policy\n",
            stderr);
        return false;
    }
    return true;
}

static bool read_wish(struct wish *wish)
{
    wish->svg = value(wish, "--svg");
    wish->record = value(wish, "--record");
    wish->is_json = value(wish, "--json") != NULL;
    wish->is_csv = value(wish, "--csv") != NULL;
    wish->is_series = value(wish, "--series") != NULL;
    wish->is_yaml = value(wish, "--yaml") != NULL;
    wish->is_difference = value(wish, "--diff") != NULL;
    wish->is_every_policy = value(wish, "--policy") && strcmp(value(wish, "--policy"), "all") == 0;
    return read_numbers(wish) && check_flags(wish);
}

static bool load_trace(struct wish *wish)
{
    const char *path = value(wish, "--trace");
    char text[512];
    if (!path)
        return true;
    if (!weir_trace_load(path, value(wish, "--scheduler"), &wish->trace, text, sizeof text)) {
        fprintf(stderr, "%s\n", text);
        return false;
    }
    weir_trace_fill_sizes(&wish->trace);
    weir_trace_remark(&wish->trace, text, sizeof text);
    if (*text)
        fprintf(stderr, "%s: %s\n", path, text);
    wish->has_trace = true;
    return true;
}

/* ---- setups ---- */

struct prepared {
    struct lab_sets sets;
    struct lab_setup setup;
};

/* The scenario or file `word` with what --policy and --set say, and `more` over that. */
static bool prepare(const struct wish *wish, const char *word, const char *more,
                    struct prepared *prepared)
{
    const char *policy = value(wish, "--policy");
    memset(prepared, 0, sizeof *prepared);
    if (policy && !wish->is_every_policy) {
        char text[128];
        snprintf(text, sizeof text, "scheduler=%s", policy);
        if (!lab_sets_add(&prepared->sets, text))
            return false;
    }
    for (uint32_t i = 0; i < wish->args->many_count; i++)
        if (!lab_sets_add(&prepared->sets, wish->args->many[i]))
            return false;
    if (more && !lab_sets_add(&prepared->sets, more))
        return false;
    return lab_setup_load(&prepared->setup, word, &prepared->sets,
                          wish->has_trace ? &wish->trace : NULL);
}

static void release(struct prepared *prepared)
{
    lab_setup_free(&prepared->setup);
    lab_sets_free(&prepared->sets);
}

/* ---- one run ---- */

static int show_run(const struct wish *wish, const struct lab_setup *setup,
                    const struct lab_run *run)
{
    int status = CLI_DONE_STATUS;
    if (wish->svg)
        status = lab_show_svg(setup, run, wish->svg);
    if (wish->is_json)
        status = status == CLI_DONE_STATUS ? lab_show_json(setup, run) : status;
    else if (wish->is_csv)
        lab_show_csv(setup, run);
    else if (wish->is_series)
        lab_show_series(setup, run);
    else if (!wish->svg || strcmp(wish->svg, "-") != 0)
        lab_show_table(setup, run);
    return status;
}

/* --yaml: what would be run, as a file of its own. */
static int show_yaml(const struct lab_setup *setup)
{
    char *text = weir_config_given_yaml(setup->config);
    if (*setup->about)
        printf("# %s\n", setup->about);
    fputs(text, stdout);
    free(text);
    return CLI_DONE_STATUS;
}

static int run_once(const struct wish *wish)
{
    struct prepared prepared;
    struct lab_run run = {0};
    FILE *record = NULL;
    int status = CLI_USAGE_STATUS;
    const char *word = wish->args->words_count ? wish->args->words[0] : NULL;
    bool is_right = prepare(wish, word, NULL, &prepared);
    if (is_right && wish->is_yaml) {
        status = show_yaml(&prepared.setup);
    } else if (is_right) {
        bool is_run = (!wish->record || (record = cli_record_open("weir lab", wish->record,
                                                                  value(wish, "--trace")))) &&
                      lab_run_seed(&run, &prepared.setup, wish->seed, prepared.setup.name, record);
        status = is_run ? show_run(wish, &prepared.setup, &run) : CLI_FAULT_STATUS;
        if (status == CLI_DONE_STATUS && run.is_stopped)
            status = CLI_NO_STATUS;
    }
    if (record && fclose(record) != 0) {
        fprintf(stderr, "weir lab: %s cannot be written: %s\n", wish->record, strerror(errno));
        status = CLI_FAULT_STATUS;
    }
    lab_run_free(&run);
    release(&prepared);
    return status;
}

/* ---- several ---- */

/* A batch under way: where its figures go. */
struct batch_run {
    const struct lab_setup *setup;
    struct lab_figures *figures;
};

/* Runs the seeds of one setup or of two, seed by seed, so that what there is when the user has had
 * enough is of both: then fewer, and the status says so. With none there is nothing to show. */
static int run_batches(const struct wish *wish, const struct batch_run *runs, uint32_t runs_count,
                       uint32_t *seeds_done)
{
    struct lab_run run = {0};
    bool goes_on = true, done = true;
    *seeds_done = 0;
    for (uint32_t i = 0; i < wish->seeds && goes_on; i++) {
        char text[160];
        snprintf(text, sizeof text, "seed %u of %u", i + 1, wish->seeds);
        cli_progress_line(text);
        for (uint32_t k = 0; k < runs_count && goes_on; k++) {
            done = lab_run_seed(&run, runs[k].setup, wish->seed + i,
                                wish->seeds > 1 ? NULL : runs[k].setup->name, NULL);
            goes_on = done && !run.is_stopped;
            if (goes_on)
                lab_figures_of(runs[k].setup->map, run.results, run.entries, run.entries_count,
                               &runs[k].figures[i]);
        }
        *seeds_done += goes_on;
    }
    cli_progress_line("");
    lab_run_free(&run);
    if (!done) {
        *seeds_done = 0;
        return CLI_FAULT_STATUS;
    }
    if (*seeds_done == wish->seeds)
        return CLI_DONE_STATUS;
    fprintf(stderr, "weir lab: stopped after %u of %u seeds\n", *seeds_done, wish->seeds);
    return CLI_NO_STATUS;
}

/* Of a run and of showing it: what went wrong first in showing is the worse. */
static int status_of(int run, int shown)
{
    return shown == CLI_DONE_STATUS ? run : shown;
}

static struct lab_batch to_batch(const struct wish *wish, const struct batch_run *run,
                                 uint32_t seeds_done)
{
    return (struct lab_batch){
        .setup = run->setup, .seed = wish->seed, .count = seeds_done, .runs = run->figures};
}

static struct lab_figures *make_room(uint32_t seeds)
{
    struct lab_figures *figures = calloc(seeds, sizeof *figures);
    if (!figures)
        fputs("weir lab: out of memory\n", stderr);
    return figures;
}

static int run_many(const struct wish *wish)
{
    struct prepared prepared;
    struct batch_run run = {.figures = make_room(wish->seeds)};
    const char *word = wish->args->words_count ? wish->args->words[0] : NULL;
    uint32_t seeds_done = 0;
    int status = CLI_FAULT_STATUS;
    run.setup = &prepared.setup;
    if (!prepare(wish, word, NULL, &prepared))
        status = CLI_USAGE_STATUS;
    else if (run.figures)
        status = run_batches(wish, &run, 1, &seeds_done);
    if (seeds_done > 0) {
        struct lab_batch batch = to_batch(wish, &run, seeds_done);
        if (wish->is_json)
            status = status_of(status, lab_show_many_json(&batch));
        else if (wish->is_csv)
            lab_show_many_csv(&batch);
        else
            lab_show_many_table(&batch);
    }
    free(run.figures);
    release(&prepared);
    return status;
}

/* ---- every order of service ---- */

static int run_policies(const struct wish *wish)
{
    static const char *const policies[] = {"scheduler=fifo", "scheduler=drr", "scheduler=drr-cost",
                                           "scheduler=vtc"};
    enum { COUNT = WEIR_COUNT(policies) };
    struct prepared prepared[COUNT];
    struct batch_run runs[COUNT];
    struct lab_batch batches[COUNT];
    const char *word = wish->args->words_count ? wish->args->words[0] : NULL;
    uint32_t seeds_done = 0;
    int status = CLI_USAGE_STATUS;
    bool is_right = true;
    memset(prepared, 0, sizeof prepared);
    memset(runs, 0, sizeof runs);
    for (int i = 0; i < COUNT && is_right; i++) {
        runs[i] = (struct batch_run){&prepared[i].setup, make_room(wish->seeds)};
        is_right = runs[i].figures && prepare(wish, word, policies[i], &prepared[i]);
    }
    if (is_right)
        status = run_batches(wish, runs, COUNT, &seeds_done);
    if (seeds_done > 0) {
        for (int i = 0; i < COUNT; i++)
            batches[i] = to_batch(wish, &runs[i], seeds_done);
        if (wish->is_json)
            status = status_of(status, lab_show_policies_json(batches, COUNT));
        else if (wish->is_csv)
            lab_show_policies_csv(batches, COUNT);
        else
            lab_show_policies_table(batches, COUNT);
    }
    for (int i = 0; i < COUNT; i++) {
        free(runs[i].figures);
        release(&prepared[i]);
    }
    return status;
}

/* ---- two setups ---- */

struct sides {
    const char *base;
    const char *a, *b;
};

/* `BASE A B`, `A B`, or `B` against the default. */
static bool read_sides(const struct cli_args *args, struct sides *sides)
{
    uint32_t count = args->words_count;
    if (count == 0) {
        fputs("weir lab: --diff needs what to compare, as in --diff scheduler=fifo scheduler=vtc\n",
              stderr);
        return false;
    }
    sides->base = count == 3 ? args->words[0] : NULL;
    sides->a = count == 1 ? "default" : args->words[count - 2];
    sides->b = args->words[count - 1];
    if (sides->base && strchr(sides->base, '=')) {
        fprintf(stderr, "weir lab: '%s' is no scenario or file; --diff takes [SCENARIO] A B\n",
                sides->base);
        return false;
    }
    if (count == 2 && !strchr(sides->a, '=') && strchr(sides->b, '='))
        sides->base = sides->a; /* that scenario, and itself with a change */
    return true;
}

static bool prepare_side(const struct wish *wish, const char *base, const char *side,
                         struct prepared *prepared)
{
    bool is_change = strchr(side, '=') != NULL;
    return prepare(wish, is_change ? base : side, is_change ? side : NULL, prepared);
}

static int show_difference(const struct wish *wish, const struct lab_batch *a,
                           const struct lab_batch *b)
{
    if (wish->is_json)
        return lab_show_difference_json(a, b);
    if (wish->is_csv)
        lab_show_difference_csv(a, b);
    else
        lab_show_difference_table(a, b);
    return CLI_DONE_STATUS;
}

static int run_difference(const struct wish *wish)
{
    struct sides sides;
    struct prepared prepared[2];
    struct batch_run runs[2] = {{.setup = &prepared[0].setup}, {.setup = &prepared[1].setup}};
    uint32_t seeds_done = 0;
    int status = CLI_USAGE_STATUS;
    memset(prepared, 0, sizeof prepared);
    if (read_sides(wish->args, &sides) && prepare_side(wish, sides.base, sides.a, &prepared[0]) &&
        prepare_side(wish, sides.base, sides.b, &prepared[1])) {
        status = CLI_FAULT_STATUS;
        if ((runs[0].figures = make_room(wish->seeds)) &&
            (runs[1].figures = make_room(wish->seeds)))
            status = run_batches(wish, runs, 2, &seeds_done);
    }
    if (seeds_done > 0) {
        struct lab_batch a = to_batch(wish, &runs[0], seeds_done);
        struct lab_batch b = to_batch(wish, &runs[1], seeds_done);
        status = status_of(status, show_difference(wish, &a, &b));
    }
    for (int i = 0; i < 2; i++) {
        free(runs[i].figures);
        release(&prepared[i]);
    }
    return status;
}

int cli_lab(int argc, char **argv)
{
    struct cli_args args;
    enum cli_parsed parsed = cli_parse(&lab_command, argc, argv, &args);
    if (parsed != CLI_GO)
        return parsed == CLI_DONE ? CLI_DONE_STATUS : CLI_USAGE_STATUS;
    struct wish wish = {.args = &args};
    if (value(&wish, "--list"))
        return lab_setup_list(value(&wish, "--json") != NULL);
    if (!read_wish(&wish))
        return CLI_USAGE_STATUS;
    if (!wish.is_difference && args.words_count > 1) {
        fprintf(stderr, "weir lab: '%s' is one argument too many; to compare setups, add --diff\n",
                args.words[1]);
        return CLI_USAGE_STATUS;
    }
    if (!load_trace(&wish))
        return CLI_USAGE_STATUS;
    cli_catch_interrupts();
    int status = wish.is_difference     ? run_difference(&wish)
                 : wish.is_every_policy ? run_policies(&wish)
                 : wish.has_seeds       ? run_many(&wish)
                                        : run_once(&wish);
    weir_trace_free(&wish.trace);
    return status;
}
