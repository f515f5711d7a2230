/* keys: weir keys made at run time, and the other secrets of the state directory.
 *
 * The state directory (mode 0700) holds: keys.json (tenant, settings and SHA-256 of each key; never a key),
 * admin.token (what the admin listener asks for), install.secret (for pass-through tenants). All are mode 0600,
 * written to a temporary file, synced and renamed. A file that cannot be read, is malformed, or is readable by
 * others is refused with its path and what to do.
 *
 * A key is "wk_" + 43 base62 characters + 6 check characters; it is shown once, when it is made.
 * Thread: loop (and the command line, in a process of its own). */
#ifndef WEIR_GATEWAY_KEYS_H
#define WEIR_GATEWAY_KEYS_H

#include "core/base.h"

struct weir_keys;

#define WEIR_KEY_BYTES 52         /* "wk_" + 43 + 6, without a NUL */
#define WEIR_ADMIN_TOKEN_BYTES 64 /* with its NUL */
#define WEIR_SECRET_BYTES 32

/* One key. Strings belong to the keys and live until the next reload. */
struct weir_key {
    const char *tenant;
    uint8_t sha256[32];
    uint32_t weight;    /* 0: not given */
    const char *lane;   /* NULL: not given */
    const char *scope;  /* NULL: not given */
    int64_t made_unix_s;
};

/* Opens the store, making the directory when it is missing. NULL with error_text. */
struct weir_keys *weir_keys_open(const char *state_dir, char *error_text, size_t error_bytes);
void weir_keys_close(struct weir_keys *keys); /* NULL is fine */

uint32_t weir_keys_count(const struct weir_keys *keys);
const struct weir_key *weir_keys_at(const struct weir_keys *keys, uint32_t i);

/* Reads the file again if it changed since (one stat); true: the keys are others now. A file that has become
 * unreadable changes nothing. */
bool weir_keys_reload_if_changed(struct weir_keys *keys);

/* Prefix, characters and check are right: worth a digest. */
bool weir_key_is_well_formed(const char *key, size_t bytes);

/* Makes a key for a tenant and stores its digest; key gets the text with its NUL. false with error_text. */
WEIR_MUST_USE bool weir_keys_new(struct weir_keys *keys, const struct weir_key *settings,
                                 char key[WEIR_KEY_BYTES + 1], char *error_text, size_t error_bytes);
/* Removes all keys of a tenant, or the one whose digest begins with these hex digits; how many, -1 on failure. */
WEIR_MUST_USE int weir_keys_revoke(struct weir_keys *keys, const char *tenant_or_digest, char *error_text,
                                   size_t error_bytes);

/* Read, or made at first use. false with error_text. */
WEIR_MUST_USE bool weir_state_admin_token(const char *state_dir, char token[WEIR_ADMIN_TOKEN_BYTES],
                                          char *error_text, size_t error_bytes);
WEIR_MUST_USE bool weir_state_secret(const char *state_dir, uint8_t secret[WEIR_SECRET_BYTES],
                                     char *error_text, size_t error_bytes);

#endif
