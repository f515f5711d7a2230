#include "gateway/config_load.h"

#include <stdio.h>
#include <string.h>

/* Where the recording is: a file of its own. Lines that were appended to the ledger, to a key or to
 * the access log would destroy it, so whatever else weir reads or writes is compared with it. */

enum { PATH_BYTES = 4400 }; /* a path of 4,000 and what is put behind it */

/* other: NULL: there is no such file. behind: put behind its path. True after saying that it is the
 * recording's. */
static bool clashes(struct weir_loader *loader, const char *other, const char *behind,
                    const char *what)
{
    struct weir_config *config = loader->config;
    char path[PATH_BYTES];
    if (!other || (size_t)snprintf(path, sizeof path, "%s%s", other, behind) >= sizeof path ||
        !weir_config_same_file(config->record_file, path))
        return false;
    weir_loader_error(loader, weir_loader_place(loader, &config->record_file),
                      "'%s' is %s: a recording needs a file of its own", config->record_file, what);
    return true;
}

static bool clashes_any(struct weir_loader *loader)
{
    const struct weir_config *c = loader->config;
    static const char *const ledger_files[] = {"", "-wal", "-shm", "-journal", ".lock"};
    static const char *const state_files[] = {"/ledger.db", "/keys.json", "/admin.token",
                                              "/install.secret"};
    for (size_t i = 0; i < WEIR_COUNT(ledger_files) && !c->ledger.in_memory; i++)
        if (clashes(loader, c->ledger.path, ledger_files[i], "a file of the ledger"))
            return true;
    for (size_t i = 0; i < WEIR_COUNT(state_files); i++)
        if (clashes(loader, c->state_dir, state_files[i], "a file of the state directory"))
            return true;
    for (uint32_t i = 0; i < c->upstreams_count; i++)
        if (clashes(loader, c->upstreams[i].key_file, "", "an upstream's key_file") ||
            clashes(loader, c->upstreams[i].tls_ca_file, "", "an upstream's ca_file"))
            return true;
    return clashes(loader, c->file, "", "the configuration") ||
           clashes(loader, c->access_file, "", "the access log") ||
           clashes(loader, c->tls_cert_file, "", "tls.cert_file") ||
           clashes(loader, c->tls_key_file, "", "tls.key_file");
}

void weir_config_finish_record(struct weir_loader *loader)
{
    struct weir_config *config = loader->config;
    struct weir_place place = weir_loader_place(loader, &config->record_file);
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
        (void)clashes_any(loader);
}
