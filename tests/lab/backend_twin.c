#include "lab/backend_twin.h"

#include <stdlib.h>
#include <string.h>

#define NEVER UINT64_MAX

static void say(struct backend_twin *t, uint32_t job, enum weir_backend_event_kind kind)
{
    if (t->event_count == TWIN_EVENTS)
        abort();
    t->events[t->event_count++] = (struct weir_backend_event){job, kind, t->now_ns};
}

static void end(struct backend_twin *t, uint32_t job, enum weir_backend_event_kind kind)
{
    t->jobs[job].place = TWIN_OUT;
    t->jobs[job].is_in_step = false;
    say(t, job, kind);
}

static uint32_t held(const struct backend_twin *t, uint32_t replica, bool only_in_step)
{
    uint32_t count = 0;
    for (uint32_t j = 0; j < TWIN_JOBS; j++)
        count += t->jobs[j].place == TWIN_ON_REPLICA && t->jobs[j].replica == replica &&
                 (t->jobs[j].is_in_step || !only_in_step);
    return count;
}

static uint64_t kv_held(const struct backend_twin *t, uint32_t replica)
{
    uint64_t tok = 0;
    for (uint32_t j = 0; j < TWIN_JOBS; j++)
        if (t->jobs[j].place == TWIN_ON_REPLICA && t->jobs[j].replica == replica)
            tok += t->jobs[j].prompt_tok + t->jobs[j].output_tok;
    return tok;
}

/* The first in order of those at a place; TWIN_JOBS: none. */
static uint32_t first_at(const struct backend_twin *t, enum twin_place place)
{
    uint32_t first = TWIN_JOBS;
    for (uint32_t j = 0; j < TWIN_JOBS; j++)
        if (t->jobs[j].place == place &&
            (first == TWIN_JOBS || t->jobs[j].order < t->jobs[first].order))
            first = j;
    return first;
}

static bool troubled(const struct backend_twin *t, uint32_t replica, enum weir_trouble_kind kind,
                     uint32_t *worst)
{
    bool is = false;
    for (uint32_t i = 0; i < t->rules.trouble_count; i++) {
        const struct weir_backend_trouble *e = &t->rules.troubles[i];
        if (e->kind != kind || (e->replica != WEIR_NONE && e->replica != replica) ||
            t->now_ns < e->from_ns || t->now_ns >= e->until_ns)
            continue;
        if (!is || e->slow_permille > *worst)
            *worst = e->slow_permille;
        is = true;
    }
    return is;
}

static bool any_lives(const struct backend_twin *t)
{
    uint32_t unused;
    for (uint32_t r = 0; r < t->rules.replicas; r++)
        if (!troubled(t, r, WEIR_TROUBLE_FAIL, &unused))
            return true;
    return false;
}

static void step_ends(struct backend_twin *t, uint32_t replica)
{
    struct twin_replica *r = &t->replicas[replica];
    r->is_stepping = false;
    t->steps++;
    t->busy_ns += t->now_ns - r->began_ns;
    for (uint32_t j = 0; j < TWIN_JOBS; j++) {
        struct twin_job *job = &t->jobs[j];
        if (job->place != TWIN_ON_REPLICA || job->replica != replica || !job->is_in_step)
            continue;
        if (job->units_left > 1) {
            job->units_left--;
            continue;
        }
        t->tokens_made++;
        if (job->made_tok++ == 0)
            say(t, j, WEIR_BACKEND_FIRST_TOKEN);
        if (job->made_tok == job->output_tok)
            end(t, j, WEIR_BACKEND_DONE);
    }
}

static void troubles(struct backend_twin *t)
{
    uint32_t unused;
    for (uint32_t r = 0; r < t->rules.replicas; r++) {
        if (!troubled(t, r, WEIR_TROUBLE_FAIL, &unused))
            continue;
        for (uint32_t j = 0; j < TWIN_JOBS; j++)
            if (t->jobs[j].place == TWIN_ON_REPLICA && t->jobs[j].replica == r)
                end(t, j, WEIR_BACKEND_FAILED);
        if (t->replicas[r].is_stepping)
            t->busy_ns += t->now_ns - t->replicas[r].began_ns;
        t->replicas[r].is_stepping = false;
    }
    for (uint32_t j = 0; j < TWIN_JOBS && !any_lives(t); j++)
        if (t->jobs[j].place == TWIN_WAITS)
            end(t, j, WEIR_BACKEND_FAILED);
}

static void admit(struct backend_twin *t)
{
    uint32_t j, unused;
    while ((j = first_at(t, TWIN_WAITS)) < TWIN_JOBS) {
        struct twin_job *job = &t->jobs[j];
        uint32_t best = TWIN_REPLICAS;
        for (uint32_t r = 0; r < t->rules.replicas; r++) {
            bool fits = t->rules.kv_tok == 0 ||
                        kv_held(t, r) + job->prompt_tok + job->output_tok <= t->rules.kv_tok;
            if (!troubled(t, r, WEIR_TROUBLE_FAIL, &unused) && fits &&
                held(t, r, false) < t->rules.sequences &&
                (best == TWIN_REPLICAS || held(t, r, false) < held(t, best, false)))
                best = r;
        }
        if (best == TWIN_REPLICAS)
            return;
        job->place = TWIN_ON_REPLICA;
        job->replica = best;
        job->is_in_step = false;
        job->units_left = ((uint64_t)job->prompt_tok * t->rules.prefill_permille + 999) / 1000;
    }
}

