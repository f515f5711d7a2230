#include "gateway/config_names.h"

#include "core/ledger.h"
#include "gateway/config_value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The tree of budgets: its names and depth, the windows of each, and what a spent one does. */

/* ---- windows ---- */

static void resolve_zone(struct weir_loader *loader, struct weir_config_scope *scope)
{
    struct weir_place place = weir_loader_place(loader, &scope->zone);
    char near[WEIR_ZONE_NAME_MAX];
    scope->window.zone = weir_config_zone(loader->config, scope->zone);
    if (scope->window.zone)
        return;
    if (!weir_zone_database_exists())
        weir_loader_error(
            loader, place,
            "there are no time zones in %s: install tzdata, or leave zone out for UTC",
            weir_zone_database());
    else if (weir_loader_tells(loader) && weir_zone_suggest(scope->zone, near))
        weir_loader_error(loader, place, "there is no time zone '%s'; did you mean '%s'?",
                          scope->zone, near);
    else
        weir_loader_error(loader, place,
                          "there is no time zone '%s'; zones are named as in Europe/Berlin, and "
                          "listed in %s",
                          scope->zone, weir_zone_database());
}

static void resolve_anchor(struct weir_loader *loader, struct weir_config_scope *scope)
{
    struct weir_place place = weir_loader_place(loader, &scope->anchor);
    struct weir_window_rule *rule = &scope->window;
    uint64_t day = 0;
    bool is_month = rule->period == WEIR_PERIOD_MONTH;
    rule->anchor = 1;
    if (!scope->anchor)
        return;
    if (!is_month && !weir_value_weekday(scope->anchor, &rule->anchor))
        weir_loader_error(loader, place,
                          "anchor of a week must be a day from monday to sunday, not '%s'",
                          scope->anchor);
    if (!is_month)
        return;
    if (!weir_value_count(scope->anchor, &day) || day < 1 || day > 31)
        weir_loader_error(loader, place,
                          "anchor of a month must be one of its days, 1 to 31 (31: always the "
                          "last), not '%s'",
                          scope->anchor);
    else
        rule->anchor = (uint32_t)day;
}

static void finish_window(struct weir_loader *loader, struct weir_config_scope *scope)
{
    struct weir_window_rule *rule = &scope->window;
    bool is_local = rule->period != WEIR_PERIOD_NONE && rule->period != WEIR_PERIOD_SECONDS;
    bool has_anchor = rule->period == WEIR_PERIOD_WEEK || rule->period == WEIR_PERIOD_MONTH;
    if (rule->period == WEIR_PERIOD_SECONDS && rule->seconds == 0)
        return; /* the period was wrong, and that has been said */
    if (scope->zone && is_local)
        resolve_zone(loader, scope);
    else if (scope->zone)
        weir_loader_error_at(
            loader, &scope->zone,
            rule->period == WEIR_PERIOD_NONE
                ? "zone is given without a period: nothing would begin anew"
                : "zone is given with a period of fixed length, which is counted from "
                  "1970-01-01T00:00Z; periods of a zone are hour, day, week and month");
    if (has_anchor)
        resolve_anchor(loader, scope);
    else if (scope->anchor)
        weir_loader_error_at(loader, &scope->anchor, "anchor is for the periods week and month");
}

/* ---- what a spent budget does ---- */

/* The longest a window can be, for comparison with waits. */
static uint64_t period_ns(const struct weir_window_rule *rule)
{
    switch (rule->period) {
    case WEIR_PERIOD_NONE:
        return WEIR_NEVER_NS;
    case WEIR_PERIOD_HOUR:
        return 3600 * WEIR_NS_PER_S;
    case WEIR_PERIOD_DAY:
        return 25 * 3600 * WEIR_NS_PER_S;
    case WEIR_PERIOD_WEEK:
        return 7 * 86400 * WEIR_NS_PER_S;
    case WEIR_PERIOD_MONTH:
        return 31 * 86400 * WEIR_NS_PER_S;
    case WEIR_PERIOD_SECONDS:
        return rule->seconds * WEIR_NS_PER_S;
    }
    WEIR_INVARIANT(false);
}

