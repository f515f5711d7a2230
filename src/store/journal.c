#include "store/journal.h"

#include <string.h>
#include <zlib.h>

const char *weir_journal_kind_name(enum weir_journal_kind kind)
{
    switch (kind) {
    case WEIR_JOURNAL_RESERVE:
        return "reserve";
    case WEIR_JOURNAL_EXTEND:
        return "extend";
    case WEIR_JOURNAL_SETTLE:
        return "settle";
    case WEIR_JOURNAL_VOID:
        return "void";
    case WEIR_JOURNAL_LAPSE:
        return "lapse";
    case WEIR_JOURNAL_ADJUST:
        return "adjust";
    case WEIR_JOURNAL_SCOPE:
        return "scope";
    case WEIR_JOURNAL_FORGET:
        return "forget";
    case WEIR_JOURNAL_WINDOW:
        return "window";
    }
    return "?";
}

enum weir_ledger_result weir_journal_result(const struct weir_journal_record *record)
{
    switch (record->kind) {
    case WEIR_JOURNAL_RESERVE:
    case WEIR_JOURNAL_EXTEND:
        return WEIR_LEDGER_HELD;
    case WEIR_JOURNAL_SETTLE:
        if (record->state_before == WEIR_HOLD_NONE)
            return WEIR_LEDGER_UNMATCHED;
        return record->state_before == WEIR_HOLD_HELD ? WEIR_LEDGER_SETTLED : WEIR_LEDGER_LATE;
    case WEIR_JOURNAL_VOID:
        return WEIR_LEDGER_VOIDED;
    case WEIR_JOURNAL_LAPSE:
    case WEIR_JOURNAL_ADJUST:
    case WEIR_JOURNAL_SCOPE:
    case WEIR_JOURNAL_FORGET:
    case WEIR_JOURNAL_WINDOW:
        break;
    }
    return WEIR_LEDGER_DONE;
}

/* What a record may be. */

static bool amount_ok(int64_t tok)
{
    return tok >= 0 && tok <= WEIR_TOK_MAX;
}

static bool has_hold(enum weir_journal_kind kind)
{
    return kind <= WEIR_JOURNAL_LAPSE;
}

static bool grants(enum weir_journal_kind kind)
{
    return kind == WEIR_JOURNAL_SCOPE || kind == WEIR_JOURNAL_WINDOW;
}

static bool moves(const struct weir_journal_record *r, enum weir_hold_state before,
                  enum weir_hold_state after)
{
    return r->state_before == before && r->state_after == after;
}

static bool states_ok(const struct weir_journal_record *r)
{
    switch (r->kind) {
    case WEIR_JOURNAL_RESERVE:
        return moves(r, WEIR_HOLD_NONE, WEIR_HOLD_HELD);
    case WEIR_JOURNAL_EXTEND:
        return moves(r, WEIR_HOLD_HELD, WEIR_HOLD_HELD);
    case WEIR_JOURNAL_SETTLE:
        return moves(r, WEIR_HOLD_HELD, WEIR_HOLD_SETTLED) ||
               moves(r, WEIR_HOLD_LAPSED, WEIR_HOLD_LATE) ||
               moves(r, WEIR_HOLD_VOID, WEIR_HOLD_LATE) ||
               moves(r, WEIR_HOLD_NONE, WEIR_HOLD_LATE) || moves(r, WEIR_HOLD_NONE, WEIR_HOLD_NONE);
    case WEIR_JOURNAL_VOID:
        return moves(r, WEIR_HOLD_HELD, WEIR_HOLD_VOID);
    case WEIR_JOURNAL_LAPSE:
        return moves(r, WEIR_HOLD_HELD, WEIR_HOLD_LAPSED);
    case WEIR_JOURNAL_ADJUST:
    case WEIR_JOURNAL_SCOPE:
    case WEIR_JOURNAL_FORGET:
    case WEIR_JOURNAL_WINDOW:
        break;
    }
    return moves(r, WEIR_HOLD_NONE, WEIR_HOLD_NONE);
}

