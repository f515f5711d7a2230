/* replay: `weir replay TRACE URL`, recorded traffic against a real endpoint. */
#include "cli/replay.h"

#include "cli/args.h"
#include "cli/chart.h"
#include "cli/commands.h"
#include "cli/out_file.h"
#include "cli/record_file.h"
#include "cli/text.h"
#include "gateway/config_value.h"
#include "measure/prompt.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

enum { IN_FLIGHT_DEFAULT = 4000, FAILURES_DEFAULT = 50 };
#define TIMEOUT_DEFAULT_NS (120 * WEIR_NS_PER_S)

static const struct cli_option replay_options[] = {
    {"--speed", "X", "so many times as fast as the trace, 0.001 to 1000 (1)", NULL},
    {"--limit", "N", "the first N requests only", NULL},
    {"--duration", "TIME", "only those that are due within so long", NULL},
    {"--model", "NAME", "ask this model in all of them (a recording says its own)", NULL},
    {"--api", "NAME", "chat, completions, responses or messages (by the URL's path, else chat)",
     NULL},
    {"--stream", "WORD", "yes, no, or trace: as a recording says; other traces stream (trace)",
     NULL},
    {"--key-env", "[TENANT=]VAR",
     "environment variable that holds the key, of all or of one tenant; may be given several times",
     NULL},
    {"--ca", "FILE", "certificates to trust instead of the system's", NULL},
    {"--max-in-flight", "N",
     "at most so many at once; more must wait, and the result says so (4000)", NULL},
    {"--timeout", "TIME", "patience for an answer to begin, and between its bytes (2m)", NULL},
    {"--failures", "N", "stop after so many failures in a row; 0: never (50)", NULL},
    {"--modern-limit", NULL, "chat: write max_completion_tokens instead of max_tokens", NULL},
    {"--scheduler", "NAME", "of a trace that holds several measured runs: which", NULL},
    {"--seed", "N", "of the words in the prompts (1)", NULL},
    {"--note", "TEXT", "goes into every output: what else should be known", NULL},
    {"--dry-run", NULL, "say what would be sent, and send nothing", NULL},
    {"--json", NULL, "print one JSON object", NULL},
    {"--csv", NULL, "print one row for each tenant as CSV", NULL},
    {"--svg", "FILE", "draw it over time; - is standard output", NULL},
    {"--record", "FILE", "write what happened in the form of a recording", NULL},
};

static const struct cli_command replay_command = {
    .name = "weir replay",
    .usage = "TRACE URL [flags]",
    .summary =
        "Sends the requests of a trace to an endpoint at their times, whatever it answers.\n\n"
        "  weir replay traffic.csv http://127.0.0.1:8765 --dry-run      what would it send?\n"
        "  weir replay traffic.csv https://api.example.com/v1 --key-env API_KEY --limit 100\n"
        "  weir replay traffic.csv http://127.0.0.1:8765 --key-env ada=ADA_KEY --key-env "
        "bob=BOB_KEY\n"
        "  weir replay azure.csv.gz http://127.0.0.1:8000 --model llama --speed 4 --duration 10m\n"
        "  weir replay traffic.csv http://127.0.0.1:8765 --svg out.svg --record again.csv",
    .help =
        "Traces: docs/traces.md. Prompts are made up, as long as the trace says; outputs are "
        "limited to\n"
        "their length. Latency counts from the time at which a request should have left. A real\n"
        "endpoint charges for what is sent: see --dry-run first. Keys are read from the "
        "environment\n"
        "and never shown.\n"
        "Status 0: all was sent and some answered. 1: stopped by Ctrl-C, or all was refused. 2: "
        "nothing\n"
        "was sent. 3: there is no such endpoint there. What there is so far is shown in any "
        "case.\n",
    .options = replay_options,
    .options_count = WEIR_COUNT(replay_options),
    .words_max = 2,
    .many = "--key-env",
};

/* ---- what is wished ---- */

static const char *value(const struct cli_args *args, const char *flag)
{
    return cli_value(&replay_command, args, flag);
}

