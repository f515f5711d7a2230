/* keys: weir's own keys, and the few secrets an installation has.
 *
 * A weir key is `wk_`, 43 base62 characters from the kernel's random source (256 bits), and 6 check
 * characters over those, so that a cut or mistyped key is told without a look into the store. Only
 * its SHA-256 is kept; the key itself is shown once, when it is made.
 *
 * The state directory ($WEIR_STATE, else $XDG_STATE_HOME/weir or ~/.local/state/weir, for root
 * /var/lib/weir) holds, each with mode 0600 and replaced as a whole (write aside, sync, rename,
 * sync):
 *
 *   keys.json       the keys: id, tenant, digest, weight, lane, scope
 *   admin.token     what the admin API asks for
 *   install.secret  keys the names of pass-through tenants, so that they mean nothing elsewhere
 *
 * Files that others can read or that are not ours are refused, and so is a damaged one: with the
 * file's name, the reason, and what to do. Thread: one at a time; the loop's once the gateway runs.
 */
#ifndef WEIR_GATEWAY_KEYS_H
#define WEIR_GATEWAY_KEYS_H

#include "core/base.h"

#define WEIR_KEY_CHARS 52     /* wk_ + 43 + 6 */
#define WEIR_KEY_ID_CHARS 12  /* k_ and ten hex digits of the digest: safe to show */
#define WEIR_TOKEN_CHARS 46   /* wa_ + 43 */
#define WEIR_KEYS_MAX 1000000 /* in one store */

struct weir_key {
    char id[WEIR_KEY_ID_CHARS + 1];
    const char *tenant;
    uint8_t sha256[32];
    uint32_t weight;   /* 1 unless given */
    const char *lane;  /* NULL: the default lane */
    const char *scope; /* NULL: the implicit one */
    int64_t made_s;    /* Unix time, for people */
};

struct weir_keys;

/* What went wrong, for people; empty when nothing did. */
struct weir_keys_error {
    char text[512];
};

/* Whether bytes could be a key that we made: prefix, alphabet, length and check characters. */
bool weir_key_is_well_formed(const char *at, size_t bytes);

/* The state directory by the environment; false (and the reason) when none can be told. */
WEIR_MUST_USE bool weir_state_dir(char *out, size_t out_bytes, struct weir_keys_error *error);

/* Opens the store in dir and reads it. A missing one is empty, and is made by the first key.
 * Owns: weir_keys_close.   Fails: NULL and error. */
WEIR_MUST_USE struct weir_keys *weir_keys_open(const char *dir, struct weir_keys_error *error);
void weir_keys_close(struct weir_keys *keys);

/* The keys in the order in which they were made; valid until the next reload, add or revoke. */
uint32_t weir_keys_count(const struct weir_keys *keys);
const struct weir_key *weir_keys_at(const struct weir_keys *keys, uint32_t index);

/* True when a key was ever made here, even if all are revoked since: the gateway stays in key mode.
 */
bool weir_keys_were_made(const struct weir_keys *keys);

/* Looks (one stat) whether the file was replaced, and reads it then. True when the keys changed. A
 * file that cannot be read leaves the keys as they were; weir_keys_trouble tells why until one can.
 */
bool weir_keys_reload_if_changed(struct weir_keys *keys);
const char *weir_keys_trouble(const struct weir_keys *keys); /* NULL: none */

/* What a new key is for. What is not given is that of the tenant's other keys, if it has any. */
struct weir_key_wish {
    const char *tenant; /* a name as in the configuration; anonymous and overflow are taken */
    uint32_t weight;    /* 1 .. 1000; 0: not given */
    const char *lane;   /* NULL: not given */
    const char *scope;  /* NULL: not given */
};

/* Makes a key and stores its digest durably before it is told. Takes the store's lock; reads it
 * anew first, so that two commands at once lose nothing. All keys of a tenant give it the same weight,
 * lane and scope: what is asked otherwise is refused.   Fails: false and error; nothing changed.
 */
WEIR_MUST_USE bool weir_keys_add(struct weir_keys *keys, const struct weir_key_wish *wish,
                                 char key[WEIR_KEY_CHARS + 1], struct weir_keys_error *error);

/* Revokes the key with that id, or all keys of the tenant of that name. *revoked may be 0. */
WEIR_MUST_USE bool weir_keys_revoke(struct weir_keys *keys, const char *id_or_tenant,
                                    uint32_t *revoked, struct weir_keys_error *error);

/* Reads dir's admin.token or install.secret, which are made when absent. */
WEIR_MUST_USE bool weir_state_admin_token(const char *dir, char token[WEIR_TOKEN_CHARS + 1],
                                          struct weir_keys_error *error);
WEIR_MUST_USE bool weir_state_install_secret(const char *dir, uint8_t secret[32],
                                             struct weir_keys_error *error);

#endif
