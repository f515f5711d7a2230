/* lab_results: counts, series in bins of time, and the hash over everything that happens. */
#include "lab/lab_private.h"

#define HASH_START UINT64_C(0xCBF29CE484222325)

/* FNV-1a's step, a word at a time. */
static uint64_t hash_word(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x100000001B3);
    return hash ^ hash >> 32;
}

void lab_note_event(struct weir_lab *lab, enum lab_event event, uint32_t tenant, uint64_t number,
                    uint64_t more)
{
    uint64_t hash = hash_word(lab->results.hash, (uint64_t)event << 32 | tenant);
    hash = hash_word(hash_word(hash, number), more);
    lab->results.hash = hash_word(hash, lab->now_ns);
}

void lab_note_offered(struct weir_lab *lab, const struct lab_want *want)
{
    uint64_t sizes = (uint64_t)want->prompt_tok << 32 | want->output_tok;
    uint64_t hash = hash_word(hash_word(HASH_START, want->tenant), want->number);
    hash = hash_word(hash_word(hash, sizes), want->output_limit_tok);
    /* A sum: those of one instant may come in any order. */
    lab->results.traffic_hash += hash_word(hash_word(hash, want->cached_tok), lab->now_ns);
    lab_note_event(lab, LAB_EVENT_OFFERED, want->tenant, want->number, sizes);
}

void lab_results_start(struct weir_lab *lab)
{
    lab->results.hash = HASH_START;
    lab->results.tenants = lab->tenant_results;
    lab->results.bin_ns = lab->s->bin_ns;
    for (uint32_t i = 0; i < lab->s->tenant_count; i++)
        lab->tenant_results[i].bins = lab->tenants[i].bins;
    for (uint32_t i = 0; i < lab->s->upstream_count; i++)
        lab->results.upstreams[i].bins = lab->upstreams[i].bins;
    for (uint32_t pool = 0; pool < lab->s->pool_count; pool++)
        for (uint32_t lane = 0; lane < lab->s->lanes.lane_count; lane++)
            lab->results.gaps[pool][lane].bins = lab->gap_bins[pool][lane];
    lab->slice_end_ns = WEIR_GAP_SLICE_NS;
    lab->bin_end_ns = lab->s->bin_ns;
}

static void tenant_bin_add(struct weir_lab_tenant_bin *to, const struct weir_lab_tenant_bin *from)
{
    to->offered += from->offered;
    to->tries += from->tries;
    to->finished += from->finished;
    to->good += from->good;
    to->refused += from->refused;
    to->failed += from->failed;
    to->prompt_tok += from->prompt_tok;
    to->output_tok += from->output_tok;
    to->waiting_ns += from->waiting_ns;
    to->in_flight_ns += from->in_flight_ns;
    to->wait_max_ns = weir_max_u64(to->wait_max_ns, from->wait_max_ns);
}

static void upstream_bin_add(struct weir_lab_upstream_bin *to,
                             const struct weir_lab_upstream_bin *from)
{
    to->in_flight_ns += from->in_flight_ns;
    to->permits_ns += from->permits_ns;
    to->open_ns += from->open_ns;
    to->tokens_made += from->tokens_made;
    to->calls += from->calls;
    to->failures += from->failures;
}

static void gap_bin_add(struct weir_lab_gap_bin *to, const struct weir_lab_gap_bin *from)
{
    if (from->gap_uwork > to->gap_uwork || to->bound_uwork == 0)
        *to = *from;
}

/* Twice as wide bins: each pair becomes one. */
static void bins_fold(struct weir_lab *lab)
{
    for (uint32_t t = 0; t < lab->s->tenant_count; t++) {
        struct weir_lab_tenant_bin *bins = lab->tenants[t].bins;
        for (uint32_t i = 0; i < WEIR_LAB_BINS_MAX; i++) {
            struct weir_lab_tenant_bin bin = bins[i];
            bins[i] = (struct weir_lab_tenant_bin){0};
            tenant_bin_add(&bins[i / 2], &bin);
        }
    }
    for (uint32_t u = 0; u < lab->s->upstream_count; u++) {
        struct weir_lab_upstream_bin *bins = lab->upstreams[u].bins;
        for (uint32_t i = 0; i < WEIR_LAB_BINS_MAX; i++) {
            struct weir_lab_upstream_bin bin = bins[i];
            bins[i] = (struct weir_lab_upstream_bin){0};
            upstream_bin_add(&bins[i / 2], &bin);
        }
    }
    for (uint32_t i = 0; i < lab->s->pool_count * lab->s->lanes.lane_count; i++) {
        uint32_t lanes = lab->s->lanes.lane_count;
        struct weir_lab_gap_bin *bins = lab->gap_bins[i / lanes][i % lanes];
        for (uint32_t k = 0; k < WEIR_LAB_BINS_MAX; k++) {
            struct weir_lab_gap_bin bin = bins[k];
            bins[k] = (struct weir_lab_gap_bin){0};
            gap_bin_add(&bins[k / 2], &bin);
        }
    }
    lab->results.bin_ns *= 2;
}

