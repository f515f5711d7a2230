#include "cli/sweep.h"

#include "cli/text.h"

#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define REST_MAX_NS (120 * WEIR_NS_PER_S)

uint32_t sweep_level_requests(const struct sweep_plan *plan, uint32_t in_flight)
{
    return plan->requests ? plan->requests : (uint32_t)weir_max_u64(32, 6 * (uint64_t)in_flight);
}

uint32_t sweep_client_requests(const struct sweep_plan *plan, uint32_t in_flight)
{
    return plan->requests ? plan->requests : (uint32_t)weir_max_u64(24, 12 * (uint64_t)in_flight);
}

uint64_t sweep_all_requests(const struct sweep_plan *plan)
{
    uint64_t sum = plan->warm_up;
    uint32_t together = 0;
    for (uint32_t i = 0; i < plan->levels_count; i++)
        sum += sweep_level_requests(plan, plan->levels[i]);
    for (uint32_t i = 0; i < plan->clients_count; i++) {
        sum += sweep_client_requests(plan, plan->clients[i].part.in_flight);
        together += plan->clients[i].part.in_flight;
    }
    if (plan->clients_count > 0)
        sum += SWEEP_LIGHT_REQUESTS + sweep_client_requests(plan, together);
    return sum;
}

/* ---- progress and Ctrl-C ---- */

static struct weir_sweep *sweep_at_hand;
static volatile sig_atomic_t signals_now;

static void sweep_signal(int number)
{
    (void)number;
    if (++signals_now > 1)
        _exit(130);
    if (sweep_at_hand)
        weir_sweep_stop(sweep_at_hand);
}

struct progress {
    const struct sweep_plan *plan;
    struct sweep_result *result;
    char what[128];
};

static void progress_seen(void *ctx, const struct weir_sweep_now *now)
{
    const struct progress *p = ctx;
    char line[256];
    if (now->rest_ns > 0)
        snprintf(line, sizeof line, "%s: the endpoint asked to wait, %.1f s more", p->what,
                 (double)now->rest_ns / 1e9);
    else
        snprintf(line, sizeof line, "%s: %u of %u sent, %u in flight, %u ok, %u not", p->what,
                 now->sent, now->planned, now->in_flight, now->ok, now->bad);
    cli_progress_line(line);
}

/* ---- runs ---- */

static void say_stop(struct sweep_result *r, const char *what, enum weir_sweep_end end,
                     const struct weir_sweep_figures *f)
{
    char errors[512];
    r->end = end;
    r->is_limit = false;
    r->stop[0] = '\0';
    switch (end) {
    case WEIR_SWEEP_DONE:
        break;
    case WEIR_SWEEP_BUDGET:
        r->is_limit = f->ended[WEIR_LOAD_429] * 2 > f->sent - f->ended[WEIR_LOAD_OK];
        snprintf(r->stop, sizeof r->stop,
                 "stopped in %s: too much went wrong (of %llu sent: %s); --errors allows more",
                 what, (unsigned long long)f->sent, sweep_errors(f, errors, sizeof errors));
        break;
    case WEIR_SWEEP_STOPPED:
        snprintf(r->stop, sizeof r->stop, "stopped by hand in %s: what follows is not whole", what);
        break;
    case WEIR_SWEEP_FAULT:
        snprintf(r->stop, sizeof r->stop,
                 "stopped in %s: this machine ran out of memory or the event loop failed", what);
        break;
    }
}

/* One run, with the hints of those before it obeyed first. figures: parts_count + 1. false: the
 * sweep is over, and the result says why. */
static bool run_one(struct progress *p, const struct weir_sweep_part *parts, size_t parts_count,
                    uint32_t requests, struct weir_sweep_figures *figures)
{
    struct sweep_result *r = p->result;
    char wait[CLI_AMOUNT_BYTES];
    uint64_t asked_ns;
    memset(figures, 0, (parts_count + 1) * sizeof *figures);
    if (!weir_sweep_rest(sweep_at_hand, &asked_ns)) {
        r->end = asked_ns ? WEIR_SWEEP_BUDGET : WEIR_SWEEP_STOPPED;
        r->is_limit = asked_ns != 0;
        if (asked_ns == 0)
            say_stop(r, p->what, WEIR_SWEEP_STOPPED, figures);
        else if (cli_is_never(asked_ns))
            snprintf(r->stop, sizeof r->stop,
                     "stopped before %s: the endpoint said that repeating cannot help", p->what);
        else
            snprintf(r->stop, sizeof r->stop,
                     "stopped before %s: the endpoint asked to come again in %s", p->what,
                     cli_wait(asked_ns, wait));
        return false;
    }
    enum weir_sweep_end end = weir_sweep_run(sweep_at_hand, parts, parts_count, requests, figures);
    r->sent += figures[parts_count].sent;
    say_stop(r, p->what, end, &figures[parts_count]);
    return end == WEIR_SWEEP_DONE;
}

