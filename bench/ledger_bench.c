/* ledger_bench: the durable ledger: throughput, latency beside the disk's own sync, and loading.
 *
 *   ledger_bench [FOLDER] [SECONDS] [closed|open|load] [SLOWER_US]
 *
 * Default: . and 5, all three. Makes FOLDER/weir-ledger-bench-* and removes it. SLOWER_US is added to
 * each sync, to see what a slower disk makes of it.
 *
 * Prints one JSON object a line:
 *
 *   closed  64 callers, each with one reserve under way, its settle beside the next: operations a second, per sync and
 *           per batch; statements, syncs and CPU per operation. Statements are counted in a run of
 *           its own, since counting costs
 *   open    reserves that arrive by chance at a rate, each settled when it is held: time from the
 *           intended arrival to the collected answer, beside the disk's own sync of about as many
 *           bytes; both take turns, a second each, over the whole run
 *   load    1,000,000 holds that lapse at the next start, are loaded at the one after, and verified
 *
 * Syncs and bytes are counted by standing in for fdatasync and pwrite64, which SQLite calls too. */
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/rng.h"
#include "store/store.h"
#include "store/verify.h"

#define SCOPES 1000
#define CALLERS 64
#define SAMPLES_MAX 2000000
#define LOAD_HOLDS 1000000

static _Atomic uint64_t syncs, written_bytes, statements;

static uint64_t clock_of(clockid_t which)
{
    struct timespec now;
    clock_gettime(which, &now);
    return (uint64_t)now.tv_sec * WEIR_NS_PER_S + (uint64_t)now.tv_nsec;
}

static uint64_t now_ns(void)
{
    return clock_of(CLOCK_MONOTONIC);
}

static void sample_sync(uint64_t ns);
static long slower_us; /* added to each sync */

int fdatasync(int fd)
{
    uint64_t begin = now_ns();
    int result = (int)syscall(SYS_fdatasync, fd);
    if (slower_us > 0) {
        struct timespec pause = {.tv_sec = slower_us / 1000000,
                                 .tv_nsec = slower_us % 1000000 * 1000};
        nanosleep(&pause, NULL);
    }
    atomic_fetch_add(&syncs, 1);
    sample_sync(now_ns() - begin);
    return result;
}

ssize_t pwrite64(int fd, const void *data, size_t bytes, off_t offset)
{
    atomic_fetch_add(&written_bytes, bytes);
    return syscall(SYS_pwrite64, fd, data, bytes, offset);
}

static int count_statement(unsigned kind, void *ctx, void *statement, void *text)
{
    (void)kind, (void)ctx, (void)statement, (void)text;
    atomic_fetch_add(&statements, 1);
    return 0;
}

static bool counts_statements;

static int count_statements(sqlite3 *db, char **error, const struct sqlite3_api_routines *api)
{
    (void)error, (void)api;
    return counts_statements ? sqlite3_trace_v2(db, SQLITE_TRACE_STMT, count_statement, NULL)
                             : SQLITE_OK;
}

static _Noreturn void stop(const char *what, const char *text)
{
    fprintf(stderr, "ledger_bench: %s: %s\n", what, text);
    exit(1);
}

/* Samples of a time, in ns. */
struct samples {
    uint64_t *ns;
    size_t count;
};

static void sample(struct samples *s, uint64_t ns)
{
    if (s->count < SAMPLES_MAX)
        s->ns[s->count++] = ns;
}

/* Syncs while on: the store's own. */
static struct samples store_syncs;
static _Atomic bool samples_syncs;

static void sample_sync(uint64_t ns)
{
    if (atomic_load(&samples_syncs))
        sample(&store_syncs, ns);
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static double quantile_us(struct samples *s, double q)
{
    if (s->count == 0)
        return 0;
    qsort(s->ns, s->count, sizeof *s->ns, by_size);
    return (double)s->ns[(size_t)((double)(s->count - 1) * q)] / 1e3;
}

static struct samples samples_new(void)
{
    struct samples s = {.ns = malloc(SAMPLES_MAX * sizeof(uint64_t))};
    if (!s.ns)
        stop("memory", "none left");
    return s;
}

/* The store under test. */

static char folder[512], path[600];

static void say_nothing(enum weir_store_say level, const char *text)
{
    if (level == WEIR_STORE_SAY_ERROR)
        fprintf(stderr, "%s\n", text);
}

static struct weir_store *open_store(void)
{
    char error[512];
    struct weir_sqlite_config config = {.path = path,
                                        .scopes_max = 110000,
                                        .holds_max = 1 << 20,
                                        .finished_keep = 65536,
                                        .keep_finished_s = 86400,
                                        .keep_journal_s = 7 * 86400,
                                        .keep_usage_s = 400 * 86400,
                                        .say = say_nothing};
    struct weir_store *st = weir_sqlite_store_open(&config, error, sizeof error);
    if (!st)
        stop("open", error);
    return st;
}

static void remove_files(void)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", ".lock", ".raw"};
    for (size_t i = 0; i < WEIR_COUNT(suffixes); i++) {
        char name[700];
        snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        unlink(name);
    }
}

