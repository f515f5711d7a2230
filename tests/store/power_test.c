/* Power loss, which a kill cannot show: what was written but not synced may be lost, in part, in any
 * order. A store runs over a disk that remembers; at random operations the files are written out as
 * they would be found afterwards, and the usual store has to open them with nothing missing.
 *
 * The same with synchronous=NORMAL has to lose: it is what the disk's syncs are paid for. 60 points;
 * 300 with WEIR_TEST_LONG=1. */
#include <stdlib.h>
#include <unistd.h>

#include "callers.h"
#include "disk_vfs.h"
#include "support/check.h"

#define SAID_MAX 200000
#define CALLERS 64
#define SCOPES 60
#define OPS_BETWEEN 150

struct scene {
    char folder[64], path[96];      /* where the store runs */
    char after[64], after_path[96]; /* what is found after the loss */
    struct record *record;
    struct weir_rng rng;
    uint64_t seed;
    _Atomic int points;
    int lost, unasked, over_grant, unopened;
    char first[400];
};

static void files_remove(const char *path, const char *folder)
{
    ledger_files_remove(path);
    CHECK_MSG(rmdir(folder) == 0, "%s is not empty", folder);
}

static struct scene *scene_new(uint64_t seed)
{
    struct scene *scene = calloc(1, sizeof *scene);
    WEIR_INVARIANT(scene != NULL);
    scene->seed = seed;
    weir_rng_seed(&scene->rng, seed, 3);
    strcpy(scene->folder, "/tmp/weir-power-XXXXXX");
    strcpy(scene->after, "/tmp/weir-power-XXXXXX");
    CHECK(mkdtemp(scene->folder) != NULL && mkdtemp(scene->after) != NULL);
    snprintf(scene->path, sizeof scene->path, "%s/ledger.db", scene->folder);
    snprintf(scene->after_path, sizeof scene->after_path, "%s/ledger.db", scene->after);
    scene->record = record_new(SAID_MAX);
    return scene;
}

static void scene_free(struct scene *scene)
{
    disk_reset();
    files_remove(scene->path, scene->folder);
    files_remove(scene->after_path, scene->after);
    record_free(scene->record);
    free(scene);
}

/* The lock file is written past SQLite and not synced: at the worst it is there as written last. */
static void copy_lock(const struct scene *scene)
{
    char from[128], to[128], line[256];
    snprintf(from, sizeof from, "%s.lock", scene->path);
    snprintf(to, sizeof to, "%s.lock", scene->after_path);
    FILE *in = fopen(from, "r"), *out = fopen(to, "w");
    WEIR_INVARIANT(in != NULL && out != NULL);
    size_t bytes = fread(line, 1, sizeof line, in);
    WEIR_INVARIANT(fwrite(line, 1, bytes, out) == bytes);
    fclose(in);
    WEIR_INVARIANT(fclose(out) == 0);
}

/* In the store's thread, which stands still before a write: no cmocka here. */
static void power_lost(void *ctx)
{
    struct scene *scene = ctx;
    char error[512] = "";
    ledger_files_remove(scene->after_path);
    disk_leave(scene->after, &scene->rng);
    copy_lock(scene);
    struct weir_sqlite_config config = callers_config(scene->after_path, NULL, scene->record);
    struct weir_store *st = weir_sqlite_store_open(&config, error, sizeof error);
    int point = atomic_load(&scene->points) + 1;
    if (!st) {
        scene->unopened++;
        if (!scene->first[0])
            snprintf(scene->first, sizeof scene->first, "point %d: %.300s", point, error);
        atomic_store(&scene->points, point);
        return;
    }
    weir_store_close(st);
    struct comparison found =
        compare_file(scene->after_path, scene->record,
                     (struct compare_how){.has_lapsed = true, .may_purge = true});
    scene->lost += found.lost > 0;
    scene->unasked += found.unasked > 0;
    scene->over_grant += found.over_grant > 0;
    if (found.first[0] && !scene->first[0])
        snprintf(scene->first, sizeof scene->first, "point %d: %.300s", point, found.first);
    atomic_store(&scene->points, point);
}

static void arm(struct scene *scene, int point, struct callers *callers)
{
    if (point % 10 == 9) {
        disk_cut_in_checkpoint(weir_rng_between(&scene->rng, 1, 100), power_lost, scene);
    } else if (point % 10 == 4) { /* while the store keeps house, or soon after */
        CHECK(callers_finish(callers, 10000));
        disk_cut_at(disk_ops() + weir_rng_between(&scene->rng, 1, 100), power_lost, scene);
        CHECK(callers_rest(callers, 400));
    } else {
        disk_cut_at(disk_ops() + weir_rng_between(&scene->rng, 1, OPS_BETWEEN), power_lost, scene);
    }
}

