#include "cli/lab_recorded.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What is known of a tenant's requests. */
struct recorded {
    uint64_t sent, finished, refused, failed, good, tokens;
    struct weir_hist wait_ns, first_ns;
};

bool lab_recorded_is_measured(const struct lab_map_trace *trace)
{
    for (size_t i = 0; i < trace->count; i++)
        if (!trace->entries[i].is_measured)
            return false;
    return trace->count > 0;
}

/* As the model counts: waits of those that were dispatched, the first token of those that had one.
 * Of a request whose client left without a first byte a recording does not tell whether it had been
 * dispatched; it is not counted among the waits. */
static void add_entry(struct recorded *r, const struct weir_trace_entry *e, uint64_t goal_ns)
{
    bool is_finished = e->outcome == WEIR_TRACE_FINISHED;
    bool is_dispatched =
        e->outcome != WEIR_TRACE_REFUSED && (e->outcome != WEIR_TRACE_GONE || e->first_byte_ns > 0);
    r->sent++;
    r->finished += is_finished;
    r->refused += e->outcome == WEIR_TRACE_REFUSED;
    r->failed += !is_finished && e->outcome != WEIR_TRACE_REFUSED;
    r->good += is_finished && (goal_ns == 0 || e->queue_wait_ns <= goal_ns);
    r->tokens += is_finished ? (uint64_t)e->prompt_tok + e->output_tok : 0;
    if (is_dispatched)
        weir_hist_add(&r->wait_ns, e->queue_wait_ns);
    if (e->first_byte_ns > 0)
        weir_hist_add(&r->first_ns, e->first_byte_ns);
}

static double quantile_s(const struct weir_hist *h, uint64_t percent)
{
    return h->count ? (double)weir_hist_quantile(h, percent, 100) / 1e9 : NAN;
}

/* has_goal: of anyone that the row is of. */
static void to_figures(const struct recorded *r, double elapsed_s, bool has_waits, bool has_goal,
                       double figures[LAB_FIGURES])
{
    for (int f = 0; f < LAB_FIGURES; f++)
        figures[f] = NAN;
    figures[LAB_SENT] = (double)r->sent;
    figures[LAB_FINISHED] = (double)r->finished;
    figures[LAB_REFUSED] = (double)r->refused;
    figures[LAB_FAILED] = (double)r->failed;
    if (has_waits) {
        figures[LAB_WAIT_P50] = quantile_s(&r->wait_ns, 50);
        figures[LAB_WAIT_P95] = quantile_s(&r->wait_ns, 95);
        figures[LAB_WAIT_P99] = quantile_s(&r->wait_ns, 99);
    }
    figures[LAB_FIRST_P50] = quantile_s(&r->first_ns, 50);
    figures[LAB_FIRST_P95] = quantile_s(&r->first_ns, 95);
    if (elapsed_s > 0)
        figures[LAB_TOKENS] = (double)r->tokens / elapsed_s;
    if (r->sent > 0 && (has_waits || !has_goal)) {
        figures[LAB_GOOD] = (double)r->good / (double)r->sent;
        if (elapsed_s > 0)
            figures[LAB_GOOD_RATE] = (double)r->good / elapsed_s;
    }
}

static void add_all(struct recorded *to, const struct recorded *from)
{
    to->sent += from->sent;
    to->finished += from->finished;
    to->refused += from->refused;
    to->failed += from->failed;
    to->good += from->good;
    to->tokens += from->tokens;
    weir_hist_merge(&to->wait_ns, &from->wait_ns);
    weir_hist_merge(&to->first_ns, &from->first_ns);
}

bool lab_recorded_figures(const struct lab_map *map, const struct lab_map_trace *trace,
                          bool has_waits, double (*rows)[LAB_FIGURES])
{
    uint32_t count = map->scenario.tenant_count;
    uint64_t end_ns = 0;
    bool has_goal = false;
    struct recorded *all = calloc(count + 1u, sizeof *all);
    if (!all)
        return false;
    for (size_t i = 0; i < trace->count; i++) {
        const struct weir_trace_entry *e = &trace->entries[i];
        uint32_t tenant = map->trace_tenants[e->tenant];
        if (tenant == WEIR_NONE)
            continue;
        add_entry(&all[tenant], e, map->tenants[tenant].goal_wait_ns);
        end_ns = weir_max_u64(end_ns, e->arrival_ns + e->latency_ns);
    }
    for (uint32_t t = 0; t < count; t++) {
        bool has_own = map->tenants[t].goal_wait_ns > 0;
        to_figures(&all[t], (double)end_ns / 1e9, has_waits, has_own, rows[t]);
        has_goal = has_goal || has_own;
        add_all(&all[count], &all[t]);
    }
    to_figures(&all[count], (double)end_ns / 1e9, has_waits, has_goal, rows[count]);
    free(all);
    return true;
}