static void arrive(struct backend_twin *t, uint32_t j)
{
    struct twin_job *job = &t->jobs[j];
    if (!any_lives(t) ||
        (t->rules.kv_tok != 0 && job->prompt_tok + job->output_tok > t->rules.kv_tok)) {
        end(t, j, WEIR_BACKEND_FAILED);
        return;
    }
    job->place = TWIN_WAITS;
    job->order = t->orders++;
}

/* Time leaves this instant: steps begin with whoever is there. */
static void steps_begin(struct backend_twin *t)
{
    for (uint32_t i = 0; i < t->rules.replicas; i++) {
        struct twin_replica *r = &t->replicas[i];
        uint32_t n = held(t, i, false);
        if (r->is_stepping || n == 0)
            continue;
        uint32_t permille = 1000;
        (void)troubled(t, i, WEIR_TROUBLE_SLOW, &permille);
        uint64_t length_ns = t->rules.step_ns + n * t->rules.step_sequence_ns;
        r->is_stepping = true;
        r->began_ns = t->now_ns;
        r->due_ns = t->now_ns + (length_ns * permille + 999) / 1000;
        for (uint32_t j = 0; j < TWIN_JOBS; j++)
            if (t->jobs[j].place == TWIN_ON_REPLICA && t->jobs[j].replica == i)
                t->jobs[j].is_in_step = true;
    }
}

static uint64_t next_instant_ns(const struct backend_twin *t)
{
    uint64_t ns = NEVER;
    for (uint32_t r = 0; r < t->rules.replicas; r++)
        if (t->replicas[r].is_stepping)
            ns = weir_min_u64(ns, t->replicas[r].due_ns);
    for (uint32_t j = 0; j < TWIN_JOBS; j++)
        if (t->jobs[j].place == TWIN_TRAVELS)
            ns = weir_min_u64(ns, t->jobs[j].arrives_ns);
    for (uint32_t i = 0; i < t->rules.trouble_count; i++) {
        if (t->rules.troubles[i].from_ns > t->now_ns)
            ns = weir_min_u64(ns, t->rules.troubles[i].from_ns);
        if (t->rules.troubles[i].until_ns > t->now_ns)
            ns = weir_min_u64(ns, t->rules.troubles[i].until_ns);
    }
    return ns;
}

void twin_init(struct backend_twin *t, const struct weir_backend_rules *rules)
{
    memset(t, 0, sizeof *t);
    t->rules = *rules;
}

void twin_move(struct backend_twin *t, uint64_t now_ns)
{
    while (t->now_ns < now_ns) {
        steps_begin(t);
        uint64_t ns = next_instant_ns(t);
        if (ns > now_ns) {
            t->now_ns = now_ns;
            return;
        }
        t->now_ns = ns;
        for (uint32_t r = 0; r < t->rules.replicas; r++)
            if (t->replicas[r].is_stepping && t->replicas[r].due_ns == ns)
                step_ends(t, r);
        troubles(t);
        for (uint32_t j = first_at(t, TWIN_TRAVELS); j < TWIN_JOBS && t->jobs[j].arrives_ns == ns;
             j = first_at(t, TWIN_TRAVELS))
            arrive(t, j);
        admit(t);
    }
}

void twin_join(struct backend_twin *t, uint32_t j, uint32_t prompt_tok, uint32_t output_tok,
               uint64_t now_ns)
{
    twin_move(t, now_ns);
    struct twin_job *job = &t->jobs[j];
    *job = (struct twin_job){.place = TWIN_TRAVELS,
                             .order = t->orders++,
                             .arrives_ns = now_ns + t->rules.latency_ns,
                             .prompt_tok = prompt_tok,
                             .output_tok = output_tok > 0 ? output_tok : 1};
    if (t->rules.latency_ns == 0) {
        arrive(t, j);
        admit(t);
    }
}

void twin_cancel(struct backend_twin *t, uint32_t job, uint64_t now_ns)
{
    twin_move(t, now_ns);
    t->jobs[job].place = TWIN_OUT;
    t->jobs[job].is_in_step = false;
    admit(t);
}

void twin_view(const struct backend_twin *t, struct weir_backend_view *view)
{
    *view = (struct weir_backend_view){.tokens_made = t->tokens_made, .steps = t->steps};
    view->busy_ns = t->busy_ns;
    for (uint32_t j = 0; j < TWIN_JOBS; j++) {
        view->travelling += t->jobs[j].place == TWIN_TRAVELS;
        view->waiting += t->jobs[j].place == TWIN_WAITS;
        view->running += t->jobs[j].place == TWIN_ON_REPLICA;
    }
    for (uint32_t r = 0; r < t->rules.replicas; r++) {
        view->kv_now_tok += kv_held(t, r);
        if (t->replicas[r].is_stepping)
            view->busy_ns += t->now_ns - t->replicas[r].began_ns;
    }
}
