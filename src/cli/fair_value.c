#include "cli/fair.h"

#include "core/sched.h"
#include "gateway/config_value.h"

#include <ctype.h>
#include <string.h>

__attribute__((format(printf, 2, 3))) static bool say(struct fair_error *error, const char *format,
                                                      ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    return false;
}

/* What stands behind "KIND:", NULL when text is of another kind. */
static const char *after(const char *text, const char *kind)
{
    size_t bytes = strlen(kind);
    return strncmp(text, kind, bytes) == 0 && text[bytes] == ':' ? text + bytes + 1 : NULL;
}

/* Names the nearest kind for a text that begins with none of them. */
static bool say_kind(struct fair_error *error, const char *text, const char *const *kinds,
                     size_t count, const char *all)
{
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)strcspn(text, ":"), text);
    const char *near = weir_value_suggest(word, kinds, count);
    if (near && strcmp(near, word) == 0)
        return say(error, "'%.60s' lacks what stands behind the colon; there are %s", text, all);
    return near ? say(error, "'%.60s' is unknown; did you mean '%s'?", text, near)
                : say(error, "'%.60s' is unknown; there are %s", text, all);
}

static bool read_tokens(const char *text, uint32_t *tokens, struct fair_error *error)
{
    uint64_t count;
    if (!weir_value_count(text, &count) || count > WEIR_FAIR_TOK_MAX)
        return say(error, "tokens are a whole number from 0 to 1,000,000,000, not '%.60s'", text);
    *tokens = (uint32_t)count;
    return true;
}

static bool read_uniform(const char *text, struct weir_length *length, struct fair_error *error)
{
    const char *dots = strstr(text, "..");
    char low[32];
    if (!dots || (size_t)(dots - text) >= sizeof low)
        return say(error, "uniform needs two ends: uniform:100..2000, not 'uniform:%.60s'", text);
    snprintf(low, sizeof low, "%.*s", (int)(dots - text), text);
    length->kind = WEIR_LENGTH_UNIFORM;
    if (!read_tokens(low, &length->low, error) || !read_tokens(dots + 2, &length->high, error))
        return false;
    if (length->low > length->high)
        return say(error, "the ends stand the wrong way round: uniform:%s..%s", dots + 2, low);
    return true;
}

bool fair_read_length(const char *text, struct weir_length *length, struct fair_error *error)
{
    static const char *const kinds[] = {"fixed", "uniform", "exponential", "trace"};
    const char *value;
    *length = (struct weir_length){.kind = WEIR_LENGTH_FIXED};
    if ((value = after(text, "fixed")))
        return read_tokens(value, &length->mean, error);
    if ((value = after(text, "uniform")))
        return read_uniform(value, length, error);
    if ((value = after(text, "exponential"))) {
        *length = (struct weir_length){
            .kind = WEIR_LENGTH_EXPONENTIAL, .low = 1, .high = (uint32_t)WEIR_FAIR_TOK_MAX};
        if (!read_tokens(value, &length->mean, error))
            return false;
        return length->mean > 0 || say(error, "the mean of an exponential is at least 1");
    }
    if (isdigit((unsigned char)text[0]) || text[0] == '-')
        return read_tokens(text, &length->mean, error);
    if (after(text, "trace"))
        return say(error, "trace:FILE gives input and output at once: it belongs to --cost");
    return say_kind(error, text, kinds, WEIR_COUNT(kinds),
                    "fixed:N, uniform:A..B, exponential:MEAN and trace:FILE");
}

static bool read_rate(const char *text, struct fair_arrivals *arrivals, struct fair_error *error)
{
    struct weir_config_rate rate;
    if (!weir_value_rate(text, &rate))
        return say(error, "a rate is a number and a time (5/s, 300/m), not '%.60s'", text);
    if (rate.count > rate.per_ns)
        return say(error, "the rate %.60s is more than 1,000,000,000 a second", text);
    arrivals->count = rate.count;
    arrivals->per_ns = rate.per_ns;
    return true;
}

static bool read_onoff(const char *text, struct fair_arrivals *arrivals, struct fair_error *error)
{
    char parts[3][40];
    int used = 0;
    arrivals->kind = FAIR_ONOFF;
    if (sscanf(text, "%39[^:]:%39[^:]:%39[^:]%n", parts[0], parts[1], parts[2], &used) != 3 ||
        text[used] != '\0')
        return say(error, "onoff needs a rate and two times: onoff:20/s:5s:10s, not 'onoff:%.60s'",
                   text);
    if (!read_rate(parts[0], arrivals, error))
        return false;
    if (!weir_value_duration(parts[1], &arrivals->on_ns) || arrivals->on_ns == 0 ||
        !weir_value_duration(parts[2], &arrivals->off_ns) ||
        arrivals->on_ns > WEIR_FAIR_ARRIVAL_MAX_NS || arrivals->off_ns > WEIR_FAIR_ARRIVAL_MAX_NS)
        return say(error, "'%s:%s' is not a time on (more than 0) and a time off", parts[1],
                   parts[2]);
    return true;
}

