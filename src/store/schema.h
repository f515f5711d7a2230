/* schema: the tables of a ledger file, for what writes it and for what reads it.
 *
 * A file says that it is one by SQLite's application id ("weir" in ASCII), and which form it has by
 * its user version. Names of scopes and labels are kept once and named by number elsewhere. Times
 * are unix seconds. Holds: ids are unsigned and kept as the signed number of the same 64 bits; so
 * are windows. States are the numbers of enum weir_hold_state.
 *
 * Source: docs/ledger.md, "The file". */
#ifndef WEIR_STORE_SCHEMA_H
#define WEIR_STORE_SCHEMA_H

#include <inttypes.h>

#include "core/ledger.h"

#define WEIR_SCHEMA_APPLICATION 0x77656972
#define WEIR_SCHEMA_VERSION 1

/* The line of the lock file beside a ledger: its epoch, the last row of its journal (int64_t), and
 * the process that wrote it (int). */
#define WEIR_SCHEMA_LOCK_PRINT "weir ledger: epoch %" PRIu64 " seq %" PRId64 " pid %d"
#define WEIR_SCHEMA_LOCK_SCAN "weir ledger: epoch %" SCNu64 " seq %" SCNd64 " pid %d"

_Static_assert(WEIR_HOLD_HELD == 1 && WEIR_HOLD_SETTLED == 2 && WEIR_HOLD_VOID == 3 &&
                   WEIR_HOLD_LAPSED == 4 && WEIR_HOLD_LATE == 5,
               "files keep these numbers");

#define WEIR_SCHEMA_AMOUNTS                                                                        \
    "granted INTEGER NOT NULL, reserved INTEGER NOT NULL, committed INTEGER NOT NULL, "            \
    "lapsed INTEGER NOT NULL, overrun INTEGER NOT NULL, cut INTEGER NOT NULL, "                    \
    "raised INTEGER NOT NULL, lowered INTEGER NOT NULL, unmatched INTEGER NOT NULL, "              \
    "refunded INTEGER NOT NULL, "

/* meta     epoch: of the present or last run; created: when; wall: its start; base_seq: the last row of the
 *          journal that was folded into base; low: no hold with a lower id is held;
 *          proof: a number that was written to see whether writing works again
 * scope    parent: NULL for a root; configured: the grant that the configuration gave last, NULL:
 *          never; seen: when it was last defined
 * balance  granted: WEIR_BALANCE_MAX when unlimited; purged: part of committed whose holds have no
 *          row any more
 * hold     chain: pairs of scope and window as variable-length integers, leaf first. Held ones
 *          come and go with every request, so they have no index: they lie at or above meta low
 * journal  n, crc, data: see journal.h; seq goes up by one from row to row
 * base     the balances as they were before the first row of the journal */
#define WEIR_SCHEMA_SQL                                                                            \
    "CREATE TABLE meta(k TEXT PRIMARY KEY, v INTEGER NOT NULL) STRICT;"                            \
    "CREATE TABLE scope(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, parent INTEGER, "       \
    "granted INTEGER NOT NULL, configured INTEGER, unlimited INTEGER NOT NULL, "                   \
    "lapse_refunds INTEGER NOT NULL, window INTEGER NOT NULL, seen INTEGER NOT NULL) STRICT;"      \
    "CREATE TABLE balance(scope INTEGER, window INTEGER, " WEIR_SCHEMA_AMOUNTS                     \
    "purged INTEGER NOT NULL, PRIMARY KEY(scope, window)) STRICT, WITHOUT ROWID;"                  \
    "CREATE TABLE hold(id INTEGER PRIMARY KEY, key BLOB, chain BLOB NOT NULL, "                    \
    "asked INTEGER NOT NULL, booked INTEGER NOT NULL, state INTEGER NOT NULL, "                    \
    "created INTEGER NOT NULL, done INTEGER) STRICT;"                                              \
    "CREATE INDEX hold_lapsed ON hold(state) WHERE state = 4;"                                     \
    "CREATE TABLE journal(seq INTEGER PRIMARY KEY, wall INTEGER NOT NULL, n INTEGER NOT NULL, "    \
    "crc INTEGER NOT NULL, data BLOB NOT NULL) STRICT;"                                            \
    "CREATE TABLE base(scope INTEGER, window INTEGER, " WEIR_SCHEMA_AMOUNTS                        \
    "PRIMARY KEY(scope, window)) STRICT, WITHOUT ROWID;"                                           \
    "CREATE TABLE label(id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE) STRICT;"                \
    "CREATE TABLE usage(scope INTEGER, upstream INTEGER, model INTEGER, utc_hour INTEGER, "        \
    "requests INTEGER NOT NULL, input INTEGER NOT NULL, cached INTEGER NOT NULL, "                 \
    "cache_write INTEGER NOT NULL, output INTEGER NOT NULL, estimated INTEGER NOT NULL, "          \
    "late INTEGER NOT NULL, unmatched INTEGER NOT NULL, "                                          \
    "PRIMARY KEY(utc_hour, scope, upstream, model)) STRICT, WITHOUT ROWID;"                        \
    "INSERT INTO meta VALUES('base_seq', 0);"                                                      \
    "PRAGMA application_id=2003134834; PRAGMA user_version=1;"

/* When the file was last written: its last change, or the start of its last run. */
#define WEIR_SCHEMA_LAST_WALL                                                                      \
    "SELECT max(coalesce((SELECT wall FROM journal ORDER BY seq DESC LIMIT 1), 0), "               \
    "coalesce((SELECT v FROM meta WHERE k = 'wall'), 0))"

#endif
