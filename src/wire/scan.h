/* scan: the next byte that matters, 16 bytes at a time with SSE2, else one by one.
 *
 * Each function returns where it is, or end. WEIR_JSON_PORTABLE forces the portable form. */
#ifndef WEIR_WIRE_SCAN_H
#define WEIR_WIRE_SCAN_H

#include "core/base.h"

#if defined(__SSE2__) && !defined(WEIR_JSON_PORTABLE)
#define WEIR_WIRE_SSE2 1
#include <emmintrin.h>
#else
#define WEIR_WIRE_SSE2 0
#endif

/* The first quote or backslash from p, or end. */
static inline const uint8_t *weir_scan_string(const uint8_t *p, const uint8_t *end)
{
#if WEIR_WIRE_SSE2
    const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\');
    for (; end - p >= 16; p += 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
        uint32_t mask = (uint32_t)_mm_movemask_epi8(
            _mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, slash)));
        if (mask)
            return p + __builtin_ctz(mask);
    }
#endif
    while (p < end && *p != '"' && *p != '\\')
        p++;
    return p;
}

/* The first quote or bracket from p, or end. */
static inline const uint8_t *weir_scan_nested(const uint8_t *p, const uint8_t *end)
{
#if WEIR_WIRE_SSE2
    const __m128i quote = _mm_set1_epi8('"'), bit = _mm_set1_epi8(0x20);
    const __m128i open = _mm_set1_epi8('{'), close = _mm_set1_epi8('}');
    for (; end - p >= 16; p += 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
        __m128i w = _mm_or_si128(v, bit); /* [ and ] become { and } */
        __m128i stop = _mm_or_si128(_mm_cmpeq_epi8(w, open), _mm_cmpeq_epi8(w, close));
        uint32_t mask = (uint32_t)_mm_movemask_epi8(_mm_or_si128(stop, _mm_cmpeq_epi8(v, quote)));
        if (mask)
            return p + __builtin_ctz(mask);
    }
#endif
    while (p < end && *p != '"' && (*p | 0x20) != '{' && (*p | 0x20) != '}')
        p++;
    return p;
}

/* The first CR or LF from p, or end. */
static inline const uint8_t *weir_scan_line(const uint8_t *p, const uint8_t *end)
{
#if WEIR_WIRE_SSE2
    const __m128i lf = _mm_set1_epi8('\n'), cr = _mm_set1_epi8('\r');
    for (; end - p >= 16; p += 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
        uint32_t mask =
            (uint32_t)_mm_movemask_epi8(_mm_or_si128(_mm_cmpeq_epi8(v, lf), _mm_cmpeq_epi8(v, cr)));
        if (mask)
            return p + __builtin_ctz(mask);
    }
#endif
    while (p < end && *p != '\n' && *p != '\r')
        p++;
    return p;
}

#endif
