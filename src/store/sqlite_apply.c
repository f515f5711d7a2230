/* One operation: the rules of core/ledger in memory, then the rows that say the same. What changed
 * nothing writes nothing. */
#include <string.h>

#include "store/sqlite_inside.h"

/* The hold of an operation, before and after it. */
struct apply_hold {
    struct weir_ledger_record before, after; /* state NONE: not known */
};

static bool apply_say(struct sql_entry *e, struct weir_ledger_answer answer)
{
    e->result = answer.result;
    e->scope = answer.scope != WEIR_NONE ? answer.scope : e->op.ledger.scope;
    return true;
}

static bool apply_say_result(struct sql_entry *e, enum weir_ledger_result result)
{
    return apply_say(e, (struct weir_ledger_answer){result, WEIR_NONE});
}

static bool apply_memory(struct sql_store *s, struct sql_entry *e)
{
    apply_say(e, weir_ledger_apply(s->ledger, &e->op.ledger));
    if (e->result == WEIR_LEDGER_BUSY || e->result == WEIR_LEDGER_EXHAUSTED ||
        e->result == WEIR_LEDGER_NEVER)
        sql_touch(s, e->scope); /* its count of refusals */
    return true;
}

static struct weir_ledger_record hold_now(const struct sql_store *s, uint64_t id)
{
    struct weir_ledger_record record;
    if (!weir_ledger_record(s->ledger, id, &record))
        record = (struct weir_ledger_record){.state = WEIR_HOLD_NONE};
    return record;
}

static bool hold_journal(struct sql_store *s, enum weir_journal_kind kind,
                         const struct apply_hold *h, bool estimated)
{
    struct weir_journal_record record = {.kind = kind,
                                         .state_before = h->before.state,
                                         .state_after = h->after.state,
                                         .hold = h->after.id,
                                         .after_tok = h->after.booked_tok,
                                         .estimated = estimated,
                                         .depth = h->after.depth};
    if (h->before.state != WEIR_HOLD_NONE)
        record.before_tok = h->before.booked_tok;
    sql_links(s, &h->after, record.chain);
    return sql_journal_add(s, &record);
}

/* ---- holds that memory has forgotten ---- */

/* The answer of a finished hold whose scopes have no slots any more. */
static enum weir_ledger_result finished_result(const struct sql_store *s,
                                               const struct weir_ledger_op *op,
                                               const struct sql_hold *hold)
{
    switch (op->kind) {
    case WEIR_LEDGER_RESERVE:
        return op->amount_tok == hold->asked &&
                       op->scope == sql_ids_find(s, hold->chain[0].scope_id)
                   ? WEIR_LEDGER_FINISHED
                   : WEIR_LEDGER_CONFLICT;
    case WEIR_LEDGER_EXTEND:
        return WEIR_LEDGER_FINISHED;
    case WEIR_LEDGER_VOID:
        return hold->state == WEIR_HOLD_VOID ? WEIR_LEDGER_SAME : WEIR_LEDGER_CONFLICT;
    case WEIR_LEDGER_SETTLE:
        return op->amount_tok == hold->booked ? WEIR_LEDGER_SAME : WEIR_LEDGER_CONFLICT;
    case WEIR_LEDGER_SCOPE:
    case WEIR_LEDGER_SCOPE_FORGET:
    case WEIR_LEDGER_WINDOW:
    case WEIR_LEDGER_ADJUST:
        break;
    }
    return WEIR_LEDGER_BAD;
}

/* Looks in the file for a hold that memory does not know. *answered: the entry has its answer. */
static bool hold_recall(struct sql_store *s, struct sql_entry *e, bool *answered)
{
    const struct weir_ledger_op *op = &e->op.ledger;
    struct weir_ledger_hold view;
    struct sql_hold hold;
    bool is_new = op->hold > s->hold_highest, known;
    *answered = false;
    s->hold_highest = weir_max_u64(s->hold_highest, op->hold);
    if (weir_ledger_hold_find(s->ledger, op->hold, &view) ||
        (is_new && op->kind == WEIR_LEDGER_RESERVE))
        return true;
    enum sql_found found = sql_hold_find(s, op->hold, &hold);
    if (found != SQL_FOUND)
        return found == SQL_MISSING;
    if (!sql_load_hold(s, &hold, &known))
        return false;
    if (known)
        return true;
    /* A settle of a void one has to be booked all the same: below, where the caller says. */
    if (op->kind == WEIR_LEDGER_SETTLE && hold.state == WEIR_HOLD_VOID)
        return true;
    *answered = true;
    return apply_say_result(e, finished_result(s, op, &hold));
}

