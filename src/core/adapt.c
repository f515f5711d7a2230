#include "core/adapt.h"

#include "core/num.h"

#define ADAPT_WAIT_MAX_NS (3600 * WEIR_NS_PER_S)
#define ADAPT_PACE_MIN_NS WEIR_NS_PER_US
#define ADAPT_PACE_MAX_NS (100 * WEIR_NS_PER_S)
#define ADAPT_SHAPE_ONE UINT64_C(65536)
#define ADAPT_SHAPE_MAX (UINT64_C(1) << 54)
#define ADAPT_OUTPUT_MIN_TOK 8 /* fewer tell too little of the pace */
#define ADAPT_SAMPLES_MIN 16
#define ADAPT_SAMPLES_FEW 8                   /* enough to see a large queue */
#define ADAPT_GAP_MAX_NS (60 * WEIR_NS_PER_S) /* between two samples of a period */
#define ADAPT_SEEN_MAX 8
#define ADAPT_STUBBORN_MAX 3 /* falls for what does not shrink */
#define ADAPT_ROOMY_MAX 3    /* periods: then the pace is known */

/* ---- what the first byte takes without a queue ---- */

static uint32_t adapt_class(uint32_t input_tok)
{
    uint32_t octave = weir_log2_floor_u64(input_tok);
    uint32_t quarter = octave >= 2 ? input_tok >> (octave - 2) & 3 : input_tok << (2 - octave) & 3;
    return octave * 4 + quarter;
}

/* The least input beyond the class, rounded up. */
static uint32_t adapt_class_end(uint32_t class)
{
    uint32_t octave = class / 4, quarters = 5 + class % 4;
    return octave >= 2 ? quarters << (octave - 2) : (quarters + 3) >> (2 - octave);
}

/* Of a class that was not seen yet the next smaller one tells, whose time per token is no lower,
 * or a larger one's whole time: either is rather too long, so that it shows no queue that is none.
 * 0: nothing is known. */
static uint64_t adapt_expected_ns(const struct weir_adapt *a, const struct weir_adapt_sample *s)
{
    uint32_t of = adapt_class(s->input_tok), as_tok = s->input_tok;
    while (of > 0 && a->shape[of] == 0)
        of--;
    if (a->shape[of] == 0) {
        of = adapt_class(s->input_tok);
        while (of < WEIR_ADAPT_CLASSES && a->shape[of] == 0)
            of++;
        if (of == WEIR_ADAPT_CLASSES)
            return 0;
        as_tok = adapt_class_end(of);
    }
    uint64_t steps = weir_muldiv_floor(a->shape[of], as_tok, 1);
    uint64_t pace_ns = weir_max_u64(s->pace_ns, a->pace_ns); /* it may be known late */
    uint64_t expected_ns = weir_muldiv_floor(steps, pace_ns, ADAPT_SHAPE_ONE);
    return weir_max_u64(1, weir_min_u64(expected_ns, ADAPT_WAIT_MAX_NS));
}

/* The mean of the middle half: one tenant that is always slow does not move it. Sorts v. */
static int64_t adapt_middle(int64_t *v, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        int64_t moved = v[i];
        uint32_t to = i;
        for (; to > 0 && v[to - 1] > moved; to--)
            v[to] = v[to - 1];
        v[to] = moved;
    }
    int64_t sum = 0;
    for (uint32_t i = count / 4; i < count - count / 4; i++)
        sum += v[i];
    return sum / (int64_t)(count - 2 * (count / 4));
}

static uint64_t adapt_shape_of(const struct weir_adapt_sample *s)
{
    uint64_t per_tok_ns = weir_muldiv_floor(s->wait_ns, ADAPT_SHAPE_ONE, s->input_tok);
    return weir_max_u64(1, weir_min_u64(per_tok_ns / s->pace_ns, ADAPT_SHAPE_MAX));
}

