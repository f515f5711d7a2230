/* ledger_load: the ledger as rows. What changed is told to a durable store, and what a store kept is
 * loaded. A row is bad input like any other: it is looked at in full before anything changes. */
#include "core/ledger_inside.h"

bool weir_ledger_changed_next(struct weir_ledger *l, struct weir_ledger_balance *balance)
{
    while (l->queue) {
        uint32_t index = l->queue - 1;
        struct balance *b = &l->balances[index];
        bool changed = b->changed;
        l->queue = b->queue_next;
        b->queue_next = 0;
        b->queued = b->changed = false;
        if (changed)
            *balance = (struct weir_ledger_balance){
                .scope = b->scope,
                .window = b->window,
                .granted_tok = b->granted,
                .reserved_tok = b->reserved,
                .committed_tok = b->committed,
                .lapsed_tok = b->lapsed,
                .overrun_tok = b->overrun,
                .cut_tok = b->cut,
                .raised_tok = b->raised,
                .lowered_tok = b->lowered,
                .unmatched_tok = b->unmatched,
                .refunded_tok = b->refunded,
            };
        ledger_balance_release(l, index);
        if (changed)
            return true;
    }
    return false;
}

bool weir_ledger_record(const struct weir_ledger *l, uint64_t hold,
                        struct weir_ledger_record *record)
{
    const struct hold *h = hold_find(l, hold);
    if (!h)
        return false;
    *record = (struct weir_ledger_record){
        .id = h->id,
        .state = (enum weir_hold_state)h->state,
        .asked_tok = h->asked,
        .booked_tok = h->booked,
        .depth = h->depth,
    };
    for (uint8_t i = 0; i < h->depth; i++) {
        const struct balance *b = &l->balances[h->chain[i]];
        record->chain[i] = (struct weir_ledger_link){b->scope, b->window};
    }
    return true;
}

/* Loading is no operation, so its answers are not counted. */
static struct weir_ledger_answer load_say(enum weir_ledger_result result)
{
    return (struct weir_ledger_answer){result, WEIR_NONE};
}

/* The balance of a scope in a window, plus one. One found in the past goes to the front: holds that
 * were reserved one after the other are sought one after the other. */
static uint32_t balance_seek(struct weir_ledger *l, uint32_t scope, uint64_t window)
{
    const struct scope *s = scope_find(l, scope);
    if (!s)
        return 0;
    if (window == s->window)
        return s->balance;
    for (uint32_t at = s->past; at; at = l->balances[at - 1].past_next)
        if (l->balances[at - 1].window == window) {
            ledger_balance_move(l, at - 1, BALANCE_PAST);
            return at;
        }
    return 0;
}

static bool sum_ok(int64_t sum)
{
    return sum >= 0 && sum <= WEIR_BALANCE_MAX;
}

/* What committed keeps of holds that are not in the table: at first, of all of them. */
static int64_t row_forgotten(const struct weir_ledger_balance *row)
{
    return row->committed_tok - row->raised_tok + row->lowered_tok;
}

static bool row_ok(const struct weir_ledger_balance *row)
{
    if (!amount_ok(row->granted_tok) && row->granted_tok != WEIR_BALANCE_MAX)
        return false;
    const int64_t sums[] = {row->reserved_tok, row->lapsed_tok,   row->overrun_tok,
                            row->cut_tok,      row->raised_tok,   row->lowered_tok,
                            row->refunded_tok, row->unmatched_tok};
    for (size_t i = 0; i < WEIR_COUNT(sums); i++)
        if (!sum_ok(sums[i]))
            return false;
    if (row->committed_tok > WEIR_BALANCE_MAX || row->committed_tok < -WEIR_BALANCE_MAX)
        return false;
    int64_t used = row->reserved_tok + row->committed_tok + row->lapsed_tok;
    return used <= WEIR_BALANCE_MAX && row_forgotten(row) >= 0 &&
           used - row->granted_tok <= row->overrun_tok + row->cut_tok + row->raised_tok;
}

/* A balance that counts nothing yet, for a window: a new past one, or the present one. 0: no room. */
static uint32_t load_place(struct weir_ledger *l, uint32_t scope, uint64_t window)
{
    struct scope *s = &l->scopes[scope];
    if (window >= s->window && l->balances[s->balance - 1].fresh) {
        l->balances[s->balance - 1].window = s->window = window;
        return s->balance;
    }
    if (!ledger_balance_has_room(l))
        return 0;
    if (window < s->window)
        return ledger_balance_new(l, scope, window, s->granted, BALANCE_PAST) + 1;
    uint32_t before = s->balance - 1;
    ledger_balance_move(l, before, BALANCE_PAST);
    balance_queue(l, before); /* lives until the holds that name it had their time to come */
    s->window = window;
    return ledger_balance_new(l, scope, window, s->granted, BALANCE_PRESENT) + 1;
}

