/* fuzz: what the wire targets share: exact-size copies, and a stop that says why.
 *
 * A target's input is its file; how it is split comes from a hash of it, so that an input replays.
 */
#ifndef WEIR_TESTS_WIRE_FUZZ_H
#define WEIR_TESTS_WIRE_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static inline _Noreturn void fuzz_stop(const char *why)
{
    fprintf(stderr, "fuzz: %s\n", why);
    abort();
}

#define FUZZ_CHECK(c, why)                                                                         \
    do {                                                                                           \
        if (!(c))                                                                                  \
            fuzz_stop(why);                                                                        \
    } while (0)

/* A block of exactly n bytes, so that a read beyond it is seen. */
static inline uint8_t *fuzz_copy(const uint8_t *data, size_t n)
{
    uint8_t *copy = malloc(n ? n : 1);
    FUZZ_CHECK(copy, "no memory");
    if (n)
        memcpy(copy, data, n);
    return copy;
}

/* A point to split an input of n bytes at. */
static inline size_t fuzz_split(const uint8_t *data, size_t n)
{
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ data[i]) * 1099511628211u;
    return n ? (size_t)(hash >> 20) % n : 0;
}

#endif
