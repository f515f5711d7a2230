/* sqlite_inside: what the files of the SQLite store share, and nobody else.
 *
 *   sqlite.c         the loop's side: submit, collect, deadlines, copies for readers; open and close
 *   sqlite_thread.c  the ledger thread: batches, outages
 *   sqlite_apply.c   one operation: the rules in memory, then its rows
 *   sqlite_rows.c    statements, and rows written and found
 *   sqlite_usage.c   the usage table and its labels
 *   sqlite_load.c    memory from the file, at the start and after an outage
 *   sqlite_keep.c    house-keeping: purge, fold, checkpoints
 *   sqlite_file.c    the file itself: lock, pragmas, form, what a fault means
 *
 *   loop                                                          ledger thread
 *   submit --> entry --> [ends] [others] --> batch of <= 1,024 --> rules in memory --> rows
 *            (collect wakes)
 *   collect <------------ [answered] <------------------------------------------- commit
 *
 * An entry is one operation from its submit until its answer is collected; entries are named by
 * index. The rings are guarded by `lock`, copies for readers by `copies_lock`; all else has one
 * owner, said below. Memory is the truth while the file follows: on a fault memory is thrown away
 * and read from the file again, so there is nothing to undo.
 *
 * Source: docs/ledger.md, "The file". */
#ifndef WEIR_STORE_SQLITE_INSIDE_H
#define WEIR_STORE_SQLITE_INSIDE_H

#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "core/heap.h"
#include "store/journal.h"
#include "store/schema.h"
#include "store/store.h"

#define SQL_BATCH_MAX 1024u
#define SQL_WALL_MAX_S (INT64_C(1) << 40) /* some 35,000 years from now */
#define SQL_TEXT_BYTES 512                /* of a message for people */
/* Holds that may finish or come to be known within a batch, beside those counted by the limits. */
#define SQL_HOLDS_SPARE (2 * SQL_BATCH_MAX + 2)

struct sql_entry {
    struct weir_store_op op; /* its text is the entry's own */
    uint64_t submitted_ns;
    uint32_t turn;                  /* SCOPE_FORGET: of weir_names_scope_leave */
    uint32_t older, newer;          /* among those in use, plus one */
    uint32_t next_free;             /* plus one */
    uint32_t scope;                 /* the answer's */
    enum weir_ledger_result result; /* the answer's */
    bool silent;                    /* nothing is told any more: the loop has told */
    _Atomic bool told;              /* RESERVE, EXTEND: who sets it first tells the answer */
};

/* Indices of entries; capacity: a power of two, as many as there are entries. */
struct sql_ring {
    uint32_t *items;
    size_t mask, head, tail;
};

/* A slot's row in the file. */
struct sql_slot {
    int64_t id;         /* 0: the slot has none */
    int64_t parent_id;  /* 0: a root */
    int64_t granted;    /* BALANCE_MAX: unlimited */
    int64_t configured; /* the same; -1: never */
    int64_t seen_s;
    uint64_t window;
    bool lapse_refunds;
    bool is_left; /* forgotten in this batch: the slot has no row once it is committed */
    bool is_touched;
};

enum sql_statement {
    SQL_BEGIN,
    SQL_COMMIT,
    SQL_ROLLBACK,
    SQL_META_GET,
    SQL_META_SET,
    SQL_HOLD_ADD,
    SQL_HOLD_REPLACE,
    SQL_HOLD_SET,
    SQL_HOLD_FIND,
    SQL_BALANCE_SET,
    SQL_BALANCE_ADD,
    SQL_BALANCE_FIND,
    SQL_SCOPE_BY_NAME,
    SQL_SCOPE_BY_ID,
    SQL_SCOPE_SET,
    SQL_SCOPE_SEEN,
    SQL_JOURNAL_ADD,
    SQL_LABEL_ADD,
    SQL_USAGE_ADD,
    SQL_STATEMENTS
};

struct sql_file {
    sqlite3 *db; /* NULL: not open */
    sqlite3_stmt *statements[SQL_STATEMENTS];
    bool in_transaction;
    struct stat wal;              /* which file its log is; st_ino 0: not known */
    bool is_log_lost;             /* that file has its name no more */
    int wal_frames;               /* after the last commit */
    int wal_moved;                /* of those, as of the last checkpoint */
    int64_t seq;                  /* of the last row of the journal, folded ones included */
    int64_t base_seq;             /* of the last one that was folded */
    int64_t scope_id;             /* the highest given */
    uint32_t labels;              /* those below are in the file */
    int fault;                    /* SQLite's extended code of the last failure */
    char trouble[SQL_TEXT_BYTES]; /* and what it means for people */
};

