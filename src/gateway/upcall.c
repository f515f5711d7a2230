/* upcall: the upstream's side of a request. Starts calls, passes answers on as they come, lets the
 * usage reader look at each byte that passes, and tells the flow how it ended. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/state.h"
#include "net/http1_write.h"
#include "wire/errors.h"
#include "wire/hints.h"

#define UPCALL_INFLATE_BYTES_MAX (64u * 1024u * 1024u)
#define UPCALL_INFLATE_RATIO_MAX 200u

static const struct weir_call_handler upcall_handler;
static void upcall_drop_client(struct weir_request *r);

/* ---- answers, recycled ---- */

static struct weir_answer *answer_take(struct weir_gateway *g)
{
    struct weir_answer *a = g->answers_free;
    if (a)
        g->answers_free = a->next_free;
    else
        a = malloc(sizeof *a);
    if (a) {
        a->next_free = NULL;
        a->edit = NULL;
        a->inflate = NULL;
        a->is_stream = a->is_read = a->is_failed_read = false;
        a->heartbeat = (struct weir_timer){0};
    }
    return a;
}

static void answer_give(struct weir_gateway *g, struct weir_answer *a)
{
    if (!a)
        return;
    weir_timer_cancel(g->loop, &a->heartbeat);
    weir_inflate_close(a->inflate);
    free(a->edit);
    a->next_free = g->answers_free;
    g->answers_free = a;
}

/* ---- starting ---- */

/* The body of this call in pieces: the client's bytes with the edits between them. */
static void upcall_pieces(struct weir_call_request *call, const struct weir_request_edits *edits,
                          struct weir_slice body)
{
    size_t at = 0;
    call->piece_count = 0;
    for (uint32_t i = 0; edits && i < edits->splices_now; i++) {
        const struct weir_splice *s = &edits->splices[i];
        if (s->at > at)
            call->pieces[call->piece_count++] = (struct weir_slice){body.at + at, s->at - at};
        call->pieces[call->piece_count++] =
            (struct weir_slice){edits->text + s->insert_at, s->insert_bytes};
        at = s->at + s->removed_bytes;
    }
    if (body.bytes > at)
        call->pieces[call->piece_count++] = (struct weir_slice){body.at + at, body.bytes - at};
}
_Static_assert(WEIR_CALL_PIECES_MAX >= 2 * 4 + 1 - 1,
               "a piece before and in each splice, but the first at 0");

/* Plans the edits this upstream wants. The body is read again: it was read at admission without
 * knowing which upstream would be chosen, and a request that waits keeps no more of it than it
 * must. */
static bool upcall_plan(struct weir_request *r, const struct weir_config_upstream *u,
                        struct weir_slice body)
{
    free(r->edits);
    r->edits = NULL;
    bool add_usage = u->edits.include_usage && r->stream && !r->asks_usage;
    uint64_t limit_tok = u->edits.output_limit ? u->output_limit_tok : 0;
    if (!r->body_known || (!add_usage && limit_tok == 0))
        return true;
    struct weir_request_facts facts;
    struct weir_request_edits plan;
    if (weir_request_read(&facts, r->api, body.at, body.bytes) != WEIR_REQUEST_OK)
        return true;
    if (!weir_request_plan(&plan, &facts, r->api, add_usage, limit_tok, true))
        return true;
    r->edits = malloc(sizeof *r->edits);
    if (!r->edits)
        return false;
    *r->edits = plan;
    return true;
}

static void upcall_failed_to_start(struct weir_request *r)
{
    r->facts.end = WEIR_CALL_CONNECT_FAILED;
    weir_flow_ended(r->g->flow, r->flow, &r->facts, weir_loop_now_ns(r->g->loop));
}

