#include "gateway/config_load.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What the loader asks of the file system: the file's text, and where paths lead. The lab page has
 * other answers to the same questions. */

enum { FILE_BYTES_MAX = 64 << 20, PATH_BYTES = 4400 /* one of 4,000 and what is put behind it */ };

char *weir_config_read_file(struct weir_loader *loader, const char *path, size_t *bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat about;
    if (fd < 0 || fstat(fd, &about) != 0) {
        weir_loader_error(loader, loader->whole, "cannot be read: %s", strerror(errno));
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    char *text = NULL;
    size_t room = 0, used = 0;
    for (;;) { /* the size told may be wrong: /dev/stdin, a pipe */
        if (room - used < 4096) {
            room = room ? room * 2 : 64 << 10;
            text = weir_config_must(realloc(text, room));
        }
        ssize_t got = read(fd, text + used, room - used);
        if (got == 0)
            break;
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            weir_loader_error(loader, loader->whole, "cannot be read: %s", strerror(errno));
            break;
        }
        used += (size_t)got;
        if (used > FILE_BYTES_MAX) {
            weir_loader_error(loader, loader->whole, "is larger than 64 MiB");
            break;
        }
    }
    close(fd);
    if (loader->problems->errors) {
        free(text);
        return NULL;
    }
    *bytes = used;
    return text;
}

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

/* Says what stands in the way of a file at path. Its last slash parts folder and name. */
void weir_config_check_ledger(struct weir_loader *loader, struct weir_place place, const char *path)
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

bool weir_config_same_file(const char *a, const char *b)
{
    struct stat of_a, of_b;
    char folder[2][PATH_BYTES];
    if (strcmp(a, b) == 0)
        return true;
    bool has_a = stat(a, &of_a) == 0, has_b = stat(b, &of_b) == 0;
    if (has_a && has_b)
        return of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
    const char *name_a = strrchr(a, '/'), *name_b = strrchr(b, '/');
    if (has_a || has_b || strcmp(name_a ? name_a + 1 : a, name_b ? name_b + 1 : b) != 0)
        return false;
    snprintf(folder[0], PATH_BYTES, "%.*s", name_a ? (int)(name_a - a) + 1 : 1, name_a ? a : ".");
    snprintf(folder[1], PATH_BYTES, "%.*s", name_b ? (int)(name_b - b) + 1 : 1, name_b ? b : ".");
    return stat(folder[0], &of_a) == 0 && stat(folder[1], &of_b) == 0 &&
           of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
}

bool weir_config_is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}
