/* reader: looks into a ledger file, beside a gateway that writes it or at rest; changes nothing.
 *
 * Every query comes in pages. A page is one short read transaction, so that it never keeps the
 * writer's log from being emptied, however long the whole answer takes: rows that change between two
 * pages may be seen as they were or as they are. A cursor says where the next page begins; it is
 * plain numbers, so it may travel (in a query string) and be used with another reader later.
 *
 *   struct weir_reader_cursor cursor = {0};
 *   do
 *       next = weir_reader_holds(reader, &filter, &cursor, rows_max, each, ctx);
 *   while (next == WEIR_READER_MORE);
 *
 * Rows and the texts in them are borrowed for the call of `each`.
 *
 * Thread: the one that opened it. Source: docs/ledger.md, "The file". */
#ifndef WEIR_STORE_READER_H
#define WEIR_STORE_READER_H

#include "core/base.h"
#include "core/ledger.h"
#include "store/journal.h"
#include "store/replay.h"

struct weir_reader;

/* Opens a ledger file for reading.
 *
 * error_text  on NULL what is wrong with the file and what to do: it is missing, empty, no database,
 *             no ledger, of a form that this program does not know, or may not be read */
WEIR_MUST_USE struct weir_reader *weir_reader_open(const char *path, char *error_text,
                                                   size_t error_bytes);
void weir_reader_close(struct weir_reader *reader); /* NULL is fine */

/* What the last FAULT was about, with the path and what to do; empty: there was none. */
const char *weir_reader_trouble(const struct weir_reader *reader);

enum weir_reader_next {
    WEIR_READER_MORE, /* call again with the cursor as it is now */
    WEIR_READER_END,
    WEIR_READER_FAULT /* weir_reader_trouble says what; the rows given so far are right */
};

/* Zero: from the beginning. */
struct weir_reader_cursor {
    bool begun;
    int64_t at[4]; /* the last row that was looked at */
};

#define WEIR_READER_ROWS_MAX 1000 /* of a page; a larger rows_max counts as this, 0 too */

/* The file as a whole. Holds by state are counted over the whole table. */
struct weir_reader_facts {
    int64_t version;             /* of the form of the file */
    uint64_t epoch;              /* of the present or last run */
    int64_t created_s, wall_s;   /* of the file; of the last change, or start */
    int64_t base_seq;            /* journal rows up to this one were folded */
    int64_t first_seq, last_seq; /* of the journal; 0: it has no row */
    int64_t scopes, balances;
    int64_t holds[WEIR_HOLD_STATE_COUNT];
    int64_t file_bytes, wal_bytes;
};
/* false: a fault. */
WEIR_MUST_USE bool weir_reader_facts(struct weir_reader *reader, struct weir_reader_facts *facts);

struct weir_reader_scope {
    int64_t id;
    const char *name;
    const char *parent; /* NULL: a root */
    bool unlimited;
    bool lapse_refunds;
    bool is_configured;              /* the configuration named it at some time */
    int64_t configured_tok;          /* and granted this then */
    int64_t granted_tok;             /* WEIR_BALANCE_MAX when unlimited */
    int64_t seen_s;                  /* when it was last defined */
    bool has_balance;                /* else all of balance is 0 */
    struct weir_balance_row balance; /* of its present window */
    int64_t held, lapsed;            /* holds that count in it, in any window */
};
typedef void weir_reader_scope_fn(void *ctx, const struct weir_reader_scope *scope);
/* Scopes in the order of their ids; only_name: that one, NULL: all. Live holds are counted by the
 * page that begins, or the first one of this reader. */
WEIR_MUST_USE enum weir_reader_next weir_reader_scopes(struct weir_reader *reader,
                                                       const char *only_name,
                                                       struct weir_reader_cursor *cursor,
                                                       uint32_t rows_max,
                                                       weir_reader_scope_fn *each, void *ctx);