void weir_upcall_start(struct weir_request *r, uint32_t upstream, uint64_t deadline_ns)
{
    struct weir_gateway *g = r->g;
    const struct weir_config_upstream *u = &g->config->upstreams[upstream];
    const struct weir_http_head *from = weir_exchange_head(r->x);
    struct weir_slice body = weir_exchange_body(r->x);
    struct weir_call_request call = {
        .is_head_method = r->method == WEIR_HTTP_HEAD,
        .is_repeatable = r->method == WEIR_HTTP_GET || r->method == WEIR_HTTP_HEAD ||
                         weir_http_has(from, WEIR_HTTP_IDEMPOTENCY_KEY),
        .timeouts = {.connect_ns = u->timeouts.connect_ns,
                     .write_ns = u->timeouts.write_ns,
                     .first_byte_ns =
                         r->stream ? u->timeouts.first_byte_ns : u->timeouts.first_byte_whole_ns,
                     .idle_ns = u->timeouts.idle_ns,
                     /* deadline_ns bounds all attempts and the queue; this upstream's own cap runs
                        from here. */
                     .total_deadline_ns =
                         weir_min_u64(deadline_ns, weir_add_sat_u64(weir_loop_now_ns(g->loop),
                                                                    u->timeouts.total_ns))}};
    r->upstream = upstream;
    r->facts = (struct weir_call_facts){.usage = {-1, -1, -1, -1}};
    bool has_body = from->framing != WEIR_HTTP_FRAMING_NONE;
    if (!upcall_plan(r, u, body)) {
        upcall_failed_to_start(r);
        return;
    }
    uint64_t body_bytes = r->edits ? weir_request_edited_bytes(r->edits, body.bytes) : body.bytes;
    if (!weir_forward_head(r, upstream, has_body, body_bytes, &call.head)) {
        weir_log_message(g->log, WEIR_LOG_ERROR,
                         "upstream %s: the request head cannot be written (too long)", u->name);
        upcall_failed_to_start(r);
        return;
    }
    upcall_pieces(&call, r->edits, body);
    r->call = weir_call_start(g->targets[upstream], &call, &upcall_handler, r);
    if (!r->call)
        upcall_failed_to_start(r);
}

/* ---- the answer passes ---- */

static void upcall_sent(void *ctx)
{
    struct weir_request *r = ctx;
    r->facts.sent = true;
    weir_flow_sent(r->g->flow, r->flow, weir_loop_now_ns(r->g->loop));
}

static bool upcall_is_event_stream(const struct weir_http_head *head)
{
    struct weir_slice type = weir_http_value(head, WEIR_HTTP_CONTENT_TYPE);
    const struct weir_slice want = WEIR_SLICE("text/event-stream");
    return type.bytes >= want.bytes &&
           weir_slice_equal_caseless((struct weir_slice){type.at, want.bytes}, want) &&
           (type.bytes == want.bytes || type.at[want.bytes] == ';' || type.at[want.bytes] == ' ');
}

/* How long a 429 asks us to wait; 0: it does not say. */
static uint64_t upcall_pause_ns(const struct weir_request *r, const struct weir_http_head *head)
{
    struct weir_hints hints;
    weir_hints_init(&hints);
    for (uint32_t i = 0; i < head->header_count; i++) {
        struct weir_slice name = weir_http_header_name(head, i),
                          value = weir_http_header_value(head, i);
        weir_hints_header(&hints, name.at, name.bytes, value.at, value.bytes);
    }
    struct weir_hint hint = weir_hints_result(&hints, head->status, r->dialect, NULL, NULL, 0);
    return hint.has_wait ? hint.wait_ns : 0;
}

static void upcall_heartbeat(struct weir_timer *timer)
{
    struct weir_answer *a =
        (struct weir_answer *)((char *)timer - offsetof(struct weir_answer, heartbeat));
    struct weir_request *r = a->request;
    struct weir_gateway *g = r->g;
    uint64_t now_ns = weir_loop_now_ns(g->loop);
    uint64_t due_ns = a->last_byte_ns + g->config->heartbeat_ns;
    if (now_ns >= due_ns) {
        if (r->x && weir_sse_boundary_at(&a->boundary) && !weir_exchange_full(r->x))
            weir_exchange_write(r->x, ": weir\n\n", 8);
        a->last_byte_ns = now_ns;
        due_ns = now_ns + g->config->heartbeat_ns;
    }
    weir_timer_set(g->loop, timer, due_ns);
}

