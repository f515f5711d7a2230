#include "net/http1_name.h"

#include <stdbool.h>
#include <string.h>

#include "core/base.h"

#define NAME_BYTES_MAX 24 /* of the listed names; name_is compares no more */

static const char texts[WEIR_HTTP_NAME_COUNT][32] = {
#define NAME_TEXT(id, literal) [WEIR_HTTP_##id] = literal,
    WEIR_HTTP_NAMES(NAME_TEXT)
#undef NAME_TEXT
        [WEIR_HTTP_X_RATELIMIT_ANY] = "x-ratelimit-",
    [WEIR_HTTP_ANTHROPIC_RATELIMIT_ANY] = "anthropic-ratelimit-",
    [WEIR_HTTP_RATELIMIT_ANY] = "ratelimit",
};

/* The families have none: they are prefixes, never compared as whole names. */
static const uint8_t lengths[WEIR_HTTP_NAME_COUNT] = {
#define NAME_LENGTH(id, literal) [WEIR_HTTP_##id] = sizeof(literal) - 1,
    WEIR_HTTP_NAMES(NAME_LENGTH)
#undef NAME_LENGTH
};

#define NAME_FITS(id, literal)                                                                     \
    _Static_assert(sizeof(literal) - 1 <= NAME_BYTES_MAX,                                          \
                   literal " is longer than name_is compares");
WEIR_HTTP_NAMES(NAME_FITS)
#undef NAME_FITS

/* A perfect hash of the listed names: length, first, middle and last character, each times a factor
 * that was found by trying until no two names met. A new name goes to the slot that the test
 * http1_name__each_listed_name__is_known_in_any_case prints; should that be taken, other
 * factors are needed, and all slots move. */
#define SLOT_COUNT 128

static unsigned name_slot(const char *name, size_t bytes)
{
    unsigned first = (unsigned char)name[0] | 0x20u, last = (unsigned char)name[bytes - 1] | 0x20u;
    unsigned middle = (unsigned char)name[bytes / 2] | 0x20u;
    return ((unsigned)bytes * 53 + first * 18 + middle * 45 + last * 50) % SLOT_COUNT;
}

static const uint8_t slots[SLOT_COUNT] = {
    [1] = WEIR_HTTP_USER_AGENT,
    [2] = WEIR_HTTP_PROXY_CONNECTION,
    [3] = WEIR_HTTP_HOST,
    [5] = WEIR_HTTP_X_GOOG_API_KEY,
    [12] = WEIR_HTTP_X_SHOULD_RETRY,
    [13] = WEIR_HTTP_TE,
    [15] = WEIR_HTTP_LAST_EVENT_ID,
    [16] = WEIR_HTTP_CONTENT_TYPE,
    [19] = WEIR_HTTP_PROXY_AUTHORIZATION,
    [21] = WEIR_HTTP_CONTENT_LENGTH,
    [22] = WEIR_HTTP_WEIR_SOURCE,
    [25] = WEIR_HTTP_ETAG,
    [26] = WEIR_HTTP_X_STAINLESS_READ_TIMEOUT,
    [28] = WEIR_HTTP_PROXY_AUTHENTICATE,
    [29] = WEIR_HTTP_SEC_FETCH_SITE,
    [30] = WEIR_HTTP_FORWARDED,
    [31] = WEIR_HTTP_ANTHROPIC_BETA,
    [32] = WEIR_HTTP_LOCATION,
    [35] = WEIR_HTTP_ORIGIN,
    [36] = WEIR_HTTP_IF_NONE_MATCH,
    [37] = WEIR_HTTP_CONTENT_ENCODING,
    [38] = WEIR_HTTP_CACHE_CONTROL,
    [52] = WEIR_HTTP_TRANSFER_ENCODING,
    [53] = WEIR_HTTP_X_REQUEST_ID,
    [58] = WEIR_HTTP_ANTHROPIC_VERSION,
    [61] = WEIR_HTTP_COOKIE,
    [62] = WEIR_HTTP_X_STAINLESS_TIMEOUT,
    [65] = WEIR_HTTP_EXPECT,
    [68] = WEIR_HTTP_X_STAINLESS_RETRY_COUNT,
    [76] = WEIR_HTTP_ACCEPT_ENCODING,
    [78] = WEIR_HTTP_RETRY_AFTER_MS,
    [80] = WEIR_HTTP_API_KEY,
    [82] = WEIR_HTTP_VIA,
    [84] = WEIR_HTTP_TRAILER,
    [85] = WEIR_HTTP_REQUEST_ID,
    [86] = WEIR_HTTP_SERVER,
    [89] = WEIR_HTTP_X_FORWARDED_FOR,
    [94] = WEIR_HTTP_WEIR_LANE,
    [95] = WEIR_HTTP_KEEP_ALIVE,
    [96] = WEIR_HTTP_IDEMPOTENCY_KEY,
    [100] = WEIR_HTTP_X_API_KEY,
    [101] = WEIR_HTTP_SET_COOKIE,
    [107] = WEIR_HTTP_CONNECTION,
    [109] = WEIR_HTTP_HTTP2_SETTINGS,
    [113] = WEIR_HTTP_UPGRADE,
    [116] = WEIR_HTTP_AUTHORIZATION,
    [120] = WEIR_HTTP_RETRY_AFTER,
    [121] = WEIR_HTTP_ACCEPT,
    [122] = WEIR_HTTP_DATE,
};

