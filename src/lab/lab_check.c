/* lab_check: which scenarios can be run. The first thing that is wrong is told, with where. */
#include "core/bucket.h"
#include "lab/lab_private.h"

#define CHECK_PERMITS_MAX 65536u
#define CHECK_WAITERS_MAX 1000000u
#define CHECK_REQUESTS_MAX 4000000u
#define CHECK_WORK_MAX 1000u
#define CHECK_RETRIES_MAX 10u
#define CHECK_PACE_MAX 1000000u /* of a burst, permille */
#define CHECK_SENT_MAX 1000000000u
#define CHECK_BIN_MIN_NS WEIR_NS_PER_MS
#define CHECK_CYCLE_MIN_NS (10 * WEIR_NS_PER_MS)
#define CHECK_PERIOD_MIN_NS (100 * WEIR_NS_PER_MS)
#define CHECK_HOPS_MAX WEIR_LAB_UPSTREAMS_MAX

/* Notes the first problem only; returns whether there is none so far. */
static bool check(struct weir_lab_problem *p, bool is_fine, enum weir_lab_part part, uint32_t index,
                  const char *field, const char *text)
{
    if (is_fine || p->text)
        return p->text == NULL;
    *p = (struct weir_lab_problem){.text = text, .field = field, .part = part, .index = index};
    return false;
}

static bool check_name(const char name[WEIR_LAB_NAME_BYTES])
{
    size_t length = 0;
    while (length < WEIR_LAB_NAME_BYTES && name[length])
        length++;
    return length > 0 && length < WEIR_LAB_NAME_BYTES;
}

static bool check_differs(const char *a, const char *b)
{
    for (; *a == *b; a++, b++)
        if (!*a)
            return false;
    return true;
}

static bool check_time(uint64_t ns)
{
    return ns <= WEIR_LAB_TIME_MAX_NS;
}

static void check_scenario(const struct weir_lab_scenario *s, struct weir_lab_problem *p)
{
    enum weir_lab_part part = WEIR_LAB_OF_SCENARIO;
    const char *time = "is longer than 1,000,000 s; choose a shorter time";
    check(p, s->traffic_ns > 0, part, 0, "traffic", "is 0: nothing would be sent; say how long");
    check(p, check_time(s->traffic_ns), part, 0, "traffic", time);
    check(p, check_time(s->run_ns), part, 0, "run", time);
    check(p, s->queue_wait_max_ns > 0, part, 0, "queue_wait",
          "is 0: nobody could wait; choose 1 ms or more");
    check(p, check_time(s->queue_wait_max_ns), part, 0, "queue_wait", time);
    check(p, check_time(s->first_byte_max_ns), part, 0, "first_byte", time);
    check(p, check_time(s->first_byte_whole_max_ns), part, 0, "first_byte_whole", time);
    check(p, s->total_max_ns > 0, part, 0, "total", "is 0: nothing could be answered");
    check(p, check_time(s->total_max_ns), part, 0, "total", time);
    check(p, check_time(s->ledger_delay_ns), part, 0, "ledger_delay", time);
    check(p, s->bin_ns >= CHECK_BIN_MIN_NS && check_time(s->bin_ns), part, 0, "bin",
          "must be 1 ms to 1,000,000 s");
    check(p, s->waiters_max >= 1 && s->waiters_max <= CHECK_WAITERS_MAX, part, 0, "waiters",
          "must be 1 to 1,000,000");
    check(p, s->requests_max <= CHECK_REQUESTS_MAX, part, 0, "requests",
          "must be at most 4,000,000");
    check(p, s->tenant_count >= 1 && s->tenant_count <= WEIR_LAB_TENANTS_MAX, part, 0, "tenants",
          "must be 1 to 64");
    check(p, s->upstream_count >= 1 && s->upstream_count <= WEIR_LAB_UPSTREAMS_MAX, part, 0,
          "upstreams", "must be 1 to 16");
    check(p, s->pool_count >= 1 && s->pool_count <= WEIR_LAB_POOLS_MAX, part, 0, "pools",
          "must be 1 to 16");
    check(p, s->scope_count <= WEIR_LAB_SCOPES_MAX, part, 0, "scopes", "must be at most 64");
}

