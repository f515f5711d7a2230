/* Hint headers and dates: no value hurts, and what is read is written back to the same. The input
 * is lines of "name: value". Also paths, which are as short. */
#include "wire/api.h"
#include "wire/dates.h"
#include "wire/fuzz.h"
#include "wire/hints.h"

static void check_dates(const char *s, size_t n)
{
    int64_t unix_s, unix_ns, again;
    uint64_t ns, back;
    char out[48];
    if (weir_http_date_read(s, n, &unix_s)) {
        size_t bytes = weir_http_date_write(out, sizeof out, unix_s);
        FUZZ_CHECK(weir_http_date_read(out, bytes, &again) && again == unix_s, "date");
    }
    if (weir_rfc3339_read(s, n, &unix_ns) && unix_ns >= 0 &&
        unix_ns < INT64_MAX - (int64_t)WEIR_NS_PER_S) {
        size_t bytes = weir_rfc3339_write(out, sizeof out, unix_ns);
        FUZZ_CHECK(weir_rfc3339_read(out, bytes, &again), "rfc3339");
        FUZZ_CHECK(again >= unix_ns && again - unix_ns < (int64_t)WEIR_NS_PER_S, "rounded up");
    }
    if (weir_duration_read(s, n, &ns)) {
        size_t bytes = weir_duration_write(out, sizeof out, ns);
        FUZZ_CHECK(bytes > 0 && weir_duration_read(out, bytes, &back), "duration");
        FUZZ_CHECK(back >= ns || back == UINT64_MAX, "duration rounded up");
    }
    (void)weir_decimal_read(s, n, WEIR_NS_PER_S, &ns);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char *copy = (char *)fuzz_copy(data, n);
    struct weir_hints h;
    weir_hints_init(&h);
    for (size_t at = 0; at < n;) {
        const char *line = copy + at, *stop = memchr(line, '\n', n - at);
        size_t bytes = stop ? (size_t)(stop - line) : n - at;
        const char *colon = bytes ? memchr(line, ':', bytes) : NULL;
        size_t name = colon ? (size_t)(colon - line) : 0;
        if (colon) {
            uint8_t *value = fuzz_copy((const uint8_t *)colon + 1, bytes - name - 1);
            weir_hints_header(&h, line, name, (const char *)value, bytes - name - 1);
            check_dates((const char *)value, bytes - name - 1);
            free(value);
        } else {
            (void)weir_api_of_path(line, bytes);
        }
        at += bytes + 1;
    }
    struct weir_hint hint =
        weir_hints_result(&h, 429, WEIR_DIALECT_OPENAI, "", "", 1764460800000000000);
    char out[1600];
    FUZZ_CHECK(weir_hint_write(out, 128, hint.wait_ns) > 0, "a hint fits in 128 bytes");
    (void)weir_limits_write(out, sizeof out, WEIR_DIALECT_ANTHROPIC, h.limits, 0);
    (void)weir_limits_write(out, sizeof out, WEIR_DIALECT_OPENAI, h.limits, 0);
    free(copy);
    return 0;
}
