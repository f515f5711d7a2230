/* callers: many logical callers of a store at once, a record of all they asked and were told, and the
 * comparison of that record with a ledger file after whatever happened to its writer.
 *
 * Up to 200 scopes with grants that bind: org > 9 teams > keys. A caller reserves on a key, perhaps
 * extends, then settles at most what it holds, or voids; and again. A scope that is spent is sometimes
 * given its next window. Nobody uses more than was set aside, so no balance may ever be above its
 * grant.
 *
 * The record lies in shared memory: it outlives the process that writes it. */
#ifndef WEIR_TESTS_CALLERS_H
#define WEIR_TESTS_CALLERS_H

#include <stdatomic.h>

#include "core/rng.h"
#include "store/store.h"

#define CALLERS_SCOPES 200 /* at most */
#define CALLERS_MAX 256

/* What a caller last said about its hold, or was told. */
enum said_stage {
    SAID_RESERVE,     /* asked: may be held */
    SAID_HELD,        /* told: is held */
    SAID_REFUSED,     /* told: is not there */
    SAID_UNAVAILABLE, /* told: nothing stays held, in the end */
    SAID_EXTEND,
    SAID_SETTLE,
    SAID_SETTLED,
    SAID_VOID,
    SAID_VOIDED
};

struct said {
    _Atomic uint32_t stage;
    uint32_t scope;     /* number of the scope, not its slot */
    int64_t held_tok;   /* what it was told to hold, or asked for first */
    int64_t extend_tok; /* EXTEND: what it asked for */
    int64_t actual_tok; /* SETTLE, SETTLED */
};

struct record {
    uint64_t epoch;         /* of the run; hold n of it is said[n - 1] */
    _Atomic uint64_t count; /* of said */
    _Atomic uint64_t told;  /* answers so far */
    _Atomic uint64_t rests; /* times that nobody had anything under way for a while */
    uint64_t refusals;      /* by the budget */
    uint64_t unavailable;   /* reserves and extends turned away or answered so */
    uint64_t said_max;
    uint64_t windows[CALLERS_SCOPES]; /* last one asked for */
    struct said said[];
};

struct record *record_new(uint64_t said_max);
void record_free(struct record *record);

struct callers;

/* Callers over an open store, with 11 .. CALLERS_SCOPES scopes; defines the scopes and waits until they are. record: begun anew but
 * for its windows. NULL: the store did not define them (it is poisoned from the start). */
struct callers *callers_new(struct weir_store *st, struct record *record, uint32_t count,
                            uint32_t scopes, uint64_t seed);
void callers_free(struct callers *callers);
/* Of reserves and extends from now on; 10,000 at first. */
void callers_set_deadline(struct callers *callers, uint32_t deadline_ms);
/* Asks for all who have nothing under way, waits up to wait_ms for an answer and takes what came.
 * false: the record is full. */
bool callers_turn(struct callers *callers, int wait_ms);
/* Turns until every hold is over and every answer taken; at most so many milliseconds. false: not
 * by then. */
bool callers_finish(struct callers *callers, int limit_ms);
/* Turns until so many answers more came, at most so many milliseconds. */
bool callers_run(struct callers *callers, uint64_t answers, int limit_ms);

/* What a killed gateway leaves: a child opens the store over the usual disk, goes on until so many
 * answers came, and ends in the midst of it. */
void callers_killed(const char *path, struct record *record, uint64_t answers);

/* Removes a ledger with all that may lie beside it. */
void ledger_files_remove(const char *path);

/* Copies a ledger with what lies beside it; what is not there is removed at the other place. */
void ledger_copy(const char *from, const char *to);

/* Finishes, then asks nothing for so long: time for the store to keep house. false: not finished. */
bool callers_rest(struct callers *callers, int wait_ms);

/* How a file compares with the record of its last writer. */
struct comparison {
    uint64_t holds;      /* rows of that run */
    uint64_t lost;       /* told, but not in the file as told */
    uint64_t unasked;    /* in the file, but in no way asked for, or refused */
    uint64_t over_grant; /* balances above their grant */
    char first[256];     /* the first of these, in words; empty: none */
    int64_t purged_tok;  /* of all balances */
    int64_t base_seq;    /* rows of the journal up to this one are folded */
    int64_t older[WEIR_HOLD_STATE_COUNT], older_tok[WEIR_HOLD_STATE_COUNT]; /* rows of earlier runs
                                                                              and what they count */
};

struct compare_how {
    bool has_lapsed; /* a later run has begun, so what was held has lapsed */
    bool is_closed;  /* the writer ended in order: nothing that was unavailable is held */
    bool may_purge;  /* rows of finished holds may be gone */
};

/* Reads the file. Also holds it to weir_verify: its first finding is a `lost`. */
struct comparison compare_file(const char *path, const struct record *record,
                               struct compare_how how);

/* Usual settings of a store under test: path is kept. vfs: NULL for the usual one. Says nothing. Its
 * clock, and that of windows, is the record's: a second for each answer, so that house-keeping has
 * much to do. One record a process. */
struct weir_sqlite_config callers_config(const char *path, const char *vfs,
                                         const struct record *record);

#endif
