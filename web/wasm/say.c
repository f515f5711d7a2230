#include "say.h"

#include "gateway/config_load.h"

#include <stdlib.h>
#include <string.h>

static void say_bytes(struct say *say, const char *bytes, size_t count)
{
    if (say->room - say->bytes <= count) {
        say->room = 2 * (say->room + count) + 4096;
        say->text = weir_config_must(realloc(say->text, say->room));
    }
    memcpy(say->text + say->bytes, bytes, count);
    say->bytes += count;
    say->text[say->bytes] = '\0';
}

void say_start(struct say *say)
{
    say->bytes = 0;
    say_bytes(say, "", 0);
}

void say_raw(struct say *say, const char *text)
{
    say_bytes(say, text, strlen(text));
}

void say_string(struct say *say, const char *text)
{
    say_raw(say, "\"");
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        char escaped[] = {'\\', 'u', '0', '0', "01"[c >> 4 & 1], "0123456789abcdef"[c & 15], '\0'};
        if (c < ' ') {
            say_raw(say, escaped);
            continue;
        }
        if (c == '"' || c == '\\')
            say_raw(say, "\\");
        say_bytes(say, text, 1);
    }
    say_raw(say, "\"");
}

void say_u64(struct say *say, uint64_t number)
{
    char digits[20];
    size_t at = sizeof digits;
    do
        digits[--at] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    say_bytes(say, digits + at, sizeof digits - at);
}

void say_i64(struct say *say, int64_t number)
{
    if (number < 0)
        say_raw(say, "-");
    say_u64(say, number < 0 ? -(uint64_t)number : (uint64_t)number);
}

void say_bool(struct say *say, bool answer)
{
    say_raw(say, answer ? "true" : "false");
}

static void say_comma(struct say *say)
{
    if (say->bytes > 0 && !strchr("[{:,", say->text[say->bytes - 1]))
        say_raw(say, ",");
}

void say_open(struct say *say, const char *bracket)
{
    say_comma(say);
    say_raw(say, bracket);
}

void say_close(struct say *say, const char *bracket)
{
    say_raw(say, bracket);
}

void say_key(struct say *say, const char *key)
{
    say_comma(say);
    if (!key)
        return;
    say_string(say, key);
    say_raw(say, ":");
}

void say_pair(struct say *say, const char *key, const char *text)
{
    say_key(say, key);
    say_string(say, text);
}

void say_count(struct say *say, const char *key, uint64_t number)
{
    say_key(say, key);
    say_u64(say, number);
}