/* ---- holds ---- */

static bool apply_reserve(struct sql_store *s, struct sql_entry *e)
{
    struct weir_ledger_stats stats;
    struct apply_hold h = {.before = hold_now(s, e->op.ledger.hold)};
    weir_ledger_stats(s->ledger, &stats);
    if (stats.held + stats.lapsed >= s->live_max && h.before.state == WEIR_HOLD_NONE)
        return apply_say_result(e, WEIR_LEDGER_FULL);
    apply_memory(s, e);
    if (e->result != WEIR_LEDGER_HELD)
        return true;
    h.after = hold_now(s, e->op.ledger.hold);
    return sql_hold_add(s, &h.after, e->op.has_key ? e->op.key : NULL, false) &&
           hold_journal(s, WEIR_JOURNAL_RESERVE, &h, false);
}

static bool apply_extend(struct sql_store *s, struct sql_entry *e)
{
    struct apply_hold h = {.before = hold_now(s, e->op.ledger.hold)};
    apply_memory(s, e);
    if (e->result != WEIR_LEDGER_HELD)
        return true;
    h.after = hold_now(s, e->op.ledger.hold);
    return sql_hold_set(s, &h.after) && hold_journal(s, WEIR_JOURNAL_EXTEND, &h, false);
}

static bool apply_settle(struct sql_store *s, struct sql_entry *e)
{
    struct apply_hold h = {.before = hold_now(s, e->op.ledger.hold)};
    apply_memory(s, e);
    if (e->result != WEIR_LEDGER_SETTLED && e->result != WEIR_LEDGER_LATE &&
        e->result != WEIR_LEDGER_UNMATCHED)
        return true;
    h.after = hold_now(s, e->op.ledger.hold);
    WEIR_INVARIANT(h.after.state != WEIR_HOLD_NONE); /* the table has room for a batch of them */
    sql_usage_add(s, s->slots[h.after.chain[0].scope].id, &e->op.usage, h.after.booked_tok,
                  e->result);
    bool written = e->result == WEIR_LEDGER_UNMATCHED ? sql_hold_add(s, &h.after, NULL, true)
                                                      : sql_hold_set(s, &h.after);
    return written && hold_journal(s, WEIR_JOURNAL_SETTLE, &h, e->op.usage.estimated);
}

static bool hold_voided(struct sql_store *s, struct apply_hold *h)
{
    h->after = hold_now(s, h->before.id);
    return sql_hold_set(s, &h->after) && hold_journal(s, WEIR_JOURNAL_VOID, h, false);
}

static bool apply_void(struct sql_store *s, struct sql_entry *e)
{
    struct apply_hold h = {.before = hold_now(s, e->op.ledger.hold)};
    apply_memory(s, e);
    return e->result != WEIR_LEDGER_VOIDED || hold_voided(s, &h);
}

bool sql_apply_void(struct sql_store *s, uint64_t hold)
{
    struct apply_hold h = {.before = hold_now(s, hold)};
    if (h.before.state != WEIR_HOLD_HELD)
        return true;
    struct weir_ledger_answer answer = weir_ledger_void(s->ledger, hold);
    WEIR_INVARIANT(answer.result == WEIR_LEDGER_VOIDED);
    return hold_voided(s, &h);
}

/* ---- scopes ---- */

/* The scope and its parents as they are now. */
static uint8_t scope_chain(const struct sql_store *s, uint32_t slot,
                           struct weir_journal_link chain[WEIR_LEDGER_DEPTH_MAX])
{
    struct weir_ledger_totals totals;
    uint8_t depth = 0;
    while (slot != WEIR_NONE && depth < WEIR_LEDGER_DEPTH_MAX &&
           weir_ledger_totals(s->ledger, slot, &totals)) {
        chain[depth++] = (struct weir_journal_link){s->slots[slot].id, totals.window};
        slot = totals.parent;
    }
    return depth;
}