bool fair_read_arrivals(const char *text, struct fair_arrivals *arrivals, struct fair_error *error)
{
    static const char *const kinds[] = {"start", "at", "even", "poisson", "onoff"};
    const char *value;
    *arrivals = (struct fair_arrivals){.kind = FAIR_AT};
    if (strcmp(text, "start") == 0)
        return true;
    if ((value = after(text, "at"))) {
        if (weir_value_duration(value, &arrivals->at_ns) &&
            arrivals->at_ns <= WEIR_FAIR_ARRIVAL_MAX_NS)
            return true;
        return say(error, "'%.60s' is not a time (250ms, 5s)", value);
    }
    if ((value = after(text, "even"))) {
        arrivals->kind = FAIR_EVEN;
        return read_rate(value, arrivals, error);
    }
    if ((value = after(text, "poisson"))) {
        arrivals->kind = FAIR_POISSON;
        return read_rate(value, arrivals, error);
    }
    if ((value = after(text, "onoff")))
        return read_onoff(value, arrivals, error);
    return say_kind(error, text, kinds, WEIR_COUNT(kinds),
                    "start, at:TIME, even:RATE, poisson:RATE and onoff:RATE:ON:OFF");
}

/* "+20%" or "-5%" or "50%", the sign only where wanted. */
static bool read_percent(const char *text, bool is_signed, int64_t low, int64_t high,
                         int64_t *percent)
{
    bool is_minus = is_signed && text[0] == '-';
    const char *digits = text + (is_signed && (text[0] == '-' || text[0] == '+'));
    char number[16];
    uint64_t count;
    size_t bytes = strcspn(digits, "%");
    if (bytes == 0 || bytes >= sizeof number || strcmp(digits + bytes, "%") != 0)
        return false;
    snprintf(number, sizeof number, "%.*s", (int)bytes, digits);
    if (!weir_value_count(number, &count) || count > 1000000)
        return false;
    *percent = is_minus ? -(int64_t)count : (int64_t)count;
    return *percent >= low && *percent <= high;
}

bool fair_read_estimates(const char *text, struct fair_estimates *estimates,
                         struct fair_error *error)
{
    static const char *const kinds[] = {"exact", "biased", "noisy"};
    const char *value;
    *estimates = (struct fair_estimates){.kind = FAIR_EXACT};
    if (strcmp(text, "exact") == 0)
        return true;
    if ((value = after(text, "biased"))) {
        estimates->kind = FAIR_BIASED;
        return read_percent(value, true, -99, 1000, &estimates->percent) ||
               say(error, "a bias is -99%% to +1000%%, as in biased:+20%%, not '%.60s'", value);
    }
    if ((value = after(text, "noisy"))) {
        estimates->kind = FAIR_NOISY;
        return read_percent(value, false, 0, 100, &estimates->percent) ||
               say(error, "noise is 0%% to 100%%, as in noisy:50%%, not '%.60s'", value);
    }
    return say_kind(error, text, kinds, WEIR_COUNT(kinds),
                    "exact, biased:PERCENT and noisy:PERCENT");
}

bool fair_read_policies(const char *text, struct fair_setup *setup, struct fair_error *error)
{
    const char *names[WEIR_FAIR_POLICIES + 1] = {"all"};
    for (uint32_t i = 0; i < WEIR_FAIR_POLICIES; i++)
        names[i + 1] = weir_fair_policy_name((enum weir_fair_policy)i);
    for (const char *at = text;; at++) {
        char word[64];
        size_t bytes = strcspn(at, ","), i = 0;
        snprintf(word, sizeof word, "%.*s", (int)weir_min_u64(bytes, sizeof word - 1), at);
        while (i < WEIR_COUNT(names) && strcmp(word, names[i]) != 0)
            i++;
        if (i == WEIR_COUNT(names))
            return say_kind(error, word, names, WEIR_COUNT(names),
                            "vtc, drr-cost, drr, fifo, drr-restarting and all");
        setup->is_all = setup->is_all || i == 0;
        for (uint32_t p = 0; p < WEIR_FAIR_POLICIES; p++)
            setup->policies[p] = setup->policies[p] || i == 0 || p + 1 == i;
        at += bytes;
        if (*at == '\0')
            break;
    }
    setup->policies_count = 0;
    for (uint32_t p = 0; p < WEIR_FAIR_POLICIES; p++)
        setup->policies_count += setup->policies[p];
    return true;
}

/* ---- lists of tenants ---- */

/* Takes one part of a list, up to a comma, into part; *at moves behind it. */
static bool next_part(const char **at, char *part, size_t part_bytes, struct fair_error *error)
{
    size_t bytes = strcspn(*at, ",");
    if (bytes == 0)
        return say(error, "there is nothing between two commas, or at an end");
    if (bytes >= part_bytes)
        return say(error, "'%.40s...' is too long", *at);
    memcpy(part, *at, bytes);
    part[bytes] = '\0';
    *at += bytes;
    if (**at == ',' && *++*at == '\0')
        return say(error, "there is nothing behind the last comma");
    return true;
}

