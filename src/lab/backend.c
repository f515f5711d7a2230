#include "lab/backend.h"

#include "core/heap.h"
#include "core/num.h"

enum job_state { JOB_OUT, JOB_TRAVELS, JOB_WAITS, JOB_JOINS, JOB_RUNS };

/* Jobs in order, linked through job.next and job.prev: a job is in one list at most. */
struct job_list {
    uint32_t first, last; /* 1 + index; 0: none */
    uint32_t count;
};

struct job {
    enum job_state state;
    enum weir_backend_event_kind end; /* of the event that is kept for it */
    uint32_t next, prev;
    uint32_t replica; /* JOINS, RUNS */
    uint32_t prompt_tok, output_tok;
    uint32_t made_tok;         /* OUT: by its last run */
    bool has_begun;            /* its first token is made */
    uint64_t arrives_ns;       /* TRAVELS */
    uint64_t first_token_step; /* RUNS: the replica's number of the step that makes it */
};

/* An event that is kept until the host takes it. Of a job there are two at most. */
struct kept_event {
    uint64_t at_ns;
    uint32_t next, prev; /* 1 + index; 0: none */
    bool is_kept;
};

struct replica {
    struct weir_heap running; /* by the number of the step at whose end something happens */
    struct job_list joining;  /* for the step after the one at hand */
    uint32_t held;            /* running and joining */
    uint32_t decoding;        /* running, first token made: each gets a token every step */
    uint32_t slow_permille;
    bool is_down;
    bool is_stepping;  /* a step is at hand, though all its jobs may have left it */
    uint64_t steps;    /* that ended */
    uint64_t began_ns; /* the step at hand; equal to now: who comes or goes is still part of it */
    uint64_t due_ns;   /* its end */
    uint64_t following_ns; /* how long the steps after it take while nobody comes or goes */
    uint64_t tokens_made;
    uint64_t busy_ns, busy_from_ns; /* up to the start of this stretch of steps; its start */
    uint64_t kv_held_tok;
};

struct weir_backend {
    struct weir_backend_rules rules;
    uint32_t jobs_max;
    uint32_t live; /* replicas */
    uint64_t now_ns;
    uint64_t trouble_ns; /* when troubles change next */
    struct weir_backend_trouble *troubles;
    struct replica *replicas;
    struct weir_heap due; /* replicas, by the end of the step that matters next */
    struct job *jobs;
    struct kept_event *kept; /* of a job j: 2j its first token, 2j + 1 its end */
    uint32_t kept_first, kept_last;
    struct job_list travelling, waiting;
};

/* --- memory --- */

static size_t place_of(size_t *at, size_t size, size_t count)
{
    size_t place = *at;
    *at = (place + size * count + 63) & ~(size_t)63;
    return place;
}

static uint32_t running_max(const struct weir_backend_rules *r, uint32_t jobs_max)
{
    return (uint32_t)weir_min_u64(r->sequences, jobs_max);
}

struct layout {
    size_t troubles, replicas, due, due_place, jobs, kept, running, running_place, bytes;
};

static struct layout layout_of(const struct weir_backend_rules *r, uint32_t jobs_max)
{
    struct layout l;
    size_t at = 0;
    size_t running = (size_t)running_max(r, jobs_max) + WEIR_HEAP_SPARE;
    (void)place_of(&at, sizeof(struct weir_backend), 1);
    l.troubles = place_of(&at, sizeof(struct weir_backend_trouble), r->trouble_count);
    l.replicas = place_of(&at, sizeof(struct replica), r->replicas);
    l.due = place_of(&at, sizeof(struct weir_heap_entry), r->replicas + WEIR_HEAP_SPARE);
    l.due_place = place_of(&at, sizeof(uint32_t), r->replicas);
    l.jobs = place_of(&at, sizeof(struct job), jobs_max);
    l.kept = place_of(&at, sizeof(struct kept_event), 2 * (size_t)jobs_max);
    l.running = place_of(&at, sizeof(struct weir_heap_entry), running * r->replicas);
    l.running_place = place_of(&at, sizeof(uint32_t), jobs_max);
    l.bytes = at;
    return l;
}

