/* replay: what an idempotency key does for a request, between the edge, the upcall and the store of
 * keys (idempotency.h).
 *
 *   check   at head time: is the field well formed?
 *   ask     with the body, before admission: new, or a repeat. A repeat ends here: it is answered
 *           from the store or refused; nothing is reserved, charged or sent
 *   head, body   of a new one: what the client is sent is copied as it passes
 *   finish  when flow is done with it: is there a result to keep?
 *
 * What is a result: an answer of the upstream that came whole, but for those that say "not now" or
 * "not you" (401, 402, 403, 408, 409, 425, 429, 5xx) and cost nothing: SDKs repeat most of these by
 * themselves, and a repeat shall have its chance. A request of which no byte was sent leaves no
 * trace. All else that was sent is LOST: it was or may have been charged, and no answer is there to
 * give. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "gateway/idempotency_key.h"
#include "gateway/state.h"
#include "net/http1_write.h"

#define REPLAY_HINT_MIN_NS WEIR_NS_PER_S
#define REPLAY_HINT_MAX_NS (30 * WEIR_NS_PER_S)
#define REPLAY_PIECE_BYTES (64u * 1024u)

/* Fields that were true when the answer was made and are not when it is repeated. */
#define REPLAY_STALE                                                                               \
    (WEIR_HTTP_BIT(WEIR_HTTP_DATE) | WEIR_HTTP_BIT(WEIR_HTTP_SET_COOKIE) |                         \
     WEIR_HTTP_BIT(WEIR_HTTP_RETRY_AFTER) | WEIR_HTTP_BIT(WEIR_HTTP_RETRY_AFTER_MS) |              \
     WEIR_HTTP_BIT(WEIR_HTTP_X_RATELIMIT_ANY) | WEIR_HTTP_BIT(WEIR_HTTP_ANTHROPIC_RATELIMIT_ANY) | \
     WEIR_HTTP_BIT(WEIR_HTTP_RATELIMIT_ANY))

/* ---- asking ---- */

static bool replay_has_key(const struct weir_request *r, const struct weir_http_head *head)
{
    return r->g->idempotency && r->method == WEIR_HTTP_POST &&
           weir_http_has(head, WEIR_HTTP_IDEMPOTENCY_KEY);
}

bool weir_replay_check(const struct weir_request *r, const struct weir_http_head *head, char *text,
                       size_t text_bytes)
{
    char key[WEIR_IDEMPOTENCY_KEY_BYTES_MAX];
    size_t key_bytes;
    if (!replay_has_key(r, head))
        return true;
    const char *fault = weir_idempotency_key_read(head, key, &key_bytes);
    if (fault)
        snprintf(text, text_bytes,
                 "The Idempotency-Key cannot be used: %s. Send 1 to %d visible ASCII characters, "
                 "plain or as a quoted string.",
                 fault, WEIR_IDEMPOTENCY_KEY_BYTES_MAX);
    return !fault;
}

static void replay_time_text(int64_t unix_s, char *text, size_t text_bytes)
{
    time_t t = (time_t)unix_s;
    struct tm utc;
    if (!gmtime_r(&t, &utc) || strftime(text, text_bytes, "%Y-%m-%dT%H:%M:%SZ", &utc) == 0)
        snprintf(text, text_bytes, "an unknown time");
}

static void replay_lost_text(const struct weir_gateway *g,
                             const struct weir_idempotency_found *found, char *text,
                             size_t text_bytes)
{
    static const char begin[] = "A request with this idempotency key";
    static const char end[] = "Use a new key to send it again.";
    char created[32], restarted[32];
    switch (found->loss) {
    case WEIR_IDEMPOTENCY_TOO_LARGE:
        snprintf(text, text_bytes,
                 "%s was answered, but the answer is larger than the gateway keeps. %s", begin,
                 end);
        return;
    case WEIR_IDEMPOTENCY_NO_ROOM:
        snprintf(text, text_bytes,
                 "%s was answered, but the answer is not kept any more: it made room for others. "
                 "%s",
                 begin, end);
        return;
    case WEIR_IDEMPOTENCY_CLIENT_GONE:
        snprintf(text, text_bytes,
                 "%s was sent, but its client left before the answer was complete. It was or may "
                 "have been charged. %s",
                 begin, end);
        return;
    case WEIR_IDEMPOTENCY_CUT:
        snprintf(text, text_bytes,
                 "%s was sent, but its answer broke off. It was or may have been charged. %s",
                 begin, end);
        return;
    case WEIR_IDEMPOTENCY_NO_ANSWER:
        snprintf(text, text_bytes, "%s was sent, but no answer came. It may have been charged. %s",
                 begin, end);
        return;
    case WEIR_IDEMPOTENCY_ERROR:
        snprintf(text, text_bytes,
                 "%s was answered with an error, which is not kept, but it was or may have been "
                 "charged. %s",
                 begin, end);
        return;
    case WEIR_IDEMPOTENCY_RESTART:
        replay_time_text(found->created_s, created, sizeof created);
        replay_time_text(g->started_s, restarted, sizeof restarted);
        snprintf(text, text_bytes,
                 "%s came at %s, and its answer was lost when the gateway restarted at %s. It was "
                 "or may have been charged. %s",
                 begin, created, restarted, end);
        return;
    }
}

