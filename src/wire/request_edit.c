#include "wire/request.h"

#include <stdio.h>
#include <string.h>

/* --- What to tell the client --- */

size_t weir_request_fault_text(const struct weir_request_facts *f, char *out, size_t cap)
{
    const char *key = weir_request_key_name(f->fault_key);
    char found[24];
    if (f->fault_byte > 0x20 && f->fault_byte < 0x7f && f->fault_byte != '\'')
        snprintf(found, sizeof found, "'%c'", f->fault_byte);
    else
        snprintf(found, sizeof found, "byte 0x%02x", f->fault_byte);
    int n = 0;
    switch (f->fault) {
    case WEIR_REQUEST_OK:
        n = snprintf(out, cap, "The request body is well formed.");
        break;
    case WEIR_REQUEST_EMPTY:
        n = snprintf(out, cap, "The request has no body; this path takes a JSON object.");
        break;
    case WEIR_REQUEST_NOT_OBJECT:
        n = snprintf(out, cap,
                     "The request body is JSON but not an object: it begins with %s at byte %zu, "
                     "where '{' is needed.",
                     found, f->fault_at);
        break;
    case WEIR_REQUEST_SYNTAX:
        n = snprintf(out, cap,
                     "The request body is not valid JSON: unexpected %s at byte %zu (counted from "
                     "0).%s",
                     found, f->fault_at,
                     f->fault_at == 0 && f->fault_byte == 0xef
                         ? " It seems to begin with a byte order mark; send UTF-8 without one."
                         : "");
        break;
    case WEIR_REQUEST_CUT:
        n = snprintf(out, cap,
                     "The request body ends too early: the JSON document is not complete after its "
                     "last byte, number %zu.",
                     f->fault_at);
        break;
    case WEIR_REQUEST_TRAILING:
        n = snprintf(out, cap,
                     "The request body goes on after the end of its JSON document: %s at byte %zu. "
                     "Send one document only.",
                     found, f->fault_at);
        break;
    case WEIR_REQUEST_DEPTH:
        n = snprintf(out, cap, "The request body is nested deeper than %d levels at byte %zu.",
                     WEIR_REQUEST_DEPTH_MAX, f->fault_at);
        break;
    case WEIR_REQUEST_UTF8:
        n = snprintf(out, cap, "The request body is not valid UTF-8: %s at byte %zu.", found,
                     f->fault_at);
        break;
    case WEIR_REQUEST_CONTROL:
        n = snprintf(out, cap,
                     "The request body has a raw control character (%s) inside a string at byte "
                     "%zu; write it as an escape, such as \\n or \\u%04x.",
                     found, f->fault_at, f->fault_byte);
        break;
    case WEIR_REQUEST_ESCAPE:
        n = snprintf(out, cap, "The request body has a malformed escape in a string at byte %zu.",
                     f->fault_at);
        break;
    case WEIR_REQUEST_NUMBER:
        n = snprintf(out, cap, "The request body has a malformed number: %s at byte %zu.", found,
                     f->fault_at);
        break;
    case WEIR_REQUEST_DUPLICATE:
        n = snprintf(out, cap,
                     "'%s' is given twice, the second time at byte %zu. Gateway and model server "
                     "could read different values, so it may stand once only.",
                     key, f->fault_at);
        break;
    case WEIR_REQUEST_SPELLING:
        n = snprintf(
            out, cap,
            "A member at byte %zu is '%s' in another spelling (by escapes or letter case), "
            "which some servers read as that and some do not. Write it plainly.",
            f->fault_at, key);
        break;
    case WEIR_REQUEST_NOT_STRING:
        n = snprintf(out, cap, "'%s' must be a string; found %s at byte %zu.", key, found,
                     f->fault_at);
        break;
    case WEIR_REQUEST_NOT_BOOL:
        n = snprintf(out, cap, "'%s' must be true or false; found %s at byte %zu.", key, found,
                     f->fault_at);
        break;
    case WEIR_REQUEST_NOT_WHOLE:
        n = snprintf(out, cap,
                     "'%s' must be a whole number, written without fraction or exponent; see byte "
                     "%zu.",
                     key, f->fault_at);
        break;
    case WEIR_REQUEST_OUT_OF_RANGE: {
        bool count = f->fault_key == WEIR_KEY_N || f->fault_key == WEIR_KEY_BEST_OF;
        n = snprintf(out, cap, "'%s' at byte %zu is out of range; allowed is %d to %lld.", key,
                     f->fault_at, count ? 1 : 0,
                     count ? (long long)WEIR_REQUEST_N_MAX : (long long)WEIR_TOK_MAX);
        break;
    }
    case WEIR_REQUEST_NOT_AN_OBJECT:
        n = snprintf(out, cap, "'%s' must be an object; found %s at byte %zu.", key, found,
                     f->fault_at);
        break;
    case WEIR_REQUEST_NAME_TOO_LONG:
        n = snprintf(out, cap, "'%s' at byte %zu is longer than %d bytes.", key, f->fault_at,
                     WEIR_MODEL_BYTES_MAX);
        break;
    case WEIR_REQUEST_NAME_BAD:
        n = snprintf(out, cap,
                     "'%s' at byte %zu has a control character or half a surrogate pair in it.",
                     key, f->fault_at);
        break;
    }
    if (n < 0 || cap == 0)
        return 0;
    return (size_t)weir_min_u64((uint64_t)n, cap - 1);
}