static const char *amounts_wrong(const struct weir_journal_record *r)
{
    if (!amount_ok(r->before_tok) || !amount_ok(r->after_tok))
        return "a hold counts 0 .. WEIR_TOK_MAX";
    bool counted_before = r->state_before == WEIR_HOLD_HELD || r->state_before == WEIR_HOLD_LAPSED;
    if (!counted_before && r->before_tok != 0)
        return "a hold that was neither held nor lapsed counted nothing";
    switch (r->kind) {
    case WEIR_JOURNAL_EXTEND:
        return r->after_tok > r->before_tok ? NULL : "an extension enlarges";
    case WEIR_JOURNAL_VOID:
        return r->after_tok == 0 ? NULL : "a void hold counts nothing";
    case WEIR_JOURNAL_LAPSE:
        return r->after_tok == 0 || r->after_tok == r->before_tok
                   ? NULL
                   : "a lapse charges all or refunds all";
    case WEIR_JOURNAL_RESERVE:
    case WEIR_JOURNAL_SETTLE:
        return NULL;
    case WEIR_JOURNAL_ADJUST:
        if (r->amount_tok < -WEIR_TOK_MAX || r->amount_tok > WEIR_TOK_MAX)
            return "an adjustment is at most WEIR_TOK_MAX either way";
        break;
    case WEIR_JOURNAL_SCOPE:
    case WEIR_JOURNAL_WINDOW:
        if (!amount_ok(r->amount_tok) && r->amount_tok != WEIR_BALANCE_MAX)
            return "a grant is 0 .. WEIR_TOK_MAX, or WEIR_BALANCE_MAX";
        break;
    case WEIR_JOURNAL_FORGET:
        break;
    }
    return r->after_tok == 0 ? NULL : "only records of holds have amounts before and after";
}

static const char *chain_wrong(const struct weir_journal_link *chain, uint8_t depth)
{
    if (depth < 1 || depth > WEIR_LEDGER_DEPTH_MAX)
        return "a chain has 1 .. WEIR_LEDGER_DEPTH_MAX balances";
    for (uint8_t i = 0; i < depth; i++) {
        if (chain[i].scope_id < 1)
            return "ids of scopes start at 1";
        for (uint8_t k = 0; k < i; k++)
            if (chain[k].scope_id == chain[i].scope_id)
                return "a chain names a scope once";
    }
    return NULL;
}

const char *weir_journal_record_wrong(const struct weir_journal_record *r)
{
    if (r->kind < WEIR_JOURNAL_RESERVE || r->kind > WEIR_JOURNAL_WINDOW)
        return "a record has a kind";
    if (!states_ok(r))
        return "the states are those of the kind";
    if (!has_hold(r->kind) && r->hold != 0)
        return "only the first five kinds name a hold";
    if (!grants(r->kind) && r->kind != WEIR_JOURNAL_ADJUST && r->amount_tok != 0)
        return "only ADJUST, SCOPE and WINDOW have an amount";
    const char *wrong = amounts_wrong(r);
    if (wrong)
        return wrong;
    if ((r->estimated && r->kind != WEIR_JOURNAL_SETTLE) ||
        ((r->is_configured || r->lapse_refunds) && r->kind != WEIR_JOURNAL_SCOPE))
        return "a flag belongs to its kind";
    wrong = chain_wrong(r->chain, r->depth);
    if (wrong)
        return wrong;
    if ((r->kind == WEIR_JOURNAL_FORGET || r->kind == WEIR_JOURNAL_WINDOW) && r->depth != 1)
        return "FORGET and WINDOW name one scope";
    if (r->text_bytes > WEIR_JOURNAL_TEXT_MAX)
        return "a text is at most WEIR_JOURNAL_TEXT_MAX bytes";
    if (r->text_bytes > 0 && r->kind != WEIR_JOURNAL_ADJUST && r->kind != WEIR_JOURNAL_SCOPE)
        return "only ADJUST and SCOPE have a text";
    return NULL;
}