/* Prepares what looks at the answer. */
static bool upcall_answer_open(struct weir_request *r, const struct weir_http_head *head)
{
    struct weir_gateway *g = r->g;
    struct weir_answer *a = answer_take(g);
    if (!a)
        return false;
    r->answer = a;
    a->request = r;
    a->is_stream = upcall_is_event_stream(head);
    a->is_read = r->metered || r->api == WEIR_API_ANTHROPIC_COUNT;
    a->progress_at_bytes = a->is_stream && r->metered ? 0 : UINT64_MAX;
    a->last_byte_ns = weir_loop_now_ns(g->loop);
    weir_sse_boundary_init(&a->boundary);
    a->usage.seen.output_bytes = 0; /* looked at whether it is read or not */
    if (a->is_read)
        weir_usage_init(&a->usage, r->api, a->is_stream);
    struct weir_slice coding = weir_http_value(head, WEIR_HTTP_CONTENT_ENCODING);
    enum weir_encoding encoding = weir_encoding_of(coding.at, coding.bytes);
    if (a->is_read && encoding != WEIR_ENCODING_IDENTITY) {
        a->inflate =
            weir_inflate_open(encoding, UPCALL_INFLATE_BYTES_MAX, UPCALL_INFLATE_RATIO_MAX);
        a->is_failed_read = !a->inflate;
    }
    /* Our own question for usage leaves traces only in an uncompressed stream of a successful
     * answer. */
    if (r->edits && r->stream && !r->asks_usage && a->is_stream &&
        encoding == WEIR_ENCODING_IDENTITY && head->status == 200) {
        a->edit = malloc(sizeof *a->edit);
        if (!a->edit)
            return false;
        weir_sse_edit_init(a->edit);
    }
    if (a->is_stream && g->config->heartbeat_ns > 0 && encoding == WEIR_ENCODING_IDENTITY) {
        a->heartbeat.fire = upcall_heartbeat;
        weir_timer_set(g->loop, &a->heartbeat, a->last_byte_ns + g->config->heartbeat_ns);
    }
    return true;
}

/* Writes the client's head: the upstream's, without what concerned its connection. */
static void upcall_pass_head(struct weir_request *r, const struct weir_http_head *head)
{
    struct weir_gateway *g = r->g;
    const struct weir_answer *a = r->answer;
    bool key_mode = weir_tenancy_is_key_mode(g->tenancy);
    uint64_t skip = 0;
    if (key_mode) /* the upstream's limits are the operator's, not this tenant's */
        skip |= WEIR_HTTP_BIT(WEIR_HTTP_X_RATELIMIT_ANY) |
                WEIR_HTTP_BIT(WEIR_HTTP_ANTHROPIC_RATELIMIT_ANY) |
                WEIR_HTTP_BIT(WEIR_HTTP_RATELIMIT_ANY);
    bool length_known = weir_http_has(head, WEIR_HTTP_CONTENT_LENGTH) && !a->edit;
    uint64_t body_bytes = length_known ? head->content_length
                          : head->framing == WEIR_HTTP_FRAMING_NONE && r->method != WEIR_HTTP_HEAD
                              ? 0
                              : WEIR_BODY_CHUNKED;
    struct weir_http_out *out =
        weir_exchange_answer(r->x, head->status, weir_http_text(head, head->reason), body_bytes);
    weir_http_write_passed(out, head, skip);
    if (weir_http_has(head, WEIR_HTTP_DATE))
        weir_exchange_answer_dated(r->x);
    if (key_mode) {
        char limits[1024];
        size_t n = weir_limit_headers(g, r->tenant, r->dialect, limits, sizeof limits);
        if (n > 0)
            weir_http_write_raw(out, (struct weir_slice){limits, n});
    }
    size_t before_id = out->used;
    if (!weir_http_has(head, WEIR_HTTP_X_REQUEST_ID) &&
        !weir_http_has(head, WEIR_HTTP_REQUEST_ID)) {
        char id[WEIR_REQUEST_ID_BYTES];
        weir_request_id(r, id);
        weir_http_write_header_text(
            out, r->dialect == WEIR_DIALECT_ANTHROPIC ? "request-id" : "x-request-id", id);
    }
    struct weir_slice id_line = {out->buf + before_id, out->used - before_id};
    if (weir_exchange_answer_head_end(r->x)) {
        r->status = head->status;
        weir_replay_head(r, head, id_line, body_bytes);
        return;
    }
    weir_log_message(g->log, WEIR_LOG_WARN,
                     "upstream %s: its answer's head is longer than can be passed on",
                     g->config->upstreams[r->upstream].name);
    upcall_drop_client(r);
}