static bool wrong(const char *flag, const char *must, const char *text)
{
    fprintf(stderr, "weir replay: %s must be %s, not '%s'\n", flag, must, text);
    return false;
}

static bool read_time(const struct cli_args *args, const char *flag, uint64_t *out_ns)
{
    const char *text = value(args, flag);
    if (!text)
        return true;
    return (weir_value_duration(text, out_ns) && *out_ns > 0) ||
           wrong(flag, "a time above 0, as in 90s or 10m", text);
}

static bool read_words(const struct cli_args *args, struct replay_wish *wish)
{
    const char *stream = value(args, "--stream"), *speed = value(args, "--speed");
    wish->speed_permille = 1000;
    if (speed && (!weir_value_factor(speed, &wish->speed_permille) || wish->speed_permille == 0))
        return wrong("--speed", "a number from 0.001 to 1000", speed);
    wish->stream = !stream || strcmp(stream, "trace") == 0 ? REPLAY_STREAM_AS_TRACED
                   : strcmp(stream, "yes") == 0            ? REPLAY_STREAM_YES
                                                           : REPLAY_STREAM_NO;
    if (wish->stream == REPLAY_STREAM_NO && strcmp(stream, "no") != 0)
        return wrong("--stream", "yes, no or trace", stream);
    if (wish->model && (!*wish->model || strlen(wish->model) > WEIR_MODEL_BYTES_MAX))
        return wrong("--model", "a name of at most 256 bytes", wish->model);
    if (wish->is_json && wish->is_csv) {
        fputs("weir replay: one of --json and --csv\n", stderr);
        return false;
    }
    if (wish->svg && strcmp(wish->svg, "-") == 0 && (wish->is_json || wish->is_csv)) {
        fputs("weir replay: --svg - and --json or --csv both want standard output\n", stderr);
        return false;
    }
    return true;
}

/* What there are descriptors for, where they are few. */
static uint64_t in_flight_default(void)
{
    struct rlimit limit;
    const rlim_t beside = 128;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max >= IN_FLIGHT_DEFAULT + beside)
        return IN_FLIGHT_DEFAULT;
    return limit.rlim_max > 2 * beside ? limit.rlim_max - beside : beside;
}

static bool read_wish(const struct cli_args *args, struct replay_wish *wish, enum weir_api *api)
{
    uint64_t in_flight = in_flight_default(), failures = FAILURES_DEFAULT;
    if (args->words_count < 2) {
        fputs(
            "weir replay: give a trace and a URL: weir replay traffic.csv http://127.0.0.1:8765\n",
            stderr);
        return false;
    }
    *wish = (struct replay_wish){.trace = args->words[0],
                                 .url = args->words[1],
                                 .scheduler = value(args, "--scheduler"),
                                 .model = value(args, "--model"),
                                 .ca_file = value(args, "--ca"),
                                 .note = value(args, "--note"),
                                 .svg = value(args, "--svg"),
                                 .record = value(args, "--record"),
                                 .key_envs = args->many,
                                 .key_envs_count = args->many_count,
                                 .limit = UINT64_MAX,
                                 .duration_ns = WEIR_NEVER_NS,
                                 .timeout_ns = TIMEOUT_DEFAULT_NS,
                                 .seed = 1,
                                 .has_modern_limit = value(args, "--modern-limit") != NULL,
                                 .is_json = value(args, "--json") != NULL,
                                 .is_csv = value(args, "--csv") != NULL,
                                 .is_dry = value(args, "--dry-run") != NULL};
    if (!read_words(args, wish) || !cli_api(&replay_command, args, api) ||
        !cli_count(&replay_command, args, "--limit", 1, WEIR_TRACE_ROWS_MAX, &wish->limit) ||
        !cli_count(&replay_command, args, "--max-in-flight", 1, WEIR_LOAD_IN_FLIGHT_MAX,
                   &in_flight) ||
        !cli_count(&replay_command, args, "--failures", 0, 1000000000, &failures) ||
        !cli_count(&replay_command, args, "--seed", 0, UINT32_MAX, &wish->seed) ||
        !read_time(args, "--duration", &wish->duration_ns) ||
        !read_time(args, "--timeout", &wish->timeout_ns))
        return false;
    wish->in_flight_max = (uint32_t)in_flight;
    wish->failures_max = (uint32_t)failures;
    return true;
}