/* --- Edits --- */

static void plan_add(struct weir_request_edits *e, size_t at, size_t removed_bytes,
                     const char *before, const char *text, const char *after)
{
    size_t room = sizeof e->text - e->text_bytes;
    int n = snprintf(e->text + e->text_bytes, room, "%s%s%s", before, text, after);
    WEIR_INVARIANT(n >= 0 && (size_t)n < room);
    WEIR_INVARIANT(e->splices_now < WEIR_COUNT(e->splices));
    uint32_t i = e->splices_now++;
    for (; i > 0 && e->splices[i - 1].at > at; i--)
        e->splices[i] = e->splices[i - 1];
    e->splices[i] = (struct weir_splice){at, removed_bytes, e->text_bytes, (uint32_t)n};
    e->text_bytes += (uint32_t)n;
}

static void plan_include_usage(struct weir_request_edits *e, const struct weir_request_facts *f)
{
    static const char member[] = "\"include_usage\":true";
    if (f->include_value.bytes > 0) /* false or null */
        plan_add(e, f->include_value.at, f->include_value.bytes, "", "true", "");
    else if (f->options_is_object)
        plan_add(e, f->options_value.at + 1, 0, "", member, f->options_empty ? "" : ",");
    else if (f->options_value.bytes > 0) /* null */
        plan_add(e, f->options_value.at, f->options_value.bytes, "{", member, "}");
    else
        plan_add(e, f->open_at, 0, "\"stream_options\":{", member, f->open_empty ? "}" : "},");
}

static const char *limit_name(enum weir_api api, bool modern)
{
    switch (api) {
    case WEIR_API_OPENAI_CHAT:
        return weir_request_key_name(modern ? WEIR_KEY_MAX_COMPLETION_TOKENS : WEIR_KEY_MAX_TOKENS);
    case WEIR_API_OPENAI_COMPLETIONS:
    case WEIR_API_ANTHROPIC_MESSAGES:
        return weir_request_key_name(WEIR_KEY_MAX_TOKENS);
    case WEIR_API_OPENAI_RESPONSES:
        return weir_request_key_name(WEIR_KEY_MAX_OUTPUT_TOKENS);
    case WEIR_API_OPENAI_EMBEDDINGS:
    case WEIR_API_ANTHROPIC_COUNT:
    case WEIR_API_MODELS:
    case WEIR_API_OTHER:
        break;
    }
    return NULL;
}

bool weir_request_plan(struct weir_request_edits *e, const struct weir_request_facts *f,
                       enum weir_api api, bool add_include_usage, uint64_t limit_tok,
                       bool modern_limit)
{
    memset(e, 0, sizeof *e);
    if (f->fault != WEIR_REQUEST_OK)
        return false;
    bool chat = api == WEIR_API_OPENAI_CHAT || api == WEIR_API_OPENAI_COMPLETIONS;
    if (add_include_usage && chat && f->stream && !f->has_include_usage)
        plan_include_usage(e, f);
    const char *name = limit_name(api, modern_limit);
    if (limit_tok > 0 && name && !f->has_limit) {
        char number[24], member[64];
        snprintf(number, sizeof number, "%llu", (unsigned long long)limit_tok);
        snprintf(member, sizeof member, "\"%s\":%s", name, number);
        if (f->limit_null.bytes > 0)
            plan_add(e, f->limit_null.at, f->limit_null.bytes, "", number, "");
        else
            plan_add(e, f->open_at, 0, "", member, f->open_empty ? "" : ",");
    }
    return e->splices_now > 0;
}

size_t weir_request_edited_bytes(const struct weir_request_edits *e, size_t body_bytes)
{
    for (uint32_t i = 0; i < e->splices_now; i++)
        body_bytes += e->splices[i].insert_bytes - e->splices[i].removed_bytes;
    return body_bytes;
}

void weir_request_edit(const struct weir_request_edits *e, const void *body, size_t body_bytes,
                       void *out)
{
    const uint8_t *from = body;
    uint8_t *to = out;
    size_t at = 0;
    for (uint32_t i = 0; i < e->splices_now; i++) {
        const struct weir_splice *s = &e->splices[i];
        memcpy(to, from + at, s->at - at);
        to += s->at - at;
        memcpy(to, e->text + s->insert_at, s->insert_bytes);
        to += s->insert_bytes;
        at = s->at + s->removed_bytes;
    }
    memcpy(to, from + at, body_bytes - at);
}
