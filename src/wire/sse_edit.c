#include "wire/sse_edit.h"

#include <string.h>

#include "wire/scan.h"

enum line {
    LINE_START,
    LINE_NAME,
    LINE_SPACE, /* after "data:" */
    LINE_DATA,
    LINE_OTHER,
    LINE_COMMENT /* outside an event: passes at once */
};

enum json {
    JSON_START,
    JSON_MEMBER_FIRST, /* after '{' */
    JSON_MEMBER,       /* after ',' at depth 1 */
    JSON_KEY,
    JSON_KEY_ESCAPE,
    JSON_COLON,
    JSON_VALUE,
    JSON_SCALAR,
    JSON_STRING,
    JSON_ESCAPE,
    JSON_NULL,     /* in the literal of a null usage */
    JSON_NULL_END, /* after it */
    JSON_SWALLOW,  /* after the comma that went with a first member */
    JSON_CHOICES,  /* after the '[' of choices */
    JSON_NESTED,   /* at depth 2 or more, outside strings */
    JSON_NESTED_STRING,
    JSON_NESTED_ESCAPE,
    JSON_AFTER, /* after a value at depth 1 */
    JSON_END,
    JSON_OFF
};

enum key { KEY_OTHER, KEY_USAGE, KEY_CHOICES };
enum usage { USAGE_NONE, USAGE_OBJECT };

static const uint8_t byte_order_mark[] = {0xef, 0xbb, 0xbf};
static const char *const key_names[] = {"", "usage", "choices"};

/* One call of feed: bytes from `from` to `at` are read but neither written nor held yet. */
struct work {
    struct weir_sse_edit *e;
    const uint8_t *from;
    const uint8_t *at;
    const uint8_t *end;
    const uint8_t *stop; /* in a data line: its end, or the end of the input */
    uint8_t *out;
};

void weir_sse_edit_init(struct weir_sse_edit *e)
{
    memset(e, 0, offsetof(struct weir_sse_edit, hold));
}

/* --- What flows and what is held --- */

static bool holding(const struct weir_sse_edit *e)
{
    return e->member || (e->event && !e->decided);
}

static void write_out(struct work *w, const uint8_t *bytes, size_t n)
{
    memcpy(w->out, bytes, n);
    w->out += n;
}

/* Writes what is held, up to a member that may still go. */
static void let_flow(struct work *w)
{
    struct weir_sse_edit *e = w->e;
    uint32_t n = e->member ? e->member_at : e->held;
    write_out(w, e->hold, n);
    memmove(e->hold, e->hold + n, e->held - n);
    e->held -= n;
    e->member_at = 0;
}

/* The event stays as it is from here on. */
static void leave_alone(struct work *w)
{
    w->e->member = false;
    w->e->decided = true;
    w->e->json = JSON_OFF;
    let_flow(w);
}

/* The event stays; null members may still go. */
static void decide(struct work *w)
{
    if (w->e->decided)
        return;
    w->e->decided = true;
    let_flow(w);
}

/* Sends the bytes read so far their way. */
static void put(struct work *w)
{
    struct weir_sse_edit *e = w->e;
    size_t n = (size_t)(w->at - w->from);
    if (holding(e) && n > sizeof e->hold - e->held)
        leave_alone(w); /* outgrown: not the small event that we look for */
    if (holding(e)) {
        memcpy(e->hold + e->held, w->from, n);
        e->held += (uint32_t)n;
    } else {
        write_out(w, w->from, n);
    }
    w->from = w->at;
}

/* A member begins at w->at (its comma, or its key where it is the first). */
static void member_begin(struct work *w, bool first)
{
    put(w);
    if (w->e->json == JSON_OFF)
        return;
    w->e->member = true;
    w->e->member_at = w->e->held;
    w->e->first = first;
}

static void member_keep(struct work *w)
{
    if (!w->e->member)
        return;
    w->e->member = false;
    if (w->e->decided)
        let_flow(w);
}

/* The member that ends before w->at was a null usage: it goes. */
static void member_drop(struct work *w)
{
    struct weir_sse_edit *e = w->e;
    e->held = e->member_at;
    w->from = w->at;
    e->member = false;
    e->nulls_dropped++;
    decide(w); /* a usage chunk has its usage */
    let_flow(w);
}

