#include "wire/api.h"

#include <string.h>

/* What a segment of a path is to us. */
enum segment {
    SEGMENT_OTHER,
    SEGMENT_VERSION, /* v1, v1beta, ... */
    SEGMENT_CHAT,
    SEGMENT_COMPLETIONS,
    SEGMENT_RESPONSES,
    SEGMENT_EMBEDDINGS,
    SEGMENT_MESSAGES,
    SEGMENT_COUNT_TOKENS,
    SEGMENT_MODELS
};

static const char *const segment_names[] = {
    [SEGMENT_CHAT] = "chat",           [SEGMENT_COMPLETIONS] = "completions",
    [SEGMENT_RESPONSES] = "responses", [SEGMENT_EMBEDDINGS] = "embeddings",
    [SEGMENT_MESSAGES] = "messages",   [SEGMENT_COUNT_TOKENS] = "count_tokens",
    [SEGMENT_MODELS] = "models",
};

/* A segment is kept as far as the longest name needs: a longer one matches nothing. The levels are
 * a stack, so that `..` takes away exactly what stood before it; levels beyond SEGMENTS_MAX are
 * counted but not known, and a path that ends there is no API of ours. */
#define SEGMENT_BYTES 16
#define SEGMENTS_MAX 256

struct segments {
    uint32_t count;
    uint8_t kind[SEGMENTS_MAX];
};

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    char lower = (char)(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* The byte at *i of a path, percent escapes decoded (once); moves *i past it. */
static char path_byte(const char *path, size_t bytes, size_t *i)
{
    char c = path[(*i)++];
    if (c == '%' && bytes - *i >= 2) {
        int high = hex_value(path[*i]), low = hex_value(path[*i + 1]);
        if (high >= 0 && low >= 0) {
            *i += 2;
            c = (char)(high << 4 | low);
        }
    }
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

static enum segment segment_of(const char *text, uint32_t bytes)
{
    if (bytes >= 2 && text[0] == 'v' && text[1] >= '0' && text[1] <= '9')
        return SEGMENT_VERSION;
    for (uint32_t i = SEGMENT_CHAT; i < WEIR_COUNT(segment_names); i++)
        if (strlen(segment_names[i]) == bytes && memcmp(segment_names[i], text, bytes) == 0)
            return (enum segment)i;
    return SEGMENT_OTHER;
}

static void segments_add(struct segments *s, const char *text, uint32_t bytes)
{
    if (bytes == 0 || (bytes == 1 && text[0] == '.'))
        return;
    if (bytes == 2 && text[0] == '.' && text[1] == '.') {
        if (s->count > 0)
            s->count--;
        return;
    }
    if (s->count < SEGMENTS_MAX)
        s->kind[s->count] = (uint8_t)segment_of(text, bytes);
    s->count++;
}

static void segments_read(struct segments *s, const char *path, size_t bytes)
{
    s->count = 0;
    char text[SEGMENT_BYTES];
    uint32_t text_bytes = 0;
    for (size_t i = 0; i < bytes && path[i] != '?' && path[i] != '#';) {
        char c = path_byte(path, bytes, &i);
        if (c == '/' || c == '\\') {
            segments_add(s, text, text_bytes);
            text_bytes = 0;
        } else if (text_bytes < SEGMENT_BYTES) {
            text[text_bytes++] = c; /* a full one is longer than any name */
        }
    }
    segments_add(s, text, text_bytes);
}

/* The segment `back` places before the last. */
static enum segment segment_back(const struct segments *s, uint32_t back)
{
    if (back >= s->count || s->count > SEGMENTS_MAX)
        return SEGMENT_OTHER;
    return (enum segment)s->kind[s->count - 1 - back];
}

/* Whether what stands before the last `taken` segments may be a prefix of the API: nothing, or
 * something that ends in a version. */
static bool segments_prefixed(const struct segments *s, uint32_t taken)
{
    return s->count == taken || segment_back(s, taken) == SEGMENT_VERSION;
}

enum weir_api weir_api_of_path(const char *path, size_t path_bytes)
{
    struct segments s;
    segments_read(&s, path, path_bytes);
    enum segment before = segment_back(&s, 1);
    bool prefixed = segments_prefixed(&s, 1);
    switch (segment_back(&s, 0)) {
    case SEGMENT_COMPLETIONS:
        if (before == SEGMENT_CHAT)
            return WEIR_API_OPENAI_CHAT;
        return prefixed ? WEIR_API_OPENAI_COMPLETIONS : WEIR_API_OTHER;
    case SEGMENT_COUNT_TOKENS:
        return before == SEGMENT_MESSAGES ? WEIR_API_ANTHROPIC_COUNT : WEIR_API_OTHER;
    case SEGMENT_RESPONSES:
        return prefixed ? WEIR_API_OPENAI_RESPONSES : WEIR_API_OTHER;
    case SEGMENT_EMBEDDINGS:
        return prefixed ? WEIR_API_OPENAI_EMBEDDINGS : WEIR_API_OTHER;
    case SEGMENT_MESSAGES:
        return prefixed ? WEIR_API_ANTHROPIC_MESSAGES : WEIR_API_OTHER;
    case SEGMENT_MODELS:
        return prefixed ? WEIR_API_MODELS : WEIR_API_OTHER;
    case SEGMENT_OTHER:
    case SEGMENT_VERSION:
    case SEGMENT_CHAT:
        break;
    }
    if (before == SEGMENT_MODELS && segments_prefixed(&s, 2))
        return WEIR_API_MODELS;
    return WEIR_API_OTHER;
}

enum weir_dialect weir_api_dialect(enum weir_api api)
{
    return api == WEIR_API_ANTHROPIC_MESSAGES || api == WEIR_API_ANTHROPIC_COUNT
               ? WEIR_DIALECT_ANTHROPIC
               : WEIR_DIALECT_OPENAI;
}

const char *weir_api_name(enum weir_api api)
{
    switch (api) {
    case WEIR_API_OPENAI_CHAT:
        return "openai-chat";
    case WEIR_API_OPENAI_COMPLETIONS:
        return "openai-completions";
    case WEIR_API_OPENAI_RESPONSES:
        return "openai-responses";
    case WEIR_API_OPENAI_EMBEDDINGS:
        return "openai-embeddings";
    case WEIR_API_ANTHROPIC_MESSAGES:
        return "anthropic-messages";
    case WEIR_API_ANTHROPIC_COUNT:
        return "anthropic-count";
    case WEIR_API_MODELS:
        return "models";
    case WEIR_API_OTHER:
        return "other";
    }
    return "other";
}

bool weir_api_is_metered(enum weir_api api)
{
    return api <= WEIR_API_ANTHROPIC_MESSAGES;
}

size_t weir_path_join(const char *base, size_t base_bytes, const char *path, size_t path_bytes,
                      char *out, size_t out_cap)
{
    while (base_bytes > 0 && base[base_bytes - 1] == '/')
        base_bytes--;
    /* The longest tail of base, from a '/', that path begins with as whole segments. */
    size_t overlap = 0;
    for (size_t at = 0; at < base_bytes; at++) {
        size_t tail = base_bytes - at;
        if (base[at] != '/' || tail > path_bytes || memcmp(base + at, path, tail) != 0)
            continue;
        if (tail == path_bytes || path[tail] == '/' || path[tail] == '?') {
            overlap = tail;
            break;
        }
    }
    size_t kept = base_bytes - overlap;
    if (path_bytes == 0 && kept == 0)
        path = "/", path_bytes = 1;
    if (path_bytes > out_cap || kept > out_cap - path_bytes)
        return 0;
    memcpy(out, base, kept);
    memcpy(out + kept, path, path_bytes);
    return kept + path_bytes;
}
