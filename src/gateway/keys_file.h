/* keys_file: how the small files of the state directory are read and replaced. Internal to keys. */
#ifndef WEIR_GATEWAY_KEYS_FILE_H
#define WEIR_GATEWAY_KEYS_FILE_H

#include "gateway/keys.h"

#include <sys/stat.h>

__attribute__((format(printf, 2, 3))) void weir_keys_say(struct weir_keys_error *error,
                                                         const char *format, ...);

/* Makes dir and what is above it (0700); refuses one that others can write to. */
WEIR_MUST_USE bool weir_state_make_dir(const char *dir, struct weir_keys_error *error);

enum weir_state_read { WEIR_STATE_READ, WEIR_STATE_ABSENT, WEIR_STATE_FAILED };

/* Reads dir/name whole, with a NUL after it; the caller wipes and frees *text. A file that others
 * can read, that is another user's, no plain file, or above bytes_max is refused. about: of what
 * was read. */
WEIR_MUST_USE enum weir_state_read weir_state_read_file(const char *dir, const char *name,
                                                        size_t bytes_max, char **text,
                                                        size_t *bytes, struct stat *about,
                                                        struct weir_keys_error *error);

/* Replaces dir/name: all of the new content is there and durable, or the old one stays.
 * only_if_absent: an existing file is left alone, and that is no failure (*was_there tells). */
WEIR_MUST_USE bool weir_state_write_file(const char *dir, const char *name, const char *text,
                                         size_t bytes, bool only_if_absent, bool *was_there,
                                         struct weir_keys_error *error);

/* Fills from the kernel's random source; stops the process if there is none. */
void weir_random_bytes(void *out, size_t bytes);
/* count base62 characters, each with equal chance, and a NUL. */
void weir_random_base62(char *out, size_t count);

#endif