/* --- The JSON value of a data line; no CR or LF comes here --- */

static bool is_space(uint8_t b)
{
    return b == ' ' || b == '\t';
}

static void key_step(struct work *w, uint8_t b)
{
    struct weir_sse_edit *e = w->e;
    const char *name = key_names[e->key];
    if (b == '"') {
        if (e->key != KEY_OTHER && name[e->match] != 0)
            e->key = KEY_OTHER;
        if (e->key != KEY_USAGE)
            member_keep(w);
        e->json = JSON_COLON;
        return;
    }
    if (e->match == 0)
        e->key = b == 'u' ? KEY_USAGE : b == 'c' ? KEY_CHOICES : KEY_OTHER;
    name = key_names[e->key];
    if (b == '\\')
        e->json = JSON_KEY_ESCAPE;
    /* A NUL in the key is no end of the name. */
    if (e->key == KEY_OTHER || b == 0 || (uint8_t)name[e->match] != b) {
        e->key = KEY_OTHER;
        member_keep(w);
    }
    e->match = (uint8_t)(e->match == 0 ? 1 : e->match + (e->key != KEY_OTHER));
}

/* The fast path: the comma at w->at leads to a key that lies whole in the input and is not ours. No
 * byte of it needs to be held. */
static bool key_is_plainly_other(struct work *w)
{
    const uint8_t *key = w->at + 2;
    if (w->stop - w->at < 3 || key[-1] != '"')
        return false;
    const uint8_t *quote = weir_scan_string(key, w->stop);
    if (quote == w->stop || *quote != '"')
        return false;
    size_t bytes = (size_t)(quote - key);
    if ((bytes == 5 && memcmp(key, "usage", 5) == 0) ||
        (bytes == 7 && memcmp(key, "choices", 7) == 0))
        return false;
    w->e->key = KEY_OTHER;
    w->e->json = JSON_COLON;
    w->at = quote + 1;
    return true;
}

static void value_step(struct work *w, uint8_t b)
{
    struct weir_sse_edit *e = w->e;
    if (e->key == KEY_USAGE) {
        if (b == 'n') {
            e->json = JSON_NULL;
            e->match = 1;
            return;
        }
        if (b == '{')
            e->usage = USAGE_OBJECT;
        else
            decide(w);
        member_keep(w);
    }
    if (b == '{' || b == '[') {
        e->depth = 2;
        e->json = JSON_NESTED;
        if (e->key == KEY_CHOICES)
            e->json = JSON_CHOICES;
        if (e->key == KEY_CHOICES && b == '{')
            leave_alone(w);
    } else {
        if (e->key == KEY_CHOICES)
            decide(w);
        e->json = b == '"' ? JSON_STRING : JSON_SCALAR;
    }
}

/* After the literal of a null usage: a comma, the end of the object, or space. */
static void null_end_step(struct work *w, uint8_t b)
{
    struct weir_sse_edit *e = w->e;
    bool first = e->first;
    if (b != ',' && b != '}' && !is_space(b)) {
        leave_alone(w);
        return;
    }
    if (first && is_space(b)) {
        w->at++; /* goes with the member */
        return;
    }
    member_drop(w);
    if (b == ',' && first) {
        w->from = ++w->at; /* the comma goes too, and space after it */
        e->json = JSON_SWALLOW;
        return;
    }
    e->json = JSON_AFTER; /* reads this byte again */
}

/* The byte at w->at, in a state of structure. Moves past it, or changes the state to read it again.
 */
