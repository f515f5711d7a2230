/* A disk that fails at every write in turn, is full, is taken away, and files that are not what they
 * should be: the store says so, loses nothing that it told, and goes on when the fault is over. */
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "callers.h"
#include "disk_vfs.h"
#include "store/verify.h"
#include "support/check.h"

#include <sqlite3.h>

#define SAID_MAX 400000
#define SCOPES 12
#define CALLERS 4

struct scene {
    char folder[64], path[96];
    struct record *record;
};

static struct scene scene_new(void)
{
    struct scene scene = {.folder = "/tmp/weir-fault-XXXXXX"};
    CHECK(mkdtemp(scene.folder) != NULL);
    snprintf(scene.path, sizeof scene.path, "%s/ledger.db", scene.folder);
    scene.record = record_new(SAID_MAX);
    disk_reset();
    return scene;
}

/* What the store says, counted. Its thread says it. */
static _Atomic int said_trouble, said_over;

static void count_said(enum weir_store_say level, const char *text)
{
    said_trouble += level == WEIR_STORE_SAY_ERROR;
    said_over += level == WEIR_STORE_SAY_INFO && strstr(text, "works again");
}

static void scene_free(struct scene *scene)
{
    disk_reset();
    ledger_files_remove(scene->path);
    CHECK_MSG(rmdir(scene->folder) == 0, "%s is not empty", scene->folder);
    record_free(scene->record);
}

static struct weir_store *open_store(const struct scene *scene, const char *vfs, char *error)
{
    struct weir_sqlite_config config = callers_config(scene->path, vfs, scene->record);
    config.finished_keep = 8;
    config.say = count_said;
    error[0] = 0;
    return weir_sqlite_store_open(&config, error, 512);
}

static void expect_right(const struct scene *scene, struct compare_how how, const char *note)
{
    struct comparison found = compare_file(scene->path, scene->record, how);
    CHECK_MSG(found.lost + found.unasked + found.over_grant == 0, "%s: %s", note, found.first);
}

/* Turns until the store is as wanted. false: not within the time. */
static bool turn_until(struct weir_store *st, struct callers *callers, bool available, int limit_ms)
{
    struct timespec begin, now;
    struct weir_store_status status;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        weir_store_status(st, &status);
        if (status.is_available == available)
            return true;
        if (!callers_turn(callers, 5))
            return false;
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 <
             limit_ms);
    return false;
}

/* One short run, the n-th operation of which fails once. false: none did. */
static bool play_broken(uint64_t n, enum disk_fault fault, uint64_t count)
{
    char error[512], note[64];
    snprintf(note, sizeof note, "operation %llu, fault %d", (unsigned long long)n, (int)fault);
    struct scene scene = scene_new();
    disk_break(n, count, fault);
    struct weir_store *st = open_store(&scene, DISK_VFS_NAME, error);
    if (!st) { /* then it said why, and works when it is asked again */
        CHECK_MSG(disk_faults() > 0, "%s: %s", note, error);
        CHECK_MSG(strstr(error, scene.path) != NULL, "%s: %s", note, error);
        disk_mend();
        st = open_store(&scene, DISK_VFS_NAME, error);
    }
    CHECK_MSG(st != NULL, "%s: %s", note, error);
    struct callers *callers = callers_new(st, scene.record, CALLERS, SCOPES, n);
    if (!callers) /* the scopes' own batch was hit */
        callers = callers_new(st, scene.record, CALLERS, SCOPES, n);
    CHECK_MSG(callers != NULL, "%s", note);
    CHECK_MSG(callers_run(callers, 40, 10000), "%s", note);
    CHECK_MSG(callers_finish(callers, 10000), "%s", note); /* it goes on, and books all */
    struct weir_store_status status;
    weir_store_status(st, &status);
    CHECK_MSG(status.is_available && !status.trouble[0], "%s: %s", note, status.trouble);
    bool fired = disk_faults() > 0;
    disk_mend();
    weir_store_close(st);
    expect_right(&scene, (struct compare_how){.is_closed = true}, note);
    callers_free(callers);
    scene_free(&scene);
    return fired;
}

