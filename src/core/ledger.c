#include "core/ledger.h"

#include "core/ledger_inside.h"

/* Every operation's answer passes here, to be counted. */
static struct weir_ledger_answer say(struct weir_ledger *l, enum weir_ledger_result result,
                                     uint32_t scope)
{
    l->results[result]++;
    return (struct weir_ledger_answer){result, scope};
}

/* The answer of a budget that has no room: its scope counts it. */
static struct weir_ledger_answer say_refused(struct weir_ledger *l,
                                             struct weir_ledger_answer judged)
{
    l->scopes[judged.scope].refused++;
    return say(l, judged.result, judged.scope);
}

/* Balances. */

/* May a hold grow by more_tok, to whole_tok in all? HELD: yes. */
static enum weir_ledger_result balance_judge(const struct balance *b, int64_t more_tok,
                                             int64_t whole_tok)
{
    if (whole_tok > b->granted)
        return WEIR_LEDGER_NEVER;
    int64_t used = balance_used(b);
    if (used < b->granted && more_tok <= b->granted - used)
        return WEIR_LEDGER_HELD;
    /* Would it fit if every hold in flight were given back whole? Then the shortage may pass. */
    int64_t spent = b->committed + b->lapsed;
    if (spent < b->granted && whole_tok <= b->granted - spent)
        return WEIR_LEDGER_BUSY;
    return WEIR_LEDGER_EXHAUSTED;
}

/* Scopes. */

/* The present balances of a scope and its parents, leaf first. Returns how many. */
static uint8_t scope_chain(const struct weir_ledger *l, const struct scope *s,
                           uint32_t chain[WEIR_LEDGER_DEPTH_MAX])
{
    uint8_t count = 0;
    for (; s; s = s->parent ? &l->scopes[s->parent - 1] : NULL) {
        WEIR_INVARIANT(count < WEIR_LEDGER_DEPTH_MAX);
        chain[count++] = s->balance - 1;
    }
    return count;
}

/* Levels from a scope up to another; WEIR_NONE: that is not above it. */
static uint32_t scope_levels(const struct weir_ledger *l, uint32_t scope, uint32_t above)
{
    uint32_t levels = 0;
    for (; scope != above; levels++) {
        if (!l->scopes[scope].parent)
            return WEIR_NONE;
        scope = l->scopes[scope].parent - 1;
    }
    return levels;
}

/* Levels that hang below a scope. */
static uint32_t scope_height(const struct weir_ledger *l, uint32_t scope)
{
    uint32_t height = 0;
    for (uint32_t i = 0; l->scopes[scope].children > 0 && i < l->limits.scopes_max; i++) {
        uint32_t levels = scope_levels(l, i, scope);
        if (levels != WEIR_NONE && levels > height)
            height = levels;
    }
    return height;
}

/* A scope goes to a level, and all below goes with it. */
static void scope_shift(struct weir_ledger *l, uint32_t scope, uint8_t depth)
{
    int by = depth - l->scopes[scope].depth;
    bool has_children = l->scopes[scope].children > 0;
    for (uint32_t i = 0; by != 0 && has_children && i < l->limits.scopes_max; i++)
        if (i != scope && scope_levels(l, i, scope) != WEIR_NONE)
            l->scopes[i].depth = (uint8_t)(l->scopes[i].depth + by);
    l->scopes[scope].depth = depth;
}

