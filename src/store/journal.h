/* journal: the transitions of the ledger as bytes: what a durable store writes beside its rows.
 *
 * A blob is a run of records, one for each transition that changed something, in the order in which
 * they happened. Each record names the balances it counts in and what the hold counted before and
 * after, so that a replay needs neither the rows of holds nor older records:
 *
 *   kind        states                                  each balance of the chain
 *   RESERVE     none -> held                            reserved + after
 *   EXTEND      held -> held                            reserved + after - before
 *   SETTLE      held -> settled                         reserved - before, committed + after
 *               lapsed -> late                          lapsed - before, committed + after
 *               void -> late                            committed + after
 *               none -> late, or none -> none           committed + after, unmatched + after
 *               (no reserve came; the second: the hold is not remembered)
 *                                                       all four: overrun + what is above before
 *   VOID        held -> void                            reserved - before
 *   LAPSE       held -> lapsed                          reserved - before, lapsed + after,
 *                                                       refunded + before - after
 *   ADJUST                                              committed + amount, raised or lowered
 *   SCOPE                                               the first only: granted = amount, cut + how
 *                                                       far that went below what was used
 *   FORGET                                              nothing; the scope has no slot any more
 *   WINDOW                                              the first only: begins, granted = amount
 *
 * The bytes: kind and depth, both states, flags, then variable-length integers (seven bits a byte,
 * low ones first, the shortest form only). Holds and windows are differences to those of the record
 * before, signed amounts and differences alternate (0, -1, 1, -2 ...), so a record of a chain of
 * three is about 16 bytes long.
 *
 * Thread: any; nothing is shared. Source: docs/ledger.md, "The journal". */
#ifndef WEIR_STORE_JOURNAL_H
#define WEIR_STORE_JOURNAL_H

#include "core/base.h"
#include "core/ledger.h"

/* Kept in files: a number never changes its meaning. */
enum weir_journal_kind {
    WEIR_JOURNAL_RESERVE = 1,
    WEIR_JOURNAL_EXTEND = 2,
    WEIR_JOURNAL_SETTLE = 3,
    WEIR_JOURNAL_VOID = 4,
    WEIR_JOURNAL_LAPSE = 5,
    WEIR_JOURNAL_ADJUST = 6,
    WEIR_JOURNAL_SCOPE = 7,
    WEIR_JOURNAL_FORGET = 8,
    WEIR_JOURNAL_WINDOW = 9
};

#define WEIR_JOURNAL_TEXT_MAX 200 /* bytes */
/* No record is longer. */
#define WEIR_JOURNAL_RECORD_BYTES                                                                  \
    (3 + 3 * 10 + WEIR_LEDGER_DEPTH_MAX * 20 + 1 + WEIR_JOURNAL_TEXT_MAX)

struct weir_journal_link {
    int64_t scope_id; /* of the scope's row, from 1 */
    uint64_t window;
};

struct weir_journal_record {
    enum weir_journal_kind kind;
    enum weir_hold_state state_before, state_after; /* NONE but for the first five kinds */
    uint64_t hold;                                  /* the first five kinds; else 0 */
    int64_t before_tok, after_tok; /* what the hold counts; the first five kinds; else 0 */
    int64_t amount_tok; /* ADJUST: signed. SCOPE, WINDOW: the grant, WEIR_BALANCE_MAX when
                                      unlimited. Else 0 */
    bool estimated;     /* SETTLE: the amount is our count, not the provider's */
    bool is_configured; /* SCOPE: by the configuration, not by hand */
    bool lapse_refunds; /* SCOPE */
    uint8_t depth;      /* of the chain, 1 .. WEIR_LEDGER_DEPTH_MAX */
    uint8_t text_bytes;
    /* Leaf first. SCOPE: the scope and its parents as they are from then on. FORGET, WINDOW: the
     * scope alone. */
    struct weir_journal_link chain[WEIR_LEDGER_DEPTH_MAX];
    const char *text; /* borrowed, no NUL. ADJUST: the reason. SCOPE: the name. Else NULL */
};

/* One word for JSON and tables. Never NULL. */
const char *weir_journal_kind_name(enum weir_journal_kind kind);
/* What the caller of the operation was told. */
enum weir_ledger_result weir_journal_result(const struct weir_journal_record *record);

/* NULL, or what the record may not be: what the table above does not have, or amounts, ids and
 * texts out of range. */
const char *weir_journal_record_wrong(const struct weir_journal_record *record);

/* Writes one blob. Start: {.out = buffer, .room = its bytes}, all else zero. */
struct weir_journal_writer {
    uint8_t *out;
    size_t room;
    size_t bytes;          /* written */
    uint32_t count;        /* records written */
    uint64_t hold, window; /* of the record before */
};

/* Appends a record, which is right by weir_journal_record_wrong.
 * false: room is left for less than WEIR_JOURNAL_RECORD_BYTES; nothing was written. */
WEIR_MUST_USE bool weir_journal_write(struct weir_journal_writer *writer,
                                      const struct weir_journal_record *record);

enum weir_journal_next { WEIR_JOURNAL_RECORD, WEIR_JOURNAL_END, WEIR_JOURNAL_MALFORMED };

/* Reads one blob. Start: {.data = blob, .bytes = its length}, all else zero. */
struct weir_journal_reader {
    const uint8_t *data;
    size_t bytes;
    size_t at;
    uint64_t hold, window;
};

/* The next record, its text borrowed from the blob. Any bytes are fine as input: what no writer
 * wrote is MALFORMED, and so is all that follows it. */
WEIR_MUST_USE enum weir_journal_next weir_journal_read(struct weir_journal_reader *reader,
                                                       struct weir_journal_record *record);

/* A chain alone, as the rows of holds keep it: the bytes it has in a record after one of window 0.
 * Writes at most WEIR_CHAIN_BYTES; returns how many. */
#define WEIR_CHAIN_BYTES (WEIR_LEDGER_DEPTH_MAX * 20)
size_t weir_chain_write(const struct weir_journal_link *chain, uint8_t depth,
                        uint8_t out[WEIR_CHAIN_BYTES]);
/* Its depth, or 0: these bytes are no chain. Any bytes are fine as input. */
uint8_t weir_chain_read(const void *data, size_t bytes,
                        struct weir_journal_link chain[WEIR_LEDGER_DEPTH_MAX]);

/* The check of a row: over its number, its time, its count of records and its blob. */
uint32_t weir_journal_crc(int64_t seq, int64_t wall_s, uint32_t count, const void *data,
                          size_t bytes);

#endif
