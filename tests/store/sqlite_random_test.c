/* The SQLite store under random operations in batches, restarts and outages. A second account is kept of
 * the answers alone: what each hold must have come to. Whenever the store is closed the file says the
 * same, and its journal, its holds and its balances agree (weir_verify).
 *
 * Short: 12 seeds of 40 rounds; WEIR_TEST_LONG: 200. WEIR_SEED=N runs one seed. */
#include "core/rng.h"
#include "store/gate_vfs.h"
#include "store/sqlite_rig.h"

#define ROUNDS 40
#define OPS_MAX 60
#define HOLDS_MAX (ROUNDS * OPS_MAX)
#define SCOPES 5 /* org, and under it team (with a and b) and c */

static const char *const scope_names[SCOPES] = {"org", "team", "a", "b", "c"};
static const uint32_t scope_parents[SCOPES] = {WEIR_NONE, 0, 1, 1, 0};

/* A hold as the answers say. */
struct account {
    uint64_t id;
    uint32_t scope;
    enum weir_hold_state state;
    int64_t asked, booked;
    bool is_unsure; /* an extend of it was UNAVAILABLE: held with one amount or the other */
};

/* An operation under way; its tag is its place. */
struct under_way {
    struct weir_store_op op;
    uint32_t scope; /* index of the name */
    bool answered;
};

struct world {
    uint64_t seed;
    struct weir_rng rng;
    struct rig rig;
    uint32_t slots[SCOPES];
    bool defined[SCOPES], refunds[SCOPES];
    int64_t adjusted[SCOPES];
    uint64_t windows[SCOPES];
    struct account holds[HOLDS_MAX];
    size_t hold_count;
    struct under_way ops[OPS_MAX + SCOPES];
    size_t op_count, answer_count;
    uint64_t results[WEIR_LEDGER_RESULT_COUNT], outages, restarts;
};

#define HERE(w, cond, ...)                                                                         \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            char here_note[256];                                                                   \
            snprintf(here_note, sizeof here_note, __VA_ARGS__);                                    \
            fail_msg("%s; repeat: WEIR_SEED=%llu store_sqlite_random_test", here_note,             \
                     (unsigned long long)(w)->seed);                                               \
        }                                                                                          \
    } while (0)

static uint64_t draw(struct world *w, uint64_t below)
{
    return weir_rng_below(&w->rng, below);
}

static bool percent(struct world *w, uint64_t n)
{
    return draw(w, 100) < n;
}

static struct account *account_find(struct world *w, uint64_t id)
{
    for (size_t i = 0; i < w->hold_count; i++)
        if (w->holds[i].id == id)
            return &w->holds[i];
    return NULL;
}

static bool is_pending(const struct world *w, uint64_t hold)
{
    for (size_t i = 0; i < w->op_count; i++)
        if (w->ops[i].op.ledger.hold == hold && hold != 0)
            return true;
    return false;
}

static void submit(struct world *w, uint32_t scope, struct weir_store_op op)
{
    CHECK(w->op_count < WEIR_COUNT(w->ops));
    op.tag = w->op_count;
    w->ops[w->op_count] = (struct under_way){.op = op, .scope = scope};
    if (weir_store_submit(w->rig.st, &op))
        w->op_count++;
    else /* while the store is stuck one ask at a time finds out */
        HERE(w, op.ledger.kind == WEIR_LEDGER_RESERVE || op.ledger.kind == WEIR_LEDGER_EXTEND,
             "an operation is turned away");
}

static void submit_scope(struct world *w, uint32_t scope)
{
    w->slots[scope] = weir_store_scope(w->rig.st, scope_names[scope]);
    HERE(w, w->slots[scope] != WEIR_NONE, "no slot for %s", scope_names[scope]);
    struct weir_store_op op =
        rig_op(WEIR_LEDGER_SCOPE, w->slots[scope], 0, (int64_t)draw(w, percent(w, 80) ? 9000 : 90));
    if (scope_parents[scope] != WEIR_NONE)
        op.ledger.parent = w->slots[scope_parents[scope]];
    op.ledger.unlimited = percent(w, 20);
    op.ledger.lapse_refunds = w->refunds[scope] = percent(w, 30);
    op.is_configured = percent(w, 50);
    submit(w, scope, op);
}

/* ---- answers ---- */