/* The bin that a time is in, made room for. */
static uint32_t bin_at(struct weir_lab *lab, uint64_t at_ns)
{
    while (at_ns / lab->results.bin_ns >= WEIR_LAB_BINS_MAX)
        bins_fold(lab);
    uint32_t index = (uint32_t)(at_ns / lab->results.bin_ns);
    if (index >= lab->results.bin_count)
        lab->results.bin_count = index + 1;
    return index;
}

struct weir_lab_tenant_bin *lab_tenant_bin(struct weir_lab *lab, uint32_t tenant)
{
    return &lab->tenants[tenant].bins[bin_at(lab, lab->now_ns)];
}

/* How much of from_ns .. until_ns lies in the bin of from_ns. */
static uint64_t bin_stretch_ns(const struct weir_lab *lab, uint64_t from_ns, uint64_t until_ns)
{
    uint64_t end_ns = (from_ns / lab->results.bin_ns + 1) * lab->results.bin_ns;
    return weir_min_u64(end_ns, until_ns) - from_ns;
}

/* Sums up to now, before something changes. */
static void tenant_sum(struct weir_lab *lab, uint32_t tenant)
{
    struct lab_tenant *t = &lab->tenants[tenant];
    if (t->waiting == 0 && t->in_flight == 0)
        t->since_ns = lab->now_ns;
    lab_tenant(lab, tenant)->waiting_ns += t->waiting * (lab->now_ns - t->since_ns);
    (void)bin_at(lab, lab->now_ns); /* no fold from here on */
    while (t->since_ns < lab->now_ns) {
        uint64_t stretch_ns = bin_stretch_ns(lab, t->since_ns, lab->now_ns);
        struct weir_lab_tenant_bin *bin = &t->bins[bin_at(lab, t->since_ns)];
        bin->waiting_ns += t->waiting * stretch_ns;
        bin->in_flight_ns += t->in_flight * stretch_ns;
        t->since_ns += stretch_ns;
    }
}

static void upstream_sum(struct weir_lab *lab, uint32_t upstream)
{
    struct lab_upstream *u = &lab->upstreams[upstream];
    (void)bin_at(lab, lab->now_ns);
    while (u->since_ns < lab->now_ns) {
        uint64_t stretch_ns = bin_stretch_ns(lab, u->since_ns, lab->now_ns);
        struct weir_lab_upstream_bin *bin = &u->bins[bin_at(lab, u->since_ns)];
        bin->in_flight_ns += u->in_flight * stretch_ns;
        bin->permits_ns += u->permits * stretch_ns;
        bin->open_ns += u->is_open ? stretch_ns : 0;
        u->since_ns += stretch_ns;
    }
}

void lab_waits(struct weir_lab *lab, struct lab_request *r)
{
    tenant_sum(lab, r->tenant);
    lab->tenants[r->tenant].waiting++;
    r->is_waiting = true;
}

void lab_waits_no_more(struct weir_lab *lab, struct lab_request *r)
{
    if (!r->is_waiting)
        return;
    tenant_sum(lab, r->tenant);
    lab->tenants[r->tenant].waiting--;
    r->is_waiting = false;
}

void lab_calls(struct weir_lab *lab, struct lab_request *r)
{
    uint64_t wait_ns = lab->now_ns - r->sent_ns;
    struct weir_lab_tenant_bin *bin = lab_tenant_bin(lab, r->tenant);
    struct lab_upstream *u = &lab->upstreams[r->upstream];
    tenant_sum(lab, r->tenant);
    upstream_sum(lab, r->upstream);
    lab->tenants[r->tenant].in_flight++;
    u->in_flight++;
    u->is_touched = true;
    r->is_calling = true;
    if (u->in_flight > lab->results.upstreams[r->upstream].in_flight_max)
        lab->results.upstreams[r->upstream].in_flight_max = u->in_flight;
    weir_hist_add(&lab_tenant(lab, r->tenant)->queue_wait_ns, wait_ns);
    bin->wait_max_ns = weir_max_u64(bin->wait_max_ns, wait_ns);
}

void lab_calls_no_more(struct weir_lab *lab, struct lab_request *r)
{
    struct lab_upstream *u = &lab->upstreams[r->upstream];
    tenant_sum(lab, r->tenant);
    upstream_sum(lab, r->upstream);
    lab->tenants[r->tenant].in_flight--;
    u->in_flight--;
    u->is_touched = true;
    r->is_calling = false;
}

