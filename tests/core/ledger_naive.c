#include "ledger_naive.h"

#include "support/check.h"

static bool in_chain(const struct naive_record *r, int cell)
{
    for (int i = 0; i < r->depth; i++)
        if (r->cells[i] == cell)
            return true;
    return false;
}

/* Does a record's chain name a scope in its present life? */
static bool naive_names(const struct naive *n, const struct naive_record *r, uint32_t scope)
{
    for (int i = 0; i < r->depth; i++)
        if (n->cells[r->cells[i]].scope == scope &&
            n->cells[r->cells[i]].life == n->scopes[scope].life)
            return true;
    return false;
}

struct naive_sums naive_sum(const struct naive *n, int cell)
{
    struct naive_sums sums = {.committed = n->cells[cell].raised - n->cells[cell].lowered};
    for (int i = 0; i < n->record_count; i++) {
        const struct naive_record *r = &n->records[i];
        if (r->state == WEIR_HOLD_VOID || !in_chain(r, cell))
            continue;
        if (r->state == WEIR_HOLD_HELD) {
            sums.held += r->booked;
            sums.held_count++;
        } else if (r->state == WEIR_HOLD_LAPSED) {
            sums.lapsed += r->booked;
            sums.lapsed_count++;
        } else {
            sums.committed += r->booked;
        }
    }
    sums.spent = sums.committed + sums.lapsed;
    sums.used = sums.spent + sums.held;
    return sums;
}

static int naive_depth(const struct naive *n, uint32_t scope)
{
    int depth = 0;
    for (; scope != WEIR_NONE; scope = n->scopes[scope].parent)
        depth++;
    return depth;
}

static bool naive_is_below(const struct naive *n, uint32_t scope, uint32_t above)
{
    for (; scope != WEIR_NONE; scope = n->scopes[scope].parent)
        if (scope == above)
            return true;
    return false;
}

static int naive_chain(const struct naive *n, uint32_t scope, int *cells)
{
    int depth = 0;
    for (; scope != WEIR_NONE; scope = n->scopes[scope].parent)
        cells[depth++] = n->scopes[scope].cell;
    return depth;
}

bool naive_defined(const struct naive *n, uint32_t scope)
{
    return scope < NAIVE_SCOPES && n->scopes[scope].defined;
}

static bool naive_has_children(const struct naive *n, uint32_t scope)
{
    for (uint32_t i = 0; i < NAIVE_SCOPES; i++)
        if (n->scopes[i].defined && n->scopes[i].parent == scope)
            return true;
    return false;
}

struct naive_record *naive_find(struct naive *n, uint64_t id)
{
    for (int i = 0; i < n->record_count; i++)
        if (n->records[i].known && n->records[i].id == id)
            return &n->records[i];
    return NULL;
}

static int naive_known_count(const struct naive *n)
{
    int count = 0;
    for (int i = 0; i < n->record_count; i++)
        count += n->records[i].known;
    return count;
}

static bool naive_cell_named(const struct naive *n, int cell)
{
    for (int i = 0; i < n->record_count; i++)
        if (n->records[i].known && in_chain(&n->records[i], cell))
            return true;
    return false;
}

static bool naive_cell_live(const struct naive *n, int cell)
{
    const struct naive_cell *c = &n->cells[cell];
    return (n->scopes[c->scope].defined && n->scopes[c->scope].cell == cell) || c->untold ||
           c->loaded || naive_cell_named(n, cell);
}

static bool naive_cell_room(const struct naive *n)
{
    int live = 0;
    for (int i = 0; i < n->cell_count; i++)
        live += naive_cell_live(n, i);
    return live < NAIVE_BALANCES;
}

/* The amounts of these cells change. */
static void naive_touch(struct naive *n, const int *cells, int depth)
{
    for (int i = 0; i < depth; i++)
        n->cells[cells[i]].untold = true;
}