struct weir_ledger_answer weir_ledger_scope_set(struct weir_ledger *l, uint32_t scope,
                                                const struct weir_ledger_rules *rules)
{
    const struct scope *up = rules->parent == WEIR_NONE ? NULL : scope_find(l, rules->parent);
    if (scope >= l->limits.scopes_max || (rules->parent != WEIR_NONE && !up))
        return say(l, WEIR_LEDGER_BAD, WEIR_NONE);
    if (!rules->unlimited && !amount_ok(rules->granted_tok))
        return say(l, WEIR_LEDGER_BAD, WEIR_NONE);
    struct scope *s = &l->scopes[scope];
    uint8_t depth = (uint8_t)(up ? up->depth + 1 : 1);
    if (up && scope_levels(l, rules->parent, scope) != WEIR_NONE)
        return say(l, WEIR_LEDGER_BAD, WEIR_NONE); /* under itself */
    /* What hangs below it goes with it. */
    if (depth > s->depth && depth + scope_height(l, scope) > WEIR_LEDGER_DEPTH_MAX)
        return say(l, WEIR_LEDGER_BAD, WEIR_NONE);
    if (s->depth == 0 && !ledger_balance_has_room(l))
        return say(l, WEIR_LEDGER_FULL, WEIR_NONE);

    if (s->parent)
        l->scopes[s->parent - 1].children--;
    if (up)
        l->scopes[rules->parent].children++;
    s->granted = rules->unlimited ? WEIR_BALANCE_MAX : rules->granted_tok;
    s->unlimited = rules->unlimited;
    s->lapse_refunds = rules->lapse_refunds;
    s->parent = up ? rules->parent + 1 : 0;
    if (s->depth == 0)
        balance_tell(l, ledger_balance_new(l, scope, s->window, s->granted, BALANCE_PRESENT));
    scope_shift(l, scope, depth);
    ledger_balance_grant(l, s->balance - 1, s->granted);
    return say(l, WEIR_LEDGER_DONE, WEIR_NONE);
}

/* Adds up the holds that name a balance of a scope. false: one of them is alive. */
static bool scope_named(const struct weir_ledger *l, const struct scope *s, uint64_t *named_count)
{
    *named_count = 0;
    for (uint32_t at = s->balance; at;) {
        const struct balance *b = &l->balances[at - 1];
        if (b->held_count > 0 || b->lapsed_count > 0)
            return false;
        *named_count += b->refs;
        at = b->place == BALANCE_PRESENT ? s->past : b->past_next;
    }
    return true;
}

static bool hold_names(const struct weir_ledger *l, const struct hold *h, uint32_t scope)
{
    for (uint8_t i = 0; i < h->depth; i++)
        if (l->balances[h->chain[i]].scope == scope)
            return true;
    return false;
}

struct weir_ledger_answer weir_ledger_scope_forget(struct weir_ledger *l, uint32_t scope)
{
    struct scope *s = scope_find(l, scope);
    if (!s)
        return say(l, WEIR_LEDGER_BAD, WEIR_NONE);
    uint64_t named_count;
    if (s->children > 0 || !scope_named(l, s, &named_count))
        return say(l, WEIR_LEDGER_BUSY, scope);
    /* Finished holds would go on naming it under an id that is another's. A scope idle for long has
     * old ones, and the oldest come first. */
    for (uint32_t at = l->lists[LIST_FINISHED].head; named_count > 0;) {
        struct hold *h = &l->holds[at - 1];
        at = h->list_next;
        if (!hold_names(l, h, scope))
            continue;
        ledger_hold_forget(l, h);
        named_count--;
    }
    if (s->parent)
        l->scopes[s->parent - 1].children--;
    for (uint32_t at = s->balance; at; at = s->past) {
        ledger_balance_move(l, at - 1, BALANCE_LEFT);
        ledger_balance_release(l, at - 1);
    }
    *s = (struct scope){0};
    return say(l, WEIR_LEDGER_DONE, WEIR_NONE);
}

struct weir_ledger_answer weir_ledger_window_begin(struct weir_ledger *l, uint32_t scope,
                                                   uint64_t window)
{
    struct scope *s = scope_find(l, scope);
    if (!s || window < s->window)
        return say(l, WEIR_LEDGER_BAD, WEIR_NONE);
    if (window == s->window)
        return say(l, WEIR_LEDGER_SAME, WEIR_NONE);
    uint32_t index = s->balance - 1;
    const struct balance *b = &l->balances[index];
    if ((b->refs > 0 || b->queued) && !ledger_balance_has_room(l))
        return say(l, WEIR_LEDGER_FULL, WEIR_NONE);
    ledger_balance_move(l, index, BALANCE_PAST);
    ledger_balance_release(l, index);
    s->window = window;
    balance_tell(l, ledger_balance_new(l, scope, window, s->granted, BALANCE_PRESENT));
    return say(l, WEIR_LEDGER_DONE, WEIR_NONE);
}

/* Operations. */

/* Asks every balance of the chain; the most final refusal wins, the nearest to the leaf among
 * equals. */
