/* What the tests of the SQLite store share: a ledger file in a folder of its own, operations that
 * are waited for, and numbers read from the file by a connection beside the store's. */
#ifndef WEIR_TESTS_STORE_SQLITE_RIG_H
#define WEIR_TESTS_STORE_SQLITE_RIG_H

#include <poll.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/store.h"
#include "store/verify.h"
#include "support/check.h"

#define RIG_START_S 1800000000 /* the first wall time: some hour of 2027 */

struct rig {
    char folder[64], path[96];
    struct weir_sqlite_config config;
    struct weir_store *st;
    char error_text[1024];
};

static const char *rig_vfs;    /* for all stores of the program; NULL: SQLite's own */
static int64_t rig_wall_now_s; /* atomic accesses: the store's thread reads it */
static pthread_mutex_t rig_said_lock = PTHREAD_MUTEX_INITIALIZER;
static char rig_said[8192];

static int64_t rig_wall_s(void)
{
    return __atomic_load_n(&rig_wall_now_s, __ATOMIC_RELAXED);
}

static inline void rig_wall_set(int64_t wall_s)
{
    __atomic_store_n(&rig_wall_now_s, wall_s, __ATOMIC_RELAXED);
}

static void rig_say(enum weir_store_say level, const char *text)
{
    pthread_mutex_lock(&rig_said_lock);
    size_t used = strlen(rig_said);
    snprintf(rig_said + used, sizeof rig_said - used, "%d %s\n", level, text);
    pthread_mutex_unlock(&rig_said_lock);
}

static inline bool rig_heard(const char *part)
{
    pthread_mutex_lock(&rig_said_lock);
    bool heard = strstr(rig_said, part) != NULL;
    pthread_mutex_unlock(&rig_said_lock);
    return heard;
}

#define RIG_HEARD(part)                                                                            \
    do {                                                                                           \
        if (!rig_heard(part))                                                                      \
            fail_msg("%s:%d: not said: %s; said:\n%s", __FILE__, __LINE__, part, rig_said);        \
    } while (0)

static inline void rig_forget_said(void)
{
    pthread_mutex_lock(&rig_said_lock);
    rig_said[0] = '\0';
    pthread_mutex_unlock(&rig_said_lock);
}

static inline void rig_new(struct rig *r)
{
    *r = (struct rig){.folder = "/tmp/weir-sqlite-XXXXXX"};
    CHECK(mkdtemp(r->folder) != NULL);
    snprintf(r->path, sizeof r->path, "%s/ledger.db", r->folder);
    r->config = (struct weir_sqlite_config){.path = r->path,
                                            .scopes_max = 64,
                                            .holds_max = 4096,
                                            .finished_keep = 64,
                                            .keep_finished_s = 86400,
                                            .keep_journal_s = 7 * 86400,
                                            .keep_usage_s = 400 * 86400,
                                            .wall_s = rig_wall_s,
                                            .say = rig_say,
                                            .vfs = rig_vfs};
    rig_wall_set(RIG_START_S);
    rig_forget_said();
}

static inline bool rig_try_open(struct rig *r)
{
    r->st = weir_sqlite_store_open(&r->config, r->error_text, sizeof r->error_text);
    return r->st != NULL;
}

static inline void rig_open(struct rig *r)
{
    if (!rig_try_open(r))
        fail_msg("%s", r->error_text);
}

/* What is in the file has to be right to the token. */
static inline void rig_verify(const struct rig *r)
{
    struct weir_verify_report report;
    char error_text[1024];
    if (!weir_verify(r->path, &report, error_text, sizeof error_text))
        fail_msg("verify: %s", error_text);
    if (report.wrong != 0)
        fail_msg("verify: %lld findings, the first: %s", (long long)report.wrong,
                 report.findings[0]);
}

static inline void rig_close(struct rig *r)
{
    weir_store_close(r->st);
    r->st = NULL;
    rig_verify(r);
}

static inline void rig_reopen(struct rig *r)
{
    rig_close(r);
    rig_open(r);
}

static inline void rig_remove(struct rig *r, const char *end)
{
    char path[128];
    snprintf(path, sizeof path, "%s%s", r->path, end);
    unlink(path);
}

static inline void rig_end(struct rig *r)
{
    if (r->st)
        rig_close(r);
    static const char *const ends[] = {"", "-wal", "-shm", ".lock", ".sync", ".copy"};
    for (size_t i = 0; i < WEIR_COUNT(ends); i++)
        rig_remove(r, ends[i]);
    CHECK_INT(rmdir(r->folder), 0); /* nothing else was left behind */
}

