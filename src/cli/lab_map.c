#include "cli/lab_map.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/config_rules.h"

__attribute__((format(printf, 2, 3))) static bool fail(struct lab_map *map, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(map->error, sizeof map->error, format, arguments);
    va_end(arguments);
    return false;
}

static void copy_name(char to[WEIR_LAB_NAME_BYTES], const char *from)
{
    snprintf(to, WEIR_LAB_NAME_BYTES, "%s", from);
}

/* ---- upstreams and what stands behind them ---- */

/* The backend of an upstream: its own, else the one without a name, else the usual one. */
static const struct weir_config_backend *find_backend(const struct weir_config *config,
                                                      uint32_t upstream)
{
    static const struct weir_config_backend usual = {.replicas = 4,
                                                     .sequences = 48,
                                                     .step_ns = 6 * WEIR_NS_PER_MS,
                                                     .step_sequence_ns = 250 * WEIR_NS_PER_US,
                                                     .prefill_permille = 100};
    const struct weir_config_backend *found = &usual;
    for (uint32_t i = 0; i < config->backends_count; i++) {
        if (config->backends[i].upstream_index == upstream)
            return &config->backends[i];
        if (config->backends[i].upstream_index == WEIR_NONE)
            found = &config->backends[i];
    }
    return found;
}

static struct weir_backend_rules to_backend_rules(const struct weir_config_backend *b,
                                                  struct weir_backend_trouble *troubles)
{
    uint32_t count = (uint32_t)weir_min_u64(b->troubles_count, WEIR_BACKEND_TROUBLES_MAX);
    for (uint32_t i = 0; i < count; i++) {
        const struct weir_config_trouble *t = &b->troubles[i];
        troubles[i] = (struct weir_backend_trouble){
            .replica = t->replica ? t->replica - 1 : WEIR_NONE,
            .kind = t->kind == WEIR_CONFIG_TROUBLE_FAIL ? WEIR_TROUBLE_FAIL : WEIR_TROUBLE_SLOW,
            .from_ns = t->from_ns,
            .until_ns = t->until_ns,
            .slow_permille = t->times_permille};
    }
    return (struct weir_backend_rules){.replicas = b->replicas,
                                       .sequences = b->sequences,
                                       .step_ns = b->step_ns,
                                       .step_sequence_ns = b->step_sequence_ns,
                                       .prefill_permille = b->prefill_permille,
                                       .kv_tok = b->kv_tok,
                                       .latency_ns = b->latency_ns,
                                       .troubles = troubles,
                                       .trouble_count = count};
}

static bool map_upstreams(const struct weir_config *config, struct lab_map *map)
{
    if (config->upstreams_count > WEIR_LAB_UPSTREAMS_MAX)
        return fail(map, "there are %u upstreams; the lab knows at most %d",
                    config->upstreams_count, WEIR_LAB_UPSTREAMS_MAX);
    if (config->pools_count > WEIR_LAB_POOLS_MAX)
        return fail(map, "there are %u pools; the lab knows at most %d", config->pools_count,
                    WEIR_LAB_POOLS_MAX);
    for (uint32_t i = 0; i < config->upstreams_count; i++) {
        copy_name(map->upstreams[i].name, config->upstreams[i].name);
        map->upstreams[i].rules = weir_config_upstream_rules(config, i);
        map->upstreams[i].backend = to_backend_rules(find_backend(config, i), map->troubles[i]);
    }
    for (uint32_t i = 0; i < config->pools_count; i++)
        map->pools[i] = weir_config_pool_rules(config, i);
    return true;
}

/* ---- budgets ---- */

