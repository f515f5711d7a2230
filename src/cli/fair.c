#include "cli/fair.h"

#include "cli/args.h"
#include "cli/commands.h"
#include "cli/text.h"
#include "gateway/config_value.h"

#include <stdlib.h>
#include <string.h>

static const struct cli_option fair_options[] = {
    {"--weights", "LIST", "tenants and their shares (a=4,b=1,c=1)", NULL},
    {"--backlog", "LIST", "requests of each: 40,10,10, or a=40,..., or one for all (10 x weight)",
     NULL},
    {"--arrivals", "HOW", "when they come, see below (start)", NULL},
    {"--cost", "DIST", "work of a request, see below (fixed:1)", NULL},
    {"--input", "DIST", "instead: its input tokens, 1 of work each", NULL},
    {"--output", "DIST", "and its output tokens, 2 of work each", NULL},
    {"--estimates", "HOW", "exact, biased:+20% or noisy:50%, corrected at the end (exact)", NULL},
    {"--policy", "NAME", "vtc, drr-cost, drr, fifo, drr-restarting; several; or all (vtc)", NULL},
    {"--permits", "N", "requests in flight at most (1)", NULL},
    {"--seed", "N", "of all that is drawn (1)", NULL},
    {"--seeds", "N", "so many runs, from --seed on; shows the worst (1)", NULL},
    {"--items", NULL, "list every dispatch", NULL},
    {"--plot", "FILE", "draw service over time beside ideal, as SVG; - is standard output", NULL},
    {"--json", NULL, "print JSON", NULL},
};

static const struct cli_command fair_command = {
    .name = FAIR_COMMAND,
    .usage = "[flags]",
    .summary =
        "Proves offline how far a scheduler is from fair: the one that the gateway runs, in\n"
        "simulated time, without network or tokens.\n\n"
        "  weir fair --weights a=4,b=1,c=1 --backlog 40,10,10\n"
        "      the classroom: what weir fair does when nothing is said\n"
        "  weir fair --policy drr-restarting\n"
        "      the naive teaching dispatcher: right totals and no fairness; status 1\n"
        "  weir fair --policy all --input uniform:10..2000 --output exponential:200 --permits 8\n"
        "      side by side, on requests that differ\n"
        "  weir fair --weights 1,1 --backlog 500 --cost a=100,b=2000 --policy drr,vtc\n"
        "      turns against tokens: under drr equal turns, under vtc equal work\n"
        "  weir fair --cost trace:day.csv --estimates noisy:50% --seeds 200\n"
        "      measured costs, estimates that are off, the worst of 200 draws",
    .help =
        "LIST  a value for each tenant by name (a=4,b=1), or one for all. Names are those of\n"
        "      --weights; without names they are a, b, c. --cost, --input, --output, --arrivals\n"
        "      and --estimates may differ by tenant too: --cost a=100,b=uniform:1..9.\n"
        "DIST  N or fixed:N, uniform:A..B, exponential:MEAN, in tokens; --cost is all input.\n"
        "      --cost trace:FILE draws rows of a trace or recording, input and output: those of\n"
        "      the tenant of that name, or all rows when it has none there.\n"
        "HOW   start: all are there at the start; at:5s: at that time; even:5/s, poisson:5/s: at\n"
        "      a rate; onoff:5/s:10s:20s: Poisson for 10 s, nothing for 20 s, and so on.\n"
        "Time  a permit delivers 1,000 of work a second.\n\n"
        "Shown are what each tenant was served beside its ideal, on prefixes while it had\n"
        "requests waiting, and the worst gap: the largest difference of service per weight\n"
        "between two tenants over any interval in which both had requests waiting all the\n"
        "time, with its place and its bound. In \"same, one waits\" only the one behind had: the\n"
        "other may come and go, and credit for idleness or a forgotten debt would show. Weights\n"
        "are scaled so that the smallest is 1. Totals after all is drained prove nothing: every\n"
        "order serves all of it. docs/bounds.md has the bounds and their proofs; fifo has none.\n"
        "Under --seeds Ctrl-C shows the worst of the runs so far.\n\n"
        "Status 0: no bound is broken. 1: one is, or Ctrl-C came before all was run. 2: this\n"
        "cannot be run. Under --policy all, drr-restarting is the counterexample and does not\n"
        "count.\n",
    .options = fair_options,
    .options_count = WEIR_COUNT(fair_options),
    .words_max = 0,
};

