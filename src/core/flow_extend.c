/* flow_extend: a running answer passes its hold.
 *
 * The use so far is the input (as told, else the estimate) and the output seen, on the upper side,
 * but never above an output limit of the request's own: the provider keeps to that. When it passes
 * the hold, the ledger is asked for more, a quarter ahead, so that a long answer asks a few times
 * and not for each chunk. One question at a time; a refused one is the last. */
#include "core/flow_private.h"

#define EXTEND_AHEAD_MIN_TOK UINT64_C(1024)
#define EXTEND_WAIT_NS (2 * WEIR_NS_PER_S)

struct extend_use {
    uint64_t fixed_tok;  /* whatever the output */
    uint64_t output_tok; /* so far */
    uint64_t most_tok;   /* of output, WEIR_TOK_MAX: not known */
};

static struct extend_use extend_use(const struct flow_request *r, int64_t input_tok,
                                    int64_t output_tok, uint64_t output_seen_bytes)
{
    struct extend_use use = {.fixed_tok = r->earlier_tok, .most_tok = (uint64_t)WEIR_TOK_MAX};
    uint64_t told_tok = output_tok > 0 ? flow_charge_cap((uint64_t)output_tok) : 0;
    use.fixed_tok += input_tok >= 0 ? flow_charge_cap((uint64_t)input_tok) : r->estimate.input_tok;
    use.output_tok =
        weir_max_u64(flow_charge_cap(weir_estimate_output_tok(output_seen_bytes)), told_tok);
    if (r->is_limited) {
        use.most_tok = weir_max_u64(r->estimate.output_tok, told_tok);
        use.output_tok = weir_min_u64(use.output_tok, use.most_tok);
    }
    return use;
}

/* The first count of output bytes that stands for more than so many tokens. */
static uint64_t extend_bytes_above(uint64_t tok)
{
    /* weir_estimate_output_tok rounds bytes / 3 up. */
    return tok > UINT64_MAX / 4 ? UINT64_MAX : tok * 3 + 1;
}

uint64_t weir_flow_progress(struct weir_flow *f, uint64_t request, int64_t input_tok,
                            int64_t output_tok, uint64_t output_seen_bytes, uint64_t now_ns)
{
    struct flow_request *r = flow_find(f, request);
    if (!r || r->hold != FLOW_HOLD_HELD || r->is_fixed_cost || r->is_overrun || r->is_cancelled ||
        (r->state != FLOW_SENT && r->state != FLOW_ANSWERING))
        return UINT64_MAX;
    struct extend_use use = extend_use(r, input_tok, output_tok, output_seen_bytes);
    uint64_t used_tok = weir_min_u64(use.fixed_tok + use.output_tok, (uint64_t)WEIR_TOK_MAX);
    if (used_tok > r->held_tok && !r->is_extending) {
        uint64_t ahead_tok = weir_max_u64(EXTEND_AHEAD_MIN_TOK, used_tok / 4);
        uint64_t most_tok = weir_min_u64(use.fixed_tok + use.most_tok, (uint64_t)WEIR_TOK_MAX);
        r->extend_tok = weir_min_u64(used_tok + ahead_tok, most_tok);
        r->until_ns = weir_add_sat_u64(now_ns, EXTEND_WAIT_NS);
        r->is_extending = true;
        flow_tell(f, r, WEIR_EFFECT_EXTEND);
    }
    if (r->is_extending)
        return 0;
    if (use.most_tok <= weir_sub_sat_u64(r->held_tok, use.fixed_tok))
        return UINT64_MAX; /* its limit is within the hold */
    return extend_bytes_above(weir_sub_sat_u64(r->held_tok, use.fixed_tok));
}

static struct weir_refused extend_refused(enum weir_reserve_answer answer, uint32_t scope)
{
    enum weir_refusal reason = WEIR_REFUSAL_LEDGER_UNAVAILABLE;
    switch (answer) {
    case WEIR_RESERVE_BUSY:
        reason = WEIR_REFUSAL_BUDGET_BUSY;
        break;
    case WEIR_RESERVE_EXHAUSTED:
    case WEIR_RESERVE_NEVER:
        reason = WEIR_REFUSAL_BUDGET_EXHAUSTED;
        break;
    case WEIR_RESERVE_HELD:
    case WEIR_RESERVE_UNAVAILABLE:
        scope = WEIR_NONE;
        break;
    }
    return flow_refused(reason, FLOW_HINT_SHORT_NS, scope, WEIR_NONE);
}

void weir_flow_extended(struct weir_flow *f, uint64_t request, enum weir_reserve_answer answer,
                        uint32_t scope, uint64_t now_ns)
{
    struct flow_request *r = flow_find(f, request);
    if (!r || !r->is_extending || r->effects & UINT32_C(1) << WEIR_EFFECT_EXTEND)
        return;
    r->is_extending = false;
    if (answer == WEIR_RESERVE_HELD) {
        r->held_tok = r->extend_tok;
        return;
    }
    if (r->hold != FLOW_HOLD_HELD || r->is_cancelled ||
        (r->state != FLOW_SENT && r->state != FLOW_ANSWERING))
        return;
    r->is_overrun = true;
    f->overruns_now++;
    f->overruns++;
    if (!weir_gate_tenant_rules(f->gate, r->tenant)->overrun_cuts)
        return;
    f->overruns_cut++;
    r->is_retry_wanted = false;
    struct weir_refused refused = extend_refused(answer, scope);
    flow_tell_client(f, r, r->state == FLOW_ANSWERING ? WEIR_EFFECT_CUT : WEIR_EFFECT_REFUSE,
                     &refused);
    flow_abandon(f, r, now_ns);
}
