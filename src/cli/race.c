#include "cli/race.h"

#include "cli/args.h"
#include "cli/commands.h"
#include "cli/ledger.h"
#include "cli/text.h"
#include "gateway/config_value.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct cli_option race_options[] = {
    {"--threads", "N", "how many ask at the same moment, 2 to 200 (20)", NULL},
    {"--grant", "TOKENS", "the budget they share (60000)", NULL},
    {"--estimate", "TOKENS", "what one call costs; divides the grant (1200)", NULL},
    {"--seat", "TOKENS", "each thread also has a budget of its own, threads x seat = grant", NULL},
    {"--preset", "NAME",
     "classroom: twenty seats of 500,000 under one grant of 10,000,000, calls of 20,000", NULL},
    {"--json", NULL, "print JSON", NULL},
};

static const struct cli_command race_command = {
    .name = "weir ledger race",
    .usage = "[flags]",
    .summary = "Shows how check-then-write overspends a budget, and that the ledger does not.",
    .help =
        "The budget is spent until exactly one more call fits; then all threads ask at once. Once\n"
        "against a table in SQLite that is read, checked and then written, with a barrier that\n"
        "makes the race certain; once against the ledger that the gateway uses. Both work on\n"
        "files of their own, which are removed.\n\n"
        "Status 0: the first overspent by (threads - 1) x estimate, the second by 0. 1: not so.\n"
        "3: the race could not be run.\n",
    .options = race_options,
    .options_count = WEIR_COUNT(race_options),
    .words_max = 0,
};

/* ---- the folder, which goes also when we are interrupted ---- */

static char race_dir[4096];
static char race_paths[RACE_NAIVE_FILES + RACE_LEDGER_FILES][4200];

/* Safe in a signal handler. A thread may make a file while we clear: then once more. */
static void clear_folder(void)
{
    for (int i = 0; i < 100; i++) {
        for (size_t k = 0; k < WEIR_COUNT(race_paths); k++)
            unlink(race_paths[k]);
        if (rmdir(race_dir) == 0 || errno != ENOTEMPTY)
            return;
    }
}

static void interrupted(int number)
{
    clear_folder();
    signal(number, SIG_DFL);
    raise(number);
}

static bool make_folder(struct race_error *error)
{
    const char *base = getenv("TMPDIR");
    base = base && *base ? base : "/tmp";
    int bytes = snprintf(race_dir, sizeof race_dir, "%s/weir-race-XXXXXX", base);
    if (bytes < 0 || (size_t)bytes >= sizeof race_dir || !mkdtemp(race_dir)) {
        snprintf(error->text, sizeof error->text,
                 "no folder can be made in %.200s (%s): set TMPDIR to a place that can be written",
                 base, strerror(errno));
        return false;
    }
    for (size_t i = 0; i < RACE_NAIVE_FILES; i++)
        snprintf(race_paths[i], sizeof race_paths[i], "%s/%s", race_dir, race_naive_files[i]);
    for (size_t i = 0; i < RACE_LEDGER_FILES; i++)
        snprintf(race_paths[RACE_NAIVE_FILES + i], sizeof race_paths[0], "%s/%s", race_dir,
                 race_ledger_files[i]);
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    for (size_t i = 0; i < WEIR_COUNT(numbers); i++) {
        struct sigaction old, action = {.sa_handler = interrupted};
        sigemptyset(&action.sa_mask);
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(numbers[i], &action, NULL);
    }
    return true;
}

/* ---- what was asked for ---- */

static bool take_amount(const struct cli_args *args, const char *flag, int64_t min, int64_t max,
                        int64_t *amount)
{
    const char *text = cli_value(&race_command, args, flag);
    uint64_t value = 0;
    char low[CLI_AMOUNT_BYTES], high[CLI_AMOUNT_BYTES];
    if (!text)
        return true;
    if (!weir_value_count(text, &value) || value < (uint64_t)min || value > (uint64_t)max) {
        fprintf(stderr, "%s: %s must be a whole number between %s and %s, not '%s'\n",
                race_command.name, flag, cli_amount(min, low), cli_amount(max, high), text);
        return false;
    }
    *amount = (int64_t)value;
    return true;
}

