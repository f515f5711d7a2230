/* faulty: a durable store at its worst, for tests; around another store, which does the work.
 *
 * Operations wait in a queue and are given on in batches, settles and voids first, then the rest in
 * the order of arrival. It also watches its caller: ending a hold whose reserve is not answered yet
 * is a defect that a store which answers at once would hide. */
#include "store/store.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct waiting {
    struct weir_store_op op; /* its text points to the one here when it is carried out */
    char text[WEIR_STORE_TEXT_MAX + 1];
    uint32_t collects_left;
};

/* Given on to the inner store under a tag of ours. */
struct given {
    uint64_t our_tag, tag;
    uint64_t reserves; /* the hold that a RESERVE asks for, else 0 */
    bool unavailable;  /* whatever comes of it, UNAVAILABLE is told */
    bool silent;       /* our own void: nothing is told */
};

struct faulty_store {
    struct weir_store base;
    struct weir_store *inner;
    struct weir_faulty_store_config config;
    struct waiting *waiting;
    size_t waiting_count, waiting_max;
    struct given *given;
    size_t given_count, given_max;
    struct weir_store_answer *answers;
    size_t answer_count, answers_max;
    uint64_t our_tag;
    uint64_t asked; /* reserves and extends so far */
};

static void *grown(void *array, size_t count, size_t *max, size_t bytes)
{
    if (count < *max)
        return array;
    *max = *max ? 2 * *max : 16;
    array = realloc(array, *max * bytes);
    WEIR_INVARIANT(array != NULL); /* a test's own memory */
    return array;
}

static bool ends_hold(enum weir_ledger_kind kind)
{
    return kind == WEIR_LEDGER_SETTLE || kind == WEIR_LEDGER_VOID;
}

/* Makes the descriptor readable, or not. */
static void set_readable(struct faulty_store *f, bool readable)
{
    uint64_t word = 1;
    if (f->base.fd < 0)
        return;
    /* Never blocks; fails only by being readable, or not, already. */
    ssize_t done = read(f->base.fd, &word, sizeof word);
    word = 1;
    if (readable)
        done = write(f->base.fd, &word, sizeof word);
    (void)done;
}

static bool reserve_is_unanswered(const struct faulty_store *f, uint64_t hold)
{
    for (size_t i = 0; i < f->waiting_count; i++)
        if (f->waiting[i].op.ledger.kind == WEIR_LEDGER_RESERVE &&
            f->waiting[i].op.ledger.hold == hold)
            return true;
    for (size_t i = 0; i < f->given_count; i++)
        if (f->given[i].reserves == hold)
            return true;
    for (size_t i = 0; i < f->answer_count; i++)
        if (f->answers[i].kind == WEIR_LEDGER_RESERVE && f->answers[i].hold == hold)
            return true;
    return false;
}

static bool faulty_submit(struct weir_store *st, const struct weir_store_op *op)
{
    struct faulty_store *f = (struct faulty_store *)st;
    size_t others = 0;
    if (ends_hold(op->ledger.kind)) {
        WEIR_INVARIANT(!reserve_is_unanswered(f, op->ledger.hold));
    } else {
        for (size_t i = 0; i < f->waiting_count; i++)
            others += !ends_hold(f->waiting[i].op.ledger.kind);
        if (others >= f->config.queue_max)
            return false;
    }
    f->waiting = grown(f->waiting, f->waiting_count, &f->waiting_max, sizeof *f->waiting);
    struct waiting *w = &f->waiting[f->waiting_count++];
    *w = (struct waiting){.op = *op, .collects_left = f->config.delay_collects};
    if (op->text)
        memcpy(w->text, op->text, strnlen(op->text, WEIR_STORE_TEXT_MAX));
    set_readable(f, true);
    return true;
}

static void tell(struct faulty_store *f, const struct weir_store_answer *answer)
{
    f->answers = grown(f->answers, f->answer_count, &f->answers_max, sizeof *f->answers);
    f->answers[f->answer_count++] = *answer;
}

static bool give(struct faulty_store *f, const struct weir_store_op *op, bool unavailable,
                 bool silent)
{
    struct weir_store_op ours = *op;
    ours.tag = ++f->our_tag;
    if (!weir_store_submit(f->inner, &ours))
        return false;
    f->given = grown(f->given, f->given_count, &f->given_max, sizeof *f->given);
    f->given[f->given_count++] =
        (struct given){.our_tag = ours.tag,
                       .tag = op->tag,
                       .reserves = op->ledger.kind == WEIR_LEDGER_RESERVE ? op->ledger.hold : 0,
                       .unavailable = unavailable,
                       .silent = silent};
    return true;
}

static void take_answer(struct faulty_store *f, struct weir_store_answer answer)
{
    size_t at = 0;
    while (at < f->given_count && f->given[at].our_tag != answer.tag)
        at++;
    WEIR_INVARIANT(at < f->given_count);
    struct given given = f->given[at];
    memmove(&f->given[at], &f->given[at + 1], (--f->given_count - at) * sizeof *f->given);
    if (given.silent)
        return;
    if (given.unavailable && answer.kind == WEIR_LEDGER_RESERVE &&
        answer.result == WEIR_LEDGER_HELD) {
        struct weir_store_op undo = {.ledger = {.kind = WEIR_LEDGER_VOID, .hold = answer.hold}};
        WEIR_INVARIANT(give(f, &undo, false, true)); /* a void always finds room */
    }
    if (given.unavailable)
        answer.result = WEIR_LEDGER_UNAVAILABLE;
    answer.tag = given.tag;
    tell(f, &answer);
}