static void upcall_head(void *ctx, const struct weir_http_head *head)
{
    struct weir_request *r = ctx;
    struct weir_gateway *g = r->g;
    uint64_t now_ns = weir_loop_now_ns(g->loop);
    r->facts.status = head->status;
    uint64_t pause_ns = head->status == 429 ? upcall_pause_ns(r, head) : 0;
    bool pass = weir_flow_head(g->flow, r->flow, head->status, pause_ns, now_ns);
    if (head->status == 429) {
        weir_metrics_pause(&g->metrics, r->upstream, pause_ns);
        weir_gateway_dirty(g);
    }
    if (!pass || !r->x)
        return;
    if (!upcall_answer_open(r, head)) {
        weir_log_message(g->log, WEIR_LOG_ERROR,
                         "out of memory for an answer: the client is dropped");
        upcall_drop_client(r);
        return;
    }
    upcall_pass_head(r, head);
    if (r->x)
        weir_exchange_body_drop(r->x);
}

static bool upcall_usage_sink(void *arg, const void *bytes, size_t n)
{
    weir_usage_feed(arg, bytes, n);
    return true;
}

static void upcall_observe(struct weir_answer *a, struct weir_slice bytes)
{
    if (!a->is_read || a->is_failed_read)
        return;
    if (!a->inflate) {
        weir_usage_feed(&a->usage, bytes.at, bytes.bytes);
        return;
    }
    enum weir_inflate_result got =
        weir_inflate_feed(a->inflate, bytes.at, bytes.bytes, upcall_usage_sink, &a->usage);
    a->is_failed_read = got != WEIR_INFLATE_MORE && got != WEIR_INFLATE_END;
}

static int64_t upcall_count(bool known, uint64_t tok)
{
    return known ? (int64_t)weir_min_u64(tok, (uint64_t)WEIR_TOK_MAX) : -1;
}

/* The output seen may have passed the hold: the flow looks, and says when it is worth looking
 * again.
 */
static void upcall_progress(struct weir_request *r, struct weir_answer *a)
{
    const struct weir_usage_seen *seen = &a->usage.seen;
    uint64_t at_bytes = weir_flow_progress(r->g->flow, r->flow,
                                           upcall_count(seen->input_known, seen->input_total_tok),
                                           upcall_count(seen->output_known, seen->output_total_tok),
                                           seen->output_bytes, weir_loop_now_ns(r->g->loop));
    /* Anthropic tells the input first: the hold may be short of that alone. */
    bool is_early = r->dialect == WEIR_DIALECT_ANTHROPIC && !seen->input_known;
    a->progress_at_bytes = is_early ? 0 : at_bytes;
    if (at_bytes == 0)
        weir_gateway_dirty(r->g);
}

/* Sends bytes to the client, if it is there, and to the recording, if there is one, through the
 * filter, if there is one. */
static void upcall_pass(struct weir_request *r, struct weir_slice bytes)
{
    struct weir_answer *a = r->answer;
    if (!r->x && !weir_replay_is_recording(r))
        return;
    while (bytes.bytes > 0) {
        struct weir_slice piece = bytes;
        if (a->edit && piece.bytes > WEIR_SCRATCH_BYTES - WEIR_SSE_EDIT_HOLD)
            piece.bytes = WEIR_SCRATCH_BYTES - WEIR_SSE_EDIT_HOLD;
        const void *out = piece.at;
        size_t out_bytes = piece.bytes;
        if (a->edit) {
            out_bytes = weir_sse_edit_feed(a->edit, piece.at, piece.bytes, r->g->scratch);
            out = r->g->scratch;
        }
        if (out_bytes > 0) {
            if (a->is_stream)
                weir_sse_boundary_feed(&a->boundary, out, out_bytes);
            weir_replay_body(r, out, out_bytes);
            if (r->x)
                weir_exchange_write(r->x, out, out_bytes);
        }
        bytes.at += piece.bytes;
        bytes.bytes -= piece.bytes;
    }
}

static void upcall_body(void *ctx, struct weir_slice bytes)
{
    struct weir_request *r = ctx;
    struct weir_answer *a = r->answer;
    uint64_t now_ns = weir_loop_now_ns(r->g->loop);
    if (r->facts.answer_bytes == 0 && weir_flow_first_byte(r->g->flow, r->flow, now_ns))
        weir_gateway_dirty(r->g);
    r->facts.answer_bytes += bytes.bytes;
    if (!a)
        return;
    a->last_byte_ns = now_ns;
    upcall_observe(a, bytes);
    if (a->usage.seen.output_bytes >= a->progress_at_bytes)
        upcall_progress(r, a);
    upcall_pass(r, bytes);
    if (r->is_gone) {
        r->drained_bytes += bytes.bytes;
        if (r->drained_bytes > r->g->config->upstreams[r->upstream].drain_bytes)
            weir_upcall_cancel(r);
    } else if (r->x && weir_exchange_full(r->x)) {
        r->paused = true;
        weir_call_pause(r->call);
    }
}