/* Says why amount is no multiple of estimate, and which near it are. */
static bool check_multiple(const char *flag, int64_t amount, int64_t estimate)
{
    char a[CLI_AMOUNT_BYTES], e[CLI_AMOUNT_BYTES], below[CLI_AMOUNT_BYTES], above[CLI_AMOUNT_BYTES];
    cli_amount(amount, a);
    cli_amount(estimate, e);
    if (estimate > amount) {
        fprintf(stderr, "%s: not one call fits: --estimate %s is more than %s %s\n",
                race_command.name, e, flag, a);
        return false;
    }
    int64_t down = amount - amount % estimate;
    if (down == amount)
        return true;
    fprintf(
        stderr,
        "%s: %s %s is no multiple of --estimate %s, so nobody could say how much is lost at the "
        "last call; %s and %s are\n",
        race_command.name, flag, a, e, cli_amount(down, below), cli_amount(down + estimate, above));
    return false;
}

static bool take_plan(const struct cli_args *args, struct race_plan *plan)
{
    const char *preset = cli_value(&race_command, args, "--preset");
    int64_t threads = 20;
    char product[CLI_AMOUNT_BYTES], grant[CLI_AMOUNT_BYTES], seat[CLI_AMOUNT_BYTES];
    *plan = (struct race_plan){.granted_tok = 60000, .estimate_tok = 1200};
    if (preset && strcmp(preset, "classroom") != 0) {
        fprintf(stderr, "%s: there is no preset '%.60s'; there is classroom\n", race_command.name,
                preset);
        return false;
    }
    if (preset)
        *plan =
            (struct race_plan){.granted_tok = 10000000, .estimate_tok = 20000, .seat_tok = 500000};
    if (!take_amount(args, "--threads", RACE_THREADS_MIN, RACE_THREADS_MAX, &threads) ||
        !take_amount(args, "--grant", 1, WEIR_TOK_MAX, &plan->granted_tok) ||
        !take_amount(args, "--estimate", 1, WEIR_TOK_MAX, &plan->estimate_tok) ||
        !take_amount(args, "--seat", 1, WEIR_TOK_MAX, &plan->seat_tok))
        return false;
    plan->threads = (uint32_t)threads;
    if (plan->seat_tok &&
        (plan->granted_tok % threads != 0 || plan->granted_tok / threads != plan->seat_tok)) {
        bool fits = plan->seat_tok <= WEIR_TOK_MAX / threads;
        fprintf(stderr, "%s: %u seats of %s are %s%s, not the grant of %s; give all three alike\n",
                race_command.name, plan->threads, cli_amount(plan->seat_tok, seat),
                fits ? "" : "more than ",
                cli_amount(fits ? plan->seat_tok * threads : WEIR_TOK_MAX, product),
                cli_amount(plan->granted_tok, grant));
        return false;
    }
    return check_multiple("--grant", plan->granted_tok, plan->estimate_tok) &&
           (!plan->seat_tok || check_multiple("--seat", plan->seat_tok, plan->estimate_tok));
}

/* ---- what came out ---- */

static int64_t overspent_tok(const struct race_plan *plan, const struct race_outcome *o)
{
    return weir_max_i64(0, o->after_tok - plan->granted_tok);
}

static bool as_expected(const struct race_plan *plan, const struct race_outcome *naive,
                        const struct race_outcome *ledger)
{
    return overspent_tok(plan, naive) == (plan->threads - 1) * plan->estimate_tok &&
           naive->admitted == plan->threads && overspent_tok(plan, ledger) == 0 &&
           ledger->after_tok == plan->granted_tok && ledger->admitted == 1 &&
           ledger->refused == plan->threads - 1 && naive->seats_over + ledger->seats_over == 0;
}

static json_t *outcome_json(const struct race_plan *plan, const struct race_outcome *o)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "spent_before_tok",
                     (json_int_t)o->before_tok, "admitted", (json_int_t)o->admitted, "refused",
                     (json_int_t)o->refused, "spent_after_tok", (json_int_t)o->after_tok,
                     "overspent_tok", (json_int_t)overspent_tok(plan, o), "seats_overspent",
                     (json_int_t)o->seats_over);
}

static void print_row(const char *what, int64_t naive, int64_t ledger)
{
    char a[CLI_AMOUNT_BYTES], b[CLI_AMOUNT_BYTES];
    printf("  %-22s %18s %18s\n", what, cli_amount(naive, a), cli_amount(ledger, b));
}