static uint64_t period_ns(const struct weir_window_rule *window)
{
    switch (window->period) {
    case WEIR_PERIOD_NONE:
        return 0;
    case WEIR_PERIOD_HOUR:
        return 3600 * WEIR_NS_PER_S;
    case WEIR_PERIOD_DAY:
        return 86400 * WEIR_NS_PER_S;
    case WEIR_PERIOD_WEEK:
        return 7 * 86400 * WEIR_NS_PER_S;
    case WEIR_PERIOD_MONTH: /* beyond what the model counts: no second one comes */
        return 0;
    case WEIR_PERIOD_SECONDS:
        break;
    }
    return window->seconds * WEIR_NS_PER_S;
}

/* The scope of the configuration as one of the scenario, its parents before it; those that nobody
 * here is charged to are left out. WEIR_NONE: there is no more room. */
static uint32_t map_scope(const struct weir_config *config, struct lab_map *map, uint32_t *places,
                          uint32_t index)
{
    const struct weir_config_scope *c = &config->scopes[index];
    if (places[index] != WEIR_NONE)
        return places[index];
    uint32_t parent = WEIR_NONE;
    if (c->parent_index != WEIR_NONE) {
        parent = map_scope(config, map, places, c->parent_index);
        if (parent == WEIR_NONE)
            return WEIR_NONE;
    }
    if (map->scenario.scope_count == WEIR_LAB_SCOPES_MAX)
        return WEIR_NONE;
    places[index] = map->scenario.scope_count++;
    struct weir_lab_scope *scope = &map->scopes[places[index]];
    uint64_t length_ns = period_ns(&c->window);
    *scope = (struct weir_lab_scope){
        .parent = parent,
        .granted_tok = (uint64_t)c->granted_tok,
        .period_ns = length_ns <= WEIR_LAB_TIME_MAX_NS ? length_ns : 0,
        .on_exhausted = weir_config_exhausted_policy(c),
        .fallback_pool =
            c->fallback_index == WEIR_NONE ? 0 : config->upstreams[c->fallback_index].pool_index,
        .fallback_scope = WEIR_NONE};
    if (strlen(c->name) < WEIR_LAB_NAME_BYTES)
        copy_name(scope->name, c->name);
    else /* its end tells it apart from its siblings; the number from all others */
        snprintf(scope->name, sizeof scope->name, "%u..%s", index,
                 c->name + strlen(c->name) - (WEIR_LAB_NAME_BYTES - 14));
    return places[index];
}

/* ---- tenants ---- */

/* The rules of a tenant that is the configuration's (index) or has the defaults (WEIR_NONE). */
static bool to_tenant_rules(const struct weir_config *config, struct lab_map *map, uint32_t *places,
                            uint32_t index, struct weir_tenant_rules *rules)
{
    const struct weir_config_tenant *c = index == WEIR_NONE ? NULL : &config->tenants[index];
    *rules = weir_config_tenant_rules(config, c);
    if (!c || c->scope_index == WEIR_NONE)
        return true;
    weir_config_scope_rules(&config->scopes[c->scope_index], rules);
    rules->scope = map_scope(config, map, places, c->scope_index);
    if (rules->scope == WEIR_NONE)
        return fail(map, "tenant '%s' brings the budgets above %d; the lab knows no more", c->name,
                    WEIR_LAB_SCOPES_MAX);
    return true;
}

static enum weir_lab_arrivals to_arrivals(enum weir_config_arrivals arrivals)
{
    switch (arrivals) {
    case WEIR_CONFIG_ARRIVALS_POISSON:
        return WEIR_LAB_POISSON;
    case WEIR_CONFIG_ARRIVALS_EVEN:
        return WEIR_LAB_EVEN;
    case WEIR_CONFIG_ARRIVALS_CLOSED:
        return WEIR_LAB_CLOSED;
    case WEIR_CONFIG_ARRIVALS_TRACE:
        return WEIR_LAB_TRACE;
    }
    return WEIR_LAB_POISSON;
}

