/* refuse: a refusal as an HTTP answer, in the shape of the API that was called.
 *
 * Status, code, sentence and advice come from core/refusal; the body's shape from wire/errors; the
 * hint headers from wire/hints. Nothing here decides anything. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "gateway/state.h"
#include "wire/errors.h"
#include "wire/hints.h"

#define REFUSE_MESSAGE_BYTES 600u
#define REFUSE_HEADER_BYTES 2048u

static void refuse_view(struct weir_limit_view *to, const struct weir_flow_limit *from)
{
    to->has_limit = to->has_remaining = to->has_reset = from->limit > 0;
    to->limit = from->limit;
    to->remaining = from->remaining;
    to->reset_ns = from->reset_ns;
}

static int64_t refuse_unix_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

size_t weir_limit_headers(struct weir_gateway *g, uint32_t tenant, enum weir_dialect dialect,
                          char *out, size_t cap)
{
    struct weir_tenant_view view;
    struct weir_limit_view limits[WEIR_DIM_COUNT] = {{0}};
    weir_flow_tenant_view(g->flow, tenant, weir_loop_now_ns(g->loop), &view);
    if (view.requests.limit == 0 && view.tokens.limit == 0)
        return 0;
    refuse_view(&limits[WEIR_DIM_REQUESTS], &view.requests);
    refuse_view(&limits[WEIR_DIM_TOKENS], &view.tokens);
    size_t used = weir_limits_write(out, cap, dialect, limits, refuse_unix_ns());
    if (!g->config->ratelimit_fields || view.requests.limit == 0)
        return used;
    /* IETF draft: only requests are a registered unit. t is whole seconds, rounded up. */
    int n = snprintf(
        out + used, cap - used,
        "ratelimit-policy: \"requests\";q=%llu\r\nratelimit: \"requests\";r=%llu;t=%llu\r\n",
        (unsigned long long)view.requests.limit, (unsigned long long)view.requests.remaining,
        (unsigned long long)((view.requests.reset_ns + WEIR_NS_PER_S - 1) / WEIR_NS_PER_S));
    return n > 0 && (size_t)n < cap - used ? used + (size_t)n : used;
}

/* Appends where it was refused: the upstream, or the scope with its next window. */
static size_t refuse_place(struct weir_gateway *g, char *text, size_t cap,
                           const struct weir_refused *refused)
{
    const char *scope =
        refused->scope != WEIR_NONE ? weir_store_scope_name(g->store, refused->scope) : NULL;
    int n = 0;
    if (refused->upstream != WEIR_NONE)
        n = snprintf(text, cap, " (upstream %s)", g->config->upstreams[refused->upstream].name);
    else if (scope && refused->reason == WEIR_REFUSAL_BUDGET_EXHAUSTED && refused->hint_ns > 0)
        n = snprintf(text, cap, " (scope %s, next window in %llu s)", scope,
                     (unsigned long long)((refused->hint_ns + WEIR_NS_PER_S - 1) / WEIR_NS_PER_S));
    else if (scope)
        n = snprintf(text, cap, " (scope %s)", scope);
    return n > 0 && (size_t)n < cap ? (size_t)n : 0;
}

/* The sentence for people: the row's own, or the caller's, with the number that says how long. */
static void refuse_message(struct weir_gateway *g, char *text, size_t cap,
                           const struct weir_refused *refused, const char *own,
                           enum weir_repeat repeat)
{
    int n = snprintf(text, cap, "weir: %s", own);
    size_t used = n > 0 && (size_t)n < cap ? (size_t)n : cap - 1;
    used += refuse_place(g, text + used, cap - used, refused);
    if (repeat == WEIR_REPEAT_HINT && refused->hint_ns > 0 && used < cap)
        snprintf(text + used, cap - used, " Try again in %llu.%03llus.",
                 (unsigned long long)(refused->hint_ns / WEIR_NS_PER_S),
                 (unsigned long long)(refused->hint_ns % WEIR_NS_PER_S / WEIR_NS_PER_MS));
}

/* What the refused client may do, in the headers that SDKs obey. */
static size_t refuse_hint(char *out, size_t cap, const struct weir_refused *refused,
                          enum weir_repeat repeat)
{
    switch (repeat) {
    case WEIR_REPEAT_HINT:
        return weir_hint_write(out, cap, weir_max_u64(refused->hint_ns, WEIR_NS_PER_MS));
    case WEIR_REPEAT_NEVER:
        return weir_hint_write_permanent(out, cap,
                                         refused->hint_ns ? refused->hint_ns : WEIR_NEVER_NS);
    case WEIR_REPEAT_SILENT:
        return 0;
    }
    return 0;
}

void weir_request_refuse(struct weir_request *r, const struct weir_refused *refused,
                         const char *message, const char *param)
{
    struct weir_gateway *g = r->g;
    if (!r->x || weir_exchange_answering(r->x))
        return;
    const struct weir_refusal_row *row = weir_refusal_row(refused->reason);
    uint16_t status = row->status;
    const char *code = row->code;
    enum weir_repeat repeat = row->repeat;
    if (refused->reason == WEIR_REFUSAL_BUDGET_EXHAUSTED && g->config->exhausted_status == 429) {
        status = 429;
        code = "insufficient_quota";
    }
    char text[REFUSE_MESSAGE_BYTES];
    struct weir_refused told = *refused;
    bool is_spent = weir_replay_is_spent(r);
    if (is_spent) {
        repeat = WEIR_REPEAT_NEVER;
        told.hint_ns = 0;
    }
    refuse_message(g, text, sizeof text, &told,
                   message ? message : weir_refusal_message(refused->reason), repeat);
    if (is_spent)
        strncat(text, " It was sent, so its idempotency key is used up: repeat it with a new one.",
                sizeof text - strlen(text) - 1);

    char id[WEIR_REQUEST_ID_BYTES];
    weir_request_id(r, id);
    char headers[REFUSE_HEADER_BYTES];
    /* Anthropic's error bodies have no code: the header says it in either dialect. */
    int n = snprintf(headers, sizeof headers,
                     "weir-source: gateway\r\nweir-reason: %s\r\n%s: %s\r\n", row->code,
                     r->dialect == WEIR_DIALECT_ANTHROPIC ? "request-id" : "x-request-id", id);
    size_t used = (size_t)n;
    used += refuse_hint(headers + used, sizeof headers - used, &told, repeat);
    if (r->tenant != WEIR_NONE)
        used += weir_limit_headers(g, r->tenant, r->dialect, headers + used, sizeof headers - used);

    char body[WEIR_ERROR_BYTES(REFUSE_MESSAGE_BYTES)];
    struct weir_error_text e = {.dialect = r->dialect,
                                .code = code,
                                .message = text,
                                .param = param,
                                .request_id = id,
                                .status = status};
    size_t body_bytes = weir_error_body(&e, body, sizeof body);
    r->status = status;
    if (refused->reason == WEIR_REFUSAL_DRAINING)
        weir_exchange_close_after(r->x);
    weir_exchange_respond(r->x, status, "application/json", (struct weir_slice){headers, used},
                          (struct weir_slice){body, body_bytes});
}
