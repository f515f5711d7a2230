#include "gateway/idempotency_key.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

/* ---- the field ---- */

/* A string of RFC 9651 3.3.3: in quotes, with backslash before a quote or a backslash. */
static const char *key_read_string(struct weir_slice value, char *key, size_t *bytes)
{
    size_t i = 1, used = 0;
    for (; i < value.bytes && value.at[i] != '"'; i++) {
        if (value.at[i] == '\\') {
            i++;
            if (i == value.bytes || (value.at[i] != '"' && value.at[i] != '\\'))
                return "a backslash in its string stands before neither a quote nor a backslash";
        }
        if (value.at[i] < ' ' || value.at[i] > '~')
            return "it has characters that are not ASCII, or not visible";
        if (used == WEIR_IDEMPOTENCY_KEY_BYTES_MAX)
            return "it is longer than 255 characters";
        key[used++] = value.at[i];
    }
    if (i == value.bytes)
        return "its string does not end in a quote";
    if (i + 1 != value.bytes)
        return "something follows its string";
    *bytes = used;
    return used > 0 ? NULL : "it is empty";
}

static const char *key_read_bare(struct weir_slice value, char *key, size_t *bytes)
{
    if (value.bytes == 0)
        return "it is empty";
    if (value.bytes > WEIR_IDEMPOTENCY_KEY_BYTES_MAX)
        return "it is longer than 255 characters";
    for (size_t i = 0; i < value.bytes; i++) {
        if (value.at[i] <= ' ' || value.at[i] > '~')
            return "it has characters that are not ASCII, or not visible";
        if (strchr("\",;\\", value.at[i]))
            return "without quotes it cannot hold a quote, comma, semicolon or backslash";
    }
    memcpy(key, value.at, value.bytes);
    *bytes = value.bytes;
    return NULL;
}

const char *weir_idempotency_key_read(const struct weir_http_head *head, char *key, size_t *bytes)
{
    struct weir_slice value = weir_http_value(head, WEIR_HTTP_IDEMPOTENCY_KEY);
    if (head->repeated & WEIR_HTTP_BIT(WEIR_HTTP_IDEMPOTENCY_KEY))
        return "the field is given more than once";
    return value.bytes > 0 && value.at[0] == '"' ? key_read_string(value, key, bytes)
                                                 : key_read_bare(value, key, bytes);
}

/* ---- digests ---- */

/* Parts with their lengths before them, so that no two lists of parts are the same bytes. */
static bool digest_part(EVP_MD_CTX *md, struct weir_slice part)
{
    uint64_t bytes = part.bytes;
    return EVP_DigestUpdate(md, &bytes, sizeof bytes) == 1 &&
           (bytes == 0 || EVP_DigestUpdate(md, part.at, part.bytes) == 1);
}

/* Every field of that name, each behind its name. */
static bool digest_fields(EVP_MD_CTX *md, const struct weir_http_head *head,
                          enum weir_http_name name)
{
    bool good = true;
    for (uint32_t i = weir_http_find(head, name); i != WEIR_NONE && good;
         i = weir_http_find_next(head, name, i))
        good = digest_part(md, weir_slice_of(weir_http_name_text(name))) &&
               digest_part(md, weir_http_header_value(head, i));
    return good;
}

static bool digest_owner(EVP_MD_CTX *md, const struct weir_http_head *head, const char *tenant)
{
    static const enum weir_http_name carriers[] = {WEIR_HTTP_AUTHORIZATION, WEIR_HTTP_X_API_KEY,
                                                   WEIR_HTTP_API_KEY, WEIR_HTTP_X_GOOG_API_KEY};
    if (tenant)
        return digest_part(md, weir_slice_of("tenant")) && digest_part(md, weir_slice_of(tenant));
    bool good = digest_part(md, weir_slice_of("passed")), any = false;
    for (size_t i = 0; i < WEIR_COUNT(carriers); i++) {
        any = any || weir_http_has(head, carriers[i]);
        good = good && digest_fields(md, head, carriers[i]);
    }
    /* Cookies change by themselves; they say who it is only where nothing else does. */
    return good && (any || digest_fields(md, head, WEIR_HTTP_COOKIE));
}

static bool digest_request(EVP_MD_CTX *md, const struct weir_http_head *head,
                           struct weir_slice body)
{
    return digest_part(md, weir_slice_of(weir_http_method_text(head->method))) &&
           digest_part(md, weir_http_text(head, head->path)) &&
           digest_part(md, weir_http_value(head, WEIR_HTTP_CONTENT_ENCODING)) &&
           digest_part(md, body);
}

/* What was digested, under the secret, cut to what is kept. */
static bool digest_end(EVP_MD_CTX *md, const uint8_t *secret, uint8_t *out)
{
    uint8_t plain[EVP_MAX_MD_SIZE], keyed[EVP_MAX_MD_SIZE];
    unsigned plain_bytes = 0, keyed_bytes = 0;
    if (EVP_DigestFinal_ex(md, plain, &plain_bytes) != 1 ||
        !HMAC(EVP_sha256(), secret, WEIR_IDEMPOTENCY_SECRET_BYTES, plain, plain_bytes, keyed,
              &keyed_bytes))
        return false;
    memcpy(out, keyed, WEIR_IDEMPOTENCY_HASH_BYTES);
    return true;
}

bool weir_idempotency_key_digest(const uint8_t secret[static WEIR_IDEMPOTENCY_SECRET_BYTES],
                                 const struct weir_http_head *head, struct weir_slice key,
                                 const char *tenant, struct weir_slice body,
                                 struct weir_idempotency_id *id)
{
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    bool good = md && EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1 &&
                digest_part(md, weir_slice_of("weir idempotency key")) &&
                digest_owner(md, head, tenant) && digest_part(md, key) &&
                digest_end(md, secret, id->key) && EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1 &&
                digest_part(md, weir_slice_of("weir idempotent request")) &&
                digest_request(md, head, body) && digest_end(md, secret, id->request);
    EVP_MD_CTX_free(md);
    return good;
}
