#include "store/replay.h"

#include <stdlib.h>

struct weir_replay {
    struct weir_balance_row *rows;
    size_t count, rows_max;
    uint32_t *slots; /* index into rows plus one; 0: empty */
    size_t slots_mask;
};

const char *weir_balance_row_wrong(const struct weir_balance_row *row)
{
    const int64_t amounts[] = {row->granted_tok, row->reserved_tok,  row->lapsed_tok,
                               row->overrun_tok, row->cut_tok,       row->raised_tok,
                               row->lowered_tok, row->unmatched_tok, row->refunded_tok};
    for (size_t i = 0; i < WEIR_COUNT(amounts); i++)
        if (amounts[i] < 0 || amounts[i] > WEIR_BALANCE_MAX)
            return "an amount is outside 0 .. 2^53";
    if (row->committed_tok < -WEIR_BALANCE_MAX || row->committed_tok > WEIR_BALANCE_MAX ||
        row->purged_tok < -WEIR_BALANCE_MAX || row->purged_tok > WEIR_BALANCE_MAX)
        return "an amount is outside -2^53 .. 2^53";
    if (row->reserved_tok + row->committed_tok + row->lapsed_tok > WEIR_BALANCE_MAX)
        return "reserved + committed + lapsed is above 2^53";
    return NULL;
}

/* The table: open addressing, at most half full. */

struct weir_replay *weir_replay_new(void)
{
    struct weir_replay *replay = calloc(1, sizeof *replay);
    if (!replay)
        return NULL;
    replay->slots_mask = 63;
    replay->slots = calloc(replay->slots_mask + 1, sizeof *replay->slots);
    if (!replay->slots) {
        free(replay);
        return NULL;
    }
    return replay;
}

void weir_replay_free(struct weir_replay *replay)
{
    if (!replay)
        return;
    free(replay->rows);
    free(replay->slots);
    free(replay);
}

/* The slot of a balance, or the empty one where it belongs. */
static uint32_t *slot_of(const struct weir_replay *replay, int64_t scope_id, uint64_t window)
{
    uint64_t mixed =
        ((uint64_t)scope_id ^ window << 32 ^ window >> 32) * UINT64_C(0x9e3779b97f4a7c15);
    for (size_t at = mixed >> 32;; at++) {
        uint32_t *slot = &replay->slots[at & replay->slots_mask];
        if (*slot == 0)
            return slot;
        const struct weir_balance_row *row = &replay->rows[*slot - 1];
        if (row->scope_id == scope_id && row->window == window)
            return slot;
    }
}

struct weir_balance_row *weir_replay_find(const struct weir_replay *replay, int64_t scope_id,
                                          uint64_t window)
{
    uint32_t slot = *slot_of(replay, scope_id, window);
    return slot ? &replay->rows[slot - 1] : NULL;
}

static bool slots_grow(struct weir_replay *replay)
{
    size_t size = 2 * (replay->slots_mask + 1);
    uint32_t *slots = calloc(size, sizeof *slots);
    if (!slots)
        return false;
    free(replay->slots);
    replay->slots = slots;
    replay->slots_mask = size - 1;
    for (size_t i = 0; i < replay->count; i++)
        *slot_of(replay, replay->rows[i].scope_id, replay->rows[i].window) = (uint32_t)i + 1;
    return true;
}

/* Makes room for so many more. */
static bool rows_reserve(struct weir_replay *replay, size_t more)
{
    while (2 * (replay->count + more) > replay->slots_mask)
        if (replay->slots_mask >= UINT32_MAX / 2 || !slots_grow(replay))
            return false;
    if (replay->count + more <= replay->rows_max)
        return true;
    size_t rows_max = 2 * replay->rows_max + 64;
    struct weir_balance_row *rows = realloc(replay->rows, rows_max * sizeof *rows);
    if (!rows)
        return false;
    replay->rows = rows;
    replay->rows_max = rows_max;
    return true;
}

bool weir_replay_add(struct weir_replay *replay, const struct weir_balance_row *row)
{
    if (!rows_reserve(replay, 1))
        return false;
    uint32_t *slot = slot_of(replay, row->scope_id, row->window);
    WEIR_INVARIANT(*slot == 0);
    replay->rows[replay->count++] = *row;
    *slot = (uint32_t)replay->count;
    return true;
}

size_t weir_replay_count(const struct weir_replay *replay)
{
    return replay->count;
}

struct weir_balance_row *weir_replay_at(const struct weir_replay *replay, size_t index)
{
    WEIR_INVARIANT(index < replay->count);
    return &replay->rows[index];
}

/* Records. */

/* The named causes stop at the limit, as in the rules. */
static void add_capped(int64_t *sum, int64_t amount)
{
    *sum = amount > WEIR_BALANCE_MAX - *sum ? WEIR_BALANCE_MAX : *sum + amount;
}