static void fault__every_write_sync_or_truncate__nothing_told_is_missing(void **state)
{
    (void)state;
    uint64_t n = 1;
    while (play_broken(n, DISK_FAULT_ERROR, 1))
        CHECK(++n < 2000);
    print_message("# each of %llu operations failed once\n", (unsigned long long)n - 1);
    CHECK(n > 50);
}

/* The same for the start after a kill, in which what was held lapses. */
static void fault__any_write_of_a_start_after_a_kill__lapses_all_the_same(void **state)
{
    (void)state;
    struct scene left = scene_new();
    callers_killed(left.path, left.record, 60);
    struct comparison before = compare_file(left.path, left.record, (struct compare_how){0});
    CHECK_MSG(!before.first[0], "%s", before.first);
    uint64_t n = 1;
    for (bool fired = true; fired; n++) {
        char error[512], note[64];
        snprintf(note, sizeof note, "operation %llu", (unsigned long long)n);
        struct scene scene = scene_new();
        ledger_copy(left.path, scene.path);
        disk_break(n, 1, DISK_FAULT_ERROR);
        struct weir_store *st = open_store(&scene, DISK_VFS_NAME, error);
        if (!st) {
            CHECK_MSG(disk_faults() > 0 && strstr(error, scene.path), "%s: %s", note, error);
            st = open_store(&scene, DISK_VFS_NAME, error);
        }
        CHECK_MSG(st != NULL, "%s: %s", note, error);
        weir_store_close(st);
        fired = disk_faults() > 0;
        struct comparison found =
            compare_file(scene.path, left.record, (struct compare_how){.has_lapsed = true});
        CHECK_MSG(!found.first[0], "%s: %s", note, found.first);
        scene_free(&scene);
        CHECK(n < 500);
    }
    print_message("# each of %llu operations failed once\n", (unsigned long long)n - 2);
    CHECK(n > 10);
    scene_free(&left);
}

/* For as long as the disk is full or broken: closed, and said; afterwards all is as it was told. */
static void fault__that_lasts__closes_the_ledger_and_is_said_until_it_is_over(void **state)
{
    (void)state;
    static const struct {
        enum disk_fault fault;
        const char *words;
    } rows[] = {{DISK_FAULT_FULL, "full"}, {DISK_FAULT_ERROR, "disk"}};
    for (size_t i = 0; i < WEIR_COUNT(rows); i++)
        for (uint64_t skip = 1; skip <= 40; skip += 13) {
            char error[512];
            struct scene scene = scene_new();
            struct weir_store *st = open_store(&scene, DISK_VFS_NAME, error);
            CHECK_MSG(st != NULL, "%s", error);
            struct callers *callers = callers_new(st, scene.record, 4 * CALLERS, SCOPES, skip);
            CHECK(callers != NULL && callers_run(callers, 50, 10000));
            said_trouble = said_over = 0;
            disk_break(disk_ops() + skip, 0, rows[i].fault);
            CHECK_MSG(turn_until(st, callers, false, 10000), "row %zu, skip %llu", i,
                      (unsigned long long)skip);
            struct weir_store_status status;
            weir_store_status(st, &status);
            CHECK_MSG(strstr(status.trouble, scene.path) != NULL &&
                          strstr(status.trouble, rows[i].words) != NULL,
                      "%s", status.trouble);
            uint64_t unavailable = scene.record->unavailable;
            for (int turn = 0; turn < 50; turn++)
                CHECK(callers_turn(callers, 1));
            CHECK(scene.record->unavailable > unavailable);
            CHECK_INT(said_trouble, 1);
            CHECK_INT(said_over, 0);
            disk_mend();
            CHECK_MSG(turn_until(st, callers, true, 15000), "row %zu, skip %llu", i,
                      (unsigned long long)skip);
            weir_store_status(st, &status);
            CHECK_STR(status.trouble, "");
            CHECK_INT(said_trouble, 1);
            CHECK_INT(said_over, 1);
            CHECK(callers_run(callers, 50, 10000));
            CHECK(callers_finish(callers, 10000));
            weir_store_close(st);
            expect_right(&scene, (struct compare_how){.is_closed = true}, rows[i].words);
            callers_free(callers);
            scene_free(&scene);
        }
}