static void structure_step(struct work *w)
{
    struct weir_sse_edit *e = w->e;
    uint8_t b = *w->at;
    if (e->json == JSON_NULL_END) {
        null_end_step(w, b);
        return;
    }
    if (is_space(b)) {
        w->at++;
        if (e->json == JSON_SWALLOW)
            w->from = w->at;
        return;
    }
    switch ((enum json)e->json) {
    case JSON_START:
        if (b != '{')
            break;
        e->depth = 1;
        e->json = JSON_MEMBER_FIRST;
        w->at++;
        return;
    case JSON_SWALLOW:
    case JSON_MEMBER_FIRST:
        if (b == '"')
            member_begin(w, true);
        if (b == '}' && e->json == JSON_MEMBER_FIRST) {
            e->json = JSON_END;
            w->at++;
            return;
        }
        /* fall through */
    case JSON_MEMBER:
        if (b != '"' || e->json == JSON_OFF)
            break;
        e->json = JSON_KEY;
        e->key = KEY_OTHER;
        e->match = 0;
        w->at++;
        return;
    case JSON_COLON:
        if (b != ':')
            break;
        e->json = JSON_VALUE;
        w->at++;
        return;
    case JSON_VALUE:
        value_step(w, b);
        w->at++;
        return;
    case JSON_CHOICES:
        e->choices_empty = b == ']';
        if (!e->choices_empty) {
            decide(w);
            e->json = JSON_NESTED; /* reads this byte again */
            return;
        }
        e->json = JSON_AFTER;
        w->at++;
        return;
    case JSON_AFTER:
        if (b == ',' && key_is_plainly_other(w))
            return;
        if (b == ',') {
            member_begin(w, false);
            if (e->json != JSON_OFF)
                e->json = JSON_MEMBER;
        } else if (b == '}') {
            e->json = JSON_END;
        } else {
            break;
        }
        w->at++;
        return;
    case JSON_END:
    case JSON_KEY:
    case JSON_KEY_ESCAPE:
    case JSON_SCALAR:
    case JSON_STRING:
    case JSON_ESCAPE:
    case JSON_NULL:
    case JSON_NULL_END:
    case JSON_NESTED:
    case JSON_NESTED_STRING:
    case JSON_NESTED_ESCAPE:
    case JSON_OFF:
        break;
    }
    leave_alone(w); /* no JSON that we know */
}

static void string_run(struct work *w, enum json escape, enum json after)
{
    w->at = weir_scan_string(w->at, w->stop);
    if (w->at < w->stop)
        w->e->json = (uint8_t)(*w->at++ == '"' ? after : escape);
}

static void nested_run(struct work *w)
{
    struct weir_sse_edit *e = w->e;
    w->at = weir_scan_nested(w->at, w->stop);
    if (w->at == w->stop)
        return;
    uint8_t b = *w->at++;
    if (b == '"')
        e->json = JSON_NESTED_STRING;
    else if ((b | 0x20) == '{')
        e->depth++;
    else if (--e->depth == 1)
        e->json = JSON_AFTER;
}

static void data_run(struct work *w)
{
    struct weir_sse_edit *e = w->e;
    while (w->at < w->stop) {
        switch ((enum json)e->json) {
        case JSON_KEY:
            key_step(w, *w->at++);
            break;
        case JSON_KEY_ESCAPE:
            e->json = JSON_KEY;
            w->at++;
            break;
        case JSON_SCALAR:
            if (*w->at == ',' || *w->at == '}' || is_space(*w->at))
                e->json = JSON_AFTER;
            else
                w->at++;
            break;
        case JSON_STRING:
            string_run(w, JSON_ESCAPE, JSON_AFTER);
            break;
        case JSON_ESCAPE:
            e->json = JSON_STRING;
            w->at++;
            break;
        case JSON_NULL:
            if (*w->at != (uint8_t) "null"[e->match])
                leave_alone(w);
            else if (++e->match == 4)
                e->json = JSON_NULL_END;
            w->at++;
            break;
        case JSON_NESTED:
            nested_run(w);
            break;
        case JSON_NESTED_STRING:
            string_run(w, JSON_NESTED_ESCAPE, JSON_NESTED);
            break;
        case JSON_NESTED_ESCAPE:
            e->json = JSON_NESTED_STRING;
            w->at++;
            break;
        case JSON_OFF:
            w->at = w->stop;
            break;
        case JSON_START:
        case JSON_MEMBER_FIRST:
        case JSON_MEMBER:
        case JSON_COLON:
        case JSON_VALUE:
        case JSON_NULL_END:
        case JSON_SWALLOW:
        case JSON_CHOICES:
        case JSON_AFTER:
        case JSON_END:
            structure_step(w);
            break;
        }
    }
}

