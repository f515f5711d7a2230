#include "support/tape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base.h"
#include "core/rng.h"
#include "support/check.h"

#define SHRINK_RUNS_MAX 20000

uint64_t tape_below(struct tape *t, uint64_t bound)
{
    uint64_t value = 0;
    for (uint64_t reach = bound - 1; reach != 0; reach >>= 8) {
        uint8_t byte = t->at < t->bytes_count ? t->bytes[t->at] : 0;
        t->at++;
        value = value << 8 | byte;
    }
    return value % bound;
}

uint64_t tape_between(struct tape *t, uint64_t low, uint64_t high)
{
    return low + tape_below(t, high - low + 1);
}

bool tape_chance(struct tape *t, unsigned n, unsigned d)
{
    return tape_below(t, d) >= d - n;
}

bool tape_more(const struct tape *t)
{
    return t->at < t->bytes_count;
}

void *tape_alloc(struct tape *t, size_t bytes)
{
    if (t->allocs_count == TAPE_ALLOCS_MAX)
        tape_fail(t, "more than %d allocations", TAPE_ALLOCS_MAX);
    void *mem = calloc(1, bytes ? bytes : 1);
    if (!mem)
        tape_fail(t, "out of memory");
    t->allocs[t->allocs_count++] = mem;
    return mem;
}

void tape_fail(struct tape *t, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(t->failure, sizeof t->failure, format, arguments);
    va_end(arguments);
    if (t->note && length > 0 && (size_t)length < sizeof t->failure)
        snprintf(t->failure + length, sizeof t->failure - (size_t)length, " [%s]", t->note);
    longjmp(t->out, 1);
}

static struct tape *running;

static void panic_fails_property(const char *expression, const char *file, int line)
{
    tape_fail(running, "%s:%d: panic: %s", file, line, expression);
}

/* Whether the property holds on these bytes; if not, why is in failure. */
static bool holds(tape_property *property, const uint8_t *bytes, size_t bytes_count,
                  char failure[static 512])
{
    static struct tape t;
    weir_panic_fn *hook_before = weir_panic_hook;
    memset(&t, 0, sizeof t);
    t.bytes = bytes;
    t.bytes_count = bytes_count;
    running = &t;
    weir_panic_hook = panic_fails_property;
    bool failed = setjmp(t.out) != 0;
    if (!failed)
        property(&t);
    weir_panic_hook = hook_before;
    for (size_t i = 0; i < t.allocs_count; i++)
        free(t.allocs[i]);
    if (failed)
        memcpy(failure, t.failure, sizeof t.failure);
    return !failed;
}

struct shrink {
    tape_property *property;
    uint8_t *bytes; /* the smallest failing tape so far */
    uint8_t *trial;
    size_t bytes_count;
    unsigned runs;
    char failure[512];
};

/* Keeps the trial if it fails too. */
static bool shrink_try(struct shrink *s, size_t bytes_count)
{
    if (s->runs >= SHRINK_RUNS_MAX)
        return false;
    s->runs++;
    if (holds(s->property, s->trial, bytes_count, s->failure))
        return false;
    memcpy(s->bytes, s->trial, bytes_count);
    s->bytes_count = bytes_count;
    return true;
}

static bool shrink_cut(struct shrink *s)
{
    bool smaller = false;
    for (size_t cut = s->bytes_count / 2; cut > 0; cut /= 2)
        for (size_t at = 0; at + cut <= s->bytes_count;) {
            memcpy(s->trial, s->bytes, at);
            memcpy(s->trial + at, s->bytes + at + cut, s->bytes_count - at - cut);
            if (shrink_try(s, s->bytes_count - cut))
                smaller = true;
            else
                at += cut;
        }
    return smaller;
}

static bool shrink_lower(struct shrink *s)
{
    bool smaller = false;
    for (size_t at = 0; at < s->bytes_count; at++)
        for (unsigned how = 0; how < 3 && s->bytes[at] != 0;) {
            memcpy(s->trial, s->bytes, s->bytes_count);
            uint8_t byte = s->bytes[at];
            s->trial[at] = (uint8_t)(how == 0 ? 0 : how == 1 ? byte / 2 : byte - 1);
            if (shrink_try(s, s->bytes_count))
                smaller = true;
            else
                how++;
        }
    return smaller;
}

static void report(const char *name, uint64_t seed, const struct shrink *s)
{
    fprintf(stderr, "property %s fails: %s\nseed %llu; replay: WEIR_PROPERTY=%s WEIR_TAPE=", name,
            s->failure, (unsigned long long)seed, name);
    for (size_t i = 0; i < s->bytes_count; i++)
        fprintf(stderr, "%02x", s->bytes[i]);
    fprintf(stderr, " (this program)\n");
}

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 0) : otherwise;
}

static void check_given(const char *name, tape_property *property, const char *hex)
{
    static uint8_t bytes[1 << 16];
    size_t count = 0;
    unsigned byte;
    while (count < sizeof bytes && sscanf(hex + 2 * count, "%2x", &byte) == 1)
        bytes[count++] = (uint8_t)byte;
    struct shrink s = {.bytes = bytes, .bytes_count = count};
    if (holds(property, bytes, count, s.failure))
        return;
    report(name, 0, &s);
    fail_msg("property %s: %s", name, s.failure);
}

void tape_check(const char *name, tape_property *property, unsigned cases, size_t bytes_max)
{
    const char *hex = getenv("WEIR_TAPE"), *only = getenv("WEIR_PROPERTY");
    if (only && strcmp(only, name) != 0)
        return;
    if (hex) {
        check_given(name, property, hex);
        return;
    }
    uint64_t seed = setting("WEIR_SEED", 1);
    uint64_t runs = cases * setting("WEIR_CASES", 1);
    struct shrink s = {.property = property};
    s.bytes = malloc(bytes_max);
    s.trial = malloc(bytes_max);
    assert_non_null(s.bytes);
    assert_non_null(s.trial);
    bool failed = false;
    for (uint64_t run = 0; run < runs && !failed; run++) {
        struct weir_rng rng;
        weir_rng_seed(&rng, seed, run);
        s.bytes_count = 1 + (size_t)weir_rng_below(&rng, bytes_max);
        for (size_t i = 0; i < s.bytes_count; i++)
            s.bytes[i] = (uint8_t)weir_rng_u32(&rng);
        if (holds(property, s.bytes, s.bytes_count, s.failure))
            continue;
        while (setting("WEIR_SHRINK", 1) && (shrink_cut(&s) || shrink_lower(&s)))
            continue;
        report(name, seed, &s);
        failed = true;
    }
    free(s.bytes);
    free(s.trial);
    if (failed)
        fail_msg("property %s: %s", name, s.failure);
}

int tape_fuzz(tape_property *property, const uint8_t *data, size_t size)
{
    char failure[512];
    if (!holds(property, data, size, failure)) {
        fprintf(stderr, "property fails: %s\n", failure);
        abort();
    }
    return 0;
}