static bool run_warm_up(struct progress *p)
{
    struct sweep_result *r = p->result;
    const struct weir_sweep_part part = {.in_flight = 1};
    if (p->plan->warm_up == 0)
        return true;
    snprintf(p->what, sizeof p->what, "the warm-up");
    bool is_well = run_one(p, &part, 1, p->plan->warm_up, r->warm_up);
    if (r->end == WEIR_SWEEP_BUDGET && r->warm_up[1].ended[WEIR_LOAD_OK] > 0) {
        r->end = WEIR_SWEEP_DONE; /* some of it was answered: the levels will tell */
        r->stop[0] = '\0';
        is_well = true;
    } else if (r->end == WEIR_SWEEP_BUDGET) {
        const struct weir_sweep_figures *f = &r->warm_up[1];
        char hint[96] = "", wait[CLI_AMOUNT_BYTES];
        if (f->hints > 0 && !cli_is_never(f->hint_max_ns))
            snprintf(hint, sizeof hint, "; the endpoint asked to come again in %s",
                     cli_wait(f->hint_max_ns, wait));
        snprintf(r->stop, sizeof r->stop,
                 "nothing was measured: the first request, to warm up, already failed%s", hint);
    }
    return is_well;
}

static void run_levels(struct progress *p)
{
    struct sweep_result *r = p->result;
    struct weir_knee_level points[WEIR_KNEE_LEVELS_MAX];
    for (uint32_t i = 0; i < p->plan->levels_count; i++) {
        const struct weir_sweep_part part = {.in_flight = p->plan->levels[i]};
        struct weir_sweep_figures both[2];
        uint32_t requests = sweep_level_requests(p->plan, part.in_flight);
        snprintf(p->what, sizeof p->what, "level %u (%u of %u)", part.in_flight, i + 1,
                 p->plan->levels_count);
        bool goes_on = run_one(p, &part, 1, requests, both);
        if (both[1].sent > 0)
            r->levels[r->levels_count++] =
                (struct sweep_level){.planned = requests, .figures = both[1]};
        if (!goes_on)
            break;
    }
    for (uint32_t i = 0; i < r->levels_count; i++) {
        const struct weir_sweep_figures *f = &r->levels[i].figures;
        points[i] = (struct weir_knee_level){
            .in_flight = f->in_flight,
            .ok = f->ended[WEIR_LOAD_OK],
            .refused = f->ended[WEIR_LOAD_429],
            .failed = f->sent - f->ended[WEIR_LOAD_OK] - f->ended[WEIR_LOAD_429] -
                      f->ended[WEIR_LOAD_CANCELLED],
            .mean_ns = (double)f->whole.mean_ns,
            .first_ns = f->first.count == f->whole.count ? (double)f->first.mean_ns : 0};
    }
    /* A level that was cut short says nothing of the curve but that it failed. */
    bool is_cut = r->levels_count > 0 && r->end == WEIR_SWEEP_STOPPED;
    weir_knee_find(points, r->levels_count - is_cut, &r->knee);
}

/* of: of the run that f is part or all of; planned: what that should have sent. */
static struct weir_verdict_run verdict_run(const struct weir_sweep_figures *f,
                                           const struct weir_sweep_figures *of, uint32_t planned)
{
    const struct weir_sweep_times *median =
        f->first.count == f->whole.count ? &f->first : &f->whole;
    uint64_t ok = f->ended[WEIR_LOAD_OK], refused = f->ended[WEIR_LOAD_429];
    return (struct weir_verdict_run){.ok = ok,
                                     .refused = refused,
                                     .failed = f->sent - ok - refused,
                                     .mean_ns = (double)f->mean_all_ns,
                                     .took_ns = (double)of->took_ns,
                                     .is_short = of->sent < planned,
                                     .median_ns = (double)median->p50_ns};
}

