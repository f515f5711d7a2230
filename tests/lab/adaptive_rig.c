#include "lab/adaptive_rig.h"

#include "core/adapt.h"

#include <stdlib.h>
#include <string.h>

#define LENGTH(kind_, low_, high_, mean_, sigma_)                                                  \
    {                                                                                              \
        .kind = WEIR_LENGTH_##kind_, .low = low_, .high = high_, .mean = mean_,                    \
        .sigma_permille = sigma_                                                                   \
    }

const struct rig_kind rig_chat = {.share = 1,
                                  .prompt = LENGTH(UNIFORM, 300, 1500, 0, 0),
                                  .output = LENGTH(EXPONENTIAL, 1, 2000, 250, 0)};
const struct rig_kind rig_code = {.share = 1,
                                  .prompt = LENGTH(LOGNORMAL, 3, 7300, 1469, 900),
                                  .output = LENGTH(LOGNORMAL, 1, 400, 13, 1200)};
const struct rig_kind rig_arena = {.share = 1,
                                   .prompt = LENGTH(LOGNORMAL, 2, 1000, 40, 1400),
                                   .output = LENGTH(LOGNORMAL, 1, 1000, 211, 800)};
const struct rig_kind rig_agent = {.share = 1,
                                   .prompt = LENGTH(UNIFORM, 6000, 24000, 0, 0),
                                   .output = LENGTH(EXPONENTIAL, 1, 8000, 1000, 0)};

struct rig_case rig_case_of(uint32_t replicas, uint32_t sequences)
{
    return (struct rig_case){.backend = {.replicas = replicas,
                                         .sequences = sequences,
                                         .step_ns = 6 * WEIR_NS_PER_MS,
                                         .step_sequence_ns = 250 * WEIR_NS_PER_US,
                                         .prefill_permille = 100,
                                         .latency_ns = 2 * WEIR_NS_PER_MS},
                             .phase_count = 1,
                             .phases = {{.kind_count = 1, .kinds = {rig_chat}}},
                             .run_ns = 400 * WEIR_NS_PER_S,
                             .min = 4,
                             .start = 16,
                             .ceiling = 2000};
}

/* ---- our rule ---- */

static void weir_init(void *state, uint32_t min, uint32_t start, uint32_t ceiling)
{
    weir_adapt_set(state, &(struct weir_adapt_rules){.min = min, .start = start}, ceiling, 0);
}

static uint32_t weir_limit(const void *state)
{
    return ((const struct weir_adapt *)state)->limit;
}

static uint32_t weir_started(void *state, uint32_t in_flight)
{
    return weir_adapt_started(state, in_flight);
}

static void weir_first_byte(void *state, const struct rig_call *call, uint64_t now_ns)
{
    if (call->is_stream)
        weir_adapt_first_byte(state, call->ticket, call->input_tok, now_ns - call->started_ns,
                              now_ns);
}

static void weir_ended(void *state, const struct rig_call *call, uint64_t now_ns)
{
    weir_adapt_ended(state, call->is_stream ? now_ns - call->first_ns : 0, call->output_tok);
}

static void weir_refused(void *state, const struct rig_call *call, uint64_t now_ns)
{
    weir_adapt_refused(state, call->ticket, now_ns);
    weir_adapt_ended(state, 0, 0);
}

const struct rig_rule rig_weir = {
    "weir",       sizeof(struct weir_adapt), weir_init,  weir_limit,
    weir_started, weir_first_byte,           weir_ended, weir_refused};

/* ---- the run ---- */

struct rig {
    const struct rig_case *c;
    const struct rig_rule *rule;
    void *state;
    struct weir_backend *backend;
    struct rig_call *calls;
    uint32_t free[RIG_JOBS], free_count;
    uint32_t in_flight;
    uint64_t waiting; /* where arrivals are counted */
    uint64_t arrival_ns;
    struct weir_rng draws, arrivals;
    uint32_t phase;
    uint64_t now_ns;
    struct rig_series *out;
};

static const struct rig_phase *rig_phase(const struct rig *r)
{
    return &r->c->phases[r->phase];
}

static const struct rig_kind *rig_draw_kind(struct rig *r)
{
    const struct rig_phase *p = rig_phase(r);
    uint64_t sum = 0, at;
    for (uint32_t i = 0; i < p->kind_count; i++)
        sum += p->kinds[i].share;
    at = weir_rng_below(&r->draws, sum);
    for (uint32_t i = 0;; i++) {
        if (at < p->kinds[i].share)
            return &p->kinds[i];
        at -= p->kinds[i].share;
    }
}

static void rig_start(struct rig *r)
{
    const struct rig_kind *kind = rig_draw_kind(r);
    uint32_t prompt_tok = weir_length_draw(&kind->prompt, &r->draws);
    uint32_t output_tok = weir_length_draw(&kind->output, &r->draws);
    uint32_t permille = 1000 - r->c->noise_permille +
                        (uint32_t)weir_rng_below(&r->draws, 2 * r->c->noise_permille + 1);
    uint32_t job = r->free[--r->free_count];
    r->in_flight++;
    r->waiting -= r->waiting > 0;
    r->calls[job] =
        (struct rig_call){.ticket = r->rule->started(r->state, r->in_flight),
                          .in_flight = r->in_flight,
                          .is_stream = !kind->is_whole,
                          .input_tok = (uint32_t)((uint64_t)prompt_tok * permille / 1000),
                          .output_tok = output_tok,
                          .started_ns = r->now_ns};
    if (weir_chance(&r->draws, kind->refused_permille, 1000)) {
        r->in_flight--;
        r->rule->refused(r->state, &r->calls[job], r->now_ns);
        r->free[r->free_count++] = job;
        return;
    }
    weir_backend_join(r->backend, job, prompt_tok + kind->hidden_tok, output_tok, r->now_ns);
}

