#include "cli/sweep.h"

#include "cli/text.h"
#include "wire/dates.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CELL_BYTES = 64 };

const char *sweep_when(int64_t unix_s, char out[static SWEEP_WHEN_BYTES])
{
    size_t bytes = weir_rfc3339_write(out, SWEEP_WHEN_BYTES - 1, unix_s * 1000000000);
    out[bytes] = '\0';
    return out;
}

const char *sweep_errors(const struct weir_sweep_figures *f, char *out, size_t bytes)
{
    size_t used = 0;
    out[0] = '\0';
    for (int end = 0; end < WEIR_LOAD_END_COUNT && used < bytes; end++)
        if (end != WEIR_LOAD_OK && f->ended[end] > 0) {
            int wrote = snprintf(out + used, bytes - used, "%s%s x%llu", used ? ", " : "",
                                 weir_load_end_name((enum weir_load_end)end),
                                 (unsigned long long)f->ended[end]);
            used += wrote > 0 ? (size_t)wrote : 0;
        }
    return out;
}

/* ---- beforehand ---- */

void sweep_show_plan(const struct sweep_plan *plan)
{
    char all[CLI_AMOUNT_BYTES], in[CLI_AMOUNT_BYTES], out[CLI_AMOUNT_BYTES];
    uint64_t requests = sweep_all_requests(plan);
    fprintf(stderr, "%s: %s requests at most (%u to warm up", plan->url,
            cli_amount((int64_t)requests, all), plan->warm_up);
    if (plan->clients_count > 0)
        fprintf(stderr, ", %u one at a time, then %u clients alone and together)",
                SWEEP_LIGHT_REQUESTS, plan->clients_count);
    else if (plan->levels_count == 1)
        fprintf(stderr, ", then %u in flight)", plan->levels[0]);
    else
        fprintf(stderr, ", then %u levels from %u to %u in flight)", plan->levels_count,
                plan->levels[0], plan->levels[plan->levels_count - 1]);
    fprintf(stderr, ", %zu bytes each", plan->body_bytes);
    if (plan->prompt_tok > 0)
        fprintf(stderr, ";\nabout %s input and at most %s output tokens in all",
                cli_amount((int64_t)(requests * plan->prompt_tok), in),
                cli_amount((int64_t)(requests * plan->output_tok), out));
    else if (plan->output_tok > 0)
        fprintf(stderr, ";\nat most %s output tokens in all",
                cli_amount((int64_t)(requests * plan->output_tok), out));
    else
        fputs(";\nthe payload sets no output limit, so what it costs is not known", stderr);
    fputs(".\n\n", stderr);
}

/* ---- cells ---- */

static void add_format(struct cli_table *t, const char *format, double value)
{
    char cell[CELL_BYTES];
    snprintf(cell, sizeof cell, format, value);
    cli_table_add(t, cell);
}

/* Milliseconds, or "-" where nothing was measured. */
static void add_ms(struct cli_table *t, const struct weir_sweep_times *times, uint64_t ns)
{
    double ms = (double)ns / 1e6;
    if (times->count == 0)
        cli_table_add(t, "-");
    else
        add_format(t, ms < 10 ? "%.2f" : ms < 1000 ? "%.1f" : "%.0f", ms);
}

static void add_rate(struct cli_table *t, double per_s)
{
    if (per_s > 0)
        add_format(t, per_s < 10 ? "%.2f" : per_s < 1000 ? "%.1f" : "%.0f", per_s);
    else
        cli_table_add(t, "-");
}

/* What stands in both tables: sent, ok, times, errors. */
static void add_figures(struct cli_table *t, const struct weir_sweep_figures *f)
{
    char errors[512];
    cli_table_add_amount(t, (int64_t)f->sent, NULL);
    cli_table_add_amount(t, (int64_t)f->ended[WEIR_LOAD_OK], NULL);
    add_ms(t, &f->whole, f->whole.p50_ns);
    add_ms(t, &f->whole, f->whole.p95_ns);
    add_ms(t, &f->whole, f->whole.p99_ns);
    add_ms(t, &f->first, f->first.p50_ns);
    add_ms(t, &f->first, f->first.p95_ns);
    add_ms(t, &f->token, f->token.p50_ns);
    add_rate(t, f->per_s);
    add_rate(t, f->output_tok_per_s);
    cli_table_add(t, sweep_errors(f, errors, sizeof errors));
}

