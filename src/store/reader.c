#include "store/reader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "store/reader_inside.h"
#include "store/schema.h"

/* Faults. */

/* What to do about it; the path and SQLite's words stand before. */
static const char *advice(int code)
{
    switch (code & 0xff) {
    case SQLITE_NOTADB:
        return "this is not a ledger file, or its beginning is overwritten: look at the path, or "
               "restore a backup";
    case SQLITE_CORRUPT:
    case SQLITE_FORMAT:
        return "the file is damaged: keep a copy of it, and restore a backup";
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return "another program has locked it: try again when that one is done";
    case SQLITE_IOERR:
        return "look at the disk (full, or failing: `dmesg` says)";
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return "the file, its -wal, its -shm and their folder have to be open to this user: use "
               "the one "
               "that the gateway runs as, or copy all three to a folder of your own";
    case SQLITE_NOMEM:
        return "there is not enough memory";
    case SQLITE_ERROR: /* no such table */
    case SQLITE_SCHEMA:
        return "the tables of a ledger are not all there: restore a backup";
    default:
        return "the file cannot be used";
    }
}

bool reader_fault(struct weir_reader *reader, int code)
{
    /* The connection knows more words, if it is about its last call. */
    const char *words = sqlite3_errstr(code);
    if (reader->db && (sqlite3_errcode(reader->db) & 0xff) == (code & 0xff))
        words = sqlite3_errmsg(reader->db);
    snprintf(reader->trouble, sizeof reader->trouble, "%.200s: %.150s; %s", reader->path, words,
             advice(code));
    return false;
}

sqlite3_stmt *reader_prepare(struct weir_reader *reader, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(reader->db, sql, -1, &statement, NULL);
    if (code != SQLITE_OK)
        reader_fault(reader, code);
    return statement;
}

bool reader_finish(struct weir_reader *reader, sqlite3_stmt *statement, int code)
{
    bool fine = code == SQLITE_ROW || code == SQLITE_DONE;
    if (!fine)
        reader_fault(reader, code);
    sqlite3_finalize(statement);
    return fine;
}

const char *weir_reader_trouble(const struct weir_reader *reader)
{
    return reader->trouble;
}

/* Small queries. */

static bool read_number(struct weir_reader *reader, const char *sql, int64_t *number)
{
    sqlite3_stmt *statement = reader_prepare(reader, sql);
    if (!statement)
        return false;
    int code = sqlite3_step(statement);
    *number = code == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : 0;
    return reader_finish(reader, statement, code);
}

const char *reader_scope_name(struct weir_reader *reader, int64_t scope_id)
{
    if (!reader->name_of)
        reader->name_of = reader_prepare(reader, "SELECT name FROM scope WHERE id = ?");
    if (!reader->name_of)
        return "?";
    sqlite3_reset(reader->name_of);
    sqlite3_bind_int64(reader->name_of, 1, scope_id);
    const char *name = NULL;
    if (sqlite3_step(reader->name_of) == SQLITE_ROW)
        name = (const char *)sqlite3_column_text(reader->name_of, 0);
    return name ? name : "?";
}

int64_t reader_amount(sqlite3_stmt *statement, int column)
{
    int64_t amount = sqlite3_column_int64(statement, column);
    return weir_max_i64(-WEIR_BALANCE_MAX, weir_min_i64(WEIR_BALANCE_MAX, amount));
}

void reader_amounts(sqlite3_stmt *statement, int first, struct weir_balance_row *row)
{
    int64_t *const amounts[] = {&row->granted_tok, &row->reserved_tok, &row->committed_tok,
                                &row->lapsed_tok,  &row->overrun_tok,  &row->cut_tok,
                                &row->raised_tok,  &row->lowered_tok,  &row->unmatched_tok,
                                &row->refunded_tok};
    for (int i = 0; i < (int)WEIR_COUNT(amounts); i++)
        *amounts[i] = reader_amount(statement, first + i);
}

/* Opening. */

/* What the file system alone tells. false: *why says it. */
static bool file_ok(const char *path, char *why, size_t why_bytes)
{
    struct stat status;
    if (stat(path, &status) != 0) {
        if (errno == ENOENT || errno == ENOTDIR)
            snprintf(why, why_bytes,
                     "%.200s: there is no such file; `weir serve` and `weir ledger init` make one",
                     path);
        else
            snprintf(why, why_bytes, "%.200s: %s", path, strerror(errno));
        return false;
    }
    if (!S_ISREG(status.st_mode)) {
        snprintf(why, why_bytes, "%.200s: not a file%s", path,
                 S_ISDIR(status.st_mode) ? " but a folder; the ledger is usually ledger.db in it"
                                         : "");
        return false;
    }
    if (status.st_size == 0) {
        snprintf(
            why, why_bytes,
            "%.200s: the file is empty; `weir serve` and `weir ledger init` make a ledger of it",
            path);
        return false;
    }
    return true;
}

