#include "wire/json.h"

#include <string.h>

#include "wire/classes.h"
#include "wire/utf8.h"

void weir_json_init(struct weir_json *r, const void *bytes, size_t n)
{
    memset(r, 0, sizeof *r);
    r->start = r->at = bytes;
    r->end = r->start + n;
}

static bool json_fault(struct weir_json *r, enum weir_json_fault fault, const uint8_t *at)
{
    if (r->fault == WEIR_JSON_OK) {
        r->fault = fault;
        r->fault_at = at;
    }
    return false;
}

/* A fault at a byte that does not fit, or CUT where there is none. */
static bool json_unfit(struct weir_json *r, enum weir_json_fault fault)
{
    return json_fault(r, r->at == r->end ? WEIR_JSON_CUT : fault, r->at);
}

static inline void json_pass_space(struct weir_json *r)
{
    const uint8_t *p = r->at;
    while (p < r->end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
        p++;
    r->at = p;
}

/* --- Strings --- */

static int json_hex(uint8_t b)
{
    if (b >= '0' && b <= '9')
        return b - '0';
    uint8_t lower = b | 0x20;
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* The four digits after "\u" at p; -1 when malformed. The caller checked that there are six bytes.
 */
static int32_t json_unit(const uint8_t *p)
{
    int32_t unit = 0;
    for (int i = 2; i < 6; i++) {
        int digit = json_hex(p[i]);
        if (digit < 0)
            return -1;
        unit = unit << 4 | digit;
    }
    return unit;
}

/* The escape at p (a backslash): sets *cp, and *lone for half a surrogate pair, which counts as
 * U+FFFD. Returns the byte after it, or NULL with *fault set. */
static const uint8_t *json_escape(const uint8_t *p, const uint8_t *end, uint32_t *cp, bool *lone,
                                  enum weir_json_fault *fault)
{
    if (end - p < 2) {
        *fault = WEIR_JSON_CUT;
        return NULL;
    }
    switch (p[1]) {
    case '"':
    case '\\':
    case '/':
        *cp = p[1];
        return p + 2;
    case 'b':
        *cp = '\b';
        return p + 2;
    case 'f':
        *cp = '\f';
        return p + 2;
    case 'n':
        *cp = '\n';
        return p + 2;
    case 'r':
        *cp = '\r';
        return p + 2;
    case 't':
        *cp = '\t';
        return p + 2;
    case 'u':
        break;
    default:
        *fault = WEIR_JSON_ESCAPE;
        return NULL;
    }
    if (end - p < 6) {
        *fault = WEIR_JSON_CUT;
        return NULL;
    }
    int32_t unit = json_unit(p);
    if (unit < 0) {
        *fault = WEIR_JSON_ESCAPE;
        return NULL;
    }
    if (unit < 0xd800 || unit > 0xdfff) {
        *cp = (uint32_t)unit;
        return p + 6;
    }
    if (unit < 0xdc00 && end - p >= 12 && p[6] == '\\' && p[7] == 'u') {
        int32_t low = json_unit(p + 6);
        if (low >= 0xdc00 && low <= 0xdfff) {
            *cp = 0x10000 + ((uint32_t)(unit - 0xd800) << 10) + (uint32_t)(low - 0xdc00);
            return p + 12;
        }
    }
    *cp = 0xfffd;
    *lone = true;
    return p + 6;
}

#if WEIR_WIRE_SSE2

/* Passes (and with c counts) plain ASCII from p; stops at the first byte that is anything else, or
 * at end. */
static inline __attribute__((always_inline)) const uint8_t *
json_plain(const uint8_t *p, const uint8_t *end, struct weir_classes_lanes *lanes,
           struct weir_text_classes *c)
{
    const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\');
    const __m128i floor = _mm_set1_epi8(0x20); /* signed: control bytes and >= 0x80 are below */
    for (;;) {
        size_t left = (size_t)(end - p);
        __m128i v;
        if (left >= 16) {
            v = _mm_loadu_si128((const __m128i *)(const void *)p);
        } else {
            uint8_t tail[16];
            memset(tail, '"', sizeof tail);
            memcpy(tail, p, left);
            v = _mm_loadu_si128((const __m128i *)(const void *)tail);
        }
        __m128i odd = _mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, slash));
        uint32_t mask = (uint32_t)_mm_movemask_epi8(_mm_or_si128(odd, _mm_cmplt_epi8(v, floor)));
        if (mask == 0) {
            if (c)
                weir_classes_run(lanes, c, v, 16);
            p += 16;
            continue;
        }
        uint32_t run = (uint32_t)__builtin_ctz(mask);
        if (c && run > 0)
            weir_classes_run(lanes, c, v, run);
        return p + run;
    }
}