static void answer_hold(struct world *w, const struct under_way *u, enum weir_ledger_result result)
{
    const struct weir_ledger_op *op = &u->op.ledger;
    struct account *h = account_find(w, op->hold);
    switch (result) {
    case WEIR_LEDGER_HELD:
        if (op->kind == WEIR_LEDGER_RESERVE) {
            h = &w->holds[w->hold_count++];
            *h = (struct account){.id = op->hold,
                                  .scope = u->scope,
                                  .state = WEIR_HOLD_HELD,
                                  .asked = op->amount_tok};
        }
        h->booked = op->amount_tok;
        return;
    case WEIR_LEDGER_SETTLED:
    case WEIR_LEDGER_LATE:
        HERE(w, h && (h->state == WEIR_HOLD_HELD) == (result == WEIR_LEDGER_SETTLED), "settled");
        h->state = result == WEIR_LEDGER_LATE ? WEIR_HOLD_LATE : WEIR_HOLD_SETTLED;
        h->booked = op->amount_tok;
        return;
    case WEIR_LEDGER_VOIDED:
        HERE(w, h && h->state == WEIR_HOLD_HELD, "voided");
        h->state = WEIR_HOLD_VOID;
        h->booked = 0;
        return;
    case WEIR_LEDGER_UNMATCHED:
        /* A void one whose scope is forgotten is booked where the caller says. */
        HERE(w, !h || (h->state == WEIR_HOLD_VOID && !w->defined[h->scope]),
             "hold %llx is known and yet unmatched", (unsigned long long)op->hold);
        h = h ? h : &w->holds[w->hold_count++];
        *h = (struct account){.id = op->hold,
                              .scope = u->scope,
                              .state = WEIR_HOLD_LATE,
                              .asked = -1,
                              .booked = op->amount_tok};
        return;
    case WEIR_LEDGER_UNAVAILABLE:
        HERE(w, op->kind == WEIR_LEDGER_RESERVE || op->kind == WEIR_LEDGER_EXTEND,
             "the end of a hold is UNAVAILABLE");
        if (h)
            h->is_unsure = true;
        return;
    case WEIR_LEDGER_SAME:
        HERE(w, h, "a repeat of nothing");
        HERE(w, op->kind != WEIR_LEDGER_SETTLE || h->booked == op->amount_tok, "same, but other");
        return;
    case WEIR_LEDGER_CONFLICT:
    case WEIR_LEDGER_FINISHED:
        HERE(w, h && (op->kind == WEIR_LEDGER_RESERVE || h->state != WEIR_HOLD_HELD), "conflict");
        return;
    case WEIR_LEDGER_BUSY:
    case WEIR_LEDGER_EXHAUSTED:
    case WEIR_LEDGER_NEVER:
        return;
    case WEIR_LEDGER_BAD:
        HERE(w, !w->defined[u->scope] || op->amount_tok < 0, "kind %d on %s with %lld is bad",
             (int)op->kind, scope_names[u->scope], (long long)op->amount_tok);
        return;
    case WEIR_LEDGER_DONE:
    case WEIR_LEDGER_UNKNOWN:
    case WEIR_LEDGER_FULL:
        break;
    }
    HERE(w, false, "%s to kind %d", weir_ledger_result_name(result), (int)op->kind);
}

static void answer(struct world *w, const struct weir_store_answer *a)
{
    struct under_way *u = &w->ops[a->tag];
    HERE(w, a->tag < w->op_count && !u->answered, "an answer to nothing");
    u->answered = true;
    w->answer_count++;
    w->results[a->result]++;
    switch (a->kind) {
    case WEIR_LEDGER_RESERVE:
    case WEIR_LEDGER_EXTEND:
    case WEIR_LEDGER_SETTLE:
    case WEIR_LEDGER_VOID:
        answer_hold(w, u, a->result);
        return;
    case WEIR_LEDGER_ADJUST:
        if (a->result == WEIR_LEDGER_DONE)
            for (uint32_t s = u->scope; s != WEIR_NONE; s = scope_parents[s])
                w->adjusted[s] += u->op.ledger.amount_tok;
        return;
    case WEIR_LEDGER_SCOPE_FORGET:
        HERE(w, a->result == WEIR_LEDGER_DONE || a->result == WEIR_LEDGER_BUSY, "forget");
        w->defined[u->scope] = a->result != WEIR_LEDGER_DONE;
        return;
    case WEIR_LEDGER_SCOPE:
        w->defined[u->scope] = true;
        /* fall through */
    case WEIR_LEDGER_WINDOW:
        HERE(w, a->result == WEIR_LEDGER_DONE, "kind %d of %s is %s", (int)a->kind,
             scope_names[u->scope], weir_ledger_result_name(a->result));
        return;
    }
}

/* Collects all; when the disk fails, what comes until nothing does. */
static void collect(struct world *w, bool is_outage)
{
    struct weir_store_answer a;
    struct pollfd p = {.fd = weir_store_fd(w->rig.st), .events = POLLIN};
    while (w->answer_count < w->op_count) {
        if (weir_store_collect(w->rig.st, 1, &a, 1) == 1) {
            answer(w, &a);
        } else if (poll(&p, 1, is_outage ? 20 : 20000) != 1) {
            HERE(w, is_outage, "no answer within 20 s");
            return;
        }
    }
}