/* The slot's row: the one in the file, or a new one that is not written yet. */
static bool scope_row(struct sql_store *s, uint32_t slot, const char *name, bool *is_new)
{
    struct sql_scope found;
    switch (sql_scope_by_name(s, name, &found)) {
    case SQL_FAULT:
        return false;
    case SQL_FOUND:
        *is_new = false;
        break;
    case SQL_MISSING:
        *is_new = true;
        found.slot = (struct sql_slot){.id = ++s->file.scope_id, .configured = -1};
        break;
    }
    found.slot.is_touched = s->slots[slot].is_touched;
    s->slots[slot] = found.slot;
    sql_ids_set(s, slot);
    return true;
}

/* The grant that counts: what was changed by hand stays until the configuration's own changes. */
static int64_t scope_grant(const struct sql_slot *row, const struct sql_entry *e, bool is_new)
{
    int64_t told = e->op.ledger.unlimited ? WEIR_BALANCE_MAX : e->op.ledger.amount_tok;
    return e->op.is_configured && !is_new && row->configured == told ? row->granted : told;
}

/* Defines it in memory; one that is new there takes its balance from the file. */
static bool scope_define(struct sql_store *s, struct sql_entry *e, int64_t granted, bool is_new)
{
    const struct weir_ledger_op *op = &e->op.ledger;
    struct weir_ledger_totals totals;
    bool is_known = weir_ledger_totals(s->ledger, op->scope, &totals);
    const struct weir_ledger_rules rules = {.parent = op->parent,
                                            .unlimited = granted == WEIR_BALANCE_MAX,
                                            .lapse_refunds = op->lapse_refunds,
                                            .granted_tok = granted};
    if (!is_known && !sql_balances_set(s)) /* what this slot changed before it was forgotten */
        return false;
    apply_say(e, weir_ledger_scope_set(s->ledger, op->scope, &rules));
    if (e->result != WEIR_LEDGER_DONE || is_known || is_new)
        return true;
    if (!sql_load_balance(s, op->scope, s->slots[op->scope].window))
        return false;
    if (granted != s->slots[op->scope].granted) /* its row's grant came back with its balance */
        apply_say(e, weir_ledger_scope_set(s->ledger, op->scope, &rules));
    return true;
}

static bool scope_journal(struct sql_store *s, const struct sql_entry *e)
{
    uint32_t slot = e->op.ledger.scope;
    const char *name = weir_names_scope_text(s->base.names, slot);
    struct weir_journal_record record = {.kind = WEIR_JOURNAL_SCOPE,
                                         .amount_tok = s->slots[slot].granted,
                                         .is_configured = e->op.is_configured,
                                         .lapse_refunds = e->op.ledger.lapse_refunds,
                                         .text = name,
                                         .text_bytes = (uint8_t)strlen(name)};
    record.depth = scope_chain(s, slot, record.chain);
    return sql_journal_add(s, &record);
}

static bool apply_scope(struct sql_store *s, struct sql_entry *e)
{
    const struct weir_ledger_op *op = &e->op.ledger;
    const char *name = weir_names_scope_text(s->base.names, op->scope);
    bool is_new = false;
    if (!name || (!op->unlimited && (op->amount_tok < 0 || op->amount_tok > WEIR_TOK_MAX)))
        return apply_say_result(e, WEIR_LEDGER_BAD);
    struct sql_slot *row = &s->slots[op->scope];
    bool had_row = row->id != 0;
    if (!had_row && !scope_row(s, op->scope, name, &is_new))
        return false;
    int64_t granted = scope_grant(row, e, is_new);
    if (!scope_define(s, e, granted, is_new))
        return false;
    if (e->result != WEIR_LEDGER_DONE) {
        if (!had_row)
            sql_ids_drop(s, op->scope);
        return true;
    }
    const struct sql_slot before = *row;
    row->is_left = false;
    row->granted = granted;
    row->lapse_refunds = op->lapse_refunds;
    row->parent_id = op->parent == WEIR_NONE ? 0 : s->slots[op->parent].id;
    if (e->op.is_configured)
        row->configured = op->unlimited ? WEIR_BALANCE_MAX : op->amount_tok;
    row->seen_s = s->wall_s;
    sql_touch(s, op->scope);
    bool is_same = !is_new && row->granted == before.granted &&
                   row->parent_id == before.parent_id && row->configured == before.configured &&
                   row->lapse_refunds == before.lapse_refunds;
    if (is_same && before.seen_s / 86400 == row->seen_s / 86400)
        return true;
    return sql_scope_set(s, op->scope) && (is_same || scope_journal(s, e));
}

