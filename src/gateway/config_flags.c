#include "gateway/config_load.h"

#include <stdio.h>
#include <string.h>

/* The quick flags of `weir serve`, laid over the file or (without one) over an upstream of their own.
 */

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

void weir_config_apply_flags(struct weir_loader *loader, const struct weir_config_source *from)
{
    struct weir_config *config = loader->config;
    bool has_url = false, has_timeout = false;
    if (!from->file)
        start_upstream_of_flags(loader);
    for (size_t i = 0; i < from->flags_count; i++) {
        has_url = has_url || strcmp(from->flags[i].flag, "--upstream") == 0;
        has_timeout = has_timeout || strcmp(from->flags[i].flag, "--timeout") == 0;
        apply_flag(loader, &from->flags[i], from->file != NULL);
    }
    if (from->file)
        return;
    struct weir_config_upstream *upstream = &config->upstreams[0];
    upstream->name = has_url ? "upstream" : "mock";
    if (has_timeout)
        cap_timeouts(&upstream->timeouts);
    if (!has_url) {
        config->builtin_mock = true;
        set_mock_url(loader, 8767);
    }
}