static void check_lanes(const struct weir_lab_scenario *s, struct weir_lab_problem *p)
{
    uint64_t sum = 0;
    bool is_count = s->lanes.lane_count >= 1 && s->lanes.lane_count <= WEIR_LANES_MAX;
    if (!check(p, is_count, WEIR_LAB_OF_SCENARIO, 0, "lanes", "must be 1 to 8"))
        return;
    for (uint32_t i = 0; i < s->lanes.lane_count; i++)
        sum += s->lanes.floor_percent[i];
    check(p, sum <= 100, WEIR_LAB_OF_SCENARIO, 0, "lanes.floor",
          "add up to more than 100 percent; lower one");
}

static bool check_rate(const struct weir_rate *rate)
{
    return rate->rate_micro_per_s == 0 ||
           (rate->capacity >= 1 &&
            rate->capacity <= (uint64_t)WEIR_BUCKET_CAPACITY_MAX_UTOK / WEIR_UTOK_PER_TOK);
}

static void check_breaker(const struct weir_breaker_rules *b, uint32_t index,
                          struct weir_lab_problem *p)
{
    enum weir_lab_part part = WEIR_LAB_OF_UPSTREAM;
    check(p, b->trials >= 1, part, index, "breaker.trials",
          "is 0: an open breaker could not close");
    check(p, b->window_s >= 1 && b->window_s <= WEIR_BREAKER_WINDOW_MAX_S, part, index,
          "breaker.window", "must be 1 to 60 s");
    check(p, b->failure_percent <= 100, part, index, "breaker.failure_percent",
          "must be at most 100");
    check(p,
          b->cooldown_ns > 0 && b->cooldown_ns <= b->cooldown_max_ns &&
              check_time(b->cooldown_max_ns),
          part, index, "breaker.cooldown",
          "must be above 0, its maximum no shorter, and both at most 1,000,000 s");
}

/* How many steps along fallbacks lead out of here; a cycle never ends. */
static bool check_fallback_ends(const struct weir_lab_scenario *s, uint32_t upstream)
{
    for (uint32_t hop = 0; hop <= CHECK_HOPS_MAX; hop++) {
        upstream = s->upstreams[upstream].rules.fallback;
        if (upstream == WEIR_NONE)
            return true;
        if (upstream >= s->upstream_count)
            return true; /* told elsewhere */
    }
    return false;
}

static void check_upstream(const struct weir_lab_scenario *s, uint32_t i,
                           struct weir_lab_problem *p)
{
    enum weir_lab_part part = WEIR_LAB_OF_UPSTREAM;
    const struct weir_lab_upstream *u = &s->upstreams[i];
    const char *rate = "its capacity must be 1 to 2^42";
    check(p, check_name(u->name), part, i, "name", "is empty or longer than 63 bytes");
    for (uint32_t k = 0; k < i && !p->text; k++)
        check(p, check_differs(u->name, s->upstreams[k].name), part, i, "name",
              "is another upstream's too; give each its own");
    check(p, u->rules.permits >= 1 && u->rules.permits <= CHECK_PERMITS_MAX, part, i,
          "max_in_flight", "must be 1 to 65,536");
    check(p, u->rules.adapt.min <= u->rules.permits, part, i, "adaptive",
          "its minimum is above max_in_flight");
    check(p, check_rate(&u->rules.requests), part, i, "limits.requests", rate);
    check(p, check_rate(&u->rules.tokens), part, i, "limits.tokens", rate);
    check(p, check_rate(&u->rules.input), part, i, "limits.input", rate);
    check(p, check_rate(&u->rules.output), part, i, "limits.output", rate);
    check(p, u->rules.fallback == WEIR_NONE || u->rules.fallback < s->upstream_count, part, i,
          "fallback", "names an upstream that is not there");
    check(p, check_fallback_ends(s, i), part, i, "fallback", "leads in a circle; end it somewhere");
    check_breaker(&u->rules.breaker, i, p);
    check(p,
          check_time(u->backend.step_ns) && check_time(u->backend.step_sequence_ns) &&
              check_time(u->backend.latency_ns),
          part, i, "backend", "has a time above 1,000,000 s; choose a shorter one");
    const char *backend = weir_backend_problem(&u->backend);
    check(p, backend == NULL, part, i, "backend", backend);
}

