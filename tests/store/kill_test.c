/* kill -9 at any moment: a child runs the durable store with 256 callers, is killed at random, and the
 * file is compared with the record that it kept in shared memory of all it asked and was told. Again
 * and again over one growing file.
 *
 * Built a second time with WEIR_MUTANT, where the store answers before the commit: then the same
 * comparison has to find losses, or it proves nothing. 10 rounds; 50 with WEIR_TEST_LONG=1. */
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "callers.h"
#include "support/check.h"

#define SAID_MAX 200000
#define ROUND_LIMIT_S 20

struct scene {
    char folder[64], path[96];
    struct record *record;
    uint64_t seed;
};

static struct scene scene_new(uint64_t seed)
{
    struct scene scene = {.seed = seed, .folder = "/tmp/weir-kill-XXXXXX"};
    CHECK(mkdtemp(scene.folder) != NULL);
    snprintf(scene.path, sizeof scene.path, "%s/ledger.db", scene.folder);
    scene.record = record_new(SAID_MAX);
    return scene;
}

static void scene_free(struct scene *scene)
{
    ledger_files_remove(scene->path);
    CHECK_MSG(rmdir(scene->folder) == 0, "%s is not empty", scene->folder);
    record_free(scene->record);
}

#ifdef WEIR_MUTANT
/* The linker sends the store's calls of sql_commit here: the transaction stays open, so three batches
 * of four are answered before they are committed. */
struct sql_store;
bool __real_sql_commit(struct sql_store *s);
bool __wrap_sql_commit(struct sql_store *s);

bool __wrap_sql_commit(struct sql_store *s)
{
    static uint64_t calls;
    return ++calls < 10 || calls % 4 == 0 ? __real_sql_commit(s) : true;
}
#endif

#define KEEP_JOURNAL_S 2000
#define KEEP_FINISHED_S 8000 /* longer than a run */

static struct weir_sqlite_config store_config(const struct scene *scene)
{
    struct weir_sqlite_config config = callers_config(scene->path, NULL, scene->record);
    config.keep_journal_s = KEEP_JOURNAL_S;
    config.keep_finished_s = KEEP_FINISHED_S;
    config.keep_usage_s = KEEP_FINISHED_S;
    return config;
}

/* In the child, until it is killed: work and rest in turn. */
static _Noreturn void child_main(struct scene *scene, uint64_t seed)
{
    char error[512] = "";
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(ROUND_LIMIT_S);
    struct weir_sqlite_config config = store_config(scene);
    struct weir_store *st = weir_sqlite_store_open(&config, error, sizeof error);
    if (!st) {
        fprintf(stderr, "%s\n", error);
        _exit(2);
    }
    struct callers *callers = callers_new(st, scene->record, CALLERS_MAX, CALLERS_SCOPES, seed);
    while (callers && callers_run(callers, 3500, ROUND_LIMIT_S * 1000) &&
           callers_rest(callers, 500))
        ;
    _exit(3); /* the record is full: it ran too long */
}

static uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * WEIR_NS_PER_S + (uint64_t)now.tv_nsec;
}

