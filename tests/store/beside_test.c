/* What reads a ledger file while a store writes it: verify and every page are right at any moment, and
 * the writer's log does not grow for them. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "callers.h"
#include "store/reader.h"
#include "store/verify.h"
#include "support/check.h"

#define ROUNDS_MIN 20
#define ANSWERS_MIN 5000

struct beside {
    const char *path;
    _Atomic bool stop;
    _Atomic uint64_t rounds;
    uint64_t rows;
    int64_t wal_bytes_max;
    char wrong[512];
};

static void count_hold(void *ctx, const struct weir_reader_hold *hold)
{
    ((struct beside *)ctx)->rows += hold->depth > 0 && hold->state != WEIR_HOLD_NONE;
}

static void count_scope(void *ctx, const struct weir_reader_scope *scope)
{
    struct beside *b = ctx;
    b->rows++;
    if (!scope->has_balance)
        snprintf(b->wrong, sizeof b->wrong, "%s has no balance", scope->name);
}

static void count_change(void *ctx, const struct weir_reader_change *change)
{
    ((struct beside *)ctx)->rows += change->record->depth > 0;
}

static void look_once(struct beside *b)
{
    struct weir_verify_report report;
    char error[sizeof b->wrong] = "";
    struct weir_reader *reader = weir_reader_open(b->path, error, sizeof error);
    if (!reader) {
        memcpy(b->wrong, error, sizeof error);
        return;
    }
    struct weir_reader_cursor holds = {0}, scopes = {0}, changes = {0};
    struct weir_reader_hold_filter filter = {.state = WEIR_HOLD_HELD};
    struct weir_reader_facts facts = {0};
    enum weir_reader_next next;
    while ((next = weir_reader_holds(reader, &filter, &holds, 10, count_hold, b)) ==
           WEIR_READER_MORE)
        ;
    while (next == WEIR_READER_END &&
           (next = weir_reader_scopes(reader, NULL, &scopes, 10, count_scope, b)) ==
               WEIR_READER_MORE)
        next = WEIR_READER_END;
    while (next == WEIR_READER_END &&
           (next = weir_reader_journal(reader, &changes, 0, count_change, b)) == WEIR_READER_MORE)
        next = WEIR_READER_END;
    if (next == WEIR_READER_FAULT || !weir_reader_facts(reader, &facts))
        snprintf(b->wrong, sizeof b->wrong, "%s", weir_reader_trouble(reader));
    if (facts.wal_bytes > b->wal_bytes_max)
        b->wal_bytes_max = facts.wal_bytes;
    weir_reader_close(reader);
    if (!weir_verify(b->path, &report, error, sizeof error))
        memcpy(b->wrong, error, sizeof error);
    else if (report.wrong > 0)
        snprintf(b->wrong, sizeof b->wrong, "%s", report.findings[0]);
}

static void *look(void *ctx)
{
    struct beside *b = ctx;
    while (!atomic_load(&b->stop) && !b->wrong[0]) {
        look_once(b);
        atomic_fetch_add(&b->rounds, 1);
    }
    return NULL;
}

static void beside__a_store_at_work__every_look_is_right(void **state)
{
    (void)state;
    char folder[] = "/tmp/weir-beside-XXXXXX", path[64], error[512] = "";
    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/ledger.db", folder);
    struct record *record = record_new(400000);
    struct weir_sqlite_config config = callers_config(path, NULL, record);
    struct weir_store *st = weir_sqlite_store_open(&config, error, sizeof error);
    CHECK_MSG(st != NULL, "%s", error);
    struct callers *callers = callers_new(st, record, 64, 60, 1);
    CHECK(callers != NULL);
    struct beside b = {.path = path};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, look, &b) == 0);
    for (int i = 0; i < 200 && (atomic_load(&b.rounds) < ROUNDS_MIN ||
                                atomic_load(&record->told) < ANSWERS_MIN);
         i++)
        CHECK(callers_run(callers, 250, 10000));
    atomic_store(&b.stop, true);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_MSG(!b.wrong[0], "%s", b.wrong);
    CHECK(callers_finish(callers, 10000));
    print_message("# %llu looks at %llu rows during %llu answers, log of at most %lld bytes\n",
                  (unsigned long long)atomic_load(&b.rounds), (unsigned long long)b.rows,
                  (unsigned long long)atomic_load(&record->told), (long long)b.wal_bytes_max);
    CHECK(b.rows > 0);
    CHECK(b.wal_bytes_max < 64 << 20);
    weir_store_close(st);
    struct comparison end = compare_file(path, record, (struct compare_how){.is_closed = true});
    CHECK_MSG(!end.first[0], "%s", end.first);
    callers_free(callers);
    record_free(record);
    ledger_files_remove(path);
    CHECK(rmdir(folder) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(beside__a_store_at_work__every_look_is_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
