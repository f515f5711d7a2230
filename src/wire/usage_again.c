#include "wire/usage_again.h"

#include <string.h>

#include "wire/scan.h"

void weir_usage_again_learn(struct weir_usage_again *again, const uint8_t *at, const uint8_t *end,
                            const uint8_t *text, uint64_t text_bytes, bool counts_text)
{
    size_t before = (size_t)(text - at), after = (size_t)(end - text) - (size_t)text_bytes;
    again->before_bytes = 0;
    if (before + after > WEIR_USAGE_AGAIN_BYTES)
        return;
    memcpy(again->bytes, at, before);
    memcpy(again->bytes + before, text + text_bytes, after);
    again->before_bytes = (uint16_t)before;
    again->after_bytes = (uint16_t)after;
    again->counts_text = counts_text;
}

const uint8_t *weir_usage_again_match(const struct weir_usage_again *again, const uint8_t *p,
                                      const uint8_t *end, uint64_t *text_bytes)
{
    size_t before = again->before_bytes, after = again->after_bytes;
    if (before == 0 || (size_t)(end - p) < before + after || memcmp(p, again->bytes, before) != 0)
        return NULL;
    const uint8_t *text = p + before, *stop = weir_scan_string(text, end);
    if ((size_t)(end - stop) < after || memcmp(stop, again->bytes + before, after) != 0 ||
        weir_scan_line(text, stop) != stop)
        return NULL;
    *text_bytes = (uint64_t)(stop - text);
    return stop + after;
}
