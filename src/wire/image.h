/* image: width and height of a base64 image from its first bytes, without decoding the rest.
 *
 * PNG, GIF, WebP and JPEG (whose size may stand behind long EXIF blocks: segments are hopped over,
 * 64 at most, by reading only their headers). Thread: any. Nothing allocates. */
#ifndef WEIR_WIRE_IMAGE_H
#define WEIR_WIRE_IMAGE_H

#include "core/base.h"

/* base64: plain base64 text without white space or escapes. True when both sizes are known and
 * between 1 and 65,535. */
WEIR_MUST_USE bool weir_image_size(const uint8_t *base64, size_t n, uint32_t *width_px,
                                   uint32_t *height_px);

/* Decoded bytes of n characters of base64 with padding. */
static inline uint64_t weir_base64_bytes(const uint8_t *base64, size_t n)
{
    while (n > 0 && base64[n - 1] == '=')
        n--;
    return (uint64_t)n / 4 * 3 + (n % 4 * 3) / 4;
}

#endif
