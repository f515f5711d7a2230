#include "wire/usage.h"

#include <string.h>

#include "wire/scan.h"
#include "wire/usage_schema.h"

/* Where in a line of a stream. */
enum line {
    LINE_START,
    LINE_NAME,
    LINE_DATA_SPACE, /* after "data:": one space is not part of the value */
    LINE_DATA,
    LINE_EVENT_SPACE,
    LINE_EVENT,
    LINE_OTHER
};

static const char done_mark[] = "[DONE]";

static void draft_clear(struct weir_usage_draft *d)
{
    d->value_has = 0;
    d->usage_has = d->error_has = d->choice_index_has = false;
    d->texts = 0;
    d->text = NULL;
    d->text_bytes = d->output_bytes = d->delta_bytes = 0;
    d->choice_bytes = d->choice_index = d->choices_before = 0;
    d->type[0] = d->finish[0] = d->status[0] = d->code[0] = 0;
    d->error_type[0] = d->error_code[0] = 0;
}

void weir_usage_init(struct weir_usage *u, enum weir_api api, bool stream)
{
    memset(u, 0, sizeof *u);
    u->api = api;
    u->stream = stream;
    weir_json_push_init(&u->json);
}

/* --- What one document says --- */

static void draft_value(struct weir_usage_draft *d, enum weir_usage_field field, uint64_t value)
{
    if (value > (uint64_t)WEIR_TOK_MAX)
        return; /* no count of tokens */
    d->value[field] = value;
    d->value_has = (uint8_t)(d->value_has | 1u << field);
}

static void keep_word(char word[WEIR_USAGE_WORD_BYTES], const struct weir_json_push *p)
{
    _Static_assert(WEIR_USAGE_WORD_BYTES >= WEIR_JSON_PUSH_WORD, "a word fits with its NUL");
    memcpy(word, p->word, p->word_bytes + 1u);
}

/* A choice ends: its text counts as text when it is choice 0. Without an index, by its place. */
static void draft_choice_end(struct weir_usage_draft *d)
{
    uint64_t index = d->choice_index_has ? d->choice_index : d->choices_before;
    if (index == 0)
        d->text_bytes += d->choice_bytes;
    d->choices_before++;
    d->choice_index_has = false;
    d->choice_bytes = 0;
}

static void draft_text(struct weir_usage_draft *d, const struct weir_json_push *p)
{
    d->output_bytes += p->text_bytes;
    d->texts = (uint8_t)(d->texts + (d->texts < UINT8_MAX));
    d->text = p->text;
}

static void draft_told(void *arg, const struct weir_json_push *p, uint8_t node,
                       enum weir_push_event event)
{
    struct weir_usage_draft *d = arg;
    switch ((enum usage_node)node) {
    case NODE_USAGE:
        d->usage_has = true;
        break;
    case NODE_ERROR:
        d->error_has = true;
        break;
    case NODE_CHOICE:
        if (event == WEIR_PUSH_END)
            draft_choice_end(d);
        break;
    case NODE_TYPE:
        keep_word(d->type, p);
        break;
    case NODE_STATUS:
        keep_word(d->status, p);
        break;
    case NODE_FINISH:
        keep_word(d->finish, p);
        break;
    case NODE_CODE:
        keep_word(d->code, p);
        break;
    case NODE_ERROR_TYPE:
        keep_word(d->error_type, p);
        break;
    case NODE_ERROR_CODE:
        keep_word(d->error_code, p);
        break;
    case NODE_ERROR_TEXT:
        d->error_has = true;
        break;
    case NODE_DELTA_TEXT:
        d->delta_bytes += p->text_bytes;
        draft_text(d, p);
        break;
    case NODE_CHOICE_TEXT:
        d->choice_bytes += p->text_bytes;
        draft_text(d, p);
        break;
    case NODE_TEXT:
        d->text_bytes += p->text_bytes;
        draft_text(d, p);
        break;
    case NODE_OTHER_TEXT:
        draft_text(d, p);
        break;
    case NODE_INDEX:
        d->choice_index = p->number;
        d->choice_index_has = true;
        break;
    case NODE_FIELD_INPUT:
    case NODE_FIELD_OUTPUT:
    case NODE_FIELD_CACHED:
    case NODE_FIELD_CACHE_WRITE:
    case NODE_FIELD_REASONING:
    case NODE_FIELD_CACHE_READ_A:
    case NODE_FIELD_CACHE_WRITE_A:
        draft_value(d, (enum weir_usage_field)(node - NODE_FIELD_INPUT), p->number);
        break;
    case NODE_SKIP:
    case NODE_TOP:
    case NODE_CHOICES:
    case NODE_CHOICE_MESSAGE:
    case NODE_TOOL_CALLS:
    case NODE_TOOL_CALL:
    case NODE_FUNCTION:
    case NODE_INPUT_DETAILS:
    case NODE_OUTPUT_DETAILS:
    case NODE_RESPONSE:
    case NODE_MESSAGE:
    case NODE_DELTA:
    case NODE_CONTENT:
    case NODE_BLOCK:
    case NODE_OUTPUT:
    case NODE_ITEM:
    case NODE_ITEM_CONTENT:
    case NODE_ITEM_PART:
    case NODE_COUNT:
        break;
    }
}