/* Down eagerly, up slowly: a little queue that goes unnoticed does not become what is expected. */
static void adapt_learn_class(struct weir_adapt *a, uint32_t class, uint64_t seen, uint32_t count,
                              bool is_exact)
{
    uint64_t *shape = &a->shape[class];
    if (a->seen[class] < ADAPT_SEEN_MAX) {
        uint64_t before = a->seen[class];
        *shape = (*shape * before + seen * count) / (before + count);
        a->seen[class] = (uint8_t)weir_min_u64(before + count, ADAPT_SEEN_MAX);
    } else if (seen < *shape) {
        *shape -= is_exact ? *shape - seen : (*shape - seen) * weir_min_u64(count, 2) / 8;
    } else {
        *shape += (weir_min_u64(seen, 2 * *shape) - *shape) * weir_min_u64(count, 2) / 32;
    }
    *shape = weir_max_u64(1, *shape);
}

static void adapt_learn(struct weir_adapt *a, bool is_exact)
{
    bool is_done[WEIR_ADAPT_CLASSES] = {false};
    for (uint32_t i = 0; i < a->sample_count; i++) {
        uint32_t class = adapt_class(a->samples[i].input_tok), count = 0;
        uint64_t sum = 0;
        if (is_done[class])
            continue;
        for (uint32_t j = i; j < a->sample_count; j++) {
            if (adapt_class(a->samples[j].input_tok) != class)
                continue;
            sum += adapt_shape_of(&a->samples[j]);
            count++;
        }
        is_done[class] = true;
        adapt_learn_class(a, class, sum / count, count, is_exact);
    }
}

/* The whole shape by one factor, so that it fits the samples. */
static void adapt_learn_anew(struct weir_adapt *a)
{
    int64_t permille[WEIR_ADAPT_SAMPLES_MAX];
    for (uint32_t i = 0; i < a->sample_count; i++)
        permille[i] = (int64_t)weir_muldiv_floor(a->samples[i].wait_ns, 1000,
                                                 adapt_expected_ns(a, &a->samples[i]));
    uint64_t factor = (uint64_t)weir_max_i64(1, adapt_middle(permille, a->sample_count));
    for (uint32_t i = 0; i < WEIR_ADAPT_CLASSES; i++)
        if (a->shape[i] > 0)
            a->shape[i] = weir_max_u64(
                1, weir_min_u64(weir_muldiv_floor(a->shape[i], factor, 1000), ADAPT_SHAPE_MAX));
}

/* ---- the limit ---- */

static void adapt_begin(struct weir_adapt *a, uint64_t now_ns)
{
    a->since_ns = now_ns;
    a->ended = a->refused = a->sample_count = 0;
}

static void adapt_move(struct weir_adapt *a, uint32_t limit, uint64_t now_ns)
{
    uint32_t least = a->rules.min < a->ceiling ? a->rules.min : a->ceiling;
    limit = limit < least ? least : limit > a->ceiling ? a->ceiling : limit;
    if (limit != a->limit)
        a->period++;
    a->limit = limit;
    adapt_begin(a, now_ns);
}

void weir_adapt_set(struct weir_adapt *a, const struct weir_adapt_rules *rules, uint32_t ceiling,
                    uint64_t now_ns)
{
    WEIR_INVARIANT(ceiling > 0);
    bool was_on = a->rules.min > 0;
    a->rules = *rules;
    a->ceiling = ceiling;
    if (rules->min == 0)
        adapt_move(a, ceiling, now_ns);
    else if (!was_on)
        adapt_move(a, rules->start, now_ns);
    else
        adapt_move(a, a->limit, now_ns);
}

static uint32_t adapt_part(uint32_t limit, uint32_t divisor)
{
    return limit / divisor > 0 ? limit / divisor : 1;
}

