#include "measure/sweep.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure/percentile.h"

#define SEEN_EVERY_NS (200 * WEIR_NS_PER_MS)

struct sweep_request {
    uint64_t took_ns, first_ns; /* from intended; first 0: none */
    uint64_t output_tok;        /* WEIR_NEVER_NS: not told */
    uint32_t part;
    uint32_t place; /* how many its part had sent before it */
    enum weir_load_end end;
};

struct sweep_part {
    struct weir_sweep_part rules;
    uint32_t sent;
};

struct weir_sweep {
    struct weir_sweep_rules rules;
    struct weir_loop *loop;
    struct weir_load *load;
    volatile sig_atomic_t is_stopped;
    uint64_t come_again_ns; /* by the hints so far */
    bool is_permanent;

    /* The run at hand. */
    struct weir_timer timer; /* for progress */
    struct sweep_request *requests;
    struct sweep_part parts[WEIR_SWEEP_PARTS_MAX];
    size_t parts_count;
    uint32_t planned, sent, ended, ok;
    uint64_t begun_ns, last_ns;
    bool is_over, is_over_budget;
    struct weir_sweep_figures *figures;
};

/* ---- a run ---- */

static void sweep_tell(struct weir_sweep *s, uint64_t rest_ns)
{
    if (!s->rules.seen)
        return;
    const struct weir_sweep_now now = {.in_flight = s->sent - s->ended,
                                       .planned = s->planned,
                                       .sent = s->sent,
                                       .ok = s->ok,
                                       .bad = s->ended - s->ok,
                                       .rest_ns = rest_ns};
    s->rules.seen(s->rules.ctx, &now);
}

static void sweep_tick(struct weir_timer *timer)
{
    struct weir_sweep *s =
        (struct weir_sweep *)((char *)timer - offsetof(struct weir_sweep, timer));
    sweep_tell(s, 0);
    weir_timer_set(s->loop, &s->timer, weir_loop_now_ns(s->loop) + SEEN_EVERY_NS);
}

/* The part's next request, where one may still be sent. */
static void sweep_send(struct weir_sweep *s, uint32_t part)
{
    if (s->is_over || s->is_stopped || s->sent == s->planned)
        return;
    struct sweep_request *r = &s->requests[s->sent];
    const struct weir_load_ask ask = {.body = s->rules.body,
                                      .body_bytes = s->rules.body_bytes,
                                      .key_index = s->parts[part].rules.key_index,
                                      .intended_ns = weir_loop_clock_ns(),
                                      .user = r};
    *r = (struct sweep_request){.part = part, .place = s->parts[part].sent};
    if (!weir_load_begin(s->load, &ask)) { /* out of memory: what is in flight goes on */
        s->is_over = true;
        return;
    }
    s->sent++;
    s->parts[part].sent++;
}

static void sweep_add(struct weir_sweep *s, struct weir_sweep_figures *f,
                      const struct weir_load_record *record)
{
    f->sent++;
    f->ended[record->end]++;
    f->from_gateway += record->from_gateway;
    if (record->end == WEIR_LOAD_OK && record->usage_known) {
        f->usage_known++;
        f->input_tok += record->input_tok;
        f->output_tok += record->output_tok;
    }
    if (!f->code[0])
        memcpy(f->code, record->code, sizeof f->code);
    if (!record->hint.has_wait)
        return;
    f->hint_min_ns =
        f->hints ? weir_min_u64(f->hint_min_ns, record->hint.wait_ns) : record->hint.wait_ns;
    f->hint_max_ns = weir_max_u64(f->hint_max_ns, record->hint.wait_ns);
    f->hints++;
    s->come_again_ns =
        weir_max_u64(s->come_again_ns, weir_add_sat_u64(record->end_ns, record->hint.wait_ns));
}

