#include "gateway/config_names.h"

#include "gateway/config_value.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* What no single field of traffic and backend can tell. */

__attribute__((format(printf, 4, 5))) static void
refuse_if(struct weir_loader *loader, bool is_wrong, const void *field, const char *format, ...)
{
    if (!is_wrong)
        return;
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    weir_loader_error_at(loader, field, "%s", text);
}

/* What to point at: the field when it was given, else the row's name. */
static const void *or_name(struct weir_loader *loader, const void *field, const void *name)
{
    return weir_loader_given(loader, field) ? field : name;
}

static void check_length(struct weir_loader *loader, const struct weir_config_length *l,
                         const char *what, const void *name)
{
    const void *at = or_name(loader, l, name);
    bool is_uniform = l->distribution == WEIR_CONFIG_LENGTH_UNIFORM;
    bool is_spread = l->distribution == WEIR_CONFIG_LENGTH_EXPONENTIAL ||
                     l->distribution == WEIR_CONFIG_LENGTH_LOGNORMAL;
    refuse_if(loader, is_uniform && l->high == 0, at, "%s: uniform needs high, as in %s: 300..1500",
              what, what);
    refuse_if(loader, l->high && l->low > l->high, or_name(loader, &l->low, at),
              "%s: low is above high", what);
    refuse_if(loader, is_spread && l->mean == 0, at, "%s: this distribution needs mean", what);
    refuse_if(loader, l->sigma_permille && l->distribution != WEIR_CONFIG_LENGTH_LOGNORMAL,
              &l->sigma_permille, "%s: sigma belongs to lognormal", what);
}

static void check_arrivals(struct weir_loader *loader, const struct weir_config_traffic_tenant *t)
{
    bool is_open =
        t->arrivals == WEIR_CONFIG_ARRIVALS_POISSON || t->arrivals == WEIR_CONFIG_ARRIVALS_EVEN;
    bool is_closed = t->arrivals == WEIR_CONFIG_ARRIVALS_CLOSED;
    const char *name = t->name ? t->name : "?";
    refuse_if(loader, is_open && !t->rate.count, &t->name,
              "'%s' has no rate; give one, as in rate: 1.5/s", name);
    refuse_if(loader, weir_config_rate_micro_per_s(t->rate) > UINT64_C(1000000000000), &t->rate,
              "rate is above a million requests a second");
    refuse_if(loader, !is_open && t->rate.count, &t->rate,
              "rate belongs to arrivals poisson and even");
    refuse_if(loader, is_closed && !t->users, &t->name, "'%s' is a closed loop and has no users",
              name);
    refuse_if(loader, !is_closed && t->users, &t->users, "users belongs to arrivals: closed");
    refuse_if(loader, !is_closed && t->think_ns, &t->think_ns, "think belongs to arrivals: closed");
    refuse_if(loader, !t->on_ns != !t->off_ns, t->on_ns ? &t->on_ns : &t->off_ns,
              "on_for and off_for go together");
    refuse_if(loader, !is_open && t->on_ns, &t->on_ns,
              "on_for and off_for belong to arrivals poisson and even");
    refuse_if(loader, !is_open && t->burst.until_ns, &t->burst.until_ns,
              "burst belongs to arrivals poisson and even");
    refuse_if(loader,
              (t->burst.from_ns || t->burst.until_ns) && t->burst.from_ns >= t->burst.until_ns,
              or_name(loader, &t->burst.from_ns, &t->burst.until_ns),
              "burst ends before it begins: until must be above from");
    refuse_if(loader, t->until_ns && t->from_ns >= t->until_ns, &t->until_ns,
              "until is not after from: it would send nothing");
    /* A trace ends when it ends. */
    bool is_timed = t->arrivals != WEIR_CONFIG_ARRIVALS_TRACE;
    refuse_if(loader, is_timed && t->from_ns >= loader->config->traffic.time_ns, &t->from_ns,
              "from is after the end of the traffic: it would send nothing");
}

static void check_tenant(struct weir_loader *loader, const struct weir_config_traffic_tenant *t)
{
    check_arrivals(loader, t);
    if (t->arrivals != WEIR_CONFIG_ARRIVALS_TRACE) {
        check_length(loader, &t->prompt, "prompt", &t->name);
        check_length(loader, &t->output, "output", &t->name);
    }
    refuse_if(loader, t->growth_turns && (t->prompt.high == 0 || t->prompt.low > t->prompt.high),
              &t->growth_turns, "growth needs a prompt with low and high, as in 6000..24000");
    refuse_if(loader, t->growth_turns && t->arrivals == WEIR_CONFIG_ARRIVALS_TRACE,
              &t->growth_turns, "growth does not go with arrivals: trace, which has its lengths");
}