/* --- Lines and events --- */

static bool is_usage_chunk(const struct weir_sse_edit *e)
{
    return e->event && !e->decided && e->json == JSON_END && e->choices_empty &&
           e->usage == USAGE_OBJECT;
}

static void event_clear(struct weir_sse_edit *e)
{
    e->event = e->data = e->decided = e->member = false;
    e->choices_empty = false;
    e->usage = USAGE_NONE;
    e->json = JSON_START;
}

/* The line end at w->at ends a line; a blank one ends the event. */
static void line_end(struct work *w)
{
    struct weir_sse_edit *e = w->e;
    bool blank = e->line == LINE_START, drop = blank && is_usage_chunk(e);
    bool data = e->line == LINE_DATA || e->line == LINE_SPACE;
    if (data && e->json != JSON_END)
        leave_alone(w); /* the value goes on in the next line, or is none of ours */
    e->cr = *w->at++ == '\r';
    e->cr_dropped = drop;
    e->line = LINE_START;
    if (!blank)
        return;
    if (drop) {
        e->held = 0;
        w->from = w->at;
        e->chunks_dropped++;
    } else {
        put(w);
        leave_alone(w);
    }
    event_clear(e);
}

static void line_start(struct work *w)
{
    struct weir_sse_edit *e = w->e;
    if (*w->at == ':' && !e->event) {
        e->line = LINE_COMMENT;
        return;
    }
    put(w); /* what came before is no part of this event */
    e->event = true;
    e->line = LINE_NAME;
    e->match = 0;
    if (!e->data && w->end - w->at >= 6 && memcmp(w->at, "data: ", 6) == 0) {
        e->data = true;
        e->line = LINE_DATA;
        w->at += 6;
    }
}

static void name_step(struct work *w)
{
    struct weir_sse_edit *e = w->e;
    uint8_t b = *w->at++;
    if (b == ':' && e->match == 4) {
        e->line = LINE_SPACE;
        if (e->data)
            leave_alone(w); /* a second data line */
        e->data = true;
    } else if (b != (uint8_t) "data"[e->match & 3] || e->match == 4) {
        e->line = LINE_OTHER;
    } else {
        e->match++;
    }
}

size_t weir_sse_edit_feed(struct weir_sse_edit *e, const void *bytes, size_t n, void *out)
{
    const uint8_t *p = bytes;
    struct work w = {e, p, p, p + n, p, out};
    while (w.at < w.end) {
        bool after_cr = e->cr;
        e->cr = false;
        if (e->bom < sizeof byte_order_mark) {
            if (*w.at == byte_order_mark[e->bom]) {
                e->bom++;
                w.at++;
                continue;
            }
            if (e->bom > 0)
                e->line = LINE_COMMENT; /* no mark after all: a field nobody knows */
            e->bom = sizeof byte_order_mark;
        }
        if (after_cr && *w.at == '\n') {
            w.at++;
            if (e->cr_dropped)
                w.from = w.at;
            continue;
        }
        if (*w.at == '\n' || *w.at == '\r') {
            line_end(&w);
            continue;
        }
        switch ((enum line)e->line) {
        case LINE_START:
            line_start(&w);
            break;
        case LINE_NAME:
            name_step(&w);
            break;
        case LINE_SPACE:
            e->line = LINE_DATA;
            w.at += *w.at == ' ';
            break;
        case LINE_DATA:
            w.stop = weir_scan_line(w.at, w.end);
            data_run(&w);
            break;
        case LINE_OTHER:
        case LINE_COMMENT:
            w.at = weir_scan_line(w.at, w.end);
            break;
        }
    }
    put(&w);
    return (size_t)(w.out - (uint8_t *)out);
}

size_t weir_sse_edit_finish(struct weir_sse_edit *e, void *out)
{
    struct work w = {.e = e, .out = out};
    if (is_usage_chunk(e)) {
        e->held = 0;
        e->chunks_dropped++;
    }
    leave_alone(&w);
    return (size_t)(w.out - (uint8_t *)out);
}