static enum weir_length_kind to_length_kind(enum weir_config_distribution distribution)
{
    switch (distribution) {
    case WEIR_CONFIG_LENGTH_FIXED:
        return WEIR_LENGTH_FIXED;
    case WEIR_CONFIG_LENGTH_UNIFORM:
        return WEIR_LENGTH_UNIFORM;
    case WEIR_CONFIG_LENGTH_EXPONENTIAL:
        return WEIR_LENGTH_EXPONENTIAL;
    case WEIR_CONFIG_LENGTH_LOGNORMAL:
        return WEIR_LENGTH_LOGNORMAL;
    }
    return WEIR_LENGTH_FIXED;
}

static struct weir_length to_length(const struct weir_config_length *l)
{
    return (struct weir_length){.kind = to_length_kind(l->distribution),
                                .low = l->low,
                                .high = l->high,
                                .mean = l->mean,
                                .sigma_permille = l->sigma_permille};
}

static struct weir_lab_tenant to_tenant(const struct weir_config *config,
                                        const struct weir_config_traffic_tenant *t)
{
    struct weir_lab_tenant tenant = {.pool = config->upstreams[t->upstream_index].pool_index,
                                     .arrivals = to_arrivals(t->arrivals),
                                     .rate_micro_per_s = weir_config_rate_micro_per_s(t->rate),
                                     .users = t->users,
                                     .think_ns = t->think_ns,
                                     .on_ns = t->on_ns,
                                     .off_ns = t->off_ns,
                                     .burst_from_ns = t->burst.from_ns,
                                     .burst_until_ns = t->burst.until_ns,
                                     .burst_permille = t->burst.times_permille,
                                     .from_ns = t->from_ns,
                                     .until_ns = t->until_ns,
                                     .prompt = to_length(&t->prompt),
                                     .output = to_length(&t->output),
                                     .growth_turns = t->growth_turns,
                                     .output_limit_tok = t->output_limit_tok,
                                     .is_stream = t->is_stream,
                                     .goal_wait_ns = t->goal_ns,
                                     .client = {.retries_max = t->client.retries,
                                                .obeys_hint = t->client.obeys_hint,
                                                .backoff_ns = t->client.backoff_ns,
                                                .gives_up_ns = t->client.gives_up_ns,
                                                .tells_timeout = t->client.tells_timeout}};
    copy_name(tenant.name, t->name);
    return tenant;
}

/* Adds a tenant of the traffic; NULL stands for one of a trace that the traffic does not name. */
static bool add_tenant(const struct weir_config *config, struct lab_map *map, uint32_t *places,
                       const struct weir_config_traffic_tenant *t, const char *name)
{
    WEIR_INVARIANT(map->scenario.tenant_count < WEIR_LAB_TENANTS_MAX);
    struct weir_lab_tenant *tenant = &map->tenants[map->scenario.tenant_count++];
    if (t) {
        *tenant = to_tenant(config, t);
        return to_tenant_rules(config, map, places, t->tenant_index, &tenant->rules);
    }
    *tenant = (struct weir_lab_tenant){
        .arrivals = WEIR_LAB_TRACE,
        .pool = config->upstreams[0].pool_index,
        .is_stream = true,
        .client = {.obeys_hint = true, .backoff_ns = 500 * WEIR_NS_PER_MS}};
    copy_name(tenant->name, name);
    uint32_t index = 0;
    while (index < config->tenants_count && strcmp(config->tenants[index].name, name) != 0)
        index++;
    return to_tenant_rules(config, map, places, index < config->tenants_count ? index : WEIR_NONE,
                           &tenant->rules);
}

static bool map_traffic(const struct weir_config *config, struct lab_map *map, uint32_t *places)
{
    const struct weir_config_traffic *traffic = &config->traffic;
    for (uint32_t i = 0; i < traffic->tenants_count; i++) {
        const struct weir_config_traffic_tenant *t = &traffic->tenants[i];
        if (!t->sends)
            continue;
        if (t->arrivals == WEIR_CONFIG_ARRIVALS_TRACE)
            return fail(map,
                        "'%s' sends what a trace says (arrivals: trace): give one with --trace",
                        t->name);
        if (!add_tenant(config, map, places, t, NULL))
            return false;
    }
    if (map->scenario.tenant_count == 0)
        return fail(map,
                    traffic->tenants_count
                        ? "nobody sends anything: sends is false for every tenant of traffic"
                        : "has no traffic: say who sends what, as in traffic: {tenants: [{name: "
                          "app, rate: 2/s}]}");
    return true;
}