#define SEEDS_MAX 1000000u

/* ---- what was asked for ---- */

static bool refuse(const char *flag, const struct fair_error *error)
{
    fprintf(stderr, "%s: %s: %s\n", FAIR_COMMAND, flag, error->text);
    return false;
}

static bool take_count(const struct cli_args *args, const char *flag, uint64_t low, uint64_t high,
                       uint64_t *count)
{
    const char *text = cli_value(&fair_command, args, flag);
    char a[CLI_AMOUNT_BYTES], b[CLI_AMOUNT_BYTES];
    uint64_t value;
    if (!text)
        return true;
    if (!weir_value_count(text, &value) || value < low || value > high) {
        fprintf(stderr, "%s: %s must be a whole number from %s to %s, not '%.60s'\n", FAIR_COMMAND,
                flag, cli_amount((int64_t)low, a), cli_amount((int64_t)high, b), text);
        return false;
    }
    *count = value;
    return true;
}

static bool take_backlog(struct fair_tenant *t, const char *value, struct fair_error *error)
{
    if (weir_value_count(value, &t->backlog) && t->backlog >= 1 &&
        t->backlog <= WEIR_FAIR_ITEMS_MAX)
        return true;
    snprintf(error->text, sizeof error->text,
             "tenant %s sends from 1 to 1,000,000 requests, not '%.60s'", t->name, value);
    return false;
}

static bool take_input(struct fair_tenant *t, const char *value, struct fair_error *error)
{
    return fair_read_length(value, &t->cost.input, error);
}

static bool take_output(struct fair_tenant *t, const char *value, struct fair_error *error)
{
    return fair_read_length(value, &t->cost.output, error);
}

static bool take_cost(struct fair_tenant *t, const char *value, struct fair_error *error)
{
    if (strncmp(value, "trace:", 6) == 0)
        return fair_rows_load(value + 6, t->name, &t->cost, error);
    return take_input(t, value, error);
}

static bool take_arrivals(struct fair_tenant *t, const char *value, struct fair_error *error)
{
    return fair_read_arrivals(value, &t->arrivals, error);
}

static bool take_estimates(struct fair_tenant *t, const char *value, struct fair_error *error)
{
    return fair_read_estimates(value, &t->estimates, error);
}

/* The flag's value, or the default when it is not given; *text is what was taken. */
static bool take_each(const struct cli_args *args, const char *flag, const char *otherwise,
                      bool by_place, fair_take_fn *take, struct fair_setup *setup,
                      const char **text)
{
    struct fair_error error;
    const char *value = cli_value(&fair_command, args, flag);
    *text = value ? value : otherwise;
    return fair_read_each(*text, setup, by_place, take, &error) || refuse(flag, &error);
}

static uint64_t least_tok(const struct weir_length *length)
{
    return length->kind == WEIR_LENGTH_FIXED ? length->mean : length->low;
}

static bool check_costs(const struct fair_setup *setup)
{
    for (uint32_t i = 0; i < setup->tenants_count; i++) {
        const struct fair_cost *c = &setup->tenants[i].cost;
        if (c->rows || least_tok(&c->input) + least_tok(&c->output) > 0)
            continue;
        fprintf(stderr,
                "%s: a request of tenant %s may cost nothing: let its costs begin at 1 token\n",
                FAIR_COMMAND, setup->tenants[i].name);
        return false;
    }
    return true;
}

static bool take_costs(const struct cli_args *args, struct fair_setup *setup)
{
    bool is_split =
        cli_value(&fair_command, args, "--input") || cli_value(&fair_command, args, "--output");
    if (is_split && cli_value(&fair_command, args, "--cost")) {
        fprintf(stderr, "%s: give either --cost, or --input and --output\n", FAIR_COMMAND);
        return false;
    }
    if (!is_split)
        return take_each(args, "--cost", "fixed:1", false, take_cost, setup, &setup->cost_text) &&
               check_costs(setup);
    return take_each(args, "--input", "fixed:0", false, take_input, setup, &setup->input_text) &&
           take_each(args, "--output", "fixed:0", false, take_output, setup, &setup->output_text) &&
           check_costs(setup);
}

