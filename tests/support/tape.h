/* tape: properties checked on random choices, with the failing choices made small.
 *
 * A property is a function that draws its choices (how many, which, how much) from a tape of bytes
 * and checks what must hold. tape_check runs it on many random tapes; when one fails, bytes are cut
 * out and lowered as long as it still fails, and the smallest tape is printed with the command that
 * replays it. Past the end of a tape every choice is 0, so order a property's choices such that 0
 * is the plainest. The same property is a libFuzzer target through tape_fuzz.
 *
 * A panic of the code under test (a false WEIR_INVARIANT) fails the property like a false
 * TAPE_CHECK. Environment: WEIR_PROPERTY=name checks that property only; WEIR_TAPE=hex on that
 * tape only; WEIR_SEED=n chooses other random tapes; WEIR_CASES=n multiplies how many;
 * WEIR_SHRINK=0 leaves a failing tape as it was found. */
#ifndef WEIR_TESTS_TAPE_H
#define WEIR_TESTS_TAPE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TAPE_ALLOCS_MAX 64

struct tape {
    const uint8_t *bytes;
    size_t bytes_count;
    size_t at;
    jmp_buf out;
    char failure[512];
    const char
        *note; /* said with a failure, when set: what the property knows of how it came there */
    void *allocs[TAPE_ALLOCS_MAX];
    size_t allocs_count;
};

typedef void tape_property(struct tape *t);

/* Uniform enough in 0 .. bound - 1, from as many bytes as bound needs. bound is not 0. */
uint64_t tape_below(struct tape *t, uint64_t bound);

/* In low .. high, both included; low at the end of the tape. */
uint64_t tape_between(struct tape *t, uint64_t low, uint64_t high);

/* True in n of d cases; false at the end of the tape. */
bool tape_chance(struct tape *t, unsigned n, unsigned d);

/* Whether choices are left. */
bool tape_more(const struct tape *t);

/* Zero memory that lasts until the property returns, however it does. */
void *tape_alloc(struct tape *t, size_t bytes);

/* Ends the property as failed. */
_Noreturn void tape_fail(struct tape *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#define TAPE_CHECK(t, c)                                                                           \
    do {                                                                                           \
        if (!(c))                                                                                  \
            tape_fail((t), "%s:%d: not so: %s", __FILE__, __LINE__, #c);                           \
    } while (0)

#define TAPE_CHECK_MSG(t, c, ...)                                                                  \
    do {                                                                                           \
        if (!(c)) {                                                                                \
            char tape_note[256];                                                                   \
            snprintf(tape_note, sizeof tape_note, __VA_ARGS__);                                    \
            tape_fail((t), "%s:%d: not so: %s (%s)", __FILE__, __LINE__, #c, tape_note);           \
        }                                                                                          \
    } while (0)

/* Runs the property on `cases` random tapes of up to bytes_max bytes; fails the cmocka test when it
 * fails. */
void tape_check(const char *name, tape_property *property, unsigned cases, size_t bytes_max);

/* Runs the property on one tape; prints and aborts when it fails. Returns 0, as a fuzz target does.
 */
int tape_fuzz(tape_property *property, const uint8_t *data, size_t size);

#endif
