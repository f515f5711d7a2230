/* classes: counts byte classes of text while a scanner passes over it.
 *
 * The scanner hands over runs of plain ASCII (no quote, backslash or control byte) of 1..16 bytes
 * and single characters of every other kind. Runs are counted in vector lanes with SSE2: a counter
 * per lane, folded into the totals before a lane can overflow. The portable form gives the same
 * numbers, so a test can compare the two. Thread: any. */
#ifndef WEIR_WIRE_CLASSES_H
#define WEIR_WIRE_CLASSES_H

#include <string.h>

#include "core/base.h"
#include "core/shape.h"
#include "wire/scan.h"

/* A character by its code point: from an escape, or of more than one byte. */
static inline void weir_classes_char(struct weir_text_classes *c, uint32_t cp, bool *in_word)
{
    if (cp < 0x80) {
        uint32_t lower = cp | 0x20;
        bool letter = lower >= 'a' && lower <= 'z';
        if (letter) {
            c->letters++;
            c->words += !*in_word;
        } else if (cp >= '0' && cp <= '9') {
            c->digits++;
        } else if (cp == ' ' || cp == '\t' || cp == '\n' || cp == '\r') {
            c->space++;
        } else {
            c->punct++;
        }
        *in_word = letter;
        c->text_bytes += 1;
        return;
    }
    *in_word = false;
    if (cp < 0x800) {
        if (cp >= 0x400 && cp <= 0x52f)
            c->cyrillic++;
        else if (cp >= 0x370 && cp <= 0x3ff)
            c->greek++;
        else
            c->other2++;
        c->text_bytes += 2;
    } else if (cp < 0x10000) {
        if (cp >= 0x3000 && cp <= 0xd7ff)
            c->cjk++;
        else
            c->other3++;
        c->text_bytes += 3;
    } else {
        c->wide4++;
        c->text_bytes += 4;
    }
}

static inline bool weir_classes_is_mixable(uint8_t b)
{
    uint8_t lower = b | 0x20;
    return (lower >= 'a' && lower <= 'z') || (b >= '0' && b <= '9') || b == '+' || b == '/' ||
           b == '=' || b == '_' || b == '-';
}

#if WEIR_WIRE_SSE2

struct weir_classes_lanes {
    __m128i letters, words, digits, space;
    __m128i carry; /* byte 0 set: the byte before was a letter */
    uint32_t blocks;
    uint32_t run_bytes; /* bytes counted in lanes since the last fold */
};

static inline void weir_classes_begin(struct weir_classes_lanes *l)
{
    l->letters = l->words = l->digits = l->space = l->carry = _mm_setzero_si128();
    l->blocks = 0;
    l->run_bytes = 0;
}

static inline uint32_t weir_classes_sum(__m128i lanes)
{
    __m128i sums = _mm_sad_epu8(lanes, _mm_setzero_si128());
    return (uint32_t)_mm_cvtsi128_si32(sums) + (uint32_t)_mm_cvtsi128_si32(_mm_srli_si128(sums, 8));
}

static inline void weir_classes_fold(struct weir_classes_lanes *l, struct weir_text_classes *c)
{
    if (l->run_bytes == 0)
        return;
    uint32_t letters = weir_classes_sum(l->letters), digits = weir_classes_sum(l->digits);
    uint32_t space = weir_classes_sum(l->space);
    c->letters += letters;
    c->digits += digits;
    c->space += space;
    c->words += weir_classes_sum(l->words);
    c->punct += l->run_bytes - letters - digits - space;
    c->text_bytes += l->run_bytes;
    __m128i carry = l->carry;
    weir_classes_begin(l);
    l->carry = carry;
}

static inline void weir_classes_break(struct weir_classes_lanes *l)
{
    l->carry = _mm_setzero_si128();
}

static inline bool weir_classes_in_word(const struct weir_classes_lanes *l)
{
    return _mm_cvtsi128_si32(l->carry) & 1;
}

static inline void weir_classes_set_word(struct weir_classes_lanes *l, bool in_word)
{
    l->carry = _mm_cvtsi32_si128(in_word ? 0xff : 0);
}

