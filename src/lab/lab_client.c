/* lab_client: what clients do with an answer, or without one.
 *
 * As the usual SDKs do (docs/lab.md, "Clients"): a try that was refused, got an error or was hung
 * up on is made again when its status says that this can help and tries are left; after the hint
 * that came with it if there is one of up to a minute, else after a back-off of their own that
 * doubles. An answer that began is never asked for again. */
#include "lab/lab_private.h"

#define CLIENT_HINT_MAX_NS (60 * WEIR_NS_PER_S)
#define CLIENT_BACKOFF_MAX_NS (8 * WEIR_NS_PER_S)

static struct lab_request *client_take(struct weir_lab *lab, uint32_t tenant)
{
    struct lab_request *r;
    if (lab->free_1) {
        r = &lab->requests[lab->free_1 - 1];
        lab->free_1 = r->next_free_1;
    } else if (lab->requests_used < lab->requests_max) {
        r = &lab->requests[lab->requests_used++];
    } else {
        return NULL;
    }
    lab->requests_now++;
    lab->tenants[tenant].alive++;
    return r;
}

static void client_give_back(struct weir_lab *lab, struct lab_request *r)
{
    WEIR_INVARIANT(r->note == LAB_NOTE_NONE);
    lab_timer(lab, lab->at.requests + lab_index(lab, r), WEIR_NEVER_NS);
    lab->requests_now--;
    lab->tenants[r->tenant].alive--;
    r->state = LAB_FREE;
    r->next_free_1 = lab->free_1;
    lab->free_1 = lab_index(lab, r) + 1;
}

static void client_begin_try(struct weir_lab *lab, struct lab_request *r)
{
    const struct weir_lab_client *client = &lab_rules(lab, r->tenant)->client;
    r->state = LAB_OUT;
    r->sent_ns = lab->now_ns;
    r->flow = WEIR_NONE;
    r->upstream = WEIR_NONE;
    r->status = 0;
    r->dispatched_ns = r->first_token_ns = WEIR_NEVER_NS;
    r->is_waiting = r->is_calling = r->is_answering = r->is_gone = r->is_cut = false;
    r->refusal = WEIR_REFUSAL_NONE;
    r->hint_ns = 0;
    r->told_ns = WEIR_NEVER_NS;
    r->made_tok = 0;
    r->gives_up_ns =
        client->gives_up_ns ? weir_add_sat_u64(lab->now_ns, client->gives_up_ns) : WEIR_NEVER_NS;
    r->call_until_ns = r->progress_ns = r->again_ns = WEIR_NEVER_NS;
    lab_tenant(lab, r->tenant)->tries++;
    lab_tenant_bin(lab, r->tenant)->tries++;
    lab_note_event(lab, LAB_EVENT_TRY, r->tenant, r->number, r->retries);
    lab_host_try(lab, r);
}

/* No client can be kept track of any more: counted, and never heard of again. */
static void client_turned_away(struct weir_lab *lab, const struct lab_want *want)
{
    struct weir_lab_tenant_results *t = lab_tenant(lab, want->tenant);
    t->tries++;
    t->refused++;
    t->refusals[WEIR_REFUSAL_INTERNAL]++;
    lab_tenant_bin(lab, want->tenant)->tries++;
    lab_tenant_bin(lab, want->tenant)->refused++;
    lab_note_event(lab, LAB_EVENT_OVER, want->tenant, want->number, WEIR_REFUSAL_INTERNAL);
    if (lab->ended) {
        struct weir_trace_entry entry = {.arrival_ns = lab->now_ns,
                                         .tenant = want->tenant,
                                         .lane = lab_rules(lab, want->tenant)->rules.lane,
                                         .prompt_tok = want->prompt_tok,
                                         .cached_tok = want->cached_tok,
                                         .output_tok = want->output_tok,
                                         .outcome = WEIR_TRACE_REFUSED,
                                         .refusal = WEIR_REFUSAL_INTERNAL,
                                         .status = 503,
                                         .is_measured = true};
        lab->ended(lab->ended_user, &entry);
    }
    if (want->user != WEIR_NONE)
        lab_traffic_think(lab, want->user, true);
}

void lab_client_send(struct weir_lab *lab, const struct lab_want *want)
{
    lab_tenant(lab, want->tenant)->offered++;
    lab_tenant_bin(lab, want->tenant)->offered++;
    lab_note_offered(lab, want);
    struct lab_request *r = client_take(lab, want->tenant);
    if (!r) {
        client_turned_away(lab, want);
        return;
    }
    uint64_t output_tok = want->output_tok ? want->output_tok : 1;
    if (want->output_limit_tok)
        output_tok = weir_min_u64(output_tok, want->output_limit_tok);
    uint32_t prompt_tok = want->prompt_tok ? want->prompt_tok : 1;
    *r =
        (struct lab_request){.tenant = want->tenant,
                             .user = want->user,
                             .number = want->number,
                             .prompt_tok = prompt_tok,
                             .cached_tok = (uint32_t)weir_min_u64(want->cached_tok, prompt_tok - 1),
                             .output_tok = (uint32_t)output_tok,
                             .output_limit_tok = want->output_limit_tok,
                             .first_sent_ns = lab->now_ns};
    client_begin_try(lab, r);
}

