#include "cli/replay.h"

#include "cli/chart.h"
#include "cli/text.h"
#include "measure/percentile.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A replay over time: what was sent and what came of it, how long answers took, how many were under
 * way. By the intended time of the requests; under way at the moment. */

enum { RATES, LATENCY, TENANTS, IN_FLIGHT, CHARTS };
enum { BINS_WANTED = 100, TENANTS_SHOWN = 8, TENANT_STEP = 5, SERIES_MAX = TENANTS_SHOWN };

struct picture {
    const struct replay_outcome *o;
    uint64_t bin_ns;
    size_t bins;
    struct weir_sample sample; /* room for as many as there are items */
    size_t *bin_begins;        /* of each bin, and the end: index of its first item */
    double *room;              /* x and y of each series */
    size_t room_used, room_count;
    struct cli_chart_series series[CHARTS][SERIES_MAX];
    size_t counts[CHARTS];
};

/* 1, 2 or 5 times a power of ten, so that about BINS_WANTED make the whole. */
static uint64_t bin_of(uint64_t whole_ns)
{
    static const uint64_t steps[] = {1, 2, 5};
    for (uint64_t unit_ns = WEIR_NS_PER_MS;; unit_ns *= 10)
        for (size_t i = 0; i < WEIR_COUNT(steps); i++)
            if (unit_ns * steps[i] >= whole_ns / BINS_WANTED)
                return unit_ns * steps[i];
}

static struct cli_chart_series *add_series(struct picture *p, int chart, const char *name,
                                           double **y)
{
    struct cli_chart_series *s = &p->series[chart][p->counts[chart]++];
    size_t points = p->bins + 1;
    WEIR_INVARIANT(p->counts[chart] <= SERIES_MAX);
    WEIR_INVARIANT(p->room_used + 2 * points <= p->room_count);
    double *x = p->room + p->room_used;
    *y = x + points;
    p->room_used += 2 * points;
    for (size_t b = 0; b < points; b++) {
        x[b] = (double)(b * p->bin_ns) / 1e9;
        (*y)[b] = NAN;
    }
    *s = (struct cli_chart_series){.name = name, .x = x, .y = *y, .count = points};
    return s;
}

/* kind: of enum weir_playback_kind, counted when they ended; WEIR_PLAYBACK_OPEN: everything sent,
 * counted when it should have left. Nothing is drawn that never was. */
static void add_rate(struct picture *p, const char *name, enum weir_playback_kind kind)
{
    const struct replay_plan *plan = p->o->plan;
    double *y = NULL;
    for (size_t i = 0; i < plan->count; i++) {
        const struct weir_playback_result *r = &plan->results[i];
        bool is_sent = kind == WEIR_PLAYBACK_OPEN && r->state != WEIR_PLAYBACK_READY;
        if (!is_sent && (kind == WEIR_PLAYBACK_OPEN || weir_playback_kind(r) != kind))
            continue;
        if (!y) {
            add_series(p, RATES, name, &y)->is_step = true;
            memset(y, 0, (p->bins + 1) * sizeof *y);
        }
        size_t bin = (size_t)((is_sent ? plan->items[i].arrival_ns : r->end_ns) / p->bin_ns);
        y[bin < p->bins ? bin : p->bins - 1] += 1e9 / (double)p->bin_ns;
    }
}

/* What a line of latencies shows. */
struct line {
    uint32_t tenant; /* WEIR_NONE: all */
    uint32_t permille;
    bool is_ttft;
    size_t step; /* bins for each point: one tenant has fewer answers than all have */
};

static void add_percentile(struct picture *p, int chart, const char *name, const struct line *line)
{
    const struct replay_plan *plan = p->o->plan;
    struct weir_sample *sample = &p->sample;
    double *y, *x = p->room + p->room_used;
    struct cli_chart_series *series = add_series(p, chart, name, &y);
    series->count = 0;
    for (size_t b = 0; b < p->bins; b += line->step) {
        size_t until = weir_min_u64(b + line->step, p->bins);
        sample->count = sample->sorted = 0;
        for (size_t i = p->bin_begins[b]; i < p->bin_begins[until]; i++) {
            const struct weir_playback_result *r = &plan->results[i];
            uint64_t at_ns = line->is_ttft ? r->first_token_ns : r->end_ns;
            if (weir_playback_kind(r) == WEIR_PLAYBACK_OK && at_ns > 0 &&
                (line->tenant == WEIR_NONE || plan->items[i].tenant == line->tenant))
                weir_sample_add(sample, at_ns - plan->items[i].arrival_ns);
        }
        x[series->count] = (double)(b * p->bin_ns) / 1e9;
        y[series->count++] =
            sample->count > 0 ? (double)weir_sample_at(sample, line->permille) / 1e9 : NAN;
    }
    x[series->count] = (double)(p->bins * p->bin_ns) / 1e9; /* all charts end alike */
    y[series->count++] = NAN;
}

static void add_in_flight(struct picture *p)
{
    const struct replay_plan *plan = p->o->plan;
    double *y, *cap_y;
    add_series(p, IN_FLIGHT, "under way", &y)->is_step = true;
    for (size_t b = 0; b <= p->bins; b++)
        y[b] = 0;
    for (size_t i = 0; i < plan->count; i++) {
        const struct weir_playback_result *r = &plan->results[i];
        if (r->state != WEIR_PLAYBACK_ENDED)
            continue;
        for (uint64_t b = r->begun_ns / p->bin_ns + 1; b <= r->end_ns / p->bin_ns && b <= p->bins;
             b++)
            y[b]++;
    }
    if (p->o->view.held == 0)
        return;
    add_series(p, IN_FLIGHT, "--max-in-flight", &cap_y)->is_dashed = true;
    for (size_t b = 0; b <= p->bins; b++)
        cap_y[b] = p->o->wish->in_flight_max;
}