/* Faults of all kinds and lengths, one after the other, with deadlines so short that many asks are
 * answered by the clock while their batch is on its way. */
static void fault__again_and_again__the_books_are_right_in_the_end(void **state)
{
    (void)state;
    int rounds = getenv("WEIR_TEST_LONG") ? 200 : 20;
    const uint64_t seed = 20261130;
    char error[512], note[64];
    struct weir_rng rng;
    struct scene scene = scene_new();
    struct weir_store *st = open_store(&scene, DISK_VFS_NAME, error);
    CHECK_MSG(st != NULL, "%s", error);
    struct callers *callers = callers_new(st, scene.record, 32, SCOPES, seed);
    CHECK(callers != NULL);
    weir_rng_seed(&rng, seed, 5);
    /* On a machine that is busy elsewhere a round may be over before the disk was asked. */
    for (int round = 0; round < rounds || (disk_faults() <= 10 && round < 10 * rounds); round++) {
        snprintf(note, sizeof note, "seed %llu, round %d", (unsigned long long)seed, round);
        callers_set_deadline(callers, (uint32_t)weir_rng_between(&rng, 0, 3));
        disk_break(disk_ops() + weir_rng_between(&rng, 1, 100), weir_rng_below(&rng, 6),
                   weir_chance(&rng, 1, 2) ? DISK_FAULT_ERROR : DISK_FAULT_FULL);
        for (uint64_t turns = weir_rng_between(&rng, 1, 60); turns > 0; turns--)
            CHECK_MSG(callers_turn(callers, 2), "%s", note);
        disk_mend();
        CHECK_MSG(turn_until(st, callers, true, 15000), "%s", note);
    }
    CHECK_MSG(callers_finish(callers, 15000), "%s", note);
    print_message("# %llu answers, %llu of them unavailable, %llu faults\n",
                  (unsigned long long)atomic_load(&scene.record->told),
                  (unsigned long long)scene.record->unavailable, (unsigned long long)disk_faults());
    CHECK(scene.record->unavailable > 20 && disk_faults() > 10);
    weir_store_close(st);
    expect_right(&scene, (struct compare_how){.is_closed = true}, note);
    callers_free(callers);
    scene_free(&scene);
}

