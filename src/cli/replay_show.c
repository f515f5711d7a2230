#include "cli/replay.h"

#include "cli/text.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TENANTS_SHOWN = 24, REASONS_SHOWN = 24, CELL_BYTES = 48 };

/* ---- words ---- */

const char *replay_date(int64_t unix_us, char out[static REPLAY_DATE_BYTES])
{
    time_t seconds = (time_t)(unix_us / 1000000);
    struct tm at;
    gmtime_r(&seconds, &at);
    strftime(out, REPLAY_DATE_BYTES, "%Y-%m-%d %H:%M:%S UTC", &at);
    return out;
}

void replay_distortion(const struct replay_outcome *o, char text[static REPLAY_TEXT_BYTES])
{
    const struct weir_playback_figures *all = replay_all(o);
    size_t used = 0;
    text[0] = '\0';
    char held[CLI_AMOUNT_BYTES], count[CLI_AMOUNT_BYTES];
    if (o->view.held > 0)
        used = (size_t)snprintf(text, REPLAY_TEXT_BYTES,
                                "%s of %s requests had to wait because %u were under way "
                                "already: the figures measure that "
                                "cap as well as the endpoint. Raise --max-in-flight.",
                                cli_amount((int64_t)o->view.held, held),
                                cli_amount((int64_t)o->plan->count, count), o->wish->in_flight_max);
    /* A delay that shows: above a millisecond, and above a fiftieth of what was measured. */
    if (all->lag.count > 0 && all->lag.p99_ns > WEIR_NS_PER_MS &&
        all->lag.p99_ns > all->latency.p50_ns / 50)
        snprintf(
            text + used, REPLAY_TEXT_BYTES - used,
            "%sThis machine did not keep up: one request in a hundred left %.1f ms late or more.",
            used ? " " : "", (double)all->lag.p99_ns / 1e6);
}

static const uint64_t *ordered_by; /* of the comparison, which takes no context */

static int tenant_compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (ordered_by[x] != ordered_by[y])
        return ordered_by[x] > ordered_by[y] ? -1 : 1;
    return x < y ? -1 : x > y;
}

uint32_t *replay_tenants_ordered(const struct replay_outcome *o)
{
    uint32_t count = o->plan->tenants_count, used = 0;
    uint32_t *tenants = malloc((count + 1u) * sizeof *tenants);
    uint64_t *planned = malloc((count + 1u) * sizeof *planned);
    if (tenants && planned) {
        for (uint32_t t = 0; t < count; t++) {
            planned[t] = o->figures[t].planned;
            if (planned[t] > 0)
                tenants[used++] = t;
        }
        ordered_by = planned;
        qsort(tenants, used, sizeof *tenants, tenant_compare);
        ordered_by = NULL;
    } else {
        free(tenants);
        tenants = NULL;
    }
    free(planned);
    return tenants;
}

/* ---- the table ---- */

static void put_time(struct cli_table *table, bool is_known, uint64_t ns)
{
    char cell[CELL_BYTES] = "-";
    if (is_known && ns < WEIR_NS_PER_S)
        snprintf(cell, sizeof cell, "%.1f ms", (double)ns / 1e6);
    else if (is_known)
        snprintf(cell, sizeof cell, "%.2f s", (double)ns / 1e9);
    cli_table_add(table, cell);
}

static void put_tenant(struct cli_table *table, const struct replay_outcome *o, const char *name,
                       const struct weir_playback_figures *f)
{
    char cell[CELL_BYTES] = "-";
    double seconds = (double)o->view.now_ns / 1e9;
    cli_table_add(table, name);
    cli_table_add_amount(table, (int64_t)f->begun, NULL);
    cli_table_add_amount(table, (int64_t)f->ok, NULL);
    cli_table_add_amount(table, (int64_t)f->refused, NULL);
    cli_table_add_amount(table, (int64_t)f->failed, NULL);
    put_time(table, f->latency.count > 0, f->latency.p50_ns);
    put_time(table, f->latency.count > 0, f->latency.p95_ns);
    put_time(table, f->latency.count > 0, f->latency.p99_ns);
    put_time(table, f->ttft.count > 0, f->ttft.p50_ns);
    put_time(table, f->ttft.count > 0, f->ttft.p95_ns);
    put_time(table, f->tpot.count > 0, f->tpot.p50_ns);
    if (f->ok > f->usage_unknown && seconds > 0)
        snprintf(cell, sizeof cell, "%.1f", (double)f->output_tok / seconds);
    cli_table_add(table, cell);
}

static bool show_tenants(const struct replay_outcome *o)
{
    struct cli_table table = {
        .titles = {"tenant", "sent", "ok", "refused", "failed", "latency p50", "p95", "p99",
                   "TTFT p50", "p95", "per token", "output tok/s"},
        .right = {false, true, true, true, true, true, true, true, true, true, true, true},
        .columns = 12};
    uint32_t *tenants = replay_tenants_ordered(o);
    if (!tenants)
        return false;
    uint32_t shown = (uint32_t)weir_min_u64(o->plan->tenants_used, TENANTS_SHOWN);
    for (uint32_t i = 0; i < shown; i++)
        put_tenant(&table, o, replay_tenant_name(o->plan, tenants[i]), &o->figures[tenants[i]]);
    if (o->plan->tenants_used > 1)
        put_tenant(&table, o, "all", replay_all(o));
    free(tenants);
    if (table.no_memory)
        return false;
    cli_table_print(&table, true);
    if (shown < o->plan->tenants_used)
        printf("(the %u tenants of %u with the most requests; --csv and --json have all)\n", shown,
               o->plan->tenants_used);
    return true;
}