static void check_pools(const struct weir_lab_scenario *s, struct weir_lab_problem *p)
{
    enum weir_lab_part part = WEIR_LAB_OF_POOL;
    uint32_t owner_1[WEIR_LAB_UPSTREAMS_MAX] = {0};
    for (uint32_t i = 0; i < s->pool_count && !p->text; i++) {
        const struct weir_pool_rules *pool = &s->pools[i];
        if (!check(p, pool->upstream_count >= 1 && pool->upstream_count <= WEIR_POOL_UPSTREAMS_MAX,
                   part, i, "upstreams", "must be 1 to 16"))
            return;
        for (uint32_t k = 0; k < pool->upstream_count; k++) {
            uint32_t upstream = pool->upstreams[k];
            if (!check(p, upstream < s->upstream_count, part, i, "upstreams",
                       "names one that is not there") ||
                !check(p, owner_1[upstream] == 0, part, i, "upstreams",
                       "names one that is in a pool already; each is in one"))
                return;
            owner_1[upstream] = i + 1;
        }
        check(p,
              pool->work_input <= CHECK_WORK_MAX && pool->work_output <= CHECK_WORK_MAX &&
                  pool->work_input + pool->work_output > 0,
              part, i, "work", "input and output must be 0 to 1,000, and not both 0");
        check(p, (uint32_t)pool->policy <= WEIR_SCHED_VTC, part, i, "scheduler",
              "is none that there is");
    }
    for (uint32_t i = 0; i < s->upstream_count; i++)
        check(p, owner_1[i] != 0, WEIR_LAB_OF_UPSTREAM, i, "pool",
              "is in no pool: nobody could call it");
}

static void check_scope(const struct weir_lab_scenario *s, uint32_t i, struct weir_lab_problem *p)
{
    enum weir_lab_part part = WEIR_LAB_OF_SCOPE;
    const struct weir_lab_scope *scope = &s->scopes[i];
    check(p, check_name(scope->name), part, i, "name", "is empty or longer than 63 bytes");
    for (uint32_t k = 0; k < i && !p->text; k++)
        check(p, check_differs(scope->name, s->scopes[k].name), part, i, "name",
              "is another scope's too; give each its own");
    if (!check(p, scope->parent == WEIR_NONE || scope->parent < i, part, i, "parent",
               "must come before its children"))
        return;
    uint32_t depth = 1;
    for (uint32_t at = scope->parent; at != WEIR_NONE; at = s->scopes[at].parent)
        depth++;
    check(p, depth <= WEIR_LEDGER_DEPTH_MAX, part, i, "parent",
          "is the seventh level; six is most");
    check(p, scope->is_unlimited || scope->granted_tok <= (uint64_t)WEIR_TOK_MAX, part, i,
          "granted", "must be at most 2^52 tokens");
    check(p,
          scope->period_ns == 0 ||
              (scope->period_ns >= CHECK_PERIOD_MIN_NS && check_time(scope->period_ns)),
          part, i, "period", "must be 0 (one window), or 100 ms to 1,000,000 s");
    check(p, (uint32_t)scope->on_exhausted <= WEIR_EXHAUSTED_QUEUE, part, i, "on_exhausted",
          "is none that there is");
    if (scope->on_exhausted != WEIR_EXHAUSTED_FALLBACK)
        return;
    check(p, scope->fallback_pool < s->pool_count, part, i, "fallback",
          "names a pool that is not there");
    check(p, scope->fallback_scope == WEIR_NONE || scope->fallback_scope < s->scope_count, part, i,
          "fallback", "names a scope that is not there");
}

/* Requests that a tenant would send, at its fastest all along. */
static uint64_t check_requests(const struct weir_lab_scenario *s, const struct weir_lab_tenant *t)
{
    uint64_t until_ns = weir_min_u64(t->until_ns ? t->until_ns : s->traffic_ns, s->traffic_ns);
    uint64_t pace = t->burst_until_ns > 0 && t->burst_permille > 1000 ? t->burst_permille : 1000;
    uint64_t each_s = weir_muldiv_ceil(t->rate_micro_per_s, pace, 1000000000);
    return weir_muldiv_ceil(each_s, weir_sub_sat_u64(until_ns, t->from_ns), WEIR_NS_PER_S);
}

