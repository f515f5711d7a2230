/* The ledger against a second, naive one (ledger_naive.h). Seeded random steps; after each the answers
 * agree, the audit finds nothing and the bound of core/ledger.h holds. A store takes what changed, in
 * batches, and now and then the ledger is thrown away and loaded from that. At the end the steps that
 * took effect replay to the same balances.
 *
 * Short: 1,000 seeds of 1,000 steps; WEIR_TEST_LONG: 10,000 seeds. WEIR_SEED=N runs one seed. */
#include "core/ledger.h"

#include <stdlib.h>

#include "ledger_naive.h"
#include "support/check.h"
#include "support/ledger_rows.h"

#define ANSWER(result) ((struct weir_ledger_answer){(result), WEIR_NONE})

/* One step, as it is done to both and kept for the replay. */

enum step_kind {
    STEP_OP,
    STEP_EPOCH,
    STEP_LAPSE,
    STEP_FORGET,
    STEP_TAKE,   /* a store takes what changed */
    STEP_RELOAD, /* it loads a fresh ledger from that */
    STEP_CRASH,  /* the same, and holds of the epoch before lapse */
    STEP_LOAD    /* it puts one forgotten hold back */
};
#define STEP_KINDS (STEP_LOAD + 1)

struct step {
    enum step_kind kind;
    struct weir_ledger_op op; /* STEP_LOAD: its hold */
    uint32_t keep, most;
    bool took_effect;
};

/* A ledger with the store that it tells. */
struct pair {
    struct weir_ledger *l;
    void *mem;
    struct ledger_rows file;
};

/* What all worlds came to: a case that was never met is not tested. */
struct tally {
    uint64_t results[WEIR_LEDGER_RESULT_COUNT], loads[WEIR_LEDGER_RESULT_COUNT];
    uint64_t steps[STEP_KINDS], refunds, clipped, replays;
};

struct world {
    uint64_t seed, random, counter;
    int at;
    struct pair pair, replay;
    struct naive n;
    struct step steps[NAIVE_STEPS];
    struct tally *tally;
    bool reordered; /* a reload put held holds in another order, and lapses went by it */
};

#define AGREE(w, cond, ...)                                                                        \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            char agree_note[256];                                                                  \
            snprintf(agree_note, sizeof agree_note, __VA_ARGS__);                                  \
            fail_msg("step %d: %s; repeat: WEIR_SEED=%llu core_ledger_model_test", (w)->at,        \
                     agree_note, (unsigned long long)(w)->seed);                                   \
        }                                                                                          \
    } while (0)

static uint64_t draw(struct world *w, uint64_t below)
{
    w->random += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = w->random;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % below;
}

static bool percent(struct world *w, uint64_t n)
{
    return draw(w, 100) < n;
}

static int64_t draw_bad(struct world *w)
{
    const int64_t bad[] = {-1,        -1000000000, WEIR_TOK_MAX + 1, WEIR_BALANCE_MAX + 1,
                           INT64_MAX, INT64_MIN,   -WEIR_TOK_MAX - 1};
    return bad[draw(w, WEIR_COUNT(bad))];
}

static int64_t draw_amount(struct world *w, int64_t usual)
{
    if (percent(w, 5))
        return draw_bad(w);
    /* Every tenth world claims absurd amounts, and so comes to the end of its balances. */
    if (w->seed % 10 == 0 && percent(w, 10))
        return WEIR_TOK_MAX - (int64_t)draw(w, 3);
    return (int64_t)draw(w, (uint64_t)usual + 1);
}

static uint64_t draw_hold(struct world *w)
{
    if (percent(w, 50)) {
        int held = 0, at = 0;
        for (int i = 0; i < w->n.record_count; i++)
            if (w->n.records[i].state == WEIR_HOLD_HELD && draw(w, (uint64_t)++held) == 0)
                at = i;
        if (held > 0)
            return w->n.records[at].id;
    }
    if (w->n.record_count > 0 && percent(w, 90)) {
        int back = (int)draw(w, percent(w, 70) ? 12 : 200);
        int at = w->n.record_count - 1 - back;
        return w->n.records[at < 0 ? 0 : at].id;
    }
    if (percent(w, 50))
        return weir_ledger_hold_id(w->n.epoch, ++w->counter);
    return draw(w, 2) ? weir_ledger_hold_id(w->n.epoch + draw(w, 3) - 1, draw(w, 4)) : draw(w, 5);
}

static uint32_t draw_scope(struct world *w)
{
    return (uint32_t)draw(w, percent(w, 3) ? NAIVE_SCOPES + 2 : NAIVE_SCOPES);
}