static void upstream_seen(struct weir_lab *lab, uint32_t upstream)
{
    struct lab_upstream *u = &lab->upstreams[upstream];
    struct weir_lab_upstream_results *results = &lab->results.upstreams[upstream];
    upstream_sum(lab, upstream);
    weir_flow_upstream_view(lab->flow, upstream, lab->now_ns, &results->gateway);
    struct weir_lab_upstream_bin *bin = &u->bins[bin_at(lab, lab->now_ns)];
    bin->calls += (uint32_t)(results->gateway.calls - u->calls);
    bin->failures += (uint32_t)(results->gateway.failures - u->failures);
    u->calls = results->gateway.calls;
    u->failures = results->gateway.failures;
    u->permits = results->gateway.permits;
    u->is_open = results->gateway.breaker != WEIR_BREAKER_CLOSED;
    u->is_touched = false;
}

void lab_upstreams_seen(struct weir_lab *lab, bool all)
{
    for (uint32_t i = 0; i < lab->s->upstream_count; i++)
        if (all || lab->upstreams[i].is_touched)
            upstream_seen(lab, i);
}

static void gap_seen(struct weir_lab *lab, uint32_t pool, uint32_t lane, uint64_t at_ns)
{
    struct weir_lab_gap_results *gap = &lab->results.gaps[pool][lane];
    weir_flow_gap_view(lab->flow, pool, lane, at_ns, &gap->now);
    for (uint32_t i = 0; i < WEIR_GAP_WINDOWS; i++) {
        const struct weir_gap_window *window = &gap->now.windows[i];
        bool is_compared = window->compared >= 2;
        if (!is_compared || (gap->worst_ns[i] && window->gap_uwork <= gap->worst[i].gap_uwork))
            continue;
        gap->worst[i] = *window;
        gap->worst_ns[i] = gap->now.ended_ns;
    }
    const struct weir_gap_window *window = &gap->now.windows[WEIR_LAB_GAP_WINDOW];
    struct weir_lab_gap_bin bin = {window->gap_uwork, window->bound_uwork};
    if (window->compared >= 2)
        gap_bin_add(&lab->gap_bins[pool][lane][bin_at(lab, at_ns - 1)], &bin);
}

/* What the backends made up to at_ns, since they were last seen. The end of each bin is such a
 * time, so each bin gets what was made in it. */
static void backends_seen(struct weir_lab *lab, uint64_t at_ns)
{
    uint32_t bin = bin_at(lab, weir_sub_sat_u64(at_ns, 1));
    for (uint32_t i = 0; i < lab->s->upstream_count; i++) {
        struct lab_upstream *u = &lab->upstreams[i];
        struct weir_backend_view *view = &lab->results.upstreams[i].backend;
        weir_backend_view(u->backend, at_ns, view);
        u->bins[bin].tokens_made += view->tokens_made - u->tokens_made;
        u->tokens_made = view->tokens_made;
    }
}

static void bins_end(struct weir_lab *lab, uint64_t now_ns)
{
    while (lab->bin_end_ns <= now_ns) {
        backends_seen(lab, lab->bin_end_ns);
        lab->bin_end_ns = (lab->bin_end_ns / lab->results.bin_ns + 1) * lab->results.bin_ns;
    }
}

void lab_time_passes(struct weir_lab *lab, uint64_t now_ns)
{
    bins_end(lab, now_ns);
    for (; lab->slice_end_ns <= now_ns; lab->slice_end_ns += WEIR_GAP_SLICE_NS)
        for (uint32_t pool = 0; pool < lab->s->pool_count; pool++)
            for (uint32_t lane = 0; lane < lab->s->lanes.lane_count; lane++)
                gap_seen(lab, pool, lane, lab->slice_end_ns);
}

void lab_results_fill(struct weir_lab *lab)
{
    struct weir_lab_results *results = &lab->results;
    results->now_ns = lab->now_ns;
    for (uint32_t i = 0; i < lab->s->tenant_count; i++) {
        tenant_sum(lab, i);
        lab->tenant_results[i].alive = lab->tenants[i].alive;
    }
    lab_upstreams_seen(lab, true);
    lab_time_passes(lab, lab->now_ns);
    backends_seen(lab, lab->now_ns);
    for (uint32_t pool = 0; pool < lab->s->pool_count; pool++)
        for (uint32_t lane = 0; lane < lab->s->lanes.lane_count; lane++)
            weir_flow_gap_view(lab->flow, pool, lane, lab->now_ns, &results->gaps[pool][lane].now);
    results->tokens_made = 0;
    for (uint32_t i = 0; i < lab->s->upstream_count; i++)
        results->tokens_made += results->upstreams[i].backend.tokens_made;
    lab_ledger_view(lab);
    weir_flow_view(lab->flow, &results->flow);
}