static void show_hints(const struct weir_sweep_figures *f, const char *where)
{
    char least[CLI_AMOUNT_BYTES], most[CLI_AMOUNT_BYTES];
    if (f->ended[WEIR_LOAD_429] == 0)
        return;
    printf("%s: %llu refused with 429", where, (unsigned long long)f->ended[WEIR_LOAD_429]);
    if (*f->code)
        printf(" (%s)", f->code);
    cli_wait(f->hint_min_ns, least);
    cli_wait(f->hint_max_ns, most);
    if (f->hints > 0 && cli_is_never(f->hint_min_ns))
        printf(", %llu said not to come again", (unsigned long long)f->hints);
    else if (f->hints > 0)
        printf(", %llu said when to come again: after %s%s%s", (unsigned long long)f->hints, least,
               f->hint_min_ns == f->hint_max_ns ? ""
               : cli_is_never(f->hint_max_ns)   ? " or "
                                                : " to ",
               f->hint_min_ns == f->hint_max_ns ? "" : most);
    else
        printf(", none said when to come again");
    if (f->from_gateway > 0)
        printf("; %llu by a weir gateway before it", (unsigned long long)f->from_gateway);
    puts(".");
}

/* ---- levels ---- */

static void show_levels(const struct sweep_result *r)
{
    struct cli_table t = {
        .titles = {"in flight", "sent", "ok", "p50 ms", "p95 ms", "p99 ms", "TTFT p50", "TTFT p95",
                   "per token", "req/s", "tok/s", "not ok"},
        .right = {true, true, true, true, true, true, true, true, true, true, true, false},
        .columns = 12};
    for (uint32_t i = 0; i < r->levels_count; i++) {
        cli_table_add_amount(&t, r->levels[i].figures.in_flight, NULL);
        add_figures(&t, &r->levels[i].figures);
    }
    cli_table_print(&t, true);
    for (uint32_t i = 0; i < r->levels_count; i++) {
        char where[64];
        snprintf(where, sizeof where, "level %u", r->levels[i].figures.in_flight);
        show_hints(&r->levels[i].figures, where);
    }
}

const char *sweep_knee_text(const struct sweep_result *r, char *out, size_t bytes)
{
    const struct weir_knee *k = &r->knee;
    switch (k->result) {
    case WEIR_KNEE_FOUND:
        if (k->low == k->high)
            snprintf(out, bytes,
                     "at %u in flight or below: more adds no throughput (%.3g/s), only waiting.",
                     k->low, k->per_s);
        else
            snprintf(out, bytes,
                     "about %.0f in flight, between %u and %u: beyond it throughput stays near "
                     "%.3g/s and only waiting grows.%s",
                     k->at, k->low, k->high, k->per_s,
                     k->blur >= WEIR_KNEE_BLUR_ROUGH
                         ? " The curve bends early, so only those two levels are sure."
                         : "");
        break;
    case WEIR_KNEE_NOT_REACHED:
        snprintf(out, bytes,
                 "not reached up to %u in flight: throughput changed by %+.0f %% with the last "
                 "level, and no level shows that it stays. Try higher --levels.",
                 k->low, k->growth * 100);
        break;
    case WEIR_KNEE_REFUSED:
        if (k->low == 0)
            snprintf(out, bytes,
                     "not reached: at %u in flight already, more than %u %% were refused (429).",
                     k->high, WEIR_KNEE_FAILED_PERMILLE / 10);
        else
            snprintf(
                out, bytes,
                "not reached: from %u in flight on the endpoint refused more than %u %% (429), "
                "at %u it did not. That limit comes first.",
                k->high, WEIR_KNEE_FAILED_PERMILLE / 10, k->low);
        break;
    case WEIR_KNEE_FAILING:
        snprintf(out, bytes, "not reached: %u in flight failed too often to be measured.", k->high);
        break;
    case WEIR_KNEE_UNKNOWN:
        snprintf(out, bytes, "unknown: it takes two levels with answers.");
        break;
    }
    return out;
}

static void show_knee(const struct sweep_result *r)
{
    char text[512];
    printf("\nKnee: %s\n", sweep_knee_text(r, text, sizeof text));
    if (r->knee.max_in_flight == 0)
        return;
    puts("For the upstream's entry in weir.yaml:");
    printf("    max_in_flight: %u%s\n", r->knee.max_in_flight,
           r->knee.result == WEIR_KNEE_FOUND ? ""
                                             : "    # the most that was measured and went well");
}

/* ---- clients ---- */

static void show_clients(const struct sweep_plan *plan, const struct sweep_result *r)
{
    struct cli_table t = {
        .titles = {"client", "sent", "ok", "p50 ms", "p95 ms", "p99 ms", "TTFT p50", "TTFT p95",
                   "per token", "req/s", "tok/s", "not ok"},
        .right = {false, true, true, true, true, true, true, true, true, true, true, false},
        .columns = 12};
    char name[128];
    cli_table_add(&t, "one at a time");
    add_figures(&t, &r->light);
    for (uint32_t i = 0; i < plan->clients_count; i++) {
        snprintf(name, sizeof name, "%s=%u alone", plan->clients[i].name,
                 plan->clients[i].part.in_flight);
        cli_table_add(&t, name);
        add_figures(&t, &r->alone[i]);
    }
    for (uint32_t i = 0; i < plan->clients_count; i++) {
        snprintf(name, sizeof name, "%s=%u together", plan->clients[i].name,
                 plan->clients[i].part.in_flight);
        cli_table_add(&t, name);
        add_figures(&t, &r->together[i]);
    }
    cli_table_print(&t, true);
    for (uint32_t i = 0; i < plan->clients_count; i++) {
        snprintf(name, sizeof name, "%s alone", plan->clients[i].name);
        show_hints(&r->alone[i], name);
        snprintf(name, sizeof name, "%s together", plan->clients[i].name);
        show_hints(&r->together[i], name);
    }
}