static const char *trouble_problem(const struct weir_backend_rules *r,
                                   const struct weir_backend_trouble *trouble)
{
    if (trouble->replica != WEIR_NONE && trouble->replica >= r->replicas)
        return "a trouble names a replica that is not there; they count from 0";
    if (trouble->from_ns >= trouble->until_ns)
        return "a trouble ends before it begins";
    if (trouble->kind == WEIR_TROUBLE_SLOW &&
        (trouble->slow_permille == 0 || trouble->slow_permille > WEIR_BACKEND_PERMILLE_MAX))
        return "a trouble slows down by less than a thousandth or more than a thousand times";
    return NULL;
}

const char *weir_backend_problem(const struct weir_backend_rules *r)
{
    if (r->replicas == 0 || r->replicas > WEIR_BACKEND_REPLICAS_MAX)
        return "there must be 1 to 256 replicas";
    if (r->sequences == 0 || r->sequences > WEIR_BACKEND_SEQUENCES_MAX)
        return "a replica must take 1 to 65,536 sequences";
    if (r->step_ns == 0 && r->step_sequence_ns == 0)
        return "a step must take time: give its base, its share for each sequence, or both";
    if (r->prefill_permille > WEIR_BACKEND_PERMILLE_MAX)
        return "a prompt token must take 1,000 steps at most";
    if (r->trouble_count > WEIR_BACKEND_TROUBLES_MAX)
        return "there may be 64 troubles at most";
    for (uint32_t i = 0; i < r->trouble_count; i++) {
        const char *problem = trouble_problem(r, &r->troubles[i]);
        if (problem)
            return problem;
    }
    return NULL;
}

size_t weir_backend_bytes(const struct weir_backend_rules *r, uint32_t jobs_max)
{
    WEIR_INVARIANT(weir_backend_problem(r) == NULL);
    WEIR_INVARIANT(jobs_max > 0 && jobs_max <= WEIR_BACKEND_JOBS_MAX);
    return layout_of(r, jobs_max).bytes;
}

struct weir_backend *weir_backend_init(void *mem, size_t bytes, const struct weir_backend_rules *r,
                                       uint32_t jobs_max)
{
    WEIR_INVARIANT(bytes >= weir_backend_bytes(r, jobs_max));
    struct layout l = layout_of(r, jobs_max);
    unsigned char *at = mem;
    struct weir_backend *b = mem;
    b->rules = *r;
    b->jobs_max = jobs_max;
    b->live = r->replicas;
    b->trouble_ns = WEIR_NEVER_NS;
    b->troubles = (struct weir_backend_trouble *)(at + l.troubles);
    b->rules.troubles = b->troubles;
    for (uint32_t i = 0; i < r->trouble_count; i++) {
        b->troubles[i] = r->troubles[i];
        b->trouble_ns = weir_min_u64(b->trouble_ns, r->troubles[i].from_ns);
    }
    b->jobs = (struct job *)(at + l.jobs);
    b->kept = (struct kept_event *)(at + l.kept);
    b->replicas = (struct replica *)(at + l.replicas);
    weir_heap_init(&b->due, (struct weir_heap_entry *)(at + l.due), (uint32_t *)(at + l.due_place),
                   r->replicas);
    struct weir_heap_entry *entries = (struct weir_heap_entry *)(at + l.running);
    size_t each = (size_t)running_max(r, jobs_max) + WEIR_HEAP_SPARE;
    for (uint32_t i = 0; i < r->replicas; i++) {
        /* A job runs on one replica at most, so all of them can share one table of places. */
        weir_heap_init(&b->replicas[i].running, entries + each * i,
                       (uint32_t *)(at + l.running_place), jobs_max);
        b->replicas[i].slow_permille = 1000;
    }
    return b;
}

/* --- lists of jobs --- */

static void list_append(struct weir_backend *b, struct job_list *list, uint32_t job)
{
    struct job *j = &b->jobs[job];
    j->prev = list->last;
    j->next = 0;
    if (list->last)
        b->jobs[list->last - 1].next = job + 1;
    else
        list->first = job + 1;
    list->last = job + 1;
    list->count++;
}

