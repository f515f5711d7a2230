/* lab: memory, time, and the order in which things happen. */
#include "lab/lab_private.h"

/* The estimator remembers a pair for each tenant; its sets have four places, some fuller than
 * others. */
#define LAB_PAIRS (WEIR_LAB_TENANTS_MAX * 8)

/* Hands out the host's block in pieces that start cache lines. With mem NULL it only measures: SIZE_MAX
 * is more than there is, which a scenario may ask for where addresses have 32 bits. */
struct lab_carve {
    unsigned char *mem;
    size_t used;
};

static void *carve(struct lab_carve *c, size_t bytes)
{
    size_t at = c->used, end;
    bool fits = !__builtin_add_overflow(at, bytes, &end) && end <= SIZE_MAX - 63;
    c->used = fits ? (end + 63) & ~(size_t)63 : SIZE_MAX;
    return c->mem ? c->mem + at : NULL;
}

static uint32_t lab_requests_max(const struct weir_lab_scenario *s)
{
    uint32_t requests = s->waiters_max * 2;
    if (s->requests_max)
        return s->requests_max;
    for (uint32_t i = 0; i < s->upstream_count; i++)
        requests += s->upstreams[i].rules.permits;
    return requests;
}

static uint32_t lab_users(const struct weir_lab_scenario *s)
{
    uint32_t users = 0;
    for (uint32_t i = 0; i < s->tenant_count; i++)
        if (s->tenants[i].arrivals == WEIR_LAB_CLOSED)
            users += s->tenants[i].users;
    return users;
}

static struct weir_flow_limits lab_flow_limits(const struct weir_lab_scenario *s)
{
    return (struct weir_flow_limits){.tenants_max = s->tenant_count,
                                     .requests_max = lab_requests_max(s),
                                     .models_max = 1,
                                     .waiters_max = s->waiters_max,
                                     .waiting_bytes_max =
                                         s->waiting_bytes_max ? s->waiting_bytes_max : UINT64_MAX,
                                     .pairs_max = LAB_PAIRS};
}

static struct lab_timers lab_timers_of(const struct weir_lab_scenario *s)
{
    struct lab_timers at = {.trace = s->tenant_count};
    at.scopes = at.trace + 1;
    at.ledger = at.scopes + s->scope_count;
    at.users = at.ledger + 1;
    at.requests = at.users + lab_users(s);
    at.count = at.requests + lab_requests_max(s);
    return at;
}

static void lay_out_upstream(struct lab_carve *c, const struct weir_lab_upstream *rules,
                             struct lab_upstream *u)
{
    uint32_t permits = rules->rules.permits;
    size_t bytes = weir_backend_bytes(&rules->backend, permits);
    void *mem = carve(c, bytes);
    u->owner_1 = carve(c, sizeof(uint32_t) * permits);
    u->next_1 = carve(c, sizeof(uint32_t) * permits);
    u->bins = carve(c, sizeof(struct weir_lab_upstream_bin) * WEIR_LAB_BINS_MAX);
    if (!c->mem)
        return;
    u->backend = weir_backend_init(mem, bytes, &rules->backend, permits);
    for (uint32_t i = 0; i < permits; i++)
        u->next_1[i] = i + 1 < permits ? i + 2 : 0;
    u->free_1 = 1;
    u->permits = permits;
}

/* One order of pieces for both measuring and laying out. */
static size_t lab_lay_out(struct weir_lab *lab, unsigned char *mem,
                          const struct weir_lab_scenario *s)
{
    struct lab_carve c = {.mem = mem};
    struct lab_timers at = lab_timers_of(s);
    uint32_t requests = lab_requests_max(s);
    struct weir_flow_limits limits = lab_flow_limits(s);
    size_t flow_bytes = weir_flow_bytes(&limits, s->pool_count, s->upstream_count, &s->lanes);
    size_t ledger_bytes = lab_ledger_bytes(s, requests);
    (void)carve(&c, sizeof *lab);
    struct weir_lab_tenant_results *results =
        carve(&c, sizeof(struct weir_lab_tenant_results) * s->tenant_count);
    void *flow_mem = carve(&c, flow_bytes);
    void *ledger_mem = carve(&c, ledger_bytes);
    struct lab_request *request_mem = carve(&c, sizeof(struct lab_request) * requests);
    struct lab_user *users = carve(&c, sizeof(struct lab_user) * lab_users(s));
    struct weir_heap_entry *entries =
        carve(&c, sizeof(struct weir_heap_entry) * ((size_t)at.count + WEIR_HEAP_SPARE));
    uint32_t *places = carve(&c, sizeof(uint32_t) * at.count);
    for (uint32_t i = 0; i < s->tenant_count; i++) {
        void *bins = carve(&c, sizeof(struct weir_lab_tenant_bin) * WEIR_LAB_BINS_MAX);
        if (mem)
            lab->tenants[i].bins = bins;
    }
    for (uint32_t i = 0; i < s->pool_count * s->lanes.lane_count; i++) {
        void *bins = carve(&c, sizeof(struct weir_lab_gap_bin) * WEIR_LAB_BINS_MAX);
        if (mem)
            lab->gap_bins[i / s->lanes.lane_count][i % s->lanes.lane_count] = bins;
    }
    struct lab_upstream measured;
    for (uint32_t i = 0; i < s->upstream_count; i++)
        lay_out_upstream(&c, &s->upstreams[i], mem ? &lab->upstreams[i] : &measured);
    if (!mem)
        return c.used;
    lab->s = s;
    lab->at = at;
    lab->tenant_results = results;
    lab->requests = request_mem;
    lab->requests_max = requests;
    lab->users = users;
    weir_heap_init(&lab->timers, entries, places, at.count);
    lab->flow =
        weir_flow_init(flow_mem, flow_bytes, &limits, s->pool_count, s->upstream_count, &s->lanes);
    lab_ledger_start(lab, ledger_mem, ledger_bytes);
    return c.used;
}