void weir_upcall_resume(struct weir_request *r)
{
    if (!r->paused)
        return;
    r->paused = false;
    if (r->call)
        weir_call_resume(r->call);
}

/* ---- ending ---- */

static enum weir_call_end upcall_end(const struct weir_call_result *result)
{
    switch (result->failure) {
    case WEIR_CALL_OK:
        return WEIR_CALL_COMPLETE;
    case WEIR_CALL_E_RESOLVE:
    case WEIR_CALL_E_CONNECT:
    case WEIR_CALL_E_TLS:
    case WEIR_CALL_E_DESCRIPTORS:
        return WEIR_CALL_CONNECT_FAILED;
    case WEIR_CALL_E_CONNECT_TIMEOUT:
        return WEIR_CALL_CONNECT_TIMEOUT;
    case WEIR_CALL_E_WRITE:
    case WEIR_CALL_E_WRITE_TIMEOUT:
        return WEIR_CALL_WRITE_FAILED;
    case WEIR_CALL_E_FIRST_BYTE_TIMEOUT:
        return WEIR_CALL_FIRST_BYTE_TIMEOUT;
    case WEIR_CALL_E_IDLE_TIMEOUT:
        return WEIR_CALL_IDLE_TIMEOUT;
    case WEIR_CALL_E_TOTAL_TIMEOUT:
        return WEIR_CALL_TOTAL_TIMEOUT;
    case WEIR_CALL_E_ANSWER:
        return WEIR_CALL_BAD_ANSWER;
    case WEIR_CALL_E_CUT:
        return WEIR_CALL_CUT;
    }
    return WEIR_CALL_CUT;
}

/* Moves what the reader saw into the facts. */
static void upcall_read_usage(struct weir_request *r)
{
    struct weir_answer *a = r->answer;
    if (!a || !a->is_read)
        return;
    weir_usage_finish(&a->usage);
    const struct weir_usage_seen *seen = &a->usage.seen;
    r->facts.output_seen_bytes = a->is_failed_read ? r->facts.answer_bytes : seen->output_bytes;
    /* OpenAI says usage once, at the end; Anthropic says output counts before it too. */
    r->facts.usage_is_final =
        seen->complete || (r->dialect == WEIR_DIALECT_OPENAI && seen->output_known);
    r->facts.usage = (struct weir_flow_usage){
        .input_tok = upcall_count(seen->input_known, seen->input_total_tok),
        .cached_tok = upcall_count(seen->input_known, seen->cache_read_tok),
        .cache_write_tok = upcall_count(seen->input_known, seen->cache_write_tok),
        .output_tok = upcall_count(seen->output_known, seen->output_total_tok)};
}

/* A stream that ends as HTTP but without its own last word was cut, however tidy it looks. */
static bool upcall_is_truncated(const struct weir_request *r)
{
    const struct weir_answer *a = r->answer;
    return a && a->is_read && a->is_stream && !a->is_failed_read && r->facts.status == 200 &&
           !a->usage.seen.complete && !a->usage.seen.error && !a->usage.seen.unreadable;
}

/* Ends the client's side uncleanly; the exchange is gone with it. */
static void upcall_drop_client(struct weir_request *r)
{
    if (r->x)
        weir_exchange_abort(r->x);
    r->x = NULL;
}

/* What the filter still holds. */
static void upcall_flush_edit(struct weir_request *r, struct weir_answer *a)
{
    if (!a->edit)
        return;
    size_t n = weir_sse_edit_finish(a->edit, r->g->scratch);
    if (n > 0) {
        weir_sse_boundary_feed(&a->boundary, r->g->scratch, n);
        weir_replay_body(r, r->g->scratch, n);
        if (r->x)
            weir_exchange_write(r->x, r->g->scratch, n);
    }
}