static void list_remove(struct weir_backend *b, struct job_list *list, uint32_t job)
{
    struct job *j = &b->jobs[job];
    if (j->prev)
        b->jobs[j->prev - 1].next = j->next;
    else
        list->first = j->next;
    if (j->next)
        b->jobs[j->next - 1].prev = j->prev;
    else
        list->last = j->prev;
    list->count--;
}

/* --- events kept for the host --- */

static void keep_event(struct weir_backend *b, uint32_t index, uint64_t at_ns)
{
    struct kept_event *e = &b->kept[index];
    e->is_kept = true;
    e->at_ns = at_ns;
    e->next = 0;
    e->prev = b->kept_last;
    if (b->kept_last)
        b->kept[b->kept_last - 1].next = index + 1;
    else
        b->kept_first = index + 1;
    b->kept_last = index + 1;
}

static void drop_event(struct weir_backend *b, uint32_t index)
{
    struct kept_event *e = &b->kept[index];
    if (!e->is_kept)
        return;
    e->is_kept = false;
    if (e->prev)
        b->kept[e->prev - 1].next = e->next;
    else
        b->kept_first = e->next;
    if (e->next)
        b->kept[e->next - 1].prev = e->prev;
    else
        b->kept_last = e->prev;
}

static void job_end(struct weir_backend *b, uint32_t job, enum weir_backend_event_kind end,
                    uint32_t made_tok)
{
    struct job *j = &b->jobs[job];
    j->state = JOB_OUT;
    j->made_tok = made_tok;
    j->end = end;
    keep_event(b, 2 * job + 1, b->now_ns);
}

/* --- one replica --- */

static uint64_t step_length_ns(const struct weir_backend *b, const struct replica *r)
{
    uint64_t length_ns;
    if (__builtin_mul_overflow((uint64_t)r->running.count, b->rules.step_sequence_ns, &length_ns))
        length_ns = UINT64_MAX;
    length_ns = weir_add_sat_u64(length_ns, b->rules.step_ns);
    if (r->slow_permille != 1000)
        length_ns = weir_muldiv_ceil(length_ns, r->slow_permille, 1000);
    return weir_max_u64(length_ns, 1);
}

/* Steps of r that end after those counted, up to now_ns, at all of which the same jobs run. */
static uint64_t steps_since(const struct replica *r, uint64_t now_ns)
{
    if (!r->is_stepping || r->due_ns > now_ns)
        return 0;
    /* With nobody left the step at hand is the last one. */
    return r->running.count == 0 ? 1 : 1 + (now_ns - r->due_ns) / r->following_ns;
}

static void replica_stop(struct replica *r, uint64_t at_ns)
{
    r->busy_ns += at_ns - r->busy_from_ns;
    r->is_stepping = false;
}