static size_t collect(struct weir_store *st, int wait_ms, struct weir_store_answer *answers,
                      size_t answers_max)
{
    size_t count = weir_store_collect(st, now_ns(), answers, answers_max);
    if (count > 0 || wait_ms == 0)
        return count;
    struct pollfd ready = {.fd = weir_store_fd(st), .events = POLLIN};
    poll(&ready, 1, wait_ms);
    return weir_store_collect(st, now_ns(), answers, answers_max);
}

/* Scopes key/0 .. in 10 teams and an organisation; their slots are those of scope_slots. */
static void define_scopes(struct weir_store *st, uint32_t count, uint32_t *slots)
{
    for (uint32_t i = 0, done = 0; done < count;) {
        struct weir_store_answer answers[256];
        while (i < count && i < done + 4096) {
            char name[32];
            snprintf(name, sizeof name, i == 0 ? "org" : i <= 10 ? "team/%u" : "key/%u", i);
            slots[i] = weir_store_scope(st, name);
            struct weir_store_op op = {.ledger = {.kind = WEIR_LEDGER_SCOPE,
                                                  .scope = slots[i],
                                                  .parent = i == 0    ? WEIR_NONE
                                                            : i <= 10 ? slots[0]
                                                                      : slots[1 + i % 10],
                                                  .amount_tok = WEIR_TOK_MAX},
                                       .deadline_ns = WEIR_NEVER_NS,
                                       .is_configured = true};
            if (!weir_store_submit(st, &op))
                break;
            i++;
        }
        size_t got = collect(st, 1000, answers, WEIR_COUNT(answers));
        for (size_t k = 0; k < got; k++)
            if (answers[k].result != WEIR_LEDGER_DONE && answers[k].result != WEIR_LEDGER_SAME)
                stop("scope", weir_ledger_result_name(answers[k].result));
        done += (uint32_t)got;
    }
}

static void submit(struct weir_store *st, enum weir_ledger_kind kind, uint32_t slot, uint64_t hold,
                   uint64_t tag)
{
    struct weir_store_op op = {.ledger = {.kind = kind,
                                          .scope = slot,
                                          .hold = hold,
                                          .amount_tok = kind == WEIR_LEDGER_RESERVE ? 1200 : 700},
                               .tag = tag,
                               .deadline_ns = now_ns() + 60 * WEIR_NS_PER_S,
                               .usage = {.input_tok = 500, .output_tok = 200}};
    if (!weir_store_submit(st, &op))
        stop("submit", "turned away");
}

/* Closed loop. */

struct closed {
    uint64_t ops, took_ns, cpu_ns, loop_cpu_ns, syncs, bytes, statements, batches;
};

static struct closed run_closed(double seconds)
{
    static uint32_t slots[SCOPES];
    struct weir_store *st = open_store();
    struct weir_rng rng;
    struct weir_store_status status;
    define_scopes(st, SCOPES, slots);
    weir_rng_seed(&rng, 1, 0);
    weir_store_status(st, &status);
    struct closed r = {.syncs = atomic_load(&syncs),
                       .bytes = atomic_load(&written_bytes),
                       .statements = atomic_load(&statements),
                       .batches = status.batches,
                       .cpu_ns = clock_of(CLOCK_PROCESS_CPUTIME_ID),
                       .loop_cpu_ns = clock_of(CLOCK_THREAD_CPUTIME_ID)};
    uint64_t begin = now_ns(), end = begin + (uint64_t)(seconds * 1e9), waiting = CALLERS,
             settles = 0;
    for (uint64_t i = 0; i < CALLERS; i++)
        submit(st, WEIR_LEDGER_RESERVE, slots[weir_rng_between(&rng, 11, SCOPES - 1)],
               weir_store_hold_next(st), i);
    while (waiting + settles > 0) {
        struct weir_store_answer answers[CALLERS];
        size_t got = collect(st, 1000, answers, CALLERS);
        bool over = now_ns() > end;
        for (size_t i = 0; i < got; i++) {
            r.ops++;
            if (answers[i].kind == WEIR_LEDGER_SETTLE) {
                settles--;
                continue;
            }
            settles++; /* nobody waits for it, as in the gateway */
            submit(st, WEIR_LEDGER_SETTLE, answers[i].scope, answers[i].hold, answers[i].tag);
            if (!over)
                submit(st, WEIR_LEDGER_RESERVE, slots[weir_rng_between(&rng, 11, SCOPES - 1)],
                       weir_store_hold_next(st), answers[i].tag);
            else
                waiting--;
        }
    }
    r.took_ns = now_ns() - begin;
    r.cpu_ns = clock_of(CLOCK_PROCESS_CPUTIME_ID) - r.cpu_ns;
    r.loop_cpu_ns = clock_of(CLOCK_THREAD_CPUTIME_ID) - r.loop_cpu_ns;
    r.syncs = atomic_load(&syncs) - r.syncs;
    r.bytes = atomic_load(&written_bytes) - r.bytes;
    r.statements = atomic_load(&statements) - r.statements;
    weir_store_status(st, &status);
    r.batches = status.batches - r.batches;
    weir_store_close(st);
    remove_files();
    return r;
}