static void take_answers(struct faulty_store *f, uint64_t now_ns)
{
    struct weir_store_answer answers[16];
    size_t count;
    do {
        count = weir_store_collect(f->inner, now_ns, answers, WEIR_COUNT(answers));
        for (size_t i = 0; i < count; i++)
            take_answer(f, answers[i]);
    } while (count > 0);
}

/* Gives on one operation whose time has come. false: the inner store has no room. */
static bool carry_out(struct faulty_store *f, const struct weir_store_op *op)
{
    bool counted = op->ledger.kind == WEIR_LEDGER_RESERVE || op->ledger.kind == WEIR_LEDGER_EXTEND;
    uint64_t first = f->config.unavailable_at;
    uint64_t number = f->asked + 1;
    bool unavailable = counted && first != 0 && number >= first &&
                       number - first < weir_max_u64(1, f->config.unavailable_for);
    if (unavailable && !f->config.unavailable_applied)
        tell(f, &(struct weir_store_answer){.tag = op->tag,
                                            .hold = op->ledger.hold,
                                            .kind = op->ledger.kind,
                                            .result = WEIR_LEDGER_UNAVAILABLE,
                                            .scope = op->ledger.scope});
    else if (!give(f, op, unavailable, false))
        return false;
    f->asked += counted;
    return true;
}

/* One batch: of the first due_count operations, those that end holds, then the others. */
static void run_batch(struct faulty_store *f, size_t due_count, uint64_t now_ns)
{
    size_t left = 0;
    bool stuck = false;
    for (int ends = 1; ends >= 0; ends--) {
        for (size_t i = 0; i < due_count; i++) {
            struct weir_store_op *op = &f->waiting[i].op;
            if (op->text)
                op->text = f->waiting[i].text;
            if (ends_hold(op->ledger.kind) != (bool)ends)
                continue;
            if (!stuck && !carry_out(f, op)) {
                take_answers(f, now_ns);
                stuck = !carry_out(f, op);
            }
            f->waiting[i].collects_left = stuck ? 0 : UINT32_MAX; /* mark: carried out */
        }
        take_answers(f, now_ns);
    }
    for (size_t i = 0; i < f->waiting_count; i++)
        if (i >= due_count || f->waiting[i].collects_left != UINT32_MAX)
            f->waiting[left++] = f->waiting[i];
    f->waiting_count = left;
}

static size_t faulty_collect(struct weir_store *st, uint64_t now_ns,
                             struct weir_store_answer *answers, size_t answers_max)
{
    struct faulty_store *f = (struct faulty_store *)st;
    size_t due_count = 0;
    for (size_t i = 0; i < f->waiting_count; i++) {
        if (f->waiting[i].collects_left > 0)
            f->waiting[i].collects_left--;
        else
            due_count = i + 1; /* all wait equally long, so those due stand in front */
    }
    run_batch(f, due_count, now_ns);
    size_t count = f->answer_count < answers_max ? f->answer_count : answers_max;
    if (count > 0) {
        memcpy(answers, f->answers, count * sizeof *answers);
        f->answer_count -= count;
        memmove(f->answers, f->answers + count, f->answer_count * sizeof *answers);
    }
    set_readable(f, f->answer_count > 0 || f->waiting_count > 0 || f->given_count > 0);
    return count;
}

static bool faulty_totals(struct weir_store *st, uint32_t scope, struct weir_ledger_totals *totals)
{
    return weir_store_totals(((struct faulty_store *)st)->inner, scope, totals);
}

static void faulty_stats(struct weir_store *st, struct weir_ledger_stats *stats)
{
    weir_store_stats(((struct faulty_store *)st)->inner, stats);
}

static void faulty_status(struct weir_store *st, struct weir_store_status *status)
{
    const struct faulty_store *f = (const struct faulty_store *)st;
    weir_store_status(f->inner, status);
    status->queue_now += f->waiting_count;
}

static void faulty_keys(struct weir_store *st, weir_store_key_fn *each, void *ctx)
{
    weir_store_keys(((struct faulty_store *)st)->inner, each, ctx);
}

static void faulty_close(struct weir_store *st)
{
    struct faulty_store *f = (struct faulty_store *)st;
    run_batch(f, f->waiting_count, 0);
    weir_store_close(f->inner);
    if (f->base.fd >= 0)
        close(f->base.fd);
    free(f->waiting);
    free(f->given);
    free(f->answers);
    free(f);
}

static const struct weir_store_type faulty_type = {
    .name = "faulty",
    .submit = faulty_submit,
    .collect = faulty_collect,
    .totals = faulty_totals,
    .stats = faulty_stats,
    .status = faulty_status,
    .keys = faulty_keys,
    .close = faulty_close,
};

struct weir_store *weir_faulty_store_open(struct weir_store *inner,
                                          const struct weir_faulty_store_config *config)
{
    struct faulty_store *f = calloc(1, sizeof *f);
    WEIR_INVARIANT(f != NULL && inner != NULL && config->queue_max > 0);
    f->base = (struct weir_store){.type = &faulty_type,
                                  .names = inner->names,
                                  .epoch = inner->epoch,
                                  .counter = inner->counter,
                                  .fd = -1};
    f->inner = inner;
    f->config = *config;
    if (config->with_fd) {
        f->base.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        WEIR_INVARIANT(f->base.fd >= 0);
    }
    return &f->base;
}
