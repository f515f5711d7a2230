/* memory: the store that applies an operation within submit and keeps its answer until it is
 * collected.
 *
 * The answers wait in a ring. Room in it is kept for the settle or void of every hold alive, so
 * that those never have to be turned away. */
#include "store/store.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MEMORY_LABELS_MAX 2048u /* upstreams and models */

struct waiting_answer {
    struct weir_store_answer answer;
    uint32_t turn; /* SCOPE_FORGET: of weir_names_scope_leave */
};

struct memory_store {
    struct weir_store base;
    struct weir_ledger *ledger;
    uint32_t finished_keep;
    uint32_t held_now;
    uint64_t ops;
    struct waiting_answer *answers;
    size_t answers_max; /* a power of two */
    size_t head, tail;  /* both run on; tail - head answers wait */
    void *mem;
    size_t bytes;
};

static bool has_room(const struct memory_store *m, enum weir_ledger_kind kind)
{
    size_t room = m->answers_max - (m->tail - m->head);
    switch (kind) {
    case WEIR_LEDGER_SETTLE:
    case WEIR_LEDGER_VOID:
        return room >= 1;
    case WEIR_LEDGER_RESERVE:
        return room >= (size_t)m->held_now + 2; /* its own answer, and its end's */
    case WEIR_LEDGER_EXTEND:
    case WEIR_LEDGER_SCOPE:
    case WEIR_LEDGER_SCOPE_FORGET:
    case WEIR_LEDGER_WINDOW:
    case WEIR_LEDGER_ADJUST:
        break;
    }
    return room >= (size_t)m->held_now + 1;
}

static bool memory_submit(struct weir_store *st, const struct weir_store_op *op)
{
    struct memory_store *m = (struct memory_store *)st;
    if (!has_room(m, op->ledger.kind))
        return false;
    struct weir_ledger_answer answer = weir_ledger_apply(m->ledger, &op->ledger);
    if (op->ledger.kind == WEIR_LEDGER_RESERVE && answer.result == WEIR_LEDGER_HELD)
        m->held_now++;
    else if (answer.result == WEIR_LEDGER_SETTLED || answer.result == WEIR_LEDGER_VOIDED)
        m->held_now--;
    uint32_t turn = 0;
    if (op->ledger.kind == WEIR_LEDGER_SCOPE)
        weir_names_scope_stay(st->names, op->ledger.scope);
    else if (op->ledger.kind == WEIR_LEDGER_SCOPE_FORGET)
        turn = weir_names_scope_leave(st->names, op->ledger.scope);
    m->answers[m->tail++ & (m->answers_max - 1)] = (struct waiting_answer){
        .answer = {.tag = op->tag,
                   .hold = op->ledger.hold,
                   .kind = op->ledger.kind,
                   .result = answer.result,
                   .scope = answer.scope != WEIR_NONE ? answer.scope : op->ledger.scope},
        .turn = turn,
    };
    m->ops++;
    /* An operation finishes one hold at most, so two a time keep the number down. */
    weir_ledger_forget(m->ledger, m->finished_keep, 2);
    /* Nobody keeps the rows, but past balances wait until their last change is told. */
    for (struct weir_ledger_balance row; weir_ledger_changed_next(m->ledger, &row);)
        ;
    return true;
}

static size_t memory_collect(struct weir_store *st, uint64_t now_ns,
                             struct weir_store_answer *answers, size_t answers_max)
{
    (void)now_ns; /* no operation waits here, so no deadline passes */
    struct memory_store *m = (struct memory_store *)st;
    size_t count = 0;
    while (count < answers_max && m->head != m->tail) {
        const struct waiting_answer *w = &m->answers[m->head++ & (m->answers_max - 1)];
        if (w->answer.result == WEIR_LEDGER_DONE)
            weir_names_scope_left(st->names, w->answer.scope, w->turn);
        answers[count++] = w->answer;
    }
    if (m->head == m->tail)
        m->head = m->tail = 0; /* the same few pages again, not the whole ring in turn */
    return count;
}

static bool memory_totals(struct weir_store *st, uint32_t scope, struct weir_ledger_totals *totals)
{
    return weir_ledger_totals(((struct memory_store *)st)->ledger, scope, totals);
}

static void memory_stats(struct weir_store *st, struct weir_ledger_stats *stats)
{
    weir_ledger_stats(((struct memory_store *)st)->ledger, stats);
}

static void memory_status(struct weir_store *st, struct weir_store_status *status)
{
    const struct memory_store *m = (const struct memory_store *)st;
    *status = (struct weir_store_status){
        .is_available = true, .ops = m->ops, .queue_now = m->tail - m->head};
}

static void memory_close(struct weir_store *st)
{
    struct memory_store *m = (struct memory_store *)st;
    weir_names_destroy(m->base.names);
    munmap(m->mem, m->bytes);
    free(m);
}

static const struct weir_store_type memory_type = {
    .name = "memory",
    .submit = memory_submit,
    .collect = memory_collect,
    .totals = memory_totals,
    .stats = memory_stats,
    .status = memory_status,
    .close = memory_close,
};

struct weir_store *weir_memory_store_open(const struct weir_memory_store_config *config)
{
    /* Two more than both: an operation may finish a hold before one is forgotten. */
    uint32_t holds_max = config->holds_max + config->finished_keep + 2;
    struct weir_ledger_limits limits = {
        .scopes_max = config->scopes_max,
        /* Past balances live by the holds that name them, so this many can never run out. */
        .balances_max = config->scopes_max + holds_max * WEIR_LEDGER_DEPTH_MAX,
        .holds_max = holds_max,
    };
    size_t ledger_bytes = weir_ledger_bytes(&limits);
    size_t answers_max = 16;
    while (answers_max < 2 * (size_t)holds_max)
        answers_max *= 2;
    struct memory_store *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->bytes = ledger_bytes + answers_max * sizeof *m->answers;
    m->mem = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct weir_names *names = weir_names_create(config->scopes_max, MEMORY_LABELS_MAX);
    if (m->mem == MAP_FAILED || !names) {
        if (m->mem != MAP_FAILED)
            munmap(m->mem, m->bytes);
        weir_names_destroy(names);
        free(m);
        return NULL;
    }
    m->base = (struct weir_store){.type = &memory_type, .names = names, .epoch = 1, .fd = -1};
    m->ledger = weir_ledger_init(m->mem, ledger_bytes, &limits, m->base.epoch);
    m->answers = (void *)((char *)m->mem + ledger_bytes);
    m->answers_max = answers_max;
    m->finished_keep = config->finished_keep;
    return &m->base;
}

const char *weir_memory_store_audit(struct weir_store *st)
{
    WEIR_INVARIANT(st->type == &memory_type);
    return weir_ledger_audit(((struct memory_store *)st)->ledger);
}