#define SQL_USAGE_KEYS 4
#define SQL_USAGE_SUMS 8

/* What a batch adds to one row of the usage table, in the order of its columns. */
struct sql_usage_sum {
    int64_t key[SQL_USAGE_KEYS];  /* scope, upstream, model, utc_hour */
    int64_t sums[SQL_USAGE_SUMS]; /* requests, input, cached, cache_write, output, estimated, late,
                                     unmatched */
};

/* id of a scope's row -> slot. Open addressing, at most half full. */
struct sql_ids {
    uint32_t *slots; /* plus one */
    uint32_t mask;
};

struct sql_copy {
    struct weir_ledger_totals totals;
    bool is_defined;
};

#define SQL_COMMITS_KEPT 512u

struct sql_store {
    struct weir_store base;
    struct weir_sqlite_config config;
    char *path, *lock_path, *vfs;
    char *real_path; /* without links; NULL: not known yet */
    int lock_fd;
    int own_fd; /* of the ledger file: locked, never read or written; -1: not open yet */

    /* Loop. */
    struct sql_entry *entries;
    uint32_t entries_max, entries_touched, entries_free, entries_now;
    uint32_t oldest, newest; /* in use, plus one */
    uint32_t others_now;     /* entries that are no ends of holds */
    uint32_t asks_now;       /* RESERVEs and EXTENDs not told */
    uint32_t held_now;       /* holds that may be held: each has room for its end */
    uint64_t now_ns;         /* of the last collect; 0: none yet */
    bool is_submitted;       /* since the last collect */
    struct weir_heap deadlines;

    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct sql_ring ends, others, answered;
    bool is_waiting; /* the thread: a signal is due */
    bool is_riding;  /* waiting, with ends of holds: only for another operation */
    bool is_closing;
    bool is_readable; /* the descriptor */
    pthread_t thread;
    bool is_started; /* loaded: names are the loop's alone from now on */

    _Atomic bool is_poisoned;

    pthread_mutex_t copies_lock;
    struct sql_copy *copies; /* by slot */
    struct weir_ledger_stats stats;
    struct weir_store_status status;
    uint64_t commits_ns[SQL_COMMITS_KEPT];

    /* Ledger thread. */
    struct sql_file file;
    struct weir_ledger *ledger;
    void *ledger_mem;
    size_t ledger_bytes;
    struct weir_ledger_limits limits;
    uint32_t live_max;                                 /* held and lapsed holds */
    uint64_t results_before[WEIR_LEDGER_RESULT_COUNT]; /* added to what memory counts: see */
    uint64_t clipped_before;                           /* sql_count_on */
    int64_t counted_before;
    struct weir_ledger_stats doubt; /* the counts, if the commit that failed is durable */
    struct sql_slot *slots;
    struct sql_ids ids;
    uint64_t hold_highest; /* a higher id was never seen, so the file cannot know it */
    uint64_t hold_low;     /* no lower id is held: meta low */
    uint32_t low_age;      /* holds since it was looked for */
    int64_t wall_s;        /* of the batch */

    uint64_t ride_until_ns; /* ends alone wait until then; 0: there are none */
    uint64_t busy_until_ns; /* what ends free is waited for: they wait for nothing */
    uint32_t batch[SQL_BATCH_MAX];
    uint32_t batch_count;
    int64_t seq_durable; /* of the journal, by the last commit that worked */
    int64_t doubt_seq;   /* the journal's last row by a commit that is not known to have worked;
                             INT64_MAX: none, so it did not */
    uint64_t voids[2 * SQL_BATCH_MAX]; /* holds told UNAVAILABLE: voided if they are durable */
    uint32_t voids_count, voids_begun; /* begun: the first ones are part of the batch */
    uint32_t *touched;                 /* slots whose copies are due */
    uint32_t touched_count;
    struct sql_usage_sum usage[SQL_BATCH_MAX];
    uint32_t usage_count;
    uint16_t usage_places[2 * SQL_BATCH_MAX]; /* hash of keys: index plus one */
    struct weir_journal_writer journal;
    uint8_t *journal_room;
    size_t journal_bytes;
    uint64_t rows_written, batches, ops;
    uint64_t backoff_ns;
    bool is_measured; /* the disk's sync */
    uint32_t tries;   /* to reload, since a batch was committed */
    uint32_t commits_count;