static void play(struct scene *scene, int points, bool weak)
{
    char error[512] = "";
    disk_reset();
    disk_remember();
    disk_weaken(weak);
    struct weir_sqlite_config config = callers_config(scene->path, DISK_VFS_NAME, scene->record);
    config.keep_journal_s = 1000;
    config.keep_finished_s = 3000;
    config.keep_usage_s = 3000;
    struct weir_store *st = weir_sqlite_store_open(&config, error, sizeof error);
    CHECK_MSG(st != NULL, "%s", error);
    struct callers *callers = callers_new(st, scene->record, CALLERS, SCOPES, scene->seed);
    CHECK(callers != NULL);
    for (int point = 0; point < points; point++) {
        arm(scene, point, callers);
        for (int turns = 0; atomic_load(&scene->points) == point; turns++)
            CHECK_MSG(turns < 20000 && callers_turn(callers, 10), "seed %llu, point %d",
                      (unsigned long long)scene->seed, point);
    }
    CHECK(callers_finish(callers, 10000));
    callers_free(callers);
    weir_store_close(st);
    print_message(
        "# seed %llu: %d points in %llu operations, %llu answers; %d points lost something\n",
        (unsigned long long)scene->seed, scene->points, (unsigned long long)disk_ops(),
        (unsigned long long)atomic_load(&scene->record->told), scene->lost + scene->unopened);
    if (scene->first[0])
        print_message("# %s\n", scene->first);
}

static int points_max(void)
{
    return getenv("WEIR_TEST_LONG") ? 300 : 60;
}

static void power__lost_at_any_write__nothing_told_is_missing(void **state)
{
    (void)state;
    struct scene *scene = scene_new(20261130);
    play(scene, points_max(), false);
    CHECK_INT(scene->points, points_max());
    CHECK_INT(scene->unopened, 0);
    CHECK_INT(scene->lost, 0);
    CHECK_INT(scene->unasked, 0);
    CHECK_INT(scene->over_grant, 0);
    scene_free(scene);
}

/* Loses the power at each operation of a start in turn; left: a ledger that a kill left, NULL: a new
 * file. What is found opens by itself, nobody has to be asked. */
static void play_starts(const char *left, const struct record *record)
{
    uint64_t at = 1;
    int points = 1;
    for (; points == 1; at++) {
        char error[512] = "";
        struct scene *scene = scene_new(at);
        struct record *own = scene->record;
        if (left)
            ledger_copy(left, scene->path);
        disk_reset();
        disk_remember();
        scene->record = left ? (struct record *)record : own;
        disk_cut_at(at, power_lost, scene);
        struct weir_sqlite_config config =
            callers_config(scene->path, DISK_VFS_NAME, scene->record);
        struct weir_store *st = weir_sqlite_store_open(&config, error, sizeof error);
        CHECK_MSG(st != NULL, "%s", error);
        weir_store_close(st);
        points = atomic_load(&scene->points);
        CHECK_MSG(scene->unopened + scene->lost + scene->unasked == 0, "operation %llu: %s",
                  (unsigned long long)at, scene->first);
        scene->record = own;
        scene_free(scene);
        CHECK(at < 1000);
    }
    print_message("# each of %llu operations\n", (unsigned long long)at - 2);
    CHECK(at > 10);
}

static void power__lost_while_the_file_is_made__opens_all_the_same(void **state)
{
    (void)state;
    play_starts(NULL, NULL);
}

static void power__lost_in_a_start_after_a_kill__lapses_all_the_same(void **state)
{
    (void)state;
    struct scene *scene = scene_new(0);
    callers_killed(scene->path, scene->record, 60);
    play_starts(scene->path, scene->record);
    scene_free(scene);
}

static void power__without_a_sync_for_each_commit__is_found_out(void **state)
{
    (void)state;
    struct scene *scene = scene_new(20261131);
    play(scene, 9, true); /* no checkpoint among them: it syncs */
    CHECK_MSG(scene->lost + scene->unopened > 0, "%d points", scene->points);
    scene_free(scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(power__lost_at_any_write__nothing_told_is_missing),
        cmocka_unit_test(power__lost_while_the_file_is_made__opens_all_the_same),
        cmocka_unit_test(power__lost_in_a_start_after_a_kill__lapses_all_the_same),
        cmocka_unit_test(power__without_a_sync_for_each_commit__is_found_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
