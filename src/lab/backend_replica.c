/* backend_replica: one replica, and the arithmetic that spares it its steps. */
#include "core/num.h"
#include "lab/backend_private.h"

static uint64_t step_length_ns(const struct weir_backend *b, const struct backend_replica *r)
{
    uint64_t length_ns;
    if (__builtin_mul_overflow((uint64_t)r->running.count, b->rules.step_sequence_ns, &length_ns))
        length_ns = UINT64_MAX;
    length_ns = weir_add_sat_u64(length_ns, b->rules.step_ns);
    if (r->slow_permille != 1000)
        length_ns = weir_muldiv_ceil(length_ns, r->slow_permille, 1000);
    return weir_max_u64(length_ns, 1);
}

uint64_t backend_replica_steps_since(const struct backend_replica *r, uint64_t now_ns)
{
    if (!r->is_stepping || r->due_ns > now_ns)
        return 0;
    /* With nobody left the step at hand is the last one. */
    return r->running.count == 0 ? 1 : 1 + (now_ns - r->due_ns) / r->following_ns;
}

static void replica_stop(struct backend_replica *r, uint64_t at_ns)
{
    r->busy_ns += at_ns - r->busy_from_ns;
    r->is_stepping = false;
}

void backend_replica_settle(struct weir_backend *b, struct backend_replica *r)
{
    uint64_t ended = backend_replica_steps_since(r, b->now_ns);
    if (ended == 0)
        return;
    r->steps += ended;
    r->tokens_made += ended * r->decoding;
    r->began_ns = r->due_ns + (ended - 1) * r->following_ns;
    r->due_ns = weir_add_sat_u64(r->began_ns, r->following_ns);
    if (r->held == 0)
        replica_stop(r, r->began_ns);
}

/* When the next step ends at which something happens. */
static uint64_t replica_next_ns(const struct backend_replica *r)
{
    if (!r->is_stepping)
        return WEIR_NEVER_NS;
    if (r->joining.count > 0)
        return r->due_ns;
    if (r->running.count == 0)
        return WEIR_NEVER_NS;
    uint64_t between, steps = weir_heap_top_key(&r->running) - r->steps - 1;
    if (__builtin_mul_overflow(steps, r->following_ns, &between))
        return WEIR_NEVER_NS;
    return weir_add_sat_u64(r->due_ns, between);
}

void backend_replica_reshape(struct weir_backend *b, struct backend_replica *r)
{
    uint32_t index = (uint32_t)(r - b->replicas);
    r->following_ns = step_length_ns(b, r);
    if (r->is_stepping && r->began_ns == b->now_ns) {
        if (r->running.count == 0)
            replica_stop(r, b->now_ns);
        else
            r->due_ns = weir_add_sat_u64(b->now_ns, r->following_ns);
    }
    uint64_t next_ns = replica_next_ns(r);
    bool is_there = weir_heap_has(&b->due, index);
    if (next_ns == WEIR_NEVER_NS) {
        if (is_there)
            weir_heap_remove(&b->due, index);
    } else if (is_there) {
        weir_heap_rekey(&b->due, index, next_ns);
    } else {
        weir_heap_push(&b->due, index, next_ns);
    }
}

static void replica_run(struct weir_backend *b, struct backend_replica *r, uint32_t job)
{
    struct backend_job *j = &b->jobs[job];
    uint64_t prompt_permille = (uint64_t)j->prompt_tok * b->rules.prefill_permille;
    uint64_t units = weir_max_u64(weir_div_ceil_u64(prompt_permille, 1000), 1);
    j->state = JOB_RUNS;
    j->has_begun = false;
    j->first_token_step = weir_add_sat_u64(r->steps, units);
    weir_heap_push(&r->running, job, j->first_token_step);
}

uint64_t backend_job_kv_tok(const struct backend_job *j)
{
    return (uint64_t)j->prompt_tok + j->output_tok;
}

void backend_replica_take(struct weir_backend *b, struct backend_replica *r, uint32_t job)
{
    struct backend_job *j = &b->jobs[job];
    backend_replica_settle(b, r);
    j->replica = (uint32_t)(r - b->replicas);
    r->held++;
    r->kv_held_tok += backend_job_kv_tok(j);
    if (!r->is_stepping) {
        r->is_stepping = true;
        r->began_ns = r->busy_from_ns = b->now_ns;
    }
    if (r->began_ns == b->now_ns) {
        replica_run(b, r, job);
    } else {
        j->state = JOB_JOINS;
        backend_list_append(b, &r->joining, job);
    }
    backend_replica_reshape(b, r);
}

uint32_t backend_job_made_tok(const struct backend_job *j, uint64_t steps)
{
    if (steps < j->first_token_step)
        return 0;
    return (uint32_t)weir_min_u64(steps - j->first_token_step + 1, j->output_tok);
}

uint32_t backend_replica_release(struct weir_backend *b, struct backend_replica *r, uint32_t job)
{
    struct backend_job *j = &b->jobs[job];
    uint32_t made_tok = 0;
    if (j->state == JOB_JOINS) {
        backend_list_remove(b, &r->joining, job);
    } else {
        weir_heap_remove(&r->running, job);
        made_tok = backend_job_made_tok(j, r->steps);
        r->decoding -= j->has_begun;
    }
    r->held--;
    r->kv_held_tok -= backend_job_kv_tok(j);
    return made_tok;
}

/* The step that ends now makes this job's first or last token, or both. */
static void replica_advance(struct weir_backend *b, struct backend_replica *r, uint32_t job)
{
    struct backend_job *j = &b->jobs[job];
    if (!j->has_begun) {
        j->has_begun = true;
        r->decoding++;
        r->tokens_made++;
        backend_keep_event(b, 2 * job);
    }
    uint64_t last_step = weir_add_sat_u64(j->first_token_step, j->output_tok - 1);
    if (last_step > r->steps)
        weir_heap_rekey(&r->running, job, last_step);
    else
        backend_job_end(b, job, WEIR_BACKEND_DONE, backend_replica_release(b, r, job));
}

void backend_replica_step_ends(struct weir_backend *b, struct backend_replica *r)
{
    backend_replica_settle(b, r);
    WEIR_INVARIANT(r->began_ns == b->now_ns);
    while (r->running.count > 0 && weir_heap_top_key(&r->running) == r->steps)
        replica_advance(b, r, weir_heap_top(&r->running));
    while (r->joining.count > 0) {
        uint32_t job = r->joining.first - 1;
        backend_list_remove(b, &r->joining, job);
        replica_run(b, r, job);
    }
    backend_replica_reshape(b, r);
}

void backend_replica_fail(struct weir_backend *b, struct backend_replica *r)
{
    while (r->held > 0) {
        uint32_t job = r->running.count > 0 ? weir_heap_top(&r->running) : r->joining.first - 1;
        backend_job_end(b, job, WEIR_BACKEND_FAILED, backend_replica_release(b, r, job));
    }
    if (r->is_stepping)
        replica_stop(r, b->now_ns);
}
