#include "measure/load_inside.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define LOAD_KEY_SHOWN_BYTES 12u /* so much of a key in a text is enough to leave the text out */

/* ---- what an endpoint says must not show a key ---- */

static bool load_shows_key(const struct load_call *c, const char *text)
{
    const char *key = c->load->keys[c->record.key_index].text;
    char front[LOAD_KEY_SHOWN_BYTES + 1];
    if (!key || strlen(key) < 4)
        return false;
    snprintf(front, sizeof front, "%s", key);
    return strstr(text, front) != NULL;
}

/* Copies what an endpoint said: printable ASCII only, and nothing at all when it repeats the
 * key. */
static void load_copy_said(const struct load_call *c, char *out, size_t out_bytes,
                           struct weir_slice said)
{
    size_t n = said.bytes < out_bytes - 1 ? said.bytes : out_bytes - 1;
    for (size_t i = 0; i < n; i++)
        out[i] = said.at[i] > ' ' && said.at[i] < 0x7f ? said.at[i] : '_';
    out[n] = '\0';
    if (load_shows_key(c, out))
        snprintf(out, out_bytes, "(it repeats the key)");
}

/* ---- the head ---- */

static bool load_contains_caseless(struct weir_slice text, struct weir_slice part)
{
    for (size_t i = 0; i + part.bytes <= text.bytes; i++)
        if (weir_slice_equal_caseless((struct weir_slice){text.at + i, part.bytes}, part))
            return true;
    return false;
}

static bool load_begins_caseless(struct weir_slice text, struct weir_slice front)
{
    return text.bytes >= front.bytes &&
           weir_slice_equal_caseless((struct weir_slice){text.at, front.bytes}, front);
}

static bool load_is_limit_header(struct weir_slice name)
{
    return load_begins_caseless(name, WEIR_SLICE("x-ratelimit-")) ||
           load_begins_caseless(name, WEIR_SLICE("anthropic-ratelimit-")) ||
           load_begins_caseless(name, WEIR_SLICE("anthropic-priority-")) ||
           load_begins_caseless(name, WEIR_SLICE("ratelimit"));
}

/* Adds "name: value" to what was advertised, in printable ASCII; nothing of a line that repeats the key. */
static size_t load_advertise(struct load_call *c, size_t used, struct weir_slice name,
                             struct weir_slice value)
{
    char line[WEIR_LOAD_DETAIL_BYTES];
    char *advertised = c->load->advertised;
    int n = snprintf(line, sizeof line, "%.*s: %.*s", (int)name.bytes, name.at, (int)value.bytes,
                     value.at);
    for (char *at = line; *at; at++)
        if (*at < ' ' || *at >= 0x7f)
            *at = '?';
    bool fits = n > 0 && (size_t)n < sizeof line && (size_t)n + 2 <= WEIR_LOAD_LIMITS_BYTES - used;
    if (!fits || load_shows_key(c, line))
        return used;
    memcpy(advertised + used, line, (size_t)n);
    memcpy(advertised + used + n, "\n", 2);
    return used + (size_t)n + 1;
}

/* Reads hints and limits; what was advertised is written anew by the first limit of a head. */
static void load_head_hints(struct load_call *c, const struct weir_http_head *head)
{
    size_t used = 0;
    weir_hints_init(&c->hints);
    for (uint32_t i = 0; i < head->header_count; i++) {
        struct weir_slice name = weir_http_header_name(head, i);
        struct weir_slice value = weir_http_header_value(head, i);
        weir_hints_header(&c->hints, name.at, name.bytes, value.at, value.bytes);
        if (load_is_limit_header(name))
            used = load_advertise(c, used, name, value);
    }
}

static void load_on_sent(void *ctx)
{
    struct load_call *c = ctx;
    c->record.sent_ns = weir_loop_clock_ns();
}

