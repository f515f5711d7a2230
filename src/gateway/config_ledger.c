#include "gateway/config_load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Where the ledger is: one absolute path, whoever wrote it, so that starting weir from another
 * folder does not begin another ledger. */

enum { PATH_BYTES = 4096 };

/* The folder that a relative path is taken from, in out: the file's own, or (a flag, a pipe) the
 * working directory. */
static bool base_folder(const struct weir_loader *loader, bool from_flag, char out[PATH_BYTES])
{
    const char *file = loader->config->file;
    const char *slash = file && !from_flag ? strrchr(file, '/') : NULL;
    struct stat about;
    if (!slash || (stat(file, &about) == 0 && !S_ISREG(about.st_mode)))
        return getcwd(out, PATH_BYTES) != NULL;
    char folder[PATH_BYTES];
    if ((size_t)(slash - file) >= sizeof folder)
        return false;
    snprintf(folder, sizeof folder, "%.*s", slash == file ? 1 : (int)(slash - file), file);
    if (realpath(folder, out))
        return true;
    return folder[0] == '/' && snprintf(out, PATH_BYTES, "%s", folder) > 0;
}

/* Says what stands in the way of a file at path. Its last slash parts folder and name. */
static void check_place(struct weir_loader *loader, struct weir_place place, const char *path)
{
    char folder[PATH_BYTES];
    struct stat about;
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    if (stat(*folder ? folder : "/", &about) != 0) {
        weir_loader_error(loader, place,
                          "the ledger's folder '%s' cannot be reached: %s; make it, "
                          "or name another",
                          folder, strerror(errno));
        return;
    }
    if (!S_ISDIR(about.st_mode)) {
        weir_loader_error(loader, place,
                          "'%s' is a file: no ledger can lie in it; name one in a folder", folder);
        return;
    }
    if (access(*folder ? folder : "/", W_OK) != 0)
        weir_loader_warn(loader, place,
                         "this user cannot write to '%s', where the ledger keeps its log and its "
                         "lock beside it: %s; let it, or name another folder",
                         *folder ? folder : "/", strerror(errno));
    if (stat(path, &about) != 0) {
        if (errno != ENOENT)
            weir_loader_error(loader, place, "the ledger '%s' cannot be reached: %s", path,
                              strerror(errno));
    } else if (S_ISDIR(about.st_mode)) {
        weir_loader_error(loader, place, "'%s' is a folder; name a file in it, as in %s/ledger.db",
                          path, path);
    } else if (!S_ISREG(about.st_mode)) {
        weir_loader_error(loader, place, "'%s' is not a plain file; name one, or memory", path);
    }
}

const char *weir_config_absolute(struct weir_loader *loader, struct weir_place place,
                                 const char *what, const char *path)
{
    char folder[PATH_BYTES];
    if (*path == '/')
        return path;
    if (!base_folder(loader, place.line == 0, folder)) {
        weir_loader_error(loader, place,
                          "the %s path is relative to a folder that cannot be found: give an "
                          "absolute one",
                          what);
        return NULL;
    }
    char *whole = weir_config_alloc(loader->config, strlen(folder) + strlen(path) + 2, 1);
    return strcat(strcat(strcpy(whole, strcmp(folder, "/") == 0 ? "" : folder), "/"), path);
}

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
        check_place(loader, place, ledger->path);
}
