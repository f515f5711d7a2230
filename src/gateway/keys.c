#include "gateway/keys.h"

#include "gateway/keys_file.h"

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <jansson.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#define STORE_NAME "keys.json"
#define KEY_RANDOM_CHARS 43
#define KEY_CHECK_CHARS 6

enum { STORE_BYTES_MAX = 512 << 20 };

struct weir_keys {
    char *dir;
    json_t *store; /* what the file said; strings of the list below are its own. NULL: no file */
    struct weir_key *list;
    uint32_t count;
    bool was_made;
    struct stat about; /* of the file that was read; all zero: none */
    struct weir_keys_error trouble;
};

/* ---- one key ---- */

static int base62_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'A' && c <= 'Z')
        return c - 'A' + 10;
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 36;
    return -1;
}

/* CRC-32 of the random part in six base62 digits: finds any slip of one character, and all but one
 * in four thousand million of others. It guards against mistakes, not against forgers. */
static void key_check(const char *random, char check[KEY_CHECK_CHARS])
{
    static const char alphabet[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    uint64_t rest = crc32(0, (const unsigned char *)random, KEY_RANDOM_CHARS);
    for (size_t i = KEY_CHECK_CHARS; i-- > 0; rest /= 62)
        check[i] = alphabet[rest % 62];
}

bool weir_key_is_well_formed(const char *at, size_t bytes)
{
    if (bytes != WEIR_KEY_CHARS || memcmp(at, "wk_", 3) != 0)
        return false;
    for (size_t i = 3; i < bytes; i++)
        if (base62_value(at[i]) < 0)
            return false;
    char check[KEY_CHECK_CHARS];
    key_check(at + 3, check);
    return memcmp(check, at + 3 + KEY_RANDOM_CHARS, KEY_CHECK_CHARS) == 0;
}

static void make_key(char key[WEIR_KEY_CHARS + 1])
{
    memcpy(key, "wk_", 3);
    weir_random_base62(key + 3, KEY_RANDOM_CHARS);
    key_check(key + 3, key + 3 + KEY_RANDOM_CHARS);
    key[WEIR_KEY_CHARS] = '\0';
}

static bool is_name(const char *text, size_t chars_max, const char *also)
{
    size_t chars = strlen(text);
    if (chars == 0 || chars > chars_max || base62_value(text[0]) < 0)
        return false;
    for (size_t i = 0; i < chars; i++)
        if (base62_value(text[i]) < 0 && !strchr(also, text[i]))
            return false;
    return true;
}

/* ---- reading ---- */

static bool read_hex(const char *text, uint8_t *out, size_t bytes)
{
    if (!text || strlen(text) != 2 * bytes || strspn(text, "0123456789abcdef") != 2 * bytes)
        return false;
    for (size_t i = 0; i < bytes; i++) {
        int high = base62_value(text[2 * i]), low = base62_value(text[2 * i + 1]);
        high = high >= 36 ? high - 26 : high; /* a..f are 36..41 in base62 */
        low = low >= 36 ? low - 26 : low;
        out[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static void write_hex(const uint8_t *bytes, size_t count, char *out)
{
    for (size_t i = 0; i < count; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

/* What is wrong with one entry of the store; NULL and *key when nothing is. */
static const char *read_entry(const json_t *entry, struct weir_key *key)
{
    const json_t *lane = json_object_get(entry, "lane"), *scope = json_object_get(entry, "scope");
    const json_t *weight = json_object_get(entry, "weight");
    const char *digest = json_string_value(json_object_get(entry, "sha256"));
    if (!json_is_object(entry))
        return "it is no object";
    *key = (struct weir_key){.tenant = json_string_value(json_object_get(entry, "tenant")),
                             .weight = 1,
                             .lane = json_string_value(lane),
                             .scope = json_string_value(scope),
                             .made_s = json_integer_value(json_object_get(entry, "made_s"))};
    if (!key->tenant || !is_name(key->tenant, 63, "._-"))
        return "its tenant is no name";
    if (!read_hex(digest, key->sha256, sizeof key->sha256))
        return "its sha256 is not 64 hex digits";
    if (weight) {
        json_int_t value = json_integer_value(weight);
        if (!json_is_integer(weight) || value < 1 || value > 1000)
            return "its weight is not between 1 and 1000";
        key->weight = (uint32_t)value;
    }
    if ((lane && !key->lane) || (key->lane && !is_name(key->lane, 63, "._-")))
        return "its lane is no name";
    if ((scope && !key->scope) || (key->scope && !is_name(key->scope, 128, "._-/")))
        return "its scope is no name";
    memcpy(key->id, "k_", 2);
    write_hex(key->sha256, (WEIR_KEY_ID_CHARS - 2) / 2, key->id + 2);
    return NULL;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* Takes in a store that was read; on a fault nothing of keys changes. */
static bool take_store(struct weir_keys *keys, json_t *store, const struct stat *about,
                       struct weir_keys_error *error)
{
    json_t *entries = json_object_get(store, "keys");
    if (json_integer_value(json_object_get(store, "version")) != 1 || !json_is_array(entries) ||
        json_array_size(entries) > WEIR_KEYS_MAX) {
        weir_keys_say(error,
                      "%s/" STORE_NAME
                      " is damaged or of another version: it needs \"version\": 1 and a list "
                      "of keys",
                      keys->dir);
        return false;
    }
    size_t count = json_array_size(entries);
    struct weir_key *list = calloc(count ? count : 1, sizeof *list);
    if (!list) {
        weir_keys_say(error, "out of memory");
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        const char *reason = read_entry(json_array_get(entries, i), &list[i]);
        if (reason) {
            weir_keys_say(error, "%s/" STORE_NAME " is damaged: key %zu: %s", keys->dir, i + 1,
                          reason);
            free(list);
            return false;
        }
    }
    json_decref(keys->store);
    free(keys->list);
    keys->store = json_incref(store);
    keys->list = list;
    keys->count = (uint32_t)count;
    keys->was_made = true;
    keys->about = *about;
    return true;
}

static bool read_store(struct weir_keys *keys, struct weir_keys_error *error)
{
    char *text = NULL;
    size_t bytes = 0;
    struct stat about;
    enum weir_state_read got =
        weir_state_read_file(keys->dir, STORE_NAME, STORE_BYTES_MAX, &text, &bytes, &about, error);
    if (got == WEIR_STATE_FAILED)
        return false;
    if (got == WEIR_STATE_ABSENT) {
        if (!keys->was_made)
            return true; /* none was ever made */
        weir_keys_say(error, "%s/" STORE_NAME " has vanished; the keys read from it stay in force",
                      keys->dir);
        return false;
    }
    json_error_t where;
    json_t *store = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &where);
    free(text);
    if (!store) {
        weir_keys_say(error,
                      "%s/" STORE_NAME
                      ":%d:%d: damaged (%s); put a copy back, or remove it and make new keys",
                      keys->dir, where.line, where.column, where.text);
        return false;
    }
    bool done = take_store(keys, store, &about, error);
    json_decref(store);
    return done;
}

struct weir_keys *weir_keys_open(const char *dir, struct weir_keys_error *error)
{
    struct weir_keys *keys = calloc(1, sizeof *keys);
    char *copy = strdup(dir);
    if (!keys || !copy) {
        weir_keys_say(error, "out of memory");
        free(keys);
        free(copy);
        return NULL;
    }
    keys->dir = copy;
    struct stat about;
    if ((stat(dir, &about) == 0 && !weir_state_make_dir(dir, error)) || !read_store(keys, error)) {
        weir_keys_close(keys);
        return NULL;
    }
    return keys;
}

void weir_keys_close(struct weir_keys *keys)
{
    if (!keys)
        return;
    json_decref(keys->store);
    free(keys->list);
    free(keys->dir);
    free(keys);
}

uint32_t weir_keys_count(const struct weir_keys *keys)
{
    return keys->count;
}

const struct weir_key *weir_keys_at(const struct weir_keys *keys, uint32_t index)
{
    WEIR_INVARIANT(index < keys->count);
    return &keys->list[index];
}

bool weir_keys_were_made(const struct weir_keys *keys)
{
    return keys->was_made;
}

const char *weir_keys_trouble(const struct weir_keys *keys)
{
    return *keys->trouble.text ? keys->trouble.text : NULL;
}

bool weir_keys_reload_if_changed(struct weir_keys *keys)
{
    char path[4096];
    struct stat about;
    if (snprintf(path, sizeof path, "%s/" STORE_NAME, keys->dir) >= (int)sizeof path)
        return false;
    bool is_there = lstat(path, &about) == 0;
    if (is_there ? keys->was_made && same_file(&about, &keys->about) : !keys->was_made) {
        keys->trouble.text[0] = '\0';
        return false;
    }
    struct weir_keys_error error = {{0}};
    if (!read_store(keys, &error)) {
        keys->trouble = error;
        return false;
    }
    keys->trouble.text[0] = '\0';
    return is_there;
}

/* ---- changing ---- */

/* Takes the lock that two changing commands share, and reads what the other may have left. */
static int lock_store(struct weir_keys *keys, struct weir_keys_error *error)
{
    char path[4096];
    if (!weir_state_make_dir(keys->dir, error))
        return -1;
    if (snprintf(path, sizeof path, "%s/keys.lock", keys->dir) >= (int)sizeof path) {
        weir_keys_say(error, "the state directory's name is too long");
        return -1;
    }
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    int got = -1;
    while (fd >= 0 && (got = flock(fd, LOCK_EX)) != 0 && errno == EINTR)
        ;
    if (got != 0) {
        weir_keys_say(error, "%s cannot be locked: %s", path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return -1;
    }
    if (!read_store(keys, error)) {
        close(fd);
        return -1;
    }
    return fd;
}

static bool write_store(struct weir_keys *keys, json_t *store, struct weir_keys_error *error)
{
    char *text = json_dumps(store, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
    if (!text) {
        weir_keys_say(error, "out of memory");
        return false;
    }
    bool was_there;
    bool done =
        weir_state_write_file(keys->dir, STORE_NAME, text, strlen(text), false, &was_there, error);
    free(text);
    return done && read_store(keys, error);
}

/* A copy of the store to change, or a new one. */
static json_t *copy_store(const struct weir_keys *keys)
{
    return keys->store ? json_deep_copy(keys->store)
                       : json_pack("{s:i, s:[]}", "version", 1, "keys");
}

static bool check_wish(const struct weir_keys *keys, const struct weir_key_wish *wish,
                       struct weir_keys_error *error)
{
    if (!is_name(wish->tenant, 63, "._-"))
        weir_keys_say(error,
                      "a tenant's name has letters, digits, '.', '_', '-', at most 63, not '%.80s'",
                      wish->tenant);
    else if (strcmp(wish->tenant, "anonymous") == 0 || strcmp(wish->tenant, "overflow") == 0)
        weir_keys_say(error, "the name %s is weir's own", wish->tenant);
    else if (wish->weight > 1000)
        weir_keys_say(error, "a weight is between 1 and 1000");
    else if (wish->lane && !is_name(wish->lane, 63, "._-"))
        weir_keys_say(error, "'%.80s' is no name of a lane", wish->lane);
    else if (wish->scope && !is_name(wish->scope, 128, "._-/"))
        weir_keys_say(error, "'%.80s' is no name of a scope", wish->scope);
    else if (keys->count >= WEIR_KEYS_MAX)
        weir_keys_say(error, "there are %u keys already, which is all a store holds", keys->count);
    else
        return true;
    return false;
}

/* Fills in what the wish leaves open. false: the tenant's keys say otherwise than it does. */
static bool complete_wish(const struct weir_keys *keys, struct weir_key_wish *wish,
                          struct weir_keys_error *error)
{
    const struct weir_key *other = NULL;
    for (uint32_t i = 0; i < keys->count && !other; i++)
        if (strcmp(keys->list[i].tenant, wish->tenant) == 0)
            other = &keys->list[i];
    uint32_t weight = wish->weight;
    const char *lane = wish->lane, *scope = wish->scope;
    wish->weight = weight ? weight : other ? other->weight : 1;
    wish->lane = lane || !other ? lane : other->lane;
    wish->scope = scope || !other ? scope : other->scope;
    if (!other || (wish->weight == other->weight && g_strcmp0(wish->lane, other->lane) == 0 &&
                   g_strcmp0(wish->scope, other->scope) == 0))
        return true;
    weir_keys_say(error,
                  "tenant %s has keys, with weight %u, lane %s and scope %s, and all keys of a "
                  "tenant are alike in that: give none of these, or `weir key revoke %s` first",
                  wish->tenant, other->weight, other->lane ? other->lane : "-",
                  other->scope ? other->scope : "-", wish->tenant);
    return false;
}

bool weir_keys_add(struct weir_keys *keys, const struct weir_key_wish *asked,
                   char key[WEIR_KEY_CHARS + 1], struct weir_keys_error *error)
{
    if (!check_wish(keys, asked, error))
        return false;
    int lock = lock_store(keys, error);
    if (lock < 0)
        return false;
    struct weir_key_wish whole = *asked, *wish = &whole;
    if (!complete_wish(keys, wish, error)) {
        close(lock);
        return false;
    }
    uint8_t digest[EVP_MAX_MD_SIZE];
    char hex[65];
    make_key(key);
    bool done = EVP_Digest(key, WEIR_KEY_CHARS, digest, NULL, EVP_sha256(), NULL) == 1;
    write_hex(digest, 32, hex);
    json_t *store = copy_store(keys);
    json_t *entry = json_pack("{s:s, s:s, s:i, s:s*, s:s*, s:I}", "tenant", wish->tenant, "sha256",
                              hex, "weight", (int)wish->weight, "lane", wish->lane, "scope",
                              wish->scope, "made_s", (json_int_t)time(NULL));
    done = done && json_array_append_new(json_object_get(store, "keys"), entry) == 0;
    if (!done)
        weir_keys_say(error, "out of memory");
    done = done && write_store(keys, store, error);
    json_decref(store);
    close(lock);
    if (!done)
        explicit_bzero(key, WEIR_KEY_CHARS + 1);
    return done;
}

bool weir_keys_revoke(struct weir_keys *keys, const char *id_or_tenant, uint32_t *revoked,
                      struct weir_keys_error *error)
{
    *revoked = 0;
    int lock = lock_store(keys, error);
    if (lock < 0)
        return false;
    json_t *store = copy_store(keys), *entries = json_object_get(store, "keys");
    uint32_t gone = 0;
    bool by_id = false;
    for (uint32_t i = 0; i < keys->count; i++)
        by_id = by_id || strcmp(keys->list[i].id, id_or_tenant) == 0;
    for (uint32_t i = keys->count; i-- > 0;)
        if (strcmp(by_id ? keys->list[i].id : keys->list[i].tenant, id_or_tenant) == 0 &&
            json_array_remove(entries, i) == 0)
            gone++;
    bool done = store && (gone == 0 || write_store(keys, store, error));
    if (!store)
        weir_keys_say(error, "out of memory");
    json_decref(store);
    close(lock);
    if (done)
        *revoked = gone;
    return done;
}