size_t weir_lab_bytes(const struct weir_lab_scenario *s)
{
    return lab_lay_out(NULL, NULL, s);
}

static void lab_set_up_flow(struct weir_lab *lab)
{
    const struct weir_lab_scenario *s = lab->s;
    for (uint32_t i = 0; i < s->upstream_count; i++)
        weir_flow_upstream_set(lab->flow, i, &s->upstreams[i].rules, 0);
    for (uint32_t i = 0; i < s->pool_count; i++)
        weir_flow_pool_set(lab->flow, i, &s->pools[i]);
    for (uint32_t i = 0; i < s->tenant_count; i++) {
        struct weir_tenant_rules rules = s->tenants[i].rules;
        rules.scope = lab_ledger_scope_of(s, i);
        weir_flow_tenant_set(lab->flow, i, &rules, 0);
    }
    weir_flow_model_set(lab->flow, 0, &s->model);
}

struct weir_lab *weir_lab_init(void *mem, size_t bytes, const struct weir_lab_scenario *s,
                               uint64_t seed)
{
    struct weir_lab_problem problem;
    WEIR_INVARIANT(weir_lab_check(s, &problem));
    WEIR_INVARIANT(bytes >= weir_lab_bytes(s));
    WEIR_INVARIANT(((uintptr_t)mem & 63) == 0);
    struct weir_lab *lab = mem;
    lab_lay_out(lab, mem, s);
    lab->seed = seed;
    lab_results_start(lab);
    lab_set_up_flow(lab);
    lab_traffic_start(lab);
    return lab;
}

void weir_lab_on_ended(struct weir_lab *lab,
                       void (*ended)(void *user, const struct weir_trace_entry *entry), void *user)
{
    lab->ended = ended;
    lab->ended_user = user;
}

/* --- time --- */

void lab_timer(struct weir_lab *lab, uint32_t timer, uint64_t at_ns)
{
    bool is_set = weir_heap_has(&lab->timers, timer);
    if (at_ns == WEIR_NEVER_NS) {
        if (is_set)
            weir_heap_remove(&lab->timers, timer);
    } else if (!is_set) {
        weir_heap_push(&lab->timers, timer, at_ns);
    } else if (weir_heap_key(&lab->timers, timer) != at_ns) {
        weir_heap_rekey(&lab->timers, timer, at_ns);
    }
}

void lab_request_timer(struct weir_lab *lab, struct lab_request *r)
{
    uint64_t at_ns = weir_min_u64(weir_min_u64(r->gives_up_ns, r->call_until_ns),
                                  weir_min_u64(r->progress_ns, r->again_ns));
    lab_timer(lab, lab->at.requests + lab_index(lab, r), at_ns);
}

static void request_timer_due(struct weir_lab *lab, struct lab_request *r)
{
    uint64_t now_ns = lab->now_ns;
    if (r->again_ns <= now_ns)
        lab_client_again(lab, r);
    else if (r->gives_up_ns <= now_ns)
        lab_client_gives_up(lab, r);
    else if (r->call_until_ns <= now_ns)
        lab_host_late(lab, r);
    else
        lab_host_progress(lab, r);
}

/* Each sets its next time itself, or has none any more. */
static void timer_due(struct weir_lab *lab, uint32_t timer)
{
    lab->results.events++;
    if (timer < lab->at.trace)
        lab_traffic_tenant(lab, timer);
    else if (timer < lab->at.scopes)
        lab_traffic_trace(lab);
    else if (timer < lab->at.ledger)
        lab_ledger_window(lab, timer - lab->at.scopes);
    else if (timer < lab->at.users)
        lab_ledger_batch_done(lab);
    else if (timer < lab->at.requests)
        lab_traffic_user(lab, timer - lab->at.users);
    else
        request_timer_due(lab, &lab->requests[timer - lab->at.requests]);
}

static uint64_t lab_due_ns(const struct weir_lab *lab)
{
    uint64_t due_ns = lab_host_due_ns(lab);
    if (lab->timers.count > 0)
        due_ns = weir_min_u64(due_ns, weir_heap_top_key(&lab->timers));
    return weir_max_u64(due_ns, lab->now_ns);
}

/* Everything that happens at this instant: what backends did, then timers, then what the gateway
 * makes of it. What that causes at the same instant comes in the next step. */
static void lab_step(struct weir_lab *lab)
{
    lab_host_backends(lab);
    while (lab->timers.count > 0 && weir_heap_top_key(&lab->timers) <= lab->now_ns) {
        timer_due(lab, weir_heap_pop(&lab->timers));
        lab_audit(lab);
    }
    lab_host_pump(lab);
}

bool weir_lab_run(struct weir_lab *lab, uint64_t until_ns)
{
    uint64_t end_ns = lab->s->run_ns ? lab->s->run_ns : WEIR_NEVER_NS;
    until_ns = weir_min_u64(until_ns, end_ns);
    while (lab->senders_now > 0 || lab->requests_now > 0) {
        uint64_t due_ns = lab_due_ns(lab);
        if (due_ns > until_ns) {
            lab->now_ns = weir_max_u64(lab->now_ns, until_ns);
            return until_ns < end_ns;
        }
        lab_time_passes(lab, due_ns);
        lab->now_ns = due_ns;
        lab_step(lab);
    }
    return false;
}

const struct weir_lab_results *weir_lab_results(struct weir_lab *lab)
{
    lab_results_fill(lab);
    return &lab->results;
}
