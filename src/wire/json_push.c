#include "wire/json_push.h"

#include <string.h>

#include "wire/scan.h"
#include "wire/utf8.h"

enum state {
    STATE_VALUE,
    STATE_VALUE_OR_END, /* after '[' */
    STATE_KEY_OR_END,   /* after '{' */
    STATE_KEY,          /* after ',' in an object */
    STATE_COLON,
    STATE_NEXT, /* after a value */
    STATE_STRING,
    STATE_ESCAPE,
    STATE_UNIT, /* the digits after \u */
    STATE_NUMBER,
    STATE_LITERAL,
    STATE_SKIP, /* in a subtree that is passed over, outside strings */
    STATE_SKIP_STRING,
    STATE_SKIP_ESCAPE,
    STATE_DONE,
    STATE_FAILED
};

enum string { STRING_SKIP, STRING_KEY, STRING_WORD, STRING_TEXT };

static const char *const literals[] = {"true", "false", "null"};

void weir_json_push_init(struct weir_json_push *p)
{
    p->state = STATE_VALUE;
    p->node = 1;
    p->depth = 0;
    p->skip_depth = 0;
    p->arrays = 0;
    p->string = STRING_SKIP;
    p->high = 0;
    p->word_bytes = 0;
}

bool weir_json_push_done(const struct weir_json_push *p)
{
    return p->state == STATE_DONE;
}

bool weir_json_push_failed(const struct weir_json_push *p)
{
    return p->state == STATE_FAILED;
}

uint64_t weir_json_push_text_open(const struct weir_json_push *p)
{
    bool open = p->state == STATE_STRING || p->state == STATE_ESCAPE || p->state == STATE_UNIT;
    return open && p->string == STRING_TEXT ? p->text_bytes : 0;
}

static inline bool is_space(uint8_t b)
{
    return b == ' ' || b == '\n' || b == '\r' || b == '\t';
}

static inline bool is_number_byte(uint8_t b)
{
    return (b >= '0' && b <= '9') || b == '.' || b == '-' || b == '+' || (b | 0x20) == 'e';
}

static void word_add(struct weir_json_push *p, const uint8_t *bytes, size_t n)
{
    size_t room = WEIR_JSON_PUSH_WORD - 1u - p->word_bytes;
    size_t kept = n < room ? n : room;
    memcpy(p->word + p->word_bytes, bytes, kept);
    p->word_bytes = (uint8_t)(p->word_bytes + kept);
}

/* A character from an escape. */
static void string_add_char(struct weir_json_push *p, uint32_t cp)
{
    uint8_t utf8[4];
    uint32_t n = weir_utf8_put(cp, utf8);
    if (p->string == STRING_TEXT)
        p->text_bytes += n;
    else if (p->string != STRING_SKIP)
        word_add(p, utf8, n);
}

/* A high surrogate whose other half did not come. */
static inline void string_drop_high(struct weir_json_push *p)
{
    if (p->high) {
        p->high = 0;
        string_add_char(p, 0xfffd);
    }
}

static void string_add_unit(struct weir_json_push *p)
{
    bool low = p->unit >= 0xdc00 && p->unit <= 0xdfff;
    if (p->high && low) {
        uint32_t cp = 0x10000 + ((uint32_t)(p->high - 0xd800) << 10) + (uint32_t)(p->unit - 0xdc00);
        p->high = 0;
        string_add_char(p, cp);
        return;
    }
    string_drop_high(p);
    if (p->unit >= 0xd800 && p->unit <= 0xdbff)
        p->high = p->unit;
    else
        string_add_char(p, low ? 0xfffd : p->unit);
}

static inline void string_begin(struct weir_json_push *p, enum string what)
{
    p->state = STATE_STRING;
    p->string = (uint8_t)what;
    p->word_bytes = 0;
    p->text_bytes = 0;
    p->high = 0;
}

/* The node that a key leads to, 0 for none. */
static inline uint8_t find_key(const struct weir_push_node *at, const char *key, size_t bytes)
{
    if (bytes == 0 || !(at->mask & WEIR_PUSH_MASK(key[0], bytes > 1 ? key[1] : 0, bytes)))
        return 0;
    for (uint32_t i = 0; i < at->keys_now; i++)
        if (at->keys[i].bytes == bytes && at->keys[i].name[0] == key[0] &&
            memcmp(at->keys[i].name, key, bytes) == 0)
            return at->keys[i].node;
    return 0;
}

static inline void value_end(struct weir_json_push *p)
{
    p->state = p->depth == 0 ? STATE_DONE : STATE_NEXT;
}

