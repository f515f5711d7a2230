#include "cli/replay.h"

#include "cli/args.h"
#include "core/num.h"
#include "gateway/config_value.h"
#include "measure/prompt.h"

#include <stdlib.h>
#include <string.h>

const char *replay_tenant_name(const struct replay_plan *plan, uint32_t tenant)
{
    return *plan->tenants[tenant] ? plan->tenants[tenant] : "-";
}

/* ---- keys ---- */

static uint32_t plan_tenant(const struct replay_plan *plan, const char *name, size_t name_bytes)
{
    for (uint32_t t = 0; t < plan->tenants_count; t++) {
        const char *known = replay_tenant_name(plan, t);
        if (strlen(known) == name_bytes && memcmp(known, name, name_bytes) == 0)
            return t;
    }
    return WEIR_NONE;
}

static bool plan_key_map(struct replay_plan *plan, const char *mapping, const char *equals)
{
    size_t name_bytes = (size_t)(equals - mapping);
    uint32_t tenant = plan_tenant(plan, mapping, name_bytes);
    if (tenant == WEIR_NONE) {
        char name[WEIR_TRACE_NAME_BYTES];
        snprintf(name, sizeof name, "%.*s", (int)weir_min_u64(name_bytes, sizeof name - 1),
                 mapping);
        const char *near = weir_value_suggest(name, plan->tenants, plan->tenants_count);
        fprintf(stderr, "weir replay: --key-env %s: the trace has no tenant '%s'", mapping, name);
        if (near)
            fprintf(stderr, "; did you mean '%s'?", near);
        fputc('\n', stderr);
        return false;
    }
    if (plan->tenant_keys[tenant] != 0) {
        fprintf(stderr, "weir replay: --key-env %s: the tenant has a key already\n", mapping);
        return false;
    }
    plan->tenant_keys[tenant] = plan->keys_count;
    return (plan->keys[plan->keys_count++] = cli_key_of("weir replay", equals + 1)) != NULL;
}

/* Key 0 is that of every tenant without one of its own. */
static bool plan_keys(struct replay_plan *plan, const struct replay_wish *wish)
{
    bool has_own = false;
    plan->keys = calloc(wish->key_envs_count + 1u, sizeof *plan->keys);
    plan->tenant_keys = calloc(plan->tenants_count, sizeof *plan->tenant_keys);
    if (!plan->keys || !plan->tenant_keys) {
        fputs("weir replay: out of memory\n", stderr);
        return false;
    }
    plan->keys_count = 1;
    for (uint32_t i = 0; i < wish->key_envs_count; i++) {
        const char *mapping = wish->key_envs[i], *equals = strchr(mapping, '=');
        if (equals) {
            has_own = true;
            if (!plan_key_map(plan, mapping, equals))
                return false;
        } else if (plan->keys[0]) {
            fputs("weir replay: --key-env VAR can be given once; for one tenant: --key-env "
                  "TENANT=VAR\n",
                  stderr);
            return false;
        } else if (!(plan->keys[0] = cli_key_of("weir replay", mapping))) {
            return false;
        }
    }
    for (size_t i = 0; i < plan->count && has_own && !plan->keys[0]; i++)
        if (plan->tenant_keys[plan->items[i].tenant] == 0) {
            fprintf(stderr,
                    "weir replay: tenant '%s' has no key: add --key-env %s=VAR, or --key-env VAR "
                    "for all "
                    "that have none\n",
                    replay_tenant_name(plan, plan->items[i].tenant),
                    replay_tenant_name(plan, plan->items[i].tenant));
            return false;
        }
    for (size_t i = 0; i < plan->count; i++)
        plan->items[i].key = plan->tenant_keys[plan->items[i].tenant];
    return true;
}

/* ---- requests ---- */

static bool plan_models(struct replay_plan *plan, const struct replay_wish *wish)
{
    uint32_t count = plan->trace.names_count[WEIR_TRACE_MODEL];
    plan->models = calloc(count + 1u, sizeof *plan->models);
    if (!plan->models) {
        fputs("weir replay: out of memory\n", stderr);
        return false;
    }
    for (uint32_t m = 0; m < count; m++)
        plan->models[m] = wish->model ? wish->model : plan->trace.names[WEIR_TRACE_MODEL][m];
    for (size_t i = 0; i < plan->count; i++) {
        const char *name = plan->models[plan->items[i].model];
        if (*name && (wish->model || strcmp(name, "other") != 0))
            continue;
        fprintf(stderr,
                "weir replay: %s does not say which model each request is for: add --model NAME\n",
                wish->trace);
        return false;
    }
    return true;
}