static void run_clients(struct progress *p)
{
    struct sweep_result *r = p->result;
    const struct sweep_plan *plan = p->plan;
    struct weir_sweep_part parts[WEIR_SWEEP_PARTS_MAX];
    struct weir_sweep_figures both[2];
    struct weir_verdict_client clients[WEIR_SWEEP_PARTS_MAX];
    uint32_t together = 0;
    const struct weir_sweep_part one = {.in_flight = 1,
                                        .key_index = plan->clients[0].part.key_index};
    snprintf(p->what, sizeof p->what, "one at a time");
    bool goes_on = run_one(p, &one, 1, SWEEP_LIGHT_REQUESTS, both);
    r->light = both[1];
    for (uint32_t i = 0; i < plan->clients_count && (goes_on || r->is_limit); i++) {
        parts[i] = plan->clients[i].part;
        together += parts[i].in_flight;
        snprintf(p->what, sizeof p->what, "%s alone", plan->clients[i].name);
        goes_on = run_one(p, &parts[i], 1, sweep_client_requests(plan, parts[i].in_flight), both);
        r->alone[i] = both[1];
    }
    /* 429s alone are part of the answer here. */
    if (!goes_on && !r->is_limit)
        return;
    snprintf(p->what, sizeof p->what, "all together");
    goes_on =
        run_one(p, parts, plan->clients_count, sweep_client_requests(plan, together), r->together);
    if (!goes_on && (!r->is_limit || r->together[plan->clients_count].sent == 0))
        return;
    const struct weir_sweep_figures *sum = &r->together[plan->clients_count];
    uint32_t planned = sweep_client_requests(plan, together);
    for (uint32_t i = 0; i < plan->clients_count; i++) {
        uint32_t alone = sweep_client_requests(plan, parts[i].in_flight);
        clients[i] =
            (struct weir_verdict_client){.in_flight = parts[i].in_flight,
                                         .key = parts[i].key_index,
                                         .alone = verdict_run(&r->alone[i], &r->alone[i], alone),
                                         .together = verdict_run(&r->together[i], sum, planned)};
    }
    const struct weir_verdict_run all = verdict_run(sum, sum, planned);
    r->has_clients = true;
    weir_verdict_judge((double)r->light.whole.p50_ns, clients, plan->clients_count, &all,
                       &r->verdict);
}

/* What each kind of failure said first, and what to do. */
static void list_failures(const struct weir_load *load, char *out, size_t bytes)
{
    struct weir_load_view view;
    size_t used = 0;
    weir_load_view(load, &view);
    out[0] = '\0';
    for (int end = 0; end < WEIR_LOAD_END_COUNT; end++) {
        if (view.ended[end] == 0 || end == WEIR_LOAD_OK || end == WEIR_LOAD_CANCELLED)
            continue;
        const char *detail = weir_load_first_detail(load, (enum weir_load_end)end);
        int wrote = snprintf(out + used, bytes - used, "%s x%llu%s%s. %s\n",
                             weir_load_end_name((enum weir_load_end)end),
                             (unsigned long long)view.ended[end], *detail ? ": " : "", detail,
                             weir_load_end_advice((enum weir_load_end)end));
        if (wrote < 0 || (size_t)wrote >= bytes - used)
            return;
        used += (size_t)wrote;
    }
}

bool sweep_run(const struct sweep_plan *plan, struct sweep_result *result)
{
    char error_text[512];
    struct progress progress = {.plan = plan, .result = result};
    uint32_t in_flight_max = 1, together = 0;
    for (uint32_t i = 0; i < plan->levels_count; i++)
        in_flight_max = (uint32_t)weir_max_u64(in_flight_max, plan->levels[i]);
    for (uint32_t i = 0; i < plan->clients_count; i++)
        together += plan->clients[i].part.in_flight;
    const struct weir_sweep_rules rules = {
        .load = {.endpoint = &plan->endpoint,
                 .keys = plan->keys,
                 .keys_count = plan->keys_count,
                 .ca_file = plan->ca_file,
                 .timeouts = weir_load_timeouts_of(plan->timeout_ns),
                 .in_flight_max = (uint32_t)weir_max_u64(in_flight_max, together)},
        .body = plan->body,
        .body_bytes = plan->body_bytes,
        .bad_permille = plan->bad_percent * 10,
        .rest_max_ns = REST_MAX_NS,
        .seen = progress_seen,
        .ctx = &progress};
    memset(result, 0, sizeof *result);
    struct weir_sweep *sweep = weir_sweep_create(&rules, error_text, sizeof error_text);
    if (!sweep) {
        fprintf(stderr, "weir sweep: %s\n", error_text);
        return false;
    }
    sweep_at_hand = sweep;
    struct sigaction action = {.sa_handler = sweep_signal}, old_int, old_term;
    sigaction(SIGINT, &action, &old_int);
    sigaction(SIGTERM, &action, &old_term);
    result->begun_unix_s = (int64_t)time(NULL);
    if (run_warm_up(&progress)) {
        if (plan->clients_count > 0)
            run_clients(&progress);
        else
            run_levels(&progress);
    }
    result->ended_unix_s = (int64_t)time(NULL);
    cli_progress_line("");
    list_failures(weir_sweep_load(sweep), result->failures, sizeof result->failures);
    struct weir_load_view view;
    weir_load_view(weir_sweep_load(sweep), &view);
    result->turn_max_ns = view.turn_max_ns;
    snprintf(result->advertised, sizeof result->advertised, "%s",
             weir_load_advertised(weir_sweep_load(sweep)));
    sigaction(SIGINT, &old_int, NULL);
    sigaction(SIGTERM, &old_term, NULL);
    sweep_at_hand = NULL;
    weir_sweep_destroy(sweep);
    return true;
}