static int naive_cell_new(struct naive *n, uint32_t scope)
{
    CHECK(n->cell_count < (int)WEIR_COUNT(n->cells));
    n->cells[n->cell_count] = (struct naive_cell){.scope = scope,
                                                  .life = n->scopes[scope].life,
                                                  .window = n->scopes[scope].window,
                                                  .granted = n->scopes[scope].granted,
                                                  .untold = true};
    return n->cell_count++;
}

static struct naive_record *naive_record(struct naive *n, uint64_t id, uint32_t scope,
                                         int64_t asked)
{
    CHECK(n->record_count < (int)WEIR_COUNT(n->records));
    struct naive_record *r = &n->records[n->record_count++];
    *r = (struct naive_record){.id = id, .known = true, .scope = scope, .asked = asked};
    r->depth = naive_chain(n, scope, r->cells);
    r->held_at = ++n->clock;
    r->counted_in = id >> 40 == n->epoch ? n->epoch : 0;
    return r;
}

/* A store writes its row, over that of an older hold of the same id. */
static void naive_keep(struct naive *n, struct naive_record *kept)
{
    for (int i = 0; i < n->record_count; i++)
        if (n->records[i].id == kept->id)
            n->records[i].is_kept = false;
    kept->is_kept = true;
}

/* Books an amount as used on a record; says how much fitted. */
static naive_wide naive_book(struct naive *n, struct naive_record *r, enum weir_hold_state to,
                             int64_t actual)
{
    naive_wide before = r->booked, fits = actual;
    for (int i = 0; i < r->depth; i++) {
        naive_wide room = (naive_wide)WEIR_BALANCE_MAX - naive_sum(n, r->cells[i]).used + before;
        fits = fits < room ? fits : room;
    }
    for (int i = 0; i < r->depth && fits > before; i++)
        n->cells[r->cells[i]].overrun += fits - before;
    r->state = to;
    r->booked = (int64_t)fits;
    r->finished_at = ++n->clock;
    naive_touch(n, r->cells, r->depth);
    return fits;
}

static struct weir_ledger_answer naive_judge(const struct naive *n, const int *cells, int depth,
                                             naive_wide more, naive_wide whole)
{
    struct weir_ledger_answer worst = {WEIR_LEDGER_HELD, WEIR_NONE};
    int worst_rank = 0;
    for (int i = 0; i < depth; i++) {
        const struct naive_cell *c = &n->cells[cells[i]];
        const struct naive_sums sums = naive_sum(n, cells[i]);
        int rank = 0;
        if (whole > c->granted)
            rank = 3;
        else if (sums.used + more > c->granted || sums.used >= c->granted)
            rank = sums.spent + whole <= c->granted && sums.spent < c->granted ? 1 : 2;
        if (rank > worst_rank) {
            const enum weir_ledger_result results[] = {WEIR_LEDGER_HELD, WEIR_LEDGER_BUSY,
                                                       WEIR_LEDGER_EXHAUSTED, WEIR_LEDGER_NEVER};
            worst = (struct weir_ledger_answer){results[rank], c->scope};
            worst_rank = rank;
        }
    }
    return worst;
}

#define ANSWER(result) ((struct weir_ledger_answer){(result), WEIR_NONE})

static bool in_range(int64_t tok)
{
    return tok >= 0 && tok <= WEIR_TOK_MAX;
}