static void bench_closed(double seconds)
{
    struct closed r = run_closed(seconds);
    counts_statements = true;
    struct closed counted = run_closed(1);
    counts_statements = false;
    double ops = (double)r.ops;
    printf("{\"what\":\"closed\",\"callers\":%d,\"ops_per_s\":%.0f,\"ops_per_sync\":%.1f,"
           "\"ops_per_batch\":%.1f,\"statements_per_op\":%.2f,\"syncs_per_op\":%.4f,"
           "\"written_bytes_per_op\":%.0f,\"cpu_us_per_op\":%.2f,\"ledger_thread_us_per_op\":%.2f,"
           "\"us_per_sync\":%.0f}\n",
           CALLERS, ops * 1e9 / (double)r.took_ns, ops / (double)r.syncs, ops / (double)r.batches,
           (double)counted.statements / (double)counted.ops, (double)r.syncs / ops,
           (double)r.bytes / ops, (double)r.cpu_ns / 1e3 / ops,
           (double)(r.cpu_ns - r.loop_cpu_ns) / 1e3 / ops,
           (double)r.took_ns / 1e3 / (double)r.syncs);
    fflush(stdout);
}

/* The disk's own sync. */

struct raw {
    int fd;
    size_t at, room;
};

static struct raw raw_open(void)
{
    char name[700];
    struct raw raw = {.room = 64u << 20};
    snprintf(name, sizeof name, "%s.raw", path);
    raw.fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    char *zeroes = calloc(1, 1 << 20);
    if (raw.fd < 0 || !zeroes)
        stop(name, "cannot be made");
    for (size_t at = 0; at < raw.room; at += 1 << 20)
        if (pwrite(raw.fd, zeroes, 1 << 20, (off_t)at) != 1 << 20)
            stop(name, "no room");
    free(zeroes);
    fsync(raw.fd);
    return raw;
}

static void raw_run(struct raw *raw, size_t bytes, double seconds, struct samples *samples)
{
    static char data[1 << 20];
    uint64_t end = now_ns() + (uint64_t)(seconds * 1e9);
    while (now_ns() < end) {
        if (raw->at + bytes > raw->room)
            raw->at = 0;
        uint64_t begin = now_ns();
        if (pwrite(raw->fd, data, bytes, (off_t)raw->at) != (ssize_t)bytes ||
            fdatasync(raw->fd) != 0)
            stop("raw", "write failed");
        sample(samples, now_ns() - begin);
        raw->at += bytes;
    }
}

/* Open loop. */

struct open_loop {
    struct weir_store *st;
    struct weir_rng rng;
    uint32_t slots[SCOPES];
    uint64_t *arrived_ns; /* by hold counter, modulo */
    struct samples reserves;
    uint64_t ops, late;
};

#define ARRIVALS_MASK ((1u << 20) - 1)

static void open_answers(struct open_loop *o)
{
    struct weir_store_answer answers[256];
    size_t got;
    do {
        got = weir_store_collect(o->st, now_ns(), answers, WEIR_COUNT(answers));
        uint64_t now = now_ns();
        for (size_t i = 0; i < got; i++) {
            o->ops++;
            if (answers[i].kind != WEIR_LEDGER_RESERVE)
                continue;
            if (answers[i].result != WEIR_LEDGER_HELD)
                stop("reserve", weir_ledger_result_name(answers[i].result));
            sample(&o->reserves, now - o->arrived_ns[answers[i].tag & ARRIVALS_MASK]);
            submit(o->st, WEIR_LEDGER_SETTLE, answers[i].scope, answers[i].hold, answers[i].tag);
        }
    } while (got > 0); /* a last time after the last submit */
}