void lab_client_again(struct weir_lab *lab, struct lab_request *r)
{
    r->retries++;
    client_begin_try(lab, r);
}

void lab_client_gives_up(struct weir_lab *lab, struct lab_request *r)
{
    r->gives_up_ns = WEIR_NEVER_NS;
    r->is_gone = true;
    r->told_ns = lab->now_ns;
    lab_waits_no_more(lab, r);
    lab_request_timer(lab, r);
    weir_flow_client_gone(lab->flow, r->flow, lab->now_ns);
}

static enum weir_trace_outcome client_outcome(const struct lab_request *r, uint32_t status)
{
    if (r->is_gone)
        return WEIR_TRACE_GONE;
    if (r->refusal != WEIR_REFUSAL_NONE)
        return r->is_cut ? WEIR_TRACE_CUT : WEIR_TRACE_REFUSED;
    return status >= 400 ? WEIR_TRACE_FAILED : WEIR_TRACE_FINISHED;
}

/* The status the client saw; 0: none. */
static uint32_t client_status(const struct lab_request *r, enum weir_trace_outcome outcome,
                              uint32_t upstream_status)
{
    if (outcome == WEIR_TRACE_REFUSED)
        return weir_refusal_row(r->refusal)->status;
    return outcome == WEIR_TRACE_GONE && !r->is_answering ? 0 : upstream_status;
}

/* Does a client like these try again after this? */
static bool client_wants_again(const struct weir_lab_client *client, const struct lab_request *r,
                               enum weir_trace_outcome outcome, uint32_t status)
{
    if (r->retries >= client->retries_max)
        return false;
    switch (outcome) {
    case WEIR_TRACE_FINISHED:
    case WEIR_TRACE_CUT:
    case WEIR_TRACE_OUTCOME_COUNT:
        return false;
    case WEIR_TRACE_GONE:
        return true;
    case WEIR_TRACE_FAILED:
    case WEIR_TRACE_REFUSED:
        break;
    }
    /* x-should-retry goes out with those that no repeat helps, and with hints above a minute. */
    bool is_no_use = outcome == WEIR_TRACE_REFUSED &&
                     (weir_refusal_row(r->refusal)->repeat == WEIR_REPEAT_NEVER ||
                      r->hint_ns > CLIENT_HINT_MAX_NS);
    if (client->obeys_hint && is_no_use)
        return false;
    return status == 408 || status == 409 || status == 429 || status >= 500;
}

static uint64_t client_backoff_ns(struct weir_lab *lab, const struct lab_request *r)
{
    const struct weir_lab_client *client = &lab_rules(lab, r->tenant)->client;
    struct weir_rng rng = lab_chance(lab, r->tenant, LAB_DRAW_BACKOFF, r->number * 16 + r->retries);
    uint64_t whole_ns = weir_min_u64(client->backoff_ns, CLIENT_BACKOFF_MAX_NS) << r->retries;
    whole_ns = weir_min_u64(whole_ns, CLIENT_BACKOFF_MAX_NS);
    return whole_ns - weir_rng_below(&rng, whole_ns / 4 + 1);
}

static uint64_t client_again_ns(struct weir_lab *lab, const struct lab_request *r)
{
    const struct weir_lab_client *client = &lab_rules(lab, r->tenant)->client;
    uint64_t wait_ns;
    /* retry-after-ms: whole milliseconds, rounded up. */
    if (client->obeys_hint && r->hint_ns > 0 && r->hint_ns <= CLIENT_HINT_MAX_NS)
        wait_ns = weir_div_ceil_u64(r->hint_ns, WEIR_NS_PER_MS) * WEIR_NS_PER_MS;
    else
        wait_ns = client_backoff_ns(lab, r);
    uint64_t told_ns = r->told_ns == WEIR_NEVER_NS ? lab->now_ns : r->told_ns;
    return weir_max_u64(lab->now_ns, told_ns + wait_ns);
}