/* One run to its violent end: at work, or (each third) while the store keeps house. */
static void run_and_kill(struct scene *scene, uint64_t round, struct weir_rng *rng)
{
    bool at_rest = round % 3 == 2;
    uint64_t told_end =
        atomic_load(&scene->record->told) + (at_rest ? UINT32_MAX : weir_rng_between(rng, 1, 3000));
    uint64_t spin_ns = weir_rng_below(rng, at_rest ? 400 * WEIR_NS_PER_MS : 2 * WEIR_NS_PER_MS);
    int status = 0;
    atomic_store(&scene->record->rests, 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        child_main(scene, scene->seed + round);
    while (atomic_load(&scene->record->told) < told_end &&
           atomic_load(&scene->record->rests) == 0 && waitpid(child, &status, WNOHANG) == 0)
        sched_yield();
    for (uint64_t end_ns = clock_ns() + spin_ns; clock_ns() < end_ns;)
        ; /* to end anywhere within a batch */
    kill(child, SIGKILL);
    if (status == 0)
        CHECK(waitpid(child, &status, 0) == child);
    CHECK_MSG(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
              "round %llu, seed %llu: status %d", (unsigned long long)round,
              (unsigned long long)scene->seed, status);
}

/* Rows of earlier runs: nothing of them changes but that what was held lapses, and that what is over
 * is purged. */
static bool is_kept(const struct comparison *before, const struct comparison *now)
{
    int64_t live = 0, live_before = 0;
    for (int i = 0; i < WEIR_HOLD_STATE_COUNT; i++) {
        bool is_live = i == WEIR_HOLD_HELD || i == WEIR_HOLD_LAPSED;
        live += is_live ? now->older_tok[i] : 0;
        live_before += is_live ? before->older_tok[i] : 0;
        if (!is_live &&
            (now->older[i] > before->older[i] || now->older_tok[i] > before->older_tok[i]))
            return false;
    }
    return live == live_before && now->older[WEIR_HOLD_HELD] == 0;
}

/* What the next run will call earlier ones: reads with an epoch that has not been. */
static struct comparison sums_of(const struct scene *scene)
{
    struct record *none = record_new(1);
    none->epoch = WEIR_LEDGER_EPOCH_MAX;
    struct comparison sums = compare_file(scene->path, none, (struct compare_how){0});
    record_free(none);
    return sums;
}

/* Opens the store once more, in this process, and closes it. */
static void open_and_close(const struct scene *scene)
{
    char error[512] = "";
    struct weir_sqlite_config config = store_config(scene);
    struct weir_store *st = weir_sqlite_store_open(&config, error, sizeof error);
    CHECK_MSG(st != NULL, "seed %llu: %s", (unsigned long long)scene->seed, error);
    weir_store_close(st);
}

struct sums {
    int64_t purged_tok, base_seq;
    uint64_t holds, lost, unasked, over_grant, told, refusals;
};

static void play(struct scene *scene, int rounds, struct sums *sums)
{
    struct weir_rng rng;
    struct comparison before = {0};
    weir_rng_seed(&rng, scene->seed, 2);
    for (int round = 0; round < rounds; round++) {
        run_and_kill(scene, (uint64_t)round, &rng);
        struct comparison now = compare_file(scene->path, scene->record, (struct compare_how){0});
        sums->purged_tok = now.purged_tok;
        sums->base_seq = now.base_seq;
        sums->holds += now.holds;
        sums->lost += now.lost + !is_kept(&before, &now);
        sums->unasked += now.unasked;
        sums->over_grant += now.over_grant;
        sums->told = atomic_load(&scene->record->told);
        sums->refusals = scene->record->refusals;
        if (now.first[0] || !is_kept(&before, &now))
            print_message("# round %d, seed %llu: %s\n", round, (unsigned long long)scene->seed,
                          now.first[0] ? now.first : "rows of earlier runs have changed");
        if (now.first[0])
            return; /* a mutant's file is no beginning for another round */
        before = sums_of(scene);
    }
}

static void kill__at_random__loses_nothing_that_was_told(void **state)
{
    (void)state;
    int rounds = getenv("WEIR_TEST_LONG") ? 50 : 10;
    struct scene scene = scene_new(20261130);
    struct sums sums = {0};
    play(&scene, rounds, &sums);
    print_message(
        "# %d kills: %llu answers, %llu holds in the file, %llu refused by the budget, %lld "
        "tokens of holds purged, %lld rows folded\n",
        rounds, (unsigned long long)sums.told, (unsigned long long)sums.holds,
        (unsigned long long)sums.refusals, (long long)sums.purged_tok, (long long)sums.base_seq);
    CHECK_INT(sums.lost, 0);
    CHECK_INT(sums.unasked, 0);
    CHECK_INT(sums.over_grant, 0);
    CHECK(sums.holds > 1000 && sums.refusals > 100); /* the grants did bind */
    CHECK(sums.purged_tok > 0 && sums.base_seq > 0); /* and house was kept */
    open_and_close(&scene);
    struct comparison after =
        compare_file(scene.path, scene.record, (struct compare_how){.has_lapsed = true});
    CHECK_MSG(after.lost + after.unasked + after.over_grant == 0, "%s", after.first);
    scene_free(&scene);
}

/* Each scene of the mutant is a fresh file: after a loss its lock file is ahead of it. */
static void kill__store_that_answers_before_the_commit__is_found_out(void **state)
{
    (void)state;
    struct sums sums = {0};
    int scenes = 0;
    for (; scenes < 20 && sums.lost == 0; scenes++) {
        struct scene scene = scene_new(20261200 + (uint64_t)scenes);
        play(&scene, 1, &sums);
        scene_free(&scene);
    }
    print_message("# found after %d kills: %llu lost\n", scenes, (unsigned long long)sums.lost);
    CHECK(sums.lost > 0);
}

int main(void)
{
#ifdef WEIR_MUTANT
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kill__store_that_answers_before_the_commit__is_found_out),
    };
    (void)kill__at_random__loses_nothing_that_was_told;
#else
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kill__at_random__loses_nothing_that_was_told),
    };
    (void)kill__store_that_answers_before_the_commit__is_found_out;
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