static struct fair_tenant *find(struct fair_setup *setup, const char *name)
{
    for (uint32_t i = 0; i < setup->tenants_count; i++)
        if (strcmp(setup->tenants[i].name, name) == 0)
            return &setup->tenants[i];
    return NULL;
}

static bool check_name(const char *name, struct fair_error *error)
{
    size_t bytes = strlen(name);
    if (bytes == 0 || bytes >= FAIR_NAME_BYTES)
        return say(error, "the name '%.40s' is empty or longer than 31 letters", name);
    for (const char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '-' && *c != '_' && *c != '.')
            return say(error, "the name '%.40s' has a letter other than a-z, A-Z, 0-9, - _ and .",
                       name);
    return true;
}

static void name_by_place(uint32_t place, char name[static FAIR_NAME_BYTES])
{
    if (place < 26)
        snprintf(name, FAIR_NAME_BYTES, "%c", 'a' + (int)place);
    else
        snprintf(name, FAIR_NAME_BYTES, "t%u", place + 1);
}

bool fair_read_weights(const char *text, struct fair_setup *setup, struct fair_error *error)
{
    bool is_named = strchr(text, '=') != NULL;
    setup->tenants_count = 0;
    for (const char *at = text; *at != '\0';) {
        char part[128], name[FAIR_NAME_BYTES];
        uint64_t weight;
        if (!next_part(&at, part, sizeof part, error))
            return false;
        char *equals = strchr(part, '='), *value = equals ? equals + 1 : part;
        if (is_named != (equals != NULL))
            return say(error, "'%.60s': either all weights have a name or none has", part);
        name_by_place(setup->tenants_count, name);
        if (equals) {
            *equals = '\0';
            if (!check_name(part, error))
                return false;
            snprintf(name, sizeof name, "%s", part);
        }
        if (!weir_value_count(value, &weight) || weight < 1 || weight > WEIR_SCHED_WEIGHT_MAX)
            return say(error, "the weight of %s is a whole number from 1 to 1000, not '%.60s'",
                       name, value);
        if (find(setup, name))
            return say(error, "tenant '%s' is there twice", name);
        if (setup->tenants_count == WEIR_FAIR_TENANTS_MAX)
            return say(error, "there are more than %u tenants", WEIR_FAIR_TENANTS_MAX);
        struct fair_tenant *t = &setup->tenants[setup->tenants_count++];
        *t = (struct fair_tenant){.weight = (uint32_t)weight};
        snprintf(t->name, sizeof t->name, "%s", name);
    }
    return setup->tenants_count > 0 || say(error, "there are no tenants");
}

static bool read_named(const char *text, struct fair_setup *setup, fair_take_fn *take,
                       struct fair_error *error)
{
    bool is_given[WEIR_FAIR_TENANTS_MAX] = {false};
    for (const char *at = text; *at != '\0';) {
        char part[4200];
        if (!next_part(&at, part, sizeof part, error))
            return false;
        char *equals = strchr(part, '=');
        if (!equals)
            return say(error, "'%.60s' lacks its tenant: %s=%.60s", part, setup->tenants[0].name,
                       part);
        *equals = '\0';
        struct fair_tenant *t = find(setup, part);
        if (!t)
            return say(error, "there is no tenant '%.60s': name it in --weights, %.60s=1", part,
                       part);
        if (is_given[t - setup->tenants])
            return say(error, "tenant '%s' is there twice", t->name);
        is_given[t - setup->tenants] = true;
        if (!take(t, equals + 1, error))
            return false;
    }
    for (uint32_t i = 0; i < setup->tenants_count; i++)
        if (!is_given[i])
            return say(error, "tenant '%s' is missing: name all or none", setup->tenants[i].name);
    return true;
}

static bool read_by_place(const char *text, struct fair_setup *setup, fair_take_fn *take,
                          struct fair_error *error)
{
    uint32_t count = 0;
    for (const char *at = text; *at != '\0'; count++) {
        char part[128];
        if (!next_part(&at, part, sizeof part, error))
            return false;
        if (count < setup->tenants_count && !take(&setup->tenants[count], part, error))
            return false;
    }
    if (count != setup->tenants_count)
        return say(error, "there are %u values for %u tenants", count, setup->tenants_count);
    return true;
}

bool fair_read_each(const char *text, struct fair_setup *setup, bool by_place, fair_take_fn *take,
                    struct fair_error *error)
{
    bool is_file = strncmp(text, "trace:", 6) == 0; /* whose name may hold anything */
    if (text[0] == '\0')
        return say(error, "it is empty");
    if (!is_file && strchr(text, '='))
        return read_named(text, setup, take, error);
    if (by_place && strchr(text, ','))
        return read_by_place(text, setup, take, error);
    for (uint32_t i = 0; i < setup->tenants_count; i++)
        if (!take(&setup->tenants[i], text, error))
            return false;
    return true;
}