static bool fill(struct picture *p)
{
    const struct replay_plan *plan = p->o->plan;
    p->bin_ns = bin_of(p->o->view.now_ns);
    p->bins = (size_t)(p->o->view.now_ns / p->bin_ns) + 1;
    p->room_count = (size_t)CHARTS * SERIES_MAX * 2 * (p->bins + 1);
    bool has_sample = weir_sample_init(&p->sample, plan->count);
    p->bin_begins = calloc(p->bins + 1, sizeof *p->bin_begins);
    p->room = calloc(p->room_count, sizeof *p->room);
    uint32_t *tenants = replay_tenants_ordered(p->o);
    if (has_sample && p->bin_begins && p->room && tenants) {
        for (size_t b = 0, i = 0; b <= p->bins; b++) {
            while (i < plan->count && plan->items[i].arrival_ns < b * p->bin_ns)
                i++;
            p->bin_begins[b] = i;
        }
        add_rate(p, "sent", WEIR_PLAYBACK_OPEN);
        add_rate(p, "answered", WEIR_PLAYBACK_OK);
        add_rate(p, "refused", WEIR_PLAYBACK_REFUSED);
        add_rate(p, "failed", WEIR_PLAYBACK_FAILED);
        add_percentile(p, LATENCY, "latency p50", &(struct line){WEIR_NONE, 500, false, 1});
        add_percentile(p, LATENCY, "latency p95", &(struct line){WEIR_NONE, 950, false, 1});
        if (replay_all(p->o)->ttft.count > 0) {
            add_percentile(p, LATENCY, "first token p50", &(struct line){WEIR_NONE, 500, true, 1});
            add_percentile(p, LATENCY, "first token p95", &(struct line){WEIR_NONE, 950, true, 1});
        }
        for (uint32_t t = 0; plan->tenants_used > 1 && t < plan->tenants_used && t < TENANTS_SHOWN;
             t++)
            add_percentile(p, TENANTS, replay_tenant_name(plan, tenants[t]),
                           &(struct line){tenants[t], 950, false, TENANT_STEP});
        add_in_flight(p);
    }
    bool fits = has_sample && p->bin_begins && p->room && tenants;
    free(tenants);
    return fits;
}

static void write_facts(const struct replay_outcome *o, char *out, size_t bytes)
{
    char target[WEIR_ENDPOINT_TEXT_BYTES], date[REPLAY_DATE_BYTES], text[REPLAY_TEXT_BYTES],
        amount[2][CLI_AMOUNT_BYTES];
    replay_distortion(o, text);
    snprintf(out, bytes,
             "To %.250s, %s, at %g times its speed, %.1f s: %s of %s requests sent. Times count "
             "from when each should have "
             "left.%s%s%s%.300s",
             weir_endpoint_text(&o->plan->endpoint, target), replay_date(o->began_us, date),
             o->wish->speed_permille / 1000.0, (double)o->view.now_ns / 1e9,
             cli_amount((int64_t)o->view.begun, amount[0]),
             cli_amount((int64_t)o->plan->count, amount[1]), *text ? " " : "", text,
             o->wish->note ? " Note: " : "", o->wish->note ? o->wish->note : "");
}

static bool draw(const struct picture *p, FILE *out)
{
    char title[150], facts[1500], tenants_note[100] = "";
    const char *slash = strrchr(p->o->wish->trace, '/'), *x = "seconds since the start";
    snprintf(title, sizeof title, "weir replay of %.100s", slash ? slash + 1 : p->o->wish->trace);
    write_facts(p->o, facts, sizeof facts);
    if (p->o->plan->tenants_used > TENANTS_SHOWN)
        snprintf(tenants_note, sizeof tenants_note, "The %d of %u tenants with the most requests.",
                 TENANTS_SHOWN, p->o->plan->tenants_used);
    const struct {
        const char *title, *note, *unit;
    } heads[CHARTS] = {
        [RATES] = {"Requests sent, when they were due, and ended", NULL, "requests a second"},
        [LATENCY] = {"Answers of all tenants: how long they took", NULL, "seconds"},
        [TENANTS] = {"Latency p95 of each tenant", *tenants_note ? tenants_note : NULL, "seconds"},
        [IN_FLIGHT] = {"Requests under way", NULL, "requests"}};
    struct cli_chart charts[CHARTS];
    size_t count = 0;
    for (int c = 0; c < CHARTS; c++)
        if (p->counts[c] > 0)
            charts[count++] = (struct cli_chart){.title = heads[c].title,
                                                 .note = heads[c].note,
                                                 .x_label = x,
                                                 .y_label = heads[c].unit,
                                                 .series = p->series[c],
                                                 .series_count = p->counts[c]};
    return cli_chart_write(out, title, facts, false, charts, count);
}

bool replay_draw(const struct replay_outcome *o, FILE *out)
{
    struct picture p = {.o = o};
    errno = ENOMEM;
    bool fine = fill(&p) && draw(&p, out);
    int fault = errno;
    weir_sample_free(&p.sample);
    free(p.bin_begins);
    free(p.room);
    errno = fault;
    return fine;
}