static void finish_exhausted(struct weir_loader *loader, struct weir_config_scope *scope,
                             const struct weir_names *upstreams)
{
    struct weir_config *config = loader->config;
    char wait[WEIR_VALUE_TEXT_MAX];
    scope->fallback_index = WEIR_NONE;
    if (scope->fallback) {
        scope->on_exhausted = WEIR_CONFIG_EXHAUSTED_FALLBACK;
        scope->fallback_index =
            weir_names_resolve(loader, &scope->fallback, scope->fallback, upstreams, "upstream");
        if (scope->fallback_index != WEIR_NONE)
            config->upstreams[scope->fallback_index].is_fallback = true;
        return;
    }
    if (scope->on_exhausted != WEIR_CONFIG_EXHAUSTED_QUEUE)
        return;
    struct weir_place place = weir_loader_place(loader, &scope->on_exhausted);
    weir_value_duration_text(config->limits.max_wait_ns, wait);
    if (scope->window.period == WEIR_PERIOD_NONE)
        weir_loader_error(loader, place,
                          "on_exhausted: queue waits for the next window, and period none has no "
                          "next one; give a period, or refuse");
    else if (period_ns(&scope->window) > config->limits.max_wait_ns)
        weir_loader_warn(loader, place,
                         "on_exhausted: queue waits at most limits.max_wait (%s): a request that "
                         "comes longer than that before the next window is refused at once",
                         wait);
}

/* ---- names and the tree ---- */