/* ---- a round ---- */

static struct account *draw_account(struct world *w, bool held)
{
    for (int tries = 0; w->hold_count > 0 && tries < 8; tries++) {
        struct account *h =
            &w->holds[percent(w, 70) && w->hold_count > 40 ? w->hold_count - 1 - draw(w, 40)
                                                           : draw(w, w->hold_count)];
        if (!is_pending(w, h->id) && (!held || h->state == WEIR_HOLD_HELD))
            return h;
    }
    return NULL;
}

static void submit_reserve(struct world *w, uint32_t scope)
{
    submit(w, scope,
           rig_op(WEIR_LEDGER_RESERVE, w->slots[scope], weir_store_hold_next(w->rig.st),
                  percent(w, 3) ? -5 : (int64_t)draw(w, 300)));
}

static void submit_on_hold(struct world *w, enum weir_ledger_kind kind)
{
    struct account *h = draw_account(w, percent(w, 70));
    if (!h || (h->is_unsure && kind == WEIR_LEDGER_EXTEND))
        return;
    int64_t tok = percent(w, 25) ? h->booked : (int64_t)draw(w, 400);
    if (kind == WEIR_LEDGER_RESERVE)
        tok = percent(w, 80) ? h->asked : tok;
    if (kind == WEIR_LEDGER_EXTEND)
        tok += h->booked;
    /* Where its scope has no slot the caller names another, as a gateway would. */
    uint32_t scope = w->defined[h->scope] ? h->scope : 0;
    submit(w, scope, rig_op(kind, w->slots[scope], h->id, tok));
}

static void submit_any(struct world *w)
{
    uint32_t scope = (uint32_t)draw(w, SCOPES);
    uint64_t dice = draw(w, 100);
    struct weir_store_op op;
    if (!w->defined[scope])
        return submit_scope(w, scope);
    if (dice < 40)
        return submit_reserve(w, scope);
    if (dice < 68)
        return submit_on_hold(w, WEIR_LEDGER_SETTLE);
    if (dice < 76)
        return submit_on_hold(w, WEIR_LEDGER_VOID);
    if (dice < 84)
        return submit_on_hold(w, WEIR_LEDGER_EXTEND);
    if (dice < 86)
        return submit_on_hold(w, WEIR_LEDGER_RESERVE); /* a repeat */
    if (dice < 88)                                     /* an id that nobody reserved */
        return submit(w, scope,
                      rig_op(WEIR_LEDGER_SETTLE, w->slots[scope], weir_store_hold_next(w->rig.st),
                             (int64_t)draw(w, 50)));
    if (dice < 92)
        return submit_scope(w, scope);
    if (dice < 95) {
        op = rig_op(WEIR_LEDGER_WINDOW, w->slots[scope], 0, 0);
        op.ledger.window = ++w->windows[scope];
        return submit(w, scope, op);
    }
    op = rig_op(WEIR_LEDGER_ADJUST, w->slots[scope], 0, (int64_t)draw(w, 100) - 50);
    op.text = "random";
    submit(w, scope, op);
}

/* Alone, so that nothing else speaks of the scope meanwhile. */
static void round_forget(struct world *w)
{
    uint32_t scope = 2 + (uint32_t)draw(w, SCOPES - 2);
    if (w->defined[scope])
        submit(w, scope, rig_op(WEIR_LEDGER_SCOPE_FORGET, w->slots[scope], 0, 0));
}

/* Returns whether the disk failed meanwhile. */
static bool world_round(struct world *w)
{
    bool outage = percent(w, 6);
    w->op_count = w->answer_count = 0;
    if (outage && percent(w, 30))
        gate_fail_writes(true);
    else if (outage)
        gate_fail_syncs(true);
    if (percent(w, 15))
        round_forget(w);
    else
        for (uint64_t left = 1 + draw(w, OPS_MAX); left > 0; left--)
            submit_any(w);
    if (outage) {
        collect(w, true);
        gate_fail_syncs(false);
        gate_fail_writes(false);
        w->outages++;
    }
    collect(w, false);
    return outage;
}

/* ---- what the file must say ---- */

static void expect_sum(struct world *w, uint32_t scope, const char *column, int64_t want)
{
    char sql[256];
    snprintf(sql, sizeof sql,
             "SELECT coalesce(sum(b.%s), 0) FROM balance b JOIN scope s ON b.scope = s.id WHERE "
             "s.name = '%s'",
             column, scope_names[scope]);
    int64_t is = rig_number(&w->rig, sql);
    HERE(w, is == want, "%s of %s is %lld, the answers make it %lld", column, scope_names[scope],
         (long long)is, (long long)want);
}