/* ---- the run ---- */

struct run {
    struct weir_loop *loop;
    struct weir_playback *playback;
    const struct replay_plan *plan;
    struct weir_io signal_io;
    struct weir_timer progress;
    bool has_progress, is_interrupted;
};

static void run_over(void *ctx)
{
    struct run *run = ctx;
    weir_loop_stop(run->loop);
}

static void run_signal(struct weir_io *io, uint32_t events)
{
    struct run *run = (struct run *)((char *)io - offsetof(struct run, signal_io));
    struct signalfd_siginfo info;
    (void)events;
    while (read(io->fd, &info, sizeof info) == sizeof info) {
        if (run->is_interrupted)
            _exit(130);
        run->is_interrupted = true;
        weir_playback_stop(run->playback);
    }
}

static void run_progress(struct weir_timer *timer)
{
    struct run *run = (struct run *)((char *)timer - offsetof(struct run, progress));
    struct weir_playback_view v;
    weir_playback_view(run->playback, &v);
    fprintf(stderr,
            "\r\033[K%.0f s of %.0f s: %zu of %zu sent, %u under way, %zu answered, %zu refused, "
            "%zu failed%s",
            (double)v.now_ns / 1e9, (double)run->plan->span_ns / 1e9, v.begun, run->plan->count,
            v.in_flight, v.ok, v.refused, v.failed, v.held > 0 ? ", at the cap" : "");
    weir_timer_set(run->loop, timer, weir_loop_now_ns(run->loop) + 200 * WEIR_NS_PER_MS);
}

/* From here on a signal waits for the loop, which takes it from a descriptor: once anything can be
 * sent, a stop shows what there is. */
static sigset_t run_block_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return set;
}

static bool run_watch_signals(struct run *run)
{
    sigset_t set = run_block_signals();
    run->signal_io =
        (struct weir_io){.fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC), .ready = run_signal};
    return run->signal_io.fd >= 0 && weir_loop_add(run->loop, &run->signal_io) == 0;
}

/* false: said, and nothing was sent. */
static bool run_start(struct run *run, const struct replay_wish *wish,
                      const struct replay_plan *plan)
{
    char error_text[600] = "no loop or no signals: out of descriptors or memory";
    struct weir_playback_rules rules = {
        .load = {.endpoint = &plan->endpoint,
                 .keys = plan->keys,
                 .keys_count = plan->keys_count,
                 .ca_file = wish->ca_file,
                 .timeouts = weir_load_timeouts_of(wish->timeout_ns),
                 .in_flight_max = wish->in_flight_max},
        .models = plan->models,
        .has_modern_limit = wish->has_modern_limit,
        .seed = wish->seed,
        .failures_max = wish->failures_max};
    rules.load.in_flight_max = (uint32_t)weir_min_u64(rules.load.in_flight_max, plan->count);
    *run = (struct run){.plan = plan, .loop = weir_loop_create(), .signal_io = {.fd = -1}};
    if (run->loop && run_watch_signals(run))
        run->playback =
            weir_playback_create(run->loop, &rules, plan->items, plan->results, plan->count,
                                 run_over, run, error_text, sizeof error_text);
    if (!run->playback) {
        fprintf(stderr, "weir replay: %s\n", error_text);
        return false;
    }
    run->has_progress = isatty(STDERR_FILENO);
    run->progress.fire = run_progress;
    if (run->has_progress)
        weir_timer_set(run->loop, &run->progress, weir_loop_clock_ns() + 200 * WEIR_NS_PER_MS);
    weir_playback_start(run->playback);
    return true;
}

