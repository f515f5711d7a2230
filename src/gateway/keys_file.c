#include "gateway/keys_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

void weir_keys_say(struct weir_keys_error *error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
}

void weir_random_bytes(void *out, size_t bytes)
{
    unsigned char *at = out;
    while (bytes > 0) {
        ssize_t got = getrandom(at, bytes, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            fputs("weir: the kernel gives no random bytes\n", stderr);
            abort();
        }
        at += got;
        bytes -= (size_t)got;
    }
}

void weir_random_base62(char *out, size_t count)
{
    static const char alphabet[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    enum { FAIR = 62 * 4 }; /* bytes from here on would favour the first characters */
    unsigned char pool[64];
    size_t left = 0;
    for (size_t i = 0; i < count;) {
        if (left == 0) {
            weir_random_bytes(pool, sizeof pool);
            left = sizeof pool;
        }
        unsigned char byte = pool[--left];
        if (byte < FAIR)
            out[i++] = alphabet[byte % 62];
    }
    out[count] = '\0';
    explicit_bzero(pool, sizeof pool);
}

bool weir_state_dir(char *out, size_t out_bytes, struct weir_keys_error *error)
{
    const char *own = getenv("WEIR_STATE"), *xdg = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int bytes;
    if (own && *own)
        bytes = snprintf(out, out_bytes, "%s", own);
    else if (xdg && *xdg == '/')
        bytes = snprintf(out, out_bytes, "%s/weir", xdg);
    else if (geteuid() == 0)
        bytes = snprintf(out, out_bytes, "/var/lib/weir");
    else if (home && *home == '/')
        bytes = snprintf(out, out_bytes, "%s/.local/state/weir", home);
    else
        bytes = -1;
    if (bytes > 0 && (size_t)bytes < out_bytes)
        return true;
    weir_keys_say(error, "no state directory: set WEIR_STATE to a folder for keys and tokens");
    return false;
}

bool weir_state_make_dir(const char *dir, struct weir_keys_error *error)
{
    char path[PATH_BYTES];
    if (strlen(dir) >= sizeof path || !*dir) {
        weir_keys_say(error, "the state directory's name is empty or too long");
        return false;
    }
    strcpy(path, dir);
    for (char *slash = path + 1;; slash++) {
        if (*slash != '/' && *slash != '\0')
            continue;
        bool is_end = *slash == '\0';
        *slash = '\0';
        if (mkdir(path, 0700) != 0 && errno != EEXIST) {
            weir_keys_say(error, "%s cannot be made: %s (WEIR_STATE chooses another place)", path,
                          strerror(errno));
            return false;
        }
        if (is_end)
            break;
        *slash = '/';
    }
    struct stat about;
    if (stat(dir, &about) != 0 || !S_ISDIR(about.st_mode)) {
        weir_keys_say(error, "%s is not a directory", dir);
        return false;
    }
    if (about.st_mode & 022) {
        weir_keys_say(
            error,
            "%s can be written to by others, who could put their own keys there: chmod 700 %s", dir,
            dir);
        return false;
    }
    return true;
}

static bool join_path(char path[PATH_BYTES], const char *dir, const char *name,
                      struct weir_keys_error *error)
{
    int bytes = snprintf(path, PATH_BYTES, "%s/%s", dir, name);
    if (bytes > 0 && bytes < PATH_BYTES)
        return true;
    weir_keys_say(error, "the state directory's name is too long");
    return false;
}

static const char *refuse_mode(const struct stat *about)
{
    if (!S_ISREG(about->st_mode))
        return "is not a plain file";
    if (about->st_uid != geteuid())
        return "belongs to another user; it is used only by its owner";
    if (about->st_mode & 077)
        return "can be read or written by others; chmod 600 it, and make its keys anew if anyone "
               "may have "
               "read it";
    return NULL;
}

enum weir_state_read weir_state_read_file(const char *dir, const char *name, size_t bytes_max,
                                          char **text, size_t *bytes, struct stat *about,
                                          struct weir_keys_error *error)
{
    char path[PATH_BYTES];
    if (!join_path(path, dir, name, error))
        return WEIR_STATE_FAILED;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return WEIR_STATE_ABSENT;
    if (fd < 0 || fstat(fd, about) != 0) {
        weir_keys_say(error, "%s cannot be read: %s", path,
                      errno == ELOOP ? "it is a symbolic link" : strerror(errno));
        if (fd >= 0)
            close(fd);
        return WEIR_STATE_FAILED;
    }
    const char *reason = refuse_mode(about);
    if (!reason && (about->st_size < 0 || (uint64_t)about->st_size > bytes_max))
        reason = "is far larger than weir ever writes it; it is not weir's";
    if (reason) {
        weir_keys_say(error, "%s %s", path, reason);
        close(fd);
        return WEIR_STATE_FAILED;
    }
    size_t size = (size_t)about->st_size, used = 0;
    char *content = malloc(size + 1);
    while (content && used < size) {
        ssize_t got = read(fd, content + used, size - used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        used += (size_t)got;
    }
    close(fd);
    if (!content || used < size) {
        weir_keys_say(error, "%s cannot be read: %s", path,
                      content ? "it ends early" : "out of memory");
        free(content);
        return WEIR_STATE_FAILED;
    }
    content[size] = '\0';
    *text = content;
    *bytes = size;
    return WEIR_STATE_READ;
}

static bool write_all(int fd, const char *text, size_t bytes)
{
    while (bytes > 0) {
        ssize_t put = write(fd, text, bytes);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return false;
        text += put;
        bytes -= (size_t)put;
    }
    return true;
}

static bool sync_dir(const char *dir)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool done = fd >= 0 && fsync(fd) == 0;
    if (fd >= 0)
        close(fd);
    return done;
}

bool weir_state_write_file(const char *dir, const char *name, const char *text, size_t bytes,
                           bool only_if_absent, bool *was_there, struct weir_keys_error *error)
{
    char path[PATH_BYTES], aside[PATH_BYTES];
    *was_there = false;
    if (!weir_state_make_dir(dir, error) || !join_path(path, dir, name, error))
        return false;
    if (snprintf(aside, sizeof aside, "%s/.%s.XXXXXX", dir, name) >= PATH_BYTES) {
        weir_keys_say(error, "the state directory's name is too long");
        return false;
    }
    int fd = mkostemp(aside, O_CLOEXEC); /* 0600 */
    if (fd < 0) {
        weir_keys_say(error, "%s cannot be written: %s", path, strerror(errno));
        return false;
    }
    bool done = write_all(fd, text, bytes) && fsync(fd) == 0;
    done = close(fd) == 0 && done;
    if (done && only_if_absent) {
        /* link, unlike rename, never replaces: of two that start at once, one content wins for
         * both. */
        done = link(aside, path) == 0;
        if (!done && errno == EEXIST)
            *was_there = done = true;
    } else if (done) {
        done = rename(aside, path) == 0;
    }
    int why = errno;
    if (!done || only_if_absent)
        unlink(aside);
    if (done && !sync_dir(dir)) {
        why = errno;
        done = false;
    }
    if (!done)
        weir_keys_say(error, "%s cannot be written: %s", path, strerror(why));
    return done;
}

/* ---- the two secrets of an installation ---- */

/* Reads dir/name, which holds one line of exactly chars characters; makes it with fresh when
 * absent. */
static bool read_or_make(const char *dir, const char *name, const char *fresh, size_t chars,
                         char *out, struct weir_keys_error *error)
{
    for (int attempt = 0; attempt < 2; attempt++) {
        char *text = NULL;
        size_t bytes = 0;
        struct stat about;
        enum weir_state_read got =
            weir_state_read_file(dir, name, 4096, &text, &bytes, &about, error);
        if (got == WEIR_STATE_FAILED)
            return false;
        if (got == WEIR_STATE_READ) {
            bool is_right =
                (bytes == chars || (bytes == chars + 1 && text[chars] == '\n')) &&
                strspn(text, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_") ==
                    chars;
            if (is_right)
                memcpy(out, text, chars);
            else
                weir_keys_say(
                    error, "%s/%s is damaged: remove it, and a new one is made at the next start",
                    dir, name);
            explicit_bzero(text, bytes);
            free(text);
            return is_right;
        }
        char line[128];
        int line_bytes = snprintf(line, sizeof line, "%s\n", fresh);
        bool was_there;
        bool written =
            weir_state_write_file(dir, name, line, (size_t)line_bytes, true, &was_there, error);
        explicit_bzero(line, sizeof line);
        if (!written)
            return false;
    }
    weir_keys_say(error, "%s/%s vanished as soon as it was made", dir, name);
    return false;
}

bool weir_state_admin_token(const char *dir, char token[WEIR_TOKEN_CHARS + 1],
                            struct weir_keys_error *error)
{
    char fresh[WEIR_TOKEN_CHARS + 1] = "wa_";
    weir_random_base62(fresh + 3, WEIR_TOKEN_CHARS - 3);
    token[WEIR_TOKEN_CHARS] = '\0';
    bool done = read_or_make(dir, "admin.token", fresh, WEIR_TOKEN_CHARS, token, error);
    explicit_bzero(fresh, sizeof fresh);
    return done;
}

bool weir_state_install_secret(const char *dir, uint8_t secret[32], struct weir_keys_error *error)
{
    uint8_t bytes[32];
    char fresh[65], hex[65] = "";
    weir_random_bytes(bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(fresh + 2 * i, 3, "%02x", bytes[i]);
    bool done = read_or_make(dir, "install.secret", fresh, 64, hex, error);
    for (size_t i = 0; i < 32 && done; i++) {
        unsigned value;
        done = sscanf(hex + 2 * i, "%2x", &value) == 1;
        if (!done)
            weir_keys_say(error, "%s/install.secret is damaged: remove it, and a new one is made",
                          dir);
        secret[i] = (uint8_t)value;
    }
    explicit_bzero(bytes, sizeof bytes);
    explicit_bzero(fresh, sizeof fresh);
    explicit_bzero(hex, sizeof hex);
    return done;
}