/* Counts the steps that ended by now. Those at which something happens were handled before. */
static void replica_settle(struct weir_backend *b, struct replica *r)
{
    uint64_t ended = steps_since(r, b->now_ns);
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
static uint64_t replica_next_ns(const struct replica *r)
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

/* After who runs there, or how fast, has changed. */
static void replica_reshape(struct weir_backend *b, struct replica *r)
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

static void replica_run(struct weir_backend *b, struct replica *r, uint32_t job)
{
    struct job *j = &b->jobs[job];
    uint64_t prompt_permille = (uint64_t)j->prompt_tok * b->rules.prefill_permille;
    uint64_t units = weir_max_u64(weir_div_ceil_u64(prompt_permille, 1000), 1);
    j->state = JOB_RUNS;
    j->has_begun = false;
    j->first_token_step = weir_add_sat_u64(r->steps, units);
    weir_heap_push(&r->running, job, j->first_token_step);
}

static uint64_t job_kv_tok(const struct job *j)
{
    return (uint64_t)j->prompt_tok + j->output_tok;
}

static void replica_take(struct weir_backend *b, struct replica *r, uint32_t job)
{
    struct job *j = &b->jobs[job];
    replica_settle(b, r);
    j->replica = (uint32_t)(r - b->replicas);
    r->held++;
    r->kv_held_tok += job_kv_tok(j);
    if (!r->is_stepping) {
        r->is_stepping = true;
        r->began_ns = r->busy_from_ns = b->now_ns;
    }
    if (r->began_ns == b->now_ns) {
        replica_run(b, r, job);
    } else {
        j->state = JOB_JOINS;
        list_append(b, &r->joining, job);
    }
    replica_reshape(b, r);
}

static uint32_t job_made_tok(const struct job *j, uint64_t steps)
{
    if (steps < j->first_token_step)
        return 0;
    return (uint32_t)weir_min_u64(steps - j->first_token_step + 1, j->output_tok);
}

/* Takes a job off its settled replica, whose shape the caller sees to. Returns what it has made. */
static uint32_t replica_release(struct weir_backend *b, struct replica *r, uint32_t job)
{
    struct job *j = &b->jobs[job];
    uint32_t made_tok = 0;
    if (j->state == JOB_JOINS) {
        list_remove(b, &r->joining, job);
    } else {
        weir_heap_remove(&r->running, job);
        made_tok = job_made_tok(j, r->steps);
        r->decoding -= j->has_begun;
    }
    r->held--;
    r->kv_held_tok -= job_kv_tok(j);
    return made_tok;
}

/* The step that ends now makes this job's first or last token, or both. */
static void replica_advance(struct weir_backend *b, struct replica *r, uint32_t job)
{
    struct job *j = &b->jobs[job];
    if (!j->has_begun) {
        j->has_begun = true;
        r->decoding++;
        r->tokens_made++;
        keep_event(b, 2 * job, b->now_ns);
    }
    uint64_t last_step = weir_add_sat_u64(j->first_token_step, j->output_tok - 1);
    if (last_step > r->steps)
        weir_heap_rekey(&r->running, job, last_step);
    else
        job_end(b, job, WEIR_BACKEND_DONE, replica_release(b, r, job));
}

static void replica_step_ends(struct weir_backend *b, struct replica *r)
{
    replica_settle(b, r);
    WEIR_INVARIANT(r->began_ns == b->now_ns);
    while (r->running.count > 0 && weir_heap_top_key(&r->running) == r->steps)
        replica_advance(b, r, weir_heap_top(&r->running));
    while (r->joining.count > 0) {
        uint32_t job = r->joining.first - 1;
        list_remove(b, &r->joining, job);
        replica_run(b, r, job);
    }
    replica_reshape(b, r);
}

static void replica_fail(struct weir_backend *b, struct replica *r)
{
    while (r->held > 0) {
        uint32_t job = r->running.count > 0 ? weir_heap_top(&r->running) : r->joining.first - 1;
        job_end(b, job, WEIR_BACKEND_FAILED, replica_release(b, r, job));
    }
    if (r->is_stepping)
        replica_stop(r, b->now_ns);
}

/* --- the backend --- */

static struct replica *choose_replica(const struct weir_backend *b, uint32_t job)
{
    uint64_t need_tok = job_kv_tok(&b->jobs[job]);
    struct replica *best = NULL;
    for (uint32_t i = 0; i < b->rules.replicas; i++) {
        struct replica *r = &b->replicas[i];
        if (r->is_down || r->held >= b->rules.sequences || (best && r->held >= best->held))
            continue;
        if (b->rules.kv_tok == 0 || need_tok <= b->rules.kv_tok - r->kv_held_tok)
            best = r;
    }
    return best;
}

static void backend_admit(struct weir_backend *b)
{
    while (b->waiting.count > 0) {
        uint32_t job = b->waiting.first - 1;
        struct replica *r = choose_replica(b, job);
        if (!r)
            return;
        list_remove(b, &b->waiting, job);
        replica_take(b, r, job);
    }
}

static void backend_arrive(struct weir_backend *b, uint32_t job)
{
    struct job *j = &b->jobs[job];
    if (b->live == 0 || (b->rules.kv_tok != 0 && job_kv_tok(j) > b->rules.kv_tok)) {
        job_end(b, job, WEIR_BACKEND_FAILED, 0);
        return;
    }
    j->state = JOB_WAITS;
    list_append(b, &b->waiting, job);
    /* Behind others there is no room for it: they are not waiting for nothing. */
    if (b->waiting.count == 1)
        backend_admit(b);
}

static void backend_fail_waiting(struct weir_backend *b)
{
    while (b->waiting.count > 0) {
        uint32_t job = b->waiting.first - 1;
        list_remove(b, &b->waiting, job);
        job_end(b, job, WEIR_BACKEND_FAILED, 0);
    }
}

/* How troubled one replica is now. */
static void replica_troubles(const struct weir_backend *b, uint32_t index, bool *is_down,
                             uint32_t *slow_permille)
{
    *is_down = false;
    *slow_permille = 0;
    for (uint32_t i = 0; i < b->rules.trouble_count; i++) {
        const struct weir_backend_trouble *t = &b->troubles[i];
        if ((t->replica != index && t->replica != WEIR_NONE) || b->now_ns < t->from_ns ||
            b->now_ns >= t->until_ns)
            continue;
        switch (t->kind) {
        case WEIR_TROUBLE_FAIL:
            *is_down = true;
            break;
        case WEIR_TROUBLE_SLOW:
            *slow_permille = (uint32_t)weir_max_u64(*slow_permille, t->slow_permille);
            break;
        }
    }
    if (*slow_permille == 0)
        *slow_permille = 1000;
}

static void backend_troubles_change(struct weir_backend *b)
{
    b->trouble_ns = WEIR_NEVER_NS;
    for (uint32_t i = 0; i < b->rules.trouble_count; i++) {
        const struct weir_backend_trouble *t = &b->troubles[i];
        if (t->from_ns > b->now_ns)
            b->trouble_ns = weir_min_u64(b->trouble_ns, t->from_ns);
        else if (t->until_ns > b->now_ns)
            b->trouble_ns = weir_min_u64(b->trouble_ns, t->until_ns);
    }
    b->live = 0;
    for (uint32_t i = 0; i < b->rules.replicas; i++) {
        struct replica *r = &b->replicas[i];
        replica_settle(b, r);
        replica_troubles(b, i, &r->is_down, &r->slow_permille);
        if (r->is_down)
            replica_fail(b, r);
        else
            b->live++;
        replica_reshape(b, r);
    }
    if (b->live == 0)
        backend_fail_waiting(b);
}

static uint64_t backend_instant_ns(const struct weir_backend *b)
{
    uint64_t ns = b->trouble_ns;
    if (b->due.count > 0)
        ns = weir_min_u64(ns, weir_heap_top_key(&b->due));
    if (b->travelling.count > 0)
        ns = weir_min_u64(ns, b->jobs[b->travelling.first - 1].arrives_ns);
    return ns;
}

/* Everything of one instant, in the order that the header tells. */
static void backend_instant(struct weir_backend *b, uint64_t now_ns)
{
    b->now_ns = now_ns;
    while (b->due.count > 0 && weir_heap_top_key(&b->due) == now_ns)
        replica_step_ends(b, &b->replicas[weir_heap_top(&b->due)]);
    if (b->trouble_ns == now_ns)
        backend_troubles_change(b);
    while (b->travelling.count > 0 && b->jobs[b->travelling.first - 1].arrives_ns == now_ns) {
        uint32_t job = b->travelling.first - 1;
        list_remove(b, &b->travelling, job);
        backend_arrive(b, job);
    }
    backend_admit(b);
}

static void backend_move(struct weir_backend *b, uint64_t now_ns)
{
    WEIR_INVARIANT(now_ns >= b->now_ns && now_ns != WEIR_NEVER_NS);
    for (uint64_t ns = backend_instant_ns(b); ns <= now_ns; ns = backend_instant_ns(b))
        backend_instant(b, ns);
    b->now_ns = now_ns;
}

void weir_backend_join(struct weir_backend *b, uint32_t job, uint32_t prompt_tok,
                       uint32_t output_tok, uint64_t now_ns)
{
    WEIR_INVARIANT(job < b->jobs_max);
    struct job *j = &b->jobs[job];
    backend_move(b, now_ns);
    WEIR_INVARIANT(j->state == JOB_OUT && !b->kept[2 * job + 1].is_kept);
    j->prompt_tok = prompt_tok;
    j->output_tok = output_tok > 0 ? output_tok : 1;
    j->made_tok = 0;
    if (b->rules.latency_ns == 0) {
        backend_arrive(b, job);
        return;
    }
    j->state = JOB_TRAVELS;
    j->arrives_ns = weir_add_sat_u64(now_ns, b->rules.latency_ns);
    list_append(b, &b->travelling, job);
}

void weir_backend_cancel(struct weir_backend *b, uint32_t job, uint64_t now_ns)
{
    WEIR_INVARIANT(job < b->jobs_max);
    struct job *j = &b->jobs[job];
    backend_move(b, now_ns);
    drop_event(b, 2 * job);
    drop_event(b, 2 * job + 1);
    switch (j->state) {
    case JOB_OUT:
        return;
    case JOB_TRAVELS:
        list_remove(b, &b->travelling, job);
        break;
    case JOB_WAITS:
        list_remove(b, &b->waiting, job);
        break;
    case JOB_JOINS:
    case JOB_RUNS: {
        struct replica *r = &b->replicas[j->replica];
        replica_settle(b, r);
        j->made_tok = replica_release(b, r, job);
        replica_reshape(b, r);
        break;
    }
    }
    j->state = JOB_OUT;
    backend_admit(b);
}

uint64_t weir_backend_due_ns(const struct weir_backend *b)
{
    return b->kept_first ? b->kept[b->kept_first - 1].at_ns : backend_instant_ns(b);
}

bool weir_backend_next(struct weir_backend *b, uint64_t now_ns, struct weir_backend_event *event)
{
    WEIR_INVARIANT(now_ns != WEIR_NEVER_NS);
    while (!b->kept_first) {
        uint64_t ns = backend_instant_ns(b);
        if (ns > now_ns) {
            b->now_ns = weir_max_u64(b->now_ns, now_ns);
            return false;
        }
        backend_instant(b, ns);
    }
    uint32_t index = b->kept_first - 1;
    event->job = index / 2;
    event->kind = index % 2 == 0 ? WEIR_BACKEND_FIRST_TOKEN : b->jobs[index / 2].end;
    event->at_ns = b->kept[index].at_ns;
    drop_event(b, index);
    return true;
}

uint32_t weir_backend_output_tok(const struct weir_backend *b, uint32_t job, uint64_t now_ns)
{
    WEIR_INVARIANT(job < b->jobs_max);
    const struct job *j = &b->jobs[job];
    switch (j->state) {
    case JOB_OUT:
        return j->made_tok;
    case JOB_TRAVELS:
    case JOB_WAITS:
    case JOB_JOINS:
        return 0;
    case JOB_RUNS:
        break;
    }
    const struct replica *r = &b->replicas[j->replica];
    return job_made_tok(j, r->steps + steps_since(r, now_ns));
}

void weir_backend_view(const struct weir_backend *b, uint64_t now_ns,
                       struct weir_backend_view *view)
{
    *view =
        (struct weir_backend_view){.travelling = b->travelling.count, .waiting = b->waiting.count};
    for (uint32_t i = 0; i < b->rules.replicas; i++) {
        const struct replica *r = &b->replicas[i];
        uint64_t ended = steps_since(r, now_ns);
        view->running += r->held;
        view->kv_now_tok += r->kv_held_tok;
        view->steps += r->steps + ended;
        view->tokens_made += r->tokens_made + ended * r->decoding;
        view->busy_ns += r->busy_ns;
        if (r->is_stepping) /* with nobody left, to the end of the step at hand */
            view->busy_ns += (ended > 0 && r->held == 0 ? r->due_ns : now_ns) - r->busy_from_ns;
    }
}