static void run_close(struct run *run)
{
    weir_playback_destroy(run->playback);
    if (run->signal_io.fd >= 0 && run->loop)
        weir_loop_close(run->loop, &run->signal_io);
    if (run->loop) {
        weir_timer_cancel(run->loop, &run->progress);
        weir_loop_destroy(run->loop);
    }
}

/* ---- the outcome ---- */

/* Ends a file of the outcome, which writing was fine or was not. */
static bool end_file(FILE *out, bool fine, const char *what, const char *path)
{
    int fault = errno;
    if (out && out != stdout && fclose(out) != 0 && fine) {
        fine = false;
        fault = errno;
    }
    if (!fine)
        fprintf(stderr, "weir replay: the %s %s cannot be written: %s\n", what, path,
                strerror(fault));
    return fine;
}

/* record: NULL: none; closed here. */
static bool show(const struct replay_outcome *o, FILE *record)
{
    const struct replay_wish *wish = o->wish;
    bool has_stdout = wish->svg && strcmp(wish->svg, "-") == 0;
    bool fine = wish->is_json  ? replay_show_json(o)
                : wish->is_csv ? replay_show_csv(o)
                : has_stdout   ? true
                               : replay_show_table(o);
    if (!fine)
        fputs("weir replay: out of memory for the result\n", stderr);
    if (record)
        fine &= end_file(record, replay_record(o, record), "recording", wish->record);
    if (wish->svg) {
        FILE *svg = has_stdout ? stdout : fopen(wish->svg, "w");
        fine &= end_file(svg, svg && replay_draw(o, svg), "picture", wish->svg);
    }
    return fine;
}

/* What failed how, with the first detail of each kind and what to do about it. */
static void say_failures(const struct replay_outcome *o)
{
    const struct weir_load *load = weir_playback_load(o->playback);
    struct weir_load_view view;
    weir_load_view(load, &view);
    for (int i = 0; i < WEIR_LOAD_END_COUNT; i++) {
        enum weir_load_end end = (enum weir_load_end)i;
        if (end == WEIR_LOAD_OK || end == WEIR_LOAD_CANCELLED || view.ended[end] == 0)
            continue;
        fprintf(stderr, "weir replay: %llu x %s: %s\n  %s\n", (unsigned long long)view.ended[end],
                weir_load_end_name(end), weir_load_first_detail(load, end),
                weir_load_end_advice(end));
    }
}

static int judge(const struct replay_outcome *o)
{
    const struct weir_playback_view *v = &o->view;
    size_t cancelled = v->begun - v->ok - v->refused - v->failed;
    say_failures(o);
    switch (v->stop) {
    case WEIR_PLAYBACK_GOES_ON:
    case WEIR_PLAYBACK_FAULT:
        fputs("weir replay: out of memory: it was stopped\n", stderr);
        return CLI_FAULT_STATUS;
    case WEIR_PLAYBACK_HOPELESS:
        fprintf(stderr,
                "weir replay: stopped after %u failures in a row: %zu of %zu were sent, and %zu of "
                "them cancelled. --failures 0 goes on regardless.\n",
                o->wish->failures_max, v->begun, o->plan->count, cancelled);
        return CLI_FAULT_STATUS;
    case WEIR_PLAYBACK_STOPPED:
        fprintf(stderr,
                "weir replay: stopped after %.1f s: %zu of %zu were sent, and %zu of them "
                "cancelled; the "
                "result is a partial one\n",
                (double)v->now_ns / 1e9, v->begun, o->plan->count, cancelled);
        return CLI_NO_STATUS;
    case WEIR_PLAYBACK_DONE:
        break;
    }
    if (v->ok > 0)
        return CLI_DONE_STATUS;
    fprintf(stderr, "weir replay: not one of %zu requests was answered\n", v->begun);
    return v->refused > 0 ? CLI_NO_STATUS : CLI_FAULT_STATUS;
}

