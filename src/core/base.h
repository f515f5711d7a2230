/* base: the few words every room shares.
 *
 * Assertions (three kinds, never on input):
 *   WEIR_INVARIANT(c)   a fact about our own code; always compiled in; a false one panics.
 *   WEIR_CHECK_SLOW(c)  an O(n) audit; compiled in only with -DWEIR_SLOW_CHECKS (tests, lab).
 *   WEIR_SOMETIMES(c)   both answers are legal; test runs list those never seen both ways.
 *
 * The core prints nothing and stops nothing itself: a panic goes through weir_panic_hook, which the
 * host sets once at start. Thread: any. */
#ifndef WEIR_CORE_BASE_H
#define WEIR_CORE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR_MUST_USE __attribute__((warn_unused_result))
#define WEIR_COUNT(a) (sizeof(a) / sizeof((a)[0]))

#define WEIR_NS_PER_US UINT64_C(1000)
#define WEIR_NS_PER_MS UINT64_C(1000000)
#define WEIR_NS_PER_S UINT64_C(1000000000)
#define WEIR_NEVER_NS UINT64_MAX /* a time that does not come */
#define WEIR_NONE UINT32_MAX     /* no index */

/* Amounts of the ledger, in whole tokens: exact in readers that use doubles. */
#define WEIR_TOK_MAX (INT64_C(1) << 52)
#define WEIR_BALANCE_MAX (INT64_C(1) << 53)

/* What a panic calls: prints what it likes and must not return. Without a hook the process traps.
 */
typedef void weir_panic_fn(const char *expression, const char *file, int line);
extern weir_panic_fn *weir_panic_hook;

_Noreturn void weir_panic(const char *expression, const char *file, int line);

/* In the lab page's module each of these words would be sent to every browser: there a false one only
 * traps, and the browser says where. */
#ifdef WEIR_TRAP_ON_PANIC
#define WEIR_INVARIANT(c)                                                                          \
    do {                                                                                           \
        if (__builtin_expect(!(c), 0))                                                             \
            __builtin_trap();                                                                      \
    } while (0)
#else
#define WEIR_INVARIANT(c)                                                                          \
    do {                                                                                           \
        if (__builtin_expect(!(c), 0))                                                             \
            weir_panic(#c, __FILE__, __LINE__);                                                    \
    } while (0)
#endif

#ifdef WEIR_SLOW_CHECKS
#define WEIR_CHECK_SLOW(c) WEIR_INVARIANT(c)
#else
#define WEIR_CHECK_SLOW(c) ((void)0)
#endif

#ifdef WEIR_SOMETIMES_ON
void weir_sometimes(bool answer, const char *expression, const char *file, int line);
#define WEIR_SOMETIMES(c) weir_sometimes((c), #c, __FILE__, __LINE__)
#else
#define WEIR_SOMETIMES(c) ((void)0)
#endif

static inline uint64_t weir_min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t weir_max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static inline int64_t weir_min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t weir_max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* a + b, or UINT64_MAX where the sum would wrap: for deadlines, where "very late" is "never". */
static inline uint64_t weir_add_sat_u64(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

#endif
