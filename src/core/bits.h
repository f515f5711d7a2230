/* bits: a set of small numbers that finds its next member at or after a given one quickly.
 *
 * A tree of 64-bit words: the lowest level has one bit a number, each level above one bit a word
 * below that is not zero. A million numbers are four levels and 130 KB, which stays in a core's
 * cache. The host gives the words; all-zero words are the empty set and are not touched at init.
 * Thread: of its owner. Cost of a call: at most twice the levels. */
#ifndef WEIR_CORE_BITS_H
#define WEIR_CORE_BITS_H

#include <stdint.h>

#include "core/base.h"

#define WEIR_BITS_LEVELS_MAX 6u /* 64^6 is more than 2^32 */

struct weir_bits {
    uint64_t *level[WEIR_BITS_LEVELS_MAX]; /* lowest first */
    uint32_t levels;
    uint32_t numbers_max;
};

/* The words that a set of 0 .. numbers_max - 1 needs. */
size_t weir_bits_words(uint32_t numbers_max);

/* words has weir_bits_words(numbers_max) elements, zero at first, and stays the host's. */
void weir_bits_init(struct weir_bits *b, uint64_t *words, uint32_t numbers_max);

/* Adds or drops a number; doing so twice is the same as once. */
void weir_bits_set(struct weir_bits *b, uint32_t number);
void weir_bits_clear(struct weir_bits *b, uint32_t number);

/* The smallest member that is at least `from`; WEIR_NONE when there is none. */
uint32_t weir_bits_next(const struct weir_bits *b, uint32_t from);

static inline bool weir_bits_has(const struct weir_bits *b, uint32_t number)
{
    WEIR_INVARIANT(number < b->numbers_max);
    return b->level[0][number / 64] >> (number % 64) & 1;
}

#endif
