/* The tables behind the parser: byte classes and header names, each checked against its definition.
 */
#include "support/check.h"

#include <ctype.h>

#include "core/base.h"
#include "net/http1_bytes.h"
#include "net/http1_name.h"

static const struct {
    enum weir_http_name id;
    const char *text;
} listed[] = {
#define LISTED_ROW(id, literal) {WEIR_HTTP_##id, literal},
    WEIR_HTTP_NAMES(LISTED_ROW)
#undef LISTED_ROW
};

static void http1_bytes__each_class__is_that_of_the_rfc(void **state)
{
    (void)state;
    for (int byte = 0; byte < 256; byte++) {
        bool alnum = byte < 0x80 && isalnum(byte);
        bool visible = byte > 0x20 && byte < 0x7f;
        int want = 0;
        if (alnum || (visible && strchr("!#$%&'*+-.^_`|~", byte)))
            want |= HTTP1_TOKEN;
        if (visible && !strchr("\"<>\\#", byte))
            want |= HTTP1_TARGET;
        if (alnum || (visible && strchr("-._~%!$&'()*+,;=:[]", byte)))
            want |= HTTP1_HOST;
        if (byte == '\t' || (byte >= 0x20 && byte != 0x7f))
            want |= HTTP1_VALUE;
        if (byte == '\t' || byte == ' ')
            want |= HTTP1_SPACE;
        CHECK_MSG(weir_http1_class[byte] == want, "byte 0x%02x", byte);
    }
}

/* Every byte at every place of a run, before a CR that ends the line. */
static void http1_bytes__the_fast_scans__agree_with_the_table(void **state)
{
    (void)state;
    char text[41];
    const char *end = text + sizeof text;
    for (int byte = 0; byte < 256; byte++) {
        for (size_t at = 0; at < sizeof text - 1; at++) {
            memset(text, 'v', sizeof text);
            text[sizeof text - 1] = '\r';
            text[at] = (char)byte;
            CHECK(http1_skip_value(text, end) == http1_skip(text, end, HTTP1_VALUE));
            CHECK(http1_skip_name(text, end) == http1_skip(text, end, HTTP1_TOKEN));
            CHECK(http1_skip_target(text, end) == http1_skip(text, end, HTTP1_TARGET));
        }
    }
}

static void http1_name__each_listed_name__is_known_in_any_case(void **state)
{
    (void)state;
    CHECK_INT(WEIR_COUNT(listed), WEIR_HTTP_X_RATELIMIT_ANY - 1);
    for (size_t i = 0; i < WEIR_COUNT(listed); i++) {
        char text[40];
        size_t bytes = strlen(listed[i].text);
        CHECK_STR(weir_http_name_text(listed[i].id), listed[i].text);
        for (int upper = 0; upper < 2; upper++) {
            for (size_t k = 0; k <= bytes; k++)
                text[k] =
                    upper && k % 2 == 0 ? (char)toupper(listed[i].text[k]) : listed[i].text[k];
            /* A name that is not found wants an entry in slots[] of http1_name.c: this one. */
            unsigned first = (unsigned char)listed[i].text[0],
                     last = (unsigned char)listed[i].text[bytes - 1];
            unsigned middle = (unsigned char)listed[i].text[bytes / 2];
            unsigned slot = ((unsigned)bytes * 53 + first * 18 + middle * 45 + last * 50) % 128;
            CHECK_MSG(weir_http_name_id(text, bytes) == listed[i].id, "%s wants slot %u", text,
                      slot);
        }
    }
}

/* One character changed, cut off or added makes another name. */
static void http1_name__near_misses__are_other(void **state)
{
    (void)state;
    for (size_t i = 0; i < WEIR_COUNT(listed); i++) {
        char text[40];
        size_t bytes = strlen(listed[i].text);
        memcpy(text, listed[i].text, bytes + 1);
        for (size_t k = 0; k < bytes; k++) {
            text[k] = listed[i].text[k] == '_' ? '-' : '_';
            CHECK_MSG(weir_http_name_id(text, bytes) == WEIR_HTTP_OTHER, "%s", text);
            text[k] = listed[i].text[k];
        }
        text[bytes] = 'x';
        CHECK_MSG(weir_http_name_id(text, bytes + 1) == WEIR_HTTP_OTHER, "%s", text);
        enum weir_http_name shorter = weir_http_name_id(text, bytes - 1);
        CHECK(shorter != listed[i].id);
    }
    CHECK_INT(weir_http_name_id("", 0), WEIR_HTTP_OTHER);
}

static void http1_name__families__are_known_by_their_prefix(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum weir_http_name id;
    } rows[] = {
        {"X-RateLimit-Remaining-Tokens", WEIR_HTTP_X_RATELIMIT_ANY},
        {"x-ratelimit-", WEIR_HTTP_OTHER},
        {"x-ratelimits-a", WEIR_HTTP_OTHER},
        {"anthropic-ratelimit-input-tokens-reset", WEIR_HTTP_ANTHROPIC_RATELIMIT_ANY},
        {"anthropic-ratelimit", WEIR_HTTP_OTHER},
        {"RateLimit", WEIR_HTTP_RATELIMIT_ANY},
        {"RateLimit-Policy", WEIR_HTTP_RATELIMIT_ANY},
        {"RateLimited", WEIR_HTTP_OTHER},
    };
    for (size_t i = 0; i < WEIR_COUNT(rows); i++)
        CHECK_MSG(weir_http_name_id(rows[i].text, strlen(rows[i].text)) == rows[i].id, "%s",
                  rows[i].text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(http1_bytes__each_class__is_that_of_the_rfc),
        cmocka_unit_test(http1_bytes__the_fast_scans__agree_with_the_table),
        cmocka_unit_test(http1_name__each_listed_name__is_known_in_any_case),
        cmocka_unit_test(http1_name__near_misses__are_other),
        cmocka_unit_test(http1_name__families__are_known_by_their_prefix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