static struct weir_ledger_answer naive_scope(struct naive *n, const struct weir_ledger_op *op)
{
    uint32_t s = op->scope, p = op->parent;
    if (s >= NAIVE_SCOPES || (p != WEIR_NONE && !naive_defined(n, p)) || p == s)
        return ANSWER(WEIR_LEDGER_BAD);
    if (!op->unlimited && !in_range(op->amount_tok))
        return ANSWER(WEIR_LEDGER_BAD);
    int depth = p == WEIR_NONE ? 1 : naive_depth(n, p) + 1;
    if (naive_is_below(n, p, s) || depth > WEIR_LEDGER_DEPTH_MAX)
        return ANSWER(WEIR_LEDGER_BAD);
    for (uint32_t i = 0; i < NAIVE_SCOPES; i++)
        if (naive_defined(n, s) && naive_defined(n, i) && naive_is_below(n, i, s) &&
            naive_depth(n, i) - naive_depth(n, s) + depth > WEIR_LEDGER_DEPTH_MAX)
            return ANSWER(WEIR_LEDGER_BAD);
    if (!n->scopes[s].defined && !naive_cell_room(n))
        return ANSWER(WEIR_LEDGER_FULL);
    n->scopes[s].granted = op->unlimited ? WEIR_BALANCE_MAX : op->amount_tok;
    n->scopes[s].parent = p;
    n->scopes[s].refunds = op->lapse_refunds;
    if (!n->scopes[s].defined) {
        n->scopes[s].defined = true;
        n->scopes[s].cell = naive_cell_new(n, s);
    }
    struct naive_cell *c = &n->cells[n->scopes[s].cell];
    naive_wide used = naive_sum(n, n->scopes[s].cell).used, before = used - c->granted,
               after = used - n->scopes[s].granted;
    before = before > 0 ? before : 0;
    after = after > 0 ? after : 0;
    c->cut += after > before ? after - before : 0;
    c->cut_whole += n->scopes[s].granted < c->granted ? c->granted - n->scopes[s].granted : 0;
    c->untold |= c->granted != n->scopes[s].granted;
    c->granted = n->scopes[s].granted;
    return ANSWER(WEIR_LEDGER_DONE);
}

static struct weir_ledger_answer naive_scope_forget(struct naive *n, uint32_t s)
{
    if (!naive_defined(n, s))
        return ANSWER(WEIR_LEDGER_BAD);
    bool alive = naive_has_children(n, s);
    for (int i = 0; i < n->record_count; i++)
        alive |= naive_names(n, &n->records[i], s) &&
                 (n->records[i].state == WEIR_HOLD_HELD || n->records[i].state == WEIR_HOLD_LAPSED);
    if (alive)
        return (struct weir_ledger_answer){WEIR_LEDGER_BUSY, s};
    for (int i = 0; i < n->record_count; i++)
        if (naive_names(n, &n->records[i], s))
            n->records[i].known = n->records[i].is_kept = false;
    n->scopes[s].defined = false;
    n->scopes[s].window = n->scopes[s].refused = 0;
    n->scopes[s].life++;
    return ANSWER(WEIR_LEDGER_DONE);
}

static struct weir_ledger_answer naive_window(struct naive *n, uint32_t s, uint64_t window)
{
    if (!naive_defined(n, s) || window < n->scopes[s].window)
        return ANSWER(WEIR_LEDGER_BAD);
    if (window == n->scopes[s].window)
        return ANSWER(WEIR_LEDGER_SAME);
    int cell = n->scopes[s].cell;
    if ((naive_cell_named(n, cell) || n->cells[cell].untold) && !naive_cell_room(n))
        return ANSWER(WEIR_LEDGER_FULL);
    n->scopes[s].window = window;
    n->scopes[s].cell = naive_cell_new(n, s);
    return ANSWER(WEIR_LEDGER_DONE);
}