enum weir_refusal weir_replay_ask(struct weir_request *r, const struct weir_http_head *head,
                                  struct weir_slice body, struct weir_refused *refused, char *text,
                                  size_t text_bytes)
{
    struct weir_gateway *g = r->g;
    char key[WEIR_IDEMPOTENCY_KEY_BYTES_MAX];
    size_t key_bytes;
    struct weir_idempotency_id id;
    struct weir_idempotency_found found;
    if (!replay_has_key(r, head))
        return WEIR_REFUSAL_NONE;
    const char *tenant =
        weir_tenancy_is_key_mode(g->tenancy) ? weir_tenancy_name(g->tenancy, r->tenant) : NULL;
    if (weir_idempotency_key_read(head, key, &key_bytes) ||
        !weir_idempotency_key_digest(g->idempotency_secret, head,
                                     (struct weir_slice){key, key_bytes}, tenant, body, &id))
        return WEIR_REFUSAL_INTERNAL;
    enum weir_idempotency_outcome outcome =
        weir_idempotency_begin(g->idempotency, r->tenant, &id, weir_loop_now_ns(g->loop), &found);
    weir_metrics_idempotency(&g->metrics, outcome);
    switch (outcome) {
    case WEIR_IDEMPOTENCY_NEW:
        r->key_slot = found.slot;
        return WEIR_REFUSAL_NONE;
    case WEIR_IDEMPOTENCY_REPLAY:
        r->replay_slot = found.slot;
        return WEIR_REFUSAL_NONE;
    case WEIR_IDEMPOTENCY_RUNNING:
        /* As long again as it has run already: few repeats, whatever it takes. */
        refused->hint_ns =
            weir_min_u64(weir_max_u64(found.age_ns, REPLAY_HINT_MIN_NS), REPLAY_HINT_MAX_NS);
        return WEIR_REFUSAL_IDEMPOTENCY_BUSY;
    case WEIR_IDEMPOTENCY_MISMATCH:
        return WEIR_REFUSAL_IDEMPOTENCY_MISMATCH;
    case WEIR_IDEMPOTENCY_LOST:
        replay_lost_text(g, &found, text, text_bytes);
        return WEIR_REFUSAL_IDEMPOTENCY_LOST;
    case WEIR_IDEMPOTENCY_FULL:
        refused->hint_ns = REPLAY_HINT_MIN_NS;
        return WEIR_REFUSAL_INTERNAL;
    case WEIR_IDEMPOTENCY_OUTCOME_COUNT:
        break;
    }
    return WEIR_REFUSAL_INTERNAL;
}

/* ---- across restarts ---- */

_Static_assert(sizeof(struct weir_idempotency_id) == WEIR_STORE_KEY_BYTES,
               "the ledger keeps an id as it is");

bool weir_replay_store_key(const struct weir_request *r, uint8_t key[static WEIR_STORE_KEY_BYTES])
{
    if (r->key_slot == WEIR_NONE)
        return false;
    memcpy(key, weir_idempotency_id(r->g->idempotency, r->key_slot), WEIR_STORE_KEY_BYTES);
    return true;
}

static void replay_load_key(void *ctx, const uint8_t key[WEIR_STORE_KEY_BYTES], uint64_t hold,
                            int64_t created_s)
{
    struct weir_gateway *g = ctx;
    struct weir_idempotency_id id;
    (void)hold;
    memcpy(&id, key, sizeof id);
    weir_idempotency_load(g->idempotency, &id, created_s, g->started_s, weir_loop_now_ns(g->loop));
}

void weir_replay_load(struct weir_gateway *g)
{
    struct weir_idempotency_view view;
    if (!g->idempotency)
        return;
    weir_store_keys(g->store, replay_load_key, g);
    weir_idempotency_view(g->idempotency, &view);
    if (view.keys_pushed_out > 0)
        weir_log_message(g->log, WEIR_LOG_WARN,
                         "the ledger knows more idempotency keys of earlier runs than "
                         "idempotency.keys (%u) lets be remembered: the %llu oldest are forgotten, "
                         "and repeats of their requests would be sent and charged anew",
                         g->config->idempotency.keys, (unsigned long long)view.keys_pushed_out);
}

/* ---- answering a repeat ---- */

void weir_replay_more(struct weir_request *r)
{
    while (r->replay_left.bytes > 0 && !weir_exchange_full(r->x)) {
        size_t piece =
            r->replay_left.bytes < REPLAY_PIECE_BYTES ? r->replay_left.bytes : REPLAY_PIECE_BYTES;
        weir_exchange_write(r->x, r->replay_left.at, piece);
        r->replay_left.at += piece;
        r->replay_left.bytes -= piece;
    }
    if (r->replay_left.bytes == 0)
        weir_exchange_finish(r->x);
}

