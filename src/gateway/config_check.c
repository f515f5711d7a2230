#include "gateway/config_names.h"

#include "core/gate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What no single field can tell: names that must exist or be unique, cycles, sums, derived
 * defaults, credentials. Runs after the walker, also over a file with errors, so that all are told
 * at once. */

_Static_assert(offsetof(struct weir_config_upstream, name) == 0 &&
                   offsetof(struct weir_config_pool, name) == 0 &&
                   offsetof(struct weir_config_tenant, name) == 0 &&
                   offsetof(struct weir_config_lane, name) == 0 &&
                   offsetof(struct weir_config_scope, name) == 0 &&
                   offsetof(struct weir_config_route, path) == 0 &&
                   offsetof(struct weir_config_traffic_tenant, name) == 0 &&
                   offsetof(struct weir_config_backend, upstream) == 0,
               "weir_names_collect reads the first member");

/* ---- upstreams ---- */

static uint64_t burst_of(struct weir_config_rate rate)
{
    uint64_t micro = weir_config_rate_micro_per_s(rate);
    uint64_t whole = micro / 1000000 + (micro % 1000000 != 0);
    return whole ? whole : 1;
}

static void finish_credential(struct weir_loader *loader, struct weir_config_upstream *upstream)
{
    if (upstream->key_env && upstream->key_file) {
        weir_loader_error_at(loader, &upstream->key_file,
                             "key_env and key_file are both given; one credential, one place");
        return;
    }
    if (loader->no_secrets)
        return;
    weir_config_read_credential(loader, upstream);
}

/* A burst is of no use without its rate: a slip of the hand, but where the rate is `none`. */
static void refuse_without_rate(struct weir_loader *loader, uint64_t *burst, const char *burst_key,
                                const struct weir_config_rate *rate, const char *rate_key)
{
    if (!*burst || rate->count)
        return;
    if (weir_loader_given(loader, rate))
        *burst = 0;
    else
        weir_loader_error_at(loader, burst,
                             "%s is given without %s: nothing would be "
                             "limited",
                             burst_key, rate_key);
}

static void finish_rates(struct weir_loader *loader, struct weir_config_upstream *upstream)
{
    if (!weir_loader_given(loader, &upstream->accounting))
        upstream->accounting = upstream->api == WEIR_CONFIG_API_ANTHROPIC
                                   ? WEIR_CONFIG_ACCOUNTING_ANTHROPIC
                                   : WEIR_CONFIG_ACCOUNTING_OPENAI;
    bool is_split = upstream->accounting == WEIR_CONFIG_ACCOUNTING_ANTHROPIC;
    if (is_split && upstream->tokens.count)
        weir_loader_error_at(
            loader, &upstream->tokens,
            "accounting anthropic has no single token limit; give input_tokens and "
            "output_tokens");
    if (!is_split && (upstream->input_tokens.count || upstream->output_tokens.count))
        weir_loader_error_at(
            loader,
            upstream->input_tokens.count ? &upstream->input_tokens : &upstream->output_tokens,
            "accounting openai has one token limit; give tokens, or accounting: anthropic");
    refuse_without_rate(loader, &upstream->burst_req, "burst", &upstream->rate, "rate");
    refuse_without_rate(loader, &upstream->tokens_burst_tok, "tokens_burst", &upstream->tokens,
                        "tokens");
    refuse_without_rate(loader, &upstream->input_tokens_burst_tok, "input_tokens_burst",
                        &upstream->input_tokens, "input_tokens");
    refuse_without_rate(loader, &upstream->output_tokens_burst_tok, "output_tokens_burst",
                        &upstream->output_tokens, "output_tokens");
    if (!upstream->burst_req && upstream->rate.count)
        upstream->burst_req = burst_of(upstream->rate);
    if (!upstream->tokens_burst_tok)
        upstream->tokens_burst_tok = upstream->tokens.count;
    if (!upstream->input_tokens_burst_tok)
        upstream->input_tokens_burst_tok = upstream->input_tokens.count;
    if (!upstream->output_tokens_burst_tok)
        upstream->output_tokens_burst_tok = upstream->output_tokens.count;
}

static void finish_breaker(struct weir_loader *loader, struct weir_config_breaker *breaker)
{
    if (breaker->cooldown_max_ns >= breaker->cooldown_ns)
        return;
    if (weir_loader_given(loader, &breaker->cooldown_max_ns))
        weir_loader_error_at(loader, &breaker->cooldown_max_ns,
                             "cooldown_max is shorter than cooldown");
    breaker->cooldown_max_ns = breaker->cooldown_ns;
}