static struct step draw_scope_set(struct world *w)
{
    struct step s = {
        .op = {.kind = WEIR_LEDGER_SCOPE, .scope = draw_scope(w), .parent = WEIR_NONE}};
    if (percent(w, 70))
        s.op.parent = draw_scope(w);
    s.op.unlimited = percent(w, 15);
    s.op.lapse_refunds = percent(w, 30);
    s.op.amount_tok = draw_amount(w, percent(w, 60) ? 20000 : 800);
    return s;
}

static struct step draw_step(struct world *w)
{
    struct step s = {.op = {.scope = draw_scope(w), .parent = WEIR_NONE}};
    uint64_t dice = draw(w, 100);
    if (w->at < 10 || dice < 6)
        return draw_scope_set(w);
    if (dice < 44) {
        s.op.kind = WEIR_LEDGER_RESERVE;
        s.op.hold = percent(w, 80) ? weir_ledger_hold_id(w->n.epoch, ++w->counter) : draw_hold(w);
        s.op.amount_tok = draw_amount(w, 300);
        const struct naive_record *r = naive_find(&w->n, s.op.hold);
        if (r && percent(w, 70)) {
            s.op.amount_tok = r->asked;
            s.op.scope = r->scope;
        }
    } else if (dice < 72) {
        s.op.kind = WEIR_LEDGER_SETTLE;
        s.op.hold = draw_hold(w);
        const struct naive_record *r = naive_find(&w->n, s.op.hold);
        s.op.amount_tok = draw_amount(w, percent(w, 25) ? 900 : r ? r->booked : 300);
        if (r && percent(w, 20))
            s.op.amount_tok = r->booked;
    } else if (dice < 80) {
        s.op.kind = WEIR_LEDGER_VOID;
        s.op.hold = draw_hold(w);
    } else if (dice < 86) {
        s.op.kind = WEIR_LEDGER_EXTEND;
        s.op.hold = draw_hold(w);
        s.op.amount_tok = draw_amount(w, 600);
    } else if (dice < 89) {
        s.op.kind = WEIR_LEDGER_ADJUST;
        s.op.amount_tok = draw_amount(w, 400);
        if (percent(w, 60) && s.op.amount_tok != INT64_MIN)
            s.op.amount_tok = -s.op.amount_tok;
    } else if (dice < 91) {
        s.op.kind = WEIR_LEDGER_WINDOW;
        s.op.window = (uint64_t)w->at / 100 + draw(w, 2);
    } else if (dice < 92) {
        s.op.kind = WEIR_LEDGER_SCOPE_FORGET;
    } else if (dice < 93) {
        s.kind = percent(w, 50) ? STEP_EPOCH : percent(w, 60) ? STEP_RELOAD : STEP_CRASH;
    } else if (dice < 94) {
        s.kind = STEP_LAPSE;
        s.most = (uint32_t)draw(w, 20);
    } else if (dice < 97) {
        s.kind = STEP_FORGET;
        s.keep = (uint32_t)draw(w, 20);
        s.most = (uint32_t)draw(w, 12);
    } else if (dice < 98) {
        const struct naive_record *r = naive_loadable(&w->n, draw(w, 40));
        s.kind = r ? STEP_LOAD : STEP_TAKE;
        s.op.hold = r ? r->id : 0;
    } else {
        s.kind = STEP_TAKE;
    }
    return s;
}

static struct weir_ledger *world_ledger(uint32_t balances_max, uint64_t epoch, void **mem)
{
    const struct weir_ledger_limits limits = {NAIVE_SCOPES, balances_max, NAIVE_HOLDS};
    return ledger_in_memory(&limits, epoch, mem);
}

/* A store's start: all from its rows. */
static void pair_reload(struct pair *p, uint64_t epoch, bool reversed)
{
    void *mem;
    struct weir_ledger *fresh = world_ledger(NAIVE_BALANCES, epoch, &mem);
    ledger_rows_load(&p->file, fresh, p->l, NAIVE_SCOPES, reversed);
    free(p->mem);
    p->mem = mem;
    p->l = fresh;
    CHECK_INT(ledger_rows_take(&p->file, p->l), 0);
}