/* A name that is none of the configuration's is allowed; one that looks like a slip of the hand is
 * pointed at. */
static void warn_of_slip(struct weir_loader *loader, const struct weir_config_traffic_tenant *t,
                         const struct weir_names *traffic)
{
    const struct weir_config *config = loader->config;
    const char *idle[64]; /* tenants that send nothing */
    size_t count = 0;
    for (uint32_t i = 0; i < config->tenants_count && count < WEIR_COUNT(idle); i++)
        if (config->tenants[i].name &&
            weir_names_find(traffic, config->tenants[i].name) == WEIR_NONE)
            idle[count++] = config->tenants[i].name;
    const char *near = weir_value_suggest(t->name, idle, count);
    if (near)
        weir_loader_warn_at(loader, &t->name,
                            "no tenant is called '%s', so it has the defaults of one; did you mean "
                            "'%s', which sends nothing?",
                            t->name, near);
}

static void finish_traffic(struct weir_loader *loader, const struct weir_names *upstreams,
                           const struct weir_names *tenants)
{
    struct weir_config_traffic *traffic = &loader->config->traffic;
    struct weir_names names =
        weir_names_collect(traffic->tenants, traffic->tenants_count, sizeof *traffic->tenants);
    weir_names_check_unique(loader, &names, traffic->tenants, sizeof *traffic->tenants,
                            "the traffic of");
    for (uint32_t i = 0; i < traffic->tenants_count; i++) {
        struct weir_config_traffic_tenant *t = &traffic->tenants[i];
        t->tenant_index = t->name ? weir_names_find(tenants, t->name) : WEIR_NONE;
        if (t->name && t->tenant_index == WEIR_NONE)
            warn_of_slip(loader, t, &names);
        if (t->upstream)
            t->upstream_index =
                weir_names_resolve(loader, &t->upstream, t->upstream, upstreams, "upstream");
        check_tenant(loader, t);
    }
    refuse_if(loader, traffic->run_ns && traffic->run_ns < traffic->time_ns, &traffic->run_ns,
              "run is shorter than time: part of the traffic would never be sent");
    weir_names_free(&names);
}

static void check_trouble(struct weir_loader *loader, const struct weir_config_backend *backend,
                          struct weir_config_trouble *trouble)
{
    refuse_if(loader, trouble->from_ns >= trouble->until_ns, &trouble->until_ns,
              "a trouble ends after it begins: until must be above from");
    refuse_if(loader, trouble->replica > backend->replicas, &trouble->replica,
              "there is no replica %u: this backend has %u", trouble->replica, backend->replicas);
    refuse_if(loader, trouble->kind == WEIR_CONFIG_TROUBLE_FAIL && trouble->times_permille,
              &trouble->times_permille, "times belongs to kind: slow");
    if (trouble->kind == WEIR_CONFIG_TROUBLE_SLOW && !trouble->times_permille)
        trouble->times_permille = 3000;
}

static void finish_backends(struct weir_loader *loader, const struct weir_names *upstreams)
{
    struct weir_config *config = loader->config;
    struct weir_names names =
        weir_names_collect(config->backends, config->backends_count, sizeof *config->backends);
    weir_names_check_unique(loader, &names, config->backends, sizeof *config->backends,
                            "the backend of");
    uint32_t without = WEIR_NONE;
    for (uint32_t i = 0; i < config->backends_count; i++) {
        struct weir_config_backend *backend = &config->backends[i];
        backend->upstream_index = backend->upstream
                                      ? weir_names_resolve(loader, &backend->upstream,
                                                           backend->upstream, upstreams, "upstream")
                                      : WEIR_NONE;
        refuse_if(loader, !backend->upstream && without != WEIR_NONE, &config->backends,
                  "two backends name no upstream; one may, for those without a backend of their "
                  "own");
        without = backend->upstream ? without : i;
        refuse_if(loader, backend->step_ns == 0 && backend->step_sequence_ns == 0,
                  &backend->step_ns, "step and step_sequence are both 0: it would take no time");
        for (uint32_t j = 0; j < backend->troubles_count; j++)
            check_trouble(loader, backend, &backend->troubles[j]);
    }
    weir_names_free(&names);
}

void weir_config_finish_lab(struct weir_loader *loader, const struct weir_names *upstreams,
                            const struct weir_names *tenants)
{
    finish_traffic(loader, upstreams, tenants);
    finish_backends(loader, upstreams);
}