/* One second of arrivals, and what it takes until all is settled. */
static void open_run(struct open_loop *o, double rate, double seconds)
{
    uint64_t begin = now_ns(), end = begin + (uint64_t)(seconds * 1e9), next = begin;
    uint64_t settled = o->ops, asked = 0;
    struct pollfd ready = {.fd = weir_store_fd(o->st), .events = POLLIN};
    while (next < end || o->ops - settled < 2 * asked) {
        uint64_t now = now_ns();
        while (next < end && next <= now) {
            uint64_t hold = weir_store_hold_next(o->st);
            o->arrived_ns[hold & ARRIVALS_MASK] = next;
            submit(o->st, WEIR_LEDGER_RESERVE, o->slots[weir_rng_between(&o->rng, 11, SCOPES - 1)],
                   hold, hold);
            asked++;
            double chance = ((double)weir_rng_below(&o->rng, 1 << 30) + 1) / (1 << 30);
            next += (uint64_t)(-log(chance) / rate * 1e9);
        }
        open_answers(o); /* this also tells the store that the turn's submits are done */
        now = now_ns();
        if ((next < end && next <= now) || (next >= end && o->ops - settled == 2 * asked))
            continue;
        uint64_t wait = next < end ? next - now : WEIR_NS_PER_S;
        struct timespec timeout = {.tv_sec = (time_t)(wait / WEIR_NS_PER_S),
                                   .tv_nsec = (long)(wait % WEIR_NS_PER_S)};
        ppoll(&ready, 1, &timeout, NULL);
    }
}