static void load_on_head(void *ctx, const struct weir_http_head *head)
{
    struct load_call *c = ctx;
    struct weir_load_record *r = &c->record;
    r->head_ns = weir_loop_clock_ns();
    r->status = head->status;
    struct weir_slice type = weir_http_value_by_text(head, WEIR_SLICE("content-type"));
    struct weir_slice coding = weir_http_value_by_text(head, WEIR_SLICE("content-encoding"));
    struct weir_slice source = weir_http_value_by_text(head, WEIR_SLICE("weir-source"));
    struct weir_slice location = weir_http_value_by_text(head, WEIR_SLICE("location"));
    r->is_stream = load_begins_caseless(type, WEIR_SLICE("text/event-stream"));
    r->from_gateway = weir_slice_equal(source, WEIR_SLICE("gateway"));
    c->is_html = load_contains_caseless(type, WEIR_SLICE("html"));
    c->is_coded = coding.bytes > 0 && !weir_slice_equal_caseless(coding, WEIR_SLICE("identity"));
    if (location.bytes > 0)
        load_copy_said(c, c->location, sizeof c->location, location);
    if (r->from_gateway) /* not every dialect's error body has a code */
        load_copy_said(c, r->code, sizeof r->code,
                       weir_http_value_by_text(head, WEIR_SLICE("weir-reason")));
    load_head_hints(c, head);
    weir_usage_init(&c->usage, c->load->endpoint.api, r->is_stream);
}

/* ---- the body ---- */

static void load_on_body(void *ctx, struct weir_slice bytes)
{
    struct load_call *c = ctx;
    struct weir_load_record *r = &c->record;
    if (c->answer_bytes == 0 && bytes.bytes > 0 && bytes.at[0] == '<')
        c->is_html = true;
    c->answer_bytes += bytes.bytes;
    if (c->is_coded || c->is_html)
        return;
    weir_usage_feed(&c->usage, bytes.at, bytes.bytes);
    if (r->is_stream && r->first_token_ns == 0 && c->usage.seen.output_bytes > 0)
        r->first_token_ns = weir_loop_clock_ns();
}

/* ---- the verdict ---- */

static enum weir_load_end load_end_of_failure(enum weir_call_failure failure)
{
    switch (failure) {
    case WEIR_CALL_OK:
        return WEIR_LOAD_OK;
    case WEIR_CALL_E_RESOLVE:
        return WEIR_LOAD_RESOLVE;
    case WEIR_CALL_E_CONNECT:
        return WEIR_LOAD_CONNECT;
    case WEIR_CALL_E_TLS:
        return WEIR_LOAD_TLS;
    case WEIR_CALL_E_CONNECT_TIMEOUT:
        return WEIR_LOAD_TIMEOUT_CONNECT;
    case WEIR_CALL_E_WRITE:
        return WEIR_LOAD_RESET;
    case WEIR_CALL_E_WRITE_TIMEOUT:
        return WEIR_LOAD_TIMEOUT_WRITE;
    case WEIR_CALL_E_FIRST_BYTE_TIMEOUT:
        return WEIR_LOAD_TIMEOUT_HEAD;
    case WEIR_CALL_E_IDLE_TIMEOUT:
        return WEIR_LOAD_TIMEOUT_IDLE;
    case WEIR_CALL_E_TOTAL_TIMEOUT:
        return WEIR_LOAD_TIMEOUT_TOTAL;
    case WEIR_CALL_E_ANSWER:
        return WEIR_LOAD_GARBAGE;
    case WEIR_CALL_E_CUT:
        return WEIR_LOAD_CUT;
    case WEIR_CALL_E_DESCRIPTORS:
        return WEIR_LOAD_DESCRIPTORS;
    }
    return WEIR_LOAD_CUT;
}

/* A whole answer with status 200 whose framing held: is it one of this API? */
static enum weir_load_end load_judge_body(struct load_call *c,
                                          char detail[static WEIR_LOAD_DETAIL_BYTES])
{
    const struct weir_usage_seen *seen = &c->usage.seen;
    const char *api = weir_api_name(c->load->endpoint.api), *why = NULL;
    enum weir_load_end end = WEIR_LOAD_GARBAGE;
    bool is_generation = c->load->endpoint.api != WEIR_API_OPENAI_EMBEDDINGS;
    if (c->is_html) {
        end = WEIR_LOAD_HTML;
        why = "a web page";
    } else if (c->answer_bytes == 0) {
        why = "an empty body";
    } else if (c->is_coded) {
        why = "a compressed body, although none was asked for";
    } else if (seen->error) {
        end = WEIR_LOAD_ERROR_EVENT;
        why = "an error inside the answer";
    } else if (seen->unreadable || (c->record.is_stream && seen->events == 0)) {
        why = c->record.is_stream ? "an event stream without readable events"
                                  : "a body that is no JSON";
    } else if (!seen->complete) {
        end = WEIR_LOAD_CUT;
        why = c->record.is_stream ? "a stream that ended without its last word"
                                  : "a JSON body cut short";
    } else if (is_generation && seen->output_bytes == 0 && !seen->output_known &&
               !seen->finish[0]) {
        why = "JSON without output, finish or usage";
    }
    if (!why)
        return WEIR_LOAD_OK;
    snprintf(detail, WEIR_LOAD_DETAIL_BYTES,
             "status %u with %s where an answer of %s was expected%s%s", c->record.status, why, api,
             c->record.code[0] ? ": " : "", c->record.code);
    return end;
}