static void finish_adaptive(struct weir_loader *loader, struct weir_config_upstream *upstream)
{
    struct weir_config_adaptive *adaptive = &upstream->adaptive;
    if (adaptive->min == 0 && adaptive->start > 0)
        weir_loader_error_at(
            loader, &adaptive->start,
            "start is given without min: the limit would be fixed; give min, or leave "
            "adaptive out");
    if (adaptive->min == 0)
        return;
    if (adaptive->min > upstream->max_in_flight)
        weir_loader_error_at(loader, &adaptive->min, "min is above max_in_flight, which is %u",
                             upstream->max_in_flight);
    else if (adaptive->start == 0)
        adaptive->start = adaptive->min;
    else if (adaptive->start < adaptive->min || adaptive->start > upstream->max_in_flight)
        weir_loader_error_at(loader, &adaptive->start,
                             "start must be between min and max_in_flight, here %u and %u",
                             adaptive->min, upstream->max_in_flight);
}

static void finish_upstreams(struct weir_loader *loader, const struct weir_names *names)
{
    struct weir_config *config = loader->config;
    for (uint32_t i = 0; i < config->upstreams_count; i++) {
        struct weir_config_upstream *upstream = &config->upstreams[i];
        finish_credential(loader, upstream);
        finish_rates(loader, upstream);
        finish_breaker(loader, &upstream->breaker);
        finish_adaptive(loader, upstream);
        if (upstream->edits.output_limit && upstream->api == WEIR_CONFIG_API_ANTHROPIC)
            weir_loader_warn_at(
                loader, &upstream->edits.output_limit,
                "the Anthropic API always has an output limit; this edit does nothing there");
        upstream->fallback_index = WEIR_NONE;
        if (!upstream->fallback)
            continue;
        upstream->fallback_index =
            weir_names_resolve(loader, &upstream->fallback, upstream->fallback, names, "upstream");
        if (upstream->fallback_index == WEIR_NONE)
            continue;
        struct weir_config_upstream *to = &config->upstreams[upstream->fallback_index];
        to->is_fallback = true;
        if ((to->api & upstream->api) != upstream->api)
            weir_loader_error_at(loader, &upstream->fallback,
                                 "upstream '%s' does not speak the API of '%s'", to->name,
                                 upstream->name ? upstream->name : "?");
    }
    /* A chain that is longer than the list has come round. Each cycle is told once, at its first
     * entry. */
    for (uint32_t i = 0; i < config->upstreams_count; i++) {
        uint32_t at = config->upstreams[i].fallback_index, lowest = i, steps = 0;
        while (at != WEIR_NONE && at != i && steps++ <= config->upstreams_count) {
            lowest = at < lowest ? at : lowest;
            at = config->upstreams[at].fallback_index;
        }
        if (at == i && lowest == i)
            weir_loader_error_at(loader, &config->upstreams[i].fallback,
                                 "fallbacks go round in a circle: '%s' comes back to itself",
                                 config->upstreams[i].name ? config->upstreams[i].name : "?");
    }
}

/* ---- pools ---- */

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool serve_alike(const struct weir_config_upstream *a, const struct weir_config_upstream *b)
{
    if (a->api != b->api || a->models_count != b->models_count)
        return false;
    for (uint32_t i = 0; i < a->models_count; i++)
        if (strcmp(a->models[i], b->models[i]) != 0)
            return false; /* sorted by finish_pools */
    return true;
}

/* A pool name that no pool has: an upstream's own, with an ending where another pool took it. */
static const char *free_pool_name(struct weir_config *config, const char *wanted,
                                  const struct weir_names *given)
{
    for (uint32_t n = 1;; n++) {
        char name[96];
        snprintf(name, sizeof name, n == 1 ? "%s" : "%s-%u", wanted, n);
        bool is_taken = weir_names_find(given, name) != WEIR_NONE;
        for (uint32_t i = 0; i < config->upstreams_count && !is_taken; i++)
            is_taken = config->upstreams[i].pool && strcmp(config->upstreams[i].pool, name) == 0;
        if (!is_taken)
            return weir_config_text(config, name, strlen(name));
    }
}

/* Names the pool of each upstream that gave none: that of an earlier one that serves alike, else
 * its own. Fallbacks are kept apart, so that they are only used when they are needed. */