static bool plan_stream(const struct replay_plan *plan, const struct replay_wish *wish,
                        const struct weir_trace_entry *e)
{
    switch (wish->stream) {
    case REPLAY_STREAM_AS_TRACED:
        return plan->trace.form != WEIR_TRACE_RECORDING || e->is_stream;
    case REPLAY_STREAM_YES:
        return true;
    case REPLAY_STREAM_NO:
        return false;
    }
    return true;
}

static bool plan_items(struct replay_plan *plan, const struct replay_wish *wish)
{
    const struct weir_trace *trace = &plan->trace;
    size_t room = (size_t)weir_min_u64(trace->count, wish->limit);
    plan->items = calloc(room, sizeof *plan->items);
    plan->results = calloc(room, sizeof *plan->results);
    bool *is_used = calloc(plan->tenants_count, sizeof *is_used);
    bool fits = plan->items && plan->results && is_used;
    if (!fits)
        fprintf(stderr, "weir replay: out of memory for %zu requests: choose fewer with --limit\n",
                room);
    for (size_t i = 0; fits && i < room; i++) {
        const struct weir_trace_entry *e = &trace->entries[i];
        uint64_t arrival_ns = weir_muldiv_floor(e->arrival_ns, 1000, wish->speed_permille);
        if (arrival_ns > wish->duration_ns)
            break;
        if (e->prompt_tok > WEIR_PROMPT_TOK_MAX) {
            fprintf(stderr,
                    "weir replay: request %zu of %s has a prompt of %u tokens; at most %u can be "
                    "sent\n",
                    i + 1, wish->trace, e->prompt_tok, WEIR_PROMPT_TOK_MAX);
            fits = false;
        }
        plan->items[plan->count++] =
            (struct weir_playback_item){.arrival_ns = arrival_ns,
                                        .tenant = e->tenant,
                                        .model = e->model,
                                        .prompt_tok = e->prompt_tok,
                                        .shared_tok = e->cached_tok,
                                        .output_tok = e->output_tok,
                                        .is_stream = plan_stream(plan, wish, e)};
        plan->tenants_used += !is_used[e->tenant];
        is_used[e->tenant] = true;
        plan->prompt_tok += e->prompt_tok;
        plan->output_tok += e->output_tok;
        plan->span_ns = arrival_ns;
    }
    free(is_used);
    return fits;
}

bool replay_plan_make(struct replay_plan *plan, const struct replay_wish *wish, enum weir_api api)
{
    char text[600];
    *plan = (struct replay_plan){0};
    if (!weir_endpoint_read(wish->url, api, &plan->endpoint, text, sizeof text)) {
        fprintf(stderr, "weir replay: %s\n", text);
        return false;
    }
    if (plan->endpoint.api == WEIR_API_OPENAI_EMBEDDINGS ||
        plan->endpoint.api == WEIR_API_ANTHROPIC_COUNT || plan->endpoint.api == WEIR_API_MODELS) {
        fprintf(stderr, "weir replay: %s takes no prompts; the URL must be one that answers them\n",
                plan->endpoint.path);
        return false;
    }
    if (!weir_trace_load(wish->trace, wish->scheduler, &plan->trace, text, sizeof text)) {
        fprintf(stderr, "%s\n", text);
        return false;
    }
    weir_trace_fill_sizes(&plan->trace);
    weir_trace_remark(&plan->trace, text, sizeof text);
    if (*text)
        fprintf(stderr, "weir replay: %s: %s\n", wish->trace, text);
    plan->tenants = plan->trace.names[WEIR_TRACE_TENANT];
    plan->tenants_count = plan->trace.names_count[WEIR_TRACE_TENANT];
    return plan_items(plan, wish) && plan_models(plan, wish) && plan_keys(plan, wish);
}

void replay_plan_free(struct replay_plan *plan)
{
    weir_trace_free(&plan->trace);
    free(plan->items);
    free(plan->results);
    free(plan->models);
    free(plan->keys);
    free(plan->tenant_keys);
    *plan = (struct replay_plan){0};
}
