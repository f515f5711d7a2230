/* text_out: appends to a fixed buffer and remembers whether everything fitted. */
#ifndef WEIR_WIRE_TEXT_OUT_H
#define WEIR_WIRE_TEXT_OUT_H

#include <string.h>

#include "core/base.h"
#include "wire/json.h"

struct weir_text_out {
    char *out;
    size_t cap;
    size_t bytes;
    bool full; /* something did not fit: the result is 0 */
};

static inline void weir_out_bytes(struct weir_text_out *o, const char *s, size_t n)
{
    if (o->full || n > o->cap - o->bytes) {
        o->full = true;
        return;
    }
    memcpy(o->out + o->bytes, s, n);
    o->bytes += n;
}

static inline void weir_out_text(struct weir_text_out *o, const char *s)
{
    weir_out_bytes(o, s, strlen(s));
}

static inline void weir_out_u64(struct weir_text_out *o, uint64_t v)
{
    char digits[20];
    size_t at = sizeof digits;
    do
        digits[--at] = (char)('0' + v % 10);
    while ((v /= 10) > 0);
    weir_out_bytes(o, digits + at, sizeof digits - at);
}

/* At least `width` digits, zeros in front. */
static inline void weir_out_padded(struct weir_text_out *o, uint64_t v, uint32_t width)
{
    uint64_t power = 1;
    for (uint32_t i = 1; i < width; i++)
        power *= 10;
    for (; power > v && power > 1; power /= 10)
        weir_out_text(o, "0");
    weir_out_u64(o, v);
}

/* A JSON string, or null for NULL. */
static inline void weir_out_quoted(struct weir_text_out *o, const char *s)
{
    if (!s) {
        weir_out_text(o, "null");
        return;
    }
    size_t n = o->full ? 0 : weir_json_quote(o->out + o->bytes, o->cap - o->bytes, s, strlen(s));
    o->full |= n == 0;
    o->bytes += n;
}

static inline size_t weir_out_result(const struct weir_text_out *o)
{
    return o->full ? 0 : o->bytes;
}

#endif