#else

static inline const uint8_t *json_plain(const uint8_t *p, const uint8_t *end,
                                        struct weir_classes_lanes *lanes,
                                        struct weir_text_classes *c)
{
    for (;;) {
        uint32_t run = 0;
        while (run < 16 && p + run < end && p[run] >= 0x20 && p[run] < 0x80 && p[run] != '"' &&
               p[run] != '\\')
            run++;
        if (c && run > 0)
            weir_classes_run(lanes, c, p, run);
        p += run;
        if (run < 16)
            return p;
    }
}

#endif

/* The string whose opening quote is at r->at. c is NULL (then nothing is counted) or not, known at
 * compile time: two functions come out of this. */
static inline __attribute__((always_inline)) bool
json_string(struct weir_json *r, struct weir_text_classes *c, struct weir_json_string *s)
{
    struct weir_classes_lanes lanes;
    if (c)
        weir_classes_begin(&lanes);
    const uint8_t *p = r->at + 1, *end = r->end;
    s->at = p;
    s->escaped = s->lone = s->wide = false;
    for (;;) {
        p = json_plain(p, end, &lanes, c);
        if (p == end)
            return json_fault(r, WEIR_JSON_CUT, end);
        if (*p == '"')
            break;
        uint32_t cp = 0;
        if (*p == '\\') {
            enum weir_json_fault fault = WEIR_JSON_OK;
            const uint8_t *next = json_escape(p, end, &cp, &s->lone, &fault);
            if (!next)
                return json_fault(r, fault, fault == WEIR_JSON_CUT ? end : p);
            s->escaped = true;
            p = next;
            if (c) {
                bool in_word = weir_classes_in_word(&lanes);
                weir_classes_char(c, cp, &in_word);
                weir_classes_set_word(&lanes, in_word);
            }
            continue;
        }
        if (*p < 0x20)
            return json_fault(r, WEIR_JSON_CONTROL, p);
        bool in_word = false;
        s->wide = true;
        do {
            uint32_t bytes = weir_utf8_take(p, end, &cp);
            if (bytes == 0)
                return json_fault(r, WEIR_JSON_UTF8, p);
            if (c)
                weir_classes_char(c, cp, &in_word);
            p += bytes;
        } while (p < end && *p >= 0x80);
        if (c)
            weir_classes_break(&lanes);
    }
    if (c)
        weir_classes_fold(&lanes, c);
    s->bytes = (size_t)(p - s->at);
    r->at = p + 1;
    return true;
}

static bool json_string_plain(struct weir_json *r, struct weir_json_string *s)
{
    return json_string(r, NULL, s);
}

static bool json_string_counted(struct weir_json *r, struct weir_text_classes *c,
                                struct weir_json_string *s)
{
    return json_string(r, c, s);
}

void weir_json_count_text(const struct weir_json_string *s, struct weir_text_classes *classes)
{
    struct weir_json r;
    struct weir_json_string again;
    weir_json_init(&r, s->at - 1, s->bytes + 2); /* with its quotes */
    bool read = json_string_counted(&r, classes, &again);
    WEIR_INVARIANT(read && again.bytes == s->bytes);
}

size_t weir_json_decode(const struct weir_json_string *s, char *out, size_t cap)
{
    size_t bytes = 0;
    const uint8_t *p = s->at, *end = s->at + s->bytes;
    while (p < end) {
        uint8_t utf8[4];
        uint32_t cp = 0, n = 1;
        if (*p != '\\') {
            utf8[0] = *p++;
        } else {
            enum weir_json_fault fault = WEIR_JSON_OK;
            bool lone = false;
            p = json_escape(p, end, &cp, &lone, &fault);
            if (!p || lone)
                return SIZE_MAX;
            n = weir_utf8_put(cp, utf8);
        }
        if (n > cap - bytes)
            return SIZE_MAX;
        memcpy(out + bytes, utf8, n);
        bytes += n;
    }
    return bytes;
}

/* --- Values --- */