/* ---- a trace ---- */

struct weight_of {
    uint64_t requests;
    uint32_t name;
};

/* Those with the most requests first, else in the order of the trace. */
static int compare_weights(const void *a, const void *b)
{
    const struct weight_of *x = a, *y = b;
    if (x->requests != y->requests)
        return (x->requests < y->requests) - (x->requests > y->requests);
    return (x->name > y->name) - (x->name < y->name);
}

static const struct weir_config_traffic_tenant *find_traffic(const struct weir_config *config,
                                                             const char *name)
{
    for (uint32_t i = 0; i < config->traffic.tenants_count; i++) {
        const struct weir_config_traffic_tenant *t = &config->traffic.tenants[i];
        if (t->arrivals == WEIR_CONFIG_ARRIVALS_TRACE && strcmp(t->name, name) == 0)
            return t;
    }
    return NULL;
}

/* Adds the tenants of a trace in its own order, all or the 63 largest and the others together. */
static bool add_trace_tenants(const struct weir_config *config, const struct lab_map_trace *trace,
                              struct lab_map *map, uint32_t *places,
                              const struct weight_of *weights, uint32_t senders)
{
    bool is_merged = senders > WEIR_LAB_TENANTS_MAX;
    uint32_t own = is_merged ? WEIR_LAB_TENANTS_MAX - 1 : senders;
    for (uint32_t i = 0; i < own; i++)
        map->trace_tenants[weights[i].name] = 0; /* marked; numbered below */
    for (uint32_t name = 0; name < trace->names_count; name++) {
        if (map->trace_tenants[name] == WEIR_NONE)
            continue;
        const char *text = *trace->names[name] ? trace->names[name] : "unnamed";
        const struct weir_config_traffic_tenant *t = find_traffic(config, text);
        if (t && !t->sends) {
            map->trace_tenants[name] = WEIR_NONE;
            continue;
        }
        map->trace_tenants[name] = map->scenario.tenant_count;
        if (!add_tenant(config, map, places, t, text))
            return false;
    }
    if (!is_merged)
        return true;
    map->merged = senders - own;
    for (uint32_t i = own; i < senders; i++)
        map->trace_tenants[weights[i].name] = map->scenario.tenant_count;
    return add_tenant(config, map, places, NULL, "others");
}

static bool map_trace(const struct weir_config *config, const struct lab_map_trace *trace,
                      struct lab_map *map, uint32_t *places)
{
    struct weight_of *weights = calloc(trace->names_count + 1u, sizeof *weights);
    map->trace_tenants = malloc((trace->names_count + 1u) * sizeof *map->trace_tenants);
    if (!weights || !map->trace_tenants) {
        free(weights);
        return fail(map, "out of memory");
    }
    uint32_t senders = 0;
    for (uint32_t i = 0; i < trace->names_count; i++) {
        weights[i].name = i;
        map->trace_tenants[i] = WEIR_NONE;
    }
    for (size_t i = 0; i < trace->count; i++)
        senders += weights[trace->entries[i].tenant].requests++ == 0;
    qsort(weights, trace->names_count, sizeof *weights, compare_weights);
    bool done = add_trace_tenants(config, trace, map, places, weights, senders);
    free(weights);
    for (uint32_t i = 0; i < config->traffic.tenants_count; i++)
        map->left_out += config->traffic.tenants[i].sends &&
                         config->traffic.tenants[i].arrivals != WEIR_CONFIG_ARRIVALS_TRACE;
    if (done && map->scenario.tenant_count == 0)
        return fail(map, "nobody sends anything: sends is false for every tenant of the trace");
    uint64_t last_ns = trace->entries[trace->count - 1].arrival_ns;
    if (done && last_ns >= WEIR_LAB_TIME_MAX_NS)
        return fail(map, "the trace lasts %llu s, and the lab runs 1,000,000 s at most: cut it",
                    (unsigned long long)(last_ns / WEIR_NS_PER_S));
    map->scenario.trace = trace->entries;
    map->scenario.trace_count = trace->count;
    map->scenario.trace_tenants = map->trace_tenants;
    map->scenario.trace_tenant_count = trace->names_count;
    map->scenario.traffic_ns = last_ns + 1;
    return done;
}