static struct weir_ledger_answer chain_judge(const struct weir_ledger *l, const uint32_t *chain,
                                             uint8_t depth, int64_t more_tok, int64_t whole_tok)
{
    struct weir_ledger_answer worst = {WEIR_LEDGER_HELD, WEIR_NONE};
    _Static_assert(WEIR_LEDGER_BUSY < WEIR_LEDGER_EXHAUSTED, "order of finality");
    _Static_assert(WEIR_LEDGER_EXHAUSTED < WEIR_LEDGER_NEVER, "order of finality");
    _Static_assert(WEIR_LEDGER_HELD < WEIR_LEDGER_BUSY, "order of finality");
    for (uint8_t i = 0; i < depth; i++) {
        const struct balance *b = &l->balances[chain[i]];
        enum weir_ledger_result result = balance_judge(b, more_tok, whole_tok);
        if (result > worst.result)
            worst = (struct weir_ledger_answer){result, b->scope};
    }
    return worst;
}

struct weir_ledger_answer weir_ledger_reserve(struct weir_ledger *l, uint64_t hold, uint32_t scope,
                                              int64_t est_tok)
{
    const struct scope *s = scope_find(l, scope);
    if (!s || !amount_ok(est_tok))
        return say(l, WEIR_LEDGER_BAD, WEIR_NONE);
    const struct hold *old = hold_find(l, hold);
    if (old) {
        if (old->asked != est_tok || l->balances[old->chain[0]].scope != scope)
            return say(l, WEIR_LEDGER_CONFLICT, WEIR_NONE);
        return say(l, old->state == WEIR_HOLD_HELD ? WEIR_LEDGER_SAME : WEIR_LEDGER_FINISHED,
                   WEIR_NONE);
    }
    /* A hold of another epoch would never lapse, or lapse under its owner's hands. */
    if (weir_ledger_hold_epoch(hold) != l->epoch || (hold & WEIR_LEDGER_COUNTER_MAX) == 0)
        return say(l, WEIR_LEDGER_BAD, WEIR_NONE);
    uint32_t chain[WEIR_LEDGER_DEPTH_MAX];
    uint8_t depth = scope_chain(l, s, chain);
    struct weir_ledger_answer judged = chain_judge(l, chain, depth, est_tok, est_tok);
    if (judged.result != WEIR_LEDGER_HELD)
        return say_refused(l, judged);
    if (!ledger_hold_has_room(l))
        return say(l, WEIR_LEDGER_FULL, WEIR_NONE);

    struct hold *h = ledger_hold_new(l, hold, chain, depth, est_tok);
    ledger_hold_move(l, h, WEIR_HOLD_HELD);
    h->booked = est_tok;
    hold_count(l, h, +1);
    chain_touch(l, h->chain, h->depth);
    return say(l, WEIR_LEDGER_HELD, WEIR_NONE);
}

struct weir_ledger_answer weir_ledger_extend(struct weir_ledger *l, uint64_t hold, int64_t est_tok)
{
    if (!amount_ok(est_tok))
        return say(l, WEIR_LEDGER_BAD, WEIR_NONE);
    struct hold *h = hold_find(l, hold);
    if (!h)
        return say(l, WEIR_LEDGER_UNKNOWN, WEIR_NONE);
    if (h->state != WEIR_HOLD_HELD)
        return say(l, WEIR_LEDGER_FINISHED, WEIR_NONE);
    if (est_tok <= h->booked)
        return say(l, WEIR_LEDGER_SAME, WEIR_NONE);
    struct weir_ledger_answer judged =
        chain_judge(l, h->chain, h->depth, est_tok - h->booked, est_tok);
    if (judged.result != WEIR_LEDGER_HELD)
        return say_refused(l, judged);

    hold_count(l, h, -1);
    h->booked = est_tok;
    hold_count(l, h, +1);
    chain_touch(l, h->chain, h->depth);
    return say(l, WEIR_LEDGER_HELD, WEIR_NONE);
}

/* What of an amount fits into every balance of a chain, when freed_tok leaves them first: all of
 * it, unless a balance would pass its limit, which only nonsense amounts reach. */
static int64_t chain_fit(struct weir_ledger *l, const uint32_t *chain, uint8_t depth,
                         int64_t freed_tok, int64_t amount)
{
    int64_t fits = amount;
    for (uint8_t i = 0; i < depth; i++) {
        const struct balance *b = &l->balances[chain[i]];
        fits = weir_min_i64(fits, WEIR_BALANCE_MAX - (balance_used(b) - freed_tok));
    }
    if (fits < amount)
        l->clipped++;
    return fits;
}