/* Returns a count, where the step has one. */
static uint32_t step_ledger(struct pair *p, const struct step *s, uint64_t epoch,
                            struct weir_ledger_answer *answer)
{
    switch (s->kind) {
    case STEP_OP:
        *answer = weir_ledger_apply(p->l, &s->op);
        ledger_rows_hold(&p->file, p->l, s->op.hold);
        return 0;
    case STEP_EPOCH:
        return weir_ledger_epoch_begin(p->l, epoch) ? 1 : 0;
    case STEP_CRASH:
    case STEP_LAPSE: {
        uint32_t count = weir_ledger_lapse(p->l, s->most);
        ledger_rows_holds(&p->file, p->l);
        return count;
    }
    case STEP_FORGET:
        return weir_ledger_forget(p->l, s->keep, s->most);
    case STEP_LOAD:
        *answer = ledger_rows_load_hold(&p->file, p->l, s->op.hold);
        return 0;
    case STEP_TAKE:
    case STEP_RELOAD:
        break;
    }
    return 0;
}

static uint32_t step_naive(struct naive *n, const struct step *s, struct weir_ledger_answer *answer)
{
    switch (s->kind) {
    case STEP_OP:
        *answer = naive_apply(n, &s->op);
        return 0;
    case STEP_EPOCH:
        n->epoch++;
        return 1;
    case STEP_CRASH:
    case STEP_LAPSE:
        return naive_lapse(n, s->most);
    case STEP_FORGET:
        return naive_forget(n, s->keep, s->most);
    case STEP_LOAD: {
        struct naive_record *r = NULL;
        for (uint64_t at = 0; !r || r->id != s->op.hold; at++)
            r = naive_loadable(n, at);
        answer->result = naive_load(n, r);
        return 0;
    }
    case STEP_TAKE:
    case STEP_RELOAD:
        break;
    }
    return 0;
}

static bool rows_equal(const struct weir_ledger_balance *a, const struct weir_ledger_balance *b)
{
    return a->granted_tok == b->granted_tok && a->reserved_tok == b->reserved_tok &&
           a->committed_tok == b->committed_tok && a->lapsed_tok == b->lapsed_tok &&
           a->overrun_tok == b->overrun_tok && a->cut_tok == b->cut_tok &&
           a->raised_tok == b->raised_tok && a->lowered_tok == b->lowered_tok &&
           a->unmatched_tok == b->unmatched_tok && a->refunded_tok == b->refunded_tok;
}

/* Just what changed is told, once, as it is now. */
static void agree_on_changes(struct world *w)
{
    struct ledger_rows *file = &w->pair.file;
    size_t count = ledger_rows_take(file, w->pair.l);
    for (int i = 0; i < w->n.cell_count; i++) {
        if (!w->n.cells[i].untold)
            continue;
        const struct naive_sums sums = naive_sum(&w->n, i);
        const struct weir_ledger_balance want = naive_row(&w->n, i, &sums);
        const struct weir_ledger_balance *row = ledger_rows_row(file, want.scope, want.window);
        AGREE(w, row && file->told[row - file->rows], "scope %u changed and is not told",
              want.scope);
        AGREE(w, rows_equal(row, &want), "scope %u is told with other amounts", want.scope);
    }
    size_t want_count = naive_take(&w->n);
    AGREE(w, count == want_count, "%zu balances are told, want %zu", count, want_count);
}

static void agree_on_scope(struct world *w, uint32_t scope)
{
    struct weir_ledger_totals t;
    bool defined = weir_ledger_totals(w->pair.l, scope, &t);
    AGREE(w, defined == naive_defined(&w->n, scope), "scope %u is defined in one only", scope);
    if (!defined)
        return;
    int cell = w->n.scopes[scope].cell;
    const struct naive_cell *c = &w->n.cells[cell];
    const struct naive_sums sums = naive_sum(&w->n, cell);
    const struct weir_ledger_balance row = naive_row(&w->n, cell, &sums);
    AGREE(w, t.reserved_tok == row.reserved_tok, "scope %u: reserved", scope);
    AGREE(w, t.lapsed_tok == row.lapsed_tok, "scope %u: lapsed", scope);
    AGREE(w, t.committed_tok == row.committed_tok, "scope %u: committed", scope);
    AGREE(w, t.granted_tok == row.granted_tok && t.window == row.window,
          "scope %u: granted, window", scope);
    AGREE(w, t.parent == w->n.scopes[scope].parent, "scope %u: parent", scope);
    AGREE(w, t.lapse_refunds == w->n.scopes[scope].refunds, "scope %u: lapse_refunds", scope);
    AGREE(w, t.overrun_tok == row.overrun_tok, "scope %u: overrun", scope);
    AGREE(w, t.cut_tok == row.cut_tok, "scope %u: cut", scope);
    AGREE(w, t.raised_tok == row.raised_tok && t.lowered_tok == row.lowered_tok,
          "scope %u: adjusted", scope);
    AGREE(w, t.unmatched_tok == row.unmatched_tok, "scope %u: unmatched", scope);
    AGREE(w, t.refunded_tok == row.refunded_tok, "scope %u: refunded", scope);
    AGREE(w, t.held_count == sums.held_count, "scope %u: held", scope);
    AGREE(w, t.lapsed_count == sums.lapsed_count, "scope %u: lapsed holds", scope);
    AGREE(w, t.refused_count == w->n.scopes[scope].refused, "scope %u: refused", scope);
    AGREE(w,
          weir_ledger_used_tok(&t) <=
              (naive_wide)c->granted + c->overrun + c->cut_whole + c->raised,
          "scope %u: an excess without a cause", scope);
}

