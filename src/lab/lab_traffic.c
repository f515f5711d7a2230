/* lab_traffic: who sends what when. */
#include "lab/lab_private.h"

static uint64_t traffic_mix(uint64_t v)
{
    v = (v ^ v >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    v = (v ^ v >> 27) * UINT64_C(0x94D049BB133111EB);
    return v ^ v >> 31;
}

struct weir_rng lab_chance(const struct weir_lab *lab, uint32_t tenant, enum lab_purpose purpose,
                           uint64_t number)
{
    struct weir_rng rng;
    uint64_t stream = (uint64_t)tenant << 8 | (uint64_t)purpose;
    uint64_t key = traffic_mix(lab->seed + UINT64_C(0x9E3779B97F4A7C15) * (stream + 1));
    weir_rng_seed(&rng, traffic_mix(key + number), stream);
    return rng;
}

/* When nothing new is sent any more. */
static uint64_t traffic_until_ns(const struct weir_lab *lab, const struct weir_lab_tenant *t)
{
    uint64_t until_ns = t->until_ns ? t->until_ns : lab->s->traffic_ns;
    return weir_min_u64(until_ns, lab->s->traffic_ns);
}

/* How fast a tenant sends at a time, in thousandths of its rate, and until when that is so. */
static uint32_t traffic_pace(const struct weir_lab_tenant *t, uint64_t at_ns, uint64_t *until_ns)
{
    *until_ns = WEIR_NEVER_NS;
    if (at_ns < t->from_ns) {
        *until_ns = t->from_ns;
        return 0;
    }
    if (t->off_ns > 0) {
        uint64_t cycle_ns = t->on_ns + t->off_ns, phase_ns = (at_ns - t->from_ns) % cycle_ns;
        bool is_on = phase_ns < t->on_ns;
        *until_ns = at_ns + (is_on ? t->on_ns : cycle_ns) - phase_ns;
        if (!is_on)
            return 0;
    }
    if (at_ns < t->burst_from_ns)
        *until_ns = weir_min_u64(*until_ns, t->burst_from_ns);
    else if (at_ns < t->burst_until_ns)
        *until_ns = weir_min_u64(*until_ns, t->burst_until_ns);
    bool is_burst = at_ns >= t->burst_from_ns && at_ns < t->burst_until_ns;
    return is_burst ? t->burst_permille : 1000;
}

/* When a tenant has sent for gap_ns more at its ordinary pace; WEIR_NEVER_NS: not before end_ns. */
static uint64_t traffic_after(const struct weir_lab_tenant *t, uint64_t at_ns, uint64_t gap_ns,
                              uint64_t end_ns)
{
    while (at_ns < end_ns) {
        uint64_t until_ns;
        uint32_t pace = traffic_pace(t, at_ns, &until_ns);
        uint64_t stretch_ns = weir_min_u64(until_ns, end_ns) - at_ns;
        uint64_t passes_ns = weir_muldiv_floor(stretch_ns, pace, 1000);
        if (pace > 0 && gap_ns < passes_ns)
            return at_ns + weir_muldiv_floor(gap_ns, 1000, pace);
        gap_ns -= passes_ns;
        at_ns += stretch_ns;
    }
    return WEIR_NEVER_NS;
}

/* The gap in front of request `number`, at the tenant's ordinary pace. */
static uint64_t traffic_gap_ns(const struct weir_lab *lab, uint32_t tenant, uint64_t number)
{
    const struct weir_lab_tenant *t = lab_rules(lab, tenant);
    struct weir_rng rng = lab_chance(lab, tenant, LAB_DRAW_GAP, number);
    /* A second has 10^15 millionths of nanoseconds; a mean above all times is never. */
    uint64_t mean_ns =
        (UINT64_C(1000000) * WEIR_NS_PER_S + t->rate_micro_per_s / 2) / t->rate_micro_per_s;
    if (t->arrivals == WEIR_LAB_POISSON)
        return weir_chance_exponential(&rng, mean_ns);
    /* Evenly, but not in step with the other tenants. */
    return number == 0 ? weir_rng_below(&rng, mean_ns) : mean_ns;
}

/* Sets the timer for the tenant's next request after at_ns, or lets it end. */
static void traffic_next(struct weir_lab *lab, uint32_t tenant, uint64_t at_ns)
{
    const struct weir_lab_tenant *t = lab_rules(lab, tenant);
    uint64_t next_ns = WEIR_NEVER_NS;
    if (t->rate_micro_per_s > 0)
        next_ns = traffic_after(t, at_ns, traffic_gap_ns(lab, tenant, lab->tenants[tenant].sent),
                                traffic_until_ns(lab, t));
    lab_timer(lab, tenant, next_ns);
    if (next_ns == WEIR_NEVER_NS)
        lab->senders_now--;
}

static uint32_t traffic_prompt_tok(const struct weir_lab *lab, uint32_t tenant, uint64_t number,
                                   uint64_t turn)
{
    const struct weir_lab_tenant *t = lab_rules(lab, tenant);
    struct weir_rng rng = lab_chance(lab, tenant, LAB_DRAW_PROMPT, number);
    if (t->growth_turns < 2)
        return weir_length_draw(&t->prompt, &rng);
    uint64_t range_tok = t->prompt.high - t->prompt.low;
    return t->prompt.low +
           (uint32_t)weir_muldiv_floor(range_tok, turn % t->growth_turns, t->growth_turns - 1);
}

static void traffic_send_drawn(struct weir_lab *lab, uint32_t tenant, uint32_t user,
                               uint64_t number, uint64_t turn)
{
    const struct weir_lab_tenant *t = lab_rules(lab, tenant);
    struct weir_rng rng = lab_chance(lab, tenant, LAB_DRAW_OUTPUT, number);
    struct lab_want want = {.tenant = tenant,
                            .user = user,
                            .number = number,
                            .prompt_tok = traffic_prompt_tok(lab, tenant, number, turn),
                            .output_tok = weir_length_draw(&t->output, &rng),
                            .output_limit_tok = t->output_limit_tok};
    lab_client_send(lab, &want);
}

void lab_traffic_tenant(struct weir_lab *lab, uint32_t tenant)
{
    uint64_t number = lab->tenants[tenant].sent++;
    traffic_next(lab, tenant, lab->now_ns);
    traffic_send_drawn(lab, tenant, WEIR_NONE, number, number);
}

/* Which tenant an entry of the trace is sent by; WEIR_NONE: by nobody. */
static uint32_t trace_tenant(const struct weir_lab *lab, const struct weir_trace_entry *entry)
{
    uint32_t tenant = lab->s->trace_tenants[entry->tenant];
    if (tenant == WEIR_NONE || lab_rules(lab, tenant)->arrivals != WEIR_LAB_TRACE)
        return WEIR_NONE;
    const struct weir_lab_tenant *t = lab_rules(lab, tenant);
    bool is_time = entry->arrival_ns >= t->from_ns && entry->arrival_ns < traffic_until_ns(lab, t);
    return is_time ? tenant : WEIR_NONE;
}

/* Sets the timer for the next entry that somebody sends, or lets the trace end. */
static void trace_next(struct weir_lab *lab)
{
    const struct weir_lab_scenario *s = lab->s;
    while (lab->trace_next < s->trace_count &&
           trace_tenant(lab, &s->trace[lab->trace_next]) == WEIR_NONE)
        lab->trace_next++;
    bool is_over = lab->trace_next == s->trace_count;
    lab_timer(lab, lab->at.trace, is_over ? WEIR_NEVER_NS : s->trace[lab->trace_next].arrival_ns);
    if (is_over)
        lab->senders_now--;
}

void lab_traffic_trace(struct weir_lab *lab)
{
    uint64_t number = lab->trace_next++;
    const struct weir_trace_entry *entry = &lab->s->trace[number];
    uint32_t tenant = trace_tenant(lab, entry);
    uint64_t limit_tok = entry->output_limit_tok ? entry->output_limit_tok
                                                 : lab_rules(lab, tenant)->output_limit_tok;
    struct lab_want want = {.tenant = tenant,
                            .user = WEIR_NONE,
                            .number = number,
                            .prompt_tok = entry->prompt_tok,
                            .cached_tok = entry->cached_tok,
                            .output_tok = entry->output_tok,
                            .output_limit_tok = limit_tok};
    trace_next(lab);
    lab_client_send(lab, &want);
}

/* Who was turned away looks again after a second at the earliest, however eager. */
#define THINK_MIN_NS WEIR_NS_PER_S

void lab_traffic_think(struct weir_lab *lab, uint32_t user, bool is_turned_away)
{
    const struct lab_user *u = &lab->users[user];
    const struct weir_lab_tenant *t = lab_rules(lab, u->tenant);
    struct weir_rng rng =
        lab_chance(lab, u->tenant, LAB_DRAW_THINK, (uint64_t)u->index << 32 | u->turn);
    uint64_t from_ns = weir_max_u64(lab->now_ns, t->from_ns);
    uint64_t think_ns = t->think_ns ? weir_chance_exponential(&rng, t->think_ns) : 0;
    if (is_turned_away)
        think_ns = weir_max_u64(think_ns, THINK_MIN_NS);
    uint64_t at_ns = weir_add_sat_u64(from_ns, think_ns);
    bool is_over = at_ns >= traffic_until_ns(lab, t);
    lab_timer(lab, lab->at.users + user, is_over ? WEIR_NEVER_NS : at_ns);
    if (is_over)
        lab->senders_now--;
}

void lab_traffic_user(struct weir_lab *lab, uint32_t user)
{
    struct lab_user *u = &lab->users[user];
    uint64_t number = (uint64_t)u->index << 32 | u->turn;
    traffic_send_drawn(lab, u->tenant, user, number, u->turn++);
}

void lab_traffic_start(struct weir_lab *lab)
{
    const struct weir_lab_scenario *s = lab->s;
    uint32_t user = 0;
    bool has_trace = false;
    for (uint32_t i = 0; i < s->tenant_count; i++) {
        const struct weir_lab_tenant *t = &s->tenants[i];
        switch (t->arrivals) {
        case WEIR_LAB_POISSON:
        case WEIR_LAB_EVEN:
            lab->senders_now++;
            traffic_next(lab, i, 0);
            break;
        case WEIR_LAB_TRACE:
            has_trace = true;
            break;
        case WEIR_LAB_CLOSED:
            for (uint32_t k = 0; k < t->users; k++, user++) {
                lab->users[user] = (struct lab_user){.tenant = i, .index = k};
                lab->senders_now++;
                lab_traffic_think(lab, user, false);
            }
            break;
        }
    }
    if (has_trace) {
        lab->senders_now++;
        trace_next(lab);
    }
}
