/* lab_host: the host of core/flow, as src/gateway is: asks for admission, carries out effects,
 * tells what the backends do. */
#include "lab/lab_private.h"

/* Head and trailer of a request and of an answer. */
#define HOST_FRAME_BYTES 500

/* Prose of so many tokens, framing included: 4.4 bytes a token on average, some texts more and some
 * less, so that the gateway must learn how to estimate them (docs/estimator.md). */
static struct weir_text_classes host_text(const struct weir_lab *lab, const struct lab_request *r)
{
    struct weir_rng rng = lab_chance(lab, r->tenant, LAB_DRAW_TEXT, r->number);
    uint64_t frame_tok = 7;
    uint64_t text_tok = r->prompt_tok > frame_tok ? r->prompt_tok - frame_tok : 1;
    uint64_t tok = text_tok * weir_rng_between(&rng, 880, 1120); /* thousandths */
    struct weir_text_classes text = {.words = (uint32_t)(tok * 8 / 10000) + 1,
                                     .letters = (uint32_t)(tok * 34 / 10000) + 1,
                                     .space = (uint32_t)(tok * 8 / 10000),
                                     .punct = (uint32_t)(tok * 2 / 10000),
                                     .messages = 1};
    text.text_bytes = (uint64_t)text.letters + text.space + text.punct;
    return text;
}

/* A client that tells its timeout does so in whole seconds. */
static uint64_t host_queue_deadline_ns(const struct weir_lab *lab, const struct lab_request *r)
{
    const struct weir_lab_client *client = &lab_rules(lab, r->tenant)->client;
    uint64_t told_s = client->tells_timeout ? client->gives_up_ns / WEIR_NS_PER_S : 0;
    return weir_add_sat_u64(
        lab->now_ns, weir_flow_wait_max_ns(lab->s->queue_wait_max_ns, told_s * WEIR_NS_PER_S));
}

static void host_arrival(struct weir_lab *lab, struct lab_request *r, struct weir_arrival *a)
{
    const struct weir_lab_scenario *s = lab->s;
    const struct weir_lab_tenant *t = lab_rules(lab, r->tenant);
    uint64_t queue_deadline_ns = host_queue_deadline_ns(lab, r);
    *a = (struct weir_arrival){.tenant = r->tenant,
                               .pool = t->pool,
                               .lane = WEIR_NONE,
                               .text = host_text(lab, r),
                               .output_limit_tok = r->output_limit_tok,
                               .choices = 1,
                               .metered = true,
                               .stream = t->is_stream,
                               .queue_deadline_ns = queue_deadline_ns,
                               .total_deadline_ns =
                                   weir_add_sat_u64(queue_deadline_ns, s->total_max_ns),
                               .hold = weir_ledger_hold_id(1, ++lab->holds_made),
                               .host = r};
    a->bytes = (uint32_t)weir_min_u64(a->text.text_bytes + HOST_FRAME_BYTES, UINT32_MAX);
}

void lab_host_try(struct weir_lab *lab, struct lab_request *r)
{
    struct weir_arrival arrival;
    struct weir_refused refused;
    host_arrival(lab, r, &arrival);
    enum weir_refusal reason =
        weir_flow_arrive(lab->flow, &arrival, lab->now_ns, &r->flow, &refused);
    if (reason != WEIR_REFUSAL_NONE) {
        r->refusal = reason;
        r->hint_ns = refused.hint_ns;
        lab_client_answered(lab, r, NULL);
        return;
    }
    lab_waits(lab, r);
    lab_request_timer(lab, r);
}

/* --- the call --- */

static void host_dispatch(struct weir_lab *lab, struct lab_request *r, const struct weir_effect *e)
{
    struct lab_upstream *u = &lab->upstreams[e->upstream];
    uint64_t first_byte_ns = lab_rules(lab, r->tenant)->is_stream ? lab->s->first_byte_max_ns
                                                                  : lab->s->first_byte_whole_max_ns;
    WEIR_INVARIANT(u->free_1 != 0); /* a place for each permit */
    r->upstream = e->upstream;
    r->place = u->free_1 - 1;
    u->free_1 = u->next_1[r->place];
    u->owner_1[r->place] = lab_index(lab, r) + 1;
    r->dispatched_ns = lab->now_ns;
    lab_waits_no_more(lab, r);
    lab_calls(lab, r);
    r->call_until_ns = e->deadline_ns;
    r->is_first_byte_late = false;
    if (first_byte_ns && weir_add_sat_u64(lab->now_ns, first_byte_ns) < e->deadline_ns) {
        r->call_until_ns = lab->now_ns + first_byte_ns;
        r->is_first_byte_late = true;
    }
    r->total_until_ns = e->deadline_ns;
    lab_request_timer(lab, r);
    lab_note_event(lab, LAB_EVENT_DISPATCH, r->tenant, r->number, e->upstream);
    weir_flow_sent(lab->flow, r->flow, lab->now_ns);
    weir_backend_join(u->backend, r->place, r->prompt_tok - r->cached_tok, r->output_tok,
                      lab->now_ns);
}