static void feed_json(struct weir_usage *u, const uint8_t *bytes, size_t n)
{
    weir_json_push_feed(&u->json, weir_usage_schema, draft_told, &u->draft, bytes, n);
}

/* --- What counts --- */

static inline bool word_is(const char *word, const char *want)
{
    return word[0] == want[0] && strcmp(word, want) == 0;
}

static bool has_value(const struct weir_usage *u, enum weir_usage_field field)
{
    return u->value_has >> field & 1;
}

static uint64_t value_of(const struct weir_usage *u, enum weir_usage_field field)
{
    return has_value(u, field) ? u->value[field] : 0;
}

/* Books the values of a complete document: the last one of each field counts. */
static void count_values(struct weir_usage *u)
{
    const struct weir_usage_draft *d = &u->draft;
    struct weir_usage_seen *seen = &u->seen;
    for (uint32_t i = 0; i < WEIR_USAGE_FIELDS; i++)
        if (d->value_has >> i & 1)
            u->value[i] = d->value[i];
    u->value_has |= d->value_has;
    if (d->value_has == 0)
        return;
    seen->input_known = has_value(u, WEIR_USAGE_INPUT);
    seen->output_known = has_value(u, WEIR_USAGE_OUTPUT) ||
                         (u->api == WEIR_API_OPENAI_EMBEDDINGS && seen->input_known);
    uint64_t read_a = value_of(u, WEIR_USAGE_CACHE_READ_A);
    uint64_t write_a = value_of(u, WEIR_USAGE_CACHE_WRITE_A);
    seen->input_total_tok = value_of(u, WEIR_USAGE_INPUT) + read_a + write_a;
    seen->output_total_tok = value_of(u, WEIR_USAGE_OUTPUT);
    seen->cache_read_tok = value_of(u, WEIR_USAGE_CACHED) + read_a;
    seen->cache_write_tok = value_of(u, WEIR_USAGE_CACHE_WRITE) + write_a;
    seen->reasoning_tok = value_of(u, WEIR_USAGE_REASONING);
}

static void count_error(struct weir_usage *u)
{
    const struct weir_usage_draft *d = &u->draft;
    struct weir_usage_seen *seen = &u->seen;
    bool event = word_is(d->type, "error") || (d->type[0] == 0 && word_is(u->event, "error"));
    if (!d->error_has && !event)
        return;
    const char *code = d->error_code[0] ? d->error_code : d->code;
    const char *type = d->error_type[0] ? d->error_type : code;
    seen->error = true;
    memcpy(seen->error_type, type, sizeof seen->error_type);
    memcpy(seen->error_code, code, sizeof seen->error_code);
}