static void check_tenant_arrivals(const struct weir_lab_scenario *s, uint32_t i,
                                  struct weir_lab_problem *p)
{
    enum weir_lab_part part = WEIR_LAB_OF_TENANT;
    const struct weir_lab_tenant *t = &s->tenants[i];
    const char *time = "is longer than 1,000,000 s; choose a shorter time";
    uint64_t cycle_ns = weir_add_sat_u64(t->on_ns, t->off_ns);
    if (!check(p, (uint32_t)t->arrivals <= WEIR_LAB_CLOSED, part, i, "arrivals",
               "is none that there is"))
        return;
    check(p, t->rate_micro_per_s <= WEIR_LAB_RATE_MAX_MICRO, part, i, "rate",
          "is above 1,000,000 requests a second");
    check(p, t->arrivals != WEIR_LAB_CLOSED || (t->users >= 1 && t->users <= WEIR_LAB_USERS_MAX),
          part, i, "users", "must be 1 to 4,096");
    check(p, check_time(t->think_ns), part, i, "think", time);
    check(p, t->off_ns == 0 || t->on_ns > 0, part, i, "on", "is 0: it would never send");
    check(p, t->off_ns == 0 || (cycle_ns >= CHECK_CYCLE_MIN_NS && check_time(cycle_ns)), part, i,
          "on", "with off must be 10 ms to 1,000,000 s");
    check(p, check_time(t->burst_until_ns) && t->burst_from_ns <= t->burst_until_ns, part, i,
          "burst", "must end after it begins, and within 1,000,000 s");
    check(p, t->burst_permille <= CHECK_PACE_MAX, part, i, "burst",
          "is above 1,000 times the rate");
    check(p, t->from_ns <= WEIR_LAB_TIME_MAX_NS && check_time(t->until_ns), part, i, "from", time);
    check(p, t->until_ns == 0 || t->from_ns < t->until_ns, part, i, "until",
          "must be after from; 0 is the end of the traffic");
    check(p, check_requests(s, t) <= CHECK_SENT_MAX, part, i, "rate",
          "sends more than 1,000,000,000 requests in all; lower it or shorten the traffic");
    if (t->arrivals == WEIR_LAB_TRACE)
        check(p, s->trace_count > 0, part, i, "arrivals",
              "come from a trace, and that is empty or there is none");
}

static void check_tenant_lengths(const struct weir_lab_tenant *t, uint32_t i,
                                 struct weir_lab_problem *p)
{
    enum weir_lab_part part = WEIR_LAB_OF_TENANT;
    if (t->arrivals == WEIR_LAB_TRACE)
        return;
    const char *output = weir_length_problem(&t->output);
    check(p, output == NULL, part, i, "output", output);
    if (t->growth_turns >= 2) {
        check(p, t->prompt.low <= t->prompt.high, part, i, "prompt",
              "grows from low to high: high must not be below low");
    } else {
        const char *prompt = weir_length_problem(&t->prompt);
        check(p, prompt == NULL, part, i, "prompt", prompt);
    }
    check(p, t->prompt.high <= WEIR_TRACE_TOK_MAX && t->prompt.mean <= WEIR_TRACE_TOK_MAX, part, i,
          "prompt", "is above 1,000,000,000 tokens");
    check(p, t->output.high <= WEIR_TRACE_TOK_MAX && t->output.mean <= WEIR_TRACE_TOK_MAX, part, i,
          "output", "is above 1,000,000,000 tokens");
}