static bool take_tenants(const struct cli_args *args, struct fair_setup *setup)
{
    struct fair_error error;
    const char *weights = cli_value(&fair_command, args, "--weights");
    const char *backlog = cli_value(&fair_command, args, "--backlog");
    if (!fair_read_weights(weights ? weights : "a=4,b=1,c=1", setup, &error))
        return refuse("--weights", &error);
    for (uint32_t i = 0; i < setup->tenants_count; i++)
        setup->tenants[i].backlog = 10 * (uint64_t)setup->tenants[i].weight;
    if (backlog && !fair_read_each(backlog, setup, true, take_backlog, &error))
        return refuse("--backlog", &error);
    if (fair_requests(setup) <= WEIR_FAIR_ITEMS_MAX)
        return true;
    char total[CLI_AMOUNT_BYTES];
    fprintf(stderr, "%s: --backlog: %s requests in all are more than 1,000,000\n", FAIR_COMMAND,
            cli_amount((int64_t)fair_requests(setup), total));
    return false;
}

/* The picture is what is printed. */
static bool prints_plot(const struct cli_args *args)
{
    const char *plot = cli_value(&fair_command, args, "--plot");
    return plot && strcmp(plot, "-") == 0;
}

static bool take_setup(const struct cli_args *args, struct fair_setup *setup)
{
    struct fair_error error;
    uint64_t permits = 1;
    const char *policy = cli_value(&fair_command, args, "--policy");
    *setup = (struct fair_setup){.seed = 1, .seeds = 1};
    if (!take_tenants(args, setup) || !take_costs(args, setup) ||
        !take_each(args, "--arrivals", "start", false, take_arrivals, setup,
                   &setup->arrivals_text) ||
        !take_each(args, "--estimates", "exact", false, take_estimates, setup,
                   &setup->estimates_text) ||
        !take_count(args, "--permits", 1, WEIR_FAIR_PERMITS_MAX, &permits) ||
        !take_count(args, "--seed", 0, INT64_MAX - SEEDS_MAX, &setup->seed) ||
        !take_count(args, "--seeds", 1, SEEDS_MAX, &setup->seeds))
        return false;
    setup->permits = (uint32_t)permits;
    if (!fair_read_policies(policy ? policy : "vtc", setup, &error))
        return refuse("--policy", &error);
    static const char *const of_one[] = {"--items", "--plot"};
    for (size_t i = 0; i < WEIR_COUNT(of_one); i++)
        if (setup->seeds > 1 && cli_value(&fair_command, args, of_one[i])) {
            fprintf(stderr, "%s: %s shows one run: take --seeds away and give --seed\n",
                    FAIR_COMMAND, of_one[i]);
            return false;
        }
    if (prints_plot(args) && cli_value(&fair_command, args, "--json")) {
        fprintf(stderr, "%s: --plot - and --json both print: give --plot a file\n", FAIR_COMMAND);
        return false;
    }
    return true;
}

static int report_all(const struct fair_report *report, const struct cli_args *args)
{
    const char *plot = cli_value(&fair_command, args, "--plot");
    struct fair_error error;
    if (report->wants_items && report->outcomes[0].log.stride > 1) {
        fprintf(stderr, "%s: --items: there are too many dispatches to list; take fewer requests\n",
                FAIR_COMMAND);
        return CLI_USAGE_STATUS;
    }
    if (plot && !fair_plot(report, plot, &error)) {
        fprintf(stderr, "%s: --plot: %s\n", FAIR_COMMAND, error.text);
        return CLI_FAULT_STATUS;
    }
    if (cli_value(&fair_command, args, "--json")) {
        if (!fair_show_json(report))
            return CLI_FAULT_STATUS;
    } else if (!prints_plot(args)) {
        fair_show(report);
    }
    bool is_partial = report->runs < report->setup->seeds;
    return fair_is_broken(report) || is_partial ? CLI_NO_STATUS : CLI_DONE_STATUS;
}

int cli_fair(int argc, char **argv)
{
    struct cli_args args;
    static struct fair_setup setup; /* some 20 kB, and so are the results */
    static struct fair_report report;
    enum cli_parsed parsed = cli_parse(&fair_command, argc, argv, &args);
    if (parsed != CLI_GO)
        return parsed == CLI_DONE ? CLI_DONE_STATUS : CLI_USAGE_STATUS;
    int status = CLI_USAGE_STATUS;
    if (take_setup(&args, &setup)) {
        report.setup = &setup;
        report.wants_items = cli_value(&fair_command, &args, "--items") != NULL;
        status = fair_run(&report);
        if (status == CLI_DONE_STATUS)
            status = report_all(&report, &args);
        fair_report_free(&report);
    }
    fair_rows_free();
    return status;
}