    /* House-keeping. */
    int64_t clock_wall_s;    /* when it was last looked at; before that: what the last run wrote */
    uint64_t clock_ns;       /* 0: not yet */
    uint64_t clock_doubt_ns; /* until then it is not believed */
    int64_t keep_wall_s;     /* of the present round of house-keeping, or the last one */
    bool keep_is_begun;      /* a round */
    int64_t past_wall_s;     /* of the last walk over all balances */
    uint64_t keep_late_ns;   /* then a piece is done although operations wait */
    int64_t scopes_wall_s;   /* of the last walk over all scopes */
    int64_t hold_cursor, balance_cursor[2], scope_cursor;
    uint32_t seen_cursor;
    int keep_step;           /* of the round */
    bool fold_is_off;        /* the journal cannot be replayed: said, left alone */
    uint64_t commit_last_ns; /* monotonic */

    void *memory; /* tables of the thread, and copies */
    size_t memory_bytes;
    void *queue_memory; /* entries, rings, deadlines */
    size_t queue_bytes;
};

uint64_t sql_clock_ns(void);                   /* CLOCK_MONOTONIC */
int sql_by_size(const void *a, const void *b); /* two uint64_t, for qsort */
int64_t sql_wall_s(const struct sql_store *s);
/* Clocks and files may say anything; times are added to and taken from each other. */
int64_t sql_wall_clip(int64_t wall_s);
void sql_say(const struct sql_store *s, enum weir_store_say level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- sqlite_file.c ---- */

/* Takes the lock file; error_text says who has it. */
WEIR_MUST_USE bool sql_lock_take(struct sql_store *s, char *error_text, size_t error_bytes);
/* What its line says; false: nothing that can be read. */
WEIR_MUST_USE bool sql_lock_read(const struct sql_store *s, uint64_t *epoch, int64_t *seq);
void sql_lock_write(const struct sql_store *s, uint64_t epoch, int64_t seq);
/* Lets go of the lock file and of the ledger's own lock. No connection may be open. */
void sql_lock_drop(struct sql_store *s);
/* Times the disk's sync, says it and puts it into the status. Takes about 20 ms at most, where one
 * sync does not take longer. Thread: ledger. */
void sql_sync_measure(struct sql_store *s);
/* Opens, checks the form and migrates. false: file.fault and file.trouble say why. */
WEIR_MUST_USE bool sql_file_open(struct sql_store *s);
void sql_file_close(struct sql_store *s);
/* Whether the file and its log still have their names. What is written to one that was deleted or
 * moved away is lost, and what stands in its place may be older. false: file.trouble says it. */
WEIR_MUST_USE bool sql_file_in_place(struct sql_store *s);
/* Notes that the file of a run that the lock file knows is not there; always false. */
bool sql_file_missing(struct sql_store *s, uint64_t epoch);
/* Notes the present failure with its meaning; always false. doing: "write a batch". */
bool sql_file_fault(struct sql_store *s, const char *doing);
/* The same for a fact that is not SQLite's own. */
bool sql_file_wrong(struct sql_store *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- sqlite_rows.c. Each false: file.fault and file.trouble say why. ---- */

WEIR_MUST_USE bool sql_rows_prepare(struct sql_store *s);
void sql_rows_finalize(struct sql_store *s);
/* Runs a statement that gives no row. */
WEIR_MUST_USE bool sql_run(struct sql_store *s, enum sql_statement which, const char *doing);
void sql_bind(sqlite3_stmt *statement, int first, const int64_t *values, size_t count);
/* The one value of a query or pragma. */
WEIR_MUST_USE bool sql_number(struct sql_store *s, const char *sql, int64_t *value);
/* Begins the transaction unless it has begun. */
WEIR_MUST_USE bool sql_begin(struct sql_store *s);
WEIR_MUST_USE bool sql_commit(struct sql_store *s);
void sql_rollback(struct sql_store *s);

/* false and file.fault 0: no such key. */
WEIR_MUST_USE bool sql_meta_get(struct sql_store *s, const char *key, int64_t *value);
WEIR_MUST_USE bool sql_meta_set(struct sql_store *s, const char *key, int64_t value);

struct sql_hold {
    uint64_t id;
    enum weir_hold_state state;
    int64_t asked, booked;
    uint8_t depth;
    struct weir_journal_link chain[WEIR_LEDGER_DEPTH_MAX];
};

struct sql_scope {
    struct sql_slot slot;
    char name[WEIR_STORE_NAME_MAX];
};

enum sql_found { SQL_FOUND, SQL_MISSING, SQL_FAULT };

WEIR_MUST_USE enum sql_found sql_hold_find(struct sql_store *s, uint64_t id, struct sql_hold *hold);
/* From a row of (id, asked, booked, state, chain) at the statement's first column. */
WEIR_MUST_USE bool sql_hold_read(struct sql_store *s, sqlite3_stmt *row, struct sql_hold *hold);
/* slot WEIR_NONE in the balance. */
WEIR_MUST_USE enum sql_found sql_balance_find(struct sql_store *s, int64_t scope_id,
                                              uint64_t window, struct weir_ledger_balance *balance);
WEIR_MUST_USE enum sql_found sql_scope_by_name(struct sql_store *s, const char *name,
                                               struct sql_scope *scope);
WEIR_MUST_USE enum sql_found sql_scope_by_id(struct sql_store *s, int64_t id,
                                             struct sql_scope *scope);

/* A new hold; replace: in the place of a finished one of that id, if there is one. */
WEIR_MUST_USE bool sql_hold_add(struct sql_store *s, const struct weir_ledger_record *record,
                                const uint8_t *key, bool replace);
WEIR_MUST_USE bool sql_hold_set(struct sql_store *s, const struct weir_ledger_record *record);
WEIR_MUST_USE bool sql_balances_set(struct sql_store *s); /* all that changed in memory */
WEIR_MUST_USE bool sql_scope_set(struct sql_store *s, uint32_t slot);
/* Once a batch that writes: meta low follows the holds, now and then. */
WEIR_MUST_USE bool sql_low_set(struct sql_store *s);
/* Adds a record to the batch's blob; the blob becomes rows by sql_journal_flush. */
WEIR_MUST_USE bool sql_journal_add(struct sql_store *s, const struct weir_journal_record *record);
WEIR_MUST_USE bool sql_journal_flush(struct sql_store *s);

/* The slot of a scope's row; WEIR_NONE: none. */
uint32_t sql_ids_find(const struct sql_store *s, int64_t id);
void sql_ids_set(struct sql_store *s, uint32_t slot); /* by slots[slot].id */
void sql_ids_drop(struct sql_store *s, uint32_t slot);
/* Links of memory as the file names them. */
void sql_links(const struct sql_store *s, const struct weir_ledger_record *record,
               struct weir_journal_link chain[WEIR_LEDGER_DEPTH_MAX]);
/* The copies of this slot are due. */
void sql_touch(struct sql_store *s, uint32_t slot);

/* ---- sqlite_apply.c ---- */

/* One operation: memory first, then its rows. The answer is in the entry. false: a fault. */
WEIR_MUST_USE bool sql_apply(struct sql_store *s, struct sql_entry *e);
/* Voids a hold that was told UNAVAILABLE. */
WEIR_MUST_USE bool sql_apply_void(struct sql_store *s, uint64_t hold);

/* ---- sqlite_usage.c ---- */

/* Adds what a settle used to the batch's sums: one row for all of a batch that go into it. */
void sql_usage_add(struct sql_store *s, int64_t scope_id, const struct weir_store_usage *usage,
                   int64_t amount_tok, enum weir_ledger_result result);
/* The use that an adjustment corrects, signed. */
void sql_usage_correct(struct sql_store *s, int64_t scope_id, const struct weir_store_usage *usage);
/* Writes the sums, and the labels that came since. */
WEIR_MUST_USE bool sql_usage_flush(struct sql_store *s);
/* Forgets the sums of a batch that failed. */
void sql_usage_drop(struct sql_store *s);

/* ---- sqlite_load.c ---- */

/* Names, slots, memory of a file just opened; a new epoch, in which older holds lapse. false:
 * file.trouble. */
WEIR_MUST_USE bool sql_load_start(struct sql_store *s);
/* Memory anew after a fault; slots stay. */
WEIR_MUST_USE bool sql_load_again(struct sql_store *s);
/* Brings the balances of a hold's chain and the hold into memory. *known false, and true: a scope of
 * its chain has no slot, or the hold is finished and a balance of it was purged. */
WEIR_MUST_USE bool sql_load_hold(struct sql_store *s, const struct sql_hold *hold, bool *known);
/* The balance of a slot in a window, from the file, which contradicts itself if it has none. */
WEIR_MUST_USE bool sql_load_balance(struct sql_store *s, uint32_t slot, uint64_t window);
void sql_ledger_drop(struct sql_store *s);
/* Counts go on from there: memory has just been loaded, which counts its scopes and live holds and
 * knows of nothing before. */
void sql_count_on(struct sql_store *s, const struct weir_ledger_stats *from);

/* ---- sqlite_keep.c ---- */

/* Does a piece of what is due. false: a fault. *more: there is more to do at once. */
WEIR_MUST_USE bool sql_keep(struct sql_store *s, bool *more);
/* What a round has done so far is in doubt: the next piece begins another. */
void sql_keep_restart(struct sql_store *s);
WEIR_MUST_USE bool sql_checkpoint(struct sql_store *s, int mode);

/* ---- sqlite_thread.c ---- */

void *sql_thread_main(void *store);
void sql_publish(struct sql_store *s);
void sql_publish_all(struct sql_store *s);

#endif