static int64_t unix_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* record: closed here. */
static int replay_run(const struct replay_wish *wish, const struct replay_plan *plan, FILE *record)
{
    struct run run;
    struct replay_outcome o = {.wish = wish, .plan = plan, .began_us = unix_us()};
    int status = CLI_USAGE_STATUS;
    if (run_start(&run, wish, plan)) {
        int fault = weir_loop_run(run.loop);
        if (run.has_progress)
            fputs("\r\033[K", stderr);
        o.playback = run.playback;
        weir_playback_view(run.playback, &o.view);
        WEIR_INVARIANT(fault == 0); /* epoll does not fail on its own descriptor */
        o.figures = calloc(plan->tenants_count + 1u, sizeof *o.figures);
        bool fits = o.figures &&
                    weir_playback_figures(plan->items, plan->results, plan->count,
                                          plan->tenants_count, o.figures) &&
                    weir_playback_reasons(plan->items, plan->results, plan->count, &o.reasons,
                                          &o.reasons_count);
        status = CLI_FAULT_STATUS;
        if (!fits) {
            fputs("weir replay: out of memory for the result\n", stderr);
        } else {
            bool fine = show(&o, record);
            record = NULL;
            fflush(stdout);
            status = judge(&o);
            status = fine ? status : CLI_FAULT_STATUS;
        }
    }
    run_close(&run);
    if (record)
        fclose(record);
    free(o.figures);
    free(o.reasons);
    return status;
}

static void say_plan(const struct replay_plan *plan)
{
    char target[WEIR_ENDPOINT_TEXT_BYTES], amount[3][CLI_AMOUNT_BYTES];
    fprintf(stderr,
            "weir replay: %s request%s of %u tenant%s within %.1f s to %s, about %s prompt and %s "
            "output "
            "tokens\n",
            cli_amount((int64_t)plan->count, amount[0]), plan->count == 1 ? "" : "s",
            plan->tenants_used, plan->tenants_used == 1 ? "" : "s", (double)plan->span_ns / 1e9,
            weir_endpoint_text(&plan->endpoint, target),
            cli_amount((int64_t)plan->prompt_tok, amount[1]),
            cli_amount((int64_t)plan->output_tok, amount[2]));
    if (plan->tenants_used > 1 && plan->keys_count == 1)
        fprintf(stderr,
                "weir replay: all tenants are sent with %s key: to the endpoint they are one. "
                "--key-env TENANT=VAR tells them apart.\n",
                plan->keys[0] ? "the same" : "no");
}

/* A file that cannot be written is said before anything is sent. */
static bool open_files(const struct replay_wish *wish, FILE **record)
{
    bool is_file = wish->svg && strcmp(wish->svg, "-") != 0;
    if (is_file && wish->record && cli_out_is_same(wish->svg, wish->record)) {
        fprintf(stderr, "weir replay: --svg and --record both want %s: give them two files\n",
                wish->svg);
        return false;
    }
    if (is_file && !cli_out_check("weir replay", "--svg", wish->svg, CLI_CHART_BEGIN))
        return false;
    return !wish->record ||
           (*record = cli_record_open("weir replay", wish->record, wish->trace)) != NULL;
}

int cli_replay(int argc, char **argv)
{
    struct cli_args args;
    struct replay_wish wish;
    struct replay_plan plan;
    FILE *record = NULL;
    enum weir_api api;
    enum cli_parsed parsed = cli_parse(&replay_command, argc, argv, &args);
    if (parsed != CLI_GO)
        return parsed == CLI_DONE ? CLI_DONE_STATUS : CLI_USAGE_STATUS;
    if (!read_wish(&args, &wish, &api))
        return CLI_USAGE_STATUS;
    int status = CLI_USAGE_STATUS;
    if (replay_plan_make(&plan, &wish, api)) {
        if (!wish.is_dry)
            run_block_signals();
        say_plan(&plan);
        if (wish.is_dry)
            status = CLI_DONE_STATUS;
        else if (open_files(&wish, &record))
            status = replay_run(&wish, &plan, record);
    }
    replay_plan_free(&plan);
    return status;
}