static bool version_ok(struct weir_reader *reader)
{
    int64_t application, version;
    if (!read_number(reader, "PRAGMA application_id", &application) ||
        !read_number(reader, "PRAGMA user_version", &version))
        return false;
    if (application != WEIR_SCHEMA_APPLICATION) {
        snprintf(reader->trouble, sizeof reader->trouble,
                 "%.200s: a database, but of another program: not a ledger", reader->path);
        return false;
    }
    if (version == WEIR_SCHEMA_VERSION)
        return true;
    snprintf(reader->trouble, sizeof reader->trouble,
             "%.200s: the file has form %lld, this weir reads form %d; %s", reader->path,
             (long long)version, WEIR_SCHEMA_VERSION,
             version > WEIR_SCHEMA_VERSION ? "use the newer weir that wrote it"
                                           : "`weir serve` brings it up to date");
    return false;
}

static bool reader_begin(struct weir_reader *reader)
{
    int code = sqlite3_open_v2(reader->path, &reader->db,
                               SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL);
    if (code != SQLITE_OK)
        return reader_fault(reader, code);
    sqlite3_busy_timeout(reader->db, 2000);
    /* The file may be anything: no function or view of its own runs, no cell is believed. */
    code = sqlite3_exec(reader->db, "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON",
                        NULL, NULL, NULL);
    if (code != SQLITE_OK)
        return reader_fault(reader, code);
    return version_ok(reader);
}

struct weir_reader *weir_reader_open(const char *path, char *error_text, size_t error_bytes)
{
    if (!file_ok(path, error_text, error_bytes))
        return NULL;
    struct weir_reader *reader = calloc(1, sizeof *reader);
    if (reader)
        reader->path = strdup(path);
    if (!reader || !reader->path) {
        snprintf(error_text, error_bytes, "%.200s: there is not enough memory to open it", path);
        weir_reader_close(reader);
        return NULL;
    }
    if (!reader_begin(reader)) {
        snprintf(error_text, error_bytes, "%s", reader->trouble);
        weir_reader_close(reader);
        return NULL;
    }
    return reader;
}

void weir_reader_close(struct weir_reader *reader)
{
    if (!reader)
        return;
    sqlite3_finalize(reader->name_of);
    sqlite3_close(reader->db);
    free(reader->live);
    free(reader->path);
    free(reader);
}

/* Facts. */

static int64_t bytes_of(const char *path, const char *suffix)
{
    char name[4096 + 8];
    struct stat status;
    int bytes = snprintf(name, sizeof name, "%s%s", path, suffix);
    if (bytes < 0 || (size_t)bytes >= sizeof name || stat(name, &status) != 0)
        return 0;
    return status.st_size;
}

static bool count_states(struct weir_reader *reader, struct weir_reader_facts *facts)
{
    sqlite3_stmt *statement =
        reader_prepare(reader, "SELECT state, count(*) FROM hold GROUP BY state");
    if (!statement)
        return false;
    int code;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        int64_t state = sqlite3_column_int64(statement, 0);
        if (state >= 0 && state < WEIR_HOLD_STATE_COUNT)
            facts->holds[state] = sqlite3_column_int64(statement, 1);
    }
    return reader_finish(reader, statement, code);
}

bool reader_facts_inside(struct weir_reader *reader, struct weir_reader_facts *facts)
{
    int64_t epoch = 0;
    *facts = (struct weir_reader_facts){.version = WEIR_SCHEMA_VERSION};
    const struct {
        const char *sql;
        int64_t *number;
    } queries[] = {
        {"SELECT v FROM meta WHERE k = 'epoch'", &epoch},
        {"SELECT v FROM meta WHERE k = 'created'", &facts->created_s},
        {WEIR_SCHEMA_LAST_WALL, &facts->wall_s},
        {"SELECT v FROM meta WHERE k = 'base_seq'", &facts->base_seq},
        {"SELECT min(seq) FROM journal", &facts->first_seq},
        {"SELECT max(seq) FROM journal", &facts->last_seq},
        {"SELECT count(*) FROM scope", &facts->scopes},
        {"SELECT count(*) FROM balance", &facts->balances},
    };
    for (size_t i = 0; i < WEIR_COUNT(queries); i++)
        if (!read_number(reader, queries[i].sql, queries[i].number))
            return false;
    facts->epoch = (uint64_t)epoch;
    return true;
}

bool weir_reader_facts(struct weir_reader *reader, struct weir_reader_facts *facts)
{
    int code = sqlite3_exec(reader->db, "BEGIN", NULL, NULL, NULL);
    if (code != SQLITE_OK)
        return reader_fault(reader, code);
    bool fine = reader_facts_inside(reader, facts) && count_states(reader, facts);
    sqlite3_exec(reader->db, "COMMIT", NULL, NULL, NULL);
    facts->file_bytes = bytes_of(reader->path, "");
    facts->wal_bytes = bytes_of(reader->path, "-wal");
    return fine;
}