static void container_begin(struct weir_json_push *p, const struct weir_push_node *schema,
                            weir_push_fn *told, void *arg, bool array)
{
    enum weir_push_kind kind = schema[p->node].kind;
    bool follow =
        array ? kind == WEIR_PUSH_ARRAY : kind == WEIR_PUSH_OBJECT || kind == WEIR_PUSH_NOTED;
    if (!follow) {
        p->skip_depth = 1;
        p->state = STATE_SKIP;
        return;
    }
    WEIR_INVARIANT(p->depth < WEIR_JSON_PUSH_DEPTH); /* the schema is a tree of fixed depth */
    if (kind == WEIR_PUSH_NOTED)
        told(arg, p, p->node, WEIR_PUSH_BEGIN);
    p->arrays = (uint16_t)(p->arrays << 1 | array);
    p->nodes[p->depth++] = p->node;
    if (array)
        p->node = schema[p->node].element;
    p->state = array ? STATE_VALUE_OR_END : STATE_KEY_OR_END;
}

static void container_end(struct weir_json_push *p, const struct weir_push_node *schema,
                          weir_push_fn *told, void *arg)
{
    p->arrays >>= 1;
    uint8_t node = p->nodes[--p->depth];
    if (schema[node].kind == WEIR_PUSH_NOTED)
        told(arg, p, node, WEIR_PUSH_END);
    value_end(p);
}

/* The first byte of a value. */
static void value_begin(struct weir_json_push *p, const struct weir_push_node *schema,
                        weir_push_fn *told, void *arg, uint8_t b)
{
    const struct weir_push_node *node = &schema[p->node];
    switch (b) {
    case '{':
    case '[':
        container_begin(p, schema, told, arg, b == '[');
        return;
    case '"':
        if (node->string) {
            p->node = node->string;
            node = &schema[p->node];
        }
        string_begin(p, node->kind == WEIR_PUSH_WORD   ? STRING_WORD
                        : node->kind == WEIR_PUSH_TEXT ? STRING_TEXT
                                                       : STRING_SKIP);
        return;
    case 't':
    case 'f':
    case 'n':
        p->state = STATE_LITERAL;
        p->unit = b == 't' ? 0 : b == 'f' ? 1 : 2;
        p->step = 1;
        return;
    default:
        break;
    }
    if (b != '-' && (b < '0' || b > '9')) {
        p->state = STATE_FAILED;
        return;
    }
    p->state = STATE_NUMBER;
    p->whole = b != '-';
    p->number = p->whole ? (uint64_t)(b - '0') : 0;
}

static inline void number_add(struct weir_json_push *p, uint8_t b)
{
    if (b < '0' || b > '9') {
        p->whole = false;
        return;
    }
    uint64_t digit = (uint64_t)(b - '0');
    p->number = p->number > (UINT64_MAX - digit) / 10 ? UINT64_MAX : p->number * 10 + digit;
}

static void string_end(struct weir_json_push *p, weir_push_fn *told, void *arg)
{
    string_drop_high(p);
    if (p->string == STRING_KEY) {
        p->state = STATE_COLON;
        return;
    }
    p->word[p->word_bytes] = 0;
    value_end(p);
    p->text = NULL;
    if (p->string != STRING_SKIP)
        told(arg, p, p->node, WEIR_PUSH_VALUE);
}

