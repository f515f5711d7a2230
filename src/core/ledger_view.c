#include "core/ledger.h"

#include <string.h>

#include "core/ledger_inside.h"

const char *weir_ledger_result_name(enum weir_ledger_result result)
{
    switch (result) {
    case WEIR_LEDGER_HELD:
        return "held";
    case WEIR_LEDGER_SETTLED:
        return "settled";
    case WEIR_LEDGER_VOIDED:
        return "voided";
    case WEIR_LEDGER_LATE:
        return "late";
    case WEIR_LEDGER_UNMATCHED:
        return "unmatched";
    case WEIR_LEDGER_DONE:
        return "done";
    case WEIR_LEDGER_SAME:
        return "same";
    case WEIR_LEDGER_FINISHED:
        return "finished";
    case WEIR_LEDGER_CONFLICT:
        return "conflict";
    case WEIR_LEDGER_UNKNOWN:
        return "unknown";
    case WEIR_LEDGER_BUSY:
        return "budget_busy";
    case WEIR_LEDGER_EXHAUSTED:
        return "exhausted";
    case WEIR_LEDGER_NEVER:
        return "never";
    case WEIR_LEDGER_FULL:
        return "full";
    case WEIR_LEDGER_BAD:
        return "bad";
    case WEIR_LEDGER_UNAVAILABLE:
        return "unavailable";
    }
    return "?";
}

const char *weir_hold_state_name(enum weir_hold_state state)
{
    switch (state) {
    case WEIR_HOLD_NONE:
        return "none";
    case WEIR_HOLD_HELD:
        return "held";
    case WEIR_HOLD_SETTLED:
        return "settled";
    case WEIR_HOLD_VOID:
        return "void";
    case WEIR_HOLD_LAPSED:
        return "lapsed";
    case WEIR_HOLD_LATE:
        return "late";
    }
    return "?";
}

bool weir_ledger_totals(const struct weir_ledger *l, uint32_t scope,
                        struct weir_ledger_totals *totals)
{
    const struct scope *s = scope_find(l, scope);
    if (!s)
        return false;
    const struct balance *b = &l->balances[s->balance - 1];
    *totals = (struct weir_ledger_totals){
        .parent = s->parent ? s->parent - 1 : WEIR_NONE,
        .unlimited = s->unlimited,
        .lapse_refunds = s->lapse_refunds,
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
        .refused_count = s->refused,
        .held_count = b->held_count,
        .lapsed_count = b->lapsed_count,
    };
    return true;
}

void weir_ledger_stats(const struct weir_ledger *l, struct weir_ledger_stats *stats)
{
    stats->epoch = l->epoch;
    stats->held = l->lists[LIST_HELD].count;
    stats->lapsed = l->lists[LIST_LAPSED].count;
    stats->finished = l->lists[LIST_FINISHED].count;
    memcpy(stats->results, l->results, sizeof stats->results);
    stats->clipped = l->clipped;
    stats->counted_tok = (int64_t)l->counted;
}

static void hold_view(const struct weir_ledger *l, const struct hold *h,
                      struct weir_ledger_hold *view)
{
    view->id = h->id;
    view->state = (enum weir_hold_state)h->state;
    view->scope = l->balances[h->chain[0]].scope;
    view->unmatched = h->asked < 0;
    view->asked_tok = h->asked;
    view->booked_tok = h->booked;
}

bool weir_ledger_hold_find(const struct weir_ledger *l, uint64_t hold,
                           struct weir_ledger_hold *view)
{
    const struct hold *h = hold_find(l, hold);
    if (h)
        hold_view(l, h, view);
    return h != NULL;
}

uint64_t weir_ledger_held_low(const struct weir_ledger *l)
{
    uint64_t low = UINT64_MAX;
    for (uint32_t at = l->lists[LIST_HELD].head; at; at = l->holds[at - 1].list_next)
        low = weir_min_u64(low, l->holds[at - 1].id);
    return low == UINT64_MAX ? 0 : low;
}

bool weir_ledger_hold_next(const struct weir_ledger *l, uint32_t *cursor,
                           struct weir_ledger_hold *view)
{
    while (*cursor < l->holds_touched) {
        const struct hold *h = &l->holds[(*cursor)++];
        if (h->state != WEIR_HOLD_NONE) {
            hold_view(l, h, view);
            return true;
        }
    }
    return false;
}

