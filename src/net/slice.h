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

/* Lower case of an ASCII letter; every other byte as it is. No locale is asked. */
static inline unsigned char weir_ascii_lower(char byte)
{
    return (unsigned char)(byte >= 'A' && byte <= 'Z' ? byte | 0x20 : byte);
}

/* As weir_slice_equal, with ASCII letters compared without their case. */
static inline bool weir_slice_equal_caseless(struct weir_slice a, struct weir_slice b)
{
    if (a.bytes != b.bytes)
        return false;
    for (size_t i = 0; i < a.bytes; i++) {
        if (weir_ascii_lower(a.at[i]) != weir_ascii_lower(b.at[i]))
            return false;
    }
    return true;
}

#endif