static void adapt_fall(struct weir_adapt *a, uint64_t queued_milli, uint64_t now_ns)
{
    uint64_t queued = (queued_milli + 500) / 1000;
    uint64_t by = weir_min_u64(queued + adapt_part(a->limit, 32), adapt_part(a->limit, 3));
    a->knee = (uint32_t)weir_max_u64(1, weir_sub_sat_u64(a->limit, queued));
    a->rises = 0;
    a->fell_from = a->limit;
    a->fell_queued_milli = queued_milli;
    adapt_move(a, (uint32_t)weir_sub_sat_u64(a->limit, by), now_ns);
}

static void adapt_rise(struct weir_adapt *a, bool has_room, uint64_t now_ns)
{
    uint32_t by = adapt_part(a->limit, 32);
    if (a->knee == 0)
        by = adapt_part(a->limit, 2);
    else if (has_room)
        by = adapt_part(a->limit, 8);
    else if (a->limit > a->knee + a->knee / 8)
        by = adapt_part(a->limit, ++a->rises > 2 ? 4 : 8);
    a->fell_from = a->stubborn = 0;
    adapt_move(a, by < a->ceiling - a->limit ? a->limit + by : a->ceiling, now_ns);
}

/* The limit fell for a queue and there still is one. Were it none, the same share of the calls
 * would be in it; a real one has lost what the limit has. Is it nearer to the former? */
static bool adapt_is_stubborn(const struct weir_adapt *a, uint64_t queued_milli)
{
    if (a->fell_from <= a->limit)
        return false;
    uint64_t real_milli =
        weir_sub_sat_u64(a->fell_queued_milli, (uint64_t)(a->fell_from - a->limit) * 1000);
    uint64_t none_milli = weir_muldiv_floor(a->fell_queued_milli, a->limit, a->fell_from);
    return queued_milli > real_milli + (none_milli - real_milli) / 2;
}

/* Calls that wait upstream, in thousandths; below 0: fewer than expected; 0: can not be told. */
static int64_t adapt_queued_milli(struct weir_adapt *a, uint64_t now_ns)
{
    int64_t excess_ns[WEIR_ADAPT_SAMPLES_MAX];
    for (uint32_t i = 0; i < a->sample_count; i++) {
        uint64_t expected_ns = adapt_expected_ns(a, &a->samples[i]);
        if (expected_ns == 0)
            return 0;
        excess_ns[i] = (int64_t)a->samples[i].wait_ns - (int64_t)expected_ns;
    }
    uint64_t took_ns = weir_sub_sat_u64(now_ns, a->since_ns);
    uint64_t rate_micro = a->rate_micro;
    if (a->ended >= 4 && took_ns > 0)
        rate_micro = weir_muldiv_floor(a->ended, 1000000 * WEIR_NS_PER_S, took_ns);
    int64_t middle_ns = adapt_middle(excess_ns, a->sample_count);
    a->rate_micro = rate_micro;
    uint64_t queued_milli =
        weir_muldiv_floor(weir_abs_i64(middle_ns), rate_micro, 1000 * WEIR_NS_PER_S);
    queued_milli = weir_min_u64(queued_milli, (uint64_t)a->limit * 1000);
    return middle_ns < 0 ? -(int64_t)queued_milli : (int64_t)queued_milli;
}

static void adapt_judge(struct weir_adapt *a, int64_t queued_milli, uint64_t now_ns)
{
    uint64_t noise_milli = weir_max_u64(450, (uint64_t)a->limit * 30);
    bool is_queue = queued_milli > (int64_t)noise_milli;
    if (is_queue && adapt_is_stubborn(a, (uint64_t)queued_milli)) {
        is_queue = ++a->stubborn < ADAPT_STUBBORN_MAX;
        if (!is_queue)
            adapt_learn_anew(a);
    } else {
        a->stubborn = 0;
    }
    if (is_queue) {
        adapt_fall(a, (uint64_t)queued_milli, now_ns);
        return;
    }
    /* Where the pace quickens too, capacity has come back: that pace is known late, and the shape
     * would be learned too low. */
    bool is_sooner = queued_milli < -(int64_t)noise_milli;
    bool is_quicker = a->pace_ns < a->calm_pace_ns - a->calm_pace_ns / 32;
    a->roomy = is_sooner && is_quicker ? a->roomy + 1 : 0;
    bool has_room = a->roomy > 0 && a->roomy <= ADAPT_ROOMY_MAX;
    if (!has_room) {
        adapt_learn(a, is_sooner);
        a->calm_pace_ns = a->pace_ns;
    }
    adapt_rise(a, has_room, now_ns);
}