/* The audit takes what every hold counts out of the balances, looks whether just the known rest is
 * left, and puts it back. */

static const char *audit_balance(const struct balance *b)
{
    int64_t used = balance_used(b);
    if (b->fresh && (b->refs > 0 || b->reserved || b->committed || b->lapsed || b->forgotten))
        return "a fresh balance counts nothing";
    if (b->reserved < 0 || b->lapsed < 0)
        return "reserved and lapsed are never negative";
    if (used > WEIR_BALANCE_MAX)
        return "used is at most WEIR_BALANCE_MAX";
    if (b->granted < 0 || b->overrun < 0 || b->cut < 0 || b->raised < 0 || b->lowered < 0 ||
        b->unmatched < 0 || b->refunded < 0 || b->forgotten < 0)
        return "grant, causes and sums are never negative";
    if (used - b->granted > b->overrun + b->cut + b->raised)
        return "used <= granted + overrun + cut + raised";
    return NULL;
}

static const char *audit_hold(const struct weir_ledger *l, const struct hold *h)
{
    if (hold_find(l, h->id) != h)
        return "a hold is found under its id, and only one";
    if (h->state > WEIR_HOLD_LATE)
        return "a hold has a state";
    if (h->booked < 0 || h->booked > WEIR_TOK_MAX || (h->state == WEIR_HOLD_VOID && h->booked != 0))
        return "a hold counts an amount, and nothing when void";
    if (h->depth < 1 || h->depth > WEIR_LEDGER_DEPTH_MAX)
        return "a chain has 1 .. WEIR_LEDGER_DEPTH_MAX balances";
    for (uint8_t i = 0; i < h->depth; i++)
        if (h->chain[i] >= l->balances_touched || l->balances[h->chain[i]].place == BALANCE_FREE)
            return "a chain names live balances";
    return NULL;
}

static const char *audit_lists(const struct weir_ledger *l)
{
    uint32_t listed = 0;
    for (int name = 0; name < LIST_COUNT; name++) {
        uint32_t count = 0, before = 0;
        uint64_t epoch = 0;
        for (uint32_t at = l->lists[name].head; at; at = l->holds[at - 1].list_next) {
            const struct hold *h = &l->holds[at - 1];
            if (hold_list((enum weir_hold_state)h->state) != (enum list_name)name)
                return "a hold is in the list of its state";
            if (h->list_prev != before || ++count > l->holds_touched)
                return "a list is linked both ways";
            if (name == LIST_HELD && weir_ledger_hold_epoch(h->id) < epoch)
                return "held holds are in the order of their epochs";
            epoch = weir_ledger_hold_epoch(h->id);
            before = at;
        }
        if (count != l->lists[name].count || before != l->lists[name].tail)
            return "a list counts its holds and ends at its tail";
        listed += count;
    }
    for (uint32_t at = l->holds_free; at; at = l->holds[at - 1].hash_next)
        if (l->holds[at - 1].state != WEIR_HOLD_NONE || ++listed > l->holds_touched)
            return "a free hold is free, once";
    return listed == l->holds_touched ? NULL : "a hold is listed or free";
}

static const char *audit_scopes(struct weir_ledger *l)
{
    const char *wrong = NULL;
    for (uint32_t i = 0; i < l->limits.scopes_max; i++) {
        const struct scope *s = &l->scopes[i];
        if (s->depth == 0)
            continue;
        const struct scope *up = s->parent ? scope_find(l, s->parent - 1) : NULL;
        const struct balance *b = &l->balances[s->balance - 1];
        if (b->place != BALANCE_PRESENT || b->scope != i || b->granted != s->granted ||
            b->window != s->window)
            wrong = "a scope's balance is its own";
        if (s->parent ? !up || up->depth + 1 != s->depth : s->depth != 1)
            wrong = "a parent is one level up";
        if (up)
            l->scopes[s->parent - 1].children--;
    }
    for (uint32_t i = 0; i < l->limits.scopes_max; i++)
        if (l->scopes[i].depth != 0 && l->scopes[i].children != 0)
            wrong = "a scope counts its children";
    for (uint32_t i = 0; i < l->limits.scopes_max; i++)
        if (l->scopes[i].depth != 0 && l->scopes[i].parent &&
            scope_find(l, l->scopes[i].parent - 1))
            l->scopes[l->scopes[i].parent - 1].children++;
    return wrong;
}

