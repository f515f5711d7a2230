/* format: snprintf and its kin as far as the configuration's messages need them, without stdio: the
 * libc's would bring imports for files that a page has not.
 *
 *   %s %.*s %.Ns   %c   %d %u %zu %llu %lld with width, zeros and %*   %02x   %%
 *
 * Any other conversion traps: messages are tested natively, where the compiler checks them too. */
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base.h"

struct sink {
    char *out;
    size_t room;  /* with the NUL */
    size_t bytes; /* that there would be */
};

static void put(struct sink *sink, const char *text, size_t bytes)
{
    if (sink->bytes < sink->room) {
        size_t left = sink->room - sink->bytes;
        memcpy(sink->out + sink->bytes, text, bytes < left ? bytes : left);
    }
    sink->bytes += bytes;
}

static void put_many(struct sink *sink, char c, size_t count)
{
    while (count-- > 0)
        put(sink, &c, 1);
}

static void put_number(struct sink *sink, uint64_t number, bool is_negative, uint32_t base,
                       char fill, int width)
{
    char digits[24];
    size_t at = sizeof digits;
    do
        digits[--at] = "0123456789abcdef"[number % base];
    while ((number /= base) > 0);
    size_t bytes = sizeof digits - at + is_negative;
    size_t missing = width > 0 && (size_t)width > bytes ? (size_t)width - bytes : 0;
    if (fill == ' ')
        put_many(sink, ' ', missing);
    if (is_negative)
        put(sink, "-", 1);
    if (fill == '0')
        put_many(sink, '0', missing);
    put(sink, digits + at, sizeof digits - at);
}

/* One conversion behind its %; where it ends. */
static const char *put_one(struct sink *sink, const char *f, va_list *arguments)
{
    char fill = *f == '0' ? '0' : ' ';
    int width = 0, precision = -1, longs = 0;
    if (*f == '*') {
        width = va_arg(*arguments, int);
        f++;
    }
    for (; *f >= '0' && *f <= '9'; f++)
        width = width * 10 + (*f - '0');
    if (*f == '.') {
        f++;
        precision = *f == '*' ? va_arg(*arguments, int) : 0;
        f += *f == '*';
        for (; *f >= '0' && *f <= '9'; f++)
            precision = precision * 10 + (*f - '0');
    }
    bool is_size = *f == 'z';
    f += is_size;
    for (; *f == 'l'; f++)
        longs++;
    switch (*f) {
    case 's': {
        const char *text = va_arg(*arguments, const char *);
        size_t bytes = precision < 0 ? strlen(text) : strnlen(text, (size_t)precision);
        put_many(sink, ' ', width > 0 && (size_t)width > bytes ? (size_t)width - bytes : 0);
        put(sink, text, bytes);
        return f + 1;
    }
    case 'c':
        put_many(sink, (char)va_arg(*arguments, int), 1);
        return f + 1;
    case 'd': {
        int64_t number = longs == 2 ? va_arg(*arguments, int64_t) : va_arg(*arguments, int);
        uint64_t magnitude = number < 0 ? -(uint64_t)number : (uint64_t)number;
        put_number(sink, magnitude, number < 0, 10, fill, width);
        return f + 1;
    }
    case 'u':
    case 'x': {
        uint64_t number = longs == 2  ? va_arg(*arguments, uint64_t)
                          : is_size   ? va_arg(*arguments, size_t)
                          : longs > 0 ? va_arg(*arguments, unsigned long)
                                      : va_arg(*arguments, unsigned);
        put_number(sink, number, false, *f == 'x' ? 16 : 10, fill, width);
        return f + 1;
    }
    case '%':
        put(sink, "%", 1);
        return f + 1;
    default:
        weir_panic("a format that the page does not know", f, 0);
    }
}

int vsnprintf(char *restrict out, size_t room, const char *restrict format, va_list from)
{
    struct sink sink = {.out = out, .room = room};
    va_list arguments;
    va_copy(arguments, from);
    for (const char *f = format; *f;) {
        size_t plain = strcspn(f, "%");
        put(&sink, f, plain);
        f += plain;
        if (*f)
            f = put_one(&sink, f + 1, &arguments);
    }
    va_end(arguments);
    if (room > 0)
        out[sink.bytes < room ? sink.bytes : room - 1] = '\0';
    return sink.bytes > INT_MAX ? INT_MAX : (int)sink.bytes;
}

int snprintf(char *restrict out, size_t room, const char *restrict format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int bytes = vsnprintf(out, room, format, arguments);
    va_end(arguments);
    return bytes;
}

int vasprintf(char **out, const char *format, va_list arguments)
{
    int bytes = vsnprintf(NULL, 0, format, arguments);
    *out = malloc((size_t)bytes + 1);
    return *out ? vsnprintf(*out, (size_t)bytes + 1, format, arguments) : -1;
}
