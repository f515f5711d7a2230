#include "gateway/config_load.h"

#include <stdio.h>
#include <string.h>

/* Where the recording is: a file of its own. Lines that were appended to the ledger, to a key or to
 * the access log would destroy it, so whatever else weir reads or writes is compared with it. */

enum { PATH_BYTES = 4400 }; /* a path of 4,000 and what is put behind it */

/* other: NULL: there is no such file. behind: put behind its path. */
static bool is_other(const char *path, const char *other, const char *behind)
{
    char whole[PATH_BYTES];
    return other && (size_t)snprintf(whole, sizeof whole, "%s%s", other, behind) < sizeof whole &&
           weir_config_same_file(path, whole);
}

const char *weir_config_use_of(const struct weir_config *c, const char *path)
{
    static const char *const ledger_files[] = {"", "-wal", "-shm", "-journal", ".lock"};
    static const char *const state_files[] = {"/ledger.db", "/keys.json", "/admin.token",
                                              "/install.secret"};
    for (size_t i = 0; i < WEIR_COUNT(ledger_files) && !c->ledger.in_memory; i++)
        if (is_other(path, c->ledger.path, ledger_files[i]))
            return "a file of the ledger";
    for (size_t i = 0; i < WEIR_COUNT(state_files); i++)
        if (is_other(path, c->state_dir, state_files[i]))
            return "a file of the state directory";
    for (uint32_t i = 0; i < c->upstreams_count; i++) {
        if (is_other(path, c->upstreams[i].key_file, ""))
            return "an upstream's key_file";
        if (is_other(path, c->upstreams[i].tls_ca_file, ""))
            return "an upstream's ca_file";
    }
    return is_other(path, c->file, "")                                    ? "the configuration"
           : is_other(path, c->access_file, "")                           ? "the access log"
           : is_other(path, c->tls_cert_file, "")                         ? "tls.cert_file"
           : is_other(path, c->tls_key_file, "")                          ? "tls.key_file"
           : path != c->record_file && is_other(path, c->record_file, "") ? "the recording"
                                                                          : NULL;
}

void weir_config_finish_record(struct weir_loader *loader)
{
    struct weir_config *config = loader->config;
    struct weir_place place = weir_loader_place(loader, &config->record_file);
    const char *use = NULL;
    if (!config->record_file)
        return;
    config->record_file = weir_config_absolute(loader, place, "recording's", config->record_file);
    if (!config->record_file)
        return;
    size_t bytes = strlen(config->record_file);
    if (bytes > 4000)
        weir_loader_error(loader, place,
                          "the recording's path is longer than 4000 bytes: name a shorter one");
    else if (config->record_file[bytes - 1] == '/' ||
             (!loader->no_secrets && weir_config_is_folder(config->record_file)))
        weir_loader_error(loader, place, "'%s' is a folder; name a file in it, as in %s/record.csv",
                          config->record_file, config->record_file);
    else
        use = weir_config_use_of(config, config->record_file);
    if (use)
        weir_loader_error(loader, place, "'%s' is %s: a recording needs a file of its own",
                          config->record_file, use);
}
