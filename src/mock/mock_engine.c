#include "mock/mock_engine.h"

#include <stdlib.h>

struct mock_replica {
    struct mock_engine *engine;
    struct weir_timer timer;
    struct mock_sequence *running;
    uint32_t running_now;
    uint64_t step_from_ns, step_due_ns; /* of the step at hand */
    bool is_stepping;                   /* it ends right now */
};

/* Those that wait, of one key; of all where keys do not matter. */
struct mock_line {
    struct mock_sequence *first, **tail;
};

struct mock_engine {
    struct weir_loop *loop;
    struct mock_engine_rules rules;
    struct mock_line lines[MOCK_KEYS_MAX];
    uint32_t turn; /* the key that got a place last */
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

static struct mock_line *engine_line(struct mock_engine *e, const struct mock_sequence *s)
{
    return &e->lines[e->rules.order == WEIR_MOCK_FIFO ? 0 : s->line];
}

static void engine_unlink(struct mock_engine *e, struct mock_sequence *s)
{
    if (s->replica == WEIR_NONE) {
        struct mock_line *line = engine_line(e, s);
        if (line->tail == &s->next)
            line->tail = s->link;
    }
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
    r->running_now++;
    e->turn = s->line;
    if (r->is_stepping) { /* the next step begins where this one ends, late as we may see it */
        s->from_ns = weir_max_u64(s->from_ns, r->step_due_ns);
        return;
    }
    s->from_ns = weir_loop_now_ns(e->loop);
    if (r->running_now == 1 || r->step_from_ns == s->from_ns) {
        r->step_from_ns = s->from_ns;
        r->step_due_ns = s->from_ns + engine_step_ns(e, r);
        weir_timer_set(e->loop, &r->timer, r->step_due_ns);
    }
}

/* Whose turn it is; NULL: nobody waits. */
static struct mock_sequence *engine_choose(struct mock_engine *e)
{
    uint32_t from = e->rules.order == WEIR_MOCK_TURNS ? e->turn + 1 : 0;
    for (uint32_t i = 0; i < MOCK_KEYS_MAX; i++) {
        uint32_t at = (from + i) % MOCK_KEYS_MAX;
        if (e->lines[at].first)
            return e->lines[at].first;
    }
    return NULL;
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
        r->is_stepping = true;
        for (; s; s = next) {
            next = s->next;
            if (s->from_ns <= r->step_from_ns)
                engine_advance(e, s); /* may take out s, and only s; who takes its place is listed
                                         before it, so not met here */
        }
        r->is_stepping = false;
        r->step_from_ns = r->step_due_ns;
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
    for (uint32_t i = 0; i < MOCK_KEYS_MAX; i++)
        e->lines[i].tail = &e->lines[i].first;
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
    struct mock_line *line = engine_line(e, s);
    s->from_ns = weir_loop_now_ns(e->loop);
    s->next = NULL;
    s->link = line->tail;
    *line->tail = s;
    line->tail = &s->next;
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
    struct mock_sequence *first = engine_choose(e);
    if (first) {
        engine_unlink(e, first);
        engine_admit(e, r, first);
    }
}