static void print_story(const struct race_plan *plan)
{
    char grant[CLI_AMOUNT_BYTES], estimate[CLI_AMOUNT_BYTES], calls[CLI_AMOUNT_BYTES],
        before[CLI_AMOUNT_BYTES], seat[CLI_AMOUNT_BYTES], seat_before[CLI_AMOUNT_BYTES];
    cli_amount(plan->granted_tok, grant);
    cli_amount(plan->estimate_tok, estimate);
    cli_amount(plan->granted_tok / plan->estimate_tok, calls);
    cli_amount(race_before_tok(plan), before);
    if (plan->seat_tok)
        printf("A class has %s tokens: %u seats of %s each. A call costs %s. Every seat has spent\n"
               "%s and the teacher the rest of %s: each seat has room for one more call, and so\n"
               "has the class, but for one only. Now all %u press Enter at the same moment.\n\n",
               grant, plan->threads, cli_amount(plan->seat_tok, seat), estimate,
               cli_amount(race_seat_before_tok(plan), seat_before), before, plan->threads);
    else
        printf(
            "The budget is %s tokens and a call costs %s, so %s calls fit. All but one have been\n"
            "made: %s are spent, room is left for one more. Now %u threads ask at the same "
            "moment.\n\n",
            grant, estimate, calls, before, plan->threads);
}

static void print_table(const struct race_plan *plan, const struct race_outcome *naive,
                        const struct race_outcome *ledger)
{
    char estimate[CLI_AMOUNT_BYTES], lost[CLI_AMOUNT_BYTES];
    print_story(plan);
    printf("  %-22s %18s %18s\n", "", "check, then write", "the ledger");
    print_row("spent before", naive->before_tok, ledger->before_tok);
    print_row("asked at once", plan->threads, plan->threads);
    print_row("admitted", naive->admitted, ledger->admitted);
    print_row("refused", naive->refused, ledger->refused);
    print_row("spent after", naive->after_tok, ledger->after_tok);
    print_row("granted", plan->granted_tok, plan->granted_tok);
    if (plan->seat_tok)
        print_row("seats overspent", naive->seats_over, ledger->seats_over);
    print_row("OVERSPENT", overspent_tok(plan, naive), overspent_tok(plan, ledger));
    printf("\nCheck, then write: all read the balance before any had written, all saw room, all "
           "spent.\nThat loses (%u - 1) x %s = %s. A barrier holds every thread between its read "
           "and\nits write, so the race is certain; in production the same happens under load.\n"
           "The ledger: checking and setting aside are one step, durable before anybody is told.\n",
           plan->threads, cli_amount(plan->estimate_tok, estimate),
           cli_amount((plan->threads - 1) * plan->estimate_tok, lost));
    if (!as_expected(plan, naive, ledger))
        puts("\nThis is NOT what must come out.");
}

static int print_json(const struct race_plan *plan, const struct race_outcome *naive,
                      const struct race_outcome *ledger)
{
    json_t *all = json_pack(
        "{s:I, s:I, s:I, s:o, s:o, s:o, s:b}", "threads", (json_int_t)plan->threads, "granted_tok",
        (json_int_t)plan->granted_tok, "estimate_tok", (json_int_t)plan->estimate_tok, "seat_tok",
        plan->seat_tok ? json_integer(plan->seat_tok) : json_null(), "check_then_write",
        outcome_json(plan, naive), "ledger", outcome_json(plan, ledger), "as_expected",
        as_expected(plan, naive, ledger));
    char *text = all ? json_dumps(all, JSON_INDENT(2)) : NULL;
    json_decref(all);
    if (!text)
        return CLI_FAULT_STATUS;
    puts(text);
    free(text);
    return CLI_DONE_STATUS;
}

int cli_ledger_race(int argc, char **argv)
{
    struct cli_args args;
    struct race_plan plan;
    struct race_outcome naive, ledger;
    struct race_error error;
    enum cli_parsed parsed = cli_parse(&race_command, argc, argv, &args);
    if (parsed != CLI_GO)
        return parsed == CLI_DONE ? CLI_DONE_STATUS : CLI_USAGE_STATUS;
    if (!take_plan(&args, &plan))
        return CLI_USAGE_STATUS;
    if (!make_folder(&error)) {
        fprintf(stderr, "%s: %s\n", race_command.name, error.text);
        return CLI_FAULT_STATUS;
    }
    plan.dir = race_dir;
    bool ran = race_naive(&plan, &naive, &error) && race_ledger(&plan, &ledger, &error);
    clear_folder();
    if (!ran) {
        fprintf(stderr, "%s: %s\n", race_command.name, error.text);
        return CLI_FAULT_STATUS;
    }
    int status = CLI_DONE_STATUS;
    if (cli_value(&race_command, &args, "--json"))
        status = print_json(&plan, &naive, &ledger);
    else
        print_table(&plan, &naive, &ledger);
    if (status == CLI_DONE_STATUS && !as_expected(&plan, &naive, &ledger))
        status = CLI_NO_STATUS;
    return status;
}