/* Ends a hold (or a void or lapsed one again) with what was used. Returns what was booked. */
static int64_t hold_end(struct weir_ledger *l, struct hold *h, enum weir_hold_state to,
                        int64_t actual)
{
    int64_t before = h->booked;
    int64_t booked = chain_fit(l, h->chain, h->depth, before, actual);
    hold_count(l, h, -1);
    ledger_hold_move(l, h, to);
    h->booked = booked;
    hold_count(l, h, +1);
    chain_touch(l, h->chain, h->depth);
    for (uint8_t i = 0; i < h->depth && booked > before; i++)
        add_capped(&l->balances[h->chain[i]].overrun, booked - before);
    return booked;
}

/* Books use that no hold foresaw, under a hold of its own so that a repeat is known. When the table
 * is full it is booked all the same, only without that memory. */
static struct weir_ledger_answer settle_unmatched(struct weir_ledger *l, uint64_t hold,
                                                  const struct scope *s, int64_t actual_tok)
{
    uint32_t chain[WEIR_LEDGER_DEPTH_MAX];
    uint8_t depth = scope_chain(l, s, chain);
    int64_t booked;
    if (ledger_hold_has_room(l)) {
        struct hold *h = ledger_hold_new(l, hold, chain, depth, -1);
        booked = hold_end(l, h, WEIR_HOLD_LATE, actual_tok);
    } else {
        booked = chain_fit(l, chain, depth, 0, actual_tok);
        chain_touch(l, chain, depth);
        l->counted += weir_ledger_hold_epoch(hold) == l->epoch ? (uint64_t)booked : 0;
        for (uint8_t i = 0; i < depth; i++) {
            struct balance *b = &l->balances[chain[i]];
            b->committed += booked;
            b->forgotten += booked;
            add_capped(&b->overrun, booked);
        }
    }
    for (uint8_t i = 0; i < depth; i++)
        add_capped(&l->balances[chain[i]].unmatched, booked);
    return say(l, WEIR_LEDGER_UNMATCHED, WEIR_NONE);
}

struct weir_ledger_answer weir_ledger_settle(struct weir_ledger *l, uint64_t hold, uint32_t scope,
                                             int64_t actual_tok)
{
    if (!amount_ok(actual_tok))
        return say(l, WEIR_LEDGER_BAD, WEIR_NONE);
    struct hold *h = hold_find(l, hold);
    if (!h) {
        const struct scope *s = scope_find(l, scope);
        if (!s)
            return say(l, WEIR_LEDGER_BAD, WEIR_NONE);
        return settle_unmatched(l, hold, s, actual_tok);
    }
    switch ((enum weir_hold_state)h->state) {
    case WEIR_HOLD_HELD:
        hold_end(l, h, WEIR_HOLD_SETTLED, actual_tok);
        return say(l, WEIR_LEDGER_SETTLED, WEIR_NONE);
    case WEIR_HOLD_LAPSED:
    case WEIR_HOLD_VOID:
        hold_end(l, h, WEIR_HOLD_LATE, actual_tok);
        return say(l, WEIR_LEDGER_LATE, WEIR_NONE);
    case WEIR_HOLD_SETTLED:
    case WEIR_HOLD_LATE:
        return say(l, h->booked == actual_tok ? WEIR_LEDGER_SAME : WEIR_LEDGER_CONFLICT, WEIR_NONE);
    case WEIR_HOLD_NONE:
        break;
    }
    WEIR_INVARIANT(h->state != WEIR_HOLD_NONE);
    return say(l, WEIR_LEDGER_BAD, WEIR_NONE);
}

struct weir_ledger_answer weir_ledger_void(struct weir_ledger *l, uint64_t hold)
{
    struct hold *h = hold_find(l, hold);
    if (!h)
        return say(l, WEIR_LEDGER_UNKNOWN, WEIR_NONE);
    if (h->state == WEIR_HOLD_VOID)
        return say(l, WEIR_LEDGER_SAME, WEIR_NONE);
    if (h->state != WEIR_HOLD_HELD)
        return say(l, WEIR_LEDGER_CONFLICT, WEIR_NONE);
    hold_end(l, h, WEIR_HOLD_VOID, 0);
    return say(l, WEIR_LEDGER_VOIDED, WEIR_NONE);
}