struct weir_ledger_answer weir_ledger_load_balance(struct weir_ledger *l,
                                                   const struct weir_ledger_balance *row)
{
    struct scope *s = scope_find(l, row->scope);
    if (!s || !row_ok(row))
        return load_say(WEIR_LEDGER_BAD);
    uint32_t at = balance_seek(l, row->scope, row->window);
    if (at && !l->balances[at - 1].fresh)
        return load_say(WEIR_LEDGER_SAME);
    at = load_place(l, row->scope, row->window);
    if (!at)
        return load_say(WEIR_LEDGER_FULL);
    struct balance *b = &l->balances[at - 1];
    b->granted = row->granted_tok;
    b->reserved = row->reserved_tok;
    b->committed = row->committed_tok;
    b->lapsed = row->lapsed_tok;
    b->overrun = row->overrun_tok;
    b->cut = row->cut_tok;
    b->raised = row->raised_tok;
    b->lowered = row->lowered_tok;
    b->unmatched = row->unmatched_tok;
    b->refunded = row->refunded_tok;
    b->forgotten = row_forgotten(row);
    b->fresh = b->changed = false;
    balance_queue(l, at - 1);
    if (b->place == BALANCE_PRESENT) {
        s->granted = row->granted_tok;
        s->unlimited = row->granted_tok == WEIR_BALANCE_MAX;
    }
    return load_say(WEIR_LEDGER_DONE);
}

/* Does a record contradict itself, or this ledger's epoch? */
static bool record_ok(const struct weir_ledger *l, const struct weir_ledger_record *r)
{
    if (!amount_ok(r->booked_tok) || r->depth < 1 || r->depth > WEIR_LEDGER_DEPTH_MAX)
        return false;
    uint64_t epoch = weir_ledger_hold_epoch(r->id);
    if (r->asked_tok == -1)
        return r->state == WEIR_HOLD_LATE; /* made by a settle: any id */
    if (!amount_ok(r->asked_tok) || epoch < 1 || epoch > l->epoch ||
        (r->id & WEIR_LEDGER_COUNTER_MAX) == 0)
        return false;
    uint32_t last = l->lists[LIST_HELD].tail;
    switch (r->state) {
    case WEIR_HOLD_HELD:
        return !last || weir_ledger_hold_epoch(l->holds[last - 1].id) <=
                            epoch; /* they lapse in this order */
    case WEIR_HOLD_LAPSED:
        return epoch < l->epoch;
    case WEIR_HOLD_VOID:
        return r->booked_tok == 0;
    case WEIR_HOLD_SETTLED:
    case WEIR_HOLD_LATE:
        return true;
    case WEIR_HOLD_NONE:
        break;
    }
    return false;
}

/* The balances of a record's chain. false: one is unknown, named twice, or without the amount. */
static bool record_chain(struct weir_ledger *l, const struct weir_ledger_record *r,
                         uint32_t chain[WEIR_LEDGER_DEPTH_MAX])
{
    bool counted = r->state == WEIR_HOLD_SETTLED || r->state == WEIR_HOLD_LATE;
    for (uint8_t i = 0; i < r->depth; i++) {
        uint32_t at = balance_seek(l, r->chain[i].scope, r->chain[i].window);
        if (!at || l->balances[at - 1].fresh)
            return false;
        if (counted && r->booked_tok > l->balances[at - 1].forgotten)
            return false;
        for (uint8_t k = 0; k < i; k++)
            if (r->chain[k].scope == r->chain[i].scope)
                return false;
        chain[i] = at - 1;
    }
    return true;
}

struct weir_ledger_answer weir_ledger_load_hold(struct weir_ledger *l,
                                                const struct weir_ledger_record *record)
{
    uint32_t chain[WEIR_LEDGER_DEPTH_MAX];
    if (!record_ok(l, record) || hold_find(l, record->id) || !record_chain(l, record, chain))
        return load_say(WEIR_LEDGER_BAD);
    if (!ledger_hold_has_room(l))
        return load_say(WEIR_LEDGER_FULL);
    struct hold *h = ledger_hold_new(l, record->id, chain, record->depth, record->asked_tok);
    h->booked = record->booked_tok;
    ledger_hold_move(l, h, record->state);
    if (record->state == WEIR_HOLD_HELD && weir_ledger_hold_epoch(h->id) == l->epoch)
        l->counted += (uint64_t)h->booked; /* a finished one was counted before it was forgotten */
    for (uint8_t i = 0; i < h->depth; i++) {
        struct balance *b = &l->balances[chain[i]];
        switch (record->state) {
        case WEIR_HOLD_HELD:
            b->held_count++;
            break;
        case WEIR_HOLD_LAPSED:
            b->lapsed_count++;
            break;
        case WEIR_HOLD_SETTLED:
        case WEIR_HOLD_LATE:
            b->forgotten -= h->booked;
            break;
        case WEIR_HOLD_VOID:
        case WEIR_HOLD_NONE:
            break;
        }
    }
    return load_say(WEIR_LEDGER_DONE);
}