/* Writing. */

enum { FLAG_ESTIMATED = 1, FLAG_CONFIGURED = 2, FLAG_LAPSE_REFUNDS = 4, FLAG_TEXT = 8 };
#define FLAGS_ALL 15

static void put_varint(struct weir_journal_writer *w, uint64_t value)
{
    while (value >= 0x80) {
        w->out[w->bytes++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    w->out[w->bytes++] = (uint8_t)value;
}

/* The difference wraps, and so does its undoing: every pair of values has one. */
static void put_signed(struct weir_journal_writer *w, uint64_t value)
{
    put_varint(w, value << 1 ^ (0 - (value >> 63)));
}

static void put_chain(struct weir_journal_writer *w, const struct weir_journal_link *chain,
                      uint8_t depth)
{
    for (uint8_t i = 0; i < depth; i++) {
        put_varint(w, (uint64_t)chain[i].scope_id);
        put_signed(w, chain[i].window - w->window);
        w->window = chain[i].window;
    }
}

size_t weir_chain_write(const struct weir_journal_link *chain, uint8_t depth,
                        uint8_t out[WEIR_CHAIN_BYTES])
{
    struct weir_journal_writer w = {.out = out, .room = WEIR_CHAIN_BYTES};
    WEIR_INVARIANT(chain_wrong(chain, depth) == NULL);
    put_chain(&w, chain, depth);
    return w.bytes;
}

bool weir_journal_write(struct weir_journal_writer *w, const struct weir_journal_record *r)
{
    WEIR_INVARIANT(weir_journal_record_wrong(r) == NULL);
    if (w->room - w->bytes < WEIR_JOURNAL_RECORD_BYTES)
        return false;
    w->out[w->bytes++] = (uint8_t)((unsigned)r->kind << 4 | r->depth);
    w->out[w->bytes++] = (uint8_t)((unsigned)r->state_before << 4 | (unsigned)r->state_after);
    w->out[w->bytes++] =
        (uint8_t)((r->estimated ? FLAG_ESTIMATED : 0) | (r->is_configured ? FLAG_CONFIGURED : 0) |
                  (r->lapse_refunds ? FLAG_LAPSE_REFUNDS : 0) |
                  (r->text_bytes > 0 ? FLAG_TEXT : 0));
    if (has_hold(r->kind)) {
        put_signed(w, r->hold - w->hold);
        put_varint(w, (uint64_t)r->before_tok);
        put_varint(w, (uint64_t)r->after_tok);
        w->hold = r->hold;
    } else {
        put_signed(w, (uint64_t)r->amount_tok);
    }
    put_chain(w, r->chain, r->depth);
    if (r->text_bytes > 0) {
        w->out[w->bytes++] = r->text_bytes;
        memcpy(w->out + w->bytes, r->text, r->text_bytes);
        w->bytes += r->text_bytes;
    }
    w->count++;
    return true;
}

/* Reading. */

static bool get_byte(struct weir_journal_reader *c, uint8_t *value)
{
    if (c->at >= c->bytes)
        return false;
    *value = c->data[c->at++];
    return true;
}

static bool get_varint(struct weir_journal_reader *c, uint64_t *value)
{
    uint8_t byte;
    *value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (!get_byte(c, &byte))
            return false;
        if (shift == 63 && byte > 1)
            return false; /* more than 64 bits */
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return byte != 0 || shift == 0; /* else there is a shorter form */
    }
    return false;
}

static bool get_signed(struct weir_journal_reader *c, uint64_t *value)
{
    uint64_t folded;
    if (!get_varint(c, &folded))
        return false;
    *value = folded >> 1 ^ (0 - (folded & 1));
    return true;
}

static bool get_amount(struct weir_journal_reader *c, int64_t *tok)
{
    uint64_t value;
    if (!get_varint(c, &value) || value > INT64_MAX)
        return false;
    *tok = (int64_t)value;
    return true;
}

static bool get_head(struct weir_journal_reader *c, struct weir_journal_record *r, bool *has_text)
{
    uint8_t kind, states, flags;
    if (!get_byte(c, &kind) || !get_byte(c, &states) || !get_byte(c, &flags))
        return false;
    if (states >> 4 >= WEIR_HOLD_STATE_COUNT || (states & 15) >= WEIR_HOLD_STATE_COUNT ||
        flags > FLAGS_ALL)
        return false;
    r->kind = (enum weir_journal_kind)(kind >> 4);
    r->depth = kind & 15;
    r->state_before = (enum weir_hold_state)(states >> 4);
    r->state_after = (enum weir_hold_state)(states & 15);
    r->estimated = flags & FLAG_ESTIMATED;
    r->is_configured = flags & FLAG_CONFIGURED;
    r->lapse_refunds = flags & FLAG_LAPSE_REFUNDS;
    *has_text = flags & FLAG_TEXT;
    return r->depth <= WEIR_LEDGER_DEPTH_MAX; /* the rest is for weir_journal_record_wrong */
}

static bool get_link(struct weir_journal_reader *c, struct weir_journal_link *link)
{
    uint64_t difference;
    if (!get_amount(c, &link->scope_id) || !get_signed(c, &difference))
        return false;
    link->window = c->window += difference;
    return true;
}

uint8_t weir_chain_read(const void *data, size_t bytes,
                        struct weir_journal_link chain[WEIR_LEDGER_DEPTH_MAX])
{
    struct weir_journal_reader c = {.data = data, .bytes = bytes};
    uint8_t depth = 0;
    while (c.at < bytes)
        if (depth >= WEIR_LEDGER_DEPTH_MAX || !get_link(&c, &chain[depth++]))
            return 0;
    return chain_wrong(chain, depth) ? 0 : depth;
}

static bool get_record(struct weir_journal_reader *c, struct weir_journal_record *r)
{
    bool has_text;
    uint64_t difference;
    *r = (struct weir_journal_record){0};
    if (!get_head(c, r, &has_text))
        return false;
    if (has_hold(r->kind)) {
        if (!get_signed(c, &difference) || !get_amount(c, &r->before_tok) ||
            !get_amount(c, &r->after_tok))
            return false;
        r->hold = c->hold += difference;
    } else {
        if (!get_signed(c, &difference))
            return false;
        r->amount_tok = (int64_t)difference;
    }
    for (uint8_t i = 0; i < r->depth; i++)
        if (!get_link(c, &r->chain[i]))
            return false;
    if (has_text) {
        if (!get_byte(c, &r->text_bytes) || r->text_bytes == 0 || r->text_bytes > c->bytes - c->at)
            return false;
        r->text = (const char *)c->data + c->at;
        c->at += r->text_bytes;
    }
    return weir_journal_record_wrong(r) == NULL;
}

enum weir_journal_next weir_journal_read(struct weir_journal_reader *c,
                                         struct weir_journal_record *record)
{
    if (c->at == c->bytes)
        return WEIR_JOURNAL_END;
    size_t start = c->at;
    if (get_record(c, record))
        return WEIR_JOURNAL_RECORD;
    c->at = start;
    c->bytes = start + 1; /* it stays malformed: one byte is no record */
    return WEIR_JOURNAL_MALFORMED;
}

uint32_t weir_journal_crc(int64_t seq, int64_t wall_s, uint32_t count, const void *data,
                          size_t bytes)
{
    uint8_t head[20];
    for (unsigned i = 0; i < 8; i++) {
        head[i] = (uint8_t)((uint64_t)seq >> 8 * i);
        head[8 + i] = (uint8_t)((uint64_t)wall_s >> 8 * i);
    }
    for (unsigned i = 0; i < 4; i++)
        head[16 + i] = (uint8_t)(count >> 8 * i);
    uLong crc = crc32_z(0, head, sizeof head);
    return (uint32_t)(bytes > 0 ? crc32_z(crc, data, bytes) : crc);
}
