#include "measure/playback_figures.h"

#include <stdlib.h>

#include "measure/percentile.h"

/* Which time of a result; false: it has none. */
typedef bool playback_time_fn(const struct weir_playback_item *item,
                              const struct weir_playback_result *r, uint64_t *ns);

static bool time_latency(const struct weir_playback_item *item,
                         const struct weir_playback_result *r, uint64_t *ns)
{
    *ns = r->end_ns - item->arrival_ns;
    return weir_playback_kind(r) == WEIR_PLAYBACK_OK;
}

static bool time_ttft(const struct weir_playback_item *item, const struct weir_playback_result *r,
                      uint64_t *ns)
{
    *ns = r->first_token_ns - item->arrival_ns;
    return weir_playback_kind(r) == WEIR_PLAYBACK_OK && r->first_token_ns > 0;
}

static bool time_tpot(const struct weir_playback_item *item, const struct weir_playback_result *r,
                      uint64_t *ns)
{
    (void)item;
    bool has = weir_playback_kind(r) == WEIR_PLAYBACK_OK && r->first_token_ns > 0 &&
               r->is_usage_known && r->output_tok > 1;
    *ns = has ? (r->end_ns - r->first_token_ns) / (r->output_tok - 1) : 0;
    return has;
}

static bool time_lag(const struct weir_playback_item *item, const struct weir_playback_result *r,
                     uint64_t *ns)
{
    *ns = r->begun_ns - item->arrival_ns;
    return r->state != WEIR_PLAYBACK_READY && !r->is_held;
}

/* Requests in an order, and room for a value of each. */
struct figures_work {
    const struct weir_playback_item *items;
    const struct weir_playback_result *results;
    size_t *order;
    struct weir_sample sample;
};

static struct weir_playback_spread figures_spread(struct figures_work *w, size_t from, size_t until,
                                                  playback_time_fn *time)
{
    struct weir_sample *s = &w->sample;
    uint64_t ns;
    s->count = s->sorted = 0;
    for (size_t i = from; i < until; i++)
        if (time(&w->items[w->order[i]], &w->results[w->order[i]], &ns))
            weir_sample_add(s, ns);
    return (struct weir_playback_spread){.count = s->count,
                                         .p50_ns = weir_sample_at(s, 500),
                                         .p95_ns = weir_sample_at(s, 950),
                                         .p99_ns = weir_sample_at(s, 990),
                                         .max_ns = weir_sample_at(s, 1000)};
}

static void figures_of(struct figures_work *w, size_t from, size_t until,
                       struct weir_playback_figures *f)
{
    *f = (struct weir_playback_figures){.planned = until - from};
    for (size_t i = from; i < until; i++) {
        const struct weir_playback_result *r = &w->results[w->order[i]];
        f->begun += r->state != WEIR_PLAYBACK_READY;
        f->held += r->is_held;
        switch (weir_playback_kind(r)) {
        case WEIR_PLAYBACK_OPEN:
            break;
        case WEIR_PLAYBACK_OK:
            f->ok++;
            f->input_tok += r->is_usage_known ? r->input_tok : 0;
            f->output_tok += r->is_usage_known ? r->output_tok : 0;
            f->usage_unknown += !r->is_usage_known;
            break;
        case WEIR_PLAYBACK_REFUSED:
            f->refused++;
            break;
        case WEIR_PLAYBACK_FAILED:
            f->failed++;
            break;
        }
    }
    f->latency = figures_spread(w, from, until, time_latency);
    f->ttft = figures_spread(w, from, until, time_ttft);
    f->tpot = figures_spread(w, from, until, time_tpot);
    f->lag = figures_spread(w, from, until, time_lag);
}

bool weir_playback_figures(const struct weir_playback_item *items,
                           const struct weir_playback_result *results, size_t count,
                           uint32_t tenants_count, struct weir_playback_figures *figures)
{
    struct figures_work w = {
        .items = items, .results = results, .order = malloc(count * sizeof *w.order)};
    size_t *begins = calloc(tenants_count + 1u, sizeof *begins);
    bool fits = w.order && begins && weir_sample_init(&w.sample, count);
    if (fits) {
        /* by tenant, each in the order of arrival: a counting sort */
        for (size_t i = 0; i < count; i++)
            begins[items[i].tenant + 1]++;
        for (uint32_t t = 0; t < tenants_count; t++)
            begins[t + 1] += begins[t];
        for (size_t i = 0; i < count; i++)
            w.order[begins[items[i].tenant]++] = i; /* begins[t] becomes where t ends */
        for (uint32_t t = 0; t < tenants_count; t++)
            figures_of(&w, t > 0 ? begins[t - 1] : 0, begins[t], &figures[t]);
        figures_of(&w, 0, count, &figures[tenants_count]);
    }
    free(w.order);
    weir_sample_free(&w.sample);
    free(begins);
    return fits;
}

/* ---- reasons ---- */

static int reason_compare(const void *a, const void *b)
{
    const struct weir_playback_reason *x = a, *y = b;
    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    if (x->tenant != y->tenant)
        return x->tenant < y->tenant ? -1 : 1;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return x->code < y->code ? -1 : x->code > y->code;
}

static bool reason_is(const struct weir_playback_reason *row, uint32_t tenant,
                      const struct weir_playback_result *r)
{
    return row->tenant == tenant && row->end == r->end && row->code == r->code &&
           row->status == r->status && row->from_gateway == r->from_gateway;
}

bool weir_playback_reasons(const struct weir_playback_item *items,
                           const struct weir_playback_result *results, size_t count,
                           struct weir_playback_reason **reasons, size_t *reasons_count)
{
    struct weir_playback_reason *rows = calloc(WEIR_PLAYBACK_REASONS_MAX, sizeof *rows);
    size_t rows_count = 0;
    if (!rows)
        return false;
    for (size_t i = 0; i < count; i++) {
        const struct weir_playback_result *r = &results[i];
        enum weir_playback_kind kind = weir_playback_kind(r);
        if (kind != WEIR_PLAYBACK_REFUSED && kind != WEIR_PLAYBACK_FAILED)
            continue;
        size_t at = 0;
        while (at < rows_count && !reason_is(&rows[at], items[i].tenant, r))
            at++;
        if (at == WEIR_PLAYBACK_REASONS_MAX)
            continue;
        if (at == rows_count)
            rows[rows_count++] = (struct weir_playback_reason){.tenant = items[i].tenant,
                                                               .status = r->status,
                                                               .end = r->end,
                                                               .code = r->code,
                                                               .from_gateway = r->from_gateway};
        rows[at].count++;
        if (r->hint_ns > rows[at].hint_max_ns)
            rows[at].hint_max_ns = r->hint_ns;
    }
    qsort(rows, rows_count, sizeof *rows, reason_compare);
    *reasons = rows;
    *reasons_count = rows_count;
    return true;
}
