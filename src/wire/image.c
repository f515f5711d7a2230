#include "wire/image.h"

#include <string.h>

#define JPEG_SEGMENTS_MAX 64

static int base64_value(uint8_t c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+' || c == '-')
        return 62;
    if (c == '/' || c == '_')
        return 63;
    return -1;
}

/* Decodes n bytes from byte offset `from` of the decoded image. False beyond its end, or where the
 * text is not base64. */
static bool base64_read(const uint8_t *base64, size_t chars, size_t from, uint8_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t byte = from + i, at = byte / 3 * 4 + byte % 3;
        if (at + 1 >= chars)
            return false;
        int a = base64_value(base64[at]), b = base64_value(base64[at + 1]);
        if (a < 0 || b < 0)
            return false;
        uint32_t shift = 2 * (uint32_t)(byte % 3) + 2;
        out[i] = (uint8_t)(a << shift | b >> (6 - shift));
    }
    return true;
}

static uint32_t big16(const uint8_t *p)
{
    return (uint32_t)p[0] << 8 | p[1];
}

static uint32_t little16(const uint8_t *p)
{
    return (uint32_t)p[1] << 8 | p[0];
}

static uint32_t little24(const uint8_t *p)
{
    return (uint32_t)p[2] << 16 | little16(p);
}

static bool jpeg_size(const uint8_t *base64, size_t chars, uint32_t *width, uint32_t *height)
{
    size_t at = 2;
    for (int i = 0; i < JPEG_SEGMENTS_MAX; i++) {
        uint8_t head[9];
        if (!base64_read(base64, chars, at, head, 4) || head[0] != 0xff)
            return false;
        uint8_t marker = head[1];
        if (marker == 0xff) { /* fill byte */
            at++;
            continue;
        }
        /* SOF0..SOF15 hold the size; C4, C8 and CC in that range are tables. */
        if (marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 &&
            marker != 0xcc) {
            if (!base64_read(base64, chars, at, head, 9))
                return false;
            *height = big16(head + 5);
            *width = big16(head + 7);
            return true;
        }
        if (marker == 0xd8 || marker == 0xd9 || marker == 0xda)
            return false;
        at += 2 + big16(head + 2);
    }
    return false;
}

static bool webp_size(const uint8_t *head, uint32_t *width, uint32_t *height)
{
    if (memcmp(head + 12, "VP8X", 4) == 0) {
        *width = little24(head + 24) + 1;
        *height = little24(head + 27) + 1;
        return true;
    }
    if (memcmp(head + 12, "VP8L", 4) == 0 && head[20] == 0x2f) {
        *width = (little16(head + 21) & 0x3fff) + 1;
        *height = (little24(head + 22) >> 6 & 0x3fff) + 1;
        return true;
    }
    if (memcmp(head + 12, "VP8 ", 4) == 0 && memcmp(head + 23, "\x9d\x01\x2a", 3) == 0) {
        *width = little16(head + 26) & 0x3fff;
        *height = little16(head + 28) & 0x3fff;
        return true;
    }
    return false;
}

bool weir_image_size(const uint8_t *base64, size_t n, uint32_t *width_px, uint32_t *height_px)
{
    uint8_t head[30];
    uint32_t width = 0, height = 0;
    bool known = false;
    if (!base64_read(base64, n, 0, head, 10))
        return false;
    if (memcmp(head, "\xff\xd8", 2) == 0) {
        known = jpeg_size(base64, n, &width, &height);
    } else if (memcmp(head, "GIF8", 4) == 0) {
        width = little16(head + 6);
        height = little16(head + 8);
        known = true;
    } else if (memcmp(head, "\x89PNG\r\n\x1a\n", 8) == 0) {
        known = base64_read(base64, n, 0, head, 24) && memcmp(head + 12, "IHDR", 4) == 0 &&
                head[16] == 0 && head[17] == 0 && head[20] == 0 && head[21] == 0;
        width = known ? big16(head + 18) : 0;
        height = known ? big16(head + 22) : 0;
    } else if (memcmp(head, "RIFF", 4) == 0 && base64_read(base64, n, 0, head, 30) &&
               memcmp(head + 8, "WEBP", 4) == 0) {
        known = webp_size(head, &width, &height);
    }
    if (!known || width == 0 || height == 0 || width > 65535 || height > 65535)
        return false;
    *width_px = width;
    *height_px = height;
    return true;
}