/* A block of 16 without a space: is it base64, hex or the like? */
static inline bool weir_classes_is_mixed(__m128i v, __m128i letter, __m128i digit)
{
    if (_mm_movemask_epi8(letter) == 0 || _mm_movemask_epi8(digit) == 0)
        return false;
    __m128i set = _mm_or_si128(letter, digit);
    set = _mm_or_si128(set, _mm_cmpeq_epi8(v, _mm_set1_epi8('+')));
    set = _mm_or_si128(set, _mm_cmpeq_epi8(v, _mm_set1_epi8('/')));
    set = _mm_or_si128(set, _mm_cmpeq_epi8(v, _mm_set1_epi8('=')));
    set = _mm_or_si128(set, _mm_cmpeq_epi8(v, _mm_set1_epi8('_')));
    set = _mm_or_si128(set, _mm_cmpeq_epi8(v, _mm_set1_epi8('-')));
    return _mm_movemask_epi8(set) == 0xffff;
}

/* Counts the first n (1..16) bytes of v, all plain ASCII. */
static inline void weir_classes_run(struct weir_classes_lanes *l, struct weir_text_classes *c,
                                    __m128i v, uint32_t n)
{
    static const uint8_t keep[32] = {255, 255, 255, 255, 255, 255, 255, 255,
                                     255, 255, 255, 255, 255, 255, 255, 255};
    if (n < 16) /* bytes that are not ours become NUL: neither letter, digit nor space */
        v = _mm_and_si128(v, _mm_loadu_si128((const __m128i *)(const void *)(keep + 16 - n)));
    __m128i lower = _mm_or_si128(v, _mm_set1_epi8(0x20));
    __m128i letter = _mm_and_si128(_mm_cmpgt_epi8(lower, _mm_set1_epi8('a' - 1)),
                                   _mm_cmplt_epi8(lower, _mm_set1_epi8('z' + 1)));
    __m128i digit = _mm_and_si128(_mm_cmpgt_epi8(v, _mm_set1_epi8('0' - 1)),
                                  _mm_cmplt_epi8(v, _mm_set1_epi8('9' + 1)));
    __m128i space = _mm_cmpeq_epi8(v, _mm_set1_epi8(' '));
    if (n == 16 && _mm_movemask_epi8(space) == 0 && weir_classes_is_mixed(v, letter, digit)) {
        c->mixed += 16;
        c->text_bytes += 16;
        l->carry = _mm_setzero_si128();
        return;
    }
    __m128i before = _mm_or_si128(_mm_slli_si128(letter, 1), l->carry);
    l->letters = _mm_sub_epi8(l->letters, letter);
    l->digits = _mm_sub_epi8(l->digits, digit);
    l->space = _mm_sub_epi8(l->space, space);
    l->words = _mm_sub_epi8(l->words, _mm_andnot_si128(before, letter));
    l->run_bytes += n;
    if (n == 16) {
        l->carry = _mm_srli_si128(letter, 15);
    } else {
        uint32_t mask = (uint32_t)_mm_movemask_epi8(letter);
        weir_classes_set_word(l, mask >> (n - 1) & 1);
    }
    if (++l->blocks == 255)
        weir_classes_fold(l, c);
}

#else

struct weir_classes_lanes {
    bool in_word;
};

static inline void weir_classes_begin(struct weir_classes_lanes *l)
{
    l->in_word = false;
}

static inline void weir_classes_fold(struct weir_classes_lanes *l, struct weir_text_classes *c)
{
    (void)l;
    (void)c;
}

static inline void weir_classes_break(struct weir_classes_lanes *l)
{
    l->in_word = false;
}

static inline bool weir_classes_in_word(const struct weir_classes_lanes *l)
{
    return l->in_word;
}

static inline void weir_classes_set_word(struct weir_classes_lanes *l, bool in_word)
{
    l->in_word = in_word;
}

static inline void weir_classes_run(struct weir_classes_lanes *l, struct weir_text_classes *c,
                                    const uint8_t *p, uint32_t n)
{
    bool mixed = n == 16, letter = false, digit = false;
    for (uint32_t i = 0; mixed && i < n; i++) {
        mixed = weir_classes_is_mixable(p[i]);
        letter |= (p[i] | 0x20) >= 'a' && (p[i] | 0x20) <= 'z';
        digit |= p[i] >= '0' && p[i] <= '9';
    }
    if (mixed && letter && digit) {
        c->mixed += 16;
        c->text_bytes += 16;
        l->in_word = false;
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        weir_classes_char(c, p[i], &l->in_word);
}

#endif

#endif
