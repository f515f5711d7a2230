/* check: cmocka with messages in decimal, and the row of a table in them.
 *
 * Test names read as a claim: bucket__full_and_cost_is_capacity__admits.
 * Programs print TAP (Meson sets CMOCKA_MESSAGE_OUTPUT), so each case is counted. */
#ifndef WEIR_TESTS_CHECK_H
#define WEIR_TESTS_CHECK_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define CHECK(c)                                                                                   \
    do {                                                                                           \
        if (!(c))                                                                                  \
            fail_msg("%s:%d: not so: %s", __FILE__, __LINE__, #c);                                 \
    } while (0)

/* A note may be cut short: it is for people. (A function, so that no compiler warns that it may be.) */
__attribute__((format(printf, 2, 3))) static inline void check_write_note(char note[512],
                                                                          const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(note, 512, format, arguments);
    va_end(arguments);
}

/* As CHECK, with a printf-like note: the seed, the table row, the command that replays it. */
#define CHECK_MSG(c, ...)                                                                          \
    do {                                                                                           \
        if (!(c)) {                                                                                \
            char check_note[512];                                                                  \
            check_write_note(check_note, __VA_ARGS__);                                             \
            fail_msg("%s:%d: not so: %s (%s)", __FILE__, __LINE__, #c, check_note);                \
        }                                                                                          \
    } while (0)

#define CHECK_INT(got, want)                                                                       \
    do {                                                                                           \
        long long check_got = (long long)(got), check_want = (long long)(want);                    \
        if (check_got != check_want)                                                               \
            fail_msg("%s:%d: %s is %lld, want %lld", __FILE__, __LINE__, #got, check_got,          \
                     check_want);                                                                  \
    } while (0)

#define CHECK_STR(got, want)                                                                       \
    do {                                                                                           \
        const char *check_got = (got), *check_want = (want);                                       \
        if (strcmp(check_got, check_want) != 0)                                                    \
            fail_msg("%s:%d: %s is \"%s\", want \"%s\"", __FILE__, __LINE__, #got, check_got,      \
                     check_want);                                                                  \
    } while (0)

#define CHECK_MEM(got, got_bytes, want, want_bytes)                                                \
    do {                                                                                           \
        CHECK_INT(got_bytes, want_bytes);                                                          \
        if (memcmp((got), (want), (size_t)(want_bytes)) != 0)                                      \
            fail_msg("%s:%d: %s differs from %s", __FILE__, __LINE__, #got, #want);                \
    } while (0)

#endif