static void agree_on_hold(struct world *w, uint64_t id)
{
    struct weir_ledger_hold view;
    bool known = weir_ledger_hold_find(w->pair.l, id, &view);
    const struct naive_record *r = naive_find(&w->n, id);
    AGREE(w, known == (r != NULL), "hold %llx is known to one only", (unsigned long long)id);
    if (r)
        AGREE(w,
              view.state == r->state && view.booked_tok == r->booked && view.asked_tok == r->asked,
              "hold %llx: state or amount", (unsigned long long)id);
}

static void agree_after(struct world *w, const struct step *s)
{
    const char *wrong = weir_ledger_audit(w->pair.l);
    AGREE(w, wrong == NULL, "not so: %s", wrong);
    if (s->kind == STEP_LOAD)
        agree_on_hold(w, s->op.hold);
    if (s->kind == STEP_OP) {
        agree_on_hold(w, s->op.hold);
        agree_on_scope(w, s->op.scope);
    }
    if (w->at % 8 != 0)
        return agree_on_scope(w, (uint32_t)draw(w, NAIVE_SCOPES));
    for (uint32_t scope = 0; scope < NAIVE_SCOPES; scope++)
        agree_on_scope(w, scope);
    struct weir_ledger_stats stats;
    weir_ledger_stats(w->pair.l, &stats);
    AGREE(w, stats.counted_tok == naive_counted(&w->n), "counted in this epoch");
}

/* What a store does before and after a step. */
static void world_store(struct world *w, const struct step *s, struct weir_ledger_answer answer)
{
    bool scope_left = s->kind == STEP_OP && s->op.kind == WEIR_LEDGER_SCOPE_FORGET &&
                      answer.result == WEIR_LEDGER_DONE;
    if (scope_left || s->kind == STEP_TAKE || s->kind == STEP_LOAD)
        agree_on_changes(w);
    if (scope_left)
        ledger_rows_scope_drop(&w->pair.file, s->op.scope);
}

static void world_reload(struct world *w, struct step *s)
{
    agree_on_changes(w);
    w->reordered |= !naive_reload(&w->n);
    w->n.epoch += s->kind == STEP_CRASH;
    s->most = UINT32_MAX;
    pair_reload(&w->pair, w->n.epoch, percent(w, 50));
}

static void world_step(struct world *w, struct step *s)
{
    if (s->kind == STEP_RELOAD || s->kind == STEP_CRASH)
        world_reload(w, s);
    if (s->kind == STEP_LOAD)
        agree_on_changes(w);
    struct weir_ledger_answer got = ANSWER(WEIR_LEDGER_DONE), want = got;
    uint32_t want_count = step_naive(&w->n, s, &want);
    uint32_t got_count = step_ledger(&w->pair, s, w->n.epoch, &got);
    AGREE(w, got.result == want.result, "kind %d, op %d of %u: is %s, want %s", (int)s->kind,
          (int)s->op.kind, s->op.scope, weir_ledger_result_name(got.result),
          weir_ledger_result_name(want.result));
    AGREE(w, got.scope == want.scope, "scope %u refuses, want %u", got.scope, want.scope);
    AGREE(w, got_count == want_count, "step kind %d: %u, want %u", (int)s->kind, got_count,
          want_count);
    s->took_effect = got.result <= WEIR_LEDGER_DONE;
    (s->kind == STEP_LOAD ? w->tally->loads : w->tally->results)[got.result]++;
    w->tally->steps[s->kind]++;
    world_store(w, s, got);
    agree_after(w, s);
}

/* The steps that took effect, applied to a ledger with room that is never loaded anew, give the same
 * balances: neither a refusal nor a reload leaves a trace. */