/* The first number of the first row; reads beside the store. */
static inline int64_t rig_number_of(const char *path, const char *sql)
{
    sqlite3 *db;
    sqlite3_stmt *row;
    CHECK_INT(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_URI, NULL), SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    if (sqlite3_prepare_v2(db, sql, -1, &row, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    CHECK_INT(sqlite3_step(row), SQLITE_ROW);
    int64_t number = sqlite3_column_int64(row, 0);
    sqlite3_finalize(row);
    sqlite3_close(db);
    return number;
}

static inline int64_t rig_number(const struct rig *r, const char *sql)
{
    return rig_number_of(r->path, sql);
}

/* The same from the file alone, as if its log were lost. */
static inline int64_t rig_number_in_file(const struct rig *r, const char *sql)
{
    char uri[128];
    snprintf(uri, sizeof uri, "file:%s?immutable=1", r->path);
    return rig_number_of(uri, sql);
}

static inline void rig_sql(const struct rig *r, const char *sql)
{
    sqlite3 *db;
    char *wrong = NULL;
    CHECK_INT(sqlite3_open_v2(r->path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    if (sqlite3_exec(db, sql, NULL, NULL, &wrong) != SQLITE_OK)
        fail_msg("%s: %s", sql, wrong);
    sqlite3_close(db);
}

static inline struct weir_store_op rig_op(enum weir_ledger_kind kind, uint32_t scope, uint64_t hold,
                                          int64_t tok)
{
    return (struct weir_store_op){.ledger = {.kind = kind,
                                             .scope = scope,
                                             .parent = WEIR_NONE,
                                             .hold = hold,
                                             .amount_tok = tok},
                                  .tag = hold * 10 + (uint64_t)kind,
                                  .deadline_ns = WEIR_NEVER_NS,
                                  .is_configured = true};
}

/* The next answer; waits for it. */
static inline struct weir_store_answer rig_answer(struct rig *r)
{
    struct weir_store_answer answer;
    struct pollfd p = {.fd = weir_store_fd(r->st), .events = POLLIN};
    while (weir_store_collect(r->st, 1, &answer, 1) == 0)
        if (poll(&p, 1, 20000) != 1)
            fail_msg("no answer within 20 s");
    return answer;
}

static inline enum weir_ledger_result rig_run(struct rig *r, const struct weir_store_op *op)
{
    CHECK(weir_store_submit(r->st, op));
    struct weir_store_answer answer = rig_answer(r);
    CHECK_INT(answer.tag, op->tag);
    CHECK_INT(answer.kind, op->ledger.kind);
    CHECK_INT(answer.hold, op->ledger.hold);
    return answer.result;
}

static inline enum weir_ledger_result rig_do(struct rig *r, enum weir_ledger_kind kind,
                                             uint32_t scope, uint64_t hold, int64_t tok)
{
    struct weir_store_op op = rig_op(kind, scope, hold, tok);
    return rig_run(r, &op);
}

#define RIG_DO(r, kind, scope, hold, tok, result)                                                  \
    CHECK_STR(weir_ledger_result_name(rig_do(r, WEIR_LEDGER_##kind, scope, hold, tok)),            \
              weir_ledger_result_name(WEIR_LEDGER_##result))

/* Defines a scope by name; granted below 0: unlimited. */
static inline uint32_t rig_scope(struct rig *r, const char *name, uint32_t parent, int64_t granted)
{
    uint32_t slot = weir_store_scope(r->st, name);
    CHECK(slot != WEIR_NONE);
    struct weir_store_op op = rig_op(WEIR_LEDGER_SCOPE, slot, 0, granted < 0 ? 0 : granted);
    op.ledger.parent = parent;
    op.ledger.unlimited = granted < 0;
    CHECK_STR(weir_ledger_result_name(rig_run(r, &op)), "done");
    return slot;
}

static inline struct weir_ledger_totals rig_totals(struct rig *r, uint32_t slot)
{
    struct weir_ledger_totals totals;
    CHECK(weir_store_totals(r->st, slot, &totals));
    return totals;
}

#define RIG_TOTALS(r, slot, reserved, committed, lapsed)                                           \
    do {                                                                                           \
        struct weir_ledger_totals rig_t = rig_totals(r, slot);                                     \
        CHECK_INT(rig_t.reserved_tok, reserved);                                                   \
        CHECK_INT(rig_t.committed_tok, committed);                                                 \
        CHECK_INT(rig_t.lapsed_tok, lapsed);                                                       \
    } while (0)

#endif