static void name_pools(struct weir_config *config, const bool *pool_given,
                       const struct weir_names *given)
{
    for (uint32_t i = 0; i < config->upstreams_count; i++) {
        struct weir_config_upstream *upstream = &config->upstreams[i];
        if (pool_given[i])
            continue;
        for (uint32_t j = 0; j < i && !upstream->pool && !upstream->is_fallback; j++)
            if (!pool_given[j] && !config->upstreams[j].is_fallback &&
                serve_alike(upstream, &config->upstreams[j]))
                upstream->pool = config->upstreams[j].pool;
        if (!upstream->pool)
            upstream->pool =
                free_pool_name(config, upstream->name ? upstream->name : "unnamed", given);
    }
}

static void check_pool_of(struct weir_loader *loader, uint32_t index)
{
    struct weir_config *config = loader->config;
    const struct weir_config_upstream *upstream = &config->upstreams[index];
    for (uint32_t j = 0; j < index; j++) {
        const struct weir_config_upstream *other = &config->upstreams[j];
        if (strcmp(other->pool, upstream->pool) == 0 && !serve_alike(other, upstream)) {
            weir_loader_error_at(
                loader, &upstream->pool,
                "upstreams of one pool serve the same: '%s' and '%s' differ in api or models",
                other->name ? other->name : "?", upstream->name ? upstream->name : "?");
            return;
        }
    }
}

static void add_pool(struct weir_config *config, struct weir_config_pool *to, const char *name)
{
    to->name = name;
    to->upstreams = weir_config_alloc(config, config->upstreams_count, sizeof *to->upstreams);
}

/* What the file gave a pool was given to the one that takes its place. */
static void mark_pool(struct weir_loader *loader, const struct weir_config_pool *pool,
                      const struct weir_config_pool *given)
{
    const void *from[] = {&given->name, &given->scheduler, &given->work_input, &given->work_output};
    const void *to[] = {&pool->name, &pool->scheduler, &pool->work_input, &pool->work_output};
    for (size_t i = 0; i < WEIR_COUNT(from); i++)
        if (weir_loader_given(loader, from[i]))
            weir_loader_mark(loader, to[i], weir_loader_place(loader, from[i]));
}

/* pools that the file names keep their settings; all are put in the order in which a model that two
 * serve equally well chooses: those with an upstream that is no fallback first, else as in the
 * file. */