struct weir_reader_balance {
    const char *scope;
    bool is_present; /* of the scope's present window */
    struct weir_balance_row balance;
};
typedef void weir_reader_balance_fn(void *ctx, const struct weir_reader_balance *balance);
/* Balances of all windows, in the order of scope ids and windows. scope: of that name only; NULL:
 * all. */
WEIR_MUST_USE enum weir_reader_next weir_reader_balances(struct weir_reader *reader,
                                                         const char *scope,
                                                         struct weir_reader_cursor *cursor,
                                                         uint32_t rows_max,
                                                         weir_reader_balance_fn *each, void *ctx);

struct weir_reader_hold {
    uint64_t id;
    const char *scope; /* the leaf it was reserved on; "?" when its row is gone */
    uint8_t depth;     /* 0: the chain in the file is damaged */
    struct weir_journal_link chain[WEIR_LEDGER_DEPTH_MAX];
    enum weir_hold_state state; /* NONE: the state in the file is none */
    int64_t asked_tok;          /* -1: no reserve came */
    int64_t booked_tok;
    bool has_key;
    int64_t created_s;
    int64_t done_s; /* 0: not done */
};
struct weir_reader_hold_filter {
    const char *scope;          /* that count in the scope of that name; NULL: any */
    enum weir_hold_state state; /* NONE: any */
};
typedef void weir_reader_hold_fn(void *ctx, const struct weir_reader_hold *hold);
/* Holds in the order of their ids. rows_max bounds the rows looked at, so a page may give none. */
WEIR_MUST_USE enum weir_reader_next weir_reader_holds(struct weir_reader *reader,
                                                      const struct weir_reader_hold_filter *filter,
                                                      struct weir_reader_cursor *cursor,
                                                      uint32_t rows_max, weir_reader_hold_fn *each,
                                                      void *ctx);
/* One hold. END: it was not found; MORE: it was given to each. */
WEIR_MUST_USE enum weir_reader_next weir_reader_hold(struct weir_reader *reader, uint64_t id,
                                                     weir_reader_hold_fn *each, void *ctx);

struct weir_reader_usage {
    const char *scope, *upstream, *model; /* "?": its row is gone; upstream, model: "other" too */
    int64_t utc_hour;                     /* hours since 1970-01-01T00:00Z */
    int64_t requests;
    int64_t input_tok, cached_tok, cache_write_tok, output_tok;
    int64_t estimated_tok, late_tok, unmatched_tok; /* parts of input + output by how they came */
};
struct weir_reader_usage_filter {
    const char *scope;          /* NULL: all */
    int64_t from_hour, to_hour; /* from <= utc_hour < to */
};
typedef void weir_reader_usage_fn(void *ctx, const struct weir_reader_usage *usage);
/* Rows in the order of hour, scope, upstream, model. */
WEIR_MUST_USE enum weir_reader_next weir_reader_usage(struct weir_reader *reader,
                                                      const struct weir_reader_usage_filter *filter,
                                                      struct weir_reader_cursor *cursor,
                                                      uint32_t rows_max, weir_reader_usage_fn *each,
                                                      void *ctx);

struct weir_reader_change {
    int64_t seq;    /* of the journal row */
    uint32_t index; /* of the record in it, from 0 */
    int64_t wall_s;
    const char *scope; /* name of the first of the chain */
    const struct weir_journal_record *record;
};
typedef void weir_reader_change_fn(void *ctx, const struct weir_reader_change *change);
/* The records of the journal, oldest first; set cursor to {.begun = true, .at = {seq}} to begin
 * after a row. rows_max bounds the records: the page ends with the row that reaches it. A damaged
 * row is a FAULT; the cursor is then past it. */
WEIR_MUST_USE enum weir_reader_next weir_reader_journal(struct weir_reader *reader,
                                                        struct weir_reader_cursor *cursor,
                                                        uint32_t rows_max,
                                                        weir_reader_change_fn *each, void *ctx);

#endif
