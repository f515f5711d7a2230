/* flow_charge: what an attempt came to, for the ledger, the buckets, the scheduler and the breaker.
 *
 *   nothing sent                                   nothing: the hold can be void
 *   the provider told its usage                    that
 *   4xx or 5xx, no output seen, no usage           0, flagged
 *   else (no usage: cut, timed out, client gone,   the input estimate and the output observed,
 *         or an answer without any)                rounded up, flagged
 *
 * Told usage of an exchange that did not end as it should may be from its middle (Anthropic's
 * message_start says one token of output), unless the host knows that it was the last word: output
 * is then at least what was observed, and flagged. A complete answer of which nothing could be read
 * is charged its whole estimate. */
#include "core/flow_private.h"

static bool charge_is_error(uint32_t status)
{
    return status >= 400;
}

uint64_t flow_charge_cap(uint64_t tok)
{
    return weir_min_u64(tok, (uint64_t)WEIR_TOK_MAX / 2);
}

static enum weir_breaker_outcome charge_outcome(const struct flow_request *r,
                                                const struct weir_call_facts *facts)
{
    if (facts->status >= 400)
        return weir_breaker_outcome_of_status(facts->status);
    switch (facts->end) {
    case WEIR_CALL_COMPLETE:
        return weir_breaker_outcome_of_status(facts->status);
    case WEIR_CALL_CUT:
    case WEIR_CALL_CONNECT_FAILED:
    case WEIR_CALL_CONNECT_TIMEOUT:
    case WEIR_CALL_WRITE_FAILED:
    case WEIR_CALL_FIRST_BYTE_TIMEOUT:
    case WEIR_CALL_IDLE_TIMEOUT:
    case WEIR_CALL_BAD_ANSWER:
        /* We may have closed it ourselves a moment before: then it proves nothing. */
        return r->is_cancelled ? WEIR_BREAKER_NEUTRAL : WEIR_BREAKER_FAILURE;
    case WEIR_CALL_TOTAL_TIMEOUT:
        /* Our own cap: only without any answer is it the upstream's fault. */
        return r->is_cancelled || facts->status ? WEIR_BREAKER_NEUTRAL : WEIR_BREAKER_FAILURE;
    case WEIR_CALL_CANCELLED:
        return r->is_sent ? WEIR_BREAKER_NEUTRAL : WEIR_BREAKER_UNUSED;
    }
    return WEIR_BREAKER_NEUTRAL;
}

/* Is what was told of usage the last word? */
static bool charge_is_whole(const struct weir_call_facts *facts)
{
    return facts->end == WEIR_CALL_COMPLETE || facts->usage_is_final;
}

/* Output when the provider did not say, or said it before the end. */
static uint64_t charge_output(const struct flow_request *r, const struct weir_call_facts *facts,
                              bool *is_estimated)
{
    uint64_t seen_tok = flow_charge_cap(weir_estimate_output_tok(facts->output_seen_bytes));
    bool is_whole = charge_is_whole(facts);
    if (facts->usage.output_tok >= 0) {
        uint64_t told_tok = flow_charge_cap((uint64_t)facts->usage.output_tok);
        if (is_whole)
            return told_tok;
        *is_estimated = true;
        return weir_max_u64(told_tok, seen_tok);
    }
    *is_estimated = true;
    if (is_whole && seen_tok == 0 && facts->answer_bytes > 0 && facts->usage.input_tok < 0)
        return flow_charge_cap(r->estimate.output_tok);
    return seen_tok;
}

static void charge_metered(const struct flow_request *r, const struct weir_call_facts *facts,
                           struct flow_charge *c)
{
    const struct weir_flow_usage *usage = &facts->usage;
    bool is_told = usage->input_tok >= 0 || usage->output_tok >= 0;
    if (!is_told && charge_is_error(facts->status) && facts->output_seen_bytes == 0) {
        c->is_estimated = true;
        return;
    }
    if (r->is_fixed_cost) {
        c->used.input_tok = flow_charge_cap(r->estimate.input_tok);
        return;
    }
    /* Zeros from the middle say nothing; and what was sent is never charged zero. */
    bool has_input = usage->input_tok > 0 || (usage->input_tok == 0 && charge_is_whole(facts));
    c->is_estimated = !has_input;
    c->used.input_tok = flow_charge_cap(has_input ? (uint64_t)usage->input_tok
                                                  : weir_max_u64(r->estimate.input_tok, 1));
    if (usage->cached_tok > 0)
        c->used.cached_tok = weir_min_u64((uint64_t)usage->cached_tok, c->used.input_tok);
    c->used.output_tok = charge_output(r, facts, &c->is_estimated);
}

struct flow_charge flow_charge_of(const struct flow_request *r, const struct weir_call_facts *facts)
{
    struct flow_charge c = {.usage = facts->usage};
    c.used.outcome = charge_outcome(r, facts);
    c.used.sent = r->is_sent;
    if (!r->is_sent || !r->is_metered)
        return c;
    charge_metered(r, facts, &c);
    c.tokens = weir_min_u64(c.used.input_tok + c.used.output_tok, (uint64_t)WEIR_TOK_MAX);
    return c;
}

void flow_learn(struct weir_flow *f, const struct flow_request *r,
                const struct weir_call_facts *facts)
{
    if (!r->is_metered || r->is_fixed_cost || facts->status < 200 || facts->status >= 300)
        return;
    bool is_whole = facts->end == WEIR_CALL_COMPLETE;
    struct weir_estimate_actual actual = {.input_tok = facts->usage.input_tok,
                                          .output_tok = is_whole ? facts->usage.output_tok : -1,
                                          .choices = r->choices};
    if (actual.input_tok < 0 && actual.output_tok < 0)
        return;
    struct weir_estimator_pair pair = {.tenant = r->tenant,
                                       .generation =
                                           weir_gate_tenant_generation(f->gate, r->tenant),
                                       .model = r->model};
    weir_estimator_learn(f->estimator, pair, &r->estimate, &actual);
}
