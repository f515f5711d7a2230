/* The way that loses: read what is left, decide, then write what was spent. Between the two, others
 * read the same. A fast disk makes it rare enough to pass every test; here a barrier between read
 * and write makes it certain. */
#include "cli/race.h"
#include "cli/race_threads.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#define NAIVE_BUSY_MS 60000 /* writers queue up behind one lock; SQLite's handler is not fair */

const char *const race_naive_files[RACE_NAIVE_FILES] = {"naive.db", "naive.db-wal", "naive.db-shm",
                                                        "naive.db-journal"};

struct naive {
    const struct race_plan *plan;
    sqlite3 **connections; /* by thread */
    pthread_barrier_t all_have_read;
    pthread_mutex_t lock; /* of what follows */
    struct race_outcome *outcome;
    struct race_error *error;
    bool failed;
};

static void naive_fail(struct naive *n, sqlite3 *db, const char *doing)
{
    pthread_mutex_lock(&n->lock);
    if (!n->failed)
        snprintf(n->error->text, sizeof n->error->text, "check, then write: %.150s: %.200s", doing,
                 db ? sqlite3_errmsg(db) : "out of memory");
    n->failed = true;
    pthread_mutex_unlock(&n->lock);
}

/* The first column of the first row; false on any error. Seat 0 is the grant itself, the seats
 * count from 1. */
static bool naive_ask(sqlite3 *db, const char *sql, int64_t seat, int64_t *answer)
{
    sqlite3_stmt *statement = NULL;
    bool done = sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK &&
                sqlite3_bind_int64(statement, 1, seat) == SQLITE_OK &&
                sqlite3_step(statement) == SQLITE_ROW;
    if (done)
        *answer = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return done;
}

static bool naive_write(sqlite3 *db, int64_t seat, int64_t tokens)
{
    char sql[160];
    snprintf(sql, sizeof sql, "UPDATE budget SET spent = spent + %lld WHERE seat IN (0, %lld)",
             (long long)tokens, (long long)seat);
    return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK;
}

static void naive_call(void *ctx, uint32_t index)
{
    struct naive *n = ctx;
    sqlite3 *db = n->connections[index];
    int64_t seat = n->plan->seat_tok ? (int64_t)index + 1 : 0;
    int64_t left_tok = 0, seat_left_tok = 0;
    static const char *const left = "SELECT granted - spent FROM budget WHERE seat = ?1";
    if (!naive_ask(db, left, 0, &left_tok) || !naive_ask(db, left, seat, &seat_left_tok))
        naive_fail(n, db, "reading the balance");
    bool fits = left_tok >= n->plan->estimate_tok && seat_left_tok >= n->plan->estimate_tok;
    pthread_barrier_wait(&n->all_have_read);
    if (fits && !naive_write(db, seat, n->plan->estimate_tok))
        naive_fail(n, db, "writing the balance");
    pthread_mutex_lock(&n->lock);
    n->outcome->admitted += fits;
    n->outcome->refused += !fits;
    pthread_mutex_unlock(&n->lock);
}

/* The budgets as they stand at the last admissible moment. */
static bool naive_prepare(struct naive *n, sqlite3 *db)
{
    const struct race_plan *plan = n->plan;
    char sql[512];
    int used = snprintf(sql, sizeof sql,
                        "BEGIN; CREATE TABLE budget(seat INTEGER PRIMARY KEY, granted INTEGER, "
                        "spent INTEGER) STRICT; INSERT INTO budget VALUES(0, %lld, %lld);",
                        (long long)plan->granted_tok, (long long)race_before_tok(plan));
    if (plan->seat_tok)
        used += snprintf(sql + used, sizeof sql - (size_t)used,
                         "WITH RECURSIVE n(seat) AS (SELECT 1 UNION ALL SELECT seat + 1 FROM n "
                         "WHERE seat < %u) INSERT INTO budget SELECT seat, %lld, %lld FROM n;",
                         plan->threads, (long long)plan->seat_tok,
                         (long long)race_seat_before_tok(plan));
    snprintf(sql + used, sizeof sql - (size_t)used, "COMMIT");
    return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK;
}

static bool naive_open(struct naive *n)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", n->plan->dir, race_naive_files[0]);
    for (uint32_t i = 0; i < n->plan->threads; i++) {
        sqlite3 **db = &n->connections[i];
        if (sqlite3_open_v2(path, db,
                            SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                            NULL) != SQLITE_OK ||
            sqlite3_busy_timeout(*db, NAIVE_BUSY_MS) != SQLITE_OK ||
            sqlite3_exec(*db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL", NULL, NULL,
                         NULL) != SQLITE_OK) {
            naive_fail(n, *db, path);
            return false;
        }
        if (i == 0 && !naive_prepare(n, *db)) {
            naive_fail(n, *db, "making the table");
            return false;
        }
    }
    return true;
}

static void naive_count(struct naive *n)
{
    int64_t after_tok = 0, over = 0;
    sqlite3 *db = n->connections[0];
    if (!naive_ask(db, "SELECT spent FROM budget WHERE seat = ?1", 0, &after_tok) ||
        !naive_ask(db, "SELECT count(*) FROM budget WHERE seat > ?1 AND spent > granted", 0, &over))
        naive_fail(n, db, "reading the result");
    n->outcome->before_tok = race_before_tok(n->plan);
    n->outcome->after_tok = after_tok;
    n->outcome->seats_over = (uint32_t)over;
}

bool race_naive(const struct race_plan *plan, struct race_outcome *outcome,
                struct race_error *error)
{
    struct naive n = {.plan = plan, .outcome = outcome, .error = error};
    *outcome = (struct race_outcome){0};
    n.connections = calloc(plan->threads, sizeof(sqlite3 *));
    pthread_mutex_init(&n.lock, NULL);
    bool has_barrier = pthread_barrier_init(&n.all_have_read, NULL, plan->threads) == 0;
    if (!n.connections || !has_barrier) {
        naive_fail(&n, NULL, "starting");
    } else if (naive_open(&n)) {
        if (!race_run(plan->threads, naive_call, &n))
            naive_fail(&n, NULL, "starting the threads");
        else if (!n.failed)
            naive_count(&n);
    }
    for (uint32_t i = 0; n.connections && i < plan->threads; i++)
        sqlite3_close(n.connections[i]);
    free(n.connections);
    if (has_barrier)
        pthread_barrier_destroy(&n.all_have_read);
    pthread_mutex_destroy(&n.lock);
    return !n.failed;
}