static uint64_t word_at(const char *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

static uint32_t half_at(const char *p)
{
    uint32_t half;
    memcpy(&half, p, sizeof half);
    return half;
}

/* True if the first bytes of name are those of text but for case; 1 .. NAME_BYTES_MAX.
 *
 * Among token characters only letters fold onto letters, and only '-' and digits onto themselves,
 * so setting the bit 0x20 everywhere compares exactly. Words that overlap cover every length
 * without a loop, which the processor would mispredict for each name anew. */
static bool name_is(const char *name, const char *text, size_t bytes)
{
    const uint64_t fold = UINT64_C(0x2020202020202020);
    if (bytes >= 8) {
        size_t middle = (bytes - 8) / 2, last = bytes - 8;
        return (((word_at(name) | fold) ^ word_at(text)) |
                ((word_at(name + middle) | fold) ^ word_at(text + middle)) |
                ((word_at(name + last) | fold) ^ word_at(text + last))) == 0;
    }
    if (bytes >= 4)
        return (((half_at(name) | (uint32_t)fold) ^ half_at(text)) |
                ((half_at(name + bytes - 4) | (uint32_t)fold) ^ half_at(text + bytes - 4))) == 0;
    for (size_t i = 0; i < bytes; i++) {
        if (((unsigned char)name[i] | 0x20u) != (unsigned char)text[i])
            return false;
    }
    return true;
}

static enum weir_http_name name_family(const char *name, size_t bytes)
{
    if (bytes > 12 && name_is(name, "x-ratelimit-", 12))
        return WEIR_HTTP_X_RATELIMIT_ANY;
    if (bytes > 20 && name_is(name, "anthropic-ratelimit-", 20))
        return WEIR_HTTP_ANTHROPIC_RATELIMIT_ANY;
    if (bytes >= 9 && name_is(name, "ratelimit", 9) && (bytes == 9 || name[9] == '-'))
        return WEIR_HTTP_RATELIMIT_ANY;
    return WEIR_HTTP_OTHER;
}

enum weir_http_name weir_http_name_id(const char *name, size_t bytes)
{
    if (bytes == 0)
        return WEIR_HTTP_OTHER;
    enum weir_http_name id = slots[name_slot(name, bytes)];
    if (lengths[id] == bytes && name_is(name, texts[id], bytes))
        return id;
    return name_family(name, bytes);
}

const char *weir_http_name_text(enum weir_http_name id)
{
    return texts[id];
}
