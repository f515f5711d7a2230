#include "gateway/config.h"

#include "gateway/config_load.h"
#include "gateway/keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t weir_config_rate_micro_per_s(struct weir_config_rate rate)
{
    if (rate.count == 0)
        return 0;
    unsigned __int128 micro = (unsigned __int128)rate.count * 1000000 * WEIR_NS_PER_S / rate.per_ns;
    return micro == 0 ? 1 : micro > UINT64_MAX ? UINT64_MAX : (uint64_t)micro;
}

/* ---- flags ---- */

/* A flag sets the field of the same meaning; those of one upstream make no sense beside a file. */
static const struct {
    const char *flag, *table, *key;
} flag_fields[] = {
    {"--listen", NULL, "listen"},
    {"--admin", NULL, "admin"},
    {"--ledger", "ledger", "path"},
    {"--max-wait", "limits", "max_wait"},
    {"--access-log", "log", "access"},
    {"--upstream", "upstreams", "url"},
    {"--rate", "upstreams", "rate"},
    {"--burst", "upstreams", "burst"},
    {"--max-in-flight", "upstreams", "max_in_flight"},
    {"--timeout", "upstreams", "timeouts.total"},
    {"--fail-threshold", "upstreams", "breaker.failures"},
    {"--cooldown", "upstreams", "breaker.cooldown"},
};

/* No timer of the exchange is longer than the whole of it. */
static void cap_timeouts(struct weir_config_timeouts *timeouts)
{
    uint64_t *each[] = {&timeouts->connect_ns, &timeouts->write_ns, &timeouts->first_byte_ns,
                        &timeouts->first_byte_whole_ns, &timeouts->idle_ns};
    for (size_t i = 0; i < WEIR_COUNT(each); i++)
        *each[i] = weir_min_u64(*each[i], timeouts->total_ns);
}

static void apply_flag(struct weir_loader *loader, const struct weir_config_flag *flag,
                       bool has_file)
{
    struct weir_place place = {.where = flag->flag};
    size_t i = 0;
    while (i < WEIR_COUNT(flag_fields) && strcmp(flag_fields[i].flag, flag->flag) != 0)
        i++;
    WEIR_INVARIANT(i < WEIR_COUNT(flag_fields));
    const struct weir_field_table *table = &weir_config_root_table;
    void *row = loader->config;
    if (flag_fields[i].table) {
        const struct weir_field *part = weir_field_find(table, flag_fields[i].table);
        if (part->kind == WEIR_FIELD_ROWS) {
            if (has_file) {
                weir_loader_error(
                    loader, place,
                    "describes an upstream of its own; beside a file, set it in the file "
                    "under upstreams");
                return;
            }
            row = &loader->config->upstreams[0];
        } else {
            row = (char *)row + part->offset;
        }
        table = part->table;
    }
    const char *key = flag_fields[i].key, *dot = strchr(key, '.');
    if (dot) {
        char outer[32];
        snprintf(outer, sizeof outer, "%.*s", (int)(dot - key), key);
        const struct weir_field *part = weir_field_find(table, outer);
        row = (char *)row + part->offset;
        table = part->table;
        key = dot + 1;
    }
    (void)weir_loader_set(loader, weir_field_find(table, key), row, "the value", flag->value,
                          place);
}

static void start_upstream_of_flags(struct weir_loader *loader)
{
    struct weir_config *config = loader->config;
    const struct weir_field *rows = weir_field_find(&weir_config_root_table, "upstreams");
    config->upstreams = weir_config_alloc(config, 1, sizeof *config->upstreams);
    config->upstreams_count = 1;
    weir_loader_presets(loader, rows->table, &config->upstreams[0]);
}

static void set_mock_url(struct weir_loader *loader, uint16_t port)
{
    const struct weir_field *rows = weir_field_find(&weir_config_root_table, "upstreams");
    const struct weir_field *url = weir_field_find(rows->table, "url");
    char text[64];
    snprintf(text, sizeof text, "http://127.0.0.1:%u", port);
    bool is_right = weir_loader_set(loader, url, &loader->config->upstreams[0], "url", text,
                                    (struct weir_place){0});
    WEIR_INVARIANT(is_right);
}

void weir_config_set_mock_port(struct weir_config *config, uint16_t port)
{
    struct weir_loader loader = {.config = config};
    WEIR_INVARIANT(config->builtin_mock);
    set_mock_url(&loader, port);
}

/* ---- the whole ---- */

static void load_file(struct weir_loader *loader, const struct weir_config_source *from)
{
    loader->config->file = weir_config_text(loader->config, from->file, strlen(from->file));
    if (from->text) {
        weir_config_read_yaml(loader, from->text, from->text_bytes);
        return;
    }
    size_t bytes = 0;
    char *text = weir_config_read_file(loader, from->file, &bytes);
    if (text) {
        weir_config_read_yaml(loader, text, bytes);
        explicit_bzero(text, bytes); /* a key may have been put there by mistake */
        free(text);
    }
}

struct weir_config *weir_config_load(const struct weir_config_source *from,
                                     struct weir_config_problems *problems)
{
    struct weir_loader loader = {.config = weir_config_new(),
                                 .problems = problems,
                                 .no_secrets = from->no_secrets,
                                 .for_lab = from->for_lab,
                                 .senders = from->senders,
                                 .senders_count = from->senders_count,
                                 .whole = {.where = from->file ? from->file : "flags"}};
    struct weir_config *config = loader.config;
    weir_loader_presets(&loader, &weir_config_root_table, config);
    if (from->file)
        load_file(&loader, from);
    else
        start_upstream_of_flags(&loader);
    bool has_url = false, has_timeout = false;
    for (size_t i = 0; i < from->flags_count; i++) {
        has_url = has_url || strcmp(from->flags[i].flag, "--upstream") == 0;
        has_timeout = has_timeout || strcmp(from->flags[i].flag, "--timeout") == 0;
        apply_flag(&loader, &from->flags[i], from->file != NULL);
    }
    for (size_t i = 0; i < from->sets_count; i++)
        weir_config_apply_set(&loader, &from->sets[i]);
    if (!from->file) {
        struct weir_config_upstream *upstream = &config->upstreams[0];
        upstream->name = has_url ? "upstream" : "mock";
        if (has_timeout)
            cap_timeouts(&upstream->timeouts);
        if (!has_url) {
            config->builtin_mock = true;
            set_mock_url(&loader, 8767);
        }
    }
    char state_dir[4096];
    struct weir_keys_error none;
    if (weir_state_dir(state_dir, sizeof state_dir, &none))
        config->state_dir = weir_config_text(config, state_dir, strlen(state_dir));
    weir_config_finish(&loader);
    if (from->for_lab)
        weir_loader_keep_given(&loader);
    free(loader.marks);
    weir_loader_sort_problems(problems);
    if (problems->errors) {
        weir_config_free(config);
        return NULL;
    }
    return config;
}

const char *weir_config_exposed(const struct weir_config *config, uint32_t keys_count)
{
    if (config->listen.is_loopback || config->tenants_count > 0 || keys_count > 0)
        return NULL;
    for (uint32_t i = 0; i < config->upstreams_count; i++)
        if (config->upstreams[i].key)
            return "an upstream credential is set, there are no tenants, and the listener can be "
                   "reached "
                   "from other machines: whoever reaches it would spend that credential. Add "
                   "tenants "
                   "(`weir key new NAME`), or listen on 127.0.0.1.";
    return NULL;
}
