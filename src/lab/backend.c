#include "lab/backend.h"

#include "core/num.h"
#include "lab/backend_private.h"

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
    l.replicas = place_of(&at, sizeof(struct backend_replica), r->replicas);
    l.due = place_of(&at, sizeof(struct weir_heap_entry), r->replicas + WEIR_HEAP_SPARE);
    l.due_place = place_of(&at, sizeof(uint32_t), r->replicas);
    l.jobs = place_of(&at, sizeof(struct backend_job), jobs_max);
    l.kept = place_of(&at, sizeof(struct backend_kept_event), 2 * (size_t)jobs_max);
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
    b->jobs = (struct backend_job *)(at + l.jobs);
    b->kept = (struct backend_kept_event *)(at + l.kept);
    b->replicas = (struct backend_replica *)(at + l.replicas);
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

void backend_list_append(struct weir_backend *b, struct backend_job_list *list, uint32_t job)
{
    struct backend_job *j = &b->jobs[job];
    j->prev = list->last;
    j->next = 0;
    if (list->last)
        b->jobs[list->last - 1].next = job + 1;
    else
        list->first = job + 1;
    list->last = job + 1;
    list->count++;
}

void backend_list_remove(struct weir_backend *b, struct backend_job_list *list, uint32_t job)
{
    struct backend_job *j = &b->jobs[job];
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

void backend_keep_event(struct weir_backend *b, uint32_t index)
{
    struct backend_kept_event *e = &b->kept[index];
    e->is_kept = true;
    e->at_ns = b->now_ns;
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
    struct backend_kept_event *e = &b->kept[index];
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

void backend_job_end(struct weir_backend *b, uint32_t job, enum weir_backend_event_kind end,
                     uint32_t made_tok)
{
    struct backend_job *j = &b->jobs[job];
    j->state = JOB_OUT;
    j->made_tok = made_tok;
    j->end = end;
    backend_keep_event(b, 2 * job + 1);
}

/* --- the backend --- */

static struct backend_replica *choose_replica(const struct weir_backend *b, uint32_t job)
{
    uint64_t need_tok = backend_job_kv_tok(&b->jobs[job]);
    struct backend_replica *best = NULL;
    for (uint32_t i = 0; i < b->rules.replicas; i++) {
        struct backend_replica *r = &b->replicas[i];
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
        struct backend_replica *r = choose_replica(b, job);
        if (!r)
            return;
        backend_list_remove(b, &b->waiting, job);
        backend_replica_take(b, r, job);
    }
}

static void backend_arrive(struct weir_backend *b, uint32_t job)
{
    struct backend_job *j = &b->jobs[job];
    if (b->live == 0 || (b->rules.kv_tok != 0 && backend_job_kv_tok(j) > b->rules.kv_tok)) {
        backend_job_end(b, job, WEIR_BACKEND_FAILED, 0);
        return;
    }
    j->state = JOB_WAITS;
    backend_list_append(b, &b->waiting, job);
    /* Behind others there is no room for it: they are not waiting for nothing. */
    if (b->waiting.count == 1)
        backend_admit(b);
}

static void backend_fail_waiting(struct weir_backend *b)
{
    while (b->waiting.count > 0) {
        uint32_t job = b->waiting.first - 1;
        backend_list_remove(b, &b->waiting, job);
        backend_job_end(b, job, WEIR_BACKEND_FAILED, 0);
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
        struct backend_replica *r = &b->replicas[i];
        backend_replica_settle(b, r);
        replica_troubles(b, i, &r->is_down, &r->slow_permille);
        if (r->is_down)
            backend_replica_fail(b, r);
        else
            b->live++;
        backend_replica_reshape(b, r);
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
        backend_replica_step_ends(b, &b->replicas[weir_heap_top(&b->due)]);
    if (b->trouble_ns == now_ns)
        backend_troubles_change(b);
    while (b->travelling.count > 0 && b->jobs[b->travelling.first - 1].arrives_ns == now_ns) {
        uint32_t job = b->travelling.first - 1;
        backend_list_remove(b, &b->travelling, job);
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
    struct backend_job *j = &b->jobs[job];
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
    backend_list_append(b, &b->travelling, job);
}

void weir_backend_cancel(struct weir_backend *b, uint32_t job, uint64_t now_ns)
{
    WEIR_INVARIANT(job < b->jobs_max);
    struct backend_job *j = &b->jobs[job];
    backend_move(b, now_ns);
    drop_event(b, 2 * job);
    drop_event(b, 2 * job + 1);
    switch (j->state) {
    case JOB_OUT:
        return;
    case JOB_TRAVELS:
        backend_list_remove(b, &b->travelling, job);
        break;
    case JOB_WAITS:
        backend_list_remove(b, &b->waiting, job);
        break;
    case JOB_JOINS:
    case JOB_RUNS: {
        struct backend_replica *r = &b->replicas[j->replica];
        backend_replica_settle(b, r);
        j->made_tok = backend_replica_release(b, r, job);
        backend_replica_reshape(b, r);
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
    const struct backend_job *j = &b->jobs[job];
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
    const struct backend_replica *r = &b->replicas[j->replica];
    return backend_job_made_tok(j, r->steps + backend_replica_steps_since(r, now_ns));
}

void weir_backend_view(const struct weir_backend *b, uint64_t now_ns,
                       struct weir_backend_view *view)
{
    *view =
        (struct weir_backend_view){.travelling = b->travelling.count, .waiting = b->waiting.count};
    for (uint32_t i = 0; i < b->rules.replicas; i++) {
        const struct backend_replica *r = &b->replicas[i];
        uint64_t ended = backend_replica_steps_since(r, now_ns);
        view->running += r->held;
        view->kv_now_tok += r->kv_held_tok;
        view->steps += r->steps + ended;
        view->tokens_made += r->tokens_made + ended * r->decoding;
        view->busy_ns += r->busy_ns;
        if (r->is_stepping) /* with nobody left, to the end of the step at hand */
            view->busy_ns += (ended > 0 && r->held == 0 ? r->due_ns : now_ns) - r->busy_from_ns;
    }
}
