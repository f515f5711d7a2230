#include "mock/mock_engine.h"

#include <stdlib.h>

struct mock_replica {
    struct mock_engine *engine;
    struct weir_timer timer;
    struct mock_sequence *running;
    uint32_t running_now;
    uint64_t step_due_ns; /* when the step at hand ends */
};

struct mock_engine {
    struct weir_loop *loop;
    struct mock_engine_rules rules;
    struct mock_sequence *waiting, **waiting_tail;
    struct mock_replica replicas[];
};

static void engine_list(struct mock_sequence **list, struct mock_sequence *s)
{
    s->next = *list;
    s->link = list;
    if (s->next)
        s->next->link = &s->next;
    *list = s;
}

static void engine_unlink(struct mock_engine *e, struct mock_sequence *s)
{
    if (e->waiting_tail == &s->next)
        e->waiting_tail = s->link;
    *s->link = s->next;
    if (s->next)
        s->next->link = s->link;
    s->next = NULL;
    s->link = NULL;
}

static uint64_t engine_step_ns(const struct mock_engine *e, const struct mock_replica *r)
{
    return e->rules.step_ns + r->running_now * e->rules.step_sequence_ns;
}

static void engine_admit(struct mock_engine *e, struct mock_replica *r, struct mock_sequence *s)
{
    engine_list(&r->running, s);
    s->replica = (uint32_t)(r - e->replicas);
    if (r->running_now++ == 0) {
        r->step_due_ns = weir_loop_now_ns(e->loop) + engine_step_ns(e, r);
        weir_timer_set(e->loop, &r->timer, r->step_due_ns);
    }
}

/* One unit of work for one sequence. */
static void engine_advance(struct mock_engine *e, struct mock_sequence *s)
{
    if (s->prefill_left > 1000) {
        s->prefill_left -= 1000;
        return;
    }
    s->prefill_left = 0;
    bool last = s->output_left <= 1;
    if (s->output_left > 0)
        s->output_left--;
    if (last)
        mock_engine_leave(e, s);
    s->tokens(s, 1, last);
}

static void engine_fire(struct weir_timer *timer)
{
    struct mock_replica *r =
        (struct mock_replica *)((char *)timer - offsetof(struct mock_replica, timer));
    struct mock_engine *e = r->engine;
    uint64_t now_ns = weir_loop_now_ns(e->loop);
    while (r->running_now > 0 && r->step_due_ns <= now_ns) {
        struct mock_sequence *s = r->running, *next;
        for (; s; s = next) {
            next = s->next;
            engine_advance(e, s); /* may take out s, and only s */
        }
        r->step_due_ns += engine_step_ns(e, r);
    }
    if (r->running_now > 0)
        weir_timer_set(e->loop, &r->timer, r->step_due_ns);
}

struct mock_engine *mock_engine_create(struct weir_loop *loop,
                                       const struct mock_engine_rules *rules)
{
    struct mock_engine *e = calloc(1, sizeof *e + rules->replicas * sizeof e->replicas[0]);
    if (!e)
        return NULL;
    e->loop = loop;
    e->rules = *rules;
    e->waiting_tail = &e->waiting;
    for (uint32_t i = 0; i < rules->replicas; i++) {
        e->replicas[i].engine = e;
        e->replicas[i].timer.fire = engine_fire;
    }
    return e;
}

void mock_engine_destroy(struct mock_engine *e)
{
    for (uint32_t i = 0; e && i < e->rules.replicas; i++)
        weir_timer_cancel(e->loop, &e->replicas[i].timer);
    free(e);
}

void mock_engine_join(struct mock_engine *e, struct mock_sequence *s, uint32_t prompt_tok,
                      uint32_t output_tok)
{
    struct mock_replica *best = &e->replicas[0];
    s->prefill_left = (uint64_t)prompt_tok * e->rules.prefill_permille;
    s->output_left = output_tok;
    s->replica = WEIR_NONE;
    for (uint32_t i = 1; i < e->rules.replicas; i++)
        if (e->replicas[i].running_now < best->running_now)
            best = &e->replicas[i];
    if (best->running_now < e->rules.sequences) {
        engine_admit(e, best, s);
        return;
    }
    s->next = NULL;
    s->link = e->waiting_tail;
    *e->waiting_tail = s;
    e->waiting_tail = &s->next;
}

void mock_engine_leave(struct mock_engine *e, struct mock_sequence *s)
{
    if (!s->link)
        return;
    uint32_t replica = s->replica;
    engine_unlink(e, s);
    s->replica = WEIR_NONE;
    if (replica == WEIR_NONE)
        return;
    struct mock_replica *r = &e->replicas[replica];
    r->running_now--;
    if (e->waiting) {
        struct mock_sequence *first = e->waiting;
        engine_unlink(e, first);
        engine_admit(e, r, first);
    }
}