/* A stranger's transaction, longer than the store waits for it. */
static void fault__locked_by_a_stranger__waits_and_goes_on(void **state)
{
    (void)state;
    char error[512];
    struct scene scene = scene_new();
    struct weir_store *st = open_store(&scene, NULL, error);
    CHECK_MSG(st != NULL, "%s", error);
    struct callers *callers = callers_new(st, scene.record, CALLERS, SCOPES, 1);
    CHECK(callers != NULL && callers_run(callers, 50, 10000));
    sqlite3 *stranger;
    CHECK_INT(sqlite3_open(scene.path, &stranger), SQLITE_OK);
    sqlite3_busy_timeout(stranger, 5000);
    CHECK_INT(sqlite3_exec(stranger, "BEGIN EXCLUSIVE", NULL, NULL, NULL), SQLITE_OK);
    CHECK(turn_until(st, callers, false, 10000));
    struct weir_store_status status;
    weir_store_status(st, &status);
    CHECK_MSG(strstr(status.trouble, "locked") != NULL, "%s", status.trouble);
    CHECK_INT(sqlite3_exec(stranger, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(stranger);
    CHECK(turn_until(st, callers, true, 15000));
    CHECK(callers_run(callers, 50, 10000) && callers_finish(callers, 10000));
    weir_store_close(st);
    expect_right(&scene, (struct compare_how){.is_closed = true}, "locked");
    callers_free(callers);
    scene_free(&scene);
}

/* A run from start to end over the usual disk. */
static void play_whole(struct scene *scene, uint64_t answers, bool adopt)
{
    char error[512] = "";
    struct weir_sqlite_config config = callers_config(scene->path, NULL, scene->record);
    config.adopt = adopt;
    struct weir_store *st = weir_sqlite_store_open(&config, error, sizeof error);
    CHECK_MSG(st != NULL, "%s", error);
    struct callers *callers = callers_new(st, scene->record, CALLERS, SCOPES, answers);
    CHECK(callers != NULL && callers_run(callers, answers, 10000));
    CHECK(callers_finish(callers, 10000));
    callers_free(callers);
    weir_store_close(st);
}

/* As another user, in a child of its own; nothing to see when the tests do not run as root. */
static void fault__file_that_may_not_be_written__is_refused_with_its_name(void **state)
{
    (void)state;
    struct scene scene = scene_new();
    play_whole(&scene, 20, false);
    char lock[128];
    snprintf(lock, sizeof lock, "%s.lock", scene.path);
    CHECK(chmod(scene.folder, 0777) == 0 && chmod(lock, 0666) == 0 && chmod(scene.path, 0444) == 0);
    pid_t child = fork();
    if (child == 0) {
        char error[512];
        if (geteuid() != 0 || setegid(65534) != 0 || seteuid(65534) != 0)
            _exit(0);
        struct weir_store *st = open_store(&scene, NULL, error);
        bool right = !st && strstr(error, scene.path) && strstr(error, "user");
        if (!right)
            fprintf(stderr, "opened or: %s\n", error);
        _exit(right ? 0 : 1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_INT(status, 0);
    expect_right(&scene, (struct compare_how){.is_closed = true}, "read-only");
    scene_free(&scene);
}

static void copy_file(const char *from, const char *to)
{
    FILE *in = fopen(from, "r"), *out = fopen(to, "w");
    char page[4096];
    size_t bytes;
    CHECK(in != NULL && out != NULL);
    while ((bytes = fread(page, 1, sizeof page, in)) > 0)
        CHECK_INT(fwrite(page, 1, bytes, out), bytes);
    fclose(in);
    CHECK_INT(fclose(out), 0);
}

/* A backup put in the place of the ledger: what was used since is not in it. */
static void fault__older_copy__is_not_used_until_adopted(void **state)
{
    (void)state;
    char error[512], old[128];
    struct scene scene = scene_new();
    snprintf(old, sizeof old, "%s-old", scene.path);
    play_whole(&scene, 50, false);
    copy_file(scene.path, old);
    play_whole(&scene, 50, false);
    copy_file(old, scene.path);
    for (int i = 0; i < 2; i++) {
        struct weir_store *st = open_store(&scene, NULL, error);
        CHECK(st == NULL);
        CHECK_MSG(strstr(error, scene.path) != NULL && strstr(error, "--adopt") != NULL, "%s",
                  error);
    }
    play_whole(&scene, 50, true);
    expect_right(&scene, (struct compare_how){.is_closed = true}, "adopted");
    play_whole(&scene, 50, false); /* and from then on it is the ledger */
    expect_right(&scene, (struct compare_how){.is_closed = true}, "after that");
    scene_free(&scene);
}

/* Damages 1 to 4 places of a copy: a page of zeroes or noise, or a few bytes. */
static void damage(const char *path, struct weir_rng *rng)
{
    FILE *file = fopen(path, "r+");
    CHECK(file != NULL && fseek(file, 0, SEEK_END) == 0);
    long bytes = ftell(file);
    for (uint64_t n = weir_rng_between(rng, 1, 4); n > 0; n--) {
        uint8_t noise[4096] = {0};
        bool few = weir_chance(rng, 1, 2);
        size_t length = few ? weir_rng_between(rng, 1, 8) : 4096;
        long at = (long)weir_rng_below(rng, (uint64_t)bytes);
        if (!few)
            at -= at % 4096;
        if (few || weir_chance(rng, 1, 2))
            for (size_t i = 0; i < length; i++)
                noise[i] = (uint8_t)weir_rng_u32(rng);
        if (at + (long)length > bytes)
            length = (size_t)(bytes - at);
        CHECK(fseek(file, at, SEEK_SET) == 0 && fwrite(noise, length, 1, file) == 1);
    }
    CHECK(fclose(file) == 0);
}

/* Opens the damaged file and works with it; how that goes is its own affair, but it ends. */
static bool works(const struct scene *scene, uint64_t seed)
{
    char error[512];
    struct weir_store *st = open_store(scene, NULL, error);
    if (!st) {
        CHECK_MSG(strstr(error, scene->path) != NULL, "seed %llu: %s", (unsigned long long)seed,
                  error);
        return false;
    }
    struct weir_store_op op = {.ledger = {.kind = WEIR_LEDGER_SCOPE,
                                          .scope = weir_store_scope(st, "scope/11"),
                                          .parent = WEIR_NONE,
                                          .unlimited = true}};
    if (weir_store_submit(st, &op))
        for (int i = 0; i < 20; i++) {
            struct weir_store_answer answer;
            struct timespec pause = {.tv_nsec = 1000000};
            if (weir_store_collect(st, 1, &answer, 1) > 0)
                break;
            nanosleep(&pause, NULL);
        }
    weir_store_close(st);
    return true;
}

static void fault__damaged_file__is_noticed_or_complete(void **state)
{
    (void)state;
    int rounds = getenv("WEIR_TEST_LONG") ? 500 : 60, refused = 0, found = 0, whole = 0;
    char old[128], lock[128];
    struct scene scene = scene_new();
    snprintf(old, sizeof old, "%s-old", scene.path);
    snprintf(lock, sizeof lock, "%s.lock", scene.path);
    play_whole(&scene, 300, false);
    copy_file(scene.path, old);
    for (int round = 0; round < rounds; round++) {
        struct weir_rng rng;
        char error[512];
        weir_rng_seed(&rng, (uint64_t)round, 4);
        copy_file(old, scene.path);
        unlink(lock); /* else it is an older copy */
        damage(scene.path, &rng);
        struct weir_verify_report report;
        bool verified = weir_verify(scene.path, &report, error, sizeof error);
        struct comparison compared =
            compare_file(scene.path, scene.record, (struct compare_how){.is_closed = true});
        bool noticed = !verified || report.wrong > 0;
        CHECK_MSG(noticed || compared.lost + compared.unasked == 0, "seed %d: unnoticed: %s", round,
                  compared.first);
        if (!works(&scene, (uint64_t)round))
            refused++;
        else if (noticed)
            found++;
        else
            whole++;
    }
    print_message(
        "# of %d damaged files the store refused %d, verify found %d more, %d were whole\n", rounds,
        refused, found, whole);
    CHECK(refused > 0 && found > 0);
    scene_free(&scene);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        cmocka_set_test_filter(argv[1]); /* a pattern of names, to look at one */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fault__every_write_sync_or_truncate__nothing_told_is_missing),
        cmocka_unit_test(fault__any_write_of_a_start_after_a_kill__lapses_all_the_same),
        cmocka_unit_test(fault__that_lasts__closes_the_ledger_and_is_said_until_it_is_over),
        cmocka_unit_test(fault__again_and_again__the_books_are_right_in_the_end),
        cmocka_unit_test(fault__locked_by_a_stranger__waits_and_goes_on),
        cmocka_unit_test(fault__file_that_may_not_be_written__is_refused_with_its_name),
        cmocka_unit_test(fault__older_copy__is_not_used_until_adopted),
        cmocka_unit_test(fault__damaged_file__is_noticed_or_complete),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