static void rig_pump(struct rig *r)
{
    /* One that is refused at once may be followed by another, but not for ever. */
    for (uint32_t i = 0; i < RIG_JOBS && r->free_count > 0; i++) {
        if (r->in_flight >= r->rule->limit(r->state) ||
            (rig_phase(r)->rate_micro_per_s > 0 && r->waiting == 0))
            return;
        rig_start(r);
    }
}

static void rig_event(struct rig *r, const struct weir_backend_event *e)
{
    struct rig_call *call = &r->calls[e->job];
    if (e->kind == WEIR_BACKEND_FIRST_TOKEN) {
        call->first_ns = e->at_ns;
        r->rule->first_byte(r->state, call, e->at_ns);
        return;
    }
    r->in_flight--;
    if (e->kind == WEIR_BACKEND_DONE) {
        r->out->done++;
        r->rule->ended(r->state, call, e->at_ns);
    } else {
        r->rule->refused(r->state, call, e->at_ns);
    }
    r->free[r->free_count++] = e->job;
}

static void rig_arrivals(struct rig *r)
{
    const struct rig_phase *p = rig_phase(r);
    if (p->rate_micro_per_s == 0 || r->now_ns < r->arrival_ns)
        return;
    bool is_on = p->off_ns == 0 || r->now_ns % (p->on_ns + p->off_ns) < p->on_ns;
    r->waiting += is_on;
    r->arrival_ns = r->now_ns + weir_chance_exponential(&r->arrivals, 1000000 * WEIR_NS_PER_S /
                                                                          p->rate_micro_per_s);
}

static void rig_record(struct rig *r)
{
    struct weir_backend_view view;
    weir_backend_view(r->backend, r->now_ns, &view);
    if (r->out->count < RIG_SECONDS_MAX)
        r->out->at[r->out->count++] = (struct rig_second){
            .limit = r->rule->limit(r->state), .in_flight = r->in_flight, .queued = view.waiting};
    r->out->tokens = view.tokens_made;
}

static void rig_move_on(struct rig *r)
{
    while (r->phase + 1 < r->c->phase_count && r->c->phases[r->phase + 1].from_ns <= r->now_ns) {
        r->phase++;
        r->arrival_ns = r->now_ns;
    }
    rig_arrivals(r);
    struct weir_backend_event e;
    while (weir_backend_next(r->backend, r->now_ns, &e)) {
        rig_event(r, &e);
        rig_pump(r);
    }
    rig_pump(r);
    uint32_t limit = r->rule->limit(r->state);
    r->out->least = limit < r->out->least ? limit : r->out->least;
    r->out->most = limit > r->out->most ? limit : r->out->most;
}

void rig_run(const struct rig_case *c, const struct rig_rule *rule, uint64_t seed,
             struct rig_series *out)
{
    struct rig *r = calloc(1, sizeof *r);
    size_t bytes = (weir_backend_bytes(&c->backend, RIG_JOBS) + 63) & ~(size_t)63;
    void *mem = aligned_alloc(64, bytes);
    memset(mem, 0, bytes);
    memset(out, 0, sizeof *out);
    *r = (struct rig){.c = c, .rule = rule, .out = out, .free_count = RIG_JOBS};
    out->least = UINT32_MAX;
    r->state = calloc(1, rule->bytes);
    r->calls = calloc(RIG_JOBS, sizeof *r->calls);
    r->backend = weir_backend_init(mem, bytes, &c->backend, RIG_JOBS);
    for (uint32_t i = 0; i < RIG_JOBS; i++)
        r->free[i] = RIG_JOBS - 1 - i;
    weir_rng_seed(&r->draws, seed, 1);
    weir_rng_seed(&r->arrivals, seed, 2);
    rule->init(r->state, c->min, c->start, c->ceiling);
    for (uint64_t second_ns = 0; r->now_ns < c->run_ns;) {
        uint64_t due_ns = weir_min_u64(weir_backend_due_ns(r->backend), second_ns);
        if (rig_phase(r)->rate_micro_per_s > 0)
            due_ns = weir_min_u64(due_ns, r->arrival_ns);
        r->now_ns = weir_max_u64(due_ns, r->now_ns);
        rig_move_on(r);
        if (r->now_ns < second_ns)
            continue;
        rig_record(r);
        second_ns += WEIR_NS_PER_S;
    }
    free(r->state);
    free(r->calls);
    free(r);
    free(mem);
}

/* ---- what came of it ---- */

struct rig_swing rig_swing(const struct rig_series *s, uint32_t from_s, uint32_t until_s,
                           double knee)
{
    struct rig_swing w = {.least = 1e9};
    for (uint32_t i = from_s; i < until_s && i < s->count; i++) {
        double at = s->at[i].limit / knee;
        w.mean += at / (until_s - from_s);
        w.least = at < w.least ? at : w.least;
        w.most = at > w.most ? at : w.most;
    }
    return w;
}

uint32_t rig_settles(const struct rig_series *s, uint32_t from_s, uint32_t until_s, double knee,
                     double within)
{
    uint32_t settled_s = from_s;
    for (uint32_t i = from_s; i < until_s && i < s->count; i++) {
        double off = s->at[i].limit - knee;
        if (off > within * knee || off < -within * knee)
            settled_s = i + 1;
    }
    return settled_s - from_s;
}

double rig_queued(const struct rig_series *s, uint32_t from_s, uint32_t until_s, double knee)
{
    double sum = 0;
    for (uint32_t i = from_s; i < until_s && i < s->count; i++)
        sum += s->at[i].queued / knee;
    return sum / (until_s - from_s);
}