static void check_tenant(const struct weir_lab_scenario *s, uint32_t i, struct weir_lab_problem *p)
{
    enum weir_lab_part part = WEIR_LAB_OF_TENANT;
    const struct weir_lab_tenant *t = &s->tenants[i];
    const char *rate = "its capacity must be 1 to 2^42";
    check(p, check_name(t->name), part, i, "name", "is empty or longer than 63 bytes");
    for (uint32_t k = 0; k < i && !p->text; k++)
        check(p, check_differs(t->name, s->tenants[k].name), part, i, "name",
              "is another tenant's too; give each its own");
    check(p, t->rules.weight >= 1 && t->rules.weight <= WEIR_SCHED_WEIGHT_MAX, part, i, "weight",
          "must be 1 to 1,000: a share of nothing cannot be served");
    check(p, t->rules.lane < s->lanes.lane_count, part, i, "lane", "is none that there is");
    check(p, t->rules.waiters_max >= 1, part, i, "waiters", "must be 1 or more");
    check(p, check_rate(&t->rules.requests), part, i, "limits.requests", rate);
    check(p, check_rate(&t->rules.tokens), part, i, "limits.tokens", rate);
    check(p, t->rules.scope == WEIR_NONE || t->rules.scope < s->scope_count, part, i, "scope",
          "is none that there is");
    check(p, t->pool < s->pool_count, part, i, "pool", "is none that there is");
    check(p, t->output_limit_tok <= WEIR_TRACE_TOK_MAX, part, i, "output_limit",
          "is above 1,000,000,000 tokens");
    check(p, check_time(t->goal_wait_ns), part, i, "goal", "is longer than 1,000,000 s");
    check(p, t->client.retries_max <= CHECK_RETRIES_MAX, part, i, "client.retries",
          "must be at most 10");
    check(p, t->client.retries_max == 0 || t->client.backoff_ns > 0, part, i, "client.backoff",
          "is 0: a client would hammer without end; SDKs begin at 500 ms");
    check(p, check_time(t->client.backoff_ns) && check_time(t->client.gives_up_ns), part, i,
          "client", "its times must be at most 1,000,000 s");
    check_tenant_arrivals(s, i, p);
    check_tenant_lengths(t, i, p);
}

static void check_tenants(const struct weir_lab_scenario *s, struct weir_lab_problem *p)
{
    uint64_t users = 0;
    for (uint32_t i = 0; i < s->tenant_count && !p->text; i++) {
        check_tenant(s, i, p);
        users += s->tenants[i].arrivals == WEIR_LAB_CLOSED ? s->tenants[i].users : 0;
        check(p, users <= WEIR_LAB_USERS_MAX, WEIR_LAB_OF_TENANT, i, "users",
              "brings all users above 4,096");
    }
}

static void check_trace(const struct weir_lab_scenario *s, struct weir_lab_problem *p)
{
    enum weir_lab_part part = WEIR_LAB_OF_TRACE;
    check(p, s->trace_count <= UINT32_MAX, part, 0, "rows", "are too many");
    for (uint32_t i = 0; i < s->trace_tenant_count; i++)
        check(p, s->trace_tenants[i] == WEIR_NONE || s->trace_tenants[i] < s->tenant_count, part, i,
              "tenant", "stands for a tenant that is not there");
    for (size_t i = 0; i < s->trace_count && !p->text; i++) {
        const struct weir_trace_entry *e = &s->trace[i];
        uint32_t at = (uint32_t)i;
        check(p, e->tenant < s->trace_tenant_count, part, at, "tenant", "is not among its names");
        check(p, check_time(e->arrival_ns), part, at, "arrival", "is after 1,000,000 s");
        check(p, i == 0 || s->trace[i - 1].arrival_ns <= e->arrival_ns, part, at, "arrival",
              "is before that of the row above; sort the trace");
        check(p, e->prompt_tok <= WEIR_TRACE_TOK_MAX && e->output_tok <= WEIR_TRACE_TOK_MAX, part,
              at, "tokens", "are above 1,000,000,000");
    }
}

bool weir_lab_check(const struct weir_lab_scenario *s, struct weir_lab_problem *problem)
{
    struct weir_lab_problem *p = problem;
    *p = (struct weir_lab_problem){0};
    check_scenario(s, p);
    if (p->text)
        return false; /* the counts bound what can be looked at */
    check_lanes(s, p);
    for (uint32_t i = 0; i < s->upstream_count && !p->text; i++)
        check_upstream(s, i, p);
    if (!p->text)
        check_pools(s, p);
    for (uint32_t i = 0; i < s->scope_count && !p->text; i++)
        check_scope(s, i, p);
    if (!p->text)
        check_tenants(s, p);
    if (!p->text)
        check_trace(s, p);
    return p->text == NULL;
}