/* Adds the request, now over, to what its tenant came to. */
static void client_count(struct weir_lab *lab, const struct lab_request *r,
                         enum weir_trace_outcome outcome)
{
    struct weir_lab_tenant_results *t = lab_tenant(lab, r->tenant);
    struct weir_lab_tenant_bin *bin = lab_tenant_bin(lab, r->tenant);
    uint64_t goal_ns = lab_rules(lab, r->tenant)->goal_wait_ns;
    switch (outcome) {
    case WEIR_TRACE_FINISHED:
        t->finished++;
        bin->finished++;
        if (!goal_ns || r->dispatched_ns - r->first_sent_ns <= goal_ns) {
            t->good++;
            bin->good++;
        }
        t->prompt_tok += r->prompt_tok;
        t->output_tok += r->output_tok;
        bin->prompt_tok += r->prompt_tok;
        bin->output_tok += r->output_tok;
        weir_hist_add(&t->latency_ns, lab->now_ns - r->first_sent_ns);
        return;
    case WEIR_TRACE_REFUSED:
        t->refused++;
        bin->refused++;
        return;
    case WEIR_TRACE_GONE:
        t->gave_up++;
        break;
    case WEIR_TRACE_FAILED:
        t->failed++;
        break;
    case WEIR_TRACE_CUT:
    case WEIR_TRACE_OUTCOME_COUNT:
        t->cut++;
        break;
    }
    bin->failed++;
}

static void client_tell_ended(struct weir_lab *lab, const struct lab_request *r,
                              enum weir_trace_outcome outcome, uint32_t status,
                              const struct weir_flow_summary *summary)
{
    bool is_answered = r->first_token_ns != WEIR_NEVER_NS;
    bool is_made = outcome != WEIR_TRACE_FINISHED && outcome != WEIR_TRACE_REFUSED;
    struct weir_trace_entry entry = {
        .arrival_ns = r->first_sent_ns,
        .tenant = r->tenant,
        .lane = lab_rules(lab, r->tenant)->rules.lane,
        .prompt_tok = r->prompt_tok,
        .cached_tok = r->cached_tok,
        .output_tok = is_made ? r->made_tok : r->output_tok,
        .estimate_tok = summary ? (uint32_t)weir_min_u64(summary->estimate_tok, UINT32_MAX) : 0,
        .output_limit_tok = (uint32_t)weir_min_u64(r->output_limit_tok, UINT32_MAX),
        .first_byte_ns = is_answered ? r->first_token_ns - r->first_sent_ns : 0,
        .latency_ns = lab->now_ns - r->first_sent_ns,
        .status = status,
        .outcome = outcome,
        .refusal = outcome == WEIR_TRACE_REFUSED || outcome == WEIR_TRACE_CUT ? r->refusal
                                                                              : WEIR_REFUSAL_NONE,
        .is_stream = lab_rules(lab, r->tenant)->is_stream,
        .is_measured = true};
    if (r->dispatched_ns != WEIR_NEVER_NS) {
        entry.queue_wait_ns = r->dispatched_ns - r->first_sent_ns;
        entry.is_dispatched = true;
    }
    lab->ended(lab->ended_user, &entry);
}

static void client_over(struct weir_lab *lab, struct lab_request *r,
                        enum weir_trace_outcome outcome, uint32_t status,
                        const struct weir_flow_summary *summary)
{
    lab_note_event(lab, LAB_EVENT_OVER, r->tenant, r->number, (uint64_t)outcome);
    client_count(lab, r, outcome);
    if (lab->ended)
        client_tell_ended(lab, r, outcome, status, summary);
    uint32_t user = r->user;
    client_give_back(lab, r);
    if (user != WEIR_NONE)
        lab_traffic_think(lab, user, outcome != WEIR_TRACE_FINISHED);
}

void lab_client_answered(struct weir_lab *lab, struct lab_request *r,
                         const struct weir_flow_summary *summary)
{
    struct weir_lab_tenant_results *t = lab_tenant(lab, r->tenant);
    enum weir_trace_outcome outcome = client_outcome(r, summary ? summary->status : 0);
    uint32_t status = client_status(r, outcome, summary ? summary->status : 0);
    if (r->refusal != WEIR_REFUSAL_NONE)
        t->refusals[r->refusal]++;
    if (outcome != WEIR_TRACE_FINISHED)
        t->lost_tok += r->made_tok;
    if (summary) {
        t->charged_tok += summary->charged_tok;
        t->estimate_tok += summary->estimate_tok;
    }
    lab_note_event(lab, LAB_EVENT_TRY_ENDED, r->tenant, r->number,
                   (uint64_t)outcome << 32 | (uint64_t)r->refusal);
    if (!client_wants_again(&lab_rules(lab, r->tenant)->client, r, outcome, status)) {
        client_over(lab, r, outcome, status, summary);
        return;
    }
    r->state = LAB_BETWEEN;
    r->gives_up_ns = r->call_until_ns = r->progress_ns = WEIR_NEVER_NS;
    r->again_ns = client_again_ns(lab, r);
    lab_request_timer(lab, r);
}