const char *sweep_caps_text(const struct sweep_result *r)
{
    switch (r->verdict.caps) {
    case WEIR_CAPS_ONE_KEY:
        return "all clients used one key; several --key-env tell whether limits hold for a "
               "key or for the account.";
    case WEIR_CAPS_NOT_MET:
        return "no limit was met, so whether they hold for a key or the account is open.";
    case WEIR_CAPS_PER_KEY:
        return "they hold for a key; what one key did got no other refused.";
    case WEIR_CAPS_PER_ACCOUNT:
        return "they hold for the account; keys were refused for what others did.";
    case WEIR_CAPS_UNCLEAR:
        return "met, but whether they hold for a key or the account is not clear.";
    }
    return "";
}

const char *sweep_verdict_text(const struct sweep_plan *plan, const struct sweep_result *r,
                               char *out, size_t bytes)
{
    const struct weir_verdict *v = &r->verdict;
    const struct weir_verdict_share *s = &v->shares[v->worst];
    const char *cure =
        !v->is_known                     ? "Too little was answered to say anything."
        : v->is_overload && v->is_unfair ? "Bound what is in flight, and queue fairly what waits."
        : v->is_overload && v->queue == WEIR_QUEUE_FAIR
            ? "Bound what is in flight (max_in_flight); the endpoint already queues fairly."
        : v->is_overload
            ? "Bound what is in flight (max_in_flight). Whether the endpoint queues fairly is "
              "open: "
              "no line was seen, or clients as alike as these cannot tell (--clients a=40,b=1)."
        : v->is_unfair ? "Queue fairly: there is room enough."
        : v->times >= 2 || s->share < 0.5
            ? "Close to the line, though: there is waiting already, and a few more would cross it."
            : "There is room for all, and nobody is held back.";
    snprintf(
        out, bytes,
        "%s. All together take %.2f times as long as one request alone (overload from %u), "
        "%.1f %% were refused or failed (overload above %.0f %%). %s got %.3g/s of a fair share "
        "of %.3g/s, which is %.0f %% (unfairness below %.0f %%); its median time%s is "
        "%.2f times that alone. %s",
        weir_verdict_name(v), v->times, WEIR_VERDICT_TIMES, v->failed * 100,
        WEIR_VERDICT_FAILED_PERMILLE / 10.0, plan->clients[v->worst].name, s->together_per_s,
        s->fair_per_s, s->share * 100, 100.0 / WEIR_VERDICT_TIMES,
        plan->is_stream ? " to the first token" : "", s->times, cure);
    return out;
}

/* ---- all of it ---- */

static void show_lines(const char *title, const char *lines)
{
    if (!*lines)
        return;
    printf("\n%s\n", title);
    for (const char *at = lines; *at; at += strcspn(at, "\n"), at += *at == '\n')
        if (*at != '\n')
            printf("  %.*s\n", (int)strcspn(at, "\n"), at);
}

void sweep_show(const struct sweep_plan *plan, const struct sweep_result *r, const json_t *against)
{
    char when[SWEEP_WHEN_BYTES], text[1024];
    printf("%s, %s\n", plan->url, sweep_when(r->begun_unix_s, when));
    printf("%s, %s, payload %.12s (%zu bytes)%s%s\n\n", *plan->model ? plan->model : "no model",
           plan->is_stream ? "streamed" : "whole answers", plan->digest, plan->body_bytes,
           plan->note ? "\nnote: " : "", plan->note ? plan->note : "");
    if (plan->clients_count > 0) {
        show_clients(plan, r);
        if (r->has_clients)
            printf("\nWhich failure: %s\nLimits: %s\n",
                   sweep_verdict_text(plan, r, text, sizeof text), sweep_caps_text(r));
    } else {
        show_levels(r);
        show_knee(r);
    }
    if (against)
        sweep_show_against(plan, r, against);
    if (r->turn_max_ns > 5 * WEIR_NS_PER_MS)
        printf("\nThis machine was busy itself: single figures may be late by up to %.1f ms.\n",
               (double)r->turn_max_ns / 1e6);
    show_lines("What went wrong:", r->failures);
    show_lines("Limits the endpoint told:", r->advertised);
}
