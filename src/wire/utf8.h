/* utf8: one character at a time, strictly (no overlong forms, no surrogates, at most U+10FFFF). */
#ifndef WEIR_WIRE_UTF8_H
#define WEIR_WIRE_UTF8_H

#include "core/base.h"

/* The length of the character at p (whose first byte is >= 0x80), or 0 when it is not UTF-8 or ends
 * beyond end. *cp is set on success. */
static inline uint32_t weir_utf8_take(const uint8_t *p, const uint8_t *end, uint32_t *cp)
{
    uint32_t lead = p[0];
    size_t left = (size_t)(end - p);
    if (lead < 0xe0) {
        if (lead < 0xc2 || left < 2 || (p[1] & 0xc0) != 0x80)
            return 0;
        *cp = (lead & 0x1fu) << 6 | (p[1] & 0x3fu);
        return 2;
    }
    if (lead < 0xf0) {
        if (left < 3 || (p[1] & 0xc0) != 0x80 || (p[2] & 0xc0) != 0x80)
            return 0;
        uint32_t c = (lead & 0x0fu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
        if (c < 0x800 || (c >= 0xd800 && c <= 0xdfff))
            return 0;
        *cp = c;
        return 3;
    }
    if (lead > 0xf4 || left < 4 || (p[1] & 0xc0) != 0x80 || (p[2] & 0xc0) != 0x80 ||
        (p[3] & 0xc0) != 0x80)
        return 0;
    uint32_t c = (lead & 0x07u) << 18 | (p[1] & 0x3fu) << 12 | (p[2] & 0x3fu) << 6 | (p[3] & 0x3fu);
    if (c < 0x10000 || c > 0x10ffff)
        return 0;
    *cp = c;
    return 4;
}

/* Writes a character (a lone surrogate is the caller's business); room for 4 bytes. */
static inline uint32_t weir_utf8_put(uint32_t cp, uint8_t out[4])
{
    if (cp < 0x80) {
        out[0] = (uint8_t)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (uint8_t)(0xc0 | cp >> 6);
        out[1] = (uint8_t)(0x80 | (cp & 0x3f));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (uint8_t)(0xe0 | cp >> 12);
        out[1] = (uint8_t)(0x80 | (cp >> 6 & 0x3f));
        out[2] = (uint8_t)(0x80 | (cp & 0x3f));
        return 3;
    }
    out[0] = (uint8_t)(0xf0 | cp >> 18);
    out[1] = (uint8_t)(0x80 | (cp >> 12 & 0x3f));
    out[2] = (uint8_t)(0x80 | (cp >> 6 & 0x3f));
    out[3] = (uint8_t)(0x80 | (cp & 0x3f));
    return 4;
}

static inline uint32_t weir_utf8_bytes(uint32_t cp)
{
    return cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
}

#endif