/* ---- the whole ---- */

static void map_whole(const struct weir_config *config, struct lab_map *map)
{
    const struct weir_config_upstream *first = &config->upstreams[0];
    const struct weir_config_limits *limits = &config->limits;
    map->scenario =
        (struct weir_lab_scenario){.traffic_ns = config->traffic.time_ns,
                                   .run_ns = config->traffic.run_ns,
                                   .queue_wait_max_ns = limits->max_wait_ns,
                                   .first_byte_max_ns = first->timeouts.first_byte_ns,
                                   .first_byte_whole_max_ns = first->timeouts.first_byte_whole_ns,
                                   .total_max_ns = first->timeouts.total_ns,
                                   .ledger_delay_ns = config->traffic.ledger_delay_ns,
                                   .bin_ns = config->traffic.bin_ns,
                                   .waiters_max = limits->waiters,
                                   .waiting_bytes_max = limits->waiting_bytes,
                                   .lanes = weir_config_lane_rules(config),
                                   .model = weir_config_model_rules(config, first->pool_index),
                                   .upstreams = map->upstreams,
                                   .upstream_count = config->upstreams_count,
                                   .pools = map->pools,
                                   .pool_count = config->pools_count,
                                   .tenants = map->tenants,
                                   .scopes = map->scopes};
}

/* What the model's own check finds, in the words of the file. */
static bool check_scenario(struct lab_map *map)
{
    struct weir_lab_problem p;
    if (weir_lab_check(&map->scenario, &p))
        return true;
    switch (p.part) {
    case WEIR_LAB_OF_SCENARIO:
        return fail(map, "%s %s", p.field, p.text);
    case WEIR_LAB_OF_TENANT:
        return fail(map, "tenant '%s': %s %s", map->tenants[p.index].name, p.field, p.text);
    case WEIR_LAB_OF_UPSTREAM:
        return fail(map, "upstream '%s': %s %s", map->upstreams[p.index].name, p.field, p.text);
    case WEIR_LAB_OF_POOL:
        return fail(map, "pool %u: %s %s", p.index + 1, p.field, p.text);
    case WEIR_LAB_OF_SCOPE:
        return fail(map, "scope '%s': %s %s", map->scopes[p.index].name, p.field, p.text);
    case WEIR_LAB_OF_TRACE:
        break;
    }
    return fail(map, "the trace's request %u: %s %s", p.index + 1, p.field, p.text);
}

bool lab_map_config(const struct weir_config *config, const struct lab_map_trace *trace,
                    struct lab_map *map)
{
    memset(map, 0, sizeof *map);
    map_whole(config, map);
    if (!map_upstreams(config, map))
        return false;
    uint32_t *places = malloc((config->scopes_count + 1u) * sizeof *places);
    if (!places)
        return fail(map, "out of memory");
    for (uint32_t i = 0; i < config->scopes_count; i++)
        places[i] = WEIR_NONE;
    bool done = trace ? map_trace(config, trace, map, places) : map_traffic(config, map, places);
    free(places);
    return done && check_scenario(map);
}

void lab_map_free(struct lab_map *map)
{
    free(map->trace_tenants);
    map->trace_tenants = NULL;
}