/* The call is over, however: its place is free, and the flow is told. */
static void host_ended(struct weir_lab *lab, struct lab_request *r, enum weir_call_end end)
{
    struct lab_upstream *u = &lab->upstreams[r->upstream];
    bool is_whole = end == WEIR_CALL_COMPLETE && r->status == 200;
    r->made_tok = weir_backend_output_tok(u->backend, r->place, lab->now_ns);
    if (end != WEIR_CALL_COMPLETE)
        weir_backend_cancel(u->backend, r->place, lab->now_ns);
    u->owner_1[r->place] = 0;
    u->next_1[r->place] = u->free_1;
    u->free_1 = r->place + 1;
    lab_calls_no_more(lab, r);
    r->call_until_ns = r->progress_ns = WEIR_NEVER_NS;
    lab_request_timer(lab, r);
    lab_note_event(lab, LAB_EVENT_CALL_ENDED, r->tenant, r->number,
                   (uint64_t)end << 32 | r->made_tok);
    struct weir_call_facts facts = {.end = end,
                                    .sent = true,
                                    .status = r->status,
                                    .usage = {-1, -1, -1, -1},
                                    .usage_is_final = is_whole};
    if (is_whole)
        facts.usage = (struct weir_flow_usage){r->prompt_tok, r->cached_tok, 0, r->output_tok};
    if (r->status == 200) {
        facts.output_seen_bytes = (uint64_t)r->made_tok * LAB_TOKEN_BYTES;
        facts.answer_bytes = facts.output_seen_bytes + HOST_FRAME_BYTES;
    }
    weir_flow_ended(lab->flow, r->flow, &facts, lab->now_ns);
}

/* Asks the flow when the answer would pass its hold, and looks again when that may be. A backend is
 * at its fastest alone on a replica, so this comes early and then asks again: a few times for a
 * long answer, never for each token. */
static void host_progress_ask(struct weir_lab *lab, struct lab_request *r, uint32_t made_tok)
{
    const struct weir_backend_rules *rules = &lab->s->upstreams[r->upstream].backend;
    uint64_t bytes = weir_flow_progress(lab->flow, r->flow, -1, -1,
                                        (uint64_t)made_tok * LAB_TOKEN_BYTES, lab->now_ns);
    uint64_t wanted_tok = bytes / LAB_TOKEN_BYTES + (bytes % LAB_TOKEN_BYTES != 0);
    r->progress_ns = WEIR_NEVER_NS;
    if (bytes > 0 && wanted_tok <= r->output_tok) {
        uint64_t more_tok = wanted_tok > made_tok ? wanted_tok - made_tok : 1;
        uint64_t step_ns = weir_max_u64(rules->step_ns + rules->step_sequence_ns, 1);
        r->progress_ns = weir_add_sat_u64(lab->now_ns, weir_muldiv_ceil(more_tok, step_ns, 1));
    }
    lab_request_timer(lab, r);
}

void lab_host_progress(struct weir_lab *lab, struct lab_request *r)
{
    const struct lab_upstream *u = &lab->upstreams[r->upstream];
    host_progress_ask(lab, r, weir_backend_output_tok(u->backend, r->place, lab->now_ns));
}

/* The head of an answer, and the first byte behind it. */
static void host_head(struct weir_lab *lab, struct lab_request *r, uint32_t status)
{
    r->status = status;
    r->is_answering = weir_flow_head(lab->flow, r->flow, status, 0, lab->now_ns);
    if (!r->is_answering)
        return;
    weir_flow_first_byte(lab->flow, r->flow, lab->now_ns);
    r->gives_up_ns = WEIR_NEVER_NS;
    if (status != 200)
        return;
    r->first_token_ns = lab->now_ns;
    r->call_until_ns = r->total_until_ns;
    r->is_first_byte_late = false;
    weir_hist_add(&lab_tenant(lab, r->tenant)->first_token_ns, lab->now_ns - r->first_sent_ns);
    lab_note_event(lab, LAB_EVENT_FIRST_TOKEN, r->tenant, r->number, r->upstream);
}

