/* slice: some bytes that somebody else owns.
 *
 * A slice is a pointer and a length, never terminated by NUL. It is valid as long as the bytes it
 * points to stay where they are; a function that returns one says whose they are. Thread: any. */
#ifndef WEIR_NET_SLICE_H
#define WEIR_NET_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct weir_slice {
    const char *at;
    size_t bytes;
};

/* A slice of a string literal, without its NUL. */
#define WEIR_SLICE(literal) ((struct weir_slice){"" literal, sizeof(literal) - 1})

static inline struct weir_slice weir_slice_of(const char *text)
{
    return (struct weir_slice){text, strlen(text)};
}

static inline bool weir_slice_equal(struct weir_slice a, struct weir_slice b)
{
    return a.bytes == b.bytes && (a.bytes == 0 || memcmp(a.at, b.at, a.bytes) == 0);
}

/* As weir_slice_equal, with ASCII letters compared without their case; no locale is asked. */
static inline bool weir_slice_equal_caseless(struct weir_slice a, struct weir_slice b)
{
    if (a.bytes != b.bytes)
        return false;
    for (size_t i = 0; i < a.bytes; i++) {
        unsigned char x = (unsigned char)a.at[i], y = (unsigned char)b.at[i];
        x = (unsigned char)(x - 'A' < 26u ? x | 0x20 : x);
        y = (unsigned char)(y - 'A' < 26u ? y | 0x20 : y);
        if (x != y)
            return false;
    }
    return true;
}

#endif