struct weir_ledger_answer weir_ledger_adjust(struct weir_ledger *l, uint32_t scope,
                                             int64_t amount_tok)
{
    const struct scope *s = scope_find(l, scope);
    if (!s || amount_tok > WEIR_TOK_MAX || amount_tok < -WEIR_TOK_MAX)
        return say(l, WEIR_LEDGER_BAD, WEIR_NONE);
    int64_t up = weir_max_i64(0, amount_tok), down = weir_max_i64(0, -amount_tok);
    uint32_t chain[WEIR_LEDGER_DEPTH_MAX];
    uint8_t depth = scope_chain(l, s, chain);
    for (uint8_t i = 0; i < depth; i++) {
        const struct balance *b = &l->balances[chain[i]];
        if (up > WEIR_BALANCE_MAX - b->raised || down > WEIR_BALANCE_MAX - b->lowered ||
            up > WEIR_BALANCE_MAX - balance_used(b))
            return say(l, WEIR_LEDGER_BAD, b->scope);
    }
    for (uint8_t i = 0; i < depth; i++) {
        struct balance *b = &l->balances[chain[i]];
        b->raised += up;
        b->lowered += down;
        b->committed += amount_tok;
    }
    chain_touch(l, chain, depth);
    return say(l, WEIR_LEDGER_DONE, WEIR_NONE);
}

struct weir_ledger_answer weir_ledger_apply(struct weir_ledger *l, const struct weir_ledger_op *op)
{
    switch (op->kind) {
    case WEIR_LEDGER_RESERVE:
        return weir_ledger_reserve(l, op->hold, op->scope, op->amount_tok);
    case WEIR_LEDGER_EXTEND:
        return weir_ledger_extend(l, op->hold, op->amount_tok);
    case WEIR_LEDGER_SETTLE:
        return weir_ledger_settle(l, op->hold, op->scope, op->amount_tok);
    case WEIR_LEDGER_VOID:
        return weir_ledger_void(l, op->hold);
    case WEIR_LEDGER_SCOPE:
        return weir_ledger_scope_set(l, op->scope,
                                     &(struct weir_ledger_rules){.parent = op->parent,
                                                                 .unlimited = op->unlimited,
                                                                 .lapse_refunds = op->lapse_refunds,
                                                                 .granted_tok = op->amount_tok});
    case WEIR_LEDGER_SCOPE_FORGET:
        return weir_ledger_scope_forget(l, op->scope);
    case WEIR_LEDGER_WINDOW:
        return weir_ledger_window_begin(l, op->scope, op->window);
    case WEIR_LEDGER_ADJUST:
        return weir_ledger_adjust(l, op->scope, op->amount_tok);
    }
    return say(l, WEIR_LEDGER_BAD, WEIR_NONE);
}

bool weir_ledger_epoch_begin(struct weir_ledger *l, uint64_t epoch)
{
    if (epoch <= l->epoch || epoch > WEIR_LEDGER_EPOCH_MAX)
        return false;
    l->epoch = epoch;
    l->counted = 0;
    return true;
}

static void hold_lapse(struct weir_ledger *l, struct hold *h)
{
    int64_t before = h->booked;
    bool refunds = l->scopes[l->balances[h->chain[0]].scope].lapse_refunds;
    hold_end(l, h, WEIR_HOLD_LAPSED, refunds ? 0 : before);
    for (uint8_t i = 0; i < h->depth && refunds; i++)
        add_capped(&l->balances[h->chain[i]].refunded, before);
}

uint32_t weir_ledger_lapse(struct weir_ledger *l, uint32_t count_max)
{
    uint32_t count = 0;
    while (count < count_max && l->lists[LIST_HELD].head) {
        struct hold *h = &l->holds[l->lists[LIST_HELD].head - 1];
        if (weir_ledger_hold_epoch(h->id) >= l->epoch)
            break;
        hold_lapse(l, h);
        count++;
    }
    return count;
}

uint32_t weir_ledger_forget(struct weir_ledger *l, uint32_t keep, uint32_t count_max)
{
    uint32_t count = 0;
    while (count < count_max && l->lists[LIST_FINISHED].count > keep) {
        ledger_hold_forget(l, &l->holds[l->lists[LIST_FINISHED].head - 1]);
        count++;
    }
    return count;
}