static enum weir_load_end load_judge_status(const struct load_call *c,
                                            char detail[static WEIR_LOAD_DETAIL_BYTES])
{
    const struct weir_load_record *r = &c->record;
    if (r->status < 400) {
        snprintf(detail, WEIR_LOAD_DETAIL_BYTES, "status %u to %s", r->status,
                 c->location[0] ? c->location : "an address it does not name");
        return WEIR_LOAD_REDIRECT;
    }
    snprintf(detail, WEIR_LOAD_DETAIL_BYTES, "status %u%s%s%s", r->status, r->code[0] ? " " : "",
             r->code, r->from_gateway ? " from a weir gateway" : "");
    if (r->status == 429)
        return WEIR_LOAD_429;
    return r->status < 500 ? WEIR_LOAD_4XX : WEIR_LOAD_5XX;
}

/* What the body told beside text. */
static void load_read_usage(struct load_call *c)
{
    struct weir_load_record *r = &c->record;
    const struct weir_usage_seen *seen = &c->usage.seen;
    weir_usage_finish(&c->usage);
    r->usage_known = seen->input_known && seen->output_known;
    r->input_tok = seen->input_total_tok;
    r->cached_tok = seen->cache_read_tok;
    r->output_tok = seen->output_total_tok;
    r->events = seen->events;
    const char *code = seen->error_code[0] ? seen->error_code : seen->error_type;
    if (!r->code[0] && (seen->error || r->status >= 400))
        load_copy_said(c, r->code, sizeof r->code, weir_slice_of(code));
}

static void load_read_hint(struct load_call *c)
{
    struct weir_load_record *r = &c->record;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t unix_ns = (int64_t)now.tv_sec * (int64_t)WEIR_NS_PER_S + now.tv_nsec;
    struct weir_hint hint =
        weir_hints_result(&c->hints, r->status, weir_api_dialect(c->load->endpoint.api),
                          c->usage.seen.error_type, c->usage.seen.error_code, unix_ns);
    if (r->status >= 400)
        r->hint = hint;
    memcpy(r->limits, c->hints.limits, sizeof r->limits);
}

static enum weir_load_end load_judge(struct load_call *c, const struct weir_call_result *result,
                                     char detail[static WEIR_LOAD_DETAIL_BYTES])
{
    const struct weir_load_record *r = &c->record;
    if (!result) {
        snprintf(detail, WEIR_LOAD_DETAIL_BYTES, "cancelled");
        return WEIR_LOAD_CANCELLED;
    }
    if (r->status >= 300)
        return load_judge_status(c, detail); /* it has said no, however its body ends */
    if (result->failure == WEIR_CALL_OK)
        return load_judge_body(c, detail);
    snprintf(detail, WEIR_LOAD_DETAIL_BYTES, "%s", result->detail ? result->detail : "");
    return load_end_of_failure(result->failure);
}

void load_call_over(struct load_call *c, const struct weir_call_result *result)
{
    struct weir_load *load = c->load;
    char detail[WEIR_LOAD_DETAIL_BYTES] = "";
    c->record.end_ns = weir_loop_clock_ns();
    if (c->record.status != 0) {
        load_read_usage(c);
        load_read_hint(c);
    }
    struct weir_load_record record = c->record;
    record.end = load_judge(c, result, detail);
    record.detail = detail;
    if (detail[0] && !load->first_detail[record.end][0])
        memcpy(load->first_detail[record.end], detail, sizeof detail);
    load->view.ended[record.end]++;
    load->view.in_flight--;
    void *user = c->user;
    c->call = NULL;
    c->next_free = load->free_calls;
    load->free_calls = c;
    load->ended(load->ctx, user, &record);
}

static void load_on_done(void *ctx, const struct weir_call_result *result)
{
    load_call_over(ctx, result);
}

const struct weir_call_handler load_handler = {
    .sent = load_on_sent, .head = load_on_head, .body = load_on_body, .done = load_on_done};