enum weir_json_kind weir_json_kind(struct weir_json *r)
{
    if (r->fault)
        return WEIR_JSON_NONE;
    json_pass_space(r);
    if (r->at == r->end) {
        (void)json_fault(r, WEIR_JSON_CUT, r->at);
        return WEIR_JSON_NONE;
    }
    switch (*r->at) {
    case '{':
        return WEIR_JSON_OBJECT;
    case '[':
        return WEIR_JSON_ARRAY;
    case '"':
        return WEIR_JSON_STRING;
    case 't':
        return WEIR_JSON_TRUE;
    case 'f':
        return WEIR_JSON_FALSE;
    case 'n':
        return WEIR_JSON_NULL;
    case '-':
    case '0':
    case '1':
    case '2':
    case '3':
    case '4':
    case '5':
    case '6':
    case '7':
    case '8':
    case '9':
        return WEIR_JSON_NUM;
    default:
        (void)json_fault(r, WEIR_JSON_SYNTAX, r->at);
        return WEIR_JSON_NONE;
    }
}

bool weir_json_open(struct weir_json *r)
{
    if (r->fault)
        return false;
    WEIR_INVARIANT(r->at < r->end && (*r->at == '{' || *r->at == '['));
    if (r->depth == WEIR_JSON_DEPTH_MAX)
        return json_fault(r, WEIR_JSON_DEPTH, r->at);
    r->depth++;
    r->at++;
    return true;
}

/* Moves to the next item of a container that ends in close; false at its end, or on a fault. */
static inline bool json_item(struct weir_json *r, bool *first, uint8_t close)
{
    if (r->fault)
        return false;
    json_pass_space(r);
    if (r->at == r->end)
        return json_fault(r, WEIR_JSON_CUT, r->at);
    if (*r->at == close) {
        r->at++;
        r->depth--;
        return false;
    }
    if (*first) {
        *first = false;
        return true;
    }
    if (*r->at != ',')
        return json_fault(r, WEIR_JSON_SYNTAX, r->at);
    r->at++;
    json_pass_space(r);
    return true;
}

bool weir_json_member(struct weir_json *r, bool *first, struct weir_json_string *key)
{
    if (!json_item(r, first, '}'))
        return false;
    if (r->at == r->end || *r->at != '"')
        return json_unfit(r, WEIR_JSON_SYNTAX);
    if (!json_string_plain(r, key))
        return false;
    json_pass_space(r);
    if (r->at == r->end || *r->at != ':')
        return json_unfit(r, WEIR_JSON_SYNTAX);
    r->at++;
    return true;
}

bool weir_json_element(struct weir_json *r, bool *first)
{
    return json_item(r, first, ']');
}

bool weir_json_take_string(struct weir_json *r, struct weir_json_string *s)
{
    if (r->fault)
        return false;
    WEIR_INVARIANT(r->at < r->end && *r->at == '"');
    return json_string_plain(r, s);
}

bool weir_json_take_text(struct weir_json *r, struct weir_text_classes *classes,
                         struct weir_json_string *s)
{
    if (r->fault)
        return false;
    WEIR_INVARIANT(r->at < r->end && *r->at == '"');
    return json_string_counted(r, classes, s);
}

static const uint8_t *json_digits(const uint8_t *p, const uint8_t *end)
{
    while (p < end && *p >= '0' && *p <= '9')
        p++;
    return p;
}

bool weir_json_take_number(struct weir_json *r, struct weir_json_string *s)
{
    if (r->fault)
        return false;
    const uint8_t *p = r->at, *end = r->end, *part;
    s->at = p;
    s->escaped = s->lone = s->wide = false;
    if (p < end && *p == '-')
        p++;
    part = p;
    p = p < end && *p == '0' ? p + 1 : json_digits(p, end);
    if (p == part)
        goto malformed;
    if (p < end && *p == '.') {
        part = ++p;
        p = json_digits(p, end);
        if (p == part)
            goto malformed;
    }
    if (p < end && (*p | 0x20) == 'e') {
        p++;
        if (p < end && (*p == '+' || *p == '-'))
            p++;
        part = p;
        p = json_digits(p, end);
        if (p == part)
            goto malformed;
    }
    s->bytes = (size_t)(p - s->at);
    r->at = p;
    return true;
malformed:
    return json_fault(r, p == end ? WEIR_JSON_CUT : WEIR_JSON_NUMBER, p);
}

static bool json_literal(struct weir_json *r, const char *word, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++, r->at++)
        if (r->at == r->end || *r->at != (uint8_t)word[i])
            return json_unfit(r, WEIR_JSON_SYNTAX);
    return true;
}