static void count_state(struct weir_balance_row *b, enum weir_hold_state state, int64_t amount)
{
    switch (state) {
    case WEIR_HOLD_HELD:
        b->reserved_tok += amount;
        break;
    case WEIR_HOLD_LAPSED:
        b->lapsed_tok += amount;
        break;
    case WEIR_HOLD_SETTLED:
    case WEIR_HOLD_LATE:
        b->committed_tok += amount;
        break;
    case WEIR_HOLD_VOID:
    case WEIR_HOLD_NONE:
        break;
    }
}

static void apply_hold(struct weir_balance_row *b, const struct weir_journal_record *r)
{
    /* A settle that no hold remembers counts as committed too. */
    bool forgotten = r->kind == WEIR_JOURNAL_SETTLE && r->state_after == WEIR_HOLD_NONE;
    count_state(b, r->state_before, -r->before_tok);
    count_state(b, forgotten ? WEIR_HOLD_LATE : r->state_after, r->after_tok);
    if (r->kind == WEIR_JOURNAL_SETTLE && r->after_tok > r->before_tok)
        add_capped(&b->overrun_tok, r->after_tok - r->before_tok);
    if (r->kind == WEIR_JOURNAL_SETTLE && r->state_before == WEIR_HOLD_NONE)
        add_capped(&b->unmatched_tok, r->after_tok);
    if (r->kind == WEIR_JOURNAL_LAPSE)
        add_capped(&b->refunded_tok, r->before_tok - r->after_tok);
}

static void apply_grant(struct weir_balance_row *b, int64_t granted_tok)
{
    int64_t used = b->reserved_tok + b->committed_tok + b->lapsed_tok;
    int64_t excess_before = weir_max_i64(0, used - b->granted_tok);
    int64_t excess_after = weir_max_i64(0, used - granted_tok);
    add_capped(&b->cut_tok, weir_max_i64(0, excess_after - excess_before));
    b->granted_tok = granted_tok;
}

/* What a balance becomes. Amounts fit: each is at most 2^54 after one step from a right row. */
static struct weir_balance_row balance_after(const struct weir_balance_row *before,
                                             const struct weir_journal_record *r)
{
    struct weir_balance_row b = *before;
    switch (r->kind) {
    case WEIR_JOURNAL_RESERVE:
    case WEIR_JOURNAL_EXTEND:
    case WEIR_JOURNAL_SETTLE:
    case WEIR_JOURNAL_VOID:
    case WEIR_JOURNAL_LAPSE:
        apply_hold(&b, r);
        break;
    case WEIR_JOURNAL_ADJUST:
        b.committed_tok += r->amount_tok;
        b.raised_tok += weir_max_i64(0, r->amount_tok);
        b.lowered_tok += weir_max_i64(0, -r->amount_tok);
        break;
    case WEIR_JOURNAL_SCOPE: /* apply_first */
    case WEIR_JOURNAL_WINDOW:
    case WEIR_JOURNAL_FORGET:
        break;
    }
    return b;
}

/* SCOPE and WINDOW: about the first of the chain only. */
static const char *apply_first(struct weir_replay *replay, const struct weir_journal_record *r)
{
    struct weir_balance_row *row =
        weir_replay_find(replay, r->chain[0].scope_id, r->chain[0].window);
    if (row && r->kind == WEIR_JOURNAL_WINDOW)
        return "begins a balance that is there";
    if (row) {
        apply_grant(row, r->amount_tok);
        return NULL;
    }
    struct weir_balance_row fresh = {.scope_id = r->chain[0].scope_id,
                                     .window = r->chain[0].window,
                                     .granted_tok = r->amount_tok};
    return weir_replay_add(replay, &fresh) ? NULL : "there is no memory for another balance";
}

const char *weir_replay_apply(struct weir_replay *replay, const struct weir_journal_record *record,
                              uint8_t *link)
{
    *link = 0;
    if (record->kind == WEIR_JOURNAL_FORGET)
        return NULL;
    if (record->kind == WEIR_JOURNAL_SCOPE || record->kind == WEIR_JOURNAL_WINDOW)
        return apply_first(replay, record);
    struct weir_balance_row *rows[WEIR_LEDGER_DEPTH_MAX], after[WEIR_LEDGER_DEPTH_MAX];
    for (*link = 0; *link < record->depth; ++*link) {
        const struct weir_journal_link *at = &record->chain[*link];
        if (!(rows[*link] = weir_replay_find(replay, at->scope_id, at->window)))
            return "names a balance that is not there";
        after[*link] = balance_after(rows[*link], record);
        const char *wrong = weir_balance_row_wrong(&after[*link]);
        if (wrong)
            return wrong;
    }
    for (uint8_t i = 0; i < record->depth; i++)
        *rows[i] = after[i];
    return NULL;
}