static void expect_file(struct world *w)
{
    for (uint32_t scope = 0; scope < SCOPES; scope++) {
        int64_t reserved = 0, lapsed = 0, committed = w->adjusted[scope];
        bool is_unsure = false;
        for (size_t i = 0; i < w->hold_count; i++) {
            const struct account *h = &w->holds[i];
            bool counts = false;
            for (uint32_t s = h->scope; s != WEIR_NONE; s = scope_parents[s])
                counts |= s == scope;
            if (!counts)
                continue;
            is_unsure |=
                h->is_unsure && (h->state == WEIR_HOLD_HELD || h->state == WEIR_HOLD_LAPSED);
            *(h->state == WEIR_HOLD_HELD     ? &reserved
              : h->state == WEIR_HOLD_LAPSED ? &lapsed
                                             : &committed) += h->booked;
        }
        expect_sum(w, scope, "committed", committed);
        if (is_unsure)
            continue;
        expect_sum(w, scope, "reserved", reserved);
        expect_sum(w, scope, "lapsed", lapsed);
    }
}

/* What this run's holds count, each once; the gauge of what is enforced. */
static void expect_counted(struct world *w)
{
    struct weir_ledger_stats stats;
    int64_t counted = 0;
    for (size_t i = 0; i < w->hold_count; i++) {
        const struct account *h = &w->holds[i];
        if (h->is_unsure && h->state == WEIR_HOLD_HELD)
            return;
        counted += h->id >> 40 == w->rig.st->epoch ? h->booked : 0;
    }
    weir_store_stats(w->rig.st, &stats);
    HERE(w, stats.counted_tok == counted, "%lld counted, the answers make it %lld",
         (long long)stats.counted_tok, (long long)counted);
}

static void world_restart(struct world *w)
{
    rig_close(&w->rig); /* verifies */
    expect_file(w);
    rig_open(&w->rig);
    w->restarts++;
    for (size_t i = 0; i < w->hold_count; i++) {
        struct account *h = &w->holds[i];
        if (h->state != WEIR_HOLD_HELD)
            continue;
        h->state = WEIR_HOLD_LAPSED;
        h->booked = w->refunds[h->scope] ? 0 : h->booked;
    }
    w->op_count = w->answer_count = 0;
    for (uint32_t scope = 0; scope < SCOPES; scope++)
        submit_scope(w, scope);
    collect(w, false);
}

static void world_run(struct world *w, uint64_t seed)
{
    w->seed = seed;
    weir_rng_seed(&w->rng, seed, 0);
    gate_reset();
    rig_new(&w->rig);
    w->rig.config.vfs = GATE_VFS_NAME;
    w->rig.config.finished_keep = (uint32_t)draw(w, 30);
    rig_open(&w->rig);
    for (uint32_t scope = 0; scope < SCOPES; scope++)
        submit_scope(w, scope);
    collect(w, false);
    for (int i = 0; i < ROUNDS; i++) {
        if (percent(w, 8))
            world_restart(w);
        /* After an outage a batch voids what was told UNAVAILABLE and proved to be held. */
        if (!world_round(w) && w->op_count > 0)
            expect_counted(w);
    }
    rig_close(&w->rig);
    expect_file(w);
    rig_end(&w->rig);
}

static void sqlite__random_operations__the_file_is_what_the_answers_make_it(void **state)
{
    (void)state;
    const char *one = getenv("WEIR_SEED");
    uint64_t seeds = one ? 1 : getenv("WEIR_TEST_LONG") ? 200 : 12;
    uint64_t results[WEIR_LEDGER_RESULT_COUNT] = {0}, outages = 0, restarts = 0;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        struct world *w = calloc(1, sizeof *w);
        CHECK(w != NULL);
        world_run(w, one ? strtoull(one, NULL, 10) : seed);
        for (int i = 0; i < WEIR_LEDGER_RESULT_COUNT; i++)
            results[i] += w->results[i];
        outages += w->outages;
        restarts += w->restarts;
        free(w);
    }
    print_message("# %llu outages, %llu restarts, %llu held, %llu settled, %llu late\n",
                  (unsigned long long)outages, (unsigned long long)restarts,
                  (unsigned long long)results[WEIR_LEDGER_HELD],
                  (unsigned long long)results[WEIR_LEDGER_SETTLED],
                  (unsigned long long)results[WEIR_LEDGER_LATE]);
    for (int i = 0; !one && i < WEIR_LEDGER_RESULT_COUNT; i++)
        CHECK_MSG(results[i] > 0 || i == WEIR_LEDGER_FULL || i == WEIR_LEDGER_UNKNOWN, "no %s",
                  weir_ledger_result_name((enum weir_ledger_result)i));
    CHECK(one || (outages > seeds && restarts > seeds));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sqlite__random_operations__the_file_is_what_the_answers_make_it),
    };
    return cmocka_run_group_tests_name("sqlite_random", tests, NULL, NULL);
}