bool weir_json_skip(struct weir_json *r)
{
    struct weir_json_string s;
    bool first = true;
    switch (weir_json_kind(r)) {
    case WEIR_JSON_NONE:
        return false;
    case WEIR_JSON_OBJECT:
        if (!weir_json_open(r))
            return false;
        while (weir_json_member(r, &first, &s))
            if (!weir_json_skip(r))
                return false;
        return !r->fault;
    case WEIR_JSON_ARRAY:
        if (!weir_json_open(r))
            return false;
        while (weir_json_element(r, &first))
            if (!weir_json_skip(r))
                return false;
        return !r->fault;
    case WEIR_JSON_STRING:
        return json_string_plain(r, &s);
    case WEIR_JSON_NUM:
        return weir_json_take_number(r, &s);
    case WEIR_JSON_TRUE:
        return json_literal(r, "true", 4);
    case WEIR_JSON_FALSE:
        return json_literal(r, "false", 5);
    case WEIR_JSON_NULL:
        return json_literal(r, "null", 4);
    }
    return false;
}

static void json_count_punct(struct weir_text_classes *c, uint32_t n)
{
    c->punct += n;
    c->text_bytes += n;
}

bool weir_json_take_raw(struct weir_json *r, struct weir_text_classes *c)
{
    struct weir_json_string s;
    bool first = true;
    enum weir_json_kind kind = weir_json_kind(r);
    switch (kind) {
    case WEIR_JSON_NONE:
        return false;
    case WEIR_JSON_OBJECT:
        if (!weir_json_open(r))
            return false;
        json_count_punct(c, 2);
        while (weir_json_member(r, &first, &s)) {
            json_count_punct(c, 4); /* its quotes, colon and comma */
            weir_json_count_text(&s, c);
            if (!weir_json_take_raw(r, c))
                return false;
        }
        return !r->fault;
    case WEIR_JSON_ARRAY:
        if (!weir_json_open(r))
            return false;
        json_count_punct(c, 2);
        while (weir_json_element(r, &first)) {
            json_count_punct(c, 1);
            if (!weir_json_take_raw(r, c))
                return false;
        }
        return !r->fault;
    case WEIR_JSON_STRING:
        json_count_punct(c, 2);
        return json_string_counted(r, c, &s);
    case WEIR_JSON_NUM:
        if (!weir_json_take_number(r, &s))
            return false;
        c->digits += (uint32_t)s.bytes;
        c->text_bytes += s.bytes;
        return true;
    case WEIR_JSON_TRUE:
    case WEIR_JSON_FALSE:
    case WEIR_JSON_NULL:
        c->words++;
        c->letters += kind == WEIR_JSON_FALSE ? 5 : 4;
        c->text_bytes += kind == WEIR_JSON_FALSE ? 5 : 4;
        return weir_json_skip(r);
    }
    return false;
}

bool weir_json_finish(struct weir_json *r)
{
    if (r->fault)
        return false;
    json_pass_space(r);
    return r->at == r->end ? true : json_fault(r, WEIR_JSON_TRAILING, r->at);
}

/* --- Writing --- */

size_t weir_json_quote(char *out, size_t cap, const char *s, size_t n)
{
    static const char hex[] = "0123456789abcdef";
    const uint8_t *p = (const uint8_t *)s, *end = p + n;
    size_t bytes = 0;
    if (cap < 2)
        return 0;
    out[bytes++] = '"';
    while (p < end) {
        char piece[6] = {'\\', 'u', '0', '0'};
        uint32_t piece_bytes = 2, taken = 1, cp;
        if (*p == '"' || *p == '\\') {
            piece[1] = (char)*p;
        } else if (*p == '\n' || *p == '\r' || *p == '\t') {
            piece[1] = *p == '\n' ? 'n' : *p == '\r' ? 'r' : 't';
        } else if (*p < 0x20 || *p == 0x7f) {
            piece[4] = hex[*p >> 4];
            piece[5] = hex[*p & 15];
            piece_bytes = 6;
        } else if (*p < 0x80) {
            piece[0] = (char)*p;
            piece_bytes = 1;
        } else if ((taken = weir_utf8_take(p, end, &cp)) > 0) {
            memcpy(piece, p, taken);
            piece_bytes = taken;
        } else {
            taken = 1;
            memcpy(piece, "\xef\xbf\xbd", 3);
            piece_bytes = 3;
        }
        if (piece_bytes > cap - 1 - bytes) /* one byte stays for the closing quote */
            return 0;
        memcpy(out + bytes, piece, piece_bytes);
        bytes += piece_bytes;
        p += taken;
    }
    out[bytes++] = '"';
    return bytes;
}
