#include "gateway/config.h"

#include "gateway/config_load.h"
#include "gateway/keys.h"

#include <stdlib.h>
#include <string.h>

uint64_t weir_config_rate_micro_per_s(struct weir_config_rate rate)
{
    if (rate.count == 0)
        return 0;
    unsigned __int128 micro = (unsigned __int128)rate.count * 1000000 * WEIR_NS_PER_S / rate.per_ns;
    return micro == 0 ? 1 : micro > UINT64_MAX ? UINT64_MAX : (uint64_t)micro;
}

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
    weir_config_apply_flags(&loader, from);
    for (size_t i = 0; i < from->sets_count; i++)
        weir_config_apply_set(&loader, &from->sets[i]);
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
