/* Byte classes against a naive count over the decoded text, and images and other parts. Built
 * twice: with SSE2 and with the portable scanners, which must give the same. */
#include "wire/json.h"
#include "wire/request.h"
#include "wire/wire_data.h"

/* --- A naive count: one character at a time, runs of 16 looked at afterwards. --- */

static bool plain(uint8_t b)
{
    return b >= 0x20 && b < 0x80 && b != '"' && b != '\\';
}

static bool letter(uint32_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool digit(uint32_t c)
{
    return c >= '0' && c <= '9';
}

static bool is_mixed(const uint8_t *p)
{
    bool letters = false, digits = false;
    for (int i = 0; i < 16; i++) {
        if (!letter(p[i]) && !digit(p[i]) && !strchr("+/=_-", p[i]))
            return false;
        letters |= letter(p[i]);
        digits |= digit(p[i]);
    }
    return letters && digits;
}

static void naive_char(struct weir_text_classes *c, uint32_t cp, uint32_t *before)
{
    if (letter(cp)) {
        c->letters++;
        c->words += !letter(*before);
    } else if (digit(cp)) {
        c->digits++;
    } else if (cp == ' ' || cp == '\n' || cp == '\t' || cp == '\r') {
        c->space++;
    } else if (cp < 0x80) {
        c->punct++;
    } else if (cp < 0x370) {
        c->other2++;
    } else if (cp < 0x400) {
        c->greek++;
    } else if (cp < 0x530) {
        c->cyrillic++;
    } else if (cp < 0x800) {
        c->other2++;
    } else if (cp < 0x3000 || (cp >= 0xd800 && cp < 0x10000)) {
        c->other3++;
    } else if (cp < 0xd800) {
        c->cjk++;
    } else {
        c->wide4++;
    }
    c->text_bytes += cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    *before = cp;
}

/* A character of well-formed UTF-8 at *p; moves it on. */
static uint32_t naive_utf8(const uint8_t **p)
{
    uint8_t b = *(*p)++;
    int more = b < 0x80 ? 0 : b < 0xe0 ? 1 : b < 0xf0 ? 2 : 3;
    uint32_t cp = more == 0 ? b : b & (0x3fu >> more);
    while (more-- > 0)
        cp = cp << 6 | (*(*p)++ & 0x3fu);
    return cp;
}

/* The raw inside of a JSON string whose only escapes are of two bytes. */
static struct weir_text_classes naive(const uint8_t *p, size_t n)
{
    struct weir_text_classes c = {0};
    const uint8_t *end = p + n;
    uint32_t before = 0, run = 0;
    while (p < end) {
        if (run == 0)
            while (run < 16 && p + run < end && plain(p[run]))
                run++;
        if (run == 16 && is_mixed(p)) {
            c.mixed += 16;
            c.text_bytes += 16;
            p += 16;
            run = 0;
            before = 0;
            continue;
        }
        if (run > 0) {
            for (; run > 0; run--)
                naive_char(&c, *p++, &before);
        } else if (*p == '\\') {
            uint32_t means = p[1] == 'n' ? '\n' : p[1] == 't' ? '\t' : p[1];
            naive_char(&c, means, &before);
            p += 2;
        } else {
            naive_char(&c, naive_utf8(&p), &before);
        }
    }
    return c;
}

static void text__of_every_kind__is_counted_as_the_naive_count_does(void **state)
{
    (void)state;
    static const char *const pieces[] = {
        "word",
        " ",
        "A",
        "z9",
        "12345",
        "don't stop.",
        "\\n",
        "\\\"",
        "\\\\",
        "\xc3\xa9",
        "\xce\xb1\xce\xb2",
        "\xd0\x96\xd1\x8f",
        "\xd4\xaf",
        "\xd4\xb1",
        "\xcd\xb0",
        "\xe6\x97\xa5",
        "\xed\x9f\xbf",
        "\xe3\x80\x80",
        "\xe2\x82\xac",
        "\xef\xbf\xbd",
        "\xf0\x9f\xaa\x99",
        "iVBORw0KGgoAAAANSUhEUgAA",
        "d41d8cd98f00b204e9800998ecf8427e",
        "0123456789012345678",
        "abcdefghijklmnopqrstuvwxyz",
        "a1-_+/=b2c3d4e5f6g7",
        "~`@[{|}^",
        "The ferry to the island leaves at seven, so bring three coins and a warm coat. "};
    uint64_t seed = 9;
    for (int round = 0; round < 20000; round++) {
        char text[2048] = "\"";
        size_t n = 1;
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        int count = (int)(seed >> 33) % 24;
        for (int i = 0; i < count; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            const char *piece = pieces[(seed >> 33) % WEIR_COUNT(pieces)];
            n += (size_t)snprintf(text + n, sizeof text - n, "%s", piece);
        }
        text[n++] = '"';
        struct wire_bytes b = wire_copy(text, n);
        struct weir_json r;
        struct weir_json_string s;
        struct weir_text_classes got = {0}, want = naive(b.at + 1, n - 2);
        weir_json_init(&r, b.at, n);
        CHECK(weir_json_kind(&r) == WEIR_JSON_STRING && weir_json_take_text(&r, &got, &s));
        CHECK(weir_json_finish(&r));
        CHECK_MSG(memcmp(&got, &want, sizeof got) == 0, "letters %u/%u words %u/%u mixed %u/%u: %s",
                  got.letters, want.letters, got.words, want.words, got.mixed, want.mixed, text);
        struct weir_text_classes again = {0};
        weir_json_count_text(&s, &again);
        CHECK(memcmp(&again, &want, sizeof again) == 0);
        free(b.at);
    }
}

static void long_text__does_not_overflow_a_lane(void **state)
{
    (void)state;
    size_t n = 1u << 20;
    char *text = malloc(n + 2);
    text[0] = text[n + 1] = '"';
    for (size_t i = 0; i < n; i++)
        text[i + 1] = i % 2 ? 'a' : ' ';
    struct weir_json r;
    struct weir_json_string s;
    struct weir_text_classes got = {0};
    weir_json_init(&r, text, n + 2);
    CHECK(weir_json_kind(&r) == WEIR_JSON_STRING && weir_json_take_text(&r, &got, &s));
    CHECK_INT(got.letters, n / 2);
    CHECK_INT(got.words, n / 2);
    CHECK_INT(got.space, n / 2);
    CHECK_INT(got.punct, 0);
    free(text);
}

static void escapes__count_as_the_characters_they_stand_for(void **state)
{
    (void)state;
    struct weir_request_facts f;
    static const char body[] = "{\"messages\":[{\"content\":\"\\u0041\\u00e9\\u0436\\u03b1\\u65e5"
                               "\\u20ac\\ud83e\\ude99\\ud800\\/\\t\"}]}";
    CHECK_INT(weir_request_read(&f, WEIR_API_OPENAI_CHAT, body, sizeof body - 1), WEIR_REQUEST_OK);
    CHECK_INT(f.classes.letters, 1);
    CHECK_INT(f.classes.other2, 1);
    CHECK_INT(f.classes.cyrillic, 1);
    CHECK_INT(f.classes.greek, 1);
    CHECK_INT(f.classes.cjk, 1);
    CHECK_INT(f.classes.other3, 2); /* the euro sign, and the lone surrogate as U+FFFD */
    CHECK_INT(f.classes.wide4, 1);
    CHECK_INT(f.classes.punct, 1);
    CHECK_INT(f.classes.space, 1);
    CHECK_INT(f.classes.text_bytes, 1 + 2 + 2 + 2 + 3 + 3 + 4 + 3 + 1 + 1);
}

static void word__with_a_letter_written_as_an_escape__is_one_word(void **state)
{
    (void)state;
    struct weir_request_facts f;
    static const char body[] = "{\"messages\":[{\"content\":\"ab\\u0063d \\u0065f 1\\u0067\"}]}";
    CHECK_INT(weir_request_read(&f, WEIR_API_OPENAI_CHAT, body, sizeof body - 1), WEIR_REQUEST_OK);
    CHECK_INT(f.classes.letters, 7);
    CHECK_INT(f.classes.words, 3);
}

/* --- Parts --- */

static char *base64(const uint8_t *p, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *out = malloc(n / 3 * 4 + 8), *to = out;
    for (size_t i = 0; i < n; i += 3) {
        uint32_t v = (uint32_t)p[i] << 16 | (i + 1 < n ? (uint32_t)p[i + 1] << 8 : 0) |
                     (i + 2 < n ? p[i + 2] : 0);
        *to++ = digits[v >> 18];
        *to++ = digits[v >> 12 & 63];
        *to++ = i + 1 < n ? digits[v >> 6 & 63] : '=';
        *to++ = i + 2 < n ? digits[v & 63] : '=';
    }
    *to = 0;
    return out;
}

struct image {
    const char *name;
    const char *head;
    size_t bytes;
    uint32_t width, height; /* 0: not known */
};

#define IMAGE(name, head, width, height)                                                           \
    {                                                                                              \
        name, head, sizeof(head) - 1, width, height                                                \
    }

static const struct image images[] = {
    IMAGE("png", "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x04\0\0\0\x03\0\x08\x06\0\0\0", 1024, 768),
    IMAGE("png of no width", "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\0\0\0\x03\0\x08\x06\0\0\0", 0, 0),
    IMAGE("png far too wide", "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\1\0\0\0\0\x03\0\x08\x06\0\0\0", 0,
          0),
    IMAGE("png cut", "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x04\0\0\0\x03", 0, 0),
    IMAGE("gif", "GIF89a\x40\x01\xf0\0\xf7\0\0", 320, 240),
    IMAGE("jpeg",
          "\xff\xd8\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0\xff\xc0\0\x11\x08\x01\xe0\x02\x80\3", 640,
          480),
    IMAGE("jpeg with fill and a table first",
          "\xff\xd8\xff\xff\xc4\0\x04"
          "ab\xff\xc2\0\x11\x08\x01\xe0\x02\x80\3",
          640, 480),
    IMAGE("jpeg without a size", "\xff\xd8\xff\xda\0\x10JFIF\0\1\1\0\0\1\0\1\0\0\xff\xc0", 0, 0),
    IMAGE("webp lossy", "RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a\x20\x03\x58\x02", 800, 600),
    IMAGE("webp lossless", "RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f\x1f\xc3\x95\0\0\0\0\0\0", 800, 600),
    IMAGE("webp extended", "RIFF\0\0\0\0WEBPVP8X\0\0\0\0\0\0\0\0\x1f\x03\0\x57\x02\0", 800, 600),
    IMAGE("no image", "hello hello hello hello hello hello", 0, 0),
    IMAGE("nothing", "", 0, 0),
};

static struct weir_request_facts read_part(enum weir_api api, const char *part)
{
    static struct weir_request_facts f;
    size_t n = strlen(part) + 128;
    char *body = malloc(n);
    int bytes = snprintf(body, n, "{\"%s\":[{\"role\":\"user\",\"content\":[%s]}]}",
                         api == WEIR_API_OPENAI_RESPONSES ? "input" : "messages", part);
    struct wire_bytes b = wire_copy(body, (size_t)bytes);
    weir_request_read(&f, api, b.at, b.n);
    CHECK_MSG(f.fault == WEIR_REQUEST_OK, "%s", body);
    free(b.at);
    free(body);
    return f;
}

static void images__of_each_format__have_their_size_read_from_the_head(void **state)
{
    (void)state;
    for (size_t i = 0; i < WEIR_COUNT(images); i++) {
        char part[1024], *data = base64((const uint8_t *)images[i].head, images[i].bytes);
        snprintf(part, sizeof part,
                 "{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/x;base64,%s\"}}",
                 data);
        struct weir_request_facts f = read_part(WEIR_API_OPENAI_CHAT, part);
        CHECK_MSG(f.classes.images == 1, "%s", images[i].name);
        CHECK_MSG(f.classes.images_sized == (images[i].width > 0), "%s", images[i].name);
        CHECK_MSG(f.classes.image_px == (uint64_t)images[i].width * images[i].height, "%s: %llu",
                  images[i].name, (unsigned long long)f.classes.image_px);
        CHECK_MSG(f.classes.text_bytes == 0, "%s", images[i].name);
        snprintf(part, sizeof part,
                 "{\"source\":{\"data\":\"%s\",\"media_type\":\"image/x\",\"type\":\"base64\"},"
                 "\"type\":\"image\"}",
                 data);
        f = read_part(WEIR_API_ANTHROPIC_MESSAGES, part);
        CHECK_MSG(f.classes.images == 1, "%s", images[i].name);
        CHECK_MSG(f.classes.image_px == (uint64_t)images[i].width * images[i].height, "%s",
                  images[i].name);
        free(data);
    }
}

static void jpeg_behind_a_long_exif_block__has_its_size_read(void **state)
{
    (void)state;
    static uint8_t jpeg[70000] = "\xff\xd8\xff\xe1\xff\xff";
    memcpy(jpeg + 4 + 65535, "\xff\xc0\0\x11\x08\x01\xe0\x02\x80\3", 10);
    char *data = base64(jpeg, sizeof jpeg);
    char *part = malloc(100000);
    snprintf(part, 100000, "{\"type\":\"input_image\",\"image_url\":\"data:image/jpeg;base64,%s\"}",
             data);
    struct weir_request_facts f = read_part(WEIR_API_OPENAI_RESPONSES, part);
    CHECK_INT(f.classes.images, 1);
    CHECK_INT(f.classes.image_px, 640 * 480);
    CHECK_INT(f.classes.text_bytes, 0);
    CHECK_INT(f.image_sizes[0].width_px, 640);
    free(part);
    free(data);
}

static void parts__of_each_kind__are_counted_and_never_as_text(void **state)
{
    (void)state;
    static const struct {
        enum weir_api api;
        const char *part;
        uint32_t images, files, audios;
        uint64_t blob_bytes, text_bytes;
    } rows[] = {
        {WEIR_API_OPENAI_CHAT, "{\"type\":\"text\",\"text\":\"abc\"}", 0, 0, 0, 0, 3},
        {WEIR_API_OPENAI_CHAT, "\"abc\"", 0, 0, 0, 0, 3},
        {WEIR_API_OPENAI_CHAT,
         "{\"type\":\"image_url\",\"image_url\":{\"url\":\"https://h/a.png\"}}", 1, 0, 0, 0, 0},
        {WEIR_API_OPENAI_CHAT,
         "{\"type\":\"input_audio\",\"input_audio\":{\"data\":\"AAAAAAA=\",\"format\":\"wav\"}}", 0,
         0, 1, 5, 0},
        {WEIR_API_OPENAI_CHAT,
         "{\"type\":\"file\",\"file\":{\"file_data\":\"data:application/pdf;base64,AAAA\"}}", 0, 1,
         0, 3, 0},
        {WEIR_API_OPENAI_RESPONSES, "{\"type\":\"input_file\",\"file_url\":\"https://h/a.pdf\"}", 0,
         1, 0, 0, 0},
        {WEIR_API_OPENAI_RESPONSES, "{\"file_id\":\"f1\",\"type\":\"input_image\"}", 1, 0, 0, 0, 0},
        {WEIR_API_ANTHROPIC_MESSAGES,
         "{\"type\":\"document\",\"source\":{\"type\":\"base64\",\"media_type\":\"application/"
         "pdf\","
         "\"data\":\"AAAAAA==\"}}",
         0, 1, 0, 4, 0},
        {WEIR_API_ANTHROPIC_MESSAGES,
         "{\"type\":\"document\",\"source\":{\"data\":\"plain text\",\"type\":\"text\"}}", 0, 0, 0,
         0, 10},
        {WEIR_API_ANTHROPIC_MESSAGES,
         "{\"type\":\"image\",\"source\":{\"type\":\"url\",\"url\":\"https://h/a.png\"}}", 1, 0, 0,
         0, 0},
        {WEIR_API_ANTHROPIC_MESSAGES,
         "{\"type\":\"tool_result\",\"tool_use_id\":\"t\",\"content\":[{\"type\":\"text\",\"text\":"
         "\"ab\"},{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"media_type\":\"image/png\","
         "\"data\":\"AAAA\"}}]}",
         1, 0, 0, 0, 2},
    };
    for (size_t i = 0; i < WEIR_COUNT(rows); i++) {
        struct weir_request_facts f = read_part(rows[i].api, rows[i].part);
        CHECK_MSG(f.classes.images == rows[i].images, "%s", rows[i].part);
        CHECK_MSG(f.classes.files == rows[i].files, "%s", rows[i].part);
        CHECK_MSG(f.classes.audios == rows[i].audios, "%s", rows[i].part);
        CHECK_MSG(f.classes.blob_bytes == rows[i].blob_bytes, "%s", rows[i].part);
        CHECK_MSG(f.classes.text_bytes == rows[i].text_bytes, "%s: %llu", rows[i].part,
                  (unsigned long long)f.classes.text_bytes);
    }
}

static void text_that_looks_like_an_image__is_text(void **state)
{
    (void)state;
    char part[2200] = "{\"type\":\"text\",\"text\":\"data:image/png;base64,";
    for (int i = 0; i < 100; i++)
        strcat(part, "iVBORw0KGgoAAAAN");
    strcat(part, "\"}");
    struct weir_request_facts f = read_part(WEIR_API_OPENAI_CHAT, part);
    CHECK_INT(f.classes.images, 0);
    CHECK_INT(f.classes.text_bytes, 22 + 1600);
    CHECK(f.classes.mixed >= 1500);
}

static void arguments_and_tools__count_as_the_json_a_model_reads(void **state)
{
    (void)state;
    struct weir_request_facts f;
    static const char body[] =
        "{\"tools\":[{\"name\":\"f\",\"n\":[1,true]},{\"source\":{\"type\":\"base64\",\"data\":"
        "\"AAAA\"}}],\"messages\":[{\"role\":\"assistant\",\"content\":null,\"tool_calls\":["
        "{\"id\":\"c1\",\"function\":{\"name\":\"go\",\"arguments\":\"{}\"}}]}]}";
    CHECK_INT(weir_request_read(&f, WEIR_API_OPENAI_CHAT, body, sizeof body - 1), WEIR_REQUEST_OK);
    CHECK_INT(f.classes.tools, 2);
    CHECK_INT(f.classes.images, 0);
    /* Every byte of the tools and the calls is text, near enough: upper side. */
    size_t raw = strlen("{\"name\":\"f\",\"n\":[1,true]}{\"source\":{\"type\":\"base64\",\"data\":"
                        "\"AAAA\"}}[{\"id\":\"c1\",\"function\":{\"name\":\"go\",\"arguments\":"
                        "\"{}\"}}]");
    CHECK(f.classes.text_bytes >= raw);
    CHECK(f.classes.text_bytes <= raw + 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text__of_every_kind__is_counted_as_the_naive_count_does),
        cmocka_unit_test(long_text__does_not_overflow_a_lane),
        cmocka_unit_test(escapes__count_as_the_characters_they_stand_for),
        cmocka_unit_test(word__with_a_letter_written_as_an_escape__is_one_word),
        cmocka_unit_test(images__of_each_format__have_their_size_read_from_the_head),
        cmocka_unit_test(jpeg_behind_a_long_exif_block__has_its_size_read),
        cmocka_unit_test(parts__of_each_kind__are_counted_and_never_as_text),
        cmocka_unit_test(text_that_looks_like_an_image__is_text),
        cmocka_unit_test(arguments_and_tools__count_as_the_json_a_model_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
