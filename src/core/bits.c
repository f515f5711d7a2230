#include "core/bits.h"

#define BIT(n) (UINT64_C(1) << ((n) % 64))

static uint32_t words_for(uint32_t bits)
{
    return bits / 64 + (bits % 64 != 0);
}

size_t weir_bits_words(uint32_t numbers_max)
{
    size_t words = 0;
    uint32_t bits = numbers_max;
    do {
        bits = words_for(bits);
        words += bits;
    } while (bits > 1);
    return words;
}

void weir_bits_init(struct weir_bits *b, uint64_t *words, uint32_t numbers_max)
{
    b->numbers_max = numbers_max;
    b->levels = 0;
    uint32_t bits = numbers_max;
    do {
        WEIR_INVARIANT(b->levels < WEIR_BITS_LEVELS_MAX);
        bits = words_for(bits);
        b->level[b->levels++] = words;
        words += bits;
    } while (bits > 1);
}

void weir_bits_set(struct weir_bits *b, uint32_t number)
{
    WEIR_INVARIANT(number < b->numbers_max);
    for (uint32_t l = 0; l < b->levels; l++, number /= 64) {
        uint64_t *word = &b->level[l][number / 64];
        uint64_t before = *word;
        *word |= BIT(number);
        if (before != 0)
            return; /* the levels above know this word already */
    }
}

void weir_bits_clear(struct weir_bits *b, uint32_t number)
{
    WEIR_INVARIANT(number < b->numbers_max);
    for (uint32_t l = 0; l < b->levels; l++, number /= 64) {
        uint64_t *word = &b->level[l][number / 64];
        *word &= ~BIT(number);
        if (*word != 0)
            return;
    }
}

uint32_t weir_bits_next(const struct weir_bits *b, uint32_t from)
{
    /* Up until a word has a member at or after the place, then down along the first ones. */
    uint32_t bits = b->numbers_max;
    uint64_t place = from;
    for (uint32_t l = 0; l < b->levels; l++, bits = words_for(bits)) {
        if (place >= bits)
            return WEIR_NONE;
        uint64_t members = b->level[l][place / 64] & ~(BIT(place) - 1);
        if (members != 0) {
            uint64_t found = place / 64 * 64 + (uint64_t)__builtin_ctzll(members);
            while (l-- > 0)
                found = found * 64 + (uint64_t)__builtin_ctzll(b->level[l][found]);
            return (uint32_t)found;
        }
        place = place / 64 + 1;
    }
    return WEIR_NONE;
}