static void finish_pools(struct weir_loader *loader)
{
    struct weir_config *config = loader->config;
    struct weir_config_pool *given = config->pools;
    uint32_t given_count = config->pools_count, count = config->upstreams_count;
    struct weir_names names = weir_names_collect(given, given_count, sizeof *given);
    weir_names_check_unique(loader, &names, given, sizeof *given, "pool");
    bool *pool_given = weir_config_alloc(config, count + 1, sizeof *pool_given);
    for (uint32_t i = 0; i < count; i++) {
        struct weir_config_upstream *upstream = &config->upstreams[i];
        pool_given[i] = upstream->pool != NULL;
        if (upstream->models_count)
            qsort(upstream->models, upstream->models_count, sizeof *upstream->models,
                  compare_texts);
    }
    name_pools(config, pool_given, &names);
    config->pools = weir_config_alloc(config, count + 1, sizeof *config->pools);
    config->pools_count = 0;
    for (int fallbacks = 0; fallbacks <= 1; fallbacks++) {
        for (uint32_t i = 0; i < count; i++) {
            struct weir_config_upstream *upstream = &config->upstreams[i];
            uint32_t at = 0;
            while (at < config->pools_count && strcmp(config->pools[at].name, upstream->pool) != 0)
                at++;
            if (at == config->pools_count && upstream->is_fallback == (fallbacks == 1)) {
                uint32_t from = weir_names_find(&names, upstream->pool);
                struct weir_config_pool *pool = &config->pools[config->pools_count++];
                *pool = (struct weir_config_pool){.scheduler = config->scheduler,
                                                  .work_input = config->work_input,
                                                  .work_output = config->work_output};
                if (from != WEIR_NONE && weir_loader_given(loader, &given[from].scheduler))
                    pool->scheduler = given[from].scheduler;
                if (from != WEIR_NONE && weir_loader_given(loader, &given[from].work_input))
                    pool->work_input = given[from].work_input;
                if (from != WEIR_NONE && weir_loader_given(loader, &given[from].work_output))
                    pool->work_output = given[from].work_output;
                if (pool->work_input == 0 && pool->work_output == 0)
                    weir_loader_error(
                        loader,
                        from == WEIR_NONE ? loader->whole
                                          : weir_loader_place(loader, &given[from].name),
                        "work.input and work.output of pool '%s' are both 0: nothing would "
                        "count",
                        upstream->pool);
                add_pool(config, pool, upstream->pool);
                if (from != WEIR_NONE)
                    mark_pool(loader, pool, &given[from]);
            }
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        struct weir_config_upstream *upstream = &config->upstreams[i];
        check_pool_of(loader, i);
        uint32_t at = 0;
        while (strcmp(config->pools[at].name, upstream->pool) != 0)
            at++;
        upstream->pool_index = at;
        if (config->pools[at].upstreams_count == WEIR_POOL_UPSTREAMS_MAX)
            weir_loader_error_at(loader, &upstream->name, "pool '%s' has more than %d upstreams",
                                 upstream->pool, WEIR_POOL_UPSTREAMS_MAX);
        config->pools[at].upstreams[config->pools[at].upstreams_count++] = i;
    }
    for (uint32_t i = 0; i < given_count; i++) {
        bool is_used = !given[i].name;
        for (uint32_t j = 0; j < config->pools_count && !is_used; j++)
            is_used = strcmp(config->pools[j].name, given[i].name) == 0;
        if (!is_used)
            weir_loader_error_at(loader, &given[i].name, "no upstream is in pool '%s'",
                                 given[i].name);
    }
    weir_names_free(&names);
}

/* ---- lanes, tenants ---- */

static void finish_lanes(struct weir_loader *loader)
{
    static const struct weir_config_lane usual[] = {
        {"interactive", 0}, {"standard", 20}, {"batch", 5}};
    struct weir_config *config = loader->config;
    if (config->lanes_count == 0) {
        config->lanes = weir_config_alloc(config, WEIR_COUNT(usual), sizeof *config->lanes);
        memcpy(config->lanes, usual, sizeof usual);
        config->lanes_count = WEIR_COUNT(usual);
    }
    uint32_t sum = 0;
    for (uint32_t i = 0; i < config->lanes_count; i++) {
        sum += config->lanes[i].floor_percent;
        if (sum > 100) {
            weir_loader_error_at(loader, &config->lanes[i].floor_percent,
                                 "the floors of all lanes come to more than 100 percent");
            break;
        }
    }
}

struct digest_of {
    const uint8_t *digest;
    uint32_t tenant;
};

static int compare_digests(const void *a, const void *b)
{
    return memcmp(((const struct digest_of *)a)->digest, ((const struct digest_of *)b)->digest, 32);
}

static void check_digests(struct weir_loader *loader)
{
    struct weir_config *config = loader->config;
    size_t count = 0;
    for (uint32_t i = 0; i < config->tenants_count; i++)
        count += config->tenants[i].key_sha256_count;
    struct digest_of *all = weir_config_alloc(config, count + 1, sizeof *all);
    count = 0;
    for (uint32_t i = 0; i < config->tenants_count; i++)
        for (uint32_t j = 0; j < config->tenants[i].key_sha256_count; j++)
            all[count++] = (struct digest_of){config->tenants[i].key_sha256[j], i};
    qsort(all, count, sizeof *all, compare_digests);
    for (size_t i = 1; i < count; i++)
        if (compare_digests(&all[i - 1], &all[i]) == 0) {
            const struct weir_config_tenant *tenant = &config->tenants[all[i].tenant];
            weir_loader_error_at(loader, &tenant->key_sha256,
                                 "a key is given twice: it must belong to one tenant");
        }
}

static void finish_tenants(struct weir_loader *loader, const struct weir_names *lanes,
                           const struct weir_names *scopes)
{
    struct weir_config *config = loader->config;
    uint32_t usual = weir_names_find(lanes, "standard");
    config->lane_default = usual == WEIR_NONE ? 0 : usual;
    for (uint32_t i = 0; i < config->tenants_count; i++) {
        struct weir_config_tenant *tenant = &config->tenants[i];
        struct weir_config_tenant_limits *limits = &tenant->limits;
        if (tenant->name && strcmp(tenant->name, "overflow") == 0)
            weir_loader_error_at(loader, &tenant->name,
                                 "overflow is the tenant of those above limits.tenants");
        if (tenant->name && strcmp(tenant->name, "anonymous") == 0)
            weir_loader_error_at(loader, &tenant->name,
                                 "anonymous is the tenant of requests without a credential");
        tenant->lane_index = config->lane_default;
        if (tenant->lane)
            tenant->lane_index =
                weir_names_resolve(loader, &tenant->lane, tenant->lane, lanes, "lane");
        else if (config->lanes_count)
            tenant->lane = config->lanes[config->lane_default].name;
        tenant->scope_index = tenant->scope ? weir_names_resolve(loader, &tenant->scope,
                                                                 tenant->scope, scopes, "scope")
                                            : WEIR_NONE;
        refuse_without_rate(loader, &limits->burst_req, "burst", &limits->requests, "requests");
        refuse_without_rate(loader, &limits->tokens_burst_tok, "tokens_burst", &limits->tokens,
                            "tokens");
        if (!limits->burst_req && limits->requests.count)
            limits->burst_req = burst_of(limits->requests);
        if (!limits->tokens_burst_tok)
            limits->tokens_burst_tok = limits->tokens.count;
    }
    if (config->tenants_count > config->limits.tenants)
        weir_loader_error_at(loader, &config->limits.tenants,
                             "limits.tenants is %u, but %u tenants are given",
                             config->limits.tenants, config->tenants_count);
    check_digests(loader);
}

static void finish_whole(struct weir_loader *loader)
{
    struct weir_config *config = loader->config;
    if (!config->admin.is_loopback)
        weir_loader_error_at(loader, &config->admin,
                             "admin must be on a loopback address (127.0.0.1, ::1)");
    if (config->listen.port && config->listen.port == config->admin.port &&
        strcmp(config->listen.host, config->admin.host) == 0)
        weir_loader_error_at(loader, &config->admin, "admin and listen are the same address");
    if (!config->tls_cert_file != !config->tls_key_file)
        weir_loader_error_at(loader,
                             config->tls_cert_file ? &config->tls_cert_file : &config->tls_key_file,
                             "tls needs both cert_file and key_file");
    if (config->limits.waiters_per_tenant > config->limits.waiters) {
        if (weir_loader_given(loader, &config->limits.waiters_per_tenant))
            weir_loader_error_at(loader, &config->limits.waiters_per_tenant,
                                 "waiters_per_tenant is above waiters");
        config->limits.waiters_per_tenant = config->limits.waiters;
    }
    if (config->limits.waiting_bytes < config->limits.body_bytes)
        weir_loader_error_at(loader, &config->limits.waiting_bytes,
                             "waiting_bytes is below body: the largest request could never wait");
}

static void finish_idempotency(struct weir_loader *loader)
{
    struct weir_config *config = loader->config;
    if (config->idempotency.answers_bytes < config->idempotency.answer_bytes)
        weir_loader_error_at(loader, &config->idempotency.answers_bytes,
                             "answers is below answer: the largest answer could never be kept");
    if (config->idempotency.keys > 0 && !config->ledger.in_memory &&
        config->idempotency.keep_ns > config->ledger.keep_finished_ns)
        weir_loader_warn_at(
            loader, &config->idempotency.keep_ns,
            "keep is above ledger.keep_finished: after a restart a key is known for "
            "that time only, and then a repeat is sent and charged anew");
}

void weir_config_finish(struct weir_loader *loader)
{
    struct weir_config *config = loader->config;
    struct weir_names upstreams =
        weir_names_collect(config->upstreams, config->upstreams_count, sizeof *config->upstreams);
    weir_names_check_unique(loader, &upstreams, config->upstreams, sizeof *config->upstreams,
                            "upstream");
    finish_whole(loader);
    weir_config_finish_ledger(loader);
    weir_config_finish_record(loader);
    finish_idempotency(loader);
    finish_upstreams(loader, &upstreams);
    struct weir_names scopes =
        weir_names_collect(config->scopes, config->scopes_count, sizeof *config->scopes);
    weir_config_finish_scopes(loader, &upstreams, &scopes);
    finish_pools(loader);
    finish_lanes(loader);
    struct weir_names lanes =
        weir_names_collect(config->lanes, config->lanes_count, sizeof *config->lanes);
    struct weir_names tenants =
        weir_names_collect(config->tenants, config->tenants_count, sizeof *config->tenants);
    struct weir_names routes =
        weir_names_collect(config->routes, config->routes_count, sizeof *config->routes);
    weir_names_check_unique(loader, &lanes, config->lanes, sizeof *config->lanes, "lane");
    weir_names_check_unique(loader, &scopes, config->scopes, sizeof *config->scopes, "scope");
    weir_names_check_unique(loader, &tenants, config->tenants, sizeof *config->tenants, "tenant");
    weir_names_check_unique(loader, &routes, config->routes, sizeof *config->routes, "route");
    finish_tenants(loader, &lanes, &scopes);
    weir_config_finish_lab(loader, &upstreams, &tenants);
    weir_config_check_budgets(loader);
    struct weir_names *all[] = {&upstreams, &lanes, &scopes, &tenants, &routes};
    for (size_t i = 0; i < WEIR_COUNT(all); i++)
        weir_names_free(all[i]);
}