/* A complete document: an event of a stream, or a body. */
static void count_document(struct weir_usage *u)
{
    const struct weir_usage_draft *d = &u->draft;
    struct weir_usage_seen *seen = &u->seen;
    bool last = word_is(d->type, "response.completed") || word_is(d->type, "response.incomplete");
    bool failed = word_is(d->type, "response.failed");
    count_values(u);
    count_error(u);
    /* The whole text comes again in the last events of Responses: only the deltas count. */
    seen->output_bytes += d->output_bytes;
    seen->text_bytes += d->text_bytes;
    if (word_is(d->type, "response.output_text.delta"))
        seen->text_bytes += d->delta_bytes;
    if (d->finish[0])
        memcpy(seen->finish, d->finish, sizeof seen->finish);
    if (d->status[0] && (last || failed || !u->stream))
        memcpy(seen->finish, d->status, sizeof seen->finish);
    if (failed)
        seen->error = true;
    if (last || word_is(d->type, "message_stop") || !u->stream)
        u->ended = true;
}

/* --- Streams --- */

/* Whether an event said nothing but one plain piece of text. Only then does the same event with
 * another text say the same. */
static bool is_ordinary(const struct weir_usage_draft *d)
{
    return d->texts == 1 && d->text && d->output_bytes > 0 && d->value_has == 0 && !d->usage_has &&
           !d->error_has && !d->finish[0] && !d->status[0] && !d->code[0];
}

/* The event at p, if it is the last ordinary one with other text. Returns its end, or NULL. */
static const uint8_t *event_again(struct weir_usage *u, const uint8_t *p, const uint8_t *end)
{
    uint64_t text_bytes;
    const uint8_t *after = weir_usage_again_match(&u->again, p, end, &text_bytes);
    if (!after)
        return NULL;
    u->seen.events++;
    u->seen.output_bytes += text_bytes;
    if (u->again.counts_text)
        u->seen.text_bytes += text_bytes;
    u->line_cr = after[-1] == '\r';
    return after;
}

/* A blank line: the event is complete. */
static void event_end(struct weir_usage *u)
{
    u->ordinary = NULL;
    if (u->data_any) {
        bool done = u->head_bytes >= sizeof done_mark - 1 &&
                    memcmp(u->head, done_mark, sizeof done_mark - 1) == 0;
        if (done) {
            u->ended = true;
        } else {
            bool ended = u->ended, error = u->seen.error;
            uint64_t text_bytes = u->seen.text_bytes;
            u->seen.events++;
            if (weir_json_push_done(&u->json)) {
                count_document(u);
                if (u->ended == ended && u->seen.error == error && is_ordinary(&u->draft)) {
                    u->ordinary = u->draft.text;
                    u->ordinary_bytes = u->draft.output_bytes;
                    u->ordinary_counts_text = u->seen.text_bytes > text_bytes;
                }
            } else {
                u->seen.unreadable = true;
            }
        }
        draft_clear(&u->draft);
        weir_json_push_init(&u->json);
    }
    u->data_any = false;
    u->head_bytes = 0;
    u->event_bytes = 0;
    u->event[0] = 0;
}

static void data_begin(struct weir_usage *u)
{
    static const uint8_t joint = '\n';
    if (u->data_any)
        feed_json(u, &joint, 1); /* several data lines are one value, joined by LF */
    u->data_any = true;
}

/* The name of a field is complete, at its colon or at the end of the line. */
static void name_end(struct weir_usage *u)
{
    u->line = LINE_OTHER;
    if (u->name_bytes == 4 && memcmp(u->name, "data", 4) == 0) {
        u->line = LINE_DATA_SPACE;
        data_begin(u);
    } else if (u->name_bytes == 5 && memcmp(u->name, "event", 5) == 0) {
        u->line = LINE_EVENT_SPACE;
        u->event_bytes = 0;
    }
    u->name_bytes = 0;
}

static void line_end(struct weir_usage *u)
{
    if (u->line == LINE_START)
        event_end(u);
    else if (u->line == LINE_NAME)
        name_end(u); /* a field without a colon has an empty value */
    u->event[u->event_bytes] = 0;
    u->line = LINE_START;
    u->name_bytes = 0;
}

static void data_add(struct weir_usage *u, const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n && u->head_bytes < sizeof done_mark - 1; i++)
        u->head[u->head_bytes++] = (char)bytes[i];
    feed_json(u, bytes, n);
}