static void sweep_ended(void *ctx, void *user, const struct weir_load_record *record)
{
    struct weir_sweep *s = ctx;
    struct sweep_request *r = user;
    r->end = record->end;
    r->took_ns = record->end_ns - record->intended_ns;
    r->first_ns = record->first_token_ns ? record->first_token_ns - record->intended_ns : 0;
    r->output_tok = record->usage_known ? record->output_tok : WEIR_NEVER_NS;
    s->ended++;
    s->ok += record->end == WEIR_LOAD_OK;
    s->last_ns = record->end_ns;
    s->is_permanent = s->is_permanent || (record->hint.permanent && record->status == 429);
    sweep_add(s, &s->figures[r->part], record);
    sweep_add(s, &s->figures[s->parts_count], record);
    s->is_over_budget = s->is_over_budget || (uint64_t)(s->ended - s->ok) * 1000 >
                                                 (uint64_t)s->planned * s->rules.bad_permille;
    s->is_over = s->is_over || s->is_over_budget;
    sweep_send(s, r->part);
}

/* ---- what it came to ---- */

static struct weir_sweep_times sweep_times(struct weir_sample *sample)
{
    return (struct weir_sweep_times){.count = sample->count,
                                     .p50_ns = weir_sample_at(sample, 500),
                                     .p95_ns = weir_sample_at(sample, 950),
                                     .p99_ns = weir_sample_at(sample, 990),
                                     .mean_ns = weir_sample_mean(sample)};
}

static bool sweep_is_measured(const struct weir_sweep *s, const struct sweep_request *r)
{
    const struct sweep_part *p = &s->parts[r->part];
    uint32_t edge = p->rules.in_flight;
    return r->end != WEIR_LOAD_CANCELLED &&
           (p->sent / 3 < edge || (r->place >= edge && r->place < p->sent - edge));
}

/* part: parts_count for all. */
static bool sweep_sum(struct weir_sweep *s, size_t part)
{
    struct weir_sweep_figures *f = &s->figures[part];
    struct weir_sample whole, first = {0}, token = {0}, all = {0};
    bool ok = weir_sample_init(&whole, s->sent) && weir_sample_init(&first, s->sent) &&
              weir_sample_init(&token, s->sent) && weir_sample_init(&all, s->sent);
    uint64_t told = 0, told_tok = 0;
    for (uint32_t i = 0; ok && i < s->sent; i++) {
        const struct sweep_request *r = &s->requests[i];
        if ((part < s->parts_count && r->part != part) || !sweep_is_measured(s, r))
            continue;
        weir_sample_add(&all, r->took_ns);
        if (r->end != WEIR_LOAD_OK)
            continue;
        weir_sample_add(&whole, r->took_ns);
        if (r->first_ns)
            weir_sample_add(&first, r->first_ns);
        if (r->output_tok == WEIR_NEVER_NS)
            continue;
        told++;
        told_tok += r->output_tok;
        if (r->first_ns && r->output_tok > 1)
            weir_sample_add(&token, (r->took_ns - r->first_ns) / (r->output_tok - 1));
    }
    f->measured = all.count;
    f->whole = sweep_times(&whole);
    f->first = sweep_times(&first);
    f->token = sweep_times(&token);
    f->mean_all_ns = weir_sample_mean(&all);
    if (f->mean_all_ns > 0)
        f->per_s =
            f->in_flight / (double)f->mean_all_ns * 1e9 * (double)whole.count / (double)all.count;
    if (told > 0)
        f->output_tok_per_s = f->per_s * (double)told_tok / (double)told;
    f->took_ns = s->last_ns > s->begun_ns ? s->last_ns - s->begun_ns : 0;
    weir_sample_free(&whole);
    weir_sample_free(&first);
    weir_sample_free(&token);
    weir_sample_free(&all);
    return ok;
}

static void sweep_begin(struct weir_sweep *s, const struct weir_sweep_part *parts)
{
    s->sent = s->ended = s->ok = 0;
    s->is_over = s->is_over_budget = false;
    s->begun_ns = s->last_ns = weir_loop_clock_ns();
    memset(s->figures, 0, (s->parts_count + 1) * sizeof *s->figures);
    for (size_t i = 0; i < s->parts_count; i++) {
        s->parts[i] = (struct sweep_part){.rules = parts[i]};
        s->figures[i].in_flight = parts[i].in_flight;
        s->figures[s->parts_count].in_flight += parts[i].in_flight;
    }
    WEIR_INVARIANT(s->figures[s->parts_count].in_flight <= s->rules.load.in_flight_max);
}

