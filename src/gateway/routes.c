#include "gateway/routes.h"

#include <stdlib.h>
#include <string.h>

#define MODEL_NAME_BYTES 256

/* One pointer, by which labels are told apart. */
static const char route_other[] = "other";

struct route_model {
    char name[MODEL_NAME_BYTES + 1];
    uint16_t bytes;
    uint32_t next; /* in its hash chain; WEIR_NONE ends it */
    uint32_t pool[2];
    const char *label[2];
};

struct weir_routes {
    const struct weir_config *config;
    uint32_t models_max, models_now;
    uint32_t chains; /* a power of two */
    uint32_t *chain;
    struct route_model *models;
    struct route_model unnamed; /* for an empty name and for names that found no room */
};

static bool route_speaks(const struct weir_config_upstream *u, enum weir_dialect dialect)
{
    unsigned bit =
        dialect == WEIR_DIALECT_ANTHROPIC ? WEIR_CONFIG_API_ANTHROPIC : WEIR_CONFIG_API_OPENAI;
    return ((unsigned)u->api & bit) != 0;
}

bool weir_model_listed(const char *const *list, uint32_t count, struct weir_slice model,
                       const char **matched)
{
    if (count == 0) {
        *matched = route_other;
        return true;
    }
    for (uint32_t i = 0; i < count; i++) {
        size_t bytes = strlen(list[i]);
        bool prefix = bytes > 0 && list[i][bytes - 1] == '*';
        if (prefix ? model.bytes >= bytes - 1 && memcmp(list[i], model.at, bytes - 1) == 0
                   : model.bytes == bytes && memcmp(list[i], model.at, bytes) == 0) {
            *matched = list[i];
            return true;
        }
    }
    return false;
}

bool weir_routes_serves(const struct weir_routes *routes, uint32_t upstream,
                        enum weir_dialect dialect, uint32_t model)
{
    const struct weir_config_upstream *u = &routes->config->upstreams[upstream];
    const char *matched;
    if (!route_speaks(u, dialect))
        return false;
    if (model == WEIR_MODEL_OTHER)
        return u->models_count == 0;
    return weir_model_listed(u->models, u->models_count, weir_slice_of(routes->models[model].name),
                             &matched);
}

/* How exactly a list entry fits: a name above every pattern, a longer pattern above a shorter, no
 * list last. */
static size_t route_rank(const char *matched, uint32_t listed)
{
    size_t bytes = strlen(matched);
    if (listed == 0)
        return 1;
    return bytes > 0 && matched[bytes - 1] == '*' ? 1 + bytes : SIZE_MAX;
}

/* Fills both dialects' pools for one name: the most exact match, among equals the first. */
static void route_resolve(const struct weir_config *config, struct route_model *m, bool named)
{
    for (int d = 0; d < 2; d++) {
        size_t best = 0;
        m->pool[d] = WEIR_NONE;
        m->label[d] = route_other;
        for (uint32_t p = 0; p < config->pools_count; p++) {
            const struct weir_config_pool *pool = &config->pools[p];
            for (uint32_t i = 0; i < pool->upstreams_count; i++) {
                const struct weir_config_upstream *u = &config->upstreams[pool->upstreams[i]];
                const char *label = route_other;
                if (!route_speaks(u, (enum weir_dialect)d))
                    continue;
                if (named && !weir_model_listed(u->models, u->models_count,
                                                (struct weir_slice){m->name, m->bytes}, &label))
                    continue;
                size_t rank = named ? route_rank(label, u->models_count) : 1;
                if (rank <= best)
                    continue;
                best = rank;
                m->pool[d] = p;
                m->label[d] = label;
            }
        }
    }
}

struct weir_routes *weir_routes_create(const struct weir_config *config, uint32_t models_max)
{
    struct weir_routes *routes = calloc(1, sizeof *routes);
    if (!routes)
        return NULL;
    routes->config = config;
    routes->models_max = models_max;
    routes->models_now = 1; /* WEIR_MODEL_OTHER */
    routes->chains = 1;
    while (routes->chains < models_max * 2)
        routes->chains *= 2;
    routes->chain = malloc(routes->chains * sizeof *routes->chain);
    routes->models = calloc(models_max, sizeof *routes->models);
    if (!routes->chain || !routes->models) {
        weir_routes_destroy(routes);
        return NULL;
    }
    for (uint32_t i = 0; i < routes->chains; i++)
        routes->chain[i] = WEIR_NONE;
    route_resolve(config, &routes->unnamed, false);
    return routes;
}

void weir_routes_destroy(struct weir_routes *routes)
{
    if (!routes)
        return;
    free(routes->chain);
    free(routes->models);
    free(routes);
}

static uint32_t route_hash(struct weir_slice name)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < name.bytes; i++)
        h = (h ^ (unsigned char)name.at[i]) * UINT64_C(0x100000001b3);
    return (uint32_t)(h ^ (h >> 32));
}

struct weir_route weir_routes_find(struct weir_routes *routes, enum weir_dialect dialect,
                                   struct weir_slice model)
{
    struct weir_route out = {WEIR_MODEL_OTHER, routes->unnamed.pool[dialect], route_other};
    if (model.bytes == 0)
        return out;
    uint32_t at = route_hash(model) & (routes->chains - 1);
    for (uint32_t i = routes->chain[at]; i != WEIR_NONE; i = routes->models[i].next) {
        const struct route_model *m = &routes->models[i];
        if (m->bytes == model.bytes && memcmp(m->name, model.at, model.bytes) == 0)
            return (struct weir_route){i, m->pool[dialect], m->label[dialect]};
    }
    struct route_model fresh = {0};
    if (model.bytes > MODEL_NAME_BYTES) {
        out.pool = WEIR_NONE;
        return out;
    }
    memcpy(fresh.name, model.at, model.bytes);
    fresh.bytes = (uint16_t)model.bytes;
    route_resolve(routes->config, &fresh, true);
    out.pool = fresh.pool[dialect];
    out.label = fresh.label[dialect];
    /* Names nobody serves are not kept: junk must not push real ones out. */
    if (routes->models_now < routes->models_max &&
        (fresh.pool[0] != WEIR_NONE || fresh.pool[1] != WEIR_NONE)) {
        out.model = routes->models_now++;
        fresh.next = routes->chain[at];
        routes->models[out.model] = fresh;
        routes->chain[at] = out.model;
    }
    return out;
}

int64_t weir_routes_cost_tok(const struct weir_routes *routes, struct weir_slice path)
{
    const void *query = memchr(path.at, '?', path.bytes);
    if (query)
        path.bytes = (size_t)((const char *)query - path.at);
    for (uint32_t i = 0; i < routes->config->routes_count; i++) {
        const struct weir_config_route *r = &routes->config->routes[i];
        const char *matched;
        if (weir_model_listed((const char *const[]){r->path}, 1, path, &matched))
            return r->cost_tok;
    }
    return -1;
}

const char *weir_routes_model_name(const struct weir_routes *routes, uint32_t model)
{
    return model > 0 && model < routes->models_now ? routes->models[model].name : route_other;
}

const char *weir_routes_model_label(const struct weir_routes *routes, uint32_t model)
{
    if (model == WEIR_MODEL_OTHER || model >= routes->models_now)
        return routes->unnamed.label[0];
    const struct route_model *m = &routes->models[model];
    return m->pool[0] != WEIR_NONE ? m->label[0] : m->label[1];
}
