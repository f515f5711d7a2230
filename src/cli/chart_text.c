#include "cli/chart_inside.h"

#include "wire/utf8.h"

#include <string.h>

/* The character at *at as XML can carry it; moves *at past it. 0: the end. */
static uint32_t take_character(const char **at)
{
    const uint8_t *p = (const uint8_t *)*at;
    uint32_t cp = *p;
    if (cp < 0x80) {
        *at += cp != 0;
        return cp == 0 || (cp >= ' ' && cp != 0x7f) ? cp : cp == '\t' || cp == '\n' ? ' ' : 0xfffd;
    }
    uint32_t bytes = weir_utf8_take(p, p + strnlen((const char *)p, 4), &cp);
    *at += bytes ? bytes : 1;
    bool is_told = bytes && cp >= 0xa0 && cp != 0xfffe && cp != 0xffff;
    return is_told ? cp : 0xfffd;
}

static void put_character(FILE *out, uint32_t cp)
{
    uint8_t bytes[4];
    switch (cp) {
    case '<':
        fputs("&lt;", out);
        return;
    case '>':
        fputs("&gt;", out);
        return;
    case '&':
        fputs("&amp;", out);
        return;
    case '"':
        fputs("&quot;", out);
        return;
    default:
        fwrite(bytes, 1, weir_utf8_put(cp, bytes), out);
    }
}

size_t chart_characters(const char *text)
{
    size_t count = 0;
    while (take_character(&text))
        count++;
    return count;
}

void chart_put_text(FILE *out, const char *text, size_t max)
{
    bool is_long = chart_characters(text) > max;
    for (size_t i = 0; i < max - is_long; i++) {
        uint32_t cp = take_character(&text);
        if (!cp)
            return;
        put_character(out, cp);
    }
    if (is_long)
        put_character(out, 0x2026);
}

void chart_put_all(FILE *out, const char *text)
{
    chart_put_text(out, text, SIZE_MAX);
}

/* How wide a letter is in hundredths of its height, as in the widest of the usual fonts. */
static int letter_width(uint32_t cp)
{
    static const char slim[] = "iljft.,:;'|!()[] ", wide[] = "mwMW@%";
    if (cp > 0x2000)
        return 100;
    if (cp < 0x80 && strchr(slim, (int)cp))
        return 40;
    if (cp < 0x80 && strchr(wide, (int)cp))
        return 98;
    return cp >= 'A' && cp <= 'Z' ? 72 : 64;
}

/* Bytes of text that fit in the picture's width: up to a blank where there is one. */
static size_t line_bytes(const char *text, int em)
{
    const char *at = text;
    size_t blank = 0;
    int room = (WIDTH - 32) * 100;
    while (room > 0) {
        const char *before = at;
        uint32_t cp = take_character(&at);
        if (!cp)
            return (size_t)(at - text);
        if (cp == ' ')
            blank = (size_t)(before - text);
        room -= letter_width(cp) * em;
        if (room < 0 && before > text)
            return blank ? blank : (size_t)(before - text);
    }
    return blank ? blank : (size_t)(at - text);
}

void chart_put_wrapped(FILE *out, const char *text, const char *class, int em, int *y)
{
    while (*text) {
        size_t bytes = line_bytes(text, em);
        if (out) {
            fprintf(out, "<text class=\"%s\" x=\"%d\" y=\"%d\">", class, 16, *y);
            for (const char *at = text; at < text + bytes;)
                put_character(out, take_character(&at));
            fputs("</text>\n", out);
        }
        *y += LINE;
        text += bytes;
        while (*text == ' ')
            text++;
    }
}