static void bench_open(double rate, double seconds)
{
    static struct open_loop o;
    o = (struct open_loop){.st = open_store(),
                           .arrived_ns = malloc((ARRIVALS_MASK + 1) * sizeof(uint64_t)),
                           .reserves = samples_new()};
    struct samples raws = samples_new();
    if (!o.arrived_ns)
        stop("memory", "none left");
    define_scopes(o.st, SCOPES, o.slots);
    weir_rng_seed(&o.rng, 2, 0);
    open_run(&o, rate, 0.5); /* to warm up, and to see how many bytes a commit has */
    o.reserves.count = 0;
    uint64_t bytes_before = atomic_load(&written_bytes), syncs_before = atomic_load(&syncs);
    uint64_t cpu_ns = clock_of(CLOCK_PROCESS_CPUTIME_ID), ops = o.ops;
    open_run(&o, rate, 0.5);
    cpu_ns = clock_of(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns;
    ops = o.ops - ops;
    uint64_t sync_count = atomic_load(&syncs) - syncs_before;
    size_t bytes = (atomic_load(&written_bytes) - bytes_before) / (sync_count ? sync_count : 1);
    bytes = bytes < 512 ? 512 : bytes > 1 << 20 ? 1 << 20 : bytes;
    struct raw raw = raw_open();
    raw_run(&raw, bytes, 0.2, &raws);
    raws.count = 0;
    store_syncs = samples_new();
    for (double done = 0; done < seconds; done += 1) {
        atomic_store(&samples_syncs, true);
        open_run(&o, rate, 1);
        atomic_store(&samples_syncs, false);
        raw_run(&raw, bytes, 1, &raws);
    }
    close(raw.fd);
    double p50 = quantile_us(&o.reserves, 0.5), p99 = quantile_us(&o.reserves, 0.99);
    struct weir_store_status status;
    weir_store_status(o.st, &status);
    double raw50 = quantile_us(&raws, 0.5), raw99 = quantile_us(&raws, 0.99);
    printf("{\"what\":\"open\",\"reserves_per_s\":%.0f,\"reserves\":%zu,\"p50_us\":%.0f,"
           "\"p99_us\":%.0f,\"sync_bytes\":%zu,\"syncs\":%zu,\"sync_p50_us\":%.0f,"
           "\"sync_p99_us\":%.0f,\"store_sync_p50_us\":%.0f,\"store_sync_p99_us\":%.0f,"
           "\"commit_p50_us\":%.0f,\"p50_ratio\":%.2f,\"p99_ratio\":%.2f,\"ops_per_sync\":%.1f,"
           "\"cpu_us_per_op\":%.1f}\n",
           rate, o.reserves.count, p50, p99, bytes, raws.count, raw50, raw99,
           quantile_us(&store_syncs, 0.5), quantile_us(&store_syncs, 0.99),
           (double)status.commit_p50_ns / 1e3, p50 / raw50, p99 / raw99,
           (double)ops / (double)(sync_count ? sync_count : 1),
           (double)cpu_ns / 1e3 / (double)(ops ? ops : 1));
    fflush(stdout);
    weir_store_close(o.st);
    free(o.arrived_ns);
    free(o.reserves.ns);
    free(raws.ns);
    free(store_syncs.ns);
    remove_files();
}

/* Loading. */

static void load_fill(uint32_t scopes)
{
    uint32_t *slots = malloc(scopes * sizeof *slots);
    if (!slots)
        stop("memory", "none left");
    struct weir_store *st = open_store();
    struct weir_rng rng;
    define_scopes(st, scopes, slots);
    weir_rng_seed(&rng, 3, 0);
    for (uint64_t asked = 0, done = 0; done < LOAD_HOLDS;) {
        struct weir_store_answer answers[1024];
        for (; asked < LOAD_HOLDS && asked < done + 8192; asked++)
            submit(st, WEIR_LEDGER_RESERVE, slots[weir_rng_between(&rng, 11, scopes - 1)],
                   weir_store_hold_next(st), asked);
        size_t got = collect(st, 1000, answers, WEIR_COUNT(answers));
        for (size_t i = 0; i < got; i++)
            if (answers[i].result != WEIR_LEDGER_HELD)
                stop("reserve", weir_ledger_result_name(answers[i].result));
        done += got;
    }
    weir_store_close(st);
    free(slots);
}

static double seconds_since(uint64_t begin)
{
    return (double)(now_ns() - begin) / 1e9;
}

static void bench_load(uint32_t scopes)
{
    struct weir_verify_report report;
    struct weir_ledger_stats stats;
    struct rusage usage;
    char error[512];
    load_fill(scopes);
    uint64_t begin = now_ns();
    struct weir_store *st = open_store();
    double lapse_s = seconds_since(begin);
    weir_store_close(st);
    begin = now_ns();
    uint64_t cpu = clock_of(CLOCK_PROCESS_CPUTIME_ID);
    st = open_store();
    double load_s = seconds_since(begin);
    double load_cpu_s = (double)(clock_of(CLOCK_PROCESS_CPUTIME_ID) - cpu) / 1e9;
    weir_store_stats(st, &stats);
    weir_store_close(st);
    begin = now_ns();
    if (!weir_verify(path, &report, error, sizeof error))
        stop("verify", error);
    double verify_s = seconds_since(begin);
    if (report.wrong > 0)
        stop("verify", report.findings[0]);
    getrusage(RUSAGE_SELF, &usage);
    printf("{\"what\":\"load\",\"holds\":%u,\"scopes\":%u,\"lapse_s\":%.3f,\"load_s\":%.3f,"
           "\"load_cpu_s\":%.3f,\"verify_s\":%.3f,\"records\":%lld,\"rss_peak_mb\":%ld}\n",
           stats.lapsed, scopes, lapse_s, load_s, load_cpu_s, verify_s, (long long)report.records,
           usage.ru_maxrss / 1024);
    fflush(stdout);
    remove_files();
}

int main(int argc, char **argv)
{
    double seconds = argc > 2 ? atof(argv[2]) : 5;
    snprintf(folder, sizeof folder, "%s/weir-ledger-bench-XXXXXX", argc > 1 ? argv[1] : ".");
    if (!mkdtemp(folder))
        stop(folder, "cannot be made");
    snprintf(path, sizeof path, "%s/ledger.db", folder);
    sqlite3_auto_extension((void (*)(void))count_statements);
    const char *only = argc > 3 ? argv[3] : "";
    slower_us = argc > 4 ? atol(argv[4]) : 0;
    if (!*only || strcmp(only, "closed") == 0)
        bench_closed(seconds);
    static const double rates[] = {1000, 5000, 20000};
    for (size_t i = 0; i < WEIR_COUNT(rates); i++)
        if (!*only || strcmp(only, "open") == 0)
            bench_open(rates[i], seconds);
    static const uint32_t scopes[] = {1000, 100000};
    for (size_t i = 0; i < WEIR_COUNT(scopes); i++)
        if (!*only || strcmp(only, "load") == 0)
            bench_load(scopes[i]);
    rmdir(folder);
    return 0;
}
