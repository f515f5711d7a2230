/* http1_bytes: which bytes may stand where in an HTTP/1.1 message. Private to the http1 modules.
 *
 * One table holds a bit per class and byte; runs of a header value, the long part of a head, are
 * searched sixteen bytes at a time where the machine has SSE2. Nothing reads beyond `end`. */
#ifndef WEIR_NET_HTTP1_BYTES_H
#define WEIR_NET_HTTP1_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum {
    HTTP1_TOKEN = 1, /* RFC 9110 5.6.2 tchar */
    HTTP1_TARGET =
        2,          /* visible ASCII but for " < > \ and #: what no careful client sends as it is */
    HTTP1_HOST = 4, /* RFC 3986 3.2: reg-name, IP literal, port; no user information */
    HTTP1_VALUE = 8,  /* HTAB, 0x20..0x7e, 0x80..0xff */
    HTTP1_SPACE = 16, /* HTAB, SP */
};

extern const uint8_t weir_http1_class[256];

static inline int http1_is(char byte, int class_bits)
{
    return weir_http1_class[(unsigned char)byte] & class_bits;
}

/* The first byte from p on that is not of the class, or end. */
static inline const char *http1_skip(const char *p, const char *end, int class_bits)
{
    while (p < end && http1_is(*p, class_bits))
        p++;
    return p;
}

/* As http1_skip where a byte that is not of the class is known to come: the CR of a line, in a head
 * whose end is known. */
static inline const char *http1_skip_line(const char *p, int class_bits)
{
    while (http1_is(*p, class_bits))
        p++;
    return p;
}

/* As http1_skip_line with HTTP1_TOKEN, faster for the usual names of letters, digits and '-'. */
static inline const char *http1_skip_name(const char *p, const char *end)
{
#ifdef __SSE2__
    const __m128i letters = _mm_set1_epi8('z' - 'a'), digits = _mm_set1_epi8(9);
    for (; end - p >= 16; p += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)p);
        __m128i lower = _mm_or_si128(bytes, _mm_set1_epi8(0x20));
        __m128i letter = _mm_sub_epi8(lower, _mm_set1_epi8('a')); /* 0 .. 25 for letters */
        __m128i digit = _mm_sub_epi8(bytes, _mm_set1_epi8('0'));
        __m128i usual = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('-'));
        usual = _mm_or_si128(usual, _mm_cmpeq_epi8(_mm_min_epu8(letter, letters), letter));
        usual = _mm_or_si128(usual, _mm_cmpeq_epi8(_mm_min_epu8(digit, digits), digit));
        unsigned stops = (unsigned)_mm_movemask_epi8(usual) ^ 0xffff;
        if (stops) {
            p += __builtin_ctz(stops);
            break;
        }
    }
#else
    (void)end;
#endif
    return http1_skip_line(p, HTTP1_TOKEN);
}

/* As http1_skip_line with HTTP1_TARGET, faster. */
static inline const char *http1_skip_target(const char *p, const char *end)
{
#ifdef __SSE2__
    for (; end - p >= 16; p += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)p);
        /* Signed, so that bytes from 0x80 on are below as well. */
        __m128i stop = _mm_cmplt_epi8(bytes, _mm_set1_epi8(0x21));
        stop = _mm_or_si128(stop, _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x7f)));
        stop = _mm_or_si128(stop, _mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')));
        stop = _mm_or_si128(stop, _mm_cmpeq_epi8(bytes, _mm_set1_epi8('#')));
        stop = _mm_or_si128(stop, _mm_cmpeq_epi8(bytes, _mm_set1_epi8('<')));
        stop = _mm_or_si128(stop, _mm_cmpeq_epi8(bytes, _mm_set1_epi8('>')));
        stop = _mm_or_si128(stop, _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')));
        unsigned stops = (unsigned)_mm_movemask_epi8(stop);
        if (stops)
            return p + __builtin_ctz(stops);
    }
#else
    (void)end;
#endif
    return http1_skip_line(p, HTTP1_TARGET);
}

/* As http1_skip with HTTP1_VALUE, faster. */
static inline const char *http1_skip_value(const char *p, const char *end)
{
#ifdef __SSE2__
    const __m128i control_max = _mm_set1_epi8(0x1f), tab = _mm_set1_epi8('\t');
    const __m128i del = _mm_set1_epi8(0x7f);
    for (; end - p >= 16; p += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)p);
        __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, control_max), bytes);
        control = _mm_andnot_si128(_mm_cmpeq_epi8(bytes, tab), control);
        int hits = _mm_movemask_epi8(_mm_or_si128(control, _mm_cmpeq_epi8(bytes, del)));
        if (hits)
            return p + __builtin_ctz((unsigned)hits);
    }
#endif
    return http1_skip(p, end, HTTP1_VALUE);
}

#endif