static struct weir_ledger_answer naive_reserve(struct naive *n, const struct weir_ledger_op *op)
{
    if (!naive_defined(n, op->scope) || !in_range(op->amount_tok))
        return ANSWER(WEIR_LEDGER_BAD);
    struct naive_record *r = naive_find(n, op->hold);
    if (r && (r->asked != op->amount_tok || r->scope != op->scope))
        return ANSWER(WEIR_LEDGER_CONFLICT);
    if (r)
        return ANSWER(r->state == WEIR_HOLD_HELD ? WEIR_LEDGER_SAME : WEIR_LEDGER_FINISHED);
    if (op->hold >> 40 != n->epoch || op->hold << 24 == 0)
        return ANSWER(WEIR_LEDGER_BAD);
    int cells[WEIR_LEDGER_DEPTH_MAX], depth = naive_chain(n, op->scope, cells);
    struct weir_ledger_answer judged = naive_judge(n, cells, depth, op->amount_tok, op->amount_tok);
    if (judged.result != WEIR_LEDGER_HELD)
        return judged;
    if (naive_known_count(n) == NAIVE_HOLDS)
        return ANSWER(WEIR_LEDGER_FULL);
    r = naive_record(n, op->hold, op->scope, op->amount_tok);
    r->state = WEIR_HOLD_HELD;
    r->booked = op->amount_tok;
    naive_touch(n, r->cells, r->depth);
    naive_keep(n, r);
    return judged;
}

static struct weir_ledger_answer naive_extend(struct naive *n, const struct weir_ledger_op *op)
{
    if (!in_range(op->amount_tok))
        return ANSWER(WEIR_LEDGER_BAD);
    struct naive_record *r = naive_find(n, op->hold);
    if (!r || r->state != WEIR_HOLD_HELD)
        return ANSWER(r ? WEIR_LEDGER_FINISHED : WEIR_LEDGER_UNKNOWN);
    if (op->amount_tok <= r->booked)
        return ANSWER(WEIR_LEDGER_SAME);
    struct weir_ledger_answer judged =
        naive_judge(n, r->cells, r->depth, (naive_wide)op->amount_tok - r->booked, op->amount_tok);
    if (judged.result == WEIR_LEDGER_HELD) {
        r->booked = op->amount_tok;
        naive_touch(n, r->cells, r->depth);
    }
    return judged;
}

static struct weir_ledger_answer naive_settle(struct naive *n, const struct weir_ledger_op *op)
{
    if (!in_range(op->amount_tok))
        return ANSWER(WEIR_LEDGER_BAD);
    struct naive_record *r = naive_find(n, op->hold);
    if (!r) {
        if (!naive_defined(n, op->scope))
            return ANSWER(WEIR_LEDGER_BAD);
        bool known = naive_known_count(n) < NAIVE_HOLDS;
        r = naive_record(n, op->hold, op->scope, -1);
        r->known = known;
        if (known)
            naive_keep(n, r);
        naive_wide booked = naive_book(n, r, WEIR_HOLD_LATE, op->amount_tok);
        for (int i = 0; i < r->depth; i++)
            n->cells[r->cells[i]].unmatched += booked;
        return ANSWER(WEIR_LEDGER_UNMATCHED);
    }
    if (r->state == WEIR_HOLD_SETTLED || r->state == WEIR_HOLD_LATE)
        return ANSWER(r->booked == op->amount_tok ? WEIR_LEDGER_SAME : WEIR_LEDGER_CONFLICT);
    bool late = r->state != WEIR_HOLD_HELD;
    naive_book(n, r, late ? WEIR_HOLD_LATE : WEIR_HOLD_SETTLED, op->amount_tok);
    return ANSWER(late ? WEIR_LEDGER_LATE : WEIR_LEDGER_SETTLED);
}

static struct weir_ledger_answer naive_void(struct naive *n, uint64_t hold)
{
    struct naive_record *r = naive_find(n, hold);
    if (!r)
        return ANSWER(WEIR_LEDGER_UNKNOWN);
    if (r->state != WEIR_HOLD_HELD)
        return ANSWER(r->state == WEIR_HOLD_VOID ? WEIR_LEDGER_SAME : WEIR_LEDGER_CONFLICT);
    naive_book(n, r, WEIR_HOLD_VOID, 0);
    return ANSWER(WEIR_LEDGER_VOIDED);
}