/* May a balance be where it is, and live? */
static const char *audit_place(const struct weir_ledger *l, uint32_t index)
{
    const struct balance *b = &l->balances[index];
    if (b->changed && !b->queued)
        return "a changed balance is in the queue";
    switch ((enum balance_place)b->place) {
    case BALANCE_FREE:
        return b->queued || b->refs > 0 ? "a free balance is out of use" : NULL;
    case BALANCE_PRESENT:
        return l->scopes[b->scope].balance != index + 1 ? "a present balance is its scope's" : NULL;
    case BALANCE_PAST:
        return b->refs == 0 && !b->queued ? "a past balance is named by a hold, or to be told"
                                          : NULL;
    case BALANCE_LEFT:
        return b->refs > 0 || !b->queued ? "one without a scope is only to be told" : NULL;
    }
    return "a balance has a place";
}

/* The lists of past balances, the queue and the free list, each against the balances' own marks. */
static const char *audit_balance_lists(const struct weir_ledger *l)
{
    uint32_t past = 0, queued = 0, freed = 0;
    for (uint32_t i = 0; i < l->balances_touched; i++) {
        past += l->balances[i].place == BALANCE_PAST;
        queued += l->balances[i].queued;
        freed += l->balances[i].place == BALANCE_FREE;
    }
    for (uint32_t i = 0; i < l->limits.scopes_max; i++) {
        uint32_t before = 0;
        for (uint32_t at = l->scopes[i].past; at; at = l->balances[at - 1].past_next) {
            const struct balance *b = &l->balances[at - 1];
            if (b->place != BALANCE_PAST || b->scope != i || b->past_prev != before || past-- == 0)
                return "a scope lists its past balances, both ways";
            if (b->window >= l->scopes[i].window)
                return "a past window is below the present one";
            before = at;
        }
    }
    for (uint32_t at = l->queue; at; at = l->balances[at - 1].queue_next)
        if (!l->balances[at - 1].queued || queued-- == 0)
            return "the queue holds what is marked as queued, once";
    for (uint32_t at = l->balances_free; at; at = l->balances[at - 1].scope)
        if (l->balances[at - 1].place != BALANCE_FREE || freed-- == 0)
            return "a free balance is free, once";
    return past || queued || freed ? "a balance is listed, queued or free as it is marked" : NULL;
}

/* Adds (+1) or takes out (-1) all that the holds count, and their references. */
static void audit_count(struct weir_ledger *l, int sign)
{
    for (uint32_t i = 0; i < l->holds_touched; i++) {
        const struct hold *h = &l->holds[i];
        if (h->state == WEIR_HOLD_NONE)
            continue;
        hold_count(l, h, sign);
        for (uint8_t k = 0; k < h->depth; k++)
            l->balances[h->chain[k]].refs += (uint32_t)sign;
    }
}

const char *weir_ledger_audit(struct weir_ledger *l)
{
    const char *wrong = audit_lists(l);
    for (uint32_t i = 0; i < l->holds_touched && !wrong; i++)
        if (l->holds[i].state != WEIR_HOLD_NONE)
            wrong = audit_hold(l, &l->holds[i]);
    for (uint32_t i = 0; i < l->balances_touched && !wrong; i++) {
        wrong = audit_place(l, i);
        if (!wrong && l->balances[i].place != BALANCE_FREE)
            wrong = audit_balance(&l->balances[i]);
    }
    if (!wrong)
        wrong = audit_balance_lists(l);
    if (!wrong)
        wrong = audit_scopes(l);
    if (wrong)
        return wrong; /* counting needs the tables to be whole */

    audit_count(l, -1);
    for (uint32_t i = 0; i < l->balances_touched; i++) {
        const struct balance *b = &l->balances[i];
        if (b->place == BALANCE_FREE)
            continue; /* its scope is the next free one */
        if (b->reserved != 0)
            wrong = "reserved is the sum of the held holds";
        if (b->lapsed != 0)
            wrong = "lapsed is the sum of the lapsed holds";
        if (b->committed != b->forgotten + b->raised - b->lowered)
            wrong =
                "committed is the sum of settled and late holds, forgotten ones and adjustments";
        if (b->held_count != 0 || b->lapsed_count != 0)
            wrong = "a balance counts its held and lapsed holds";
        if (b->refs != 0)
            wrong = "a balance counts the holds that name it";
    }
    audit_count(l, +1);
    return wrong;
}
