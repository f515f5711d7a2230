#include "gateway/config_load.h"

#include <string.h>

/* Where the ledger is: one absolute path, whoever wrote it, so that starting weir from another
 * folder does not begin another ledger. */

/* Where it is when nothing is said: in the state directory, which is made at start. NULL: there is
 * none. */
static const char *default_path(struct weir_loader *loader)
{
    struct weir_config *config = loader->config;
    if (!config->state_dir)
        return NULL;
    char *whole = weir_config_alloc(config, strlen(config->state_dir) + sizeof "/ledger.db", 1);
    strcat(strcpy(whole, config->state_dir), "/ledger.db");
    return weir_config_absolute(loader, (struct weir_place){0}, "ledger's", whole);
}

void weir_config_finish_ledger(struct weir_loader *loader)
{
    struct weir_config_ledger *ledger = &loader->config->ledger;
    struct weir_place place = weir_loader_place(loader, &ledger->path);
    const char *usual = default_path(loader);
    ledger->in_memory = ledger->path && strcmp(ledger->path, "memory") == 0;
    if (ledger->in_memory)
        return;
    ledger->path =
        ledger->path ? weir_config_absolute(loader, place, "ledger's", ledger->path) : usual;
    if (!ledger->path || (usual && strcmp(ledger->path, usual) == 0))
        return;
    size_t bytes = strlen(ledger->path);
    if (bytes > 4000)
        weir_loader_error(loader, place,
                          "the ledger's path is longer than 4000 bytes: name a shorter one");
    else if (ledger->path[bytes - 1] == '/')
        weir_loader_error(loader, place, "'%s' is a folder; name a file in it, as in %sledger.db",
                          ledger->path, ledger->path);
    else if (!loader->no_secrets)
        weir_config_check_ledger(loader, place, ledger->path);
}
