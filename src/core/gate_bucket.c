#include "core/gate_private.h"

void gate_limit_set(struct gate_limit *limit, const struct weir_rate *rate, uint64_t now_ns)
{
    if (rate->rate_micro_per_s == 0) {
        limit->is_on = false;
        return;
    }
    uint64_t capacity_tok = rate->capacity ? rate->capacity : 1;
    int64_t capacity_utok =
        weir_min_i64(weir_utok_from_tok((int64_t)weir_min_u64(capacity_tok, INT64_MAX)),
                     WEIR_BUCKET_CAPACITY_MAX_UTOK);
    if (limit->is_on)
        weir_bucket_reconfigure(&limit->bucket, capacity_utok, rate->rate_micro_per_s, now_ns);
    else
        weir_bucket_init(&limit->bucket, capacity_utok, rate->rate_micro_per_s, now_ns);
    limit->is_on = true;
}

uint64_t gate_cost_utok(uint64_t tok)
{
    return (uint64_t)weir_utok_from_tok((int64_t)weir_min_u64(tok, INT64_MAX));
}

uint64_t gate_limit_wait_ns(const struct gate_limit *limit, uint64_t cost_utok, uint64_t now_ns)
{
    if (!limit->is_on)
        return 0;
    int64_t cost = (int64_t)weir_min_u64(cost_utok, INT64_MAX);
    if (limit->bucket.level_utok >= cost)
        return 0; /* time only adds to what is there: no need to work out how much */
    int64_t level_utok = weir_bucket_level_utok(&limit->bucket, now_ns);
    if (level_utok >= cost)
        return 0;
    int64_t missing_utok = weir_sub_sat_i64(cost, level_utok);
    return weir_muldiv_ceil((uint64_t)missing_utok, WEIR_NS_PER_S, limit->bucket.rate_utok_per_s);
}

/* Adds one limit to a check of several: NEVER outweighs WAIT, and of waits the longest counts. */
static void limit_check(const struct gate_limit *limit, uint64_t cost_utok, uint64_t now_ns,
                        enum weir_bucket_result *worst, uint64_t *wait_ns)
{
    if (!limit->is_on)
        return;
    if (limit->bucket.level_utok >= 0 && (uint64_t)limit->bucket.level_utok >= cost_utok)
        return; /* time only adds to what is there: no need to work out how much */
    uint64_t wait = 0;
    enum weir_bucket_result result = weir_bucket_check(&limit->bucket, cost_utok, now_ns, &wait);
    if (result > *worst)
        *worst = result;
    if (result == WEIR_BUCKET_WAIT)
        *wait_ns = weir_max_u64(*wait_ns, wait);
}

static uint64_t waiter_tenant_utok(const struct gate_waiter *w)
{
    return gate_cost_utok(weir_add_sat_u64(w->input_tok, w->output_tok));
}

enum weir_bucket_result gate_tenant_check(const struct gate_tenant *t, const struct gate_waiter *w,
                                          uint64_t now_ns, uint64_t *wait_ns)
{
    enum weir_bucket_result worst = WEIR_BUCKET_OK;
    *wait_ns = 0;
    limit_check(&t->requests, gate_cost_utok(1), now_ns, &worst, wait_ns);
    limit_check(&t->tokens, waiter_tenant_utok(w), now_ns, &worst, wait_ns);
    return worst;
}

void gate_tenant_charge(struct gate_tenant *t, const struct gate_waiter *w, uint64_t now_ns)
{
    if (t->requests.is_on)
        weir_bucket_charge(&t->requests.bucket, gate_cost_utok(1), now_ns);
    if (t->tokens.is_on)
        weir_bucket_charge(&t->tokens.bucket, waiter_tenant_utok(w), now_ns);
}

/* What the provider takes from its buckets when the call starts. */
static void upstream_cost(const struct gate_upstream *u, const struct gate_waiter *w,
                          uint64_t *main_utok, uint64_t *output_utok)
{
    *main_utok = 0;
    *output_utok = 0;
    switch (u->rules.accounting) {
    case WEIR_ACCOUNTING_PLAIN:
        *main_utok = waiter_tenant_utok(w);
        return;
    case WEIR_ACCOUNTING_OPENAI:
        *main_utok = gate_cost_utok(weir_max_u64(w->input_tok, w->output_tok));
        return;
    case WEIR_ACCOUNTING_ANTHROPIC:
        *main_utok = gate_cost_utok(w->input_tok);
        *output_utok = gate_cost_utok(w->predicted_tok);
        /* A prediction is not a bound: it must not make a request impossible. */
        if (u->output.is_on)
            *output_utok = weir_min_u64(*output_utok, (uint64_t)u->output.bucket.capacity_utok);
        return;
    }
}