/* Bytes of one line from p up to its end (exclusive) or the end of the input. */
static const uint8_t *line_run(struct weir_usage *u, const uint8_t *p, const uint8_t *end)
{
    switch ((enum line)u->line) {
    case LINE_START:
        if (end - p >= 6 && memcmp(p, "data: ", 6) == 0) {
            data_begin(u);
            u->line = LINE_DATA;
            return p + 6;
        }
        u->line = LINE_NAME;
        return p;
    case LINE_NAME:
        if (*p == ':') {
            name_end(u);
            return p + 1;
        }
        if (u->name_bytes < sizeof u->name)
            u->name[u->name_bytes++] = (char)*p; /* a full one is longer than any of ours */
        return p + 1;
    case LINE_DATA_SPACE:
    case LINE_EVENT_SPACE:
        u->line = u->line == LINE_DATA_SPACE ? LINE_DATA : LINE_EVENT;
        return *p == ' ' ? p + 1 : p;
    case LINE_DATA: {
        const uint8_t *stop = weir_scan_line(p, end);
        data_add(u, p, (size_t)(stop - p));
        return stop;
    }
    case LINE_EVENT:
        if (u->event_bytes < sizeof u->event - 1)
            u->event[u->event_bytes++] = (char)*p;
        return p + 1;
    case LINE_OTHER:
        return weir_scan_line(p, end);
    }
    return end;
}

/* A byte order mark at the very start is passed over. Returns where the rest begins. */
static const uint8_t *pass_bom(struct weir_usage *u, const uint8_t *p, const uint8_t *end)
{
    static const uint8_t bom[] = {0xef, 0xbb, 0xbf};
    while (p < end && u->bom_bytes < sizeof bom) {
        if (*p != bom[u->bom_bytes]) {
            /* Not one: what looked like its beginning is the name of an unknown field. */
            if (u->bom_bytes > 0)
                u->line = LINE_OTHER;
            break;
        }
        u->bom_bytes++;
        p++;
    }
    if (p < end)
        u->bom_checked = true;
    return p;
}

static void feed_stream(struct weir_usage *u, const uint8_t *p, const uint8_t *end)
{
    const uint8_t *event_at = NULL; /* where the event at hand begins, when in this input */
    if (!u->bom_checked)
        p = pass_bom(u, p, end);
    while (p < end) {
        bool after_cr = u->line_cr;
        if (!after_cr && u->line == LINE_START && !u->data_any && u->event_bytes == 0) {
            const uint8_t *after = event_again(u, p, end);
            if (after) {
                p = after;
                continue;
            }
            event_at = p;
        }
        u->line_cr = false;
        if (*p == '\n' || *p == '\r') {
            u->line_cr = *p == '\r';
            p++;
            if (after_cr && p[-1] == '\n')
                continue;
            u->ordinary = NULL;
            line_end(u);
            if (u->ordinary && event_at)
                weir_usage_again_learn(&u->again, event_at, p, u->ordinary, u->ordinary_bytes,
                                       u->ordinary_counts_text);
            continue;
        }
        p = line_run(u, p, end);
    }
}

void weir_usage_feed(struct weir_usage *u, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    if (u->stream)
        feed_stream(u, p, p + n);
    else
        feed_json(u, p, n);
}

void weir_usage_finish(struct weir_usage *u)
{
    struct weir_usage_seen *seen = &u->seen;
    bool whole = weir_json_push_done(&u->json);
    if (u->stream) {
        /* SDKs dispatch an unterminated last event. A whole JSON value cannot be a fragment. */
        bool mark = u->head_bytes == sizeof done_mark - 1 &&
                    memcmp(u->head, done_mark, sizeof done_mark - 1) == 0;
        if (u->data_any && (whole || mark))
            event_end(u);
    } else if (whole) {
        count_document(u);
        draft_clear(&u->draft);
    } else {
        seen->unreadable = weir_json_push_failed(&u->json);
    }
    seen->output_bytes += u->draft.output_bytes + weir_json_push_text_open(&u->json);
    seen->complete = u->ended && !seen->error;
}