/* ---- what is told ---- */

#define TICKET_FULL 1u

static bool adapt_is_current(const struct weir_adapt *a, uint32_t ticket)
{
    /* It may have been switched off while the call was under way. */
    return a->rules.min > 0 && ticket != 0 && ticket >> 1 == (a->period & UINT32_MAX >> 1);
}

uint32_t weir_adapt_started(const struct weir_adapt *a, uint32_t in_flight)
{
    if (in_flight < a->limit - a->limit / 2)
        return 0;
    return a->period << 1 | (in_flight >= a->limit - a->limit / 8);
}

void weir_adapt_first_byte(struct weir_adapt *a, uint32_t ticket, uint64_t input_tok,
                           uint64_t wait_ns, uint64_t now_ns)
{
    if (!adapt_is_current(a, ticket) || !(ticket & TICKET_FULL) || a->pace_ns == 0)
        return;
    if (a->sample_count > 0 && weir_sub_sat_u64(now_ns, a->sampled_ns) > ADAPT_GAP_MAX_NS)
        adapt_begin(a, now_ns);
    a->sampled_ns = now_ns;
    a->samples[a->sample_count++] = (struct weir_adapt_sample){
        .wait_ns = weir_min_u64(wait_ns, ADAPT_WAIT_MAX_NS),
        .pace_ns = a->pace_ns,
        .input_tok = (uint32_t)weir_max_u64(1, weir_min_u64(input_tok, (UINT64_C(1) << 24) - 1))};
    uint32_t enough = a->limit / 4;
    enough = enough < ADAPT_SAMPLES_MIN        ? ADAPT_SAMPLES_MIN
             : enough > WEIR_ADAPT_SAMPLES_MAX ? WEIR_ADAPT_SAMPLES_MAX
                                               : enough;
    bool is_enough = a->sample_count >= enough;
    if (!is_enough && a->sample_count != ADAPT_SAMPLES_FEW)
        return;
    int64_t queued_milli = adapt_queued_milli(a, now_ns);
    if (is_enough || queued_milli > (int64_t)a->limit * 250)
        adapt_judge(a, queued_milli, now_ns);
}

void weir_adapt_refused(struct weir_adapt *a, uint32_t ticket, uint64_t now_ns)
{
    if (!adapt_is_current(a, ticket))
        return;
    a->refused++;
    if (a->refused < 2 || a->refused < a->ended / 10)
        return;
    uint32_t limit = a->limit - adapt_part(a->limit, 8);
    a->knee = limit > 0 ? limit : 1;
    a->rises = a->stubborn = a->fell_from = 0;
    adapt_move(a, limit, now_ns);
}

void weir_adapt_ended(struct weir_adapt *a, uint64_t answer_ns, uint64_t output_tok)
{
    a->ended += a->ended < UINT32_MAX;
    if (answer_ns == 0 || output_tok < ADAPT_OUTPUT_MIN_TOK)
        return;
    uint64_t pace_ns = weir_max_u64(ADAPT_PACE_MIN_NS,
                                    weir_min_u64(answer_ns / (output_tok - 1), ADAPT_PACE_MAX_NS));
    if (a->pace_ns == 0)
        a->pace_ns = pace_ns;
    else if (pace_ns > a->pace_ns)
        a->pace_ns += (weir_min_u64(pace_ns, a->pace_ns + a->pace_ns / 4) - a->pace_ns) / 8;
    else
        a->pace_ns -= (a->pace_ns - weir_max_u64(pace_ns, a->pace_ns - a->pace_ns / 4)) / 8;
}