enum weir_bucket_result gate_upstream_check(const struct gate_upstream *u,
                                            const struct gate_waiter *w, uint64_t now_ns,
                                            uint64_t *wait_ns)
{
    enum weir_bucket_result worst = WEIR_BUCKET_OK;
    *wait_ns = 0;
    limit_check(&u->requests, gate_cost_utok(1), now_ns, &worst, wait_ns);
    if (!u->tokens.is_on && !u->output.is_on)
        return worst;
    uint64_t main_utok, output_utok;
    upstream_cost(u, w, &main_utok, &output_utok);
    limit_check(&u->tokens, main_utok, now_ns, &worst, wait_ns);
    limit_check(&u->output, output_utok, now_ns, &worst, wait_ns);
    return worst;
}

void gate_upstream_charge(struct gate_upstream *u, struct gate_waiter *w, uint64_t now_ns)
{
    upstream_cost(u, w, &w->main_utok, &w->output_utok);
    if (u->requests.is_on)
        weir_bucket_charge(&u->requests.bucket, gate_cost_utok(1), now_ns);
    if (u->tokens.is_on)
        weir_bucket_charge(&u->tokens.bucket, w->main_utok, now_ns);
    if (u->output.is_on)
        weir_bucket_charge(&u->output.bucket, w->output_utok, now_ns);
}

static void limit_correct(struct gate_limit *limit, uint64_t charged_utok, uint64_t used_utok,
                          uint64_t now_ns)
{
    if (limit->is_on && used_utok != charged_utok)
        weir_bucket_correct(&limit->bucket,
                            weir_sub_sat_i64((int64_t)used_utok, (int64_t)charged_utok), now_ns);
}

static void upstream_settle(struct gate_upstream *u, const struct gate_waiter *w,
                            const struct weir_gate_used *used, uint64_t now_ns)
{
    uint64_t main_utok = 0, output_utok = 0;
    if (used->sent) {
        switch (u->rules.accounting) {
        case WEIR_ACCOUNTING_PLAIN:
            main_utok = gate_cost_utok(weir_add_sat_u64(used->input_tok, used->output_tok));
            break;
        case WEIR_ACCOUNTING_OPENAI:
            main_utok = weir_max_u64(
                w->main_utok, gate_cost_utok(weir_add_sat_u64(used->input_tok, used->output_tok)));
            break;
        case WEIR_ACCOUNTING_ANTHROPIC:
            main_utok = gate_cost_utok(weir_sub_sat_u64(used->input_tok, used->cached_tok));
            output_utok = gate_cost_utok(used->output_tok);
            break;
        }
    } else if (u->requests.is_on) {
        weir_bucket_refund(&u->requests.bucket, gate_cost_utok(1), now_ns);
    }
    limit_correct(&u->tokens, w->main_utok, main_utok, now_ns);
    limit_correct(&u->output, w->output_utok, output_utok, now_ns);
}

bool gate_settle_buckets(struct gate_tenant *t, struct gate_upstream *u,
                         const struct gate_waiter *w, const struct weir_gate_used *used,
                         uint64_t now_ns)
{
    upstream_settle(u, w, used, now_ns);
    uint64_t charged_utok = waiter_tenant_utok(w), used_utok = 0;
    if (used->sent)
        used_utok = gate_cost_utok(weir_add_sat_u64(used->input_tok, used->output_tok));
    else if (t->requests.is_on)
        weir_bucket_refund(&t->requests.bucket, gate_cost_utok(1), now_ns);
    limit_correct(&t->tokens, charged_utok, used_utok, now_ns);
    return !used->sent || used_utok < charged_utok;
}

static uint64_t work_of(uint64_t tok, uint32_t weight)
{
    uint64_t work;
    return __builtin_mul_overflow(tok, (uint64_t)weight, &work) ? UINT64_MAX : work;
}

uint64_t gate_work_uwork(const struct weir_pool_rules *rules, uint64_t input_tok,
                         uint64_t output_tok, uint64_t work_min)
{
    const uint64_t most = WEIR_SCHED_WORK_MAX_UWORK / WEIR_UWORK_PER_WORK;
    uint64_t work = weir_add_sat_u64(work_of(input_tok, rules->work_input),
                                     work_of(output_tok, rules->work_output));
    return weir_min_u64(weir_max_u64(work, work_min), most) * (uint64_t)WEIR_UWORK_PER_WORK;
}
