#include "gateway/config_load.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Upstream credentials, from the environment and from files, in pages that are kept out of core
 * dumps and zeroed before they are given back. */

struct weir_secrets {
    size_t used;
    char bytes[(64 << 10) - sizeof(size_t)];
};

_Noreturn void weir_config_no_memory(void)
{
    fputs("weir: out of memory while reading the configuration\n", stderr);
    exit(3);
}

/* A copy of a credential; NULL: all of them together do not fit. */
static char *keep_secret(struct weir_config *config, const char *text, size_t bytes)
{
    struct weir_secrets **secrets = weir_config_secrets(config);
    if (!*secrets) {
        void *pages = mmap(NULL, sizeof **secrets, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (pages == MAP_FAILED)
            weir_config_no_memory();
        (void)madvise(pages, sizeof **secrets, MADV_DONTDUMP);
        *secrets = pages;
    }
    if (bytes >= sizeof(*secrets)->bytes - (*secrets)->used)
        return NULL;
    char *copy = (*secrets)->bytes + (*secrets)->used;
    memcpy(copy, text, bytes);
    (*secrets)->used += bytes + 1; /* the pages were zero */
    return copy;
}

void weir_config_free_secrets(struct weir_secrets *secrets)
{
    if (!secrets)
        return;
    explicit_bzero(secrets, sizeof *secrets);
    munmap(secrets, sizeof *secrets);
}

static void check_credential_text(struct weir_loader *loader, struct weir_config_upstream *upstream,
                                  const void *field, const char *what, const char *value,
                                  size_t bytes)
{
    struct weir_place place = weir_loader_place(loader, field);
    if (bytes == 0) {
        weir_loader_error(loader, place, "%s is empty", what);
        return;
    }
    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)value[i] <= ' ' || (unsigned char)value[i] >= 0x7f) {
            weir_loader_error(
                loader, place,
                "%s holds a blank, a line break or a character that no header may carry", what);
            return;
        }
    upstream->key = keep_secret(loader->config, value, bytes);
    if (!upstream->key)
        weir_loader_error(loader, place, "all credentials together are longer than 64 KiB");
}

static void read_key_file(struct weir_loader *loader, struct weir_config_upstream *upstream)
{
    struct weir_place place = weir_loader_place(loader, &upstream->key_file);
    char text[4097];
    struct stat about;
    int fd = open(upstream->key_file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) {
        weir_loader_error(loader, place, "'%s' cannot be read: %s", upstream->key_file,
                          fd < 0 ? strerror(errno) : "not a file");
        if (fd >= 0)
            close(fd);
        return;
    }
    if (about.st_mode & 077)
        weir_loader_warn(loader, place,
                         "'%s' can be read by others; chmod 600 keeps the key to its owner",
                         upstream->key_file);
    ssize_t bytes = read(fd, text, sizeof text);
    close(fd);
    if (bytes < 0 || bytes == sizeof text) {
        weir_loader_error(loader, place, "'%s' %s", upstream->key_file,
                          bytes < 0 ? "cannot be read" : "is longer than 4096 bytes: not a key");
    } else {
        while (bytes > 0 && (text[bytes - 1] == '\n' || text[bytes - 1] == '\r'))
            bytes--;
        char what[160];
        snprintf(what, sizeof what, "the file '%.120s'", upstream->key_file);
        check_credential_text(loader, upstream, &upstream->key_file, what, text, (size_t)bytes);
    }
    explicit_bzero(text, sizeof text);
}

void weir_config_read_credential(struct weir_loader *loader, struct weir_config_upstream *upstream)
{
    if (upstream->key_file)
        read_key_file(loader, upstream);
    if (!upstream->key_env)
        return;
    const char *value = getenv(upstream->key_env);
    if (!value) {
        weir_loader_error_at(loader, &upstream->key_env, "the environment variable %s is not set",
                             upstream->key_env);
        return;
    }
    char what[160];
    snprintf(what, sizeof what, "the environment variable %.100s", upstream->key_env);
    check_credential_text(loader, upstream, &upstream->key_env, what, value, strlen(value));
}