static void world_replay(struct world *w)
{
    struct pair *p = &w->replay;
    uint64_t epoch = 1;
    p->l = world_ledger(NAIVE_STEPS, epoch, &p->mem);
    for (int i = 0; i < NAIVE_STEPS; i++) {
        const struct step *s = &w->steps[i];
        struct weir_ledger_answer answer = ANSWER(WEIR_LEDGER_DONE);
        if (!s->took_effect)
            continue;
        epoch += s->kind == STEP_EPOCH || s->kind == STEP_CRASH;
        if (s->kind == STEP_RELOAD || s->kind == STEP_CRASH)
            weir_ledger_forget(p->l, 0, UINT32_MAX);
        if (s->kind == STEP_CRASH)
            CHECK(weir_ledger_epoch_begin(p->l, epoch));
        if (s->kind == STEP_LOAD)
            ledger_rows_take(&p->file, p->l);
        step_ledger(p, s, epoch, &answer);
        AGREE(w, answer.result <= WEIR_LEDGER_DONE, "replay of step %d is %s", i,
              weir_ledger_result_name(answer.result));
        if (s->kind == STEP_OP && s->op.kind == WEIR_LEDGER_SCOPE_FORGET) {
            ledger_rows_take(&p->file, p->l);
            ledger_rows_scope_drop(&p->file, s->op.scope);
        }
    }
    for (uint32_t scope = 0; scope < NAIVE_SCOPES; scope++) {
        struct weir_ledger_totals a, b;
        memset(&a, 0, sizeof a);
        memset(&b, 0, sizeof b);
        AGREE(w, weir_ledger_totals(w->pair.l, scope, &a) == weir_ledger_totals(p->l, scope, &b),
              "replay");
        a.refused_count = b.refused_count = 0;
        AGREE(w, memcmp(&a, &b, sizeof a) == 0, "replay of scope %u", scope);
    }
    free(p->mem);
}

static void world_run(struct world *w, uint64_t seed, struct tally *tally)
{
    memset(w, 0, sizeof *w);
    w->tally = tally;
    w->seed = w->random = seed;
    w->n.epoch = 1;
    w->pair.l = world_ledger(NAIVE_BALANCES, 1, &w->pair.mem);
    for (w->at = 0; w->at < NAIVE_STEPS; w->at++) {
        w->steps[w->at] = draw_step(w);
        world_step(w, &w->steps[w->at]);
    }
    if (!w->reordered) {
        world_replay(w);
        tally->replays++;
    }
    struct weir_ledger_stats stats;
    weir_ledger_stats(w->pair.l, &stats);
    tally->clipped += stats.clipped;
    for (int i = 0; i < w->n.cell_count; i++)
        tally->refunds += w->n.cells[i].refunded > 0;
    free(w->pair.mem);
}

/* Each thing that can happen did, often: none is untested. */
static void tally_check(const struct tally *t, uint64_t seeds)
{
    for (int i = 0; i < WEIR_LEDGER_RESULT_COUNT; i++) {
        const char *name = weir_ledger_result_name((enum weir_ledger_result)i);
        print_message("# %-12s %llu\n", name, (unsigned long long)t->results[i]);
        /* UNAVAILABLE is not the rules' to give. */
        CHECK_MSG((t->results[i] > seeds) == (i != WEIR_LEDGER_UNAVAILABLE), "%s", name);
    }
    for (int i = 0; i < STEP_KINDS; i++)
        CHECK_MSG(t->steps[i] > seeds, "steps of kind %d: %llu", i,
                  (unsigned long long)t->steps[i]);
    const struct {
        const char *what;
        uint64_t count, enough;
    } rare[] = {{"loads", t->loads[WEIR_LEDGER_DONE], seeds},
                {"loads without room", t->loads[WEIR_LEDGER_FULL], seeds / 100},
                {"balances with refunds", t->refunds, seeds},
                {"settles booked short", t->clipped, seeds / 10},
                {"replays", t->replays, seeds / 2}};
    for (size_t i = 0; i < WEIR_COUNT(rare); i++) {
        print_message("# %s: %llu\n", rare[i].what, (unsigned long long)rare[i].count);
        CHECK_MSG(rare[i].count > rare[i].enough, "%s: %llu", rare[i].what,
                  (unsigned long long)rare[i].count);
    }
}

static void ledger__random_steps__agree_with_the_naive_ledger(void **state)
{
    (void)state;
    struct world *w = malloc(sizeof *w);
    CHECK(w != NULL);
    struct tally tally = {0};
    const char *one = getenv("WEIR_SEED");
    uint64_t seeds = one ? 1 : getenv("WEIR_TEST_LONG") ? 10000 : 1000;
    for (uint64_t seed = 1; seed <= seeds; seed++)
        world_run(w, one ? strtoull(one, NULL, 10) : seed, &tally);
    if (!one)
        tally_check(&tally, seeds);
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ledger__random_steps__agree_with_the_naive_ledger),
    };
    return cmocka_run_group_tests_name("ledger_model", tests, NULL, NULL);
}