enum weir_sweep_end weir_sweep_run(struct weir_sweep *s, const struct weir_sweep_part *parts,
                                   size_t parts_count, uint32_t requests,
                                   struct weir_sweep_figures *figures)
{
    WEIR_INVARIANT(parts_count >= 1 && parts_count <= WEIR_SWEEP_PARTS_MAX);
    WEIR_INVARIANT(requests >= 1 && requests <= WEIR_SWEEP_REQUESTS_MAX);
    bool is_well = true;
    s->planned = requests;
    s->parts_count = parts_count;
    s->figures = figures;
    sweep_begin(s, parts);
    s->requests = calloc(requests, sizeof *s->requests);
    if (!s->requests)
        return WEIR_SWEEP_FAULT;
    /* In turns, so that no part stands behind the whole of another by its place in the list. */
    for (uint32_t round = 0, more = 1; more; round++) {
        more = 0;
        for (uint32_t i = 0; i < parts_count; i++)
            if (round < parts[i].in_flight) {
                sweep_send(s, i);
                more = 1;
            }
    }
    s->timer.fire = sweep_tick;
    weir_timer_set(s->loop, &s->timer, weir_loop_clock_ns() + SEEN_EVERY_NS);
    while (is_well && s->ended < s->sent && !s->is_stopped)
        is_well = weir_loop_turn(s->loop, WEIR_NEVER_NS) == 0;
    weir_timer_cancel(s->loop, &s->timer);
    if (s->is_stopped || !is_well)
        weir_load_stop(s->load);
    for (size_t i = 0; i <= parts_count; i++)
        is_well = sweep_sum(s, i) && is_well;
    free(s->requests);
    s->requests = NULL;
    if (s->is_stopped)
        return WEIR_SWEEP_STOPPED;
    if (s->is_over_budget)
        return WEIR_SWEEP_BUDGET;
    return is_well && s->sent == requests ? WEIR_SWEEP_DONE : WEIR_SWEEP_FAULT;
}

/* ---- between runs ---- */

static void sweep_wake(struct weir_timer *timer)
{
    (void)timer; /* the turn is what it is for */
}

bool weir_sweep_rest(struct weir_sweep *s, uint64_t *asked_ns)
{
    uint64_t now_ns = weir_loop_clock_ns();
    *asked_ns = s->is_permanent              ? WEIR_NEVER_NS
                : s->come_again_ns <= now_ns ? 0
                                             : s->come_again_ns - now_ns;
    if (*asked_ns > s->rules.rest_max_ns)
        return false;
    s->sent = s->ended = s->ok = 0;
    while (!s->is_stopped && (now_ns = weir_loop_clock_ns()) < s->come_again_ns) {
        sweep_tell(s, s->come_again_ns - now_ns);
        s->timer.fire = sweep_wake;
        weir_timer_set(s->loop, &s->timer, weir_min_u64(s->come_again_ns, now_ns + SEEN_EVERY_NS));
        if (weir_loop_turn(s->loop, WEIR_NEVER_NS) != 0)
            break;
    }
    weir_timer_cancel(s->loop, &s->timer);
    *asked_ns = 0;
    return !s->is_stopped;
}

/* ---- life ---- */

struct weir_sweep *weir_sweep_create(const struct weir_sweep_rules *rules, char *error_text,
                                     size_t error_bytes)
{
    struct weir_sweep *s = calloc(1, sizeof *s);
    if (!s || !(s->loop = weir_loop_create())) {
        snprintf(error_text, error_bytes, "out of memory or descriptors");
        free(s);
        return NULL;
    }
    s->rules = *rules;
    s->load = weir_load_create(s->loop, &rules->load, sweep_ended, s, error_text, error_bytes);
    if (!s->load) {
        weir_sweep_destroy(s);
        return NULL;
    }
    return s;
}

void weir_sweep_destroy(struct weir_sweep *s)
{
    if (!s)
        return;
    weir_load_destroy(s->load);
    weir_loop_destroy(s->loop);
    free(s);
}

void weir_sweep_stop(struct weir_sweep *s)
{
    s->is_stopped = 1;
    weir_loop_wake(s->loop);
}

const struct weir_load *weir_sweep_load(const struct weir_sweep *s)
{
    return s->load;
}