static bool apply_forget(struct sql_store *s, struct sql_entry *e)
{
    uint32_t slot = e->op.ledger.scope;
    apply_memory(s, e);
    if (e->result != WEIR_LEDGER_DONE)
        return true;
    const struct weir_journal_record record = {
        .kind = WEIR_JOURNAL_FORGET,
        .depth = 1,
        .chain = {{s->slots[slot].id, s->slots[slot].window}}};
    s->slots[slot].is_left = true;
    s->slots[slot].seen_s = s->wall_s;
    sql_touch(s, slot);
    return sql_scope_set(s, slot) && sql_journal_add(s, &record);
}

static bool apply_window(struct sql_store *s, struct sql_entry *e)
{
    uint32_t slot = e->op.ledger.scope;
    apply_memory(s, e);
    if (e->result != WEIR_LEDGER_DONE)
        return true;
    s->slots[slot].window = e->op.ledger.window;
    const struct weir_journal_record record = {
        .kind = WEIR_JOURNAL_WINDOW,
        .amount_tok = s->slots[slot].granted,
        .depth = 1,
        .chain = {{s->slots[slot].id, s->slots[slot].window}}};
    return sql_scope_set(s, slot) && sql_journal_add(s, &record);
}

static bool apply_adjust(struct sql_store *s, struct sql_entry *e)
{
    apply_memory(s, e);
    if (e->result != WEIR_LEDGER_DONE)
        return true;
    struct weir_journal_record record = {
        .kind = WEIR_JOURNAL_ADJUST, .amount_tok = e->op.ledger.amount_tok, .text = e->op.text};
    if (record.text)
        record.text_bytes = (uint8_t)strlen(e->op.text); /* at most WEIR_STORE_TEXT_MAX */
    record.depth = scope_chain(s, e->op.ledger.scope, record.chain);
    if (e->op.usage.utc_hour != 0)
        sql_usage_correct(s, record.chain[0].scope_id, &e->op.usage);
    return sql_journal_add(s, &record);
}

_Static_assert(WEIR_STORE_TEXT_MAX <= WEIR_JOURNAL_TEXT_MAX, "a reason fits");
_Static_assert(WEIR_STORE_NAME_MAX <= WEIR_JOURNAL_TEXT_MAX, "a name fits");

bool sql_apply(struct sql_store *s, struct sql_entry *e)
{
    bool answered = false;
    switch (e->op.ledger.kind) {
    case WEIR_LEDGER_RESERVE:
        return hold_recall(s, e, &answered) && (answered || apply_reserve(s, e));
    case WEIR_LEDGER_EXTEND:
        return hold_recall(s, e, &answered) && (answered || apply_extend(s, e));
    case WEIR_LEDGER_SETTLE:
        return hold_recall(s, e, &answered) && (answered || apply_settle(s, e));
    case WEIR_LEDGER_VOID:
        return hold_recall(s, e, &answered) && (answered || apply_void(s, e));
    case WEIR_LEDGER_SCOPE:
        return apply_scope(s, e);
    case WEIR_LEDGER_SCOPE_FORGET:
        return apply_forget(s, e);
    case WEIR_LEDGER_WINDOW:
        return apply_window(s, e);
    case WEIR_LEDGER_ADJUST:
        return apply_adjust(s, e);
    }
    return apply_say_result(e, WEIR_LEDGER_BAD);
}