/* One byte after a backslash. */
static void escape_step(struct weir_json_push *p, uint8_t b)
{
    static const char plain[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
    if (b == 'u') {
        p->state = STATE_UNIT;
        p->unit = 0;
        p->step = 0;
        return;
    }
    const char *found = b ? strchr(plain, b) : NULL;
    if (!found) {
        p->state = STATE_FAILED;
        return;
    }
    string_drop_high(p);
    string_add_char(p, (uint8_t)means[found - plain]);
    p->state = STATE_STRING;
}

static void unit_step(struct weir_json_push *p, uint8_t b)
{
    uint8_t lower = b | 0x20;
    uint32_t digit = 16;
    if (b >= '0' && b <= '9')
        digit = (uint32_t)(b - '0');
    else if (lower >= 'a' && lower <= 'f')
        digit = (uint32_t)(lower - 'a') + 10;
    if (digit == 16) {
        p->state = STATE_FAILED;
        return;
    }
    p->unit = (uint16_t)((uint32_t)p->unit << 4 | digit);
    if (++p->step == 4) {
        string_add_unit(p);
        p->state = STATE_STRING;
    }
}

/* Structure: one byte that is no white space, in a state between values. */
static void structure_step(struct weir_json_push *p, const struct weir_push_node *schema,
                           weir_push_fn *told, void *arg, uint8_t b)
{
    bool array = p->arrays & 1;
    switch ((enum state)p->state) {
    case STATE_VALUE_OR_END:
        if (b == ']') {
            container_end(p, schema, told, arg);
            return;
        }
        value_begin(p, schema, told, arg, b);
        return;
    case STATE_VALUE:
        value_begin(p, schema, told, arg, b);
        return;
    case STATE_KEY_OR_END:
        if (b == '}') {
            container_end(p, schema, told, arg);
            return;
        }
        p->state = STATE_FAILED;
        if (b == '"')
            string_begin(p, STRING_KEY);
        return;
    case STATE_KEY:
        p->state = STATE_FAILED;
        if (b == '"')
            string_begin(p, STRING_KEY);
        return;
    case STATE_COLON:
        p->state = b == ':' ? STATE_VALUE : STATE_FAILED;
        p->node = find_key(&schema[p->nodes[p->depth - 1]], p->word, p->word_bytes);
        return;
    case STATE_NEXT:
        if (b == ',') {
            p->state = array ? STATE_VALUE : STATE_KEY;
            if (array)
                p->node = schema[p->nodes[p->depth - 1]].element;
        } else if (b == (array ? ']' : '}')) {
            container_end(p, schema, told, arg);
        } else {
            p->state = STATE_FAILED;
        }
        return;
    case STATE_DONE:
    case STATE_FAILED:
    case STATE_STRING:
    case STATE_ESCAPE:
    case STATE_UNIT:
    case STATE_NUMBER:
    case STATE_LITERAL:
    case STATE_SKIP:
    case STATE_SKIP_STRING:
    case STATE_SKIP_ESCAPE:
        p->state = STATE_FAILED; /* after DONE: more than one document */
        return;
    }
}

/* A subtree that is passed over: from p to its end or the end of the input. */
static const uint8_t *skip_run(struct weir_json_push *p, const uint8_t *at, const uint8_t *end)
{
    while (at < end) {
        if (p->state == STATE_SKIP_ESCAPE) {
            at++;
            p->state = STATE_SKIP_STRING;
            continue;
        }
        if (p->state == STATE_SKIP_STRING) {
            at = weir_scan_string(at, end);
            if (at < end)
                p->state = *at++ == '"' ? STATE_SKIP : STATE_SKIP_ESCAPE;
            continue;
        }
        at = weir_scan_nested(at, end);
        if (at == end)
            break;
        uint8_t b = *at++;
        if (b == '"') {
            p->state = STATE_SKIP_STRING;
        } else if ((b | 0x20) == '{') {
            p->skip_depth++;
        } else if (--p->skip_depth == 0) {
            value_end(p);
            return at;
        }
    }
    return at;
}

/* --- The fast lane: whole tokens that lie in this input --- *
 *
 * The machine below takes any split, a step a token or less. Nearly always, though, a token is
 * whole in the input and plain (no escape, no white space around it): then it is taken here without
 * going through the machine's states. What is not plain, or reaches the end of the input, is left
 * where it is for the machine. Both must agree on every split; the tests feed all samples whole,
 * byte by byte and at every split. */

/* A scalar value that is plain and whole: where it ends, or NULL. */
static const uint8_t *fast_scalar(struct weir_json_push *p, const struct weir_push_node *schema,
                                  weir_push_fn *told, void *arg, const uint8_t *at,
                                  const uint8_t *end)
{
    if (*at == '"') {
        uint8_t node = schema[p->node].string ? schema[p->node].string : p->node;
        enum weir_push_kind kind = schema[node].kind;
        const uint8_t *text = at + 1, *stop = weir_scan_string(text, end);
        if (stop == end || *stop != '"')
            return NULL;
        if (kind == WEIR_PUSH_WORD || kind == WEIR_PUSH_TEXT) {
            p->node = node;
            p->word_bytes = 0;
            p->text_bytes = (size_t)(stop - text);
            if (kind == WEIR_PUSH_WORD)
                word_add(p, text, (size_t)(stop - text));
            p->word[p->word_bytes] = 0;
            p->text = text;
            told(arg, p, node, WEIR_PUSH_VALUE);
        }
        return stop + 1;
    }
    if (*at >= '0' && *at <= '9') {
        uint64_t number = 0;
        const uint8_t *digit = at;
        const uint8_t *last = end - at > 18 ? at + 18 : end;
        for (; digit < last && (uint8_t)(*digit - '0') < 10; digit++)
            number = number * 10 + (uint64_t)(*digit - '0');
        if (digit == end || is_number_byte(*digit))
            return NULL;
        if (schema[p->node].kind == WEIR_PUSH_WHOLE) {
            p->whole = true;
            p->number = number;
            told(arg, p, p->node, WEIR_PUSH_VALUE);
        }
        return digit;
    }
    for (size_t i = 0; i < WEIR_COUNT(literals); i++) {
        size_t n = i == 1 ? 5 : 4;
        if (*at == (uint8_t)literals[i][0] && (size_t)(end - at) >= n &&
            memcmp(at, literals[i], n) == 0)
            return at + n;
    }
    return NULL;
}

/* Takes whole tokens from at while it can; the state is then again one between tokens. */
static const uint8_t *fast_run(struct weir_json_push *p, const struct weir_push_node *schema,
                               weir_push_fn *told, void *arg, const uint8_t *at, const uint8_t *end)
{
    while (at < end) {
        bool array = p->arrays & 1;
        if (p->state == STATE_NEXT) {
            if (*at == ',') {
                p->state = array ? STATE_VALUE : STATE_KEY;
                if (array)
                    p->node = schema[p->nodes[p->depth - 1]].element;
            } else if (*at == (array ? ']' : '}')) {
                container_end(p, schema, told, arg);
            } else {
                return at;
            }
            at++;
        } else if (p->state == STATE_KEY || p->state == STATE_KEY_OR_END) {
            if (*at != '"')
                return at;
            const uint8_t *stop = weir_scan_string(at + 1, end);
            size_t bytes = (size_t)(stop - at) - 1;
            if (end - stop < 2 || stop[0] != '"' || stop[1] != ':' || bytes >= WEIR_JSON_PUSH_WORD)
                return at;
            p->node = find_key(&schema[p->nodes[p->depth - 1]], (const char *)at + 1, bytes);
            p->state = STATE_VALUE;
            at = stop + 2;
        } else if (p->state == STATE_VALUE || p->state == STATE_VALUE_OR_END) {
            if (*at == '{' || *at == '[') {
                container_begin(p, schema, told, arg, *at++ == '[');
                if (p->state == STATE_SKIP)
                    at = skip_run(p, at, end);
                continue;
            }
            const uint8_t *after = fast_scalar(p, schema, told, arg, at, end);
            if (!after)
                return at;
            value_end(p);
            at = after;
        } else {
            return at;
        }
    }
    return at;
}

static const uint8_t *string_run(struct weir_json_push *p, weir_push_fn *told, void *arg,
                                 const uint8_t *at, const uint8_t *end)
{
    const uint8_t *stop = weir_scan_string(at, end);
    if (stop > at) {
        string_drop_high(p);
        if (p->string == STRING_TEXT)
            p->text_bytes += (size_t)(stop - at);
        else if (p->string != STRING_SKIP)
            word_add(p, at, (size_t)(stop - at));
    }
    if (stop == end)
        return end;
    if (*stop == '\\')
        p->state = STATE_ESCAPE;
    else
        string_end(p, told, arg);
    return stop + 1;
}

/* A state between tokens. */
static inline bool is_between(uint8_t state)
{
    return state <= STATE_NEXT || state == STATE_DONE;
}

void weir_json_push_feed(struct weir_json_push *p, const struct weir_push_node *schema,
                         weir_push_fn *told, void *arg, const uint8_t *bytes, size_t n)
{
    const uint8_t *at = bytes, *end = bytes + n;
    while (at < end) {
        switch ((enum state)p->state) {
        case STATE_STRING:
            at = string_run(p, told, arg, at, end);
            break;
        case STATE_ESCAPE:
            escape_step(p, *at++);
            break;
        case STATE_UNIT:
            unit_step(p, *at++);
            break;
        case STATE_NUMBER:
            while (at < end && is_number_byte(*at))
                number_add(p, *at++);
            if (at == end)
                break;
            value_end(p);
            if (p->whole && schema[p->node].kind == WEIR_PUSH_WHOLE)
                told(arg, p, p->node, WEIR_PUSH_VALUE);
            break;
        case STATE_LITERAL:
            if (*at++ != (uint8_t)literals[p->unit][p->step])
                p->state = STATE_FAILED;
            else if (literals[p->unit][++p->step] == 0)
                value_end(p);
            break;
        case STATE_SKIP:
        case STATE_SKIP_STRING:
        case STATE_SKIP_ESCAPE:
            at = skip_run(p, at, end);
            break;
        case STATE_FAILED:
            return;
        case STATE_VALUE:
        case STATE_VALUE_OR_END:
        case STATE_KEY_OR_END:
        case STATE_KEY:
        case STATE_COLON:
        case STATE_NEXT:
        case STATE_DONE:
            at = fast_run(p, schema, told, arg, at, end);
            if (at == end)
                break;
            if (is_space(*at))
                at++;
            else if (is_between(p->state))
                structure_step(p, schema, told, arg, *at++);
            break;
        }
    }
}