bool weir_replay_send(struct weir_request *r)
{
    struct weir_gateway *g = r->g;
    struct weir_idempotency_answer answer;
    weir_idempotency_borrow(g->idempotency, r->replay_slot, &answer);
    struct weir_http_out *out =
        weir_exchange_answer(r->x, answer.status, answer.reason,
                             answer.is_chunked ? WEIR_BODY_CHUNKED : answer.body.bytes);
    weir_http_write_raw(out, answer.headers);
    weir_http_write_header_text(out, "weir-replay", "true");
    if (weir_tenancy_is_key_mode(g->tenancy)) {
        char limits[1024];
        weir_http_write_raw(out,
                            (struct weir_slice){limits, weir_limit_headers(g, r->tenant, r->dialect,
                                                                           limits, sizeof limits)});
    }
    if (!weir_exchange_answer_head_end(r->x)) {
        weir_replay_give_back(r);
        return false;
    }
    r->status = answer.status;
    r->facts.answer_bytes = answer.body.bytes;
    r->replay_left = answer.body;
    weir_exchange_body_drop(r->x);
    weir_request_log(r, NULL, WEIR_REFUSAL_NONE);
    weir_replay_more(r);
    return true;
}

void weir_replay_give_back(struct weir_request *r)
{
    if (r->replay_slot != WEIR_NONE)
        weir_idempotency_give_back(r->g->idempotency, r->replay_slot);
    r->replay_slot = WEIR_NONE;
}

/* ---- recording the first answer ---- */

/* An answer that says nothing about the request itself. */
static bool replay_is_not_now(uint32_t status)
{
    switch (status) {
    case 401:
    case 402:
    case 403:
    case 408:
    case 409:
    case 425:
    case 429:
        return true;
    }
    return status >= 500;
}

void weir_replay_head(struct weir_request *r, const struct weir_http_head *head,
                      struct weir_slice own_headers, uint64_t body_bytes)
{
    struct weir_gateway *g = r->g;
    if (r->key_slot == WEIR_NONE || replay_is_not_now(head->status))
        return;
    struct weir_http_out out = {.buf = (char *)g->scratch, .room = WEIR_SCRATCH_BYTES};
    weir_http_write_passed(&out, head, REPLAY_STALE);
    weir_http_write_raw(&out, own_headers);
    if (!weir_http_out_ok(&out))
        return; /* longer than any head that passes */
    bool is_chunked = body_bytes == WEIR_BODY_CHUNKED;
    weir_idempotency_record(
        g->idempotency, r->key_slot, head->status, weir_http_text(head, head->reason),
        (struct weir_slice){out.buf, out.used}, is_chunked, is_chunked ? 0 : body_bytes);
}

bool weir_replay_is_recording(const struct weir_request *r)
{
    return r->key_slot != WEIR_NONE &&
           weir_idempotency_is_recording(r->g->idempotency, r->key_slot);
}

void weir_replay_body(struct weir_request *r, const void *bytes, size_t count)
{
    if (r->key_slot != WEIR_NONE)
        weir_idempotency_append(r->g->idempotency, r->key_slot, bytes, count);
}

/* ---- the end of the first ---- */

void weir_replay_forget(struct weir_request *r)
{
    if (r->key_slot != WEIR_NONE)
        weir_idempotency_forget(r->g->idempotency, r->key_slot);
    r->key_slot = WEIR_NONE;
}

bool weir_replay_is_spent(const struct weir_request *r)
{
    return r->key_slot != WEIR_NONE && r->was_sent && !replay_is_not_now(r->facts.status);
}

void weir_replay_finish(struct weir_request *r, const struct weir_flow_summary *summary)
{
    struct weir_idempotency *keys = r->g->idempotency;
    uint32_t slot = r->key_slot, status = r->facts.status;
    uint64_t now_ns = weir_loop_now_ns(r->g->loop);
    if (slot == WEIR_NONE)
        return;
    if (!r->was_sent || (replay_is_not_now(status) && summary->charged_tok == 0)) {
        weir_replay_forget(r);
        return;
    }
    r->key_slot = WEIR_NONE;
    if (summary->refusal != WEIR_REFUSAL_NONE)
        weir_idempotency_lose(
            keys, slot, status == 0 ? WEIR_IDEMPOTENCY_NO_ANSWER : WEIR_IDEMPOTENCY_CUT, now_ns);
    else if (r->facts.end != WEIR_CALL_COMPLETE)
        weir_idempotency_lose(keys, slot, WEIR_IDEMPOTENCY_CLIENT_GONE, now_ns);
    else if (replay_is_not_now(status))
        weir_idempotency_lose(keys, slot, WEIR_IDEMPOTENCY_ERROR, now_ns);
    else
        weir_idempotency_keep(keys, slot, now_ns);
}