static const char *reason_text(const struct replay_outcome *o, const struct weir_playback_reason *r)
{
    const char *code = weir_playback_code(o->playback, r->code);
    return *code ? code : weir_load_end_name((enum weir_load_end)r->end);
}

static bool show_reasons(const struct replay_outcome *o)
{
    struct cli_table table = {
        .titles = {"tenant", "count", "status", "reason", "said by", "come again in"},
        .right = {false, true, true, false, false, true},
        .columns = 6};
    size_t shown = (size_t)weir_min_u64(o->reasons_count, REASONS_SHOWN);
    for (size_t i = 0; i < shown; i++) {
        const struct weir_playback_reason *r = &o->reasons[i];
        char wait[CLI_AMOUNT_BYTES];
        cli_table_add(&table, replay_tenant_name(o->plan, r->tenant));
        cli_table_add_amount(&table, (int64_t)r->count, NULL);
        cli_table_add_amount(&table, r->status ? r->status : -1, "-");
        cli_table_add(&table, reason_text(o, r));
        cli_table_add(&table, r->from_gateway ? "weir" : r->status ? "the endpoint" : "-");
        cli_table_add(&table, r->hint_max_ns ? cli_wait(r->hint_max_ns, wait) : "-");
    }
    if (shown == 0)
        return true;
    if (table.no_memory)
        return false;
    puts("\nRefused and failed:");
    cli_table_print(&table, true);
    if (shown < o->reasons_count)
        printf("(the %zu largest of %zu rows; --json has all)\n", shown, o->reasons_count);
    return true;
}

static void show_head(const struct replay_outcome *o)
{
    char target[WEIR_ENDPOINT_TEXT_BYTES], date[REPLAY_DATE_BYTES], amount[CLI_AMOUNT_BYTES];
    printf("%s at %g times its speed to %s\n", o->wish->trace, o->wish->speed_permille / 1000.0,
           weir_endpoint_text(&o->plan->endpoint, target));
    printf("%s, %.1f s", replay_date(o->began_us, date), (double)o->view.now_ns / 1e9);
    printf("; %s of", cli_amount((int64_t)o->view.begun, amount));
    printf(" %s request%s sent, at most %u at once, %llu connection%s\n",
           cli_amount((int64_t)o->plan->count, amount), o->plan->count == 1 ? "" : "s",
           o->view.in_flight_peak, (unsigned long long)o->view.connects,
           o->view.connects == 1 ? "" : "s");
    if (o->wish->note)
        printf("%s\n", o->wish->note);
    putchar('\n');
}

bool replay_show_table(const struct replay_outcome *o)
{
    const struct weir_playback_figures *all = replay_all(o);
    const char *advertised = weir_load_advertised(weir_playback_load(o->playback));
    char text[REPLAY_TEXT_BYTES];
    show_head(o);
    if (!show_tenants(o) || !show_reasons(o))
        return false;
    if (*advertised)
        printf("\nLimits that the endpoint told last:\n%s", advertised);
    puts(
        "\nLatency and TTFT are of answers, from the time at which each request should have left.");
    if (all->lag.count > 0)
        printf("Our own delay before sending: p50 %.2f ms, p99 %.2f ms, at most %.2f ms; longest "
               "turn of "
               "the loop %.2f ms.\n",
               (double)all->lag.p50_ns / 1e6, (double)all->lag.p99_ns / 1e6,
               (double)all->lag.max_ns / 1e6, (double)o->view.turn_max_ns / 1e6);
    replay_distortion(o, text);
    if (*text)
        printf("%s\n", text);
    return true;
}

/* ---- CSV ---- */

static void csv_spread(const struct weir_playback_spread *s)
{
    const uint64_t values[] = {s->p50_ns, s->p95_ns, s->p99_ns, s->max_ns};
    for (size_t i = 0; i < WEIR_COUNT(values); i++) {
        putchar(',');
        if (s->count > 0)
            printf("%.6f", (double)values[i] / 1e9);
    }
}

static void csv_row(const char *name, const struct weir_playback_figures *f)
{
    cli_put_csv(stdout, name);
    printf(",%zu,%zu,%zu,%zu,%zu,%zu", f->planned, f->begun, f->ok, f->refused, f->failed, f->held);
    csv_spread(&f->latency);
    csv_spread(&f->ttft);
    csv_spread(&f->tpot);
    csv_spread(&f->lag);
    printf(",%llu,%llu\n", (unsigned long long)f->input_tok, (unsigned long long)f->output_tok);
}

bool replay_show_csv(const struct replay_outcome *o)
{
    static const char *const spreads[] = {"latency", "ttft", "tpot", "lag"};
    uint32_t *tenants = replay_tenants_ordered(o);
    if (!tenants)
        return false;
    fputs("tenant,planned,sent,ok,refused,failed,held", stdout);
    for (size_t i = 0; i < WEIR_COUNT(spreads); i++)
        printf(",%s_p50_s,%s_p95_s,%s_p99_s,%s_max_s", spreads[i], spreads[i], spreads[i],
               spreads[i]);
    puts(",input_tokens,output_tokens");
    for (uint32_t i = 0; i < o->plan->tenants_used; i++)
        csv_row(replay_tenant_name(o->plan, tenants[i]), &o->figures[tenants[i]]);
    csv_row("all", replay_all(o));
    free(tenants);
    return true;
}