static struct weir_ledger_answer naive_adjust(struct naive *n, uint32_t scope, int64_t tok)
{
    if (!naive_defined(n, scope) || tok > WEIR_TOK_MAX || tok < -WEIR_TOK_MAX)
        return ANSWER(WEIR_LEDGER_BAD);
    int cells[WEIR_LEDGER_DEPTH_MAX], depth = naive_chain(n, scope, cells);
    for (int i = 0; i < depth; i++) {
        const struct naive_cell *c = &n->cells[cells[i]];
        if (tok > 0 && (c->raised + tok > WEIR_BALANCE_MAX ||
                        naive_sum(n, cells[i]).used + tok > WEIR_BALANCE_MAX))
            return (struct weir_ledger_answer){WEIR_LEDGER_BAD, c->scope};
        if (tok < 0 && c->lowered - tok > WEIR_BALANCE_MAX)
            return (struct weir_ledger_answer){WEIR_LEDGER_BAD, c->scope};
    }
    for (int i = 0; i < depth; i++)
        *(tok > 0 ? &n->cells[cells[i]].raised : &n->cells[cells[i]].lowered) +=
            tok > 0 ? tok : -tok;
    naive_touch(n, cells, depth);
    return ANSWER(WEIR_LEDGER_DONE);
}

static struct weir_ledger_answer naive_do(struct naive *n, const struct weir_ledger_op *op)
{
    switch (op->kind) {
    case WEIR_LEDGER_RESERVE:
        return naive_reserve(n, op);
    case WEIR_LEDGER_EXTEND:
        return naive_extend(n, op);
    case WEIR_LEDGER_SETTLE:
        return naive_settle(n, op);
    case WEIR_LEDGER_VOID:
        return naive_void(n, op->hold);
    case WEIR_LEDGER_SCOPE:
        return naive_scope(n, op);
    case WEIR_LEDGER_SCOPE_FORGET:
        return naive_scope_forget(n, op->scope);
    case WEIR_LEDGER_WINDOW:
        return naive_window(n, op->scope, op->window);
    case WEIR_LEDGER_ADJUST:
        return naive_adjust(n, op->scope, op->amount_tok);
    }
    return ANSWER(WEIR_LEDGER_BAD);
}

struct weir_ledger_answer naive_apply(struct naive *n, const struct weir_ledger_op *op)
{
    struct weir_ledger_answer answer = naive_do(n, op);
    bool is_ask = op->kind == WEIR_LEDGER_RESERVE || op->kind == WEIR_LEDGER_EXTEND;
    if (is_ask && (answer.result == WEIR_LEDGER_BUSY || answer.result == WEIR_LEDGER_EXHAUSTED ||
                   answer.result == WEIR_LEDGER_NEVER))
        n->scopes[answer.scope].refused++;
    return answer;
}

uint32_t naive_lapse(struct naive *n, uint32_t most)
{
    for (uint32_t count = 0;; count++) {
        struct naive_record *oldest = NULL;
        for (int i = 0; i < n->record_count; i++) {
            struct naive_record *r = &n->records[i];
            if (r->state == WEIR_HOLD_HELD && r->id >> 40 < n->epoch &&
                (!oldest || r->held_at < oldest->held_at))
                oldest = r;
        }
        if (!oldest || count == most)
            return count;
        oldest->state = WEIR_HOLD_LAPSED;
        naive_touch(n, oldest->cells, oldest->depth);
        if (!n->scopes[oldest->scope].refunds)
            continue;
        for (int i = 0; i < oldest->depth; i++)
            n->cells[oldest->cells[i]].refunded += oldest->booked;
        oldest->booked = 0;
    }
}

