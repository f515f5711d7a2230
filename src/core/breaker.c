#include "core/breaker.h"

#include <string.h>

enum weir_breaker_outcome weir_breaker_outcome_of_status(uint32_t status)
{
    if (status >= 500)
        return WEIR_BREAKER_FAILURE;
    return status >= 400 ? WEIR_BREAKER_NEUTRAL : WEIR_BREAKER_SUCCESS;
}

struct weir_breaker_rules weir_breaker_rules_default(void)
{
    return (struct weir_breaker_rules){
        .failures_in_row = 5,
        .failure_percent = 50,
        .calls_min = 20,
        .window_s = 30,
        .trials = 1,
        .cooldown_ns = 15 * WEIR_NS_PER_S,
        .cooldown_max_ns = 60 * WEIR_NS_PER_S,
    };
}

/* The only place that changes the state. What was counted belongs to the state that ends. */
static void breaker_move(struct weir_breaker *b, enum weir_breaker_state to)
{
    b->state = to;
    b->generation++;
    b->failures_in_row_now = 0;
    b->trials_out = 0;
    b->trials_passed = 0;
    memset(b->window, 0, sizeof b->window);
}

void weir_breaker_init(struct weir_breaker *b, const struct weir_breaker_rules *rules)
{
    memset(b, 0, sizeof *b);
    weir_breaker_rules_set(b, rules);
}

void weir_breaker_rules_set(struct weir_breaker *b, const struct weir_breaker_rules *rules)
{
    WEIR_INVARIANT(rules->trials > 0);
    WEIR_INVARIANT(rules->window_s > 0);
    WEIR_INVARIANT(rules->window_s <= WEIR_BREAKER_WINDOW_MAX_S);
    b->rules = *rules;
    if (b->state == WEIR_BREAKER_HALF_OPEN && b->trials_passed >= rules->trials)
        breaker_move(b, WEIR_BREAKER_CLOSED); /* fewer are wanted now than have passed already */
}

static uint64_t breaker_cooldown(const struct weir_breaker *b)
{
    uint64_t cooldown_ns = b->rules.cooldown_ns;
    for (uint32_t trip = 1; trip < b->trips && cooldown_ns < b->rules.cooldown_max_ns; trip++)
        cooldown_ns = weir_add_sat_u64(cooldown_ns, cooldown_ns);
    /* A maximum below the first length is the first length: the two may be set one by one. */
    return weir_min_u64(cooldown_ns, weir_max_u64(b->rules.cooldown_ns, b->rules.cooldown_max_ns));
}

static void breaker_trip(struct weir_breaker *b, uint64_t now_ns)
{
    bool was_well = b->state == WEIR_BREAKER_CLOSED && b->trips > 0 &&
                    now_ns - weir_min_u64(b->closed_ns, now_ns) >= breaker_cooldown(b);
    b->trips = was_well ? 1 : b->trips + 1;
    b->open_until_ns = weir_add_sat_u64(now_ns, breaker_cooldown(b));
    b->opened++;
    breaker_move(b, WEIR_BREAKER_OPEN);
}

enum weir_breaker_state weir_breaker_tick(struct weir_breaker *b, uint64_t now_ns)
{
    if (b->state == WEIR_BREAKER_OPEN && now_ns >= b->open_until_ns)
        breaker_move(b, WEIR_BREAKER_HALF_OPEN);
    return b->state;
}

bool weir_breaker_may_pass(struct weir_breaker *b, uint64_t now_ns)
{
    switch (weir_breaker_tick(b, now_ns)) {
    case WEIR_BREAKER_CLOSED:
        return true;
    case WEIR_BREAKER_OPEN:
        return false;
    case WEIR_BREAKER_HALF_OPEN:
        /* Trials that passed keep their place, so never more calls than needed reach the upstream.
         */
        return b->trials_out + b->trials_passed < b->rules.trials;
    }
    return false;
}

struct weir_breaker_ticket weir_breaker_admit(struct weir_breaker *b, uint64_t now_ns)
{
    WEIR_INVARIANT(weir_breaker_may_pass(b, now_ns));
    bool is_trial = b->state == WEIR_BREAKER_HALF_OPEN;
    if (is_trial)
        b->trials_out++;
    return (struct weir_breaker_ticket){.generation = b->generation, .is_trial = is_trial};
}