static void host_backend_event(struct weir_lab *lab, uint32_t upstream,
                               const struct weir_backend_event *event)
{
    uint32_t owner_1 = lab->upstreams[upstream].owner_1[event->job];
    WEIR_INVARIANT(owner_1 != 0);
    struct lab_request *r = &lab->requests[owner_1 - 1];
    lab->results.events++;
    switch (event->kind) {
    case WEIR_BACKEND_FIRST_TOKEN:
        if (!lab_rules(lab, r->tenant)->is_stream)
            return; /* a whole answer is sent when it is whole */
        host_head(lab, r, 200);
        host_progress_ask(lab, r, 1);
        return;
    case WEIR_BACKEND_DONE:
        if (r->status == 0)
            host_head(lab, r, 200);
        host_ended(lab, r, WEIR_CALL_COMPLETE);
        return;
    case WEIR_BACKEND_FAILED:
        if (r->status != 0) {
            host_ended(lab, r, WEIR_CALL_CUT);
            return;
        }
        host_head(lab, r, 503);
        host_ended(lab, r, WEIR_CALL_COMPLETE);
        return;
    }
}

void lab_host_backends(struct weir_lab *lab)
{
    for (uint32_t i = 0; i < lab->s->upstream_count; i++) {
        struct weir_backend_event event;
        while (weir_backend_next(lab->upstreams[i].backend, lab->now_ns, &event)) {
            host_backend_event(lab, i, &event);
            lab_audit(lab);
        }
    }
}

void lab_host_late(struct weir_lab *lab, struct lab_request *r)
{
    host_ended(lab, r,
               r->is_first_byte_late ? WEIR_CALL_FIRST_BYTE_TIMEOUT : WEIR_CALL_TOTAL_TIMEOUT);
}

/* --- effects --- */

static void host_told(struct weir_lab *lab, struct lab_request *r, const struct weir_effect *e)
{
    r->refusal = e->refused.reason;
    r->hint_ns = e->refused.hint_ns;
    r->is_cut = e->kind == WEIR_EFFECT_CUT;
    r->told_ns = lab->now_ns;
    lab_waits_no_more(lab, r);
    r->gives_up_ns = WEIR_NEVER_NS;
    lab_request_timer(lab, r);
}

static void host_carry_out(struct weir_lab *lab, const struct weir_effect *e)
{
    struct lab_request *r = e->host;
    WEIR_INVARIANT(r->state == LAB_OUT);
    WEIR_INVARIANT(r->flow == e->request);
    switch (e->kind) {
    case WEIR_EFFECT_RESERVE:
        lab_ledger_reserve(lab, r, e);
        return;
    case WEIR_EFFECT_EXTEND:
        lab_ledger_extend(lab, r, e);
        return;
    case WEIR_EFFECT_DISPATCH:
        host_dispatch(lab, r, e);
        return;
    case WEIR_EFFECT_CANCEL:
        host_ended(lab, r, WEIR_CALL_CANCELLED);
        return;
    case WEIR_EFFECT_VOID:
    case WEIR_EFFECT_SETTLE:
        lab_ledger_close(lab, e);
        return;
    case WEIR_EFFECT_REFUSE:
    case WEIR_EFFECT_CUT:
        host_told(lab, r, e);
        return;
    case WEIR_EFFECT_FINISH:
        lab_ledger_drop(lab, r);
        lab_client_answered(lab, r, e->summary);
        return;
    }
}

void lab_host_pump(struct weir_lab *lab)
{
    bool is_due = weir_flow_due_ns(lab->flow) <= lab->now_ns, is_again = true;
    if (is_due)
        weir_flow_tick(lab->flow, lab->now_ns);
    while (is_again) {
        struct weir_effect e;
        weir_flow_pump(lab->flow, lab->now_ns);
        is_again = false;
        while (weir_flow_next(lab->flow, &e)) {
            lab->results.events++;
            host_carry_out(lab, &e);
            lab_audit(lab);
            is_again = true;
        }
        is_again |= weir_flow_due_ns(lab->flow) == 0;
    }
    lab_upstreams_seen(lab, is_due);
}

uint64_t lab_host_due_ns(const struct weir_lab *lab)
{
    uint64_t due_ns = weir_flow_due_ns(lab->flow);
    for (uint32_t i = 0; i < lab->s->upstream_count; i++)
        due_ns = weir_min_u64(due_ns, weir_backend_due_ns(lab->upstreams[i].backend));
    return due_ns;
}
