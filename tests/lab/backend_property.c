#include "lab/backend_property.h"

#include <stdio.h>
#include <stdlib.h>

#include "lab/backend_twin.h"

static void draw_rules(struct tape *t, struct weir_backend_rules *r,
                       struct weir_backend_trouble troubles[4])
{
    r->replicas = (uint32_t)tape_between(t, 1, TWIN_REPLICAS);
    r->sequences = (uint32_t)tape_between(t, 1, 5);
    r->step_ns = tape_between(t, 1, 12);
    r->step_sequence_ns = tape_below(t, 5);
    r->prefill_permille = (uint32_t)(tape_chance(t, 2, 3) ? tape_below(t, 2600) : 0);
    r->kv_tok = tape_chance(t, 1, 3) ? tape_between(t, 4, 40) : 0;
    r->latency_ns = tape_chance(t, 1, 3) ? tape_between(t, 1, 30) : 0;
    r->trouble_count = (uint32_t)tape_below(t, 5);
    r->troubles = troubles;
    for (uint32_t i = 0; i < r->trouble_count; i++) {
        struct weir_backend_trouble *e = &troubles[i];
        e->kind = tape_chance(t, 1, 2) ? WEIR_TROUBLE_SLOW : WEIR_TROUBLE_FAIL;
        e->replica = (uint32_t)tape_below(t, r->replicas + 1);
        if (e->replica == r->replicas)
            e->replica = WEIR_NONE;
        e->from_ns = tape_below(t, 300);
        e->until_ns = e->from_ns + tape_between(t, 1, 80);
        e->slow_permille = (uint32_t)tape_between(t, 1, 3000);
    }
}

static int compare_events(const void *a, const void *b)
{
    const struct weir_backend_event *x = a, *y = b;
    if (x->at_ns != y->at_ns)
        return x->at_ns < y->at_ns ? -1 : 1;
    if (x->job != y->job)
        return x->job < y->job ? -1 : 1;
    return (int)x->kind - (int)y->kind;
}

/* All that either says up to now; then how both stand. */
static void compare(struct tape *t, struct weir_backend *b, struct backend_twin *twin,
                    uint64_t now_ns)
{
    struct weir_backend_event events[TWIN_EVENTS];
    uint32_t count = 0;
    uint64_t last_ns = 0;
    twin_move(twin, now_ns);
    bool is_due = weir_backend_due_ns(b) <= now_ns;
    while (weir_backend_next(b, now_ns, &events[count])) {
        TAPE_CHECK(t, is_due);
        TAPE_CHECK(t, events[count].at_ns >= last_ns && events[count].at_ns <= now_ns);
        last_ns = events[count].at_ns;
        for (uint32_t i = 0; i < count; i++) /* the first token comes before the end */
            TAPE_CHECK(t,
                       events[i].job != events[count].job || events[i].kind < events[count].kind);
        count++;
    }
    TAPE_CHECK(t, weir_backend_due_ns(b) > now_ns);
    qsort(events, count, sizeof events[0], compare_events);
    qsort(twin->events, twin->event_count, sizeof events[0], compare_events);
    for (uint32_t i = 0; i < weir_min_u64(count, twin->event_count); i++)
        TAPE_CHECK_MSG(t, compare_events(&events[i], &twin->events[i]) == 0,
                       "job %u kind %d at %llu, twin: job %u kind %d at %llu", events[i].job,
                       events[i].kind, (unsigned long long)events[i].at_ns, twin->events[i].job,
                       twin->events[i].kind, (unsigned long long)twin->events[i].at_ns);
    TAPE_CHECK_MSG(t, count == twin->event_count, "%u events by %llu, twin %u", count,
                   (unsigned long long)now_ns, twin->event_count);
    twin->event_count = 0;
    for (uint32_t j = 0; j < TWIN_JOBS; j++)
        TAPE_CHECK(t, weir_backend_output_tok(b, j, now_ns) == twin->jobs[j].made_tok);
    struct weir_backend_view view, want;
    weir_backend_view(b, now_ns, &view);
    twin_view(twin, &want);
    TAPE_CHECK(t, view.travelling == want.travelling);
    TAPE_CHECK(t, view.waiting == want.waiting);
    TAPE_CHECK(t, view.running == want.running);
    TAPE_CHECK(t, view.tokens_made == want.tokens_made);
    TAPE_CHECK(t, view.steps == want.steps);
    TAPE_CHECK(t, view.kv_now_tok == want.kv_now_tok);
    TAPE_CHECK_MSG(t, view.busy_ns == want.busy_ns, "busy %llu, twin %llu at %llu",
                   (unsigned long long)view.busy_ns, (unsigned long long)want.busy_ns,
                   (unsigned long long)now_ns);
}

void backend_property(struct tape *t)
{
    struct weir_backend_trouble troubles[4] = {0};
    struct weir_backend_rules rules = {0};
    draw_rules(t, &rules, troubles);
    TAPE_CHECK(t, weir_backend_problem(&rules) == NULL);
    size_t bytes = weir_backend_bytes(&rules, TWIN_JOBS);
    struct weir_backend *b = weir_backend_init(tape_alloc(t, bytes), bytes, &rules, TWIN_JOBS);
    struct backend_twin *twin = tape_alloc(t, sizeof *twin);
    twin_init(twin, &rules);
    uint64_t now_ns = 0;
    for (uint32_t op = 0; op < 300 && tape_more(t); op++) {
        uint32_t job = (uint32_t)tape_below(t, TWIN_JOBS);
        bool looks = !tape_chance(t, 1, 4); /* else its events are taken later, or never */
        switch (tape_below(t, 5)) {
        case 0:
        case 1:
            if (twin->jobs[job].place != TWIN_OUT || !looks)
                continue;
            compare(t, b, twin, now_ns);
            uint32_t prompt_tok = (uint32_t)tape_below(t, 10);
            uint32_t output_tok = (uint32_t)tape_below(t, 12);
            twin_join(twin, job, prompt_tok, output_tok, now_ns);
            weir_backend_join(b, job, prompt_tok, output_tok, now_ns);
            break;
        case 2:
            now_ns += tape_below(t, 40);
            break;
        case 3: /* exactly when something happens */
            if (weir_backend_due_ns(b) != WEIR_NEVER_NS)
                now_ns = weir_max_u64(now_ns, weir_backend_due_ns(b));
            break;
        case 4:
            if (looks)
                compare(t, b, twin, now_ns);
            twin_cancel(twin, job, now_ns);
            for (uint32_t i = 0; i < twin->event_count;) { /* its events do not come any more */
                if (twin->events[i].job == job)
                    twin->events[i] = twin->events[--twin->event_count];
                else
                    i++;
            }
            weir_backend_cancel(b, job, now_ns);
            break;
        }
        if (looks)
            compare(t, b, twin, now_ns);
    }
    compare(t, b, twin, now_ns + 2000);
}