/* Books a call in its second and says whether the window's share of failures is reached. */
static bool breaker_window_add(struct weir_breaker *b, bool failed, uint64_t now_ns)
{
    uint64_t second = now_ns / WEIR_NS_PER_S + 1;
    struct weir_breaker_second *s = &b->window[second % WEIR_BREAKER_WINDOW_MAX_S];
    if (s->second != second)
        *s = (struct weir_breaker_second){.second = second};
    s->calls++;
    s->failures += failed;
    if (!failed || b->rules.failure_percent == 0)
        return false; /* a success can not raise the share */
    uint64_t calls = 0, failures = 0;
    for (uint32_t i = 0; i < WEIR_BREAKER_WINDOW_MAX_S; i++) {
        s = &b->window[i];
        if (s->second == 0 || s->second > second || second - s->second >= b->rules.window_s)
            continue;
        calls += s->calls;
        failures += s->failures;
    }
    return calls >= b->rules.calls_min && failures * 100 >= calls * b->rules.failure_percent;
}

static bool breaker_report_closed(struct weir_breaker *b, bool failed, uint64_t now_ns)
{
    bool share_reached = breaker_window_add(b, failed, now_ns);
    b->failures_in_row_now = failed ? b->failures_in_row_now + 1 : 0;
    bool row_reached =
        b->rules.failures_in_row > 0 && b->failures_in_row_now >= b->rules.failures_in_row;
    if (!share_reached && !row_reached)
        return false;
    breaker_trip(b, now_ns);
    return true;
}

static void breaker_report_trial(struct weir_breaker *b, enum weir_breaker_outcome outcome,
                                 uint64_t now_ns)
{
    WEIR_INVARIANT(b->trials_out > 0);
    b->trials_out--;
    if (outcome == WEIR_BREAKER_FAILURE) {
        breaker_trip(b, now_ns);
        return;
    }
    if (outcome != WEIR_BREAKER_SUCCESS)
        return;
    b->trials_passed++;
    if (b->trials_passed < b->rules.trials)
        return;
    b->closed_ns = now_ns;
    breaker_move(b, WEIR_BREAKER_CLOSED);
}

bool weir_breaker_report(struct weir_breaker *b, struct weir_breaker_ticket ticket,
                         enum weir_breaker_outcome outcome, uint64_t now_ns)
{
    b->calls += outcome != WEIR_BREAKER_UNUSED;
    b->failures += outcome == WEIR_BREAKER_FAILURE;
    if (ticket.generation != b->generation)
        return false; /* the state it was admitted in has ended: it is history */
    if (ticket.is_trial) {
        breaker_report_trial(b, outcome, now_ns);
        return true;
    }
    WEIR_INVARIANT(b->state == WEIR_BREAKER_CLOSED);
    if (outcome == WEIR_BREAKER_NEUTRAL || outcome == WEIR_BREAKER_UNUSED)
        return false;
    return breaker_report_closed(b, outcome == WEIR_BREAKER_FAILURE, now_ns);
}

void weir_breaker_pause(struct weir_breaker *b, uint64_t hint_ns, uint64_t now_ns)
{
    if (hint_ns == 0)
        hint_ns = WEIR_BREAKER_PAUSE_DEFAULT_NS;
    hint_ns = weir_max_u64(hint_ns, WEIR_BREAKER_PAUSE_MIN_NS);
    hint_ns = weir_min_u64(hint_ns, WEIR_BREAKER_PAUSE_MAX_NS);
    b->paused_until_ns = weir_max_u64(b->paused_until_ns, weir_add_sat_u64(now_ns, hint_ns));
}

uint64_t weir_breaker_open_for_ns(const struct weir_breaker *b, uint64_t now_ns)
{
    if (b->state != WEIR_BREAKER_OPEN || b->open_until_ns <= now_ns)
        return 0;
    return b->open_until_ns - now_ns;
}

uint64_t weir_breaker_paused_for_ns(const struct weir_breaker *b, uint64_t now_ns)
{
    return b->paused_until_ns > now_ns ? b->paused_until_ns - now_ns : 0;
}