static bool is_scope_name(const char *name)
{
    if (strlen(name) > 128 || !*name || name[0] == '/' || name[strlen(name) - 1] == '/')
        return false;
    return name[strspn(
               name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/")] == '\0';
}

static void check_scope_name(struct weir_loader *loader, const struct weir_config_scope *scope)
{
    static const char *const own[] = {"tenant/", "fallback/"};
    struct weir_place place = weir_loader_place(loader, &scope->name);
    if (!scope->name)
        return;
    if (!is_scope_name(scope->name))
        weir_loader_error(loader, place,
                          "a scope's name has letters, digits, '.', '_', '-' and inner slashes, at "
                          "most 128, not '%s'",
                          scope->name);
    for (size_t i = 0; i < WEIR_COUNT(own); i++)
        if (strncmp(scope->name, own[i], strlen(own[i])) == 0)
            weir_loader_error(loader, place, "names that begin with %s are weir's own", own[i]);
}

void weir_config_finish_scopes(struct weir_loader *loader, const struct weir_names *upstreams,
                               const struct weir_names *scopes)
{
    struct weir_config *config = loader->config;
    for (uint32_t i = 0; i < config->scopes_count; i++) {
        struct weir_config_scope *scope = &config->scopes[i];
        check_scope_name(loader, scope);
        scope->parent_index = scope->parent ? weir_names_resolve(loader, &scope->parent,
                                                                 scope->parent, scopes, "scope")
                                            : WEIR_NONE;
        finish_window(loader, scope);
        finish_exhausted(loader, scope, upstreams);
    }
    for (uint32_t i = 0; i < config->scopes_count; i++) {
        uint32_t depth = 1;
        for (uint32_t at = config->scopes[i].parent_index;
             at != WEIR_NONE && depth <= WEIR_LEDGER_DEPTH_MAX; depth++)
            at = config->scopes[at].parent_index;
        if (depth > WEIR_LEDGER_DEPTH_MAX) {
            weir_loader_error_at(loader, &config->scopes[i].parent,
                                 "scopes go round in a circle, or more than %d deep",
                                 WEIR_LEDGER_DEPTH_MAX);
            break;
        }
    }
    if (config->ledger.in_memory && config->scopes_count > 0)
        weir_loader_warn_at(
            loader, &config->ledger.path,
            "ledger: memory forgets at each restart what was spent: every scope then "
            "begins anew, within its period too");
}

/* ---- whether a fallback can serve those who are sent there ---- */

/* Whether every model that pattern stands for is one of the upstream's. */
static bool serves(const struct weir_config_upstream *upstream, const char *pattern)
{
    for (uint32_t i = 0; i < upstream->models_count; i++) {
        const char *own = upstream->models[i];
        size_t bytes = strlen(own);
        if (strcmp(own, pattern) == 0 ||
            (own[bytes - 1] == '*' && strncmp(own, pattern, bytes - 1) == 0))
            return true;
    }
    return upstream->models_count == 0;
}

/* The first of the models that the fallback does not serve; NULL: it serves all. */
static const char *not_served(const struct weir_config_upstream *fallback, const char **models,
                              uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (!serves(fallback, models[i]))
            return models[i];
    return NULL;
}

/* Who else may serve what was sent to a fallback, and is charged to its scope, which has no limit. */
static void check_fallback_others(struct weir_loader *loader, const struct weir_config_scope *scope)
{
    const struct weir_config *config = loader->config;
    const struct weir_config_upstream *to = &config->upstreams[scope->fallback_index];
    struct weir_place place = weir_loader_place(loader, &scope->fallback);
    for (uint32_t i = 0; i < config->upstreams_count; i++)
        if (i != scope->fallback_index && config->upstreams[i].pool_index == to->pool_index) {
            weir_loader_warn(loader, place,
                             "upstream '%s' shares its pool with '%s': either serves what a spent "
                             "budget sends there, without a limit",
                             to->name ? to->name : "?",
                             config->upstreams[i].name ? config->upstreams[i].name : "?");
            break;
        }
    if (to->fallback_index != WEIR_NONE)
        weir_loader_warn(loader, place,
                         "upstream '%s' has a fallback of its own: while its breaker is open, '%s' "
                         "serves what a spent budget sends there, without a limit",
                         to->name ? to->name : "?", to->fallback);
}

/* Compares a scope's fallback with every upstream that its requests may have been meant for. */
static void check_fallback_api(struct weir_loader *loader, const struct weir_config_scope *scope)
{
    const struct weir_config *config = loader->config;
    const struct weir_config_upstream *to = &config->upstreams[scope->fallback_index];
    struct weir_place place = weir_loader_place(loader, &scope->fallback);
    uint32_t missing = 0;
    bool is_elsewhere = false;
    for (uint32_t i = 0; i < config->upstreams_count; i++) {
        missing |= (uint32_t)config->upstreams[i].api & ~(uint32_t)to->api;
        is_elsewhere = is_elsewhere || config->upstreams[i].pool_index != to->pool_index;
    }
    if (!is_elsewhere)
        weir_loader_warn(loader, place,
                         "there is no other pool than that of upstream '%s': a spent budget would "
                         "change nothing",
                         to->name ? to->name : "?");
    else
        check_fallback_others(loader, scope);
    if (is_elsewhere && missing)
        weir_loader_warn(
            loader, place,
            "upstream '%s' does not speak the API '%s': once the budget is spent, such "
            "requests are refused",
            to->name ? to->name : "?", missing & WEIR_CONFIG_API_OPENAI ? "openai" : "anthropic");
}

/* True after it said that the fallback does not serve a model that the tenant may ask for. */
static bool warn_of_models(struct weir_loader *loader, const struct weir_config_scope *scope,
                           const struct weir_config_tenant *tenant)
{
    const struct weir_config *config = loader->config;
    const struct weir_config_upstream *to = &config->upstreams[scope->fallback_index];
    const char *model = not_served(to, tenant->models, tenant->models_count);
    for (uint32_t i = 0; i < config->upstreams_count && !model && !tenant->models_count; i++) {
        const struct weir_config_upstream *from = &config->upstreams[i];
        model = from->models_count ? not_served(to, from->models, from->models_count)
                : to->models_count ? "*"
                                   : NULL;
    }
    if (model)
        weir_loader_warn_at(
            loader, &scope->fallback,
            "upstream '%s' does not serve '%s', which tenant '%s' may ask for: once the "
            "budget is spent, such requests are refused",
            to->name ? to->name : "?", model, tenant->name ? tenant->name : "?");
    return model != NULL;
}

static void check_fallbacks(struct weir_loader *loader)
{
    struct weir_config *config = loader->config;
    bool *is_judged =
        weir_config_alloc(config, (size_t)config->scopes_count + 1, sizeof *is_judged);
    for (uint32_t i = 0; i < config->scopes_count; i++)
        if (config->scopes[i].fallback_index != WEIR_NONE)
            check_fallback_api(loader, &config->scopes[i]);
        else
            is_judged[i] = true;
    for (uint32_t i = 0; i < config->tenants_count; i++) {
        const struct weir_config_tenant *tenant = &config->tenants[i];
        uint32_t at = tenant->scope_index;
        for (int depth = 0; at != WEIR_NONE && depth < WEIR_LEDGER_DEPTH_MAX; depth++) {
            if (!is_judged[at])
                is_judged[at] = warn_of_models(loader, &config->scopes[at], tenant);
            at = config->scopes[at].parent_index;
        }
    }
}

/* ---- ids of providers ---- */

struct provider_id {
    const char *text;
    const void *field; /* the list it stands in */
};

static int compare_provider_ids(const void *a, const void *b)
{
    const struct provider_id *x = a, *y = b;
    int order = strcmp(x->text, y->text);
    return order ? order
                 : ((uintptr_t)x->field > (uintptr_t)y->field) -
                       ((uintptr_t)x->field < (uintptr_t)y->field);
}

struct provider_ids {
    struct provider_id *list;
    size_t count, room;
};

static void add_provider_ids(struct provider_ids *ids, const char ***list, uint32_t count)
{
    if (ids->room - ids->count < count) {
        ids->room = (ids->room + count) * 2;
        ids->list = weir_config_must(realloc(ids->list, ids->room * sizeof *ids->list));
    }
    for (uint32_t i = 0; i < count; i++)
        ids->list[ids->count++] = (struct provider_id){(*list)[i], list};
}

/* An id that means two things means nothing. Frees the list. */
static void refuse_repeated(struct weir_loader *loader, struct provider_ids *ids, const char *what)
{
    if (ids->count)
        qsort(ids->list, ids->count, sizeof *ids->list, compare_provider_ids);
    for (size_t i = 1; i < ids->count; i++) {
        if (strcmp(ids->list[i - 1].text, ids->list[i].text) != 0)
            continue;
        struct weir_place a = weir_loader_place(loader, ids->list[i - 1].field);
        struct weir_place b = weir_loader_place(loader, ids->list[i].field);
        bool in_order = a.line < b.line || (a.line == b.line && a.column <= b.column);
        weir_loader_error(
            loader, in_order ? b : a,
            "the provider's id '%s' is given twice; first on line %u: it must mean one "
            "%s",
            ids->list[i].text, in_order ? a.line : b.line, what);
    }
    free(ids->list);
}

static void check_provider_ids(struct weir_loader *loader)
{
    struct weir_config *config = loader->config;
    struct provider_ids scopes = {0}, upstreams = {0};
    for (uint32_t i = 0; i < config->scopes_count; i++)
        add_provider_ids(&scopes, &config->scopes[i].provider_ids,
                         config->scopes[i].provider_ids_count);
    for (uint32_t i = 0; i < config->tenants_count; i++)
        add_provider_ids(&scopes, &config->tenants[i].provider_ids,
                         config->tenants[i].provider_ids_count);
    for (uint32_t i = 0; i < config->upstreams_count; i++)
        add_provider_ids(&upstreams, &config->upstreams[i].provider_ids,
                         config->upstreams[i].provider_ids_count);
    refuse_repeated(loader, &scopes, "scope or tenant");
    refuse_repeated(loader, &upstreams, "upstream");
}

void weir_config_check_budgets(struct weir_loader *loader)
{
    check_fallbacks(loader);
    check_provider_ids(loader);
}