uint32_t naive_forget(struct naive *n, uint32_t keep, uint32_t most)
{
    for (uint32_t count = 0;; count++) {
        struct naive_record *oldest = NULL;
        uint32_t finished = 0;
        for (int i = 0; i < n->record_count; i++) {
            struct naive_record *r = &n->records[i];
            if (!r->known || r->state == WEIR_HOLD_HELD || r->state == WEIR_HOLD_LAPSED)
                continue;
            finished++;
            if (!oldest || r->finished_at < oldest->finished_at)
                oldest = r;
        }
        if (count == most || finished <= keep)
            return count;
        oldest->known = false;
    }
}

size_t naive_take(struct naive *n)
{
    size_t count = 0;
    for (int i = 0; i < n->cell_count; i++) {
        count += n->cells[i].untold;
        n->cells[i].untold = n->cells[i].loaded = false;
    }
    return count;
}

static struct naive_record *naive_held_next(struct naive *n, const struct naive_record *after)
{
    struct naive_record *next = NULL;
    for (int i = 0; i < n->record_count; i++) {
        struct naive_record *r = &n->records[i];
        if (r->state == WEIR_HOLD_HELD && (!after || r->id > after->id) &&
            (!next || r->id < next->id))
            next = r;
    }
    return next;
}

bool naive_reload(struct naive *n)
{
    bool in_order = true;
    uint64_t last = 0;
    for (struct naive_record *r = naive_held_next(n, NULL); r; r = naive_held_next(n, r)) {
        in_order &= r->held_at > last;
        last = r->held_at;
        r->held_at = ++n->clock;
    }
    for (int i = 0; i < n->record_count; i++) {
        enum weir_hold_state state = n->records[i].state;
        n->records[i].known &= state == WEIR_HOLD_HELD || state == WEIR_HOLD_LAPSED;
        if (state == WEIR_HOLD_SETTLED || state == WEIR_HOLD_LATE)
            n->records[i].counted_in = 0; /* memory counts from its start */
    }
    for (uint32_t s = 0; s < NAIVE_SCOPES; s++)
        n->scopes[s].refused = 0;
    return in_order;
}

struct naive_record *naive_loadable(struct naive *n, uint64_t at)
{
    for (int i = 0; i < n->record_count; i++)
        if (n->records[i].is_kept && !n->records[i].known && at-- == 0)
            return &n->records[i];
    return NULL;
}

enum weir_ledger_result naive_load(struct naive *n, struct naive_record *r)
{
    for (int i = 0; i < r->depth; i++) {
        if (naive_cell_live(n, r->cells[i]))
            continue;
        if (!naive_cell_room(n))
            return WEIR_LEDGER_FULL;
        n->cells[r->cells[i]].loaded = true;
    }
    if (naive_known_count(n) == NAIVE_HOLDS)
        return WEIR_LEDGER_FULL;
    r->known = true;
    r->finished_at = ++n->clock;
    return WEIR_LEDGER_DONE;
}

naive_wide naive_counted(const struct naive *n)
{
    naive_wide sum = 0;
    for (int i = 0; i < n->record_count; i++)
        sum += n->records[i].counted_in == n->epoch ? n->records[i].booked : 0;
    return sum;
}

static int64_t capped(naive_wide sum)
{
    return sum > WEIR_BALANCE_MAX ? WEIR_BALANCE_MAX : (int64_t)sum;
}

struct weir_ledger_balance naive_row(const struct naive *n, int cell, const struct naive_sums *sums)
{
    const struct naive_cell *c = &n->cells[cell];
    return (struct weir_ledger_balance){
        .scope = c->scope,
        .window = c->window,
        .granted_tok = c->granted,
        .reserved_tok = (int64_t)sums->held,
        .committed_tok = (int64_t)sums->committed,
        .lapsed_tok = (int64_t)sums->lapsed,
        .overrun_tok = capped(c->overrun),
        .cut_tok = capped(c->cut),
        .raised_tok = (int64_t)c->raised,
        .lowered_tok = (int64_t)c->lowered,
        .unmatched_tok = capped(c->unmatched),
        .refunded_tok = capped(c->refunded),
    };
}