/* The call is over: tells the flow, then the client. */
static void upcall_over(struct weir_request *r)
{
    struct weir_gateway *g = r->g;
    r->call = NULL;
    r->was_sent = r->was_sent || r->facts.sent;
    if (weir_timer_is_set(&r->drain_timer))
        weir_timer_cancel(g->loop, &r->drain_timer);
    upcall_read_usage(r);
    if (r->facts.end == WEIR_CALL_COMPLETE && upcall_is_truncated(r))
        r->facts.end = WEIR_CALL_CUT;
    weir_gateway_dirty(g);
    weir_flow_ended(g->flow, r->flow, &r->facts, weir_loop_now_ns(g->loop));
    if (r->facts.end != WEIR_CALL_COMPLETE)
        return; /* the flow decides: another target, a refusal, or a cut; the answer is needed for
                   that */
    struct weir_answer *a = r->answer;
    r->answer = NULL;
    if (a)
        upcall_flush_edit(r, a);
    if (r->x)
        weir_exchange_finish(r->x);
    answer_give(g, a);
}

static void upcall_done(void *ctx, const struct weir_call_result *result)
{
    struct weir_request *r = ctx;
    r->facts.end = upcall_end(result);
    r->facts.sent = r->facts.sent || result->sent;
    if (result->failure != WEIR_CALL_OK)
        weir_metrics_upstream_failure(&r->g->metrics, r->upstream, result);
    if (result->failure != WEIR_CALL_OK && result->detail)
        weir_log_message(r->g->log, WEIR_LOG_WARN, "upstream %s: %s",
                         r->g->config->upstreams[r->upstream].name, result->detail);
    upcall_over(r);
}

static const struct weir_call_handler upcall_handler = {
    .sent = upcall_sent, .head = upcall_head, .body = upcall_body, .done = upcall_done};

static void upcall_cancel_now(struct weir_request *r)
{
    if (!r->call)
        return;
    if (weir_call_cancel(r->call))
        r->facts.sent = true;
    r->facts.end = WEIR_CALL_CANCELLED;
    upcall_over(r);
}

static void upcall_drain_over(struct weir_timer *timer)
{
    upcall_cancel_now(
        (struct weir_request *)((char *)timer - offsetof(struct weir_request, drain_timer)));
}

void weir_upcall_cancel(struct weir_request *r)
{
    struct weir_gateway *g = r->g;
    const struct weir_config_upstream *u = &g->config->upstreams[r->upstream];
    bool may_drain = u->on_client_gone == WEIR_CONFIG_GONE_DRAIN && r->answer && r->is_gone &&
                     g->drain_until_ns == WEIR_NEVER_NS;
    if (may_drain && !weir_timer_is_set(&r->drain_timer) && r->drained_bytes == 0) {
        r->drain_timer.fire = upcall_drain_over;
        weir_timer_set(g->loop, &r->drain_timer, weir_loop_now_ns(g->loop) + u->drain_time_ns);
        weir_upcall_resume(r);
        return;
    }
    upcall_cancel_now(r);
}

void weir_answer_cut(struct weir_request *r, const struct weir_refused *refused)
{
    struct weir_gateway *g = r->g;
    struct weir_answer *a = r->answer;
    r->answer = NULL;
    if (r->x && a && a->is_stream && !a->inflate && !a->is_failed_read) {
        /* What the filter still holds belongs to the event that was cut: the client is better
         * without it. */
        const struct weir_refusal_row *row = weir_refusal_row(refused->reason);
        char id[WEIR_REQUEST_ID_BYTES], event[WEIR_ERROR_BYTES(256)];
        weir_request_id(r, id);
        struct weir_error_text e = {.dialect = r->dialect,
                                    .code = row->code,
                                    .message = weir_refusal_message(refused->reason),
                                    .request_id = id,
                                    .status = row->status};
        size_t n =
            weir_error_event(&e, r->api, weir_sse_boundary_at(&a->boundary), event, sizeof event);
        weir_exchange_write(r->x, event, n);
    }
    answer_give(g, a);
    upcall_drop_client(r);
}

void weir_answer_drop(struct weir_request *r)
{
    answer_give(r->g, r->answer);
    r->answer = NULL;
}

void weir_answer_pool_free(struct weir_gateway *g)
{
    while (g->answers_free) {
        struct weir_answer *a = g->answers_free;
        g->answers_free = a->next_free;
        free(a);
    }
}
